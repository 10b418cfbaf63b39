//! The DELETE of a Node.
//!
//! It is bound to the UID **and** the `resourceVersion` of the state that was judged. The UID alone would delete a Node that
//! has become Ready a moment ago. If a kubelet writes its status meanwhile, the request fails with a conflict. The Node is then
//! read from the API server and judged anew, and the next attempt follows at once: so little time lies between that it can
//! succeed even if the kubelet writes all the time. The newest state decides, also where the store lags behind.

use std::sync::Arc;

use ccm_apiserver::{ApiError, Purpose};
use kube::api::{DeleteParams, Preconditions};
use tokio::time::{Instant, timeout};

use super::node_state::{Identity, NodeState, node_state};
use crate::node::write::{Live, NodeWriter, WriteError};
use crate::store::Node;

const DELETE: Purpose = Purpose { verb: "delete", resource: "nodes" };

/// How a deletion ended well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Deletion {
    /// Deleted, by this request.
    Done,
    /// The Node is gone, another one, being deleted, or Ready.
    Unneeded,
    /// It took so long that the proof is none any more.
    Late,
}

impl NodeWriter {
    /// Deletes a Node whose machine is proven to be absent, as long as the proof is valid.
    pub(super) async fn delete(&self, node: Arc<Node>, valid_until: Instant) -> Result<Deletion, WriteError> {
        let identity = Identity::of(&node);
        let mut live = Live::new(node);
        loop {
            if node_state(&live.node) != NodeState::NotReady || Identity::of(&live.node) != identity {
                return Ok(Deletion::Unneeded);
            }
            let left = valid_until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Deletion::Late);
            }
            let owned = |text: &Option<Box<str>>| text.as_deref().map(str::to_owned);
            let (uid, resource_version) = (owned(&live.node.uid), owned(&live.node.resource_version));
            let preconditions = Preconditions { uid, resource_version };
            let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
            let name = live.node.name_any();
            let mut is_sent = false;
            let sending = Box::pin(async {
                is_sent = true;
                self.api.delete(&name, &params).await
            });
            // Other writes may take all places for longer than the proof is valid.
            let answered = timeout(left, self.gate.write(DELETE, sending)).await;
            // What is no Status has to be the Node, as it goes. Anything else is of something in between, and the Node may be there.
            let answered = answered.unwrap_or(Err(ApiError::TimedOut(left))).and_then(|answer| {
                let node = answer.left().map(|node| ApiError::unless_uid(node, |node| node.metadata.uid.as_deref()));
                node.transpose().map(drop)
            });
            match answered {
                Ok(()) => return Ok(Deletion::Done),
                Err(ApiError::TimedOut(_)) if !is_sent => return Ok(Deletion::Late),
                Err(error) => {
                    if self.after(error, &mut live).await?.is_some() {
                        return Ok(Deletion::Unneeded);
                    }
                }
            }
        }
    }
}
