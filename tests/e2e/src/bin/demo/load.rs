//! Nodes that register and Services that come and go all the time, and whether something of them was lost.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use ccm_cluster::{NodeFixture, UNINITIALIZED_TAINT, await_absent, await_all, await_node, await_object};
use ccm_e2e::crowd::{NAMESPACE, create_service};
use k8s_openapi::api::core::v1::{Event, Node, Service};
use kube::api::{DeleteParams, ListParams};
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt as _};
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::{LIMIT, picture};

/// Workers of each kind, and their pause between two objects.
const WORKERS: usize = 2;
const PAUSE: Duration = Duration::from_millis(500);
/// Services that a worker lets live.
const LIVE: usize = 4;

/// What was made so far.
#[derive(Default)]
struct Made {
    /// Nodes that are initialised.
    nodes: BTreeSet<String>,
    /// Services with their address, those that were deleted left out.
    services: BTreeMap<String, String>,
    served: usize,
    deleted: Vec<String>,
    slowest: Duration,
}

impl Made {
    fn waited(&mut self, since: Instant) {
        self.slowest = self.slowest.max(since.elapsed());
    }
}

/// The load; it ends when this is dropped.
pub(crate) struct Load {
    client: Client,
    made: Arc<Mutex<Made>>,
    workers: JoinSet<Result<()>>,
    /// Warnings that were told.
    warned: BTreeSet<String>,
}

impl Load {
    /// Begins it.
    pub(crate) fn start(client: &Client) -> Self {
        let made: Arc<Mutex<Made>> = Arc::default();
        let mut workers = JoinSet::new();
        for worker in 0..WORKERS {
            workers.spawn(nodes(client.clone(), Arc::clone(&made), worker));
            workers.spawn(services(client.clone(), Arc::clone(&made), worker));
        }
        Self { client: client.clone(), made, workers, warned: BTreeSet::new() }
    }

    /// Waits until so many more are made than now: of Nodes, and of Services.
    pub(crate) async fn goes_on(&mut self, more: usize) -> Result<()> {
        let count = |made: &Made| (made.nodes.len(), made.served);
        let (nodes, services) = count(&self.made.lock());
        let done = || {
            let (nodes_now, services_now) = count(&self.made.lock());
            nodes_now >= nodes + more && services_now >= services + more
        };
        let waited = ccm_cluster::poll_until("more Nodes and Services", LIMIT, done).await;
        if let Some(ended) = self.workers.try_join_next() {
            ended?.context("the load ended")?;
        }
        waited
    }

    /// Ensures that nothing is lost, and says how it stands. Warnings about Nodes and Services may only be about changes that fail in
    /// one of these ways: nobody else may be asked to make them, so they are told, and are tried again.
    pub(crate) async fn told(&mut self, failures: &[&str]) -> Result<String> {
        // Before the look: what is made meanwhile is not in it, and what is deleted meanwhile may still be.
        let (nodes, before) = {
            let made = self.made.lock();
            (made.nodes.clone(), made.services.clone())
        };
        let present: Vec<Node> = Api::all(self.client.clone()).list(&ListParams::default()).await?.items;
        let present: BTreeSet<String> = present.iter().map(Node::name_any).collect();
        let gone: Vec<_> = nodes.difference(&present).collect();
        ensure!(gone.is_empty(), "Nodes are gone: {gone:?}");
        let api: Api<Service> = Api::namespaced(self.client.clone(), NAMESPACE);
        let found = api.list(&ListParams::default()).await?.items;
        let found: BTreeMap<String, Option<&str>> =
            found.iter().map(|service| (service.name_any(), picture::address(service))).collect();
        let warnings = warnings(&self.client).await?;
        let new: Vec<String> = warnings.difference(&self.warned).cloned().collect();
        let strange = |text: &&String| !failures.iter().any(|part| text.contains(part));
        let bad: Vec<_> = new.iter().filter(strange).collect();
        ensure!(bad.is_empty(), "Warnings: {bad:#?}");
        self.warned = warnings;
        let made = self.made.lock();
        for (name, address) in before.iter().filter(|(name, _)| made.services.contains_key(*name)) {
            let now = found.get(name).copied().flatten();
            ensure!(now == Some(address), "Service {name} had {address} and has {now:?}");
        }
        let warned = match new.len() {
            0 => "no Warning".to_owned(),
            warnings => format!("Warnings about changes that failed and are tried again: {warnings}"),
        };
        Ok(format!(
            "  Load so far: {} Nodes initialised, {} Services served, {} of them deleted; longest wait {:.2} s; \
             no Node lost, no address changed, {warned}\n",
            made.nodes.len(),
            made.served,
            made.deleted.len(),
            made.slowest.as_secs_f64(),
        ))
    }

    /// Ends it, and waits until what was deleted is gone and all others are served.
    pub(crate) async fn end(mut self) -> Result<String> {
        self.workers.shutdown().await;
        let deleted = self.made.lock().deleted.clone();
        let api: Api<Service> = Api::namespaced(self.client.clone(), NAMESPACE);
        for name in deleted {
            await_absent(&api, &name, LIMIT).await?;
        }
        let all_ready = |services: &BTreeMap<String, Service>| {
            services.values().all(|service| !is_balanced(service) || is_ready(service))
        };
        await_all(&api, watcher::Config::default(), LIMIT, all_ready).await?;
        self.told(&[]).await
    }
}

fn is_balanced(service: &Service) -> bool {
    service.spec.as_ref().and_then(|spec| spec.type_.as_deref()) == Some("LoadBalancer")
}

/// Whether the last change was made.
fn is_ready(service: &Service) -> bool {
    let conditions = service.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    conditions.iter().any(|condition| condition.type_ == "LoadBalancerReady" && condition.status == "True")
}

async fn nodes(client: Client, made: Arc<Mutex<Made>>, worker: usize) -> Result<()> {
    for number in 0_usize.. {
        let name = format!("node-{worker}-{number}");
        let ip = format!("10.{worker}.{}.{}", number / 250, number % 250 + 1);
        let begun = Instant::now();
        NodeFixture::new(&name).internal_ip(&ip).register(&client).await?;
        await_node(&client, &name, LIMIT, |node| !picture::has_taint(node, UNINITIALIZED_TAINT)).await?;
        {
            let mut made = made.lock();
            made.waited(begun);
            made.nodes.insert(name);
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

async fn services(client: Client, made: Arc<Mutex<Made>>, worker: usize) -> Result<()> {
    let api: Api<Service> = Api::namespaced(client.clone(), NAMESPACE);
    // A Service without a Node is complained of.
    ccm_cluster::poll_until("the first Nodes", LIMIT, || made.lock().nodes.len() > WORKERS).await?;
    let mut live = VecDeque::new();
    for number in 0_usize.. {
        let name = format!("web-{worker}-{number}");
        let begun = Instant::now();
        create_service(&client, name.clone()).await?;
        let service = await_object(&api, &name, LIMIT, |service| picture::address(service).is_some()).await?;
        let address = picture::address(&service).unwrap_or_default().to_owned();
        {
            let mut made = made.lock();
            made.waited(begun);
            made.served += 1;
            made.services.insert(name.clone(), address);
        }
        live.push_back(name);
        if live.len() > LIVE
            && let Some(oldest) = live.pop_front()
        {
            made.lock().services.remove(&oldest);
            drop(api.delete(&oldest, &DeleteParams::default()).await?);
            made.lock().deleted.push(oldest);
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

/// What the host complains of about Nodes and Services; the API server has Warnings of its own.
async fn warnings(client: &Client) -> Result<BTreeSet<String>> {
    let selection = ListParams::default().fields("type=Warning");
    let events: Vec<Event> = Api::all(client.clone()).list(&selection).await?.items;
    let about = |event: &Event| {
        event.reporting_instance.as_deref() == Some("wasm-ccm")
            && matches!(event.involved_object.kind.as_deref(), Some("Node" | "Service"))
    };
    let text = |event: Event| {
        let name = event.involved_object.name.unwrap_or_default();
        format!("{name}: {}: {}", event.reason.unwrap_or_default(), event.message.unwrap_or_default())
    };
    Ok(events.into_iter().filter(about).map(text).collect())
}
