mod hours;
mod listing;
mod strangers;
mod whole_lists;

use ccm_sdk::routes::{Outcome, Wish};
use ccm_sdk::testing::{FakeCloud, Reply, text};
use ccm_sdk::types::{Address, AddressType, Reaction};

use super::*;
use crate::api::SESSION_TOKEN;
use crate::config::tests::config;

const ROUTER: &str = "network GET /routers/r-1";
const PORTS: &str = "network GET /ports";
const EXTENSIONS: &str = "network GET /extensions";
const ADD: &str = "network PUT /routers/r-1/add_extraroutes";
const REMOVE: &str = "network PUT /routers/r-1/remove_extraroutes";
const REPLACE: &str = "network PUT /routers/r-1";
const TAG: &str = "network PUT /routers/r-1/tags/wasm-ccm-route%3Akubernetes%3A10.244.1.0_24";
const UNTAG: &str = "network DELETE /routers/r-1/tags/wasm-ccm-route%3Akubernetes%3A10.244.1.0_24";
const PAIRS: &str = "network PUT /ports/p-1";
/// A tag of a router with a route to 10.244.9.0/24.
const OLD_TAG: &str = r#""people", "wasm-ccm-route:kubernetes:10.244.9.0_24""#;

fn with_router() -> Config {
    Config { router: Some("r-1".to_owned()), ..config() }
}

fn cluster() -> Cluster {
    Cluster::new("kubernetes".to_owned(), &["10.244.0.0/16".to_owned(), "fd00:10::/48".to_owned()])
}

fn fake() -> FakeCloud {
    FakeCloud::new().with_credential(SESSION_TOKEN)
}

fn internal(value: &str) -> Address {
    Address { kind: AddressType::InternalIp, value: value.to_owned() }
}

/// The Node of server `s-1` at 10.1.0.5.
fn node() -> Node {
    Node {
        provider_id: Some("openstack:///s-1".to_owned()),
        addresses: vec![internal("10.1.0.5"), internal("fd00:1::5")],
        ..Node::named("a")
    }
}

fn wish(network: &str) -> Wish {
    Wish {
        destination_cidr: network.to_owned(),
        node: "a".to_owned(),
        node_provider_id: "openstack:///s-1".to_owned(),
        node_addresses: node().addresses,
    }
}

/// The router with these routes, to 10.1.0.5 where nothing else is said.
fn router_with(routes: &[(&str, &str)], tags: &str) -> Reply {
    let routes: Vec<String> = routes
        .iter()
        .map(|(destination, hop)| format!(r#"{{"destination": "{destination}", "nexthop": "{hop}"}}"#))
        .collect();
    Reply::json(
        200,
        format!(
            r#"{{"router": {{"id": "r-1", "routes": [{}], "tags": [{tags}], "revision_number": 9}}}}"#,
            routes.join(",")
        ),
    )
}

/// The port of server `s-1`, with these pairs.
fn port(pairs: &[&str], revision: u64) -> String {
    let pairs: Vec<String> =
        pairs.iter().map(|pair| format!(r#"{{"mac_address": "fa:16:3e:00:00:01", "ip_address": "{pair}"}}"#)).collect();
    format!(
        r#"{{"id": "p-1", "network_id": "n-1", "device_id": "s-1", "status": "ACTIVE", "revision_number": {revision},
            "fixed_ips": [{{"subnet_id": "x", "ip_address": "10.1.0.5"}}, {{"subnet_id": "y", "ip_address": "fd00:1:0:0::5"}}],
            "port_security_enabled": true, "allowed_address_pairs": [{}]}}"#,
        pairs.join(",")
    )
}

fn ports_of(ports: &[String]) -> Reply {
    Reply::json(200, format!(r#"{{"ports": [{}]}}"#, ports.join(",")))
}

/// The router's own ports: it leads to these networks.
fn led_to(networks: &[&str]) -> Reply {
    let port = |network: &&str| format!(r#"{{"id": "own-{network}", "network_id": "{network}", "device_id": "r-1"}}"#);
    ports_of(&networks.iter().map(port).collect::<Vec<_>>())
}

fn extensions(aliases: &[&str]) -> Reply {
    let aliases: Vec<String> = aliases.iter().map(|alias| format!(r#"{{"alias": "{alias}"}}"#)).collect();
    Reply::json(200, format!(r#"{{"extensions": [{}]}}"#, aliases.join(",")))
}

fn atomic() -> Reply {
    extensions(&["extraroute", "extraroute-atomic", "allowed-address-pairs"])
}

fn look(nodes: &[Node]) -> Result<Vec<(String, Option<String>, State)>, Failure> {
    let routes = get_all(&with_router(), &cluster(), nodes)?;
    Ok(routes.into_iter().map(|route| (route.destination_cidr, route.node, route.state)).collect())
}

fn route(network: &str, hop: &str) -> Route {
    told(&Hop { destination: network.to_owned(), nexthop: hop.to_owned() }, None, State::Blackhole)
}

fn run(obsolete: &[Route], wanted: &[Wish]) -> Result<Vec<Outcome>, Failure> {
    change(&with_router(), &cluster(), obsolete, wanted)
}

fn done(result: Result<Vec<Outcome>, Failure>) -> Vec<String> {
    let outcomes = result.expect("outcomes");
    assert!(outcomes.iter().all(|outcome| outcome.failure.is_none()), "{outcomes:?}");
    outcomes.into_iter().flat_map(|outcome| outcome.changes).collect()
}

fn failed(result: Result<Vec<Outcome>, Failure>) -> Failure {
    result.expect("outcomes").pop().and_then(|outcome| outcome.failure).expect("a failure")
}

/// What was asked, without queries.
fn asked(cloud: &FakeCloud) -> Vec<String> {
    cloud.lines().iter().map(|line| line.split('?').next().unwrap_or_default().to_owned()).collect()
}

fn body_of(cloud: &FakeCloud, line: &str) -> String {
    let at = asked(cloud).iter().rposition(|other| other == line).expect("it was asked");
    text(&cloud.requests()[at].body)
}

#[test]
fn os_051_a_route_is_made_listed_and_removed() {
    let cloud = fake().on(EXTENSIONS, atomic()).on(PORTS, ports_of(&[port(&[], 3)])).on(TAG, Reply::status(201));
    let cloud = cloud.on(ROUTER, router_with(&[], ""));
    let cloud = cloud.on(ADD, Reply::json(200, "{}")).on(PAIRS, Reply::json(200, "{}"));
    let changes = done(run(&[], &[wish("10.244.1.0/24")]));
    assert_eq!(
        changes,
        ["route 10.244.1.0/24 via 10.1.0.5 added", "allowed address pair 10.244.1.0/24 added to port p-1"]
    );
    assert_eq!(asked(&cloud), [PORTS, ROUTER, EXTENSIONS, TAG, ADD, PAIRS]);
    assert_eq!(body_of(&cloud, ADD), r#"{"router":{"routes":[{"destination":"10.244.1.0/24","nexthop":"10.1.0.5"}]}}"#);
    assert_eq!(body_of(&cloud, PAIRS), r#"{"port":{"allowed_address_pairs":[{"ip_address":"10.244.1.0/24"}]}}"#);
    let tagged = r#""wasm-ccm-route:kubernetes:10.244.1.0_24""#;
    let cloud = cloud.always(ROUTER, router_with(&[("10.244.1.0/24", "10.1.0.5")], tagged));
    assert_eq!(look(&[node()]), Ok(vec![("10.244.1.0/24".to_owned(), Some("a".to_owned()), State::InPlace)]));
    let cloud = cloud.on(PORTS, ports_of(&[port(&["10.244.1.0/24"], 4)])).on(PORTS, led_to(&["n-1"]));
    let cloud = cloud.on(EXTENSIONS, atomic());
    let cloud =
        cloud.on(PAIRS, Reply::json(200, "{}")).on(REMOVE, Reply::json(200, "{}")).on(UNTAG, Reply::status(204));
    let changes = done(run(&[route("10.244.1.0/24", "10.1.0.5")], &[]));
    assert_eq!(
        changes,
        ["allowed address pair 10.244.1.0/24 removed from port p-1", "route 10.244.1.0/24 via 10.1.0.5 removed"]
    );
    assert_eq!(asked(&cloud)[6..], [ROUTER, PORTS, ROUTER, EXTENSIONS, PORTS, PAIRS, REMOVE, UNTAG]);
    assert_eq!(body_of(&cloud, PAIRS), r#"{"port":{"allowed_address_pairs":[]}}"#);
}

/// The address of a Node may be that of a port within the trunk of its server: in the cloud that port has no server.
#[test]
fn a_port_within_the_trunk_of_the_server_gets_the_pair() {
    let sub = || port(&[], 3).replace("\"s-1\"", "\"\", \"device_owner\": \"trunk:subport\"");
    let carrier = |sub: &str| {
        port(&[], 1).replace("p-1", "p-0").replace("10.1.0.5", "10.9.0.5").replacen(
            '{',
            &format!(r#"{{"trunk_details": {{"sub_ports": [{{"port_id": "{sub}"}}]}}, "#),
            1,
        )
    };
    let cloud = fake()
        .on(EXTENSIONS, atomic())
        .on(PORTS, ports_of(&[sub()]))
        .on(PORTS, ports_of(&[carrier("p-1")]))
        .on(TAG, Reply::status(201))
        .on(ROUTER, router_with(&[], ""))
        .on(ADD, Reply::json(200, "{}"))
        .on(PAIRS, Reply::json(200, "{}"));
    let changes = done(run(&[], &[wish("10.244.1.0/24")]));
    assert_eq!(changes[1], "allowed address pair 10.244.1.0/24 added to port p-1");
    assert!(cloud.lines()[1].contains("device_id=s-1"), "{:?}", cloud.lines());
    // A route whose pair is missing there is seen as well, and a port in the trunk of another server is left alone.
    for (sub_port, state) in [("p-1", State::Incomplete), ("p-7", State::InPlace)] {
        let _cloud = fake()
            .on(ROUTER, router_with(&[("10.244.1.0/24", "10.1.0.5")], ""))
            .on(PORTS, ports_of(&[sub()]))
            .on(PORTS, ports_of(&[carrier(sub_port)]));
        assert_eq!(look(&[node()]), Ok(vec![("10.244.1.0/24".to_owned(), Some("a".to_owned()), state)]));
    }
    let _cloud = fake()
        .on(EXTENSIONS, atomic())
        .on(PORTS, ports_of(&[sub()]))
        .on(PORTS, ports_of(&[carrier("p-7")]))
        .on(TAG, Reply::status(201))
        .on(ROUTER, router_with(&[], ""))
        .on(ADD, Reply::json(200, "{}"));
    let failure = failed(run(&[], &[wish("10.244.1.0/24")]));
    assert!(failure.message.contains("no port of server s-1 has the address 10.1.0.5"), "{}", failure.message);
}

#[test]
fn os_049_050_the_next_hop_is_the_first_internal_address_of_the_family() {
    let of = |network: &str, addresses: &[&str]| {
        let node_addresses = addresses.iter().map(|value| internal(value)).collect();
        change::next_hop(&Cidr::masked(network).expect("a network"), &Wish { node_addresses, ..wish(network) })
            .map(|hop| hop.to_string())
    };
    let v4 = "10.244.1.0/24";
    let v6 = "fd00:10:0:1::/64";
    for (case, network, addresses, hop) in [
        ("os_049", v4, ["fd00::a", "1.2.3.4", "fd00::b", "1.2.3.5"], "1.2.3.4"),
        ("os_050", v6, ["1.2.3.5", "fd00::a", "1.2.3.4", "fd00::b"], "fd00::a"),
    ] {
        assert_eq!(of(network, &addresses).as_deref(), Some(hop), "{case}");
    }
    assert_eq!(of(v6, &["1.2.3.5"]), None);
    let external = Address { kind: AddressType::ExternalIp, value: "203.0.113.9".to_owned() };
    let node_addresses = vec![external, internal("1.2.3.4")];
    let hop = change::next_hop(&Cidr::masked(v4).expect("a network"), &Wish { node_addresses, ..wish(v4) });
    assert_eq!(hop.map(|hop| hop.to_string()).as_deref(), Some("1.2.3.4"), "clients' addresses lead nowhere inside");
    // Nothing is asked.
    let _cloud = fake();
    for (addresses, reaction) in [(vec![internal("1.2.3.5")], Reaction::Retry), (vec![], Reaction::Pending)] {
        let failure = failed(run(&[], &[Wish { node_addresses: addresses, ..wish(v6) }]));
        assert!(failure.reaction == reaction && failure.message.contains("no address found for host"), "{failure:?}");
    }
}

#[test]
fn all_routes_of_a_change_are_one_request_each_way_and_one_for_the_ports_and_one_for_the_routers() {
    let two = ["10.244.1.0/24", "10.244.2.0/24"];
    let other = port(&["10.244.8.0/24"], 1).replace("p-1", "p-2").replace("s-1", "s-2").replace("10.1.0.5", "10.1.0.6");
    let other_wish = Wish {
        node_provider_id: "openstack:///s-2".to_owned(),
        node_addresses: vec![internal("10.1.0.6")],
        ..wish(two[1])
    };
    let cloud = fake()
        .on(PORTS, ports_of(&[port(&["10.244.9.0/24"], 3), other]))
        .on(PORTS, led_to(&["n-1"]))
        .on(EXTENSIONS, atomic())
        .on(ROUTER, router_with(&[], OLD_TAG))
        .always("network PUT /ports/p-1", Reply::json(200, "{}"))
        .always("network PUT /ports/p-2", Reply::json(200, "{}"))
        .on(REMOVE, Reply::json(200, "{}"))
        .on(ADD, Reply::json(200, "{}"));
    let cloud = ["1.0", "2.0", "9.0"].iter().fold(cloud, |cloud, part| {
        let tag = format!("/routers/r-1/tags/wasm-ccm-route%3Akubernetes%3A10.244.{part}_24");
        cloud
            .on(&format!("network PUT {tag}"), Reply::status(201))
            .on(&format!("network DELETE {tag}"), Reply::status(204))
    });
    let obsolete = [route("10.244.9.0/24", "10.1.0.5"), route("10.244.8.0/24", "10.1.0.6")];
    let outcomes = run(&obsolete, &[wish(two[0]), other_wish]).expect("outcomes");
    assert!(outcomes.len() == 4 && outcomes.iter().all(|outcome| outcome.failure.is_none()), "{outcomes:?}");
    let asked = asked(&cloud);
    let count = |line: &str| asked.iter().filter(|other| other.as_str() == line).count();
    assert_eq!((count(PORTS), count(REMOVE), count(ADD), count(REPLACE)), (2, 1, 1, 0), "{asked:?}");
    assert!(body_of(&cloud, ADD).contains("10.244.1.0/24") && body_of(&cloud, ADD).contains("10.244.2.0/24"));
    // Only what is there is taken off, one after the other: Neutron fails where a router gets several tags at once.
    assert_eq!(asked.iter().filter(|line| line.contains("DELETE")).count(), 1, "{asked:?}");
    assert_eq!(cloud.batches().iter().max(), Some(&2), "ports alone are changed at the same time");
}

#[test]
fn many_tags_are_written_as_a_whole_and_those_of_others_stay() {
    let networks: Vec<String> = (1..=5).map(|number| format!("10.244.{number}.0/24")).collect();
    let wishes: Vec<Wish> = networks.iter().map(|network| wish(network)).collect();
    let cloud = fake()
        .on(PORTS, ports_of(&[port(&[], 3)]))
        .on(ROUTER, router_with(&[], OLD_TAG))
        .on(EXTENSIONS, atomic())
        .on("network PUT /routers/r-1/tags", Reply::json(200, "{}"))
        .on(ADD, Reply::json(200, "{}"))
        .on(PAIRS, Reply::json(200, "{}"));
    done(run(&[], &wishes));
    let body = body_of(&cloud, "network PUT /routers/r-1/tags");
    assert!(
        body.starts_with(
            r#"{"tags":["people","wasm-ccm-route:kubernetes:10.244.9.0_24","wasm-ccm-route:kubernetes:10.244.1.0_24","#
        ),
        "{body}"
    );
    assert_eq!(body.matches("wasm-ccm-route").count(), 6);
    // The same again, as the host does it in halves: the tags are there.
    let there: Vec<String> =
        (1..=5).map(|number| format!(r#""wasm-ccm-route:kubernetes:10.244.{number}.0_24""#)).collect();
    let cloud = fake()
        .on(PORTS, ports_of(&[port(&["10.244.1.0/24"], 3)]))
        .on(ROUTER, router_with(&[], &there.join(",")))
        .on(EXTENSIONS, atomic())
        .on(ADD, Reply::json(200, "{}"));
    done(run(&[], &wishes[..1]));
    assert_eq!(asked(&cloud), [PORTS, ROUTER, EXTENSIONS, ADD]);
}

#[test]
fn a_tag_that_cannot_be_written_stops_no_route() {
    let cloud = fake()
        .on(PORTS, ports_of(&[port(&[], 3)]))
        .on(ROUTER, router_with(&[], ""))
        .on(EXTENSIONS, atomic())
        .always(TAG, Reply::json(500, "{}"))
        .on(ADD, Reply::json(200, "{}"))
        .on(PAIRS, Reply::json(200, "{}"));
    done(run(&[], &[wish("10.244.1.0/24")]));
    assert_eq!(asked(&cloud).iter().filter(|line| *line == TAG).count(), 4);
    assert!(cloud.logged()[0].starts_with("the tags of the router are not"), "{:?}", cloud.logged());
}

/// It stayed for ever: what is gone is not told again.
#[test]
fn the_tag_of_a_route_that_goes_is_taken_off_although_somebody_else_is_in_the_way_once() {
    let own = r#""wasm-ccm-route:kubernetes:10.244.1.0_24""#;
    let cloud = fake()
        .on(PORTS, ports_of(&[port(&[], 3)]))
        .on(ROUTER, router_with(&[("10.244.1.0/24", "10.1.0.5")], own))
        .on(EXTENSIONS, atomic())
        .on(REMOVE, Reply::json(200, "{}"))
        .on(UNTAG, Reply::status(409))
        .on(UNTAG, Reply::status(204));
    let outcomes = run(&[route("10.244.1.0/24", "10.1.0.5")], &[]).expect("outcomes");
    assert!(outcomes.iter().all(|outcome| outcome.failure.is_none()), "{outcomes:?}");
    assert_eq!(asked(&cloud).iter().filter(|line| *line == UNTAG).count(), 2);
    assert!(cloud.logged().is_empty(), "{:?}", cloud.logged());
}

#[test]
fn os_185_a_port_or_a_router_that_somebody_else_has_changed_is_read_again() {
    // Neutron compares the revision.
    let cloud = fake()
        .on(PORTS, ports_of(&[port(&[], 3)]))
        .on(EXTENSIONS, extensions(&["extraroute"]))
        .on(TAG, Reply::status(201))
        .on(ROUTER, router_with(&[], ""))
        .on(ROUTER, router_with(&[("10.0.0.0/8", "10.1.0.1")], ""))
        .on(
            REPLACE,
            Reply::json(412, r#"{"NeutronError": {"type": "RevisionNumberConstraintFailed", "message": "stale"}}"#),
        )
        .on(ROUTER, router_with(&[("10.0.0.0/8", "10.1.0.1"), ("172.16.0.0/12", "10.1.0.2")], ""))
        .on(REPLACE, Reply::json(200, "{}"))
        .on(PAIRS, Reply::json(412, "{}"))
        .on("network GET /ports/p-1", Reply::json(200, format!(r#"{{"port": {}}}"#, port(&["192.168.0.0/24"], 8))))
        .on(PAIRS, Reply::json(200, "{}"));
    done(run(&[], &[wish("10.244.1.0/24")]));
    // What others have written meanwhile stays.
    let body = body_of(&cloud, REPLACE);
    assert!(["10.0.0.0/8", "172.16.0.0/12", "10.244.1.0/24"].iter().all(|route| body.contains(route)), "{body}");
    let body = body_of(&cloud, PAIRS);
    assert!(body.contains(r#"{"mac_address":"fa:16:3e:00:00:01","ip_address":"192.168.0.0/24"}"#), "{body}");
    let last = cloud.requests().pop().expect("a request");
    let header = last.headers.iter().find(|(name, _)| name == "if-match").map(|(_, value)| text(value));
    assert_eq!(header.as_deref(), Some("revision_number=8"));
}

#[test]
fn os_190_a_route_that_is_there_and_one_that_is_not_are_no_failure() {
    for aliases in [&["extraroute-atomic"][..], &["extraroute"]] {
        let cloud = fake()
            .always(PORTS, ports_of(&[port(&["10.244.1.0/24"], 3)]))
            .on(EXTENSIONS, extensions(aliases))
            .always(ROUTER, router_with(&[("10.244.1.0/24", "10.1.0.5")], ""))
            .on(TAG, Reply::status(201))
            .on("network DELETE /routers/r-1/tags/wasm-ccm-route%3Akubernetes%3A10.244.7.0_24", Reply::status(404))
            .on(ADD, Reply::json(200, "{}"))
            .on(REMOVE, Reply::json(200, "{}"));
        let outcomes = run(&[route("10.244.7.0/24", "10.1.0.5")], &[wish("10.244.1.0/24")]).expect("outcomes");
        assert!(outcomes.iter().all(|outcome| outcome.failure.is_none()), "{outcomes:?}");
        assert!(!asked(&cloud).contains(&REPLACE.to_owned()) && !asked(&cloud).contains(&PAIRS.to_owned()));
    }
}

#[test]
fn os_191_a_next_hop_that_the_router_does_not_reach_leaves_the_pairs_as_they_are() {
    let refused =
        Reply::json(400, r#"{"NeutronError": {"type": "InvalidRoutes", "message": "Invalid format for routes"}}"#);
    let cloud = fake()
        .on(PORTS, ports_of(&[port(&[], 3)]))
        .on(EXTENSIONS, atomic())
        .on(ROUTER, router_with(&[], OLD_TAG))
        .on(TAG, Reply::status(201))
        .on(ADD, refused);
    let failure = failed(run(&[], &[wish("10.244.1.0/24")]));
    assert!(failure.message.contains("Invalid format for routes"), "{}", failure.message);
    assert!(!asked(&cloud).contains(&PAIRS.to_owned()));
}

#[test]
fn of_several_routes_that_are_refused_together_the_host_finds_the_wrong_one() {
    let full = Reply::json(
        400,
        r#"{"NeutronError": {"type": "RoutesExhausted", "message": "The number of routes exceeds the maximum 30."}}"#,
    );
    let _cloud = fake()
        .on(PORTS, ports_of(&[port(&[], 3)]))
        .on(EXTENSIONS, atomic())
        .on(ROUTER, router_with(&[], OLD_TAG))
        .on(TAG, Reply::status(201))
        .on("network PUT /routers/r-1/tags/wasm-ccm-route%3Akubernetes%3A10.244.2.0_24", Reply::status(201))
        .on(ADD, full);
    let failure = run(&[], &[wish("10.244.1.0/24"), wish("10.244.2.0/24")]).expect_err("the whole fails");
    assert_eq!(failure.reaction, Reaction::Quota);
}

#[test]
fn the_pair_of_a_node_that_is_gone_goes_with_its_route() {
    // Its server is there still, and the pod network may be another Node's tomorrow.
    let cloud = fake()
        .on(PORTS, ports_of(&[port(&["10.244.1.0/24", "192.168.0.0/24"], 3)]))
        .on(PORTS, led_to(&["n-1"]))
        .on(EXTENSIONS, atomic())
        .on(ROUTER, router_with(&[], OLD_TAG))
        .on(PAIRS, Reply::json(200, "{}"))
        .on(REMOVE, Reply::json(200, "{}"))
        .on(UNTAG, Reply::status(204));
    done(run(&[route("10.244.1.0/24", "10.1.0.5")], &[]));
    assert!(body_of(&cloud, PAIRS).contains("192.168.0.0/24") && !body_of(&cloud, PAIRS).contains("10.244.1.0/24"));
    // A server that is gone has no port, and a port of another one with that address keeps what it has.
    let cloud = fake()
        .on(PORTS, ports_of(&[port(&["10.244.9.0/24"], 3)]))
        .on(EXTENSIONS, atomic())
        .on(ROUTER, router_with(&[], OLD_TAG))
        .on(REMOVE, Reply::json(200, "{}"))
        .on(UNTAG, Reply::status(404));
    done(run(&[route("10.244.1.0/24", "10.1.0.5")], &[]));
    assert!(!asked(&cloud).contains(&PAIRS.to_owned()));
}

#[test]
fn a_pair_that_cannot_be_removed_keeps_its_route_so_that_it_is_tried_again() {
    let cloud = fake()
        .on(PORTS, ports_of(&[port(&["10.244.1.0/24"], 3)]))
        .on(PORTS, led_to(&["n-1"]))
        .on(EXTENSIONS, atomic())
        .on(ROUTER, router_with(&[], OLD_TAG))
        .on(PAIRS, Reply::json(503, "{}"));
    assert_eq!(failed(run(&[route("10.244.1.0/24", "10.1.0.5")], &[])).reaction, Reaction::Retry);
    assert!(!asked(&cloud).contains(&REMOVE.to_owned()));
}

#[test]
fn of_two_ports_with_one_address_the_servers_own_is_meant_or_the_one_on_a_network_of_the_router() {
    let other = port(&["10.244.1.0/24"], 3).replace("p-1", "p-2").replace("s-1", "s-2").replace("n-1", "n-2");
    let cloud = fake()
        .on(PORTS, ports_of(&[port(&[], 3), other.clone()]))
        .on(EXTENSIONS, atomic())
        .on(ROUTER, router_with(&[], OLD_TAG))
        .on(TAG, Reply::status(201))
        .on(ADD, Reply::json(200, "{}"))
        .on(PAIRS, Reply::json(200, "{}"));
    done(run(&[], &[wish("10.244.1.0/24")]));
    assert!(!asked(&cloud).iter().any(|line| line.contains("p-2")));
    // Nobody says which server it was: the router has ports on its networks.
    let cloud = fake()
        .on(PORTS, ports_of(&[port(&["10.244.1.0/24"], 3), other]))
        .on(EXTENSIONS, atomic())
        .on(ROUTER, router_with(&[], OLD_TAG))
        .on(PORTS, led_to(&["n-2"]))
        .on("network PUT /ports/p-2", Reply::json(200, "{}"))
        .on(REMOVE, Reply::json(200, "{}"))
        .on(UNTAG, Reply::status(204));
    done(run(&[route("10.244.1.0/24", "10.1.0.5")], &[]));
    assert!(!asked(&cloud).contains(&PAIRS.to_owned()));
}
