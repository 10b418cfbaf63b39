//! Which requests are repeated, and after how long.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};

use crate::budget::Fault;
use crate::http::Effect;

/// How one attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AttemptEnd {
    /// The cloud answered with this status.
    Answer(u16),
    /// There is no answer.
    Fault(Fault),
    /// What another attempt does not change: denied, no trust, too large.
    Final,
}

/// Whether a request with this effect may be sent once more after `outcome`. After a 429 that is worth it only when the
/// [`EndpointBudget`](crate::budget::EndpointBudget) lets it through again.
#[must_use]
pub(crate) fn may_repeat(effect: Effect, outcome: AttemptEnd) -> bool {
    match outcome {
        // It certainly changed nothing.
        AttemptEnd::Fault(Fault::Connect) | AttemptEnd::Answer(429) => true,
        AttemptEnd::Fault(Fault::Timeout | Fault::Lost) | AttemptEnd::Answer(502..=504) => match effect {
            Effect::Read | Effect::Repeatable => true,
            Effect::Once => false,
        },
        AttemptEnd::Answer(_) | AttemptEnd::Final => false,
    }
}

/// How often and how fast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetrySettings {
    /// Most attempts in all, the first one included. Default 3; 1 repeats nothing.
    pub attempts: usize,
    /// Least time before the second attempt. It doubles with every further one; jitter adds up to as much again.
    /// Default 200 ms.
    pub min_delay: Duration,
    /// Most time between two attempts, jitter included. Default 5 s.
    pub max_delay: Duration,
}

impl Default for RetrySettings {
    fn default() -> Self {
        Self { attempts: 3, min_delay: Duration::from_millis(200), max_delay: Duration::from_secs(5) }
    }
}

impl RetrySettings {
    /// The time before each further attempt; it ends when there is no further one.
    pub fn delays(&self) -> impl Iterator<Item = Duration> + Send + use<> {
        let most = self.max_delay;
        ExponentialBuilder::new()
            .with_min_delay(self.min_delay.min(most))
            .with_max_delay(most)
            .with_max_times(self.attempts.saturating_sub(1))
            .with_jitter()
            .build()
            .map(move |delay| delay.min(most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_did_no_harm_is_repeated() {
        // outcome, read, repeatable, once
        let table = [
            (AttemptEnd::Fault(Fault::Connect), true, true, true),
            (AttemptEnd::Answer(429), true, true, true),
            (AttemptEnd::Fault(Fault::Timeout), true, true, false),
            (AttemptEnd::Fault(Fault::Lost), true, true, false),
            (AttemptEnd::Answer(502), true, true, false),
            (AttemptEnd::Answer(503), true, true, false),
            (AttemptEnd::Answer(504), true, true, false),
            (AttemptEnd::Answer(200), false, false, false),
            (AttemptEnd::Answer(404), false, false, false),
            (AttemptEnd::Answer(409), false, false, false),
            (AttemptEnd::Answer(500), false, false, false),
            (AttemptEnd::Answer(501), false, false, false),
            (AttemptEnd::Answer(505), false, false, false),
            (AttemptEnd::Final, false, false, false),
        ];
        for (outcome, read, repeatable, once) in table {
            let found = [Effect::Read, Effect::Repeatable, Effect::Once].map(|effect| may_repeat(effect, outcome));
            assert_eq!(found, [read, repeatable, once], "{outcome:?}");
        }
    }

    #[test]
    fn three_attempts_have_two_delays_that_double_with_jitter() {
        for _ in 0..100 {
            let delays: Vec<_> = RetrySettings::default().delays().collect();
            let [first, second] = delays[..] else { panic!("{delays:?}") };
            assert!((200..=400).contains(&first.as_millis()), "{first:?}");
            assert!((400..=800).contains(&second.as_millis()), "{second:?}");
        }
    }

    #[test]
    fn no_delay_is_longer_than_the_most() {
        let settings = RetrySettings { attempts: 50, ..RetrySettings::default() };
        assert_eq!(settings.delays().count(), 49);
        assert!(settings.delays().all(|delay| delay <= settings.max_delay));
        let upside_down = RetrySettings { min_delay: Duration::MAX, ..settings };
        assert!(upside_down.delays().all(|delay| delay == settings.max_delay));
    }

    #[test]
    fn one_attempt_or_none_means_no_delay() {
        for attempts in [0, 1] {
            assert_eq!(RetrySettings { attempts, ..RetrySettings::default() }.delays().count(), 0);
        }
    }
}
