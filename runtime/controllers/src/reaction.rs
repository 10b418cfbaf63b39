//! What follows from a failure: when the key runs again.
//!
//! | reaction | next run |
//! |---|---|
//! | `retry`, `conflict`, `throttled`, `pending` | after `retry-after` when it is said, 1 to 1,000 s, else the back-off of the key |
//! | `unauthorized`, `quota`, `unsupported` | slowly |
//! | `invalid` | when the object changes |
//! | `elsewhere` | when the object changes; not an error |
//!
//! Slow retries have no part that is left to chance: nodes that failed together ask again together, in one batch.

use std::time::Duration;

use ccm_apiserver::ApiError;
use ccm_cloud::{Failure, Reaction};

use crate::queue::Verdict;

/// Shortest wait that a provider or the API server can ask for: a provider that says "now" for ever must not keep the host busy.
const MIN_RETRY_AFTER: Duration = Duration::from_secs(1);
/// Longest wait that they can ask for; the longest back-off.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(1_000);
/// Slow retries are not faster than this, whatever is set.
pub const MIN_SLOW_RETRY: Duration = Duration::from_secs(30);

/// When to run again after `failure`; `slow` is the delay of what people have to repair.
pub(crate) fn verdict(failure: &Failure, slow: Duration) -> Verdict {
    let asked = failure.retry_after.map(bounded);
    match failure.reaction {
        Reaction::Retry | Reaction::Conflict | Reaction::Throttled | Reaction::Pending => {
            asked.map_or(Verdict::Backoff, Verdict::After)
        }
        Reaction::Unauthorized | Reaction::Quota | Reaction::Unsupported => {
            let slow = slow.max(MIN_SLOW_RETRY);
            Verdict::After(asked.map_or(slow, |asked| asked.max(slow)))
        }
        Reaction::Invalid | Reaction::Elsewhere => Verdict::Change,
    }
}

/// When to run again after the API server did not take a request; `slow` is the delay of what people have to repair.
pub(crate) fn after_api_error(error: &ApiError, slow: Duration) -> Verdict {
    match error {
        error if error.is_denied() => Verdict::Backoff,
        ApiError::Refused { .. } | ApiError::Closed => Verdict::After(slow.max(MIN_SLOW_RETRY)),
        ApiError::Unavailable { retry_after: Some(after), .. } => Verdict::After(bounded(*after)),
        _ => Verdict::Backoff,
    }
}

/// A delay that somebody else asks for, within our bounds.
pub(crate) fn bounded(after: Duration) -> Duration {
    after.clamp(MIN_RETRY_AFTER, MAX_RETRY_AFTER)
}

/// Whether a failure leaves open how the cloud stands. Others are an answer about the object itself: asking once more would not
/// give another one.
pub(crate) const fn leaves_open(reaction: Reaction) -> bool {
    match reaction {
        Reaction::Retry | Reaction::Throttled | Reaction::Unauthorized | Reaction::Quota => true,
        Reaction::Pending | Reaction::Invalid | Reaction::Conflict | Reaction::Unsupported | Reaction::Elsewhere => {
            false
        }
    }
}

/// The same as [`verdict`], for people.
pub(crate) fn describe(verdict: Verdict) -> String {
    match verdict {
        Verdict::Done => "nothing more is done".into(),
        Verdict::Backoff => "retried with back-off".into(),
        Verdict::After(delay) => format!("retried in {delay:?}"),
        Verdict::Change => "not retried before the object changes".into(),
    }
}
