//! Rules of the security group of a Service: whom they let in, and where.

use ccm_sdk::types::{IpFamily, Protocol, ServicePort};

use super::groups::{good_rule, group, managed, ovn, port_of};
use super::*;

const RULES: &str = "network POST /security-group-rules";

/// Members have it from everywhere, or from these, at this address family.
struct Case<'a> {
    what: &'a str,
    ovn: bool,
    family: IpFamily,
    /// Of the members' subnet.
    subnet: &'a str,
    ranges: &'a [&'a str],
    annotation: Option<&'a str>,
    expected: Vec<Value>,
}

fn rule(ethertype: &str, protocol: &str, port: u16, source: &str) -> Value {
    json!({ "security_group_id": "sg-1", "direction": "ingress", "ethertype": ethertype, "protocol": protocol,
            "port_range_min": port, "port_range_max": port, "remote_ip_prefix": source })
}

/// The node ports of a Service for TCP and UDP, and where it tells that it has local members.
fn rules(ethertype: &str, sources: &[&str]) -> Vec<Value> {
    let ports = [("tcp", 30_000), ("tcp", 32_000), ("udp", 30_053)];
    let of = |(protocol, port): (&str, u16)| {
        sources.iter().map(|source| rule(ethertype, protocol, port, source)).collect::<Vec<_>>()
    };
    ports.into_iter().flat_map(of).collect()
}

/// With TCP, UDP, and its traffic on Nodes with members alone.
fn asking(case: &Case<'_>) -> Service {
    let mut service = settled(case.annotation.map(|value| (names::SOURCE_RANGES, value)).as_slice());
    service.ports.push(ServicePort { protocol: Protocol::Udp, ..port(53, 30_053) });
    service.health_check_node_port = Some(32_000);
    service.source_ranges = case.ranges.iter().map(|range| (*range).to_owned()).collect();
    service.ip_families = vec![case.family];
    service
}

fn reach(config: &Config, service: &Service, family: IpFamily, subnet: &str) -> FakeCloud {
    let vip = if family == IpFamily::Ipv6 { "fd00:10:1::100" } else { "10.1.0.100" };
    let version = if family == IpFamily::Ipv6 { 6 } else { 4 };
    let subnet = json!({ "id": "subnet-1", "network_id": "n", "cidr": subnet, "ip_version": version });
    let balancer = with(balancer(), json!({ "vip_address": vip }));
    let cloud = cloud_of(&balancer, &[], &[], &[])
        .on("network GET /security-groups", many("security_groups", &[group(&json!([]))]))
        .on("network GET /subnets/subnet-1", one("subnet", &subnet))
        .always("network GET /ports", many("ports", &[port_of(1, &["sg-1"]), port_of(2, &["sg-1"])]))
        .on(RULES, Reply::json(201, "{}"))
        .on("load-balancer POST /lbaas/pools", Reply::json(201, "{}"));
    let done = ensure(config, &host(), service, &nodes());
    assert_eq!(reaction(&done), Reaction::Pending, "{:?}", done.outcome.failure);
    cloud
}

/// With OVN the security group alone keeps clients out: a warning of ours tells people to use it for that.
#[test]
fn rules_have_the_protocol_the_port_and_the_family_that_are_asked_for_and_with_ovn_the_source_ranges() {
    let v4 = |what, ovn, ranges, annotation, expected| Case {
        what,
        ovn,
        family: IpFamily::Ipv4,
        subnet: "10.1.0.0/24",
        ranges,
        annotation,
        expected,
    };
    let v6 = |what, ovn, ranges, expected| Case {
        what,
        ovn,
        family: IpFamily::Ipv6,
        subnet: "fd00:10:1::/64",
        ranges,
        annotation: None,
        expected,
    };
    let (narrow, two) = (&["10.0.0.0/8"][..], &["10.0.0.0/8", "192.0.2.0/24"][..]);
    for case in [
        v4("amphora: from where its members' subnet is", false, &[], None, rules("IPv4", &["10.1.0.0/24"])),
        v4("amphora keeps clients out at the listener", false, narrow, None, rules("IPv4", &["10.1.0.0/24"])),
        v6("amphora with IPv6", false, &[], rules("IPv6", &["fd00:10:1::/64"])),
        v4("ovn: everybody", true, &[], None, rules("IPv4", &["0.0.0.0/0"])),
        v6("ovn: everybody with IPv6", true, &[], rules("IPv6", &["::/0"])),
        v4("ovn: the ranges of the spec", true, two, None, rules("IPv4", two)),
        v4("ovn: those of the annotation", true, &[], Some("10.0.0.0/8"), rules("IPv4", narrow)),
        v4("ovn: the spec before the annotation", true, narrow, Some("0.0.0.0/0"), rules("IPv4", narrow)),
        v6("ovn: ranges of IPv6", true, &["fd00:7::/32"], rules("IPv6", &["fd00:7::/32"])),
    ] {
        let config = if case.ovn { ovn() } else { managed() };
        let cloud = reach(&config, &asking(&case), case.family, case.subnet);
        let of_rules: Vec<_> = writes(&cloud).into_iter().filter(|(line, _)| line.contains("security-group")).collect();
        let expected = json!({ "security_group_rules": case.expected });
        assert_eq!(of_rules, [(RULES.to_owned(), expected)], "{}", case.what);
    }
}

/// One that lets others in, or not those that should, is no substitute for what is wanted.
#[test]
fn a_rule_that_differs_in_one_thing_is_made_as_it_should_be_and_the_odd_one_goes() {
    let gone = "network DELETE /security-group-rules/r-1";
    for (changes, is_odd) in [
        (json!({ "ethertype": "IPv6" }), true),
        (json!({ "protocol": "udp" }), true),
        (json!({ "protocol": null }), true),
        (json!({ "direction": "egress" }), true),
        (json!({ "remote_group_id": "sg-9" }), true),
        (json!({ "remote_address_group_id": "ag-9" }), true),
        (json!({ "port_range_min": 29_999 }), true),
        (json!({ "port_range_max": 30_001 }), true),
        (json!({ "port_range_min": null, "port_range_max": null }), true),
        (json!({ "remote_ip_prefix": "10.1.0.0/16" }), true),
        (json!({ "remote_ip_prefix": null }), true),
        (json!({}), false),
        (json!({ "ethertype": "ipv4", "protocol": "TCP", "remote_ip_prefix": "10.1.0.7/24" }), false),
        (json!({ "protocol": "6" }), false),
        (json!({ "protocol": "17" }), true),
    ] {
        let subnet = json!({ "id": "subnet-1", "network_id": "n", "cidr": "10.1.0.0/24", "ip_version": 4 });
        let has = json!([with(good_rule(), changes.clone())]);
        let cloud = whole()
            .on("network GET /security-groups", many("security_groups", &[group(&has)]))
            .on("network GET /subnets/subnet-1", one("subnet", &subnet))
            .always("network GET /ports", many("ports", &[port_of(1, &["sg-1"]), port_of(2, &["sg-1"])]))
            .on(RULES, Reply::json(201, "{}"))
            .on(gone, Reply::status(204));
        let done = ensure(&managed(), &host(), &settled(&[]), &nodes());
        assert_eq!(done.outcome.failure, None, "{changes}");
        let made = json!({ "security_group_rules": [rule("IPv4", "tcp", 30_000, "10.1.0.0/24")] });
        let expected = if is_odd { vec![(RULES.to_owned(), made), (gone.to_owned(), Value::Null)] } else { vec![] };
        assert_eq!(writes(&cloud), expected, "{changes}");
    }
}

/// Neutron takes it for the one that is wanted, which it refuses as there already: when the odd one went, clients were cut off.
#[test]
fn with_ovn_a_rule_that_lets_the_same_clients_in_in_another_form_stays() {
    let gone = "network DELETE /security-group-rules/r-1";
    let v4 = (balancer(), "0.0.0.0/0");
    let v6 = (with(balancer(), json!({ "vip_address": "fd00:10:1::100" })), "::/0");
    for ((balancer, everybody), changes, is_odd) in [
        (&v4, json!({ "remote_ip_prefix": null }), false),
        (&v4, json!({ "remote_ip_prefix": null, "protocol": "6" }), false),
        (&v4, json!({ "remote_ip_prefix": "0.0.0.0/0", "protocol": "6" }), false),
        (&v6, json!({ "remote_ip_prefix": null, "ethertype": "IPv6" }), false),
        (&v4, json!({ "remote_ip_prefix": null, "ethertype": "IPv6" }), true),
        (&v4, json!({ "remote_ip_prefix": null, "remote_group_id": "sg-9" }), true),
        (&v4, json!({ "remote_ip_prefix": null, "remote_address_group_id": "ag-9" }), true),
    ] {
        let has = json!([with(good_rule(), changes.clone())]);
        let pool = with(pool(), json!({ "lb_algorithm": "SOURCE_IP_PORT" }));
        let cloud = cloud_of(balancer, &[listener()], &[pool], &[member(1), member(2)])
            .on("network GET /security-groups", many("security_groups", &[group(&has)]))
            .always("network GET /ports", many("ports", &[port_of(1, &["sg-1"]), port_of(2, &["sg-1"])]))
            .on("load-balancer PUT /lbaas/pools/pool-1/members", accepted())
            .on(RULES, Reply::json(201, "{}"))
            .on(gone, Reply::status(204));
        ensure(&ovn(), &host(), &settled(&[]), &nodes());
        let family = if *everybody == "::/0" { "IPv6" } else { "IPv4" };
        let made = json!({ "security_group_rules": [rule(family, "tcp", 30_000, everybody)] });
        let expected = if is_odd { vec![(RULES.to_owned(), made), (gone.to_owned(), Value::Null)] } else { vec![] };
        let of_rules: Vec<_> = writes(&cloud).into_iter().filter(|(line, _)| line.contains("security-group")).collect();
        assert_eq!(of_rules, expected, "{changes}");
    }
}

/// A cloud that knows no filter by name, or reads it as a part of one.
#[test]
fn a_group_whose_name_only_resembles_the_services_is_neither_used_nor_deleted() {
    let line = "network GET /security-groups";
    let alike = with(group(&json!([])), json!({ "id": "sg-0", "name": "lb-sg-uid-test-default-test-2" }));
    let all = || many("security_groups", &[alike.clone(), group(&json!([good_rule()]))]);
    let subnet = json!({ "id": "subnet-1", "network_id": "n", "cidr": "10.1.0.0/24", "ip_version": 4 });
    let has = [port_of(1, &["sg-1"]), port_of(2, &["sg-1"])];
    let gone = |id: &str| format!("network DELETE /security-groups/{id}");
    let cloud = whole()
        .on(line, all())
        .on("network GET /subnets/subnet-1", one("subnet", &subnet))
        .always("network GET /ports", many("ports", &has))
        .on(&gone("sg-0"), Reply::status(204))
        .on(&gone("sg-1"), Reply::status(204));
    assert_eq!(ensure(&managed(), &host(), &settled(&[]), &nodes()).outcome.failure, None);
    assert_eq!(written(&cloud), Vec::<String>::new());
    let cloud = cloud_of(&balancer(), &[], &[], &[])
        .on(GET, not_found())
        .on(line, all())
        .on(FLOATING, many("floatingips", &[]))
        .always("network GET /ports", many("ports", &[]))
        .on(&gone("sg-0"), Reply::status(204))
        .on(&gone("sg-1"), Reply::status(204));
    assert_eq!(delete(&managed(), &host(), &settled(&[])).outcome.failure, None);
    assert_eq!(written(&cloud), [gone("sg-1")]);
}

/// A Service without node ports, and one whose health nobody asks for.
#[test]
fn a_port_that_is_none_gets_no_rule() {
    let case = Case {
        what: "",
        ovn: false,
        family: IpFamily::Ipv4,
        subnet: "10.1.0.0/24",
        ranges: &[],
        annotation: None,
        expected: vec![],
    };
    for (node_port, health) in [(Some(0), Some(0)), (None, None), (Some(0), None), (None, Some(0))] {
        let mut service = asking(&case);
        service.ports[0].node_port = node_port;
        service.health_check_node_port = health;
        let cloud = reach(&managed(), &service, IpFamily::Ipv4, case.subnet);
        let (_, body) = writes(&cloud).into_iter().find(|(line, _)| line == RULES).expect("made");
        let expected = json!({ "security_group_rules": [rule("IPv4", "udp", 30_053, "10.1.0.0/24")] });
        assert_eq!(body, expected, "{node_port:?} {health:?}");
    }
}
