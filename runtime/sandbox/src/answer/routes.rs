//! Routes that a provider found, and what came of changes.

use ccm_cloud::{Route, RouteOutcome, RouteState};
use ccm_egress::line;

use super::{MAX_SHOWN, Read, failure, sentences};
use crate::Limits;
use crate::bindings::exports::ccm::cloud::routes;

/// Routes that a provider found. A destination need not be a network: such a route is left alone.
pub(crate) fn routes(found: Vec<routes::Route>, limits: &Limits) -> Read<Vec<Route>> {
    match complaint(&found, limits) {
        Some(complaint) => Err(complaint),
        None => Ok(found.into_iter().map(route).collect()),
    }
}

/// What came of each change, in their order.
pub(crate) fn route_outcomes(outcomes: Vec<routes::Outcome>, asked: usize) -> Read<Vec<RouteOutcome>> {
    if outcomes.len() == asked {
        Ok(outcomes.into_iter().map(outcome).collect())
    } else {
        Err(format!("it gave {} outcomes for {asked} routes", outcomes.len()))
    }
}

fn complaint(found: &[routes::Route], limits: &Limits) -> Option<String> {
    let Limits { routes, route_text_bytes, route_attributes, .. } = limits;
    if found.len() > *routes {
        return Some(format!("it gave {} routes, the most is {routes} (limit routes)", found.len()));
    }
    found.iter().find_map(|route| {
        let texts = [Some(&route.name), Some(&route.destination_cidr), route.node.as_ref(), route.next_hop.as_ref()];
        let more = route.more.iter().flat_map(|(key, value)| [key, value]);
        let is_long = texts.into_iter().flatten().chain(more).any(|text| text.len() > *route_text_bytes);
        let name = line(&route.name, MAX_SHOWN);
        if is_long {
            Some(format!(
                "it gave the route {name:?} with a text of more than {route_text_bytes} bytes (limit route-text-bytes)"
            ))
        } else if route.more.len() > *route_attributes {
            Some(format!(
                "it gave the route {name:?} with more than {route_attributes} attributes (limit route-attributes)"
            ))
        } else {
            None
        }
    })
}

fn route(route: routes::Route) -> Route {
    let routes::Route { name, destination_cidr, node, next_hop, state, more } = route;
    let state = match state {
        routes::State::InPlace => RouteState::InPlace,
        routes::State::Incomplete => RouteState::Incomplete,
        routes::State::Pending => RouteState::Pending,
        routes::State::Blackhole => RouteState::Blackhole,
    };
    Route { name, destination_cidr, node, next_hop, state, more }
}

fn outcome(outcome: routes::Outcome) -> RouteOutcome {
    let routes::Outcome { failure: why, changes, more: _ } = outcome;
    RouteOutcome { failure: why.map(failure), changes: sentences(changes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(change: impl FnOnce(&mut routes::Route)) -> routes::Route {
        let mut route = routes::Route {
            name: "r".to_owned(),
            destination_cidr: "10.244.0.0/24".to_owned(),
            node: Some("n".to_owned()),
            next_hop: None,
            state: routes::State::InPlace,
            more: vec![],
        };
        change(&mut route);
        route
    }

    #[test]
    fn routes_that_would_fill_the_hosts_memory_are_no_answer() {
        let limits = Limits { routes: 5, route_text_bytes: 100, route_attributes: 3, ..Limits::default() };
        let long = "x".repeat(101);
        let pair = || ("k".to_owned(), "v".to_owned());
        let refused = [
            (route(|route| route.name.clone_from(&long)), "100 bytes (limit route-text-bytes)"),
            (route(|route| route.destination_cidr.clone_from(&long)), "100 bytes (limit route-text-bytes)"),
            (route(|route| route.next_hop = Some(long.clone())), "100 bytes (limit route-text-bytes)"),
            (route(|route| route.more = vec![("k".to_owned(), long.clone())]), "100 bytes (limit route-text-bytes)"),
            (route(|route| route.more = vec![pair(); 4]), "more than 3 attributes (limit route-attributes)"),
        ];
        for (route, part) in refused {
            let said = complaint(std::slice::from_ref(&route), &limits).unwrap();
            assert!(said.contains(part), "{said}");
        }
        let said = complaint(&vec![route(|_| {}); 6], &limits);
        assert_eq!(said.as_deref(), Some("it gave 6 routes, the most is 5 (limit routes)"));
        let odd = route(|route| (route.destination_cidr, route.more) = ("no network".to_owned(), vec![pair(); 3]));
        assert_eq!(complaint(&vec![odd; 5], &limits), None, "a destination that is no network is the cloud's affair");
    }
}
