//! The firewall that opens what must be public, in front of droplets that a default-deny firewall closes.
//!
//! | Service | open |
//! |---|---|
//! | `NodePort` | its node ports, to everybody |
//! | with an external `REGIONAL_NETWORK` load balancer | its ports, to its source ranges; the ports that are checked and are to be checked, to its load balancer |
//! | any other, and with `firewall-managed: "false"` | nothing |

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::time::Duration;

use ccm_sdk::cidr::SourceRanges;
use ccm_sdk::types::{self, Failure, Problem, Reaction, Service, ServiceType, Subject};
use ccm_sdk::{Answer, log};

use crate::annotations as names;
use crate::api::balancers::{self, Balancer};
use crate::api::firewalls::{self, Inbound, Outbound, Peers, Spec};
use crate::balancer::among;
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
    balancers: &[Balancer],
) -> Result<Vec<(Subject, Failure)>, Failure> {
    let balancers = with_unlisted(services, balancers)?;
    let (desired, failures) = desired(config, firewall, services, &balancers);
    let done = match firewalls::named(&firewall.name)? {
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

/// With those that Services name and the listing lacks: one that was just made, or that another's deletion has moved to a page that
/// was read already. Without it its checks would be shut out.
///
/// # Errors
///
/// The cloud cannot be asked: what is open stays so.
fn with_unlisted(services: &[Service], listed: &[Balancer]) -> Result<Vec<Balancer>, Failure> {
    let mut all = listed.to_vec();
    for id in services.iter().filter(|service| is_open(service)).filter_map(id_of) {
        if !all.iter().any(|balancer| balancer.has_id(id)) {
            all.extend(balancers::get(id)?);
        }
    }
    Ok(all)
}

/// Whether it may have a load balancer whose ports are open.
fn is_open(service: &Service) -> bool {
    service.kind == ServiceType::LoadBalancer && !service.deleting && is_managed(service) && is_served(service)
}

fn desired(
    config: &Config,
    firewall: &config::Firewall,
    services: &[Service],
    balancers: &[Balancer],
) -> (Spec, Vec<(Subject, Failure)>) {
    let (mut rules, mut failures) = (BTreeSet::new(), vec![]);
    for service in services.iter().filter(|service| !service.deleting) {
        match open(config, service, balancers) {
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

fn open(config: &Config, service: &Service, balancers: &[Balancer]) -> Result<Vec<Open>, Failure> {
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
        ServiceType::LoadBalancer if is_open(service) => of_balancer(config, service, balancers),
        _ => Ok(vec![]),
    }
}

fn of_balancer(config: &Config, service: &Service, balancers: &[Balancer]) -> Result<Vec<Open>, Failure> {
    let (service_spec, problems) = service_spec::read(service);
    let balancer = among(config, balancers, service, &service_spec);
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
    let sources = match service_spec.source_ranges.map_err(desired::invalid)? {
        SourceRanges::Everybody => everybody(),
        SourceRanges::Only(networks) => {
            Peers { addresses: networks.iter().map(ToString::to_string).collect(), ..Peers::default() }
        }
    };
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
