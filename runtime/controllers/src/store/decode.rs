//! Reads objects from the API server's JSON, as far as they are kept.
//!
//! `kube::core::DeserializeGuard` copies each object into a tree of values, twice, before it looks at its fields. In a cluster of
//! 5,000 Nodes, each of which changes some times when it joins, that is most of what the process computes, and leaves memory
//! in pieces. Here the text is read once, and what nobody reads is skipped without a copy.

use std::borrow::Cow;
use std::fmt::Debug;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::runtime::reflector::Lookup;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// The copy that kubectl keeps of what it applied last.
pub(super) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// An object that is kept, and what is read of its text.
pub trait Stored: Lookup<DynamicType = ()> + Clone + Debug + Send + Sync + 'static {
    /// What the API server calls it.
    type Kind: Resource<DynamicType = ()>;
    /// The fields that are read.
    type Read: DeserializeOwned;

    /// Drops what no controller reads, so that memory does not grow with it.
    fn keep(read: Self::Read) -> Self;
}

/// An object, or why it cannot be decoded. A list or a watch goes on when one object is odd.
#[derive(Debug, Clone)]
pub(super) struct DeserializeGuard<K> {
    /// Says which object it is, and in which version.
    pub(super) metadata: ObjectMeta,
    pub(super) object: Result<K, String>,
}

impl<K: Stored> From<K> for DeserializeGuard<K> {
    fn from(object: K) -> Self {
        let metadata = ObjectMeta {
            name: object.name().map(Cow::into_owned),
            namespace: object.namespace().map(Cow::into_owned),
            resource_version: object.resource_version().map(Cow::into_owned),
            uid: object.uid().map(Cow::into_owned),
            ..ObjectMeta::default()
        };
        Self { metadata, object: Ok(object) }
    }
}

impl<'de, K: Stored> Deserialize<'de> for DeserializeGuard<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let error = match serde_json::from_str(text.get()) {
            Ok(read) => return Ok(K::keep(read).into()),
            Err(error) => error.to_string(),
        };
        let Identified { metadata } = serde_json::from_str(text.get()).map_err(D::Error::custom)?;
        let Identity { name, namespace, resource_version, uid } = metadata;
        let metadata = ObjectMeta { name, namespace, resource_version, uid, ..ObjectMeta::default() };
        Ok(Self { metadata, object: Err(error) })
    }
}

impl<K: Stored> Resource for DeserializeGuard<K> {
    type DynamicType = ();
    type Scope = <K::Kind as Resource>::Scope;

    fn kind((): &()) -> Cow<'_, str> {
        <K::Kind as Resource>::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        <K::Kind as Resource>::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        <K::Kind as Resource>::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        <K::Kind as Resource>::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[derive(Deserialize)]
struct Identified {
    #[serde(default)]
    metadata: Identity,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Identity {
    name: Option<String>,
    namespace: Option<String>,
    resource_version: Option<String>,
    uid: Option<String>,
}

impl Stored for Service {
    type Kind = Self;
    type Read = Self;

    fn keep(mut read: Self) -> Self {
        read.metadata.managed_fields = None;
        if let Some(annotations) = &mut read.metadata.annotations {
            annotations.remove(LAST_APPLIED);
        }
        read
    }
}
