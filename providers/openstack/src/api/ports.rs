//! Ports of servers and routers, and names of networks.

use std::collections::BTreeMap;
use std::time::Duration;

use ccm_sdk::paging::Paging;
use ccm_sdk::types::Failure;
use ccm_sdk::{Answer, Request};
use serde::Serialize;

use super::NEUTRON;

ccm_sdk::records! {
    /// A port.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub(crate) struct Port {
        pub(crate) id: String [id],
        pub(crate) network_id: String,
        pub(crate) device_id: String,
        pub(crate) owner: String = "device_owner",
        pub(crate) status: String,
        pub(crate) fixed_ips: Vec<FixedIp>,
        /// `None` where the cloud knows no pairs.
        pub(crate) pairs: Option<Vec<Pair>> = "allowed_address_pairs",
        pub(crate) security_groups: Vec<String>,
        /// `None` where the cloud has no such switch: then the port is secured.
        pub(crate) secured: Option<bool> = "port_security_enabled",
        pub(crate) trunk: Option<Trunk> = "trunk_details",
        pub(crate) revision: u64 = "revision_number",
    }

    /// An address of a port.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub(crate) struct FixedIp {
        pub(crate) subnet_id: String,
        pub(crate) ip_address: String,
    }

    /// Whom else a port may send for.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize)]
    pub(crate) struct Pair {
        /// Empty: that of the port.
        #[serde(skip_serializing_if = "String::is_empty")]
        pub(crate) mac_address: String,
        /// An address or a network.
        pub(crate) ip_address: String,
    }

    /// What a port carries for others.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub(crate) struct Trunk {
        pub(crate) sub_ports: Vec<SubPort>,
    }

    /// A port within a trunk.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub(crate) struct SubPort {
        pub(crate) port_id: String,
    }

    /// A network.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub(crate) struct Network {
        pub(crate) id: String [id],
        pub(crate) name: String,
    }
}

impl Port {
    /// Whether packets that are not its own are held back.
    pub(crate) fn is_secured(&self) -> bool {
        self.secured != Some(false)
    }
}

const PORTS: Paging = Paging::marker("marker", "limit", 1_000).items("/ports").until_no_next("/ports_links");
const NETWORKS: Paging = Paging::marker("marker", "limit", 1_000).items("/networks").until_no_next("/networks_links");

/// What is read of a port.
const FIELDS: [&str; 11] = [
    "id",
    "network_id",
    "device_id",
    "device_owner",
    "status",
    "fixed_ips",
    "allowed_address_pairs",
    "security_groups",
    "port_security_enabled",
    "trunk_details",
    "revision_number",
];

/// IDs in one request: its line must not be longer than 8 KB.
const AT_ONCE: usize = 100;

fn ports() -> Request {
    FIELDS.iter().fold(NEUTRON.get("/ports"), |request, field| request.query("fields", field))
}

/// Asks for things of which each has one of the values.
fn each<T>(values: &[&str], list: impl Fn(&[&str]) -> Result<Vec<T>, Failure>) -> Result<Vec<T>, Failure> {
    let mut all = vec![];
    for some in values.chunks(AT_ONCE) {
        all.extend(list(some)?);
    }
    Ok(all)
}

fn with(request: Request, name: &str, values: &[&str]) -> Request {
    values.iter().fold(request, |request, value| request.query(name, value))
}

/// Ports of servers, or of routers.
pub(crate) fn of_devices(ids: &[&str], share: Duration) -> Result<Vec<Port>, Failure> {
    each(ids, |some| with(ports(), "device_id", some).share(share).list(PORTS))
}

/// The owner of a port that another one carries in its trunk.
const SUB_PORT: &str = "trunk:subport";

/// Ports of servers, with those that they carry in their trunks. These get the ID of the server: in the cloud they have none, or that of the
/// trunk.
pub(crate) fn of_servers(ids: &[&str], share: Duration) -> Result<Vec<Port>, Failure> {
    if ids.is_empty() {
        return Ok(vec![]);
    }
    let mut all = of_devices(ids, share)?;
    let owners = carriers(&all);
    if !owners.is_empty() {
        let carried: Vec<&str> = owners.keys().map(String::as_str).collect();
        let mut subs = with_ids(&carried, share)?;
        own(&mut subs, &owners);
        all.extend(subs);
    }
    Ok(all)
}

/// By the IDs of ports within trunks, the servers that have the trunks.
fn carriers(ports: &[Port]) -> BTreeMap<String, String> {
    let carried = |port: &Port| {
        let subs = port.trunk.iter().flat_map(|trunk| &trunk.sub_ports);
        subs.map(|sub| (sub.port_id.clone(), port.device_id.clone())).collect::<Vec<_>>()
    };
    ports.iter().flat_map(carried).collect()
}

fn own(subs: &mut [Port], owners: &BTreeMap<String, String>) {
    for sub in subs {
        if let Some(server) = owners.get(&sub.id) {
            sub.device_id.clone_from(server);
        }
    }
}

/// Gives ports within the trunks of these servers the IDs of the servers. Costs nothing where each port has a server of its own.
pub(crate) fn trace(ports: &mut [Port], servers: &[&str]) -> Result<(), Failure> {
    let may_be_carried = |port: &Port| port.owner == SUB_PORT || port.device_id.is_empty();
    if !servers.is_empty() && ports.iter().any(may_be_carried) {
        own(ports, &carriers(&of_devices(servers, Duration::ZERO)?));
    }
    Ok(())
}

/// Ports by their IDs.
pub(crate) fn with_ids(ids: &[&str], share: Duration) -> Result<Vec<Port>, Failure> {
    each(ids, |some| with(ports(), "id", some).share(share).list(PORTS))
}

/// Ports that have one of these addresses, on any network.
pub(crate) fn with_addresses(addresses: &[&str]) -> Result<Vec<Port>, Failure> {
    let filters: Vec<String> = addresses.iter().map(|address| format!("ip_address={address}")).collect();
    let filters: Vec<&str> = filters.iter().map(String::as_str).collect();
    each(&filters, |some| with(ports(), "fixed_ips", some).list(PORTS))
}

/// Ports that have a security group.
pub(crate) fn with_group(group: &str) -> Result<Vec<Port>, Failure> {
    ports().query("security_groups", group).list(PORTS)
}

/// Networks by their IDs, with their names.
pub(crate) fn networks(ids: &[&str], share: Duration) -> Result<Vec<Network>, Failure> {
    let request = || NEUTRON.get("/networks").query("fields", "id").query("fields", "name");
    each(ids, |some| with(request(), "id", some).share(share).list(NETWORKS))
}

/// Asks for one port.
pub(crate) fn get(id: &str) -> Request {
    NEUTRON.get("/ports/{id}").arg("id", id)
}

/// The answer to [`get`], or to a change; `None` when the cloud says that there is no such port.
pub(crate) fn one(answer: Answer) -> Result<Option<Port>, Failure> {
    answer.optional()?.map(|answer| answer.json_at("/port")).transpose()
}

#[derive(Serialize)]
struct Change<'a> {
    port: Pairs<'a>,
}

#[derive(Serialize)]
struct Pairs<'a> {
    allowed_address_pairs: &'a [Pair],
}

/// Gives a port these pairs in place of those that it has, unless somebody has changed the port since it was read.
pub(crate) fn put_pairs(port: &Port, pairs: &[Pair]) -> Request {
    let body = Change { port: Pairs { allowed_address_pairs: pairs } };
    super::if_unchanged(NEUTRON.put("/ports/{id}").arg("id", &port.id), port.revision).json(&body)
}
