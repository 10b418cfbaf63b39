use std::time::Duration;

use ccm_rollout::Version;
use ccm_rollout::status::{Times, UnreadableCredential};

use super::*;

fn trouble(name: &str, reason: &str, why: Option<&str>, next: Option<&str>) -> Trouble {
    let text = |text: Option<&str>| text.map(str::to_owned);
    Trouble { name: name.into(), reason: reason.into(), why: text(why), next: text(next) }
}

#[test]
fn a_service_says_when_its_next_try_is_or_what_it_waits_for() {
    let turned = |next, waits: bool| {
        let (name, why) = ("default/web".to_owned(), Some("it is refused".to_owned()));
        let waits_for_turn = Some(Duration::from_secs(2_400)).filter(|_| waits);
        service(ServiceTrouble { name, reason: "QuotaExceeded", why, next, waits_for_turn })
    };
    let of = |next| turned(next, false);
    let told = |next| trouble("default/web", "QuotaExceeded", Some("it is refused"), next);
    assert_eq!(of(Next::In(29.1)), told(Some("next try in 30 s")));
    assert_eq!(of(Next::Running(7.0)), told(Some("a try is under way for 7 s")));
    assert_eq!(of(Next::OnChange), told(Some("next try when the Service or its provider changes")));
    assert_eq!(of(Next::Unknown), told(None));
    let waits = "waiting for its turn for 40 min";
    assert_eq!(turned(Next::Running(2_401.0), true), told(Some(waits)));
    assert_eq!(turned(Next::In(29.1), true), told(Some("next try in 30 s")), "that was another try");
}

#[test]
fn a_node_that_is_not_initialised_says_what_came_of_the_last_try_and_when_the_next_one_is() {
    let of = |reaction: Option<&'static str>, unclaimed, next| {
        let why = reaction.map(|_| "503".to_owned());
        uninitialised_node(UninitialisedNode { name: "n1".into(), why, reaction, unclaimed, next })
    };
    let minute = Some(Duration::from_secs(60));
    let why = Some("503");
    for (next, told) in [
        (Next::Unknown, None),
        (Next::Running(2.5), Some("a try is under way for 3 s")),
        (Next::In(29.1), Some("next try in 30 s")),
        (Next::OnChange, Some("next try when the Node changes")),
        (Next::OnChangeOr(43_200.0), Some("next try when the Node changes, else in 12 h")),
    ] {
        assert_eq!(of(Some("retry"), None, next), trouble("n1", "the last try failed: retry", why, told));
    }
    let none = Next::Unknown;
    assert_eq!(of(Some("elsewhere"), minute, none), trouble("n1", "no provider has known it for 60 s", why, None));
    assert_eq!(of(None, None, none), trouble("n1", "it waits for the cloud's answer", None, None));
}

#[test]
fn nodes_that_nobody_initialises_are_told_with_one_reason_and_one_command() {
    let of = |names: &[&str]| {
        let first = names.iter().map(|name| (*name).to_owned()).collect();
        unmanaged(Listed { all: names.len(), first })
    };
    for (names, name) in [(&["n1"][..], "n1"), (&["n1", "n2"], "NAME")] {
        let told = of(names);
        assert_eq!((told.found.as_str(), told.fix), (kubelet::FOUND, kubelet::fix(name)));
        assert_eq!((told.nodes.all, told.nodes.first), (names.len(), names.iter().map(ToString::to_string).collect()));
    }
}

#[test]
fn a_node_that_is_not_ready_says_what_the_cloud_says_of_its_machine() {
    let of = |answer, failure: Option<&str>, next| {
        let failure = failure.map(str::to_owned);
        unready_node(UnreadyNode { name: "n1".into(), answer, failure, next })
    };
    let none = Next::Unknown;
    assert_eq!(
        of(Some("stopped"), None, Next::In(4.2)),
        trouble("n1", "machine: stopped", None, Some("next look in 5 s"))
    );
    assert_eq!(
        of(Some("throttled"), Some("429"), none),
        trouble("n1", "the cloud gave no answer: throttled", Some("429"), None)
    );
    assert_eq!(of(None, None, none), trouble("n1", "the cloud was not asked yet", None, None));
}

#[test]
fn a_provider_says_who_serves_who_returns_what_the_last_swap_took_and_what_is_refused() {
    let version = |digest: &str| Version { name: "x".into(), version: "1".into(), digest: digest.into(), signed: None };
    let refused = |digest: Option<&str>, step, reason: &str| NotTaken {
        digest: digest.map(str::to_owned),
        step,
        reason: reason.into(),
        since: "2026-01-02T03:04:05Z".parse().unwrap(),
    };
    let known = ProviderStatus {
        serving: Some(version("sha256:aa")),
        phase: Some("probation"),
        last_good: Some(version("sha256:bb")),
        since: Some("2026-01-02T03:04:05Z".parse().unwrap()),
        generation: 7,
        refused: Some(refused(Some("sha256:cc"), "trust", "it is not signed")),
        refused_configuration: Some(refused(None, "parse", "it is no YAML")),
        unreadable_credentials: vec![UnreadableCredential {
            credential: "token".into(),
            reason: "credential \"token\": cannot read /token: No such file".into(),
            since: "2026-01-02T03:04:05Z".parse().unwrap(),
        }],
        times: Some(Times { read_ms: 1.0, compile_ms: 2.0, takeover_ms: 3.0, exchange_ms: 4.0, first_call_ms: None }),
    };
    let told = provider("/p/x.wasm", &known);
    assert_eq!((told.source.as_str(), told.serving.as_deref()), ("/p/x.wasm", Some("x 1")));
    assert_eq!(told.digest, "sha256:aa");
    assert_eq!(told.phase, "probation, generation 7, since 2026-01-02T03:04:05Z");
    assert!(told.last_good.unwrap().contains("sha256:bb"));
    assert!(told.last_load.unwrap().starts_with("read 1 ms, compiled 2 ms"));
    let [unreadable] = told.unreadable.as_slice() else { panic!("{:?}", told.unreadable) };
    assert!(
        unreadable.starts_with("unreadable since 2026-01-02T03:04:05Z: credential \"token\": cannot"),
        "{unreadable}"
    );
    let told: Vec<_> = told.refused.iter().map(|one| (one.what.as_str(), one.reason.as_str())).collect();
    assert_eq!(told, [("component sha256:cc", "it is not signed"), ("configuration", "it is no YAML")]);
}
