//! All providers of the process.

use std::sync::Arc;

use anyhow::Result;
use ccm_cloud::{Capability, EventSink};
use ccm_controllers::{EventRecorder, FirstList};
use ccm_sandbox::{CallObserver, Provider, Sandbox};
use futures::future::{join_all, try_join_all};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::compare::Inventory;
use crate::config::ProviderConfig;
use crate::context::SharedContext;
use crate::events::ProviderEvents;
use crate::keeper::{Audience, Keeper, KeeperSettings};
use crate::metrics::ProviderMetrics;
use crate::pipeline::{Surroundings, check_together};
use crate::slot::Slot;
use crate::status::ProviderStatuses;

/// Takes what must be true of a provider before the process is ready: the name of the check, and why it does not hold.
pub type Readiness = Arc<dyn Fn(&str, Result<(), String>) + Send + Sync>;

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
    /// What exists in the cluster, about which a new component and the one before are asked.
    pub inventory: Box<dyn Inventory>,
}

/// Loads the first component of each provider, and exchanges it whenever its source has another one.
pub struct Rollout {
    keepers: Vec<(Keeper, Option<Slot<Provider>>)>,
}

impl Rollout {
    /// Begins to watch the sources, and says that the process is not ready before each provider is there.
    pub async fn new(providers: Vec<ProviderConfig>, settings: &KeeperSettings, parts: RolloutParts) -> Self {
        for provider in &providers {
            parts.metrics.begin(&provider.source.to_string());
        }
        let audience = Audience { events: ProviderEvents::new(parts.recorder, parts.pod), metrics: parts.metrics };
        let surroundings = Arc::new(Surroundings {
            sandbox: parts.sandbox,
            client: parts.client,
            events: parts.events,
            observer: parts.calls,
            shared: parts.context,
            readiness: parts.readiness,
            statuses: parts.statuses,
            depends: parts.depends,
            inventory: Some(parts.inventory),
            carryovers: Mutex::default(),
            slots: Mutex::default(),
        });
        let keeper = |provider| Keeper::new(&surroundings, provider, settings.clone(), audience.clone());
        let keepers = join_all(providers.into_iter().map(keeper)).await;
        Self { keepers: keepers.into_iter().map(|keeper| (keeper, None)).collect() }
    }

    /// Waits until each provider has a component that serves, in the order of the configuration.
    ///
    /// # Errors
    ///
    /// A cloud-config cannot be read when it is first looked at, or two providers cannot live together.
    pub async fn bootstrap(&mut self) -> Result<Vec<Slot<Provider>>> {
        let slots = try_join_all(self.keepers.iter_mut().map(|(keeper, _)| keeper.bootstrap())).await?;
        check_together(&slots.iter().map(|slot| slot.component()).collect::<Vec<_>>())?;
        for ((_, place), slot) in self.keepers.iter_mut().zip(&slots) {
            *place = Some(slot.clone());
        }
        Ok(slots)
    }

    /// Follows the sources until `stop`; for those that were bootstrapped. `nodes`: what the configuration of a provider may hang
    /// on, see [`Self::bootstrap`].
    pub async fn run(self, nodes: FirstList, stop: CancellationToken) {
        let mut rest = vec![];
        let mut keepers = vec![];
        for (mut keeper, slot) in self.keepers {
            let Some(slot) = slot else { continue };
            let (look, optimise) = (keeper.look_again(), keeper.optimise());
            let nodes = nodes.clone();
            rest.push(async move {
                let look = async {
                    if let Some(look) = look {
                        look.run(slot, nodes).await;
                    }
                };
                let optimise = async {
                    if let Some(optimise) = optimise {
                        optimise.run().await;
                    }
                };
                futures::join!(look, optimise)
            });
            keepers.push(keeper.run(stop.clone()));
        }
        let rest = async {
            join_all(rest).await;
            std::future::pending::<()>().await;
        };
        tokio::select! {
            _ = join_all(keepers) => {}
            () = rest => {}
        }
    }
}
