//! Compares what is in the cloud with what Services ask for: once at the start, then slowly for ever. Changes nothing by
//! itself: what differs is noted, and the Service is woken.
//!
//! At the start this finds what happened while nobody watched, tells a provider what its Services already have before a new
//! one is served, and spares load balancers of another manager, or of another version of the provider, a call each.

use std::sync::Arc;
use std::time::Duration;

use backon::{BackoffBuilder as _, ConstantBuilder, ExponentialBuilder};
use ccm_cloud::{Failure, Reaction, Standing, Wish};
use futures::future::join_all;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout};

use super::ensured_record::Record;
use super::found::Found;
use super::job::Job;
use super::key::{Key, key, send};
use super::memory::Due;
use super::operation::Operation;
use super::ownership::Work;
use super::predicates::has_finalizer;
use super::provider::Provider;
use super::syncer::Syncer;
use crate::object_name::ObjectName as _;
use crate::reaction::{MIN_SLOW_RETRY, leaves_open};
use crate::view::service::as_stored;

/// Most indexes of backends in one survey, 4 bytes each, so that many Services times many Nodes stay a few megabytes.
const MAX_INDEXES: usize = 1 << 20;

/// The survey before anything is done: all providers at the same time. Never fails: what is not known is not known.
pub(super) async fn at_start(syncer: &Syncer) {
    let limit = syncer.settings.start_survey_timeout;
    if limit.is_zero() {
        return;
    }
    let look = |member: usize| async move {
        let begun = Instant::now();
        let Some(provider) = syncer.provider(member) else { return };
        let name = &provider.descriptor.name;
        let due = match timeout(limit, survey(syncer, &provider, everybody, is_old, || {})).await {
            Ok(surveyed) if surveyed.compared.is_complete() => {
                note(syncer, member);
                None
            }
            Ok(_) => Some(Due::Soon),
            Err(_elapsed) => Some(Due::Now),
        };
        syncer.memory.due(member, due);
        if due == Some(Due::Now) {
            tracing::warn!(
                provider = name,
                ?limit,
                "the survey of load balancers was not done in time; it goes on beside the work"
            );
        } else {
            tracing::debug!(provider = name, took = ?begun.elapsed(), "load balancers surveyed");
        }
    };
    join_all(surveying(syncer).map(look)).await;
}

/// Whoever has nothing yet cannot differ.
fn is_old(job: &Job) -> bool {
    has_finalizer(&job.service) || Record::of(&job.service).is_some() || !job.view.ingress.is_empty()
}

/// The comparison at the start, for a plan of Services that are `among` all: notes what differs, however long that takes. Returns the Services
/// of which nobody knows how they stand, with why.
/// Says after each step that it goes on.
pub(super) async fn seen(
    syncer: &Syncer,
    member: usize,
    among: impl Fn(&Key) -> bool,
    goes_on: impl Fn(),
) -> Vec<(Key, String)> {
    let Some(provider) = syncer.provider(member) else { return vec![] };
    if surveys(syncer, member) {
        return survey(syncer, &provider, among, is_old, goes_on).await.unknown;
    }
    let compared = jobs(syncer, &provider).filter(|(key, job)| among(key) && is_compared(job));
    let keys: Vec<Key> = compared.map(|(key, _)| key).collect();
    let mut unknown = vec![];
    for key in keys {
        if let Err(failure) = differs(syncer, &key, member).await {
            unknown.push((key, failure.to_string()));
        }
        goes_on();
    }
    unknown
}

/// Verifies until it is dropped, from when `ready` is told. What differs is sent to `queue`.
pub(super) async fn run(syncer: &Syncer, queue: mpsc::Sender<Key>, mut ready: watch::Receiver<bool>) {
    if ready.wait_for(|ready| *ready).await.is_err() {
        return;
    }
    join_all(syncer.members.keys().map(|member| verify(syncer, *member, &queue))).await;
}

async fn verify(syncer: &Syncer, member: usize, queue: &mpsc::Sender<Key>) {
    let period = syncer.settings.verify_period;
    let due = syncer.memory.due(member, None);
    if period.is_zero() {
        // Only the start is made up for.
        if due == Some(Due::Now) {
            let Some(provider) = syncer.provider(member) else { return };
            let surveyed = survey(syncer, &provider, everybody, is_compared, || {}).await;
            if surveyed.compared.is_complete() {
                note(syncer, member);
            }
            send(queue, surveyed.found).await;
        }
        return;
    }
    // Two thirds to four thirds of a time, so that several managers drift apart.
    let mut shares =
        ConstantBuilder::new().with_delay(Duration::from_millis(667)).with_jitter().without_max_times().build();
    let mut wait = |time: Duration| {
        let share = shares.next().unwrap_or(Duration::from_secs(1)).as_secs_f64();
        tokio::time::sleep(time.mul_f64(share))
    };
    // A survey that failed is not put off by a whole period.
    let first = syncer.settings.slow_retry.max(MIN_SLOW_RETRY).min(period);
    let retries =
        ExponentialBuilder::new().with_min_delay(first).with_max_delay(period).with_factor(2.0).without_max_times();
    let mut delays = retries.build();
    let mut pause = match due {
        Some(Due::Now) => Duration::ZERO,
        Some(Due::Soon) => delays.next().unwrap_or(period),
        None => period,
    };
    loop {
        let mut compared = Compared::default();
        if surveys(syncer, member) {
            wait(pause).await;
            let Some(provider) = syncer.provider(member) else { return };
            let surveyed = survey(syncer, &provider, everybody, is_compared, || {}).await;
            compared = surveyed.compared;
            if compared.is_complete() {
                (delays, pause) = (retries.build(), period);
            } else {
                pause = delays.next().unwrap_or(period);
            }
            if !send(queue, surveyed.found).await {
                return;
            }
        } else {
            let Some(provider) = syncer.provider(member) else { return };
            let keys: Vec<Key> =
                jobs(syncer, &provider).filter(|(_, job)| is_compared(job)).map(|(key, _)| key).collect();
            let pause = u32::try_from(keys.len().max(1)).map_or(Duration::from_secs(1), |many| period / many);
            if keys.is_empty() {
                wait(pause).await;
            }
            for key in keys {
                wait(pause).await;
                let differs = differs(syncer, &key, member).await;
                compared.add(differs.as_ref().err());
                if differs == Ok(true) && queue.send(key).await.is_err() {
                    return;
                }
            }
        }
        if compared.is_complete() {
            note(syncer, member);
        }
    }
}

/// How many load balancers were compared with the cloud.
#[derive(Debug, Clone, Copy, Default)]
struct Compared {
    asked: usize,
    known: usize,
    /// Without an answer.
    open: usize,
}

impl Compared {
    /// One was asked about.
    fn add(&mut self, failure: Option<&Failure>) {
        self.asked += 1;
        self.known += usize::from(failure.is_none());
        self.open += usize::from(failure.is_some_and(|failure| leaves_open(failure.reaction)));
    }

    /// Whether this counts as a comparison of all. A Service that is wrong itself does not keep the others from that, and a cloud
    /// that said nothing about any has compared none.
    const fn is_complete(&self) -> bool {
        self.open == 0 && (self.asked == 0 || self.known > 0)
    }
}

fn note(syncer: &Syncer, member: usize) {
    syncer.metrics.last_verification.set(syncer.memory.compared(member, syncer.members.keys()));
}

/// Asks about one load balancer, and notes when there is none or its address is another one: no more can be seen without a
/// survey.
///
/// # Errors
///
/// It is not known.
async fn differs(syncer: &Syncer, key: &Key, member: usize) -> Result<bool, Failure> {
    let Some(provider) = syncer.provider(member) else { return Ok(false) };
    let changes = changes(syncer, key);
    let Some(job) = syncer.job(key, &provider).filter(is_compared) else { return Ok(false) };
    let told = as_stored(&job.view.ingress);
    let found = syncer
        .call(Operation::Get, &provider, provider.load_balancers.get(job.view), |found| found.as_ref().err())
        .await;
    let standing = match found.and_then(|found| found) {
        Ok(None) => Standing::Missing,
        Ok(Some(found)) if found.is_empty() => Standing::Differs(vec!["it has no address any more".into()]),
        Ok(Some(found)) if as_stored(&found) != told => Standing::InStep(found),
        Ok(Some(_)) => return Ok(false),
        Err(failure) => {
            tracing::debug!(object = %key.object_name(), %failure, "not known how the load balancer stands");
            return Err(failure);
        }
    };
    let found = Found::new(job.target, &provider, standing);
    syncer.memory.with(key, |entry| entry.was_found(found, changes));
    Ok(true)
}

/// To be asked before the cloud is: what changes meanwhile is not seen as if somebody else had been at it.
fn changes(syncer: &Syncer, key: &Key) -> u64 {
    syncer.memory.with(key, |entry| entry.changes).unwrap_or_default()
}

/// Whether a Service is compared with the cloud: all should be as it was ensured, or the last try failed. The cloud may be
/// another one since. Whatever else is to be done has its turn anyway.
fn is_compared(job: &Job) -> bool {
    job.plan.is_nothing() || job.has_failed
}

/// What has come of a survey.
struct Surveyed {
    /// Services that need a look.
    found: Vec<Key>,
    compared: Compared,
    /// Services of which nobody knows how they stand, with why.
    unknown: Vec<(Key, String)>,
}

const fn everybody(_: &Key) -> bool {
    true
}

/// Surveys the Services of a provider that are `among` those that matter, and `asked` about.
async fn survey(
    syncer: &Syncer,
    provider: &Arc<Provider>,
    among: impl Fn(&Key) -> bool,
    asked: impl Fn(&Job) -> bool,
    goes_on: impl Fn(),
) -> Surveyed {
    let mut surveyed = Surveyed { found: vec![], compared: Compared::default(), unknown: vec![] };
    let offers = jobs(syncer, provider).filter(|(key, job)| among(key) && job.is_undecided);
    let offers = offers.map(|(key, job)| (key, job.service)).collect();
    // Whose load balancer is not known is not compared.
    let undecided = syncer.decide_all(offers, provider, &goes_on).await;
    surveyed.compared.asked += undecided;
    surveyed.compared.open += undecided;
    // After that, which may have taken long: hosts of before would be those of nobody any more.
    let backends = syncer.backends.get();
    let indexes: Vec<u32> = (0..).take(backends.list.len()).collect();
    let chunk = (MAX_INDEXES / indexes.len().max(1)).clamp(1, syncer.settings.survey_size.get());
    let is_asked = |job: &Job| asked(job) && !job.is_undecided && Arc::ptr_eq(&job.backends, &backends);
    let mut jobs: Vec<(Key, Job)> = jobs(syncer, provider).filter(|(key, job)| among(key) && is_asked(job)).collect();
    while !jobs.is_empty() {
        let some = jobs.split_off(jobs.len().saturating_sub(chunk));
        let wish = |(_, job): &(Key, Job)| Wish { service: job.view.clone(), backends: indexes.clone() };
        let wishes: Vec<Wish> = some.iter().map(wish).collect();
        let before: Vec<u64> = some.iter().map(|(key, _)| changes(syncer, key)).collect();
        let answer = provider.load_balancers.survey(Arc::clone(&backends.list), wishes);
        let standings = syncer.call(Operation::Survey, provider, answer, |answer| answer.as_ref().err()).await;
        goes_on();
        let standings = standings.and_then(|standings| standings).and_then(|standings| {
            let (asked, told) = (some.len(), standings.len());
            let wrong =
                || Failure::new(Reaction::Retry, format!("the survey has {told} standings for {asked} Services"));
            if told == asked { Ok(standings) } else { Err(wrong()) }
        });
        let standings = match standings {
            Ok(standings) => standings,
            Err(failure) => {
                tracing::warn!(%failure, reaction = failure.reaction.as_str(), "load balancers were not surveyed");
                // Whatever the reaction: none of them was compared.
                surveyed.compared.asked += some.len();
                surveyed.compared.open += some.len();
                surveyed.unknown.extend(some.into_iter().map(|(key, _)| (key, failure.to_string())));
                continue;
            }
        };
        for (((key, job), standing), changes) in some.into_iter().zip(standings).zip(before) {
            let failure = if let Standing::Unknown(failure) = &standing { Some(failure) } else { None };
            surveyed.compared.add(failure);
            if let Some(failure) = failure {
                tracing::debug!(object = %key.object_name(), %failure, "not known how the load balancer stands");
                surveyed.unknown.push((key, failure.to_string()));
                continue;
            }
            let found = Found::new(job.target, provider, standing);
            syncer.memory.with(&key, |entry| entry.was_found(found, changes));
            // Only what is noted and differs is more than nothing. The rest is forgotten: it says nothing about later.
            match syncer.job(&key, provider) {
                Some(job) if !job.plan.is_nothing() => surveyed.found.push(key),
                _ => drop(syncer.memory.with(&key, |entry| entry.forget_found())),
            }
        }
    }
    surveyed
}

fn surveying(syncer: &Syncer) -> impl Iterator<Item = usize> {
    syncer.members.keys().copied().filter(|member| surveys(syncer, *member))
}

fn surveys(syncer: &Syncer, member: usize) -> bool {
    syncer.provider(member).is_some_and(|provider| provider.load_balancers.surveys())
}

/// What serving comes to for each Service of a provider.
fn jobs(syncer: &Syncer, provider: &Arc<Provider>) -> impl Iterator<Item = (Key, Job)> {
    let member = provider.member;
    let services = syncer.store.state().into_iter();
    services.filter_map(move |service| {
        let key = key(&service);
        let service = syncer.memory.newest(&key, service);
        if syncer.work(&key, &service) != Work::Serve(member) || syncer.memory.predecessor(&key, &service).is_some() {
            return None;
        }
        let owned = has_finalizer(&service) || Record::of(&service).is_some();
        syncer.memory.enter(&key, &service, member, owned);
        let job = syncer.job(&key, provider).filter(|job| job.wrong.is_none())?;
        Some((key, job))
    })
}
