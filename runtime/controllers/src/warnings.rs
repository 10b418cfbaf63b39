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

    #[tokio::test(start_paused = true)]
    async fn a_message_that_is_new_each_time_is_not_given_for_ever() {
        let mut warnings = Warnings::default();
        let given = (0..100).filter(|i| warnings.is_news(&format!("request {i}"), REPEAT)).count();
        assert_eq!(given, MAX_WARNINGS);
        tokio::time::advance(REPEAT).await;
        assert!(warnings.is_news("request 100", REPEAT));
    }
}
