//! When the security group of a Service closes what it had opened: not before all members have followed.

use super::groups::{good_rule, group, managed, ovn, port_of};
use super::*;

const GROUPS: &str = "network GET /security-groups";
const PORTS: &str = "network GET /ports";
const OLD_RULE: &str = "network DELETE /security-group-rules/r-9";
const NEW_RULES: &str = "network POST /security-group-rules";
const PORT: &str = "network PUT /ports/p-1";
const OLD_PORT: &str = "network PUT /ports/p-9";
const LISTENER: &str = "load-balancer PUT /lbaas/listeners/listener-1";
const MAKE_LISTENER: &str = "load-balancer POST /lbaas/listeners";
const MEMBERS: &str = "load-balancer PUT /lbaas/pools/pool-1/members";
const SECRET: &str = "key-manager GET /secrets/s-1";

type Call = fn(&Config, &Host, &Service, &[Backend]) -> Done;

fn no(words: &str) -> Reply {
    Reply::json(400, json!({ "faultcode": "Client", "faultstring": words, "debuginfo": null }).to_string())
}

/// Of a port that the Service does not have any more.
fn old_rule() -> Value {
    with(good_rule(), json!({ "id": "r-9", "port_range_min": 1, "port_range_max": 1 }))
}

/// It lets all clients in.
pub(super) fn for_everybody() -> Value {
    with(good_rule(), json!({ "id": "r-9", "remote_ip_prefix": "0.0.0.0/0" }))
}

/// A pool with the one algorithm that OVN has.
pub(super) fn of_ovn() -> Value {
    with(pool(), json!({ "lb_algorithm": "SOURCE_IP_PORT" }))
}

/// The group has a rule too much, and so has the port of a Node that has left.
fn grouped(cloud: FakeCloud, old: &Value) -> FakeCloud {
    let subnet = json!({ "id": "subnet-1", "network_id": "n", "cidr": "10.1.0.0/24", "ip_version": 4 });
    let all = [port_of(1, &["sg-1"]), port_of(2, &["sg-1"]), port_of(9, &["mine", "sg-1"])];
    cloud
        .on(GROUPS, many("security_groups", &[group(&json!([good_rule(), old]))]))
        .always("network GET /subnets/subnet-1", one("subnet", &subnet))
        .on(PORTS, many("ports", &all[..2]))
        .on(PORTS, many("ports", &all))
        .always(OLD_RULE, Reply::status(204))
        .always(OLD_PORT, Reply::json(200, "{}"))
}

/// Writes to the security group, and to ports that have it.
fn closed(cloud: &FakeCloud) -> Vec<String> {
    written(cloud).into_iter().filter(|line| line.starts_with("network ")).collect()
}

/// What comes of it, with OVN, that a Service does not let everybody in any more, where the port of a Node does not take the group and the
/// deletion of the old rule is answered so; and what was written.
fn narrowed_while_a_port_does_not_take_the_group(deletion: Reply) -> (Done, Vec<String>) {
    let mut service = settled(&[]);
    service.source_ranges = vec!["10.1.0.0/24".to_owned()];
    let cloud = cloud_of(&balancer(), &[listener()], &[of_ovn()], &[member(1), member(2)])
        .on(GROUPS, many("security_groups", &[group(&json!([good_rule(), for_everybody()]))]))
        .on(PORTS, many("ports", &[port_of(1, &["mine"]), port_of(2, &["sg-1"])]))
        .on(PORT, Reply::status(403))
        .on(OLD_RULE, deletion);
    let done = ensure(&ovn(), &host(), &service, &nodes());
    (done, closed(&cloud))
}

/// When the call comes again.
fn next(done: &Done) -> (Reaction, Option<u32>) {
    let failure = done.outcome.failure.as_ref().expect("it is not done");
    (failure.reaction, failure.retry_after_ms)
}

/// What a Service asks for, what the cloud has and refuses, and what it has when that has passed.
struct Case<'a> {
    what: &'a str,
    annotations: &'a [(&'a str, &'a str)],
    has: (Value, Value, Vec<Value>),
    refuses: (&'a str, Reply),
    has_then: (Value, Value),
    calls: &'a [Call],
}

/// A member may still be in the subnet of before, or that of a Node that has left, and traffic comes to it.
#[test]
fn nothing_is_closed_after_a_refusal_or_without_the_certificate_and_all_is_when_that_has_passed() {
    let tls = "https://kms/v1/secrets/s-1";
    let ends_tls = || with(listener(), json!({ "protocol": "TERMINATED_HTTPS", "default_tls_container_ref": tls }));
    let of_http = || with(pool(), json!({ "protocol": "HTTP" }));
    let all = || vec![member(1), member(2)];
    let other = with(listener(), json!({ "id": "listener-2", "protocol_port": 8080, "default_pool_id": null }));
    let missing = Reply::json(404, json!({ "description": "Secret not found." }).to_string());
    for Case { what, annotations, has: (listener, pool, members), refuses: (line, answer), has_then, calls } in [
        Case {
            what: "a change of a listener",
            annotations: &[(names::CONNECTION_LIMIT, "7")],
            has: (listener(), pool(), all()),
            refuses: (LISTENER, no("no")),
            has_then: (with(listener(), json!({ "connection_limit": 7 })), pool()),
            calls: &[ensure],
        },
        Case {
            what: "a new listener",
            annotations: &[],
            has: (other, with(pool(), json!({ "listeners": [] })), all()),
            refuses: (MAKE_LISTENER, no("no")),
            has_then: (listener(), pool()),
            calls: &[ensure, update_backends],
        },
        Case {
            what: "members",
            annotations: &[],
            has: (listener(), pool(), vec![member(1), member(9)]),
            refuses: (MEMBERS, no("no")),
            has_then: (listener(), pool()),
            calls: &[ensure, update_backends],
        },
        Case {
            what: "a certificate",
            annotations: &[(names::TLS_CONTAINER, tls)],
            has: (ends_tls(), of_http(), all()),
            refuses: (SECRET, missing),
            has_then: (ends_tls(), of_http()),
            calls: &[ensure],
        },
    ] {
        for call in calls {
            let service = settled(annotations);
            let cloud = cloud_of(&balancer(), std::slice::from_ref(&listener), std::slice::from_ref(&pool), &members);
            let cloud = grouped(cloud, &old_rule()).on(line, answer.clone());
            let done = call(&managed(), &host(), &service, &nodes());
            let after = if line == SECRET { 60_000 } else { 300_000 };
            assert_eq!(next(&done), (Reaction::Retry, Some(after)), "{what}: {}", message(&done));
            assert!(cloud.lines().iter().any(|asked| asked.starts_with(line)), "{what}: {:?}", cloud.lines());
            assert_eq!(closed(&cloud), Vec::<String>::new(), "{what}");
            drop(cloud);
            let (listener, pool) = &has_then;
            let cloud = cloud_of(&balancer(), std::slice::from_ref(listener), std::slice::from_ref(pool), &all());
            let cloud = grouped(cloud, &old_rule()).on(SECRET, Reply::json(200, "{}"));
            let done = call(&managed(), &host(), &service, &nodes());
            assert_eq!(done.outcome.failure, None, "{what}");
            assert_eq!(closed(&cloud), [OLD_RULE, OLD_PORT], "{what}");
        }
    }
}

/// A refusal that waits for the Service to change kept the group of new members waiting too, and nobody was told of it.
#[test]
fn what_is_wrong_with_the_group_is_told_beside_a_refusal_and_tried_again() {
    let limit = "Invalid input for field/attribute connection_limit. Value: '7'. No.";
    let other = with(listener(), json!({ "id": "listener-2", "protocol_port": 8080, "default_pool_id": null }));
    let tls = (names::TLS_CONTAINER, "https://kms/v1/secrets/s-1");
    let missing = Reply::json(404, json!({ "description": "Secret not found." }).to_string());
    let calls: [(Call, _, _, _, _); 9] = [
        (ensure, vec![(names::CONNECTION_LIMIT, "7")], listener(), (LISTENER, no(limit)), limit),
        (ensure, vec![], other.clone(), (MAKE_LISTENER, no("no room")), "no room"),
        (update_backends, vec![], other, (MAKE_LISTENER, no("no room")), "no room"),
        (ensure, vec![], listener(), (MEMBERS, no("no such subnet")), "no such subnet"),
        (update_backends, vec![], listener(), (MEMBERS, no("no such subnet")), "no such subnet"),
        (ensure, vec![(names::CLASS, "none")], listener(), (LISTENER, no("")), "invalid loadbalancer class"),
        (ensure, vec![tls], listener(), (SECRET, missing), "secrets/s-1 is not there"),
        (ensure, vec![], listener(), (FLOATING, Reply::status(500)), "floatingips: 500"),
        (ensure, vec![], listener(), (FLOATING, Reply::status(403)), "floatingips: 403"),
    ];
    for (call, annotations, listener, (line, answer), words) in calls {
        let pool = if line == MAKE_LISTENER { with(pool(), json!({ "listeners": [] })) } else { pool() };
        let second = if line == MEMBERS { member(9) } else { member(2) };
        let cloud = cloud_of(&balancer(), &[listener], &[pool], &[member(1), second])
            .on(GROUPS, Reply::status(503))
            .on(line, answer);
        let failure = call(&managed(), &host(), &settled(&annotations), &nodes()).outcome.failure.expect("refused");
        assert_eq!((failure.reaction, failure.retry_after_ms), (Reaction::Retry, None), "{words}: {}", failure.message);
        let field = annotations.first().map(|(name, _)| ccm_sdk::annotations::field(name));
        assert_eq!(failure.field, field, "{words}");
        for told in [words, "security-groups: 503"] {
            assert!(failure.message.contains(told), "{told}: {}", failure.message);
        }
        assert_eq!(closed(&cloud), Vec::<String>::new(), "{words}");
    }
}

/// While Octavia is at work or in trouble, where the cloud wants to be left alone, and while there is no address yet. What is refused for
/// good is asked for again sooner than a quota is looked at.
#[test]
fn what_is_wrong_with_the_group_is_told_and_changes_nothing_of_when_to_look_again() {
    let slower = || Reply::json(429, "{}").header("retry-after", "30");
    let without_address = || with(balancer(), json!({ "vip_address": "" }));
    let quota = json!({ "NeutronError": { "type": "OverQuota", "message": "Quota exceeded." } }).to_string();
    for (balancer, second, line, answer, expected) in [
        (balancer(), 9, MEMBERS, accepted(), (Reaction::Pending, Some(2_000))),
        (balancer(), 9, MEMBERS, Reply::status(503), (Reaction::Retry, None)),
        (balancer(), 9, MEMBERS, slower(), (Reaction::Throttled, Some(30_000))),
        (balancer(), 9, MEMBERS, no("no"), (Reaction::Retry, Some(300_000))),
        (balancer(), 2, FLOATING, slower(), (Reaction::Throttled, Some(30_000))),
        (balancer(), 2, FLOATING, Reply::status(403), (Reaction::Unauthorized, None)),
        (balancer(), 2, MEMBERS, accepted(), (Reaction::Quota, None)),
        (without_address(), 2, MEMBERS, accepted(), (Reaction::Pending, None)),
    ] {
        let _cloud = cloud_of(&balancer, &[listener()], &[pool()], &[member(1), member(second)])
            .on("network POST /security-groups", Reply::json(409, quota.clone()))
            .on(line, answer);
        let done = ensure(&managed(), &host(), &settled(&[]), &nodes());
        assert_eq!(next(&done), expected, "{}", message(&done));
        assert!(message(&done).contains("Quota exceeded."), "{}", message(&done));
    }
}

/// The one that waited for the Service to change once kept the other one waiting, too.
#[test]
fn two_failures_are_tried_again_when_the_first_of_them_is_and_name_the_field_that_is_wrong() {
    let seconds = |failure: Failure, seconds| failure.after(Duration::from_secs(seconds));
    let (retry, invalid) = (|| Failure::retry("one"), |field: &str| Failure::invalid("one").field(field));
    let (quota, unauthorized) = (|| Failure::quota("one"), || Failure::unauthorized("one"));
    let (slowly, pending) = (seconds(retry(), 300), seconds(Failure::pending("one"), 2));
    let (soon, throttled) = (seconds(Failure::conflict("one"), 60).field("b"), seconds(Failure::throttled("one"), 30));
    for (one, other, reaction, after, field) in [
        (invalid("a"), retry(), Reaction::Retry, None, Some("a")),
        (invalid("a"), quota(), Reaction::Quota, None, Some("a")),
        (invalid("a"), unauthorized(), Reaction::Unauthorized, None, Some("a")),
        (invalid("a"), soon.clone(), Reaction::Conflict, Some(60_000), Some("a")),
        (invalid("a"), pending.clone(), Reaction::Pending, Some(2_000), Some("a")),
        (slowly.clone(), retry(), Reaction::Retry, None, None),
        (slowly.clone(), soon.clone(), Reaction::Conflict, Some(60_000), Some("b")),
        (slowly.clone(), quota(), Reaction::Retry, Some(300_000), None),
        (soon, retry(), Reaction::Retry, None, Some("b")),
        (unauthorized(), retry(), Reaction::Retry, None, None),
        (pending.clone(), retry(), Reaction::Pending, Some(2_000), None),
        (pending.clone(), unauthorized(), Reaction::Pending, Some(2_000), None),
        (throttled.clone(), retry(), Reaction::Throttled, Some(30_000), None),
        (throttled, pending, Reaction::Throttled, Some(30_000), None),
    ] {
        for (first, second) in [(one.clone(), other.clone()), (other, one)] {
            let case = format!("{first:?} {second:?}");
            let second = Failure { message: "other".to_owned(), ..second };
            let told = both(first, Err::<(), _>(second));
            let expected = Failure {
                retry_after_ms: after,
                field: field.map(str::to_owned),
                ..Failure::new(reaction, "one; other")
            };
            assert_eq!(told, expected, "{case}");
        }
    }
    let told = both(invalid("a"), Err::<(), _>(invalid("b")));
    assert_eq!(told, Failure::invalid("one; one").field("a"), "both wait for the Service to change");
    assert_eq!(both(invalid("a"), Ok(())), invalid("a"));
}

/// A project without a free floating IP may stay so: Nodes that have left kept the group as long.
#[test]
fn what_was_open_is_closed_also_where_there_is_no_address_to_publish() {
    let cloud = cloud_of(&balancer(), &[listener()], &[pool()], &[member(1), member(2)]);
    let cloud = grouped(cloud, &old_rule()).on(FLOATING, Reply::status(500));
    let done = ensure(&managed(), &host(), &settled(&[]), &nodes());
    assert_eq!(reaction(&done), Reaction::Retry, "{}", message(&done));
    assert_eq!(closed(&cloud), [OLD_RULE, OLD_PORT]);
}

/// They alone keep clients out, and do not depend on where members are: once another refusal left the Service open to everybody.
#[test]
fn with_ovn_source_ranges_are_narrowed_whatever_is_refused_but_not_before_the_new_ones_are_let_in() {
    let everybody = for_everybody();
    let of_ovn = of_ovn();
    let mut service = settled(&[(names::CONNECTION_LIMIT, "7")]);
    service.source_ranges = vec!["10.1.0.0/24".to_owned(), "192.0.2.0/24".to_owned()];
    let both = || vec![member(1), member(2)];
    for (members, line, made, expected) in [
        (both(), LISTENER, Reply::json(201, "{}"), vec![NEW_RULES, OLD_RULE]),
        (vec![member(1), member(9)], MEMBERS, Reply::json(201, "{}"), vec![NEW_RULES, OLD_RULE]),
        (both(), LISTENER, Reply::status(503), vec![NEW_RULES]),
    ] {
        let cloud = cloud_of(&balancer(), &[listener()], std::slice::from_ref(&of_ovn), &members);
        let cloud = grouped(cloud, &everybody).on(NEW_RULES, made).always(LISTENER, no("no")).on(line, no("no"));
        let done = ensure(&ovn(), &host(), &service, &nodes());
        assert_eq!(reaction(&done), Reaction::Retry, "{line}: {}", message(&done));
        assert_eq!(closed(&cloud), expected, "{line}");
    }
}

/// A port that does not take the group is another matter.
#[test]
fn with_ovn_source_ranges_are_narrowed_although_the_port_of_a_node_does_not_take_the_group() {
    let (done, closed) = narrowed_while_a_port_does_not_take_the_group(Reply::status(204));
    assert!(message(&done).contains("failed to update security group for ports"), "{}", message(&done));
    assert_eq!(closed, [OLD_RULE, PORT]);
}

/// The one of the rule once hid the one of the port.
#[test]
fn with_ovn_a_rule_and_a_port_that_fail_are_both_told() {
    let (done, closed) = narrowed_while_a_port_does_not_take_the_group(Reply::status(503));
    assert_eq!(next(&done), (Reaction::Retry, None), "{}", message(&done));
    for told in ["failed to update security group for ports", "security-group-rules/{id}: 503"] {
        assert!(message(&done).contains(told), "{told}: {}", message(&done));
    }
    assert_eq!(closed, [OLD_RULE, PORT]);
}

/// Whom the Service keeps out came in as long as something else was wrong.
#[test]
fn with_ovn_source_ranges_are_narrowed_whatever_octavia_is_at_and_whatever_else_cannot_be_read() {
    let everybody = for_everybody();
    let of_ovn = of_ovn();
    for (what, status, annotations, ports) in [
        ("ports of Nodes that cannot be listed", "ACTIVE", vec![], Some(Reply::status(503))),
        ("Octavia is at work", "PENDING_UPDATE", vec![], None),
        ("Octavia has given up", "ERROR", vec![], None),
        ("a class that there is not", "ACTIVE", vec![(names::CLASS, "none")], None),
    ] {
        for call in [ensure, update_backends] {
            let mut service = settled(&annotations);
            service.source_ranges = vec!["10.1.0.0/24".to_owned(), "192.0.2.0/24".to_owned()];
            let balancer = with(balancer(), json!({ "provisioning_status": status }));
            let cloud = cloud_of(&balancer, &[listener()], std::slice::from_ref(&of_ovn), &[member(1), member(2)]);
            let cloud = match &ports {
                Some(answer) => cloud.on(PORTS, answer.clone()),
                None => cloud,
            };
            let cloud = grouped(cloud, &everybody).on(NEW_RULES, Reply::json(201, "{}"));
            call(&ovn(), &host(), &service, &nodes());
            assert_eq!(closed(&cloud).iter().take(2).collect::<Vec<_>>(), [NEW_RULES, OLD_RULE], "{what}");
            let asks = cloud.lines().iter().any(|line| line.starts_with(PORTS));
            assert_eq!(asks, status == "ACTIVE", "{what}: ports are for members");
        }
    }
}

/// Such a rule lets the clients in themselves, often all of them, and no listener is made.
#[test]
fn with_ovn_a_service_that_is_not_served_opens_no_other_node_port() {
    let everybody = for_everybody();
    let wide = with(good_rule(), json!({ "id": "r-9", "port_range_min": null, "port_range_max": null }));
    let of_ovn = of_ovn();
    let class = || vec![(names::CLASS, "none")];
    let (both, first) = (&[30_000, 30_443][..], &[30_000][..]);
    for (what, status, annotations, old, made, makes_group) in [
        ("it is served", "ACTIVE", vec![], &everybody, both, true),
        ("a class that there is not", "ACTIVE", class(), &everybody, first, false),
        ("Octavia has given up", "ERROR", vec![], &everybody, first, false),
        ("Octavia is at work", "PENDING_UPDATE", vec![], &everybody, first, false),
        ("a port that it does not have any more", "ERROR", vec![], &old_rule(), first, false),
        ("all ports were open", "ERROR", vec![], &wide, both, false),
    ] {
        for call in [ensure, update_backends] {
            let mut service = settled(&annotations);
            service.ports.push(port(443, 30_443));
            service.source_ranges = vec!["10.1.0.0/24".to_owned(), "192.0.2.0/24".to_owned()];
            let balancer = with(balancer(), json!({ "provisioning_status": status }));
            let cloud = || cloud_of(&balancer, &[listener()], std::slice::from_ref(&of_ovn), &[member(1), member(2)]);
            let scripted = grouped(cloud(), old).on(NEW_RULES, Reply::json(201, "{}"));
            call(&ovn(), &host(), &service, &nodes());
            let all = writes(&scripted);
            let body = all.iter().find(|(line, _)| line == NEW_RULES).map(|(_, body)| &body["security_group_rules"]);
            let ports = body.and_then(Value::as_array).into_iter().flatten().map(|rule| rule["port_range_min"].clone());
            let ports: std::collections::BTreeSet<u64> = ports.filter_map(|port| port.as_u64()).collect();
            assert_eq!(ports.into_iter().collect::<Vec<_>>(), made, "{what}");
            assert!(closed(&scripted).contains(&OLD_RULE.to_owned()), "{what}: whom it keeps out goes");
            drop(scripted);
            let scripted = cloud();
            call(&ovn(), &host(), &service, &nodes());
            assert_eq!(closed(&scripted).contains(&"network POST /security-groups".to_owned()), makes_group, "{what}");
        }
    }
}

/// The rules may be those of another one than the one that stays.
#[test]
fn with_ovn_a_node_port_that_a_group_of_the_same_name_opens_stays_open_when_that_goes() {
    let of_ovn = of_ovn();
    let second = with(group(&json!([good_rule()])), json!({ "id": "sg-2" }));
    let cloud = cloud_of(&balancer(), &[listener()], &[of_ovn], &[member(1), member(2)])
        .on(GROUPS, many("security_groups", &[group(&json!([])), second]))
        .on(PORTS, many("ports", &[port_of(1, &["sg-1"]), port_of(2, &["sg-1"])]))
        .always(PORTS, many("ports", &[]))
        .always(NEW_RULES, Reply::json(201, "{}"))
        .on("network DELETE /security-group-rules/r-1", Reply::status(204))
        .on("network DELETE /security-groups/sg-2", Reply::status(204));
    ensure(&ovn(), &host(), &settled(&[(names::CLASS, "none")]), &nodes());
    // Until it goes, it follows the ranges, too.
    let followed = [NEW_RULES, "network DELETE /security-group-rules/r-1"];
    assert_eq!(closed(&cloud), [NEW_RULES, followed[0], followed[1], "network DELETE /security-groups/sg-2"]);
}
