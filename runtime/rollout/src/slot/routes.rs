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
use ipnet::IpNet;

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

/// Where packets get along a route, from the least to the most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reach {
    /// Nowhere: the host removes it.
    Nowhere,
    /// Not yet to its Node.
    Unfinished,
    /// To its Node.
    Node,
}

impl Reach {
    const fn of(state: RouteState) -> Self {
        match state {
            RouteState::Blackhole => Self::Nowhere,
            RouteState::Incomplete | RouteState::Pending => Self::Unfinished,
            RouteState::InPlace => Self::Node,
        }
    }
}

/// Network, as a number where it is one, and Node.
type Target<'a> = (Result<IpNet, &'a str>, Option<&'a str>);

/// How far packets get to each target.
fn targets(routes: &[Route]) -> BTreeMap<Target<'_>, Reach> {
    let mut targets = BTreeMap::new();
    for route in routes {
        let text = route.destination_cidr.as_str();
        let network = text.parse().map(|network: IpNet| network.trunc()).map_err(|_error| text);
        let reach = targets.entry((network, route.node.as_deref())).or_insert(Reach::Nowhere);
        *reach = (*reach).max(Reach::of(route.state));
    }
    targets
}

/// Where two components do not say the same of where packets go, and the host would act on it. A route to no Node that `found` lacks
/// is somebody else's, or gone already. A route that `found` calls unfinished is looked at again.
fn difference(found: &[Route], known: &[Route]) -> Option<String> {
    let (found, known) = (targets(found), targets(known));
    let lost = known.iter().find_map(|(target, known)| match found.get(target) {
        None => target.1.map(|_| ("does not find", target)),
        Some(found) if (*found == Reach::Nowhere) != (*known == Reach::Nowhere) || found > known => {
            Some(("does not say the same of", target))
        }
        Some(_) => None,
    });
    let extra = || found.keys().find(|target| !known.contains_key(target)).map(|target| ("alone finds", target));
    let (what, (network, node)) = lost.or_else(extra)?;
    let network = match network {
        Ok(network) => network.to_string(),
        Err(text) => format!("{text:?}"),
    };
    Some(match node {
        Some(node) => format!("it {what} the route for {network} to Node {node:?}"),
        None => format!("it {what} the route for {network} to no Node"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Network, Node, and state.
    fn routes(list: &[(&str, &str, RouteState)]) -> Vec<Route> {
        let route = |(network, node, state): &(&str, &str, RouteState)| Route {
            name: (*network).to_owned(),
            destination_cidr: (*network).to_owned(),
            node: (*node != "-").then(|| (*node).to_owned()),
            next_hop: None,
            state: *state,
            more: vec![],
        };
        list.iter().map(route).collect()
    }

    #[test]
    fn only_what_the_host_would_act_on_is_a_difference_of_routes() {
        use RouteState::{Blackhole, InPlace, Incomplete, Pending};
        let a = ("10.244.1.0/24", "a", InPlace);
        let foreign = ("192.168.0.0/24", "-", Blackhole);
        let cases: [(&[_], &[_], Option<&str>); 15] = [
            (&[a], &[a], None),
            (&[("fd00:0:0:1::/64", "a", InPlace)], &[("fd00:0000:0:1:0::/64", "a", InPlace)], None),
            (&[("10.244.1.7/24", "a", InPlace)], &[a], None),
            (&[], &[a], Some("it does not find the route for 10.244.1.0/24 to Node \"a\"")),
            (&[("10.244.1.0/24", "b", InPlace)], &[a], Some("it does not find the route for 10.244.1.0/24 to Node \"a\"")),
            (&[("10.244.1.0/24", "a", Blackhole)], &[a], Some("it does not say the same of")),
            (&[a], &[("10.244.1.0/24", "a", Blackhole)], Some("it does not say the same of")),
            // Packets that do not get there yet: the new one must not say that they do.
            (&[a], &[("10.244.1.0/24", "a", Incomplete)], Some("it does not say the same of")),
            (&[a], &[("10.244.1.0/24", "a", Pending)], Some("it does not say the same of")),
            (&[("10.244.1.0/24", "a", Incomplete)], &[a], None),
            (&[("10.244.1.0/24", "a", Pending)], &[("10.244.1.0/24", "a", Incomplete)], None),
            // Somebody else's: one need not show them. What only the new one shows would be removed.
            (&[a], &[a, foreign], None),
            (&[a, foreign], &[a], Some("it alone finds the route for 192.168.0.0/24 to no Node")),
            (&[a, ("10.244.2.0/24", "b", InPlace)], &[a], Some("it alone finds the route for 10.244.2.0/24 to Node \"b\"")),
            (&[("default", "a", InPlace)], &[], Some("it alone finds the route for \"default\" to Node \"a\"")),
        ];
        for (found, known, expected) in cases {
            let said = difference(&routes(found), &routes(known));
            let is_as_expected = match (&said, expected) {
                (Some(said), Some(part)) => said.starts_with(part),
                (said, part) => said.is_none() && part.is_none(),
            };
            assert!(is_as_expected, "{found:?} {known:?}: {said:?}");
        }
    }
}
