//! Load balancers whose provider chooses among the Nodes by their labels.

use ccm_cloud::Reaction;
use serde_json::json;

use super::*;
use crate::testing::NODES;

/// Nodes with this pool each.
fn pools(pools: &[&str]) -> Vec<Draft> {
    let node = |(index, pool): (usize, &&str)| match *pool {
        "" => node(&format!("n{index}")),
        pool => node(&format!("n{index}")).label("pool", pool),
    };
    pools.iter().enumerate().map(node).collect()
}

fn choosing(name: &str, selector: &str) -> Draft {
    service(name).with("/metadata", "annotations", json!({ NODES: selector }))
}

/// `all` has all Nodes, `web` and `db` those of their pool.
async fn three(cloud: FakeBalancers) -> Bench {
    let mut bench = Bench::with(cloud, ServiceSettings::default());
    let backends = bench.label(pools(&["web", "db", ""]));
    bench.syncer.backends.replace(backends);
    for service in [service("all"), choosing("web", "pool=web"), choosing("db", "pool in (db)")] {
        let name = service.0["metadata"]["name"].as_str().unwrap().to_owned();
        bench.add(service);
        assert_eq!(bench.sync(&name).await, Verdict::Done);
    }
    assert_eq!(bench.cloud.take_calls(), ["ensure all: n0 n1 n2", "ensure web: n0", "ensure db: n1"]);
    bench
}

async fn sync_all(bench: &mut Bench) -> Vec<String> {
    for name in ["all", "web", "db"] {
        assert_eq!(bench.sync(name).await, Verdict::Done, "{name}");
    }
    bench.cloud.take_calls()
}

#[tokio::test(start_paused = true)]
async fn a_relabelled_node_wakes_the_services_that_would_have_other_hosts_and_no_others() {
    let mut bench = three(FakeBalancers::default()).await;
    assert_eq!(bench.relabel(pools(&["web", "db", "dev"])).await, [""; 0], "nobody chooses it");
    assert_eq!(bench.relabel(pools(&["web", "db", "web"])).await, ["update web: n0 n2"]);
    assert_eq!(bench.relabel(pools(&["web", "web", "web"])).await, ["update db", "update web: n0 n1 n2"]);
    assert_eq!(bench.relabel(pools(&["web", "web", "web"])).await, [""; 0]);
    assert_eq!(sync_all(&mut bench).await, [""; 0]);
    // A Node that joins is news for all.
    bench.pass(pools(&["web", "web", "web", "db"])).await;
    let mut calls = bench.cloud.take_calls();
    calls.sort();
    assert_eq!(calls, ["update all: n0 n1 n2 n3", "update db: n3", "update web: n0 n1 n2"]);
    // Without the choice its labels do not matter any more.
    bench.edit("db", &json!({ "metadata": { "annotations": { NODES: null } } }));
    bench.sync("db").await;
    assert_eq!(bench.relabel(pools(&["web", "web", "web", ""])).await, [""; 0]);
}

/// By which labels a provider chooses only a call can tell: one for each that did, and nothing is written.
#[tokio::test(start_paused = true)]
async fn after_a_restart_the_services_that_were_chosen_for_are_asked_about_once() {
    for surveys in [false, true] {
        let cloud = FakeBalancers { surveys, ..FakeBalancers::default() };
        let mut bench = three(cloud).await.restart();
        let before = bench.patches();
        bench.survey().await;
        bench.cloud.take_calls();
        assert_eq!(sync_all(&mut bench).await, ["update web: n0", "update db: n1"], "with a survey: {surveys}");
        assert_eq!((sync_all(&mut bench).await, bench.patches()), (vec![], before));
        assert_eq!(bench.reasons().await, [""; 0]);
        assert_eq!(bench.relabel(pools(&["web", "db", "web"])).await, ["update web: n0 n2"]);
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_relabelled_while_nobody_watched_is_found() {
    for surveys in [false, true] {
        let mut bench = three(FakeBalancers { surveys, ..FakeBalancers::default() }).await;
        bench.label(pools(&["web", "db", "web"]));
        let mut bench = bench.restart();
        bench.survey().await;
        bench.cloud.take_calls();
        // What a survey finds to differ is ensured.
        let found = if surveys { "ensure web: n0 n2" } else { "update web: n0 n2" };
        assert_eq!(sync_all(&mut bench).await, [found, "update db: n1"], "with a survey: {surveys}");
    }
}

/// Another manager's load balancers, which a survey finds to be right: adopted, they would never follow other labels.
#[tokio::test(start_paused = true)]
async fn what_a_survey_finds_is_not_adopted_unasked_where_the_provider_chooses_by_labels() {
    let bench = three(FakeBalancers { surveys: true, ..FakeBalancers::default() }).await;
    for name in ["web", "db"] {
        bench.api.edit_service(name, &json!({ "status": { "conditions": null } }));
    }
    let mut bench = bench.restart();
    bench.survey().await;
    bench.cloud.take_calls();
    assert_eq!(sync_all(&mut bench).await, ["ensure web: n0", "ensure db: n1"]);
    assert_eq!(bench.relabel(pools(&["web", "db", "web"])).await, ["update web: n0 n2"]);
}

/// A selector that matches nothing is wrong today and right tomorrow.
#[tokio::test(start_paused = true)]
async fn a_service_whose_nodes_are_refused_waits_for_other_labels_too() {
    let mut bench = Bench::new();
    bench.add(choosing("web", "pool=web"));
    bench.cloud.fail("ensure", "web", [failure(Reaction::Invalid, "no Node matches")]);
    for _ in 0..2 {
        assert_eq!(bench.sync("web").await, Verdict::Change);
    }
    assert_eq!(bench.cloud.take_calls(), ["ensure web"]);
    let told = bench.condition("web")["message"].as_str().unwrap().to_owned();
    assert!(told.ends_with("not tried again before the Service or its hosts change"), "{told}");
    assert_eq!(bench.relabel(pools(&["db", ""])).await, [""; 0]);
    assert_eq!(bench.relabel(pools(&["db", "web"])).await, ["ensure web: n1"]);
    assert_eq!(bench.condition("web")["status"], "True");
}
