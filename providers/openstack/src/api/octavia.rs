//! Load balancers and what they are made of.

use std::collections::BTreeMap;
use std::time::Duration;

use ccm_sdk::http::Method;
use ccm_sdk::paging::Paging;
use ccm_sdk::record::{Record, Slot, Value as Field};
use ccm_sdk::types::Failure;
use ccm_sdk::{Answer, Request};
use serde_json::{Value, json};

use super::OCTAVIA;

ccm_sdk::records! {
    /// A load balancer.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub(crate) struct Balancer {
        pub(crate) id: String [id],
        pub(crate) name: String,
        pub(crate) status: String = "provisioning_status",
        /// Octavia's driver that it was made with.
        pub(crate) provider: String,
        pub(crate) tags: Vec<String>,
        pub(crate) vip_address: String,
        pub(crate) vip_port_id: String,
        pub(crate) vip_subnet_id: String,
        pub(crate) created_at: String,
    }

    /// A listener.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub(crate) struct Listener {
        pub(crate) id: String [id],
        pub(crate) name: String,
        pub(crate) protocol: String,
        pub(crate) protocol_port: u16,
        pub(crate) connection_limit: i64,
        pub(crate) timeout_client_data: Option<i64>,
        pub(crate) timeout_member_connect: Option<i64>,
        pub(crate) timeout_member_data: Option<i64>,
        pub(crate) timeout_tcp_inspect: Option<i64>,
        pub(crate) allowed_cidrs: Vec<String>,
        pub(crate) insert_headers: Headers,
        pub(crate) default_tls_container_ref: Option<String>,
        pub(crate) default_pool_id: Option<String>,
        pub(crate) tags: Vec<String>,
        pub(crate) loadbalancers: Vec<Id>,
    }

    /// A pool.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub(crate) struct Pool {
        pub(crate) id: String [id],
        pub(crate) name: String,
        pub(crate) protocol: String,
        pub(crate) lb_algorithm: String,
        pub(crate) session_persistence: Option<Persistence>,
        pub(crate) healthmonitor_id: Option<String>,
        pub(crate) listeners: Vec<Id>,
        pub(crate) members: Vec<Id>,
        pub(crate) loadbalancers: Vec<Id>,
    }

    #[derive(Debug, Clone, PartialEq, Eq)]
    pub(crate) struct Persistence {
        pub(crate) kind: String = "type",
    }

    /// Of something else.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub(crate) struct Id {
        pub(crate) id: String [required],
    }

    /// A member, as its pool has it, or the tree of a load balancer: there it has neither subnet nor monitor port.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub(crate) struct Member {
        pub(crate) id: String [id],
        pub(crate) name: String,
        pub(crate) address: String,
        pub(crate) protocol_port: u16,
        pub(crate) subnet_id: Option<String>,
        pub(crate) monitor_port: Option<u16>,
    }

    /// A monitor of a pool.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub(crate) struct Monitor {
        pub(crate) id: String [id],
        pub(crate) name: String,
        pub(crate) kind: String = "type",
        pub(crate) delay: i64,
        pub(crate) timeout: i64,
        pub(crate) max_retries: i64,
        pub(crate) max_retries_down: i64,
    }

    /// All of a load balancer in one answer, as far as that goes.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub(crate) struct Tree {
        pub(crate) listeners: Vec<Branch>,
    }

    #[derive(Debug, Clone, PartialEq, Eq)]
    pub(crate) struct Branch {
        pub(crate) id: String,
        pub(crate) pools: Vec<Twig>,
    }

    #[derive(Debug, Clone, PartialEq, Eq)]
    pub(crate) struct Twig {
        pub(crate) id: String,
        pub(crate) members: Vec<Member>,
    }
}

/// Headers that a listener adds, with their values; those of others are not ours to take off.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Headers(BTreeMap<String, Option<String>>);

impl Headers {
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_deref()
    }

    /// Those but one.
    pub(crate) fn beside(&self, name: &str) -> impl Iterator<Item = (String, String)> {
        let others = self.0.iter().filter(move |(other, _)| *other != name);
        others.filter_map(|(name, value)| Some((name.clone(), value.clone()?)))
    }
}

impl Record for Headers {
    fn field(&mut self, key: &str) -> Option<Slot<'_>> {
        Some(self.0.entry(key.to_owned()).or_default().slot())
    }
}

impl Field for Headers {
    fn slot(&mut self) -> Slot<'_> {
        Slot::Record(self)
    }
}

const fn paging(items: &'static str, links: &'static str) -> Paging {
    Paging::marker("marker", "limit", 1_000).items(items).until_no_next(links)
}

const BALANCERS: Paging = paging("/loadbalancers", "/loadbalancers_links");
const LISTENERS: Paging = paging("/listeners", "/listeners_links");
const POOLS: Paging = paging("/pools", "/pools_links");
const MEMBERS: Paging = paging("/members", "/members_links");
const MONITORS: Paging = paging("/healthmonitors", "/healthmonitors_links");

/// One by its ID; none where the cloud says that it is not there, or that it has gone.
pub(crate) fn get(id: &str) -> Result<Option<Balancer>, Failure> {
    let answer = OCTAVIA.get("/lbaas/loadbalancers/{id}").arg("id", id).send()?.optional()?;
    let balancer: Option<Balancer> = answer.map(|answer| answer.json_at("/loadbalancer")).transpose()?;
    Ok(balancer.filter(|balancer| balancer.status != "DELETED"))
}

/// Those with a name.
pub(crate) fn named(name: &str) -> Result<Vec<Balancer>, Failure> {
    OCTAVIA.get("/lbaas/loadbalancers").query("name", name).list(BALANCERS)
}

/// Those with a tag.
pub(crate) fn tagged(tag: &str) -> Result<Vec<Balancer>, Failure> {
    OCTAVIA.get("/lbaas/loadbalancers").query("tags", tag).list(BALANCERS)
}

/// All of the project. An answer as young as `share` will do.
pub(crate) fn all(share: Duration) -> Result<Vec<Balancer>, Failure> {
    OCTAVIA.get("/lbaas/loadbalancers").share(share).list(BALANCERS)
}

/// The listeners of all of them, as [`all`].
pub(crate) fn all_listeners(share: Duration) -> Result<Vec<Listener>, Failure> {
    OCTAVIA.get("/lbaas/listeners").share(share).list(LISTENERS)
}

/// Their pools, as [`all`].
pub(crate) fn all_pools(share: Duration) -> Result<Vec<Pool>, Failure> {
    OCTAVIA.get("/lbaas/pools").share(share).list(POOLS)
}

/// All monitors, as [`all`].
pub(crate) fn all_monitors(share: Duration) -> Result<Vec<Monitor>, Failure> {
    OCTAVIA.get("/lbaas/healthmonitors").share(share).list(MONITORS)
}

/// The listeners of one load balancer.
pub(crate) fn listeners(balancer: &str) -> Result<Vec<Listener>, Failure> {
    OCTAVIA.get("/lbaas/listeners").query("loadbalancer_id", balancer).list(LISTENERS)
}

/// The pools of one load balancer.
pub(crate) fn pools(balancer: &str) -> Result<Vec<Pool>, Failure> {
    OCTAVIA.get("/lbaas/pools").query("loadbalancer_id", balancer).list(POOLS)
}

/// A monitor by its ID.
pub(crate) fn monitor(id: &str) -> Result<Option<Monitor>, Failure> {
    let answer = OCTAVIA.get("/lbaas/healthmonitors/{id}").arg("id", id).send()?.optional()?;
    answer.map(|answer| answer.json_at("/healthmonitor")).transpose()
}

/// Members with all that they have.
pub(crate) fn members(pool: &str) -> Result<Vec<Member>, Failure> {
    OCTAVIA.get("/lbaas/pools/{pool}/members").arg("pool", pool).list(MEMBERS)
}

/// What a load balancer is made of.
pub(crate) fn tree(id: &str) -> Request {
    OCTAVIA.get("/lbaas/loadbalancers/{id}/status").arg("id", id)
}

/// The answer to [`tree`].
pub(crate) fn read_tree(answer: Answer) -> Result<Tree, Failure> {
    answer.json_at("/statuses/loadbalancer")
}

/// A kind of thing that is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Thing {
    Balancer,
    Listener,
    Pool,
    Members,
    Member,
    Monitor,
}

impl Thing {
    /// Where all are, where one is, and what it is called in a body.
    const fn place(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Balancer => ("/lbaas/loadbalancers", "/lbaas/loadbalancers/{id}", "loadbalancer"),
            Self::Listener => ("/lbaas/listeners", "/lbaas/listeners/{id}", "listener"),
            Self::Pool => ("/lbaas/pools", "/lbaas/pools/{id}", "pool"),
            Self::Members => ("/lbaas/pools/{id}/members", "/lbaas/pools/{id}/members", "members"),
            Self::Member => ("/lbaas/pools/{id}/members", "/lbaas/pools/{pool}/members/{id}", "member"),
            Self::Monitor => ("/lbaas/healthmonitors", "/lbaas/healthmonitors/{id}", "healthmonitor"),
        }
    }
}

/// A write to a load balancer. `id` is of the thing; of a member that is made, its pool's, and of one that is changed or
/// deleted, `POOL/ID`.
pub(crate) fn write(method: Method, thing: Thing, id: &str, body: &Value) -> Result<Answer, Failure> {
    let (all, one, word) = thing.place();
    let request = match method {
        Method::Post => OCTAVIA.post(all),
        Method::Put => OCTAVIA.put(one),
        _ => OCTAVIA.delete(one),
    };
    let request = match (thing, id.split_once('/')) {
        (Thing::Member, Some((pool, member))) => request.arg("pool", pool).arg("id", member),
        _ if id.is_empty() => request,
        _ => request.arg("id", id),
    };
    match method {
        Method::Delete => request.send(),
        _ => request.json(&json!({ word: body })).send(),
    }
}

/// Makes a load balancer.
pub(crate) fn create(body: &Value) -> Request {
    OCTAVIA.post("/lbaas/loadbalancers").json(&json!({ "loadbalancer": body }))
}

/// A good answer to [`create`].
pub(crate) fn created(answer: Answer) -> Result<Balancer, Failure> {
    answer.json_at("/loadbalancer")
}

/// Deletes a load balancer with all that it is made of, or one that has nothing any more.
pub(crate) fn delete(id: &str, cascade: bool) -> Result<(), Failure> {
    let request = OCTAVIA.delete("/lbaas/loadbalancers/{id}").arg("id", id);
    let request = if cascade { request.query("cascade", "true") } else { request };
    request.send()?.optional().map(drop)
}
