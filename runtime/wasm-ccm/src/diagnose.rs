//! `wasm-ccm doctor`, `explain` and `uninstall`: ask, print, and end with the verdict.

use anyhow::Result;

use crate::exit::Verdict;
use crate::output;
use ccm_cli::{DoctorArgs, ExplainArgs, Output, UninstallArgs};

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
        Output::Json => output::json(&report)?,
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
        Output::Json => output::json(&explanation)?,
        Output::Text => explanation.text(),
    })?;
    Ok(explanation.verdict.into())
}

/// Lists what would be left in the cluster.
///
/// # Errors
///
/// `--plan` is not there, or the API server does not answer.
pub(crate) fn uninstall(args: &UninstallArgs) -> Result<Verdict> {
    let settings = args.settings()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let remains = runtime.block_on(Box::pin(ccm_diagnosis::uninstall(settings)))?;
    output::print(&match args.output {
        Output::Json => output::json(&remains)?,
        Output::Text => remains.text(),
    })?;
    Ok(match (remains.is_any_left(), remains.is_any_unread()) {
        (true, _) => Verdict::Changes,
        (false, true) => Verdict::Unjudged,
        (false, false) => Verdict::Good,
    })
}
