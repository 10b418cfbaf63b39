//! Load balancers: found, made, changed, deleted.
//!
//! | rule | why |
//! |---|---|
//! | found by the ID on the Service, else by name | names are unique in an account, so that a second one is never made, whatever answer was lost |
//! | one with the tag of another cluster or Service is not found by the name that is asked for, one of another cluster not by its ID either | it would be changed, and deleted, under its owner |
//! | what an existing one is counts before what is asked for | its type, network and VPC cannot be changed |
//! | nothing is written while it is being made, nor after that failed | the cloud refuses it, or it changes nothing |
//! | compared before anything is written | what does not differ costs no write |
//! | its droplets follow the Nodes, also when the rest cannot be what the Service asks for | a mistake must not cost the Service its Nodes |
//! | calls that wait for addresses, or follow the Nodes, share a listing of a second, unless they have just written | a hundred load balancers cost the reads of one |

mod account;
mod change;
mod lookup;
mod orphan;
mod owner;
mod size;
mod survey;
#[cfg(test)]
pub(crate) mod tests;
mod untold;

use std::time::Duration;

use ccm_sdk::load_balancers::{Mark, Outcome};
use ccm_sdk::types::{Backend, Failure, Ingress, Problem, Reaction, Service};

use crate::annotations as names;
use crate::api::balancers::{self, Balancer};
use crate::asked::{self, Asked, Problems};
use crate::backends::{self, Chosen};
use crate::certificate;
use crate::config::Config;
use crate::kind::{Kind, Network};
use crate::region;
use crate::wanted::{self, Fixed, Parts};

use self::change::Scope;

pub(crate) use self::account::ProviderIds;
pub(crate) use self::lookup::{among, find, id_of, is_served, of_services};
pub(crate) use self::owner::tags_of_new;
pub(crate) use self::survey::survey;

/// When to look again at one that is being made. All that are share one listing, and the host looks less often at what takes long.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// When to look again at one that could not be made: a person has to act.
const ERRORED: Duration = Duration::from_secs(300);

/// When to look again for an address that may never be told.
const UNTOLD_ADDRESS: Duration = Duration::from_secs(60);

/// What a call came to, and what people should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Done {
    pub(crate) outcome: Outcome,
    /// Reason and message of Events of type Warning.
    pub(crate) warnings: Vec<Warning>,
    /// Nodes that are no droplets.
    pub(crate) foreign: Vec<String>,
}

/// Reason and message of an Event.
pub(crate) type Warning = (&'static str, String);

/// Reason of Events about what a Service asks for.
const CONFIG_ERROR: &str = "LoadBalancerConfigError";
pub(crate) const IGNORED: &str = "LoadBalancerConfigIgnored";
const IMMUTABLE: &str = "LoadBalancerImmutableField";
const ERRORED_REASON: &str = "LoadBalancerErrored";
const RECREATED: &str = "LoadBalancerRecreated";
const WITHOUT_DROPLET: &str = "NodeWithoutDroplet";

impl Done {
    fn new() -> Self {
        Self { outcome: Outcome::gone(), warnings: vec![], foreign: vec![] }
    }

    fn warn(&mut self, reason: &'static str, message: impl Into<String>) {
        let warning = (reason, message.into());
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    /// # Errors
    ///
    /// One of them is fatal. The others are told.
    fn told(&mut self, problems: Vec<Problem>) -> Result<(), Failure> {
        let (fatal, harmless): (Vec<_>, Vec<_>) = problems.into_iter().partition(|problem| problem.fatal);
        harmless.into_iter().for_each(|problem| self.warn(IGNORED, problem.message));
        let Some(failure) = asked::refusal(fatal) else { return Ok(()) };
        let of_stack = |field: &String| field.contains(names::NETWORK_STACK);
        if failure.field.as_ref().is_some_and(of_stack) {
            self.warn(CONFIG_ERROR, failure.message.clone());
        }
        Err(failure)
    }

    fn with(mut self, result: Result<Vec<Ingress>, Failure>) -> Self {
        match result {
            Ok(ingress) => self.outcome.ingress = ingress,
            Err(failure) => self.outcome.failure = Some(failure),
        }
        self
    }
}

/// # Errors
///
/// The cloud cannot be asked, or may be another account's, or the Service is not ours.
pub(crate) fn get(config: &Config, service: &Service, nodes: ProviderIds) -> Result<Option<Vec<Ingress>>, Failure> {
    if asked::is_disowned(service)? {
        return Ok(Some(service.ingress.clone()));
    }
    let (asked, _) = asked::read(service);
    let found = find(config, service, &asked, true)?;
    if found.is_none() && id_of(service).is_some() {
        account::sees_the_cluster(nodes)?;
    }
    Ok(found.map(|balancer| wanted::ingress(service, &balancer, asked.hostname.as_deref())))
}

/// Whose the load balancer is that a call for this Service would change.
///
/// # Errors
///
/// The cloud cannot be asked, or the Service has a value that cannot be read.
pub(crate) fn mark(config: &Config, service: &Service) -> Result<Option<Mark>, Failure> {
    if asked::is_disowned(service)? {
        return Ok(None);
    }
    let (asked, _) = asked::read(service);
    let found = lookup::seek(config, service, &asked, true)?;
    // It is for no Service of this cluster to take over.
    let found = found.filter(|found| !owner::is_of_another_cluster(config, service, found));
    Ok(found.map(|balancer| Mark { uid: owner::uid(service, &balancer), load_balancer: balancer.id }))
}

pub(crate) fn ensure(config: &Config, service: &Service, backends: &[Backend], nodes: ProviderIds) -> Done {
    let mut done = Done::new();
    let result = make(config, service, backends, nodes, &mut done);
    done.with(result)
}

pub(crate) fn update_backends(config: &Config, service: &Service, backends: &[Backend]) -> Done {
    let mut done = Done::new();
    let result = follow_nodes(config, service, backends, &mut done);
    done.with(result)
}

pub(crate) fn delete(config: &Config, service: &Service, nodes: ProviderIds) -> Done {
    let mut done = Done::new();
    let result = remove(config, service, nodes, &mut done);
    if result.is_ok() && service.annotation(names::ID).is_some() {
        done.outcome = done.outcome.unannotate(names::ID);
    }
    done.with(result.map(|()| vec![]))
}

pub(crate) fn orphan(config: &Config, service: &Service) -> Done {
    let mut done = Done::new();
    let result = orphan::orphan(config, service, &mut done);
    done.with(result.map(|()| vec![]))
}

fn make(
    config: &Config,
    service: &Service,
    backends: &[Backend],
    nodes: ProviderIds,
    done: &mut Done,
) -> Result<Vec<Ingress>, Failure> {
    let (asked, problems) = read(service)?;
    let is_new = id_of(service).is_none() && service.ingress.is_empty();
    if is_new {
        possible(config, &asked, problems.clone(), done)?;
    }
    // Whoever has an address waits for nobody, and is looked at closely.
    let Some(mut balancer) = find(config, service, &asked, service.ingress.is_empty())? else {
        if !is_new {
            possible(config, &asked, problems, done)?;
        }
        // In place of one that is gone.
        if id_of(service).is_some() {
            account::sees_the_cluster(nodes)?;
        }
        return create(config, service, &asked, backends, done);
    };
    let work = Work { config, service, asked: &asked };
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
    let (asked, problems) = read(service)?;
    let Some(mut balancer) = find(config, service, &asked, true)? else {
        return Err(Failure::conflict("there is no load balancer whose droplets could be changed"));
    };
    let work = Work { config, service, asked: &asked };
    work.claim(&mut balancer, done)?;
    note(service, &balancer, done);
    work.bring(&mut balancer, problems, backends, Scope::Droplets, done)
}

/// What the Service asks for, and what is wrong with that.
///
/// # Errors
///
/// Nobody takes care of it, or it is not clear whether anybody does.
fn read(service: &Service) -> Result<(Asked, Problems), Failure> {
    if asked::is_disowned(service)? { Err(disowned()) } else { Ok(asked::read(service)) }
}

/// All that can be said of a new one without the cloud.
fn possible(config: &Config, asked: &Asked, problems: Problems, done: &mut Done) -> Result<(), Failure> {
    let kind = asked.kind.unwrap_or(config.default_type);
    done.told(problems.of(Some(kind)))?;
    wanted::rules::rules(asked, kind, asked.certificate.text()).map(drop).map_err(wanted::invalid)
}

fn disowned() -> Failure {
    Failure::elsewhere(format!("annotation {} says that nobody takes care of it", names::DISOWN))
}

fn create(
    config: &Config,
    service: &Service,
    asked: &Asked,
    backends: &[Backend],
    done: &mut Done,
) -> Result<Vec<Ingress>, Failure> {
    let members = backends::members(backends)?;
    let mut fixed = Fixed::asked(asked, config, String::new());
    let chosen = backends::choose(members.iter(), fixed.kind, fixed.network);
    remark(service, asked, fixed.kind, &chosen, done);
    if chosen.ids.is_empty() {
        let failure = nobody(&fixed, &chosen);
        if unreachable(&fixed, &chosen) {
            done.warn(CONFIG_ERROR, failure.message.clone());
        }
        return Err(failure);
    }
    let certificate = certificate::of_new(asked.certificate_of(fixed.kind))?;
    let parts = |fixed: &Fixed| {
        wanted::spec(&Parts { asked, fixed, nodes: Some(&chosen), certificate: certificate.as_deref() })
    };
    // What cannot be is refused before the region is asked for.
    if let Err(failure) = parts(&fixed) {
        done.warn(CONFIG_ERROR, failure.message.clone());
        return Err(failure);
    }
    fixed.region = region::of_new(config, &chosen.ids)?;
    let mut spec = parts(&fixed)?;
    spec.tags = tags_of_new(config, service, asked);
    spec.ip.clone_from(&asked.ip);
    let created = Work { config, service, asked }.create(&mut spec, done).map_err(|failure| match failure.reaction {
        Reaction::Conflict => lookup::taken_now(config, service, asked).unwrap_or(failure),
        _ => failure,
    });
    let Some(balancer) = created? else {
        return Err(certificate::missing(certificate.as_deref()));
    };
    untold::made(&balancer);
    note(service, &balancer, done);
    done.outcome.changes.push(format!("created {} {}", balancer.kind, balancer.id));
    settled(service, &balancer, asked, done)
}

/// One Service and what it asks for.
struct Work<'a> {
    config: &'a Config,
    service: &'a Service,
    asked: &'a Asked,
}

/// The addresses, or how to go on without.
fn settled(service: &Service, balancer: &Balancer, asked: &Asked, done: &mut Done) -> Result<Vec<Ingress>, Failure> {
    let ingress = wanted::ingress(service, balancer, asked.hostname.as_deref());
    if !ingress.is_empty() {
        return Ok(ingress);
    }
    if balancer.status == "errored" {
        let message = format!(
            "load-balancer has unexpected status \"errored\": DigitalOcean could not make {}; delete it there, and a new one is made",
            balancer.id
        );
        done.warn(ERRORED_REASON, message.clone());
        return Err(Failure::retry(message).after(ERRORED));
    }
    if balancer.status == "active" && wanted::is_internal(balancer) {
        let message = format!(
            "load balancer {} is active, and DigitalOcean tells no address of it, since it is of network INTERNAL; give it a name with annotation {}",
            balancer.id,
            names::HOSTNAME
        );
        return Err(Failure::retry(message).after(UNTOLD_ADDRESS).annotation(names::HOSTNAME));
    }
    let message =
        format!("load-balancer is currently being created: {} has the status {:?}", balancer.id, balancer.status);
    Err(Failure::pending(message).after(LOOK_AGAIN))
}

fn remark(service: &Service, asked: &Asked, kind: Kind, chosen: &Chosen, done: &mut Done) {
    wanted::remarks(service, asked, kind).into_iter().for_each(|problem| done.warn(IGNORED, problem.message));
    done.foreign.clone_from(&chosen.foreign);
    if !chosen.missing.is_empty() {
        let message = format!("Failed to find droplets for nodes: {}", backends::names(chosen.missing.clone()));
        done.warn(WITHOUT_DROPLET, message);
    }
}

/// Whether Nodes could be reached through another kind of load balancer.
fn unreachable(fixed: &Fixed, chosen: &Chosen) -> bool {
    chosen.unready > 0 && fixed.kind == Kind::Network && fixed.network == Network::External
}

fn nobody(fixed: &Fixed, chosen: &Chosen) -> Failure {
    if unreachable(fixed, chosen) {
        let message = format!(
            "no eligible load balancer backends: a REGIONAL_NETWORK EXTERNAL load balancer needs nodes with a public IPv4 address; make it {} \"REGIONAL\" or {} \"INTERNAL\"",
            names::TYPE,
            names::NETWORK
        );
        return Failure::retry(message);
    }
    Failure::retry("no ready nodes available for load balancer")
}

/// Writes the ID down where it is not. One that is in the place of another was made just now, or in a call that did not hear of it.
fn note(service: &Service, balancer: &Balancer, done: &mut Done) {
    untold::serves(service, balancer);
    let old = id_of(service).filter(|old| !balancer.has_id(old));
    if let Some(old) = old {
        let message =
            format!("load balancer {old} is gone, and {} is in its place; its address is another", balancer.id);
        done.warn(RECREATED, message);
    }
    // One that differs in case alone stays as people wrote it.
    if old.is_some() || id_of(service).is_none() {
        done.outcome.annotations.push((names::ID.to_owned(), Some(balancer.id.clone())));
    }
}

/// The one with the ID, and one of the default name that a crash has left without.
fn remove(config: &Config, service: &Service, nodes: ProviderIds, done: &mut Done) -> Result<(), Failure> {
    if asked::is_disowned(service)? {
        return Err(disowned());
    }
    let (asked, _) = asked::read(service);
    let going = lookup::all_of(config, service, &asked, nodes)?;
    if let Some(balancer) = going.spared {
        done.warn(owner::SPARED, owner::spared(service, &balancer));
    }
    for Balancer { id, .. } in going.all {
        let deleted = balancers::delete(&id).map_err(|failure| Failure {
            message: format!("failed to delete load-balancer: {}", failure.message),
            ..failure
        })?;
        if deleted {
            done.outcome.changes.push(format!("deleted {id}"));
        }
    }
    if let Some(tag) = going.tag {
        tag.delete(done);
    }
    Ok(())
}
