//! An Event that is to be written, and what it is about.

use std::collections::BTreeMap;

use ccm_cloud::Severity;
use k8s_openapi::api::core::v1::ObjectReference;

/// An Event that is to be written.
#[derive(Debug, Clone)]
pub struct EventRequest {
    /// The object that it is about.
    pub about: ObjectReference,
    /// Its type.
    pub severity: Severity,
    /// CamelCase, for machines.
    pub reason: String,
    /// What was done, CamelCase.
    pub action: &'static str,
    /// For people. Cut to what the API server takes.
    pub message: String,
    /// The controller that says so.
    pub reporter: &'static str,
    /// For machines: annotations of the Event. They do not make it another one.
    pub annotations: BTreeMap<String, String>,
}

/// Reference to a Node, as Events carry it.
#[must_use]
pub fn node_reference(name: &str, uid: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".into()),
        kind: Some("Node".into()),
        name: Some(name.to_owned()),
        uid: Some(uid.to_owned()),
        ..ObjectReference::default()
    }
}

/// Reference to a Service, as Events carry it.
#[must_use]
pub fn service_reference(namespace: &str, name: &str, uid: &str) -> ObjectReference {
    ObjectReference { kind: Some("Service".into()), namespace: Some(namespace.to_owned()), ..node_reference(name, uid) }
}

/// What an Event is about: kind, namespace, name and UID.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Object([Option<String>; 4]);

impl Object {
    pub(crate) fn of(request: &EventRequest) -> Self {
        let about = &request.about;
        Self([about.kind.clone(), about.namespace.clone(), about.name.clone(), about.uid.clone()])
    }
}

/// The beginning of `text`, at most `max` bytes, with whole characters.
#[must_use]
pub fn cut(text: &str, max: usize) -> &str {
    text.get(..text.floor_char_boundary(max)).unwrap_or(text)
}
