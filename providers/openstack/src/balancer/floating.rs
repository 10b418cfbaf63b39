//! The address of a load balancer: its own, or a floating IP on its port.
//!
//! | floating IP | what becomes of it |
//! |---|---|
//! | on the port already | stays, whoever put it there |
//! | asked for by `spec.loadBalancerIP`, and free | is attached |
//! | that the Service had before, and free | is attached again |
//! | none | is made |
//! | made for the load balancer's Service, when it becomes internal or goes | is deleted, unless it is to be kept |
//! | of somebody else, then | is detached |
//! | made for the Service, and free when it goes | is deleted; of the Go manager only where the Service had its address |
//!
//! The Go manager's descriptions name cluster and Service, and two clusters may have the same name.

use std::net::IpAddr;
use std::time::Duration;

use ccm_sdk::types::{Failure, Reaction};
use ccm_sdk::{Done, cache};
use serde_json::{Map, Value, json};

use super::done::{FORCED_INTERNAL, IMMUTABLE, NO_FLOATING_IP, NO_NETWORK, SPARED};
use super::refusal;
use super::work::Work;
use crate::annotations as names;
use crate::api::floating_ips::{self, FloatingIp};
use crate::api::octavia::Balancer;
use crate::names::{is_floating_ip_of, is_floating_ip_of_namesake};
use crate::service_spec::place::Choice;
use crate::subnet_match::Pattern;

/// How long the external network of the project is believed.
const NETWORK: Duration = Duration::from_secs(600);
const NETWORK_KEY: &str = "external-network";

impl Work<'_> {
    /// The address that clients come to.
    ///
    /// # Errors
    ///
    /// There is none yet, or cannot be.
    pub(super) fn address(&self, balancer: &Balancer, done: &mut Done) -> Result<String, Failure> {
        let vip = &balancer.vip_address;
        if vip.is_empty() {
            return Err(Failure::pending(format!("load balancer {} has no address yet", balancer.id)));
        }
        let is_v6 = vip.contains(':');
        if let Some(asked) = self.asked_beside(vip).filter(|_| self.spec.internal || is_v6) {
            let message = format!(
                "spec.loadBalancerIP asks for {asked}, and load balancer {} keeps its address {vip}: delete the Service, and make it anew, for another one",
                balancer.id
            );
            done.warn(IMMUTABLE, message);
        }
        if is_v6 || balancer.vip_port_id.is_empty() {
            if !self.spec.internal {
                done.warn(
                    NO_FLOATING_IP,
                    format!("there are no floating IPs for the IPv6 address {vip}, which is published"),
                );
            }
            return Ok(vip.clone());
        }
        let found = floating_ips::with("port_id", &balancer.vip_port_id)?.into_iter().next();
        match (found, self.spec.internal) {
            (Some(floating), true) => {
                let others = self.spec.names.others(&balancer.tags);
                if !self.is_owner(balancer) || !others.is_empty() {
                    let (whose, until) = match others.is_empty() {
                        true => ("was not made for this Service".to_owned(), ""),
                        false => (format!("is that of {} too", others.join(", ")), ", or wait until they have left it"),
                    };
                    let message = format!(
                        "load balancer {} cannot become internal and lose its address {}: it {whose}; set annotation {} to false{until}",
                        balancer.id,
                        floating.address,
                        names::INTERNAL
                    );
                    return Err(Failure::invalid(message).annotation(names::INTERNAL));
                }
                self.release(&floating, balancer, done)?;
                Ok(vip.clone())
            }
            (None, true) => Ok(vip.clone()),
            (Some(floating), false) => {
                if let Some(asked) = self.asked_beside(&floating.address) {
                    let message = format!(
                        "spec.loadBalancerIP asks for {asked}, and the load balancer keeps its floating IP {}: delete that in the cloud for another one",
                        floating.address
                    );
                    done.warn(IMMUTABLE, message);
                }
                Ok(floating.address)
            }
            (None, false) => self.new_floating_ip(balancer, done),
        }
    }

    /// The address that the Service asks for, where it is not this one.
    fn asked_beside(&self, address: &str) -> Option<&str> {
        let asked = self.spec.address.as_deref()?;
        (asked.parse::<IpAddr>().ok() != address.parse().ok()).then_some(asked)
    }

    /// Whether a load balancer is to be reached by a floating IP, where there is an external network.
    pub(super) fn wants_floating_ip(&self, balancer: &Balancer) -> bool {
        let vip = &balancer.vip_address;
        !self.spec.internal && !vip.is_empty() && !vip.contains(':') && !balancer.vip_port_id.is_empty()
    }

    /// Whether the floating IP of a load balancer was made for its Service. The last Service of a shared one, whose owner has gone, has what
    /// was made for that one.
    fn is_made_for(&self, floating: &FloatingIp, balancer: &Balancer) -> bool {
        let spec_names = &self.spec.names;
        let is_heir = balancer.name != spec_names.balancer;
        spec_names.is_own_floating_ip(&floating.description)
            || (is_heir && is_floating_ip_of(&floating.description, &balancer.name))
    }

    /// Away from the load balancer.
    fn release(&self, floating: &FloatingIp, balancer: &Balancer, done: &mut Done) -> Result<(), Failure> {
        if self.is_made_for(floating, balancer) && !self.spec.keeps_floating_ip {
            floating_ips::delete(&floating.id)?;
            done.changed(format!("deleted floating IP {}", floating.address));
        } else {
            floating_ips::attach(&floating.id, None)?;
            done.changed(format!("detached floating IP {}", floating.address));
        }
        Ok(())
    }

    /// Before the load balancer goes: that of somebody else, and one to be kept, is free afterwards. The last Service of a shared one deletes
    /// what was made for another.
    pub(super) fn delete_floating_ip(&self, balancer: &Balancer, done: &mut Done) -> Result<(), Failure> {
        if self.spec.keeps_floating_ip || balancer.vip_port_id.is_empty() {
            return Ok(());
        }
        for floating in floating_ips::with("port_id", &balancer.vip_port_id)? {
            if self.is_made_for(&floating, balancer) {
                floating_ips::delete(&floating.id)?;
                done.changed(format!("deleted floating IP {}", floating.address));
            } else if is_floating_ip_of_namesake(&floating.description, &balancer.name) {
                let message = format!(
                    "floating IP {} stays: its description has the name of another cluster than {}; delete it if this cluster was called so when the floating IP was made",
                    floating.address, self.host.cluster
                );
                done.warn(SPARED, message);
            }
        }
        Ok(())
    }

    /// What a load balancer left that went without its Service.
    pub(super) fn delete_left_floating_ips(&self, done: &mut Done) -> Result<(), Failure> {
        if self.spec.keeps_floating_ip {
            return Ok(());
        }
        let spec_names = &self.spec.names;
        let (own, of_go) = (spec_names.floating_ip(), spec_names.floating_ip_of_go());
        let had = self.addresses();
        for floating in floating_ips::described(&[&own, &of_go])? {
            let is_free = floating.port_id.as_deref().is_none_or(str::is_empty);
            let is_proved = floating.description == own || had.contains(&floating.address.as_str());
            if !is_free || !spec_names.is_own_floating_ip(&floating.description) {
                continue;
            }
            if !is_proved {
                let message = format!(
                    "floating IP {} stays: its description names this Service, and nothing says that it is not that of a Service in another cluster with the name {}; delete it if nobody needs it",
                    floating.address, self.host.cluster
                );
                done.warn(SPARED, message);
                continue;
            }
            floating_ips::delete(&floating.id)?;
            done.changed(format!("deleted floating IP {}", floating.address));
        }
        Ok(())
    }

    fn new_floating_ip(&self, balancer: &Balancer, done: &mut Done) -> Result<String, Failure> {
        if !self.is_owner(balancer) {
            let message = format!(
                "cannot attach a floating IP to load balancer {} for the shared Service {}, only owner Service can do that: set the floating IP on {}",
                balancer.id,
                self.service.full_name(),
                crate::names::service_of(&balancer.name)
                    .map_or("that".to_owned(), |owner| format!("the owner, {owner}"))
            );
            return Err(Failure::conflict(message));
        }
        let mut before = self.addresses();
        before.retain(|address| *address != balancer.vip_address);
        let asked = self.spec.address.as_deref().map(|address| (address, true));
        for (address, asked) in asked.into_iter().chain(before.iter().map(|address| (*address, false))) {
            let found = floating_ips::with("floating_ip_address", address)?.into_iter().next();
            let Some(found) = found.filter(|found| asked || self.spec.names.is_own_floating_ip(&found.description))
            else {
                continue;
            };
            if found.port_id.as_deref().is_none_or(str::is_empty) {
                floating_ips::attach(&found.id, Some(&balancer.vip_port_id))?;
                done.changed(format!("attached floating IP {address}"));
                return Ok(found.address);
            }
            if asked {
                let message = format!(
                    "floating IP {address} is not available: port {} has it; choose another address, or detach it from that port",
                    found.port_id.unwrap_or_default()
                );
                return Err(Failure::conflict(message).field(refusal::ADDRESS).after(refusal::SOON));
            }
        }
        if let Some(own) = self.former_floating_ip()? {
            floating_ips::attach(&own.id, Some(&balancer.vip_port_id))?;
            done.changed(format!("attached floating IP {}", own.address));
            return Ok(own.address);
        }
        let Some(network) = self.network(done)? else { return Ok(balancer.vip_address.clone()) };
        self.make(&network, balancer, done)
    }

    /// That of a Service that was published before: a status of host names does not say its address. By the description that nobody else has.
    fn former_floating_ip(&self) -> Result<Option<FloatingIp>, Failure> {
        if self.spec.address.is_some() || self.service.ingress.is_empty() {
            return Ok(None);
        }
        let description = self.spec.names.floating_ip();
        let is_it = |floating: &FloatingIp| {
            floating.description == description && floating.port_id.as_deref().is_none_or(str::is_empty)
        };
        Ok(floating_ips::with("description", &description)?.into_iter().find(is_it))
    }

    /// The external network; none is told.
    pub(super) fn network(&self, done: &mut Done) -> Result<Option<String>, Failure> {
        if let Some(network) = &self.spec.floating.network {
            return Ok(Some(network.clone()));
        }
        if let Some(network) = cache::get_json(NETWORK_KEY) {
            return Ok(Some(network));
        }
        for network in floating_ips::external_networks()?.into_iter().filter(|network| !network.subnets.is_empty()) {
            let seen = floating_ips::subnets(&network.id)?;
            // Subnets of a network that is not shared are not seen: they may be of any family.
            let fits =
                |id: &String| seen.iter().find(|subnet| subnet.id == *id).is_none_or(|subnet| subnet.ip_version == 4);
            if network.subnets.iter().any(fits) {
                cache::put_json(NETWORK_KEY, &network.id, NETWORK);
                return Ok(Some(network.id));
            }
        }
        let message =
            "no external network with an IPv4 subnet is seen; name one with floating-network-id in [LoadBalancer]";
        done.warn(NO_NETWORK, message);
        done.warn(FORCED_INTERNAL, format!("the load balancer has no floating IP: {message}"));
        Ok(None)
    }

    fn make(&self, network: &str, balancer: &Balancer, done: &mut Done) -> Result<String, Failure> {
        let subnets: Vec<Option<String>> = match &self.spec.floating.choice {
            Choice::Any => vec![None],
            Choice::Subnet(id) => {
                self.check_subnet(network, id)?;
                vec![Some(id.clone())]
            }
            Choice::Matching(..) if self.spec.address.is_some() => vec![None],
            Choice::Matching(name, tags) => {
                let by = &self.spec.floating.by;
                let pattern = Pattern::parse(name, tags).map_err(|wrong| self.wrong_pattern(&wrong))?;
                let all = floating_ips::subnets(network)?;
                let matching: Vec<_> = all
                    .into_iter()
                    .filter(|subnet| subnet.ip_version == 4 && pattern.matches(&subnet.name, &subnet.tags))
                    .collect();
                if matching.is_empty() {
                    let failure = Failure::retry(format!(
                        "no subnet matching {name:?}, tags {tags:?} found for network {network}"
                    ));
                    return Err(match by.place("floating-subnet") {
                        None => failure.annotation(names::FLOATING_SUBNET),
                        Some(place) => failure.context(place),
                    });
                }
                matching.into_iter().map(|subnet| Some(subnet.id)).collect()
            }
        };
        let mut last = None;
        for subnet in &subnets {
            let mut body = Map::new();
            for (key, value) in [
                ("floating_network_id", Some(network)),
                ("port_id", Some(balancer.vip_port_id.as_str())),
                ("description", Some(self.spec.names.floating_ip().as_str())),
                ("subnet_id", subnet.as_deref()),
                ("floating_ip_address", self.spec.address.as_deref()),
            ] {
                body.extend(value.map(|value| (key.to_owned(), json!(value))));
            }
            let answer = floating_ips::create(&Value::Object(body))?;
            let is_forbidden = answer.status() == 403;
            let is_full = crate::api::neutron_type(&answer).is_some_and(|kind| kind == "IpAddressGenerationFailure");
            match floating_ips::created(answer) {
                Ok(floating) => {
                    done.changed(format!("made floating IP {}", floating.address));
                    return Ok(floating.address);
                }
                // Only a subnet that is full leads to the next one.
                Err(failure) if is_full => last = Some(failure),
                Err(failure) => {
                    let failure = failure.context("failed to create floating IP");
                    return Err(match &self.spec.address {
                        // One field of one Service: the credentials are good for everything else.
                        Some(address) if is_forbidden && failure.reaction == Reaction::Unauthorized => {
                            let wrong = "the cloud does not let this user choose the address";
                            let way_out = "take spec.loadBalancerIP off, or have the right granted";
                            Failure::retry(format!("{wrong} {address}; {way_out}: {}", failure.message))
                                .field(refusal::ADDRESS)
                                .after(refusal::SLOWLY)
                        }
                        // Somebody has it, and may give it up.
                        Some(_) if failure.reaction == Reaction::Conflict => {
                            failure.field(refusal::ADDRESS).after(refusal::SOON)
                        }
                        _ => failure,
                    });
                }
            }
        }
        let failure = last.unwrap_or_else(|| Failure::retry("there is no subnet"));
        Err(failure.context("no free subnet for a floating IP (last error)"))
    }

    /// Before a load balancer is made that cannot be published. One that was published has a floating IP, which comes to the new one.
    ///
    /// # Errors
    ///
    /// The pattern of subnets for its floating IP is none.
    pub(super) fn check_pattern(&self) -> Result<(), Failure> {
        let is_new = self.service.ingress.is_empty();
        let wrong = self.spec.wrong_pattern().filter(|_| is_new && self.spec.seeks_subnets());
        wrong.map_or(Ok(()), |wrong| Err(self.wrong_pattern(&wrong)))
    }

    fn wrong_pattern(&self, wrong: &str) -> Failure {
        refusal::of_value(names::FLOATING_SUBNET, self.spec.floating.by.place("floating-subnet"), wrong)
    }

    fn check_subnet(&self, network: &str, id: &str) -> Result<(), Failure> {
        match floating_ips::subnet(id)? {
            Some(subnet) if subnet.network_id != network => {
                let message = format!("floating IP subnet {id:?} doesn't belong to the network {network:?}");
                let place = self.spec.floating.by.place("floating-subnet-id");
                Err(refusal::of_value(names::FLOATING_SUBNET_ID, place, &message))
            }
            // One that is not seen is for the cloud to judge.
            _ => Ok(()),
        }
    }
}
