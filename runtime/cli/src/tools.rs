//! Flags of the tools: `check`, `push`, `inspect`, `new`; and how they show something.

use std::path::PathBuf;

use ccm_rollout::config::Wasi;
use ccm_rollout::config::limit_preset::LimitPreset;
use clap::{Args, ValueEnum};

use super::cluster::ApiServerArgs;
use super::provider::{ComponentArgs, ConfigArgs, limit_preset, pair, wasi};

/// Flags of `check`.
// No `Debug`: what an operator writes may be a secret.
#[derive(Args)]
pub struct CheckArgs {
    /// The component: .wasm, .wasm.gz or .wasm.zst, or a folder with one.
    pub file: PathBuf,
    /// Also ask the cloud whether it accepts the credentials.
    #[arg(long)]
    pub online: bool,
    /// How the component is read.
    #[command(flatten)]
    pub component: ComponentArgs,
    /// How the provider is configured.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// The name of the cluster, for the provider.
    #[arg(long, default_value = "kubernetes", value_parser = super::cluster_name)]
    pub cluster_name: String,
    /// Preview an upgrade from this component to FILE: a file, a folder, or configmap:NAMESPACE/NAME[/KEY]. Compare what both find for
    /// the Nodes and Services of the cluster, and show the differences; exit with code 1 if there are any. Nothing is written.
    #[arg(long, value_name = "SOURCE", help_heading = "Preview")]
    pub against: Option<String>,
    /// How to reach the API server. Without it, the service account of the pod is used.
    #[arg(long, value_name = "FILE", requires = "against", help_heading = "Preview")]
    pub kubeconfig: Option<PathBuf>,
    /// URL of the API server; replaces the address in the kubeconfig.
    #[arg(long, value_name = "URL", requires = "against", help_heading = "Preview")]
    pub master: Option<String>,
    /// Also compare a component with another name or other provider IDs, or one without an interface that objects depend on. The host
    /// has a flag of the same name.
    #[arg(long, requires = "against", help_heading = "Preview")]
    pub allow_provider_change: bool,
    /// Output format.
    #[arg(long, short, value_enum, default_value = "text")]
    pub output: Output,
}

/// Flags of `push`.
// No `Debug`: what an operator writes may be a secret.
#[derive(Args)]
pub struct PushArgs {
    /// The component: .wasm, .wasm.gz or .wasm.zst. A signature NAME.sig next to it is pushed with it.
    pub file: PathBuf,
    /// The target: configmap:NAMESPACE/NAME[/KEY]. It must exist, unless you give --create.
    pub target: String,
    /// Create the ConfigMap, or the key in it, if it does not exist.
    #[arg(long)]
    pub create: bool,
    /// Where the API server is.
    #[command(flatten)]
    pub api_server: ApiServerArgs,
    /// How the component is read.
    #[command(flatten)]
    pub component: ComponentArgs,
    /// Replace a component that has another name or another provider ID scheme. The host has a flag of the same name for the
    /// component that serves.
    #[arg(long, help_heading = "Provider")]
    pub allow_provider_change: bool,
    /// Output format.
    #[arg(long, short, value_enum, default_value = "text")]
    pub output: Output,
}

/// Flags of `new`.
#[derive(Args)]
pub struct NewArgs {
    /// The name of the provider, of its crate and of the new folder: lower-case letters and digits.
    pub name: String,
    /// Where the SDK comes from: the folder `providers/sdk` of a checkout of wasm-ccm, or `URL#REV` of its git repository. In a
    /// checkout it is that of the checkout.
    #[arg(long, value_name = "SDK")]
    pub sdk: Option<String>,
}

/// Flags of `inspect`.
// No `Debug`: what an operator writes may be a secret.
#[derive(Args)]
pub struct InspectArgs {
    /// The component: .wasm, .wasm.gz or .wasm.zst, or a folder with one.
    pub file: PathBuf,
    /// Output format.
    #[arg(long, short, value_enum, default_value = "text")]
    pub output: Output,
    /// Print only the statement to sign, with this counter: each version needs a higher one than the version before.
    #[arg(long, value_name = "COUNTER", conflicts_with = "output")]
    pub statement: Option<u64>,
    /// The defaults of the limits, as for `run`.
    #[arg(long, value_name = "PRESET", value_parser = limit_preset())]
    pub limits: Option<LimitPreset>,
    /// A limit, as for `run`; may be given several times.
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    pub limit: Vec<(String, String)>,
    /// What a component that imports WASI gets.
    #[arg(long, value_name = "WASI", value_parser = wasi(), default_value = "deny-all")]
    pub wasi: Wasi,
}

/// How to show something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people.
    Text,
    /// For programs.
    Json,
}
