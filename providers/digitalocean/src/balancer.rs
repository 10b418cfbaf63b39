//! Load balancers: found, made, changed, deleted.
//!
//! | rule | why |
//! |---|---|
//! | found by the ID on the Service, else by name | names are unique in an account, so that a second one is never made, whatever answer was lost |
//! | one with the tag of another cluster or Service is not found by the name that is asked for, one of another cluster not by its ID either | it would be changed, and deleted, under its owner |
//! | what an existing one is counts before what is asked for | its type, network and VPC cannot be changed |
//! | nothing is written while it is being made, nor after that failed | the cloud refuses it, or it changes nothing |
//! | compared before anything is written | what does not differ costs no write |
//! | a droplet that the cloud refuses is left out, and its Node named | the others must not wait for it |
//! | its droplets follow the Nodes, also when the rest cannot be what the Service asks for | a mistake must not cost the Service its Nodes |
//! | calls that wait for addresses, or follow the Nodes, share a listing of a second, unless they have just written | a hundred load balancers cost the reads of one |

mod change;
mod claim;
mod done;
mod former;
mod given;
mod last_tag;
mod left_out;
mod lookup;
mod orphan;
mod owner;
mod service_tag;
mod size;
mod survey;
#[cfg(test)]
pub(crate) mod tests;
mod without_tags;
mod work;

use ccm_sdk::Done;
use ccm_sdk::find::sees_the_cluster;
use ccm_sdk::load_balancers::Mark;
use ccm_sdk::types::{Backend, Failure, Ingress, Problem, Reaction, Service};

use crate::annotations as names;
use crate::api::balancers::{self, Balancer};
use crate::backends;
use crate::certificate;
use crate::config::Config;
use crate::desired::{self, Fixed, Parts};
use crate::find::Droplets;
use crate::region;
use crate::service_spec::{self, Problems, ServiceSpec, id_of};

use self::done::{CONFIG_ERROR, RECREATED, told};
use self::work::{Scope, Work, disowned, nobody, read, remark, settled, unreachable};

pub(crate) use self::done::IGNORED;
pub(crate) use self::lookup::{Seen, among, find, of_services};
pub(crate) use self::service_tag::tags_of_new;
pub(crate) use self::survey::survey;

/// Provider IDs of the cluster's Nodes, at most so many, the likeliest to be there first.
pub(crate) type ProviderIds = fn(u32) -> Result<Vec<String>, String>;

/// # Errors
///
/// The cloud cannot be asked, or may be another account's, or the Service is not ours.
pub(crate) fn get(config: &Config, service: &Service, nodes: ProviderIds) -> Result<Option<Vec<Ingress>>, Failure> {
    if service_spec::is_disowned(service)? {
        return Ok(Some(service.ingress.clone()));
    }
    let (service_spec, _) = service_spec::read(service);
    let found = find(config, service, &service_spec, true)?;
    if found.is_none() && id_of(service).is_some() {
        sees_the_cluster(&Droplets, nodes)?;
    }
    Ok(found.map(|balancer| desired::ingress(service, &balancer, service_spec.hostname.as_deref())))
}

/// Whose the load balancer is that a call for this Service would change.
///
/// # Errors
///
/// The cloud cannot be asked, or the Service has a value that cannot be read.
pub(crate) fn mark(config: &Config, service: &Service) -> Result<Option<Mark>, Failure> {
    if service_spec::is_disowned(service)? {
        return Ok(None);
    }
    let (service_spec, _) = service_spec::read(service);
    let found = lookup::seek(config, service, &service_spec, true)?;
    // It is for no Service of this cluster to take over.
    let found = found.filter(|found| !owner::is_of_another_cluster(config, service, found));
    Ok(found.map(|balancer| Mark { uid: service_tag::uid(service, &balancer), load_balancer: balancer.id }))
}

pub(crate) fn ensure(config: &Config, service: &Service, backends: &[Backend], nodes: ProviderIds) -> Done {
    Done::of(|done| make(config, service, backends, nodes, done))
}

pub(crate) fn update_backends(config: &Config, service: &Service, backends: &[Backend]) -> Done {
    Done::of(|done| follow_nodes(config, service, backends, done))
}

pub(crate) fn delete(config: &Config, service: &Service, nodes: ProviderIds) -> Done {
    Done::of(|done| {
        remove(config, service, nodes, done)?;
        if service.annotation(names::ID).is_some() {
            done.unannotate(names::ID);
        }
        Ok(vec![])
    })
}

pub(crate) fn orphan(config: &Config, service: &Service) -> Done {
    Done::of(|done| orphan::orphan(config, service, done).map(|()| vec![]))
}

fn make(
    config: &Config,
    service: &Service,
    backends: &[Backend],
    nodes: ProviderIds,
    done: &mut Done,
) -> Result<Vec<Ingress>, Failure> {
    let (service_spec, problems) = read(service)?;
    let is_new = id_of(service).is_none() && service.ingress.is_empty();
    if is_new {
        possible(config, &service_spec, problems.clone(), None, done)?;
    }
    // Whoever has an address waits for nobody, and is looked at closely.
    let Some(mut balancer) = find(config, service, &service_spec, service.ingress.is_empty())? else {
        // One that exists is found by its name, whatever stands where its ID should be.
        possible(config, &service_spec, problems, service_spec::wrong_id(service), done)?;
        // In place of one that is gone.
        if id_of(service).is_some() {
            sees_the_cluster(&Droplets, nodes)?;
        }
        return create(config, service, &service_spec, backends, done);
    };
    let work = Work { config, service, service_spec: &service_spec };
    work.claim(&mut balancer, done)?;
    note(service, &balancer, done);
    work.bring(&mut balancer, problems, backends, Scope::All, done)
}

fn follow_nodes(
    config: &Config,
    service: &Service,
    backends: &[Backend],
    done: &mut Done,
) -> Result<Vec<Ingress>, Failure> {
    let (service_spec, problems) = read(service)?;
    let Some(mut balancer) = find(config, service, &service_spec, true)? else {
        return Err(Failure::conflict("there is no load balancer whose droplets could be changed"));
    };
    let work = Work { config, service, service_spec: &service_spec };
    work.claim(&mut balancer, done)?;
    note(service, &balancer, done);
    work.bring(&mut balancer, problems, backends, Scope::Droplets, done)
}

/// All that can be said of a new one without the cloud.
fn possible(
    config: &Config,
    service_spec: &ServiceSpec,
    problems: Problems,
    wrong_id: Option<Problem>,
    done: &mut Done,
) -> Result<(), Failure> {
    let kind = service_spec.kind.unwrap_or(config.default_type);
    told(done, problems.of(Some(kind)).into_iter().chain(wrong_id).collect())?;
    desired::rules::rules(service_spec, kind, service_spec.certificate.text()).map(drop).map_err(desired::invalid)
}

fn create(
    config: &Config,
    service: &Service,
    service_spec: &ServiceSpec,
    backends: &[Backend],
    done: &mut Done,
) -> Result<Vec<Ingress>, Failure> {
    let members = backends::members(backends)?;
    let mut fixed = Fixed::of_new(service_spec, config, String::new());
    let chosen = backends::choose(&members, fixed.kind, fixed.network);
    remark(service, service_spec, fixed.kind, &chosen, done);
    if chosen.ids.is_empty() {
        let failure = nobody(&fixed, &chosen);
        if unreachable(&fixed, &chosen) {
            done.warn(CONFIG_ERROR, failure.message.clone());
        }
        return Err(failure);
    }
    let certificate = certificate::of_new(service_spec.certificate_of(fixed.kind))?;
    let parts = |fixed: &Fixed| {
        desired::spec(&Parts { service_spec, fixed, nodes: Some(&chosen), certificate: certificate.as_deref() })
    };
    // What cannot be is refused before the region is asked for.
    if let Err(failure) = parts(&fixed) {
        done.warn(CONFIG_ERROR, failure.message.clone());
        return Err(failure);
    }
    fixed.region = region::of_new(config, &chosen.ids)?;
    let mut spec = parts(&fixed)?;
    spec.tags = tags_of_new(config, service, service_spec);
    spec.ip.clone_from(&service_spec.ip);
    let created = Work { config, service, service_spec }.create(&mut spec, &chosen, done).map_err(|failure| {
        match failure.reaction {
            Reaction::Conflict => lookup::taken_now(config, service, service_spec).unwrap_or(failure),
            _ => failure,
        }
    });
    let Some(balancer) = created? else {
        return Err(certificate::missing(certificate.as_deref()));
    };
    without_tags::made(&balancer);
    note(service, &balancer, done);
    done.outcome.changes.push(format!("created {} {}", balancer.kind, balancer.id));
    settled(service, &balancer, service_spec, done)
}

/// Writes the ID down where it is not. One that is in the place of another was made just now, or in a call that did not hear of it.
fn note(service: &Service, balancer: &Balancer, done: &mut Done) {
    without_tags::serves(service, balancer);
    former::seen(balancer);
    let old = id_of(service).filter(|old| !balancer.has_id(old));
    if let Some(old) = old {
        let mut message =
            format!("load balancer {old} is gone, and {} is in its place; its address is another", balancer.id);
        if let Some(former) = former::other_type(old, balancer) {
            let more = format!(
                "; its type is {}, and was {former}: annotation {} says which one is made",
                balancer.kind,
                names::TYPE
            );
            message.push_str(&more);
        }
        done.warn(RECREATED, message);
    }
    if let Some(wrong) = service_spec::wrong_id(service) {
        done.warn(
            IGNORED,
            format!("{}; {} was found by its name, and its ID is written there", wrong.message, balancer.id),
        );
    }
    // One that differs in case alone stays as people wrote it.
    if !service.annotation(names::ID).is_some_and(|id| balancer.has_id(id)) {
        done.outcome.annotations.push((names::ID.to_owned(), Some(balancer.id.clone())));
    }
}

/// The one with the ID, and one of the default name that a crash has left without.
fn remove(config: &Config, service: &Service, nodes: ProviderIds, done: &mut Done) -> Result<(), Failure> {
    if service_spec::is_disowned(service)? {
        return Err(disowned());
    }
    let (service_spec, _) = service_spec::read(service);
    let going = lookup::all_of(config, service, &service_spec, nodes)?;
    if let Some(balancer) = going.spared {
        done.warn(owner::SPARED, owner::spared(service, &balancer));
    }
    for Balancer { id, .. } in going.all {
        // Whatever the cloud answers: it may have done it.
        lookup::written(&id);
        let deleted = balancers::delete(&id).map_err(|failure| failure.context("failed to delete load-balancer"))?;
        if deleted {
            done.outcome.changes.push(format!("deleted {id}"));
        }
    }
    if let Some(tag) = going.tag {
        tag.delete(done);
    }
    Ok(())
}
