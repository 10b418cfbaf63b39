//! A Kubernetes Node as the cloud side sees it, and what the node controller looks at in it.

use std::sync::Arc;

use ccm_cloud::{Address, AddressKind, Described};

use crate::store::Node;

/// Kubelets of a cluster with an external cloud provider register with it.
pub const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";

/// What a lookup needs to know of a Node.
#[must_use]
pub fn cloud_node(node: &Node) -> ccm_cloud::Node {
    ccm_cloud::Node {
        name: node.name_any(),
        uid: node.uid.as_deref().unwrap_or_default().to_owned(),
        provider_id: provider_id(node).map(ToOwned::to_owned),
        system_uuid: node.system_uuid.as_ref().map(|uuid| uuid.to_lowercase()),
        addresses: addresses(node),
        labels: node.labels.to_map(),
        annotations: node.annotations.to_map(),
        capacity: node.capacity.to_map(),
        taints: node.taints.iter().map(|taint| taint.key.clone()).collect(),
        routed_cidrs: vec![],
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
    node.provider_id.as_deref()
}

/// Whether the Node waits for its initialisation, whatever the value and the effect of the taint.
#[must_use]
pub fn is_uninitialized(node: &Node) -> bool {
    node.taints.iter().any(|taint| taint.key == UNINITIALIZED)
}

/// Whether no manager is asked to initialise it: it has neither a provider ID nor the taint, as that of a kubelet without
/// `--cloud-provider=external`.
#[must_use]
pub fn asks_no_manager(node: &Node) -> bool {
    !node.is_deleting && provider_id(node).is_none() && !is_uninitialized(node)
}

/// `status.addresses`, without entries of kinds that Kubernetes does not define.
pub(crate) fn addresses(node: &Node) -> Vec<Address> {
    node.addresses.iter().filter_map(|(kind, value)| Some(Address::new(AddressKind::parse(kind)?, value))).collect()
}

/// Whether its kubelet says that all is well.
pub(crate) fn is_ready(node: &Node) -> bool {
    node.ready.as_deref() == Some("True")
}
