//! What this controller knows of one Service, for those who ask why.

use std::sync::{Arc, Weak};

use super::condition::STRANDED;
use super::entry::ServiceEntry;
use super::key::Key;
use super::last_run::LastFailure;
use super::ownership::Work;
use super::plan::Plan;
use super::predicates::class;
use super::syncer::Syncer;
use crate::explain::{Decision, LastTry, Next, ServiceExplanation, ago};
use crate::queue::Places;
use crate::troubles::{Listed, ServiceTrouble};
use crate::view::service::{is_deleting, is_load_balancer};

/// A look into a service controller. Does not keep it alive.
#[derive(Clone)]
pub struct ServiceView {
    pub(super) syncer: Weak<Syncer>,
    pub(super) places: Places<Key>,
}

impl ServiceView {
    /// What is known of a Service; none where the controller does not run any more.
    pub(crate) async fn explain(&self, namespace: &str, name: &str) -> Option<ServiceExplanation> {
        let key = Key::new(name).within(namespace);
        let (known, waits_for_change) = self.syncer.upgrade()?.known(&key);
        if known.uid.is_none() {
            return Some(known);
        }
        let next = Next::of(self.places.of(key).await, waits_for_change);
        Some(ServiceExplanation { next, ..known })
    }

    /// Services that are not as they should be; none where the controller does not run any more.
    pub(crate) async fn troubles(&self, most: usize) -> Option<Listed<ServiceTrouble>> {
        let key = |service: &ServiceTrouble| {
            let (namespace, name) = service.name.split_once('/').unwrap_or_default();
            Key::new(name).within(namespace)
        };
        let listed = {
            let syncer = self.syncer.upgrade()?;
            let mut listed = syncer.memory.troubles(most);
            let is_told = |service: &ServiceTrouble| service.why.is_some() && service.reason != STRANDED;
            for service in listed.first.iter_mut().filter(|service| !is_told(service)) {
                let (known, waits_for_change) = syncer.known(&key(service));
                let tried = known.last_try.map(|last| last.message);
                service.why = tried.or(known.decision.map(|decision| decision.text));
                service.next = if waits_for_change { Next::OnChange } else { Next::Unknown };
            }
            listed
        };
        Some(listed.placed(&self.places, key, |service| &mut service.next).await)
    }
}

impl Syncer {
    /// What the memory says, and whether there is no try before a change of the Service, or of what serves it.
    fn known(&self, key: &Key) -> (ServiceExplanation, bool) {
        // A Service that went by force is nowhere but in the memory.
        let seen = self.store.get(key).map(|seen| self.memory.newer(key, seen));
        let newest = || self.memory.with(key, |entry| entry.newest());
        let Some(service) = seen.or_else(newest) else { return Default::default() };
        let uid = &service.metadata.uid;
        let work = self.work(key, &service);
        let remembered = self.memory.with(key, |entry| {
            // Another Service of the same name waits until the load balancer of this one is gone.
            (entry.newest.metadata.uid == *uid).then(|| remembered(entry))
        });
        let (mut known, mut waits_for_change) = remembered.flatten().unwrap_or_default();
        if matches!(work, Work::Stranded(_)) {
            // What failed before is not why nothing is done.
            (known.last_try, waits_for_change) = (None, true);
        }
        known.uid = Some(uid.clone().unwrap_or_default());
        known.class = class(&service).map(ToOwned::to_owned);
        known.is_wanted = is_load_balancer(&service) && !is_deleting(&service);
        let plan = (!matches!(work, Work::Serve(_))).then(|| self.plan_of(&service, work));
        known.provider = match (work, &plan) {
            (Work::Serve(member), _) => self.members.get(&member).map(super::LoadBalancerMember::name),
            (_, plan) => plan.as_ref().and_then(|plan| plan.provider.clone()),
        };
        if known.decision.is_none() {
            known.decision = plan.map(|plan| decision(&plan, 0.0));
        }
        (known, waits_for_change)
    }
}

fn remembered(entry: &ServiceEntry) -> (ServiceExplanation, bool) {
    let (failed, attempt) = (&entry.last_run.failed, entry.attempt.as_ref());
    let last_try = attempt.map(|attempt| {
        let message = attempt.why.clone();
        let Some(LastFailure { reaction, at, tries, request }) = failed else {
            return LastTry { message, ..LastTry::default() };
        };
        LastTry {
            message,
            reaction: (*reaction).to_owned(),
            seconds_ago: ago(*at),
            tries: *tries,
            request: request.as_deref().map(Into::into),
        }
    });
    let decided = entry.last_run.decision.as_ref();
    let known = ServiceExplanation {
        decision: decided.map(|(plan, at)| decision(plan, ago(*at))),
        last_try,
        not_ready: entry.not_ready.map(ToOwned::to_owned),
        waits_for_turn_seconds: entry.last_run.waits_for_turn.map(ago),
        ..ServiceExplanation::default()
    };
    (known, attempt.is_some_and(|attempt| attempt.until_change))
}

fn decision(plan: &Plan, seconds_ago: f64) -> Decision {
    Decision { text: plan.to_string(), seconds_ago }
}

impl super::ServiceController {
    /// A look into this controller, for those who ask why.
    #[must_use]
    pub fn view(&self) -> ServiceView {
        ServiceView { syncer: Arc::downgrade(&self.syncer), places: self.places.clone() }
    }
}
