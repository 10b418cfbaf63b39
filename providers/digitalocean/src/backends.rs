//! Which Nodes a load balancer can use.
//!
//! | load balancer | Nodes |
//! |---|---|
//! | `INTERNAL` | all |
//! | `REGIONAL`, `EXTERNAL` | with an IPv4 `ExternalIP`, or none at all and an IPv4 `InternalIP` |
//! | `REGIONAL_NETWORK`, `EXTERNAL` | with an IPv4 `ExternalIP` |

use std::net::Ipv6Addr;

use ccm_sdk::ordered;
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    name: String,
    class: Class,
    machine: Machine,
}

/// What is behind a Node.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Machine {
    Droplet(u64),
    /// No droplet has the Node's name, or nobody asked yet.
    Unknown,
    /// With its provider ID, which is none of a droplet: several clouds can be in one cluster.
    Foreign(String),
}

/// The droplets behind Nodes, asked for once.
///
/// # Errors
///
/// Nodes have no provider ID and the cloud cannot be asked.
pub(crate) fn members(backends: &[Backend]) -> Result<Vec<Member>, Failure> {
    let member = |backend: &Backend| {
        let machine = match backend.provider_id.as_deref().filter(|id| !id.is_empty()) {
            Some(id) => provider_id::parse(id).map_or_else(|_| Machine::Foreign(id.to_owned()), Machine::Droplet),
            None => Machine::Unknown,
        };
        Member { name: backend.name.clone(), class: class(backend), machine }
    };
    let mut members: Vec<Member> = backends.iter().map(member).collect();
    // One that is about to be initialised has nothing yet that could be reached, and comes again with its provider ID.
    let without = |member: &Member| member.machine == Machine::Unknown && member.class != Class::Unready;
    let names: Vec<&str> = members.iter().filter(|member| without(member)).map(|member| member.name.as_str()).collect();
    let ids = find::ids_by_name(&names)?;
    for (member, id) in members.iter_mut().filter(|member| without(member)).zip(ids) {
        member.machine = id.map_or(Machine::Unknown, Machine::Droplet);
    }
    Ok(members)
}

/// Those that one load balancer uses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Chosen {
    /// In order, each once.
    pub(crate) ids: Vec<u64>,
    /// Names of those that have no public IPv6 address.
    pub(crate) v4_only: Vec<String>,
    pub(crate) eligible: usize,
    /// How many wait for a public address.
    pub(crate) unready: usize,
    /// Names of Nodes without droplet.
    pub(crate) missing: Vec<String>,
    /// Names and provider IDs of Nodes that are no droplets.
    pub(crate) foreign: Vec<String>,
}

pub(crate) fn choose<'a>(members: impl Iterator<Item = &'a Member>, kind: Kind, network: Network) -> Chosen {
    let mut chosen = Chosen::default();
    for member in members {
        if let Machine::Foreign(id) = &member.machine {
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
            chosen.v4_only.push(member.name.clone());
        }
        match member.machine {
            Machine::Droplet(id) => chosen.ids.push(id),
            Machine::Unknown | Machine::Foreign(_) => chosen.missing.push(member.name.clone()),
        }
    }
    chosen.ids = ordered::list(chosen.ids);
    chosen
}

/// A few names, in order, and how many more there are.
pub(crate) fn names(names: Vec<String>) -> String {
    few(names, SHOWN)
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

    fn chosen(nodes: &[&[&str]], kind: Kind, network: Network) -> Chosen {
        let backends: Vec<Backend> = (1..).zip(nodes).map(|(id, addresses)| backend(id, addresses)).collect();
        choose(members(&backends).expect("good IDs").iter(), kind, network)
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
            let chosen = chosen(&nodes, kind, network);
            let found = (chosen.eligible, chosen.ids.len(), chosen.v4_only.is_empty());
            assert_eq!(found, (eligible, eligible, all_dual), "{case}");
        }
    }

    /// The rest of it is the SDK's.
    #[test]
    fn do_168_names_are_few_and_in_order() {
        assert_eq!(names(["n4", "n3", "n2", "n1"].map(str::to_owned).to_vec()), "n1, n2, n3 [+1 more]");
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
        let chosen = choose(members(&backends).expect("found").iter(), Kind::Network, Network::External);
        (chosen.ids, chosen.missing)
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
            let chosen = choose(members(&backends).expect("nothing is asked").iter(), Kind::Network, network);
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
            let members = members(&[new.clone(), backend(2, V4)]).expect("nothing is asked");
            let chosen = choose(members.iter(), Kind::Network, network);
            assert_eq!((chosen.ids, chosen.unready, chosen.missing), (vec![2], 1, vec![]), "{network:?}");
        }
        assert_eq!(cloud.lines(), Vec::<String>::new());
    }
}
