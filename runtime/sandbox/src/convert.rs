//! What the host hands to a guest, in the types of the contract. The way back is in `answer`.

mod service;

use ccm_cloud::{Address, AddressKind, Annotation, Need, Node};

use crate::bindings::ccm::cloud::types;
use crate::bindings::exports::ccm::cloud::instances;

pub(crate) use self::service::{backends, service, wish};

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

pub(crate) const fn need(need: Need) -> instances::Need {
    match need {
        Need::Metadata | Need::Refresh => instances::Need::Metadata,
        Need::Existence => instances::Need::Existence,
        Need::Proof => instances::Need::Proof,
    }
}
