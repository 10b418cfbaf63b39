//! The work on one Node, for a plan.

use std::sync::Arc;

use ccm_cloud::Reaction;
use kube::runtime::reflector::ObjectRef;
use tokio::sync::Semaphore;

use super::sync::{SyncError, Syncer};
use super::{NodeController, refresh};
use crate::queue::Verdict;
use crate::rehearsal::Rehearsed;
use crate::view::node::{is_uninitialized, provider_id};

/// A node controller that does its work only when it is asked to.
pub struct NodeRehearsal(Arc<Syncer>);

impl NodeController {
    /// Takes the Nodes that there are, and rehearses from then on. The store must be complete.
    #[must_use]
    pub fn rehearsal(self) -> NodeRehearsal {
        NodeRehearsal::of(self.syncer)
    }
}

impl NodeRehearsal {
    pub(super) fn of(syncer: Arc<Syncer>) -> Self {
        // Who has which address and which machine is known once all Nodes were seen.
        syncer.store.state().iter().for_each(|node| syncer.holders.note(node));
        Self(syncer)
    }

    /// Initialises a Node, or refreshes it.
    pub async fn rehearse(&self, name: &str) -> Rehearsed {
        let syncer = &self.0;
        let verdict = Box::pin(syncer.sync(name)).await;
        let Some(node) = syncer.store.get(&ObjectRef::new(name)) else { return Rehearsed::default() };
        // A provider may call a foreign ID a mistake. Whatever it says, nothing is written.
        let is_foreign = syncer.lookups.keeper(provider_id(&node)).is_none();
        let foreign = || Rehearsed::decided("do nothing: no provider here has this provider ID");
        if is_uninitialized(&node) {
            let failure = syncer.memory.known(&node).failure;
            return match failure {
                Some(failure) if failure.reaction == Reaction::Elsewhere.as_str() => {
                    Rehearsed::decided("do nothing: no provider here knows its machine")
                }
                Some(_) if is_foreign => foreign(),
                Some(failure) => Rehearsed::unknown(failure.message),
                None => Rehearsed::decided("initialise the Node"),
            };
        }
        if verdict != Verdict::Done {
            return Rehearsed::unknown("its labels cannot be decided, because the Node changes at this moment");
        }
        let writes = Semaphore::new(1);
        match refresh::refresh_node(syncer, node, &writes).await {
            (_, Err(_)) if is_foreign => foreign(),
            (_, Err(error)) if !error.is_elsewhere() => unknown(&error),
            _ => Rehearsed::default(),
        }
    }
}

fn unknown(error: &SyncError) -> Rehearsed {
    Rehearsed::unknown(error.to_string())
}
