//! What this controller knows of one Node, for those who ask why.

use std::sync::{Arc, Weak};

use kube::runtime::reflector::ObjectRef;

use super::memory::KnownFailure;
use super::sync::Syncer;
use crate::explain::{LastTry, Next, NodeExplanation, ago};
use crate::queue::Places;
use crate::store::Node;
use crate::troubles::{Listed, Lister, UninitialisedNode};
use crate::view::node::{asks_no_manager, is_ready, is_uninitialized, provider_id};

/// A look into a node controller. Does not keep it alive.
#[derive(Clone)]
pub struct NodeView {
    pub(super) syncer: Weak<Syncer>,
    pub(super) places: Places<ObjectRef<Node>>,
}

impl NodeView {
    /// What is known of a Node; none where the controller does not run any more.
    pub(crate) async fn explain(&self, name: &str) -> Option<NodeExplanation> {
        let (known, waits_for_change) = {
            let syncer = self.syncer.upgrade()?;
            let Some(node) = syncer.store.get(&ObjectRef::new(name)) else { return Some(NodeExplanation::default()) };
            syncer.known(&node)
        };
        let next = Next::of(self.places.of(ObjectRef::new(name)).await, waits_for_change);
        Some(NodeExplanation { next, ..known })
    }

    /// Nodes that wait for their initialisation, and those that no manager is asked to initialise; none where the controller does not run any more.
    pub(crate) async fn troubles(&self, most: usize) -> Option<(Listed<UninitialisedNode>, Listed<String>)> {
        let (waiting, unmanaged) = {
            let syncer = self.syncer.upgrade()?;
            (syncer.memory.troubles(most), syncer.unmanaged(most))
        };
        let waiting = waiting.placed(&self.places, |node| ObjectRef::new(&node.name), |node| &mut node.next).await;
        Some((waiting, unmanaged))
    }
}

impl Syncer {
    /// Nodes that no manager is asked to initialise, the first by name.
    fn unmanaged(&self, most: usize) -> Listed<String> {
        let mut lister = Lister::new(most);
        for node in self.store.state().iter().filter(|node| asks_no_manager(node)) {
            lister.add(node.name_any(), |name| name);
        }
        lister.listed()
    }

    /// What Node and memory say, and whether the last try waits for a change of the Node.
    fn known(&self, node: &Node) -> (NodeExplanation, bool) {
        let known = self.memory.known(node);
        let keeper = self.lookups.keeper(provider_id(node));
        let provider = keeper.map(|keeper| self.lookups.name_of(keeper)).filter(|name| !name.is_empty());
        let last_try = known.failure.map(|KnownFailure { message, reaction, at, tries, request, .. }| LastTry {
            message,
            reaction: reaction.to_owned(),
            seconds_ago: ago(at),
            tries,
            request: request.as_deref().map(Into::into),
        });
        let explanation = NodeExplanation {
            uid: Some(node.uid.as_deref().unwrap_or_default().to_owned()),
            provider_id: provider_id(node).map(ToOwned::to_owned),
            provider: provider.map(ToOwned::to_owned),
            is_initialised: !is_uninitialized(node),
            asks_no_manager: asks_no_manager(node),
            is_ready: is_ready(node) && !node.is_deleting,
            last_try,
            unclaimed_seconds: known.unclaimed.map(ago),
            next: Next::Unknown,
        };
        (explanation, known.until_change)
    }
}

impl super::NodeController {
    /// A look into this controller, for those who ask why.
    #[must_use]
    pub fn view(&self) -> NodeView {
        NodeView { syncer: Arc::downgrade(&self.syncer), places: self.places.clone() }
    }
}
