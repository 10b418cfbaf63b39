//! Why a request gets no turn.

use std::time::Duration;

/// What is said where no time is known.
pub(super) const SOON: Duration = Duration::from_secs(1);

/// Why a request got no turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NoTurnReason {
    /// Too many requests: by the cloud's own word, or by the settings.
    Throttled,
    /// The cloud does not answer.
    Open,
}

/// A request that got no turn; nothing was sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct NoTurn {
    /// Why.
    pub reason: NoTurnReason,
    /// When to try again, from now.
    pub retry_after: Duration,
    /// The host's own limit that is the reason, by its name; none where the cloud said so.
    pub limit: Option<&'static str>,
    /// For people.
    pub message: String,
}

impl NoTurn {
    pub(super) fn late() -> Self {
        let message = "no time is left for this request (limit call-time)".to_owned();
        Self { reason: NoTurnReason::Throttled, retry_after: SOON, limit: Some("call-time"), message }
    }
}
