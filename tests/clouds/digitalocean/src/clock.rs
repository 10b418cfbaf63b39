//! The time of the simulator: it can run faster than ours, and jump.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use tokio::time::Instant;

/// Time since the start, as the cloud sees it.
pub(crate) type Moment = Duration;

pub(crate) struct Clock {
    start: Timestamp,
    pace: Mutex<Pace>,
}

struct Pace {
    since: Instant,
    from: Moment,
    speed: f64,
}

impl Clock {
    pub(crate) fn new() -> Self {
        let start = Timestamp::from_second(Timestamp::now().as_second()).unwrap_or(Timestamp::UNIX_EPOCH);
        Self { start, pace: Mutex::new(Pace { since: Instant::now(), from: Moment::ZERO, speed: 1.0 }) }
    }

    pub(crate) fn now(&self) -> Moment {
        self.pace.lock().now()
    }

    /// From now on a second here is `speed` seconds there. False: no such speed.
    pub(crate) fn set_speed(&self, speed: f64) -> bool {
        if !(0.0..=1e6).contains(&speed) {
            return false;
        }
        let mut pace = self.pace.lock();
        *pace = Pace { since: Instant::now(), from: pace.now(), speed };
        true
    }

    /// Jumps ahead.
    pub(crate) fn advance(&self, by: Duration) {
        let mut pace = self.pace.lock();
        pace.from = pace.from.saturating_add(by);
    }

    /// As the API writes it, to the second.
    pub(crate) fn date(&self, moment: Moment) -> String {
        let seconds = self.unix(moment);
        Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX).to_string()
    }

    /// As the header `Date` has it.
    pub(crate) fn header(&self, moment: Moment) -> String {
        let now = Timestamp::from_second(self.unix(moment)).unwrap_or(Timestamp::MAX);
        now.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
    }

    /// Seconds of Unix time.
    pub(crate) fn unix(&self, moment: Moment) -> i64 {
        let elapsed = SignedDuration::try_from(moment).unwrap_or(SignedDuration::MAX);
        self.start.as_second().saturating_add(elapsed.as_secs())
    }
}

impl Pace {
    fn now(&self) -> Moment {
        self.from.saturating_add(self.since.elapsed().mul_f64(self.speed))
    }
}
