//! The servers behind Nodes: how Nova is asked for [`ccm_sdk::find`], and Neutron once for the ports of all of them.

#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::BTreeMap;

use ccm_sdk::find::{Listed, Machines};
use ccm_sdk::instances::{Finding, Instance, Need, State};
use ccm_sdk::label::LabelValue;
use ccm_sdk::record::Item;
use ccm_sdk::types::{AddressType, Failure, Node};
use ccm_sdk::{Answer, Request, find, log};

use crate::addresses::{self, OnTrunk};
use crate::api::ports::{self, Port};
use crate::api::servers::{self, Server};
use crate::config::Config;
use crate::provider_id;

/// Servers, as the configuration says.
pub(crate) struct Servers<'c> {
    config: &'c Config,
    /// Those that were found, by their provider IDs: their ports are asked for together.
    found: RefCell<BTreeMap<String, Server>>,
}

impl<'c> Servers<'c> {
    pub(crate) fn new(config: &'c Config) -> Self {
        Self { config, found: RefCell::default() }
    }
}

impl Machines for Servers<'_> {
    type Machine = Server;
    const NOUN: &'static str = "server";
    /// One less than elsewhere: the balancers' lists come on top at a start.
    const FEW: usize = 3;

    fn id_of(&self, provider_id: &str) -> Result<String, String> {
        provider_id::parse(self.config, provider_id)
    }

    fn get(&self, id: &str) -> Request {
        servers::get(id)
    }

    fn got(&self, answer: Answer) -> Result<Option<Server>, Failure> {
        servers::one(answer)
    }

    fn all(&self) -> Result<Listed<Server>, Failure> {
        servers::all(Self::SHARE).map(Listed::whole)
    }

    fn named(&self, name: &str) -> Result<Vec<Server>, Failure> {
        servers::named(name, Self::SHARE)
    }

    fn names(&self, server: &Server) -> Vec<String> {
        let addresses =
            server.networks.0.iter().flat_map(|(_, addresses)| addresses).map(|address| address.addr.clone());
        addresses.chain([exactly(&server.name), server.name.to_ascii_lowercase()]).collect()
    }

    /// Of those whose names differ in case alone, the one that is called as the Node.
    fn keys(&self, node: &str) -> Vec<String> {
        vec![exactly(node), node.to_ascii_lowercase()]
    }

    fn look(&self) -> Request {
        servers::look()
    }

    fn any(&self, answer: Answer) -> Result<bool, Failure> {
        servers::any(answer)
    }

    fn instance(&self, server: &Server, need: Need) -> Result<Instance, Failure> {
        let state = match server.status.as_str() {
            "ACTIVE" => State::Running,
            "SHUTOFF" => State::Stopped,
            _ => State::Other,
        };
        let provider_id = provider_id::format(self.config, &server.id);
        if need == Need::Metadata {
            self.found.borrow_mut().insert(provider_id.clone(), server.clone());
        }
        let flavor = Some(&server.flavor.original_name).filter(|name| !name.is_empty()).unwrap_or(&server.flavor.id);
        Ok(Instance {
            instance_type: label(flavor),
            zone: label(&server.zone),
            region: label(&self.config.region),
            ..Instance::new(provider_id, state)
        })
    }
}

/// As the Go manager writes it: several letters that cannot be in a label become one dash.
fn label(text: &str) -> String {
    let mut joined = String::new();
    let mut was_inside = true;
    for letter in text.chars() {
        let is_inside = letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
        if is_inside || was_inside {
            joined.push(if is_inside { letter } else { '-' });
        }
        was_inside = is_inside;
    }
    LabelValue::sanitised(&joined).to_string()
}

/// No server is called so.
fn exactly(name: &str) -> String {
    format!("={name}")
}

/// Answers `instances.find`. `others` as in [`find::find`].
pub(crate) fn find(
    config: &Config,
    nodes: &[Node],
    need: Need,
    others: impl FnOnce(u32) -> Result<Vec<String>, String>,
) -> Result<Vec<Finding>, Failure> {
    let servers = Servers::new(config);
    let mut findings = find::find(&servers, nodes, need, others)?;
    let found = servers.found.into_inner();
    if found.is_empty() {
        return Ok(findings);
    }
    let ports = Ports::read(&found.values().collect::<Vec<_>>());
    for finding in &mut findings {
        let Finding::Found(instance) = finding else { continue };
        let Some(server) = found.get(&instance.provider_id) else { continue };
        match ports.as_ref().map_err(Clone::clone).and_then(|ports| ports.addresses(server, config)) {
            Ok(addresses) => instance.addresses = addresses,
            Err(failure) => {
                *finding = Finding::Unknown(failure.context(format_args!("addresses of server {}", server.id)))
            }
        }
    }
    Ok(findings)
}

/// The ports of servers.
struct Ports {
    /// By the IDs of servers.
    by_server: BTreeMap<String, Vec<Port>>,
    /// By the IDs of ports, what these carry.
    trunks: BTreeMap<String, Vec<OnTrunk>>,
}

impl Ports {
    fn read(servers: &[&Server]) -> Result<Self, Failure> {
        let share = Servers::SHARE;
        let ids: Vec<String> = servers.iter().map(|server| server.id()).collect();
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        let mut by_server: BTreeMap<String, Vec<Port>> = BTreeMap::new();
        for port in ports::of_devices(&ids, share)? {
            by_server.entry(port.device_id.clone()).or_default().push(port);
        }
        let trunks = trunks(by_server.values().flatten()).unwrap_or_else(|failure| {
            log::warn("addresses within trunks are left out", &[("why", &failure.message)]);
            BTreeMap::new()
        });
        Ok(Self { by_server, trunks })
    }

    fn addresses(&self, server: &Server, config: &Config) -> Result<Vec<ccm_sdk::types::Address>, Failure> {
        let ports: Vec<&Port> = self.by_server.get(&server.id).into_iter().flatten().collect();
        let trunk: Vec<OnTrunk> =
            ports.iter().filter_map(|port| self.trunks.get(&port.id)).flatten().cloned().collect();
        let addresses = addresses::of(server, &ports, &trunk, &config.networking);
        if !addresses
            .iter()
            .any(|address| address.kind == AddressType::InternalIp || address.kind == AddressType::ExternalIp)
        {
            return Err(Failure::retry(format!(
                "it is {}, and has no address yet that [Networking] lets through",
                server.status
            )));
        }
        Ok(addresses)
    }
}

/// What the ports carry for networks within them: two questions for all.
fn trunks<'p>(ports: impl Iterator<Item = &'p Port> + Clone) -> Result<BTreeMap<String, Vec<OnTrunk>>, Failure> {
    let carried = |port: &'p Port| port.trunk.iter().flat_map(|trunk| &trunk.sub_ports).map(|sub| sub.port_id.as_str());
    let ids: Vec<&str> = ports.clone().flat_map(carried).collect();
    let mut trunks = BTreeMap::new();
    if ids.is_empty() {
        return Ok(trunks);
    }
    let subs: BTreeMap<String, Port> =
        ports::with_ids(&ids, Servers::SHARE)?.into_iter().map(|port| (port.id.clone(), port)).collect();
    let mut networks: Vec<&str> = subs.values().map(|port| port.network_id.as_str()).collect();
    networks.sort_unstable();
    networks.dedup();
    let names: BTreeMap<String, String> =
        ports::networks(&networks, Servers::SHARE)?.into_iter().map(|network| (network.id, network.name)).collect();
    for port in ports {
        let mut on = vec![];
        for sub in carried(port).filter_map(|id| subs.get(id)) {
            let Some(network) = names.get(&sub.network_id) else { continue };
            on.extend(
                sub.fixed_ips
                    .iter()
                    .map(|fixed| OnTrunk { network: network.clone(), address: fixed.ip_address.clone() }),
            );
        }
        if !on.is_empty() {
            trunks.insert(port.id.clone(), on);
        }
    }
    Ok(trunks)
}
