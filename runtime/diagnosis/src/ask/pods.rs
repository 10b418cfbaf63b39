//! Pods in the namespace of the Lease: hosts, and other managers.

use k8s_openapi::api::core::v1::{Container, Pod};
use kube::{Client, ResourceExt as _};
use serde::Deserialize;

use super::api_server::all;

/// In the names of the programs and of the Leases of all cloud controller managers.
pub(crate) const MANAGER: &str = "cloud-controller-manager";
/// The label of the pods of our manifests.
pub(crate) const LABEL: (&str, &str) = ("app.kubernetes.io/name", "wasm-ccm");
/// Our program.
const HOST: &str = "wasm-ccm";
/// What manifests call the health port: ours, and what others may.
const PORT_NAMES: [&str; 2] = ["metrics", "health"];
/// The flag of a host that writes nothing.
const DRY_RUN: &str = "--dry-run";
/// The health port, where a pod does not say.
const PORT: i32 = 10_258;

/// All that have not ended and are not ending.
///
/// # Errors
///
/// The API server does not give them: why.
pub(crate) async fn living(client: &Client, namespace: &str) -> Result<Vec<Pod>, String> {
    let mut pods = all(client, &format!("/api/v1/namespaces/{namespace}/pods"), None).await?;
    pods.retain(is_alive);
    Ok(pods)
}

/// A Deployment or a DaemonSet, as far as it says what its pods are.
#[derive(Clone, Deserialize)]
struct Workload {
    spec: WorkloadSpec,
}

#[derive(Clone, Deserialize)]
struct WorkloadSpec {
    /// It has the form of a pod.
    template: Pod,
}

/// What the Deployments and DaemonSets of a namespace make: one pod for each.
///
/// # Errors
///
/// The API server does not give them: why.
pub(crate) async fn intended(client: &Client, namespace: &str) -> Result<Vec<Pod>, String> {
    let mut intended = vec![];
    for kind in ["deployments", "daemonsets"] {
        let workloads: Vec<Workload> =
            all(client, &format!("/apis/apps/v1/namespaces/{namespace}/{kind}"), None).await?;
        intended.extend(workloads.into_iter().map(|workload| workload.spec.template));
    }
    Ok(intended)
}

/// Whether anything runs in it, or will.
pub(crate) fn is_alive(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    pod.metadata.deletion_timestamp.is_none() && !matches!(phase, Some("Succeeded" | "Failed"))
}

/// Whether it is one of a host: by the label of our manifests, or by the program.
pub(crate) fn is_host(pod: &Pod) -> bool {
    let (label, value) = LABEL;
    let is_labelled = pod.labels().get(label).is_some_and(|found| found == value);
    is_labelled || containers(pod).any(|container| program(container) == HOST)
}

/// Whether it is a host that writes nothing. The flag is read as the host reads it: the last one counts.
pub(crate) fn is_dry_run(pod: &Pod) -> bool {
    let said = |word: &str| {
        let (name, value) = word.split_once('=').unwrap_or((word, "true"));
        (name.replace('_', "-") == DRY_RUN).then_some(matches!(value, "1" | "t" | "T" | "true" | "TRUE" | "True"))
    };
    is_host(pod) && containers(pod).flat_map(words).filter_map(said).last() == Some(true)
}

/// The program of another cloud controller manager in it.
pub(crate) fn other_manager(pod: &Pod) -> Option<String> {
    containers(pod).map(program).find(|program| program.contains(MANAGER))
}

/// Whether a pod may be the holder `HOSTNAME_UUID` of a Lease: in the host network, the name of the host is that of the node.
pub(crate) fn may_hold(pod: &Pod, holder: &str) -> bool {
    let host = holder.rsplit_once('_').map_or(holder, |(host, _)| host);
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default();
    let is_node = !node.is_empty() && (node == host || node.split('.').next() == Some(host));
    !host.is_empty() && (pod.metadata.name.as_deref() == Some(host) || is_node)
}

/// The health port of a host: as its flag says it, else as its manifest calls it. It may have a port of the webhook, and sidecars have theirs.
pub(crate) fn port(pod: &Pod) -> i32 {
    let flagged = containers(pod).find_map(|container| flag(container, "--secure-port")?.parse().ok());
    let named = |name: &str| {
        let mut ports = containers(pod).flat_map(|container| container.ports.iter().flatten());
        ports.find(|port| port.name.as_deref() == Some(name)).map(|port| port.container_port)
    };
    flagged.or_else(|| PORT_NAMES.iter().find_map(|name| named(name))).unwrap_or(PORT)
}

/// Who may hold a Lease, of these pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Whose {
    /// A host of wasm-ccm: the name of its pod.
    Host(String),
    /// Another manager: the names of its pod and of its program.
    Other { pod: String, program: String },
    /// Nobody of these, or more than one.
    Unknown,
}

/// Who a holder is. A host and another manager on one node cannot be told apart.
pub(crate) fn whose(pods: &[Pod], holder: &str) -> Whose {
    let candidates: Vec<Whose> = pods
        .iter()
        .filter(|pod| may_hold(pod, holder))
        .filter_map(|pod| match other_manager(pod) {
            _ if is_host(pod) => Some(Whose::Host(pod.name_any())),
            other => Some(Whose::Other { pod: pod.name_any(), program: other? }),
        })
        .collect();
    match candidates.as_slice() {
        [one] => one.clone(),
        _ => Whose::Unknown,
    }
}

/// All containers that stay.
pub(crate) fn containers(pod: &Pod) -> impl Iterator<Item = &Container> {
    pod.spec.iter().flat_map(|spec| &spec.containers)
}

/// All words of its command line that are given.
pub(crate) fn words(container: &Container) -> impl Iterator<Item = &str> {
    container.command.iter().chain(&container.args).flatten().map(String::as_str)
}

/// The value of a flag, in both forms.
pub(crate) fn flag<'a>(container: &'a Container, name: &str) -> Option<&'a str> {
    let mut words = words(container);
    loop {
        match words.next()?.strip_prefix(name) {
            Some("") => return words.next(),
            Some(rest) if rest.starts_with('=') => return rest.strip_prefix('='),
            _ => {}
        }
    }
}

/// The name of what it runs: of the command where one is given, else of the image.
pub(crate) fn program(container: &Container) -> String {
    let is_manager = |word: &&str| !word.starts_with('-') && word.contains(MANAGER);
    let commanded = words(container).find(is_manager);
    let commanded = commanded.or_else(|| container.command.iter().flatten().map(String::as_str).next());
    let path = commanded.or(container.image.as_deref()).unwrap_or_default();
    let file = path.rsplit('/').next().unwrap_or_default();
    file.split(['@', ':']).next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(name: &str, node: &str, more: &Value) -> Pod {
        let mut pod = json!({ "metadata": { "name": name }, "spec": { "nodeName": node, "containers": [] } });
        for (part, fields) in more.as_object().unwrap() {
            for (key, value) in fields.as_object().unwrap() {
                pod[part][key] = value.clone();
            }
        }
        serde_json::from_value(pod).unwrap()
    }

    fn runs(command: &str) -> Value {
        json!({ "spec": { "containers": [{ "name": "c", "command": [command] }] } })
    }

    #[test]
    fn a_holder_is_one_of_the_pods_by_its_name_or_by_its_node() {
        let labelled = json!({ "metadata": { "labels": { "app.kubernetes.io/name": "wasm-ccm" } } });
        let ours = || pod("ccm-a", "node-1.example", &labelled);
        let go = || pod("go", "node-1.example", &runs("/bin/openstack-cloud-controller-manager"));
        let idle = || pod("proxy", "node-1.example", &runs("kube-proxy"));
        let host = Whose::Host("ccm-a".to_owned());
        let other = Whose::Other { pod: "go".to_owned(), program: "openstack-cloud-controller-manager".to_owned() };
        for (pods, holder, wanted) in [
            (vec![ours(), idle()], "node-1_7", host.clone()),
            (vec![ours(), go()], "ccm-a_7", host),
            (vec![go(), idle()], "node-1.example_7", other.clone()),
            (vec![ours(), go()], "go_7", other),
            // Both are on that node.
            (vec![ours(), go()], "node-1_7", Whose::Unknown),
            (vec![ours(), go()], "node-2_7", Whose::Unknown),
            (vec![ours()], "", Whose::Unknown),
            (vec![pod("by-hand", "node-3", &runs("/usr/bin/wasm-ccm"))], "node-3_7", Whose::Host("by-hand".to_owned())),
        ] {
            assert_eq!(whose(&pods, holder), wanted, "{holder}");
        }
    }

    /// With the webhook, whose port comes first in the rendered manifest, that one was asked.
    #[test]
    fn the_health_port_is_that_of_the_flag_or_the_one_with_its_name() {
        let webhook = json!({ "name": "webhook", "containerPort": 10_260 });
        let metrics = json!({ "name": "metrics", "containerPort": 10_258 });
        let other = json!({ "name": "metrics", "containerPort": 9_258 });
        for (args, ports, wanted) in [
            (json!([]), json!([webhook, metrics]), 10_258),
            (json!([]), json!([webhook, other]), 9_258),
            (json!(["run", "--secure-port=8443"]), json!([webhook, metrics]), 8_443),
            (json!(["--secure-port", "8443"]), json!([]), 8_443),
            (json!(["--secure-port=x"]), json!([webhook]), 10_258),
            (json!([]), json!([{ "containerPort": 10_260 }]), 10_258),
        ] {
            let more = json!({ "spec": { "containers": [{ "name": "c", "args": args, "ports": ports }] } });
            assert_eq!(port(&pod("a", "b", &more)), wanted, "{args} {ports}");
        }
    }

    #[test]
    fn a_dry_run_is_one_as_the_host_reads_its_flags() {
        for (args, wanted) in [
            (json!(["run", "--dry-run", "--v=4"]), true),
            (json!(["run", "--dry-run=true"]), true),
            (json!(["run", "--dry_run=T"]), true),
            (json!(["run", "--dry-run=false", "--dry-run"]), true),
            (json!(["run", "--dry-run", "--dry-run=false"]), false),
            (json!(["run", "--dry-run-not"]), false),
            (json!(["run"]), false),
        ] {
            let host = |labels: Value| json!({ "metadata": { "labels": labels }, "spec": { "containers": [{ "name": "c", "args": args }] } });
            let ours = pod("a", "b", &host(json!({ "app.kubernetes.io/name": "wasm-ccm" })));
            assert_eq!(is_dry_run(&ours), wanted, "{args}");
            assert!(!is_dry_run(&pod("a", "b", &host(json!({})))), "somebody else's {args}");
        }
    }

    #[test]
    fn a_pod_that_ended_or_goes_is_not_alive() {
        for (more, alive) in [
            (json!({}), true),
            (json!({ "status": { "phase": "Running" } }), true),
            (json!({ "status": { "phase": "Succeeded" } }), false),
            (json!({ "status": { "phase": "Failed" } }), false),
            (json!({ "metadata": { "deletionTimestamp": "2026-11-26T10:00:00Z" } }), false),
        ] {
            assert_eq!(is_alive(&pod("a", "b", &more)), alive, "{more}");
        }
    }

    #[test]
    fn a_flag_has_its_value_in_both_forms() {
        let of = |command: &[&str]| {
            let container = serde_json::from_value(json!({ "name": "c", "command": command })).unwrap();
            flag(&container, "--name").map(str::to_owned)
        };
        assert_eq!(of(&["x", "--name=a"]).as_deref(), Some("a"));
        assert_eq!(of(&["x", "--name", "a"]).as_deref(), Some("a"));
        assert_eq!(of(&["x", "--names=b", "--name="]).as_deref(), Some(""));
        assert_eq!(of(&["x", "--names=b"]), None);
    }
}
