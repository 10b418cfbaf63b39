//! Metrics of the election: those of client-go under its names, and one of our own.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Name {
    name: String,
}

/// Metrics of one election. The label is the name of the Lease, which the operator chooses.
#[derive(Debug, Clone)]
pub(crate) struct LeaderMetrics {
    status: Gauge,
    slow_path: Counter,
    pub(crate) renew_failures: Counter,
}

impl LeaderMetrics {
    pub(crate) fn register(registry: &mut Registry, lease: &str) -> Self {
        let status: Family<Name, Gauge> = Family::default();
        let slow_path: Family<Name, Counter> = Family::default();
        let name = Name { name: lease.to_owned() };
        let metrics = Self {
            status: status.get_or_create_owned(&name),
            slow_path: slow_path.get_or_create_owned(&name),
            renew_failures: Counter::default(),
        };
        registry.register("leader_election_master_status", "1 while this process leads", status);
        let help = "Renewals that had to read the Lease first";
        registry.register("leader_election_slowpath", help, slow_path);
        let help = "Failed attempts of the leader to renew the Lease";
        registry.register("ccm_leader_election_renew_failures", help, metrics.renew_failures.clone());
        metrics
    }

    pub(crate) fn leads(&self, leads: bool) {
        self.status.set(i64::from(leads));
    }

    pub(crate) fn slow_path(&self) {
        self.slow_path.inc();
    }
}
