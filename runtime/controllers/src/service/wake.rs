//! What wakes a Service: its own change, a change of the Nodes, a cloud that answers again, another provider.
//!
//! Nothing wakes before both first lists are complete: with half of the Nodes a load balancer would lose members.

use std::collections::{BTreeSet, HashSet};
use std::pin::pin;
use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use k8s_openapi::api::core::v1::Service;
use kube::runtime::reflector::{ObjectRef, Store};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::backends::{Backends, Reason, Watched};
use super::cleanup::still_says_that_it_waits;
use super::ensured_record::Record;
use super::key::{Key, key, send};
use super::metrics::PassTimer;
use super::ownership::Work;
use super::predicates::has_finalizer;
use super::syncer::Syncer;
use super::verify;
use crate::store::{FirstList, Node};
use crate::view::service::is_load_balancer;

/// What the waking listens to.
pub(super) struct Sources {
    pub(super) service_keys: mpsc::Receiver<Key>,
    pub(super) services_listed: FirstList,
    pub(super) nodes: Store<Node>,
    pub(super) node_keys: mpsc::Receiver<ObjectRef<Node>>,
    pub(super) nodes_listed: FirstList,
    pub(super) recoveries: Vec<watch::Receiver<u64>>,
    pub(super) exchanges: Vec<watch::Receiver<u64>>,
}

/// Which of them it was.
#[derive(Clone, Copy)]
enum Cause {
    Recovery,
    Exchange,
}

impl Sources {
    /// Sends keys to `queue` until a reflector ends, or nobody takes them any more. `ready` is told when all Services have
    /// been sent once.
    pub(super) async fn run(mut self, syncer: &Syncer, queue: mpsc::Sender<Key>, ready: watch::Sender<bool>) {
        let lists = (self.services_listed.clone(), self.nodes_listed.clone());
        let complete = async { lists.0.complete().await && lists.1.complete().await };
        if self.meanwhile(complete, |_| {}).await != Some(true) {
            return;
        }
        syncer.backends.replace(Backends::select(&self.nodes.state()));
        // The survey remembers Services: of those that go meanwhile only the key says so.
        let mut changed = HashSet::new();
        let note = |key: Key| {
            syncer.notice(&key);
            changed.insert(key);
        };
        if self.meanwhile(verify::at_start(syncer), note).await.is_none() {
            return;
        }
        let mut watched = Watched::new(&self.nodes.state());
        syncer.backends.replace(Backends::select(&self.nodes.state()));
        // What an earlier controller could not do may be possible with these providers.
        syncer.memory.wake_all();
        let mut keys = all(syncer);
        changed.extend(syncer.memory.keys());
        changed.retain(|key| syncer.store.get(key).is_none() && is_concerned(syncer, key));
        keys.extend(changed);
        if !send(&queue, keys).await {
            return;
        }
        ready.send_replace(true);
        self.listen(syncer, &queue, &mut watched).await;
    }

    /// Waits for `work`, and reads the keys that come in meanwhile: whoever does not keep reading holds up the watches. Those of
    /// Services go to `changed`; those of Nodes can be forgotten, since all Nodes are looked at afterwards. None when a
    /// reflector has ended.
    async fn meanwhile<T>(&mut self, work: impl Future<Output = T>, mut changed: impl FnMut(Key)) -> Option<T> {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return Some(done),
                key = self.service_keys.recv() => changed(key?),
                key = self.node_keys.recv() => drop(key?),
            }
        }
    }

    async fn listen(&mut self, syncer: &Syncer, queue: &mpsc::Sender<Key>, watched: &mut Watched) {
        let recoveries = std::mem::take(&mut self.recoveries).into_iter().map(|grows| changed(grows, Cause::Recovery));
        let exchanges = std::mem::take(&mut self.exchanges).into_iter().map(|grows| changed(grows, Cause::Exchange));
        let mut others: FuturesUnordered<_> = recoveries.map(Box::pin).collect();
        others.extend(exchanges.map(Box::pin));
        let mut pass: Option<(Instant, Reason)> = None;
        loop {
            let keys = tokio::select! {
                key = self.service_keys.recv() => match key {
                    Some(key) if is_concerned(syncer, &key) => vec![key],
                    Some(_) => continue,
                    None => return,
                },
                key = self.node_keys.recv() => {
                    let Some(key) = key else { return };
                    let reason = watched.change(&key.name, self.nodes.get(&key).as_deref());
                    if reason.is_some() {
                        // Also where nobody is known to choose by labels: a call may be under way that is the first to do so.
                        syncer.backends.relabelled();
                    }
                    if let Some(reason) = reason.filter(|reason| *reason > Reason::Labels || syncer.memory.has_selectors()) {
                        // From the first change on, so that Nodes that change all the time do not put it off for ever.
                        let first = pass.unwrap_or_else(|| (Instant::now() + syncer.settings.node_debounce, reason));
                        pass = Some((first.0, first.1.max(reason)));
                    }
                    continue;
                }
                () = tokio::time::sleep_until(pass.map_or_else(Instant::now, |(at, _)| at)), if pass.is_some() => {
                    let backends = Backends::select(&self.nodes.state());
                    match pass.take() {
                        Some((_, Reason::Labels)) => relabelled(syncer, backends),
                        _ => fan_out(syncer, backends),
                    }
                }
                Some(changed_again) = others.next(), if !others.is_empty() => {
                    // None: whoever counts is gone.
                    let Some((grows, cause)) = changed_again else { continue };
                    others.push(Box::pin(changed(grows, cause)));
                    match cause {
                        Cause::Recovery => syncer.memory.wake_failed(),
                        Cause::Exchange => {
                            syncer.memory.wake_all();
                            all(syncer)
                        }
                    }
                }
            };
            if !send(queue, keys).await {
                return;
            }
        }
    }
}

/// One pass: takes the Nodes as they are for all Services, and returns those whose load balancers have others.
pub(super) fn fan_out(syncer: &Syncer, backends: Backends) -> Vec<Key> {
    let hosts = backends.list.len();
    let timer = PassTimer::start(&syncer.metrics, hosts);
    if !syncer.backends.replace(backends) {
        return chosen_anew(syncer);
    }
    let backends = syncer.backends.get();
    let has_others = |service: &&Arc<Service>| {
        is_load_balancer(service)
            && Record::of(service).is_none_or(|record| {
                let selectors = selectors_of(syncer, &key(service));
                let target = selectors.map(|selectors| syncer.backends.target(&backends, &selectors));
                record.backends != Some(target.unwrap_or(backends.digest))
            })
            && matches!(syncer.work(&key(service), service), Work::Serve(_))
    };
    let keys: Vec<Key> = syncer.store.state().iter().filter(has_others).map(|service| key(service)).collect();
    timer.concerns(keys.len());
    for key in &keys {
        syncer.memory.with(key, |entry| entry.pass = Some(Arc::clone(&timer)));
    }
    tracing::debug!(hosts, services = keys.len(), "the Nodes behind load balancers have changed");
    keys
}

/// Nodes have other labels: those Services whose provider would choose others among them now. Returns all that have other
/// backends, should these be others too.
pub(super) fn relabelled(syncer: &Syncer, backends: Backends) -> Vec<Key> {
    if backends.digest != syncer.backends.get().digest {
        return fan_out(syncer, backends);
    }
    syncer.backends.replace(backends);
    chosen_anew(syncer)
}

/// Services whose provider chose among the Nodes by labels, and would choose others now.
fn chosen_anew(syncer: &Syncer) -> Vec<Key> {
    if !syncer.memory.has_selectors() {
        return vec![];
    }
    let backends = syncer.backends.get();
    let mut keys = vec![];
    for service in syncer.store.state() {
        let key = key(&service);
        if !matches!(syncer.work(&key, &service), Work::Serve(_)) {
            continue;
        }
        let recorded = Record::of(&syncer.memory.newest(&key, service)).and_then(|record| record.backends);
        let selectors = selectors_of(syncer, &key).filter(|selectors| !selectors.is_empty());
        if selectors.is_some_and(|selectors| recorded != Some(syncer.backends.target(&backends, &selectors))) {
            keys.push(key);
        }
    }
    if !keys.is_empty() {
        tracing::debug!(
            services = keys.len(),
            "Nodes have other labels, by which the Nodes behind load balancers are chosen"
        );
    }
    keys
}

/// By which labels the provider chose for a Service. They are tried on the Nodes while nobody waits for what is remembered of Services.
fn selectors_of(syncer: &Syncer, key: &Key) -> Option<Arc<BTreeSet<String>>> {
    syncer.memory.with(key, |entry| entry.selectors()).flatten()
}

/// All Services that matter.
fn all(syncer: &Syncer) -> Vec<Key> {
    let services = syncer.store.state();
    services.iter().map(|service| key(service)).filter(|key| is_concerned(syncer, key)).collect()
}

/// Whether there may be anything to do about a Service: most of a cluster's have nothing to do with load balancers.
fn is_concerned(syncer: &Syncer, key: &Key) -> bool {
    syncer.notice(key);
    let known = syncer.memory.with(key, |_| ()).is_some();
    known
        || syncer.store.get(key).is_some_and(|service| {
            let may_be_ours = is_load_balancer(&service) || has_finalizer(&service) || Record::of(&service).is_some();
            (may_be_ours && syncer.work(key, &service) != Work::Nothing) || still_says_that_it_waits(&service)
        })
}

async fn changed(mut grows: watch::Receiver<u64>, cause: Cause) -> Option<(watch::Receiver<u64>, Cause)> {
    grows.changed().await.ok().map(|()| (grows, cause))
}
