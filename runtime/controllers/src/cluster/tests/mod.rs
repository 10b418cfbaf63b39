//! The whole controller with paused time: stores that the test fills, and a provider in plain Rust.

mod failures;
mod rehearsal;
mod unread;
mod waking;

use std::collections::VecDeque;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use ccm_apiserver::{ApiGate, ApiGateSettings, EventRecorder, EventSettings, EventWriter};
use ccm_cloud::{Annotation, Cluster, ClusterSubject, Descriptor, Failure, ValueKind};
use k8s_openapi::api::core::v1::Service;
use kube::runtime::reflector::{self, ObjectRef, store::Writer};
use kube::runtime::watcher::Event;
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{ClusterController, ClusterControllerParts, ClusterMember, ClusterNodes, ClusterSettings};
use crate::all_metrics::Metrics;
use crate::queue::GivenUp;
use crate::store::{FirstList, Node, Unread};
use crate::testing::{FakeApi, node, scraped};

type SyncResult = Result<Vec<(ClusterSubject, Failure)>, Failure>;

/// A call as the provider saw it: seconds since the beginning, Nodes, Services.
#[derive(Debug, Clone, PartialEq)]
struct Call {
    at: u64,
    nodes: Vec<String>,
    services: Vec<String>,
}

/// Answers one after the other; when there are none left, all is well.
struct FakeCluster {
    answers: Mutex<VecDeque<SyncResult>>,
    calls: Mutex<Vec<Call>>,
    running: Mutex<usize>,
    takes: Duration,
    begun: Instant,
}

impl Cluster for FakeCluster {
    fn descriptor(&self) -> Arc<Descriptor> {
        Arc::new(descriptor())
    }

    fn reconcile(
        &self,
        nodes: Vec<ccm_cloud::Node>,
        services: Vec<ccm_cloud::Service>,
    ) -> std::pin::Pin<Box<dyn Future<Output = SyncResult> + Send + '_>> {
        Box::pin(async move {
            let mut names = [
                nodes.into_iter().map(|node| node.name).collect::<Vec<_>>(),
                services.into_iter().map(|service| format!("{}/{}", service.namespace, service.name)).collect(),
            ];
            names.iter_mut().for_each(|names| names.sort());
            let [nodes, services] = names;
            self.calls.lock().push(Call { at: self.begun.elapsed().as_secs(), nodes, services });
            *self.running.lock() += 1;
            assert_eq!(*self.running.lock(), 1, "two calls of one provider at the same time");
            tokio::time::sleep(self.takes).await;
            *self.running.lock() -= 1;
            self.answers.lock().pop_front().unwrap_or(Ok(vec![]))
        })
    }
}

/// A cluster and the controller that watches it.
struct Bench {
    api: FakeApi,
    cloud: Arc<FakeCluster>,
    controller: Option<ClusterController>,
    events: Option<EventWriter>,
    registry: Registry,
    metrics: Metrics,
    nodes: (Writer<Node>, mpsc::Sender<ObjectRef<Node>>),
    services: (Writer<Service>, mpsc::Sender<ObjectRef<Service>>),
    lists: [watch::Sender<Result<(), String>>; 2],
    /// Nodes and Services that cannot be read.
    unread: [watch::Sender<Unread>; 2],
    recovery: watch::Sender<u64>,
    begun: Instant,
}

/// What a test changes.
struct Setup {
    settings: ClusterSettings,
    answers: Vec<SyncResult>,
    takes: Duration,
    nodes: ClusterNodes,
}

impl Default for Setup {
    fn default() -> Self {
        // Far away, where a test is not about it.
        let settings = ClusterSettings { period: Duration::from_secs(100_000), ..ClusterSettings::default() };
        Self { settings, answers: vec![], takes: Duration::ZERO, nodes: ClusterNodes::All }
    }
}

impl Bench {
    fn new(setup: Setup) -> Self {
        let begun = Instant::now();
        let api = FakeApi::new();
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        let gate = ApiGate::new(api.client.clone(), metrics.api.clone(), ApiGateSettings::default());
        let (recorder, events) = EventRecorder::new(gate, metrics.events.clone(), EventSettings::default());
        let (node_store, nodes) = reflector::store::<Node>();
        let (service_store, services) = reflector::store::<Service>();
        let (node_sender, node_keys) = mpsc::channel(1_024);
        let (service_sender, service_keys) = mpsc::channel(1_024);
        let lists = [(); 2].map(|()| watch::Sender::new(Err("not yet".to_owned())));
        let unread = [(); 2].map(|()| watch::Sender::new(Unread::new()));
        let first_list = |kind: usize| FirstList::of(lists[kind].subscribe()).with_unread(unread[kind].subscribe());
        let recovery = watch::Sender::new(0);
        let cloud = Arc::new(FakeCluster {
            answers: Mutex::new(setup.answers.into()),
            calls: Mutex::default(),
            running: Mutex::default(),
            takes: setup.takes,
            begun,
        });
        let controller = ClusterController::new(ClusterControllerParts {
            nodes: node_store,
            services: service_store,
            first_lists: [first_list(0), first_list(1)],
            node_keys,
            service_keys,
            members: vec![ClusterMember {
                cluster: Arc::clone(&cloud) as Arc<dyn Cluster>,
                nodes: setup.nodes,
                recoveries: vec![recovery.subscribe()],
            }],
            recorder,
            metrics: metrics.cluster.clone(),
            queue_metrics: metrics.queue.clone(),
            settings: setup.settings,
        });
        let mut bench = Self {
            api,
            cloud,
            controller: Some(controller),
            events: Some(events),
            registry,
            metrics,
            nodes: (nodes, node_sender),
            services: (services, service_sender),
            lists,
            unread,
            recovery,
            begun,
        };
        bench.nodes.0.apply_watcher_event(&Event::Init);
        bench.services.0.apply_watcher_event(&Event::Init);
        bench
    }

    /// Lets the controller work while `story` happens, then stops all in order.
    async fn play(&mut self, story: impl AsyncFnOnce(&mut Self)) {
        drop(self.play_to_end(story).await);
    }

    /// The same, and how the controller ended.
    async fn play_to_end(&mut self, story: impl AsyncFnOnce(&mut Self)) -> Result<(), GivenUp> {
        let controller = self.controller.take().unwrap();
        let events = self.events.take().unwrap();
        let (stop, drain) = (CancellationToken::new(), CancellationToken::new());
        let work = async {
            let ended = controller.run(stop.clone()).await;
            drain.cancel();
            ended
        };
        let told = async {
            story(self).await;
            stop.cancel();
        };
        tokio::join!(work, told, events.run(drain.clone())).0
    }

    /// Both first lists are complete, with one Node and one Service.
    async fn listed(&mut self) {
        self.apply_node(node("n1").provider_id("fake://1").0).await;
        self.apply_service(service("web")).await;
        self.list_nodes();
        self.list_services();
        self.settle().await;
    }

    fn list_nodes(&mut self) {
        self.nodes.0.apply_watcher_event(&Event::InitDone);
        drop(self.lists[0].send_replace(Ok(())));
    }

    fn list_services(&mut self) {
        self.services.0.apply_watcher_event(&Event::InitDone);
        drop(self.lists[1].send_replace(Ok(())));
    }

    async fn apply_node(&mut self, node: Value) {
        let node: Node = serde_json::from_value(node).unwrap();
        let key = ObjectRef::from_obj(&node);
        let event = if self.lists[0].borrow().is_ok() { Event::Apply(node) } else { Event::InitApply(node) };
        self.nodes.0.apply_watcher_event(&event);
        self.nodes.1.send(key).await.unwrap();
    }

    async fn apply_service(&mut self, service: Value) {
        let service: Service = serde_json::from_value(service).unwrap();
        let key = ObjectRef::from_obj(&service);
        let event = if self.lists[1].borrow().is_ok() { Event::Apply(service) } else { Event::InitApply(service) };
        self.services.0.apply_watcher_event(&event);
        self.services.1.send(key).await.unwrap();
    }

    async fn delete_service(&mut self, service: Value) {
        let service: Service = serde_json::from_value(service).unwrap();
        let key = ObjectRef::from_obj(&service);
        self.services.0.apply_watcher_event(&Event::Delete(service));
        self.services.1.send(key).await.unwrap();
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

    /// When the calls were.
    fn calls(&self) -> Vec<u64> {
        self.cloud.calls.lock().iter().map(|call| call.at).collect()
    }

    fn scraped(&self, series: &str) -> f64 {
        scraped(&self.registry, series)
    }
}

fn descriptor() -> Descriptor {
    let annotation = Annotation {
        name: "fake.example/*".into(),
        purpose: String::new(),
        kind: ValueKind::Text,
        default: None,
        allowed: vec![],
        role: ccm_cloud::AnnotationRole::Asked,
    };
    Descriptor {
        name: "fake".into(),
        version: "1".into(),
        revision: "1".into(),
        provider_id_schemes: vec!["fake".into()],
        annotations: vec![annotation],
        ..Descriptor::default()
    }
}

fn service(name: &str) -> Value {
    json!({
        "metadata": { "name": name, "namespace": "shop", "uid": format!("uid-{name}") },
        "spec": { "type": "NodePort", "ports": [{ "port": 80, "nodePort": 30080 }] },
        "status": {},
    })
}
