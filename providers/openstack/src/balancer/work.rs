//! What every call about a load balancer needs.

use std::collections::BTreeSet;

use ccm_sdk::types::{Backend, Failure, Ingress, IpFamily, IpMode, Problem, Service};

use crate::annotations as names;
use crate::api::octavia::Balancer;
use crate::config::Config;
use crate::desired::{self, Parts, Port};
use crate::names as marks;
use crate::service_spec::selector::Selector;
use crate::service_spec::{self, Ranges, ServiceSpec};

/// What the host tells.
#[derive(Clone)]
pub(crate) struct Host {
    /// The cluster's name.
    pub(crate) cluster: String,
    /// Provider IDs of the cluster's Nodes, at most so many, the likeliest to be there first.
    pub(crate) provider_ids: fn(u32) -> Result<Vec<String>, String>,
    /// Names of the Nodes that a label selector matches.
    pub(crate) matching: fn(&str) -> Result<Vec<String>, String>,
}

/// A Service, and what it asks for.
pub(super) struct Work<'a> {
    pub(super) config: &'a Config,
    pub(super) host: &'a Host,
    pub(super) service: &'a Service,
    pub(super) spec: ServiceSpec,
    /// What it asks for can be. Otherwise nothing but the members follows.
    is_sound: bool,
    /// Octavia's provider of the load balancer.
    is_ovn: bool,
}

impl<'a> Work<'a> {
    pub(super) fn read(config: &'a Config, host: &'a Host, service: &'a Service) -> (Self, Vec<Problem>) {
        Self::read_for(service_spec::is_ovn(&config.balancers.provider), config, host, service)
    }

    fn read_for(is_ovn: bool, config: &'a Config, host: &'a Host, service: &'a Service) -> (Self, Vec<Problem>) {
        let (spec, problems) = service_spec::read_for(is_ovn, config, &host.cluster, service);
        let is_sound = !problems.iter().any(|problem| problem.fatal);
        (Self { config, host, service, spec, is_sound, is_ovn }, problems)
    }

    /// What a load balancer can be depends on its own provider, not on the one that the configuration has for new ones.
    pub(super) fn suit(&mut self, balancer: Option<&Balancer>, problems: &mut Vec<Problem>) {
        let own = balancer.map(|balancer| balancer.provider.as_str()).filter(|own| !own.is_empty());
        let is_ovn = own.map_or(self.is_ovn, service_spec::is_ovn);
        if is_ovn != self.is_ovn {
            (*self, *problems) = Self::read_for(is_ovn, self.config, self.host, self.service);
        }
    }

    /// What is remembered of a load balancer is remembered for a Service: others may share it.
    pub(super) fn uid(&self) -> &str {
        &self.service.uid
    }

    pub(super) const fn is_sound(&self) -> bool {
        self.is_sound
    }

    pub(super) const fn is_ovn(&self) -> bool {
        self.is_ovn
    }

    /// Whether it can be read whom the security group lets in where that is the source ranges alone, whatever else is wrong.
    pub(super) fn has_ranges(&self) -> bool {
        self.is_ovn && self.spec.ranges != Ranges::Only(vec![])
    }

    /// The Nodes that are members.
    ///
    /// # Errors
    ///
    /// The host does not know the Nodes' labels yet.
    pub(super) fn chosen<'b>(&self, backends: &'b [Backend]) -> Result<Vec<&'b Backend>, Failure> {
        let selector = match &self.spec.selector {
            Selector::All => return Ok(backends.iter().collect()),
            Selector::Nobody => return Ok(vec![]),
            Selector::Matching(selector) => selector,
        };
        let names = (self.host.matching)(selector).map_err(|wrong| {
            Failure::retry(format!("annotation {} or node-selector: {wrong}", names::NODE_SELECTOR))
                .annotation(names::NODE_SELECTOR)
        })?;
        // There may be thousands of each.
        let names: BTreeSet<String> = names.into_iter().collect();
        Ok(backends.iter().filter(|backend| names.contains(&backend.name)).collect())
    }

    /// The family of the load balancer's address.
    pub(super) fn family(&self, balancer: Option<&Balancer>) -> IpFamily {
        match balancer {
            Some(balancer) if balancer.vip_address.contains(':') => IpFamily::Ipv6,
            Some(balancer) if !balancer.vip_address.is_empty() => IpFamily::Ipv4,
            _ => self.spec.family.unwrap_or(IpFamily::Ipv4),
        }
    }

    /// The subnet of members. `found` is that of the load balancer's address, where nobody named one.
    pub(super) fn member_subnet<'s>(&'s self, found: Option<&'s str>) -> Option<&'s str> {
        let place = &self.spec.place;
        let named = place.member_subnet.as_deref().or(place.subnet.as_deref());
        // A network or a port that was named leads to the members by itself.
        let is_led = place.network.is_some() || place.port.is_some();
        named.or_else(|| found.filter(|found| !is_led && !found.is_empty()))
    }

    /// What an existing load balancer should be.
    pub(super) fn ports(&self, balancer: &Balancer, backends: &[&Backend]) -> Vec<Port> {
        self.parts(Some(balancer), Some(&balancer.vip_subnet_id)).ports(self.service, backends)
    }

    pub(super) fn parts<'s>(&'s self, balancer: Option<&Balancer>, subnet: Option<&'s str>) -> Parts<'s> {
        Parts {
            spec: &self.spec,
            is_ovn: self.is_ovn,
            family: self.family(balancer),
            member_subnet: self.member_subnet(subnet),
        }
    }

    /// Whether the load balancer was made for this Service, whoever else uses it.
    pub(super) fn is_owner(&self, balancer: &Balancer) -> bool {
        let names = &self.spec.names;
        let is_named = names.is_name(&balancer.name)
            // Before the cluster had another name.
            || (balancer.tags.contains(&names.uid) && names.renamed(&balancer.name).as_ref() == Some(&names.balancer));
        is_named && (names.are_own(&balancer.tags) || names.other_uids(&balancer.tags).is_empty())
    }

    /// Whether a load balancer was made by this provider or by the Go manager, for whatever Service.
    pub(super) fn is_made(&self, balancer: &Balancer) -> bool {
        balancer.name.starts_with(marks::PREFIX) || balancer.name == self.spec.names.legacy
    }

    /// Whether something of a load balancer is this Service's, by its tags.
    pub(super) fn is_own(&self, balancer: &Balancer, tags: &[String]) -> bool {
        self.spec.names.are_own(tags) || (tags.is_empty() && self.is_owner(balancer))
    }

    /// The name that something of this Service is to have.
    pub(super) fn name_of(&self, name: &str) -> String {
        self.spec.names.renamed(name).unwrap_or_else(|| name.to_owned())
    }

    /// Where clients reach the Service.
    pub(super) fn ingress(&self, address: &str) -> Vec<Ingress> {
        let balancers = &self.config.balancers;
        let ingress = match (&self.spec.hostname, self.spec.proxy.is_some()) {
            (Some(name), _) => Ingress::hostname(name.clone()),
            (None, true) if balancers.ingress_hostname => {
                Ingress::hostname(format!("{address}.{}", balancers.ingress_hostname_suffix))
            }
            (None, true) => Ingress::ip(address).proxied(),
            (None, false) => Ingress { ip_mode: Some(IpMode::Vip), ..Ingress::ip(address) },
        };
        vec![ingress]
    }

    /// Nodes that have addresses, but none of a family.
    pub(super) fn unreachable(&self, backends: &[&Backend], family: IpFamily) -> Vec<String> {
        let is_of_others = |backend: &&&Backend| {
            desired::address(backend, None).is_some() && desired::address(backend, Some(family)).is_none()
        };
        backends.iter().filter(is_of_others).map(|backend| backend.name.clone()).collect()
    }
}
