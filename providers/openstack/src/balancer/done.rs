//! What people are told about a load balancer. Reasons that the Go manager has are the same here.

use ccm_sdk::Done;
use ccm_sdk::types::{Failure, Problem};

pub(super) const IGNORED: &str = "LoadBalancerConfigIgnored";
pub(super) const IMMUTABLE: &str = "LoadBalancerImmutableField";
pub(super) const IN_ERROR: &str = "LoadBalancerInError";
pub(super) const RECREATED: &str = "LoadBalancerRecreated";
pub(super) const SPARED: &str = "LoadBalancerNotDeleted";
pub(super) const DUPLICATE: &str = "LoadBalancerDuplicate";
pub(super) const WITHOUT_ADDRESS: &str = "NodeWithoutAddress";
pub(super) const FORCED_INTERNAL: &str = "LoadBalancerForcedInternal";
pub(super) const NO_NETWORK: &str = "LoadBalancerExternalNetworkSearchFailed";
pub(super) const NO_FLOATING_IP: &str = "LoadBalancerFloatingIPSkipped";
pub(super) const RENAMED: &str = "LoadBalancerRename";
pub(super) const METHOD_UNKNOWN: &str = "LoadBalancerLbMethodUnknown";
pub(super) const AFFINITY_UNKNOWN: &str = "LoadBalancerSessionAffinityUnknown";

/// # Errors
///
/// One of them is fatal. The others are told.
pub(super) fn told(done: &mut Done, problems: Vec<Problem>) -> Result<(), Failure> {
    for problem in problems.iter().filter(|problem| !problem.fatal) {
        done.warn(IGNORED, problem.message.clone());
    }
    Problem::refusal(problems).map_or(Ok(()), Err)
}
