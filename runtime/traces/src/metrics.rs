//! What became of spans.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SpanLabels {
    outcome: &'static str,
}

/// What becomes of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The collector took it.
    Sent,
    /// Too many waited already.
    QueueFull,
    /// The collector did not answer, or did not take it.
    NotTaken,
}

impl Outcome {
    const ALL: [Self; 3] = [Self::Sent, Self::QueueFull, Self::NotTaken];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::QueueFull => "queue-full",
            Self::NotTaken => "not-taken",
        }
    }
}

/// Counts spans. Cloning shares the counts.
#[derive(Debug, Clone, Default)]
pub struct TraceMetrics {
    spans: Family<SpanLabels, Counter>,
}

impl TraceMetrics {
    /// Registers the metric. All outcomes are there as 0, so that `increase()` sees the first loss.
    pub fn register(&self, registry: &mut Registry) {
        for outcome in Outcome::ALL {
            self.count(outcome, 0);
        }
        registry.register(
            "ccm_trace_spans",
            "Spans of traces (--trace-otlp), by outcome: `sent`; lost are `queue-full`, since too many waited, and `not-taken` by the collector",
            self.spans.clone(),
        );
    }

    pub(crate) fn count(&self, outcome: Outcome, spans: u64) {
        self.spans.get_or_create(&SpanLabels { outcome: outcome.as_str() }).inc_by(spans);
    }

    /// Spans with this outcome so far.
    pub(crate) fn counted(&self, outcome: Outcome) -> u64 {
        self.spans.get_or_create(&SpanLabels { outcome: outcome.as_str() }).get()
    }
}
