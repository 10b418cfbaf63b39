//! Routes: a table in the host's cache. Each network leads to one Node, or nowhere. What a table lacks that Nodes were told of is adopted, as
//! addresses are from the status of Services: after a restart, or beside another build with a cache of its own, no route is made again.
//!
//! One value holds the table, a line for each route: network, Node, next hop. Only one call at a time changes it: that of the
//! controller.

use std::net::IpAddr;
use std::time::Duration;

use ccm_sdk::cidr::{Cidr, bits};
use ccm_sdk::routes::{self, Outcome, Route, State, Wish};
use ccm_sdk::types::{Address, AddressType, Failure, Node};
use ccm_sdk::{cache, log, quoted};

use crate::config::Config;
use crate::{Cloudlycke, read_config};

/// Where the table is.
const KEY: &str = "routes";
/// In `more` of a Node: pod CIDRs that have routes.
const ROUTED: &str = "routed-cidrs";
/// Stands for what a line has not.
const NONE: &str = "-";

/// Where a network leads: name of the Node, and its address.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    network: Cidr,
    node: String,
    hop: String,
}

impl Entry {
    fn read(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let network = Cidr::masked(words.next()?)?;
        Some(Self { network, node: words.next()?.to_owned(), hop: words.next()?.to_owned() })
    }
}

/// The routes in order of their networks.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Table(Vec<Entry>);

impl Table {
    /// As it was kept; the operator's seeds before anything was.
    fn of(config: &Config, kept: Option<&str>) -> Self {
        let mut table = Self(vec![]);
        for line in kept.unwrap_or_default().lines() {
            if let Some(entry) = Entry::read(line) {
                table.put(entry);
            }
        }
        if kept.is_none() {
            for (network, node) in config.routes.iter().flatten() {
                let node = node.clone().unwrap_or_else(|| NONE.to_owned());
                table.put(Entry { network: *network, node, hop: NONE.to_owned() });
            }
        }
        table
    }

    fn lines(&self) -> String {
        let mut text = String::new();
        for Entry { network, node, hop } in &self.0 {
            text.push_str(&format!("{network} {node} {hop}\n"));
        }
        text
    }

    fn place(&self, network: &Cidr) -> Result<usize, usize> {
        self.0.binary_search_by(|entry| entry.network.cmp(network))
    }

    /// Says whether this changes anything.
    fn put(&mut self, entry: Entry) -> bool {
        match self.place(&entry.network) {
            Ok(place) => {
                let known = self.0.get_mut(place);
                known.is_some_and(|known| std::mem::replace(known, entry.clone()) != entry)
            }
            Err(place) => {
                self.0.insert(place, entry);
                true
            }
        }
    }

    /// Takes over the routes that Nodes were told of, unless another Node has them.
    fn adopt(&mut self, nodes: &[Node]) {
        for (network, node) in routed(nodes) {
            let known = self.place(&network).ok().and_then(|place| self.0.get(place));
            if known.is_none_or(|known| !nodes.iter().any(|node| node.name == known.node)) {
                let hop = hop(&network, &node.addresses).unwrap_or(NONE).to_owned();
                self.put(Entry { network, node: node.name.clone(), hop });
            }
        }
    }

    fn all(&self, nodes: &[Node]) -> Vec<Route> {
        let route = |Entry { network, node, hop }: &Entry| {
            // Thousands of thousands are a tenth of a second, and a map of them would be 4 KB.
            let behind = nodes.iter().find(|known| known.name == *node);
            let state = match behind {
                None => State::Blackhole,
                // The Node has another address by now.
                Some(known) if hop != NONE && !known.addresses.iter().any(|own| own.value == *hop) => State::Incomplete,
                Some(_) => State::InPlace,
            };
            Route {
                name: format!("cloudlycke-{network}").replace(['/', ':'], "-"),
                destination_cidr: network.to_string(),
                node: behind.map(|_| node.clone()),
                next_hop: (hop != NONE).then(|| hop.clone()),
                state,
                more: vec![],
            }
        };
        self.0.iter().map(route).collect()
    }

    fn remove(&mut self, route: &Route) -> Outcome {
        let place = Cidr::masked(&route.destination_cidr).and_then(|network| self.place(&network).ok());
        let gone = place.map(|place| self.0.remove(place));
        done(gone.map(|entry| format!("route {} removed", entry.network)))
    }

    fn make(&mut self, wish: &Wish) -> Outcome {
        let Some(network) = Cidr::masked(&wish.destination_cidr) else {
            let message = format!("{} is not a network in CIDR notation", quoted(&wish.destination_cidr));
            return Outcome { failure: Some(Failure::invalid(message)), ..done(None) };
        };
        let hop = hop(&network, &wish.node_addresses).unwrap_or(NONE).to_owned();
        let told = format!("route {network} leads to {}", wish.node);
        done(self.put(Entry { network, node: wish.node.clone(), hop }).then_some(told))
    }
}

fn done(change: Option<String>) -> Outcome {
    Outcome { failure: None, changes: change.into_iter().collect(), more: vec![] }
}

/// The Node's first internal address of the network's family.
fn hop<'a>(network: &Cidr, addresses: &'a [Address]) -> Option<&'a str> {
    let fits = |address: &&Address| {
        address.kind == AddressType::InternalIp
            && address.value.parse().is_ok_and(|ip: IpAddr| bits(ip).1 == network.width())
    };
    addresses.iter().find(fits).map(|address| address.value.as_str())
}

/// Networks of which Nodes were told that they have routes.
fn routed(nodes: &[Node]) -> impl Iterator<Item = (Cidr, &Node)> {
    let texts = |node: &'_ Node| node.more.iter().find(|(name, _)| name == ROUTED).map(|(_, texts)| texts.clone());
    nodes.iter().flat_map(move |node| {
        let texts = texts(node).unwrap_or_default();
        texts.split(',').filter_map(Cidr::masked).map(|network| (network, node)).collect::<Vec<_>>()
    })
}

/// The table as these Nodes know it.
fn known(config: &Config, kept: Option<&str>, nodes: &[Node]) -> Table {
    let mut table = Table::of(config, kept);
    if kept.is_none() && routed(nodes).next().is_some() {
        // It was there before: what led nowhere at first may be gone.
        table.0.retain(|entry| entry.node != NONE);
    }
    table.adopt(nodes);
    table
}

fn kept() -> Option<String> {
    cache::get(KEY).and_then(|bytes| String::from_utf8(bytes).ok())
}

fn keep(table: &Table) {
    cache::put(KEY, table.lines().as_bytes(), Duration::MAX);
}

impl routes::Guest for Cloudlycke {
    fn get_all(nodes: Vec<Node>) -> Result<Vec<Route>, Failure> {
        let before = kept();
        let table = known(&read_config().usable()?, before.as_deref(), &nodes);
        // A change does not hear of Nodes. What is as it was is not written: whoever compares asks while a change is under way.
        if before.is_none_or(|before| before != table.lines()) {
            keep(&table);
        }
        let routes = table.all(&nodes);
        log::debug("routes", &[("method", &"routes.get-all"), ("nodes", &nodes.len()), ("routes", &routes.len())]);
        Ok(routes)
    }

    fn change(obsolete: Vec<Route>, wanted: Vec<Wish>) -> Result<Vec<Outcome>, Failure> {
        let mut table = Table::of(&read_config().usable()?, kept().as_deref());
        let mut outcomes: Vec<Outcome> = vec![];
        outcomes.extend(obsolete.iter().map(|route| table.remove(route)));
        outcomes.extend(wanted.iter().map(|wish| table.make(wish)));
        keep(&table);
        log::info(
            "routes changed",
            &[("method", &"routes.change"), ("obsolete", &obsolete.len()), ("wanted", &wanted.len())],
        );
        Ok(outcomes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;

    fn table_of(routes: &str, kept: Option<&str>) -> Table {
        let file = format!(r#"{{ "routes": {routes} }}"#);
        Table::of(&config::read(Some(&file)).usable().expect("no mistakes"), kept)
    }

    fn node(name: &str, ip: &str) -> Node {
        let addresses = vec![Address { kind: AddressType::InternalIp, value: ip.to_owned() }];
        Node { addresses, ..Node::named(name) }
    }

    fn wish(network: &str, node: &Node) -> Wish {
        Wish {
            destination_cidr: network.to_owned(),
            node: node.name.clone(),
            node_provider_id: format!("cloudlycke://{}", node.name),
            node_addresses: node.addresses.clone(),
        }
    }

    /// Network, Node, state.
    fn shown(table: &Table, nodes: &[Node]) -> Vec<(String, Option<String>, State)> {
        table.all(nodes).into_iter().map(|route| (route.destination_cidr, route.node, route.state)).collect()
    }

    #[test]
    fn c_35_a_route_is_made_once_moved_and_removed_and_what_is_gone_is_no_failure() {
        let (a, b) = (node("a", "10.0.0.1"), node("b", "10.0.0.2"));
        let mut table = table_of(r#"{ "enabled": true }"#, None);
        let made = table.make(&wish("10.244.0.0/24", &a));
        assert_eq!((made.failure, made.changes), (None, vec!["route 10.244.0.0/24 leads to a".to_owned()]));
        assert_eq!(table.make(&wish("10.244.0.0/24", &a)).changes, [""; 0]);
        let nodes = [a, b];
        let at = |node: &str| vec![("10.244.0.0/24".to_owned(), Some(node.to_owned()), State::InPlace)];
        assert_eq!(shown(&table, &nodes), at("a"));
        assert_eq!(table.make(&wish("10.244.0.0/24", &nodes[1])).changes.len(), 1);
        assert_eq!(shown(&table, &nodes), at("b"));
        // A restart of the call in between.
        let mut table = table_of(r#"{ "enabled": true }"#, Some(&table.lines()));
        let route = table.all(&nodes).remove(0);
        assert_eq!(route.name, "cloudlycke-10.244.0.0-24");
        assert_eq!(table.remove(&route).changes, ["route 10.244.0.0/24 removed"]);
        assert_eq!((table.remove(&route).failure, table.remove(&route).changes), (None, vec![]));
    }

    #[test]
    fn c_36_seeds_are_there_once_and_lead_nowhere_without_a_node() {
        let routes =
            r#"{ "enabled": true, "seed": [{ "cidr": "10.244.9.0/24" }, { "cidr": "fd00::/64", "node": "a" }] }"#;
        let mut table = table_of(routes, None);
        let nodes = [node("a", "10.0.0.1")];
        let seeds = [
            ("10.244.9.0/24".to_owned(), None, State::Blackhole),
            ("fd00::/64".to_owned(), Some("a".to_owned()), State::InPlace),
        ];
        assert_eq!(shown(&table, &nodes), seeds);
        let first = table.all(&nodes).remove(0);
        table.remove(&first);
        let later = table_of(routes, Some(&table.lines()));
        assert_eq!(shown(&later, &nodes), seeds[1..]);
        assert_eq!(table_of(routes, Some("")), Table(vec![]), "an empty table is one");
    }

    #[test]
    fn c_37_a_node_of_two_families_has_two_routes_each_by_its_own_address() {
        let mut both = node("a", "10.0.0.1");
        both.addresses.push(Address { kind: AddressType::InternalIp, value: "fd00:1::1".to_owned() });
        let mut table = table_of(r#"{ "enabled": true }"#, None);
        table.make(&wish("10.244.0.0/24", &both));
        table.make(&wish("fd00:2::/64", &both));
        let routes = table.all(&[both]);
        let hops: Vec<_> = routes.iter().filter_map(|route| route.next_hop.as_deref()).collect();
        assert_eq!(hops, ["10.0.0.1", "fd00:1::1"]);
        assert_ne!(routes[0].name, routes[1].name);
    }

    /// Another build once found none of them, and was refused.
    #[test]
    fn routes_that_nodes_were_told_of_are_there_without_a_table_and_seeds_that_led_nowhere_are_not() {
        let mut routed = [node("a", "10.0.0.1"), node("b", "10.0.0.2"), node("c", "10.0.0.3")];
        routed[0].more = vec![(ROUTED.to_owned(), "10.244.0.0/24,fd00:1::/64".to_owned())];
        routed[1].more = vec![(ROUTED.to_owned(), "10.244.1.0/24,x".to_owned())];
        let file = r#"{ "routes": { "enabled": true, "seed": [{ "cidr": "10.244.9.0/24" }, { "cidr": "10.244.2.0/24", "node": "c" }] } }"#;
        let config = config::read(Some(file)).usable().expect("no mistakes");
        let at = |network: &str, node: &str| (network.to_owned(), Some(node.to_owned()), State::InPlace);
        let all =
            [at("10.244.0.0/24", "a"), at("10.244.1.0/24", "b"), at("10.244.2.0/24", "c"), at("fd00:1::/64", "a")];
        let mut table = known(&config, None, &routed);
        assert_eq!(shown(&table, &routed), all);
        assert_eq!(table.make(&wish("10.244.0.0/24", &routed[0])).changes, [""; 0], "it is not made again");
        // A table that another build has not written to, of a Node that took over the network of one that is gone.
        routed[1].name = "d".to_owned();
        let later = known(&config, Some(&table.lines()), &routed);
        assert_eq!(shown(&later, &routed)[1], at("10.244.1.0/24", "d"));
        // What the table has is not taken from a Node that is there.
        let mut moved = table;
        moved.put(Entry {
            network: Cidr::masked("10.244.0.0/24").expect("a network"),
            node: "c".to_owned(),
            hop: NONE.to_owned(),
        });
        assert_eq!(shown(&known(&config, Some(&moved.lines()), &routed), &routed)[0], at("10.244.0.0/24", "c"));
    }

    #[test]
    fn a_route_to_an_address_of_before_is_incomplete_and_one_to_a_node_that_is_gone_leads_nowhere() {
        let mut table = table_of(r#"{ "enabled": true }"#, None);
        table.make(&wish("10.244.0.0/24", &node("a", "10.0.0.1")));
        let states = |nodes: &[Node]| shown(&table, nodes).remove(0).2;
        assert_eq!(states(&[node("a", "10.0.0.1")]), State::InPlace);
        assert_eq!(states(&[node("a", "10.0.0.9")]), State::Incomplete);
        assert_eq!(states(&[node("b", "10.0.0.1")]), State::Blackhole);
    }
}
