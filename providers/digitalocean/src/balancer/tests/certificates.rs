//! Certificates that are renewed, changed, missing.

use super::*;

const CERT: &str = "api GET /v2/certificates/";
const LETS_ENCRYPT: &str = "lets_encrypt";

fn certificate(id: &str, name: &str, kind: &str) -> Reply {
    Reply::json(200, json!({ "certificate": { "id": id, "name": name, "type": kind } }).to_string())
}

/// With the certificate `has`, or none.
fn secured(has: &str) -> Value {
    changed(
        "lb-1",
        json!({"type": "REGIONAL", "forwarding_rules": [{"entry_protocol": "https", "entry_port": 80,
            "target_protocol": "http", "target_port": 30000, "certificate_id": has}]}),
    )
}

/// What the load balancer has after `ensure` and after `update-backends`, which both end with a write here.
fn after(service_spec: &[(&str, &str)], has: &str, known: &[(&str, &str, &str)]) -> Vec<Value> {
    let annotations: Vec<_> = [(names::TYPE, "REGIONAL")].into_iter().chain(service_spec.iter().copied()).collect();
    let mut written = vec![];
    for change in [ensure, update_backends] {
        let mut differs = secured(has);
        differs["droplet_ids"] = json!([]);
        let mut cloud =
            FakeCloud::new().always(GET, one(&differs)).always(LIST, many(&[differs])).on(PUT, one(&secured("any")));
        for id in ["c-1", "c-2"] {
            let found = known.iter().find(|(known, _, _)| *known == id);
            let reply = found.map_or_else(not_found, |(id, name, kind)| certificate(id, name, kind));
            cloud = cloud.always(&format!("{CERT}{id}"), reply);
        }
        let named: Vec<Value> =
            known.iter().map(|(id, name, kind)| json!({"id": id, "name": name, "type": kind})).collect();
        cloud = cloud.always(
            "api GET /v2/certificates",
            Reply::json(200, json!({ "certificates": named, "meta": { "total": named.len() } }).to_string()),
        );
        let done = change(&config(), &settled_service(&annotations), &nodes());
        assert_eq!((done.outcome.failure, done.outcome.annotations), (None, vec![]));
        let last = cloud.requests().len() - 1;
        let rules = body(&cloud, last)["forwarding_rules"].clone();
        written.push(rules[0].get("certificate_id").cloned().unwrap_or(Value::Null));
    }
    written
}

/// Number, annotations, what the load balancer has, certificates that exist, what it has then.
type Case = (
    &'static str,
    Vec<(&'static str, &'static str)>,
    &'static str,
    Vec<(&'static str, &'static str, &'static str)>,
    Value,
);

#[test]
fn do_181_to_190_the_certificate_of_a_load_balancer() {
    let le = LETS_ENCRYPT;
    let tls = (names::TLS_PORTS, "80");
    let one = (names::CERTIFICATE_ID, "c-1");
    let name = (names::CERTIFICATE_NAME, "web");
    let cases: Vec<Case> = vec![
        ("do_181", vec![tls, one], "c-1", vec![("c-1", "web", le)], json!("c-1")),
        ("do_182", vec![tls, one], "c-2", vec![("c-1", "web", le), ("c-2", "web", le)], json!("c-2")),
        ("do_183", vec![tls, one], "c-2", vec![("c-2", "web", le)], json!("c-2")),
        ("do_184", vec![tls, one], "c-2", vec![("c-1", "web", le)], json!("c-1")),
        ("do_185", vec![tls, one], "c-2", vec![("c-1", "web", le), ("c-2", "other", le)], json!("c-1")),
        ("do_186", vec![], "c-2", vec![("c-2", "web", le)], Value::Null),
        ("do_187", vec![tls, one], "c-1", vec![("c-1", "web", "custom")], json!("c-1")),
        ("do_188", vec![tls, one], "c-2", vec![("c-1", "web", "custom"), ("c-2", "old", "custom")], json!("c-1")),
        ("do_188", vec![tls, one], "c-2", vec![("c-2", "web", "custom")], json!("c-1")),
        ("do_189", vec![tls, one], "c-2", vec![("c-1", "web", "custom")], json!("c-1")),
        ("do_190", vec![tls, name], "c-2", vec![("c-1", "web", le)], json!("c-1")),
    ];
    for (case, service_spec, has, known, expected) in cases {
        assert_eq!(after(&service_spec, has, &known), [expected.clone(), expected], "{case}");
    }
}

/// Whether a Service that names this certificate writes its load balancer, which has `c-2`, and what it is told.
fn told_about(id: &str, known: &[(&str, &str)]) -> (bool, Vec<String>) {
    let service_spec = [(names::TYPE, "REGIONAL"), (names::TLS_PORTS, "80"), (names::CERTIFICATE_ID, id)];
    let mut cloud = FakeCloud::new().on(GET, one(&secured("c-2"))).on(PUT, one(&secured("c-1")));
    for (id, name) in known {
        cloud = cloud.on(&format!("{CERT}{id}"), certificate(id, name, LETS_ENCRYPT));
    }
    let cloud = cloud.always(&format!("{CERT}c-1"), not_found());
    let done = ensure(&config(), &settled_service(&service_spec), &nodes());
    assert_eq!(done.outcome.failure, None);
    let told = done.warnings.into_iter().filter(|(reason, _)| *reason == IGNORED).map(|(_, message)| message);
    (routes(&cloud).contains(&PUT.to_owned()), told.collect())
}

#[test]
fn an_id_that_no_certificate_has_is_told_where_a_renewal_may_be_why() {
    let (wrote, told) = told_about("c-1", &[("c-2", "web")]);
    assert!(!wrote && told.len() == 1, "{told:?}");
    let way_out = format!("{}: \"web\"", names::CERTIFICATE_NAME);
    for words in [names::CERTIFICATE_ID, "\"c-1\"", "lb-1", "\"c-2\"", way_out.as_str()] {
        assert!(told[0].contains(words), "{words}: {told:?}");
    }
    // One that is there counts, whether it is the renewal or another; nothing is wrong then.
    assert_eq!(told_about("c-1", &[("c-2", "web"), ("c-1", "web")]), (false, vec![]));
    assert_eq!(told_about("c-1", &[("c-2", "web"), ("c-1", "other")]), (true, vec![]));
    assert_eq!(told_about("c-2", &[("c-2", "web")]), (false, vec![]));
}

#[test]
fn a_name_that_no_certificate_has_is_told_and_nothing_is_written() {
    let service_spec = [(names::TYPE, "REGIONAL"), (names::TLS_PORTS, "80"), (names::CERTIFICATE_NAME, "web")];
    let cloud = FakeCloud::new()
        .on(GET, one(&secured("c-2")))
        .on("api GET /v2/certificates", Reply::json(200, r#"{"certificates": [], "meta": {"total": 0}}"#));
    let told = ensure(&config(), &settled_service(&service_spec), &nodes()).outcome.failure.expect("it is missing");
    assert!(told.message.contains("certificate with name: \"web\" not found"), "{}", told.message);
    assert_eq!(told.field, Some(format!("metadata.annotations[{}]", names::CERTIFICATE_NAME)));
    assert_eq!(cloud.lines()[1], "api GET /v2/certificates?name=web&page=1&per_page=200");
}

#[test]
fn a_certificate_that_cannot_be_asked_for_stops_the_change() {
    let service_spec = [(names::TYPE, "REGIONAL"), (names::TLS_PORTS, "80"), (names::CERTIFICATE_ID, "c-1")];
    let cloud = FakeCloud::new().on(GET, one(&secured("c-2"))).on("api GET /v2/certificates/c-2", Reply::status(500));
    assert_eq!(failure(&ensure(&config(), &settled_service(&service_spec), &nodes())).0, Reaction::Retry);
    assert_eq!(cloud.lines().len(), 2);
}

#[test]
fn do_181_187_a_certificate_that_is_the_same_is_not_written() {
    let service_spec = [(names::TYPE, "REGIONAL"), (names::TLS_PORTS, "80"), (names::CERTIFICATE_ID, "c-1")];
    for kind in ["lets_encrypt", "custom"] {
        let cloud = FakeCloud::new()
            .on(GET, one(&secured("c-1")))
            .always(&format!("{CERT}c-1"), certificate("c-1", "web", kind));
        let done = ensure(&config(), &settled_service(&service_spec), &nodes());
        assert_eq!((done.outcome.failure, done.outcome.changes), (None, vec![]), "{kind}");
        assert!(!routes(&cloud).contains(&PUT.to_owned()), "{kind}");
    }
}

#[test]
fn a_certificate_that_is_not_verified_makes_no_load_balancer_and_stops_none_that_has_it() {
    let asks = [(names::TYPE, "REGIONAL"), (names::TLS_PORTS, "80"), (names::CERTIFICATE_NAME, "web")];
    for (state, reaction, words) in [
        ("pending", Reaction::Pending, "is not verified yet"),
        ("error", Reaction::Retry, "could not be verified; make another one"),
    ] {
        let web = json!({"id": "c-1", "name": "web", "type": LETS_ENCRYPT, "state": state});
        let found = Reply::json(200, json!({ "certificates": [web], "meta": { "total": 1 } }).to_string());
        let cloud = FakeCloud::new().on(LIST, many(&[])).always("api GET /v2/certificates", found.clone());
        let done = ensure(&config(), &service(&asks), &nodes());
        assert_eq!(failure(&done), (reaction, Some(60_000)));
        let told = done.outcome.failure.as_ref().expect("it cannot be made");
        assert!(told.message.contains(&format!("certificate \"web\" {words}")), "{}", told.message);
        assert_eq!(told.field, Some(format!("metadata.annotations[{}]", names::CERTIFICATE_NAME)));
        assert!(routes(&cloud).iter().all(|line| line != POST));
        // What has it serves with it, and follows the Nodes.
        let mut has = secured("c-1");
        has["droplet_ids"] = json!([]);
        let cloud = FakeCloud::new().on(GET, one(&has)).always("api GET /v2/certificates", found);
        let cloud = cloud.on(PUT, one(&secured("c-1")));
        let done = ensure(&config(), &settled_service(&asks), &nodes());
        assert_eq!((done.outcome.failure, done.outcome.changes), (None, vec!["changed lb-1: droplets".to_owned()]));
        assert_eq!(body(&cloud, cloud.requests().len() - 1)["forwarding_rules"][0]["certificate_id"], "c-1");
    }
}

/// A certificate of a kind that was not understood, in one answer, had the old one asked for, which then was remembered as missing.
#[test]
fn a_renewal_is_recognised_although_the_old_certificate_was_found_missing_before() {
    let service_spec = [(names::TYPE, "REGIONAL"), (names::TLS_PORTS, "80"), (names::CERTIFICATE_ID, "c-1")];
    let cloud = FakeCloud::new()
        .always(GET, one(&secured("c-2")))
        .on(&format!("{CERT}c-2"), certificate("c-2", "web", "a-word-of-tomorrow"))
        .always(&format!("{CERT}c-2"), certificate("c-2", "web", LETS_ENCRYPT))
        .always(&format!("{CERT}c-1"), not_found())
        .on(PUT, not_found());
    assert_eq!(failure(&ensure(&config(), &settled_service(&service_spec), &nodes())), (Reaction::Retry, Some(60_000)));
    assert_eq!(addresses(&ensure(&config(), &settled_service(&service_spec), &nodes())).len(), 2);
    assert_eq!(routes(&cloud).iter().filter(|line| *line == PUT).count(), 1);
}
