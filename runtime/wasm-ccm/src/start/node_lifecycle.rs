//! The node lifecycle controller.

use ccm_controllers::{NodeLifecycleController, NodeLifecycleParts, NodeLifecycleSettings};

use super::{Shared, recoveries};
use crate::tasks::Tasks;

/// Starts the node lifecycle controller.
pub(super) fn start(tasks: &mut Tasks, shared: &Shared<'_>) {
    let args = shared.args;
    let nodes = &shared.stores.nodes;
    let controller = NodeLifecycleController::new(NodeLifecycleParts {
        gate: shared.gate.clone(),
        store: nodes.reader(),
        keys: nodes.subscribe(),
        lookups: shared.lookups.clone(),
        recoveries: shared.providers.iter().flat_map(|(slot, _)| recoveries(slot)).collect(),
        recorder: shared.recorder.clone(),
        metrics: shared.metrics.node_lifecycle.clone(),
        queue_metrics: shared.metrics.queue.clone(),
        settings: NodeLifecycleSettings {
            concurrent_writes: args.concurrent_node_syncs,
            lookup_timeout: shared.lookup_timeout,
            ..args.node_lifecycle.settings()
        },
    });
    tasks.spawn_controller("node lifecycle controller", controller.run(tasks.stop.clone()));
}
