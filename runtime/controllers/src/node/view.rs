//! A Kubernetes Node as the cloud side sees it, and what the node controller looks at in it.

use std::sync::Arc;

use ccm_cloud::{Attributes, Described};
use k8s_openapi::api::core::v1::{Node, Taint};

use super::addresses;

/// Kubelets of a cluster with an external cloud provider register with it.
pub(crate) const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";

/// What a lookup needs to know of a Node.
pub(crate) fn cloud_node(node: &Node) -> ccm_cloud::Node {
    let metadata = &node.metadata;
    let status = node.status.as_ref();
    let capacity = status.and_then(|status| status.capacity.as_ref());
    let quantity = |name: &str| Some((name.to_owned(), capacity?.get(name)?.0.clone()));
    ccm_cloud::Node {
        name: metadata.name.clone().unwrap_or_default(),
        uid: metadata.uid.clone().unwrap_or_default(),
        provider_id: provider_id(node).map(ToOwned::to_owned),
        system_uuid: status
            .and_then(|status| status.node_info.as_ref())
            .map(|info| info.system_uuid.to_lowercase())
            .filter(|uuid| !uuid.is_empty()),
        addresses: addresses::current(node),
        labels: metadata.labels.clone().unwrap_or_default(),
        annotations: metadata.annotations.clone().unwrap_or_default(),
        capacity: ["cpu", "memory"].into_iter().filter_map(quantity).collect::<Attributes>(),
        taints: taints(node).iter().map(|taint| taint.key.clone()).collect(),
    }
}

/// A Node as the store has it, for a lookup that waits.
pub(crate) struct Waiting(pub(crate) Arc<Node>);

impl Described for Waiting {
    fn provider_id(&self) -> Option<&str> {
        provider_id(&self.0)
    }

    fn describe(&self) -> ccm_cloud::Node {
        cloud_node(&self.0)
    }
}

/// `spec.providerID`, where it says anything.
pub(crate) fn provider_id(node: &Node) -> Option<&str> {
    node.spec.as_ref()?.provider_id.as_deref().filter(|id| !id.is_empty())
}

pub(crate) fn taints(node: &Node) -> &[Taint] {
    node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default()
}

/// Whether the Node waits for its initialisation, whatever the value and the effect of the taint.
pub(crate) fn is_uninitialized(node: &Node) -> bool {
    taints(node).iter().any(|taint| taint.key == UNINITIALIZED)
}
