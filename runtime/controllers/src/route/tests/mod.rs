//! The whole controller with paused time: a store that the test fills, and a cloud with routes in plain Rust.

mod allotments;
mod batches;
mod conditions;
mod defaults;
mod plan;
mod rehearsal;
mod runs;
mod waking;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use ccm_apiserver::{ApiGate, ApiGateSettings, EventRecorder, EventSettings, EventWriter};
use ccm_cloud::{
    CallFuture, Descriptor, Failure, Reaction, Route, RouteChangeError, RouteOutcome, RouteState, RouteWish, Routes,
};
use kube::runtime::reflector::{self, ObjectRef, store::Writer};
use kube::runtime::watcher::Event;
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{PodRanges, RouteController, RouteControllerParts, RouteMember, RouteSettings};
use crate::all_metrics::Metrics;
use crate::cluster::ClusterNodes;
use crate::store::{FirstList, Node};
use crate::testing::{Draft, FakeApi, node, scraped};

/// A call as the provider saw it.
#[derive(Debug, Clone, PartialEq)]
enum Call {
    /// Nodes.
    GetAll(usize),
    /// Networks that are obsolete, and those that are wanted with their Nodes.
    Change(Vec<String>, Vec<String>),
}

/// A cloud that has a route for each network.
struct FakeRoutes {
    /// By network.
    table: Mutex<BTreeMap<String, Route>>,
    calls: Mutex<Vec<(u64, Call)>>,
    /// Of `get-all`, one after the other; then the table.
    looks: Mutex<VecDeque<Failure>>,
    /// Of whole changes, one after the other; then all goes well.
    changes: Mutex<VecDeque<RouteChangeError>>,
    /// All or nothing: a change with one of these networks fails as a whole.
    poison: Mutex<Vec<String>>,
    /// And how it fails.
    poisoned: Mutex<Reaction>,
    /// A change with one of these networks does nothing, and has no end.
    stuck: Mutex<Vec<String>>,
    /// What a wish for such a network comes to.
    refused: Mutex<BTreeMap<String, Failure>>,
    /// Outcomes that are kept back.
    withheld: Mutex<usize>,
    /// How long a change takes. It does what it does in its first moment.
    takes: Mutex<Duration>,
    begun: Instant,
}

impl FakeRoutes {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            table: Mutex::default(),
            calls: Mutex::default(),
            looks: Mutex::default(),
            changes: Mutex::default(),
            poison: Mutex::default(),
            poisoned: Mutex::new(Reaction::Invalid),
            stuck: Mutex::default(),
            refused: Mutex::default(),
            withheld: Mutex::default(),
            takes: Mutex::default(),
            begun: Instant::now(),
        })
    }

    fn has(&self, routes: impl IntoIterator<Item = Route>) {
        self.table.lock().extend(routes.into_iter().map(|route| (route.name.clone(), route)));
    }

    /// Network and Node.
    fn routes(&self) -> Vec<(String, String)> {
        let table = self.table.lock();
        let mut shown: Vec<_> = table
            .values()
            .map(|route| (route.destination_cidr.clone(), route.node.clone().unwrap_or_else(|| "-".to_owned())))
            .collect();
        shown.sort();
        shown
    }

    fn note(&self, call: Call) {
        self.calls.lock().push((self.begun.elapsed().as_secs(), call));
    }

    fn apply(&self, obsolete: Vec<Route>, wanted: Vec<RouteWish>) -> Vec<RouteOutcome> {
        let mut table = self.table.lock();
        let refused = self.refused.lock();
        let mut outcomes = vec![];
        for route in obsolete {
            table.remove(&route.name);
            outcomes.push(RouteOutcome::default());
        }
        for wish in wanted {
            let failure = refused.get(&wish.destination_cidr).cloned();
            if failure.is_none() {
                let made = route(&wish.destination_cidr, Some(&wish.node));
                table.insert(made.name.clone(), made);
            }
            outcomes.push(RouteOutcome { failure, changes: vec![] });
        }
        outcomes
    }
}

impl Routes for FakeRoutes {
    fn descriptor(&self) -> Arc<Descriptor> {
        Arc::new(Descriptor { name: "fake".into(), provider_id_schemes: vec!["fake".into()], ..Descriptor::default() })
    }

    fn get_all(&self, nodes: Vec<ccm_cloud::Node>) -> CallFuture<'_, Result<Vec<Route>, Failure>> {
        self.note(Call::GetAll(nodes.len()));
        let answer = match self.looks.lock().pop_front() {
            Some(failure) => Err(failure),
            None => Ok(self.table.lock().values().cloned().collect()),
        };
        Box::pin(async move { answer })
    }

    fn change(
        &self,
        obsolete: Vec<Route>,
        wanted: Vec<RouteWish>,
    ) -> CallFuture<'_, Result<Vec<RouteOutcome>, RouteChangeError>> {
        let gone = obsolete.iter().map(|route| route.destination_cidr.clone()).collect();
        let made = wanted.iter().map(|wish| format!("{} {}", wish.destination_cidr, wish.node)).collect();
        self.note(Call::Change(gone, made));
        if wanted.iter().any(|wish| self.stuck.lock().contains(&wish.destination_cidr)) {
            return Box::pin(std::future::pending());
        }
        let is_poisoned = wanted.iter().any(|wish| self.poison.lock().contains(&wish.destination_cidr));
        let answer = if let Some(error) = self.changes.lock().pop_front() {
            Err(error)
        } else if is_poisoned {
            Err(Failure::new(*self.poisoned.lock(), "the table has a route that cannot be").into())
        } else {
            let mut outcomes = self.apply(obsolete, wanted);
            let kept = outcomes.len().saturating_sub(*self.withheld.lock());
            outcomes.truncate(kept);
            Ok(outcomes)
        };
        let takes = *self.takes.lock();
        Box::pin(async move {
            tokio::time::sleep(takes).await;
            answer
        })
    }
}

/// A route that is in place.
fn route(network: &str, node: Option<&str>) -> Route {
    Route {
        name: format!("{network} {}", node.unwrap_or_default()),
        destination_cidr: network.to_owned(),
        node: node.map(ToOwned::to_owned),
        next_hop: None,
        state: if node.is_some() { RouteState::InPlace } else { RouteState::Blackhole },
        more: vec![],
    }
}

/// A Node of the fake cloud with these pod CIDRs.
fn pods(name: &str, cidrs: &[&str]) -> Draft {
    node(name)
        .provider_id(&format!("fake://{name}"))
        .address("InternalIP", "10.0.0.1")
        .with("/spec", "podCIDRs", json!(cidrs))
        .with("/spec", "podCIDR", json!(cidrs.first()))
}

/// Nodes `n0`, `n1` and so on, each with a pod CIDR of its own.
fn many(count: u8) -> Vec<Draft> {
    (0..count).map(|i| pods(&format!("n{i}"), &[&format!("10.244.{i}.0/24")])).collect()
}

fn ranges(texts: &[&str]) -> PodRanges {
    PodRanges::parse(&texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>()).unwrap()
}

fn failure(reaction: Reaction) -> Failure {
    Failure::new(reaction, "no")
}

/// A cluster and the controller that watches it.
struct Bench {
    api: FakeApi,
    cloud: Arc<FakeRoutes>,
    controller: Option<RouteController>,
    events: Option<EventWriter>,
    registry: Registry,
    nodes: (Writer<Node>, mpsc::Sender<ObjectRef<Node>>),
    list: watch::Sender<Result<(), String>>,
    recovery: watch::Sender<u64>,
    begun: Instant,
}

impl Bench {
    fn new(change: impl FnOnce(&mut RouteSettings)) -> Self {
        Self::within(&["10.244.0.0/16", "fd00::/48"], change)
    }

    fn within(texts: &[&str], change: impl FnOnce(&mut RouteSettings)) -> Self {
        // Far away, where a test is not about it.
        let mut settings = RouteSettings { period: Duration::from_secs(100_000), ..RouteSettings::default() };
        change(&mut settings);
        let begun = Instant::now();
        let api = FakeApi::new();
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        let gate = ApiGate::new(api.client.clone(), metrics.api.clone(), ApiGateSettings::default());
        let (recorder, events) = EventRecorder::new(gate.clone(), metrics.events.clone(), EventSettings::default());
        let (store, writer) = reflector::store::<Node>();
        let (sender, keys) = mpsc::channel(1_024);
        let list = watch::Sender::new(Err("not yet".to_owned()));
        let recovery = watch::Sender::new(0);
        let cloud = FakeRoutes::new();
        let controller = RouteController::new(RouteControllerParts {
            gate,
            nodes: store,
            first_list: FirstList::of(list.subscribe()),
            keys,
            members: vec![RouteMember {
                source: Arc::new(Arc::clone(&cloud)),
                nodes: ClusterNodes::All,
                recoveries: vec![recovery.subscribe()],
            }],
            ranges: ranges(texts),
            recorder,
            metrics: metrics.route.clone(),
            queue_metrics: metrics.queue.clone(),
            settings,
        });
        let mut nodes = (writer, sender);
        nodes.0.apply_watcher_event(&Event::Init);
        let (controller, events) = (Some(controller), Some(events));
        Self { api, cloud, controller, events, registry, nodes, list, recovery, begun }
    }

    /// An hour with one Node, whose route the cloud always refuses.
    async fn is_refused_for_an_hour(&mut self, reaction: Reaction) {
        self.cloud.refused.lock().insert("10.244.1.0/24".to_owned(), failure(reaction));
        self.play(async |bench| {
            bench.apply(pods("n1", &["10.244.1.0/24"])).await;
            bench.listed().await;
            bench.until(3_600).await;
        })
        .await;
    }

    /// Lets the controller work while `story` happens, then stops all in order.
    async fn play(&mut self, story: impl AsyncFnOnce(&mut Self)) {
        let controller = self.controller.take().unwrap();
        let events = self.events.take().unwrap();
        let (stop, drain) = (CancellationToken::new(), CancellationToken::new());
        let work = async {
            drop(controller.run(stop.clone()).await);
            drain.cancel();
        };
        let told = async {
            story(self).await;
            stop.cancel();
        };
        tokio::join!(work, told, events.run(drain.clone()));
    }

    /// One run over these Nodes.
    async fn once(nodes: impl IntoIterator<Item = Draft>, cloud: impl FnOnce(&FakeRoutes)) -> Self {
        let mut bench = Self::new(|_| {});
        cloud(&bench.cloud);
        bench.play(async |bench| bench.listed_with(nodes).await).await;
        bench
    }

    /// These Nodes are there before the first list.
    async fn listed_with(&mut self, nodes: impl IntoIterator<Item = Draft>) {
        for node in nodes {
            self.apply(node).await;
        }
        self.listed().await;
    }

    async fn listed(&mut self) {
        self.nodes.0.apply_watcher_event(&Event::InitDone);
        drop(self.list.send_replace(Ok(())));
        self.settle().await;
    }

    /// The Node is there, at the API server and in the store.
    async fn apply(&mut self, draft: Draft) {
        let node: Node = self.api.add(draft.0);
        self.show(node).await;
    }

    /// The store gets to see the Node as the API server has it.
    async fn show(&mut self, node: Node) {
        let key = ObjectRef::from_obj(&node);
        let event = if self.list.borrow().is_ok() { Event::Apply(node) } else { Event::InitApply(node) };
        self.nodes.0.apply_watcher_event(&event);
        self.nodes.1.send(key).await.unwrap();
    }

    async fn delete(&mut self, draft: Draft) {
        let node: Node = draft.object();
        self.api.with(|api| api.delete(&node.name));
        let key = ObjectRef::from_obj(&node);
        self.nodes.0.apply_watcher_event(&Event::Delete(node));
        self.nodes.1.send(key).await.unwrap();
    }

    /// Until `at` seconds after the beginning.
    async fn until(&self, at: u64) {
        tokio::time::sleep_until(self.begun + Duration::from_secs(at)).await;
        self.settle().await;
    }

    /// Lets all that can run now do so.
    async fn settle(&self) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }

    /// Calls that changed something, without their time.
    fn changes(&self) -> Vec<Call> {
        let calls = self.cloud.calls.lock();
        calls.iter().map(|(_, call)| call.clone()).filter(|call| matches!(call, Call::Change(..))).collect()
    }

    /// When all routes were looked at, in seconds.
    fn looks(&self) -> Vec<u64> {
        let calls = self.cloud.calls.lock();
        calls.iter().filter(|(_, call)| matches!(call, Call::GetAll(_))).map(|(at, _)| *at).collect()
    }

    /// Status and reason of the Node's condition.
    fn condition(&self, name: &str) -> Option<(String, String)> {
        let body =
            self.api.calls().into_iter().rev().find(|call| call.line.ends_with(&format!("/{name}/status")))?.body;
        let condition: &Value = &body["status"]["conditions"][0];
        assert_eq!(condition["type"], "NetworkUnavailable");
        Some((condition["status"].as_str().unwrap().to_owned(), condition["reason"].as_str().unwrap().to_owned()))
    }

    /// Texts of Events.
    fn told(&self) -> Vec<String> {
        let calls = self.api.calls().into_iter().filter(|call| call.line.ends_with("/events"));
        let events = calls.filter(|call| call.line.starts_with("POST")).map(|call| call.body);
        events.map(|event| event["note"].as_str().unwrap().to_owned()).collect()
    }

    fn scraped(&self, series: &str) -> f64 {
        scraped(&self.registry, series)
    }
}

fn available() -> Option<(String, String)> {
    Some(("False".to_owned(), "RouteCreated".to_owned()))
}

fn unavailable() -> Option<(String, String)> {
    Some(("True".to_owned(), "NoRouteCreated".to_owned()))
}

fn pairs(routes: &[(&str, &str)]) -> Vec<(String, String)> {
    routes.iter().map(|&(network, node)| (network.to_owned(), node.to_owned())).collect()
}
