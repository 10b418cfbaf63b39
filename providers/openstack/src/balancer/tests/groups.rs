//! Security groups of Services.

use super::*;
use crate::api::groups::{NewRule, Rule};

const NAME_OF_GROUP: &str = "lb-sg-uid-test-default-test";
const RULES: &str = "network POST /security-group-rules";

pub(super) fn managed() -> Config {
    let mut config = usual();
    config.balancers.manages_security_groups = true;
    config
}

/// With Octavia's driver that leaves it to the security group to keep clients out.
pub(super) fn ovn() -> Config {
    let mut config = managed();
    config.balancers.provider = "ovn".to_owned();
    config.balancers.method = "SOURCE_IP_PORT".to_owned();
    config
}

fn new(protocol: &str, port: u16, prefix: &str) -> NewRule {
    NewRule {
        security_group_id: "sg-1".to_owned(),
        direction: "ingress".to_owned(),
        ethertype: "IPv4".to_owned(),
        protocol: protocol.to_owned(),
        port_range_min: port,
        port_range_max: port,
        remote_ip_prefix: prefix.to_owned(),
    }
}

fn has(id: &str, protocol: &str, port: u16, prefix: &str) -> Rule {
    Rule {
        id: id.to_owned(),
        direction: "ingress".to_owned(),
        ethertype: "IPv4".to_owned(),
        protocol: Some(protocol.to_owned()),
        port_range_min: Some(port),
        port_range_max: Some(port),
        remote_ip_prefix: Some(prefix.to_owned()),
        remote_group_id: None,
        remote_address_group_id: None,
    }
}

fn default(id: &str, ethertype: &str) -> Rule {
    Rule { id: id.to_owned(), direction: "egress".to_owned(), ethertype: ethertype.to_owned(), ..Rule::default() }
}

#[test]
fn os_145_to_151_rules_that_are_missing_are_made_and_others_go() {
    let net = "10.1.0.0/24";
    let defaults = [default("e4", "IPv4"), default("e6", "IPv6")];
    let three = [new("tcp", 1, net), new("tcp", 2, net), new("udp", 1, net)];
    let have = [has("1", "tcp", 1, net), has("2", "tcp", 2, net), has("3", "udp", 1, net)];
    for (case, wanted, has, made, gone) in [
        ("os_145", vec![], vec![], 0, vec![]),
        ("os_146", vec![new("tcp", 80, net)], defaults.to_vec(), 1, vec!["e4", "e6"]),
        ("os_147", vec![new("TCP", 80, net)], vec![has("1", "tcp", 80, net)], 0, vec![]),
        ("os_148", vec![new("tcp", 80, net)], vec![has("1", "tcp", 81, net)], 1, vec!["1"]),
        ("os_149", vec![new("tcp", 80, net)], vec![has("1", "tcp", 80, "10.2.0.0/24")], 1, vec!["1"]),
        ("os_150", vec![], have.to_vec(), 0, vec!["1", "2", "3"]),
        ("os_151", three.to_vec(), vec![], 3, vec![]),
        (
            "bits behind the prefix are the same network",
            vec![new("tcp", 80, net)],
            vec![has("1", "tcp", 80, "10.1.0.9/24")],
            0,
            vec![],
        ),
        (
            "protocols have numbers",
            vec![new("tcp", 80, net), new("udp", 80, net), new("sctp", 80, net)],
            vec![has("1", "6", 80, net), has("2", "17", 80, net), has("3", "132", 80, net), has("4", "1", 80, net)],
            0,
            vec!["4"],
        ),
    ] {
        let (new, old) = crate::balancer::groups::changes(&wanted, &has);
        let old: Vec<_> = old.iter().map(|rule| rule.id.as_str()).collect();
        assert_eq!((new.len(), old), (made, gone), "{case}");
    }
}

pub(super) fn group(rules: &Value) -> Value {
    json!({ "id": "sg-1", "name": NAME_OF_GROUP, "security_group_rules": rules })
}

pub(super) fn good_rule() -> Value {
    json!({ "id": "r-1", "direction": "ingress", "ethertype": "IPv4", "protocol": "tcp", "port_range_min": 30000,
            "port_range_max": 30000, "remote_ip_prefix": "10.1.0.0/24" })
}

/// The port of a Node: its number, and its groups.
pub(super) fn port_of(number: u8, groups: &[&str]) -> Value {
    json!({ "id": format!("p-{number}"), "device_id": format!("server-{number}"), "security_groups": groups, "revision_number": 7,
            "fixed_ips": [{ "subnet_id": "subnet-1", "ip_address": format!("10.1.0.{number}") }] })
}

/// `of_nodes` are ports of Nodes, `with_group` those that have the group.
fn cloud(rules: &Value, of_nodes: &[Value], with_group: &[Value]) -> FakeCloud {
    let subnet = json!({ "id": "subnet-1", "network_id": "n", "cidr": "10.1.0.0/24", "ip_version": 4 });
    cloud_of(&balancer(), &[listener()], &[pool()], &[member(1), member(2)])
        .on("network GET /security-groups", many("security_groups", &[group(rules)]))
        .always("network GET /subnets/subnet-1", one("subnet", &subnet))
        .on("network GET /ports", many("ports", of_nodes))
        .on("network GET /ports", many("ports", with_group))
}

fn put(number: u8) -> String {
    format!("network PUT /ports/p-{number}")
}

fn run() -> Done {
    ensure(&managed(), &host(), &settled(&[]), &nodes())
}

#[test]
fn os_202_213_ports_of_nodes_have_the_group_beside_their_own_and_those_of_others_lose_it() {
    let all = [port_of(1, &["mine"]), port_of(2, &["mine", "sg-1"])];
    let left = [port_of(2, &["mine", "sg-1"]), port_of(9, &["other", "sg-1"])];
    let cloud = cloud(&json!([good_rule()]), &all, &left)
        .on(&put(1), Reply::json(200, "{}"))
        .on(&put(9), Reply::json(200, "{}"));
    assert_eq!(run().outcome.failure, None);
    let groups = |groups: &[&str]| json!({ "port": { "security_groups": groups } });
    // Neither port says whether it is secured: it is.
    assert_eq!(writes(&cloud), [(put(1), groups(&["mine", "sg-1"])), (put(9), groups(&["other"]))], "os_202 os_213");
    let request = cloud.requests().into_iter().find(|request| request.path == "/ports/p-1").expect("sent");
    let guard = request.headers.iter().find(|(name, _)| name == "if-match").map(|(_, value)| text(value));
    assert_eq!(guard.as_deref(), Some("revision_number=7"));
}

#[test]
fn os_185_a_port_that_was_changed_meanwhile_is_read_again_and_nothing_is_lost() {
    let stale = Reply::json(
        412,
        json!({ "NeutronError": { "type": "RevisionNumberConstraintFailed", "message": "stale" } }).to_string(),
    );
    let read = "network GET /ports/p-1";
    let changed = |revision: u64| with(port_of(1, &["mine", "new"]), json!({ "revision_number": revision }));
    let all = [port_of(1, &["mine"]), port_of(2, &["mine"])];
    let cloud = |stales: u64| {
        let cloud = cloud(&json!([good_rule()]), &all, &[]).on(&put(2), Reply::json(200, "{}"));
        (0..stales).fold(cloud, |cloud, number| {
            cloud.on(&put(1), stale.clone()).on(read, one("port", &changed(number.saturating_add(8))))
        })
    };
    let guard = |request: &ccm_sdk::http::Request| {
        request.headers.iter().find(|(name, _)| name == "if-match").map(|(_, value)| text(value))
    };
    let scripted = cloud(3).on(&put(1), Reply::json(200, "{}"));
    assert_eq!(run().outcome.failure, None, "os_185");
    let puts: Vec<_> = scripted.requests().into_iter().filter(|request| request.path == "/ports/p-1").collect();
    let guards: Vec<_> = puts.iter().filter_map(guard).collect();
    assert_eq!(guards, [7, 8, 9, 10].map(|revision| format!("revision_number={revision}")), "os_185");
    let (_, body) = writes(&scripted).pop().expect("written");
    assert_eq!(body, json!({ "port": { "security_groups": ["mine", "new", "sg-1"] } }), "os_185");
    // One that never holds still is left to the next call.
    let scripted = cloud(4);
    assert_eq!(reaction(&run()), Reaction::Conflict, "os_185");
    assert_eq!(
        written(&scripted),
        [put(1), put(2), put(1), put(1), put(1)],
        "os_185: and the others are not kept from it"
    );
}

/// A port that is gone needs no group. A group that is gone leaves a port without.
#[test]
fn that_the_group_is_gone_is_no_success() {
    let absent =
        |kind: &str| Reply::json(404, json!({ "NeutronError": { "type": kind, "message": "no" } }).to_string());
    for (kind, expected) in [("PortNotFound", None), ("SecurityGroupNotFound", Some(Reaction::Retry))] {
        let cloud = cloud(&json!([good_rule()]), &[port_of(1, &["mine"])], &[]).on(&put(1), absent(kind));
        let done = run();
        assert_eq!(done.outcome.failure.map(|failure| failure.reaction), expected, "{kind}");
        assert_eq!((written(&cloud), done.outcome.changes), (vec![put(1)], vec![]), "{kind}");
    }
}

/// Without revisions the cloud guards nothing, and would refuse every change.
#[test]
fn a_port_without_a_revision_is_changed_without_a_guard() {
    let port = with(port_of(1, &["mine"]), json!({ "revision_number": null }));
    let cloud = cloud(&json!([good_rule()]), &[port], &[]).on(&put(1), Reply::json(200, "{}"));
    assert_eq!(run().outcome.failure, None);
    let request = cloud.requests().into_iter().find(|request| request.path == "/ports/p-1").expect("sent");
    assert!(!request.headers.iter().any(|(name, _)| name == "if-match"));
}

const MEMBERS: &str = "load-balancer PUT /lbaas/pools/pool-1/members";

/// Traffic comes to a new member at once, and to one that goes until it has gone.
#[test]
fn ports_get_the_group_before_their_node_is_a_member_and_lose_it_afterwards() {
    let subnet = json!({ "id": "subnet-1", "network_id": "n", "cidr": "10.1.0.0/24", "ip_version": 4 });
    let old = with(good_rule(), json!({ "id": "r-9", "port_range_min": 1, "port_range_max": 1 }));
    let gone = "network DELETE /security-group-rules/r-9";
    let given = [port_of(1, &["mine", "sg-1"]), port_of(2, &["mine", "sg-1"])];
    for call in [ensure, update_backends] {
        let busy = with(balancer(), json!({ "provisioning_status": "PENDING_UPDATE" }));
        let before = [member(1), member(9)];
        let cloud = cloud_of(&balancer(), &[listener()], &[pool()], &[member(1), member(2)])
            .on("load-balancer GET /lbaas/pools/pool-1/members", many("members", &before))
            .on(GET, one("loadbalancer", &balancer()))
            .on(GET, one("loadbalancer", &busy))
            .on("network GET /security-groups", many("security_groups", &[group(&json!([good_rule(), old]))]))
            .on("network GET /security-groups", many("security_groups", &[group(&json!([good_rule(), old]))]))
            .always("network GET /subnets/subnet-1", one("subnet", &subnet))
            .on("network GET /ports", many("ports", &[port_of(1, &["mine", "sg-1"]), port_of(2, &["mine"])]))
            .on("network GET /ports", many("ports", &given))
            .on("network GET /ports", many("ports", &[port_of(9, &["mine", "sg-1"])]))
            .on(TREE, tree(&[listener()], &before))
            .on(&put(2), Reply::json(200, "{}"))
            .on(MEMBERS, accepted())
            .on(&put(9), Reply::json(200, "{}"))
            .on(gone, Reply::status(204));
        let step = || {
            let done = call(&managed(), &host(), &settled(&[]), &nodes());
            later(&cloud);
            (done.outcome.failure.map(|failure| failure.reaction), written(&cloud))
        };
        let given = vec![put(2), MEMBERS.to_owned()];
        assert_eq!(step(), (Some(Reaction::Pending), given.clone()));
        let asked = cloud.lines().len();
        assert_eq!(step(), (Some(Reaction::Pending), given.clone()));
        assert_eq!(cloud.lines().len(), asked + 1, "a call that waits costs one request");
        // Octavia is done.
        let (reaction, all) = step();
        assert_eq!(reaction, None);
        assert_eq!(all[2..], [gone.to_owned(), put(9)]);
    }
}

/// An answer to the request for one was lost.
#[test]
fn of_several_groups_with_the_services_name_one_is_used_and_the_others_go() {
    let line = "network GET /security-groups";
    let both = || {
        let second = with(group(&json!([])), json!({ "id": "sg-2" }));
        many("security_groups", &[second, group(&json!([good_rule()]))])
    };
    let gone = |id: &str| format!("network DELETE /security-groups/{id}");
    let has = |number: u8| port_of(number, &["mine", "sg-1"]);
    let second = [port_of(3, &["mine", "sg-2"])];
    let subnet = json!({ "id": "subnet-1", "network_id": "n", "cidr": "10.1.0.0/24", "ip_version": 4 });
    let cloud = cloud_of(&balancer(), &[listener()], &[pool()], &[member(1), member(2)])
        .on(line, both())
        .always("network GET /subnets/subnet-1", one("subnet", &subnet))
        .on("network GET /ports", many("ports", &[has(1), has(2)]))
        .on("network GET /ports", many("ports", &[has(1), has(2)]))
        .on("network GET /ports", many("ports", &second))
        .on(&put(3), Reply::json(200, "{}"))
        .on(&gone("sg-2"), Reply::status(204));
    assert_eq!(run().outcome.failure, None);
    let off = json!({ "port": { "security_groups": ["mine"] } });
    assert_eq!(writes(&cloud), [(put(3), off), (gone("sg-2"), Value::Null)]);
    // With the Service all go.
    let cloud = cloud_of(&balancer(), &[], &[], &[])
        .on(GET, not_found())
        .on(line, both())
        .on(FLOATING, many("floatingips", &[]))
        .on("network GET /ports", many("ports", &[has(1)]))
        .on("network GET /ports", many("ports", &second))
        .on(&put(1), Reply::json(200, "{}"))
        .on(&put(3), Reply::json(200, "{}"))
        .on(&gone("sg-1"), Reply::status(204))
        .on(&gone("sg-2"), Reply::status(204));
    assert_eq!(delete(&managed(), &host(), &settled(&[])).outcome.failure, None);
    assert_eq!(written(&cloud), [put(1), gone("sg-1"), put(3), gone("sg-2")]);
}

/// What fails there does not keep a member that has left among the members.
#[test]
fn members_follow_although_their_group_cannot_be_given() {
    for call in [ensure, update_backends] {
        let cloud = cloud_of(&balancer(), &[listener()], &[pool()], &[member(1), member(9)])
            .on("network GET /security-groups", Reply::status(503))
            .on(MEMBERS, accepted());
        assert_eq!(reaction(&call(&managed(), &host(), &settled(&[]), &nodes())), Reaction::Pending);
        assert_eq!(written(&cloud), [MEMBERS]);
        drop(cloud);
        let _cloud = whole().on("network GET /security-groups", Reply::status(503));
        assert_eq!(reaction(&call(&managed(), &host(), &settled(&[]), &nodes())), Reaction::Retry);
    }
}

#[test]
fn os_186_201_a_rule_that_is_there_or_gone_is_as_good() {
    let exists = Reply::json(
        409,
        json!({ "NeutronError": { "type": "SecurityGroupRuleExists", "message": "exists" } }).to_string(),
    );
    let absent = Reply::json(
        404,
        json!({ "NeutronError": { "type": "SecurityGroupRuleNotFound", "message": "no" } }).to_string(),
    );
    let old = with(good_rule(), json!({ "port_range_min": 1, "port_range_max": 1 }));
    let cloud = cloud(&json!([old]), &[port_of(1, &["mine"])], &[])
        .on(RULES, exists.clone())
        .on(RULES, exists)
        .on("network DELETE /security-group-rules/r-1", absent)
        .on(&put(1), Reply::json(200, "{}"));
    assert_eq!(run().outcome.failure, None, "os_186");
    let expected = [RULES.to_owned(), RULES.to_owned(), put(1), "network DELETE /security-group-rules/r-1".to_owned()];
    assert_eq!(written(&cloud), expected, "os_201: the ports are not forgotten");
}

#[test]
fn os_187_a_group_is_taken_off_all_ports_before_it_goes() {
    let cloud = cloud_of(&balancer(), &[], &[], &[])
        .on(GET, not_found())
        .on("network GET /security-groups", many("security_groups", &[group(&json!([]))]))
        .on("network GET /ports", many("ports", &[port_of(1, &["mine", "sg-1"])]))
        .on(FLOATING, many("floatingips", &[]))
        .on(&put(1), Reply::json(200, "{}"))
        .on("network DELETE /security-groups/sg-1", Reply::status(204));
    assert_eq!(delete(&usual(), &host(), &settled(&[])).outcome.failure, None);
    assert_eq!(written(&cloud), [put(1), "network DELETE /security-groups/sg-1".to_owned()], "os_187");
}

/// What the rules should be cannot be read from it; its members need the group all the same.
#[test]
fn a_service_that_is_refused_keeps_its_rules_and_its_new_members_get_the_group() {
    let ranges = (names::SOURCE_RANGES, "everybody");
    for (case, config, wrong) in
        [("another class", managed(), (names::CLASS, "none")), ("ranges that are none", ovn(), ranges)]
    {
        let before = with(good_rule(), json!({ "remote_ip_prefix": "192.0.2.0/24" }));
        let all = [port_of(1, &["mine"]), port_of(2, &["mine", "sg-1"])];
        for follows in [false, true] {
            let cloud = cloud(&json!([before]), &all, &[port_of(9, &["sg-1"])])
                .on(&put(1), Reply::json(200, "{}"))
                .on(&put(9), Reply::json(200, "{}"));
            let service = settled(&[wrong]);
            let done = match follows {
                true => update_backends(&config, &host(), &service, &nodes()),
                false => ensure(&config, &host(), &service, &nodes()),
            };
            assert_eq!(done.outcome.failure.is_none(), follows, "{case}: {:?}", done.outcome.failure);
            assert_eq!(written(&cloud), [put(1), put(9)], "{case}");
        }
        // Without the group there is nothing to give.
        let cloud = cloud_of(&balancer(), &[listener()], &[pool()], &[member(1), member(2)]);
        update_backends(&config, &host(), &settled(&[wrong]), &nodes());
        assert_eq!(written(&cloud), Vec::<String>::new(), "{case}");
    }
}

/// The Go manager deletes it, with the next change of the Service.
#[test]
fn where_groups_are_not_managed_any_more_the_group_of_a_service_goes() {
    let line = "network GET /security-groups";
    let gone = "network DELETE /security-groups/sg-1";
    let cloud = whole()
        .on(line, many("security_groups", &[group(&json!([good_rule()]))]))
        .on("network GET /ports", many("ports", &[port_of(1, &["mine", "sg-1"])]))
        .on(&put(1), Reply::json(200, "{}"))
        .on(gone, Reply::status(204));
    let unmanaged = || ensure(&usual(), &host(), &settled(&[]), &nodes()).outcome;
    assert_eq!(unmanaged().failure, None);
    assert_eq!(
        writes(&cloud),
        [(put(1), json!({ "port": { "security_groups": ["mine"] } })), (gone.to_owned(), Value::Null)]
    );
    // Then nobody asks for an hour.
    for (passed, expected) in [(1, 1), (3_601, 2)] {
        cloud.pass(passed);
        assert_eq!((unmanaged().failure, asked_for(&cloud, line)), (None, expected), "after {passed} s");
    }
    assert_eq!(written(&cloud).len(), 2);
    // One that is made again meanwhile is not forgotten.
    let made = json!({ "security_group": group(&json!([good_rule()])) });
    let subnet = json!({ "id": "subnet-1", "network_id": "n", "cidr": "10.1.0.0/24", "ip_version": 4 });
    let has = [port_of(1, &["sg-1"]), port_of(2, &["sg-1"])];
    let cloud = cloud
        .on("network POST /security-groups", Reply::json(201, made.to_string()))
        .on("network GET /subnets/subnet-1", one("subnet", &subnet))
        .on("network GET /ports", many("ports", &has))
        .on("network GET /ports", many("ports", &has));
    assert_eq!(run().outcome.failure, None);
    let before = asked_for(&cloud, line);
    unmanaged();
    assert_eq!(asked_for(&cloud, line), before + 1);
}

/// As with the Go manager, that no group is to be had is no failure where none is wanted.
#[test]
fn a_cloud_without_security_groups_has_none() {
    let unknown = Reply::json(
        404,
        r#"{"NeutronError": {"type": "HTTPNotFound", "message": "The resource could not be found."}}"#,
    );
    for (case, alias, fails) in [("no groups", "router", false), ("it cannot be asked", "security-group", true)] {
        let extensions = json!({ "extensions": [{ "alias": alias }] });
        let _cloud = whole()
            .on("network GET /security-groups", unknown.clone())
            .on("network GET /extensions", Reply::json(200, extensions.to_string()));
        let done = ensure(&usual(), &host(), &settled(&[]), &nodes());
        assert_eq!(done.outcome.failure.is_some(), fails, "{case}: {:?}", done.outcome);
    }
}

fn asked_for(cloud: &FakeCloud, line: &str) -> usize {
    cloud.lines().iter().filter(|asked| asked.starts_with(line)).count()
}

/// A member may be reached at a port within the trunk of its server.
#[test]
fn a_port_within_a_trunk_gets_the_group_where_the_member_has_its_address() {
    let carrier = with(
        port_of(8, &["mine"]),
        json!({
            "device_id": "server-1", "trunk_details": { "sub_ports": [{ "port_id": "p-1" }] },
        }),
    );
    let sub = with(port_of(1, &[]), json!({ "device_id": "", "device_owner": "trunk:subport" }));
    let cloud = cloud(&json!([good_rule()]), &[carrier, port_of(2, &["sg-1"])], &[sub])
        .on("network GET /ports", many("ports", &[]))
        .on(&put(1), Reply::json(200, "{}"));
    assert_eq!(run().outcome.failure, None);
    assert_eq!(writes(&cloud), [(put(1), json!({ "port": { "security_groups": ["sg-1"] } }))]);
}

#[test]
fn os_207_without_a_subnet_no_path_is_without_an_id() {
    let nowhere = with(balancer(), json!({ "vip_subnet_id": "" }));
    let mut config = managed();
    config.balancers.place.subnet.clear();
    let cloud = cloud_of(&nowhere, &[listener()], &[pool()], &[member(1), member(2)])
        .on("network GET /security-groups", many("security_groups", &[group(&json!([]))]));
    let done = ensure(&config, &host(), &settled(&[]), &nodes());
    assert_eq!(reaction(&done), Reaction::Retry, "os_207");
    assert!(!cloud.lines().iter().any(|line| line.contains("/subnets")), "{:?}", cloud.lines());
}

#[test]
fn a_subnet_of_members_that_cannot_be_used_is_told_with_who_named_it() {
    let no_cidr = json!({ "id": "s-9", "network_id": "n", "cidr": "10.1.0", "ip_version": 4 });
    let absent = || {
        Reply::json(404, r#"{"NeutronError": {"type": "SubnetNotFound", "message": "Subnet s-9 could not be found"}}"#)
    };
    let annotated = names::MEMBER_SUBNET;
    for (annotations, by_file, reply, words) in [
        (vec![(annotated, "s-9")], "", absent(), ["\"s-9\", is not there", "correct annotation", annotated]),
        (vec![], "s-9", absent(), ["\"s-9\", is not there", "correct member-subnet-id", "in the cloud.conf"]),
        (
            vec![],
            "s-9",
            one("subnet", &no_cidr),
            ["\"s-9\"", "\"10.1.0\", which is no CIDR", "correct member-subnet-id"],
        ),
    ] {
        let mut config = managed();
        config.balancers.place.member_subnet = by_file.to_owned();
        let members = [1, 2].map(|number| with(member(number), json!({ "subnet_id": "s-9" })));
        let _cloud = cloud_of(&balancer(), &[listener()], &[pool()], &members)
            .on("network GET /security-groups", many("security_groups", &[group(&json!([good_rule()]))]))
            .on("network GET /subnets/s-9", reply);
        let done = ensure(&config, &host(), &settled(&annotations), &nodes());
        assert!(words.iter().all(|word| message(&done).contains(word)), "{}", message(&done));
    }
}
