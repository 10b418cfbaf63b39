//! Each row of a table names its case of the behaviour reference.

mod addresses;
mod conflicts;
mod controller;
mod failures;
mod initialise;
mod labels;
mod refresh;
mod rehearsal;
mod unknown_annotations;

use std::sync::Arc;

use ccm_apiserver::{ApiGate, ApiGateSettings, EventRecorder, EventSettings, EventWriter};
use ccm_cloud::Lookups;
use kube::runtime::reflector::{self, store::Writer};
use kube::runtime::watcher::Event;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::holders::Holders;
use super::memory::Memory;
use super::sync::Syncer;
use super::unknown_annotations::UnknownAnnotations;
use super::write::NodeWriter;
use super::{NodeSettings, refresh as refreshing};
use crate::all_metrics::Metrics;
use crate::cluster_addresses::{AddressSources, ClusterAddresses};
use crate::queue::Verdict;
use crate::store::Node;
use crate::testing::{Draft, FakeApi, FakeCloud, scraped};

/// One node controller without its queue and its watch: the test says what the store has and when to sync.
struct Bench {
    api: FakeApi,
    cloud: Arc<FakeCloud>,
    syncer: Syncer,
    metrics: Metrics,
    registry: Registry,
    store: Writer<Node>,
    events: Option<EventWriter>,
    _lookups: JoinSet<()>,
}

impl Bench {
    fn new() -> Self {
        Self::with(FakeCloud::default(), NodeSettings::default())
    }

    fn with(cloud: FakeCloud, settings: NodeSettings) -> Self {
        let api = FakeApi::new();
        let cloud = Arc::new(cloud);
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        let gate = ApiGate::new(api.client.clone(), metrics.api.clone(), ApiGateSettings::default());
        let (reader, mut store) = reflector::store::<Node>();
        store.apply_watcher_event(&Event::Init);
        store.apply_watcher_event(&Event::InitDone);
        let (recorder, events) = EventRecorder::new(gate.clone(), metrics.events.clone(), EventSettings::default());
        let (lookups, task) = cloud.lookups();
        let syncer = syncer(gate, reader, lookups, recorder, &metrics, settings);
        Self { api, cloud, syncer, metrics, registry, store, events: Some(events), _lookups: task }
    }

    /// One that keeps the addresses of its Nodes apart.
    fn keeping_apart() -> Self {
        let mut bench = Self::new();
        let nodes = Some(bench.syncer.store.clone());
        let addresses = ClusterAddresses::new(AddressSources { nodes, ..AddressSources::default() });
        let holders = Arc::new(Holders::new(addresses));
        bench.syncer.writer = NodeWriter::new(bench.syncer.writer.gate.clone(), Arc::clone(&holders));
        bench.syncer.holders = holders;
        bench
    }

    /// Creates a Node, in the API server and in the store.
    fn add(&mut self, node: Draft) {
        let node = self.api.add(node.0);
        self.seen(node);
    }

    /// Another writer changes a Node; the store sees it.
    fn edit(&mut self, name: &str, patch: &Value) {
        let node = self.api.edit(name, patch);
        self.seen(node);
    }

    /// The store gets the newest state of a Node.
    fn catch_up(&mut self, name: &str) {
        let node = self.api.node(name);
        self.seen(node);
    }

    fn seen(&mut self, node: Node) {
        self.store.apply_watcher_event(&Event::Apply(node));
    }

    fn scraped(&self, series: &str) -> f64 {
        scraped(&self.registry, series)
    }

    async fn sync(&self, name: &str) -> Verdict {
        self.syncer.sync(name).await
    }

    async fn refresh(&self) {
        refreshing::refresh(&self.syncer, || {}).await;
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
}

fn syncer(
    gate: ApiGate,
    store: reflector::Store<Node>,
    lookups: Lookups,
    recorder: EventRecorder,
    metrics: &Metrics,
    settings: NodeSettings,
) -> Syncer {
    // Addresses of several Nodes have tests of their own.
    let holders = Arc::new(Holders::new(ClusterAddresses::new(AddressSources::default())));
    Syncer {
        store,
        lookups,
        writer: NodeWriter::new(gate, Arc::clone(&holders)),
        holders,
        writes: Semaphore::new(settings.sync_width()),
        recorder,
        memory: Memory::new(metrics.node.uninitialized.clone(), Default::default()),
        metrics: metrics.node.clone(),
        unknown_annotations: UnknownAnnotations::default(),
        settings,
    }
}

const TAINT_DELAY: &str = "node_controller_cloud_provider_taint_removal_delay_seconds";
const SYNC_DELAY: &str = "node_controller_initial_node_sync_delay_seconds";

const STATUS: &str = "PATCH /api/v1/nodes/node0/status";
const OBJECT: &str = "PATCH /api/v1/nodes/node0";
const GET: &str = "GET /api/v1/nodes/node0";
const EVENT: &str = "POST /apis/events.k8s.io/v1/namespaces/default/events";

/// The body of the patch that gives a Node these addresses, read at version 101. Only where those of one type stand together it
/// is a strategic one.
fn status_body(addresses: &Value) -> Value {
    let addresses = addresses.as_array().unwrap();
    let mut types: Vec<&Value> = addresses.iter().map(|address| &address["type"]).collect();
    types.dedup();
    let is_together = types.iter().all(|one| types.iter().filter(|other| *other == one).count() == 1);
    let replace = json!({ "$patch": "replace" });
    let list: Vec<&Value> = is_together.then_some(&replace).into_iter().chain(addresses).collect();
    json!({ "metadata": { "resourceVersion": "101" }, "status": { "addresses": list } })
}
