//! A work queue: which key is worked on when, and what happens after a failure.
//!
//! | rule | |
//! |---|---|
//! | one key | never worked on twice at the same time; changed meanwhile: once more, right after |
//! | a change of the object | runs at once, whatever the back-off, and takes the place of a planned run |
//! | after a failure | [`Verdict`] says when |
//! | a panic or a run without end | counts as a failure of that key alone |
//!
//! Keys are not limited in how many run: they mostly wait together for one batch of lookups. What must be limited (writes)
//! the reconciler limits. This is why `kube::runtime::controller::applier` is not used: it polls *all* running reconciles
//! whenever one of them moves, which grows with the square of the nodes that wait, and it cannot say how long a key waited.

mod place;
mod span;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBackoff, ExponentialBuilder};
use tokio::sync::mpsc;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, Span};

use crate::backoff::capped;
use crate::metrics::QueueMeters;
use crate::object_name::ObjectName;
use crate::pulse::QUEUE_PERIOD;
use crate::shrink::shrink;

#[cfg(test)]
pub(crate) use place::Question;
pub(crate) use place::{Place, Places, Questions, places};

/// How often it is looked at what is being worked on, as upstream.
const LOOK: Duration = Duration::from_millis(500);

/// When keys run again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueSettings {
    /// Delay after the first failure of a key; it doubles with each further one, and up to as much again is added by chance.
    /// Default 5 ms, as upstream.
    pub min_backoff: Duration,
    /// Longest delay, before the part that is left to chance. Default 1,000 s, as upstream.
    pub max_backoff: Duration,
    /// How long one run may take, with all its waiting. Then it is dropped and counts as a failure. Default 15 min: a
    /// guard against runs that never end; all requests inside have their own limits.
    pub max_run: Duration,
    /// When a key runs again that waits for a change of its object. Default 12 h, as upstream's resync.
    pub resync: Duration,
    /// How long running reconciles may go on after the stop signal. Default 10 s.
    pub stop_timeout: Duration,
}

impl Default for QueueSettings {
    fn default() -> Self {
        Self {
            min_backoff: Duration::from_millis(5),
            max_backoff: Duration::from_secs(1_000),
            max_run: Duration::from_secs(15 * 60),
            resync: Duration::from_secs(12 * 60 * 60),
            stop_timeout: Duration::from_secs(10),
        }
    }
}

/// Runs were given up when the controller stopped: what they had sent, to a cloud for example, may still take effect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("queue {queue}: {runs} runs were given up before they had ended, and what they sent may still take effect")]
pub struct GivenUp {
    /// Name of the queue.
    pub queue: &'static str,
    /// How many.
    pub runs: usize,
}

/// What is to be done with a key after a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// All is well until the object changes.
    Done,
    /// Failed: again after the back-off of this key.
    Backoff,
    /// Again after this delay. The back-off of the key is neither raised nor cleared.
    After(Duration),
    /// Nothing helps but a change of the object; looked at again after [`QueueSettings::resync`] all the same.
    Change,
}

impl Verdict {
    /// A word for traces.
    const fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Backoff => "failed",
            Self::After(_) => "again-later",
            Self::Change => "waits-for-change",
        }
    }
}

struct Running {
    begun: Instant,
    /// Since when it is to run once more.
    again: Option<Instant>,
}

struct Queue<K> {
    settings: QueueSettings,
    meters: QueueMeters,
    running: HashMap<K, Running>,
    /// Planned runs in order of time; the number keeps equal times apart.
    planned: BTreeMap<(Instant, u64), K>,
    plans: HashMap<K, (Instant, u64)>,
    next_plan: u64,
    failures: HashMap<K, ExponentialBackoff>,
}

/// Runs `reconcile` for the keys that come in, until `shutdown` or until `keys` ends. Runs under way then have
/// [`QueueSettings::stop_timeout`] to end.
///
/// # Errors
///
/// Not all of them did.
pub(crate) async fn run<K, R, F>(
    keys: mpsc::Receiver<K>,
    reconcile: R,
    settings: QueueSettings,
    meters: QueueMeters,
    shutdown: CancellationToken,
) -> Result<(), GivenUp>
where
    K: Clone + Eq + Hash + ObjectName + Send + 'static,
    R: Fn(K) -> F,
    F: Future<Output = Verdict> + Send + 'static,
{
    let (_, nobody) = places();
    run_asked(keys, nobody, reconcile, settings, meters, shutdown).await
}

/// The same, for those who want to know where a key stands.
///
/// # Errors
///
/// As [`run`].
pub(crate) async fn run_asked<K, R, F>(
    mut keys: mpsc::Receiver<K>,
    mut questions: Questions<K>,
    reconcile: R,
    settings: QueueSettings,
    meters: QueueMeters,
    shutdown: CancellationToken,
) -> Result<(), GivenUp>
where
    K: Clone + Eq + Hash + ObjectName + Send + 'static,
    R: Fn(K) -> F,
    F: Future<Output = Verdict> + Send + 'static,
{
    // Another one of this name may have ended with keys in it.
    meters.depth.set(0);
    let pulse = meters.pulses.begin(meters.name, QUEUE_PERIOD);
    let mut turns = tokio::time::interval(QUEUE_PERIOD);
    // One says as much as many.
    turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut queue = Queue::new(settings, meters);
    let mut tasks = JoinSet::new();
    let mut keys_of_tasks: HashMap<Id, (K, Span)> = HashMap::new();
    let mut look = Instant::now();
    loop {
        let next = queue.planned.first_key_value().map(|((at, _), _)| *at);
        let ready = tokio::select! {
            biased;
            () = shutdown.cancelled() => break,
            // Before all else, so that a queue that is busy says it too.
            _ = turns.tick() => {
                pulse.beat();
                None
            }
            () = tokio::time::sleep_until(look), if !queue.running.is_empty() => {
                queue.measure();
                look = Instant::now() + LOOK;
                None
            }
            Some(ended) = tasks.join_next_with_id(), if !tasks.is_empty() => {
                let id = ended.as_ref().map_or_else(JoinError::id, |(id, _)| *id);
                let key = keys_of_tasks.remove(&id);
                shrink(&mut keys_of_tasks);
                key.and_then(|(key, traced)| {
                    let verdict = verdict(ended, &key, &queue.meters, &traced);
                    queue.ended(key, verdict)
                })
            }
            Some(asked) = questions.recv() => {
                // Whoever asked may have gone.
                let _gone = asked.answer.send(asked.keys.iter().map(|key| queue.place(key)).collect());
                None
            }
            key = keys.recv() => match key {
                Some(key) => queue.add(key, Instant::now()),
                None => break,
            },
            () = tokio::time::sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => queue.due(),
        };
        if let Some(key) = ready {
            let span = tracing::info_span!("reconcile", queue = queue.meters.name, object = %key.object_name());
            let work = reconcile(key.clone());
            let max_run = settings.max_run;
            // Not inside of a block of its own: that would make room for `work` twice, for thousands of them.
            let traced = span::of(queue.meters.name, &key);
            let work = tokio::time::timeout(max_run, work).instrument(traced.clone());
            let task = tasks.spawn(work.instrument(span));
            keys_of_tasks.insert(task.id(), (key, traced));
        }
    }
    drop(pulse);
    let mut runs = 0_usize;
    let stop = async {
        while let Some(ended) = tasks.join_next().await {
            // Dropped at its own limit, or in a panic: it may have sent something all the same.
            runs += usize::from(!matches!(ended, Ok(Ok(_))));
        }
    };
    // The time is over either way.
    drop(tokio::time::timeout(settings.stop_timeout, stop).await);
    runs = runs.saturating_add(tasks.len());
    tasks.shutdown().await;
    if runs == 0 {
        return Ok(());
    }
    let queue = queue.meters.name;
    tracing::warn!(queue, runs, "stopped before all work had ended");
    Err(GivenUp { queue, runs })
}

type Ended = Result<(Id, Result<Verdict, tokio::time::error::Elapsed>), JoinError>;

fn verdict(ended: Ended, key: &impl ObjectName, meters: &QueueMeters, traced: &Span) -> Verdict {
    let queue = meters.name;
    match ended {
        Ok((_, Ok(verdict))) => {
            span::ended(traced, verdict.as_str(), verdict == Verdict::Backoff);
            verdict
        }
        Ok((_, Err(_elapsed))) => {
            span::ended(traced, "no-end", true);
            tracing::error!(queue, object = %key.object_name(), "a reconcile had no end and was dropped");
            Verdict::Backoff
        }
        Err(error) => {
            meters.panics.inc();
            span::ended(traced, "panic", true);
            tracing::error!(queue, object = %key.object_name(), %error, "a reconcile panicked: this is a defect, please report it");
            Verdict::Backoff
        }
    }
}

impl<K: Clone + Eq + Hash> Queue<K> {
    fn new(settings: QueueSettings, meters: QueueMeters) -> Self {
        Self {
            settings,
            meters,
            running: HashMap::new(),
            planned: BTreeMap::new(),
            plans: HashMap::new(),
            next_plan: 0,
            failures: HashMap::new(),
        }
    }

    /// A key that wants to run, since `since`. Returned when it is to run now.
    fn add(&mut self, key: K, since: Instant) -> Option<K> {
        if let Some(running) = self.running.get_mut(&key) {
            if running.again.is_none() {
                running.again = Some(since);
                self.meters.adds.inc();
                self.meters.depth.inc();
            }
            return None;
        }
        self.meters.adds.inc();
        Some(self.begin(key, since))
    }

    fn begin(&mut self, key: K, since: Instant) -> K {
        self.unplan(&key);
        let begun = Instant::now();
        self.meters.queue_duration.observe((begun - since).as_secs_f64());
        self.running.insert(key.clone(), Running { begun, again: None });
        key
    }

    /// A run has ended. Returns the key when it is to run once more at once.
    fn ended(&mut self, key: K, verdict: Verdict) -> Option<K> {
        let running = self.running.remove(&key)?;
        shrink(&mut self.running);
        self.meters.work_duration.observe(running.begun.elapsed().as_secs_f64());
        if self.running.is_empty() {
            self.measure();
        }
        match verdict {
            Verdict::Done | Verdict::Change => {
                self.failures.remove(&key);
                shrink(&mut self.failures);
            }
            Verdict::Backoff | Verdict::After(_) => {}
        }
        let delay = match verdict {
            Verdict::Done => None,
            Verdict::Change => Some(self.settings.resync),
            Verdict::After(delay) => Some(delay),
            Verdict::Backoff => Some(self.backoff(&key)),
        };
        if let Some(since) = running.again {
            self.meters.depth.dec();
            return Some(self.begin(key, since));
        }
        if let Some(delay) = delay {
            if verdict != Verdict::Change {
                self.meters.retries.inc();
            }
            self.plan(key, delay);
        }
        None
    }

    /// Tells how long the runs under way have taken so far.
    fn measure(&self) {
        let now = Instant::now();
        let so_far = self.running.values().map(|running| now - running.begun);
        let (all, longest) = so_far.fold((Duration::ZERO, Duration::ZERO), |(all, longest), this| {
            (all.saturating_add(this), longest.max(this))
        });
        self.meters.unfinished.set(all.as_secs_f64());
        self.meters.longest.set(longest.as_secs_f64());
    }

    fn backoff(&mut self, key: &K) -> Duration {
        let QueueSettings { min_backoff, max_backoff, .. } = self.settings;
        let delays = self.failures.entry(key.clone()).or_insert_with(|| {
            ExponentialBuilder::new()
                .with_min_delay(min_backoff)
                .with_max_delay(max_backoff)
                .without_max_times()
                .with_jitter()
                .build()
        });
        capped(delays.next().unwrap_or(max_backoff), max_backoff)
    }

    fn plan(&mut self, key: K, delay: Duration) {
        // A delay beyond the clock's end is as good as a year.
        let now = Instant::now();
        let at = now.checked_add(delay).unwrap_or(now + Duration::from_secs(365 * 24 * 60 * 60));
        let plan = (at, self.next_plan);
        self.next_plan = self.next_plan.wrapping_add(1);
        self.plans.insert(key.clone(), plan);
        self.planned.insert(plan, key);
    }

    fn unplan(&mut self, key: &K) {
        if let Some(plan) = self.plans.remove(key) {
            shrink(&mut self.plans);
            self.planned.remove(&plan);
        }
    }

    /// Where a key stands.
    fn place(&self, key: &K) -> Place {
        let now = Instant::now();
        match (self.running.get(key), self.plans.get(key)) {
            (Some(running), _) => Place::Running(now - running.begun),
            (None, Some((at, _))) => Place::Planned(at.saturating_duration_since(now)),
            (None, None) => Place::Idle,
        }
    }

    /// The planned key whose time has come.
    fn due(&mut self) -> Option<K> {
        let first = self.planned.first_entry()?;
        let at = first.key().0;
        if at > Instant::now() {
            return None;
        }
        let key = first.remove();
        self.plans.remove(&key);
        shrink(&mut self.plans);
        self.add(key, at)
    }
}
