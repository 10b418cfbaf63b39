//! What a request to the API server is, and why it had no effect.

use std::sync::Arc;
use std::time::Duration;

use crate::api_status;
use crate::events::cut;

/// Most bytes that are told of an answer without a Status: it may be a page for people, of something in between.
const MAX_FOREIGN: usize = 300;

/// Why a request had no effect, or none that is known.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ApiError {
    /// This process may not write: it is not the leader.
    #[error("not sent: this process may not write now, another one may be the leader")]
    Closed,
    /// The request may or may not have had its effect.
    #[error("no answer from the API server within {0:?}")]
    TimedOut(Duration),
    /// The object is another than the one that was read.
    #[error("the object was changed by somebody else at the same time")]
    Conflict,
    /// An object of this name exists already.
    #[error("an object of this name exists already")]
    AlreadyExists,
    /// There is no such object.
    #[error("the object does not exist")]
    NotFound,
    /// The namespace is being deleted and takes nothing new, or is gone.
    #[error("the namespace is being deleted, or is gone: {0}")]
    NamespaceEnding(String),
    /// A right is lacking, or seems to: an API server that has just started says so before it has read the rules.
    #[error("refused by the API server ({code} {reason}): {message}")]
    Denied {
        /// HTTP status.
        code: u16,
        /// The API server's word for it.
        reason: String,
        /// The API server's text.
        message: String,
    },
    /// The same request will be refused again.
    #[error("refused by the API server ({code} {reason}): {message}")]
    Refused {
        /// HTTP status.
        code: u16,
        /// The API server's word for it.
        reason: String,
        /// The API server's text.
        message: String,
    },
    /// The same request may work later. So it may where something in between answered, whatever its status.
    #[error("the API server cannot serve this now ({code}): {message}")]
    Unavailable {
        /// HTTP status.
        code: u16,
        /// The API server's text.
        message: String,
        /// When it wants to be asked again.
        retry_after: Option<Duration>,
    },
    /// No answer, or none that can be read.
    #[error("no usable answer from the API server: {0:#}")]
    Transport(Arc<kube::Error>),
}

impl ApiError {
    /// An object that was read or written, if it has a UID. An answer without one is of something in between, and says nothing of the object:
    /// whoever took it for another object would take this one for gone, and whoever took it for the written one would not write it again.
    ///
    /// # Errors
    ///
    /// It has none.
    pub fn unless_uid<T>(object: T, uid: impl FnOnce(&T) -> Option<&str>) -> Result<T, Self> {
        if uid(&object).is_some_and(|uid| !uid.is_empty()) {
            return Ok(object);
        }
        let missing = <serde_json::Error as serde::de::Error>::missing_field("metadata.uid");
        Err(Self::Transport(Arc::new(kube::Error::SerdeError(missing))))
    }

    /// Whether the request may have had its effect all the same.
    #[must_use]
    pub const fn is_unanswered(&self) -> bool {
        matches!(self, Self::TimedOut(_) | Self::Transport(_) | Self::Unavailable { .. })
    }

    /// Whether the API server is there, and said no.
    #[must_use]
    pub const fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused { .. } | Self::Denied { .. } | Self::NamespaceEnding(_) | Self::Conflict)
    }

    /// Whether a right is lacking, or seems to.
    #[must_use]
    pub const fn is_denied(&self) -> bool {
        matches!(self, Self::Denied { .. })
    }

    /// For metrics.
    #[must_use]
    pub const fn outcome(&self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::TimedOut(_) => "timeout",
            Self::Conflict | Self::AlreadyExists => "conflict",
            Self::NotFound => "not_found",
            Self::Refused { .. } | Self::Denied { .. } | Self::NamespaceEnding(_) => "refused",
            Self::Unavailable { .. } => "unavailable",
            Self::Transport(_) => "transport",
        }
    }
}

impl From<kube::Error> for ApiError {
    fn from(error: kube::Error) -> Self {
        let kube::Error::Api(status) = error else { return Self::Transport(Arc::new(error)) };
        if !api_status::is_answer(&status) {
            // An API server that has too much to do says so in plain text.
            let message = format!("an answer without a Status: {}", cut(&status.message, MAX_FOREIGN));
            return Self::Unavailable { code: status.code, message, retry_after: None };
        }
        let is_right = api_status::lacks_right(&status);
        if api_status::is_object_missing(&status) {
            return Self::NotFound;
        }
        if api_status::is_namespace_ending(&status) {
            return Self::NamespaceEnding(status.message);
        }
        if status.is_already_exists() {
            return Self::AlreadyExists;
        }
        let (code, reason, message) = (status.code, status.reason, status.message);
        match code {
            409 => Self::Conflict,
            // A 404 that names no object is of something in between, or of an API server that does not serve this yet.
            404 | 429 | 500.. => {
                let seconds = status.details.map_or(0, |details| details.retry_after_seconds);
                let retry_after = (seconds > 0).then(|| Duration::from_secs(seconds.into()));
                Self::Unavailable { code, message, retry_after }
            }
            401 => Self::Denied { code, reason, message },
            // Mostly an upgrade with the rights of the version before.
            _ if is_right => {
                Self::Denied { code, reason, message: message + "; manifests/base/rbac.yaml has the rights" }
            }
            _ => Self::Refused { code, reason, message },
        }
    }
}

/// What a request does to which resource, for metrics.
#[derive(Debug, Clone, Copy)]
pub struct Purpose {
    /// As in RBAC.
    pub verb: &'static str,
    /// Its plural.
    pub resource: &'static str,
}
