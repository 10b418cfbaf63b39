//! One process's part in an election: candidate, then leader, then the end.

use std::sync::Arc;
use std::time::Duration;

use backon::{BackoffBuilder as _, ConstantBuilder};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Client;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::fence::{Fence, Start};
use crate::lease::{LeaseError, Leases, held_by, holder, is_same_record, promised, released, shown};
use crate::metrics::LeaderMetrics;
use crate::settings::Settings;

/// When the same trouble is told again.
const TELL_AGAIN: Duration = Duration::from_secs(5 * 60);

/// What has become of the candidacy of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Candidacy {
    /// Another one leads, or nobody yet.
    Standby {
        /// Who, as the Lease says, and as it is [shown]; empty: nobody.
        holder: String,
        /// Why it could not lead if it had to: the last look at the Lease failed.
        trouble: Option<String>,
    },
    /// This one leads.
    Leading,
    /// It leads no more, and never will again: why.
    Lost(String),
}

/// How an election ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    /// It was told to stop as a candidate.
    Withdrew,
    /// It was told to stop as the leader, and the Lease is free.
    Released,
    /// The leadership is gone: why.
    Lost(String),
}

/// The record as it was when it was last seen to change.
struct Observed {
    lease: Lease,
    since: Instant,
}

/// What a try has led to.
enum Tried {
    /// The Lease is this process's; the request began then.
    Holds(Start),
    /// It is another's.
    Held,
    /// It was this process's, and is not any more.
    Taken,
}

pub(crate) struct Election {
    leases: Leases,
    settings: Settings,
    fence: Arc<Fence>,
    metrics: LeaderMetrics,
    candidacy: watch::Sender<Candidacy>,
    observed: Option<Observed>,
    /// What went wrong last, since it last went well.
    trouble: Option<LeaseError>,
    /// When it was last told that it fails, if it does.
    told: Option<Instant>,
}

impl Election {
    pub(crate) fn new(
        client: Client,
        settings: Settings,
        fence: Arc<Fence>,
        metrics: LeaderMetrics,
        candidacy: watch::Sender<Candidacy>,
    ) -> Self {
        let leases = Leases::new(client, &settings.namespace, &settings.name, settings.timing.request_timeout());
        Self { leases, settings, fence, metrics, candidacy, observed: None, trouble: None, told: None }
    }

    /// The Lease as it was seen last.
    pub(crate) fn lease(&self) -> Option<&Lease> {
        self.observed.as_ref().map(|observed| &observed.lease)
    }

    /// Waits until this process leads, or `stop`.
    pub(crate) async fn campaign(&mut self, stop: &CancellationToken) -> Option<Instant> {
        let period = ConstantBuilder::default().with_delay(self.settings.timing.retry_period);
        let mut delays = period.with_jitter().without_max_times().build();
        loop {
            match self.attempt(false).await {
                // An answer that came too late may be about a Lease that is another's by now: the next look tells.
                Ok(Tried::Holds(start)) if start.at.elapsed() < self.settings.timing.renew_deadline => {
                    self.recovered();
                    self.metrics.leads(true);
                    self.fence.renewed(start);
                    self.candidacy.send_replace(Candidacy::Leading);
                    tracing::info!(identity = self.settings.identity, "this process leads");
                    return Some(start.at);
                }
                Ok(_) => self.recovered(),
                // The next look tells who was first.
                Err(LeaseError::Conflict) => {}
                Err(error) => self.failed(&error),
            }
            let soon = Instant::now() + delays.next().unwrap_or(self.settings.timing.retry_period);
            // Not one period later than need be.
            let next = self.expiry().filter(|expiry| *expiry > Instant::now()).map_or(soon, |expiry| soon.min(expiry));
            tokio::select! {
                biased;
                () = stop.cancelled() => return None,
                () = sleep_until(next) => {}
            }
        }
    }

    /// Renews what began at `renewed`, until it fails or `release`.
    pub(crate) async fn lead(&mut self, mut renewed: Instant, release: &CancellationToken) -> End {
        let timing = self.settings.timing;
        let mut next = renewed + timing.retry_period;
        loop {
            let deadline = renewed + timing.renew_deadline;
            tokio::select! {
                biased;
                // First: after a long stop of the process all of these are due.
                () = sleep_until(deadline) => return self.late(),
                () = release.cancelled() => return self.release().await,
                () = sleep_until(next) => {}
            }
            let tried = tokio::select! {
                biased;
                () = sleep_until(deadline) => {
                    self.metrics.renew_failures.inc();
                    return self.late();
                }
                tried = self.attempt(true) => tried,
            };
            next = Instant::now() + timing.retry_period;
            match tried {
                Ok(Tried::Holds(start)) => {
                    self.recovered();
                    self.fence.renewed(start);
                    renewed = start.at;
                    next = renewed + timing.retry_period;
                }
                Ok(Tried::Held | Tried::Taken) => {
                    let who = match self.lease().map(holder) {
                        None | Some("") => "nobody".to_owned(),
                        Some(who) => shown(who),
                    };
                    return self.lost(format!("the Lease was taken away from this process: it is held by {who}"));
                }
                Err(error) => {
                    self.metrics.renew_failures.inc();
                    self.failed(&error);
                }
            }
        }
    }

    fn late(&mut self) -> End {
        let trouble = self.trouble.take().map(|error| format!(": {error}")).unwrap_or_default();
        self.lost(format!("the Lease was not renewed within {:?}{trouble}", self.settings.timing.renew_deadline))
    }

    fn lost(&mut self, why: String) -> End {
        self.fence.close();
        self.metrics.leads(false);
        tracing::error!(identity = self.settings.identity, why, "leadership lost, nothing more is written");
        self.candidacy.send_replace(Candidacy::Lost(why.clone()));
        End::Lost(why)
    }

    /// Lets another one lead at once. When that fails, it has to wait for the lease duration.
    async fn release(&mut self) -> End {
        self.fence.close();
        self.metrics.leads(false);
        self.candidacy.send_replace(Candidacy::Standby { holder: String::new(), trouble: None });
        for _ in 0..2 {
            let Some(observed) = &self.observed else { break };
            let error = match self.leases.replace(&observed.lease, released(&observed.lease)).await {
                Ok(_) => {
                    tracing::info!(identity = self.settings.identity, "Lease released");
                    return End::Released;
                }
                Err(error) => error,
            };
            match (error, self.leases.get().await) {
                // The record is still this process's: somebody wrote a label.
                (LeaseError::Conflict, Ok(lease)) if holder(&lease) == self.settings.identity => self.observe(lease),
                (error, _) => {
                    let wait = self.settings.timing.lease_duration;
                    tracing::warn!(%error, ?wait, "Lease not released: the next leader has to wait for it to end");
                    break;
                }
            }
        }
        End::Withdrew
    }

    /// Takes or keeps the Lease, if it is free, ended, or this process's.
    async fn attempt(&mut self, leads: bool) -> Result<Tried, LeaseError> {
        if leads && let Some(observed) = &self.observed {
            let lease = observed.lease.clone();
            match self.write(&lease).await {
                Ok(start) => return Ok(Tried::Holds(start)),
                // Somebody wrote it, or the answer was lost: look at it.
                Err(error) => {
                    self.metrics.slow_path();
                    self.trouble = Some(error);
                }
            }
        }
        let lease = match self.leases.get().await {
            Ok(lease) => lease,
            Err(LeaseError::NotFound) => return self.create(leads).await,
            Err(error) => return Err(error),
        };
        let is_own = holder(&lease) == self.settings.identity;
        let is_free = holder(&lease).is_empty();
        self.observe(lease.clone());
        if leads && !is_own {
            return Ok(Tried::Taken);
        }
        if is_own || is_free || self.expiry().is_some_and(|expiry| expiry <= Instant::now()) {
            return self.write(&lease).await.map(Tried::Holds);
        }
        Ok(Tried::Held)
    }

    /// Where there is none. That somebody deleted it does not end what its holder was promised.
    async fn create(&mut self, leads: bool) -> Result<Tried, LeaseError> {
        if !leads && self.expiry().is_some_and(|expiry| expiry > Instant::now()) {
            return Ok(Tried::Held);
        }
        let spec = held_by(&self.settings.identity, self.settings.timing.lease_seconds(), None);
        let start = self.fence.start();
        let lease = self.leases.create(spec).await?;
        self.observe(lease);
        Ok(Tried::Holds(start))
    }

    async fn write(&mut self, lease: &Lease) -> Result<Start, LeaseError> {
        let spec = held_by(&self.settings.identity, self.settings.timing.lease_seconds(), Some(lease));
        let start = self.fence.start();
        let lease = self.leases.replace(lease, spec).await?;
        self.observe(lease);
        Ok(start)
    }

    /// Remembers the record, and since when it is as it is.
    fn observe(&mut self, lease: Lease) {
        match &mut self.observed {
            Some(observed) if is_same_record(&observed.lease, &lease) => observed.lease = lease,
            observed => *observed = Some(Observed { lease, since: Instant::now() }),
        }
        let holder = self.lease().map(holder).unwrap_or_default();
        let is_another = holder != self.settings.identity;
        let holder = shown(holder);
        self.candidacy.send_if_modified(|candidacy| match candidacy {
            Candidacy::Standby { holder: known, .. } if *known != holder && is_another => {
                tracing::info!(holder, "leader, as the Lease says");
                *known = holder;
                true
            }
            _ => false,
        });
    }

    /// When what was promised to another holder ends, by this process's clock. What its record says about time does not
    /// count: that is another clock.
    fn expiry(&self) -> Option<Instant> {
        let observed = self.observed.as_ref().filter(|observed| !holder(&observed.lease).is_empty())?;
        let promised = promised(&observed.lease).unwrap_or(self.settings.timing.lease_duration);
        observed.since.checked_add(promised)
    }

    fn failed(&mut self, error: &LeaseError) {
        self.trouble = Some(error.clone());
        if self.told.is_some_and(|told| told.elapsed() < TELL_AGAIN) {
            tracing::debug!(%error, "leader election failed again");
        } else {
            self.told = Some(Instant::now());
            tracing::warn!(%error, retry_in = ?self.settings.timing.retry_period, "leader election");
        }
        self.stands(Some(error.to_string()));
    }

    /// Says whether a standby could lead.
    fn stands(&self, now: Option<String>) {
        self.candidacy.send_if_modified(|candidacy| match candidacy {
            Candidacy::Standby { trouble, .. } if *trouble != now => {
                *trouble = now;
                true
            }
            _ => false,
        });
    }

    fn recovered(&mut self) {
        self.trouble = None;
        if self.told.take().is_some() {
            tracing::info!("leader election goes on");
        }
        self.stands(None);
    }
}
