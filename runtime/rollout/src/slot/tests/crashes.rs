//! A crash is a fault where the last good one has an answer to the same: whoever may write Services can make any component crash.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ccm_cloud::{
    Cluster as _, LoadBalancerSource as _, LoadBalancers as _, Outcome, RouteSource as _, RouteWish, Service, Wish,
};
use ccm_egress::ProviderContext;
use ccm_sandbox::{Limits, Sandbox};
use serde_json::{Value, json};

use super::*;
use crate::component::Component as _;
use crate::slot::ProbationSettings;
use crate::slot::testing::{served, service};

/// What changes nothing in the cloud, and work for the cluster that has not begun to.
const QUESTIONS: [&str; 8] = ["find", "name", "locks", "get", "get-mark", "survey", "get-all", "reconcile"];

async fn ask(rig: &Rig, question: &str) {
    let one = rig.slot.load_balancers();
    let wishes = || vec![Wish { service: served("web"), backends: vec![] }];
    match question {
        "find" => drop(find(rig, &["a"]).await),
        "name" => drop(one.name(served("web")).await),
        "locks" => drop(one.locks(served("web")).await),
        "get" => drop(one.get(served("web")).await),
        "get-mark" => drop(one.get_mark(served("web")).await),
        "survey" => drop(one.survey(Arc::default(), wishes()).await),
        "get-all" => drop(rig.slot.routes().get_all(vec![node("a")]).await),
        "reconcile" => drop(rig.slot.reconcile(vec![node("a")], vec![served("web")]).await),
        other => panic!("{other}"),
    }
}

async fn change(rig: &Rig, function: &str, service: Service) -> Outcome {
    let one = rig.slot.load_balancers();
    match function {
        "ensure" => one.ensure(service, Arc::default()).await,
        "update-backends" => one.update_backends(service, Arc::default()).await,
        "delete" => one.delete(service).await,
        other => panic!("{other}"),
    }
}

/// Services with huge labels took all memory of each component that was told of them, and no new component was ever proven again.
#[tokio::test]
async fn what_every_component_crashes_at_refuses_none() {
    for question in QUESTIONS {
        let (rig, _) = Rig::trying(Does::Crash, faults(1));
        rig.proven.does(Does::Crash);
        for _ in 0..3 {
            ask(&rig, question).await;
            assert_eq!((rig.is_on_probation(), rig.why("2")), (true, None), "{question}");
        }
        rig.proven.does(Does::Right);
        ask(&rig, question).await;
        let why = rig.why("2").unwrap_or_default();
        assert!(why.starts_with("1 of its first 4 calls gave no answer, the last: "), "{question}: {why}");
    }
}

/// Nobody knows how the last good one would have done.
#[tokio::test]
async fn in_an_outage_a_crash_is_no_fault() {
    // That needs no cloud.
    for question in QUESTIONS.into_iter().filter(|question| *question != "name") {
        let (rig, _) = Rig::trying(Does::Crash, faults(1));
        rig.cloud.is_down.store(true, Ordering::Relaxed);
        ask(&rig, question).await;
        assert_eq!((rig.is_on_probation(), rig.why("2")), (true, None), "{question}");
    }
}

/// At once it would not see what was sent before.
#[tokio::test]
async fn a_change_that_crashed_is_the_last_good_ones_the_next_time_which_tells_whose_fault_that_was() {
    for function in ["ensure", "update-backends", "delete"] {
        let (rig, new) = Rig::trying(Does::Right, faults(1));
        for one in [&new, &rig.proven] {
            one.does_when_changing(Does::Crash);
        }
        for times in 1..=3 {
            for one in [&new, &rig.proven] {
                assert!(change(&rig, function, service("web")).await.failure.is_some(), "{function}");
                assert_eq!(one.asked.lock().get(function), Some(&times), "{function}");
            }
        }
        assert_eq!((rig.is_on_probation(), rig.why("2")), (true, None), "{function}: both crash");

        rig.proven.does_when_changing(Does::Right);
        assert!(change(&rig, function, service("web")).await.failure.is_some(), "{function}");
        assert!(rig.is_on_probation(), "{function}: nobody knows yet");
        let outcome = change(&rig, function, service("web")).await;
        assert!(outcome.failure.is_some(), "{function}: else it would be recorded as the new one's");
        let why = rig.why("2").unwrap();
        assert!(why.ends_with(&format!(" gave no answer, the last: {function}: it crashed")), "{function}: {why}");
    }
}

#[tokio::test]
async fn routes_whose_change_crashed_are_changed_by_the_last_good_one_the_next_time() {
    let (rig, _) = Rig::trying(Does::Crash, faults(1));
    let change = async |network: &str| {
        let wish = RouteWish {
            destination_cidr: network.to_owned(),
            node: "a".to_owned(),
            provider_id: "cloud://a".to_owned(),
            addresses: vec![],
        };
        rig.slot.routes().change(vec![], vec![wish]).await.is_ok()
    };
    rig.proven.does(Does::Crash);
    for _ in 0..4 {
        assert!(!change("10.244.1.0/24").await);
    }
    assert_eq!((rig.is_on_probation(), rig.proven.asked.lock()["change"]), (true, 2), "both crash in turn");
    rig.proven.does(Does::Right);
    assert!(!change("10.244.1.0/24").await);
    assert!(!change("10.244.2.0/24").await, "other routes are the new one's");
    assert!(rig.is_on_probation() && rig.cloud.routes.lock().is_empty());
    assert!(change("10.244.1.0/24").await);
    assert_eq!(rig.cloud.routes.lock()["10.244.1.0/24"].1, "1");
    assert!(rig.why("2").unwrap().ends_with("gave no answer, the last: change: it crashed"));
}

/// Whoever may write Services would ask for something small when it is the turn of the last good one.
#[tokio::test]
async fn an_answer_to_something_else_says_nothing_of_a_crash() {
    let (rig, new) = Rig::trying(Does::Right, faults(1));
    new.does_when_changing(Does::Crash);
    assert!(change(&rig, "ensure", service("web")).await.failure.is_some());
    new.does_when_changing(Does::Right);
    let small = Service { labels: [("size".to_owned(), "small".to_owned())].into(), ..service("web") };
    assert_eq!(change(&rig, "ensure", small).await.failure, None);
    assert_eq!((rig.is_on_probation(), rig.proven.asked.lock().get("ensure")), (true, None));

    let (rig, _) = Rig::trying(Does::CrashAfterwards, faults(1));
    assert!(rig.slot.reconcile(vec![node("a")], vec![service("web")]).await.is_err());
    // It is the last good one's turn all the same: the cluster does not wait.
    assert_eq!(rig.slot.reconcile(vec![node("a")], vec![]).await, Ok(vec![]));
    assert_eq!((rig.is_on_probation(), rig.proven.asked.lock()["reconcile"]), (true, 1));
}

/// Before the next try, others would have proven it.
#[tokio::test(start_paused = true)]
async fn a_crash_that_nobody_has_judged_yet_begins_the_time_of_a_probation_anew() {
    let settings = ProbationSettings { time: Duration::from_secs(60), calls: 1, faults: 9 };
    for is_cluster in [false, true] {
        let (rig, new) = Rig::trying(Does::Right, settings);
        answers(&rig).await;
        tokio::time::advance(Duration::from_secs(59)).await;
        if is_cluster {
            new.does(Does::CrashAfterwards);
            assert!(rig.slot.reconcile(vec![], vec![]).await.is_err());
        } else {
            new.does_when_changing(Does::Crash);
            assert!(change(&rig, "ensure", service("web")).await.failure.is_some());
        }
        new.does(Does::Right);
        tokio::time::advance(Duration::from_secs(1)).await;
        answers(&rig).await;
        assert!(rig.is_on_probation(), "of the cluster: {is_cluster}");
        tokio::time::advance(Duration::from_secs(60)).await;
        answers(&rig).await;
        assert!(!rig.is_on_probation(), "of the cluster: {is_cluster}");
    }
}

/// A new version brings routes, or load balancers: nobody else can be asked about them.
#[tokio::test]
async fn a_crash_counts_by_itself_where_the_last_good_one_does_not_have_the_interface() {
    for question in ["get", "survey", "get-all", "reconcile"] {
        let (rig, _) = Rig::trying(Does::Crash, faults(2));
        rig.proven.does(Does::Lack);
        for _ in 0..2 {
            assert!(rig.is_on_probation(), "{question}");
            ask(&rig, question).await;
        }
        assert!(rig.why("2").unwrap().starts_with("2 of its first 2 calls gave no answer"), "{question}");
    }
    let (rig, new) = Rig::trying(Does::Right, faults(2));
    rig.proven.does(Does::Lack);
    new.does_when_changing(Does::Crash);
    for _ in 0..2 {
        assert!(rig.is_on_probation());
        assert!(change(&rig, "ensure", service("web")).await.failure.is_some());
    }
    assert_eq!((rig.serving(), new.asked.lock()["ensure"]), ("1".to_owned(), 2), "nobody does it in its place");
}

/// What the sandbox says of the call and what it keeps of the crash are two texts.
#[tokio::test]
async fn a_real_component_that_crashed_is_known_by_its_failure() {
    let bytes = std::fs::read(ccm_built::component("guests/scripted.wasm").unwrap()).unwrap();
    let component = Sandbox::try_new().unwrap().load(bytes, Limits::default(), true).await.unwrap();
    let provider = component.into_provider(ProviderContext::closed(), None, None);
    let scripted = |step: &Value| Service {
        annotations: [("scripted.example/script".to_owned(), json!({ "ensure": { "steps": [step] } }).to_string())]
            .into(),
        ..service("web")
    };
    let (crash, fail) = (json!({ "crash": {} }), json!({ "fail": "it says so itself" }));
    for (step, has_crashed) in [(&fail, false), (&crash, true), (&fail, false)] {
        let failure = provider.ensure(scripted(step), Arc::default()).await.failure.unwrap();
        assert_eq!(provider.has_crashed(&failure), has_crashed, "{failure}");
    }
    assert_eq!(provider.calls(), 3);
}
