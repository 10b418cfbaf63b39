//! Makes spans of traces of the spans that the host opens. Whoever opens, changes or ends a span never waits: what has ended waits in a queue of a
//! limited size, and what finds no room there is lost and counted.

use std::fmt::Debug;
use std::time::SystemTime;

use tokio::sync::mpsc;
use tracing::Subscriber;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use crate::metrics::{Outcome, TraceMetrics};

/// Most links of a span, and most attributes, as OpenTelemetry's specification has it.
const MOST: usize = 128;

/// Where a span belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) trace: u128,
    pub(crate) span: u64,
}

/// A value of an attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    Text(String),
    Number(i64),
}

/// Numbers are OTLP's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Internal = 1,
    Client = 3,
}

/// A span, and once it is closed what is sent.
#[derive(Debug)]
pub(crate) struct SpanData {
    pub(crate) place: Place,
    /// None for the root of a trace.
    pub(crate) parent: Option<u64>,
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) start: SystemTime,
    pub(crate) end: SystemTime,
    pub(crate) attributes: Vec<(&'static str, Value)>,
    pub(crate) links: Vec<Place>,
    /// What went wrong; empty where there are no words for it.
    pub(crate) error: Option<String>,
    /// Whether it is sent. A trace is sent as a whole or not at all.
    pub(crate) is_sampled: bool,
}

/// Listens to spans.
pub(crate) struct SpanLayer {
    pub(crate) spans: mpsc::Sender<SpanData>,
    pub(crate) metrics: TraceMetrics,
    /// Of traces that are sent, from 0 to 1.
    pub(crate) share: f64,
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for SpanLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let parent = match attributes.parent() {
            Some(parent) => context.span(parent),
            None if attributes.is_contextual() => context.lookup_current(),
            None => None,
        };
        let parent = parent
            .and_then(|parent| parent.extensions().get::<SpanData>().map(|parent| (parent.place, parent.is_sampled)));
        let (trace, is_sampled) = match parent {
            Some((parent, is_sampled)) => (parent.trace, is_sampled),
            None => (fastrand::u128(1..), fastrand::f64() < self.share),
        };
        let now = SystemTime::now();
        let mut data = SpanData {
            place: Place { trace, span: fastrand::u64(1..) },
            parent: parent.map(|(parent, _)| parent.span),
            name: String::new(),
            kind: Kind::Internal,
            start: now,
            end: now,
            attributes: vec![],
            links: vec![],
            error: None,
            is_sampled,
        };
        if is_sampled {
            span.name().clone_into(&mut data.name);
            attributes.record(&mut data);
        }
        span.extensions_mut().insert(data);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(data) = span.extensions_mut().get_mut::<SpanData>()
            && data.is_sampled
        {
            values.record(data);
        }
    }

    fn on_follows_from(&self, id: &Id, follows: &Id, context: Context<'_, S>) {
        let place = |span: &Id| Some(context.span(span)?.extensions().get::<SpanData>()?.place);
        let Some(place) = place(follows) else { return };
        if let Some(span) = context.span(id)
            && let Some(data) = span.extensions_mut().get_mut::<SpanData>()
            && data.links.len() < MOST
        {
            data.links.push(place);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let data = context.span(&id).and_then(|span| span.extensions_mut().remove::<SpanData>());
        let Some(mut data) = data.filter(|data| data.is_sampled) else { return };
        data.end = SystemTime::now();
        if self.spans.try_send(data).is_err() {
            self.metrics.count(Outcome::QueueFull, 1);
        }
    }
}

impl SpanData {
    fn set(&mut self, field: &Field, value: Value) {
        let name = field.name();
        if let Some((_, before)) = self.attributes.iter_mut().find(|(other, _)| *other == name) {
            *before = value;
        } else if self.attributes.len() < MOST {
            self.attributes.push((name, value));
        }
    }
}

/// The names `otel.*` are those that everybody's bridge from `tracing` to OpenTelemetry knows.
impl Visit for SpanData {
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field, Value::Number(value));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "otel.name" => value.clone_into(&mut self.name),
            "otel.kind" if value == "client" => self.kind = Kind::Client,
            "otel.status_code" => drop(self.error.get_or_insert_default()),
            "otel.status_description" => self.error = Some(value.to_owned()),
            _ => self.set(field, Value::Text(value.to_owned())),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}
