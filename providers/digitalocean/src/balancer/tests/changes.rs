//! Load balancers that exist.

use super::*;

fn is_one_write(has: &Value, what: &str) {
    let cloud = FakeCloud::new().on(GET, one(has)).on(PUT, one(&balancer("lb-1")));
    let done = ensure(&config(), &settled_service(&[]), &nodes());
    assert_eq!((addresses(&done), &done.outcome.changes), (both(), &vec![format!("changed lb-1: {what}")]));
    assert_eq!(routes(&cloud), [GET, PUT]);
    assert_eq!(body(&cloud, 1)["droplet_ids"], json!([100, 101]));
    assert_eq!(body(&cloud, 1).get("tags"), None);
}

fn costs_no_write(has: &Value) {
    let cloud = FakeCloud::new().on(GET, one(has));
    let done = ensure(&config(), &settled_service(&[]), &nodes());
    assert_eq!((addresses(&done), routes(&cloud)), (both(), vec![GET.to_owned()]));
}

#[test]
fn a_difference_is_one_write_of_the_whole() {
    for (has, what) in [
        (json!({"droplet_ids": [100]}), "droplets"),
        (json!({"forwarding_rules": []}), "forwarding rules"),
        (json!({"health_check": null}), "health check"),
        (json!({"firewall": {"allow": ["ip:1.2.3.4"]}}), "who is let in"),
        (json!({"firewall": {"deny": ["ip:1.2.3.4"]}}), "who is kept out"),
    ] {
        is_one_write(&changed("lb-1", has), what);
    }
}

#[test]
fn what_only_regional_ones_have_differs_there_alone() {
    let rule = json!({"entry_protocol": "tcp", "entry_port": 80, "target_protocol": "tcp", "target_port": 30000});
    let cookies = json!({"type": "cookies", "cookie_name": "x", "cookie_ttl_seconds": 1});
    for (has, what) in [
        (json!({"sticky_sessions": cookies}), "sticky sessions"),
        (json!({"redirect_http_to_https": true}), "redirect to HTTPS"),
        (json!({"enable_proxy_protocol": true}), "PROXY protocol"),
        (json!({"enable_backend_keepalive": true}), "keepalive"),
        (json!({"disable_lets_encrypt_dns_records": true}), "DNS records"),
        (json!({"http_idle_timeout_seconds": 90}), "idle time-out"),
    ] {
        let mut regional = changed("lb-1", has.clone());
        regional["type"] = json!("REGIONAL");
        regional["forwarding_rules"] = json!([rule]);
        is_one_write(&regional, what);
        costs_no_write(&changed("lb-1", has));
    }
}

#[test]
fn what_the_cloud_does_not_tell_or_tells_otherwise_does_not_differ() {
    for has in [
        json!({"http_idle_timeout_seconds": null}),
        json!({"size_unit": 5, "size": "lb-large", "algorithm": "least_connections"}),
        json!({"firewall": null, "sticky_sessions": null}),
        json!({"health_check": {"protocol": "http", "port": 10256, "path": "/healthz", "check_interval_seconds": 3,
            "response_timeout_seconds": 5, "healthy_threshold": 5, "unhealthy_threshold": 3}}),
        json!({"vpc_uuid": "v-1", "network_stack": "IPV4", "project_id": "p"}),
    ] {
        costs_no_write(&changed("lb-1", has));
    }
}

#[test]
fn who_is_let_in_does_not_differ_for_the_way_it_is_written() {
    let service_spec = [
        (names::ALLOW_RULES, "cidr:10.1.2.3/8,ip:2604:A880::1,cidr:2001:DB8::1/32"),
        (names::DENY_RULES, "ip:2604:a880:0:0::2"),
        (names::TYPE, "REGIONAL_NETWORK"),
        (names::SIZE_UNIT, "1"),
    ];
    let firewall = |network: &str| json!({ "firewall": { "allow": ["ip:2604:a880::1", network, "cidr:2001:db8::/32"], "deny": ["ip:2604:A880::2"] } });
    let cloud = FakeCloud::new().on(GET, one(&changed("lb-1", firewall("cidr:10.0.0.0/8"))));
    let done = ensure(&config(), &settled_service(&service_spec), &nodes());
    assert_eq!((addresses(&done), routes(&cloud)), (both(), vec![GET.to_owned()]));
    let cloud =
        FakeCloud::new().on(GET, one(&changed("lb-1", firewall("cidr:10.0.0.0/9")))).on(PUT, one(&balancer("lb-1")));
    let done = ensure(&config(), &settled_service(&service_spec), &nodes());
    assert_eq!(done.outcome.changes, ["changed lb-1: who is let in"]);
    assert_eq!(routes(&cloud), [GET, PUT]);
    // A size that the cloud does not tell.
    let cloud = FakeCloud::new().on(GET, one(&changed("lb-1", json!({ "size": null }))));
    let done = ensure(&config(), &settled_service(&[(names::SIZE_SLUG, "lb-small")]), &nodes());
    assert_eq!((addresses(&done), routes(&cloud)), (both(), vec![GET.to_owned()]));
}

#[test]
fn a_size_is_compared_in_the_words_that_the_cloud_has_for_it() {
    for (service_spec, has, differs) in [
        ((names::SIZE_UNIT, "3"), json!({"size": "lb-medium", "size_unit": null}), false),
        ((names::SIZE_UNIT, "1"), json!({"size": "lb-medium", "size_unit": null}), true),
        // No name tells two units: to write it again would change nothing.
        ((names::SIZE_UNIT, "2"), json!({"size": "lb-small", "size_unit": null}), false),
        ((names::SIZE_UNIT, "2"), json!({"size": null, "size_unit": null}), false),
        ((names::SIZE_UNIT, "2"), json!({"size": "lb-small", "size_unit": 4}), true),
        ((names::SIZE_SLUG, "lb-large"), json!({"size": "", "size_unit": 4}), true),
        ((names::SIZE_SLUG, "lb-large"), json!({"size": null, "size_unit": 6}), false),
        ((names::SIZE_SLUG, "lb-large"), json!({"size": "lb-large", "size_unit": 1}), false),
        ((names::SIZE_SLUG, "lb-large"), json!({"size": null, "size_unit": null}), false),
    ] {
        let cloud = FakeCloud::new().on(GET, one(&changed("lb-1", has.clone()))).on(PUT, one(&balancer("lb-1")));
        let done = ensure(&config(), &settled_service(&[service_spec]), &nodes());
        let changes: &[&str] = if differs { &["changed lb-1: size"] } else { &[] };
        assert_eq!(done.outcome.changes, changes, "{service_spec:?} and {has}");
        assert_eq!(routes(&cloud).len(), 1 + changes.len());
    }
}

#[test]
fn do_050_271_272_nothing_is_written_while_one_is_made_or_after_that_failed() {
    for (status, expected, warned) in [
        ("new", (Reaction::Pending, Some(2_000)), vec![]),
        ("errored", (Reaction::Retry, Some(300_000)), vec![ERRORED_REASON]),
        ("a-word-of-tomorrow", (Reaction::Pending, Some(2_000)), vec![]),
    ] {
        let has = changed("lb-1", json!({"status": status, "ip": "", "ipv6": "", "droplet_ids": []}));
        for change in [ensure, update_backends] {
            let cloud = FakeCloud::new().always(GET, one(&has)).always(LIST, many(std::slice::from_ref(&has)));
            let done = change(&config(), &settled_service(&[]), &nodes());
            assert_eq!(failure(&done), expected, "{status}");
            assert_eq!(done.warnings.iter().map(|(reason, _)| *reason).collect::<Vec<_>>(), warned);
            assert_eq!(cloud.lines().len(), 1);
        }
    }
    let _cloud = FakeCloud::new()
        .on(GET, one(&changed("lb-1", json!({"droplet_ids": []}))))
        .on(PUT, one(&changed("lb-1", json!({"status": "new"}))));
    let done = ensure(&config(), &settled_service(&[]), &nodes());
    assert_eq!(failure(&done), (Reaction::Pending, Some(2_000)));
}

#[test]
fn those_that_wait_for_an_address_share_one_listing() {
    let mut waiting = settled_service(&[]);
    waiting.ingress.clear();
    let cloud = FakeCloud::new().on(LIST, many(&[balancer("lb-1")]));
    assert_eq!(addresses(&ensure(&config(), &waiting, &nodes())), both());
    assert_eq!((routes(&cloud), cloud.requests()[0].share_ms), (vec![LIST.to_owned()], 1_000));
    // Made a moment ago, and not in the listing yet.
    let cloud = FakeCloud::new().on(LIST, many(&[])).on(GET, one(&balancer("lb-1")));
    assert_eq!(addresses(&ensure(&config(), &waiting, &nodes())), both());
    assert_eq!(routes(&cloud), [LIST, GET]);
}

#[test]
fn do_273_a_busy_one_is_looked_at_again_without_alarm() {
    let busy =
        r#"{"id": "forbidden", "message": "Load Balancer can't be updated while it processes previous actions"}"#;
    let _cloud =
        FakeCloud::new().on(GET, one(&changed("lb-1", json!({"droplet_ids": []})))).on(PUT, Reply::json(403, busy));
    let done = ensure(&config(), &settled_service(&[]), &nodes());
    assert_eq!((failure(&done), done.warnings), ((Reaction::Pending, Some(15_000)), vec![]));
}

#[test]
fn do_274_a_missing_certificate_is_no_missing_load_balancer() {
    let with = [(names::TYPE, "REGIONAL"), (names::TLS_PORTS, "80"), (names::CERTIFICATE_ID, "c-9")];
    let has = changed("lb-1", json!({"type": "REGIONAL"}));
    let cloud = FakeCloud::new().always(GET, one(&has)).on(PUT, not_found());
    let done = ensure(&config(), &settled_service(&with), &nodes());
    let told = done.outcome.failure.expect("it is missing");
    assert!(told.message.contains("certificate c-9"), "{}", told.message);
    assert_eq!((told.reaction, told.retry_after_ms), (Reaction::Retry, Some(60_000)));
    assert_eq!(routes(&cloud), [GET, PUT, GET, "api GET /v2/certificates/c-9"]);
    let _cloud = FakeCloud::new().on(LIST, many(&[])).on(POST, not_found());
    let told = ensure(&config(), &service(&with), &nodes()).outcome.failure.expect("it is missing");
    assert!(told.message.contains("certificate c-9"), "{}", told.message);
}

/// Three requests a minute were made for it, for as long as it was missing.
#[test]
fn a_load_balancer_whose_certificate_is_missing_is_asked_for_once() {
    const CERTIFICATE: &str = "api GET /v2/certificates/c-9";
    let with =
        [(names::TYPE, "REGIONAL"), (names::TLS_PORTS, "80"), (names::CERTIFICATE_ID, "c-9"), (names::NAME, "x")];
    let there = || Reply::json(200, r#"{"certificate": {"id": "c-9", "name": "web", "type": "custom"}}"#);
    let cloud = FakeCloud::new()
        .always(LIST, many(&[]))
        .on(POST, not_found())
        .on(CERTIFICATE, not_found())
        .on(CERTIFICATE, not_found())
        .always(CERTIFICATE, there())
        .on(POST, one(&balancer("lb-1")));
    for _ in 0..2 {
        let done = ensure(&config(), &service(&with), &nodes());
        let told = done.outcome.failure.expect("it is missing");
        assert_eq!((told.reaction, told.retry_after_ms), (Reaction::Retry, Some(60_000)));
        assert!(told.message.contains("certificate c-9"), "{}", told.message);
    }
    assert_eq!(routes(&cloud), [LIST, POST, CERTIFICATE, LIST, CERTIFICATE]);
    assert_eq!(addresses(&ensure(&config(), &service(&with), &nodes())), both());
    assert_eq!(routes(&cloud)[5..], [LIST, CERTIFICATE, POST]);

    // One that exists is not written either, and its droplets follow the Nodes.
    let has = changed("lb-1", json!({"type": "REGIONAL", "droplet_ids": [100, 9]}));
    let cloud = FakeCloud::new()
        .always(GET, one(&has))
        .on(PUT, not_found())
        .always(CERTIFICATE, not_found())
        .always(DROPLETS_MORE, Reply::status(204))
        .always(DROPLETS_LESS, Reply::status(204));
    for _ in 0..2 {
        let done = ensure(&config(), &settled_service(&with[..3]), &nodes());
        assert_eq!(failure(&done), (Reaction::Retry, Some(60_000)));
        assert_eq!(done.outcome.changes, ["changed lb-1: droplets"]);
    }
    let follow = [DROPLETS_MORE, DROPLETS_LESS];
    assert_eq!(routes(&cloud), [&[GET, PUT, GET, CERTIFICATE][..], &follow, &[GET, CERTIFICATE], &follow].concat());
}

const DROPLETS_MORE: &str = "api POST /v2/load_balancers/lb-1/droplets";
const DROPLETS_LESS: &str = "api DELETE /v2/load_balancers/lb-1/droplets";

/// Once one wrong annotation kept the next Node out for as long as it was there.
#[test]
fn a_load_balancer_follows_the_nodes_whatever_is_wrong_with_its_service() {
    let has = changed("lb-1", json!({"type": "REGIONAL", "droplet_ids": [101, 9]}));
    let no = |status| Reply::json(status, r#"{"id": "no", "message": "it cannot be so"}"#);
    let fine: &[(&str, &str)] = &[];
    let cases = WRONG.map(|wrong| (wrong, None)).into_iter();
    let cases = cases.chain([400, 422].map(|status| (fine, Some(status))));
    for (annotations, refused) in cases {
        for change in [ensure, update_backends] {
            let mut cloud = FakeCloud::new()
                .always(GET, one(&has))
                .always(LIST, many(std::slice::from_ref(&has)))
                .on(DROPLETS_MORE, Reply::status(204))
                .on(DROPLETS_LESS, Reply::status(204));
            if let Some(status) = refused {
                cloud = cloud.on(PUT, no(status));
            }
            let done = change(&config(), &settled_service(annotations), &nodes());
            assert_eq!(done.outcome.changes, ["changed lb-1: droplets"], "{annotations:?}");
            let last = cloud.requests().len() - 1;
            assert_eq!(body(&cloud, last - 1), json!({ "droplet_ids": [100] }));
            assert_eq!(body(&cloud, last), json!({ "droplet_ids": [9] }));
            let is_ensure = routes(&cloud)[0] == GET;
            let expected = if refused.is_some() { Reaction::Retry } else { Reaction::Invalid };
            let failed = done.outcome.failure.as_ref().map(|failure| failure.reaction);
            assert_eq!(failed, is_ensure.then_some(expected), "{annotations:?}");
            assert!(is_ensure || done.warnings.iter().any(|(reason, _)| *reason == CONFIG_ERROR), "{done:?}");
        }
    }
    // One that has the droplets is left alone.
    let has = changed("lb-1", json!({"type": "REGIONAL"}));
    let cloud = FakeCloud::new().on(GET, one(&has));
    assert_eq!(failure(&ensure(&config(), &settled_service(WRONG[3]), &nodes())).0, Reaction::Invalid);
    assert_eq!(routes(&cloud), [GET]);
}

/// What the Go manager never reads of them once froze them, and the next Node was never added.
#[test]
fn annotations_that_only_regional_ones_read_stop_no_other() {
    let wrong =
        [(names::PROTOCOL, "http3"), (names::HTTP_PORTS, "a"), (names::HTTP3_PORT, "quic"), (names::REDIRECT, "?")];
    let cloud = FakeCloud::new().on(GET, one(&balancer("lb-1")));
    let done = ensure(&config(), &settled_service(&wrong), &nodes());
    assert_eq!((addresses(&done), routes(&cloud)), (both(), vec![GET.to_owned()]));
    assert_eq!(done.warnings.iter().filter(|(reason, _)| *reason == IGNORED).count(), wrong.len());
    // What it is counts, not what is asked for.
    let service_spec: Vec<_> = wrong.into_iter().chain([(names::TYPE, "REGIONAL")]).collect();
    let _cloud = FakeCloud::new().on(GET, one(&balancer("lb-1")));
    assert_eq!(addresses(&ensure(&config(), &settled_service(&service_spec), &nodes())), both());
}

#[test]
fn nodes_of_another_cloud_are_left_out_and_told_and_do_not_empty_a_load_balancer() {
    let foreign = Backend { provider_id: Some("aws:///i-1".to_owned()), ..backend(7, &["e4"]) };
    let cloud = FakeCloud::new().on(GET, one(&balancer("lb-1")));
    let all: Vec<Backend> = nodes().into_iter().chain([foreign.clone()]).collect();
    let done = ensure(&config(), &settled_service(&[]), &all);
    assert_eq!((addresses(&done), done.warnings, routes(&cloud)), (both(), vec![], vec![GET.to_owned()]));
    assert!(done.for_all[0].1.ends_with(": n7 (aws:///i-1)"), "{:?}", done.for_all);
    let cloud = FakeCloud::new().on(GET, one(&balancer("lb-1")));
    assert_eq!(addresses(&ensure(&config(), &settled_service(&[]), &[foreign])), both());
    assert_eq!(routes(&cloud), [GET]);
}

#[test]
fn one_that_goes_between_look_and_change_is_a_conflict() {
    let _cloud = FakeCloud::new()
        .on(GET, one(&changed("lb-1", json!({"droplet_ids": []}))))
        .on(PUT, not_found())
        .on(GET, not_found());
    assert_eq!(failure(&ensure(&config(), &settled_service(&[]), &nodes())).0, Reaction::Conflict);
}

#[test]
fn do_049_276_what_cannot_be_changed_is_told_and_the_annotation_stays() {
    let cloud = FakeCloud::new().on(GET, one(&balancer("lb-1")));
    let service_spec = [(names::TYPE, "REGIONAL"), (names::NETWORK, "INTERNAL"), (names::NETWORK_STACK, "IPV4")];
    let config = Config { vpc: Some("v-2".to_owned()), ..config() };
    let done = ensure(&config, &settled_service(&service_spec), &nodes());
    assert_eq!((addresses(&done), written(&done)), (both(), vec![]));
    let told: Vec<_> = done.warnings.iter().filter(|(reason, _)| *reason == IMMUTABLE).map(|(_, text)| text).collect();
    assert_eq!(told.len(), 3);
    assert!(told[0].contains("asks for REGIONAL, and the load balancer has REGIONAL_NETWORK"), "{told:?}");
    assert_eq!(routes(&cloud), [GET]);
}

#[test]
fn do_277_the_type_of_an_old_one_counts_before_the_default() {
    let has = changed(
        "lb-1",
        json!({"type": "REGIONAL", "droplet_ids": [1], "network_stack": "IPV4",
        "forwarding_rules": [{"entry_protocol": "tcp", "entry_port": 80, "target_protocol": "tcp", "target_port": 30000}]}),
    );
    let _cloud = FakeCloud::new().on(GET, one(&has));
    let done = ensure(&config(), &settled_service(&[]), &[backend(1, &["i4"])]);
    assert_eq!((addresses(&done), done.warnings), (both(), vec![]));
}

#[test]
fn a_global_one_is_not_taken() {
    let _cloud = FakeCloud::new().on(GET, one(&changed("lb-1", json!({"type": "GLOBAL"}))));
    assert_eq!(failure(&ensure(&config(), &settled_service(&[]), &nodes())).0, Reaction::Conflict);
}

#[test]
fn do_260_nodes_without_address_yet_leave_the_droplets_as_they_are() {
    for change in [ensure, update_backends] {
        let cloud = FakeCloud::new().always(GET, one(&balancer("lb-1"))).always(LIST, many(&[balancer("lb-1")]));
        let done = change(&config(), &settled_service(&[]), &[backend(100, &[]), backend(9, &["i4"])]);
        assert_eq!((addresses(&done), cloud.lines().len()), (both(), 1));
        assert_eq!(done.warnings[0].0, CONFIG_ERROR);
    }
}

#[test]
fn without_nodes_a_load_balancer_becomes_empty() {
    let empty = changed("lb-1", json!({"droplet_ids": []}));
    let cloud = FakeCloud::new().on(LIST, many(&[balancer("lb-1")])).on(PUT, one(&empty));
    let done = update_backends(&config(), &settled_service(&[]), &[]);
    assert_eq!(addresses(&done), both());
    assert_eq!(body(&cloud, 1)["droplet_ids"], json!([]));
}

#[test]
fn nodes_that_come_and_go_are_one_write_and_nothing_else_is_compared() {
    let cloud = FakeCloud::new().on(LIST, many(&[balancer("lb-1")])).on(PUT, one(&balancer("lb-1")));
    let mut more = nodes();
    more.push(backend(102, &["e4"]));
    let done = update_backends(&config(), &settled_service(&[]), &more);
    assert_eq!(done.outcome.changes, ["changed lb-1: droplets"]);
    assert_eq!(
        (routes(&cloud), body(&cloud, 1)["droplet_ids"].clone()),
        (vec![LIST.to_owned(), PUT.to_owned()], json!([100, 101, 102]))
    );
    // What an IPv4-only node would change for a new one.
    assert_eq!(body(&cloud, 1)["network_stack"], "DUALSTACK");

    let cloud = FakeCloud::new().on(LIST, many(&[changed("lb-1", json!({"redirect_http_to_https": true}))]));
    assert_eq!(update_backends(&config(), &settled_service(&[]), &nodes()).outcome.changes, Vec::<String>::new());
    assert_eq!(routes(&cloud), [LIST]);

    let _cloud = FakeCloud::new().on(LIST, many(&[])).on(GET, not_found());
    assert_eq!(failure(&update_backends(&config(), &settled_service(&[]), &nodes())).0, Reaction::Conflict);
}

#[test]
fn every_request_of_a_change_may_fail_and_the_next_call_mends_it() {
    let differs = changed("lb-1", json!({"droplet_ids": []}));
    for reply in [
        Reply::status(500),
        Reply::status(503),
        Reply::json(429, "{}"),
        Reply::json(200, "<html>"),
        Reply::json(200, r#"{"load_balancer": {"id": "lb-1""#),
        Reply::lost(ccm_sdk::http::TransportReason::Timeout, true),
    ] {
        for at in [GET, PUT] {
            let _cloud =
                FakeCloud::new().on(at, reply.clone()).always(GET, one(&differs)).always(PUT, one(&balancer("lb-1")));
            let done = ensure(&config(), &settled_service(&[]), &nodes());
            assert!(matches!(failure(&done).0, Reaction::Retry | Reaction::Throttled), "{at}: {reply:?}");
            assert_eq!((written(&done), &done.outcome.changes), (vec![], &vec![]));
            assert_eq!(addresses(&ensure(&config(), &settled_service(&[]), &nodes())), both());
        }
    }
}

#[test]
fn an_id_that_can_be_none_is_as_if_it_were_not_there() {
    let mut service = service(&[(names::ID, "../account")]);
    service.ingress = both();
    let cloud = FakeCloud::new().on(LIST, many(&[balancer("lb-1")]));
    let done = ensure(&config(), &service, &nodes());
    assert_eq!((written(&done), routes(&cloud)), (vec![(names::ID, Some("lb-1"))], vec![LIST.to_owned()]));
}

#[test]
fn one_of_another_cluster_is_neither_taken_nor_deleted_for_its_name_alone() {
    let named = service(&[(names::NAME, "my-lb")]);
    let tagged = |tags: &[&str]| changed("lb-1", json!({"name": "my-lb", "tags": tags}));
    let ours = Config { tag: Some("k8s:ours".to_owned()), ..config() };
    for config in [&config(), &ours] {
        let cloud = FakeCloud::new().always(LIST, many(&[tagged(&["x", "k8s:theirs"])]));
        for done in [ensure(config, &named, &nodes()), update_backends(config, &named, &nodes())] {
            assert_eq!((failure(&done).0, written(&done)), (Reaction::Conflict, vec![]));
            let told = done.outcome.failure.expect("it is another's").message;
            for words in ["lb-1", "\"my-lb\"", "k8s:theirs", names::ID] {
                assert!(told.contains(words), "{words}: {told}");
            }
        }
        assert_eq!(delete(config, &named), Done::new());
        assert_eq!(routes(&cloud), [LIST; 3]);
    }
    // Of nobody, of this cluster, or with the name that no other Service can have.
    let default = changed("lb-1", json!({"tags": ["k8s:theirs"]}));
    for has in [tagged(&["x"]), tagged(&["k8s:theirs", "k8s:ours"]), tagged(&["k8s:ours"]), default] {
        let _cloud = FakeCloud::new()
            .on(LIST, many(std::slice::from_ref(&has)))
            .on(GET, one(&has))
            .on(MAKE, Reply::status(201))
            .on(TAG, Reply::status(204))
            .on(PUT, one(&balancer("lb-1")));
        assert_eq!(written(&ensure(&ours, &named, &nodes())), [(names::ID, Some("lb-1"))]);
    }
    // Who says which one takes it.
    let cloud = FakeCloud::new().on(LIST, many(&[changed("lb-1", json!({"tags": ["k8s:theirs"]}))]));
    let taken = service(&[(names::NAME, "my-lb"), (names::ID, "lb-1")]);
    assert_eq!(get(&ours, &taken), Ok(Some(both())));
    assert_eq!(routes(&cloud), [LIST]);
}

#[test]
fn nodes_that_go_and_come_back_within_a_second_are_not_taken_for_never_gone() {
    let fewer = changed("lb-1", json!({"droplet_ids": [100]}));
    for put in [one(&fewer), Reply::lost(ccm_sdk::http::TransportReason::Timeout, true)] {
        let cloud = FakeCloud::new()
            // Of before the first write: answers are shared for a second.
            .always(LIST, many(&[balancer("lb-1")]))
            .on(GET, one(&fewer))
            .on(PUT, put)
            .on(PUT, one(&balancer("lb-1")));
        update_backends(&config(), &settled_service(&[]), &nodes()[..1]);
        let done = update_backends(&config(), &settled_service(&[]), &nodes());
        assert_eq!((addresses(&done), done.outcome.changes), (both(), vec!["changed lb-1: droplets".to_owned()]));
        assert_eq!(routes(&cloud), [LIST, PUT, GET, PUT]);
    }
}

/// The API's documentation has a public address there, and lets what a write leaves out have its default.
#[test]
fn one_of_network_internal_without_address_is_named_by_people_or_told() {
    let internal = changed("lb-1", json!({"network": "INTERNAL", "network_stack": "IPV4", "ip": "", "ipv6": null}));
    let asks = (names::NETWORK, "INTERNAL");
    let cloud = FakeCloud::new().on(GET, one(&internal));
    let done = ensure(&config(), &settled_service(&[asks]), &nodes());
    assert_eq!((failure(&done), routes(&cloud)), ((Reaction::Retry, Some(60_000)), vec![GET.to_owned()]));
    let told = done.outcome.failure.expect("nobody knows where it is");
    assert!(told.message.contains("tells no address") && told.message.contains(names::HOSTNAME), "{}", told.message);
    let _cloud = FakeCloud::new().on(GET, one(&internal));
    let done = ensure(&config(), &settled_service(&[asks, (names::HOSTNAME, "lb.internal")]), &nodes());
    assert_eq!(addresses(&done), [Ingress::hostname("lb.internal")]);
    // Of any other it means that it is not there yet.
    let _cloud = FakeCloud::new().on(GET, one(&changed("lb-1", json!({"ip": "", "ipv6": ""}))));
    let done = ensure(&config(), &settled_service(&[(names::HOSTNAME, "lb.example.com")]), &nodes());
    assert_eq!(failure(&done).0, Reaction::Pending);
}

#[test]
fn a_write_leaves_a_load_balancer_in_its_project() {
    for (project, sent) in [(json!("p-1"), json!("p-1")), (json!(""), json!(null)), (json!(null), json!(null))] {
        let has = changed("lb-1", json!({"project_id": project, "droplet_ids": []}));
        let cloud = FakeCloud::new().on(GET, one(&has)).on(PUT, one(&balancer("lb-1")));
        assert_eq!(addresses(&ensure(&config(), &settled_service(&[]), &nodes())), both());
        assert_eq!(body(&cloud, 1).get("project_id").cloned().unwrap_or_default(), sent);
    }
    let cloud = FakeCloud::new().on(LIST, many(&[])).on(POST, one(&balancer("lb-1")));
    assert_eq!(addresses(&ensure(&config(), &service(&[]), &nodes())), both());
    assert_eq!(body(&cloud, 1).get("project_id"), None);
}
