//! A cloud whose provider takes one change at a time.

use super::*;

const MEMBER: &str = "load-balancer PUT /lbaas/pools/pool-1/members/m-1";
const ADD: &str = "load-balancer POST /lbaas/pools/pool-1/members";
const REMOVE: &str = "load-balancer DELETE /lbaas/pools/pool-1/members/m-1";

/// With monitors, a change of `externalTrafficPolicy` to `Cluster` left the health check's node port on the members: all of them failed.
#[test]
fn members_get_another_health_check_port_or_go_for_another_subnet() {
    let mut config = usual();
    config.balancers.serial = true;
    let answers = |cloud: FakeCloud| {
        cloud.on(MEMBER, Reply::json(200, "{}")).on(REMOVE, Reply::status(204)).on(ADD, Reply::json(201, "{}"))
    };
    let added = json!({ "member": { "name": "node-1", "address": "10.1.0.1", "protocol_port": 30_000, "subnet_id": "subnet-1" } });
    let line = |line: &str, body: Value| (line.to_owned(), body);
    for (case, odd, expected) in [
        (
            "another port",
            json!({ "monitor_port": 31_000 }),
            vec![line(MEMBER, json!({ "member": { "monitor_port": null } }))],
        ),
        // Octavia refuses a second member of that address and port, and none of them changes its subnet.
        (
            "another subnet",
            json!({ "subnet_id": "subnet-9" }),
            vec![line(REMOVE, Value::Null), line(ADD, added.clone())],
        ),
        (
            "both",
            json!({ "subnet_id": "subnet-9", "monitor_port": 31_000 }),
            vec![line(REMOVE, Value::Null), line(ADD, added)],
        ),
        ("as it should be", json!({}), vec![]),
    ] {
        let odd = [with(member(1), odd), member(2)];
        let subnet = json!({ "id": "subnet-1", "network_id": "net-1", "ip_version": 4 });
        let cloud = answers(cloud_of(&balancer(), &[listener()], &[pool()], &odd))
            .always("network GET /subnets/subnet-1", one("subnet", &subnet));
        for _ in 0..2 {
            ensure(&config, &host(), &settled(&[]), &nodes());
            later(&cloud);
        }
        assert_eq!(writes(&cloud), expected, "{case}");
    }
}

/// A typing error took one Node after another out of service: Octavia refuses the new member when the old one is gone.
#[test]
fn no_member_goes_for_a_subnet_that_is_not_there() {
    let missing =
        json!({ "NeutronError": { "type": "SubnetNotFound", "message": "Subnet subnet-9 could not be found." } });
    let mut serial = usual();
    serial.balancers.serial = true;
    let mut configured = serial.clone();
    configured.balancers.place.member_subnet = "subnet-9".to_owned();
    let mut free = serial.clone();
    free.balancers.place.subnet.clear();
    for (config, annotations, expected) in [
        (&serial, vec![(names::MEMBER_SUBNET, "subnet-9")], (Reaction::Invalid, Some(names::MEMBER_SUBNET))),
        (&free, vec![(names::SUBNET, "subnet-9")], (Reaction::Invalid, Some(names::SUBNET))),
        (&configured, vec![], (Reaction::Retry, None)),
    ] {
        let cloud = whole()
            .always("network GET /subnets/subnet-9", Reply::json(404, missing.to_string()))
            .always(REMOVE, Reply::status(204))
            .always(ADD, Reply::json(400, json!({ "faultstring": "Subnet subnet-9 not found." }).to_string()));
        for _ in 0..2 {
            let failure = ensure(config, &host(), &settled(&annotations), &nodes()).outcome.failure.expect("refused");
            let field = expected.1.map(ccm_sdk::annotations::field);
            assert_eq!((failure.reaction, failure.field), (expected.0, field), "{}", failure.message);
            assert!(failure.message.contains("subnet-9"), "{}", failure.message);
            later(&cloud);
        }
        assert_eq!(written(&cloud), Vec::<String>::new(), "{annotations:?}");
    }
}

/// The Go manager names no subnet where it makes members one at a time: they are reached as the load balancer's address is. With the first
/// change of their Service, each of them went, and came again.
#[test]
fn members_that_the_go_manager_made_one_at_a_time_stay_whatever_else_changes() {
    let of_go = |value: Value| with(value, json!({ "tags": [NAME] }));
    let made_alone = |number: u8| {
        let name = format!("member_node-{number}_10.1.0.{number}_30000");
        with(member(number), json!({ "name": name, "subnet_id": null }))
    };
    let tags = "load-balancer PUT /lbaas/loadbalancers/lb-1";
    let (limit, elsewhere) = (&[(names::CONNECTION_LIMIT, "7")][..], &[(names::MEMBER_SUBNET, "subnet-9")][..]);
    for (case, serial, annotations, expected) in [
        ("nothing", true, &[][..], &[][..]),
        ("the limit", true, limit, &[tags, "load-balancer PUT /lbaas/listeners/listener-1"]),
        (
            "the limit, and what is made is made at once now",
            false,
            limit,
            &[tags, "load-balancer PUT /lbaas/listeners/listener-1"],
        ),
        ("the subnet", true, elsewhere, &[tags, REMOVE, ADD]),
    ] {
        let mut config = usual();
        config.balancers.serial = serial;
        let subnet = |id: &str| one("subnet", &json!({ "id": id, "network_id": "net-1", "ip_version": 4 }));
        let lb = of_go(balancer());
        let cloud = cloud_of(&lb, &[of_go(listener())], &[pool()], &[made_alone(1), made_alone(2)])
            .always("network GET /subnets/subnet-1", subnet("subnet-1"))
            .always("network GET /subnets/subnet-9", subnet("subnet-9"))
            .on(GET, one("loadbalancer", &lb))
            .always(GET, one("loadbalancer", &balancer()));
        let cloud = expected.iter().fold(cloud, |cloud, line| cloud.on(line, Reply::json(200, "{}")));
        for _ in 0..expected.len().max(1) {
            ensure(&config, &host(), &settled(annotations), &nodes());
            later(&cloud);
        }
        assert_eq!(written(&cloud), expected, "{case}");
        let is_asked = |line: &String| line.starts_with("network GET /subnets/subnet-1");
        assert!(!cloud.lines().iter().any(is_asked), "nobody moves there: {case}");
    }
}

#[test]
fn members_are_told_which_port_to_check() {
    let mut config = usual();
    config.balancers.serial = true;
    let monitor = json!({ "id": "hm-1", "name": format!("monitor_0_{NAME}"), "type": "HTTP", "delay": 5, "timeout": 3,
                          "max_retries": 1, "max_retries_down": 3 });
    let watched = with(pool(), json!({ "healthmonitor_id": "hm-1" }));
    let cloud = cloud_of(
        &balancer(),
        &[listener()],
        &[watched],
        &[member(1), with(member(2), json!({ "monitor_port": 31_000 }))],
    )
    .always("load-balancer GET /lbaas/healthmonitors/hm-1", one("healthmonitor", &monitor))
    .on(MEMBER, Reply::json(200, "{}"));
    let mut service = settled(&[(names::MONITOR, "true")]);
    service.external_traffic_policy = ccm_sdk::types::TrafficPolicy::Local;
    service.health_check_node_port = Some(31_000);
    ensure(&config, &host(), &service, &nodes());
    assert_eq!(writes(&cloud), [(MEMBER.to_owned(), json!({ "member": { "monitor_port": 31_000 } }))]);
}

#[test]
fn os_204_one_by_one_nodes_without_an_address_of_the_family_are_left_out() {
    let mut config = usual();
    config.balancers.serial = true;
    let cloud = whole()
        .on("load-balancer POST /lbaas/pools/pool-1/members", Reply::json(201, "{}"))
        .on("load-balancer DELETE /lbaas/pools/pool-1/members/m-1", Reply::status(204));
    let without = Backend { addresses: vec![], ..node(9) };
    for _ in 0..2 {
        ensure(&config, &host(), &settled(&[]), &[node(2), node(3), without.clone()]);
        later(&cloud);
    }
    let all = writes(&cloud);
    let lines: Vec<_> = all.iter().map(|(line, _)| line.as_str()).collect();
    let expected =
        ["load-balancer POST /lbaas/pools/pool-1/members", "load-balancer DELETE /lbaas/pools/pool-1/members/m-1"];
    assert_eq!(lines, expected, "os_204: new ones before old ones go");
    assert_eq!(all[0].1["member"]["name"], "node-3");
}
