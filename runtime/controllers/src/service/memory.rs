//! What the service controller remembers of its Services. It forgets a Service when nothing is left of it in the cloud, so memory
//! is bounded by the Services that exist. What must outlive the process is in the Service itself. All else must outlive the
//! controller, which begins anew when other providers make load balancers: a Service that went by force is nowhere but here.

use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use parking_lot::Mutex;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use super::claims::Claims;
use super::ensured_record::Record;
use super::entry::ServiceEntry;
use super::key::Key;
use super::metrics::{ReasonLabel, ServiceMetrics};
use crate::explain::Next;
use crate::metrics::now_seconds;
use crate::object_name::ObjectName as _;
use crate::store::{FirstList, Lists};
use crate::troubles::{Listed, Lister, ServiceTrouble};

/// What service controllers of one process know that stands in no Service. Each hands it on to the next. Cheap to clone.
#[derive(Clone)]
pub struct ServiceMemory {
    pub(super) services: Arc<Memory>,
    pub(super) claims: Arc<Claims>,
}

impl ServiceMemory {
    /// Nothing is known yet. `listed` is that of the store of Services.
    #[must_use]
    pub fn new(metrics: &ServiceMetrics, listed: &FirstList) -> Self {
        Self { services: Arc::new(Memory::new(metrics, listed.lists())), claims: Arc::default() }
    }
}

/// All Services that are taken care of.
pub(crate) struct Memory {
    services: Mutex<HashMap<Key, ServiceEntry>>,
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
    pub(crate) fn with<T>(&self, key: &Key, look: impl FnOnce(&mut ServiceEntry) -> T) -> Option<T> {
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

    /// The same for whoever only looks: a run that is under way goes on with what it began with.
    pub(crate) fn newer(&self, key: &Key, seen: Arc<Service>) -> Arc<Service> {
        let shown = self.lists.shown(seen.metadata.resource_version.as_deref());
        let newer = self.with(key, |entry| {
            let is_newer = entry.newest.metadata.uid == seen.metadata.uid && !shown.is_as_new_as(entry.age);
            is_newer.then(|| Arc::clone(&entry.newest))
        });
        newer.flatten().unwrap_or(seen)
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
        let entry =
            services.entry(key.clone()).or_insert_with(|| ServiceEntry::new(Arc::clone(service), age, member, owned));
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
        self.with(key, |entry| entry.has_record(record));
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

    /// Those that are not as they should be, the first by name.
    pub(crate) fn troubles(&self, most: usize) -> Listed<ServiceTrouble> {
        let mut lister = Lister::new(most);
        for (key, entry) in self.services.lock().iter() {
            let Some(reason) = entry.not_ready else { continue };
            let tell = |name| {
                let attempt = entry.attempt.as_ref();
                let waits_for_change = attempt.is_some_and(|attempt| attempt.until_change);
                let why = attempt.map(|attempt| attempt.why.clone());
                let next = if waits_for_change { Next::OnChange } else { Next::Unknown };
                let waits_for_turn = entry.last_run.waits_for_turn.map(|since| since.elapsed());
                ServiceTrouble { name, reason, why, next, waits_for_turn }
            };
            lister.add(key.object_name(), tell);
        }
        lister.listed()
    }

    fn count(&self, now: Option<&'static str>, before: Option<&'static str>) {
        let gauge = |reason| self.not_ready.get_or_create_owned(&ReasonLabel { reason });
        now.map(|reason| gauge(reason).inc());
        before.map(|reason| gauge(reason).dec());
    }

    /// All load balancers of a member were compared with the cloud now. Returns when that was for the one of `members` that is
    /// furthest behind: one that answers must not hide one that does not. 0 is never.
    pub(crate) fn compared<'m>(&self, member: usize, members: impl Iterator<Item = &'m usize>) -> f64 {
        let mut compared = self.compared.lock();
        compared.insert(member, now_seconds());
        let times = members.map(|member| compared.get(member).copied().unwrap_or(0.0));
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
        self.services.lock().values().any(ServiceEntry::chooses)
    }

    /// A cloud answers again. Services whose last try failed, and that wait for a time and not for a change, need not wait any longer;
    /// nor will those whose try is under way.
    pub(crate) fn wake_failed(&self) -> Vec<Key> {
        let mut failed = Vec::new();
        for (key, entry) in self.services.lock().iter_mut() {
            if entry.recovers() {
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

    /// All that are taken care of.
    pub(crate) fn keys(&self) -> Vec<Key> {
        self.services.lock().keys().cloned().collect()
    }

    /// Nothing is left of it.
    pub(crate) fn forget(&self, key: &Key) {
        let removed = self.services.lock().remove(key);
        self.removed(removed);
    }

    fn removed(&self, entry: Option<ServiceEntry>) {
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
