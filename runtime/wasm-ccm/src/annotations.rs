//! `wasm-ccm annotations`, which `ccm-annotations` does.

use anyhow::Result;
use ccm_annotations::Declaration;
use ccm_cli::{AnnotationsArgs, AnnotationsOutput};

use crate::exit::Verdict;
use crate::output;

/// Shows the annotations.
///
/// # Errors
///
/// The step of the gate that the component does not pass, and why.
pub(crate) fn annotations(args: &AnnotationsArgs) -> Result<Verdict> {
    let record = args.component.record(args.file.to_string_lossy().into_owned())?;
    let config = args.config.configure(record)?.check()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let declaration = runtime.block_on(Box::pin(Declaration::of(&config, &args.cluster_name)))?;
    let told = match args.output {
        AnnotationsOutput::Text => declaration.text()?,
        AnnotationsOutput::Json => declaration.json()?,
        AnnotationsOutput::Cel => declaration.cel(&args.load_balancer_class)?,
    };
    output::print(told.trim_end())?;
    // A policy that refuses nothing is less than whoever asks for one expects.
    let is_weaker = args.output == AnnotationsOutput::Cel && !declaration.is_judged();
    Ok(if is_weaker { Verdict::Unjudged } else { Verdict::Good })
}
