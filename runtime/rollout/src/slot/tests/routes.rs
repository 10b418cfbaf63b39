//! A new component proves itself with routes.

use std::time::Duration;

use ccm_cloud::{Failure, Reaction, Route, RouteChangeError, RouteOutcome, RouteSource as _, RouteWish};

use super::*;
use crate::slot::ProbationSettings;

fn wish(network: &str, node: &str) -> RouteWish {
    RouteWish {
        destination_cidr: network.to_owned(),
        node: node.to_owned(),
        provider_id: format!("cloud://{node}"),
        addresses: vec![],
    }
}

async fn all(rig: &Rig) -> Result<Vec<Route>, Failure> {
    rig.slot.routes().get_all(vec![node("a")]).await
}

async fn make(rig: &Rig, network: &str) -> Result<Vec<RouteOutcome>, RouteChangeError> {
    rig.slot.routes().change(vec![], vec![wish(network, "a")]).await
}

/// Version 2 on probation, in a cloud with one route to Node `a`.
fn trying(does: Does, limit: u32) -> Rig {
    let (rig, _) = Rig::trying(does, faults(limit));
    rig.cloud.routes.lock().insert("10.244.0.0/24".to_owned(), ("a".to_owned(), "1".to_owned()));
    rig
}

/// Whoever removed what leads to no Node would remove them all.
#[tokio::test]
async fn where_a_new_one_does_not_say_the_same_of_a_route_the_proven_one_is_believed() {
    for does in [Does::Lose, Does::Disown, Does::Fail, Does::Crash] {
        let rig = trying(does, 2);
        for _ in 0..2 {
            assert!(rig.is_on_probation(), "{does:?}");
            let routes = all(&rig).await.unwrap();
            assert_eq!(routes[0].node.as_deref(), Some("a"), "{does:?}");
        }
        assert!(!rig.is_on_probation() && rig.why("2").is_some(), "{does:?}");
    }
}

/// A component without routes cannot vouch for any: nothing is removed for being found by the new one.
#[tokio::test]
async fn beside_a_proven_one_that_knows_no_routes_a_new_one_removes_none() {
    let rig = trying(Does::Right, 1);
    rig.proven.does(Does::Lack);
    assert_eq!(all(&rig).await, Ok(vec![]));
    assert!(rig.is_on_probation());
}

#[tokio::test]
async fn what_the_proven_one_remembers_from_before_counts_for_nothing() {
    let rig = trying(Does::Right, 1);
    rig.cloud.routes.lock().clear();
    rig.proven.remembers.store(true, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(all(&rig).await, Ok(vec![]));
    assert!(rig.is_on_probation());
}

/// In an outage, the memory of the proven one made a good new component fail.
#[tokio::test]
async fn in_an_outage_the_memory_of_the_proven_one_is_no_fault_of_the_new_one() {
    let rig = trying(Does::Fail, 1);
    rig.proven.does(Does::Fail);
    rig.proven.remembers.store(true, std::sync::atomic::Ordering::Relaxed);
    assert!(all(&rig).await.is_err());
    assert!(rig.is_on_probation());
}

#[tokio::test]
async fn where_the_proven_one_cannot_tell_nothing_is_decided() {
    for (witness, told) in [
        (Does::Fail, Reaction::Retry),
        (Does::Throttle, Reaction::Throttled),
        // The run would have been somebody else's: nobody heard of it, and it was not tried again.
        (Does::Elsewhere, Reaction::Retry),
    ] {
        let rig = trying(Does::Right, 1);
        rig.proven.does(witness);
        let failure = all(&rig).await.unwrap_err();
        assert_eq!((failure.reaction, rig.is_on_probation()), (told, true), "{witness:?}: {failure}");
        assert!(failure.message.contains("on probation"), "{failure}");
    }
}

#[tokio::test]
async fn the_proven_one_makes_what_a_new_one_refuses_and_a_pause_is_nobodys_fault() {
    for does in [Does::Refuse, Does::Fail] {
        let rig = trying(does, 1);
        assert_eq!(make(&rig, "10.244.1.0/24").await, Ok(vec![RouteOutcome::default()]), "{does:?}");
        assert_eq!(rig.cloud.routes.lock()["10.244.1.0/24"].1, "1", "{does:?}");
        assert!(rig.why("2").unwrap().contains("routes.change"), "{does:?}");
    }
    let rig = trying(Does::Throttle, 1);
    let paused = make(&rig, "10.244.1.0/24").await.unwrap_err().into_failure();
    assert!(paused.reaction == Reaction::Throttled && rig.is_on_probation());
}

/// The second call met the pause that the first one had caused.
#[tokio::test]
async fn a_pause_of_the_proven_one_is_no_fault_and_a_pause_of_the_new_one_is_no_good_answer() {
    let at_once = ProbationSettings { time: Duration::ZERO, calls: 1, faults: 1 };
    for does in [Does::Throttle, Does::Pause] {
        let rig = trying(Does::Fail, 1);
        rig.proven.does(does);
        assert_eq!(make(&rig, "10.244.1.0/24").await.unwrap_err().into_failure().reaction, Reaction::Retry, "{does:?}");
        assert!(rig.is_on_probation(), "{does:?}");

        let (rig, new) = Rig::trying(does, at_once);
        drop(make(&rig, "10.244.1.0/24").await);
        assert!(rig.is_on_probation(), "{does:?}: nothing was done");
        new.does(Does::Right);
        make(&rig, "10.244.1.0/24").await.unwrap();
        assert!(!rig.is_on_probation(), "{does:?}");
    }
}

#[tokio::test]
async fn what_crashed_is_not_begun_anew_at_once_by_the_proven_one() {
    let rig = trying(Does::CrashAfterwards, 2);
    assert!(make(&rig, "10.244.1.0/24").await.is_err());
    assert_eq!((rig.is_on_probation(), rig.proven.asked.lock().get("change")), (true, None));
}

/// What one component found, another may not know how to change.
#[tokio::test]
async fn a_run_is_done_by_the_component_that_found_its_routes_whatever_is_exchanged_meanwhile() {
    let rig = trying(Does::Lose, 2);
    let run = rig.slot.routes();
    assert_eq!(run.get_all(vec![node("a")]).await.unwrap().len(), 1, "the proven one found it");
    run.change(vec![], vec![wish("10.244.1.0/24", "a")]).await.unwrap();
    assert_eq!(rig.cloud.routes.lock()["10.244.1.0/24"].1, "1", "and changes it");
    // The next run begins with the new one, which loses its probation in the middle.
    let run = rig.slot.routes();
    let failure = {
        all(&rig).await.unwrap();
        assert!(!rig.is_on_probation());
        run.change(vec![], vec![wish("10.244.2.0/24", "a")]).await.unwrap_err().into_failure()
    };
    assert!(failure.message.contains("was rolled back during this work"), "{failure}");
}

/// A cloud changes between two questions. That is no fault of who was asked first.
#[tokio::test]
async fn a_route_that_comes_between_two_questions_is_no_difference() {
    let rig = trying(Does::Right, 1);
    let late = ("10.244.7.0/24".to_owned(), ("a".to_owned(), "1".to_owned()));
    *rig.proven.comes.lock() = Some(late);
    let routes = all(&rig).await.unwrap();
    assert_eq!((routes.len(), rig.is_on_probation()), (2, true), "the witness has seen it");
    assert_eq!(all(&rig).await.unwrap().len(), 2);
    assert_eq!(rig.why("2"), None);
}
