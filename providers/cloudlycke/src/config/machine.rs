//! Machines that the operator lists, and those of the original demonstration.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::net::IpAddr;

use ccm_sdk::types::{Address, AddressType};

use super::Mode;
use super::reader::{self, Section};
use crate::identity;
use crate::label::LabelValue;

/// What the cloud says about a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Running,
    Stopped,
    /// It says that the machine does not exist.
    Deleted,
    /// It does not answer.
    Error,
}

impl State {
    pub(crate) const ALL: [Self; 4] = [Self::Running, Self::Stopped, Self::Deleted, Self::Error];

    /// # Errors
    ///
    /// A message that lists what would be right.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        reader::choice(text, &Self::ALL)
    }
}

impl Display for State {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Running => "running",
            Self::Stopped => "stopped",
            Self::Deleted => "deleted",
            Self::Error => "error",
        })
    }
}

/// A machine that is listed. What is `None` comes from the Node or the rest of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Machine {
    /// Name of its Node.
    pub(crate) name: String,
    /// With the scheme.
    pub(crate) provider_id: String,
    pub(crate) addresses: Option<Vec<Address>>,
    pub(crate) instance_type: Option<LabelValue>,
    pub(crate) zone: Option<LabelValue>,
    pub(crate) region: Option<LabelValue>,
    pub(crate) state: Option<State>,
}

impl Machine {
    /// One of the two that upstream's constants describe; its internal address is its external one as well.
    fn fixture(name: &str, ip: &str, instance_type: &'static str) -> Self {
        let address = |kind, value: &str| Address { kind, value: value.to_owned() };
        Self {
            name: name.to_owned(),
            provider_id: identity::provider_id(&identity::machine_id(name)),
            addresses: Some(vec![
                address(AddressType::InternalIp, ip),
                address(AddressType::ExternalIp, ip),
                address(AddressType::Hostname, name),
            ]),
            instance_type: Some(LabelValue::literal(instance_type)),
            zone: None,
            region: None,
            state: None,
        }
    }
}

/// Machines by name, and their names by provider ID.
type Machines = (BTreeMap<String, Machine>, BTreeMap<String, String>);

/// In fixture mode the machines of the demonstration are there as well, unless the operator lists one of that name.
pub(super) fn read(root: &mut Section<'_>, mode: Mode) -> Machines {
    let (mut machines, mut names) = Machines::default();
    let listed = root.sections("instances", machine).unwrap_or_default();
    for (path, machine) in listed {
        let Some(machine) = machine else { continue };
        if machines.contains_key(&machine.name) {
            root.wrong(&format!("{path}.name"), &format!("{:?} is listed twice", machine.name));
        } else if let Some(other) = names.get(&machine.provider_id) {
            let message = format!("{} is the machine of {other:?} already", machine.provider_id);
            root.wrong(&format!("{path}.id"), &message);
        } else {
            names.insert(machine.provider_id.clone(), machine.name.clone());
            machines.insert(machine.name.clone(), machine);
        }
    }
    if mode == Mode::Fixture {
        let preset = [
            Machine::fixture("master-c2-1", "192.168.20.10", "vbox.vm.512mb.1cpu"),
            Machine::fixture("node-c2-1", "192.168.20.11", "vbox.vm.1g.2cpu"),
        ];
        for machine in preset {
            if !machines.contains_key(&machine.name) && !names.contains_key(&machine.provider_id) {
                names.insert(machine.provider_id.clone(), machine.name.clone());
                machines.insert(machine.name.clone(), machine);
            }
        }
    }
    (machines, names)
}

fn machine(section: &mut Section<'_>) -> Option<Machine> {
    let name = section.required("name", node_name);
    let id = section.parsed("id", machine_id);
    let addresses = section.sections("addresses", address);
    let instance_type = section.parsed("instanceType", str::parse);
    let zone = section.parsed("zone", str::parse);
    let region = section.parsed("region", str::parse);
    let state = section.parsed("state", State::parse);
    let name = name?;
    Some(Machine {
        provider_id: identity::provider_id(&id.unwrap_or_else(|| identity::machine_id(&name))),
        name,
        addresses: addresses.map(|addresses| addresses.into_iter().filter_map(|(_, address)| address).collect()),
        instance_type,
        zone,
        region,
        state,
    })
}

fn node_name(text: &str) -> Result<String, String> {
    if text.is_empty() { Err("must be the name of a Node".to_owned()) } else { Ok(text.to_owned()) }
}

/// Upstream's IDs had the scheme inside, and Nodes ended up with it twice.
fn machine_id(text: &str) -> Result<String, String> {
    if let Some((_, id)) = text.split_once("://") {
        return Err(format!("must not contain the scheme: write {id:?}"));
    }
    if text.is_empty() || text.contains(char::is_whitespace) {
        return Err(format!("must be an ID without spaces, not {text:?}"));
    }
    Ok(text.to_owned())
}

fn address(section: &mut Section<'_>) -> Option<Address> {
    let kind = section.required("type", address_type);
    let value = section.required("address", |text| match text {
        "" => Err("must not be empty".to_owned()),
        text => Ok(text.to_owned()),
    });
    let address = Address { kind: kind?, value: value? };
    let is_ip = matches!(address.kind, AddressType::InternalIp | AddressType::ExternalIp);
    if is_ip && address.value.parse::<IpAddr>().is_err() {
        section.wrong("address", &format!("must be an IP address, not {:?}", address.value));
        return None;
    }
    Some(address)
}

fn address_type(text: &str) -> Result<AddressType, String> {
    match text {
        "InternalIP" => Ok(AddressType::InternalIp),
        "ExternalIP" => Ok(AddressType::ExternalIp),
        "Hostname" => Ok(AddressType::Hostname),
        "InternalDNS" => Ok(AddressType::InternalDns),
        "ExternalDNS" => Ok(AddressType::ExternalDns),
        _ => Err(format!(
            "must be one of `InternalIP`, `ExternalIP`, `Hostname`, `InternalDNS`, `ExternalDNS`, not {text:?}"
        )),
    }
}
