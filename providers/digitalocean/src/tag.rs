//! The cluster's tag on its load balancers: whoever cleans up after a cluster finds them by it. It counts when one is made;
//! those that are taken over get it here.

#[cfg(test)]
mod tests;

use std::time::Duration;

use ccm_sdk::cache;
use ccm_sdk::types::{Failure, Service, ServiceType, Subject};

use crate::api::balancers::Balancer;
use crate::api::tags;
use crate::balancer::among;
use crate::config::Config;
use crate::service_spec;

/// For how long one has the tag that it was given, where the cloud does not tell: whoever takes it away is not seen before.
const GIVEN: Duration = Duration::from_secs(3600);

/// Load balancers that have the tag are left alone; so is the cloud when all have it.
///
/// # Errors
///
/// The tag cannot be made.
pub(crate) fn reconcile(
    config: &Config,
    tag: &str,
    services: &[Service],
    balancers: &[Balancer],
) -> Result<Vec<(Subject, Failure)>, Failure> {
    let lacks = |balancer: &&Balancer| match &balancer.tags {
        Some(tags) => !tags.iter().any(|has| has.eq_ignore_ascii_case(tag)),
        None => cache::get(&given_key(tag, &balancer.id)).is_none(),
    };
    let mut lacking: Vec<(&Service, &str)> = vec![];
    for service in services.iter().filter(|service| is_ours(service)) {
        if let Some(balancer) = among(config, balancers, service, &service_spec::read(service).0).filter(lacks)
            && !lacking.iter().any(|(_, id)| *id == balancer.id)
        {
            lacking.push((service, &balancer.id));
        }
    }
    let ids: Vec<&str> = lacking.iter().map(|(_, id)| *id).collect();
    if ids.is_empty() {
        return Ok(vec![]);
    }
    match assign(tag, &ids)? {
        None => Ok(vec![]),
        // One that is refused must not keep the tag from the others.
        Some(_) if ids.len() > 1 => {
            let mut failures = vec![];
            for (service, id) in lacking {
                failures.extend(assign(tag, &[id])?.map(|failure| (service.subject(), failure)));
            }
            Ok(failures)
        }
        Some(failure) => Ok(lacking.iter().take(1).map(|(service, _)| (service.subject(), failure.clone())).collect()),
    }
}

/// Why the load balancers were refused, if they were.
fn assign(tag: &str, ids: &[&str]) -> Result<Option<Failure>, Failure> {
    match give(tag, ids) {
        Ok(true) => return Ok(None),
        Ok(false) => {}
        Err(failure) => return Ok(Some(failure)),
    }
    let made = tags::made(tag)?;
    Ok(match give(tag, ids) {
        Ok(true) => None,
        Ok(false) => Some(made.unwrap_or_else(|| tags::gone(tag, ids))),
        Err(failure) => Some(failure),
    })
}

fn give(tag: &str, ids: &[&str]) -> Result<bool, Failure> {
    let given = tags::assign(tag, ids)?;
    for id in ids.iter().filter(|_| given) {
        cache::put(&given_key(tag, id), b"", GIVEN);
    }
    Ok(given)
}

fn given_key(tag: &str, id: &str) -> String {
    format!("tag {tag} of {id}")
}

fn is_ours(service: &Service) -> bool {
    service.kind == ServiceType::LoadBalancer
        && !service.deleting
        && service_spec::is_served(service)
        && service_spec::is_disowned(service) == Ok(false)
}
