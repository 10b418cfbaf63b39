//! Whole-system tests, the demo and the benchmarks: a real API server, the real host binary, real components.

pub mod alerts;
pub mod balancer_cloud;
pub mod crowd;
pub mod finish;
pub mod go_manager;
pub mod host;
pub mod manifest;
pub mod measure;
pub mod openstack_lab;
pub mod planned;
pub mod provider_page;
pub mod report;
pub mod slow_cloud;
pub mod successor;

use std::io::Write as _;
use std::process::ExitCode;

/// Ends a program: an error is one line on standard error, and exit code 1.
pub fn exit_code(result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nobody reads when this fails.
            writeln!(std::io::stderr(), "error: {error:#}").ok();
            ExitCode::FAILURE
        }
    }
}
