//! The machine behind a Node.

use std::future::Future;

use crate::{Address, Attributes, Failure, FindError, Node};

/// What an answer is for, and so how fresh it must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Need {
    /// Addresses, type, zone of a Node that waits for them: a listing that others share will do.
    Metadata,
    /// The same, for a Node that works already: the cloud is asked when nothing more urgent waits.
    Refresh,
    /// Is it there, does it run: the same.
    Existence,
    /// A Node may be deleted on this: nothing cached, nothing shared.
    Proof,
}

/// Whether the machine runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InstanceState {
    /// It runs.
    Running,
    /// It is switched off and still exists.
    Stopped,
    /// Anything else: being built, being moved, in error.
    Other,
}

/// What a cloud knows of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    /// With its scheme. Empty when the cloud does not tell: then the Node must have one.
    pub provider_id: String,
    /// Empty when the cloud has no such thing.
    pub instance_type: String,
    /// Empty leaves the Node's addresses as they are.
    pub addresses: Vec<Address>,
    /// Empty when the cloud has no such thing.
    pub zone: String,
    /// Empty when the cloud has no such thing.
    pub region: String,
    /// More labels for the Node.
    pub labels: Attributes,
    /// Whether it runs.
    pub state: InstanceState,
}

/// The answer for one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// The machine is there.
    Found(Box<Instance>),
    /// The cloud said, in this very call, that this machine does not exist.
    Absent,
    /// Nobody knows.
    Unknown(Failure),
}

/// Finds the machines behind Nodes.
pub trait Instances: Send + Sync + 'static {
    /// One finding per node, in order. The cost is a call of the provider, whatever the number of nodes.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the call; nothing in the cloud has changed, lookups are read-only.
    ///
    /// # Errors
    ///
    /// [`FindError`] when there is no answer for any of the nodes.
    fn find(&self, nodes: Vec<Node>, need: Need) -> impl Future<Output = Result<Vec<Finding>, FindError>> + Send;
}
