//! The span of a call: requests that the guest makes are its children.

use ccm_cloud::SPANS;
use tracing::Span;
use tracing::field::Empty;

use super::CallSettings;

/// The span of a call, which begins with its wait for room; none where nobody listens.
pub(super) fn of(settings: &CallSettings, function: &'static str) -> Span {
    tracing::info_span!(
        target: SPANS,
        "call",
        otel.name = function,
        otel.status_code = Empty,
        "error.type" = Empty,
        ccm.function = function,
        ccm.outcome = Empty,
        ccm.provider = settings.provider,
        ccm.provider.digest = settings.context.digest,
        ccm.reaction = Empty,
    )
}

/// How the call ended: `ok`, or why there is no answer.
pub(super) fn ended(span: &Span, outcome: &'static str) {
    span.record("ccm.outcome", outcome);
    if outcome != "ok" {
        span.record("otel.status_code", "ERROR");
        span.record("error.type", outcome);
    }
}
