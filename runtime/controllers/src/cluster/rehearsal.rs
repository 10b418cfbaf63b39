//! One call of one provider for the cluster as a whole, for a plan.

use std::sync::Arc;

use ccm_cloud::{ClusterSubject, Failure, Reaction};

use super::ClusterController;
use super::sync::{SubjectFailure, Syncer};
use crate::rehearsal::Rehearsed;
use crate::waking::Woken as _;

/// A cluster controller that does its work only when it is asked to.
pub struct ClusterRehearsal(Arc<Syncer>);

impl ClusterController {
    /// Rehearses from now on. Both stores must be complete.
    #[must_use]
    pub fn rehearsal(self) -> ClusterRehearsal {
        ClusterRehearsal(self.syncer)
    }
}

impl ClusterRehearsal {
    /// The providers that look after the cluster as a whole.
    pub fn providers(&self) -> impl Iterator<Item = &str> {
        self.0.names().map(|name| &**name)
    }

    /// Calls a provider.
    pub async fn rehearse(&self, provider: &str) -> Rehearsed {
        let Some((unreadable, answer)) = Box::pin(self.0.ask(provider)).await else { return Rehearsed::default() };
        let failures: Vec<SubjectFailure> = match answer {
            Ok(failures) => unreadable.into_iter().chain(failures).collect(),
            Err(failure) if failure.reaction == Reaction::Elsewhere => vec![],
            Err(failure) => return Rehearsed::unknown(failure.to_string()),
        };
        let failures = failures.iter().filter(|(_, failure)| failure.reaction != Reaction::Elsewhere);
        let failures: Vec<String> = failures.map(told).collect();
        if failures.is_empty() { Rehearsed::default() } else { Rehearsed::unknown(failures.join("; ")) }
    }
}

fn told((subject, failure): &(ClusterSubject, Failure)) -> String {
    match subject {
        ClusterSubject::Call | ClusterSubject::Provider => failure.to_string(),
        ClusterSubject::Node(name) => format!("Node {name}: {failure}"),
        ClusterSubject::Service { namespace, name } => format!("Service {namespace}/{name}: {failure}"),
    }
}
