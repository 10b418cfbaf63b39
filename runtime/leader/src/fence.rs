//! Until when this process may write.
//!
//! Candidates wait for the lease duration from the moment at which they saw the record change. That moment lies behind the
//! start of the request that changed it, so counting from that start is counting less than they do. Two clocks must agree:
//! the monotonic one, which nobody can set, and the wall clock, which goes on while the machine sleeps.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ccm_cloud::Leadership;
use tokio::time::Instant;

use crate::timing::Timing;

/// Time since some fixed moment, that goes on while the machine sleeps.
type WallClock = Box<dyn Fn() -> Duration + Send + Sync>;

/// Answers gates and connections. Takes no lock and never waits.
pub(crate) struct Fence {
    timing: Timing,
    origin: Instant,
    wall_clock: WallClock,
    /// Start of the last renewal that succeeded, in microseconds since `origin`, plus one; 0 while this process does not
    /// lead.
    renewed: AtomicU64,
    /// The same moment in microseconds by the wall clock.
    renewed_wall: AtomicU64,
}

/// The start of a request that may become a renewal, by both clocks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Start {
    pub(crate) at: Instant,
    wall: Duration,
}

impl Fence {
    /// Closed.
    pub(crate) fn new(timing: Timing) -> Self {
        let wall = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self::with_clock(timing, Box::new(wall))
    }

    pub(crate) fn with_clock(timing: Timing, wall_clock: WallClock) -> Self {
        let (renewed, renewed_wall) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { timing, origin: Instant::now(), wall_clock, renewed, renewed_wall }
    }

    /// To be taken before a request is sent.
    pub(crate) fn start(&self) -> Start {
        Start { at: Instant::now(), wall: (self.wall_clock)() }
    }

    /// A request that began at `start` made or kept this process the leader.
    pub(crate) fn renewed(&self, start: Start) {
        // This one first: whoever reads between the two sees one old value, which counts.
        self.renewed_wall.store(micros(start.wall), Ordering::SeqCst);
        let since = micros(start.at.saturating_duration_since(self.origin));
        self.renewed.store(since.saturating_add(1), Ordering::SeqCst);
    }

    /// Nothing may leave from now on.
    pub(crate) fn close(&self) {
        self.renewed.store(0, Ordering::SeqCst);
    }

    /// Since the start of the last renewal, by the clock that counts more. None while this process does not lead.
    fn age(&self) -> Option<Duration> {
        let renewed = self.renewed.load(Ordering::SeqCst).checked_sub(1)?;
        let wall = self.renewed_wall.load(Ordering::SeqCst);
        let monotonic = micros(self.origin.elapsed()).saturating_sub(renewed);
        // A wall clock that was set back says nothing.
        let wall = micros((self.wall_clock)()).saturating_sub(wall);
        Some(Duration::from_micros(monotonic.max(wall)))
    }

    /// Says what is wrong when this process holds the Lease and has not renewed it for far too long: whatever should have
    /// ended the process did not.
    ///
    /// # Errors
    ///
    /// A sentence.
    pub(crate) fn health(&self) -> Result<(), String> {
        match self.age() {
            Some(age) if age > self.timing.overdue() => {
                Err(format!("this process holds the Lease and has not renewed it for {} s", age.as_secs()))
            }
            _ => Ok(()),
        }
    }
}

impl Leadership for Fence {
    fn may_write(&self) -> bool {
        self.age().is_some_and(|age| age < self.timing.renew_deadline)
    }

    fn time_left(&self) -> Duration {
        self.age().map_or(Duration::ZERO, |age| self.timing.last_byte().saturating_sub(age))
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;

    const S: Duration = Duration::from_secs(1);

    /// With the flags' defaults, and a wall clock to turn.
    fn fence() -> (Fence, Arc<Mutex<Duration>>) {
        let clock = Arc::new(Mutex::new(1_000_000 * S));
        let read = Arc::clone(&clock);
        let timing = Timing::try_new(15 * S, 10 * S, 2 * S).unwrap();
        (Fence::with_clock(timing, Box::new(move || *read.lock())), clock)
    }

    #[tokio::test(start_paused = true)]
    async fn writes_begin_until_the_renew_deadline_and_leave_until_a_second_before_the_lease_ends() {
        let (fence, _clock) = fence();
        assert!(!fence.may_write() && fence.time_left().is_zero(), "not a leader yet");
        let start = fence.start();
        // The answer took three seconds.
        tokio::time::advance(3 * S).await;
        fence.renewed(start);
        for (after, may_write, left) in [(3, true, 11), (9, true, 5), (10, false, 4), (13, false, 1), (14, false, 0)] {
            tokio::time::advance(after * S - start.at.elapsed()).await;
            assert_eq!((fence.may_write(), fence.time_left()), (may_write, left * S), "{after} s");
        }
        fence.renewed(fence.start());
        assert!(fence.may_write());
        fence.close();
        assert!(!fence.may_write() && fence.time_left().is_zero());
    }

    /// The monotonic clock does not count what the machine sleeps.
    #[tokio::test(start_paused = true)]
    async fn a_machine_that_slept_has_no_time_left_and_a_clock_that_was_set_back_gives_none() {
        let (fence, clock) = fence();
        fence.renewed(fence.start());
        *clock.lock() += 20 * S;
        assert!(!fence.may_write() && fence.time_left().is_zero());
        fence.renewed(fence.start());
        *clock.lock() -= 3_600 * S;
        assert!(fence.may_write());
        tokio::time::advance(10 * S).await;
        assert!(!fence.may_write());
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_holder_that_has_not_renewed_for_long_is_unhealthy() {
        let (fence, _clock) = fence();
        tokio::time::advance(3_600 * S).await;
        assert_eq!(fence.health(), Ok(()), "a standby");
        fence.renewed(fence.start());
        tokio::time::advance(35 * S).await;
        assert_eq!(fence.health(), Ok(()));
        tokio::time::advance(S).await;
        assert!(fence.health().unwrap_err().contains("has not renewed it for 36 s"));
    }
}
