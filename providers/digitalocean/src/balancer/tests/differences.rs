//! What differs of a load balancer that exists, and what only looks so.

use super::*;
use crate::service_spec::tests::port;

#[test]
fn cookies_differ_in_name_and_lifetime_and_what_is_kept_of_former_ones_does_not() {
    let rule = json!({"entry_protocol": "http", "entry_port": 80, "target_protocol": "http", "target_port": 30000});
    let cookies = [(names::STICKY_TYPE, "cookies"), (names::STICKY_NAME, "DO-CCM"), (names::STICKY_TTL, "300")];
    for (annotations, kind, name, ttl, differs) in [
        (&cookies[..], "cookies", "DO-CCM", 300, false),
        (&cookies[..], "cookies", "other", 300, true),
        (&cookies[..], "cookies", "DO-CCM", 60, true),
        (&cookies[..], "none", "DO-CCM", 300, true),
        (&[], "cookies", "DO-CCM", 300, true),
        (&[], "none", "DO-CCM", 300, false),
    ] {
        let sticky = json!({"type": kind, "cookie_name": name, "cookie_ttl_seconds": ttl});
        let has =
            changed("lb-1", json!({"type": "REGIONAL", "forwarding_rules": [rule.clone()], "sticky_sessions": sticky}));
        let annotations = [annotations, &[(names::PROTOCOL, "http")]].concat();
        let cloud = FakeCloud::new().on(GET, one(&has)).on(PUT, one(&has));
        let done = ensure(&config(), &settled_service(&annotations), &nodes());
        let changes: &[&str] = if differs { &["changed lb-1: sticky sessions"] } else { &[] };
        assert_eq!(done.outcome.changes, changes, "{has}");
        assert_eq!(routes(&cloud).len(), 1 + changes.len());
    }
}

#[test]
fn a_port_that_comes_goes_or_leads_elsewhere_is_written_and_the_order_of_ports_is_not() {
    let passed = |port: u16, target: u16| json!({"entry_protocol": "tcp", "entry_port": port, "target_protocol": "tcp", "target_port": target});
    let (http, https) = (passed(80, 80), passed(443, 443));
    for (has, ports, differs) in [
        (json!([http]), vec![80, 443], true),
        (json!([http, https]), vec![80], true),
        (json!([http, passed(443, 8443)]), vec![80, 443], true),
        (json!([https, http]), vec![80, 443], false),
    ] {
        let has = changed("lb-1", json!({ "forwarding_rules": has }));
        let mut service = settled_service(&[]);
        service.ports = ports.into_iter().map(|number| port(number, 30_000)).collect();
        let cloud = FakeCloud::new().on(GET, one(&has)).on(PUT, one(&has));
        let done = ensure(&config(), &service, &nodes());
        let changes: &[&str] = if differs { &["changed lb-1: forwarding rules"] } else { &[] };
        assert_eq!(done.outcome.changes, changes, "{has}");
        assert_eq!(routes(&cloud).len(), 1 + changes.len());
    }
}

#[test]
fn each_part_of_the_health_check_is_written_where_it_differs_and_what_has_no_effect_is_not() {
    // The Service checks a port of its own by this protocol and with this path, or nothing of that.
    let asks = |protocol: &'static str, path: &'static str| {
        vec![(names::OVERRIDE_HEALTH_CHECK, ""), (names::HEALTH_PROTOCOL, protocol), (names::HEALTH_PATH, path)]
    };
    let own = |protocol: &str, path: &str| json!({"protocol": protocol, "port": 30_080, "path": path, "proxy_protocol": null});
    for (annotations, changes, differs) in [
        (vec![], json!({}), false),
        (vec![], json!({"protocol": "https"}), true),
        (vec![], json!({"port": 10_257}), true),
        (vec![], json!({"path": "/"}), true),
        (vec![], json!({"check_interval_seconds": 10}), true),
        (vec![], json!({"response_timeout_seconds": 3}), true),
        (vec![], json!({"healthy_threshold": 3}), true),
        (vec![], json!({"unhealthy_threshold": 5}), true),
        (vec![], json!({"proxy_protocol": true}), true),
        (vec![], json!({"proxy_protocol": null}), false),
        (asks("http", ""), own("http", "/"), false),
        (asks("http", "/"), own("http", ""), false),
        (asks("http", "/a"), own("http", "/"), true),
        (asks("tcp", "/a"), own("tcp", "/"), false),
        // The load balancer decides about the PROXY protocol.
        (asks("http", ""), json!({"port": 30_080, "path": "", "proxy_protocol": true}), false),
    ] {
        let mut check = balancer("lb-1")["health_check"].clone();
        changes.as_object().into_iter().flatten().for_each(|(name, value)| check[name] = value.clone());
        let has = changed("lb-1", json!({ "health_check": check }));
        let service = Service { ports: vec![port(80, 30_080)], ..settled_service(&annotations) };
        let cloud = FakeCloud::new().on(GET, one(&has)).on(PUT, one(&has));
        let done = ensure(&config(), &service, &nodes());
        let changes: &[&str] = if differs { &["changed lb-1: health check"] } else { &[] };
        assert_eq!(done.outcome.changes, changes, "{has}");
        assert_eq!(routes(&cloud).len(), 1 + changes.len());
    }
}

/// As Terraform makes some. Whatever had got that tag next would have been behind it as well, until something else differed.
#[test]
fn one_whose_droplets_a_tag_chooses_gets_those_of_the_nodes() {
    let has = changed("lb-1", json!({ "tag": "workers" }));
    for change in [ensure, update_backends] {
        let listed = many(std::slice::from_ref(&has));
        let cloud = FakeCloud::new().always(GET, one(&has)).always(LIST, listed).on(PUT, one(&balancer("lb-1")));
        let done = change(&config(), &settled_service(&[]), &nodes());
        assert_eq!((addresses(&done), done.outcome.changes), (both(), vec!["changed lb-1: droplets".to_owned()]));
        let body = body(&cloud, 1);
        assert_eq!((body.get("tag"), &body["droplet_ids"]), (None, &json!([100, 101])));
    }
}

/// The droplets follow the Nodes whatever else is wrong. Once one that somebody took away came back with a change alone.
#[test]
fn a_comparison_sees_droplets_that_differ_although_an_annotation_is_wrong() {
    for (changes, differs) in [
        (json!({ "droplet_ids": [100] }), true),
        (json!({ "droplet_ids": [101, 100] }), false),
        (json!({ "droplet_ids": [100], "status": "new" }), false),
    ] {
        let _cloud = FakeCloud::new().on(LIST, many(&[changed("lb-1", changes.clone())]));
        let service = settled_service(&[(names::HEALTH_INTERVAL, "soon")]);
        let standing = standings(&config(), &[Wish { service, backends: vec![0, 1] }]).remove(0);
        match standing {
            Standing::Differs(what) => assert_eq!((what, differs), (vec!["droplets".to_owned()], true), "{changes}"),
            Standing::Unknown(failure) => {
                assert_eq!((failure.reaction, differs), (Reaction::Invalid, false), "{changes}")
            }
            other => panic!("{changes}: {other:?}"),
        }
    }
}
