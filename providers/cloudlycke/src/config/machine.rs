//! Machines that the operator lists, and those of the original demonstration.

use std::net::IpAddr;

use ccm_sdk::config::Section;
use ccm_sdk::label::LabelValue;
use ccm_sdk::quoted;
use ccm_sdk::types::{Address, AddressType};
use ccm_sdk::words::none_of;

use crate::identity;

ccm_sdk::words! {
    /// Whether Nodes are described by what they are, or as the machines of the original demonstration.
    pub(crate) enum Mode { Adaptive = "adaptive", Fixture = "fixture" }

    /// What the cloud says about a machine.
    pub(crate) enum State {
        Running = "running",
        Stopped = "stopped",
        /// It says that the machine does not exist.
        Deleted = "deleted",
        /// It does not answer.
        Error = "error",
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

/// Machines, found by the name of their Node and by their provider ID.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Machines {
    list: Vec<Machine>,
    /// Places in `list` in the order of names, and in that of IDs. With B-trees the component would be 5 KB larger.
    by_name: Vec<usize>,
    by_id: Vec<usize>,
}

impl Machines {
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// The machine of this Node.
    pub(crate) fn named(&self, name: &str) -> Option<&Machine> {
        self.list.get(*self.by_name.get(self.place_of_name(name).ok()?)?)
    }

    /// The machine with this provider ID.
    pub(crate) fn with_id(&self, id: &str) -> Option<&Machine> {
        self.list.get(*self.by_id.get(self.place_of_id(id).ok()?)?)
    }

    /// Passes over a machine whose name or ID another one has.
    pub(super) fn add(&mut self, machine: Machine) {
        if let (Err(name_at), Err(id_at)) = (self.place_of_name(&machine.name), self.place_of_id(&machine.provider_id))
        {
            self.by_name.insert(name_at, self.list.len());
            self.by_id.insert(id_at, self.list.len());
            self.list.push(machine);
        }
    }

    fn place_of_name(&self, name: &str) -> Result<usize, usize> {
        self.place(&self.by_name, |machine| &machine.name, name)
    }

    fn place_of_id(&self, id: &str) -> Result<usize, usize> {
        self.place(&self.by_id, |machine| &machine.provider_id, id)
    }

    /// Where in `order` the machine stands whose `key` is `text`, or where it would.
    fn place(&self, order: &[usize], key: fn(&Machine) -> &String, text: &str) -> Result<usize, usize> {
        order.binary_search_by(|at| self.list.get(*at).map(|machine| key(machine).as_str()).cmp(&Some(text)))
    }
}

/// In fixture mode the machines of the demonstration are there as well, unless the operator lists one of that name.
pub(super) fn read(root: &mut Section<'_>, mode: Mode) -> Machines {
    let mut machines = Machines::default();
    for (path, machine) in root.sections("instances", machine).unwrap_or_default() {
        let Some(machine) = machine else { continue };
        if machines.named(&machine.name).is_some() {
            root.wrong(&format!("{path}.name"), format!("{} is listed twice", quoted(&machine.name)));
        } else if let Some(other) = machines.with_id(&machine.provider_id) {
            let message = format!("{} is the machine of {} already", machine.provider_id, quoted(&other.name));
            root.wrong(&format!("{path}.id"), message);
        } else {
            machines.add(machine);
        }
    }
    if mode == Mode::Fixture {
        let preset = [
            Machine::fixture("master-c2-1", "192.168.20.10", "vbox.vm.512mb.1cpu"),
            Machine::fixture("node-c2-1", "192.168.20.11", "vbox.vm.1g.2cpu"),
        ];
        for machine in preset {
            machines.add(machine);
        }
    }
    machines
}

fn machine(section: &mut Section<'_>) -> Option<Machine> {
    let name = section.required("name", node_name);
    let id = section.parsed("id", machine_id);
    let addresses = section.sections("addresses", address);
    let instance_type = section.parsed("instanceType", str::parse);
    let zone = section.parsed("zone", str::parse);
    let region = section.parsed("region", str::parse);
    let state = section.parsed("state", str::parse);
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
    let scheme = text.as_bytes().windows(3).position(|bytes| bytes == b"://");
    if let Some(id) = scheme.and_then(|end| text.get(end + 3..)) {
        return Err(format!("must not contain the scheme: write {}", quoted(id)));
    }
    if text.is_empty() || text.contains(char::is_whitespace) {
        return Err(format!("must be an ID without spaces, not {}", quoted(text)));
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
        section.wrong("address", format!("must be an IP address, not {}", quoted(&address.value)));
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
        _ => Err(none_of(text, &["InternalIP", "ExternalIP", "Hostname", "InternalDNS", "ExternalDNS"])),
    }
}
