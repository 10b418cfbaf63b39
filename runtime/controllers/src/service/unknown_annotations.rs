//! Annotations of a Service that look like its provider's, and are none.

use ccm_cloud::{Descriptor, Severity};
use k8s_openapi::api::core::v1::Service;

use super::report::Reporter;
use crate::unknown_annotations::{self, Unknown};

/// Annotations of a Service that the provider does not know, although their names begin like those that it declares.
pub(crate) fn unknown(service: &Service, descriptor: &Descriptor) -> Vec<Unknown> {
    let names = service.metadata.annotations.iter().flatten().map(|(name, _)| name.as_str());
    unknown_annotations::unknown(names, descriptor)
}

impl Reporter<'_> {
    /// Says once which annotations the provider does not know.
    pub(crate) async fn unknown_annotations(&self, service: &Service, descriptor: &Descriptor) {
        let message = unknown_annotations::told(unknown(service, descriptor));
        if self.is_unknown_news(&message) && !message.is_empty() {
            tracing::warn!("{message}");
            self.event(Severity::Warning, "LoadBalancerAnnotationUnknown", message).await;
        }
    }
}
