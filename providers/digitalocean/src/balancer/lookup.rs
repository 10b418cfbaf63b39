//! Which load balancer is that of a Service.

use std::time::Duration;

use ccm_sdk::types::{Failure, Service};

use crate::annotations as names;
use crate::api::balancers::{self, Balancer};
use crate::asked::Asked;

/// Calls for many Services that come together share one listing. It is so short that a call rarely sees what was before the
/// last change.
const SHARE: Duration = Duration::from_secs(1);

/// What may be an ID. Anything else is as if it were not there: no load balancer has it.
pub(crate) fn id_of(service: &Service) -> Option<&str> {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    service.annotation(names::ID).filter(|id| !id.is_empty() && id.len() <= 64 && id.bytes().all(letter))
}

/// `glance`: a listing of a second ago will do for what is in it.
pub(crate) fn find(service: &Service, asked: &Asked, glance: bool) -> Result<Option<Balancer>, Failure> {
    let id = id_of(service);
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
    Ok(among(&all, service, asked).cloned())
}

/// By ID, else by name: the first in the list that has the one asked for or the default one.
pub(crate) fn among<'a>(all: &'a [Balancer], service: &Service, asked: &Asked) -> Option<&'a Balancer> {
    let id = id_of(service);
    let named = |balancer: &&Balancer| balancer.name == asked.name || balancer.name == asked.default_name;
    all.iter().find(|balancer| Some(balancer.id.as_str()) == id).or_else(|| all.iter().find(named))
}

/// IDs of all that go with the Service: that on the Service, and what has the name that no other Service can have. Without an
/// ID the name that was asked for counts as well.
pub(crate) fn all_of(service: &Service, asked: &Asked) -> Result<Vec<String>, Failure> {
    let id = id_of(service);
    let mut ids: Vec<String> = id.map(str::to_owned).into_iter().collect();
    // Asks now: what is overlooked here is paid for until somebody sees it.
    for balancer in balancers::all(Duration::ZERO)? {
        let named = balancer.name == asked.default_name || (id.is_none() && balancer.name == asked.name);
        if named && !ids.contains(&balancer.id) {
            ids.push(balancer.id);
        }
    }
    Ok(ids)
}
