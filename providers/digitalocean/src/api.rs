//! The cloud's API: builds requests and reads answers. It decides nothing.
//!
//! Answers are read generously: an account has objects of others, and one that is odd must not hide the rest. Unknown fields
//! are left out, missing ones and `null` are empty, and words that may grow stay text. But what is not said is not believed: that
//! a list ends, and that an answer is about what was asked for.

pub(crate) mod balancers;
pub(crate) mod certificates;
pub(crate) mod droplets;
pub(crate) mod firewalls;
pub(crate) mod regions;
pub(crate) mod tags;

use std::time::Duration;

use ccm_sdk::paging::Paging;
use ccm_sdk::types::{Failure, Reaction};
use ccm_sdk::{Answer, Cloud, Request};

use crate::annotations as names;

pub(crate) const ENDPOINT: &str = "api";
pub(crate) const TOKEN: &str = "access-token";

pub(crate) const CLOUD: Cloud =
    Cloud::new(ENDPOINT).prepare(authorised).message(words).exceptions(exceptions).absent(is_absent);

/// The most that the API gives.
const PER_PAGE: usize = 200;

/// A load balancer takes no other change until the last one is done.
pub(crate) const BUSY: Duration = Duration::from_secs(15);

/// Pages tell how much there is in all. One that does not may be cut, or of somebody on the way: it is not believed.
const fn paging(items: &'static str, per_page: usize) -> Paging {
    Paging::numbered("page", "per_page", per_page).items(items).total("/meta/total")
}

fn authorised(request: Request) -> Request {
    request.header_secret("authorization", "Bearer ", TOKEN)
}

ccm_sdk::records! {
    struct Refused {
        id: String,
        message: String,
        /// In answers to a firewall or a tag that cannot be, in place of the message.
        error: String,
        root_causes: Vec<String>,
    }
}

fn words(answer: &Answer) -> Option<String> {
    let Refused { message, error, root_causes, .. } = answer.parse().ok()?;
    Some(match (message.is_empty(), root_causes.is_empty()) {
        (false, _) => message,
        (true, true) => error,
        (true, false) => format!("{error}: {}", root_causes.join(", ")),
    })
}

/// Only what the API itself says: gateways answer 404 as well, in JSON too.
fn is_absent(answer: &Answer) -> bool {
    answer.status() == 404 && answer.parse().is_ok_and(|refused: Refused| refused.id == "not_found")
}

/// What an answer means that its status alone does not tell.
pub(crate) fn exceptions(answer: &Answer) -> Option<Failure> {
    let failure = |reaction| Some(answer.failure(reaction));
    match answer.status() {
        403 if answer.says("processes previous actions") => {
            failure(Reaction::Pending).map(|failure| failure.after(BUSY))
        }
        400 | 403 | 409 | 422 if is_resized_too_soon(answer) => failure(Reaction::Pending),
        403 | 422 if answer.says("limit") || answer.says("quota") => failure(Reaction::Quota),
        // Somebody has made it since the listing, perhaps this very provider, whose answer was lost.
        422 if is_name_taken(answer) => failure(Reaction::Conflict),
        // A droplet that is just being destroyed; the next list of Nodes is without it.
        422 if answer.says("droplet") => failure(Reaction::Retry),
        422 if answer.says("entry port is invalid") => {
            failure(Reaction::Invalid).map(|failure| failure.field("spec.ports"))
        }
        422 if answer.says("health check only supports") => {
            failure(Reaction::Invalid).map(|failure| failure.annotation(names::HEALTH_PROTOCOL))
        }
        // Cut off, or not the API's: the words that would tell these apart are missing.
        400 | 403 | 422 if answer.parse::<Refused>().is_err() => failure(Reaction::Retry),
        _ => None,
    }
}

/// A no to droplets of a load balancer: there is no such one, or it is in another VPC.
pub(crate) fn is_about_droplets(answer: &Answer) -> bool {
    let is_tried_again = || exceptions(answer).is_some_and(|failure| failure.reaction == Reaction::Retry);
    answer.status() == 422 && answer.says("droplet") && is_tried_again()
}

/// A no to another size, which is there once in a while only.
pub(crate) fn is_resized_too_soon(answer: &Answer) -> bool {
    answer.says("only be resized once")
}

fn is_name_taken(answer: &Answer) -> bool {
    answer.says("with that name") || answer.says("name is already")
}

/// What was asked for by its ID, if the answer is about that. People write IDs in any case, and the cloud in its own.
fn about<T>(item: T, id: impl Fn(&T) -> &str, asked: &str) -> Result<T, Failure> {
    if id(&item).eq_ignore_ascii_case(asked) {
        return Ok(item);
    }
    Err(Failure::retry(format!("asked for {asked}, the answer is about {}", id(&item))))
}

#[cfg(test)]
mod tests;
