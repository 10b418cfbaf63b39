//! Credentials that answers gave: a Keystone token. They stay here. A component that takes the place of another one begins with
//! a copy of them.
//!
//! One login at a time per credential. If another call has logged in since a call last looked, that call gets the other one's
//! answer and does not log in: so a hundred parallel calls log in once. A login that the cloud refused is not repeated at once:
//! a service may lock the account.
//!
//! Answers of logins are kept for calls that come later: they contain a catalogue. All kept answers together have a limit (`login-bytes`). An
//! answer for which there is no room is not kept, and each call that needs it logs in for itself. Of a refused login, only the status is kept.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::error::TransportError;
use crate::http::Response;
use crate::redact::{Origin, Redactor, RedactorCache, TooLarge};
use crate::secret::Secret;
use crate::share::{Key, OVERHEAD};

/// A value is renewed when less than this is left of it, or [`RENEW_SHARE`] of its life, whichever is less: services refuse
/// tokens that end while they work on a request.
const RENEW_BEFORE: Duration = Duration::from_secs(60);
const RENEW_SHARE: u32 = 10;
/// Values that were valid before and are still replaced in answers: more than there are logins while one answer comes. A
/// guest that logs in more often than that finds nothing either: a request itself knows what it carried.
const OLD_VALUES: usize = 16;
/// Bytes of those: each new value means that the search for all of them is built again.
const OLD_BYTES: usize = 2 * MAX_VALUE;
/// Largest value, in bytes. The headers of a request have no room for a larger one.
pub(crate) const MAX_VALUE: usize = 16 << 10;

/// How long a refused login is not repeated, at first and at most.
const BACK_OFF: Duration = Duration::from_secs(1);
const MAX_BACK_OFF: Duration = Duration::from_secs(60);
/// Different refused logins that are remembered per credential.
const REFUSED_LOGINS: usize = 4;

/// Which value of a captured credential: counts from 1; 0 is none.
pub(crate) type Generation = u64;

/// The captured credentials of one provider.
#[derive(Default)]
pub(crate) struct Captured {
    slots: Mutex<BTreeMap<String, Arc<Slot>>>,
    changes: AtomicU64,
    /// How often all ended: what was asked before says nothing about what is asked now.
    ends: AtomicU64,
    redactor: RedactorCache,
    /// Bytes of kept answers.
    kept: Arc<AtomicUsize>,
}

/// An answer that is kept, and counted for as long.
struct KeptAnswer {
    answer: Response,
    bytes: usize,
    all: Arc<AtomicUsize>,
}

impl Drop for KeptAnswer {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// A value is larger than any request could carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a captured credential has more than {MAX_VALUE} bytes")]
pub(crate) struct ValueTooLarge;

#[derive(Default)]
struct Slot {
    /// One login at a time.
    turn: tokio::sync::Mutex<()>,
    state: Mutex<State>,
}

#[derive(Default, Clone)]
struct State {
    generation: Generation,
    value: Option<Secret>,
    old: VecDeque<Secret>,
    begins: Option<Instant>,
    ends: Option<Instant>,
    /// The login behind the value: what was asked, and what came.
    login: Option<(Key, Arc<KeptAnswer>)>,
    /// The login that brought nothing last: what was asked, when it was over, and what the cloud said.
    failure: Option<(Key, Instant, Arc<KeptAnswer>)>,
    /// The newest last.
    refused: VecDeque<RefusedLogin>,
}

/// A login that the cloud refused.
#[derive(Clone)]
struct RefusedLogin {
    request: Key,
    answer: Arc<KeptAnswer>,
    wait: Duration,
    until: Instant,
}

impl State {
    /// The value while it lives.
    fn live(&self) -> Option<&Secret> {
        self.value.as_ref().filter(|_| self.ends.is_none_or(|end| Instant::now() < end))
    }

    fn is_fresh(&self) -> bool {
        let Some((begin, end)) = self.begins.zip(self.ends) else { return true };
        let margin = RENEW_BEFORE.min(end.saturating_duration_since(begin) / RENEW_SHARE);
        end.saturating_duration_since(Instant::now()) > margin
    }
}

impl Captured {
    fn slot(&self, name: &str) -> Arc<Slot> {
        Arc::clone(self.slots.lock().entry(name.to_owned()).or_default())
    }

    /// Takes over what there is in `other`, which notices nothing of what happens here.
    pub(crate) fn copy(&self, other: &Self) {
        let slots: Vec<(String, Arc<Slot>)> =
            other.slots.lock().iter().map(|(name, slot)| (name.clone(), Arc::clone(slot))).collect();
        for (name, slot) in slots {
            let mut state = slot.state.lock().clone();
            let count = |kept: &mut Arc<KeptAnswer>| *kept = self.count(kept.answer.clone());
            state.login.iter_mut().for_each(|(_, kept)| count(kept));
            state.failure.iter_mut().for_each(|(_, _, kept)| count(kept));
            state.refused.iter_mut().for_each(|refused| count(&mut refused.answer));
            *self.slot(&name).state.lock() = state;
        }
        self.changes.fetch_add(1, Ordering::Relaxed);
    }

    /// One in which all values have ended: none is used, all are still replaced in answers. A login that was refused is not repeated any sooner.
    pub(crate) fn ended(&self) -> Self {
        let ended = Self::default();
        ended.copy(self);
        for slot in ended.slots.lock().values() {
            let mut state = slot.state.lock();
            if let Some(value) = state.value.take() {
                state.remember(value);
            }
            (state.login, state.failure) = (None, None);
        }
        ended
    }

    /// Bytes of the answers of logins that are kept.
    #[cfg(test)]
    pub(crate) fn kept_bytes(&self) -> usize {
        self.kept.load(Ordering::Relaxed)
    }

    /// Counts an answer for as long as it is kept.
    fn count(&self, answer: Response) -> Arc<KeptAnswer> {
        let bytes = answer.text_len().saturating_add(OVERHEAD);
        self.kept.fetch_add(bytes, Ordering::Relaxed);
        Arc::new(KeptAnswer { answer, bytes, all: Arc::clone(&self.kept) })
    }

    /// Keeps an answer, if there is room for it.
    fn keep(&self, answer: &Response, most: usize) -> Option<Arc<KeptAnswer>> {
        let kept = self.kept.load(Ordering::Relaxed);
        let fits = kept.saturating_add(answer.text_len()).saturating_add(OVERHEAD) <= most;
        fits.then(|| self.count(answer.clone()))
    }

    /// The value, and which one it is.
    #[must_use]
    pub(crate) fn value(&self, name: &str) -> Option<(Secret, Generation)> {
        let slot = Arc::clone(self.slots.lock().get(name)?);
        let state = slot.state.lock();
        state.live().map(|value| (value.clone(), state.generation))
    }

    /// Which value there was last, and whether it is good for another request. `own` is the generation that the same call
    /// has captured: that one is good to its end, or a cloud whose tokens live for seconds would never be asked anything.
    #[must_use]
    pub(crate) fn look(&self, name: &str, own: Option<Generation>) -> (Generation, bool) {
        let slot = self.slot(name);
        let state = slot.state.lock();
        let good = state.live().is_some() && (own == Some(state.generation) || state.is_fresh());
        (state.generation, good)
    }

    /// Ends a value, unless there is a newer one: a late answer must not end what its successor brought.
    pub(crate) fn forget(&self, name: &str, generation: Generation) {
        let slot = self.slot(name);
        let mut state = slot.state.lock();
        if state.generation == generation
            && let Some(value) = state.value.take()
        {
            // What is looked for in answers stays the same.
            state.remember(value);
        }
    }

    /// Ends all values, and lets refused logins be tried again: what the operator gave is another.
    pub(crate) fn end_all(&self) {
        // First: a login that ends now finds either that, or its own note gone.
        self.ends.fetch_add(1, Ordering::SeqCst);
        let slots: Vec<Arc<Slot>> = self.slots.lock().values().map(Arc::clone).collect();
        for slot in slots {
            let mut state = slot.state.lock();
            if let Some(value) = state.value.take() {
                state.remember(value);
            }
            state.failure = None;
            state.refused.clear();
        }
    }

    /// Replaces every value of now and of shortly before.
    ///
    /// # Errors
    ///
    /// There are too many of them.
    pub(crate) fn redactor(&self) -> Result<Redactor, TooLarge> {
        let values = || self.values().into_iter().map(|(name, value)| (name, value, Origin::Captured)).collect();
        self.redactor.get(|| self.changes(), values)
    }

    /// Every value of now and of shortly before, with its name.
    #[must_use]
    pub(crate) fn values(&self) -> Vec<(String, Secret)> {
        let slots: Vec<(String, Arc<Slot>)> =
            self.slots.lock().iter().map(|(name, slot)| (name.clone(), Arc::clone(slot))).collect();
        let mut values = Vec::new();
        for (name, slot) in slots {
            let state = slot.state.lock();
            values.extend(state.value.iter().chain(&state.old).map(|value| (name.clone(), value.clone())));
        }
        values
    }

    /// Grows whenever there is another value.
    #[must_use]
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    /// Stores a value. Called by the login itself, before its answer is cleaned of it.
    ///
    /// # Errors
    ///
    /// [`ValueTooLarge`]; then the answer must not be shown, since nothing takes the value out of it.
    pub(crate) fn store(&self, name: &str, value: Secret, life: Option<Duration>) -> Result<(), ValueTooLarge> {
        if value.expose().len() > MAX_VALUE {
            return Err(ValueTooLarge);
        }
        let slot = self.slot(name);
        let mut state = slot.state.lock();
        let is_value = |other: &Secret| other.expose() == value.expose();
        let is_known = state.value.iter().chain(&state.old).any(is_value);
        state.old.retain(|old| !is_value(old));
        let is_current = state.value.as_ref().is_some_and(is_value);
        if let Some(old) = state.value.replace(value).filter(|_| !is_current) {
            state.remember(old);
        }
        let now = Instant::now();
        state.generation = state.generation.saturating_add(1);
        state.begins = Some(now);
        state.ends = life.and_then(|life| now.checked_add(life));
        state.login = None;
        if !is_known {
            self.changes.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Logs in, or joins the login of somebody else.
    ///
    /// `request` tells different logins apart. `seen` is the generation that the caller knew when it decided to log in; an
    /// answer not older than `share` will do as well. With `proof` the cloud is asked in any case. Kept answers have at most `most` bytes together.
    ///
    /// Only what the cloud answered is shared: that somebody else ran out of time says nothing to whoever has more.
    ///
    /// # Errors
    ///
    /// What `ask` says.
    ///
    /// # Cancel safety
    ///
    /// The next in line logs in.
    #[expect(clippy::too_many_arguments, reason = "what a login is")]
    pub(crate) async fn login<F>(
        &self,
        name: &str,
        request: Key,
        seen: Generation,
        share: Duration,
        proof: bool,
        most: usize,
        ask: impl FnOnce() -> F,
    ) -> (Result<Response, TransportError>, Generation)
    where
        F: Future<Output = Result<Response, TransportError>>,
    {
        let arrived = Instant::now();
        let slot = self.slot(name);
        let _turn = slot.turn.lock().await;
        let before = {
            let state = slot.state.lock();
            let stored = if proof { None } else { state.stored(&request, arrived, seen, share) };
            if let Some(answer) = stored {
                return (Ok(answer), state.generation);
            }
            state.generation
        };
        let ends = self.ends.load(Ordering::SeqCst);
        let answer = ask().await;
        let mut state = slot.state.lock();
        if let Ok(answer) = &answer {
            if state.generation > before {
                state.failure = None;
                state.refused.clear();
                state.login = None;
                state.login = self.keep(answer, most).map(|kept| (request, kept));
            } else if self.ends.load(Ordering::SeqCst) == ends {
                state.failure = None;
                let kept = self.keep(answer, most).unwrap_or_else(|| self.count(status_of(answer)));
                if matches!(answer.status, 401 | 403 | 404) {
                    state.refuse(request, Arc::clone(&kept));
                }
                state.failure = Some((request, Instant::now(), kept));
            }
        }
        (answer, state.generation)
    }
}

/// What is always kept of a refusal.
fn status_of(answer: &Response) -> Response {
    let summary = format!("{} (the rest of the answer is not kept: limit login-bytes)", answer.summary);
    Response { status: answer.status, headers: vec![], body: Bytes::new(), summary, failed: answer.failed.clone() }
}

impl State {
    /// What the cloud answered to this login before, when that will do.
    fn stored(&self, request: &Key, arrived: Instant, seen: Generation, share: Duration) -> Option<Response> {
        let young = self.begins.is_some_and(|begin| !share.is_zero() && arrived.duration_since(begin) <= share);
        if let Some((of, answer)) = &self.login
            && of == request
            && self.live().is_some()
            && (self.generation > seen || young)
        {
            return Some(answer.answer.clone());
        }
        if let Some((of, over, answer)) = &self.failure
            && of == request
            && *over >= arrived
        {
            return Some(answer.answer.clone());
        }
        let refused = self.refused.iter().find(|refused| refused.request == *request)?;
        (Instant::now() < refused.until).then(|| refused.answer.answer.clone())
    }

    /// Each refusal of the same login doubles the time until the next.
    fn refuse(&mut self, request: Key, answer: Arc<KeptAnswer>) {
        let last = self.refused.iter().position(|refused| refused.request == request);
        let last = last.and_then(|index| self.refused.remove(index));
        let wait = last.map_or(BACK_OFF, |last| last.wait.saturating_mul(2).min(MAX_BACK_OFF));
        let now = Instant::now();
        let until = now.checked_add(wait).unwrap_or(now);
        self.refused.push_back(RefusedLogin { request, answer, wait, until });
        if self.refused.len() > REFUSED_LOGINS {
            self.refused.pop_front();
        }
    }

    fn remember(&mut self, value: Secret) {
        self.old.push_front(value);
        self.old.truncate(OLD_VALUES);
        while self.old.iter().map(|old| old.expose().len()).sum::<usize>() > OLD_BYTES {
            self.old.pop_back();
        }
    }
}
