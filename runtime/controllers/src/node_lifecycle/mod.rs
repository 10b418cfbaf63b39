//! The node lifecycle controller: deletes Nodes whose machine does not exist any more, and taints those whose machine is
//! switched off.
//!
//! | part | does |
//! |---|---|
//! | [`sync`] | one Node, once |
//! | [`decision`] | what the state of a Node alone says |
//! | [`memory`] | what the cloud said before, and when it is asked again |
//! | [`budget`] | how many Nodes may be deleted |
//! | [`deletion`], [`taint`] | the writes, and other writers |
//!
//! A Node is deleted when all of this is so:
//!
//! | | |
//! |---|---|
//! | Ready | false, unknown or not there, in the newest state, right before the DELETE |
//! | age | [`NodeLifecycleSettings::min_age`] |
//! | provider ID | of a scheme that a provider of this process declared |
//! | the cloud | said `absent` twice in a row, in calls [`NodeLifecycleSettings::second_look`] apart; the second was a proof |
//! | budget | of the Node's provider: [`NodeLifecycleSettings::budget`]; or the name was confirmed |
//!
//! Whatever goes wrong keeps the Node: an error, no answer, a trap, a restart of this process begin with a first look.

mod budget;
pub(crate) mod decision;
mod deletion;
mod history;
mod memory;
mod sync;
mod taint;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use ccm_cloud::Lookups;
use kube::runtime::reflector::{ObjectRef, Store};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use budget::DeletionBudget;

use crate::events::EventRecorder;
use crate::metrics::{NodeLifecycleMetrics, QueueMetrics};
use crate::node::wake;
use crate::node::write::NodeWriter;
use crate::queue::{self, GivenUp, QueueSettings};
use crate::store::Node;
use crate::write_gate::WriteGate;
use budget::Budget;
use memory::Memory;
use sync::{REPORTER, Syncer};

/// How the node lifecycle controller works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeLifecycleSettings {
    /// `--node-monitor-period`: when a Node that is not Ready is looked at again. Default 5 s, as upstream. The time doubles
    /// while the cloud's answer stays the same, and starts anew with a change of the Node's labels, annotations or
    /// condition Ready.
    pub monitor_period: Duration,
    /// `--node-monitor-max-period`: the longest such time. Default 1 min; less than `monitor_period` counts as that.
    pub max_monitor_period: Duration,
    /// `--node-deletion-min-age`: younger Nodes are left alone. Default 60 s; clouds list a machine some time after it runs.
    /// Zero is allowed.
    pub min_age: Duration,
    /// `--node-deletion-second-look`: from the first answer that the machine is absent to the second question. Default 5 s.
    pub second_look: Duration,
    /// How long after the second answer the DELETE may still leave. Default 30 s: the attempts against other writers take
    /// 2 s; a process that was stopped in between must not act on what it once knew. Then the cloud is asked again.
    pub proof_validity: Duration,
    /// `--node-deletion-percent`, `--node-deletion-min-budget`, `--node-deletion-period`: how many Nodes of one provider may be
    /// deleted.
    pub budget: DeletionBudget,
    /// `--confirm-node-deletions`: Nodes that may be deleted beyond the budget, each once. Default none. They need the
    /// two answers like any other.
    pub confirmed: BTreeSet<String>,
    /// `--delete-nodes-without-provider-id`: upstream's behaviour. Default false: without a provider ID nobody can ask a
    /// cloud about exactly this machine.
    pub delete_without_provider_id: bool,
    /// Most Nodes that are written at the same time. Default 32, beyond which the API server only queues.
    pub concurrent_writes: NonZeroUsize,
    /// How long one lookup may take, with its waiting for a place in a batch. Default 5 min.
    pub lookup_timeout: Duration,
    /// When to try again what people have to repair. Default 1 min; less than 30 s counts as 30 s.
    pub slow_retry: Duration,
    /// When the same is told again about the same Node, in the log and as an Event. Default 10 min.
    pub repeat_warning: Duration,
    /// When keys run.
    pub queue: QueueSettings,
}

impl Default for NodeLifecycleSettings {
    fn default() -> Self {
        Self {
            monitor_period: Duration::from_secs(5),
            max_monitor_period: Duration::from_secs(60),
            min_age: Duration::from_secs(60),
            second_look: Duration::from_secs(5),
            proof_validity: Duration::from_secs(30),
            budget: DeletionBudget::default(),
            confirmed: BTreeSet::new(),
            delete_without_provider_id: false,
            concurrent_writes: NonZeroUsize::MIN.saturating_add(31),
            lookup_timeout: Duration::from_secs(5 * 60),
            slow_retry: Duration::from_secs(60),
            repeat_warning: Duration::from_secs(10 * 60),
            queue: QueueSettings::default(),
        }
    }
}

/// What a node lifecycle controller is put together from.
pub struct NodeLifecycleParts {
    /// For all requests.
    pub gate: WriteGate,
    /// All Nodes, from [`Reflector::reader`](crate::Reflector::reader).
    pub store: Store<Node>,
    /// Nodes that changed, from [`Reflector::subscribe`](crate::Reflector::subscribe). The first come when the store is
    /// complete, before which nothing is done.
    pub keys: mpsc::Receiver<ObjectRef<Node>>,
    /// The clouds.
    pub lookups: Lookups,
    /// Grow when a cloud answers again that did not: then Nodes about which it gave no answer are looked at at once.
    pub recoveries: Vec<watch::Receiver<u64>>,
    /// For Events.
    pub recorder: EventRecorder,
    /// For the controller itself.
    pub metrics: NodeLifecycleMetrics,
    /// For its queue, `NodeLifecycle`.
    pub queue_metrics: QueueMetrics,
    /// All the rest.
    pub settings: NodeLifecycleSettings,
}

/// The node lifecycle controller.
pub struct NodeLifecycleController {
    syncer: Arc<Syncer>,
    keys: mpsc::Receiver<ObjectRef<Node>>,
    recoveries: Vec<watch::Receiver<u64>>,
    queue_metrics: QueueMetrics,
}

impl NodeLifecycleController {
    /// Puts the controller together. Nothing happens before [`run`](Self::run).
    #[must_use]
    pub fn new(parts: NodeLifecycleParts) -> Self {
        let NodeLifecycleParts { gate, store, keys, lookups, recoveries, .. } = parts;
        let NodeLifecycleParts { recorder, metrics, queue_metrics, settings, .. } = parts;
        for keeper in lookups.keepers() {
            // A gauge that is not there until it is above zero is a trap for alerts.
            metrics.held(lookups.name_of(keeper));
        }
        let syncer = Arc::new(Syncer {
            store,
            lookups,
            writer: NodeWriter::named(gate, REPORTER),
            writes: Semaphore::new(settings.concurrent_writes.get().min(Semaphore::MAX_PERMITS)),
            budget: Budget::new(settings.budget, settings.confirmed.clone()),
            recorder,
            memory: Memory::new(metrics.clone(), &settings),
            metrics,
            settings,
        });
        Self { syncer, keys, recoveries, queue_metrics }
    }

    /// Works until `shutdown`, or until the reflector ends. Then no new work begins, and running syncs have
    /// [`QueueSettings::stop_timeout`] to end.
    ///
    /// # Errors
    ///
    /// Not all of them did.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), GivenUp> {
        let Self { syncer, keys, recoveries, queue_metrics } = self;
        if !syncer.settings.confirmed.is_empty() {
            let names = &syncer.settings.confirmed;
            tracing::warn!(?names, "deletions confirmed: these Nodes, if their machines are gone, do not count");
        }
        syncer.recall().await;
        let is_waiting = |node: &Node| syncer.memory.recovered(&node.name_any(), Instant::now());
        let (keys, merging) = wake::merge(keys, recoveries, syncer.store.clone(), is_waiting);
        let settings = syncer.settings.queue;
        let reconcile = |key: ObjectRef<Node>| {
            let syncer = Arc::clone(&syncer);
            async move { syncer.sync(&key.name).await }
        };
        let stop = shutdown.child_token();
        let queue = async {
            let ended = queue::run(keys, reconcile, settings, queue_metrics.of("NodeLifecycle"), stop.clone()).await;
            stop.cancel();
            ended
        };
        tokio::join!(queue, stop.run_until_cancelled(merging)).0
    }
}
