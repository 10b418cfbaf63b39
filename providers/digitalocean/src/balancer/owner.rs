//! Whose a load balancer is, as its tags tell.
//!
//! | tag | where | says |
//! |---|---|---|
//! | `k8s:` and an ID | the operator names the cluster | of which cluster it is |
//! | `wasm-ccm-service:`, UID, namespace and name | its Service asks for a name | of which Service it is |
//!
//! The default name has the UID of its Service in it, and nobody else asks for it. One that is asked for is anybody's: who is not
//! named by the tag does not take, and does not delete, what has that name. The ID on a Service counts more, as people write it
//! there to take one over: then the tag follows. But not one of another cluster: an ID that leads there came with a copy, and the
//! Service of that cluster is none that could be asked. Tags of others stay. The tag of a Service goes after its load balancer, if the token
//! may delete tags and the cloud is well: nobody waits for it.

use std::time::Duration;

use ccm_sdk::types::{Failure, Reaction, Service};
use ccm_sdk::{Answer, cache, log};

use super::{Done, Work, lookup, untold};
use crate::annotations as names;
use crate::api::balancers::{self, Balancer, Spec};
use crate::api::tags;
use crate::asked::{Asked, default_name};
use crate::certificate;
use crate::config::{CLUSTER_TAG, Config, is_tag};
use crate::tag;

const SERVICE_TAG: &str = "wasm-ccm-service:";

/// Reasons of Events.
const TAKEN_OVER: &str = "LoadBalancerTakenOver";
const UNMARKED: &str = "LoadBalancerNotMarked";
pub(super) const SPARED: &str = "LoadBalancerNotDeleted";

/// How long a token that may not change tags is not tried again. Whoever widens its scopes is in no hurry.
const REFUSED: Duration = Duration::from_secs(3_600);

/// How long it is known which tag a load balancer had that was deleted, should nobody have heard of that.
const REMEMBERED: Duration = Duration::from_secs(3_600);

/// What a new one has.
pub(crate) fn tags_of_new(config: &Config, service: &Service, asked: &Asked) -> Vec<String> {
    config.tag.iter().cloned().chain(tag_of(service, asked)).collect()
}

pub(super) fn tag_of(service: &Service, asked: &Asked) -> Option<String> {
    (asked.name != asked.default_name).then(|| service_tag(service)).filter(|tag| is_tag(tag))
}

pub(super) fn service_tag(service: &Service) -> String {
    let Service { uid, namespace, name, .. } = service;
    format!("{SERVICE_TAG}{uid}:{namespace}:{name}")
}

fn tags(balancer: &Balancer) -> impl Iterator<Item = &str> {
    balancer.tags.iter().flatten().map(String::as_str)
}

/// What comes after the prefix. Tags are the same in any case, and the account keeps that of whoever made one first.
fn after<'a>(prefix: &str, tag: &'a str) -> Option<&'a str> {
    let (start, rest) = tag.split_at_checked(prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then_some(rest)
}

fn is_of(tag: &str, service: &Service) -> bool {
    let uid = after(SERVICE_TAG, tag).and_then(|rest| rest.split(':').next());
    uid.is_some_and(|uid| uid.eq_ignore_ascii_case(&service.uid))
}

/// Whether it has the Service's tag.
pub(super) fn is_own(service: &Service, balancer: &Balancer) -> bool {
    own(service, balancer).is_some()
}

/// The Service's tag, as the account has it.
pub(super) fn own<'a>(service: &Service, balancer: &'a Balancer) -> Option<&'a str> {
    tags(balancer).find(|tag| is_of(tag, service))
}

pub(super) fn of_other_services<'a>(service: &Service, balancer: &'a Balancer) -> Vec<&'a str> {
    tags(balancer).filter(|tag| after(SERVICE_TAG, tag).is_some() && !is_of(tag, service)).collect()
}

/// The UID that it is marked with: in the tag, else in the name that is made of it. That lacks the last digit.
pub(super) fn uid(service: &Service, balancer: &Balancer) -> Option<String> {
    if is_own(service, balancer) {
        return Some(service.uid.clone());
    }
    let tagged = of_other_services(service, balancer).into_iter().filter_map(|tag| after(SERVICE_TAG, tag));
    let mut tagged = tagged.filter_map(|rest| rest.split(':').next()).map(|uid| uid.replace('-', ""));
    let is_uid = |uid: &str| uid.len() >= 31 && uid.bytes().all(|byte| byte.is_ascii_hexdigit());
    let named = || match balancer.name == default_name(service) {
        true => Some(service.uid.clone()),
        false => balancer.name.strip_prefix('a').filter(|uid| is_uid(uid)).map(str::to_owned),
    };
    tagged.find(|uid| is_uid(uid)).or_else(named)
}

/// Whose it is, if not this Service's, for people. One without any tag may be taken over by its name, as it always could be.
pub(super) fn another(config: &Config, service: &Service, balancer: &Balancer) -> Option<String> {
    if !untold::is_told(balancer) {
        return (!untold::is_own(service, balancer)).then(|| "whoever made it".to_owned());
    }
    if let Some(tag) = of_other_services(service, balancer).first() {
        return Some(words(tag));
    }
    is_of_another_cluster(config, service, balancer).then(|| cluster_words(balancer))
}

/// Whether its tags name a cluster, but not this one, and nothing says that it is this Service's: the cluster may have got another ID.
/// Then the ID on the Service comes from a copy.
pub(super) fn is_of_another_cluster(config: &Config, service: &Service, balancer: &Balancer) -> bool {
    let mut of_clusters = tags(balancer).filter(|tag| after(CLUSTER_TAG, tag).is_some()).peekable();
    let cluster = |tag: &str| config.tag.as_ref().is_some_and(|ours| ours.eq_ignore_ascii_case(tag));
    of_clusters.peek().is_some()
        && !of_clusters.any(cluster)
        && !is_own(service, balancer)
        && balancer.name != default_name(service)
}

fn cluster_words(balancer: &Balancer) -> String {
    format!("another cluster, by its tags {}", tags(balancer).collect::<Vec<_>>().join(", "))
}

/// The ID on the Service leads to it.
pub(super) fn foreign(balancer: &Balancer) -> Failure {
    Failure::conflict(format!(
        "load balancer {} is left alone: it belongs to {}. To have a new one, take annotation {} off. To take it over, take the tag of that cluster off it in the account, or annotate its Service there with wasm-ccm.io/orphan: digitalocean; where this cluster has another ID than it had, give it the tag of this one",
        balancer.id,
        cluster_words(balancer),
        names::ID
    ))
    .annotation(names::ID)
}

fn words(tag: &str) -> String {
    let mut parts = after(SERVICE_TAG, tag).unwrap_or(tag).splitn(3, ':').map(str::to_owned);
    let mut next = || parts.next().unwrap_or_default();
    let (uid, namespace, name) = (next(), next(), next());
    format!("Service {namespace}/{name} with the UID {uid}, by its tag {tag}")
}

/// It is not to be had by its name.
pub(super) fn refused(service: &Service, balancer: &Balancer, another: &str) -> Failure {
    if !untold::is_told(balancer) {
        let message = format!(
            "load balancer {} has the name {:?}, and DigitalOcean does not tell its tags, so that it may be another Service's; take another name for Service {}, or take it over with annotation {}: {:?}",
            balancer.id,
            balancer.name,
            service.full_name(),
            names::ID,
            balancer.id
        );
        return Failure::conflict(message).annotation(names::NAME);
    }
    Failure::conflict(format!(
        "load balancer {} has the name {:?} and belongs to {another}, not to Service {} with the UID {}; take another name, or take it over with annotation {}: {:?}",
        balancer.id,
        balancer.name,
        service.full_name(),
        service.uid,
        names::ID,
        balancer.id
    ))
    .annotation(names::NAME)
}

/// The ID on a Service that goes leads to it.
pub(super) fn spared(service: &Service, balancer: &Balancer) -> String {
    let of_services = of_other_services(service, balancer);
    let owner = of_services.first().map_or_else(|| cluster_words(balancer), |tag| words(tag));
    if !untold::is_told(balancer) {
        return format!(
            "load balancer {} with the name {:?} is left alone: DigitalOcean does not tell its tags, so that it may be another Service's. Delete it there if it is nobody's",
            balancer.id, balancer.name
        );
    }
    format!(
        "load balancer {} is left alone, although annotation {} names it: it belongs to {owner}, and was never taken over",
        balancer.id,
        names::ID
    )
}

impl Work<'_> {
    /// Makes a new one, with the Service's tag. The API's description has tags in that request, and does not say that it makes those
    /// that are not there, nor that a token without rights on tags may send them. It is assumed that it does; where it says no,
    /// the tag is made and the request repeated once, and else the load balancer is made without.
    pub(super) fn create(&self, spec: &mut Spec, done: &mut Done) -> Result<Option<Balancer>, Failure> {
        let answer = self.post(spec)?;
        // Without this, one that nobody can make was asked for three times at each try.
        if answer.status() == 404 && spec.certificate().is_some_and(certificate::is_missing) {
            return Ok(None);
        }
        let own = tag_of(self.service, self.asked).filter(|_| balancers::may_be_about_tags(&answer));
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

    fn post(&self, spec: &Spec) -> Result<Answer, Failure> {
        let asked_before = untold::asks(self.service, &spec.name);
        let answer = balancers::create(spec)?;
        // The name may be taken by the one that was asked for before.
        if !asked_before {
            untold::is_refused(self.service, &answer);
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
        let Some(tag) = tag_of(service, self.asked) else { return Ok(()) };
        if balancer.name != self.asked.name || is_own(service, balancer) {
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
        put(&tag, balancer, done).map_err(|failure| Failure {
            message: format!(
                "load balancer {} has the name {:?} and cannot be marked as that of the Service, without which it is not taken over; annotation {} takes it over without: {}",
                balancer.id,
                balancer.name,
                names::ID,
                failure.message
            ),
            ..failure
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
                Ok(()) => {
                    balancer.tags.iter_mut().for_each(|tags| tags.retain(|tag| *tag != other));
                    done.outcome.changes.push(format!("took tag {other} off {}", balancer.id));
                }
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
        let tag = tag_of(self.service, self.asked).filter(|_| lacks);
        tag.map_or(Ok(()), |tag| put(&tag, balancer, done))
    }
}

/// The tag of a Service whose load balancers go: they are asked for it before, and it goes after.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LastTag {
    key: String,
    tag: Option<String>,
}

impl LastTag {
    /// `tag` is what is on one that goes now. Who was interrupted finds none any more that has it, and remembers.
    pub(super) fn of(service: &Service, tag: Option<String>) -> Self {
        let key = format!("last-tag/{}", service.uid);
        match &tag {
            Some(tag) => cache::put(&key, tag.as_bytes(), REMEMBERED),
            None => return Self { tag: cache::get(&key).and_then(|tag| String::from_utf8(tag).ok()), key },
        }
        Self { key, tag }
    }

    /// Asked once, and not again: a tag is nobody's harm, and the Service goes in any case.
    pub(super) fn delete(self, done: &mut Done) {
        let Some(tag) = self.tag else { return };
        cache::forget(&self.key);
        match tags::delete(&tag) {
            Ok(true) => done.outcome.changes.push(format!("deleted tag {tag}")),
            Ok(false) => {}
            Err(failure) => log::info("a tag stays in the account", &[("tag", &tag), ("error", &failure.message)]),
        }
    }
}

/// As opposed to what a person has to change.
pub(super) const fn goes_by(failure: &Failure) -> bool {
    matches!(failure.reaction, Reaction::Retry | Reaction::Conflict | Reaction::Throttled | Reaction::Pending)
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
    tag::put(tag, &balancer.id)?;
    balancer.tags.get_or_insert_default().push(tag.to_owned());
    done.outcome.changes.push(format!("tagged {} with {tag}", balancer.id));
    Ok(())
}
