//! What operators see of reviews.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::outcome::AdmissionOutcome;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabel {
    outcome: &'static str,
}

/// Reviews by what became of them.
#[derive(Debug, Clone, Default)]
pub struct AdmissionMetrics {
    reviews: Family<OutcomeLabel, Counter>,
}

impl AdmissionMetrics {
    /// Registers them.
    pub fn register(registry: &mut Registry) -> Self {
        let this = Self::default();
        let help = "Reviews of Services, by outcome: `valid`, `denied`, `unchanged`, `foreign`, or `unjudged` for those that were allowed without a check";
        registry.register("ccm_admission_reviews", help, this.reviews.clone());
        this
    }

    pub(super) fn reviewed(&self, outcome: AdmissionOutcome) {
        self.reviews.get_or_create(&OutcomeLabel { outcome: outcome.as_str() }).inc();
    }

    #[cfg(test)]
    pub(super) fn reviews(&self, outcome: AdmissionOutcome) -> u64 {
        self.reviews.get_or_create(&OutcomeLabel { outcome: outcome.as_str() }).get()
    }
}
