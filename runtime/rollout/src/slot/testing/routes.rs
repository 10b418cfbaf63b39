//! Routes of the components that do as they are told.

use std::sync::Arc;

use ccm_cloud::{
    CallFuture, Descriptor, Failure, LoadBalancers, Node, Reaction, Route, RouteChangeError, RouteOutcome, RouteState,
    RouteWish, Routes,
};

use super::{Does, Fake};

impl Routes for Fake {
    fn descriptor(&self) -> Arc<Descriptor> {
        LoadBalancers::descriptor(self)
    }

    fn get_all(&self, _: Vec<Node>) -> CallFuture<'_, Result<Vec<Route>, Failure>> {
        let disowns = *self.does.lock() == Does::Disown;
        self.cloud.routes.lock().extend(self.comes.lock().take());
        let right = move || {
            let routes = self.cloud.routes.lock();
            let route = |(network, (node, _)): (&String, &(String, String))| Route {
                name: network.clone(),
                destination_cidr: network.clone(),
                node: (!disowns).then(|| node.clone()),
                next_hop: None,
                state: RouteState::InPlace,
                more: vec![],
            };
            routes.iter().map(route).collect()
        };
        Box::pin(self.answer("get-all", right, Vec::new))
    }

    fn change(
        &self,
        obsolete: Vec<Route>,
        wanted: Vec<RouteWish>,
    ) -> CallFuture<'_, Result<Vec<RouteOutcome>, RouteChangeError>> {
        Box::pin(async move {
            let does = self.acts("change");
            match does {
                Does::Crash => return Err(RouteChangeError::Crashed(self.crashed("change"))),
                Does::Fail => return Err(Failure::new(Reaction::Retry, "it cannot").into()),
                Does::Throttle => return Err(Failure::new(Reaction::Throttled, "slower").into()),
                _ => self.cloud.answers(self.configuration)?,
            }
            let count = obsolete.len() + wanted.len();
            let failure = match does {
                Does::Refuse => Some(Failure::new(Reaction::Invalid, "it says no")),
                Does::Pause => Some(Failure::new(Reaction::Throttled, "slower")),
                _ => None,
            };
            if failure.is_some() {
                return Ok(vec![RouteOutcome { failure, changes: vec![] }; count]);
            }
            let mut routes = self.cloud.routes.lock();
            for route in obsolete {
                routes.remove(&route.destination_cidr);
            }
            for wish in wanted {
                routes.insert(wish.destination_cidr, (wish.node, self.version.clone()));
            }
            drop(routes);
            if does == Does::CrashAfterwards {
                return Err(RouteChangeError::Crashed(self.crashed("change")));
            }
            Ok(vec![RouteOutcome::default(); count])
        })
    }
}
