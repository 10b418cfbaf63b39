//! Compares many load balancers at once with what their Services ask for, from a few lists. Their security groups are among them.
//!
//! Lists have no members, only how many a pool has. Trees have, one for each load balancer. At the start one of them is read, since
//! everything waits for that survey; the hourly surveys after it read them all.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ccm_sdk::load_balancer_survey::{Standing, Wish};
use ccm_sdk::types::{Backend, Failure, Problem};
use ccm_sdk::{Done, cache};

use super::done::told;
use super::groups::Groups;
use super::plan;
use super::seen::{self, Seen};
use super::work::{Host, Work};
use crate::annotations as names;
use crate::api::floating_ips::{self, FloatingIp};
use crate::api::octavia::{self, Balancer, Listener, Member, Monitor, Pool};
use crate::config::Config;
use crate::desired::Port;

/// Trees of the first survey: with five lists, and the requests for servers and their ports, a restart costs ten. Health monitors cost one more.
const TREES: usize = 1;
/// How long members that were compared are believed: an hourly survey may come after two thirds of an hour.
const COMPARED: Duration = Duration::from_secs(1_800);
/// How young lists may be. A start surveys twice, before the component serves and when it does, and Services come in portions of a few hundred. Whoever
/// has changed a load balancer meanwhile is ensured once more, which changes nothing.
const SHARE: Duration = Duration::from_secs(15);
/// How long the surveys of a start may take.
const START: Duration = Duration::from_secs(60);
/// Longer than from one survey to the next.
const STARTED: Duration = Duration::from_secs(86_400);

/// All of the project.
struct Lists {
    balancers: Vec<Balancer>,
    listeners: Vec<Listener>,
    pools: Vec<Pool>,
    monitors: BTreeMap<String, Monitor>,
    floating: Vec<FloatingIp>,
    /// Whether there is an external network; asked for where a floating IP is missing that nobody names a network for.
    has_network: Cell<Option<bool>>,
    members: BTreeMap<String, BTreeMap<String, Vec<Member>>>,
    groups: Groups,
}

/// How each stands, with what its Service should be told.
pub(crate) fn survey(
    config: &Config,
    host: &Host,
    backends: &[Backend],
    wishes: &[Wish],
) -> Result<Vec<(Standing, Done)>, Failure> {
    let mut works: Vec<_> = wishes.iter().map(|wish| Work::read(config, host, &wish.service)).collect();
    let watched = works.iter().any(|(work, _)| work.spec.monitor.is_some());
    let external = works.iter().any(|(work, _)| !work.spec.internal);
    let monitors = if watched { octavia::all_monitors(SHARE)? } else { vec![] };
    let mut lists = Lists {
        balancers: octavia::all(SHARE)?,
        listeners: octavia::all_listeners(SHARE)?,
        pools: octavia::all_pools(SHARE)?,
        monitors: monitors.into_iter().map(|monitor| (monitor.id.clone(), monitor)).collect(),
        floating: if external { floating_ips::all(SHARE)? } else { vec![] },
        has_network: Cell::new(None),
        members: BTreeMap::new(),
        groups: Groups::read(config, wishes.iter().map(|wish| &wish.service), backends, SHARE)?,
    };
    let found: Vec<Option<Balancer>> = works.iter().map(|(work, _)| lists.find(work).cloned()).collect();
    for ((work, problems), balancer) in works.iter_mut().zip(&found) {
        work.suit(balancer.as_ref(), problems);
    }
    lists.read_trees(&works, &found);
    let surveyed = wishes.iter().zip(works).zip(found).map(|((wish, (work, problems)), balancer)| {
        let mut done = Done::new();
        let standing = told(&mut done, problems)
            .and_then(|()| lists.standing(&work, wish, backends, balancer.as_ref()))
            .unwrap_or_else(Standing::Unknown);
        (standing, done)
    });
    Ok(surveyed.collect())
}

impl Lists {
    fn find(&self, work: &Work<'_>) -> Option<&Balancer> {
        let id = work.spec.id.as_deref();
        let mut all = self.balancers.iter().filter(|balancer| balancer.status != "PENDING_DELETE");
        let by_id = all.clone().find(|balancer| Some(balancer.id.as_str()) == id);
        by_id.or_else(|| all.find(|balancer| balancer.tags.contains(&work.spec.names.uid)))
    }

    fn read_trees<'f>(&mut self, works: &[(Work<'_>, Vec<Problem>)], found: &'f [Option<Balancer>]) {
        let due = |((work, _), balancer): (&(Work<'_>, _), &'f Option<Balancer>)| {
            let id = balancer.as_ref()?.id.as_str();
            cache::get(&key(id, work)).is_none().then_some(id)
        };
        let ids: BTreeSet<&str> = works.iter().zip(found).filter_map(due).collect();
        let most = trees_of_this_survey();
        let ids: Vec<&str> = ids.into_iter().take(most).collect();
        for (id, tree) in ids.iter().zip(seen::trees(&ids)) {
            // One that cannot be read is read with the next survey.
            if let Ok(tree) = tree {
                self.members.insert((*id).to_owned(), seen::members_of(tree));
            }
        }
    }

    fn standing(
        &self,
        work: &Work<'_>,
        wish: &Wish,
        backends: &[Backend],
        balancer: Option<&Balancer>,
    ) -> Result<Standing, Failure> {
        let Some(balancer) = balancer else { return Ok(Standing::Missing) };
        let backend = |index: &u32| backends.get(usize::try_from(*index).ok()?).cloned();
        let chosen = wish.backends.iter().map(backend).collect::<Option<Vec<_>>>();
        let chosen = chosen.ok_or_else(|| Failure::retry("a wish names a backend that is not in the list"))?;
        let chosen = work.chosen(&chosen)?;
        let ports = work.ports(balancer, &chosen);
        let seen = self.seen(balancer, &ports);
        let steps = plan::steps(work, balancer, &ports, &seen)?;
        let mut differences: Vec<String> = steps.iter().map(ToString::to_string).collect();
        if self.members.contains_key(&balancer.id) && differences.is_empty() {
            cache::put(&key(&balancer.id, work), b"", COMPARED);
        }
        differences.extend(self.groups.differences(work, balancer, &chosen)?);
        if work.spec.id.as_deref() != Some(&balancer.id) {
            differences.push(format!("annotation {} does not have its ID", names::ID));
        }
        if balancer.status != "ACTIVE" {
            differences.push(format!("provisioning_status is {}", balancer.status));
        }
        let is_on_port = |floating: &&FloatingIp| floating.port_id.as_deref() == Some(&balancer.vip_port_id);
        let floating = self.floating.iter().find(is_on_port).map(|floating| floating.address.as_str());
        if floating.is_some() && work.spec.internal && !self.floating.is_empty() {
            differences.push("it is internal and has a floating IP".to_owned());
        }
        if floating.is_none() && self.lacks_floating_ip(work, balancer)? {
            differences.push("it has no floating IP".to_owned());
        }
        let address = floating.unwrap_or(&balancer.vip_address);
        Ok(if differences.is_empty() {
            Standing::InStep(work.ingress(address))
        } else {
            Standing::Differs(differences)
        })
    }

    /// Whether one without a floating IP should have one. Without an external network its own address is all that there is to publish.
    fn lacks_floating_ip(&self, work: &Work<'_>, balancer: &Balancer) -> Result<bool, Failure> {
        if !work.wants_floating_ip(balancer) {
            return Ok(false);
        }
        let is_named = work.spec.floating.network.is_some();
        if let Some(known) = is_named.then_some(true).or(self.has_network.get()) {
            return Ok(known);
        }
        let has_network = work.network(&mut Done::new())?.is_some();
        self.has_network.set(Some(has_network));
        Ok(has_network)
    }

    /// Of one load balancer. Where its tree was not read, its members are those that it should have, if it has as many.
    fn seen(&self, balancer: &Balancer, ports: &[Port]) -> Seen {
        let of = |all: &[octavia::Id]| all.iter().any(|other| other.id == balancer.id);
        let pools: Vec<Pool> = self.pools.iter().filter(|pool| of(&pool.loadbalancers)).cloned().collect();
        let members = self.members.get(&balancer.id).cloned().unwrap_or_else(|| {
            let counted = pools.iter().map(|pool| (pool.id.clone(), counted(pool, ports)));
            counted.collect()
        });
        Seen {
            listeners: self.listeners.iter().filter(|listener| of(&listener.loadbalancers)).cloned().collect(),
            pools,
            monitors: self.monitors.clone(),
            members,
            in_full: false,
        }
    }
}

/// A start reads so many trees in all, as far as anybody remembers that it is one.
fn trees_of_this_survey() -> usize {
    const STARTING: &str = "surveys/starting";
    const SURVEYED: &str = "surveys/started";
    let most = if cache::get(STARTING).is_some() {
        0
    } else if cache::get(SURVEYED).is_none() {
        cache::put(STARTING, b"", START);
        TREES
    } else {
        usize::MAX
    };
    cache::put(SURVEYED, b"", STARTED);
    most
}

/// Each Service that shares a load balancer has members of its own.
fn key(balancer: &str, work: &Work<'_>) -> String {
    format!("compared/{balancer}/{}", work.uid())
}

/// As many members as the pool has.
fn counted(pool: &Pool, ports: &[Port]) -> Vec<Member> {
    let count = pool.members.len();
    let port = ports.iter().find(|port| port.pool.name == pool.name && port.members.len() == count);
    let as_wanted = |port: &Port| {
        let member = |member: &crate::desired::Member| Member {
            name: member.name.clone(),
            address: member.address.clone(),
            protocol_port: member.protocol_port,
            ..Member::default()
        };
        port.members.iter().map(member).collect()
    };
    port.map_or_else(
        || pool.members.iter().map(|id| Member { id: id.id.clone(), ..Member::default() }).collect(),
        as_wanted,
    )
}
