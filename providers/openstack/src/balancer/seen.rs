//! What a load balancer is made of, as the cloud has it.

use std::collections::BTreeMap;
use std::time::Duration;

use ccm_sdk::cache;
use ccm_sdk::send_all;
use ccm_sdk::types::Failure;

use crate::api::octavia::{self, Balancer, Listener, Member, Monitor, Pool, Tree};
use crate::desired::Port;

/// What was read of a load balancer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) listeners: Vec<Listener>,
    pub(super) pools: Vec<Pool>,
    /// By their IDs; those that nobody needs are not read.
    pub(super) monitors: BTreeMap<String, Monitor>,
    /// By pools.
    pub(super) members: BTreeMap<String, Vec<Member>>,
    /// Whether members have their subnet and their monitor port.
    pub(super) in_full: bool,
}

/// What members have that a tree does not show, once it was written or seen, is believed for so long.
const BELIEVED: Duration = Duration::from_secs(3_600);

/// From so many monitors on, all of the project are asked for together.
const MANY: usize = 3;

impl Seen {
    /// Reads it all: listeners, pools, and the tree for the members. Pools of which a detail has not been seen for an hour are read one by one.
    pub(super) fn read(balancer: &Balancer, uid: &str, ports: &[Port]) -> Result<Self, Failure> {
        let id = balancer.id.as_str();
        let listeners = octavia::listeners(id)?;
        let pools = octavia::pools(id)?;
        let mut seen = Self { listeners, pools, ..Self::default() };
        if is_believed(id, uid, ports) {
            seen.members = members_of(tree(id)?);
            // A pool without listener is not in the tree.
            for pool in seen.pools.iter().filter(|pool| !pool.members.is_empty()) {
                if !seen.members.contains_key(&pool.id) {
                    seen.members.insert(pool.id.clone(), octavia::members(&pool.id)?);
                }
            }
        } else {
            for pool in seen.pools.iter().filter(|pool| !pool.members.is_empty()) {
                seen.members.insert(pool.id.clone(), octavia::members(&pool.id)?);
            }
            seen.in_full = true;
        }
        if ports.iter().any(|port| port.monitor.is_some()) {
            let ids = seen.pools.iter().filter_map(|pool| pool.healthmonitor_id.as_deref());
            let ids: Vec<&str> = ids.filter(|id| !id.is_empty()).collect();
            let mut found = vec![];
            if ids.len() < MANY {
                for id in ids {
                    found.extend(octavia::monitor(id)?);
                }
            } else {
                found = octavia::all_monitors(Duration::ZERO)?;
            }
            seen.monitors = found.into_iter().map(|monitor| (monitor.id.clone(), monitor)).collect();
        }
        Ok(seen)
    }

    /// Members of a pool.
    pub(super) fn members_of(&self, pool: &str) -> &[Member] {
        self.members.get(pool).map_or(&[], Vec::as_slice)
    }
}

/// The tree of a load balancer.
pub(super) fn tree(id: &str) -> Result<Tree, Failure> {
    octavia::read_tree(octavia::tree(id).send()?)
}

/// Trees of several, at once.
pub(super) fn trees(ids: &[&str]) -> Vec<Result<Tree, Failure>> {
    let answers = send_all(ids.iter().map(|id| octavia::tree(id)).collect());
    answers.into_iter().map(|answer| answer.and_then(octavia::read_tree)).collect()
}

pub(super) fn members_of(tree: Tree) -> BTreeMap<String, Vec<Member>> {
    let pools = tree.listeners.into_iter().flat_map(|listener| listener.pools);
    pools.map(|pool| (pool.id, pool.members)).collect()
}

/// Each Service that shares a load balancer has members of its own.
fn key(balancer: &str, uid: &str) -> String {
    format!("members/{balancer}/{uid}")
}

/// Subnet and monitor port of the members of each port.
type Details = Vec<(Option<String>, Option<u16>)>;

fn details(ports: &[Port]) -> Details {
    let members = ports.iter().filter_map(|port| port.members.first());
    members.map(|member| (member.subnet_id.clone(), member.monitor_port)).collect()
}

fn is_believed(balancer: &str, uid: &str, ports: &[Port]) -> bool {
    let wanted = details(ports);
    wanted.is_empty() || cache::get_json(&key(balancer, uid)).is_some_and(|kept: Details| kept == wanted)
}

/// The members are as they should be, in every detail. What is believed already is not believed for longer.
pub(super) fn believe(balancer: &str, uid: &str, ports: &[Port]) {
    if !is_believed(balancer, uid, ports) {
        cache::put_json(&key(balancer, uid), &details(ports), BELIEVED);
    }
}
