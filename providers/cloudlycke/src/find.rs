//! What the cloud says about the machine behind a Node.
//!
//! One path answers all questions: what a Node is called by its provider ID and by its name can never differ.

#[cfg(test)]
mod tests;

use ccm_sdk::instances::{self, Finding, Instance, Need};
use ccm_sdk::label::LabelValue;
use ccm_sdk::types::{Failure, Node};

use crate::annotations::{INSTANCE_TYPE, REGION, STATE, ZONE};
use crate::config::{Config, Machine, State};
use crate::{addresses, identity, size};

/// Tells on the Node how it came to its labels.
const MODE_LABEL: &str = "cloudlycke.io/mode";

/// A finding, and how it came about.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    pub(crate) finding: Finding,
    pub(crate) reason: String,
}

impl Answer {
    fn new(finding: Finding, reason: &str) -> Self {
        Self { finding, reason: reason.to_owned() }
    }

    fn unknown(failure: Failure) -> Self {
        Self { reason: failure.message.clone(), finding: Finding::Unknown(failure) }
    }

    /// The finding in a word.
    pub(crate) fn decision(&self) -> &'static str {
        match &self.finding {
            Finding::Found(Instance { state: instances::State::Running, .. }) => "running",
            Finding::Found(Instance { state: instances::State::Stopped, .. }) => "stopped",
            Finding::Found(_) => "found",
            Finding::Absent => "absent",
            Finding::Unknown(_) => "unknown",
        }
    }
}

/// Answers about one Node. `absent` is as good as a proof here: this provider is the cloud.
///
/// Only an answer about metadata can fail for want of metadata; that a machine exists and runs never depends on it.
pub(crate) fn find(config: &Config, node: &Node, need: Need) -> Answer {
    if let Some(id) = node.provider_id.as_deref().filter(|id| identity::is_foreign(id) && !config.adopt_foreign) {
        return foreign(id, need);
    }
    let machine = config.machine(node);
    let state = match state(node, machine) {
        Ok(State::Running) => instances::State::Running,
        Ok(State::Stopped) => instances::State::Stopped,
        Ok(State::Deleted) => return Answer::new(Finding::Absent, "its state is `deleted`"),
        Ok(State::Error) => return Answer::unknown(Failure::retry("simulated cloud API failure")),
        Err(failure) => return Answer::unknown(failure),
    };
    if config.strict && machine.is_none() {
        return Answer::new(Finding::Absent, "not listed, and the configuration is strict");
    }
    let reason = if machine.is_some() { "listed" } else { "described by its Node" };
    match (instance(config, machine, node, state), need) {
        (Ok(instance), _) => Answer::new(Finding::Found(instance), reason),
        (Err(failure), Need::Metadata) => Answer::unknown(failure),
        (Err(_), Need::Existence | Need::Proof) => {
            Answer::new(Finding::Found(Instance::new(provider_id(machine, node), state)), reason)
        }
    }
}

/// The safe answers: its Node is neither deleted nor tainted nor labelled on our word.
fn foreign(id: &str, need: Need) -> Answer {
    match need {
        Need::Metadata => Answer::unknown(Failure::elsewhere(format!("node is managed by another provider: {id}"))),
        Need::Existence | Need::Proof => Answer::new(
            Finding::Found(Instance::new(id.to_owned(), instances::State::Running)),
            "managed by another provider, taken to exist",
        ),
    }
}

fn instance(
    config: &Config,
    machine: Option<&Machine>,
    node: &Node,
    state: instances::State,
) -> Result<Instance, Failure> {
    let instance_type = match label(node, INSTANCE_TYPE)?.or_else(|| machine?.instance_type.clone()) {
        Some(instance_type) => instance_type.to_string(),
        None => size::instance_type(&node.capacity)?,
    };
    let addresses = match machine.and_then(|machine| machine.addresses.clone()) {
        Some(addresses) => addresses,
        None => addresses::addresses(node, config.report_external_ip)?,
    };
    let zone = label(node, ZONE)?.or_else(|| machine?.zone.clone()).unwrap_or_else(|| config.zone.clone());
    let region = label(node, REGION)?.or_else(|| machine?.region.clone()).unwrap_or_else(|| config.region.clone());
    let labels = vec![(MODE_LABEL.to_owned(), config.mode.to_string())];
    #[cfg(feature = "next")]
    let labels = [labels, vec![("cloudlycke.io/edition".to_owned(), "second".to_owned())]].concat();
    Ok(Instance {
        instance_type,
        addresses,
        zone: zone.to_string(),
        region: region.to_string(),
        labels,
        ..Instance::new(provider_id(machine, node), state)
    })
}

/// Kept where the Node has one, whatever it is: a provider ID cannot be changed.
fn provider_id(machine: Option<&Machine>, node: &Node) -> String {
    match (&node.provider_id, machine) {
        (Some(id), _) => id.clone(),
        (None, Some(machine)) => machine.provider_id.clone(),
        (None, None) => identity::provider_id(&identity::machine_id(&node.name)),
    }
}

fn state(node: &Node, machine: Option<&Machine>) -> Result<State, Failure> {
    match node.annotation(STATE) {
        Some(text) => text.parse().map_err(|message: String| Failure::invalid(message).annotation(STATE)),
        None => Ok(machine.and_then(|machine| machine.state).unwrap_or(State::Running)),
    }
}

fn label(node: &Node, name: &str) -> Result<Option<LabelValue>, Failure> {
    let parse = |text: &str| text.parse().map_err(|message: String| Failure::invalid(message).annotation(name));
    node.annotation(name).map(parse).transpose()
}
