//! Ports of other clusters and of people: other networks have the same addresses.

use super::*;

/// A port of somebody else, with the address and the pair of our Node's.
fn stranger(network: &str) -> String {
    port(&["10.244.1.0/24"], 3).replace("p-1", "p-7").replace("s-1", "s-7").replace("n-1", network)
}

fn removal(ports: &[String]) -> FakeCloud {
    fake()
        .on(PORTS, ports_of(ports))
        .on(EXTENSIONS, atomic())
        .on(PORTS, led_to(&["n-1", "n-2"]))
        .on(REMOVE, Reply::json(200, "{}"))
}

#[test]
fn a_pair_is_taken_off_no_port_of_a_network_that_the_router_does_not_lead_to() {
    // The Node is gone with its port. In another cluster, the same network of pods is behind the same address.
    let cloud = removal(&[stranger("n-7")]).on(ROUTER, router_with(&[], OLD_TAG));
    assert_eq!(done(run(&[route("10.244.1.0/24", "10.1.0.5")], &[])), ["route 10.244.1.0/24 via 10.1.0.5 removed"]);
    assert!(!asked(&cloud).iter().any(|line| line.contains("PUT /ports")), "{:?}", asked(&cloud));
    // Beside that of the Node.
    let cloud = removal(&[stranger("n-7"), port(&["10.244.1.0/24"], 3)])
        .on(ROUTER, router_with(&[], OLD_TAG))
        .on(PAIRS, Reply::json(200, "{}"));
    assert_eq!(done(run(&[route("10.244.1.0/24", "10.1.0.5")], &[])).len(), 2);
    assert!(!asked(&cloud).iter().any(|line| line.contains("p-7")), "{:?}", asked(&cloud));
}

#[test]
fn of_two_ports_that_the_router_leads_to_both_keep_their_pair_and_that_is_said() {
    let cloud = removal(&[stranger("n-2"), port(&["10.244.1.0/24"], 3)]).on(ROUTER, router_with(&[], OLD_TAG));
    assert_eq!(done(run(&[route("10.244.1.0/24", "10.1.0.5")], &[])), ["route 10.244.1.0/24 via 10.1.0.5 removed"]);
    assert!(!asked(&cloud).iter().any(|line| line.contains("PUT /ports")), "{:?}", asked(&cloud));
    let logged = cloud.logged().join("\n");
    assert!(logged.contains("an allowed address pair stays") && logged.contains("p-7, p-1"), "{logged}");
}

/// Only administrators see the router's port on its external network.
#[test]
fn the_network_of_the_gateway_is_one_of_the_routers() {
    let router = r#"{"router": {"id": "r-1", "routes": [], "external_gateway_info": {"network_id": "out"}}}"#;
    let router = Reply::json(200, router);
    let cloud = removal(&[stranger("out")]).on(ROUTER, router).on("network PUT /ports/p-7", Reply::json(200, "{}"));
    assert_eq!(done(run(&[route("10.244.1.0/24", "10.1.0.5")], &[])).len(), 2);
    assert_eq!(cloud.unused(), [""; 0]);
}

/// Without a provider ID, nothing but the address leads to the port of a Node.
#[test]
fn a_port_of_another_network_is_not_that_of_a_node_without_a_provider_id() {
    let lacking = stranger("n-7").replace("10.244.1.0/24", "10.244.8.0/24");
    let nameless = Wish { node_provider_id: String::new(), ..wish("10.244.1.0/24") };
    let cloud = fake()
        .on(PORTS, ports_of(std::slice::from_ref(&lacking)))
        .on(EXTENSIONS, atomic())
        .on(ROUTER, router_with(&[], ""))
        .on(PORTS, led_to(&["n-1"]))
        .on(TAG, Reply::status(201))
        .on(ADD, Reply::json(200, "{}"));
    let failure = failed(run(&[], &[nameless]));
    assert!(failure.message.contains("no port on a network of the router has the address 10.1.0.5"), "{failure:?}");
    assert!(!asked(&cloud).iter().any(|line| line.contains("PUT /ports")), "{:?}", asked(&cloud));
    // Nor is its route one that lacks its pair.
    let _cloud = fake()
        .on(ROUTER, router_with(&[("10.244.1.0/24", "10.1.0.5")], ""))
        .on(PORTS, ports_of(&[lacking]))
        .on(PORTS, led_to(&["n-1"]));
    let nameless = Node { provider_id: None, ..node() };
    assert_eq!(look(&[nameless]).map(|routes| routes[0].2), Ok(State::InPlace));
}

/// Two networks of one server may have the same addresses, and the router leads to one of them.
#[test]
fn of_two_ports_of_a_server_with_one_address_the_one_that_the_router_leads_to_gets_the_pair() {
    let twin = || stranger("n-7").replace("s-7", "s-1").replace("10.244.1.0/24", "10.244.8.0/24");
    let both = || ports_of(&[twin(), port(&[], 3)]);
    let cloud = fake()
        .on(PORTS, both())
        .on(EXTENSIONS, atomic())
        .on(ROUTER, router_with(&[], ""))
        .on(PORTS, led_to(&["n-1"]))
        .on(TAG, Reply::status(201))
        .on(ADD, Reply::json(200, "{}"))
        .on(PAIRS, Reply::json(200, "{}"));
    let changes = done(run(&[], &[wish("10.244.1.0/24")]));
    assert_eq!(changes[1], "allowed address pair 10.244.1.0/24 added to port p-1");
    assert_eq!(cloud.unused(), [""; 0]);
    // One of another server is none of them, wherever it is, and costs no question for networks.
    let cloud = fake()
        .on(PORTS, ports_of(&[stranger("n-1"), port(&[], 3)]))
        .on(EXTENSIONS, atomic())
        .on(ROUTER, router_with(&[], ""))
        .on(TAG, Reply::status(201))
        .on(ADD, Reply::json(200, "{}"))
        .on(PAIRS, Reply::json(200, "{}"));
    assert_eq!(done(run(&[], &[wish("10.244.1.0/24")]))[1], changes[1]);
    assert_eq!(asked(&cloud).iter().filter(|line| *line == PORTS).count(), 1, "{:?}", asked(&cloud));
}
