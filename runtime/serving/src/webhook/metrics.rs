//! Metrics of the webhook's port, upstream's names where it has them.

use std::time::Duration;

use hyper::StatusCode;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// The webhook's name in `--webhooks`, and in metrics.
pub const NAME: &str = "lb-service";

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    code: u16,
    webhook: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabel {
    outcome: &'static str,
}

/// What becomes of a certificate: it is used, or not.
const CERTIFICATES: [&str; 2] = ["ok", "failed"];

/// Requests, good ones too, and certificates.
#[derive(Debug, Clone)]
pub(crate) struct WebhookMetrics {
    requests: Family<RequestLabels, Counter>,
    seconds: Family<RequestLabels, Histogram, fn() -> Histogram>,
    certificates: Family<OutcomeLabel, Counter>,
}

impl WebhookMetrics {
    /// The metrics, as parts of `registry`.
    pub(crate) fn register(registry: &mut Registry) -> Self {
        // Upstream's buckets.
        let seconds: fn() -> Histogram = || Histogram::new([0.25, 0.5, 0.7, 1.0, 1.5, 3.0, 5.0, 10.0]);
        let this = Self {
            requests: Family::default(),
            seconds: Family::new_with_constructor(seconds),
            certificates: Family::default(),
        };
        let help = "Requests to a webhook, by status code";
        registry.register("cloud_provider_webhook_request", help, this.requests.clone());
        let help = "Time until the webhook answered";
        registry.register("cloud_provider_webhook_request_duration_seconds", help, this.seconds.clone());
        // There as 0, so that `increase()` sees the first failure.
        for outcome in CERTIFICATES {
            drop(this.certificates.get_or_create(&OutcomeLabel { outcome }));
        }
        let help = "Certificates that the webhook found, by outcome: `ok` or `failed`; both exist from the start, as 0";
        registry.register("ccm_webhook_certificates", help, this.certificates.clone());
        this
    }

    pub(super) fn answered(&self, status: StatusCode, took: Duration) {
        let labels = RequestLabels { code: status.as_u16(), webhook: NAME };
        self.requests.get_or_create(&labels).inc();
        self.seconds.get_or_create(&labels).observe(took.as_secs_f64());
    }

    pub(super) fn certificate_loaded(&self, good: bool) {
        let [ok, failed] = CERTIFICATES;
        let outcome = if good { ok } else { failed };
        self.certificates.get_or_create(&OutcomeLabel { outcome }).inc();
    }

    #[cfg(test)]
    pub(super) fn requests(&self, code: u16) -> u64 {
        self.requests.get_or_create(&RequestLabels { code, webhook: NAME }).get()
    }

    #[cfg(test)]
    pub(super) fn certificates(&self, outcome: &'static str) -> u64 {
        self.certificates.get_or_create(&OutcomeLabel { outcome }).get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_certificate_is_there_before_the_first_one_and_counts_from_zero() {
        let mut registry = Registry::default();
        let metrics = WebhookMetrics::register(&mut registry);
        let line =
            |outcome: &str, count: u32| format!("ccm_webhook_certificates_total{{outcome=\"{outcome}\"}} {count}\n");
        let page = || {
            let mut text = String::new();
            prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
            text
        };
        assert!(page().contains(&line("ok", 0)) && page().contains(&line("failed", 0)), "{}", page());
        metrics.certificate_loaded(false);
        assert!(page().contains(&line("ok", 0)) && page().contains(&line("failed", 1)), "{}", page());
    }

    #[test]
    fn requests_and_their_times_have_upstreams_names_labels_and_buckets() {
        let mut registry = Registry::default();
        let metrics = WebhookMetrics::register(&mut registry);
        metrics.answered(StatusCode::OK, Duration::from_millis(600));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let (name, labels) = ("cloud_provider_webhook_request", "code=\"200\",webhook=\"lb-service\"");
        for line in [
            format!("{name}_total{{{labels}}} 1\n"),
            format!("{name}_duration_seconds_sum{{{labels}}} 0.6\n"),
            format!("{name}_duration_seconds_bucket{{le=\"0.5\",{labels}}} 0\n"),
            format!("{name}_duration_seconds_bucket{{le=\"0.7\",{labels}}} 1\n"),
        ] {
            assert!(text.contains(&line), "no {line} in {text}");
        }
    }
}
