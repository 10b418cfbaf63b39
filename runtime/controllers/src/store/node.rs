//! What is kept of a Node. The type of the Kubernetes API takes three times as much for the same, and clusters have thousands.

use std::borrow::Cow;
use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node as WholeNode, NodeAddress, Taint};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Resource;
use kube::runtime::reflector::{Lookup, ObjectRef};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::decode::{LAST_APPLIED, Stored};
use super::pairs::Pairs;

/// A Node as far as controllers read it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(from = "ReadNode")]
pub struct Node {
    /// `metadata.name`.
    pub name: Box<str>,
    /// `metadata.uid`.
    pub uid: Option<Box<str>>,
    /// `metadata.resourceVersion`.
    pub resource_version: Option<Box<str>>,
    /// `metadata.creationTimestamp`.
    pub created: Option<Timestamp>,
    /// Whether there is a `metadata.deletionTimestamp`.
    pub is_deleting: bool,
    /// `metadata.labels`, by name.
    pub labels: Pairs,
    /// `metadata.annotations`, by name, without the copy that kubectl keeps.
    pub annotations: Pairs,
    /// `spec.providerID`, where it says anything.
    pub provider_id: Option<Box<str>>,
    /// `spec.podCIDRs`, or `spec.podCIDR` where only that is there, as they are written.
    pub pod_cidrs: Box<[Box<str>]>,
    /// `spec.taints`.
    pub taints: Box<[Taint]>,
    /// `status.addresses`: types and addresses.
    pub addresses: Pairs,
    /// `cpu` and `memory` of `status.capacity`.
    pub capacity: Pairs,
    /// Status of the condition Ready.
    pub ready: Option<Box<str>>,
    /// Status and reason of the condition NetworkUnavailable.
    pub network_unavailable: Option<(Box<str>, Box<str>)>,
    /// `status.nodeInfo.systemUUID`, where it says anything.
    pub system_uuid: Option<Box<str>>,
}

impl Node {
    /// Its name, owned.
    #[must_use]
    pub fn name_any(&self) -> String {
        self.name.to_string()
    }

    /// As the API server writes it, without what is not kept: for whoever answers in its place.
    #[must_use]
    pub fn to_json(&self) -> Value {
        // Each of them, so that none is forgotten.
        let Self {
            name,
            uid,
            resource_version,
            created,
            is_deleting,
            labels,
            annotations,
            provider_id,
            pod_cidrs,
            taints,
            addresses,
            capacity,
            ready,
            network_unavailable,
            system_uuid,
        } = self;
        let map = |pairs: &Pairs| -> Map<String, Value> {
            pairs.iter().map(|(name, value)| (name.to_owned(), value.into())).collect()
        };
        let address = |(kind, address): (&str, &str)| json!({ "type": kind, "address": address });
        let ready = ready.iter().map(|status| json!({ "type": "Ready", "status": status }));
        let network = network_unavailable
            .iter()
            .map(|(status, reason)| json!({ "type": "NetworkUnavailable", "status": status, "reason": reason }));
        json!({
            "metadata": {
                "name": name, "uid": uid, "resourceVersion": resource_version, "creationTimestamp": created,
                // When, nobody reads.
                "deletionTimestamp": is_deleting.then_some(Timestamp::UNIX_EPOCH),
                "labels": map(labels), "annotations": map(annotations),
            },
            "spec": { "providerID": provider_id, "podCIDRs": pod_cidrs, "taints": taints },
            "status": {
                "addresses": addresses.iter().map(address).collect::<Vec<_>>(), "capacity": map(capacity),
                "conditions": ready.chain(network).collect::<Vec<_>>(),
                "nodeInfo": { "systemUUID": system_uuid.as_deref().unwrap_or_default() },
            },
        })
    }
}

impl Lookup for Node {
    type DynamicType = ();

    fn kind((): &()) -> Cow<'_, str> {
        <WholeNode as Resource>::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        <WholeNode as Resource>::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        <WholeNode as Resource>::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        <WholeNode as Resource>::plural(&())
    }

    fn name(&self) -> Option<Cow<'_, str>> {
        Some(&*self.name).filter(|name| !name.is_empty()).map(Cow::Borrowed)
    }

    fn namespace(&self) -> Option<Cow<'_, str>> {
        None
    }

    fn resource_version(&self) -> Option<Cow<'_, str>> {
        self.resource_version.as_deref().map(Cow::Borrowed)
    }

    fn uid(&self) -> Option<Cow<'_, str>> {
        self.uid.as_deref().map(Cow::Borrowed)
    }

    /// Without UID and version, which are no part of what makes two keys equal: the store keeps one key per Node.
    fn to_object_ref(&self, (): ()) -> ObjectRef<Self> {
        ObjectRef::new(&self.name)
    }
}

impl Stored for Node {
    type Kind = WholeNode;
    type Read = ReadNode;

    /// With its images a Node is up to 30 KiB of text, so a page stays below 8 MiB.
    const PAGE_SIZE: u32 = 250;

    fn keep(read: ReadNode) -> Result<Self, String> {
        Ok(read.into())
    }
}

/// What is read of a Node's text.
#[derive(Deserialize)]
pub struct ReadNode {
    #[serde(default)]
    metadata: ReadMetadata,
    #[serde(default)]
    spec: Option<ReadSpec>,
    #[serde(default)]
    status: Option<ReadStatus>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReadMetadata {
    annotations: Option<BTreeMap<String, String>>,
    creation_timestamp: Option<Time>,
    deletion_timestamp: Option<Time>,
    labels: Option<BTreeMap<String, String>>,
    name: Option<Box<str>>,
    resource_version: Option<Box<str>>,
    uid: Option<Box<str>>,
}

#[derive(Default, Deserialize)]
struct ReadSpec {
    #[serde(rename = "providerID")]
    provider_id: Option<Box<str>>,
    #[serde(rename = "podCIDR")]
    pod_cidr: Option<Box<str>>,
    #[serde(rename = "podCIDRs")]
    pod_cidrs: Option<Box<[Box<str>]>>,
    taints: Option<Box<[Taint]>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReadStatus {
    addresses: Option<Vec<NodeAddress>>,
    capacity: Option<BTreeMap<String, Quantity>>,
    conditions: Option<Vec<ReadCondition>>,
    node_info: Option<ReadNodeInfo>,
}

#[derive(Deserialize)]
struct ReadCondition {
    #[serde(rename = "type", default)]
    kind: Box<str>,
    #[serde(default)]
    status: Box<str>,
    #[serde(default)]
    reason: Option<Box<str>>,
}

#[derive(Deserialize)]
struct ReadNodeInfo {
    #[serde(rename = "systemUUID", default)]
    system_uuid: Box<str>,
}

impl From<ReadNode> for Node {
    fn from(read: ReadNode) -> Self {
        let ReadNode { metadata, spec, status } = read;
        let (spec, status) = (spec.unwrap_or_default(), status.unwrap_or_default());
        let annotations = metadata.annotations.into_iter().flatten();
        let pod_cidrs = spec.pod_cidrs.filter(|all| !all.is_empty());
        let pod_cidrs = pod_cidrs.or_else(|| Some([spec.pod_cidr.filter(|one| !one.is_empty())?].into()));
        let (mut ready, mut network_unavailable) = (None, None);
        for ReadCondition { kind, status, reason } in status.conditions.into_iter().flatten() {
            match &*kind {
                "Ready" => ready = Some(status),
                "NetworkUnavailable" => network_unavailable = Some((status, reason.unwrap_or_default())),
                _ => {}
            }
        }
        let capacity = status.capacity.into_iter().flatten().map(|(name, Quantity(value))| (name, value));
        Self {
            name: metadata.name.unwrap_or_default(),
            uid: metadata.uid,
            resource_version: metadata.resource_version,
            created: metadata.creation_timestamp.map(|Time(created)| created),
            is_deleting: metadata.deletion_timestamp.is_some(),
            labels: metadata.labels.into_iter().flatten().collect(),
            annotations: annotations.filter(|(name, _)| name != LAST_APPLIED).collect(),
            provider_id: spec.provider_id.filter(|text| !text.is_empty()),
            pod_cidrs: pod_cidrs.unwrap_or_default(),
            taints: spec.taints.unwrap_or_default(),
            addresses: status.addresses.into_iter().flatten().map(|one| (one.type_, one.address)).collect(),
            capacity: capacity.filter(|(name, _)| matches!(name.as_str(), "cpu" | "memory")).collect(),
            ready,
            network_unavailable,
            system_uuid: status.node_info.map(|info| info.system_uuid).filter(|text| !text.is_empty()),
        }
    }
}
