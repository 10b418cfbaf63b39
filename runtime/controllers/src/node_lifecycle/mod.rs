//! The node lifecycle controller: deletes Nodes whose machine does not exist any more, and taints those whose machine is
//! switched off.
//!
//! | part | does |
//! |---|---|
//! | [`sync`] | one Node, once |
//! | [`node_state`] | what the state of a Node alone says |
//! | [`memory`] | what the cloud said before, and when it is asked again |
//! | [`deletion_budget`] | how many Nodes may be deleted |
//! | [`journal`], [`history`] | what the next leader can know of deletions, and what is known of the last one's |
//! | [`recall`] | that no Node is deleted before that is known |
//! | [`explain`] | what is known of one Node, for those who ask why |
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
//! | budget | of the Node's provider: [`NodeLifecycleSettings::budget`]; or the operator confirmed the deletion of this Node by its name |
//!
//! Whatever goes wrong keeps the Node: after an error, no answer, a trap or a restart of this process, the next look at its machine counts
//! as the first one.

mod deletion;
mod deletion_budget;
mod explain;
mod history;
mod journal;
mod memory;
mod metrics;
pub(crate) mod node_state;
mod recall;
mod rehearsal;
mod settings;
mod sync;
mod taint;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use ccm_apiserver::{ApiGate, EventRecorder, GRACE};
use ccm_cloud::Lookups;
use kube::runtime::reflector::{ObjectRef, Store};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use deletion_budget::DeletionBudget;
pub use explain::NodeLifecycleView;
pub use journal::JournalPlace;
pub use metrics::NodeLifecycleMetrics;
pub use rehearsal::NodeLifecycleRehearsal;
pub use settings::NodeLifecycleSettings;

use crate::metrics::QueueMetrics;
use crate::node::wake;
use crate::node::write::NodeWriter;
use crate::queue::{self, GivenUp, Places, Questions, Verdict};
use crate::store::Node;
use deletion_budget::Deletions;
use history::REPORTER;
use journal::Journal;
use memory::Memory;
use recall::Recalled;
use sync::Syncer;

/// Name of the queue.
const QUEUE: &str = "NodeLifecycle";

/// What a node lifecycle controller is put together from.
pub struct NodeLifecycleParts {
    /// For all requests.
    pub gate: ApiGate,
    /// All Nodes, from [`Reflector::reader`](crate::Reflector::reader).
    pub store: Store<Node>,
    /// Nodes that changed, from [`Reflector::subscribe`](crate::Reflector::subscribe). The first come when the store is
    /// complete, before which nothing is done.
    pub keys: mpsc::Receiver<ObjectRef<Node>>,
    /// The clouds.
    pub lookups: Lookups,
    /// Grow when a cloud answers again that did not: then Nodes about which it gave no answer are looked at at once.
    pub recoveries: Vec<watch::Receiver<u64>>,
    /// Where deletions are noted before they happen. None: the next leader knows only what the Events tell.
    pub journal: Option<JournalPlace>,
    /// For Events.
    pub recorder: EventRecorder,
    /// For the controller itself.
    pub metrics: NodeLifecycleMetrics,
    /// For its queue, `NodeLifecycle`.
    pub queue_metrics: QueueMetrics,
    /// All the rest.
    pub settings: NodeLifecycleSettings,
}

/// One run for one Node.
async fn run_one(syncer: Arc<Syncer>, recalled: Arc<Recalled>, key: ObjectRef<Node>) -> Verdict {
    syncer.sync_unless(&key.name, || recalled.has_to_wait(&key.name)).await
}

/// The node lifecycle controller.
pub struct NodeLifecycleController {
    syncer: Arc<Syncer>,
    keys: mpsc::Receiver<ObjectRef<Node>>,
    recoveries: Vec<watch::Receiver<u64>>,
    queue_metrics: QueueMetrics,
    places: Places<ObjectRef<Node>>,
    questions: Questions<ObjectRef<Node>>,
}

impl NodeLifecycleController {
    /// Names of its loops, for [`Pulses::check`](crate::Pulses::check).
    pub const LOOPS: &[&str] = &[QUEUE];

    /// Puts the controller together. Nothing happens before [`run`](Self::run).
    #[must_use]
    pub fn new(parts: NodeLifecycleParts) -> Self {
        let NodeLifecycleParts { gate, store, keys, lookups, recoveries, .. } = parts;
        let NodeLifecycleParts { journal, recorder, metrics, queue_metrics, settings, .. } = parts;
        for keeper in lookups.keepers() {
            // A gauge that is not there until it is above zero is a trap for alerts.
            metrics.held(lookups.name_of(keeper));
        }
        let syncer = Arc::new(Syncer {
            store,
            lookups,
            journal: journal.map(|place| Journal::new(gate.clone(), place, settings.budget.period)),
            writer: NodeWriter::named(gate, REPORTER),
            writes: Semaphore::new(settings.concurrent_writes.get().min(Semaphore::MAX_PERMITS)),
            budget: Deletions::new(settings.budget, settings.confirmed.clone()),
            recorder,
            memory: Memory::new(metrics.clone(), &settings),
            metrics,
            settings,
        });
        let (places, questions) = queue::places();
        Self { syncer, keys, recoveries, queue_metrics, places, questions }
    }

    /// Works until `shutdown`, or until the reflector ends. Then no new work begins, and running syncs have
    /// [`QueueSettings::stop_timeout`](crate::QueueSettings::stop_timeout) to end.
    ///
    /// # Errors
    ///
    /// Not all of them did.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), GivenUp> {
        let Self { syncer, keys, recoveries, queue_metrics, questions, .. } = self;
        if !syncer.settings.confirmed.is_empty() {
            let names = &syncer.settings.confirmed;
            tracing::warn!(?names, "deletions confirmed: these Nodes, if their machines are gone, do not count");
        }
        // Nobody waits for it who hands on keys: one that does not take them holds up the watch for all others.
        let recalled = Arc::new(Recalled::begin(GRACE));
        let is_waiting = |node: &Node| syncer.memory.recovered(&node.name_any(), Instant::now());
        let (keys, woken, merging) = wake::merge(keys, recoveries, syncer.store.clone(), is_waiting);
        let settings = syncer.settings.queue;
        let reconcile = |key: ObjectRef<Node>| run_one(Arc::clone(&syncer), Arc::clone(&recalled), key);
        let stop = shutdown.child_token();
        let queue = async {
            let meters = queue_metrics.of(QUEUE);
            let ended = queue::run_asked(keys, questions, reconcile, settings, meters, stop.clone()).await;
            stop.cancel();
            ended
        };
        let recalling = stop.run_until_cancelled(recalled.learn(&syncer, &woken));
        tokio::join!(queue, stop.run_until_cancelled(merging), recalling).0
    }
}
