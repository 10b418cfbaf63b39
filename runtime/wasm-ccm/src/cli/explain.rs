//! Flags of `explain`.

use std::path::PathBuf;

use clap::Args;

use super::tools::Output;

/// Flags of `explain`.
#[derive(Args)]
pub(crate) struct ExplainArgs {
    /// The kind of the object: service or node.
    pub(crate) kind: String,
    /// The object: NAMESPACE/NAME of a Service, NAME of a Node.
    pub(crate) name: String,
    /// Address of the health port of a running host, such as https://127.0.0.1:10258. Without it, the leader is found by its Lease and asked
    /// through the API server. Its certificate is not verified, and no credential of yours is sent there: if the host wants a token, the command
    /// makes a short-lived one of the ServiceAccount wasm-ccm-reader that only the host accepts.
    #[arg(long, value_name = "URL")]
    pub(crate) address: Option<String>,
    /// How to reach the API server. Without it, the service account of the pod is used.
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// URL of the API server; replaces the address in the kubeconfig.
    #[arg(long, value_name = "URL")]
    pub(crate) master: Option<String>,
    /// Name of the Lease by which the leader is found, as for `run`.
    #[arg(long, value_name = "NAME", default_value = "cloud-controller-manager")]
    pub(crate) leader_elect_resource_name: String,
    /// Namespace of the Lease and of the pods of the host, as for `run`.
    #[arg(long, value_name = "NAMESPACE", default_value = "kube-system")]
    pub(crate) leader_elect_resource_namespace: String,
    /// Output format.
    #[arg(long, short, value_enum, default_value = "text")]
    pub(crate) output: Output,
}
