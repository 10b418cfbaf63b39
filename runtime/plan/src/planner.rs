//! Has the controllers rehearse, one object after the other, and gathers what each of them would write.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use ccm_apiserver::{ApiGate, ApiGateSettings, EventRecorder, EventSettings};
use ccm_cloud::{BatchSettings, Capability, Lookups, Member};
use ccm_controllers::{
    ClusterAddresses, ClusterController, ClusterControllerParts, ClusterMember, ClusterNodes, ClusterSettings,
    JournalPlace, LoadBalancerMember, LoadBalancerMembers, Metrics, Node, NodeController, NodeControllerParts,
    NodeLifecycleController, NodeLifecycleParts, NodeLifecycleSettings, NodeSettings, PodRanges, Pulse,
    ReflectorHandle, RouteController, RouteControllerParts, RouteMember, RouteSettings, ServiceController,
    ServiceControllerParts, ServiceMemory, ServiceRehearsal, ServiceSettings,
};
use k8s_openapi::api::core::v1::Service;
use kube::Client;
use kube::runtime::reflector::ObjectRef;
use prometheus_client::registry::Registry;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tracing::instrument::WithSubscriber as _;

use crate::asked::Asked;
use crate::journal::{Journal, Stopped};
use crate::known::Known;
use crate::nodes::Nodes;
use crate::report::{Kind, ObjectPlan, Totals};

/// Number of consecutive calls that a lookup may wait for.
const LOOKUP_CALLS: u32 = 5;

/// What is planned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// Everything that the controllers take care of.
    All,
    /// One Service.
    Service {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// One Node.
    Node(String),
}

/// Which controllers the host runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Controllers {
    /// Initialises and refreshes Nodes.
    pub node: bool,
    /// Deletes and taints Nodes.
    pub node_lifecycle: bool,
    /// Makes load balancers.
    pub service: bool,
    /// Looks after the cluster as a whole.
    pub cluster: bool,
}

impl Controllers {
    /// Kinds of objects that are looked at, where routes are kept or not.
    #[must_use]
    pub fn kinds(self, keeps_routes: bool) -> Vec<Kind> {
        let Self { node, node_lifecycle, service, cluster } = self;
        let all = [
            (Kind::Node, node || node_lifecycle),
            (Kind::Service, service),
            (Kind::Routes, keeps_routes),
            (Kind::Cluster, cluster),
        ];
        all.into_iter().filter(|(_, is_looked_at)| *is_looked_at).map(|(kind, _)| kind).collect()
    }
}

/// How they are set.
#[derive(Clone)]
pub struct Settings {
    /// See [`ApiGateSettings`].
    pub gate: ApiGateSettings,
    /// How lookups become calls.
    pub batches: BatchSettings,
    /// Of the node controller.
    pub node: NodeSettings,
    /// Of the node lifecycle controller.
    pub node_lifecycle: NodeLifecycleSettings,
    /// Where deletions of Nodes are noted.
    pub deletions: JournalPlace,
    /// Of the service controller.
    pub service: ServiceSettings,
    /// Of the route controller, with the ranges of pods; none where no routes are kept.
    pub route: Option<(RouteSettings, PodRanges)>,
    /// Of the cluster controller.
    pub cluster: ClusterSettings,
}

/// What a plan is made with.
pub struct PlanParts {
    /// The client of [`read_only`](crate::read_only).
    pub client: Client,
    /// Its journal, which is the leadership of the providers as well.
    pub journal: Arc<Journal>,
    /// The providers in the operator's order.
    pub providers: Vec<Asked>,
    /// All Nodes. The list must be complete.
    pub nodes: ReflectorHandle<Node>,
    /// All Services. The list must be complete.
    pub services: ReflectorHandle<Service>,
    /// Which addresses are the cluster's own.
    pub addresses: ClusterAddresses,
    /// Which controllers the host runs.
    pub controllers: Controllers,
    /// How.
    pub settings: Settings,
}

/// Takes what is planned for an object.
pub type Found<'a> = dyn FnMut(ObjectPlan) -> Result<()> + Send + 'a;

/// Says what the host would write, and writes nothing. Each object is handed to `found` as soon as it is planned, so that nobody holds what
/// all of them come to: the one that was asked for; of all, those with writes or with something that is not known.
///
/// # Errors
///
/// There is no such object, or the controller that takes care of it is not among those that run; or `found` has failed.
pub async fn plan(parts: PlanParts, target: Target, found: &mut Found<'_>) -> Result<Totals> {
    let mut work = JoinSet::new();
    let planner = Planner::new(parts, &mut work);
    let mut totals = Totals::default();
    match target {
        Target::All => {
            let mut found = |object: ObjectPlan| {
                totals.add(&object);
                if object.says_nothing() { Ok(()) } else { found(object) }
            };
            planner.all(&mut found).await?;
        }
        Target::Service { namespace, name } => {
            let object = planner.service(&namespace, &name).await?;
            totals.add(&object);
            found(object)?;
        }
        Target::Node(name) => {
            let object = planner.node(&name).await?;
            totals.add(&object);
            found(object)?;
        }
    }
    Ok(totals)
}

pub(crate) struct Planner {
    parts: PlanParts,
    known: Known,
    gate: ApiGate,
    recorder: EventRecorder,
    metrics: Metrics,
    lookups: Lookups,
    /// Beats with each step, where somebody watches.
    pulse: Option<Arc<Pulse>>,
}

/// Keys of nobody: a rehearsal looks at what it is asked about.
fn no_keys<T>() -> mpsc::Receiver<T> {
    mpsc::channel(1).1
}

impl Planner {
    pub(crate) fn new(parts: PlanParts, work: &mut JoinSet<()>) -> Self {
        let metrics = Metrics::register(&mut Registry::default());
        // Nothing but reads leaves by this client, so the gate may be open.
        let known = Known::of(&parts);
        let gate = ApiGate::new(known.clone().client(), metrics.api.clone(), parts.settings.gate);
        // Nobody writes Events.
        let (recorder, _) = EventRecorder::new(gate.clone(), metrics.events.clone(), EventSettings::default());
        let batches = parts.settings.batches;
        let member = |provider: &Asked| {
            let (batcher, lookups) = provider.batcher(batches);
            work.spawn(lookups.with_current_subscriber());
            let descriptor = Arc::clone(&provider.descriptor);
            let name = descriptor.name.clone();
            Member { name, claims: Box::new(move |id: &str| descriptor.owns(id)), batcher }
        };
        let lookups = Lookups::new(parts.providers.iter().map(member).collect());
        Self { parts, known, gate, recorder, metrics, lookups, pulse: None }
    }

    /// The same, and says with each step that it goes on.
    pub(crate) fn watched(self, pulse: Arc<Pulse>) -> Self {
        Self { pulse: Some(pulse), ..self }
    }

    pub(crate) fn goes_on(&self) {
        if let Some(pulse) = &self.pulse {
            pulse.beat();
        }
    }

    /// What was stopped since the last time.
    pub(crate) fn stopped(&self) -> Vec<Stopped> {
        self.parts.journal.take()
    }

    /// Nobody reads this Node as it would be any more.
    pub(crate) fn hands_over_node(&self, name: &str) {
        self.parts.journal.written.forget(&format!("/api/v1/nodes/{name}"));
    }

    async fn all(&self, found: &mut Found<'_>) -> Result<()> {
        let mut names: Vec<String> =
            self.parts.nodes.reader().state().iter().map(|node| node.name.to_string()).collect();
        names.sort_unstable();
        let mut nodes = Box::pin(self.nodes(&names)).await;
        while let Some(node) = nodes.next().await {
            found(node)?;
        }
        let services = self.parts.services.reader().state();
        let mut services: Vec<(String, String)> = services.iter().map(|service| name_of(service)).collect();
        services.sort_unstable();
        if let Some(controller) = self.service_rehearsal(&services).await {
            for name in &services {
                found(self.rehearsed(&controller, name).await)?;
            }
        }
        for object in self.routes().await.into_iter().chain(self.cluster().await) {
            found(object)?;
        }
        Ok(())
    }

    async fn service(&self, namespace: &str, name: &str) -> Result<ObjectPlan> {
        let key = ObjectRef::<Service>::new(name).within(namespace);
        let missing = || format!("there is no Service {namespace}/{name}; `kubectl get services -A` lists all");
        self.parts.services.reader().get(&key).with_context(missing)?;
        let names = [(namespace.to_owned(), name.to_owned())];
        let [name] = &names;
        let left_out = "--controllers leaves out the service controller: nothing is done for Services";
        let controller = self.service_rehearsal(&names).await.context(left_out)?;
        Ok(self.rehearsed(&controller, name).await)
    }

    async fn node(&self, name: &str) -> Result<ObjectPlan> {
        let missing = || format!("there is no Node {name}; `kubectl get nodes` lists all");
        self.parts.nodes.reader().get(&ObjectRef::new(name)).with_context(missing)?;
        let left_out = "--controllers leaves out cloud-node and cloud-node-lifecycle: nothing is done for Nodes";
        Box::pin(self.nodes(&[name.to_owned()])).await.next().await.context(left_out)
    }

    /// Nodes with these names, which come in their order.
    pub(crate) async fn nodes<'a>(&'a self, names: &'a [String]) -> Nodes<'a> {
        let Controllers { node, node_lifecycle, .. } = self.parts.controllers;
        let node = node.then(|| self.node_controller().rehearsal());
        let lifecycle = match node_lifecycle {
            true => Some(self.node_lifecycle_controller().rehearsal().await),
            false => None,
        };
        Nodes::new(self, names, node, lifecycle)
    }

    /// A controller that looks at these Services; none where the host runs no service controller.
    pub(crate) async fn service_rehearsal(&self, names: &[(String, String)]) -> Option<ServiceRehearsal> {
        if !self.parts.controllers.service {
            return None;
        }
        let goes_on = || {
            self.goes_on();
            // It is dropped anyway, and would be much from many calls.
            drop(self.stopped());
        };
        Some(Box::pin(self.service_controller().rehearsal(names, goes_on)).await)
    }

    pub(crate) async fn rehearsed(
        &self,
        controller: &ServiceRehearsal,
        (namespace, name): &(String, String),
    ) -> ObjectPlan {
        let journal = &self.parts.journal;
        drop(journal.take());
        let stopped = journal.change_of_a_cloud();
        let done = controller.rehearse(namespace, name, &stopped, || self.goes_on()).await;
        journal.written.forget(&format!("/api/v1/namespaces/{namespace}/services/{name}"));
        ObjectPlan::new(Kind::Service, format!("{namespace}/{name}"), done, journal.take())
    }

    pub(crate) async fn routes(&self) -> Vec<ObjectPlan> {
        let Some(controller) = self.route_controller() else { return vec![] };
        let controller = controller.rehearsal();
        let mut planned = vec![];
        for provider in controller.providers() {
            let stopped = self.parts.journal.change_of_a_cloud();
            let done = controller.rehearse(provider, &stopped).await;
            self.goes_on();
            planned.push(ObjectPlan::new(Kind::Routes, provider.to_owned(), done, self.parts.journal.take()));
        }
        planned
    }

    pub(crate) async fn cluster(&self) -> Vec<ObjectPlan> {
        if !self.parts.controllers.cluster {
            return vec![];
        }
        let controller = self.cluster_controller().rehearsal();
        let mut planned = vec![];
        for provider in controller.providers() {
            let done = controller.rehearse(provider).await;
            self.goes_on();
            planned.push(ObjectPlan::new(Kind::Cluster, provider.to_owned(), done, self.parts.journal.take()));
        }
        planned
    }

    // === The controllers ===

    /// Providers with an optional interface, each with its place in the operator's order.
    fn able(&self, capability: Capability) -> impl Iterator<Item = (usize, &Asked)> {
        self.parts.providers.iter().enumerate().filter(move |(_, provider)| provider.has(capability))
    }

    fn told(&self) -> ClusterNodes {
        if self.parts.providers.len() == 1 { ClusterNodes::All } else { ClusterNodes::Own }
    }

    fn lookup_timeout(&self) -> Duration {
        lookup_timeout(&self.parts.providers)
    }

    fn node_controller(&self) -> NodeController {
        let nodes = &self.parts.nodes;
        NodeController::new(NodeControllerParts {
            gate: self.gate.clone(),
            store: nodes.reader(),
            first_list: nodes.first_list(),
            keys: no_keys(),
            lookups: self.lookups.clone(),
            recoveries: vec![],
            recorder: self.recorder.clone(),
            metrics: self.metrics.node.clone(),
            queue_metrics: self.metrics.queue.clone(),
            cluster_addresses: self.parts.addresses.clone(),
            settings: NodeSettings { lookup_timeout: self.lookup_timeout(), ..self.parts.settings.node },
        })
    }

    fn node_lifecycle_controller(&self) -> NodeLifecycleController {
        let settings = self.parts.settings.node_lifecycle.clone();
        NodeLifecycleController::new(NodeLifecycleParts {
            gate: self.gate.clone(),
            store: self.parts.nodes.reader(),
            keys: no_keys(),
            lookups: self.lookups.clone(),
            recoveries: vec![],
            journal: Some(self.parts.settings.deletions.clone()),
            recorder: self.recorder.clone(),
            metrics: self.metrics.node_lifecycle.clone(),
            queue_metrics: self.metrics.queue.clone(),
            settings: NodeLifecycleSettings { lookup_timeout: self.lookup_timeout(), ..settings },
        })
    }

    fn service_controller(&self) -> ServiceController {
        let PlanParts { nodes, services, .. } = &self.parts;
        let member = |provider: &Asked| LoadBalancerMember {
            provider: Arc::clone(&provider.balancers),
            classes: provider.classes.clone(),
        };
        let members: LoadBalancerMembers =
            self.able(Capability::LoadBalancers).map(|(place, provider)| (place, member(provider))).collect();
        ServiceController::new(ServiceControllerParts {
            gate: self.gate.clone(),
            services: services.reader(),
            services_listed: services.first_list(),
            service_keys: no_keys(),
            nodes: nodes.reader(),
            nodes_listed: nodes.first_list(),
            node_keys: no_keys(),
            members,
            memory: ServiceMemory::new(&self.metrics.service, &services.first_list()),
            recoveries: vec![],
            exchanges: vec![],
            recorder: self.recorder.clone(),
            metrics: self.metrics.service.clone(),
            queue_metrics: self.metrics.queue.clone(),
            cluster_addresses: self.parts.addresses.clone(),
            // In a plan nobody waits for others: what `run` does a few at a time is shown as a whole.
            settings: ServiceSettings { revision_first: 0, ..self.parts.settings.service },
        })
    }

    fn route_controller(&self) -> Option<RouteController> {
        let (settings, ranges) = self.parts.settings.route.clone()?;
        let nodes = &self.parts.nodes;
        // It reads no Node again that it has told, and where a network plugin told them before, these are all of them.
        let client = self.known.clone().unread().client();
        let member = |(_, provider): (usize, &Asked)| RouteMember {
            source: Arc::clone(&provider.routes),
            nodes: self.told(),
            recoveries: vec![],
        };
        Some(RouteController::new(RouteControllerParts {
            gate: ApiGate::new(client, self.metrics.api.clone(), self.parts.settings.gate),
            nodes: nodes.reader(),
            first_list: nodes.first_list(),
            keys: no_keys(),
            members: self.able(Capability::Routes).map(member).collect(),
            ranges,
            recorder: self.recorder.clone(),
            metrics: self.metrics.route.clone(),
            queue_metrics: self.metrics.queue.clone(),
            settings,
        }))
    }

    fn cluster_controller(&self) -> ClusterController {
        let PlanParts { nodes, services, .. } = &self.parts;
        let member = |(_, provider): (usize, &Asked)| ClusterMember {
            cluster: Arc::clone(&provider.cluster),
            nodes: self.told(),
            recoveries: vec![],
        };
        ClusterController::new(ClusterControllerParts {
            nodes: nodes.reader(),
            services: services.reader(),
            first_lists: [nodes.first_list(), services.first_list()],
            node_keys: no_keys(),
            service_keys: no_keys(),
            members: self.able(Capability::Cluster).map(member).collect(),
            recorder: self.recorder.clone(),
            metrics: self.metrics.cluster.clone(),
            queue_metrics: self.metrics.queue.clone(),
            settings: self.parts.settings.cluster,
        })
    }
}

/// As long as a lookup may take with the slowest of these providers.
pub(crate) fn lookup_timeout(providers: &[Asked]) -> Duration {
    let longest = providers.iter().map(|provider| provider.call_time).max();
    longest.unwrap_or_default().saturating_mul(LOOKUP_CALLS)
}

/// Namespace and name.
pub(crate) fn name_of(service: &Service) -> (String, String) {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    (text(&service.metadata.namespace), text(&service.metadata.name))
}
