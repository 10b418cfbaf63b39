//! The one place where what a guest answers becomes what the host uses. Each function takes an answer as the contract has it, and
//! returns a value that the rest of the host can use without a further look, or a sentence about what is wrong. Nothing else looks
//! into the answer of a guest, and [`call`](crate::call::call) returns none that was not read here.

mod cluster;
mod descriptor;
mod instances;
mod load_balancers;
mod routes;
mod syntax;

use std::time::Duration;

use ccm_cloud::{Capability, Failure, Problem, Reaction, current_span};
use ccm_egress::line;

pub(crate) use self::cluster::{Objects, cluster_failures};
pub(crate) use self::descriptor::descriptor;
pub(crate) use self::instances::{Asked, findings};
pub(crate) use self::load_balancers::{IngressRule, OutcomeRules, ingress, locks, mark, name, outcome, standings};
pub(crate) use self::routes::{route_outcomes, routes};
use crate::bindings::ccm::cloud::types;
use crate::bindings::exports::ccm::cloud::meta;
use crate::component_summary::full_name;

/// Most bytes of a message, most bytes of a field's name, and most problems that are taken from a provider: they go to logs,
/// Events and pages.
const MAX_MESSAGE: usize = 1024;
const MAX_FIELD: usize = 256;
const MAX_PROBLEMS: usize = 50;
/// Longest name that a complaint shows, in bytes.
const MAX_SHOWN: usize = 128;

/// What was read, or what is wrong with the answer: a sentence about the provider.
pub(crate) type Read<T> = Result<T, String>;

/// Reads what is in an answer, where it is no failure.
pub(crate) fn unless_failed<R, T>(
    read: impl FnOnce(R) -> Read<T>,
) -> impl FnOnce(Result<R, types::Failure>) -> Read<Result<T, Failure>> {
    move |answer| match answer {
        Ok(given) => read(given).map(Ok),
        Err(why) => Ok(Err(failure_of_call(why))),
    }
}

/// A failure that is about the call as a whole: its span says so, where that is traced.
fn failure_of_call(why: types::Failure) -> Failure {
    let failure = failure(why);
    if let Some(span) = current_span() {
        span.record("ccm.reaction", failure.reaction.as_str());
    }
    failure
}

pub(crate) fn failure(failure: types::Failure) -> Failure {
    let reaction = match failure.reaction {
        types::Reaction::Retry => Reaction::Retry,
        types::Reaction::Throttled => Reaction::Throttled,
        types::Reaction::Pending => Reaction::Pending,
        types::Reaction::Unauthorized => Reaction::Unauthorized,
        types::Reaction::Invalid => Reaction::Invalid,
        types::Reaction::Conflict => Reaction::Conflict,
        types::Reaction::Quota => Reaction::Quota,
        types::Reaction::Unsupported => Reaction::Unsupported,
        types::Reaction::Elsewhere => Reaction::Elsewhere,
    };
    Failure {
        reaction,
        message: line(&failure.message, MAX_MESSAGE),
        retry_after: failure.retry_after_ms.map(|ms| Duration::from_millis(u64::from(ms))),
        field: failure.field.map(|field| line(&field, MAX_FIELD)),
        request: None,
    }
}

/// At most [`MAX_PROBLEMS`], fatal ones first.
pub(crate) fn problems(mut problems: Vec<types::Problem>) -> Vec<Problem> {
    problems.sort_by_key(|problem| !problem.fatal);
    problems.truncate(MAX_PROBLEMS);
    let problem = |problem: types::Problem| Problem {
        field: line(&problem.field, MAX_FIELD),
        message: line(&problem.message, MAX_MESSAGE),
        fatal: problem.fatal,
    };
    problems.into_iter().map(problem).collect()
}

/// At most [`MAX_PROBLEMS`] of them.
pub(crate) fn sentences(mut sentences: Vec<String>) -> Vec<String> {
    let left_out = sentences.len().saturating_sub(MAX_PROBLEMS);
    sentences.truncate(MAX_PROBLEMS);
    let mut told: Vec<String> = sentences.iter().map(|sentence| line(sentence, MAX_MESSAGE)).collect();
    if left_out > 0 {
        told.push(format!("and {left_out} more"));
    }
    told
}

/// Each once, and only what the component exports.
pub(crate) fn capabilities(offers: Vec<meta::Capability>, exports: &[String]) -> Read<Vec<Capability>> {
    let mut capabilities = vec![];
    for offer in offers {
        let (interface, capability) = match offer {
            meta::Capability::LoadBalancers => ("load-balancers", Capability::LoadBalancers),
            meta::Capability::Routes => ("routes", Capability::Routes),
            meta::Capability::Cluster => ("cluster", Capability::Cluster),
        };
        if !exports.contains(&full_name(interface)) {
            return Err(format!("it names {interface} and does not export it"));
        }
        if !capabilities.contains(&capability) {
            capabilities.push(capability);
        }
    }
    Ok(capabilities)
}
