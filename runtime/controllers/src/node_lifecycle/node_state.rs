//! What the state of a Node alone says. Nothing here reads or writes anything.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Taint;

use crate::store::Node;
use crate::view::node::{is_ready, provider_id};

/// On a Node whose machine is switched off, with the effect `NoSchedule`.
pub const SHUTDOWN: &str = "node.cloudprovider.kubernetes.io/shutdown";
/// With the key it is what a taint is known by.
const EFFECT: &str = "NoSchedule";

/// What kind of work a Node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NodeState {
    /// Somebody deletes it already: left alone.
    Deleting,
    /// Never asked about, never deleted.
    Ready,
    /// Ready is false or unknown, or there is no such condition.
    NotReady,
}

pub(crate) fn node_state(node: &Node) -> NodeState {
    if node.is_deleting {
        return NodeState::Deleting;
    }
    if is_ready(node) { NodeState::Ready } else { NodeState::NotReady }
}

/// What an answer of the cloud is about: after a change of it, an older answer is about something else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    uid: String,
    provider_id: Option<String>,
}

impl Identity {
    pub(crate) fn of(node: &Node) -> Self {
        let uid = node.uid.as_deref().unwrap_or_default().to_owned();
        Self { uid, provider_id: provider_id(node).map(ToOwned::to_owned) }
    }
}

/// A digest of what may change the cloud's answer: heartbeats and taints do not.
pub(crate) fn digest(node: &Node) -> u64 {
    let mut digest = DefaultHasher::new();
    (&node.ready, &node.labels, &node.annotations).hash(&mut digest);
    digest.finish()
}

/// Since its creation by the API server's clock; nothing when that is not said or lies ahead.
pub(crate) fn age(node: &Node) -> Duration {
    let age = node.created.map(|created| Timestamp::now().duration_since(created));
    age.and_then(|age| Duration::try_from(age).ok()).unwrap_or_default()
}

/// How the shutdown taint should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ShutdownTaint {
    There,
    Away,
}

/// All taints that the Node should have; none when it has them.
pub(crate) fn corrected_taints(node: &Node, wanted: ShutdownTaint) -> Option<Vec<Taint>> {
    let is_it = |taint: &Taint| taint.key == SHUTDOWN && taint.effect == EFFECT;
    let present = &node.taints;
    match (wanted, present.iter().any(is_it)) {
        (ShutdownTaint::There, false) => {
            let added = Taint { key: SHUTDOWN.into(), effect: EFFECT.into(), ..Taint::default() };
            Some(present.iter().cloned().chain([added]).collect())
        }
        (ShutdownTaint::Away, true) => Some(present.iter().filter(|taint| !is_it(taint)).cloned().collect()),
        (ShutdownTaint::There, true) | (ShutdownTaint::Away, false) => None,
    }
}
