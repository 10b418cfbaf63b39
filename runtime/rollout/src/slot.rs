//! A slot holds the component of a provider. Controllers hold the slot, so that the component can be exchanged while they work.
//!
//! | promise | how |
//! |---|---|
//! | a piece of work begins and ends with one component | whoever works takes a [`Handle`] once, which holds the component of that moment, and its witness while it is on probation |
//! | the old component is freed when its last call ends | nobody else holds it, once the new one is proven |
//! | a new component that is broken goes | it is on probation against the proven one, see [`ProbationSettings`] and [`state`] |
//! | no Node, load balancer or route is deleted or made a second time on its word alone, and no Node gets a provider ID | the proven one is asked before and afterwards, see [`handle`], [`balancers`] and [`routes`] |
//! | nobody is told twice, or of what is not so | every change of the one state is told once and in order: [`News`] |

mod balancers;
mod handle;
mod probation;
pub(crate) mod refusals;
mod routes;
pub(crate) mod state;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ccm_cloud::{Capability, LoadBalancerSource, LoadBalancers};
use ccm_egress::SourceState;
use futures::StreamExt as _;
use futures::stream::{select_all, unfold};
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use handle::Handle;
pub use probation::ProbationSettings;
pub(crate) use refusals::{Refusal, Refusals};

use crate::component::Component;
use crate::release::{Release, Version};
use probation::Probation;
pub(crate) use state::SlotStanding;
use state::{Event, Reconfigured, SlotState, Transition};

/// What is told of a slot, each once and in order.
#[derive(Debug)]
pub(crate) enum News {
    /// The components stand in another way, which is this one.
    Changed(Transition, SlotStanding<Arc<Version>>),
    /// From the exchange to the end of the first call that began on the new component.
    FirstCall(Duration),
    /// The credentials of whoever serves, and whether their sources can be read, as long as somebody runs
    /// [`Slot::follow_credentials`].
    Sources(Vec<SourceState>),
}

/// Who serves since an exchange. Calls that began on it hold it until they end.
struct Serving<C> {
    release: Release<C>,
    generation: u64,
    /// None: it is proven.
    probation: Option<Probation<C>>,
    since: Instant,
    /// Whether a call that began on it has ended.
    called: AtomicBool,
    /// Whether it failed its probation, or the proven one was put back.
    is_taken_back: CancellationToken,
}

struct State<C> {
    components: SlotState<C>,
    serving: Arc<Serving<C>>,
}

struct Shared<C> {
    state: Mutex<State<C>>,
    settings: ProbationSettings,
    generation: watch::Sender<u64>,
    doubts: watch::Sender<u64>,
    recovered: watch::Sender<u64>,
    offers: watch::Sender<u64>,
    news: mpsc::UnboundedSender<News>,
}

/// Holds the components of one source. Cheap to clone.
pub struct Slot<C>(Arc<Shared<C>>);

impl<C> Clone for Slot<C> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<C: Component> Slot<C> {
    /// A slot with its first component, and what is told of it. `refused` are not taken.
    pub(crate) fn new(
        first: Release<C>,
        refused: Refusals,
        settings: ProbationSettings,
    ) -> (Self, mpsc::UnboundedReceiver<News>) {
        let (news, told) = mpsc::unbounded_channel();
        let components = SlotState::new(first, refused);
        let serving = Self::serving_of(components.standing(), settings, None);
        let state = Mutex::new(State { components, serving });
        let [generation, doubts, recovered, offers] = <[watch::Sender<u64>; 4]>::default();
        (Self(Arc::new(Shared { state, settings, generation, doubts, recovered, offers, news })), told)
    }

    /// `before`: the same component with another configuration, so that work which began with that ends with this.
    fn serving_of(
        standing: &SlotStanding<Release<C>>,
        settings: ProbationSettings,
        before: Option<&Serving<C>>,
    ) -> Arc<Serving<C>> {
        let begin = |candidate: &Release<C>| {
            Probation::begin(settings, Arc::clone(&standing.proven.component), &*candidate.component, standing.is_apart)
        };
        Arc::new(Serving {
            release: standing.serving().clone(),
            generation: standing.generation,
            probation: standing.candidate.as_ref().map(begin),
            since: Instant::now(),
            called: AtomicBool::new(false),
            is_taken_back: before.map(|before| before.is_taken_back.clone()).unwrap_or_default(),
        })
    }

    /// The component of the moment, for one piece of work.
    #[must_use]
    pub fn handle(&self) -> Handle<C> {
        let serving = Arc::clone(&self.0.state.lock().serving);
        Handle { slot: self.clone(), serving }
    }

    /// The component of the moment.
    #[must_use]
    pub fn component(&self) -> Arc<C> {
        Arc::clone(&self.0.state.lock().serving.release.component)
    }

    /// How the components stand.
    #[must_use]
    pub fn standing(&self) -> SlotStanding<Arc<Version>> {
        self.0.state.lock().components.standing().versions()
    }

    /// The same, with what answers.
    pub(crate) fn components(&self) -> SlotStanding<Release<C>> {
        self.0.state.lock().components.standing().clone()
    }

    /// Grows whenever another component serves, or those that stand so have another configuration.
    #[must_use]
    pub fn generations(&self) -> watch::Receiver<u64> {
        self.0.generation.subscribe()
    }

    /// Grows when what a component wrote is in doubt from now on without an exchange: another replica refused one that is not on probation
    /// here.
    #[must_use]
    pub fn doubts(&self) -> watch::Receiver<u64> {
        self.0.doubts.subscribe()
    }

    /// Grows when a component is proven, and when something answers again that did not, or when credentials are others:
    /// [`Component::recoveries`] of whoever serves, as long as somebody runs [`Slot::follow`].
    #[must_use]
    pub fn recoveries(&self) -> watch::Receiver<u64> {
        self.0.recovered.subscribe()
    }

    /// Whether an optional interface works now.
    #[must_use]
    pub fn has(&self, capability: Capability) -> bool {
        self.component().has(capability)
    }

    /// Grows when other optional interfaces [work](Self::has) than before, with the same component.
    #[must_use]
    pub fn offers(&self) -> watch::Receiver<u64> {
        self.0.offers.subscribe()
    }

    /// Whoever serves offers something else now.
    pub(crate) fn offers_changed(&self) {
        grow(&self.0.offers);
    }

    /// Passes on what recovers, and ends a probation in time. Never ends.
    pub async fn follow(&self) {
        let mut generations = self.generations();
        loop {
            let component = self.component();
            tokio::select! {
                () = self.pass_on(component.recoveries()) => {}
                () = self.end_probations() => {}
                _ = generations.changed() => {}
            }
        }
    }

    /// A probation whose time is over ends, though nobody asks its component anything then. Never ends.
    async fn end_probations(&self) {
        loop {
            let serving = Arc::clone(&self.0.state.lock().serving);
            let Some(probation) = &serving.probation else { break };
            self.decide(&serving);
            let left = Some(probation.time_left()).filter(|left| !left.is_zero());
            let wait = left.unwrap_or_else(|| self.0.settings.time.max(Duration::from_secs(1)));
            drop(serving);
            tokio::time::sleep(wait).await;
        }
        std::future::pending().await
    }

    /// Never ends.
    async fn pass_on(&self, recoveries: Vec<watch::Receiver<u64>>) {
        let next = |mut one: watch::Receiver<u64>| async move { one.changed().await.ok().map(|()| ((), one)) };
        let mut all = select_all(recoveries.into_iter().map(|one| Box::pin(unfold(one, next))));
        while all.next().await.is_some() {
            grow(&self.0.recovered);
        }
        std::future::pending().await
    }

    /// Notices other credentials of whoever serves ([`Component::follow_credentials`]), and tells whether they can be read
    /// ([`News::Sources`]). Never ends.
    pub(crate) async fn follow_credentials(&self) {
        let mut generations = self.generations();
        loop {
            let component = self.component();
            tokio::select! {
                () = component.follow_credentials() => {}
                () = self.tell_sources(component.credential_sources()) => {}
                _ = generations.changed() => {}
            }
        }
    }

    /// Never ends.
    async fn tell_sources(&self, mut sources: watch::Receiver<Vec<SourceState>>) {
        loop {
            let now = sources.borrow_and_update().clone();
            drop(self.0.news.send(News::Sources(now)));
            if sources.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    /// Puts a component that passed the gate into the slot, on probation; the proven one returns to its place at once. Calls that have
    /// begun end on the component that they began on. Returns how long others had to wait for it; none when nothing changes.
    ///
    /// `against`: digest of the one that it was compared with. Where another one is proven by now, nothing changes: that one may offer what
    /// this one does not, and find what it does not. `is_apart`: it has a configuration that the proven one cannot do with, and no
    /// difference between the two is held against it.
    pub(crate) fn put_against(&self, against: &str, release: Release<C>, is_apart: bool) -> Option<Duration> {
        self.apply(Some(against), Event::Taken { release, is_apart })
    }

    /// Puts the component with this digest back if it is the proven one still. Returns whether it serves then.
    pub(crate) fn put_back(&self, digest: &str) -> bool {
        self.apply(None, Event::PutBack(digest.to_owned()));
        self.standing().serving().digest == digest
    }

    /// Gives those who stand so since `generation` another configuration that passed the gate; calls that have begun end with the old one.
    /// Returns how long others had to wait for it; none when somebody else serves meanwhile.
    pub(crate) fn configure(&self, generation: u64, with: Reconfigured<C>) -> Option<Duration> {
        self.apply(None, Event::Configured(generation, with))
    }

    /// Another replica refused this one.
    pub(crate) fn peer_refused(&self, refusal: Refusal) {
        self.apply(None, Event::PeerRefused(refusal));
    }

    /// The component with this digest has proved itself at another replica.
    pub(crate) fn peer_proved(&self, digest: &str) {
        self.apply(None, Event::PeerProved(digest.to_owned()));
    }

    /// All changes of the state come along here. `against`: nothing happens where the one with this digest is not the proven one any more.
    fn apply(&self, against: Option<&str>, event: Event<C>) -> Option<Duration> {
        let begun = Instant::now();
        let mut state = self.0.state.lock();
        if against.is_some_and(|digest| !state.components.standing().proven.is(digest)) {
            return None;
        }
        let doubts = state.components.doubts();
        let transition = state.components.apply(event);
        let doubts_now = state.components.doubts();
        let standing = state.components.standing();
        let next = match &transition {
            // One that is contested goes on, and so does a probation.
            None | Some(Transition::Contested { .. }) => None,
            Some(transition) => {
                if let Transition::Returned { .. } | Transition::Withdrawn { .. } = transition {
                    // What it knew of the cloud is older than what the other one did there.
                    standing.proven.component.forget();
                    state.serving.is_taken_back.cancel();
                }
                let same = Some(&*state.serving).filter(|_| matches!(transition, Transition::Configured));
                Some(Self::serving_of(standing, self.0.settings, same))
            }
        };
        let is_exchange = transition.as_ref().is_some_and(Transition::is_exchange);
        let is_proven = matches!(transition, Some(Transition::Proven));
        if let Some(transition) = transition {
            // Under the lock, so that changes are told in their order. An error means that nobody listens.
            drop(self.0.news.send(News::Changed(transition, standing.versions())));
        }
        let before = next.map(|next| std::mem::replace(&mut state.serving, next));
        drop(state);
        let took = begun.elapsed();
        if is_exchange {
            grow(&self.0.generation);
        } else if doubts_now != doubts {
            // Who wakes for an exchange needs no second call.
            grow(&self.0.doubts);
        }
        if is_proven {
            // New Nodes wait for it where the last good one did not confirm their provider IDs.
            grow(&self.0.recovered);
        }
        // Freed here, after the lock: to unmap the code of a component takes its time.
        before.map(|_| took)
    }

    /// A call that began on `serving` has ended: notes the first one, and looks whether its probation is over.
    fn judge(&self, serving: &Serving<C>) {
        if serving.probation.is_none() {
            return;
        }
        if !serving.called.load(Ordering::Relaxed) && !serving.called.swap(true, Ordering::Relaxed) {
            drop(self.0.news.send(News::FirstCall(serving.since.elapsed())));
        }
        self.decide(serving);
    }

    fn decide(&self, serving: &Serving<C>) {
        let judged = serving.probation.as_ref().and_then(|one| one.verdict(&*serving.release.component));
        if let Some(verdict) = judged {
            self.apply(None, Event::Judged(serving.generation, verdict));
        }
    }
}

/// Wakes whoever waits for this to grow.
fn grow(count: &watch::Sender<u64>) {
    count.send_modify(|count| *count = count.wrapping_add(1));
}

impl<C: Component> LoadBalancerSource for Slot<C> {
    fn load_balancers(&self) -> Arc<dyn LoadBalancers> {
        Arc::new(self.handle())
    }

    fn is_taken_back(&self, component: &str) -> bool {
        self.0.state.lock().components.is_taken_back(component)
    }

    fn is_on_probation(&self) -> bool {
        self.0.state.lock().components.standing().is_on_probation()
    }
}
