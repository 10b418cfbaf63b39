//! Who computes: calls of one provider take turns, so that a crowd of them does not keep the threads of the process from everybody else.
//!
//! A call computes only with a place. There is one place more than calls that may compute for long: those take all others, and a short call
//! has that one, with at most a tick to wait for it.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::yield_now;

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
}

impl Turn {
    /// Waits until the call may compute.
    pub(crate) async fn take(&self) {
        if self.held.lock().place.is_some() {
            return;
        }
        if let Ok(place) = Arc::clone(&self.turns.places).try_acquire_owned() {
            self.held.lock().place = Some(place);
            return;
        }
        // An error means that the semaphore is closed, which nobody does.
        if let Ok(place) = Arc::clone(&self.turns.places).acquire_owned().await {
            self.held.lock().place = Some(place);
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
        outcome
    }

    fn give_way(&self) {
        *self.held.lock() = Held::default();
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

    #[tokio::test]
    async fn no_calls_for_long_count_as_one() {
        let call = Turns::new(0).call();
        call.take().await;
        call.pass_on().await;
    }
}
