//! Load balancers: found, made, changed, deleted.
//!
//! | rule | why |
//! |---|---|
//! | found by the ID on the Service, else by the tag with its UID | two clusters in one project may have the same name |
//! | each call looks at it once, and sends at most one write to it | Octavia is at work after each, for seconds or minutes, and nobody waits |
//! | compared before anything is written | what does not differ costs no write |
//! | its members follow the Nodes, also when the rest cannot be what the Service asks for | a mistake must not cost the Service its Nodes |
//! | what others have on it stays | load balancers are shared |

mod create;
mod delete;
mod done;
mod floating;
mod groups;
mod lookup;
mod moves;
mod orphan;
mod plan;
mod refusal;
mod seen;
mod step;
mod survey;
#[cfg(test)]
mod tests;
mod tls;
mod work;

use std::time::Duration;

use ccm_sdk::load_balancers::Mark;
use ccm_sdk::steps::Steps;
use ccm_sdk::types::{Backend, Failure, Ingress, Problem, Service};
use ccm_sdk::words::few;
use ccm_sdk::{Done, cache};

use crate::annotations as names;
use crate::api::octavia::{self, Balancer, Listener, Member};
use crate::config::Config;
use crate::desired::Port;

use self::done::{RENAMED, WITHOUT_ADDRESS, told};
use self::groups::Opened;
use self::plan::Known;
use self::refusal::both;
use self::seen::Seen;
use self::step::{Step, Writer};
use self::work::Work;

pub(crate) use self::survey::survey;
pub(crate) use self::work::Host;

/// Names in a message.
const SHOWN: usize = 3;
/// When to look again for the address of a Node.
const ADDRESSES: Duration = Duration::from_secs(10);

/// # Errors
///
/// The cloud cannot be asked.
pub(crate) fn get(config: &Config, host: &Host, service: &Service) -> Result<Option<Vec<Ingress>>, Failure> {
    let (mut work, mut problems) = Work::read(config, host, service);
    let mut done = Done::new();
    let Some(balancer) = work.find(&mut done)? else {
        work.prove_account()?;
        return Ok(None);
    };
    work.suit(Some(&balancer), &mut problems);
    let floating = match work.spec.internal || balancer.vip_port_id.is_empty() {
        true => None,
        false => crate::api::floating_ips::with("port_id", &balancer.vip_port_id)?.into_iter().next(),
    };
    if floating.is_none() && work.wants_floating_ip(&balancer) && work.network(&mut done)?.is_some() {
        // Its own address is not the one to publish.
        return Ok(Some(vec![]));
    }
    Ok(Some(work.ingress(floating.as_ref().map_or(&balancer.vip_address, |floating| &floating.address))))
}

/// Whose the load balancer is that a call for this Service would change.
///
/// # Errors
///
/// The cloud cannot be asked.
pub(crate) fn mark(config: &Config, host: &Host, service: &Service) -> Result<Option<Mark>, Failure> {
    let (work, _) = Work::read(config, host, service);
    let spec_names = &work.spec.names;
    let Some(balancer) = work.by_id()? else {
        let own = work.own()?.into_iter().next();
        return Ok(own.map(|own| Mark { load_balancer: own.id, uid: Some(service.uid.clone()) }));
    };
    let others = spec_names.other_uids(&balancer.tags);
    let uid = if balancer.tags.contains(&spec_names.uid) {
        Some(service.uid.clone())
    } else if !(others.is_empty() && spec_names.is_first(&balancer.name, &balancer.tags))
        && work.is_sharer(&balancer)?
    {
        return Ok(Some(share(&balancer, service)));
    } else if others.is_empty() {
        None
    } else if balancer.tags.contains(&spec_names.balancer) || work.had_one() {
        // One of before a restore, or that of a namesake; or the ID came with a copy.
        others.first().map(|uid| (*uid).to_owned())
    } else {
        // Somebody wrote the ID to share it: what this Service gets of it is its own.
        return Ok(Some(share(&balancer, service)));
    };
    Ok(Some(Mark { load_balancer: balancer.id, uid }))
}

/// What a Service has of a load balancer that it shares.
fn share(balancer: &Balancer, service: &Service) -> Mark {
    Mark { load_balancer: format!("{}/{}", balancer.id, service.uid), uid: Some(service.uid.clone()) }
}

pub(crate) fn ensure(config: &Config, host: &Host, service: &Service, backends: &[Backend]) -> Done {
    Done::of(|done| make(config, host, service, backends, done))
}

pub(crate) fn update_backends(config: &Config, host: &Host, service: &Service, backends: &[Backend]) -> Done {
    Done::of(|done| follow_nodes(config, host, service, backends, done))
}

pub(crate) fn delete(config: &Config, host: &Host, service: &Service) -> Done {
    Done::of(|done| {
        Work::read(config, host, service).0.delete(done)?;
        for name in [names::ID, names::ADDRESS] {
            if service.annotation(name).is_some() {
                done.unannotate(name);
            }
        }
        Ok(vec![])
    })
}

pub(crate) fn orphan(config: &Config, host: &Host, service: &Service) -> Done {
    Done::of(|done| Work::read(config, host, service).0.orphan(done).map(|()| vec![]))
}

/// What must not be changed by two calls at once: Services on one load balancer name its ID.
pub(crate) fn locks(config: &Config, host: &Host, service: &Service) -> Vec<String> {
    let (work, _) = Work::read(config, host, service);
    let id = work.spec.id.map(|id| format!("id {id}"));
    id.into_iter().chain([format!("name {}", work.spec.names.balancer)]).collect()
}

fn make(
    config: &Config,
    host: &Host,
    service: &Service,
    backends: &[Backend],
    done: &mut Done,
) -> Result<Vec<Ingress>, Failure> {
    let (mut work, mut problems) = Work::read(config, host, service);
    // What cannot be costs no request.
    let is_sought = work.is_sound() || work.spec.id.is_some() || !service.ingress.is_empty();
    let found = if is_sought { work.find(done) } else { Ok(None) };
    work.suit(found.as_ref().ok().and_then(Option::as_ref), &mut problems);
    let wrong = told(done, problems).err();
    let (found, wrong) = match (found?, wrong) {
        (None, Some(wrong)) => return Err(wrong),
        known => known,
    };
    let chosen = work.chosen(backends)?;
    let Some(balancer) = found else {
        work.check_tls()?;
        work.check_pattern()?;
        work.prove_gone(done)?;
        return work.create(&chosen, done);
    };
    if balancer.status == "PENDING_DELETE" {
        return Err(Failure::pending(format!("load balancer {} is being deleted", balancer.id)).after(ADDRESSES));
    }
    work.admit(&balancer)?;
    if let Some(wrong) = wrong {
        return Err(both(wrong, work.follow(&balancer, &chosen, Scope::Members, done)));
    }
    if balancer.status == "ERROR" {
        return work.renew(&balancer, done);
    }
    if let Err(missing) = work.check_tls() {
        return Err(both(missing, work.follow(&balancer, &chosen, Scope::Rest, done)));
    }
    work.note(names::ID, &balancer.id, done);
    if balancer.tags.contains(&work.spec.names.uid)
        && !balancer.vip_address.is_empty()
        && service.annotation(names::ADDRESS).is_none()
    {
        // Not all clouds name it at once. It says that the ID was not written by a person.
        work.note(names::ADDRESS, &balancer.vip_address, done);
    }
    work.tell_new_name(&balancer, done);
    let opened = work.open_and_bring(&balancer, &chosen, Scope::All, done)?;
    let closed = opened.and_then(|opened| groups::close(&work, opened, done));
    let address = match work.address(&balancer, done) {
        Ok(address) => address,
        Err(failure) => return Err(both(failure, closed)),
    };
    work.note(names::ADDRESS, &address, done);
    closed?;
    work.remark(&balancer, &chosen, done);
    Ok(work.publish(&balancer, &address))
}

fn follow_nodes(
    config: &Config,
    host: &Host,
    service: &Service,
    backends: &[Backend],
    done: &mut Done,
) -> Result<Vec<Ingress>, Failure> {
    let (mut work, mut problems) = Work::read(config, host, service);
    let found = work.find(done)?;
    work.suit(found.as_ref(), &mut problems);
    let Some(balancer) = found else {
        let name = work.spec.id.as_deref().unwrap_or(&work.spec.names.balancer);
        let way_out = match Problem::refusal(problems) {
            Some(wrong) => format!("correct the Service first, then it is made: {}", wrong.message),
            None => "it is made when the Service is next ensured".to_owned(),
        };
        let message = format!("load balancer {name} is not there, so its members cannot follow the Nodes; {way_out}");
        return Err(Failure::conflict(message));
    };
    if balancer.status == "ERROR" {
        // What cannot be made again is not deleted.
        Problem::refusal(problems).map_or(Ok(()), Err)?;
        return work.renew(&balancer, done);
    }
    work.admit(&balancer)?;
    let chosen = work.chosen(backends)?;
    work.follow(&balancer, &chosen, Scope::Members, done)?;
    work.remark(&balancer, &chosen, done);
    match service.ingress.is_empty() {
        false => Ok(service.ingress.clone()),
        true => Ok(work.publish(&balancer, &work.address(&balancer, done)?)),
    }
}

/// How much of a load balancer is brought to what it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    All,
    /// All where a port has nothing that could have members.
    Members,
    /// Members of what there is, whatever else is missing.
    Rest,
}

/// So many pools whose members are refused are enough for a call.
const MOST_REFUSED: usize = 8;
/// How long it is known which listeners a load balancer has, for members alone. The tree tells when that is not so.
const KNOWN: Duration = Duration::from_secs(600);

impl Work<'_> {
    /// On the Service, unless it is there.
    fn note(&self, name: &str, value: &str, done: &mut Done) {
        if self.service.annotation(name) != Some(value) {
            done.annotate(name, value);
        }
    }

    /// Where clients reach the Service from now on.
    fn publish(&self, balancer: &Balancer, address: &str) -> Vec<Ingress> {
        create::serves(&balancer.id);
        self.ingress(address)
    }

    /// Whether this Service may use it.
    fn admit(&self, balancer: &Balancer) -> Result<(), Failure> {
        let spec_names = &self.spec.names;
        // Who is named there and was not refused shares it already.
        let is_named = balancer.tags.contains(&spec_names.balancer);
        if is_named || spec_names.are_own(&balancer.tags) || self.is_owner(balancer) {
            return Ok(());
        }
        let others = spec_names.others(&balancer.tags);
        let most = usize::try_from(self.config.balancers.most_shared).unwrap_or(usize::MAX);
        if others.len() >= most {
            let message = format!(
                "load balancer {} already shared with {} Services; max-shared-lb is {most}: raise it in [LoadBalancer], or remove annotation {} to get another load balancer",
                balancer.id,
                others.len(),
                names::ID
            );
            return Err(Failure::conflict(message).annotation(names::ID));
        }
        if self.spec.internal {
            let message = format!(
                "internal Service cannot share load balancer {}, which is another Service's: remove annotation {} to get another load balancer, or set {} to false",
                balancer.id,
                names::ID,
                names::INTERNAL
            );
            return Err(Failure::invalid(message).annotation(names::INTERNAL));
        }
        Ok(())
    }

    /// The cluster has another name than when the load balancer was made.
    fn tell_new_name(&self, balancer: &Balancer, done: &mut Done) {
        if let Some(name) = self.spec.names.renamed(&balancer.name).filter(|_| self.is_owner(balancer)) {
            let message = format!("load balancer {} is renamed from {} to {name}", balancer.id, balancer.name);
            done.warn(RENAMED, message);
        }
    }

    /// Brings it to what it should be, a write in each call. What is refused for good does not keep Nodes from the ports that can have them:
    /// it is returned when their members are as they should be.
    ///
    /// # Errors
    ///
    /// Octavia is at work, or not all members could follow.
    fn bring(
        &self,
        balancer: &Balancer,
        chosen: &[&Backend],
        mut scope: Scope,
        done: &mut Done,
    ) -> Result<Option<Failure>, Failure> {
        let ports = self.ports(balancer, chosen);
        let mut refused: Option<Failure> = None;
        // Pools whose members are refused.
        let mut spared: Vec<String> = vec![];
        loop {
            let plan = || {
                let mut steps = match scope {
                    Scope::All => self.plan(balancer, &ports),
                    Scope::Members | Scope::Rest => self.plan_members(balancer, &ports, scope),
                }?;
                let is_spared = |pool: &str| spared.iter().any(|other| other == pool);
                steps.retain(|step| !step.pool_of_members().is_some_and(is_spared));
                Ok(steps)
            };
            let writer = Writer::new(balancer, self.service, plan);
            let wish = format!("{scope:?} {ports:?}");
            let result = Steps::new(&balancer.id, &wish).run(&writer, done);
            let pool = writer.refused_pool.take();
            writer.tell(done);
            let Err(failure) = result else { break };
            if !refusal::is_final(&failure) {
                return Err(failure);
            }
            // Once it is the members alone, each further no is to those of another pool.
            if scope == Scope::Rest && (pool.is_none() || spared.len() >= MOST_REFUSED) {
                return Err(refused.unwrap_or(failure));
            }
            refused.get_or_insert(failure);
            spared.extend(pool);
            scope = Scope::Rest;
        }
        if scope == Scope::All {
            seen::believe(&balancer.id, self.uid(), &ports);
        }
        match refused {
            Some(refused) if !spared.is_empty() => Err(refused),
            refused => Ok(refused),
        }
    }

    /// Opens the security group, and brings the load balancer to what it should be also where that fails. With its failure nothing is to be
    /// closed: members that did not follow may still be where the group lets them be reached.
    fn open_and_bring(
        &self,
        balancer: &Balancer,
        chosen: &[&Backend],
        scope: Scope,
        done: &mut Done,
    ) -> Result<Result<Option<Opened>, Failure>, Failure> {
        let opened = groups::open(self, balancer, chosen, done);
        match self.bring(balancer, chosen, scope, done) {
            Ok(None) => Ok(opened),
            Ok(Some(refused)) | Err(refused) => {
                let unopened = opened.and_then(|opened| opened.map_or(Ok(()), |opened| opened.unopened));
                Err(both(refused, unopened))
            }
        }
    }

    /// One in ERROR takes no change, and is made anew if it may be. The rules of OVN do not wait for that.
    fn renew(&self, balancer: &Balancer, done: &mut Done) -> Result<Vec<Ingress>, Failure> {
        let opened = groups::open(self, balancer, &[], done);
        self.replace(balancer, done).map_err(|failure| both(failure, opened))
    }

    /// Nothing but the members, and their security group. Where that fails, members that have left go all the same.
    fn follow(&self, balancer: &Balancer, chosen: &[&Backend], scope: Scope, done: &mut Done) -> Result<(), Failure> {
        let opened = self.open_and_bring(balancer, chosen, scope, done)??;
        // Where something else is missing, members may still have to move to another subnet.
        if scope == Scope::Rest { Ok(()) } else { groups::close(self, opened, done) }
    }

    fn plan(&self, balancer: &Balancer, ports: &[Port]) -> Result<Vec<Step>, Failure> {
        let seen = Seen::read(balancer, self.uid(), ports)?;
        self.know(balancer, &seen.listeners);
        self.check_moves(balancer, ports, &seen)?;
        plan::steps(self, balancer, ports, &seen)
    }

    /// Notes which listeners the Service has.
    fn know(&self, balancer: &Balancer, listeners: &[Listener]) -> Known {
        let own = listeners.iter().filter(|listener| self.is_own(balancer, &listener.tags));
        let known: Known = own
            .map(|listener| {
                let pool = listener.default_pool_id.clone().unwrap_or_default();
                (listener.id.clone(), listener.protocol.clone(), listener.protocol_port, pool)
            })
            .collect();
        cache::put_json(&self.known_key(balancer), &known, KNOWN);
        known
    }

    fn plan_members(&self, balancer: &Balancer, ports: &[Port], scope: Scope) -> Result<Vec<Step>, Failure> {
        let tree = seen::tree(&balancer.id)?;
        let is_there = |(id, _, _, pool): &(String, String, u16, String)| {
            let branch = tree.listeners.iter().find(|branch| branch.id == *id);
            branch.is_some_and(|branch| pool.is_empty() || branch.pools.iter().any(|twig| twig.id == *pool))
        };
        let known: Option<Known> = cache::get_json(&self.known_key(balancer));
        let known = match known.filter(|known| known.iter().all(is_there)) {
            Some(known) => known,
            None => self.know(balancer, &octavia::listeners(&balancer.id)?),
        };
        let seen = Seen { members: seen::members_of(tree), ..Seen::default() };
        let (steps, whole) = plan::members(self, balancer, ports, &known, &seen);
        if !self.is_sound() && !steps.is_empty() {
            return Ok(plan::members(self, balancer, &beside(ports, &known)?, &known, &seen).0);
        }
        // A port has no listener. What cannot be is not made instead.
        if whole || scope == Scope::Rest || !self.is_sound() { Ok(steps) } else { self.plan(balancer, ports) }
    }

    /// Several Services may have listeners on it.
    fn known_key(&self, balancer: &Balancer) -> String {
        format!("listeners/{}/{}", balancer.id, self.uid())
    }

    /// Nodes that have addresses, and none that the load balancer could reach. One that has none yet is a member as soon as it has: the host
    /// calls again.
    fn remark(&self, balancer: &Balancer, chosen: &[&Backend], done: &mut Done) {
        let without = self.unreachable(chosen, self.family(Some(balancer)));
        if !without.is_empty() {
            let message = format!(
                "Nodes without an address of the load balancer's family are no members: {}",
                few(without, SHOWN)
            );
            done.warn(WITHOUT_ADDRESS, message);
        }
    }
}

/// With members in the subnet of those that are there: which one the Service asks for cannot be read.
fn beside(ports: &[Port], known: &Known) -> Result<Vec<Port>, Failure> {
    let mut ports = ports.to_vec();
    if let Some(there) = member_there(known)? {
        for member in ports.iter_mut().flat_map(|port| &mut port.members) {
            member.subnet_id.clone_from(&there.subnet_id);
        }
    }
    Ok(ports)
}

/// A member that the Service has, of whichever port, as Octavia has it.
fn member_there(known: &Known) -> Result<Option<Member>, Failure> {
    for (.., pool) in known.iter().filter(|(.., pool)| !pool.is_empty()) {
        if let Some(there) = octavia::members(pool)?.into_iter().next() {
            return Ok(Some(there));
        }
    }
    Ok(None)
}
