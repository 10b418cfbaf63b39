//! The node controller: finishes Nodes that a kubelet registered with the uninitialized taint, and keeps their addresses
//! and pairs of labels as they should be.
//!
//! | part | does |
//! |---|---|
//! | [`sync`] | one Node, once |
//! | [`refresh`] | addresses of all Nodes, periodically |
//! | [`write`] | order of writes, conflicts with other writers |
//! | [`addresses`], [`labels`] | what a Node should have |
//! | [`unknown_annotations`] | those that look like a provider's and are none |
//! | [`explain`] | what is known of one Node, for those who ask why |
//! | [`holders`] | which addresses it may not have, whatever the cloud says |
//!
//! Lookups of Nodes that wait at the same time become one call of the provider, so they are not limited; the number of
//! Nodes that are written at the same time is.

pub(crate) mod addresses;
mod explain;
mod holders;
mod labels;
mod memory;
mod metrics;
mod refresh;
mod rehearsal;
mod settings;
mod sync;
mod unknown_annotations;
pub(crate) mod wake;
pub(crate) mod write;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use ccm_apiserver::{ApiGate, EventRecorder};
use ccm_cloud::Lookups;
use kube::runtime::reflector::{ObjectRef, Store};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio_util::sync::CancellationToken;

pub use addresses::ProvidedIpError;
pub use explain::NodeView;
pub use holders::RefusedAddress;
pub use metrics::NodeMetrics;
pub use rehearsal::NodeRehearsal;
pub use settings::NodeSettings;

use crate::cluster_addresses::ClusterAddresses;
use crate::metrics::QueueMetrics;
use crate::queue::{self, GivenUp, Places, Questions};
use crate::store::{FirstList, Node};
use crate::view::node::is_uninitialized;
use holders::Holders;
use memory::Memory;
use sync::Syncer;
use unknown_annotations::UnknownAnnotations;
use write::NodeWriter;

/// Upstream's name of the queue.
const QUEUE: &str = "Nodes";

/// What a node controller is put together from.
pub struct NodeControllerParts {
    /// For all requests.
    pub gate: ApiGate,
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
    /// Who has which address.
    pub cluster_addresses: ClusterAddresses,
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
    places: Places<ObjectRef<Node>>,
    questions: Questions<ObjectRef<Node>>,
}

impl NodeController {
    /// Names of its loops, for [`Pulses::check`](crate::Pulses::check).
    pub const LOOPS: &[&str] = &[QUEUE, refresh::LOOP];

    /// Puts the controller together. Nothing happens before [`run`](Self::run).
    #[must_use]
    pub fn new(parts: NodeControllerParts) -> Self {
        let NodeControllerParts { gate, store, first_list, keys, lookups, .. } = parts;
        let NodeControllerParts { recoveries, recorder, metrics, queue_metrics, cluster_addresses, settings, .. } =
            parts;
        let holders = Arc::new(Holders::new(cluster_addresses));
        let syncer = Arc::new(Syncer {
            store,
            lookups,
            writer: NodeWriter::new(gate, Arc::clone(&holders)),
            holders,
            writes: Semaphore::new(settings.sync_width()),
            recorder,
            memory: Memory::new(metrics.uninitialized.clone(), first_list.lists()),
            metrics,
            unknown_annotations: UnknownAnnotations::default(),
            settings,
        });
        let (places, questions) = queue::places();
        Self { syncer, first_list, keys, recoveries, queue_metrics, places, questions }
    }

    /// Works until `shutdown`, or until the reflector ends. Then no new work begins, and running syncs have
    /// [`QueueSettings::stop_timeout`](crate::QueueSettings::stop_timeout) to end.
    ///
    /// # Errors
    ///
    /// Not all of them did.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), GivenUp> {
        let Self { syncer, first_list, keys, recoveries, queue_metrics, questions, .. } = self;
        let (keys, _, merging) = wake::merge(keys, recoveries, syncer.store.clone(), is_uninitialized);
        let settings = syncer.settings.queue;
        let reconcile = |key: ObjectRef<Node>| {
            let syncer = Arc::clone(&syncer);
            async move { syncer.sync(&key.name).await }
        };
        // The refresh ends together with the queue, whichever way the queue ended.
        let (stop, pulses) = (shutdown.child_token(), queue_metrics.pulses());
        let queue = async {
            let meters = queue_metrics.of(QUEUE);
            let ended = queue::run_asked(keys, questions, reconcile, settings, meters, stop.clone()).await;
            stop.cancel();
            ended
        };
        let merging = stop.run_until_cancelled(merging);
        tokio::join!(queue, merging, refresh::run(&syncer, first_list, &pulses, &stop)).0
    }
}
