//! Asks both components about everything that exists, once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use ccm_cloud::{Failure, Finding, Instances, LoadBalancers, Need, Node, Reaction, Routes, Service, Standing, Wish};
use futures::StreamExt as _;
use futures::stream::iter;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::sample::sample;
use super::verdict::{self, ComparisonVerdict};
use super::{CompareLimits, Extent, Inventory, Sampled, Seen, doubtful, routes};

/// Most Nodes in one call, as many as the controllers ask about.
pub(super) const MAX_NODES: usize = 500;
/// Most Services in one survey, likewise.
const MAX_WISHES: usize = 500;
/// Most indexes of backends in one survey, 4 bytes each.
const MAX_INDEXES: usize = 1 << 20;
/// Most Services that are asked about at the same time: the work of the cluster goes on beside it.
pub(super) const WIDTH: usize = 4;

/// As for a refresh of addresses: the cloud answers what is more urgent first.
const NEED: Need = Need::Refresh;

/// Namespace and name of a Service.
pub(super) type Key = (String, String);

/// The two that are asked.
pub(super) struct Look<'a, O, N> {
    pub(super) old: &'a O,
    pub(super) new: &'a N,
    pub(super) inventory: &'a dyn Inventory,
    pub(super) limits: &'a CompareLimits,
}

impl<O, N> Look<'_, O, N>
where
    O: Instances + LoadBalancers + Routes,
    N: Instances + LoadBalancers + Routes,
{
    /// Looks at what exists, and in any case at what was in doubt before and is still there.
    pub(super) async fn at_all(&self, extent: Extent, before: &Seen) -> Seen {
        let (inventory, provider) = (self.inventory, LoadBalancers::descriptor(self.old));
        let mut nodes = inventory.nodes(&provider.provider_ids(), self.limits.nodes);
        let known: BTreeSet<String> = nodes.items.iter().map(|node| node.name.clone()).collect();
        let missed = doubtful(&before.nodes).filter(|name| !known.contains(*name));
        nodes.items.extend(missed.filter_map(|name| inventory.node(name)));
        let mut services = Sampled::default();
        if extent.balancers {
            services = inventory.services(&provider, self.limits.services);
            let known: BTreeSet<Key> = services.items.iter().map(key).collect();
            let missed = doubtful(&before.services).filter(|key| !known.contains(*key));
            services.items.extend(missed.filter_map(|(space, name)| inventory.service(&provider, space, name)));
        }
        let totals = (nodes.total, services.total);
        let suspects: BTreeSet<&Key> = doubtful(&before.services).collect();
        let nodes = self.at_nodes(nodes.items);
        let services = self.at_services(services.items, &suspects);
        let routed = inventory.routed(&provider).filter(|_| extent.routes);
        let routes = async {
            match routed {
                Some(nodes) => routes::look(self.old, self.new, nodes).await,
                None => BTreeMap::new(),
            }
        };
        let (nodes, services, routes) = tokio::join!(nodes, services, routes);
        Seen { nodes, services, routes, totals }
    }

    /// By the names of the Nodes.
    async fn at_nodes(&self, nodes: Vec<Node>) -> BTreeMap<String, ComparisonVerdict> {
        let mut verdicts = BTreeMap::new();
        for some in nodes.chunks(MAX_NODES) {
            let (old, new) = tokio::join!(find(self.old, some, NEED), find(self.new, some, NEED));
            let both = old.iter().zip(&new).map(|(old, new)| verdict::of_machine(old, new));
            verdicts.extend(some.iter().map(|node| node.name.clone()).zip(both));
        }
        verdicts
    }

    /// By namespaces and names of the Services.
    async fn at_services(&self, services: Vec<Service>, suspects: &BTreeSet<&Key>) -> BTreeMap<Key, ComparisonVerdict> {
        let surveyed = self.surveyed(&services).await;
        // A survey settles most.
        let is_open =
            |verdict: &ComparisonVerdict| matches!(verdict, ComparisonVerdict::Found | ComparisonVerdict::NotAsked);
        let open = services.iter().zip(&surveyed).filter(|(_, verdict)| is_open(verdict));
        let open = open.map(|(service, _)| service.clone());
        let (mut single, others): (Vec<_>, Vec<_>) = open.partition(|service| suspects.contains(&key(service)));
        single.extend(sample(others, self.limits.single_services.saturating_sub(single.len()), kind));
        let mut verdicts: BTreeMap<Key, ComparisonVerdict> = services.iter().map(key).zip(surveyed).collect();
        let (names, singles) = tokio::join!(self.names(services), self.singles(single));
        for (key, verdict) in singles {
            // Whom both have found stays so when nobody answers.
            let is_found = verdicts.get(&key) == Some(&ComparisonVerdict::Found);
            if !(is_found && matches!(verdict, ComparisonVerdict::Open { .. })) {
                verdicts.insert(key, verdict);
            }
        }
        // What is not found is told before what it is called.
        for (key, verdict) in names.into_iter().filter(|(_, verdict)| verdict.is_doubtful()) {
            if !verdicts.get(&key).is_some_and(ComparisonVerdict::is_doubtful) {
                verdicts.insert(key, verdict);
            }
        }
        verdicts
    }

    /// One verdict for each Service.
    async fn surveyed(&self, services: &[Service]) -> Vec<ComparisonVerdict> {
        if !(self.old.surveys() && self.new.surveys()) {
            return vec![ComparisonVerdict::NotAsked; services.len()];
        }
        let backends = self.inventory.backends();
        let indexes: Vec<u32> = (0..).take(backends.len()).collect();
        let mut verdicts = Vec::with_capacity(services.len());
        for some in services.chunks(wishes_at_once(indexes.len())) {
            let wishes = || -> Vec<Wish> {
                some.iter().map(|service| Wish { service: service.clone(), backends: indexes.clone() }).collect()
            };
            let old = self.old.survey(Arc::clone(&backends), wishes());
            let new = self.new.survey(Arc::clone(&backends), wishes());
            let (old, new) = tokio::join!(old, new);
            let (old, new) = (standings(old, some.len()), standings(new, some.len()));
            verdicts.extend(old.iter().zip(&new).map(|(old, new)| verdict::of_standing(old, new)));
        }
        verdicts
    }

    async fn names(&self, services: Vec<Service>) -> Vec<(Key, ComparisonVerdict)> {
        let patience = &self.patience();
        let name = |service: Service| async move {
            let (old, new) = (self.old.name(service.clone()), self.new.name(service.clone()));
            let (old, new) = patience.of_both(old, new).await;
            (key(&service), verdict::of_name(&old, &new))
        };
        iter(services).map(name).buffer_unordered(WIDTH).collect().await
    }

    async fn singles(&self, services: Vec<Service>) -> Vec<(Key, ComparisonVerdict)> {
        let patience = &self.patience();
        let single = |service: Service| async move { (key(&service), self.single(service, patience).await) };
        iter(services).map(single).buffer_unordered(WIDTH).collect().await
    }

    fn patience(&self) -> Patience {
        Patience(Mutex::new(self.limits.time / 6))
    }

    async fn single(&self, service: Service, patience: &Patience) -> ComparisonVerdict {
        let (old, new) = (self.old.get(service.clone()), self.new.get(service.clone()));
        let (old, new) = patience.of_both(old, new).await;
        let found = verdict::of_places(&old, &new);
        if found != ComparisonVerdict::Same {
            return found;
        }
        let (old, new) = tokio::join!(self.old.get_mark(service.clone()), self.new.get_mark(service));
        match verdict::of_mark(&old, &new) {
            marked if marked.is_doubtful() => marked,
            // What `get` said is enough.
            _ => found,
        }
    }
}

/// How long the old component is waited for yet where it fails in the end, and the new one answers. A cloud that is away, or slow, uses up
/// nothing: both fail then, or both answer.
struct Patience(Mutex<Duration>);

impl Patience {
    /// Asks both the same; the new one alone when there is no patience left.
    async fn of_both<T>(
        &self,
        old: impl Future<Output = Result<T, Failure>>,
        new: impl Future<Output = Result<T, Failure>>,
    ) -> (Result<T, Failure>, Result<T, Failure>) {
        if self.0.lock().is_zero() {
            let failure = Failure::new(Reaction::Retry, "the last good one gave no answer to others like this");
            return (Err(failure), new.await);
        }
        let begun = Instant::now();
        let old = async { (old.await, begun.elapsed()) };
        let ((old, took), new) = tokio::join!(old, new);
        if old.is_err() && new.is_ok() {
            let mut left = self.0.lock();
            *left = left.saturating_sub(took);
        }
        (old, new)
    }
}

/// Most Services in one survey, each with so many backends.
pub(super) fn wishes_at_once(backends: usize) -> usize {
    (MAX_INDEXES / backends.max(1)).clamp(1, MAX_WISHES)
}

fn key(service: &Service) -> Key {
    (service.namespace.clone(), service.name.clone())
}

/// What it asks for, roughly.
pub(super) fn kind(service: &Service) -> (Option<String>, Vec<String>) {
    (service.load_balancer_class.clone(), service.annotations.keys().cloned().collect())
}

/// One finding for each Node, whatever becomes of the call.
pub(super) async fn find(provider: &impl Instances, nodes: &[Node], need: Need) -> Vec<Finding> {
    match provider.find(nodes.to_vec(), need).await {
        Ok(findings) if findings.len() == nodes.len() => findings,
        Ok(findings) => vec![Finding::Unknown(miscounted(findings.len(), nodes.len())); nodes.len()],
        Err(error) => vec![Finding::Unknown(error.into_failure()); nodes.len()],
    }
}

/// One standing for each wish, likewise.
pub(super) fn standings(answer: Result<Vec<Standing>, Failure>, wishes: usize) -> Vec<Standing> {
    match answer {
        Ok(standings) if standings.len() == wishes => standings,
        Ok(standings) => vec![Standing::Unknown(miscounted(standings.len(), wishes)); wishes],
        Err(failure) => vec![Standing::Unknown(failure); wishes],
    }
}

fn miscounted(given: usize, asked: usize) -> Failure {
    Failure::new(Reaction::Retry, format!("it gave {given} answers to {asked} questions"))
}
