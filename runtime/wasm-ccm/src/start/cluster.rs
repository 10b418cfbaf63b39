//! The cluster controller.

use std::sync::Arc;

use ccm_cloud::{Capability, Cluster};
use ccm_controllers::{ClusterController, ClusterControllerParts, ClusterMember, ClusterNodes, ReflectorHandle};
use k8s_openapi::api::core::v1::Service;

use super::{Shared, recoveries};
use crate::tasks::Tasks;

/// Starts the cluster controller, if a provider looks after the cluster as a whole.
pub(super) fn start(tasks: &mut Tasks, shared: &Shared<'_>, services: &ReflectorHandle<Service>) {
    let nodes_told = if shared.providers.len() == 1 { ClusterNodes::All } else { ClusterNodes::Own };
    let able = shared.providers.iter().filter(|(provider, _)| provider.has(Capability::Cluster));
    let members: Vec<ClusterMember> = able
        .map(|(provider, _)| ClusterMember {
            cluster: Arc::new(provider.clone()) as Arc<dyn Cluster>,
            nodes: nodes_told,
            recoveries: recoveries(provider),
        })
        .collect();
    if members.is_empty() {
        return;
    }
    let nodes = &shared.stores.nodes;
    let controller = ClusterController::new(ClusterControllerParts {
        nodes: nodes.reader(),
        services: services.reader(),
        first_lists: [nodes.first_list(), services.first_list()],
        node_keys: nodes.subscribe(),
        service_keys: services.subscribe(),
        members,
        recorder: shared.recorder.clone(),
        metrics: shared.metrics.cluster.clone(),
        queue_metrics: shared.metrics.queue.clone(),
        settings: shared.args.cluster.settings(),
    });
    tasks.spawn_controller("cluster controller", controller.run(tasks.stop.clone()));
}
