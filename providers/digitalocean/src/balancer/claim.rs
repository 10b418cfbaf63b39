//! A load balancer is made as, or becomes, that of its Service: the tag says so.

use std::time::Duration;

use ccm_sdk::Done;
use ccm_sdk::types::{Failure, Reaction};
use ccm_sdk::{Answer, cache};

use super::left_out::LeftOut;
use super::owner::{another, goes_by, refused};
use super::service_tag::{is_own, of_other_services, tag_of, words};
use super::work::Work;
use super::{lookup, without_tags};
use crate::annotations as names;
use crate::api;
use crate::api::balancers::{self, Balancer, Spec};
use crate::api::tags;
use crate::backends::Chosen;
use crate::certificate;

/// Reasons of Events.
const TAKEN_OVER: &str = "LoadBalancerTakenOver";
const UNMARKED: &str = "LoadBalancerNotMarked";

/// How long a token that may not change tags is not tried again. Whoever widens its scopes is in no hurry.
const REFUSED: Duration = Duration::from_secs(3_600);

impl Work<'_> {
    /// Makes a new one, with the Service's tag. The API's description has tags in that request, and does not say that it makes those
    /// that are not there, nor that a token without rights on tags may send them. It is assumed that it does; where it says no,
    /// the tag is made and the request repeated once, and else the load balancer is made without.
    pub(super) fn create(
        &self,
        spec: &mut Spec,
        chosen: &Chosen<'_>,
        done: &mut Done,
    ) -> Result<Option<Balancer>, Failure> {
        let answer = self.post_accepted(spec, chosen, done)?;
        // Without this, one that nobody can make was asked for three times at each try.
        if answer.status() == 404 && spec.certificate().is_some_and(certificate::is_missing) {
            return Ok(None);
        }
        let own = tag_of(self.service, self.service_spec).filter(|_| balancers::may_be_about_tags(&answer));
        let Some(own) = own else { return balancers::created(answer) };
        let why = match tags::create(&own) {
            Ok(()) => {
                let answer = self.post(spec)?;
                if !balancers::may_be_about_tags(&answer) {
                    return balancers::created(answer);
                }
                answer.done().err()
            }
            Err(failure) if failure.reaction != Reaction::Conflict && goes_by(&failure) => return Err(failure),
            Err(failure) => Some(failure),
        };
        spec.tags.retain(|tag| *tag != own);
        let created = balancers::created(self.post(spec)?)?;
        if let (Some(balancer), Some(failure)) = (&created, why) {
            done.warn(UNMARKED, unmarked(balancer, &failure));
        }
        Ok(created)
    }

    /// Without the droplets that the cloud refuses, as long as some are left.
    fn post_accepted(&self, spec: &mut Spec, chosen: &Chosen<'_>, done: &mut Done) -> Result<Answer, Failure> {
        let all = std::mem::take(&mut spec.droplet_ids);
        let mut left_out = LeftOut::known(&all, self.config.vpc.as_deref());
        spec.droplet_ids =
            Some(left_out.rest(&all, &[])).filter(|rest| !rest.is_empty()).unwrap_or_else(|| all.clone());
        let mut answer = self.post(spec)?;
        if api::is_about_droplets(&answer) && left_out.ask(&answer, &spec.droplet_ids, &[]) {
            let rest = left_out.rest(&all, &[]);
            if rest.is_empty() {
                return Ok(answer);
            }
            spec.droplet_ids = rest;
            answer = self.post(spec)?;
        }
        if spec.droplet_ids != all {
            left_out.tell("the new load balancer", chosen, done);
        }
        Ok(answer)
    }

    fn post(&self, spec: &Spec) -> Result<Answer, Failure> {
        let asked_before = without_tags::asks(self.service, &spec.name);
        let answer = balancers::create(spec)?;
        // The name may be taken by the one that was asked for before.
        if !asked_before {
            without_tags::is_refused(self.service, &answer);
        }
        Ok(answer)
    }

    /// Sees to it that the tags do not name somebody else, and name the Service where it was found by its name.
    ///
    /// # Errors
    ///
    /// It has become another's meanwhile, or cannot be marked.
    pub(super) fn claim(&self, balancer: &mut Balancer, done: &mut Done) -> Result<(), Failure> {
        let service = self.service;
        if lookup::has_id_of(service)(balancer) {
            return self.take_over(balancer, done);
        }
        let Some(tag) = tag_of(service, self.service_spec) else { return Ok(()) };
        if balancer.name != self.service_spec.name || is_own(service, balancer) {
            return Ok(());
        }
        // It was seen in a listing, and another Service may have taken it since.
        let Some(now) = balancers::get(&balancer.id)? else {
            return Err(Failure::conflict(format!("load balancer {} is gone", balancer.id)));
        };
        if let Some(another) = another(self.config, service, &now) {
            return Err(refused(service, &now, &another));
        }
        *balancer = now;
        if is_own(service, balancer) {
            return Ok(());
        }
        put(&tag, balancer, done).map_err(|failure| {
            failure.context(format_args!(
                "load balancer {} has the name {:?} and cannot be marked as that of the Service, without which it is not taken over; annotation {} takes it over without",
                balancer.id,
                balancer.name,
                names::ID
            ))
        })
    }

    /// One that the ID on the Service leads to is the Service's, whose it ever was.
    fn take_over(&self, balancer: &mut Balancer, done: &mut Done) -> Result<(), Failure> {
        let others = of_other_services(self.service, balancer).into_iter().map(str::to_owned);
        for other in others.collect::<Vec<_>>() {
            let refused = format!("untag/{}/{other}", balancer.id);
            if cache::get(&refused).is_some() {
                continue;
            }
            let message = format!(
                "load balancer {} was that of {}, and annotation {} takes it over; where that Service is still there, it needs annotation {}: \"true\", or both change it",
                balancer.id,
                words(&other),
                names::ID,
                names::DISOWN
            );
            done.warn(TAKEN_OVER, message);
            let replaced = self.put_own(balancer, done).and_then(|()| tags::unassign(&other, &balancer.id));
            match replaced {
                Ok(()) => done.outcome.changes.push(format!("took tag {other} off {}", balancer.id)),
                Err(failure) if goes_by(&failure) => return Err(failure),
                Err(failure) => {
                    if failure.reaction == Reaction::Unauthorized {
                        cache::put(&refused, b"", REFUSED);
                    }
                    done.warn(UNMARKED, unmarked(balancer, &failure));
                }
            }
        }
        Ok(())
    }

    /// With another write, one that was made without the tag gets it: by another manager, or before the name was asked for.
    /// What the Service asks for does not wait for it.
    pub(super) fn mark(&self, balancer: &mut Balancer, done: &mut Done) {
        if let Err(failure) = self.put_own(balancer, done) {
            done.warn(UNMARKED, unmarked(balancer, &failure));
        }
    }

    /// Does nothing where it is there, or not needed, or the cloud does not tell.
    fn put_own(&self, balancer: &mut Balancer, done: &mut Done) -> Result<(), Failure> {
        let lacks = balancer.tags.is_some() && !is_own(self.service, balancer);
        let tag = tag_of(self.service, self.service_spec).filter(|_| lacks);
        tag.map_or(Ok(()), |tag| put(&tag, balancer, done))
    }
}

fn unmarked(balancer: &Balancer, failure: &Failure) -> String {
    format!(
        "the tags of load balancer {} do not say whose it is, and another Service with the same {} could take it; this is tried again, and a token of selected scopes needs tag:create, tag:read and tag:delete for it: {}",
        balancer.id,
        names::NAME,
        failure.message
    )
}

fn put(tag: &str, balancer: &mut Balancer, done: &mut Done) -> Result<(), Failure> {
    tags::put(tag, &balancer.id)?;
    balancer.tags.get_or_insert_default().push(tag.to_owned());
    done.outcome.changes.push(format!("tagged {} with {tag}", balancer.id));
    Ok(())
}
