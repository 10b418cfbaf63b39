//! Writes to a load balancer, one after the other: Octavia takes the next when it is done with the one before.

use std::cell::RefCell;
use std::fmt;
use std::time::Duration;

use ccm_sdk::http::Method;
use ccm_sdk::steps::{State, Work as Steps};
use ccm_sdk::types::{Failure, Service};
use ccm_sdk::{Done, Warning, cache};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::done::{AFFINITY_UNKNOWN, METHOD_UNKNOWN};
use super::refusal;
use crate::api::octavia::{self, Balancer, Thing};

/// A write. As text it says what was changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Step {
    verb: Verb,
    thing: Thing,
    /// Of the thing; of what is made, nothing, but for members, which are their pool's.
    id: String,
    body: Value,
    says: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
enum Verb {
    Make,
    Change,
    Delete,
}

impl Step {
    pub(super) fn make(thing: Thing, id: &str, body: Value, says: &str) -> Self {
        Self { verb: Verb::Make, thing, id: id.to_owned(), body, says: format!("made {says}") }
    }

    pub(super) fn change(thing: Thing, id: &str, body: Value, says: &str) -> Self {
        Self { verb: Verb::Change, thing, id: id.to_owned(), body, says: format!("changed {says}") }
    }

    pub(super) fn delete(thing: Thing, id: &str, says: &str) -> Self {
        Self { verb: Verb::Delete, thing, id: id.to_owned(), body: Value::Null, says: format!("deleted {says}") }
    }

    /// A change of tags, and of nothing else.
    pub(super) fn is_tags(&self) -> bool {
        self.verb == Verb::Change && self.body.as_object().is_some_and(|body| body.keys().all(|key| key == "tags"))
    }

    /// A change of what the provider of Octavia may not have, and of nothing else: the reason that people are told with.
    fn optional(&self) -> Option<&'static str> {
        let body = self.body.as_object().filter(|body| body.len() == 1)?;
        if self.thing != Thing::Pool || self.verb != Verb::Change {
            return None;
        }
        match body.keys().next()?.as_str() {
            "lb_algorithm" => Some(METHOD_UNKNOWN),
            "session_persistence" => Some(AFFINITY_UNKNOWN),
            _ => None,
        }
    }

    /// The pool whose members it changes.
    pub(super) fn pool_of_members(&self) -> Option<&str> {
        matches!(self.thing, Thing::Members | Thing::Member).then(|| self.id.split('/').next())?
    }

    /// Under which its refusal is kept.
    fn refusal(&self) -> String {
        format!("refused/{}/{}", self.id, self.body)
    }

    /// Whether the cloud has just refused exactly this.
    pub(super) fn is_refused(&self) -> bool {
        self.optional().is_some() && cache::get(&self.refusal()).is_some()
    }
}

impl fmt::Display for Step {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.says)
    }
}

/// How long a change that was refused is not asked for again.
const REFUSED: Duration = Duration::from_secs(3_600);

/// Writes what a plan has.
pub(super) struct Writer<'a, P> {
    /// As this call has seen it.
    pub(super) balancer: &'a Balancer,
    service: &'a Service,
    pub(super) plan: P,
    pub(super) warnings: RefCell<Vec<Warning>>,
    /// What was refused, and done without.
    pub(super) refused: RefCell<Vec<String>>,
    /// The pool whose members were refused.
    pub(super) refused_pool: RefCell<Option<String>>,
}

impl<'a, P> Writer<'a, P> {
    pub(super) fn new(balancer: &'a Balancer, service: &'a Service, plan: P) -> Self {
        Self {
            balancer,
            service,
            plan,
            warnings: RefCell::default(),
            refused: RefCell::default(),
            refused_pool: RefCell::default(),
        }
    }

    fn send(&self, step: &Step) -> Result<Option<String>, Failure> {
        let method = match step.verb {
            Verb::Make => Method::Post,
            Verb::Change => Method::Put,
            Verb::Delete => Method::Delete,
        };
        let answer = octavia::write(method, step.thing, &step.id, &step.body)?;
        let at_work = Some(self.balancer.id.clone());
        if step.verb == Verb::Delete {
            return answer.optional().map(|answer| answer.and(at_work));
        }
        // Nothing else was asked for.
        let optional = step.optional().filter(|_| refusal::is_no(&answer));
        match (refusal::judged(answer, self.service), optional) {
            (Ok(_), _) => Ok(at_work),
            (Err(failure), Some(reason)) => {
                cache::put(&step.refusal(), b"", REFUSED);
                let mut message = failure.message;
                if reason == AFFINITY_UNKNOWN {
                    message = format!(
                        "session affinity of load balancer {} stays as it was: {message}; set spec.sessionAffinity of Service {} back, or use a provider of Octavia that takes the change",
                        self.balancer.id,
                        self.service.full_name()
                    );
                }
                self.warnings.borrow_mut().push((reason, message));
                self.refused.borrow_mut().push(step.to_string());
                Ok(None)
            }
            (Err(failure), None) => Err(failure),
        }
    }

    /// Tells what could not be done.
    pub(super) fn tell(self, done: &mut Done) {
        self.warnings.into_inner().into_iter().for_each(|(reason, message)| done.warn(reason, message));
        let refused = self.refused.into_inner();
        done.outcome.changes.retain(|change| !refused.contains(change));
    }
}

impl<P: Fn() -> Result<Vec<Step>, Failure>> Steps for Writer<'_, P> {
    type Step = Step;
    const LOOK: Duration = Duration::from_secs(2);

    fn plan(&self) -> Result<Vec<Step>, Failure> {
        match self.state(&self.balancer.id)? {
            State::Running => {
                let message = format!("load balancer {} is {}", self.balancer.id, self.balancer.status);
                Err(Failure::pending(message).after(Self::LOOK))
            }
            State::Failed(failure) => Err(failure),
            State::Done | State::Unknown => (self.plan)(),
        }
    }

    fn write(&self, step: &Step) -> Result<Option<String>, Failure> {
        self.send(step).inspect_err(|failure| {
            if refusal::is_final(failure) {
                self.refused_pool.replace(step.pool_of_members().map(str::to_owned));
            }
        })
    }

    fn state(&self, _job: &str) -> Result<State, Failure> {
        Ok(match self.balancer.status.as_str() {
            "ACTIVE" => State::Done,
            "ERROR" => State::Failed(Failure::retry(format!(
                "load balancer {} has gone into ERROR state, please check Octavia for details",
                self.balancer.id
            ))),
            _ => State::Running,
        })
    }
}
