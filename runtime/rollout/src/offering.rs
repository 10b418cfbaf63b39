//! Controllers that work only with providers that have an optional interface. A component that comes may bring the interface, or take
//! it along: then the controller ends as it does with the process, and begins anew with the providers of that moment. What must not be
//! forgotten with it is for whoever starts it to hand on.

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use ccm_cloud::Capability;
use ccm_controllers::GivenUp;
use futures::future::select_all;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::ProviderSlot;

/// A provider whose optional interfaces come and go with its component.
pub trait Offering {
    /// Whether an optional interface works now.
    fn has(&self, capability: Capability) -> bool;

    /// Grow whenever another component serves, or the one that serves offers something else.
    fn changes(&self) -> Vec<watch::Receiver<u64>>;

    /// Who the provider is.
    fn name(&self) -> String;

    /// How long one of its calls may take.
    fn call_time(&self) -> Duration;
}

/// With the load balancer classes that it serves.
impl Offering for (ProviderSlot, Vec<String>) {
    fn has(&self, capability: Capability) -> bool {
        self.0.has(capability)
    }

    fn changes(&self) -> Vec<watch::Receiver<u64>> {
        vec![self.0.generations(), self.0.offers()]
    }

    fn name(&self) -> String {
        self.0.component().descriptor().name.clone()
    }

    fn call_time(&self) -> Duration {
        self.0.component().call_time()
    }
}

/// Those that offer an interface, by their places among all that are configured: a place is the same whoever else has the interface.
pub type Offerers<P> = BTreeMap<usize, P>;

/// Calls `change` with the providers that have the interface, at once and whenever these are others. Never ends.
pub async fn follow<P: Offering + Clone>(providers: &[P], capability: Capability, mut change: impl FnMut(Offerers<P>)) {
    let mut changes: Vec<_> = providers.iter().flat_map(Offering::changes).collect();
    let mut told = None;
    loop {
        changes.iter_mut().for_each(|one| drop(one.borrow_and_update()));
        let able: Vec<bool> = providers.iter().map(|provider| provider.has(capability)).collect();
        if told.as_ref() != Some(&able) {
            let chosen = providers.iter().enumerate().zip(&able).filter(|(_, able)| **able);
            change(chosen.map(|((place, provider), _)| (place, provider.clone())).collect());
            told = Some(able);
        }
        if changes.is_empty() {
            return std::future::pending().await;
        }
        // An error means that the slot is gone, and so is the process.
        drop(select_all(changes.iter_mut().map(|one| Box::pin(one.changed()))).await);
    }
}

/// Runs the controller that `start` makes of the providers with the interface, until `stop`.
///
/// # Errors
///
/// Not all of its work ended with `stop`, or what it had given up just before may still take effect.
pub async fn run<P, W>(
    providers: Vec<P>,
    capability: Capability,
    stop: CancellationToken,
    start: impl Fn(Offerers<P>, CancellationToken) -> W,
) -> Result<(), GivenUp>
where
    P: Offering + Clone,
    W: Future<Output = Result<(), GivenUp>>,
{
    let (others, mut next) = watch::channel(None);
    let following = follow(&providers, capability, |able| drop(others.send_replace(Some(able))));
    let working = async {
        loop {
            let Some(able) = next.borrow_and_update().clone() else {
                // The sender lives as long as this.
                drop(next.changed().await);
                continue;
            };
            let names: Vec<_> = able.values().map(Offering::name).collect();
            tracing::info!(interface = capability.as_str(), providers = names.join(","), "controller begins");
            let call_time = able.values().map(Offering::call_time).max().unwrap_or_default();
            let ending = stop.child_token();
            let mut work = pin!(start(able, ending.clone()));
            tokio::select! {
                ended = &mut work => return ended,
                _ = next.changed() => ending.cancel(),
            }
            let ended = work.await;
            if stop.is_cancelled() {
                return ended;
            }
            if let Err(given_up) = ended {
                // What it has sent may still take effect: who began at once might not see that.
                tracing::warn!(%given_up, wait = ?call_time, "controller begins anew when its calls are over");
                let waiting = tokio::time::sleep(call_time.max(Duration::from_secs(1)));
                if stop.run_until_cancelled(waiting).await.is_none() {
                    return Err(given_up);
                }
            }
        }
    };
    tokio::select! {
        ended = working => ended,
        () = following => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use futures::FutureExt as _;
    use futures::future::BoxFuture;
    use parking_lot::Mutex;
    use tokio::time::{Instant, sleep};

    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const S: Duration = Duration::from_secs(1);

    /// A provider whose component may be exchanged.
    #[derive(Clone)]
    struct Fake {
        name: &'static str,
        has: Arc<AtomicBool>,
        generation: Arc<watch::Sender<u64>>,
    }

    impl Fake {
        fn new(name: &'static str, has: bool) -> Self {
            Self { name, has: Arc::new(AtomicBool::new(has)), generation: Arc::new(watch::Sender::new(1)) }
        }

        fn exchange(&self, has: bool) {
            self.has.store(has, Ordering::SeqCst);
            self.generation.send_modify(|generation| *generation += 1);
        }
    }

    impl Offering for Fake {
        fn has(&self, capability: Capability) -> bool {
            capability == Capability::LoadBalancers && self.has.load(Ordering::SeqCst)
        }

        fn changes(&self) -> Vec<watch::Receiver<u64>> {
            vec![self.generation.subscribe()]
        }

        fn name(&self) -> String {
            self.name.to_owned()
        }

        fn call_time(&self) -> Duration {
            90 * S
        }
    }

    /// What becomes of controllers, and at which second.
    #[derive(Clone)]
    struct Notes {
        since: Instant,
        lines: Arc<Mutex<Vec<String>>>,
    }

    impl Notes {
        fn new() -> Self {
            Self { since: Instant::now(), lines: Arc::default() }
        }

        fn seconds(&self) -> u64 {
            self.since.elapsed().as_secs()
        }

        fn add(&self, names: &str, what: &str) {
            self.lines.lock().push(format!("{}: {names} {what}", self.seconds()));
        }

        fn lines(&self) -> Vec<String> {
            self.lines.lock().clone()
        }

        /// Starts controllers that take a second to end, and then have given up so many runs.
        fn controllers(
            &self,
            runs: usize,
        ) -> impl Fn(Offerers<Fake>, CancellationToken) -> BoxFuture<'static, Result<(), GivenUp>> + use<> {
            let notes = self.clone();
            move |able, stop| {
                let notes = notes.clone();
                let names = able.values().map(|provider| provider.name).collect::<Vec<_>>().join("+");
                Box::pin(async move {
                    notes.add(&names, "begins");
                    stop.cancelled().await;
                    sleep(S).await;
                    notes.add(&names, "ends");
                    if runs == 0 { Ok(()) } else { Err(given_up(runs)) }
                })
            }
        }
    }

    fn given_up(runs: usize) -> GivenUp {
        GivenUp { queue: "service", runs }
    }

    /// One has the interface, and another one will.
    fn providers() -> Vec<Fake> {
        vec![Fake::new("one", true), Fake::new("two", false)]
    }

    #[tokio::test(start_paused = true)]
    async fn an_exchange_ends_the_controller_and_the_next_one_begins_when_it_has_ended() {
        let (providers, notes, stop) = (providers(), Notes::new(), CancellationToken::new());
        let story = async {
            sleep(10 * S).await;
            providers[1].exchange(true);
            sleep(10 * S).await;
            providers[0].exchange(true);
            sleep(10 * S).await;
            stop.cancel();
        };
        let running = run(providers.clone(), Capability::LoadBalancers, stop.clone(), notes.controllers(0));
        let (ended, ()) = tokio::join!(running, story);
        assert_eq!(ended, Ok(()));
        assert_eq!(notes.lines(), ["0: one begins", "11: one ends", "11: one+two begins", "31: one+two ends"]);
    }

    /// Who made a load balancer at once might make it a second time: what was sent before is not there yet.
    #[tokio::test(start_paused = true)]
    async fn after_work_that_was_given_up_the_next_controller_begins_when_its_calls_are_over() {
        let (providers, notes, stop) = (providers(), Notes::new(), CancellationToken::new());
        let story = async {
            sleep(10 * S).await;
            providers[1].exchange(true);
            sleep(40 * S).await;
            providers[0].exchange(false);
            sleep(150 * S).await;
            stop.cancel();
        };
        let running = run(providers.clone(), Capability::LoadBalancers, stop.clone(), notes.controllers(2));
        let (ended, ()) = tokio::join!(running, story);
        assert_eq!(ended, Err(given_up(2)));
        assert_eq!(notes.lines(), ["0: one begins", "11: one ends", "101: two begins", "201: two ends"]);
    }

    /// Who leads next waits for what was given up, and has to hear of it.
    #[tokio::test(start_paused = true)]
    async fn whoever_is_stopped_between_two_controllers_begins_no_other_and_says_what_was_given_up() {
        let rows = [(0, 500 * MS, Ok(()), 11), (2, 500 * MS, Err(given_up(2)), 11), (2, 40 * S, Err(given_up(2)), 50)];
        for (runs, after, wanted, second) in rows {
            let (providers, notes, stop) = (providers(), Notes::new(), CancellationToken::new());
            let story = async {
                sleep(10 * S).await;
                providers[1].exchange(true);
                sleep(after).await;
                stop.cancel();
            };
            let running = run(providers.clone(), Capability::LoadBalancers, stop.clone(), notes.controllers(runs));
            let (ended, ()) = tokio::join!(running, story);
            assert_eq!((ended, notes.seconds()), (wanted, second), "{runs} given up, stopped after {after:?}");
            assert_eq!(notes.lines(), ["0: one begins", "11: one ends"], "{runs} given up, stopped after {after:?}");
        }
    }

    #[tokio::test]
    async fn only_an_exchange_that_brings_the_interface_or_takes_it_along_begins_anew() {
        let providers = [Fake::new("one", true), Fake::new("two", false)];
        let seen = Mutex::new(vec![]);
        let note = |able: Offerers<Fake>| {
            let names: Vec<_> = able.iter().map(|(place, provider)| format!("{place} {}", provider.name)).collect();
            seen.lock().push(names.join("+"));
        };
        let mut following = pin!(follow(&providers, Capability::LoadBalancers, note));
        let mut after = |exchange: &dyn Fn()| {
            exchange();
            assert!(following.as_mut().now_or_never().is_none());
            std::mem::take(&mut *seen.lock())
        };
        assert_eq!(after(&|| {}), ["0 one"]);
        assert_eq!(after(&|| providers[0].exchange(true)), [""; 0]);
        assert_eq!(after(&|| providers[1].exchange(true)), ["0 one+1 two"]);
        assert_eq!(after(&|| providers[0].exchange(false)), ["1 two"]);
        assert_eq!(after(&|| providers[1].exchange(false)), [""]);
    }

    #[tokio::test]
    async fn without_a_provider_nothing_is_awaited() {
        let following = follow(&[] as &[Fake], Capability::Cluster, |able| assert!(able.is_empty()));
        assert!(following.now_or_never().is_none());
    }
}
