//! Resizes that have to wait. By its documentation, DigitalOcean resizes a load balancer once an hour, and not in its first hour.
//! How long it is now, and since when it counts, nobody knows but the cloud: it is asked, and where it refuses, what else
//! differs is written without the size.

use std::time::Duration;

use ccm_sdk::types::{Failure, Reaction};
use ccm_sdk::{Answer, cache, clock};

use super::lookup;
use super::work::Scope;
use crate::annotations as names;
use crate::api::balancers::{self, Balancer, Spec};
use crate::{api, desired, moment};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);

/// When to ask again where the cloud does not say since when it counts, or refuses for another reason.
const ASK_AGAIN: Duration = Duration::from_secs(300);

fn key(id: &str) -> String {
    format!("resize/{id}")
}

/// A size that the cloud has refused: until this is forgotten, it is not asked for again.
struct Refused {
    /// What was asked for; any size, where the cloud takes none now.
    size: Option<String>,
    /// Seconds since 1970.
    again: u64,
    message: String,
}

/// Why nothing can be written where neither the Service nor the cloud says of which size it is: what a change leaves out gets its
/// default, one node, and somebody may have made it larger. By the API's description an answer may lack both, and in no example
/// does one.
pub(super) fn unknown(balancer: &Balancer, plan: &Spec) -> Option<Failure> {
    if balancer.tells_size() || plan.size.is_some() || plan.size_unit.is_some() {
        return None;
    }
    let message = format!(
        "load balancer {} is not changed but for its droplets: DigitalOcean does not tell its size, and a change that does not either would make it 1 node; this is tried again, and annotation {} says of how many nodes it should be",
        balancer.id,
        names::SIZE_UNIT
    );
    Some(Failure::retry(message).annotation(names::SIZE_UNIT))
}

/// What can be written now, and why the size is not in it.
pub(super) fn possible(balancer: &Balancer, plan: &Spec) -> (Spec, Option<Failure>) {
    let refused = can_wait(balancer, plan).then(|| noted(balancer)).flatten();
    let refused = refused.filter(|refused| refused.size.as_ref().is_none_or(|size| *size == desired::size_words(plan)));
    match refused {
        None => (plan.clone(), None),
        Some(Refused { size, again, message }) => {
            let reaction = if size.is_none() { Reaction::Pending } else { Reaction::Retry };
            let left = Duration::from_secs(again).saturating_sub(clock::since_epoch());
            (without(balancer, plan), Some(annotated(Failure::new(reaction, message), plan).after(left)))
        }
    }
}

/// Whether it has another size than it should, which a change can repeat.
fn can_wait(balancer: &Balancer, plan: &Spec) -> bool {
    balancer.tells_size() && desired::size_differs(balancer, plan)
}

fn without(balancer: &Balancer, plan: &Spec) -> Spec {
    let mut plan = plan.clone();
    desired::keep_size(&mut plan, balancer);
    plan
}

fn annotated(failure: Failure, plan: &Spec) -> Failure {
    failure.annotation(if plan.size.is_some() { names::SIZE_SLUG } else { names::SIZE_UNIT })
}

/// What has come of a write.
pub(super) struct Written {
    pub(super) answer: Answer,
    /// What was written, for people. Nothing where the size is all that differs, and waits.
    pub(super) parts: Vec<String>,
    /// Why the size was not.
    pub(super) waits: Option<Failure>,
}

impl Written {
    pub(super) fn is_nothing(&self) -> bool {
        self.parts.is_empty()
    }
}

fn put(balancer: &Balancer, plan: &Spec) -> Result<Answer, Failure> {
    let answer = balancers::replace(&balancer.id, plan);
    lookup::written(&balancer.id);
    answer
}

/// A no with droplets in its words comes back: those are looked at first, and [`rest`] is what is left.
///
/// # Errors
///
/// There is no answer.
pub(super) fn write(balancer: &Balancer, plan: &Spec, scope: Scope) -> Result<Written, Failure> {
    let answer = put(balancer, plan)?;
    let written = Written { answer, parts: scope.differences(balancer, plan), waits: None };
    if api::is_about_droplets(&written.answer) { Ok(written) } else { rest(balancer, plan, scope, written) }
}

/// Writes the rest where the answer may be about the size.
///
/// # Errors
///
/// There is no answer.
pub(super) fn rest(balancer: &Balancer, plan: &Spec, scope: Scope, written: Written) -> Result<Written, Failure> {
    if written.waits.is_some() || !can_wait(balancer, plan) || !may_be_about_size(&written.answer) {
        return Ok(written);
    }
    let answer = written.answer;
    let takes_none = api::is_resized_too_soon(&answer);
    let refused = refused(balancer, plan, &answer);
    if takes_none {
        note(balancer, &refused);
    }
    let plan_now = without(balancer, plan);
    let parts = scope.differences(balancer, &plan_now);
    let left = Duration::from_secs(refused.again).saturating_sub(clock::since_epoch());
    let failure = match answer.clone().done() {
        Err(failure) if !takes_none => Failure { message: refused.message.clone(), ..failure },
        _ => Failure::pending(refused.message.clone()).after(left),
    };
    let failure = annotated(failure, plan);
    if parts.is_empty() {
        return Ok(Written { answer, parts, waits: Some(failure) });
    }
    let answer = put(balancer, &plan_now)?;
    if answer.status() < 300 {
        note(balancer, &refused);
    }
    Ok(Written { answer, parts, waits: Some(failure) })
}

fn note(balancer: &Balancer, Refused { size, again, message }: &Refused) {
    let left = Duration::from_secs(*again).saturating_sub(clock::since_epoch());
    let size = size.as_deref().unwrap_or_default();
    cache::put(&key(&balancer.id), format!("{again}|{size}|{message}").as_bytes(), left);
}

fn noted(balancer: &Balancer) -> Option<Refused> {
    let noted = String::from_utf8(cache::get(&key(&balancer.id))?).ok()?;
    let mut parts = noted.splitn(3, '|');
    let (again, size, message) = (parts.next()?.parse().ok()?, parts.next()?, parts.next()?);
    Some(Refused { size: Some(size.to_owned()).filter(|size| !size.is_empty()), again, message: message.to_owned() })
}

/// As opposed to a load balancer that is busy, and a name that is another's.
fn may_be_about_size(answer: &Answer) -> bool {
    matches!(answer.status(), 400 | 403 | 409 | 422)
        && (api::is_resized_too_soon(answer)
            || !matches!(
                api::exceptions(answer).map(|failure| failure.reaction),
                Some(Reaction::Pending | Reaction::Conflict)
            ))
}

fn refused(balancer: &Balancer, plan: &Spec, answer: &Answer) -> Refused {
    let now = clock::since_epoch();
    let why = answer.failure(Reaction::Pending).message;
    let (id, has, wants) = (&balancer.id, desired::size_words(&without(balancer, plan)), desired::size_words(plan));
    if !api::is_resized_too_soon(answer) {
        let message = format!("load balancer {id} keeps the size {has}, as DigitalOcean refuses {wants}: {why}");
        return Refused { size: Some(wants), again: (now + ASK_AGAIN).as_secs(), message };
    }
    // By the vendor's Terraform provider it was once an hour, and is once a minute now.
    let pause = if answer.says("every minute") { MINUTE } else { HOUR };
    let last = answer.message().as_deref().and_then(moment::find).map(Duration::from_secs);
    let told = last.map(|last| last + pause).filter(|until| *until > now && *until <= now + pause);
    let until = told.unwrap_or(now + pause);
    let again = told.unwrap_or(now + ASK_AGAIN.min(pause));
    let latest = if told.is_some() { "" } else { " at the latest" };
    let message = format!(
        "load balancer {id} keeps the size {has} until {}{latest}, and gets {wants} then; everything else is as the Service asks: {why}",
        moment::text(until.as_secs())
    );
    Refused { size: None, again: again.as_secs(), message }
}
