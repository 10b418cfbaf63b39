//! Security groups and their rules.

use std::time::Duration;

use ccm_sdk::paging::Paging;
use ccm_sdk::types::Failure;
use ccm_sdk::{Answer, Request};
use serde::Serialize;
use serde_json::json;

use super::NEUTRON;
use super::routers::has_extension;

ccm_sdk::records! {
    /// A security group.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub(crate) struct Group {
        pub(crate) id: String [id],
        pub(crate) name: String,
        pub(crate) rules: Vec<Rule> = "security_group_rules",
    }

    /// What it lets through.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub(crate) struct Rule {
        pub(crate) id: String [id],
        pub(crate) direction: String,
        pub(crate) ethertype: String,
        pub(crate) protocol: Option<String>,
        pub(crate) port_range_min: Option<u16>,
        pub(crate) port_range_max: Option<u16>,
        pub(crate) remote_ip_prefix: Option<String>,
        pub(crate) remote_group_id: Option<String>,
        pub(crate) remote_address_group_id: Option<String>,
    }
}

/// A rule to make: traffic that comes in.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct NewRule {
    pub(crate) security_group_id: String,
    pub(crate) direction: String,
    pub(crate) ethertype: String,
    pub(crate) protocol: String,
    pub(crate) port_range_min: u16,
    pub(crate) port_range_max: u16,
    pub(crate) remote_ip_prefix: String,
}

const GROUPS: Paging =
    Paging::marker("marker", "limit", 1_000).items("/security_groups").until_no_next("/security_groups_links");

/// Those with a name, and their rules.
pub(crate) fn named(name: &str) -> Result<Vec<Group>, Failure> {
    if_there_are_any(NEUTRON.get("/security-groups").query("name", name).list(GROUPS))
}

/// A cloud without the extension has no groups, and does not know the question.
fn if_there_are_any(listed: Result<Vec<Group>, Failure>) -> Result<Vec<Group>, Failure> {
    match listed {
        Err(failure) if has_extension("security-group").unwrap_or(true) => Err(failure),
        Err(_) => Ok(vec![]),
        listed => listed,
    }
}

/// Bytes of names in one request: its line must not be longer than 8 KB.
const AT_ONCE: usize = 6_000;

/// Those with one of these names, and their rules.
pub(crate) fn with_names(names: &[&str], share: Duration) -> Result<Vec<Group>, Failure> {
    let longest = names.iter().map(|name| "&name=".len().saturating_add(name.len())).max().unwrap_or(1);
    let mut all = vec![];
    for some in names.chunks(AT_ONCE.div_euclid(longest).max(1)) {
        let request = some.iter().fold(NEUTRON.get("/security-groups"), |request, name| request.query("name", name));
        all.extend(if_there_are_any(request.share(share).list(GROUPS))?);
    }
    Ok(all)
}

/// Makes one.
pub(crate) fn create(name: &str, description: &str) -> Result<Group, Failure> {
    let body = json!({ "security_group": { "name": name, "description": description } });
    NEUTRON.post("/security-groups").json(&body).send()?.json_at("/security_group")
}

/// Deletes one; one that is gone is no failure.
pub(crate) fn delete(id: &str) -> Result<(), Failure> {
    NEUTRON.delete("/security-groups/{id}").arg("id", id).send()?.optional().map(drop)
}

/// Makes rules, all or none.
pub(crate) fn make_rules(rules: &[NewRule]) -> Result<Answer, Failure> {
    NEUTRON.post("/security-group-rules").json(&json!({ "security_group_rules": rules })).send()
}

/// Makes one rule.
pub(crate) fn make_rule(rule: &NewRule) -> Result<Answer, Failure> {
    NEUTRON.post("/security-group-rules").json(&json!({ "security_group_rule": rule })).send()
}

/// Deletes a rule; one that is gone is no failure.
pub(crate) fn delete_rule(id: &str) -> Request {
    NEUTRON.delete("/security-group-rules/{id}").arg("id", id)
}

/// Gives a port these groups, unless somebody has changed it since it was read.
pub(crate) fn set(port: &str, revision: u64, groups: &[String]) -> Request {
    super::if_unchanged(NEUTRON.put("/ports/{id}").arg("id", port), revision)
        .json(&json!({ "port": { "security_groups": groups } }))
}
