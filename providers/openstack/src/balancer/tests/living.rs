//! What is written to one that lives, word for word: a body that lacks a word changes nothing, or something else.

use super::*;

const PUT_LISTENER: &str = "load-balancer PUT /lbaas/listeners/listener-1";
const TLS: (&str, &str) = (names::TLS_CONTAINER, "https://kms/v1/secrets/new");
const FORWARDED: (&str, &str) = (names::X_FORWARDED_FOR, "true");

/// Calls, one second after another, until so many writes are done.
fn until(cloud: &FakeCloud, writes: usize, call: impl Fn() -> Done) {
    for _ in 0..20 {
        if written(cloud).len() == writes {
            return;
        }
        call();
        later(cloud);
    }
    panic!("{writes} writes were expected: {:#?}", written(cloud));
}

/// A certificate that was renewed under another name would never have been taken.
#[test]
fn os_196_a_listener_is_told_what_its_service_asks_for_now_and_only_that() {
    let of = |changes: Value| with(listener(), changes);
    let http = |headers: Value| of(json!({ "protocol": "HTTP", "insert_headers": headers }));
    let tls = |reference: &str, headers: Value| {
        of(json!({ "protocol": "TERMINATED_HTTPS", "default_tls_container_ref": reference, "insert_headers": headers }))
    };
    let (new, old) = (TLS.1, "https://kms/v1/secrets/old");
    let on = json!({ "X-Forwarded-For": "true" });
    let others = json!({ "X-Forwarded-Port": "true", "X-Forwarded-Proto": "true" });
    let all = with(on.clone(), others.clone());
    let certificate = json!({ "X-SSL-Client-CN": "true", "X-SSL-Issuer": "true", "X-Forwarded-Port": "true" });
    let odd = json!({ "timeout_client_data": 1, "timeout_member_connect": 2, "timeout_member_data": 3, "timeout_tcp_inspect": 4 });
    let usual = json!({ "timeout_client_data": 50_000, "timeout_member_connect": 5_000, "timeout_member_data": 50_000, "timeout_tcp_inspect": 0 });
    for (case, has, annotations, expected) in [
        ("no limit any more", of(json!({ "connection_limit": 7 })), vec![], Some(json!({ "connection_limit": -1 }))),
        ("a limit", listener(), vec![(names::CONNECTION_LIMIT, "7")], Some(json!({ "connection_limit": 7 }))),
        ("client", listener(), vec![(names::TIMEOUT_CLIENT_DATA, "11")], Some(json!({ "timeout_client_data": 11 }))),
        (
            "connect",
            listener(),
            vec![(names::TIMEOUT_MEMBER_CONNECT, "12")],
            Some(json!({ "timeout_member_connect": 12 })),
        ),
        ("member", listener(), vec![(names::TIMEOUT_MEMBER_DATA, "13")], Some(json!({ "timeout_member_data": 13 }))),
        (
            "inspection",
            listener(),
            vec![(names::TIMEOUT_TCP_INSPECT, "14")],
            Some(json!({ "timeout_tcp_inspect": 14 })),
        ),
        ("times without annotations", of(odd), vec![], Some(usual)),
        (
            "a pool that it lost",
            of(json!({ "default_pool_id": null })),
            vec![],
            Some(json!({ "default_pool_id": "pool-1" })),
        ),
        ("os_196 headers on", http(json!({})), vec![FORWARDED], Some(json!({ "insert_headers": on }))),
        (
            "os_196 beside those of people",
            http(others.clone()),
            vec![FORWARDED],
            Some(json!({ "insert_headers": all })),
        ),
        ("os_196 as asked for", http(all.clone()), vec![FORWARDED], None),
        ("os_196 headers off", tls(new, all), vec![TLS], Some(json!({ "insert_headers": others }))),
        (
            "os_196 beside those of a certificate",
            tls(new, certificate.clone()),
            vec![TLS, FORWARDED],
            Some(json!({ "insert_headers": with(certificate.clone(), on.clone()) })),
        ),
        (
            "os_196 off beside those of a certificate",
            tls(new, with(certificate.clone(), on.clone())),
            vec![TLS],
            Some(json!({ "insert_headers": certificate })),
        ),
        ("os_196 the last off", tls(new, on.clone()), vec![TLS], Some(json!({ "insert_headers": {} }))),
        (
            "os_196 headers on, with TLS",
            tls(new, json!({})),
            vec![TLS, FORWARDED],
            Some(json!({ "insert_headers": on })),
        ),
        ("another certificate", tls(old, json!({})), vec![TLS], Some(json!({ "default_tls_container_ref": new }))),
        ("that certificate", tls(new, json!({})), vec![TLS], None),
    ] {
        let free = has["default_pool_id"].is_null();
        let protocol = if has["protocol"] == "TCP" { "TCP" } else { "HTTP" };
        let mut pool = with(pool(), json!({ "protocol": protocol }));
        if free {
            pool["listeners"] = json!([]);
        }
        let cloud = cloud_of(&balancer(), &[has], &[pool], &[member(1), member(2)])
            .always("key-manager GET /secrets/new", Reply::json(200, "{}"))
            .on(PUT_LISTENER, Reply::json(200, "{}"));
        run(&settled(&annotations));
        let expected: Vec<_> =
            expected.into_iter().map(|body| (PUT_LISTENER.to_owned(), json!({ "listener": body }))).collect();
        assert_eq!(writes(&cloud), expected, "{case}");
    }
}

fn ovn() -> Config {
    let mut config = usual();
    config.balancers.provider = "ovn".to_owned();
    config.balancers.method = "SOURCE_IP_PORT".to_owned();
    config
}

/// ovn has no times and keeps nobody out: what it answers there is not to be changed.
#[test]
fn what_the_provider_does_not_have_is_not_compared() {
    let config = ovn();
    let has = with(listener(), json!({ "timeout_client_data": 1, "timeout_tcp_inspect": null, "allowed_cidrs": [] }));
    let pool = with(pool(), json!({ "lb_algorithm": "SOURCE_IP_PORT" }));
    let cloud = cloud_of(&balancer(), &[has], &[pool], &[member(1), member(2)]);
    let done = ensure(&config, &host(), &settled(&[]), &nodes());
    assert_eq!((ips(&done), written(&cloud)), (vec!["203.0.113.7"], vec![]), "{:?}", done.outcome);
}

#[test]
fn os_177_196_without_header_or_tls_the_port_is_plain_again_and_the_old_listener_goes_first() {
    for (case, protocol) in [("os_177", "HTTP"), ("os_196", "TERMINATED_HTTPS")] {
        let old = with(listener(), json!({ "protocol": protocol, "insert_headers": { "X-Forwarded-For": "true" } }));
        let of_old = with(pool(), json!({ "protocol": "HTTP" }));
        let new = with(pool(), json!({ "id": "pool-2", "listeners": [], "members": [] }));
        let lines = [
            "load-balancer PUT /lbaas/pools/pool-2/members",
            "load-balancer DELETE /lbaas/listeners/listener-1",
            "load-balancer POST /lbaas/listeners",
            "load-balancer DELETE /lbaas/pools/pool-1",
        ];
        let cloud = cloud_of(&balancer(), &[old], &[of_old, new], &[member(1), member(2)])
            .always("load-balancer GET /lbaas/pools/pool-2/members", many("members", &[]));
        let cloud = lines.into_iter().fold(cloud, |cloud, line| cloud.on(line, Reply::json(200, "{}")));
        until(&cloud, 4, || run(&settled(&[])));
        let all = writes(&cloud);
        assert_eq!(all.iter().map(|(line, _)| line.as_str()).collect::<Vec<_>>(), lines, "{case}");
        let listener = &all[2].1["listener"];
        assert_eq!(
            (&listener["protocol"], listener.get("insert_headers"), listener.get("default_tls_container_ref")),
            (&json!("TCP"), None, None),
            "{case}"
        );
        assert_eq!(listener["default_pool_id"], "pool-2", "{case}");
    }
}

fn monitor(changes: Value) -> Value {
    let usual = json!({ "id": "hm-1", "name": format!("monitor_0_{NAME}"), "type": "TCP", "delay": 5, "timeout": 3,
                        "max_retries": 1, "max_retries_down": 3 });
    with(usual, changes)
}

/// What Octavia is told of a port that comes: without the IDs of what it belongs to it would refuse each of these.
#[test]
fn a_second_port_of_one_that_lives_gets_a_pool_its_members_a_monitor_and_a_listener_one_after_the_other() {
    let watched = with(pool(), json!({ "healthmonitor_id": "hm-1" }));
    let made =
        with(pool(), json!({ "id": "pool-2", "name": format!("pool_1_{NAME}"), "listeners": [], "members": [] }));
    let lines = [
        "load-balancer POST /lbaas/pools",
        "load-balancer PUT /lbaas/pools/pool-2/members",
        "load-balancer POST /lbaas/healthmonitors",
        "load-balancer POST /lbaas/listeners",
    ];
    let cloud = cloud_of(&balancer(), &[listener()], &[watched.clone(), made], &[member(1), member(2)])
        .on(POOLS, many("pools", &[watched]))
        .always("load-balancer GET /lbaas/healthmonitors/hm-1", one("healthmonitor", &monitor(json!({}))));
    let cloud = lines.into_iter().fold(cloud, |cloud, line| cloud.on(line, Reply::json(200, "{}")));
    let mut service = settled(&[(names::MONITOR, "true")]);
    service.ports.push(port(443, 30_443));
    until(&cloud, 4, || run(&service));
    let all = writes(&cloud);
    assert_eq!(all.iter().map(|(line, _)| line.as_str()).collect::<Vec<_>>(), lines);
    let members = [1, 2].map(|number| {
        json!({ "name": format!("node-{number}"), "address": format!("10.1.0.{number}"), "protocol_port": 30_443, "subnet_id": "subnet-1" })
    });
    let bodies = [
        json!({ "pool": { "name": format!("pool_1_{NAME}"), "protocol": "TCP", "lb_algorithm": "ROUND_ROBIN", "loadbalancer_id": "lb-1" } }),
        json!({ "members": members }),
        json!({ "healthmonitor": { "name": format!("monitor_1_{NAME}"), "type": "TCP", "delay": 5, "timeout": 3, "max_retries": 1,
                                   "max_retries_down": 3, "pool_id": "pool-2" } }),
        json!({ "listener": { "name": format!("listener_1_{NAME}"), "protocol": "TCP", "protocol_port": 443, "connection_limit": -1,
                              "timeout_client_data": 50_000, "timeout_member_connect": 5_000, "timeout_member_data": 50_000,
                              "timeout_tcp_inspect": 0, "allowed_cidrs": ["0.0.0.0/0"], "tags": [NAME, UID],
                              "loadbalancer_id": "lb-1", "default_pool_id": "pool-2" } }),
    ];
    for ((line, body), expected) in all.iter().zip(bodies) {
        assert_eq!(*body, expected, "{line}");
    }
}

#[test]
fn a_monitor_is_told_every_number_that_its_service_has_changed() {
    let line = "load-balancer PUT /lbaas/healthmonitors/hm-1";
    let watched = with(pool(), json!({ "healthmonitor_id": "hm-1" }));
    let usual = || json!({ "name": format!("monitor_0_{NAME}"), "delay": 5, "timeout": 3, "max_retries": 1, "max_retries_down": 3 });
    for (annotation, number, change) in [
        (names::MONITOR_DELAY, "9", json!({ "delay": 9 })),
        (names::MONITOR_TIMEOUT, "4", json!({ "timeout": 4 })),
        (names::MONITOR_MAX_RETRIES, "2", json!({ "max_retries": 2 })),
        (names::MONITOR_MAX_RETRIES_DOWN, "8", json!({ "max_retries_down": 8 })),
    ] {
        let cloud = cloud_of(&balancer(), &[listener()], std::slice::from_ref(&watched), &[member(1), member(2)])
            .always("load-balancer GET /lbaas/healthmonitors/hm-1", one("healthmonitor", &monitor(json!({}))))
            .on(line, Reply::json(200, "{}"));
        run(&settled(&[(names::MONITOR, "true"), (annotation, number)]));
        assert_eq!(
            writes(&cloud),
            [(line.to_owned(), json!({ "healthmonitor": with(usual(), change) }))],
            "{annotation}"
        );
    }
}

/// From three on, they are asked for together.
#[test]
fn of_three_monitors_the_one_that_differs_is_changed_and_all_are_read_at_once() {
    let number = |number: u16| {
        let (index, port) = (number - 1, 79 + number);
        let (listener_id, pool_id) = (format!("listener-{number}"), format!("pool-{number}"));
        (
            with(listener(), json!({ "id": listener_id, "protocol_port": port, "default_pool_id": pool_id })),
            with(
                pool(),
                json!({ "id": pool_id, "name": format!("pool_{index}_{NAME}"), "healthmonitor_id": format!("hm-{number}"),
                        "listeners": [{ "id": listener_id }] }),
            ),
            monitor(json!({ "id": format!("hm-{number}"), "name": format!("monitor_{index}_{NAME}"),
                            "delay": if number == 3 { 9 } else { 5 } })),
        )
    };
    let (line, list) = ("load-balancer PUT /lbaas/healthmonitors/hm-3", "load-balancer GET /lbaas/healthmonitors");
    let three: Vec<_> = (1..=3).map(number).collect();
    let listeners: Vec<Value> = three.iter().map(|(listener, ..)| listener.clone()).collect();
    let pools: Vec<Value> = three.iter().map(|(_, pool, _)| pool.clone()).collect();
    let monitors: Vec<Value> = three.iter().map(|(.., monitor)| monitor.clone()).collect();
    let cloud = cloud_of(&balancer(), &listeners, &pools, &[member(1), member(2)])
        .always(list, many("healthmonitors", &monitors))
        .on(line, Reply::json(200, "{}"));
    let mut service = settled(&[(names::MONITOR, "true")]);
    service.ports.extend([port(81, 30_000), port(82, 30_000)]);
    run(&service);
    let all = writes(&cloud);
    assert_eq!(all.iter().map(|(line, _)| line.as_str()).collect::<Vec<_>>(), [line]);
    assert_eq!(all[0].1["healthmonitor"]["delay"], 5);
    let asked = cloud.lines().into_iter().filter(|line| line.starts_with(list));
    assert_eq!(asked.collect::<Vec<_>>(), [format!("{list}?limit=1000")]);
}

/// It is remembered for ten minutes which listeners there are. Somebody has made them anew meanwhile.
#[test]
fn nodes_are_followed_to_the_pool_that_a_listener_has_now() {
    let cloud = whole();
    update_backends(&usual(), &host(), &settled(&[]), &nodes());
    assert_eq!(written(&cloud), Vec::<String>::new());
    let line = "load-balancer PUT /lbaas/pools/pool-9/members";
    for (case, now) in [
        ("another listener", json!({ "id": "listener-9", "default_pool_id": "pool-9" })),
        ("another pool", json!({ "default_pool_id": "pool-9" })),
    ] {
        let cloud = whole();
        update_backends(&usual(), &host(), &settled(&[]), &nodes());
        let now = with(listener(), now);
        let cloud = cloud
            .on(TREE, tree(std::slice::from_ref(&now), &[member(1), member(2)]))
            .on(LISTENERS, many("listeners", &[now]))
            .on(line, accepted());
        later(&cloud);
        update_backends(&usual(), &host(), &settled(&[]), &[node(1), node(2), node(3)]);
        let all = writes(&cloud);
        assert_eq!(all.iter().map(|(line, _)| line.as_str()).collect::<Vec<_>>(), [line], "{case}");
        assert_eq!(all[0].1["members"].as_array().map(Vec::len), Some(3), "{case}");
    }
}

/// It serves its clients with what the Service does not ask for.
#[test]
fn a_listener_of_another_protocol_is_replaced_also_where_only_nodes_are_followed() {
    let tls = with(listener(), json!({ "protocol": "TERMINATED_HTTPS" }));
    let gone = "load-balancer DELETE /lbaas/listeners/listener-1";
    let cloud = cloud_of(&balancer(), &[tls], &[pool()], &[member(1), member(2)]).on(gone, Reply::status(204));
    update_backends(&usual(), &host(), &settled(&[]), &nodes());
    assert_eq!(written(&cloud), [gone]);
}

/// A port to watch, which ovn does not keep, would be written at every look.
#[test]
fn os_198_ovn_with_a_monitor_and_a_local_service_writes_nothing_the_second_time() {
    let config = ovn();
    let watched = with(pool(), json!({ "healthmonitor_id": "hm-1", "lb_algorithm": "SOURCE_IP_PORT" }));
    let mut service = settled(&[(names::MONITOR, "true")]);
    service.external_traffic_policy = ccm_sdk::types::TrafficPolicy::Local;
    service.health_check_node_port = Some(31_000);
    let bare = with(pool(), json!({ "lb_algorithm": "SOURCE_IP_PORT" }));
    let line = "load-balancer POST /lbaas/healthmonitors";
    let cloud = cloud_of(&balancer(), &[listener()], &[watched], &[member(1), member(2)])
        .on(POOLS, many("pools", &[bare]))
        .on(line, Reply::json(201, "{}"))
        .always("load-balancer GET /lbaas/healthmonitors/hm-1", one("healthmonitor", &monitor(json!({}))));
    for _ in 0..3 {
        ensure(&config, &host(), &service, &nodes());
        later(&cloud);
    }
    let all = writes(&cloud);
    assert_eq!(all.iter().map(|(line, _)| line.as_str()).collect::<Vec<_>>(), [line], "os_198");
    assert_eq!(all[0].1["healthmonitor"]["type"], "TCP", "os_198: ovn watches no other port");
}

/// Octavia's addresses and those of the Nodes are of one family, one change at a time.
#[test]
fn os_204_of_an_ipv6_service_only_nodes_with_such_an_address_are_members_one_by_one() {
    let mut config = usual();
    config.balancers.serial = true;
    let mut service = settled(&[]);
    service.ip_families = vec![ccm_sdk::types::IpFamily::Ipv6];
    let node_at = |number: u8, addresses: &[&str]| Backend {
        addresses: addresses
            .iter()
            .map(|address| Address { kind: AddressType::InternalIp, value: (*address).to_owned() })
            .collect(),
        ..node(number)
    };
    let old = with(member(1), json!({ "address": "fd00:10:1::1" }));
    let post = "load-balancer POST /lbaas/pools/pool-1/members";
    let gone = "load-balancer DELETE /lbaas/pools/pool-1/members/m-1";
    let cloud = cloud_of(
        &with(balancer(), json!({ "vip_address": "fd00:10:1::100" })),
        &[with(listener(), json!({ "allowed_cidrs": ["::/0"] }))],
        &[pool()],
        &[old],
    )
    .on(post, Reply::json(201, "{}"))
    .on(gone, Reply::status(204));
    let nodes =
        [node_at(2, &["10.1.0.2", "fd00:10:1::2"]), node_at(3, &["10.1.0.3"]), node_at(4, &[]), node_at(5, &["none"])];
    until(&cloud, 2, || ensure(&config, &host(), &service, &nodes));
    let member =
        json!({ "name": "node-2", "address": "fd00:10:1::2", "protocol_port": 30_000, "subnet_id": "subnet-1" });
    assert_eq!(
        writes(&cloud),
        [(post.to_owned(), json!({ "member": member })), (gone.to_owned(), Value::Null)],
        "os_204"
    );
}

/// The owner's listener and pool, and the first one's tags, are as before.
#[test]
fn os_158_another_port_of_the_second_service_changes_nothing_of_the_first() {
    let (name, uid) = ("kube_service_kubernetes_default_b", "kubernetes.io/service-uid/uid-b");
    let shared = with(balancer(), json!({ "tags": [NAME, UID, name, uid] }));
    let of_b = |changes: Value| {
        let own = json!({ "id": "listener-b", "name": format!("listener_0_{name}"), "protocol_port": 9000, "default_pool_id": "pool-b", "tags": [name, uid] });
        with(with(listener(), own), changes)
    };
    let pool_b = |listener: &str| {
        with(pool(), json!({ "id": "pool-b", "name": format!("pool_0_{name}"), "listeners": [{ "id": listener }] }))
    };
    let (make, gone) = ("load-balancer POST /lbaas/listeners", "load-balancer DELETE /lbaas/listeners/listener-b");
    let new = of_b(json!({ "id": "listener-c", "protocol_port": 9001 }));
    let cloud = cloud_of(&shared, &[listener(), new], &[pool(), pool_b("listener-c")], &[member(1), member(2)])
        .on(LISTENERS, many("listeners", &[listener(), of_b(json!({}))]))
        .on(POOLS, many("pools", &[pool(), pool_b("listener-b")]))
        .on(make, Reply::json(201, "{}"))
        .on(gone, Reply::status(204));
    let mut service = Service { name: "b".to_owned(), uid: "uid-b".to_owned(), ..settled(&[]) };
    service.ports[0].port = 9001;
    for _ in 0..5 {
        run(&service);
        later(&cloud);
    }
    let all = writes(&cloud);
    assert_eq!(all.iter().map(|(line, _)| line.as_str()).collect::<Vec<_>>(), [make, gone], "os_158");
    let made = &all[0].1["listener"];
    assert_eq!(
        (&made["protocol_port"], &made["default_pool_id"], &made["tags"], &made["loadbalancer_id"]),
        (&json!(9001), &json!("pool-b"), &json!([name, uid]), &json!("lb-1")),
        "os_158"
    );
    // Who is looked at next has nothing to write either.
    let cloud = cloud.always("load-balancer GET /lbaas/pools/pool-b/members", many("members", &[member(1), member(2)]));
    assert_eq!((ips(&run(&settled(&[]))), written(&cloud).len()), (vec!["203.0.113.7"], 2), "os_158");
}
