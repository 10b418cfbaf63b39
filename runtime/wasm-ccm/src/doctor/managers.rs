//! Other cloud controller managers that run in the namespace of the Lease, with or without an election.

use k8s_openapi::api::core::v1::{Container, Pod};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};

use super::finding::{Check, Finding};
use super::leases::MANAGER;
use super::rights::answered;

/// The flag that says which cloud a component of Kubernetes serves by itself.
const CLOUD: &str = "--cloud-provider";

/// Reads the pods.
pub(super) async fn read(client: &Client, namespace: &str, beside: &[String]) -> Vec<Finding> {
    let check = Check::Managers;
    let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let parameters = ListParams::default();
    match answered(api.list(&parameters)).await {
        Ok(pods) => judge(&pods.items, namespace, beside),
        Err(why) => {
            let fix = format!("give a kubeconfig that may list pods in {namespace}");
            vec![check.unjudged(format!("whether another manager runs in {namespace} is not known: {why}"), fix)]
        }
    }
}

fn judge(pods: &[Pod], namespace: &str, beside: &[String]) -> Vec<Finding> {
    let check = Check::Managers;
    let mut findings = vec![];
    for pod in pods.iter().filter(|pod| is_alive(pod)) {
        let name = [format!("Pod {namespace}/{}", pod.name_any())];
        let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
        for container in containers {
            let program = program(container);
            if program.contains(MANAGER) && !beside.contains(&program) {
                let found = format!("runs {program}: it changes the same Nodes and Services");
                let fix = format!(
                    "scale its Deployment to 0 or delete its DaemonSet; if it serves another cloud, doctor --beside={program}"
                );
                findings.push(check.wrong(found, fix).about(name.clone()));
            }
            if let Some(cloud) = own_cloud(container, &program) {
                let found = format!("{program} runs with {CLOUD}={cloud}: it has cloud controllers of its own");
                let fix = format!("set {CLOUD}=external in its manifest on each machine of the control plane");
                findings.push(check.wrong(found, fix).about(name.clone()));
            }
        }
    }
    if findings.is_empty() {
        findings.push(check.good(format!("no other cloud controller manager runs in {namespace}")));
    }
    findings
}

fn is_alive(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    pod.metadata.deletion_timestamp.is_none() && !matches!(phase, Some("Succeeded" | "Failed"))
}

/// All words of its command line that are given.
fn words(container: &Container) -> impl Iterator<Item = &str> {
    container.command.iter().chain(&container.args).flatten().map(String::as_str)
}

/// The name of what it runs: of the command where one is given, else of the image.
fn program(container: &Container) -> String {
    let is_manager = |word: &&str| !word.starts_with('-') && word.contains(MANAGER);
    let commanded = words(container).find(is_manager);
    let commanded = commanded.or_else(|| container.command.iter().flatten().map(String::as_str).next());
    let path = commanded.or(container.image.as_deref()).unwrap_or_default();
    let file = path.rsplit('/').next().unwrap_or_default();
    file.split(['@', ':']).next().unwrap_or_default().to_owned()
}

/// The cloud that kube-controller-manager serves by itself.
fn own_cloud(container: &Container, program: &str) -> Option<String> {
    let mut words = words(container).skip_while(|word| !word.starts_with(CLOUD));
    let first = words.next().filter(|_| program == "kube-controller-manager")?;
    let cloud = match first.strip_prefix(CLOUD)? {
        "" => words.next()?,
        value => value.strip_prefix('=')?,
    };
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
        let beside: Vec<String> = beside.iter().map(|&name| name.to_owned()).collect();
        let findings = judge(pods, "kube-system", &beside);
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
    fn what_has_ended_what_may_run_and_ourselves_are_good() {
        let good = ["Good : no other cloud controller manager runs in kube-system"];
        let image = "registry/openstack-cloud-controller-manager@sha256:00";
        assert_eq!(told(&[pod("os", image, &[], "Succeeded")], &[]), good);
        assert_eq!(told(&[pod("os", image, &[], "Running")], &["openstack-cloud-controller-manager"]), good);
        let ours = ["wasm-ccm", "run", "--leader-elect-resource-name=cloud-controller-manager"];
        assert_eq!(told(&[pod("w", "registry/wasm-ccm:1", &ours, "Running")], &[]), good);
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
