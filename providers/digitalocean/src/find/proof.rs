//! Proves that droplets are deleted: the cloud says so in this very call, to a token that sees other droplets of the cluster.
//!
//! To the token of another account all droplets of the cluster are missing, whatever droplets that account has. So another one
//! of the cluster is asked for beside them, or some more where it is missing too. A Node alone in its cluster has no other: then
//! the account must have a droplet at all. Several Nodes that are asked about at once may have no other either, and are not alone:
//! where all are missing, nothing is proven.

use ccm_sdk::send_all;
use ccm_sdk::types::Failure;

use super::answered::{Answered, answered};
use crate::api::droplets;
use crate::provider_id;

/// Most others that are asked for. Some may just have gone as well.
const OTHERS: usize = 5;

/// What is so of each. `others` as in [`find`](super::find).
pub(super) fn of(ids: &[u64], others: impl FnOnce(u32) -> Result<Vec<String>, String>) -> Vec<Answered> {
    let most = u32::try_from(ids.len().saturating_add(OTHERS)).unwrap_or(u32::MAX);
    let known =
        others(most).map(|known| known.iter().filter_map(|id| provider_id::parse(id).ok()).collect::<Vec<u64>>());
    let is_alone = matches!((known.as_deref(), ids), (Ok([only]), [id]) if only == id);
    let others = known.map(|known| known.into_iter().filter(|id| !ids.contains(id)).take(OTHERS).collect::<Vec<u64>>());
    let first = others.as_ref().ok().and_then(|others| others.first().copied());
    let mut requests: Vec<_> = ids.iter().map(|id| droplets::get(*id)).collect();
    // In the same breath: what is asked later may be asked with another token.
    requests.extend(first.map(droplets::get).or_else(|| is_alone.then(droplets::look)));
    let mut replies = send_all(requests);
    let beside = replies.split_off(ids.len().min(replies.len())).pop();
    let mut answers: Vec<Answered> =
        ids.iter().zip(replies).map(|(id, reply)| answered(*id, reply.and_then(droplets::one))).collect();
    let is_missing = |answer: &Answered| matches!(answer, Answered::Absent);
    let is_there = |answer: &Answered| matches!(answer, Answered::Found(_));
    if !answers.iter().any(is_missing) || answers.iter().any(is_there) {
        return answers;
    }
    let beside = beside.unwrap_or_else(|| Err(Failure::retry("the host gave no answer")));
    let sees = match (others, first) {
        (Err(why), _) => Err(Failure::retry(why)),
        (Ok(_), None) if !is_alone => Err(Failure::retry(
            "no other droplet of the cluster's Nodes is known beside it; where all of them are gone, delete their Nodes",
        )),
        (Ok(_), None) => match beside.and_then(droplets::any) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Failure::retry("the token sees no droplet at all")),
            Err(failure) => Err(failure),
        },
        (Ok(others), Some(first)) => {
            sees(answered(first, beside.and_then(droplets::one)), others.get(1..).unwrap_or_default())
        }
    };
    if let Err(failure) = sees {
        let message = format!("that it is missing proves nothing: {}", failure.message);
        let unproven = Answered::Unknown(Failure { message, ..failure });
        answers.iter_mut().filter(|answer| is_missing(answer)).for_each(|answer| *answer = unproven.clone());
    }
    answers
}

/// Whether the token sees one of the others.
fn sees(first: Answered, rest: &[u64]) -> Result<(), Failure> {
    let more = || {
        let replies = send_all(rest.iter().map(|id| droplets::get(*id)).collect());
        rest.iter().zip(replies).map(|(id, reply)| answered(*id, reply.and_then(droplets::one)))
    };
    let mut why = None;
    // The others are asked for only where the first is not there.
    let first = std::iter::once(first);
    for answer in first.chain(std::iter::once_with(more).flatten()) {
        match answer {
            Answered::Found(_) => return Ok(()),
            Answered::Absent => {}
            Answered::Unknown(failure) => why = why.or(Some(failure)),
        }
    }
    Err(why.unwrap_or_else(|| {
        Failure::retry("the token sees no other droplet of the cluster's Nodes; is it that of another account or team?")
    }))
}
