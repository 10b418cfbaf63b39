//! Which load balancer is that of a Service.

use std::time::Duration;

use ccm_sdk::cache;
use ccm_sdk::types::{Failure, Service};

use crate::annotations as names;
use crate::api::balancers::{self, Balancer};
use crate::asked::Asked;
use crate::config::{CLUSTER_TAG, Config};

/// Calls for many Services that come together share one listing.
const SHARE: Duration = Duration::from_secs(1);

/// For so long after a write a listing may show what was before it.
const WRITTEN: Duration = Duration::from_secs(2);

fn written_key(id: &str) -> String {
    format!("written/{id}")
}

/// Notes a write: Nodes that go and come back within a second must not find the load balancer as it was before they went.
pub(super) fn written(id: &str) {
    cache::put(&written_key(id), b"", WRITTEN);
}

/// What may be an ID. Anything else is as if it were not there: no load balancer has it.
pub(crate) fn id_of(service: &Service) -> Option<&str> {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    service.annotation(names::ID).filter(|id| !id.is_empty() && id.len() <= 64 && id.bytes().all(letter))
}

/// `glance`: a listing of a second ago will do for what is in it, and was not written meanwhile.
///
/// # Errors
///
/// The cloud cannot be asked, or the load balancer with the name that is asked for is that of another cluster.
pub(crate) fn find(
    config: &Config,
    service: &Service,
    asked: &Asked,
    glance: bool,
) -> Result<Option<Balancer>, Failure> {
    let id = id_of(service);
    let glance = glance && id.is_none_or(|id| cache::get(&written_key(id)).is_none());
    let by_id = |id: &str| {
        balancers::get(id).map_err(|failure| Failure {
            message: format!("failed to get load-balancer by ID {id}: {}", failure.message),
            ..failure
        })
    };
    if let Some(id) = id.filter(|_| !glance)
        && let Some(balancer) = by_id(id)?
    {
        return Ok(Some(balancer));
    }
    let all = balancers::all(SHARE)?;
    if let Some(id) = id.filter(|_| glance) {
        if let Some(balancer) = all.iter().find(|balancer| balancer.id == id) {
            return Ok(Some(balancer.clone()));
        }
        // One that was just made may not be in a listing yet.
        if let Some(balancer) = by_id(id)? {
            return Ok(Some(balancer));
        }
    }
    if let Some(balancer) = among(config, &all, service, asked) {
        return Ok(Some(balancer.clone()));
    }
    match all.iter().find(|balancer| balancer.name == asked.name) {
        None => Ok(None),
        Some(other) => Err(Failure::conflict(format!(
            "load balancer {} has the name {:?} and is another cluster's, by its tags {}; take another name, or take it over with annotation {}",
            other.id,
            other.name,
            other.tags.as_deref().unwrap_or_default().join(", "),
            names::ID
        ))
        .annotation(names::NAME)),
    }
}

/// Whether another cluster has put its tag on it. One without any may be taken over by its name, as it always could be.
fn is_anothers(config: &Config, balancer: &Balancer) -> bool {
    let tags = || balancer.tags.iter().flatten();
    tags().any(|tag| tag.starts_with(CLUSTER_TAG)) && !tags().any(|tag| config.tag.as_ref() == Some(tag))
}

/// By ID, else by name: the first in the list that has the default one, which no other Service can have, or the one asked for,
/// where no other cluster has it.
pub(crate) fn among<'a>(
    config: &Config,
    all: &'a [Balancer],
    service: &Service,
    asked: &Asked,
) -> Option<&'a Balancer> {
    let id = id_of(service);
    let named = |balancer: &&Balancer| {
        balancer.name == asked.default_name || (balancer.name == asked.name && !is_anothers(config, balancer))
    };
    all.iter().find(|balancer| Some(balancer.id.as_str()) == id).or_else(|| all.iter().find(named))
}

/// IDs of all that go with the Service: that on the Service, and what has the name that no other Service can have. Without an
/// ID the name that was asked for counts as well, where no other cluster has it.
pub(crate) fn all_of(config: &Config, service: &Service, asked: &Asked) -> Result<Vec<String>, Failure> {
    let id = id_of(service);
    let mut ids: Vec<String> = id.map(str::to_owned).into_iter().collect();
    // Asks now: what is overlooked here is paid for until somebody sees it.
    for balancer in balancers::all(Duration::ZERO)? {
        let asked_for = || id.is_none() && balancer.name == asked.name && !is_anothers(config, &balancer);
        let named = balancer.name == asked.default_name || asked_for();
        if named && !ids.contains(&balancer.id) {
            ids.push(balancer.id);
        }
    }
    Ok(ids)
}
