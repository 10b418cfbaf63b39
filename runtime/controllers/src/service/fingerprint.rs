//! What a load balancer should be like, as digests: a record of what was ensured holds no more.
//!
//! Two digests, so that a change of nothing but the backends costs the smaller call. They are over what the provider is told
//! and what decides about its answer; neither labels nor status count, nor annotations that it did not declare or that it alone writes.

use std::collections::BTreeSet;
use std::fmt;

use ccm_cloud::{Backend, Descriptor, Ingress, Service, ServicePort, ServiceType};
use serde::Serialize;

use super::annotations::is_asked;
use super::digest::Digest;

/// Most annotations of which a [`ViewDigest`] names that they counted, 9 bytes each. A load balancer has a dozen at most.
const MOST_ANNOTATIONS: usize = 64;

/// What a load balancer should be like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) spec: Digest,
    pub(crate) backends: Digest,
}

/// The digest of everything but the backends. `configuration` is the provider's, `wrong` what is wrong with the Service: when
/// that changes, there is news.
pub(crate) fn spec(service: &Service, wrong: Option<&str>, descriptor: &Descriptor, configuration: &str) -> Digest {
    let (identity, network) = fields(service, |name| is_asked(descriptor, name));
    Digest::of(&(identity, network, (&service.load_balancer_class, wrong, &descriptor.revision, configuration)))
}

/// The fields of a Service that decide what its load balancer is like, with the annotations that count.
fn fields<'a>(service: &'a Service, counts: impl Fn(&str) -> bool) -> (impl Serialize + 'a, impl Serialize + 'a) {
    let Service { name, namespace, uid, annotations, ports, ip_families, external_traffic_policy, .. } = service;
    let Service { health_check_node_port, client_ip_affinity_seconds, requested_ip, source_ranges, .. } = service;
    let annotations: Vec<_> = annotations.iter().filter(|(name, _)| counts(name)).collect();
    (
        (name, namespace, uid, annotations, ports, ip_families, external_traffic_policy),
        (health_check_node_port, client_ip_affinity_seconds, requested_ip, source_ranges),
    )
}

/// What the Service alone asks for, without the provider's revision and configuration. It tells a Service that someone changed from
/// one that only another provider would treat differently.
///
/// Providers declare the annotations that they read, so the names of those that counted are part of it: a component that reads more
/// annotations does not make a Service a changed one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ViewDigest {
    digest: Digest,
    /// Digest of what the provider adds: its revision and configuration, and which annotations it reads.
    provider: u32,
    /// Digests of the names of the annotations that counted, in ascending order.
    annotations: Vec<u32>,
}

impl ViewDigest {
    /// None for a Service with more annotations than a record has room for.
    pub(crate) fn of(service: &Service, descriptor: &Descriptor, configuration: &str) -> Option<Self> {
        let asked = service.annotations.keys().filter(|name| is_asked(descriptor, name));
        let names: BTreeSet<u32> = asked.map(|name| short(name)).collect();
        let annotations = Vec::from_iter(names);
        let (digest, provider) = (viewed(service, &annotations), added(descriptor, configuration));
        (annotations.len() <= MOST_ANNOTATIONS).then_some(Self { digest, provider, annotations })
    }

    /// Whether the Service still asks for the same, while the provider is another one.
    pub(crate) fn has_other_provider(&self, service: &Service, descriptor: &Descriptor, configuration: &str) -> bool {
        self.provider != added(descriptor, configuration) && viewed(service, &self.annotations) == self.digest
    }

    /// Reads what was displayed.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (digest, rest) = text.split_once(':')?;
        let (provider, names) = rest.split_once(':').unwrap_or((rest, ""));
        let short = |text: &str| (text.len() == 8).then(|| u32::from_str_radix(text, 16).ok()).flatten();
        let annotations: Option<Vec<u32>> = names.split(',').filter(|name| !name.is_empty()).map(short).collect();
        let annotations = annotations.filter(|names| names.len() <= MOST_ANNOTATIONS)?;
        Some(Self { digest: Digest::parse(digest)?, provider: short(provider)?, annotations })
    }
}

impl fmt::Display for ViewDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.annotations.iter().map(|name| format!("{name:08x}")).collect();
        match names.is_empty() {
            true => write!(f, "{}:{:08x}", self.digest, self.provider),
            false => write!(f, "{}:{:08x}:{}", self.digest, self.provider, names.join(",")),
        }
    }
}

fn viewed(service: &Service, annotations: &[u32]) -> Digest {
    let (identity, network) = fields(service, |name| annotations.binary_search(&short(name)).is_ok());
    Digest::of(&(identity, network, &service.load_balancer_class))
}

/// What a provider adds to what a Service asks for.
fn added(descriptor: &Descriptor, configuration: &str) -> u32 {
    let reads: Vec<_> = descriptor.annotations.iter().map(|annotation| &annotation.name).collect();
    Digest::of(&(&descriptor.revision, configuration, reads)).short()
}

/// The first 32 bits of the digest of an annotation's name.
fn short(name: &str) -> u32 {
    Digest::of(&name).short()
}

/// What kind of Service it is to a provider: it does much the same for all of a kind.
pub(crate) fn kind(service: &Service, descriptor: &Descriptor) -> Digest {
    let names: Vec<_> = service.annotations.keys().filter(|name| is_asked(descriptor, name)).collect();
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
    Digest::of(&(backends.to_string(), chosen)).marked()
}

#[cfg(test)]
mod tests {
    use ccm_cloud::{Address, AddressKind, LoadBalancers as _};

    use serde_json::json;

    use super::*;
    use crate::testing::{Draft, FakeBalancers, service};
    use crate::view::service::cloud_service;

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
        assert_eq!(view_of(&service("web")).to_string(), "ba5c3c16ceafca98d8ff455c1dc7d8f0:3da8283b");
    }

    fn view_of(draft: &Draft) -> ViewDigest {
        ViewDigest::of(&cloud_service(&draft.clone().object()).0, &FakeBalancers::default().descriptor(), "c").unwrap()
    }

    #[test]
    fn a_view_is_another_one_only_where_the_service_asks_for_something_else() {
        let mode = |value: &str| service("web").with("/metadata", "annotations", json!({ "fake.io/mode": value }));
        let modes = json!({ "fake.io/mode": "a", "fake.io/new": "b", "theirs": "c" });
        let many = service("web").with("/metadata", "annotations", modes);
        let local = service("web").with("/spec", "externalTrafficPolicy", json!("Local"));
        let (web, annotated) = (view_of(&service("web")), view_of(&mode("a")));
        let rows = [
            ("the same", &web, service("web"), true),
            ("a field", &web, local, false),
            ("an annotation that it did not have then", &web, mode("a"), true),
            ("the same annotation", &annotated, mode("a"), true),
            ("others that did not count", &annotated, many, true),
            ("another value", &annotated, mode("b"), false),
            ("no annotation any more", &annotated, service("web"), false),
        ];
        for (what, view, draft, wanted) in rows {
            let (seen, _) = cloud_service(&draft.object());
            let by =
                |configuration| view.has_other_provider(&seen, &FakeBalancers::default().descriptor(), configuration);
            assert_eq!((by("d"), by("c")), (wanted, false), "{what}");
            assert_eq!(ViewDigest::parse(&view.to_string()).as_ref(), Some(view), "{what}");
        }
        let (zeros, many) = ("0".repeat(32), "00000000,".repeat(65));
        let strange = ["", "-", &zeros, &format!("{zeros}:-"), &format!("{zeros}:1"), &format!("{zeros}:00000000:1")];
        for text in strange.into_iter().chain([&*format!("{zeros}:00000000:{many}")]) {
            assert_eq!(ViewDigest::parse(text), None, "{text}");
        }
    }
}
