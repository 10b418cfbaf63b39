//! Kubernetes Events, as a provider asks for them.

/// How an Event is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Type `Normal`.
    Normal,
    /// Type `Warning`.
    Warning,
}

/// What an Event is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// A Node, by name and UID.
    Node {
        /// `metadata.name`
        name: String,
        /// `metadata.uid`
        uid: String,
    },
    /// A Service.
    Service {
        /// `metadata.namespace`
        namespace: String,
        /// `metadata.name`
        name: String,
        /// `metadata.uid`
        uid: String,
    },
    /// The provider itself.
    Provider,
}

/// Takes the Events that a provider emits.
pub trait EventSink: Send + Sync + 'static {
    /// Takes an Event, at once: the sink queues it, within bounds, or counts it as dropped.
    fn emit(&self, about: Subject, severity: Severity, reason: String, message: String);
}
