//! Which addresses a Node should have. Nothing here reads or writes anything.

use std::net::IpAddr;

use ccm_cloud::{Address, AddressKind};

use crate::cluster_addresses::address_target::parse_ip;
use crate::store::Node;
use crate::view::node::addresses;

/// Set by kubelets with `--node-ip`: the addresses that must come first.
pub(crate) const PROVIDED_NODE_IP: &str = "alpha.kubernetes.io/provided-node-ip";

/// Why the cloud's addresses cannot be used together with the address that the kubelet asks for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProvidedIpError {
    /// Not an IP address.
    #[error("annotation {PROVIDED_NODE_IP} has {0:?}, which is not an IP address")]
    NotAnIp(String),
    /// Two addresses that are not one of each family, or more than two.
    #[error("annotation {PROVIDED_NODE_IP} has {0:?}: give one address, or one IPv4 and one IPv6 address")]
    Families(String),
    /// `0.0.0.0` or `::` as one of two.
    #[error("annotation {PROVIDED_NODE_IP} has {0:?}: of two addresses none may be unspecified")]
    Unspecified(String),
    /// The cloud does not list it.
    #[error("the cloud lists no address of this machine that is {0}, which annotation {PROVIDED_NODE_IP} asks for")]
    NotListed(IpAddr),
}

/// The addresses that the Node should have; none when the cloud names none, and the Node keeps what it has.
///
/// Names of the kubelet are kept when the cloud has none. What is listed twice stands once. The addresses of the annotation come
/// first.
pub(crate) fn wanted(cloud: &[Address], node: &Node) -> Result<Option<Vec<Address>>, ProvidedIpError> {
    let provided = provided(node);
    if cloud.is_empty() {
        return Ok(None);
    }
    let is_name = |address: &&Address| address.kind == AddressKind::Hostname;
    let mut names = addresses(node);
    names.retain(|address| is_name(&address) && !cloud.iter().any(|address| is_name(&address)));
    let mut addresses: Vec<Address> = vec![];
    for address in cloud.iter().chain(&names) {
        if !addresses.contains(address) {
            addresses.push(address.clone());
        }
    }
    match provided {
        Some(provided) => filter(&addresses, provided).map(Some),
        None => Ok(Some(addresses)),
    }
}

/// The value of [`PROVIDED_NODE_IP`].
pub(crate) fn provided(node: &Node) -> Option<&str> {
    node.annotations.get(PROVIDED_NODE_IP)
}

/// Whether the Node must be written to have exactly `wanted`, in this order.
pub(crate) fn differ(node: &Node, wanted: &[Address]) -> bool {
    !node.addresses.iter().eq(wanted.iter().map(|address| (address.kind.as_str(), address.value.as_str())))
}

/// Brings the addresses that `provided` names to the front, in its order, and drops others of the same kinds.
pub(crate) fn filter(addresses: &[Address], provided: &str) -> Result<Vec<Address>, ProvidedIpError> {
    let mut claimed = Vec::new();
    let mut filtered = Vec::new();
    for ip in parse_provided(provided)? {
        let before = filtered.len();
        for address in addresses.iter().filter(|address| parse_ip(&address.value) == Some(ip)) {
            claimed.push(address.kind);
            filtered.push(address.clone());
        }
        if filtered.len() == before {
            return Err(ProvidedIpError::NotListed(ip));
        }
    }
    filtered.extend(addresses.iter().filter(|address| !claimed.contains(&address.kind)).cloned());
    Ok(filtered)
}

fn parse_provided(value: &str) -> Result<Vec<IpAddr>, ProvidedIpError> {
    let parse = |part: &str| parse_ip(part).ok_or_else(|| ProvidedIpError::NotAnIp(value.to_owned()));
    let ips = value.split(',').map(parse).collect::<Result<Vec<IpAddr>, _>>()?;
    match ips.as_slice() {
        [_] => Ok(ips),
        [one, other] if one.is_ipv4() == other.is_ipv4() => Err(ProvidedIpError::Families(value.to_owned())),
        [one, other] if one.is_unspecified() || other.is_unspecified() => {
            Err(ProvidedIpError::Unspecified(value.to_owned()))
        }
        [_, _] => Ok(ips),
        _ => Err(ProvidedIpError::Families(value.to_owned())),
    }
}
