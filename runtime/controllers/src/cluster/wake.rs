//! When providers are called: changes that matter, gathered; a period; a cloud that answers again.
//!
//! A change matters when it changes what a provider is told (the records of the contract), so that heartbeats and
//! conditions wake nobody. Of each object a mark of that is kept, 8 bytes beside its key.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use backon::{BackoffBuilder as _, ConstantBuilder};
use ccm_cloud::{Attributes, Cluster, Descriptor};
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use k8s_openapi::api::core::v1::Service;
use kube::runtime::reflector::{Lookup, ObjectRef, Store};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::sync::Syncer;
use crate::store::{FirstList, Node};
use crate::view::node::cloud_node;
use crate::view::service::cloud_service;

/// Names that wait for the queue, which takes them at once.
const BOUND: usize = 64;
const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);
/// Reaches every provider, without being declared.
const PROVIDED_IP: &str = "alpha.kubernetes.io/provided-node-ip";

/// The store of one kind, who changed in it, and what was seen of each object.
struct Watched<K: Lookup<DynamicType = ()> + Clone + 'static> {
    store: Store<K>,
    keys: mpsc::Receiver<ObjectRef<K>>,
    marks: HashMap<ObjectRef<K>, u64>,
}

impl<K: Lookup<DynamicType = ()> + Clone + 'static> Watched<K> {
    fn new((store, keys): (Store<K>, mpsc::Receiver<ObjectRef<K>>)) -> Self {
        Self { store, keys, marks: HashMap::new() }
    }

    /// Whether what a provider would be told about the object is another thing than before.
    fn has_changed(&mut self, key: ObjectRef<K>, mark: impl Fn(&K) -> u64) -> bool {
        match self.store.get(&key) {
            Some(object) => {
                let now = mark(&object);
                self.marks.insert(key, now) != Some(now)
            }
            None => self.marks.remove(&key).is_some(),
        }
    }

    /// Takes all as seen.
    fn saw_all(&mut self, mark: impl Fn(&K) -> u64) {
        // UID and version, which these keys have and others have not, are no part of what makes two keys equal.
        self.marks = self.store.state().iter().map(|object| (ObjectRef::from_obj(&**object), mark(object))).collect();
    }
}

/// The annotations that providers declare at this moment.
struct Declared(Vec<Arc<Descriptor>>);

impl Declared {
    fn by(providers: &[Arc<dyn Cluster>]) -> Self {
        Self(providers.iter().map(|provider| provider.descriptor()).collect())
    }

    fn covers(&self, name: &str) -> bool {
        self.0.iter().flat_map(|provider| &provider.annotations).any(|annotation| annotation.covers(name))
    }
}

/// What changes in the cluster, as far as it matters to providers.
pub(super) struct Changes {
    providers: Vec<Arc<dyn Cluster>>,
    nodes: Watched<Node>,
    services: Watched<Service>,
}

impl Changes {
    pub(super) fn new(
        providers: Vec<Arc<dyn Cluster>>,
        nodes: (Store<Node>, mpsc::Receiver<ObjectRef<Node>>),
        services: (Store<Service>, mpsc::Receiver<ObjectRef<Service>>),
    ) -> Self {
        Self { providers, nodes: Watched::new(nodes), services: Watched::new(services) }
    }

    /// Waits for the next key. Whether it matters; none when a reflector has ended.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost.
    async fn next(&mut self) -> Option<bool> {
        let Self { providers, nodes, services } = self;
        let declared = || Declared::by(providers);
        tokio::select! {
            key = nodes.keys.recv() => Some(nodes.has_changed(key?, |node| node_mark(node, &declared()))),
            key = services.keys.recv() => Some(services.has_changed(key?, |service| service_mark(service, &declared()))),
        }
    }

    fn saw_all(&mut self) {
        let Self { providers, nodes, services } = self;
        let declared = &Declared::by(providers);
        nodes.saw_all(|node| node_mark(node, declared));
        services.saw_all(|service| service_mark(service, declared));
    }
}

fn node_mark(node: &Node, declared: &Declared) -> u64 {
    let mut told = cloud_node(node);
    only_declared(&mut told.annotations, declared);
    mark(&told)
}

fn service_mark(service: &Service, declared: &Declared) -> u64 {
    // What is wrong with it is told as well, see `Syncer::services`.
    let (mut told, wrong) = cloud_service(service);
    only_declared(&mut told.annotations, declared);
    mark(&(told, wrong.map(|failure| failure.message)))
}

fn only_declared(annotations: &mut Attributes, declared: &Declared) {
    annotations.retain(|name, _| name == PROVIDED_IP || declared.covers(name));
}

/// The same within this process for what is equal. A change that hit the same mark, one in 2^64, would wait for the period.
fn mark(told: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    told.hash(&mut hasher);
    hasher.finish()
}

/// Since when something is to be told.
#[derive(Clone, Copy)]
struct Changed {
    first: Instant,
    last: Instant,
}

/// Puts the names of providers into the queue.
pub(super) struct Waking {
    syncer: Arc<Syncer>,
    changes: Changes,
    first_lists: [FirstList; 2],
    recoveries: Vec<(Arc<str>, watch::Receiver<u64>)>,
    queue: mpsc::Sender<Arc<str>>,
}

impl Waking {
    pub(super) fn new(
        syncer: Arc<Syncer>,
        changes: Changes,
        first_lists: [FirstList; 2],
        recoveries: Vec<(Arc<str>, watch::Receiver<u64>)>,
    ) -> (Self, mpsc::Receiver<Arc<str>>) {
        let (queue, names) = mpsc::channel(BOUND);
        (Self { syncer, changes, first_lists, recoveries, queue }, names)
    }

    /// Works until a reflector ends, or nobody takes names any more.
    pub(super) async fn run(self) {
        let Self { syncer, mut changes, first_lists, recoveries, queue } = self;
        let settings = syncer.settings;
        let [one, other] = first_lists;
        let mut lists = std::pin::pin!(async { one.complete().await && other.complete().await });
        let mut recoveries: FuturesUnordered<_> = recoveries.into_iter().map(recovered).collect();
        let mut changed: Option<Changed> = None;
        // None until both lists are complete.
        let mut period: Option<Instant> = None;
        let due =
            |changed: Changed| later(changed.last, settings.debounce).min(later(changed.first, settings.max_wait));
        loop {
            let next = period.map(|period| changed.map_or(period, |changed| due(changed).min(period)));
            tokio::select! {
                // Also before the lists are complete: nobody reads a channel that is full, and the watch waits for all.
                matters = changes.next() => match matters {
                    Some(true) => {
                        let now = Instant::now();
                        changed = Some(Changed { first: changed.map_or(now, |changed| changed.first), last: now });
                        continue;
                    }
                    Some(false) => continue,
                    None => return,
                },
                complete = &mut lists, if period.is_none() => {
                    if !complete {
                        return;
                    }
                    changes.saw_all();
                }
                Some(recovery) = recoveries.next(), if !recoveries.is_empty() => {
                    // None: whoever counts is gone.
                    let Some((name, recovery)) = recovery else { continue };
                    syncer.release(&name);
                    if period.is_some() && queue.send(Arc::clone(&name)).await.is_err() {
                        return;
                    }
                    recoveries.push(recovered((name, recovery)));
                    continue;
                }
                () = tokio::time::sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {}
            }
            // All are told all there is: whatever the cause, the period begins anew.
            changed = None;
            period = Some(later(Instant::now(), about(settings.period)));
            for name in syncer.members.keys() {
                if queue.send(Arc::clone(name)).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// Waits until the counter of a provider grows. None: whoever counts is gone.
pub(crate) async fn recovered(
    (name, mut recovery): (Arc<str>, watch::Receiver<u64>),
) -> Option<(Arc<str>, watch::Receiver<u64>)> {
    recovery.changed().await.ok().map(|()| (name, recovery))
}

/// That long after `from`: a delay beyond the clock's end is as good as a year.
pub(crate) fn later(from: Instant, delay: Duration) -> Instant {
    from + delay.min(YEAR)
}

/// Up to a tenth more or less, so that clusters that started together do not ask together for ever.
pub(crate) fn about(period: Duration) -> Duration {
    let fifth = period.min(YEAR) / 5;
    let by_chance = ConstantBuilder::new().with_delay(fifth).with_jitter().build().next().unwrap_or(fifth);
    (period.min(YEAR) * 7 / 10).saturating_add(by_chance)
}

#[cfg(test)]
pub(super) fn periods(period: Duration, count: usize) -> Vec<Duration> {
    (0..count).map(|_| about(period)).collect()
}
