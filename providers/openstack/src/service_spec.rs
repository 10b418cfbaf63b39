//! What a Service asks for: its spec and its annotations, with the configuration behind them.
//!
//! Everything wrong is told at once. A value that cannot be read is as if it were not there, with a warning, as in the Go manager;
//! one that Octavia would refuse is refused here, with what is allowed.

pub(crate) mod place;
pub(crate) mod selector;
#[cfg(test)]
pub(crate) mod tests;

use ccm_sdk::annotations::{Invalid, Reader, field};
use ccm_sdk::cidr::{Cidr, SourceRanges};
use ccm_sdk::quoted;
use ccm_sdk::types::{IpFamily, Problem, Protocol, Service, TrafficPolicy};
use ccm_sdk::words::nearest;

use crate::annotations as names;
use crate::config::balancers::{SECONDS, TRIES};
use crate::config::{Balancers, Config};
use crate::names::Names;
use crate::subnet_match::Pattern;

use self::place::{Choice, Floating, Place};
use self::selector::Selector;

/// What a Service asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServiceSpec {
    pub(crate) names: Names,
    /// The load balancer to use.
    pub(crate) id: Option<String>,
    pub(crate) internal: bool,
    /// The family that comes first; none: the Service does not say.
    pub(crate) family: Option<IpFamily>,
    pub(crate) place: Place,
    pub(crate) floating: Floating,
    pub(crate) keeps_floating_ip: bool,
    /// `spec.loadBalancerIP`.
    pub(crate) address: Option<String>,
    pub(crate) connection_limit: i64,
    pub(crate) method: String,
    pub(crate) proxy: Option<Proxy>,
    pub(crate) x_forwarded_for: bool,
    /// What TLS ends with.
    pub(crate) tls_container: Option<String>,
    /// None with the provider ovn, which has none.
    pub(crate) timeouts: Option<Timeouts>,
    pub(crate) monitor: Option<Monitor>,
    /// The node port of the health check, where it is watched.
    pub(crate) health_port: Option<u16>,
    pub(crate) flavor: Option<String>,
    pub(crate) availability_zone: Option<String>,
    pub(crate) hostname: Option<String>,
    pub(crate) selector: Selector,
    pub(crate) ranges: Ranges,
    /// A client stays with one member.
    pub(crate) is_sticky: bool,
    /// One in ERROR may be deleted and made anew.
    pub(crate) recreates: bool,
}

impl ServiceSpec {
    /// What is wrong with the pattern of subnets for the floating IP.
    pub(crate) fn wrong_pattern(&self) -> Option<String> {
        match &self.floating.choice {
            Choice::Matching(name, tags) => Pattern::parse(name, tags).err(),
            Choice::Any | Choice::Subnet(_) => None,
        }
    }

    /// Whether subnets are looked for: not where there is no floating IP, or its address is known.
    pub(crate) fn seeks_subnets(&self) -> bool {
        !self.internal && self.address.is_none() && self.family != Some(IpFamily::Ipv6)
    }
}

/// Which clients are let in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ranges {
    Everybody,
    Only(Vec<Cidr>),
}

ccm_sdk::words! {
    /// Which PROXY protocol members get.
    pub(crate) enum Proxy {
        V1 = "PROXY",
        V2 = "PROXYV2",
    }
}

/// In milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Timeouts {
    pub(crate) client_data: i64,
    pub(crate) member_connect: i64,
    pub(crate) member_data: i64,
    pub(crate) tcp_inspect: i64,
}

/// How members are watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Monitor {
    pub(crate) delay: i64,
    pub(crate) timeout: i64,
    pub(crate) max_retries: i64,
    pub(crate) max_retries_down: i64,
}

/// Whether a provider of Octavia is OVN, which has less.
pub(crate) fn is_ovn(provider: &str) -> bool {
    provider == "ovn"
}

/// What a Service asks for, and all that is wrong with it, for a new load balancer.
pub(crate) fn read(config: &Config, cluster: &str, service: &Service) -> (ServiceSpec, Vec<Problem>) {
    read_for(is_ovn(&config.balancers.provider), config, cluster, service)
}

/// As [`read`], for a load balancer of OVN or of another provider of Octavia.
pub(crate) fn read_for(is_ovn: bool, config: &Config, cluster: &str, service: &Service) -> (ServiceSpec, Vec<Problem>) {
    let mut reader = Reader::of(&service.annotations);
    let balancers = &config.balancers;
    let class = class(config, &mut reader);
    let wants_internal = flag(&mut reader, names::INTERNAL, balancers.internal);
    let internal = wants_internal || balancers.internal;
    if balancers.internal && !wants_internal {
        reader.warn(
            names::INTERNAL,
            format!(
                "annotation {} has no effect: internal-lb of the configuration makes every load balancer internal",
                names::INTERNAL
            ),
        );
    }
    let has_datagrams = service.ports.iter().any(|port| port.protocol != Protocol::Tcp);
    let tls_container = tls(&mut reader, balancers, service, is_ovn, has_datagrams);
    let x_forwarded_for = x_forwarded_for(&mut reader, is_ovn, has_datagrams);
    let proxy = proxy(&mut reader, is_ovn);
    if proxy.is_some() && x_forwarded_for {
        let message =
            format!("annotation {} and {} cannot be used together", names::PROXY_PROTOCOL, names::X_FORWARDED_FOR);
        reader.refuse(names::PROXY_PROTOCOL, message);
    }
    if has_datagrams && proxy.is_some() {
        let message =
            format!("annotation {} is for TCP ports only: the other ones are balanced without", names::PROXY_PROTOCOL);
        reader.warn(names::PROXY_PROTOCOL, message);
    }
    let monitor = monitor(&mut reader, balancers);
    let health_port = (monitor.is_some() && service.external_traffic_policy == TrafficPolicy::Local)
        .then_some(service.health_check_node_port)
        .flatten()
        .filter(|port| *port > 0);
    if service.external_traffic_policy == TrafficPolicy::Local && monitor.is_none() {
        let message = format!(
            "with externalTrafficPolicy Local, Nodes without pods drop what they get; watch the members with annotation {}: \"true\"",
            names::MONITOR
        );
        reader.problems.push(Problem::harmless("spec.externalTrafficPolicy", message));
    }
    let family = service.ip_families.first().copied();
    let spec = ServiceSpec {
        names: Names::of(cluster, service),
        id: reader.text(names::ID).map(str::to_owned),
        internal,
        family,
        place: place::read(&reader, class, &balancers.place, internal),
        floating: place::floating(&mut reader, class, &balancers.place),
        keeps_floating_ip: flag(&mut reader, names::KEEP_FLOATING_IP, false),
        address: service.requested_ip.clone().filter(|address| !address.is_empty()),
        connection_limit: number(&mut reader, names::CONNECTION_LIMIT, -1, (-1, i64::from(i32::MAX))),
        method: method(&mut reader, balancers, is_ovn),
        proxy,
        x_forwarded_for,
        tls_container,
        timeouts: timeouts(&mut reader, is_ovn),
        monitor,
        health_port,
        flavor: of_amphora(&mut reader, names::FLAVOR, &balancers.flavor, is_ovn),
        availability_zone: of_amphora(&mut reader, names::AVAILABILITY_ZONE, &balancers.availability_zone, is_ovn),
        hostname: reader.text(names::HOSTNAME).map(str::to_owned),
        selector: Selector::read(&mut reader, &balancers.node_selector),
        ranges: ranges(&mut reader, service, family, !is_ovn || balancers.manages_security_groups),
        is_sticky: service.client_ip_affinity_seconds.is_some(),
        recreates: flag(&mut reader, names::RECREATE, false),
    };
    if is_ovn && spec.ranges != Ranges::Everybody && !balancers.manages_security_groups {
        let message =
            "the provider ovn of Octavia cannot keep clients out; set manage-security-groups, or everybody is let in";
        reader.problems.push(Problem::harmless("spec.loadBalancerSourceRanges", message));
    }
    if service.ip_families.len() > 1 {
        let (served, other) = if family == Some(IpFamily::Ipv6) { (6, 4) } else { (4, 6) };
        let message = format!(
            "the load balancer serves IPv{served} alone, which comes first, and clients of IPv{other} do not reach it; make a second Service with ipFamilies [IPv{other}] for them"
        );
        reader.problems.push(Problem::harmless("spec.ipFamilies", message));
    }
    if service.ports.is_empty() {
        reader.problems.push(Problem::fatal("spec.ports", "no service ports provided"));
    }
    (spec, reader.problems)
}

/// The class that the Service names.
fn class<'c>(config: &'c Config, reader: &mut Reader<'_>) -> Option<&'c crate::config::Class> {
    let name = reader.text(names::CLASS)?;
    let class = config.classes.iter().find(|(other, _)| other == name).map(|(_, class)| class);
    if class.is_none() {
        let known: Vec<&str> = config.classes.iter().map(|(name, _)| name.as_str()).collect();
        let near = nearest(name, &known).map(|near| format!("; is it meant to be {near}?")).unwrap_or_default();
        reader.refuse(
            names::CLASS,
            format!(
                "invalid loadbalancer class {}: the configuration has no such [LoadBalancerClass]{near}",
                quoted(name)
            ),
        );
    }
    class
}

/// A text; one that is there and empty takes the place of the configuration's, too.
fn text(reader: &Reader<'_>, name: &str, default: &str) -> Option<String> {
    Some(reader.raw(name).unwrap_or(default).trim()).filter(|text| !text.is_empty()).map(str::to_owned)
}

/// A flag, in the two spellings that the Go manager knows.
fn flag(reader: &mut Reader<'_>, name: &str, default: bool) -> bool {
    let shown = if default { "true" } else { "false" };
    match reader.raw(name) {
        None => default,
        Some("true") => true,
        Some("false") => false,
        Some(_) => {
            reader.unfit::<bool>(name, "\"true\", \"false\"", Invalid::Warn(shown));
            default
        }
    }
}

/// A whole number; what is none is as if it were not there.
fn number(reader: &mut Reader<'_>, name: &str, default: i64, (least, most): (i64, i64)) -> i64 {
    let Some(text) = reader.raw(name) else { return default };
    let Ok(number) = text.trim().parse::<i64>() else {
        reader.unfit::<i64>(name, "whole numbers", Invalid::Warn(&default.to_string()));
        return default;
    };
    if !(least..=most).contains(&number) {
        reader.unfit::<i64>(name, &format!("whole numbers from {least} to {most}"), Invalid::Refuse);
        return default;
    }
    number
}

/// A year in milliseconds, the most that Octavia takes.
const LONGEST: i64 = 365 * 24 * 60 * 60 * 1_000;

fn timeouts(reader: &mut Reader<'_>, is_ovn: bool) -> Option<Timeouts> {
    if is_ovn {
        use names::{TIMEOUT_CLIENT_DATA, TIMEOUT_MEMBER_CONNECT, TIMEOUT_MEMBER_DATA, TIMEOUT_TCP_INSPECT};
        for name in [TIMEOUT_CLIENT_DATA, TIMEOUT_MEMBER_CONNECT, TIMEOUT_MEMBER_DATA, TIMEOUT_TCP_INSPECT] {
            missing_in_ovn(reader, name);
        }
        return None;
    }
    let mut time = |name, default| number(reader, name, default, (0, LONGEST));
    Some(Timeouts {
        client_data: time(names::TIMEOUT_CLIENT_DATA, 50_000),
        member_connect: time(names::TIMEOUT_MEMBER_CONNECT, 5_000),
        member_data: time(names::TIMEOUT_MEMBER_DATA, 50_000),
        tcp_inspect: time(names::TIMEOUT_TCP_INSPECT, 0),
    })
}

fn monitor(reader: &mut Reader<'_>, balancers: &Balancers) -> Option<Monitor> {
    let default = &balancers.monitor;
    let enabled = flag(reader, names::MONITOR, default.enabled);
    let before = reader.problems.len();
    let mut of = |name, default: u32, range| number(reader, name, default.into(), range);
    let monitor = Monitor {
        delay: of(names::MONITOR_DELAY, default.delay, (1, i64::from(i32::MAX))),
        timeout: of(names::MONITOR_TIMEOUT, default.timeout, (1, i64::from(i32::MAX))),
        max_retries: of(names::MONITOR_MAX_RETRIES, default.max_retries, (1, 10)),
        max_retries_down: of(names::MONITOR_MAX_RETRIES_DOWN, default.max_retries_down, (1, 10)),
    };
    if !enabled {
        // They are wrong all the same, but nothing is made of them.
        for problem in reader.problems.iter_mut().skip(before) {
            problem.fatal = false;
            problem.message.push_str("; it has no effect while members are not watched");
        }
        return None;
    }
    for (name, key, value, taken) in [
        (names::MONITOR_DELAY, "monitor-delay", monitor.delay, SECONDS),
        (names::MONITOR_TIMEOUT, "monitor-timeout", monitor.timeout, SECONDS),
        (names::MONITOR_MAX_RETRIES, "monitor-max-retries", monitor.max_retries, TRIES),
        (names::MONITOR_MAX_RETRIES_DOWN, "monitor-max-retries-down", monitor.max_retries_down, TRIES),
    ] {
        // Of the configuration: those of annotations have been judged.
        if !taken.contains(&value) {
            let message = format!(
                "{key} in [LoadBalancer] is {value}, and Octavia takes whole numbers from {} to {}; correct it, or set annotation {name}",
                taken.start(),
                taken.end()
            );
            reader.refuse(name, message);
        }
    }
    if reader.raw(names::MONITOR_TIMEOUT).is_some() && monitor.timeout >= monitor.delay {
        let message = format!(
            "the time-out of {} s is not shorter than the delay of {} s: a slow member is asked again before it has answered",
            monitor.timeout, monitor.delay
        );
        reader.warn(names::MONITOR_TIMEOUT, message);
    }
    Some(monitor)
}

/// Octavia's words, of which one that is not among them is told, and sent all the same: providers may have more.
const METHODS: [&str; 4] = ["ROUND_ROBIN", "LEAST_CONNECTIONS", "SOURCE_IP", "SOURCE_IP_PORT"];

/// The configuration has it for load balancers of its own provider: OVN takes one that the others do not have, and no other.
fn method(reader: &mut Reader<'_>, balancers: &Balancers, of_ovn: bool) -> String {
    let default = match of_ovn {
        _ if of_ovn == is_ovn(&balancers.provider) => &balancers.method,
        true => "SOURCE_IP_PORT",
        false => "ROUND_ROBIN",
    };
    let method = reader.text(names::METHOD).unwrap_or(default);
    if reader.raw(names::METHOD).is_some() && !METHODS.contains(&method) {
        let near = nearest(method, &METHODS).map(|near| format!("; is it meant to be {near}?")).unwrap_or_default();
        let message = format!(
            "annotation {} has the value {}, and Octavia knows {}{near}",
            names::METHOD,
            quoted(method),
            METHODS.join(", ")
        );
        reader.warn(names::METHOD, message);
    }
    method.to_owned()
}

fn proxy(reader: &mut Reader<'_>, is_ovn: bool) -> Option<Proxy> {
    let proxy = match reader.raw(names::PROXY_PROTOCOL)? {
        "true" | "v1" => Some(Proxy::V1),
        "v2" => Some(Proxy::V2),
        "false" | "" => None,
        _ => reader.unfit(names::PROXY_PROTOCOL, "\"true\", \"false\", \"v1\", \"v2\"", Invalid::Warn("false")),
    };
    if proxy.is_some() && is_ovn {
        let message = format!(
            "annotation {} has no effect: the provider ovn of Octavia has no PROXY protocol",
            names::PROXY_PROTOCOL
        );
        reader.warn(names::PROXY_PROTOCOL, message);
        return None;
    }
    proxy
}

/// What ends TLS. Where nothing can, the Service is refused: its clients would send in plain text what they mean to be secret. The members
/// of one that is there already still follow.
fn tls(
    reader: &mut Reader<'_>,
    balancers: &Balancers,
    service: &Service,
    is_ovn: bool,
    has_datagrams: bool,
) -> Option<String> {
    let container = text(reader, names::TLS_CONTAINER, &balancers.tls_container)?;
    let is_asked = reader.raw(names::TLS_CONTAINER).is_some();
    if is_ovn {
        if service.ports.iter().all(|port| port.protocol != Protocol::Tcp) {
            return None;
        }
        let asks = match is_asked {
            true => format!("annotation {}", names::TLS_CONTAINER),
            false => "default-tls-container-ref in [LoadBalancer]".to_owned(),
        };
        let message = format!(
            "{asks} asks for a listener that ends TLS, and the provider ovn of Octavia has none; set annotation {} to \"\" to balance TCP as it comes, or use another lb-provider",
            names::TLS_CONTAINER
        );
        reader.refuse(names::TLS_CONTAINER, message);
        return None;
    }
    if is_asked && has_datagrams {
        let message =
            format!("annotation {} is for TCP ports only: the other ones are balanced without", names::TLS_CONTAINER);
        reader.warn(names::TLS_CONTAINER, message);
    }
    Some(container)
}

/// Whether requests get the header.
fn x_forwarded_for(reader: &mut Reader<'_>, is_ovn: bool, has_datagrams: bool) -> bool {
    let forwards = flag(reader, names::X_FORWARDED_FOR, false);
    let name = names::X_FORWARDED_FOR;
    if forwards && is_ovn {
        reader.warn(name, format!("annotation {name} has no effect: the provider ovn of Octavia does not speak HTTP"));
    } else if forwards && has_datagrams {
        reader.warn(name, format!("annotation {name} is for TCP ports only: the other ones are balanced without"));
    }
    forwards && !is_ovn
}

/// What only Octavia's own provider has.
fn of_amphora(reader: &mut Reader<'_>, name: &str, default: &str, is_ovn: bool) -> Option<String> {
    if is_ovn {
        missing_in_ovn(reader, name);
        return None;
    }
    text(reader, name, default)
}

/// An annotation for what the provider ovn of Octavia does not have.
fn missing_in_ovn(reader: &mut Reader<'_>, name: &str) {
    if reader.text(name).is_some() {
        reader.warn(name, format!("annotation {name} has no effect: the provider ovn of Octavia has none"));
    }
}

/// Of the family of the load balancer: Octavia refuses others, for ever. Where they keep nobody out, none of them keeps everybody out.
fn ranges(reader: &mut Reader<'_>, service: &Service, family: Option<IpFamily>, have_effect: bool) -> Ranges {
    let of_spec = !service.source_ranges.is_empty();
    let place = if of_spec { "spec.loadBalancerSourceRanges".to_owned() } else { field(names::SOURCE_RANGES) };
    let read = match of_spec {
        true => SourceRanges::of(service),
        false => SourceRanges::read(reader.list(names::SOURCE_RANGES)).map_err(|range| {
            let message = format!(
                "failed to parse annotation {}: it has {}; allowed are networks such as \"10.0.0.0/8\"",
                names::SOURCE_RANGES,
                quoted(range)
            );
            Problem::fatal(place.clone(), message)
        }),
    };
    let networks = match read {
        Ok(SourceRanges::Everybody) => return Ranges::Everybody,
        Ok(SourceRanges::Only(networks)) => networks,
        Err(problem) => {
            reader.problems.push(problem);
            return Ranges::Only(vec![]);
        }
    };
    let width = if family == Some(IpFamily::Ipv6) { 128 } else { 32 };
    let (fitting, other): (Vec<Cidr>, Vec<Cidr>) = networks.into_iter().partition(|network| network.width() == width);
    let others: Vec<String> = other.iter().map(ToString::to_string).collect();
    if fitting.is_empty() && have_effect {
        let message = format!(
            "nobody could reach the load balancer: its address is of IPv{}, and {} are not",
            if width == 32 { 4 } else { 6 },
            others.join(", ")
        );
        reader.problems.push(Problem::fatal(place, message));
    } else if !others.is_empty() {
        let message =
            format!("are of another family than the load balancer's address, and left out: {}", others.join(", "));
        reader.problems.push(Problem::harmless(place, message));
    }
    // Everybody of a family is what Octavia has without them.
    if fitting.iter().any(|network| network.prefix() == 0) { Ranges::Everybody } else { Ranges::Only(fitting) }
}
