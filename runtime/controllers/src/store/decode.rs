//! Reads objects from the API server's JSON, as far as they are kept.
//!
//! `kube::core::DeserializeGuard` copies each object into a tree of values, twice, before it looks at its fields. In a cluster of
//! 5,000 Nodes, each of which changes some times when it joins, that is most of what the process computes, and leaves memory
//! in pieces. Here the text is read once, and what nobody reads is skipped without a copy.

use std::borrow::Cow;
use std::fmt::Debug;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::runtime::reflector::Lookup;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::unread::Reach;

/// The copy that kubectl keeps of what it applied last.
pub(super) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// An object that is kept, and what is read of its text.
pub trait Stored: Lookup<DynamicType = ()> + Clone + Debug + Send + Sync + 'static {
    /// What the API server calls it.
    type Kind: Resource<DynamicType = ()>;
    /// The fields that are read.
    type Read: DeserializeOwned;
    /// Most objects in a page of a list: the text of a page is in memory as a whole, for a moment twice.
    const PAGE_SIZE: u32;

    /// Drops what no controller reads, so that memory does not grow with it.
    ///
    /// # Errors
    ///
    /// There is more of it than is kept of one object; in words.
    fn keep(read: Self::Read) -> Result<Self, String>;

    /// What [`keep`](Self::keep) leaves out although it is read, since there is too much of it; in words.
    fn surplus(_: &Self::Read) -> Option<String> {
        None
    }

    /// What an object with this text, which cannot be read, may have in a cloud.
    fn reach(_: &str) -> Reach {
        Reach::UNKNOWN
    }
}

/// An object, or why it cannot be decoded. A list or a watch goes on when one object is odd.
#[derive(Debug, Clone)]
pub(crate) struct DeserializeGuard<K> {
    /// Says which object it is, and in which version.
    pub(super) metadata: ObjectMeta,
    pub(crate) object: Result<K, String>,
    /// What is left out of the object, since there is too much of it.
    pub(super) surplus: Option<String>,
    /// What it may have in a cloud; counts only where it cannot be decoded.
    pub(super) reach: Reach,
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
        Self { metadata, object: Ok(object), surplus: None, reach: Reach::UNKNOWN }
    }
}

impl<'de, K: Stored> Deserialize<'de> for DeserializeGuard<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let error = match serde_json::from_str::<K::Read>(text.get()) {
            Ok(read) => {
                let surplus = K::surplus(&read);
                match K::keep(read) {
                    Ok(object) => return Ok(Self { surplus, ..Self::from(object) }),
                    Err(error) => error,
                }
            }
            Err(error) => error.to_string(),
        };
        let Identified { metadata } = serde_json::from_str(text.get()).map_err(D::Error::custom)?;
        let Identity { name, namespace, resource_version, uid } = metadata;
        let metadata = ObjectMeta { name, namespace, resource_version, uid, ..ObjectMeta::default() };
        Ok(Self { metadata, object: Err(error), surplus: None, reach: K::reach(text.get()) })
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

/// Which object a text is of, whatever else is in it: nothing else takes memory.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Identified {
    #[serde(default)]
    pub(crate) metadata: Identity,
}

/// The metadata that say so.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Identity {
    pub(crate) name: Option<String>,
    pub(crate) namespace: Option<String>,
    resource_version: Option<String>,
    pub(crate) uid: Option<String>,
}
