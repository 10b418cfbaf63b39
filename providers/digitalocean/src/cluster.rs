//! What the cluster as a whole needs: the public access firewall and the tag of load balancers.

use ccm_sdk::types::{Failure, Service, ServiceType, Subject};

use crate::config::Config;
use crate::{balancer, firewall, service_spec, tag};

/// # Errors
///
/// Something could not be done for any Service. What went wrong for one is in the list.
pub(crate) fn reconcile(config: &Config, services: &[Service]) -> Result<Vec<(Subject, Failure)>, Failure> {
    let has = |service: &&Service| {
        service.kind == ServiceType::LoadBalancer && !service.deleting && service_spec::is_served(service)
    };
    let mut with = services.iter().filter(has).peekable();
    // Asks now: one that was just made, or just got its tag, has no second occasion for minutes.
    let balancers = if with.peek().is_some() { balancer::of_services(with)? } else { vec![] };
    let mut failures = vec![];
    // Neither waits for the other.
    let opened = config.firewall.as_ref().map(|firewall| firewall::reconcile(config, firewall, services, &balancers));
    let tagged = config.tag.as_ref().map(|tag| tag::reconcile(config, tag, services, &balancers));
    for result in [opened, tagged].into_iter().flatten() {
        match result {
            Ok(some) => failures.extend(some),
            Err(failure) => failures.push((Subject::Provider, failure)),
        }
    }
    Ok(failures)
}
