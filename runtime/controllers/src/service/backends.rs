//! The Nodes behind the load balancers: selected once per pass, for all Services.
//!
//! | change of a Node | a pass |
//! |---|---|
//! | added, deleted | yes |
//! | the label that excludes it, provider ID, addresses | yes |
//! | autoscaler's taint, deletion timestamp | no; the next pass sees them |
//! | readiness, cordon, other labels and taints | no, and they do not matter |

use std::collections::HashMap;
use std::sync::Arc;

use ccm_cloud::{Address, AddressKind, Backend};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use parking_lot::Mutex;

use super::fingerprint::{self, Digest};
use super::predicates::{is_backend, is_included};

/// Backends in order of their names.
#[derive(Debug)]
pub(crate) struct Backends {
    pub(crate) list: Arc<[Backend]>,
    pub(crate) digest: Digest,
}

impl Backends {
    /// Those of `nodes` that are backends.
    pub(crate) fn select(nodes: &[Arc<Node>]) -> Self {
        let mut list: Vec<Backend> = nodes.iter().filter(|node| is_backend(node)).map(|node| backend(node)).collect();
        list.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        Self { digest: fingerprint::backends(&list), list: list.into() }
    }
}

/// The backends of the last pass.
pub(crate) struct Current(Mutex<Arc<Backends>>);

impl Current {
    pub(crate) fn new(backends: Backends) -> Self {
        Self(Mutex::new(Arc::new(backends)))
    }

    pub(crate) fn get(&self) -> Arc<Backends> {
        Arc::clone(&self.0.lock())
    }

    /// Says whether they are others than before.
    pub(crate) fn replace(&self, backends: Backends) -> bool {
        let mut current = self.0.lock();
        let changed = current.digest != backends.digest;
        *current = Arc::new(backends);
        changed
    }
}

fn backend(node: &Node) -> Backend {
    Backend { name: node.name_any(), provider_id: provider_id(node).map(ToOwned::to_owned), addresses: addresses(node) }
}

fn provider_id(node: &Node) -> Option<&str> {
    node.spec.as_ref()?.provider_id.as_deref().filter(|id| !id.is_empty())
}

fn addresses(node: &Node) -> Vec<Address> {
    let entries = node.status.iter().flat_map(|status| status.addresses.iter().flatten());
    entries.filter_map(|entry| Some(Address::new(AddressKind::parse(&entry.type_)?, &entry.address))).collect()
}

/// What each Node was like when it was last looked at, as far as it is a reason for a pass.
#[derive(Default)]
pub(crate) struct Watched(HashMap<String, Digest>);

impl Watched {
    pub(crate) fn new(nodes: &[Arc<Node>]) -> Self {
        Self(nodes.iter().map(|node| (node.name_any(), reason(node))).collect())
    }

    /// Whether what became of the Node called `name` is a reason for a pass.
    pub(crate) fn has_changed(&mut self, name: &str, node: Option<&Node>) -> bool {
        match node {
            Some(node) => {
                let now = reason(node);
                self.0.insert(name.to_owned(), now) != Some(now)
            }
            None => self.0.remove(name).is_some(),
        }
    }
}

fn reason(node: &Node) -> Digest {
    let addresses: Vec<_> = addresses(node).into_iter().map(|address| (address.kind, address.value)).collect();
    Digest::of(&(is_included(node), provider_id(node), addresses))
}
