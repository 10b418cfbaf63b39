//! What the host hands to a guest, in the types of the contract. The way back is in `answer`.

mod service;

use std::collections::BTreeMap;

use ccm_cloud::{Address, AddressKind, Annotation, Need, Node};
use ccm_egress::Veil;

use crate::bindings::ccm::cloud::types;
use crate::bindings::exports::ccm::cloud::instances;

pub(crate) use self::service::{backends, service, wish};
use crate::Provider;

/// Annotation that every provider gets: the kubelet's own choice of addresses.
const PROVIDED_NODE_IP: &str = "alpha.kubernetes.io/provided-node-ip";

/// In `more` of a Node, as the contract's `routes.get-all` says.
const ROUTED_CIDRS: &str = "routed-cidrs";

/// What of an object reaches a guest: only annotations that its provider declared, and no secret that somebody wrote into one, into a label, or
/// into a field that may hold any text. A guest would pass it on, and the host blame the guest.
pub(crate) struct Entering<'a> {
    provider: &'a str,
    declared: &'a [Annotation],
    veil: Option<Veil>,
}

impl Provider {
    /// What reaches a guest of this provider in a call that begins now.
    pub(crate) fn entering(&self) -> Entering<'_> {
        let veil = self.settings.context.egress.as_ref().map(|egress| egress.secrets().veil());
        Entering { provider: &self.settings.provider, declared: &self.descriptor.annotations, veil }
    }
}

impl Entering<'_> {
    fn texts(&self, of: (&str, &str), what: &str, texts: BTreeMap<String, String>) -> Vec<(String, String)> {
        let shown = |(name, value): (String, String)| {
            let veil = self.veil.as_ref();
            // It cannot be shown which one it is.
            if veil.and_then(|veil| veil.kept_from_guests(&name)).is_some() {
                return None;
            }
            let Some(kept) = veil.and_then(|veil| veil.kept_from_guests(&value)) else { return Some((name, value)) };
            self.tell(of, &format!("{what} {name:?}"), &kept);
            Some((name, kept))
        };
        texts.into_iter().filter_map(shown).collect()
    }

    /// What stands in a field. One that holds a secret is not left out: without its source ranges, a load balancer would be open to everybody.
    fn field(&self, of: (&str, &str), field: &str, text: String) -> String {
        let Some(kept) = self.veil.as_ref().and_then(|veil| veil.kept_from_guests(&text)) else { return text };
        self.tell(of, field, &kept);
        kept
    }

    fn tell(&self, (kind, object): (&str, &str), what: &str, kept: &str) {
        tracing::warn!(
            provider = self.provider,
            "the {what} of the {kind} {object} holds the value of a secret: the provider sees {kept:?} in its place; take it out of the object, and give the provider another secret"
        );
    }
}

pub(crate) fn node(node: Node, entering: &Entering<'_>) -> types::Node {
    let Node { name, uid, provider_id, system_uuid, addresses, labels, annotations, capacity, taints, routed_cidrs } =
        node;
    let routed = (!routed_cidrs.is_empty()).then(|| (ROUTED_CIDRS.to_owned(), routed_cidrs.join(",")));
    let mut annotations = annotations;
    annotations.retain(|name, _| name == PROVIDED_NODE_IP || is_declared(name, entering.declared));
    let of = ("Node", name.as_str());
    let (labels, annotations) = (entering.texts(of, "label", labels), entering.texts(of, "annotation", annotations));
    types::Node {
        name,
        uid,
        provider_id,
        system_uuid,
        addresses: addresses.into_iter().map(to_address).collect(),
        labels,
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
