//! Metrics of requests to clouds.

use ccm_egress::observe::{BudgetLeft, Exchange, ExchangeObserver, ExchangeOutcome};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    provider: String,
    endpoint: String,
    operation: String,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OperationLabels {
    provider: String,
    endpoint: String,
    operation: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EndpointLabels {
    provider: String,
    endpoint: String,
}

/// What the clouds are asked, and what they leave us.
#[derive(Clone)]
pub struct ExchangeMetrics {
    requests: Family<RequestLabels, Counter>,
    seconds: Family<OperationLabels, Histogram>,
    waiting_seconds: Family<EndpointLabels, Histogram>,
    remaining: Family<EndpointLabels, Gauge>,
    limit: Family<EndpointLabels, Gauge>,
    waiting: Family<EndpointLabels, Gauge>,
    under_way: Family<EndpointLabels, Gauge>,
    tokens: Family<EndpointLabels, Gauge>,
    open: Family<EndpointLabels, Gauge>,
}

impl ExchangeMetrics {
    /// The metrics, as parts of `registry`.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            requests: Family::default(),
            // 1 ms to 65 s.
            seconds: Family::new_with_constructor(|| Histogram::new(exponential_buckets(0.001, 4.0, 9))),
            waiting_seconds: Family::new_with_constructor(|| Histogram::new(exponential_buckets(0.001, 4.0, 9))),
            remaining: Family::default(),
            limit: Family::default(),
            waiting: Family::default(),
            under_way: Family::default(),
            tokens: Family::default(),
            open: Family::default(),
        };
        registry.register(
            "ccm_cloud_requests",
            "Attempts at requests to clouds, retries included, by outcome: `2xx`, `3xx`, `4xx`, `429`, `5xx`; `shared` for the answer of another request; without an answer `denied`, `unbound`, `unknown-credential`, `connect`, `tls`, `timeout`, `too-large`, `throttled`, `read-only`, `other`",
            metrics.requests.clone(),
        );
        registry.register_with_unit(
            "ccm_cloud_request_duration",
            "Time from sending a request to the last byte of the answer",
            Unit::Seconds,
            metrics.seconds.clone(),
        );
        registry.register_with_unit(
            "ccm_cloud_request_wait",
            "Time that requests waited for their turn",
            Unit::Seconds,
            metrics.waiting_seconds.clone(),
        );
        registry.register(
            "ccm_cloud_requests_remaining",
            "Requests that are left, as the cloud says",
            metrics.remaining.clone(),
        );
        registry.register(
            "ccm_cloud_requests_limit",
            "Requests that the cloud allows, as it says",
            metrics.limit.clone(),
        );
        registry.register("ccm_cloud_requests_waiting", "Requests that wait for their turn", metrics.waiting.clone());
        registry.register(
            "ccm_cloud_requests_under_way",
            "Requests that were sent and have no answer yet",
            metrics.under_way.clone(),
        );
        registry.register(
            "ccm_cloud_requests_at_once",
            "Requests that the settings would allow at once",
            metrics.tokens.clone(),
        );
        registry.register(
            "ccm_cloud_circuit_open",
            "1 while the host considers the endpoint down and sends only test requests",
            metrics.open.clone(),
        );
        metrics
    }
}

impl ExchangeObserver for ExchangeMetrics {
    fn exchange_ended(&self, exchange: Exchange<'_>) {
        let Exchange { provider, endpoint, operation, outcome, time, waited } = exchange;
        let labels = OperationLabels {
            provider: provider.to_owned(),
            endpoint: endpoint.to_owned(),
            operation: operation.to_owned(),
        };
        if matches!(outcome, ExchangeOutcome::Status(_)) {
            self.seconds.get_or_create(&labels).observe(time.as_secs_f64());
        }
        let OperationLabels { provider, endpoint, operation } = labels;
        if !waited.is_zero() {
            let labels = EndpointLabels { provider: provider.clone(), endpoint: endpoint.clone() };
            self.waiting_seconds.get_or_create(&labels).observe(waited.as_secs_f64());
        }
        self.requests.get_or_create(&RequestLabels { provider, endpoint, operation, outcome: outcome.as_str() }).inc();
    }

    fn budget(&self, left: BudgetLeft<'_>) {
        let labels = EndpointLabels { provider: left.provider.to_owned(), endpoint: left.endpoint.to_owned() };
        let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        if let Some(remaining) = left.remaining {
            self.remaining.get_or_create(&labels).set(number(remaining));
        }
        if let Some(limit) = left.limit {
            self.limit.get_or_create(&labels).set(number(limit));
        }
        self.waiting.get_or_create(&labels).set(i64::try_from(left.waiting).unwrap_or(i64::MAX));
        self.under_way.get_or_create(&labels).set(i64::try_from(left.in_flight).unwrap_or(i64::MAX));
        self.tokens.get_or_create(&labels).set(number(left.tokens));
        self.open.get_or_create(&labels).set(i64::from(left.open));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ccm_egress::TransportReason;
    use prometheus_client::encoding::text::encode;

    use super::*;

    fn page(registry: &Registry) -> String {
        let mut text = String::new();
        encode(&mut text, registry).unwrap();
        text
    }

    #[test]
    fn requests_are_counted_by_outcome_and_timed_where_there_was_an_answer() {
        let mut registry = Registry::default();
        let metrics = ExchangeMetrics::register(&mut registry);
        let answers = [200, 204, 301, 404, 429, 500].map(ExchangeOutcome::Status);
        let failures = [TransportReason::Denied, TransportReason::Timeout].map(ExchangeOutcome::Failed);
        for outcome in answers.into_iter().chain(failures).chain([ExchangeOutcome::Shared]) {
            metrics.exchange_ended(Exchange {
                provider: "p",
                endpoint: "api",
                operation: "GET /x",
                outcome,
                time: Duration::from_secs(2),
                waited: Duration::from_secs(if outcome == ExchangeOutcome::Status(429) { 3 } else { 0 }),
            });
        }
        let text = page(&registry);
        let of = "provider=\"p\",endpoint=\"api\"";
        for (outcome, count) in
            [("2xx", 2), ("3xx", 1), ("4xx", 1), ("429", 1), ("5xx", 1), ("denied", 1), ("timeout", 1), ("shared", 1)]
        {
            let line = format!("ccm_cloud_requests_total{{{of},operation=\"GET /x\",outcome=\"{outcome}\"}} {count}\n");
            assert!(text.contains(&line), "{line}{text}");
        }
        for line in [
            format!("ccm_cloud_request_duration_seconds_count{{{of},operation=\"GET /x\"}} 6\n"),
            format!("ccm_cloud_request_duration_seconds_sum{{{of},operation=\"GET /x\"}} 12.0\n"),
            format!("ccm_cloud_request_wait_seconds_count{{{of}}} 1\n"),
            format!("ccm_cloud_request_wait_seconds_sum{{{of}}} 3.0\n"),
        ] {
            assert!(text.contains(&line), "{line}{text}");
        }
    }

    #[test]
    fn each_gauge_tells_its_own_number_of_what_an_endpoint_has_left() {
        let mut registry = Registry::default();
        let metrics = ExchangeMetrics::register(&mut registry);
        let left = |open, remaining, limit| BudgetLeft {
            provider: "p",
            endpoint: "api",
            remaining,
            limit,
            open,
            waiting: 11,
            tokens: 12,
            in_flight: 13,
        };
        let line = |name: &str, value: u64| format!("ccm_cloud_{name}{{provider=\"p\",endpoint=\"api\"}} {value}\n");
        metrics.budget(left(true, None, None));
        let text = page(&registry);
        let now = [("requests_waiting", 11), ("requests_at_once", 12), ("requests_under_way", 13), ("circuit_open", 1)];
        for (name, value) in now {
            assert!(text.contains(&line(name, value)), "{name}: {text}");
        }
        for name in ["remaining", "limit"] {
            assert!(!text.contains(&format!("ccm_cloud_requests_{name}{{")), "a cloud that says nothing: {text}");
        }
        metrics.budget(left(false, Some(14), Some(u64::MAX)));
        let text = page(&registry);
        for (name, value) in
            [("requests_remaining", 14), ("requests_limit", i64::MAX.unsigned_abs()), ("circuit_open", 0)]
        {
            assert!(text.contains(&line(name, value)), "{name}: {text}");
        }
    }
}
