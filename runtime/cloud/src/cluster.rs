//! Work on the cluster as a whole: the contract's `cluster`.

use std::sync::Arc;

use crate::load_balancer::CallFuture;
use crate::{Descriptor, Failure, Node, Service};

/// What a failure is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClusterSubject {
    /// The whole call.
    Call,
    /// A Node, by name.
    Node(String),
    /// A Service.
    Service {
        /// `metadata.namespace`
        namespace: String,
        /// `metadata.name`
        name: String,
    },
    /// The provider itself.
    Provider,
}

/// Keeps what the cluster needs as a whole: firewalls for node ports, tags.
pub trait Cluster: Send + Sync + 'static {
    /// Who the provider of the moment is.
    fn descriptor(&self) -> Arc<Descriptor>;

    /// Brings the cloud to what the cluster needs. One bad object does not stop the rest: its failure is in the list.
    ///
    /// # Cancel safety
    ///
    /// Dropping the answer ends the call. What it had begun in the cloud goes on: the next call finds it.
    fn reconcile(
        &self,
        nodes: Vec<Node>,
        services: Vec<Service>,
    ) -> CallFuture<'_, Result<Vec<(ClusterSubject, Failure)>, Failure>>;
}
