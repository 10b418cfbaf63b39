//! When routes are looked at: Nodes that changed, gathered; a period; a cloud that answers again.
//!
//! Of a Node only what makes a route matters: pod CIDRs, addresses, provider ID. Heartbeats, images, labels and conditions, our own
//! among them, wake nobody.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use kube::runtime::reflector::ObjectRef;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::sync::Syncer;
use crate::cluster::wake::{about, later, recovered};
use crate::store::{FirstList, Node};

/// Names that wait for the queue, which takes them at once.
const BOUND: usize = 64;

/// Since when there is something to do.
#[derive(Clone, Copy)]
struct Changed {
    first: Instant,
    last: Instant,
}

/// Puts the names of providers into the queue.
pub(super) struct Waking {
    syncer: Arc<Syncer>,
    keys: mpsc::Receiver<ObjectRef<Node>>,
    first_list: FirstList,
    recoveries: Vec<(Arc<str>, watch::Receiver<u64>)>,
    queue: mpsc::Sender<Arc<str>>,
    /// What was seen of each Node.
    marks: HashMap<ObjectRef<Node>, u64>,
}

impl Waking {
    pub(super) fn new(
        syncer: Arc<Syncer>,
        keys: mpsc::Receiver<ObjectRef<Node>>,
        first_list: FirstList,
        recoveries: Vec<(Arc<str>, watch::Receiver<u64>)>,
    ) -> (Self, mpsc::Receiver<Arc<str>>) {
        let (queue, names) = mpsc::channel(BOUND);
        (Self { syncer, keys, first_list, recoveries, queue, marks: HashMap::new() }, names)
    }

    /// Works until the reflector ends, or nobody takes names any more.
    pub(super) async fn run(mut self) {
        let settings = self.syncer.settings;
        let mut list = std::pin::pin!(self.first_list.clone().complete());
        let mut recoveries: FuturesUnordered<_> =
            std::mem::take(&mut self.recoveries).into_iter().map(recovered).collect();
        let mut changed: Option<Changed> = None;
        // None until the list is complete: whoever saw half of the Nodes would take the routes of the others away.
        let mut period: Option<Instant> = None;
        let due =
            |changed: Changed| later(changed.last, settings.debounce).min(later(changed.first, settings.max_wait));
        loop {
            let next = period.map(|period| changed.map_or(period, |changed| due(changed).min(period)));
            tokio::select! {
                key = self.keys.recv() => {
                    let Some(key) = key else { return };
                    // What comes before the list is complete is part of it.
                    if self.has_changed(key) && period.is_some() {
                        let now = Instant::now();
                        changed = Some(Changed { first: changed.map_or(now, |changed| changed.first), last: now });
                    }
                    continue;
                }
                complete = &mut list, if period.is_none() => {
                    if !complete {
                        return;
                    }
                    self.saw_all();
                }
                Some(recovery) = recoveries.next(), if !recoveries.is_empty() => {
                    // None: whoever counts is gone.
                    let Some((name, recovery)) = recovery else { continue };
                    self.syncer.release(&name);
                    if period.is_some() && self.queue.send(Arc::clone(&name)).await.is_err() {
                        return;
                    }
                    recoveries.push(recovered((name, recovery)));
                    continue;
                }
                () = tokio::time::sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {}
            }
            let is_due_to_nodes = changed.take().is_some();
            // All routes are looked at, whatever the cause: the period begins anew.
            period = Some(later(Instant::now(), about(settings.period)));
            for (name, member) in &self.syncer.members {
                if is_due_to_nodes {
                    member.changed();
                }
                if self.queue.send(Arc::clone(name)).await.is_err() {
                    return;
                }
            }
        }
    }

    /// Whether what makes the routes of a Node is another thing than before.
    fn has_changed(&mut self, key: ObjectRef<Node>) -> bool {
        match self.syncer.nodes.get(&key) {
            Some(node) => {
                let now = mark(&node);
                self.marks.insert(key, now) != Some(now)
            }
            None => self.marks.remove(&key).is_some(),
        }
    }

    fn saw_all(&mut self) {
        let nodes = self.syncer.nodes.state();
        self.marks = nodes.iter().map(|node| (ObjectRef::new(&node.name), mark(node))).collect();
    }
}

fn mark(node: &Node) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&node.uid, &node.pod_cidrs, &node.provider_id).hash(&mut hasher);
    node.addresses.iter().for_each(|address| address.hash(&mut hasher));
    hasher.finish()
}
