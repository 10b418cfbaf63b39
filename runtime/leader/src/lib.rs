//! Leader election: of several replicas one writes, and the others stand by with everything they need in memory.
//!
//! | module | does |
//! |---|---|
//! | `settings`, `timing` | what the operator sets, and whether it fits together |
//! | `lease` | the Lease: what it says, how it is written |
//! | `election` | candidate, leader, loss, release |
//! | `fence` | until when this process may write |
//! | `campaign` | the thread that all of this runs in |
//! | `beside` | who holds the Lease, for a dry run, which is no candidate |
//!
//! The fence is a [`Leadership`]: controllers, requests to the cloud and connections to the API server ask it, and know nothing of Leases.
//!
//! No crate does this for us: the existing ones judge by the clocks of others or by none, and none says until when a process may
//! write. `docs/decisions/0013-leader-election.md` has the reasons.

mod beside;
mod campaign;
mod election;
mod fence;
mod lease;
mod metrics;
mod settings;
mod timing;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use anyhow::Result;
use ccm_apiserver::{ApiMetrics, EventMetrics};
use ccm_cloud::{Alone, Leadership};
use kube::Config;
use prometheus_client::registry::Registry;
use tokio::sync::watch;

pub use beside::Beside;
pub use campaign::Campaign;
pub use lease::{holder, promised, shown};
pub use settings::Settings;
pub use timing::Timing;

use campaign::Means;
use election::Candidacy;
use fence::Fence;
use metrics::LeaderMetrics;

/// Upstream's name of the health check, see [`Leader::health`].
pub const HEALTH_CHECK: &str = "leaderElection";

/// Whether and how this process takes part in an election.
pub enum Leader {
    /// There is no election: it always leads.
    Alone,
    /// It is a candidate once [`Leader::campaign`] is called.
    Candidate(Box<Candidate>),
}

/// A process that can take part in an election.
pub struct Candidate {
    settings: Settings,
    fence: Arc<Fence>,
    metrics: LeaderMetrics,
    candidacy: watch::Sender<Candidacy>,
}

/// Says who leads, for people.
#[derive(Clone)]
pub struct Seen {
    identity: String,
    candidacy: watch::Receiver<Candidacy>,
}

impl Leader {
    /// Without settings there is no election.
    pub fn new(settings: Option<Settings>, registry: &mut Registry) -> Self {
        let Some(settings) = settings else { return Self::Alone };
        Self::Candidate(Box::new(Candidate {
            fence: Arc::new(Fence::new(settings.timing)),
            metrics: LeaderMetrics::register(registry, &settings.name),
            candidacy: watch::Sender::new(Candidacy::Standby { holder: String::new(), trouble: None }),
            settings,
        }))
    }

    /// What gates ask.
    pub fn leadership(&self) -> Arc<dyn Leadership> {
        match self {
            Self::Alone => Arc::new(Alone),
            Self::Candidate(candidate) => Arc::clone(&candidate.fence) as Arc<dyn Leadership>,
        }
    }

    /// What `/healthz` asks: whether this process holds the Lease and should have renewed it long ago. None when there is no election.
    pub fn health(&self) -> Option<impl Fn() -> Result<(), String> + Send + Sync + 'static> {
        let Self::Candidate(candidate) = self else { return None };
        let fence = Arc::clone(&candidate.fence);
        Some(move || fence.health())
    }

    /// The holder that the Lease names when this process leads; none when there is no election.
    pub fn identity(&self) -> Option<&str> {
        let Self::Candidate(candidate) = self else { return None };
        Some(&candidate.settings.identity)
    }

    /// What `/readyz` shows.
    pub fn seen(&self) -> Option<Seen> {
        let Self::Candidate(candidate) = self else { return None };
        Some(Seen { identity: candidate.settings.identity.clone(), candidacy: candidate.candidacy.subscribe() })
    }

    /// Begins to take part; none when there is no election.
    ///
    /// # Errors
    ///
    /// There is no thread to be had.
    pub fn campaign(
        self,
        config: Config,
        api_metrics: ApiMetrics,
        event_metrics: EventMetrics,
    ) -> Result<Option<Campaign>> {
        let Self::Candidate(candidate) = self else { return Ok(None) };
        let Candidate { settings, fence, metrics: own, candidacy } = *candidate;
        Campaign::start(Means { config, settings, fence, metrics: own, api_metrics, event_metrics, candidacy })
            .map(Some)
    }
}

impl Seen {
    /// Why this process could not lead if it had to. None for the leader: that it cannot renew ends it soon enough.
    pub fn trouble(&self) -> Option<String> {
        match &*self.candidacy.borrow() {
            Candidacy::Standby { trouble, .. } => trouble.clone(),
            Candidacy::Leading | Candidacy::Lost(_) => None,
        }
    }

    /// Whether this process leads.
    pub fn leads(&self) -> bool {
        matches!(*self.candidacy.borrow(), Candidacy::Leading)
    }

    /// Who leads, where this process stands by and knows it.
    pub fn holder(&self) -> Option<String> {
        match &*self.candidacy.borrow() {
            Candidacy::Standby { holder, .. } if !holder.is_empty() => Some(holder.clone()),
            _ => None,
        }
    }

    /// One line.
    pub fn line(&self) -> String {
        let identity = &self.identity;
        match &*self.candidacy.borrow() {
            Candidacy::Leading => format!("leader: this process, {identity}"),
            Candidacy::Lost(why) => format!("leader: no more this process, {identity}: {why}"),
            Candidacy::Standby { holder, .. } if holder.is_empty() => {
                format!("leader: not known; this process, {identity}, stands by")
            }
            Candidacy::Standby { holder, .. } => format!("leader: {holder}; this process, {identity}, stands by"),
        }
    }
}
