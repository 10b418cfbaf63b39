//! Machines that a provider found. What is said of them goes into Nodes: what the API server would refuse there, or what could lead
//! elsewhere than it seems, is not believed, and only of the machine that it was said of.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::IpAddr;

use ccm_cloud::{Address, AddressKind, Attributes, Descriptor, Finding, Instance, InstanceState};
use ccm_egress::line;

use super::syntax::{is_host_name, is_label_value, is_qualified_name};
use super::{MAX_SHOWN, Read, failure};
use crate::CallError;
use crate::bindings::ccm::cloud::types;
use crate::bindings::exports::ccm::cloud::instances;

/// Longest provider ID, in bytes.
const MAX_ID: usize = 1024;
/// Most labels and most addresses of a machine. A Node has both in its object, of which every kubelet and controller keeps a copy.
const MAX_LABELS: usize = 500;
const MAX_ADDRESSES: usize = 100;
/// Most bytes of all labels of a machine, names and values.
const MAX_LABEL_BYTES: usize = 256 << 10;

/// What was asked about.
pub(crate) struct Asked<'a> {
    /// The provider ID of each Node, in their order.
    pub(crate) own_ids: Vec<Option<String>>,
    pub(crate) descriptor: &'a Descriptor,
    pub(crate) function: &'static str,
}

/// As many as there are Nodes. One that cannot be does not make the others wrong.
pub(crate) fn findings(given: Vec<instances::Finding>, asked: &Asked<'_>) -> Read<Vec<Finding>> {
    let Asked { own_ids, descriptor, function } = asked;
    if given.len() != own_ids.len() {
        return Err(format!("it gave {} findings for {} nodes", given.len(), own_ids.len()));
    }
    let read = |(finding, own): (_, &Option<String>)| match finding {
        instances::Finding::Found(found) => match instance(found, own.as_deref(), descriptor) {
            Ok(instance) => Finding::Found(Box::new(instance)),
            Err(wrong) => Finding::Unknown(CallError::BadAnswer(wrong).into_failure(function, &descriptor.name)),
        },
        instances::Finding::Absent => Finding::Absent,
        instances::Finding::Unknown(why) => Finding::Unknown(failure(why)),
    };
    Ok(given.into_iter().zip(own_ids).map(read).collect())
}

fn instance(found: instances::Instance, own: Option<&str>, descriptor: &Descriptor) -> Read<Instance> {
    let instances::Instance {
        provider_id,
        instance_type,
        addresses: given_addresses,
        zone,
        region,
        labels: given_labels,
        state,
        more: _,
    } = found;
    check_id(&provider_id, own, descriptor)?;
    for (what, value) in [("type", &instance_type), ("zone", &zone), ("region", &region)] {
        if !is_label_value(value) {
            return Err(format!("it gave the {what} {:?}, which is no value of a label", line(value, MAX_SHOWN)));
        }
    }
    Ok(Instance {
        provider_id,
        instance_type,
        addresses: addresses(given_addresses)?,
        zone,
        region,
        labels: labels(given_labels)?,
        state: match state {
            instances::State::Running => InstanceState::Running,
            instances::State::Stopped => InstanceState::Stopped,
            instances::State::Other => InstanceState::Other,
        },
    })
}

/// A provider ID is written once and for ever, so it must be the Node's own, or one that the provider takes care of.
fn check_id(id: &str, own: Option<&str>, descriptor: &Descriptor) -> Read<()> {
    if id.is_empty() || own == Some(id) {
        return Ok(());
    }
    let shown = || line(id, MAX_SHOWN);
    if !descriptor.owns(id) {
        let begin = line(&descriptor.provider_ids().join(", "), MAX_ID);
        return Err(format!(
            "it gave the provider ID {:?}, which is none of its own (they begin with {begin})",
            shown()
        ));
    }
    if id.len() > MAX_ID || id.contains(|char: char| char.is_control() || char.is_whitespace()) {
        let what = format!("which has spaces, control characters or more than {MAX_ID} bytes");
        return Err(format!("it gave the provider ID {:?}, {what}", shown()));
    }
    Ok(())
}

/// Values are the API server's to refuse: it names the value and the Node.
fn labels(given: types::Attributes) -> Read<Attributes> {
    if given.len() > MAX_LABELS {
        return Err(format!("it gave {} labels of a machine, the most is {MAX_LABELS}", given.len()));
    }
    let bytes: usize = given.iter().map(|(name, value)| name.len().saturating_add(value.len())).sum();
    if bytes > MAX_LABEL_BYTES {
        return Err(format!("it gave labels of {bytes} bytes of a machine, the most is {MAX_LABEL_BYTES}"));
    }
    let mut labels = BTreeMap::new();
    for (name, value) in given {
        if !is_qualified_name(&name) {
            return Err(format!("it gave the label {:?}, which is no name of a label", line(&name, MAX_SHOWN)));
        }
        match labels.entry(name) {
            Entry::Vacant(free) => drop(free.insert(value)),
            Entry::Occupied(taken) => {
                return Err(format!("it gave the label {:?}, twice", line(taken.key(), MAX_SHOWN)));
            }
        }
    }
    Ok(labels)
}

fn addresses(given: Vec<types::Address>) -> Read<Vec<Address>> {
    if given.len() > MAX_ADDRESSES {
        return Err(format!("it gave {} addresses of a machine, the most is {MAX_ADDRESSES}", given.len()));
    }
    given.into_iter().map(address).collect()
}

/// An IP address is written in one way alone: `0177.0.0.1` and `2130706433` are loopback for some, and another address or a name for
/// others.
fn address(address: types::Address) -> Read<Address> {
    let types::Address { kind, value } = address;
    let kind = match kind {
        types::AddressType::InternalIp => AddressKind::InternalIp,
        types::AddressType::ExternalIp => AddressKind::ExternalIp,
        types::AddressType::Hostname => AddressKind::Hostname,
        types::AddressType::InternalDns => AddressKind::InternalDns,
        types::AddressType::ExternalDns => AddressKind::ExternalDns,
    };
    let wrong = match kind {
        AddressKind::InternalIp | AddressKind::ExternalIp if value.parse::<IpAddr>().is_err() => "no IP address",
        AddressKind::Hostname | AddressKind::InternalDns | AddressKind::ExternalDns if !is_host_name(&value) => {
            "no name of a host"
        }
        _ => return Ok(Address { kind, value }),
    };
    Err(format!("it gave the {} {:?}, which is {wrong}", kind.as_str(), line(&value, MAX_SHOWN)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptor() -> Descriptor {
        Descriptor { name: "acme".to_owned(), provider_id_schemes: vec!["acme".to_owned()], ..Descriptor::default() }
    }

    fn good() -> instances::Instance {
        instances::Instance {
            provider_id: "acme://1".to_owned(),
            instance_type: "large.2".to_owned(),
            addresses: vec![],
            zone: String::new(),
            region: "north_1".to_owned(),
            labels: vec![],
            state: instances::State::Running,
            more: vec![],
        }
    }

    fn read(change: impl FnOnce(&mut instances::Instance)) -> Result<Instance, String> {
        let mut found = good();
        change(&mut found);
        instance(found, None, &descriptor())
    }

    fn at(kind: types::AddressType, value: &str) -> types::Address {
        types::Address { kind, value: value.to_owned() }
    }

    #[test]
    fn what_a_node_cannot_have_is_not_believed() {
        type Change = fn(&mut instances::Instance);
        let label = |name: &str, value: &str| vec![(name.to_owned(), value.to_owned())];
        let cases: [(Change, &str); 11] = [
            (|found| found.provider_id = "aws:///i-1".to_owned(), "\"aws:///i-1\", which is none of its own"),
            (|found| found.provider_id = "acme://a b".to_owned(), "which has spaces"),
            (|found| found.provider_id = "acme://a\nb".to_owned(), "control characters"),
            (|found| found.provider_id = format!("acme://{}", "x".repeat(1_024)), "more than 1024 bytes"),
            (
                |found| found.instance_type = "two words".to_owned(),
                "the type \"two words\", which is no value of a label",
            ),
            (|found| found.zone = "x".repeat(64), "the zone \"xxx"),
            (|found| found.region = "-".to_owned(), "the region \"-\""),
            (|found| found.labels = vec![(String::new(), String::new()); 501], "501 labels of a machine"),
            (|found| found.labels = vec![("a".to_owned(), String::new()); 2], "the label \"a\", twice"),
            (|found| found.addresses = vec![at(types::AddressType::Hostname, "a"); 101], "101 addresses of a machine"),
            (|found| found.zone = "a\u{1b}[2J".to_owned(), "the zone \"a\\\\u{1b}[2J\""),
        ];
        assert!(read(|_| ()).is_ok());
        for (change, part) in cases {
            let said = read(change).unwrap_err();
            assert!(said.contains(part), "{said}: {part}");
        }
        for name in ["a b", "A.example/b", "a/b/c", ""] {
            let said = read(|found| found.labels = label(name, "")).unwrap_err();
            assert!(said.contains(&format!("the label {name:?}, which is no name of a label")), "{said}");
        }
        let said = read(|found| found.labels = label("a", &"x".repeat(MAX_LABEL_BYTES))).unwrap_err();
        assert!(said.contains("labels of 262145 bytes"), "{said}");
        assert!(read(|found| found.labels = label("acme.example/a", "")).is_ok());
    }

    #[test]
    fn an_address_is_written_in_one_way() {
        use types::AddressType::{ExternalDns, ExternalIp, Hostname, InternalIp};
        for (kind, value, is_one) in [
            (InternalIp, "10.0.0.7", true),
            (ExternalIp, "2001:db8::1", true),
            (InternalIp, "0177.0.0.1", false),
            (InternalIp, "2130706433", false),
            (InternalIp, "0x7f.1", false),
            (ExternalIp, "10.0.0.7/24", false),
            (ExternalIp, "web.example", false),
            (InternalIp, "", false),
            (Hostname, "Node_1", true),
            (Hostname, "10.0.0.7", true),
            (ExternalDns, "ec2-1.example.com.", true),
            (ExternalDns, "a b", false),
            (Hostname, "", false),
            (Hostname, &"x".repeat(254), false),
        ] {
            let said = read(|found| found.addresses = vec![at(kind, value)]);
            assert_eq!(said.is_ok(), is_one, "{kind:?} {value:?}: {said:?}");
        }
    }

    /// Nobody's word counts against what the Node has.
    #[test]
    fn the_own_provider_id_of_a_node_may_come_back() {
        let own = Some("aws:///i 1");
        let found = instances::Instance { provider_id: "aws:///i 1".to_owned(), ..good() };
        assert!(instance(found, own, &descriptor()).is_ok());
    }
}
