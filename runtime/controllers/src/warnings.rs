//! Which warnings about one object were given lately, so that the same one is not given at every try.

use std::time::Duration;

use tokio::time::Instant;

/// Most different warnings about one object in the time after which the same one is given again. A message with a time or a
/// request ID in it is another one each time.
const MAX_WARNINGS: usize = 10;

/// Warnings about one object.
#[derive(Default)]
pub(crate) struct Warnings(Option<Warned>);

/// Those of one period.
struct Warned {
    last: String,
    at: Instant,
    /// Since when they are counted.
    since: Instant,
    count: usize,
}

impl Warnings {
    /// Whether `warning` is to be given: when it is another one than the last, or that was given `repeat` ago; at most
    /// [`MAX_WARNINGS`] times in `repeat`.
    pub(crate) fn is_news(&mut self, warning: &str, repeat: Duration) -> bool {
        let now = Instant::now();
        let young = |then: Instant| now.duration_since(then) < repeat;
        let warned = self.0.get_or_insert_with(|| Warned { last: String::new(), at: now, since: now, count: 0 });
        if !young(warned.since) {
            (warned.since, warned.count) = (now, 0);
        }
        if (warned.last == warning && young(warned.at)) || warned.count >= MAX_WARNINGS {
            return false;
        }
        warning.clone_into(&mut warned.last);
        warned.at = now;
        warned.count = warned.count.saturating_add(1);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPEAT: Duration = Duration::from_secs(600);

    const SECOND: Duration = Duration::from_secs(1);

    /// When, in seconds, what is said, and whether it is given.
    async fn assert_given(steps: &[(u64, &str, bool)]) {
        let (mut warnings, begun) = (Warnings::default(), Instant::now());
        for (at, warning, is_given) in steps {
            tokio::time::sleep_until(begun + Duration::from_secs(*at)).await;
            assert_eq!(warnings.is_news(warning, REPEAT), *is_given, "{warning} at {at} s");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_same_warning_is_given_again_when_its_time_is_over_and_another_one_at_once() {
        assert_given(&[
            (0, "no quota", true),
            (1, "no quota", false),
            (599, "no quota", false),
            // It counts from when it was given, and not from when it was last held back.
            (600, "no quota", true),
            (601, "no quota", false),
            (602, "no network", true),
            (603, "no network", false),
            // One that came in between is what the object suffers from, and this one has come back.
            (604, "no quota", true),
            (1_203, "no quota", false),
            (1_204, "no quota", true),
        ])
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_that_is_new_each_time_is_not_given_for_ever() {
        let mut warnings = Warnings::default();
        let mut given = |from: usize| {
            (from..from + 100).filter(|i| warnings.is_news(&format!("request {i}"), REPEAT)).collect::<Vec<_>>()
        };
        assert_eq!(given(0), Vec::from_iter(0..10_usize), "the first ten");
        tokio::time::advance(REPEAT - SECOND).await;
        assert_eq!(given(100), Vec::<usize>::new(), "the time is not over");
        tokio::time::advance(SECOND).await;
        assert_eq!(given(200), Vec::from_iter(200..210_usize), "as many as before");
        tokio::time::advance(REPEAT - SECOND).await;
        assert_eq!(given(300), Vec::<usize>::new(), "nor is it this time");
    }
}
