//! Other cloud controller managers that run in the namespace of the Lease, with or without an election.

use ccm_rollout::PeerSettings;
use k8s_openapi::api::core::v1::{Container, Pod};
use kube::ResourceExt as _;

use super::finding::{Check, Finding};
use super::purpose::Purpose;
use crate::ask::pods::{MANAGER, containers, flag, is_host, program};
use crate::paste::word;

/// The flag that says which cloud a component of Kubernetes serves by itself.
const CLOUD: &str = "--cloud-provider";
/// The flag with the name of the Lease, and its default.
const LEASE: (&str, &str) = ("--leader-elect-resource-name", MANAGER);

/// `pods`: those that live, or why they cannot be read.
pub(super) fn judge(
    pods: Result<&[Pod], &String>,
    peers: &PeerSettings,
    beside: &[String],
    purpose: Purpose,
) -> Vec<Finding> {
    let check = Check::Managers;
    // A dry run is there to run beside it.
    let told = |found: String, fix: String| match purpose {
        Purpose::DryRun => {
            check.note(format!("{found}; this is a dry run beside it"), format!("when you switch, {fix}"))
        }
        Purpose::Work | Purpose::Unknown => check.wrong(found, fix),
    };
    let namespace = &peers.namespace;
    let pods = match pods {
        Ok(pods) => pods,
        Err(why) => {
            let fix = format!("give a kubeconfig that may list pods in {namespace}");
            return vec![
                check.unjudged(format!("whether another manager runs in {namespace} is not known: {why}"), fix),
            ];
        }
    };
    let mut findings = vec![];
    for pod in pods.iter().filter(|pod| !is_host(pod)) {
        let name = [format!("Pod {namespace}/{}", pod.name_any())];
        for container in containers(pod) {
            let program = program(container);
            if program.contains(MANAGER) && !beside.contains(&program) {
                let waits = match lease(container) == peers.lease {
                    true => format!(", and waits for Lease {namespace}/{}, as wasm-ccm does", peers.lease),
                    false => String::new(),
                };
                let found = format!("runs {program}: it changes the same Nodes and Services{waits}");
                let fix = format!(
                    "if it serves another cloud, keep it, and run `wasm-ccm doctor --beside={}`; else scale its Deployment to 0, or delete its DaemonSet",
                    word(&program)
                );
                findings.push(told(found, fix).about(name.clone()));
            }
            if let Some(cloud) = own_cloud(container, &program) {
                let found = format!("{program} runs with {CLOUD}={cloud}: it has cloud controllers of its own");
                let fix = format!("set {CLOUD}=external in its manifest on each machine of the control plane");
                findings.push(told(found, fix).about(name.clone()));
            }
        }
    }
    if findings.is_empty() {
        findings.push(check.good(format!("no other cloud controller manager runs in {namespace}")));
    }
    findings
}

/// The Lease that a manager waits for.
fn lease(container: &Container) -> &str {
    let (name, default) = LEASE;
    flag(container, name).filter(|name| !name.is_empty()).unwrap_or(default)
}

/// The cloud that kube-controller-manager serves by itself.
fn own_cloud(container: &Container, program: &str) -> Option<String> {
    let cloud = flag(container, CLOUD).filter(|_| program == "kube-controller-manager")?;
    (!matches!(cloud, "" | "external")).then(|| cloud.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, image: &str, command: &[&str], phase: &str) -> Pod {
        let container = json!({ "name": "c", "image": image, "command": command });
        let pod = json!({ "metadata": { "name": name }, "spec": { "containers": [container] }, "status": { "phase": phase } });
        serde_json::from_value(pod).unwrap()
    }

    fn told(pods: &[Pod], beside: &[&str]) -> Vec<String> {
        told_to(Purpose::Work, pods, beside)
    }

    fn told_to(purpose: Purpose, pods: &[Pod], beside: &[&str]) -> Vec<String> {
        let beside: Vec<String> = beside.iter().map(|&name| name.to_owned()).collect();
        let peers = PeerSettings { namespace: "kube-system".into(), lease: "mine".into(), identity: None };
        let findings = judge(Ok(pods), &peers, &beside, purpose);
        findings
            .into_iter()
            .map(|one| format!("{:?} {}: {}", one.judgement, one.objects.join(", "), one.found))
            .collect()
    }

    #[test]
    fn a_go_manager_is_found_by_its_command_or_by_its_image() {
        let image = "docker.io/digitalocean/digitalocean-cloud-controller-manager:v0.1.68";
        for command in [&["/bin/digitalocean-cloud-controller-manager", "--v=2"][..], &[]] {
            let all = told(&[pod("do", image, command, "Running")], &[]);
            let wanted = "Wrong Pod kube-system/do: runs digitalocean-cloud-controller-manager: it changes the same Nodes and Services";
            assert_eq!(all, [wanted], "{command:?}");
        }
        let shell = ["/bin/sh", "-c", "/bin/openstack-cloud-controller-manager"];
        assert!(told(&[pod("os", "x", &shell, "Running")], &[])[0].contains("runs openstack-cloud-controller-manager"));
    }

    #[test]
    fn a_manager_beside_a_dry_run_is_no_mistake() {
        let all = [
            pod("os", "x", &["openstack-cloud-controller-manager"], "Running"),
            pod("k", "x", &["kube-controller-manager", "--cloud-provider=openstack"], "Running"),
        ];
        for (purpose, wanted) in [(Purpose::DryRun, "Note"), (Purpose::Work, "Wrong"), (Purpose::Unknown, "Wrong")] {
            let told = told_to(purpose, &all, &[]);
            assert!(told.len() == 2 && told.iter().all(|one| one.starts_with(wanted)), "{purpose:?}: {told:?}");
        }
    }

    /// Whoever did what stood first scaled down what served another cloud.
    #[test]
    fn what_may_stay_is_told_before_what_cannot_be_undone() {
        let fix = |command: &str| {
            let peers = PeerSettings { namespace: "kube-system".into(), lease: "mine".into(), identity: None };
            judge(Ok(&[pod("os", "x", &[command], "Running")]), &peers, &[], Purpose::Work).remove(0).fix.unwrap()
        };
        let wanted = "if it serves another cloud, keep it, and run `wasm-ccm doctor --beside=openstack-cloud-controller-manager`; else scale its Deployment to 0, or delete its DaemonSet";
        assert_eq!(fix("/bin/openstack-cloud-controller-manager"), wanted);
        let quoted = fix("/bin/$(x)cloud-controller-manager");
        assert!(quoted.contains("--beside='$(x)cloud-controller-manager'`"), "{quoted}");
    }

    #[test]
    fn what_may_run_and_ourselves_are_good() {
        let good = ["Good : no other cloud controller manager runs in kube-system"];
        let image = "registry/openstack-cloud-controller-manager@sha256:00";
        assert_eq!(told(&[pod("os", image, &[], "Running")], &["openstack-cloud-controller-manager"]), good);
        for flag in [
            &["--leader-elect-resource-name=cloud-controller-manager"][..],
            &["--leader-elect-resource-name", "cloud-controller-manager"],
        ] {
            let ours = [&["wasm-ccm", "run"], flag].concat();
            let mut pod = pod("w", "registry/wasm-ccm:1", &ours, "Running");
            pod.metadata.labels = Some([("app.kubernetes.io/name".to_owned(), "wasm-ccm".to_owned())].into());
            assert_eq!(told(&[pod], &[]), good);
        }
    }

    #[test]
    fn a_manager_for_the_same_lease_is_told_as_such() {
        let go = "openstack-cloud-controller-manager";
        for (command, waits) in [
            (&[go, "--leader-elect-resource-name=mine"][..], true),
            (&[go, "--leader-elect-resource-name", "mine"], true),
            (&[go, "--leader-elect-resource-name=theirs"], false),
            (&[go], false),
        ] {
            let all = told(&[pod("os", "x", command, "Running")], &[]);
            let part = "and waits for Lease kube-system/mine, as wasm-ccm does";
            assert_eq!(all[0].ends_with(part), waits, "{all:?}");
        }
    }

    #[test]
    fn a_controller_manager_with_a_cloud_of_its_own_is_told() {
        for (command, is_wrong) in [
            (&["kube-controller-manager", "--cloud-provider=openstack"][..], true),
            (&["/usr/bin/kube-controller-manager", "--cloud-provider", "aws"], true),
            (&["kube-controller-manager", "--cloud-provider=external"], false),
            (&["kube-controller-manager", "--cloud-provider="], false),
            (&["kube-controller-manager", "--v=2"], false),
            (&["kubelet", "--cloud-provider=aws"], false),
        ] {
            let all = told(&[pod("k", "x", command, "Running")], &[]);
            assert_eq!(all[0].starts_with("Wrong"), is_wrong, "{all:?}");
        }
    }
}
