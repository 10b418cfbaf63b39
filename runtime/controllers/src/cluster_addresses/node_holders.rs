//! Which Node has an address, a name or a machine. A provider that gives a Node those of another one would lead the traffic of that one to
//! it, or take both Nodes away with one machine.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use ccm_cloud::{AddressKind, AddressRefusal};
use ipnet::IpNet;
use kube::runtime::reflector::{ObjectRef, Store};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::address_target::{AddressTarget, parse_ip};
use super::{AddressClash, ClusterAddresses};
use crate::store::Node;
use crate::view::node::is_uninitialized;

/// How old the index may be: whoever else writes addresses is noticed then.
const MAX_AGE: Duration = Duration::from_secs(5 * 60);
/// How long the store may take to show an address that was written. The watch needs a second; if somebody takes the address away from
/// the Node before the store has shown it, no other Node gets it for so long.
const SEEN_WITHIN: Duration = Duration::from_secs(60);

/// The first Node that has an address.
#[derive(Default)]
pub(super) struct NodeIndex {
    built: Option<Instant>,
    names: HashMap<AddressTarget, Box<str>>,
    /// Whose pods are in which network, and how long the prefixes of these are.
    pods: HashMap<IpNet, Box<str>>,
    prefixes: BTreeSet<u8>,
    /// Addresses that are being written, or were and are not in the store yet.
    writes: HashMap<AddressTarget, Vec<Write>>,
}

/// A Node that is about to have an address.
struct Write {
    node: Box<str>,
    /// None of a machine.
    kind: Option<AddressKind>,
    /// Tries under way.
    tries: usize,
    /// When the API server last took it, or gave no answer.
    done: Option<Instant>,
}

impl Write {
    fn counts(&self) -> bool {
        self.tries > 0 || self.done.is_some_and(|done| done.elapsed() < SEEN_WITHIN)
    }
}

impl NodeIndex {
    fn note(&mut self, node: &Node) {
        for target in targets(node) {
            self.names.entry(target).or_insert_with(|| node.name.clone());
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

    /// Builds it anew where it is too old.
    fn refresh(&mut self, nodes: &Store<Node>) {
        if self.built.is_some_and(|built| built.elapsed() < MAX_AGE) {
            return;
        }
        (self.built, self.names) = (Some(Instant::now()), HashMap::new());
        (self.pods, self.prefixes) = (HashMap::new(), BTreeSet::new());
        for known in nodes.state() {
            self.note(&known);
        }
        self.writes.retain(|_, writes| {
            writes.retain(Write::counts);
            !writes.is_empty()
        });
    }

    /// The Nodes that are about to have it.
    fn writers(&self, target: &AddressTarget, nodes: &Store<Node>) -> impl Iterator<Item = (&Write, Arc<Node>)> {
        let all = self.writes.get(target).into_iter().flatten().filter(|one| one.counts());
        all.filter_map(move |one| Some((one, nodes.get(&ObjectRef::new(&one.node))?)))
    }

    /// From now on this Node has it, or is about to.
    fn begin(&mut self, target: &AddressTarget, node: &Node, kind: Option<AddressKind>, write: &mut AddressWrite) {
        self.names.insert(target.clone(), node.name.clone());
        let writes = self.writes.entry(target.clone()).or_default();
        match writes.iter_mut().find(|one| one.node == node.name) {
            Some(earlier) => {
                // Others may have it as well only if it is an ExternalIP in all that count.
                if !earlier.counts() || kind != Some(AddressKind::ExternalIp) {
                    earlier.kind = kind;
                }
                earlier.tries += 1;
            }
            None => writes.push(Write { node: node.name.clone(), kind, tries: 1, done: None }),
        }
        write.targets.push(target.clone());
    }
}

impl ClusterAddresses {
    /// A Node was seen.
    pub(crate) fn note(&self, node: &Node) {
        let mut index = self.index.lock();
        if index.built.is_some() {
            index.note(node);
        }
        if !index.writes.is_empty() {
            for target in targets(node) {
                index.retain(&target, |write| write.node != node.name || write.tries > 0);
            }
        }
    }

    /// Why `node` cannot have an address, of this kind, that it did not have before. One that nobody has is this Node's from now on, for
    /// as long as it has no other, and as long as `write` is under way or not seen.
    pub(crate) fn clash_of_node(
        &self,
        node: &Node,
        target: &AddressTarget,
        kind: AddressKind,
        write: &mut AddressWrite,
    ) -> Option<AddressClash> {
        if target.is_localhost() {
            return Some(AddressClash::NoPlace(AddressRefusal::Loopback));
        }
        if let AddressTarget::Ip(ip) = target {
            let cluster_ip = || if self.knows_ranges() { None } else { self.cluster_ip(*ip) };
            let balancer = || if self.shares_nodes { None } else { self.balancer_with(*ip) };
            if let Some(clash) = self.clash(*ip).or_else(cluster_ip).or_else(balancer) {
                return Some(clash);
            }
        }
        // Whoever takes an address for a Service looks and says so under this lock: the later one of the two sees the earlier one. Always
        // this lock first, then that of the index.
        let _reserved = match target {
            AddressTarget::Ip(ip) if !self.shares_nodes => {
                let reserved = self.reserved.lock();
                if let Some(clash) = self.balancer_to_be(*ip, &reserved) {
                    return Some(clash);
                }
                Some(reserved)
            }
            _ => None,
        };
        self.another_with(node, target, kind, write)
    }

    /// A Node that is about to have it, or has got it a moment ago.
    pub(super) fn node_to_be(&self, ip: IpAddr) -> Option<AddressClash> {
        let nodes = self.nodes.as_ref()?;
        let target = AddressTarget::Ip(ip);
        let index = self.index.lock();
        // A write that the store shows is none any more, and whoever asks may have looked at the store before.
        let shown = index.names.get(&target).and_then(|name| nodes.get(&ObjectRef::new(name)));
        let shown = shown.filter(|node| ips_of_node(node).any(|known| known == ip));
        let node = shown.or_else(|| index.writers(&target, nodes).map(|(_, node)| node).next())?;
        Some(AddressClash::Node(node.name_any()))
    }

    /// Another Node that has it, or whose pods have it.
    fn another_with(
        &self,
        node: &Node,
        target: &AddressTarget,
        kind: AddressKind,
        write: &mut AddressWrite,
    ) -> Option<AddressClash> {
        let nodes = self.nodes.as_ref()?;
        // The name of a Node is the Node's, whatever addresses it has.
        if let AddressTarget::Name(name) = target
            && let Some(other) = nodes.get(&ObjectRef::new(name)).filter(|other| other.name != node.name)
            && !other.is_deleting
        {
            return Some(AddressClash::Node(other.name_any()));
        }
        let mut index = self.index.lock();
        index.refresh(nodes);
        let holder = index.names.get(target).filter(|name| **name != node.name);
        if let Some(other) =
            holder.and_then(|name| nodes.get(&ObjectRef::new(name))).filter(|other| keeps(other, target, kind))
        {
            return Some(AddressClash::Node(other.name_any()));
        }
        if let AddressTarget::Ip(ip) = target {
            let is_anothers = |range: &IpNet, name: &str| {
                let other = nodes.get(&ObjectRef::new(name)).filter(|other| other.name != node.name);
                other.is_some_and(|other| pod_ranges(&other).any(|known| known == *range))
            };
            if let Some((range, _)) = index.pods_with(*ip).find(|(range, name)| is_anothers(range, name)) {
                return Some(AddressClash::PodRange(range));
            }
        }
        let is_in_the_way = |one: &Write, other: &Node| other.name != node.name && is_written(one, other, target, kind);
        if let Some((_, other)) = index.writers(target, nodes).find(|(one, other)| is_in_the_way(one, other)) {
            return Some(AddressClash::Node(other.name_any()));
        }
        index.begin(target, node, Some(kind), write);
        None
    }

    /// Another Node that has the machine with this provider ID. Without one, the machine is this Node's from now on, as long as `write` is
    /// under way or not seen.
    pub(crate) fn node_of_machine(&self, node: &Node, id: &str, write: &mut AddressWrite) -> Option<String> {
        let nodes = self.nodes.as_ref()?;
        let target = AddressTarget::Machine(id.into());
        let mut index = self.index.lock();
        index.refresh(nodes);
        let has_it = |other: &Node| other.name != node.name && other.provider_id.as_deref() == Some(id);
        let holder = index.names.get(&target).and_then(|name| nodes.get(&ObjectRef::new(name)));
        let holder = holder.filter(|other| has_it(other) && !is_silent(other));
        let is_in_the_way = |other: &Node| other.name != node.name && !is_silent(other);
        let writer = || index.writers(&target, nodes).map(|(_, other)| other).find(|other| is_in_the_way(other));
        let other = holder.or_else(writer);
        if other.is_none() {
            index.begin(&target, node, None, write);
        }
        other.map(|other| other.name_any())
    }

    /// The addresses that the Node called `name` is about to get: none yet.
    pub(crate) fn write_of(&self, name: &str) -> AddressWrite {
        AddressWrite { index: Arc::clone(&self.index), node: name.into(), targets: vec![] }
    }
}

/// What nobody else has: its addresses and its machine.
fn targets(node: &Node) -> impl Iterator<Item = AddressTarget> {
    let machine = node.provider_id.clone().map(AddressTarget::Machine);
    node.addresses.iter().filter_map(|(_, text)| AddressTarget::of(text)).chain(machine)
}

impl NodeIndex {
    fn retain(&mut self, target: &AddressTarget, keep: impl Fn(&Write) -> bool) {
        if let Some(writes) = self.writes.get_mut(target) {
            writes.retain(keep);
            if writes.is_empty() {
                self.writes.remove(target);
            }
        }
    }
}

/// Addresses that are being written to a Node: until the write has failed, or the store shows it, no other Node gets them. Two that were
/// refreshed at the same time once got the same one.
///
/// Dropped, they are free again.
pub(crate) struct AddressWrite {
    index: Arc<Mutex<NodeIndex>>,
    node: Box<str>,
    targets: Vec<AddressTarget>,
}

impl AddressWrite {
    /// The API server has taken them, or may have: it gave no answer.
    pub(crate) fn done(mut self) {
        self.end(|write| write.done = Some(Instant::now()));
    }

    /// The try is over. What an earlier one gave, or may have given, is kept whatever became of this one.
    fn end(&mut self, became: impl Fn(&mut Write)) {
        if self.targets.is_empty() {
            return;
        }
        let mut index = self.index.lock();
        for target in self.targets.drain(..) {
            let all = index.writes.get_mut(&target).into_iter().flatten();
            for write in all.filter(|write| write.node == self.node) {
                write.tries -= 1;
                became(write);
            }
            index.retain(&target, Write::counts);
        }
    }
}

impl Drop for AddressWrite {
    fn drop(&mut self) {
        self.end(|_| ());
    }
}

/// Whether a Node that is about to have it, and does not have it by what the store says, is in the way of another one.
fn is_written(write: &Write, other: &Node, target: &AddressTarget, kind: AddressKind) -> bool {
    let has_it = other.addresses.iter().any(|(_, text)| AddressTarget::of(text).as_ref() == Some(target));
    let is_shared = kind == AddressKind::ExternalIp && write.kind == Some(AddressKind::ExternalIp);
    !is_silent(other) && if has_it { keeps(other, target, kind) } else { !is_shared }
}

/// An address of a machine that is gone may be another one's before its Node is gone.
fn is_silent(node: &Node) -> bool {
    node.is_deleting || matches!(node.ready.as_deref(), Some("False" | "Unknown"))
}

/// Whether a Node that has it, or was the first to be given it, is in the way of another one.
fn keeps(other: &Node, target: &AddressTarget, kind: AddressKind) -> bool {
    if is_silent(other) {
        return false;
    }
    let mut kinds = other
        .addresses
        .iter()
        .filter(|(_, text)| AddressTarget::of(text).as_ref() == Some(target))
        .map(|(kind, _)| kind);
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

/// The IP addresses of a Node, in whatever state it is.
pub(super) fn ips_of_node(node: &Node) -> impl Iterator<Item = IpAddr> {
    node.addresses.iter().filter_map(|(_, text)| parse_ip(text))
}

/// The networks of the pods of a Node.
pub(super) fn pod_ranges(node: &Node) -> impl Iterator<Item = IpNet> {
    node.pod_cidrs.iter().filter_map(|text| text.parse::<IpNet>().ok()).map(|range| range.trunc())
}
