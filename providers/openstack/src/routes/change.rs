//! Removes routes and makes others.
//!
//! A pair goes before its route, and comes after it: so what is half done is seen, and done again. A tag comes before its route.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use ccm_sdk::cidr::Cidr;
use ccm_sdk::log;
use ccm_sdk::routes::{Outcome, Route, Wish};
use ccm_sdk::types::{AddressType, Failure, Reaction};

use super::memory::{Known, Table};
use super::pairs::{self, Direction};
use super::{Cluster, Entry, router, tag};
use crate::api::ports::{self, Port};
use crate::api::routers::{self, Hop, Router};
use crate::config::Config;
use crate::provider_id;

/// So often a change of the router is tried that somebody else is in the way of.
const ATTEMPTS: usize = 4;
/// So many tags are written one by one, which loses none that somebody else writes at the same time. More are written as a whole.
const FEW_TAGS: usize = 4;

/// A route to remove or to make, and how that went.
struct Item {
    /// As the router has it, or will have it.
    hop: Hop,
    entry: Option<Entry>,
    server: Option<String>,
    failure: Option<Failure>,
    changes: Vec<String>,
}

impl Item {
    fn failed(failure: Failure) -> Self {
        let hop = Hop::default();
        Self { hop, entry: None, server: None, failure: Some(failure), changes: vec![] }
    }

    fn obsolete(route: &Route) -> Self {
        let hop =
            Hop { destination: route.destination_cidr.clone(), nexthop: route.next_hop.clone().unwrap_or_default() };
        match Entry::read(&hop) {
            entry @ Some(_) => Self { hop, entry, server: None, failure: None, changes: vec![] },
            None => Self::failed(Failure::unsupported(format!(
                "route {:?} to {:?} cannot be read",
                hop.destination, hop.nexthop
            ))),
        }
    }

    fn wanted(config: &Config, wish: &Wish) -> Self {
        let Some(network) = Cidr::masked(&wish.destination_cidr) else {
            return Self::failed(Failure::invalid(format!("{:?} is no network", wish.destination_cidr)));
        };
        let Some(hop) = next_hop(&network, wish) else {
            let message = format!(
                "no address found for host: node {} has no internal address of the family of {network}",
                wish.node
            );
            // A Node that has just come gets its addresses in a moment.
            let has_any = wish.node_addresses.iter().any(|address| address.kind == AddressType::InternalIp);
            return Self::failed(if has_any { Failure::retry(message) } else { Failure::pending(message) });
        };
        let server = provider_id::parse(config, &wish.node_provider_id).ok();
        let entry = Some(Entry { network, hop });
        let hop = Hop { destination: network.to_string(), nexthop: hop.to_string() };
        Self { hop, entry, server, failure: None, changes: vec![] }
    }

    /// What is still to be done.
    fn open(&self) -> Option<Entry> {
        self.entry.filter(|_| self.failure.is_none())
    }

    fn outcome(self) -> Outcome {
        Outcome { failure: self.failure, changes: self.changes, more: vec![] }
    }
}

/// The first internal address of the family.
pub(super) fn next_hop(network: &Cidr, wish: &Wish) -> Option<IpAddr> {
    let internal = wish.node_addresses.iter().filter(|address| address.kind == AddressType::InternalIp);
    let mut hops = internal.filter_map(|address| address.value.parse::<IpAddr>().ok());
    hops.find(|hop| hop.is_ipv4() == (network.width() == 32))
}

/// Answers `routes.change`.
pub(crate) fn change(
    config: &Config,
    cluster: &Cluster,
    obsolete: &[Route],
    wanted: &[Wish],
) -> Result<Vec<Outcome>, Failure> {
    let router = router(config)?;
    Table::forget();
    let mut obsolete: Vec<Item> = obsolete.iter().map(Item::obsolete).collect();
    let mut wanted: Vec<Item> = wanted.iter().map(|wish| Item::wanted(config, wish)).collect();
    let mut hops: Vec<String> =
        obsolete.iter().chain(&wanted).filter_map(Item::open).map(|entry| entry.hop.to_string()).collect();
    hops.sort_unstable();
    hops.dedup();
    let hops: Vec<&str> = hops.iter().map(String::as_str).collect();
    if hops.is_empty() {
        return Ok(obsolete.into_iter().chain(wanted).map(Item::outcome).collect());
    }
    let mut ports = ports::with_addresses(&hops)?;
    let servers: BTreeSet<&str> = wanted.iter().filter_map(|item| item.server.as_deref()).collect();
    ports::trace(&mut ports, &servers.into_iter().collect::<Vec<_>>())?;
    let before = routers::get(router)?;
    let mut work = Work { router, cluster, before, ports, networks: vec![], is_atomic: routers::is_atomic()? };
    if work.needs_networks(&obsolete, &wanted) {
        work.networks = super::networks(router, Duration::ZERO)?;
        work.networks.extend(work.before.gateway.iter().map(|gateway| gateway.network_id.clone()));
    }
    work.run(&mut obsolete, &mut wanted)?;
    Ok(obsolete.into_iter().chain(wanted).map(Item::outcome).collect())
}

struct Work<'a> {
    router: &'a str,
    cluster: &'a Cluster,
    /// The router, as it was a moment ago.
    before: Router,
    /// All that have the address of a hop.
    ports: Vec<Port>,
    /// Of the router; asked for where an address alone says which port is meant: other networks have the same addresses.
    networks: Vec<String>,
    is_atomic: bool,
}

impl Work<'_> {
    fn run(self, obsolete: &mut [Item], wanted: &mut [Item]) -> Result<(), Failure> {
        let mut known = Known::kept();
        for entry in obsolete.iter().filter_map(Item::open) {
            known.forget(&entry);
        }
        self.remove_pairs(obsolete);
        self.remove_routes(obsolete);
        self.retag(obsolete, wanted, &known);
        self.add_routes(wanted)?;
        self.add_pairs(wanted);
        for entry in wanted.iter().filter_map(Item::open) {
            known.complete(entry);
        }
        known.keep();
        Ok(())
    }

    /// Whether a port may be changed that only the address of a hop leads to.
    fn needs_networks(&self, obsolete: &[Item], wanted: &[Item]) -> bool {
        let loses_a_pair = |item: &Item| {
            item.open().is_some_and(|entry| {
                self.ports.iter().any(|port| pairs::has_address(port, entry.hop) && pairs::has(port, &entry.network))
            })
        };
        let is_unclear = |item: &Item| {
            let is_its = |port: &&Port| item.server.as_ref().is_none_or(|server| port.device_id == *server);
            let enough = usize::from(item.server.is_some());
            item.open().is_some_and(|entry| {
                let fitting = self.ports.iter().filter(|port| pairs::has_address(port, entry.hop));
                fitting.filter(is_its).count() > enough
            })
        };
        obsolete.iter().any(loses_a_pair) || wanted.iter().any(is_unclear)
    }

    /// Only on networks of the router, since nobody says which server it was: on another network, a port with that address is of another
    /// cluster, or of people, and needs its pair.
    fn remove_pairs(&self, obsolete: &mut [Item]) {
        let mut wishes = vec![];
        for (at, item) in obsolete.iter().enumerate() {
            let Some(entry) = item.open() else { continue };
            // The server may be gone with its port.
            match pairs::ports_at(&self.ports, entry.hop, &self.networks)[..] {
                [port] => wishes.push((at, port, entry.network)),
                ref several if several.iter().any(|port| pairs::has(port, &entry.network)) => {
                    let ids: Vec<&str> = several.iter().map(|port| port.id.as_str()).collect();
                    log::warn(
                        "an allowed address pair stays: several ports on networks of the router have the address of its route",
                        &[("pair", &item.hop.destination), ("address", &item.hop.nexthop), ("ports", &ids.join(", "))],
                    );
                }
                _ => {}
            }
        }
        let targets: Vec<_> = wishes.iter().map(|(_, port, network)| (*port, *network)).collect();
        let ended = pairs::change(Direction::Remove, &targets);
        for (at, port, _) in wishes {
            let Some(item) = obsolete.get_mut(at) else { continue };
            let (pair, port) = (&item.hop.destination, &port.id);
            match ended.get(port) {
                Some(Ok(true)) => item.changes.push(format!("allowed address pair {pair} removed from port {port}")),
                Some(Err(failure)) => {
                    let what = format!("removing the allowed address pair {pair} from port {port}");
                    item.failure = Some(failure.clone().context(what));
                }
                _ => {}
            }
        }
    }

    fn remove_routes(&self, obsolete: &mut [Item]) {
        let hops = hops(obsolete);
        if hops.is_empty() {
            return;
        }
        let removed =
            if self.is_atomic { routers::remove(self.router, &hops) } else { rewrite(self.router, &hops, &[]) };
        for item in obsolete.iter_mut().filter(|item| item.open().is_some()) {
            match &removed {
                Ok(()) => item.changes.push(format!("route {} via {} removed", item.hop.destination, item.hop.nexthop)),
                Err(failure) => item.failure = Some(failure.clone()),
            }
        }
    }

    /// Takes off the tags of routes that are gone, and puts on those of routes that come. Without its tag a route is ours as long as its Node
    /// is there.
    fn retag(&self, obsolete: &[Item], wanted: &[Item], known: &Known) {
        let of = |items: &[Item]| -> Vec<String> {
            let entries = items.iter().filter_map(Item::open);
            entries.filter_map(|entry| tag::of(&self.cluster.name, &entry.network)).collect()
        };
        let (gone, mut new) = (of(obsolete), of(wanted));
        // Routes of before, which nobody has marked.
        let others = self.before.routes.iter().flatten().filter_map(Entry::read).filter(|entry| known.is_ours(entry));
        new.extend(others.filter_map(|entry| tag::of(&self.cluster.name, &entry.network)));
        new.sort_unstable();
        new.dedup();
        let is_there = |tag: &String| self.before.tags.contains(tag);
        let gone: Vec<String> = gone.into_iter().filter(|tag| is_there(tag) && !new.contains(tag)).collect();
        new.retain(|tag| !is_there(tag));
        let write = || {
            if gone.len().saturating_add(new.len()) > FEW_TAGS {
                let kept = self.before.tags.iter().filter(|tag| !gone.contains(tag)).chain(&new).cloned();
                return routers::replace_tags(self.router, &kept.collect::<Vec<_>>());
            }
            // One after the other: Neutron fails where one router gets several at once.
            let gone = gone.iter().map(|tag| routers::untag(self.router, tag));
            gone.chain(new.iter().map(|tag| routers::tag(self.router, tag)))
                .try_for_each(|request| request.send()?.optional().map(drop))
        };
        let mut done = write();
        // Nothing leads back to the tag of a route that is gone, so it is not left to the next change.
        for _ in 1..ATTEMPTS {
            let may_pass = |failure: &Failure| matches!(failure.reaction, Reaction::Conflict | Reaction::Retry);
            if !done.as_ref().is_err_and(may_pass) {
                break;
            }
            done = write();
        }
        if let Err(failure) = done {
            log::warn(
                "the tags of the router are not those of its routes",
                &[("router", &self.router), ("why", &failure.message)],
            );
        }
    }

    /// # Errors
    ///
    /// One of several is refused, and the cloud does not say which: the host sends them again in halves.
    fn add_routes(&self, wanted: &mut [Item]) -> Result<(), Failure> {
        let hops = hops(wanted);
        if hops.is_empty() {
            return Ok(());
        }
        let added = if self.is_atomic { routers::add(self.router, &hops) } else { rewrite(self.router, &[], &hops) };
        if let (Err(failure), true) = (&added, hops.len() > 1) {
            return Err(failure.clone());
        }
        let before: Vec<Entry> = self.before.routes.iter().flatten().filter_map(Entry::read).collect();
        for item in wanted.iter_mut() {
            let Some(entry) = item.open() else { continue };
            match &added {
                Ok(()) if before.contains(&entry) => {}
                Ok(()) => item.changes.push(format!("route {} via {} added", item.hop.destination, item.hop.nexthop)),
                Err(failure) => item.failure = Some(failure.clone()),
            }
        }
        Ok(())
    }

    fn add_pairs(&self, wanted: &mut [Item]) {
        let mut wishes = vec![];
        for (at, item) in wanted.iter_mut().enumerate() {
            let Some(entry) = item.open() else { continue };
            match pairs::port_of(&self.ports, item.server.as_deref(), entry.hop, &self.networks) {
                Ok(port) => wishes.push((at, port, entry.network)),
                Err(failure) => {
                    item.failure = Some(failure.context(format_args!("port of route {}", item.hop.destination)))
                }
            }
        }
        let targets: Vec<_> = wishes.iter().map(|(_, port, network)| (*port, *network)).collect();
        let ended = pairs::change(Direction::Add, &targets);
        for (at, port, network) in wishes {
            let Some(item) = wanted.get_mut(at) else { continue };
            match ended.get(&port.id) {
                Some(Ok(true)) if pairs::lacks(port, &network) => {
                    item.changes.push(format!("allowed address pair {network} added to port {}", port.id));
                }
                Some(Err(failure)) => {
                    let what = format!("adding the allowed address pair {network} to port {}", port.id);
                    item.failure = Some(failure.clone().context(what));
                }
                _ => {}
            }
        }
    }
}

fn hops(items: &[Item]) -> Vec<Hop> {
    items.iter().filter(|item| item.open().is_some()).map(|item| item.hop.clone()).collect()
}

/// For clouds whose routers take only whole lists. What somebody else has written since is not lost.
fn rewrite(id: &str, remove: &[Hop], add: &[Hop]) -> Result<(), Failure> {
    let entries = |hops: &[Hop]| -> Vec<Entry> { hops.iter().filter_map(Entry::read).collect() };
    let removed = entries(remove);
    for attempt in 1..=ATTEMPTS {
        let router = routers::get(id)?;
        let before = router.routes.clone().unwrap_or_default();
        let mut routes = before.clone();
        routes.retain(|hop| !Entry::read(hop).is_some_and(|entry| removed.contains(&entry)));
        let there = entries(&routes);
        routes.extend(add.iter().filter(|hop| !Entry::read(hop).is_some_and(|entry| there.contains(&entry))).cloned());
        if routes == before {
            return Ok(());
        }
        let answer = routers::replace(&router, &routes)?;
        if answer.status() != 412 || attempt == ATTEMPTS {
            return answer.done();
        }
    }
    Ok(())
}
