//! What is remembered of routes that failed, and of what was told about them. Bounded by the routes that fail.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use backon::{BackoffBuilder as _, ConstantBuilder, ExponentialBackoff, ExponentialBuilder};
use ccm_cloud::{Failure, Reaction};
use ipnet::IpNet;
use tokio::time::Instant;

use super::settings::RouteSettings;
use crate::backoff::capped;
use crate::queue::Verdict;
use crate::reaction;
use crate::warnings::Warnings;

/// A network whose routes could not be brought to what they should be.
struct Failed {
    /// What was tried: something else is tried at once.
    mark: u64,
    failure: Failure,
    delays: ExponentialBackoff,
    until: Instant,
}

/// The end of a run. What failed in it is tried again together: with a chance of its own for each route, one call would become many.
pub(super) struct Round {
    now: Instant,
    /// From 1 to 2: by what a back-off is multiplied.
    chance: f64,
}

impl Round {
    pub(super) fn begin() -> Self {
        let second = Duration::from_secs(1);
        let chance = ConstantBuilder::new().with_delay(second).with_jitter().build().next().unwrap_or(second);
        Self { now: Instant::now(), chance: chance.as_secs_f64().clamp(1.0, 2.0) }
    }
}

/// Of one provider.
#[derive(Default)]
pub(super) struct Memory {
    failed: HashMap<IpNet, Failed>,
    /// By UID of the Node and pod CIDR; empty for the call as a whole.
    warnings: HashMap<String, Warnings>,
    /// Why it was not known in the last run which routes there are.
    unanswered: Option<String>,
}

impl Memory {
    /// It is not known which routes there are: why, unless that is for somebody else to know.
    pub(super) fn is_unanswered(&mut self, why: Option<String>) {
        self.unanswered = why;
    }

    /// A failure of the last run, unless that is for somebody else to know.
    pub(super) fn last_failure(&self) -> Option<String> {
        let mut failures = self.failed.values().map(|failed| &failed.failure);
        let of_a_route = || failures.find(|failure| failure.reaction != Reaction::Elsewhere).map(ToString::to_string);
        self.unanswered.clone().or_else(of_a_route)
    }

    /// Why this work is not to be tried now: it failed, and its time has not come.
    pub(super) fn held(&self, network: &IpNet, mark: u64) -> Option<Failure> {
        let failed = self.failed.get(network)?;
        (failed.mark == mark && failed.until > Instant::now()).then(|| failed.failure.clone())
    }

    /// The work has failed in this run.
    pub(super) fn failed(
        &mut self,
        network: IpNet,
        mark: u64,
        failure: &Failure,
        settings: &RouteSettings,
        round: &Round,
    ) {
        let queue = settings.queue;
        let fresh = || {
            ExponentialBuilder::new()
                .with_min_delay(queue.min_backoff)
                .with_max_delay(queue.max_backoff)
                .without_max_times()
                .build()
        };
        let now = round.now;
        let entry = self.failed.entry(network).or_insert_with(|| Failed {
            mark,
            failure: failure.clone(),
            delays: fresh(),
            until: now,
        });
        if entry.mark != mark {
            (entry.mark, entry.delays) = (mark, fresh());
        }
        let delay = match reaction::verdict(failure, settings.slow_retry) {
            Verdict::Done | Verdict::Change => queue.resync,
            Verdict::After(delay) => delay,
            Verdict::Backoff => {
                let delay = entry.delays.next().unwrap_or(queue.max_backoff).min(queue.max_backoff);
                let by_chance = Duration::try_from_secs_f64(delay.as_secs_f64() * round.chance);
                capped(by_chance.unwrap_or(queue.max_backoff), queue.max_backoff)
            }
        };
        entry.failure = failure.clone();
        entry.until = now.checked_add(delay).unwrap_or(now);
    }

    /// Forgets all work but this.
    pub(super) fn keep(&mut self, failing: &BTreeSet<IpNet>) {
        self.failed.retain(|network, _| failing.contains(network));
    }

    /// The cloud answers again, or another component does: everything is tried at once.
    pub(super) fn release(&mut self) {
        let now = Instant::now();
        self.failed.values_mut().for_each(|failed| failed.until = now);
    }

    /// When the first of all routes that failed is tried again.
    pub(super) fn next(&self) -> Option<Duration> {
        let now = Instant::now();
        self.failed.values().map(|failed| failed.until.saturating_duration_since(now)).min()
    }

    /// Whether a warning is to be given; see [`Warnings::is_news`].
    pub(super) fn is_news(&mut self, about: &str, warning: &str, repeat: Duration) -> bool {
        self.warnings.entry(about.to_owned()).or_default().is_news(warning, repeat)
    }

    /// Whether something was told about the call as a whole; forgets it.
    pub(super) fn recovered(&mut self) -> bool {
        self.warnings.remove("").is_some()
    }

    /// Forgets what was told of all others: what fails again is news.
    pub(super) fn keep_warnings(&mut self, failing: &BTreeSet<String>) {
        self.warnings.retain(|about, _| about.is_empty() || failing.contains(about));
    }
}
