//! The security group of a Service: its node ports are open to the members' subnet, on the ports of the Nodes.
//!
//! A port keeps all its other groups, and is changed only as it was read: nobody's change in between is lost.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use ccm_sdk::cidr::Cidr;
use ccm_sdk::find::Machines;
use ccm_sdk::types::{Backend, Failure, IpFamily, Protocol, Service};
use ccm_sdk::{Done, cache, send_all};

use super::work::Work;
use crate::api::floating_ips;
use crate::api::groups::{self, Group, NewRule, Rule};
use crate::api::octavia::Balancer;
use crate::api::ports::{self, Port};
use crate::desired;
use crate::find::Servers;
use crate::names;
use crate::service_spec::{Ranges, is_ovn};

/// How long the range of a subnet, which cannot change, is kept.
const SUBNET: Duration = Duration::from_secs(3_600);

/// Makes the group what it should be, and gives it to the ports of the Nodes; those of others lose it.
pub(super) fn ensure(
    work: &Work<'_>,
    balancer: &Balancer,
    backends: &[&Backend],
    done: &mut Done,
) -> Result<(), Failure> {
    if !work.config.balancers.manages_security_groups {
        return Ok(());
    }
    let service = work.service;
    if !work.is_sound() {
        // What its rules should be cannot be read: they stay as they are.
        return match one(service)? {
            Some(group) => give(work, &group.id, backends, work.family(Some(balancer)), done),
            None => Ok(()),
        };
    }
    let group = match one(service)? {
        Some(group) => group,
        None => {
            let name = names::security_group(service);
            let made = groups::create(&name, &names::security_group_description(&work.host.cluster, service))?;
            done.changed(format!("made security group {name}"));
            made
        }
    };
    let sources = sources(work, balancer)?;
    let wanted = rules(work, &group.id, &sources);
    let (new, old) = changes(&wanted, &group.rules);
    make(&new, done)?;
    for answer in send_all(old.iter().map(|rule| groups::delete_rule(&rule.id)).collect()) {
        // What is gone already is as good.
        answer?.optional()?;
    }
    if !old.is_empty() {
        done.changed(format!("deleted {} rules of security group {}", old.len(), group.name));
    }
    give(work, &group.id, backends, work.family(Some(balancer)), done)
}

/// The group goes, from all ports first.
pub(super) fn delete(service: &Service, done: &mut Done) -> Result<(), Failure> {
    let Some(group) = one(service)? else { return Ok(()) };
    take(&ports::with_group(&group.id)?, &group.id, done)?;
    groups::delete(&group.id)?;
    done.changed(format!("deleted security group {}", group.name));
    Ok(())
}

fn one(service: &Service) -> Result<Option<Group>, Failure> {
    let name = names::security_group(service);
    let mut found = groups::named(&name)?;
    found.retain(|group| group.name == name);
    if found.len() > 1 {
        return Err(Failure::conflict(format!("several security groups have the name {name}; delete all but one")));
    }
    Ok(found.pop())
}

/// Where members get their traffic from.
fn sources(work: &Work<'_>, balancer: &Balancer) -> Result<Vec<Cidr>, Failure> {
    let everybody = |family| Cidr::masked(if family == IpFamily::Ipv6 { "::/0" } else { "0.0.0.0/0" });
    // OVN leaves the client's address as it is.
    if is_ovn(&work.config.balancers) {
        return Ok(match &work.spec.ranges {
            Ranges::Everybody => everybody(work.family(Some(balancer))).into_iter().collect(),
            Ranges::Only(networks) => networks.clone(),
        });
    }
    let subnet = work.member_subnet(Some(&balancer.vip_subnet_id)).unwrap_or(&balancer.vip_subnet_id);
    let key = format!("subnet/{subnet}");
    let kept: Option<String> = cache::get_json(&key);
    let text = match kept {
        Some(text) => text,
        None => {
            let found = floating_ips::subnet(subnet)?;
            let found =
                found.ok_or_else(|| Failure::retry(format!("the subnet of the members, {subnet:?}, is not there")))?;
            cache::put_json(&key, &found.cidr, SUBNET);
            found.cidr
        }
    };
    let range = Cidr::masked(&text).ok_or_else(|| Failure::retry(format!("subnet {subnet} has the range {text:?}")))?;
    Ok(vec![range])
}

fn rules(work: &Work<'_>, group: &str, sources: &[Cidr]) -> Vec<NewRule> {
    let ports = work.service.ports.iter().filter_map(|port| {
        let protocol = match port.protocol {
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
            Protocol::Sctp => "sctp",
        };
        Some((protocol, port.node_port.filter(|port| *port > 0)?))
    });
    let health = work.service.health_check_node_port.filter(|port| *port > 0).map(|port| ("tcp", port));
    let all: BTreeSet<(&str, u16)> = ports.chain(health).collect();
    let rule = |(protocol, port): (&str, u16), source: &Cidr| NewRule {
        security_group_id: group.to_owned(),
        direction: "ingress".to_owned(),
        ethertype: if source.width() == 128 { "IPv6" } else { "IPv4" }.to_owned(),
        protocol: protocol.to_owned(),
        port_range_min: port,
        port_range_max: port,
        remote_ip_prefix: source.to_string(),
    };
    all.into_iter().flat_map(|port| sources.iter().map(move |source| rule(port, source))).collect()
}

/// What is missing, and what is too much.
pub(super) fn changes<'r>(wanted: &[NewRule], has: &'r [Rule]) -> (Vec<NewRule>, Vec<&'r Rule>) {
    let same = |new: &NewRule, rule: &Rule| {
        let networks = rule.remote_ip_prefix.as_deref().map(Cidr::masked);
        new.direction == rule.direction
            && new.ethertype.eq_ignore_ascii_case(&rule.ethertype)
            && rule.protocol.as_deref().is_some_and(|protocol| protocol.eq_ignore_ascii_case(&new.protocol))
            && (rule.port_range_min, rule.port_range_max) == (Some(new.port_range_min), Some(new.port_range_max))
            && networks == Some(Cidr::masked(&new.remote_ip_prefix))
            && rule.remote_group_id.is_none()
    };
    let new = wanted.iter().filter(|new| !has.iter().any(|rule| same(new, rule))).cloned().collect();
    let old = has.iter().filter(|rule| !wanted.iter().any(|new| same(new, rule))).collect();
    (new, old)
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
            let exists = crate::api::neutron_type(&answer).is_some_and(|kind| kind == "SecurityGroupRuleExists");
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

/// The ports of these Nodes that have the address that members have.
fn give(work: &Work<'_>, group: &str, backends: &[&Backend], family: IpFamily, done: &mut Done) -> Result<(), Failure> {
    let servers = Servers::new(work.config);
    let mut ids = vec![];
    let mut addresses: BTreeSet<IpAddr> = BTreeSet::new();
    for backend in backends {
        addresses.extend(desired::address(backend, Some(family)));
        ids.extend(backend.provider_id.as_deref().and_then(|id| servers.id_of(id).ok()));
    }
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let all = if ids.is_empty() { vec![] } else { ports::of_devices(&ids, Duration::ZERO)? };
    let is_member = |port: &Port| {
        port.is_secured()
            && port.fixed_ips.iter().any(|fixed| fixed.ip_address.parse().is_ok_and(|ip| addresses.contains(&ip)))
    };
    let (members, others): (Vec<Port>, Vec<Port>) = all.into_iter().partition(is_member);
    let has = |port: &&Port| port.security_groups.iter().any(|other| other == group);
    let mut requests = vec![];
    for port in members.iter().filter(|port| !has(port)) {
        let mut groups = port.security_groups.clone();
        groups.push(group.to_owned());
        requests.push(groups::set(&port.id, port.revision, &groups));
    }
    change(requests, "gave the security group to", done)?;
    let is_there = |port: &Port| members.iter().any(|member| member.id == port.id);
    let mut left: Vec<Port> = ports::with_group(group)?.into_iter().filter(|port| !is_there(port)).collect();
    left.extend(others.into_iter().filter(|port| has(&port) && !is_there(port)));
    left.sort_by(|one, other| one.id.cmp(&other.id));
    left.dedup_by(|one, other| one.id == other.id);
    take(&left, group, done)
}

fn take(from: &[Port], group: &str, done: &mut Done) -> Result<(), Failure> {
    let without =
        |port: &Port| port.security_groups.iter().filter(|other| *other != group).cloned().collect::<Vec<_>>();
    let requests = from.iter().map(|port| groups::set(&port.id, port.revision, &without(port))).collect();
    change(requests, "took the security group off", done)
}

fn change(requests: Vec<ccm_sdk::Request>, says: &str, done: &mut Done) -> Result<(), Failure> {
    let count = requests.len();
    let mut wrong = None;
    for answer in send_all(requests) {
        // One that has changed meanwhile is read again with the next call, and the rest is not kept from it.
        let changed = answer.and_then(|answer| answer.optional().map(drop));
        wrong = wrong.or(changed.err());
    }
    if count > 0 {
        done.changed(format!("{says} {count} ports"));
    }
    wrong.map_or(Ok(()), |failure| Err(failure.context("failed to update security group for ports")))
}
