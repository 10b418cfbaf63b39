//! Pairs of addresses: a port sends only what has its own address, and what its pairs allow.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ccm_sdk::cidr::Cidr;
use ccm_sdk::types::Failure;
use ccm_sdk::{Request, send_all};

use crate::api::ports::{self, Pair, Port};

/// So often a port is read again that somebody else changes meanwhile.
const ATTEMPTS: usize = 4;

pub(super) fn has_address(port: &Port, address: IpAddr) -> bool {
    port.fixed_ips.iter().any(|fixed| fixed.ip_address.parse() == Ok(address))
}

/// Ports with an address on one of these networks. Other networks have the same addresses, and the ports there are of others.
pub(super) fn ports_at<'p>(ports: &'p [Port], hop: IpAddr, networks: &[String]) -> Vec<&'p Port> {
    ports.iter().filter(|port| has_address(port, hop) && networks.contains(&port.network_id)).collect()
}

/// The port with an address: the only one of the server, where that is known; otherwise the one on a network of the router.
pub(super) fn port_of<'p>(
    ports: &'p [Port],
    server: Option<&str>,
    hop: IpAddr,
    networks: &[String],
) -> Result<&'p Port, Failure> {
    let is_its = |port: &&Port| server.is_none_or(|server| port.device_id == server);
    if server.is_some() {
        let mut own = ports.iter().filter(|port| has_address(port, hop)).filter(is_its);
        if let (Some(port), None) = (own.next(), own.next()) {
            return Ok(port);
        }
    }
    let mut fitting = ports_at(ports, hop, networks);
    fitting.retain(is_its);
    let whose =
        server.map_or_else(|| " on a network of the router".to_owned(), |server| format!(" of server {server}"));
    match fitting[..] {
        [port] => Ok(port),
        [one, other, ..] => Err(Failure::retry(format!(
            "multiple results where only one expected: ports {} and {}{whose} have the address {hop}",
            one.id, other.id
        ))),
        [] => Err(Failure::retry(format!("failed to find object: no port{whose} has the address {hop}"))),
    }
}

fn is_for(pair: &Pair, network: &Cidr) -> bool {
    let text = &pair.ip_address;
    let whole = if text.contains('/') { text.clone() } else { format!("{text}/{}", network.width()) };
    Cidr::masked(&whole).as_ref() == Some(network)
}

/// Whether a pair of the port is for just that network.
pub(super) fn has(port: &Port, network: &Cidr) -> bool {
    port.pairs.iter().flatten().any(|pair| is_for(pair, network))
}

/// Whether the port holds back what comes from the network.
pub(super) fn lacks(port: &Port, network: &Cidr) -> bool {
    port.is_secured() && port.pairs.is_some() && !has(port, network)
}

/// Pairs that a port gets, or loses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Add,
    Remove,
}

/// Changes pairs of ports, each port once, all at the same time. Says by the ID of the port how it went, of those that are changed: whether
/// there was something to do.
pub(super) fn change(direction: Direction, wishes: &[(&Port, Cidr)]) -> BTreeMap<String, Result<bool, Failure>> {
    let mut open: BTreeMap<String, (Port, Vec<Cidr>)> = BTreeMap::new();
    for (port, network) in wishes {
        let (_, networks) = open.entry(port.id.clone()).or_insert_with(|| ((*port).clone(), vec![]));
        networks.push(*network);
    }
    let mut ended = BTreeMap::new();
    for attempt in 1..=ATTEMPTS {
        let mut sent = vec![];
        for (id, (port, networks)) in std::mem::take(&mut open) {
            match request(direction, &port, &networks) {
                Some(request) => sent.push((id, networks, request)),
                None => drop(ended.insert(id, Ok(false))),
            }
        }
        let requests = sent.iter().map(|(.., request)| request.clone()).collect();
        for ((id, networks, _), answer) in sent.into_iter().zip(send_all(requests)) {
            let changed = answer.and_then(|answer| match answer.status() {
                // Somebody else was faster.
                412 if attempt < ATTEMPTS => Ok(None),
                _ => Ok(Some(answer.optional()?.is_some())),
            });
            let result = match changed {
                Ok(None) => match ports::get(&id).send().and_then(ports::one) {
                    Ok(Some(port)) => {
                        open.insert(id, (port, networks));
                        continue;
                    }
                    Ok(None) => gone(direction, &id),
                    Err(failure) => Err(failure),
                },
                Ok(Some(true)) => Ok(true),
                Ok(Some(false)) => gone(direction, &id),
                Err(failure) => Err(failure),
            };
            ended.insert(id, result);
        }
    }
    ended
}

/// A port that is gone needs no pair, and can have none.
fn gone(direction: Direction, id: &str) -> Result<bool, Failure> {
    match direction {
        Direction::Add => Err(Failure::retry(format!("port {id} is gone"))),
        Direction::Remove => Ok(false),
    }
}

/// None where the port is as it should be.
fn request(direction: Direction, port: &Port, networks: &[Cidr]) -> Option<Request> {
    let before = port.pairs.as_deref().unwrap_or_default();
    let mut pairs = before.to_vec();
    match direction {
        Direction::Add => {
            let missing = networks.iter().filter(|network| lacks(port, network));
            pairs.extend(missing.map(|network| Pair { mac_address: String::new(), ip_address: network.to_string() }));
        }
        Direction::Remove => pairs.retain(|pair| !networks.iter().any(|network| is_for(pair, network))),
    }
    (pairs.len() != before.len()).then(|| ports::put_pairs(port, &pairs))
}
