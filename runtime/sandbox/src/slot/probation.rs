//! How a new provider proves itself, and when it has not.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ccm_cloud::Service;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::Provider;

/// How long a new provider is watched, and what it may do wrong meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbationSettings {
    /// Least time, from the first call on. Default 1 min. Until then no load balancer is deleted; those that wait are deleted
    /// before it is over, unless that takes as long again.
    pub time: Duration,
    /// Least number of calls that were answered. Default 10.
    pub calls: u32,
    /// So many calls without an answer (a crash, no answer in time, a broken limit), or so many calls that failed where the
    /// last good one did not, and the last good one returns. Default 3. Zero counts as one. A load balancer that it says it
    /// deleted and that the last good one still finds is enough by itself.
    pub faults: u32,
}

impl Default for ProbationSettings {
    fn default() -> Self {
        Self { time: Duration::from_secs(60), calls: 10, faults: 3 }
    }
}

/// How a provider in its slot stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    /// It is watched.
    Probation,
    /// It served its probation.
    Proven,
    /// The one before is back.
    RolledBack {
        /// For this reason.
        why: String,
        /// The first one of all goes on with its own probation when it returns.
        is_proven: bool,
    },
}

/// The last one that was proven, or the first one of all.
#[derive(Clone)]
pub(super) struct LastGood {
    pub(super) provider: Arc<Provider>,
    /// The first one of all goes on with its probation when it returns.
    pub(super) is_proven: bool,
}

/// The probation of one provider.
pub(super) struct Probation {
    pub(super) settings: ProbationSettings,
    /// Who returns. None at the first load.
    pub(super) last_good: Option<LastGood>,
    /// When it was first asked for something: on a standby, which makes no calls, nothing shows how good it is.
    begun: OnceLock<Instant>,
    /// What the provider had done before it was put into the slot.
    calls_before: u32,
    crashes_before: u32,
    /// Calls that failed where the last good one did not.
    differences: AtomicU32,
    last_difference: Mutex<String>,
    /// What it has left behind in the cloud: once is enough.
    failure: Mutex<Option<String>>,
    /// UIDs of the Services whose deletion had to wait, and has had no answer yet.
    deletions: Mutex<BTreeSet<String>>,
}

/// What a look at a probation comes to.
pub(super) enum Verdict {
    Open,
    Passed,
    Failed(String),
}

impl Probation {
    pub(super) fn begin(settings: ProbationSettings, last_good: Option<LastGood>, provider: &Provider) -> Self {
        let (calls_before, crashes_before) = provider.settings.tally.counts();
        Self {
            settings,
            last_good,
            begun: OnceLock::new(),
            calls_before,
            crashes_before,
            differences: AtomicU32::new(0),
            last_difference: Mutex::default(),
            failure: Mutex::default(),
            deletions: Mutex::default(),
        }
    }

    /// The new provider failed, or said no, where the last good one has an answer.
    pub(super) fn differs(&self, function: &'static str, what: &str) {
        *self.last_difference.lock() = format!("{function}: {what}");
        self.differences.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(function, what, "the new provider fails where the last good one does not");
    }

    /// What the new provider says that it did in the cloud is not so.
    pub(super) fn fails(&self, function: &'static str, what: &str) {
        *self.failure.lock() = Some(format!("{function}: {what}"));
        tracing::warn!(function, what, "the new provider did not do what it says");
    }

    /// Its time runs from the first of these on.
    pub(super) fn asked(&self) {
        self.begun.get_or_init(Instant::now);
    }

    fn elapsed(&self) -> Duration {
        self.begun.get().map(Instant::elapsed).unwrap_or_default()
    }

    /// How long nothing may be deleted yet.
    pub(super) fn time_left(&self) -> Duration {
        self.settings.time.saturating_sub(self.elapsed())
    }

    /// The deletion of its load balancer waits.
    pub(super) fn delays_deletion(&self, service: &Service) {
        self.deletions.lock().insert(service.uid.clone());
    }

    /// Its deletion had an answer.
    pub(super) fn answered_deletion(&self, service: &str) {
        self.deletions.lock().remove(service);
    }

    /// Whether what waited for the end of its time was not tried yet: nobody has seen it delete anything. Somebody else may have
    /// taken a Service away meanwhile, so this does not go on for ever.
    fn owes_deletions(&self) -> bool {
        self.elapsed() < self.settings.time.saturating_mul(2) && !self.deletions.lock().is_empty()
    }

    pub(super) fn verdict(&self, provider: &Provider) -> Verdict {
        let (calls, crashes) = provider.settings.tally.counts();
        let (calls, crashes) = (calls.wrapping_sub(self.calls_before), crashes.wrapping_sub(self.crashes_before));
        let differences = self.differences.load(Ordering::Relaxed);
        if let Some(why) = self.failure.lock().clone() {
            return Verdict::Failed(why);
        }
        let limit = self.settings.faults.max(1);
        if crashes >= limit {
            let last = provider.settings.tally.last_crash();
            return Verdict::Failed(format!("{crashes} of its first {calls} calls gave no answer, the last: {last}"));
        }
        if differences >= limit {
            return Verdict::Failed(format!(
                "{differences} of its first {calls} calls failed where the one before did not, the last: {}",
                self.last_difference.lock()
            ));
        }
        let answered = calls.saturating_sub(crashes);
        let is_over = answered >= self.settings.calls && self.time_left().is_zero() && !self.owes_deletions();
        if is_over { Verdict::Passed } else { Verdict::Open }
    }
}
