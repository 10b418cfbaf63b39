//! A Service that cannot be what it asks for, and whose node port changes meanwhile: its security group follows its members.

use super::closing::of_ovn;
use super::groups::{good_rule, group, managed, ovn, port_of};
use super::*;

const GROUPS: &str = "network GET /security-groups";
const PORTS: &str = "network GET /ports";
const RULES: &str = "network POST /security-group-rules";
const GONE: &str = "network DELETE /security-group-rules/r-1";
const MEMBERS: &str = "load-balancer PUT /lbaas/pools/pool-1/members";
const OF_POOL: &str = "load-balancer GET /lbaas/pools/pool-1/members";
const CLASS: (&str, &str) = (names::CLASS, "removed");

type Call = fn(&Config, &Host, &Service, &[Backend]) -> Done;

const CALLS: [Call; 2] = [ensure, update_backends];

/// Its only port has the node port 31000 now; it was 30000.
fn moved(annotations: &[(&str, &str)]) -> Service {
    let mut service = settled(annotations);
    service.ports[0].node_port = Some(31_000);
    service
}

/// A member in the subnet that the class had.
fn there(number: u8, port: u16) -> Value {
    with(member(number), json!({ "protocol_port": port, "subnet_id": "subnet-of-the-class" }))
}

/// The members are at this port, and the group has these rules.
fn cloud(balancer: &Value, pool: &Value, at: u16, rules: &[Value]) -> FakeCloud {
    let subnet = json!({ "id": "subnet-of-the-class", "network_id": "n", "cidr": "10.9.0.0/24", "ip_version": 4 });
    let ports = [port_of(1, &["sg-1"]), port_of(2, &["sg-1"])];
    cloud_of(balancer, &[listener()], std::slice::from_ref(pool), &[there(1, at), there(2, at)])
        .on(GROUPS, many("security_groups", &[group(&json!(rules))]))
        .always("network GET /subnets/subnet-of-the-class", one("subnet", &subnet))
        .always(PORTS, many("ports", &ports))
        .always(RULES, Reply::json(201, "{}"))
        .always(GONE, Reply::status(204))
        .always(MEMBERS, accepted())
}

/// That of the load balancer's address.
fn subnet() -> Value {
    json!({ "id": "subnet-1", "network_id": "n", "cidr": "10.1.0.0/24", "ip_version": 4 })
}

/// A rule for a port, from a network.
fn rule(id: &str, port: u16, from: &str) -> Value {
    with(good_rule(), json!({ "id": id, "port_range_min": port, "port_range_max": port, "remote_ip_prefix": from }))
}

/// The rules that were made: port and network.
fn made(cloud: &FakeCloud) -> Vec<String> {
    let of = |rule: &Value| format!("{} {}", rule["port_range_min"], rule["remote_ip_prefix"].as_str().unwrap_or("?"));
    let all = writes(cloud).into_iter().filter(|(line, _)| line == RULES);
    all.flat_map(|(_, body)| body["security_group_rules"].as_array().into_iter().flatten().map(of).collect::<Vec<_>>())
        .collect()
}

/// The ports and subnets that members were sent with.
fn sent(cloud: &FakeCloud) -> Vec<(u64, String)> {
    let of = |member: &Value| {
        (member["protocol_port"].as_u64().unwrap_or(0), member["subnet_id"].as_str().unwrap_or("?").to_owned())
    };
    let all = writes(cloud).into_iter().filter(|(line, _)| line == MEMBERS);
    all.flat_map(|(_, body)| body["members"].as_array().into_iter().flatten().map(of).collect::<Vec<_>>()).collect()
}

/// The configuration has no such class any more: which subnet the members are in, their pool says. Once the members followed, and no traffic
/// came to them before the annotation was right again.
#[test]
fn the_new_node_port_is_open_before_the_members_come_to_it_and_the_old_one_is_closed_when_they_have() {
    for call in CALLS {
        let service = moved(&[CLASS]);
        let before = cloud(&balancer(), &pool(), 30_000, &[rule("r-1", 30_000, "10.9.0.0/24")]);
        let done = call(&managed(), &host(), &service, &nodes());
        assert_eq!(reaction(&done), Reaction::Pending, "{}", message(&done));
        assert_eq!(written(&before), [RULES, MEMBERS]);
        assert_eq!(made(&before), ["31000 10.9.0.0/24"]);
        let of_class = "subnet-of-the-class".to_owned();
        assert_eq!(sent(&before), [(31_000, of_class.clone()), (31_000, of_class)]);
        drop(before);
        let both = [rule("r-1", 30_000, "10.9.0.0/24"), rule("r-2", 31_000, "10.9.0.0/24")];
        let after = cloud(&balancer(), &pool(), 31_000, &both);
        let done = call(&managed(), &host(), &service, &nodes());
        assert_eq!(written(&after), [GONE]);
        assert!(done.outcome.failure.is_none_or(|failure| failure.reaction == Reaction::Invalid));
        drop(after);
        let rest = cloud(&balancer(), &pool(), 31_000, &both[1..]);
        call(&managed(), &host(), &service, &nodes());
        assert_eq!(written(&rest), Vec::<String>::new());
        let asked = |line: &str| rest.lines().iter().any(|other| other.starts_with(line));
        assert!(!asked(OF_POOL) && !asked("network GET /subnets"), "what is open costs nothing: {:?}", rest.lines());
    }
}

/// Members that came to the new node port while it was closed are not forgotten.
#[test]
fn a_node_port_that_members_have_already_is_opened_too() {
    for call in CALLS {
        let cloud = cloud(&balancer(), &pool(), 31_000, &[rule("r-1", 30_000, "10.9.0.0/24")]);
        call(&managed(), &host(), &moved(&[CLASS]), &nodes());
        assert_eq!(made(&cloud), ["31000 10.9.0.0/24"]);
        assert_eq!(written(&cloud), [RULES, GONE]);
    }
}

/// No listener is made for it, so nobody comes to it. Where all members have left, and where theirs is that of the load balancer's address,
/// that subnet is what there is.
#[test]
fn only_what_has_a_listener_is_opened_and_without_members_it_is_to_the_subnet_that_is_known() {
    let other_subnet = json!({ "id": "subnet-2", "network_id": "n", "cidr": "10.2.0.0/24", "ip_version": 4 });
    let without_pool = with(listener(), json!({ "default_pool_id": null }));
    let other_protocol = with(listener(), json!({ "protocol": "TERMINATED_HTTPS" }));
    let of_another = with(listener(), json!({ "tags": ["kube_service_kubernetes_default_b"] }));
    let nowhere = || vec![with(member(1), json!({ "subnet_id": null }))];
    for (what, listener, members, opened) in [
        ("no pool", without_pool, nowhere(), &[][..]),
        ("another Service's", of_another, nowhere(), &[]),
        ("members have no subnet", listener(), nowhere(), &["31000 10.1.0.0/24"]),
        ("no members", listener(), vec![], &["31000 10.1.0.0/24"]),
        ("of another protocol, until it goes", other_protocol, nowhere(), &["31000 10.1.0.0/24"]),
    ] {
        for call in CALLS {
            let mut service = moved(&[CLASS]);
            service.ports.push(port(443, 30_443));
            let cloud = cloud_of(&balancer(), std::slice::from_ref(&listener), &[pool()], &members)
                .on(GROUPS, many("security_groups", &[group(&json!([]))]))
                .always("network GET /subnets/subnet-1", one("subnet", &subnet()))
                .always("network GET /subnets/subnet-2", one("subnet", &other_subnet))
                .always(PORTS, many("ports", &[]))
                .always(RULES, Reply::json(201, "{}"))
                .always(MEMBERS, accepted());
            // The configuration names another subnet, which the class need not have.
            let mut config = managed();
            config.balancers.place.subnet = if members.is_empty() { "subnet-1" } else { "subnet-2" }.to_owned();
            call(&config, &host(), &service, &nodes());
            assert_eq!(made(&cloud), opened, "{what}");
        }
    }
}

/// Members are watched there.
#[test]
fn the_node_port_of_the_health_check_follows_with_the_others() {
    for call in CALLS {
        let mut service = moved(&[CLASS]);
        service.health_check_node_port = Some(32_000);
        let cloud = cloud(&balancer(), &pool(), 30_000, &[rule("r-1", 30_000, "10.9.0.0/24")]);
        call(&managed(), &host(), &service, &nodes());
        assert_eq!(made(&cloud), ["31000 10.9.0.0/24", "32000 10.9.0.0/24"]);
        drop(cloud);
        let cloud = cloud_of(&balancer(), &[], &[], &[])
            .on(GROUPS, many("security_groups", &[group(&json!([]))]))
            .always("network GET /subnets/subnet-1", one("subnet", &subnet()))
            .always(PORTS, many("ports", &[]))
            .always(RULES, Reply::json(201, "{}"));
        call(&managed(), &host(), &service, &nodes());
        assert_eq!(made(&cloud), Vec::<String>::new(), "without a listener nobody is watched");
    }
}

/// Which rules it should have is one question, and who has the group is another.
#[test]
fn ports_get_the_group_and_members_follow_although_it_is_not_known_what_to_open() {
    let give = "network PUT /ports/p-1";
    for line in [LISTENERS, OF_POOL, "network GET /subnets/subnet-of-the-class", RULES] {
        for call in CALLS {
            let ports = [port_of(1, &["mine"]), port_of(2, &["sg-1"])];
            let cloud = cloud(&balancer(), &pool(), 31_000, &[rule("r-1", 30_000, "10.9.0.0/24")])
                .on(PORTS, many("ports", &ports))
                .on(give, Reply::json(200, "{}"))
                .on(line, Reply::status(503));
            let done = call(&managed(), &host(), &moved(&[CLASS]), &nodes());
            assert!(message(&done).contains("503"), "{line}: {}", message(&done));
            assert_eq!(reaction(&done), Reaction::Retry, "{line}: it is tried again");
            let mut written = written(&cloud);
            written.retain(|written| written != line);
            assert_eq!(written, [give, GONE], "{line}");
        }
    }
    for call in CALLS {
        let _cloud = cloud(&balancer(), &pool(), 31_000, &[])
            .on(PORTS, Reply::status(503))
            .on("network GET /subnets/subnet-of-the-class", Reply::status(502));
        let done = call(&managed(), &host(), &moved(&[CLASS]), &nodes());
        for told in ["ports: 503", "subnets/{id}: 502"] {
            assert!(message(&done).contains(told), "{told}: {}", message(&done));
        }
    }
}

/// Until the Service is right again nobody knows better.
#[test]
fn rules_for_what_goes_out_and_for_more_than_one_port_stay() {
    let out = with(rule("r-3", 1, "10.9.0.0/24"), json!({ "direction": "egress" }));
    let wide = with(rule("r-4", 1, "10.9.0.0/24"), json!({ "port_range_min": 30_000, "port_range_max": 32_767 }));
    for call in CALLS {
        let rules = [out.clone(), wide.clone(), rule("r-1", 1, "10.9.0.0/24")];
        let cloud = cloud(&balancer(), &pool(), 31_000, &rules);
        call(&managed(), &host(), &moved(&[CLASS]), &nodes());
        assert_eq!(written(&cloud), [GONE]);
    }
}

/// Nobody wrote the subnet that is not there into the configuration.
#[test]
fn that_the_subnet_of_the_members_is_gone_is_told_as_what_it_is() {
    let absent = Reply::json(404, r#"{"NeutronError": {"type": "SubnetNotFound", "message": "no"}}"#);
    let _cloud = cloud(&balancer(), &pool(), 31_000, &[]).on("network GET /subnets/subnet-of-the-class", absent);
    let done = update_backends(&managed(), &host(), &moved(&[CLASS]), &nodes());
    let words =
        "the subnet of the members, \"subnet-of-the-class\", is not there; members of load balancer lb-1 are in it";
    assert!(message(&done).contains(words), "{}", message(&done));
}

/// There rules let the clients in themselves: those whom the Service asks for, whatever class it names. Members move when Octavia is at rest.
#[test]
fn with_ovn_the_new_node_port_is_open_to_the_source_ranges_when_members_can_come_to_it() {
    for (what, status, rules, written_then) in [
        ("at rest", "ACTIVE", &["31000 192.0.2.0/24"][..], &[RULES, GONE, MEMBERS][..]),
        ("at work", "PENDING_UPDATE", &[], &[GONE]),
    ] {
        for call in CALLS {
            let mut service = moved(&[CLASS]);
            service.source_ranges = vec!["192.0.2.0/24".to_owned()];
            let balancer = with(balancer(), json!({ "provisioning_status": status }));
            let cloud = cloud(&balancer, &of_ovn(), 30_000, &[rule("r-1", 30_000, "192.0.2.0/24")]);
            call(&ovn(), &host(), &service, &nodes());
            assert_eq!(made(&cloud), rules, "{what}");
            assert_eq!(written(&cloud), written_then, "{what}");
        }
    }
}

/// What cannot be read there keeps clients out. It is told which node ports nobody comes to.
#[test]
fn with_ovn_and_ranges_that_cannot_be_read_the_members_follow_and_the_closed_node_port_is_told() {
    for call in CALLS {
        let service = moved(&[(names::SOURCE_RANGES, "everybody")]);
        let first = rule("r-1", 30_000, "192.0.2.0/24");
        let before = cloud(&balancer(), &of_ovn(), 30_000, std::slice::from_ref(&first));
        call(&ovn(), &host(), &service, &nodes());
        assert_eq!(written(&before), [MEMBERS]);
        drop(before);
        let cloud = cloud(&balancer(), &of_ovn(), 31_000, &[first])
            .on(PORTS, many("ports", &[port_of(1, &["sg-1"]), port_of(2, &["sg-1"])]))
            .on(PORTS, many("ports", &[port_of(9, &["sg-1"])]))
            .on("network PUT /ports/p-9", Reply::json(200, "{}"));
        let done = call(&ovn(), &host(), &service, &nodes());
        assert_eq!(
            written(&cloud),
            [GONE, "network PUT /ports/p-9"],
            "what is not open to anybody is closed all the same"
        );
        assert_eq!(reaction(&done), Reaction::Invalid);
        let words = "security group lb-sg-uid-test-default-test lets nobody in at node port 31000 until the source ranges can be read";
        assert!(message(&done).contains(words), "{}", message(&done));
        drop(cloud);
        // Of one that is open there is nothing to tell.
        let open = self::cloud(&balancer(), &of_ovn(), 31_000, &[rule("r-2", 31_000, "192.0.2.0/24")]);
        let done = call(&ovn(), &host(), &service, &nodes());
        assert!(done.outcome.failure.is_none_or(|failure| !failure.message.contains("nobody in")));
        assert_eq!(written(&open), Vec::<String>::new());
    }
}

/// Whoever looks for why nobody comes in hears it, whatever else is wrong. It was once lost with what keeps members from following, and
/// with what cannot be closed.
#[test]
fn that_a_node_port_stays_closed_is_told_also_where_members_cannot_follow_and_where_closing_fails() {
    let words = "lets nobody in at node port 31000 until the source ranges can be read";
    let service = moved(&[(names::SOURCE_RANGES, "everybody")]);
    let first = rule("r-1", 30_000, "192.0.2.0/24");
    for (what, at, line, reply, told, reaction_then) in [
        ("Octavia is down", 30_000, MEMBERS, Reply::status(503), "503", Reaction::Retry),
        ("Octavia refuses members", 30_000, MEMBERS, Reply::status(400), "400", Reaction::Retry),
        ("members are sent", 30_000, MEMBERS, accepted(), "lb-1", Reaction::Pending),
        ("the rule stays", 31_000, GONE, Reply::status(503), "503", Reaction::Retry),
    ] {
        for call in CALLS {
            let cloud = cloud(&balancer(), &of_ovn(), at, std::slice::from_ref(&first)).on(line, reply.clone());
            let done = call(&ovn(), &host(), &service, &nodes());
            assert!(message(&done).contains(words), "{what}: {}", message(&done));
            assert!(message(&done).contains(told), "{what}: {}", message(&done));
            assert_eq!(reaction(&done), reaction_then, "{what}: it is tried again");
            assert_eq!(written(&cloud), [line], "{what}");
        }
    }
}

/// Whom the Service keeps out goes all the same.
#[test]
fn with_ovn_source_ranges_are_narrowed_although_it_is_not_known_what_else_to_open() {
    for call in CALLS {
        let mut service = settled(&[CLASS]);
        service.ports.push(port(443, 30_443));
        service.source_ranges = vec!["192.0.2.0/24".to_owned()];
        let cloud = cloud(&balancer(), &of_ovn(), 30_000, &[rule("r-1", 30_000, "0.0.0.0/0")])
            .on(LISTENERS, Reply::status(503));
        let done = call(&ovn(), &host(), &service, &nodes());
        assert_eq!(
            (made(&cloud), written(&cloud)),
            (vec!["30000 192.0.2.0/24".to_owned()], vec![RULES.to_owned(), GONE.to_owned()])
        );
        assert!(message(&done).contains("503"), "{}", message(&done));
    }
}
