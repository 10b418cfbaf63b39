//! What operators see of the service controller.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ccm_cloud::{Failure, Reaction};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use tokio::time::Instant;

use super::condition::reasons;
use super::operation::Operation;
use crate::metrics::FloatGauge;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OperationLabels {
    operation: &'static str,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct ReasonLabel {
    pub(crate) reason: &'static str,
}

/// What the service controller does: upstream's four, and `ccm_` ones.
#[derive(Debug, Clone)]
pub struct ServiceMetrics {
    pub(crate) updates: Counter,
    pub(crate) update_failures: Counter,
    pub(crate) pass_latency: Histogram,
    pub(crate) update_latency: Histogram,
    operations: Family<OperationLabels, Counter>,
    duration: Family<OperationLabels, Histogram, fn() -> Histogram>,
    pub(crate) pending: Gauge,
    pub(crate) not_ready: Family<ReasonLabel, Gauge>,
    pub(crate) address_delay: Histogram,
    pub(crate) drifted: Counter,
    pub(crate) outdated: Gauge,
    pub(crate) last_verification: FloatGauge,
}

/// Upstream's buckets: 1 s to 16,384 s.
fn long_histogram() -> Histogram {
    Histogram::new(exponential_buckets(1.0, 2.0, 15))
}

/// 10 ms to 82 s: one call, of many requests to the cloud.
fn call_histogram() -> Histogram {
    Histogram::new(exponential_buckets(0.01, 2.0, 14))
}

impl ServiceMetrics {
    /// Registers the metrics of the service controller.
    pub fn register(registry: &mut Registry) -> Self {
        let this = Self {
            updates: Counter::default(),
            update_failures: Counter::default(),
            pass_latency: long_histogram(),
            update_latency: long_histogram(),
            operations: Family::default(),
            duration: Family::new_with_constructor(call_histogram),
            pending: Gauge::default(),
            not_ready: Family::default(),
            address_delay: long_histogram(),
            drifted: Counter::default(),
            outdated: Gauge::default(),
            last_verification: FloatGauge::default(),
        };
        let help = "Updates of the Nodes behind load balancers";
        registry.register("service_controller_loadbalancer_sync", help, this.updates.clone());
        let help = "Updates of the Nodes behind load balancers that failed";
        registry.register("service_controller_nodesync_error", help, this.update_failures.clone());
        let help = "Time from a change of Nodes until every load balancer was tried";
        registry.register("service_controller_nodesync_latency_seconds", help, this.pass_latency.clone());
        let help = "Time that the update of the Nodes behind one load balancer took";
        let name = "service_controller_update_loadbalancer_host_latency_seconds";
        registry.register(name, help, this.update_latency.clone());
        // What alerts count is there before the first time.
        for operation in Operation::ALL {
            let labels = OperationLabels { operation: operation.label(), outcome: Reaction::Unauthorized.as_str() };
            drop(this.operations.get_or_create(&labels));
        }
        let help = "Calls of providers about load balancers, by outcome: `ok`, or the reaction to the failure";
        registry.register("ccm_load_balancer_operations", help, this.operations.clone());
        let help = "Time of calls of providers about load balancers";
        registry.register("ccm_load_balancer_operation_duration_seconds", help, this.duration.clone());
        let help = "Services that wait for their first address";
        registry.register("ccm_services_pending", help, this.pending.clone());
        // A gauge that is not there until it is above zero is a trap for alerts.
        for reason in reasons() {
            this.not_ready.get_or_create(&ReasonLabel { reason }).set(0);
        }
        let help = "Services whose load balancer does not match them, also those with an old address, by the reason of their condition; `Stranded` are those that no configuration serves";
        registry.register("ccm_services_not_ready", help, this.not_ready.clone());
        let help = "Time from when this process first saw that a Service needs an address until it had one";
        registry.register("ccm_service_address_delay_seconds", help, this.address_delay.clone());
        let help = "Load balancers that someone changed in the cloud";
        registry.register("ccm_load_balancers_drifted", help, this.drifted.clone());
        let help = "Services that wait to be ensured again for another revision or configuration of their provider";
        registry.register("ccm_services_outdated", help, this.outdated.clone());
        let help = "Time of the last comparison of all load balancers with the cloud, in seconds since the epoch; 0 for never. A comparison in which the cloud had no answer, even about a single one, does not count";
        registry.register("ccm_load_balancer_verification_timestamp_seconds", help, this.last_verification.clone());
        this
    }

    /// A call has ended.
    pub(crate) fn called(&self, operation: Operation, failure: Option<&Failure>, took: Duration) {
        let outcome = failure.map_or("ok", |failure| failure.reaction.as_str());
        let labels = OperationLabels { operation: operation.label(), outcome };
        self.operations.get_or_create(&labels).inc();
        self.duration.get_or_create(&labels).observe(took.as_secs_f64());
    }

    #[cfg(test)]
    pub(crate) fn calls(&self, operation: &'static str, outcome: &'static str) -> u64 {
        self.operations.get_or_create(&OperationLabels { operation, outcome }).get()
    }
}

/// Tells how long a pass took, when the last who has a part in it is done.
pub(crate) struct PassTimer {
    begun: Instant,
    latency: Histogram,
    hosts: usize,
    services: AtomicUsize,
}

impl PassTimer {
    pub(crate) fn start(metrics: &ServiceMetrics, hosts: usize) -> Arc<Self> {
        let (begun, latency) = (Instant::now(), metrics.pass_latency.clone());
        Arc::new(Self { begun, latency, hosts, services: AtomicUsize::new(0) })
    }

    /// How many Services have a part in it.
    pub(crate) fn concerns(&self, services: usize) {
        self.services.store(services, Ordering::Relaxed);
    }
}

impl Drop for PassTimer {
    fn drop(&mut self) {
        let (took, services) = (self.begun.elapsed(), self.services.load(Ordering::Relaxed));
        self.latency.observe(took.as_secs_f64());
        if services > 0 {
            tracing::info!(
                hosts = self.hosts,
                services,
                ?took,
                "the Nodes behind load balancers have changed: all tried"
            );
        }
    }
}
