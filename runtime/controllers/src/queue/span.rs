//! The span of one run: the root of a trace.

use ccm_cloud::SPANS;
use tracing::Span;
use tracing::field::Empty;

use crate::object_name::ObjectName;

/// The span of a run of this key; none where nobody listens.
pub(super) fn of(queue: &'static str, key: &impl ObjectName) -> Span {
    // Without `span_enabled!`: see `ccm_cloud::current_span`.
    let span = tracing::info_span!(
        target: SPANS,
        parent: None,
        "reconcile",
        otel.name = Empty,
        otel.status_code = Empty,
        "error.type" = Empty,
        ccm.controller = queue,
        ccm.outcome = Empty,
        k8s.namespace.name = Empty,
        k8s.object.kind = Empty,
        k8s.object.name = Empty,
    );
    if span.is_disabled() {
        return span;
    }
    let (kind, namespace, name) = key.parts();
    span.record("otel.name", format!("reconcile {queue}").as_str());
    if !namespace.is_empty() {
        span.record("k8s.namespace.name", namespace);
    }
    span.record("k8s.object.kind", &*kind);
    span.record("k8s.object.name", name);
    span
}

/// How the run ended.
pub(super) fn ended(span: &Span, outcome: &'static str, is_failure: bool) {
    span.record("ccm.outcome", outcome);
    if is_failure {
        span.record("otel.status_code", "ERROR");
        span.record("error.type", outcome);
    }
}
