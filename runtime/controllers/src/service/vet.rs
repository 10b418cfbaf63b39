//! Whether the addresses that a provider names can be those of the load balancer of this Service.
//!
//! `status.loadBalancer.ingress` is more than a text: kube-proxy leads what the pods send there to the Service. An address of the API server
//! or of another Service would lead away what is meant for those.

use std::net::IpAddr;

use ccm_cloud::{Failure, Ingress, Outcome, Reaction, SharedAddresses};
use k8s_openapi::api::core::v1::Service;
use kube::runtime::reflector::{ObjectRef, Store};

use super::annotations::{ORPHAN, annotation};
use super::job::Job;
use super::key::key;
use super::predicates::{is_deleting, is_load_balancer};
use super::syncer::Syncer;
use crate::cluster_addresses::{AddressClash, ClusterAddresses, cluster_ips};
use crate::object_name::ObjectName as _;
use crate::store::Node;
use crate::view::service::ingress;

/// What is known of addresses that are somebody's.
pub(crate) struct Places {
    pub(crate) cluster: ClusterAddresses,
    pub(crate) nodes: Store<Node>,
}

impl Syncer {
    /// The outcome of a call, or the failure that it is when an address cannot be the Service's. Nothing is taken away from the Service then.
    pub(crate) fn vetted(&self, job: &Job, mut outcome: Outcome) -> Outcome {
        if outcome.failure.is_none()
            && let Some(message) =
                self.refused(&job.service, &outcome.ingress, job.provider.descriptor.shared_addresses)
        {
            outcome.ingress.clear();
            // Whoever has the address may go.
            outcome.failure = Some(Failure::new(Reaction::Conflict, message));
        }
        outcome
    }

    fn refused(&self, service: &Service, places: &[Ingress], shared: SharedAddresses) -> Option<String> {
        let own: Vec<IpAddr> = ips(&ingress(service)).collect();
        ips(places).find_map(|ip| {
            let clash = self.places.cluster.clash(ip);
            // What it has already was looked at when it came, or came from another manager.
            let clash = clash.or_else(|| self.held_by(service, ip, shared).filter(|_| !own.contains(&ip)))?;
            Some(format!(
                "the provider gives the address {ip}, which is {clash}; it is not written: {}",
                way_out(&clash)
            ))
        })
    }

    /// Who else has an address, and does not share it.
    fn held_by(&self, service: &Service, ip: IpAddr, shared: SharedAddresses) -> Option<AddressClash> {
        let is_at = |text: &str| text.parse::<IpAddr>().is_ok_and(|known| known.to_canonical() == ip);
        let node = || self.places.nodes.find(|node| node.addresses.iter().any(|(_, text)| is_at(text)));
        if !shared.nodes
            && let Some(node) = node()
        {
            return Some(AddressClash::Node(node.name_any()));
        }
        let name = |other: &Service| ObjectRef::from_obj(other).object_name();
        if let Some(other) = self.store.find(|other| cluster_ips(other).any(|known| known == ip)) {
            return Some(AddressClash::ClusterIp(name(&other)));
        }
        let has = |other: &Service| {
            other.metadata.uid != service.metadata.uid
                && is_load_balancer(other)
                && !is_deleting(other)
                && ips(&ingress(other)).any(|known| known == ip)
                && !self.has_given_up(other)
        };
        let other = if shared.services { None } else { self.store.find(has) };
        other.map(|other| AddressClash::LoadBalancer(name(&other)))
    }

    /// Whether the load balancer of a Service is free to be another's, while the status still names it: people gave it up, in the words of the
    /// host or in those of the provider.
    fn has_given_up(&self, service: &Service) -> bool {
        let is_elsewhere = || self.memory.with(&key(service), |entry| entry.is_elsewhere());
        annotation(service, ORPHAN).is_some_and(|orphan| !orphan.is_empty()) || is_elsewhere() == Some(true)
    }
}

fn ips(places: &[Ingress]) -> impl Iterator<Item = IpAddr> {
    places.iter().filter_map(|place| place.ip.as_deref()?.parse().ok()).map(|ip: IpAddr| ip.to_canonical())
}

const fn way_out(clash: &AddressClash) -> &'static str {
    match clash {
        AddressClash::Node(_) => {
            "correct the load balancer in the cloud; where Nodes are the load balancers, the provider declares shared-addresses \
             with nodes, and --allow-shared-address=nodes grants it"
        }
        AddressClash::LoadBalancer(_) => {
            "correct the load balancer in the cloud; where Services share load balancers, the provider declares shared-addresses \
             with services, and --allow-shared-address=services grants it"
        }
        AddressClash::ServiceRange(_) => {
            "correct the load balancer in the cloud, or --service-cluster-ip-range if that is not the range of Services"
        }
        AddressClash::NoPlace(_) | AddressClash::ClusterIp(_) | AddressClash::ApiServer => {
            "correct the load balancer in the cloud, or replace the provider"
        }
    }
}
