//! Flags of `uninstall`.

use anyhow::{Result, ensure};
use ccm_diagnosis::UninstallSettings;
use clap::Args;

use super::cluster::{ApiServerArgs, LeaseArgs};
use super::tools::Output;

/// Flags of `uninstall`.
#[derive(Args)]
pub struct UninstallArgs {
    /// List what would be left in the cluster, with the command that removes each, in their order. Exit with code 2 if there is something.
    #[arg(long)]
    plan: bool,
    #[command(flatten)]
    pub(super) api_server: ApiServerArgs,
    #[command(flatten)]
    lease: LeaseArgs,
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
            access: self.api_server.access(),
            namespace: self.lease.namespace.clone(),
            lease: self.lease.name.clone(),
        })
    }
}
