//! Reads objects from the API server's JSON, as far as they are kept.
//!
//! `kube::core::DeserializeGuard` copies each object into a tree of values, twice, before it looks at its fields. In a cluster of
//! 5,000 Nodes, each of which changes some times when it joins, that is most of what the process computes, and leaves memory
//! in pieces. Here the text is read once, and what nobody reads is skipped without a copy.

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Node, NodeAddress, NodeCondition, NodeSpec, NodeStatus, NodeSystemInfo, Service, Taint,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use kube::Resource;
use kube::core::error_boundary::InvalidObject;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// An object that is kept, and what is read of its text.
pub trait Stored: Sized {
    /// The fields that are read.
    type Read: DeserializeOwned + Into<Self>;
}

/// An object, or why it cannot be decoded. A list or a watch goes on when one object is odd.
#[derive(Debug, Clone)]
pub(super) struct DeserializeGuard<K>(pub(super) Result<K, InvalidObject>);

impl<'de, K: Stored> Deserialize<'de> for DeserializeGuard<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let error = match serde_json::from_str::<K::Read>(text.get()) {
            Ok(read) => return Ok(Self(Ok(read.into()))),
            Err(error) => error.to_string(),
        };
        let Identified { metadata } = serde_json::from_str(text.get()).map_err(D::Error::custom)?;
        Ok(Self(Err(InvalidObject { error, metadata: metadata.into() })))
    }
}

impl<K: Resource> Resource for DeserializeGuard<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(kind: &Self::DynamicType) -> Cow<'_, str> {
        K::kind(kind)
    }

    fn group(kind: &Self::DynamicType) -> Cow<'_, str> {
        K::group(kind)
    }

    fn version(kind: &Self::DynamicType) -> Cow<'_, str> {
        K::version(kind)
    }

    fn plural(kind: &Self::DynamicType) -> Cow<'_, str> {
        K::plural(kind)
    }

    fn meta(&self) -> &ObjectMeta {
        self.0.as_ref().map_or_else(|invalid| &invalid.metadata, K::meta)
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.0.as_mut().map_or_else(|invalid| &mut invalid.metadata, K::meta_mut)
    }
}

#[derive(Deserialize)]
struct Identified {
    #[serde(default)]
    metadata: Metadata,
}

/// All but `managedFields`, which are more than everything else.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    annotations: Option<BTreeMap<String, String>>,
    creation_timestamp: Option<Time>,
    deletion_grace_period_seconds: Option<i64>,
    deletion_timestamp: Option<Time>,
    finalizers: Option<Vec<String>>,
    generation: Option<i64>,
    labels: Option<BTreeMap<String, String>>,
    name: Option<String>,
    namespace: Option<String>,
    owner_references: Option<Vec<OwnerReference>>,
    resource_version: Option<String>,
    uid: Option<String>,
}

impl From<Metadata> for ObjectMeta {
    fn from(read: Metadata) -> Self {
        Self {
            annotations: read.annotations,
            creation_timestamp: read.creation_timestamp,
            deletion_grace_period_seconds: read.deletion_grace_period_seconds,
            deletion_timestamp: read.deletion_timestamp,
            finalizers: read.finalizers,
            generation: read.generation,
            labels: read.labels,
            name: read.name,
            namespace: read.namespace,
            owner_references: read.owner_references,
            resource_version: read.resource_version,
            uid: read.uid,
            ..Self::default()
        }
    }
}

/// See [`Trim`](super::Trim), which drops the rest.
#[derive(Deserialize)]
pub struct ReadNode {
    #[serde(default)]
    metadata: Metadata,
    spec: Option<ReadNodeSpec>,
    status: Option<ReadNodeStatus>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReadNodeSpec {
    #[serde(rename = "providerID")]
    provider_id: Option<String>,
    taints: Option<Vec<Taint>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReadNodeStatus {
    addresses: Option<Vec<NodeAddress>>,
    capacity: Option<BTreeMap<String, Quantity>>,
    conditions: Option<Vec<ReadCondition>>,
    node_info: Option<ReadNodeInfo>,
}

#[derive(Deserialize)]
struct ReadCondition {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    status: String,
}

#[derive(Deserialize)]
struct ReadNodeInfo {
    #[serde(rename = "systemUUID", default)]
    system_uuid: String,
}

impl Stored for Node {
    type Read = ReadNode;
}

impl From<ReadNode> for Node {
    fn from(read: ReadNode) -> Self {
        let condition =
            |read: ReadCondition| NodeCondition { type_: read.kind, status: read.status, ..NodeCondition::default() };
        let info = |read: ReadNodeInfo| NodeSystemInfo { system_uuid: read.system_uuid, ..NodeSystemInfo::default() };
        let spec =
            |read: ReadNodeSpec| NodeSpec { provider_id: read.provider_id, taints: read.taints, ..NodeSpec::default() };
        let status = |read: ReadNodeStatus| NodeStatus {
            addresses: read.addresses,
            capacity: read.capacity,
            conditions: read.conditions.map(|read| read.into_iter().map(condition).collect()),
            node_info: read.node_info.map(info),
            ..NodeStatus::default()
        };
        Self { metadata: read.metadata.into(), spec: read.spec.map(spec), status: read.status.map(status) }
    }
}

impl Stored for Service {
    type Read = Self;
}
