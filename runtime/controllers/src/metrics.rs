//! What operators see: one struct per component, made by `register`.
//!
//! Names of upstream are kept, so that dashboards go on working; ours begin with `ccm_`. The registry appends `_total` to
//! counters. No label ever holds the name of an object.

use jiff::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::pulse::Pulses;

/// A gauge that holds a point in time or another fraction.
pub type FloatGauge = Gauge<f64, std::sync::atomic::AtomicU64>;

/// Seconds since the epoch, for gauges.
pub(crate) fn now_seconds() -> f64 {
    Timestamp::now().as_duration().as_secs_f64()
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

/// Upstream's `workqueue_*`, and panics. One label: the name of the queue. And whether the loops turn.
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
    pulses: Pulses,
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
    pub(crate) pulses: Pulses,
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
            pulses: Pulses::default(),
        };
        registry.register("workqueue_depth", "Objects that wait for their turn", this.depth.clone());
        registry.register("workqueue_adds", "Objects that were added to the queue", this.adds.clone());
        registry.register("workqueue_retries", "Objects that the controller retries later", this.retries.clone());
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

    /// Whether the loops of the queues, and others of the same controllers, turn.
    pub fn pulses(&self) -> Pulses {
        self.pulses.clone()
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
            pulses: self.pulses.clone(),
        }
    }
}
