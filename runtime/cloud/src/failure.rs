//! Failures say what to do, not what happened.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::FailedRequest;

/// How the runtime reacts to a failure. The set is closed, as in the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reaction {
    /// Passing trouble: retry with back-off.
    Retry,
    /// The cloud asked for fewer calls: retry after [`Failure::retry_after`].
    Throttled,
    /// The cloud accepted the work and is still at it: look again after [`Failure::retry_after`].
    Pending,
    /// The credentials were refused: retry slowly, raise an alarm.
    Unauthorized,
    /// The Kubernetes object asks for something wrong: wait until it changes.
    Invalid,
    /// Somebody else changed or owns the thing: read again, then retry.
    Conflict,
    /// A limit of the account is reached: retry slowly.
    Quota,
    /// The provider or the cloud cannot do this.
    Unsupported,
    /// Another controller takes care of this object: leave it alone; not an error.
    Elsewhere,
}

impl Reaction {
    /// The contract's name of it, for log fields and metric labels.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::Throttled => "throttled",
            Self::Pending => "pending",
            Self::Unauthorized => "unauthorized",
            Self::Invalid => "invalid",
            Self::Conflict => "conflict",
            Self::Quota => "quota",
            Self::Unsupported => "unsupported",
            Self::Elsewhere => "elsewhere",
        }
    }
}

/// What went wrong, for people, and how to react, for the runtime.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{message}", place(.field.as_deref()))]
pub struct Failure {
    /// What the runtime does about it.
    pub reaction: Reaction,
    /// What was tried and what the cloud answered. No secrets, no bodies.
    pub message: String,
    /// When to try again, where the cloud or the provider knows.
    pub retry_after: Option<Duration>,
    /// The field of the Kubernetes object that is wrong, as a path.
    pub field: Option<String>,
    /// The request to the cloud behind it, where the host saw one fail.
    pub request: Option<Arc<FailedRequest>>,
}

impl Failure {
    /// A failure that says how to react and why, and nothing about time, field or request.
    pub fn new(reaction: Reaction, message: impl Into<String>) -> Self {
        Self { reaction, message: message.into(), retry_after: None, field: None, request: None }
    }

    /// A provider gave no answer to a call of this operation in time.
    #[must_use]
    pub fn unanswered(operation: &str, provider: &str, limit: Duration) -> Self {
        Self::new(Reaction::Retry, format!("{operation} of {provider}: no answer within {limit:?}"))
    }
}

/// The field, where there is one: what must be mended is named wherever the failure is shown.
fn place(field: Option<&str>) -> String {
    field.map(|field| format!("{field}: ")).unwrap_or_default()
}

/// Why a whole lookup of instances gave no findings.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FindError {
    /// The provider answered, with a failure that holds for every node of the call.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// The provider gave no answer: a trap, no answer in time, an answer that breaks the contract. One node of the call may
    /// be the reason, so smaller calls may succeed.
    #[error("{0}")]
    Crashed(Failure),
}

impl FindError {
    /// The failure, whichever way it came.
    #[must_use]
    pub fn into_failure(self) -> Failure {
        match self {
            Self::Failed(failure) | Self::Crashed(failure) => failure,
        }
    }
}

/// Something wrong in the configuration or in an object that does not stop anything by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// `metadata.annotations[...]` of an object, or `file:section.key` of a setting.
    pub field: String,
    /// What is wrong and what would be right.
    pub message: String,
    /// True when it will be refused; false when the work goes on without what was asked.
    pub fatal: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It once was shown without the field, so that nobody learned which annotation to mend.
    #[test]
    fn a_failure_names_the_field_that_is_wrong() {
        let mut failure = Failure::new(Reaction::Invalid, "must be one of `a`, `b`");
        assert_eq!(failure.to_string(), "must be one of `a`, `b`");
        failure.field = Some("metadata.annotations[x]".into());
        assert_eq!(failure.to_string(), "metadata.annotations[x]: must be one of `a`, `b`");
    }
}
