//! A new provider proves itself with load balancers: deletions wait, and what it refuses is looked at twice.

use std::sync::Arc;
use std::time::Duration;

use ccm_cloud::{
    Failure, Instances as _, LoadBalancers as _, Need, Node, Outcome, Reaction, Service, ServicePort, Standing, Wish,
};
use ccm_sandbox::{Phase, ProbationSettings, Slot};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::cloud::{Cloud, ok};
use crate::exchange::slow_cloud;
use crate::rig::{Grants, Scripted, at, backends, map, node, service};
use crate::successor::{Works, answers, faults, generation, is_on_probation, rolled_back};

/// A Service that has an address.
fn served(name: &str) -> Service {
    Service { ingress: vec![at("203.0.113.9")], ..service(name) }
}

/// The same, for which the scripted provider has plans.
fn planned(plans: &Value) -> Service {
    Service { annotations: map(&[("scripted.example/script", &plans.to_string())]), ..served("web") }
}

fn done() -> Outcome {
    Outcome { ingress: vec![at("203.0.113.9")], ..Outcome::default() }
}

fn refused() -> Outcome {
    Outcome::failed(Failure::new(Reaction::Invalid, "the Service is refused on purpose"))
}

async fn ensure(slot: &Slot, service: Service) -> Outcome {
    slot.ensure(service, backends(&["a"])).await
}

#[tokio::test]
async fn no_load_balancer_is_deleted_before_the_time_of_a_probation_is_over() {
    let works = Works::new();
    let slot =
        works.slot("good", "good", ProbationSettings { time: Duration::from_secs(60), calls: 3, faults: 1 }).await;
    tokio::time::pause();
    let begun = tokio::time::Instant::now();
    let mut waits = vec![];
    for _ in 0..3 {
        let failure = slot.delete(served("web")).await.failure.unwrap();
        assert_eq!(failure.reaction, Reaction::Pending, "{failure}");
        let wait = failure.retry_after.unwrap();
        waits.push(wait);
        tokio::time::advance(wait / 2).await;
    }
    assert!(waits.is_sorted_by(|earlier, later| earlier > later) && waits[0] <= Duration::from_secs(60), "{waits:?}");
    tokio::time::advance(Duration::from_secs(60) - begun.elapsed()).await;
    // It counts as a call like any other: else a cluster where nothing happens but this would wait for ever.
    assert_eq!(slot.delete(served("web")).await, Outcome::default());
    assert!(is_on_probation(&slot));
    for _ in 0..2 {
        assert_eq!(slot.delete(served("web")).await, Outcome::default());
    }
    assert_eq!(*slot.phases().borrow(), Phase::Proven);
    assert_eq!(slot.delete(served("web")).await, Outcome::default());
}

/// They are what nobody has seen it do before its time is over.
#[tokio::test]
async fn a_probation_is_not_over_before_the_deletions_that_waited_had_an_answer() {
    let works = Works::new();
    let settings = ProbationSettings { time: Duration::from_secs(60), calls: 1, faults: 3 };
    let slot = works.slot("good", "cannot-delete", settings).await;
    tokio::time::pause();
    assert_eq!(ensure(&slot, served("web")).await, done());
    assert_eq!(slot.delete(served("web")).await.failure.map(|failure| failure.reaction), Some(Reaction::Pending));
    tokio::time::advance(Duration::from_secs(60)).await;
    for _ in 0..3 {
        assert_eq!(ensure(&slot, served("other")).await, done());
        assert!(is_on_probation(&slot));
        let failure = slot.delete(served("web")).await.failure.unwrap();
        assert!(failure.message.contains("load-balancers.delete: the provider crashed"), "{failure}");
    }
    assert!(rolled_back(&slot).contains("load-balancers.delete"), "{}", rolled_back(&slot));
    assert_eq!(slot.delete(served("web")).await, Outcome::default());

    // One of them somebody else has taken away meanwhile.
    let slot = works.slot("good", "good", settings).await;
    for name in ["web", "gone"] {
        assert!(slot.delete(served(name)).await.failure.is_some());
    }
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(slot.delete(served("web")).await, Outcome::default());
    assert!(is_on_probation(&slot));
    tokio::time::advance(Duration::from_secs(60)).await;
    answers(&slot).await;
    assert_eq!(*slot.phases().borrow(), Phase::Proven);
}

#[tokio::test]
async fn after_a_rollback_and_at_a_first_provider_deletions_wait_for_nothing() {
    let works = Works::new();
    let slot = works.slot("good", "trap", faults(1)).await;
    assert_eq!(slot.delete(served("web")).await.failure.map(|failure| failure.reaction), Some(Reaction::Pending));
    assert_eq!(answers(&slot).await, "1");
    assert_eq!(slot.delete(served("web")).await, Outcome::default());

    // Nobody is there who could say more.
    let slot = Slot::new(works.version("1", "good").await, Some(faults(1)));
    assert_eq!(slot.delete(served("web")).await, Outcome::default());
}

#[tokio::test]
async fn a_crash_with_a_load_balancer_is_a_fault_as_well_and_the_last_good_one_makes_it() {
    let works = Works::new();
    for behaviour in ["trap", "loop", "too-few"] {
        let slot = works.slot("good", behaviour, faults(2)).await;
        for web in [service("web"), served("web")] {
            assert!(is_on_probation(&slot), "{behaviour}");
            let outcome = ensure(&slot, web).await;
            assert_eq!((outcome.failure, outcome.ingress.len()), (None, 1), "{behaviour}");
        }
        assert!(rolled_back(&slot).contains("load-balancers.ensure"), "{behaviour}: {}", rolled_back(&slot));
        assert_eq!(ensure(&slot, served("web")).await, done(), "{behaviour}");
    }
}

#[tokio::test]
async fn what_changes_nothing_is_answered_by_the_last_good_one_meanwhile() {
    let works = Works::new();
    let slot = works.slot("good", "trap", faults(5)).await;
    assert_eq!(slot.name(service("web")).await, Ok("default-web".to_owned()));
    assert_eq!(slot.locks(service("web")).await, Ok(vec![]));
    assert_eq!(slot.get(served("web")).await, Ok(Some(vec![at("203.0.113.9")])));
    assert_eq!(slot.validate(service("web"), Some(served("web")), true).await, Ok(vec![]));
    assert!(is_on_probation(&slot));
    assert_eq!(slot.get(service("web")).await, Ok(None));
    assert!(rolled_back(&slot).contains("5 of its first 5 calls"), "{}", rolled_back(&slot));
}

/// A Service may ask for something that no version can do.
#[tokio::test]
async fn a_refusal_counts_only_where_the_last_good_one_has_served() {
    let works = Works::new();
    let slot = works.slot("good", "refuse", faults(2)).await;
    for _ in 0..4 {
        assert_eq!(ensure(&slot, service("new")).await, refused());
    }
    assert!(is_on_probation(&slot), "the Service was never served");
    assert_eq!(ensure(&slot, served("web")).await, refused());
    assert!(is_on_probation(&slot));
    assert_eq!(slot.update_backends(served("web"), backends(&["a"])).await, refused());
    let why = "2 of its first 6 calls failed where the one before did not, the last: load-balancers.update-backends: ";
    assert!(rolled_back(&slot).starts_with(why), "{}", rolled_back(&slot));
    assert_eq!(ensure(&slot, served("web")).await, done());
}

#[tokio::test]
async fn a_refusal_does_not_count_where_the_last_good_one_finds_fault_or_no_load_balancer() {
    let works = Works::new();
    let Scripted(old) = Scripted::new(Grants::default()).await;
    let slot = Slot::new(Arc::new(old), None);
    slot.exchange(works.version("2", "refuse").await, faults(1));
    for plans in [
        // Each result of a step is a fatal problem.
        json!({ "validate": { "steps": [{ "available": "token" }] } }),
        json!({ "validate": { "steps": [{ "fail": "no" }] } }),
        // A plan without an ingress: it is gone.
        json!({ "get": {} }),
        json!({ "get": { "steps": [{ "fail": "no" }] } }),
    ] {
        assert_eq!(ensure(&slot, planned(&plans)).await, refused(), "{plans}");
        assert!(is_on_probation(&slot), "{plans}");
    }
    // Another one may have made it: the Service says nothing of an address.
    let made = planned(&json!({ "get": { "ingress": ["203.0.113.9"] } }));
    assert_eq!(ensure(&slot, Service { ingress: vec![], ..made }).await, refused());
    assert!(is_on_probation(&slot));
    assert_eq!(ensure(&slot, planned(&json!({}))).await, refused());
    assert_eq!(generation(&slot), 3);
    rolled_back(&slot);
}

#[tokio::test]
async fn a_cloud_that_is_slow_or_at_its_limit_is_nobodys_fault() {
    let works = Works::new();
    let slot = works.slot("good", "throttled", faults(1)).await;
    let failure = ensure(&slot, served("web")).await.failure.unwrap();
    assert_eq!((failure.reaction, failure.retry_after), (Reaction::Throttled, Some(Duration::from_secs(5))));
    assert!(is_on_probation(&slot));
}

/// A survey saves calls, and nothing depends on it.
#[tokio::test]
async fn a_survey_that_the_new_one_does_not_have_is_no_fault() {
    let works = Works::new();
    let slot = Slot::new(works.cloudlycke().await, None);
    assert!(slot.surveys());
    // Between the question whether there is one, and the survey.
    slot.exchange(works.version("2", "good").await, faults(1));
    let ports = || vec![ServicePort { port: 80, ..ServicePort::default() }];
    let wishes = || vec![Wish { service: Service { ports: ports(), ..service("web") }, backends: vec![] }];
    let answer = slot.survey(backends(&[]), wishes()).await;
    assert!(is_on_probation(&slot), "{answer:?}");

    let slot = works.slot("good", "good", faults(1)).await;
    slot.exchange(works.cloudlycke().await, faults(1));
    let standings = slot.survey(backends(&[]), wishes()).await.unwrap();
    let [Standing::Unknown(failure)] = standings.as_slice() else { panic!("on the word of one: {standings:?}") };
    assert!(failure.message.contains("on probation"), "{failure}");
    assert!(is_on_probation(&slot));
}

/// Whoever believes that there is no load balancer makes one: the second.
#[tokio::test]
async fn a_load_balancer_is_missing_only_when_both_say_so() {
    let works = Works::new();
    let Scripted(old) = Scripted::new(Grants::default()).await;
    let old = Arc::new(old);
    let after = |new| {
        let slot = Slot::new(Arc::clone(&old), None);
        slot.exchange(new, faults(1));
        slot
    };
    let good = works.version("2", "good").await;
    // Without an address the new one finds nothing.
    let known = |plans: &Value| Service { ingress: vec![], ..planned(plans) };

    let slot = after(Arc::clone(&good));
    assert_eq!(slot.get(known(&json!({ "get": {} }))).await, Ok(None));
    let failure = slot.get(known(&json!({ "get": { "steps": [{ "fail": "no" }] } }))).await.unwrap_err();
    assert!(failure.message.contains("on probation"), "{failure}");
    assert!(is_on_probation(&slot), "nobody knows who is right");
    let found = slot.get(known(&json!({ "get": { "ingress": ["203.0.113.9"] } }))).await;
    assert_eq!(found, Ok(Some(vec![at("203.0.113.9")])));
    rolled_back(&slot);

    let wish = |service| vec![Wish { service, backends: vec![] }];
    let new = works.cloudlycke().await;
    let slot = after(Arc::clone(&new));
    let ports = vec![ServicePort { port: 80, ..ServicePort::default() }];
    let missing = |service| Service { ports: ports.clone(), ..service };
    let survey = async |service| slot.survey(backends(&[]), wish(missing(service))).await.unwrap();
    assert_eq!(survey(service("web")).await, [Standing::Missing]);
    let standings = survey(known(&json!({ "survey": { "steps": [{ "fail": "no" }] } }))).await;
    assert!(matches!(standings.as_slice(), [Standing::Unknown(failure)] if failure.message.contains("on probation")));
    assert!(is_on_probation(&slot), "nobody knows who is right");
    let standings = survey(known(&json!({ "survey": { "steps": [{ "available": "token" }] } }))).await;
    assert!(matches!(standings.as_slice(), [Standing::Differs(_)]), "{standings:?}");
    rolled_back(&slot);
}

/// What it has sent cannot be taken back: who began anew at once would make a second one.
#[tokio::test]
async fn a_call_that_has_begun_to_change_the_cloud_ends_on_a_provider_that_was_rolled_back() {
    let works = Works::new();
    for (method, effect) in [("post", "once"), ("put", "repeatable"), ("get", "read")] {
        let (cloud, asked, go) = slow_cloud().await;
        let Scripted(new) = Scripted::new(Grants::of(&[("api", cloud.url(""))])).await;
        let slot = Arc::new(Slot::new(works.version("1", "good").await, None));
        slot.exchange(Arc::new(new), faults(1));
        let send = json!({ "send": { "method": method, "effect": effect, "path": "/balancers" } });
        let service = planned(&json!({ "ensure": { "steps": [send], "ingress": ["192.0.2.7"] } }));
        let caller = Arc::clone(&slot);
        let mut calls = JoinSet::new();
        calls.spawn(async move { ensure(&caller, service).await });
        asked.acquire().await.unwrap().forget();

        let script = json!([{ "fail": "no" }]).to_string();
        let failing = Node { annotations: map(&[("scripted.example/script", &script)]), ..node("a") };
        slot.find(vec![failing], Need::Metadata).await.unwrap();
        rolled_back(&slot);
        if effect != "read" {
            assert!(calls.try_join_next().is_none(), "{effect}: it was given up");
            go.add_permits(1);
        }
        let outcome = calls.join_next().await.unwrap().unwrap();
        let by = if effect == "read" { "203.0.113.9" } else { "192.0.2.7" };
        assert_eq!(outcome.ingress, [at(by)], "{effect}: {outcome:?}");
    }
}

/// The request may have made it, and not show yet: the one that tried at once made the second one.
#[tokio::test]
async fn what_a_crash_has_left_in_the_cloud_is_looked_for_later_and_not_made_again_at_once() {
    let works = Works::new();
    for (method, effect, is_made) in [("post", "once", false), ("put", "repeatable", false), ("get", "read", true)] {
        let cloud = Cloud::start(|_| ok("{}"));
        let Scripted(new) = Scripted::new(Grants::of(&[("api", cloud.url())])).await;
        let slot = Slot::new(works.version("1", "good").await, None);
        slot.exchange(Arc::new(new), faults(2));
        let send = json!({ "send": { "method": method, "effect": effect, "path": "/balancers" } });
        let service = planned(&json!({ "ensure": { "steps": [send, { "crash": {} }] } }));
        let outcome = ensure(&slot, service.clone()).await;
        assert_eq!(cloud.take().len(), 1, "{effect}");
        assert_eq!(outcome.ingress.len(), usize::from(is_made), "{effect}: {outcome:?}");
        let failure = outcome.failure.map(|failure| (failure.reaction, failure.message.contains("crashed")));
        assert_eq!(failure, (!is_made).then_some((Reaction::Retry, true)), "{effect}");
        assert!(is_on_probation(&slot), "{effect}");
        // It counts, and whoever returns does it.
        ensure(&slot, service.clone()).await;
        assert!(rolled_back(&slot).contains("2 of its first 2 calls gave no answer"), "{}", rolled_back(&slot));
        assert_eq!(ensure(&slot, service).await, done(), "{effect}");
    }
}

/// A Service that was let go is looked for by nobody.
#[tokio::test]
async fn what_a_new_provider_says_that_it_deleted_is_gone_only_when_the_last_good_one_finds_nothing() {
    let works = Works::new();
    let Scripted(old) = Scripted::new(Grants::default()).await;
    let (old, new) = (Arc::new(old), works.version("2", "good").await);
    let at_once = ProbationSettings { time: Duration::ZERO, calls: 100, faults: 3 };
    let after = || {
        let slot = Slot::new(Arc::clone(&old), None);
        slot.exchange(Arc::clone(&new), at_once);
        slot
    };
    let slot = after();
    assert_eq!(slot.delete(planned(&json!({ "get": {} }))).await, Outcome::default());
    // Without a plan it finds what the addresses of the Service say, which are of before.
    assert_eq!(slot.delete(planned(&json!({}))).await, Outcome::default());
    let untold = slot.delete(planned(&json!({ "get": { "steps": [{ "fail": "no" }] } }))).await.failure.unwrap();
    assert!(untold.message.contains("the last good one cannot tell"), "{untold}");
    assert!(is_on_probation(&slot), "nobody knows who is right");

    let there = planned(&json!({ "get": { "ingress": ["203.0.113.9"] } }));
    let failure = slot.delete(there.clone()).await.failure.unwrap();
    assert_eq!((failure.reaction, failure.message.contains("still finds")), (Reaction::Retry, true), "{failure}");
    assert!(rolled_back(&slot).contains("load-balancers.delete: "), "once is enough: {}", rolled_back(&slot));
    assert_eq!(slot.delete(there).await, Outcome::default(), "of the one that returned");
}
