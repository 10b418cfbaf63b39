//! Keeps the limits that a cloud counts in sliding windows: so many requests in any minute, and in any hour.
//!
//! A token bucket cannot keep them: in one minute it lets the whole burst through, and then the tokens that have grown since.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::time::Duration;

use tokio::time::Instant;

use super::settings::BudgetSettings;

const MINUTE: Duration = Duration::from_mins(1);
pub(super) const HOUR: Duration = Duration::from_hours(1);

/// Full while as many requests are under way or have ended in it as the cloud takes. One counts from its beginning to a minute,
/// or an hour, after its end: when in between the cloud counts it, nobody knows.
pub(super) struct Windows {
    /// Length and most requests.
    limits: Vec<(Duration, usize)>,
    ended: VecDeque<Instant>,
}

impl Windows {
    pub(super) fn new(settings: &BudgetSettings) -> Self {
        let limit = |(length, most): (Duration, Option<NonZeroU32>)| {
            most.map(|most| (length, usize::try_from(most.get()).unwrap_or(usize::MAX)))
        };
        let limits = [(MINUTE, settings.per_minute), (HOUR, settings.per_hour)];
        Self { limits: limits.into_iter().filter_map(limit).collect(), ended: VecDeque::new() }
    }

    /// The same requests, within other limits. Those that no limit counted before are not known.
    pub(super) fn with(&self, settings: &BudgetSettings) -> Self {
        Self { ended: self.ended.clone(), ..Self::new(settings) }
    }

    /// A request is over, or was given up.
    pub(super) fn ended(&mut self, now: Instant) {
        let Some(longest) = self.limits.iter().map(|(length, _)| *length).max() else { return };
        while self.ended.front().is_some_and(|first| *first + longest <= now) {
            self.ended.pop_front();
        }
        self.ended.push_back(now);
    }

    /// Where there is no place for one more: how many a window takes, how long that is, and when it has a place if all that are
    /// under way go on.
    pub(super) fn full(&self, in_flight: usize, now: Instant) -> Option<(usize, Duration, Instant)> {
        let full = |&(length, most): &(Duration, usize)| {
            let most_ended = most.checked_sub(in_flight.saturating_add(1));
            let counting = self.ended.len() - self.ended.partition_point(|at| *at + length <= now);
            match most_ended {
                Some(most_ended) if counting <= most_ended => None,
                // So many of the oldest must leave.
                Some(most_ended) => {
                    let last = self.ended.get(self.ended.len().checked_sub(most_ended.saturating_add(1))?)?;
                    Some((most, length, *last + length))
                }
                None => Some((most, length, now + length)),
            }
        };
        self.limits.iter().filter_map(full).max_by_key(|(_, _, until)| *until)
    }
}
