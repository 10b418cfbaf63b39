//! Cases of the reference by number: `os_NNN`.

mod addresses;
mod answers;
mod changes;
mod closing;
mod creations;
mod deletions;
mod doubles;
mod drivers;
mod finding;
mod groups;
mod living;
mod making;
mod many;
mod owners;
mod ranges;
mod refusals;
mod refused;
mod rules;
mod serial;
mod sharers;
mod strangers;
mod surveys;

use ccm_sdk::testing::{FakeCloud, Reply, text};
use ccm_sdk::types::{Address, AddressType, Reaction};
use serde_json::{Value, json};

use super::*;
use crate::service_spec::tests::{config, port, service};

/// The tag of [`service`].
const NAME: &str = "kube_service_kubernetes_default_test";
const UID: &str = "kubernetes.io/service-uid/uid-test";

const LIST: &str = "load-balancer GET /lbaas/loadbalancers";
const POST: &str = "load-balancer POST /lbaas/loadbalancers";
const GET: &str = "load-balancer GET /lbaas/loadbalancers/lb-1";
const TREE: &str = "load-balancer GET /lbaas/loadbalancers/lb-1/status";
const LISTENERS: &str = "load-balancer GET /lbaas/listeners";
const POOLS: &str = "load-balancer GET /lbaas/pools";
const FLOATING: &str = "network GET /floatingips";

fn host() -> Host {
    Host { cluster: "kubernetes".to_owned(), provider_ids: |_| Ok(vec![]), matching: |_| Ok(vec![]) }
}

/// With a subnet and an external network, as most have.
fn usual() -> Config {
    let mut config = config();
    config.balancers.place.subnet = "subnet-1".to_owned();
    config.balancers.place.floating_network = "public".to_owned();
    config
}

fn node(number: u8) -> Backend {
    let address = Address { kind: AddressType::InternalIp, value: format!("10.1.0.{number}") };
    Backend {
        name: format!("node-{number}"),
        provider_id: Some(format!("openstack:///server-{number}")),
        addresses: vec![address],
        more: vec![],
    }
}

fn nodes() -> Vec<Backend> {
    vec![node(1), node(2)]
}

/// With the ID on it, and the address.
fn settled(annotations: &[(&str, &str)]) -> Service {
    let mut service = service(annotations);
    for (name, value) in [(names::ID, "lb-1"), (names::ADDRESS, "203.0.113.7")] {
        service.annotations.push((name.to_owned(), value.to_owned()));
    }
    service.ingress = vec![Ingress::ip("203.0.113.7")];
    service
}

/// As the cloud has what [`service`] asks for, with these fields instead.
fn with(mut value: Value, changes: Value) -> Value {
    if let (Value::Object(value), Value::Object(changes)) = (&mut value, changes) {
        value.extend(changes);
    }
    value
}

fn balancer() -> Value {
    json!({
        "id": "lb-1", "name": NAME, "provisioning_status": "ACTIVE", "operating_status": "OFFLINE", "tags": [NAME, UID],
        "vip_address": "10.1.0.100", "vip_port_id": "port-1", "vip_subnet_id": "subnet-1", "created_at": "2026-11-20T10:00:00",
    })
}

fn listener() -> Value {
    json!({
        "id": "listener-1", "name": format!("listener_0_{NAME}"), "protocol": "TCP", "protocol_port": 80,
        "connection_limit": -1, "timeout_client_data": 50000, "timeout_member_connect": 5000,
        "timeout_member_data": 50000, "timeout_tcp_inspect": 0, "allowed_cidrs": ["0.0.0.0/0"], "insert_headers": {},
        "default_tls_container_ref": null, "default_pool_id": "pool-1", "tags": [NAME, UID],
        "loadbalancers": [{ "id": "lb-1" }],
    })
}

fn pool() -> Value {
    json!({
        "id": "pool-1", "name": format!("pool_0_{NAME}"), "protocol": "TCP", "lb_algorithm": "ROUND_ROBIN",
        "session_persistence": null, "healthmonitor_id": null, "listeners": [{ "id": "listener-1" }],
        "members": [{ "id": "m-1" }, { "id": "m-2" }], "loadbalancers": [{ "id": "lb-1" }],
    })
}

fn member(number: u8) -> Value {
    json!({ "id": format!("m-{number}"), "name": format!("node-{number}"), "address": format!("10.1.0.{number}"),
            "protocol_port": 30000, "subnet_id": "subnet-1", "monitor_port": null })
}

fn floating() -> Value {
    json!({ "id": "fip-1", "floating_ip_address": "203.0.113.7", "port_id": "port-1",
            "description": "Floating IP for Kubernetes external service default/test from cluster kubernetes (UID uid-test)" })
}

fn one(name: &str, value: &Value) -> Reply {
    Reply::json(200, json!({ name: value }).to_string())
}

fn many(name: &str, values: &[Value]) -> Reply {
    Reply::json(200, json!({ name: values, format!("{name}_links"): [] }).to_string())
}

fn not_found() -> Reply {
    Reply::json(404, r#"{"faultcode": "Client", "faultstring": "Load Balancer lb-1 not found.", "debuginfo": null}"#)
}

fn accepted() -> Reply {
    Reply::json(202, "{}")
}

fn tree(listeners: &[Value], members: &[Value]) -> Reply {
    let branch = |listener: &Value| {
        let pool = &listener["default_pool_id"];
        json!({ "id": listener["id"], "pools": [{ "id": pool, "members": members }] })
    };
    let listeners: Vec<Value> = listeners.iter().map(branch).collect();
    Reply::json(200, json!({ "statuses": { "loadbalancer": { "id": "lb-1", "listeners": listeners } } }).to_string())
}

/// A cloud that has this.
fn cloud_of(balancer: &Value, listeners: &[Value], pools: &[Value], members: &[Value]) -> FakeCloud {
    let mut cloud = FakeCloud::new()
        .with_credential("session-token")
        .always(GET, one("loadbalancer", balancer))
        .always(LIST, many("loadbalancers", &[]))
        .always(LISTENERS, many("listeners", listeners))
        .always(POOLS, many("pools", pools))
        .always(TREE, tree(listeners, members))
        .always(FLOATING, many("floatingips", &[floating()]))
        .always("network GET /security-groups", many("security_groups", &[]));
    for pool in pools {
        let line = format!("load-balancer GET /lbaas/pools/{}/members", pool["id"].as_str().unwrap_or_default());
        cloud = cloud.always(&line, many("members", members));
    }
    cloud
}

/// As it should be for [`settled`] and [`nodes`].
fn whole() -> FakeCloud {
    cloud_of(&balancer(), &[listener()], &[pool()], &[member(1), member(2)])
}

fn run(service: &Service) -> Done {
    ensure(&usual(), &host(), service, &nodes())
}

/// What was asked for that changes something, without queries, and with its body.
fn writes(cloud: &FakeCloud) -> Vec<(String, Value)> {
    let lines = cloud.lines();
    let all = lines.iter().zip(cloud.requests()).filter(|(line, _)| !line.contains(" GET "));
    all.map(|(line, request)| {
        let body = serde_json::from_str(&text(&request.body)).unwrap_or(Value::Null);
        (line.split('?').next().unwrap_or_default().to_owned(), body)
    })
    .collect()
}

fn written(cloud: &FakeCloud) -> Vec<String> {
    writes(cloud).into_iter().map(|(line, _)| line).collect()
}

fn reaction(done: &Done) -> Reaction {
    done.outcome.failure.as_ref().expect("it is not done").reaction
}

fn message(done: &Done) -> &str {
    &done.outcome.failure.as_ref().expect("it is not done").message
}

fn annotated<'d>(done: &'d Done, name: &str) -> Option<&'d str> {
    done.outcome.annotations.iter().find(|(other, _)| other == name).and_then(|(_, value)| value.as_deref())
}

fn ips(done: &Done) -> Vec<&str> {
    done.outcome.ingress.iter().filter_map(|ingress| ingress.ip.as_deref()).collect()
}

/// The next call is one second later.
fn later(cloud: &FakeCloud) {
    cloud.pass(1);
}
