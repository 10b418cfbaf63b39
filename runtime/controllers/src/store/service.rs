//! What is kept of a Service, and how much of it.
//!
//! Whoever may write Services may write as many labels, ports or finalizers into one as the API server has room for in an object, and in memory
//! each of them takes many times its text. So they are measured while they are read.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec, ServiceStatus, SessionAffinityConfig};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::decode::{LAST_APPLIED, Stored};
use super::unread::Reach;

/// Most bytes in memory of what is kept of a Service. Its status does not count: the API server takes it from controllers alone.
const MAX_SERVICE: usize = 128 << 10;
/// Most bytes in memory of its labels. No load balancer is ensured for them, so a Service with more is kept, without any label: a part of
/// them would be a lie to its provider.
const MAX_LABELS: usize = 32 << 10;
/// What an entry of a map takes beside its texts, as measured with 70,000 short ones.
const ENTRY: usize = 112;

impl Stored for Service {
    type Kind = Self;
    type Read = ReadService;

    /// Each may be 1.5 MiB in etcd, and twice that as text.
    const PAGE_SIZE: u32 = 20;

    fn keep(read: ReadService) -> Result<Self, String> {
        let parts = read.parts();
        let bytes = parts.iter().fold(0_usize, |all, (_, bytes)| all.saturating_add(*bytes));
        if bytes > MAX_SERVICE {
            let (part, most) = parts.into_iter().max_by_key(|(_, bytes)| *bytes).unwrap_or_default();
            return Err(format!(
                "it takes {bytes} bytes in memory, {most} of them for its {part}: a Service is kept up to {} KiB",
                MAX_SERVICE >> 10
            ));
        }
        let ReadService { metadata, spec, status } = read;
        let metadata = ObjectMeta {
            annotations: metadata.annotations.map(|annotations| annotations.all),
            creation_timestamp: metadata.creation_timestamp,
            deletion_timestamp: metadata.deletion_timestamp,
            finalizers: metadata.finalizers.map(|finalizers| finalizers.all),
            labels: metadata.labels.filter(|labels| !labels.is_too_large()).map(|labels| labels.all),
            name: metadata.name,
            namespace: metadata.namespace,
            resource_version: metadata.resource_version,
            uid: metadata.uid,
            ..ObjectMeta::default()
        };
        Ok(Self { metadata, spec: spec.map(Into::into), status })
    }

    fn surplus(read: &ReadService) -> Option<String> {
        let labels = read.metadata.labels.as_ref().filter(|labels| labels.is_too_large())?;
        Some(format!(
            "its labels take {} bytes in memory, and at most {} KiB are kept: to its provider it has no labels",
            labels.bytes,
            MAX_LABELS >> 10
        ))
    }

    fn reach(text: &str) -> Reach {
        let Ok(Glimpse { spec: GlimpsedSpec { kind, external_ips } }) = serde_json::from_str(text) else {
            return Reach::UNKNOWN;
        };
        let has_external_ips = external_ips.is_some_and(|ips| !ips.is_empty());
        match kind.as_deref() {
            Some("ClusterIP" | "ExternalName") => Reach { exposes: has_external_ips, is_balancer: false },
            Some("NodePort") => Reach { exposes: true, is_balancer: false },
            _ => Reach::UNKNOWN,
        }
    }
}

/// What is read of a Service's text where the Service cannot be kept. None of it takes memory.
#[derive(Deserialize)]
struct Glimpse {
    spec: GlimpsedSpec,
}

#[derive(Deserialize)]
struct GlimpsedSpec {
    #[serde(rename = "externalIPs")]
    external_ips: Option<Vec<IgnoredAny>>,
    #[serde(rename = "type")]
    kind: Option<String>,
}

/// What is read of a Service's text.
#[derive(Deserialize)]
pub struct ReadService {
    #[serde(default)]
    metadata: ReadMetadata,
    #[serde(default)]
    spec: Option<ReadSpec>,
    #[serde(default)]
    status: Option<ServiceStatus>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReadMetadata {
    annotations: Option<Texts<MAX_SERVICE>>,
    creation_timestamp: Option<Time>,
    deletion_timestamp: Option<Time>,
    finalizers: Option<List<String>>,
    labels: Option<Texts<MAX_LABELS>>,
    name: Option<String>,
    namespace: Option<String>,
    resource_version: Option<String>,
    uid: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReadSpec {
    #[serde(rename = "clusterIP")]
    cluster_ip: Option<String>,
    #[serde(rename = "clusterIPs")]
    cluster_ips: Option<Vec<String>>,
    #[serde(rename = "externalIPs")]
    external_ips: Option<List<String>>,
    external_traffic_policy: Option<String>,
    health_check_node_port: Option<i32>,
    ip_families: Option<Vec<String>>,
    load_balancer_class: Option<String>,
    #[serde(rename = "loadBalancerIP")]
    load_balancer_ip: Option<String>,
    load_balancer_source_ranges: Option<List<String>>,
    ports: Option<List<ServicePort>>,
    session_affinity: Option<String>,
    session_affinity_config: Option<SessionAffinityConfig>,
    #[serde(rename = "type")]
    kind: Option<String>,
}

impl ReadService {
    /// What each part of which there may be much takes in memory.
    fn parts(&self) -> [(&'static str, usize); 7] {
        let ReadMetadata { annotations, finalizers, labels, .. } = &self.metadata;
        let spec = self.spec.as_ref();
        let list = |list: Option<&List<String>>| list.map_or(0, |list| list.bytes);
        let labels = labels.as_ref().filter(|labels| !labels.is_too_large());
        [
            ("labels", labels.map_or(0, |labels| labels.bytes)),
            ("annotations", annotations.as_ref().map_or(0, |annotations| annotations.bytes)),
            ("finalizers", list(finalizers.as_ref())),
            ("ports", spec.and_then(|spec| spec.ports.as_ref()).map_or(0, |ports| ports.bytes)),
            ("externalIPs", list(spec.and_then(|spec| spec.external_ips.as_ref()))),
            ("loadBalancerSourceRanges", list(spec.and_then(|spec| spec.load_balancer_source_ranges.as_ref()))),
            ("loadBalancerIP", spec.and_then(|spec| spec.load_balancer_ip.as_ref()).map_or(0, String::len)),
        ]
    }
}

impl From<ReadSpec> for ServiceSpec {
    fn from(read: ReadSpec) -> Self {
        let without_target = |port: ServicePort| ServicePort { target_port: None, ..port };
        Self {
            cluster_ip: read.cluster_ip,
            cluster_ips: read.cluster_ips,
            external_ips: read.external_ips.map(|ips| ips.all),
            external_traffic_policy: read.external_traffic_policy,
            health_check_node_port: read.health_check_node_port,
            ip_families: read.ip_families,
            load_balancer_class: read.load_balancer_class,
            load_balancer_ip: read.load_balancer_ip,
            load_balancer_source_ranges: read.load_balancer_source_ranges.map(|ranges| ranges.all),
            ports: read.ports.map(|ports| ports.all.into_iter().map(without_target).collect()),
            session_affinity: read.session_affinity,
            session_affinity_config: read.session_affinity_config,
            type_: read.kind,
            ..Self::default()
        }
    }
}

/// Texts by name: all of them, or none when they take more than `MOST` bytes.
#[derive(Default)]
struct Texts<const MOST: usize> {
    all: BTreeMap<String, String>,
    /// What all of them take, or would take.
    bytes: usize,
}

impl<const MOST: usize> Texts<MOST> {
    const fn is_too_large(&self) -> bool {
        self.bytes > MOST
    }
}

impl<'de, const MOST: usize> Deserialize<'de> for Texts<MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(TextsVisitor::<MOST>)
    }
}

struct TextsVisitor<const MOST: usize>;

impl<'de, const MOST: usize> Visitor<'de> for TextsVisitor<MOST> {
    type Value = Texts<MOST>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("texts by name")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut texts = Texts::<MOST>::default();
        while let Some((name, value)) = map.next_entry::<String, String>()? {
            if name == LAST_APPLIED {
                continue;
            }
            let bytes = ENTRY.saturating_add(name.len()).saturating_add(value.len());
            texts.bytes = texts.bytes.saturating_add(bytes);
            if texts.is_too_large() {
                texts.all = BTreeMap::new();
            } else {
                texts.all.insert(name, value);
            }
        }
        Ok(texts)
    }
}

/// What takes memory.
trait Weighed {
    /// How much, with itself.
    fn bytes(&self) -> usize;
}

impl Weighed for String {
    fn bytes(&self) -> usize {
        size_of::<Self>().saturating_add(self.len())
    }
}

impl Weighed for ServicePort {
    fn bytes(&self) -> usize {
        let texts = [&self.app_protocol, &self.name, &self.protocol].into_iter().flatten();
        texts.fold(size_of::<Self>(), |all, text| all.saturating_add(text.len()))
    }
}

/// A list: all of it, or nothing when it takes more than is kept of a Service.
struct List<T> {
    all: Vec<T>,
    /// What all of it takes, or would take.
    bytes: usize,
}

impl<'de, T: Deserialize<'de> + Weighed> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(ListVisitor::<T>(PhantomData))
    }
}

struct ListVisitor<T>(PhantomData<fn() -> T>);

impl<'de, T: Deserialize<'de> + Weighed> Visitor<'de> for ListVisitor<T> {
    type Value = List<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut list = List { all: Vec::new(), bytes: 0 };
        while let Some(one) = seq.next_element::<T>()? {
            list.bytes = list.bytes.saturating_add(one.bytes());
            if list.bytes > MAX_SERVICE {
                list.all = Vec::new();
            } else {
                list.all.push(one);
            }
        }
        list.all.shrink_to_fit();
        Ok(list)
    }
}

#[cfg(test)]
mod tests;
