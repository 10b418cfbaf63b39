//! Flags of `doctor`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use ccm_diagnosis::{DoctorSettings, RightsOf, address};
use ccm_rollout::config::duration::parse;
use ccm_rollout::config::{self, ProviderConfig};
use clap::Args;

use super::cluster::ApiServerArgs;
use super::leader::LeaderArgs;
use super::provider::{RecordArgs, SINGLE};
use super::tools::Output;

/// The ConfigMap of our overlays.
const OVERLAY: &str = "configmap:kube-system/wasm-ccm-provider";

/// Flags of `doctor`.
// No `Debug`: what an operator writes may be a secret.
#[derive(Args)]
pub struct DoctorArgs {
    #[command(flatten, next_help_heading = "Cluster")]
    pub(super) api_server: ApiServerArgs,
    /// The name of the cluster, for the provider.
    #[arg(long, default_value = "kubernetes", value_parser = super::cluster_name, help_heading = "Cluster")]
    cluster_name: String,
    /// Whose rights are checked: the ServiceAccount of the host, NAMESPACE/NAME, or self for the user of the kubeconfig.
    #[arg(long, value_name = "ACCOUNT", default_value = "kube-system/wasm-ccm", help_heading = "Cluster")]
    rights_of: RightsOf,
    /// The host runs with --dry-run: it needs only the rights to read, and does not lead. Without this flag, doctor looks at
    /// the Deployments, DaemonSets and pods in the namespace of the Lease; give it if you may not list them, or if the host is none of them.
    #[arg(long, help_heading = "Cluster")]
    dry_run: bool,
    /// A cloud controller manager that may run beside this one because it serves another cloud: the name of its Lease or of its
    /// program. May be given several times.
    #[arg(long, value_name = "NAME", help_heading = "Cluster")]
    beside: Vec<String>,
    /// Time after which a Node that is not initialised, and a Service without an address, count as waiting.
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = parse, help_heading = "Cluster")]
    waiting_after: Duration,
    /// Where the provider's component is: a file, a folder, or configmap:NAMESPACE/NAME[/KEY]. Without this flag, doctor looks for the
    /// ConfigMap of the overlays, kube-system/wasm-ccm-provider.
    #[arg(long, value_name = "SOURCE", help_heading = "Provider")]
    provider: Option<String>,
    /// A YAML list of providers, instead of the flags for a single one.
    #[arg(long, value_name = "FILE", conflicts_with = "provider", conflicts_with_all = SINGLE, help_heading = "Provider")]
    providers: Option<PathBuf>,
    #[command(flatten)]
    record: RecordArgs,
    /// Also ask the cloud: go to each endpoint without any credential, to say whether its name resolves and its certificate is trusted, and then
    /// ask whether the cloud accepts the credentials.
    #[arg(long, help_heading = "Provider")]
    online: bool,
    /// Judge the providers alone, as before a change is merged: no API server is asked, and without --online no cloud.
    #[arg(long, help_heading = "Provider")]
    providers_only: bool,
    /// Address of the health port of the leader, such as https://127.0.0.1:10258, where doctor reads how many requests the cloud leaves. Without
    /// it, the leader is found by its Lease and asked through the API server. As for `explain`, its certificate is not verified, and no
    /// credential of yours is sent there.
    #[arg(long, value_name = "URL", help_heading = "Cluster")]
    address: Option<String>,
    #[command(flatten)]
    leader: LeaderArgs,
    /// Output format.
    #[arg(long, short, value_enum, default_value = "text")]
    pub output: Output,
}

impl DoctorArgs {
    /// The providers of the flags or of the file.
    ///
    /// # Errors
    ///
    /// Names the flag, or the file and the field; repeats nothing that may be a secret.
    fn configured(&self) -> Result<Vec<ProviderConfig>> {
        match &self.providers {
            Some(file) => config::read_file(file),
            None => {
                let source = self.provider.clone().unwrap_or_else(|| OVERLAY.to_owned());
                Ok(vec![self.record.record(source)?.check()?])
            }
        }
    }

    /// What is examined.
    ///
    /// # Errors
    ///
    /// Names the flags of the election that do not go together.
    pub fn settings(&self) -> Result<DoctorSettings> {
        drop(self.leader.settings()?);
        Ok(DoctorSettings {
            access: self.api_server.access(),
            cluster_name: self.cluster_name.clone(),
            rights_of: self.rights_of.clone(),
            is_dry_run: self.dry_run,
            beside: self.beside.clone(),
            waiting_after: self.waiting_after,
            providers: self.configured(),
            is_source_named: self.names_a_source(),
            online: self.online,
            providers_only: self.providers_only,
            peers: self.leader.peers(None),
            is_elected: self.leader.leader_elect,
            address: self.address.as_deref().map(address).transpose()?,
        })
    }

    /// Whether the operator said where a component is.
    const fn names_a_source(&self) -> bool {
        self.provider.is_some() || self.providers.is_some()
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        doctor: DoctorArgs,
    }

    fn doctor(flags: &[&str]) -> Result<DoctorArgs, clap::Error> {
        Cli::try_parse_from([&["doctor"], flags].concat()).map(|cli| cli.doctor)
    }

    #[test]
    fn without_a_source_it_is_the_config_map_of_the_overlays() {
        let args = doctor(&[]).unwrap();
        assert!(!args.names_a_source());
        assert_eq!(args.configured().unwrap()[0].source.to_string(), OVERLAY);
        let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../../manifests/base/deployment.yaml");
        assert!(std::fs::read_to_string(manifest).unwrap().contains("name: wasm-ccm-provider\n"));
    }

    #[test]
    fn flags_that_cannot_be_are_refused() {
        for flags in [
            &["--rights-of=wasm-ccm"][..],
            &["--rights-of=/a"],
            &["--rights-of=a/b/c"],
            &["--provider=a.wasm", "--providers=b.yaml"],
            &["--providers=b.yaml", "--cloud-config=c"],
            &["--output=yaml"],
        ] {
            assert!(doctor(flags).is_err(), "{flags:?}");
        }
        assert_eq!(doctor(&["--rights-of=self"]).unwrap().rights_of, RightsOf::Myself);
    }
}
