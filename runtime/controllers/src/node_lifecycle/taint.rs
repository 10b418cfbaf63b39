//! Writing the shutdown taint. The new list is bound to the `resourceVersion` that it was made from, so no taint of another
//! writer is ever lost: after a conflict the Node is read from the API server, and everything is decided anew.

use std::sync::Arc;

use serde_json::{Value, json};

use super::node_state::{Identity, NodeState, ShutdownTaint, corrected_taints, node_state};
use crate::node::write::{Live, NodeWriter, PATCH, WriteError};
use crate::store::Node;

impl NodeWriter {
    /// Brings the shutdown taint to where it is wanted. Says whether that took a write.
    pub(super) async fn set_shutdown_taint(&self, node: Arc<Node>, wanted: ShutdownTaint) -> Result<bool, WriteError> {
        let identity = Identity::of(&node);
        let mut live = Live::new(node);
        loop {
            let is_valid = match wanted {
                // What the cloud said counts as long as the Node is not Ready and the same.
                ShutdownTaint::There => node_state(&live.node) == NodeState::NotReady,
                ShutdownTaint::Away => node_state(&live.node) != NodeState::Deleting,
            };
            let taints = corrected_taints(&live.node, wanted);
            let Some(taints) = taints.filter(|_| is_valid && identity == Identity::of(&live.node)) else {
                return Ok(false);
            };
            let taints = if taints.is_empty() { Value::Null } else { json!(taints) };
            let body =
                json!({ "metadata": { "resourceVersion": live.node.resource_version }, "spec": { "taints": taints } });
            match self.patch(PATCH, &live.node.name_any(), &body).await {
                Ok(_) => return Ok(true),
                Err(error) => {
                    if self.after(error, &mut live).await?.is_some() {
                        return Ok(false);
                    }
                }
            }
        }
    }
}
