//! The firewall that opens what must be public, in front of droplets that a default-deny firewall closes.
//!
//! | Service | open |
//! |---|---|
//! | `NodePort` | its node ports, to everybody |
//! | with an external `REGIONAL_NETWORK` load balancer | its ports, to its source ranges; the ports that are checked and are to be checked, to its load balancer |
//! | of a class, without a load balancer here | the same with `firewall-managed: "true"`, nothing without |
//! | any other, and with `firewall-managed: "false"` | nothing |
//!
//! What is open for a Service stays open until the Service is gone, and while its load balancer cannot be asked for.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::time::Duration;

use ccm_sdk::cidr::SourceRanges;
use ccm_sdk::types::{self, Failure, Problem, Reaction, Service, ServiceType, Subject};
use ccm_sdk::{Answer, log};

use crate::annotations as names;
use crate::api::balancers::Balancer;
use crate::api::firewalls::{self, Inbound, Outbound, Peers, Spec};
use crate::balancer::{Seen, among};
use crate::config::{self, Config};
use crate::desired::{self, Fixed};
use crate::kind::{Kind, Network};
use crate::service_spec::{self, ServiceSpec, id_of, is_served};
use ccm_sdk::ordered;

const EVERYBODY: [&str; 2] = ["0.0.0.0/0", "::/0"];

/// When to try again what a person has to do in the account.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// # Errors
///
/// The firewall cannot be read or written.
pub(crate) fn reconcile(
    config: &Config,
    firewall: &config::Firewall,
    services: &[Service],
    seen: &Seen,
) -> Result<Vec<(Subject, Failure)>, Failure> {
    let has = firewalls::named(&firewall.name)?;
    let present = has.as_ref().map(|has| has.spec.inbound_rules.as_slice()).unwrap_or_default();
    let (desired, failures) = desired(config, firewall, services, seen, present);
    let done = match has {
        Some(has) if !differs(&has.spec, &desired) => return Ok(failures),
        Some(has) if replace(&has.id, &desired).map_err(|failure| failure.context("failed to update firewall"))? => {
            "firewall changed"
        }
        _ => {
            create(&desired).map_err(|failure| failure.context("failed to create firewall"))?;
            "firewall made"
        }
    };
    log::info(done, &[("firewall", &words(&desired))]);
    Ok(failures)
}

/// For the log: name, what is open to whom, tags.
fn words(spec: &Spec) -> String {
    let rules = |rules: BTreeSet<String>| rules.into_iter().collect::<Vec<_>>().join("; ");
    let (inbound, outbound) = (rules(inbound(spec)), rules(outbound(spec)));
    format!("{}: in: {inbound}; out: {outbound}; tags: {}", spec.name, spec.tags.join(","))
}

fn create(desired: &Spec) -> Result<(), Failure> {
    let answer = firewalls::create(desired)?;
    lacking(&answer, desired).map_or_else(|| answer.done(), Err)
}

/// False when it is gone.
fn replace(id: &str, desired: &Spec) -> Result<bool, Failure> {
    let answer = firewalls::replace(id, desired)?;
    lacking(&answer, desired).map_or_else(|| answer.optional().map(|answer| answer.is_some()), Err)
}

/// A firewall that names a tag that is not there is refused, and nothing that changes in the cluster makes one.
fn lacking(answer: &Answer, desired: &Spec) -> Option<Failure> {
    if !matches!(answer.status(), 400 | 404 | 422) || !answer.says("tag") {
        return None;
    }
    let message = answer.message().unwrap_or_default();
    let words = || message.split(|letter: char| !letter.is_ascii_alphanumeric() && !matches!(letter, ':' | '-' | '_'));
    let is_named = |tag: &&String| words().any(|word| word.eq_ignore_ascii_case(tag));
    let quoted = |tags: Vec<&String>| tags.iter().map(|tag| format!("{tag:?}")).collect::<Vec<_>>().join(", ");
    let (named, all) = (quoted(desired.tags.iter().filter(is_named).collect()), quoted(desired.tags.iter().collect()));
    let which = if named.is_empty() { format!("one of the tags {all}") } else { format!("the tag {named}") };
    let failure = answer.failure(Reaction::Retry);
    let message = format!(
        "{which}, for which {} asks, is not in the account, and a firewall only names tags that are: give it to the droplets \
         behind the firewall, or make it, or take it out there; {}",
        config::FIREWALL_TAGS_VARIABLE,
        failure.message
    );
    Some(Failure { message, ..failure }.after(LOOK_AGAIN))
}

/// Whether it may have a load balancer whose ports are open. One of another class has its load balancer from somebody else: whether
/// that needs the ports, only people know.
pub(crate) fn is_open(service: &Service) -> bool {
    let is_asked_for = || service_spec::asks_to_be_managed(service);
    service.kind == ServiceType::LoadBalancer && is_managed(service) && (is_served(service) || is_asked_for())
}

/// `present` is what the firewall lets in now.
fn desired(
    config: &Config,
    firewall: &config::Firewall,
    services: &[Service],
    seen: &Seen,
    present: &[Inbound],
) -> (Spec, Vec<(Subject, Failure)>) {
    let (mut rules, mut failures) = (BTreeSet::new(), vec![]);
    for service in services {
        match open(config, service, seen, present) {
            Ok(open) => rules.extend(open),
            // The rules of the others do not depend on it.
            Err(failure) => failures.push((service.subject(), failure)),
        }
    }
    let inbound =
        |(protocol, ports, sources): (&str, String, Peers)| Inbound { protocol: protocol.to_owned(), ports, sources };
    let outbound = |(protocol, ports): (&str, &str)| Outbound {
        protocol: protocol.to_owned(),
        ports: ports.to_owned(),
        destinations: everybody(),
    };
    let spec = Spec {
        name: firewall.name.clone(),
        inbound_rules: rules.into_iter().map(inbound).collect(),
        outbound_rules: [("tcp", "all"), ("udp", "all"), ("icmp", "0")].map(outbound).to_vec(),
        droplet_ids: vec![],
        tags: firewall.tags.clone(),
    };
    (spec, failures)
}

/// Protocol, port and from where: in this order they are sorted.
type Open = (&'static str, String, Peers);

fn open(config: &Config, service: &Service, seen: &Seen, present: &[Inbound]) -> Result<Vec<Open>, Failure> {
    if !is_managed(service) {
        return Ok(vec![]);
    }
    match service.kind {
        ServiceType::NodePort => {
            let ports = service.ports.iter().filter_map(|port| Some((protocol(port.protocol)?, port.node_port?)));
            Ok(ports
                .filter(|(_, port)| *port > 0)
                .map(|(protocol, port)| (protocol, port.to_string(), everybody()))
                .collect())
        }
        ServiceType::LoadBalancer if is_open(service) => of_balancer(config, service, seen, present),
        _ => Ok(vec![]),
    }
}

fn of_balancer(config: &Config, service: &Service, seen: &Seen, present: &[Inbound]) -> Result<Vec<Open>, Failure> {
    let (service_spec, problems) = service_spec::read(service);
    let balancer = among(config, &seen.all, service, &service_spec);
    if balancer.is_none() && is_served(service) && seen.doubt(service).is_some() {
        return Ok(kept(service, &service_spec, &seen.all, present));
    }
    let fixed = fixed(config, &service_spec, balancer)?;
    // What is wrong elsewhere is told when the load balancer is made, and closes nothing that is open.
    let matters = |problem: &Problem| {
        balancer.is_none() && (problem.field.contains(names::TYPE) || problem.field.contains(names::NETWORK))
    };
    let problems = problems.of(Some(fixed.kind));
    if let Some(failure) = service_spec::refusal(problems.into_iter().filter(matters).collect()) {
        return Err(failure);
    }
    if fixed.kind != Kind::Network || fixed.network != Network::External {
        return Ok(vec![]);
    }
    let sources = clients(service_spec.source_ranges.as_ref().map_err(|wrong| desired::invalid(wrong.clone()))?);
    let mut open: Vec<Open> = service_spec
        .ports
        .iter()
        .map(|port| (if port.udp { "udp" } else { "tcp" }, port.port.to_string(), sources.clone()))
        .collect();
    // Until the load balancer is known, nobody has to check.
    if let Some(balancer) = balancer {
        let only = Peers { load_balancer_uids: vec![balancer.id.clone()], ..Peers::default() };
        // What it checks now, until it is what the Service asks for: that may never be.
        let asks = service_spec.health.target.ok().map(|target| i64::from(target.parts().1));
        // A firewall takes 0 for all ports.
        let checks = [Some(balancer.health_check.port), asks].into_iter().flatten();
        let ports = checks.filter(|port| (1..=i64::from(u16::MAX)).contains(port)).map(|port| port.to_string());
        open.extend(ordered::set(ports).into_iter().map(|port| ("tcp", port, only.clone())));
    }
    Ok(open)
}

fn clients(ranges: &SourceRanges) -> Peers {
    match ranges {
        SourceRanges::Everybody => everybody(),
        SourceRanges::Only(networks) => {
            Peers { addresses: networks.iter().map(ToString::to_string).collect(), ..Peers::default() }
        }
    }
}

/// What is open now for a Service whose load balancer is not known: its ports, and what is checked by its load balancer, or by one that
/// may be that. Where a port is open to those to whom the Service opens it, that of others on the same port is somebody else's.
fn kept(service: &Service, service_spec: &ServiceSpec, known: &[Balancer], present: &[Inbound]) -> Vec<Open> {
    let is_port = |protocol: &str, ports: &str| {
        let is_same = |port: &service_spec::Port| (protocol == "udp") == port.udp && port.port.to_string() == ports;
        service_spec.ports.iter().any(is_same)
    };
    let set = |addresses: &[String]| ordered::set(addresses.iter().cloned());
    let asks = service_spec.source_ranges.as_ref().ok().map(|ranges| set(&clients(ranges).addresses));
    let is_asked_for = |rule: &Inbound| asks.as_ref() == Some(&set(&rule.sources.addresses));
    let is_to_others = |rule: &Inbound| {
        let is_same = |other: &&Inbound| other.protocol == rule.protocol && other.ports == rule.ports;
        !is_asked_for(rule) && present.iter().filter(is_same).any(is_asked_for)
    };
    let id = id_of(service);
    let may_be_its = |uid: &String| match id {
        Some(id) => uid.eq_ignore_ascii_case(id),
        None => !known.iter().any(|balancer| balancer.has_id(uid)),
    };
    let rule = |rule: &Inbound| {
        let protocol = ["tcp", "udp"].into_iter().find(|protocol| *protocol == rule.protocol)?;
        let Peers { addresses, load_balancer_uids } = &rule.sources;
        let addresses =
            addresses.clone().into_iter().filter(|_| is_port(protocol, &rule.ports) && !is_to_others(rule)).collect();
        let load_balancer_uids = load_balancer_uids.iter().filter(|uid| may_be_its(uid)).cloned().collect();
        let sources = Peers { addresses, load_balancer_uids };
        (sources != Peers::default()).then(|| (protocol, rule.ports.clone(), sources))
    };
    present.iter().filter_map(rule).collect()
}

fn fixed(config: &Config, service_spec: &ServiceSpec, balancer: Option<&Balancer>) -> Result<Fixed, Failure> {
    match balancer {
        Some(balancer) => Fixed::of(balancer, service_spec, config),
        None => Ok(Fixed::of_new(service_spec, config, String::new())),
    }
}

/// What cannot be read is as if it were not there, as in the Go manager; [`unclear`] tells it.
fn is_managed(service: &Service) -> bool {
    service_spec::managed(service).unwrap_or(true)
}

/// What people should know: the Service and what it says.
pub(crate) fn unclear(services: &[Service]) -> Vec<(Subject, String)> {
    let told = |service: &Service| {
        let problem = service_spec::managed(service).err()?;
        Some((service.subject(), format!("{}; the ports are open as if it were \"true\"", problem.message)))
    };
    services.iter().filter(|service| !service.deleting).filter_map(told).collect()
}

fn protocol(protocol: types::Protocol) -> Option<&'static str> {
    match protocol {
        types::Protocol::Tcp => Some("tcp"),
        types::Protocol::Udp => Some("udp"),
        types::Protocol::Sctp => None,
    }
}

fn everybody() -> Peers {
    Peers { addresses: EVERYBODY.map(str::to_owned).to_vec(), ..Peers::default() }
}

/// Order means nothing anywhere, and all ports have several names.
fn differs(has: &Spec, wants: &Spec) -> bool {
    has.name != wants.name
        || inbound(has) != inbound(wants)
        || outbound(has) != outbound(wants)
        || tags(has) != tags(wants)
}

/// The same in any case: the account keeps that of whoever made one first.
fn tags(spec: &Spec) -> BTreeSet<String> {
    ordered::set(spec.tags.iter().map(|tag| tag.to_ascii_lowercase()))
}

fn inbound(spec: &Spec) -> BTreeSet<String> {
    ordered::set(spec.inbound_rules.iter().map(|rule| words_of(&rule.protocol, &rule.ports, "from", &rule.sources)))
}

fn outbound(spec: &Spec) -> BTreeSet<String> {
    ordered::set(spec.outbound_rules.iter().map(|rule| words_of(&rule.protocol, &rule.ports, "to", &rule.destinations)))
}

/// All that counts of a rule: protocol, ports, addresses, load balancers. None of them has blanks or commas.
fn words_of(protocol: &str, ports: &str, way: &str, peers: &Peers) -> String {
    let ports = if matches!(ports, "" | "all") { "0" } else { ports };
    let list = |items: &[String]| ordered::list(items.iter().cloned());
    let peers = [list(&peers.addresses), list(&peers.load_balancer_uids)].concat();
    format!("{protocol} {ports} {way} {}", peers.join(","))
}
