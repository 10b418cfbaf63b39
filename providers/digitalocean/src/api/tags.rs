//! Tags of load balancers.

use ccm_sdk::types::{Failure, Reaction};
use ccm_sdk::{Answer, Request};
use serde::Serialize;

use crate::api::{CLOUD, exceptions};

const TAG: &str = "/v2/tags/{tag}";
const RESOURCES: &str = "/v2/tags/{tag}/resources";

#[derive(Serialize)]
struct Resources<'a> {
    resources: Vec<Resource<'a>>,
}

#[derive(Serialize)]
struct Resource<'a> {
    resource_id: &'a str,
    resource_type: &'static str,
}

impl<'a> Resources<'a> {
    fn of(balancers: &[&'a str]) -> Self {
        let resource = |id: &&'a str| Resource { resource_id: id, resource_type: "load_balancer" };
        Self { resources: balancers.iter().map(resource).collect() }
    }
}

#[derive(Serialize)]
struct Name<'a> {
    name: &'a str,
}

/// A no to a tag is one for good: who wants it goes on without.
fn sent(request: Request) -> Result<Answer, Failure> {
    let answer = request.send()?;
    let is_no = matches!(answer.status(), 400 | 422) && exceptions(&answer).is_none();
    if is_no { Err(answer.failure(Reaction::Unsupported)) } else { Ok(answer) }
}

/// False when there is no such tag.
pub(crate) fn assign(tag: &str, balancers: &[&str]) -> Result<bool, Failure> {
    let request = CLOUD.post(RESOURCES).arg("tag", tag).json(&Resources::of(balancers)).repeatable();
    sent(request)?.optional().map(|answer| answer.is_some())
}

/// Also done when it is not there, or has no such tag.
pub(crate) fn unassign(tag: &str, balancer: &str) -> Result<(), Failure> {
    let request = CLOUD.delete(RESOURCES).arg("tag", tag).json(&Resources::of(&[balancer])).repeatable();
    sent(request)?.optional().map(drop)
}

pub(crate) fn create(tag: &str) -> Result<(), Failure> {
    sent(CLOUD.post("/v2/tags").json(&Name { name: tag }).repeatable())?.done()
}

pub(crate) fn exists(tag: &str) -> Result<bool, Failure> {
    let Some(answer) = CLOUD.get(TAG).arg("tag", tag).send()?.optional()? else { return Ok(false) };
    // The account keeps the case of whoever made it first.
    answer.json_at::<String>("/tag/name").map(|name| name.eq_ignore_ascii_case(tag))
}

/// False when it was gone already. What has it loses it.
pub(crate) fn delete(tag: &str) -> Result<bool, Failure> {
    sent(CLOUD.delete(TAG).arg("tag", tag))?.optional().map(|answer| answer.is_some())
}

/// Gives one a tag of its own, which is made first: as a rule it is new, and to try without costs a request more.
///
/// # Errors
///
/// It does not have it.
pub(crate) fn put(tag: &str, balancer: &str) -> Result<(), Failure> {
    let made = made(tag)?;
    if assign(tag, &[balancer])? { Ok(()) } else { Err(made.unwrap_or_else(|| gone(tag, &[balancer]))) }
}

/// Makes a tag. Returns a no that may be about one that is there already: what the cloud says to that is not known.
///
/// # Errors
///
/// It is not there.
pub(crate) fn made(tag: &str) -> Result<Option<Failure>, Failure> {
    match create(tag).map_err(|failure| failure.context("failed to create tag")) {
        Ok(()) => Ok(None),
        Err(failure) if matches!(failure.reaction, Reaction::Unsupported | Reaction::Conflict) => Ok(Some(failure)),
        Err(failure) => Err(failure),
    }
}

pub(crate) fn gone(tag: &str, ids: &[&str]) -> Failure {
    Failure::conflict(format!("a load balancer of {} cannot get the tag {tag}: it is gone", ids.join(", ")))
}
