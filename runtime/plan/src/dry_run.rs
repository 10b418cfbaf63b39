//! `wasm-ccm run --dry-run`: plans again and again what would be written, for as long as the process runs.
//!
//! It looks when something changes, and after the same periods as the controllers of `run`. Each look begins with what the API server and
//! the cloud say at that moment, so nothing has to be tried again: a write that is still missing at the next look is the same one.

use std::collections::hash_map::{DefaultHasher, Entry};
use std::collections::{BTreeSet, HashMap};
use std::hash::{Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use ccm_controllers::{
    ClusterAddresses, Node, Pulse, Pulses, ReflectorHandle, has_finalizer, is_load_balancer, is_uninitialized,
    told_of_service,
};
use futures::future::select_all;
use http::Request;
use k8s_openapi::api::core::v1::Service;
use kube::client::Body;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Client, ResourceExt as _};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::Dispatch;
use tracing::instrument::WithSubscriber as _;

use crate::agenda::{Agenda, Look, Pace, Waits};
use crate::api_server::read_only;
use crate::asked::Asked;
use crate::journal::Journal;
use crate::pending::Pending;
use crate::planner::{Controllers, PlanParts, Planner, Settings, lookup_timeout, name_of};
use crate::report::Kind;

/// How long a change waits for others that the same look sees. Another manager that works on it has mostly begun by then.
const DEBOUNCE: Duration = Duration::from_secs(1);
/// The same of Services after a change of Nodes: another manager then changes all load balancers.
const NODES_DEBOUNCE: Duration = Duration::from_secs(5);
/// From one look at the cluster as a whole to the next: as long as `run` gathers changes that do not end.
const CLUSTER_PAUSE: Duration = Duration::from_secs(10);
/// Services that are planned at the same time, as a number: so many wishes fit into a survey, and so many plans into memory.
const SERVICES_AT_ONCE: usize = 500;
/// Most bytes of annotations of several of them: the controller keeps each Service as it would be.
const ANNOTATIONS_AT_ONCE: usize = 16 << 20;
/// The names of the loops of a dry run, for the watchdog.
pub(crate) const LOOPS: &[&str] = &[LOOKS];
const LOOKS: &str = "looks";
/// Between two looks it turns so often. A look turns with each call of a provider, each request to the API server and each run for an object, and
/// [waits](longest_wait) for one of them at a time.
const TURN: Duration = Duration::from_secs(30);

/// When objects are looked at that have not changed.
#[derive(Debug, Clone, Copy)]
pub struct Periods {
    /// All Nodes.
    pub nodes: Duration,
    /// Nodes that are not initialised or not Ready, or have a pending write: from the shortest time to the longest.
    pub nodes_again: (Duration, Duration),
    /// All Services; zero never looks at them without a change.
    pub services: Duration,
    /// Each Service with a pending write, and the least between looks at one that changes: from the shortest time to the longest.
    pub services_again: (Duration, Duration),
    /// Routes.
    pub routes: Duration,
    /// The cluster as a whole.
    pub cluster: Duration,
}

/// What a dry run is made of.
pub struct DryRunParts {
    /// The client of [`sealed`](crate::sealed).
    pub client: Client,
    /// The leadership of the providers.
    pub journal: Arc<Journal>,
    /// Takes what would be written.
    pub pending: Pending,
    /// Hear whether it goes on.
    pub pulses: Pulses,
    /// The providers of the moment, in the operator's order.
    pub providers: Box<dyn Fn() -> Vec<Asked> + Send + Sync>,
    /// Grow when providers are others, offer something else, or answer again: then everything is looked at.
    pub changes: Vec<watch::Receiver<u64>>,
    /// All Nodes. The list must be complete.
    pub nodes: ReflectorHandle<Node>,
    /// All Services. The list must be complete, if a controller looks at them.
    pub services: ReflectorHandle<Service>,
    /// Which addresses are the cluster's own.
    pub addresses: ClusterAddresses,
    /// Which controllers the host would run.
    pub controllers: Controllers,
    /// How.
    pub settings: Settings,
    /// When.
    pub periods: Periods,
    /// Whether the log has what controllers and providers say during each look: most of it is the same each time.
    pub is_talkative: bool,
}

/// Looks for as long as it is polled.
///
/// # Cancel safety
///
/// It can be dropped at any time: it changes nothing.
pub async fn dry_run(mut parts: DryRunParts) {
    let changes = std::mem::take(&mut parts.changes);
    let seen = Seen::of(&parts);
    let (agenda, news) = (Mutex::default(), Notify::new());
    tokio::join!(hear(&parts, seen, changes, &agenda, &news), work(&parts, &agenda, &news));
}

/// What was seen of objects last: changes that no controller reads, such as heartbeats, are none.
struct Seen {
    /// Of each Node, what controllers read, and as much of that as load balancers and routes depend on.
    nodes: HashMap<String, (u64, u64)>,
    /// Of each Service its version.
    services: HashMap<(String, String), Option<String>>,
}

/// What a change of a Node is about.
#[derive(Debug, PartialEq, Eq)]
enum NodeChange {
    None,
    /// The Node alone.
    Own,
    /// Also what other objects depend on.
    Shared,
}

fn digests(node: &Node) -> (u64, u64) {
    let digest = |text: String| {
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        hasher.finish()
    };
    let Node { uid, is_deleting, labels, provider_id, pod_cidrs, taints, addresses, ready, .. } = node;
    let shared = format!("{uid:?}{is_deleting}{labels:?}{provider_id:?}{pod_cidrs:?}{taints:?}{addresses:?}{ready:?}");
    let whole = Node { resource_version: None, ..node.clone() };
    (digest(format!("{whole:?}")), digest(shared))
}

impl Seen {
    fn of(parts: &DryRunParts) -> Self {
        let nodes = parts.nodes.reader().state();
        let services = parts.services.reader().state();
        Self {
            nodes: nodes.iter().map(|node| (node.name_any(), digests(node))).collect(),
            services: services.iter().map(|service| (name_of(service), service.resource_version())).collect(),
        }
    }

    /// Notes how a Node is now; none when it is gone.
    fn node(&mut self, name: &str, node: Option<&Node>) -> NodeChange {
        let Some(node) = node else {
            return if self.nodes.remove(name).is_some() { NodeChange::Shared } else { NodeChange::None };
        };
        let now = digests(node);
        match self.nodes.insert(name.to_owned(), now) {
            Some(before) if before == now => NodeChange::None,
            Some((_, shared)) if shared == now.1 => NodeChange::Own,
            _ => NodeChange::Shared,
        }
    }

    /// Notes how a Service is now, and says whether it has changed.
    fn service(&mut self, key: (String, String), service: Option<&Service>) -> bool {
        let Some(service) = service else { return self.services.remove(&key).is_some() };
        let now = service.resource_version();
        match self.services.entry(key) {
            Entry::Occupied(mut before) => before.insert(now.clone()) != now,
            Entry::Vacant(none) => {
                none.insert(now);
                true
            }
        }
    }
}

/// Puts what changes on the agenda. Never waits for a look: a watch waits for its subscribers.
async fn hear(
    parts: &DryRunParts,
    mut seen: Seen,
    mut changes: Vec<watch::Receiver<u64>>,
    agenda: &Mutex<Agenda>,
    news: &Notify,
) {
    let (mut nodes, mut services) = (parts.nodes.subscribe(), parts.services.subscribe());
    let (node_store, service_store) = (parts.nodes.reader(), parts.services.reader());
    // What is told of Services where somebody looks after the cluster as a whole.
    let told = |service: &Service| {
        let descriptors = (parts.providers)().into_iter().map(|provider| provider.descriptor);
        told_of_service(service, descriptors.collect())
    };
    let mut marks: HashMap<(String, String), u64> =
        service_store.state().iter().map(|service| (name_of(service), told(service))).collect();
    loop {
        let looks = tokio::select! {
            Some(key) = nodes.recv() => match seen.node(&key.name, node_store.get(&key).as_deref()) {
                NodeChange::None => continue,
                NodeChange::Own => vec![(Look::Node(key.name), DEBOUNCE)],
                NodeChange::Shared => vec![
                    (Look::Node(key.name), DEBOUNCE),
                    (Look::Routes, DEBOUNCE),
                    (Look::Cluster, DEBOUNCE),
                    (Look::Services, NODES_DEBOUNCE),
                ],
            },
            Some(key) = services.recv() => {
                let service = service_store.get(&key);
                let (namespace, name) = (key.namespace.unwrap_or_default(), key.name);
                if !seen.service((namespace.clone(), name.clone()), service.as_deref()) {
                    continue;
                }
                let key = (namespace.clone(), name.clone());
                let mark = service.as_deref().map(told);
                let before = match mark {
                    Some(mark) => marks.insert(key, mark),
                    None => marks.remove(&key),
                };
                let of_all = (before != mark).then_some((Look::Cluster, DEBOUNCE));
                of_all.into_iter().chain([(Look::Service(namespace, name), DEBOUNCE)]).collect()
            }
            () = changed(&mut changes) => vec![
                (Look::Nodes, DEBOUNCE),
                (Look::Services, DEBOUNCE),
                (Look::Routes, DEBOUNCE),
                (Look::Cluster, DEBOUNCE),
            ],
        };
        // Not before it was heard: what has come after a long silence would be due at once.
        let now = Instant::now();
        let mut agenda = agenda.lock();
        for (look, after) in looks {
            agenda.by(look, now + after);
        }
        news.notify_one();
    }
}

/// Waits until one of them grows.
async fn changed(receivers: &mut Vec<watch::Receiver<u64>>) {
    while !receivers.is_empty() {
        let (grown, place) = {
            let waiting = receivers.iter_mut().map(|receiver| Box::pin(receiver.changed()));
            let (grown, place, _) = select_all(waiting).await;
            (grown.is_ok(), place)
        };
        if grown {
            return;
        }
        drop(receivers.swap_remove(place));
    }
    std::future::pending().await
}

/// Looks at what is on the agenda, one look after the other.
async fn work(parts: &DryRunParts, agenda: &Mutex<Agenda>, news: &Notify) {
    let Periods { nodes, nodes_again, services, services_again, routes, cluster } = parts.periods;
    let mut nodes_wait = Waits::between(nodes_again.0, nodes_again.1);
    let mut services_pace = Pace::between(services_again.0, services_again.1);
    let mut due = BTreeSet::from([Look::Nodes, Look::Services, Look::Routes, Look::Cluster]);
    loop {
        // Anew each time: other providers may take longer.
        let pulse = Arc::new(parts.pulses.begin_waiting(LOOKS, TURN, longest_wait(parts)));
        let begun = parts.pending.looking().begins_watched(&pulse);
        let looked = Box::pin(look(parts, &due, &pulse)).await;
        drop(begun);
        let now = Instant::now();
        {
            let mut agenda = agenda.lock();
            for (look, period) in
                [(Look::Nodes, nodes), (Look::Services, services), (Look::Routes, routes), (Look::Cluster, cluster)]
            {
                if due.contains(&look) && !period.is_zero() {
                    agenda.by(look, now + period);
                }
            }
            if due.iter().any(is_about_nodes)
                && let Some(wait) = nodes_wait.until_next(unsettled_nodes(parts))
            {
                agenda.by(Look::NodesAgain, now + wait);
            }
            if !looked.is_empty() {
                agenda.hold(Look::Services, now + services_again.0);
            }
            set_pace(
                &mut agenda,
                &mut services_pace,
                looked,
                &parts.pending.unsettled(Kind::Service).into_iter().collect(),
            );
            if due.contains(&Look::Cluster) {
                agenda.hold(Look::Cluster, now + CLUSTER_PAUSE);
            }
        }
        due = next(agenda, news, &pulse).await;
    }
}

/// Has each of these Services, which were looked at now, wait for its own time, and those that are not settled be looked at then.
fn set_pace(agenda: &mut Agenda, pace: &mut Pace, looked: Vec<(String, String)>, unsettled: &BTreeSet<String>) {
    let now = Instant::now();
    let names = looked.into_iter().map(|(namespace, name)| format!("{namespace}/{name}")).collect();
    for (object, wait) in pace.looked(names, now) {
        let Some((namespace, name)) = object.split_once('/') else { continue };
        let look = Look::Service(namespace.to_owned(), name.to_owned());
        agenda.hold(look.clone(), now + wait);
        if unsettled.contains(&object) {
            agenda.by(look, now + wait);
        }
    }
}

/// The longest that a look waits for one call of a provider, or one request to the API server: then the limit of that ends it.
fn longest_wait(DryRunParts { providers, settings, .. }: &DryRunParts) -> Duration {
    let Settings { gate, service, cluster, route, .. } = settings;
    let of_routes = route.as_ref().map(|(routes, _)| routes.call_timeout);
    let limits = [lookup_timeout(&providers()), service.call_timeout, cluster.call_timeout, gate.request_timeout];
    limits.into_iter().chain(of_routes).fold(Duration::ZERO, Duration::max)
}

/// Waits until something is due.
async fn next(agenda: &Mutex<Agenda>, news: &Notify, pulse: &Pulse) -> BTreeSet<Look> {
    loop {
        pulse.beat();
        let (at, turn) = (agenda.lock().next(), Instant::now() + TURN);
        tokio::select! {
            () = tokio::time::sleep_until(at.unwrap_or(turn).min(turn)) => {}
            () = news.notified() => {}
        }
        let due = agenda.lock().take(Instant::now());
        if !due.is_empty() {
            return due;
        }
    }
}

const fn is_about_nodes(look: &Look) -> bool {
    matches!(look, Look::Node(_) | Look::Nodes | Look::NodesAgain)
}

/// Nodes that `run` would look at again soon.
fn unsettled_nodes(parts: &DryRunParts) -> BTreeSet<String> {
    let nodes = parts.nodes.reader().state();
    let is_open = |node: &Node| !node.is_deleting && (node.ready.as_deref() != Some("True") || is_uninitialized(node));
    let open = nodes.iter().filter(|node| is_open(node)).map(|node| node.name_any());
    open.chain(parts.pending.names(Kind::Node)).collect()
}

/// Which Nodes a look is about. With one of them come all that are not settled: how many Nodes may be deleted depends on how many there are to
/// delete.
fn nodes_of(parts: &DryRunParts, due: &BTreeSet<Look>) -> Vec<String> {
    if !due.iter().any(is_about_nodes) {
        return vec![];
    }
    let mut names = unsettled_nodes(parts);
    if due.contains(&Look::Nodes) {
        names.extend(parts.nodes.reader().state().iter().map(|node| node.name_any()));
    }
    names.extend(due.iter().filter_map(|look| match look {
        Look::Node(name) => Some(name.clone()),
        _ => None,
    }));
    names.into_iter().collect()
}

/// Which Services a look is about: of those without a load balancer, there is nothing to see.
fn services_of(parts: &DryRunParts, due: &BTreeSet<Look>) -> Vec<(String, String)> {
    let store = parts.services.reader();
    let pending: BTreeSet<String> = parts.pending.names(Kind::Service).into_iter().collect();
    let meant = |service: &Service| {
        let (namespace, name) = name_of(service);
        let is_due = due.contains(&Look::Services) || due.contains(&Look::Service(namespace.clone(), name.clone()));
        (is_due && (is_load_balancer(service) || has_finalizer(service))).then_some((namespace, name))
    };
    let mut names: BTreeSet<(String, String)> = store.state().iter().filter_map(|service| meant(service)).collect();
    let all = due.contains(&Look::Services);
    let parted = |name: &String| name.split_once('/').map(|(namespace, name)| (namespace.to_owned(), name.to_owned()));
    let is_due = |namespace: &str, name: &str| due.contains(&Look::Service(namespace.to_owned(), name.to_owned()));
    names.extend(pending.iter().filter_map(parted).filter(|(namespace, name)| all || is_due(namespace, name)));
    names.into_iter().collect()
}

/// One look. The client is a new one each time: it answers with what was written before by itself. Returns the Services that it was about.
async fn look(parts: &DryRunParts, due: &BTreeSet<Look>, pulse: &Arc<Pulse>) -> Vec<(String, String)> {
    let DryRunParts { client, journal, pending, providers, nodes, services, addresses, controllers, settings, .. } =
        parts;
    drop(journal.take());
    let mut lookups = JoinSet::new();
    // What it spawns says as much as it does.
    let planner = said(parts, async {
        Planner::new(
            PlanParts {
                client: read_only(&watched(client, pulse), Arc::clone(journal)),
                journal: Arc::clone(journal),
                providers: providers(),
                nodes: nodes.clone(),
                services: services.clone(),
                addresses: addresses.clone(),
                controllers: *controllers,
                settings: settings.clone(),
            },
            &mut lookups,
        )
        .watched(Arc::clone(pulse))
    })
    .await;
    let (names, all) = (nodes_of(parts, due), due.contains(&Look::Nodes).then_some(Kind::Node));
    if !names.is_empty() || all.is_some() {
        let mut nodes = Box::pin(said(parts, planner.nodes(&names))).await;
        while let Some(node) = Box::pin(said(parts, nodes.next())).await {
            pending.seen(node);
        }
        pending.ended(&[Kind::Node], all);
    }
    let (names, all) = (services_of(parts, due), due.contains(&Look::Services).then_some(Kind::Service));
    let store = services.reader();
    for some in portions(&names, |name| annotations(&store, name)) {
        let Some(controller) = said(parts, planner.service_rehearsal(some)).await else { break };
        // One that hangs does not hide the others.
        for name in some {
            pending.seen(said(parts, planner.rehearsed(&controller, name)).await);
        }
    }
    if !names.is_empty() || all.is_some() {
        pending.ended(&[Kind::Service], all);
    }
    if due.contains(&Look::Routes) {
        pending.looked(said(parts, planner.routes()).await, Some(Kind::Routes));
    }
    if due.contains(&Look::Cluster) {
        pending.looked(said(parts, planner.cluster()).await, Some(Kind::Cluster));
    }
    names
}

/// The same client, and each request says that it goes on: when it is sent, and when it ends, be it by its limit.
fn watched(client: &Client, pulse: &Arc<Pulse>) -> Client {
    let namespace = client.default_namespace().to_owned();
    let (client, pulse) = (client.clone(), Arc::clone(pulse));
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, pulse) = (client.clone(), Arc::clone(&pulse));
        async move {
            let _beats = Beats::now(&pulse);
            client.send(request).await
        }
    });
    Client::new(service, namespace)
}

/// Says that a loop turns, now and when it is dropped.
struct Beats<'a>(&'a Pulse);

impl<'a> Beats<'a> {
    fn now(pulse: &'a Pulse) -> Self {
        pulse.beat();
        Self(pulse)
    }
}

impl Drop for Beats<'_> {
    fn drop(&mut self) {
        self.0.beat();
    }
}

/// So many of these at once as there is room for, of which each takes `bytes`; one at least.
fn portions<T>(mut names: &[T], bytes: impl Fn(&T) -> usize) -> impl Iterator<Item = &[T]> {
    std::iter::from_fn(move || {
        let mut all = 0_usize;
        let fits = |name: &&T| {
            all = all.saturating_add(bytes(name));
            all <= ANNOTATIONS_AT_ONCE
        };
        let fitting = names.iter().take(SERVICES_AT_ONCE).take_while(fits).count();
        let (some, others) = names.split_at(fitting.max(1).min(names.len()));
        names = others;
        (!some.is_empty()).then_some(some)
    })
}

/// How many bytes of annotations a Service has.
fn annotations(store: &Store<Service>, (namespace, name): &(String, String)) -> usize {
    let service = store.get(&ObjectRef::new(name).within(namespace));
    let annotations = service.iter().flat_map(|service| service.metadata.annotations.iter().flatten());
    annotations.map(|(name, value)| name.len().saturating_add(value.len())).fold(0, usize::saturating_add)
}

/// Does this, and says in the log what it says if that is wanted.
async fn said<T>(parts: &DryRunParts, planned: impl Future<Output = T>) -> T {
    match parts.is_talkative {
        true => planned.await,
        false => planned.with_subscriber(Dispatch::none()).await,
    }
}

#[cfg(test)]
mod tests;
