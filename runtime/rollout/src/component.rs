//! What a slot needs of a component, so that it can be put to the test with others than those of the sandbox.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ccm_cloud::{
    CallFuture, Capability, Cluster, ClusterSubject, Failure, Instances, LoadBalancers, Node, Routes, Service,
};
use ccm_egress::SourceState;
use ccm_sandbox::Provider;
use tokio::sync::watch;

/// What a call for the cluster as a whole comes to.
pub(crate) type Reconciled = Result<Vec<(ClusterSubject, Failure)>, Failure>;

/// Calls that gave no answer: a crash, an endless loop, an answer that breaks the contract. One that had to wait too long for its
/// cloud is none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Crashes {
    /// All calls so far; wraps around.
    pub calls: u32,
    /// Those without an answer; wraps around.
    pub count: u32,
}

/// A component that can serve.
pub trait Component: Instances + LoadBalancers + Cluster + Routes {
    /// Calls without an answer since it was loaded.
    fn crashes(&self) -> Crashes;

    /// The last of those, in words.
    fn last_crash(&self) -> String;

    /// Empties its cache.
    fn forget(&self);

    /// Whether an optional interface works now.
    fn has(&self, capability: Capability) -> bool;

    /// Grow when something answers again that did not, or when credentials are others.
    fn recoveries(&self) -> Vec<watch::Receiver<u64>>;

    /// Notices other credentials while nobody uses them. Never ends.
    fn follow_credentials(&self) -> CallFuture<'_, ()>;

    /// The credentials in use, and whether their sources can be read, while somebody [follows](Self::follow_credentials) them.
    fn credential_sources(&self) -> watch::Receiver<Vec<SourceState>>;

    /// As [`Cluster::reconcile`]; sets `half_done` when the call gave no answer, for whatever reason, after it had begun to change the cloud.
    fn reconcile_noting(
        &self,
        nodes: Vec<Node>,
        services: Vec<Service>,
        half_done: Arc<AtomicBool>,
    ) -> CallFuture<'_, Reconciled>;
}

impl Component for Provider {
    fn crashes(&self) -> Crashes {
        let (calls, count) = self.crashes();
        Crashes { calls, count }
    }

    fn last_crash(&self) -> String {
        self.last_crash()
    }

    fn forget(&self) {
        self.forget_all();
    }

    fn has(&self, capability: Capability) -> bool {
        self.has(capability)
    }

    fn recoveries(&self) -> Vec<watch::Receiver<u64>> {
        self.recoveries()
    }

    fn follow_credentials(&self) -> CallFuture<'_, ()> {
        Box::pin(self.follow_credentials())
    }

    fn credential_sources(&self) -> watch::Receiver<Vec<SourceState>> {
        self.credential_sources()
    }

    fn reconcile_noting(
        &self,
        nodes: Vec<Node>,
        services: Vec<Service>,
        half_done: Arc<AtomicBool>,
    ) -> CallFuture<'_, Reconciled> {
        Box::pin(self.reconcile_noting(nodes, services, half_done))
    }
}
