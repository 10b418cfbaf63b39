//! The Nodes behind the load balancers: selected once per pass, for all Services.
//!
//! | change of a Node | a pass |
//! |---|---|
//! | added, deleted | yes |
//! | added uninitialised and without a provider ID, addresses of such a Node | no; its initialisation is a reason, and the next pass sees it |
//! | the label that excludes it, provider ID, addresses | yes |
//! | autoscaler's taint, deletion timestamp | no; the next pass sees them |
//! | other labels | only of the Services whose provider chose by labels, where it would choose others now |
//! | readiness, cordon, taints | no, and they do not matter |

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ccm_cloud::Backend;
use kube::runtime::reflector::{ObjectRef, Store};
use parking_lot::Mutex;

use super::digest::Digest;
use super::fingerprint;
use super::predicates::{is_backend, is_included};
use crate::store::Node;
use crate::view::node::{addresses, is_uninitialized, provider_id};
use crate::view::selector::Selector;

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
pub(crate) struct Current {
    backends: Mutex<Arc<Backends>>,
    nodes: Store<Node>,
    chosen: Mutex<Chosen>,
    /// How often Nodes got other labels.
    relabelled: AtomicU64,
}

/// Most selectors of which it is remembered what they match: the next one begins anew. A cluster has some tens.
const MAX_CHOSEN: usize = 512;

/// Which backends selectors match, by the labels of the Nodes.
#[derive(Default)]
struct Chosen {
    /// By the digests of the selector and of the backends: the digest of their names.
    names: HashMap<(Digest, Digest), Digest>,
    /// How often labels may have changed.
    age: u64,
}

impl Chosen {
    fn forget(&mut self) {
        self.names.clear();
        self.age += 1;
    }

    /// Keeps what was found by the labels of that `age`.
    fn keep(&mut self, of: (Digest, Digest), names: Digest, age: u64) {
        if self.age != age {
            return;
        }
        if self.names.len() >= MAX_CHOSEN {
            self.names.clear();
        }
        self.names.insert(of, names);
    }
}

/// Which Nodes somebody has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    backends: Digest,
    relabelled: u64,
}

impl Current {
    /// `nodes` are asked for labels.
    pub(crate) fn new(backends: Backends, nodes: Store<Node>) -> Self {
        let (chosen, relabelled) = (Mutex::default(), AtomicU64::new(0));
        Self { backends: Mutex::new(Arc::new(backends)), nodes, chosen, relabelled }
    }

    /// What there is to see now. To be asked before anything is decided by it.
    pub(crate) fn seen(&self) -> Seen {
        let relabelled = self.relabelled.load(Ordering::Relaxed);
        Seen { backends: self.get().digest, relabelled }
    }

    /// A Node has other labels.
    pub(crate) fn relabelled(&self) {
        self.relabelled.fetch_add(1, Ordering::Relaxed);
        self.chosen.lock().forget();
    }

    pub(crate) fn get(&self) -> Arc<Backends> {
        Arc::clone(&self.backends.lock())
    }

    /// Says whether they are others than before. Labels are looked at anew.
    pub(crate) fn replace(&self, backends: Backends) -> bool {
        let mut current = self.backends.lock();
        let changed = current.digest != backends.digest;
        *current = Arc::new(backends);
        self.chosen.lock().forget();
        changed
    }

    /// What `backends` come to for a provider that chooses among them with these selectors.
    pub(crate) fn target(&self, backends: &Backends, selectors: &BTreeSet<String>) -> Digest {
        if selectors.is_empty() {
            return backends.digest;
        }
        let names = selectors.iter().map(|selector| (selector.as_str(), self.matching(backends, selector)));
        fingerprint::chosen(backends.digest, names)
    }

    fn matching(&self, backends: &Backends, selector: &str) -> Digest {
        let of = (Digest::of(&selector), backends.digest);
        let age = {
            let chosen = self.chosen.lock();
            if let Some(names) = chosen.names.get(&of) {
                return *names;
            }
            chosen.age
        };
        // One that cannot be read matched nothing.
        let parsed = Selector::parse(selector).ok();
        let matches = |backend: &&Backend| {
            let node = self.nodes.get(&ObjectRef::new(&backend.name));
            node.zip(parsed.as_ref()).is_some_and(|(node, selector)| selector.matches(&node.labels))
        };
        let names = names(backends.list.iter().filter(matches));
        // Nobody waits while it is tried on the Nodes, whose labels may have changed meanwhile.
        self.chosen.lock().keep(of, names, age);
        names
    }

    /// Of how many selectors it is known what they match.
    #[cfg(test)]
    pub(crate) fn known(&self) -> usize {
        self.chosen.lock().names.len()
    }
}

impl Seen {
    /// Whether there are other backends by `now`, for a provider that `chooses` among them by labels or not.
    pub(crate) fn is_past(self, now: Self, chooses: bool) -> bool {
        self.backends != now.backends || (chooses && self.relabelled != now.relabelled)
    }
}

impl Backends {
    /// Whether the provider may have chosen among them by labels that nobody here remembers, for a load balancer that was last
    /// `recorded` with these; `selects` is whether it chooses at all. Only a call tells by which labels.
    pub(crate) fn may_be_chosen(&self, recorded: Option<Digest>, selects: bool) -> bool {
        recorded.is_some_and(Digest::is_chosen) || (selects && recorded != Some(self.digest))
    }

    /// What they came to for a provider that was told these names of Nodes for its selectors.
    pub(crate) fn told(&self, selected: &BTreeMap<String, Vec<String>>) -> Digest {
        if selected.is_empty() {
            return self.digest;
        }
        let told = selected.iter().map(|(selector, told)| {
            let told: HashSet<&String> = told.iter().collect();
            (selector.as_str(), names(self.list.iter().filter(|backend| told.contains(&backend.name))))
        });
        fingerprint::chosen(self.digest, told)
    }
}

fn names<'a>(backends: impl Iterator<Item = &'a Backend>) -> Digest {
    Digest::of(&backends.map(|backend| backend.name.as_str()).collect::<Vec<_>>())
}

fn backend(node: &Node) -> Backend {
    Backend { name: node.name_any(), provider_id: provider_id(node).map(ToOwned::to_owned), addresses: addresses(node) }
}

/// What each Node was like when it was last looked at, as far as it is a reason for a pass.
#[derive(Default)]
pub(crate) struct Watched(HashMap<String, Looks>);

/// What there is to watch of a Node.
#[derive(Debug, Clone, Copy)]
struct Looks {
    is_included: bool,
    /// It has no provider ID yet, but the taint that says that it will get one.
    is_waiting: bool,
    machine: Digest,
    labels: u64,
}

/// Why there is a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reason {
    /// Matters where a provider chooses by labels.
    Labels,
    /// Matters to all.
    Backends,
}

impl Watched {
    pub(crate) fn new(nodes: &[Arc<Node>]) -> Self {
        Self(nodes.iter().map(|node| (node.name_any(), Looks::of(node))).collect())
    }

    /// Whether what became of the Node called `name` is a reason for a pass.
    pub(crate) fn change(&mut self, name: &str, node: Option<&Node>) -> Option<Reason> {
        let Some(node) = node else { return self.0.remove(name).map(|_| Reason::Backends) };
        let now = Looks::of(node);
        match self.0.insert(name.to_owned(), now) {
            Some(before) if !now.differs(before) => (before.labels != now.labels).then_some(Reason::Labels),
            None if now.is_waiting => None,
            _ => Some(Reason::Backends),
        }
    }
}

impl Looks {
    fn of(node: &Node) -> Self {
        let addresses: Vec<_> = addresses(node).into_iter().map(|address| (address.kind, address.value)).collect();
        Self {
            is_included: is_included(node),
            is_waiting: is_uninitialized(node) && provider_id(node).is_none(),
            machine: Digest::of(&(provider_id(node), addresses)),
            labels: labels(node),
        }
    }

    /// Whether load balancers may have to follow. A Node that waits has no part of its own yet: what would follow it now follows once
    /// more when it is initialised.
    fn differs(self, before: Self) -> bool {
        let machine = match (before.is_waiting, self.is_waiting) {
            (true, true) => false,
            (true, false) => true,
            (false, _) => self.machine != before.machine,
        };
        machine || self.is_included != before.is_included
    }
}

/// A digest of the labels.
fn labels(node: &Node) -> u64 {
    let mut digest = DefaultHasher::new();
    node.labels.hash(&mut digest);
    digest.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_by_labels_that_have_changed_meanwhile_is_not_kept() {
        let (mut chosen, of) = (Chosen::default(), (Digest::of(&1), Digest::of(&2)));
        let before = chosen.age;
        chosen.keep(of, Digest::of(&3), before);
        chosen.forget();
        chosen.keep(of, Digest::of(&3), before);
        assert_eq!(chosen.names.len(), 0);
        chosen.keep(of, Digest::of(&4), chosen.age);
        assert_eq!(chosen.names[&of], Digest::of(&4));
    }
}
