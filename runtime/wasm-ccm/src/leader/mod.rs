//! Leader election: of several replicas one writes, the others stand by with all that they need in memory.
//!
//! | part | does |
//! |---|---|
//! | [`settings`], [`timing`] | flags, and whether they go together |
//! | [`lease`] | the Lease: what it says, how it is written |
//! | [`election`] | candidate, leader, loss, release |
//! | [`fence`] | until when this process may write |
//! | [`fenced`] | a client whose bytes leave only until then |
//! | [`campaign`] | the thread that all of this runs in |
//!
//! No crate does this for us: those that there are judge by the clocks of others or by none, and none says until when one
//! may write. Why it is as it is: `docs/decisions/0013-leader-election.md`.

mod campaign;
mod election;
mod fence;
mod fenced;
mod lease;
mod metrics;
mod settings;
mod timing;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use anyhow::{Context as _, Result};
use ccm_cloud::{Alone, Leadership};
use ccm_controllers::Metrics;
use kube::{Client, Config};
use prometheus_client::registry::Registry;
use tokio::sync::watch;

pub(crate) use campaign::Campaign;
pub(crate) use settings::{LeaderArgs, Settings};

use crate::connection::Pings;
use crate::health::Check;
use campaign::Means;
use election::Standing;
use fence::Fence;
use metrics::LeaderMetrics;

/// Upstream's name of the health check.
const CHECK: &str = "leaderElection";

/// Whether and how this process takes part in an election.
pub(crate) enum Leader {
    /// There is no election: it always leads.
    Alone,
    /// It is a candidate once [`Leader::campaign`] is called.
    Candidate(Box<Candidate>),
}

pub(crate) struct Candidate {
    settings: Settings,
    fence: Arc<Fence>,
    metrics: LeaderMetrics,
    standing: watch::Sender<Standing>,
}

/// Says who leads, for people.
#[derive(Clone)]
pub(crate) struct Seen {
    identity: String,
    standing: watch::Receiver<Standing>,
}

impl Leader {
    /// Without settings there is no election.
    pub(crate) fn new(settings: Option<Settings>, registry: &mut Registry) -> Self {
        let Some(settings) = settings else { return Self::Alone };
        Self::Candidate(Box::new(Candidate {
            fence: Arc::new(Fence::new(settings.timing)),
            metrics: LeaderMetrics::register(registry, &settings.name),
            standing: watch::Sender::new(Standing::Standby { holder: String::new(), trouble: None }),
            settings,
        }))
    }

    /// What gates ask.
    pub(crate) fn leadership(&self) -> Arc<dyn Leadership> {
        match self {
            Self::Alone => Arc::new(Alone),
            Self::Candidate(candidate) => Arc::clone(&candidate.fence) as Arc<dyn Leadership>,
        }
    }

    /// The client for all that controllers ask of the API server.
    ///
    /// # Errors
    ///
    /// The API server's address or credentials cannot be used.
    pub(crate) fn client(&self, config: &Config, pings: Pings) -> Result<Client> {
        let client = match self {
            Self::Alone => Client::try_from(config.clone()),
            Self::Candidate(candidate) => fenced::client(config, pings, &candidate.fence),
        };
        client.context("the API server's address or credentials cannot be used")
    }

    /// What `/healthz` looks at.
    pub(crate) fn check(&self) -> Option<Check> {
        let Self::Candidate(candidate) = self else { return None };
        let fence = Arc::clone(&candidate.fence);
        Some(Check::new(CHECK, move || fence.health()))
    }

    /// What `/readyz` shows.
    pub(crate) fn seen(&self) -> Option<Seen> {
        let Self::Candidate(candidate) = self else { return None };
        Some(Seen { identity: candidate.settings.identity.clone(), standing: candidate.standing.subscribe() })
    }

    /// Begins to take part; none when there is no election.
    ///
    /// # Errors
    ///
    /// There is no thread to be had.
    pub(crate) fn campaign(self, config: Config, metrics: &Metrics) -> Result<Option<Campaign>> {
        let Self::Candidate(candidate) = self else { return Ok(None) };
        let Candidate { settings, fence, metrics: own, standing } = *candidate;
        let (api_metrics, event_metrics) = (metrics.api.clone(), metrics.events.clone());
        Campaign::start(Means { config, settings, fence, metrics: own, api_metrics, event_metrics, standing }).map(Some)
    }
}

impl Seen {
    /// Why this process could not lead if it had to. None for the leader: that it cannot renew ends it soon enough.
    pub(crate) fn trouble(&self) -> Option<String> {
        match &*self.standing.borrow() {
            Standing::Standby { trouble, .. } => trouble.clone(),
            Standing::Leading | Standing::Lost(_) => None,
        }
    }

    /// One line.
    pub(crate) fn line(&self) -> String {
        let identity = &self.identity;
        match &*self.standing.borrow() {
            Standing::Leading => format!("leader: this process, {identity}"),
            Standing::Lost(why) => format!("leader: no more this process, {identity}: {why}"),
            Standing::Standby { holder, .. } if holder.is_empty() => {
                format!("leader: not known; this process, {identity}, stands by")
            }
            Standing::Standby { holder, .. } => format!("leader: {holder}; this process, {identity}, stands by"),
        }
    }
}
