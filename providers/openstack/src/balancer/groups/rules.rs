//! Rules of the security group of a Service: which node ports are open, and to whom.
//!
//! | the Service | its rules |
//! |---|---|
//! | is served | open all its node ports, and nothing else |
//! | is refused, and its load balancer is there | follow the members: node ports that they come to are opened, and those that the Service has not any more are closed. What is open to anybody stays as it is |

use std::collections::BTreeSet;
use std::time::Duration;

use ccm_sdk::cache;
use ccm_sdk::cidr::Cidr;
use ccm_sdk::types::{Failure, IpFamily, Protocol};

use super::super::work::Work;
use super::super::{member_there, plan};
use crate::api::floating_ips;
use crate::api::groups::{Group, NewRule, Rule};
use crate::api::octavia::{self, Balancer};
use crate::desired::everybody;
use crate::service_spec::Ranges;

/// How long the range of a subnet, which cannot change, is kept.
const SUBNET: Duration = Duration::from_secs(3_600);

/// Where members get their traffic from.
pub(super) fn sources(work: &Work<'_>, balancer: &Balancer) -> Result<Vec<Cidr>, Failure> {
    // OVN leaves the client's address as it is.
    if work.is_ovn() {
        return Ok(match &work.spec.ranges {
            Ranges::Everybody => to_everybody(work, balancer),
            Ranges::Only(networks) => networks.clone(),
        });
    }
    let subnet = work.member_subnet(Some(&balancer.vip_subnet_id)).unwrap_or(&balancer.vip_subnet_id);
    range(subnet, || named_by(work, balancer, subnet))
}

fn to_everybody(work: &Work<'_>, balancer: &Balancer) -> Vec<Cidr> {
    Cidr::masked(everybody(work.family(Some(balancer)))).into_iter().collect()
}

/// The range of a subnet of members. `from` tells where somebody can name another one.
fn range(subnet: &str, from: impl Fn() -> String) -> Result<Vec<Cidr>, Failure> {
    let key = format!("subnet/{subnet}");
    let kept: Option<String> = cache::get_json(&key);
    let text = match kept {
        Some(text) => text,
        None => {
            let found = floating_ips::subnet(subnet)?;
            let found = found.ok_or_else(|| {
                Failure::retry(format!("the subnet of the members, {subnet:?}, is not there; {}", from()))
            })?;
            cache::put_json(&key, &found.cidr, SUBNET);
            found.cidr
        }
    };
    let range = Cidr::masked(&text).ok_or_else(|| {
        Failure::retry(format!("subnet {subnet:?} of the members has the range {text:?}, which is no CIDR; {}", from()))
    })?;
    Ok(vec![range])
}

/// Where somebody can name another subnet for the members.
fn named_by(work: &Work<'_>, balancer: &Balancer, subnet: &str) -> String {
    let [members, own] = [crate::annotations::MEMBER_SUBNET, crate::annotations::SUBNET];
    let place = &work.spec.place;
    let (annotation, key) = match (place.member_subnet.is_some(), place.subnet.is_some()) {
        (true, _) => (members, "member-subnet-id"),
        (false, true) => (own, "subnet-id"),
        (false, false) => {
            return format!("it is that of load balancer {}: name another with annotation {members}", balancer.id);
        }
    };
    match work.service.annotation(annotation) {
        Some(named) if named == subnet => format!("correct annotation {annotation}"),
        _ => format!("correct {key} in the cloud.conf"),
    }
}

/// A node port, with its protocol.
type NodePort = (&'static str, u16);

/// The node port of each port of the Service, in its order.
fn node_ports(work: &Work<'_>) -> impl Iterator<Item = Option<NodePort>> {
    work.service.ports.iter().map(|port| {
        let protocol = match port.protocol {
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
            Protocol::Sctp => "sctp",
        };
        Some((protocol, port.node_port.filter(|port| *port > 0)?))
    })
}

/// Where Nodes say whether they have pods of the Service.
fn health(work: &Work<'_>) -> Option<NodePort> {
    work.service.health_check_node_port.filter(|port| *port > 0).map(|port| ("tcp", port))
}

/// Those that a Service has when it is served.
pub(super) fn rules(work: &Work<'_>, group: &str, sources: &[Cidr]) -> Vec<NewRule> {
    let all: BTreeSet<NodePort> = node_ports(work).flatten().chain(health(work)).collect();
    let rule = |(protocol, port): NodePort, source: &Cidr| NewRule {
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

/// Whether a rule lets anybody in at the port of a new one.
pub(super) fn opens(rule: &Rule, new: &NewRule) -> bool {
    new.direction == rule.direction
        && new.ethertype.eq_ignore_ascii_case(&rule.ethertype)
        && rule.protocol.as_deref().is_none_or(|own| protocol_of(own).eq_ignore_ascii_case(&new.protocol))
        && rule.port_range_min.is_none_or(|first| first <= new.port_range_min)
        && rule.port_range_max.is_none_or(|last| last >= new.port_range_max)
}

/// What is missing, and what is too much. Rules are the same by what they let in, as for Neutron, which has no second one of those: it may
/// be written in another form.
pub(crate) fn changes<'r>(wanted: &[NewRule], has: &'r [Rule]) -> (Vec<NewRule>, Vec<&'r Rule>) {
    let same = |new: &NewRule, rule: &Rule| {
        let family = if new.ethertype == "IPv6" { IpFamily::Ipv6 } else { IpFamily::Ipv4 };
        let network = rule.remote_ip_prefix.as_deref().unwrap_or(everybody(family));
        opens(rule, new)
            && rule.protocol.is_some()
            && (rule.port_range_min, rule.port_range_max) == (Some(new.port_range_min), Some(new.port_range_max))
            && Cidr::masked(network) == Cidr::masked(&new.remote_ip_prefix)
            && rule.remote_group_id.is_none()
            && rule.remote_address_group_id.is_none()
    };
    let new = wanted.iter().filter(|new| !has.iter().any(|rule| same(new, rule))).cloned().collect();
    let old = has.iter().filter(|rule| !wanted.iter().any(|new| same(new, rule))).collect();
    (new, old)
}

/// A protocol may have its number.
fn protocol_of(text: &str) -> &str {
    match text {
        "6" => "tcp",
        "17" => "udp",
        "132" => "sctp",
        name => name,
    }
}

/// Rules of a group that let somebody in, and not at a node port that the Service has.
pub(super) fn outlived<'g>(work: &Work<'_>, balancer: &Balancer, group: &'g Group) -> Vec<&'g Rule> {
    let all = rules(work, &group.id, &to_everybody(work, balancer));
    let is_outlived = |rule: &&Rule| rule.direction == "ingress" && !all.iter().any(|new| opens(rule, new));
    group.rules.iter().filter(is_outlived).collect()
}

/// Of a Service that is refused: what lets traffic in at the node ports that its members come to, where nothing does yet. Those are of ports
/// that have a listener; none is made for the others.
///
/// # Errors
///
/// The cloud cannot be asked, or whom to let in cannot be read.
pub(super) fn following(
    work: &Work<'_>,
    balancer: &Balancer,
    group: &Group,
    is_open: impl Fn(&NewRule) -> bool,
) -> Result<Vec<NewRule>, Failure> {
    let mut closed = rules(work, &group.id, &to_everybody(work, balancer));
    closed.retain(|new| !is_open(new));
    if closed.is_empty() {
        return Ok(vec![]);
    }
    let known = work.know(balancer, &octavia::listeners(&balancer.id)?);
    let ports = work.ports(balancer, &[]);
    let served = node_ports(work).zip(&ports).filter(|(_, port)| plan::serving(&known, &port.listener).is_some());
    let served: BTreeSet<NodePort> = served.filter_map(|(node_port, _)| node_port).collect();
    let watched = health(work).filter(|_| !served.is_empty());
    let is_at = |new: &NewRule, (protocol, port): NodePort| new.protocol == protocol && new.port_range_min == port;
    closed.retain(|new| served.iter().chain(&watched).any(|node_port| is_at(new, *node_port)));
    if closed.is_empty() {
        return Ok(vec![]);
    }
    if work.is_ovn() && !work.has_ranges() {
        let closed: Vec<String> = closed.iter().map(|new| new.port_range_min.to_string()).collect();
        return Err(Failure::invalid(format!(
            "security group {} lets nobody in at node port {} until the source ranges can be read",
            group.name,
            closed.join(", ")
        )));
    }
    let there = if work.is_ovn() { None } else { member_there(&known)? };
    let sources = match there {
        // Which subnet the Service asks for cannot be read.
        Some(member) => {
            let subnet = member.subnet_id.as_deref().unwrap_or(&balancer.vip_subnet_id);
            range(subnet, || format!("members of load balancer {} are in it", balancer.id))?
        }
        None => sources(work, balancer)?,
    };
    let mut new = rules(work, &group.id, &sources);
    let is_closed = |new: &NewRule| {
        closed.iter().any(|other| (&other.protocol, other.port_range_min) == (&new.protocol, new.port_range_min))
    };
    new.retain(is_closed);
    Ok(new)
}
