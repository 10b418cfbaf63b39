//! What a token may ask for: two sliding windows, of an hour and of a minute.

use std::collections::VecDeque;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::Moment;

const HOUR: Duration = Duration::from_secs(3600);
const MINUTE: Duration = Duration::from_secs(60);

/// Requests that a token may make. A request counts for an hour, and for a minute, from its own time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Quota {
    /// In any hour. Default 5,000, as in production.
    pub per_hour: usize,
    /// In any minute. Default 250, as in production.
    pub per_minute: usize,
}

impl Default for Quota {
    fn default() -> Self {
        Self { per_hour: 5_000, per_minute: 250 }
    }
}

/// The requests of one token that still count.
#[derive(Default)]
pub(crate) struct Windows(VecDeque<Moment>);

/// What the headers of an answer say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Allowance {
    pub(crate) limit: usize,
    pub(crate) remaining: usize,
    /// When the oldest request stops to count.
    pub(crate) reset: Moment,
    pub(crate) verdict: Verdict,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Granted,
    /// The hour is used up.
    Hour,
    /// The minute is; there is a place again after so many seconds.
    Minute(u64),
}

impl Windows {
    /// Counts a request, unless it is refused.
    pub(crate) fn take(&mut self, now: Moment, quota: Quota) -> Allowance {
        while self.0.front().is_some_and(|first| first.saturating_add(HOUR) <= now) {
            self.0.pop_front();
        }
        let minute = self.0.partition_point(|at| at.saturating_add(MINUTE) <= now);
        let verdict = if self.0.len() >= quota.per_hour {
            Verdict::Hour
        } else if self.0.len() - minute >= quota.per_minute {
            // Enough of them must have left for one to come in.
            let blocking = self.0.len() - quota.per_minute;
            let free = self.0.get(blocking).copied().unwrap_or(now).saturating_add(MINUTE);
            let wait = free.saturating_sub(now);
            Verdict::Minute(wait.as_secs() + u64::from(wait.subsec_nanos() > 0))
        } else {
            self.0.push_back(now);
            Verdict::Granted
        };
        let remaining = match verdict {
            Verdict::Granted => quota.per_hour - self.0.len(),
            Verdict::Hour | Verdict::Minute(_) => 0,
        };
        let reset = self.0.front().copied().unwrap_or(now).saturating_add(HOUR);
        Allowance { limit: quota.per_hour, remaining, reset, verdict }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Moment {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_minute_refuses_with_a_time_and_lets_in_again_after_it() {
        let mut windows = Windows::default();
        let quota = Quota { per_hour: 100, per_minute: 2 };
        assert_eq!(windows.take(s(0), quota).remaining, 99);
        assert_eq!(windows.take(s(30), quota).verdict, Verdict::Granted);
        let refused = windows.take(Duration::from_millis(40_500), quota);
        assert_eq!((refused.verdict, refused.remaining), (Verdict::Minute(20), 0));
        assert_eq!(windows.take(s(60), quota).verdict, Verdict::Granted);
        // The one of 30 s is in the way until 90 s.
        assert_eq!(windows.take(s(61), quota).verdict, Verdict::Minute(29));
    }

    #[test]
    fn the_hour_refuses_without_a_time_and_a_refused_request_does_not_count() {
        let mut windows = Windows::default();
        let quota = Quota { per_hour: 2, per_minute: 10 };
        windows.take(s(0), quota);
        windows.take(s(100), quota);
        let refused = windows.take(s(3_599), quota);
        assert_eq!((refused.verdict, refused.reset), (Verdict::Hour, s(3_600)));
        assert_eq!(windows.take(s(3_600), quota).verdict, Verdict::Granted);
        assert_eq!(windows.take(s(3_601), quota).reset, s(3_700));
    }
}
