//! The thread of the election: its own runtime and its own connection, so that work cannot delay a renewal.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use ccm_apiserver::{
    ApiGate, ApiGateSettings, ApiMetrics, EventMetrics, EventRecorder, EventRequest, EventSettings, plain_client,
};
use ccm_cloud::Severity;
use kube::Config;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::election::{Candidacy, Election, End};
use crate::fence::Fence;
use crate::lease::reference;
use crate::metrics::LeaderMetrics;
use crate::settings::Settings;

/// How long the Event about the end of a leadership may take.
const EVENT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long the process may take to end after the leadership is lost and the Event is written. Then the thread ends it.
const GRACE: Duration = Duration::from_secs(3);
/// Upstream's name for who says so.
const REPORTER: &str = "cloud-controller-manager";

/// What a campaign is run with.
pub(crate) struct Means {
    pub(crate) config: Config,
    pub(crate) settings: Settings,
    pub(crate) fence: Arc<Fence>,
    pub(crate) metrics: LeaderMetrics,
    pub(crate) api_metrics: ApiMetrics,
    pub(crate) event_metrics: EventMetrics,
    pub(crate) candidacy: watch::Sender<Candidacy>,
}

/// A process's part in the election, seen from its other threads.
pub struct Campaign {
    candidacy: watch::Receiver<Candidacy>,
    stop: CancellationToken,
    /// Closed when the thread has done all it has to.
    ended: watch::Receiver<()>,
    timing_out: Duration,
}

impl Campaign {
    /// Starts the thread: from now on this process is a candidate.
    pub(crate) fn start(means: Means) -> Result<Self> {
        let candidacy = means.candidacy.subscribe();
        let stop = CancellationToken::new();
        let (end, ended) = watch::channel(());
        let timing_out = means.settings.timing.renew_deadline.saturating_add(EVENT_TIMEOUT);
        let stopped = stop.clone();
        let work = move || {
            let lost = match run(means, &stopped) {
                Ok(End::Lost(_)) => true,
                Ok(End::Withdrew | End::Released) => false,
                Err(error) => {
                    tracing::error!(error = format!("{error:#}"), "leader election cannot run");
                    true
                }
            };
            drop(end);
            if lost {
                // By now the process is gone, unless all its other threads hang.
                #[expect(clippy::disallowed_methods, reason = "a thread of its own, with nothing else to do")]
                std::thread::sleep(GRACE);
                tracing::error!("the process did not end after it lost the leadership: ended by force");
                std::process::exit(1);
            }
        };
        std::thread::Builder::new().name("leader-election".into()).spawn(work).context("the thread of the election")?;
        Ok(Self { candidacy, stop, ended, timing_out })
    }

    /// Waits until this process leads.
    ///
    /// # Errors
    ///
    /// It never will.
    pub async fn elected(&mut self) -> Result<()> {
        let over = |candidacy: &Candidacy| !matches!(candidacy, Candidacy::Standby { .. });
        let leads = self.candidacy.wait_for(over).await.is_ok_and(|candidacy| *candidacy == Candidacy::Leading);
        if leads { Ok(()) } else { Err(self.why()) }
    }

    /// Waits until this process leads no more against its will, and says why. The Event about it is written by then.
    pub async fn lost(&mut self) -> anyhow::Error {
        let lost = |candidacy: &Candidacy| matches!(candidacy, Candidacy::Lost(_));
        drop(self.candidacy.wait_for(lost).await);
        self.why()
    }

    fn why(&self) -> anyhow::Error {
        match &*self.candidacy.borrow() {
            Candidacy::Lost(why) => anyhow!("leadership lost: {why}"),
            _ => anyhow!("the leader election ended by itself"),
        }
    }

    /// Waits until `work` has ended, and hands the Lease on.
    ///
    /// # Errors
    ///
    /// The leadership was lost meanwhile, or `work` failed. In the second case the Lease is not released: what was begun may still take
    /// effect, so the next leader has to wait until the Lease ends by itself.
    pub async fn retire(mut self, work: impl Future<Output = Result<()>>) -> Result<()> {
        let stopped = tokio::select! {
            lost = self.lost() => Err(lost),
            stopped = work => match stopped {
                Ok(()) => Ok(()),
                Err(error) => {
                    tracing::warn!(error = format!("{error:#}"), "the Lease is not released: it has to end by itself");
                    return Err(error);
                }
            },
        };
        self.end().await;
        stopped
    }

    /// Ends it: releases the Lease if it is this process's, and waits for the Event about it.
    pub async fn end(&mut self) {
        self.stop.cancel();
        // Closing is what is waited for.
        let ended = async { while self.ended.changed().await.is_ok() {} };
        if tokio::time::timeout(self.timing_out, ended).await.is_err() {
            tracing::warn!("the leader election did not end in time; another one leads when the Lease has ended");
        }
    }
}

/// On the thread of the election.
fn run(means: Means, stop: &CancellationToken) -> Result<End> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let Means { config, settings, fence, metrics, api_metrics, event_metrics, candidacy } = means;
        let unusable = "the API server's address or credentials cannot be used";
        let client = plain_client(config, &api_metrics).context(unusable)?;
        let identity = settings.identity.clone();
        // Nobody's leave is asked: whoever loses the leadership has to say so.
        let gate = ApiGate::new(client.clone(), api_metrics, ApiGateSettings::default());
        let events =
            EventSettings { drain_timeout: EVENT_TIMEOUT, instance: identity.clone(), ..EventSettings::default() };
        let (recorder, writer) = EventRecorder::new(gate, event_metrics, events);
        let drain = CancellationToken::new();
        let part = async {
            let mut election = Election::new(client, settings, fence, metrics, candidacy);
            let end = match election.campaign(stop).await {
                Some(renewed) => {
                    tell(&recorder, &election, format!("{identity} became leader")).await;
                    let end = election.lead(renewed, stop).await;
                    tell(&recorder, &election, format!("{identity} stopped leading")).await;
                    end
                }
                None => End::Withdrew,
            };
            drain.cancel();
            end
        };
        let (end, ()) = tokio::join!(part, writer.run(drain.clone()));
        Ok(end)
    })
}

async fn tell(recorder: &EventRecorder, election: &Election, message: String) {
    let Some(lease) = election.lease() else { return };
    let request = EventRequest {
        about: reference(lease),
        severity: Severity::Normal,
        reason: "LeaderElection".into(),
        action: "LeaderElection",
        message,
        reporter: REPORTER,
        annotations: Default::default(),
    };
    recorder.record(request).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without a thread: one that has lost the leadership ends the process.
    fn campaign() -> (watch::Sender<Candidacy>, watch::Sender<()>, Campaign) {
        let (say, candidacy) = watch::channel(Candidacy::Standby { holder: String::new(), trouble: None });
        let (end, ended) = watch::channel(());
        (say, end, Campaign { candidacy, stop: CancellationToken::new(), ended, timing_out: EVENT_TIMEOUT })
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_waits_for_the_leadership_hears_that_it_is_lost() {
        let (say, _end, mut campaign) = campaign();
        say.send_replace(Candidacy::Lost("why".to_owned()));
        assert_eq!(campaign.elected().await.unwrap_err().to_string(), "leadership lost: why");
    }

    /// Exit code 1, for whatever a controller had begun.
    #[tokio::test(start_paused = true)]
    async fn a_leadership_that_is_lost_while_the_work_ends_is_an_error_and_the_work_is_waited_for_no_more() {
        let (say, _end, campaign) = campaign();
        say.send_replace(Candidacy::Leading);
        let stop = campaign.stop.clone();
        let lose = async {
            tokio::task::yield_now().await;
            assert!(!stop.is_cancelled(), "the work goes on");
            say.send_replace(Candidacy::Lost("why".to_owned()));
        };
        let (ended, ()) = tokio::join!(campaign.retire(std::future::pending()), lose);
        assert_eq!(ended.unwrap_err().to_string(), "leadership lost: why");
        assert!(stop.is_cancelled());
    }
}
