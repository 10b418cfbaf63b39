//! Firewalls of droplets.

use ccm_sdk::Answer;
use ccm_sdk::types::Failure;
use serde::{Deserialize, Serialize};

use crate::api::{CLOUD, list, or_default, paging};

const FIREWALLS: &str = "/v2/firewalls";
const FIREWALL: &str = "/v2/firewalls/{id}";

/// What a firewall is asked to be.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Spec {
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) name: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) inbound_rules: Vec<Inbound>,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) outbound_rules: Vec<Outbound>,
    /// None: the tags say which.
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) droplet_ids: Vec<u64>,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) tags: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Inbound {
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) protocol: String,
    /// One port, a range, or `all`, which comes back as `0`.
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) ports: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) sources: Peers,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Outbound {
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) protocol: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) ports: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) destinations: Peers,
}

/// Those that a rule is about.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Peers {
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub(crate) addresses: Vec<String>,
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub(crate) load_balancer_uids: Vec<String>,
}

/// A firewall as the cloud has it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Firewall {
    pub(crate) id: String,
    #[serde(flatten)]
    pub(crate) spec: Spec,
}

list!(Many, firewalls, Firewall, |firewall| firewall.id.clone());

/// The first of that name.
pub(crate) fn named(name: &str) -> Result<Option<Firewall>, Failure> {
    let all = CLOUD.get(FIREWALLS).list::<Many>(paging())?;
    Ok(all.into_iter().find(|firewall| firewall.spec.name == name))
}

pub(crate) fn create(spec: &Spec) -> Result<Answer, Failure> {
    CLOUD.post(FIREWALLS).json(spec).send()
}

/// Absent: it is gone.
pub(crate) fn replace(id: &str, spec: &Spec) -> Result<Answer, Failure> {
    CLOUD.put(FIREWALL).arg("id", id).json(spec).send()
}
