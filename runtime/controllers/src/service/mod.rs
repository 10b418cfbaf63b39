//! The service controller: gives Services of the type `LoadBalancer` their load balancers, and takes them away.
//!
//! The way of a Service:
//!
//! | step | where | what happens |
//! |---|---|---|
//! | wake | [`wake`], [`verify`], [`refresh`] | a change, a difference in the cloud, or another revision of the provider puts the Service into the queue |
//! | plan | [`plan`], [`job`] | one value says what is done and why: from [`ownership`], [`ensured_record`], and what is known of the cloud |
//! | turn | [`turn`], [`locks`] | nobody else changes the same things, there is a permit, and the plan is made again and still holds |
//! | guard | [`act`], [`write`] | before the provider is called: the finalizer, and a record that counts as uncertain where the call may change more than hosts |
//! | act | [`act`], [`follow`], [`cleanup`] | the provider makes, changes, deletes or gives up the load balancer |
//! | record | [`recording`], [`write`] | what was done goes into the Service's status, in one write |
//! | report | [`report`], [`condition`] | the condition, Events and the log say what came of it, and when the next try is |
//!
//! [`run`] goes this way, once for each time that the queue says so. What the steps share:
//!
//! | part | is |
//! |---|---|
//! | [`syncer`], [`provider`], [`operation`] | everything that runs share; the component that one run is done with, whatever is exchanged meanwhile; what it is asked to do |
//! | [`memory`], [`entry`], [`found`] | what is known between two runs: of all Services, of one, and of the cloud |
//! | [`ensured_record`], [`writers`], [`fingerprint`], [`digest`] | what was last ensured, and by which component |
//! | [`annotations`], [`offer`], [`judge`] | what people ask for, what a provider wrote, and whether it wrote that for this Service |
//! | [`unknown_annotations`] | those that look like a provider's and are none |
//! | [`living`], [`claims`] | which Services may have the load balancer of an offer, and who takes it over |
//! | [`view`], [`backends`] | what the provider is told |
//! | [`rounds`] | which Services wait for a refresh, and who goes next |
//! | [`vet`] | which addresses a load balancer may not have, whatever the provider says |
//! | [`predicates`] | whether there is work for this controller, and which Nodes may be backends; computed from the object alone |
//! | [`unread`] | what Services say that nobody here can read |
//! | [`explain`], [`last_run`] | what is known of one Service, for those who ask why |
//! | [`rehearsal`] | the same work on one Service, for a plan |
//! | [`inventory`] | which load balancers there are, for those who compare providers |
//!
//! One queue for all causes, so at most one operation per Service runs at any time. Nothing waits for a load
//! balancer that the cloud is still building: `pending` puts the Service back into the queue, and its place is free for others.

mod act;
pub(crate) mod annotations;
mod backends;
mod claims;
mod cleanup;
pub(crate) mod condition;
pub(crate) mod digest;
pub(crate) mod ensured_record;
mod entry;
mod error;
mod explain;
pub(crate) mod fingerprint;
mod follow;
mod found;
pub(crate) mod inventory;
mod job;
mod judge;
mod key;
mod last_run;
mod living;
mod locks;
mod memory;
mod metrics;
mod offer;
mod operation;
pub(crate) mod ownership;
mod plan;
pub(crate) mod predicates;
pub(crate) mod provider;
mod purpose;
mod recording;
mod refresh;
mod rehearsal;
mod report;
mod rounds;
mod run;
mod selectors;
mod settings;
mod syncer;
mod turn;
pub(crate) mod unknown_annotations;
mod unread;
mod verify;
mod vet;
pub(crate) mod view;
mod wake;
mod write;
mod writers;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use ccm_apiserver::{ApiGate, EventRecorder};
use k8s_openapi::api::core::v1::Service;
use kube::runtime::reflector::{ObjectRef, Store};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio_util::sync::CancellationToken;

pub use explain::ServiceView;
pub use memory::ServiceMemory;
pub use metrics::ServiceMetrics;
pub use provider::{LoadBalancerMember, LoadBalancerMembers};
pub use rehearsal::ServiceRehearsal;
pub use settings::ServiceSettings;

use crate::cluster_addresses::ClusterAddresses;
use crate::metrics::QueueMetrics;
use crate::queue::{self, GivenUp, Places, Questions, QueueSettings};
use crate::store::{FirstList, Node};
use backends::{Backends, Current};
use key::Key;
use living::Living;
use locks::Locks;
use rounds::Refresh;
use syncer::Syncer;
use wake::Sources;
use write::ServiceWriter;

/// Keys that wait for the queue, which takes them at once.
const BOUND: usize = 64;

/// Name of the queue.
const QUEUE: &str = "service";

/// What a service controller is put together from.
pub struct ServiceControllerParts {
    /// For all requests.
    pub gate: ApiGate,
    /// All Services, from [`Reflector::reader`](crate::Reflector::reader).
    pub services: Store<Service>,
    /// When that has them, from [`Reflector::first_list`](crate::Reflector::first_list).
    pub services_listed: FirstList,
    /// Services that changed, from [`Reflector::subscribe`](crate::Reflector::subscribe).
    pub service_keys: mpsc::Receiver<ObjectRef<Service>>,
    /// All Nodes.
    pub nodes: Store<Node>,
    /// When that has them. Nothing is done before: an incomplete list would take members out of load balancers.
    pub nodes_listed: FirstList,
    /// Nodes that changed.
    pub node_keys: mpsc::Receiver<ObjectRef<Node>>,
    /// The providers in the operator's order. Services without a class go to the first one, others to the first that serves
    /// their class; a class that nobody serves belongs to another controller. Whoever has a load balancer keeps it as long as
    /// it serves the class.
    pub members: LoadBalancerMembers,
    /// What the controller before this one knew, in this process.
    pub memory: ServiceMemory,
    /// Grow when a cloud answers again that did not: then no Service waits out its back-off.
    pub recoveries: Vec<watch::Receiver<u64>>,
    /// Each grows when a provider or its configuration was exchanged, or when a component was refused. Then every Service is looked
    /// at again, and is ensured if the revision or the configuration differs, or if a refused component wrote its load balancer. Exchange
    /// the provider before its number grows: what it says of itself is read at once.
    pub exchanges: Vec<watch::Receiver<u64>>,
    /// For Events.
    pub recorder: EventRecorder,
    /// For the controller itself.
    pub metrics: ServiceMetrics,
    /// For its queue, `service`.
    pub queue_metrics: QueueMetrics,
    /// Which addresses are the cluster's own.
    pub cluster_addresses: ClusterAddresses,
    /// All the rest.
    pub settings: ServiceSettings,
}

/// The service controller.
pub struct ServiceController {
    syncer: Arc<Syncer>,
    sources: Sources,
    queue_metrics: QueueMetrics,
    places: Places<Key>,
    questions: Questions<Key>,
}

impl ServiceController {
    /// Names of its loops, for [`Pulses::check`](crate::Pulses::check).
    pub const LOOPS: &[&str] = &[QUEUE];

    /// Puts the controller together. Nothing happens before [`run`](Self::run).
    #[must_use]
    pub fn new(parts: ServiceControllerParts) -> Self {
        let ServiceControllerParts { gate, services, services_listed, service_keys, nodes, nodes_listed, .. } = parts;
        let ServiceControllerParts { node_keys, members, recoveries, exchanges, recorder, metrics, .. } = parts;
        let ServiceControllerParts { queue_metrics, settings, memory, cluster_addresses, .. } = parts;
        let syncer = Syncer {
            store: services,
            members,
            backends: Current::new(Backends::select(&[]), nodes.clone()),
            addresses: cluster_addresses,
            locks: Locks::default(),
            width: Semaphore::new(settings.width()),
            writer: ServiceWriter::new(gate),
            recorder,
            memory: memory.services,
            living: Living::default(),
            unread: services_listed.unread(),
            claims: memory.claims,
            refresh: Refresh::new(settings.revision_first, metrics.outdated.clone()),
            metrics,
            settings,
        };
        let sources = Sources { service_keys, services_listed, nodes, node_keys, nodes_listed, recoveries, exchanges };
        let (places, questions) = queue::places();
        Self { syncer: Arc::new(syncer), sources, queue_metrics, places, questions }
    }

    /// Works until `shutdown`, or until a reflector ends. Then no new work begins, and running syncs have
    /// [`QueueSettings::stop_timeout`] to end.
    ///
    /// # Errors
    ///
    /// Not all of them did.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), GivenUp> {
        let Self { syncer, sources, queue_metrics, questions, .. } = self;
        let (sender, keys) = mpsc::channel(BOUND);
        let (ready, is_ready) = watch::channel(false);
        // All waiting has limits of its own, except that for a turn, which is as long as it takes. The work after that is
        // timed by the syncer.
        let settings = QueueSettings { max_run: Duration::MAX, ..syncer.settings.queue };
        let reconcile = |key: Key| {
            let syncer = Arc::clone(&syncer);
            async move { syncer.sync(&key).await }
        };
        // All ends together with the queue, whichever way that ended; and the queue with what wakes.
        let stop = shutdown.child_token();
        let queue = async {
            let meters = queue_metrics.of(QUEUE);
            let ended = queue::run_asked(keys, questions, reconcile, settings, meters, stop.clone()).await;
            stop.cancel();
            ended
        };
        let waking = async {
            stop.run_until_cancelled(sources.run(&syncer, sender.clone(), ready)).await;
            stop.cancel();
        };
        let verifying = stop.run_until_cancelled(verify::run(&syncer, sender.clone(), is_ready));
        let refreshing = stop.run_until_cancelled(refresh::run(&syncer, sender.clone()));
        let telling = Box::pin(stop.run_until_cancelled(unread::run(&syncer)));
        tokio::join!(queue, waking, verifying, refreshing, telling).0
    }
}
