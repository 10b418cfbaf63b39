//! Which Service has an address, or is about to get it.
//!
//! What is being written is in the store later. Two Services whose providers name the same address at that moment would both get it.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use ccm_cloud::SharedAddresses;
use k8s_openapi::api::core::v1::Service;
use kube::runtime::reflector::ObjectRef;
use tokio::time::Instant;

use super::address_target::AddressTarget;
use super::node_holders::pod_range;
use super::{AddressClash, ClusterAddresses, cluster_ips, ips};
use crate::object_name::ObjectName as _;
use crate::view::service::{ingress, is_deleting, is_load_balancer};

/// How long the store may take to show what was written. Whoever could not write it asks its provider again, and reserves it again.
const RESERVED_FOR: Duration = Duration::from_secs(2 * 60);

/// The Services that are about to get an address.
#[derive(Default)]
pub(super) struct Reservations {
    all: HashMap<IpAddr, Reservation>,
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
        let own: Vec<IpAddr> = ips(&ingress(service)).collect();
        let new: Vec<IpAddr> = wanted.iter().filter(|ip| !own.contains(ip)).copied().collect();
        // Until all are taken: nobody else looks meanwhile.
        let mut reserved = self.reserved.lock();
        let clash = |ip: &IpAddr| {
            self.clash(*ip).or_else(|| {
                let other = || self.holder(service, *ip, shared, &reserved, &has_given_up);
                if new.contains(ip) { other() } else { None }
            })
        };
        if let Some(refused) = wanted.iter().find_map(|ip| Some((*ip, clash(ip)?))) {
            return Err(refused);
        }
        let (name, uid) = (ObjectRef::from_obj(service), &service.metadata.uid);
        // What it wanted before counts no more, nor what is long ago.
        reserved.all.retain(|_, reservation| {
            reservation.since.elapsed() < RESERVED_FOR && !(reservation.service == name && reservation.uid == *uid)
        });
        let reservation = || Reservation { service: name.clone(), uid: uid.clone(), since: Instant::now() };
        reserved.all.extend(new.into_iter().map(|ip| (ip, reservation())));
        Ok(())
    }

    /// Who else has an address, and does not share it.
    fn holder(
        &self,
        service: &Service,
        ip: IpAddr,
        shared: SharedAddresses,
        reserved: &Reservations,
        has_given_up: &impl Fn(&Service) -> bool,
    ) -> Option<AddressClash> {
        let node = || if shared.nodes { None } else { self.any_node_with(&AddressTarget::Ip(ip)) };
        let pods = || self.nodes.as_ref().and_then(|nodes| pod_range(nodes, ip));
        let pods = || self.pod_ranges.iter().find(|range| range.contains(&ip)).copied().or_else(pods);
        let cluster = node().map(AddressClash::Node).or_else(|| pods().map(AddressClash::PodRange));
        let cluster = cluster.or_else(|| self.cluster_ip(ip));
        if cluster.is_some() || shared.services {
            return cluster;
        }
        let services = self.services.as_ref()?;
        let name = |other: &Service| ObjectRef::from_obj(other).object_name();
        let is_another = |other: &Service| other.metadata.uid != service.metadata.uid && !is_deleting(other);
        if let Some(other) = services.find(|other| is_another(other) && external_ips(other).any(|known| known == ip)) {
            return Some(AddressClash::ExternalIp(name(&other)));
        }
        let may_have = |other: &Service| is_another(other) && is_load_balancer(other) && !has_given_up(other);
        let has = |other: &Service| may_have(other) && ips(&ingress(other)).any(|known| known == ip);
        let reserved_for = || {
            let reservation = reserved.all.get(&ip).filter(|reservation| reservation.since.elapsed() < RESERVED_FOR)?;
            services.get(&reservation.service).filter(|other| other.metadata.uid == reservation.uid && may_have(other))
        };
        let other = services.find(has).or_else(reserved_for);
        other.map(|other| AddressClash::LoadBalancer(name(&other)))
    }
}

/// `spec.externalIPs` of a Service.
fn external_ips(service: &Service) -> impl Iterator<Item = IpAddr> {
    let all = service.spec.as_ref().and_then(|spec| spec.external_ips.as_deref()).unwrap_or_default();
    all.iter().filter_map(|text| text.parse().ok()).map(|ip: IpAddr| ip.to_canonical())
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
