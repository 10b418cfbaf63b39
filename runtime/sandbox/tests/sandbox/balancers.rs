//! Load balancers: what reaches a guest, what comes back, and what it may change.

use std::sync::Arc;

use ccm_cloud::{
    Address, AddressKind, Backend, Capability, Failure, Ingress, IpFamily, IpMode, LoadBalancers as _, Need, Outcome,
    PortStatus, Problem, Protocol, Reaction, Service, ServicePort, ServiceType, Severity, Standing, Subject,
    TrafficPolicy, Wish,
};
use ccm_egress::Settings;
use ccm_sandbox::Limits;
use serde_json::{Value, json};

use crate::cloud::{Cloud, Reply, ok, reply};
use crate::rig::{Grants, REPORT, Rig, Scripted, at, backends, component, map, service};
use crate::setup::SESSION;

const SCRIPT: &str = "scripted.example/script";

/// A Service whose script is this.
fn planned(plans: &Value) -> Service {
    Service { annotations: map(&[(SCRIPT, &plans.to_string())]), ..service("web") }
}

fn wish(service: Service, backends: &[u32]) -> Wish {
    Wish { service, backends: backends.to_vec() }
}

#[tokio::test]
async fn every_function_goes_there_and_back() {
    let Scripted(provider) = Scripted::new(Grants::default()).await;
    let none = backends(&[]);
    assert_eq!(provider.name(service("web")).await, Ok("default-web".to_owned()));
    assert_eq!(provider.locks(service("web")).await, Ok(vec![]));
    assert_eq!(provider.get(service("web")).await, Ok(None));
    assert_eq!(provider.validate(service("web"), None, false).await, Ok(vec![]));

    let given = Outcome { ingress: vec![at("192.0.2.1")], ..Outcome::default() };
    assert_eq!(provider.ensure(service("web"), Arc::clone(&none)).await, given);
    let changes = vec!["backends: a, b".to_owned()];
    let updated = provider.update_backends(service("web"), backends(&["a", "b"])).await;
    assert_eq!(updated, Outcome { changes, ..given.clone() });
    assert_eq!(provider.delete(service("web")).await, Outcome::default());
    assert_eq!(provider.orphan(service("web")).await, Ok(vec![]));

    let has = Service { ingress: vec![at("203.0.113.9")], ..service("web") };
    assert_eq!(provider.get(has.clone()).await, Ok(Some(has.ingress.clone())));
    let standings = provider.survey(none, vec![wish(has.clone(), &[]), wish(service("new"), &[])]).await;
    assert_eq!(standings, Ok(vec![Standing::InStep(has.ingress.clone()), Standing::Missing]));
    let problems = provider.validate(has.clone(), Some(service("before")), true).await.unwrap();
    let harmless = |field: &str, message: &str| Problem { field: field.into(), message: message.into(), fatal: false };
    assert_eq!(problems, [harmless("before", "default/before"), harmless("online", "true")]);
}

#[tokio::test]
async fn all_of_a_service_reaches_the_guest_and_its_ingress_comes_back_whole() {
    let rig = Rig::hostile(Limits::default()).await;
    let ingress = vec![
        Ingress {
            ip: Some("2001:db8::1".into()),
            hostname: Some("web.example.com".into()),
            ip_mode: Some(IpMode::Proxy),
            ports: vec![PortStatus { port: 53, protocol: Protocol::Udp, error: Some("Busy".into()) }],
        },
        Ingress { ip_mode: Some(IpMode::Vip), ..at("203.0.113.9") },
    ];
    let full = Service {
        kind: ServiceType::LoadBalancer,
        deleting: true,
        ports: vec![ServicePort {
            name: "dns".into(),
            protocol: Protocol::Sctp,
            app_protocol: Some("x/y".into()),
            port: 53,
            node_port: Some(30_053),
        }],
        ip_families: vec![IpFamily::V6, IpFamily::V4],
        external_traffic_policy: TrafficPolicy::Local,
        health_check_node_port: Some(30_100),
        client_ip_affinity_seconds: Some(10_800),
        requested_ip: Some("203.0.113.9".into()),
        source_ranges: vec!["10.0.0.0/8".into()],
        load_balancer_class: Some("x/z".into()),
        ingress: ingress.clone(),
        ..service("echo")
    };
    let outcome = rig.provider.ensure(full, backends(&[])).await;
    assert_eq!((outcome.ingress, outcome.failure), (ingress, None));
    let [seen] = outcome.changes.as_slice() else { panic!("{:?}", outcome.changes) };
    let parts = [
        r#"name: "echo", namespace: "default", uid: "uid of echo", kind: ServiceType::LoadBalancer, deleting: true"#,
        r#"name: "dns", protocol: Protocol::Sctp, app-protocol: Some("x/y"), port: 53, node-port: Some(30053)"#,
        "ip-families: [IpFamily::Ipv6, IpFamily::Ipv4], external-traffic-policy: TrafficPolicy::Local",
        "health-check-node-port: Some(30100), client-ip-affinity-seconds: Some(10800)",
        r#"requested-ip: Some("203.0.113.9"), source-ranges: ["10.0.0.0/8"], load-balancer-class: Some("x/z")"#,
    ];
    for part in parts {
        assert!(seen.contains(part), "{part} is not in {seen}");
    }
    let address = Address::new(AddressKind::ExternalDns, "a.example.com");
    let backend = Backend { name: "a".into(), provider_id: Some("hostile://a".into()), addresses: vec![address] };
    let outcome = rig.provider.update_backends(service("echo"), [backend].into()).await;
    assert_eq!(
        outcome.changes,
        [
            r#"[Backend { name: "a", provider-id: Some("hostile://a"), addresses: [Address { kind: AddressType::ExternalDns, value: "a.example.com" }], more: [] }]"#
        ]
    );
}

#[tokio::test]
async fn only_declared_annotations_of_a_service_reach_the_guest_and_all_labels() {
    let rig = Rig::hostile(Limits::default()).await;
    let annotations = map(&[
        ("hostile.example/mood", "grim"),
        ("hostile.example/written-id", "7"),
        ("hostile.exampl", "no"),
        ("vault.example/token", "secret"),
        ("alpha.kubernetes.io/provided-node-ip", "no"),
        ("kubectl.kubernetes.io/last-applied-configuration", "no"),
    ]);
    let service = Service { annotations, labels: map(&[("app", "web")]), ..service("sees") };
    let seen = ["annotation hostile.example/mood=grim", "annotation hostile.example/written-id=7", "label app=web"];
    let outcome = rig.provider.ensure(service.clone(), backends(&[])).await;
    assert_eq!(outcome.changes, seen);
    assert_eq!(rig.provider.delete(service).await.changes, seen);
}

/// Every function that may only look gets its write refused, by the host and before anything is sent.
#[tokio::test]
async fn a_write_is_refused_in_every_function_that_only_looks() {
    let cloud = Cloud::start(|_| ok("{}"));
    let guest = Scripted::new(Grants::of(&[("api", cloud.url())])).await;
    let provider = &guest.0;
    for (method, effect) in [("post", "once"), ("put", "repeatable")] {
        let steps = json!({ "steps": [{ "send": { "method": method, "effect": effect, "path": "/balancers" } }] });
        let mut failing = steps.clone();
        failing["steps"].as_array_mut().unwrap().push(json!({ "fail": "saw" }));
        let functions = json!({ "name": steps, "locks": steps, "get": failing, "get-mark": steps, "validate": steps, "survey": steps });
        let service = planned(&functions);
        let locks = provider.locks(service.clone()).await.unwrap();
        let problems = provider.validate(service.clone(), None, true).await.unwrap();
        let standings = provider.survey(backends(&[]), vec![wish(service.clone(), &[])]).await.unwrap();
        let [Standing::Differs(differences)] = standings.as_slice() else { panic!("{standings:?}") };
        let told = [
            ("name", provider.name(service.clone()).await.unwrap()),
            ("locks", locks[0].clone()),
            ("get", provider.get(service.clone()).await.unwrap_err().message),
            ("get-mark", provider.get_mark(service.clone()).await.unwrap().unwrap().load_balancer),
            ("validate", problems[0].message.clone()),
            ("survey", differences[0].clone()),
        ];
        for (function, answer) in told {
            assert!(answer.contains(r#""error":"read-only""#), "{function} {method}: {answer}");
        }
    }
    assert_eq!(cloud.take(), []);
    let read = json!({ "get": { "steps": [{ "send": { "path": "/balancers/7" } }], "ingress": ["192.0.2.7"] } });
    assert_eq!(provider.get(planned(&read)).await, Ok(Some(vec![at("192.0.2.7")])));
    assert_eq!(cloud.take().len(), 1, "a read is sent");
}

/// The dry run that the component declares is sent by `validate` when the cloud may be asked, and by nobody else.
#[tokio::test]
async fn a_dry_run_is_a_read_in_an_online_validation_alone() {
    let cloud = Cloud::start(|_| ok("{}"));
    let guest = Scripted::new(Grants::of(&[("api", cloud.url())])).await;
    let send = |body: &str| {
        let send = json!({ "method": "put", "effect": "read", "path": "/balancers/7", "body": [body] });
        json!({ "steps": [{ "send": send }] })
    };
    let (dry, wet) = (send(r#"{"judge_only":true}"#), send(r#"{"name":"web"}"#));
    for (steps, online, sent) in [(&dry, true, 1), (&dry, false, 0), (&wet, true, 0)] {
        let service = planned(&json!({ "validate": steps, "name": steps }));
        let problems = guest.0.validate(service.clone(), None, online).await.unwrap();
        assert_eq!(problems[0].message.contains(r#""error":"denied""#), sent == 0, "{}", problems[0].message);
        assert_eq!(cloud.take().len(), sent, "{steps}, online: {online}");
        let name = guest.0.name(service).await.unwrap();
        assert!(name.contains(r#""error":"denied""#), "{name}");
        assert_eq!(cloud.take(), []);
    }
}

#[tokio::test]
async fn a_write_arrives_once_from_every_function_that_changes_the_cloud() {
    let cloud = Cloud::start(|_| ok(r#"{"id":"lb-1"}"#));
    let guest = Scripted::new(Grants::of(&[("api", cloud.url())]).credential("token", "token-Vahgh5ee")).await;
    let provider = &guest.0;
    let send = json!([{ "send": {
        "method": "post",
        "effect": "once",
        "path": "/balancers",
        "headers": [["authorization", ["Bearer ", { "secret": "token" }]]],
        "body": ["{}"],
    } }]);
    let plan =
        json!({ "steps": send, "ingress": ["192.0.2.7"], "annotations": { "scripted.example/written-id": "lb-1" } });
    let service = planned(&json!({ "ensure": plan, "update-backends": plan, "delete": plan }));
    let outcomes = [
        provider.ensure(service.clone(), backends(&["a"])).await,
        provider.update_backends(service.clone(), backends(&["a"])).await,
        provider.delete(service).await,
    ];
    for outcome in outcomes {
        assert!(outcome.changes[0].contains(r#"{"id":"lb-1"}"#.replace('"', "\\\"").as_str()), "{outcome:?}");
        assert_eq!((outcome.ingress, outcome.failure), (vec![at("192.0.2.7")], None));
        assert_eq!(outcome.annotations, [("scripted.example/written-id".to_owned(), Some("lb-1".to_owned()))]);
    }
    let asked = cloud.take();
    assert_eq!(asked.iter().map(|asked| asked.line.as_str()).collect::<Vec<_>>(), ["POST /balancers"; 3]);
    assert!(asked.iter().all(|asked| asked.header("authorization") == Some("Bearer token-Vahgh5ee")), "{asked:?}");
}

/// The few requests that the cloud still takes are for changes that somebody waits for.
#[tokio::test]
async fn when_little_is_left_of_the_clouds_limit_a_refresh_is_throttled_and_a_change_is_not() {
    const LOW: &str = "ratelimit-limit: 5000\r\nratelimit-remaining: 499\r\nratelimit-reset: 240\r\n";
    let cloud = Cloud::start(|_| Reply::Bytes(reply("200 OK", LOW, "{}")));
    let Scripted(provider) = Scripted::new(Grants::of(&[("api", cloud.url())])).await;
    let asks = |path: &str| planned(&json!({ "ensure": { "steps": [{ "send": { "path": path } }] } }));
    // The first answer tells how little is left.
    for path in ["/balancers/1", "/balancers/2"] {
        let changes = provider.ensure(asks(path), backends(&[])).await.changes;
        assert!(!changes[0].contains(r#""error""#), "{path}: {changes:?}");
    }
    let changes = provider.ensure_unhurried(asks("/balancers/3"), backends(&[])).await.changes;
    assert!(changes[0].contains(r#""error":"throttled""#), "{changes:?}");
    let changes = provider.ensure(asks("/balancers/4"), backends(&[])).await.changes;
    assert!(!changes[0].contains(r#""error""#), "{changes:?}");
    let lines: Vec<_> = cloud.take().into_iter().map(|asked| asked.line).collect();
    assert_eq!(lines, ["1", "2", "4"].map(|id| format!("GET /balancers/{id}")));
}

#[tokio::test]
async fn work_in_progress_comes_back_with_its_time() {
    let Scripted(provider) = Scripted::new(Grants::default()).await;
    let service = planned(&json!({ "ensure": {
        "pending-ms": 2000,
        "annotations": { "scripted.example/written-id": "lb-1", "scripted.example/written-job": null },
    } }));
    let outcome = provider.ensure(service, backends(&[])).await;
    let failure = outcome.failure.unwrap();
    assert_eq!((failure.reaction, failure.retry_after.map(|wait| wait.as_millis())), (Reaction::Pending, Some(2000)));
    assert_eq!(outcome.ingress, []);
    let written = [
        ("scripted.example/written-id".to_owned(), Some("lb-1".to_owned())),
        ("scripted.example/written-job".to_owned(), None),
    ];
    assert_eq!(outcome.annotations, written);
}

#[tokio::test]
async fn events_go_to_the_service_of_the_call_and_to_no_other() {
    let rig = Rig::hostile(Limits::default()).await;
    rig.provider.ensure(service("event"), backends(&[])).await;
    let about = Subject::Service { namespace: "default".into(), name: "event".into(), uid: "uid of event".into() };
    let event = (about, Severity::Warning, "Hostile".to_owned(), "event".to_owned());
    assert_eq!(rig.record.take_events(), [event.clone(), event.clone()]);

    // With several nobody can tell which one the call is about.
    let wishes = vec![wish(service("event"), &[]), wish(service("other"), &[])];
    rig.provider.survey(backends(&[]), wishes).await.unwrap();
    assert_eq!(rig.record.take_events(), [event]);
}

#[tokio::test]
async fn a_survey_gives_one_standing_per_wish_in_order() {
    let rig = Rig::hostile(Limits::default()).await;
    assert!(rig.provider.surveys());
    let wishes = vec![
        wish(service("good"), &[]),
        wish(service("differs"), &[2, 0]),
        wish(service("missing"), &[]),
        wish(service("unknown"), &[]),
        wish(service("bad-ip"), &[]),
        wish(service("empty"), &[]),
    ];
    let standings = rig.provider.survey(backends(&["a", "b", "c"]), wishes).await.unwrap();
    let wrong = |what: &str| {
        let text = format!(
            "load-balancer-survey.survey of hostile: the provider's answer breaks the contract: it gave {what}{REPORT}"
        );
        Standing::Unknown(Failure::new(Reaction::Retry, text))
    };
    let expected = [
        Standing::InStep(vec![at("192.0.2.1")]),
        Standing::Differs(vec!["c".to_owned(), "a".to_owned()]),
        Standing::Missing,
        Standing::Unknown(Failure::new(Reaction::Throttled, "slower")),
        wrong(r#"the ingress IP "203.0.113.300", which is no IP address"#),
        wrong("a load balancer in step without an ingress"),
    ];
    assert_eq!(standings, expected);
    assert_eq!(rig.provider.survey(backends(&[]), vec![]).await, Ok(vec![]));
}

#[tokio::test]
async fn another_number_of_standings_than_of_wishes_is_no_answer() {
    let rig = Rig::hostile(Limits::default()).await;
    for (name, given) in [("too-few", 1), ("too-many", 3)] {
        rig.record.take_ends();
        let wishes = vec![wish(service(name), &[]), wish(service("good"), &[])];
        let failure = rig.provider.survey(backends(&[]), wishes).await.unwrap_err();
        let text = format!(
            "load-balancer-survey.survey of hostile: the provider's answer breaks the contract: it gave {given} standings for 2 \
             wishes{REPORT}"
        );
        assert_eq!(failure, Failure::new(Reaction::Retry, text));
        assert_eq!(rig.end().outcome, "bad-answer");
    }
}

#[tokio::test]
async fn a_survey_that_fails_as_a_whole_keeps_its_reaction() {
    let rig = Rig::hostile(Limits::default()).await;
    let wishes = vec![wish(service("refuse"), &[]), wish(service("good"), &[])];
    let failure = rig.provider.survey(backends(&[]), wishes).await.unwrap_err();
    assert_eq!(failure, Failure::new(Reaction::Unauthorized, "no"));
    assert_eq!(rig.end().outcome, "ok", "it is an answer");
}

#[tokio::test]
async fn what_a_component_does_not_export_is_unsupported_and_not_called() {
    let Rig { provider, .. } = Rig::of(component(SESSION), Limits::default(), Settings::default()).await.unwrap();
    let unsupported =
        |what: &str| Failure::new(Reaction::Unsupported, format!("the provider session does not export {what}"));
    let failure = unsupported("load-balancers");
    assert_eq!(provider.name(service("web")).await, Err(failure.clone()));
    assert_eq!(provider.locks(service("web")).await, Err(failure.clone()));
    assert_eq!(provider.get(service("web")).await, Err(failure.clone()));
    assert_eq!(provider.validate(service("web"), None, true).await, Err(failure.clone()));
    let outcome = Outcome::failed(failure);
    assert_eq!(provider.ensure(service("web"), backends(&[])).await, outcome);
    assert_eq!(provider.update_backends(service("web"), backends(&[])).await, outcome);
    assert_eq!(provider.delete(service("web")).await, outcome);
    assert!(!provider.surveys());
    assert_eq!(provider.survey(backends(&[]), vec![]).await, Err(unsupported("load-balancer-survey")));
    assert_eq!(provider.orphan(service("web")).await, Err(unsupported("load-balancer-orphan")));
}

/// It writes, and what comes of that is told.
#[tokio::test]
async fn a_load_balancer_is_given_up_by_a_call_that_may_write() {
    let cloud = Cloud::start(|_| ok("{}"));
    let Scripted(provider) = Scripted::new(Grants::of(&[("api", cloud.url())])).await;
    let send = json!({ "send": { "method": "put", "effect": "repeatable", "path": "/balancers/7" } });
    let changes = provider.orphan(planned(&json!({ "orphan": { "steps": [send] } }))).await.unwrap();
    assert!(changes.len() == 1 && changes[0].contains(r#""status":200"#), "{changes:?}");
    assert_eq!(cloud.take().len(), 1);
    let failure = provider.orphan(planned(&json!({ "orphan": { "steps": [{ "fail": "busy" }] } }))).await.unwrap_err();
    assert!(failure.message.contains("busy"), "{failure:?}");
}

#[tokio::test]
async fn a_provider_remembers_what_it_offers() {
    let Scripted(provider) = Scripted::new(Grants::default()).await;
    assert!(!provider.has(Capability::LoadBalancers), "nobody has asked yet");
    provider.offers().await.unwrap().unwrap();
    let has = [Capability::LoadBalancers, Capability::Cluster, Capability::Routes].map(|what| provider.has(what));
    assert_eq!(has, [true, true, false]);

    let rig = Rig::hostile(Limits::default()).await;
    rig.provider.offers().await.unwrap().unwrap();
    assert!(!rig.provider.has(Capability::LoadBalancers), "exported and not offered");
}

/// The cache is the same on either side: what a look-up of Nodes kept, a load balancer reads.
#[tokio::test]
async fn load_balancers_share_the_cache_with_other_calls() {
    let guest = Scripted::new(Grants::default()).await;
    guest.run_for(Need::Metadata, json!([{ "available": "token" }, { "keep": "k" }])).await;
    let service = planned(&json!({ "ensure": { "steps": [{ "kept": "k" }] } }));
    let outcome = guest.0.ensure(service, backends(&[])).await;
    let kept = guest.run_for(Need::Metadata, json!([{ "kept": "k" }])).await;
    assert_eq!(kept, [json!("false")]);
    assert_eq!(outcome.changes, [kept[0].to_string()]);
}
