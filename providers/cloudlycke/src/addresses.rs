//! The addresses of a machine that nobody configured any for: what the Node has, in the order of the original demonstration.

use std::net::IpAddr;

use ccm_sdk::quoted;
use ccm_sdk::types::{Address, AddressType, Failure, Node};

/// Written by the kubelet from its `--node-ip`.
const PROVIDED_NODE_IP: &str = "alpha.kubernetes.io/provided-node-ip";

/// Internal, external, host name. Nothing when the Node has no address at all: the caller then leaves the Node's as they are.
///
/// # Errors
///
/// `invalid` when the kubelet's annotation holds something else than addresses.
pub(crate) fn addresses(node: &Node, external_from_internal: bool) -> Result<Vec<Address>, Failure> {
    let mut internal = provided(node)?;
    if internal.is_empty() {
        internal = existing(node, AddressType::InternalIp);
    }
    let mut external = existing(node, AddressType::ExternalIp);
    if external.is_empty() && external_from_internal {
        external.extend(internal.first().cloned());
    }
    let mut hostname = existing(node, AddressType::Hostname);
    if hostname.is_empty() && !(internal.is_empty() && external.is_empty()) {
        hostname.push(node.name.clone());
    }
    let kinds =
        [(AddressType::InternalIp, internal), (AddressType::ExternalIp, external), (AddressType::Hostname, hostname)];
    let mut addresses = vec![];
    for (kind, values) in kinds {
        for value in values {
            addresses.push(Address { kind, value });
        }
    }
    Ok(addresses)
}

fn existing(node: &Node, kind: AddressType) -> Vec<String> {
    node.addresses.iter().filter(|address| address.kind == kind).map(|address| address.value.clone()).collect()
}

/// More than one on a dual-stack Node.
fn provided(node: &Node) -> Result<Vec<String>, Failure> {
    let Some(list) = node.annotation(PROVIDED_NODE_IP) else {
        return Ok(vec![]);
    };
    let mut addresses = vec![];
    for text in list.split(',').map(str::trim) {
        let Ok(ip) = text.parse::<IpAddr>() else {
            let message = format!("{} is not an IP address", quoted(text));
            return Err(Failure::invalid(message).annotation(PROVIDED_NODE_IP));
        };
        addresses.push(ip.to_string());
    }
    Ok(addresses)
}
