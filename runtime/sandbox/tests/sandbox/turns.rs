//! Guests that compute, beside everything else that the process has to do.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ccm_cloud::{Instances as _, Need};
use ccm_egress::Door;
use ccm_egress::settings::Settings;
use ccm_sandbox::{Limits, Pool, Sandbox, TICK};
use tokio::task::JoinSet;

use crate::rig::{HOSTILE, HOSTILE_WASI, Record, Rig, component, map, node};

/// Two calls that spin until they are stopped, on the workers of the runtime. The computing time of each, the lesser first.
async fn two_spin(rig: Arc<Rig>) -> [Duration; 2] {
    let mut spinning = JoinSet::new();
    for _ in 0..2 {
        let rig = Arc::clone(&rig);
        spinning.spawn(async move { rig.provider.find(vec![node("spin")], Need::Metadata).await.unwrap_err() });
    }
    spinning.join_all().await;
    let mut cpu: Vec<Duration> = rig.record.take_ends().into_iter().map(|end| end.cpu).collect();
    cpu.sort();
    cpu.try_into().unwrap()
}

/// On one worker, since with several it depended on which of them looked at the timers last: seldom enough to be overlooked.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn guests_that_spin_on_all_workers_do_not_stop_other_tasks() {
    let limits = Limits { call_cpu: Duration::from_millis(200), busy_calls: 2, ..Limits::default() };
    let rig = Arc::new(Rig::hostile(limits).await);
    let ticks = Arc::new(AtomicU32::new(0));
    let mut other = JoinSet::new();
    let counter = Arc::clone(&ticks);
    other.spawn(async move {
        let mut clock = tokio::time::interval(TICK);
        loop {
            clock.tick().await;
            counter.fetch_add(1, Ordering::Relaxed);
        }
    });
    let cpu = two_spin(rig).await;
    let ticks = ticks.load(Ordering::Relaxed);
    // Forty at least, late ones included.
    assert!(ticks >= 20, "{ticks} ticks of another task while guests computed for {cpu:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_as_many_calls_as_allowed_compute_beyond_their_first_tick() {
    let limits = |busy_calls| Limits {
        call_time: Duration::from_millis(400),
        call_cpu: Duration::from_secs(60),
        busy_calls,
        ..Limits::default()
    };
    // The one that waits gets the turn when the time of the other is over, for what it began later.
    let [waiting, computing] = two_spin(Arc::new(Rig::hostile(limits(1)).await)).await;
    assert!(waiting * 3 < computing, "{waiting:?} beside {computing:?} with one turn");
    let [lesser, greater] = two_spin(Arc::new(Rig::hostile(limits(2)).await)).await;
    assert!(lesser * 3 > greater, "{lesser:?} beside {greater:?} with two turns");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_is_given_back_when_its_call_ends_or_is_given_up() {
    let limits = Limits { call_cpu: Duration::from_millis(100), busy_calls: 1, ..Limits::default() };
    let rig = Arc::new(Rig::hostile(limits).await);
    // Dropped in the middle of its computing.
    let given_up = tokio::time::timeout(TICK * 5, rig.provider.find(vec![node("spin")], Need::Metadata)).await;
    assert!(given_up.is_err());
    let [first, second] = two_spin(rig).await;
    assert!(first > TICK && second > TICK, "{first:?}, {second:?}: one of them got no turn");
}

/// A guest that slept through WASI once kept its turn: nobody computed until it woke up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guest_that_sleeps_lets_others_compute() {
    let limits = Limits { call_cpu: Duration::from_millis(200), busy_calls: 1, ..Limits::default() };
    let rig = Arc::new(Rig::with_settings(HOSTILE_WASI, limits, Settings::default()).await);
    let mut sleeper = JoinSet::new();
    let sleeping = Arc::clone(&rig);
    sleeper.spawn(async move { sleeping.labels(node("wasi-sleep"), Need::Metadata).await });
    // By now it has computed, and sleeps for two seconds.
    tokio::time::sleep(Duration::from_millis(500)).await;
    rig.provider.find(vec![node("spin")], Need::Metadata).await.unwrap_err();
    let ends: Vec<_> = rig.record.take_ends().into_iter().map(|end| end.outcome).collect();
    assert_eq!(ends, ["out-of-cpu"], "it computed while the other one slept");
    assert_eq!(sleeper.join_all().await, [map(&[("hostile.example/slept", "true")])]);
    assert!(rig.end().cpu > TICK, "without a turn of its own it proves nothing");
}

#[tokio::test]
async fn no_turns_at_all_count_as_one() {
    let limits = Limits {
        call_cpu: Duration::from_millis(50),
        call_time: Duration::from_secs(5),
        busy_calls: 0,
        ..Limits::default()
    };
    assert_eq!(Rig::hostile(limits).await.attack("spin").await.1, "out-of-cpu");
}

/// Without waiting, the second of them would be refused its instance.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_beyond_the_pool_waits_for_a_place_and_its_time_begins_afterwards() {
    let sandbox = Sandbox::with_pool(Pool { calls: NonZeroU32::MIN, ..Pool::default() }).unwrap();
    let limits = Limits {
        call_cpu: Duration::from_millis(200),
        call_time: Duration::from_millis(500),
        busy_calls: 4,
        ..Limits::default()
    };
    let record = Arc::new(Record::default());
    let component = sandbox.load(component(HOSTILE), limits, false).await.unwrap();
    let provider = Arc::new(component.into_provider(Door::closed(), None, Some(Arc::clone(&record) as _)));
    let mut spinning = JoinSet::new();
    for _ in 0..4 {
        let provider = Arc::clone(&provider);
        spinning.spawn(async move { provider.find(vec![node("spin")], Need::Metadata).await.unwrap_err() });
    }
    spinning.join_all().await;
    let ends: Vec<_> = record.take_ends().into_iter().map(|end| end.outcome).collect();
    assert_eq!(ends, ["out-of-cpu"; 4], "they would have run out of time together");
}
