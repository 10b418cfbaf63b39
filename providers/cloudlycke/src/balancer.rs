//! Load balancers that exist only here: addresses out of a pool, and lists of members.
//!
//! Addresses of a documentation network are enough to watch everything work: kube-proxy takes traffic to every address in
//! `status.loadBalancer` on every node, so that a client in the cluster reaches the Service, although nobody outside routes
//! there.
//!
//! Whoever may take or release an address of the pool holds the lock [`POOL_LOCK`], so that what is read of the state is
//! still true when it is written.

mod allocate;
mod name;
mod service_spec;
mod state;
mod survey;
#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::time::Duration;

use ccm_sdk::types::{AddressType, Backend, Failure, Ingress, Problem, Service};
use ccm_sdk::{Done, duration};

pub(crate) use self::name::name;
pub(crate) use self::service_spec::Mode;
use self::service_spec::{ServiceSpec, family_of, pool_of};
use self::state::Record;
pub(crate) use self::state::{State, Store};
use crate::annotations::{LB_FAIL, LB_READY_AT};
use crate::config::LoadBalancers;

/// Held by every call that may take or release an address of the pool.
pub(crate) const POOL_LOCK: &str = "cloudlycke/pool";

/// Reason of the Event that tells of an address which a Service had to leave.
const MOVED: &str = "LoadBalancerAddressMoved";

/// Longest time until the host looks again at a load balancer that is being made.
const MAX_LOOK: Duration = Duration::from_secs(10);

/// Things that only one call at a time may change. The same in every mode: a load balancer that leaves the pool gives back
/// what it had there, and a new Service what the former one of its name had.
pub(crate) fn locks() -> Vec<String> {
    vec![POOL_LOCK.to_owned()]
}

/// The cloud, as far as it has load balancers.
pub(crate) struct Balancers<'a> {
    pub(crate) config: &'a LoadBalancers,
    pub(crate) state: State<'a>,
    /// Since 1970.
    pub(crate) now: Duration,
}

impl Balancers<'_> {
    /// Where clients reach it. One that is being made is there, and reached nowhere.
    pub(crate) fn get(&self, service: &Service) -> Option<Vec<Ingress>> {
        match self.known(service, vec![]) {
            Some(record) => Some(record.ingress()),
            None => service.annotation(LB_READY_AT).map(|_| vec![]),
        }
    }

    pub(crate) fn ensure(&self, service: &Service, backends: &[Backend]) -> Done {
        Done::of(|done| self.make(service, backends, done))
    }

    fn make(&self, service: &Service, backends: &[Backend], done: &mut Done) -> Result<Vec<Ingress>, Failure> {
        simulated(service)?;
        let service_spec = ServiceSpec::of(self.config, service)?;
        let backends: Vec<_> = backends.iter().collect();
        let members = members(&backends);
        let known = self.known(service, members.clone());
        if known.is_none() {
            self.wait(service, &service_spec, done)?;
        }
        self.forget_namesake(service, done);
        let ips = match service_spec.mode {
            Mode::Pool => self.allocate(service, &service_spec, known.as_ref(), done)?,
            Mode::Nodes => node_addresses(&backends, &service_spec)?,
            Mode::Hostname => vec![],
        };
        let next = Record { ips, pooled: service_spec.mode == Mode::Pool, hostname: service_spec.hostname, members };
        Ok(self.settle(service, known.as_ref(), &next, done))
    }

    /// Changes the members, and addresses only where they are the members' own.
    pub(crate) fn update(&self, service: &Service, backends: &[Backend]) -> Done {
        Done::of(|done| self.follow(service, backends, done))
    }

    fn follow(&self, service: &Service, backends: &[Backend], done: &mut Done) -> Result<Vec<Ingress>, Failure> {
        simulated(service)?;
        let service_spec = ServiceSpec::of(self.config, service)?;
        let backends: Vec<_> = backends.iter().collect();
        let members = members(&backends);
        let Some(known) = self.known(service, members.clone()) else {
            if service.annotation(LB_READY_AT).is_some() {
                self.wait(service, &service_spec, done)?;
            }
            let message = format!("there is no load balancer of {}; it must be made first", service.full_name());
            return Err(Failure::conflict(message));
        };
        if let Some(taken) = known.held().iter().find_map(|ip| self.taken(*ip, service)) {
            return Err(Failure::conflict(taken));
        }
        let mut next = known.clone();
        next.members = members;
        if service_spec.mode == Mode::Nodes && !known.pooled {
            next.ips = node_addresses(&backends, &service_spec)?;
        }
        Ok(self.settle(service, Some(&known), &next, done))
    }

    /// Works whatever the Service asks for: it must always be possible to get rid of one.
    pub(crate) fn delete(&self, service: &Service) -> Done {
        let mut done = Done::new();
        self.forget_namesake(service, &mut done);
        let recorded = self.state.record(&service.uid).map(|record| record.held().to_vec()).unwrap_or_default();
        self.state.forget(service);
        for ip in sorted(recorded.into_iter().chain(addresses(service))) {
            if self.state.release(ip, &service.uid) {
                done.changed(format!("address {ip} released"));
            }
        }
        if service.annotation(LB_READY_AT).is_some() {
            done.unannotate(LB_READY_AT);
        }
        done
    }

    /// What is wrong with the Service. An address that somebody else has is the cloud's word.
    pub(crate) fn validate(&self, service: &Service, online: bool) -> Vec<Problem> {
        let (service_spec, mut problems) = service_spec::read(self.config, service);
        if let (true, Mode::Pool, Some(requested)) = (online, service_spec.mode, &service_spec.requested) {
            let taken = self.taken(requested.ip, service);
            problems.extend(taken.map(|message| Problem::fatal(&requested.field, message)));
        }
        problems
    }

    /// The load balancer as it is remembered, or as the Service's status shows it. Nobody remembers the members of one that
    /// is only in the status: they are taken to be `members`.
    fn known(&self, service: &Service, members: Vec<String>) -> Option<Record> {
        self.state.record(&service.uid).or_else(|| self.shown(service, members))
    }

    fn shown(&self, service: &Service, members: Vec<String>) -> Option<Record> {
        let ips: Vec<_> = addresses(service).collect();
        let hostname = service.ingress.iter().find_map(|place| place.hostname.clone());
        let of_pool: Vec<_> =
            ips.iter().copied().filter(|ip| pool_of(self.config, family_of(*ip)).contains(*ip)).collect();
        if !of_pool.is_empty() {
            return Some(Record { ips: of_pool, pooled: true, hostname, members });
        }
        let is_own = match Mode::of(self.config, service) {
            // Somebody else's.
            Mode::Pool => false,
            Mode::Nodes => !ips.is_empty(),
            Mode::Hostname => hostname.is_some(),
        };
        is_own.then_some(Record { ips, pooled: false, hostname, members })
    }

    /// New ones are being made for a while. The end of it stands on the Service, where a restart finds it.
    fn wait(&self, service: &Service, service_spec: &ServiceSpec, done: &mut Done) -> Result<(), Failure> {
        let latest = self.now.saturating_add(service_spec.delay);
        let noted = service.annotation(LB_READY_AT).and_then(|text| text.parse().ok()).map(Duration::from_millis);
        // A delay that was made shorter counts.
        let ready = noted.filter(|ready| *ready <= latest).unwrap_or(latest);
        let left = ready.saturating_sub(self.now);
        if left.is_zero() {
            return Ok(());
        }
        if noted != Some(ready) {
            done.annotate(LB_READY_AT, duration::millis(ready).to_string());
        }
        let seconds = left.as_secs() + u64::from(left.subsec_millis() > 0);
        Err(Failure::pending(format!("provisioning, ready in {seconds} s")).after(left.min(MAX_LOOK)))
    }

    /// Frees what the Service that had this name before left behind.
    fn forget_namesake(&self, service: &Service, done: &mut Done) {
        let Some(uid) = self.state.namesake(service) else { return };
        let record = self.state.record(&uid);
        self.state.forget_record(&uid);
        for ip in record.iter().flat_map(Record::held) {
            if self.state.release(*ip, &uid) {
                done.changed(format!("address {ip} released, which the former {} had", service.full_name()));
            }
        }
    }

    /// Why this Service cannot have the address.
    fn taken(&self, ip: IpAddr, service: &Service) -> Option<String> {
        let other = self.state.other_holder(ip, service)?;
        Some(format!("address {ip} is in use by {other}"))
    }

    /// Writes down what the load balancer is now, and tells what is different. Returns where clients reach it.
    fn settle(&self, service: &Service, known: Option<&Record>, next: &Record, done: &mut Done) -> Vec<Ingress> {
        // Before an address is given back: see `State`.
        self.state.keep(service, next);
        let before: &[IpAddr] = known.map_or(&[], Record::held);
        for ip in before.iter().filter(|ip| !next.held().contains(ip)) {
            if self.state.release(*ip, &service.uid) {
                done.changed(format!("address {ip} released"));
            }
        }
        for ip in next.held() {
            self.state.hold(*ip, service);
            if !before.contains(ip) {
                done.changed(format!("address {ip} taken"));
            }
        }
        let old: &[String] = known.map_or(&[], |record| &record.members);
        let (added, removed) = (without(&next.members, old), without(old, &next.members));
        for (names, what) in [(added, "members added"), (removed, "members removed")] {
            if !names.is_empty() {
                done.changed(format!("{what}: {}", names.join(", ")));
            }
        }
        next.ingress()
    }
}

/// The failure that somebody asked for.
fn simulated(service: &Service) -> Result<(), Failure> {
    service.annotation(LB_FAIL).map_or(Ok(()), |text| Err(Failure::retry(text)))
}

/// Addresses in the Service's status.
fn addresses(service: &Service) -> impl Iterator<Item = IpAddr> {
    service.ingress.iter().filter_map(|place| place.ip.as_ref()?.parse().ok())
}

/// Names of the Nodes, sorted, each once.
fn members(backends: &[&Backend]) -> Vec<String> {
    sorted(backends.iter().map(|backend| backend.name.clone()))
}

/// Those of `names` that are not among `others`, which are sorted.
#[inline(never)]
fn without(names: &[String], others: &[String]) -> Vec<String> {
    names.iter().filter(|name| others.binary_search(name).is_err()).cloned().collect()
}

/// In order, each once. The thousands that there may be come mostly in order, and a real sort would be 5 KB for each type.
fn sorted<T: Ord>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut list: Vec<T> = vec![];
    for item in items {
        if let Err(place) = list.binary_search(&item) {
            list.insert(place, item);
        }
    }
    list
}

/// The Nodes' internal addresses of the families that are asked for, sorted, each once.
fn node_addresses(backends: &[&Backend], service_spec: &ServiceSpec) -> Result<Vec<IpAddr>, Failure> {
    let internal = backends.iter().flat_map(|backend| backend.addresses_of(AddressType::InternalIp));
    let ips =
        internal.filter_map(|text| text.parse().ok()).filter(|ip| service_spec.families.contains(&family_of(*ip)));
    let ips = sorted(ips);
    if ips.is_empty() {
        return Err(Failure::retry("no Node has an internal address of the Service's IP families"));
    }
    Ok(ips)
}
