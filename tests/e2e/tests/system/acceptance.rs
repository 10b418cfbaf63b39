//! The walk-through of the Cloudlycke reference, section 4, on path C: kwok plays the kubelets. need a real
//! kubelet; Services are in `walkthrough`.

use std::collections::BTreeMap;

use ccm_cluster::{NodeFixture, Settings, UNINITIALIZED_TAINT, await_all, await_node, register_nodes};
use ccm_e2e::manifest::put_component;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::Api;
use kube::ResourceExt as _;
use kube::api::PostParams;
use kube::runtime::watcher;
use serde_json::json;

use crate::look::{FIXTURE_TYPE, PAIRS, addresses, await_event, get, is_tainted, told_once};
use crate::stage::{LIMIT, Stage, cloudlycke};

/// The machines of the demonstration, and a third: type and provider ID as they must be afterwards.
const NODES: [(&str, &str, &str, &str); 3] = [
    ("master-c2-1", "192.168.20.10", "vbox.vm.512mb.1cpu", "cloudlycke://m-c2-1"),
    ("node-c2-1", "192.168.20.11", "vbox.vm.1g.2cpu", "cloudlycke://n-c2-1"),
    ("node-c2-2", "192.168.20.12", FIXTURE_TYPE, "cloudlycke://n-c2-2"),
];

fn taints(node: &Node) -> Vec<String> {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    taints
        .map(|taint| format!("{}={}:{}", taint.key, taint.value.as_deref().unwrap_or_default(), taint.effect))
        .collect()
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

#[tokio::test]
async fn a_cluster_before_and_after_its_cloud_controller_manager() {
    let stage = Stage::with(Settings::everything()).await;
    let client = stage.client();
    let fixtures = NODES.map(|(name, ip, ..)| NodeFixture::new(name).provided_node_ip(ip).kwok());
    register_nodes(client, fixtures).await.unwrap();

    // all Ready, and the only taint is the one that waits for us. A-02: no label, no provider ID.
    let ours = format!("{UNINITIALIZED_TAINT}=true:NoSchedule");
    for (name, ..) in NODES {
        let node = await_node(client, name, LIMIT, |node| is_ready(node) && taints(node) == [ours.as_str()]).await;
        let node = node.unwrap_or_else(|error| panic!("A-01: {error:#}"));
        assert_eq!(node.spec.as_ref().unwrap().provider_id, None, "A-02");
        for label in PAIRS.iter().flat_map(|(old, new)| [old, new]) {
            assert!(!node.labels().contains_key(*label), "A-02: {label}");
        }
    }

    // three pods stay Pending. A-05: the scheduler says that a taint is why, and there is only ours.
    let deployment: Deployment = serde_json::from_value(json!({
        "metadata": { "name": "nginx-demo" },
        "spec": {
            "replicas": 3,
            "selector": { "matchLabels": { "app": "nginx-demo" } },
            "template": {
                "metadata": { "labels": { "app": "nginx-demo" } },
                "spec": { "containers": [{ "name": "nginx", "image": "registry.example/nginx" }] },
            },
        },
    }))
    .unwrap();
    Api::default_namespaced(client.clone()).create(&PostParams::default(), &deployment).await.unwrap();
    let events: Api<Event> = Api::default_namespaced(client.clone());
    let selection = watcher::Config::default().fields("reason=FailedScheduling");
    let says_why =
        |event: &Event| event.message.as_ref().is_some_and(|text| text.contains("3 node(s) had untolerated taint"));
    let three = |all: &BTreeMap<String, Event>| all.values().filter(|event| says_why(event)).count() >= 3;
    await_all(&events, selection, LIMIT, three).await.unwrap_or_else(|error| panic!("A-05: {error:#}"));
    for (name, ..) in NODES {
        assert_eq!(taints(&get(client, name).await), [ours.as_str()], "A-05");
    }
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let all_are = |wanted: &'static str| {
        move |pods: &BTreeMap<String, Pod>| pods.len() == 3 && pods.values().all(|pod| phase(pod) == wanted)
    };
    await_all(&pods, watcher::Config::default(), LIMIT, all_are("Pending")).await.unwrap();

    put_component(client, "kube-system", "cloudlycke", &cloudlycke()).await.unwrap();
    let config = stage.file("cloud-config.yaml", "mode: fixture");
    let host = stage.start([
        "--cloud-provider=cloudlycke",
        "--provider=configmap:kube-system/cloudlycke",
        &format!("--cloud-config={}", config.display()),
    ]);

    // the taint is gone everywhere; each Node has its Event.
    let mut after = vec![];
    for (name, ..) in NODES {
        after.push(await_node(client, name, LIMIT, |node| !is_tainted(node)).await.unwrap());
    }
    for ((name, ip, instance_type, provider_id), node) in NODES.into_iter().zip(after) {
        await_event(client, name, "Normal", "Synced", &["Node synced successfully"]).await;
        assert_eq!(told_once(client, name).await, ["Normal Synced"], "A-08: {name}");
        // the six labels.
        for ((old, new), wanted) in PAIRS.into_iter().zip([instance_type, "virtualbox", "virtualbox"]) {
            let seen = [&node.labels()[old], &node.labels()[new]];
            assert_eq!(seen, [wanted, wanted], "A-09: {name}");
        }
        // provider ID and addresses.
        assert_eq!(node.spec.as_ref().unwrap().provider_id.as_deref(), Some(provider_id), "A-10");
        let wanted = [format!("InternalIP {ip}"), format!("ExternalIP {ip}"), format!("Hostname {name}")];
        assert_eq!(addresses(&node), wanted, "A-10");
    }

    // the pods run.
    let running = await_all(&pods, watcher::Config::default(), LIMIT, all_are("Running")).await;
    running.unwrap_or_else(|error| panic!("A-11: {error:#}"));
    stage.cluster.check().unwrap();
    host.end().await;
}
