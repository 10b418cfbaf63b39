//! Files that operators write, as the host delivers them.

use std::time::Duration;

use ccm_sdk::cidr::Cidr;
use ccm_sdk::label::LabelValue;
use ccm_sdk::types::{Address, AddressType, Failure, Problem, Reaction};
use serde_json::json;

use super::machine::{Machine, Machines, State};
use super::{BalancerMode, Config, LoadBalancers, Mode, Reading, read};
use crate::pool::Pool;

fn read_json(file: &serde_json::Value) -> Reading {
    read(Some(&file.to_string()))
}

fn defaults() -> Config {
    Config {
        mode: Mode::Adaptive,
        region: LabelValue::literal("virtualbox"),
        zone: LabelValue::literal("virtualbox"),
        strict: false,
        adopt_foreign: false,
        report_external_ip: true,
        machines: Machines::default(),
        load_balancers: LoadBalancers {
            mode: BalancerMode::Pool,
            pool4: Pool::literal("203.0.113.0/24"),
            pool6: Pool::literal("2001:db8:c10d::/120"),
            provision_delay: Duration::ZERO,
            hostname_suffix: None,
        },
        routes: None,
    }
}

#[test]
fn nothing_configured_means_the_defaults() {
    for text in
        [None, Some("null"), Some("{}"), Some(r#"{"instances": null, "mode": null, "routes": {"enabled": false}}"#)]
    {
        assert_eq!(read(text), Reading { config: defaults(), problems: vec![] }, "{text:?}");
    }
}

#[test]
fn every_key_about_instances_arrives() {
    let reading = read_json(&json!({
        "mode": "adaptive",
        "region": "laptop",
        "zone": "desk",
        "strict": true,
        "adoptForeign": true,
        "reportExternalIP": false,
        "instances": [
            {
                "name": "db",
                "id": "m-17",
                "addresses": [{ "type": "InternalIP", "address": "fd00::1" }, { "type": "InternalDNS", "address": "db.lan" }],
                "instanceType": "big",
                "zone": "cellar",
                "region": "house",
                "state": "stopped",
            },
            { "name": "node-c3-1" },
        ],
    }));
    let db = Machine {
        name: "db".to_owned(),
        provider_id: "cloudlycke://m-17".to_owned(),
        addresses: Some(vec![
            Address { kind: AddressType::InternalIp, value: "fd00::1".to_owned() },
            Address { kind: AddressType::InternalDns, value: "db.lan".to_owned() },
        ]),
        instance_type: Some(LabelValue::literal("big")),
        zone: Some(LabelValue::literal("cellar")),
        region: Some(LabelValue::literal("house")),
        state: Some(State::Stopped),
    };
    let worker = Machine {
        name: "node-c3-1".to_owned(),
        provider_id: "cloudlycke://n-c3-1".to_owned(),
        addresses: None,
        instance_type: None,
        zone: None,
        region: None,
        state: None,
    };
    let mut machines = Machines::default();
    machines.add(db);
    machines.add(worker);
    let config = Config {
        mode: Mode::Adaptive,
        region: LabelValue::literal("laptop"),
        zone: LabelValue::literal("desk"),
        strict: true,
        adopt_foreign: true,
        report_external_ip: false,
        machines,
        load_balancers: defaults().load_balancers,
        routes: None,
    };
    assert_eq!(reading, Reading { config, problems: vec![] });
}

#[test]
fn every_mistake_is_found_at_once() {
    let reading = read_json(&json!({
        "mode": "adaptiv",
        "region": "a region",
        "zone": 7,
        "strict": "yes",
        "adoptForeign": 1,
        "reportExternalIP": [],
        "stict": true,
        "instances": [
            { "id": "m-1" },
            "worker",
            { "name": "a", "id": "cloudlycke://m-a", "state": "paused", "instanceType": "-", "typ": "x" },
            { "name": "b", "addresses": [{ "type": "Internal", "address": "10.0.0.1" }, { "type": "InternalIP", "address": "ten" }] },
            { "name": "b" },
            { "name": "c", "id": "b" },
            { "name": "" },
        ],
        "loadBalancer": {
            "mode": "vip",
            "pool4": ["203.0.113.0/24", "203.0.113.128/25", "198.51.100.0/31", "203.0.113.1/24", "2001:db8::/120"],
            "pool6": "2001:db8::/129",
            "provisionDelay": "25",
            "hostnameSuffix": "LB.example.com",
            "pool": "203.0.113.0/24",
        },
        "routes": { "enabled": "true", "seed": [{ "node": "a" }, { "cidr": "10.0.0.0" }] },
        "clusterName": 5,
    }));
    let found: Vec<_> = reading.problems.iter().map(ToString::to_string).collect();
    let expected = [
        "cloud-config:mode: must be one of `adaptive`, `fixture`, not \"adaptiv\"",
        "cloud-config:region: \"a region\" cannot be a label's value: at most 63 letters, digits, `-`, `_` and `.`, the \
         first and the last a letter or digit",
        "cloud-config:zone: must be a text, not a number",
        "cloud-config:strict: must be `true` or `false`, not a text",
        "cloud-config:adoptForeign: must be `true` or `false`, not a number",
        "cloud-config:reportExternalIP: must be `true` or `false`, not a list",
        "cloud-config:instances[0].name: is missing",
        "cloud-config:instances[1]: must be a mapping, not a text",
        "cloud-config:instances[2].id: must not contain the scheme: write \"m-a\"",
        "cloud-config:instances[2].instanceType: \"-\" cannot be a label's value: at most 63 letters, digits, `-`, `_` and \
         `.`, the first and the last a letter or digit",
        "cloud-config:instances[2].state: must be one of `running`, `stopped`, `deleted`, `error`, not \"paused\"",
        "cloud-config:instances[2].typ: no such key; here can be: name, id, addresses, instanceType, zone, region, state",
        "cloud-config:instances[3].addresses[0].type: must be one of `InternalIP`, `ExternalIP`, `Hostname`, \
         `InternalDNS`, `ExternalDNS`, not \"Internal\"",
        "cloud-config:instances[3].addresses[1].address: must be an IP address, not \"ten\"",
        "cloud-config:instances[6].name: must be the name of a Node",
        "cloud-config:instances[4].name: \"b\" is listed twice",
        "cloud-config:instances[5].id: cloudlycke://b is the machine of \"b\" already",
        "cloud-config:loadBalancer.mode: must be one of `pool`, `nodes`, `none`, not \"vip\"",
        "cloud-config:loadBalancer.pool4[2]: \"198.51.100.0/31\" is too small, the smallest pool is a /30",
        "cloud-config:loadBalancer.pool4[3]: \"203.0.113.1/24\" has bits set behind its prefix of 24: its first address is \
         not 203.0.113.1",
        "cloud-config:loadBalancer.pool4[4]: must be an IPv4 network, not \"2001:db8::/120\"",
        "cloud-config:loadBalancer.pool6: \"2001:db8::/129\" is not a network in CIDR notation; `203.0.113.0/24` or \
         `2001:db8::/120` would be",
        "cloud-config:loadBalancer.pool4[1]: overlaps with pool4[0]",
        "cloud-config:loadBalancer.provisionDelay: \"25\" is not a duration; write it like `90s`, `1m30s` or `500ms`",
        "cloud-config:loadBalancer.hostnameSuffix: must be a domain name in lower case like `lb.example.com`, not \
         \"LB.example.com\"",
        "cloud-config:loadBalancer.pool: no such key; here can be: mode, pool4, pool6, provisionDelay, hostnameSuffix",
        "cloud-config:routes.enabled: must be `true` or `false`, not a text",
        "cloud-config:routes.seed[0].cidr: is missing",
        "cloud-config:routes.seed[1].cidr: \"10.0.0.0\" is not a network in CIDR notation; `203.0.113.0/24` or \
         `2001:db8::/120` would be",
        "cloud-config:clusterName: must be a text, not a number",
        "cloud-config:stict: no such key; here can be: mode, region, zone, strict, adoptForeign, reportExternalIP, \
         instances, loadBalancer, routes, clusterName",
    ];
    assert_eq!(found, expected);
}

#[test]
fn every_key_about_load_balancers_arrives() {
    let reading = read_json(&json!({ "loadBalancer": {
        "mode": "nodes",
        "pool4": ["198.51.100.0/30", "192.0.2.0/24"],
        "pool6": "2001:db8::/128",
        "provisionDelay": "1m30s",
        "hostnameSuffix": "lb.example.com",
    } }));
    let networks = |list: &[&str]| Pool::new(list.iter().map(|text| Cidr::parse(text).expect("a network")).collect());
    let load_balancers = LoadBalancers {
        mode: BalancerMode::Nodes,
        pool4: networks(&["198.51.100.0/30", "192.0.2.0/24"]),
        pool6: networks(&["2001:db8::/128"]),
        provision_delay: Duration::from_secs(90),
        hostname_suffix: Some("lb.example.com".to_owned()),
    };
    assert_eq!(reading, Reading { config: Config { load_balancers, ..defaults() }, problems: vec![] });

    let none =
        read_json(&json!({ "loadBalancer": { "mode": "none", "pool4": [], "pool6": [], "hostnameSuffix": "" } }));
    let load_balancers = LoadBalancers {
        mode: BalancerMode::None,
        pool4: networks(&[]),
        pool6: networks(&[]),
        ..defaults().load_balancers
    };
    assert_eq!(none, Reading { config: Config { load_balancers, ..defaults() }, problems: vec![] });
}

#[test]
fn what_this_version_does_not_serve_is_said_and_stops_nothing() {
    let reading = read_json(&json!({
        "loadBalancer": { "pool6": ["2001:db8::/128", "::/0"] },
        "clusterName": "kubernetes",
    }));
    let problems = vec![
        Problem::fatal("cloud-config:loadBalancer.pool6[1]", "overlaps with pool6[0]"),
        Problem::harmless("cloud-config:clusterName", "has no effect; give the host `--cluster-name`"),
    ];
    assert_eq!(reading.problems, problems);
}

#[test]
fn seeds_of_routes_arrive_when_routes_are_switched_on() {
    let seeds = json!([{ "cidr": "10.244.7.0/24" }, { "cidr": "fd00::/64", "node": "a" }]);
    let reading = read_json(&json!({ "routes": { "enabled": true, "seed": seeds } }));
    let network = |text: &str| Cidr::parse(text).expect("a network");
    let routes = vec![(network("10.244.7.0/24"), None), (network("fd00::/64"), Some("a".to_owned()))];
    assert_eq!(reading, Reading { config: Config { routes: Some(routes), ..defaults() }, problems: vec![] });
    let off = read_json(&json!({ "routes": { "seed": seeds } }));
    assert_eq!(off, Reading { config: defaults(), problems: vec![] });
}

#[test]
fn routes_that_are_switched_off_are_no_problem() {
    let reading = read_json(&json!({ "routes": { "enabled": false, "seed": [] } }));
    assert_eq!(reading, Reading { config: defaults(), problems: vec![] });
}

#[test]
fn a_harmless_problem_leaves_the_configuration_usable() {
    let reading = read_json(&json!({ "clusterName": "kubernetes", "zone": "desk" }));
    assert_eq!(reading.usable(), Ok(Config { zone: LabelValue::literal("desk"), ..defaults() }));
}

#[test]
fn a_call_under_a_wrong_configuration_fails_with_one_message_that_lists_all_mistakes() {
    let reading = read_json(&json!({ "strict": 1, "routes": { "enabled": true }, "foo": 1 }));
    let failure = Failure {
        reaction: Reaction::Retry,
        message: "the configuration has mistakes: cloud-config:strict: must be `true` or `false`, not a number; \
                  cloud-config:foo: no such key; here can be: mode, region, zone, strict, adoptForeign, \
                  reportExternalIP, instances, loadBalancer, routes, clusterName"
            .to_owned(),
        retry_after_ms: Some(30_000),
        field: None,
        more: vec![],
    };
    assert_eq!(reading.usable(), Err(failure));
}

#[test]
fn a_file_that_is_no_mapping_is_one_problem() {
    let cases = [
        ("[]", "must be a mapping, not a list"),
        ("3", "must be a mapping, not a number"),
        ("{", "cannot be read: EOF while parsing an object at line 1 column 1"),
    ];
    for (text, message) in cases {
        assert_eq!(
            read(Some(text)),
            Reading { config: defaults(), problems: vec![Problem::fatal("cloud-config", message)] },
            "{text}"
        );
    }
}

#[test]
fn in_fixture_mode_a_listed_machine_replaces_the_one_of_its_name() {
    let reading = read_json(&json!({
        "mode": "fixture",
        "instances": [{ "name": "node-c2-1", "instanceType": "bigger" }],
    }));
    let machines = &reading.config.machines;
    let type_of = |name| machines.named(name)?.instance_type.as_ref().map(ToString::to_string);
    assert_eq!(machines.len(), 2);
    assert_eq!(type_of("master-c2-1").as_deref(), Some("vbox.vm.512mb.1cpu"));
    assert_eq!(type_of("node-c2-1").as_deref(), Some("bigger"));
    assert_eq!(reading.problems, vec![]);
}
