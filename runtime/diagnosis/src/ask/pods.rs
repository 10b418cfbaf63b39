//! Pods in the namespace of the Lease: hosts, and other managers.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Container, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{Selector, SelectorExt as _};
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
/// The flag with the health port.
const SECURE_PORT: &str = "--secure-port";
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
    /// A DaemonSet has none.
    replicas: Option<i32>,
    selector: LabelSelector,
    /// It has the form of a pod.
    template: Pod,
}

impl Workload {
    /// Whether it made this pod, in this rollout or in one before. Who copies its labels by hand has no controller.
    fn made(&self, pod: &Pod) -> bool {
        let mut owners = pod.owner_references().iter().filter(|owner| owner.controller == Some(true));
        owners.any(|owner| matches!(owner.kind.as_str(), "ReplicaSet" | "DaemonSet"))
            && Selector::try_from(self.spec.selector.clone()).is_ok_and(|selector| selector.matches(pod.labels()))
    }
}

/// What the Deployments and DaemonSets of a namespace make, one pod for each, and those of the `living` hosts that none of them made. One
/// that wants no pods makes none.
///
/// # Errors
///
/// The API server does not give them: why.
pub(crate) async fn intended(client: &Client, namespace: &str, living: &[Pod]) -> Result<Vec<Pod>, String> {
    let mut workloads: Vec<Workload> = vec![];
    for kind in ["deployments", "daemonsets"] {
        workloads.extend(all::<Workload>(client, &format!("/apis/apps/v1/namespaces/{namespace}/{kind}"), None).await?);
    }
    workloads.retain(|workload| workload.spec.replicas != Some(0));
    let is_alone = |pod: &&Pod| is_host(pod) && !workloads.iter().any(|workload| workload.made(pod));
    let alone: Vec<Pod> = living.iter().filter(is_alone).cloned().collect();
    Ok(workloads.into_iter().map(|workload| workload.spec.template).chain(alone).collect())
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

/// Whether it is a host that writes nothing.
pub(crate) fn is_dry_run(pod: &Pod) -> bool {
    is_host(pod) && host(pod).is_some_and(|host| is_on(host, DRY_RUN))
}

/// What a host creates at the API server to learn whose a token is and what it may get: where others than its machine reach its port.
pub(crate) fn reviews(pod: &Pod) -> Vec<&'static str> {
    let Some(host) = host(pod) else { return vec![] };
    let address = flag(host, "--bind-address").and_then(|address| address.parse::<IpAddr>().ok());
    let is_inside = address.is_some_and(|address| address.to_canonical().is_loopback());
    let is_served = flag(host, SECURE_PORT) != Some("0");
    if !is_served || (is_inside && !is_on(host, "--authentication-on-loopback")) {
        return vec![];
    }
    // A file that is named has an account of its own.
    let asks =
        [("tokenreviews", "--authentication-kubeconfig"), ("subjectaccessreviews", "--authorization-kubeconfig")];
    let is_own = |file: &str| flag(host, file).is_none_or(str::is_empty);
    asks.into_iter().filter(|(_, file)| is_own(file)).map(|(review, _)| review).collect()
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
    let Some(host) = host(pod) else { return PORT };
    let flagged = flag(host, SECURE_PORT).and_then(|port| port.parse().ok());
    let named = |name: &str| {
        let mut ports = host.ports.iter().flatten();
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

/// The container of a host. Sidecars have flags and ports of their own.
fn host(pod: &Pod) -> Option<&Container> {
    let ours = containers(pod).find(|container| program(container) == HOST);
    ours.or_else(|| containers(pod).find(|container| container.name == HOST)).or_else(|| containers(pod).next())
}

/// All containers that stay.
pub(crate) fn containers(pod: &Pod) -> impl Iterator<Item = &Container> {
    pod.spec.iter().flat_map(|spec| &spec.containers)
}

/// All words of its command line that are given.
pub(crate) fn words(container: &Container) -> impl Iterator<Item = &str> {
    container.command.iter().chain(&container.args).flatten().map(String::as_str)
}

/// The value of a flag, in both forms. The last one counts, as for the programs: components of our manifests add theirs at the end.
pub(crate) fn flag<'a>(container: &'a Container, name: &str) -> Option<&'a str> {
    let (mut words, mut value) = (words(container), None);
    while let Some(word) = words.next() {
        match word.split_once('=') {
            Some((left, right)) if is_named(left, name) => value = Some(right),
            None if is_named(word, name) => value = words.next(),
            _ => {}
        }
    }
    value
}

/// Whether a flag is given that needs no value. The last one counts.
fn is_on(container: &Container, name: &str) -> bool {
    let said = |word: &str| {
        let (left, value) = word.split_once('=').unwrap_or((word, "true"));
        is_named(left, name).then_some(matches!(value, "1" | "t" | "T" | "true" | "TRUE" | "True"))
    };
    words(container).filter_map(said).last() == Some(true)
}

/// As programs of Kubernetes read names.
fn is_named(word: &str, name: &str) -> bool {
    word.replace('_', "-") == name
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
            // A component of the manifests adds its flag at the end.
            (json!(["--secure-port=8443", "--secure-port=10268"]), json!([]), 10_268),
        ] {
            let host = json!({ "name": "wasm-ccm", "args": args, "ports": ports });
            let proxy = json!({ "name": "a", "args": ["--secure-port=9443"], "ports": [{ "name": "metrics", "containerPort": 9_443 }] });
            for containers in [json!([host]), json!([proxy, host])] {
                let more = json!({ "spec": { "containers": containers } });
                assert_eq!(port(&pod("a", "b", &more)), wanted, "{containers}");
            }
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
        // Sidecars have flags of their own.
        let container = |name: &str, image: &str, args: Value| json!({ "name": name, "image": image, "args": args });
        let side = |word: &str| container("side", "registry/sync:1", json!([word]));
        for (args, wanted) in [(json!(["run"]), false), (json!(["run", "--dry-run"]), true)] {
            for word in ["--dry-run", "--dry-run=client", "--dry-run=false"] {
                for (name, image) in [("c", "registry/wasm-ccm:1"), ("wasm-ccm", "registry/mirrored:1")] {
                    let host = container(name, image, args.clone());
                    for containers in [json!([host, side(word)]), json!([side(word), host])] {
                        let labels = json!({ "app.kubernetes.io/name": "wasm-ccm" });
                        let more = json!({ "metadata": { "labels": labels }, "spec": { "containers": containers } });
                        assert_eq!(is_dry_run(&pod("a", "b", &more)), wanted, "{containers}");
                    }
                }
            }
        }
    }

    /// As `run` decides whether it asks the API server.
    #[test]
    fn a_host_asks_whose_a_token_is_where_others_reach_its_port() {
        let both = &["tokenreviews", "subjectaccessreviews"][..];
        for (words, wanted) in [
            (&["--bind-address=0.0.0.0"][..], both),
            (&["--bind-address", "::"], both),
            (&["--bind-address=$(POD_IP)"], both),
            (&["--bind-address=127.0.0.1", "--bind_address=0.0.0.0"], both),
            // All addresses, if nobody says otherwise.
            (&[], both),
            (&["--bind-address=127.0.0.1"], &[]),
            (&["--bind-address=::ffff:127.0.0.1"], &[]),
            (&["--bind-address=0.0.0.0", "--bind-address=::1"], &[]),
            (&["--bind-address=127.0.0.1", "--authentication-on-loopback"], both),
            (&["--bind-address=127.0.0.1", "--authentication-on-loopback=false"], &[]),
            (&["--secure-port=0"], &[]),
            (&["--authentication-kubeconfig=/a"], &both[1..]),
            (&["--authentication-kubeconfig=", "--authorization-kubeconfig=/a"], &both[..1]),
        ] {
            let more = json!({ "spec": { "containers": [{ "name": "c", "args": words }] } });
            assert_eq!(reviews(&pod("a", "b", &more)), wanted, "{words:?}");
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
        // As programs read it.
        assert_eq!(of(&["x", "--name=a", "--name=b"]).as_deref(), Some("b"));
        assert_eq!(of(&["x", "--name=a", "--name", "b"]).as_deref(), Some("b"));
    }
}
