//! What goes wrong, and when.

use std::time::Duration;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::endpoint::Endpoint;

/// Which requests are counted until the one that is meant. As JSON: `"all"`, `"reads"`, `"writes"`,
/// `{"of":"loadBalancers_create"}`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Requests {
    /// All.
    #[default]
    All,
    /// Those that change nothing.
    Reads,
    /// Those that change something.
    Writes,
    /// Those of an endpoint.
    Of(Endpoint),
}

/// On which side of the effect it happens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum When {
    /// The request has no effect.
    #[default]
    Before,
    /// The request has its effect, and nobody knows.
    After,
}

/// What happens. As JSON: `{"status":503}`, `{"too-many":5}`, `"truncated"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Act {
    /// This status with the body of an error.
    Status(u16),
    /// A 429 that says to wait so many seconds; none: it does not say.
    TooMany(Option<u64>),
    /// This status with a page of HTML, as gateways have it.
    Html(u16),
    /// The connection ends without an answer.
    Hangup,
    /// No answer until [`Planned::release`]; from the control endpoint: never. A client that goes away takes its request
    /// along: one that is held before its effect never has it.
    Hold,
    /// The first half of the true answer. The request has its effect.
    Truncated,
    /// The true answer with states, kinds and networks that nobody has heard of. The request has its effect.
    UnknownEnum,
    /// The true answer with more members in every object. The request has its effect.
    ExtraFields,
}

/// Trouble of every kind. Not among it is what would be a lie: an answer of the API that says something else than what is.
pub const FAULTS: &[(When, Act)] = &[
    (When::Before, Act::Hangup),
    (When::Before, Act::Hold),
    (When::Before, Act::TooMany(Some(5))),
    (When::Before, Act::TooMany(None)),
    (When::Before, Act::Status(500)),
    (When::Before, Act::Status(503)),
    (When::Before, Act::Html(502)),
    (When::Before, Act::Html(404)),
    (When::After, Act::Hangup),
    (When::After, Act::Hold),
    (When::After, Act::Status(500)),
    (When::After, Act::Status(503)),
    (When::After, Act::Html(502)),
    (When::After, Act::Html(404)),
    (When::After, Act::Truncated),
    (When::After, Act::UnknownEnum),
    (When::After, Act::ExtraFields),
];

/// A fault, for the `nth` of these requests from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// What is counted. Default all.
    #[serde(default)]
    pub of: Requests,
    /// Which one of them, from 1. Default 1.
    #[serde(default = "one")]
    pub nth: usize,
    /// How many of them in a row. Default 1.
    #[serde(default = "one")]
    pub times: usize,
    /// Again after so many of them, for ever; 0: only once. Default 0.
    #[serde(default)]
    pub every: usize,
    /// On which side of its effect. Default before.
    #[serde(default)]
    pub when: When,
    /// What happens to it.
    pub act: Act,
}

const fn one() -> usize {
    1
}

impl Fault {
    /// Strikes the `nth` of these requests, once.
    #[must_use]
    pub const fn new(of: Requests, nth: usize, when: When, act: Act) -> Self {
        Self { of, nth, times: 1, every: 0, when, act }
    }

    const fn counts(&self, endpoint: Endpoint) -> bool {
        match self.of {
            Requests::All => true,
            Requests::Reads => !endpoint.is_write(),
            Requests::Writes => endpoint.is_write(),
            // Endpoints have no `==` in a constant function.
            Requests::Of(own) => own as u8 == endpoint as u8,
        }
    }

    /// Whether the request `number`, from 1, is struck.
    fn strikes(&self, number: usize) -> bool {
        let Some(after) = number.checked_sub(self.nth.max(1)) else { return false };
        let place = if self.every == 0 { after } else { after % self.every };
        place < self.times
    }

    fn is_over(&self, counted: usize) -> bool {
        self.every == 0 && counted >= self.nth.max(1).saturating_add(self.times).saturating_sub(1)
    }
}

/// A fault that is to come, or has come.
pub struct Planned {
    reached: watch::Receiver<usize>,
    released: watch::Sender<bool>,
}

impl Planned {
    /// Waits until its request is there, and, where it is for after the effect, has had that.
    ///
    /// # Errors
    ///
    /// No such request came within `limit`.
    pub async fn reached(&mut self, limit: Duration) -> Result<()> {
        let waited = tokio::time::timeout(limit, self.reached.wait_for(|reached| *reached > 0)).await;
        waited.with_context(|| format!("the request did not come within {limit:?}"))?.context("the cloud is gone")?;
        Ok(())
    }

    /// Waits until it strikes a request that nobody has waited for. Never ends when there is none.
    pub async fn again(&mut self) {
        if self.reached.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// How many requests it has struck.
    #[must_use]
    pub fn struck(&self) -> usize {
        *self.reached.borrow()
    }

    /// Requests that are held go on.
    pub fn release(&self) {
        self.released.send_replace(true);
    }
}

/// A fault as the cloud keeps it.
pub(crate) struct Waiting {
    fault: Fault,
    counted: usize,
    reached: watch::Sender<usize>,
    released: watch::Receiver<bool>,
}

/// A fault for the request at hand.
pub(crate) struct Due {
    pub(crate) fault: Fault,
    reached: watch::Sender<usize>,
    released: watch::Receiver<bool>,
}

pub(crate) fn plan(fault: Fault) -> (Waiting, Planned) {
    let (reached, is_reached) = watch::channel(0);
    let (release, released) = watch::channel(false);
    (Waiting { fault, counted: 0, reached, released }, Planned { reached: is_reached, released: release })
}

/// Counts the request, and returns the first fault that is due for it.
pub(crate) fn take(waiting: &mut Vec<Waiting>, endpoint: Endpoint) -> Option<Due> {
    let mut due = None;
    for waiting in waiting.iter_mut().filter(|waiting| waiting.fault.counts(endpoint)) {
        waiting.counted += 1;
        if due.is_none() && waiting.fault.strikes(waiting.counted) {
            let (reached, released) = (waiting.reached.clone(), waiting.released.clone());
            due = Some(Due { fault: waiting.fault, reached, released });
        }
    }
    waiting.retain(|waiting| !waiting.fault.is_over(waiting.counted));
    due
}

impl Due {
    /// One that nobody has planned, so that nobody releases what it holds.
    pub(crate) fn unplanned(fault: Fault) -> Self {
        let (Waiting { fault, reached, released, .. }, _) = plan(fault);
        Self { fault, reached, released }
    }

    /// The request is where the fault wants it.
    pub(crate) fn reach(&self) {
        self.reached.send_modify(|reached| *reached += 1);
    }

    pub(crate) async fn held(&mut self) {
        // An error means that nobody is there any more to release it.
        if self.released.wait_for(|released| *released).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Members with values that a client knows.
const ENUMS: &[&str] = &["status", "type", "state", "network", "network_stack", "algorithm", "resource_type"];

pub(crate) fn with_unknown_enums(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                if ENUMS.contains(&name.as_str()) && member.is_string() {
                    *member = json!("simulated-unknown");
                } else {
                    with_unknown_enums(member);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(with_unknown_enums),
        _ => (),
    }
}

pub(crate) fn with_extra_fields(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.values_mut().for_each(with_extra_fields);
            members.insert("simulated_extra".to_owned(), json!({ "since": 2027, "list": [null, "x"] }));
        }
        Value::Array(items) => items.iter_mut().for_each(with_extra_fields),
        _ => (),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_strikes_the_requests_that_it_is_for() {
        use Endpoint::{Balancers, CreateBalancer, UpdateBalancer};
        let calls = [Balancers, CreateBalancer, UpdateBalancer, Balancers, CreateBalancer, UpdateBalancer];
        let struck = |of, nth, times, every| {
            let fault = Fault { times, every, ..Fault::new(of, nth, When::Before, Act::Hangup) };
            let (waiting, _planned) = plan(fault);
            let mut all = vec![waiting];
            let mut struck = Vec::new();
            for (place, endpoint) in (1..).zip(calls) {
                if take(&mut all, endpoint).is_some() {
                    struck.push(place);
                }
            }
            struck
        };
        for (of, nth, times, every, expected) in [
            (Requests::All, 1, 1, 0, vec![1]),
            (Requests::All, 2, 3, 0, vec![2, 3, 4]),
            (Requests::Writes, 2, 1, 0, vec![3]),
            (Requests::Reads, 2, 1, 0, vec![4]),
            (Requests::Of(CreateBalancer), 2, 1, 0, vec![5]),
            (Requests::All, 2, 1, 2, vec![2, 4, 6]),
            (Requests::Writes, 1, 1, 3, vec![2, 6]),
        ] {
            assert_eq!(struck(of, nth, times, every), expected, "{of:?} {nth} {times} {every}");
        }
    }

    #[test]
    fn faults_are_written_as_json() {
        let fault: Fault =
            serde_json::from_str(r#"{"of":{"of":"loadBalancers_create"},"when":"after","act":{"status":503}}"#)
                .unwrap();
        assert_eq!(fault, Fault::new(Requests::Of(Endpoint::CreateBalancer), 1, When::After, Act::Status(503)));
        for (text, act) in [
            (r#""hold""#, Act::Hold),
            (r#""hangup""#, Act::Hangup),
            (r#""truncated""#, Act::Truncated),
            (r#"{"too-many":null}"#, Act::TooMany(None)),
            (r#"{"too-many":5}"#, Act::TooMany(Some(5))),
            (r#"{"html":502}"#, Act::Html(502)),
            (r#""unknown-enum""#, Act::UnknownEnum),
            (r#""extra-fields""#, Act::ExtraFields),
        ] {
            let text = format!(r#"{{"of":"writes","nth":3,"act":{text}}}"#);
            let fault = serde_json::from_str::<Fault>(&text).ok();
            assert_eq!(fault, Some(Fault::new(Requests::Writes, 3, When::Before, act)), "{text}");
        }
    }
}
