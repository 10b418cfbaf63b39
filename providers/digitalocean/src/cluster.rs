//! What the cluster as a whole needs: the public access firewall and the tag of load balancers.

use ccm_sdk::types::{Failure, Service, ServiceType, Subject};

use crate::balancer::Seen;
use crate::config::Config;
use crate::{balancer, firewall, service_spec, tag};

/// # Errors
///
/// Something could not be done for any Service. What went wrong for one is in the list.
pub(crate) fn reconcile(config: &Config, services: &[Service]) -> Result<Vec<(Subject, Failure)>, Failure> {
    // The ports of a Service are open until it is gone.
    let counts = |service: &Service| !service.deleting || config.firewall.is_some();
    let has = |service: &&Service| {
        service.kind == ServiceType::LoadBalancer && service_spec::is_served(service) && counts(service)
    };
    let mut with = services.iter().filter(has).peekable();
    // Asks now: one that was just made, or just got its tag, has no second occasion for minutes.
    let mut seen = if with.peek().is_some() { balancer::of_services(with) } else { Seen::default() };
    if config.firewall.is_some() {
        seen.look_up(services.iter().filter(|service| firewall::is_open(service)));
    }
    // What is not known of one Service keeps nothing from the others.
    let unread = |service: &Service| Some((service.subject(), seen.unread(service)?.clone()));
    let mut failures: Vec<_> = services.iter().filter(has).filter_map(unread).collect();
    let is_unseen = |service: &Service| {
        let (service_spec, _) = service_spec::read(service);
        seen.unread(service).is_none() && balancer::among(config, &seen.all, service, &service_spec).is_none()
    };
    if let Some(failure) = seen.incomplete.as_ref().filter(|_| services.iter().filter(has).any(is_unseen)) {
        failures.push((Subject::Provider, failure.clone()));
    }
    // Neither waits for the other.
    let opened = config.firewall.as_ref().map(|firewall| firewall::reconcile(config, firewall, services, &seen));
    let tagged = config.tag.as_ref().map(|tag| tag::reconcile(config, tag, services, &seen.all));
    for result in [opened, tagged].into_iter().flatten() {
        match result {
            Ok(some) => failures.extend(some),
            Err(failure) => failures.push((Subject::Provider, failure)),
        }
    }
    Ok(failures)
}
