//! Tells "deleted" from "invisible to this token": the token of another account or team sees no load balancer of this one.

use ccm_sdk::types::Failure;

use crate::api::droplets;
use crate::provider_id;

/// Provider IDs of the cluster's Nodes, at most so many, the likeliest to be there first.
pub(crate) type ProviderIds = fn(u32) -> Result<Vec<String>, String>;

/// Most droplets to ask for, one after the other. Some may just have been deleted.
const MOST: u32 = 6;

/// Passes if no Node has a provider ID yet: then there is no droplet to check the token with.
///
/// # Errors
///
/// The token sees none of the cluster's droplets, or they cannot be asked for.
pub(super) fn sees_the_cluster(nodes: ProviderIds) -> Result<(), Failure> {
    let unproven = |failure: Failure| Failure {
        message: format!("that it is missing proves nothing: {}", failure.message),
        ..failure
    };
    let ids = nodes(MOST).map_err(|why| unproven(Failure::retry(why)))?;
    let ids: Vec<u64> = ids.iter().filter_map(|id| provider_id::parse(id).ok()).collect();
    for id in &ids {
        if droplets::get(*id).send().and_then(droplets::one).map_err(unproven)?.is_some() {
            return Ok(());
        }
    }
    if ids.is_empty() {
        return Ok(());
    }
    Err(unproven(Failure::retry("the token sees no droplet of the cluster; is it that of another account or team?")))
}
