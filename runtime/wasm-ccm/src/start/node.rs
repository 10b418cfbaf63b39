//! The node controller.

use ccm_controllers::{NodeController, NodeControllerParts, NodeSettings};

use super::{Shared, recoveries};
use crate::tasks::Tasks;

/// Starts the node controller.
pub(super) fn start(tasks: &mut Tasks, shared: &Shared<'_>) {
    let args = shared.args;
    let nodes = &shared.stores.nodes;
    let controller = NodeController::new(NodeControllerParts {
        gate: shared.gate.clone(),
        store: nodes.reader(),
        first_list: nodes.first_list(),
        keys: nodes.subscribe(),
        lookups: shared.lookups.clone(),
        recoveries: shared.providers.iter().flat_map(|(slot, _)| recoveries(slot)).collect(),
        recorder: shared.recorder.clone(),
        metrics: shared.metrics.node.clone(),
        queue_metrics: shared.metrics.queue.clone(),
        settings: NodeSettings {
            concurrent_syncs: args.concurrent_node_syncs,
            concurrent_status_updates: args.concurrent_node_status_updates,
            refresh_interval: args.node_status_update_frequency,
            untaint_before_addresses: args.untaint_before_addresses,
            lookup_timeout: shared.lookup_timeout,
            unclaimed_after: args.node_unclaimed_after,
            ..NodeSettings::default()
        },
    });
    let stop = tasks.stop.clone();
    tasks.spawn_controller("node controller", controller.run(stop));
}
