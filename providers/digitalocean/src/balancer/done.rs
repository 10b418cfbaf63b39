//! What a call came to, and what people are told about it.

use ccm_sdk::load_balancers::Outcome;
use ccm_sdk::types::{Failure, Ingress, Problem};

use crate::annotations as names;
use crate::service_spec;

/// What a call came to, and what people should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Done {
    pub(crate) outcome: Outcome,
    /// Reason and message of Events of type Warning.
    pub(crate) warnings: Vec<Warning>,
    /// Nodes that are no droplets.
    pub(crate) foreign: Vec<String>,
}

/// Reason and message of an Event.
pub(crate) type Warning = (&'static str, String);

/// Reason of Events about what a Service asks for.
pub(super) const CONFIG_ERROR: &str = "LoadBalancerConfigError";
pub(crate) const IGNORED: &str = "LoadBalancerConfigIgnored";
pub(super) const IMMUTABLE: &str = "LoadBalancerImmutableField";
pub(super) const ERRORED_REASON: &str = "LoadBalancerErrored";
pub(super) const RECREATED: &str = "LoadBalancerRecreated";
pub(super) const WITHOUT_DROPLET: &str = "NodeWithoutDroplet";

impl Done {
    pub(super) fn new() -> Self {
        Self { outcome: Outcome::gone(), warnings: vec![], foreign: vec![] }
    }

    pub(super) fn warn(&mut self, reason: &'static str, message: impl Into<String>) {
        let warning = (reason, message.into());
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    /// # Errors
    ///
    /// One of them is fatal. The others are told.
    pub(super) fn told(&mut self, problems: Vec<Problem>) -> Result<(), Failure> {
        let (fatal, harmless): (Vec<_>, Vec<_>) = problems.into_iter().partition(|problem| problem.fatal);
        harmless.into_iter().for_each(|problem| self.warn(IGNORED, problem.message));
        let Some(failure) = service_spec::refusal(fatal) else { return Ok(()) };
        let of_stack = |field: &String| field.contains(names::NETWORK_STACK);
        if failure.field.as_ref().is_some_and(of_stack) {
            self.warn(CONFIG_ERROR, failure.message.clone());
        }
        Err(failure)
    }

    pub(super) fn with(mut self, result: Result<Vec<Ingress>, Failure>) -> Self {
        match result {
            Ok(ingress) => self.outcome.ingress = ingress,
            Err(failure) => self.outcome.failure = Some(failure),
        }
        self
    }
}
