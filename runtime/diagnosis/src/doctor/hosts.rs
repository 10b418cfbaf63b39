//! The pods of the host: whether they could run on a cluster whose Nodes all wait for them, and whether they do run.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodSpec, Toleration};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::ResourceExt as _;

use super::finding::{Check, Finding};
use crate::ask::pods::{LABEL, is_host, port};

/// The taint of each Node that nobody has initialised, as the kubelet writes it.
const TAINT: (&str, &str, &str) = ("node.cloudprovider.kubernetes.io/uninitialized", "true", "NoSchedule");
/// Reasons of containers that are on their way.
const STARTING: [&str; 2] = ["ContainerCreating", "PodInitializing"];

/// `pods`: those that live, or why they cannot be read. A pod that is older than `patience` should be ready.
pub(super) fn judge(
    pods: Result<&[Pod], &String>,
    namespace: &str,
    patience: SignedDuration,
    now: Timestamp,
) -> Vec<Finding> {
    let check = Check::Hosts;
    let pods: Vec<&Pod> = match pods {
        Ok(pods) => pods.iter().filter(|pod| is_host(pod)).collect(),
        // Which says why.
        Err(_why) => {
            return vec![
                check.unjudged("the pods of the host cannot be read", "first do what the finding `managers` says"),
            ];
        }
    };
    if pods.is_empty() {
        let found = format!("no pod in {namespace} is one of the host: it runs elsewhere, or nowhere");
        let fix = "nothing, if a host outside of the cluster leads (see leases); if its pods are in another namespace, run doctor again with their --leader-elect-resource-namespace; else apply your overlay or Helm release";
        return vec![check.note(found, fix)];
    }
    let named = |pods: Vec<&&Pod>| pods.into_iter().map(|pod| name(namespace, pod)).collect::<Vec<_>>();
    let mut findings = vec![];
    let strict = named(pods.iter().filter(|pod| !is_tolerant(pod)).collect());
    if !strict.is_empty() {
        let (key, _, effect) = TAINT;
        let found = format!(
            "does not tolerate the taint {key}: on a cluster whose Nodes all wait for their initialisation, no host can start"
        );
        let fix = format!(
            "add {{key: {key}, operator: Exists, effect: {effect}}} to `tolerations` of its Deployment, as in manifests/base/deployment.yaml"
        );
        findings.push(check.wrong(found, fix).about(strict));
    }
    findings.extend(
        pods.iter().filter_map(|pod| Some(stuck(pod, namespace, patience, now)?.about([name(namespace, pod)]))),
    );
    let dependent = named(pods.iter().filter(|pod| pod.spec.as_ref().is_some_and(asks_cluster)).collect());
    if !dependent.is_empty() {
        let found = "asks the DNS of the cluster for names, and its pods do not run before a host has initialised their Nodes: on a new cluster, the name of the cloud does not resolve";
        let fix =
            "set `hostNetwork: true` and `dnsPolicy: Default` in its Deployment, as in manifests/base/deployment.yaml";
        findings.push(Check::Dns.note(found, fix).about(dependent));
    }
    if findings.iter().all(|finding| finding.check != check) {
        findings.push(check.good(format!("pods of the host: {}; all are ready, or have just been made", pods.len())));
    }
    findings.extend(versions(&pods, namespace));
    findings
}

/// That replicas are of more than one version.
fn versions(pods: &[&Pod], namespace: &str) -> Option<Finding> {
    let mut images: BTreeMap<&str, usize> = BTreeMap::new();
    // Pods that have ended stay for a while.
    let phase = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.clone());
    let living = pods.iter().filter(|pod| !matches!(phase(pod).as_deref(), Some("Failed" | "Succeeded")));
    for image in living.filter_map(|pod| pod.spec.as_ref()?.containers.first()?.image.as_deref()) {
        let count = images.entry(image).or_default();
        *count = count.saturating_add(1);
    }
    if images.len() < 2 {
        return None;
    }
    let images: Vec<String> = images.into_iter().map(|(image, count)| format!("{image} ({count})")).collect();
    let (label, value) = LABEL;
    let fix = format!(
        "nothing, while a rollout is under way; else `kubectl -n {namespace} get pods -l {label}={value} -o wide` shows which ones are left over"
    );
    Some(Check::Hosts.note(format!("its pods run different images: {}", images.join(", ")), fix))
}

fn name(namespace: &str, pod: &Pod) -> String {
    format!("Pod {namespace}/{}", pod.name_any())
}

fn is_tolerant(pod: &Pod) -> bool {
    let (key, value, effect) = TAINT;
    let is_one = |one: &Toleration| {
        let exists = one.operator.as_deref() == Some("Exists");
        let is_key = match one.key.as_deref() {
            None | Some("") => exists,
            Some(other) => other == key && (exists || one.value.as_deref() == Some(value)),
        };
        is_key && one.effect.as_deref().is_none_or(|other| other.is_empty() || other == effect)
    };
    pod.spec.iter().flat_map(|spec| spec.tolerations.iter().flatten()).any(is_one)
}

/// Whether its names are resolved by pods of the cluster.
fn asks_cluster(spec: &PodSpec) -> bool {
    match spec.dns_policy.as_deref() {
        Some("ClusterFirstWithHostNet") => true,
        // In the network of the host, it falls back to the name server of the Node.
        None | Some("ClusterFirst") => spec.host_network != Some(true),
        _ => false,
    }
}

/// Why a pod does not work.
fn stuck(pod: &Pod, namespace: &str, patience: SignedDuration, now: Timestamp) -> Option<Finding> {
    let check = Check::Hosts;
    let status = pod.status.as_ref();
    let conditions = || status.into_iter().flat_map(|status| status.conditions.iter().flatten());
    let short = pod.name_any();
    let describe = format!("`kubectl -n {namespace} describe pod {short}` shows why");
    if let Some(condition) = conditions().find(|one| one.type_ == "PodScheduled" && one.status == "False") {
        let why = condition.message.as_deref().unwrap_or("the scheduler does not say why");
        return Some(check.wrong(
            format!("no Node takes it: {why}"),
            "add Nodes, or the tolerations of manifests/base/deployment.yaml",
        ));
    }
    let containers = || {
        status
            .into_iter()
            .flat_map(|status| status.init_container_statuses.iter().chain(&status.container_statuses).flatten())
    };
    let waiting = |one: &ContainerStatus| {
        let waiting = one.state.as_ref()?.waiting.as_ref()?;
        Some((waiting.reason.clone().unwrap_or_default(), waiting.message.clone().unwrap_or_default()))
    };
    let is_old = pod.metadata.creation_timestamp.as_ref().is_some_and(|made| now.duration_since(made.0) > patience);
    match containers().find_map(waiting) {
        Some((reason, message)) if !STARTING.contains(&reason.as_str()) => {
            let fix = match reason.as_str() {
                "CrashLoopBackOff" => format!("`kubectl -n {namespace} logs {short} --previous` shows what ended it"),
                "ErrImagePull" | "ImagePullBackOff" | "InvalidImageName" => {
                    "name an image in your overlay or Helm values that the Nodes can pull".to_owned()
                }
                _ => describe,
            };
            let colon = if message.is_empty() { "" } else { ": " };
            Some(check.wrong(format!("does not run ({reason}){colon}{message}"), fix))
        }
        Some((reason, _)) if is_old => Some(check.wrong(
            format!("has not started for more than {patience:#} ({reason})"),
            format!("{describe}; often a ConfigMap or Secret that it mounts is missing"),
        )),
        None if is_old && conditions().any(|one| one.type_ == "Ready" && one.status == "False") => {
            let port = port(pod);
            let fix = format!(
                "`kubectl -n {namespace} port-forward {short} {port}`, then `curl -k https://127.0.0.1:{port}/readyz` says what it waits for"
            );
            Some(check.wrong("runs, and is not ready", fix))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn good() -> Value {
        let toleration = json!({ "key": TAINT.0, "operator": "Exists", "effect": "NoSchedule" });
        json!({
            "metadata": { "name": "a", "labels": { "app.kubernetes.io/name": "wasm-ccm" }, "creationTimestamp": "2026-11-26T09:00:00Z" },
            "spec": { "hostNetwork": true, "dnsPolicy": "Default", "tolerations": [toleration], "containers": [] },
            "status": { "conditions": [{ "type": "Ready", "status": "True" }] },
        })
    }

    fn told(pods: &[Value]) -> Vec<String> {
        let pods: Vec<Pod> = pods.iter().map(|pod| serde_json::from_value(pod.clone()).unwrap()).collect();
        let now = "2026-11-26T10:00:00Z".parse().unwrap();
        let findings = judge(Ok(&pods), "kube-system", SignedDuration::from_mins(5), now);
        assert!(
            findings.iter().all(|one| (one.judgement == super::super::finding::Judgement::Good) == one.fix.is_none())
        );
        findings
            .into_iter()
            .map(|one| format!("{:?} {:?} {}: {}", one.check, one.judgement, one.objects.join(", "), one.found))
            .collect()
    }

    fn with(change: impl Fn(&mut Value)) -> Vec<String> {
        let mut pod = good();
        change(&mut pod);
        told(&[pod])
    }

    #[test]
    fn a_host_that_runs_is_good_and_one_that_is_elsewhere_is_told() {
        let wanted = ["Hosts Good : pods of the host: 2; all are ready, or have just been made"];
        assert_eq!(told(&[good(), good()]), wanted);
        assert!(told(&[])[0].starts_with("Hosts Note : no pod in kube-system is one of the host"));
        let nowhere = judge(Ok(&[]), "kube-system", SignedDuration::ZERO, Timestamp::now()).remove(0).fix.unwrap();
        assert!(nowhere.contains("run doctor again with their --leader-elect-resource-namespace"), "{nowhere}");
        let other = json!({ "metadata": { "name": "x" }, "spec": { "containers": [] } });
        assert!(told(&[other])[0].starts_with("Hosts Note"));
        let why = "forbidden".to_owned();
        let findings = judge(Err(&why), "kube-system", SignedDuration::ZERO, Timestamp::now());
        assert_eq!(findings[0].judgement, super::super::finding::Judgement::Unjudged);
    }

    #[test]
    fn only_a_toleration_for_the_taint_of_the_kubelet_lets_it_start() {
        for (toleration, is_good) in [
            (json!({ "operator": "Exists" }), true),
            (json!({ "key": "", "operator": "Exists", "effect": "" }), true),
            (json!({ "key": TAINT.0, "operator": "Exists" }), true),
            (json!({ "key": TAINT.0, "value": "true", "effect": "NoSchedule" }), true),
            (json!({ "key": TAINT.0, "operator": "Equal", "value": "true" }), true),
            (json!({ "key": TAINT.0, "operator": "Equal", "value": "false" }), false),
            (json!({ "key": TAINT.0 }), false),
            (json!({ "key": TAINT.0, "operator": "Exists", "effect": "NoExecute" }), false),
            (json!({ "key": "node-role.kubernetes.io/control-plane", "operator": "Exists" }), false),
            (json!({}), false),
        ] {
            let all = with(|pod| pod["spec"]["tolerations"] = json!([toleration]));
            assert_eq!(all[0].starts_with("Hosts Good"), is_good, "{toleration}: {all:?}");
            assert!(
                is_good || all[0].starts_with("Hosts Wrong Pod kube-system/a: does not tolerate the taint"),
                "{all:?}"
            );
            assert_eq!(all.len(), 1);
        }
    }

    #[test]
    fn what_keeps_a_pod_from_running_is_told_with_its_reason() {
        let waits = |reason: &str, message: Option<&str>| json!([{ "name": "c", "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": { "waiting": { "reason": reason, "message": message } } }]);
        let crash = with(|pod| pod["status"]["containerStatuses"] = waits("CrashLoopBackOff", Some("back-off 5m")));
        assert_eq!(crash, ["Hosts Wrong Pod kube-system/a: does not run (CrashLoopBackOff): back-off 5m"]);
        let init = with(|pod| pod["status"]["initContainerStatuses"] = waits("ErrImagePull", None));
        assert_eq!(init, ["Hosts Wrong Pod kube-system/a: does not run (ErrImagePull)"]);
        let old = with(|pod| pod["status"]["containerStatuses"] = waits("ContainerCreating", None));
        assert_eq!(old, ["Hosts Wrong Pod kube-system/a: has not started for more than 5m (ContainerCreating)"]);
        let young = "2026-11-26T09:55:00Z";
        let new = with(|pod| {
            pod["status"]["containerStatuses"] = waits("ContainerCreating", None);
            pod["metadata"]["creationTimestamp"] = json!(young);
        });
        assert!(new[0].starts_with("Hosts Good"), "{new:?}");
        let unready = |pod: &mut Value| pod["status"]["conditions"][0]["status"] = json!("False");
        assert_eq!(with(unready), ["Hosts Wrong Pod kube-system/a: runs, and is not ready"]);
        let new = with(|pod| {
            unready(pod);
            pod["metadata"]["creationTimestamp"] = json!(young);
        });
        assert!(new[0].starts_with("Hosts Good"), "{new:?}");
        let nowhere = with(|pod| {
            unready(pod);
            let condition = json!({ "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available" });
            pod["status"]["conditions"].as_array_mut().unwrap().push(condition);
        });
        assert_eq!(nowhere, ["Hosts Wrong Pod kube-system/a: no Node takes it: 0/3 nodes are available"]);
    }

    #[test]
    fn replicas_of_different_versions_are_told_with_their_images() {
        let of = |image: &str| {
            let mut pod = good();
            pod["spec"]["containers"] = json!([{ "name": "wasm-ccm", "image": image }]);
            pod
        };
        let mut evicted = of("a:0");
        evicted["status"]["phase"] = json!("Failed");
        assert_eq!(told(&[of("a:1"), of("a:1"), evicted]).len(), 1);
        let all = told(&[of("a:2"), of("a:1"), of("a:2")]);
        assert_eq!(all[1..], ["Hosts Note : its pods run different images: a:1 (1), a:2 (2)"], "{all:?}");
        assert!(all[0].starts_with("Hosts Good"), "{all:?}");
    }

    /// A dry run beside another manager has another port than the manifests of a host that works.
    #[test]
    fn who_is_not_ready_is_asked_at_its_own_port() {
        for (args, ports, wanted) in [
            (json!(["run"]), json!([]), 10_258),
            (json!(["run", "--dry-run", "--secure-port=10268"]), json!([]), 10_268),
            (json!(["run"]), json!([{ "name": "metrics", "containerPort": 9_258 }]), 9_258),
        ] {
            let mut pod = good();
            pod["status"]["conditions"][0]["status"] = json!("False");
            pod["spec"]["containers"] = json!([{ "name": "wasm-ccm", "args": args, "ports": ports }]);
            let pod = serde_json::from_value(pod).unwrap();
            let now = "2026-11-26T10:00:00Z".parse().unwrap();
            let finding = judge(Ok(&[pod]), "kube-system", SignedDuration::from_mins(5), now).remove(0);
            let fix = format!(
                "`kubectl -n kube-system port-forward a {wanted}`, then `curl -k https://127.0.0.1:{wanted}/readyz` says what it waits for"
            );
            assert_eq!(finding.fix, Some(fix), "{args} {ports}");
        }
    }

    #[test]
    fn a_host_that_needs_the_dns_of_the_cluster_is_told() {
        for (network, policy, is_told) in [
            (true, Some("Default"), false),
            (true, Some("ClusterFirst"), false),
            (true, None, false),
            (true, Some("ClusterFirstWithHostNet"), true),
            (false, Some("ClusterFirst"), true),
            (false, None, true),
            (false, Some("Default"), false),
            (false, Some("None"), false),
        ] {
            let all =
                with(|pod| (pod["spec"]["hostNetwork"], pod["spec"]["dnsPolicy"]) = (json!(network), json!(policy)));
            assert_eq!(
                all[0].starts_with("Dns Note Pod kube-system/a: asks the DNS"),
                is_told,
                "{network} {policy:?}: {all:?}"
            );
            assert!(all.last().unwrap().starts_with("Hosts Good"), "{all:?}");
        }
    }
}
