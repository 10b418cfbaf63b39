//! Delays between tries.

use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBuilder};
use tokio::time::Instant;

/// Endless delays that double from `first` to `most`, with jitter of up to as much again, and none longer than `most`.
pub fn backoff(first: Duration, most: Duration) -> impl Iterator<Item = Duration> {
    let delays = ExponentialBuilder::new().with_min_delay(first).with_max_delay(most);
    delays.with_jitter().without_max_times().build().map(move |delay| delay.min(most))
}

/// Waits until then. Where nothing is due, that is for ever.
pub(crate) async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

/// When something that failed is tried again: later each time.
#[derive(Debug)]
pub(crate) struct Retry {
    first: Duration,
    most: Duration,
    /// How often in a row it failed.
    pub(crate) tries: usize,
    /// None: it is not tried again for now.
    pub(crate) due: Option<Instant>,
}

impl Retry {
    /// Nothing has failed yet. Delays grow from `first` to `most`.
    pub(crate) const fn between(first: Duration, most: Duration) -> Self {
        Self { first, most, tries: 0, due: None }
    }

    /// It is done.
    pub(crate) const fn end(&mut self) {
        (self.tries, self.due) = (0, None);
    }

    /// It is tried at once.
    pub(crate) fn now(&mut self) {
        self.due = Some(Instant::now());
    }

    /// It failed once more, and is tried after the next delay.
    pub(crate) fn later(&mut self) {
        self.due = Some(Instant::now() + self.next_delay());
    }

    /// It failed once more: how long to wait now.
    pub(crate) fn next_delay(&mut self) -> Duration {
        // By then all are the longest.
        let delay = backoff(self.first, self.most).nth(self.tries.min(32)).unwrap_or(self.most);
        self.tries += 1;
        delay
    }
}
