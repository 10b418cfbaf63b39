//! The route controller: each pod CIDR of a Node has a route that leads to it.
//!
//! | part | does |
//! |---|---|
//! | [`wake`] | which changes of Nodes matter |
//! | [`waking`](crate::waking) | says when: such changes, gathered; a period; a cloud that is back |
//! | [`sync`] | one run: one look at all routes, changes in one call, what follows for the Nodes |
//! | [`ranges`], [`allotments`] | which networks are the pods', and whose |
//! | [`plan`] | compares what there is with what there should be |
//! | [`act`] | asks for changes; finds the route that makes a batch fail |
//! | [`condition`] | what a Node is told of its network |
//! | [`memory`] | what failed, and when it is tried again |
//!
//! Nothing is made, removed or written where nothing differs. Never two runs for one provider at the same time.

mod act;
mod allotments;
mod condition;
mod memory;
mod metrics;
mod plan;
mod ranges;
mod rehearsal;
mod settings;
mod sync;
mod wake;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use ccm_apiserver::{ApiGate, EventRecorder};
use ccm_cloud::RouteSource;
use kube::runtime::reflector::{ObjectRef, Store};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

pub use condition::{has_route_condition, routed_node};
pub use metrics::RouteMetrics;
pub use ranges::{PodRanges, PodRangesError};
pub use rehearsal::RouteRehearsal;
pub use settings::RouteSettings;

use crate::cluster::ClusterNodes;
use crate::metrics::QueueMetrics;
use crate::node::write::NodeWriter;
use crate::queue::{self, GivenUp};
use crate::store::{FirstList, Node};
use crate::waking::{self, Pace, Recoveries, Watched};
use sync::{Member, Syncer};

/// Name under which our changes stand in `metadata.managedFields`.
const FIELD_MANAGER: &str = "node-route-controller";

/// A provider that offers the contract's `routes`.
pub struct RouteMember {
    /// The way to it. Its name at the start tells it from the others.
    pub source: Arc<dyn RouteSource>,
    /// Whose routes it keeps.
    pub nodes: ClusterNodes,
    /// Grow when its cloud answers again that did not, or when it was exchanged: then nothing waits out its back-off.
    pub recoveries: Vec<watch::Receiver<u64>>,
}

/// Name of the queue.
const QUEUE: &str = "Routes";

/// What a route controller is put together from.
pub struct RouteControllerParts {
    /// For all requests.
    pub gate: ApiGate,
    /// All Nodes, from [`Reflector::reader`](crate::Reflector::reader).
    pub nodes: Store<Node>,
    /// When that has them, from [`Reflector::first_list`](crate::Reflector::first_list).
    pub first_list: FirstList,
    /// Nodes that changed, from [`Reflector::subscribe`](crate::Reflector::subscribe).
    pub keys: mpsc::Receiver<ObjectRef<Node>>,
    /// Those that offer it.
    pub members: Vec<RouteMember>,
    /// The pods' ranges: routes outside of them are somebody else's.
    pub ranges: PodRanges,
    /// For Events.
    pub recorder: EventRecorder,
    /// For the controller itself.
    pub metrics: RouteMetrics,
    /// For its queue, `Routes`.
    pub queue_metrics: QueueMetrics,
    /// All the rest.
    pub settings: RouteSettings,
}

/// The route controller.
pub struct RouteController {
    syncer: Arc<Syncer>,
    changes: Watched<Node>,
    first_list: FirstList,
    recoveries: Recoveries,
    queue_metrics: QueueMetrics,
}

impl RouteController {
    /// Names of its loops, for [`Pulses::check`](crate::Pulses::check).
    pub const LOOPS: &[&str] = &[QUEUE];

    /// Puts the controller together. Nothing happens before [`run`](Self::run).
    #[must_use]
    pub fn new(parts: RouteControllerParts) -> Self {
        let RouteControllerParts { gate, nodes, first_list, keys, members, ranges, .. } = parts;
        let RouteControllerParts { recorder, metrics, queue_metrics, settings, .. } = parts;
        let mut recoveries = vec![];
        let mut providers = HashMap::new();
        for RouteMember { source, nodes, recoveries: theirs } in members {
            let name: Arc<str> = source.routes().descriptor().name.as_str().into();
            recoveries.extend(theirs.into_iter().map(|recovery| (Arc::clone(&name), recovery)));
            let meters = metrics.of(&name);
            providers.insert(name, Member::new(source, nodes, meters));
        }
        let writer = NodeWriter::named(gate, FIELD_MANAGER);
        let changes = Watched::new((nodes.clone(), keys));
        let syncer = Arc::new(Syncer { nodes, members: providers, ranges, writer, recorder, settings });
        Self { syncer, changes, first_list, recoveries, queue_metrics }
    }

    /// Works until `shutdown`, or until the reflector ends. Then no new call begins, and running ones have
    /// [`QueueSettings::stop_timeout`](crate::QueueSettings::stop_timeout) to end.
    ///
    /// # Errors
    ///
    /// Not all of them did.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), GivenUp> {
        let Self { syncer, changes, first_list, recoveries, queue_metrics } = self;
        let settings = syncer.settings.queue;
        let RouteSettings { debounce, max_wait, period, .. } = syncer.settings;
        let (sender, names) = mpsc::channel(waking::BOUND);
        let pace = Pace { debounce, max_wait, period };
        let waking = waking::run(&*syncer, changes, first_list.complete(), recoveries, pace, sender);
        // Both end together, whichever ends first.
        let stop = shutdown.child_token();
        let reconcile = |name: Arc<str>| {
            let (syncer, stop) = (Arc::clone(&syncer), stop.clone());
            async move { syncer.sync(&name, &stop).await }
        };
        let queue = async {
            let ended = queue::run(names, reconcile, settings, queue_metrics.of(QUEUE), stop.clone()).await;
            stop.cancel();
            ended
        };
        tokio::join!(queue, stop.run_until_cancelled(waking)).0
    }
}
