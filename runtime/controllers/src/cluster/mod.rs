//! The cluster controller: lets providers keep what a cluster needs as a whole, such as firewalls for node ports.
//!
//! | part | does |
//! |---|---|
//! | [`wake`] | says when: changes that matter, gathered; a period; a cloud that is back |
//! | [`sync`] | one call of one provider, and what follows from its answer |
//! | [`memory`] | which failures were told already |
//!
//! A provider gets all Nodes and Services with each call, so that many changes are one call, and a change that was missed is
//! made good by the next one. Never two calls of the same provider at the same time.

mod memory;
mod metrics;
mod sync;
mod wake;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use ccm_cloud::Cluster;
use k8s_openapi::api::core::v1::Service;
use kube::runtime::reflector::{ObjectRef, Store};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

pub use metrics::ClusterMetrics;

use crate::events::EventRecorder;
use crate::metrics::QueueMetrics;
use crate::queue::{self, GivenUp, QueueSettings};
use crate::store::{FirstList, Node};
use sync::{Member, Syncer};
use wake::{Changes, Waking};

/// How the cluster controller works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClusterSettings {
    /// How long nothing that matters may have changed before providers are called. Default 2 s: a rollout of Services or a
    /// pool of Nodes that joins becomes one call.
    pub debounce: Duration,
    /// How long a change may wait when changes do not end. Default 10 s.
    pub max_wait: Duration,
    /// From one call without a cause to the next, up to a tenth more or less: what somebody changed in the cloud is put
    /// right. Default 5 min.
    pub period: Duration,
    /// How long one call may take, with its waiting for a turn. Default 5 min: a guard, calls have a limit of their own.
    pub call_timeout: Duration,
    /// When to try again what people have to repair. Default 1 min; less than 30 s counts as 30 s.
    pub slow_retry: Duration,
    /// When the same warning about the same object is given again. Default 1 h, so that a period does not repeat it.
    pub repeat_warning: Duration,
    /// When calls are repeated that failed. Default: after 1 s, doubling up to 5 min, with up to as much again by chance.
    pub queue: QueueSettings,
}

impl Default for ClusterSettings {
    fn default() -> Self {
        Self {
            debounce: Duration::from_secs(2),
            max_wait: Duration::from_secs(10),
            period: Duration::from_secs(5 * 60),
            call_timeout: Duration::from_secs(5 * 60),
            slow_retry: Duration::from_secs(60),
            repeat_warning: Duration::from_secs(60 * 60),
            queue: QueueSettings {
                min_backoff: Duration::from_secs(1),
                max_backoff: Duration::from_secs(5 * 60),
                ..QueueSettings::default()
            },
        }
    }
}

/// Which Nodes a provider is told about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClusterNodes {
    /// All: it is the only provider of this process.
    All,
    /// Those whose provider ID has one of its schemes.
    Own,
}

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
    changes: Changes,
    first_lists: [FirstList; 2],
    recoveries: Vec<(Arc<str>, watch::Receiver<u64>)>,
    queue_metrics: QueueMetrics,
}

impl ClusterController {
    /// Puts the controller together. Nothing happens before [`run`](Self::run).
    #[must_use]
    pub fn new(parts: ClusterControllerParts) -> Self {
        let ClusterControllerParts { nodes, services, first_lists, node_keys, service_keys, members, .. } = parts;
        let ClusterControllerParts { recorder, metrics, queue_metrics, settings, .. } = parts;
        let declared = members.iter().map(|member| Arc::clone(&member.cluster)).collect();
        let changes = Changes::new(declared, (nodes.clone(), node_keys), (services.clone(), service_keys));
        let mut recoveries = vec![];
        let mut providers = HashMap::new();
        for ClusterMember { cluster, nodes, recoveries: theirs } in members {
            let name: Arc<str> = cluster.descriptor().name.as_str().into();
            recoveries.extend(theirs.into_iter().map(|recovery| (Arc::clone(&name), recovery)));
            let meters = metrics.of(&name);
            providers.insert(name, Member::new(cluster, nodes, meters));
        }
        let syncer = Arc::new(Syncer { nodes, services, members: providers, recorder, settings });
        Self { syncer, changes, first_lists, recoveries, queue_metrics }
    }

    /// Works until `shutdown`, or until a reflector ends. Then no new call begins, and running ones have
    /// [`QueueSettings::stop_timeout`] to end. The first calls wait for both first lists: a provider that saw half a cluster
    /// would take the other half away.
    ///
    /// # Errors
    ///
    /// Not all of them did.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), GivenUp> {
        let Self { syncer, changes, first_lists, recoveries, queue_metrics } = self;
        let settings = syncer.settings.queue;
        let (waking, keys) = Waking::new(Arc::clone(&syncer), changes, first_lists, recoveries);
        let reconcile = |name: Arc<str>| {
            let syncer = Arc::clone(&syncer);
            async move { syncer.sync(&name).await }
        };
        // Both end together, whichever ends first.
        let stop = shutdown.child_token();
        let queue = async {
            let ended = queue::run(keys, reconcile, settings, queue_metrics.of("Cluster"), stop.clone()).await;
            stop.cancel();
            ended
        };
        tokio::join!(queue, stop.run_until_cancelled(waking.run())).0
    }
}
