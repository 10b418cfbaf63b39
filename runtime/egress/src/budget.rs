//! Limits how many requests a cloud gets, and decides which one goes first.
//!
//! One [`EndpointBudget`] per endpoint, or for several behind one limit of the cloud. A request waits for its turn ([`EndpointBudget::acquire`]) and tells how it ended
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
mod no_turn;
mod rate_limit_headers;
mod settings;
mod state;
mod wait_queue;
mod windows;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::HeaderMap;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout_at};

pub(crate) use no_turn::{NoTurn, NoTurnReason};
pub use settings::{BudgetSettings, Class};

use rate_limit_headers::RateLimitHeaders;
use settings::PerClass;
use state::{Blocked, State, Why};
use wait_queue::Number;

/// Why a request has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Fault {
    /// No connection: certainly nothing was sent.
    Connect,
    /// No answer in time.
    Timeout,
    /// The connection was lost before the whole answer was there.
    Lost,
}

/// What a budget has left, for metrics and status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Left {
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

/// The requests of one endpoint, or of several that the cloud counts together. Cheap to clone.
#[derive(Clone)]
pub(crate) struct EndpointBudget {
    inner: Arc<Inner>,
}

struct Inner {
    /// Whose requests are counted here.
    endpoints: Vec<String>,
    settings: BudgetSettings,
    wall: Arc<dyn Fn() -> SystemTime + Send + Sync>,
    state: Mutex<State>,
    recoveries: watch::Sender<u64>,
}

impl EndpointBudget {
    /// A budget that knows nothing of its cloud yet, with another wall clock, which is needed for what clouds tell as Unix time or as a
    /// date.
    #[cfg(test)]
    pub(crate) fn with_wall_clock(
        settings: BudgetSettings,
        wall: impl Fn() -> SystemTime + Send + Sync + 'static,
    ) -> Self {
        Self::with_state(vec![], State::new(&settings), settings, Arc::new(wall))
    }

    fn with_state(
        endpoints: Vec<String>,
        state: State,
        settings: BudgetSettings,
        wall: Arc<dyn Fn() -> SystemTime + Send + Sync>,
    ) -> Self {
        let (state, recoveries) = (Mutex::new(state), watch::Sender::new(0));
        Self { inner: Arc::new(Inner { endpoints, settings, wall, state, recoveries }) }
    }

    /// A budget of these endpoints. Where one or several of them had budgets `before`, it is the same one if nothing about it has changed, and
    /// otherwise it goes on with the longest pause of them.
    pub(crate) fn of(endpoints: &[String], settings: BudgetSettings, before: &[Self]) -> Self {
        let pause = |budget: &&Self| budget.inner.state.lock().pause;
        let Some(before) = before.iter().max_by_key(pause) else {
            let state = State::new(&settings);
            return Self::with_state(endpoints.to_vec(), state, settings, Arc::new(SystemTime::now));
        };
        if before.inner.endpoints == endpoints && before.inner.settings == settings {
            return before.clone();
        }
        let state = before.inner.state.lock().with(&settings);
        Self::with_state(endpoints.to_vec(), state, settings, Arc::clone(&before.inner.wall))
    }

    /// Whose requests are counted here.
    pub(crate) fn endpoints(&self) -> &[String] {
        &self.inner.endpoints
    }

    /// Waits for a turn until `deadline`, and at most [`BudgetSettings::max_wait`]. Dropping the future leaves the
    /// queue.
    ///
    /// # Errors
    ///
    /// There is no turn in that time. Said at once where it is known at once.
    pub(crate) async fn acquire(&self, class: Class, deadline: Instant) -> Result<Permit, NoTurn> {
        let arrived = Instant::now();
        if deadline <= arrived {
            return Err(NoTurn::late());
        }
        let limit = arrived.checked_add(self.inner.settings.max_wait).map_or(deadline, |most| most.min(deadline));
        let ticket = Ticket::join(&self.inner, class, limit)?;
        loop {
            match self.inner.turn(&ticket, arrived, limit) {
                Turn::Go(permit) => return Ok(permit),
                Turn::Never(no_turn) => return Err(no_turn),
                Turn::Wait(until) => {
                    // Woken or not: the state tells what is next.
                    let _elapsed = timeout_at(until, ticket.wake.notified()).await;
                }
            }
        }
    }

    /// Counts how often the cloud answered again after the breaker was open: time to try what was put off.
    #[must_use]
    pub(crate) fn recoveries(&self) -> watch::Receiver<u64> {
        self.inner.recoveries.subscribe()
    }

    /// How long the cloud wants no requests, in words; none where it takes them.
    #[must_use]
    pub(crate) fn pause(&self) -> Option<String> {
        let state = self.inner.state.lock();
        let left = state.pause?.checked_duration_since(Instant::now()).filter(|left| !left.is_zero());
        left.map(|left| state.paused(left))
    }

    /// What is left now.
    #[must_use]
    pub(crate) fn left(&self) -> Left {
        let now = Instant::now();
        let state = self.inner.state.lock();
        Left {
            limit: state.quota.and_then(|quota| quota.limit),
            remaining: state.quota.and_then(|quota| quota.remaining),
            tokens: state.bucket.tokens(now),
            paused: state.pause.map(|until| until.duration_since(now)).unwrap_or_default(),
            open: state.breaker.is_open(),
            waiting: state.queue.count(),
            in_flight: state.in_flight,
        }
    }
}

enum Turn {
    Go(Permit),
    Wait(Instant),
    Never(NoTurn),
}

impl Inner {
    fn turn(self: &Arc<Self>, ticket: &Ticket<'_>, arrived: Instant, limit: Instant) -> Turn {
        let now = Instant::now();
        let mut state = self.state.lock();
        let first = state.queue.is_first(ticket.number);
        let blocked = match state.blocked(ticket.number.0, now, &self.settings) {
            Some(blocked) => blocked,
            None if !first => Blocked { why: Why::Behind, until: None },
            None => match state.bucket.take(now) {
                Err(until) => Blocked { why: Why::Rate, until: Some(until) },
                Ok(()) => {
                    let probe = state.go(ticket.number.0, now);
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
            return Turn::Never(state.no_turn(blocked, now, &self.settings));
        }
        // Others are woken when they have become the first, or can no longer make it.
        Turn::Wait(blocked.until.filter(|_| first).unwrap_or(limit))
    }
}

/// A place in the wait queue. Dropping it leaves the queue.
struct Ticket<'a> {
    budget: &'a Inner,
    number: Number,
    wake: Arc<Notify>,
}

impl<'a> Ticket<'a> {
    /// No turn when those who are there already take all the time until `limit`.
    fn join(budget: &'a Inner, class: Class, limit: Instant) -> Result<Self, NoTurn> {
        let now = Instant::now();
        let mut state = budget.state.lock();
        let turn = now.checked_add(state.bucket.wait(state.queue.ahead(class), now));
        if turn.is_none_or(|turn| turn > limit) {
            let rate = Blocked { why: Why::Rate, until: turn };
            let blocked = state.blocked(class, now, &budget.settings).filter(|other| other.until > turn);
            return Err(state.no_turn(blocked.unwrap_or(rate), now, &budget.settings));
        }
        let (number, wake) = state.queue.join(class);
        Ok(Self { budget, number, wake })
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        self.budget.state.lock().queue.leave(self.number);
    }
}

/// The right to send one request. Dropping it makes room for the next one.
pub(crate) struct Permit {
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
    pub(crate) fn waited(&self) -> Duration {
        self.waited
    }

    /// The cloud answered. To be called when the headers are there: others may wait for what they say.
    pub(crate) fn answered(&mut self, status: u16, headers: &HeaderMap) {
        let told = RateLimitHeaders::read(headers, (self.budget.wall)());
        let slow_down = (status == 429 || (status == 503 && told.retry_after.is_some())).then_some(status);
        self.report(matches!(status, 502..=504), slow_down, Some(&told));
    }

    /// The cloud did not answer, or not to the end: then the headers that came count as none for the breaker.
    pub(crate) fn failed(&mut self, fault: Fault) {
        tracing::debug!(?fault, "no answer of the cloud");
        self.report(true, None, None);
    }

    /// What the end of one attempt means.
    fn report(&mut self, bad: bool, slow_down: Option<u16>, told: Option<&RateLimitHeaders>) {
        let now = Instant::now();
        let mut state = self.budget.state.lock();
        let (mut held, mut recovered) = (false, false);
        if let Some(told) = told {
            state.learn(told, self.issued, now, &self.budget.settings);
            held =
                slow_down.is_some_and(|status| state.slow_down(status, told, self.probe, now, &self.budget.settings));
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
            if !bad && slow_down.is_none() {
                state.unproven = false;
                state.untold = None;
            }
        }
        if held {
            state.queue.wake_all();
        } else {
            state.queue.wake_first();
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
        state.queue.wake_first();
    }
}

#[cfg(test)]
mod tests;
