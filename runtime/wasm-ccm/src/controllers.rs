//! Starts the controllers: what they share, and what each takes from the command line.

use std::sync::Arc;
use std::time::Duration;

use ccm_apiserver::{ApiGate, EventRecorder};
use ccm_cloud::{BatchSettings, Batcher, Capability, Cluster, Lookups, Member};
use ccm_controllers::{
    AddressSources, ClusterAddresses, ClusterController, ClusterControllerParts, ClusterMember, ClusterNodes,
    Explainer, LoadBalancerMember, LoadBalancerMembers, Metrics, NodeController, NodeControllerParts,
    NodeLifecycleController, NodeLifecycleParts, NodeLifecycleSettings, NodeSettings, PodRanges, ReflectorHandle,
    RouteController, RouteControllerParts, RouteMember, Ruling, ServiceAdmission, ServiceController,
    ServiceControllerParts, ServiceMemory,
};
use ccm_rollout::ProviderSlot;
use ccm_rollout::offering::{self, Offerers};
use ccm_serving::webhook::{Decision, Reviewer};
use k8s_openapi::api::core::v1::Service;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::stores::Stores;
use crate::supervision::Supervision;
use crate::tasks::Tasks;
use ccm_cli::RunArgs;
use ccm_cli::controller_names::{Controller, Selection};

/// Number of consecutive calls that a lookup may wait for.
const LOOKUP_CALLS: u32 = 5;

/// Providers that make load balancers, with the classes that they serve, as controllers take them.
fn members(providers: &Able) -> LoadBalancerMembers {
    let member = |(provider, classes): &(ProviderSlot, Vec<String>)| LoadBalancerMember {
        provider: Arc::new(provider.clone()),
        classes: classes.clone(),
    };
    providers.iter().map(|(place, provider)| (*place, member(provider))).collect()
}

/// What providers say of Services, for the webhook.
pub(crate) struct Reviews(pub(crate) Arc<ServiceAdmission>);

impl Reviewer for Reviews {
    async fn review(&self, service: &Service, before: Option<&Service>, limit: Duration) -> Decision {
        let Ruling { denial, warnings, .. } = self.0.review(service, before, limit).await;
        Decision { denial, warnings }
    }
}

/// Tells the webhook which providers make load balancers, at once and whenever these are others. Never ends.
pub(crate) async fn judging(admission: Arc<ServiceAdmission>, providers: Providers) {
    let tell = |able: Able| admission.serve(members(&able));
    offering::follow(&providers, Capability::LoadBalancers, tell).await;
}

/// Providers with the load balancer classes that they serve.
pub(crate) type Providers = Vec<(ProviderSlot, Vec<String>)>;

/// Those of them that have an optional interface now.
type Able = Offerers<(ProviderSlot, Vec<String>)>;

/// Counters that grow when a cloud answers again, or when a provider was exchanged: then nothing waits for its back-off to end.
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
    gate: ApiGate,
    recorder: EventRecorder,
    metrics: Metrics,
    addresses: ClusterAddresses,
    explainer: Explainer,
    supervision: Supervision,
}

impl<'a> Shared<'a> {
    /// Puts the providers behind one question.
    pub(crate) fn new(
        tasks: &mut Tasks,
        args: &'a RunArgs,
        stores: Stores,
        providers: Providers,
        gate: ApiGate,
        recorder: EventRecorder,
        (metrics, supervision): (Metrics, Supervision),
    ) -> Self {
        let batches = BatchSettings {
            max_nodes: args.lookup_batch_nodes,
            max_calls: args.lookup_batch_calls,
            linger: args.lookup_batch_linger,
        };
        let member = |(slot, _): &(ProviderSlot, Vec<String>)| {
            let (batcher, work) = Batcher::new(Arc::new(slot.clone()), batches);
            // In the background: the end of the process does not wait for these calls, however long they take.
            tasks.spawn_background("node lookups", work);
            let followed = slot.clone();
            tasks.spawn_background("recoveries", async move { followed.follow().await });
            let name = slot.component().descriptor().name.clone();
            let slot = slot.clone();
            let claims = move |id: &str| slot.component().descriptor().owns(id);
            Member { name, claims: Box::new(claims), batcher }
        };
        let lookups = Lookups::new(providers.iter().map(member).collect());
        let call_time = providers.iter().map(|(slot, _)| slot.component().call_time()).max().unwrap_or_default();
        let lookup_timeout = call_time.saturating_mul(LOOKUP_CALLS);
        let addresses = ClusterAddresses::new(AddressSources::default());
        Self {
            args,
            stores,
            providers,
            lookups,
            lookup_timeout,
            gate,
            recorder,
            metrics,
            addresses,
            explainer: Explainer::default(),
            supervision,
        }
    }

    /// With what is known of addresses that nobody may have.
    pub(crate) fn refusing(self, addresses: ClusterAddresses) -> Self {
        Self { addresses, ..self }
    }

    /// With who answers for the controllers.
    pub(crate) fn explaining(self, explainer: Explainer) -> Self {
        Self { explainer, ..self }
    }
}

/// Starts the controllers that were asked for.
pub(crate) fn start(tasks: &mut Tasks, shared: &Shared<'_>, selection: &Selection) {
    if selection.has(Controller::Node) {
        start_node(tasks, shared);
    }
    if selection.has(Controller::NodeLifecycle) {
        start_node_lifecycle(tasks, shared);
    }
    if selection.has(Controller::Route) {
        start_route(tasks, shared);
    }
    let Some(services) = &shared.stores.services else { return };
    if selection.has(Controller::Service) {
        start_service(tasks, shared, services);
    }
    if selection.has(Controller::Cluster) {
        start_cluster(tasks, shared, services);
    }
}

/// Starts the node controller.
fn start_node(tasks: &mut Tasks, shared: &Shared<'_>) {
    let args = shared.args;
    let nodes = &shared.stores.nodes;
    let declares = |(slot, _): &(ProviderSlot, Vec<String>)| {
        let slot = slot.clone();
        move || Cluster::descriptor(&slot)
    };
    let controller = NodeController::new(NodeControllerParts {
        gate: shared.gate.clone(),
        store: nodes.reader(),
        first_list: nodes.first_list(),
        keys: nodes.subscribe(),
        lookups: shared.lookups.clone(),
        recoveries: shared.providers.iter().flat_map(|(slot, _)| recoveries(slot)).collect(),
        recorder: shared.recorder.clone(),
        metrics: shared.metrics.node.clone(),
        queue_metrics: shared.metrics.queue.clone(),
        cluster_addresses: shared.addresses.clone(),
        settings: NodeSettings {
            concurrent_syncs: args.concurrent_node_syncs,
            concurrent_status_updates: args.concurrent_node_status_updates,
            refresh_interval: args.node_status_update_frequency,
            untaint_before_addresses: args.untaint_before_addresses,
            lookup_timeout: shared.lookup_timeout,
            unclaimed_after: args.node_unclaimed_after,
            ..NodeSettings::default()
        },
    })
    .knowing(shared.providers.iter().map(declares));
    shared.explainer.has_nodes(controller.view());
    let work = shared.supervision.clone().of(Controller::Node, controller.run(tasks.stop.clone()));
    tasks.spawn_controller("node controller", work);
}

/// Starts the node lifecycle controller.
fn start_node_lifecycle(tasks: &mut Tasks, shared: &Shared<'_>) {
    let args = shared.args;
    let nodes = &shared.stores.nodes;
    let controller = NodeLifecycleController::new(NodeLifecycleParts {
        gate: shared.gate.clone(),
        store: nodes.reader(),
        keys: nodes.subscribe(),
        lookups: shared.lookups.clone(),
        recoveries: shared.providers.iter().flat_map(|(slot, _)| recoveries(slot)).collect(),
        journal: Some(args.leader.journal()),
        recorder: shared.recorder.clone(),
        metrics: shared.metrics.node_lifecycle.clone(),
        queue_metrics: shared.metrics.queue.clone(),
        settings: NodeLifecycleSettings {
            concurrent_writes: args.concurrent_node_syncs,
            lookup_timeout: shared.lookup_timeout,
            ..args.node_lifecycle.settings()
        },
    });
    shared.explainer.has_lifecycle(controller.view());
    let work = shared.supervision.clone().of(Controller::NodeLifecycle, controller.run(tasks.stop.clone()));
    tasks.spawn_controller("node lifecycle controller", work);
}

/// Starts the service controller. Where no provider makes load balancers, it says so of Services that have one.
fn start_service(tasks: &mut Tasks, shared: &Shared<'_>, services: &ReflectorHandle<Service>) {
    let (nodes, services) = (shared.stores.nodes.clone(), services.clone());
    let (gate, recorder, metrics) = (shared.gate.clone(), shared.recorder.clone(), shared.metrics.clone());
    let (settings, addresses) = (shared.args.service.settings(), shared.addresses.clone());
    // For all service controllers of this process, one after the other.
    let (explainer, supervision) = (shared.explainer.clone(), shared.supervision.clone());
    let memory = ServiceMemory::new(&metrics.service, &services.first_list());
    let begin = move |able: Able, stop| {
        if able.is_empty() {
            tracing::info!("no provider offers load balancers with its configuration: Services are left alone");
        }
        let controller = ServiceController::new(ServiceControllerParts {
            gate: gate.clone(),
            services: services.reader(),
            services_listed: services.first_list(),
            service_keys: services.subscribe(),
            nodes: nodes.reader(),
            nodes_listed: nodes.first_list(),
            node_keys: nodes.subscribe(),
            members: members(&able),
            memory: memory.clone(),
            recoveries: able.values().map(|(slot, _)| slot.recoveries()).collect(),
            exchanges: able.values().flat_map(|(slot, _)| [slot.generations(), slot.doubts()]).collect(),
            recorder: recorder.clone(),
            metrics: metrics.service.clone(),
            queue_metrics: metrics.queue.clone(),
            cluster_addresses: addresses.clone(),
            settings,
        });
        explainer.has_services(controller.view());
        supervision.clone().of(Controller::Service, controller.run(stop))
    };
    let work = offering::run(shared.providers.clone(), Capability::LoadBalancers, tasks.stop.clone(), begin);
    tasks.spawn_controller("service controller", work);
}

/// Which Nodes one of so many providers is told in a call for the cluster as a whole.
pub(crate) const fn nodes_told(providers: usize) -> ClusterNodes {
    if providers == 1 { ClusterNodes::All } else { ClusterNodes::Own }
}

/// Whether routes are kept where a provider offers them.
pub(crate) fn keeps_routes(args: &RunArgs, selection: &Selection) -> bool {
    let has_ranges = PodRanges::parse(&args.cluster_cidr).is_ok();
    selection.has(Controller::Route) && args.route.configure_cloud_routes && has_ranges
}

/// Starts the route controller, which works while a provider keeps routes. Where the operator wants none, or says of no network that it
/// is the pods', one line says so.
fn start_route(tasks: &mut Tasks, shared: &Shared<'_>) {
    let args = &shared.args.route;
    if !args.configure_cloud_routes {
        tracing::info!("no routes are kept: --configure-cloud-routes=false");
        return;
    }
    let ranges = match PodRanges::parse(&shared.args.cluster_cidr) {
        Ok(ranges) => ranges,
        Err(why) => {
            tracing::info!("no routes are kept: {why}");
            return;
        }
    };
    let nodes_told = nodes_told(shared.providers.len());
    let (nodes, gate) = (shared.stores.nodes.clone(), shared.gate.clone());
    let (recorder, metrics) = (shared.recorder.clone(), shared.metrics.clone());
    let supervision = shared.supervision.clone();
    let settings = args.settings();
    let begin = move |able: Able, stop: CancellationToken| {
        if able.is_empty() {
            tracing::info!("no routes are kept: no provider offers routes with its configuration");
        }
        let member = |(provider, _): &(ProviderSlot, Vec<String>)| RouteMember {
            source: Arc::new(provider.clone()),
            nodes: nodes_told,
            recoveries: recoveries(provider),
        };
        let controller = (!able.is_empty()).then(|| {
            RouteController::new(RouteControllerParts {
                gate: gate.clone(),
                nodes: nodes.reader(),
                first_list: nodes.first_list(),
                keys: nodes.subscribe(),
                members: able.values().map(member).collect(),
                ranges: ranges.clone(),
                recorder: recorder.clone(),
                metrics: metrics.route.clone(),
                queue_metrics: metrics.queue.clone(),
                settings,
            })
        });
        let supervision = supervision.clone();
        async move {
            match controller {
                Some(controller) => supervision.of(Controller::Route, controller.run(stop)).await,
                None => {
                    stop.cancelled().await;
                    Ok(())
                }
            }
        }
    };
    let work = offering::run(shared.providers.clone(), Capability::Routes, tasks.stop.clone(), begin);
    tasks.spawn_controller("route controller", work);
}

/// Starts the cluster controller, which works while a provider looks after the cluster as a whole. One that begins anew forgets what
/// it has warned of, no more: the same Event is counted up, and each call is told everything.
fn start_cluster(tasks: &mut Tasks, shared: &Shared<'_>, services: &ReflectorHandle<Service>) {
    let nodes_told = nodes_told(shared.providers.len());
    let (nodes, services) = (shared.stores.nodes.clone(), services.clone());
    let (recorder, metrics) = (shared.recorder.clone(), shared.metrics.clone());
    let supervision = shared.supervision.clone();
    let settings = shared.args.cluster.settings();
    let begin = move |able: Able, stop: CancellationToken| {
        let member = |(provider, _): &(ProviderSlot, Vec<String>)| ClusterMember {
            cluster: Arc::new(provider.clone()) as Arc<dyn Cluster>,
            nodes: nodes_told,
            recoveries: recoveries(provider),
        };
        let controller = (!able.is_empty()).then(|| {
            ClusterController::new(ClusterControllerParts {
                nodes: nodes.reader(),
                services: services.reader(),
                first_lists: [nodes.first_list(), services.first_list()],
                node_keys: nodes.subscribe(),
                service_keys: services.subscribe(),
                members: able.values().map(member).collect(),
                recorder: recorder.clone(),
                metrics: metrics.cluster.clone(),
                queue_metrics: metrics.queue.clone(),
                settings,
            })
        });
        let supervision = supervision.clone();
        async move {
            match controller {
                Some(controller) => supervision.of(Controller::Cluster, controller.run(stop)).await,
                None => {
                    stop.cancelled().await;
                    Ok(())
                }
            }
        }
    };
    let work = offering::run(shared.providers.clone(), Capability::Cluster, tasks.stop.clone(), begin);
    tasks.spawn_controller("cluster controller", work);
}
