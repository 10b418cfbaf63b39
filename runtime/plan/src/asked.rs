//! A provider, as a plan asks it: while one of its calls runs, it is known which one.

use std::sync::Arc;
use std::time::Duration;

use ccm_cloud::{
    Backend, BatchSettings, Batcher, CallFuture, Capability, Cluster, ClusterSubject, Descriptor, Failure, FindError,
    Finding, Ingress, Instances, LoadBalancerSource, LoadBalancers, Mark, Need, Node, Outcome, Problem, Route,
    RouteChangeError, RouteOutcome, RouteSource, RouteWish, Routes, Service, Standing, Wish,
};
use ccm_rollout::opened::Opened;

use crate::looking::Looking;

/// The optional interfaces.
const OPTIONAL: [Capability; 3] = [Capability::LoadBalancers, Capability::Routes, Capability::Cluster];

/// A provider, as it is at the moment.
pub struct Asked {
    pub(crate) descriptor: Arc<Descriptor>,
    /// Load balancer classes that it serves, besides Services without a class.
    pub(crate) classes: Vec<String>,
    /// How long one of its calls may take.
    pub(crate) call_time: Duration,
    pub(crate) balancers: Arc<dyn LoadBalancerSource>,
    pub(crate) routes: Arc<dyn RouteSource>,
    pub(crate) cluster: Arc<dyn Cluster>,
    offers: Vec<Capability>,
    batcher: Box<dyn Fn(BatchSettings) -> (Batcher, CallFuture<'static, ()>) + Send + Sync>,
}

impl Asked {
    /// This provider, whose calls `looking` knows of while they run.
    #[must_use]
    pub fn new(Opened { provider, classes }: Opened, looking: &Looking) -> Self {
        let offers = OPTIONAL.into_iter().filter(|capability| provider.has(*capability)).collect();
        let call_time = provider.call_time();
        Self::of(provider, classes, call_time, offers, looking)
    }

    pub(crate) fn of<P>(
        provider: Arc<P>,
        classes: Vec<String>,
        call_time: Duration,
        offers: Vec<Capability>,
        looking: &Looking,
    ) -> Self
    where
        P: Instances + LoadBalancers + Routes + Cluster,
    {
        let provider = Arc::new(Watched { provider, looking: looking.clone() });
        Self {
            descriptor: LoadBalancers::descriptor(&*provider),
            classes,
            call_time,
            balancers: Arc::new(Arc::clone(&provider)),
            routes: Arc::new(Arc::clone(&provider)),
            cluster: Arc::clone(&provider) as _,
            offers,
            batcher: Box::new(move |settings| {
                let (batcher, work) = Batcher::new(Arc::clone(&provider), settings);
                (batcher, Box::pin(work))
            }),
        }
    }

    /// Whether an optional interface works.
    pub(crate) fn has(&self, capability: Capability) -> bool {
        self.offers.contains(&capability)
    }

    /// The way to its machines, and the work behind it.
    pub(crate) fn batcher(&self, settings: BatchSettings) -> (Batcher, CallFuture<'static, ()>) {
        (self.batcher)(settings)
    }
}

/// A provider whose calls are known while they run.
struct Watched<P> {
    provider: Arc<P>,
    looking: Looking,
}

impl<P: LoadBalancers> Watched<P> {
    fn asks<'a, T: Send + 'a>(&'a self, operation: &'static str, call: CallFuture<'a, T>) -> CallFuture<'a, T> {
        Box::pin(self.looking.during(operation, LoadBalancers::descriptor(&*self.provider), call))
    }
}

impl<P: Instances + LoadBalancers> Instances for Watched<P> {
    async fn find(&self, nodes: Vec<Node>, need: Need) -> Result<Vec<Finding>, FindError> {
        let found = self.provider.find(nodes, need);
        self.looking.during("instances.find", LoadBalancers::descriptor(&*self.provider), found).await
    }
}

impl<P: LoadBalancers> LoadBalancers for Watched<P> {
    fn descriptor(&self) -> Arc<Descriptor> {
        self.provider.descriptor()
    }

    fn component(&self) -> String {
        self.provider.component()
    }

    fn configuration(&self) -> String {
        self.provider.configuration()
    }

    fn name(&self, service: Service) -> CallFuture<'_, Result<String, Failure>> {
        self.asks("load-balancers.name", self.provider.name(service))
    }

    fn locks(&self, service: Service) -> CallFuture<'_, Result<Vec<String>, Failure>> {
        self.asks("load-balancers.locks", self.provider.locks(service))
    }

    fn get(&self, service: Service) -> CallFuture<'_, Result<Option<Vec<Ingress>>, Failure>> {
        self.asks("load-balancers.get", self.provider.get(service))
    }

    fn get_mark(&self, service: Service) -> CallFuture<'_, Result<Option<Mark>, Failure>> {
        self.asks("load-balancers.get-mark", self.provider.get_mark(service))
    }

    fn ensure(&self, service: Service, backends: Arc<[Backend]>) -> CallFuture<'_, Outcome> {
        self.asks("load-balancers.ensure", self.provider.ensure(service, backends))
    }

    fn ensure_unhurried(&self, service: Service, backends: Arc<[Backend]>) -> CallFuture<'_, Outcome> {
        self.asks("load-balancers.ensure", self.provider.ensure_unhurried(service, backends))
    }

    fn update_backends(&self, service: Service, backends: Arc<[Backend]>) -> CallFuture<'_, Outcome> {
        self.asks("load-balancers.update-backends", self.provider.update_backends(service, backends))
    }

    fn delete(&self, service: Service) -> CallFuture<'_, Outcome> {
        self.asks("load-balancers.ensure-deleted", self.provider.delete(service))
    }

    fn orphan(&self, service: Service) -> CallFuture<'_, Result<Vec<String>, Failure>> {
        self.asks("load-balancer-orphan.orphan", self.provider.orphan(service))
    }

    fn validate(
        &self,
        service: Service,
        before: Option<Service>,
        online: bool,
    ) -> CallFuture<'_, Result<Vec<Problem>, Failure>> {
        self.asks("load-balancers.validate", self.provider.validate(service, before, online))
    }

    fn selects_nodes(&self) -> bool {
        self.provider.selects_nodes()
    }

    fn surveys(&self) -> bool {
        self.provider.surveys()
    }

    fn survey(&self, backends: Arc<[Backend]>, wishes: Vec<Wish>) -> CallFuture<'_, Result<Vec<Standing>, Failure>> {
        self.asks("load-balancer-survey.survey", self.provider.survey(backends, wishes))
    }
}

impl<P: Routes + LoadBalancers> Routes for Watched<P> {
    fn descriptor(&self) -> Arc<Descriptor> {
        LoadBalancers::descriptor(&*self.provider)
    }

    fn get_all(&self, nodes: Vec<Node>) -> CallFuture<'_, Result<Vec<Route>, Failure>> {
        self.asks("routes.get-all", self.provider.get_all(nodes))
    }

    fn change(
        &self,
        obsolete: Vec<Route>,
        wanted: Vec<RouteWish>,
    ) -> CallFuture<'_, Result<Vec<RouteOutcome>, RouteChangeError>> {
        self.asks("routes.change", self.provider.change(obsolete, wanted))
    }
}

impl<P: Cluster + LoadBalancers> Cluster for Watched<P> {
    fn descriptor(&self) -> Arc<Descriptor> {
        LoadBalancers::descriptor(&*self.provider)
    }

    fn reconcile(
        &self,
        nodes: Vec<Node>,
        services: Vec<Service>,
    ) -> CallFuture<'_, Result<Vec<(ClusterSubject, Failure)>, Failure>> {
        self.asks("cluster.reconcile", self.provider.reconcile(nodes, services))
    }
}
