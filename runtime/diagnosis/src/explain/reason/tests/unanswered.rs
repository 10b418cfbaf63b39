//! Nobody leads, another manager does, or a dry run is asked.

use ccm_cloud::Reaction;

use super::*;

fn failed(reason: &str) -> Object {
    let ready = Some(("False".to_owned(), reason.to_owned(), "POST /x: 503 (request ID r-1)".to_owned()));
    Object::Service(ServiceFacts { ready, ..wanted() })
}

const REASONS: [(&str, Reaction); 8] = [
    ("CloudFailed", Reaction::Retry),
    ("CloudThrottled", Reaction::Throttled),
    ("CloudPending", Reaction::Pending),
    ("CredentialsRefused", Reaction::Unauthorized),
    ("InvalidService", Reaction::Invalid),
    ("CloudConflict", Reaction::Conflict),
    ("QuotaExceeded", Reaction::Quota),
    ("Unsupported", Reaction::Unsupported),
];

/// The host that was told to retry did not run.
#[test]
fn where_nobody_leads_the_first_to_do_is_to_let_a_host_lead_and_nobody_is_told_to_retry() {
    for (reason, reaction) in REASONS {
        assert_eq!(ccm_controllers::reaction_of(reason), Some(reaction), "{reason}");
        for (lead, first) in [
            (Lead::Nobody, "start the host: none leads"),
            (Lead::Stranger, "stop one of the two managers (`wasm-ccm doctor`)"),
        ] {
            let told = explain(Facts { lead, ..facts(web(), failed(reason)) });
            assert!(told.advice[0].starts_with(first), "{reason}: {:?}", told.advice);
            let text = told.text();
            for claim in ["the host retries", "the host tries again", "the host looks again", "No request to the cloud"]
            {
                assert!(!text.contains(claim), "{reason}: {text}");
            }
            assert_eq!(told.failure.unwrap().reaction, None);
            assert_eq!(told.next.as_deref(), Some("none, as long as no host leads"));
        }
    }
    let known = explain(facts(web(), failed("CloudFailed")));
    let advice = known.advice.concat();
    assert!(advice.contains("the host retries") && advice.contains("Only the leader knows the request"), "{advice}");
}

/// A host that ran with `--leader-elect=false` was to be started.
#[test]
fn where_nobody_holds_the_lease_and_no_host_was_reached_it_is_not_said_that_nobody_leads() {
    for (is_addressed, ends) in [
        (false, "(--leader-elect=false) or under another Lease, ask it with --address"),
        (true, "(--leader-elect=false) or under another Lease, see that --address leads to it"),
    ] {
        for (reason, _) in REASONS {
            let told = explain(Facts { lead: Lead::Unseen, is_addressed, ..facts(web(), failed(reason)) });
            let first = "find out whether a host runs (`kubectl -n cloud get pods`): nobody holds its Lease, and no host that leads answered";
            assert!(told.advice[0].starts_with(first) && told.advice[0].ends_with(ends), "{:?}", told.advice);
            assert_eq!(told.next.as_deref(), Some("not known: only the leader knows it"));
            let text = told.text();
            for claim in ["none leads", "as long as no host leads", "the host retries", "the host tries again"] {
                assert!(!text.contains(claim), "{reason}: {text}");
            }
        }
    }
    let fine = ServiceFacts { addresses: vec!["192.0.2.1".into()], ..wanted() };
    let told = explain(Facts { lead: Lead::Unseen, ..facts(web(), Object::Service(fine)) });
    assert_eq!(told.advice, [""; 0]);
    let refusals = vec![Refusal { source: "s".into(), ..Refusal::default() }];
    let told = explain(Facts { lead: Lead::Unseen, refusals, ..facts(web(), failed("CloudFailed")) });
    assert!(told.advice[0].starts_with("correct the component or configuration"), "{:?}", told.advice);
    assert!(!told.advice.concat().contains("find out whether"), "{:?}", told.advice);
}

/// The usual port is on 127.0.0.1: the leader worked, could not be asked, and was said to be none, for an Event about a component.
#[test]
fn what_hosts_refuse_is_the_reason_only_where_nobody_is_seen_to_lead() {
    const IS_IT: &str = "correct the component or configuration under `refused`";
    const PERHAPS: &str = "this may not be the reason: look at /providerz of the leader";
    let told = |lead, object| {
        let rejections = vec![EventTold { reason: "ProviderRejected".into(), ..EventTold::default() }];
        explain(Facts { lead, rejections, ..facts(web(), object) })
    };
    for (lead, is_it, perhaps) in [
        (Lead::Nobody, true, false),
        (Lead::Unseen, true, false),
        (Lead::Maybe, false, true),
        (Lead::Stranger, false, false),
    ] {
        let told = told(lead, failed("QuotaExceeded"));
        assert_eq!(told.refused.len(), 1);
        assert_eq!(told.advice[0].starts_with(IS_IT), is_it, "{lead:?}: {:?}", told.advice);
        assert_eq!(told.advice.iter().any(|advice| advice.contains(PERHAPS)), perhaps, "{lead:?}: {:?}", told.advice);
        assert!(is_it || !told.text().contains("cannot lead"), "{lead:?}: {}", told.text());
    }
    // It says what to do about the object first.
    assert!(told(Lead::Maybe, failed("QuotaExceeded")).advice[0].starts_with("raise the limit of the account"));
    let unknown = told(Lead::Maybe, Object::Service(wanted())).advice;
    assert!(unknown.len() == 2 && unknown[0].starts_with("see whether a host of wasm-ccm runs"), "{unknown:?}");
    for lead in [Lead::Nobody, Lead::Unseen, Lead::Maybe] {
        let fine = ServiceFacts { addresses: vec!["192.0.2.1".into()], ..wanted() };
        assert_eq!(told(lead, Object::Service(fine)).advice, [""; 0], "{lead:?}: nothing is wrong");
    }
}

#[test]
fn a_host_is_to_be_started_only_where_something_is_wrong_and_none_refuses_its_component() {
    let fine = ServiceFacts { addresses: vec!["192.0.2.1".into()], ..wanted() };
    let told = explain(Facts { lead: Lead::Nobody, ..facts(web(), Object::Service(fine)) });
    assert_eq!(told.advice, [""; 0]);
    let refusals = vec![Refusal { source: "s".into(), ..Refusal::default() }];
    let told = explain(Facts { lead: Lead::Nobody, refusals, ..facts(web(), failed("CloudFailed")) });
    assert!(told.advice[0].starts_with("correct the component or configuration"), "{:?}", told.advice);
    assert!(!told.advice.concat().contains("start the host"), "{:?}", told.advice);
    let refusals = vec![Refusal { source: "s".into(), ..Refusal::default() }];
    let told = explain(Facts { lead: Lead::Stranger, refusals, ..facts(web(), failed("CloudFailed")) });
    assert!(told.advice[0].starts_with("stop one") && !told.text().contains("cannot lead"), "{:?}", told.advice);
    let tainted = NodeFacts { uid: "1".into(), is_uninitialised: true, ..NodeFacts::default() };
    let node = facts(Target::Node { name: "n1".into() }, Object::Node(tainted));
    let told = explain(Facts { lead: Lead::Nobody, ..node });
    let first = "start the host: none leads (`kubectl -n cloud get pods,leases` shows what there is)";
    assert_eq!(told.advice, [first, "see that the provider of the host knows the machine"]);
}

/// What a dry run said of its controllers was false, and the kubelet of a machine that was gone was blamed.
#[test]
fn a_dry_run_makes_no_tries_and_says_what_it_would_delete() {
    let of = |target: Target, object, would_delete| {
        let dry_run = Some(vec!["nothing was looked at yet".to_owned()]);
        let answer = Some(Answer { leads: true, dry_run, would_delete, ..Answer::default() });
        let asked = Some("the host at https://127.0.0.1:1/".to_owned());
        explain(Facts { answer, asked, is_addressed: true, ..facts(target, object) })
    };
    let n1 = || Target::Node { name: "n1".into() };
    let lost = || {
        Object::Node(NodeFacts {
            uid: "1".into(),
            ready: Some(("Unknown".to_owned(), "Kubelet stopped posting".to_owned())),
            ..NodeFacts::default()
        })
    };
    for is_deleted in [true, false] {
        let told = of(n1(), lost(), is_deleted);
        assert_eq!((told.verdict, told.tried.as_slice()), (Verdict::Wrong, &[NO_TRIES.to_owned()][..]));
        assert_eq!(told.summary.contains("would delete the Node"), is_deleted, "{}", told.summary);
        assert_eq!(told.advice.concat().contains("kubelet"), !is_deleted, "{:?}", told.advice);
        assert_eq!(told.advice.concat().contains("credentials, project or region"), is_deleted, "{:?}", told.advice);
    }
    for (target, object) in [
        (n1(), lost()),
        (n1(), Object::Unread),
        (web(), Object::Service(wanted())),
        (web(), failed("CloudFailed")),
        (web(), failed("QuotaExceeded")),
    ] {
        let text = of(target, object, false).text();
        assert!(text.contains("a dry run makes no tries: see the lines dry run"), "{text}");
        for claim in ["--controllers", "ask it with --address", "the host retries", "the host tries again"] {
            assert!(!text.contains(claim), "{claim}: {text}");
        }
    }
}

#[test]
fn who_gave_an_address_is_not_told_to_give_one() {
    let told = explain(Facts { is_addressed: true, ..facts(web(), Object::Unread) });
    assert_eq!(told.advice, ["see whether a host of wasm-ccm runs and leads (kubectl -n cloud get pods,leases)"]);
    let told = explain(facts(web(), Object::Unread));
    assert!(told.advice[0].ends_with(", and ask it with --address"), "{:?}", told.advice);
}

#[test]
fn who_may_not_read_an_object_is_told_which_kubeconfig_may() {
    let told = explain(facts(web(), Object::Forbidden));
    assert_eq!(told.advice, ["give a kubeconfig that may get Services in default"]);
    let told = explain(facts(Target::Node { name: "n1".into() }, Object::Forbidden));
    assert_eq!(told.advice, ["give a kubeconfig that may get Nodes"]);
}

/// `doctor` knew what is wrong with it, and `explain` said that nobody had seen it.
#[test]
fn a_node_whose_kubelet_asks_for_no_manager_is_judged_as_doctor_does() {
    let ready = Some(("True".to_owned(), String::new()));
    let unseen = NodeFacts { uid: "1".into(), asks_no_manager: true, ready, ..NodeFacts::default() };
    let known = NodeExplanation { uid: Some("1".into()), is_initialised: true, ..NodeExplanation::default() };
    let told = node(Some((known, LifecycleExplanation::default())), unseen);
    assert_eq!((told.verdict, told.summary), (Verdict::Wrong, format!("it {}", crate::kubelet::FOUND)));
    assert_eq!(told.advice, [crate::kubelet::fix("n1")]);
    assert!(told.advice[0].contains("kubectl taint node n1 node.cloudprovider.kubernetes.io/uninitialized"));
}

/// Without a kubeconfig, it was as it should be.
#[test]
fn what_the_leader_knows_of_a_node_is_told_alike_with_and_without_a_kubeconfig() {
    let initialised = || NodeExplanation { uid: Some("1".into()), is_initialised: true, ..NodeExplanation::default() };
    let unmanaged = |is_ready| NodeExplanation { asks_no_manager: true, is_ready, ..initialised() };
    let managed = || NodeExplanation { provider_id: Some("cloud://1".into()), is_ready: true, ..initialised() };
    let state = |state: &str| Some(LifecycleExplanation { state: state.into(), ..LifecycleExplanation::default() });
    for (known, lifecycle) in [
        (unmanaged(true), state("ready")),
        (unmanaged(true), state("foreign")),
        (unmanaged(true), None),
        (managed(), state("ready")),
        (managed(), None),
        (NodeExplanation { asks_no_manager: false, ..unmanaged(true) }, state("deleting")),
    ] {
        let is_deleting = lifecycle.as_ref().is_some_and(|lifecycle| lifecycle.state == "deleting");
        let ready = (if is_deleting { "False" } else { "True" }.to_owned(), String::new());
        let seen = NodeFacts {
            uid: "1".into(),
            asks_no_manager: known.asks_no_manager,
            is_deleting,
            ready: Some(ready),
            ..NodeFacts::default()
        };
        let of = |object| {
            let (node, lifecycle) = (Some(known.clone()), lifecycle.clone());
            let answer = Some(Answer { leads: true, node, lifecycle, ..Answer::default() });
            let asked = Some("the host at https://127.0.0.1:1/".to_owned());
            explain(Facts { answer, asked, is_addressed: true, ..facts(Target::Node { name: "n1".into() }, object) })
        };
        let (with, without) = (of(Object::Node(seen)), of(Object::Unread));
        assert_eq!(with, without, "{known:?} {lifecycle:?}");
        assert_eq!(with.summary.contains(crate::kubelet::FOUND), known.asks_no_manager, "{}", with.summary);
    }
    // A host that does not say it.
    for (known, lifecycle, verdict) in
        [(initialised(), state("ready"), Verdict::Fine), (initialised(), None, Verdict::Unknown)]
    {
        let answer = Some(Answer { leads: true, node: Some(known), lifecycle, ..Answer::default() });
        let asked = Some("the leader".to_owned());
        let told = explain(Facts { answer, asked, ..facts(Target::Node { name: "n1".into() }, Object::Unread) });
        assert_eq!(told.verdict, verdict, "{told:?}");
        assert!(!told.summary.contains(crate::kubelet::FOUND), "{}", told.summary);
    }
}

/// A leader that answers, and an object that the API server does not give.
fn asked(target: Target, is_silent: bool, answer: Answer) -> Explanation {
    let answer = Some(Answer { leads: true, leader: "leader: this process".into(), ..answer });
    let asked = Some("the host at https://127.0.0.1:1/".to_owned());
    explain(Facts { answer, asked, is_addressed: true, is_silent, ..facts(target, Object::Unread) })
}

/// Right below "leader: this process", it was to be seen whether a host runs and leads.
#[test]
fn who_has_asked_the_leader_is_told_what_else_to_ask_and_not_to_look_for_a_leader() {
    let service = |known| Answer { service: Some(known), ..Answer::default() };
    let node = |known| Answer { node: Some(known), ..Answer::default() };
    let n1 = || Target::Node { name: "n1".into() };
    let initialised = || NodeExplanation { uid: Some("1".into()), is_initialised: true, ..NodeExplanation::default() };
    let kubeconfig = |kind| format!("give a --kubeconfig that works: only the API server knows what the {kind} says");
    let name = |target: &Target| format!("check the name: the leader knows no {target}");
    let way_out = format!("{}; `wasm-ccm doctor` says more", Access::way_out());
    for (target, answer, advice) in [
        (web(), service(known()), vec![kubeconfig("Service")]),
        (web(), service(ServiceExplanation { next: Next::Running(2.0), ..known() }), vec![kubeconfig("Service")]),
        (web(), Answer::default(), vec![kubeconfig("Service")]),
        (web(), service(ServiceExplanation::default()), vec![name(&web())]),
        (n1(), node(initialised()), vec![kubeconfig("Node")]),
        (n1(), node(NodeExplanation::default()), vec![name(&n1())]),
    ] {
        let told = asked(target.clone(), false, answer.clone());
        assert_eq!((told.verdict, &told.advice), (Verdict::Unknown, &advice), "{}", told.summary);
        // Who has given a kubeconfig knows what is wrong with it.
        let told = asked(target, true, answer);
        let rest = advice.into_iter().filter(|advice| !advice.contains("--kubeconfig"));
        assert_eq!(told.advice, rest.chain([way_out.clone()]).collect::<Vec<_>>(), "{}", told.summary);
    }
}

#[test]
fn what_the_leader_does_not_know_yet_is_to_be_asked_again() {
    let told = service(Some(ServiceExplanation { uid: None, ..known() }), wanted());
    assert_eq!(told.advice, ["ask again in some seconds; if it stays, check --address and --kubeconfig"]);
    let answer = Some(Answer { leads: true, ..Answer::default() });
    let asked = Some("the leader".to_owned());
    let told = explain(Facts { answer, asked, ..facts(web(), Object::Service(wanted())) });
    assert_eq!(told.advice, ["see which manager serves it: the leader that answered does not"]);
}

/// What the leader knew was to be seen only after the kubeconfig was right.
#[test]
fn an_api_server_that_does_not_answer_takes_no_advice_of_the_leader_away() {
    let failed = ServiceExplanation { last_try: last("quota"), ..known() };
    let told = asked(web(), true, Answer { service: Some(failed), ..Answer::default() });
    let [first, second] = &told.advice[..] else { panic!("{:?}", told.advice) };
    assert!(first.starts_with("raise the limit of the account"), "{first}");
    assert!(second.starts_with("check the address in --kubeconfig"), "{second}");
    let theirs = ServiceExplanation { last_try: last("elsewhere"), ..known() };
    let told = asked(web(), true, Answer { service: Some(theirs), ..Answer::default() });
    assert_eq!(told.advice, ["nothing here: another manager takes care of it"]);
}

/// What the leader knows of a Node, with what the API server says of it, or without.
fn node_asked(known: NodeExplanation, lifecycle: Option<LifecycleExplanation>, object: Object) -> Explanation {
    let answer = Some(Answer { leads: true, node: Some(known), lifecycle, ..Answer::default() });
    let asked = Some("the leader".to_owned());
    explain(Facts { answer, asked, ..facts(Target::Node { name: "n1".into() }, object) })
}

/// It was initialised for `explain`, and nobody initialised it for `doctor` and the status page.
#[test]
fn a_node_that_asks_for_no_manager_and_is_not_ready_is_no_initialised_one() {
    let known = NodeExplanation {
        uid: Some("1".into()),
        is_initialised: true,
        asks_no_manager: true,
        ..NodeExplanation::default()
    };
    let state = |state: &str, answer: Option<&str>| LifecycleExplanation {
        state: state.into(),
        answer: answer.map(ToOwned::to_owned),
        ..LifecycleExplanation::default()
    };
    for (lifecycle, second) in [
        (None, "it is not Ready"),
        (Some(state("not-ready", Some("running"))), "it is not Ready"),
        (Some(state("foreign", None)), "it is not Ready"),
        (Some(state("not-ready", Some("stopped"))), "it is not Ready, and its machine is switched off"),
        (Some(state("not-ready", Some("absent"))), "its machine is gone, as the cloud says"),
    ] {
        let seen = NodeFacts {
            uid: "1".into(),
            asks_no_manager: true,
            ready: Some(("False".to_owned(), String::new())),
            ..NodeFacts::default()
        };
        let with = node_asked(known.clone(), lifecycle.clone(), Object::Node(seen));
        let without = node_asked(known.clone(), lifecycle, Object::Unread);
        assert_eq!(with, without);
        let says = format!("it {}; {second}", crate::kubelet::FOUND);
        assert!(with.verdict == Verdict::Wrong && with.summary.starts_with(&says), "{}", with.summary);
        assert_eq!(with.advice.last(), Some(&crate::kubelet::fix("n1")));
        assert_eq!(with.advice.len(), 2, "{:?}", with.advice);
    }
}

/// Whoever had no kubeconfig was told that the kubelet says nothing.
#[test]
fn of_a_kubelet_that_nobody_heard_nothing_is_said() {
    let known = NodeExplanation { uid: Some("1".into()), is_initialised: true, ..NodeExplanation::default() };
    let broken = || Some(LifecycleExplanation { state: "not-ready".into(), ..LifecycleExplanation::default() });
    let seen = |ready: Option<(&str, &str)>| {
        let ready = ready.map(|(status, message)| (status.to_owned(), message.to_owned()));
        Object::Node(NodeFacts { uid: "1".into(), ready, ..NodeFacts::default() })
    };
    for (object, summary) in [
        (Object::Unread, "it is initialised, and not Ready"),
        (seen(None), "it is initialised, and not Ready: its kubelet says nothing"),
        (seen(Some(("False", ""))), "it is initialised, and not Ready"),
        (seen(Some(("False", "no disk"))), "it is initialised, and not Ready: no disk"),
    ] {
        assert_eq!(node_asked(known.clone(), broken(), object).summary, summary);
    }
}

/// "The cloud says of its machine: retry."
#[test]
fn of_a_look_that_failed_it_is_said_that_the_cloud_gave_no_answer() {
    let known = NodeExplanation { uid: Some("1".into()), is_initialised: true, ..NodeExplanation::default() };
    for (answer, failure, decision) in [
        ("retry", Some("POST /x: 503".to_owned()), "the cloud gave no answer: retry, 3 s ago"),
        ("running", None, "the cloud says of its machine: running, 3 s ago"),
    ] {
        let lifecycle = LifecycleExplanation {
            state: "not-ready".into(),
            answer: Some(answer.into()),
            answered_seconds_ago: Some(3.0),
            failure,
            ..LifecycleExplanation::default()
        };
        let told = node_asked(known.clone(), Some(lifecycle), Object::Unread);
        assert_eq!(told.decision.as_deref(), Some(decision));
    }
}
