//! How long a provider is left alone that is called for the cluster as a whole, and not for one object.

use std::time::Duration;

use tokio::time::Instant;

use crate::queue::Verdict;

/// How long a provider is left alone.
#[derive(Debug, Default)]
pub(crate) struct Hold {
    until: Option<Instant>,
    releases: Releases,
}

/// How often a provider was released. A run notes it when it begins: what it finds out counts for nothing when the cloud has answered
/// again since.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Releases(u64);

impl Hold {
    /// How long it is not to be called; none when it may be.
    fn left(&self) -> Option<Duration> {
        let left = self.until?.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }

    /// For a run that may have to wait.
    ///
    /// # Errors
    ///
    /// The provider is left alone for that long.
    pub(crate) fn begin(&self) -> Result<Releases, Duration> {
        self.left().map_or(Ok(self.releases), Err)
    }

    /// For a run that begins.
    pub(crate) const fn releases(&self) -> Releases {
        self.releases
    }

    /// No call comes before the latest time that the verdicts of a run name, unless the provider was released during the run.
    pub(crate) fn hold(&mut self, begun: Releases, verdict: Verdict) {
        if let (Verdict::After(delay), true) = (verdict, begun == self.releases) {
            self.until = self.until.max(Instant::now().checked_add(delay));
        }
    }

    /// The cloud answers again, or another component does: it may be called at once.
    pub(crate) const fn release(&mut self) {
        self.until = None;
        self.releases.0 = self.releases.0.wrapping_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn a_provider_is_left_alone_until_the_time_is_over_or_its_cloud_answers_again() {
        let mut hold = Hold::default();
        hold.hold(hold.releases(), Verdict::Backoff);
        assert_eq!(hold.left(), None, "only a time that is named");
        hold.hold(hold.releases(), Verdict::After(PAUSE));
        hold.hold(hold.releases(), Verdict::After(PAUSE / 60));
        tokio::time::advance(PAUSE / 2).await;
        assert_eq!(hold.left(), Some(PAUSE / 2), "the longest of them");
        tokio::time::advance(PAUSE / 2).await;
        assert_eq!(hold.left(), None);
        hold.hold(hold.releases(), Verdict::After(PAUSE));
        hold.release();
        assert_eq!(hold.left(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_run_found_before_the_cloud_answered_again_counts_for_nothing() {
        let mut hold = Hold::default();
        let begun = hold.releases();
        hold.release();
        hold.hold(begun, Verdict::After(PAUSE));
        assert_eq!(hold.left(), None);
        hold.hold(hold.releases(), Verdict::After(PAUSE));
        assert_eq!(hold.left(), Some(PAUSE));
    }
}
