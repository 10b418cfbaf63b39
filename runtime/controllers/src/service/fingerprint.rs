//! What was last ensured, in an annotation of the Service: where a restarted process and a new leader find it.
//!
//! Two digests, so that a change of nothing but the backends costs the smaller call. They are over what the provider is told
//! and what decides about its answer; neither labels nor status count, nor annotations that it did not declare.

use std::fmt;
use std::str::FromStr;

use ccm_cloud::{Backend, Descriptor, Service};
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

    /// The record of a Service; none where there is none or another version wrote it.
    pub(crate) fn of(service: &k8s_openapi::api::core::v1::Service) -> Option<Self> {
        service.metadata.annotations.as_ref()?.get(ENSURED)?.parse().ok()
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |digest: Option<Digest>| digest.map_or_else(|| UNKNOWN.to_owned(), |digest| digest.to_string());
        write!(f, "{VERSION}:{}:{}:{}", self.provider, text(self.spec), text(self.backends))
    }
}

/// Not a record of this version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NotARecord;

impl FromStr for Record {
    type Err = NotARecord;

    fn from_str(text: &str) -> Result<Self, NotARecord> {
        let mut parts = text.split(':');
        let (Some(VERSION), Some(provider), Some(spec), Some(backends), None) =
            (parts.next(), parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(NotARecord);
        };
        if provider.is_empty() {
            return Err(NotARecord);
        }
        Ok(Self { provider: provider.to_owned(), spec: digest(spec)?, backends: digest(backends)? })
    }
}

fn digest(text: &str) -> Result<Option<Digest>, NotARecord> {
    if text == UNKNOWN {
        return Ok(None);
    }
    if text.len() != 32 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(NotARecord);
    }
    u128::from_str_radix(text, 16).map(|digest| Some(Digest(digest))).map_err(|_odd| NotARecord)
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

    #[test]
    fn a_record_is_read_as_it_was_written_and_nothing_else_is_one() {
        let digest = Some(Digest::of(&1));
        for (spec, backends) in [(None, None), (digest, None), (digest, digest)] {
            let record = Record { provider: "fake".into(), spec, backends };
            assert_eq!(record.to_string().parse(), Ok(record));
        }
        let zeros = "0".repeat(32);
        let strange = [
            String::new(),
            "v1".into(),
            "v1::-:-".into(),
            "v1:fake:-".into(),
            "v1:fake:-:-:-".into(),
            "v2:fake:-:-".into(),
            format!("v1:fake:{zeros}:+{}", &zeros[1..]),
            format!("v1:fake:{zeros}0:-"),
        ];
        for text in strange {
            assert_eq!(text.parse::<Record>(), Err(NotARecord), "{text}");
        }
    }
}
