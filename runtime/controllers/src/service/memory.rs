//! What the service controller remembers of Services that it takes care of. It forgets a Service when nothing of it is left
//! in the cloud, so memory is bounded by the Services that exist. Whatever must outlive the process is in the Service itself.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBackoff, ExponentialBuilder};
use ccm_cloud::Outcome;
use k8s_openapi::api::core::v1::Service;
use kube::runtime::reflector::ObjectRef;
use parking_lot::Mutex;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use tokio::time::Instant;

use super::fingerprint::Digest;
use super::metrics::{PassTimer, ReasonLabel, ServiceMetrics};
use super::offer::Offer;
use super::record::Record;
use super::step::{Found, Unsaid};
use super::view::ingress;
use crate::metrics::now_seconds;
use crate::queue::{QueueSettings, Verdict, capped};
use crate::store::{Age, Lists};
use crate::warnings::Warnings;

/// A Service by namespace and name.
pub(crate) type Key = ObjectRef<Service>;

/// What the cloud is at work on is looked at again after this part of the time that it has taken since its last progress, or
/// later.
const PATIENCE: u32 = 20;
/// That part is never longer.
const MAX_PATIENCE: Duration = Duration::from_secs(60);

/// What is to be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A load balancer for a Service with this digest.
    Serve(Digest),
    /// None any more, for a Service with this digest.
    Delete(Digest),
}

/// What is not certain about the cloud, whatever the Service's record says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Doubt {
    #[default]
    None,
    /// A call that changes the backends has begun.
    Backends,
    /// A call that changes anything has begun.
    All,
}

/// The last try, which failed.
struct Attempt {
    purpose: Purpose,
    /// The backends, if others are tried before it is time.
    backends: Option<Digest>,
    /// Not again before.
    until: Instant,
    /// Only something else to do helps.
    until_change: bool,
    /// It is no failure: the cloud is at work.
    is_pending: bool,
}

pub(crate) struct Entry {
    /// The newest state: that of the store, or that of our last write as long as the store does not have it yet.
    pub(crate) newest: Arc<Service>,
    /// How old that is.
    age: Age,
    /// Who has its load balancer, if anybody.
    pub(crate) member: usize,
    /// Whether there may be something in the cloud.
    pub(crate) owned: bool,
    pub(crate) doubt: Doubt,
    /// The record that this process wrote last. Another one in its place is no reason to believe that.
    pub(crate) recorded: Option<Record>,
    /// What the provider's annotations with this digest lead to, as this component says, where they are not those of the record.
    pub(crate) offer: Option<(Digest, Offer)>,
    /// That came to something else just before it was used.
    pub(crate) offer_changed: bool,
    /// The provider's annotations that could not be written so far.
    pub(crate) unwritten: BTreeMap<String, Option<String>>,
    /// What an Event has announced.
    pub(crate) announced: Option<Purpose>,
    /// As it was when its record last said that all is as it should be, if this process saw that.
    pub(crate) base: Option<Arc<Service>>,
    /// What a survey found.
    pub(crate) found: Option<Found>,
    pub(crate) unsaid: Option<Unsaid>,
    pub(crate) warnings: Warnings,
    /// What became of offers. A manifest that is applied again and again makes the same one each time, and it succeeds each time.
    pub(crate) offers_told: Warnings,
    /// When the condition was written last, and what was to be reached then.
    pub(crate) condition: Option<(Purpose, Instant)>,
    /// When a status that somebody else had changed was put right last.
    pub(crate) repaired: Option<Instant>,
    /// The pass that waits for this Service.
    pub(crate) pass: Option<Arc<PassTimer>>,
    /// Label selectors by which the provider chose among the Nodes. None: not known since the start.
    pub(crate) selectors: Option<BTreeSet<String>>,
    /// An update for this was refused as invalid: it may be the hosts that are wrong.
    pub(crate) hosts_refused: Option<Purpose>,
    /// The provider said that somebody else takes care of it.
    pub(crate) is_elsewhere: bool,
    /// Since when it wants its first address, if this process saw that.
    pub(crate) wanted: Option<Instant>,
    /// Why it is not as it should be.
    not_ready: Option<&'static str>,
    attempt: Option<Attempt>,
    delays: Option<ExponentialBackoff>,
    /// Since when the cloud is at work without any progress, and at what.
    at_work: Option<(Purpose, Instant)>,
    /// What the last call came to in which the cloud was at work.
    progress: Option<Digest>,
    waits: bool,
}

impl Entry {
    fn new(newest: Arc<Service>, age: Age, member: usize, owned: bool) -> Self {
        // Whoever was served before has a finalizer, or an address.
        let is_first = !owned && ingress(&newest).is_empty();
        Self {
            wanted: is_first.then(Instant::now),
            not_ready: None,
            base: None,
            newest,
            age,
            member,
            owned,
            doubt: Doubt::None,
            recorded: None,
            offer: None,
            offer_changed: false,
            unwritten: BTreeMap::new(),
            announced: None,
            found: None,
            unsaid: None,
            warnings: Warnings::default(),
            offers_told: Warnings::default(),
            condition: None,
            repaired: None,
            pass: None,
            selectors: None,
            hosts_refused: None,
            is_elsewhere: false,
            attempt: None,
            delays: None,
            at_work: None,
            progress: None,
            waits: false,
        }
    }

    /// When it is not time yet for another try: when it is.
    pub(crate) fn must_wait(&self, purpose: Purpose, backends: Option<Digest>) -> Option<Verdict> {
        let attempt = self.attempt.as_ref().filter(|attempt| attempt.purpose == purpose)?;
        let left = attempt.until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())?;
        // Nodes that come and go must not hurry a cloud in trouble.
        let may_follow = attempt.until_change || attempt.is_pending;
        if may_follow && attempt.backends.is_some() && attempt.backends != backends {
            return None;
        }
        Some(if attempt.until_change { Verdict::Change } else { Verdict::After(left) })
    }

    /// Whether the last try failed. What somebody else takes care of has not failed.
    pub(crate) fn has_failed(&self) -> bool {
        !self.is_elsewhere && self.attempt.as_ref().is_some_and(|attempt| !attempt.is_pending)
    }

    /// There is news about the cloud: what waits for a change is tried again. What waits for a time has its turn soon.
    pub(crate) fn has_news(&mut self) {
        if self.attempt.as_ref().is_some_and(|attempt| attempt.until_change) {
            self.attempt = None;
        }
    }

    /// When the status was put right less than `pause` ago: how long that lasts. Another writer that does not give in must not
    /// cost a call each time.
    pub(crate) fn must_not_repair(&self, pause: Duration) -> Option<Verdict> {
        let left = pause.checked_sub(self.repaired?.elapsed()).filter(|left| !left.is_zero())?;
        Some(Verdict::After(left))
    }

    /// The cloud is at work, and this is what the call came to. Another outcome than that of the call before is progress: work of
    /// many steps must not become slower with each of them.
    pub(crate) fn progressed(&mut self, outcome: &Outcome) {
        let failure = outcome.failure.as_ref().map(|failure| &failure.message);
        let places: Vec<_> = outcome.ingress.iter().map(|place| (&place.ip, &place.hostname)).collect();
        let progress = Some(Digest::of(&(failure, places, &outcome.annotations, &outcome.changes)));
        if self.progress != progress {
            self.progress = progress;
            self.at_work = None;
            self.delays = None;
        }
    }

    /// The cloud is at work: the longer it takes without any progress, the less often it is looked at, so that what is never done
    /// costs next to nothing of its quota.
    fn patiently(&mut self, purpose: Purpose, verdict: Verdict) -> Verdict {
        let (_, since) = match self.at_work {
            Some(at_work) if at_work.0 == purpose => at_work,
            _ => *self.at_work.insert((purpose, Instant::now())),
        };
        match verdict {
            Verdict::After(delay) => Verdict::After(delay.max((since.elapsed() / PATIENCE).min(MAX_PATIENCE))),
            other => other,
        }
    }

    /// A try has failed, or the cloud is at work. Other backends than `backends` do not wait for that, unless the cloud is in
    /// trouble. Returns when the next try is.
    pub(crate) fn failed(
        &mut self,
        purpose: Purpose,
        backends: Option<Digest>,
        is_pending: bool,
        verdict: Verdict,
        settings: &QueueSettings,
    ) -> Verdict {
        let verdict = if is_pending { self.patiently(purpose, verdict) } else { verdict };
        let delay = match verdict {
            Verdict::After(delay) => delay,
            Verdict::Change | Verdict::Done => settings.resync,
            Verdict::Backoff => {
                let delays = self.delays.get_or_insert_with(|| {
                    ExponentialBuilder::new()
                        .with_min_delay(settings.min_backoff)
                        .with_max_delay(settings.max_backoff)
                        .without_max_times()
                        .with_jitter()
                        .build()
                });
                capped(delays.next().unwrap_or(settings.max_backoff), settings.max_backoff)
            }
        };
        let now = Instant::now();
        let until = now.checked_add(delay).unwrap_or(now + Duration::from_secs(365 * 24 * 60 * 60));
        let until_change = matches!(verdict, Verdict::Change | Verdict::Done);
        self.attempt = Some(Attempt { purpose, backends, until, until_change, is_pending });
        if until_change {
            self.delays = None;
            return Verdict::Change;
        }
        Verdict::After(delay)
    }

    /// A try came to its end. What was found before says nothing about later.
    pub(crate) fn succeeded(&mut self) {
        self.found = None;
        self.unsaid = None;
        self.offer = None;
        self.offer_changed = false;
        self.doubt = Doubt::None;
        self.attempt = None;
        self.delays = None;
        self.at_work = None;
        self.progress = None;
        self.announced = None;
        self.hosts_refused = None;
        self.is_elsewhere = false;
        self.warnings = Warnings::default();
    }

    /// Takes a newer state of the same Service.
    fn take(&mut self, service: Arc<Service>, age: Age) {
        if age.is_as_new_as(self.age) {
            (self.newest, self.age) = (service, age.after(self.age));
        }
    }
}

/// All Services that are taken care of.
pub(crate) struct Memory {
    services: Mutex<HashMap<Key, Entry>>,
    /// UIDs of Services that were seen with a class that nobody serves here. Their finalizer is somebody else's.
    theirs: Mutex<HashMap<Key, Option<String>>>,
    /// UIDs of Services whose load balancer the provider does not have that an older release named.
    denied: Mutex<HashMap<Key, Option<String>>>,
    /// How many wait for an address.
    waiting: Gauge,
    /// How many are not as they should be, by the reason.
    not_ready: Family<ReasonLabel, Gauge>,
    /// When each member's load balancers were last all compared with the cloud, in seconds since the epoch.
    compared: Mutex<HashMap<usize, f64>>,
    /// Members whose comparison at the start was none.
    due: Mutex<HashMap<usize, Due>>,
    lists: Lists,
}

/// When load balancers are compared next that were not at the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    /// The comparison took too long for the start.
    Now,
    /// It failed.
    Soon,
}

impl Memory {
    /// `lists` are those of the store.
    pub(crate) fn new(metrics: &ServiceMetrics, lists: Lists) -> Self {
        let (waiting, not_ready) = (metrics.pending.clone(), metrics.not_ready.clone());
        let (services, theirs, compared) = (Mutex::default(), Mutex::default(), Mutex::default());
        let (denied, due) = (Mutex::default(), Mutex::default());
        Self { services, theirs, denied, waiting, not_ready, compared, due, lists }
    }

    /// Looks at an entry, or changes it; none when there is none.
    pub(crate) fn with<T>(&self, key: &Key, look: impl FnOnce(&mut Entry) -> T) -> Option<T> {
        self.services.lock().get_mut(key).map(look)
    }

    /// The newest state of a Service that the store shows as `seen`: the store can be behind our own writes. The entry of
    /// a Service with another UID is left as it is.
    pub(crate) fn newest(&self, key: &Key, seen: Arc<Service>) -> Arc<Service> {
        let newest = self.with(key, |entry| {
            if entry.newest.metadata.uid != seen.metadata.uid {
                return None;
            }
            entry.take(Arc::clone(&seen), self.lists.shown(seen.metadata.resource_version.as_deref()));
            Some(Arc::clone(&entry.newest))
        });
        newest.flatten().unwrap_or(seen)
    }

    /// The Service of another UID that had the name before, and still has something in the cloud; and who has it.
    pub(crate) fn predecessor(&self, key: &Key, service: &Service) -> Option<(Arc<Service>, usize)> {
        let mut services = self.services.lock();
        let entry = services.get(key).filter(|entry| entry.newest.metadata.uid != service.metadata.uid)?;
        if entry.owned {
            return Some((Arc::clone(&entry.newest), entry.member));
        }
        self.removed(services.remove(key));
        None
    }

    /// A Service is taken care of by `member`; `owned` says whether the Service itself says that it has a load balancer.
    pub(crate) fn enter(&self, key: &Key, service: &Arc<Service>, member: usize, owned: bool) {
        let mut services = self.services.lock();
        let age = self.lists.shown(service.metadata.resource_version.as_deref());
        let entry = services.entry(key.clone()).or_insert_with(|| Entry::new(Arc::clone(service), age, member, owned));
        entry.take(Arc::clone(service), age);
        entry.member = member;
        entry.owned |= owned;
    }

    /// Whose load balancer a Service has, as far as this process knows.
    pub(crate) fn holder(&self, key: &Key, service: &Service) -> Option<usize> {
        let services = self.services.lock();
        let entry = services.get(key).filter(|entry| entry.newest.metadata.uid == service.metadata.uid)?;
        entry.owned.then_some(entry.member)
    }

    /// Whether a Service was seen with a class that nobody serves here.
    pub(crate) fn is_theirs(&self, key: &Key, service: &Service) -> bool {
        self.theirs.lock().get(key) == Some(&service.metadata.uid)
    }

    /// A Service has a class that nobody serves here.
    pub(crate) fn left_to_others(&self, key: &Key, service: &Service) {
        self.theirs.lock().insert(key.clone(), service.metadata.uid.clone());
    }

    /// A Service has nothing to do with others any more.
    pub(crate) fn left_by_others(&self, key: &Key) {
        self.theirs.lock().remove(key);
    }

    /// A Service is gone: what was seen of its like is of no use any more.
    pub(crate) fn is_gone(&self, key: &Key) {
        self.left_by_others(key);
        self.denied.lock().remove(key);
    }

    /// A provider does not have the load balancer of a Service.
    pub(crate) fn deny(&self, key: &Key, service: &Service) {
        self.denied.lock().insert(key.clone(), service.metadata.uid.clone());
    }

    /// Whether a provider was asked for the load balancer of a Service, and does not have it.
    pub(crate) fn was_denied(&self, key: &Key, service: &Service) -> bool {
        self.denied.lock().get(key) == Some(&service.metadata.uid)
    }

    /// Our write of a Service was answered.
    pub(crate) fn wrote(&self, key: &Key, service: Service) -> Arc<Service> {
        let service = Arc::new(service);
        let age = self.lists.answered(service.metadata.resource_version.as_deref());
        self.with(key, |entry| entry.take(Arc::clone(&service), age));
        service
    }

    /// This record stands in the Service now.
    pub(crate) fn recorded(&self, key: &Key, record: Record) {
        self.with(key, |entry| entry.recorded = Some(record));
    }

    /// Whether a Service waits for an address. Says whether that has changed.
    pub(crate) fn waits(&self, key: &Key, waits: bool) -> bool {
        let before = self.with(key, |entry| std::mem::replace(&mut entry.waits, waits));
        let changed = before.is_some_and(|before| before != waits);
        match (changed, waits) {
            (true, true) => drop(self.waiting.inc()),
            (true, false) => drop(self.waiting.dec()),
            (false, _) => {}
        }
        changed
    }

    /// Why a Service is not as it should be; none when it is.
    pub(crate) fn not_ready(&self, key: &Key, reason: Option<&'static str>) {
        let before = self.with(key, |entry| std::mem::replace(&mut entry.not_ready, reason));
        if let Some(before) = before {
            self.count(reason, before);
        }
    }

    fn count(&self, now: Option<&'static str>, before: Option<&'static str>) {
        let gauge = |reason| self.not_ready.get_or_create_owned(&ReasonLabel { reason });
        now.map(|reason| gauge(reason).inc());
        before.map(|reason| gauge(reason).dec());
    }

    /// All load balancers of a member were compared with the cloud now. Returns when that was for the one of `members` that is
    /// furthest behind: one that answers must not hide one that does not. 0 is never.
    pub(crate) fn compared(&self, member: usize, members: usize) -> f64 {
        let mut compared = self.compared.lock();
        compared.insert(member, now_seconds());
        let times = (0..members).map(|member| compared.get(&member).copied().unwrap_or(0.0));
        times.fold(f64::INFINITY, f64::min)
    }

    /// When a member's load balancers are to be compared, other than after a period. Returns what was said before.
    pub(crate) fn due(&self, member: usize, due: Option<Due>) -> Option<Due> {
        let mut all = self.due.lock();
        match due {
            Some(due) => all.insert(member, due),
            None => all.remove(&member),
        }
    }

    /// Whether the provider chose by labels for any Service.
    pub(crate) fn has_selectors(&self) -> bool {
        self.services.lock().values().any(|entry| entry.selectors.as_ref().is_some_and(|all| !all.is_empty()))
    }

    /// Services whose last try failed, and that wait for a time and not for a change. They need not wait any longer.
    pub(crate) fn wake_failed(&self) -> Vec<Key> {
        let mut failed = Vec::new();
        for (key, entry) in self.services.lock().iter_mut() {
            if entry.attempt.take_if(|attempt| !attempt.until_change).is_some() {
                failed.push(key.clone());
            }
        }
        failed
    }

    /// Whatever a try waits for, there may be news: another provider, or another configuration.
    pub(crate) fn wake_all(&self) {
        for entry in self.services.lock().values_mut() {
            entry.attempt = None;
        }
    }

    /// Nothing is left of it.
    pub(crate) fn forget(&self, key: &Key) {
        let removed = self.services.lock().remove(key);
        self.removed(removed);
    }

    fn removed(&self, entry: Option<Entry>) {
        let Some(entry) = entry else { return };
        if entry.waits {
            self.waiting.dec();
        }
        self.count(None, entry.not_ready);
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.services.lock().len()
    }
}
