//! Structured logs: text for a person at a terminal, JSON for everything else.

use std::io::IsTerminal as _;

use ccm_cli::LogFormat;
use ccm_traces::TraceLayer;
use tracing::Subscriber;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer};

/// Starts logging to standard error. `verbosity` is upstream's `--v`: from 4 on debug, from 6 on trace. Spans of [`ccm_cloud::SPANS`] are for
/// `traces` alone.
pub(crate) fn start(format: LogFormat, verbosity: u8, traces: Option<TraceLayer>) {
    let filter = match verbosity {
        0..=3 => "info,kube_client=off,kube_runtime=off",
        4 | 5 => {
            "debug,kube=info,hyper=info,hyper_util=info,h2=info,rustls=info,tower=info,wasmtime=info,cranelift=info"
        }
        6.. => "trace,cranelift=info,regalloc2=info",
    };
    let filter = EnvFilter::new(format!("{filter},{}=off", ccm_cloud::SPANS));
    // An error means that a logger is installed already, which then goes on.
    drop(match traces {
        None => tracing_subscriber::registry().with(filter).with(lines(format)).try_init(),
        Some(traces) => tracing_subscriber::registry().with(traces).with(lines(format).with_filter(filter)).try_init(),
    });
}

fn lines<S: Subscriber + for<'span> LookupSpan<'span>>(format: LogFormat) -> Box<dyn Layer<S> + Send + Sync> {
    let terminal = std::io::stderr().is_terminal();
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let json = match format {
        LogFormat::Auto => !terminal,
        LogFormat::Text => false,
        LogFormat::Json => true,
    };
    if json {
        lines.json().flatten_event(true).with_current_span(true).with_span_list(false).boxed()
    } else {
        lines.with_ansi(terminal).boxed()
    }
}
