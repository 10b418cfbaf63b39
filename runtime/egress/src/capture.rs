//! Credentials that answers gave: a Keystone token. They stay here, and survive a swap of the component.
//!
//! One login at a time per credential. Whoever asks for a login that another call made since it last looked gets that
//! call's answer, so that a hundred parallel calls log in once.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::http::{Response, TransportError};
use crate::secret::Secret;
use crate::share::Key;

/// A value is renewed when less than this is left of it, or [`RENEW_SHARE`] of its life, whichever is less: services refuse
/// tokens that end while they work on a request.
const RENEW_BEFORE: Duration = Duration::from_secs(60);
const RENEW_SHARE: u32 = 10;
/// Values that were valid before and are still replaced in answers.
const OLD_VALUES: usize = 4;

/// Which value of a captured credential: counts from 1; 0 is none.
pub type Generation = u64;

/// The captured credentials of one provider.
#[derive(Default)]
pub struct Captured {
    slots: Mutex<BTreeMap<String, Arc<Slot>>>,
    changes: AtomicU64,
}

#[derive(Default)]
struct Slot {
    /// One login at a time.
    turn: tokio::sync::Mutex<()>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    generation: Generation,
    value: Option<Secret>,
    old: VecDeque<Secret>,
    begins: Option<Instant>,
    ends: Option<Instant>,
    /// The login behind the value: what was asked, and what came.
    login: Option<(Key, Arc<Response>)>,
    /// The login that failed last: what was asked, and when it was over.
    failure: Option<(Key, Instant, Result<Arc<Response>, TransportError>)>,
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

    /// The value, and which one it is.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<(Secret, Generation)> {
        let slot = Arc::clone(self.slots.lock().get(name)?);
        let state = slot.state.lock();
        state.live().map(|value| (value.clone(), state.generation))
    }

    /// Which value there was last, and whether it is good for another request. `own` is the generation that the same call
    /// has captured: that one is good to its end, or a cloud whose tokens live for seconds would never be asked anything.
    #[must_use]
    pub fn look(&self, name: &str, own: Option<Generation>) -> (Generation, bool) {
        let slot = self.slot(name);
        let state = slot.state.lock();
        let good = state.live().is_some() && (own == Some(state.generation) || state.is_fresh());
        (state.generation, good)
    }

    /// Ends a value, unless there is a newer one: a late answer must not end what its successor brought.
    pub fn forget(&self, name: &str, generation: Generation) {
        let slot = self.slot(name);
        let mut state = slot.state.lock();
        if state.generation == generation
            && let Some(value) = state.value.take()
        {
            state.remember(value);
            self.changes.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Every value of now and of shortly before, with its name.
    #[must_use]
    pub fn values(&self) -> Vec<(String, Secret)> {
        let slots: Vec<(String, Arc<Slot>)> =
            self.slots.lock().iter().map(|(name, slot)| (name.clone(), Arc::clone(slot))).collect();
        let mut values = Vec::new();
        for (name, slot) in slots {
            let state = slot.state.lock();
            values.extend(state.value.iter().chain(&state.old).map(|value| (name.clone(), value.clone())));
        }
        values
    }

    /// Grows whenever a value changes.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    /// Stores a value. Called by the login itself, before its answer is cleaned of it.
    pub fn store(&self, name: &str, value: Secret, life: Option<Duration>) {
        let slot = self.slot(name);
        let mut state = slot.state.lock();
        if let Some(old) = state.value.replace(value) {
            state.remember(old);
        }
        let now = Instant::now();
        state.generation = state.generation.saturating_add(1);
        state.begins = Some(now);
        state.ends = life.and_then(|life| now.checked_add(life));
        state.login = None;
        self.changes.fetch_add(1, Ordering::Relaxed);
    }

    /// Logs in, or joins the login of somebody else.
    ///
    /// `request` tells different logins apart. `seen` is the generation that the caller knew when it decided to log in; an
    /// answer not older than `share` will do as well.
    ///
    /// # Errors
    ///
    /// What `ask` says, or said to somebody else while the caller waited.
    ///
    /// # Cancel safety
    ///
    /// The next in line logs in.
    pub async fn login<F>(
        &self,
        name: &str,
        request: Key,
        seen: Generation,
        share: Duration,
        ask: impl FnOnce() -> F,
    ) -> (Result<Response, TransportError>, Generation)
    where
        F: Future<Output = Result<Response, TransportError>>,
    {
        let arrived = Instant::now();
        let slot = self.slot(name);
        let _turn = slot.turn.lock().await;
        {
            let state = slot.state.lock();
            let young = state.begins.is_some_and(|begin| !share.is_zero() && arrived.duration_since(begin) <= share);
            if let Some((of, answer)) = &state.login
                && *of == request
                && state.live().is_some()
                && (state.generation > seen || young)
            {
                return (Ok(Response::clone(answer)), state.generation);
            }
            if let Some((of, over, failure)) = &state.failure
                && *of == request
                && *over >= arrived
            {
                return (failure.clone().map(|answer| Response::clone(&answer)), state.generation);
            }
        }
        let before = slot.state.lock().generation;
        let answer = ask().await;
        let mut state = slot.state.lock();
        if state.generation > before {
            state.failure = None;
            state.login = answer.as_ref().ok().map(|answer| (request, Arc::new(answer.clone())));
        } else {
            state.failure = Some((request, Instant::now(), answer.clone().map(Arc::new)));
        }
        (answer, state.generation)
    }
}

impl State {
    fn remember(&mut self, value: Secret) {
        self.old.push_front(value);
        self.old.truncate(OLD_VALUES);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use bytes::Bytes;
    use futures::future::join_all;

    use super::*;

    fn response(status: u16) -> Response {
        Response { status, headers: vec![], body: Bytes::from_static(b"catalogue"), summary: String::new() }
    }

    /// A login that takes 50 ms and gives a token that lives for `life`.
    async fn log_in(captured: &Captured, logins: &AtomicUsize, seen: Generation, life: Option<Duration>) -> u16 {
        let ask = || async {
            let number = logins.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(50)).await;
            captured.store("token", Secret::new(format!("token-{number}").into_bytes()), life);
            Ok(response(201))
        };
        captured.login("token", [7; 32], seen, Duration::ZERO, ask).await.0.unwrap().status
    }

    #[tokio::test(start_paused = true)]
    async fn a_hundred_calls_that_found_no_token_log_in_once() {
        let (captured, logins) = (Captured::default(), AtomicUsize::new(0));
        let calls = (0..100_u64).map(|i| {
            let (captured, logins) = (&captured, &logins);
            async move {
                let (seen, good) = captured.look("token", None);
                assert!(!good);
                // Some come when the first login is over already.
                tokio::time::sleep(Duration::from_millis(i)).await;
                log_in(captured, logins, seen, None).await
            }
        });
        assert_eq!(join_all(calls).await, vec![201; 100]);
        assert_eq!(logins.load(Ordering::SeqCst), 1);
        assert_eq!(captured.value("token").unwrap().0.expose(), b"token-0");
    }

    #[tokio::test(start_paused = true)]
    async fn a_late_refusal_of_an_old_token_does_not_end_the_new_one() {
        let (captured, logins) = (Captured::default(), AtomicUsize::new(0));
        log_in(&captured, &logins, 0, None).await;
        captured.forget("token", 1);
        assert!(captured.value("token").is_none());
        log_in(&captured, &logins, 1, None).await;
        captured.forget("token", 1);
        assert_eq!(captured.value("token").unwrap().1, 2);
        assert_eq!(captured.values().len(), 2, "the old one is still replaced in answers");
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_is_renewed_before_it_ends_but_not_by_the_call_that_got_it() {
        let (captured, logins) = (Captured::default(), AtomicUsize::new(0));
        log_in(&captured, &logins, 0, Some(Duration::from_secs(3600))).await;
        assert_eq!(captured.look("token", None), (1, true));
        tokio::time::advance(Duration::from_secs(3540)).await;
        assert_eq!(captured.look("token", None), (1, false));
        assert_eq!(captured.look("token", Some(1)), (1, true));
        assert!(captured.value("token").is_some(), "requests under way still use it");
        tokio::time::advance(Duration::from_secs(61)).await;
        assert!(captured.value("token").is_none());
        assert_eq!(captured.look("token", Some(1)), (1, false));
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_login_is_the_answer_of_all_who_waited_for_it_and_of_nobody_later() {
        let (captured, logins) = (Captured::default(), AtomicUsize::new(0));
        let fail = || async {
            logins.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(50)).await;
            Ok(response(401))
        };
        let calls = (0..10).map(|_| captured.login("token", [7; 32], 0, Duration::ZERO, fail));
        assert!(join_all(calls).await.into_iter().all(|(answer, _)| answer.unwrap().status == 401));
        assert_eq!(logins.load(Ordering::SeqCst), 1);
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(captured.login("token", [7; 32], 0, Duration::ZERO, fail).await.0.unwrap().status, 401);
        assert_eq!(logins.load(Ordering::SeqCst), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_login_that_is_cancelled_leaves_the_turn_to_the_next() {
        let (captured, logins) = (Captured::default(), AtomicUsize::new(0));
        let never = captured.login("token", [7; 32], 0, Duration::ZERO, std::future::pending);
        assert!(tokio::time::timeout(Duration::from_millis(10), never).await.is_err());
        assert_eq!(log_in(&captured, &logins, 0, None).await, 201);
    }

    #[tokio::test(start_paused = true)]
    async fn a_young_login_answers_whoever_says_that_it_will_do() {
        let (captured, logins) = (Captured::default(), AtomicUsize::new(0));
        log_in(&captured, &logins, 0, None).await;
        let again = |share| captured.login("token", [7; 32], 1, share, || async { Ok(response(500)) });
        assert_eq!(again(Duration::from_secs(60)).await.0.unwrap().status, 201);
        assert_eq!(again(Duration::ZERO).await.0.unwrap().status, 500);
    }
}
