//! What every way of a load balancer needs: the Service, what it asks for, and how it comes to its addresses.

use std::time::Duration;

use ccm_sdk::Done;
use ccm_sdk::types::{Failure, Ingress, Service};

use super::done::{ERRORED_REASON, FOREIGN, IGNORED, WITHOUT_DROPLET};
use crate::annotations as names;
use crate::api::balancers::{Balancer, Spec};
use crate::backends::{self, Chosen};
use crate::config::Config;
use crate::desired::{self, Fixed};
use crate::kind::{Kind, Network};
use crate::service_spec::{self, Problems, ServiceSpec};

/// When to look again at one that is being made. All that are share one listing, and the host looks less often at what takes long.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// When to look again at one that could not be made: a person has to act.
const ERRORED: Duration = Duration::from_secs(300);

/// When to look again for an address that may never be told.
const UNKNOWN_ADDRESS: Duration = Duration::from_secs(60);

/// What a call is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    All,
    Droplets,
}

impl Scope {
    pub(super) fn differences(self, has: &Balancer, wants: &Spec) -> Vec<String> {
        match self {
            Self::All => desired::differences(has, wants),
            Self::Droplets if desired::members_differ(has, wants) => vec!["droplets".to_owned()],
            Self::Droplets => vec![],
        }
    }
}

/// What the Service asks for, and what is wrong with that.
///
/// # Errors
///
/// Nobody takes care of it, or it is not clear whether anybody does.
pub(super) fn read(service: &Service) -> Result<(ServiceSpec, Problems), Failure> {
    if service_spec::is_disowned(service)? { Err(disowned()) } else { Ok(service_spec::read(service)) }
}

pub(super) fn disowned() -> Failure {
    Failure::elsewhere(format!("annotation {} says that nobody takes care of it", names::DISOWN))
}

/// One Service and what it asks for.
pub(super) struct Work<'a> {
    pub(super) config: &'a Config,
    pub(super) service: &'a Service,
    pub(super) service_spec: &'a ServiceSpec,
}

/// The addresses, or how to go on without.
pub(super) fn settled(
    service: &Service,
    balancer: &Balancer,
    service_spec: &ServiceSpec,
    done: &mut Done,
) -> Result<Vec<Ingress>, Failure> {
    let ingress = desired::ingress(service, balancer, service_spec.hostname.as_deref());
    if !ingress.is_empty() {
        return Ok(ingress);
    }
    if balancer.status == "errored" {
        let message = format!(
            "load-balancer has unexpected status \"errored\": DigitalOcean could not make {}; delete it there, and a new one is made",
            balancer.id
        );
        done.warn(ERRORED_REASON, message.clone());
        return Err(Failure::retry(message).after(ERRORED));
    }
    if balancer.status == "active" && desired::is_internal(balancer) {
        let message = format!(
            "load balancer {} is active, and DigitalOcean tells no address of it, since it is of network INTERNAL; give it a name with annotation {}",
            balancer.id,
            names::HOSTNAME
        );
        return Err(Failure::retry(message).after(UNKNOWN_ADDRESS).annotation(names::HOSTNAME));
    }
    let message =
        format!("load-balancer is currently being created: {} has the status {:?}", balancer.id, balancer.status);
    Err(Failure::pending(message).after(LOOK_AGAIN))
}

pub(super) fn remark(service: &Service, service_spec: &ServiceSpec, kind: Kind, chosen: &Chosen<'_>, done: &mut Done) {
    desired::remarks(service, service_spec, kind).into_iter().for_each(|problem| done.warn(IGNORED, problem.message));
    if !chosen.foreign.is_empty() {
        let message = format!(
            "Nodes whose provider IDs are none of droplets are behind no load balancer of DigitalOcean: {}",
            backends::names(&chosen.foreign)
        );
        done.for_all.push((FOREIGN, message));
    }
    if !chosen.missing.is_empty() {
        let message = format!("Failed to find droplets for nodes: {}", backends::names(&chosen.missing));
        done.warn(WITHOUT_DROPLET, message);
    }
}

/// Whether Nodes could be reached through another kind of load balancer.
pub(super) fn unreachable(fixed: &Fixed, chosen: &Chosen<'_>) -> bool {
    chosen.unready > 0 && fixed.kind == Kind::Network && fixed.network == Network::External
}

pub(super) fn nobody(fixed: &Fixed, chosen: &Chosen<'_>) -> Failure {
    if unreachable(fixed, chosen) {
        let message = format!(
            "no eligible load balancer backends: a REGIONAL_NETWORK EXTERNAL load balancer needs nodes with a public IPv4 address; make it {} \"REGIONAL\" or {} \"INTERNAL\"",
            names::TYPE,
            names::NETWORK
        );
        return Failure::retry(message);
    }
    Failure::retry("no ready nodes available for load balancer")
}
