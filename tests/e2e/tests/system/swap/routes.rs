//! Routes to pods while another component takes over: none is lost, and none is made twice.

use std::collections::BTreeMap;

use ccm_cluster::register_nodes;
use ccm_e2e::balancer_cloud::{BalancerCloud, CloudSettings, Kind};
use ccm_e2e::host::component as file;
use ccm_e2e::successor::balancer_that_says;
use k8s_openapi::api::core::v1::NodeCondition;
use kube::Client;
use serde_json::Value;

use super::compare::{another_build, rebuilt};
use super::{MAP, SOURCE, await_status, put};
use crate::bytes::cloudlycke;
use crate::look::{await_event, get};
use crate::routes::{MADE, RANGES, SOON, await_network, node};
use crate::stage::{Actor, LIMIT, Stage};

/// So that nobody waits for what is meant for people and kubelets.
const SWIFT: [&str; 5] = [
    "--provider-poll=100ms",
    "--provider-settle=50ms",
    "--limit=compare-pause=100ms",
    "--route-reconciliation-period=1s",
    SOON,
];
/// Proven with a few good answers.
pub(super) const SHORT: [&str; 2] = ["--provider-probation=0s", "--provider-probation-calls=4"];
/// A probation that a fault ends, and neither time nor good answers.
const LONG: [&str; 3] =
    ["--provider-probation=10m", "--provider-probation-calls=1000", "--provider-probation-faults=1"];

/// Two Nodes with their routes, and a host whose provider comes from the ConfigMap.
pub(super) async fn routed(stage: &Stage, flags: &[&str]) -> (BalancerCloud, Actor) {
    let client = stage.client();
    let cloud = BalancerCloud::start(CloudSettings::default()).await.unwrap();
    register_nodes(client, [node("n1", "10.244.1.0/24"), node("n2", "10.244.2.0/24")]).await.unwrap();
    put(client, std::fs::read(file("guests/balancer.wasm").unwrap()).unwrap()).await;
    let provider = format!("--provider={SOURCE}");
    let own = ["--setting=routes=true", RANGES, &provider];
    let flags = own.into_iter().chain(SWIFT).chain(flags.iter().copied()).map(str::to_owned);
    let host = stage.start(flags.chain(cloud.flags()));
    for name in ["n1", "n2"] {
        await_network(client, name, MADE).await;
    }
    await_status(&host, "proven", |status| status["phase"] == "proven").await;
    (cloud, host)
}

/// What both Nodes are told of their network, with the times of the writes.
async fn told(client: &Client) -> Vec<NodeCondition> {
    let mut told = vec![];
    for name in ["n1", "n2"] {
        let conditions = get(client, name).await.status.unwrap().conditions.unwrap();
        told.extend(conditions.into_iter().filter(|condition| condition.type_ == "NetworkUnavailable"));
    }
    assert_eq!(told.len(), 2, "{told:?}");
    told
}

/// The routes of the cloud, how often they were written, and what the Nodes are told of them.
type Made = (BTreeMap<String, String>, usize, Vec<NodeCondition>);

async fn made(client: &Client, cloud: &BalancerCloud) -> Made {
    (cloud.routes(), cloud.count(Kind::SetRoutes), told(client).await)
}

/// Both routes are as they were `before`, and that of a third Node is written once.
async fn nothing_is_lost_and_the_next_one_is_made_once(client: &Client, cloud: &BalancerCloud, before: Made) {
    let (table, writes, conditions) = before;
    assert_eq!((cloud.routes(), cloud.count(Kind::SetRoutes)), (table, writes));
    assert_eq!(told(client).await, conditions, "a condition was written");
    register_nodes(client, [node("n3", "10.244.3.0/24")]).await.unwrap();
    await_network(client, "n3", MADE).await;
    assert_eq!((cloud.routes().len(), cloud.count(Kind::SetRoutes)), (3, writes + 1));
    assert_eq!(told(client).await, conditions, "a condition was written");
}

/// Comparisons of all routes with the Nodes so far.
async fn runs(host: &Actor) -> f64 {
    host.count("route_controller_route_sync_total", &[]).await.unwrap()
}

/// Waits for `more` comparisons after the first `before`.
async fn await_runs(host: &Actor, before: f64, more: f64) {
    host.await_count("route_controller_route_sync_total", &[], LIMIT, |count| count >= before + more).await.unwrap();
}

#[tokio::test]
async fn a_good_component_writes_no_route_again_and_makes_the_next_one_once() {
    let stage = Stage::new().await;
    let client = stage.client();
    let (cloud, host) = routed(&stage, &SHORT).await;
    let before = made(client, &cloud).await;
    put(client, another_build()).await;
    await_status(&host, "taken", |status| status["generation"] == 2).await;
    let first = runs(&host).await;
    await_runs(&host, first, 3.0).await;
    await_status(&host, "proven", |status| status["phase"] == "proven").await;
    nothing_is_lost_and_the_next_one_is_made_once(client, &cloud, before).await;
    host.end().await;
}

/// Its routes are kept in the component's cache, which an exchange empties.
#[tokio::test]
async fn another_cloudlycke_finds_the_routes_of_the_one_before() {
    let stage = Stage::new().await;
    let client = stage.client();
    register_nodes(client, [node("n1", "10.244.1.0/24"), node("n2", "10.244.2.0/24")]).await.unwrap();
    put(client, cloudlycke()).await;
    let config = stage.file("cloud-config.yaml", "routes: { enabled: true }");
    let flags = [format!("--provider={SOURCE}"), format!("--cloud-config={}", config.display())];
    let host = stage.start(flags.iter().map(String::as_str).chain([RANGES]).chain(SWIFT).chain(LONG));
    for name in ["n1", "n2"] {
        await_network(client, name, MADE).await;
    }
    let conditions = told(client).await;
    put(client, rebuilt(cloudlycke())).await;
    await_status(&host, "taken", |status| status["generation"] == 2).await;
    let before = runs(&host).await;
    await_runs(&host, before, 2.0).await;
    register_nodes(client, [node("n3", "10.244.3.0/24")]).await.unwrap();
    await_network(client, "n3", MADE).await;
    let before = runs(&host).await;
    await_runs(&host, before, 3.0).await;
    let status = await_status(&host, "on probation", |status| !status.is_null()).await;
    assert_eq!((&status["generation"], status["refused"].is_null()), (&2.into(), true), "{status:#}");
    assert_eq!(told(client).await, conditions, "a condition was written");
    let log = host.log_text();
    for network in ["10.244.1.0/24", "10.244.2.0/24", "10.244.3.0/24"] {
        assert_eq!(log.matches(&format!("route {network} leads to")).count(), 1, "{network}: {log}");
    }
    host.end().await;
}

/// Whoever removed what leads nowhere would have removed them all.
#[tokio::test]
async fn a_component_that_says_other_routes_is_refused_and_the_one_before_keeps_them() {
    let stage = Stage::new().await;
    let client = stage.client();
    let (cloud, host) = routed(&stage, &SHORT).await;
    let before = made(client, &cloud).await;
    for (lie, says) in [
        ("lost", r#"Route 10.244.1.0/24: it does not find the route to Node "n1""#),
        ("disowned", r#"Route 10.244.1.0/24: it does not find the route to Node "n1""#),
    ] {
        put(client, balancer_that_says(lie).unwrap()).await;
        let says = ["step compare of the gate", says, "continues to serve"];
        await_event(client, MAP, "Warning", "ProviderRejected", &says).await;
        let refused = await_status(&host, lie, |status| status["refused"]["step"] == "compare").await;
        assert_eq!((&refused["generation"], &refused["phase"]), (&1.into(), &"proven".into()), "{refused:#}");
        put(client, std::fs::read(file("guests/balancer.wasm").unwrap()).unwrap()).await;
        await_status(&host, "as before", |status| status["refused"].is_null()).await;
    }
    nothing_is_lost_and_the_next_one_is_made_once(client, &cloud, before).await;
    host.end().await;
}

/// Nothing is compared before it serves where the operator says that everything may be found otherwise.
#[tokio::test]
async fn a_component_that_says_other_routes_on_probation_is_rolled_back_and_no_route_is_lost_or_made_twice() {
    let stage = Stage::new().await;
    let client = stage.client();
    let (cloud, host) = routed(&stage, &[&["--allow-provider-change"][..], &LONG].concat()).await;
    let before = made(client, &cloud).await;
    for (lie, generation) in [("lost", 3), ("disowned", 5)] {
        put(client, balancer_that_says(lie).unwrap()).await;
        // The page has the refusal a moment after the exchange.
        let is_back = |status: &Value| status["generation"] == generation && status["refused"]["step"] == "probation";
        let back = await_status(&host, lie, is_back).await;
        assert_eq!(back["phase"], "proven", "{back:#}");
        let reason = back["refused"]["reason"].as_str().unwrap();
        assert!(reason.contains("routes.get-all") && reason.contains("10.244.1.0/24"), "{reason}");
        await_event(client, MAP, "Warning", "ProviderRolledBack", &["routes.get-all", "serves again"]).await;
    }
    nothing_is_lost_and_the_next_one_is_made_once(client, &cloud, before).await;
    host.end().await;
}
