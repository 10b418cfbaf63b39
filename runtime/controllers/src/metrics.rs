//! What operators see: one struct per component, made by `register`.
//!
//! Names of upstream are kept, so that dashboards go on working; ours begin with `ccm_`. The registry appends `_total` to
//! counters. No label ever holds the name of an object.

use std::time::Duration;

#[cfg(test)]
use ccm_cloud::Reaction;
use jiff::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::cluster::ClusterMetrics;

/// Upstream's buckets of both delay histograms, in seconds.
const DELAY_BUCKETS: [f64; 6] = [1.0, 4.0, 16.0, 64.0, 256.0, 1024.0];
/// Upstream's buckets of `rest_client_request_duration_seconds`, in seconds.
const REQUEST_BUCKETS: [f64; 12] = [0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0];

/// A gauge that holds a point in time or another fraction.
pub type FloatGauge = Gauge<f64, std::sync::atomic::AtomicU64>;

/// Seconds since the epoch, for gauges.
pub(crate) fn now_seconds() -> f64 {
    Timestamp::now().as_duration().as_secs_f64()
}

/// The metrics of all components of this crate.
#[derive(Debug, Clone)]
pub struct Metrics {
    /// Reflectors.
    pub store: StoreMetrics,
    /// Work queues.
    pub queue: QueueMetrics,
    /// Requests to the API server.
    pub api: ApiMetrics,
    /// Events.
    pub events: EventMetrics,
    /// Node controller.
    pub node: NodeMetrics,
    /// Service controller.
    pub service: crate::ServiceMetrics,
    /// Node lifecycle controller.
    pub node_lifecycle: NodeLifecycleMetrics,
    /// Cluster controller.
    pub cluster: ClusterMetrics,
}

impl Metrics {
    /// Registers everything.
    pub fn register(registry: &mut Registry) -> Self {
        Self {
            store: StoreMetrics::register(registry),
            queue: QueueMetrics::register(registry),
            api: ApiMetrics::register(registry),
            events: EventMetrics::register(registry),
            node: NodeMetrics::register(registry),
            service: crate::ServiceMetrics::register(registry),
            node_lifecycle: NodeLifecycleMetrics::register(registry),
            cluster: ClusterMetrics::register(registry),
        }
    }
}

// === Store ===

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Kind {
    kind: String,
}

/// What reflectors see. One label: the kind.
#[derive(Debug, Clone)]
pub struct StoreMetrics {
    objects: Family<Kind, Gauge>,
    last_event: Family<Kind, FloatGauge>,
    undecodable: Family<Kind, Counter>,
    failures: Family<Kind, Counter>,
}

/// [`StoreMetrics`] of one kind.
#[derive(Debug, Clone)]
pub(crate) struct StoreMeters {
    pub(crate) objects: Gauge,
    pub(crate) last_event: FloatGauge,
    pub(crate) undecodable: Counter,
    pub(crate) failures: Counter,
}

impl StoreMetrics {
    /// Registers the metrics of reflectors.
    pub fn register(registry: &mut Registry) -> Self {
        let this = Self {
            objects: Family::default(),
            last_event: Family::default(),
            undecodable: Family::default(),
            failures: Family::default(),
        };
        registry.register("ccm_store_objects", "Objects in memory", this.objects.clone());
        let help = "Time of the last event of this watch, in seconds since the epoch";
        registry.register("ccm_store_last_event_timestamp_seconds", help, this.last_event.clone());
        let help = "Objects that are ignored because they cannot be decoded";
        registry.register("ccm_store_undecodable_objects", help, this.undecodable.clone());
        registry.register("ccm_store_watch_failures", "Lists and watches that failed", this.failures.clone());
        this
    }

    pub(crate) fn of(&self, kind: &str) -> StoreMeters {
        let kind = Kind { kind: kind.to_owned() };
        StoreMeters {
            objects: self.objects.get_or_create_owned(&kind),
            last_event: self.last_event.get_or_create_owned(&kind),
            undecodable: self.undecodable.get_or_create_owned(&kind),
            failures: self.failures.get_or_create_owned(&kind),
        }
    }
}

// === Queue ===

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct QueueName {
    name: &'static str,
}

/// Upstream's `workqueue_*`, and panics. One label: the name of the queue.
#[derive(Debug, Clone)]
pub struct QueueMetrics {
    depth: Family<QueueName, Gauge>,
    adds: Family<QueueName, Counter>,
    retries: Family<QueueName, Counter>,
    queue_duration: Family<QueueName, Histogram, fn() -> Histogram>,
    work_duration: Family<QueueName, Histogram, fn() -> Histogram>,
    unfinished: Family<QueueName, FloatGauge>,
    longest: Family<QueueName, FloatGauge>,
    panics: Family<QueueName, Counter>,
}

/// [`QueueMetrics`] of one queue.
#[derive(Debug, Clone)]
pub(crate) struct QueueMeters {
    pub(crate) name: &'static str,
    pub(crate) depth: Gauge,
    pub(crate) adds: Counter,
    pub(crate) retries: Counter,
    pub(crate) queue_duration: Histogram,
    pub(crate) work_duration: Histogram,
    pub(crate) unfinished: FloatGauge,
    pub(crate) longest: FloatGauge,
    pub(crate) panics: Counter,
}

fn queue_histogram() -> Histogram {
    Histogram::new(exponential_buckets(1e-8, 10.0, 10))
}

impl QueueMetrics {
    /// Registers the metrics of work queues.
    pub fn register(registry: &mut Registry) -> Self {
        let this = Self {
            depth: Family::default(),
            adds: Family::default(),
            retries: Family::default(),
            queue_duration: Family::new_with_constructor(queue_histogram),
            work_duration: Family::new_with_constructor(queue_histogram),
            unfinished: Family::default(),
            longest: Family::default(),
            panics: Family::default(),
        };
        registry.register("workqueue_depth", "Objects that wait for their turn", this.depth.clone());
        registry.register("workqueue_adds", "Objects that were added to the queue", this.adds.clone());
        registry.register("workqueue_retries", "Objects that are to be tried again later", this.retries.clone());
        let help = "Time that an object waited for its turn";
        registry.register("workqueue_queue_duration_seconds", help, this.queue_duration.clone());
        let help = "Time that the work on an object took";
        registry.register("workqueue_work_duration_seconds", help, this.work_duration.clone());
        let help =
            "Sum of the times that unfinished work has taken so far; a Node that waits for its cloud is part of it";
        registry.register("workqueue_unfinished_work_seconds", help, this.unfinished.clone());
        let help = "Time that the longest unfinished work has taken so far";
        registry.register("workqueue_longest_running_processor_seconds", help, this.longest.clone());
        registry.register(
            "ccm_reconcile_panics",
            "Panics of a controller: please report these bugs",
            this.panics.clone(),
        );
        this
    }

    pub(crate) fn of(&self, name: &'static str) -> QueueMeters {
        let label = QueueName { name };
        QueueMeters {
            name,
            depth: self.depth.get_or_create_owned(&label),
            adds: self.adds.get_or_create_owned(&label),
            retries: self.retries.get_or_create_owned(&label),
            queue_duration: self.queue_duration.get_or_create_owned(&label),
            work_duration: self.work_duration.get_or_create_owned(&label),
            unfinished: self.unfinished.get_or_create_owned(&label),
            longest: self.longest.get_or_create_owned(&label),
            panics: self.panics.get_or_create_owned(&label),
        }
    }
}

// === Requests to the API server ===

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct RequestLabels {
    verb: &'static str,
    resource: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct OutcomeLabels {
    verb: &'static str,
    resource: &'static str,
    outcome: &'static str,
}

/// Requests that go through the write gate.
#[derive(Debug, Clone)]
pub struct ApiMetrics {
    requests: Family<OutcomeLabels, Counter>,
    duration: Family<RequestLabels, Histogram, fn() -> Histogram>,
    pub(crate) width: Gauge,
}

impl ApiMetrics {
    /// Registers the metrics of the write gate.
    pub fn register(registry: &mut Registry) -> Self {
        let duration: fn() -> Histogram = || Histogram::new(REQUEST_BUCKETS);
        let duration = Family::new_with_constructor(duration);
        let this = Self { requests: Family::default(), duration, width: Gauge::default() };
        registry.register("ccm_api_requests", "Requests to the API server, by outcome", this.requests.clone());
        let help = "Time until the API server answered";
        registry.register("ccm_api_request_duration_seconds", help, this.duration.clone());
        let help = "Writes to the API server that are allowed at the same time; the number follows how fast it answers";
        registry.register("ccm_api_write_width", help, this.width.clone());
        this
    }

    pub(crate) fn ended(&self, verb: &'static str, resource: &'static str, outcome: &'static str, took: Duration) {
        self.requests.get_or_create(&OutcomeLabels { verb, resource, outcome }).inc();
        self.duration.get_or_create(&RequestLabels { verb, resource }).observe(took.as_secs_f64());
    }
}

// === Events ===

/// What became of Events.
#[derive(Debug, Clone, Default)]
pub struct EventMetrics {
    pub(crate) written: Counter,
    pub(crate) dropped: Counter,
    pub(crate) waiting: Gauge,
}

impl EventMetrics {
    /// Registers the metrics of the recorder.
    pub fn register(registry: &mut Registry) -> Self {
        let this = Self::default();
        registry.register("ccm_events_written", "Events that were written", this.written.clone());
        let help = "Events that were dropped: refused, not accepted in time, or too many at once";
        registry.register("ccm_events_dropped", help, this.dropped.clone());
        registry.register("ccm_events_waiting", "Events that wait to be written", this.waiting.clone());
        this
    }
}

// === Node controller ===

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct ReactionLabel {
    reaction: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct OutcomeLabel {
    outcome: &'static str,
}

/// What the node controller does.
#[derive(Debug, Clone)]
pub struct NodeMetrics {
    pub(crate) taint_removal_delay: Histogram,
    pub(crate) initial_sync_delay: Histogram,
    failures: Family<ReactionLabel, Counter>,
    pub(crate) uninitialized: Gauge,
    refreshed: Family<OutcomeLabel, Counter>,
    pub(crate) last_refresh: FloatGauge,
}

impl NodeMetrics {
    /// Registers the metrics of the node controller.
    pub fn register(registry: &mut Registry) -> Self {
        let this = Self {
            taint_removal_delay: Histogram::new(DELAY_BUCKETS),
            initial_sync_delay: Histogram::new(DELAY_BUCKETS),
            failures: Family::default(),
            uninitialized: Gauge::default(),
            refreshed: Family::default(),
            last_refresh: FloatGauge::default(),
        };
        let help = "Time from the creation of a Node until its uninitialized taint was removed";
        registry.register(
            "node_controller_cloud_provider_taint_removal_delay_seconds",
            help,
            this.taint_removal_delay.clone(),
        );
        let help = "Time from the creation of a Node until it was initialised";
        registry.register("node_controller_initial_node_sync_delay_seconds", help, this.initial_sync_delay.clone());
        let help = "Failed attempts to initialise a Node, by reaction: what the host does about the failure";
        registry.register("ccm_node_initialization_failures", help, this.failures.clone());
        let help = "Nodes that wait for their initialisation";
        registry.register("ccm_nodes_uninitialized", help, this.uninitialized.clone());
        let help = "Nodes whose addresses the periodic refresh looked at";
        registry.register("ccm_node_refreshes", help, this.refreshed.clone());
        let help = "Time at which a refresh last had an answer about every Node, except for Nodes that are wrong themselves, in seconds since the epoch";
        registry.register("ccm_node_refresh_last_success_timestamp_seconds", help, this.last_refresh.clone());
        this
    }

    /// `reaction` is one of the contract's, or `absent` or `api`.
    pub(crate) fn failed(&self, reaction: &'static str) {
        self.failures.get_or_create(&ReactionLabel { reaction }).inc();
    }

    #[cfg(test)]
    pub(crate) fn failures(&self, reaction: Reaction) -> u64 {
        self.failures.get_or_create(&ReactionLabel { reaction: reaction.as_str() }).get()
    }

    pub(crate) fn refreshed(&self, outcome: &'static str) {
        self.refreshed.get_or_create(&OutcomeLabel { outcome }).inc();
    }

    #[cfg(test)]
    pub(crate) fn refreshes(&self, outcome: &'static str) -> u64 {
        self.refreshed.get_or_create(&OutcomeLabel { outcome }).get()
    }
}

// === Node lifecycle controller ===

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct AnswerLabel {
    answer: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct ProviderLabel {
    provider: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct ResultLabel {
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct ChangeLabel {
    change: &'static str,
}

/// What the node lifecycle controller does. Upstream has no metrics here.
#[derive(Debug, Clone, Default)]
pub struct NodeLifecycleMetrics {
    pub(crate) not_ready: Gauge,
    held: Family<ProviderLabel, Gauge>,
    pub(crate) first_absent: Counter,
    looks: Family<AnswerLabel, Counter>,
    deletions: Family<ResultLabel, Counter>,
    taints: Family<ChangeLabel, Counter>,
}

impl NodeLifecycleMetrics {
    /// Registers the metrics of the node lifecycle controller.
    pub fn register(registry: &mut Registry) -> Self {
        let this = Self::default();
        let help = "Nodes that are not Ready and belong to a provider of this process";
        registry.register("ccm_node_lifecycle_not_ready_nodes", help, this.not_ready.clone());
        let help = "Nodes without a machine whose deletion is held, because too many were deleted before; with several providers, `provider` is empty for Nodes without a provider ID";
        registry.register("ccm_node_lifecycle_held_nodes", help, this.held.clone());
        let help = "First answers that a machine does not exist; a second answer decides";
        registry.register("ccm_node_lifecycle_first_absent", help, this.first_absent.clone());
        let help = "Questions about machines of Nodes that are not Ready, by answer: `running`, `stopped`, `other`, `absent`, or the reaction to a failure";
        registry.register("ccm_node_lifecycle_looks", help, this.looks.clone());
        registry.register("ccm_node_lifecycle_deletions", "Deletions of Nodes, by result: `deleted`, `failed`, or `unneeded` because the Node was Ready, gone or another one at the last moment", this.deletions.clone());
        registry.register(
            "ccm_node_lifecycle_taints",
            "Changes of the shutdown taint: `added`, `removed`, `failed`",
            this.taints.clone(),
        );
        this
    }

    /// Nodes of this provider whose deletion is held; of any provider, when the name is empty.
    pub(crate) fn held(&self, provider: &str) -> Gauge {
        self.held.get_or_create_owned(&ProviderLabel { provider: provider.to_owned() })
    }

    /// `answer` is `running`, `stopped`, `other`, `absent` or a reaction of the contract.
    pub(crate) fn looked(&self, answer: &'static str) {
        self.looks.get_or_create(&AnswerLabel { answer }).inc();
    }

    /// `result` is `deleted`, `failed`, or `unneeded` when the Node turned out to be Ready, gone or another one.
    pub(crate) fn deletion(&self, result: &'static str) {
        self.deletions.get_or_create(&ResultLabel { result }).inc();
    }

    /// `change` is `added`, `removed` or `failed`.
    pub(crate) fn tainted(&self, change: &'static str) {
        self.taints.get_or_create(&ChangeLabel { change }).inc();
    }
}
