//! Cases of the reference by number: `do_NNN`.

use ccm_sdk::http::TransportReason;
use ccm_sdk::testing::{FakeCloud, Reply};
use serde_json::json;

use super::*;
use crate::asked::tests::service;
use crate::balancer::tests::{GET, POST, PUT, balancer, body, not_found, one, routes};
use crate::config::tests::config;

fn judged(service: &Service, before: Option<&Service>) -> Vec<Problem> {
    validate(&config(), service, before, true, || None)
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
        Service { load_balancer_class: Some("other".to_owned()), ..wrong.clone() },
        with(&[(names::TYPE, "abcd"), (names::DISOWN, "true")]),
    ] {
        assert_eq!(judged(&service, None), []);
    }
    let unclear = judged(&with(&[(names::DISOWN, "maybe")]), None);
    assert!(unclear[0].fatal && unclear[0].field.contains(names::DISOWN), "{unclear:?}");
    assert_eq!(cloud.lines(), Vec::<String>::new());
}

#[test]
fn do_194_157_a_new_one_is_judged_without_nodes() {
    for (annotations, expected) in [
        (vec![], ("REGIONAL_NETWORK", "EXTERNAL", "IPV4")),
        (vec![(names::NETWORK, "INTERNAL")], ("REGIONAL_NETWORK", "INTERNAL", "IPV4")),
        (vec![(names::TYPE, "REGIONAL")], ("REGIONAL", "EXTERNAL", "DUALSTACK")),
        (vec![(names::TYPE, "REGIONAL"), (names::NETWORK, "INTERNAL")], ("REGIONAL", "INTERNAL", "IPV4")),
    ] {
        let cloud = FakeCloud::new().on(POST, Reply::status(204));
        assert_eq!(judged(&with(&annotations), None), []);
        let sent = body(&cloud, 0);
        let (kind, network, stack) = expected;
        assert_eq!(
            (&sent["type"], &sent["network"], &sent["network_stack"]),
            (&json!(kind), &json!(network), &json!(stack))
        );
        assert_eq!(
            (&sent[balancers::VALIDATE_ONLY], &sent["droplet_ids"], &sent["region"]),
            (&json!(true), &json!([]), &json!("nyc3"))
        );
        assert_eq!(cloud.requests()[0].effect, ccm_sdk::http::Effect::Read);
    }
}

#[test]
fn do_195_what_cannot_be_is_refused_with_its_field_and_nobody_is_asked() {
    let cloud = FakeCloud::new();
    for (annotations, field) in [
        (vec![(names::HEALTH_INTERVAL, "x")], names::HEALTH_INTERVAL),
        (vec![(names::PROTOCOL, "udp")], names::PROTOCOL),
        (vec![(names::TYPE, "REGIONAL"), (names::TLS_PORTS, "80")], names::CERTIFICATE_ID),
        (vec![(names::NETWORK, "INTERNAL"), (names::NETWORK_STACK, "DUALSTACK")], names::NETWORK_STACK),
    ] {
        let problems = judged(&with(&annotations), None);
        let fatal: Vec<_> =
            problems.iter().filter(|problem| problem.fatal).map(|problem| problem.field.clone()).collect();
        assert_eq!(fatal, [format!("metadata.annotations[{field}]")]);
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
        let _cloud = FakeCloud::new().on(POST, reply.clone());
        let problems = judged(&with(&[]), None);
        assert_eq!(problems.iter().map(|problem| problem.fatal).collect::<Vec<_>>(), [fatal], "{case}: {reply:?}");
    }
    let _cloud = FakeCloud::new().on(POST, Reply::json(422, r#"{"message": "entry port is invalid"}"#));
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
        (203, new, vec![POST]),
        (204, on_old, vec![GET, PUT]),
        (205, on_new, vec![GET, PUT]),
        (206, other, vec![GET, PUT]),
    ] {
        let cloud =
            FakeCloud::new().on(POST, Reply::status(204)).on(GET, one(&balancer("lb-1"))).on(PUT, Reply::status(204));
        assert_eq!(judged(&with(&annotations), Some(&with(&before))), [], "do_{case}");
        assert_eq!(routes(&cloud), expected, "do_{case}");
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
    let cloud = FakeCloud::new();
    let problems = validate(&config, &with(&[]), None, true, || None);
    assert!(problems.len() == 1 && !problems[0].fatal && problems[0].message.contains("REGION"), "{problems:?}");
    assert_eq!(cloud.lines(), Vec::<String>::new());
    let cloud = FakeCloud::new().on(POST, Reply::status(204));
    assert_eq!(validate(&config, &with(&[]), None, true, || Some("fra1".to_owned())), []);
    assert_eq!(body(&cloud, 0)["region"], "fra1");
}
