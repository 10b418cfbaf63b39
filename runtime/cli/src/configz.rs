//! What the page `/configz` says: the configuration in force as upstream's `CloudControllerManagerConfiguration`. Flags of upstream without
//! effect here have no field, and neither has what only this host has: values of settings, credentials and URLs may be secrets.

use std::path::PathBuf;

use ccm_rollout::config::ProviderConfig;
use ccm_rollout::config::duration::go;
use serde_json::json;

use super::RunArgs;

impl RunArgs {
    /// The text of the page. Upstream has one cloud: of several `providers` none is named.
    pub fn configz(&self, providers: &[ProviderConfig]) -> String {
        let provider = if let [one] = providers { Some(one) } else { None };
        let path = |path: Option<&PathBuf>| path.map(|path| path.display().to_string()).unwrap_or_default();
        let leader = &self.leader;
        let configuration = json!({
            "Generic": {
                "Port": self.secure_port,
                "Address": self.bind_address,
                "ClientConnection": { "Kubeconfig": path(self.kubeconfig.as_ref()), "ContentType": "application/json" },
                "LeaderElection": {
                    // A dry run takes part in none.
                    "LeaderElect": leader.leader_elect && !self.dry_run,
                    "LeaseDuration": go(leader.leader_elect_lease_duration),
                    "RenewDeadline": go(leader.leader_elect_renew_deadline),
                    "RetryPeriod": go(leader.leader_elect_retry_period),
                    "ResourceLock": "leases",
                    "ResourceName": leader.leader_elect_resource_name,
                    "ResourceNamespace": leader.leader_elect_resource_namespace,
                },
                "Controllers": self.controllers,
            },
            "KubeCloudShared": {
                "CloudProvider": {
                    "Name": provider.and_then(|one| one.name.as_deref()).unwrap_or_default(),
                    "CloudConfigFile": path(provider.and_then(|one| one.cloud_config.as_ref())),
                },
                "RouteReconciliationPeriod": go(self.route.route_reconciliation_period),
                "NodeMonitorPeriod": go(self.node_lifecycle.node_monitor_period),
                "ClusterName": self.cluster_name,
                "ClusterCIDR": self.cluster_cidr.join(","),
                "ConfigureCloudRoutes": self.route.configure_cloud_routes,
            },
            "NodeController": {
                "ConcurrentNodeSyncs": self.concurrent_node_syncs,
                "ConcurrentNodeStatusUpdates": self.concurrent_node_status_updates,
            },
            "ServiceController": { "ConcurrentServiceSyncs": self.service.concurrent_service_syncs },
            "NodeStatusUpdateFrequency": go(self.node_status_update_frequency),
            "Webhook": { "Webhooks": self.webhook.webhooks },
        });
        json!({ "cloudcontrollermanager.config.k8s.io": configuration }).to_string()
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use serde_json::Value;

    use crate::{Cli, Command};

    const KEY: &str = "cloudcontrollermanager.config.k8s.io";

    fn told(flags: &[&str]) -> String {
        let words = [&["wasm-ccm", "run", "--provider=a.wasm"], flags].concat();
        let Command::Run(args) = Cli::try_parse_from(words).unwrap().command else { panic!("another command") };
        args.configz(&args.providers().unwrap())
    }

    fn configuration(flags: &[&str]) -> Value {
        serde_json::from_str(&told(flags)).unwrap()
    }

    #[test]
    fn case_255_the_configuration_survives_json_with_upstreams_names_and_the_defaults() {
        let text = told(&[]);
        let read: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read.to_string(), text);
        let expected = serde_json::json!({ KEY: {
            "Generic": {
                "Port": 10258,
                "Address": "0.0.0.0",
                "ClientConnection": { "Kubeconfig": "", "ContentType": "application/json" },
                "LeaderElection": {
                    "LeaderElect": true,
                    "LeaseDuration": "15s",
                    "RenewDeadline": "10s",
                    "RetryPeriod": "2s",
                    "ResourceLock": "leases",
                    "ResourceName": "cloud-controller-manager",
                    "ResourceNamespace": "kube-system",
                },
                "Controllers": ["*"],
            },
            "KubeCloudShared": {
                "CloudProvider": { "Name": "", "CloudConfigFile": "" },
                "RouteReconciliationPeriod": "5m0s",
                "NodeMonitorPeriod": "5s",
                "ClusterName": "kubernetes",
                "ClusterCIDR": "",
                "ConfigureCloudRoutes": true,
            },
            "NodeController": { "ConcurrentNodeSyncs": 128, "ConcurrentNodeStatusUpdates": 0 },
            "ServiceController": { "ConcurrentServiceSyncs": 32 },
            "NodeStatusUpdateFrequency": "5m0s",
            "Webhook": { "Webhooks": [] },
        }});
        assert_eq!(read, expected);
    }

    #[test]
    fn each_flag_changes_its_own_field_and_no_other() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().display().to_string();
        let cloud_config = format!("--cloud-config={path}");
        let rows: [(&str, &str, Value); 21] = [
            ("--secure-port=10001", "/Generic/Port", 10_001.into()),
            ("--bind-address=::1", "/Generic/Address", "::1".into()),
            ("--kubeconfig=/k", "/Generic/ClientConnection/Kubeconfig", "/k".into()),
            ("--leader-elect=false", "/Generic/LeaderElection/LeaderElect", false.into()),
            ("--dry-run", "/Generic/LeaderElection/LeaderElect", false.into()),
            ("--leader-elect-lease-duration=1m30s", "/Generic/LeaderElection/LeaseDuration", "1m30s".into()),
            ("--leader-elect-renew-deadline=9s", "/Generic/LeaderElection/RenewDeadline", "9s".into()),
            ("--leader-elect-retry-period=1500ms", "/Generic/LeaderElection/RetryPeriod", "1.5s".into()),
            ("--leader-elect-resource-name=x", "/Generic/LeaderElection/ResourceName", "x".into()),
            ("--leader-elect-resource-namespace=y", "/Generic/LeaderElection/ResourceNamespace", "y".into()),
            ("--controllers=-route,*", "/Generic/Controllers", vec!["-route", "*"].into()),
            ("--cloud-provider=gce", "/KubeCloudShared/CloudProvider/Name", "gce".into()),
            (&cloud_config, "/KubeCloudShared/CloudProvider/CloudConfigFile", path.clone().into()),
            ("--route-reconciliation-period=10s", "/KubeCloudShared/RouteReconciliationPeriod", "10s".into()),
            ("--node-monitor-period=7s", "/KubeCloudShared/NodeMonitorPeriod", "7s".into()),
            ("--cluster-name=blue", "/KubeCloudShared/ClusterName", "blue".into()),
            ("--cluster-cidr=10.0.0.0/16,fd00::/64", "/KubeCloudShared/ClusterCIDR", "10.0.0.0/16,fd00::/64".into()),
            ("--configure-cloud-routes=false", "/KubeCloudShared/ConfigureCloudRoutes", false.into()),
            ("--concurrent-node-syncs=2", "/NodeController/ConcurrentNodeSyncs", 2.into()),
            ("--concurrent-node-status-updates=3", "/NodeController/ConcurrentNodeStatusUpdates", 3.into()),
            ("--concurrent-service-syncs=4", "/ServiceController/ConcurrentServiceSyncs", 4.into()),
        ];
        let more = [
            ("--node-status-update-frequency=10m", "/NodeStatusUpdateFrequency", "10m0s".into()),
            ("--webhooks=lb-service", "/Webhook/Webhooks", vec!["lb-service"].into()),
        ];
        for (flag, field, value) in rows.into_iter().chain(more) {
            let mut expected = configuration(&[]);
            let before = expected[KEY].pointer_mut(field).unwrap_or_else(|| panic!("no {field}"));
            assert_ne!(*before, value, "{flag} changes nothing");
            *before = value;
            assert_eq!(configuration(&[flag]), expected, "{flag}");
        }
    }

    #[test]
    fn of_several_providers_none_is_named_and_what_may_be_a_secret_is_nowhere() {
        let text = told(&[
            "--master=https://u:hunter2@api",
            "--proxy=*=http://u:hunter2@proxy:3128",
            "--setting=password=hunter2",
            "--credential=token=secret:kube-system/hunter2/token",
        ]);
        assert_eq!(text, told(&[]));
        let words = ["wasm-ccm", "run", "--provider=a.wasm", "--cloud-provider=gce"];
        let Command::Run(args) = Cli::try_parse_from(words).unwrap().command else { panic!("another command") };
        let one = args.providers().unwrap();
        assert!(args.configz(&one).contains("gce"));
        assert!(!args.configz(&[one.clone(), one].concat()).contains("gce"));
    }
}
