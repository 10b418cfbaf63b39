//! The import `http`. No endpoint can be granted by this version of the host, so every request is refused before a byte
//! leaves the process.

use std::time::Duration;

/// Why there is no answer of the cloud.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TransportReason {
    /// The operator does not grant this endpoint.
    Denied,
}

/// No answer of the cloud.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TransportError {
    /// Why.
    pub reason: TransportReason,
    /// False when it is certain that no byte reached the cloud.
    pub maybe_sent: bool,
    /// When to try again, where that is known.
    pub retry_after: Option<Duration>,
    /// For people.
    pub message: String,
}

/// Refuses a request to `endpoint`.
///
/// # Errors
///
/// Always: [`TransportReason::Denied`].
pub fn send(endpoint: &str) -> Result<std::convert::Infallible, TransportError> {
    Err(TransportError {
        reason: TransportReason::Denied,
        maybe_sent: false,
        retry_after: None,
        message: format!("endpoint {endpoint:?} is not granted: this version of wasm-ccm has no way to grant one"),
    })
}
