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

use std::process::ExitCode;

/// Compiling a component and a cluster's first list leave glibc's allocator with twice the memory that is in use.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    // kube and the health server share one TLS provider; an error means that somebody was first.
    drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
    cli::main()
}
