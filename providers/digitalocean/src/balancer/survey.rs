//! Compares many load balancers at once with what their Services ask for.

use ccm_sdk::Done;
use ccm_sdk::load_balancer_survey::{Standing, Wish};
use ccm_sdk::types::{Backend, Failure};

use super::done::told;
use super::former;
use super::lookup::{self, among};
use super::work::{Work, read};
use crate::api::balancers::Balancer;
use crate::backends::{self, Member};
use crate::config::Config;
use crate::desired::{self, Fixed};

/// How each stands, with what its Service should be told: one that is as it should be is never ensured, and would not hear of it.
pub(crate) fn survey(config: &Config, backends: &[Backend], wishes: &[Wish]) -> Result<Vec<(Standing, Done)>, Failure> {
    // Asks now: in an older listing, what was made or changed meanwhile looks as if somebody else had been at it.
    let seen = lookup::of_wishes(wishes)?;
    let members = backends::members(backends)?;
    let one = |wish: &Wish| {
        let mut done = Done::new();
        let standing = match (standing(config, &seen.all, &members, wish, &mut done), seen.doubt(&wish.service)) {
            // It may be among those that were not seen.
            (Ok(Standing::Missing), Some(failure)) => Standing::Unknown(failure.clone()),
            (standing, _) => standing.unwrap_or_else(Standing::Unknown),
        };
        (standing, done)
    };
    Ok(wishes.iter().map(one).collect())
}

fn standing(
    config: &Config,
    all: &[Balancer],
    members: &[Member<'_>],
    wish: &Wish,
    done: &mut Done,
) -> Result<Standing, Failure> {
    let member = |index: &u32| members.get(usize::try_from(*index).ok()?).copied();
    let members = wish.backends.iter().map(member).collect::<Option<Vec<_>>>();
    let members = members.ok_or_else(|| Failure::retry("a wish names a backend that is not in the list"))?;
    let (service_spec, problems) = read(&wish.service)?;
    let Some(balancer) = among(config, all, &wish.service, &service_spec) else { return Ok(Standing::Missing) };
    former::seen(balancer);
    let work = Work { config, service: &wish.service, service_spec: &service_spec };
    let fixed = Fixed::of(balancer, &service_spec, config)?;
    let chosen = work.choose(balancer, &fixed, &members, done);
    let plan = told(done, problems.of(Some(fixed.kind))).and_then(|()| work.plan(balancer, &fixed, &chosen, done));
    let is_behind = || balancer.status == "active" && backends::in_order(balancer.droplet_ids.clone()) != chosen.ids;
    let mut differences = match plan {
        Ok(plan) => desired::differences(balancer, &plan),
        // They follow the Nodes whatever else is wrong.
        Err(_) if is_behind() => vec!["droplets".to_owned()],
        Err(failure) => return Err(failure),
    };
    let ingress = desired::ingress(&wish.service, balancer, service_spec.hostname.as_deref());
    // Whoever is told only its address has nothing by which it is deleted, nor a tag that keeps it from others.
    if !lookup::has_id_of(&wish.service)(balancer) {
        differences.push("its ID is not on the Service".to_owned());
    }
    if ingress.is_empty() {
        differences.push(format!("status is {}", balancer.status));
    }
    Ok(if differences.is_empty() { Standing::InStep(ingress) } else { Standing::Differs(differences) })
}
