//! What the log calls an object: as `kubectl` does.

use std::borrow::Cow;
use std::sync::Arc;

use kube::runtime::reflector::{Lookup, ObjectRef};

/// What work is about, in a line of the log.
pub(crate) trait ObjectName {
    /// `namespace/name`, or the name of what has no namespace.
    fn object_name(&self) -> String;

    /// Kind, namespace and name; the namespace is empty where there is none.
    fn parts(&self) -> (Cow<'_, str>, &str, &str);
}

impl<K: Lookup<DynamicType = ()>> ObjectName for ObjectRef<K> {
    fn object_name(&self) -> String {
        let Self { namespace, name, .. } = self;
        namespace.as_ref().map_or_else(|| name.clone(), |namespace| format!("{namespace}/{name}"))
    }

    fn parts(&self) -> (Cow<'_, str>, &str, &str) {
        (K::kind(&()), self.namespace.as_deref().unwrap_or_default(), &self.name)
    }
}

/// A provider.
impl ObjectName for Arc<str> {
    fn object_name(&self) -> String {
        self.to_string()
    }

    fn parts(&self) -> (Cow<'_, str>, &str, &str) {
        (Cow::Borrowed("Provider"), "", self)
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
