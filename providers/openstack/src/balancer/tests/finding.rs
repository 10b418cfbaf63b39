//! What is told of the way to a load balancer, and of Nodes and addresses that are left out.

use super::*;

fn reasons(done: &Done) -> Vec<(&str, &str)> {
    done.warnings.iter().map(|(reason, message)| (*reason, message.as_str())).collect()
}

/// One that has this, and lists these.
fn cloud_with(all: &[Value]) -> FakeCloud {
    whole().on(LIST, many("loadbalancers", all))
}

/// A second one, made by a request that seemed lost, would stay for good, and each look could choose another one.
#[test]
fn of_several_with_the_services_tag_the_oldest_is_used_and_all_are_told() {
    let made = |id: &str, at: &str| with(balancer(), json!({ "id": id, "created_at": at }));
    let old = made("lb-1", "2026-11-20T10:00:00");
    let young = made("lb-0", "2026-11-20T10:00:01");
    let twin = made("lb-2", "2026-11-20T10:00:00");
    for (case, all, told) in [
        ("one", vec![old.clone()], None),
        ("the older is second", vec![young.clone(), old.clone()], Some("lb-1, lb-0")),
        ("the older is first", vec![old.clone(), young], Some("lb-1, lb-0")),
        ("of one age", vec![twin, old], Some("lb-1, lb-2")),
    ] {
        let cloud = cloud_with(&all);
        let done = run(&service(&[]));
        assert_eq!((annotated(&done, names::ID), ips(&done)), (Some("lb-1"), vec!["203.0.113.7"]), "{case}");
        let said = told.map(|all| {
            format!(
                "load balancers {all} have the tag of this Service; the first one is used, and all go with the Service"
            )
        });
        let expected: Vec<_> = said.iter().map(|said| ("LoadBalancerDuplicate", said.as_str())).collect();
        assert_eq!(reasons(&done), expected, "{case}");
        assert_eq!(written(&cloud), Vec::<String>::new(), "{case}");
    }
}

#[test]
fn that_a_new_one_takes_the_place_of_another_is_told_to_who_had_one() {
    let published = Service { ingress: vec![Ingress::ip("203.0.113.7")], ..service(&[]) };
    let noted = service(&[(names::ADDRESS, "203.0.113.7")]);
    let by_id = "load balancer lb-1 is gone, and a new one is made";
    let by_status = "the load balancer that the Service had is gone, and a new one is made";
    for (case, service, told) in [
        ("the ID", settled(&[]), Some(by_id)),
        ("the status", published, Some(by_status)),
        ("the address", noted, Some(by_status)),
        ("a new Service", service(&[]), None),
    ] {
        let cloud = FakeCloud::new()
            .with_credential("session-token")
            .always(GET, not_found())
            .always(LIST, many("loadbalancers", &[]))
            .on(
                POST,
                Reply::json(201, json!({ "loadbalancer": with(balancer(), json!({ "id": "lb-9" })) }).to_string()),
            );
        let done = run(&service);
        assert_eq!((written(&cloud), annotated(&done, names::ID)), (vec![POST.to_owned()], Some("lb-9")), "{case}");
        let expected: Vec<_> = told.map(|told| ("LoadBalancerRecreated", told)).into_iter().collect();
        assert_eq!(reasons(&done), expected, "{case}");
    }
}

/// One without any address is not told: it may have one a moment later.
#[test]
fn nodes_that_the_load_balancer_cannot_reach_are_named_by_every_call() {
    let at = |name: &str, address: Option<&str>| Backend {
        name: name.to_owned(),
        addresses: address
            .map(|value| Address { kind: AddressType::InternalIp, value: value.to_owned() })
            .into_iter()
            .collect(),
        ..node(1)
    };
    let six = |number: u8| at(&format!("six-{number}"), Some("fd00:10:1::3"));
    for (case, more, told) in [
        ("nobody", vec![], None),
        ("no address yet", vec![at("new", None)], None),
        ("another family", vec![six(1), at("new", None)], Some("six-1")),
        ("many", (1..=5).map(six).collect(), Some("six-1, six-2, six-3 [+2 more]")),
    ] {
        let calls: [fn(&[Backend]) -> Done; 2] = [
            |nodes| ensure(&usual(), &host(), &settled(&[]), nodes),
            |nodes| update_backends(&usual(), &host(), &settled(&[]), nodes),
        ];
        for call in calls {
            let cloud = whole();
            let done = call(&[nodes(), more.clone()].concat());
            let said = told
                .map(|names| format!("Nodes without an address of the load balancer's family are no members: {names}"));
            let expected: Vec<_> = said.iter().map(|said| ("NodeWithoutAddress", said.as_str())).collect();
            assert_eq!(reasons(&done), expected, "{case}");
            assert_eq!(written(&cloud), Vec::<String>::new(), "{case}");
        }
    }
}

#[test]
fn that_an_ipv6_address_has_no_floating_ip_is_told_to_who_wants_one() {
    let node = Backend {
        addresses: vec![Address { kind: AddressType::InternalIp, value: "fd00:10:1::5".to_owned() }],
        ..node(1)
    };
    let said = "there are no floating IPs for the IPv6 address fd00:10:1::100, which is published";
    for (case, annotations, told) in
        [("external", vec![], Some(said)), ("internal", vec![(names::INTERNAL, "true")], None)]
    {
        let has = with(member(1), json!({ "address": "fd00:10:1::5" }));
        let cloud = cloud_of(
            &with(balancer(), json!({ "vip_address": "fd00:10:1::100" })),
            &[with(listener(), json!({ "allowed_cidrs": ["::/0"] }))],
            &[with(pool(), json!({ "members": [{ "id": "m-1" }] }))],
            &[has],
        );
        let mut service = settled(&annotations);
        service.ip_families = vec![ccm_sdk::types::IpFamily::Ipv6];
        let done = ensure(&usual(), &host(), &service, std::slice::from_ref(&node));
        let expected: Vec<_> = told.map(|told| ("LoadBalancerFloatingIPSkipped", told)).into_iter().collect();
        assert_eq!((ips(&done), reasons(&done)), (vec!["fd00:10:1::100"], expected), "{case}");
        assert!(!cloud.lines().iter().any(|line| line.starts_with(FLOATING)), "{case}: nothing is looked for");
    }
}

/// It leads to the Service's floating IP, should the load balancer be gone.
#[test]
fn the_address_that_is_noted_is_the_published_one_and_none_where_there_is_none_yet() {
    let own = |value: &str| (names::ADDRESS.to_owned(), Some(value.to_owned()));
    let by_id = service(&[(names::ID, "lb-1")]);
    let bare = json!({ "vip_address": "" });
    for (case, balancer, service, expected) in [
        ("noted", balancer(), settled(&[]), vec![]),
        ("not noted", balancer(), by_id.clone(), vec![own("203.0.113.7")]),
        ("no address yet", with(balancer(), bare), by_id, vec![]),
    ] {
        let _cloud = cloud_of(&balancer, &[listener()], &[pool()], &[member(1), member(2)]);
        let done = run(&service);
        let mut noted = done.outcome.annotations.clone();
        // What is noted last counts.
        noted.reverse();
        noted.dedup_by(|one, other| one.0 == other.0);
        assert_eq!(noted, expected, "{case}: {:?}", done.outcome);
    }
}

#[test]
fn one_that_its_id_and_its_tag_lead_to_is_deleted_once() {
    let lines = ["network DELETE /floatingips/fip-1", "load-balancer DELETE /lbaas/loadbalancers/lb-1"];
    let cloud = cloud_with(&[balancer()]);
    let cloud = lines.into_iter().fold(cloud, |cloud, line| cloud.on(line, Reply::status(204)));
    assert_eq!(reaction(&delete(&usual(), &host(), &settled(&[]))), Reaction::Pending);
    assert_eq!(written(&cloud), lines);
}
