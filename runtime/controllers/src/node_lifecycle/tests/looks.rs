//! When the cloud is asked, and what counts as an answer.

use std::sync::Arc;
use std::time::Duration;

use ccm_apiserver::GRACE;
use ccm_cloud::{Failure, Finding, InstanceState, Need, Reaction};
use kube::runtime::reflector::ObjectRef;
use serde_json::json;

use super::{Bench, after, lost, unknown};
use tokio::time::Instant;

use crate::node_lifecycle::NodeLifecycleSettings;
use crate::node_lifecycle::memory::NextLook;
use crate::node_lifecycle::recall::Recalled;
use crate::node_lifecycle::run_one;
use crate::queue::Verdict;
use crate::testing::{FakeCloud, Log, found, node};

fn asked(bench: &Bench) -> usize {
    bench.cloud.calls().len()
}

#[tokio::test(start_paused = true)]
async fn any_other_answer_between_two_absent_ones_starts_over() {
    let others = [
        found(|_| ()),
        found(|instance| instance.state = InstanceState::Stopped),
        found(|instance| instance.state = InstanceState::Other),
        unknown(Reaction::Retry),
        unknown(Reaction::Throttled),
        unknown(Reaction::Pending),
        unknown(Reaction::Unauthorized),
        unknown(Reaction::Invalid),
        unknown(Reaction::Conflict),
        unknown(Reaction::Quota),
        unknown(Reaction::Unsupported),
        unknown(Reaction::Elsewhere),
    ];
    for other in others {
        let mut bench = Bench::new();
        bench.cloud.answer("node0", [Finding::Absent, other.clone(), Finding::Absent, other.clone()]);
        bench.add(lost("node0"));
        bench.syncs("node0", 4).await;
        assert!(bench.api.has("node0"), "{other:?}");
        let (first, proof) = (Need::Existence, Need::Proof);
        assert_eq!(bench.cloud.needs(), [first, proof, first, proof], "{other:?}");
    }
}

/// At the start there are as many as Nodes. With 10 KiB each, and twice that in the queue, 5,000 Nodes took 100 MiB for a moment.
#[tokio::test(start_paused = true)]
async fn a_node_takes_little_memory_until_there_is_something_to_do_for_it() {
    let Bench { syncer, .. } = Bench::new();
    let bytes = size_of_val(&run_one(Arc::new(syncer), Arc::new(Recalled::begin(GRACE)), ObjectRef::new("node0")));
    assert!(bytes <= 1_024, "{bytes}");
}

/// The look had begun with the credential of before. The Node waited for a minute although the new one worked.
#[tokio::test(start_paused = true)]
async fn what_recovers_during_a_look_that_fails_is_looked_at_again_at_once() {
    let bench = Bench::new();
    let (memory, node) = (&bench.syncer.memory, bench.api.add(lost("node0").0));
    let fails = || memory.unknown("node0", "unauthorized", Duration::from_secs(60), Instant::now());
    for was_unknown in [false, true] {
        assert_eq!(memory.step(&node, Instant::now()), NextLook::Look);
        assert_eq!(memory.recovered("node0", Instant::now()), was_unknown, "whoever waits is woken");
        assert_eq!((fails(), memory.step(&node, Instant::now())), (Duration::ZERO, NextLook::Look));
        let wait = fails();
        assert!(wait >= Duration::from_secs(60), "{wait:?}");
        tokio::time::advance(wait).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_second_look_is_never_early_whatever_happens_to_the_node() {
    let mut bench = Bench::new();
    bench.cloud.answer("node0", [Finding::Absent]);
    bench.add(lost("node0"));
    assert_eq!(bench.sync("node0").await, after(5));
    for second in 1..5 {
        tokio::time::advance(Duration::from_secs(1)).await;
        bench.edit("node0", &json!({ "metadata": { "annotations": { "x": second.to_string() } } }));
        assert_eq!(bench.sync("node0").await, after(5 - second));
    }
    assert_eq!(asked(&bench), 1);
    tokio::time::advance(Duration::from_secs(1)).await;
    bench.sync("node0").await;
    assert_eq!((asked(&bench), bench.api.has("node0")), (2, false));
}

/// QUIRK-08: upstream deletes a Node that has just registered when the cloud's listing lags.
#[tokio::test(start_paused = true)]
async fn a_young_node_is_left_alone_until_it_is_old_enough() {
    for (age, settled) in [(0, false), (30, false), (61, true)] {
        let mut bench = Bench::new();
        bench.cloud.answer("node0", [Finding::Absent]);
        bench.add(lost("node0").aged(age));
        let verdict = bench.sync("node0").await;
        if settled {
            assert_eq!((verdict, asked(&bench)), (after(5), 1));
        } else {
            let Verdict::After(wait) = verdict else { panic!("{verdict:?}") };
            let rest = Duration::from_secs(60 - u64::try_from(age).unwrap());
            assert!(wait <= rest && wait + Duration::from_secs(5) > rest, "{wait:?}");
            assert_eq!(asked(&bench), 0);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_of_tomorrow_or_without_a_date_is_young() {
    let dates = [json!("2999-01-01T00:00:00Z"), json!(null)];
    for date in dates {
        let mut bench = Bench::new();
        bench.add(lost("node0").with("/metadata", "creationTimestamp", date));
        assert_eq!(bench.sync("node0").await, after(60));
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_min_age_a_new_node_is_judged_at_once() {
    let mut bench = Bench::with(NodeLifecycleSettings { min_age: Duration::ZERO, ..NodeLifecycleSettings::default() });
    bench.cloud.answer("node0", [Finding::Absent]);
    bench.add(lost("node0").aged(0));
    bench.syncs("node0", 2).await;
    assert!(!bench.api.has("node0"));
}

#[tokio::test(start_paused = true)]
async fn the_time_between_looks_doubles_to_a_minute_while_nothing_changes() {
    let mut bench = Bench::new();
    bench.cloud.answer("node0", [found(|_| ())]);
    bench.add(lost("node0"));
    let mut waits = vec![];
    for _ in 0..7 {
        let Verdict::After(wait) = bench.sync("node0").await else { panic!() };
        waits.push(wait.as_secs_f64().round());
        tokio::time::advance(wait).await;
    }
    assert_eq!(waits, [5.0, 10.0, 20.0, 40.0, 60.0, 60.0, 60.0]);
}

/// an annotation decides about the machine, and is seen within one period.
#[tokio::test(start_paused = true)]
async fn a_change_of_the_node_brings_the_next_look_forward_but_a_heartbeat_does_not() {
    let mut bench = Bench::new();
    bench.cloud.answer("node0", [found(|_| ())]);
    bench.add(lost("node0"));
    bench.syncs("node0", 7).await;
    tokio::time::advance(Duration::from_secs(1)).await;
    bench.edit(
        "node0",
        &json!({ "status": { "phase": "heartbeat" }, "spec": { "taints": [{ "key": "x", "effect": "NoSchedule" }] } }),
    );
    let Verdict::After(wait) = bench.sync("node0").await else { panic!() };
    assert!(wait > Duration::from_secs(50), "{wait:?}");
    let so_far = asked(&bench);
    bench.edit("node0", &json!({ "metadata": { "annotations": { "cloud": "stopped" } } }));
    let Verdict::After(wait) = bench.sync("node0").await else { panic!() };
    assert!(wait <= Duration::from_secs(5), "{wait:?}");
    assert_eq!(asked(&bench), so_far);
    tokio::time::advance(wait).await;
    bench.sync("node0").await;
    assert_eq!(asked(&bench), so_far + 1);
}

#[tokio::test(start_paused = true)]
async fn a_cloud_that_asks_for_patience_is_given_it() {
    let mut failure = Failure::new(Reaction::Throttled, "slow down");
    failure.retry_after = Some(Duration::from_secs(90));
    let mut bench = Bench::new();
    bench.cloud.answer("node0", [Finding::Unknown(failure)]);
    bench.add(lost("node0"));
    assert_eq!(bench.sync("node0").await, after(90));
    bench.edit("node0", &json!({ "metadata": { "annotations": { "a": "change" } } }));
    assert_eq!(bench.sync("node0").await, after(90));
    assert_eq!(asked(&bench), 1);
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_logged_when_it_is_news_and_counted_each_time_and_makes_no_event() {
    let log = Log::start();
    let mut bench = Bench::new();
    bench.cloud.answer("node0", [unknown(Reaction::Retry)]);
    bench.add(lost("node0"));
    bench.syncs("node0", 12).await;
    let lines = log.lines("could not be determined");
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("WARN") && lines[0].contains("what the cloud said"), "{lines:?}");
    assert_eq!(bench.scraped("looks_total{answer=\"retry\"}"), 12.0);
    assert_eq!(bench.events().await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_nobody_claims_is_silent() {
    let log = Log::start();
    let mut bench = Bench::new();
    bench.cloud.answer("node0", [unknown(Reaction::Elsewhere)]);
    bench.add(node("node0").aged(super::OLD).ready("False"));
    assert_eq!(bench.sync("node0").await, after(60));
    assert_eq!(log.lines(""), [""; 0]);
    assert_eq!(bench.events().await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_cloud_without_an_answer_ends_at_the_time_limit() {
    let mut bench = Bench::of(FakeCloud::slow(Duration::from_secs(3_600)), NodeLifecycleSettings::default());
    bench.cloud.answer("node0", [Finding::Absent]);
    bench.add(lost("node0"));
    let begun = Instant::now();
    assert!(matches!(bench.sync("node0").await, Verdict::After(_)));
    assert!(begun.elapsed() < Duration::from_secs(301), "{:?}", begun.elapsed());
    assert_eq!(bench.scraped("looks_total{answer=\"retry\"}"), 1.0);
}

#[tokio::test(start_paused = true)]
async fn settings_beyond_the_end_of_the_clock_are_long_and_no_panic() {
    let mut settings = NodeLifecycleSettings::default();
    let endless = Duration::MAX;
    (settings.monitor_period, settings.max_monitor_period, settings.second_look) = (endless, endless, endless);
    let mut bench = Bench::with(settings);
    bench.cloud.answer("node0", [found(|_| ()), Finding::Absent]);
    bench.add(lost("node0"));
    let year = Duration::from_secs(365 * 24 * 60 * 60);
    assert_eq!(bench.syncs("node0", 2).await, Verdict::After(year));
}

#[tokio::test(start_paused = true)]
async fn memory_ends_with_the_reason_to_look() {
    let mut bench = Bench::new();
    for i in 0..30 {
        let name = format!("n{i}");
        bench.cloud.answer(&name, [found(|_| ())]);
        bench.add(lost(&name));
        bench.sync(&name).await;
    }
    assert_eq!((bench.syncer.memory.len(), bench.scraped("not_ready_nodes")), (30, 30.0));
    for i in 0..10 {
        bench.ready(&format!("n{i}"), "True");
    }
    for i in 10..20 {
        bench.edit(&format!("n{i}"), &json!({ "metadata": { "uid": "another" } }));
    }
    for i in 20..30 {
        let node = bench.api.node(&format!("n{i}"));
        bench.store.apply_watcher_event(&kube::runtime::watcher::Event::Delete(node));
    }
    for i in 0..30 {
        bench.sync(&format!("n{i}")).await;
    }
    assert_eq!((bench.syncer.memory.len(), bench.scraped("not_ready_nodes")), (10, 10.0), "those that came again");
}

/// Thousands wait for the cloud at the same time.
#[tokio::test(start_paused = true)]
async fn a_sync_that_waits_is_small() {
    let bench = Bench::new();
    let bytes = size_of_val(&bench.syncer.sync("node0"));
    assert!(bytes < 4_096, "{bytes} bytes");
}
