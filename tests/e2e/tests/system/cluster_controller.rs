//! What a provider keeps for the cluster as a whole: the firewall of a cloud that counts.

use ccm_cluster::NodeFixture;
use ccm_e2e::alerts;
use ccm_e2e::balancer_cloud::{BalancerCloud, CloudSettings, Kind};
use ccm_e2e::host::component;
use k8s_openapi::api::core::v1::Service;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::look::{await_event, await_untainted, patch_status};
use crate::stage::{Actor, LIMIT, Stage};

fn start(stage: &Stage, cloud: &BalancerCloud) -> Actor {
    let provider = format!("--provider={}", component("guests/balancer.wasm").unwrap().display());
    let flags = ["--setting=firewall=true", "--cluster-debounce=100ms", &provider].map(ToOwned::to_owned);
    stage.start(flags.into_iter().chain(cloud.flags()))
}

fn services(client: &Client) -> Api<Service> {
    Api::namespaced(client.clone(), "default")
}

/// Makes a Service with this node port.
async fn node_port(client: &Client, name: &str, port: u16, annotations: &[(&str, &str)]) {
    make(client, name, json!({ "type": "NodePort", "ports": [{ "port": 80, "nodePort": port }] }), annotations).await;
}

async fn make(client: &Client, name: &str, spec: Value, annotations: &[(&str, &str)]) {
    let annotations: serde_json::Map<_, _> =
        annotations.iter().map(|&(name, value)| (name.to_owned(), json!(value))).collect();
    let mut service = json!({ "metadata": { "name": name, "annotations": annotations }, "spec": spec });
    service["spec"]["selector"] = json!({ "app": name });
    let service = serde_json::from_value(service).unwrap();
    services(client).create(&PostParams::default(), &service).await.unwrap();
}

#[tokio::test]
async fn the_firewall_follows_services_and_nodes_and_a_restart_writes_nothing() {
    let stage = Stage::new().await;
    let cloud = BalancerCloud::start(CloudSettings::default()).await.unwrap();
    let client = stage.client();
    NodeFixture::new("n1").internal_ip("10.0.0.1").register(client).await.unwrap();
    node_port(client, "web", 30_080, &[]).await;
    let host = start(&stage, &cloud);
    cloud.await_firewall(LIMIT, |firewall| firewall.ports == [30_080] && firewall.machines == ["n1"]).await.unwrap();
    node_port(client, "more", 30_081, &[]).await;
    cloud.await_firewall(LIMIT, |firewall| firewall.ports == [30_080, 30_081]).await.unwrap();
    services(client).delete("web", &DeleteParams::default()).await.unwrap();
    cloud.await_firewall(LIMIT, |firewall| firewall.ports == [30_081]).await.unwrap();
    NodeFixture::new("n2").internal_ip("10.0.0.2").register(client).await.unwrap();
    cloud.await_firewall(LIMIT, |firewall| firewall.machines == ["n1", "n2"]).await.unwrap();
    for name in ["n1", "n2"] {
        await_untainted(client, name).await;
    }
    host.end().await;

    let writes = cloud.write_requests();
    let host = start(&stage, &cloud);
    let good = ["provider=\"balancer\"", "outcome=\"ok\""];
    host.await_count("ccm_cluster_syncs_total", &good, LIMIT, |count| count == 1.0).await.unwrap();
    let last = host.metric("ccm_cluster_sync_last_success_timestamp_seconds").await.unwrap();
    assert!(last > 1e9, "{last}");
    // A heartbeat wakes nobody; the Service after it does, so that there is something to wait for.
    let reads = cloud.count(Kind::Firewall);
    patch_status(client, "n1", &json!({ "conditions": [{ "type": "Ready", "status": "True", "reason": "beat" }] }))
        .await;
    host.await_count("ccm_store_last_event_timestamp_seconds", &["Node"], LIMIT, |at| at > last).await.unwrap();
    assert_eq!(cloud.write_requests(), writes);
    node_port(client, "third", 30_082, &[]).await;
    cloud.await_firewall(LIMIT, |firewall| firewall.ports == [30_081, 30_082]).await.unwrap();
    assert_eq!((cloud.count(Kind::Firewall) - reads, cloud.write_requests() - writes), (1, 1));
    host.end().await;
}

#[tokio::test]
async fn a_service_that_is_refused_has_a_warning_and_the_others_are_let_in() {
    let stage = Stage::new().await;
    let cloud = BalancerCloud::start(CloudSettings::default()).await.unwrap();
    let client = stage.client();
    let host = start(&stage, &cloud);
    node_port(client, "refused", 30_090, &[("balancer.example/refuse", "this port is for nobody")]).await;
    node_port(client, "web", 30_091, &[]).await;
    cloud.await_firewall(LIMIT, |firewall| firewall.ports == [30_091]).await.unwrap();
    let parts = ["metadata.annotations[balancer.example/refuse]: this port is for nobody (invalid)"];
    await_event(client, "refused", "Warning", "SyncClusterFailed", &parts).await;
    assert!(host.metric("ccm_cluster_objects_failing").await.unwrap() > 0.0);
    host.end().await;
}

/// To the provider, a Service that it is not told of is gone. One without open ports has nothing that it could close.
#[tokio::test]
async fn after_a_restart_a_service_that_is_too_large_holds_the_firewall_with_a_node_port_and_not_without() {
    let stage = Stage::new().await;
    let cloud = BalancerCloud::start(CloudSettings::default()).await.unwrap();
    let client = stage.client();
    let large = "x".repeat(200_000);
    let large = [("large.example/text", large.as_str())];
    node_port(client, "web", 30_095, &[]).await;
    make(client, "inner", json!({ "ports": [{ "port": 80 }] }), &large).await;
    let host = start(&stage, &cloud);
    cloud.await_firewall(LIMIT, |firewall| firewall.ports == [30_095]).await.unwrap();
    let before = alerts::scrape(&host).await.unwrap();
    host.end().await;

    node_port(client, "open", 30_096, &large).await;
    let host = start(&stage, &cloud);
    let held = ["provider=\"balancer\"", "outcome=\"invalid\""];
    host.await_count("ccm_cluster_syncs_total", &held, LIMIT, |count| count >= 1.0).await.unwrap();
    let after = alerts::scrape(&host).await.unwrap();
    alerts::fires("WasmCCMClusterWorkFails", &[[&before], [&after]]).await.unwrap();
    let parts = ["it cannot be read", "Until then, nothing is done for the cluster as a whole"];
    await_event(client, "open", "Warning", "SyncClusterFailed", &parts).await;
    services(client).delete("open", &DeleteParams::default()).await.unwrap();
    node_port(client, "more", 30_097, &[]).await;
    cloud.await_firewall(LIMIT, |firewall| firewall.ports == [30_095, 30_097]).await.unwrap();
    host.end().await;
}
