//! What a load balancer should be, and how that differs from what it is.

pub(crate) mod rules;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use ccm_sdk::annotations::field;
use ccm_sdk::types::{Failure, Ingress, Problem, Service};

use crate::annotations as names;
use crate::api::balancers::{Balancer, HealthCheck, Rule, Spec, Sticky};
use crate::backends::{self, Chosen};
use crate::config::Config;
use crate::kind::{self, HealthProtocol, Kind, Network, Stack};
use crate::service_spec::{ServiceSpec, canonical, id_of};
use ccm_sdk::ordered;

/// What cannot be changed once it is made, but for what the load balancer is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fixed {
    pub(crate) kind: Kind,
    pub(crate) network: Network,
    /// `None` where it is not known, and computed.
    pub(crate) stack: Option<Stack>,
    pub(crate) region: String,
    pub(crate) vpc: Option<String>,
    pub(crate) subnet: Option<String>,
}

impl Fixed {
    /// For a new one.
    pub(crate) fn of_new(service_spec: &ServiceSpec, config: &Config, region: String) -> Self {
        Self {
            kind: service_spec.kind.unwrap_or(config.default_type),
            network: service_spec.network.unwrap_or(Network::External),
            stack: None,
            region,
            vpc: config.vpc.clone(),
            subnet: service_spec.subnet.clone(),
        }
    }

    /// Of one that exists: what it is counts, not what is asked for.
    ///
    /// # Errors
    ///
    /// It is of a type that cannot serve Services.
    pub(crate) fn of(balancer: &Balancer, service_spec: &ServiceSpec, config: &Config) -> Result<Self, Failure> {
        let new = Self::of_new(service_spec, config, config.region.clone().unwrap_or_default());
        let kind = match Kind::parse(&balancer.kind) {
            Some(kind) => kind,
            None if balancer.kind.is_empty() => new.kind,
            None => {
                let message = format!(
                    "load balancer {} has the type {}, and a Service can have REGIONAL or REGIONAL_NETWORK; take another one off annotation {}",
                    balancer.id,
                    balancer.kind,
                    names::ID
                );
                return Err(Failure::conflict(message));
            }
        };
        let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        Ok(Self {
            kind,
            network: Network::parse(&balancer.network).unwrap_or(new.network),
            stack: Stack::parse(&balancer.network_stack),
            region: text(&balancer.region.slug).unwrap_or(new.region),
            vpc: text(&balancer.vpc_uuid).or(new.vpc),
            subnet: text(&balancer.subnet_uuid).or(new.subnet),
        })
    }

    /// What is asked for and cannot be had, for people.
    pub(crate) fn remarks(&self, service_spec: &ServiceSpec, config: &Config) -> Vec<String> {
        let mut remarks = vec![];
        let mut differ = |what: &str, has: &str, wants: Option<&str>| {
            if let Some(wants) = wants.filter(|wants| !wants.eq_ignore_ascii_case(has)) {
                remarks
                    .push(format!("{what} asks for {wants}, and the load balancer has {has}, which cannot be changed"));
            }
        };
        differ(names::TYPE, self.kind.text(), service_spec.kind.map(Kind::text));
        differ(names::NETWORK, self.network.text(), service_spec.network.map(Network::text));
        if let Some(stack) = self.stack {
            differ(names::NETWORK_STACK, stack.text(), service_spec.stack.map(Stack::text));
        }
        if let Some(vpc) = &self.vpc {
            differ("DO_CLUSTER_VPC_ID", vpc, config.vpc.as_deref());
        }
        if let Some(subnet) = &self.subnet {
            differ(names::SUBNET, subnet, service_spec.subnet.as_deref());
        }
        remarks
    }
}

/// Everything that a [`Spec`] is made of.
pub(crate) struct Parts<'a> {
    pub(crate) service_spec: &'a ServiceSpec,
    pub(crate) fixed: &'a Fixed,
    /// `None` when they are not known, and the spec has none.
    pub(crate) nodes: Option<&'a Chosen<'a>>,
    pub(crate) certificate: Option<&'a str>,
}

/// # Errors
///
/// The Service asks for something that is not possible.
pub(crate) fn spec(parts: &Parts<'_>) -> Result<Spec, Failure> {
    let Parts { service_spec, fixed, nodes, certificate } = parts;
    let stack = match fixed.stack {
        Some(stack) => stack,
        None => stack(service_spec, fixed, *nodes)?,
    };
    let forwarding_rules = rules::rules(service_spec, fixed.kind, *certificate).map_err(invalid)?;
    let (protocol, port, path, proxy_protocol) =
        service_spec.health.target.as_ref().map_err(|wrong| invalid(wrong.clone()))?.parts();
    let firewall = service_spec.firewall().map_err(invalid)?;
    // One that passes packets through has the defaults of all that it cannot do: the cloud may refuse anything else.
    let regional = fixed.kind == Kind::Regional;
    Ok(Spec {
        name: service_spec.name.clone(),
        algorithm: service_spec.algorithm,
        region: fixed.region.clone(),
        size: service_spec.size.map(kind::Size::text),
        size_unit: service_spec.size_unit,
        kind: fixed.kind.text(),
        forwarding_rules,
        health_check: HealthCheck {
            protocol: protocol.to_owned(),
            port: port.into(),
            path: path.to_owned(),
            check_interval_seconds: service_spec.health.interval,
            response_timeout_seconds: service_spec.health.timeout,
            unhealthy_threshold: service_spec.health.unhealthy,
            healthy_threshold: service_spec.health.healthy,
            proxy_protocol,
        },
        sticky_sessions: match service_spec.cookie.as_ref().filter(|_| regional) {
            Some(cookie) => Sticky {
                kind: kind::Sticky::Cookies.text().to_owned(),
                cookie_name: cookie.name.clone(),
                cookie_ttl_seconds: Some(cookie.ttl_seconds),
            },
            None => Sticky { kind: kind::Sticky::None.text().to_owned(), ..Sticky::default() },
        },
        droplet_ids: nodes.map(|nodes| nodes.ids.clone()).unwrap_or_default(),
        tags: vec![],
        redirect_http_to_https: regional && service_spec.redirect,
        enable_proxy_protocol: regional && service_spec.proxy_protocol,
        enable_backend_keepalive: regional && service_spec.keepalive,
        vpc_uuid: fixed.vpc.clone(),
        subnet_uuid: fixed.subnet.clone(),
        disable_lets_encrypt_dns_records: regional && service_spec.no_dns_records,
        project_id: None,
        validate_only: false,
        http_idle_timeout_seconds: service_spec.idle_timeout.filter(|_| regional),
        firewall,
        network: fixed.network.text(),
        network_stack: stack.text(),
        ip: None,
    })
}

pub(crate) fn invalid(problem: Problem) -> Failure {
    Failure::from(problem).context("failed to build load-balancer request")
}

/// Of a new load balancer.
fn stack(service_spec: &ServiceSpec, fixed: &Fixed, nodes: Option<&Chosen<'_>>) -> Result<Stack, Failure> {
    let v4_only = nodes.map(|nodes| nodes.v4_only.as_slice()).unwrap_or_default();
    match (fixed.network, fixed.kind, service_spec.stack) {
        // That DUALSTACK cannot be is told when the annotations are read.
        (Network::Internal, _, _) | (Network::External, _, Some(Stack::Ipv4)) => Ok(Stack::Ipv4),
        (Network::External, Kind::Regional, _) => Ok(Stack::Dual),
        (Network::External, Kind::Network, Some(Stack::Dual)) if v4_only.is_empty() => Ok(Stack::Dual),
        (Network::External, Kind::Network, Some(Stack::Dual)) => {
            let message = format!(
                "network stack configuration error: {} has the value \"DUALSTACK\", and nodes without public IPv6 address cannot be behind a dual-stack REGIONAL_NETWORK load balancer: {}; allowed is IPV4",
                names::NETWORK_STACK,
                backends::names(v4_only)
            );
            Err(Failure::invalid(message).annotation(names::NETWORK_STACK))
        }
        (Network::External, Kind::Network, None) => {
            Ok(if nodes.is_some() && v4_only.is_empty() { Stack::Dual } else { Stack::Ipv4 })
        }
    }
}

/// What differs of what is this provider's, for people; empty when nothing does. What cannot be changed never differs, nor does
/// what has no effect: a cloud may keep it as somebody once wrote it.
pub(crate) fn differences(has: &Balancer, wants: &Spec) -> Vec<String> {
    let regional = wants.kind == Kind::Regional.text();
    let parts = [
        (has.name != wants.name, "name"),
        (!alike(&has.forwarding_rules, &wants.forwarding_rules), "forwarding rules"),
        (health_differs(&has.health_check, &wants.health_check), "health check"),
        (regional && sticky(&has.sticky_sessions) != sticky(&wants.sticky_sessions), "sticky sessions"),
        (members_differ(has, wants), "droplets"),
        (size_differs(has, wants), "size"),
        (regional && has.redirect_http_to_https != wants.redirect_http_to_https, "redirect to HTTPS"),
        (regional && has.enable_proxy_protocol != wants.enable_proxy_protocol, "PROXY protocol"),
        (regional && has.enable_backend_keepalive != wants.enable_backend_keepalive, "keepalive"),
        (regional && has.disable_lets_encrypt_dns_records != wants.disable_lets_encrypt_dns_records, "DNS records"),
        (regional && idle(has.http_idle_timeout_seconds) != idle(wants.http_idle_timeout_seconds), "idle time-out"),
        (peers(&has.firewall.allow) != peers(&wants.firewall.allow), "who is let in"),
        (peers(&has.firewall.deny) != peers(&wants.firewall.deny), "who is kept out"),
    ];
    parts.into_iter().filter(|(differs, _)| *differs).map(|(_, part)| part.to_owned()).collect()
}

/// Those that a tag chooses are others tomorrow.
pub(crate) fn members_differ(has: &Balancer, wants: &Spec) -> bool {
    let members = |ids: &[u64]| backends::in_order(ids.to_vec());
    !has.tag.is_empty() || members(&has.droplet_ids) != members(&wants.droplet_ids)
}

/// A cloud may write addresses otherwise than whoever asked for them.
fn peers(rules: &[String]) -> BTreeSet<String> {
    ordered::set(rules.iter().map(|rule| canonical(rule)))
}

/// In any order. There are few.
fn alike(one: &[Rule], other: &[Rule]) -> bool {
    let has_all = |one: &[Rule], other: &[Rule]| other.iter().all(|rule| one.contains(rule));
    has_all(one, other) && has_all(other, one)
}

/// What is not told of the PROXY protocol does not differ. A check by TCP asks for no path, whatever the cloud answers, and no
/// path is the root.
fn health_differs(has: &HealthCheck, wants: &HealthCheck) -> bool {
    let proxy_protocol = has.proxy_protocol.and(wants.proxy_protocol);
    let counts = |check: &HealthCheck| {
        let asks = check.protocol != HealthProtocol::Tcp.text() && check.path != "/";
        let path = if asks { check.path.clone() } else { String::new() };
        HealthCheck { proxy_protocol, path, ..check.clone() }
    };
    let alike = counts(has) == counts(wants);
    !alike || (proxy_protocol.is_some() && has.proxy_protocol != wants.proxy_protocol)
}

fn sticky(sticky: &Sticky) -> Option<(&str, i64)> {
    (sticky.kind == kind::Sticky::Cookies.text())
        .then(|| (sticky.cookie_name.as_str(), sticky.cookie_ttl_seconds.unwrap_or(0)))
}

/// What a write would reset, and nobody asks for: a Node that joins must not move a load balancer to another project, nor make
/// one small that somebody made large.
pub(crate) fn keep(spec: &mut Spec, service_spec: &ServiceSpec, has: &Balancer) {
    spec.project_id = Some(has.project_id.clone()).filter(|id| !id.is_empty());
    if service_spec.size.is_none() && service_spec.size_unit.is_none() {
        keep_size(spec, has);
    }
}

/// Asks for the size that it has. What is left out gets its default, the smallest one.
pub(crate) fn keep_size(spec: &mut Spec, has: &Balancer) {
    let units = Some(has.size_unit).filter(|units| *units > 0);
    let name = kind::Size::parse(&has.size)
        .filter(|name| spec.size.is_some() || units.is_none_or(|units| units == name.units()));
    (spec.size, spec.size_unit) = match (name, units) {
        // Some regions take names only, and what is left out is the smallest.
        _ if spec.size_unit.is_some() && units.is_some() => (None, units),
        (Some(kind::Size::Small), _) | (None, Some(1)) if spec.size.is_none() => (None, None),
        (Some(name), _) => (Some(name.text()), None),
        (None, units) => (None, units),
    };
}

/// For people.
pub(crate) fn size_words(spec: &Spec) -> String {
    match (spec.size, spec.size_unit) {
        (Some(name), _) => name.to_owned(),
        (None, Some(1) | None) => "1 node".to_owned(),
        (None, Some(units)) => format!("{units} nodes"),
    }
}

/// A cloud may tell a size by name, in units, or both. What it cannot tell in its words does not differ.
pub(crate) fn size_differs(has: &Balancer, wants: &Spec) -> bool {
    let units = |name: &str| kind::Size::parse(name).map(kind::Size::units);
    match (wants.size, wants.size_unit) {
        (Some(name), _) if !has.size.is_empty() => has.size != name,
        (Some(name), _) => has.size_unit != 0 && units(name) != Some(has.size_unit),
        (None, Some(unit)) if has.size_unit != 0 => has.size_unit != unit,
        (None, Some(unit)) => {
            let has_name = kind::Size::ALL.iter().any(|name| units(name) == Some(unit));
            has_name && units(&has.size).is_some_and(|has| has != unit)
        }
        (None, None) => false,
    }
}

/// DigitalOcean's default.
fn idle(seconds: Option<i64>) -> i64 {
    seconds.unwrap_or(60)
}

/// Where clients reach it; nothing while it has no address. One of network INTERNAL has no public one, and perhaps none that is
/// told: then its name alone is known. An IPv6 address that the answer lacks is that of the status, if that is about the same one.
pub(crate) fn ingress(service: &Service, balancer: &Balancer, asked_hostname: Option<&str>) -> Vec<Ingress> {
    let has_address = !balancer.ip.is_empty() || (asked_hostname.is_some() && is_internal(balancer));
    if balancer.status != "active" || !has_address {
        return vec![];
    }
    if let Some(hostname) = asked_hostname {
        return vec![Ingress::hostname(hostname)];
    }
    let ends_tls = || balancer.forwarding_rules.iter().any(|rule| !rule.certificate_id.is_empty());
    let regional = Kind::parse(&balancer.kind) != Some(Kind::Network);
    let address = |ip: &str| {
        let ingress = Ingress::ip(ip);
        if regional && (balancer.enable_proxy_protocol || ends_tls()) { ingress.proxied() } else { ingress }
    };
    let v6 = if balancer.ipv6.is_empty() { known_v6(service, balancer) } else { Some(balancer.ipv6.as_str()) };
    [Some(balancer.ip.as_str()), v6].into_iter().flatten().filter(|ip| !ip.is_empty()).map(address).collect()
}

/// The description of the API does not promise it in each answer, and clients that use it would lose it.
fn known_v6<'a>(service: &'a Service, balancer: &Balancer) -> Option<&'a str> {
    let is_same = id_of(service).is_some_and(|id| balancer.has_id(id));
    let is_single = Stack::parse(&balancer.network_stack) == Some(Stack::Ipv4);
    let mut known = service.ingress.iter().filter_map(|ingress| ingress.ip.as_deref());
    let has_v4 = known.clone().any(|ip| ip == balancer.ip);
    known.find(|ip| ip.contains(':')).filter(|_| is_same && has_v4 && !is_single)
}

pub(crate) fn is_internal(balancer: &Balancer) -> bool {
    Network::parse(&balancer.network) == Some(Network::Internal)
}

/// Cookies are set in HTTP that the load balancer reads.
fn idle_cookies(service_spec: &ServiceSpec) -> Option<Problem> {
    service_spec.cookie.as_ref()?;
    let rules = rules::rules(service_spec, Kind::Regional, service_spec.certificate.text()).ok()?;
    let reads = |rule: &Rule| rule.entry_protocol.starts_with("http") && !rule.tls_passthrough;
    let name = names::STICKY_TYPE;
    let message = format!(
        "annotation {name} has no effect: no port of the Service has http, https or http2 that ends at the load balancer, and only these have cookies"
    );
    (!rules.iter().any(reads)).then(|| Problem::harmless(field(name), message))
}

/// What works, but not as whoever wrote it may think.
pub(crate) fn remarks(service: &Service, service_spec: &ServiceSpec, kind: Kind) -> Vec<Problem> {
    if kind == Kind::Regional {
        let nobodys = |number: &i64| service_spec.ports.iter().all(|port| i64::from(port.port) != *number);
        let told = |number: i64| {
            let name = names::HTTP3_PORT;
            let message = format!("annotation {name} has no effect: {number} is no port of the Service");
            Problem::harmless(field(name), message)
        };
        let http3 = service_spec.http3_port.filter(nobodys).map(told);
        return http3.into_iter().chain(idle_cookies(service_spec)).collect();
    }
    let present = names::REGIONAL_ONLY.into_iter().filter(|name| service.annotation(name).is_some());
    let mut remarks: Vec<Problem> = present
        .map(|name| {
            let message = format!("annotation {name} has no effect: the load balancer is of type REGIONAL_NETWORK, and only REGIONAL ones have it");
            Problem::harmless(field(name), message)
        })
        .collect();
    if service.annotation(names::HOSTNAME).is_some_and(|name| !name.trim().is_empty()) {
        let message = format!(
            "annotation {} hides the address of a REGIONAL_NETWORK load balancer from kube-proxy, whose traffic then has nowhere to go",
            names::HOSTNAME
        );
        remarks.push(Problem::harmless(field(names::HOSTNAME), message));
    }
    remarks
}
