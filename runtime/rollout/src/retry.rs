//! Delays between tries.

use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBuilder};

/// Endless delays that double from `first` to `most`, with jitter.
pub fn backoff(first: Duration, most: Duration) -> impl Iterator<Item = Duration> {
    ExponentialBuilder::new().with_min_delay(first).with_max_delay(most).with_jitter().without_max_times().build()
}
