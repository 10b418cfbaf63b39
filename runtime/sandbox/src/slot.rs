//! The place of a provider among the controllers: they hold the slot, and another provider can be put into it while they work.
//!
//! | promise | how |
//! |---|---|
//! | running calls end on the provider that they began on | each call takes an `Arc` of the provider of the moment |
//! | the old provider is freed when its last call ends | nobody else holds it, once the new one is proven |
//! | a new provider that is broken is replaced by the last good one | the slot counts what it does wrong, see [`ProbationSettings`] |
//! | nothing is deleted on the word of a new provider alone | the last good one is asked as well; load balancers wait |

mod answers;
mod probation;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ccm_cloud::Capability;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

pub use probation::{Phase, ProbationSettings};

use crate::Provider;
use probation::{Probation, Verdict};

/// Who serves, and since which exchange.
struct Serving {
    provider: Arc<Provider>,
    probation: Option<Probation>,
    since: Instant,
    /// Whether a call that began on it has ended.
    called: AtomicBool,
}

impl Serving {
    fn new(provider: Arc<Provider>, probation: Option<Probation>) -> Arc<Self> {
        Arc::new(Self { provider, probation, since: Instant::now(), called: AtomicBool::new(false) })
    }
}

/// Holds the provider of the moment.
pub struct Slot {
    serving: Mutex<Arc<Serving>>,
    /// Grows with every exchange, rollbacks included.
    generation: watch::Sender<u64>,
    phase: watch::Sender<Phase>,
    first_call: watch::Sender<Option<Duration>>,
}

impl Slot {
    /// A slot with its first provider, which has nobody to return to when it fails.
    #[must_use]
    pub fn new(provider: Arc<Provider>, probation: Option<ProbationSettings>) -> Self {
        let phase = if probation.is_some() { Phase::Probation } else { Phase::Proven };
        let probation = probation.map(|settings| Probation::begin(settings, None, &provider));
        Self {
            serving: Mutex::new(Serving::new(provider, probation)),
            generation: watch::Sender::new(1),
            phase: watch::Sender::new(phase),
            first_call: watch::Sender::new(None),
        }
    }

    /// The provider of the moment.
    #[must_use]
    pub fn provider(&self) -> Arc<Provider> {
        Arc::clone(&self.serving().provider)
    }

    fn serving(&self) -> Arc<Serving> {
        Arc::clone(&self.serving.lock())
    }

    fn is_serving(&self, one: &Arc<Serving>) -> bool {
        Arc::ptr_eq(&self.serving.lock(), one)
    }

    /// The one that is proven, as long as another one is on probation: what returns when that fails.
    #[must_use]
    pub fn last_good(&self) -> Option<Arc<Provider>> {
        let serving = self.serving();
        match &serving.probation {
            Some(probation) => probation.last_good.clone(),
            None => Some(Arc::clone(&serving.provider)),
        }
    }

    /// Grows with every exchange, from 1 on.
    #[must_use]
    pub fn generations(&self) -> watch::Receiver<u64> {
        self.generation.subscribe()
    }

    /// How the provider of the moment stands.
    #[must_use]
    pub fn phases(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    /// From the last exchange to the end of the first call that began on the new provider; none before that.
    #[must_use]
    pub fn first_calls(&self) -> watch::Receiver<Option<Duration>> {
        self.first_call.subscribe()
    }

    /// Notices other credentials of whoever serves ([`Provider::follow_credentials`]). Never ends.
    pub async fn follow_credentials(&self) {
        let mut generations = self.generations();
        loop {
            let provider = self.provider();
            tokio::select! {
                () = provider.follow_credentials() => {}
                _ = generations.changed() => {}
            }
        }
    }

    /// Whether an optional interface works now.
    #[must_use]
    pub fn has(&self, capability: Capability) -> bool {
        self.serving().provider.has(capability)
    }

    /// Puts another provider into the slot, on probation. Calls that have begun end on the one before. Who is proven stays
    /// at hand until this one is, also when several fail one after the other. Returns how long others had to wait for it.
    pub fn exchange(&self, provider: Arc<Provider>, probation: ProbationSettings) -> Duration {
        let old;
        let took;
        let begun = Instant::now();
        {
            let mut serving = self.serving.lock();
            // The first one of all has not proved itself, but it is a witness: better than none.
            let last_good = serving.probation.as_ref().and_then(|before| before.last_good.clone());
            let last_good = last_good.unwrap_or_else(|| Arc::clone(&serving.provider));
            let probation = Probation::begin(probation, Some(last_good), &provider);
            old = std::mem::replace(&mut *serving, Serving::new(provider, Some(probation)));
            self.first_call.send_replace(None);
            self.phase.send_replace(Phase::Probation);
            self.generation.send_modify(|generation| *generation = generation.wrapping_add(1));
            took = begun.elapsed();
        }
        // Not under the lock: to free code takes a moment.
        drop(old);
        took
    }

    /// Notes the first call, when it is that.
    fn note(&self, called: &Arc<Serving>) {
        if called.called.load(Ordering::Relaxed) || called.called.swap(true, Ordering::Relaxed) {
            return;
        }
        let took = called.since.elapsed();
        let serving = self.serving.lock();
        if Arc::ptr_eq(&serving, called) && called.probation.is_some() {
            self.first_call.send_replace(Some(took));
        }
    }

    /// A call that began on `judged` has ended: looks whether its probation is over, when it still serves.
    fn judge(&self, judged: &Arc<Serving>) {
        self.note(judged);
        let Some(probation) = &judged.probation else { return };
        let verdict = probation.verdict(&judged.provider);
        if matches!(verdict, Verdict::Open) {
            return;
        }
        let old;
        {
            let mut serving = self.serving.lock();
            if !Arc::ptr_eq(&serving, judged) {
                return;
            }
            let next = match &verdict {
                Verdict::Failed(_) => match &probation.last_good {
                    Some(good) => Arc::clone(good),
                    // Nobody to return to: it goes on, and its probation begins anew.
                    None => {
                        let provider = Arc::clone(&judged.provider);
                        let again = Probation::begin(probation.settings, None, &provider);
                        *serving = Serving::new(provider, Some(again));
                        return;
                    }
                },
                Verdict::Passed | Verdict::Open => Arc::clone(&judged.provider),
            };
            old = std::mem::replace(&mut *serving, Serving::new(next, None));
            match verdict {
                Verdict::Failed(why) => {
                    self.phase.send_replace(Phase::RolledBack(why));
                    self.generation.send_modify(|generation| *generation = generation.wrapping_add(1));
                }
                Verdict::Passed | Verdict::Open => {
                    self.phase.send_replace(Phase::Proven);
                }
            }
        }
        drop(old);
    }
}
