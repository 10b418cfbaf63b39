//! A provider that passed the gate, and what counts from when it is taken.

use std::time::Duration;

use ccm_cloud::{Capability, Problem};
use ccm_sandbox::Provider;

use super::{LookAgain, Surroundings};
use crate::compare::Report;
use crate::config::ProviderConfig;
use crate::gate;
use crate::release::Release;

/// A provider that passed the gate.
pub(crate) struct Taken {
    pub(crate) release: Release<Provider>,
    /// The unpacked component.
    pub(crate) bytes: Vec<u8>,
    pub(crate) signature: Option<Vec<u8>>,
    /// What the provider warns of in its configuration.
    pub(crate) told: Vec<Problem>,
    /// What is still to be asked, once the Nodes are known.
    pub(crate) look: Option<LookAgain>,
    /// What the first component does not find of what the cluster's objects say that there is; none where nothing is missing.
    pub(crate) missed: Option<Report>,
    /// It was opened with another configuration than the last good one has.
    pub(crate) is_apart: bool,
    /// How long the compiler took, with the wait for it.
    pub(crate) compiling: Duration,
    /// All from the first byte on.
    pub(crate) took: Duration,
}

impl Surroundings {
    /// What passed the gate is taken. Not before: a component that is rejected, or gives way to another one, pins nothing.
    pub(crate) fn takes(&self, config: &ProviderConfig, taken: &Taken) {
        let Taken { release: Release { component, version }, bytes, took, .. } = taken;
        if let Some(egress) = component.egress() {
            egress.pin_uses(&self.carryover_of(config));
        }
        tracing::info!(
            source = %config.source,
            name = version.name,
            version = version.version,
            digest = version.digest,
            bytes = bytes.len(),
            optional = names(&gate::offered(component)),
            ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            "provider taken"
        );
    }
}

/// Optional interfaces, for the log.
fn names(offers: &[Capability]) -> String {
    let names: Vec<&str> = offers.iter().map(|offer| offer.as_str()).collect();
    names.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_names_optional_interfaces_as_the_contract_does() {
        assert_eq!(names(&[]), "");
        let all = [Capability::LoadBalancers, Capability::Routes, Capability::Cluster];
        assert_eq!(names(&all), "load-balancers,routes,cluster");
    }
}
