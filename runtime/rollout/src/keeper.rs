//! Keeps one provider up to date with its source, while the controllers work.
//!
//! ```text
//! source ──changed, settled──▶ gate ──passed──▶ slot, on probation ──▶ proven, kept in the state folder
//!                               │                    └──failed──▶ the last good one returns
//!                               └──rejected──▶ the one that serves goes on
//! ```

mod bootstrap;
mod poll;
mod verdict;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ccm_cloud::{Capability, Severity};
use ccm_sandbox::{ProbationSettings, Slot};
use jiff::Timestamp;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::config::ProviderConfig;
use crate::events::ProviderEvents;
use crate::last_good::{LastGood, Remembered};
use crate::metrics::ProviderMetrics;
use crate::pipeline::{LookAgain, Optimise, Surroundings, Taken};
use crate::source::Changes;
use crate::status::{Times, Version, milliseconds};
use poll::Place;
use verdict::Candidate;

/// First wait between two tries.
const MIN_DELAY: Duration = Duration::from_secs(1);
/// Longest wait between two tries.
const MAX_DELAY: Duration = Duration::from_secs(60);

/// How sources are watched and new components proven.
#[derive(Debug, Clone)]
pub struct KeeperSettings {
    /// How often a path is looked at.
    pub poll: Duration,
    /// How long a source must stay the same.
    pub settle: Duration,
    /// How a new component proves itself.
    pub probation: ProbationSettings,
    /// Where last good components are kept.
    pub state_dir: Option<PathBuf>,
}

/// Where news of providers go.
#[derive(Clone)]
pub(crate) struct News {
    pub(crate) events: ProviderEvents,
    pub(crate) metrics: ProviderMetrics,
}

/// Keeps one provider.
pub(crate) struct Keeper {
    surroundings: Arc<Surroundings>,
    config: Arc<ProviderConfig>,
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
    /// What was told of the source last, without request IDs.
    told: Option<String>,
    /// What the source held when it could not be unpacked last: without a digest, nothing in the text tells one from another.
    broken: Option<[u8; 32]>,
    /// `metadata.uid` of the ConfigMap.
    uid: Option<String>,
    /// What is still to be asked of the first one.
    look: Option<LookAgain>,
    /// What is still to be done for the code of the first one.
    optimise: Option<Optimise>,
    /// Optional interfaces of the first one: controllers were started for these.
    offered: Vec<Capability>,
    /// How often in a row something failed that may pass later.
    tries: u32,
    retry: Option<Instant>,
    /// Since when the API server does not give the ConfigMap.
    away: Option<Instant>,
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
        (surroundings.readiness)(&check(&source), Err("not loaded yet".to_owned()));
        surroundings.statuses.update(&source, |_| {});
        let changes = Changes::of(&config.source, Some(&surroundings.client), settings.poll);
        let last_good = settings.state_dir.as_ref().map(|folder| LastGood::new(folder, &config.source));
        let remembered = match &last_good {
            Some(last_good) => last_good.remembered(&config.source).await,
            None => Remembered::of(&config.source),
        };
        Self {
            surroundings: Arc::clone(surroundings),
            config: Arc::new(config),
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
            broken: None,
            uid: None,
            look: None,
            optimise: None,
            offered: vec![],
            tries: 0,
            retry: None,
            away: None,
        }
    }

    /// What is still to be asked of the first provider.
    pub(crate) const fn look_again(&mut self) -> Option<LookAgain> {
        self.look.take()
    }

    /// What is still to be done for the code of the first provider.
    pub(crate) const fn optimise(&mut self) -> Option<Optimise> {
        self.optimise.take()
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
        let mut first_calls = slot.first_calls();
        let mut place = Place { phases: slot.phases(), slot };
        stop.run_until_cancelled(self.loaded(&mut place)).await;
        loop {
            let retry = self.retry;
            tokio::select! {
                () = stop.cancelled() => return,
                changed = place.phases.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    self.phase_changed(&mut place).await;
                }
                // The slot lives as long as this.
                Ok(()) = first_calls.changed() => {
                    let took = first_calls.borrow_and_update().map(milliseconds);
                    self.surroundings.statuses.update(&self.source, |status| {
                        status.times = status.times.map(|times| Times { first_call_ms: took, ..times });
                    });
                }
                () = self.changes.next() => self.look(&mut place).await,
                () = tokio::time::sleep_until(retry.unwrap_or_else(Instant::now)), if retry.is_some() => {
                    self.retry = None;
                    self.look(&mut place).await;
                }
            }
        }
    }

    /// Tells of the first one.
    async fn loaded(&mut self, place: &mut Place) {
        let Some(serving) = self.serving.clone() else { return };
        if self.uid.is_none() {
            // It came from the state folder, and without a UID people do not see its Event at the ConfigMap.
            let fetch = self.fetch();
            self.uid = self.meanwhile(place, fetch).await.ok().and_then(|packed| packed.uid);
        }
        self.tell(Severity::Normal, "ProviderLoaded", format!("{serving} serves")).await;
    }

    /// An Event, at the ConfigMap or the host's pod.
    async fn tell(&mut self, severity: Severity, reason: &str, text: String) {
        self.news.events.tell(&self.config.source, self.uid.as_deref(), severity, reason, text).await;
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
