//! Floating IPs, and the networks and subnets that they are from.

use std::time::Duration;

use ccm_sdk::Answer;
use ccm_sdk::paging::Paging;
use ccm_sdk::types::Failure;
use serde_json::{Value, json};

use super::NEUTRON;

ccm_sdk::records! {
    /// A floating IP.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub(crate) struct FloatingIp {
        pub(crate) id: String [id],
        pub(crate) address: String = "floating_ip_address",
        /// None: it is free.
        pub(crate) port_id: Option<String>,
        pub(crate) description: String,
    }

    /// A network.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub(crate) struct Network {
        pub(crate) id: String [id],
        pub(crate) name: String,
        pub(crate) subnets: Vec<String>,
    }

    /// A subnet.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub(crate) struct Subnet {
        pub(crate) id: String [id],
        pub(crate) name: String,
        pub(crate) network_id: String,
        pub(crate) cidr: String,
        pub(crate) ip_version: u8,
        pub(crate) tags: Vec<String>,
    }
}

const fn paging(items: &'static str, links: &'static str) -> Paging {
    Paging::marker("marker", "limit", 1_000).items(items).until_no_next(links)
}

const LIST: Paging = paging("/floatingips", "/floatingips_links");
const NETWORKS: Paging = paging("/networks", "/networks_links");
const SUBNETS: Paging = paging("/subnets", "/subnets_links");

/// Those with a value in one of their fields.
pub(crate) fn with(field: &str, value: &str) -> Result<Vec<FloatingIp>, Failure> {
    NEUTRON.get("/floatingips").query(field, value).list(LIST)
}

/// Those with one of these descriptions.
pub(crate) fn described(descriptions: &[&str]) -> Result<Vec<FloatingIp>, Failure> {
    let request = NEUTRON.get("/floatingips");
    descriptions.iter().fold(request, |request, text| request.query("description", text)).list(LIST)
}

/// All of the project.
pub(crate) fn all(share: Duration) -> Result<Vec<FloatingIp>, Failure> {
    NEUTRON.get("/floatingips").share(share).list(LIST)
}

/// Makes one.
pub(crate) fn create(body: &Value) -> Result<Answer, Failure> {
    NEUTRON.post("/floatingips").json(&json!({ "floatingip": body })).send()
}

/// The answer to [`create`].
pub(crate) fn created(answer: Answer) -> Result<FloatingIp, Failure> {
    answer.json_at("/floatingip")
}

/// Attaches it to a port, or detaches it: an update without the port would detach it too.
pub(crate) fn attach(id: &str, port: Option<&str>) -> Result<(), Failure> {
    NEUTRON.put("/floatingips/{id}").arg("id", id).json(&json!({ "floatingip": { "port_id": port } })).send()?.done()
}

/// Deletes it; one that is gone is no failure.
pub(crate) fn delete(id: &str) -> Result<(), Failure> {
    NEUTRON.delete("/floatingips/{id}").arg("id", id).send()?.optional().map(drop)
}

/// All networks to the outside that can be seen.
pub(crate) fn external_networks() -> Result<Vec<Network>, Failure> {
    NEUTRON.get("/networks").query("router:external", "True").list(NETWORKS)
}

/// Those of a network.
pub(crate) fn subnets(network: &str) -> Result<Vec<Subnet>, Failure> {
    NEUTRON.get("/subnets").query("network_id", network).list(SUBNETS)
}

/// One by its ID.
pub(crate) fn subnet(id: &str) -> Result<Option<Subnet>, Failure> {
    if id.is_empty() {
        // That path is the one of the list.
        return Ok(None);
    }
    let answer = NEUTRON.get("/subnets/{id}").arg("id", id).send()?.optional()?;
    answer.map(|answer| answer.json_at("/subnet")).transpose()
}
