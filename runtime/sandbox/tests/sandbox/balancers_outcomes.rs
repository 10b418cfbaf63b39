//! Outcomes that cannot be, and calls without one.

use std::time::Duration;

use ccm_cloud::{Failure, LoadBalancers as _, Mark, Outcome, Reaction, Service};
use ccm_sandbox::Limits;

use crate::rig::{LOGGED, REPORT, Rig, at, backends, service};

fn broken(function: &str, what: &str) -> Failure {
    let text = format!("{function} of hostile: the provider's answer breaks the contract: it gave {what}{REPORT}");
    Failure::new(Reaction::Retry, text)
}

const NOT_DECLARED: &str = "which meta.describe does not declare as written";

#[tokio::test]
async fn an_outcome_that_the_api_server_or_the_operator_would_refuse_is_no_answer() {
    let cases = [
        ("bad-ip", r#"the ingress IP "203.0.113.300", which is no IP address"#.to_owned()),
        ("bad-hostname", r#"the ingress host name "Web_1", which is no DNS name"#.to_owned()),
        ("mode-without-ip", "an ingress with an IP mode and without an IP".to_owned()),
        ("undeclared", format!(r#"the annotation "other.example/written-id" {NOT_DECLARED}"#)),
        ("not-written", format!(r#"the annotation "hostile.example/mood" {NOT_DECLARED}"#)),
        ("no-name", r#"the annotation "hostile.example/written-a b" which is no name of an annotation"#.to_owned()),
        ("twice", r#"the annotation "hostile.example/written-id" twice"#.to_owned()),
    ];
    let rig = Rig::hostile(Limits::default()).await;
    for (name, what) in cases {
        let outcomes = [
            ("load-balancers.ensure", rig.provider.ensure(service(name), backends(&[])).await),
            ("load-balancers.update-backends", rig.provider.update_backends(service(name), backends(&[])).await),
            ("load-balancers.ensure-deleted", rig.provider.delete(service(name)).await),
        ];
        for (function, outcome) in outcomes {
            let failure = outcome.failure.clone().unwrap();
            assert_eq!(failure, broken(function, &what), "{name}");
            assert_eq!(outcome, Outcome::failed(failure), "nothing of it is taken: {name}");
        }
        let ends = rig.record.take_ends();
        assert!(ends.iter().all(|end| end.outcome == "bad-answer") && ends.len() == 3, "{ends:?}");
    }
}

/// Upstream's case 126: a status that is not there.
#[tokio::test]
async fn to_have_succeeded_without_an_ingress_is_no_answer_but_after_a_deletion() {
    let rig = Rig::hostile(Limits::default()).await;
    let nothing = |function: &str| Outcome::failed(broken(function, "neither an ingress nor a failure"));
    let ensured = rig.provider.ensure(service("empty"), backends(&[])).await;
    assert_eq!(ensured, nothing("load-balancers.ensure"));
    let updated = rig.provider.update_backends(service("empty"), backends(&[])).await;
    assert_eq!(updated, nothing("load-balancers.update-backends"));
    assert_eq!(rig.provider.delete(service("empty")).await, Outcome::default());
    assert_eq!(rig.provider.get(service("empty")).await, Ok(Some(vec![])));
    assert_eq!(rig.provider.get(service("absent")).await, Ok(None));
}

#[tokio::test]
async fn what_was_written_down_comes_back_with_a_failure() {
    let rig = Rig::hostile(Limits::default()).await;
    let outcome = rig.provider.ensure(service("written"), backends(&[])).await;
    assert_eq!(outcome.failure, Some(Failure::new(Reaction::Quota, "no more")));
    let written = [
        ("hostile.example/written-id".to_owned(), Some("lb-1".to_owned())),
        ("hostile.example/written-job".to_owned(), None),
    ];
    assert_eq!(outcome.annotations, written);
}

/// What the API server refuses waits in the memory of the host, which all providers share.
#[tokio::test]
async fn an_outcome_that_writes_more_annotations_than_are_allowed_is_no_answer() {
    let of = async |annotation_bytes| {
        let rig = Rig::hostile(Limits { annotation_bytes, ..Limits::default() }).await;
        rig.provider.ensure(service("written"), backends(&[])).await
    };
    assert_eq!(of(57).await.annotations.len(), 2);
    let what = "annotations of 57 bytes to write, 56 are allowed (limit annotation-bytes)";
    assert_eq!(of(56).await, Outcome::failed(broken("load-balancers.ensure", what)));
}

#[tokio::test]
async fn an_address_that_is_none_is_no_answer_of_get_either() {
    let rig = Rig::hostile(Limits::default()).await;
    let failure = rig.provider.get(service("bad-ip")).await.unwrap_err();
    assert_eq!(failure, broken("load-balancers.get", r#"the ingress IP "203.0.113.300", which is no IP address"#));
    assert_eq!(rig.provider.get(service("good")).await, Ok(Some(vec![at("192.0.2.1")])));
}

/// Whose a load balancer is decides about other people's: what is no UID is nobody's word.
#[tokio::test]
async fn a_mark_is_the_beginning_of_a_uid_or_no_answer() {
    let rig = Rig::hostile(Limits::default()).await;
    let of = |name: &str, uid: &str| Service { uid: uid.to_owned(), ..service(name) };
    let uid = "0f4b3c52-8c1d-4c7e-9a51-0123456789ab";
    let mark = Mark { load_balancer: "lb-1".into(), uid: Some(uid.into()) };
    assert_eq!(rig.provider.get_mark(of("good", uid)).await, Ok(Some(mark)));
    assert_eq!(rig.provider.get_mark(of("absent", uid)).await, Ok(None));
    for (name, shown) in [("short-mark", "0f4b3c52-8c1d-4"), ("no-uid", "the Service of somebody else")] {
        let what = format!("the mark {shown:?}, which is not the beginning of a UID");
        assert_eq!(rig.provider.get_mark(of(name, uid)).await, Err(broken("load-balancers.get-mark", &what)));
    }
    let said = rig.provider.get_mark(of("chatty", uid)).await.unwrap().unwrap();
    assert!(said.load_balancer.len() <= 256 + '…'.len_utf8() && !said.load_balancer.contains('\n'), "{said:?}");
}

#[tokio::test]
async fn a_crash_is_a_failure_to_be_retried_that_names_the_function() {
    let rig = Rig::hostile(Limits::default()).await;
    let crashed = |function: &str| {
        let trap = "wasm trap: wasm `unreachable` instruction executed";
        Failure::new(Reaction::Retry, format!("{function} of hostile: the provider crashed: {trap}{LOGGED}"))
    };
    let ensured = rig.provider.ensure(service("panic"), backends(&[])).await;
    assert_eq!(ensured, Outcome::failed(crashed("load-balancers.ensure")));
    assert_eq!(rig.end().outcome, "trap");
    let deleted = rig.provider.delete(service("panic")).await;
    assert_eq!(deleted, Outcome::failed(crashed("load-balancers.ensure-deleted")));
    let validated = rig.provider.validate(service("panic"), None, false).await;
    assert_eq!(validated, Err(crashed("load-balancers.validate")));
    let good = Outcome { ingress: vec![at("192.0.2.1")], ..Outcome::default() };
    assert_eq!(rig.provider.ensure(service("good"), backends(&[])).await, good, "the call after it");
}

#[tokio::test]
async fn a_call_that_takes_too_long_is_a_failure_to_be_retried() {
    // A good call, such as the one that describes the provider, has time enough on a busy machine.
    let limits = Limits { call_time: Duration::from_secs(1), call_cpu: Duration::from_secs(60), ..Limits::default() };
    let rig = Rig::hostile(limits).await;
    let outcome = rig.provider.ensure(service("spin"), backends(&[])).await;
    let text = "load-balancers.ensure of hostile: no answer within 1s (limit call-time); raise the limit if its cloud needs that long";
    assert_eq!(outcome, Outcome::failed(Failure::new(Reaction::Retry, text)));
}

#[tokio::test]
async fn what_a_guest_says_is_short_wherever_it_goes() {
    let rig = Rig::hostile(Limits::default()).await;
    let short = |text: &str, most: usize| text.len() <= most + '…'.len_utf8() && !text.contains('\n');
    let outcome = rig.provider.ensure(service("chatty"), backends(&[])).await;
    assert!(short(&outcome.failure.unwrap().message, 1024));
    assert_eq!((outcome.changes.len(), outcome.changes[50].as_str()), (51, "and 450 more"));
    assert!(outcome.changes.iter().all(|change| short(change, 1024)));
    assert!(short(&rig.provider.name(service("chatty")).await.unwrap(), 256));
    let problems = rig.provider.validate(service("chatty"), None, false).await.unwrap();
    assert!(problems.len() == 50 && problems[0].fatal && problems.iter().all(|one| short(&one.message, 1024)));
    let failure = rig.provider.locks(service("many-locks")).await.unwrap_err();
    assert_eq!(failure, broken("load-balancers.locks", "101 locks, the most is 100"));
    assert_eq!(rig.provider.locks(service("a")).await, Ok(vec!["a".to_owned()]));
}
