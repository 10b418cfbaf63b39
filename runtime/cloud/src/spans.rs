//! Spans of traces (`--trace-otlp`): reconcile, call, request. They are exported and never logged. What they say is what the log may say: no
//! secret, and no text of a guest that was not cleaned.

use tracing::Span;

/// Their target. Whoever opens a span for a trace names it; whoever exports spans takes those of this target and no others.
pub const SPANS: &str = "ccm_spans";

/// The span of a trace that is open here; none where nobody listens. It is the parent of work that another task does.
#[must_use]
pub fn current_span() -> Option<Span> {
    // Without `span_enabled!`: where layers have filters of their own, each notes for itself whether it wants what is asked about. With a layer
    // that is optional, or a third one, what a mere question notes is not taken back, and the next event that all want loses its line.
    let span = Span::current();
    span.metadata().is_some_and(|metadata| metadata.target() == SPANS).then_some(span)
}
