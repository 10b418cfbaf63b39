//! Flags of `annotations`.

use std::path::PathBuf;

use ccm_rollout::config::load_balancer_class;
use clap::{Args, ValueEnum};

use super::provider::{ComponentArgs, ConfigArgs};

/// Flags of `annotations`.
// No `Debug`: what an operator writes may be a secret.
#[derive(Args)]
pub(crate) struct AnnotationsArgs {
    /// The component: .wasm, .wasm.gz or .wasm.zst, or a folder with one.
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) component: ComponentArgs,
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
    /// A load balancer class that the provider serves in addition to Services without a class, for cel; may be given several times.
    #[arg(long, value_name = "CLASS", value_parser = load_balancer_class, help_heading = "Provider")]
    pub(crate) load_balancer_class: Vec<String>,
    /// The name of the cluster, for the provider.
    #[arg(long, default_value = "kubernetes", value_parser = super::cluster_name)]
    pub(crate) cluster_name: String,
    /// Output format.
    #[arg(long, short, value_enum, default_value = "text")]
    pub(crate) output: AnnotationsOutput,
}

/// How to show annotations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AnnotationsOutput {
    /// For people.
    Text,
    /// For programs.
    Json,
    /// As ValidatingAdmissionPolicies.
    Cel,
}
