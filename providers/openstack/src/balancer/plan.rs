//! What has to be written so that a load balancer becomes what its Service asks for.
//!
//! | order | why |
//! |---|---|
//! | tags first | so that whatever comes of it is found |
//! | what the Go manager tagged gets the tag with the UID only before another write | a migration costs the cloud nothing |
//! | pools before listeners, with their members | a listener without a pool refuses clients |
//! | own listeners that are in the way of others go before them | Octavia has one port space for all protocols on TCP |
//! | other own listeners last | clients come until the new one is there |

use std::collections::BTreeSet;
use std::net::IpAddr;

use ccm_sdk::types::Failure;
use serde_json::{Map, Value, json};

use super::seen::Seen;
use super::step::Step;
use super::work::Work;
use crate::api::octavia::{self, Balancer, Thing};
use crate::desired::{self, FORWARDED, Port};

/// All writes that are known now. What needs the ID of something that is not there yet comes with the next plan.
pub(super) fn steps(work: &Work<'_>, balancer: &Balancer, ports: &[Port], seen: &Seen) -> Result<Vec<Step>, Failure> {
    let mut plan = Plan { work, balancer, seen, steps: vec![], last: vec![], used: BTreeSet::new(), waits: false };
    plan.tag();
    let is_own = |listener: &&octavia::Listener| work.is_own(balancer, &listener.tags);
    let (own, others): (Vec<_>, Vec<_>) = seen.listeners.iter().partition(is_own);
    for port in ports {
        let wanted = &port.listener;
        if let Some(other) = others.iter().find(|other| collide(&other.protocol, other.protocol_port, wanted)) {
            let message = format!(
                "the listener port {} already exists on load balancer {}: listener {} is another's",
                wanted.protocol_port, balancer.id, other.id
            );
            return Err(Failure::conflict(message).field("spec.ports"));
        }
    }
    let serves = |listener: &octavia::Listener, port: &Port| {
        (listener.protocol.as_str(), listener.protocol_port) == (&port.listener.protocol, port.listener.protocol_port)
    };
    let going: Vec<_> =
        own.iter().filter(|listener| !ports.iter().any(|port| serves(listener, port))).copied().collect();
    for port in ports {
        plan.port(port, own.iter().find(|listener| serves(listener, port)).copied(), &going, ports);
    }
    for listener in &going {
        plan.leave(listener, &going);
    }
    plan.leave_pools(&going);
    let Plan { mut steps, last, waits, .. } = plan;
    // What serves clients stays until what takes its place is there.
    if !waits {
        steps.extend(last);
    }
    steps.retain(|step| !step.is_refused());
    // What the Go manager has left is taken over without a write. From the first change on, all of it has its tags.
    if work.spec.names.is_of_go(&balancer.tags) && steps.iter().all(Step::is_tags) {
        steps.clear();
    }
    Ok(steps)
}

/// Own listeners: ID, protocol, port, pool.
pub(super) type Known = Vec<(String, String, u16, String)>;

/// Only the members, and whether every port has a listener and a pool for them.
pub(super) fn members(
    work: &Work<'_>,
    balancer: &Balancer,
    ports: &[Port],
    listeners: &Known,
    seen: &Seen,
) -> (Vec<Step>, bool) {
    let mut plan = Plan { work, balancer, seen, steps: vec![], last: vec![], used: BTreeSet::new(), waits: false };
    let mut whole = true;
    for port in ports {
        let it = serving(listeners, &port.listener);
        whole &= it.is_some_and(|(_, protocol, ..)| *protocol == port.listener.protocol);
        if let Some((.., pool)) = it {
            plan.members(port, pool);
        }
    }
    (plan.steps, whole)
}

/// The own listener that hands the clients of a port to a pool. One of another protocol serves the port until it goes.
pub(super) fn serving<'k>(
    listeners: &'k Known,
    wanted: &desired::Listener,
) -> Option<&'k (String, String, u16, String)> {
    let mut all = listeners.iter().filter(|(.., pool)| !pool.is_empty());
    let is_it = |protocol: &str, number| (protocol, number) == (wanted.protocol.as_str(), wanted.protocol_port);
    let it = all.clone().find(|(_, protocol, number, _)| is_it(protocol, *number));
    it.or_else(|| all.find(|(_, protocol, number, _)| collide(protocol, *number, wanted)))
}

/// Whether both cannot be on one load balancer.
fn collide(protocol: &str, port: u16, wanted: &desired::Listener) -> bool {
    let space = |protocol: &str| match protocol {
        "UDP" => 1,
        "SCTP" => 2,
        _ => 0,
    };
    port == wanted.protocol_port && space(protocol) == space(&wanted.protocol)
}

struct Plan<'a> {
    work: &'a Work<'a>,
    balancer: &'a Balancer,
    seen: &'a Seen,
    steps: Vec<Step>,
    last: Vec<Step>,
    /// Pools of ports.
    used: BTreeSet<&'a str>,
    /// A pool is made first, and the rest of its port comes with the next plan.
    waits: bool,
}

impl<'a> Plan<'a> {
    fn tag(&mut self) {
        let tags = self.work.spec.names.with_own(&self.balancer.tags);
        let name = Some(&self.balancer.name).filter(|_| self.work.is_owner(self.balancer));
        let name = name.and_then(|name| self.work.spec.names.renamed(name));
        if tags == self.balancer.tags && name.is_none() {
            return;
        }
        let what = if name.is_some() { "name and tags" } else { "tags" };
        let mut body = Map::from_iter([("tags".to_owned(), json!(tags))]);
        body.extend(name.map(|name| ("name".to_owned(), json!(name))));
        let says = format!("{what} of load balancer {}", self.balancer.id);
        self.steps.push(Step::change(Thing::Balancer, &self.balancer.id, Value::Object(body), &says));
    }

    fn port(
        &mut self,
        port: &Port,
        listener: Option<&'a octavia::Listener>,
        going: &[&'a octavia::Listener],
        ports: &[Port],
    ) {
        let number = port.listener.protocol_port;
        let current = listener.and_then(|listener| listener.default_pool_id.as_deref());
        let mut pools = self.seen.pools.iter();
        let fits = |pool: &&octavia::Pool| pool.protocol == port.pool.protocol;
        let pool = pools.find(|pool| Some(pool.id.as_str()) == current && fits(pool)).or_else(|| {
            // One that nobody uses any more, or soon: its members are there already.
            let free = |pool: &&octavia::Pool| {
                let of_going = |id: &octavia::Id| going.iter().any(|listener| listener.id == id.id);
                fits(pool)
                    && !self.used.contains(pool.id.as_str())
                    && self.work.name_of(&pool.name) == port.pool.name
                    && pool.listeners.iter().all(of_going)
            };
            self.seen.pools.iter().find(free)
        });
        let Some(pool) = pool else {
            self.waits = true;
            let mut body = object(&port.pool);
            body.insert("loadbalancer_id".to_owned(), json!(self.balancer.id));
            self.steps.push(Step::make(Thing::Pool, "", Value::Object(body), &format!("pool of port {number}")));
            return;
        };
        self.used.insert(&pool.id);
        self.pool(port, pool);
        self.members(port, &pool.id);
        self.monitor(port, pool);
        match listener {
            Some(listener) => self.listener(port, listener, &pool.id, ports),
            None => {
                for other in going.iter().filter(|other| collide(&other.protocol, other.protocol_port, &port.listener))
                {
                    self.steps.push(delete_listener(other));
                }
                let mut body = object(&port.listener);
                body.insert("loadbalancer_id".to_owned(), json!(self.balancer.id));
                body.insert("default_pool_id".to_owned(), json!(pool.id));
                self.steps.push(Step::make(Thing::Listener, "", Value::Object(body), &format!("listener {number}")));
            }
        }
    }

    fn listener(&mut self, port: &Port, has: &'a octavia::Listener, pool: &str, ports: &[Port]) {
        let wants = &port.listener;
        let mut body = Map::new();
        let mut put = |key: &str, value: Value| {
            body.insert(key.to_owned(), value);
        };
        let tags = self.work.spec.names.with_own(&has.tags);
        if tags != has.tags {
            put("tags", json!(tags));
        }
        if has.default_pool_id.as_deref() != Some(pool) {
            put("default_pool_id", json!(pool));
        }
        // The name has the index of the port in it, and ports change places: of itself it is nothing to change.
        if let Some(name) = self.work.spec.names.renamed(&has.name) {
            put("name", json!(name));
        }
        if wants.connection_limit != has.connection_limit {
            put("connection_limit", json!(wants.connection_limit));
        }
        for (key, wanted, there) in [
            ("timeout_client_data", wants.timeout_client_data, has.timeout_client_data),
            ("timeout_member_connect", wants.timeout_member_connect, has.timeout_member_connect),
            ("timeout_member_data", wants.timeout_member_data, has.timeout_member_data),
            ("timeout_tcp_inspect", wants.timeout_tcp_inspect, has.timeout_tcp_inspect),
        ] {
            if wanted.is_some() && wanted != there {
                put(key, json!(wanted));
            }
        }
        if let Some(wanted) = wants.allowed_cidrs.as_ref().filter(|wanted| !same(wanted, &has.allowed_cidrs)) {
            put("allowed_cidrs", json!(wanted));
        }
        let forwards = has.insert_headers.get(FORWARDED) == Some("true");
        if forwards != wants.insert_headers.contains_key(FORWARDED) {
            let mut headers = wants.insert_headers.clone();
            headers.extend(has.insert_headers.beside(FORWARDED));
            put("insert_headers", json!(headers));
        }
        if wants.default_tls_container_ref.is_some() && wants.default_tls_container_ref != has.default_tls_container_ref
        {
            put("default_tls_container_ref", json!(wants.default_tls_container_ref));
        }
        if body.is_empty() {
            return;
        }
        let parts: Vec<String> = body.keys().cloned().collect();
        let says = format!("listener {}: {}", wants.protocol_port, parts.join(", "));
        self.steps.push(Step::change(Thing::Listener, &has.id, Value::Object(body), &says));
        // The pool that it had.
        let old = has.default_pool_id.as_deref().filter(|old| *old != pool && !self.used.contains(old));
        let is_pool_of = |old: &str| {
            // As older Go managers named them.
            let of_old = format!("{}_{}_pool", has.protocol, has.protocol_port);
            let is_named = |name: &str, port: &Port| name == of_old || self.work.name_of(name) == port.pool.name;
            let is_it = |pool: &octavia::Pool, port: &Port| pool.id == old && is_named(&pool.name, port);
            ports.iter().any(|port| self.seen.pools.iter().any(|pool| is_it(pool, port)))
        };
        if let Some(old) = old.filter(|old| is_pool_of(old) && !self.is_needed(old, &[has])) {
            self.last.push(Step::delete(Thing::Pool, old, &format!("the old pool of port {}", wants.protocol_port)));
        }
    }

    fn pool(&mut self, port: &Port, has: &octavia::Pool) {
        let wants = &port.pool;
        let says = |what: &str| format!("{what} of the pool of port {}", port.listener.protocol_port);
        if let Some(name) = self.work.spec.names.renamed(&has.name) {
            self.steps.push(Step::change(Thing::Pool, &has.id, json!({ "name": name }), &says("name")));
        }
        // Each for itself: the provider of Octavia may not have the algorithm.
        let kept = has.session_persistence.as_ref().map(|persistence| persistence.kind.as_str());
        let wanted = wants.session_persistence.as_ref().map(|persistence| persistence.kind.as_str());
        // No Service asks for cookies: people have set them.
        let is_of_people = wanted.is_none() && kept != Some("SOURCE_IP");
        if wanted != kept && !is_of_people {
            let body = json!({ "session_persistence": wants.session_persistence });
            self.steps.push(Step::change(Thing::Pool, &has.id, body, &says("session affinity")));
        }
        if wants.lb_algorithm != has.lb_algorithm {
            let body = json!({ "lb_algorithm": wants.lb_algorithm });
            self.steps.push(Step::change(Thing::Pool, &has.id, body, &says("algorithm")));
        }
    }

    fn members(&mut self, port: &Port, pool: &str) {
        let has = self.seen.members_of(pool);
        let number = port.listener.protocol_port;
        if self.work.config.balancers.serial {
            self.members_one_by_one(port, pool);
        } else if differ(&port.members, has, self.seen.in_full, &self.balancer.vip_subnet_id) {
            let says = format!("members of port {number}: {}", port.members.len());
            let body = Value::Array(port.members.iter().map(|member| Value::Object(object(member))).collect());
            self.steps.push(Step::change(Thing::Members, pool, body, &says));
        }
    }

    /// New ones before old ones go. One in another subnet goes first: Octavia lets no member change it, and has no second one of that
    /// address and port.
    fn members_one_by_one(&mut self, port: &Port, pool: &str) {
        let (has, in_full) = (self.seen.members_of(pool), self.seen.in_full);
        let number = port.listener.protocol_port;
        let says = |name: &str| format!("member {name} of port {number}");
        let id = |member: &octavia::Member| format!("{pool}/{}", member.id);
        let mut moved = vec![];
        for member in &port.members {
            let make = Step::make(Thing::Member, pool, Value::Object(object(member)), &says(&member.name));
            match has.iter().find(|other| is_at(member, other)) {
                None => self.steps.push(make),
                Some(other) if in_full && !is_in_subnet(member, other, &self.balancer.vip_subnet_id) => {
                    moved.push(Step::delete(Thing::Member, &id(other), &says(&member.name)));
                    moved.push(make);
                }
                Some(other) if in_full && member.monitor_port != other.monitor_port => {
                    let body = json!({ "monitor_port": member.monitor_port });
                    self.steps.push(Step::change(Thing::Member, &id(other), body, &says(&member.name)));
                }
                Some(_) => {}
            }
        }
        for member in has.iter().filter(|other| !port.members.iter().any(|member| is_at(member, other))) {
            self.steps.push(Step::delete(Thing::Member, &id(member), &says(&member.name)));
        }
        self.steps.extend(moved);
    }

    fn monitor(&mut self, port: &Port, pool: &octavia::Pool) {
        let number = port.listener.protocol_port;
        let says = format!("monitor of port {number}");
        let has = pool.healthmonitor_id.as_deref().filter(|id| !id.is_empty());
        let (wants, id) = match (&port.monitor, has) {
            (None, None) => return,
            (None, Some(id)) => return self.steps.push(Step::delete(Thing::Monitor, id, &says)),
            (Some(wants), None) => {
                let mut body = object(wants);
                body.insert("pool_id".to_owned(), json!(pool.id));
                return self.steps.push(Step::make(Thing::Monitor, "", Value::Object(body), &says));
            }
            (Some(wants), Some(id)) => (wants, id),
        };
        // One that was not seen is not changed.
        let Some(has) = self.seen.monitors.get(id) else { return };
        if has.kind != wants.kind {
            return self.steps.push(Step::delete(Thing::Monitor, id, &says));
        }
        let times = (has.delay, has.timeout, has.max_retries, has.max_retries_down);
        let name = self.work.spec.names.renamed(&has.name);
        if name.is_some() || times != (wants.delay, wants.timeout, wants.max_retries, wants.max_retries_down) {
            let body = json!({
                "name": name.as_ref().unwrap_or(&wants.name), "delay": wants.delay, "timeout": wants.timeout,
                "max_retries": wants.max_retries, "max_retries_down": wants.max_retries_down,
            });
            self.steps.push(Step::change(Thing::Monitor, id, body, &says));
        }
    }

    /// Pools whose listener is gone, or goes, and which no port uses.
    fn leave_pools(&mut self, going: &[&'a octavia::Listener]) {
        for pool in &self.seen.pools {
            let of_going = |id: &octavia::Id| going.iter().any(|listener| listener.id == id.id);
            if !self.used.contains(pool.id.as_str())
                && pool.listeners.iter().all(of_going)
                && is_pool_of(self.work, pool)
            {
                self.last.push(Step::delete(Thing::Pool, &pool.id, &format!("pool {}", pool.name)));
            }
        }
    }

    /// Whether a listener beside those hands clients to a pool. It may be that of somebody else.
    fn is_needed(&self, pool: &str, beside: &[&octavia::Listener]) -> bool {
        let stays = |id: &str| !beside.iter().any(|listener| listener.id == id);
        let has_it = |listener: &octavia::Listener| listener.default_pool_id.as_deref() == Some(pool);
        let listeners = self.seen.listeners.iter().filter(|listener| has_it(listener));
        let pools = self.seen.pools.iter().filter(|other| other.id == pool);
        listeners
            .map(|listener| &listener.id)
            .chain(pools.flat_map(|pool| &pool.listeners).map(|id| &id.id))
            .any(|id| stays(id))
    }

    /// A listener that nobody asks for any more, with its pool where that is not used again.
    fn leave(&mut self, listener: &'a octavia::Listener, going: &[&'a octavia::Listener]) {
        let goes = delete_listener(listener);
        if !self.steps.contains(&goes) {
            self.last.push(goes);
        }
        let pool = listener.default_pool_id.as_deref().filter(|pool| !pool.is_empty() && !self.used.contains(pool));
        if let Some(pool) = pool.filter(|pool| !self.is_needed(pool, going)) {
            self.used.insert(pool);
            self.last.push(Step::delete(Thing::Pool, pool, &format!("pool of port {}", listener.protocol_port)));
        }
    }
}

/// Whether a pool without a listener is this Service's: pools have no tags.
pub(super) fn is_pool_of(work: &Work<'_>, pool: &octavia::Pool) -> bool {
    let name = work.name_of(&pool.name);
    let index =
        name.strip_prefix("pool_").and_then(|rest| rest.strip_suffix(&format!("_{}", work.spec.names.balancer)));
    index.is_some_and(|index| !index.is_empty() && index.bytes().all(|byte| byte.is_ascii_digit()))
}

fn delete_listener(listener: &octavia::Listener) -> Step {
    Step::delete(Thing::Listener, &listener.id, &format!("listener {}", listener.protocol_port))
}

/// As an object to add to.
fn object(value: &impl serde::Serialize) -> Map<String, Value> {
    match serde_json::to_value(value) {
        Ok(Value::Object(object)) => object,
        _ => Map::new(),
    }
}

/// Networks in whatever order; none is everybody.
fn same(wanted: &[String], has: &[String]) -> bool {
    let is_open = |networks: &[String]| networks.is_empty() || networks.iter().any(|network| network.ends_with("/0"));
    let sorted = |networks: &[String]| networks.iter().cloned().collect::<BTreeSet<_>>();
    (is_open(wanted) && is_open(has)) || sorted(wanted) == sorted(has)
}

/// Whether members have to be written. `of_address` is the subnet of the load balancer's address.
pub(super) fn differ(wanted: &[desired::Member], has: &[octavia::Member], in_full: bool, of_address: &str) -> bool {
    let is_same = |member: &desired::Member, other: &octavia::Member| {
        let same_details = || member.monitor_port == other.monitor_port && is_in_subnet(member, other, of_address);
        is_at(member, other) && (!in_full || same_details())
    };
    wanted.len() != has.len() || !wanted.iter().all(|member| has.iter().any(|other| is_same(member, other)))
}

/// By address and port: Octavia keeps addresses in the spelling that they came in.
pub(super) fn is_at(member: &desired::Member, has: &octavia::Member) -> bool {
    let same_address = match (member.address.parse::<IpAddr>(), has.address.parse::<IpAddr>()) {
        (Ok(one), Ok(other)) => one == other,
        _ => member.address == has.address,
    };
    same_address && member.protocol_port == has.protocol_port
}

/// Where nobody names a subnet, any will do. A member that has none is in that of the load balancer's address: the Go manager names none
/// where it makes members one at a time.
pub(super) fn is_in_subnet(member: &desired::Member, has: &octavia::Member, of_address: &str) -> bool {
    member.subnet_id.as_deref().is_none_or(|wanted| wanted == has.subnet_id.as_deref().unwrap_or(of_address))
}
