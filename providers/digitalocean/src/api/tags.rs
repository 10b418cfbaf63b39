//! Tags of load balancers.

use ccm_sdk::types::Failure;
use serde_json::json;

use crate::api::CLOUD;

const TAG: &str = "/v2/tags/{tag}";
const RESOURCES: &str = "/v2/tags/{tag}/resources";

/// False when there is no such tag.
pub(crate) fn assign(tag: &str, balancers: &[&str]) -> Result<bool, Failure> {
    let resource = |id: &&str| json!({ "resource_id": id, "resource_type": "load_balancer" });
    let resources: Vec<_> = balancers.iter().map(resource).collect();
    let request = CLOUD.post(RESOURCES).arg("tag", tag).json(&json!({ "resources": resources })).repeatable();
    request.send()?.optional().map(|answer| answer.is_some())
}

/// Also done when it is not there, or has no such tag.
pub(crate) fn unassign(tag: &str, balancer: &str) -> Result<(), Failure> {
    let resource = json!({ "resource_id": balancer, "resource_type": "load_balancer" });
    let request = CLOUD.delete(RESOURCES).arg("tag", tag).json(&json!({ "resources": [resource] })).repeatable();
    request.send()?.optional().map(drop)
}

pub(crate) fn create(tag: &str) -> Result<(), Failure> {
    CLOUD.post("/v2/tags").json(&json!({ "name": tag })).repeatable().send()?.done()
}

pub(crate) fn exists(tag: &str) -> Result<bool, Failure> {
    CLOUD.get(TAG).arg("tag", tag).send()?.optional().map(|answer| answer.is_some())
}

/// False when it was gone already. What has it loses it.
pub(crate) fn delete(tag: &str) -> Result<bool, Failure> {
    CLOUD.delete(TAG).arg("tag", tag).send()?.optional().map(|answer| answer.is_some())
}
