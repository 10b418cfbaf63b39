//! Load balancers: found, made, changed, deleted.

#[cfg(test)]
pub(crate) mod tests;

use std::time::Duration;

use ccm_sdk::load_balancer_survey::{Standing, Wish};
use ccm_sdk::load_balancers::{Mark, Outcome};
use ccm_sdk::types::{Backend, Failure, Ingress, Service};

use crate::api::{self, Balancer};
use crate::desired;

/// When to look again at a balancer that is being built.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

pub(crate) fn get(service: &Service) -> Result<Option<Vec<Ingress>>, Failure> {
    Ok(find(service)?.map(|balancer| ingress(&balancer).into_iter().collect()))
}

/// The owner that stands on it.
pub(crate) fn mark(service: &Service) -> Result<Option<Mark>, Failure> {
    let mark = |balancer: Balancer| Mark { load_balancer: balancer.id, uid: Some(balancer.spec.owner) };
    Ok(find(service)?.map(mark))
}

pub(crate) fn ensure(service: &Service, backends: &[Backend]) -> Outcome {
    let mut outcome = Outcome::gone();
    let done = make(service, backends, &mut outcome);
    ended(outcome, done)
}

pub(crate) fn update_backends(service: &Service, backends: &[Backend]) -> Outcome {
    let mut outcome = Outcome::gone();
    let done = change_members(service, backends, &mut outcome);
    ended(outcome, done)
}

pub(crate) fn delete(service: &Service) -> Outcome {
    let mut outcome = Outcome::gone();
    outcome.failure = remove(service, &mut outcome.changes).err();
    let id = desired::id_annotation();
    if outcome.failure.is_none() && service.annotation(&id).is_some() {
        outcome.annotations.push((id, None));
    }
    outcome
}

pub(crate) fn survey(backends: &[Backend], wishes: &[Wish]) -> Result<Vec<Standing>, Failure> {
    let all = api::all()?;
    Ok(wishes.iter().map(|wish| standing(&all, backends, wish)).collect())
}

fn standing(all: &[Balancer], backends: &[Backend], wish: &Wish) -> Standing {
    let index = |index: &u32| backends.get(usize::try_from(*index).ok()?);
    let Some(backends) = wish.backends.iter().map(index).collect::<Option<Vec<_>>>() else {
        return Standing::Unknown(Failure::retry("a wish names a backend that is not in the list"));
    };
    let backends: Vec<Backend> = backends.into_iter().cloned().collect();
    let desired = match desired::spec(&wish.service, &backends) {
        Ok(desired) => desired,
        Err(failure) => return Standing::Unknown(failure),
    };
    let Some(balancer) = all.iter().find(|balancer| balancer.spec.owner == desired::owner(&wish.service)) else {
        return Standing::Missing;
    };
    let mut differences = desired::differences(balancer, &desired);
    match ingress(balancer) {
        Some(ingress) if differences.is_empty() => Standing::InStep(vec![ingress]),
        Some(_) => Standing::Differs(differences),
        None => {
            differences.push("address".to_owned());
            Standing::Differs(differences)
        }
    }
}

/// By the ID that stands on the Service, else by the owner that stands on the balancer.
fn find(service: &Service) -> Result<Option<Balancer>, Failure> {
    if let Some(id) = service.annotation(&desired::id_annotation()).filter(|id| !id.is_empty())
        && let Some(balancer) = api::get(id)?
    {
        return Ok(Some(balancer));
    }
    // The oldest, should there ever be several; a deletion takes all.
    Ok(api::owned_by(&desired::owner(service))?.into_iter().next())
}

fn make(service: &Service, backends: &[Backend], outcome: &mut Outcome) -> Result<Balancer, Failure> {
    let desired = desired::spec(service, backends)?;
    let Some(balancer) = find(service)? else {
        let balancer = api::create(&desired)?;
        note(service, &balancer, outcome);
        outcome.changes.push(format!("created {}", balancer.id));
        return Ok(balancer);
    };
    note(service, &balancer, outcome);
    let mut differences = desired::differences(&balancer, &desired);
    if balancer.spec.owner != desired.owner {
        differences.push("owner".to_owned());
    }
    if differences.is_empty() {
        return Ok(balancer);
    }
    let changed = api::replace(&balancer.id, &desired)?;
    outcome.changes.push(format!("changed {}: {}", changed.id, differences.join(", ")));
    Ok(changed)
}

fn change_members(service: &Service, backends: &[Backend], outcome: &mut Outcome) -> Result<Balancer, Failure> {
    let Some(balancer) = find(service)? else {
        return Err(Failure::conflict("there is no load balancer whose members could be changed"));
    };
    note(service, &balancer, outcome);
    let members = desired::members(backends.iter());
    if balancer.spec.members == members {
        return Ok(balancer);
    }
    let changed = api::replace_members(&balancer.id, &members)?;
    outcome.changes.push(format!("{} has {} members", changed.id, members.len()));
    Ok(changed)
}

/// Also what a crash left behind.
fn remove(service: &Service, changes: &mut Vec<String>) -> Result<(), Failure> {
    for balancer in api::owned_by(&desired::owner(service))? {
        if api::delete(&balancer.id)? {
            changes.push(format!("deleted {}", balancer.id));
        }
    }
    Ok(())
}

/// Writes the ID down where it is not.
fn note(service: &Service, balancer: &Balancer, outcome: &mut Outcome) {
    let id = desired::id_annotation();
    if service.annotation(&id) != Some(&balancer.id) {
        outcome.annotations.push((id, Some(balancer.id.clone())));
    }
}

fn ended(mut outcome: Outcome, done: Result<Balancer, Failure>) -> Outcome {
    match done {
        Ok(balancer) => match ingress(&balancer) {
            Some(ingress) => outcome.ingress.push(ingress),
            None => {
                let failure = Failure::pending(format!("{} is being built", balancer.id)).after(LOOK_AGAIN);
                outcome.failure = Some(failure);
            }
        },
        Err(failure) => outcome.failure = Some(failure),
    }
    outcome
}

fn ingress(balancer: &Balancer) -> Option<Ingress> {
    balancer.address.as_ref().map(Ingress::ip)
}
