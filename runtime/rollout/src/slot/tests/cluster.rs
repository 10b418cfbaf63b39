//! A new component proves itself with the cluster as a whole.

use ccm_cloud::{Cluster as _, Reaction};

use super::*;
use crate::component::Reconciled;
use crate::slot::testing::service;

async fn reconcile(rig: &Rig) -> Reconciled {
    rig.slot.reconcile(vec![node("a")], vec![service("web")]).await
}

#[tokio::test]
async fn the_proven_one_does_what_a_new_one_fails_at_and_the_failures_count() {
    for (does, why) in [
        (
            Does::Refuse,
            "2 of its first 2 calls failed or found less than the last good one, the last: cluster.reconcile: ",
        ),
        (
            Does::Fail,
            "2 of its first 2 calls failed or found less than the last good one, the last: cluster.reconcile: ",
        ),
        (Does::Crash, "2 of its first 2 calls gave no answer, the last: reconcile: it crashed"),
    ] {
        let (rig, _) = Rig::trying(does, faults(2));
        assert_eq!(reconcile(&rig).await, Ok(vec![]), "{does:?}");
        assert!(rig.is_on_probation(), "{does:?}");
        assert_eq!(reconcile(&rig).await, Ok(vec![]), "{does:?}");
        assert!(rig.why("2").unwrap().starts_with(why), "{does:?}: {:?}", rig.why("2"));
    }
}

#[tokio::test]
async fn what_both_fail_at_is_nobodys_fault_and_a_cloud_that_asks_for_a_pause_gets_it() {
    // Of the whole call it is more than of one Service.
    let (rig, _) = Rig::trying(Does::Fail, faults(1));
    rig.proven.does(Does::Refuse);
    assert_eq!(reconcile(&rig).await.unwrap().len(), 1);
    assert!(rig.why("2").is_some());

    for (witness, does, told) in [
        (Does::Fail, Does::Fail, Reaction::Retry),
        (Does::Right, Does::Throttle, Reaction::Throttled),
        // The second call met the pause that the first one had caused, and that counted as an answer.
        (Does::Throttle, Does::Fail, Reaction::Retry),
        (Does::Pause, Does::Fail, Reaction::Retry),
    ] {
        let (rig, _) = Rig::trying(does, faults(1));
        rig.proven.does(witness);
        assert_eq!(reconcile(&rig).await.unwrap_err().reaction, told, "{does:?}");
        assert!(rig.is_on_probation(), "{does:?} beside {witness:?}");
    }
}

/// What was sent may not show yet.
#[tokio::test]
async fn the_proven_one_does_not_begin_anew_at_once_what_crashed_with_the_cloud_half_changed() {
    let (rig, _) = Rig::trying(Does::CrashAfterwards, faults(2));
    assert!(reconcile(&rig).await.is_err());
    assert_eq!((rig.is_on_probation(), rig.proven.asked.lock().get("reconcile")), (true, None));
    assert!(reconcile(&rig).await.is_err());
    assert!(rig.why("2").unwrap().contains("gave no answer"));
    assert_eq!(reconcile(&rig).await, Ok(vec![]));
}

/// Only a crash was known as no answer.
#[tokio::test]
async fn the_proven_one_does_not_begin_anew_at_once_what_ran_out_of_time_with_the_cloud_half_changed() {
    let (rig, _) = Rig::trying(Does::TimeOutAfterwards, faults(1));
    assert!(reconcile(&rig).await.is_err());
    assert_eq!((rig.is_on_probation(), rig.proven.asked.lock().get("reconcile")), (true, None));
    // The next run is the proven one's, and tells whose fault it was.
    assert_eq!(reconcile(&rig).await, Ok(vec![]));
    assert!(rig.why("2").unwrap().ends_with("cluster.reconcile: reconcile: no answer in time"), "{:?}", rig.why("2"));
}

#[tokio::test]
async fn time_that_runs_out_in_an_outage_is_nobodys_fault() {
    for witness in [Does::Fail, Does::Throttle] {
        let (rig, _) = Rig::trying(Does::TimeOutAfterwards, faults(1));
        rig.proven.does(witness);
        for _ in 0..4 {
            assert!(reconcile(&rig).await.is_err());
        }
        assert!(rig.is_on_probation(), "{witness:?}");
        assert_eq!(rig.proven.asked.lock().get("reconcile"), Some(&2), "{witness:?}: every second run");
    }
}
