//! The record of what was ensured: who is believed, and how people ask for one more look.

use ccm_cloud::Reaction;
use serde_json::json;

use super::restart::{garbled, surveying, sync_all, three};
use super::*;

/// A backup that was restored together with its status: the record belongs to the Service that it was written for.
#[tokio::test(start_paused = true)]
async fn a_restored_record_is_not_believed() {
    let mut bench = three(FakeBalancers::default()).await;
    let mut restored = bench.json("a");
    restored["metadata"]["uid"] = json!("restored");
    bench.api.destroy_service("a");
    bench.syncer.memory.forget(&key("a"));
    bench.add(Draft(restored));
    assert_eq!(bench.sync("a").await, Verdict::Done);
    assert_eq!(bench.cloud.calls(), ["ensure a: n0 n1"]);
    assert_eq!(bench.cloud.seen().last().unwrap().ingress, [], "its addresses are those of another one");
}

/// Whoever may write the status can put back what it said before. The cloud has something else since.
#[tokio::test(start_paused = true)]
async fn a_record_that_is_not_the_one_that_was_written_is_compared_with_the_cloud() {
    let mut bench = three(FakeBalancers::default()).await;
    let old = bench.json("a");
    bench.edit("a", &json!({ "spec": { "ports": [{ "port": 443 }] } }));
    assert_eq!(sync_all(&mut bench).await, ["ensure a: n0 n1"]);
    let back = json!({ "spec": old["spec"], "status": { "conditions": old["status"]["conditions"] } });
    bench.edit("a", &back);
    // Not even a try that fails makes it true.
    bench.cloud.fail("locks", "a", [failure(Reaction::Retry, "down")]);
    let Verdict::After(delay) = bench.sync("a").await else { panic!("believed") };
    tokio::time::advance(delay).await;
    assert_eq!(sync_all(&mut bench).await, ["ensure a: n0 n1"]);
    assert_eq!(sync_all(&mut bench).await, [""; 0]);
    // Nor does one that says the same of another time, or of another provider.
    for (from, to) in [("spec=", "backends="), ("provider=fake", "provider=blue"), ("v2", "v1")] {
        let record = condition(&bench.json("a"), RECORDED)["message"].as_str().unwrap().replace(from, to);
        bench.edit("a", &json!({ "status": { "conditions": garbled(&bench, &record) } }));
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(sync_all(&mut bench).await, ["ensure a: n0 n1"], "{from}");
        assert_eq!(sync_all(&mut bench).await, [""; 0]);
    }
}

/// An older release had its record in an annotation: it is a reason to compare, and goes.
#[tokio::test(start_paused = true)]
async fn the_annotation_of_an_older_release_costs_one_look_and_one_write() {
    for (cloud, calls) in [(surveying(), vec![]), (FakeBalancers::default(), vec!["ensure a: n0 n1"])] {
        let bench = three(cloud).await;
        let annotations = json!({ "wasm-ccm.io/ensured": "v1:fake:0:1:2" });
        let before =
            json!({ "metadata": { "annotations": annotations }, "status": { "conditions": garbled(&bench, "") } });
        bench.api.edit_service("a", &before);
        let mut bench = bench.restart();
        let patches = bench.patches();
        bench.survey().await;
        bench.cloud.take_calls();
        assert_eq!(sync_all(&mut bench).await, calls);
        assert_eq!(bench.patches() - patches, 1);
        assert_eq!(bench.json("a")["metadata"]["annotations"], json!({}));
        assert!(bench.record("a").unwrap().spec.is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_asks_for_it_has_a_load_balancer_ensured_once_more() {
    let mut bench = three(FakeBalancers::default()).await;
    bench.cloud.change("a", |balancer| balancer.hosts.clear());
    let ask = |value: &str| json!({ "metadata": { "annotations": { "wasm-ccm.io/ensure": value } } });
    for lose_memory in [false, true] {
        bench.edit("a", &ask("please"));
        if lose_memory {
            bench = bench.restart();
        }
        bench.cloud.take_calls();
        assert_eq!(sync_all(&mut bench).await, ["ensure a: n0 n1"]);
        assert_eq!(bench.json("a")["metadata"]["annotations"], json!({}));
        assert_eq!(sync_all(&mut bench).await, [""; 0]);
    }
    assert_eq!(bench.cloud.balancers()["a uid-a"].hosts, ["n0", "n1"]);
    // It stays until it is done, and what waits for a change of the Service waits no longer.
    bench.edit("a", &json!({ "spec": { "ports": [{ "port": 443 }] } }));
    bench.cloud.fail("ensure", "a", vec![failure(Reaction::Invalid, "no"); 2]);
    assert_eq!([bench.sync("a").await, bench.sync("a").await], [Verdict::Change; 2]);
    bench.edit("a", &ask("please"));
    assert_eq!([bench.sync("a").await, bench.sync("a").await], [Verdict::Change; 2]);
    assert_eq!(bench.cloud.take_calls(), ["ensure a: n0 n1"; 2]);
    assert_eq!(bench.json("a")["metadata"]["annotations"], json!({ "wasm-ccm.io/ensure": "please" }));
    bench.edit("a", &ask("again"));
    assert_eq!(bench.sync("a").await, Verdict::Done);
    assert_eq!((bench.cloud.take_calls().len(), bench.json("a")["metadata"]["annotations"].clone()), (1, json!({})));
}
