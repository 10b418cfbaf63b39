//! The security group of a Service: its node ports are open to the members' subnet, on the ports of the Nodes.
//!
//! A port keeps all its other groups, and is changed only as it was read: nobody's change in between is lost. Where groups are not managed
//! any more, the group of a Service goes, as with the Go manager.

mod rules;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use ccm_sdk::cidr::Cidr;
use ccm_sdk::find::Machines;
use ccm_sdk::types::{Backend, Failure, IpFamily, Reaction, Service};
use ccm_sdk::{Answer, Done, cache, send_all};

pub(super) use self::rules::changes;
use self::rules::{following, opens, outlived, rules, sources};
use super::refusal::both;
use super::work::Work;
use crate::api::groups::{self, Group, NewRule, Rule};
use crate::api::neutron_type;
use crate::api::octavia::Balancer;
use crate::api::ports::{self, Port};
use crate::config::Config;
use crate::desired;
use crate::find::Servers;
use crate::names;

/// How long it is believed that a Service has no group, where groups are not managed.
const NONE: Duration = Duration::from_secs(3_600);

/// So often a port is read again that somebody else changes meanwhile.
const ATTEMPTS: usize = 4;

/// What goes when the members have changed.
pub(super) struct Opened {
    group: Group,
    /// Groups of the same name: a request without an answer had made one.
    doubles: Vec<Group>,
    /// Rules by their IDs.
    old: Vec<String>,
    /// Ports that members have.
    members: Vec<Port>,
    /// The other ports of the Nodes.
    others: Vec<Port>,
    /// What is not open that should be, of a Service that is refused.
    pub(super) unopened: Result<(), Failure>,
}

/// Before members change: traffic comes to new ones at once. Makes the group and the rules that are missing, and gives it to the ports of
/// the Nodes. Nothing where groups are not managed. While Octavia is at work members do not change, and nothing but the rules of OVN counts.
/// Of a Service that is refused, they open only node ports that its members come to.
pub(super) fn open(
    work: &Work<'_>,
    balancer: &Balancer,
    backends: &[&Backend],
    done: &mut Done,
) -> Result<Option<Opened>, Failure> {
    let service = work.service;
    let is_at_rest = balancer.status == "ACTIVE";
    if !work.config.balancers.manages_security_groups || !(is_at_rest || work.is_ovn()) {
        return Ok(None);
    }
    let is_served = is_at_rest && work.is_sound();
    cache::forget(&none(service));
    let mut own = of(service)?.into_iter();
    let (group, mut doubles) = (own.next(), own.collect::<Vec<_>>());
    let group = match group {
        Some(group) => group,
        None if !is_served => return Ok(None),
        None => {
            let name = names::security_group(service);
            let made = groups::create(&name, &names::security_group_description(&work.host.cluster, service))?;
            done.changed(format!("made security group {name}"));
            made
        }
    };
    let (mut old, mut narrowed, mut of_doubles, mut unopened) = (vec![], Ok(()), Ok(()), Ok(()));
    if is_served || work.has_ranges() {
        let sources = sources(work, balancer)?;
        let mut wanted = rules(work, &group.id, &sources);
        if !is_served {
            // The double goes, with its rules.
            let has = || std::iter::once(&group).chain(&doubles).flat_map(|group| &group.rules);
            let is_open = |new: &NewRule| has().any(|rule| opens(rule, new));
            let followed = if is_at_rest { following(work, balancer, &group, is_open) } else { Ok(vec![]) };
            let followed = followed.unwrap_or_else(|failure| {
                unopened = Err(failure);
                vec![]
            });
            wanted.retain(|new| is_open(new) || followed.contains(new));
        }
        let (new, others) = changes(&wanted, &group.rules);
        make(&new, done)?;
        old = ids(&others);
        if work.is_ovn() {
            // There rules alone keep clients out, wherever members are: whom the Service does not want goes whatever becomes of the rest.
            narrowed = delete_rules(&std::mem::take(&mut old), &group.name, done);
            of_doubles = doubles.iter().try_for_each(|double| follow(work, double, &sources, done));
        }
    } else {
        // They stay as they are.
        doubles = vec![];
        if is_at_rest {
            old = ids(&outlived(work, balancer, &group));
            let is_open = |new: &NewRule| group.rules.iter().any(|rule| opens(rule, new));
            unopened = following(work, balancer, &group, is_open).and_then(|new| make(&new, done));
        }
    }
    if !is_at_rest {
        return narrowed.and(of_doubles).map(|()| None);
    }
    let addresses = addresses(backends, work.family(Some(balancer)));
    let given = ports_of(&servers(work.config, backends)).and_then(|all| {
        let (members, others): (Vec<Port>, Vec<Port>) = all.into_iter().partition(|port| is_member(port, &addresses));
        change(Direction::Give, members.clone(), &group.id, done)?;
        Ok((members, others))
    });
    match given {
        // The doubles go, whatever rules they have.
        Ok((members, others)) => narrowed.map(|()| Some(Opened { group, doubles, old, members, others, unopened })),
        Err(failure) => Err(both(failure, narrowed.and(of_doubles).and(unopened))),
    }
}

/// What a double has open is open to those whom the Service wants, and to nobody else: ports may have it alone.
fn follow(work: &Work<'_>, double: &Group, sources: &[Cidr], done: &mut Done) -> Result<(), Failure> {
    let mut wanted = rules(work, &double.id, sources);
    wanted.retain(|new| double.rules.iter().any(|rule| opens(rule, new)));
    let (new, old) = changes(&wanted, &double.rules);
    make(&new, done)?;
    delete_rules(&ids(&old), &double.name, done)
}

fn ids(rules: &[&Rule]) -> Vec<String> {
    rules.iter().map(|rule| rule.id.clone()).collect()
}

/// When members have changed: old rules go, and ports of others lose the group. Where groups are not managed, none is left.
pub(super) fn close(work: &Work<'_>, opened: Option<Opened>, done: &mut Done) -> Result<(), Failure> {
    let Some(Opened { group, doubles, old, members, others, unopened }) = opened else {
        return if work.config.balancers.manages_security_groups { Ok(()) } else { leave(work.service, done) };
    };
    let closed = delete_rules(&old, &group.name, done).and_then(|()| {
        let is_there = |port: &Port| members.iter().any(|member| member.id == port.id);
        let mut left = ports::with_group(&group.id)?;
        left.extend(others.into_iter().filter(|port| has(port, &group.id)));
        left.retain(|port| !is_there(port));
        left.sort_by(|one, other| one.id.cmp(&other.id));
        left.dedup_by(|one, other| one.id == other.id);
        change(Direction::Take, left, &group.id, done)?;
        doubles.iter().try_for_each(|double| remove(double, done))
    });
    match closed {
        Ok(()) => unopened,
        Err(failure) => Err(both(failure, unopened)),
    }
}

fn delete_rules(old: &[String], group: &str, done: &mut Done) -> Result<(), Failure> {
    for answer in send_all(old.iter().map(|rule| groups::delete_rule(rule)).collect()) {
        // What is gone already is as good.
        answer?.optional()?;
    }
    if !old.is_empty() {
        done.changed(format!("deleted {} rules of security group {group}", old.len()));
    }
    Ok(())
}

/// A Service that was never published has none that could be left. Its creation asks for nothing more.
pub(super) fn begins(service: &Service) {
    if service.ingress.is_empty() {
        cache::put(&none(service), b"", NONE);
    }
}

/// None is left of a Service whose groups are not managed any more.
fn leave(service: &Service, done: &mut Done) -> Result<(), Failure> {
    if cache::get(&none(service)).is_none() {
        delete(service, done)?;
        cache::put(&none(service), b"", NONE);
    }
    Ok(())
}

/// All groups of the Service go.
pub(super) fn delete(service: &Service, done: &mut Done) -> Result<(), Failure> {
    of(service)?.iter().try_for_each(|group| remove(group, done))
}

/// It goes, from all ports first.
fn remove(group: &Group, done: &mut Done) -> Result<(), Failure> {
    change(Direction::Take, ports::with_group(&group.id)?, &group.id, done)?;
    groups::delete(&group.id)?;
    done.changed(format!("deleted security group {}", group.name));
    Ok(())
}

fn none(service: &Service) -> String {
    format!("no-group/{}", service.uid)
}

/// Those of a Service, whose UID is in the name. The first one is used, whoever looks.
fn of(service: &Service) -> Result<Vec<Group>, Failure> {
    let name = names::security_group(service);
    let mut own = groups::named(&name)?;
    own.retain(|group| group.name == name);
    own.sort_by(|one, other| one.id.cmp(&other.id));
    Ok(own)
}

/// The groups of many Services, with the ports of all Nodes.
#[derive(Default)]
pub(super) struct Groups {
    by_name: BTreeMap<String, Vec<Group>>,
    /// By server. Not read where groups are not managed.
    ports: BTreeMap<String, Vec<Port>>,
}

impl Groups {
    /// The groups are a list; the ports are one for each hundred Nodes. Ports of Nodes that have left are not among them: they lose the group
    /// when the members change.
    pub(super) fn read<'s>(
        config: &Config,
        services: impl Iterator<Item = &'s Service>,
        backends: &[Backend],
        share: Duration,
    ) -> Result<Self, Failure> {
        let names: BTreeSet<String> = services.map(names::security_group).collect();
        let mut groups = Self::default();
        if names.is_empty() {
            return Ok(groups);
        }
        for group in groups::with_names(&names.iter().map(String::as_str).collect::<Vec<_>>(), share)? {
            groups.by_name.entry(group.name.clone()).or_default().push(group);
        }
        if config.balancers.manages_security_groups && !groups.by_name.is_empty() {
            for port in ports_of(&servers(config, &backends.iter().collect::<Vec<_>>()))? {
                groups.ports.entry(port.device_id.clone()).or_default().push(port);
            }
        }
        Ok(groups)
    }

    /// What is not as it should be.
    ///
    /// # Errors
    ///
    /// The members' subnet cannot be asked for.
    pub(super) fn differences(
        &self,
        work: &Work<'_>,
        balancer: &Balancer,
        backends: &[&Backend],
    ) -> Result<Vec<String>, Failure> {
        let name = names::security_group(work.service);
        let found = self.by_name.get(&name).map_or(&[][..], Vec::as_slice);
        let group = match (found, work.config.balancers.manages_security_groups) {
            ([], true) => return Ok(vec![format!("security group {name} is missing")]),
            ([], false) => return Ok(vec![]),
            (_, false) => {
                // Whatever was believed of it.
                cache::forget(&none(work.service));
                return Ok(vec![format!("security group {name} is there, although manage-security-groups is off")]);
            }
            ([group], true) => group,
            (_, true) => return Ok(vec![format!("several security groups have the name {name}")]),
        };
        let mut differences = vec![];
        let wanted = rules(work, &group.id, &sources(work, balancer)?);
        let (new, old) = changes(&wanted, &group.rules);
        if !new.is_empty() || !old.is_empty() {
            let (new, old) = (new.len(), old.len());
            differences.push(format!("security group {name} lacks {new} rules, and has {old} others"));
        }
        let addresses = addresses(backends, work.family(Some(balancer)));
        let servers = servers(work.config, backends);
        let ports = servers.iter().filter_map(|server| self.ports.get(server)).flatten();
        let without = ports.filter(|port| is_member(port, &addresses) && !has(port, &group.id)).count();
        if without > 0 {
            differences.push(format!("{without} ports of Nodes lack security group {name}"));
        }
        Ok(differences)
    }
}

/// All at once. Where one of them is there meanwhile, one by one.
fn make(new: &[NewRule], done: &mut Done) -> Result<(), Failure> {
    if new.is_empty() {
        return Ok(());
    }
    let answer = groups::make_rules(new)?;
    if answer.status() == 409 {
        for rule in new {
            let answer = groups::make_rule(rule)?;
            let exists = neutron_type(&answer).is_some_and(|kind| kind == "SecurityGroupRuleExists");
            if !exists {
                answer.done()?;
            }
        }
    } else {
        answer.done()?;
    }
    done.changed(format!("made {} rules of the security group", new.len()));
    Ok(())
}

/// The servers of Nodes.
fn servers(config: &Config, backends: &[&Backend]) -> Vec<String> {
    let servers = Servers::new(config);
    let id_of = |backend: &&Backend| servers.id_of(backend.provider_id.as_deref()?).ok();
    backends.iter().filter_map(id_of).collect()
}

fn ports_of(servers: &[String]) -> Result<Vec<Port>, Failure> {
    let ids: Vec<&str> = servers.iter().map(String::as_str).collect();
    ports::of_servers(&ids, Duration::ZERO)
}

/// Where members are.
fn addresses(backends: &[&Backend], family: IpFamily) -> BTreeSet<IpAddr> {
    backends.iter().filter_map(|backend| desired::address(backend, Some(family))).collect()
}

/// Whether a port is that of a member, and holds packets back.
fn is_member(port: &Port, addresses: &BTreeSet<IpAddr>) -> bool {
    port.is_secured()
        && port.fixed_ips.iter().any(|fixed| fixed.ip_address.parse().is_ok_and(|ip| addresses.contains(&ip)))
}

fn has(port: &Port, group: &str) -> bool {
    port.security_groups.iter().any(|other| other == group)
}

/// Whether ports get a group, or lose it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Give,
    Take,
}

impl Direction {
    /// None where the port is as it should be.
    fn request(self, port: &Port, group: &str) -> Option<ccm_sdk::Request> {
        if has(port, group) == (self == Self::Give) {
            return None;
        }
        let mut groups = port.security_groups.clone();
        match self {
            Self::Give => groups.push(group.to_owned()),
            Self::Take => groups.retain(|other| other != group),
        }
        Some(groups::set(&port.id, port.revision, &groups))
    }
}

/// Changes ports, all at the same time, and each as it was read: one that somebody else has changed meanwhile is read again.
fn change(direction: Direction, ports: Vec<Port>, group: &str, done: &mut Done) -> Result<(), Failure> {
    let (mut open, mut changed, mut wrong) = (ports, 0_usize, None);
    for attempt in 1..=ATTEMPTS {
        let asked = std::mem::take(&mut open).into_iter();
        let (sent, requests): (Vec<Port>, Vec<_>) =
            asked.filter_map(|port| direction.request(&port, group).map(|request| (port, request))).unzip();
        for (port, answer) in sent.into_iter().zip(send_all(requests)) {
            let is_stale = |answer: &Answer| answer.status() == 412 && attempt < ATTEMPTS;
            let result = answer.and_then(|answer| match answer {
                answer if is_stale(&answer) => {
                    open.extend(ports::get(&port.id).send().and_then(ports::one)?);
                    Ok(false)
                }
                // That it is the port that is gone is no failure.
                answer if neutron_type(&answer).as_deref() == Some(NO_GROUP) => Err(answer.failure(Reaction::Retry)),
                answer => Ok(answer.optional()?.is_some()),
            });
            // The rest is not kept from it.
            match result {
                Ok(is_changed) => changed = changed.saturating_add(usize::from(is_changed)),
                Err(failure) => wrong = wrong.or(Some(failure)),
            }
        }
    }
    if changed > 0 {
        done.changed(match direction {
            Direction::Give => format!("gave the security group to {changed} ports"),
            Direction::Take => format!("took the security group off {changed} ports"),
        });
    }
    wrong.map_or(Ok(()), |failure| Err(failure.context("failed to update security group for ports")))
}

/// A group is gone that a port should have.
const NO_GROUP: &str = "SecurityGroupNotFound";
