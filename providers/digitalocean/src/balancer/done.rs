//! What people are told about a load balancer.

use ccm_sdk::Done;
use ccm_sdk::types::{Failure, Problem};

use crate::annotations as names;
use crate::service_spec;

/// Reason of Events about what a Service asks for.
pub(super) const CONFIG_ERROR: &str = "LoadBalancerConfigError";
pub(crate) const IGNORED: &str = "LoadBalancerConfigIgnored";
pub(super) const IMMUTABLE: &str = "LoadBalancerImmutableField";
pub(super) const ERRORED_REASON: &str = "LoadBalancerErrored";
pub(super) const RECREATED: &str = "LoadBalancerRecreated";
pub(super) const REFUSED: &str = "NodesRefused";
pub(super) const WITHOUT_DROPLET: &str = "NodeWithoutDroplet";
/// Of Events about the cluster.
pub(super) const FOREIGN: &str = "NodesOfAnotherCloud";

/// # Errors
///
/// One of them is fatal. The others are told.
pub(super) fn told(done: &mut Done, problems: Vec<Problem>) -> Result<(), Failure> {
    let (fatal, harmless): (Vec<_>, Vec<_>) = problems.into_iter().partition(|problem| problem.fatal);
    harmless.into_iter().for_each(|problem| done.warn(IGNORED, problem.message));
    let Some(failure) = service_spec::refusal(fatal) else { return Ok(()) };
    let of_stack = |field: &String| field.contains(names::NETWORK_STACK);
    if failure.field.as_ref().is_some_and(of_stack) {
        done.warn(CONFIG_ERROR, failure.message.clone());
    }
    Err(failure)
}
