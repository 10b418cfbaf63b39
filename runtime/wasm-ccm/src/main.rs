//! `wasm-ccm`: a Kubernetes cloud controller manager whose providers are WebAssembly components.
//!
//! This crate is the only one that knows all others: flags, leader election, health, metrics and webhook, assembly.

mod api;
mod check;
mod cli;
mod connection;
mod controller_names;
mod health;
mod https;
mod inspect;
mod leader;
mod logging;
mod metrics;
mod output;
mod push;
mod request_metrics;
mod run;
mod serve;
mod start;
mod tasks;
mod webhook;

use std::io::Write as _;
use std::process::ExitCode;

use cli::Command;

/// Compiling a component and a cluster's first list leave glibc's allocator with twice the memory that is in use.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    // kube and the health server share one TLS provider; an error means that somebody was first.
    drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
    let (command, ignored) = match cli::command() {
        Ok(command) => command,
        Err(code) => return code,
    };
    let ended = match command {
        Command::Run(args) => run::run(*args, ignored),
        Command::Inspect(args) => inspect::inspect(&args),
        Command::Check(args) => check::check(&args),
        Command::Push(args) => push::push(&args),
        Command::ProvidersSchema => print_schema(),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nobody reads when this fails.
            drop(writeln!(std::io::stderr(), "error: {}", one_line(&error)));
            ExitCode::FAILURE
        }
    }
}

/// The causes, each without what some parsers add: pictures of the place in the file.
fn one_line(error: &anyhow::Error) -> String {
    let causes: Vec<String> = error.chain().map(ToString::to_string).collect();
    let lines: Vec<&str> = causes.iter().filter_map(|cause| cause.lines().next()).collect();
    lines.join(": ")
}

fn print_schema() -> anyhow::Result<()> {
    output::print(&serde_json::to_string_pretty(&ccm_rollout::config::schema())?)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kubeconfig that is no YAML once printed a drawing of the file over five lines.
    #[test]
    fn an_error_is_one_line() {
        let error = anyhow::anyhow!("line 1: expected a list\n --> <input>:1:11\n  |").context("--kubeconfig x");
        assert_eq!(one_line(&error), "--kubeconfig x: line 1: expected a list");
    }
}
