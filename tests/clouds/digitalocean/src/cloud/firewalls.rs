//! Firewalls of machines.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};

use super::reply::{page, read};
use super::{Ask, Cloud, Reply};
use crate::clock::{Clock, Moment};

/// A firewall.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Firewall {
    /// UUID.
    pub id: String,
    /// What it was asked to be.
    pub spec: FirewallSpec,
    created: Moment,
    settled: Moment,
}

/// What a firewall is asked to be.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FirewallSpec {
    /// Unique.
    pub name: String,
    /// What is let in.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub inbound_rules: Vec<FirewallRule>,
    /// What is let out.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub outbound_rules: Vec<FirewallRule>,
    /// Machines that have it.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub droplet_ids: Vec<u64>,
    /// Machines with one of these tags have it.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub tags: Vec<String>,
}

/// One rule of a firewall.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FirewallRule {
    /// `tcp`, `udp`, `icmp`.
    pub protocol: String,
    /// A port, a range; `0`: all.
    #[serde(default)]
    pub ports: String,
    /// From where, of an inbound rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sources: Option<Peers>,
    /// To where, of an outbound rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destinations: Option<Peers>,
}

/// The other ends.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peers {
    /// Addresses and CIDRs.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "null_is_empty")]
    pub addresses: Vec<String>,
    /// Machines with one of these tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "null_is_empty")]
    pub tags: Vec<String>,
    /// Machines.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "null_is_empty")]
    pub droplet_ids: Vec<u64>,
    /// Load balancers.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "null_is_empty")]
    pub load_balancer_uids: Vec<String>,
    /// Clusters.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "null_is_empty")]
    pub kubernetes_ids: Vec<String>,
}

impl FirewallSpec {
    /// Of its machines, and of the other ends.
    fn all_tags(&self) -> impl Iterator<Item = &String> {
        let rules = self.inbound_rules.iter().chain(&self.outbound_rules);
        let peers = rules.flat_map(|rule| rule.sources.iter().chain(&rule.destinations));
        self.tags.iter().chain(peers.flat_map(|peers| &peers.tags))
    }
}

fn null_is_empty<'a, T: Deserialize<'a>, D: Deserializer<'a>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

impl Firewall {
    /// Sets come back in another order than they were given: it means nothing.
    fn show(&self, now: Moment, clock: &Clock) -> Value {
        let is_settled = now >= self.settled;
        let pending: Vec<Value> = if is_settled {
            Vec::new()
        } else {
            let change = |id| json!({ "droplet_id": id, "removing": false, "status": "waiting" });
            self.spec.droplet_ids.iter().map(change).collect()
        };
        let rules = |rules: &[FirewallRule]| -> Vec<Value> { rules.iter().map(|rule| json!(rule.turned())).collect() };
        json!({
            "id": self.id,
            "name": self.spec.name,
            "status": if is_settled { "succeeded" } else { "waiting" },
            "created_at": clock.date(self.created),
            "pending_changes": pending,
            "inbound_rules": rules(&self.spec.inbound_rules),
            "outbound_rules": rules(&self.spec.outbound_rules),
            "droplet_ids": self.spec.droplet_ids,
            "tags": turned(&self.spec.tags),
        })
    }
}

impl FirewallRule {
    fn turned(&self) -> Self {
        let peers =
            |peers: &Peers| Peers { addresses: turned(&peers.addresses), tags: turned(&peers.tags), ..peers.clone() };
        Self {
            sources: self.sources.as_ref().map(peers),
            destinations: self.destinations.as_ref().map(peers),
            ..self.clone()
        }
    }
}

fn turned(list: &[String]) -> Vec<String> {
    list.iter().rev().cloned().collect()
}

fn is_port_range(ports: &str) -> bool {
    let port = |text: &str| text.parse::<u16>().is_ok_and(|port| port > 0);
    match ports.split_once('-') {
        Some((low, high)) => port(low) && port(high),
        None => port(ports),
    }
}

impl Cloud {
    /// What it is to be, as it will be shown.
    fn firewall_spec(&self, ask: &Ask<'_>, own: Option<&str>) -> Result<FirewallSpec, Reply> {
        let mut spec: FirewallSpec = read(ask.body)?;
        if self.firewalls.all().any(|other| other.spec.name == spec.name && own != Some(other.id.as_str())) {
            return Err(Reply::refused(409, "duplicate name"));
        }
        if spec.inbound_rules.is_empty() && spec.outbound_rules.is_empty() {
            return Err(Reply::refused(422, "firewall must have at least one rule"));
        }
        for rule in spec.inbound_rules.iter_mut().chain(&mut spec.outbound_rules) {
            if rule.protocol == "icmp" || rule.ports == "all" || rule.ports == "0" {
                rule.ports = "0".to_owned();
            } else if !is_port_range(&rule.ports) {
                return Err(Reply::refused_with_causes(&[format!("invalid ports {:?}", rule.ports)]));
            }
        }
        // The document says that they must exist, and not what is answered when they do not.
        if let Some(tag) = spec.all_tags().find(|tag| !self.has_tag(tag)) {
            return Err(Reply::refused(422, format!("tag {tag} does not exist")));
        }
        if let Some(id) = spec.droplet_ids.iter().find(|id| self.droplets.get(*id).is_none()) {
            return Err(Reply::refused(422, format!("droplet {id} does not exist")));
        }
        Ok(spec)
    }

    pub(super) fn list_firewalls(&self, ask: &Ask<'_>, clock: &Clock) -> Reply {
        let all: Vec<&Firewall> = self.firewalls.at(ask.listed_at()).collect();
        page(ask, "firewalls", &all, |firewall| firewall.show(ask.now, clock))
    }

    pub(super) fn get_firewall(&self, ask: &Ask<'_>, clock: &Clock) -> Result<Reply, Reply> {
        let firewall = self.firewalls.get(ask.id()).ok_or_else(Reply::absent)?;
        Ok(Reply::one(200, "firewall", firewall.show(ask.now, clock)))
    }

    pub(super) fn create_firewall(&mut self, ask: &Ask<'_>, clock: &Clock) -> Result<Reply, Reply> {
        let spec = self.firewall_spec(ask, None)?;
        let settled = ask.now + ask.settings.firewall_delay;
        let firewall = Firewall { id: self.uuid(), spec, created: ask.now, settled };
        let reply = Reply::one(202, "firewall", firewall.show(ask.now, clock));
        self.firewalls.put(ask.now, firewall.id.clone(), firewall);
        Ok(reply)
    }

    pub(super) fn update_firewall(&mut self, ask: &Ask<'_>, clock: &Clock) -> Result<Reply, Reply> {
        let mut firewall = self.firewalls.get(ask.id()).cloned().ok_or_else(Reply::absent)?;
        firewall.spec = self.firewall_spec(ask, Some(ask.id()))?;
        firewall.settled = ask.now + ask.settings.firewall_delay;
        let reply = Reply::one(200, "firewall", firewall.show(ask.now, clock));
        self.firewalls.put(ask.now, firewall.id.clone(), firewall);
        Ok(reply)
    }

    pub(super) fn delete_firewall(&mut self, ask: &Ask<'_>) -> Result<Reply, Reply> {
        self.firewalls.remove(ask.now, ask.id()).ok_or_else(Reply::absent)?;
        Ok(Reply::nothing())
    }
}
