//! What a load balancer should be: listeners, pools, members and monitors, as Octavia is told.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ccm_sdk::cidr::Cidr;
use ccm_sdk::types::{AddressType, Backend, IpFamily, Protocol, Service};
use serde::Serialize;

use crate::service_spec::{Monitor as Watch, Ranges, ServiceSpec, Timeouts};

/// The header that clients' addresses come in.
pub(crate) const FORWARDED: &str = "X-Forwarded-For";

/// One port of a Service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Port {
    pub(crate) listener: Listener,
    pub(crate) pool: Pool,
    pub(crate) members: Vec<Member>,
    pub(crate) monitor: Option<Monitor>,
}

/// Takes connections.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Listener {
    pub(crate) name: String,
    pub(crate) protocol: String,
    pub(crate) protocol_port: u16,
    pub(crate) connection_limit: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) timeout_client_data: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) timeout_member_connect: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) timeout_member_data: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) timeout_tcp_inspect: Option<i64>,
    /// None: the provider cannot keep clients out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) allowed_cidrs: Option<Vec<String>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) insert_headers: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) default_tls_container_ref: Option<String>,
    pub(crate) tags: Vec<String>,
}

/// Hands them to members.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Pool {
    pub(crate) name: String,
    pub(crate) protocol: String,
    pub(crate) lb_algorithm: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) session_persistence: Option<Persistence>,
}

/// A client stays with a member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Persistence {
    #[serde(rename = "type")]
    pub(crate) kind: String,
}

/// A Node and a port of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) address: String,
    pub(crate) protocol_port: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) subnet_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) monitor_port: Option<u16>,
}

/// Watches members.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Monitor {
    pub(crate) name: String,
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) delay: i64,
    pub(crate) timeout: i64,
    pub(crate) max_retries: i64,
    pub(crate) max_retries_down: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) url_path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) http_method: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) expected_codes: Option<String>,
}

/// What a load balancer is made from, beside its Service.
pub(crate) struct Parts<'a> {
    pub(crate) spec: &'a ServiceSpec,
    /// Octavia's provider of it.
    pub(crate) is_ovn: bool,
    /// Of the load balancer's address.
    pub(crate) family: IpFamily,
    /// Where members are; none: Octavia reaches them through the network of the load balancer's address.
    pub(crate) member_subnet: Option<&'a str>,
}

impl Parts<'_> {
    /// All ports of a Service, in its order.
    pub(crate) fn ports(&self, service: &Service, backends: &[&Backend]) -> Vec<Port> {
        let ports = service.ports.iter().enumerate();
        let port = |(index, port): (usize, &ccm_sdk::types::ServicePort)| {
            let listener = self.listener(index, port.protocol, port.port);
            let monitor = self.spec.monitor.map(|watch| self.monitor(index, port.protocol, watch));
            let http = monitor.as_ref().is_some_and(|monitor| monitor.url_path.is_some());
            Port {
                pool: self.pool(index, port.protocol, &listener.protocol),
                members: self.members(port.node_port, backends, self.spec.health_port.filter(|_| http)),
                listener,
                monitor,
            }
        };
        ports.map(port).collect()
    }

    pub(crate) fn listener(&self, index: usize, protocol: Protocol, port: u16) -> Listener {
        let spec = self.spec;
        let speaks_http = protocol == Protocol::Tcp;
        let tls = spec.tls_container.clone().filter(|_| speaks_http);
        let protocol = if tls.is_some() {
            "TERMINATED_HTTPS"
        } else if spec.x_forwarded_for && speaks_http {
            "HTTP"
        } else {
            of_service(protocol)
        };
        let header = (spec.x_forwarded_for && speaks_http).then(|| (FORWARDED.to_owned(), "true".to_owned()));
        let time = |pick: fn(&Timeouts) -> i64| spec.timeouts.as_ref().map(pick);
        Listener {
            name: spec.names.listener(index),
            protocol: protocol.to_owned(),
            protocol_port: port,
            connection_limit: spec.connection_limit,
            timeout_client_data: time(|timeouts| timeouts.client_data),
            timeout_member_connect: time(|timeouts| timeouts.member_connect),
            timeout_member_data: time(|timeouts| timeouts.member_data),
            timeout_tcp_inspect: time(|timeouts| timeouts.tcp_inspect),
            allowed_cidrs: (!self.is_ovn).then(|| self.allowed()),
            insert_headers: header.into_iter().collect(),
            default_tls_container_ref: tls,
            tags: spec.names.tags(),
        }
    }

    fn allowed(&self) -> Vec<String> {
        match &self.spec.ranges {
            Ranges::Everybody => vec![everybody(self.family).to_owned()],
            Ranges::Only(networks) => networks.iter().map(Cidr::to_string).collect(),
        }
    }

    pub(crate) fn pool(&self, index: usize, of_port: Protocol, of_listener: &str) -> Pool {
        let spec = self.spec;
        let protocol = match spec.proxy.filter(|_| of_port == Protocol::Tcp) {
            Some(proxy) => proxy.text(),
            None if matches!(of_listener, "HTTP" | "TERMINATED_HTTPS") => "HTTP",
            None => of_listener,
        };
        Pool {
            name: spec.names.pool(index),
            protocol: protocol.to_owned(),
            lb_algorithm: spec.method.clone(),
            session_persistence: spec.is_sticky.then(|| Persistence { kind: "SOURCE_IP".to_owned() }),
        }
    }

    /// One for each Node that has an address of the family; without a node port there are none.
    pub(crate) fn members(
        &self,
        node_port: Option<u16>,
        backends: &[&Backend],
        monitor_port: Option<u16>,
    ) -> Vec<Member> {
        let Some(protocol_port) = node_port.filter(|port| *port > 0) else { return vec![] };
        let member = |backend: &&Backend| {
            Some(Member {
                name: backend.name.clone(),
                address: address(backend, Some(self.family))?.to_string(),
                protocol_port,
                subnet_id: self.member_subnet.map(str::to_owned),
                monitor_port,
            })
        };
        let mut members: Vec<Member> = backends.iter().filter_map(member).collect();
        members.sort_by(|one, other| (&one.name, &one.address).cmp(&(&other.name, &other.address)));
        // Nodes with one address are one machine, and Octavia refuses the second member.
        let mut addresses = BTreeSet::new();
        members.retain(|member| addresses.insert(member.address.clone()));
        members
    }

    pub(crate) fn monitor(&self, index: usize, protocol: Protocol, watch: Watch) -> Monitor {
        let http = self.spec.health_port.is_some() && !self.is_ovn;
        let kind = match protocol {
            _ if http => "HTTP",
            Protocol::Udp => "UDP-CONNECT",
            other => of_service(other),
        };
        let of_http = |text: &str| http.then(|| text.to_owned());
        Monitor {
            name: self.spec.names.monitor(index),
            kind: kind.to_owned(),
            delay: watch.delay,
            timeout: watch.timeout,
            max_retries: watch.max_retries,
            max_retries_down: watch.max_retries_down,
            url_path: of_http("/healthz"),
            http_method: of_http("GET"),
            expected_codes: of_http("200"),
        }
    }
}

/// All networks of a family.
pub(crate) fn everybody(family: IpFamily) -> &'static str {
    if family == IpFamily::Ipv6 { "::/0" } else { "0.0.0.0/0" }
}

fn of_service(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Tcp => "TCP",
        Protocol::Udp => "UDP",
        Protocol::Sctp => "SCTP",
    }
}

/// Where a Node is reached: at its first internal address, else at its first external one, of a family or of any.
pub(crate) fn address(backend: &Backend, family: Option<IpFamily>) -> Option<IpAddr> {
    let fits = |address: &IpAddr| family.is_none_or(|family| (family == IpFamily::Ipv6) == address.is_ipv6());
    let mut of = [AddressType::InternalIp, AddressType::ExternalIp].into_iter();
    of.find_map(|kind| backend.addresses_of(kind).filter_map(|text| text.parse().ok()).find(fits))
}
