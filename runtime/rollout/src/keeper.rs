//! Keeps one provider up to date with its source, while the controllers work.
//!
//! ```text
//! source ──changed, settled──▶ gate ──passed──▶ slot, on probation ──▶ proven, kept in the state folder
//!                               │                    └──failed──▶ the last good one returns
//!                               └──rejected──▶ the one that serves goes on
//! ```
//!
//! | module | does |
//! |---|---|
//! | `bootstrap` | finds the first component: the last good one of the state folder, else that of the source |
//! | `poll` | looks at the source from then on, and takes what it holds through the gate |
//! | `configuration` | looks at the files of the configuration, and takes what they hold through the gate |
//! | `share` | tells other replicas, and takes their word |
//! | `report` | tells what becomes of components: Events, log, metrics, page, state folder |
//! | `sources` | tells which credentials in use cannot be read any more |
//!
//! Which component serves is the [`Slot`]'s to say; nothing of it is kept here.

mod bootstrap;
mod configuration;
mod poll;
mod report;
mod share;
mod sources;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ccm_controllers::FirstList;
use ccm_sandbox::Provider;
use futures::future::OptionFuture;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::compare::Report;
use crate::config::ProviderConfig;
use crate::events::ProviderEvents;
use crate::ledger::{PeerSettings, Peers};
use crate::metrics::ProviderMetrics;
use crate::offers;
use crate::pipeline::{LookAgain, Optimise, Surroundings};
use crate::release::Version;
use crate::retry::{Retry, until};
use crate::slot::{News, ProbationSettings, Slot};
use crate::source::Changes;
use crate::state_folder::{Remembered, StateFolder};
use crate::status::Known;
use crate::trust::Counted;
use configuration::Configuration;
use report::{Candidate, Told};
use share::Share;
use sources::Sources;

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
    /// Where replicas meet; none: each knows only what it has found out by itself.
    pub peers: Option<PeerSettings>,
}

/// Where it is told what becomes of components.
#[derive(Clone)]
pub(crate) struct Audience {
    pub(crate) events: ProviderEvents,
    pub(crate) metrics: ProviderMetrics,
}

/// The slot of a keeper, and what is told of it.
pub(super) struct KeptSlot {
    pub(super) slot: Slot<Provider>,
    pub(super) news: mpsc::UnboundedReceiver<News>,
}

/// What the source held when it was judged.
struct Judged {
    mark: [u8; 32],
    /// Digest of the component, where it did not pass the gate.
    rejected: Option<String>,
}

/// Keeps one provider.
pub(crate) struct Keeper {
    surroundings: Arc<Surroundings>,
    config: Arc<ProviderConfig>,
    settings: KeeperSettings,
    audience: Audience,
    source: String,
    changes: Changes,
    configuration: Configuration,
    state_folder: Option<StateFolder>,
    /// None where nothing is shared with other replicas.
    share: Option<Share>,
    /// What is known of the source from the time before this process.
    remembered: Remembered,
    /// What was told that could not be written to the state folder.
    unwritten: BTreeSet<&'static str>,
    /// When that is written again.
    rewrite: Retry,
    /// What the source said last of components that served already: they may have been signed once more. Of the proven one, and of the one
    /// on probation.
    signed_last: Vec<Counted>,
    /// None before there is a first component.
    place: Option<KeptSlot>,
    /// What is put into the state folder when it is proven: the one on probation; during an exchange, still the previous candidate.
    candidate: Option<Candidate>,
    /// The proven one, where it could not be written to the state folder yet.
    unkept: Option<Candidate>,
    /// What the source held when it was judged last, for good.
    judged: Option<Judged>,
    /// Digest of the component that was rejected here, and is judged once more since another replica has proven it.
    judged_again: Option<String>,
    /// What was told of the source last.
    told: Option<Told>,
    /// What was told of credentials last.
    sources: Sources,
    /// `metadata.uid` of the ConfigMap.
    uid: Option<String>,
    /// What is still to be asked of the first one.
    look: Option<LookAgain>,
    /// What the first one does not find, and was taken all the same.
    missed: Option<Report>,
    /// What is still to be done for the code of the first one.
    optimise: Option<Optimise>,
    /// When the source is looked at though it has not changed.
    retry: Retry,
    /// Since when the API server does not give the ConfigMap.
    away: Option<Instant>,
    /// Digest of the first component, which had no probation.
    first: Option<String>,
    /// Another replica refused the proven one: when it is asked next whether that leads, and this process is to [end](Self::gives_way).
    contest: Option<Instant>,
}

impl Keeper {
    /// Says that the process is not ready before this provider is there, and begins to watch its source.
    pub(crate) async fn new(
        surroundings: &Arc<Surroundings>,
        config: ProviderConfig,
        settings: KeeperSettings,
        audience: Audience,
    ) -> Self {
        let source = config.label();
        (surroundings.listeners.readiness)(&check(&source), Err("not loaded yet".to_owned()));
        surroundings.listeners.statuses.change(&source, |_| {});
        let changes = Changes::of(&config.source, Some(&surroundings.client), settings.poll);
        let configuration = Configuration::of(&config, settings.poll);
        let state_folder =
            settings.state_dir.as_ref().map(|folder| StateFolder::new(folder, &source, &surroundings.probation_files));
        let peers = settings.peers.clone();
        let peers = peers.map(|peers| Peers::new(peers, &surroundings.client, &source, &config.trust));
        let remembered = match &state_folder {
            Some(state_folder) => state_folder.remembered().await,
            None => Remembered::of(&source),
        };
        let share = peers.map(|peers| Share::new(peers, &source, &remembered.refused));
        Self {
            surroundings: Arc::clone(surroundings),
            config: Arc::new(config),
            settings,
            audience,
            source,
            changes,
            configuration,
            state_folder,
            share,
            remembered,
            unwritten: BTreeSet::new(),
            rewrite: Retry::between(MIN_DELAY, MAX_DELAY),
            signed_last: vec![],
            place: None,
            candidate: None,
            unkept: None,
            judged: None,
            judged_again: None,
            told: None,
            sources: Sources::default(),
            uid: None,
            look: None,
            missed: None,
            optimise: None,
            retry: Retry::between(MIN_DELAY, MAX_DELAY),
            away: None,
            first: None,
            contest: None,
        }
    }

    /// Which provider it is, among all of the process.
    pub(crate) fn label(&self) -> &str {
        &self.source
    }

    /// The page says something else from now on, and so does the metric of what is refused.
    fn shows(&self, change: impl FnOnce(&mut Known)) {
        self.surroundings.listeners.statuses.change(&self.source, |known| {
            change(known);
            let refused = [known.not_taken.is_some(), known.rejected_configuration.is_some()];
            self.audience.metrics.refuses(&self.source, refused);
        });
    }

    /// Where the components serve; none before there is a first one.
    pub(super) fn slot(&self) -> Option<&Slot<Provider>> {
        self.place.as_ref().map(|place| &place.slot)
    }

    /// Who serves; none before there is a first one.
    fn serving(&self) -> Option<Arc<Version>> {
        self.slot().map(|slot| Arc::clone(slot.standing().serving()))
    }

    /// Follows the source until `stop`, or until this process is to end; only after [`Self::bootstrap`]. `nodes`: what the configuration of
    /// the provider may hang on.
    pub(crate) async fn run(mut self, nodes: FirstList, stop: CancellationToken) {
        let Some(slot) = self.slot().cloned() else { return Box::pin(self.follow(stop)).await };
        let look = OptionFuture::from(self.look.take().map(|look| look.run(slot.clone(), nodes)));
        let optimise = OptionFuture::from(self.optimise.take().map(|optimise| optimise.run(slot.clone())));
        let (source, surroundings) = (self.source.clone(), Arc::clone(&self.surroundings));
        let asked = offers::follow(&source, &slot, |capability| (surroundings.depends)(capability));
        tokio::select! {
            () = self.follow(stop) => {}
            // At every replica: a standby is to notice before it leads, and must work then.
            _ = async { tokio::join!(look, optimise, asked, slot.follow_credentials()) } => {}
        }
    }

    /// What becomes of components is told to the end, also when the process stops meanwhile.
    async fn follow(&mut self, stop: CancellationToken) {
        Box::pin(stop.run_until_cancelled(self.begun())).await;
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                Some(news) = next(self.place.as_mut()) => self.report(news).await,
                () = self.changes.next() => self.look().await,
                () = self.configuration.next() => self.configure().await,
                () = Share::next(self.share.as_mut()) => self.listen().await,
                // Not while something is in the gate: it may be what the source holds in the place of the one that was refused.
                () = until(self.contest) => {
                    if self.gives_way().await {
                        return;
                    }
                }
                () = until(self.retry.due) => {
                    self.retry.due = None;
                    self.look().await;
                }
                () = until(self.rewrite.due) => self.write_again().await,
            }
        }
    }

    /// Waits for `work`, and tells meanwhile what becomes of the one that serves: the gate may take a minute, and keeps running while news is
    /// reported.
    pub(super) async fn meanwhile<T: Send + 'static>(&mut self, work: impl Future<Output = T> + Send + 'static) -> T {
        let mut tasks = JoinSet::new();
        tasks.spawn(work);
        loop {
            tokio::select! {
                Some(done) = tasks.join_next() => match done {
                    Ok(done) => return done,
                    Err(error) => match error.try_into_panic() {
                        Ok(panic) => std::panic::resume_unwind(panic),
                        // The process ends.
                        Err(_) => std::future::pending().await,
                    },
                },
                Some(news) = next(self.place.as_mut()) => Box::pin(self.report(news)).await,
                () = Share::next(self.share.as_mut()) => Box::pin(self.listen()).await,
            }
        }
    }
}

/// The next thing that becomes of components; none before there is a first one, and when nothing can come any more.
async fn next(place: Option<&mut KeptSlot>) -> Option<News> {
    place?.news.recv().await
}

/// Name of what must be true of a provider before the process is ready.
fn check(source: &str) -> String {
    format!("provider {source}")
}
