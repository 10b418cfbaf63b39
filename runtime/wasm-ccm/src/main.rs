//! `wasm-ccm`: a Kubernetes cloud controller manager whose providers are WebAssembly components.
//!
//! This crate is the only one that knows all others: flags, files, sources of providers, health and metrics, assembly.

mod api;
mod check;
mod cli;
mod connection;
mod controller_names;
mod door;
mod duration;
mod exchange_metrics;
mod gate;
mod grants;
mod health;
mod https;
mod inspect;
mod keeper;
mod kept;
mod last_good;
mod leader;
mod limits;
mod load;
mod logging;
mod metrics;
mod output;
mod provider_events;
mod provider_metrics;
mod provider_status;
mod providers;
mod push;
mod run;
mod secret;
mod serve;
mod source;
mod start;
mod tasks;
mod trust;
mod unpack;
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
