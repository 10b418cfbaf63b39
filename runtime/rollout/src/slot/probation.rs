//! How a new component proves itself, and when it has not.
//!
//! It is proven after so much time without a fault, from its first good answer on, and so many good answers. There are two kinds of faults:
//! crashes, and differences from the witness. Each kind is counted by itself, over the whole probation, and so many of one kind are enough
//! to refuse the component. A fault also resets the time and the good answers. Another name for a load balancer is enough by itself.
//!
//! The component does not pass while a Node waits for its provider ID because the witness has no answer about it, or because the two are
//! apart (their configurations differ) and do not say the same. This ends when a Node has waited for ten times [`ProbationSettings::time`].
//! A probation ends at no certain time, unless the two are apart.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ccm_cloud::{Failure, Reaction};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::state::ProbationVerdict;
use crate::component::{Component, Crashes};

/// How long a new component is watched, and what it may do wrong meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbationSettings {
    /// Least time without a fault, from the first good answer on. Default 1 min.
    pub time: Duration,
    /// Least number of good answers in that time: answers that are no failures. Those of the admission webhook do not count. Default 10.
    pub calls: u32,
    /// So many calls without an answer (a crash, no answer in time, a broken limit), or so many answers that are worse than those of
    /// the proven one, and that one returns. Default 3. Zero counts as one. Another name for a load balancer is enough by itself.
    pub faults: u32,
}

impl Default for ProbationSettings {
    fn default() -> Self {
        Self { time: Duration::from_secs(60), calls: 10, faults: 3 }
    }
}

/// Two apart components may differ for this multiple of `time`: until then somebody may have mended the configuration. So long may a Node wait
/// for its provider ID, too, before the new one passes.
const PATIENCE: u32 = 10;
/// A Node that waits and is not asked about for this multiple of `time` may be gone: the verdict no longer depends on it. Delays of retries
/// double, and up to as much is added by chance, so the next question may come after twice the time that the Node has waited. A Node that has
/// waited for at most half of this is asked in time, and one that has waited for longer has held the verdict for [`PATIENCE`] × `time` by then.
const PAUSE: u32 = 7;
/// A Node that waits is asked about again before this: the longest back-off, with the time of the calls.
const LONGEST_RETRY: Duration = Duration::from_secs(20 * 60);

/// The probation of one component.
pub(super) struct Probation<C> {
    settings: ProbationSettings,
    /// The proven one: it is asked as well, and returns.
    pub(super) witness: Arc<C>,
    /// What the new one had done before it was put into the slot.
    before: Crashes,
    /// The witness has another configuration, which may be why the two differ: then no difference refuses the new one. While they differ it
    /// does not pass; after [`PATIENCE`] × `time` it is withdrawn.
    pub(super) is_apart: bool,
    begun: Instant,
    counts: Mutex<Counts>,
    /// Why there was no answer to work for the cluster that had begun to change the cloud. Its next run is the witness's.
    pub(super) half_done: Mutex<Option<String>>,
}

#[derive(Default)]
struct Counts {
    /// Without a fault, and with good answers: on a standby, which makes no calls, nothing shows how good it is.
    since: Option<Instant>,
    /// Good answers since then.
    good: u32,
    /// Crashes that were seen.
    crashes: u32,
    /// Answers that were worse than those of the witness.
    differences: u32,
    last_difference: String,
    /// The Nodes that wait for their provider IDs, by name.
    waiting: BTreeMap<String, Waiting>,
    /// What it has done to the cloud, or would have: once is enough.
    harm: Option<String>,
}

/// For how long a Node has waited for a provider ID that the witness does not confirm.
struct Waiting {
    /// When it was asked about last.
    seen: Instant,
    /// How long that had lasted by then.
    lasted: Duration,
}

impl<C: Component> Probation<C> {
    pub(super) fn begin(settings: ProbationSettings, witness: Arc<C>, component: &C, is_apart: bool) -> Self {
        Self {
            settings,
            witness,
            before: component.crashes(),
            is_apart,
            begun: Instant::now(),
            counts: Mutex::default(),
            half_done: Mutex::default(),
        }
    }

    /// The new one failed, or said no, where the witness has an answer. Returns the failure to give instead of its answer.
    pub(super) fn differs(&self, function: &'static str, what: &str) -> Failure {
        self.fault(function, what, |counts, text| {
            counts.differences = counts.differences.saturating_add(1);
            counts.last_difference = text;
        })
    }

    /// The same where what the new one would do in the cloud is not what the witness would.
    pub(super) fn harms(&self, function: &'static str, what: &str) -> Failure {
        self.fault(function, what, |counts, text| counts.harm = Some(text))
    }

    fn fault(&self, function: &'static str, what: &str, count: impl FnOnce(&mut Counts, String)) -> Failure {
        tracing::warn!(
            function,
            what,
            "the new provider fails, finds less, or does something else than the last good one"
        );
        let text = format!("{function}: {what}");
        let mut counts = self.counts.lock();
        count(&mut counts, text.clone());
        (counts.since, counts.good) = (None, 0);
        Failure::new(Reaction::Retry, text)
    }

    /// What the witness says. Where it `finds` something it is asked anew, with an empty cache: its cache may be old. The object may be gone, or
    /// the cloud down.
    pub(super) async fn witnessed<A, F: Future<Output = A>>(
        &self,
        ask: impl Fn() -> F,
        finds: impl FnOnce(&A) -> bool,
    ) -> A {
        let known = ask().await;
        if !finds(&known) {
            return known;
        }
        self.witness.forget();
        ask().await
    }

    /// It gave an answer that is no failure.
    pub(super) fn answers_well(&self) {
        let mut counts = self.counts.lock();
        counts.good = counts.good.saturating_add(1);
        counts.since.get_or_insert_with(Instant::now);
    }

    /// These Nodes wait for their provider IDs: the witness has no answer about their machines, or the two are apart and do not say the same. A
    /// pause or an outage of the cloud passes, and proves nothing: other answers do not prove the new one meanwhile. Returns whether one of them
    /// has waited for [`PATIENCE`] × `time`: then the witness may be what the new one repairs, and this is a good answer.
    ///
    /// A while without a question counts for at most as long as the Node had waited before, or `time`, and never for more than [`PAUSE`] ×
    /// `time`: one question long ago says little.
    pub(super) fn wait_for_ids(&self, names: &[&str]) -> bool {
        let (pause, patience) = self.patience();
        let mut counts = self.counts.lock();
        let now = Instant::now();
        counts.waiting.retain(|_, waiting| now - waiting.seen <= pause.max(LONGEST_RETRY));
        let mut has_waited = false;
        for &name in names {
            let waiting = counts.waiting.entry(name.to_owned());
            let waiting = waiting.or_insert(Waiting { seen: now, lasted: Duration::ZERO });
            let most = waiting.lasted.max(self.settings.time).min(pause);
            waiting.lasted = waiting.lasted.saturating_add((now - waiting.seen).min(most));
            waiting.seen = now;
            has_waited |= waiting.lasted >= patience;
        }
        has_waited
    }

    /// These Nodes do not wait: they have their provider IDs, or the witness has an answer about their machines.
    pub(super) fn wait_no_more<'a>(&self, names: impl Iterator<Item = &'a str>) {
        let mut counts = self.counts.lock();
        for name in names {
            counts.waiting.remove(name);
        }
    }

    /// [`PAUSE`] and [`PATIENCE`], as times.
    const fn patience(&self) -> (Duration, Duration) {
        (self.settings.time.saturating_mul(PAUSE), self.settings.time.saturating_mul(PATIENCE))
    }

    /// How long its probation lasts at least.
    pub(super) fn time_left(&self) -> Duration {
        let elapsed = self.counts.lock().since.map(|since| since.elapsed()).unwrap_or_default();
        self.settings.time.saturating_sub(elapsed)
    }

    /// None: the probation goes on.
    pub(super) fn verdict(&self, component: &C) -> Option<ProbationVerdict> {
        let now = component.crashes();
        let calls = now.calls.wrapping_sub(self.before.calls);
        let crashes = now.count.wrapping_sub(self.before.count);
        let limit = self.settings.faults.max(1);
        let (pause, patience) = self.patience();
        let mut counts = self.counts.lock();
        if crashes > counts.crashes {
            counts.crashes = crashes;
            (counts.since, counts.good) = (None, 0);
        }
        if crashes >= limit {
            return Some(ProbationVerdict::Failed(format!(
                "{crashes} of its first {calls} calls gave no answer, the last: {}",
                component.last_crash()
            )));
        }
        let differs = counts.harm.clone().or_else(|| {
            (counts.differences >= limit).then(|| {
                format!(
                    "{} of its first {calls} calls failed or found less than the last good one, the last: {}",
                    counts.differences, counts.last_difference
                )
            })
        });
        match differs {
            Some(why) if !self.is_apart => return Some(ProbationVerdict::Failed(why)),
            Some(why) if self.begun.elapsed() >= patience => return Some(ProbationVerdict::Undecided(why)),
            Some(_) if counts.harm.is_some() => return None,
            Some(_) | None => {}
        }
        let is_over = counts.since.is_some_and(|since| since.elapsed() >= self.settings.time);
        // Where nothing has to be proven, no answer is waited for.
        let is_enough = counts.good >= self.settings.calls && (is_over || self.settings.time.is_zero());
        // One that has waited for so long shows what the witness is worth. Else Nodes that join again and again would hold it for ever.
        let lately = counts.waiting.values().filter(|waiting| waiting.seen.elapsed() < pause);
        let is_held = lately.map(|waiting| waiting.lasted).max().is_some_and(|longest| longest < patience);
        (is_enough && !is_held).then_some(ProbationVerdict::Passed)
    }
}
