//! The cluster as a person would ask kubectl for it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::Result;
use ccm_cluster::UNINITIALIZED_TAINT;
use k8s_openapi::api::core::v1::{Node, Pod, Service};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};

use crate::machine::SHUTDOWN_TAINT;

/// All nodes, pods and load balancers.
pub(crate) async fn of_all(client: &Client) -> Result<String> {
    Ok([nodes(client).await?, pods(client).await?, services(client).await?].join("\n"))
}

/// The nodes.
pub(crate) async fn nodes(client: &Client) -> Result<String> {
    let nodes: Vec<Node> = Api::all(client.clone()).list(&ListParams::default()).await?.items;
    let mut out = String::new();
    writeln!(
        out,
        "  {:11}  {:8}  {:13}  {:19}  {:10}  {:16}  ADDRESSES",
        "NODE", "STATUS", "TAINT", "PROVIDER ID", "ZONE", "TYPE"
    )?;
    for node in &nodes {
        let label = |name: &str| node.labels().get(name).map_or("-", String::as_str);
        let id = node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref()).unwrap_or("-");
        let addresses = node.status.as_ref().and_then(|status| status.addresses.as_deref()).unwrap_or_default();
        // An address counts once for each of its kinds: `192.168.20.10 (InternalIP, ExternalIP)`.
        let mut kinds: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for address in addresses {
            kinds.entry(&address.address).or_default().push(&address.type_);
        }
        let addresses: Vec<String> =
            kinds.iter().map(|(address, kinds)| format!("{address} ({})", kinds.join(", "))).collect();
        writeln!(
            out,
            "  {:11}  {:8}  {:13}  {id:19}  {:10}  {:16}  {}",
            node.name_any(),
            if is_ready(node) { "Ready" } else { "NotReady" },
            taint(node),
            label("topology.kubernetes.io/zone"),
            label("node.kubernetes.io/instance-type"),
            addresses.first().map_or("-", String::as_str),
        )?;
    }
    Ok(out)
}

/// Where the pod networks lead: the host has said that these routes are there.
pub(crate) async fn routes(client: &Client) -> Result<String> {
    let nodes: Vec<Node> = Api::all(client.clone()).list(&ListParams::default()).await?.items;
    let mut out = String::new();
    writeln!(out, "  {:13}  ROUTE TO", "POD NETWORK")?;
    for node in &nodes {
        writeln!(out, "  {:13}  {}", pod_network(node), node.name_any())?;
    }
    Ok(out)
}

pub(crate) fn pod_network(node: &Node) -> &str {
    node.spec.as_ref().and_then(|spec| spec.pod_cidr.as_deref()).unwrap_or("-")
}

async fn pods(client: &Client) -> Result<String> {
    let pods: Vec<Pod> = Api::default_namespaced(client.clone()).list(&ListParams::default()).await?.items;
    let mut out = String::new();
    writeln!(out, "  {:30}  PHASE", "POD")?;
    for pod in &pods {
        writeln!(out, "  {:30}  {}", pod.name_any(), phase(pod))?;
    }
    Ok(out)
}

async fn services(client: &Client) -> Result<String> {
    let services: Vec<Service> = Api::default_namespaced(client.clone()).list(&ListParams::default()).await?.items;
    let mut out = String::new();
    writeln!(out, "  {:30}  {:12}  EXTERNAL-IP", "SERVICE", "TYPE")?;
    for service in &services {
        let kind = service.spec.as_ref().and_then(|spec| spec.type_.as_deref()).unwrap_or("-");
        if kind == "LoadBalancer" {
            writeln!(out, "  {:30}  {kind:12}  {}", service.name_any(), address(service).unwrap_or("<pending>"))?;
        }
    }
    Ok(out)
}

/// The first address of a load balancer.
pub(crate) fn address(service: &Service) -> Option<&str> {
    service.status.as_ref()?.load_balancer.as_ref()?.ingress.as_ref()?.first()?.ip.as_deref()
}

fn taint(node: &Node) -> &'static str {
    match () {
        () if has_taint(node, UNINITIALIZED_TAINT) => "uninitialized",
        () if has_taint(node, SHUTDOWN_TAINT) => "shutdown",
        () => "-",
    }
}

pub(crate) fn has_taint(node: &Node, key: &str) -> bool {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    taints.iter().any(|taint| taint.key == key)
}

pub(crate) fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

pub(crate) fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("-")
}
