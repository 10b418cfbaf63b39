//! Guests that compute, beside everything else that the process has to do.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ccm_cloud::{Instances as _, Need};
use ccm_egress::{ProviderContext, Settings};
use ccm_sandbox::{Limits, Pool, Sandbox, TICK};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::rig::{HOSTILE, HOSTILE_WASI, Record, Rig, component, map, node};

/// Two calls that spin until they are stopped, on the workers of the runtime.
struct Spun {
    /// The computing time of each, the lesser first.
    cpu: [Duration; 2],
    /// From the end of one to the end of the other.
    apart: Duration,
}

async fn two_spin(rig: Arc<Rig>) -> Spun {
    let mut spinning = JoinSet::new();
    for _ in 0..2 {
        let rig = Arc::clone(&rig);
        spinning.spawn(async move {
            rig.provider.find(vec![node("spin")], Need::Metadata).await.unwrap_err();
            Instant::now()
        });
    }
    let mut ended = spinning.join_all().await;
    ended.sort();
    let mut cpu: Vec<Duration> = rig.record.take_ends().into_iter().map(|end| end.cpu).collect();
    cpu.sort();
    Spun { cpu: cpu.try_into().unwrap(), apart: ended[1] - ended[0] }
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
    let cpu = two_spin(rig).await.cpu;
    let ticks = ticks.load(Ordering::Relaxed);
    // Forty at least, late ones included.
    assert!(ticks >= 20, "{ticks} ticks of another task while guests computed for {cpu:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_as_many_calls_as_allowed_compute_beyond_their_first_tick() {
    const CPU: Duration = Duration::from_millis(200);
    let limits = |busy_calls| Limits { call_cpu: CPU, busy_calls, ..Limits::default() };
    // All that the second one computes, but for a tick, comes after the end of the first.
    let apart = two_spin(Arc::new(Rig::hostile(limits(1)).await)).await.apart;
    assert!(apart >= CPU - 4 * TICK, "{apart:?} apart with one turn");
    let rig = Arc::new(Rig::hostile(limits(2)).await);
    // A busy machine may hold up one of them for as long as it computes, but not always.
    for _ in 0..20 {
        if two_spin(Arc::clone(&rig)).await.apart < CPU / 2 {
            return;
        }
    }
    panic!("never at the same time with two turns");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_is_given_back_when_its_call_ends_or_is_given_up() {
    let limits = Limits { call_cpu: Duration::from_millis(500), busy_calls: 1, ..Limits::default() };
    let rig = Arc::new(Rig::hostile(limits).await);
    // Dropped in the middle of its computing.
    let given_up = tokio::time::timeout(TICK * 5, rig.provider.find(vec![node("spin")], Need::Metadata)).await;
    assert!(given_up.is_err());
    let [first, second] = two_spin(rig).await.cpu;
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
    // It says so when it has computed, and then sleeps for six seconds.
    let mut ticks = tokio::time::interval(TICK);
    let asleep = async {
        while rig.record.take_events().is_empty() {
            ticks.tick().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), asleep).await.unwrap();
    rig.provider.find(vec![node("spin")], Need::Metadata).await.unwrap_err();
    let ends: Vec<_> = rig.record.take_ends().into_iter().map(|end| end.outcome).collect();
    assert_eq!(ends, ["out-of-cpu"], "it computed while the other one slept");
    assert_eq!(sleeper.join_all().await, [map(&[("hostile.example/slept", "true")])]);
    assert!(rig.end().cpu > TICK, "without a turn of its own it proves nothing");
}

#[tokio::test]
async fn no_turns_at_all_count_as_one() {
    let limits = Limits { call_cpu: Duration::from_millis(50), busy_calls: 0, ..Limits::default() };
    assert_eq!(Rig::hostile(limits).await.attack("spin").await.1, "out-of-cpu");
}

/// Without waiting, the second of them would be refused its instance.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_beyond_the_pool_waits_for_a_place_and_its_time_begins_afterwards() {
    // So many that one of them has time enough on a busy machine, and all of them together have not.
    const CALLS: usize = 24;
    let sandbox = Sandbox::with_pool(Pool { calls: NonZeroU32::MIN, ..Pool::default() }).unwrap();
    let limits = Limits {
        call_cpu: Duration::from_millis(200),
        call_time: Duration::from_millis(4_200),
        busy_calls: CALLS,
        ..Limits::default()
    };
    let record = Arc::new(Record::default());
    let component = sandbox.load(component(HOSTILE), limits, false).await.unwrap();
    let provider = Arc::new(component.into_provider(ProviderContext::closed(), None, Some(Arc::clone(&record) as _)));
    let mut spinning = JoinSet::new();
    for _ in 0..CALLS {
        let provider = Arc::clone(&provider);
        spinning.spawn(async move { provider.find(vec![node("spin")], Need::Metadata).await.unwrap_err() });
    }
    spinning.join_all().await;
    let ends: Vec<_> = record.take_ends().into_iter().map(|end| end.outcome).collect();
    assert_eq!(ends, ["out-of-cpu"; CALLS], "they would have run out of time together");
}
