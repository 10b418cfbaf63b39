//! Routes for the Nodes' pods: entries of one router, and pairs of addresses that the Nodes' ports may send for.
//!
//! | a route of the router within the pods' range | is told as |
//! |---|---|
//! | leads to an address of a Node | the Node's; incomplete where its port lacks the pair |
//! | leads to nobody's port | blackhole |
//! | leads to somebody else's port, and has our tag, or led to a Node a moment ago | blackhole: a Node was there |
//! | leads to somebody else's port otherwise | not told: it is another cluster's, or of people |
//!
//! The router carries a tag for every route that was made here; one of the Go manager gets it with the next change. Ports are looked at when a route is new to us, and every hour: so an idle
//! cluster costs one question every five minutes.

mod change;
mod memory;
mod pairs;
mod tag;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use ccm_sdk::cidr::Cidr;
use ccm_sdk::log;
use ccm_sdk::routes::{Route, State};
use ccm_sdk::types::{Failure, Node};

use self::memory::{Known, Table};
use crate::api::ports;
use crate::api::routers::{self, Hop};
use crate::config::Config;
use crate::provider_id;

pub(crate) use self::change::change;

/// The cluster, as far as its routes are told from others.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cluster {
    pub(crate) name: String,
    /// Where its pods are; none: anywhere.
    pub(crate) ranges: Vec<Cidr>,
}

impl Cluster {
    pub(crate) fn new(name: String, ranges: &[String]) -> Self {
        Self { name, ranges: ranges.iter().filter_map(|range| Cidr::masked(range)).collect() }
    }

    fn has(&self, network: &Cidr) -> bool {
        let (first, last) = network.range();
        let holds =
            |range: &Cidr| range.width() == network.width() && range.range().0 <= first && last <= range.range().1;
        self.ranges.is_empty() || self.ranges.iter().any(holds)
    }
}

/// The router of the configuration.
fn router(config: &Config) -> Result<&str, Failure> {
    config.router.as_deref().ok_or_else(|| Failure::unsupported("router-id not set in cloud provider config"))
}

/// A route that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    network: Cidr,
    hop: IpAddr,
}

impl Entry {
    fn read(hop: &Hop) -> Option<Self> {
        Some(Self { network: Cidr::masked(&hop.destination)?, hop: hop.nexthop.parse().ok()? })
    }
}

/// Answers `routes.get-all`.
pub(crate) fn get_all(config: &Config, cluster: &Cluster, nodes: &[Node]) -> Result<Vec<Route>, Failure> {
    let router = router(config)?;
    let mut known = Known::kept();
    let table = table(router, known.is_due())?;
    let owners = owners(nodes);
    let all = table.routes.iter().filter_map(|hop| Some((hop, Entry::read(hop)?)));
    let ours: Vec<(&Hop, Entry)> = all.filter(|(_, entry)| cluster.has(&entry.network)).collect();
    let is_tagged = |entry: &Entry| tag::is_ours(&table.tags, &cluster.name, &entry.network);
    let is_open = |entry: &Entry| match owners.get(&entry.hop) {
        Some(_) => !known.is_complete(entry),
        None => !is_tagged(entry) && !known.is_ours(entry) && !known.is_others(entry),
    };
    let mut hops: Vec<String> =
        ours.iter().filter(|(_, entry)| is_open(entry)).map(|(_, entry)| entry.hop.to_string()).collect();
    hops.sort_unstable();
    hops.dedup();
    let hops: Vec<&str> = hops.iter().map(String::as_str).collect();
    let mut ports = if hops.is_empty() { vec![] } else { ports::with_addresses(&hops)? };
    let server_of = |node: &Node| provider_id::parse(config, node.provider_id.as_deref()?).ok();
    let open = ours.iter().filter(|(_, entry)| is_open(entry));
    let servers: BTreeSet<String> = open.filter_map(|(_, entry)| server_of(owners.get(&entry.hop)?)).collect();
    ports::trace(&mut ports, &servers.iter().map(String::as_str).collect::<Vec<_>>())?;
    let is_led_by_address = |entry: &Entry| owners.get(&entry.hop).is_some_and(|node| server_of(node).is_none());
    let networks = match !ports.is_empty() && ours.iter().any(|(_, entry)| is_open(entry) && is_led_by_address(entry)) {
        true => networks(router, NETWORKS)?,
        false => vec![],
    };
    let mut routes = vec![];
    for (hop, entry) in ours {
        let Some(node) = owners.get(&entry.hop) else {
            let is_somebodys = known.is_others(&entry) || ports.iter().any(|port| pairs::has_address(port, entry.hop));
            if is_tagged(&entry) || known.is_ours(&entry) || !is_somebodys {
                routes.push(told(hop, None, State::Blackhole));
            } else {
                known.others(entry);
                log::debug(
                    "a route that leads to a port of somebody else is left alone",
                    &[("route", &hop.destination)],
                );
            }
            continue;
        };
        // Where there is no such port, nobody knows.
        let port = pairs::port_of(&ports, server_of(node).as_deref(), entry.hop, &networks);
        let lacks = !known.is_complete(&entry) && port.is_ok_and(|port| pairs::lacks(port, &entry.network));
        known.ours(entry);
        if !lacks {
            known.complete(entry);
        }
        routes.push(told(hop, Some(node.name.clone()), if lacks { State::Incomplete } else { State::InPlace }));
    }
    known.keep();
    Ok(routes)
}

fn told(hop: &Hop, node: Option<String>, state: State) -> Route {
    Route {
        name: hop.destination.clone(),
        destination_cidr: hop.destination.clone(),
        node,
        next_hop: Some(hop.nexthop.clone()),
        state,
        more: vec![],
    }
}

/// The routes of the router. When ports are to be looked at, those of five minutes ago will do: that is one question in place of two.
fn table(id: &str, is_due: bool) -> Result<Table, Failure> {
    if let Some(table) = Table::kept().filter(|_| is_due) {
        return Ok(table);
    }
    let router = routers::get(id).map_err(|failure| failure.context(format_args!("router {id}")))?;
    let Some(routes) = router.routes else {
        let message =
            format!("router {id} has no routes: the cloud lacks the extensions extraroute and extraroute-atomic");
        return Err(Failure::unsupported(message));
    };
    let table = Table { routes, tags: router.tags };
    table.keep();
    Ok(table)
}

/// How long the networks of the router will do to look at ports.
const NETWORKS: Duration = Duration::from_mins(60);

/// The networks that the router has a port on.
fn networks(router: &str, share: Duration) -> Result<Vec<String>, Failure> {
    Ok(ports::of_devices(&[router], share)?.into_iter().map(|port| port.network_id).collect())
}

/// Nodes by their addresses. Of two with one address, the first.
fn owners(nodes: &[Node]) -> BTreeMap<IpAddr, &Node> {
    let mut owners = BTreeMap::new();
    for node in nodes {
        for address in node.addresses.iter().filter_map(|address| address.value.parse().ok()) {
            owners.entry(address).or_insert(node);
        }
    }
    owners
}
