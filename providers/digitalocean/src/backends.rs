//! Which Nodes a load balancer can use.
//!
//! | load balancer | Nodes |
//! |---|---|
//! | `INTERNAL` | all |
//! | `REGIONAL`, `EXTERNAL` | with an IPv4 `ExternalIP`, or none at all and an IPv4 `InternalIP` |
//! | `REGIONAL_NETWORK`, `EXTERNAL` | with an IPv4 `ExternalIP` |

use std::net::Ipv6Addr;

use ccm_sdk::types::{AddressType, Backend, Failure};
use ccm_sdk::words::few;

use crate::kind::{Kind, Network};
use crate::{find, provider_id};

/// Names in a message.
const SHOWN: usize = 3;

/// The public addresses of a Node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    Dual,
    V4,
    V6,
    /// An IPv4 `InternalIP` and nothing public.
    Private,
    /// No address yet that traffic could come to.
    Unready,
}

pub(crate) fn class(backend: &Backend) -> Class {
    let is_v6 = |address: &str| address.parse::<Ipv6Addr>().is_ok();
    let (mut v4, mut v6) = (false, false);
    for address in backend.addresses_of(AddressType::ExternalIp) {
        if is_v6(address) { v6 = true } else { v4 = true }
    }
    match (v4, v6) {
        (true, true) => Class::Dual,
        (true, false) => Class::V4,
        (false, true) => Class::V6,
        (false, false) if backend.addresses_of(AddressType::InternalIp).any(|address| !is_v6(address)) => {
            Class::Private
        }
        (false, false) => Class::Unready,
    }
}

/// A Node and its droplet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Member<'a> {
    name: &'a str,
    class: Class,
    machine: Machine<'a>,
}

impl<'a> Member<'a> {
    /// As the Node itself says.
    fn of(backend: &'a Backend) -> Self {
        let machine = match backend.provider_id.as_deref().filter(|id| !id.is_empty()) {
            Some(id) => provider_id::parse(id).map_or(Machine::Foreign(id), Machine::Droplet),
            None => Machine::Unknown,
        };
        Self { name: &backend.name, class: class(backend), machine }
    }
}

/// What is behind a Node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Machine<'a> {
    Droplet(u64),
    /// No droplet has the Node's name, or nobody asked yet.
    Unknown,
    /// With its provider ID, which is none of a droplet: several clouds can be in one cluster.
    Foreign(&'a str),
}

/// The droplets behind Nodes, asked for once.
///
/// # Errors
///
/// Nodes have no provider ID and the cloud cannot be asked.
pub(crate) fn members(backends: &[Backend]) -> Result<Vec<Member<'_>>, Failure> {
    let mut members: Vec<Member<'_>> = backends.iter().map(Member::of).collect();
    // One that is about to be initialised has nothing yet that could be reached, and comes again with its provider ID.
    let without = |member: &Member<'_>| member.machine == Machine::Unknown && member.class != Class::Unready;
    let names: Vec<&str> = members.iter().filter(|member| without(member)).map(|member| member.name).collect();
    let ids = find::ids_by_name(&names)?;
    for (member, id) in members.iter_mut().filter(|member| without(member)).zip(ids) {
        member.machine = id.map_or(Machine::Unknown, Machine::Droplet);
    }
    Ok(members)
}

/// Those that one load balancer uses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Chosen<'a> {
    /// In order, each once.
    pub(crate) ids: Vec<u64>,
    /// Each droplet with the name of its Node.
    nodes: Vec<(u64, &'a str)>,
    /// Names of those that have no public IPv6 address.
    pub(crate) v4_only: Vec<&'a str>,
    pub(crate) eligible: usize,
    /// How many wait for a public address.
    pub(crate) unready: usize,
    /// Names of Nodes without droplet.
    pub(crate) missing: Vec<&'a str>,
    /// Names and provider IDs of Nodes that are no droplets.
    pub(crate) foreign: Vec<String>,
}

pub(crate) fn choose<'a>(members: &[Member<'a>], kind: Kind, network: Network) -> Chosen<'a> {
    let mut chosen = Chosen::default();
    for member in members {
        if let Machine::Foreign(id) = member.machine {
            chosen.foreign.push(format!("{} ({id})", member.name));
            continue;
        }
        if member.machine == Machine::Unknown && member.class == Class::Unready {
            chosen.unready += 1;
            continue;
        }
        let eligible = match (network, kind, member.class) {
            (Network::Internal, _, _) => true,
            (Network::External, _, Class::Dual | Class::V4) => true,
            (Network::External, Kind::Regional, Class::Private) => true,
            (Network::External, _, _) => false,
        };
        if !eligible {
            chosen.unready += usize::from(matches!(member.class, Class::Private | Class::Unready));
            continue;
        }
        chosen.eligible += 1;
        if member.class != Class::Dual {
            chosen.v4_only.push(member.name);
        }
        match member.machine {
            Machine::Droplet(id) => chosen.nodes.push((id, member.name)),
            Machine::Unknown | Machine::Foreign(_) => chosen.missing.push(member.name),
        }
    }
    chosen.ids = in_order(chosen.nodes.iter().map(|(id, _)| *id).collect());
    chosen
}

impl Chosen<'_> {
    /// Names of the Nodes of some droplets, a few of them; one that no Node has is a number.
    pub(crate) fn names_of(&self, ids: &[u64]) -> String {
        let asked = in_order(ids.to_vec());
        let is_asked = |(id, _): &&(u64, &str)| asked.binary_search(id).is_ok();
        let nodes = self.nodes.iter().filter(is_asked).map(|(id, name)| format!("{name} (droplet {id})"));
        let own: Vec<u64> = self.nodes.iter().map(|(id, _)| *id).collect();
        let others = split(&asked, &own).1.into_iter().map(|id| format!("droplet {id}"));
        few(nodes.chain(others), SHOWN)
    }
}

/// Of droplets, each once. There can be 5,000 of them: the sets of [`ccm_sdk::ordered`] take several times as long.
pub(crate) fn in_order(mut ids: Vec<u64>) -> Vec<u64> {
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// Of some droplets, those that are among others, and those that are not; both in their order.
pub(crate) fn split(of: &[u64], others: &[u64]) -> (Vec<u64>, Vec<u64>) {
    // Sorted: there may be thousands of each.
    let others = in_order(others.to_vec());
    of.iter().copied().partition(|id| others.binary_search(id).is_ok())
}

/// A few names, in order, and how many more there are.
pub(crate) fn names(names: &[impl AsRef<str>]) -> String {
    few(names.iter().map(|name| name.as_ref().to_owned()), SHOWN)
}

#[cfg(test)]
pub(crate) mod tests {
    use ccm_sdk::testing::FakeCloud;
    use ccm_sdk::types::Address;

    use super::*;
    use crate::find::tests::{droplet, list};

    /// `e4`, `e6`, `i4`: kinds of addresses. Its droplet is the number.
    pub(crate) fn backend(id: u64, addresses: &[&str]) -> Backend {
        let address = |kind: &&str| {
            let (kind, value) = match *kind {
                "e4" => (AddressType::ExternalIp, "203.0.113.1"),
                "e6" => (AddressType::ExternalIp, "2604:a880::1"),
                "i4" => (AddressType::InternalIp, "10.0.0.1"),
                other => panic!("{other}"),
            };
            Address { kind, value: value.to_owned() }
        };
        Backend {
            name: format!("n{id}"),
            provider_id: Some(provider_id::format(id)),
            addresses: addresses.iter().map(address).collect(),
            more: vec![],
        }
    }

    const DUAL: &[&str] = &["i4", "e4", "e6"];
    const V4: &[&str] = &["i4", "e4"];
    const V6: &[&str] = &["i4", "e6"];
    const PRIVATE: &[&str] = &["i4"];

    /// How many are eligible, how many droplets that are, and whether all have a public IPv6 address.
    fn chosen(nodes: &[&[&str]], kind: Kind, network: Network) -> (usize, usize, bool) {
        let backends: Vec<Backend> = (1..).zip(nodes).map(|(id, addresses)| backend(id, addresses)).collect();
        let chosen = choose(&members(&backends).expect("good IDs"), kind, network);
        (chosen.eligible, chosen.ids.len(), chosen.v4_only.is_empty())
    }

    /// A machine that registered under another name while its old Node is there.
    #[test]
    fn a_droplet_behind_two_nodes_is_chosen_once() {
        let backends = [7, 9, 7].map(|id| backend(id, V4));
        let members = members(&backends).expect("good IDs");
        assert_eq!(choose(&members, Kind::Regional, Network::External).ids, [7, 9]);
    }

    #[test]
    fn do_158_159_a_node_is_classified_by_its_addresses() {
        for (addresses, expected) in [
            (V4, Class::V4),
            (V6, Class::V6),
            (DUAL, Class::Dual),
            (&[][..], Class::Unready),
            (PRIVATE, Class::Private),
        ] {
            assert_eq!(class(&backend(1, addresses)), expected, "{addresses:?}");
        }
    }

    #[test]
    fn do_160_to_167_what_is_eligible_depends_on_the_load_balancer() {
        use Kind::{Network as Nlb, Regional};
        use Network::{External, Internal};
        for (case, nodes, kind, network, eligible, all_dual) in [
            ("do_160", [DUAL, DUAL], Nlb, External, 2, true),
            ("do_161", [V4, V4], Nlb, External, 2, false),
            ("do_162", [DUAL, V4], Nlb, External, 2, false),
            ("do_163", [DUAL, PRIVATE], Nlb, External, 1, true),
            ("do_164", [PRIVATE, PRIVATE], Regional, External, 2, false),
            ("do_165", [DUAL, V6], Nlb, External, 1, true),
            ("do_166", [PRIVATE, DUAL], Nlb, Internal, 2, false),
            ("do_166", [&[][..], V6], Regional, Internal, 2, false),
            ("do_167", [PRIVATE, PRIVATE], Nlb, External, 0, true),
            ("do_167", [PRIVATE, PRIVATE], Nlb, Internal, 2, false),
            ("do_167", [PRIVATE, PRIVATE], Regional, Internal, 2, false),
            ("do_167", [PRIVATE, PRIVATE], Regional, External, 2, false),
        ] {
            assert_eq!(chosen(&nodes, kind, network), (eligible, eligible, all_dual), "{case}");
        }
    }

    /// The rest of it is the SDK's.
    #[test]
    fn do_168_names_are_few_and_in_order() {
        for (all, expected) in [
            (&[][..], ""),
            (&["n2", "n1"], "n1, n2"),
            (&["n3", "n2", "n1"], "n1, n2, n3"),
            (&["n4", "n3", "n2", "n1"], "n1, n2, n3 [+1 more]"),
        ] {
            assert_eq!(names(all), expected);
        }
    }

    /// Droplets 3, 4 and 5 of the account, and the Nodes of these names and provider IDs: IDs, and who is missing.
    fn resolved(nodes: &[(&str, Option<u64>)]) -> (Vec<u64>, Vec<String>) {
        let listed = [droplet(5, "n5"), droplet(3, "N3"), droplet(4, "foreign")];
        let _cloud = FakeCloud::new()
            .on("api GET /v2/droplets?page=1&per_page=200", list(&listed))
            .on("api GET /v2/droplets?type=gpus&page=1&per_page=200", list(&[droplet(6, "gpu")]));
        let node = |(name, id): &(&str, Option<u64>)| Backend {
            name: (*name).to_owned(),
            provider_id: id.map(provider_id::format),
            ..backend(1, V4)
        };
        let backends: Vec<Backend> = nodes.iter().map(node).collect();
        let chosen = choose(&members(&backends).expect("found"), Kind::Network, Network::External);
        (chosen.ids, chosen.missing.into_iter().map(str::to_owned).collect())
    }

    #[test]
    fn nodes_without_provider_id_are_found_by_name_or_address() {
        let all = ["n3", "n5", "gpu"].map(|name| (name, None));
        let mixed = [("n3", None), ("any", Some(9)), ("n5", None)];
        let lost = [("n3", None), ("z", None), ("y", None)];
        for (case, nodes, ids, missing) in [
            ("do_032", &all[..], vec![3, 5, 6], vec![]),
            ("do_033", &all[..1], vec![3], vec![]),
            ("do_034", &mixed[..], vec![3, 5, 9], vec![]),
            ("do_035", &lost[..], vec![3], vec!["z", "y"]),
            ("do_036", &[("10.0.5.1", None)], vec![5], vec![]),
            ("do_036", &[("203.0.4.1", None)], vec![4], vec![]),
        ] {
            let missing = missing.into_iter().map(str::to_owned).collect();
            assert_eq!(resolved(nodes), (ids, missing), "{case}");
        }
    }

    /// Two clouds in one cluster: once one such Node stopped every load balancer.
    #[test]
    fn nodes_with_provider_ids_cost_no_call_and_those_of_other_clouds_are_left_out() {
        let cloud = FakeCloud::new();
        let of = |id: &str| Backend { provider_id: Some(id.to_owned()), ..backend(1, V4) };
        let backends = [of("aws:///i-1"), backend(2, V4), of("digitalocean://7cruft"), backend(3, PRIVATE)];
        for (network, ids) in [(Network::Internal, vec![2, 3]), (Network::External, vec![2])] {
            let chosen = choose(&members(&backends).expect("nothing is asked"), Kind::Network, network);
            assert_eq!((chosen.ids, chosen.missing), (ids, vec![]), "{network:?}");
            assert_eq!(chosen.foreign, ["n1 (aws:///i-1)", "n1 (digitalocean://7cruft)"]);
        }
        assert_eq!(cloud.lines(), Vec::<String>::new());
    }

    #[test]
    fn a_node_that_waits_for_its_initialisation_costs_no_call_and_is_in_no_load_balancer() {
        let cloud = FakeCloud::new();
        let mut new = backend(1, &[]);
        new.provider_id = None;
        for network in [Network::Internal, Network::External] {
            let backends = [new.clone(), backend(2, V4)];
            let members = members(&backends).expect("nothing is asked");
            let chosen = choose(&members, Kind::Network, network);
            assert_eq!((chosen.ids, chosen.unready, chosen.missing), (vec![2], 1, vec![]), "{network:?}");
        }
        assert_eq!(cloud.lines(), Vec::<String>::new());
    }
}
