//! What the request for a new one says, and when it is sent again.

use super::*;

fn empty() -> FakeCloud {
    FakeCloud::new().with_credential("session-token").always(LIST, many("loadbalancers", &[]))
}

fn made() -> Reply {
    let made = with(balancer(), json!({ "provisioning_status": "PENDING_CREATE" }));
    Reply::json(201, json!({ "loadbalancer": made }).to_string())
}

/// Where it is to be: all that Octavia is told of that.
const PLACES: [&str; 7] =
    ["provider", "vip_port_id", "vip_subnet_id", "vip_network_id", "vip_address", "flavor_id", "availability_zone"];

/// Dropped, any of these would bring it up somewhere else, for as long as it lives.
#[test]
fn a_new_one_comes_up_where_and_as_the_service_or_the_configuration_says() {
    let mut rich = usual();
    rich.balancers.place.network = "net-own".to_owned();
    rich.balancers.flavor = "flavor-own".to_owned();
    rich.balancers.availability_zone = "zone-own".to_owned();
    let internal = (names::INTERNAL, "true");
    let port = (names::PORT, "port-9");
    let v6 = [ccm_sdk::types::IpFamily::Ipv6];
    let own = json!({ "vip_subnet_id": "subnet-1", "vip_network_id": "net-own", "flavor_id": "flavor-own", "availability_zone": "zone-own" });
    for (case, config, annotations, address, families, expected) in [
        ("as it comes", usual(), vec![], None, &[][..], json!({ "vip_subnet_id": "subnet-1" })),
        ("the configuration", rich.clone(), vec![], None, &[], own.clone()),
        (
            "annotations",
            rich.clone(),
            vec![
                (names::NETWORK, "net-9"),
                (names::SUBNET, "subnet-9"),
                (names::FLAVOR, "flavor-9"),
                (names::AVAILABILITY_ZONE, "zone-9"),
            ],
            None,
            &[],
            json!({ "vip_subnet_id": "subnet-9", "vip_network_id": "net-9", "flavor_id": "flavor-9", "availability_zone": "zone-9" }),
        ),
        (
            "an internal address",
            usual(),
            vec![internal],
            Some("10.1.0.77"),
            &[],
            json!({ "vip_subnet_id": "subnet-1", "vip_address": "10.1.0.77" }),
        ),
        (
            "an address that a floating IP is to have",
            usual(),
            vec![],
            Some("203.0.113.77"),
            &[],
            json!({ "vip_subnet_id": "subnet-1" }),
        ),
        (
            "an IPv6 address, which no floating IP has",
            usual(),
            vec![],
            Some("fd00:10:1::77"),
            &v6,
            json!({ "vip_subnet_id": "subnet-1", "vip_address": "fd00:10:1::77" }),
        ),
        (
            "a port has its subnet, its network and its address",
            rich,
            vec![port, internal],
            Some("10.1.0.77"),
            &[],
            json!({ "vip_port_id": "port-9", "flavor_id": "flavor-own", "availability_zone": "zone-own" }),
        ),
    ] {
        let cloud = empty().on(POST, made());
        let mut service = service(&annotations);
        service.requested_ip = address.map(str::to_owned);
        service.ip_families = families.to_vec();
        ensure(&config, &host(), &service, &nodes());
        let all = writes(&cloud);
        let body = all.first().and_then(|(_, body)| body["loadbalancer"].as_object()).expect(case);
        let told: serde_json::Map<_, _> = body
            .iter()
            .filter(|(key, _)| PLACES.contains(&key.as_str()))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        assert_eq!(Value::Object(told), with(json!({ "provider": "amphora" }), expected), "{case}");
    }
}

/// Two thousand Nodes with names as long as they get: the host takes a megabyte.
#[test]
fn members_that_have_no_room_in_the_request_come_pool_by_pool() {
    let many_nodes: Vec<Backend> = (0..2_000_u32)
        .map(|number| {
            let value = format!("10.1.{}.{}", number / 250, number % 250 + 1);
            Backend {
                name: format!("node-{number:04}.{}", "n".repeat(240)),
                addresses: vec![Address { kind: AddressType::InternalIp, value }],
                ..node(1)
            }
        })
        .collect();
    let monitor = json!({ "id": "hm-1", "name": "m", "type": "TCP", "delay": 5, "timeout": 3, "max_retries": 1, "max_retries_down": 3 });
    for (ports, members) in [(1, 2_000), (2, 0)] {
        let cloud = empty().on(POST, made());
        let mut service = service(&[(names::MONITOR, "true")]);
        service.ports.extend((1..ports).map(|number| port(80 + number, 30_000)));
        assert_eq!(reaction(&ensure(&usual(), &host(), &service, &many_nodes)), Reaction::Pending);
        let sent = cloud.requests().iter().map(|request| text(&request.body).len()).max();
        assert!(sent < Some(900_000), "{ports} ports: {sent:?} bytes");
        let body = &writes(&cloud)[0].1["loadbalancer"];
        let pools: Vec<_> =
            body["listeners"].as_array().expect("listeners").iter().map(|listener| &listener["default_pool"]).collect();
        let found: Vec<_> = pools.iter().map(|pool| pool["members"].as_array().map_or(0, Vec::len)).collect();
        assert_eq!(found, vec![members; usize::from(ports)], "{ports} ports");
        assert!(pools.iter().all(|pool| pool["healthmonitor"]["type"] == "TCP"), "all else is in the request");
        // Then each pool gets its members.
        let cloud = cloud
            .always(GET, one("loadbalancer", &balancer()))
            .always(LISTENERS, many("listeners", &[listener()]))
            .always(POOLS, many("pools", &[with(pool(), json!({ "members": [], "healthmonitor_id": "hm-1" }))]))
            .always("load-balancer GET /lbaas/healthmonitors/hm-1", one("healthmonitor", &monitor))
            .always("network GET /security-groups", many("security_groups", &[]))
            .always(TREE, tree(&[listener()], &[]))
            .on("load-balancer PUT /lbaas/pools/pool-1/members", accepted());
        let mut noted = settled(&[(names::MONITOR, "true")]);
        noted.ports.truncate(1);
        let done = ensure(&usual(), &host(), &noted, &many_nodes);
        let (line, body) = writes(&cloud).pop().expect("a write");
        assert_eq!(line, "load-balancer PUT /lbaas/pools/pool-1/members", "{:?}", done.outcome);
        assert_eq!(body["members"].as_array().map(Vec::len), Some(2_000));
    }
}

/// A gateway that gives up says nothing of what Octavia does.
#[test]
fn after_an_answer_of_500_or_more_it_is_looked_for_before_it_is_asked_for_again() {
    let quota = r#"{"faultcode": "Client", "faultstring": "Quota has been met for resources: Load Balancer"}"#;
    for (status, body, again_at_once) in
        [(500, "{}", false), (502, "<html>", false), (504, "{}", false), (403, quota, true)]
    {
        let cloud = empty().on(POST, Reply::json(status, body)).on(POST, made());
        let first = run(&service(&[]));
        assert!(first.outcome.failure.is_some() && first.outcome.annotations.is_empty(), "{status}");
        later(&cloud);
        run(&service(&[]));
        assert_eq!(written(&cloud).len(), if again_at_once { 2 } else { 1 }, "{status}: {:?}", cloud.lines());
        // It did not come of it.
        cloud.pass(61);
        let last = run(&service(&[]));
        assert_eq!(written(&cloud).len(), if again_at_once { 3 } else { 2 }, "{status}: {:?}", last.outcome);
    }
}

/// Left out, the Service would get whatever address is next.
#[test]
fn an_address_that_nobody_has_yet_is_asked_for_by_its_name() {
    let line = "network POST /floatingips";
    let subnet = (names::FLOATING_SUBNET, "public-*");
    for (case, annotations, requested) in [
        ("asked for", vec![], Some("203.0.113.77")),
        ("whatever its subnet", vec![subnet], Some("203.0.113.77")),
        ("any", vec![], None),
    ] {
        let cloud = cloud_of(&balancer(), &[listener()], &[pool()], &[member(1), member(2)])
            .on(FLOATING, many("floatingips", &[]))
            .on(FLOATING, many("floatingips", &[]))
            .on(FLOATING, many("floatingips", &[]))
            .on(line, Reply::json(201, json!({ "floatingip": floating() }).to_string()));
        let mut service = settled(&annotations);
        service.requested_ip = requested.map(str::to_owned);
        let done = run(&service);
        let mut expected = json!({
            "floating_network_id": "public", "port_id": "port-1", "description": floating()["description"],
        });
        if let Some(requested) = requested {
            expected["floating_ip_address"] = json!(requested);
        }
        assert_eq!(
            writes(&cloud),
            [(line.to_owned(), json!({ "floatingip": expected }))],
            "{case}: {:?}",
            done.outcome
        );
    }
}

#[test]
fn without_cascades_an_active_one_is_taken_apart_before_it_goes_and_one_in_error_is_not() {
    let mut config = usual();
    config.balancers.cascade_delete = false;
    let gone = "load-balancer DELETE /lbaas/loadbalancers/lb-1";
    let second = with(listener(), json!({ "id": "listener-2", "default_pool_id": "pool-2", "protocol_port": 443 }));
    let pool_2 = with(pool(), json!({ "id": "pool-2", "listeners": [{ "id": "listener-2" }] }));
    let (listeners, pools) = ([listener(), second], [pool(), pool_2]);
    let parts = [
        "network DELETE /floatingips/fip-1",
        "load-balancer DELETE /lbaas/listeners/listener-1",
        "load-balancer DELETE /lbaas/listeners/listener-2",
        "load-balancer DELETE /lbaas/pools/pool-1",
        "load-balancer DELETE /lbaas/pools/pool-2",
    ];
    for (status, expected, last) in [
        ("ACTIVE", [&parts[..], &[gone]].concat(), gone.to_owned()),
        ("ERROR", vec![parts[0], gone], format!("{gone}?cascade=true")),
    ] {
        let mut cloud = FakeCloud::new()
            .with_credential("session-token")
            .always(GET, one("loadbalancer", &with(balancer(), json!({ "provisioning_status": status }))))
            .always(LIST, many("loadbalancers", &[]))
            .on(FLOATING, many("floatingips", &[floating()]))
            .always(FLOATING, many("floatingips", &[]))
            // It is asked whether others use it, and then what it is made of.
            .on(LISTENERS, many("listeners", &listeners))
            .on(LISTENERS, many("listeners", &listeners))
            .on(POOLS, many("pools", &pools))
            .always(LISTENERS, many("listeners", &[]))
            .always(POOLS, many("pools", &[]));
        for line in &expected {
            cloud = cloud.on(line, Reply::status(204));
        }
        for _ in 0..9 {
            assert_eq!(reaction(&delete(&config, &host(), &settled(&[]))), Reaction::Pending, "{status}");
            if written(&cloud).contains(&gone.to_owned()) {
                break;
            }
            later(&cloud);
        }
        assert_eq!(written(&cloud), expected, "{status}");
        assert_eq!(cloud.lines().last(), Some(&last), "{status}");
    }
}

/// So does the Go manager. Nobody knows the address yet, so nobody has to consent; and a cloud without room is not asked again and again.
#[test]
fn one_that_fails_before_it_has_served_is_deleted_and_another_is_made_a_minute_later() {
    let gone = "load-balancer DELETE /lbaas/loadbalancers/lb-1";
    let broken = with(balancer(), json!({ "provisioning_status": "ERROR" }));
    let shared = with(broken.clone(), json!({ "tags": [NAME, UID, "kube_service_kubernetes_default_b"] }));
    let (none, no) = (&[][..], &[(names::RECREATE, "false")][..]);
    type Call = fn(&Config, &Host, &Service, &[Backend]) -> Done;
    let calls: [Option<Call>; 3] = [None, Some(ensure), Some(update_backends)];
    for (case, is_made_here, served, annotations, broken, goes) in [
        ("it was just made", true, calls[0], none, &broken, true),
        ("somebody else may have made it", false, calls[0], none, &broken, false),
        ("it has served", true, calls[1], none, &broken, false),
        ("it has served since Nodes were followed", true, calls[2], none, &broken, false),
        ("the Service says no", true, calls[0], no, &broken, false),
        ("another Service is there", true, calls[0], none, &shared, false),
    ] {
        let mut cloud = FakeCloud::new()
            .with_credential("session-token")
            .always(LIST, many("loadbalancers", &[]))
            .always(LISTENERS, many("listeners", &[listener()]))
            .always(POOLS, many("pools", &[pool()]))
            .always(TREE, tree(&[listener()], &[member(1), member(2)]))
            .always("load-balancer GET /lbaas/pools/pool-1/members", many("members", &[member(1), member(2)]))
            .always("network GET /security-groups", many("security_groups", &[]))
            .always(FLOATING, many("floatingips", &[floating()]))
            .always(POST, made())
            .on(gone, Reply::status(204));
        if is_made_here {
            run(&service(annotations));
        }
        let noted = service(&[annotations, &[(names::ID, "lb-1"), (names::ADDRESS, "10.1.0.100")]].concat());
        if let Some(call) = served {
            cloud = cloud.on(GET, one("loadbalancer", &balancer()));
            assert_eq!(ips(&call(&usual(), &host(), &noted, &nodes())), ["203.0.113.7"], "{case}");
        }
        let cloud = cloud.on(GET, one("loadbalancer", broken));
        let so_far = written(&cloud).len();
        let done = run(&noted);
        assert_eq!(written(&cloud)[so_far..].to_vec(), if goes { vec![gone] } else { vec![] }, "{case}");
        assert_eq!(reaction(&done), Reaction::Retry, "{case}");
        let failure = done.outcome.failure.as_ref().expect("it is not there");
        assert_eq!(failure.retry_after_ms, Some(if goes { 60_000 } else { 300_000 }), "{case}");
        assert!(failure.message.contains("loadbalancer lb-1 has gone into ERROR state"), "{case}: {failure:?}");
        if goes {
            assert_eq!(done.outcome.annotations, [(names::ID.to_owned(), None)]);
            assert!(failure.message.ends_with("was deleted and its creation will be retried"), "{failure:?}");
            cloud.pass(60);
            assert_eq!(reaction(&run(&service(&[(names::ADDRESS, "10.1.0.100")]))), Reaction::Pending);
            assert_eq!(written(&cloud)[so_far..], [gone, POST]);
        }
    }
}

/// The replica that made it leads again within the hour, and still remembers it as new. Clients have its address meanwhile. Where the status
/// has the address of the one before, which somebody deleted, nobody has that of the new one.
#[test]
fn one_that_another_replica_has_published_stays_when_it_fails() {
    let gone = "load-balancer DELETE /lbaas/loadbalancers/lb-1";
    let broken = with(balancer(), json!({ "provisioning_status": "ERROR" }));
    let (own, before) = ("10.1.0.100", "203.0.113.9");
    let of = |address: &str| vec![Ingress::ip(address)];
    let named = vec![Ingress::hostname("web.example.com")];
    for call in [ensure, update_backends] {
        for (case, status, noted, has_floating, goes) in [
            ("nobody", vec![], Some(own), false, true),
            ("its own address", of(own), Some(own), false, false),
            ("its floating IP", of("203.0.113.7"), Some("203.0.113.7"), true, false),
            ("a name, and its own address is noted", named.clone(), Some(own), false, false),
            ("a name, and nothing is noted", named.clone(), None, false, false),
            ("its floating IP, which the status does not show yet", of(before), Some(before), true, false),
            ("the one before", of(before), Some(before), false, true),
            ("the one before, by a name", named.clone(), Some(before), false, true),
        ] {
            let floating = if has_floating { vec![floating()] } else { vec![] };
            let cloud = empty()
                .on(POST, made())
                .always(GET, one("loadbalancer", &broken))
                .always(LISTENERS, many("listeners", &[listener()]))
                .always(FLOATING, many("floatingips", &floating))
                .on(gone, Reply::status(204));
            run(&service(&[]));
            let noted: Vec<_> = noted.map(|address| (names::ADDRESS, address)).into_iter().collect();
            let noted = service(&[&[(names::ID, "lb-1")], &noted[..]].concat());
            let done = call(&usual(), &host(), &Service { ingress: status, ..noted }, &nodes());
            assert_eq!(written(&cloud), if goes { vec![POST, gone] } else { vec![POST] }, "{case}");
            let way_out = format!("{}: \"true\" lets it be deleted and made anew", names::RECREATE);
            assert_eq!(message(&done).ends_with(&way_out), !goes, "{case}: {}", message(&done));
            assert_eq!(done.outcome.annotations.is_empty(), !goes, "{case}");
        }
    }
}
