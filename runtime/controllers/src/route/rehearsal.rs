//! One run for one provider's routes, for a plan.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::RouteController;
use super::sync::Syncer;
use crate::rehearsal::Rehearsed;
use crate::waking::Woken as _;

/// A route controller that does its work only when it is asked to.
pub struct RouteRehearsal(Arc<Syncer>);

impl RouteController {
    /// Rehearses from now on. The store must be complete.
    #[must_use]
    pub fn rehearsal(self) -> RouteRehearsal {
        RouteRehearsal(self.syncer)
    }
}

impl RouteRehearsal {
    /// The providers that keep routes.
    pub fn providers(&self) -> impl Iterator<Item = &str> {
        self.0.names().map(|name| &**name)
    }

    /// Brings the routes of a provider in step with the Nodes. `stopped` is cancelled when a change of the cloud is kept from leaving: then no
    /// call follows, because whoever keeps all routes in one object would be asked for less of them.
    pub async fn rehearse(&self, provider: &str, stopped: &CancellationToken) -> Rehearsed {
        match Box::pin(self.0.once(provider, stopped)).await {
            Ok(()) => Rehearsed::default(),
            Err(why) => Rehearsed::unknown(why),
        }
    }
}
