//! A provider, as a plan asks it.

use std::sync::Arc;
use std::time::Duration;

use ccm_cloud::{
    BatchSettings, Batcher, CallFuture, Capability, Cluster, Descriptor, Instances, LoadBalancerSource, LoadBalancers,
    RouteSource, Routes,
};
use ccm_rollout::opened::Opened;

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

impl From<Opened> for Asked {
    fn from(Opened { provider, classes }: Opened) -> Self {
        let offers = OPTIONAL.into_iter().filter(|capability| provider.has(*capability)).collect();
        let call_time = provider.call_time();
        Self::of(provider, classes, call_time, offers)
    }
}

impl Asked {
    pub(crate) fn of<P>(provider: Arc<P>, classes: Vec<String>, call_time: Duration, offers: Vec<Capability>) -> Self
    where
        P: Instances + LoadBalancers + Routes + Cluster,
    {
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
