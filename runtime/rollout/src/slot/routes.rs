//! Routes during a probation. None is removed on the word of a new component alone.
//!
//! | call | |
//! |---|---|
//! | `get-all` | both are asked. Where they do not say the same of a network, the witness is believed |
//! | `change` | what the new one fails at, and the witness does not, is a difference |
//!
//! What one component found, another may not know how to remove: after a difference in `get-all`, the witness does the rest of the run. What the
//! new one fails to change, the witness changes in the same run, since a route can be changed twice without harm. Not after a call without
//! an answer: what that sent may not show yet.
//!
//! Routes come and go between two questions. Before a difference counts, the witness is asked anew, with an empty cache, and then the
//! new component: only what both of its answers lack counts. Where the witness cannot tell, the call fails and is made again later.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ccm_cloud::{
    CallFuture, Descriptor, Failure, LoadBalancers, Node, Reaction, Route, RouteChangeError, RouteOutcome, RouteSource,
    RouteWish, Routes,
};

use super::Slot;
use super::handle::{Handle, is_suspect, may_be_known, undecided};
use super::probation::Probation;
use crate::component::Component;
use crate::route_differences;

const GET_ALL: &str = "routes.get-all";
const CHANGE: &str = "routes.change";
/// What is not believed when the new one alone says so.
const WHICH: &str = "the new provider is on probation, and the last good one cannot tell which routes there are";

type Changed = Result<Vec<RouteOutcome>, RouteChangeError>;

impl<C: Component> RouteSource for Slot<C> {
    fn routes(&self) -> Arc<dyn Routes> {
        Arc::new(RouteRun { handle: self.handle(), is_of_the_witness: AtomicBool::new(false) })
    }
}

/// The component of one run of the route controller.
struct RouteRun<C> {
    handle: Handle<C>,
    /// The witness found the routes of this run, so it changes them, too.
    is_of_the_witness: AtomicBool,
}

impl<C: Component> Routes for RouteRun<C> {
    fn descriptor(&self) -> Arc<Descriptor> {
        LoadBalancers::descriptor(&self.handle)
    }

    fn get_all(&self, nodes: Vec<Node>) -> CallFuture<'_, Result<Vec<Route>, Failure>> {
        Box::pin(async move {
            let handle = &self.handle;
            let Some(probation) = handle.probation() else { return handle.provider().get_all(nodes).await };
            let answer = handle.unless_taken_back(handle.provider().get_all(nodes.clone())).await;
            let (routes, is_of_the_witness) = match answer {
                None => (probation.witness.get_all(nodes).await?, true),
                Some(Err(failure)) if !is_suspect(&failure) => return Err(failure),
                Some(answer) => {
                    let found = compared(answer, nodes, handle.provider(), probation).await;
                    handle.judge();
                    found?
                }
            };
            self.is_of_the_witness.store(is_of_the_witness, Ordering::Relaxed);
            Ok(routes)
        })
    }

    fn change(&self, obsolete: Vec<Route>, wanted: Vec<RouteWish>) -> CallFuture<'_, Changed> {
        Box::pin(self.change_routes(obsolete, wanted))
    }
}

impl<C: Component> RouteRun<C> {
    async fn change_routes(&self, obsolete: Vec<Route>, wanted: Vec<RouteWish>) -> Changed {
        let handle = &self.handle;
        let Some(probation) = handle.probation() else { return handle.provider().change(obsolete, wanted).await };
        if self.is_of_the_witness.load(Ordering::Relaxed) {
            return probation.witness.change(obsolete, wanted).await;
        }
        if let Some(failure) = handle.if_taken_back() {
            return Err(failure.into());
        }
        let answer = handle.provider().change(obsolete.clone(), wanted.clone()).await;
        let answer = match faults(&answer) {
            None => {
                if is_answered(&answer) {
                    probation.answers_well();
                }
                answer
            }
            // What it sent may not show yet: who began anew at once would do it a second time.
            Some(_) if matches!(answer, Err(RouteChangeError::Crashed(_))) => answer,
            // The work is idempotent: the witness would do it again if it came back.
            Some(fault) => {
                let known = probation.witness.change(obsolete, wanted).await;
                if is_answered(&known) && faults(&known).is_none() {
                    probation.differs(CHANGE, &fault);
                    known
                } else {
                    answer
                }
            }
        };
        handle.judge();
        answer
    }
}

/// Whether there is an answer: a failure of the whole call is none, and neither is a pause that the cloud asks for.
fn is_answered(answer: &Changed) -> bool {
    answer.as_ref().is_ok_and(|outcomes| outcomes.iter().filter_map(|one| one.failure.as_ref()).all(may_be_known))
}

/// The first failure that can be the component's fault.
fn faults(answer: &Changed) -> Option<String> {
    match answer {
        Ok(outcomes) => {
            let failures = outcomes.iter().filter_map(|outcome| outcome.failure.as_ref());
            failures.filter(|failure| is_suspect(failure)).map(ToString::to_string).next()
        }
        Err(RouteChangeError::Crashed(failure)) => Some(failure.to_string()),
        Err(RouteChangeError::Failed(failure)) => is_suspect(failure).then(|| failure.to_string()),
    }
}

/// What the new component found and the witness does not deny (`false`), or what the witness finds (`true`).
async fn compared<C: Component>(
    answer: Result<Vec<Route>, Failure>,
    nodes: Vec<Node>,
    provider: &C,
    probation: &Probation<C>,
) -> Result<(Vec<Route>, bool), Failure> {
    let is_denied = |known: &Result<Vec<Route>, Failure>| match (&answer, known) {
        (Ok(found), Ok(known)) => !differences(found, known).is_empty(),
        (answer, known) => answer.is_err() && known.is_ok(),
    };
    let known = probation.witnessed(|| probation.witness.get_all(nodes.clone()), is_denied).await;
    match (answer, known) {
        (Ok(found), Ok(known)) => {
            let first = differences(&found, &known);
            if first.is_empty() {
                probation.answers_well();
                return Ok((found, false));
            }
            let again = provider.get_all(nodes).await;
            let again = again.as_ref().map_or_else(|_| first.clone(), |again| differences(again, &known));
            if let Some(what) = first.intersection(&again).next() {
                probation.differs(GET_ALL, what);
            }
            Ok((known, true))
        }
        (Err(failure), Ok(known)) => {
            probation.differs(GET_ALL, &failure.to_string());
            Ok((known, true))
        }
        // It never had to do with routes: nothing is known of what the new one finds.
        (Ok(_), Err(failure)) if failure.reaction == Reaction::Unsupported => Ok((vec![], false)),
        (Ok(_), Err(failure)) => Err(undecided(WHICH, failure)),
        (Err(failure), Err(_)) => Err(failure),
    }
}

/// Where two components do not say the same, each in a sentence.
fn differences(found: &[Route], known: &[Route]) -> BTreeSet<String> {
    let differs = route_differences::compared(found, known).into_iter();
    differs.filter_map(|(target, differs)| Some(format!("it {} {target}", differs?.as_str()))).collect()
}
