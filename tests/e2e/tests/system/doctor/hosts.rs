//! Pods of the host that do not run, or could not on a new cluster.

use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::{create, doctor, provider};
use crate::stage::Stage;

/// A pod of the host, with what is `more` in its spec.
pub(super) async fn pod(stage: &Stage, name: &str, more: Value, status: Value) {
    let container = json!({ "name": "wasm-ccm", "image": "registry.example/wasm-ccm:1", "args": ["run"] });
    let mut spec = json!({ "containers": [container], "hostNetwork": true, "dnsPolicy": "Default" });
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    let metadata = json!({ "name": name, "labels": { "app.kubernetes.io/name": "wasm-ccm" } });
    let pods = Api::<Pod>::namespaced(stage.client().clone(), "kube-system");
    create(pods.clone(), json!({ "metadata": metadata, "spec": spec })).await;
    pods.patch_status(name, &PatchParams::default(), &Patch::Merge(json!({ "status": status }))).await.unwrap();
}

/// A host that could never start was once not looked at, when nobody led.
#[tokio::test]
async fn pods_of_the_host_that_do_not_run_are_told_with_the_reason() {
    let stage = Stage::new().await;
    let look = || doctor(&stage.cluster.kubeconfig(), &[&provider()]);
    assert!(look().one("hosts", "note").1.starts_with("no pod in kube-system is one of the host"));
    let accounts = Api::<ServiceAccount>::namespaced(stage.client().clone(), "kube-system");
    if accounts.get_opt("default").await.unwrap().is_none() {
        create(accounts, json!({ "metadata": { "name": "default" } })).await;
    }
    let tolerations = json!([{ "key": "node.cloudprovider.kubernetes.io/uninitialized", "operator": "Exists", "effect": "NoSchedule" }]);
    let tolerant = || json!({ "tolerations": tolerations });
    pod(&stage, "good", tolerant(), json!({ "phase": "Running" })).await;
    let (_, found) = look().one("hosts", "good");
    assert_eq!(found, "pods of the host: 1; all are ready, or have just been made");

    pod(&stage, "strict", json!({}), json!({ "phase": "Running" })).await;
    let unscheduled = json!({ "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available" });
    pod(&stage, "nowhere", tolerant(), json!({ "phase": "Pending", "conditions": [unscheduled] })).await;
    let waiting = json!({ "waiting": { "reason": "ImagePullBackOff", "message": "no such image" } });
    let status = json!([{ "name": "wasm-ccm", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": waiting }]);
    pod(&stage, "unpulled", tolerant(), json!({ "phase": "Pending", "containerStatuses": status })).await;
    let waiting = json!({ "waiting": { "reason": "CrashLoopBackOff", "message": "back-off 5m0s" } });
    let status = json!([{ "name": "wasm-ccm", "image": "", "imageID": "", "ready": false, "restartCount": 7, "state": waiting }]);
    pod(&stage, "crashing", tolerant(), json!({ "phase": "Running", "containerStatuses": status })).await;
    let dns = json!({ "tolerations": tolerations, "dnsPolicy": "ClusterFirstWithHostNet" });
    pod(&stage, "resolver", dns, json!({ "phase": "Running" })).await;
    let answer = look();
    for (object, part) in [
        ("strict", "does not tolerate the taint node.cloudprovider.kubernetes.io/uninitialized"),
        ("nowhere", "no Node takes it: 0/1 nodes are available"),
        ("unpulled", "does not run (ImagePullBackOff): no such image"),
        ("crashing", "does not run (CrashLoopBackOff): back-off 5m0s"),
    ] {
        let hosts = answer.of("hosts");
        let of = hosts.iter().filter(|finding| finding["objects"] == json!([format!("Pod kube-system/{object}")]));
        let of: Vec<_> = of.collect();
        assert!(of.len() == 1 && of[0]["found"].as_str().unwrap().contains(part), "{object}: {}", answer.text);
        assert_eq!(of[0]["judgement"], "wrong");
    }
    let (objects, found) = answer.one("dns", "note");
    assert_eq!(objects, ["Pod kube-system/resolver"]);
    assert!(found.starts_with("asks the DNS of the cluster"), "{found}");

    let unready = json!({ "phase": "Running", "conditions": [{ "type": "Ready", "status": "False" }] });
    let container = json!({ "name": "wasm-ccm", "image": "registry.example/wasm-ccm:2", "args": ["run"] });
    pod(&stage, "unready", json!({ "tolerations": tolerations, "containers": [container] }), unready).await;
    let answer = doctor(&stage.cluster.kubeconfig(), &[&provider(), "--waiting-after=0s"]);
    let is_unready = |finding: &&&Value| finding["objects"] == json!(["Pod kube-system/unready"]);
    let hosts = answer.of("hosts");
    let found: Vec<_> = hosts.iter().filter(is_unready).map(|finding| finding["found"].clone()).collect();
    assert_eq!(found, ["runs, and is not ready"], "{}", answer.text);
    let (_, found) = answer.one("hosts", "note");
    let images = "its pods run different images: registry.example/wasm-ccm:1 (6), registry.example/wasm-ccm:2 (1)";
    assert_eq!(found, images);
}
