//! What makes the controller look, and when.

use std::time::Duration;

use serde_json::json;

use super::{Bench, Call, available, pairs, pods};

fn n1() -> crate::testing::Draft {
    pods("n1", &["10.244.1.0/24"])
}

#[tokio::test(start_paused = true)]
async fn the_first_look_waits_for_the_whole_list_and_nothing_is_removed_before() {
    let mut bench = Bench::new(|_| {});
    bench.cloud.has([super::route("10.244.2.0/24", Some("n2"))]);
    bench
        .play(async |bench| {
            bench.apply(n1()).await;
            bench.until(100).await;
            assert_eq!(bench.looks(), [0; 0], "half of the Nodes are none");
            bench.apply(pods("n2", &["10.244.2.0/24"])).await;
            bench.listed().await;
            bench.until(200).await;
        })
        .await;
    assert_eq!(bench.looks(), [100]);
    assert_eq!(bench.changes(), [Call::Change(vec![], vec!["10.244.1.0/24 n1".to_owned()])]);
}

#[tokio::test(start_paused = true)]
async fn cases_234_to_237_only_what_makes_a_route_is_a_reason_to_look() {
    let ready = json!([{ "type": "Ready", "status": "False" }]);
    let ours = json!([{ "type": "NetworkUnavailable", "status": "False", "reason": "RouteCreated" }]);
    let cases = [
        ("case_234 another internal address", n1().address("InternalIP", "10.0.0.9"), true),
        ("case_235 other pod CIDRs", n1().with("/spec", "podCIDRs", json!(["10.244.1.0/24", "fd00::/64"])), true),
        ("case_236 the same once more", n1(), false),
        ("case_237 a heartbeat", n1().with("/status", "conditions", ready), false),
        ("case_237 images", n1().with("/status", "images", json!([{ "names": ["x"] }])), false),
        ("our own condition", n1().with("/status", "conditions", ours), false),
        ("a label", n1().label("pool", "a"), false),
        ("another machine", n1().provider_id("fake://2"), true),
        ("another Node of the name", n1().with("/metadata", "uid", json!("other")), true),
    ];
    for (what, change, wakes) in cases {
        let mut bench = Bench::new(|_| {});
        bench
            .play(async |bench| {
                bench.apply(n1()).await;
                bench.listed().await;
                bench.apply(change).await;
                bench.until(60).await;
            })
            .await;
        assert_eq!(bench.looks().len() == 2, wakes, "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn nodes_that_join_together_are_one_look_and_nothing_changed_is_none() {
    let mut bench = Bench::new(|_| {});
    bench
        .play(async |bench| {
            bench.listed().await;
            for i in 0..9 {
                bench.apply(pods(&format!("n{i}"), &[&format!("10.244.{i}.0/24")])).await;
            }
            bench.until(3_600).await;
        })
        .await;
    assert_eq!((bench.looks(), bench.changes().len(), bench.cloud.routes().len()), (vec![0, 1], 1, 9));
    let changed = r#"route_controller_route_sync_total{trigger="node_change",outcome="changed"}"#;
    let first = r#"route_controller_route_sync_total{trigger="periodic",outcome="noop"}"#;
    assert_eq!((bench.scraped(changed), bench.scraped(first)), (1.0, 1.0));
}

#[tokio::test(start_paused = true)]
async fn changes_without_end_cannot_put_the_look_off_for_ever() {
    let mut bench = Bench::new(|settings| {
        settings.debounce = Duration::from_secs(2);
        settings.max_wait = Duration::from_millis(9_500);
    });
    bench
        .play(async |bench| {
            bench.listed().await;
            for i in 0..21 {
                bench.until(100 + i).await;
                bench.apply(pods(&format!("n{i}"), &[&format!("10.244.{i}.0/24")])).await;
            }
            bench.until(200).await;
        })
        .await;
    assert_eq!(bench.looks(), [0, 109, 119, 122]);
}

#[tokio::test(start_paused = true)]
async fn what_a_cloud_loses_comes_back_with_the_period_and_the_node_is_told_nothing() {
    let mut bench = Bench::new(|settings| settings.period = Duration::from_secs(300));
    bench
        .play(async |bench| {
            bench.apply(n1()).await;
            bench.listed().await;
            let node = bench.api.node("n1");
            bench.show(node).await;
            bench.cloud.table.lock().clear();
            bench.until(331).await;
        })
        .await;
    assert_eq!((bench.cloud.routes(), bench.condition("n1")), (pairs(&[("10.244.1.0/24", "n1")]), available()));
    assert_eq!(bench.api.count("/nodes/n1/status"), 1);
    assert!(bench.looks().len() == 2 && bench.looks()[1] >= 270, "{:?}", bench.looks());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_goes_loses_its_routes() {
    let mut bench = Bench::new(|_| {});
    bench
        .play(async |bench| {
            bench.apply(n1()).await;
            bench.apply(pods("n2", &["10.244.2.0/24"])).await;
            bench.listed().await;
            bench.until(10).await;
            bench.delete(n1()).await;
            bench.until(20).await;
        })
        .await;
    assert_eq!(bench.cloud.routes(), pairs(&[("10.244.2.0/24", "n2")]));
    assert_eq!(bench.changes()[1..], [Call::Change(vec!["10.244.1.0/24".to_owned()], vec![])]);
}

#[tokio::test(start_paused = true)]
async fn another_node_takes_over_a_cidr_in_one_change() {
    let mut bench = Bench::new(|_| {});
    bench
        .play(async |bench| {
            bench.apply(n1()).await;
            bench.listed().await;
            bench.until(10).await;
            bench.delete(n1()).await;
            bench.apply(pods("n2", &["10.244.1.0/24"])).await;
            bench.until(20).await;
        })
        .await;
    let taken = Call::Change(vec!["10.244.1.0/24".to_owned()], vec!["10.244.1.0/24 n2".to_owned()]);
    assert_eq!((bench.changes()[1..].to_vec(), bench.condition("n2")), (vec![taken], available()));
}
