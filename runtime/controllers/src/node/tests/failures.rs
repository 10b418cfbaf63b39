//! What happens to a Node that cannot be initialised, and what an operator is told.

use std::sync::Arc;
use std::time::Duration;

use ccm_cloud::{AddressKind, FailedRequest, Failure, Finding, Instance, Reaction};
use kube::runtime::reflector::ObjectRef;
use serde_json::json;

use super::Bench;
use crate::explain::Next;
use crate::node::NodeSettings;
use crate::queue::Verdict;
use crate::testing::{FakeCloud, address, found, node};
use crate::troubles::{Listed, UninitialisedNode};

fn unknown(reaction: Reaction, after: Option<u64>) -> Finding {
    let mut failure = Failure::new(reaction, "what the cloud said");
    failure.retry_after = after.map(Duration::from_secs);
    Finding::Unknown(failure)
}

#[tokio::test(start_paused = true)]
async fn each_reaction_has_its_next_run_its_warning_and_its_count() {
    let after = |seconds| Verdict::After(Duration::from_secs(seconds));
    let cases = [
        (Reaction::Retry, None, Verdict::Backoff, Some("retried with back-off, at the latest in 1000s")),
        (Reaction::Retry, Some(7), after(7), Some("retried in 7s")),
        (Reaction::Conflict, None, Verdict::Backoff, Some("retried with back-off, at the latest in 1000s")),
        (Reaction::Throttled, Some(20), after(20), Some("retried in 20s")),
        (Reaction::Throttled, Some(0), after(1), Some("retried in 1s")),
        (Reaction::Throttled, Some(90_000), after(1_000), Some("retried in 1000s")),
        (Reaction::Throttled, None, Verdict::Backoff, Some("retried with back-off, at the latest in 1000s")),
        (Reaction::Pending, Some(5), after(5), Some("retried in 5s")),
        (Reaction::Pending, None, Verdict::Backoff, Some("retried with back-off, at the latest in 1000s")),
        (Reaction::Unauthorized, None, after(60), Some("retried in 60s")),
        (Reaction::Quota, Some(5), after(60), Some("retried in 60s")),
        (Reaction::Unsupported, Some(90), after(90), Some("retried in 90s")),
        (Reaction::Invalid, None, Verdict::Change, Some("not retried before the object changes")),
        (Reaction::Elsewhere, None, Verdict::Change, None),
    ];
    for (reaction, retry_after, verdict, told) in cases {
        let mut bench = Bench::new();
        bench.cloud.answer("node0", [unknown(reaction, retry_after)]);
        bench.add(node("node0").tainted().provider_id("fake://0"));
        let word = reaction.as_str();
        assert_eq!(bench.sync("node0").await, verdict, "{word}");
        let counted = (bench.api.calls().len(), bench.metrics.node.failures(reaction));
        assert_eq!(counted, (0, u64::from(told.is_some())), "{word}");
        let warning = told.map(|told| {
            format!("Warning SyncNodeFailed: the machine of node node0 could not be determined: what the cloud said ({word}): {told}")
        });
        assert_eq!(bench.events().await, Vec::from_iter(warning), "{word}");
    }
}

/// Its kubelet has another name for it than the cloud, and nobody says so. Another manager's Nodes look the same for a moment.
#[tokio::test(start_paused = true)]
async fn a_node_without_provider_id_that_no_provider_knows_says_so_in_one_event() {
    let settings = NodeSettings { unclaimed_after: Duration::from_secs(90), ..NodeSettings::default() };
    let mut bench = Bench::with(FakeCloud::default(), settings);
    bench.cloud.answer("node0", vec![unknown(Reaction::Elsewhere, None); 8]);
    bench.add(node("node0").tainted());
    assert_eq!(bench.sync("node0").await, Verdict::After(Duration::from_secs(90)));
    tokio::time::advance(Duration::from_secs(60)).await;
    let verdict = bench.sync("node0").await;
    assert!(matches!(verdict, Verdict::After(left) if left.as_secs_f64().round() == 30.0), "{verdict:?}");
    assert_eq!(bench.metrics.events.waiting.get(), 0);
    for _ in 0..4 {
        tokio::time::advance(Duration::from_secs(30)).await;
        assert_eq!(bench.sync("node0").await, Verdict::Change);
        tokio::time::advance(Duration::from_secs(12 * 60 * 60)).await;
    }
    assert_eq!(bench.metrics.node.failures(Reaction::Elsewhere), 0, "it may be somebody else's");
    let events = bench.events().await;
    assert!(
        events.len() == 1 && events[0].starts_with("Warning SyncNodeFailed: no provider of this process knows"),
        "{events:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn slow_retries_are_never_faster_than_half_a_minute() {
    let settings = NodeSettings { slow_retry: Duration::ZERO, ..NodeSettings::default() };
    let mut bench = Bench::with(FakeCloud::default(), settings);
    bench.cloud.answer("node0", [unknown(Reaction::Unauthorized, None)]);
    bench.add(node("node0").tainted());
    assert_eq!(bench.sync("node0").await, Verdict::After(Duration::from_secs(30)));
}

#[tokio::test(start_paused = true)]
async fn a_warning_is_repeated_when_it_changes_or_after_ten_minutes() {
    let mut bench = Bench::new();
    bench.add(node("node0").tainted());
    let retry = || unknown(Reaction::Retry, None);
    bench
        .cloud
        .answer("node0", [retry(), retry(), retry(), Finding::Absent, Finding::Absent, retry(), retry(), retry()]);
    let mut waiting = vec![];
    for pause in [0, 1, 1, 1, 1, 1, 599, 2] {
        tokio::time::advance(Duration::from_secs(pause)).await;
        bench.sync("node0").await;
        waiting.push(bench.metrics.events.waiting.get());
    }
    assert_eq!(waiting, [1, 1, 1, 2, 2, 3, 3, 4]);
}

#[tokio::test(start_paused = true)]
async fn a_delay_that_changes_each_time_is_no_news() {
    let mut bench = Bench::new();
    bench.add(node("node0").tainted());
    bench.cloud.answer("node0", [unknown(Reaction::Throttled, Some(9)), unknown(Reaction::Throttled, Some(8))]);
    assert_eq!(bench.sync("node0").await, Verdict::After(Duration::from_secs(9)));
    assert_eq!(bench.sync("node0").await, Verdict::After(Duration::from_secs(8)));
    assert_eq!(bench.events().await.len(), 1);
}

/// With the delay in its text, each reminder was an Event of its own.
#[tokio::test(start_paused = true)]
async fn all_reminders_of_a_node_that_waits_are_one_event() {
    let settings = NodeSettings::default();
    let repeat = settings.repeat_warning;
    let mut bench = Bench::with(FakeCloud::default(), settings);
    bench.add(node("node0").tainted());
    bench.cloud.answer("node0", [Finding::Absent]);
    for _ in 0..6 {
        assert_eq!(bench.sync("node0").await, Verdict::Backoff);
        tokio::time::advance(repeat).await;
    }
    let events = bench.events().await;
    assert!(events.len() == 1 && events[0].ends_with("at the latest in 1000s (6 times)"), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn a_long_message_leaves_room_for_what_is_done_about_it() {
    let mut bench = Bench::new();
    bench.add(node("node0").tainted());
    bench.cloud.answer("node0", [Finding::Unknown(Failure::new(Reaction::Quota, "ä".repeat(4_000)))]);
    bench.sync("node0").await;
    let events = bench.events().await;
    assert!(events[0].ends_with("ä (quota): retried in 60s"), "{events:?}");
}

/// Deviation from case 7.2/24, where upstream forgets the Node until its object changes.
#[tokio::test(start_paused = true)]
async fn a_machine_that_appears_late_is_found_by_the_next_try() {
    let mut bench = Bench::new();
    bench.cloud.answer("node0", [Finding::Absent, found(|_| ())]);
    bench.add(node("node0").tainted());
    assert_eq!(bench.sync("node0").await, Verdict::Backoff);
    assert_eq!(bench.metrics.node.uninitialized.get(), 1);
    assert_eq!(bench.sync("node0").await, Verdict::Done);
    assert_eq!(bench.metrics.node.uninitialized.get(), 0);
    let events = bench.events().await;
    assert_eq!(
        events,
        [
            "Warning SyncNodeFailed: the cloud has no machine for node node0 (absent): retried with back-off, at the latest in 1000s",
            "Normal Synced: Node synced successfully",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_cloud_without_an_answer_ends_at_the_time_limit() {
    let mut bench = Bench::with(FakeCloud::slow(Duration::from_secs(3_600)), NodeSettings::default());
    bench.cloud.answer("node0", [found(|_| ())]);
    bench.add(node("node0").tainted());
    let begun = tokio::time::Instant::now();
    assert_eq!(bench.sync("node0").await, Verdict::Backoff);
    assert!(begun.elapsed() < Duration::from_secs(301), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn memory_ends_with_the_node() {
    let mut bench = Bench::new();
    for i in 0..50 {
        let name = format!("n{i}");
        bench.cloud.answer(&name, [Finding::Absent]);
        bench.add(node(&name).tainted());
        bench.sync(&name).await;
    }
    assert_eq!((bench.syncer.memory.len(), bench.metrics.node.uninitialized.get()), (50, 50));
    bench.edit("n0", &json!({ "metadata": { "uid": "another" } }));
    bench.sync("n0").await;
    assert_eq!((bench.syncer.memory.len(), bench.metrics.node.uninitialized.get()), (50, 50), "one re-created");
    bench.edit("n0", &json!({ "spec": { "taints": null } }));
    bench.sync("n0").await;
    assert_eq!(
        (bench.syncer.memory.len(), bench.metrics.node.uninitialized.get()),
        (49, 49),
        "one initialised by hand"
    );
    for i in 1..50 {
        let node = bench.api.node(&format!("n{i}"));
        bench.store.apply_watcher_event(&kube::runtime::watcher::Event::Delete(node));
        bench.sync(&format!("n{i}")).await;
    }
    assert_eq!((bench.syncer.memory.len(), bench.metrics.node.uninitialized.get()), (0, 0));
}

/// Thousands wait for the cloud or for their turn to write at the same time.
#[tokio::test(start_paused = true)]
async fn a_sync_that_waits_is_small() {
    let bench = Bench::new();
    let bytes = size_of_val(&bench.syncer.sync("node0"));
    assert!(bytes < 1_024, "{bytes} bytes");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_would_get_an_address_that_no_machine_has_waits_with_its_taint() {
    let mut bench = Bench::new();
    let metadata = |one: &mut Instance| {
        one.addresses = vec![address(AddressKind::InternalIp, "169.254.169.254")];
    };
    bench.cloud.answer("node0", [found(metadata)]);
    bench.add(node("node0").tainted());
    assert_eq!(bench.sync("node0").await, Verdict::Backoff);
    let events = bench.events().await;
    assert!(events[0].contains("SyncNodeFailed") && events[0].contains("169.254.169.254"), "{events:?}");
    assert_eq!(bench.api.count("PATCH"), 0);
}

#[tokio::test(start_paused = true)]
async fn whoever_asks_about_a_node_is_told_the_last_failure_until_it_is_initialised() {
    let mut bench = Bench::new();
    bench.cloud.answer("node0", [unknown(Reaction::Throttled, Some(9)), found(|_| ())]);
    bench.add(node("node0").tainted().provider_id("fake://12345"));
    let known = |bench: &Bench| bench.syncer.memory.known(&bench.syncer.store.get(&ObjectRef::new("node0")).unwrap());
    assert!(known(&bench).failure.is_none());
    bench.sync("node0").await;
    let failure = known(&bench).failure.unwrap();
    let message = "the machine of node node0 could not be determined: what the cloud said";
    assert_eq!((failure.message.as_str(), failure.reaction, failure.until_change), (message, "throttled", false));
    bench.sync("node0").await;
    assert!(known(&bench).failure.is_none(), "it is initialised");
}

#[tokio::test(start_paused = true)]
async fn of_all_nodes_those_that_wait_are_listed_by_name_with_what_is_known_of_each() {
    let mut bench = Bench::new();
    bench.cloud.answer("refused", [unknown(Reaction::Invalid, None)]);
    bench.cloud.answer("strange", [unknown(Reaction::Elsewhere, None)]);
    bench.cloud.answer("slow", [unknown(Reaction::Retry, None)]);
    for name in ["strange", "refused", "slow"] {
        bench.add(node(name).tainted());
        bench.sync(name).await;
    }
    bench.add(node("done"));
    bench.sync("done").await;
    tokio::time::advance(Duration::from_secs(7)).await;
    let Listed { all, first } = bench.syncer.memory.troubles(9);
    let told = |name: &str, reaction, unclaimed, next| {
        let why = Some(format!("the machine of node {name} could not be determined: what the cloud said"));
        UninitialisedNode { name: name.to_owned(), why, reaction: Some(reaction), unclaimed, next }
    };
    let strange = first.last().and_then(|node| node.unclaimed);
    assert_eq!(strange.map(|since| since.as_secs()), Some(7));
    let expected = [
        told("refused", "invalid", None, Next::OnChange),
        told("slow", "retry", None, Next::Unknown),
        told("strange", "elsewhere", strange, Next::OnChange),
    ];
    assert_eq!((all, first), (3, expected.into()));
    assert_eq!(bench.scraped("ccm_nodes_uninitialized"), 3.0, "the metric counts the same");
}

/// What whoever asks is told of the last try: the request behind it, and how many tries have failed.
#[tokio::test(start_paused = true)]
async fn a_try_that_failed_is_remembered_with_its_request_until_one_succeeds() {
    let request = FailedRequest {
        endpoint: "api".into(),
        origin: "https://api.example".into(),
        operation: "GET /servers/{id}".into(),
        method: "GET",
        path: "/servers/7".into(),
        status: Some(503),
        error: None,
        held: None,
        limit: None,
        request_id: Some("r-7".into()),
        sent: 3,
        at: tokio::time::Instant::now(),
    };
    let failed = Failure { request: Some(Arc::new(request)), ..Failure::new(Reaction::Retry, "no answer") };
    let mut bench = Bench::new();
    bench.add(node("node0").tainted());
    bench.cloud.answer(
        "node0",
        [Finding::Unknown(failed.clone()), Finding::Unknown(failed.clone()), Finding::Absent, found(|_| ())],
    );
    let known = || bench.syncer.memory.known(&bench.syncer.store.get(&ObjectRef::new("node0")).unwrap()).failure;
    for (tries, request) in [(1, failed.request.clone()), (2, failed.request), (3, None)] {
        bench.sync("node0").await;
        let known = known().expect("it failed");
        assert_eq!((known.tries, known.request), (tries, request), "{}", known.message);
    }
    bench.sync("node0").await;
    assert!(known().is_none());
}
