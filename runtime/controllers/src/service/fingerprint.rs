//! What was last ensured, in an annotation of the Service: where a restarted process and a new leader find it.
//!
//! Two digests, so that a change of nothing but the backends costs the smaller call. They are over what the provider is told
//! and what decides about its answer; neither labels nor status count, nor annotations that it did not declare.

use std::fmt;

use ccm_cloud::{Backend, Descriptor, Service, ServiceType};
use k8s_openapi::api::core::v1 as core;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

/// The annotation. Not for people to change; without it the load balancer is ensured once more.
pub(crate) const ENSURED: &str = "wasm-ccm.io/ensured";
/// Another one would mean that the digests are made in another way.
const VERSION: &str = "v1";
/// In the place of a digest that is not known.
const UNKNOWN: &str = "-";

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
}

impl Record {
    /// Of a load balancer about which nothing is certain.
    pub(crate) fn begun(provider: &str) -> Self {
        Self { provider: provider.to_owned(), spec: None, backends: None }
    }

    /// The record of a Service; none where there is none, another version wrote it, or it was written for another Service
    /// and copied.
    pub(crate) fn of(service: &core::Service) -> Option<Self> {
        read(service).filter(|(owner, _)| *owner == self::owner(service)).map(|(_, record)| record)
    }

    /// The record as it stands in this Service.
    pub(crate) fn text(&self, service: &core::Service) -> String {
        let text = |digest: Option<Digest>| digest.map_or_else(|| UNKNOWN.to_owned(), |digest| digest.to_string());
        format!("{VERSION}:{}:{}:{}:{}", self.provider, owner(service), text(self.spec), text(self.backends))
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
    let (Some(VERSION), Some(provider), Some(owner), Some(spec), Some(backends), None) =
        (parts.next(), parts.next(), parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return None;
    };
    if provider.is_empty() {
        return None;
    }
    let record = Record { provider: provider.to_owned(), spec: part(spec)?, backends: part(backends)? };
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

/// The digest of the backends, which are in order of their names.
pub(crate) fn backends(backends: &[Backend]) -> Digest {
    let backend = |backend: &Backend| {
        let addresses = backend.addresses.iter().map(|address| (address.kind, address.value.clone()));
        (backend.name.clone(), backend.provider_id.clone(), addresses.collect::<Vec<_>>())
    };
    Digest::of(&backends.iter().map(backend).collect::<Vec<_>>())
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
        let digests = [spec(&view, None, &FakeBalancers::default().descriptor(), "c"), backends(&hosts)];
        assert_eq!(
            digests.map(|digest| digest.to_string()),
            ["9a52b61a5dd212f7a91976cd54f4b9d2", "c7923ea9c8e65c0f22094e43af79f5d9"]
        );
    }

    fn recorded(text: &str) -> core::Service {
        service("web").with("/metadata", "annotations", serde_json::json!({ ENSURED: text })).object()
    }

    #[test]
    fn a_record_is_read_as_it_was_written_and_nothing_else_is_one() {
        let digest = Some(Digest::of(&1));
        let web: core::Service = service("web").object();
        for (spec, backends) in [(None, None), (digest, None), (digest, digest)] {
            let record = Record { provider: "fake".into(), spec, backends };
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
