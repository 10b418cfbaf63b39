use ccm_sdk::http::TransportReason;
use ccm_sdk::testing::{FakeCloud, Reply, text};
use ccm_sdk::types::Reaction;

use super::*;
use crate::api::SESSION_TOKEN;
use crate::config::Networking;
use crate::config::tests::{config, install};

const LIST: &str = "compute GET /servers/detail?limit=500";
const LOOK: &str = "compute GET /servers/detail?limit=1";
const ONE: &str = "compute GET /servers/s-1";
const PORTS: &str = "network GET /ports";

fn fake() -> FakeCloud {
    FakeCloud::new().with_credential(SESSION_TOKEN)
}

/// As Nova shows one with microversion 2.47.
pub(crate) fn server(number: usize, name: &str) -> String {
    format!(
        r#"{{"id": "s-{number}", "name": "{name}", "status": "ACTIVE", "accessIPv4": "", "accessIPv6": "", "metadata": {{}},
            "addresses": {{"private": [{{"version": 4, "addr": "10.1.0.{number}", "OS-EXT-IPS:type": "fixed"}}]}},
            "flavor": {{"original_name": "m1.lab", "vcpus": 1, "ram": 64, "extra_specs": {{}}}},
            "OS-EXT-AZ:availability_zone": "nova", "OS-EXT-STS:task_state": null}}"#
    )
}

fn list(servers: &[String]) -> Reply {
    Reply::json(200, format!(r#"{{"servers": [{}]}}"#, servers.join(",")))
}

fn one(server: &str) -> Reply {
    Reply::json(200, format!(r#"{{"server": {server}}}"#))
}

fn not_found() -> Reply {
    Reply::json(404, r#"{"itemNotFound": {"code": 404, "message": "Instance s-1 could not be found."}}"#)
}

fn port(number: usize) -> String {
    format!(
        r#"{{"id": "p-{number}", "network_id": "n", "device_id": "s-{number}", "status": "ACTIVE",
            "fixed_ips": [{{"subnet_id": "x", "ip_address": "10.1.0.{number}"}}]}}"#
    )
}

fn ports(ports: &[String]) -> Reply {
    Reply::json(200, format!(r#"{{"ports": [{}]}}"#, ports.join(",")))
}

/// Answers of other calls will do.
fn are_shared(cloud: &FakeCloud) -> bool {
    cloud.requests().iter().all(|request| request.share_ms == 30_000)
}

fn node(number: usize) -> Node {
    Node { provider_id: Some(format!("openstack:///s-{number}")), ..Node::named(format!("n-{number}")) }
}

fn ask(nodes: &[Node], need: Need) -> Vec<Finding> {
    let others = || Ok(nodes.iter().filter_map(|node| node.provider_id.clone()).collect());
    find(&config(), nodes, need, |_| others()).expect("findings")
}

fn found(findings: Vec<Finding>) -> Vec<Instance> {
    let found = |finding| match finding {
        Finding::Found(instance) => instance,
        other => panic!("{other:?}"),
    };
    findings.into_iter().map(found).collect()
}

fn unknown(mut findings: Vec<Finding>) -> Failure {
    match findings.pop() {
        Some(Finding::Unknown(failure)) => failure,
        other => panic!("{other:?}"),
    }
}

#[test]
fn fifty_nodes_are_one_list_of_servers_and_one_of_ports() {
    let numbers: Vec<usize> = (1..=50).collect();
    let servers: Vec<String> = numbers.iter().map(|number| server(*number, "x")).collect();
    let of_ports: Vec<String> = numbers.iter().map(|number| port(*number)).collect();
    let cloud = fake().on(LIST, list(&servers)).on(PORTS, ports(&of_ports));
    let nodes: Vec<Node> = numbers.iter().map(|number| node(*number)).collect();
    let instances = found(ask(&nodes, Need::Metadata));
    assert!(instances.iter().zip(&numbers).all(|(instance, number)| {
        instance.addresses[0].value == format!("10.1.0.{number}")
            && instance.provider_id == format!("openstack:///s-{number}")
    }));
    assert_eq!(cloud.lines().len(), 2, "{:?}", cloud.lines());
    assert!(are_shared(&cloud));
    let asked = &cloud.lines()[1];
    assert!(asked.contains("device_id=s-1&device_id=") && asked.contains("fields=id&fields=network_id"), "{asked}");
    assert!(asked.len() < 8_000);
    // Whether they are there needs no ports.
    let cloud = fake().on(LIST, list(&servers));
    found(ask(&nodes, Need::Existence));
    assert_eq!(cloud.lines(), [LIST]);
}

#[test]
fn a_node_has_type_zone_region_and_addresses_of_its_server() {
    let cloud = fake().on(ONE, one(&server(1, "n-1"))).on(PORTS, ports(&[port(1)]));
    let instance = found(ask(&[node(1)], Need::Metadata)).remove(0);
    assert_eq!(
        (instance.instance_type.as_str(), instance.zone.as_str(), instance.region.as_str(), instance.state),
        ("m1.lab", "nova", "RegionOne", State::Running)
    );
    let version =
        cloud.requests()[0].headers.iter().find(|(name, _)| name == "openstack-api-version").map(|(_, v)| text(v));
    assert_eq!(version.as_deref(), Some("compute 2.47"), "else a flavor is only an ID");
}

#[test]
fn names_that_cannot_be_labels_become_such() {
    for (name, value) in [
        ("nova", "nova"),
        ("Zone A (north)", "Zone-A-north"),
        ("_zone_", "zone"),
        ("a//b", "a-b"),
        ("", ""),
        (&"x".repeat(70), &"x".repeat(63)),
    ] {
        assert_eq!(label(name), value);
    }
    // A flavor that is gone has no name any more, and the Node is told its ID.
    let without =
        server(1, "n-1").replace(r#""original_name": "m1.lab""#, r#""id": "lab-1""#).replace("\"nova\"", "null");
    let _cloud = fake().on(ONE, one(&without)).on(PORTS, ports(&[port(1)]));
    let instance = found(ask(&[node(1)], Need::Metadata)).remove(0);
    assert_eq!((instance.instance_type.as_str(), instance.zone.as_str()), ("lab-1", ""));
}

#[test]
fn os_173_a_server_is_stopped_only_where_it_is_shut_off() {
    for (status, state) in [
        ("ACTIVE", State::Running),
        ("SHUTOFF", State::Stopped),
        ("SUSPENDED", State::Other),
        ("PAUSED", State::Other),
        ("SHELVED_OFFLOADED", State::Other),
        ("ERROR", State::Other),
        ("BUILD", State::Other),
    ] {
        let _cloud = fake().on(ONE, one(&server(1, "n-1").replace("ACTIVE", status)));
        assert_eq!(found(ask(&[node(1)], Need::Existence))[0].state, state, "{status}");
    }
}

#[test]
fn os_174_a_server_is_gone_only_where_nova_says_so_by_its_id_to_who_sees_the_cluster() {
    let prove = |other: Reply| {
        let _cloud = fake().on(ONE, not_found()).on("compute GET /servers/s-2", other);
        let others = |_| Ok(vec!["openstack:///s-1".to_owned(), "openstack:///s-2".to_owned()]);
        find(&config(), &[node(1)], Need::Proof, others).expect("findings")
    };
    assert_eq!(prove(one(&server(2, "n-2"))), [Finding::Absent]);
    // To another project all servers are missing.
    let blind = unknown(prove(not_found()));
    assert!(blind.message.contains("see no other server"), "{}", blind.message);
    let status = |status: u16| Reply::json(status, "{}");
    // A token that is refused leads to a login.
    let _installed = install(config());
    for (case, reply, reaction) in [
        ("500", status(500), Reaction::Retry),
        ("503", status(503), Reaction::Retry),
        ("403", status(403), Reaction::Unauthorized),
        ("401, and no other token", status(401), Reaction::Unauthorized),
        ("404 of somebody on the way", status(404), Reaction::Retry),
        ("no answer in time", Reply::lost(TransportReason::Timeout, true), Reaction::Retry),
        ("no connection", Reply::lost(TransportReason::Connect, false), Reaction::Retry),
    ] {
        let _cloud = fake().always(ONE, reply).always("compute GET /servers/s-2", one(&server(2, "n-2")));
        let others = |_| Ok(vec!["openstack:///s-1".to_owned(), "openstack:///s-2".to_owned()]);
        let told = unknown(find(&config(), &[node(1)], Need::Proof, others).expect("findings"));
        assert_eq!(told.reaction, reaction, "{case}: {}", told.message);
    }
    // Alone in its cluster, the project must have a server at all.
    for (servers, finding) in [(vec![server(9, "other")], Some(Finding::Absent)), (vec![], None)] {
        let _cloud = fake().always(ONE, not_found()).on(LOOK, list(&servers));
        let told = ask(&[node(1)], Need::Proof).remove(0);
        assert_eq!(Some(&told) == finding.as_ref(), finding.is_some(), "{told:?}");
    }
}

#[test]
fn os_171_of_servers_whose_names_differ_in_case_the_exact_one_is_meant() {
    let named = Node::named("node-1");
    let servers = [server(1, "NODE-1"), server(2, "node-1")];
    let line = "compute GET /servers/detail?name=%5Enode-1%24&limit=500";
    let _cloud = fake().on(line, list(&servers)).on(PORTS, ports(&[port(2)]));
    assert_eq!(found(ask(std::slice::from_ref(&named), Need::Metadata))[0].provider_id, "openstack:///s-2");
    // Nodes are called in small letters.
    let _cloud = fake().on(line, list(&servers[..1])).on(PORTS, ports(&[port(1)]));
    assert_eq!(found(ask(std::slice::from_ref(&named), Need::Metadata))[0].provider_id, "openstack:///s-1");
    // Two of one name are none.
    let _cloud = fake().on(line, list(&[server(1, "node-1"), server(2, "node-1")]));
    assert_eq!(unknown(ask(&[named], Need::Metadata)).reaction, Reaction::Conflict);
}

#[test]
fn os_172_a_name_is_no_pattern() {
    let line = r"compute GET /servers/detail?name=%5Ea%5C.b%5C%2Bc%24&limit=500";
    let servers = [server(1, "axb+c"), server(2, "a.b+c")];
    let cloud = fake().on(line, list(&servers)).on(PORTS, ports(&[port(2)]));
    assert_eq!(found(ask(&[Node::named("a.b+c")], Need::Metadata))[0].provider_id, "openstack:///s-2");
    assert_eq!(cloud.unused(), [""; 0]);
    assert!(are_shared(&cloud));
}

#[test]
fn a_node_may_be_named_by_an_address_of_its_server() {
    let line = r"compute GET /servers/detail?name=%5E10%5C.1%5C.0%5C.2%24&limit=500";
    let all = list(&[server(1, "a"), server(2, "b")]);
    let cloud = fake().on(line, list(&[])).on(LIST, all).on(PORTS, ports(&[port(2)]));
    assert_eq!(found(ask(&[Node::named("10.1.0.2")], Need::Metadata))[0].provider_id, "openstack:///s-2");
    assert_eq!(cloud.unused(), [""; 0]);
}

#[test]
fn os_215_a_node_without_provider_id_whose_server_is_gone_is_unknown() {
    for need in [Need::Existence, Need::Metadata, Need::Proof] {
        let _cloud = fake()
            .on("compute GET /servers/detail?name=%5En-1%24&limit=500", list(&[]))
            .on(LIST, list(&[server(2, "x")]));
        let failure = unknown(ask(&[Node::named("n-1")], need));
        assert_eq!(failure.reaction, Reaction::Retry, "os_215");
        assert!(failure.message.contains("no server has the name"), "os_215: {}", failure.message);
    }
}

#[test]
fn a_server_of_another_region_costs_no_request() {
    let cloud = fake();
    let node = Node { provider_id: Some("openstack://RegionTwo/s-1".to_owned()), ..Node::named("n-1") };
    let failure = unknown(ask(&[node], Need::Existence));
    assert!(failure.message.contains("didn't match supported region"), "{}", failure.message);
    assert_eq!(cloud.lines(), [""; 0]);
}

#[test]
fn addresses_that_cannot_be_known_now_are_not_taken_away() {
    let _cloud = fake().on(ONE, one(&server(1, "n-1"))).on(PORTS, Reply::json(503, "{}"));
    assert_eq!(unknown(ask(&[node(1)], Need::Metadata)).reaction, Reaction::Retry);
    let building = server(1, "n-1")
        .replace("ACTIVE", "BUILD")
        .replace(r#""private": [{"version": 4, "addr": "10.1.0.1", "OS-EXT-IPS:type": "fixed"}]"#, "");
    let _cloud = fake().on(ONE, one(&building)).on(PORTS, ports(&[]));
    let failure = unknown(ask(&[node(1)], Need::Metadata));
    assert!(failure.message.contains("has no address yet"), "{}", failure.message);
    // A host name is no address, and one of outside is enough.
    let called = building.replace(r#""metadata": {}"#, r#""metadata": {"hostname": "h"}"#);
    let _cloud = fake().on(ONE, one(&called)).on(PORTS, ports(&[]));
    let failure = unknown(ask(&[node(1)], Need::Metadata));
    assert!(failure.message.contains("has no address yet"), "{}", failure.message);
    let outside = building.replace(r#""accessIPv4": """#, r#""accessIPv4": "203.0.113.1""#);
    let _cloud = fake().on(ONE, one(&outside)).on(PORTS, ports(&[]));
    assert_eq!(found(ask(&[node(1)], Need::Metadata))[0].addresses[0].value, "203.0.113.1");
}

#[test]
fn trunks_cost_two_questions_for_all_nodes() {
    let with_trunk = |number: usize| {
        let trunk = format!(
            r#""trunk_details": {{"trunk_id": "t", "sub_ports": [{{"port_id": "sub-{number}", "segmentation_id": 101}}]}}, "id""#
        );
        port(number).replacen("\"id\"", &trunk, 1)
    };
    let sub = |number: usize| {
        format!(
            r#"{{"id": "sub-{number}", "network_id": "n-vlan", "fixed_ips": [{{"ip_address": "10.50.0.{number}"}}]}}"#
        )
    };
    let cloud = fake()
        .on(LIST, list(&(1..=5).map(|number| server(number, "x")).collect::<Vec<_>>()))
        .on(PORTS, ports(&(1..=5).map(with_trunk).collect::<Vec<_>>()))
        .on(PORTS, ports(&(1..=5).map(sub).collect::<Vec<_>>()))
        .on("network GET /networks", Reply::json(200, r#"{"networks": [{"id": "n-vlan", "name": "vlan"}]}"#));
    let nodes: Vec<Node> = (1..=5).map(node).collect();
    for (instance, number) in found(ask(&nodes, Need::Metadata)).iter().zip(1..) {
        let values: Vec<&str> = instance.addresses.iter().map(|address| address.value.as_str()).collect();
        assert_eq!(values, [format!("10.1.0.{number}"), format!("10.50.0.{number}")]);
    }
    assert_eq!(cloud.lines().len(), 4);
    assert_eq!(cloud.lines()[3].matches("n-vlan").count(), 1, "a network that many are on is asked for once");
    assert!(are_shared(&cloud));
    // Trouble with them leaves the others.
    let cloud =
        fake().on(ONE, one(&server(1, "x"))).on(PORTS, ports(&[with_trunk(1)])).on(PORTS, Reply::json(500, "{}"));
    assert_eq!(found(ask(&[node(1)], Need::Metadata))[0].addresses.len(), 1);
    assert!(cloud.logged()[0].starts_with("addresses within trunks are left out"), "{:?}", cloud.logged());
}

#[test]
fn networks_choose_addresses_of_a_node() {
    let internal = Networking { internal: vec!["other".to_owned()], ..Networking::default() };
    let config = Config { networking: internal, ..config() };
    let _cloud = fake().on(ONE, one(&server(1, "n-1"))).on(PORTS, ports(&[port(1)]));
    let findings = find(&config, &[node(1)], Need::Metadata, |_| Ok(vec![])).expect("findings");
    assert!(unknown(findings).message.contains("[Networking]"));
}
