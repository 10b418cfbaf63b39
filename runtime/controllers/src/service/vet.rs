//! Whether the addresses that a provider names can be those of the load balancer of this Service.
//!
//! `status.loadBalancer.ingress` is more than a text: kube-proxy leads what the pods send there to the Service. An address of the API server
//! or of another Service would lead away what is meant for those.

use ccm_cloud::{Failure, Outcome, Reaction};
use k8s_openapi::api::core::v1::Service;

use super::annotations::{ORPHAN, annotation};
use super::job::Job;
use super::key::key;
use super::syncer::Syncer;
use crate::cluster_addresses::{AddressClash, ips};

impl Syncer {
    /// The outcome of a call, or the failure that it is when an address cannot be the Service's. Nothing is taken away from the Service then.
    pub(crate) fn vetted(&self, job: &Job, mut outcome: Outcome) -> Outcome {
        if outcome.failure.is_some() {
            return outcome;
        }
        let (wanted, shared) = (ips(&outcome.ingress).collect::<Vec<_>>(), job.provider.descriptor.shared_addresses);
        let taken = self.addresses.take_for(&job.service, &wanted, shared, |other| self.has_given_up(other));
        if let Err((ip, clash)) = taken {
            outcome.ingress.clear();
            let way_out = way_out(&clash);
            let message =
                format!("the provider gives the address {ip}, which is {clash}; it is not written: {way_out}");
            // Whoever has the address may go.
            outcome.failure = Some(Failure::new(Reaction::Conflict, message));
        }
        outcome
    }

    /// Whether the load balancer of a Service is free to be another's, while the status still names it: people gave it up, in the words of the
    /// host or in those of the provider.
    fn has_given_up(&self, service: &Service) -> bool {
        let is_elsewhere = || self.memory.with(&key(service), |entry| entry.is_elsewhere());
        annotation(service, ORPHAN).is_some_and(|orphan| !orphan.is_empty()) || is_elsewhere() == Some(true)
    }
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
        AddressClash::ExternalIp(_) => {
            "correct the load balancer in the cloud, or take the address out of that Service; where Services share addresses, the provider \
             declares shared-addresses with services, and --allow-shared-address=services grants it"
        }
        AddressClash::PodRange(_) => {
            "correct the load balancer in the cloud, or --cluster-cidr if that is wider than the range of pods"
        }
        AddressClash::ServiceRange(_) => {
            "correct the load balancer in the cloud, or --service-cluster-ip-range if that is not the range of Services"
        }
        AddressClash::Reserved(_) => {
            "correct the load balancer in the cloud, or --reserved-address if nobody else has the address"
        }
        AddressClash::NoPlace(_) | AddressClash::ClusterIp(_) | AddressClash::ApiServer => {
            "correct the load balancer in the cloud, or replace the provider"
        }
    }
}
