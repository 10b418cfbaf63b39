//! The span of a call: requests that the guest makes are its children.

use ccm_cloud::SPANS;
use tracing::Span;
use tracing::field::Empty;

use super::CallSettings;

/// The span of a call, which begins with its wait for room; none where nobody listens.
pub(super) fn of(settings: &CallSettings, function: &'static str) -> Span {
    named(&settings.provider, &settings.context.digest, function)
}

fn named(provider: &str, digest: &str, function: &'static str) -> Span {
    tracing::info_span!(
        target: SPANS,
        "call",
        otel.name = function,
        otel.status_code = Empty,
        "error.type" = Empty,
        ccm.function = function,
        ccm.outcome = Empty,
        ccm.provider = provider,
        ccm.provider.digest = digest,
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fmt::Debug;
    use std::sync::{Arc, Once};

    use parking_lot::Mutex;
    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
    use tracing_subscriber::registry;

    use super::*;
    use crate::CallError;

    /// What the spans of this thread say.
    #[derive(Clone, Default)]
    struct Said(Arc<Mutex<BTreeMap<String, String>>>);

    impl<S: tracing::Subscriber> Layer<S> for Said {
        fn on_new_span(&self, attributes: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
            attributes.record(&mut self.clone());
        }

        fn on_record(&self, _: &Id, values: &Record<'_>, _: Context<'_, S>) {
            values.record(&mut self.clone());
        }
    }

    impl Visit for Said {
        fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
            self.0.lock().insert(field.name().to_owned(), format!("{value:?}"));
        }

        fn record_str(&mut self, field: &Field, value: &str) {
            self.0.lock().insert(field.name().to_owned(), value.to_owned());
        }
    }

    /// The span of a call that ended so.
    fn said(outcome: &'static str) -> BTreeMap<String, String> {
        // With nobody listening in another thread, a span met there first could be switched off for this one as well.
        static LISTEN: Once = Once::new();
        LISTEN.call_once(|| drop(tracing::subscriber::set_global_default(registry())));
        let said = Said::default();
        tracing::subscriber::with_default(registry().with(said.clone()), || {
            ended(&named("test", "sha256:1", "nodes.lookup"), outcome);
        });
        std::mem::take(&mut *said.0.lock())
    }

    #[test]
    fn a_call_without_an_answer_is_an_error_of_its_span_and_one_with_an_answer_is_none() {
        let of = |fields: &[(&str, &str)]| -> BTreeMap<String, String> {
            fields.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect()
        };
        let always = [
            ("otel.name", "nodes.lookup"),
            ("ccm.function", "nodes.lookup"),
            ("ccm.provider", "test"),
            ("ccm.provider.digest", "sha256:1"),
        ];
        assert_eq!(said("ok"), of(&[&always[..], &[("ccm.outcome", "ok")]].concat()));
        for outcome in [CallError::NO_ROOM, "trap", "out-of-time"] {
            let failed = [("ccm.outcome", outcome), ("otel.status_code", "ERROR"), ("error.type", outcome)];
            assert_eq!(said(outcome), of(&[&always[..], &failed].concat()), "{outcome}");
        }
    }
}
