//! With OVN, several security groups of a Service's name: ports may have the one alone that does not stay.

use super::closing::{for_everybody, of_ovn};
use super::groups::{group, ovn, port_of};
use super::*;

const GROUPS: &str = "network GET /security-groups";
const PORTS: &str = "network GET /ports";
const NEW_RULES: &str = "network POST /security-group-rules";
const WIDE: &str = "network DELETE /security-group-rules/r-9";
const DOUBLE: &str = "network DELETE /security-groups/sg-2";

/// The group that stays is new and empty; the other one lets everybody in at node port 30000.
fn cloud(status: &str) -> FakeCloud {
    let balancer = with(balancer(), json!({ "provisioning_status": status }));
    let double = with(group(&json!([for_everybody()])), json!({ "id": "sg-2" }));
    cloud_of(&balancer, &[listener()], &[of_ovn()], &[member(1), member(2)])
        .on(GROUPS, many("security_groups", &[group(&json!([])), double]))
        .always(PORTS, many("ports", &[]))
        .on(NEW_RULES, Reply::json(201, "{}"))
        .on(WIDE, Reply::status(204))
        .on(DOUBLE, Reply::status(204))
}

/// It does not let everybody in any more.
fn narrow(annotations: &[(&str, &str)]) -> Service {
    Service { source_ranges: vec!["192.0.2.0/24".to_owned()], ..settled(annotations) }
}

/// What was written to the groups: rules by group, port and range.
fn written_rules(cloud: &FakeCloud) -> Vec<String> {
    let text = |rule: &Value, key: &str| rule[key].as_str().map_or_else(|| rule[key].to_string(), str::to_owned);
    let of =
        |rule: &Value| ["security_group_id", "port_range_min", "remote_ip_prefix"].map(|key| text(rule, key)).join(" ");
    let all = writes(cloud).into_iter().filter(|(line, _)| line.starts_with("network "));
    all.map(|(line, body)| match body["security_group_rules"].as_array() {
        Some(rules) => rules.iter().map(of).collect::<Vec<_>>().join(", "),
        None => line,
    })
    .collect()
}

/// It goes no sooner than Octavia is at rest: in ERROR everybody came in for ever.
#[test]
fn source_ranges_are_narrowed_in_each_of_them_and_none_opens_another_port() {
    let (has, made, goes) = ("sg-1 30000 192.0.2.0/24", "sg-2 30000 192.0.2.0/24", &[DOUBLE][..]);
    let both = "sg-1 30000 192.0.2.0/24, sg-1 30443 192.0.2.0/24";
    for (what, status, annotations, port_without_listener, first, last) in [
        ("Octavia has given up", "ERROR", vec![], true, has, &[][..]),
        ("Octavia is at work", "PENDING_UPDATE", vec![], true, has, &[]),
        ("a class that there is not", "ACTIVE", vec![(names::CLASS, "none")], true, has, goes),
        ("it is served", "ACTIVE", vec![], false, has, goes),
        ("it is served, and a listener waits for Octavia", "ACTIVE", vec![], true, both, &[]),
    ] {
        for call in [ensure, update_backends] {
            let mut service = narrow(&annotations);
            if port_without_listener {
                service.ports.push(port(443, 30_443));
            }
            let cloud = cloud(status)
                .on(NEW_RULES, Reply::json(201, "{}"))
                .always("load-balancer POST /lbaas/pools", accepted());
            call(&ovn(), &host(), &service, &nodes());
            assert_eq!(written_rules(&cloud), [&[first, made, WIDE], last].concat(), "{what}");
        }
    }
}

/// A quota of rules. What lets clients in stays until something else does, and what goes anyway does not wait for it.
#[test]
fn one_that_takes_no_rule_keeps_those_that_it_has_until_it_goes() {
    let quota = json!({ "NeutronError": { "type": "OverQuota", "message": "Quota exceeded." } }).to_string();
    for (what, status, ports, told, goes) in [
        ("Octavia has given up", "ERROR", Reply::status(404), &["has gone into ERROR", "Quota exceeded."][..], false),
        ("its ports are not known", "ACTIVE", Reply::status(503), &["ports: 503", "Quota exceeded."], false),
        ("its ports have both", "ACTIVE", many("ports", &[port_of(1, &["sg-1", "sg-2"])]), &[], true),
    ] {
        for call in [ensure, update_backends] {
            let cloud = cloud(status).on(PORTS, ports.clone()).always(NEW_RULES, Reply::json(409, quota.clone()));
            let done = call(&ovn(), &host(), &narrow(&[]), &nodes());
            let message = done.outcome.failure.map(|failure| failure.message).unwrap_or_default();
            assert_eq!(message.is_empty(), goes, "{what}: {message}");
            assert!(told.iter().all(|words| message.contains(words)), "{what}: {message}");
            let written = written_rules(&cloud);
            assert!(!written.contains(&WIDE.to_owned()), "{what}: {written:?}");
            assert_eq!(written.contains(&DOUBLE.to_owned()), goes, "{what}: {written:?}");
        }
    }
}
