//! What a Service asks for, parsed once. Later code works with types and never parses annotations again.
//!
//! Nothing is asked of the cloud. What depends on the type that an existing load balancer has is in [`crate::desired`].

mod access;
#[cfg(test)]
pub(crate) mod tests;

use ccm_sdk::annotations::{Invalid, Reader, field};
use ccm_sdk::cidr::SourceRanges;
use ccm_sdk::types::{self, Failure, Problem, Service, TrafficPolicy};

use crate::annotations as names;
use crate::api::balancers::Firewall;
use crate::kind::{Algorithm, HealthProtocol, Kind, Network, Protocol, Size, Stack, Sticky};
pub(crate) use crate::service_spec::access::canonical;

/// Ports that DigitalOcean keeps for itself.
const RESERVED: [u16; 3] = [50_053, 50_054, 50_055];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServiceSpec {
    pub(crate) name: String,
    /// Name of a load balancer that was made before the annotation came.
    pub(crate) default_name: String,
    pub(crate) kind: Option<Kind>,
    pub(crate) network: Option<Network>,
    pub(crate) stack: Option<Stack>,
    pub(crate) ip: Option<String>,
    pub(crate) subnet: Option<String>,
    /// In lower case.
    pub(crate) hostname: Option<String>,
    pub(crate) ports: Vec<Port>,
    pub(crate) protocol: Protocol,
    pub(crate) http_ports: Vec<i64>,
    pub(crate) tls_ports: Vec<i64>,
    pub(crate) http2_ports: Vec<i64>,
    pub(crate) http3_port: Option<i64>,
    pub(crate) passthrough: bool,
    pub(crate) certificate: Certificate,
    pub(crate) redirect: bool,
    pub(crate) no_dns_records: bool,
    pub(crate) health: Health,
    pub(crate) algorithm: &'static str,
    pub(crate) size: Option<Size>,
    pub(crate) size_unit: Option<i64>,
    pub(crate) cookie: Option<Cookie>,
    pub(crate) proxy_protocol: bool,
    pub(crate) keepalive: bool,
    pub(crate) idle_timeout: Option<i64>,
    /// Who is let in by the spec.
    pub(crate) source_ranges: Result<SourceRanges, Problem>,
    /// Who is let in where the spec lets everybody in.
    pub(crate) allow: Result<Vec<String>, Problem>,
    pub(crate) deny: Result<Vec<String>, Problem>,
}

impl ServiceSpec {
    /// # Errors
    ///
    /// It could not be read, and an empty one would let everybody in.
    pub(crate) fn firewall(&self) -> Result<Firewall, Problem> {
        let allow = match self.source_ranges.clone()? {
            SourceRanges::Everybody => self.allow.clone()?,
            SourceRanges::Only(networks) => networks.iter().map(|network| format!("cidr:{network}")).collect(),
        };
        Ok(Firewall { allow, deny: self.deny.clone()? })
    }

    /// None for a load balancer that ends no TLS: then one that is missing stops nothing.
    pub(crate) fn certificate_of(&self, kind: Kind) -> &Certificate {
        if kind == Kind::Regional { &self.certificate } else { &Certificate::None }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Port {
    pub(crate) port: u16,
    pub(crate) node_port: Option<u16>,
    pub(crate) udp: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Certificate {
    None,
    Id(String),
    /// To be looked up.
    Name(String),
}

impl Certificate {
    /// As it is asked for.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::None => None,
            Self::Id(text) | Self::Name(text) => Some(text),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cookie {
    pub(crate) name: String,
    pub(crate) ttl_seconds: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Health {
    pub(crate) target: Result<HealthTarget, Problem>,
    pub(crate) interval: i64,
    pub(crate) timeout: i64,
    pub(crate) unhealthy: i64,
    pub(crate) healthy: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HealthTarget {
    /// kube-proxy, or what Kubernetes opens for traffic that stays on the node: HTTP, without PROXY protocol.
    Automatic(u16),
    Override {
        protocol: HealthProtocol,
        port: u16,
        path: String,
    },
}

/// What is wrong with a Service.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Problems {
    /// Whatever the type of the load balancer is.
    all: Vec<Problem>,
    /// What stops REGIONAL ones, and has no effect on others.
    regional: Vec<Problem>,
}

impl Problems {
    fn new(problems: Vec<Problem>) -> Self {
        let regional = names::REGIONAL_ONLY.map(field);
        let (regional, all) =
            problems.into_iter().partition(|problem| problem.fatal && regional.contains(&problem.field));
        Self { all, regional }
    }

    /// Those of a load balancer of that type. `None`: it is not known, and nothing is refused on a guess.
    pub(crate) fn of(self, kind: Option<Kind>) -> Vec<Problem> {
        let Self { mut all, regional } = self;
        match kind {
            Some(Kind::Regional) => all.extend(regional),
            // One remark names all of them.
            Some(Kind::Network) => {}
            None => all.extend(regional.into_iter().map(|problem| Problem { fatal: false, ..problem })),
        }
        all
    }
}

/// Where kube-proxy tells its health.
const KUBE_PROXY: u16 = 10_256;
const HEALTH_PATH: &str = "/healthz";

/// One failure for all that is fatal.
pub(crate) fn refusal(problems: Vec<Problem>) -> Option<Failure> {
    Problem::refusal(problems).map(|failure| failure.context("failed to build load-balancer request"))
}

/// # Errors
///
/// The annotation says neither yes nor no.
pub(crate) fn is_disowned(service: &Service) -> Result<bool, Failure> {
    let disowned = flag_of(service, names::DISOWN).map_err(Failure::from);
    disowned
        .map(|disowned| disowned.unwrap_or(false))
        .map_err(|failure| failure.context("failed to get disown LB configuration setting"))
}

/// Whether the public access firewall opens its ports.
///
/// # Errors
///
/// The annotation says neither yes nor no.
pub(crate) fn managed(service: &Service) -> Result<bool, Problem> {
    flag_of(service, names::FIREWALL_MANAGED).map(|managed| managed.unwrap_or(true))
}

/// Whether the Service itself asks for that, in plain words.
pub(crate) fn asks_to_be_managed(service: &Service) -> bool {
    flag_of(service, names::FIREWALL_MANAGED) == Ok(Some(true))
}

fn flag_of(service: &Service, name: &str) -> Result<Option<bool>, Problem> {
    let mut reader = Reader::of(&service.annotations);
    let flag = reader.flag(name, Invalid::Refuse);
    reader.problems.pop().map_or(Ok(flag), Err)
}

/// Also when something is wrong: then it is as if it were not there, and a problem says so.
pub(crate) fn read(service: &Service) -> (ServiceSpec, Problems) {
    let mut reader = Reader::of(&service.annotations);
    let default_name = default_name(service);
    let ports = ports(service, &mut reader);
    let service_spec = ServiceSpec {
        name: name(&mut reader).unwrap_or_else(|| default_name.clone()),
        default_name,
        kind: reader.word(names::TYPE, Invalid::Refuse),
        network: reader.word(names::NETWORK, Invalid::Refuse),
        stack: reader.word(names::NETWORK_STACK, Invalid::Refuse),
        ip: reader.text(names::IP).map(str::to_owned),
        subnet: reader.text(names::SUBNET).map(str::to_owned),
        hostname: reader.text(names::HOSTNAME).map(str::to_ascii_lowercase),
        protocol: reader.word(names::PROTOCOL, Invalid::Refuse).unwrap_or(Protocol::Tcp),
        http_ports: numbers(&mut reader, names::HTTP_PORTS),
        tls_ports: numbers(&mut reader, names::TLS_PORTS),
        http2_ports: numbers(&mut reader, names::HTTP2_PORTS),
        http3_port: port_number(&mut reader, names::HTTP3_PORT),
        passthrough: reader.flag(names::TLS_PASSTHROUGH, Invalid::Warn("false")).unwrap_or(false),
        certificate: certificate(&reader),
        redirect: yes(&mut reader, names::REDIRECT),
        no_dns_records: yes(&mut reader, names::NO_DNS_RECORDS),
        health: health(service, &mut reader, &ports),
        algorithm: algorithm(&mut reader),
        size: reader.word(names::SIZE_SLUG, Invalid::Refuse),
        size_unit: size_unit(&mut reader),
        cookie: cookie(&mut reader),
        proxy_protocol: yes(&mut reader, names::PROXY_PROTOCOL),
        keepalive: yes(&mut reader, names::KEEPALIVE),
        idle_timeout: reader.number(names::IDLE_TIMEOUT, 30..=600, Invalid::Refuse),
        source_ranges: SourceRanges::of(service),
        allow: access::rules(service, names::ALLOW_RULES),
        deny: access::rules(service, names::DENY_RULES),
        ports,
    };
    access(&mut reader, &service_spec);
    if service_spec.size.is_some() && service_spec.size_unit.is_some() {
        let message = format!(
            "only one of LB size slug and size unit can be provided: {}, {}",
            names::SIZE_SLUG,
            names::SIZE_UNIT
        );
        reader.refuse(names::SIZE_UNIT, message);
    }
    if service_spec.network == Some(Network::Internal) && service_spec.stack == Some(Stack::Dual) {
        let message = format!(
            "network stack configuration error: {} has the value \"DUALSTACK\", and a load balancer with {} INTERNAL is not dual-stack; allowed is IPV4",
            names::NETWORK_STACK,
            names::NETWORK
        );
        reader.refuse(names::NETWORK_STACK, message);
    }
    (service_spec, Problems::new(reader.problems))
}

/// What may be an ID. Anything else is as if it were not there: no load balancer has it, and none is made.
pub(crate) fn id_of(service: &Service) -> Option<&str> {
    Reader::of(&service.annotations).text(names::ID).filter(|id| may_be_id(id))
}

fn may_be_id(text: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    text.len() <= 64 && text.bytes().all(letter)
}

/// What stands where an ID should be, and can be none: whoever wrote it means a load balancer that exists.
pub(crate) fn wrong_id(service: &Service) -> Option<Problem> {
    let mut reader = Reader::of(&service.annotations);
    if !may_be_id(reader.text(names::ID)?) {
        let allowed = "IDs of load balancers: at most 64 letters, digits, `-` and `_`";
        reader.unfit::<()>(names::ID, allowed, Invalid::Refuse);
    }
    reader.problems.pop()
}

/// Whether its load balancer is one of these. Which classes are the operator's for this provider is not told; who has an ID was served.
pub(crate) fn is_served(service: &Service) -> bool {
    service.load_balancer_class.is_none() || id_of(service).is_some()
}

/// As Kubernetes has always named load balancers.
pub(crate) fn default_name(service: &Service) -> String {
    let mut name = format!("a{}", service.uid.replace('-', ""));
    name.truncate(32);
    name
}

fn name(reader: &mut Reader<'_>) -> Option<String> {
    let name = reader.text(names::NAME)?;
    let ends = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-');
    let good = name.len() <= 255 && ends(name.as_bytes().first()) && !name.ends_with('-') && name.bytes().all(letter);
    if !good {
        let allowed =
            "at most 255 letters, digits, `.` and `-`, beginning with a letter or digit and not ending with `-`";
        reader.unfit::<()>(names::NAME, allowed, Invalid::Refuse);
    }
    good.then(|| name.to_owned())
}

fn ports(service: &Service, reader: &mut Reader<'_>) -> Vec<Port> {
    let mut ports = vec![];
    for port in &service.ports {
        let udp = match port.protocol {
            types::Protocol::Tcp => false,
            types::Protocol::Udp => true,
            types::Protocol::Sctp => {
                let message = format!("only TCP or UDP protocol is supported, got: \"SCTP\" at port {}", port.port);
                reader.problems.push(Problem::fatal("spec.ports", message));
                continue;
            }
        };
        if RESERVED.contains(&port.port) {
            let message =
                format!("port {} is reserved by DigitalOcean, as are 50053 to 50055; take another", port.port);
            reader.problems.push(Problem::fatal("spec.ports", message));
        }
        ports.push(Port { port: port.port, node_port: port.node_port, udp });
    }
    ports
}

fn certificate(reader: &Reader<'_>) -> Certificate {
    match (reader.text(names::CERTIFICATE_ID), reader.text(names::CERTIFICATE_NAME)) {
        (Some(id), _) => Certificate::Id(id.to_owned()),
        (None, Some(name)) => Certificate::Name(name.to_owned()),
        (None, None) => Certificate::None,
    }
}

/// It has no effect anyway, so that a wrong one stops nothing.
fn algorithm(reader: &mut Reader<'_>) -> &'static str {
    let algorithm = reader.word(names::ALGORITHM, Invalid::Warn(Algorithm::RoundRobin.text()));
    algorithm.unwrap_or(Algorithm::RoundRobin).text()
}

/// 0 is as if it were not there.
fn size_unit(reader: &mut Reader<'_>) -> Option<i64> {
    reader.number(names::SIZE_UNIT, 0..=100, Invalid::Refuse).filter(|unit| *unit > 0)
}

fn cookie(reader: &mut Reader<'_>) -> Option<Cookie> {
    if reader.word(names::STICKY_TYPE, Invalid::Warn(Sticky::None.text())) != Some(Sticky::Cookies) {
        return None;
    }
    let name = reader.text(names::STICKY_NAME);
    if name.is_none() {
        let message = format!("sticky session cookie name not specified, but required: {}", names::STICKY_NAME);
        reader.refuse(names::STICKY_NAME, message);
    }
    if reader.text(names::STICKY_TTL).is_none() {
        let message = format!("sticky session cookie ttl not specified, but required: {}", names::STICKY_TTL);
        reader.refuse(names::STICKY_TTL, message);
    }
    let ttl_seconds = reader.number(names::STICKY_TTL, 1..=i64::from(i32::MAX), Invalid::Refuse);
    Some(Cookie { name: name?.to_owned(), ttl_seconds: ttl_seconds? })
}

fn health(service: &Service, reader: &mut Reader<'_>, ports: &[Port]) -> Health {
    let target = if reader.raw(names::OVERRIDE_HEALTH_CHECK).is_some() {
        override_target(service, reader, ports)
    } else {
        for name in [names::HEALTH_PORT, names::HEALTH_PATH, names::HEALTH_PROTOCOL] {
            if reader.raw(name).is_some() {
                let message = format!("annotation {name} has no effect without {}", names::OVERRIDE_HEALTH_CHECK);
                reader.warn(name, message);
            }
        }
        Ok(HealthTarget::Automatic(automatic_port(service)))
    };
    if let Err(wrong) = &target {
        reader.problems.push(wrong.clone());
    }
    // 0 is not sent by the Go manager either, and the cloud has a default of its own.
    let mut number = |name, default, of_cloud: i64, least: i64, most: i64| {
        let number = reader.number(name, 0..=i64::from(i32::MAX), Invalid::Refuse).unwrap_or(default);
        if number == 0 {
            reader.warn(
                name,
                format!("annotation {name} has the value 0, and {of_cloud} is taken; documented are {least} to {most}"),
            );
            return of_cloud;
        }
        if !(least..=most).contains(&number) {
            reader.warn(name, format!("annotation {name} has the value {number}; documented are {least} to {most}"));
        }
        number
    };
    Health {
        target,
        interval: number(names::HEALTH_INTERVAL, 3, 10, 3, 300),
        timeout: number(names::HEALTH_TIMEOUT, 5, 5, 3, 300),
        unhealthy: number(names::HEALTH_UNHEALTHY, 3, 5, 2, 10),
        healthy: number(names::HEALTH_HEALTHY, 5, 3, 2, 10),
    }
}

/// Where the load balancer checks when nobody says otherwise.
pub(crate) fn automatic_port(service: &Service) -> u16 {
    let local = service.external_traffic_policy == TrafficPolicy::Local;
    service.health_check_node_port.filter(|port| local && *port > 0).unwrap_or(KUBE_PROXY)
}

fn override_target(service: &Service, reader: &mut Reader<'_>, ports: &[Port]) -> Result<HealthTarget, Problem> {
    let path = reader.text(names::HEALTH_PATH).unwrap_or_default().to_owned();
    let default = if path.is_empty() { HealthProtocol::Tcp } else { HealthProtocol::Http };
    let protocol = reader.word(names::HEALTH_PROTOCOL, Invalid::Refuse).unwrap_or(default);
    let port = health_port(service, ports).map_err(|message| {
        Problem::fatal(field(names::HEALTH_PORT), format!("failed to get health check port: {message}"))
    })?;
    Ok(HealthTarget::Override { protocol, port, path })
}

fn health_port(service: &Service, ports: &[Port]) -> Result<u16, String> {
    let found = match service.annotation(names::HEALTH_PORT) {
        None => ports.iter().find(|port| !port.udp).ok_or_else(|| {
            format!(
                "no health check port of protocol TCP found; a Service with UDP ports alone has only the automatic check, without {}",
                names::OVERRIDE_HEALTH_CHECK
            )
        })?,
        Some(text) => {
            let name = names::HEALTH_PORT;
            if text.contains(',') {
                return Err(format!("annotation {name} only supports a single port, but found multiple: {text:?}"));
            }
            let Ok(number) = text.trim().parse::<u16>() else {
                return Err(format!("annotation {name} has the value {text:?}; allowed is the number of a Service port"));
            };
            let mut same = ports.iter().filter(|port| port.port == number).peekable();
            if same.peek().is_none() {
                let service = service.full_name();
                return Err(format!(
                    "specified health check port {number} does not exist on service {service}; annotation {name} names one of its ports"
                ));
            }
            same.find(|port| !port.udp)
                .ok_or_else(|| {
                    format!("health check port: {number}, cannot be of protocol type UDP; annotation {name} names a TCP port")
                })?
        }
    };
    found.node_port.ok_or_else(|| {
        format!("port {} has no node port; allow them with spec.allocateLoadBalancerNodePorts", found.port)
    })
}

/// Missing is false.
fn yes(reader: &mut Reader<'_>, name: &str) -> bool {
    reader.flag(name, Invalid::Refuse).unwrap_or(false)
}

/// A number that is no port is none of the Service's, and means nothing.
fn port_number(reader: &mut Reader<'_>, name: &str) -> Option<i64> {
    let number = reader.text(name)?.parse().ok();
    number.or_else(|| reader.unfit(name, "whole numbers from 1 to 65535", Invalid::Refuse))
}

/// Likewise, joined by commas; blanks around them do not count.
fn numbers(reader: &mut Reader<'_>, name: &str) -> Vec<i64> {
    let Some(text) = reader.text(name) else { return vec![] };
    let allowed = "numbers of Service ports joined by commas, such as \"443,8443\"";
    let ports: Option<Vec<i64>> = text.split(',').map(|port| port.trim().parse().ok()).collect();
    let ports = ports.or_else(|| reader.unfit(name, allowed, Invalid::Refuse)).unwrap_or_default();
    if let Some(port) = ports.iter().find(|port| !(1..=i64::from(u16::MAX)).contains(*port)) {
        reader.warn(name, format!("annotation {name} has {port}, which is no port; allowed are {allowed}"));
    }
    ports
}

/// What cannot be read of who is let in. Rules that the ranges of the spec replace have no effect.
fn access(reader: &mut Reader<'_>, service_spec: &ServiceSpec) {
    let replaced = matches!(service_spec.source_ranges, Ok(SourceRanges::Only(_)));
    let allow = service_spec.allow.as_ref().err().map(|wrong| Problem { fatal: !replaced, ..wrong.clone() });
    let sources = service_spec.source_ranges.as_ref().err().cloned();
    reader.problems.extend(service_spec.deny.as_ref().err().cloned().into_iter().chain(allow).chain(sources));
}

impl HealthTarget {
    /// Protocol, port, path and whether the PROXY protocol is spoken.
    pub(crate) fn parts(&self) -> (&'static str, u16, &str, Option<bool>) {
        match self {
            Self::Automatic(port) => ("http", *port, HEALTH_PATH, Some(false)),
            Self::Override { protocol, port, path } => (protocol.text(), *port, path, None),
        }
    }
}
