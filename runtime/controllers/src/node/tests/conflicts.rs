//! Other writers at the same time: 7.2/27 and 28, QUIRK-05 and QUIRK-07.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Bench, EVENT, GET, OBJECT, STATUS, SYNC_DELAY, TAINT_DELAY};
use crate::queue::Verdict;
use crate::reaction::MIN_SLOW_RETRY;
use crate::testing::{found, node};

fn bench() -> Bench {
    let mut bench = Bench::new();
    bench.cloud.answer("node0", [found(|_| ())]);
    bench.add(node("node0").tainted());
    bench
}

fn labels(bench: &Bench) -> Value {
    bench.api.json("node0")["metadata"]["labels"].clone()
}

#[tokio::test(start_paused = true)]
async fn case_27_two_conflicts_are_three_patches_one_lookup_and_one_event() {
    let mut bench = bench();
    bench.api.refuse(OBJECT, 409, 2);
    assert_eq!(bench.sync("node0").await, Verdict::Done);
    assert_eq!(bench.events().await, ["Normal Synced: Node synced successfully"]);
    assert_eq!(bench.api.lines(), [STATUS, OBJECT, GET, OBJECT, GET, OBJECT, EVENT]);
    assert_eq!(bench.cloud.calls().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn case_28_a_refused_patch_is_one_patch_and_no_success() {
    const WITH_BACKOFF: &str = "with back-off, at the latest in 1000s";
    // A permission that is lacking may be there in a moment, when the API server has just started: the Node once waited for
    // a minute. What is wrong in itself is refused again.
    let slow = Verdict::After(Duration::from_secs(60));
    assert!(Duration::from_secs(60) > MIN_SLOW_RETRY);
    let cases = [(403, Verdict::Backoff, WITH_BACKOFF), (401, Verdict::Backoff, WITH_BACKOFF), (422, slow, "in 60s")];
    for (code, verdict, told) in cases {
        let mut bench = bench();
        bench.api.refuse(OBJECT, code, 1);
        assert_eq!(bench.sync("node0").await, verdict, "{code}");
        assert_eq!(bench.api.lines(), [STATUS, OBJECT], "{code}");
        let why = match code {
            403 => "Forbidden): no: User \"ccm\" cannot do this; manifests/base/rbac.yaml has the rights",
            _ => "Scripted): no",
        };
        let warning = format!(
            "Warning SyncNodeFailed: cannot write the Node: refused by the API server ({code} {why} (api): retried {told}"
        );
        assert_eq!(bench.events().await, [warning], "{code}");
    }
}

/// It passed for the API server's: the write that followed was bound to no version, or a Node with its taint counted as initialised.
#[tokio::test(start_paused = true)]
async fn an_answer_of_something_in_between_is_none_and_the_node_is_tried_again() {
    for (line, before) in [(STATUS, vec![STATUS]), (OBJECT, vec![STATUS, OBJECT])] {
        let mut bench = bench();
        bench.api.interfere(line, 200, "{}", 1);
        assert_eq!(bench.sync("node0").await, Verdict::Backoff, "{line}");
        assert_eq!(bench.api.lines(), before);
        assert!(!bench.api.json("node0")["spec"]["taints"].is_null());
        assert_eq!(bench.sync("node0").await, Verdict::Done, "{line}");
        assert!(bench.api.json("node0")["spec"]["taints"].is_null());
        assert_eq!(bench.events().await, ["Normal Synced: Node synced successfully"]);
    }
}

/// Deviation from case 7.2/29: upstream logs the failure of the address patch and has removed the taint before it. Here the
/// taint stays and the whole sync is tried again.
#[tokio::test(start_paused = true)]
async fn case_29_addresses_that_cannot_be_written_keep_the_taint() {
    let mut bench = bench();
    bench.api.refuse(STATUS, 500, 1);
    assert_eq!(bench.sync("node0").await, Verdict::Backoff);
    assert_eq!(bench.api.lines(), [STATUS]);
    assert_eq!(bench.sync("node0").await, Verdict::Done);
    assert_eq!(bench.events().await, ["Normal Synced: Node synced successfully"]);
    assert_eq!(bench.api.lines(), [STATUS, STATUS, OBJECT, EVENT]);
}

#[tokio::test(start_paused = true)]
async fn conflicts_without_end_are_twenty_patches_fifty_to_a_hundred_milliseconds_apart() {
    let mut bench = bench();
    bench.api.refuse(OBJECT, 409, 100);
    let begun = Instant::now();
    assert_eq!(bench.sync("node0").await, Verdict::Backoff);
    let took = begun.elapsed() - Duration::from_millis(20);
    let lines = bench.api.lines();
    assert_eq!(lines.iter().filter(|line| *line == OBJECT).count(), 20);
    assert!((Duration::from_millis(19 * 50)..Duration::from_millis(19 * 102)).contains(&took), "{took:?}");
    assert_eq!(bench.cloud.calls().len(), 1, "the cloud is not asked again");
    assert_eq!(bench.events().await.len(), 1, "an operator is told");
}

#[tokio::test(start_paused = true)]
async fn after_a_conflict_everything_that_depends_on_the_node_is_decided_anew() {
    let bench = bench();
    bench.cloud.answer(
        "node0",
        [found(|i| {
            i.addresses.retain(|address| address.kind != ccm_cloud::AddressKind::Hostname);
            i.labels = [("team".into(), "cloud".into())].into();
        })],
    );
    bench.api.script(STATUS, |api| {
        api.edit("node0", &json!({
            "metadata": { "labels": { "team": "mine" } },
            "spec": { "taints": [{ "key": "node.cloudprovider.kubernetes.io/uninitialized", "effect": "NoSchedule" }, { "key": "new", "effect": "NoExecute" }] },
            "status": { "addresses": [{ "type": "Hostname", "address": "late" }] },
        }));
        None
    });
    assert_eq!(bench.sync("node0").await, Verdict::Done);
    assert_eq!(bench.api.lines(), [STATUS, GET, STATUS, OBJECT]);
    let node = bench.api.json("node0");
    assert_eq!(node["status"]["addresses"][2], json!({ "type": "Hostname", "address": "late" }));
    assert_eq!(node["spec"]["taints"], json!([{ "key": "new", "effect": "NoExecute" }]));
    assert_eq!(labels(&bench), json!({ "team": "mine" }));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_somebody_else_initialised_meanwhile_gets_no_event() {
    let mut bench = bench();
    bench.api.script(OBJECT, |api| {
        api.edit("node0", &json!({ "spec": { "taints": null } }));
        None
    });
    assert_eq!(bench.sync("node0").await, Verdict::Done);
    assert_eq!(bench.events().await, [""; 0]);
    assert_eq!(bench.api.lines(), [STATUS, OBJECT, GET]);
    assert_eq!(bench.scraped(&format!("{TAINT_DELAY}_count")), 0.0);
}

#[tokio::test(start_paused = true)]
async fn a_node_of_the_same_name_that_was_created_meanwhile_is_not_given_the_old_ones_data() {
    let mut bench = bench();
    bench.api.script(STATUS, |api| {
        api.edit("node0", &json!({ "metadata": { "uid": "another" } }));
        None
    });
    assert_eq!(bench.sync("node0").await, Verdict::Done, "the watch will tell of the new one");
    assert_eq!(bench.api.lines(), [STATUS, GET]);
    assert_eq!(bench.events().await, [""; 0]);
    assert_eq!(bench.api.json("node0")["status"], json!({}));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_deleted_meanwhile_is_a_success_without_an_event() {
    for line in [STATUS, OBJECT] {
        let mut bench = bench();
        bench.api.script(line, |api| {
            api.delete("node0");
            None
        });
        assert_eq!(bench.sync("node0").await, Verdict::Done);
        assert_eq!(bench.events().await, [""; 0]);
        assert_eq!(bench.api.lines().last().map(String::as_str), Some(line));
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_lags_behind_our_own_writes_causes_no_work() {
    let mut bench = bench();
    bench.sync("node0").await;
    let before = (bench.cloud.calls().len(), bench.api.calls().len());
    assert_eq!(bench.sync("node0").await, Verdict::Done, "the store still shows the taint");
    assert_eq!((bench.cloud.calls().len(), bench.api.calls().len()), before);
    bench.catch_up("node0");
    bench.sync("node0").await;
    assert_eq!((bench.syncer.memory.len(), bench.api.calls().len()), (0, before.1));
}

#[tokio::test(start_paused = true)]
async fn a_taint_that_comes_back_is_work_again() {
    let mut bench = bench();
    bench.sync("node0").await;
    let taint = json!([{ "key": "node.cloudprovider.kubernetes.io/uninitialized", "effect": "NoSchedule" }]);
    bench.edit("node0", &json!({ "spec": { "taints": taint } }));
    assert_eq!(bench.metrics.node.uninitialized.get(), 0);
    assert_eq!(bench.sync("node0").await, Verdict::Done);
    assert_eq!(bench.cloud.calls().len(), 2);
    assert_eq!(bench.api.json("node0")["spec"].get("taints"), None);
}

#[tokio::test(start_paused = true)]
async fn a_request_without_an_answer_ends_at_the_time_limit() {
    let bench = bench();
    bench.api.silence("PATCH");
    let begun = Instant::now();
    assert_eq!(bench.sync("node0").await, Verdict::Backoff);
    assert!(begun.elapsed() < Duration::from_secs(11), "{:?}", begun.elapsed());
}

/// An API server that dies in the middle: the taint is gone, but no answer came. Nobody was ever told of such a Node, and no
/// metric counted it.
#[tokio::test(start_paused = true)]
async fn a_node_whose_last_answer_was_lost_is_initialised_and_has_its_event() {
    for sees_it_late in [false, true] {
        let mut bench = bench();
        bench.api.lose_answer(OBJECT);
        assert_eq!(bench.sync("node0").await, Verdict::Backoff);
        if sees_it_late {
            // The store still shows the taint at the next try.
            bench.cloud.answer("node0", [found(|_| ())]);
            assert_eq!(bench.sync("node0").await, Verdict::Done);
        }
        bench.catch_up("node0");
        assert_eq!(bench.sync("node0").await, Verdict::Done);
        bench.sync("node0").await;
        assert_eq!(bench.events().await, ["Normal Synced: Node synced successfully"], "{sees_it_late}");
        let counted = [TAINT_DELAY, SYNC_DELAY].map(|metric| bench.scraped(&format!("{metric}_count")));
        assert_eq!(counted, [1.0, 1.0], "{sees_it_late}");
        assert_eq!(bench.syncer.memory.len(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_last_request_was_lost_is_initialised_once() {
    let mut bench = bench();
    bench.cloud.answer("node0", [found(|_| ())]);
    bench.api.refuse(OBJECT, 504, 1);
    assert_eq!(bench.sync("node0").await, Verdict::Backoff);
    assert_eq!(bench.sync("node0").await, Verdict::Done);
    bench.catch_up("node0");
    bench.sync("node0").await;
    assert_eq!(bench.events().await, ["Normal Synced: Node synced successfully"]);
    assert_eq!(bench.scraped(&format!("{SYNC_DELAY}_count")), 1.0);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_somebody_else_initialised_after_a_lost_answer_about_addresses_gets_no_event() {
    let mut bench = bench();
    bench.api.lose_answer(STATUS);
    assert_eq!(bench.sync("node0").await, Verdict::Backoff);
    bench.edit("node0", &json!({ "spec": { "taints": null } }));
    bench.sync("node0").await;
    assert_eq!(bench.events().await, [""; 0]);
}

/// New Nodes `a` and `b`, for both of which the cloud has the same machine.
fn two_nodes_with_one_machine() -> Bench {
    let mut bench = Bench::keeping_apart();
    for name in ["a", "b"] {
        bench.cloud.answer(
            name,
            [found(|instance| {
                instance.provider_id = "fake://same".to_owned();
                instance.addresses.clear();
            })],
        );
        bench.add(node(name).ready("True").tainted());
    }
    bench
}

/// Of `a` and `b`.
fn provider_ids(bench: &Bench) -> [Value; 2] {
    ["a", "b"].map(|name| bench.api.json(name)["spec"]["providerID"].clone())
}

/// An API server that dies before it answers takes the watch along: by what the store said nobody had the machine, and a second Node got it.
#[tokio::test(start_paused = true)]
async fn a_machine_that_a_lost_answer_may_have_given_is_no_other_nodes_before_the_store_can_show_it() {
    let mut bench = two_nodes_with_one_machine();
    bench.api.lose_answer("PATCH /api/v1/nodes/a");
    assert_eq!(bench.sync("a").await, Verdict::Backoff);
    assert_eq!(bench.sync("b").await, Verdict::Backoff);
    assert_eq!(provider_ids(&bench), [json!("fake://same"), Value::Null]);
    // Its next try sees what the first one did, and ends nothing.
    assert_eq!(bench.sync("a").await, Verdict::Done);
    assert_eq!(bench.sync("b").await, Verdict::Backoff);
    bench.catch_up("a");
    bench.sync("a").await;
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(bench.sync("b").await, Verdict::Backoff);
    assert_eq!(provider_ids(&bench), [json!("fake://same"), Value::Null]);
}

/// Both were initialised, and went with one machine.
#[tokio::test(start_paused = true)]
async fn of_two_nodes_that_are_given_one_machine_at_the_same_time_one_waits_and_people_hear_whose_it_is() {
    let mut bench = two_nodes_with_one_machine();
    let (first, second) = tokio::join!(bench.sync("a"), bench.sync("b"));
    let ids = provider_ids(&bench);
    assert_eq!(ids.iter().filter(|id| **id == "fake://same").count(), 1, "{ids:?} {first:?} {second:?}");
    assert!([first, second].contains(&Verdict::Backoff), "{first:?} {second:?}");
    let (has, waits) = if ids[0].is_null() { ("b", "a") } else { ("a", "b") };
    bench.catch_up(has);
    bench.sync(waits).await;
    assert!(bench.api.json(waits)["spec"]["providerID"].is_null());
    // Its machine is gone, and so is the Node.
    bench.api.with(|state| state.delete(has));
    let gone = node(has).object();
    bench.store.apply_watcher_event(&kube::runtime::watcher::Event::Delete(gone));
    bench.sync(waits).await;
    assert_eq!(bench.api.json(waits)["spec"]["providerID"], "fake://same");
    let says = format!("the machine of node {waits} is \"fake://same\", which is that of node {has}");
    let events = bench.events().await;
    assert!(events.iter().any(|event| event.contains(&says) && event.contains("(conflict)")), "{events:#?}");
}
