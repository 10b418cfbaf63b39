//! What Nodes are told.

use std::time::Duration;

use ccm_cloud::{Reaction, RouteState};
use serde_json::json;

use super::{Bench, available, failure, pairs, pods, route, unavailable};
use crate::testing::Draft;

fn with_condition(status: &str, reason: &str) -> Draft {
    let condition = json!([{ "type": "NetworkUnavailable", "status": status, "reason": reason }]);
    pods("n1", &["10.244.1.0/24"]).with("/status", "conditions", condition)
}

/// The condition that is written when the route can, or cannot, be made.
async fn written(node: Draft, works: bool) -> Option<(String, String)> {
    let bench = Bench::once([node], |cloud| {
        if !works {
            cloud.refused.lock().insert("10.244.1.0/24".to_owned(), failure(Reaction::Quota));
        }
    })
    .await;
    bench.condition("n1")
}

#[tokio::test(start_paused = true)]
async fn cases_238_to_243_the_condition_says_whether_the_route_is_in_place_and_is_written_when_it_says_another_thing() {
    let fresh = || pods("n1", &["10.244.1.0/24"]);
    let cases = [
        ("case_238", fresh(), true, available()),
        ("case_239", fresh(), false, unavailable()),
        ("case_240", with_condition("False", "RouteCreated"), true, None),
        ("case_240", with_condition("True", "NoRouteCreated"), false, None),
        ("case_241", with_condition("False", "CalicoIsUp"), true, available()),
        ("case_241", with_condition("False", "ExternalCNI"), true, available()),
        ("case_242", with_condition("True", "CalicoIsDown"), false, unavailable()),
        ("case_243", with_condition("False", "RouteCreated"), false, unavailable()),
    ];
    for (case, node, works, expected) in cases {
        assert_eq!(written(node, works).await, expected, "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn case_238_the_patch_has_upstreams_words_and_is_for_this_very_node() {
    let bench = Bench::once([pods("n1", &["10.244.1.0/24"])], |_| {}).await;
    let call = bench.api.calls().into_iter().find(|call| call.line == "PATCH /api/v1/nodes/n1/status").unwrap();
    assert_eq!(call.content_type, "application/strategic-merge-patch+json");
    let now = &call.body["status"]["conditions"][0]["lastTransitionTime"];
    let expected = json!({
        "metadata": { "uid": "uid-n1" },
        "status": { "conditions": [{
            "type": "NetworkUnavailable",
            "status": "False",
            "reason": "RouteCreated",
            "message": "RouteController created a route",
            "lastTransitionTime": now,
            "lastHeartbeatTime": now,
        }] },
    });
    assert_eq!(call.body, expected);
    assert!(now.as_str().unwrap().len() == "2026-01-01T00:00:00Z".len(), "{now}");
}

#[tokio::test(start_paused = true)]
async fn case_233_244_one_of_two_routes_fails_so_that_the_network_is_not_available_and_the_other_route_stays() {
    let bench = Bench::once([pods("n1", &["10.244.1.0/24", "fd00:0:0:1::/64"])], |cloud| {
        cloud.refused.lock().insert("fd00:0:0:1::/64".to_owned(), failure(Reaction::Quota));
    })
    .await;
    assert_eq!(bench.cloud.routes(), pairs(&[("10.244.1.0/24", "n1")]));
    assert_eq!(bench.condition("n1"), unavailable());
    assert_eq!(bench.told(), ["Could not create route fd00:0:0:1::/64 for node n1: no (quota)"]);
    let events = bench.api.raw_events();
    assert_eq!(
        [
            &events[0]["reason"],
            &events[0]["type"],
            &events[0]["reportingController"],
            &events[0]["regarding"]["apiVersion"]
        ],
        ["FailedToCreateRoute", "Warning", "route_controller", "v1"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_route_that_the_cloud_is_still_at_work_on_is_not_in_place_and_is_looked_at_again_soon() {
    let mut bench = Bench::new(|_| {});
    let mut slow = route("10.244.1.0/24", Some("n1"));
    slow.state = RouteState::Pending;
    bench.cloud.has([slow]);
    bench
        .play(async |bench| {
            bench.apply(pods("n1", &["10.244.1.0/24"])).await;
            bench.listed().await;
            assert_eq!(bench.condition("n1"), unavailable());
            bench.cloud.has([route("10.244.1.0/24", Some("n1"))]);
            bench.until(20).await;
        })
        .await;
    assert_eq!(
        (bench.condition("n1"), bench.looks(), bench.changes(), bench.told()),
        (available(), vec![0, 5], vec![], vec![])
    );
}

#[tokio::test(start_paused = true)]
async fn a_condition_that_the_api_server_refuses_is_written_later_and_the_routes_are_not_made_again() {
    let mut bench = Bench::new(|_| {});
    bench.api.refuse("/nodes/n1/status", 422, 1);
    bench
        .play(async |bench| {
            bench.apply(pods("n1", &["10.244.1.0/24"])).await;
            bench.listed().await;
            bench.until(10).await;
        })
        .await;
    assert_eq!((bench.changes().len(), bench.looks().len(), bench.api.count("/nodes/n1/status")), (1, 2, 2));
}

/// The cloud was looked at after a back-off that grew with each refusal.
#[tokio::test(start_paused = true)]
async fn a_condition_that_is_always_refused_puts_off_no_look_at_what_the_cloud_is_at_work_on() {
    let mut bench = Bench::new(|settings| settings.queue.min_backoff = Duration::from_secs(100));
    let mut slow = route("10.244.2.0/24", Some("n2"));
    slow.state = RouteState::Pending;
    bench.cloud.has([slow]);
    bench.api.refuse("/nodes/n1/status", 422, 1_000);
    bench
        .play(async |bench| {
            bench.apply(pods("n1", &["10.244.1.0/24"])).await;
            bench.apply(pods("n2", &["10.244.2.0/24"])).await;
            bench.listed().await;
            bench.until(12).await;
            bench.cloud.has([route("10.244.2.0/24", Some("n2"))]);
            bench.until(20).await;
        })
        .await;
    assert_eq!((bench.looks(), bench.condition("n2")), (vec![0, 5, 10, 15], available()));
}
