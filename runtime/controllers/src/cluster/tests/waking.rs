//! What makes the controller call, and when.

use std::time::Duration;

use serde_json::json;

use super::{Bench, Call, Setup, service};
use crate::cluster::{ClusterNodes, ClusterSettings};
use crate::testing::node;

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.into()).collect()
}

#[tokio::test(start_paused = true)]
async fn the_first_call_waits_for_both_lists_and_tells_all_once() {
    let mut bench = Bench::new(Setup::default());
    bench
        .play(async |bench| {
            bench.apply_node(node("n1").0).await;
            bench.apply_node(node("n2").0).await;
            bench.list_nodes();
            bench.apply_service(service("web")).await;
            bench.until(20).await;
            assert!(bench.calls().is_empty(), "half a cluster is none");
            bench.list_services();
            // The reflector tells all keys after its list: no news.
            bench.apply_service(service("web")).await;
            bench.until(60).await;
        })
        .await;
    let all = Call { at: 20, nodes: names(&["n1", "n2"]), services: names(&["shop/web"]) };
    assert_eq!(*bench.cloud.calls.lock(), [all]);
}

#[tokio::test(start_paused = true)]
async fn many_changes_are_one_call_two_seconds_after_the_last() {
    let mut bench = Bench::new(Setup::default());
    bench
        .play(async |bench| {
            bench.listed().await;
            for i in 0..5 {
                bench.until(10 + i).await;
                bench.apply_node(node(&format!("new-{i}")).0).await;
            }
            bench.until(60).await;
        })
        .await;
    assert_eq!(bench.calls(), [0, 16]);
    assert_eq!(bench.cloud.calls.lock()[1].nodes.len(), 6);
}

#[tokio::test(start_paused = true)]
async fn changes_without_end_cannot_put_the_call_off_for_ever() {
    let max_wait = Duration::from_millis(9_500);
    let settings = ClusterSettings { max_wait, ..Setup::default().settings };
    let mut bench = Bench::new(Setup { settings, ..Setup::default() });
    bench
        .play(async |bench| {
            bench.listed().await;
            for i in 0..31 {
                bench.until(100 + i).await;
                bench.apply_service(service(&format!("s{i}"))).await;
            }
            bench.until(200).await;
        })
        .await;
    assert_eq!(bench.calls(), [0, 109, 119, 129, 132]);
}

#[tokio::test(start_paused = true)]
async fn only_what_the_provider_is_told_wakes_it() {
    let fresh = || node("n1").provider_id("fake://1");
    let of_node = [
        ("a heartbeat", fresh().with("/status", "conditions", json!([{ "type": "Ready", "status": "False" }])), false),
        ("images", fresh().with("/status", "images", json!([{ "names": ["x"] }])), false),
        ("a version", fresh().with("/metadata", "resourceVersion", json!("99")), false),
        ("a foreign annotation", fresh().with("/metadata", "annotations", json!({ "other.example/x": "1" })), false),
        ("a declared annotation", fresh().with("/metadata", "annotations", json!({ "fake.example/x": "1" })), true),
        ("a label", fresh().label("pool", "a"), true),
        ("a taint", fresh().taint("gpu"), true),
        ("an address", fresh().address("InternalIP", "10.0.0.9"), true),
        ("another provider ID", node("n1").provider_id("fake://2"), true),
        ("another Node of the name", fresh().with("/metadata", "uid", json!("other")), true),
    ];
    for (what, change, wakes) in of_node {
        let mut bench = Bench::new(Setup::default());
        bench
            .play(async |bench| {
                bench.listed().await;
                let listed = bench.nodes.0.as_reader().state()[0].created;
                let mut change = change.0;
                change["metadata"]["creationTimestamp"] = json!(listed);
                bench.apply_node(change).await;
                bench.until(60).await;
            })
            .await;
        assert_eq!(bench.calls().len() == 2, wakes, "{what}");
    }
    let of_service = [
        ("nothing", "/metadata", "generation", json!(7), false),
        ("managed fields", "/metadata", "managedFields", json!([]), false),
        ("a foreign annotation", "/metadata", "annotations", json!({ "other.example/x": "1" }), false),
        ("a declared annotation", "/metadata", "annotations", json!({ "fake.example/x": "1" }), true),
        ("a port", "/spec", "ports", json!([{ "port": 80, "nodePort": 30081 }]), true),
        ("its deletion", "/metadata", "deletionTimestamp", json!("2026-01-01T00:00:00Z"), true),
    ];
    for (what, at, name, value, wakes) in of_service {
        let mut bench = Bench::new(Setup::default());
        bench
            .play(async |bench| {
                bench.listed().await;
                let mut change = service("web");
                change.pointer_mut(at).unwrap()[name] = value;
                bench.apply_service(change).await;
                bench.until(60).await;
            })
            .await;
        assert_eq!(bench.calls().len() == 2, wakes, "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_deleted_is_told_by_its_absence() {
    let mut bench = Bench::new(Setup::default());
    bench
        .play(async |bench| {
            bench.listed().await;
            bench.delete_service(service("web")).await;
            bench.until(60).await;
        })
        .await;
    assert_eq!(bench.cloud.calls.lock()[1..], [Call { at: 2, nodes: names(&["n1"]), services: vec![] }]);
}

#[tokio::test(start_paused = true)]
async fn do_228_a_change_during_a_call_makes_one_more_after_it_and_never_two_at_once() {
    let mut bench = Bench::new(Setup { takes: Duration::from_secs(30), ..Setup::default() });
    bench
        .play(async |bench| {
            bench.listed().await;
            for i in 0..10 {
                bench.until(5 + i).await;
                bench.apply_service(service(&format!("s{i}"))).await;
            }
            bench.until(100).await;
        })
        .await;
    assert_eq!(bench.calls(), [0, 30]);
}

#[tokio::test(start_paused = true)]
async fn a_quiet_cluster_is_told_once_per_period() {
    let period = Duration::from_secs(300);
    let settings = ClusterSettings { period, ..ClusterSettings::default() };
    let mut bench = Bench::new(Setup { settings, ..Setup::default() });
    bench
        .play(async |bench| {
            bench.listed().await;
            bench.until(3_000).await;
        })
        .await;
    assert!((9..=12).contains(&bench.calls().len()), "{:?}", bench.calls());
}

#[tokio::test(start_paused = true)]
async fn beside_other_providers_one_is_told_about_its_own_nodes_only() {
    let mut bench = Bench::new(Setup { nodes: ClusterNodes::Own, ..Setup::default() });
    bench
        .play(async |bench| {
            bench.apply_node(node("foreign").provider_id("aws:///z/i-1").0).await;
            bench.apply_node(node("new").0).await;
            bench.listed().await;
        })
        .await;
    assert_eq!(bench.cloud.calls.lock()[0].nodes, ["n1"]);
}

#[tokio::test(start_paused = true)]
async fn a_running_call_may_end_after_the_stop_and_a_long_one_is_dropped() {
    for (takes, ended) in [(5, 1.0), (3_600, 0.0)] {
        let mut bench = Bench::new(Setup { takes: Duration::from_secs(takes), ..Setup::default() });
        bench.play(async |bench| bench.listed().await).await;
        assert_eq!(bench.calls(), [0]);
        assert_eq!(bench.scraped("ccm_cluster_sync_duration_seconds_count{provider=\"fake\"}"), ended, "{takes}");
        assert!(bench.begun.elapsed() < Duration::from_secs(11), "{:?}", bench.begun.elapsed());
    }
}
