//! Until the service controller brings its own.

use k8s_openapi::api::core::v1::Service;

pub(super) fn cloud_service(service: &Service) -> ccm_cloud::Service {
    let metadata = &service.metadata;
    let spec = service.spec.clone().unwrap_or_default();
    ccm_cloud::Service {
        name: metadata.name.clone().unwrap_or_default(),
        namespace: metadata.namespace.clone().unwrap_or_default(),
        uid: metadata.uid.clone().unwrap_or_default(),
        deleting: metadata.deletion_timestamp.is_some(),
        labels: metadata.labels.clone().unwrap_or_default(),
        annotations: metadata.annotations.clone().unwrap_or_default(),
        ports: spec
            .ports
            .unwrap_or_default()
            .into_iter()
            .map(|port| ccm_cloud::ServicePort {
                name: port.name.unwrap_or_default(),
                port: u16::try_from(port.port).unwrap_or_default(),
                node_port: port.node_port.and_then(|port| u16::try_from(port).ok()),
                ..ccm_cloud::ServicePort::default()
            })
            .collect(),
        ..ccm_cloud::Service::default()
    }
}
