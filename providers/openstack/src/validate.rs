//! Checks a Service before anything is done for it, without the cloud: Octavia has no way to ask it.

use ccm_sdk::annotations::field;
use ccm_sdk::types::{Problem, Service, ServiceType};

use crate::annotations as names;
use crate::balancer::Host;
use crate::config::Config;
use crate::service_spec;
use crate::subnet_match::Pattern;

/// What an existing load balancer keeps.
const FIXED: [&str; 5] = [names::NETWORK, names::SUBNET, names::PORT, names::FLAVOR, names::AVAILABILITY_ZONE];

pub(crate) fn validate(config: &Config, host: &Host, service: &Service, before: Option<&Service>) -> Vec<Problem> {
    if service.kind != ServiceType::LoadBalancer || service.deleting || service.load_balancer_class.is_some() {
        return vec![];
    }
    let (spec, mut problems) = service_spec::read(config, &host.cluster, service);
    if let service_spec::place::Choice::Matching(name, tags) = &spec.floating.choice
        && let Err(wrong) = Pattern::parse(name, tags)
    {
        problems.push(Problem::fatal(field(names::FLOATING_SUBNET), wrong));
    }
    let had_one = before.is_some_and(|before| before.kind == ServiceType::LoadBalancer);
    if let Some(before) = before.filter(|_| had_one) {
        let changed = FIXED.iter().filter(|name| before.annotation(name) != service.annotation(name));
        problems.extend(changed.map(|name| {
            let message =
                format!("annotation {name} is for a new load balancer: the one that there is keeps what it has");
            Problem::harmless(field(name), message)
        }));
        let id = before.annotation(names::ID).filter(|_| before.annotation(names::ADDRESS).is_some());
        if let (Some(old), Some(new)) = (id, service.annotation(names::ID))
            && old != new
        {
            let message =
                format!("annotation {} cannot be changed from {old}: delete the Service, and make it anew", names::ID);
            problems.push(Problem::harmless(field(names::ID), message));
        }
    }
    problems
}
