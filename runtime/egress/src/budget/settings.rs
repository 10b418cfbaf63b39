//! Limits of an endpoint, and who goes first within them.

use std::num::{NonZeroU32, NonZeroUsize};
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use ccm_cloud::{Attributes, Descriptor};

/// How urgent a request is. The most urgent class goes first, whoever came first goes first within a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Changes to the cloud, and deletions.
    Write,
    /// What something new waits for, as a Node that is not initialised.
    Initialise,
    /// What only looks whether anything has changed.
    Refresh,
}

/// Something per [`Class`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PerClass<T> {
    pub write: T,
    pub initialise: T,
    pub refresh: T,
}

/// Limits of one endpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct BudgetSettings {
    /// Requests per second, on average. Default 50; so is what is not above zero. Infinity: as many as the burst.
    pub per_second: f64,
    /// Requests that may be sent at once after a quiet time. Default 250, at most 1,000,000.
    pub burst: NonZeroU32,
    /// Most requests in any minute. Default: what the provider says of its cloud; else as many as the others allow.
    pub per_minute: Option<NonZeroU32>,
    /// Most requests in any hour. Default: as [`per_minute`](Self::per_minute).
    pub per_hour: Option<NonZeroU32>,
    /// Most requests under way. Default 100.
    pub concurrency: NonZeroUsize,
    /// Longest wait for a turn. Default 10 s.
    pub max_wait: Duration,
    /// Percent of the limit that the cloud tells, kept for work more urgent than [`Class::Refresh`]. Default 10.
    pub reserve_percent: u8,
    /// Longest pause, whatever the cloud asks for. Default 5 min.
    pub max_pause: Duration,
    /// Failures in a row that open the breaker: no connection, no answer in time, 502, 503, 504. Default 5.
    pub breaker_failures: NonZeroU32,
    /// Least time that the breaker is open; jitter adds up to as much again. Default 1 s.
    pub breaker_pause_min: Duration,
    /// Most time between two probes while the breaker is open. Default 60 s.
    pub breaker_pause_max: Duration,
}

pub(super) const DEFAULT_PER_SECOND: f64 = 50.0;

impl Default for BudgetSettings {
    fn default() -> Self {
        Self {
            per_second: DEFAULT_PER_SECOND,
            burst: NonZeroU32::MIN.saturating_add(249),
            per_minute: None,
            per_hour: None,
            concurrency: NonZeroUsize::MIN.saturating_add(99),
            max_wait: Duration::from_secs(10),
            reserve_percent: 10,
            max_pause: Duration::from_mins(5),
            breaker_failures: NonZeroU32::MIN.saturating_add(4),
            breaker_pause_min: Duration::from_secs(1),
            breaker_pause_max: Duration::from_mins(1),
        }
    }
}

impl BudgetSettings {
    /// Takes the limits of the cloud, as the provider knows them, where the operator sets none.
    pub(crate) fn of_cloud(mut self, more: &Attributes) -> Self {
        let told = |name: &str| more.get(name).and_then(|text| text.parse::<NonZeroU32>().ok());
        self.per_minute = self.per_minute.or_else(|| told(Descriptor::REQUESTS_PER_MINUTE));
        self.per_hour = self.per_hour.or_else(|| told(Descriptor::REQUESTS_PER_HOUR));
        self
    }
}

pub(super) type Doubling = ExponentialBackoff;

/// Endless pauses that double from `min` to `max`, with jitter of up to as much again.
pub(super) fn doubling(min: Duration, max: Duration) -> Doubling {
    ExponentialBuilder::new().with_min_delay(min.min(max)).with_max_delay(max).with_jitter().without_max_times().build()
}
