//! What a Service asks for.

use std::net::IpAddr;
use std::time::Duration;

use ccm_sdk::annotations::{Invalid, Reader, field};
use ccm_sdk::types::{Failure, IpFamily, Problem, Service};
use ccm_sdk::{duration, quoted};

use super::name;
use crate::annotations::{LB_ADDRESS, LB_DELAY, LB_MODE};
use crate::config::{BalancerMode, LoadBalancers};
use crate::pool::Pool;

/// A Service may leave the Nodes' addresses alone, and not take them.
pub(super) const NODES_REFUSED: &str =
    "`nodes` publishes the Nodes' own addresses, and needs loadBalancer.mode `nodes` in the cloud-config";

ccm_sdk::words! {
    /// Where the addresses of one load balancer come from.
    pub(crate) enum Mode {
        /// Out of the pool.
        Pool = "pool",
        /// They are the Nodes' own.
        Nodes = "nodes",
        /// There is a host name, and no address.
        Hostname = "hostname",
    }
}

impl Mode {
    /// What the Service says, or else the configuration. What nobody understands counts as nothing: [`read`] complains.
    pub(crate) fn of(config: &LoadBalancers, service: &Service) -> Self {
        let own = service.annotation(LB_MODE).and_then(Self::parse);
        own.unwrap_or(match config.mode {
            BalancerMode::Pool | BalancerMode::None => Self::Pool,
            BalancerMode::Nodes => Self::Nodes,
        })
    }
}

/// An address that somebody chose, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Requested {
    pub(crate) ip: IpAddr,
    pub(crate) field: String,
}

/// What a Service asks for, understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServiceSpec {
    pub(crate) mode: Mode,
    /// Of the addresses, in order of preference; never empty.
    pub(crate) families: Vec<IpFamily>,
    pub(crate) requested: Option<Requested>,
    pub(crate) hostname: Option<String>,
    pub(crate) delay: Duration,
}

impl ServiceSpec {
    /// What the Service asks for.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong, with its field.
    pub(crate) fn of(config: &LoadBalancers, service: &Service) -> Result<Self, Failure> {
        let (service_spec, problems) = read(config, service);
        match problems.into_iter().find(|problem| problem.fatal) {
            Some(problem) => Err(problem.into()),
            None => Ok(service_spec),
        }
    }

    /// The chosen address, if it is of this family.
    pub(crate) fn requested_of(&self, family: IpFamily) -> Option<&Requested> {
        self.requested.as_ref().filter(|requested| family_of(requested.ip) == family)
    }
}

pub(crate) fn family_of(ip: IpAddr) -> IpFamily {
    if ip.is_ipv4() { IpFamily::Ipv4 } else { IpFamily::Ipv6 }
}

pub(crate) fn pool_of(config: &LoadBalancers, family: IpFamily) -> &Pool {
    match family {
        IpFamily::Ipv4 => &config.pool4,
        IpFamily::Ipv6 => &config.pool6,
    }
}

/// What the Service asks for, and everything that is wrong with it; defaults stand where something is wrong.
pub(crate) fn read(config: &LoadBalancers, service: &Service) -> (ServiceSpec, Vec<Problem>) {
    let mut reader = Reader::of(&service.annotations);
    if service.ports.is_empty() {
        reader.problems.push(Problem::fatal("spec.ports", "a load balancer needs at least one port"));
    }
    reader.parsed::<Mode>(LB_MODE, str::parse, Invalid::Refuse);
    let mode = Mode::of(config, service);
    let delay = reader.parsed(LB_DELAY, duration::parse, Invalid::Refuse).unwrap_or(config.provision_delay);
    let hostname = config.hostname_suffix.as_ref().map(|suffix| format!("{}.{suffix}", name(service)));
    if mode == Mode::Hostname && hostname.is_none() {
        let message = "`hostname` needs loadBalancer.hostnameSuffix in the cloud-config";
        reader.refuse(LB_MODE, message);
    }
    // Whoever listens on a Node's own address listens on the Node.
    if mode == Mode::Nodes && config.mode != BalancerMode::Nodes {
        reader.refuse(LB_MODE, NODES_REFUSED);
    }
    let families = if service.ip_families.is_empty() { vec![IpFamily::Ipv4] } else { service.ip_families.clone() };
    if mode == Mode::Pool {
        for (family, word, key) in [(IpFamily::Ipv4, "IPv4", "pool4"), (IpFamily::Ipv6, "IPv6", "pool6")] {
            if families.contains(&family) && pool_of(config, family).size() == 0 {
                let message = format!("{word} needs loadBalancer.{key} in the cloud-config");
                reader.problems.push(Problem::fatal("spec.ipFamilies", message));
            }
        }
    }
    let mut problems = reader.problems;
    let requested = requested(service, &mut problems);
    if let Some(Requested { ip, field }) = &requested {
        problems.extend(
            wrong_place(config, mode, &families, *ip)
                .map(|(message, fatal)| Problem { fatal, ..Problem::fatal(field.clone(), message) }),
        );
    }
    (ServiceSpec { mode, families, requested, hostname, delay }, problems)
}

/// The annotation, or else the field of the Service's own.
fn requested(service: &Service, problems: &mut Vec<Problem>) -> Option<Requested> {
    let (text, field) = match (service.annotation(LB_ADDRESS), &service.requested_ip) {
        (Some(text), _) => (text, field(LB_ADDRESS)),
        (None, Some(text)) => (text.as_str(), "spec.loadBalancerIP".to_owned()),
        (None, None) => return None,
    };
    match text.parse() {
        Ok(ip) => Some(Requested { ip, field }),
        Err(_) => {
            problems.push(Problem::fatal(field, format!("must be an IP address, not {}", quoted(text))));
            None
        }
    }
}

/// What is wrong with a chosen address, and whether it is refused.
fn wrong_place(config: &LoadBalancers, mode: Mode, families: &[IpFamily], ip: IpAddr) -> Option<(String, bool)> {
    let family = family_of(ip);
    if mode != Mode::Pool {
        return Some((format!("has no effect in mode `{mode}`"), false));
    }
    if !pool_of(config, family).contains(ip) {
        return Some((format!("address {ip} is outside the pool"), true));
    }
    if !families.contains(&family) {
        return Some((format!("address {ip} has a family that spec.ipFamilies lacks"), true));
    }
    None
}
