//! What a Node is told: its condition NetworkUnavailable.
//!
//! | routes of its pod CIDRs | condition |
//! |---|---|
//! | all in place | False, `RouteCreated` |
//! | one is not | True, `NoRouteCreated` |
//! | one waits for the Node's provider ID, or is not this provider's work | left as it is |

use ccm_apiserver::{ApiError, Purpose};
use ccm_cloud::Reaction;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::plan::CidrStatus;
use crate::node::write::NodeWriter;
use crate::store::Node;
use crate::view::node::cloud_node;

const PATCH_STATUS: Purpose = Purpose { verb: "patch", resource: "nodes/status" };

/// The condition, with upstream's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Network {
    Available,
    Unavailable,
}

/// A Node for a question about routes: with its pod CIDRs, where it was told that all of them have routes.
#[must_use]
pub fn routed_node(node: &Node) -> ccm_cloud::Node {
    let is_told = Network::Available.is_said(node);
    let routed_cidrs = if is_told { node.pod_cidrs.iter().map(ToString::to_string).collect() } else { vec![] };
    ccm_cloud::Node { routed_cidrs, ..cloud_node(node) }
}

/// Whether the condition is one of a route controller: ours, or the one of another cloud controller manager, which has the same words.
#[must_use]
pub fn has_route_condition(node: &Node) -> bool {
    [Network::Available, Network::Unavailable].into_iter().any(|network| network.is_said(node))
}

impl Network {
    const fn status(self) -> &'static str {
        match self {
            Self::Available => "False",
            Self::Unavailable => "True",
        }
    }

    const fn reason(self) -> &'static str {
        match self {
            Self::Available => "RouteCreated",
            Self::Unavailable => "NoRouteCreated",
        }
    }

    const fn message(self) -> &'static str {
        match self {
            Self::Available => "RouteController created a route",
            Self::Unavailable => "RouteController failed to create a route",
        }
    }

    /// Whether the Node says so already. The words of another program, such as a network plugin, are replaced, as upstream does.
    fn is_said(self, node: &Node) -> bool {
        let said = node.network_unavailable.as_ref();
        said.is_some_and(|(status, reason)| **status == *self.status() && **reason == *self.reason())
    }

    fn body(self, node: &Node, now: Timestamp) -> Value {
        // Kubernetes has whole seconds.
        let now = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        json!({
            // Not those of another Node of this name.
            "metadata": { "uid": node.uid },
            "status": { "conditions": [{
                "type": "NetworkUnavailable",
                "status": self.status(),
                "reason": self.reason(),
                "message": self.message(),
                "lastTransitionTime": now,
                "lastHeartbeatTime": now,
            }]},
        })
    }
}

/// What follows for a Node from how the routes of all its pod CIDRs stand; none when it is left as it is.
pub(super) fn network<'a>(statuses: impl Iterator<Item = &'a CidrStatus>) -> Option<Network> {
    let mut network = None;
    for status in statuses {
        match status {
            CidrStatus::Waits => return None,
            CidrStatus::Failed(failure) if failure.reaction == Reaction::Elsewhere => return None,
            CidrStatus::InPlace => {
                network.get_or_insert(Network::Available);
            }
            CidrStatus::Pending | CidrStatus::Wanted | CidrStatus::Failed(_) => network = Some(Network::Unavailable),
        }
    }
    network
}

impl NodeWriter {
    /// Writes the condition, unless it is so already. Says whether that took a write; a Node that is gone takes none.
    pub(super) async fn set_network(&self, node: &Node, network: Network) -> Result<bool, ApiError> {
        if network.is_said(node) {
            return Ok(false);
        }
        match self.patch(PATCH_STATUS, &node.name_any(), &network.body(node, Timestamp::now())).await {
            Ok(_) => Ok(true),
            // Gone, or another Node of the name by now, which is seen in its own time.
            Err(ApiError::NotFound | ApiError::Conflict) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
