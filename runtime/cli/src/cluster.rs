//! Flags of several tools: where the API server is, and which Lease the host has.

use std::path::PathBuf;

use ccm_diagnosis::{Access, LEASE};
use clap::Args;

/// Where the API server is.
#[derive(Args)]
pub struct ApiServerArgs {
    /// How to reach the API server. Without it, the service account of the pod is used.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// URL of the API server; replaces the address in the kubeconfig.
    #[arg(long, value_name = "URL")]
    pub master: Option<String>,
}

/// Which Lease the host has.
#[derive(Args)]
pub(crate) struct LeaseArgs {
    /// Name of the Lease of the host, as for `run`.
    #[arg(id = "leader-elect-resource-name", long, value_name = "NAME", default_value = LEASE.1)]
    pub(crate) name: String,
    /// Namespace of the Lease and of the pods of the host, as for `run`.
    #[arg(id = "leader-elect-resource-namespace", long, value_name = "NAMESPACE", default_value = LEASE.0)]
    pub(crate) namespace: String,
}

impl ApiServerArgs {
    pub(crate) fn access(&self) -> Access {
        Access { kubeconfig: self.kubeconfig.clone(), master: self.master.clone() }
    }
}
