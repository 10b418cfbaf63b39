//! A new component proves itself with load balancers. Whoever believes too soon that there is none makes a second one.

use std::sync::Arc;
use std::time::Duration;

use ccm_cloud::{Ingress, LoadBalancerSource as _, Outcome, Reaction, Service, Standing, Wish};

use super::*;
use crate::slot::ProbationSettings;
use crate::slot::testing::{at, digest, served, service};

async fn ensure(rig: &Rig, service: Service) -> Outcome {
    rig.slot.load_balancers().ensure(service, Arc::default()).await
}

async fn delete(rig: &Rig, service: Service) -> Outcome {
    rig.slot.load_balancers().delete(service).await
}

/// Version 1 has made the load balancer of `web`; version 2 is on probation.
async fn after_one(does: Does, settings: ProbationSettings) -> (Rig, Arc<crate::slot::testing::Fake>) {
    let rig = Rig::new(settings);
    assert_eq!(ensure(&rig, service("web")).await.failure, None);
    let new = rig.put("2", does);
    (rig, new)
}

fn made(uid: &str, by: &str) -> (String, String) {
    (uid.to_owned(), by.to_owned())
}

#[tokio::test]
async fn on_probation_a_component_changes_what_both_find_and_makes_what_neither_finds() {
    let (rig, new) = after_one(Does::Right, faults(1)).await;
    let outcome = ensure(&rig, served("web")).await;
    assert_eq!((outcome.failure, outcome.ingress), (None, vec![at("192.0.2.0")]));
    assert_eq!(ensure(&rig, service("new")).await.failure, None);
    assert_eq!(rig.balancers(), [made("new", "2"), made("web", "2")]);
    assert_eq!(delete(&rig, served("web")).await, Outcome::default());
    assert_eq!((rig.balancers(), rig.is_on_probation()), (vec![made("new", "2")], true));
    assert_eq!(new.asked.lock()["delete"], 1);
}

/// As an ordinary `ensure` it would take the last of the cloud's budget from new Services.
#[tokio::test]
async fn what_nobody_waits_for_reaches_the_component_as_such_on_probation_and_afterwards() {
    for is_on_probation in [false, true] {
        let rig = Rig::new(faults(1));
        let serving = if is_on_probation { rig.put("2", Does::Right) } else { Arc::clone(&rig.proven) };
        let outcome = rig.slot.load_balancers().ensure_unhurried(service("web"), Arc::default()).await;
        assert_eq!(outcome.failure, None, "on probation: {is_on_probation}");
        let asked = |function: &str| serving.asked.lock().get(function).copied();
        assert_eq!((asked("ensure-unhurried"), asked("ensure")), (Some(1), None), "on probation: {is_on_probation}");
        assert_eq!(rig.is_on_probation(), is_on_probation);
    }
}

/// A successful write was believed, whatever it had made.
#[tokio::test]
async fn nothing_is_made_a_second_time_under_another_name() {
    for new_service in [true, false] {
        let (rig, new) = after_one(Does::Rename, faults(3)).await;
        let failure = ensure(&rig, if new_service { service("new") } else { served("web") }).await.failure.unwrap();
        assert!(failure.message.contains("the last good one calls it"), "{failure}");
        assert_eq!(new.asked.lock().get("ensure"), None);
        assert_eq!(rig.balancers(), [made("web", "1")]);
        let why = rig.why("2").unwrap();
        assert!(why.starts_with("load-balancers.ensure: it calls the load balancer \"2-"), "once is enough: {why}");
        assert_eq!(ensure(&rig, service("new")).await.failure, None);
    }
}

#[tokio::test]
async fn a_component_that_does_not_find_the_load_balancer_makes_none() {
    let (rig, new) = after_one(Does::Lose, faults(2)).await;
    for _ in 0..2 {
        let failure = ensure(&rig, served("web")).await.failure.unwrap();
        assert!(failure.message.contains("it does not find the load balancer, which the last good one finds"));
    }
    assert_eq!(new.asked.lock().get("ensure"), None);
    assert!(rig.why("2").unwrap().contains("the last: load-balancers.get: "));
    // Where the witness cannot tell, nobody makes one; that is no fault.
    let (rig, new) = after_one(Does::Lose, faults(1)).await;
    rig.proven.does(Does::Fail);
    let failure = ensure(&rig, served("web")).await.failure.unwrap();
    assert!(failure.message.contains("the last good one cannot tell: it cannot tell"), "{failure}");
    assert_eq!((new.asked.lock().get("ensure"), rig.is_on_probation()), (None, true));
}

#[tokio::test]
async fn a_load_balancer_that_the_witness_does_not_find_afterwards_is_a_difference() {
    let (rig, _) = after_one(Does::Double, faults(2)).await;
    for uid in ["web", "web"] {
        let failure = ensure(&rig, served(uid)).await.failure;
        assert!(failure.is_some(), "the Service was let go");
    }
    assert_eq!(rig.serving(), "1", "{:?}", rig.why("2"));
    // That the cloud does not show it yet is nobody's fault.
    let (rig, new) = Rig::trying(Does::Right, faults(1));
    rig.proven.does(Does::Lose);
    new.does(Does::Right);
    let outcome = ensure(&rig, service("web")).await;
    assert!(outcome.failure.is_some());
}

#[tokio::test]
async fn a_crash_is_tried_again_later_and_never_made_again_at_once_by_another() {
    for (does, by) in [(Does::Crash, "1"), (Does::CrashAfterwards, "2")] {
        let (rig, _) = after_one(does, faults(2)).await;
        for _ in 0..2 {
            assert!(rig.is_on_probation(), "{does:?}");
            assert!(ensure(&rig, served("web")).await.failure.is_some(), "{does:?}");
            assert_eq!(rig.balancers(), [made("web", by)], "{does:?}");
        }
        assert!(rig.why("2").unwrap().contains("2 of its first"), "{does:?}: {:?}", rig.why("2"));
        assert_eq!(ensure(&rig, served("web")).await.failure, None, "{does:?}");
        assert_eq!(rig.balancers(), [made("web", "1")], "{does:?}");
    }
}

/// A Service that was let go is looked for by nobody.
#[tokio::test]
async fn what_a_new_component_says_that_it_deleted_is_gone_only_when_the_witness_finds_nothing() {
    let (rig, _) = after_one(Does::Leave, faults(3)).await;
    for _ in 0..3 {
        assert!(rig.is_on_probation(), "a cloud may show it a while longer");
        let failure = delete(&rig, served("web")).await.failure.unwrap();
        assert!(failure.message.contains("still finds"), "{failure}");
    }
    assert!(rig.why("2").unwrap().contains("the last: load-balancers.ensure-deleted: "), "{:?}", rig.why("2"));
    assert_eq!(delete(&rig, served("web")).await, Outcome::default());
    assert_eq!(rig.balancers(), []);
}

#[tokio::test]
async fn nothing_is_deleted_on_the_word_of_a_new_component_alone() {
    for (does, witness) in [(Does::Lose, Does::Right), (Does::Lose, Does::Fail), (Does::Rename, Does::Right)] {
        let (rig, new) = after_one(does, faults(9)).await;
        rig.proven.does(witness);
        assert!(delete(&rig, served("web")).await.failure.is_some(), "{does:?}");
        assert_eq!(new.asked.lock().get("delete"), None, "{does:?}");
        assert_eq!(rig.balancers(), [made("web", "1")], "{does:?}");
    }
    // What nobody has ever made goes at once.
    let (rig, _) = Rig::trying(Does::Right, faults(1));
    assert_eq!(delete(&rig, service("web")).await, Outcome::default());
}

#[tokio::test]
async fn a_load_balancer_is_missing_only_when_both_say_so() {
    let wish = |uid: &str| vec![Wish { service: served(uid), backends: vec![] }];
    for (witness, found) in [(Does::Right, Some(true)), (Does::Lose, Some(false)), (Does::Fail, None)] {
        let (rig, _) = after_one(Does::Lose, faults(9)).await;
        rig.proven.does(witness);
        let one = rig.slot.load_balancers();
        let got = one.get(served("web")).await;
        let surveyed = one.survey(Arc::default(), wish("web")).await.unwrap();
        match found {
            Some(true) => {
                assert_eq!(got, Ok(Some(vec![at("192.0.2.0")])));
                assert!(matches!(surveyed.as_slice(), [Standing::InStep(_)]), "{surveyed:?}");
            }
            Some(false) => assert_eq!((got, surveyed), (Ok(None), vec![Standing::Missing])),
            None => {
                assert!(got.unwrap_err().message.contains("on probation"));
                let [Standing::Unknown(failure)] = surveyed.as_slice() else { panic!("{surveyed:?}") };
                assert!(failure.message.contains("on probation"), "{failure}");
            }
        }
    }
}

#[tokio::test]
async fn what_changes_nothing_is_answered_by_the_proven_one_meanwhile() {
    let (rig, _) = after_one(Does::Crash, faults(5)).await;
    let one = rig.slot.load_balancers();
    assert_eq!(one.name(service("web")).await, Ok("web".to_owned()));
    assert_eq!(one.locks(service("web")).await, Ok(vec![]));
    assert_eq!(one.get(served("web")).await, Ok(Some(vec![at("192.0.2.0")])));
    assert_eq!(one.validate(service("web"), Some(served("web")), true).await, Ok(vec![]));
    assert!(rig.is_on_probation());
    assert_eq!(one.get(service("other")).await, Ok(None));
    assert!(rig.why("2").unwrap().contains("5 of its first 5 calls"), "{:?}", rig.why("2"));
}

/// A Service may ask for something that no version can do.
#[tokio::test]
async fn a_refusal_counts_only_where_the_proven_one_has_served() {
    let (rig, new) = after_one(Does::Right, faults(2)).await;
    let refused = async |service| {
        new.does(Does::Refuse);
        let failure = ensure(&rig, service).await.failure;
        assert!(failure.is_some());
    };
    for _ in 0..4 {
        rig.proven.does(Does::Refuse);
        refused(service("new")).await;
    }
    assert!(rig.is_on_probation(), "the Service was never served");
    rig.proven.does(Does::Right);
    for _ in 0..2 {
        assert!(rig.is_on_probation());
        refused(served("web")).await;
    }
    assert_eq!(rig.serving(), "1");
}

/// Whoever may write Services could prove a component with dry runs alone.
#[tokio::test(start_paused = true)]
async fn the_questions_of_the_admission_webhook_prove_nothing() {
    let once = ProbationSettings { time: Duration::from_secs(60), calls: 1, faults: 1 };
    let (rig, _) = after_one(Does::Right, once).await;
    let one = rig.slot.load_balancers();
    for _ in 0..50 {
        assert_eq!(one.validate(service("web"), None, true).await, Ok(vec![]));
        assert_eq!(one.name(service("web")).await, Ok("web".to_owned()));
        tokio::time::advance(Duration::from_secs(60)).await;
        assert!(rig.is_on_probation());
    }
    for _ in 0..2 {
        assert!(one.get(served("web")).await.is_ok());
        tokio::time::advance(Duration::from_secs(60)).await;
    }
    assert!(!rig.is_on_probation());
}

#[tokio::test]
async fn a_cloud_that_is_slow_or_at_its_limit_is_nobodys_fault() {
    let (rig, _) = after_one(Does::Throttle, faults(1)).await;
    assert!(ensure(&rig, served("web")).await.failure.is_some());
    assert!(delete(&rig, served("web")).await.failure.is_some());
    assert!(rig.is_on_probation());
}

/// In a survey it was believed at once.
#[tokio::test]
async fn what_the_witness_knows_from_before_is_no_fault_of_the_new_one() {
    let rig = async || {
        let (rig, _) = after_one(Does::Right, faults(1)).await;
        rig.proven.remember();
        rig.cloud.balancers.lock().clear();
        rig
    };
    let one = rig().await;
    assert_eq!(one.slot.load_balancers().get(served("web")).await, Ok(None));
    assert!(one.is_on_probation(), "get");
    let one = rig().await;
    let wishes = vec![Wish { service: served("web"), backends: vec![] }];
    let standings = one.slot.load_balancers().survey(Arc::default(), wishes).await;
    assert_eq!((standings, one.is_on_probation()), (Ok(vec![Standing::Missing]), true), "survey");
    let one = rig().await;
    assert_eq!(ensure(&one, served("web")).await.failure, None);
    assert!(one.is_on_probation(), "ensure");
}

/// The controller lets such a Service go.
#[tokio::test]
async fn that_somebody_else_takes_care_of_a_service_is_not_believed_while_the_witness_finds_its_load_balancer() {
    let (rig, _) = after_one(Does::Elsewhere, faults(9)).await;
    let reaction = |outcome: Outcome| outcome.failure.map(|failure| failure.reaction);
    assert_eq!(reaction(delete(&rig, served("web")).await), Some(Reaction::Retry));
    assert_eq!(rig.balancers(), [made("web", "1")]);
    let (rig, new) = after_one(Does::Right, faults(9)).await;
    new.does_when_changing(Does::Elsewhere);
    assert_eq!(reaction(delete(&rig, served("web")).await), Some(Reaction::Retry));
    rig.cloud.balancers.lock().clear();
    assert_eq!(reaction(delete(&rig, served("web")).await), Some(Reaction::Elsewhere));
}

/// Whoever believed it would delete the load balancer of another Service.
#[tokio::test]
async fn whose_a_load_balancer_is_both_must_say() {
    let (rig, new) = after_one(Does::Right, faults(1)).await;
    let one = rig.slot.load_balancers();
    assert!(one.get_mark(served("web")).await.unwrap().is_some());
    new.does(Does::Disown);
    assert_eq!(one.get_mark(served("web")).await.unwrap_err().reaction, Reaction::Retry);
    assert!(rig.why("2").unwrap().contains("get-mark"));
}

#[tokio::test]
async fn faults_in_the_questions_of_the_admission_webhook_end_no_probation() {
    for does in [Does::Refuse, Does::Fail] {
        let (rig, _) = after_one(does, faults(1)).await;
        let one = rig.slot.load_balancers();
        for _ in 0..5 {
            assert_eq!(one.validate(service("web"), None, true).await, Ok(vec![]), "{does:?}");
        }
        assert!(rig.is_on_probation(), "{does:?}");
    }
}

/// That the Service is wrong, or nobody's, is not for the witness to say: nobody would try it again.
#[tokio::test]
async fn what_the_witness_cannot_tell_is_tried_again() {
    for (witness, told) in [
        (Does::Refuse, Reaction::Retry),
        (Does::Elsewhere, Reaction::Retry),
        (Does::Fail, Reaction::Retry),
        (Does::Throttle, Reaction::Throttled),
    ] {
        let (rig, _) = Rig::trying(Does::Right, faults(1));
        rig.proven.does(witness);
        let failure = ensure(&rig, service("new")).await.failure.unwrap();
        assert_eq!(failure.reaction, told, "{witness:?}: {failure}");
        assert!(rig.is_on_probation(), "{witness:?}");
    }
}

/// It was said that the new one finds no load balancer, also where it had found one, or deleted it.
#[tokio::test]
async fn what_the_witness_cannot_tell_is_told_with_what_the_new_one_says() {
    let (rig, new) = after_one(Does::Right, faults(1)).await;
    let cannot_tell = |says: &str| format!("{says}, and the last good one cannot tell: it cannot tell");
    rig.proven.does(Does::Fail);
    for (does, says) in [(Does::Right, "says whose the load balancer is"), (Does::Lose, "finds no load balancer")] {
        new.does(does);
        let failure = rig.slot.load_balancers().get_mark(served("web")).await.unwrap_err();
        assert!(failure.message.ends_with(&cannot_tell(says)), "{does:?}: {failure}");
    }
    new.does(Does::Right);
    // It answers from memory until it is asked about the deletion.
    rig.proven.remember();
    let failure = delete(&rig, served("web")).await.failure.unwrap();
    assert!(failure.message.ends_with(&cannot_tell("says that it deleted the load balancer")), "{failure}");
    assert_eq!((rig.balancers(), rig.is_on_probation()), (vec![], true));
}

/// Whoever goes without a verdict changes nothing more either, and what it wrote is ensured again.
#[tokio::test]
async fn a_component_that_is_withdrawn_changes_nothing_more() {
    let (rig, _) = after_one(Does::Right, faults(1)).await;
    let work = rig.slot.load_balancers();
    assert!(rig.slot.put_back(&digest("1")) && !rig.is_on_probation());
    assert!(work.ensure(served("web"), Arc::default()).await.failure.is_some());
    assert_eq!(rig.balancers(), [made("web", "1")]);
    assert!(rig.slot.is_taken_back(&work.component()));
}

#[test]
fn one_load_balancer_may_be_told_by_one_address_or_another() {
    let name = |name: &str| Ingress { hostname: Some(name.to_owned()), ip: None, ..at("") };
    let both = |ip: &str, name: &str| Ingress { hostname: Some(name.to_owned()), ..at(ip) };
    for (found, told, is_same) in [
        (vec![at("192.0.2.1")], vec![at("192.0.2.1")], true),
        (vec![at("192.0.2.1")], vec![at("192.0.2.2")], false),
        (vec![at("192.0.2.1"), at("2001:db8::1")], vec![at("2001:db8::1")], true),
        (vec![at("192.0.2.1")], vec![both("192.0.2.1", "web")], true),
        (vec![at("192.0.2.1")], vec![name("web")], true),
        (vec![name("web")], vec![name("shop")], false),
        (vec![both("192.0.2.1", "web")], vec![both("192.0.2.2", "web")], true),
        (vec![], vec![at("192.0.2.1")], true),
    ] {
        assert_eq!(crate::slot::balancers::is_same(&found, &told), is_same, "{found:?} {told:?}");
    }
}
