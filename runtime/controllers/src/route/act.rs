//! Asks a provider for changes: as many as may be in one call, deletions first. A provider that changes all or nothing, and fails, is
//! asked for the halves, until the routes that are wrong are alone.
//!
//! | a whole call failed with | |
//! |---|---|
//! | `invalid`, `conflict`, `unsupported`, `quota` | one route may be the reason: halved |
//! | `retry`, no answer | the same; or the cloud is away: after [`Limits::failures`] in a row all that is left waits |
//! | `throttled`, `unauthorized`, `pending`, `elsewhere` | no route is the reason: all that is left waits |
//!
//! What a run has no time for has not failed: it is left for the next one, which begins at once. A run that decides nothing has failed.

use std::collections::VecDeque;
use std::time::Duration;

use ccm_cloud::{Failure, Reaction, RouteChangeError, RouteOutcome, Routes};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::plan::Item;

/// What became of an [`Item`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Done {
    /// Why an obsolete route is perhaps there still.
    pub(super) obsolete: Option<Failure>,
    /// Why the wanted one is perhaps not in place.
    pub(super) wish: Option<Failure>,
    /// The run was over before anybody could say: no fault of these routes.
    pub(super) is_left: bool,
}

impl Done {
    fn failed(failure: &Failure) -> Self {
        Self { obsolete: Some(failure.clone()), wish: Some(failure.clone()), is_left: false }
    }

    fn left(failure: &Failure) -> Self {
        Self { is_left: true, ..Self::failed(failure) }
    }
}

/// What a run may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Most routes in a call.
    pub(super) batch: usize,
    /// Most calls for halves of what failed.
    pub(super) halves: usize,
    /// So many calls in a row that fail with `retry`, or have no answer, and the cloud is taken to be away.
    pub(super) failures: usize,
    /// Longest time of one.
    pub(super) timeout: Duration,
    /// When all of them are to have ended.
    pub(super) until: Instant,
}

/// Changes `items`. One result for each, in their order. No call begins after `stop`: somebody else may lead by then.
pub(super) async fn change(routes: &dyn Routes, items: &[Item], limits: Limits, stop: &CancellationToken) -> Vec<Done> {
    let mut waiting = batches(items, limits.batch);
    let mut done = vec![Done::default(); items.len()];
    let (mut halves, mut in_a_row) = (0_usize, 0_usize);
    // Why nothing more is asked for.
    let mut over: Option<Failure> = None;
    let mut is_first = true;
    // The larger halves first: what is right is made early, and shows that the cloud is there.
    while let Some(Batch { start, items: batch, failed }) = waiting.pop_front() {
        let results = done.iter_mut().skip(start).take(batch.len());
        let is_enough = failed.is_some() && halves >= limits.halves;
        if let Some(why) = over.as_ref().or(failed.as_ref().filter(|_| is_enough)) {
            results.for_each(|result| *result = Done::failed(why));
            continue;
        }
        let left = limits.until.saturating_duration_since(Instant::now());
        if left.is_zero() || stop.is_cancelled() {
            // They are the first ones of the next run.
            let why = failed.unwrap_or_else(out_of_time);
            results.for_each(|result| *result = Done::left(&why));
            continue;
        }
        halves = halves.saturating_add(usize::from(failed.is_some()));
        let error = match ask(routes, batch, limits.timeout.min(left)).await {
            Ok(outcomes) => {
                (in_a_row, is_first) = (0, false);
                results.zip(outcomes).for_each(|(result, outcome)| *result = outcome);
                continue;
            }
            Err(error) => error,
        };
        let is_cut = left < limits.timeout && limits.until <= Instant::now();
        let had_all_time = std::mem::replace(&mut is_first, false);
        if is_cut {
            let why = error.into_failure();
            // With as much time again it would do the same.
            let done = if had_all_time { Done::failed } else { Done::left };
            results.for_each(|result| *result = done(&why));
            continue;
        }
        let blame = blame(&error);
        let failure = error.into_failure();
        in_a_row = match blame {
            Blame::Nobody => in_a_row.saturating_add(1),
            // Somebody is there to blame it.
            Blame::Route | Blame::Cloud => 0,
        };
        if blame == Blame::Cloud || in_a_row >= limits.failures {
            over = Some(failure.clone());
        }
        if over.is_none() && batch.len() > 1 {
            let half = batch.len().div_ceil(2);
            let (one, other) = batch.split_at(half);
            waiting.push_back(Batch { start, items: one, failed: Some(failure.clone()) });
            waiting.push_back(Batch { start: start.saturating_add(half), items: other, failed: Some(failure) });
        } else {
            results.for_each(|result| *result = Done::failed(&failure));
        }
    }
    if !stop.is_cancelled() && done.iter().all(|done| done.is_left) {
        // So would the next run, at once, and for ever.
        done.iter_mut().for_each(|done| done.is_left = false);
    }
    done
}

/// Who is the reason that all routes of a call failed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Blame {
    /// One of them, perhaps.
    Route,
    /// None of them.
    Cloud,
    /// It is not said.
    Nobody,
}

const fn blame(error: &RouteChangeError) -> Blame {
    let failure = match error {
        RouteChangeError::Crashed(_) => return Blame::Nobody,
        RouteChangeError::Failed(failure) => failure,
    };
    match failure.reaction {
        Reaction::Invalid | Reaction::Conflict | Reaction::Unsupported | Reaction::Quota => Blame::Route,
        Reaction::Throttled | Reaction::Unauthorized | Reaction::Pending | Reaction::Elsewhere => Blame::Cloud,
        Reaction::Retry => Blame::Nobody,
    }
}

fn out_of_time() -> Failure {
    Failure::new(Reaction::Retry, "other routes took all the time of this run")
}

/// What one call asks for.
struct Batch<'a> {
    /// Place of the first item among all.
    start: usize,
    items: &'a [Item],
    /// Why the call failed whose half this is.
    failed: Option<Failure>,
}

/// At most `limit` routes each, and at least one item.
fn batches(items: &[Item], limit: usize) -> VecDeque<Batch<'_>> {
    let mut batches = VecDeque::new();
    let (mut start, mut rest) = (0_usize, items);
    while !rest.is_empty() {
        let mut routes = 0_usize;
        let fits = rest.iter().take_while(|item| {
            routes = routes.saturating_add(item.len());
            routes <= limit
        });
        let (batch, others) = rest.split_at(fits.count().max(1));
        batches.push_back(Batch { start, items: batch, failed: None });
        start = start.saturating_add(batch.len());
        rest = others;
    }
    batches
}

async fn ask(routes: &dyn Routes, batch: &[Item], timeout: Duration) -> Result<Vec<Done>, RouteChangeError> {
    let obsolete: Vec<_> = batch.iter().flat_map(|item| item.obsolete.iter().cloned()).collect();
    let wanted: Vec<_> = batch.iter().filter_map(|item| item.wish.clone()).collect();
    let asked = obsolete.len().saturating_add(wanted.len());
    let gone = obsolete.len();
    tracing::debug!(obsolete = gone, wanted = wanted.len(), "routes are changed");
    let answer = tokio::time::timeout(timeout, routes.change(obsolete, wanted)).await;
    let outcomes = answer.unwrap_or_else(|_elapsed| {
        let failure = Failure::unanswered("routes.change", &routes.descriptor().name, timeout);
        Err(RouteChangeError::Crashed(failure))
    })?;
    if outcomes.len() != asked {
        // Which of them are meant, nobody knows: none is believed.
        let (name, given) = (routes.descriptor().name.clone(), outcomes.len());
        let message = format!("the provider {name} gave {given} outcomes for {asked} routes");
        return Err(RouteChangeError::Crashed(Failure::new(Reaction::Retry, message)));
    }
    let mut removed = outcomes;
    let mut made = removed.split_off(gone).into_iter();
    let mut removed = removed.into_iter();
    let done = |item: &Item| {
        let obsolete = removed.by_ref().take(item.obsolete.len()).filter_map(told).reduce(|first, _| first);
        let wish = item.wish.as_ref().and_then(|_| made.next()).and_then(told);
        Done { obsolete, wish, is_left: false }
    };
    Ok(batch.iter().map(done).collect())
}

/// The failure of an outcome, whose changes go to the log.
fn told(outcome: RouteOutcome) -> Option<Failure> {
    for change in outcome.changes {
        tracing::info!(change, "a route was changed");
    }
    outcome.failure
}
