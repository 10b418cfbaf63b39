//! The span of one run: the root of a trace.

use ccm_cloud::SPANS;
use tracing::field::Empty;
use tracing::{Level, Span};

use crate::object_name::ObjectName;

/// The span of a run of this key; none where nobody listens.
pub(super) fn of(queue: &'static str, key: &impl ObjectName) -> Span {
    if !tracing::span_enabled!(target: SPANS, Level::INFO) {
        return Span::none();
    }
    let (kind, namespace, name) = key.parts();
    let namespace = Some(namespace).filter(|namespace| !namespace.is_empty());
    tracing::info_span!(
        target: SPANS,
        parent: None,
        "reconcile",
        otel.name = format!("reconcile {queue}"),
        otel.status_code = Empty,
        "error.type" = Empty,
        ccm.controller = queue,
        ccm.outcome = Empty,
        k8s.namespace.name = namespace,
        k8s.object.kind = &*kind,
        k8s.object.name = name,
    )
}

/// How the run ended.
pub(super) fn ended(span: &Span, outcome: &'static str, is_failure: bool) {
    span.record("ccm.outcome", outcome);
    if is_failure {
        span.record("otel.status_code", "ERROR");
        span.record("error.type", outcome);
    }
}
