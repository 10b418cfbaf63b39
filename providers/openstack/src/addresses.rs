//! The addresses of a Node: those of its server and of the server's ports, in the order of the Go manager.

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::net::IpAddr;

use ccm_sdk::cidr;
use ccm_sdk::types::{Address, AddressType};

use crate::api::ports::Port;
use crate::api::servers::Server;
use crate::config::Networking;

/// An address on a network within a trunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OnTrunk {
    /// Name of the network.
    pub(crate) network: String,
    pub(crate) address: String,
}

/// All addresses of a server, of which `ports` are the ports and `trunk` what these carry.
pub(crate) fn of(server: &Server, ports: &[&Port], trunk: &[OnTrunk], networking: &Networking) -> Vec<Address> {
    let mut found = Found { addresses: vec![], no_ipv6: networking.no_ipv6 };
    for port in in_order(server, ports) {
        for fixed in &port.fixed_ips {
            found.add(AddressType::InternalIp, &fixed.ip_address);
        }
    }
    for address in [&server.access_v4, &server.access_v6] {
        found.add(AddressType::ExternalIp, address);
    }
    if !server.metadata.hostname.is_empty() {
        found.push(AddressType::Hostname, &server.metadata.hostname);
    }
    for (network, address, is_floating) in by_network(server, trunk) {
        let is_named = |names: &[String]| names.iter().any(|name| name == network);
        if is_floating {
            found.add(AddressType::ExternalIp, address);
        } else if is_named(&networking.public) {
            found.remove(address);
            found.add(AddressType::ExternalIp, address);
        } else if networking.internal.is_empty() || is_named(&networking.internal) {
            found.add(AddressType::InternalIp, address);
        } else {
            found.remove(address);
        }
    }
    if !networking.order.is_empty() {
        // Stable: what is in no network keeps its place behind.
        found.addresses.sort_by_key(|address| order(address, networking));
    }
    found.addresses
}

/// Ports that work, in the order of the server's interfaces: Neutron's own order is that of random IDs.
fn in_order<'p>(server: &Server, ports: &[&'p Port]) -> Vec<&'p Port> {
    let known: Vec<&str> =
        server.networks.0.iter().flat_map(|(_, addresses)| addresses).map(|address| address.addr.as_str()).collect();
    let place = |port: &Port| {
        let places = port.fixed_ips.iter().filter_map(|fixed| known.iter().position(|addr| *addr == fixed.ip_address));
        places.min().unwrap_or(usize::MAX)
    };
    let mut working: Vec<&Port> = ports.iter().copied().filter(|port| port.status == "ACTIVE").collect();
    working.sort_by_key(|port| place(port));
    working
}

/// Network, address, and whether it is a floating one. Networks in the order of their names.
fn by_network<'s>(server: &'s Server, trunk: &'s [OnTrunk]) -> Vec<(&'s str, &'s str, bool)> {
    let own = server.networks.0.iter().flat_map(|(network, addresses)| {
        addresses.iter().map(|address| (network.as_str(), address.addr.as_str(), address.kind == "floating"))
    });
    let carried = trunk.iter().map(|on| (on.network.as_str(), on.address.as_str(), false));
    let mut all: Vec<_> = own.chain(carried).collect();
    all.sort_by_key(|(network, ..)| *network);
    all
}

struct Found {
    addresses: Vec<Address>,
    no_ipv6: bool,
}

impl Found {
    /// What is no address is left out.
    fn add(&mut self, kind: AddressType, address: &str) {
        let Ok(ip) = address.parse::<IpAddr>() else { return };
        if !(self.no_ipv6 && ip.is_ipv6()) {
            self.push(kind, address);
        }
    }

    fn push(&mut self, kind: AddressType, value: &str) {
        if !self.addresses.iter().any(|known| known.kind == kind && known.value == value) {
            self.addresses.push(Address { kind, value: value.to_owned() });
        }
    }

    /// Of whatever kind.
    fn remove(&mut self, value: &str) {
        self.addresses.retain(|known| known.value != value);
    }
}

/// The first network that has it has the highest place; within it, the lowest address comes first.
fn order(address: &Address, networking: &Networking) -> (Reverse<usize>, u128) {
    let priority = address.value.parse().map_or(0, |ip| priority(ip, networking));
    let bits = match priority {
        0 => 0,
        _ => address.value.parse().map_or(0, |ip| cidr::bits(ip).0),
    };
    (Reverse(priority), bits)
}

/// The higher, the earlier in the order; 0: in none.
fn priority(ip: IpAddr, networking: &Networking) -> usize {
    let at = networking.order.iter().position(|network| network.contains(ip));
    at.map_or(0, |at| networking.order.len() - at)
}
