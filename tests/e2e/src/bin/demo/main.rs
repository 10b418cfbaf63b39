//! `./just demo`: a cluster whose nodes and Services wait for their cloud, before and after the provider, and what becomes of
//! nodes whose machines go. `--keep` leaves it running. `./just demo swap`: the provider is exchanged under load.

mod load;
mod machine;
mod picture;
mod swap;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use ccm_cluster::{
    ControlPlane, NodeFixture, Settings, UNINITIALIZED_TAINT, User, await_all, await_node, await_object, register_nodes,
};
use ccm_e2e::host::{Host, SERVICE_ACCOUNT, component};
use ccm_e2e::manifest;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Event, Node, Pod, Service};
use kube::api::{ListParams, PostParams};
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;
use tokio::time::Instant;

/// Cloudlycke keeps routes when it is told to.
const CONFIG: &str = "routes: { enabled: true }\n";
/// Longest wait for anything.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() -> ExitCode {
    let flags: Vec<String> = std::env::args().skip(1).collect();
    let result = tokio::select! {
        result = story(&flags) => result,
        _ = tokio::signal::ctrl_c() => interrupted(&flags),
    };
    ccm_e2e::exit_code(result)
}

/// Ctrl-C is how `--keep` ends; without it something did not happen.
fn interrupted(flags: &[String]) -> Result<()> {
    ensure!(is_kept(flags), "interrupted");
    Ok(())
}

fn is_kept(flags: &[String]) -> bool {
    flags.iter().any(|flag| flag == "--keep")
}

async fn story(flags: &[String]) -> Result<()> {
    if flags == ["swap"] {
        return Box::pin(swap::demo()).await;
    }
    ensure!(flags.iter().all(|flag| flag == "--keep"), "usage: demo [--keep | swap]");
    Box::pin(demo(is_kept(flags))).await
}

async fn demo(keep: bool) -> Result<()> {
    let (namespace, account) = SERVICE_ACCOUNT;
    let user = User::service_account(namespace, account);
    let name = user.name.clone();
    ccm_cluster::ensure_binaries().await?;
    say("Starting a private Kubernetes: etcd, API server, controller manager, scheduler, kwok for the kubelets ...")?;
    let cluster = ControlPlane::start(Settings::everything().user(user)).await?;
    let client = cluster.client().clone();
    say(&format!("Ready after {:.1} s.\n", cluster.ready_after().as_secs_f64()))?;

    let nodes = [
        ("master-c2-1", "192.168.20.10", "10.244.0.0/24"),
        ("node-c2-1", "192.168.20.11", "10.244.1.0/24"),
        ("node-c2-2", "192.168.20.12", "10.244.2.0/24"),
    ];
    let fixtures = nodes.map(|(name, ip, pods)| NodeFixture::new(name).provided_node_ip(ip).pod_cidr(pods).kwok());
    register_nodes(&client, fixtures).await?;
    deploy(&client).await?;
    let why = scheduling_failure(&client).await?;
    say("BEFORE  three kubelets have registered, no cloud controller manager runs\n")?;
    say(&picture::of_all(&client).await?)?;
    say(&format!("The scheduler says: {why}\n"))?;

    manifest::apply_base(&client).await?;
    let provider = component("providers/cloudlycke.wasm")?;
    let size = manifest::put_component(&client, namespace, "cloudlycke", &provider).await?;
    say(&format!("The provider goes into a ConfigMap: kube-system/cloudlycke, {} KB gzipped.", size / 1000))?;
    let folder = tempfile::tempdir()?;
    let config = folder.path().join("cloudlycke.yaml");
    std::fs::write(&config, CONFIG)?;
    // A Node must be a minute old before it may go, for which nobody wants to wait here.
    let flags = [
        "--cloud-provider=cloudlycke".to_owned(),
        "--provider=configmap:kube-system/cloudlycke".to_owned(),
        format!("--cloud-config={}", config.display()),
        "--cluster-cidr=10.244.0.0/16".to_owned(),
        "--node-deletion-min-age=0s".to_owned(),
    ];
    say(&format!("wasm-ccm run {}\n", flags.join(" ")))?;
    let start = Instant::now();
    let mut host = Host::start(cluster.kubeconfig_of(&name)?, flags)?;
    let happened = Box::pin(follow(&client, &host, start)).await;
    let times = happened.with_context(|| format!("the host's log:\n{}", host.log_text()))?;

    say("AFTER\n")?;
    say(&picture::of_all(&client).await?)?;
    say(&picture::routes(&client).await?)?;
    say(&times)?;
    let happened = Box::pin(lose_machines(&client, &host)).await;
    happened.with_context(|| format!("the host's log:\n{}", host.log_text()))?;
    if keep {
        say(&format!(
            "Left running until Ctrl-C. Look around with:\n\n    export KUBECONFIG={}\n",
            cluster.kubeconfig().display()
        ))?;
        let ended = host.wait(Duration::MAX).await?;
        anyhow::bail!("the host ended by itself: {ended}; its log:\n{}", host.log_text());
    }
    let ended = host.terminate().await?;
    ensure!(ended.success(), "the host ended with {ended}; its log:\n{}", host.log_text());
    say("Host stopped, cluster gone. `./just demo --keep` leaves both running.")
}

async fn deploy(client: &Client) -> Result<()> {
    let deployment: Deployment = serde_json::from_value(json!({
        "metadata": {"name": "nginx-demo"},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": "nginx-demo"}},
            "template": {
                "metadata": {"labels": {"app": "nginx-demo"}},
                "spec": {"containers": [{"name": "nginx", "image": "registry.example/nginx"}]},
            },
        },
    }))?;
    Api::default_namespaced(client.clone()).create(&PostParams::default(), &deployment).await?;
    let service: Service = serde_json::from_value(json!({
        "metadata": {"name": "web"},
        "spec": {"type": "LoadBalancer", "selector": {"app": "nginx-demo"}, "ports": [{"port": 80}]},
    }))?;
    Api::default_namespaced(client.clone()).create(&PostParams::default(), &service).await?;
    Ok(())
}

/// One machine is switched off, one is deleted, each with before and after.
async fn lose_machines(client: &Client, host: &Host) -> Result<()> {
    let (stopped, deleted) = ("node-c2-1", "node-c2-2");
    say(&format!("NEXT    the machine of {stopped} is switched off, its kubelet is silent\n"))?;
    let time = machine::stop(client, stopped).await?;
    say(&picture::nodes(client).await?)?;
    say(&format!("  {:>6.2} s  the scheduler keeps away from it; the Node stays\n", time.as_secs_f64()))?;
    say(&format!("NEXT    the machine of {deleted} is deleted in the cloud\n"))?;
    let (time, event) = machine::delete(client, deleted).await?;
    say(&picture::nodes(client).await?)?;
    say(&format!("  {:>6.2} s  the host asked twice, five seconds apart, then: {event}", time.as_secs_f64()))?;
    let start = Instant::now();
    host.await_log(LIMIT, &["route 10.244.2.0/24 removed"]).await?;
    say(&format!("  {:>6.2} s  the route to its pods is removed\n", time.saturating_add(start.elapsed()).as_secs_f64()))
}

/// Waits until the scheduler has given up on all three pods; returns what it says.
async fn scheduling_failure(client: &Client) -> Result<String> {
    let api: Api<Event> = Api::default_namespaced(client.clone());
    let selection = watcher::Config::default().fields("reason=FailedScheduling");
    let names_taint = |event: &&Event| event.message.as_ref().is_some_and(|text| text.contains("untolerated taint"));
    let events = await_all(&api, selection, LIMIT, |events| events.values().filter(names_taint).count() >= 3).await?;
    let message = events.values().find(names_taint).and_then(|event| event.message.clone());
    let message = message.context("an Event has a message")?;
    // The rest is about preemption.
    Ok(message.split_inclusive(". ").next().unwrap_or_default().trim().to_owned())
}

/// Waits for what the demo shows, and says how long each took.
async fn follow(client: &Client, host: &Host, start: Instant) -> Result<String> {
    host.await_log(LIMIT, &["provider taken"]).await?;
    let taken = start.elapsed();
    let nodes: Vec<Node> = Api::all(client.clone()).list(&ListParams::default()).await?.items;
    for node in nodes {
        let node =
            await_node(client, &node.name_any(), LIMIT, |node| !picture::has_taint(node, UNINITIALIZED_TAINT)).await?;
        ensure!(is_complete(&node), "{} lost its taint without having all that the cloud knows", node.name_any());
    }
    let untainted = start.elapsed();
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let all_run =
        |pods: &BTreeMap<String, Pod>| pods.len() == 3 && pods.values().all(|pod| picture::phase(pod) == "Running");
    await_all(&pods, watcher::Config::default(), LIMIT, all_run).await?;
    let running = start.elapsed();
    let services: Api<Service> = Api::default_namespaced(client.clone());
    await_object(&services, "web", LIMIT, |service| picture::address(service).is_some()).await?;
    let addressed = start.elapsed();
    for node in Api::<Node>::all(client.clone()).list(&ListParams::default()).await?.items {
        let route = format!("route {} leads to {}", picture::pod_network(&node), node.name_any());
        host.await_log(LIMIT, &[&route]).await?;
    }
    let routed = start.elapsed();
    let row = |what: &str, time: Duration| format!("  {:>6.2} s  {what}\n", time.as_secs_f64());
    Ok([
        row("provider read from the ConfigMap, checked, compiled and taken", taken),
        row("last taint gone: every node has its provider ID, zone, type and addresses", untainted),
        row("all pods Running", running),
        row("Service web has its address", addressed),
        row("every node has a route to its pods", routed),
    ]
    .concat())
}

/// Whether the Node has all that the demo promises.
fn is_complete(node: &Node) -> bool {
    let has = |label: &str| node.labels().contains_key(label);
    let addresses = node.status.as_ref().and_then(|status| status.addresses.as_deref()).unwrap_or_default();
    node.spec.as_ref().is_some_and(|spec| spec.provider_id.is_some())
        && ["topology.kubernetes.io/zone", "topology.kubernetes.io/region", "node.kubernetes.io/instance-type"]
            .iter()
            .all(|label| has(label))
        && ["InternalIP", "ExternalIP", "Hostname"].iter().all(|kind| addresses.iter().any(|a| a.type_ == *kind))
}

pub(crate) fn say(text: &str) -> Result<()> {
    writeln!(std::io::stdout(), "{text}")?;
    Ok(())
}
