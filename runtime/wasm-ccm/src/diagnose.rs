//! `wasm-ccm doctor` and `wasm-ccm explain`: ask, print, and end with the verdict.

use anyhow::Result;

use crate::exit::Verdict;
use crate::output;
use ccm_cli::{DoctorArgs, ExplainArgs, Output};

/// Judges all, and prints what was found.
///
/// # Errors
///
/// Flags that cannot be, or an answer that cannot be written.
pub(crate) fn doctor(args: &DoctorArgs) -> Result<Verdict> {
    let settings = args.settings()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let report = runtime.block_on(Box::pin(ccm_diagnosis::doctor(settings)));
    // Does not wait for the compiler, which cannot be stopped.
    runtime.shutdown_background();
    output::print(&match args.output {
        Output::Json => ccm_diagnosis::shown(serde_json::to_string_pretty(&report)?),
        Output::Text => report.text(),
    })?;
    Ok(report.verdict().into())
}

/// Says why an object is as it is.
///
/// # Errors
///
/// There is no such object, or its name cannot be one.
pub(crate) fn explain(args: &ExplainArgs) -> Result<Verdict> {
    let settings = args.settings()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let explanation = runtime.block_on(Box::pin(ccm_diagnosis::explain(settings)))?;
    output::print(&match args.output {
        Output::Json => ccm_diagnosis::shown(serde_json::to_string_pretty(&explanation)?),
        Output::Text => explanation.text(),
    })?;
    Ok(explanation.verdict.into())
}
