//! The rate that the host itself keeps.

use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::Clock;
use governor::middleware::StateInformationMiddleware;
use governor::nanos::Nanos;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};
use tokio::time::Instant;

/// Bounds that keep the arithmetic of the limiter within 64 bits of nanoseconds.
const MOST_BURST: NonZeroU32 = NonZeroU32::MIN.saturating_add(999_999);
const SLOWEST: Duration = Duration::from_hours(1);

/// Follows tokio's time, so that tests can pause it.
#[derive(Clone)]
struct SinceStart(Instant);

impl Clock for SinceStart {
    type Instant = Nanos;

    fn now(&self) -> Nanos {
        self.0.elapsed().into()
    }
}

/// A token bucket that is full at first.
pub(super) struct Bucket {
    limiter: RateLimiter<NotKeyed, InMemoryState, SinceStart, StateInformationMiddleware>,
    start: Instant,
    period: Duration,
    burst: u32,
    /// Tokens at a time. The limiter tells them only when one is taken.
    level: (Instant, u32),
}

impl Bucket {
    /// `per_second` is above zero.
    pub(super) fn new(per_second: f64, burst: NonZeroU32) -> Self {
        let period = Duration::try_from_secs_f64(per_second.recip()).unwrap_or(SLOWEST);
        let period = period.clamp(Duration::from_nanos(1), SLOWEST);
        let burst = burst.min(MOST_BURST);
        let quota = Quota::with_period(period).unwrap_or(Quota::per_second(burst)).allow_burst(burst);
        let start = Instant::now();
        let limiter = RateLimiter::direct_with_clock(quota, SinceStart(start)).with_middleware();
        Self { limiter, start, period, burst: burst.get(), level: (start, burst.get()) }
    }

    /// Takes a token, or says when there will be one.
    pub(super) fn take(&mut self, now: Instant) -> Result<(), Instant> {
        match self.limiter.check() {
            Ok(snapshot) => {
                self.level = (now, snapshot.remaining_burst_capacity());
                Ok(())
            }
            Err(not_until) => {
                let earliest = Duration::from(not_until.earliest_possible());
                Err(self.start.checked_add(earliest).unwrap_or(now))
            }
        }
    }

    /// Tokens at `now`.
    pub(super) fn tokens(&self, now: Instant) -> u64 {
        let grown = now.duration_since(self.level.0).as_nanos() / self.period.as_nanos().max(1);
        u64::try_from(grown).unwrap_or(u64::MAX).saturating_add(self.level.1.into()).min(self.burst.into())
    }

    /// How long after `now` the one with `ahead` others before it gets a token, at the earliest.
    pub(super) fn wait(&self, ahead: usize, now: Instant) -> Duration {
        let wanted = u32::try_from(ahead).unwrap_or(u32::MAX).saturating_add(1);
        let since = now.duration_since(self.level.0);
        self.period.saturating_mul(wanted.saturating_sub(self.level.1)).saturating_sub(since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::BudgetSettings;

    #[tokio::test(start_paused = true)]
    async fn what_it_foretells_is_what_happens() {
        let mut bucket = Bucket::new(10.0, NonZeroU32::new(3).unwrap());
        assert_eq!((bucket.tokens(Instant::now()), bucket.wait(2, Instant::now())), (3, Duration::ZERO));
        for left in [2, 1, 0] {
            assert_eq!(bucket.take(Instant::now()), Ok(()));
            assert_eq!(bucket.tokens(Instant::now()), left);
        }
        assert_eq!(bucket.wait(4, Instant::now()), Duration::from_millis(500));
        assert_eq!(bucket.take(Instant::now()), Err(Instant::now() + Duration::from_millis(100)));
        tokio::time::advance(Duration::from_millis(250)).await;
        assert_eq!((bucket.tokens(Instant::now()), bucket.wait(1, Instant::now())), (2, Duration::ZERO));
        assert_eq!(bucket.wait(2, Instant::now()), Duration::from_millis(50));
        tokio::time::advance(Duration::from_hours(1)).await;
        assert_eq!(bucket.tokens(Instant::now()), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn strange_settings_neither_panic_nor_stop_everything() {
        for (per_second, period) in [
            (0.0, Duration::from_millis(20)),
            (-1.0, Duration::from_millis(20)),
            (f64::NAN, Duration::from_millis(20)),
            (f64::INFINITY, Duration::from_nanos(1)),
            (f64::MIN_POSITIVE, SLOWEST),
            (1e-9, SLOWEST),
        ] {
            let settings = BudgetSettings { per_second: Some(per_second), ..BudgetSettings::default() };
            let mut bucket = Bucket::new(settings.rate(), NonZeroU32::MAX);
            assert_eq!((bucket.period, bucket.take(Instant::now())), (period, Ok(())), "{per_second}");
        }
    }
}
