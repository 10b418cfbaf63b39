//! The circuit breaker: stops asking a cloud that does not answer.

use std::time::Duration;

use tokio::time::Instant;

use super::settings::{BudgetSettings, Doubling, doubling};

struct Open {
    until: Instant,
    pauses: Doubling,
}

/// Opens after some failures in a row, closes with the first success after the pause.
pub(super) struct Breaker {
    threshold: u32,
    pause_min: Duration,
    pause_max: Duration,
    failures: u32,
    open: Option<Open>,
}

impl Breaker {
    pub(super) fn new(settings: &BudgetSettings) -> Self {
        Self {
            threshold: settings.breaker_failures.get(),
            pause_min: settings.breaker_pause_min,
            pause_max: settings.breaker_pause_max,
            failures: 0,
            open: None,
        }
    }

    /// Also while the probe is under way.
    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// No request before.
    pub(super) fn open_until(&self) -> Option<Instant> {
        self.open.as_ref().map(|open| open.until)
    }

    /// Failures in a row.
    pub(super) fn failures(&self) -> u32 {
        self.failures
    }

    /// True when that closed it.
    pub(super) fn success(&mut self) -> bool {
        self.failures = 0;
        self.open.take().is_some()
    }

    /// What was taken for a success was none: so many had failed before.
    pub(super) fn take_back(&mut self, before: u32) {
        self.failures = self.failures.max(before);
    }

    /// True when that opened it, or made the pause longer.
    pub(super) fn failure(&mut self, now: Instant) -> bool {
        self.failures = self.failures.saturating_add(1);
        if self.failures < self.threshold {
            return false;
        }
        let (pause_min, pause_max) = (self.pause_min, self.pause_max);
        let open = self.open.get_or_insert_with(|| Open { until: now, pauses: doubling(pause_min, pause_max) });
        let pause = open.pauses.next().unwrap_or(pause_max).min(pause_max);
        open.until = now.checked_add(pause).unwrap_or(now);
        true
    }
}
