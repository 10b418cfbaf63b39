//! Starts the controllers: what they share, and what each takes from the command line.
//!
//! A standby has all of it but the controllers: its stores are filled and its providers are loaded, so that it can begin as
//! soon as it leads.

mod cluster;
mod node;
mod node_lifecycle;
mod service;

use std::sync::Arc;
use std::time::Duration;

use ccm_cloud::{BatchSettings, Batcher, Capability, LoadBalancers, Lookups, Member};
use ccm_controllers::{EventRecorder, FirstList, LoadBalancerMember, Metrics, Reflector, ReflectorHandle, WriteGate};
use ccm_sandbox::Provider;
use futures::future::join_all;
use k8s_openapi::api::core::v1::{Node, Service};
use kube::Client;

use crate::cli::RunArgs;
use crate::controller_names::{Controller, Selection};
use crate::serve::Readiness;
use crate::tasks::Tasks;

/// How many calls, one after the other, a lookup may wait for.
const LOOKUP_CALLS: u32 = 5;

/// Name of what must be true of the Nodes before the process is ready.
const NODES: &str = "nodes";
/// The same for Services.
const SERVICES: &str = "services";

/// One reflector per kind, which all controllers share.
pub(crate) struct Reflectors {
    nodes: Reflector<Node>,
    /// None when no controller works on them.
    services: Option<Reflector<Service>>,
}

/// What controllers take from the reflectors, once those run.
#[derive(Clone)]
pub(crate) struct Stores {
    pub(crate) nodes: ReflectorHandle<Node>,
    pub(crate) services: Option<ReflectorHandle<Service>>,
}

impl Reflectors {
    /// Reads nothing yet.
    pub(crate) fn new(client: &Client, metrics: &Metrics, readiness: &Readiness, selection: &Selection) -> Self {
        // Every controller needs them.
        readiness.set(NODES, Err("the first list of Nodes is not complete".to_owned()));
        let services = selection.watches_services().then(|| {
            readiness.set(SERVICES, Err("the first list of Services is not complete".to_owned()));
            Reflector::new(client.clone(), &metrics.store)
        });
        Self { nodes: Reflector::new(client.clone(), &metrics.store), services }
    }

    /// What controllers take.
    pub(crate) fn stores(&self) -> Stores {
        Stores { nodes: self.nodes.handle(), services: self.services.as_ref().map(Reflector::handle) }
    }

    /// Lets them run, and says how they stand until they are complete.
    pub(crate) fn start(self, tasks: &mut Tasks, readiness: &Readiness) {
        let stop = tasks.stop.clone();
        let mut known = vec![follow(NODES, self.nodes.first_list(), readiness.clone())];
        tasks.spawn_reader("reflector of Nodes", self.nodes.run(stop.clone()));
        if let Some(services) = self.services {
            known.push(follow(SERVICES, services.first_list(), readiness.clone()));
            tasks.spawn_reader("reflector of Services", services.run(stop.clone()));
        }
        tasks.spawn_reader("readiness of stores", async move {
            stop.run_until_cancelled(join_all(known)).await;
            stop.cancelled().await;
        });
    }
}

impl Stores {
    /// Waits until they are filled. Never ends when a reflector does before, which the process notices by itself.
    pub(crate) async fn complete(&self) {
        let services = async {
            match &self.services {
                Some(services) => services.first_list().complete().await,
                None => true,
            }
        };
        if !(self.nodes.first_list().complete().await && services.await) {
            std::future::pending().await
        }
    }
}

/// Says how a first list stands until it is complete.
async fn follow(check: &str, mut first_list: FirstList, readiness: Readiness) {
    while let Err(why) = first_list.state() {
        readiness.set(check, Err(why));
        if !first_list.changed().await {
            // The reflector is gone, which the process notices by itself.
            return;
        }
    }
    readiness.set(check, Ok(()));
}

/// Those that make load balancers, with the classes that they serve.
pub(crate) fn balancing(providers: &[(Arc<Provider>, Vec<String>)]) -> Vec<LoadBalancerMember> {
    let able = providers.iter().filter(|(provider, _)| provider.has(Capability::LoadBalancers));
    able.map(|(provider, classes)| LoadBalancerMember {
        provider: Arc::clone(provider) as Arc<dyn LoadBalancers>,
        classes: classes.clone(),
    })
    .collect()
}

/// What controllers share.
pub(crate) struct Shared<'a> {
    args: &'a RunArgs,
    stores: Stores,
    /// With the load balancer classes that they serve.
    providers: Vec<(Arc<Provider>, Vec<String>)>,
    lookups: Lookups,
    /// How long one lookup may take, with its waiting.
    lookup_timeout: Duration,
    gate: WriteGate,
    recorder: EventRecorder,
    metrics: Metrics,
}

impl<'a> Shared<'a> {
    /// Puts the providers behind one question.
    pub(crate) fn new(
        tasks: &mut Tasks,
        args: &'a RunArgs,
        stores: Stores,
        providers: Vec<(Arc<Provider>, Vec<String>)>,
        gate: WriteGate,
        recorder: EventRecorder,
        metrics: Metrics,
    ) -> Self {
        let batches = BatchSettings {
            max_nodes: args.lookup_batch_nodes,
            max_calls: args.lookup_batch_calls,
            linger: args.lookup_batch_linger,
        };
        let member = |(provider, _): &(Arc<Provider>, Vec<String>)| {
            let schemes = provider.descriptor().provider_id_schemes.clone();
            let (batcher, work) = Batcher::new(Arc::clone(provider), batches);
            // Its calls may take as long as they may: the end of the process does not wait for them.
            tasks.spawn_background("node lookups", work);
            let followed = Arc::clone(provider);
            tasks.spawn_background("look at credentials", async move { followed.follow_credentials().await });
            Member { schemes, batcher }
        };
        let lookups = Lookups::new(providers.iter().map(member).collect());
        let call_time = providers.iter().map(|(provider, _)| provider.call_time()).max().unwrap_or_default();
        let lookup_timeout = call_time.saturating_mul(LOOKUP_CALLS);
        Self { args, stores, providers, lookups, lookup_timeout, gate, recorder, metrics }
    }
}

/// Starts those that were asked for.
pub(crate) fn controllers(tasks: &mut Tasks, shared: &Shared<'_>, selection: &Selection) {
    if selection.has(Controller::Node) {
        node::start(tasks, shared);
    }
    if selection.has(Controller::NodeLifecycle) {
        node_lifecycle::start(tasks, shared);
    }
    let Some(services) = &shared.stores.services else { return };
    if selection.has(Controller::Service) {
        service::start(tasks, shared, services);
    }
    if selection.has(Controller::Cluster) {
        cluster::start(tasks, shared, services);
    }
}
