//! Machines that cannot be: what is said of the first Node of a call is wrong, of the others it is right.

use ccm_sdk::instances::{Finding, Instance};
use ccm_sdk::types::{Address, AddressType, Node};

use crate::{label, well_behaved};

/// The findings of a call, the first of them changed.
fn but(nodes: &[Node], change: impl FnOnce(&mut Instance)) -> Vec<Finding> {
    let mut findings = well_behaved(nodes);
    if let Some(Finding::Found(instance)) = findings.first_mut() {
        change(instance);
    }
    findings
}

/// A provider ID of somebody else's cloud.
pub(crate) fn foreign_id(nodes: &[Node]) -> Vec<Finding> {
    but(nodes, |instance| instance.provider_id = "aws:///eu-1a/i-0123".to_owned())
}

/// A provider ID of its own, that ends a line.
pub(crate) fn bad_id(nodes: &[Node]) -> Vec<Finding> {
    but(nodes, |instance| instance.provider_id = "hostile://a\nhostile://b".to_owned())
}

/// The provider ID of another machine, whatever the Node says.
pub(crate) fn changed_id(nodes: &[Node]) -> Vec<Finding> {
    but(nodes, |instance| instance.provider_id = "hostile://somebody-else".to_owned())
}

/// The machine of a Node that is there.
pub(crate) fn doubled_id(nodes: &[Node]) -> Vec<Finding> {
    but(nodes, |instance| instance.provider_id = "hostile://good".to_owned())
}

/// More labels than a Node should have.
pub(crate) fn many_labels(nodes: &[Node]) -> Vec<Finding> {
    but(nodes, |instance| instance.labels = (0..1_000).map(|number| label(&number.to_string(), "")).collect())
}

/// A list that is larger in the host than in here.
pub(crate) fn huge_list(nodes: &[Node]) -> Vec<Finding> {
    but(nodes, |instance| instance.labels = vec![(String::new(), String::new()); 300_000])
}

/// No name of a label.
pub(crate) fn bad_label(nodes: &[Node]) -> Vec<Finding> {
    but(nodes, |instance| instance.labels = vec![("not a\nlabel".to_owned(), String::new())])
}

/// No value of a label.
pub(crate) fn bad_value(nodes: &[Node]) -> Vec<Finding> {
    but(nodes, |instance| instance.labels = vec![label("mood", "not a value")])
}

/// A label of Kubernetes: what runs on such a Node may do more than elsewhere.
pub(crate) fn foreign_label(nodes: &[Node]) -> Vec<Finding> {
    let name = "node-role.kubernetes.io/control-plane".to_owned();
    but(nodes, |instance| instance.labels = vec![(name, String::new())])
}

/// No value of a label either, and it would be one.
pub(crate) fn bad_zone(nodes: &[Node]) -> Vec<Finding> {
    but(nodes, |instance| instance.zone = "z\u{1b}[2J".to_owned())
}

/// Loopback for those who read octal numbers.
pub(crate) fn bad_address(nodes: &[Node]) -> Vec<Finding> {
    let address = Address { kind: AddressType::InternalIp, value: "0177.0.0.1".to_owned() };
    but(nodes, |instance| instance.addresses = vec![address])
}
