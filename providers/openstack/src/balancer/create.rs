//! Makes a load balancer with all that it is made of in one request.

use std::time::Duration;

use ccm_sdk::types::{Backend, Failure, Ingress, IpFamily};
use ccm_sdk::{Done, cache};
use serde_json::{Value, json};

use super::work::Work;
use super::{groups, refusal, seen};
use crate::annotations as names;
use crate::api::octavia;
use crate::api::ports;
use crate::desired::{self, Port};
use crate::find::Servers;

/// How long a request without an answer may still make one.
const UNHEARD: Duration = Duration::from_secs(60);
/// When to look for it.
pub(super) const LOOK: Duration = Duration::from_secs(5);
/// When to look at one that is being made.
const MADE: Duration = Duration::from_secs(2);

fn new(balancer: &str) -> String {
    format!("new/{balancer}")
}

/// Whether it was made so short a time ago that a copy of Octavia's database may not have it yet.
pub(super) fn is_new(balancer: &str) -> bool {
    cache::get(&new(balancer)).is_some()
}

/// It is deleted: if it is not there, that is why.
pub(super) fn is_no_more_new(balancer: &str) {
    cache::forget(&new(balancer));
}

/// How long it is remembered that nobody has been served.
const UNSERVED: Duration = Duration::from_secs(3_600);

fn unserved(balancer: &str) -> String {
    format!("unserved/{balancer}")
}

/// Whether it was made here, and its address has never been published.
pub(super) fn is_unserved(balancer: &str) -> bool {
    cache::get(&unserved(balancer)).is_some()
}

/// Its address is published.
pub(super) fn serves(balancer: &str) {
    cache::forget(&unserved(balancer));
}

/// Most bytes of a request: the host takes a megabyte.
const MOST_BYTES: usize = 900_000;

/// Nodes whose ports are asked for to find out which subnet they are in.
const LOOKED_AT: usize = 5;

impl Work<'_> {
    /// Asks for a new one. Always ends with a failure: until it is there, with `pending`.
    pub(super) fn create(&self, backends: &[&Backend], done: &mut Done) -> Result<Vec<Ingress>, Failure> {
        let asked = self.asked();
        if cache::get(&asked).is_some() {
            return Err(Failure::retry(self.may_show()).after(LOOK));
        }
        let subnet = self.subnet(backends)?;
        let ports = self.parts(None, subnet.as_deref()).ports(self.service, backends);
        let body = self.body(&ports, subnet.as_deref());
        cache::put(&asked, b"", UNHEARD);
        let answer = match octavia::create(&body).attempt() {
            Ok(answer) => answer,
            Err(unanswered) => {
                if !unanswered.maybe_sent {
                    cache::forget(&asked);
                }
                return Err(unanswered.failure);
            }
        };
        let is_server_trouble = answer.status() >= 500 && !refusal::is_no(&answer);
        let created = refusal::judged(answer, self.service).and_then(octavia::created);
        // What is to blame has a name: the answer was clear.
        let is_clear = created.as_ref().map_or_else(|failure| failure.field.is_some(), |_| true);
        if !is_server_trouble || is_clear {
            cache::forget(&asked);
        }
        let balancer = created.map_err(|failure| {
            failure.context(format_args!("error creating loadbalancer {}", self.spec.names.balancer))
        })?;
        done.changed(format!("made load balancer {}", balancer.id));
        done.annotate(names::ID, balancer.id.as_str());
        cache::put(&new(&balancer.id), b"", UNHEARD);
        cache::put(&unserved(&balancer.id), b"", UNSERVED);
        groups::begins(self.service);
        if !balancer.vip_address.is_empty() && self.service.annotation(names::ADDRESS).is_none() {
            // It also says that the ID was not written by a person. The address of before leads to its floating IP.
            done.annotate(names::ADDRESS, balancer.vip_address.as_str());
        }
        if body.get("listeners").is_some() {
            seen::believe(&balancer.id, self.uid(), &ports);
        }
        Err(Failure::pending(format!("load balancer {} is being made", balancer.id)).after(MADE))
    }

    fn may_show(&self) -> String {
        format!(
            "the request for load balancer {} had no answer, and Octavia may still make it; looked for again in {} s",
            self.spec.names.balancer,
            LOOK.as_secs()
        )
    }

    fn asked(&self) -> String {
        format!("asked/{}", self.service.uid)
    }

    /// What was asked for shows.
    pub(super) fn heard(&self) {
        cache::forget(&self.asked());
    }

    /// Before it is said that there is none.
    ///
    /// # Errors
    ///
    /// One was asked for without an answer, and may still be made.
    pub(super) fn await_unheard(&self) -> Result<(), Failure> {
        match cache::get(&self.asked()) {
            Some(_) => Err(Failure::pending(self.may_show()).after(LOOK)),
            None => Ok(()),
        }
    }

    /// Where nobody says, the subnet of the first Node whose address is found in one.
    fn subnet(&self, backends: &[&Backend]) -> Result<Option<String>, Failure> {
        let place = &self.spec.place;
        if place.subnet.is_some() || place.network.is_some() || place.port.is_some() {
            return Ok(None);
        }
        let servers = Servers::new(self.config);
        let of_server = |backend: &&&Backend| {
            let id = ccm_sdk::find::Machines::id_of(&servers, backend.provider_id.as_deref()?).ok()?;
            Some((id, desired::address(backend, Some(self.family(None)))?))
        };
        let looked: Vec<_> = backends.iter().filter_map(|backend| of_server(&backend)).take(LOOKED_AT).collect();
        let ids: Vec<&str> = looked.iter().map(|(id, _)| id.as_str()).collect();
        let found = ports::of_servers(&ids, Duration::from_secs(60))?;
        let at = |address| {
            let fixed = found.iter().flat_map(|port| &port.fixed_ips);
            fixed.clone().find(|fixed| fixed.ip_address.parse() == Ok(address)).map(|fixed| fixed.subnet_id.clone())
        };
        let subnet = looked.iter().find_map(|(_, address)| at(*address));
        subnet.map(Some).ok_or_else(|| {
            Failure::retry(format!(
                "failed to get subnet to create load balancer for service {}: no Node has an address that is found on its server's ports; set subnet-id or network-id in [LoadBalancer], or annotation {}",
                self.service.full_name(),
                names::SUBNET
            ))
        })
    }

    pub(super) fn body(&self, ports: &[Port], found: Option<&str>) -> Value {
        let (spec, balancers) = (&self.spec, &self.config.balancers);
        let mut body = json!({
            "name": spec.names.balancer, "description": spec.names.description(), "tags": spec.names.tags(),
        });
        let is_v6 = self.family(None) == IpFamily::Ipv6;
        let address = spec.address.as_deref().filter(|_| spec.internal || is_v6);
        let by_port = spec.place.port.is_some();
        for (key, value) in [
            // Without one Octavia takes its own default.
            ("provider", Some(balancers.provider.as_str()).filter(|provider| !provider.is_empty())),
            ("vip_port_id", spec.place.port.as_deref()),
            ("vip_subnet_id", spec.place.subnet.as_deref().or(found).filter(|_| !by_port)),
            ("vip_network_id", spec.place.network.as_deref().filter(|_| !by_port)),
            ("vip_address", address.filter(|_| !by_port)),
            ("flavor_id", spec.flavor.as_deref()),
            ("availability_zone", spec.availability_zone.as_deref()),
        ] {
            if let (Some(value), Some(body)) = (value, body.as_object_mut()) {
                body.insert(key.to_owned(), json!(value));
            }
        }
        if balancers.serial {
            return body;
        }
        let with = |members: bool| {
            let mut body = body.clone();
            if let Some(body) = body.as_object_mut() {
                body.insert("listeners".to_owned(), ports.iter().map(|port| tree(port, members)).collect());
            }
            body
        };
        let whole = with(true);
        // Members then come pool by pool.
        if serde_json::to_string(&whole).is_ok_and(|text| text.len() > MOST_BYTES) { with(false) } else { whole }
    }
}

/// A listener with its pool, the pool with its members and their monitor.
fn tree(port: &Port, members: bool) -> Value {
    let mut pool = json!(port.pool);
    if let Some(pool) = pool.as_object_mut() {
        if members && !port.members.is_empty() {
            pool.insert("members".to_owned(), json!(port.members));
        }
        if let Some(monitor) = &port.monitor {
            pool.insert("healthmonitor".to_owned(), json!(monitor));
        }
    }
    let mut listener = json!(port.listener);
    if let Some(listener) = listener.as_object_mut() {
        listener.insert("default_pool".to_owned(), pool);
    }
    listener
}
