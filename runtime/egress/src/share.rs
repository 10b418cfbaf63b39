//! Answers that several requests share.
//!
//! | who asks with `share` S at time A | is served by |
//! |---|---|
//! | S above 0 | a kept answer whose exchange began at A − S or later, or the exchange that is under way |
//! | S = 0 | an exchange of its own, which others may join |
//!
//! Only answers with a status of 2xx are kept. One whose type is JSON or HTML must also be valid JSON: an answer that was cut short, or the page
//! of a proxy, would be given to everybody for as long as it is kept. Failures and other answers go to those who waited for them and
//! to no one else: the next one asks again.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use quick_cache::Weighter;
use serde::de::IgnoredAny;
use tokio::sync::OnceCell;
use tokio::time::Instant;

use crate::budget::Class;
use crate::error::TransportError;
use crate::http::Response;

/// What makes two requests the same: a hash of all that is sent, credentials and the place where it goes included. Not how
/// urgent it is: an answer that is there serves every [`Class`], and only who joins an exchange under way has to be of the
/// same, so that nobody waits for somebody less urgent.
pub(crate) type Key = [u8; 32];

/// What is under way: for whom, and how urgent.
type FlightKey = (Key, Class);

/// The result of an exchange.
pub(crate) type ExchangeResult = Arc<Result<Response, TransportError>>;

/// Where an answer came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum AnswerSource {
    /// This request was sent.
    Asked,
    /// Another request of the same key was under way.
    Joined,
    /// An earlier answer was young enough.
    Stored,
}

/// An answer, and whose it is.
#[derive(Debug, Clone)]
pub(crate) struct SharedAnswer {
    /// What the exchange brought.
    pub result: ExchangeResult,
    /// Whether it was shared, for metrics.
    pub source: AnswerSource,
}

/// An answer stays at least this long, unless it is pushed out: who comes later may ask with a longer share than those
/// before.
const KEEP: Duration = Duration::from_secs(60);

/// Time between two searches for stale answers.
const SWEEP: Duration = Duration::from_secs(60);

/// What an entry costs besides its text.
pub(crate) const OVERHEAD: usize = 256;

/// One exchange that is under way. When the one who asks is cancelled, the cell lets the next one ask.
type Flight = Arc<OnceCell<ExchangeResult>>;

struct UnderWay {
    flight: Flight,
    /// How many wait for it. The one who asks is among them.
    waiting: usize,
    /// The longest share of those who wait.
    longest: Duration,
}

struct StoredAnswer {
    result: ExchangeResult,
    began: Instant,
    longest: Duration,
}

#[derive(Clone)]
struct Bytes;

impl Weighter<Key, StoredAnswer> for Bytes {
    fn weight(&self, key: &Key, kept: &StoredAnswer) -> u64 {
        let text = kept.result.as_ref().as_ref().map_or(0, Response::text_len);
        u64::try_from(text.saturating_add(key.len()).saturating_add(OVERHEAD)).unwrap_or(u64::MAX)
    }
}

struct State {
    /// The newest exchange of each key. An older one may be under way besides it, for those who wait for it.
    under_way: HashMap<FlightKey, UnderWay>,
    /// Not the variant with shards: one answer may be as large as all of it.
    kept: quick_cache::unsync::Cache<Key, StoredAnswer, Bytes>,
    swept: Instant,
    /// What began before is not shared.
    since: Instant,
}

/// Answers of reads, shared between requests. What is used least goes first.
pub(crate) struct SharedAnswers {
    state: Mutex<State>,
    capacity: u64,
}

impl SharedAnswers {
    /// Most bytes of kept answers, unless set otherwise: 32 MiB, some 15 listings of 5,000 machines.
    pub(crate) const DEFAULT_BYTES: u64 = 32 << 20;

    /// Keeps answers of at most `bytes`, body, headers and 256 bytes per answer counted.
    #[must_use]
    pub(crate) fn new(bytes: u64) -> Self {
        let kept = quick_cache::unsync::Cache::with_weighter(256, bytes, Bytes);
        let state = State { under_way: HashMap::new(), kept, swept: Instant::now(), since: Instant::now() };
        Self { state: Mutex::new(state), capacity: bytes }
    }

    /// The answer to the request `key`: a shared one where `share` permits it, else what `ask` brings. Dropping this
    /// future fails nobody: another one who waits asks instead.
    pub(crate) async fn get<F, A>(&self, key: Key, class: Class, share: Duration, ask: F) -> SharedAnswer
    where
        F: FnOnce() -> A,
        A: Future<Output = Result<Response, TransportError>>,
    {
        let member = match self.join(key, class, share) {
            Ok(member) => member,
            Err(result) => return SharedAnswer { result, source: AnswerSource::Stored },
        };
        let mut source = AnswerSource::Joined;
        let result = member
            .flight
            .get_or_init(async || {
                source = AnswerSource::Asked;
                let began = Instant::now();
                let result = Arc::new(ask().await);
                member.land(began, &result);
                result
            })
            .await;
        SharedAnswer { result: Arc::clone(result), source }
    }

    /// Shares no answer whose exchange has begun before now. Those who wait for one get it.
    pub(crate) fn forget(&self) {
        let mut state = self.state.lock();
        state.kept.clear();
        state.under_way.clear();
        state.since = Instant::now();
    }

    /// Bytes of the answers that are kept now.
    #[cfg(test)]
    fn bytes(&self) -> u64 {
        self.state.lock().kept.weight()
    }

    /// A place in the exchange that is under way, or in a new one; or the answer that is kept.
    fn join(&self, key: Key, class: Class, share: Duration) -> Result<Member<'_>, ExchangeResult> {
        let member = |flight: &Flight| Member { shared: self, key: (key, class), share, flight: Arc::clone(flight) };
        let now = Instant::now();
        let mut state = self.state.lock();
        state.sweep(now);
        let State { under_way, kept, since, .. } = &mut *state;
        if !share.is_zero() {
            let is_fresh = |kept: &&StoredAnswer| kept.began >= *since && now.duration_since(kept.began) <= share;
            if let Some(kept) = kept.get(&key).filter(is_fresh) {
                return Err(Arc::clone(&kept.result));
            }
            if let Some(newest) = under_way.get_mut(&(key, class)) {
                newest.waiting = newest.waiting.saturating_add(1);
                newest.longest = newest.longest.max(share);
                return Ok(member(&newest.flight));
            }
        }
        let flight = Flight::default();
        under_way.insert((key, class), UnderWay { flight: Arc::clone(&flight), waiting: 1, longest: share });
        Ok(member(&flight))
    }
}

impl State {
    fn sweep(&mut self, now: Instant) {
        if now.duration_since(self.swept) >= SWEEP {
            self.swept = now;
            self.kept.retain(|_, kept| now.duration_since(kept.began) <= kept.longest.max(KEEP));
        }
    }
}

fn may_be_kept(response: &Response) -> bool {
    let kind = response.headers.iter().find(|(name, _)| name == "content-type").map_or("", |(_, kind)| kind);
    let kind = kind.to_ascii_lowercase();
    let should_be_json = kind.contains("json") || kind.contains("html");
    (200..300).contains(&response.status)
        && (!should_be_json || serde_json::from_slice::<IgnoredAny>(&response.body).is_ok())
}

/// One who waits for an exchange.
struct Member<'a> {
    shared: &'a SharedAnswers,
    key: FlightKey,
    share: Duration,
    flight: Flight,
}

impl Member<'_> {
    /// The exchange has ended: whoever comes from now on does not join it. In one step with keeping the answer, or
    /// someone who comes between the two would ask again.
    fn land(&self, began: Instant, result: &ExchangeResult) {
        let may_be_kept = result.as_ref().as_ref().is_ok_and(may_be_kept);
        let mut state = self.shared.state.lock();
        let mut longest = self.share;
        if let Some(newest) = state.under_way.get(&self.key).filter(|newest| Arc::ptr_eq(&newest.flight, &self.flight))
        {
            longest = newest.longest;
            state.under_way.remove(&self.key);
        }
        if !may_be_kept {
            return;
        }
        // A request with share 0 may have overtaken this one.
        let (key, _) = self.key;
        if state.kept.peek(&key).is_some_and(|kept| kept.began > began) {
            return;
        }
        let kept = StoredAnswer { result: Arc::clone(result), began, longest };
        if Bytes.weight(&key, &kept) > self.shared.capacity {
            state.kept.remove(&key);
        } else {
            state.kept.insert(key, kept);
        }
    }
}

impl Drop for Member<'_> {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        // Another one may be the newest by now, or it has landed.
        let Some(own) = state.under_way.get_mut(&self.key).filter(|newest| Arc::ptr_eq(&newest.flight, &self.flight))
        else {
            return;
        };
        own.waiting = own.waiting.saturating_sub(1);
        if own.waiting == 0 {
            state.under_way.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests;
