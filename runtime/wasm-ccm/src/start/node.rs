//! The node controller.

use ccm_controllers::{FirstList, NodeController, NodeControllerParts, NodeSettings, Reflector};
use k8s_openapi::api::core::v1::Node;

use super::{NODES, Shared};
use crate::serve::Readiness;
use crate::tasks::Tasks;

/// Starts the node controller, and what makes the process ready.
pub(super) fn start(tasks: &mut Tasks, shared: &Shared<'_>, nodes: &mut Reflector<Node>) {
    let args = shared.args;
    let controller = NodeController::new(NodeControllerParts {
        gate: shared.gate.clone(),
        store: nodes.reader(),
        first_list: nodes.first_list(),
        keys: nodes.subscribe(),
        lookups: shared.lookups.clone(),
        recoveries: shared.providers.iter().flat_map(|provider| provider.recoveries()).collect(),
        recorder: shared.recorder.clone(),
        metrics: shared.metrics.node.clone(),
        queue_metrics: shared.metrics.queue.clone(),
        settings: NodeSettings {
            concurrent_syncs: args.concurrent_node_syncs,
            concurrent_status_updates: args.concurrent_node_status_updates,
            refresh_interval: args.node_status_update_frequency,
            untaint_before_addresses: args.untaint_before_addresses,
            lookup_timeout: shared.lookup_timeout,
            ..NodeSettings::default()
        },
    });
    let stop = tasks.stop.clone();
    tasks.spawn_controller("node controller", controller.run(stop.clone()));
    let readiness = follow(nodes.first_list(), shared.readiness.clone());
    tasks.spawn_controller("readiness of Nodes", async move {
        stop.run_until_cancelled(readiness).await;
        stop.cancelled().await;
    });
}

/// Says how the list of Nodes stands until it is complete.
async fn follow(mut first_list: FirstList, readiness: Readiness) {
    while let Err(why) = first_list.state() {
        readiness.set(NODES, Err(why));
        if !first_list.changed().await {
            // The reflector is gone, which the process notices by itself.
            return;
        }
    }
    readiness.set(NODES, Ok(()));
}
