//! One component takes the place of another while calls are under way.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use ccm_cloud::LoadBalancerSource as _;
use ccm_egress::SourceState;
use futures::FutureExt as _;
use jiff::Timestamp;
use tokio::task::JoinSet;

use super::*;
use crate::slot::state::{Reconfigured, Transition};
use crate::slot::testing::{Fake, digest, release, service};
use crate::slot::{News, ProbationSettings, Refusal, Refusals};

/// As soon as it has answered once.
const SHORT: ProbationSettings = ProbationSettings { time: Duration::ZERO, calls: 1, faults: 1 };

#[tokio::test]
async fn a_call_ends_on_the_component_that_it_began_on_which_is_freed_then() {
    let rig = Arc::new(Rig::new(SHORT));
    rig.put("2", Does::Right);
    assert_eq!(answers(&rig).await, "2");
    let old = Arc::downgrade(&rig.slot.component());
    rig.slot.component().does(Does::Hang);
    let caller = Arc::clone(&rig);
    let mut calls = JoinSet::new();
    calls.spawn(async move { answers(&caller).await });
    tokio::task::yield_now().await;

    rig.put("3", Does::Right);
    assert_eq!(answers(&rig).await, "3", "while the other call waits");
    assert!(!rig.is_on_probation());
    assert!(old.upgrade().is_some(), "it was freed under a call that runs");
    calls.abort_all();
    while calls.join_next().await.is_some() {}
    assert!(old.upgrade().is_none(), "somebody keeps it after its last call");
}

#[tokio::test]
async fn the_proven_one_is_kept_for_the_time_of_a_probation_and_the_refused_one_is_freed() {
    let rig = Rig::new(ProbationSettings { calls: 2, ..SHORT });
    let Rig { slot, cloud, proven, .. } = &rig;
    let freed = Arc::downgrade(&slot.component());
    assert!(Arc::ptr_eq(proven, &slot.proven()));
    slot.put(release(Fake::new("2", Does::Right, cloud)));
    assert!(Arc::ptr_eq(proven, &slot.proven()) && !Arc::ptr_eq(proven, &slot.component()));
    for _ in 0..2 {
        answers(&rig).await;
    }
    assert!(Arc::ptr_eq(&slot.component(), &slot.proven()));
    let Rig { slot, proven, cloud, .. } = rig;
    drop(proven);
    assert!(freed.upgrade().is_none());

    let bad = Fake::new("3", Does::Lose, &cloud);
    let freed = Arc::downgrade(&bad);
    slot.put(release(bad));
    drop(slot.find(vec![node("a")], Need::Existence).await);
    assert!(freed.upgrade().is_none());
}

/// Descriptor, locks, call and record once came from two components, when one took the place of the other between two questions.
#[tokio::test]
async fn a_piece_of_work_is_done_by_one_component_from_beginning_to_end() {
    let (rig, new) = Rig::trying(Does::Right, faults(1));
    let work = rig.slot.load_balancers();
    rig.put("3", Does::Right);
    assert_eq!((work.descriptor().version.as_str(), rig.serving().as_str()), ("2", "3"));
    assert_eq!(work.component(), "2fffffffffff", "the first 12 digits of its digest");
    assert_eq!(work.locks(service("web")).await, Ok(vec![]));
    assert_eq!(work.ensure(service("web"), Arc::default()).await.failure, None);
    assert_eq!(new.asked.lock()["ensure"], 1);
    assert_eq!(rig.balancers(), [("web".to_owned(), "2".to_owned())]);
}

/// It has proved that it must not.
#[tokio::test]
async fn work_that_began_with_a_component_that_was_refused_meanwhile_changes_nothing_more() {
    let (rig, new) = Rig::trying(Does::Lose, faults(1));
    let work = rig.slot.load_balancers();
    assert_eq!(answers(&rig).await, "1");
    new.does(Does::Right);
    for outcome in [
        work.ensure(service("web"), Arc::default()).await,
        work.update_backends(service("web"), Arc::default()).await,
        work.delete(service("web")).await,
    ] {
        let failure = outcome.failure.unwrap();
        assert!(failure.message.contains("was rolled back during this work"), "{failure}");
    }
    assert!(work.orphan(service("web")).await.is_err());
    assert_eq!((rig.balancers(), new.asked.lock().get("ensure")), (vec![], None));
    assert_eq!(work.get(service("web")).await, Ok(None), "the proven one answers questions");
    assert!(rig.slot.is_taken_back("2fffffffffff") && !rig.slot.is_taken_back("1fffffffffff"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_load_every_answer_is_whole_and_of_the_component_of_the_moment() {
    const EXCHANGES: u64 = 60;
    let rig = Arc::new(Rig::new(faults(1)));
    let answered = Arc::new(tokio::sync::Semaphore::new(0));
    let mut callers = JoinSet::new();
    for _ in 0..4 {
        let (rig, answered) = (Arc::clone(&rig), Arc::clone(&answered));
        callers.spawn(async move {
            let generation = || rig.slot.standing().generation;
            loop {
                let before = generation();
                let version: u64 = finder(&find(&rig, &["a", "b", "c"]).await.unwrap()).parse().unwrap();
                let after = generation();
                answered.add_permits(1);
                assert!((before..=after).contains(&version), "{version} between {before} and {after}");
                if after == EXCHANGES {
                    return;
                }
            }
        });
    }
    for version in 2..=EXCHANGES {
        rig.put(&version.to_string(), Does::Right);
        // While others are under way: most began before the exchange.
        answered.acquire().await.unwrap().forget();
    }
    callers.join_all().await;
    assert!(rig.is_on_probation());
}

#[tokio::test]
async fn the_generation_grows_whenever_another_one_serves_and_with_nothing_else() {
    let rig = Rig::new(SHORT);
    let mut generations = rig.slot.generations();
    // Whether those who wait for it are woken, and which one it is.
    let mut grown = || {
        let is_told = generations.has_changed().unwrap();
        generations.mark_unchanged();
        (is_told, rig.slot.standing().generation)
    };
    assert_eq!(grown(), (false, 1));
    rig.put("2", Does::Right);
    assert_eq!(grown(), (true, 2));
    answers(&rig).await;
    assert_eq!((rig.is_on_probation(), grown()), (false, (false, 2)), "it is the same component");
    rig.put("3", Does::Lose);
    assert_eq!(grown(), (true, 3));
    assert_eq!(answers(&rig).await, "2");
    assert_eq!(grown(), (true, 4));
    rig.put("4", Does::Right);
    rig.slot.put_back(&digest("2"));
    assert_eq!((grown(), rig.serving()), ((true, 6), "2".to_owned()));
}

/// The component that died at another replica had written, and nobody looked at that again.
#[tokio::test]
async fn what_another_replica_refuses_makes_all_look_again_at_what_it_wrote() {
    let rig = Rig::new(SHORT);
    let (mut generations, mut doubts) = (rig.slot.generations(), rig.slot.doubts());
    generations.mark_unchanged();
    let refused = || Refusals::default().refuse(&digest("e"), "it crashed".into());
    rig.slot.peer_refused(refused());
    assert!(doubts.has_changed().unwrap() && !generations.has_changed().unwrap());
    doubts.mark_unchanged();
    rig.slot.peer_refused(refused());
    assert!(!doubts.has_changed().unwrap(), "it was known");
    // The exchange says it already.
    rig.put("2", Does::Right);
    rig.slot.put_back(&digest("1"));
    assert!(generations.has_changed().unwrap() && !doubts.has_changed().unwrap());
}

/// What was refused long ago came again and again and drove out what had been refused since, which came again for that: all was ensured each time.
#[tokio::test]
async fn what_others_tell_again_of_long_ago_neither_drives_out_what_is_newer_nor_makes_anybody_look_again() {
    let rig = Rig::new(SHORT);
    let refusal = |letter: &str, second: i64| {
        let (digest, at) = (digest(&format!("{letter}{second}")), Timestamp::from_second(second).unwrap());
        Refusal { digest, reason: "it crashed".into(), at }
    };
    let new: Vec<Refusal> = (100..116).map(|second| refusal("n", second)).collect();
    let old: Vec<Refusal> = (0..16).map(|second| refusal("o", second)).collect();
    let tell = |all: &[Refusal]| all.iter().for_each(|one| rig.slot.peer_refused(one.clone()));
    tell(&new);
    let doubts = rig.slot.doubts();
    tell(&old);
    assert!(!doubts.has_changed().unwrap());
    assert!(rig.slot.standing().refused.iter().eq(&new));
}

/// It is the witness still, and what the one on probation has shown so far is as true as before.
#[tokio::test(start_paused = true)]
async fn a_peers_refusal_of_the_proven_one_neither_ends_a_running_probation_nor_begins_it_anew() {
    let settings = ProbationSettings { time: Duration::from_secs(60), calls: 3, faults: 2 };
    let contested = |rig: &Rig| rig.slot.peer_refused(Refusals::default().refuse(&digest("1"), "it lied".into()));
    let (rig, _) = Rig::trying(Does::Right, settings);
    let work = rig.slot.load_balancers();
    for _ in 0..2 {
        assert_eq!(answers(&rig).await, "2");
    }
    tokio::time::advance(settings.time).await;
    contested(&rig);
    assert_eq!((rig.is_on_probation(), rig.slot.standing().generation), (true, 2));
    assert_eq!(
        work.ensure(service("web"), Arc::default()).await.failure,
        None,
        "work goes on, and is the third answer"
    );
    assert_eq!((rig.is_on_probation(), rig.serving().as_str()), (false, "2"), "time and answers of before count");
    assert_eq!(rig.why("1").as_deref(), Some("it lied"), "it is proven no longer");

    let (rig, _) = Rig::trying(Does::Lose, settings);
    assert_eq!(answers(&rig).await, "1");
    contested(&rig);
    assert!(rig.is_on_probation());
    assert_eq!(answers(&rig).await, "1");
    assert_eq!((rig.is_on_probation(), rig.serving().as_str()), (false, "1"), "faults of before count");
    assert!(rig.why("2").is_some() && rig.why("1").is_none(), "the last good one returns all the same");
}

/// A watch showed the last of several, and the Event of one that came and went was lost.
#[tokio::test]
async fn all_that_becomes_of_components_is_told_once_and_in_order() {
    let mut rig = Rig::new(SHORT);
    rig.put("2", Does::Right);
    answers(&rig).await;
    rig.put("3", Does::Lose);
    answers(&rig).await;
    rig.put("4", Does::Right);
    rig.slot.put_back(&digest("2"));
    let with = || Reconfigured { proven: Some(release(Fake::new("2", Does::Right, &rig.cloud))), candidate: None };
    assert!(rig.slot.configure(6, with()).is_some());
    assert_eq!(rig.slot.configure(6, with()), None, "it was made before");
    assert_eq!(rig.slot.put(release(Fake::new("3", Does::Right, &rig.cloud))), None, "it was refused");
    let mut told = vec![];
    while let Ok(news) = rig.news.try_recv() {
        told.push(match news {
            News::FirstCall(_) => "first call".to_owned(),
            News::Sources(sources) => format!("{sources:?}"),
            News::Changed(transition, standing) => {
                let what = match transition {
                    Transition::Exchanged { before } => format!("in place of {}", before.version),
                    Transition::Proven => "proven".to_owned(),
                    Transition::Returned { failed, .. } => format!("{} refused", failed.version),
                    Transition::Withdrawn { candidate, .. } => format!("{} withdrawn", candidate.version),
                    Transition::Contested { proven, .. } => format!("{} contested", proven.version),
                    Transition::Configured => "configured".to_owned(),
                };
                format!("{} {what}, {}", standing.serving().version, standing.generation)
            }
        });
    }
    assert_eq!(
        told,
        [
            "2 in place of 1, 2",
            "first call",
            "2 proven, 2",
            "3 in place of 2, 3",
            "first call",
            "2 3 refused, 4",
            "4 in place of 2, 5",
            "2 4 withdrawn, 6",
            "2 configured, 7",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn each_recovery_of_whoever_serves_wakes_those_who_wait_and_none_of_the_one_before() {
    let rig = Rig::new(SHORT);
    let mut woken = rig.slot.recoveries();
    let mut following = pin!(rig.slot.follow());
    let mut wakes = |component: &Fake| {
        assert!(following.as_mut().now_or_never().is_none());
        component.recovered.send_modify(|count| *count += 1);
        assert!(following.as_mut().now_or_never().is_none());
        let is_woken = woken.has_changed().unwrap();
        woken.mark_unchanged();
        is_woken
    };
    assert_eq!([wakes(&rig.proven), wakes(&rig.proven)], [true, true]);
    let new = rig.put("2", Does::Right);
    assert_eq!([wakes(&rig.proven), wakes(&new)], [false, true]);
}

/// How the sources stand, as it is told next.
async fn sources(rig: &mut Rig) -> Vec<SourceState> {
    loop {
        if let News::Sources(states) = rig.news.recv().await.unwrap() {
            return states;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn it_is_told_whether_the_credentials_of_whoever_serves_can_be_read_and_no_longer_those_of_the_one_before() {
    let mut rig = Rig::new(SHORT);
    let token =
        |why: Option<&str>| vec![SourceState { credential: "token".to_owned(), unreadable: why.map(str::to_owned) }];
    let first = rig.slot.component();
    first.sources.send_replace(token(None));
    let slot = rig.slot.clone();
    let mut following = JoinSet::new();
    following.spawn(async move { slot.follow_credentials().await });
    assert_eq!(sources(&mut rig).await, token(None));
    first.sources.send_replace(token(Some("there is no such Secret")));
    assert_eq!(sources(&mut rig).await, token(Some("there is no such Secret")));
    rig.put("2", Does::Right);
    assert_eq!(sources(&mut rig).await, vec![], "it has none");
    first.sources.send_replace(token(None));
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(!matches!(rig.news.try_recv(), Ok(News::Sources(_))), "it does not serve");
}
