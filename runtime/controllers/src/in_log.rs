//! What the log calls an object: as `kubectl` does.

use std::sync::Arc;

use kube::runtime::reflector::{Lookup, ObjectRef};

/// What work is about, in a line of the log.
pub(crate) trait InLog {
    /// `namespace/name`, or the name of what has no namespace.
    fn in_log(&self) -> String;
}

impl<K: Lookup<DynamicType = ()>> InLog for ObjectRef<K> {
    fn in_log(&self) -> String {
        let Self { namespace, name, .. } = self;
        namespace.as_ref().map_or_else(|| name.clone(), |namespace| format!("{namespace}/{name}"))
    }
}

/// A provider.
impl InLog for Arc<str> {
    fn in_log(&self) -> String {
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
        assert_eq!((service.in_log().as_str(), ObjectRef::<Node>::new("n1").in_log().as_str()), ("shop/web", "n1"));
    }
}
