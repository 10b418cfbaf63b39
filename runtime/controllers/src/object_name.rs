//! What the log calls an object: as `kubectl` does.

use std::sync::Arc;

use kube::runtime::reflector::{Lookup, ObjectRef};

/// What work is about, in a line of the log.
pub(crate) trait ObjectName {
    /// `namespace/name`, or the name of what has no namespace.
    fn object_name(&self) -> String;
}

impl<K: Lookup<DynamicType = ()>> ObjectName for ObjectRef<K> {
    fn object_name(&self) -> String {
        let Self { namespace, name, .. } = self;
        namespace.as_ref().map_or_else(|| name.clone(), |namespace| format!("{namespace}/{name}"))
    }
}

/// A provider.
impl ObjectName for Arc<str> {
    fn object_name(&self) -> String {
        self.to_string()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Service;

    use super::*;
    use crate::store::Node;

    #[test]
    fn an_object_is_called_in_the_log_what_kubectl_calls_it() {
        let service = ObjectRef::<Service>::new("web").within("shop");
        assert_eq!(
            (service.object_name().as_str(), ObjectRef::<Node>::new("n1").object_name().as_str()),
            ("shop/web", "n1")
        );
    }
}
