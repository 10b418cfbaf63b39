//! How many requests a cloud gets, and who goes first.
//!
//! One [`Budget`] per endpoint. A request waits for its turn ([`Budget::acquire`]) and tells how it ended
//! ([`Permit::answered`], [`Permit::failed`]); from that the budget learns. What can hold a request back:
//!
//! | held by | who | until |
//! |---|---|---|
//! | pause: 429, or 503 with `Retry-After` | all | the time that the cloud said, then one probe |
//! | breaker: too many failures in a row | all | a pause that doubles, then one probe |
//! | nothing remains of the cloud's limit | all but one probe | an answer says otherwise |
//! | less than the reserve remains | [`Class::Refresh`] | the reset, then one every 10 s, or an answer says otherwise |
//! | as many in a minute, or an hour, as the cloud takes | all | the oldest of them no longer counts |
//! | requests under way, tokens | all | one ends, one grows |

mod breaker;
mod bucket;
mod learn;
mod line;
mod state;
mod windows;

use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use http::HeaderMap;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout_at};

use learn::Told;
use line::Number;
use state::{Blocked, SOON, State, Why};

/// How urgent a request is. The most urgent class goes first, whoever came first goes first within a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Changes to the cloud, and deletions.
    Write,
    /// What something new waits for, as a Node that is not initialised.
    Initialise,
    /// What only looks whether anything has changed.
    Refresh,
}

/// Something per [`Class`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the classes")]
pub struct PerClass<T> {
    pub write: T,
    pub initialise: T,
    pub refresh: T,
}

/// Limits of one endpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct BudgetSettings {
    /// Requests per second, on average. Default 50; so is what is not above zero. Infinity: as many as the burst.
    pub per_second: f64,
    /// Requests that may be sent at once after a quiet time. Default 250, at most 1,000,000.
    pub burst: NonZeroU32,
    /// Most requests in any minute. Default: what the provider says of its cloud; else as many as the others allow.
    pub per_minute: Option<NonZeroU32>,
    /// Most requests in any hour. Default: as [`per_minute`](Self::per_minute).
    pub per_hour: Option<NonZeroU32>,
    /// Most requests under way. Default 100.
    pub concurrency: NonZeroUsize,
    /// Longest wait for a turn. Default 10 s.
    pub max_wait: Duration,
    /// Percent of the limit that the cloud tells, kept for work more urgent than [`Class::Refresh`]. Default 10.
    pub reserve_percent: u8,
    /// Longest pause, whatever the cloud asks for. Default 5 min.
    pub max_pause: Duration,
    /// Failures in a row that open the breaker: no connection, no answer in time, 502, 503, 504. Default 5.
    pub breaker_failures: NonZeroU32,
    /// Least time that the breaker is open; jitter adds up to as much again. Default 1 s.
    pub breaker_pause_min: Duration,
    /// Most time between two probes while the breaker is open. Default 60 s.
    pub breaker_pause_max: Duration,
}

const DEFAULT_PER_SECOND: f64 = 50.0;

impl Default for BudgetSettings {
    fn default() -> Self {
        Self {
            per_second: DEFAULT_PER_SECOND,
            burst: NonZeroU32::MIN.saturating_add(249),
            per_minute: None,
            per_hour: None,
            concurrency: NonZeroUsize::MIN.saturating_add(99),
            max_wait: Duration::from_secs(10),
            reserve_percent: 10,
            max_pause: Duration::from_mins(5),
            breaker_failures: NonZeroU32::MIN.saturating_add(4),
            breaker_pause_min: Duration::from_secs(1),
            breaker_pause_max: Duration::from_mins(1),
        }
    }
}

type Doubling = ExponentialBackoff;

/// Endless pauses that double from `min` to `max`, with jitter of up to as much again.
fn doubling(min: Duration, max: Duration) -> Doubling {
    ExponentialBuilder::new().with_min_delay(min.min(max)).with_max_delay(max).with_jitter().without_max_times().build()
}

/// Why a request got no turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RefusedReason {
    /// Too many requests: by the cloud's own word, or by the settings.
    Throttled,
    /// The cloud does not answer.
    Open,
}

/// A request that got no turn; nothing was sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refused {
    /// Why.
    pub reason: RefusedReason,
    /// When to try again, from now.
    pub retry_after: Duration,
    /// For people.
    pub message: String,
}

/// Why a request has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// No connection: certainly nothing was sent.
    Connect,
    /// No answer in time.
    Timeout,
    /// The connection was lost before the whole answer was there.
    Lost,
}

/// What a budget has left, for metrics and status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    /// Requests per window, as the cloud told last.
    pub limit: Option<u64>,
    /// Of these still free, as the cloud told last.
    pub remaining: Option<u64>,
    /// Requests that could be sent at once by the settings.
    pub tokens: u64,
    /// How long the cloud wants no requests.
    pub paused: Duration,
    /// The breaker is open, or its probe is under way.
    pub open: bool,
    /// Requests that wait for their turn.
    pub waiting: PerClass<usize>,
    /// Requests under way.
    pub in_flight: usize,
}

/// The requests of one endpoint. Cheap to clone.
#[derive(Clone)]
pub struct Budget {
    inner: Arc<Inner>,
}

struct Inner {
    settings: BudgetSettings,
    wall: Box<dyn Fn() -> SystemTime + Send + Sync>,
    state: Mutex<State>,
    recoveries: watch::Sender<u64>,
}

impl Budget {
    /// A budget that knows nothing of its cloud yet.
    #[must_use]
    pub fn new(settings: BudgetSettings) -> Self {
        Self::with_wall_clock(settings, SystemTime::now)
    }

    /// With another wall clock, which is needed for what clouds tell as Unix time or as a date.
    #[must_use]
    pub fn with_wall_clock(settings: BudgetSettings, wall: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        let state = Mutex::new(State::new(&settings));
        Self { inner: Arc::new(Inner { settings, wall: Box::new(wall), state, recoveries: watch::Sender::new(0) }) }
    }

    /// Waits for a turn until `deadline`, and at most [`BudgetSettings::max_wait`]. Dropping the future frees the
    /// place.
    ///
    /// # Errors
    ///
    /// There is no turn in that time. Said at once where it is known at once.
    pub async fn acquire(&self, class: Class, deadline: Instant) -> Result<Permit, Refused> {
        let arrived = Instant::now();
        if deadline <= arrived {
            return Err(Refused::late());
        }
        let limit = arrived.checked_add(self.inner.settings.max_wait).map_or(deadline, |most| most.min(deadline));
        let place = Place::join(&self.inner, class, limit)?;
        loop {
            match self.inner.turn(&place, arrived, limit) {
                Turn::Go(permit) => return Ok(permit),
                Turn::Never(refused) => return Err(refused),
                Turn::Wait(until) => {
                    // Woken or not: the state tells what is next.
                    let _elapsed = timeout_at(until, place.wake.notified()).await;
                }
            }
        }
    }

    /// Counts how often the cloud answered again after the breaker was open: time to try what was put off.
    #[must_use]
    pub fn recoveries(&self) -> watch::Receiver<u64> {
        self.inner.recoveries.subscribe()
    }

    /// What is left now.
    #[must_use]
    pub fn left(&self) -> Left {
        let now = Instant::now();
        let state = self.inner.state.lock();
        Left {
            limit: state.quota.and_then(|quota| quota.limit),
            remaining: state.quota.and_then(|quota| quota.remaining),
            tokens: state.bucket.tokens(now),
            paused: state.pause.map(|until| until.duration_since(now)).unwrap_or_default(),
            open: state.breaker.is_open(),
            waiting: state.line.count(),
            in_flight: state.in_flight,
        }
    }
}

enum Turn {
    Go(Permit),
    Wait(Instant),
    Never(Refused),
}

impl Inner {
    fn turn(self: &Arc<Self>, place: &Place<'_>, arrived: Instant, limit: Instant) -> Turn {
        let now = Instant::now();
        let mut state = self.state.lock();
        let first = state.line.is_first(place.number);
        let blocked = match state.blocked(place.number.0, now, &self.settings) {
            Some(blocked) => blocked,
            None if !first => Blocked { why: Why::Busy, until: None },
            None => match state.bucket.take(now) {
                Err(until) => Blocked { why: Why::Rate, until: Some(until) },
                Ok(()) => {
                    let probe = state.go(place.number.0, now);
                    return Turn::Go(Permit {
                        budget: Arc::clone(self),
                        probe,
                        epoch: state.epoch,
                        issued: now,
                        waited: now.duration_since(arrived),
                        before: None,
                    });
                }
            },
        };
        if now >= limit || blocked.until.is_some_and(|until| until > limit) {
            return Turn::Never(state.refused(blocked, now, &self.settings));
        }
        // Others are woken when they have become the first, or can no longer make it.
        Turn::Wait(blocked.until.filter(|_| first).unwrap_or(limit))
    }
}

impl Refused {
    fn late() -> Self {
        let message = "no time is left for this request".to_owned();
        Self { reason: RefusedReason::Throttled, retry_after: SOON, message }
    }
}

/// A place in the line, which is free again when this is dropped.
struct Place<'a> {
    budget: &'a Inner,
    number: Number,
    wake: Arc<Notify>,
}

impl<'a> Place<'a> {
    /// Refused when those who are there already take all the time until `limit`.
    fn join(budget: &'a Inner, class: Class, limit: Instant) -> Result<Self, Refused> {
        let now = Instant::now();
        let mut state = budget.state.lock();
        let turn = now.checked_add(state.bucket.wait(state.line.ahead(class), now));
        if turn.is_none_or(|turn| turn > limit) {
            let rate = Blocked { why: Why::Rate, until: turn };
            let blocked = state.blocked(class, now, &budget.settings).filter(|other| other.until > turn);
            return Err(state.refused(blocked.unwrap_or(rate), now, &budget.settings));
        }
        let (number, wake) = state.line.join(class);
        Ok(Self { budget, number, wake })
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.budget.state.lock().line.leave(self.number);
    }
}

/// The right to send one request. Dropping it makes room for the next one.
pub struct Permit {
    budget: Arc<Inner>,
    probe: bool,
    epoch: u64,
    issued: Instant,
    waited: Duration,
    /// Failures in a row before the headers came that ended them.
    before: Option<u32>,
}

impl Permit {
    /// How long it took to get it.
    #[must_use]
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// The cloud answered. To be called when the headers are there: others may wait for what they say.
    pub fn answered(&mut self, status: u16, headers: &HeaderMap) {
        let told = Told::read(headers, (self.budget.wall)());
        let slow_down = status == 429 || (status == 503 && told.retry_after.is_some());
        self.report(matches!(status, 502..=504), slow_down, Some(&told));
    }

    /// The cloud did not answer, or not to the end: then the headers that came count as none for the breaker.
    pub fn failed(&mut self, fault: Fault) {
        tracing::debug!(?fault, "no answer of the cloud");
        self.report(true, false, None);
    }

    /// What the end of one attempt means.
    fn report(&mut self, bad: bool, slow_down: bool, told: Option<&Told>) {
        let now = Instant::now();
        let mut state = self.budget.state.lock();
        let (mut held, mut recovered) = (false, false);
        if let Some(told) = told {
            state.learn(told, self.issued, now, &self.budget.settings);
            held = slow_down && state.slow_down(told, self.probe, now, &self.budget.settings);
        }
        // What was sent before the breaker opened says nothing about now.
        if self.epoch == state.epoch && (self.probe || !state.breaker.is_open()) {
            if bad {
                if let Some(before) = self.before.take() {
                    state.breaker.take_back(before);
                }
                held |= state.breaker.failure(now);
            } else {
                self.before = Some(state.breaker.failures());
                recovered = state.breaker.success();
            }
        }
        if recovered {
            state.epoch = state.epoch.wrapping_add(1);
            self.epoch = state.epoch;
        }
        if self.probe {
            self.probe = false;
            state.probing = false;
            if !bad && !slow_down {
                state.unproven = false;
                state.untold = None;
            }
        }
        if held {
            state.line.wake_all();
        } else {
            state.line.wake_first();
        }
        drop(state);
        if recovered {
            self.budget.recoveries.send_modify(|count| *count = count.wrapping_add(1));
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut state = self.budget.state.lock();
        state.in_flight = state.in_flight.saturating_sub(1);
        state.windows.ended(Instant::now());
        if self.probe {
            state.probing = false;
        }
        state.line.wake_first();
    }
}

#[cfg(test)]
mod tests;
