//! Load balancers: found, made, changed, deleted.
//!
//! | rule | why |
//! |---|---|
//! | found by the ID on the Service, else by name | names are unique in an account, so that a second one is never made, whatever answer was lost |
//! | one with the tag of another cluster or Service is not found by the name that is asked for | it would be changed, and deleted, under its owner |
//! | what an existing one is counts before what is asked for | its type, network and VPC cannot be changed |
//! | nothing is written while it is being made, nor after that failed | the cloud refuses it, or it changes nothing |
//! | compared before anything is written | what does not differ costs no write |
//! | calls that wait for addresses, or follow the Nodes, share a listing of a second, unless they have just written | a hundred load balancers cost the reads of one |

mod account;
mod lookup;
mod owner;
mod size;
#[cfg(test)]
pub(crate) mod tests;
mod untold;

use std::time::Duration;

use ccm_sdk::load_balancer_survey::{Standing, Wish};
use ccm_sdk::load_balancers::Outcome;
use ccm_sdk::types::{Backend, Failure, Ingress, Problem, Reaction, Service};

use crate::annotations as names;
use crate::api::balancers::{self, Balancer, Spec};
use crate::asked::{self, Asked};
use crate::backends::{self, Chosen, Member};
use crate::certificate;
use crate::config::Config;
use crate::kind::{Kind, Network};
use crate::region;
use crate::wanted::{self, Fixed, Parts};

pub(crate) use self::account::ProviderIds;
pub(crate) use self::lookup::{among, find, id_of, of_services};
pub(crate) use self::owner::tags_of_new;

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
    pub(crate) warnings: Vec<(&'static str, String)>,
}

/// Reason of Events about what a Service asks for.
const CONFIG_ERROR: &str = "LoadBalancerConfigError";
const IGNORED: &str = "LoadBalancerConfigIgnored";
const IMMUTABLE: &str = "LoadBalancerImmutableField";
const ERRORED_REASON: &str = "LoadBalancerErrored";
const RECREATED: &str = "LoadBalancerRecreated";
const WITHOUT_DROPLET: &str = "NodeWithoutDroplet";

impl Done {
    fn new() -> Self {
        Self { outcome: Outcome::gone(), warnings: vec![] }
    }

    fn warn(&mut self, reason: &'static str, message: impl Into<String>) {
        self.warnings.push((reason, message.into()));
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
    Ok(found.map(|balancer| wanted::ingress(&balancer, asked.hostname.as_deref())))
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

fn make(
    config: &Config,
    service: &Service,
    backends: &[Backend],
    nodes: ProviderIds,
    done: &mut Done,
) -> Result<Vec<Ingress>, Failure> {
    let asked = readable(config, service, done)?;
    // Whoever has an address waits for nobody, and is looked at closely.
    let Some(mut balancer) = find(config, service, &asked, service.ingress.is_empty())? else {
        // In place of one that is gone.
        if id_of(service).is_some() {
            account::sees_the_cluster(nodes)?;
        }
        return create(config, service, &asked, backends, done);
    };
    let work = Work { config, service, asked: &asked };
    work.claim(&mut balancer, done)?;
    note(service, &balancer, done);
    let plan = work.plan(&balancer, &backends::members(backends)?, done)?;
    work.change(&mut balancer, &plan, wanted::differences, done)
}

fn follow_nodes(
    config: &Config,
    service: &Service,
    backends: &[Backend],
    done: &mut Done,
) -> Result<Vec<Ingress>, Failure> {
    let asked = readable(config, service, done)?;
    let Some(mut balancer) = find(config, service, &asked, true)? else {
        return Err(Failure::conflict("there is no load balancer whose droplets could be changed"));
    };
    let work = Work { config, service, asked: &asked };
    work.claim(&mut balancer, done)?;
    note(service, &balancer, done);
    let plan = work.plan(&balancer, &backends::members(backends)?, done)?;
    let droplets = |has: &Balancer, wants: &Spec| {
        if wanted::members_differ(has, wants) { vec!["droplets".to_owned()] } else { vec![] }
    };
    work.change(&mut balancer, &plan, droplets, done)
}

/// All that can be said without the cloud.
fn readable(config: &Config, service: &Service, done: &mut Done) -> Result<Asked, Failure> {
    if asked::is_disowned(service)? {
        return Err(disowned());
    }
    let (asked, problems) = asked::read(service);
    let (fatal, harmless): (Vec<_>, Vec<_>) = problems.into_iter().partition(|problem| problem.fatal);
    done.warnings.extend(harmless.into_iter().map(|problem| (IGNORED, problem.message)));
    if let Some(failure) = asked::refusal(fatal) {
        let of_stack = |field: &String| field.contains(names::NETWORK_STACK);
        if failure.field.as_ref().is_some_and(of_stack) {
            done.warn(CONFIG_ERROR, failure.message.clone());
        }
        return Err(failure);
    }
    if let Some(problem) = impossible(config, service, &asked) {
        return Err(wanted::invalid(problem));
    }
    Ok(asked)
}

/// Rules that cannot be, as far as the type is known: one that exists may have another than the default.
fn impossible(config: &Config, service: &Service, asked: &Asked) -> Option<Problem> {
    let default = id_of(service).is_none().then_some(config.default_type);
    let kind = asked.kind.or(default)?;
    wanted::rules::rules(asked, kind, asked.certificate.text()).err()
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
    remark(service, fixed.kind, &chosen, done);
    if chosen.ids.is_empty() {
        let failure = nobody(&fixed, &chosen);
        if unreachable(&fixed, &chosen) {
            done.warn(CONFIG_ERROR, failure.message.clone());
        }
        return Err(failure);
    }
    let certificate = certificate::resolve(&asked.certificate)?;
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
    note(service, &balancer, done);
    done.outcome.changes.push(format!("created {} {}", balancer.kind, balancer.id));
    settled(&balancer, asked, done)
}

/// One Service and what it asks for.
struct Work<'a> {
    config: &'a Config,
    service: &'a Service,
    asked: &'a Asked,
}

impl Work<'_> {
    /// What an existing one should be.
    fn plan(&self, balancer: &Balancer, members: &[Member], done: &mut Done) -> Result<Spec, Failure> {
        let fixed = Fixed::of(balancer, self.asked, self.config)?;
        let mut chosen = backends::choose(members.iter(), fixed.kind, fixed.network);
        remark(self.service, fixed.kind, &chosen, done);
        for remark in fixed.remarks(self.asked, self.config) {
            done.warn(IMMUTABLE, remark);
        }
        if chosen.ids.is_empty() && !members.is_empty() {
            // Nodes are there, but no address or no droplet yet: an empty load balancer would be worse than an old one.
            done.warn(
                CONFIG_ERROR,
                format!("{}; the load balancer keeps its droplets", nobody(&fixed, &chosen).message),
            );
            chosen.ids.clone_from(&balancer.droplet_ids);
        }
        let certificate = certificate::of_existing(&self.asked.certificate, balancer)?;
        done.warnings.extend(certificate.remark.map(|remark| (IGNORED, remark.message)));
        let mut spec = wanted::spec(&Parts {
            asked: self.asked,
            fixed: &fixed,
            nodes: Some(&chosen),
            certificate: certificate.id.as_deref(),
        })?;
        wanted::keep(&mut spec, self.asked, balancer);
        Ok(spec)
    }

    fn change(
        &self,
        balancer: &mut Balancer,
        plan: &Spec,
        differences: impl Fn(&Balancer, &Spec) -> Vec<String>,
        done: &mut Done,
    ) -> Result<Vec<Ingress>, Failure> {
        if balancer.status != "active" || differences(balancer, plan).is_empty() {
            return settled(balancer, self.asked, done);
        }
        let waits_for = |failure: &Failure| {
            // Who follows the Nodes asks for no other size.
            let counts = differences(balancer, plan).iter().any(|part| part == wanted::SIZE);
            counts.then(|| failure.clone())
        };
        let (possible, waits) = size::possible(balancer, plan);
        if differences(balancer, &possible).is_empty() {
            let ingress = settled(balancer, self.asked, done)?;
            return waits.map_or(Ok(ingress), Err);
        }
        let size::Written { answer, parts, waits: refused } = size::write(balancer, &possible, &differences)?;
        let waits = waits.or(refused).and_then(|failure| waits_for(&failure));
        let Some(changed) = balancers::replaced(answer)? else {
            // A 404 may be about the certificate.
            return Err(match balancers::get(&balancer.id)? {
                Some(_) => {
                    let mut ids = plan.forwarding_rules.iter().map(|rule| rule.certificate_id.as_str());
                    certificate::missing(ids.find(|id| !id.is_empty()))
                }
                None => Failure::conflict(format!("load balancer {} is gone", balancer.id)),
            });
        };
        done.outcome.changes.push(format!("changed {}: {}", balancer.id, parts.join(", ")));
        // The droplets do not wait for a tag.
        self.mark(balancer, done);
        let ingress = settled(&changed, self.asked, done)?;
        waits.map_or(Ok(ingress), Err)
    }
}

/// The addresses, or how to go on without.
fn settled(balancer: &Balancer, asked: &Asked, done: &mut Done) -> Result<Vec<Ingress>, Failure> {
    let ingress = wanted::ingress(balancer, asked.hostname.as_deref());
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

fn remark(service: &Service, kind: Kind, chosen: &Chosen, done: &mut Done) {
    done.warnings.extend(wanted::remarks(service, kind).into_iter().map(|problem| (IGNORED, problem.message)));
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
    if let Some(old) = id_of(service).filter(|old| *old != balancer.id) {
        let message =
            format!("load balancer {old} is gone, and {} is in its place; its address is another", balancer.id);
        done.warn(RECREATED, message);
    }
    if service.annotation(names::ID) != Some(&balancer.id) {
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

pub(crate) fn survey(config: &Config, backends: &[Backend], wishes: &[Wish]) -> Vec<Standing> {
    let unknown = |failure: Failure| wishes.iter().map(|_| Standing::Unknown(failure.clone())).collect();
    // Asks now: in an older listing, what was made or changed meanwhile looks as if somebody else had been at it.
    let (all, failure) = match lookup::of_wishes(wishes) {
        Ok(all) => all,
        Err(failure) => return unknown(failure),
    };
    let members = match backends::members(backends) {
        Ok(members) => members,
        Err(failure) => return unknown(failure),
    };
    let standing = |wish| match (standing(config, &all, &members, wish), &failure) {
        // It may be among those that were not seen.
        (Standing::Missing, Some(failure)) => Standing::Unknown(failure.clone()),
        (standing, _) => standing,
    };
    wishes.iter().map(standing).collect()
}

fn standing(config: &Config, all: &[Balancer], members: &[Member], wish: &Wish) -> Standing {
    let member = |index: &u32| members.get(usize::try_from(*index).ok()?).cloned();
    let Some(members) = wish.backends.iter().map(member).collect::<Option<Vec<_>>>() else {
        return Standing::Unknown(Failure::retry("a wish names a backend that is not in the list"));
    };
    let mut done = Done::new();
    let asked = match readable(config, &wish.service, &mut done) {
        Ok(asked) => asked,
        Err(failure) => return Standing::Unknown(failure),
    };
    let Some(balancer) = among(config, all, &wish.service, &asked) else { return Standing::Missing };
    let work = Work { config, service: &wish.service, asked: &asked };
    let plan = match work.plan(balancer, &members, &mut done) {
        Ok(plan) => plan,
        Err(failure) => return Standing::Unknown(failure),
    };
    let mut differences = wanted::differences(balancer, &plan);
    let ingress = wanted::ingress(balancer, asked.hostname.as_deref());
    if ingress.is_empty() {
        differences.push(format!("status is {}", balancer.status));
    }
    if differences.is_empty() { Standing::InStep(ingress) } else { Standing::Differs(differences) }
}
