//! Flags of `uninstall`.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use ccm_diagnosis::{Access, UninstallSettings};
use clap::Args;

use super::tools::Output;

/// Flags of `uninstall`.
#[derive(Args)]
pub struct UninstallArgs {
    /// List what would be left in the cluster, with the command that removes each, in their order. Exit with code 2 if there is something.
    #[arg(long)]
    plan: bool,
    /// How to reach the API server. Without it, the service account of the pod is used.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// URL of the API server; replaces the address in the kubeconfig.
    #[arg(long, value_name = "URL")]
    master: Option<String>,
    /// Name of the Lease of the host, as for `run`.
    #[arg(long, value_name = "NAME", default_value = "cloud-controller-manager")]
    leader_elect_resource_name: String,
    /// Namespace of the Lease and of the pods of the host, as for `run`.
    #[arg(long, value_name = "NAMESPACE", default_value = "kube-system")]
    leader_elect_resource_namespace: String,
    /// Output format.
    #[arg(long, short, value_enum, default_value = "text")]
    pub output: Output,
}

impl UninstallArgs {
    /// What is looked at.
    ///
    /// # Errors
    ///
    /// `--plan` is not there: nothing else can be done.
    pub fn settings(&self) -> Result<UninstallSettings> {
        ensure!(
            self.plan,
            "uninstall changes nothing itself: `wasm-ccm uninstall --plan` lists what would be left, and docs/guides/remove.md says how to remove it"
        );
        Ok(UninstallSettings {
            access: Access { kubeconfig: self.kubeconfig.clone(), master: self.master.clone() },
            namespace: self.leader_elect_resource_namespace.clone(),
            lease: self.leader_elect_resource_name.clone(),
        })
    }
}
