//! 2.10, 7.4 and 7.6: addresses of initialised Nodes stay as the cloud has them. The numbers are those of the behaviour
//! reference.

use ccm_cluster::{NodeFixture, await_node};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use serde_json::json;

use crate::look::{STATE, addresses, create, get, patch_status, with_addresses};
use crate::stage::{Actor, LIMIT, Stage};

const CONFIG: &str = "
instances:
  - name: changed
    addresses: [{type: InternalIP, address: 10.0.0.1}, {type: ExternalIP, address: 198.51.100.1}]
  - name: dual
    addresses: [{type: InternalIP, address: 10.0.0.2}, {type: InternalIP, address: 'fd00::2'}, {type: Hostname, address: d}]
  - name: grown
    addresses: [{type: InternalIP, address: 10.0.0.3}, {type: InternalIP, address: 10.0.0.4}]
  - name: empty
    addresses: []
  - name: tainted
    addresses: [{type: InternalIP, address: 10.0.0.5}]
  - name: asked
    addresses: [{type: InternalIP, address: 10.0.0.6}, {type: InternalIP, address: 10.0.0.7}]
  - name: not-listed
    addresses: [{type: InternalIP, address: 10.0.0.8}]
";

const FLAGS: [&str; 1] = ["--node-status-update-frequency=300ms"];

async fn await_addresses(stage: &Stage, name: &str, wanted: &[&str]) -> Node {
    await_node(stage.client(), name, LIMIT, |node| addresses(node) == wanted).await.unwrap()
}

/// Changes addresses of a Node as somebody else, and waits until the refresh has put them back: all Nodes were looked at
/// since the call.
async fn one_more_refresh(stage: &Stage) {
    let wrong = json!({ "addresses": [{ "type": "InternalIP", "address": "10.99.99.99" }, { "type": "Hostname", "address": "k" }] });
    patch_status(stage.client(), "changed", &wrong).await;
    await_addresses(stage, "changed", &["InternalIP 10.0.0.1", "ExternalIP 198.51.100.1", "Hostname k"]).await;
}

async fn refreshed(host: &Actor, outcome: &str) -> f64 {
    host.count("ccm_node_refreshes_total", &[&format!("outcome={outcome:?}")]).await.unwrap()
}

/// Waits for so many Nodes with this outcome: others of the same run may come after the one that was put back.
async fn await_refreshed(host: &Actor, outcome: &str, least: f64) {
    let label = format!("outcome={outcome:?}");
    host.await_count("ccm_node_refreshes_total", &[&label], LIMIT, |count| count >= least).await.unwrap();
}

#[tokio::test]
async fn addresses_that_somebody_changes_are_put_back_and_others_are_not_written() {
    let stage = Stage::new().await;
    let client = stage.client();
    let ready = |name: &str| NodeFixture::new(name).initialized();
    let kubelet = &["Hostname k", "InternalIP 10.99.0.1"];
    create(client, &with_addresses(ready("changed"), kubelet)).await;
    // 45: the API has exactly the cloud's two, though both are of one type.
    create(client, &with_addresses(ready("grown"), &["InternalIP 10.0.0.3"])).await;
    // 2.8: what the kubelet asks for comes first here as well.
    let asked = ready("asked").annotation("alpha.kubernetes.io/provided-node-ip", "10.0.0.7");
    create(client, &with_addresses(asked, kubelet)).await;

    // 44: two of one type on both sides. 43: none in the cloud. 58: waits for its initialisation, which fails. 2.7, step 4:
    // asks for what the cloud does not have. 56: fails in the cloud.
    let dual = with_addresses(ready("dual"), &["InternalIP 10.0.0.2", "InternalIP fd00::2", "Hostname d"]);
    let tainted = NodeFixture::new("tainted").annotation(STATE, "deleted");
    let not_listed = ready("not-listed").annotation("alpha.kubernetes.io/provided-node-ip", "10.9.9.9");
    let left_alone = [
        dual,
        with_addresses(ready("empty"), kubelet),
        with_addresses(tainted, kubelet),
        with_addresses(not_listed, kubelet),
        with_addresses(ready("failing").annotation(STATE, "error"), kubelet),
    ];
    let mut before = vec![];
    for node in &left_alone {
        before.push(create(client, node).await);
    }

    let host = stage.configured(CONFIG, &FLAGS);
    await_addresses(&stage, "changed", &["InternalIP 10.0.0.1", "ExternalIP 198.51.100.1", "Hostname k"]).await;
    await_addresses(&stage, "grown", &["InternalIP 10.0.0.3", "InternalIP 10.0.0.4"]).await;
    let asked = await_addresses(&stage, "asked", &["InternalIP 10.0.0.7", "Hostname k"]).await;
    for _ in 0..3 {
        one_more_refresh(&stage).await;
    }
    for before in before.into_iter().chain([asked]) {
        assert_eq!(get(client, &before.name_any()).await, before);
    }
    // Failures count, and do not stop the others.
    await_refreshed(&host, "failed", 3.0).await;
    assert_eq!(refreshed(&host, "absent").await, 0.0, "a Node with the taint is not asked about");
    host.end().await;
}

/// 57; only the node life cycle controller may draw conclusions from it.
#[tokio::test]
async fn a_node_whose_machine_is_gone_is_skipped() {
    let stage = Stage::new().await;
    let client = stage.client();
    create(client, &with_addresses(NodeFixture::new("changed").initialized(), &["Hostname k"])).await;
    let gone = NodeFixture::new("gone").internal_ip("10.0.0.9").initialized().annotation(STATE, "deleted");
    let before = gone.register(client).await.unwrap();
    let host = stage.configured(CONFIG, &FLAGS);
    for _ in 0..2 {
        one_more_refresh(&stage).await;
    }
    assert_eq!(get(client, "gone").await, before);
    await_refreshed(&host, "absent", 2.0).await;
    host.end().await;
}
