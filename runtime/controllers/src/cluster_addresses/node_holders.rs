//! Which Node has an address or a name. A provider that gives a Node those of another one would lead the traffic of that one to it.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::time::Duration;

use ccm_cloud::{AddressKind, AddressRefusal};
use ipnet::IpNet;
use kube::runtime::reflector::{ObjectRef, Store};
use tokio::time::Instant;

use super::place::Place;
use super::{AddressClash, ClusterAddresses};
use crate::store::Node;
use crate::view::node::is_uninitialized;

/// How old the index may be: whoever else writes addresses is noticed then.
const MAX_AGE: Duration = Duration::from_secs(5 * 60);

/// The first Node that has an address.
#[derive(Default)]
pub(super) struct NodeIndex {
    built: Option<Instant>,
    names: HashMap<Place, Box<str>>,
    /// Whose pods are in which network, and how long the prefixes of these are.
    pods: HashMap<IpNet, Box<str>>,
    prefixes: BTreeSet<u8>,
}

impl NodeIndex {
    fn note(&mut self, node: &Node) {
        for place in node.addresses.iter().filter_map(|(_, text)| Place::of(text)) {
            self.names.entry(place).or_insert_with(|| node.name.clone());
        }
        for range in pod_ranges(node) {
            self.prefixes.insert(range.prefix_len());
            self.pods.insert(range, node.name.clone());
        }
    }

    /// The networks of pods that may have an address, each with its Node.
    fn pods_with(&self, ip: IpAddr) -> impl Iterator<Item = (IpNet, &str)> {
        let ranges = self.prefixes.iter().filter_map(move |prefix| IpNet::new(ip, *prefix).ok());
        let ranges = ranges.map(|range| range.trunc());
        ranges.filter_map(|range| self.pods.get(&range).map(|name| (range, &**name)))
    }
}

impl ClusterAddresses {
    /// A Node was seen.
    pub(crate) fn note(&self, node: &Node) {
        let mut index = self.index.lock();
        if index.built.is_some() {
            index.note(node);
        }
    }

    /// Why `node` cannot have an address, of this kind, that it did not have before. One that nobody has is this Node's from now on.
    pub(crate) fn clash_of_node(&self, node: &Node, place: &Place, kind: AddressKind) -> Option<AddressClash> {
        if place.is_localhost() {
            return Some(AddressClash::NoPlace(AddressRefusal::Loopback));
        }
        if let Place::Ip(ip) = place {
            let cluster_ip = || if self.knows_ranges() { None } else { self.cluster_ip(*ip) };
            let balancer = || if self.shares_nodes { None } else { self.balancer_with(*ip) };
            if let Some(clash) = self.clash(*ip).or_else(cluster_ip).or_else(balancer) {
                return Some(clash);
            }
        }
        self.another_with(node, place, kind)
    }

    /// Another Node that has it, or whose pods have it.
    fn another_with(&self, node: &Node, place: &Place, kind: AddressKind) -> Option<AddressClash> {
        let nodes = self.nodes.as_ref()?;
        // The name of a Node is the Node's, whatever addresses it has.
        if let Place::Name(name) = place
            && let Some(other) = nodes.get(&ObjectRef::new(name)).filter(|other| other.name != node.name)
            && !other.is_deleting
        {
            return Some(AddressClash::Node(other.name_any()));
        }
        let mut index = self.index.lock();
        if index.built.is_none_or(|built| built.elapsed() >= MAX_AGE) {
            *index = NodeIndex { built: Some(Instant::now()), ..NodeIndex::default() };
            for known in nodes.state() {
                index.note(&known);
            }
        }
        let holder = index.names.get(place).filter(|name| **name != node.name);
        if let Some(other) =
            holder.and_then(|name| nodes.get(&ObjectRef::new(name))).filter(|other| keeps(other, place, kind))
        {
            return Some(AddressClash::Node(other.name_any()));
        }
        if let Place::Ip(ip) = place {
            let is_anothers = |range: &IpNet, name: &str| {
                let other = nodes.get(&ObjectRef::new(name)).filter(|other| other.name != node.name);
                other.is_some_and(|other| pod_ranges(&other).any(|known| known == *range))
            };
            if let Some((range, _)) = index.pods_with(*ip).find(|(range, name)| is_anothers(range, name)) {
                return Some(AddressClash::PodRange(range));
            }
        }
        index.names.insert(place.clone(), node.name.clone());
        None
    }

    /// Any Node that has it, in whatever state.
    pub(super) fn any_node_with(&self, place: &Place) -> Option<String> {
        let has_it = |node: &Node| node.addresses.iter().any(|(_, text)| Place::of(text).as_ref() == Some(place));
        self.nodes.as_ref()?.find(has_it).map(|node| node.name_any())
    }
}

/// Whether a Node that has it, or was the first to be given it, is in the way of another one.
fn keeps(other: &Node, place: &Place, kind: AddressKind) -> bool {
    // An address of a machine that is gone may be another one's before its Node is gone.
    if other.is_deleting || matches!(other.ready.as_deref(), Some("False" | "Unknown")) {
        return false;
    }
    let mut kinds =
        other.addresses.iter().filter(|(_, text)| Place::of(text).as_ref() == Some(place)).map(|(kind, _)| kind);
    match kinds.next() {
        // It is about to be written.
        None => is_uninitialized(other),
        // Several machines may leave their network by one address.
        Some(first) => {
            kind != AddressKind::ExternalIp
                || std::iter::once(first).chain(kinds).any(|kind| kind != AddressKind::ExternalIp.as_str())
        }
    }
}

/// Whether any network of pods has it, by what the Nodes say.
pub(super) fn pod_range(nodes: &Store<Node>, ip: IpAddr) -> Option<IpNet> {
    let range = |node: &Node| pod_ranges(node).find(|range| range.contains(&ip));
    nodes.find(|node| range(node).is_some()).and_then(|node| range(&node))
}

/// The networks of the pods of a Node.
fn pod_ranges(node: &Node) -> impl Iterator<Item = IpNet> {
    node.pod_cidrs.iter().filter_map(|text| text.parse::<IpNet>().ok()).map(|range| range.trunc())
}
