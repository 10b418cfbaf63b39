//! Answers that say nothing, or are about something else, are not believed.

use super::*;

fn bare(field: &str, items: &[Value]) -> Reply {
    Reply::json(200, json!({ field: items }).to_string())
}

/// By the API's description each listing has its length. One without may be cut, or of somebody on the way.
#[test]
fn a_listing_that_does_not_say_how_long_it_is_is_none() {
    let others: Vec<Value> = (0..3).map(|at| changed(&format!("o-{at}"), json!({"name": "other"}))).collect();
    for listed in [&[][..], &others] {
        for reply in [
            bare("load_balancers", listed),
            Reply::json(200, json!({ "load_balancers": listed, "meta": {} }).to_string()),
            Reply::json(200, json!({ "load_balancers": listed, "meta": null }).to_string()),
        ] {
            let cloud = FakeCloud::new().always(LIST, reply);
            for service in [service(&[]), named()] {
                assert_eq!(failure(&ensure(&config(), &service, &nodes())).0, Reaction::Retry);
                assert_eq!(failure(&delete(&config(), &service)).0, Reaction::Retry);
                assert!(get(&config(), &service).is_err());
            }
            assert!(routes(&cloud).iter().all(|line| line == LIST), "{:?}", routes(&cloud));
        }
    }
}

#[test]
fn an_answer_about_another_load_balancer_is_none() {
    let other = balancer("lb-9");
    let cloud = FakeCloud::new().always(LIST, many(&[])).always(GET, one(&other));
    let service = settled_service(&[]);
    for done in [ensure(&config(), &service, &nodes()), update_backends(&config(), &service, &nodes())] {
        assert_eq!((failure(&done).0, written(&done)), (Reaction::Retry, vec![]));
    }
    assert_eq!(failure(&delete(&config(), &service)).0, Reaction::Retry);
    assert!(get(&config(), &service).is_err());
    assert!(routes(&cloud).iter().all(|line| line.starts_with("api GET")), "{:?}", routes(&cloud));
    // What came of a change is not known then.
    let differs = changed("lb-1", json!({"droplet_ids": [100]}));
    let _cloud = FakeCloud::new().on(GET, one(&differs)).on(PUT, one(&other));
    let done = ensure(&config(), &service, &nodes());
    assert_eq!((failure(&done).0, done.outcome.ingress), (Reaction::Retry, vec![]));
}

/// The one that a load balancer has decides which one it should have.
#[test]
fn an_answer_about_another_certificate_is_none() {
    let service_spec = [(names::TYPE, "REGIONAL"), (names::TLS_PORTS, "80"), (names::CERTIFICATE_ID, "c-2")];
    let mut has = changed("lb-1", json!({"type": "REGIONAL"}));
    has["forwarding_rules"][0]["certificate_id"] = json!("c-1");
    let other = json!({ "certificate": { "id": "c-9", "name": "n", "type": "lets_encrypt", "state": "verified" } });
    let cloud = FakeCloud::new().always(GET, one(&has)).always(PUT, one(&has));
    let cloud = cloud.always("api GET /v2/certificates/c-1", Reply::json(200, other.to_string()));
    let cloud = cloud.always("api GET /v2/certificates/c-2", not_found());
    assert_eq!(failure(&ensure(&config(), &settled_service(&service_spec), &nodes())).0, Reaction::Retry);
    assert!(!routes(&cloud).contains(&PUT.to_owned()));
}

/// An untold load balancer is taken since the Service's tag is there.
#[test]
fn an_answer_about_another_tag_is_none() {
    let mut has = changed("lb-1", json!({"name": "my-lb"}));
    has.as_object_mut().expect("an object").remove("tags");
    let look = "api GET /v2/tags/wasm-ccm-service%3Aservice-123%3Adefault%3Atest";
    for body in ["{}", r#"{"tag": {"name": "x"}}"#, "<html></html>"] {
        let cloud =
            FakeCloud::new().always(LIST, many(std::slice::from_ref(&has))).always(look, Reply::json(200, body));
        assert_eq!(failure(&ensure(&config(), &named(), &nodes())).0, Reaction::Conflict, "{body}");
        assert!(routes(&cloud).contains(&look.to_owned()));
    }
}
