//! Who computes: calls of one provider take turns, so that a crowd of them does not keep the threads of the process from everybody else.
//!
//! A call computes only with a place. There is one place more than calls that may compute for long: those take all others, and a short call
//! has that one, with at most a tick to wait for it.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::yield_now;
use tokio::time::Instant;

use crate::epoch::TICK;

/// Who has had its place for less has not computed for a tick, whatever the clock says.
const BRIEF: Duration = TICK.checked_div(2).expect("two is not zero");

/// What the calls of a provider share.
#[derive(Clone)]
pub(crate) struct Turns {
    /// To compute at all.
    places: Arc<Semaphore>,
    /// To compute beyond the first tick.
    long: Arc<Semaphore>,
}

impl Turns {
    /// `busy_calls` as in [`Limits`](crate::Limits). With none, a call that takes longer than a tick would never end.
    pub(crate) fn new(busy_calls: usize) -> Self {
        let long = busy_calls.clamp(1, Semaphore::MAX_PERMITS - 1);
        Self { places: Arc::new(Semaphore::new(long + 1)), long: Arc::new(Semaphore::new(long)) }
    }

    /// For a call, which does not compute yet.
    pub(crate) fn call(&self) -> Turn {
        Turn { turns: self.clone(), held: Arc::default() }
    }
}

/// The turn of one call.
#[derive(Clone)]
pub(crate) struct Turn {
    turns: Turns,
    held: Arc<Mutex<Held>>,
}

#[derive(Default)]
struct Held {
    place: Option<OwnedSemaphorePermit>,
    long: Option<OwnedSemaphorePermit>,
    /// When the place was taken, as long as no tick was counted since.
    since: Option<Instant>,
    /// The next tick may be one that passed before the place was taken.
    is_fresh: bool,
    /// What was computed before a wait without a tick that was counted.
    brief: Duration,
}

impl Held {
    fn take(&mut self, place: OwnedSemaphorePermit) {
        self.place = Some(place);
        self.since = Some(Instant::now());
    }

    fn give_way(&mut self) {
        let computed = self.since.take().map(|since| since.elapsed()).unwrap_or_default();
        self.brief = self.brief.saturating_add(computed);
        self.place = None;
        self.long = None;
    }
}

impl Turn {
    /// Waits until the call may compute, for the first time.
    pub(crate) async fn begin(&self) {
        self.waiting(async {}).await;
    }

    /// Waits until the call may compute.
    async fn take(&self) {
        if self.held.lock().place.is_some() {
            return;
        }
        if let Ok(place) = Arc::clone(&self.turns.places).try_acquire_owned() {
            self.held.lock().take(place);
            return;
        }
        // An error means that the semaphore is closed, which nobody does.
        if let Ok(place) = Arc::clone(&self.turns.places).acquire_owned().await {
            self.held.lock().take(place);
            // As in `pass_on`: in a crowd of short calls, each wakes the next one, and the runtime would not look at its sockets before it
            // has polled 61 of them.
            yield_now().await;
        }
    }

    /// Lets others compute while the call waits for `work`.
    pub(crate) async fn waiting<T>(&self, work: impl Future<Output = T>) -> T {
        self.give_way();
        let outcome = work.await;
        self.take().await;
        self.held.lock().is_fresh = true;
        outcome
    }

    fn give_way(&self) {
        self.held.lock().give_way();
    }

    /// What the call has computed between waits that were so short that no tick was counted.
    pub(crate) fn brief(&self) -> Duration {
        self.held.lock().brief
    }

    /// At a tick: whether it passed while the call waited, and not while it computed. wasmtime's clock goes on meanwhile, so a guest that has just
    /// come back finds its deadline behind it.
    pub(crate) fn ticked_before(&self) -> bool {
        let mut held = self.held.lock();
        let is_before = held.is_fresh && held.since.is_some_and(|since| since.elapsed() < BRIEF);
        held.is_fresh = false;
        if !is_before {
            held.since = None;
        }
        is_before
    }

    /// After a tick: lets others compute, and waits until this call may go on.
    pub(crate) async fn pass_on(self) {
        self.held.lock().place = None;
        // A waker that is called at once would put the call back before the runtime has looked at its timers and sockets, which it
        // does only every so many turns: of 10 ms each, when guests compute on all of its threads. tokio's own yield looks first.
        yield_now().await;
        if self.held.lock().long.is_none()
            && let Ok(long) = Arc::clone(&self.turns.long).acquire_owned().await
        {
            self.held.lock().long = Some(long);
        }
        self.take().await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::UnixStream;
    use tokio::task::JoinSet;

    use super::*;

    /// How many more are done once nobody has anything to do.
    async fn done(calls: &mut JoinSet<()>) -> usize {
        for _ in 0..100 {
            yield_now().await;
        }
        std::iter::from_fn(|| calls.try_join_next()).count()
    }

    #[tokio::test]
    async fn of_a_crowd_one_more_computes_than_may_compute_for_long() {
        let turns = Turns::new(1);
        let crowd: Vec<Turn> = (0..32).map(|_| turns.call()).collect();
        let mut begun: JoinSet<()> = crowd.iter().cloned().map(|call| async move { call.take().await }).collect();
        assert_eq!(done(&mut begun).await, 2);
        crowd[0].give_way();
        assert_eq!(done(&mut begun).await, 1, "the next in the line");
    }

    #[tokio::test]
    async fn a_short_call_waits_for_no_long_one() {
        let turns = Turns::new(1);
        let long = |call: Turn| async move {
            call.take().await;
            call.pass_on().await;
        };
        let crowd: Vec<Turn> = (0..8).map(|_| turns.call()).collect();
        let mut computing: JoinSet<()> = crowd.iter().cloned().map(long).collect();
        assert_eq!(done(&mut computing).await, 1);
        turns.call().take().await;
    }

    #[tokio::test]
    async fn who_waits_lets_others_compute_and_waits_for_a_place_afterwards() {
        let turns = Turns::new(1);
        let [waiter, first, second] = [turns.call(), turns.call(), turns.call()];
        waiter.take().await;
        first.take().await;
        let mut waiting = JoinSet::new();
        // The second has its place then.
        waiting.spawn(async move { waiter.waiting(second.take()).await });
        assert_eq!(done(&mut waiting).await, 0);
        first.give_way();
        assert_eq!(done(&mut waiting).await, 1);
    }

    /// Each call that ended woke the next one of the crowd, so there was always something to do: what others had waited for at a socket was
    /// seen only after 61 of those.
    #[tokio::test]
    async fn a_crowd_of_short_calls_keeps_no_socket_waiting() {
        let turns = Turns::new(1);
        let (mut asks, mut answers) = UnixStream::pair().unwrap();
        let taken = Arc::new(AtomicUsize::new(0));
        let crowd = (0..8).map(|_| {
            let (call, taken) = (turns.call(), Arc::clone(&taken));
            async move {
                while taken.load(Ordering::Relaxed) < 1_000 {
                    call.take().await;
                    taken.fetch_add(1, Ordering::Relaxed);
                    call.give_way();
                }
            }
        });
        let computing = [turns.call(), turns.call()];
        for call in &computing {
            call.take().await;
        }
        let mut crowd: JoinSet<()> = crowd.collect();
        assert_eq!(done(&mut crowd).await, 0, "all of them wait");
        computing[0].give_way();
        for _ in 0..4 {
            asks.write_all(b"?").await.unwrap();
            let before = taken.load(Ordering::Relaxed);
            answers.read_exact(&mut [0]).await.unwrap();
            let meanwhile = taken.load(Ordering::Relaxed) - before;
            assert!(meanwhile <= 8, "{meanwhile} turns were taken before anybody looked at the socket");
        }
    }

    /// Each answer of a cloud that took longer than a tick counted as a tick of computing, and the call had to wait for those that compute.
    #[tokio::test(start_paused = true)]
    async fn a_tick_that_passed_while_a_call_waited_is_none_of_its_own() {
        let call = Turns::new(1).call();
        for _ in 0..3 {
            call.waiting(tokio::time::sleep(TICK * 5)).await;
            assert!(call.ticked_before());
            tokio::time::advance(TICK).await;
            assert!(!call.ticked_before(), "one that it computed through");
        }
        assert_eq!(call.brief(), Duration::ZERO);
        tokio::time::advance(TICK).await;
        call.waiting(async {}).await;
        assert_eq!(call.brief(), Duration::ZERO, "it was counted as ticks");
        tokio::time::advance(BRIEF).await;
        assert!(!call.ticked_before(), "it may have passed meanwhile");
    }

    /// A guest that waits before each tick is over would compute for nothing.
    #[tokio::test(start_paused = true)]
    async fn what_is_computed_between_waits_is_counted_without_ticks() {
        let call = Turns::new(1).call();
        call.take().await;
        for _ in 0..10 {
            tokio::time::advance(TICK - Duration::from_millis(1)).await;
            call.waiting(tokio::time::sleep(TICK * 5)).await;
            call.ticked_before();
        }
        assert_eq!(call.brief(), Duration::from_millis(90));
    }

    #[tokio::test]
    async fn no_calls_for_long_count_as_one() {
        let call = Turns::new(0).call();
        call.take().await;
        call.pass_on().await;
    }
}
