//! The service controller.

use ccm_cloud::Capability;
use ccm_controllers::{ReflectorHandle, ServiceController, ServiceControllerParts};
use k8s_openapi::api::core::v1::Service;

use super::{Shared, balancing};
use crate::tasks::Tasks;

/// Starts the service controller. Where no provider makes load balancers, it says so of Services that have one.
pub(super) fn start(tasks: &mut Tasks, shared: &Shared<'_>, services: &ReflectorHandle<Service>) {
    let members = balancing(&shared.providers);
    if members.is_empty() {
        tracing::info!("no provider offers load balancers with its configuration: Services are left alone");
    }
    let able = shared.providers.iter().filter(|(provider, _)| provider.has(Capability::LoadBalancers));
    let nodes = &shared.stores.nodes;
    let controller = ServiceController::new(ServiceControllerParts {
        gate: shared.gate.clone(),
        services: services.reader(),
        services_listed: services.first_list(),
        service_keys: services.subscribe(),
        nodes: nodes.reader(),
        nodes_listed: nodes.first_list(),
        node_keys: nodes.subscribe(),
        members,
        recoveries: able.clone().map(|(slot, _)| slot.recoveries()).collect(),
        exchanges: able.map(|(slot, _)| slot.generations()).collect(),
        recorder: shared.recorder.clone(),
        metrics: shared.metrics.service.clone(),
        queue_metrics: shared.metrics.queue.clone(),
        settings: shared.args.service.settings(),
    });
    tasks.spawn_controller("service controller", controller.run(tasks.stop.clone()));
}
