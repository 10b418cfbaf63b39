//! What a new load balancer is asked to be.

use super::*;
use crate::service_spec::tests::{port, udp};

/// The body that a new one is made with.
fn sent(annotations: &[(&str, &str)], ports: &[ccm_sdk::types::ServicePort]) -> Value {
    let service = Service { ports: ports.to_vec(), ..service(annotations) };
    let cloud = FakeCloud::new().on(LIST, many(&[])).on(POST, one(&balancer("lb-1")));
    let done = ensure(&config(), &service, &nodes());
    assert_eq!((addresses(&done), done.warnings), (both(), vec![]));
    assert_eq!(routes(&cloud), [LIST, POST]);
    body(&cloud, 1)
}

/// Of a rule: protocol, port, protocol, port, certificate.
fn rule(entry: &str, entry_port: u16, target: &str, target_port: u16, certificate: Option<&str>) -> Value {
    let mut rule = json!({ "entry_protocol": entry, "entry_port": entry_port, "target_protocol": target, "target_port": target_port });
    if let Some(certificate) = certificate {
        rule["certificate_id"] = json!(certificate);
    }
    rule
}

#[test]
fn do_047_141_142_a_new_one_is_made_once_and_its_id_written_at_once() {
    for tag in [Some("k8s:c-1"), None] {
        let config = Config { tag: tag.map(str::to_owned), vpc: Some("v-1".to_owned()), ..config() };
        let cloud = FakeCloud::new()
            .on(LIST, many(&[]))
            .on(POST, one(&changed("lb-1", json!({"status": "new", "ip": "", "ipv6": null}))));
        let done = ensure(&config, &service(&[]), &nodes());
        assert_eq!(failure(&done), (Reaction::Pending, Some(2_000)));
        assert_eq!(written(&done), [(names::ID, Some("lb-1"))]);
        assert_eq!(done.outcome.changes, ["created REGIONAL_NETWORK lb-1"]);
        let mut expected = json!({
            "name": "aservice123", "algorithm": "round_robin", "region": "nyc3", "type": "REGIONAL_NETWORK",
            "forwarding_rules": [rule("tcp", 80, "tcp", 80, None)],
            "health_check": { "protocol": "http", "port": 10256, "path": "/healthz", "check_interval_seconds": 3,
                "response_timeout_seconds": 5, "healthy_threshold": 5, "unhealthy_threshold": 3, "proxy_protocol": false },
            "sticky_sessions": { "type": "none" }, "droplet_ids": [100, 101], "vpc_uuid": "v-1",
            "disable_lets_encrypt_dns_records": false, "firewall": {}, "network": "EXTERNAL", "network_stack": "DUALSTACK"
        });
        if let Some(tag) = tag {
            expected["tags"] = json!([tag]);
        }
        assert_eq!((routes(&cloud), body(&cloud, 1)), (vec![LIST.to_owned(), POST.to_owned()], expected));
    }
}

#[test]
fn do_266_the_delay_is_seen_although_annotations_changed() {
    let new = changed("lb-1", json!({"status": "new", "ip": ""}));
    let _cloud = FakeCloud::new().on(LIST, many(&[])).on(POST, one(&new));
    let done = ensure(&config(), &service(&[]), &nodes());
    assert_eq!((written(&done).len(), failure(&done)), (1, (Reaction::Pending, Some(2_000))));
}

#[test]
fn do_132_a_plain_one_with_http_has_no_more_than_it_needs() {
    let expected = json!({
        "name": "aservice123", "algorithm": "round_robin", "region": "nyc3", "type": "REGIONAL",
        "forwarding_rules": [rule("http", 80, "http", 30000, None)],
        "health_check": { "protocol": "http", "port": 10256, "path": "/healthz", "check_interval_seconds": 3,
            "response_timeout_seconds": 5, "healthy_threshold": 5, "unhealthy_threshold": 3, "proxy_protocol": false },
        "sticky_sessions": { "type": "none" }, "droplet_ids": [100, 101],
        "disable_lets_encrypt_dns_records": false, "firewall": {}, "network": "EXTERNAL", "network_stack": "DUALSTACK"
    });
    assert_eq!(sent(&[(names::TYPE, "REGIONAL"), (names::PROTOCOL, "http")], &[port(80, 30_000)]), expected);
}

#[test]
fn everything_that_is_asked_for_is_sent() {
    let regional = (names::TYPE, "REGIONAL");
    let certificate = (names::CERTIFICATE_ID, "c-1");
    let protocol = |protocol| (names::PROTOCOL, protocol);
    let tls = (names::TLS_PORTS, "443");
    let cookies = [(names::STICKY_TYPE, "cookies"), (names::STICKY_NAME, "DO-CCM"), (names::STICKY_TTL, "300")];
    let cookie = json!({ "type": "cookies", "cookie_name": "DO-CCM", "cookie_ttl_seconds": 300 });
    let redirect = (names::REDIRECT, "true");
    let http2 = json!([rule("http2", 80, "http", 30000, Some("c-1"))]);
    let beside_udp = json!([rule("udp", 443, "udp", 30001, None), rule("http2", 80, "http", 30000, Some("c-1"))]);
    let http = json!([rule("http", 80, "http", 30000, None)]);
    let secured = json!([rule("http", 80, "http", 30000, None), rule("https", 443, "http", 30001, Some("c-1"))]);
    let p80 = || vec![port(80, 30_000)];
    let both = || vec![port(80, 30_000), port(443, 30_001)];
    let with_udp = vec![udp(443, 30_001), port(80, 30_000)];
    for (case, annotations, ports, field, expected) in [
        ("do_133", vec![protocol("http2"), certificate], p80(), "forwarding_rules", http2),
        ("do_134", vec![protocol("http2"), certificate], with_udp, "forwarding_rules", beside_udp),
        ("do_135", vec![(names::ALGORITHM, "least_connections")], p80(), "algorithm", json!("least_connections")),
        ("do_136", vec![(names::SIZE_SLUG, "lb-medium")], p80(), "size", json!("lb-medium")),
        ("do_136", vec![(names::SIZE_UNIT, "2")], p80(), "size_unit", json!(2)),
        ("do_138", [&cookies[..], &[protocol("http")]].concat(), p80(), "sticky_sessions", cookie.clone()),
        ("do_138", [&cookies[..], &[protocol("http")]].concat(), p80(), "forwarding_rules", http),
        ("do_138", [&cookies[..], &[protocol("http"), tls, certificate]].concat(), both(), "sticky_sessions", cookie),
        (
            "do_138",
            [&cookies[..], &[protocol("http"), tls, certificate]].concat(),
            both(),
            "forwarding_rules",
            secured.clone(),
        ),
        ("do_129", vec![(names::STICKY_TYPE, "none")], p80(), "sticky_sessions", json!({ "type": "none" })),
        ("do_139", vec![redirect, protocol("http"), tls, certificate], both(), "redirect_http_to_https", json!(true)),
        ("do_139", vec![redirect, protocol("http"), tls, certificate], both(), "forwarding_rules", secured),
        ("do_140", vec![(names::NO_DNS_RECORDS, "true")], p80(), "disable_lets_encrypt_dns_records", json!(true)),
        ("2.4", vec![(names::PROXY_PROTOCOL, "true")], p80(), "enable_proxy_protocol", json!(true)),
        ("2.4", vec![(names::KEEPALIVE, "true")], p80(), "enable_backend_keepalive", json!(true)),
        ("2.4", vec![(names::IDLE_TIMEOUT, "120")], p80(), "http_idle_timeout_seconds", json!(120)),
        ("2.5", vec![(names::DENY_RULES, "ip:1.2.3.4")], p80(), "firewall", json!({ "deny": ["ip:1.2.3.4"] })),
        ("2.1", vec![(names::NAME, "shop")], p80(), "name", json!("shop")),
    ] {
        let annotations: Vec<_> = annotations.into_iter().chain([regional]).collect();
        assert_eq!(sent(&annotations, &ports)[field], expected, "{case}: {field}");
    }
    // The override leaves the PROXY protocol of the check to the load balancer.
    let check = &sent(&[(names::OVERRIDE_HEALTH_CHECK, "")], &p80())["health_check"];
    assert_eq!((&check["protocol"], check.get("path"), check.get("proxy_protocol")), (&json!("tcp"), None, None));
}

#[test]
fn do_052_053_054_an_address_of_ones_own_is_for_a_new_one_and_a_subnet_for_all() {
    let p80 = [port(80, 30_000)];
    let own = [(names::IP, " 203.0.113.5"), (names::SUBNET, " s-1 ")];
    let made = sent(&own, &p80);
    assert_eq!((&made["ip"], &made["subnet_uuid"]), (&json!("203.0.113.5"), &json!("s-1")));
    let made = sent(&own[1..], &p80);
    assert_eq!((made.get("ip"), &made["subnet_uuid"]), (None, &json!("s-1")));
    let cloud =
        FakeCloud::new().on(GET, one(&changed("lb-1", json!({"droplet_ids": []})))).on(PUT, one(&balancer("lb-1")));
    ensure(&config(), &settled_service(&own), &nodes());
    let changed = body(&cloud, 1);
    assert_eq!((changed.get("ip"), &changed["subnet_uuid"]), (None, &json!("s-1")));
}

/// It was sent with the next change of something else, and nobody heard why the address moved, or did not.
#[test]
fn another_subnet_of_one_that_exists_is_told_and_changes_nothing() {
    let asks = settled_service(&[(names::SUBNET, "s-2")]);
    let warnings = |done: &Done| done.warnings.iter().map(|(reason, told)| (*reason, told.clone())).collect::<Vec<_>>();
    let cloud = FakeCloud::new().on(GET, one(&changed("lb-1", json!({"subnet_uuid": "s-1"}))));
    let done = ensure(&config(), &asks, &nodes());
    let told = warnings(&done);
    let [(IMMUTABLE, message)] = told.as_slice() else { panic!("{told:?}") };
    assert!([names::SUBNET, "s-1", "s-2"].iter().all(|words| message.contains(words)), "{message}");
    assert_eq!((addresses(&done), routes(&cloud)), (both(), vec![GET.to_owned()]));
    // With the next change it keeps what it has, also where nothing is asked for.
    let differs = one(&changed("lb-1", json!({"subnet_uuid": "s-1", "droplet_ids": []})));
    for service in [asks.clone(), settled_service(&[])] {
        let cloud = FakeCloud::new().on(GET, differs.clone()).on(PUT, one(&balancer("lb-1")));
        ensure(&config(), &service, &nodes());
        assert_eq!(body(&cloud, 1)["subnet_uuid"], "s-1");
    }
    // The same one, and one of which nothing is told.
    for (has, count) in [(json!("S-2"), 0), (json!(null), 1)] {
        let cloud = FakeCloud::new().on(GET, one(&changed("lb-1", json!({"subnet_uuid": has}))));
        assert_eq!(warnings(&ensure(&config(), &asks, &nodes())).len(), count, "{has}");
        assert_eq!(routes(&cloud), [GET]);
    }
}

#[test]
fn do_259_nodes_that_are_ready_are_written_and_those_that_are_not_do_not_wait() {
    for (has, change) in
        [(json!([]), ensure as fn(&Config, &Service, &[Backend]) -> Done), (json!([9]), update_backends)]
    {
        let differs = changed("lb-1", json!({ "droplet_ids": has }));
        let cloud = FakeCloud::new()
            .always(GET, one(&differs))
            .always(LIST, many(std::slice::from_ref(&differs)))
            .on(PUT, one(&balancer("lb-1")));
        let done = change(&config(), &settled_service(&[]), &[backend(100, &["e4", "e6"]), backend(101, &[])]);
        assert_eq!((addresses(&done), body(&cloud, 1)["droplet_ids"].clone()), (both(), json!([100])));
    }
}

#[test]
fn do_263_a_private_node_among_others_is_left_out_for_good_and_no_further_look_is_asked_for() {
    let has = changed("lb-1", json!({ "droplet_ids": [100] }));
    let cloud = FakeCloud::new().on(GET, one(&has));
    let done = ensure(&config(), &settled_service(&[]), &[backend(100, &["e4", "e6"]), backend(101, &["i4"])]);
    assert_eq!((addresses(&done), done.warnings, routes(&cloud)), (both(), vec![], vec![GET.to_owned()]));
}

#[test]
fn do_264_a_node_with_its_private_address_alone_serves_where_that_is_enough() {
    let new = [backend(100, &["i4"]), backend(101, &["i4"])];
    for annotations in [[(names::TYPE, "REGIONAL")], [(names::NETWORK, "INTERNAL")]] {
        let cloud = FakeCloud::new().on(LIST, many(&[])).on(POST, one(&balancer("lb-1")));
        let done = ensure(&config(), &service(&annotations), &new);
        assert_eq!((addresses(&done), body(&cloud, 1)["droplet_ids"].clone()), (both(), json!([100, 101])));
    }
}

#[test]
fn do_035_nodes_without_droplet_are_left_out_and_named_in_one_event() {
    let mut backends = nodes();
    for id in [5, 3, 4, 1] {
        backends.push(Backend { provider_id: None, ..backend(id, &["e4", "e6"]) });
    }
    let none = Reply::json(200, r#"{"droplets": [], "meta": {"total": 0}}"#);
    let cloud =
        FakeCloud::new().on(LIST, many(&[])).always("api GET /v2/droplets", none).on(POST, one(&balancer("lb-1")));
    let done = ensure(&config(), &service(&[]), &backends);
    let told = "Failed to find droplets for nodes: n1, n3, n4 [+1 more]".to_owned();
    assert_eq!((addresses(&done), done.warnings), (both(), vec![(WITHOUT_DROPLET, told)]));
    assert_eq!(body(&cloud, cloud.requests().len() - 1)["droplet_ids"], json!([100, 101]));
}
