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

/// A component that can serve.
pub trait Component: Instances + LoadBalancers + Cluster + Routes {
    /// All calls since it was loaded; wraps around.
    fn calls(&self) -> u32;

    /// Whether this is the failure of its last call without an answer: a crash, an endless loop, an answer that breaks the contract. One that
    /// had to wait too long for its cloud is none, nor is one of the admission webhook.
    fn has_crashed(&self, failure: &Failure) -> bool;

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
    fn calls(&self) -> u32 {
        let (calls, _) = self.crashes();
        calls
    }

    fn has_crashed(&self, failure: &Failure) -> bool {
        // The sandbox says the same of both, of the failure with the provider's name.
        let last = self.last_crash();
        let Some((function, why)) = last.split_once(": ") else { return false };
        failure.message == format!("{function} of {}: {why}", self.descriptor().name)
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
