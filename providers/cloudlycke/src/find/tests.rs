//! What controllers are told, for Nodes as a cluster has them.

use ccm_sdk::instances::{Finding, Instance, Need, State};
use ccm_sdk::types::{Address, AddressType, Failure, Node};
use serde_json::{Value, json};

use super::find;
use crate::annotations::{INSTANCE_TYPE, REGION, STATE, ZONE};
use crate::config::{self, Config};

const NEEDS: [Need; 3] = [Need::Metadata, Need::Existence, Need::Proof];
const INTERNAL: AddressType = AddressType::InternalIp;
const EXTERNAL: AddressType = AddressType::ExternalIp;
const HOSTNAME: AddressType = AddressType::Hostname;

fn configured(file: &Value) -> Config {
    config::read(Some(&file.to_string())).usable().expect("a configuration without mistakes")
}

fn adaptive() -> Config {
    configured(&json!({}))
}

fn fixture() -> Config {
    configured(&json!({ "mode": "fixture" }))
}

/// A Node of a kubelet that has reported its size.
fn node(name: &str) -> Node {
    Node {
        uid: "5d3c".to_owned(),
        capacity: vec![("cpu".to_owned(), "2".to_owned()), ("memory".to_owned(), "1004392Ki".to_owned())],
        ..Node::named(name)
    }
}

fn with_id(node: Node, id: &str) -> Node {
    Node { provider_id: Some(id.to_owned()), ..node }
}

fn annotated(mut node: Node, name: &str, value: &str) -> Node {
    node.annotations.push((name.to_owned(), value.to_owned()));
    node
}

fn with_addresses(node: Node, list: &[(AddressType, &str)]) -> Node {
    Node { addresses: addresses(list), ..node }
}

fn without_capacity(node: Node) -> Node {
    Node { capacity: vec![], ..node }
}

fn addresses(list: &[(AddressType, &str)]) -> Vec<Address> {
    list.iter().map(|(kind, value)| Address { kind: *kind, value: (*value).to_owned() }).collect()
}

/// What is known about [`node`] without addresses.
fn instance(provider_id: &str) -> Instance {
    Instance {
        provider_id: provider_id.to_owned(),
        instance_type: "vbox.vm.1g.2cpu".to_owned(),
        addresses: vec![],
        zone: "virtualbox".to_owned(),
        region: "virtualbox".to_owned(),
        labels: vec![("cloudlycke.io/mode".to_owned(), "adaptive".to_owned())],
        state: State::Running,
        more: vec![],
    }
}

/// What is said where only existence and state are known.
fn bare(provider_id: &str) -> Finding {
    let nothing = String::new;
    Finding::Found(Instance {
        instance_type: nothing(),
        zone: nothing(),
        region: nothing(),
        labels: vec![],
        ..instance(provider_id)
    })
}

fn of_the_demonstration(name: &str, id: &str, ip: &str, instance_type: &str) -> Finding {
    Finding::Found(Instance {
        instance_type: instance_type.to_owned(),
        addresses: addresses(&[(INTERNAL, ip), (EXTERNAL, ip), (HOSTNAME, name)]),
        labels: vec![("cloudlycke.io/mode".to_owned(), "fixture".to_owned())],
        ..instance(id)
    })
}

/// Upstream said that the worker is shut down and that any third Node does not exist.
#[test]
fn both_machines_of_the_demonstration_exist_and_run() {
    let machines = [
        ("master-c2-1", "cloudlycke://m-c2-1", "192.168.20.10", "vbox.vm.512mb.1cpu"),
        ("node-c2-1", "cloudlycke://n-c2-1", "192.168.20.11", "vbox.vm.1g.2cpu"),
    ];
    for (name, id, ip, instance_type) in machines {
        for need in NEEDS {
            let answer = find(&fixture(), &with_id(without_capacity(node(name)), id), need);
            assert_eq!(answer.finding, of_the_demonstration(name, id, ip, instance_type), "{name} {need:?}");
        }
    }
}

/// Upstream's IDs contained the scheme, which the library then put before them once more.
#[test]
fn a_machine_of_the_demonstration_is_the_same_by_name_and_by_id_and_has_its_scheme_once() {
    let cases = [
        ("master-c2-1", "cloudlycke://m-c2-1", "192.168.20.10", "vbox.vm.512mb.1cpu"),
        ("node-c2-1", "cloudlycke://n-c2-1", "192.168.20.11", "vbox.vm.1g.2cpu"),
    ];
    for (name, id, ip, instance_type) in cases {
        let expected = of_the_demonstration(name, id, ip, instance_type);
        assert_eq!(find(&fixture(), &node(name), Need::Metadata).finding, expected, "by name");
        assert_eq!(find(&fixture(), &with_id(node("renamed"), id), Need::Metadata).finding, expected, "by ID");
    }
}

#[test]
fn a_third_node_is_absent_only_under_a_strict_configuration() {
    let strict = configured(&json!({ "mode": "fixture", "strict": true }));
    let described = Finding::Found(Instance {
        labels: vec![("cloudlycke.io/mode".to_owned(), "fixture".to_owned())],
        ..instance("cloudlycke://n-c2-2")
    });
    for need in NEEDS {
        assert_eq!(find(&strict, &node("node-c2-2"), need).finding, Finding::Absent, "{need:?}");
        assert_eq!(find(&fixture(), &node("node-c2-2"), need).finding, described, "{need:?}");
        assert_eq!(find(&strict, &node("node-c2-1"), need).decision(), "running", "{need:?}");
    }
}

#[test]
fn missing_capacity_delays_metadata_but_puts_no_doubt_on_existence() {
    let young = without_capacity(node("young"));
    let findings = NEEDS.map(|need| find(&adaptive(), &young, need).finding);
    let unknown = Finding::Unknown(Failure::retry("capacity not reported yet"));
    assert_eq!(findings, [unknown, bare("cloudlycke://young"), bare("cloudlycke://young")]);
}

#[test]
fn annotations_win_over_the_list_and_the_list_over_the_rest() {
    let config = configured(&json!({
        "region": "r0",
        "zone": "z0",
        "instances": [{ "name": "listed", "instanceType": "t1", "zone": "z1", "region": "r1" }],
    }));
    let annotated_node = |name| {
        let node = annotated(node(name), INSTANCE_TYPE, "t2");
        annotated(annotated(node, ZONE, "z2"), REGION, "r2")
    };
    let cases = [
        (node("other"), ["vbox.vm.1g.2cpu", "z0", "r0"]),
        (node("listed"), ["t1", "z1", "r1"]),
        (annotated_node("listed"), ["t2", "z2", "r2"]),
        (annotated_node("other"), ["t2", "z2", "r2"]),
        (annotated(without_capacity(node("other")), INSTANCE_TYPE, "t2"), ["t2", "z0", "r0"]),
    ];
    for (node, [instance_type, zone, region]) in cases {
        let expected = Instance {
            instance_type: instance_type.to_owned(),
            zone: zone.to_owned(),
            region: region.to_owned(),
            ..instance(&format!("cloudlycke://{}", node.name))
        };
        assert_eq!(find(&config, &node, Need::Metadata).finding, Finding::Found(expected), "{node:?}");
    }
}

#[test]
fn an_annotation_that_cannot_be_a_label_is_named_and_only_metadata_waits_for_it() {
    for name in [INSTANCE_TYPE, ZONE, REGION] {
        let wrong = annotated(node("n"), name, "two words");
        let message = "\"two words\" cannot be a label's value: at most 63 letters, digits, `-`, `_` and `.`, the first \
                       and the last a letter or digit";
        let unknown = Finding::Unknown(Failure::invalid(message).field(format!("metadata.annotations[{name}]")));
        let findings = NEEDS.map(|need| find(&adaptive(), &wrong, need).finding);
        assert_eq!(findings, [unknown, bare("cloudlycke://n"), bare("cloudlycke://n")]);
    }
}

#[test]
fn addresses_are_those_that_the_kubelet_knows() {
    let provided = |list| annotated(node("n"), "alpha.kubernetes.io/provided-node-ip", list);
    let kubelet = [(INTERNAL, "10.0.0.1"), (HOSTNAME, "n.lan")];
    let public = [(INTERNAL, "10.0.0.1"), (EXTERNAL, "198.51.100.1"), (HOSTNAME, "n")];
    let cases: [(&str, Node, &[_], &[_]); 7] = [
        (
            "one provided",
            provided("10.0.0.9"),
            &[(INTERNAL, "10.0.0.9"), (EXTERNAL, "10.0.0.9"), (HOSTNAME, "n")],
            &[(INTERNAL, "10.0.0.9"), (HOSTNAME, "n")],
        ),
        (
            "two families provided",
            provided("10.0.0.9, fd00::9"),
            &[(INTERNAL, "10.0.0.9"), (INTERNAL, "fd00::9"), (EXTERNAL, "10.0.0.9"), (HOSTNAME, "n")],
            &[(INTERNAL, "10.0.0.9"), (INTERNAL, "fd00::9"), (HOSTNAME, "n")],
        ),
        (
            "provided wins over reported",
            with_addresses(provided("10.0.0.9"), &kubelet),
            &[(INTERNAL, "10.0.0.9"), (EXTERNAL, "10.0.0.9"), (HOSTNAME, "n.lan")],
            &[(INTERNAL, "10.0.0.9"), (HOSTNAME, "n.lan")],
        ),
        (
            "reported",
            with_addresses(node("n"), &kubelet),
            &[(INTERNAL, "10.0.0.1"), (EXTERNAL, "10.0.0.1"), (HOSTNAME, "n.lan")],
            &[(INTERNAL, "10.0.0.1"), (HOSTNAME, "n.lan")],
        ),
        ("external is kept", with_addresses(node("n"), &public), &public, &public),
        ("a host name only", with_addresses(node("n"), &kubelet[1..]), &kubelet[1..], &kubelet[1..]),
        ("none", node("n"), &[], &[]),
    ];
    let without_external = configured(&json!({ "reportExternalIP": false }));
    for (name, node, expected, expected_without_external) in cases {
        for (config, expected) in [(adaptive(), expected), (without_external.clone(), expected_without_external)] {
            let expected = Instance { addresses: addresses(expected), ..instance("cloudlycke://n") };
            assert_eq!(find(&config, &node, Need::Metadata).finding, Finding::Found(expected), "{name}");
        }
    }
}

#[test]
fn listed_addresses_are_taken_as_they_are() {
    let config = configured(&json!({ "instances": [
        { "name": "n", "addresses": [{ "type": "ExternalIP", "address": "198.51.100.7" }] },
        { "name": "bare", "addresses": [] },
    ]}));
    let reported = [(INTERNAL, "10.0.0.1")];
    let found = |name: &str| find(&config, &with_addresses(node(name), &reported), Need::Metadata).finding;
    let expected = Instance { addresses: addresses(&[(EXTERNAL, "198.51.100.7")]), ..instance("cloudlycke://n") };
    assert_eq!(found("n"), Finding::Found(expected));
    assert_eq!(found("bare"), Finding::Found(instance("cloudlycke://bare")));
}

#[test]
fn a_provided_address_that_is_none_is_named() {
    let name = "alpha.kubernetes.io/provided-node-ip";
    let found = find(&adaptive(), &annotated(node("n"), name, "10.0.0.1,ten"), Need::Metadata).finding;
    let expected = Failure::invalid("\"ten\" is not an IP address").field(format!("metadata.annotations[{name}]"));
    assert_eq!(found, Finding::Unknown(expected));
}

#[test]
fn nodes_of_local_clusters_are_adopted_with_their_id() {
    for id in ["kind://docker/kind/kind-worker", "k3s://server-0", "kwok://node-0", "cloudlycke://somebody"] {
        let found = find(&adaptive(), &with_id(node("n"), id), Need::Metadata).finding;
        assert_eq!(found, Finding::Found(instance(id)));
    }
}

#[test]
fn another_clouds_node_exists_and_runs_and_is_left_to_its_manager() {
    let id = "aws:///zone/i-1";
    for state in ["running", "stopped", "deleted", "error", "paused"] {
        let theirs = annotated(with_id(node("n"), id), STATE, state);
        let findings = NEEDS.map(|need| find(&adaptive(), &theirs, need).finding);
        let unknown = Finding::Unknown(Failure::elsewhere("node is managed by another provider: aws:///zone/i-1"));
        assert_eq!(findings, [unknown, bare(id), bare(id)], "{state}");
    }
}

#[test]
fn another_clouds_node_is_never_absent_however_strict_the_configuration() {
    let strict = configured(&json!({ "strict": true }));
    let theirs = with_id(node("n"), "aws:///zone/i-1");
    assert_eq!(find(&strict, &theirs, Need::Proof).finding, bare("aws:///zone/i-1"));
}

#[test]
fn another_clouds_node_is_ours_when_the_operator_adopts_it() {
    let adopting = configured(&json!({ "adoptForeign": true }));
    let id = "aws:///zone/i-1";
    for need in NEEDS {
        let found = find(&adopting, &with_id(node("n"), id), need).finding;
        assert_eq!(found, Finding::Found(instance(id)), "{need:?}");
    }
    let deleted = annotated(with_id(node("n"), id), STATE, "deleted");
    assert_eq!(find(&adopting, &deleted, Need::Proof).finding, Finding::Absent);
}

#[test]
fn the_state_decides_every_answer() {
    let found = |state| Finding::Found(Instance { state, ..instance("cloudlycke://n") });
    let message = "must be one of `running`, `stopped`, `deleted`, `error`, not \"paused\"";
    let cases = [
        ("running", found(State::Running)),
        ("stopped", found(State::Stopped)),
        ("deleted", Finding::Absent),
        ("error", Finding::Unknown(Failure::retry("simulated cloud API failure"))),
        (
            "paused",
            Finding::Unknown(Failure::invalid(message).field("metadata.annotations[cloudlycke.io/instance-state]")),
        ),
    ];
    for (state, expected) in cases {
        for need in NEEDS {
            let answer = find(&adaptive(), &annotated(node("n"), STATE, state), need);
            assert_eq!(answer.finding, expected, "{state} {need:?}");
        }
    }
}

#[test]
fn a_listed_state_holds_until_the_node_says_otherwise() {
    let config = configured(&json!({ "instances": [{ "name": "n", "state": "deleted" }] }));
    assert_eq!(find(&config, &node("n"), Need::Proof).finding, Finding::Absent);
    let found = find(&config, &annotated(node("n"), STATE, "stopped"), Need::Proof).finding;
    assert_eq!(found, Finding::Found(Instance { state: State::Stopped, ..instance("cloudlycke://n") }));
}

#[test]
fn a_provider_id_stays_what_it_was() {
    let config = configured(&json!({ "instances": [{ "name": "db", "id": "m-17" }] }));
    let cases = [("master-c2-1", "m-c2-1"), ("node-c2-1", "n-c2-1"), ("worker", "worker"), ("db", "m-17")];
    for (name, id) in cases {
        let id = format!("cloudlycke://{id}");
        let given = find(&config, &node(name), Need::Metadata).finding;
        assert_eq!(given, Finding::Found(instance(&id)));
        assert_eq!(find(&config, &with_id(node(name), &id), Need::Metadata).finding, given);
    }
    let kept = find(&config, &with_id(node("db"), "kind://docker/kind/db"), Need::Metadata).finding;
    assert_eq!(kept, Finding::Found(instance("kind://docker/kind/db")));
}

#[test]
fn the_list_is_searched_by_id_before_name() {
    let config = configured(&json!({ "instances": [
        { "name": "a", "id": "m-a", "zone": "zone-a" },
        { "name": "b", "id": "m-b", "zone": "zone-b" },
    ]}));
    let cases = [(None, "zone-b"), (Some("cloudlycke://m-a"), "zone-a"), (Some("cloudlycke://m-z"), "zone-b")];
    for (id, zone) in cases {
        let node = id.map_or_else(|| node("b"), |id| with_id(node("b"), id));
        let expected = Instance { zone: zone.to_owned(), ..instance(id.unwrap_or("cloudlycke://m-b")) };
        assert_eq!(find(&config, &node, Need::Metadata).finding, Finding::Found(expected), "{id:?}");
    }
}
