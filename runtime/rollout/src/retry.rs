//! Delays between tries.

use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBuilder};

/// Endless delays that double from `first` to `most`, with jitter of up to as much again, and none longer than `most`.
pub fn backoff(first: Duration, most: Duration) -> impl Iterator<Item = Duration> {
    let delays = ExponentialBuilder::new().with_min_delay(first).with_max_delay(most);
    delays.with_jitter().without_max_times().build().map(move |delay| delay.min(most))
}

/// The delay after so many tries that failed, of those.
pub(crate) fn delay(first: Duration, most: Duration, tries: usize) -> Duration {
    // By then all are the longest.
    backoff(first, most).nth(tries.min(32)).unwrap_or(most)
}
