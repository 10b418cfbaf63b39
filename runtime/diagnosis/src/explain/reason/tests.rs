use ccm_controllers::{Decision, HeldDeletion, LifecycleExplanation, NodeExplanation, ServiceExplanation};

use super::*;
use crate::ask::objects::{NodeFacts, ServiceFacts};

mod unanswered;

fn web() -> Target {
    Target::Service { namespace: "default".into(), name: "web".into() }
}

/// Of an object that nobody says anything of.
fn facts(target: Target, object: Object) -> Facts {
    Facts {
        target,
        object,
        answer: None,
        asked: None,
        refusals: vec![],
        rejections: vec![],
        events: vec![],
        lead: Lead::Maybe,
        is_addressed: false,
        is_silent: false,
        tried: vec![],
        namespace: "cloud".to_owned(),
    }
}

fn service(answer: Option<ServiceExplanation>, facts: ServiceFacts) -> Explanation {
    let leads = answer.is_some();
    let answer = Answer { leads, leader: "leader: this process".into(), service: answer, ..Answer::default() };
    explain(Facts {
        answer: leads.then_some(answer),
        asked: leads.then(|| "the leader".to_owned()),
        tried: if leads { vec![] } else { vec!["nobody holds the Lease".to_owned()] },
        ..self::facts(web(), Object::Service(facts))
    })
}

fn wanted() -> ServiceFacts {
    ServiceFacts { uid: "1".into(), is_load_balancer: true, ..ServiceFacts::default() }
}

fn known() -> ServiceExplanation {
    ServiceExplanation {
        uid: Some("1".into()),
        provider: Some("cloud".into()),
        is_wanted: true,
        next: Next::In(3.2),
        ..ServiceExplanation::default()
    }
}

fn last(reaction: &str) -> Option<LastTry> {
    Some(LastTry {
        message: "POST /x: 503 (request ID r-1)".into(),
        reaction: reaction.into(),
        seconds_ago: 1.0,
        tries: 3,
        request: Some(request()),
    })
}

fn request() -> CloudRequest {
    CloudRequest {
        operation: "POST /x".into(),
        status: Some(503),
        request_id: Some("r-1".into()),
        ..CloudRequest::default()
    }
}

/// It looked like a call that hangs.
#[test]
fn a_try_that_waits_for_its_turn_is_not_said_to_be_under_way() {
    for (next, waits, told) in [
        (Next::Running(2_401.0), Some(2_400.0), "waiting for its turn for 40 min"),
        (Next::Running(3.0), None, "under way for 3 s"),
        (Next::In(3.2), Some(2_400.0), "in 4 s"),
    ] {
        let known = ServiceExplanation { next, waits_for_turn_seconds: waits, last_try: last("retry"), ..known() };
        assert_eq!(service(Some(known), wanted()).next.as_deref(), Some(told));
    }
}

#[test]
fn the_leader_says_what_failed_when_the_next_try_is_and_what_to_do() {
    let decision = Some(Decision { text: "ensure the load balancer with cloud".into(), seconds_ago: 61.0 });
    let told = service(Some(ServiceExplanation { last_try: last("quota"), decision, ..known() }), wanted());
    assert_eq!(told.verdict, Verdict::Wrong);
    assert_eq!(told.decision.as_deref(), Some("ensure the load balancer with cloud (decided 61 s ago)"));
    let failure = told.failure.unwrap();
    assert_eq!(failure.message, "POST /x: 503 (request ID r-1)");
    assert_eq!((failure.request, failure.tries, failure.seconds_ago), (Some(request()), 3, Some(1.0)));
    assert_eq!((told.next.as_deref(), told.next_seconds), (Some("in 4 s"), Some(3.2)));
    assert!(told.advice[0].starts_with("raise the limit of the account"), "{:?}", told.advice);
    assert!(told.tried.is_empty(), "{:?}", told.tried);
}

#[test]
fn each_state_of_a_service_has_its_verdict() {
    let has_address = || ServiceFacts { addresses: vec!["192.0.2.1".into()], ..wanted() };
    let condition = |status: &str, reason: &str| {
        Some((status.to_owned(), reason.to_owned(), "POST /x: 503 (request ID r-1): retried".to_owned()))
    };
    let theirs = || ServiceExplanation { provider: None, class: Some("other".into()), ..known() };
    let going = || ServiceFacts { is_deleting: true, needs_cleanup: true, is_known_here: true, ..wanted() };
    let cases = [
        ("served", Some(known()), has_address(), Verdict::Fine, "it has 192.0.2.1"),
        (
            "at work",
            Some(ServiceExplanation { last_try: last("pending"), ..known() }),
            wanted(),
            Verdict::Wrong,
            "the cloud is at work",
        ),
        (
            "elsewhere",
            Some(ServiceExplanation { last_try: last("elsewhere"), ..known() }),
            wanted(),
            Verdict::Fine,
            "another manager",
        ),
        (
            "going",
            Some(ServiceExplanation { last_try: last("retry"), is_wanted: false, ..known() }),
            going(),
            Verdict::Wrong,
            "could not be deleted",
        ),
        ("foreign", Some(theirs()), wanted(), Verdict::Unknown, "serves the class \"other\""),
        ("foreign, served", Some(theirs()), has_address(), Verdict::Fine, "another manager serves it, at 192.0.2.1"),
        (
            "stranded",
            Some(ServiceExplanation { not_ready: Some("Stranded".into()), ..known() }),
            wanted(),
            Verdict::Wrong,
            "(Stranded)",
        ),
        ("new", Some(known()), wanted(), Verdict::Wrong, "it has no address yet"),
        (
            "internal",
            Some(ServiceExplanation { is_wanted: false, ..known() }),
            ServiceFacts { is_load_balancer: false, ..wanted() },
            Verdict::Fine,
            "wants no load balancer",
        ),
        (
            "alone, fine",
            None,
            ServiceFacts { ready: condition("True", "Ensured"), ..has_address() },
            Verdict::Fine,
            "it has 192.0.2.1",
        ),
        (
            "alone, failed",
            None,
            ServiceFacts { ready: condition("False", "CloudFailed"), ..wanted() },
            Verdict::Wrong,
            "says CloudFailed",
        ),
        ("alone, going", None, going(), Verdict::Wrong, "is not gone yet"),
        (
            "alone, changed to ClusterIP",
            None,
            ServiceFacts { is_load_balancer: false, needs_cleanup: true, is_known_here: true, ..wanted() },
            Verdict::Wrong,
            "not of the type LoadBalancer any more, and its load balancer is not gone yet",
        ),
        (
            "changed to ClusterIP",
            Some(ServiceExplanation { is_wanted: false, ..known() }),
            ServiceFacts { is_load_balancer: false, needs_cleanup: true, is_known_here: true, ..wanted() },
            Verdict::Wrong,
            "is being deleted",
        ),
        (
            "alone, going, another manager's",
            None,
            ServiceFacts { is_known_here: false, ..going() },
            Verdict::Unknown,
            "nothing on it says that wasm-ccm has worked on it",
        ),
        ("alone, new", None, wanted(), Verdict::Unknown, "says nothing of why"),
        (
            "alone, internal",
            None,
            ServiceFacts { is_load_balancer: false, ..wanted() },
            Verdict::Fine,
            "not of the type",
        ),
    ];
    for (case, answer, facts, verdict, part) in cases {
        let told = service(answer, facts);
        assert_eq!(told.verdict, verdict, "{case}: {told:?}");
        assert!(told.summary.contains(part), "{case}: {}", told.summary);
        let needs_advice = verdict != Verdict::Fine;
        assert!(!needs_advice || !told.advice.is_empty(), "{case}: {told:?}");
    }
}

/// A Service that went by force once looked as one that waits for its address, and one that could not be read as one that goes.
#[test]
fn a_service_that_is_gone_and_one_that_cannot_be_read_are_told_apart() {
    let told = |object, last_try| {
        let service = Some(ServiceExplanation { last_try, ..known() });
        let answer = Some(Answer { leads: true, service, ..Answer::default() });
        let asked = Some("the leader".to_owned());
        explain(Facts { answer, asked, ..facts(web(), object) })
    };
    for (object, last_try, verdict, summary) in [
        (Object::Missing, None, Verdict::Wrong, "its load balancer is being deleted"),
        (Object::Missing, last("retry"), Verdict::Wrong, "its load balancer could not be deleted"),
        (Object::Unread, last("retry"), Verdict::Wrong, "its load balancer could not be made or changed"),
        (
            Object::Unread,
            None,
            Verdict::Unknown,
            "nothing has failed; whether it has an address, only the API server knows",
        ),
    ] {
        let told = told(object, last_try);
        assert_eq!((told.verdict, told.summary.as_str()), (verdict, summary));
    }
}

/// What the leader says of a Service that was replaced meanwhile is of another one.
#[test]
fn what_is_said_of_another_object_of_the_name_counts_for_nothing() {
    for uid in [Some("of the one before".to_owned()), None] {
        let told = service(Some(ServiceExplanation { uid, last_try: last("invalid"), ..known() }), wanted());
        assert_eq!((told.verdict, told.failure), (Verdict::Unknown, None));
        assert!(told.tried[0].contains("ask again"), "{:?}", told.tried);
    }
}

#[test]
fn without_a_leader_the_condition_is_told_and_that_the_next_try_is_unknown() {
    let ready = Some(("False".to_owned(), "QuotaExceeded".to_owned(), "POST /x: 422 (request ID r-1)".to_owned()));
    let told = service(None, ServiceFacts { ready, ..wanted() });
    assert_eq!(told.failure.unwrap().message, "POST /x: 422 (request ID r-1)");
    assert_eq!(told.next.as_deref(), Some("not known: only the leader knows it"));
    assert_eq!((told.asked, told.tried.len()), (None, 1));
}

fn node(answer: Option<(NodeExplanation, LifecycleExplanation)>, facts: NodeFacts) -> Explanation {
    let leads = answer.is_some();
    let (node, lifecycle) = answer.unzip();
    explain(Facts {
        answer: leads.then(|| Answer { leads, node, lifecycle, ..Answer::default() }),
        asked: leads.then(|| "the leader".to_owned()),
        ..self::facts(Target::Node { name: "n1".into() }, Object::Node(facts))
    })
}

#[test]
fn each_state_of_a_node_has_its_verdict() {
    let seen = |status: &str, provider_id: Option<&str>| NodeFacts {
        uid: "1".into(),
        asks_no_manager: provider_id.is_none(),
        ready: Some((status.to_owned(), "Kubelet stopped posting".to_owned())),
        ..NodeFacts::default()
    };
    let ours = |status| seen(status, Some("cloud://1"));
    let tainted = || NodeFacts { is_uninitialised: true, ..ours("False") };
    let done = || NodeExplanation { uid: Some("1".into()), is_initialised: true, ..NodeExplanation::default() };
    let waiting = |reaction| NodeExplanation { is_initialised: false, last_try: last(reaction), ..done() };
    let looked = |state: &str, answer: &str| LifecycleExplanation {
        state: state.into(),
        answer: Some(answer.into()).filter(|answer: &String| !answer.is_empty()),
        ..LifecycleExplanation::default()
    };
    let held = HeldDeletion { provider: "cloud".into(), limit: 2, nodes: 4, period_seconds: 600 };
    let held = LifecycleExplanation { held: Some(held), ..looked("not-ready", "absent") };
    let unclaimed = NodeExplanation { unclaimed_seconds: Some(90.0), ..waiting("elsewhere") };
    let cases = [
        ("fine", Some((done(), looked("ready", ""))), ours("True"), Verdict::Fine, "it is initialised, and Ready"),
        ("foreign", Some((done(), looked("foreign", ""))), ours("True"), Verdict::Fine, "neither deleted nor tainted"),
        (
            "waiting",
            Some((waiting("retry"), looked("not-ready", ""))),
            tainted(),
            Verdict::Wrong,
            "it is not initialised",
        ),
        (
            "no machine",
            Some((waiting("absent"), looked("not-ready", ""))),
            tainted(),
            Verdict::Wrong,
            "the cloud has no such machine",
        ),
        ("theirs", Some((waiting("elsewhere"), looked("foreign", ""))), tainted(), Verdict::Unknown, "another manager"),
        ("unclaimed", Some((unclaimed, looked("not-ready", ""))), tainted(), Verdict::Wrong, "for 90 s every provider"),
        ("held", Some((done(), held)), ours("Unknown"), Verdict::Wrong, "its deletion is held"),
        ("gone", Some((done(), looked("not-ready", "absent"))), ours("Unknown"), Verdict::Wrong, "a second proof"),
        ("off", Some((done(), looked("not-ready", "stopped"))), ours("Unknown"), Verdict::Wrong, "switched off"),
        (
            "broken",
            Some((done(), looked("not-ready", "running"))),
            ours("Unknown"),
            Verdict::Wrong,
            "Kubelet stopped posting",
        ),
        (
            "unseen",
            Some((done(), looked("ready", ""))),
            seen("True", None),
            Verdict::Wrong,
            "its kubelet seems to run without --cloud-provider=external",
        ),
        ("alone, fine", None, ours("True"), Verdict::Fine, "Ready"),
        ("alone, waiting", None, tainted(), Verdict::Wrong, "uninitialized taint"),
        ("alone, unseen", None, seen("True", None), Verdict::Unknown, "a provider ID nor the uninitialized taint"),
        ("alone, broken", None, ours("False"), Verdict::Wrong, "only the leader knows"),
        (
            "alone, unseen and broken",
            None,
            seen("False", None),
            Verdict::Wrong,
            "it has neither a provider ID nor the uninitialized taint; it is not Ready: Kubelet stopped posting",
        ),
    ];
    for (case, answer, facts, verdict, part) in cases {
        let told = node(answer, facts);
        assert_eq!(told.verdict, verdict, "{case}: {told:?}");
        assert!(told.summary.contains(part), "{case}: {}", told.summary);
        assert!(verdict == Verdict::Fine || !told.advice.is_empty(), "{case}: {told:?}");
        if case == "held" {
            let told_held = told.held.unwrap();
            assert!(told_held.contains("no more than 2 of the 4 nodes of provider cloud"), "{told_held}");
            assert!(told.advice[0].ends_with("--confirm-node-deletions=n1"), "{:?}", told.advice);
        }
        if matches!(case, "held" | "gone") {
            // The host deletes the Node in seconds: nobody looks up in time how it is stopped, or what is to be corrected.
            let stop = "stop the host at once (`kubectl -n cloud scale deployment wasm-ccm --replicas=0`)";
            assert!(told.advice[0].contains(stop), "{case}: {:?}", told.advice);
            assert!(told.advice[0].contains("credentials, project or region"), "{case}: {:?}", told.advice);
        }
    }
}

#[test]
fn a_refused_component_is_told_with_each_object() {
    let refusal = Refusal {
        source: "configmap:kube-system/cloud".into(),
        serving: Some("cloud 1.0 (sha256:aa)".into()),
        step: "trust".into(),
        reason: "it is not signed".into(),
        ..Refusal::default()
    };
    let answer = Answer { leads: true, service: Some(known()), refusals: vec![refusal], ..Answer::default() };
    let asked = Some("the leader".to_owned());
    let told = explain(Facts { answer: Some(answer), asked, ..facts(web(), Object::Service(wanted())) });
    let line = "component of configmap:kube-system/cloud at trust, cloud 1.0 (sha256:aa) serves: it is not signed";
    assert_eq!(told.refused, [line]);
}

/// Nobody leads then, and nobody said why.
#[test]
fn what_hosts_refuse_is_told_while_nobody_leads() {
    let told = |refusals, rejections| {
        explain(Facts { refusals, rejections, lead: Lead::Nobody, ..facts(web(), Object::Service(wanted())) })
    };
    let refusal = Refusal {
        source: "configmap:kube-system/cloud".into(),
        step: "trust".into(),
        reason: "it is not signed".into(),
        ..Refusal::default()
    };
    let event = EventTold {
        is_warning: true,
        reason: "ProviderRejected".into(),
        note: "it is not signed".into(),
        ..EventTold::default()
    };
    for (told, line) in [
        (
            told(vec![refusal], vec![]),
            "component of configmap:kube-system/cloud at trust, none serves: it is not signed",
        ),
        (told(vec![], vec![event]), "Warning ProviderRejected: it is not signed"),
    ] {
        assert_eq!(told.refused, [line]);
        let first = "correct the component or configuration under `refused`: a host without a component cannot lead";
        assert!(told.advice[0].starts_with(first), "{:?}", told.advice);
    }
}

#[test]
fn an_api_server_that_does_not_answer_comes_with_the_way_out() {
    let told = explain(Facts { is_silent: true, ..facts(web(), Object::Unread) });
    assert_eq!(told.verdict, Verdict::Unknown);
    let unknown = explain(facts(web(), Object::Unread));
    assert!(unknown.advice.concat().contains("(kubectl -n cloud get pods,leases)"), "{:?}", unknown.advice);
    assert!(told.advice.len() == 1 && told.advice[0].contains("--kubeconfig or --master"), "{:?}", told.advice);
}

/// The lifecycle controller once spoke of the machine of the Node before as if it were this one's.
#[test]
fn what_is_said_of_the_node_before_counts_for_nothing() {
    let facts = || NodeFacts {
        uid: "2".into(),
        ready: Some(("False".to_owned(), "Kubelet stopped posting".to_owned())),
        ..NodeFacts::default()
    };
    let known =
        |uid: &str| NodeExplanation { uid: Some(uid.into()), is_initialised: true, ..NodeExplanation::default() };
    let gone = |uid: Option<&str>| LifecycleExplanation {
        uid: uid.map(ToOwned::to_owned),
        state: "not-ready".into(),
        answer: Some("absent".into()),
        ..LifecycleExplanation::default()
    };
    for (node_uid, uid, counts) in [
        ("2", Some("2"), true),
        ("2", Some("1"), false),
        ("1", Some("1"), false),
        // A host of before says no UID: it is as old as what the node controller says.
        ("2", None, true),
        ("1", None, false),
    ] {
        let told = node(Some((known(node_uid), gone(uid))), facts());
        assert_eq!(told.summary.contains("its machine is gone"), counts, "{node_uid} {uid:?}: {}", told.summary);
    }
}

/// A Service that took a name over was told the failure of the one before, while no leader could be asked.
#[test]
fn an_event_about_the_object_before_counts_for_nothing() {
    let event = |uid: Option<&str>, reason: &str| EventTold {
        is_warning: true,
        uid: uid.map(ToOwned::to_owned),
        reason: reason.into(),
        note: format!("{reason} happened"),
        ..EventTold::default()
    };
    let events = || vec![event(Some("0"), "Old"), event(Some("1"), "New"), event(None, "Nobodys")];
    let going = ServiceFacts { is_deleting: true, needs_cleanup: true, is_known_here: true, ..wanted() };
    let told = explain(Facts { events: events(), ..facts(web(), Object::Service(going)) });
    assert_eq!(told.events, ["Warning New: New happened", "Warning Nobodys: Nobodys happened"]);
    assert_eq!(told.failure.unwrap().message, "New happened");
    let unread = explain(Facts { events: events(), ..facts(web(), Object::Unread) });
    assert_eq!(unread.events.len(), 3, "nobody knows which one it is");
    // Kubelets say the name of the Node where its UID should be.
    let object = Object::Node(NodeFacts { uid: "1".into(), ..NodeFacts::default() });
    let told = explain(Facts {
        events: vec![event(Some("n1"), "Kubelet"), event(Some("n2"), "Old")],
        ..facts(Target::Node { name: "n1".into() }, object)
    });
    assert_eq!(told.events, ["Warning Kubelet: Kubelet happened"]);
}

#[test]
fn no_more_refusals_and_writes_are_told_than_people_read() {
    let refusal = Refusal { source: "s".into(), reason: "r".into(), ..Refusal::default() };
    let told = explain(Facts { refusals: vec![refusal; 5_000], ..facts(web(), Object::Unread) });
    assert_eq!(told.refused.len(), MOST);
    let answer = Answer { dry_run: Some(vec![String::new(); 5_000]), ..Answer::default() };
    let told = explain(Facts { answer: Some(answer), ..facts(web(), Object::Unread) });
    assert_eq!(told.dry_run.len(), MOST_WRITES);
}
