//! The record of what was ensured: who is believed, and how people ask for one more look.

use ccm_cloud::{Outcome, Reaction};
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

fn asks(value: &str) -> Value {
    json!({ "metadata": { "annotations": { "wasm-ccm.io/ensure": value } } })
}

/// What had been done before was taken for the answer, and the request was gone.
#[tokio::test(start_paused = true)]
async fn a_request_that_comes_after_a_status_could_not_be_written_is_answered_by_an_ensure() {
    let mut bench = Bench::new();
    bench.add(service("web"));
    assert_eq!(bench.sync("web").await, Verdict::Done);
    bench.edit("web", &json!({ "spec": { "ports": [{ "port": 443 }] } }));
    bench.api.script(STATUS, |_| None);
    bench.api.refuse(STATUS, 503, 1);
    assert!(matches!(bench.sync("web").await, Verdict::After(_)));
    bench.cloud.change("web", |balancer| balancer.hosts.clear());
    bench.edit("web", &asks("please"));
    assert_eq!(bench.sync("web").await, Verdict::Done);
    assert_eq!(bench.cloud.balancers()["web uid-web"].hosts, ["n0", "n1"]);
    assert_eq!(bench.json("web")["metadata"]["annotations"], json!({}));
}

/// Only the write is tried again, whichever of the two it is.
#[tokio::test(start_paused = true)]
async fn a_request_that_was_answered_is_not_answered_again_since_that_could_not_be_written() {
    for written in 1..=2 {
        let mut bench = Bench::new();
        bench.add(service("web"));
        assert_eq!(bench.sync("web").await, Verdict::Done);
        bench.cloud.take_calls();
        bench.edit("web", &asks("please"));
        for _ in 0..written {
            bench.api.script(STATUS, |_| None);
        }
        bench.api.refuse(STATUS, 503, 1);
        let Verdict::After(delay) = bench.sync("web").await else { panic!("{written} writes") };
        assert_eq!(bench.json("web")["metadata"]["annotations"]["wasm-ccm.io/ensure"], "please");
        tokio::time::advance(delay).await;
        assert_eq!(bench.sync("web").await, Verdict::Done);
        assert_eq!(bench.cloud.take_calls(), ["ensure web: n0 n1"], "{written} writes");
        assert_eq!(bench.json("web")["metadata"]["annotations"], json!({}));
    }
}

#[tokio::test(start_paused = true)]
async fn a_newer_request_outlives_the_answer_to_the_one_before() {
    for writes in 0..=2 {
        let mut bench = Bench::new();
        bench.add(service("web"));
        assert_eq!(bench.sync("web").await, Verdict::Done);
        bench.edit("web", &asks("first"));
        bench.cloud.take_calls();
        // Before the ensure, while it is under way, and when it is said that all is well.
        for _ in 0..writes {
            bench.api.script(STATUS, |_| None);
        }
        bench.api.script(STATUS, |state| {
            state.edit_service("web", &asks("second"));
            None
        });
        assert_eq!(bench.sync("web").await, Verdict::Done, "{writes}");
        let left = bench.json("web")["metadata"]["annotations"]["wasm-ccm.io/ensure"].clone();
        assert_eq!(left, if writes == 0 { json!(null) } else { json!("second") }, "{writes}");
        assert_eq!(bench.sync("web").await, Verdict::Done);
        assert_eq!(bench.cloud.take_calls().len(), if writes == 0 { 1 } else { 2 }, "{writes}");
        assert_eq!(bench.json("web")["metadata"]["annotations"], json!({}), "{writes}");
        // Nobody asks any more.
        assert_eq!(bench.sync("web").await, Verdict::Done);
        assert_eq!(bench.cloud.take_calls(), [""; 0], "{writes}");
    }
}

/// An API server that does not take it away has it tried again, and not for ever at once.
#[tokio::test(start_paused = true)]
async fn a_request_that_cannot_be_taken_away_is_tried_with_back_off() {
    let mut bench = Bench::new();
    bench.add(service("web"));
    assert_eq!(bench.sync("web").await, Verdict::Done);
    bench.cloud.take_calls();
    bench.edit("web", &asks("please"));
    bench.api.script(STATUS, |_| None);
    bench.api.script(STATUS, |_| None);
    bench.api.refuse(STATUS, 422, 1);
    assert!(matches!(bench.sync("web").await, Verdict::After(delay) if delay > Duration::ZERO));
}

/// The number of a job of the cloud made each update an ensure.
#[tokio::test(start_paused = true)]
async fn what_only_the_provider_writes_is_no_reason_to_ensure_unless_somebody_else_changed_it() {
    let mut bench = Bench::new();
    bench.add(service("web"));
    assert_eq!(bench.sync("web").await, Verdict::Done);
    let jobs = |number: &str| vec![("fake.io/job-1".to_owned(), Some(number.to_owned()))];
    bench.cloud.take_calls();
    for (number, hosts) in [("1", &["n0"][..]), ("2", &["n0", "n1"])] {
        bench.cloud.script("update", "web", [Outcome { annotations: jobs(number), ..Outcome::default() }]);
        assert_eq!(bench.pass(hosts.iter().map(|name| node(name))).await, [Verdict::Done]);
        assert_eq!(bench.sync("web").await, Verdict::Done);
        assert_eq!(bench.cloud.take_calls(), [format!("update web: {}", hosts.join(" "))]);
        assert_eq!(bench.json("web")["metadata"]["annotations"]["fake.io/job-1"], number);
    }
    // So it is after a restart.
    let mut bench = bench.restart();
    assert_eq!((bench.sync("web").await, bench.cloud.take_calls().len()), (Verdict::Done, 0));

    bench.edit("web", &json!({ "metadata": { "annotations": { "fake.io/job-1": "edited" } } }));
    assert_eq!(bench.sync("web").await, Verdict::Done);
    assert_eq!(bench.cloud.take_calls().last().unwrap(), "ensure web: n0 n1");
    assert_eq!((bench.sync("web").await, bench.cloud.take_calls().len()), (Verdict::Done, 0));
}
