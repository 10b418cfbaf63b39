//! Tags of load balancers.

use ccm_sdk::types::{Failure, Reaction};
use ccm_sdk::{Answer, Request};
use serde_json::json;

use crate::api::{CLOUD, exceptions};

const TAG: &str = "/v2/tags/{tag}";
const RESOURCES: &str = "/v2/tags/{tag}/resources";

/// A no to a tag is one for good: who wants it goes on without.
fn sent(request: Request) -> Result<Answer, Failure> {
    let answer = request.send()?;
    let is_no = matches!(answer.status(), 400 | 422) && exceptions(&answer).is_none();
    if is_no { Err(answer.failure(Reaction::Unsupported)) } else { Ok(answer) }
}

/// False when there is no such tag.
pub(crate) fn assign(tag: &str, balancers: &[&str]) -> Result<bool, Failure> {
    let resource = |id: &&str| json!({ "resource_id": id, "resource_type": "load_balancer" });
    let resources: Vec<_> = balancers.iter().map(resource).collect();
    let request = CLOUD.post(RESOURCES).arg("tag", tag).json(&json!({ "resources": resources })).repeatable();
    sent(request)?.optional().map(|answer| answer.is_some())
}

/// Also done when it is not there, or has no such tag.
pub(crate) fn unassign(tag: &str, balancer: &str) -> Result<(), Failure> {
    let resource = json!({ "resource_id": balancer, "resource_type": "load_balancer" });
    let request = CLOUD.delete(RESOURCES).arg("tag", tag).json(&json!({ "resources": [resource] })).repeatable();
    sent(request)?.optional().map(drop)
}

pub(crate) fn create(tag: &str) -> Result<(), Failure> {
    sent(CLOUD.post("/v2/tags").json(&json!({ "name": tag })).repeatable())?.done()
}

pub(crate) fn exists(tag: &str) -> Result<bool, Failure> {
    CLOUD.get(TAG).arg("tag", tag).send()?.optional().map(|answer| answer.is_some())
}

/// False when it was gone already. What has it loses it.
pub(crate) fn delete(tag: &str) -> Result<bool, Failure> {
    sent(CLOUD.delete(TAG).arg("tag", tag))?.optional().map(|answer| answer.is_some())
}
