//! Many Nodes and Services at once, for the benchmarks: made, and waited for.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result};
use ccm_cluster::{UNINITIALIZED_TAINT, await_all};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::{Node, Service, ServicePort, ServiceSpec};
use kube::api::{ObjectMeta, PostParams};
use kube::runtime::watcher;
use kube::{Api, Client};

/// Requests that create Services, at a time.
const CREATE_AT_ONCE: usize = 64;

/// Where the Services are.
pub const NAMESPACE: &str = "default";

/// Makes Services of the type `LoadBalancer`, many at a time.
///
/// # Errors
///
/// The API server refuses one.
pub async fn create_services(client: &Client, names: impl IntoIterator<Item = String>) -> Result<()> {
    let creations = names.into_iter().map(|name| create_service(client, name));
    stream::iter(creations).buffer_unordered(CREATE_AT_ONCE).try_collect::<Vec<()>>().await.map(drop)
}

/// Makes a Service of the type `LoadBalancer`.
///
/// # Errors
///
/// The API server refuses it.
pub async fn create_service(client: &Client, name: String) -> Result<()> {
    let port = ServicePort { port: 80, ..ServicePort::default() };
    let service = Service {
        metadata: ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() },
        spec: Some(ServiceSpec {
            type_: Some("LoadBalancer".to_owned()),
            ports: Some(vec![port]),
            selector: Some(BTreeMap::from([("app".to_owned(), name.clone())])),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    };
    let api: Api<Service> = Api::namespaced(client.clone(), NAMESPACE);
    api.create(&PostParams::default(), &service).await.with_context(|| format!("cannot create service {name}"))?;
    Ok(())
}

/// Waits until so many Services have an address.
///
/// # Errors
///
/// They had none within `limit`.
pub async fn await_addresses(client: &Client, wanted: usize, limit: Duration) -> Result<()> {
    let api: Api<Service> = Api::namespaced(client.clone(), NAMESPACE);
    let served = |services: &BTreeMap<String, Service>| services.values().filter(|one| has_address(one)).count();
    let done = |services: &BTreeMap<String, Service>| served(services) >= wanted;
    await_all(&api, watcher::Config::default(), limit, done).await.map(drop)
}

/// Waits until no Node waits for its cloud.
///
/// # Errors
///
/// One still did after `limit`.
pub async fn await_initialised(client: &Client, limit: Duration) -> Result<()> {
    let api: Api<Node> = Api::all(client.clone());
    let done = |nodes: &BTreeMap<String, Node>| !nodes.values().any(is_tainted);
    await_all(&api, watcher::Config::default(), limit, done).await.map(drop)
}

/// Whether a Node waits for its cloud.
#[must_use]
pub fn is_tainted(node: &Node) -> bool {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    taints.iter().any(|taint| taint.key == UNINITIALIZED_TAINT)
}

fn has_address(service: &Service) -> bool {
    let balancer = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    let ingress = balancer.and_then(|balancer| balancer.ingress.as_deref()).unwrap_or_default();
    ingress.iter().any(|entry| entry.ip.is_some())
}
