//! The span of an attempt at a request, by OpenTelemetry's conventions for HTTP clients. It says what the log may say: neither URL nor body, and
//! no value of a credential of any provider.

use ccm_cloud::SPANS;
use http::HeaderMap;
use tracing::Span;
use tracing::field::Empty;

use super::Egress;
use crate::answer;
use crate::endpoints::Target;
use crate::error::TransportError;
use crate::http::Request;
use crate::observe::ExchangeOutcome;

impl Egress {
    /// The span of attempt number `attempt`, which begins when it has its turn; none where nobody listens.
    pub(super) fn span(&self, request: &Request, target: &Target<'_>, operation: &str, attempt: u32) -> Span {
        // Without `span_enabled!`: see `ccm_cloud::current_span`.
        let span = tracing::info_span!(
            target: SPANS,
            "request",
            otel.name = Empty,
            otel.kind = "client",
            otel.status_code = Empty,
            otel.status_description = Empty,
            "error.type" = Empty,
            http.request.method = Empty,
            http.request.resend_count = Empty,
            http.response.status_code = Empty,
            server.address = Empty,
            server.port = Empty,
            url.template = Empty,
            ccm.endpoint = request.endpoint,
            ccm.provider = self.provider,
            ccm.request_id = Empty,
        );
        if span.is_disabled() {
            return span;
        }
        let veil = self.secrets.veil();
        let method = request.method.as_str();
        // A name that few requests share would make a trace's name of its own for each.
        let counted = self.counted(&request.endpoint, operation);
        let operation = &*counted;
        let template = operation.strip_prefix(method).and_then(|path| path.strip_prefix(' '));
        let base = &target.base.url;
        let host = veil.text(base.host_str().unwrap_or_default());
        let again = attempt.saturating_sub(1);
        span.record("otel.name", operation);
        span.record("http.request.method", method);
        span.record("http.request.resend_count", (again > 0).then_some(i64::from(again)));
        span.record("server.address", &*host);
        span.record("server.port", base.port_or_known_default().map(i64::from));
        span.record("url.template", template.filter(|path| path.starts_with('/')));
        span
    }

    /// Whatever becomes of the answer, its request has an ID. `headers` are those without secrets.
    pub(super) fn span_answered(&self, span: &Span, headers: &HeaderMap) {
        if !span.is_disabled()
            && let Some(id) = answer::request_id(headers)
        {
            span.record("ccm.request_id", &*self.secrets.veil().text(&id));
        }
    }

    /// The attempt is over.
    pub(super) fn span_ended(&self, span: &Span, outcome: ExchangeOutcome, error: Option<&TransportError>) {
        if span.is_disabled() {
            return;
        }
        if let ExchangeOutcome::Status(status) = outcome {
            span.record("http.response.status_code", i64::from(status));
            if error.is_none() && status < 400 {
                return;
            }
            match error {
                Some(error) => span.record("error.type", error.reason.as_str()),
                None => span.record("error.type", status.to_string().as_str()),
            };
        } else {
            span.record("error.type", outcome.as_str());
        }
        span.record("otel.status_code", "ERROR");
        if let Some(error) = error {
            span.record("otel.status_description", &*self.secrets.veil().text(&error.message));
        }
    }
}
