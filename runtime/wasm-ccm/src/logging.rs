//! Structured logs: text for a person at a terminal, JSON for everything else.

use std::io::IsTerminal as _;

use ccm_cli::LogFormat;
use tracing_subscriber::EnvFilter;

/// Starts logging to standard error. `verbosity` is upstream's `--v`: from 4 on debug, from 6 on trace.
pub(crate) fn start(format: LogFormat, verbosity: u8) {
    let filter = match verbosity {
        0..=3 => "info,kube_client=off,kube_runtime=off",
        4 | 5 => {
            "debug,kube=info,hyper=info,hyper_util=info,h2=info,rustls=info,tower=info,wasmtime=info,cranelift=info"
        }
        6.. => "trace,cranelift=info,regalloc2=info",
    };
    let terminal = std::io::stderr().is_terminal();
    let base = tracing_subscriber::fmt().with_writer(std::io::stderr).with_env_filter(EnvFilter::new(filter));
    let json = match format {
        LogFormat::Auto => !terminal,
        LogFormat::Text => false,
        LogFormat::Json => true,
    };
    // An error means that a logger is installed already, which then goes on.
    drop(if json {
        base.json().flatten_event(true).with_current_span(true).with_span_list(false).try_init()
    } else {
        base.with_ansi(terminal).try_init()
    });
}
