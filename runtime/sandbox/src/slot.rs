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
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;
use tokio::time::Instant;

pub use probation::{Phase, ProbationSettings};

use crate::Provider;
use probation::{LastGood, Probation, Verdict};

/// Who serves, and since which exchange.
struct Serving {
    provider: Arc<Provider>,
    probation: Option<Probation>,
    since: Instant,
    /// Whether a call that began on it has ended.
    called: AtomicBool,
    /// Whether it failed its probation.
    failed: watch::Sender<bool>,
}

impl Serving {
    fn new(provider: Arc<Provider>, probation: Option<Probation>) -> Arc<Self> {
        Arc::new(Self {
            provider,
            probation,
            since: Instant::now(),
            called: AtomicBool::new(false),
            failed: watch::Sender::new(false),
        })
    }
}

/// Holds the provider of the moment.
pub struct Slot {
    serving: Mutex<Arc<Serving>>,
    /// Whoever puts another one into the place, or tells of it, does so alone. Calls wait for `serving` only, which is held for
    /// as long as it takes to copy a pointer.
    changing: Mutex<()>,
    /// Grows with every exchange, rollbacks included.
    generation: watch::Sender<u64>,
    phase: watch::Sender<Phase>,
    first_call: watch::Sender<Option<Duration>>,
    recovered: watch::Sender<u64>,
}

impl Slot {
    /// A slot with its first provider, which has nobody to return to when it fails.
    #[must_use]
    pub fn new(provider: Arc<Provider>, probation: Option<ProbationSettings>) -> Self {
        let phase = if probation.is_some() { Phase::Probation } else { Phase::Proven };
        let probation = probation.map(|settings| Probation::begin(settings, None, &provider));
        Self {
            serving: Mutex::new(Serving::new(provider, probation)),
            changing: Mutex::new(()),
            generation: watch::Sender::new(1),
            phase: watch::Sender::new(phase),
            first_call: watch::Sender::new(None),
            recovered: watch::Sender::new(0),
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

    /// The one that is proven, or was the first one, as long as another one is on probation: what returns when that fails.
    #[must_use]
    pub fn last_good(&self) -> Option<Arc<Provider>> {
        let serving = self.serving();
        match &serving.probation {
            Some(probation) => probation.last_good.as_ref().map(|good| Arc::clone(&good.provider)),
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

    /// Grows when something answers again that did not, or when credentials are others: [`Provider::recoveries`] of whoever
    /// serves, as long as somebody runs [`Slot::follow`].
    #[must_use]
    pub fn recoveries(&self) -> watch::Receiver<u64> {
        self.recovered.subscribe()
    }

    /// Notices other credentials of whoever serves ([`Provider::follow_credentials`]), passes on what recovers, and ends a
    /// probation in time. Never ends.
    pub async fn follow(&self) {
        let mut generations = self.generations();
        loop {
            let provider = self.provider();
            tokio::select! {
                () = provider.follow_credentials() => {}
                () = self.pass_on(provider.recoveries()) => {}
                () = self.end_probations() => {}
                _ = generations.changed() => {}
            }
        }
    }

    /// Whoever has answered often enough is proven when its time is over, though nobody asks it anything then. Never ends.
    async fn end_probations(&self) {
        loop {
            let serving = self.serving();
            let Some(probation) = &serving.probation else { break };
            let mut wait = probation.time_left();
            if wait.is_zero() {
                self.decide(&serving);
                wait = probation.settings.time.max(Duration::from_secs(1));
            }
            drop(serving);
            tokio::time::sleep(wait).await;
        }
        std::future::pending().await
    }

    /// Never ends.
    async fn pass_on(&self, recoveries: Vec<watch::Receiver<u64>>) {
        let changed = |mut one: watch::Receiver<u64>| async move { one.changed().await.map(|()| one) };
        let mut waiting: FuturesUnordered<_> = recoveries.into_iter().map(changed).collect();
        while let Some(recovered) = waiting.next().await {
            if let Ok(one) = recovered {
                self.recovered.send_modify(|count| *count = count.wrapping_add(1));
                waiting.push(changed(one));
            }
        }
        std::future::pending().await
    }

    /// Whether an optional interface works now.
    #[must_use]
    pub fn has(&self, capability: Capability) -> bool {
        self.serving().provider.has(capability)
    }

    /// Puts another provider into the slot, on probation. Calls that have begun end on the one before. Who is proven stays
    /// at hand until this one is, also when several fail one after the other. Returns how long others had to wait for it.
    pub fn exchange(&self, provider: Arc<Provider>, probation: ProbationSettings) -> Duration {
        self.put_in(provider, probation, &self.changing.lock())
    }

    /// The same, if the slot still is in the phase that was `seen`: else what became of the one before would be told by nobody.
    pub fn exchange_after(
        &self,
        seen: &Phase,
        provider: &Arc<Provider>,
        probation: ProbationSettings,
    ) -> Option<Duration> {
        let changing = self.changing.lock();
        let is_so = *self.phase.borrow() == *seen;
        is_so.then(|| self.put_in(Arc::clone(provider), probation, &changing))
    }

    fn put_in(
        &self,
        provider: Arc<Provider>,
        probation: ProbationSettings,
        _changing: &MutexGuard<'_, ()>,
    ) -> Duration {
        let before = self.serving();
        let last_good = before.probation.as_ref().and_then(|probation| probation.last_good.clone());
        // The first one of all has not proved itself, but it is a witness: better than none.
        let last_good = last_good.unwrap_or_else(|| LastGood {
            provider: Arc::clone(&before.provider),
            is_proven: before.probation.is_none(),
        });
        let probation = Probation::begin(probation, Some(last_good), &provider);
        let next = Serving::new(provider, Some(probation));
        let begun = Instant::now();
        self.put_next(next);
        let took = begun.elapsed();
        self.first_call.send_replace(None);
        self.phase.send_replace(Phase::Probation);
        self.tell_generation();
        took
    }

    fn put(&self, next: Arc<Serving>) {
        // What it replaces is freed after the lock is: the caller holds it as well.
        *self.serving.lock() = next;
    }

    /// The same, as the next generation: whoever is served by it finds that number. Whoever waits for it is told by
    /// [`Self::tell_generation`], when nobody waits for the lock.
    fn put_next(&self, next: Arc<Serving>) {
        let mut serving = self.serving.lock();
        self.generation.send_if_modified(|generation| {
            *generation = generation.wrapping_add(1);
            false
        });
        *serving = next;
    }

    fn tell_generation(&self) {
        self.generation.send_modify(|_| {});
    }

    /// Notes the first call, when it is that.
    fn note(&self, called: &Arc<Serving>) {
        if called.called.load(Ordering::Relaxed) || called.called.swap(true, Ordering::Relaxed) {
            return;
        }
        let took = called.since.elapsed();
        let _changing = self.changing.lock();
        if self.is_serving(called) && called.probation.is_some() {
            self.first_call.send_replace(Some(took));
        }
    }

    /// Whoever serves now, which from here on is asked for something.
    fn asked(&self) -> Arc<Serving> {
        let serving = self.serving();
        if let Some(probation) = &serving.probation {
            probation.asked();
        }
        serving
    }

    /// A call that began on `judged` has ended: looks whether its probation is over, when it still serves.
    fn judge(&self, judged: &Arc<Serving>) {
        self.note(judged);
        self.decide(judged);
    }

    fn decide(&self, judged: &Arc<Serving>) {
        let Some(probation) = &judged.probation else { return };
        let verdict = probation.verdict(&judged.provider);
        if matches!(verdict, Verdict::Open) {
            return;
        }
        let _changing = self.changing.lock();
        if !self.is_serving(judged) {
            return;
        }
        match (verdict, &probation.last_good) {
            (Verdict::Failed(why), Some(LastGood { provider, is_proven })) => {
                judged.failed.send_replace(true);
                // What it knew of the cloud is older than what the other one did there.
                provider.forget_all();
                let again = (!is_proven).then(|| Probation::begin(probation.settings, None, provider));
                self.put_next(Serving::new(Arc::clone(provider), again));
                self.phase.send_replace(Phase::RolledBack { why, is_proven: *is_proven });
                self.tell_generation();
            }
            // Nobody to return to: it goes on, and its probation begins anew.
            (Verdict::Failed(_), None) => {
                let provider = Arc::clone(&judged.provider);
                let again = Probation::begin(probation.settings, None, &provider);
                self.put(Serving::new(provider, Some(again)));
            }
            (Verdict::Passed, _) => {
                self.put(Serving::new(Arc::clone(&judged.provider), None));
                // That it returned is said still: whoever looks now may not have seen it.
                let why = match &*self.phase.borrow() {
                    Phase::RolledBack { why, .. } => Some(why.clone()),
                    Phase::Probation | Phase::Proven => None,
                };
                self.phase.send_replace(why.map_or(Phase::Proven, |why| Phase::RolledBack { why, is_proven: true }));
            }
            (Verdict::Open, _) => {}
        }
    }
}
