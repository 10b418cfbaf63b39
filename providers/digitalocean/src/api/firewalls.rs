//! Firewalls of droplets.

use ccm_sdk::Answer;
use ccm_sdk::types::Failure;
use serde::Serialize;

use crate::api::{CLOUD, PER_PAGE, paging};

const FIREWALLS: &str = "/v2/firewalls";
const FIREWALL: &str = "/v2/firewalls/{id}";

ccm_sdk::records! {
    /// What a firewall is asked to be.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize)]
    pub(crate) struct Spec {
        pub(crate) name: String,
        pub(crate) inbound_rules: Vec<Inbound>,
        pub(crate) outbound_rules: Vec<Outbound>,
        /// None: the tags say which.
        pub(crate) droplet_ids: Vec<u64>,
        pub(crate) tags: Vec<String>,
    }

    #[derive(Debug, Clone, PartialEq, Eq, Serialize)]
    pub(crate) struct Inbound {
        pub(crate) protocol: String,
        /// One port, a range, or `all`, which comes back as `0`.
        pub(crate) ports: String,
        pub(crate) sources: Peers,
    }

    #[derive(Debug, Clone, PartialEq, Eq, Serialize)]
    pub(crate) struct Outbound {
        pub(crate) protocol: String,
        pub(crate) ports: String,
        pub(crate) destinations: Peers,
    }

    /// Those that a rule is about.
    #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
    pub(crate) struct Peers {
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub(crate) addresses: Vec<String>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub(crate) load_balancer_uids: Vec<String>,
    }

    /// A firewall as the cloud has it.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub(crate) struct Firewall {
        pub(crate) id: String [id],
        pub(crate) spec: Spec [flatten],
    }
}

/// The first of that name.
pub(crate) fn named(name: &str) -> Result<Option<Firewall>, Failure> {
    let all: Vec<Firewall> = CLOUD.get(FIREWALLS).list(paging("/firewalls", PER_PAGE))?;
    Ok(all.into_iter().find(|firewall| firewall.spec.name == name))
}

pub(crate) fn create(spec: &Spec) -> Result<Answer, Failure> {
    CLOUD.post(FIREWALLS).json(spec).send()
}

/// Absent: it is gone.
pub(crate) fn replace(id: &str, spec: &Spec) -> Result<Answer, Failure> {
    CLOUD.put(FIREWALL).arg("id", id).json(spec).send()
}
