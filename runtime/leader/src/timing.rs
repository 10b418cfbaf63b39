//! How long things of an election take, and how long a leader may write.

use std::time::Duration;

use anyhow::{Result, ensure};

/// A leader has this many retry periods before its deadline at least, as in client-go.
const JITTER: f64 = 1.2;
/// Shortest time for one request about the Lease.
const MIN_REQUEST: Duration = Duration::from_secs(1);

/// The times of an election, checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// `--leader-elect-lease-duration`: how long candidates wait after the last change of the record. Default 15 s.
    pub(crate) lease_duration: Duration,
    /// `--leader-elect-renew-deadline`: how long a leader goes on without a renewal. Default 10 s.
    pub(crate) renew_deadline: Duration,
    /// `--leader-elect-retry-period`: from one try to the next. Default 2 s.
    pub(crate) retry_period: Duration,
}

impl Timing {
    /// Checks them against each other, with upstream's rules.
    ///
    /// # Errors
    ///
    /// Names both flags.
    pub fn try_new(lease_duration: Duration, renew_deadline: Duration, retry_period: Duration) -> Result<Self> {
        ensure!(
            lease_duration > renew_deadline,
            "--leader-elect-lease-duration={lease_duration:?} must be longer than --leader-elect-renew-deadline={renew_deadline:?}: a leader has to stop before another one may begin"
        );
        ensure!(
            renew_deadline > retry_period.mul_f64(JITTER),
            "--leader-elect-renew-deadline={renew_deadline:?} must be longer than {JITTER} times --leader-elect-retry-period={retry_period:?}: a leader needs time for a second try"
        );
        ensure!(
            lease_duration >= Duration::from_secs(1) && lease_duration <= Duration::from_secs(86_400),
            "--leader-elect-lease-duration={lease_duration:?} must be between 1s and 24h: the Lease counts whole seconds, and after a crash nobody leads for that long"
        );
        Ok(Self { lease_duration, renew_deadline, retry_period })
    }

    /// As the Lease has it: whole seconds, never less than what is meant.
    pub(crate) fn lease_seconds(&self) -> i32 {
        let seconds = self.lease_duration.as_secs();
        let rounded = if self.lease_duration.subsec_nanos() == 0 { seconds } else { seconds.saturating_add(1) };
        i32::try_from(rounded).unwrap_or(i32::MAX)
    }

    /// How long one request about the Lease may take, as upstream.
    pub(crate) fn request_timeout(&self) -> Duration {
        (self.renew_deadline / 2).max(MIN_REQUEST)
    }

    /// From the start of a renewal until the last byte of a write may leave: the lease, less a fifth of what lies between
    /// it and the renew deadline. The fifth is for clocks that run at different speeds, and for the way to the server.
    pub(crate) fn last_byte(&self) -> Duration {
        self.lease_duration.saturating_sub(self.lease_duration.saturating_sub(self.renew_deadline) / 5)
    }

    /// Without a renewal for this long the process is not healthy, as upstream.
    pub(crate) fn overdue(&self) -> Duration {
        self.lease_duration.saturating_add(Duration::from_secs(20))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    #[test]
    fn times_that_cannot_be_are_refused_by_the_names_of_their_flags() {
        let cases: [(Duration, Duration, Duration, [&str; 2]); 5] = [
            (10 * S, 10 * S, 2 * S, ["--leader-elect-lease-duration=10s", "--leader-elect-renew-deadline=10s"]),
            (5 * S, 10 * S, 2 * S, ["--leader-elect-lease-duration=5s", "--leader-elect-renew-deadline=10s"]),
            (15 * S, 10 * S, 9 * S, ["--leader-elect-renew-deadline=10s", "--leader-elect-retry-period=9s"]),
            (15 * S, 12 * S, 10 * S, ["--leader-elect-renew-deadline=12s", "1.2 times"]),
            (S * 9 / 10, S / 2, S / 10, ["--leader-elect-lease-duration=900ms", "between 1s and 24h"]),
        ];
        for (lease, renew, retry, parts) in cases {
            let error = Timing::try_new(lease, renew, retry).unwrap_err().to_string();
            assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        }
    }

    #[test]
    fn a_leader_ends_its_last_write_before_another_begins() {
        for (lease, renew, retry, last_byte, seconds) in [
            (15 * S, 10 * S, 2 * S, 14 * S, 15),
            (3 * S, 2 * S, S / 2, S * 28 / 10, 3),
            (S * 25 / 10, 2 * S, S / 2, S * 24 / 10, 3),
        ] {
            let timing = Timing::try_new(lease, renew, retry).unwrap();
            assert_eq!((timing.last_byte(), timing.lease_seconds()), (last_byte, seconds));
        }
    }
}
