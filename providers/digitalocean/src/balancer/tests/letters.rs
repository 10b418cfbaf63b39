//! IDs that people wrote in capitals.

use super::*;

const GET_CAPITALS: &str = "api GET /v2/load_balancers/LB-1";

fn capitals() -> Service {
    let mut service = service(&[(names::ID, "LB-1")]);
    service.ingress = both();
    service
}

#[test]
fn the_id_of_a_load_balancer_is_the_same_in_any_case() {
    let has = balancer("lb-1");
    let cloud = FakeCloud::new().always(LIST, many(std::slice::from_ref(&has))).always(GET_CAPITALS, one(&has));
    for done in [ensure(&config(), &capitals(), &nodes()), update_backends(&config(), &capitals(), &nodes())] {
        assert_eq!((addresses(&done), written(&done), reasons(&done)), (both(), vec![], vec![]));
    }
    assert_eq!(get(&config(), &capitals()), Ok(Some(both())));
    assert_eq!(routes(&cloud), [GET_CAPITALS, LIST, LIST]);
    let wish = Wish { service: capitals(), backends: vec![0, 1] };
    assert_eq!(standings(&config(), &[wish]), [Standing::InStep(both())]);
    let cloud = cloud.on(DELETE, Reply::status(204));
    let done = delete(&config(), &capitals());
    assert_eq!((done.outcome.failure.clone(), written(&done)), (None, vec![(names::ID, None)]));
    assert_eq!(deletes(&cloud), [DELETE]);
}

#[test]
fn after_a_write_the_one_in_capitals_is_looked_at_closely_too() {
    let has = changed("lb-1", json!({"droplet_ids": []}));
    let cloud = FakeCloud::new().on(LIST, many(&[has])).on(PUT, one(&balancer("lb-1")));
    assert_eq!(addresses(&update_backends(&config(), &capitals(), &nodes())), both());
    let cloud = cloud.on(GET_CAPITALS, one(&balancer("lb-1")));
    assert_eq!(addresses(&update_backends(&config(), &capitals(), &nodes())), both());
    assert_eq!(routes(&cloud), [LIST, PUT, GET_CAPITALS]);
}

#[test]
fn an_answer_about_another_one_is_still_none() {
    let _cloud = FakeCloud::new().on(GET_CAPITALS, one(&balancer("lb-2")));
    assert_eq!(failure(&ensure(&config(), &capitals(), &nodes())).0, Reaction::Retry);
}

/// One that differs in case alone would be written with each look.
#[test]
fn the_id_of_a_certificate_is_the_same_in_any_case() {
    let rule = json!({"entry_protocol": "https", "entry_port": 80, "target_protocol": "http", "target_port": 30000,
        "certificate_id": "c-1"});
    let annotations = [(names::TYPE, "REGIONAL"), (names::CERTIFICATE_ID, "C-1"), (names::PROTOCOL, "https")];
    let service = settled_service(&annotations);
    let has = changed("lb-1", json!({"type": "REGIONAL", "forwarding_rules": [rule]}));
    let cloud = FakeCloud::new().always(GET, one(&has));
    let done = ensure(&config(), &service, &nodes());
    assert_eq!((done.outcome.failure, done.outcome.changes), (None, vec![]));
    assert_eq!(routes(&cloud), [GET]);
}

/// As of a copy from a terminal. Once it was as if there were no ID, and a second load balancer was bought.
#[test]
fn blanks_around_the_id_of_a_load_balancer_do_not_count() {
    let service = service(&[(names::ID, " lb-1\n")]);
    let has = changed("lb-1", json!({"name": "other"}));
    let cloud = FakeCloud::new().always(LIST, many(std::slice::from_ref(&has))).on(PUT, one(&balancer("lb-1")));
    let done = ensure(&config(), &service, &nodes());
    assert_eq!((addresses(&done), routes(&cloud)), (both(), vec![LIST.to_owned(), PUT.to_owned()]));
    // Others compare it as it is written.
    assert_eq!((written(&done), reasons(&done)), (vec![(names::ID, Some("lb-1"))], vec![]));
    let _cloud = cloud.on(GET, one(&balancer("lb-1")));
    assert_eq!(get(&config(), &Service { ingress: both(), ..service }), Ok(Some(both())));
}

#[test]
fn an_id_that_can_be_none_buys_no_load_balancer() {
    for id in ["../account", "lb 1", "https://cloud.digitalocean.com/networking/load_balancers/lb-1"] {
        let service = service(&[(names::ID, id)]);
        let cloud = FakeCloud::new().always(LIST, many(&[]));
        for (service, asked) in [(service.clone(), 1), (Service { ingress: both(), ..service.clone() }, 2)] {
            let done = ensure(&config(), &service, &nodes());
            let failure = done.outcome.failure.as_ref().expect("it is wrong");
            let field = format!("metadata.annotations[{}]", names::ID);
            assert_eq!((failure.reaction, failure.field.as_ref()), (Reaction::Invalid, Some(&field)));
            assert!(failure.message.contains(id), "{}", failure.message);
            assert_eq!((written(&done), routes(&cloud)), (vec![], vec![LIST.to_owned(); asked]));
        }
        // What has its name is its own, and its ID is written instead.
        for change in [ensure, update_backends] {
            let _cloud = FakeCloud::new().on(LIST, many(&[balancer("lb-1")]));
            let done = change(&config(), &Service { ingress: both(), ..service.clone() }, &nodes());
            assert_eq!((addresses(&done), written(&done)), (both(), vec![(names::ID, Some("lb-1"))]));
            let [(IGNORED, message)] = done.warnings.as_slice() else { panic!("{done:?}") };
            assert!(message.contains(id) && message.contains("lb-1"), "{message}");
        }
    }
}

/// One without address: it is being made, or is of network INTERNAL. Once its Service failed for ever.
#[test]
fn a_wrong_id_is_replaced_also_while_the_load_balancer_has_no_address() {
    let wrong = service(&[(names::ID, "https://x")]);
    let new = changed("lb-1", json!({"status": "new", "ip": "", "ipv6": ""}));
    let internal = changed("lb-1", json!({"network": "INTERNAL", "ip": "", "ipv6": "", "network_stack": "IPV4"}));
    for (has, expected) in [(balancer("lb-1"), None), (new, Some(Reaction::Pending)), (internal, Some(Reaction::Retry))]
    {
        for change in [ensure, update_backends] {
            let cloud = FakeCloud::new().on(LIST, many(std::slice::from_ref(&has)));
            let done = change(&config(), &wrong, &nodes());
            assert_eq!(done.outcome.failure.as_ref().map(|failure| failure.reaction), expected, "{has}");
            assert_eq!(written(&done), [(names::ID, Some("lb-1"))]);
            let told = done.warnings.iter().find(|(reason, _)| *reason == IGNORED).map(|(_, message)| &**message);
            assert!(told.is_some_and(|told| told.contains("https://x") && told.contains("lb-1")), "{done:?}");
            // With that on the Service, nothing is written any more.
            let cloud = cloud.on(LIST, many(std::slice::from_ref(&has)));
            let done = change(&config(), &service(&[(names::ID, "lb-1")]), &nodes());
            assert!(written(&done).is_empty() && done.outcome.changes.is_empty(), "{done:?}");
            assert!(routes(&cloud).iter().all(|line| line == LIST), "{:?}", cloud.lines());
        }
    }
}
