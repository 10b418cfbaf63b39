//! The contract's `routes`.

use std::sync::Arc;

use ccm_cloud::{
    Answer, Descriptor, Failure, Node, Route, RouteChangeError, RouteOutcome, RouteState, RouteWish, Routes,
};
use ccm_egress::{Class, line};

use crate::bindings::exports::ccm::cloud::routes;
use crate::call::{ChangeFlag, Subject, call};
use crate::load_balancers::{no_answer, not_exported};
use crate::provider::Code;
use crate::{Limits, Provider, convert};

const GET_ALL: &str = "routes.get-all";
const CHANGE: &str = "routes.change";

/// Longest text that a complaint shows, in bytes.
const MAX_SHOWN: usize = 128;

impl Provider {
    fn routes(&self, code: &Code) -> Result<Arc<routes::GuestIndices>, Failure> {
        code.optional.routes.clone().ok_or_else(|| not_exported(&self.descriptor, "routes"))
    }

    async fn find_routes(&self, nodes: Vec<Node>) -> Result<Vec<Route>, Failure> {
        let code = self.code();
        let exports = self.routes(&code)?;
        let subject = Subject {
            nodes: nodes.iter().map(|node| (node.name.clone(), node.uid.clone())).collect(),
            services: vec![],
            class: Class::Initialise,
            read_only: true,
            proof: false,
            judges: false,
            changes: ChangeFlag::default(),
            selected: None,
        };
        let declared = &self.descriptor.annotations;
        let nodes: Vec<_> = nodes.into_iter().map(|node| convert::node(node, declared)).collect();
        let limits = self.settings.limits;
        let answer = call(
            &self.settings,
            &code.pre,
            GET_ALL,
            subject,
            move |store, instance| {
                Box::pin(async move { exports.load(&mut *store, instance)?.call_get_all(store, &nodes).await })
            },
            move |answer| complaint(answer.as_ref().ok()?, &limits),
        );
        let found = answer.await.map_err(no_answer(GET_ALL))?.map_err(convert::failure)?;
        Ok(found.into_iter().map(from_route).collect())
    }

    async fn change_routes(
        &self,
        obsolete: Vec<Route>,
        wanted: Vec<RouteWish>,
    ) -> Result<Vec<RouteOutcome>, RouteChangeError> {
        let code = self.code();
        let exports = self.routes(&code)?;
        let subject = Subject {
            // It writes no Events about Nodes: what is wrong with a route stands in its outcome.
            nodes: vec![],
            services: vec![],
            class: Class::Write,
            read_only: false,
            proof: false,
            judges: false,
            changes: ChangeFlag::default(),
            selected: None,
        };
        let asked = obsolete.len().saturating_add(wanted.len());
        let obsolete: Vec<_> = obsolete.into_iter().map(to_route).collect();
        let wanted: Vec<_> = wanted.into_iter().map(to_wish).collect();
        let provider = self.descriptor.name.as_str();
        let answer = call(
            &self.settings,
            &code.pre,
            CHANGE,
            subject,
            move |store, instance| {
                Box::pin(
                    async move { exports.load(&mut *store, instance)?.call_change(store, &obsolete, &wanted).await },
                )
            },
            |answer| {
                let given = answer.as_ref().ok()?.len();
                (given != asked).then(|| format!("{provider} gave {given} outcomes for {asked} routes"))
            },
        );
        let outcomes = answer.await.map_err(|error| RouteChangeError::Crashed(no_answer(CHANGE)(error)))?;
        Ok(outcomes.map_err(convert::failure)?.into_iter().map(outcome).collect())
    }
}

impl Routes for Provider {
    fn descriptor(&self) -> Arc<Descriptor> {
        Arc::clone(&self.descriptor)
    }

    fn get_all(&self, nodes: Vec<Node>) -> Answer<'_, Result<Vec<Route>, Failure>> {
        Box::pin(self.find_routes(nodes))
    }

    fn change(
        &self,
        obsolete: Vec<Route>,
        wanted: Vec<RouteWish>,
    ) -> Answer<'_, Result<Vec<RouteOutcome>, RouteChangeError>> {
        Box::pin(self.change_routes(obsolete, wanted))
    }
}

/// What is wrong with routes that a provider found. A destination need not be a network: such a route is left alone.
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

fn from_route(route: routes::Route) -> Route {
    let routes::Route { name, destination_cidr, node, next_hop, state, more } = route;
    let state = match state {
        routes::State::InPlace => RouteState::InPlace,
        routes::State::Incomplete => RouteState::Incomplete,
        routes::State::Pending => RouteState::Pending,
        routes::State::Blackhole => RouteState::Blackhole,
    };
    Route { name, destination_cidr, node, next_hop, state, more }
}

fn to_route(route: Route) -> routes::Route {
    let Route { name, destination_cidr, node, next_hop, state, more } = route;
    let state = match state {
        RouteState::InPlace => routes::State::InPlace,
        RouteState::Incomplete => routes::State::Incomplete,
        RouteState::Pending => routes::State::Pending,
        RouteState::Blackhole => routes::State::Blackhole,
    };
    routes::Route { name, destination_cidr, node, next_hop, state, more }
}

fn to_wish(wish: RouteWish) -> routes::Wish {
    let RouteWish { destination_cidr, node, provider_id, addresses } = wish;
    let node_addresses = addresses.into_iter().map(convert::to_address).collect();
    routes::Wish { destination_cidr, node, node_provider_id: provider_id, node_addresses }
}

fn outcome(outcome: routes::Outcome) -> RouteOutcome {
    let routes::Outcome { failure, changes, more: _ } = outcome;
    RouteOutcome { failure: failure.map(convert::failure), changes: convert::sentences(changes) }
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
