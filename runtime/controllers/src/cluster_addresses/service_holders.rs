//! Which Service has an address, or is about to get it.
//!
//! What is being written is in the store later. Two Services, or a Service and a Node, whose providers name the same address at that moment would
//! both get it.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use ccm_cloud::SharedAddresses;
use k8s_openapi::api::core::v1::Service;
use kube::runtime::reflector::{ObjectRef, Store};
use tokio::time::Instant;

use super::node_holders::{ips_of_node, pod_ranges};
use super::{AddressClash, ClusterAddresses, cluster_ips, ips};
use crate::object_name::ObjectName as _;
use crate::view::service::{ingress, is_deleting, is_load_balancer};

/// How long the store may take to show what was written. Whoever could not write it asks its provider again, and reserves it again.
const RESERVED_FOR: Duration = Duration::from_secs(2 * 60);

/// Most `spec.externalIPs` of a Service that count.
const MAX_EXTERNAL_IPS: usize = 16;

/// The Services that are about to get an address.
#[derive(Default)]
pub(super) struct Reservations {
    /// Several have one where they share it.
    all: HashMap<IpAddr, Vec<Reservation>>,
}

struct Reservation {
    service: ObjectRef<Service>,
    uid: Option<String>,
    since: Instant,
}

impl ClusterAddresses {
    /// Takes addresses for the load balancer of a Service, all or none of them. What the Service has already was looked at when it came, or came
    /// from another manager. `has_given_up` says of Services whether their load balancers are free to be another's.
    ///
    /// # Errors
    ///
    /// The first that it cannot have.
    pub(crate) fn take_for(
        &self,
        service: &Service,
        wanted: &[IpAddr],
        shared: SharedAddresses,
        has_given_up: impl Fn(&Service) -> bool,
    ) -> Result<(), (IpAddr, AddressClash)> {
        let own = self.own(service);
        let mut known = HashSet::new();
        let wanted: Vec<IpAddr> = wanted.iter().filter(|ip| known.insert(**ip)).copied().collect();
        let new: HashSet<IpAddr> = wanted.iter().filter(|ip| !own.contains(ip)).copied().collect();
        let holders = self.holders(service, &new, shared, &has_given_up);
        // Until all are taken: nobody else looks meanwhile, neither for a Service nor for a Node. Always this lock first, then that of the index
        // of Nodes.
        let mut reserved = self.reserved.lock();
        let clash = |ip: &IpAddr| {
            let reserved_for = || {
                let mut others = self.reserved_for(*ip, &reserved).filter(|_| !shared.services);
                let other = others.find(|other| may_have(service, other) && !has_given_up(other))?;
                Some(AddressClash::LoadBalancer(name_of(&other)))
            };
            let node = || if shared.nodes { None } else { self.node_to_be(*ip) };
            let other = || holders.get(ip).cloned().or_else(node).or_else(reserved_for);
            self.clash(*ip).or_else(|| if new.contains(ip) { other() } else { None })
        };
        if let Some(refused) = wanted.iter().find_map(|ip| Some((*ip, clash(ip)?))) {
            return Err(refused);
        }
        let (name, uid) = (ObjectRef::from_obj(service), &service.metadata.uid);
        // What it wanted before counts no more, nor what is long ago. What it still wants stays reserved though it has it by now: others may
        // look at a store that did not show that yet.
        let is_over = |ip: &IpAddr, one: &Reservation| {
            let is_own = one.service == name && one.uid == *uid;
            one.since.elapsed() >= RESERVED_FOR || (is_own && (new.contains(ip) || !known.contains(ip)))
        };
        reserved.all.retain(|ip, all| {
            all.retain(|one| !is_over(ip, one));
            !all.is_empty()
        });
        for ip in new {
            let one = Reservation { service: name.clone(), uid: uid.clone(), since: Instant::now() };
            reserved.all.entry(ip).or_default().push(one);
        }
        Ok(())
    }

    /// What a Service has already. `service` is what a call began with: what its status has lost since then may be another's by now.
    fn own(&self, service: &Service) -> HashSet<IpAddr> {
        let mut own: HashSet<IpAddr> = ips(&ingress(service)).collect();
        let now = self.services.as_ref().and_then(|services| services.get(&ObjectRef::from_obj(service)));
        if let Some(now) = now.filter(|now| now.metadata.uid == service.metadata.uid) {
            let now: HashSet<IpAddr> = ips(&ingress(&now)).collect();
            own.retain(|ip| now.contains(ip));
        }
        own
    }

    /// Who else has any of the addresses, and does not share it.
    fn holders(
        &self,
        service: &Service,
        wanted: &HashSet<IpAddr>,
        shared: SharedAddresses,
        has_given_up: &impl Fn(&Service) -> bool,
    ) -> HashMap<IpAddr, AddressClash> {
        let mut holders = Holders { wanted, found: HashMap::new() };
        if wanted.is_empty() {
            return holders.found;
        }
        let nodes = self.nodes.as_ref().map(Store::state).unwrap_or_default();
        for node in nodes.iter().filter(|_| !shared.nodes) {
            holders.add(ips_of_node(node), || AddressClash::Node(node.name_any()));
        }
        for range in self.pod_ranges.iter().copied().chain(nodes.iter().flat_map(|node| pod_ranges(node))) {
            let ips: Vec<IpAddr> = wanted.iter().filter(|ip| range.contains(*ip)).copied().collect();
            holders.add(ips.into_iter(), || AddressClash::PodRange(range));
        }
        let services = self.services.as_ref().map(Store::state).unwrap_or_default();
        for other in &services {
            holders.add(cluster_ips(other), || AddressClash::ClusterIp(name_of(other)));
        }
        if shared.services {
            return holders.found;
        }
        for other in services.iter().filter(|other| is_another(service, other)) {
            holders.add(external_ips(other), || AddressClash::ExternalIp(name_of(other)));
        }
        for other in services.iter().filter(|other| may_have(service, other)) {
            let places = ingress(other);
            if ips(&places).any(|ip| wanted.contains(&ip)) && !has_given_up(other) {
                holders.add(ips(&places), || AddressClash::LoadBalancer(name_of(other)));
            }
        }
        holders.found
    }

    /// The Services that are about to get an address, or have got it a moment ago.
    fn reserved_for(&self, ip: IpAddr, reserved: &Reservations) -> impl Iterator<Item = Arc<Service>> {
        let all = reserved.all.get(&ip).into_iter().flatten().filter(|one| one.since.elapsed() < RESERVED_FOR);
        all.filter_map(move |one| {
            let service = self.services.as_ref()?.get(&one.service)?;
            (service.metadata.uid == one.uid).then_some(service)
        })
    }

    /// A Service whose load balancer is about to have it.
    pub(super) fn balancer_to_be(&self, ip: IpAddr, reserved: &Reservations) -> Option<AddressClash> {
        let mut all = self.reserved_for(ip, reserved);
        let service = all.find(|service| is_load_balancer(service) && !is_deleting(service))?;
        Some(AddressClash::LoadBalancer(name_of(&service)))
    }
}

/// Who has addresses, found for all of them at once: every Node and every Service is read for that.
struct Holders<'a> {
    wanted: &'a HashSet<IpAddr>,
    found: HashMap<IpAddr, AddressClash>,
}

impl Holders<'_> {
    /// Somebody has these. Whoever was added first is told.
    fn add(&mut self, ips: impl Iterator<Item = IpAddr>, clash: impl Fn() -> AddressClash) {
        for ip in ips.filter(|ip| self.wanted.contains(ip)) {
            self.found.entry(ip).or_insert_with(&clash);
        }
    }
}

fn name_of(service: &Service) -> String {
    ObjectRef::from_obj(service).object_name()
}

fn is_another(service: &Service, other: &Service) -> bool {
    other.metadata.uid != service.metadata.uid && !is_deleting(other)
}

/// Whether the address of another Service's load balancer is its own.
fn may_have(service: &Service, other: &Service) -> bool {
    is_another(service, other) && is_load_balancer(other)
}

/// Those of `spec.externalIPs` of a Service that count. Anybody who may write Services may write any address there, whether or not it leads to
/// the cluster: with all of a cloud's in one Service, no new load balancer would get any.
fn external_ips(service: &Service) -> impl Iterator<Item = IpAddr> {
    let all = service.spec.as_ref().and_then(|spec| spec.external_ips.as_deref()).unwrap_or_default();
    all.iter().take(MAX_EXTERNAL_IPS).filter_map(|text| text.parse().ok()).map(|ip: IpAddr| ip.to_canonical())
}

impl ClusterAddresses {
    /// A Service whose load balancer has it.
    pub(super) fn balancer_with(&self, ip: IpAddr) -> Option<AddressClash> {
        let has = |other: &Service| {
            is_load_balancer(other) && !is_deleting(other) && ips(&ingress(other)).any(|known| known == ip)
        };
        let service = self.services.as_ref()?.find(has)?;
        Some(AddressClash::LoadBalancer(ObjectRef::from_obj(&*service).object_name()))
    }

    /// A Service that has it as its ClusterIP.
    pub(super) fn cluster_ip(&self, ip: IpAddr) -> Option<AddressClash> {
        let has_it = |service: &Service| cluster_ips(service).any(|known| known == ip);
        let service = self.services.as_ref()?.find(has_it)?;
        Some(AddressClash::ClusterIp(ObjectRef::from_obj(&*service).object_name()))
    }
}
