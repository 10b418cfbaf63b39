//! A slot holds the component of a provider. Controllers hold the slot, so that the component can be exchanged while they work.
//!
//! | promise | how |
//! |---|---|
//! | a piece of work begins and ends with one component | whoever works takes a [`Handle`] once, which holds the component of that moment, and its witness while it is on trial |
//! | the old component is freed when its last call ends | nobody else holds it, once the new one is proven |
//! | a new component that is broken goes | it is on trial against the proven one, see [`ProbationSettings`] and [`state`] |
//! | no Node, load balancer or route is deleted or made a second time on its word alone | the proven one is asked before and afterwards, see [`balancers`] and [`routes`] |
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
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

pub use handle::Handle;
pub use probation::ProbationSettings;
pub(crate) use refusals::{Refusal, Refusals};

use crate::component::Component;
use crate::release::{Release, Version};
use probation::{Probation, Progress};
use state::{Event, Reconfigured, SlotState, Transition};

/// How the components of a slot stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// Who answers.
    pub serving: Arc<Version>,
    /// Who returns when the one that serves fails its trial; the same one when there is no trial.
    pub proven: Arc<Version>,
    /// Whether the one that serves is on trial.
    pub is_on_trial: bool,
    /// Grows whenever another component serves, or those that stand so have another configuration, from 1 on.
    pub generation: u64,
    /// Since when it is so.
    pub since: Timestamp,
}

/// What is told of a slot, each once and in order.
#[derive(Debug)]
pub(crate) enum News {
    /// The components stand in another way, which is this one.
    Changed(Transition, View),
    /// From the exchange to the end of the first call that began on the new component.
    FirstCall(Duration),
}

/// Who serves since an exchange. Calls that began on it hold it until they end.
struct Serving<C> {
    release: Release<C>,
    generation: u64,
    /// None: it is proven.
    probation: Option<Probation<C>>,
    since: (Instant, Timestamp),
    /// Whether a call that began on it has ended.
    called: AtomicBool,
    /// Whether it was taken back: it failed its trial, or the proven one was put back.
    refused: watch::Sender<bool>,
}

struct State<C> {
    components: SlotState<C>,
    serving: Arc<Serving<C>>,
}

impl<C> State<C> {
    fn view(&self) -> View {
        View {
            serving: Arc::clone(&self.components.serving().version),
            proven: Arc::clone(&self.components.proven().version),
            is_on_trial: self.components.is_on_trial(),
            generation: self.components.generation(),
            since: self.serving.since.1,
        }
    }
}

/// How the components of a slot stand, with what answers.
pub(crate) struct Stands<C> {
    pub(crate) proven: Release<C>,
    /// The one on trial against it, which serves then.
    pub(crate) trial: Option<Release<C>>,
    /// Whether that one has another configuration.
    pub(crate) is_apart: bool,
    /// Grows whenever another component serves, or one with another configuration.
    pub(crate) generation: u64,
}

impl<C> Stands<C> {
    /// Who answers.
    pub(crate) fn serving(&self) -> &Release<C> {
        self.trial.as_ref().unwrap_or(&self.proven)
    }
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
        let serving = Self::serving_of(&components, settings, None);
        let state = Mutex::new(State { components, serving });
        let (generation, doubts) = (watch::Sender::new(1), watch::Sender::new(0));
        let (recovered, offers) = (watch::Sender::new(0), watch::Sender::new(0));
        (Self(Arc::new(Shared { state, settings, generation, doubts, recovered, offers, news })), told)
    }

    /// `refused`: of the same component with another configuration, so that work which began with that ends with this.
    fn serving_of(
        components: &SlotState<C>,
        settings: ProbationSettings,
        refused: Option<&Serving<C>>,
    ) -> Arc<Serving<C>> {
        let release = components.serving().clone();
        let witness = components.is_on_trial().then(|| Arc::clone(&components.proven().component));
        let probation =
            witness.map(|witness| Probation::begin(settings, witness, &*release.component, components.is_apart()));
        Arc::new(Serving {
            release,
            generation: components.generation(),
            probation,
            since: (Instant::now(), Timestamp::now()),
            called: AtomicBool::new(false),
            refused: refused.map(|before| before.refused.clone()).unwrap_or_default(),
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

    /// The proven one: whoever serves, or returns when that fails.
    #[must_use]
    pub fn proven(&self) -> Arc<C> {
        self.last_good().component
    }

    /// The same, with its version.
    pub(crate) fn last_good(&self) -> Release<C> {
        self.0.state.lock().components.proven().clone()
    }

    /// How the components stand.
    #[must_use]
    pub fn view(&self) -> View {
        self.0.state.lock().view()
    }

    /// What was refused after it had served.
    #[must_use]
    pub(crate) fn refused(&self) -> Refusals {
        self.0.state.lock().components.refused().clone()
    }

    /// Grows whenever another component serves, or those that stand so have another configuration, from 1 on.
    #[must_use]
    pub fn generations(&self) -> watch::Receiver<u64> {
        self.0.generation.subscribe()
    }

    /// Grows when what a component wrote is in doubt from now on, while nobody else begins to serve: another replica refused one that is not on
    /// trial here.
    #[must_use]
    pub fn doubts(&self) -> watch::Receiver<u64> {
        self.0.doubts.subscribe()
    }

    /// Grows when something answers again that did not, or when credentials are others: [`Component::recoveries`] of whoever
    /// serves, as long as somebody runs [`Slot::follow`].
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
        self.0.offers.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Notices other credentials of whoever serves ([`Component::follow_credentials`]), passes on what recovers, and ends a
    /// trial in time. Never ends.
    pub async fn follow(&self) {
        let mut generations = self.generations();
        loop {
            let component = self.component();
            tokio::select! {
                () = component.follow_credentials() => {}
                () = self.pass_on(component.recoveries()) => {}
                () = self.end_trials() => {}
                _ = generations.changed() => {}
            }
        }
    }

    /// A trial whose time is over ends, though nobody asks its component anything then. Never ends.
    async fn end_trials(&self) {
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
        let changed = |mut one: watch::Receiver<u64>| async move { one.changed().await.map(|()| one) };
        let mut waiting: FuturesUnordered<_> = recoveries.into_iter().map(changed).collect();
        while let Some(recovered) = waiting.next().await {
            if let Ok(one) = recovered {
                self.0.recovered.send_modify(|count| *count = count.wrapping_add(1));
                waiting.push(changed(one));
            }
        }
        std::future::pending().await
    }

    /// Puts a component that passed the gate into the slot, on trial; the proven one returns to its place at once. Calls that have
    /// begun end on the component that they began on. Returns how long others had to wait for it; none when nothing changes.
    ///
    /// `against`: digest of the one that it was compared with. Where another one is proven by now, nothing changes: that one may offer what
    /// this one does not, and find what it does not. `is_apart`: it has a configuration that the proven one cannot do with, and no
    /// difference between the two is held against it.
    pub(crate) fn put_against(&self, against: &str, release: Release<C>, is_apart: bool) -> Option<Duration> {
        let event = if is_apart { Event::TakenApart(release) } else { Event::Taken(release) };
        self.apply_where(|state| state.proven().is(against), event)
    }

    /// Puts the component with this digest back if it is the proven one still. Returns whether it serves then.
    pub(crate) fn put_back(&self, digest: &str) -> bool {
        self.apply(Event::PutBack(digest.to_owned()));
        self.view().serving.digest == digest
    }

    /// Who stands how, to be given another configuration.
    pub(crate) fn stands(&self) -> Stands<C> {
        let components = &self.0.state.lock().components;
        let trial = components.is_on_trial().then(|| components.serving().clone());
        let (proven, generation) = (components.proven().clone(), components.generation());
        Stands { proven, trial, is_apart: components.is_apart(), generation }
    }

    /// Gives those who stand so since `generation` another configuration that passed the gate; calls that have begun end with the old one.
    /// Returns how long others had to wait for it; none when somebody else serves meanwhile.
    pub(crate) fn configure(&self, generation: u64, with: Reconfigured<C>) -> Option<Duration> {
        self.apply(Event::Configured(generation, with))
    }

    /// Another replica refused this one.
    pub(crate) fn peer_refused(&self, refusal: Refusal) {
        self.apply(Event::PeerRefused(refusal));
    }

    /// The component with this digest has proved itself at another replica.
    pub(crate) fn peer_proved(&self, digest: &str) {
        self.apply(Event::PeerProved(digest.to_owned()));
    }

    fn apply(&self, event: Event<C>) -> Option<Duration> {
        self.apply_where(|_| true, event)
    }

    /// All changes of the state come along here. Nothing happens where it is not `as_expected` any more.
    fn apply_where(&self, as_expected: impl FnOnce(&SlotState<C>) -> bool, event: Event<C>) -> Option<Duration> {
        let begun = Instant::now();
        let mut state = self.0.state.lock();
        if !as_expected(&state.components) {
            return None;
        }
        let (generation, doubts) = (state.components.generation(), state.components.doubts());
        let transition = state.components.apply(event);
        let (now, doubts_now) = (state.components.generation(), state.components.doubts());
        if let Some(Transition::Returned { .. } | Transition::Withdrawn { .. }) = transition {
            // What it knew of the cloud is older than what the other one did there.
            state.components.proven().component.forget();
            state.serving.refused.send_replace(true);
        }
        // One that is contested goes on, and so does a trial.
        let before = match transition {
            None | Some(Transition::Contested { .. }) => None,
            Some(_) => {
                let same = Some(&*state.serving).filter(|_| matches!(transition, Some(Transition::Configured)));
                let next = Self::serving_of(&state.components, self.0.settings, same);
                Some(std::mem::replace(&mut state.serving, next))
            }
        };
        if let Some(transition) = transition {
            // Under the lock, so that changes are told in their order. An error means that nobody listens.
            drop(self.0.news.send(News::Changed(transition, state.view())));
        }
        // Whoever is served by it finds that number; those who wait for it are told when nobody waits for the lock.
        self.0.generation.send_if_modified(|told| {
            *told = now;
            false
        });
        drop(state);
        let took = begun.elapsed();
        if now != generation {
            self.0.generation.send_modify(|_| {});
        } else if doubts_now != doubts {
            // Who wakes for an exchange needs no second call.
            self.0.doubts.send_replace(doubts_now);
        }
        // Freed here, after the lock: to unmap the code of a component takes its time.
        before.map(|_| took)
    }

    /// A call that began on `serving` has ended: notes the first one, and looks whether its trial is over.
    fn judge(&self, serving: &Serving<C>) {
        if serving.probation.is_none() {
            return;
        }
        if !serving.called.load(Ordering::Relaxed) && !serving.called.swap(true, Ordering::Relaxed) {
            drop(self.0.news.send(News::FirstCall(serving.since.0.elapsed())));
        }
        self.decide(serving);
    }

    fn decide(&self, serving: &Serving<C>) {
        let Some(probation) = &serving.probation else { return };
        let event = match probation.verdict(&*serving.release.component) {
            Progress::Open => return,
            Progress::Passed => Event::Passed(serving.generation),
            Progress::Failed(why) => Event::Failed(serving.generation, why),
            Progress::Undecided(why) => Event::Undecided(serving.generation, why),
        };
        self.apply(event);
    }
}

impl<C: Component> LoadBalancerSource for Slot<C> {
    fn load_balancers(&self) -> Arc<dyn LoadBalancers> {
        Arc::new(self.handle())
    }

    fn is_refused(&self, component: &str) -> bool {
        self.0.state.lock().components.is_taken_back(component)
    }

    fn is_on_trial(&self) -> bool {
        self.0.state.lock().components.is_on_trial()
    }
}
