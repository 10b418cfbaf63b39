//! What is told of the routes that there are.

use super::*;

#[test]
fn os_192_a_pair_is_compared_as_a_network_whatever_else_is_in_it() {
    for (pairs, state) in [
        (vec!["10.244.1.0/24"], State::InPlace),
        (vec!["192.168.0.0/16", "10.244.1.7/24"], State::InPlace),
        (vec!["10.244.1.0/25"], State::Incomplete),
        (vec![], State::Incomplete),
    ] {
        let _cloud = fake()
            .on(ROUTER, router_with(&[("10.244.1.0/24", "10.1.0.5")], ""))
            .on(PORTS, ports_of(&[port(&pairs, 3)]));
        assert_eq!(look(&[node()]), Ok(vec![("10.244.1.0/24".to_owned(), Some("a".to_owned()), state)]), "{pairs:?}");
    }
}

#[test]
fn os_213_a_port_that_holds_nothing_back_needs_no_pair_and_one_that_does_not_say_does() {
    for (security, state) in [
        (r#""port_security_enabled": false"#, State::InPlace),
        (r#""mac_address": "x""#, State::Incomplete),
        (r#""port_security_enabled": null"#, State::Incomplete),
    ] {
        let port = port(&[], 3).replace(r#""port_security_enabled": true"#, security);
        let _cloud = fake().on(ROUTER, router_with(&[("10.244.1.0/24", "10.1.0.5")], "")).on(PORTS, ports_of(&[port]));
        assert_eq!(look(&[node()]).map(|routes| routes[0].2), Ok(state), "{security}");
    }
    // The cloud knows no pairs.
    let port = port(&[], 3).replace("allowed_address_pairs", "other");
    let _cloud = fake().on(ROUTER, router_with(&[("10.244.1.0/24", "10.1.0.5")], "")).on(PORTS, ports_of(&[port]));
    assert_eq!(look(&[node()]).map(|routes| routes[0].2), Ok(State::InPlace));
}

#[test]
fn addresses_and_networks_are_compared_as_numbers() {
    let _cloud = fake()
        .on(ROUTER, router_with(&[("fd00:10:0:1:0::/64", "fd00:1:0:0:0:0:0:5")], ""))
        .on(PORTS, ports_of(&[port(&["fd00:10:0:1::/64"], 3)]));
    let told = ("fd00:10:0:1:0::/64".to_owned(), Some("a".to_owned()), State::InPlace);
    assert_eq!(look(&[node()]), Ok(vec![told]));
}

#[test]
fn routes_outside_of_the_pods_range_are_nobodys_business() {
    let cloud = fake()
        .on(ROUTER, router_with(&[("192.168.7.0/24", "10.1.0.5"), ("10.0.0.0/8", "10.9.9.9"), ("junk", "x")], ""));
    assert_eq!(look(&[node()]), Ok(vec![]));
    assert_eq!(asked(&cloud), [ROUTER]);
}

#[test]
fn a_route_without_a_node_is_ours_where_nobody_else_has_its_hop_or_our_tag_is_there() {
    let tagged = r#""wasm-ccm-route:kubernetes:10.244.3.0_24", "wasm-ccm-route:other:10.244.1.0_24""#;
    let routes = [("10.244.1.0/24", "10.1.0.5"), ("10.244.2.0/24", "10.1.0.9"), ("10.244.3.0/24", "10.1.0.5")];
    let cloud = fake().always(ROUTER, router_with(&routes, tagged)).on(PORTS, ports_of(&[port(&[], 3)]));
    // 1: another cluster's; 2: its server is gone; 3: its Node is gone, and the server is there.
    let told = vec![
        ("10.244.2.0/24".to_owned(), None, State::Blackhole),
        ("10.244.3.0/24".to_owned(), None, State::Blackhole),
    ];
    assert_eq!(look(&[]), Ok(told));
    assert_eq!(asked(&cloud), [ROUTER, PORTS]);
}

#[test]
fn a_route_that_the_go_manager_made_is_ours_once_it_was_seen_to_lead_to_a_node() {
    let cloud = fake()
        .always(ROUTER, router_with(&[("10.244.1.0/24", "10.1.0.5")], ""))
        .always(PORTS, ports_of(&[port(&["10.244.1.0/24"], 3)]));
    // To who has just started, it may be anybody's.
    assert_eq!(look(&[]), Ok(vec![]));
    cloud.forget_cache();
    assert_eq!(look(&[node()]).map(|routes| routes[0].2), Ok(State::InPlace));
    // Also when it is time to look at ports.
    for wait in [300, 3_600] {
        cloud.pass(wait);
        assert_eq!(look(&[]).map(|routes| routes[0].2), Ok(State::Blackhole));
    }
    // The next change of any other route marks it.
    let other = "/routers/r-1/tags/wasm-ccm-route%3Akubernetes%3A10.244.9.0_24";
    let cloud = cloud.on(EXTENSIONS, atomic()).on(ADD, Reply::json(200, "{}")).on(PAIRS, Reply::json(200, "{}"));
    let cloud = cloud.on(TAG, Reply::status(201)).on(&format!("network PUT {other}"), Reply::status(201));
    done(run(&[], &[wish("10.244.9.0/24")]));
    assert_eq!(cloud.unused(), [""; 0]);
}

#[test]
fn an_idle_cluster_costs_one_question_every_five_minutes() {
    let cloud =
        fake().always(ROUTER, router_with(&[("10.244.1.0/24", "10.1.0.5"), ("10.244.5.0/24", "10.1.0.7")], "")).always(
            PORTS,
            ports_of(&[
                port(&["10.244.1.0/24"], 3),
                port(&[], 1).replace("10.1.0.5", "10.1.0.7").replace("p-1", "p-2"),
            ]),
        );
    look(&[node()]).expect("routes");
    let begin = cloud.lines().len();
    for _ in 0..12 {
        cloud.pass(300);
        let in_place = ("10.244.1.0/24".to_owned(), Some("a".to_owned()), State::InPlace);
        assert_eq!(look(&[node()]), Ok(vec![in_place]));
    }
    assert_eq!(cloud.lines().len() - begin, 12, "{:?}", asked(&cloud));
    assert!(asked(&cloud)[begin..].contains(&PORTS.to_owned()), "pairs are looked at once an hour");
}

#[test]
fn a_router_that_is_not_there_or_has_no_routes_is_told() {
    let wrong = |reply: Reply| {
        let _cloud = fake().on(ROUTER, reply);
        look(&[node()]).expect_err("there are no routes")
    };
    let gone = wrong(Reply::json(
        404,
        r#"{"NeutronError": {"type": "RouterNotFound", "message": "Router r-1 could not be found"}}"#,
    ));
    assert_eq!(gone.reaction, Reaction::Unauthorized);
    assert!(
        gone.message.contains("no router r-1") && gone.message.contains("correct router-id in [Route]"),
        "{}",
        gone.message
    );
    let without = wrong(Reply::json(200, r#"{"router": {"id": "r-1"}}"#));
    assert_eq!(without.reaction, Reaction::Unsupported);
    assert!(without.message.contains("extraroute"), "{}", without.message);
    assert_eq!(wrong(Reply::json(503, "{}")).reaction, Reaction::Retry);
    let unset = get_all(&config(), &cluster(), &[]).expect_err("there is no router");
    assert_eq!(unset.message, "router-id not set in cloud provider config");
}

/// Servers are asked for their trunks, and only those whose pairs nobody has seen.
#[test]
fn servers_of_routes_that_are_known_are_not_asked_for_again() {
    let sub =
        port(&[], 3).replace("\"s-1\"", "\"\"").replace("10.1.0.5", "10.1.0.6").replace("fd00:1:0:0::5", "fd00:1::6");
    let other = Node {
        provider_id: Some("openstack:///s-2".to_owned()),
        addresses: vec![internal("10.1.0.6")],
        ..Node::named("b")
    };
    let (one, two) = (("10.244.1.0/24", "10.1.0.5"), ("10.244.2.0/24", "10.1.0.6"));
    let cloud = fake().on(ROUTER, router_with(&[one], "")).on(PORTS, ports_of(&[port(&["10.244.1.0/24"], 3)]));
    assert_eq!(look(&[node(), other.clone()]).map(|routes| routes.len()), Ok(1));
    let cloud = cloud.on(ROUTER, router_with(&[one, two], "")).on(PORTS, ports_of(&[sub])).on(PORTS, ports_of(&[]));
    assert_eq!(look(&[node(), other]).map(|routes| routes.len()), Ok(2));
    let asked = cloud.lines().pop().unwrap_or_default();
    assert!(asked.contains("device_id=s-2") && !asked.contains("device_id=s-1"), "{asked}");
}
