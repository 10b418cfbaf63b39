//! Whether a Node may have the addresses that a provider gives it.

use std::collections::HashMap;
use std::time::Duration;

use ccm_cloud::{Address, AddressKind};
use parking_lot::Mutex;

use super::addresses::provided;
use crate::cluster_addresses::address_target::AddressTarget;
use crate::cluster_addresses::{AddressClash, AddressWrite, ClusterAddresses};
use crate::store::Node;
use crate::warnings::Warnings;

/// Labels of Nodes on which the API server may run. A kubelet cannot give them to its own Node.
const CONTROL_PLANE: [&str; 2] = ["node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"];

/// What a kubelet says of its own name.
const HOSTNAME: &str = "kubernetes.io/hostname";

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
        AddressClash::Reserved(_) => {
            "label the Node node-role.kubernetes.io/control-plane if it is one of those machines, or correct the machine in the cloud, or --reserved-address"
        }
        AddressClash::LoadBalancer(_) => {
            "correct the machine in the cloud; where Nodes are the load balancers, --allow-shared-address=nodes grants it"
        }
        AddressClash::NoPlace(_)
        | AddressClash::ClusterIp(_)
        | AddressClash::PodRange(_)
        | AddressClash::ExternalIp(_) => "correct the machine in the cloud, or replace the provider",
    }
}

/// Judges addresses that providers give Nodes.
pub(crate) struct Holders {
    addresses: ClusterAddresses,
    /// What was told of Nodes that keep their addresses.
    told: Mutex<HashMap<Box<str>, Warnings>>,
}

impl Holders {
    pub(crate) fn new(addresses: ClusterAddresses) -> Self {
        Self { addresses, told: Mutex::default() }
    }

    /// A Node was seen.
    pub(crate) fn note(&self, node: &Node) {
        self.addresses.note(node);
    }

    /// Whether a warning about a Node was not given lately.
    pub(crate) fn is_news(&self, name: &str, warning: &str, repeat: Duration) -> bool {
        self.told.lock().entry(name.into()).or_default().is_news(warning, repeat)
    }

    /// There is no such Node any more.
    pub(crate) fn forget(&self, name: &str) {
        self.told.lock().remove(name);
    }

    /// Takes the machine with this provider ID for a Node that has none. It is kept for the Node as long as the result lives.
    ///
    /// # Errors
    ///
    /// The Node that has it.
    pub(crate) fn take_machine(&self, node: &Node, id: &str) -> Result<AddressWrite, String> {
        let mut write = self.addresses.write_of(&node.name);
        match self.addresses.node_of_machine(node, id, &mut write) {
            Some(other) => Err(other),
            None => Ok(write),
        }
    }

    /// Whether a Node may have the `wanted` addresses and names. What it has already, or its kubelet asks for, nobody else gave it. The others
    /// are kept for it as long as the result lives.
    ///
    /// # Errors
    ///
    /// The first that it may not have.
    pub(crate) fn check(&self, node: &Node, wanted: &[Address]) -> Result<AddressWrite, RefusedAddress> {
        let mut write = self.addresses.write_of(&node.name);
        let asked = provided(node).unwrap_or_default();
        let names = [Some(&*node.name), node.labels.get(HOSTNAME)].into_iter().flatten();
        let own = node.addresses.iter().map(|(_, text)| text).chain(asked.split(',')).chain(names);
        let own: Vec<AddressTarget> = own.filter_map(AddressTarget::of).collect();
        for address in wanted {
            let Some(place) = AddressTarget::of(&address.value) else { continue };
            let is_ip = matches!(address.kind, AddressKind::InternalIp | AddressKind::ExternalIp);
            // What is no IP address leads nothing away.
            if is_ip && matches!(place, AddressTarget::Name(_)) {
                continue;
            }
            let is_own = own.contains(&place);
            let clash = match &place {
                // A kubelet may call itself 127.0.0.1, but no cloud gives it that address.
                AddressTarget::Ip(ip) if is_own && is_ip => {
                    self.addresses.clash(*ip).filter(|clash| matches!(clash, AddressClash::NoPlace(_)))
                }
                _ if is_own => None,
                place => self.addresses.clash_of_node(node, place, address.kind, &mut write),
            };
            let is_server = CONTROL_PLANE.iter().any(|label| node.labels.get(label).is_some());
            let is_servers =
                |clash: &AddressClash| matches!(clash, AddressClash::ApiServer | AddressClash::Reserved(_));
            if let Some(clash) = clash.filter(|clash| !(is_server && is_servers(clash))) {
                return Err(RefusedAddress { kind: address.kind, address: address.value.clone(), clash });
            }
        }
        Ok(write)
    }
}

#[cfg(test)]
mod tests {
    use kube::runtime::reflector;
    use kube::runtime::reflector::store::Writer;
    use kube::runtime::watcher::Event;

    use super::*;
    use crate::cluster_addresses::AddressSources;
    use crate::testing::{Draft, address, node};

    /// Nodes, and what keeps their addresses apart.
    struct Bench {
        store: Writer<Node>,
        holders: Holders,
    }

    fn bench(nodes: Vec<Draft>) -> Bench {
        let (reader, store) = reflector::store::<Node>();
        let addresses = ClusterAddresses::new(AddressSources {
            service_ranges: vec!["10.96.0.0/16".parse().unwrap()],
            servers: vec!["192.0.2.10".to_owned()],
            reserved: vec!["192.0.2.64/28".parse().unwrap()],
            nodes: Some(reader),
            ..AddressSources::default()
        });
        let mut bench = Bench { store, holders: Holders::new(addresses) };
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
        for (kind, ip) in [(INTERNAL, "10.0.0.8"), (EXTERNAL, "203.0.113.7"), (INTERNAL, "no-address")] {
            assert_eq!(bench.check(node("new").tainted(), kind, ip), "", "{ip}");
        }
    }

    /// The API server asks a kubelet by the names of its Node first: a provider once gave any Node those of any other one.
    #[tokio::test(start_paused = true)]
    async fn a_node_gets_no_name_that_is_another_nodes_or_leads_to_the_machine_itself() {
        let names = node("victim")
            .ready("True")
            .address("Hostname", "victim-host")
            .address("InternalDNS", "victim.internal")
            .address("ExternalDNS", "victim.example.com")
            .address("InternalIP", "10.0.0.7");
        // Its name is its own as long as there is such a Node.
        let silent = node("silent").ready("Unknown").address("Hostname", "silent-host");
        let bench = bench(vec![names, silent, node("new").tainted(), node("second").tainted()]);
        let refused = [
            ("victim", "an address of node victim"),
            ("victim-host", "which is an address of node victim: correct the machine in the cloud"),
            ("Victim-Host.", "an address of node victim"),
            ("victim.internal", "an address of node victim"),
            ("victim.example.com", "an address of node victim"),
            ("10.0.0.7", "an address of node victim"),
            ("silent", "an address of node silent"),
            ("localhost", "a loopback address"),
            ("x.localhost", "a loopback address"),
            ("LOCALHOST.localdomain", "a loopback address"),
            ("127.0.0.1", "a loopback address"),
            ("169.254.169.254", "a link-local address"),
            ("10.96.0.10", "in the range of Services"),
        ];
        for kind in [AddressKind::Hostname, AddressKind::InternalDns, AddressKind::ExternalDns] {
            for (name, part) in refused {
                let told = bench.check(node("new").tainted(), kind, name);
                assert!(told.contains(part) && told.contains(kind.as_str()), "{name}: {told:?}");
            }
            for free in ["new", "new.example.com", "silent-host", "10.0.0.8", ""] {
                assert_eq!(bench.check(node("new").tainted(), kind, free), "", "{free}");
            }
            assert!(
                bench.check(node("second").tainted(), kind, "new.example.com").contains("node new"),
                "the first has it"
            );
        }
        for has_it in [
            node("localhost"),
            node("new").address("Hostname", "127.0.0.1"),
            node("new").address("InternalDNS", "victim.internal"),
            node("new").label(HOSTNAME, "victim-host"),
        ] {
            for name in ["localhost", "127.0.0.1", "victim.internal", "victim-host"] {
                let draft: Node = has_it.clone().object();
                let names = [&*draft.name, draft.labels.get(HOSTNAME).unwrap_or_default()];
                let is_own = names.contains(&name) || draft.addresses.iter().any(|(_, text)| text == name);
                let told = bench.check(has_it.clone(), AddressKind::Hostname, name);
                assert_eq!(told.is_empty(), is_own, "{name}: {told}");
            }
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

    /// Two Nodes were refreshed at the same time, and both got the address: neither had it by what the store said.
    #[tokio::test(start_paused = true)]
    async fn an_address_that_is_being_written_is_no_other_nodes_until_that_has_failed_or_is_seen() {
        let ready = |name: &str| node(name).ready("True").address("InternalIP", "10.0.0.1");
        let mut bench = bench(vec![ready("a"), node("b").ready("True"), node("new").tainted()]);
        let wanted = |kind: AddressKind| [address(kind, "10.0.0.7")];
        let begins = |bench: &Bench, draft: Draft| bench.holders.check(&draft.object(), &wanted(INTERNAL));
        let write = begins(&bench, ready("a")).unwrap();
        for kind in [INTERNAL, EXTERNAL, AddressKind::Hostname] {
            for other in [node("b").ready("True"), node("new").tainted()] {
                assert!(bench.check(other, kind, "10.0.0.7").contains("an address of node a"), "{kind:?}");
            }
        }
        assert!(begins(&bench, ready("a")).is_ok(), "its own try again");
        drop(write);
        let write = begins(&bench, node("b").ready("True")).expect("the write of a has failed");
        write.done();
        assert!(bench.check(ready("a"), INTERNAL, "10.0.0.7").contains("node b"), "not seen yet");
        bench.see(node("b").ready("True").address("InternalIP", "10.0.0.7"));
        assert!(bench.check(ready("a"), INTERNAL, "10.0.0.7").contains("node b"), "seen");
        bench.see(node("b").ready("True").address("InternalIP", "10.0.0.8"));
        assert_eq!(bench.check(ready("a"), INTERNAL, "10.0.0.7"), "", "it has another one");
        // Somebody else took it away before the store showed it.
        begins(&bench, ready("a")).unwrap().done();
        assert_ne!(bench.check(node("b").ready("True"), INTERNAL, "10.0.0.7"), "");
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(bench.check(node("b").ready("True"), INTERNAL, "10.0.0.7"), "");
        // A machine that is gone keeps nothing, and several may leave their network by one address.
        begins(&bench, ready("a")).unwrap().done();
        bench.see(node("a").ready("Unknown").address("InternalIP", "10.0.0.1"));
        assert_eq!(bench.check(node("b").ready("True"), INTERNAL, "10.0.0.7"), "");
        let outwards = bench.holders.check(&ready("c").object(), &wanted(EXTERNAL));
        bench.see(ready("c"));
        assert_eq!(bench.check(node("b").ready("True"), EXTERNAL, "10.0.0.7"), "");
        assert!(bench.check(node("b").ready("True"), INTERNAL, "10.0.0.7").contains("node c"));
        drop(outwards);
    }

    /// Several machines may leave their network by one address. The first mention of an address said which kind it is, and one that is an
    /// InternalIP as well passed for such a one.
    #[tokio::test(start_paused = true)]
    async fn an_address_under_way_may_be_anothers_only_if_it_is_an_external_ip_and_nothing_else() {
        const HOST: AddressKind = AddressKind::Hostname;
        let cases: [(&[AddressKind], bool); 5] = [
            (&[EXTERNAL], true),
            (&[EXTERNAL, EXTERNAL], true),
            (&[EXTERNAL, INTERNAL], false),
            (&[INTERNAL, EXTERNAL], false),
            (&[EXTERNAL, HOST], false),
        ];
        for (kinds, is_shared) in cases {
            let bench = bench(vec![node("a").ready("True"), node("b").ready("True")]);
            let check = |name: &str, kinds: &[AddressKind]| {
                let wanted: Vec<Address> = kinds.iter().map(|kind| address(*kind, "203.0.113.7")).collect();
                bench.holders.check(&node(name).ready("True").object(), &wanted)
            };
            let write = check("a", kinds).unwrap();
            assert_eq!(check("b", &[EXTERNAL]).is_ok(), is_shared, "{kinds:?}");
            // What is given up says nothing of the next write.
            drop(write);
            let write = check("a", &[EXTERNAL]).unwrap();
            assert!(check("b", &[EXTERNAL]).is_ok(), "{kinds:?}");
            // One that may have been done says it for as long as the store need not show it.
            drop(write);
            check("a", kinds).unwrap().done();
            let write = check("a", &[EXTERNAL]).unwrap();
            assert_eq!(check("b", &[EXTERNAL]).is_ok(), is_shared, "{kinds:?}");
            write.done();
            tokio::time::advance(Duration::from_secs(60)).await;
            let _write = check("a", &[EXTERNAL]).unwrap();
            assert!(check("b", &[EXTERNAL]).is_ok(), "{kinds:?}");
        }
    }

    /// A provider once gave two Nodes one machine: both would go with it, and load balancers had it twice.
    #[tokio::test(start_paused = true)]
    async fn a_machine_is_one_nodes_until_that_is_gone_or_silent_or_its_write_has_failed() {
        const ID: &str = "fake://1";
        let mut bench = bench(vec![node("has").ready("True").provider_id(ID), node("new").tainted()]);
        let takes =
            |bench: &Bench, name: &str, id: &str| bench.holders.take_machine(&node(name).tainted().object(), id);
        assert_eq!(takes(&bench, "new", ID).err().as_deref(), Some("has"));
        assert!(takes(&bench, "new", "fake://2").is_ok() && takes(&bench, "has", ID).is_ok());
        bench.see(node("has").ready("Unknown").provider_id(ID));
        let write = takes(&bench, "new", ID).expect("its kubelet is silent, and may be this one");
        bench.see(node("second").tainted());
        assert_eq!(takes(&bench, "second", ID).err().as_deref(), Some("new"), "it is being written");
        drop(write);
        takes(&bench, "second", ID).expect("that has failed").done();
        assert_eq!(takes(&bench, "new", ID).err().as_deref(), Some("second"), "not seen yet");
        bench.see(node("second").provider_id(ID));
        assert_eq!(takes(&bench, "new", ID).err().as_deref(), Some("second"), "seen");
        let gone: Node = node("second").provider_id(ID).object();
        bench.store.apply_watcher_event(&Event::Delete(gone));
        assert!(takes(&bench, "new", ID).is_ok());
    }

    /// The try after one without an answer ended what that one may have given, or was not protected itself.
    #[tokio::test(start_paused = true)]
    async fn what_an_earlier_write_may_have_given_is_kept_through_the_next_one_and_then_for_a_while() {
        let bench = bench(vec![node("a").tainted(), node("b").tainted()]);
        let takes = |name: &str| bench.holders.take_machine(&node(name).tainted().object(), "fake://1");
        let holder = |name: &str| takes(name).err();
        takes("a").unwrap().done();
        tokio::time::advance(Duration::from_secs(30)).await;
        drop(takes("a").unwrap());
        tokio::time::advance(Duration::from_secs(29)).await;
        assert_eq!(holder("b").as_deref(), Some("a"), "the second has failed, and the first may have not");
        let next = takes("a").unwrap();
        tokio::time::advance(Duration::from_secs(100)).await;
        assert_eq!(holder("b").as_deref(), Some("a"), "it is being written again");
        next.done();
        tokio::time::advance(Duration::from_secs(59)).await;
        assert_eq!(holder("b").as_deref(), Some("a"), "the store need not show yet what that has written");
        drop(takes("a").unwrap());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(holder("b"), None);
    }
}
