//! What a provider offers can change while it serves: the answer hangs on the cloud, such as on a service in a catalogue. It is asked again
//! when the cloud answers again, when a credential changes, and when another component serves: one that returns was asked long ago.
//!
//! A question without an answer is asked again with back-off: an exchange may have been the reason, and then nothing recovers. A component
//! that could offer more is asked again now and then: a cloud that gets a service tells nobody.
//!
//! What comes counts at once. What objects depend on stays, as at the gate: a catalogue that lacks a service for a moment would leave all
//! load balancers to nobody.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use ccm_cloud::Capability;
use ccm_sandbox::Provider;
use futures::future::{select, select_all};
use tokio::sync::watch;

use crate::retry::backoff;
use crate::slot::Slot;

/// When a question without an answer is asked again: first, and at most.
const FIRST_RETRY: Duration = Duration::from_secs(5);
const MAX_RETRY: Duration = Duration::from_secs(300);
/// How often a component that could offer more is asked.
const PERIOD: Duration = Duration::from_secs(300);
const ALL: [Capability; 3] = [Capability::LoadBalancers, Capability::Routes, Capability::Cluster];

/// A component that can be asked what it offers.
pub(crate) trait Asked {
    /// Grow when something answers again that did not, or when a credential changes.
    fn recoveries(&self) -> Vec<watch::Receiver<u64>>;

    /// Whether an optional interface works now.
    fn has(&self, capability: Capability) -> bool;

    /// Whether it has an optional interface that does not work now.
    fn lacks(&self) -> bool;

    /// What it offers with its configuration, and the cloud as it is.
    ///
    /// # Errors
    ///
    /// It cannot tell.
    fn ask(&self) -> impl Future<Output = Result<Vec<Capability>>> + Send;

    /// These work from now on.
    fn serve(&self, offers: Vec<Capability>);
}

impl Asked for Provider {
    fn recoveries(&self) -> Vec<watch::Receiver<u64>> {
        self.recoveries()
    }

    fn has(&self, capability: Capability) -> bool {
        self.has(capability)
    }

    fn lacks(&self) -> bool {
        ALL.into_iter().any(|capability| self.could(capability) && !self.has(capability))
    }

    async fn ask(&self) -> Result<Vec<Capability>> {
        self.ask_offers().await?.context("it cannot tell what it offers")
    }

    fn serve(&self, offers: Vec<Capability>) {
        self.serve(offers);
    }
}

/// Asks whoever serves in `slot`. `depends` names an object that needs an interface. Never ends.
pub(crate) async fn follow(source: &str, slot: &Slot<Provider>, depends: impl Fn(Capability) -> Option<String>) {
    follow_all(source, || slot.component(), slot.generations(), || slot.offers_changed(), depends).await;
}

async fn follow_all<P: Asked>(
    source: &str,
    serving: impl Fn() -> Arc<P>,
    mut generations: watch::Receiver<u64>,
    changed: impl Fn(),
    depends: impl Fn(Capability) -> Option<String>,
) {
    generations.borrow_and_update();
    let mut component = serving();
    let mut recoveries = component.recoveries();
    let mut retries = None;
    loop {
        let retry = retries.as_mut().and_then(Iterator::next).or_else(|| component.lacks().then_some(PERIOD));
        let retry = pin!(async {
            match retry {
                Some(delay) => tokio::time::sleep(delay).await,
                None => std::future::pending().await,
            }
        });
        let reasons = recoveries.iter_mut().chain([&mut generations]);
        // An error means that the slot is gone, and so is the process.
        let reason = select_all(reasons.map(|one| Box::pin(one.changed())));
        drop(select(retry, reason).await);
        let now = serving();
        if !Arc::ptr_eq(&now, &component) {
            recoveries = now.recoveries();
            component = now;
        }
        // What recovers or is exchanged during the question is a reason for the next one: these receivers have not seen it.
        match component.ask().await {
            Ok(offers) => {
                retries = None;
                take(source, &*component, offers, &changed, &depends);
            }
            Err(error) => {
                let error = format!("{error:#}");
                tracing::warn!(source, error, "what the provider offers stays as it was; the host asks again");
                retries.get_or_insert_with(|| backoff(FIRST_RETRY, MAX_RETRY));
            }
        }
    }
}

/// This is what it offers now.
fn take<P: Asked>(
    source: &str,
    component: &P,
    mut offers: Vec<Capability>,
    changed: impl Fn(),
    depends: impl Fn(Capability) -> Option<String>,
) {
    for capability in ALL.into_iter().filter(|one| component.has(*one) && !offers.contains(one)).collect::<Vec<_>>() {
        if let Some(object) = depends(capability) {
            let interface = capability.as_str();
            tracing::warn!(
                source,
                interface,
                object,
                "the provider no longer offers what an object depends on; the host keeps it"
            );
            offers.push(capability);
        }
    }
    if ALL.into_iter().all(|one| component.has(one) == offers.contains(&one)) {
        return;
    }
    let interfaces = offers.iter().map(|one| one.as_str()).collect::<Vec<_>>().join(",");
    tracing::info!(source, interfaces, "the provider offers other interfaces");
    component.serve(offers);
    changed();
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::FutureExt as _;
    use parking_lot::Mutex;
    use tokio::sync::Semaphore;

    use super::*;
    use Capability::{Cluster, LoadBalancers};

    /// A component whose cloud comes and goes.
    struct Fake {
        cloud: watch::Sender<u64>,
        /// None: the cloud does not answer.
        answer: Mutex<Option<Vec<Capability>>>,
        offered: Mutex<Vec<Capability>>,
        could: Vec<Capability>,
        asked: AtomicUsize,
        /// Answers come only while there is a permit.
        patience: Semaphore,
    }

    impl Fake {
        /// One that offers all that it could.
        fn new(offers: &[Capability]) -> Arc<Self> {
            Self::that_could(&[], offers)
        }

        fn that_could(could: &[Capability], offers: &[Capability]) -> Arc<Self> {
            Arc::new(Self {
                cloud: watch::Sender::new(0),
                answer: Mutex::new(Some(offers.to_vec())),
                offered: Mutex::new(offers.to_vec()),
                could: could.to_vec(),
                asked: AtomicUsize::new(0),
                patience: Semaphore::new(1),
            })
        }

        /// The cloud answers again, and this is what the component says then.
        fn recover(&self, answer: Option<&[Capability]>) {
            *self.answer.lock() = answer.map(<[Capability]>::to_vec);
            self.cloud.send_modify(|count| *count += 1);
        }
    }

    impl Asked for Fake {
        fn recoveries(&self) -> Vec<watch::Receiver<u64>> {
            vec![self.cloud.subscribe()]
        }

        fn has(&self, capability: Capability) -> bool {
            self.offered.lock().contains(&capability)
        }

        fn lacks(&self) -> bool {
            self.could.iter().any(|capability| !self.has(*capability))
        }

        async fn ask(&self) -> Result<Vec<Capability>> {
            self.asked.fetch_add(1, Ordering::Relaxed);
            let answer = self.answer.lock().clone();
            let _permit = self.patience.acquire().await?;
            answer.context("no answer")
        }

        fn serve(&self, offers: Vec<Capability>) {
            *self.offered.lock() = offers;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_the_cloud_offers_after_a_recovery_counts_and_what_objects_depend_on_stays() {
        let component = Fake::new(&[]);
        let (changes, generations) = (AtomicUsize::new(0), watch::Sender::new(1));
        let depends = |capability| (capability == LoadBalancers).then(|| "Service shop/web".to_owned());
        let changed = || {
            changes.fetch_add(1, Ordering::Relaxed);
        };
        let serving = || Arc::clone(&component);
        let mut following = pin!(follow_all("a.wasm", serving, generations.subscribe(), changed, depends));
        let mut after = |answer: Option<&[Capability]>| {
            assert!(following.as_mut().now_or_never().is_none());
            component.recover(answer);
            assert!(following.as_mut().now_or_never().is_none());
            (component.offered.lock().clone(), changes.load(Ordering::Relaxed))
        };
        assert_eq!(after(Some(&[])), (vec![], 0), "nothing new");
        assert_eq!(after(Some(&[LoadBalancers, Cluster])), (vec![LoadBalancers, Cluster], 1));
        assert_eq!(after(None), (vec![LoadBalancers, Cluster], 1), "no answer is no answer");
        assert_eq!(after(Some(&[Cluster])), (vec![LoadBalancers, Cluster], 1), "a Service depends on it");
        assert_eq!(after(Some(&[LoadBalancers])), (vec![LoadBalancers], 2), "nothing depends on it");
        assert_eq!(component.asked.load(Ordering::Relaxed), 5);
    }

    /// Nothing recovers where nothing was given up: an exchange may have been the reason for the question.
    #[tokio::test(start_paused = true)]
    async fn a_question_without_an_answer_is_asked_again_with_back_off() {
        let component = Fake::new(&[]);
        let generations = watch::Sender::new(1);
        let serving = || Arc::clone(&component);
        let following = follow_all("a.wasm", serving, generations.subscribe(), || {}, |_| None);
        let story = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            component.recover(None);
            tokio::time::sleep(FIRST_RETRY * 2 + FIRST_RETRY * 4).await;
            let asked = component.asked.load(Ordering::Relaxed);
            assert!((2..=4).contains(&asked), "{asked}");
            *component.answer.lock() = Some(vec![LoadBalancers]);
            tokio::time::sleep(FIRST_RETRY * 8).await;
            assert_eq!(*component.offered.lock(), [LoadBalancers]);
            let asked = component.asked.load(Ordering::Relaxed);
            tokio::time::sleep(MAX_RETRY * 3).await;
            assert_eq!(component.asked.load(Ordering::Relaxed), asked, "it has its answer");
        };
        tokio::select! {
            () = following => {}
            () = story => {}
        }
    }

    /// A cloud that gets a service tells nobody.
    #[tokio::test(start_paused = true)]
    async fn a_component_that_could_offer_more_is_asked_every_few_minutes_until_it_does() {
        let component = Fake::that_could(&[LoadBalancers], &[]);
        let generations = watch::Sender::new(1);
        let serving = || Arc::clone(&component);
        let following = follow_all("a.wasm", serving, generations.subscribe(), || {}, |_| None);
        let story = async {
            let asked = || component.asked.load(Ordering::Relaxed);
            tokio::time::sleep(PERIOD - Duration::from_secs(1)).await;
            assert_eq!(asked(), 0);
            tokio::time::sleep(PERIOD).await;
            assert_eq!((asked(), component.offered.lock().clone()), (1, vec![]), "its cloud has none");
            *component.answer.lock() = Some(vec![LoadBalancers]);
            tokio::time::sleep(PERIOD).await;
            assert_eq!((asked(), component.offered.lock().clone()), (2, vec![LoadBalancers]));
            tokio::time::sleep(PERIOD * 5).await;
            assert_eq!(asked(), 2, "there is nothing more");
        };
        tokio::select! {
            () = following => {}
            () = story => {}
        }
    }

    #[test]
    fn what_recovers_or_is_exchanged_during_a_question_is_a_reason_for_the_next_one() {
        for is_exchanged in [false, true] {
            let (one, other) = (Fake::new(&[]), Fake::new(&[]));
            let serving = Mutex::new(Arc::clone(&one));
            let generations = watch::Sender::new(1);
            let of = || Arc::clone(&serving.lock());
            let mut following = pin!(follow_all("a.wasm", of, generations.subscribe(), || {}, |_| None));
            assert!(following.as_mut().now_or_never().is_none());
            one.patience.forget_permits(1);
            one.recover(Some(&[]));
            assert!(following.as_mut().now_or_never().is_none());
            assert_eq!(one.asked.load(Ordering::Relaxed), 1, "the answer is on its way");
            let next = if is_exchanged { &other } else { &one };
            *serving.lock() = Arc::clone(next);
            if is_exchanged {
                *next.answer.lock() = Some(vec![LoadBalancers]);
                generations.send_modify(|generation| *generation += 1);
            } else {
                next.recover(Some(&[LoadBalancers]));
            }
            one.patience.add_permits(1);
            assert!(following.as_mut().now_or_never().is_none());
            assert_eq!(*next.offered.lock(), [LoadBalancers], "{is_exchanged}");
        }
    }

    #[test]
    fn whoever_serves_after_an_exchange_is_asked_again() {
        let (one, other) = (Fake::new(&[]), Fake::new(&[]));
        let serving = Mutex::new(Arc::clone(&one));
        let (changes, generations) = (AtomicUsize::new(0), watch::Sender::new(1));
        let changed = || {
            changes.fetch_add(1, Ordering::Relaxed);
        };
        let of = || Arc::clone(&serving.lock());
        let mut following = pin!(follow_all("a.wasm", of, generations.subscribe(), changed, |_| None));
        assert!(following.as_mut().now_or_never().is_none());
        // It was asked at the gate, when its cloud had less.
        *other.answer.lock() = Some(vec![LoadBalancers]);
        *serving.lock() = Arc::clone(&other);
        generations.send_modify(|generation| *generation += 1);
        assert!(following.as_mut().now_or_never().is_none());
        assert_eq!((other.offered.lock().clone(), changes.load(Ordering::Relaxed)), (vec![LoadBalancers], 1));
        // What recovers from now on is that of the other one.
        one.recover(Some(&[Cluster]));
        other.recover(Some(&[]));
        assert!(following.as_mut().now_or_never().is_none());
        assert_eq!((one.asked.load(Ordering::Relaxed), other.asked.load(Ordering::Relaxed)), (0, 2));
        assert_eq!(other.offered.lock().clone(), []);
    }
}
