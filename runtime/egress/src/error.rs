//! Why a request has no answer. Every [`TransportError`] is made here.

mod client;

use std::sync::Arc;
use std::time::Duration;

use ccm_cloud::FailedRequest;

use crate::budget::{NoTurn, NoTurnReason};
use crate::memory::NoRoom;
use crate::redact::TooLarge;

pub(crate) use client::{causes, is_of_unknown_authority, no_answer};

/// Why there is no answer of the cloud.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TransportReason {
    /// The operator does not grant this endpoint, host, credential or header.
    Denied,
    /// The endpoint has no base URL, neither from the operator nor from a catalogue.
    Unbound,
    /// No such credential, or it has no value.
    UnknownCredential,
    /// No connection.
    Connect,
    /// No trust.
    Tls,
    /// No answer in time.
    Timeout,
    /// Request or response is larger than the limit.
    TooLarge,
    /// The call has no room for another answer; another call may have. The contract's word for it is `too-large`, too.
    CallFull,
    /// The host's own budget for this cloud is used up.
    Throttled,
    /// This call may not change the cloud.
    ReadOnly,
    /// Something else.
    Other,
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
    /// For people. No secrets, no bodies.
    pub message: String,
    /// The request: who shares the answer of another is told of the same one.
    pub(crate) failed: Option<Arc<FailedRequest>>,
}

impl TransportReason {
    /// The contract's name of it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Denied => "denied",
            Self::Unbound => "unbound",
            Self::UnknownCredential => "unknown-credential",
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Timeout => "timeout",
            Self::TooLarge | Self::CallFull => "too-large",
            Self::Throttled => "throttled",
            Self::ReadOnly => "read-only",
            Self::Other => "other",
        }
    }
}

/// Why a credential is not used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CredentialRefusal {
    /// No such credential, no value, or not of the kind that was asked for.
    #[error("{0}")]
    Unknown(String),
    /// Not declared for this place.
    #[error("{0}")]
    Denied(String),
}

impl TransportError {
    /// Nothing was sent.
    pub(crate) const fn unsent(reason: TransportReason, message: String) -> Self {
        Self { reason, maybe_sent: false, retry_after: None, message, failed: None }
    }

    /// Nothing was sent, because nobody grants it.
    pub(crate) const fn denied(message: String) -> Self {
        Self::unsent(TransportReason::Denied, message)
    }

    /// The request has more of something than it may have.
    pub(crate) const fn too_large(message: String) -> Self {
        Self::unsent(TransportReason::TooLarge, message)
    }

    /// The answers of a call have more than `most` bytes.
    pub(crate) fn call_full(most: usize) -> Self {
        let message = format!("the answers of this call have more than {most} bytes (limit call-response-bytes)");
        Self::unsent(TransportReason::CallFull, message).sent()
    }

    /// Something was sent.
    pub(crate) fn sent(self) -> Self {
        Self { maybe_sent: true, ..self }
    }

    /// With words in front of its message.
    pub(crate) fn after(self, what: &str) -> Self {
        Self { message: format!("{what}: {}", self.message), ..self }
    }

    /// Whether another call may fare better with the same request: it has more time, or more room.
    pub(crate) const fn is_of_one_call(&self) -> bool {
        matches!(self.reason, TransportReason::Timeout | TransportReason::Throttled | TransportReason::CallFull)
    }
}

impl From<CredentialRefusal> for TransportError {
    fn from(refusal: CredentialRefusal) -> Self {
        match refusal {
            CredentialRefusal::Unknown(why) => Self::unsent(TransportReason::UnknownCredential, why),
            CredentialRefusal::Denied(why) => Self::denied(why),
        }
    }
}

/// An answer that cannot be cleaned is not shown.
impl From<TooLarge> for TransportError {
    fn from(error: TooLarge) -> Self {
        Self::denied(error.to_string())
    }
}

/// Another call may find room for the same answer.
impl From<NoRoom> for TransportError {
    fn from(error: NoRoom) -> Self {
        Self::unsent(TransportReason::CallFull, error.to_string()).sent()
    }
}

impl From<NoTurn> for TransportError {
    fn from(no_turn: NoTurn) -> Self {
        let reason = match no_turn.reason {
            NoTurnReason::Throttled => TransportReason::Throttled,
            NoTurnReason::Open => TransportReason::Connect,
        };
        Self { retry_after: Some(no_turn.retry_after), ..Self::unsent(reason, no_turn.message) }
    }
}
