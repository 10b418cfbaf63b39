//! Load balancers and their life cycle.

use std::net::{Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::reply::{page, read};
use super::{Ask, Cloud, Reply};
use crate::clock::{Clock, Moment};
use crate::document::values;
use crate::endpoint::Endpoint;

/// A load balancer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Balancer {
    /// UUID.
    pub id: String,
    /// What it was asked to be.
    pub spec: BalancerSpec,
    /// Its address, shown once it is active; a private one if it is of network `INTERNAL`.
    pub ip: Ipv4Addr,
    /// The second address of a `DUALSTACK` one.
    pub ipv6: Option<Ipv6Addr>,
    /// Whether it failed to become active.
    pub errored: bool,
    created: Moment,
    active: Moment,
    locked: Moment,
    /// Its creation counts.
    resized: Moment,
}

/// What a load balancer is asked to be; what is left out has its default. Source: the vendor's OpenAPI document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the members are those of the document")]
pub struct BalancerSpec {
    pub name: String,
    pub region: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub network: String,
    pub network_stack: String,
    pub algorithm: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<String>,
    pub size_unit: u32,
    pub forwarding_rules: Vec<ForwardingRule>,
    pub health_check: HealthCheck,
    pub sticky_sessions: StickySessions,
    pub droplet_ids: Vec<u64>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub tag: String,
    pub tags: Vec<String>,
    pub redirect_http_to_https: bool,
    pub enable_proxy_protocol: bool,
    pub enable_backend_keepalive: bool,
    pub disable_lets_encrypt_dns_records: bool,
    pub http_idle_timeout_seconds: u32,
    pub vpc_uuid: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subnet_uuid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project_id: Option<String>,
    pub firewall: SourceRules,
    pub tls_cipher_policy: String,
    #[serde(skip_serializing)]
    pub ip: Option<String>,
    #[serde(skip_serializing)]
    pub validate_only: bool,
}

/// From a port of the load balancer to a port of its machines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the members are those of the document")]
pub struct ForwardingRule {
    pub entry_protocol: String,
    pub entry_port: u32,
    pub target_protocol: String,
    pub target_port: u32,
    /// Empty: none.
    #[serde(default)]
    pub certificate_id: String,
    #[serde(default)]
    pub tls_passthrough: bool,
}

/// How machines are found fit to take traffic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the members are those of the document")]
pub struct HealthCheck {
    pub protocol: String,
    pub port: u32,
    pub path: String,
    pub check_interval_seconds: u32,
    pub response_timeout_seconds: u32,
    pub unhealthy_threshold: u32,
    pub healthy_threshold: u32,
    pub proxy_protocol: bool,
}

/// Whether a client comes back to the same machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the members are those of the document")]
pub struct StickySessions {
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cookie_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cookie_ttl_seconds: Option<u32>,
}

/// Who may connect: `ip:…`, `cidr:…`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the members are those of the document")]
pub struct SourceRules {
    pub allow: Vec<String>,
    pub deny: Vec<String>,
}

impl Default for BalancerSpec {
    fn default() -> Self {
        Self {
            name: String::new(),
            region: String::new(),
            kind: "REGIONAL".to_owned(),
            network: "EXTERNAL".to_owned(),
            network_stack: "IPV4".to_owned(),
            algorithm: "round_robin".to_owned(),
            size: None,
            size_unit: 1,
            forwarding_rules: Vec::new(),
            health_check: HealthCheck::default(),
            sticky_sessions: StickySessions::default(),
            droplet_ids: Vec::new(),
            tag: String::new(),
            tags: Vec::new(),
            redirect_http_to_https: false,
            enable_proxy_protocol: false,
            enable_backend_keepalive: false,
            disable_lets_encrypt_dns_records: false,
            http_idle_timeout_seconds: 60,
            vpc_uuid: String::new(),
            subnet_uuid: None,
            project_id: None,
            firewall: SourceRules::default(),
            tls_cipher_policy: "DEFAULT".to_owned(),
            ip: None,
            validate_only: false,
        }
    }
}

impl Default for HealthCheck {
    fn default() -> Self {
        Self {
            protocol: "http".to_owned(),
            port: 80,
            path: "/".to_owned(),
            check_interval_seconds: 10,
            response_timeout_seconds: 5,
            unhealthy_threshold: 5,
            healthy_threshold: 3,
            proxy_protocol: false,
        }
    }
}

impl Default for StickySessions {
    fn default() -> Self {
        Self { kind: "none".to_owned(), cookie_name: None, cookie_ttl_seconds: None }
    }
}

impl BalancerSpec {
    /// How many nodes it has, as either of the two members for it says.
    fn nodes(&self) -> u32 {
        match self.size.as_deref() {
            Some("lb-small") => 1,
            Some("lb-medium") => 3,
            Some("lb-large") => 6,
            _ => self.size_unit,
        }
    }

    /// What has no effect where packets are passed through. Not known of production: it may refuse it as well, or keep it.
    fn forget_what_it_cannot_do(&mut self) {
        if self.kind != "REGIONAL_NETWORK" {
            return;
        }
        let Self { sticky_sessions, http_idle_timeout_seconds, .. } = Self::default();
        self.sticky_sessions = sticky_sessions;
        self.http_idle_timeout_seconds = http_idle_timeout_seconds;
        self.redirect_http_to_https = false;
        self.enable_proxy_protocol = false;
        self.enable_backend_keepalive = false;
        self.disable_lets_encrypt_dns_records = false;
    }
}

impl Balancer {
    pub(crate) fn status(&self, now: Moment) -> &'static str {
        match (now >= self.active, self.errored) {
            (false, _) => "new",
            (true, false) => "active",
            (true, true) => "errored",
        }
    }

    /// Refuses another size for a while. The words are production's, as the vendor's own Terraform provider expects them; the
    /// status and the form of the time are assumed.
    fn resizable(&self, ask: &Ask<'_>, clock: &Clock) -> Result<(), Reply> {
        let pause = ask.settings.resize_pause;
        if ask.now >= self.resized + pause {
            return Ok(());
        }
        let every = match pause.as_secs() {
            60 => "minute".to_owned(),
            3_600 => "hour".to_owned(),
            seconds => format!("{seconds} seconds"),
        };
        let last = clock.date(self.resized);
        let words = format!("Load Balancer can only be resized once every {every}, last resized at: {last}");
        Err(Reply::refused(422, words))
    }

    /// Refuses a change while it is made, or changed by another one.
    fn unlocked(&self, now: Moment) -> Result<(), Reply> {
        if now < self.active || now < self.locked {
            return Err(Reply::refused(403, "Load Balancer can't be updated while it processes previous actions"));
        }
        Ok(())
    }
}

impl Cloud {
    /// As answers have it.
    fn told_balancer(&self, balancer: &Balancer, now: Moment, ask: &Ask<'_>, clock: &Clock) -> Value {
        let mut told = self.show_balancer(balancer, now, clock);
        let Some(members) = told.as_object_mut() else { return told };
        if !ask.settings.tells_balancer_tags {
            members.remove("tags");
        }
        if !ask.settings.tells_internal_addresses && balancer.spec.network == "INTERNAL" {
            members.insert("ip".to_owned(), json!(""));
        }
        told
    }

    pub(super) fn show_balancer(&self, balancer: &Balancer, now: Moment, clock: &Clock) -> Value {
        let mut shown = json!(balancer.spec);
        let is_active = balancer.status(now) == "active";
        let Some(members) = shown.as_object_mut() else { return shown };
        let mut set = |name: &str, value: Value| drop(members.insert(name.to_owned(), value));
        set("id", json!(balancer.id));
        set("status", json!(balancer.status(now)));
        set("created_at", json!(clock.date(balancer.created)));
        set("ip", if is_active { json!(balancer.ip) } else { json!("") });
        if let Some(ip) = balancer.ipv6.filter(|_| is_active) {
            set("ipv6", json!(ip));
        }
        if let Some(region) = self.region(&balancer.spec.region) {
            set("region", region.show());
        }
        if !balancer.spec.tag.is_empty() {
            let tagged = self.droplets.all().filter(|droplet| droplet.tags.contains(&balancer.spec.tag));
            set("droplet_ids", tagged.map(|droplet| droplet.id).collect());
        }
        shown
    }

    /// Sees to it that it failed to become active, or did not. False: there is none.
    pub(crate) fn set_errored(&mut self, now: Moment, id: &str, errored: bool) -> bool {
        let Some(mut balancer) = self.balancers.get(id).cloned() else { return false };
        balancer.errored = errored;
        balancer.active = balancer.active.min(now);
        self.balancers.put(now, balancer.id.clone(), balancer);
        true
    }

    pub(super) fn list_balancers(&self, ask: &Ask<'_>, clock: &Clock) -> Reply {
        let is_asked = |name| ask.settings.filters_balancers && values(ask.query, name).next().is_some();
        let among = |name, own: &str| !is_asked(name) || values(ask.query, name).any(|v| v == own);
        let wanted = |one: &&Balancer| among("names", &one.spec.name) && among("uuids", &one.id);
        let all: Vec<&Balancer> = self.balancers.at(ask.listed_at()).filter(wanted).collect();
        // What is late is late as a whole: also the end of its creation.
        page(ask, "load_balancers", &all, |balancer| self.told_balancer(balancer, ask.listed_at(), ask, clock))
    }

    pub(super) fn get_balancer(&self, ask: &Ask<'_>, clock: &Clock) -> Result<Reply, Reply> {
        let balancer = self.balancers.get(ask.id()).ok_or_else(Reply::absent)?;
        Ok(Reply::one(200, "load_balancer", self.told_balancer(balancer, ask.now, ask, clock)))
    }

    pub(super) fn create_balancer(&mut self, ask: &Ask<'_>, clock: &Clock) -> Result<Reply, Reply> {
        let mut spec: BalancerSpec = read(ask.body)?;
        self.settle(&mut spec);
        self.check_balancer(&spec, None)?;
        if let Some(limit) = ask.settings.balancer_limit.filter(|limit| self.balancers.all().count() >= *limit) {
            return Err(Reply::refused(422, format!("You have reached the limit of {limit} load balancers")));
        }
        if spec.validate_only {
            return Ok(Reply::nothing());
        }
        spec.forget_what_it_cannot_do();
        let number = self.number();
        // What RFC 2544 and RFC 3849 keep for benchmarks and for documentation.
        let public = Ipv4Addr::from(0xc612_0000 | (number & 0xffff));
        // The end of a network in which nothing else is.
        let private = Ipv4Addr::from(0x0aff_0000 | (number & 0xffff));
        let free = if spec.network == "INTERNAL" { private } else { public };
        let ip = spec.ip.as_deref().and_then(|ip| ip.parse().ok()).unwrap_or(free);
        let is_dual = spec.network_stack == "DUALSTACK";
        let ipv6 = is_dual.then(|| Ipv6Addr::from(0x2001_0db8_u128 << 96 | u128::from(number)));
        // That production makes those that are not there is assumed.
        for tag in &spec.tags {
            self.tags.entry(tag.clone()).or_default();
        }
        let balancer = Balancer {
            id: self.uuid(),
            spec,
            ip,
            ipv6,
            errored: ask.settings.provisioning_fails,
            created: ask.now,
            active: ask.now + ask.settings.provisioning,
            locked: Moment::ZERO,
            resized: ask.now,
        };
        let reply = Reply::one(202, "load_balancer", self.told_balancer(&balancer, ask.now, ask, clock));
        self.balancers.put(ask.now, balancer.id.clone(), balancer);
        Ok(reply)
    }

    pub(super) fn update_balancer(&mut self, ask: &Ask<'_>, clock: &Clock) -> Result<Reply, Reply> {
        let mut balancer = self.balancers.get(ask.id()).cloned().ok_or_else(Reply::absent)?;
        let mut spec: BalancerSpec = read(ask.body)?;
        let had = &balancer.spec;
        // What is chosen at creation stays.
        spec.region.clone_from(&had.region);
        spec.kind.clone_from(&had.kind);
        spec.network.clone_from(&had.network);
        spec.network_stack.clone_from(&had.network_stack);
        spec.vpc_uuid.clone_from(&had.vpc_uuid);
        spec.subnet_uuid.clone_from(&had.subnet_uuid);
        spec.tags.clone_from(&had.tags);
        spec.ip.clone_from(&had.ip);
        self.settle(&mut spec);
        self.check_balancer(&spec, Some(&balancer.id))?;
        let resizes = spec.nodes() != had.nodes();
        if resizes {
            balancer.resizable(ask, clock)?;
        }
        if spec.validate_only {
            return Ok(Reply::nothing());
        }
        balancer.unlocked(ask.now)?;
        spec.forget_what_it_cannot_do();
        balancer.spec = spec;
        if resizes {
            balancer.resized = ask.now;
        }
        let reply = Reply::one(200, "load_balancer", self.told_balancer(&balancer, ask.now, ask, clock));
        self.changed(ask, balancer);
        Ok(reply)
    }

    pub(super) fn delete_balancer(&mut self, ask: &Ask<'_>) -> Result<Reply, Reply> {
        let balancer = self.balancers.get(ask.id()).ok_or_else(Reply::absent)?;
        if ask.settings.lock_deletes {
            balancer.unlocked(ask.now)?;
        }
        self.balancers.remove(ask.now, ask.id());
        Ok(Reply::nothing())
    }

    pub(super) fn change_members(&mut self, ask: &Ask<'_>) -> Result<Reply, Reply> {
        #[derive(Deserialize)]
        struct Change {
            droplet_ids: Vec<u64>,
        }
        let mut balancer = self.balancers.get(ask.id()).cloned().ok_or_else(Reply::absent)?;
        let Change { droplet_ids } = read(ask.body)?;
        if !balancer.spec.tag.is_empty() {
            return Err(Reply::refused(422, "droplets of a load balancer with a tag are chosen by the tag"));
        }
        balancer.unlocked(ask.now)?;
        balancer.spec.droplet_ids.retain(|own| !droplet_ids.contains(own));
        if ask.endpoint == Endpoint::AddDroplets {
            balancer.spec.droplet_ids.extend(droplet_ids);
            self.check_balancer(&balancer.spec, Some(&balancer.id))?;
        }
        self.changed(ask, balancer);
        Ok(Reply::nothing())
    }

    pub(super) fn change_rules(&mut self, ask: &Ask<'_>) -> Result<Reply, Reply> {
        #[derive(Deserialize)]
        struct Change {
            forwarding_rules: Vec<ForwardingRule>,
        }
        let mut balancer = self.balancers.get(ask.id()).cloned().ok_or_else(Reply::absent)?;
        let Change { forwarding_rules } = read(ask.body)?;
        balancer.unlocked(ask.now)?;
        if ask.endpoint == Endpoint::AddRules {
            balancer.spec.forwarding_rules.extend(forwarding_rules);
        } else {
            balancer.spec.forwarding_rules.retain(|own| !forwarding_rules.contains(own));
        }
        self.check_balancer(&balancer.spec, Some(&balancer.id))?;
        self.changed(ask, balancer);
        Ok(Reply::nothing())
    }

    fn changed(&mut self, ask: &Ask<'_>, mut balancer: Balancer) {
        balancer.locked = ask.now + ask.settings.busy;
        self.balancers.put(ask.now, balancer.id.clone(), balancer);
    }

    /// What the cloud chooses when nobody does.
    fn settle(&self, spec: &mut BalancerSpec) {
        if spec.vpc_uuid.is_empty()
            && let Some(vpc) = self.default_vpc(&spec.region)
        {
            spec.vpc_uuid.clone_from(&vpc.id);
        }
        spec.size_unit = spec.nodes();
        if spec.project_id.is_none() {
            spec.project_id = self.projects.first().cloned();
        }
    }
}
