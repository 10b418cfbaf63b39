//! What this controller knows of one Node, for those who ask why.

use std::sync::{Arc, Weak};

use kube::runtime::reflector::ObjectRef;
use tokio::time::Instant;

use super::node_state::{NodeState, node_state};
use super::sync::Syncer;
use crate::explain::{LifecycleExplanation, Next};
use crate::queue::Places;
use crate::store::Node;
use crate::troubles::{HeldNode, Listed, UnreadyNode};

/// Why nobody asks the cloud about a Node that is not Ready.
const WAITS: &str = "it is not known yet what was deleted before the start: until it is, no Node is deleted or tainted; the log says why";

/// A look into a node lifecycle controller. Does not keep it alive.
#[derive(Clone)]
pub struct NodeLifecycleView {
    pub(super) syncer: Weak<Syncer>,
    pub(super) places: Places<ObjectRef<Node>>,
}

impl NodeLifecycleView {
    /// What is known of a Node; none where the controller does not run any more.
    pub(crate) async fn explain(&self, name: &str) -> Option<LifecycleExplanation> {
        let known = {
            let syncer = self.syncer.upgrade()?;
            let Some(node) = syncer.store.get(&ObjectRef::new(name)) else { return Some(Default::default()) };
            syncer.known(&node)
        };
        let next = match known.next {
            Next::Unknown => Next::of(self.places.of(ObjectRef::new(name)).await, false),
            next => next,
        };
        Some(LifecycleExplanation { next, ..known })
    }

    /// Nodes that are not Ready, and deletions that are held; none where the controller does not run any more.
    pub(crate) async fn troubles(&self, most: usize) -> Option<(Listed<UnreadyNode>, Listed<HeldNode>)> {
        let (unready, held) = {
            let syncer = self.syncer.upgrade()?;
            syncer.memory.troubles(most, syncer.budget.settings().period)
        };
        let unready = unready.placed(&self.places, |node| ObjectRef::new(&node.name), |node| &mut node.next).await;
        Some((unready, held))
    }
}

impl Syncer {
    fn known(&self, node: &Node) -> LifecycleExplanation {
        let state = match node_state(node) {
            _ if !self.is_ours(node) => "foreign",
            NodeState::Deleting => "deleting",
            NodeState::Ready => "ready",
            NodeState::NotReady => "not-ready",
        };
        let period = self.budget.settings().period;
        let uid = Some(node.uid.as_deref().unwrap_or_default().to_owned());
        let known = LifecycleExplanation { uid, state: state.to_owned(), ..self.memory.explained(node, period) };
        match self.memory.recalled_next().filter(|_| state == "not-ready") {
            // In its queue it waits for a change, and is woken before one.
            Some(asked) => LifecycleExplanation {
                failure: Some(WAITS.to_owned()),
                next: Next::In(asked.saturating_duration_since(Instant::now()).as_secs_f64()),
                ..known
            },
            None => known,
        }
    }
}

impl super::NodeLifecycleController {
    /// A look into this controller, for those who ask why.
    #[must_use]
    pub fn view(&self) -> NodeLifecycleView {
        NodeLifecycleView { syncer: Arc::downgrade(&self.syncer), places: self.places.clone() }
    }
}
