//! What was last ensured, in an annotation of the Service: where a restarted process and a new leader find it.
//!
//! Two digests, so that a change of nothing but the backends costs the smaller call. They are over what the provider is told
//! and what decides about its answer; neither labels nor status count, nor annotations that it did not declare.

use std::fmt;

use ccm_cloud::{Backend, Descriptor, Ingress, Service, ServiceType};
use k8s_openapi::api::core::v1 as core;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

/// The annotation. Not for people to change; without it the load balancer is ensured once more.
pub(crate) const ENSURED: &str = "wasm-ccm.io/ensured";
/// Another one would mean that the digests are made in another way.
const VERSION: &str = "v1";
/// In the place of a digest that is not known.
const UNKNOWN: &str = "-";

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

/// What was last ensured, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    /// Name of the provider that has, or may have, a load balancer for this Service.
    pub(crate) provider: String,
    pub(crate) spec: Option<Digest>,
    pub(crate) backends: Option<Digest>,
    /// The addresses that were written, or stood there when the Service was taken. None: an older release wrote the record.
    pub(crate) addresses: Option<Digest>,
}

impl Record {
    /// Of a load balancer about which nothing is certain but that the status has these `addresses`.
    pub(crate) fn begun(provider: &str, addresses: Option<Digest>) -> Self {
        Self { provider: provider.to_owned(), spec: None, backends: None, addresses }
    }

    /// Whether the addresses of the status may be ours.
    pub(crate) fn confirms(&self, ingress: &[Ingress]) -> bool {
        self.addresses.is_none_or(|known| known == addresses(ingress))
    }

    /// The record of a Service; none where there is none, another version wrote it, or it was written for another Service
    /// and copied.
    pub(crate) fn of(service: &core::Service) -> Option<Self> {
        read(service).filter(|(owner, _)| *owner == self::owner(service)).map(|(_, record)| record)
    }

    /// The record as it stands in this Service.
    pub(crate) fn text(&self, service: &core::Service) -> String {
        let text = |digest: Option<Digest>| digest.map_or_else(|| UNKNOWN.to_owned(), |digest| digest.to_string());
        let addresses = self.addresses.map(|digest| format!(":{digest}")).unwrap_or_default();
        let (owner, spec, backends) = (owner(service), text(self.spec), text(self.backends));
        format!("{VERSION}:{}:{owner}:{spec}:{backends}{addresses}", self.provider)
    }
}

/// Whether a Service was made from another one, with the annotations of that: then whatever a provider has written there
/// leads to the load balancer of the other one.
pub(crate) fn is_copy(service: &core::Service) -> bool {
    read(service).is_some_and(|(owner, _)| owner != self::owner(service))
}

/// Which Service a record is about.
fn owner(service: &core::Service) -> Digest {
    Digest::of(&service.metadata.uid)
}

fn read(service: &core::Service) -> Option<(Digest, Record)> {
    let mut parts = service.metadata.annotations.as_ref()?.get(ENSURED)?.split(':');
    let (Some(VERSION), Some(provider), Some(owner), Some(spec), Some(backends)) =
        (parts.next(), parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return None;
    };
    let addresses = match parts.next() {
        Some(text) => Some(digest(text)?),
        None => None,
    };
    if provider.is_empty() || parts.next().is_some() {
        return None;
    }
    let record = Record { provider: provider.to_owned(), spec: part(spec)?, backends: part(backends)?, addresses };
    Some((digest(owner)?, record))
}

/// A digest that may be unknown; none for what is neither.
fn part(text: &str) -> Option<Option<Digest>> {
    if text == UNKNOWN { Some(None) } else { digest(text).map(Some) }
}

fn digest(text: &str) -> Option<Digest> {
    if text.len() != 32 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    u128::from_str_radix(text, 16).map(Digest).ok()
}

/// The digest of everything but the backends. `configuration` is the provider's, `wrong` what is wrong with the Service: when
/// that changes, there is news.
pub(crate) fn spec(service: &Service, wrong: Option<&str>, descriptor: &Descriptor, configuration: &str) -> Digest {
    let Service { name, namespace, uid, annotations, ports, ip_families, external_traffic_policy, .. } = service;
    let Service { health_check_node_port, client_ip_affinity_seconds, requested_ip, source_ranges, .. } = service;
    let declared = |name: &str| name != ENSURED && descriptor.annotations.iter().any(|known| known.covers(name));
    let annotations: Vec<_> = annotations.iter().filter(|(name, _)| declared(name)).collect();
    Digest::of(&(
        (name, namespace, uid, annotations, ports, ip_families, external_traffic_policy),
        (health_check_node_port, client_ip_affinity_seconds, requested_ip, source_ranges),
        (&service.load_balancer_class, wrong, &descriptor.revision, configuration),
    ))
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

    /// Other digests would ensure every load balancer of every cluster once more: then [`VERSION`] must be another one too.
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

    fn recorded(text: &str) -> core::Service {
        service("web").with("/metadata", "annotations", serde_json::json!({ ENSURED: text })).object()
    }

    #[test]
    fn a_record_is_read_as_it_was_written_and_nothing_else_is_one() {
        let digest = Some(Digest::of(&1));
        let web: core::Service = service("web").object();
        let rows = [(None, None, None), (digest, None, None), (digest, digest, None), (None, None, digest)];
        for (spec, backends, addresses) in rows {
            let record = Record { provider: "fake".into(), spec, backends, addresses };
            let service = recorded(&record.text(&web));
            assert_eq!((Record::of(&service), is_copy(&service)), (Some(record), false));
        }
        let (owner, zeros) = (owner(&web), "0".repeat(32));
        let strange = [
            String::new(),
            "v1".into(),
            "v1:fake:-:-".into(),
            "v1:fake:-:-:-".into(),
            format!("v1::{owner}:-:-"),
            format!("v1:fake:{owner}:-"),
            format!("v1:fake:{owner}:-:-:-"),
            format!("v1:fake:{owner}:-:-:{zeros}:"),
            format!("v2:fake:{owner}:-:-"),
            format!("v1:fake:{owner}:{zeros}:+{}", &zeros[1..]),
            format!("v1:fake:{owner}:{zeros}0:-"),
        ];
        for text in strange {
            let service = recorded(&text);
            assert_eq!((Record::of(&service), is_copy(&service)), (None, false), "{text}");
        }
        let copy = recorded(&format!("v1:fake:{zeros}:-:-"));
        assert_eq!((Record::of(&copy), is_copy(&copy)), (None, true));
    }
}
