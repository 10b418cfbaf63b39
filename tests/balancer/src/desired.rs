//! What a Service asks for, and how that differs from what the cloud has.

use ccm_sdk::types::{Backend, Failure, Problem, Protocol, Service};

use crate::api::{Balancer, Port, Spec};
use crate::form;

/// Of provider IDs.
pub(crate) const SCHEME: &str = "balancer";
/// Seconds until an idle connection ends.
pub(crate) const IDLE: &str = "balancer.example/idle-seconds";
/// Something that only one call at a time may change.
pub(crate) const NETWORK: &str = "balancer.example/network";

/// A label selector: which Nodes take traffic.
pub(crate) const NODES: &str = "balancer.example/nodes";

const DEFAULT_IDLE: u32 = 60;

/// What names of things begin with, in a component that calls all things otherwise.
fn prefix() -> String {
    form::field_or("prefix", "")
}

/// Written: the balancer's ID.
pub(crate) fn id_annotation() -> String {
    format!("balancer.example/{}id", prefix())
}

/// As upstream names balancers.
pub(crate) fn name(service: &Service) -> String {
    let mut name = format!("{}a{}", prefix(), service.uid.replace('-', ""));
    name.truncate(32);
    name
}

/// Whose a balancer is.
pub(crate) fn owner(service: &Service) -> String {
    prefix() + &service.uid
}

/// # Errors
///
/// The Service asks for something that is not possible.
pub(crate) fn spec(service: &Service, backends: &[Backend]) -> Result<Spec, Failure> {
    let ports = service.ports.iter().map(|port| {
        let protocol = match port.protocol {
            Protocol::Tcp => "TCP",
            Protocol::Udp => "UDP",
            Protocol::Sctp => return Err(Failure::invalid("this cloud carries no SCTP").field("spec.ports")),
        };
        let node_port = port.node_port.ok_or_else(|| {
            Failure::invalid("this cloud needs node ports").field("spec.allocateLoadBalancerNodePorts")
        })?;
        Ok(Port { port: port.port, protocol: protocol.to_owned(), node_port })
    });
    Ok(Spec {
        name: name(service),
        owner: owner(service),
        ports: ports.collect::<Result<_, _>>()?,
        idle_seconds: idle_seconds(service)?,
        members: members(backends.iter()),
    })
}

/// The machines behind Nodes, in order.
pub(crate) fn members<'a>(backends: impl Iterator<Item = &'a Backend>) -> Vec<String> {
    let machine = |backend: &Backend| {
        let id = backend.provider_id.as_deref().and_then(|id| id.strip_prefix(SCHEME)?.strip_prefix("://"));
        id.unwrap_or(&backend.name).to_owned()
    };
    let mut members: Vec<String> = backends.map(machine).collect();
    members.sort();
    members
}

fn idle_seconds(service: &Service) -> Result<u32, Failure> {
    let Some(text) = service.annotation(IDLE) else { return Ok(DEFAULT_IDLE) };
    let told = |_| Failure::invalid(format!("{text:?} is not a whole number of seconds, such as 60")).annotation(IDLE);
    text.parse().map_err(told)
}

/// For people, before anything is asked of the cloud.
pub(crate) fn problems(service: &Service) -> Vec<Problem> {
    let failure = spec(service, &[]).err();
    failure.map(|failure| Problem::fatal(failure.field.unwrap_or_default(), failure.message)).into_iter().collect()
}

/// What differs, for people; empty when nothing does.
pub(crate) fn differences(has: &Balancer, desired: &Spec) -> Vec<String> {
    let Spec { name, owner: _, ports, idle_seconds, members } = &has.spec;
    let parts = [
        (*name != desired.name, "name"),
        (*ports != desired.ports, "ports"),
        (*idle_seconds != desired.idle_seconds, "idle time"),
        (*members != desired.members, "members"),
    ];
    parts.into_iter().filter(|(differs, _)| *differs).map(|(_, part)| part.to_owned()).collect()
}
