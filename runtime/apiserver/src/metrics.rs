//! What operators see of requests to the API server, and of Events. No label ever holds the name of an object.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Upstream's buckets of `rest_client_request_duration_seconds`, in seconds.
const REQUEST_BUCKETS: [f64; 12] = [0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0];

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

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct ResultLabels {
    code: String,
    method: &'static str,
    host: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct LatencyLabels {
    verb: &'static str,
    host: String,
}

/// All requests to the API server, by upstream's names.
#[derive(Debug, Clone)]
pub(crate) struct RestMetrics {
    requests: Family<ResultLabels, Counter>,
    duration: Family<LatencyLabels, Histogram, fn() -> Histogram>,
}

impl RestMetrics {
    fn register(registry: &mut Registry) -> Self {
        let duration: fn() -> Histogram = || Histogram::new(REQUEST_BUCKETS);
        let duration = Family::new_with_constructor(duration);
        let this = Self { requests: Family::default(), duration };
        let help = "Requests to the API server, watches and the leader election included, by status code; `<error>` without an answer";
        registry.register("rest_client_requests", help, this.requests.clone());
        let help = "Time until the API server began to answer, without watches";
        registry.register("rest_client_request_duration_seconds", help, this.duration.clone());
        this
    }

    /// A request has ended; `took` where that counts.
    pub(crate) fn ended(&self, host: &str, method: &'static str, code: String, took: Option<Duration>) {
        self.requests.get_or_create(&ResultLabels { code, method, host: host.to_owned() }).inc();
        if let Some(took) = took {
            self.duration
                .get_or_create(&LatencyLabels { verb: method, host: host.to_owned() })
                .observe(took.as_secs_f64());
        }
    }
}

/// Requests that go through the API gate, and all that a client sends.
#[derive(Debug, Clone)]
pub struct ApiMetrics {
    requests: Family<OutcomeLabels, Counter>,
    duration: Family<RequestLabels, Histogram, fn() -> Histogram>,
    pub(crate) width: Gauge,
    pub(crate) rest: RestMetrics,
}

impl ApiMetrics {
    /// Registers the metrics of the API gate.
    pub fn register(registry: &mut Registry) -> Self {
        let duration: fn() -> Histogram = || Histogram::new(REQUEST_BUCKETS);
        let duration = Family::new_with_constructor(duration);
        let rest = RestMetrics::register(registry);
        let this = Self { requests: Family::default(), duration, width: Gauge::default(), rest };
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

/// What became of Events.
#[derive(Debug, Clone, Default)]
pub struct EventMetrics {
    /// Those that the API server has.
    pub written: Counter,
    /// Those that it never gets.
    pub dropped: Counter,
    /// Those that are queued, or being written.
    pub waiting: Gauge,
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
