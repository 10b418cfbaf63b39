//! One that is there becomes what it should be.

use super::*;

const MEMBERS: &str = "load-balancer PUT /lbaas/pools/pool-1/members";
const PUT_LISTENER: &str = "load-balancer PUT /lbaas/listeners/listener-1";

/// Calls that follow each other until one of them does not wait.
fn all(cloud: &FakeCloud, service: &Service) -> Done {
    let mut calls = 0;
    loop {
        let done = run(service);
        calls += 1;
        let waits = done.outcome.failure.as_ref().is_some_and(|failure| failure.reaction == Reaction::Pending);
        if !waits || calls > 9 {
            return done;
        }
        later(cloud);
    }
}

#[test]
fn what_does_not_differ_costs_no_write_and_five_reads() {
    let cloud = whole();
    let done = run(&settled(&[]));
    assert_eq!((ips(&done), done.outcome.changes.clone()), (vec!["203.0.113.7"], vec![]));
    assert_eq!(written(&cloud), Vec::<String>::new());
    later(&cloud);
    let before = cloud.lines().len();
    run(&settled(&[]));
    assert_eq!(cloud.lines()[before..].len(), 5);
}

#[test]
fn a_node_that_joins_is_one_write_and_three_reads() {
    let three = [member(1), member(2), member(3)];
    let cloud = whole().on(MEMBERS, accepted());
    run(&settled(&[]));
    let before = cloud.lines().len();
    let follow = |nodes: &[Backend]| update_backends(&usual(), &host(), &settled(&[]), nodes);
    let joined = [node(1), node(2), node(3)];
    assert_eq!(reaction(&follow(&joined)), Reaction::Pending);
    let cloud = cloud.on(TREE, tree(&[listener()], &three));
    later(&cloud);
    assert_eq!(follow(&joined).outcome.failure, None);
    let routes: Vec<String> = cloud.lines()[before..].to_vec();
    assert_eq!(routes, [GET, TREE, MEMBERS, GET, TREE], "polls apart: three reads and a write");
    let (_, body) = writes(&cloud).remove(0);
    let names: Vec<_> =
        body["members"].as_array().expect("members").iter().map(|member| member["name"].clone()).collect();
    assert_eq!(names, ["node-1", "node-2", "node-3"]);
}

/// The Go manager left it out, and called that a success.
#[test]
fn a_node_that_has_no_address_yet_is_added_when_it_has_one() {
    let cloud = whole().on(MEMBERS, accepted());
    let waiting = Backend { addresses: vec![], ..node(3) };
    let follow =
        |third: &Backend| update_backends(&usual(), &host(), &settled(&[]), &[node(1), node(2), third.clone()]);
    assert_eq!(follow(&waiting).outcome.failure, None);
    assert_eq!(written(&cloud), Vec::<String>::new());
    later(&cloud);
    follow(&node(3));
    assert_eq!(written(&cloud), [MEMBERS]);
}

#[test]
fn os_155_another_node_port_is_told_to_the_pool_and_a_port_that_goes_takes_its_listener_along() {
    let second = with(listener(), json!({ "id": "listener-2", "protocol_port": 443, "default_pool_id": "pool-2" }));
    let pool_2 = with(
        pool(),
        json!({ "id": "pool-2", "name": format!("pool_1_{NAME}"), "listeners": [{ "id": "listener-2" }] }),
    );
    let cloud = cloud_of(&balancer(), &[listener(), second], &[pool(), pool_2], &[member(1), member(2)])
        .on(MEMBERS, accepted())
        .on("load-balancer DELETE /lbaas/listeners/listener-2", Reply::status(204))
        .on("load-balancer DELETE /lbaas/pools/pool-2", Reply::status(204));
    let mut service = settled(&[]);
    service.ports[0].node_port = Some(31_555);
    for _ in 0..3 {
        assert_eq!(reaction(&run(&service)), Reaction::Pending);
        later(&cloud);
    }
    let all = writes(&cloud);
    let lines: Vec<_> = all.iter().map(|(line, _)| line.as_str()).collect();
    assert_eq!(
        lines,
        [MEMBERS, "load-balancer DELETE /lbaas/listeners/listener-2", "load-balancer DELETE /lbaas/pools/pool-2"]
    );
    assert_eq!(all[0].1["members"][0]["protocol_port"], 31_555);
}

#[test]
fn os_158_a_port_that_changes_keeps_its_pool_is_served_before_the_old_one_goes_and_costs_twelve_requests() {
    let make = "load-balancer POST /lbaas/listeners";
    let gone = "load-balancer DELETE /lbaas/listeners/listener-1";
    let new = with(listener(), json!({ "id": "listener-2", "protocol_port": 8080 }));
    let of_new = with(pool(), json!({ "listeners": [{ "id": "listener-2" }] }));
    let cloud = whole()
        .on(LISTENERS, many("listeners", &[listener()]))
        .on(LISTENERS, many("listeners", &[listener()]))
        .on(LISTENERS, many("listeners", &[new]))
        .on(POOLS, many("pools", &[pool()]))
        .on(POOLS, many("pools", &[pool()]))
        .on(POOLS, many("pools", &[of_new]))
        .on(make, Reply::json(201, "{}"))
        .on(gone, Reply::status(204));
    run(&settled(&[]));
    let before = cloud.lines().len();
    let mut service = settled(&[]);
    service.ports[0].port = 8080;
    assert_eq!(all(&cloud, &service).outcome.failure, None);
    assert_eq!(written(&cloud), [make, gone]);
    assert_eq!(writes(&cloud)[0].1["listener"]["default_pool_id"], "pool-1");
    assert_eq!(cloud.lines()[before..].len(), 12, "{:?}", &cloud.lines()[before..]);
}

#[test]
fn os_177_196_another_protocol_on_a_port_goes_before_the_new_one_comes() {
    for (case, annotations, protocol) in [
        ("os_177", vec![(names::X_FORWARDED_FOR, "true")], "HTTP"),
        ("os_196", vec![(names::TLS_CONTAINER, "https://kms/v1/secrets/s-1")], "TERMINATED_HTTPS"),
    ] {
        let new = with(pool(), json!({ "id": "pool-2", "protocol": "HTTP", "listeners": [], "members": [] }));
        let cloud = cloud_of(&balancer(), &[listener()], &[pool(), new], &[member(1), member(2)])
            .always("key-manager GET /secrets/s-1", Reply::json(200, "{}"))
            .always("load-balancer GET /lbaas/pools/pool-2/members", many("members", &[]))
            .on("load-balancer PUT /lbaas/pools/pool-2/members", accepted())
            .on("load-balancer DELETE /lbaas/listeners/listener-1", Reply::status(204))
            .on("load-balancer POST /lbaas/listeners", Reply::json(201, "{}"))
            .on("load-balancer DELETE /lbaas/pools/pool-1", Reply::status(204));
        for _ in 0..4 {
            run(&settled(&annotations));
            later(&cloud);
        }
        let all = writes(&cloud);
        let lines: Vec<_> = all.iter().map(|(line, _)| line.as_str()).collect();
        let expected = [
            "load-balancer PUT /lbaas/pools/pool-2/members",
            "load-balancer DELETE /lbaas/listeners/listener-1",
            "load-balancer POST /lbaas/listeners",
            "load-balancer DELETE /lbaas/pools/pool-1",
        ];
        assert_eq!(lines, expected, "{case}");
        assert_eq!(all[2].1["listener"]["protocol"], protocol, "{case}");
    }
}

#[test]
fn os_178_a_port_of_another_protocol_comes_beside_the_one_that_there_is() {
    let free = json!({ "id": "pool-2", "name": format!("pool_1_{NAME}"), "protocol": "UDP", "listeners": [] });
    let make = "load-balancer POST /lbaas/listeners";
    let members = [1, 2].map(|number| with(member(number), json!({ "protocol_port": 30_001 })));
    let cloud = cloud_of(&balancer(), &[listener()], &[pool(), with(pool(), free)], &[member(1), member(2)])
        .on("load-balancer GET /lbaas/pools/pool-2/members", many("members", &members))
        .on(make, Reply::json(201, "{}"));
    let mut service = settled(&[]);
    let udp = ccm_sdk::types::ServicePort { protocol: ccm_sdk::types::Protocol::Udp, ..port(80, 30_001) };
    service.ports.push(udp);
    assert_eq!(reaction(&run(&service)), Reaction::Pending);
    later(&cloud);
    strangers::until_quiet(&cloud, || run(&service));
    let all = writes(&cloud);
    assert_eq!(all.len(), 1, "os_178: {all:?}");
    let listener = &all[0].1["listener"];
    assert_eq!(
        (all[0].0.as_str(), &listener["protocol"], &listener["protocol_port"]),
        (make, &json!("UDP"), &json!(80))
    );
}

#[test]
fn os_197_other_tags_of_a_listener_stay() {
    let cloud = cloud_of(
        &balancer(),
        &[with(listener(), json!({ "tags": ["mine", NAME] }))],
        &[pool()],
        &[member(1), member(2)],
    )
    .on(PUT_LISTENER, Reply::json(200, "{}"));
    run(&settled(&[]));
    assert_eq!(writes(&cloud), [(PUT_LISTENER.to_owned(), json!({ "listener": { "tags": ["mine", NAME, UID] } }))]);
}

#[test]
fn os_208_session_affinity_is_followed() {
    let line = "load-balancer PUT /lbaas/pools/pool-1";
    let mut service = settled(&[]);
    service.client_ip_affinity_seconds = Some(60);
    let sticky = json!({ "session_persistence": { "type": "SOURCE_IP" } });
    let cookie = json!({ "session_persistence": { "type": "HTTP_COOKIE", "cookie_name": null } });
    for (case, has, service, expected) in [
        ("os_208", pool(), &service, Some(sticky.clone())),
        ("os_208", with(pool(), sticky.clone()), &settled(&[]), Some(json!({ "session_persistence": null }))),
        ("people have set a cookie", with(pool(), cookie.clone()), &settled(&[]), None),
        ("people have set a cookie, and the Service asks for more", with(pool(), cookie), &service, Some(sticky)),
    ] {
        let cloud =
            cloud_of(&balancer(), &[listener()], &[has], &[member(1), member(2)]).on(line, Reply::json(200, "{}"));
        run(service);
        let expected: Vec<_> = expected.into_iter().map(|body| (line.to_owned(), json!({ "pool": body }))).collect();
        assert_eq!(writes(&cloud), expected, "{case}");
    }
}

#[test]
fn os_179_an_algorithm_that_the_cloud_does_not_have_is_told_and_the_rest_goes_on() {
    let line = "load-balancer PUT /lbaas/pools/pool-1";
    let words = "Provider 'amphora' does not support a requested option: pool algorithm";
    for (case, status) in [("os_179", 501), ("os_179", 400)] {
        let refused = Reply::json(status, json!({ "faultcode": "Server", "faultstring": words }).to_string());
        let cloud = whole().on(line, refused);
        let service = settled(&[(names::METHOD, "SOURCE_IP_PORT")]);
        let done = run(&service);
        assert_eq!((ips(&done), done.outcome.changes.clone()), (vec!["203.0.113.7"], vec![]), "{case} {status}");
        assert_eq!(done.warnings[0].0, "LoadBalancerLbMethodUnknown", "{case}");
        later(&cloud);
        run(&service);
        assert_eq!(written(&cloud), [line], "{case}: it is not asked for again and again");
    }
}

/// Both in one body, a refusal of the algorithm took the affinity along, for an hour.
#[test]
fn session_affinity_is_followed_where_the_algorithm_is_refused() {
    let line = "load-balancer PUT /lbaas/pools/pool-1";
    let words = "Provider 'ovn' does not support a requested option: OVN provider does not support SOURCE_IP algorithm";
    let refused = Reply::json(501, json!({ "faultcode": "Server", "faultstring": words }).to_string());
    let cloud = whole().on(line, Reply::json(200, "{}")).on(line, refused);
    let mut service = settled(&[(names::METHOD, "SOURCE_IP")]);
    service.client_ip_affinity_seconds = Some(60);
    assert_eq!(reaction(&run(&service)), Reaction::Pending);
    later(&cloud);
    let cloud =
        cloud.on(POOLS, many("pools", &[with(pool(), json!({ "session_persistence": { "type": "SOURCE_IP" } }))]));
    run(&service);
    let bodies: Vec<Value> = writes(&cloud).into_iter().map(|(_, body)| body["pool"].clone()).collect();
    let sticky = json!({ "session_persistence": { "type": "SOURCE_IP" } });
    assert_eq!(bodies, [sticky, json!({ "lb_algorithm": "SOURCE_IP" })]);
}

#[test]
fn os_176_busy_is_no_error_and_is_looked_at_again() {
    for (case, words) in [
        ("os_176", "Invalid state PENDING_UPDATE of loadbalancer resource lb-1"),
        ("os_176", "Pool pool-1 is immutable and cannot be updated."),
    ] {
        let busy = Reply::json(409, json!({ "faultcode": "Client", "faultstring": words }).to_string());
        let cloud =
            cloud_of(&balancer(), &[listener()], &[pool()], &[member(1)]).on(MEMBERS, busy).on(MEMBERS, accepted());
        let done = run(&settled(&[]));
        assert_eq!((reaction(&done), done.warnings), (Reaction::Pending, vec![]), "{case}");
        later(&cloud);
        run(&settled(&[]));
        assert_eq!(written(&cloud), [MEMBERS, MEMBERS], "{case}");
    }
}

#[test]
fn os_193_195_addresses_are_compared_as_such_and_a_pool_can_be_empty() {
    let v6 = |text: &str| json!({ "id": "m-1", "name": "node-1", "address": text, "protocol_port": 30000, "subnet_id": "subnet-1" });
    let mut service = settled(&[]);
    service.ip_families = vec![ccm_sdk::types::IpFamily::Ipv6];
    let node = Backend {
        addresses: vec![Address { kind: AddressType::InternalIp, value: "fd00:10:1::5".to_owned() }],
        ..node(1)
    };
    let everybody = with(listener(), json!({ "allowed_cidrs": ["::/0"] }));
    let balancer = with(balancer(), json!({ "vip_address": "fd00:10:1::100" }));
    let cloud =
        cloud_of(&balancer, &[everybody], &[pool()], &[v6("FD00:0010:0001:0:0:0:0:0005")]).on(MEMBERS, accepted());
    let done = ensure(&usual(), &host(), &service, std::slice::from_ref(&node));
    assert_eq!((ips(&done), written(&cloud)), (vec!["fd00:10:1::100"], vec![]), "os_193");
    later(&cloud);
    update_backends(&usual(), &host(), &service, &[]);
    assert_eq!(writes(&cloud), [(MEMBERS.to_owned(), json!({ "members": [] }))], "os_195");
}

#[test]
fn os_203_members_that_cannot_be_read_are_not_written() {
    let line = "load-balancer GET /lbaas/pools/pool-1/members";
    let cloud = whole().on(line, Reply::status(500)).on(TREE, Reply::status(500));
    for done in [run(&settled(&[])), update_backends(&usual(), &host(), &settled(&[]), &nodes()[..1])] {
        assert_eq!(reaction(&done), Reaction::Retry);
        later(&cloud);
    }
    assert_eq!(written(&cloud), Vec::<String>::new());
}

#[test]
fn one_in_error_is_reported_and_made_anew_only_with_consent() {
    let broken = with(balancer(), json!({ "provisioning_status": "ERROR" }));
    let cloud = cloud_of(&broken, &[], &[], &[]);
    let done = run(&settled(&[]));
    assert_eq!((reaction(&done), written(&cloud)), (Reaction::Retry, vec![]));
    assert!(message(&done).contains("lb-1") && message(&done).contains(names::RECREATE), "{}", message(&done));
    let gone = "load-balancer DELETE /lbaas/loadbalancers/lb-1";
    let consent = settled(&[(names::RECREATE, "true")]);
    let cloud = cloud_of(&broken, &[], &[], &[]).on(gone, Reply::status(204));
    let done = run(&consent);
    assert_eq!((reaction(&done), written(&cloud)), (Reaction::Pending, vec![gone.to_owned()]));
    assert_eq!(done.outcome.annotations, [(names::ID.to_owned(), None)]);
    // Not under others.
    let shared = with(broken, json!({ "tags": [NAME, UID, "kube_service_kubernetes_default_b"] }));
    let cloud = cloud_of(&shared, &[], &[], &[]);
    assert_eq!((reaction(&run(&consent)), written(&cloud)), (Reaction::Retry, vec![]));
}

/// What a person has to put right does not keep Nodes from being followed, and is not made in the meantime: ranges that cannot be read
/// would have let everybody in.
#[test]
fn members_follow_although_the_rest_cannot_be() {
    let narrow = with(listener(), json!({ "allowed_cidrs": ["10.0.0.0/8"] }));
    let mut service = settled(&[(names::SOURCE_RANGES, "everybody")]);
    service.ports.push(port(443, 30_443));
    let calls: [&dyn Fn() -> Done; 2] = [&|| run(&service), &|| update_backends(&usual(), &host(), &service, &nodes())];
    for call in calls {
        let cloud = cloud_of(&balancer(), std::slice::from_ref(&narrow), &[pool()], &[member(1)])
            .on(MEMBERS, accepted())
            .on(TREE, tree(&[listener()], &[member(1)]))
            .on(TREE, tree(&[listener()], &[member(1), member(2)]));
        assert_eq!(reaction(&call()), Reaction::Pending);
        later(&cloud);
        let done = call();
        assert_eq!(written(&cloud), [MEMBERS]);
        assert!(done.outcome.failure.is_none_or(|failure| failure.reaction == Reaction::Invalid));
    }
}

/// The configuration has no such class any more: which subnet its members are in, nobody says.
#[test]
fn new_members_of_a_service_that_is_refused_come_to_the_subnet_of_the_others() {
    let there = with(member(1), json!({ "subnet_id": "subnet-of-the-class" }));
    let service = settled(&[(names::CLASS, "removed")]);
    let calls: [&dyn Fn() -> Done; 2] = [&|| run(&service), &|| update_backends(&usual(), &host(), &service, &nodes())];
    for call in calls {
        let cloud =
            cloud_of(&balancer(), &[listener()], &[pool()], std::slice::from_ref(&there)).on(MEMBERS, accepted());
        assert_eq!(reaction(&call()), Reaction::Pending);
        let (_, body) = writes(&cloud).remove(0);
        let subnets: Vec<_> =
            body["members"].as_array().expect("members").iter().map(|member| member["subnet_id"].clone()).collect();
        assert_eq!(subnets, ["subnet-of-the-class"; 2]);
    }
    // Nothing is asked for where nothing changes.
    let cloud = whole();
    update_backends(&usual(), &host(), &service, &nodes());
    assert!(!cloud.lines().iter().any(|line| line.contains("/members")), "{:?}", cloud.lines());
}

/// With members alone to change, the Go manager failed for ever.
#[test]
fn a_listener_that_somebody_deleted_is_made_again_when_nodes_are_followed() {
    let free = with(pool(), json!({ "listeners": [] }));
    let line = "load-balancer POST /lbaas/listeners";
    let cloud = cloud_of(&balancer(), &[], &[free], &[member(1), member(2)]).on(line, Reply::json(201, "{}"));
    update_backends(&usual(), &host(), &settled(&[]), &nodes());
    assert_eq!(written(&cloud), [line]);
}

#[test]
fn monitors_come_change_and_go() {
    let watched = with(pool(), json!({ "healthmonitor_id": "hm-1" }));
    let monitor = json!({ "id": "hm-1", "name": format!("monitor_0_{NAME}"), "type": "TCP", "delay": 5, "timeout": 3,
                          "max_retries": 1, "max_retries_down": 3 });
    let line = "load-balancer GET /lbaas/healthmonitors/hm-1";
    let on = (names::MONITOR, "true");
    for (has, monitor, annotations, expected) in [
        (pool(), &monitor, vec![on], Some("load-balancer POST /lbaas/healthmonitors")),
        (watched.clone(), &monitor, vec![on], None),
        (
            watched.clone(),
            &monitor,
            vec![on, (names::MONITOR_DELAY, "9")],
            Some("load-balancer PUT /lbaas/healthmonitors/hm-1"),
        ),
        (
            watched.clone(),
            &with(monitor.clone(), json!({ "type": "HTTP" })),
            vec![on],
            Some("load-balancer DELETE /lbaas/healthmonitors/hm-1"),
        ),
        (watched, &monitor, vec![], Some("load-balancer DELETE /lbaas/healthmonitors/hm-1")),
    ] {
        let mut cloud = cloud_of(&balancer(), &[listener()], &[has], &[member(1), member(2)])
            .always(line, one("healthmonitor", monitor));
        if let Some(expected) = expected {
            cloud = cloud.on(expected, Reply::json(200, "{}"));
        }
        run(&settled(&annotations));
        assert_eq!(written(&cloud), expected.map(str::to_owned).into_iter().collect::<Vec<_>>(), "{annotations:?}");
    }
}

#[test]
fn what_serves_clients_stays_until_the_pool_that_takes_its_place_is_there() {
    let line = "load-balancer POST /lbaas/pools";
    let cloud = whole().on(line, Reply::json(201, "{}"));
    let mut service = settled(&[(names::X_FORWARDED_FOR, "true")]);
    service.ports[0].port = 8080;
    for _ in 0..2 {
        run(&service);
        later(&cloud);
    }
    // It does not show in the scripted answers.
    assert_eq!(written(&cloud), [line]);
}

#[test]
fn subnet_and_health_check_port_of_members_are_compared_too_and_what_is_written_is_believed_for_an_hour() {
    let elsewhere = with(member(2), json!({ "subnet_id": "subnet-9" }));
    let watched = with(member(2), json!({ "monitor_port": 31_000 }));
    for odd in [elsewhere, watched] {
        let cloud = cloud_of(&balancer(), &[listener()], &[pool()], &[member(1), odd.clone()]).on(MEMBERS, accepted());
        run(&settled(&[]));
        assert_eq!(written(&cloud), [MEMBERS], "{odd}");
    }
    let line = "load-balancer GET /lbaas/pools/pool-1/members";
    let cloud = whole();
    let read = |cloud: &FakeCloud| cloud.lines().iter().filter(|other| other.starts_with(line)).count();
    for (passed, expected) in [(0, 1), (3_000, 1), (700, 2)] {
        cloud.pass(passed);
        run(&settled(&[]));
        assert_eq!(read(&cloud), expected, "after {passed} s");
    }
}

#[test]
fn members_are_in_no_subnet_where_a_network_leads_to_them() {
    let mut config = usual();
    config.balancers.place.subnet.clear();
    config.balancers.place.network = "net-1".to_owned();
    let bare = |number| with(member(number), json!({ "subnet_id": null }));
    let cloud = cloud_of(&balancer(), &[listener()], &[pool()], &[bare(1), bare(2)]).on(MEMBERS, accepted());
    ensure(&config, &host(), &settled(&[]), &[node(1)]);
    assert_eq!(writes(&cloud)[0].1["members"][0].get("subnet_id"), None);
}

/// Octavia detaches a pool when its listener goes.
#[test]
fn a_pool_of_this_service_that_no_listener_has_goes_and_one_of_another_stays() {
    let free = |id: &str, name: &str| with(pool(), json!({ "id": id, "name": name, "listeners": [], "members": [] }));
    let own = free("pool-8", &format!("pool_7_{NAME}"));
    let other = free("pool-9", "pool_0_kube_service_kubernetes_default_other");
    let line = "load-balancer DELETE /lbaas/pools/pool-8";
    for pools in [[pool(), own.clone(), other.clone()], [other.clone(), own, pool()]] {
        let cloud = cloud_of(&balancer(), &[listener()], &[pool(), other.clone()], &[member(1), member(2)])
            .on(POOLS, many("pools", &pools))
            .on(line, Reply::status(204))
            .on("load-balancer DELETE /lbaas/pools/pool-9", Reply::status(204));
        assert_eq!(all(&cloud, &settled(&[])).outcome.failure, None);
        assert_eq!(written(&cloud), [line]);
    }
}

#[test]
fn a_pool_that_a_listener_of_another_uses_stays_when_its_port_goes() {
    let second = with(listener(), json!({ "id": "listener-2", "protocol_port": 443, "default_pool_id": "pool-2" }));
    let other = with(
        listener(),
        json!({ "id": "listener-9", "protocol_port": 8443, "default_pool_id": "pool-2", "tags": ["mine"] }),
    );
    let pool_2 = with(
        pool(),
        json!({ "id": "pool-2", "name": format!("pool_1_{NAME}"), "listeners": [{ "id": "listener-2" }, { "id": "listener-9" }] }),
    );
    let gone = "load-balancer DELETE /lbaas/listeners/listener-2";
    let all = [listener(), second.clone(), other.clone()];
    let cloud = cloud_of(&balancer(), &all, &[pool(), pool_2.clone()], &[member(1), member(2)])
        .on(LISTENERS, many("listeners", &all))
        .on(LISTENERS, many("listeners", &[listener(), other.clone()]))
        .on(gone, Reply::status(204));
    for _ in 0..2 {
        run(&settled(&[]));
        later(&cloud);
    }
    assert_eq!(written(&cloud), [gone]);
    // Nor when the port gets another pool: one that speaks PROXY takes the place of that.
    let own = with(listener(), json!({ "default_pool_id": "pool-2" }));
    let pool_2 = with(pool_2, json!({ "name": format!("pool_0_{NAME}") }));
    let new = with(pool(), json!({ "protocol": "PROXY", "listeners": [] }));
    let proxied = settled(&[(names::PROXY_PROTOCOL, "true")]);
    let cloud =
        cloud_of(&balancer(), &[own.clone(), other.clone()], &[new.clone(), pool_2.clone()], &[member(1), member(2)])
            .on(LISTENERS, many("listeners", &[own, other.clone()]))
            .on(LISTENERS, many("listeners", &[listener(), other]))
            .on(PUT_LISTENER, Reply::json(200, "{}"));
    for _ in 0..2 {
        run(&proxied);
        later(&cloud);
    }
    assert_eq!(written(&cloud), [PUT_LISTENER]);
}
