//! Converts between the types of the contract and those of `ccm-cloud`.

mod descriptor;
mod load_balancer;
mod service;

use std::time::Duration;

use ccm_cloud::{
    Address, AddressKind, Annotation, Capability, Failure, Finding, Instance, InstanceState, Need, Node, Problem,
    Reaction,
};
use ccm_egress::line;

use crate::bindings::ccm::cloud::types;
use crate::bindings::exports::ccm::cloud::{instances, meta};

pub(crate) use self::descriptor::{check_budgets, descriptor};
pub(crate) use self::load_balancer::{cluster_failures, ingress, mark, name, outcome, sentences, standing, wish};
pub(crate) use self::service::{backends, service};

/// Most bytes of a message, most bytes of a field's name, and most problems that are taken from a provider: they go to logs,
/// Events and pages.
const MAX_MESSAGE: usize = 1024;
const MAX_FIELD: usize = 256;
const MAX_PROBLEMS: usize = 50;

/// Annotation that every provider gets: the kubelet's own choice of addresses.
const PROVIDED_NODE_IP: &str = "alpha.kubernetes.io/provided-node-ip";

/// In `more` of a Node, as the contract's `routes.get-all` says.
const ROUTED_CIDRS: &str = "routed-cidrs";

/// A node with only those annotations that the provider declared.
pub(crate) fn node(node: Node, declared: &[Annotation]) -> types::Node {
    let Node { name, uid, provider_id, system_uuid, addresses, labels, annotations, capacity, taints, routed_cidrs } =
        node;
    let routed = (!routed_cidrs.is_empty()).then(|| (ROUTED_CIDRS.to_owned(), routed_cidrs.join(",")));
    let mut annotations = annotations;
    annotations.retain(|name, _| name == PROVIDED_NODE_IP || is_declared(name, declared));
    let annotations = annotations.into_iter().collect();
    types::Node {
        name,
        uid,
        provider_id,
        system_uuid,
        addresses: addresses.into_iter().map(to_address).collect(),
        labels: labels.into_iter().collect(),
        annotations,
        capacity: capacity.into_iter().collect(),
        taints,
        more: routed.into_iter().collect(),
    }
}

/// Others do not reach a guest.
fn is_declared(name: &str, declared: &[Annotation]) -> bool {
    declared.iter().any(|annotation| annotation.covers(name))
}

pub(crate) fn to_address(address: Address) -> types::Address {
    let kind = match address.kind {
        AddressKind::InternalIp => types::AddressType::InternalIp,
        AddressKind::ExternalIp => types::AddressType::ExternalIp,
        AddressKind::Hostname => types::AddressType::Hostname,
        AddressKind::InternalDns => types::AddressType::InternalDns,
        AddressKind::ExternalDns => types::AddressType::ExternalDns,
    };
    types::Address { kind, value: address.value }
}

fn from_address(address: types::Address) -> Address {
    let kind = match address.kind {
        types::AddressType::InternalIp => AddressKind::InternalIp,
        types::AddressType::ExternalIp => AddressKind::ExternalIp,
        types::AddressType::Hostname => AddressKind::Hostname,
        types::AddressType::InternalDns => AddressKind::InternalDns,
        types::AddressType::ExternalDns => AddressKind::ExternalDns,
    };
    Address { kind, value: address.value }
}

pub(crate) const fn need(need: Need) -> instances::Need {
    match need {
        Need::Metadata | Need::Refresh => instances::Need::Metadata,
        Need::Existence => instances::Need::Existence,
        Need::Proof => instances::Need::Proof,
    }
}

pub(crate) fn finding(finding: instances::Finding) -> Finding {
    match finding {
        instances::Finding::Found(found) => Finding::Found(Box::new(instance(found))),
        instances::Finding::Absent => Finding::Absent,
        instances::Finding::Unknown(why) => Finding::Unknown(failure(why)),
    }
}

fn instance(instance: instances::Instance) -> Instance {
    let instances::Instance { provider_id, instance_type, addresses, zone, region, labels, state, more: _ } = instance;
    Instance {
        provider_id,
        instance_type,
        addresses: addresses.into_iter().map(from_address).collect(),
        zone,
        region,
        labels: labels.into_iter().collect(),
        state: match state {
            instances::State::Running => InstanceState::Running,
            instances::State::Stopped => InstanceState::Stopped,
            instances::State::Other => InstanceState::Other,
        },
    }
}

pub(crate) fn failure(failure: types::Failure) -> Failure {
    let reaction = match failure.reaction {
        types::Reaction::Retry => Reaction::Retry,
        types::Reaction::Throttled => Reaction::Throttled,
        types::Reaction::Pending => Reaction::Pending,
        types::Reaction::Unauthorized => Reaction::Unauthorized,
        types::Reaction::Invalid => Reaction::Invalid,
        types::Reaction::Conflict => Reaction::Conflict,
        types::Reaction::Quota => Reaction::Quota,
        types::Reaction::Unsupported => Reaction::Unsupported,
        types::Reaction::Elsewhere => Reaction::Elsewhere,
    };
    Failure {
        reaction,
        message: line(&failure.message, MAX_MESSAGE),
        retry_after: failure.retry_after_ms.map(|ms| Duration::from_millis(u64::from(ms))),
        field: failure.field.map(|field| line(&field, MAX_FIELD)),
    }
}

/// At most [`MAX_PROBLEMS`], fatal ones first.
pub(crate) fn problems(mut problems: Vec<types::Problem>) -> Vec<Problem> {
    problems.sort_by_key(|problem| !problem.fatal);
    problems.truncate(MAX_PROBLEMS);
    let problem = |problem: types::Problem| Problem {
        field: line(&problem.field, MAX_FIELD),
        message: line(&problem.message, MAX_MESSAGE),
        fatal: problem.fatal,
    };
    problems.into_iter().map(problem).collect()
}

pub(crate) const fn capability(capability: meta::Capability) -> Capability {
    match capability {
        meta::Capability::LoadBalancers => Capability::LoadBalancers,
        meta::Capability::Routes => Capability::Routes,
        meta::Capability::Cluster => Capability::Cluster,
    }
}
