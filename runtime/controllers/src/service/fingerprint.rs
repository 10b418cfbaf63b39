//! What a load balancer should be like, as digests: a record of what was ensured holds no more.
//!
//! Two digests, so that a change of nothing but the backends costs the smaller call. They are over what the provider is told
//! and what decides about its answer; neither labels nor status count, nor annotations that it did not declare.

use std::collections::BTreeSet;
use std::fmt;

use ccm_cloud::{Backend, Descriptor, Ingress, Service, ServicePort, ServiceType};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::annotations::is_declared;

/// So many bits at the front are zero in the digest of backends that were chosen by labels.
const MARK: u32 = 16;

/// The first half of a SHA-256.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Digest(u128);

impl Digest {
    pub(crate) fn of(value: &impl Serialize) -> Self {
        // Nothing that is digested has maps with odd keys, the only thing that cannot be written.
        let bytes = serde_json::to_vec(value).unwrap_or_default();
        let hash = Sha256::digest(bytes);
        Self(hash.iter().take(16).fold(0, |digest, byte| (digest << 8) | u128::from(*byte)))
    }

    /// As it is displayed: 32 hexadecimal digits.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if text.len() != 32 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        u128::from_str_radix(text, 16).map(Self).ok()
    }
}

impl Digest {
    /// Whether backends were chosen by labels.
    pub(crate) const fn is_chosen(self) -> bool {
        self.0.leading_zeros() >= MARK
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What a load balancer should be like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) spec: Digest,
    pub(crate) backends: Digest,
}

/// The digest of everything but the backends. `configuration` is the provider's, `wrong` what is wrong with the Service: when
/// that changes, there is news.
pub(crate) fn spec(service: &Service, wrong: Option<&str>, descriptor: &Descriptor, configuration: &str) -> Digest {
    let Service { name, namespace, uid, annotations, ports, ip_families, external_traffic_policy, .. } = service;
    let Service { health_check_node_port, client_ip_affinity_seconds, requested_ip, source_ranges, .. } = service;
    let annotations: Vec<_> = annotations.iter().filter(|(name, _)| is_declared(descriptor, name)).collect();
    Digest::of(&(
        (name, namespace, uid, annotations, ports, ip_families, external_traffic_policy),
        (health_check_node_port, client_ip_affinity_seconds, requested_ip, source_ranges),
        (&service.load_balancer_class, wrong, &descriptor.revision, configuration),
    ))
}

/// What kind of Service it is to a provider: it does much the same for all of a kind.
pub(crate) fn kind(service: &Service, descriptor: &Descriptor) -> Digest {
    let names: Vec<_> = service.annotations.keys().filter(|name| is_declared(descriptor, name)).collect();
    let port = |port: &ServicePort| (port.protocol.as_str(), port.app_protocol.clone());
    let ports: BTreeSet<_> = service.ports.iter().map(port).collect();
    let (policy, class) = (&service.external_traffic_policy, &service.load_balancer_class);
    let has_ranges = !service.source_ranges.is_empty();
    let (has_affinity, has_ip) = (service.client_ip_affinity_seconds.is_some(), service.requested_ip.is_some());
    Digest::of(&(names, ports, &service.ip_families, policy, class, has_ranges, has_affinity, has_ip))
}

/// The digest of what is to be deleted, as far as it decides about the answer.
pub(crate) fn deletion(service: &Service, wrong: Option<&str>, descriptor: &Descriptor, configuration: &str) -> Digest {
    let spec = spec(service, wrong, descriptor, configuration).to_string();
    Digest::of(&(spec, service.kind == ServiceType::LoadBalancer, service.deleting))
}

/// The digest of addresses and names of hosts. The rest of an entry does not count: an API server that does not know a field
/// leaves it out, and would never have what was written.
pub(crate) fn addresses(ingress: &[Ingress]) -> Digest {
    let part = |part: &Option<String>| part.clone().filter(|part| !part.is_empty());
    Digest::of(&ingress.iter().map(|entry| (part(&entry.ip), part(&entry.hostname))).collect::<Vec<_>>())
}

/// The digest of the backends, which are in order of their names.
pub(crate) fn backends(backends: &[Backend]) -> Digest {
    let backend = |backend: &Backend| {
        let addresses = backend.addresses.iter().map(|address| (address.kind, address.value.clone()));
        (backend.name.clone(), backend.provider_id.clone(), addresses.collect::<Vec<_>>())
    };
    Digest::of(&backends.iter().map(backend).collect::<Vec<_>>())
}

/// The digest of backends among which the provider chose by labels: `chosen` are the names of those that each selector matches.
/// It is marked, so that a process that does not know the selectors any more sees that there were some; one in 65,536 of the
/// others looks so too, which costs a call.
pub(crate) fn chosen<'a>(backends: Digest, chosen: impl Iterator<Item = (&'a str, Digest)>) -> Digest {
    let chosen: Vec<_> = chosen.map(|(selector, names)| (selector, names.to_string())).collect();
    Digest(Digest::of(&(backends.to_string(), chosen)).0 >> MARK)
}

#[cfg(test)]
mod tests {
    use ccm_cloud::{Address, AddressKind, LoadBalancers as _};

    use super::*;
    use crate::service::view::cloud_service;
    use crate::testing::{FakeBalancers, service};

    /// Other digests would ensure every load balancer of every cluster once more: then the version of the record must be another one too.
    #[test]
    fn digests_are_the_same_in_every_release() {
        let (view, _) = cloud_service(&service("web").object());
        let addresses = vec![Address::new(AddressKind::InternalIp, "10.0.0.1")];
        let hosts = [Backend { name: "n0".into(), provider_id: Some("fake://0".into()), addresses }];
        let written = [Ingress { ip: Some("192.0.2.1".into()), ..Ingress::default() }];
        let digests = [
            spec(&view, None, &FakeBalancers::default().descriptor(), "c"),
            backends(&hosts),
            super::addresses(&written),
        ];
        assert_eq!(
            digests.map(|digest| digest.to_string()),
            [
                "9a52b61a5dd212f7a91976cd54f4b9d2",
                "c7923ea9c8e65c0f22094e43af79f5d9",
                "1726202422b457a27e3ff202c6170839"
            ]
        );
    }
}
