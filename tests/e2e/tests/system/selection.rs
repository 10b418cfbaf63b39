//! Nodes that are chosen by their labels, and Nodes that nobody knows.

use std::time::Duration;

use ccm_cluster::{NodeFixture, await_all, register_nodes};
use ccm_e2e::balancer_cloud::{BalancerCloud, Kind};
use k8s_openapi::api::core::v1::Service;
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

use crate::look::{await_event, await_untainted, is_tainted, nodes, patch, told_once};
use crate::service_look::{
    annotated, assert_one_each, await_reason, await_served, balanced, balancing, cloud, owned, serve, the,
};
use crate::stage::{LIMIT, Stage};

const NODES: &str = "balancer.example/nodes";

async fn label(client: &Client, node: &str, labels: Value) {
    patch(client, node, &json!({ "metadata": { "labels": labels } })).await;
}

async fn await_members(cloud: &BalancerCloud, service: &Service, members: &[&str]) {
    let uid = service.uid().unwrap();
    let holds = |all: &[ccm_e2e::balancer_cloud::Balancer]| {
        all.iter().any(|balancer| balancer.spec.owner == uid && balancer.spec.members == members)
    };
    cloud.await_balancers(LIMIT, holds).await.unwrap();
}

#[tokio::test]
async fn a_relabelled_node_joins_and_leaves_the_load_balancers_that_choose_by_label_and_costs_the_others_nothing() {
    let stage = Stage::new().await;
    let client = stage.client();
    let (cloud, host) = balanced(&stage).await;
    serve(client, "all", json!({})).await;
    // Nothing matches yet, and that is nothing that its owner could mend.
    serve(client, "web", annotated([(NODES, "pool in (web)")])).await;
    let message = await_reason(client, "web", "InvalidService").await;
    assert!(
        message.contains("no Node matches") && message.ends_with("before the Service or the Nodes behind it change"),
        "{message}"
    );
    await_served(client, "all").await;

    label(client, "n1", json!({ "pool": "web" })).await;
    let web = await_served(client, "web").await;
    await_members(&cloud, &web, &["n1"]).await;
    let gets = cloud.count(Kind::Get);
    let lists = cloud.count(Kind::List);
    label(client, "n2", json!({ "pool": "db" })).await;
    label(client, "n2", json!({ "pool": "web" })).await;
    await_members(&cloud, &web, &["n1", "n2"]).await;
    label(client, "n1", json!({ "pool": null })).await;
    await_members(&cloud, &web, &["n2"]).await;
    assert_eq!(cloud.count(Kind::Get) - gets, 2, "the one that was looked for by its ID, twice");
    // The online check, which is made again when it came before the Nodes were known.
    assert!(cloud.count(Kind::List) - lists <= 1);
    await_served(client, "web").await;
    host.end().await;

    // Labels that changed while nobody watched.
    label(client, "n1", json!({ "pool": "web" })).await;
    let before = the(client, "all").await;
    let host = balancing(&stage, &cloud, &["--service-survey-timeout=0s"]);
    host.ready().await;
    await_members(&cloud, &web, &["n1", "n2"]).await;
    // And again with what this process knows.
    label(client, "n2", json!({ "pool": null })).await;
    await_members(&cloud, &web, &["n1"]).await;
    await_served(client, "web").await;
    host.end().await;
    let all = the(client, "all").await;
    assert_eq!(
        (&all, owned(&cloud, &all)[0].spec.members.as_slice()),
        (&before, ["n1".to_owned(), "n2".to_owned()].as_slice())
    );
    assert_eq!((cloud.count(Kind::Create), cloud.count(Kind::Members), cloud.count(Kind::Replace)), (2, 4, 0));
    assert_one_each(client, &cloud).await;
}

#[tokio::test]
async fn a_node_without_provider_id_that_no_provider_knows_says_so_once() {
    let stage = Stage::new().await;
    let client = stage.client();
    let cloud = cloud(Duration::ZERO).await;
    let host = balancing(&stage, &cloud, &["--node-unclaimed-after=1s"]);
    host.ready().await;
    let fixtures = [NodeFixture::new("foreign-1"), NodeFixture::new("own")];
    register_nodes(client, fixtures).await.unwrap();
    let said = ["no provider of this process knows node foreign-1", "set spec.providerID"];
    await_event(client, "foreign-1", "Warning", "SyncNodeFailed", &said).await;
    for round in 0..3 {
        label(client, "foreign-1", json!({ "round": round.to_string() })).await;
    }
    let done = |all: &std::collections::BTreeMap<String, _>| all.get("own").is_some_and(|node| !is_tainted(node));
    await_all(&nodes(client), Default::default(), LIMIT, done).await.unwrap();
    // Nodes come in one list: when this one is done, the labels have been looked at.
    register_nodes(client, [NodeFixture::new("last")]).await.unwrap();
    await_untainted(client, "last").await;
    host.idle("Nodes", 3).await;
    host.events_written().await;
    assert_eq!(told_once(client, "foreign-1").await, ["Warning SyncNodeFailed"]);
    assert!(is_tainted(&nodes(client).get("foreign-1").await.unwrap()));
    host.end().await;
}
