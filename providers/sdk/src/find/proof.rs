//! Proves that machines are deleted: the cloud says so in this very call, to credentials that see other machines of the cluster.
//!
//! To the credentials of another account all machines of the cluster are missing, whatever machines that account has. So another
//! one of the cluster is asked for beside them, or some more where it is missing too. A Node alone in its cluster has no other:
//! then the account must have a machine at all. Several Nodes that are asked about at once may have no other either, and are not
//! alone: where all are missing, nothing is proven.

use super::{Answered, Machines, answered};
use crate::session::send_all;
use crate::types::Failure;

/// Most others that are asked for. Some may just have gone as well.
const OTHERS: usize = 5;

/// What is so of each. `others` as in [`find`](super::find).
pub(super) fn of<C: Machines>(
    cloud: &C,
    ids: &[&str],
    others: impl FnOnce(u32) -> Result<Vec<String>, String>,
) -> Vec<Answered<C::Machine>> {
    let most = u32::try_from(ids.len().saturating_add(OTHERS)).unwrap_or(u32::MAX);
    let (known, why) = match others(most) {
        Ok(known) => (known.iter().filter_map(|id| cloud.id_of(id).ok()).collect(), None),
        Err(why) => (vec![], Some(why)),
    };
    let is_alone = matches!((known.as_slice(), ids), ([only], [id]) if only == id);
    let others: Vec<String> = known.into_iter().filter(|id| !ids.contains(&id.as_str())).take(OTHERS).collect();
    let mut requests: Vec<_> = ids.iter().map(|id| cloud.get(id)).collect();
    // In the same breath: what is asked later may be asked with other credentials.
    requests.extend(others.first().map(|id| cloud.get(id)).or_else(|| is_alone.then(|| cloud.look())));
    let mut replies = send_all(requests);
    let beside = replies.split_off(ids.len().min(replies.len())).pop();
    let mut answers: Vec<_> = ids.iter().zip(replies).map(|(id, reply)| answered(cloud, id, reply)).collect();
    let is_missing = |answer: &Answered<_>| matches!(answer, Answered::Absent);
    let is_there = |answer: &Answered<_>| matches!(answer, Answered::Found(_));
    if !answers.iter().any(is_missing) || answers.iter().any(is_there) {
        return answers;
    }
    let beside = beside.unwrap_or_else(|| Err(Failure::retry("the host gave no answer")));
    let noun = C::NOUN;
    let sees = match (why, others.split_first()) {
        (Some(why), _) => Err(Failure::retry(why)),
        (None, Some((first, rest))) => sees(cloud, answered(cloud, first, beside), rest),
        (None, None) if !is_alone => Err(Failure::retry(format!(
            "no other {noun} of the cluster's Nodes is known beside it; where all of them are gone, delete their Nodes"
        ))),
        (None, None) => beside.and_then(|answer| cloud.any(answer)).and_then(|any| {
            if any { Ok(()) } else { Err(Failure::retry(format!("the credentials see no {noun} at all"))) }
        }),
    };
    if let Err(failure) = sees {
        let unproven = Answered::Unknown(unproven(failure));
        answers.iter_mut().filter(|answer| is_missing(answer)).for_each(|answer| *answer = unproven.clone());
    }
    answers
}

fn unproven(failure: Failure) -> Failure {
    failure.context("that it is missing proves nothing")
}

/// Whether the credentials see one of the others.
fn sees<C: Machines>(cloud: &C, first: Answered<C::Machine>, rest: &[String]) -> Result<(), Failure> {
    let more = || {
        let replies = send_all(rest.iter().map(|id| cloud.get(id)).collect());
        rest.iter().zip(replies).map(|(id, reply)| answered(cloud, id, reply))
    };
    let mut why = None;
    // The others are asked for only where the first is not there.
    for answer in std::iter::once(first).chain(std::iter::once_with(more).flatten()) {
        match answer {
            Answered::Found(_) => return Ok(()),
            Answered::Absent => {}
            Answered::Unknown(failure) => why = why.or(Some(failure)),
        }
    }
    Err(why.unwrap_or_else(|| blind(C::NOUN)))
}

fn blind(noun: &str) -> Failure {
    Failure::retry(format!(
        "the credentials see no other {noun} of the cluster's Nodes; are they those of another account or team?"
    ))
}

/// For everything else that is missing, such as a load balancer: tells "deleted" from "invisible to these credentials". Passes if
/// no Node has a provider ID yet: then there is no machine to check the credentials with. `nodes` as in [`find`](super::find).
///
/// # Errors
///
/// The credentials see none of the cluster's machines, or they cannot be asked for.
pub fn sees_the_cluster<C: Machines>(
    cloud: &C,
    nodes: impl FnOnce(u32) -> Result<Vec<String>, String>,
) -> Result<(), Failure> {
    let most = u32::try_from(OTHERS + 1).unwrap_or(u32::MAX);
    let ids = nodes(most).map_err(|why| unproven(Failure::retry(why)))?;
    let ids: Vec<String> = ids.iter().filter_map(|id| cloud.id_of(id).ok()).collect();
    match ids.split_first() {
        None => Ok(()),
        Some((first, rest)) => sees(cloud, answered(cloud, first, cloud.get(first).send()), rest).map_err(unproven),
    }
}
