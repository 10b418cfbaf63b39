//! Which Node has an address. A provider that gives a Node the address of another one would lead the traffic of that one to it.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use ccm_cloud::{Address, AddressKind};
use kube::runtime::reflector::{ObjectRef, Store};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::addresses::{parse_ip, provided};
use crate::cluster_addresses::{AddressClash, ClusterAddresses};
use crate::store::Node;
use crate::view::node::is_uninitialized;
use crate::warnings::Warnings;

/// How old the index may be: whoever else writes addresses is noticed then.
const MAX_AGE: Duration = Duration::from_secs(5 * 60);

/// Labels of Nodes on which the API server may run. A kubelet cannot give them to its own Node.
const CONTROL_PLANE: [&str; 2] = ["node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"];

/// A provider gives a Node an address that cannot be the Node's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the provider says that its machine has the {} {address}, which is {clash}: {}", .kind.as_str(), way_out(clash))]
pub struct RefusedAddress {
    kind: AddressKind,
    address: String,
    clash: AddressClash,
}

const fn way_out(clash: &AddressClash) -> &'static str {
    match clash {
        AddressClash::Node(_) => "correct the machine in the cloud, or delete that Node if its machine is gone",
        AddressClash::ApiServer => {
            "label the Node node-role.kubernetes.io/control-plane if the API server runs on it, or correct the machine in the cloud"
        }
        AddressClash::ServiceRange(_) => {
            "correct the machine in the cloud, or --service-cluster-ip-range if that is not the range of Services"
        }
        AddressClash::NoPlace(_) | AddressClash::ClusterIp(_) | AddressClash::LoadBalancer(_) => {
            "correct the machine in the cloud, or replace the provider"
        }
    }
}

/// Judges addresses that providers give Nodes.
pub(crate) struct Holders {
    cluster: ClusterAddresses,
    nodes: Store<Node>,
    index: Mutex<Index>,
    /// What was told of Nodes that keep their addresses.
    told: Mutex<HashMap<Box<str>, Warnings>>,
}

#[derive(Default)]
struct Index {
    built: Option<Instant>,
    /// The first Node that has it.
    names: HashMap<IpAddr, Box<str>>,
}

impl Holders {
    pub(crate) fn new(cluster: ClusterAddresses, nodes: Store<Node>) -> Self {
        Self { cluster, nodes, index: Mutex::default(), told: Mutex::default() }
    }

    /// A Node was seen.
    pub(crate) fn note(&self, node: &Node) {
        let mut index = self.index.lock();
        if index.built.is_some() {
            index.note(node);
        }
    }

    /// Whether a warning about a Node was not given lately.
    pub(crate) fn is_news(&self, name: &str, warning: &str, repeat: Duration) -> bool {
        self.told.lock().entry(name.into()).or_default().is_news(warning, repeat)
    }

    /// There is no such Node any more.
    pub(crate) fn forget(&self, name: &str) {
        self.told.lock().remove(name);
    }

    /// Whether a Node may have the `wanted` addresses. What it has already, or its kubelet asks for, nobody else gave it.
    ///
    /// # Errors
    ///
    /// The first that it may not have.
    pub(crate) fn check(&self, node: &Node, wanted: &[Address]) -> Result<(), RefusedAddress> {
        let asked = provided(node).unwrap_or_default();
        let own: Vec<IpAddr> =
            node.addresses.iter().map(|(_, text)| text).chain(asked.split(',')).filter_map(parse_ip).collect();
        let is_ip = |address: &&Address| matches!(address.kind, AddressKind::InternalIp | AddressKind::ExternalIp);
        for address in wanted.iter().filter(is_ip) {
            // What is no IP address leads nothing away.
            let Some(ip) = parse_ip(&address.value) else { continue };
            let is_own = own.contains(&ip);
            let clash = self.cluster.clash(ip).filter(|clash| match clash {
                AddressClash::NoPlace(_) => true,
                AddressClash::ApiServer => {
                    !is_own && !CONTROL_PLANE.iter().any(|label| node.labels.get(label).is_some())
                }
                _ => !is_own,
            });
            let holder = || self.holder(node, ip, address.kind).filter(|_| !is_own).map(AddressClash::Node);
            if let Some(clash) = clash.or_else(holder) {
                return Err(RefusedAddress { kind: address.kind, address: address.value.clone(), clash });
            }
        }
        Ok(())
    }

    /// Another Node that has this address. One that nobody has is this Node's from now on.
    fn holder(&self, node: &Node, ip: IpAddr, kind: AddressKind) -> Option<String> {
        let mut index = self.index.lock();
        if index.built.is_none_or(|built| built.elapsed() >= MAX_AGE) {
            *index = Index { built: Some(Instant::now()), names: HashMap::new() };
            for known in self.nodes.state() {
                index.note(&known);
            }
        }
        let holder = index.names.get(&ip).filter(|name| **name != node.name);
        let holder = holder.and_then(|name| self.nodes.get(&ObjectRef::new(name)));
        // An address of a machine that is gone may be another one's before its Node is gone.
        let holder =
            holder.filter(|other| !other.is_deleting && !matches!(other.ready.as_deref(), Some("False" | "Unknown")));
        let holder = holder.filter(|other| {
            let mut kinds = other.addresses.iter().filter(|(_, text)| parse_ip(text) == Some(ip)).map(|(kind, _)| kind);
            match kinds.next() {
                // It is about to be written.
                None => is_uninitialized(other),
                // Several machines may leave their network by one address.
                Some(first) => {
                    kind != AddressKind::ExternalIp
                        || std::iter::once(first).chain(kinds).any(|kind| kind != AddressKind::ExternalIp.as_str())
                }
            }
        });
        if let Some(other) = holder {
            return Some(other.name_any());
        }
        index.names.insert(ip, node.name.clone());
        None
    }
}

impl Index {
    fn note(&mut self, node: &Node) {
        for ip in node.addresses.iter().filter_map(|(_, text)| parse_ip(text)) {
            self.names.entry(ip).or_insert_with(|| node.name.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use kube::runtime::reflector;
    use kube::runtime::reflector::store::Writer;
    use kube::runtime::watcher::Event;

    use super::*;
    use crate::testing::{Draft, address, node};

    /// Nodes, and what keeps their addresses apart.
    struct Bench {
        store: Writer<Node>,
        holders: Holders,
    }

    fn bench(nodes: Vec<Draft>) -> Bench {
        let (reader, store) = reflector::store::<Node>();
        let ranges = vec!["10.96.0.0/16".parse().unwrap()];
        let mut bench =
            Bench { store, holders: Holders::new(ClusterAddresses::new(ranges, Some("192.0.2.10"), None), reader) };
        for one in nodes {
            bench.see(one);
        }
        bench
    }

    impl Bench {
        fn see(&mut self, draft: Draft) {
            let node: Node = draft.object();
            self.holders.note(&node);
            self.store.apply_watcher_event(&Event::Apply(node));
        }

        fn check(&self, draft: Draft, kind: AddressKind, ip: &str) -> String {
            let told = self.holders.check(&draft.object(), &[address(kind, ip)]);
            told.err().map(|refused| refused.to_string()).unwrap_or_default()
        }
    }

    const INTERNAL: AddressKind = AddressKind::InternalIp;
    const EXTERNAL: AddressKind = AddressKind::ExternalIp;

    /// A provider once gave any Node the address of any other one, of the API server, or of the metadata service.
    #[tokio::test(start_paused = true)]
    async fn a_node_gets_no_address_that_is_the_clusters_or_another_nodes() {
        let victim =
            node("victim").ready("True").address("InternalIP", "10.0.0.7").address("ExternalIP", "203.0.113.7");
        let bench = bench(vec![victim, node("new").tainted()]);
        for (kind, ip, part) in [
            (INTERNAL, "10.0.0.7", "the InternalIP 10.0.0.7, which is an address of node victim"),
            (EXTERNAL, "10.0.0.7", "the ExternalIP 10.0.0.7, which is an address of node victim"),
            (INTERNAL, "::ffff:10.0.0.7", "an address of node victim"),
            (INTERNAL, "010.0.0.7", "an address of node victim"),
            (INTERNAL, "203.0.113.7", "an address of node victim"),
            (INTERNAL, "169.254.169.254", "a link-local address"),
            (INTERNAL, "127.0.0.1", "a loopback address"),
            (EXTERNAL, "0.0.0.0", "an unspecified address"),
            (INTERNAL, "10.96.0.10", "in the range of Services, 10.96.0.0/16"),
            (INTERNAL, "192.0.2.10", "an address of the API server: label the Node"),
        ] {
            let told = bench.check(node("new").tainted(), kind, ip);
            assert!(told.contains(part), "{ip}: {told:?}");
        }
        for (kind, ip) in [(INTERNAL, "10.0.0.8"), (EXTERNAL, "203.0.113.7"), (AddressKind::Hostname, "127.0.0.1")] {
            assert_eq!(bench.check(node("new").tainted(), kind, ip), "", "{ip}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_kubelet_has_or_asks_for_and_what_a_control_plane_is_are_the_nodes_own() {
        let taken = node("taken").ready("True").address("InternalIP", "10.0.0.7");
        let bench = bench(vec![taken]);
        for (draft, ip) in [
            (node("new").address("InternalIP", "10.0.0.7"), "10.0.0.7"),
            (node("new").provided_ip("fd00::1,10.0.0.7"), "10.0.0.7"),
            (node("new").label("node-role.kubernetes.io/control-plane", ""), "192.0.2.10"),
            (node("new").address("InternalIP", "192.0.2.10"), "192.0.2.10"),
        ] {
            assert_eq!(bench.check(draft, INTERNAL, ip), "", "{ip}");
        }
        let has_it = node("new").address("InternalIP", "169.254.1.1");
        assert!(bench.check(has_it, INTERNAL, "169.254.1.1").contains("link-local"), "no place is nobody's");
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_is_free_when_its_node_is_gone_silent_or_has_another() {
        let with = |ready: &str| node("old").ready(ready).address("InternalIP", "10.0.0.7");
        let mut bench = bench(vec![with("True")]);
        let check = |bench: &Bench, name: &str| bench.check(node(name).tainted(), INTERNAL, "10.0.0.7");
        assert_ne!(check(&bench, "new"), "");
        bench.see(with("Unknown"));
        assert_eq!(check(&bench, "new"), "");
        // Two that wait at the same time: the first one has it.
        bench.see(node("new").tainted());
        assert!(check(&bench, "second").contains("node new"));
        bench.see(node("new").address("InternalIP", "10.0.0.9"));
        assert_eq!(check(&bench, "second"), "");
        let old: Node = with("True").object();
        bench.store.apply_watcher_event(&Event::Delete(old));
        assert_eq!(check(&bench, "third"), "", "nobody has it in the store");
    }
}
