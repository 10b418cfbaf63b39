//! Services by namespace and name, as they stand in the queue.

use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt as _;
use kube::runtime::reflector::ObjectRef;
use tokio::sync::mpsc;

/// A Service by namespace and name.
pub(crate) type Key = ObjectRef<Service>;

/// The key of a Service.
pub(crate) fn key(service: &Service) -> Key {
    ObjectRef::new(&service.name_any()).within(service.metadata.namespace.as_deref().unwrap_or_default())
}

/// Puts keys into the queue. False when nobody takes them any more.
pub(crate) async fn send(queue: &mpsc::Sender<Key>, keys: Vec<Key>) -> bool {
    for key in keys {
        if queue.send(key).await.is_err() {
            return false;
        }
    }
    true
}
