//! What is wrong with a Service, before anything is done for it.
//!
//! The cloud judges where the operator wants it. Only its clear no (400, 422) refuses a Service: that it cannot be asked, or
//! does not find something, must not stop anybody from changing one.

#[cfg(test)]
mod tests;

use ccm_sdk::types::{Failure, Problem, Service, ServiceType};

use crate::annotations as names;
use crate::api::balancers;
use crate::asked::{self, Asked, Certificate};
use crate::balancer::{id_of, impossible};
use crate::certificate;
use crate::config::Config;
use crate::wanted::{self, Fixed, Parts};

/// `region` is asked only when the cloud is, and the settings have none.
pub(crate) fn validate(
    config: &Config,
    service: &Service,
    before: Option<&Service>,
    online: bool,
    region: impl FnOnce() -> Option<String>,
) -> Vec<Problem> {
    if service.kind != ServiceType::LoadBalancer || service.deleting || service.load_balancer_class.is_some() {
        return vec![];
    }
    match asked::is_disowned(service) {
        Ok(true) => return vec![],
        Ok(false) => {}
        Err(failure) => return vec![fatal(failure)],
    }
    let (asked, mut problems) = asked::read(service);
    let fixed = Fixed::asked(&asked, config, config.region.clone().unwrap_or_default());
    problems.extend(impossible(config, service, &asked));
    problems.extend(wanted::remarks(service, fixed.kind));
    let old = before.map(|before| asked::read(before).0);
    problems.extend(old.iter().flat_map(|old| immutable(old, &asked)));
    if problems.iter().any(|problem| problem.fatal) {
        return problems;
    }
    // Without Nodes, since who they will be is not known yet.
    if let Err(failure) =
        wanted::spec(&Parts { asked: &asked, fixed: &fixed, nodes: None, certificate: placeholder(&asked) })
    {
        problems.push(fatal(failure));
        return problems;
    }
    if online && old.as_ref() != Some(&asked) {
        let id = id_of(service).or_else(|| before.and_then(id_of));
        let judged = judge(config, &asked, id, region);
        problems.extend(judged.unwrap_or_else(|failure| Some(harmless(&failure.message))));
    }
    problems
}

/// Asked of a cloud that changes nothing.
fn judge(
    config: &Config,
    asked: &Asked,
    id: Option<&str>,
    region: impl FnOnce() -> Option<String>,
) -> Result<Option<Problem>, Failure> {
    let present = id.map(balancers::get).transpose()?.flatten();
    let (fixed, certificate) = match &present {
        Some(balancer) => {
            (Fixed::of(balancer, asked, config)?, certificate::of_existing(&asked.certificate, balancer)?)
        }
        None => {
            let Some(region) = config.region.clone().or_else(region) else {
                return Ok(Some(harmless("the region is not known; set REGION")));
            };
            (Fixed::asked(asked, config, region), certificate::resolve(&asked.certificate)?)
        }
    };
    let parts = Parts { asked, fixed: &fixed, nodes: None, certificate: certificate.as_deref() };
    let mut spec = wanted::spec(&parts)?;
    spec.validate_only = true;
    match &present {
        Some(balancer) => spec.droplet_ids.clone_from(&balancer.droplet_ids),
        None => {
            spec.tags = config.tag.iter().cloned().collect();
            spec.ip.clone_from(&asked.ip);
        }
    }
    let answer = balancers::judge(present.as_ref().map(|balancer| balancer.id.as_str()), &spec)?;
    match answer.status() {
        200..=299 => Ok(None),
        400 | 422 => {
            let words = answer.message().unwrap_or_else(|| answer.summary().to_owned());
            Ok(Some(Problem::fatal("spec", format!("invalid load balancer definition: {words}"))))
        }
        status => Ok(Some(harmless(&format!("received unexpected status code ({status}): {}", answer.summary())))),
    }
}

fn placeholder(asked: &Asked) -> Option<&str> {
    match &asked.certificate {
        Certificate::None => None,
        Certificate::Id(text) | Certificate::Name(text) => Some(text),
    }
}

fn immutable(old: &Asked, new: &Asked) -> Vec<Problem> {
    let changed = [
        (names::TYPE, old.kind.is_some() && old.kind != new.kind),
        (names::NETWORK, old.network.is_some() && old.network != new.network),
        (names::NETWORK_STACK, old.stack.is_some() && old.stack != new.stack),
    ];
    let changed = changed.into_iter().filter(|(_, changed)| *changed);
    let problem = |(name, _): (&str, bool)| {
        let message = format!("annotation {name} cannot be changed once the load balancer is made; make a new Service");
        Problem::harmless(format!("metadata.annotations[{name}]"), message)
    };
    changed.map(problem).collect()
}

fn fatal(failure: Failure) -> Problem {
    Problem::fatal(failure.field.unwrap_or_else(|| "spec".to_owned()), failure.message)
}

fn harmless(why: &str) -> Problem {
    Problem::harmless(
        "spec",
        format!("DigitalOcean could not judge the load balancer definition, so that it is let through: {why}"),
    )
}
