//! The DELETE: failures, other writers, Nodes that come back.

use std::time::Duration;

use ccm_apiserver::ApiGateSettings;
use ccm_cloud::{Finding, Need};
use futures::future::{join_all, pending};
use serde_json::json;

use super::{Bench, DELETE, DELETING, GET, after, lost, node, ready};
use crate::node::write::PATCH;
use crate::node_lifecycle::NodeLifecycleSettings;
use crate::queue::Verdict;

fn bench() -> Bench {
    let mut bench = Bench::new();
    bench.cloud.answer("node0", [Finding::Absent]);
    bench.add(lost("node0"));
    bench
}

#[tokio::test(start_paused = true)]
async fn a_node_is_deleted_at_the_second_absent_which_is_a_proof_with_uid_and_resource_version() {
    let mut bench = bench();
    assert_eq!(bench.sync("node0").await, after(5));
    assert_eq!(bench.api.calls(), [], "one answer is not enough");
    assert_eq!(bench.scraped("first_absent_total"), 1.0);
    tokio::time::advance(Duration::from_secs(5)).await;
    let version = bench.api.json("node0")["metadata"]["resourceVersion"].clone();
    assert_eq!(bench.sync("node0").await, Verdict::Done);
    assert_eq!(bench.cloud.needs(), [Need::Existence, Need::Proof]);
    let calls = bench.api.calls();
    assert_eq!(calls.iter().map(|call| call.line.as_str()).collect::<Vec<_>>(), [DELETE]);
    assert_eq!(calls[0].body["preconditions"], json!({ "uid": "uid-node0", "resourceVersion": version }));
    assert_eq!(bench.events().await, [DELETING]);
    assert_eq!(bench.scraped("deletions_total{result=\"deleted\"}"), 1.0);
    // The store still shows it.
    assert_eq!(bench.sync("node0").await, Verdict::Done);
    assert_eq!((bench.cloud.calls().len(), bench.api.count("DELETE")), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn case_94_a_delete_that_fails_is_told_after_the_deletion_and_tried_again_with_a_new_proof() {
    let mut bench = bench();
    bench.api.refuse(DELETE, 500, 1);
    bench.syncs("node0", 2).await;
    assert!(bench.api.has("node0"));
    bench.syncs("node0", 2).await;
    assert!(!bench.api.has("node0"));
    assert_eq!(bench.cloud.needs(), [Need::Existence, Need::Proof, Need::Proof]);
    let failed = "Warning DeletingNodeFailed: Failed deleting node node0: cannot write the Node: the API server cannot serve this now (500): no";
    assert_eq!(bench.events().await, [DELETING, failed]);
    assert_eq!(bench.scraped("deletions_total{result=\"failed\"}"), 1.0);
}

/// It passed for the API server's, and the Node was never looked at again, nor deleted.
#[tokio::test(start_paused = true)]
async fn a_delete_that_something_in_between_answers_is_none_and_is_tried_again_with_a_new_proof() {
    for text in ["{}", r#"{ "message": "moved" }"#] {
        let bench = bench();
        bench.api.interfere(DELETE, 200, text, 1);
        assert!(matches!(bench.syncs("node0", 2).await, Verdict::After(_)), "{text}");
        assert!(bench.api.has("node0"));
        bench.syncs("node0", 2).await;
        assert!(!bench.api.has("node0"), "{text}");
        assert_eq!(bench.cloud.needs(), [Need::Existence, Need::Proof, Need::Proof]);
        assert_eq!(bench.scraped("deletions_total{result=\"failed\"}"), 1.0);
    }
}

/// A Node with a finalizer is shown as it goes.
#[tokio::test(start_paused = true)]
async fn a_delete_that_is_answered_with_the_node_is_one() {
    let mut bench = bench();
    let going = lost("node0").with("/metadata", "deletionTimestamp", json!("2026-01-01T00:00:00Z"));
    bench.api.interfere(DELETE, 200, &going.0.to_string(), 1);
    assert_eq!(bench.syncs("node0", 2).await, Verdict::Done);
    assert_eq!(bench.events().await, [DELETING]);
}

/// Upstream writes both Events again with each pass.
#[tokio::test(start_paused = true)]
async fn a_delete_that_fails_for_ever_is_told_now_and_then() {
    let mut bench = bench();
    bench.api.refuse(DELETE, 500, 1_000);
    bench.syncs("node0", 30).await;
    let deletes = bench.api.count("DELETE");
    assert_eq!(deletes, 29);
    bench.events().await;
    let told: Vec<i64> = bench.api.raw_events().iter().map(|e| e["series"]["count"].as_i64().unwrap_or(1)).collect();
    assert_eq!(told.len(), 2, "one Event each, counted up");
    assert!(told.iter().all(|count| *count <= 3), "{told:?} in half an hour");
}

#[tokio::test(start_paused = true)]
async fn case_95_a_delete_that_fails_keeps_no_other_node() {
    let mut bench = bench();
    bench.cloud.answer("node1", [Finding::Absent]);
    bench.add(lost("node1"));
    bench.api.refuse(DELETE, 403, 1);
    for name in ["node0", "node1"] {
        bench.sync(name).await;
    }
    tokio::time::advance(Duration::from_secs(5)).await;
    for name in ["node0", "node1"] {
        bench.sync(name).await;
    }
    assert_eq!((bench.api.has("node0"), bench.api.has("node1")), (true, false));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_becomes_ready_right_before_its_delete_stays() {
    let mut bench = bench();
    bench.sync("node0").await;
    tokio::time::advance(Duration::from_secs(5)).await;
    // The store does not know yet.
    bench.api.script(DELETE, |api| {
        api.edit("node0", &ready("True"));
        None
    });
    assert_eq!(bench.sync("node0").await, Verdict::Done);
    assert_eq!(bench.api.lines(), [DELETE, GET]);
    assert!(bench.api.has("node0"));
    assert_eq!(bench.events().await, [""; 0], "nobody is told of a deletion that was none");
    assert_eq!(bench.scraped("deletions_total{result=\"unneeded\"}"), 1.0);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_changes_while_the_cloud_is_asked_stays_without_a_request() {
    let again = json!({ "metadata": { "uid": "another" } });
    let other_machine = json!({ "spec": { "providerID": "fake://other" } });
    let deleting = json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } });
    for change in [ready("True"), again, other_machine, deleting] {
        let settings = NodeLifecycleSettings::default();
        let mut bench = Bench::of(crate::testing::FakeCloud::slow(Duration::from_secs(1)), settings);
        bench.cloud.answer("node0", [Finding::Absent]);
        bench.add(lost("node0"));
        bench.sync("node0").await;
        tokio::time::advance(Duration::from_secs(5)).await;
        let changed = bench.api.edit("node0", &change);
        let (store, syncer) = (&mut bench.store, &bench.syncer);
        let changes = async {
            tokio::time::sleep(Duration::from_millis(500)).await;
            store.apply_watcher_event(&kube::runtime::watcher::Event::Apply(changed));
        };
        let (verdict, ()) = tokio::join!(syncer.sync("node0"), changes);
        assert_eq!(verdict, Verdict::Done, "{change}");
        assert_eq!(bench.api.calls(), [], "{change}");
        assert_eq!(bench.syncer.memory.len(), 0, "whatever was said before is void: {change}");
    }
}

/// QUIRK-09: upstream deletes the new one.
#[tokio::test(start_paused = true)]
async fn a_node_that_was_created_again_under_its_name_stays() {
    let mut bench = bench();
    bench.sync("node0").await;
    tokio::time::advance(Duration::from_secs(5)).await;
    bench.api.script(DELETE, |api| {
        api.create(lost("node0").with("/metadata", "uid", json!("another")).0);
        None
    });
    assert_eq!(bench.sync("node0").await, Verdict::Done);
    assert!(bench.api.has("node0"));
    // When the store knows it, it begins with a first look.
    let node = bench.api.node("node0");
    bench.seen(node);
    assert_eq!(bench.sync("node0").await, after(5));
    assert_eq!(bench.cloud.needs(), [Need::Existence, Need::Proof, Need::Existence]);
    assert_eq!(bench.events().await, [""; 0]);
}

/// The cloud was asked by name; now there is a machine that it can be asked about.
#[tokio::test(start_paused = true)]
async fn a_node_that_gets_its_provider_id_right_before_its_delete_stays() {
    let upstream = NodeLifecycleSettings { delete_without_provider_id: true, ..NodeLifecycleSettings::default() };
    let mut bench = Bench::with(upstream);
    bench.cloud.answer("node0", [Finding::Absent]);
    bench.add(node("node0").aged(super::OLD).ready("False"));
    bench.api.script(DELETE, |api| {
        api.edit("node0", &json!({ "spec": { "providerID": "fake://1" } }));
        None
    });
    bench.syncs("node0", 2).await;
    assert_eq!(bench.api.lines(), [DELETE, GET]);
    assert!(bench.api.has("node0"));
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_that_writes_all_the_time_does_not_keep_its_node() {
    let bench = bench();
    for i in 0..10 {
        bench.api.script(DELETE, move |api| {
            api.edit("node0", &json!({ "status": { "phase": i.to_string() } }));
            None
        });
    }
    bench.syncs("node0", 2).await;
    assert!(!bench.api.has("node0"));
    assert_eq!((bench.api.count("DELETE"), bench.api.count("GET")), (11, 10));
    assert_eq!(bench.cloud.calls().len(), 2, "the cloud is not asked again");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_somebody_else_deletes_is_no_failure() {
    for deleting in [false, true] {
        let mut bench = bench();
        bench.api.script(DELETE, move |api| {
            if deleting {
                api.edit("node0", &json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } }));
            } else {
                api.delete("node0");
            }
            None
        });
        assert_eq!(bench.syncs("node0", 2).await, Verdict::Done);
        assert_eq!(bench.api.count("DELETE"), 1);
        assert_eq!(bench.events().await, [""; 0]);
    }
}

/// A process that was stopped between proof and DELETE, or an API server that made it wait.
#[tokio::test(start_paused = true)]
async fn a_proof_that_is_too_old_is_none() {
    let settings = NodeLifecycleSettings { proof_validity: Duration::ZERO, ..NodeLifecycleSettings::default() };
    let mut bench = Bench::with(settings);
    bench.cloud.answer("node0", [Finding::Absent]);
    bench.add(lost("node0"));
    assert!(matches!(bench.syncs("node0", 3).await, Verdict::After(_)));
    assert_eq!(bench.api.calls(), []);
    assert_eq!(bench.cloud.needs(), [Need::Existence, Need::Proof, Need::Proof]);
}

/// The time was looked at before the DELETE waited for its place, which took minutes.
#[tokio::test(start_paused = true)]
async fn a_delete_that_waits_for_other_writes_does_not_leave_when_its_proof_is_too_old() {
    let proof_validity = Duration::from_secs(5);
    let mut bench = Bench::with(NodeLifecycleSettings { proof_validity, ..NodeLifecycleSettings::default() });
    bench.cloud.answer("node0", [Finding::Absent]);
    bench.add(lost("node0"));
    bench.sync("node0").await;
    tokio::time::advance(Duration::from_secs(5)).await;
    // Each of them ends at the limit of a request, after ten seconds.
    let gate = &bench.syncer.writer.gate;
    let others = (0..ApiGateSettings::default().concurrent_writes.get())
        .map(|_| gate.write(PATCH, pending::<kube::Result<()>>()));
    let (_, verdict) = tokio::join!(join_all(others), bench.sync("node0"));
    assert!(matches!(verdict, Verdict::After(_)), "{verdict:?}");
    assert_eq!(bench.api.count("DELETE"), 0);
    bench.sync("node0").await;
    assert!(!bench.api.has("node0"));
    assert_eq!(bench.cloud.needs(), [Need::Existence, Need::Proof, Need::Proof]);
    assert_eq!(bench.events().await, [DELETING], "nothing has failed");
}

#[tokio::test(start_paused = true)]
async fn a_delete_without_an_answer_counts_as_one_and_is_not_told_twice() {
    let mut bench = bench();
    bench.api.lose_answer(DELETE);
    bench.syncs("node0", 2).await;
    assert!(!bench.api.has("node0"));
    assert_eq!(bench.events().await.len(), 2, "DeletingNode, and that nobody knows");
    // The store learns of it.
    let gone = lost("node0").object();
    bench.store.apply_watcher_event(&kube::runtime::watcher::Event::Delete(gone));
    assert_eq!(bench.sync("node0").await, Verdict::Done);
    assert_eq!((bench.syncer.memory.len(), bench.scraped("not_ready_nodes")), (0, 0.0));
}

#[tokio::test(start_paused = true)]
async fn nodes_that_are_being_deleted_or_of_another_cloud_are_left_alone() {
    let ours = lost("node0").taint(crate::node_lifecycle::node_state::SHUTDOWN);
    let cases = [
        ours.clone().with("/metadata", "deletionTimestamp", json!("2026-01-01T00:00:00Z")),
        ours.clone().provider_id("aws:///zone/i-1"),
        ours.clone().provider_id("aws:///zone/i-1").ready("True"),
        ours.provider_id("noscheme"),
        node("node0").aged(super::OLD).provider_id("faker://1"),
    ];
    for draft in cases {
        // No answer about it: asking would panic.
        let mut bench = Bench::new();
        bench.add(draft);
        assert_eq!(bench.sync("node0").await, Verdict::Done);
        assert_eq!(bench.api.calls(), []);
        assert_eq!((bench.syncer.memory.len(), bench.scraped("not_ready_nodes")), (0, 0.0));
    }
}
