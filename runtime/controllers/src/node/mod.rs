//! The node controller: finishes Nodes that a kubelet registered with the uninitialized taint, and keeps their addresses
//! and pairs of labels as they should be.
//!
//! | part | does |
//! |---|---|
//! | [`sync`] | one Node, once |
//! | [`refresh`] | addresses of all Nodes, periodically |
//! | [`write`] | order of writes, conflicts with other writers |
//! | [`addresses`], [`labels`] | what a Node should have |
//!
//! Lookups of Nodes that wait at the same time become one call of the provider, so they are not limited; the number of
//! Nodes that are written at the same time is.

pub(crate) mod addresses;
mod labels;
mod memory;
mod refresh;
pub(crate) mod selector;
mod sync;
pub(crate) mod view;
pub(crate) mod wake;
pub(crate) mod write;

#[cfg(test)]
mod tests;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use ccm_cloud::Lookups;
use kube::runtime::reflector::{ObjectRef, Store};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio_util::sync::CancellationToken;

pub use addresses::ProvidedIpError;
pub use selector::NodeLabels;

use crate::events::EventRecorder;
use crate::metrics::{NodeMetrics, QueueMetrics};
use crate::queue::{self, GivenUp, QueueSettings};
use crate::store::{FirstList, Node};
use crate::write_gate::WriteGate;
use memory::Memory;
use sync::Syncer;
use view::is_uninitialized;
use write::{NodeWriter, Order};

/// How the node controller works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeSettings {
    /// `--concurrent-node-syncs`: most Nodes that are written at the same time. Default 128: how many of these writes are under way
    /// follows the API server ([`WriteGateSettings`](crate::WriteGateSettings)), and Events take turns with the others. Upstream's
    /// default of 1 makes each Node wait for all before it.
    pub concurrent_syncs: NonZeroUsize,
    /// `--concurrent-node-status-updates`: the same for the refresh. Default 0: as `concurrent_syncs`.
    pub concurrent_status_updates: usize,
    /// `--node-status-update-frequency`: from the end of one refresh to the next. Default 5 min.
    pub refresh_interval: Duration,
    /// What comes first at the initialisation. Default: addresses, then the removal of the taint.
    pub untaint_before_addresses: bool,
    /// How long one lookup may take, with its waiting for a place in a batch. Default 5 min: a few calls at their time
    /// limit of 60 s one after the other.
    pub lookup_timeout: Duration,
    /// When to try again what people have to repair: refused credentials, limits of an account, requests that the API
    /// server refuses. Default 1 min; less than 30 s counts as 30 s.
    pub slow_retry: Duration,
    /// When the same warning about the same Node is given again. Default 10 min.
    pub repeat_warning: Duration,
    /// `--node-unclaimed-after`: how long a Node without provider ID, which every provider says is not its own, is left to other
    /// managers before an Event says so, once. Default 1 min.
    pub unclaimed_after: Duration,
    /// When keys run.
    pub queue: QueueSettings,
}

impl Default for NodeSettings {
    fn default() -> Self {
        Self {
            concurrent_syncs: NonZeroUsize::MIN.saturating_add(127),
            concurrent_status_updates: 0,
            refresh_interval: Duration::from_secs(5 * 60),
            untaint_before_addresses: false,
            lookup_timeout: Duration::from_secs(5 * 60),
            slow_retry: Duration::from_secs(60),
            repeat_warning: Duration::from_secs(10 * 60),
            unclaimed_after: Duration::from_secs(60),
            queue: QueueSettings::default(),
        }
    }
}

impl NodeSettings {
    const fn order(&self) -> Order {
        if self.untaint_before_addresses { Order::TaintFirst } else { Order::AddressesFirst }
    }

    const fn refresh_width(&self) -> usize {
        match self.concurrent_status_updates {
            0 => self.sync_width(),
            width if width < Semaphore::MAX_PERMITS => width,
            _ => Semaphore::MAX_PERMITS,
        }
    }

    const fn sync_width(&self) -> usize {
        match self.concurrent_syncs.get() {
            width if width < Semaphore::MAX_PERMITS => width,
            _ => Semaphore::MAX_PERMITS,
        }
    }
}

/// What a node controller is put together from.
pub struct NodeControllerParts {
    /// For all requests.
    pub gate: WriteGate,
    /// All Nodes, from [`Reflector::reader`](crate::Reflector::reader).
    pub store: Store<Node>,
    /// When that has them, from [`Reflector::first_list`](crate::Reflector::first_list).
    pub first_list: FirstList,
    /// Nodes that changed, from [`Reflector::subscribe`](crate::Reflector::subscribe).
    pub keys: mpsc::Receiver<ObjectRef<Node>>,
    /// The clouds.
    pub lookups: Lookups,
    /// Grow when a cloud answers again that did not: then no Node waits out its back-off.
    pub recoveries: Vec<watch::Receiver<u64>>,
    /// For Events.
    pub recorder: EventRecorder,
    /// For the controller itself.
    pub metrics: NodeMetrics,
    /// For its queue, `Nodes`.
    pub queue_metrics: QueueMetrics,
    /// All the rest.
    pub settings: NodeSettings,
}

/// The node controller.
pub struct NodeController {
    syncer: Arc<Syncer>,
    first_list: FirstList,
    keys: mpsc::Receiver<ObjectRef<Node>>,
    recoveries: Vec<watch::Receiver<u64>>,
    queue_metrics: QueueMetrics,
}

impl NodeController {
    /// Puts the controller together. Nothing happens before [`run`](Self::run).
    #[must_use]
    pub fn new(parts: NodeControllerParts) -> Self {
        let NodeControllerParts { gate, store, first_list, keys, lookups, .. } = parts;
        let NodeControllerParts { recoveries, recorder, metrics, queue_metrics, settings, .. } = parts;
        let syncer = Arc::new(Syncer {
            store,
            lookups,
            writer: NodeWriter::new(gate),
            writes: Semaphore::new(settings.sync_width()),
            recorder,
            memory: Memory::new(metrics.uninitialized.clone(), first_list.lists()),
            metrics,
            settings,
        });
        Self { syncer, first_list, keys, recoveries, queue_metrics }
    }

    /// Works until `shutdown`, or until the reflector ends. Then no new work begins, and running syncs have
    /// [`QueueSettings::stop_timeout`] to end.
    ///
    /// # Errors
    ///
    /// Not all of them did.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), GivenUp> {
        let Self { syncer, first_list, keys, recoveries, queue_metrics } = self;
        let (keys, merging) = wake::merge(keys, recoveries, syncer.store.clone(), is_uninitialized);
        let settings = syncer.settings.queue;
        let reconcile = |key: ObjectRef<Node>| {
            let syncer = Arc::clone(&syncer);
            async move { syncer.sync(&key.name).await }
        };
        // The refresh ends together with the queue, whichever way the queue ended.
        let stop = shutdown.child_token();
        let queue = async {
            let ended = queue::run(keys, reconcile, settings, queue_metrics.of("Nodes"), stop.clone()).await;
            stop.cancel();
            ended
        };
        let merging = stop.run_until_cancelled(merging);
        tokio::join!(queue, merging, refresh::run(&syncer, first_list, &stop)).0
    }
}
