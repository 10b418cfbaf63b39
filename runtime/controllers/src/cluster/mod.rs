//! The cluster controller: lets providers keep what a cluster needs as a whole, such as firewalls for node ports.
//!
//! | part | does |
//! |---|---|
//! | [`wake`] | which changes matter |
//! | [`waking`](crate::waking) | says when: such changes, gathered; a period; a cloud that is back |
//! | [`sync`] | one call of one provider, and what follows from its answer |
//! | [`unread`] | objects that the stores leave out, which a provider must not take for gone |
//! | [`memory`] | which failures were told already |
//!
//! A provider gets all Nodes and Services with each call, so that many changes are one call, and a change that was missed is
//! made good by the next one. Never two calls of the same provider at the same time.

mod memory;
mod metrics;
mod rehearsal;
mod settings;
mod sync;
mod unread;
mod wake;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use ccm_apiserver::EventRecorder;
use ccm_cloud::Cluster;
use k8s_openapi::api::core::v1::Service;
use kube::runtime::reflector::{ObjectRef, Store};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

pub use metrics::ClusterMetrics;
pub use rehearsal::ClusterRehearsal;
pub use settings::{ClusterNodes, ClusterSettings};
pub use wake::told_of_service;

use crate::metrics::QueueMetrics;
use crate::queue::{self, GivenUp};
use crate::store::{FirstList, Node};
use crate::waking::{self, Pace, Recoveries};
use sync::{Member, Syncer};
use unread::LeftOut;
use wake::Told;

/// A provider that offers the contract's `cluster`.
pub struct ClusterMember {
    /// The way to it. Its name at the start tells it from the others; only annotations that it declares count as changes.
    pub cluster: Arc<dyn Cluster>,
    /// What it is told about. Services it is told about all: what a firewall lets in does not depend on who makes load
    /// balancers.
    pub nodes: ClusterNodes,
    /// Grow when its cloud answers again that did not, or when it was exchanged: then it does not wait out its back-off.
    pub recoveries: Vec<watch::Receiver<u64>>,
}

/// Name of the queue.
const QUEUE: &str = "Cluster";

/// What a cluster controller is put together from.
pub struct ClusterControllerParts {
    /// All Nodes, from [`Reflector::reader`](crate::Reflector::reader).
    pub nodes: Store<Node>,
    /// All Services.
    pub services: Store<Service>,
    /// When both are complete, from [`Reflector::first_list`](crate::Reflector::first_list).
    pub first_lists: [FirstList; 2],
    /// Nodes that changed, from [`Reflector::subscribe`](crate::Reflector::subscribe).
    pub node_keys: mpsc::Receiver<ObjectRef<Node>>,
    /// Services that changed.
    pub service_keys: mpsc::Receiver<ObjectRef<Service>>,
    /// Those that offer it.
    pub members: Vec<ClusterMember>,
    /// For Events.
    pub recorder: EventRecorder,
    /// For the controller itself.
    pub metrics: ClusterMetrics,
    /// For its queue, `Cluster`.
    pub queue_metrics: QueueMetrics,
    /// All the rest.
    pub settings: ClusterSettings,
}

/// The cluster controller.
pub struct ClusterController {
    syncer: Arc<Syncer>,
    changes: Told,
    first_lists: [FirstList; 2],
    recoveries: Recoveries,
    queue_metrics: QueueMetrics,
}

impl ClusterController {
    /// Names of its loops, for [`Pulses::check`](crate::Pulses::check).
    pub const LOOPS: &[&str] = &[QUEUE];

    /// Puts the controller together. Nothing happens before [`run`](Self::run).
    #[must_use]
    pub fn new(parts: ClusterControllerParts) -> Self {
        let ClusterControllerParts { nodes, services, first_lists, node_keys, service_keys, members, .. } = parts;
        let ClusterControllerParts { recorder, metrics, queue_metrics, settings, .. } = parts;
        let declared = members.iter().map(|member| Arc::clone(&member.cluster)).collect();
        let left_out = LeftOut::of(&first_lists);
        let (all_nodes, all_services) = ((nodes.clone(), node_keys), (services.clone(), service_keys));
        let changes = Told::new(declared, all_nodes, all_services, left_out.clone());
        let mut recoveries = vec![];
        let mut providers = HashMap::new();
        for ClusterMember { cluster, nodes, recoveries: theirs } in members {
            let name: Arc<str> = cluster.descriptor().name.as_str().into();
            recoveries.extend(theirs.into_iter().map(|recovery| (Arc::clone(&name), recovery)));
            let meters = metrics.of(&name);
            providers.insert(name, Member::new(cluster, nodes, meters));
        }
        let syncer = Arc::new(Syncer { nodes, services, left_out, members: providers, recorder, settings });
        Self { syncer, changes, first_lists, recoveries, queue_metrics }
    }

    /// Works until `shutdown`, or until a reflector ends. Then no new call begins, and running ones have
    /// [`QueueSettings::stop_timeout`](crate::QueueSettings::stop_timeout) to end. The first calls wait for both first lists: a
    /// provider that saw half a cluster would take the other half away.
    ///
    /// # Errors
    ///
    /// Not all of them did.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), GivenUp> {
        let Self { syncer, changes, first_lists, recoveries, queue_metrics } = self;
        let settings = syncer.settings.queue;
        let ClusterSettings { debounce, max_wait, period, .. } = syncer.settings;
        let (names, keys) = mpsc::channel(waking::BOUND);
        let [one, other] = first_lists;
        let listed = async { one.complete().await && other.complete().await };
        let pace = Pace { debounce, max_wait, period };
        let waking = waking::run(&*syncer, changes, listed, recoveries, pace, names);
        let reconcile = |name: Arc<str>| {
            let syncer = Arc::clone(&syncer);
            async move { syncer.sync(&name).await }
        };
        // Both end together, whichever ends first.
        let stop = shutdown.child_token();
        let queue = async {
            let ended = queue::run(keys, reconcile, settings, queue_metrics.of(QUEUE), stop.clone()).await;
            stop.cancel();
            ended
        };
        tokio::join!(queue, stop.run_until_cancelled(waking)).0
    }
}
