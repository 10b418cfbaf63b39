//! Services with load balancers: what a test makes and what it sees, in the cluster and at the cloud that counts.

use ccm_cluster::{NodeFixture, await_object, register_nodes};
use ccm_e2e::balancer_cloud::{Balancer, BalancerCloud, CloudSettings};
use ccm_e2e::host::component;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use std::time::Duration;

pub(crate) use crate::look::told;
use crate::stage::{Actor, LIMIT, Stage};

pub(crate) const FINALIZER: &str = "service.kubernetes.io/load-balancer-cleanup";
/// The load balancer's ID in the cloud that counts.
pub(crate) const ID: &str = "balancer.example/id";

/// So that nobody waits for delays that are meant for real clouds, and the cloud is asked for nothing but what a test is about.
pub(crate) const QUICK: [&str; 3] =
    ["--service-min-backoff=200ms", "--service-max-backoff=1s", "--service-verify-period=0s"];

/// A cloud that answers at once, and builds a load balancer within this time.
pub(crate) async fn cloud(provisioning: Duration) -> BalancerCloud {
    BalancerCloud::start(CloudSettings { latency: Duration::from_millis(5), provisioning, ..CloudSettings::default() })
        .await
        .unwrap()
}

/// The component whose load balancers are those of the cloud that counts, as a flag.
pub(crate) fn balancer() -> String {
    format!("--provider={}", component("guests/balancer.wasm").unwrap().display())
}

/// A host that uses it.
pub(crate) fn balancing(stage: &Stage, cloud: &BalancerCloud, flags: &[&str]) -> Actor {
    let flags = QUICK.iter().chain(flags).map(|flag| (*flag).to_owned());
    stage.start(cloud.flags().into_iter().chain([balancer()]).chain(flags))
}

/// What most tests begin with: two Nodes, the cloud that counts, and a host that uses it and is ready.
pub(crate) async fn balanced(stage: &Stage) -> (BalancerCloud, Actor) {
    two_nodes(stage.client()).await;
    let cloud = cloud(Duration::ZERO).await;
    let host = balancing(stage, &cloud, &[]);
    host.ready().await;
    (cloud, host)
}

/// Two Nodes that are done, and can be members.
pub(crate) async fn two_nodes(client: &Client) {
    let fixture = |name: &str| NodeFixture::new(name).initialized().provider_id(&format!("balancer://{name}"));
    register_nodes(client, ["n1", "n2"].map(fixture)).await.unwrap();
}

// === Services ===

pub(crate) fn services(client: &Client) -> Api<Service> {
    Api::namespaced(client.clone(), "default")
}

/// Makes a Service of the type `LoadBalancer` with port 80, and with what is different about this one.
pub(crate) async fn serve(client: &Client, name: &str, differs: Value) -> Service {
    let mut service = json!({
        "metadata": { "name": name },
        "spec": { "type": "LoadBalancer", "selector": { "app": name }, "ports": [{ "port": 80 }] },
    });
    merge(&mut service, differs);
    let service = serde_json::from_value(service).unwrap();
    services(client).create(&PostParams::default(), &service).await.unwrap()
}

/// Makes one, and waits until it has all that it gets.
pub(crate) async fn serve_whole(client: &Client, name: &str, differs: Value) -> Service {
    serve(client, name, differs).await;
    await_served(client, name).await
}

pub(crate) fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

/// Metadata with these annotations alone.
pub(crate) fn annotated<const N: usize>(annotations: [(&str, &str); N]) -> Value {
    let annotations: serde_json::Map<String, Value> =
        annotations.into_iter().map(|(name, value)| (name.to_owned(), json!(value))).collect();
    json!({ "metadata": { "annotations": annotations } })
}

/// Changes spec or metadata of a Service, as its owner.
pub(crate) async fn change(client: &Client, name: &str, patch: &Value) -> Service {
    services(client).patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap()
}

/// Begins the deletion of a Service.
pub(crate) async fn delete(client: &Client, name: &str) {
    drop(services(client).delete(name, &DeleteParams::default()).await.unwrap());
}

pub(crate) async fn the(client: &Client, name: &str) -> Service {
    services(client).get(name).await.unwrap()
}

pub(crate) async fn await_service(client: &Client, name: &str, holds: impl FnMut(&Service) -> bool) -> Service {
    await_object(&services(client), name, LIMIT, holds).await.unwrap()
}

/// Waits until a Service has all that it gets.
pub(crate) async fn await_served(client: &Client, name: &str) -> Service {
    await_service(client, name, is_served).await
}

/// Waits until a Service waits for this reason; returns what it says.
pub(crate) async fn await_reason(client: &Client, name: &str, reason: &str) -> String {
    await_reason_with(client, name, reason, &[]).await
}

/// Waits until a Service waits for this reason, and says all of `parts`; returns what it says.
pub(crate) async fn await_reason_with(client: &Client, name: &str, reason: &str, parts: &[&str]) -> String {
    let waits = |service: &Service| {
        readiness(service).is_some_and(|(status, told, message)| {
            (status, told) == ("False", reason) && parts.iter().all(|part| message.contains(part))
        })
    };
    let service = await_service(client, name, waits).await;
    readiness(&service).unwrap().2.to_owned()
}

pub(crate) fn ips(service: &Service) -> Vec<String> {
    let balancer = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    let ingress = balancer.and_then(|balancer| balancer.ingress.as_deref()).unwrap_or_default();
    ingress.iter().filter_map(|entry| entry.ip.clone()).collect()
}

pub(crate) fn has_finalizer(service: &Service) -> bool {
    service.finalizers().iter().any(|finalizer| finalizer == FINALIZER)
}

fn condition<'a>(service: &'a Service, kind: &str) -> Option<&'a Condition> {
    service.status.as_ref()?.conditions.as_deref()?.iter().find(|condition| condition.type_ == kind)
}

/// Status, reason and message of the condition that says whether the load balancer is ready.
pub(crate) fn readiness(service: &Service) -> Option<(&str, &str, &str)> {
    condition(service, "LoadBalancerReady").map(|ready| (&*ready.status, &*ready.reason, &*ready.message))
}

/// What was last ensured.
pub(crate) fn recorded(service: &Service) -> Option<&Condition> {
    condition(service, "LoadBalancerRecorded")
}

/// Finalizer, one address, a record of what was ensured that is complete, and the condition that says so.
pub(crate) fn is_served(service: &Service) -> bool {
    let record = recorded(service).is_some_and(|record| record.status == "True");
    let is_ready = readiness(service).is_some_and(|ready| (ready.0, ready.1) == ("True", "Ensured"));
    has_finalizer(service) && ips(service).len() == 1 && record && is_ready
}

/// Nothing of all that is there, or not any more.
pub(crate) fn is_bare(service: &Service) -> bool {
    let unsaid = readiness(service).is_none() && recorded(service).is_none() && !service.annotations().contains_key(ID);
    !has_finalizer(service) && ips(service).is_empty() && unsaid
}

/// Its load balancers.
pub(crate) fn owned(cloud: &BalancerCloud, service: &Service) -> Vec<Balancer> {
    let uid = service.uid().unwrap();
    cloud.balancers().into_iter().filter(|balancer| balancer.spec.owner == uid).collect()
}

/// Every Service is served by the one load balancer that it has, and there are no others.
pub(crate) async fn assert_one_each(client: &Client, cloud: &BalancerCloud) {
    let all = services(client).list(&Default::default()).await.unwrap().items;
    let served: Vec<&Service> = all.iter().filter(|service| service.name_any() != "kubernetes").collect();
    for service in &served {
        let own = owned(cloud, service);
        let ids: Vec<&str> = own.iter().map(|balancer| balancer.id.as_str()).collect();
        // One that was found by its address, after a crash, is served without its ID.
        let id = service.annotations().get(ID).map_or(ids[0], String::as_str);
        assert_eq!(ids, [id], "{}", service.name_any());
        let address = own[0].address().map(|address| address.to_string());
        assert_eq!((ips(service), is_served(service)), (Vec::from_iter(address), true), "{service:?}");
    }
    assert_eq!(cloud.balancers().len(), served.len(), "there is one that belongs to nobody");
}
