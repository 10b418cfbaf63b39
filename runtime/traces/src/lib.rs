//! Traces by OpenTelemetry: a span for each reconcile, each call of a provider and each request to a cloud, sent by OTLP over HTTP.
//!
//! The crates that do the work open the spans with `tracing`, under the target [`ccm_cloud::SPANS`]. Without the layer of [`open`] nobody
//! listens there, and a span costs a look at two variables.
//!
//! | module | does |
//! |---|---|
//! | `settings` | reads the variables of OpenTelemetry's specification |
//! | `layer` | makes spans of a trace of spans of `tracing`; never waits |
//! | `sender` | sends what has ended in batches, and says once that the collector does not take them |
//! | `sending` | lets the sender work while the process runs, and ends it |
//! | `encode` | encodes it |
//! | `metrics` | counts what was sent and what was lost |
//!
//! This is not `opentelemetry-otlp` with `tracing-opentelemetry`. The SDK, its protobuf types and `tracing-opentelemetry`, built for size, made a
//! program with the host's other crates 274 KB larger, more than the host has left below its limit. The SDK's exporter also has a thread that waits for each
//! batch, does not tell how many spans it lost, and says the same about each batch that fails. What the host needs of it is here: spans without events, no
//! context from elsewhere, one exporter. Names and variables are the same, so that it can be exchanged.

mod encode;
mod layer;
mod metrics;
mod sender;
mod sending;
mod settings;
#[cfg(test)]
mod tests;

use tokio::sync::mpsc;
use tracing_subscriber::filter::{LevelFilter, filter_fn};
use tracing_subscriber::{Layer, Registry};

use layer::{SpanLayer, Value};
pub use metrics::TraceMetrics;
pub use sender::Sender;
pub use sending::Sending;
pub use settings::Settings;

/// Who opens spans, for those who read them.
const SCOPE: &str = "wasm-ccm";

/// What opens the spans, for [`logging`](tracing_subscriber).
pub type TraceLayer = Box<dyn Layer<Registry> + Send + Sync>;

/// Who sends the spans: attributes of all of them.
#[derive(Debug, Clone, Default)]
pub struct Identity {
    /// `k8s.cluster.name`: `--cluster-name`.
    pub cluster: String,
    /// `k8s.namespace.name`; empty outside of a pod.
    pub namespace: String,
    /// `k8s.pod.name` and `service.instance.id`; empty outside of a pod.
    pub pod: String,
}

/// Makes both ends of the queue: the layer opens spans as soon as it is part of the subscriber, [`Sending`] sends what has ended.
///
/// # Errors
///
/// The CA file cannot be read, or the system has no authorities.
pub fn open(settings: Settings, identity: &Identity) -> anyhow::Result<(TraceLayer, Sender)> {
    let (spans, ended) = mpsc::channel(settings.queue.get());
    let metrics = TraceMetrics::default();
    let layer = SpanLayer { spans, metrics: metrics.clone(), share: settings.share };
    // Not the lines of the log: they are somewhere else already.
    let is_ours = filter_fn(|metadata| metadata.is_span() && metadata.target() == ccm_cloud::SPANS);
    let is_ours = is_ours.with_max_level_hint(LevelFilter::INFO);
    let resource = resource(&settings, identity);
    Ok((layer.with_filter(is_ours).boxed(), Sender::new(settings, resource, ended, metrics)?))
}

/// What the operator says goes before what the host knows of itself.
fn resource(settings: &Settings, identity: &Identity) -> Vec<(String, Value)> {
    let known = [
        ("service.name", "wasm-ccm"),
        ("service.version", env!("CARGO_PKG_VERSION")),
        ("service.instance.id", identity.pod.as_str()),
        ("k8s.cluster.name", identity.cluster.as_str()),
        ("k8s.namespace.name", identity.namespace.as_str()),
        ("k8s.pod.name", identity.pod.as_str()),
        ("telemetry.sdk.name", "wasm-ccm"),
        ("telemetry.sdk.language", "rust"),
        ("telemetry.sdk.version", env!("CARGO_PKG_VERSION")),
    ];
    let known = known.into_iter().filter(|(name, value)| !value.is_empty() && !settings.resource.contains_key(*name));
    let known = known.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let given = settings.resource.iter().map(|(name, value)| (name.clone(), value.clone()));
    known.chain(given).map(|(name, value)| (name, Value::Text(value))).collect()
}
