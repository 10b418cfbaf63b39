//! Routes during a trial. None is removed on the word of a new component alone.
//!
//! | call | |
//! |---|---|
//! | `get-all` | both are asked. Where they do not say the same of a network, the witness is believed |
//! | `change` | what the new one fails at, and the witness does not, is a difference |
//!
//! The witness is asked anew, with an empty cache, before a difference counts. Where it cannot tell, the call fails and is made again
//! later.

use std::collections::BTreeMap;
use std::sync::Arc;

use ccm_cloud::{
    Answer, Descriptor, Failure, LoadBalancers, Node, Reaction, Route, RouteChangeError, RouteOutcome, RouteState,
    RouteWish, Routes,
};

use super::Slot;
use super::handle::{Handle, is_suspect};
use super::probation::Probation;
use crate::component::Component;

const GET_ALL: &str = "routes.get-all";
const CHANGE: &str = "routes.change";

type Changed = Result<Vec<RouteOutcome>, RouteChangeError>;

impl<C: Component> Routes for Slot<C> {
    fn descriptor(&self) -> Arc<Descriptor> {
        LoadBalancers::descriptor(&*self.component())
    }

    fn get_all(&self, nodes: Vec<Node>) -> Answer<'_, Result<Vec<Route>, Failure>> {
        Box::pin(async move { self.handle().all_routes(nodes).await })
    }

    fn change(&self, obsolete: Vec<Route>, wanted: Vec<RouteWish>) -> Answer<'_, Changed> {
        Box::pin(async move { self.handle().change_routes(obsolete, wanted).await })
    }
}

impl<C: Component> Handle<C> {
    async fn all_routes(&self, nodes: Vec<Node>) -> Result<Vec<Route>, Failure> {
        let Some(probation) = self.probation() else { return self.provider().get_all(nodes).await };
        let answer = self.unless_refused(self.provider().get_all(nodes.clone())).await;
        let Some(answer) = answer else { return probation.witness.get_all(nodes).await };
        let answer = match answer {
            Err(failure) if !is_suspect(&failure) => Err(failure),
            answer => compared(answer, nodes, probation).await,
        };
        self.judge();
        answer
    }

    async fn change_routes(&self, obsolete: Vec<Route>, wanted: Vec<RouteWish>) -> Changed {
        let Some(probation) = self.probation() else { return self.provider().change(obsolete, wanted).await };
        if let Some(failure) = self.refused() {
            return Err(failure.into());
        }
        let answer = self.provider().change(obsolete.clone(), wanted.clone()).await;
        let answer = match faults(&answer) {
            None => {
                probation.answers_well();
                answer
            }
            // What it sent may not show yet: who began anew at once would do it a second time.
            Some(_) if matches!(answer, Err(RouteChangeError::Crashed(_))) => answer,
            // The work is idempotent: the witness would do it again if it came back.
            Some(fault) => {
                let known = probation.witness.change(obsolete, wanted).await;
                if faults(&known).is_none() {
                    probation.differs(CHANGE, &fault);
                    known
                } else {
                    answer
                }
            }
        };
        self.judge();
        answer
    }
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

/// Routes of a new component beside those of the witness.
async fn compared<C: Component>(
    answer: Result<Vec<Route>, Failure>,
    nodes: Vec<Node>,
    probation: &Probation<C>,
) -> Result<Vec<Route>, Failure> {
    let mut known = probation.witness.get_all(nodes.clone()).await;
    if let (Ok(found), Ok(proven)) = (&answer, &known)
        && difference(found, proven).is_some()
    {
        // It may know them from before.
        probation.witness.forget();
        known = probation.witness.get_all(nodes).await;
    }
    match (answer, known) {
        (Ok(found), Ok(known)) => match difference(&found, &known) {
            None => {
                probation.answers_well();
                Ok(found)
            }
            Some(what) => {
                probation.differs(GET_ALL, &what);
                Ok(known)
            }
        },
        (Err(failure), Ok(known)) => {
            probation.differs(GET_ALL, &failure.to_string());
            Ok(known)
        }
        // It never had to do with routes: nothing is known of what the new one finds.
        (Ok(_), Err(failure)) if failure.reaction == Reaction::Unsupported => Ok(vec![]),
        (Ok(_), Err(failure)) => Err(Failure {
            message: format!(
                "the new provider is on probation, and the last good one cannot tell which routes there are: {}",
                failure.message
            ),
            ..failure
        }),
        (Err(failure), Err(_)) => Err(failure),
    }
}

/// Which Node each network leads to, and whether it does.
fn targets(routes: &[Route]) -> BTreeMap<(&str, Option<&str>), bool> {
    let mut targets = BTreeMap::new();
    for route in routes {
        let leads = targets.entry((route.destination_cidr.as_str(), route.node.as_deref())).or_insert(false);
        *leads |= route.state != RouteState::Blackhole;
    }
    targets
}

/// Where two components do not say the same of where packets go.
fn difference(found: &[Route], known: &[Route]) -> Option<String> {
    let (found, known) = (targets(found), targets(known));
    let lost = known.iter().find(|(target, leads)| found.get(*target) != Some(*leads));
    let lost = lost
        .map(|((network, node), _)| ("does not find, or not as the last good one does, the route", *network, *node));
    let extra = || {
        let extra = found.iter().find(|(target, _)| !known.contains_key(*target))?;
        let ((network, node), _) = extra;
        Some(("finds, and the last good one does not, the route", *network, *node))
    };
    let (what, network, node) = lost.or_else(extra)?;
    Some(match node {
        Some(node) => format!("it {what} for {network:?} to Node {node:?}"),
        None => format!("it {what} for {network:?} to no Node"),
    })
}
