//! Routes of the Nodes' pod networks: the contract's `routes`.

use std::sync::Arc;

use crate::load_balancer::CallFuture;
use crate::{Address, Descriptor, Failure, Node};

/// How a route stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteState {
    /// Packets reach the Node.
    InPlace,
    /// There, but packets do not pass: a part is missing. A wish for it completes it.
    Incomplete,
    /// The cloud is at work on it.
    Pending,
    /// Leads nowhere: its machine is gone.
    Blackhole,
}

/// A route that there is, in the words of the provider that found it. It goes back to the provider as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The cloud's own name of it.
    pub name: String,
    /// The network that it leads to, as the cloud writes it: perhaps no network at all.
    pub destination_cidr: String,
    /// Name of the Node behind it; none when no Node of the cluster is.
    pub node: Option<String>,
    /// Where packets go next.
    pub next_hop: Option<String>,
    /// How it stands.
    pub state: RouteState,
    /// What the provider wants to read again.
    pub more: Vec<(String, String)>,
}

/// A route that there should be.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RouteWish {
    /// The pod CIDR, such as `10.244.3.0/24`, without bits behind its prefix.
    pub destination_cidr: String,
    /// Name of the Node.
    pub node: String,
    /// `spec.providerID` of the Node.
    pub provider_id: String,
    /// `status.addresses` of the Node.
    pub addresses: Vec<Address>,
}

/// What became of one route.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RouteOutcome {
    /// None when the route is as it was asked for.
    pub failure: Option<Failure>,
    /// What was changed in the cloud, for people.
    pub changes: Vec<String>,
}

/// Why a change of routes has no outcomes: some routes may have changed all the same.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RouteChangeError {
    /// The provider answered, with a failure of the whole change.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// The provider gave no answer: a trap, no answer in time, an answer that breaks the contract. One route may be the reason, so
    /// smaller changes may succeed.
    #[error("{0}")]
    Crashed(Failure),
}

impl RouteChangeError {
    /// The failure, whichever way it came.
    #[must_use]
    pub fn into_failure(self) -> Failure {
        match self {
            Self::Failed(failure) | Self::Crashed(failure) => failure,
        }
    }
}

/// Gives the provider that a run of the route controller is done with: another one may take its place in between, and does not know the
/// routes that this one found.
pub trait RouteSource: Send + Sync + 'static {
    /// The provider of the moment, for one run. To take it is no call.
    fn routes(&self) -> Arc<dyn Routes>;
}

impl<T: Routes> RouteSource for Arc<T> {
    fn routes(&self) -> Arc<dyn Routes> {
        Self::clone(self)
    }
}

/// Keeps routes to the pods of Nodes.
pub trait Routes: Send + Sync + 'static {
    /// Who the provider of the moment is.
    fn descriptor(&self) -> Arc<Descriptor>;

    /// The routes of this cluster and no others. `nodes` are all that the provider takes care of: what leads to none of them leads
    /// nowhere.
    fn get_all(&self, nodes: Vec<Node>) -> CallFuture<'_, Result<Vec<Route>, Failure>>;

    /// Removes the `obsolete` routes, then makes the `wanted` ones. One outcome for each, in this order. What is gone already, or in
    /// place already, is no failure.
    ///
    /// # Cancel safety
    ///
    /// Dropping the answer ends the call. What it had begun in the cloud goes on: the next look finds it.
    fn change(
        &self,
        obsolete: Vec<Route>,
        wanted: Vec<RouteWish>,
    ) -> CallFuture<'_, Result<Vec<RouteOutcome>, RouteChangeError>>;
}
