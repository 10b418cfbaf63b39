//! How many writes are under way at the same time: as many as the API server takes without letting each of them wait longer.
//!
//! A fixed number is wrong somewhere: 32 is little for three API servers of 16 cores, and on a small one all above 10 only wait
//! there, in front of the requests of others. So the width is found. Who finds no place waits here, in order.
//!
//! At the end of each [`WINDOW`] the first of these that holds is done:
//!
//! | in this window | the width |
//! |---|---|
//! | the API server said that it has too much to do: 429, or 503 with a time to wait | halves |
//! | one in [`FAILING`] answers or more was none, or 5xx | halves |
//! | writes took more than [`GROWS`] times as long as they do when there is little to do | shrinks by an eighth |
//! | they took less than [`HOLDS`] times as long, and somebody found no place | grows by a quarter |
//! | anything else | stays |
//!
//! Only writes that were done say how long one takes: a refusal is quick. A failure with no more than [`LEAST`] writes under way says
//! nothing about the width, and one among many is the fault of its object. So neither an object that is refused nor one that
//! fails again and again widens or narrows anything for the others.

#[cfg(test)]
mod tests;

use std::num::NonZeroUsize;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use super::error::{ApiError, Purpose};

/// Before anything is known of the API server.
const FIRST: usize = 16;
/// Less is never needed: this many writes do no harm.
const LEAST: usize = 8;
/// Between two changes of the width, at least; and at least as many answers as the width and [`LEAST`].
const WINDOW: Duration = Duration::from_millis(200);
/// So many times the usual time of an answer are as good as it.
const HOLDS: f64 = 1.5;
/// So many times the usual time of an answer are too much.
const GROWS: f64 = 2.5;
/// One in so many answers that fails is more than the fault of one object, or of a few.
const FAILING: usize = 4;
/// What is usual follows what is, for an API server that has become slower for good: it doubles in five minutes of work.
const DRIFT: f64 = 1.0005;

/// The places for writes.
pub(super) struct Width {
    permits: Semaphore,
    most: usize,
    state: Mutex<State>,
}

struct State {
    width: usize,
    /// Places that are taken and no longer there.
    surplus: usize,
    kinds: Vec<Kind>,
    begun: Option<Instant>,
    under_way: usize,
    answers: usize,
    /// How many of them were none, or said that something is wrong with the API server, while more than [`LEAST`] were under way.
    failures: usize,
    /// Somebody found no place.
    was_full: bool,
    /// The API server has too much to do.
    was_overloaded: bool,
    gauge: Gauge,
}

/// What an answer says about the API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Said {
    Done,
    /// It is there, and does not do it.
    Refused,
    Failed,
    TooMuch,
    /// It was not asked.
    Nothing,
}

impl Said {
    const fn by(error: Option<&ApiError>) -> Self {
        match error {
            None => Self::Done,
            Some(ApiError::Closed) => Self::Nothing,
            Some(
                ApiError::Unavailable { code: 429, .. } | ApiError::Unavailable { code: 503, retry_after: Some(_), .. },
            ) => Self::TooMuch,
            Some(ApiError::TimedOut(_) | ApiError::Transport(_) | ApiError::Unavailable { .. }) => Self::Failed,
            Some(
                ApiError::Conflict
                | ApiError::AlreadyExists
                | ApiError::NotFound
                | ApiError::NamespaceEnding(_)
                | ApiError::Denied { .. }
                | ApiError::Refused { .. },
            ) => Self::Refused,
        }
    }
}

/// Writes of one kind: each takes the API server another time.
struct Kind {
    verb: &'static str,
    resource: &'static str,
    /// Seconds, of the answers in this window.
    sum: f64,
    count: u32,
    /// Seconds that an answer takes when there is little to do.
    usual: Option<f64>,
}

/// A place. It is free again when this is dropped.
pub(super) struct WritePermit<'a> {
    width: &'a Width,
    permit: Option<SemaphorePermit<'a>>,
}

impl Width {
    /// Places for `most` writes at most, shown in `gauge`.
    pub(super) fn new(most: NonZeroUsize, gauge: Gauge) -> Self {
        let most = most.get().min(Semaphore::MAX_PERMITS);
        let width = FIRST.min(most);
        gauge.set(i64::try_from(width).unwrap_or(i64::MAX));
        let state = State {
            width,
            surplus: 0,
            kinds: vec![],
            begun: None,
            under_way: 0,
            answers: 0,
            failures: 0,
            was_full: false,
            was_overloaded: false,
            gauge,
        };
        Self { permits: Semaphore::new(width), most, state: Mutex::new(state) }
    }

    /// Waits for a place.
    ///
    /// # Cancel safety
    ///
    /// Whoever gives up loses the place in the queue, and nothing else.
    pub(super) async fn place(&self) -> WritePermit<'_> {
        let permit = match self.permits.try_acquire() {
            Ok(permit) => Some(permit),
            Err(_) => {
                self.state.lock().was_full = true;
                // An error means that the semaphore is closed, which nobody does.
                self.permits.acquire().await.ok()
            }
        };
        self.state.lock().under_way += 1;
        WritePermit { width: self, permit }
    }

    /// An answer came, or did not. Its place is still taken.
    pub(super) fn answered(&self, purpose: Purpose, took: Duration, error: Option<&ApiError>) {
        let mut state = self.state.lock();
        let now = Instant::now();
        let begun = *state.begun.get_or_insert(now);
        match Said::by(error) {
            Said::Nothing => return,
            Said::Done => state.took(purpose, took),
            Said::TooMuch => state.was_overloaded = true,
            Said::Failed => state.failures += usize::from(state.under_way > LEAST),
            Said::Refused => {}
        }
        state.answers += 1;
        if now - begun >= WINDOW && state.answers >= state.width.max(LEAST) {
            let wanted = state.next(self.most);
            self.resize(&mut state, wanted);
        }
    }

    fn resize(&self, state: &mut State, wanted: usize) {
        let before = std::mem::replace(&mut state.width, wanted);
        if wanted > before {
            let grown = wanted - before;
            let kept = grown.min(state.surplus);
            state.surplus -= kept;
            self.permits.add_permits(grown - kept);
        } else {
            let shrunk = before - wanted;
            state.surplus += shrunk - self.permits.forget_permits(shrunk);
        }
        state.gauge.set(i64::try_from(wanted).unwrap_or(i64::MAX));
    }
}

impl State {
    fn took(&mut self, purpose: Purpose, took: Duration) {
        let Purpose { verb, resource } = purpose;
        let found = self.kinds.iter().position(|kind| kind.verb == verb && kind.resource == resource);
        let place = found.unwrap_or_else(|| {
            self.kinds.push(Kind { verb, resource, sum: 0.0, count: 0, usual: None });
            self.kinds.len() - 1
        });
        if let Some(kind) = self.kinds.get_mut(place) {
            kind.sum += took.as_secs_f64();
            kind.count += 1;
        }
    }

    /// Ends the window. Returns the width of the next one.
    fn next(&mut self, most: usize) -> usize {
        let (mut times, mut count) = (0.0, 0.0);
        for kind in self.kinds.iter_mut().filter(|kind| kind.count > 0) {
            let answers = f64::from(std::mem::take(&mut kind.count));
            let mean = std::mem::take(&mut kind.sum) / answers;
            let usual = kind.usual.map_or(mean, |usual| (usual * DRIFT).min(mean)).max(f64::EPSILON);
            kind.usual = Some(usual);
            times += answers * mean / usual;
            count += answers;
        }
        // None where nothing was done: that is no reason to do more at a time.
        let times = (count > 0.0).then_some(times / count);
        let answers = std::mem::take(&mut self.answers);
        let failures = std::mem::take(&mut self.failures);
        let is_failing = failures > 0 && failures.saturating_mul(FAILING) >= answers;
        let was_full = std::mem::take(&mut self.was_full);
        let was_overloaded = std::mem::take(&mut self.was_overloaded);
        self.begun = None;
        let wanted = if was_overloaded || is_failing {
            self.width / 2
        } else if times.is_some_and(|times| times > GROWS) {
            self.width - self.width / 8
        } else if times.is_some_and(|times| times <= HOLDS) && was_full {
            self.width + (self.width / 4).max(1)
        } else {
            self.width
        };
        wanted.clamp(LEAST.min(most), most)
    }
}

impl Drop for WritePermit<'_> {
    fn drop(&mut self) {
        let mut state = self.width.state.lock();
        state.under_way = state.under_way.saturating_sub(1);
        let Some(permit) = self.permit.take() else { return };
        if state.surplus > 0 {
            state.surplus -= 1;
            permit.forget();
        }
    }
}
