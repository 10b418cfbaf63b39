//! The service controller: gives Services of the type `LoadBalancer` their load balancers, and takes them away.
//!
//! | part | does |
//! |---|---|
//! | [`sync`] | one Service, once: what is to be done, and whose turn it is |
//! | [`provider`] | the component that one piece of work is done with, whatever is exchanged meanwhile |
//! | [`ownership`] | whose a Service is |
//! | [`ensure`], [`cleanup`] | makes, changes and deletes; writes down what has come of it |
//! | [`wake`] | which change wakes which Services; one pass over all when Nodes change |
//! | [`verify`] | finds what differs in the cloud |
//! | [`refresh`] | Services that are ensured again for another revision of the provider: a few first, the rest behind everything else |
//! | [`record`], [`writers`], [`fingerprint`] | what was last ensured, and by which component, kept in the Service's status |
//! | [`annotations`], [`offer`] | what people ask for, what a provider wrote, and whether it wrote that for this Service |
//! | [`living`], [`claims`] | which Services may have the load balancer of an offer, and who takes it over |
//! | [`view`], [`backends`], [`predicates`] | what the provider is told |
//! | [`write`], [`condition`] | what the Service is told |
//! | [`inventory`] | which load balancers there are, for those who compare providers |
//! | [`memory`], [`locks`] | what is known between two runs, and what must not be done at the same time |
//!
//! One queue for all causes, so at most one operation per Service runs at any time. Nothing waits for the cloud's work:
//! `pending` puts the Service back into the queue, and its place is free for others.

mod annotations;
mod backends;
mod claims;
mod cleanup;
mod condition;
mod ensure;
mod error;
pub(crate) mod fingerprint;
mod follow;
pub(crate) mod inventory;
mod job;
mod living;
mod locks;
mod memory;
mod metrics;
mod offer;
pub(crate) mod ownership;
pub(crate) mod predicates;
pub(crate) mod provider;
pub(crate) mod record;
mod refresh;
mod report;
mod step;
mod sync;
mod verify;
pub(crate) mod view;
mod wake;
mod write;
mod writers;

#[cfg(test)]
mod tests;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use ccm_cloud::LoadBalancerSource;
use k8s_openapi::api::core::v1::Service;
use kube::runtime::reflector::{ObjectRef, Store};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio_util::sync::CancellationToken;

pub use metrics::ServiceMetrics;

use crate::events::EventRecorder;
use crate::metrics::QueueMetrics;
use crate::queue::{self, GivenUp, QueueSettings};
use crate::store::{FirstList, Node};
use crate::write_gate::WriteGate;
use backends::{Backends, Current};
use claims::Claims;
use living::Living;
use locks::Locks;
use memory::{Key, Memory};
use refresh::Refresh;
use sync::Syncer;
use wake::Sources;
use write::ServiceWriter;

/// Keys that wait for the queue, which takes them at once.
const BOUND: usize = 64;

/// How the service controller works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServiceSettings {
    /// `--concurrent-service-syncs`: most Services for which the cloud is asked at the same time. Default 32; upstream's default of
    /// 1 makes each Service wait for all before it. A Service whose cloud is still at work does not count.
    pub concurrent_syncs: NonZeroUsize,
    /// From the first change of a Node until all load balancers are looked at, so that Nodes that join together are one
    /// change. Default 100 ms.
    pub node_debounce: Duration,
    /// How long one call of a provider may take. Default 5 min: the sandbox ends calls at 60 s, so this is for providers
    /// outside of it.
    pub call_timeout: Duration,
    /// How long Services wait at the start for the survey of load balancers, where a provider offers it. Default 5 s; 0 leaves the
    /// survey out. What it would have said is then found by the verification.
    pub start_survey_timeout: Duration,
    /// Most Services in one call of a survey; fewer where there are thousands of Nodes. Default 500.
    pub survey_size: NonZeroUsize,
    /// How often all load balancers are compared with the cloud, give or take a third. Default 1 h; 0 never does.
    pub verify_period: Duration,
    /// How many Services are ensured first where a provider comes that is of another revision or has another configuration, before the
    /// rest: two at a time, when as many have succeeded and the component is proven. Default 5; 0 ensures all at once.
    pub revision_first: usize,
    /// When to try again what people have to repair: refused credentials, limits of an account, requests that the API
    /// server refuses. It is also the shortest time between two repairs of a status that others change. Default 1 min; less
    /// than 30 s counts as 30 s.
    pub slow_retry: Duration,
    /// When the same warning about the same Service is given again. Default 10 min.
    pub repeat_warning: Duration,
    /// Shortest time between two writes of a condition whose message alone has changed. Default 30 s.
    pub condition_interval: Duration,
    /// When keys run. Defaults as upstream: 5 s, doubling, with up to as much again by chance, to 300 s at most. `max_run` begins when
    /// the Service's turn has come: waiting for locks and for one of the [`concurrent_syncs`](Self::concurrent_syncs) does
    /// not count.
    pub queue: QueueSettings,
}

impl Default for ServiceSettings {
    fn default() -> Self {
        Self {
            concurrent_syncs: NonZeroUsize::MIN.saturating_add(31),
            node_debounce: Duration::from_millis(100),
            call_timeout: Duration::from_secs(5 * 60),
            start_survey_timeout: Duration::from_secs(5),
            survey_size: NonZeroUsize::MIN.saturating_add(499),
            verify_period: Duration::from_secs(60 * 60),
            revision_first: 5,
            slow_retry: Duration::from_secs(60),
            repeat_warning: Duration::from_secs(10 * 60),
            condition_interval: Duration::from_secs(30),
            queue: QueueSettings {
                min_backoff: Duration::from_secs(5),
                max_backoff: Duration::from_secs(300),
                ..QueueSettings::default()
            },
        }
    }
}

impl ServiceSettings {
    const fn width(&self) -> usize {
        match self.concurrent_syncs.get() {
            width if width < Semaphore::MAX_PERMITS => width,
            _ => Semaphore::MAX_PERMITS,
        }
    }
}

/// A provider that makes load balancers.
#[derive(Clone)]
pub struct LoadBalancerMember {
    /// Gives it, for one piece of work at a time.
    pub provider: Arc<dyn LoadBalancerSource>,
    /// Values of `spec.loadBalancerClass` that it serves. Upstream's managers serve none, which is the default.
    pub classes: Vec<String>,
}

/// What a service controller is put together from.
pub struct ServiceControllerParts {
    /// For all requests.
    pub gate: WriteGate,
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
    pub members: Vec<LoadBalancerMember>,
    /// Grow when a cloud answers again that did not: then no Service waits out its back-off.
    pub recoveries: Vec<watch::Receiver<u64>>,
    /// Grow when a provider or its configuration was exchanged, or when a component was refused: then every Service is looked at
    /// again, and those are ensured for which the revision or the configuration differs, or that a refused component wrote. What
    /// the providers say of themselves must be so before these grow.
    pub exchanges: Vec<watch::Receiver<u64>>,
    /// For Events.
    pub recorder: EventRecorder,
    /// For the controller itself.
    pub metrics: ServiceMetrics,
    /// For its queue, `service`.
    pub queue_metrics: QueueMetrics,
    /// All the rest.
    pub settings: ServiceSettings,
}

/// The service controller.
pub struct ServiceController {
    syncer: Arc<Syncer>,
    sources: Sources,
    queue_metrics: QueueMetrics,
}

impl ServiceController {
    /// Puts the controller together. Nothing happens before [`run`](Self::run).
    #[must_use]
    pub fn new(parts: ServiceControllerParts) -> Self {
        let ServiceControllerParts { gate, services, services_listed, service_keys, nodes, nodes_listed, .. } = parts;
        let ServiceControllerParts { node_keys, members, recoveries, exchanges, recorder, metrics, .. } = parts;
        let ServiceControllerParts { queue_metrics, settings, .. } = parts;
        let syncer = Syncer {
            store: services,
            members,
            backends: Current::new(Backends::select(&[]), nodes.clone()),
            locks: Locks::default(),
            width: Semaphore::new(settings.width()),
            writer: ServiceWriter::new(gate),
            recorder,
            memory: Memory::new(&metrics, services_listed.lists()),
            living: Living::default(),
            claims: Claims::default(),
            refresh: Refresh::new(settings.revision_first, metrics.outdated.clone()),
            metrics,
            settings,
        };
        let sources = Sources { service_keys, services_listed, nodes, node_keys, nodes_listed, recoveries, exchanges };
        Self { syncer: Arc::new(syncer), sources, queue_metrics }
    }

    /// Works until `shutdown`, or until a reflector ends. Then no new work begins, and running syncs have
    /// [`QueueSettings::stop_timeout`] to end.
    ///
    /// # Errors
    ///
    /// Not all of them did.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), GivenUp> {
        let Self { syncer, sources, queue_metrics } = self;
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
            let ended = queue::run(keys, reconcile, settings, queue_metrics.of("service"), stop.clone()).await;
            stop.cancel();
            ended
        };
        let waking = async {
            stop.run_until_cancelled(sources.run(&syncer, sender.clone(), ready)).await;
            stop.cancel();
        };
        let verifying = stop.run_until_cancelled(verify::run(&syncer, sender.clone(), is_ready));
        let refreshing = stop.run_until_cancelled(refresh::run(&syncer, sender.clone()));
        tokio::join!(queue, waking, verifying, refreshing).0
    }
}
