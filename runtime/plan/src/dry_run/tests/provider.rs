//! Providers that do as they are told, and a cluster for them.

use std::sync::atomic::{AtomicUsize, Ordering};

use ccm_cloud::{
    Annotation, AnnotationRole, Backend, CallFuture, Capability, Cluster, ClusterSubject, Descriptor, Failure,
    FindError, Finding, ForbiddenChange, Ingress, Instance, InstanceState, Instances, Leadership as _, LoadBalancers,
    Mark, Need, Outcome, Problem, Reaction, Route, RouteChangeError, RouteOutcome, RouteState, RouteWish, Routes,
    Standing, ValueKind, Wish,
};

use super::*;
use crate::asked::Asked;

const OPTIONAL: [Capability; 3] = [Capability::LoadBalancers, Capability::Routes, Capability::Cluster];
/// The annotation that it writes.
pub(super) const ID: &str = "red.example/id";

/// An API server with these Nodes and Services.
pub(super) fn cluster(nodes: Vec<Value>, services: Vec<Value>) -> Client {
    let all = Arc::new([("/api/v1/nodes", nodes), ("/api/v1/services", services)]);
    let service = tower::service_fn(move |request: Request<Body>| {
        let all = Arc::clone(&all);
        async move {
            if request.uri().query().unwrap_or_default().contains("watch=") {
                return std::future::pending().await;
            }
            let path = request.uri().path();
            let mut listed = all.iter().flat_map(|(_, objects)| objects);
            let answer = match all.iter().find(|(list, _)| *list == path) {
                Some((_, objects)) => json!({ "metadata": { "resourceVersion": "7" }, "items": objects }),
                None => match listed
                    .find(|object| path.ends_with(&format!("s/{}", object["metadata"]["name"].as_str().unwrap())))
                {
                    Some(object) => object.clone(),
                    None => json!({ "metadata": { "resourceVersion": "7" }, "items": [] }),
                },
            };
            Ok::<_, Infallible>(Response::new(Body::from(answer.to_string().into_bytes())))
        }
    });
    sealed(&Client::new(service, "default"))
}

/// A Node of this provider that is not Ready.
pub(super) fn not_ready(provider: &str, name: &str) -> Value {
    json!({
        "metadata": { "name": name, "uid": name, "resourceVersion": "7", "creationTimestamp": "2020-01-02T03:04:05Z" },
        "spec": { "providerID": format!("{provider}://{name}") },
        "status": { "conditions": [{ "type": "Ready", "status": "False" }] },
    })
}

/// A Service that this provider served before.
pub(super) fn served(provider: &str, name: &str) -> Value {
    let metadata = json!({
        "namespace": "default", "name": name, "uid": name, "resourceVersion": "7",
        "finalizers": ["service.kubernetes.io/load-balancer-cleanup"],
    });
    let port = json!({ "port": 80, "nodePort": 30_080 });
    json!({
        "metadata": metadata,
        "spec": { "type": "LoadBalancer", "loadBalancerClass": provider, "ports": [port] },
    })
}

/// What a provider does.
pub(super) struct Fake {
    pub(super) name: &'static str,
    pub(super) journal: Arc<Journal>,
    /// With each question, so many changes of 4 KiB are kept from leaving.
    pub(super) changes: usize,
    /// Calls that never end: an operation, or one with the name of its object.
    pub(super) hangs: &'static [&'static str],
    /// How long each of its calls takes.
    pub(super) slow: Duration,
    /// How many questions there were.
    pub(super) questions: AtomicUsize,
    /// How many calls asked whether a machine exists.
    pub(super) looks: AtomicUsize,
    /// The most changes that waited to be taken when one more call began.
    pub(super) waited: AtomicUsize,
    /// The most bytes that were held of objects at such a moment.
    pub(super) held: AtomicUsize,
    /// How long it takes to name the locks of a Service; it has another configuration each time it is asked for that then.
    pub(super) slow_and_restless: Duration,
    /// How often it was asked for its configuration.
    pub(super) configurations: AtomicUsize,
    /// How often it was asked about the cluster as a whole.
    pub(super) reconciled: AtomicUsize,
    /// Routes that its cloud has: a network, and the Node behind it.
    pub(super) routes: Vec<(String, String)>,
    /// It makes load balancers: nobody keeps it from that.
    pub(super) makes: bool,
    /// It knows only the way that asks about one load balancer.
    pub(super) asks_each: bool,
}

impl Fake {
    pub(super) fn new(name: &'static str, journal: &Arc<Journal>) -> Self {
        let journal = Arc::clone(journal);
        let [questions, looks, waited, held, configurations, reconciled] = [0; 6].map(AtomicUsize::new);
        let [slow, slow_and_restless] = [Duration::ZERO; 2];
        let (makes, asks_each) = (false, false);
        Self {
            name,
            journal,
            changes: 0,
            hangs: &[],
            slow,
            questions,
            looks,
            waited,
            held,
            slow_and_restless,
            configurations,
            reconciled,
            routes: vec![],
            makes,
            asks_each,
        }
    }

    async fn answers(&self, operation: &str, name: &str) {
        let is_one = |call: &&str| *call == operation || *call == format!("{operation} {name}");
        if self.hangs.iter().any(is_one) {
            std::future::pending().await
        }
        tokio::time::sleep(self.slow).await;
    }

    /// A question about this one.
    fn begins(&self, name: &str) {
        self.questions.fetch_add(1, Ordering::Relaxed);
        self.waited.fetch_max(self.journal.held(), Ordering::Relaxed);
        self.holds();
        (0..self.changes).for_each(|number| self.change(name, number));
    }

    fn holds(&self) {
        self.held.fetch_max(self.journal.written.bytes(), Ordering::Relaxed);
    }

    fn change(&self, of: &str, number: usize) {
        self.journal.forbade(ForbiddenChange {
            provider: self.name.to_owned(),
            endpoint: "api".to_owned(),
            method: "POST",
            target: format!("/{of}/{number}"),
            body: json!({ "x": "x".repeat(4_096) }).to_string(),
            operation: "POST /{}".to_owned(),
            is_after_another: false,
        });
    }

    fn changed(&self, operation: &'static str, service: ccm_cloud::Service) -> CallFuture<'_, Outcome> {
        Box::pin(async move {
            self.holds();
            self.answers(operation, &service.name).await;
            if self.makes {
                let ip = Some("192.0.2.1".to_owned());
                return Outcome { ingress: vec![Ingress { ip, ..Ingress::default() }], ..Outcome::default() };
            }
            self.change(&service.name, 0);
            Outcome::failed(Failure::new(Reaction::Retry, "a dry run changes nothing"))
        })
    }
}

/// These are the providers of a dry run.
pub(super) fn asks(parts: &mut DryRunParts, fakes: &[&Arc<Fake>]) {
    let fakes: Vec<Arc<Fake>> = fakes.iter().map(|fake| Arc::clone(fake)).collect();
    let looking = parts.pending.looking().clone();
    parts.providers = Box::new(move || fakes.iter().map(|fake| asked_of(fake, &looking)).collect());
}

/// It serves the class of its name.
pub(super) fn asked_of(fake: &Arc<Fake>, looking: &Looking) -> Asked {
    let classes = vec![fake.name.to_owned()];
    Asked::of(Arc::clone(fake), classes, 60 * SECOND, OPTIONAL.to_vec(), looking)
}

impl Instances for Fake {
    async fn find(&self, nodes: Vec<ccm_cloud::Node>, need: Need) -> Result<Vec<Finding>, FindError> {
        self.looks.fetch_add(usize::from(need == Need::Existence), Ordering::Relaxed);
        self.begins(&nodes[0].name);
        for node in &nodes {
            self.answers("find", &node.name).await;
            self.answers(&format!("{need:?}"), &node.name).await;
        }
        let found = |node: &ccm_cloud::Node| {
            Finding::Found(Box::new(Instance {
                provider_id: format!("{}://{}", self.name, node.name),
                instance_type: String::new(),
                addresses: vec![],
                zone: String::new(),
                region: String::new(),
                labels: Default::default(),
                state: InstanceState::Running,
            }))
        };
        Ok(nodes.iter().map(found).collect())
    }
}

impl LoadBalancers for Fake {
    fn descriptor(&self) -> Arc<Descriptor> {
        let name = self.name.to_owned();
        let id = Annotation {
            name: ID.to_owned(),
            purpose: String::new(),
            kind: ValueKind::Text,
            default: None,
            allowed: vec![],
            role: AnnotationRole::Written,
        };
        let (provider_id_schemes, annotations) = (vec![name.clone()], vec![id]);
        Arc::new(Descriptor { provider_id_schemes, annotations, name, ..Descriptor::default() })
    }

    fn configuration(&self) -> String {
        let asked = self.configurations.fetch_add(1, Ordering::Relaxed);
        if self.slow_and_restless.is_zero() { String::new() } else { asked.to_string() }
    }

    fn name(&self, service: ccm_cloud::Service) -> CallFuture<'_, Result<String, Failure>> {
        Box::pin(async { Ok(service.name) })
    }

    fn locks(&self, service: ccm_cloud::Service) -> CallFuture<'_, Result<Vec<String>, Failure>> {
        Box::pin(async move {
            self.answers("locks", &service.name).await;
            tokio::time::sleep(self.slow_and_restless).await;
            Ok(vec![])
        })
    }

    fn get(&self, service: ccm_cloud::Service) -> CallFuture<'_, Result<Option<Vec<Ingress>>, Failure>> {
        Box::pin(async move {
            self.begins(&service.name);
            self.answers("get", &service.name).await;
            Ok(Some(service.ingress).filter(|addresses| !addresses.is_empty()))
        })
    }

    fn get_mark(&self, service: ccm_cloud::Service) -> CallFuture<'_, Result<Option<Mark>, Failure>> {
        Box::pin(async move {
            self.begins(&service.name);
            self.answers("mark", &service.name).await;
            Ok(None)
        })
    }

    fn ensure(&self, service: ccm_cloud::Service, _: Arc<[Backend]>) -> CallFuture<'_, Outcome> {
        self.changed("ensure", service)
    }

    fn ensure_unhurried(&self, service: ccm_cloud::Service, _: Arc<[Backend]>) -> CallFuture<'_, Outcome> {
        self.changed("ensure", service)
    }

    fn update_backends(&self, service: ccm_cloud::Service, _: Arc<[Backend]>) -> CallFuture<'_, Outcome> {
        self.changed("update", service)
    }

    fn delete(&self, service: ccm_cloud::Service) -> CallFuture<'_, Outcome> {
        self.changed("delete", service)
    }

    fn orphan(&self, service: ccm_cloud::Service) -> CallFuture<'_, Result<Vec<String>, Failure>> {
        Box::pin(async move {
            self.answers("orphan", &service.name).await;
            Ok(vec![])
        })
    }

    fn validate(
        &self,
        _: ccm_cloud::Service,
        _: Option<ccm_cloud::Service>,
        _: bool,
    ) -> CallFuture<'_, Result<Vec<Problem>, Failure>> {
        Box::pin(async { Ok(vec![]) })
    }

    fn selects_nodes(&self) -> bool {
        false
    }

    fn surveys(&self) -> bool {
        !self.asks_each
    }

    fn survey(&self, _: Arc<[Backend]>, wishes: Vec<Wish>) -> CallFuture<'_, Result<Vec<Standing>, Failure>> {
        Box::pin(async move {
            self.begins("services");
            self.answers("survey", "").await;
            Ok(wishes.iter().map(|_| Standing::Missing).collect())
        })
    }
}

impl Cluster for Fake {
    fn descriptor(&self) -> Arc<Descriptor> {
        LoadBalancers::descriptor(self)
    }

    fn reconcile(
        &self,
        _: Vec<ccm_cloud::Node>,
        _: Vec<ccm_cloud::Service>,
    ) -> CallFuture<'_, Result<Vec<(ClusterSubject, Failure)>, Failure>> {
        Box::pin(async {
            self.reconciled.fetch_add(1, Ordering::Relaxed);
            self.answers("reconcile", "").await;
            Ok(vec![])
        })
    }
}

impl Routes for Fake {
    fn descriptor(&self) -> Arc<Descriptor> {
        LoadBalancers::descriptor(self)
    }

    fn get_all(&self, _: Vec<ccm_cloud::Node>) -> CallFuture<'_, Result<Vec<Route>, Failure>> {
        let route = |(destination, node): &(String, String)| Route {
            name: destination.clone(),
            destination_cidr: destination.clone(),
            node: Some(node.clone()),
            next_hop: None,
            state: RouteState::InPlace,
            more: vec![],
        };
        let routes = self.routes.iter().map(route).collect();
        Box::pin(async { Ok(routes) })
    }

    fn change(&self, _: Vec<Route>, _: Vec<RouteWish>) -> CallFuture<'_, Result<Vec<RouteOutcome>, RouteChangeError>> {
        Box::pin(async { Ok(vec![]) })
    }
}
