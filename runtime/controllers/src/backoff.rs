//! The bound of a back-off with jitter.

use std::time::Duration;

/// Keeps a delay, which chance makes up to twice as long, within the longest one. Those beyond are spread over the tenth below it:
/// what failed together does not come back together.
pub(crate) fn capped(delay: Duration, longest: Duration) -> Duration {
    let beyond = delay.saturating_sub(longest).min(longest);
    delay.min(longest) - beyond / 10
}
