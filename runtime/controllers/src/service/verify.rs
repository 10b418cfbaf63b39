//! Compares what is in the cloud with what Services ask for: once at the start, then slowly for ever. Changes nothing by
//! itself: what differs is noted, and the Service is woken.
//!
//! At the start this finds what happened while nobody watched, tells a provider what its Services already have before a new
//! one is served, and spares load balancers of another manager, or of another version of the provider, a call each.

use std::time::Duration;

use backon::{BackoffBuilder as _, ConstantBuilder};
use ccm_cloud::{Standing, Wish};
use futures::future::join_all;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout};

use super::memory::Key;
use super::ownership::Work;
use super::predicates::has_finalizer;
use super::record::Record;
use super::sync::{Job, Step, Syncer};
use super::view::as_stored;
use super::wake::key;
use crate::in_log::InLog as _;

/// Most indexes of backends in one survey, 4 bytes each, so that many Services times many Nodes stay a few megabytes.
const MAX_INDEXES: usize = 1 << 20;

/// The survey before anything is done. Never fails: what is not known is not known.
pub(super) async fn at_start(syncer: &Syncer) {
    if syncer.settings.start_survey_timeout.is_zero() {
        return;
    }
    let begun = Instant::now();
    let surveyed = async {
        for member in surveying(syncer) {
            // Whoever has nothing yet cannot differ.
            let is_old = |job: &Job| {
                has_finalizer(&job.service) || Record::of(&job.service).is_some() || !job.view.ingress.is_empty()
            };
            if survey(syncer, member, is_old).await.is_complete {
                compared(syncer, member);
            }
        }
    };
    match timeout(syncer.settings.start_survey_timeout, surveyed).await {
        Ok(()) => tracing::debug!(took = ?begun.elapsed(), "load balancers surveyed"),
        Err(_elapsed) => tracing::warn!(took = ?begun.elapsed(), "the survey of load balancers was not done in time"),
    }
}

/// Verifies until it is dropped, from when `ready` is told. What differs is sent to `queue`.
pub(super) async fn run(syncer: &Syncer, queue: mpsc::Sender<Key>, mut ready: watch::Receiver<bool>) {
    if syncer.settings.verify_period.is_zero() || ready.wait_for(|ready| *ready).await.is_err() {
        return;
    }
    let members = 0..syncer.members.len();
    join_all(members.map(|member| verify(syncer, member, &queue))).await;
}

async fn verify(syncer: &Syncer, member: usize, queue: &mpsc::Sender<Key>) {
    let period = syncer.settings.verify_period;
    // Two thirds to four thirds of a time, so that several managers drift apart.
    let mut shares =
        ConstantBuilder::new().with_delay(Duration::from_millis(667)).with_jitter().without_max_times().build();
    let mut wait = |time: Duration| {
        let share = shares.next().unwrap_or(Duration::from_secs(1)).as_secs_f64();
        tokio::time::sleep(time.mul_f64(share))
    };
    loop {
        let surveys = syncer.provider(member).is_some_and(|provider| provider.surveys());
        let mut is_complete = true;
        if surveys {
            wait(period).await;
            let surveyed = survey(syncer, member, |job| job.step == Step::Nothing).await;
            is_complete = surveyed.is_complete;
            for key in surveyed.found {
                if queue.send(key).await.is_err() {
                    return;
                }
            }
        } else {
            let keys: Vec<Key> =
                jobs(syncer, member).filter(|(_, job)| job.step == Step::Nothing).map(|(key, _)| key).collect();
            let pause = u32::try_from(keys.len().max(1)).map_or(Duration::from_secs(1), |many| period / many);
            if keys.is_empty() {
                wait(pause).await;
            }
            for key in keys {
                wait(pause).await;
                match differs(syncer, &key, member).await {
                    Some(true) if queue.send(key).await.is_err() => return,
                    Some(_) => {}
                    None => is_complete = false,
                }
            }
        }
        if is_complete {
            compared(syncer, member);
        }
    }
}

fn compared(syncer: &Syncer, member: usize) {
    syncer.metrics.last_verification.set(syncer.memory.compared(member, syncer.members.len()));
}

/// Asks about one load balancer, and notes when there is none or its address is another one: no more can be seen without a
/// survey. None when there was no answer.
async fn differs(syncer: &Syncer, key: &Key, member: usize) -> Option<bool> {
    let (Some(job), Some(provider)) = (syncer.job(key, member), syncer.provider(member)) else { return Some(false) };
    if job.step != Step::Nothing {
        return Some(false);
    }
    let told = as_stored(&job.view.ingress);
    let found = syncer.call("get", provider.get(job.view), |found| found.as_ref().err()).await;
    let standing = match found.and_then(|found| found) {
        Ok(None) => Standing::Missing,
        Ok(Some(found)) if found.is_empty() => Standing::Differs(vec!["it has no address any more".into()]),
        Ok(Some(found)) if as_stored(&found) != told => Standing::InStep(found),
        Ok(Some(_)) => return Some(false),
        Err(failure) => {
            tracing::debug!(object = %key.in_log(), %failure, "not known how the load balancer stands");
            return None;
        }
    };
    syncer.memory.with(key, |entry| entry.standing = Some((job.target, standing)));
    Some(true)
}

/// What has come of a survey.
struct Surveyed {
    /// Services that need a look.
    found: Vec<Key>,
    /// Whether all questions were answered.
    is_complete: bool,
}

/// Surveys the Services of a member that are `asked` about.
async fn survey(syncer: &Syncer, member: usize, asked: impl Fn(&Job) -> bool) -> Surveyed {
    let mut surveyed = Surveyed { found: vec![], is_complete: true };
    let Some(provider) = syncer.provider(member) else { return surveyed };
    let backends = syncer.backends.get();
    let indexes: Vec<u32> = (0..).take(backends.list.len()).collect();
    let chunk = (MAX_INDEXES / indexes.len().max(1)).clamp(1, syncer.settings.survey_size.get());
    let offers = jobs(syncer, member).filter(|(_, job)| job.is_undecided);
    let offers = offers.map(|(key, job)| (key, job.service)).collect();
    surveyed.is_complete = syncer.decide_all(offers, member).await;
    let is_asked = |job: &Job| asked(job) && !job.is_undecided && job.target.backends == backends.digest;
    let mut jobs: Vec<(Key, Job)> = jobs(syncer, member).filter(|(_, job)| is_asked(job)).collect();
    while !jobs.is_empty() {
        let some = jobs.split_off(jobs.len().saturating_sub(chunk));
        let wish = |(_, job): &(Key, Job)| Wish { service: job.view.clone(), backends: indexes.clone() };
        let wishes: Vec<Wish> = some.iter().map(wish).collect();
        let answer = provider.survey(std::sync::Arc::clone(&backends.list), wishes);
        let standings = match syncer.call("survey", answer, |answer| answer.as_ref().err()).await {
            Ok(Ok(standings)) if standings.len() == some.len() => standings,
            Ok(Ok(standings)) => {
                tracing::warn!(asked = some.len(), told = standings.len(), "a survey has not one standing per Service");
                surveyed.is_complete = false;
                continue;
            }
            Ok(Err(failure)) | Err(failure) => {
                tracing::warn!(%failure, reaction = failure.reaction.as_str(), "load balancers were not surveyed");
                surveyed.is_complete = false;
                continue;
            }
        };
        for ((key, job), standing) in some.into_iter().zip(standings) {
            if let Standing::Unknown(failure) = &standing {
                tracing::debug!(object = %key.in_log(), %failure, "not known how the load balancer stands");
                continue;
            }
            syncer.memory.with(&key, |entry| entry.standing = Some((job.target, standing)));
            // Only what is noted and differs is more than nothing. The rest is forgotten: it says nothing about later.
            match syncer.job(&key, member) {
                Some(job) if job.step != Step::Nothing => surveyed.found.push(key),
                _ => drop(syncer.memory.with(&key, |entry| entry.standing = None)),
            }
        }
    }
    surveyed
}

fn surveying(syncer: &Syncer) -> impl Iterator<Item = usize> {
    let members = syncer.members.iter().enumerate();
    members.filter(|(_, member)| member.provider.surveys()).map(|(index, _)| index)
}

/// What serving comes to for each Service of a member.
fn jobs(syncer: &Syncer, member: usize) -> impl Iterator<Item = (Key, Job)> {
    let services = syncer.store.state().into_iter();
    services.filter_map(move |service| {
        let key = key(&service);
        let service = syncer.memory.newest(&key, service);
        if syncer.work(&key, &service) != Work::Serve(member) || syncer.memory.predecessor(&key, &service).is_some() {
            return None;
        }
        let owned = has_finalizer(&service) || Record::of(&service).is_some();
        syncer.memory.enter(&key, &service, member, owned);
        let job = syncer.job(&key, member).filter(|job| job.wrong.is_none())?;
        Some((key, job))
    })
}
