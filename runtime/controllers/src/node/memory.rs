//! What the node controller remembers of Nodes that are being initialised. It forgets a Node when it is initialised or
//! deleted, so memory is bounded by the Nodes that wait. Of the others it remembers those whose addresses it could not refresh last time.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use ccm_cloud::FailedRequest;
use parking_lot::Mutex;
use prometheus_client::metrics::gauge::Gauge;
use tokio::time::Instant;

use crate::explain::Next;
use crate::shrink::shrink;
use crate::store::{Age, Lists, Node};
use crate::troubles::{Listed, Lister, UninitialisedNode};
use crate::warnings::Warnings;

#[derive(Default)]
struct KnownNode {
    uid: String,
    /// Whether it counts as uninitialised.
    waiting: bool,
    warnings: Warnings,
    /// Age of the answer to our last write, which removed the taint.
    finished: Option<Age>,
    /// The taint was to be removed by us, and nobody knows whether it was.
    unanswered: bool,
    /// Since when every provider says that it is not its own.
    unclaimed: Option<Instant>,
    /// Why the last try failed.
    failure: Option<KnownFailure>,
}

/// Why the addresses of an initialised Node were not refreshed.
#[derive(Default)]
pub(crate) struct Unrefreshed {
    pub(crate) reaction: &'static str,
    /// What its Events have said of that.
    pub(crate) told: Warnings,
}

/// A try that failed.
#[derive(Debug, Clone)]
pub(crate) struct KnownFailure {
    pub(crate) message: String,
    pub(crate) reaction: &'static str,
    pub(crate) at: Instant,
    /// How many tries have failed, with this one.
    pub(crate) tries: u32,
    /// The request to the cloud behind it.
    pub(crate) request: Option<Arc<FailedRequest>>,
    /// Only a change of the Node helps.
    pub(crate) until_change: bool,
}

/// What is remembered of a Node, for those who ask.
#[derive(Default)]
pub(crate) struct Known {
    pub(crate) failure: Option<KnownFailure>,
    pub(crate) unclaimed: Option<Instant>,
    pub(crate) until_change: bool,
}

/// By name of the Node.
pub(crate) struct Memory {
    nodes: Mutex<HashMap<String, KnownNode>>,
    waiting: Gauge,
    lists: Lists,
    /// By name of the Node, why.
    unrefreshed: Mutex<HashMap<String, Unrefreshed>>,
}

impl Memory {
    /// Keeps the number of Nodes that wait in `waiting`. `lists` are those of the store.
    pub(crate) fn new(waiting: Gauge, lists: Lists) -> Self {
        Self { nodes: Mutex::default(), waiting, lists, unrefreshed: Mutex::default() }
    }

    /// A Node that carries the taint was seen. Says whether this is news: false while the store still shows a state from
    /// before the taint was removed by us. Working on that one would ask the cloud and write for nothing.
    pub(crate) fn is_waiting(&self, node: &Node) -> bool {
        let uid = node.uid.as_deref().unwrap_or_default();
        let mut nodes = self.nodes.lock();
        let entry = nodes.entry(node.name_any()).or_default();
        if entry.uid != uid {
            // Another Node of the same name; it still waits, if the old one did.
            *entry = KnownNode { uid: uid.to_owned(), waiting: entry.waiting, ..KnownNode::default() };
        }
        if let Some(finished) = entry.finished
            && !self.lists.shown(node.resource_version.as_deref()).is_as_new_as(finished)
        {
            return false;
        }
        if !std::mem::replace(&mut entry.waiting, true) {
            self.waiting.inc();
        }
        true
    }

    /// The taint was removed by us, and `node` is the answer to that.
    pub(crate) fn finished(&self, node: &Node) {
        let mut nodes = self.nodes.lock();
        let Some(entry) = nodes.get_mut(&node.name_any()) else { return };
        if node.uid.as_deref() != Some(&entry.uid) {
            return;
        }
        entry.finished = Some(self.lists.answered(node.resource_version.as_deref()));
        entry.unanswered = false;
        entry.failure = None;
        entry.warnings = Warnings::default();
        if std::mem::take(&mut entry.waiting) {
            self.waiting.dec();
        }
    }

    /// The taint of this Node was to be removed by us, and no answer came.
    pub(crate) fn unanswered(&self, node: &Node) {
        if let Some(entry) = self.nodes.lock().get_mut(&node.name_any())
            && node.uid.as_deref() == Some(&entry.uid)
        {
            entry.unanswered = true;
        }
    }

    /// The last try for this Node failed.
    pub(crate) fn failed(&self, name: &str, failure: KnownFailure) {
        if let Some(entry) = self.nodes.lock().get_mut(name) {
            let before = entry.failure.as_ref().map_or(0, |failure| failure.tries);
            entry.failure = Some(KnownFailure { tries: before.saturating_add(failure.tries), ..failure });
        }
    }

    /// What is remembered of a Node, for those who ask; nothing of another one that had its name.
    pub(crate) fn known(&self, node: &Node) -> Known {
        let nodes = self.nodes.lock();
        let entry = nodes.get(&node.name_any()).filter(|entry| node.uid.as_deref() == Some(&entry.uid));
        let known = entry.map(|entry| Known {
            failure: entry.failure.clone(),
            unclaimed: entry.unclaimed,
            until_change: entry.failure.as_ref().is_some_and(|failure| failure.until_change),
        });
        known.unwrap_or_default()
    }

    /// Nodes that wait, the first by name. When the next try is, the queue alone knows, but for those that wait for a change.
    pub(crate) fn troubles(&self, most: usize) -> Listed<UninitialisedNode> {
        let mut lister = Lister::new(most);
        for (name, entry) in self.nodes.lock().iter().filter(|(_, entry)| entry.waiting) {
            let failure = entry.failure.as_ref();
            lister.add(name.clone(), |name| UninitialisedNode {
                name,
                why: failure.map(|failure| failure.message.clone()),
                reaction: failure.map(|failure| failure.reaction),
                unclaimed: entry.unclaimed.map(|since| since.elapsed()),
                next: failure.filter(|failure| failure.until_change).map(|_| Next::OnChange).unwrap_or_default(),
            });
        }
        lister.listed()
    }

    /// Every provider says that this Node is not its own. Returns for how long.
    pub(crate) fn unclaimed(&self, name: &str) -> Duration {
        let mut nodes = self.nodes.lock();
        nodes.get_mut(name).map(|entry| entry.unclaimed.get_or_insert_with(Instant::now).elapsed()).unwrap_or_default()
    }

    /// Whether this Node, which has no taint any more, lost it by our write without an answer. Says so once.
    pub(crate) fn was_unanswered(&self, node: &Node) -> bool {
        let mut nodes = self.nodes.lock();
        let entry = nodes.get_mut(&node.name_any()).filter(|entry| node.uid.as_deref() == Some(&entry.uid));
        entry.is_some_and(|entry| std::mem::take(&mut entry.unanswered))
    }

    /// The Node has no taint any more, or is gone.
    pub(crate) fn forget(&self, name: &str) {
        let mut nodes = self.nodes.lock();
        let removed = nodes.remove(name);
        shrink(&mut nodes);
        drop(nodes);
        if removed.is_some_and(|entry| entry.waiting) {
            self.waiting.dec();
        }
    }

    /// Remembers which Nodes were not refreshed this time, and why. Returns those of the time before.
    pub(crate) fn unrefreshed(&self, now: HashMap<String, Unrefreshed>) -> HashMap<String, Unrefreshed> {
        std::mem::replace(&mut *self.unrefreshed.lock(), now)
    }

    /// As [`Warnings::is_news`].
    pub(crate) fn is_news(&self, name: &str, warning: &str, repeat: Duration) -> bool {
        self.nodes.lock().get_mut(name).is_some_and(|entry| entry.warnings.is_news(warning, repeat))
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.nodes.lock().len()
    }
}
