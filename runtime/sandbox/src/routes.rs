//! The contract's `routes`.

use std::sync::Arc;

use ccm_cloud::{
    CallFuture, Descriptor, Failure, Node, Route, RouteChangeError, RouteOutcome, RouteState, RouteWish, Routes,
};
use ccm_egress::Class;

use crate::answer::unless_failed;
use crate::bindings::exports::ccm::cloud::routes;
use crate::call::{Subject, call};
use crate::load_balancers::not_exported;
use crate::provider::Code;
use crate::{Provider, answer, convert};

const GET_ALL: &str = "routes.get-all";
const CHANGE: &str = "routes.change";

impl Provider {
    fn routes(&self, code: &Code) -> Result<Arc<routes::GuestIndices>, Failure> {
        code.optional.routes.clone().ok_or_else(|| not_exported(&self.descriptor, "routes"))
    }

    async fn find_routes(&self, nodes: Vec<Node>) -> Result<Vec<Route>, Failure> {
        let code = self.code();
        let exports = self.routes(&code)?;
        let subject = Subject {
            nodes: nodes.iter().map(|node| (node.name.clone(), node.uid.clone())).collect(),
            ..Subject::reading(Class::Initialise)
        };
        let entering = self.entering();
        let nodes: Vec<_> = nodes.into_iter().map(|node| convert::node(node, &entering)).collect();
        let limits = self.settings.limits;
        let answer = call(
            &self.settings,
            &code.pre,
            GET_ALL,
            subject,
            move |store, instance| {
                Box::pin(async move { exports.load(&mut *store, instance)?.call_get_all(store, &nodes).await })
            },
            unless_failed(|found| answer::routes(found, &limits)),
        );
        answer.await.map_err(|error| error.into_failure(GET_ALL, &self.descriptor.name))?
    }

    async fn change_routes(
        &self,
        obsolete: Vec<Route>,
        wanted: Vec<RouteWish>,
    ) -> Result<Vec<RouteOutcome>, RouteChangeError> {
        let code = self.code();
        let exports = self.routes(&code)?;
        // It writes no Events about Nodes: what is wrong with a route stands in its outcome.
        let subject = Subject::writing();
        let asked = obsolete.len().saturating_add(wanted.len());
        let obsolete: Vec<_> = obsolete.into_iter().map(to_route).collect();
        let wanted: Vec<_> = wanted.into_iter().map(to_wish).collect();
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
            unless_failed(|outcomes| answer::route_outcomes(outcomes, asked)),
        );
        let answer = answer.await;
        Ok(answer.map_err(|error| RouteChangeError::Crashed(error.into_failure(CHANGE, &self.descriptor.name)))??)
    }
}

impl Routes for Provider {
    fn descriptor(&self) -> Arc<Descriptor> {
        Arc::clone(&self.descriptor)
    }

    fn get_all(&self, nodes: Vec<Node>) -> CallFuture<'_, Result<Vec<Route>, Failure>> {
        Box::pin(self.find_routes(nodes))
    }

    fn change(
        &self,
        obsolete: Vec<Route>,
        wanted: Vec<RouteWish>,
    ) -> CallFuture<'_, Result<Vec<RouteOutcome>, RouteChangeError>> {
        Box::pin(self.change_routes(obsolete, wanted))
    }
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
