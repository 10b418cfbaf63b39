//! Limits of an endpoint, and who goes first within them.

use std::num::{NonZeroU32, NonZeroUsize};
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use ccm_cloud::Budget;

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
    /// Requests per second, on average. Default 50, or what the provider says of its cloud if that is less; so is what is not above
    /// zero. Infinity: as many as the burst.
    pub per_second: Option<f64>,
    /// Requests that may be sent at once after a quiet time, at most 1,000,000. Default 250, or as [`per_second`](Self::per_second).
    pub burst: Option<NonZeroU32>,
    /// Most requests in any minute. Default: what the provider says of its cloud; else as many as the others allow.
    pub per_minute: Option<NonZeroU32>,
    /// Most requests in any hour. Default as for [`per_minute`](Self::per_minute).
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
pub(super) const DEFAULT_BURST: NonZeroU32 = NonZeroU32::MIN.saturating_add(249);

impl Default for BudgetSettings {
    fn default() -> Self {
        Self {
            per_second: None,
            burst: None,
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
    /// Takes the limits of the cloud, as the provider knows them, where the operator sets none. A provider can ask for less than the
    /// defaults, and not for more.
    pub(crate) fn of_cloud(mut self, cloud: &Budget) -> Self {
        let rate = cloud.per_second.map(|most| f64::from(most.get()).min(DEFAULT_PER_SECOND));
        // An operator who sets the rate alone means no burst of the slower one.
        let burst = cloud.burst.or(cloud.per_second.filter(|_| self.per_second.is_none()));
        self.burst = self.burst.or(burst.map(|most| most.min(DEFAULT_BURST)));
        self.per_second = self.per_second.or(rate);
        self.per_minute = self.per_minute.or(cloud.per_minute);
        self.per_hour = self.per_hour.or(cloud.per_hour);
        self
    }

    /// Requests per second, with the default.
    pub(super) fn rate(&self) -> f64 {
        self.per_second.filter(|most| *most > 0.0).unwrap_or(DEFAULT_PER_SECOND)
    }
}

pub(super) type Doubling = ExponentialBackoff;

/// Endless pauses that double from `min` to `max`, with jitter of up to as much again.
pub(super) fn doubling(min: Duration, max: Duration) -> Doubling {
    ExponentialBuilder::new().with_min_delay(min.min(max)).with_max_delay(max).with_jitter().without_max_times().build()
}
