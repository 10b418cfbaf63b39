//! Keeps one provider up to date with its source, while the controllers work.
//!
//! ```text
//! source ──changed, settled──▶ gate ──passed──▶ slot, on probation ──▶ proven, kept in the state folder
//!                               │                    └──failed──▶ the last good one returns
//!                               └──rejected──▶ the one that serves goes on
//! ```

mod first;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use ccm_cloud::{Capability, Severity};
use ccm_sandbox::{Phase, ProbationSettings, Slot};
use futures::FutureExt as _;
use jiff::Timestamp;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::api::backoff;
use crate::gate::{self, Rejected, Step};
use crate::last_good::{LastGood, Remembered};
use crate::load::{LookAgain, Surroundings, Taken};
use crate::provider_events::ProviderEvents;
use crate::provider_metrics::ProviderMetrics;
use crate::provider_status::{Refused, Times, Version, milliseconds, short};
use crate::providers::ProviderConfig;
use crate::source::{Changes, Packed};

/// First wait between two tries.
const MIN_DELAY: Duration = Duration::from_secs(1);
/// Longest wait between two tries.
const MAX_DELAY: Duration = Duration::from_secs(60);

/// How sources are watched and new components proven.
#[derive(Debug, Clone)]
pub(crate) struct KeeperSettings {
    /// How often a path is looked at.
    pub(crate) poll: Duration,
    /// How long a source must stay the same.
    pub(crate) settle: Duration,
    pub(crate) probation: ProbationSettings,
    /// Where last good components are kept.
    pub(crate) state_dir: Option<PathBuf>,
}

/// Where news of providers go.
#[derive(Clone)]
pub(crate) struct News {
    pub(crate) events: ProviderEvents,
    pub(crate) metrics: ProviderMetrics,
}

/// A component and its signature.
type Candidate = (Vec<u8>, Option<Vec<u8>>);

/// Keeps one provider.
pub(crate) struct Keeper {
    surroundings: Arc<Surroundings>,
    config: ProviderConfig,
    settings: KeeperSettings,
    news: News,
    source: String,
    changes: Changes,
    last_good: Option<LastGood>,
    remembered: Remembered,
    /// What serves.
    serving: Option<Version>,
    /// Since this exchange.
    generation: u64,
    /// What returns when that fails: the last one that was proven, or the first one of all.
    proven: Option<Version>,
    /// What is on probation, for the state folder.
    candidate: Option<Candidate>,
    /// The same of the first one, which returns when that fails, and goes on with its own probation.
    first_candidate: Option<Candidate>,
    /// What the source held when it was judged last, for good.
    judged: Option<[u8; 32]>,
    /// What was told of the source last.
    told: Option<String>,
    /// `metadata.uid` of the ConfigMap.
    uid: Option<String>,
    /// What is still to be asked of the first one.
    look: Option<LookAgain>,
    /// Optional interfaces of the first one: controllers were started for these.
    offered: Vec<Capability>,
    /// How often in a row something failed that may pass later.
    tries: u32,
    retry: Option<Instant>,
}

impl Keeper {
    /// Says that the process is not ready before this provider is there, and begins to watch its source.
    pub(crate) async fn new(
        surroundings: &Arc<Surroundings>,
        config: ProviderConfig,
        settings: KeeperSettings,
        news: News,
    ) -> Self {
        let source = config.source.to_string();
        surroundings.readiness.set(&check(&source), Err("not loaded yet".to_owned()));
        surroundings.statuses.update(&source, |_| {});
        let changes = Changes::of(&config.source, Some(&surroundings.client), settings.poll);
        let last_good = settings.state_dir.as_ref().map(|folder| LastGood::new(folder, &config.source));
        let remembered = match &last_good {
            Some(last_good) => last_good.remembered(&config.source).await,
            None => Remembered::of(&config.source),
        };
        Self {
            surroundings: Arc::clone(surroundings),
            config,
            settings,
            news,
            source,
            changes,
            last_good,
            remembered,
            serving: None,
            generation: 0,
            proven: None,
            candidate: None,
            first_candidate: None,
            judged: None,
            told: None,
            uid: None,
            look: None,
            offered: vec![],
            tries: 0,
            retry: None,
        }
    }

    /// What is still to be asked of the first provider.
    pub(crate) const fn look_again(&mut self) -> Option<LookAgain> {
        self.look.take()
    }

    /// Another component serves.
    fn serves(&mut self, version: Version, on_probation: bool, generation: u64, times: Option<Times>) {
        self.news.metrics.serves(&self.source, &version, self.serving.as_ref(), generation);
        self.news.metrics.on_probation(&self.source, on_probation);
        let proven = self.proven.clone();
        self.surroundings.statuses.update(&self.source, |status| {
            status.serving = Some(version.clone());
            status.phase = Some(if on_probation { "probation" } else { "proven" });
            status.last_good = proven.filter(|_| on_probation);
            status.since = Some(Timestamp::now());
            status.generation = generation;
            status.times = times.or(status.times);
            if times.is_some() {
                status.refused = None;
            }
        });
        (self.serving, self.generation) = (Some(version), generation);
    }

    /// Follows the source until `stop`.
    pub(crate) async fn run(mut self, slot: Arc<Slot>, stop: CancellationToken) {
        let mut phases = slot.phases();
        let mut first_calls = slot.first_calls();
        if let Some(serving) = &self.serving {
            let text = format!("{serving} serves");
            self.news
                .events
                .tell(&self.config.source, self.uid.as_deref(), Severity::Normal, "ProviderLoaded", text)
                .await;
        }
        loop {
            let retry = self.retry;
            tokio::select! {
                () = stop.cancelled() => return,
                changed = phases.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    let phase = phases.borrow_and_update().clone();
                    self.phase_changed(&slot, phase).await;
                }
                // The slot lives as long as this.
                Ok(()) = first_calls.changed() => {
                    let took = first_calls.borrow_and_update().map(milliseconds);
                    self.surroundings.statuses.update(&self.source, |status| {
                        status.times = status.times.map(|times| Times { first_call_ms: took, ..times });
                    });
                }
                () = self.changes.next() => self.look(&slot, &mut phases).await,
                () = tokio::time::sleep_until(retry.unwrap_or_else(Instant::now)), if retry.is_some() => {
                    self.retry = None;
                    self.look(&slot, &mut phases).await;
                }
            }
        }
    }

    async fn fetch(&mut self) -> Result<Packed, Rejected> {
        let packed = self.config.source.fetch(Some(&self.surroundings.client), self.config.limits.source_bytes).await?;
        self.uid.clone_from(&packed.uid);
        Ok(packed)
    }

    /// What the source holds once it has stayed the same; none when that is what was judged already.
    async fn settled(&mut self) -> Result<Option<Packed>, Rejected> {
        let mut last = self.fetch().await.map(|packed| packed.mark()).ok();
        loop {
            if last.is_some() && last == self.judged {
                return Ok(None);
            }
            tokio::time::sleep(self.settings.settle).await;
            // What was told meanwhile is seen now.
            while self.changes.next().now_or_never().is_some() {}
            let packed = self.fetch().await;
            let mark = packed.as_ref().map(Packed::mark).ok();
            if mark == last {
                return packed.map(Some);
            }
            last = mark;
        }
    }

    async fn look(&mut self, slot: &Arc<Slot>, phases: &mut watch::Receiver<Phase>) {
        let begun = Instant::now();
        let packed = match self.settled().await {
            Ok(Some(packed)) => packed,
            Ok(None) => {
                (self.tries, self.retry) = (0, None);
                return;
            }
            Err(rejected) => {
                // Whatever comes back is looked at, so that what is told is not what was told before it went.
                self.judged = None;
                return self.keeps(rejected).await;
            }
        };
        let read = begun.elapsed();
        let mark = packed.mark();
        let unpacked = match gate::unpacked(&self.config, packed).await {
            Ok(unpacked) => unpacked,
            Err(rejected) => return self.refuse(rejected, mark).await,
        };
        if self.serving.as_ref().is_some_and(|serving| serving.digest == unpacked.digest) {
            // Packed in another way, or changed and changed back.
            self.judged = Some(mark);
            self.forget().await;
            return self.is_as_before();
        }
        if self.remembered.refused.as_ref() == Some(&unpacked.digest) {
            self.judged = Some(mark);
            let error = anyhow::anyhow!(
                "this component failed its probation before; put another one there, or the same one after another"
            );
            let serving = self.goes_on();
            return self.reject(Rejected { step: Step::Check, digest: Some(unpacked.digest), error }, &serving).await;
        }
        // A new one stands in for the last good one, whoever serves now.
        let before = slot.last_good().unwrap_or_else(|| slot.provider());
        match self.surroundings.admit(&self.config, unpacked, Some(&before)).await {
            Ok(taken) => {
                self.judged = Some(mark);
                self.exchange(slot, phases, taken, read).await;
            }
            Err(refusal) => self.refuse(refusal.into_rejected(), mark).await,
        }
    }

    async fn exchange(&mut self, slot: &Arc<Slot>, phases: &mut watch::Receiver<Phase>, taken: Taken, read: Duration) {
        let version = version(&taken);
        let Taken { provider, bytes, signature, took, compiling, .. } = taken;
        let (seen, exchange) = loop {
            // What became of the one before is told before its place is taken.
            let seen = phases.borrow_and_update().clone();
            self.phase_changed(slot, seen.clone()).await;
            if let Some(took) = slot.exchange_after(&seen, &provider, self.settings.probation) {
                break (seen, took);
            }
        };
        drop(provider);
        // When the one before is still on probation, the last good one is that before it, if there was one.
        if self.proven.is_none() || seen != Phase::Probation {
            self.proven = self.serving.clone();
            self.first_candidate = self.candidate.take();
        }
        self.candidate = Some((bytes, signature));
        self.forget().await;
        let times = Times {
            read_ms: milliseconds(read),
            compile_ms: milliseconds(compiling),
            takeover_ms: milliseconds(took.saturating_sub(compiling).saturating_add(exchange)),
            exchange_ms: milliseconds(exchange),
            first_call_ms: None,
        };
        let before = self.serving.clone();
        self.news.metrics.took(&self.source, took, Some(exchange));
        self.news.metrics.load(&self.source, "taken", "");
        self.serves(version.clone(), true, *slot.generations().borrow(), Some(times));
        (self.told, self.tries, self.retry) = (None, 0, None);
        let before = before.map(|before| format!(" in place of {before}")).unwrap_or_default();
        let idle = self.idle(slot);
        let text = format!("{version} serves{before}; on probation for {:?}{idle}", self.settings.probation.time);
        tracing::info!(source = self.source, times = ?times, "provider exchanged: {text}");
        self.news.events.tell(&self.config.source, self.uid.as_deref(), Severity::Normal, "ProviderLoaded", text).await;
    }

    /// What the new one offers and no controller was started for.
    fn idle(&self, slot: &Slot) -> String {
        let all = [(Capability::LoadBalancers, "load-balancers"), (Capability::Cluster, "cluster")];
        let new = all.into_iter().filter(|(capability, _)| slot.has(*capability) && !self.offered.contains(capability));
        let names: Vec<&str> = new.map(|(_, name)| name).collect();
        if names.is_empty() {
            return String::new();
        }
        format!("; it offers {}, which the one at the start did not: restart the host to use that", names.join(" and "))
    }

    /// The slot may have judged. Says so, once.
    async fn phase_changed(&mut self, slot: &Slot, phase: Phase) {
        match phase {
            Phase::Probation => {}
            Phase::Proven => self.proves().await,
            Phase::RolledBack { why, is_proven } => {
                let generation = *slot.generations().borrow();
                if generation != self.generation {
                    self.returns(why, generation).await;
                }
                if is_proven {
                    self.proves().await;
                }
            }
        }
    }

    /// What serves is proven now.
    async fn proves(&mut self) {
        let (Some(serving), Some((bytes, signature))) = (self.serving.clone(), self.candidate.take()) else { return };
        tracing::info!(source = self.source, "{serving} is proven");
        (self.proven, self.first_candidate) = (Some(serving.clone()), None);
        self.serves(serving, false, self.generation, None);
        if let Some(last_good) = &self.last_good
            && let Err(error) = last_good.keep(&bytes, signature.as_deref()).await
        {
            let error = format!("{error:#}");
            tracing::warn!(source = self.source, error, "the last good component is not kept; check --state-dir");
        }
    }

    /// The one before is back.
    async fn returns(&mut self, why: String, generation: u64) {
        let (Some(failed), Some(good)) = (self.serving.clone(), self.proven.clone()) else { return };
        self.candidate = self.first_candidate.take();
        let on_probation = self.candidate.is_some();
        if on_probation {
            self.proven = None;
        }
        self.remembered.refused = Some(failed.digest.clone());
        self.keep_memory().await;
        self.news.metrics.load(&self.source, "rolled-back", "probation");
        self.serves(good.clone(), on_probation, generation, None);
        let refused = Refused::now(None, Some(failed.digest.clone()), why.clone());
        self.surroundings.statuses.update(&self.source, |status| status.refused = Some(refused));
        let text = format!("{failed} failed its probation, {good} serves again: {why}");
        tracing::error!(source = self.source, "provider rolled back: {text}");
        self.news
            .events
            .tell(&self.config.source, self.uid.as_deref(), Severity::Warning, "ProviderRolledBack", text)
            .await;
    }

    /// A component was not taken. What may pass later is tried again.
    async fn refuse(&mut self, rejected: Rejected, mark: [u8; 32]) {
        if !rejected.step.may_pass_later() {
            self.judged = Some(mark);
            self.forget().await;
        }
        self.keeps(rejected).await;
    }

    /// The source holds something else than what failed: that may be tried again one day.
    async fn forget(&mut self) {
        if self.remembered.refused.take().is_some() {
            self.keep_memory().await;
        }
    }

    async fn keep_memory(&mut self) {
        let Some(last_good) = &self.last_good else { return };
        if let Err(error) = last_good.remember(&self.remembered).await {
            let error = format!("{error:#}");
            tracing::warn!(source = self.source, error, "what was refused is not remembered; check --state-dir");
        }
    }

    /// The provider that serves goes on, since the source has nothing better.
    async fn keeps(&mut self, rejected: Rejected) {
        if rejected.step.may_pass_later() {
            let delay = self.next_delay();
            self.retry = Some(Instant::now() + delay);
        }
        let serving = self.goes_on();
        self.reject(rejected, &serving).await;
    }

    fn goes_on(&self) -> String {
        self.serving.as_ref().map(|serving| format!("{serving} goes on serving")).unwrap_or_default()
    }

    /// Says so, once.
    async fn reject(&mut self, rejected: Rejected, instead: &str) {
        let Rejected { step, digest, error } = rejected;
        let reason = format!("{error:#}");
        let text = match &digest {
            Some(digest) => {
                format!("{} is not taken (step {step} of the gate): {reason}; {instead}", short(digest))
            }
            None => format!("step {step} of the gate: {reason}; {instead}"),
        };
        if self.told.as_ref() == Some(&text) {
            return;
        }
        self.told = Some(text.clone());
        self.news.metrics.load(&self.source, "rejected", step.as_str());
        let refused = Refused::now(Some(step), digest, reason);
        self.surroundings.statuses.update(&self.source, |status| status.refused = Some(refused));
        if self.serving.is_some() {
            tracing::error!(source = self.source, "provider rejected: {text}");
        }
        self.news
            .events
            .tell(&self.config.source, self.uid.as_deref(), Severity::Warning, "ProviderRejected", text)
            .await;
    }

    /// The source holds what serves.
    fn is_as_before(&mut self) {
        (self.tries, self.retry) = (0, None);
        if let (Some(_), Some(serving)) = (self.told.take(), &self.serving) {
            tracing::info!(source = self.source, "the source holds what serves: {serving}");
        }
        self.surroundings.statuses.update(&self.source, |status| status.refused = None);
    }

    fn next_delay(&mut self) -> Duration {
        let tries = usize::try_from(self.tries).unwrap_or(usize::MAX);
        self.tries = self.tries.saturating_add(1).min(16);
        backoff(MIN_DELAY, MAX_DELAY).nth(tries).unwrap_or(MAX_DELAY)
    }
}

fn version(Taken { provider, digest, .. }: &Taken) -> Version {
    let descriptor = provider.descriptor();
    Version { name: descriptor.name.clone(), version: descriptor.version.clone(), digest: digest.clone() }
}

/// Name of what must be true of a provider before the process is ready.
fn check(source: &str) -> String {
    format!("provider {source}")
}
