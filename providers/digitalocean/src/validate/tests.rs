//! Cases of the reference by number: `do_NNN`.

use ccm_sdk::http::TransportReason;
use ccm_sdk::testing::{FakeCloud, Reply};
use serde_json::json;

use super::*;
use crate::balancer::tests::{GET, LIST, POST, PUT, balancer, body, changed, many, not_found, one, routes};
use crate::config::tests::config;
use crate::service_spec::tests::service;

fn judged(service: &Service, before: Option<&Service>) -> Vec<Problem> {
    validate(&config(), service, before, true, || None)
}

/// A cloud without load balancers, that is asked for them before it judges a new one.
fn empty() -> FakeCloud {
    FakeCloud::new().always(LIST, many(&[]))
}

fn fatal_fields(problems: &[Problem]) -> Vec<&str> {
    problems.iter().filter(|problem| problem.fatal).map(|problem| problem.field.as_str()).collect()
}

fn with(annotations: &[(&str, &str)]) -> Service {
    service(annotations)
}

#[test]
fn do_192_193_287_what_is_not_ours_is_let_through_unasked() {
    let cloud = FakeCloud::new();
    let wrong = with(&[(names::TYPE, "abcd")]);
    for service in [
        Service { kind: ServiceType::NodePort, ..wrong.clone() },
        Service { deleting: true, ..wrong.clone() },
        with(&[(names::TYPE, "abcd"), (names::DISOWN, "true")]),
    ] {
        assert_eq!(judged(&service, None), []);
    }
    let unclear = judged(&with(&[(names::DISOWN, "maybe")]), None);
    assert!(unclear[0].fatal && unclear[0].field.contains(names::DISOWN), "{unclear:?}");
    assert_eq!(cloud.lines(), Vec::<String>::new());
}

/// Which classes are this provider's is the host's to know, and it asks about no others. Once everything of a class passed.
#[test]
fn a_service_of_a_class_is_judged_as_any_other() {
    let of_class = Service { load_balancer_class: Some("ours".to_owned()), ..with(&[(names::TYPE, "abcd")]) };
    assert_eq!(fatal_fields(&judged(&of_class, None)), [field(names::TYPE)]);
}

#[test]
fn an_id_that_can_be_none_is_refused_where_there_is_no_load_balancer_yet() {
    let judged = |id: &str, before: Option<&Service>| {
        let problems = validate(&config(), &with(&[(names::ID, id)]), before, false, || None);
        problems.into_iter().map(|problem| (problem.field, problem.fatal)).collect::<Vec<_>>()
    };
    let node_port = Service { kind: ServiceType::NodePort, ..with(&[]) };
    for id in ["../account", "lb 1"] {
        for (before, fatal) in [(None, true), (Some(&node_port), true), (Some(&with(&[])), false)] {
            assert_eq!(judged(id, before), [(field(names::ID), fatal)], "{id}");
        }
    }
    for id in ["lb-1", " lb-1\n", "", " "] {
        assert_eq!(judged(id, None), [], "{id:?}");
    }
}

#[test]
fn do_194_157_a_new_one_is_judged_without_nodes() {
    for (annotations, expected) in [
        (vec![], ("REGIONAL_NETWORK", "EXTERNAL", "IPV4")),
        (vec![(names::NETWORK, "INTERNAL")], ("REGIONAL_NETWORK", "INTERNAL", "IPV4")),
        (vec![(names::TYPE, "REGIONAL")], ("REGIONAL", "EXTERNAL", "DUALSTACK")),
        (vec![(names::TYPE, "REGIONAL"), (names::NETWORK, "INTERNAL")], ("REGIONAL", "INTERNAL", "IPV4")),
    ] {
        let cloud = empty().on(POST, Reply::status(204));
        assert_eq!(judged(&with(&annotations), None), []);
        let sent = body(&cloud, 1);
        let (kind, network, stack) = expected;
        assert_eq!(
            (&sent["type"], &sent["network"], &sent["network_stack"]),
            (&json!(kind), &json!(network), &json!(stack))
        );
        assert_eq!(
            (&sent[balancers::VALIDATE_ONLY], &sent["droplet_ids"], &sent["region"]),
            (&json!(true), &json!([]), &json!("nyc3"))
        );
        assert_eq!(cloud.requests()[1].effect, ccm_sdk::http::Effect::Read);
    }
}

#[test]
fn do_195_what_cannot_be_is_refused_with_its_field_and_nobody_is_asked() {
    let cloud = FakeCloud::new();
    for (annotations, field) in [
        (vec![(names::HEALTH_INTERVAL, "x")], names::HEALTH_INTERVAL),
        (vec![(names::TYPE, "REGIONAL"), (names::PROTOCOL, "udp")], names::PROTOCOL),
        (vec![(names::TYPE, "REGIONAL"), (names::TLS_PORTS, "80")], names::CERTIFICATE_ID),
        (vec![(names::NETWORK, "INTERNAL"), (names::NETWORK_STACK, "DUALSTACK")], names::NETWORK_STACK),
    ] {
        let problems = judged(&with(&annotations), None);
        assert_eq!(fatal_fields(&problems), [format!("metadata.annotations[{field}]")]);
    }
    assert_eq!(cloud.lines(), Vec::<String>::new());
}

#[test]
fn only_a_clear_no_refuses() {
    for (case, reply, fatal) in [
        ("do_197", Reply::json(422, r#"{"message": "entry port is invalid"}"#), true),
        ("do_197", Reply::json(400, r#"{"message": "bad"}"#), true),
        ("do_285", Reply::json(401, "{}"), false),
        ("do_285", Reply::json(403, "{}"), false),
        ("do_285", Reply::json(429, "{}"), false),
        ("do_199", not_found(), false),
        ("do_198", Reply::status(500), false),
        ("do_196", Reply::lost(TransportReason::Timeout, true), false),
        ("do_196", Reply::lost(TransportReason::Denied, false), false),
    ] {
        let _cloud = empty().on(POST, reply.clone());
        let problems = judged(&with(&[]), None);
        assert_eq!(problems.iter().map(|problem| problem.fatal).collect::<Vec<_>>(), [fatal], "{case}: {reply:?}");
    }
    let _cloud = empty().on(POST, Reply::json(422, r#"{"message": "entry port is invalid"}"#));
    assert_eq!(judged(&with(&[]), None)[0].message, "invalid load balancer definition: entry port is invalid");
}

#[test]
fn do_201_202_what_changes_nothing_is_not_judged() {
    let cloud = FakeCloud::new();
    let old = with(&[(names::SIZE_UNIT, "2")]);
    assert_eq!(judged(&old, Some(&old)), []);
    assert_eq!(judged(&with(&[(names::SIZE_UNIT, "2"), (names::ID, "lb-1")]), Some(&old)), []);
    assert_eq!(validate(&config(), &with(&[]), None, false, || None), []);
    assert_eq!(cloud.lines(), Vec::<String>::new());
}

#[test]
fn do_203_to_206_286_a_change_is_judged_for_the_load_balancer_it_is_about() {
    let id = |id: &'static str| (names::ID, id);
    let change = (names::SIZE_UNIT, "2");
    let new = (vec![change], vec![]);
    let on_old = (vec![change], vec![id("lb-1")]);
    let on_new = (vec![change, id("lb-1")], vec![]);
    let other = (vec![change, id("lb-1")], vec![id("lb-0")]);
    for (case, (annotations, before), expected) in [
        ("do_203", new, vec![LIST, POST]),
        ("do_204", on_old, vec![GET, PUT]),
        ("do_205", on_new, vec![GET, PUT]),
        ("do_206", other, vec![GET, PUT]),
    ] {
        let cloud = empty().on(POST, Reply::status(204)).on(GET, one(&balancer("lb-1"))).on(PUT, Reply::status(204));
        assert_eq!(judged(&with(&annotations), Some(&with(&before))), [], "{case}");
        assert_eq!(routes(&cloud), expected, "{case}");
    }
    let cloud = FakeCloud::new().on(GET, one(&balancer("lb-1"))).on(PUT, Reply::status(204));
    assert_eq!(judged(&with(&[id("lb-1")]), None), [], "do_286");
    assert_eq!(routes(&cloud), [GET, PUT]);
}

#[test]
fn what_cannot_be_changed_later_is_told() {
    let before = with(&[(names::TYPE, "REGIONAL"), (names::NETWORK, "EXTERNAL")]);
    let after = with(&[(names::TYPE, "REGIONAL_NETWORK"), (names::NETWORK, "EXTERNAL")]);
    let problems = validate(&config(), &after, Some(&before), false, || None);
    assert!(problems.len() == 1 && !problems[0].fatal && problems[0].field.contains(names::TYPE), "{problems:?}");
}

#[test]
fn without_region_nothing_is_judged_and_that_is_told() {
    let config = Config { region: None, ..config() };
    let cloud = empty();
    let problems = validate(&config, &with(&[]), None, true, || None);
    assert!(problems.len() == 1 && !problems[0].fatal && problems[0].message.contains("REGION"), "{problems:?}");
    assert_eq!(routes(&cloud), [LIST]);
    let cloud = empty().on(POST, Reply::status(204));
    assert_eq!(validate(&config, &with(&[]), None, true, || Some("fra1".to_owned())), []);
    assert_eq!(body(&cloud, 1)["region"], "fra1");
}

#[test]
fn one_that_is_taken_over_by_its_name_is_judged_as_that_and_not_as_a_new_one() {
    let there = changed("lb-1", json!({ "name": "web", "type": "REGIONAL", "tags": [] }));
    let cloud = FakeCloud::new().on(LIST, many(&[there])).on(PUT, Reply::status(204));
    assert_eq!(judged(&with(&[(names::NAME, "web")]), None), []);
    assert_eq!(routes(&cloud), [LIST, PUT]);
    let sent = body(&cloud, 1);
    assert_eq!(
        (&sent["name"], &sent["type"], &sent["droplet_ids"]),
        (&json!("web"), &json!("REGIONAL"), &json!([101, 100]))
    );
    // The one of a Service that has lost its ID is found by the name that no other can have.
    let cloud = FakeCloud::new().on(LIST, many(&[balancer("lb-1")])).on(PUT, Reply::status(204));
    assert_eq!(judged(&with(&[(names::SIZE_UNIT, "2")]), Some(&with(&[]))), []);
    assert_eq!(routes(&cloud), [LIST, PUT]);
}

#[test]
fn the_name_of_another_clusters_load_balancer_is_refused_as_the_controller_would() {
    let there = changed("lb-1", json!({ "name": "web", "tags": ["k8s:other"] }));
    let cloud = FakeCloud::new().on(LIST, many(&[there]));
    let problems = judged(&with(&[(names::NAME, "web")]), None);
    assert_eq!(fatal_fields(&problems), [format!("metadata.annotations[{}]", names::NAME)]);
    assert_eq!(routes(&cloud), [LIST]);
}

#[test]
fn a_no_to_what_is_not_the_services_is_let_through() {
    let no = |words: &str| Reply::json(422, json!({ "id": "unprocessable_entity", "message": words }).to_string());
    let cases = [
        ("droplet 101 does not exist", false),
        ("you have reached your load balancer limit", false),
        ("the quota of the account is used up", false),
        ("There is already a load balancer with that name", false),
        ("VPC \"v\" is not in region nyc3", false),
        ("tag is invalid", false),
        ("a REGIONAL_NETWORK load balancer only forwards tcp and udp", true),
    ];
    for (words, fatal) in cases {
        let _cloud = empty().on(POST, no(words));
        let problems = judged(&with(&[]), None);
        assert_eq!(problems.iter().map(|problem| problem.fatal).collect::<Vec<_>>(), [fatal], "{words}");
    }
    let _cloud = empty().on(POST, Reply::json(422, "<html>"));
    assert_eq!(fatal_fields(&judged(&with(&[]), None)), [""; 0]);
    // Another one of the account has the name that a load balancer shall get: the annotation asks for what cannot be.
    let taken = || no("There is already a load balancer with that name");
    let _cloud = FakeCloud::new().on(GET, one(&balancer("lb-1"))).on(PUT, taken());
    assert_eq!(fatal_fields(&judged(&with(&[(names::ID, "lb-1"), (names::NAME, "web")]), None)), ["spec"]);
    let _cloud = FakeCloud::new().on(GET, one(&balancer("lb-1"))).on(PUT, taken());
    assert_eq!(fatal_fields(&judged(&with(&[(names::ID, "lb-1")]), None)), [""; 0]);
    // Of an address or a subnet the Service itself says that it shall be in this region.
    for annotation in [(names::IP, "203.0.113.9"), (names::SUBNET, "c33931f2-a26a-4e61-b85c-4e95a2ec431b")] {
        let _cloud = empty().on(POST, no("it is not in region nyc3"));
        assert_eq!(fatal_fields(&judged(&with(&[annotation]), None)), ["spec"], "{annotation:?}");
    }
}

/// Wrong for REGIONAL load balancers alone: TLS needs a certificate there.
const TLS: (&str, &str) = (names::TLS_PORTS, "80");

#[test]
fn offline_nothing_is_refused_on_a_guess_of_the_type() {
    let config = Config { default_type: Kind::Regional, ..config() };
    let offline = |annotations: &[_], before: Option<&Service>| {
        fatal_fields(&validate(&config, &with(annotations), before, false, || None)).len()
    };
    let before = with(&[]);
    let other = Service { kind: ServiceType::ClusterIp, ..with(&[]) };
    assert_eq!(offline(&[TLS], None), 1, "a new one has the default type");
    assert_eq!(offline(&[TLS], Some(&other)), 1, "it had no load balancer before");
    assert_eq!(offline(&[TLS], Some(&before)), 0, "it may have one of another type");
    assert_eq!(offline(&[TLS, (names::ID, "lb-1")], None), 0, "it names one");
    assert_eq!(offline(&[TLS, (names::NAME, "web")], None), 0, "it may take one over");
    for (name, value) in [(names::TYPE, "REGIONAL"), (names::HEALTH_INTERVAL, "x")] {
        assert_eq!(offline(&[TLS, (names::ID, "lb-1"), (name, value)], Some(&before)), 1, "{value}: whatever it is");
    }
    // Nor is it said that something has no effect, when nobody knows.
    let redirect = with(&[(names::REDIRECT, "true"), (names::ID, "lb-1")]);
    assert_eq!(validate(&self::config(), &redirect, None, false, || None), []);
}

#[test]
fn online_the_type_that_it_has_says_what_is_wrong() {
    for (kind, expected) in [("REGIONAL_NETWORK", vec![]), ("REGIONAL", vec![names::CERTIFICATE_ID])] {
        let cloud =
            FakeCloud::new().on(GET, one(&changed("lb-1", json!({ "type": kind })))).on(PUT, Reply::status(204));
        let problems = judged(&with(&[TLS, (names::ID, "lb-1")]), None);
        let expected: Vec<_> = expected.iter().map(|name| format!("metadata.annotations[{name}]")).collect();
        assert_eq!(fatal_fields(&problems), expected, "{kind}");
        assert_eq!(routes(&cloud).len(), 2 - expected.len());
    }
}

/// Wrong for REGIONAL load balancers alone: it is never read for others.
#[test]
fn what_cannot_be_read_stops_the_type_that_reads_it() {
    let wrong = (names::HTTP_PORTS, "a");
    for (kind, fatal) in [("REGIONAL_NETWORK", 0), ("REGIONAL", 1)] {
        let has = changed("lb-1", json!({ "type": kind }));
        let cloud = FakeCloud::new().on(GET, one(&has)).on(PUT, Reply::status(204));
        assert_eq!(fatal_fields(&judged(&with(&[wrong, (names::ID, "lb-1")]), None)).len(), fatal, "{kind}");
        assert_eq!(routes(&cloud).len(), 2 - fatal, "{kind}");
        let offline = |annotations: &[_]| validate(&config(), &with(annotations), None, false, || None);
        assert_eq!(fatal_fields(&offline(&[wrong, (names::TYPE, kind)])).len(), fatal, "{kind}");
        let unknown = offline(&[wrong, (names::ID, "lb-1")]);
        assert!(unknown.len() == 1 && !unknown[0].fatal, "it may have one of either type: {unknown:?}");
    }
}

#[test]
fn a_certificate_that_is_not_there_is_told_where_the_load_balancer_keeps_another_one() {
    let certificate = |id: &str| format!("api GET /v2/certificates/{id}");
    let rule = json!({"entry_protocol": "https", "entry_port": 80, "target_protocol": "http", "target_port": 30000,
                      "certificate_id": "c-2"});
    let has = changed("lb-1", json!({"type": "REGIONAL", "forwarding_rules": [rule]}));
    let present = json!({"certificate": {"id": "c-2", "name": "web", "type": "lets_encrypt"}}).to_string();
    let cloud = FakeCloud::new()
        .on(GET, one(&has))
        .on(&certificate("c-2"), Reply::json(200, present))
        .on(&certificate("c-1"), not_found())
        .on(PUT, Reply::status(204));
    let service_spec = [(names::TYPE, "REGIONAL"), (names::TLS_PORTS, "80"), (names::CERTIFICATE_ID, "c-1")];
    let told = judged(&with(&[&service_spec[..], &[(names::ID, "lb-1")]].concat()), None);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(!told[0].fatal && told[0].field.contains(names::CERTIFICATE_ID), "{told:?}");
    assert!(told[0].message.contains("\"c-1\", which is the ID of no certificate"), "{told:?}");
    assert_eq!(body(&cloud, 3)["forwarding_rules"][0]["certificate_id"], "c-2");
}
