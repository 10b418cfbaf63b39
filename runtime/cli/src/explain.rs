//! Flags of `explain`.

use anyhow::{Error, Result};
use ccm_diagnosis::{ExplainSettings, Wanted, address};
use clap::Args;

use super::cluster::{ApiServerArgs, LeaseArgs};
use super::tools::Output;

/// Flags of `explain`.
#[derive(Args)]
pub struct ExplainArgs {
    /// The object, as kubectl names it: service NAME, svc/NAME, service NAMESPACE/NAME, node NAME or node/NAME.
    #[arg(value_name = "OBJECT", required = true, num_args = 1..=2)]
    object: Vec<String>,
    /// Namespace of the Service. Without it, that of the kubeconfig.
    #[arg(long, short, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Address of the health port of a running host, such as https://127.0.0.1:10258. Without it, the leader is found by its Lease and asked
    /// through the API server. Its certificate is not verified, and no credential of yours is sent there: if the host wants a token, the command
    /// makes a short-lived one of the ServiceAccount wasm-ccm-reader that only the host accepts.
    #[arg(long, value_name = "URL")]
    address: Option<String>,
    #[command(flatten)]
    pub(super) api_server: ApiServerArgs,
    #[command(flatten)]
    lease: LeaseArgs,
    /// Output format.
    #[arg(long, short, value_enum, default_value = "text")]
    pub output: Output,
}

impl ExplainArgs {
    /// What is explained, and whom it is asked of.
    ///
    /// # Errors
    ///
    /// The words name no object, or the address is none.
    pub fn settings(&self) -> Result<ExplainSettings> {
        Ok(ExplainSettings {
            wanted: Wanted::parse(&self.object, self.namespace.as_deref()).map_err(Error::msg)?,
            address: self.address.as_deref().map(address).transpose()?,
            access: self.api_server.access(),
            namespace: self.lease.namespace.clone(),
            lease: self.lease.name.clone(),
        })
    }
}
