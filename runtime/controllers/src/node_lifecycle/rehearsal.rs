//! The work on one Node that may be deleted, for a plan.

use std::sync::Arc;
use std::time::Duration;

use ccm_cloud::Reaction;
use kube::runtime::reflector::ObjectRef;

use super::NodeLifecycleController;
use super::node_state::{NodeState, node_state};
use super::recall::Recalled;
use super::sync::Syncer;
use crate::explain::HeldDeletion;
use crate::rehearsal::Rehearsed;

/// What is remembered of a Node whose machine the cloud does not know.
const ABSENT: &str = "absent";

/// A node lifecycle controller that does its work only when it is asked to.
pub struct NodeLifecycleRehearsal {
    syncer: Arc<Syncer>,
    /// Why it is not known what was deleted before: then nothing is deleted.
    forgotten: Option<String>,
}

impl NodeLifecycleController {
    /// Reads which Nodes were deleted lately, and rehearses from then on. The store must be complete.
    pub async fn rehearsal(self) -> NodeLifecycleRehearsal {
        NodeLifecycleRehearsal::of(self.syncer).await
    }
}

impl NodeLifecycleRehearsal {
    pub(super) async fn of(syncer: Arc<Syncer>) -> Self {
        // It is made once: a right that is missing now is not waited for.
        let recalled = Recalled::begin(Duration::ZERO);
        let forgotten = recalled.recall(&syncer).await.err().map(|error| {
            format!("it is not known which Nodes were deleted lately, so none is deleted or tainted: {error}")
        });
        Self { syncer, forgotten }
    }

    /// Taints a Node whose machine is switched off, and deletes one whose machine is gone. The second proof is asked for at once.
    pub async fn rehearse(&self, name: &str) -> Rehearsed {
        let Self { syncer, forgotten } = self;
        let Some(node) = syncer.store.get(&ObjectRef::new(name)) else { return Rehearsed::default() };
        if !syncer.is_ours(&node) {
            return Rehearsed::default();
        }
        let is_ready = node_state(&node) != NodeState::NotReady;
        if let Some(why) = forgotten.as_ref().filter(|_| !is_ready) {
            return Rehearsed::unknown(why.as_str());
        }
        Box::pin(syncer.sync(name)).await;
        if is_ready {
            return self.tainted(name);
        }
        let period = syncer.budget.settings().period;
        let seen = syncer.memory.explained(&node, period);
        if seen.answer.as_deref() != Some(ABSENT) {
            return match (seen.answer.as_deref(), seen.failure) {
                (None, _) => Rehearsed::unknown(format!(
                    "it is not Ready and younger than {:?}: the host asks the cloud about its machine after that",
                    syncer.settings.min_age
                )),
                (Some(answer), _) if answer == Reaction::Elsewhere.as_str() => Rehearsed::default(),
                (Some(_), Some(failure)) => Rehearsed::unknown(failure),
                (Some(_), None) => self.tainted(name),
            };
        }
        if !syncer.may_delete(&node) {
            return Rehearsed::decided(
                "leave the Node: the cloud does not know its machine, and it has no provider ID",
            );
        }
        Box::pin(syncer.second_proof(Arc::clone(&node))).await;
        if syncer.memory.is_deleted(name) {
            return Rehearsed::decided("the cloud said twice that its machine does not exist");
        }
        let seen = syncer.memory.explained(&node, period);
        match (seen.held, seen.failure) {
            (Some(HeldDeletion { provider, limit, nodes, period_seconds }), _) => Rehearsed::unknown(format!(
                "its machine is gone, and its deletion has to wait: no more than {limit} of the {nodes} Nodes of {provider} are deleted \
                 within {period_seconds} s"
            )),
            (None, Some(failure)) => Rehearsed::unknown(failure),
            (None, None) if seen.answer.as_deref() == Some(ABSENT) => {
                Rehearsed::unknown("its machine is gone, and the API server did not take the deletion of the Node")
            }
            // The cloud has it again, or the Node is Ready, gone, or another one by now.
            (None, None) => self.tainted(name),
        }
    }

    /// The Node stays. Its taint is right, or it is not known how that ends.
    fn tainted(&self, name: &str) -> Rehearsed {
        match self.syncer.memory.wrong_taint(name) {
            Some(why) => Rehearsed::unknown(format!("its shutdown taint is wrong, and could not be corrected ({why})")),
            None => Rehearsed::default(),
        }
    }
}
