//! Each row of a table, or name of a test, says its case of the behaviour reference (7.8, 7.9).

mod cases;
mod controller;
mod deletion;
mod held;
mod journal;
mod looks;
mod orders;
mod recall;
mod rehearsal;
mod taint;

use std::sync::Arc;
use std::time::Duration;

use ccm_apiserver::{ApiGate, ApiGateSettings, EventRecorder, EventSettings, EventWriter};
use ccm_cloud::{Failure, Finding, Instances, Lookups, Member, Reaction};
use kube::runtime::reflector::{self, store::Writer};
use kube::runtime::watcher::Event;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::deletion_budget::Deletions;
use super::history::REPORTER;
use super::memory::Memory;
use super::sync::Syncer;
use super::{DeletionBudget, NodeLifecycleSettings};
use crate::all_metrics::Metrics;
use crate::node::write::NodeWriter;
use crate::queue::Verdict;
use crate::store::Node;
use crate::testing::{Draft, FakeApi, FakeCloud, node, scraped};

const GET: &str = "GET /api/v1/nodes/node0";
const PATCH: &str = "PATCH /api/v1/nodes/node0";
const DELETE: &str = "DELETE /api/v1/nodes/node0";
/// Old enough for everything.
const OLD: i64 = 3_600;

const DELETING: &str = "Normal DeletingNode: Deleting node node0 because it does not exist in the cloud provider";

/// One node lifecycle controller without its queue and its watch: the test says what the store has and when to sync.
struct Bench<C: Instances = FakeCloud> {
    api: FakeApi,
    cloud: Arc<C>,
    syncer: Syncer,
    registry: Registry,
    store: Writer<Node>,
    events: Option<EventWriter>,
    _lookups: JoinSet<()>,
}

impl Bench {
    fn new() -> Self {
        Self::with(NodeLifecycleSettings::default())
    }

    fn with(settings: NodeLifecycleSettings) -> Self {
        Self::of(FakeCloud::default(), settings)
    }

    /// With so many providers; the first has the machines, the others say that no Node is theirs.
    fn among(providers: usize, settings: NodeLifecycleSettings) -> Self {
        let mut bench = Self::with(settings);
        let batches = ccm_cloud::BatchSettings::default();
        let mut member = |scheme: &str, cloud: Arc<FakeCloud>| {
            let (batcher, work) = ccm_cloud::Batcher::new(cloud, batches);
            bench._lookups.spawn(work);
            let scheme = scheme.to_owned();
            Member {
                name: scheme.clone(),
                claims: Box::new(move |id| id.starts_with(&format!("{scheme}://"))),
                batcher,
            }
        };
        let mut members = vec![member("fake", Arc::clone(&bench.cloud))];
        for i in 1..providers {
            let other = FakeCloud::default();
            other.answer("node0", [unknown(Reaction::Elsewhere)]);
            members.push(member(&format!("other{i}"), Arc::new(other)));
        }
        bench.syncer.lookups = Lookups::new(members);
        bench
    }
}

impl<C: Instances> Bench<C> {
    fn of(cloud: C, settings: NodeLifecycleSettings) -> Self {
        let api = FakeApi::new();
        let cloud = Arc::new(cloud);
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        let gate = ApiGate::new(api.client.clone(), metrics.api.clone(), ApiGateSettings::default());
        let (reader, mut store) = reflector::store::<Node>();
        store.apply_watcher_event(&Event::Init);
        store.apply_watcher_event(&Event::InitDone);
        let (recorder, events) = EventRecorder::new(gate.clone(), metrics.events.clone(), EventSettings::default());
        let (batcher, work) = ccm_cloud::Batcher::new(Arc::clone(&cloud), ccm_cloud::BatchSettings::default());
        let mut lookups = JoinSet::new();
        lookups.spawn(work);
        metrics.node_lifecycle.held("fake");
        let syncer = Syncer {
            store: reader,
            lookups: Lookups::new(vec![Member {
                name: "fake".into(),
                claims: Box::new(|id| id.starts_with("fake://")),
                batcher,
            }]),
            journal: None,
            writer: NodeWriter::named(gate, REPORTER),
            writes: Semaphore::new(settings.concurrent_writes.get()),
            budget: Deletions::new(settings.budget, settings.confirmed.clone()),
            recorder,
            memory: Memory::new(metrics.node_lifecycle.clone(), &settings),
            metrics: metrics.node_lifecycle.clone(),
            settings,
        };
        Self { api, cloud, syncer, registry, store, events: Some(events), _lookups: lookups }
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

    fn ready(&mut self, name: &str, status: &str) {
        self.edit(name, &ready(status));
    }

    fn seen(&mut self, node: Node) {
        self.store.apply_watcher_event(&Event::Apply(node));
    }

    fn scraped(&self, series: &str) -> f64 {
        scraped(&self.registry, &format!("ccm_node_lifecycle_{series}"))
    }

    async fn sync(&self, name: &str) -> Verdict {
        self.syncer.sync(name).await
    }

    /// Syncs, waits as long as that says, and syncs again: so many times in all.
    async fn syncs(&self, name: &str, times: usize) -> Verdict {
        let mut verdict = self.sync(name).await;
        for _ in 1..times {
            if let Verdict::After(wait) = verdict {
                tokio::time::advance(wait).await;
            }
            verdict = self.sync(name).await;
        }
        verdict
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

fn ready(status: &str) -> Value {
    json!({ "status": { "conditions": [{ "type": "Ready", "status": status }] } })
}

/// A Node that is not Ready, old, and of our cloud.
fn lost(name: &str) -> Draft {
    node(name).aged(OLD).ready("Unknown").provider_id(&format!("fake://{name}"))
}

fn unknown(reaction: Reaction) -> Finding {
    Finding::Unknown(Failure::new(reaction, "what the cloud said"))
}

fn after(seconds: u64) -> Verdict {
    Verdict::After(Duration::from_secs(seconds))
}

/// A budget that is never reached.
fn unlimited() -> DeletionBudget {
    DeletionBudget { percent: 100, ..DeletionBudget::default() }
}
