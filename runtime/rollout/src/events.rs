//! Events about providers being loaded, refused and rolled back: at the ConfigMap that they come from, else at the host's pod.

use ccm_apiserver::{EventRecorder, EventRequest};
use ccm_cloud::Severity;
use k8s_openapi::api::core::v1::ObjectReference;

use crate::source::Source;

/// Tells them.
#[derive(Clone)]
pub(crate) struct ProviderEvents {
    recorder: EventRecorder,
    pod: Option<ObjectReference>,
}

impl ProviderEvents {
    /// `pod`: see [`host_pod`].
    pub(crate) const fn new(recorder: EventRecorder, pod: Option<ObjectReference>) -> Self {
        Self { recorder, pod }
    }

    /// Tells one, where there is an object to tell it at.
    pub(crate) async fn tell(
        &self,
        source: &Source,
        uid: Option<&str>,
        severity: Severity,
        reason: &str,
        message: String,
    ) {
        let about = match source {
            Source::ConfigMap { namespace, name, .. } => Some(ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("ConfigMap".to_owned()),
                namespace: Some(namespace.clone()),
                name: Some(name.clone()),
                uid: uid.map(ToOwned::to_owned),
                ..ObjectReference::default()
            }),
            Source::Path(_) => self.pod.clone(),
        };
        let Some(about) = about else { return };
        let (reason, action, reporter, annotations) =
            (reason.to_owned(), "LoadProvider", "wasm-ccm", Default::default());
        self.recorder.record(EventRequest { about, severity, reason, action, message, reporter, annotations }).await;
    }
}

/// The pod that this process is in, as the manifest says it: `POD_NAMESPACE`, `POD_NAME` and `POD_UID`.
pub fn host_pod(variable: impl Fn(&str) -> Option<String>) -> Option<ObjectReference> {
    let variable = |name| variable(name).filter(|value| !value.is_empty());
    Some(ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        namespace: Some(variable("POD_NAMESPACE")?),
        name: Some(variable("POD_NAME")?),
        uid: variable("POD_UID"),
        ..ObjectReference::default()
    })
}
