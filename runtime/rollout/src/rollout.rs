//! All providers of the process.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use ccm_apiserver::EventRecorder;
use ccm_cloud::{Capability, EventSink};
use ccm_controllers::FirstList;
use ccm_sandbox::{CallObserver, Provider, Sandbox};
use futures::future::{join_all, try_join_all};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use tokio_util::sync::CancellationToken;

use crate::compare::Inventory;
use crate::config::ProviderConfig;
use crate::context::{SharedContext, Variables};
use crate::events::ProviderEvents;
use crate::keeper::{Audience, Keeper, KeeperSettings};
use crate::ledger::Peers;
use crate::metrics::ProviderMetrics;
use crate::pipeline::{Listeners, Surroundings, check_together};
use crate::slot::Slot;
use crate::state_folder::ProbationFiles;
use crate::status::{ProviderStatuses, Readiness};

/// What a [`Rollout`] works with.
pub struct RolloutParts {
    /// Runs the components.
    pub sandbox: Sandbox,
    /// Reads ConfigMaps.
    pub client: Client,
    /// Takes the Events that components emit.
    pub events: Arc<dyn EventSink>,
    /// Counts calls.
    pub calls: Arc<dyn CallObserver>,
    /// What all providers share.
    pub context: SharedContext,
    /// Takes what keeps the process from being ready.
    pub readiness: Readiness,
    /// The page that says how the providers stand.
    pub statuses: ProviderStatuses,
    /// Counts what becomes of components.
    pub metrics: ProviderMetrics,
    /// Writes the Events about components, at every replica.
    pub recorder: EventRecorder,
    /// The pod of this process, see [`host_pod`](crate::host_pod): Events about components of files go there.
    pub pod: Option<ObjectReference>,
    /// Names an object that needs an optional interface, if there is one.
    pub depends: Box<dyn Fn(Capability) -> Option<String> + Send + Sync>,
    /// Which components are on probation, in the state folder; to be told when the process [ends in order](ProbationFiles::end_in_order).
    pub probation_files: ProbationFiles,
    /// What exists in the cluster, about which a new component and the last good one are asked.
    pub inventory: Box<dyn Inventory>,
}

/// Loads the first component of each provider, and exchanges it whenever its source has another one.
pub struct Rollout {
    keepers: Vec<Keeper>,
}

impl Rollout {
    /// Begins to watch the sources, and says that the process is not ready before each provider is there.
    pub async fn new(providers: Vec<ProviderConfig>, settings: &KeeperSettings, parts: RolloutParts) -> Self {
        for provider in &providers {
            parts.metrics.begin(&provider.label());
        }
        let audience = Audience { events: ProviderEvents::new(parts.recorder, parts.pod), metrics: parts.metrics };
        let listeners = Listeners {
            events: parts.events,
            observer: parts.calls,
            readiness: parts.readiness,
            statuses: parts.statuses,
        };
        let inventory = Some(parts.inventory);
        let mut surroundings = Surroundings::new(
            parts.sandbox,
            parts.client,
            parts.context,
            listeners,
            parts.depends,
            inventory,
            parts.probation_files,
        );
        surroundings.variables = Variables::of(&providers);
        let surroundings = Arc::new(surroundings);
        let keeper = |provider| Keeper::new(&surroundings, provider, settings.clone(), audience.clone());
        Self { keepers: join_all(providers.into_iter().map(keeper)).await }
    }

    /// Those who are to be told that this process leads, once [`Self::run`] is under way.
    #[must_use]
    pub fn followers(&self) -> Followers {
        Followers(self.keepers.iter().filter_map(Keeper::peers).collect())
    }

    /// Waits until each provider has a component that serves, in the order of the configuration.
    ///
    /// # Errors
    ///
    /// A cloud-config cannot be read when it is first looked at, or two providers cannot live together.
    pub async fn bootstrap(&mut self) -> Result<Vec<Slot<Provider>>> {
        let slots = try_join_all(self.keepers.iter_mut().map(Keeper::bootstrap)).await?;
        let serving = self.keepers.iter().map(Keeper::label).zip(slots.iter().map(Slot::component));
        check_together(&serving.collect::<Vec<_>>())?;
        Ok(slots)
    }

    /// Follows the sources until `stop`; after [`Self::bootstrap`]. `ends` is cancelled when the process is to end, since one of the providers
    /// gives way to another replica. `nodes`: what the configuration of a provider may hang on.
    pub async fn run(self, nodes: FirstList, stop: CancellationToken, ends: CancellationToken) {
        let run = |keeper: Keeper| Box::pin(keeper.run(nodes.clone(), stop.clone()));
        follow_all(self.keepers.into_iter().map(run), &stop, &ends).await;
    }
}

/// Runs all until `stop`. One that ends before ends the process. The others go on until that has stopped: what becomes of their components
/// meanwhile is to be told and kept.
async fn follow_all<K: Future<Output = ()>>(
    keepers: impl Iterator<Item = K>,
    stop: &CancellationToken,
    ends: &CancellationToken,
) {
    let each = keepers.map(async |keeper| {
        keeper.await;
        ends.cancel();
    });
    tokio::join!(join_all(each), stop.cancelled());
}

/// How long a process that leads waits until the others know it: nobody works for the cluster meanwhile.
const LONGEST_TELLING: Duration = Duration::from_secs(15);

/// The other replicas, for a process that begins to lead.
pub struct Followers(Vec<Arc<Peers>>);

impl Followers {
    /// Tells them which components this process works with, and how they name load balancers, before any is made: a new pod takes none that names
    /// them in another way. Where that fails, or takes longer than 15 s, everything works without, and the keepers try again.
    pub async fn lead(self) {
        let told = join_all(self.0.iter().map(|peers| peers.lead()));
        if tokio::time::timeout(LONGEST_TELLING, told).await.is_err() {
            tracing::warn!(
                "the other replicas were not told in {LONGEST_TELLING:?} which components lead; the controllers start"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use futures::FutureExt as _;

    use super::*;

    /// The others were dropped with it, and what became of their components until the process had stopped was neither told nor kept.
    #[tokio::test(start_paused = true)]
    async fn a_provider_that_gives_way_ends_the_process_and_the_others_go_on_until_it_has_stopped() {
        let (stop, ends) = (CancellationToken::new(), CancellationToken::new());
        let is_kept = AtomicBool::new(false);
        let gives_way = async {}.boxed_local();
        let other = async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            is_kept.store(true, Ordering::Relaxed);
            stop.cancelled().await;
        };
        let process = async {
            ends.cancelled().await;
            assert!(!is_kept.load(Ordering::Relaxed), "at once");
            tokio::time::sleep(Duration::from_secs(10)).await;
            stop.cancel();
        };
        tokio::join!(follow_all([gives_way, other.boxed_local()].into_iter(), &stop, &ends), process);
        assert!(is_kept.load(Ordering::Relaxed));
    }

    #[tokio::test(start_paused = true)]
    async fn without_providers_it_runs_until_it_is_stopped_and_nothing_ends_the_process() {
        let (stop, ends) = (CancellationToken::new(), CancellationToken::new());
        let mut all = Box::pin(follow_all(std::iter::empty::<std::future::Ready<()>>(), &stop, &ends));
        assert_eq!((all.as_mut().now_or_never(), ends.is_cancelled()), (None, false));
        stop.cancel();
        all.await;
    }
}
