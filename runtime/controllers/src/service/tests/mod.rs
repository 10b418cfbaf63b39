//! The numbers in names and rows are those of the behaviour reference's cases.

mod anew;
mod bequest;
mod claims;
mod ensured_record;
mod exchange;
mod explain;
mod fan_out;
mod faults;
mod helpers;
mod offer;
mod one_sync;
mod ownership;
mod pending;
mod predicates;
mod processing;
mod recovery;
mod refresh;
mod rehearsal;
mod restart;
mod restored;
mod rollback;
mod selection;
mod start;
mod unknown_annotations;
mod unread;
mod vet;
mod whole;

use std::sync::Arc;
use std::time::Duration;

use ccm_apiserver::{ApiGate, ApiGateSettings, EventRecorder, EventSettings, EventWriter};
use ccm_cloud::{Failure, Reaction};
use k8s_openapi::api::core::v1::Service;
use kube::runtime::reflector::{self, ObjectRef, store::Writer};
use kube::runtime::watcher::Event;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::backends::{Backends, Current};
use super::condition::READY;
use super::ensured_record::{RECORDED, Record};
use super::found::Found;
use super::job::Job;
use super::key::Key;
use super::locks::Locks;
use super::memory::Memory;
use super::rounds::Refresh;
use super::syncer::Syncer;
use super::write::ServiceWriter;
use super::{LoadBalancerMember, ServiceSettings, key, verify, wake};
use crate::all_metrics::Metrics;
use crate::cluster_addresses::{AddressSources, ClusterAddresses};
use crate::queue::Verdict;
use crate::store::{FirstList, Node};
use crate::testing::{Draft, FakeApi, FakeBalancers, node, scraped, service};

const FINALIZER: &str = "service.kubernetes.io/load-balancer-cleanup";
const STATUS: &str = "PATCH /api/v1/namespaces/default/services/web/status";

/// One service controller without its queue and its watches: the test says what the stores have and when to sync.
struct Bench {
    api: FakeApi,
    cloud: Arc<FakeBalancers>,
    syncer: Arc<Syncer>,
    metrics: Metrics,
    registry: Registry,
    store: Writer<Service>,
    nodes: Writer<Node>,
    events: Option<EventWriter>,
    settings: ServiceSettings,
}

/// A Service whose finalizer is there already.
fn finalized(name: &str) -> Draft {
    service(name).with("/metadata", "finalizers", json!([FINALIZER]))
}

fn failure(reaction: Reaction, message: &str) -> Failure {
    Failure::new(reaction, message)
}

fn backends(nodes: impl IntoIterator<Item = Draft>) -> Backends {
    let nodes: Vec<Arc<Node>> = nodes.into_iter().map(|node| Arc::new(node.object())).collect();
    Backends::select(&nodes)
}

fn key(name: &str) -> Key {
    ObjectRef::new(name).within("default")
}

impl Bench {
    fn new() -> Self {
        Self::with(FakeBalancers::default(), ServiceSettings::default())
    }

    fn with(cloud: FakeBalancers, settings: ServiceSettings) -> Self {
        Self::start(FakeApi::new(), Arc::new(cloud), settings)
    }

    fn start(api: FakeApi, cloud: Arc<FakeBalancers>, settings: ServiceSettings) -> Self {
        let provider = Arc::clone(&cloud);
        Self::serving(api, cloud, vec![LoadBalancerMember { provider, classes: vec![] }], settings)
    }

    fn serving(
        api: FakeApi,
        cloud: Arc<FakeBalancers>,
        members: Vec<LoadBalancerMember>,
        settings: ServiceSettings,
    ) -> Self {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        let gate = ApiGate::new(api.client.clone(), metrics.api.clone(), ApiGateSettings::default());
        let (reader, mut store) = reflector::store::<Service>();
        store.apply_watcher_event(&Event::Init);
        store.apply_watcher_event(&Event::InitDone);
        let (node_reader, nodes) = reflector::store::<Node>();
        cloud.watch(node_reader.clone());
        let (recorder, events) = EventRecorder::new(gate.clone(), metrics.events.clone(), EventSettings::default());
        let (nodes_known, services) = (Some(node_reader.clone()), Some(reader.clone()));
        let addresses =
            ClusterAddresses::new(AddressSources { nodes: nodes_known, services, ..AddressSources::default() });
        let syncer = Arc::new(Syncer {
            store: reader.clone(),
            members: members.into_iter().enumerate().collect(),
            backends: Current::new(backends([node("n0"), node("n1")]), node_reader),
            addresses,
            locks: Locks::default(),
            width: Semaphore::new(settings.width()),
            writer: ServiceWriter::new(gate),
            recorder,
            memory: Arc::new(Memory::new(&metrics.service, Default::default())),
            living: Default::default(),
            unread: FirstList::there().unread(),
            claims: Default::default(),
            refresh: Refresh::new(settings.revision_first, metrics.service.outdated.clone()),
            metrics: metrics.service.clone(),
            settings,
        });
        let mut bench = Self { api, cloud, syncer, metrics, registry, store, nodes, events: Some(events), settings };
        bench.label(vec![node("n0"), node("n1")]);
        bench.catch_up();
        bench
    }

    /// The process ends and another one starts: the same cluster, the same cloud, the same Nodes, and nothing in memory.
    fn restart(self) -> Self {
        let backends = self.syncer.backends.get();
        let nodes = self.nodes.as_reader().state();
        let mut bench = Self::start(self.api, self.cloud, self.settings);
        bench.nodes.apply_watcher_event(&Event::Init);
        for node in nodes {
            bench.nodes.apply_watcher_event(&Event::InitApply(Node::clone(&node)));
        }
        bench.nodes.apply_watcher_event(&Event::InitDone);
        bench.syncer.backends.replace(Backends { list: Arc::clone(&backends.list), digest: backends.digest });
        bench
    }

    /// The store has these Nodes now.
    fn label(&mut self, nodes: Vec<Draft>) -> Backends {
        self.nodes.apply_watcher_event(&Event::Init);
        for node in nodes {
            self.nodes.apply_watcher_event(&Event::InitApply(node.object()));
        }
        self.nodes.apply_watcher_event(&Event::InitDone);
        Backends::select(&self.nodes.as_reader().state())
    }

    /// Nodes have other labels now: one pass, with the syncs that it leads to. Returns the calls.
    async fn relabel(&mut self, nodes: Vec<Draft>) -> Vec<String> {
        self.cloud.take_calls();
        let backends = self.label(nodes);
        for key in wake::relabelled(&self.syncer, backends) {
            self.syncer.sync(&key).await;
        }
        self.catch_up();
        let mut calls = self.cloud.take_calls();
        calls.sort();
        calls
    }

    /// Creates a Service, in the API server and in the store.
    fn add(&mut self, service: Draft) {
        self.api.add_service(service.0);
        self.catch_up();
    }

    /// Another writer changes a Service; the store sees it.
    fn edit(&mut self, name: &str, patch: &Value) {
        self.api.edit_service(name, patch);
        self.catch_up();
    }

    fn delete(&mut self, name: &str) {
        self.api.delete_service(name);
        self.catch_up();
    }

    /// The store gets the newest state of all Services.
    fn catch_up(&mut self) {
        let newest = self.api.services();
        for old in self.syncer.store.state() {
            if !newest.iter().any(|new| new.metadata.name == old.metadata.name) {
                self.store.apply_watcher_event(&Event::Delete(Service::clone(&old)));
                self.syncer.notice(&key::key(&old));
            }
        }
        for service in newest {
            let key = key::key(&service);
            self.store.apply_watcher_event(&Event::Apply(service));
            self.syncer.notice(&key);
        }
    }

    /// A run that goes on while the test does something else.
    #[expect(clippy::disallowed_methods, reason = "the test waits for its end, or ends it")]
    fn begin(&self, name: &str) -> JoinHandle<Verdict> {
        let (syncer, key) = (Arc::clone(&self.syncer), key(name));
        tokio::spawn(async move { syncer.sync(&key).await })
    }

    /// What serving comes to.
    fn job(&self, name: &str) -> Option<Job> {
        self.syncer.job(&key(name), &self.syncer.provider(0)?)
    }

    /// One run, after which the store has what it wrote.
    async fn sync(&mut self, name: &str) -> Verdict {
        let verdict = self.syncer.sync(&key(name)).await;
        self.catch_up();
        verdict
    }

    /// The Nodes are now these: one pass, with the syncs that it leads to. Returns their verdicts.
    async fn pass(&mut self, nodes: impl IntoIterator<Item = Draft>) -> Vec<Verdict> {
        let backends = self.label(nodes.into_iter().collect());
        let keys = wake::fan_out(&self.syncer, backends);
        let mut verdicts = Vec::new();
        for key in keys {
            verdicts.push(self.syncer.sync(&key).await);
        }
        self.catch_up();
        verdicts
    }

    async fn survey(&self) {
        verify::at_start(&self.syncer).await;
    }

    fn json(&self, name: &str) -> Value {
        self.api.service(name).unwrap()
    }

    /// The condition that says whether the load balancer is ready, without its time.
    fn condition(&self, name: &str) -> Value {
        let mut condition = condition(&self.json(name), READY);
        if let Some(condition) = condition.as_object_mut() {
            condition.remove("lastTransitionTime");
        }
        condition
    }

    fn record(&self, name: &str) -> Option<Record> {
        Record::of(&serde_json::from_value(self.json(name)).unwrap())
    }

    /// Writes to Services since the last time.
    fn patches(&self) -> usize {
        self.api.count("PATCH /api/v1/namespaces/default/services/")
    }

    fn scraped(&self, series: &str) -> f64 {
        scraped(&self.registry, series)
    }

    /// Writes the Events that wait and returns all.
    async fn events(&mut self) -> Vec<String> {
        if let Some(writer) = self.events.take() {
            let now = CancellationToken::new();
            now.cancel();
            writer.run(now).await;
        }
        self.api.events()
    }

    /// Reasons of all Events, in order.
    async fn reasons(&mut self) -> Vec<String> {
        let events = self.events().await;
        events.iter().map(|event| event.split([' ', ':']).nth(1).unwrap().to_owned()).collect()
    }
}

/// The condition of a type; null where there is none.
fn condition(service: &Value, kind: &str) -> Value {
    let conditions = service["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().find(|condition| condition["type"] == kind).cloned().unwrap_or_default()
}

/// For texts that end in a time that is left to chance.
#[track_caller]
fn assert_starts(text: &str, start: &str) {
    assert!(text.starts_with(start), "{text}");
}
