//! What a budget knows, and what follows from it for the next request.

use std::time::Duration;

use backon::{BackoffBuilder, ConstantBuilder};
use tokio::time::Instant;

use super::breaker::Breaker;
use super::bucket::Bucket;
use super::no_turn::{NoTurn, NoTurnReason, SOON};
use super::rate_limit_headers::RateLimitHeaders;
use super::settings::{BudgetSettings, Class, DEFAULT_BURST, Doubling, doubling};
use super::wait_queue::WaitQueue;
use super::windows::{HOUR, Windows};

/// Least pause after a 429.
const MIN_PAUSE: Duration = Duration::from_secs(1);

/// When a cloud tells a limit but no reset.
const UNTOLD_RESET: Duration = Duration::from_mins(1);

/// Between two refreshes when the reset is over and the answers still say that little remains. The reset of
/// DigitalOcean is that of the oldest request alone.
const REFRESH_GAP: Duration = Duration::from_secs(10);

/// What the cloud said about its own limit.
#[derive(Clone, Copy)]
pub(super) struct Quota {
    pub(super) limit: Option<u64>,
    pub(super) remaining: Option<u64>,
    reset: Instant,
}

impl Quota {
    fn is_low(&self, reserve_percent: u8) -> bool {
        match (self.remaining, self.limit) {
            (Some(0), _) => true,
            (Some(remaining), Some(limit)) => {
                u128::from(remaining) * 100 < u128::from(limit).saturating_mul(reserve_percent.into())
            }
            _ => false,
        }
    }
}

pub(super) struct State {
    pub(super) queue: WaitQueue,
    pub(super) bucket: Bucket,
    pub(super) windows: Windows,
    pub(super) breaker: Breaker,
    pub(super) in_flight: usize,
    /// The cloud wants no requests before.
    pub(super) pause: Option<Instant>,
    /// The status with which it said so.
    pause_status: u16,
    /// No answer has shown yet that the pause was long enough.
    pub(super) unproven: bool,
    /// Pauses after a 429 that tells no time.
    pub(super) untold: Option<Doubling>,
    pub(super) probing: bool,
    pub(super) quota: Option<Quota>,
    refreshed: Option<Instant>,
    /// Counts the recoveries; what was sent before the last one does not count as a failure.
    pub(super) epoch: u64,
}

/// Why a request cannot go now, and from when on it perhaps can.
#[derive(Clone, Copy)]
pub(super) struct Blocked {
    pub(super) why: Why,
    pub(super) until: Option<Instant>,
}

#[derive(Clone, Copy)]
pub(super) enum Why {
    Open,
    Paused,
    Probing,
    Reserve,
    Busy,
    /// So many requests in so long a time.
    Full(usize, Duration),
    Rate,
    /// Nothing holds it back but those before it, who take each token.
    Behind,
}

impl State {
    pub(super) fn new(settings: &BudgetSettings) -> Self {
        Self {
            queue: WaitQueue::default(),
            bucket: Bucket::new(settings.rate(), settings.burst.unwrap_or(DEFAULT_BURST)),
            windows: Windows::new(settings),
            breaker: Breaker::new(settings),
            in_flight: 0,
            pause: None,
            pause_status: 0,
            unproven: false,
            untold: None,
            probing: false,
            quota: None,
            refreshed: None,
            epoch: 0,
        }
    }

    /// Of the same cloud, with other limits: a pause that it asked for, and what it said of its own limit, hold as before.
    pub(super) fn with(&self, settings: &BudgetSettings) -> Self {
        Self {
            windows: self.windows.with(settings),
            pause: self.pause,
            pause_status: self.pause_status,
            unproven: self.unproven,
            quota: self.quota,
            ..Self::new(settings)
        }
    }

    /// All but the queue and the tokens.
    pub(super) fn blocked(&self, class: Class, now: Instant, settings: &BudgetSettings) -> Option<Blocked> {
        let low = class == Class::Refresh && self.quota.is_some_and(|quota| quota.is_low(settings.reserve_percent));
        let reserve = self.quota.filter(|_| low).map(|quota| {
            let gap = self.refreshed.and_then(|last| last.checked_add(REFRESH_GAP));
            gap.map_or(quota.reset, |gap| gap.max(quota.reset))
        });
        let full = self.windows.full(self.in_flight, now);
        let full = full.map(|(most, length, until)| (Why::Full(most, length), Some(until)));
        let timed = [(Why::Open, self.breaker.open_until()), (Why::Paused, self.pause), (Why::Reserve, reserve)]
            .into_iter()
            .chain(full)
            .filter(|(_, until)| until.is_some_and(|until| until > now))
            .max_by_key(|(_, until)| *until);
        if let Some((why, until)) = timed {
            return Some(Blocked { why, until });
        }
        if self.probing && self.must_probe() {
            return Some(Blocked { why: Why::Probing, until: None });
        }
        (self.in_flight >= settings.concurrency.get()).then_some(Blocked { why: Why::Busy, until: None })
    }

    /// One request at a time, until an answer says otherwise.
    fn must_probe(&self) -> bool {
        self.unproven || self.breaker.is_open() || self.quota.is_some_and(|quota| quota.remaining == Some(0))
    }

    /// Whether the one that goes is the probe.
    pub(super) fn go(&mut self, class: Class, now: Instant) -> bool {
        self.in_flight = self.in_flight.saturating_add(1);
        if class == Class::Refresh {
            self.refreshed = Some(now);
        }
        let probe = self.must_probe();
        self.probing |= probe;
        probe
    }

    pub(super) fn learn(&mut self, told: &RateLimitHeaders, issued: Instant, now: Instant, settings: &BudgetSettings) {
        // A limit of 0 is what a cloud without limits tells.
        if told.limit != Some(0) && (told.limit.is_some() || told.remaining.is_some()) {
            let reset = told.reset.unwrap_or(UNTOLD_RESET).min(settings.max_pause);
            let reset = now.checked_add(reset).unwrap_or(now);
            self.quota = Some(Quota { limit: told.limit, remaining: told.remaining, reset });
        } else if self.quota.is_some_and(|quota| quota.reset <= issued) {
            // The cloud no longer tells: what it told before is over.
            self.quota = None;
        }
    }

    /// True when that made the pause longer.
    pub(super) fn slow_down(
        &mut self,
        status: u16,
        told: &RateLimitHeaders,
        probe: bool,
        now: Instant,
        settings: &BudgetSettings,
    ) -> bool {
        let ordered = match told.retry_after.or(told.reset) {
            Some(ordered) => ordered,
            // One of many that were sent together says nothing new.
            None if self.unproven && !probe => return false,
            None => {
                let untold = self.untold.get_or_insert_with(|| doubling(MIN_PAUSE, settings.max_pause));
                untold.next().unwrap_or(settings.max_pause)
            }
        };
        let ordered = ordered.max(MIN_PAUSE);
        let jitter = ConstantBuilder::new().with_delay((ordered / 10).min(SOON)).with_jitter().build().next();
        let pause = ordered.saturating_add(jitter.unwrap_or_default()).min(settings.max_pause);
        let until = now.checked_add(pause).unwrap_or(now);
        self.unproven = true;
        if told.retry_after.is_some()
            && let Some(quota) = self.quota.as_mut().filter(|quota| quota.remaining == Some(0))
        {
            // Another window than that of the reset was hit.
            quota.reset = until;
        }
        if self.pause.is_some_and(|pause| pause >= until) {
            return false;
        }
        self.pause = Some(until);
        self.pause_status = status;
        true
    }

    pub(super) fn no_turn(&self, blocked: Blocked, now: Instant, settings: &BudgetSettings) -> NoTurn {
        let retry_after = blocked.until.map_or(SOON, |until| until.duration_since(now));
        let seconds = seconds(retry_after);
        let message = match blocked.why {
            Why::Open => format!(
                "the cloud failed to answer {} times in a row; the next attempt is in {seconds} s",
                self.breaker.failures()
            ),
            Why::Paused => self.paused(retry_after),
            Why::Probing => "the cloud has not answered yet to a first request after a pause".to_owned(),
            Why::Reserve => {
                let quota = self.quota.and_then(|quota| quota.remaining.zip(quota.limit));
                let left = quota.map_or_else(|| "nothing".to_owned(), |(left, limit)| format!("{left} of {limit}"));
                format!("{left} remains of the cloud's limit, kept for more urgent work for another {seconds} s")
            }
            Why::Busy => format!("others went first, and {} requests are under way", self.in_flight),
            Why::Full(most, length) => {
                format!("the host sends {most} requests in {} s; the next one can go in {seconds} s", length.as_secs())
            }
            Why::Rate => format!(
                "more requests wait than {} per second let through; the turn would come in {seconds} s",
                settings.rate()
            ),
            Why::Behind => format!("others went first, as many as {} per second let through", settings.rate()),
        };
        let limit = match blocked.why {
            Why::Open | Why::Paused | Why::Probing | Why::Reserve => None,
            Why::Busy => Some("concurrent-requests"),
            Why::Full(_, HOUR) => Some("requests-per-hour"),
            Why::Full(..) => Some("requests-per-minute"),
            Why::Rate | Why::Behind => Some("requests-per-second"),
        };
        let named = limit.map(|limit| format!(" (limit {limit})")).unwrap_or_default();
        let message = message + &named;
        let reason = if self.breaker.is_open() { NoTurnReason::Open } else { NoTurnReason::Throttled };
        NoTurn { reason, retry_after, limit, message }
    }

    /// What is said while the cloud wants no requests.
    pub(super) fn paused(&self, left: Duration) -> String {
        format!("the cloud asked for no requests for another {} s ({})", seconds(left), self.pause_status)
    }
}

/// For people: never 0 while there is something to wait for.
fn seconds(duration: Duration) -> u64 {
    duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0))
}
