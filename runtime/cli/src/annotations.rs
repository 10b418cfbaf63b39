//! Flags of `annotations`.

use std::path::PathBuf;

use ccm_rollout::config::load_balancer_class;
use clap::{Args, ValueEnum};

use super::provider::{ComponentArgs, ConfigArgs};

/// Flags of `annotations`.
// No `Debug`: what an operator writes may be a secret.
#[derive(Args)]
pub struct AnnotationsArgs {
    /// The component: .wasm, .wasm.gz or .wasm.zst, or a folder with one.
    pub file: PathBuf,
    /// How the component is read.
    #[command(flatten)]
    pub component: ComponentArgs,
    /// How the provider is configured.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// A load balancer class that the provider serves in addition to Services without a class, for cel; may be given several times.
    #[arg(long, value_name = "CLASS", value_parser = load_balancer_class, help_heading = "Provider")]
    pub load_balancer_class: Vec<String>,
    /// The name of the cluster, for the provider.
    #[arg(long, default_value = "kubernetes", value_parser = super::cluster_name)]
    pub cluster_name: String,
    /// Output format.
    #[arg(long, short, value_enum, default_value = "text")]
    pub output: AnnotationsOutput,
}

/// How to show annotations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AnnotationsOutput {
    /// For people.
    Text,
    /// For programs.
    Json,
    /// As ValidatingAdmissionPolicies.
    Cel,
}
