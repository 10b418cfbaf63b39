//! What of a Node makes a route: pod CIDRs, addresses, provider ID. Heartbeats, images, labels and conditions, our own among them, wake
//! nobody. When routes are looked at is in [`waking`](crate::waking).

use crate::store::Node;
use crate::waking::{Changes, Watched, mark};

impl Changes for Watched<Node> {
    async fn next(&mut self) -> Option<bool> {
        let key = self.keys.recv().await?;
        Some(self.has_changed(key, routed))
    }

    fn saw_all(&mut self) {
        Self::saw_all(self, routed);
    }
}

fn routed(node: &Node) -> u64 {
    mark(&(&node.uid, &node.pod_cidrs, &node.provider_id, &node.addresses))
}
