//! The second proof: before the host deletes a Node, it asks the cloud once more about its machine, and the answer must be a proof.

use std::collections::HashSet;
use std::sync::Arc;

use ccm_cloud::Need;
use tokio::time::Instant;

use super::{Syncer, after, uid};
use crate::node_lifecycle::deletion_budget::DeletionRefusal;
use crate::queue::Verdict;
use crate::store::Node;

impl Syncer {
    /// The cloud has said that the machine is absent. Only who may delete asks for a proof, which costs the cloud more.
    pub(in crate::node_lifecycle) async fn second_proof(&self, node: Arc<Node>) -> Verdict {
        let name = node.name_any();
        let Some(keeper) = self.keeper(&node) else {
            // Its provider was exchanged at this moment.
            return after(self.memory.postponed(&name, Instant::now()));
        };
        let others = |gone: &HashSet<&str>| {
            let nodes = self.store.state();
            nodes.iter().filter(|node| self.keeper(node) == Some(keeper) && !gone.contains(uid(node))).count()
        };
        match self.budget.reserve(keeper, &name, uid(&node), others, Instant::now()) {
            Ok(grant) => {
                let answer = self.ask(&node, Need::Proof).await;
                let Some(node) = self.unless_changed(&node) else { return Verdict::Done };
                match self.present(&node, answer).await {
                    Some(verdict) => verdict,
                    None => self.delete(&node, grant).await,
                }
            }
            Err(DeletionRefusal::Busy) => after(self.memory.postponed(&name, Instant::now())),
            Err(DeletionRefusal::Spent(spent)) => {
                let answer = self.ask(&node, Need::Existence).await;
                let Some(node) = self.unless_changed(&node) else { return Verdict::Done };
                match self.present(&node, answer).await {
                    Some(verdict) => verdict,
                    None => self.hold(&node, keeper, spent).await,
                }
            }
        }
    }
}
