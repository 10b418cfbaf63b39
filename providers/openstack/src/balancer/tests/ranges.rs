//! Who may come: the source ranges of a Service that is served already.

use super::strangers::until_quiet;
use super::*;

const PUT_LISTENER: &str = "load-balancer PUT /lbaas/listeners/listener-1";

/// The listener as it is, and a Service with these ranges in its spec.
fn from(ranges: &[&str], annotations: &[(&str, &str)]) -> Service {
    let source_ranges = ranges.iter().map(|range| (*range).to_owned()).collect();
    Service { source_ranges, ..settled(annotations) }
}

/// Everybody stayed in, were an open listener taken for one that needs nothing.
#[test]
fn ranges_that_are_added_to_a_living_service_or_taken_off_it_are_written_and_the_same_in_another_order_are_not() {
    let (ten, two) = (&["10.0.0.0/8"][..], &["10.0.0.0/8", "192.168.0.0/16"][..]);
    let annotated = |value| [(names::SOURCE_RANGES, value)];
    for (case, has, service, expected) in [
        ("open, and narrow is wanted", json!(["0.0.0.0/0"]), from(ten, &[]), Some(json!(ten))),
        ("open without a range, and narrow is wanted", json!([]), from(ten, &[]), Some(json!(ten))),
        ("open, by the annotation", json!(["0.0.0.0/0"]), from(&[], &annotated("10.0.0.0/8")), Some(json!(ten))),
        ("narrow, and everybody is wanted", json!(ten), from(&[], &[]), Some(json!(["0.0.0.0/0"]))),
        ("one more", json!(ten), from(two, &[]), Some(json!(two))),
        ("one less", json!(two), from(ten, &[]), Some(json!(ten))),
        ("another", json!(["10.0.0.0/9"]), from(ten, &[]), Some(json!(ten))),
        ("the same", json!(two), from(two, &[]), None),
        ("the same in another order", json!(["192.168.0.0/16", "10.0.0.0/8"]), from(two, &[]), None),
        ("open in the other spelling", json!([]), from(&[], &[]), None),
    ] {
        let before = with(listener(), json!({ "allowed_cidrs": has }));
        let after = with(listener(), json!({ "allowed_cidrs": expected.clone().unwrap_or(has) }));
        let cloud = cloud_of(&balancer(), &[after], &[pool()], &[member(1), member(2)])
            .on(LISTENERS, many("listeners", &[before]))
            .on(PUT_LISTENER, Reply::json(200, "{}"))
            .on("load-balancer DELETE /lbaas/pools/pool-1", Reply::status(204));
        let done = until_quiet(&cloud, || run(&service));
        let written: Vec<_> = expected
            .map(|ranges| (PUT_LISTENER.to_owned(), json!({ "listener": { "allowed_cidrs": ranges } })))
            .into_iter()
            .collect();
        assert_eq!((done.outcome.failure, writes(&cloud)), (None, written), "{case}: and its pool stays");
    }
}

#[test]
fn ranges_of_ipv6_are_written_to_an_open_listener_of_ipv6() {
    let service = Service { ip_families: vec![ccm_sdk::types::IpFamily::Ipv6], ..from(&["fd00:7::/32"], &[]) };
    let node = Backend {
        addresses: vec![Address { kind: AddressType::InternalIp, value: "fd00:10:1::1".to_owned() }],
        ..node(1)
    };
    let open = with(listener(), json!({ "allowed_cidrs": ["::/0"] }));
    let there = with(member(1), json!({ "address": "fd00:10:1::1" }));
    let balancer = with(balancer(), json!({ "vip_address": "fd00:10:1::100" }));
    let cloud = cloud_of(&balancer, &[open], &[pool()], &[there]).on(PUT_LISTENER, Reply::json(200, "{}"));
    ensure(&usual(), &host(), &service, &[node]);
    let body = json!({ "listener": { "allowed_cidrs": ["fd00:7::/32"] } });
    assert_eq!(writes(&cloud), [(PUT_LISTENER.to_owned(), body)]);
}
