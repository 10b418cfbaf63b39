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

use ccm_cloud::{BatchSettings, Batcher, Capability, Lookups, Member};
use ccm_controllers::{
    EventRecorder, FirstList, LoadBalancerMember, Metrics, Node, Reflector, ReflectorHandle, WriteGate,
    balanced_service,
};
use ccm_rollout::ProviderSlot;
use futures::future::join_all;
use k8s_openapi::api::core::v1::Service;
use kube::Client;
use tokio::sync::watch;

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
pub(crate) fn balancing(providers: &[(ProviderSlot, Vec<String>)]) -> Vec<LoadBalancerMember> {
    let able = providers.iter().filter(|(provider, _)| provider.has(Capability::LoadBalancers));
    able.map(|(provider, classes)| LoadBalancerMember {
        provider: Arc::new(provider.clone()),
        classes: classes.clone(),
    })
    .collect()
}

/// Which object would be nobody's without an optional interface.
pub(crate) fn depends(stores: &Stores) -> Box<dyn Fn(Capability) -> Option<String> + Send + Sync> {
    let services = stores.services.as_ref().map(|services| (services.reader(), services.first_list()));
    Box::new(move |capability| match capability {
        Capability::LoadBalancers => {
            let (services, listed) = services.as_ref()?;
            if listed.state().is_err() {
                return Some("perhaps a Service (the first list of them is not complete)".to_owned());
            }
            balanced_service(services).map(|name| format!("Service {name}"))
        }
        // What they have made in the cloud stands for no single object.
        Capability::Routes => Some("the network of pods".to_owned()),
        Capability::Cluster => Some("what it keeps for the cluster as a whole".to_owned()),
    })
}

/// Providers with the load balancer classes that they serve.
pub(crate) type Providers = Vec<(ProviderSlot, Vec<String>)>;

/// Grow when a cloud answers again that did not, or when a provider was exchanged: then nobody waits out a back-off.
fn recoveries(slot: &ProviderSlot) -> Vec<watch::Receiver<u64>> {
    vec![slot.recoveries(), slot.generations()]
}

/// What controllers share.
pub(crate) struct Shared<'a> {
    args: &'a RunArgs,
    stores: Stores,
    providers: Providers,
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
        providers: Providers,
        gate: WriteGate,
        recorder: EventRecorder,
        metrics: Metrics,
    ) -> Self {
        let batches = BatchSettings {
            max_nodes: args.lookup_batch_nodes,
            max_calls: args.lookup_batch_calls,
            linger: args.lookup_batch_linger,
        };
        let member = |(slot, _): &(ProviderSlot, Vec<String>)| {
            let (batcher, work) = Batcher::new(Arc::new(slot.clone()), batches);
            // Its calls may take as long as they may: the end of the process does not wait for them.
            tasks.spawn_background("node lookups", work);
            let followed = slot.clone();
            tasks.spawn_background("credentials and recoveries", async move { followed.follow().await });
            let name = slot.component().descriptor().name.clone();
            let slot = slot.clone();
            let claims =
                move |scheme: &str| slot.component().descriptor().provider_id_schemes.iter().any(|own| own == scheme);
            Member { name, claims: Box::new(claims), batcher }
        };
        let lookups = Lookups::new(providers.iter().map(member).collect());
        let call_time = providers.iter().map(|(slot, _)| slot.component().call_time()).max().unwrap_or_default();
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

#[cfg(test)]
mod tests {
    use http::{Request, Response};
    use kube::client::Body;
    use prometheus_client::registry::Registry;
    use serde_json::json;

    use super::*;

    /// A state folder, a provider without `load-balancers` and a slow API server once left the load balancers to nobody.
    #[tokio::test]
    async fn before_the_list_of_services_is_complete_any_service_may_need_load_balancers() {
        let service = tower::service_fn(|request: Request<Body>| async move {
            if request.uri().query().is_some_and(|query| query.contains("watch=")) {
                std::future::pending().await
            }
            let service = json!({ "metadata": {
                "name": "web", "namespace": "default", "finalizers": ["service.kubernetes.io/load-balancer-cleanup"],
            } });
            let list = json!({ "metadata": { "resourceVersion": "7" }, "items": [service] });
            Ok::<_, std::convert::Infallible>(Response::new(Body::from(list.to_string().into_bytes())))
        });
        let client = Client::new(service, "default");
        let metrics = Metrics::register(&mut Registry::default());
        let selection = Selection::parse(&["*".to_owned()]).unwrap();
        let reflectors = Reflectors::new(&client, &metrics, &Readiness::default(), &selection);
        let stores = reflectors.stores();
        let depends = depends(&stores);
        let needs = || depends(Capability::LoadBalancers);
        assert_eq!(needs().unwrap(), "perhaps a Service (the first list of them is not complete)");
        let services = reflectors.services.unwrap();
        let listed = services.first_list();
        tokio::select! {
            _ = services.run(tokio_util::sync::CancellationToken::new()) => {}
            listed = listed.complete() => assert!(listed),
        }
        assert_eq!(needs().unwrap(), "Service default/web");
    }
}
