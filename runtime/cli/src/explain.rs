//! Flags of `explain`.

use std::path::PathBuf;

use anyhow::{Error, Result};
use ccm_diagnosis::{Access, ExplainSettings, Wanted, address};
use clap::Args;

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
    /// How to reach the API server. Without it, the service account of the pod is used.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// URL of the API server; replaces the address in the kubeconfig.
    #[arg(long, value_name = "URL")]
    master: Option<String>,
    /// Name of the Lease by which the leader is found, as for `run`.
    #[arg(long, value_name = "NAME", default_value = "cloud-controller-manager")]
    leader_elect_resource_name: String,
    /// Namespace of the Lease and of the pods of the host, as for `run`.
    #[arg(long, value_name = "NAMESPACE", default_value = "kube-system")]
    leader_elect_resource_namespace: String,
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
            access: Access { kubeconfig: self.kubeconfig.clone(), master: self.master.clone() },
            namespace: self.leader_elect_resource_namespace.clone(),
            lease: self.leader_elect_resource_name.clone(),
        })
    }
}
