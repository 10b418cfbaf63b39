//! A Kubernetes Node as far as finding its machine needs it.

use std::fmt;

use serde::Serialize;

use crate::Attributes;

/// `type` of an entry in `status.addresses`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub enum AddressKind {
    /// `InternalIP`
    InternalIp,
    /// `ExternalIP`
    ExternalIp,
    /// `Hostname`
    Hostname,
    /// `InternalDNS`
    InternalDns,
    /// `ExternalDNS`
    ExternalDns,
}

impl AddressKind {
    const ALL: [Self; 5] = [Self::InternalIp, Self::ExternalIp, Self::Hostname, Self::InternalDns, Self::ExternalDns];

    /// The word that Kubernetes uses.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InternalIp => "InternalIP",
            Self::ExternalIp => "ExternalIP",
            Self::Hostname => "Hostname",
            Self::InternalDns => "InternalDNS",
            Self::ExternalDns => "ExternalDNS",
        }
    }

    /// The kind that Kubernetes calls `word`; none for a word that Kubernetes does not define.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }
}

impl fmt::Display for AddressKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One entry of `status.addresses`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Address {
    /// What the value is.
    pub kind: AddressKind,
    /// IP address or DNS name, in the cloud's spelling.
    pub value: String,
}

impl Address {
    /// An address of that kind.
    pub fn new(kind: AddressKind, value: impl Into<String>) -> Self {
        Self { kind, value: value.into() }
    }
}

/// The contract's `node`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Node {
    /// `metadata.name`
    pub name: String,
    /// `metadata.uid`
    pub uid: String,
    /// `spec.providerID`, with its scheme.
    pub provider_id: Option<String>,
    /// `status.nodeInfo.systemUUID`, in lower case.
    pub system_uuid: Option<String>,
    /// `status.addresses`; entries of kinds that Kubernetes does not define are left out.
    pub addresses: Vec<Address>,
    /// `metadata.labels`
    pub labels: Attributes,
    /// `metadata.annotations`. All of them on this side of the contract; a component gets only those that it declared.
    pub annotations: Attributes,
    /// `status.capacity`, as Kubernetes quantities: `cpu`, `memory`.
    pub capacity: Attributes,
    /// Keys of `spec.taints`.
    pub taints: Vec<String>,
    /// Pod CIDRs of a Node that was told that all of them have routes. Empty in calls that are not about routes.
    pub routed_cidrs: Vec<String>,
}

impl Node {
    /// Scheme of the provider ID, without `://`; none when there is no provider ID or it has no scheme.
    #[must_use]
    pub fn scheme(&self) -> Option<&str> {
        self.provider_id.as_deref()?.split_once("://").map(|(scheme, _)| scheme)
    }
}

/// Something that a [`Node`] can be made from. Thousands can wait for their lookup: what the cloud is told of each is made when
/// its batch leaves.
pub trait Described: Send + Sync {
    /// As [`Node::provider_id`].
    fn provider_id(&self) -> Option<&str>;

    /// What the cloud is told.
    fn describe(&self) -> Node;
}

impl Described for Node {
    fn provider_id(&self) -> Option<&str> {
        self.provider_id.as_deref()
    }

    fn describe(&self) -> Node {
        self.clone()
    }
}
