//! Whether two components say the same of where packets go.

use std::collections::BTreeMap;
use std::fmt;

use ccm_cloud::{Route, RouteState};
use ipnet::IpNet;

/// Where a route leads: network, as a number where it is one, and Node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Target {
    pub(crate) network: Result<IpNet, String>,
    /// None when no Node is behind it.
    pub(crate) node: Option<String>,
}

impl Target {
    fn of(route: &Route) -> Self {
        let text = &route.destination_cidr;
        let network = text.parse().map(|network: IpNet| network.trunc()).map_err(|_error| text.clone());
        Self { network, node: route.node.clone() }
    }

    /// The network alone.
    pub(crate) fn network(&self) -> String {
        self.network.as_ref().map_or_else(|text| format!("{text:?}"), ToString::to_string)
    }

    /// The Node alone.
    pub(crate) fn node(&self) -> String {
        self.node.as_ref().map_or_else(|| "no Node".to_owned(), |node| format!("Node {node:?}"))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the route for {} to {}", self.network(), self.node())
    }
}

/// What a component says of a target otherwise than the last good one, where the host would act on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Differs {
    /// It does not find the route.
    Lost,
    /// It says something else of whether packets get there.
    Reach,
    /// It alone finds the route.
    Extra,
}

impl Differs {
    /// In words, before those of the target.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Lost => "does not find",
            Self::Reach => "does not say the same of",
            Self::Extra => "alone finds",
        }
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

/// How far packets get to each target.
fn targets(routes: &[Route]) -> BTreeMap<Target, Reach> {
    let mut targets = BTreeMap::new();
    for route in routes {
        let reach = targets.entry(Target::of(route)).or_insert(Reach::Nowhere);
        *reach = (*reach).max(Reach::of(route.state));
    }
    targets
}

/// All targets of both, each with what `found` says of it otherwise than `known`. A route to no Node that `found` lacks is somebody else's, or
/// gone already. A route that `found` calls unfinished is looked at again.
pub(crate) fn compared(found: &[Route], known: &[Route]) -> BTreeMap<Target, Option<Differs>> {
    let (found, known) = (targets(found), targets(known));
    let differs = |target: &Target| match (found.get(target), known.get(target)) {
        (None, _) => target.node.as_ref().map(|_| Differs::Lost),
        (Some(_), None) => Some(Differs::Extra),
        (Some(found), Some(known)) => {
            let is_other = (*found == Reach::Nowhere) != (*known == Reach::Nowhere) || found > known;
            is_other.then_some(Differs::Reach)
        }
    };
    known.keys().chain(found.keys()).map(|target| (target.clone(), differs(target))).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Network, Node, and state. `-` is no Node.
    pub(crate) fn routes(list: &[(&str, &str, RouteState)]) -> Vec<Route> {
        let route = |(network, node, state): &(&str, &str, RouteState)| Route {
            name: format!("{network} {node}"),
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
            (
                &[("10.244.1.0/24", "b", InPlace)],
                &[a],
                Some("it does not find the route for 10.244.1.0/24 to Node \"a\""),
            ),
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
            (
                &[a, ("10.244.2.0/24", "b", InPlace)],
                &[a],
                Some("it alone finds the route for 10.244.2.0/24 to Node \"b\""),
            ),
            (&[("default", "a", InPlace)], &[], Some("it alone finds the route for \"default\" to Node \"a\"")),
        ];
        for (found, known, expected) in cases {
            let differs = compared(&routes(found), &routes(known)).into_iter();
            let said: Vec<String> =
                differs.filter_map(|(target, differs)| Some(format!("it {} {target}", differs?.as_str()))).collect();
            let is_as_expected = match expected {
                Some(part) => said.iter().any(|said| said.starts_with(part)),
                None => said.is_empty(),
            };
            assert!(is_as_expected, "{found:?} {known:?}: {said:?}");
        }
    }
}
