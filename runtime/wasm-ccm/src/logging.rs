//! Structured logs: text for a person at a terminal, JSON for everything else. Beside them traces (`--trace-otlp`).

use std::io::IsTerminal as _;

use anyhow::{Context as _, Result};
use ccm_cli::{LogFormat, RunArgs};
use ccm_rollout::host_pod;
use ccm_traces::{Identity, Sender, Settings, TraceLayer};
use tracing::{Dispatch, Subscriber};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer};

/// Starts logging to standard error. `verbosity` is upstream's `--v`: from 4 on debug, from 6 on trace. Spans of [`ccm_cloud::SPANS`] are for
/// `traces` alone.
pub(crate) fn start(format: LogFormat, verbosity: u8, traces: Option<TraceLayer>) {
    // An error means that a logger is installed already, which then goes on.
    drop(stack(format, verbosity, traces, std::io::stderr).try_init());
}

/// Who hears of spans, and who sends them; none where the operator wants no traces.
///
/// # Errors
///
/// Names the variable that cannot be used.
pub(crate) fn traces(args: &RunArgs) -> Result<Option<(TraceLayer, Sender)>> {
    if !args.trace_otlp {
        return Ok(None);
    }
    let variable = |name: &str| std::env::var(name).ok();
    let Some(settings) = Settings::read(variable).context("--trace-otlp")? else { return Ok(None) };
    let pod = host_pod(variable).unwrap_or_default();
    let identity = Identity {
        cluster: args.cluster_name.clone(),
        namespace: pod.namespace.unwrap_or_default(),
        pod: pod.name.unwrap_or_default(),
    };
    ccm_traces::open(settings, &identity).context("--trace-otlp").map(Some)
}

fn stack<W>(format: LogFormat, verbosity: u8, traces: Option<TraceLayer>, writer: W) -> Dispatch
where
    W: for<'writer> MakeWriter<'writer> + Send + Sync + 'static,
{
    let filter = match verbosity {
        0..=3 => "info,kube_client=off,kube_runtime=off",
        4 | 5 => {
            "debug,kube=info,hyper=info,hyper_util=info,h2=info,rustls=info,tower=info,wasmtime=info,cranelift=info"
        }
        6.. => "trace,cranelift=info,regalloc2=info",
    };
    let filter = EnvFilter::new(format!("{filter},{}=off", ccm_cloud::SPANS));
    let registry = tracing_subscriber::registry();
    match traces {
        None => registry.with(filter).with(lines(format, writer)).into(),
        Some(traces) => registry.with(traces).with(lines(format, writer).with_filter(filter)).into(),
    }
}

fn lines<S, W>(format: LogFormat, writer: W) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
    W: for<'writer> MakeWriter<'writer> + Send + Sync + 'static,
{
    let terminal = std::io::stderr().is_terminal();
    let lines = tracing_subscriber::fmt::layer().with_writer(writer);
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

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::Arc;

    use ccm_cloud::{SPANS, current_span};
    use parking_lot::Mutex;

    use super::*;

    /// What was written.
    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A question whether anybody listens to spans, and no span after it, once cost the next line.
    #[test]
    fn no_line_is_lost_behind_a_span_or_a_question_for_one() {
        let settings = || Settings::read(|_| None).unwrap().unwrap();
        for format in [LogFormat::Text, LogFormat::Json] {
            for is_traced in [false, true] {
                let open = || ccm_traces::open(settings(), &Identity::default()).unwrap();
                let (layer, _sender) = is_traced.then(open).unzip();
                let written = Written::default();
                let writer = written.clone();
                let stack = stack(format, 0, layer, move || writer.clone());
                tracing::dispatcher::with_default(&stack, || {
                    for number in 0..100 {
                        assert!(current_span().is_none());
                        tracing::info!(number, "a line");
                        let span = tracing::info_span!(target: SPANS, "reconcile");
                        assert_eq!(span.is_disabled(), !is_traced);
                        drop(span);
                        tracing::info!(number, "a line");
                    }
                });
                let text = String::from_utf8(written.0.lock().clone()).unwrap();
                assert_eq!(text.lines().filter(|line| line.contains("a line")).count(), 200, "{format:?} {is_traced}");
                assert_eq!(text.lines().count(), 200, "spans of traces are no lines: {text}");
            }
        }
    }
}
