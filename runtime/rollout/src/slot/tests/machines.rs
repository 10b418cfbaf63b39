//! A new component proves itself with machines, or the proven one returns.

use std::sync::Arc;
use std::time::Duration;

use ccm_cloud::Reaction;
use tokio::task::JoinSet;

use super::*;
use crate::slot::ProbationSettings;

const MINUTE: ProbationSettings = ProbationSettings { time: Duration::from_secs(60), calls: 3, faults: 2 };

#[tokio::test(start_paused = true)]
async fn a_component_is_proven_when_it_has_answered_well_often_enough_and_long_enough() {
    let (rig, _) = Rig::trying(Does::Right, MINUTE);
    for _ in 0..5 {
        assert_eq!(answers(&rig).await, "2");
    }
    assert!(rig.is_on_probation(), "its time is not over");
    tokio::time::advance(Duration::from_secs(59)).await;
    answers(&rig).await;
    assert!(rig.is_on_probation());
    tokio::time::advance(Duration::from_secs(1)).await;
    answers(&rig).await;
    assert!(!rig.is_on_probation());

    let (rig, _) = Rig::trying(Does::Right, MINUTE);
    for seconds in [3600, 3600, 0] {
        tokio::time::advance(Duration::from_secs(seconds)).await;
        assert!(rig.is_on_probation(), "it was hardly ever asked");
        answers(&rig).await;
    }
    assert!(!rig.is_on_probation());
}

/// Answers that failed with either component once proved the new one, while the cloud was down.
#[tokio::test(start_paused = true)]
async fn an_outage_proves_nothing_and_lengthens_a_probation() {
    let (rig, new) = Rig::trying(Does::Fail, MINUTE);
    rig.proven.does(Does::Fail);
    for _ in 0..10 {
        tokio::time::advance(Duration::from_secs(60)).await;
        assert!(matches!(find(&rig, &["a"]).await.unwrap().as_slice(), [Finding::Unknown(_)]));
    }
    assert!(rig.is_on_probation());
    for does in [&new, &rig.proven] {
        does.does(Does::Right);
    }
    for _ in 0..2 {
        answers(&rig).await;
        tokio::time::advance(Duration::from_secs(60)).await;
        assert!(rig.is_on_probation());
    }
    answers(&rig).await;
    assert!(!rig.is_on_probation());
}

#[tokio::test(start_paused = true)]
async fn a_fault_begins_the_time_of_a_probation_anew() {
    for does in [Does::Crash, Does::Lose] {
        let (rig, new) = Rig::trying(Does::Right, MINUTE);
        for _ in 0..3 {
            answers(&rig).await;
        }
        tokio::time::advance(Duration::from_secs(59)).await;
        new.does(does);
        assert_eq!(answers(&rig).await, "1", "{does:?}");
        new.does(Does::Right);
        for _ in 0..3 {
            assert_eq!(answers(&rig).await, "2", "{does:?}");
        }
        tokio::time::advance(Duration::from_secs(59)).await;
        answers(&rig).await;
        assert!(rig.is_on_probation(), "{does:?}");
        tokio::time::advance(Duration::from_secs(1)).await;
        answers(&rig).await;
        assert!(!rig.is_on_probation(), "{does:?}");
    }
}

/// Nodes that are well ask for nothing for minutes, and the state folder waits for who is proven.
#[tokio::test(start_paused = true)]
async fn a_probation_is_over_when_its_time_is_though_nobody_asks_anything_then() {
    let (rig, _) = Rig::trying(Does::Right, MINUTE);
    let followed = rig.slot.clone();
    let mut following = JoinSet::new();
    following.spawn(async move { followed.follow().await });
    answers(&rig).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(rig.is_on_probation(), "it was hardly ever asked");
    for _ in 0..2 {
        answers(&rig).await;
    }
    assert!(!rig.is_on_probation());

    rig.put("3", Does::Right);
    for _ in 0..3 {
        answers(&rig).await;
    }
    tokio::time::sleep(Duration::from_secs(59)).await;
    assert!(rig.is_on_probation());
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(!rig.is_on_probation());
}

/// A standby loads what the leader loads, and makes no calls with it: an hour without any says nothing.
#[tokio::test(start_paused = true)]
async fn the_time_of_a_probation_begins_with_the_first_good_answer() {
    let (rig, _) = Rig::trying(Does::Right, MINUTE);
    tokio::time::advance(Duration::from_secs(3600)).await;
    for _ in 0..5 {
        assert_eq!(answers(&rig).await, "2");
        assert!(rig.is_on_probation());
    }
    tokio::time::advance(Duration::from_secs(60)).await;
    answers(&rig).await;
    assert!(!rig.is_on_probation());
}

#[tokio::test]
async fn a_component_that_is_worse_goes_after_so_many_faults_and_the_proven_one_answers_meanwhile() {
    for (does, why) in [
        (Does::Crash, "3 of its first 3 calls gave no answer, the last: instances.find: it crashed"),
        (
            Does::Lose,
            "3 of its first 3 calls failed or found less than the last good one, the last: instances.find: it does not find the machine of Node b",
        ),
        (
            Does::Fail,
            "3 of its first 3 calls failed or found less than the last good one, the last: instances.find: Node b: it cannot tell",
        ),
        (
            Does::Refuse,
            "3 of its first 3 calls failed or found less than the last good one, the last: instances.find: Node b: it says no",
        ),
    ] {
        let (rig, _) = Rig::trying(does, faults(3));
        for _ in 0..2 {
            assert_eq!(answers(&rig).await, "1", "{does:?}");
            assert_eq!((rig.is_on_probation(), rig.serving()), (true, "2".to_owned()), "{does:?}");
        }
        assert_eq!(answers(&rig).await, "1", "{does:?}");
        assert_eq!(rig.why("2").as_deref(), Some(why));
        assert_eq!((rig.is_on_probation(), rig.serving()), (false, "1".to_owned()), "{does:?}");
        assert_eq!(rig.slot.standing().generation, 3, "{does:?}");
        assert_eq!(answers(&rig).await, "1", "{does:?}");
        assert!(rig.proven.forgot.load(std::sync::atomic::Ordering::Relaxed) > 0, "{does:?}: it knows what was before");
    }
}

#[tokio::test]
async fn a_machine_is_absent_only_when_both_say_so() {
    for (witness, expected) in [
        (Does::Lose, None),
        (Does::Fail, Some("it cannot tell")),
        (Does::Crash, Some("it crashed")),
        (Does::Throttle, Some("slower")),
    ] {
        let (rig, _) = Rig::trying(Does::Lose, faults(1));
        rig.proven.does(witness);
        let findings = find(&rig, &["a"]).await.unwrap();
        match (findings.as_slice(), expected) {
            ([Finding::Absent], None) => {}
            ([Finding::Unknown(failure)], Some(word)) => {
                let message = &failure.message;
                assert!(message.contains("on probation") && message.contains(word), "{message}");
            }
            _ => panic!("{witness:?}: {findings:?}"),
        }
        assert!(rig.is_on_probation(), "{witness:?}: nobody knows who is right");
    }
    let (rig, _) = Rig::trying(Does::Lose, faults(1));
    assert_eq!(answers(&rig).await, "1");
    assert!(rig.why("2").is_some());
}

/// The word of the new one counts for itself once it is proven.
#[tokio::test]
async fn a_component_that_is_proven_is_believed() {
    let at_once = ProbationSettings { time: Duration::ZERO, calls: 1, faults: 1 };
    let (rig, new) = Rig::trying(Does::Right, at_once);
    answers(&rig).await;
    assert!(!rig.is_on_probation());
    new.does(Does::Lose);
    assert_eq!(find(&rig, &["a"]).await, Ok(vec![Finding::Absent]));
}

#[tokio::test]
async fn a_cloud_that_asks_for_a_pause_is_left_alone_by_both() {
    let (rig, _) = Rig::trying(Does::Throttle, faults(1));
    let findings = find(&rig, &["a"]).await.unwrap();
    assert!(matches!(findings.as_slice(), [Finding::Unknown(failure)] if failure.reaction == Reaction::Throttled));
    assert!(rig.is_on_probation());
    assert_eq!(rig.proven.asked.lock().get("instances.find"), None, "the proven one asked the cloud");
}

#[tokio::test]
async fn where_both_fail_the_failure_of_the_new_one_is_told_and_only_crashes_count() {
    let (rig, new) = Rig::trying(Does::Fail, faults(2));
    rig.proven.does(Does::Throttle);
    for _ in 0..3 {
        let findings = find(&rig, &["a"]).await.unwrap();
        assert!(matches!(findings.as_slice(), [Finding::Unknown(failure)] if failure.message == "it cannot tell"));
    }
    assert!(rig.is_on_probation());
    // Whatever ails the cloud, a crash is a component's own.
    new.does(Does::Crash);
    rig.proven.does(Does::Crash);
    for _ in 0..2 {
        assert!(rig.is_on_probation());
        assert!(matches!(find(&rig, &["a"]).await, Err(FindError::Crashed(_))));
    }
    assert_eq!(rig.serving(), "1");
}

#[tokio::test]
async fn what_fails_in_place_of_another_newcomer_returns_to_the_one_that_was_proven() {
    let (rig, _) = Rig::trying(Does::Right, faults(2));
    assert_eq!(answers(&rig).await, "2");
    rig.put("3", Does::Crash);
    for _ in 0..2 {
        assert!(rig.is_on_probation());
        assert_eq!(answers(&rig).await, "1");
    }
    assert_eq!((rig.serving(), rig.slot.standing().generation), ("1".to_owned(), 4));
    assert_eq!((rig.why("2"), rig.why("3").is_some()), (None, true));
}

#[tokio::test]
async fn a_first_component_has_nobody_to_return_to_and_is_asked_alone() {
    let rig = Rig::new(faults(1));
    rig.proven.does(Does::Crash);
    for _ in 0..5 {
        assert!(matches!(find(&rig, &["a"]).await, Err(FindError::Crashed(_))));
    }
    assert_eq!((rig.is_on_probation(), rig.serving(), rig.slot.standing().generation), (false, "1".to_owned(), 1));
}

/// All of them began on the component that fails, and all of them see that it failed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faults_of_calls_at_the_same_time_roll_back_once() {
    for does in [Does::Crash, Does::Lose] {
        let (rig, _) = Rig::trying(does, faults(3));
        let rig = Arc::new(rig);
        let mut calls = JoinSet::new();
        for _ in 0..16 {
            let rig = Arc::clone(&rig);
            calls.spawn(async move { answers(&rig).await });
        }
        assert_eq!(calls.join_all().await, ["1"; 16], "{does:?}");
        assert_eq!((rig.serving(), rig.slot.standing().generation), ("1".to_owned(), 3), "{does:?}");
    }
}

/// One after the other, 64 calls that compute without an end take 12.8 s; some Services waited for half a minute.
#[tokio::test]
async fn questions_that_hang_on_a_component_that_was_refused_are_answered_by_the_proven_one() {
    let (rig, new) = Rig::trying(Does::Hang, faults(1));
    let rig = Arc::new(rig);
    let mut calls = JoinSet::new();
    for _ in 0..8 {
        let rig = Arc::clone(&rig);
        calls.spawn(async move { answers(&rig).await });
    }
    tokio::task::yield_now().await;
    assert!(calls.try_join_next().is_none());
    new.does(Does::Lose);
    assert_eq!(answers(&rig).await, "1");
    assert_eq!(calls.join_all().await, ["1"; 8]);
}

#[tokio::test]
async fn what_a_component_did_before_it_was_put_into_the_slot_does_not_count() {
    let rig = Rig::new(faults(1));
    let new = crate::slot::testing::Fake::new("2", Does::Crash, &rig.cloud);
    for _ in 0..5 {
        assert!(new.find(vec![node("a")], Need::Existence).await.is_err());
    }
    new.does(Does::Right);
    assert!(rig.slot.put(crate::slot::testing::release(new)).is_some());
    assert_eq!(answers(&rig).await, "2");
    assert!(rig.is_on_probation());
}

/// An autoscaler takes machines away all the time, and the proven one had seen them a moment ago.
#[tokio::test]
async fn what_the_witness_knows_from_before_is_no_fault_of_the_new_one() {
    for (does, is_absent) in [(Does::Lose, true), (Does::Fail, false)] {
        let (rig, _) = Rig::trying(does, faults(1));
        rig.proven.does(does);
        rig.proven.remembers.store(true, std::sync::atomic::Ordering::Relaxed);
        let findings = find(&rig, &["a"]).await.unwrap();
        assert_eq!(matches!(findings.as_slice(), [Finding::Absent]), is_absent, "{findings:?}");
        assert!(rig.is_on_probation(), "{does:?}");
        assert_eq!(rig.proven.asked.lock()["instances.find"], 2, "{does:?}");
    }
}

/// In an outage, the memory of the proven one made a good new component fail.
#[tokio::test]
async fn a_call_that_fails_as_a_whole_counts_when_the_witness_knows_better_without_its_memory() {
    for (does, is_fault) in [(Does::Fail, false), (Does::Right, true)] {
        let (rig, _) = Rig::trying(Does::Lack, faults(1));
        rig.proven.does(does);
        rig.proven.remembers.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(answers(&rig).await, "1", "{does:?}");
        assert_eq!(rig.is_on_probation(), !is_fault, "{does:?}");
        assert_eq!(rig.proven.asked.lock()["instances.find"], 2, "{does:?}");
    }
}
