//! Checks a Service before anything is done for it.
//!
//! | refused | let through, with a warning |
//! |---|---|
//! | what is wrong for its load balancer | what is wrong for the default type alone, where there may be one of another |
//! | the cloud's clear no (400, 422) to what the Service asks for | its no to droplets, quota, or a setting of the operator |
//! | | that it cannot be asked, or does not find something |
//!
//! The cloud judges where the operator wants it.

#[cfg(test)]
mod tests;

use ccm_sdk::Answer;
use ccm_sdk::annotations::field;
use ccm_sdk::types::{Failure, Problem, Reaction, Service, ServiceType};

use crate::annotations as names;
use crate::api::{self, balancers};
use crate::balancer::{find, tags_of_new};
use crate::certificate::{self, ExpectedCertificate};
use crate::config::Config;
use crate::desired::{self, Fixed, Parts, rules};
use crate::kind::Kind;
use crate::service_spec::{self, Problems, ServiceSpec, id_of};

/// `region` is asked only when the cloud is, and the settings have none.
pub(crate) fn validate(
    config: &Config,
    service: &Service,
    before: Option<&Service>,
    online: bool,
    region: impl FnOnce() -> Option<String>,
) -> Vec<Problem> {
    // Whose class it is, the host knows: it asks about no others.
    if service.kind != ServiceType::LoadBalancer || service.deleting {
        return vec![];
    }
    match service_spec::is_disowned(service) {
        Ok(true) => return vec![],
        Ok(false) => {}
        Err(failure) => return vec![fatal(failure)],
    }
    let (service_spec, found) = service_spec::read(service);
    let kind = kind(config, service, before, &service_spec);
    let mut problems = found.clone().of(kind);
    // One that may have a load balancer is found by its name.
    problems.extend(service_spec::wrong_id(service).map(|wrong| Problem { fatal: !had_one(before), ..wrong }));
    if let Some(kind) = kind {
        problems.extend(rules::rules(&service_spec, kind, service_spec.certificate.text()).err());
        problems.extend(desired::remarks(service, &service_spec, kind));
    }
    let old = before.map(|before| service_spec::read(before).0);
    problems.extend(old.iter().flat_map(|old| immutable(old, &service_spec)));
    if problems.iter().any(|problem| problem.fatal) {
        return problems;
    }
    if online && old.as_ref() != Some(&service_spec) {
        let has_id = [Some(service), before].into_iter().flatten().find(|service| id_of(service).is_some());
        let judged = judge(config, has_id.unwrap_or(service), &service_spec, found, region);
        problems.extend(judged.unwrap_or_else(|failure| vec![unjudged(failure)]));
    }
    problems
}

/// `None` where there may be a load balancer already, which keeps the type that it has: a REGIONAL_NETWORK one takes any ports.
fn kind(config: &Config, service: &Service, before: Option<&Service>, service_spec: &ServiceSpec) -> Option<Kind> {
    let may_exist = had_one(before) || id_of(service).is_some() || service_spec.name != service_spec.default_name;
    service_spec.kind.or_else(|| (!may_exist).then_some(config.default_type))
}

fn had_one(before: Option<&Service>) -> bool {
    before.is_some_and(|before| before.kind == ServiceType::LoadBalancer)
}

/// Asked of a cloud that changes nothing. What `service` is called counts, and its ID.
fn judge(
    config: &Config,
    service: &Service,
    service_spec: &ServiceSpec,
    found: Problems,
    region: impl FnOnce() -> Option<String>,
) -> Result<Vec<Problem>, Failure> {
    // As the load balancer will be found once the Service is there: it may be one to take over.
    let present = find(config, service, service_spec, false)?;
    let (fixed, kept) = match &present {
        Some(balancer) => {
            let fixed = Fixed::of(balancer, service_spec, config)?;
            let fatal: Vec<Problem> = found.of(Some(fixed.kind)).into_iter().filter(|problem| problem.fatal).collect();
            if !fatal.is_empty() {
                return Ok(fatal);
            }
            let kept = certificate::of_existing(service_spec.certificate_of(fixed.kind), balancer)?;
            (fixed, kept)
        }
        None => {
            let Some(region) = config.region.clone().or_else(region) else {
                return Ok(vec![harmless("the region is not known; set REGION")]);
            };
            let fixed = Fixed::of_new(service_spec, config, region);
            let id = certificate::of_new(service_spec.certificate_of(fixed.kind))?;
            (fixed, ExpectedCertificate { id, remark: None })
        }
    };
    let parts = Parts { service_spec, fixed: &fixed, nodes: None, certificate: kept.id.as_deref() };
    let mut spec = desired::spec(&parts)?;
    spec.validate_only = true;
    match &present {
        Some(balancer) => {
            spec.droplet_ids.clone_from(&balancer.droplet_ids);
            desired::keep(&mut spec, service_spec, balancer);
        }
        None => {
            spec.tags = tags_of_new(config, service, service_spec);
            spec.ip.clone_from(&service_spec.ip);
        }
    }
    let id = present.as_ref().map(|balancer| balancer.id.as_str());
    let answer = balancers::judge(id, &spec)?;
    match answer.status() {
        200..=299 => Ok(kept.remark.into_iter().collect()),
        400 | 422 if is_of_service(&answer, service_spec, id) => {
            let words = answer.message().unwrap_or_else(|| answer.summary().to_owned());
            Ok(vec![Problem::fatal("spec", format!("invalid load balancer definition: {words}"))])
        }
        status => Ok(vec![harmless(&format!("received unexpected status code ({status}): {}", answer.summary()))]),
    }
}

/// Whether a no is about what the Service asks for, and not about its Nodes, the account, or settings of the operator.
fn is_of_service(answer: &Answer, service_spec: &ServiceSpec, id: Option<&str>) -> bool {
    match api::exceptions(answer).map(|failure| failure.reaction) {
        // A new one of that name has been made since it was looked for, and is found next time.
        Some(Reaction::Conflict) => id.is_some() && service_spec.name != service_spec.default_name,
        Some(Reaction::Invalid) => true,
        Some(_) => false,
        // An address or a subnet has its place as well.
        None => service_spec.ip.is_some() || service_spec.subnet.is_some() || !is_about_settings(answer),
    }
}

/// The region, the VPC and the tag are the operator's.
fn is_about_settings(answer: &Answer) -> bool {
    let words = answer.message().unwrap_or_default().to_ascii_lowercase();
    let mut words = words.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    words.any(|word| matches!(word, "region" | "vpc" | "vpc_uuid" | "tag" | "tags"))
}

fn immutable(old: &ServiceSpec, new: &ServiceSpec) -> Vec<Problem> {
    let changed = [
        (names::TYPE, old.kind.is_some() && old.kind != new.kind),
        (names::NETWORK, old.network.is_some() && old.network != new.network),
        (names::NETWORK_STACK, old.stack.is_some() && old.stack != new.stack),
    ];
    let changed = changed.into_iter().filter(|(_, changed)| *changed);
    let problem = |(name, _): (&str, bool)| {
        let message = format!("annotation {name} cannot be changed once the load balancer is made; make a new Service");
        Problem::harmless(field(name), message)
    };
    changed.map(problem).collect()
}

fn fatal(failure: Failure) -> Problem {
    Problem::fatal(failure.field.unwrap_or_else(|| "spec".to_owned()), failure.message)
}

/// What the Service itself does wrong has its field.
fn unjudged(failure: Failure) -> Problem {
    match failure.reaction {
        Reaction::Invalid | Reaction::Conflict if failure.field.is_some() => fatal(failure),
        _ => harmless(&failure.message),
    }
}

fn harmless(why: &str) -> Problem {
    Problem::harmless(
        "spec",
        format!("DigitalOcean could not judge the load balancer definition, so that it is let through: {why}"),
    )
}
