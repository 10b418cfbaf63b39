//! Decides from its [tags](super::service_tag) which Service owns a load balancer.
//!
//! The default name has the UID of its Service in it, and says whose it is as well as a tag: it is for nobody else to ask for. Whoever
//! asked for it nevertheless, before its Service wanted a load balancer, has the tag, and keeps it. Any other name is anybody's: who is
//! not named by the tag does not take, and does not delete, what has that name. The ID on a Service counts more, as people write it
//! there to take one over: then the tag follows. But not one of another cluster: an ID that leads there came with a copy, and the
//! Service of that cluster is none that could be asked. Tags of others stay. The tag of a Service goes after its load balancer, if the token
//! may delete tags and the cloud is well: nobody waits for it.

use ccm_sdk::types::{Failure, Reaction, Service};

use super::lookup::has_id_of;
use super::service_tag::{after, is_own, of_other_services, other_in_name, tags, words};
use super::without_tags;
use crate::annotations as names;
use crate::api::balancers::Balancer;
use crate::config::{CLUSTER_TAG, Config};
use crate::service_spec::default_name;

/// Reason of Events.
pub(super) const SPARED: &str = "LoadBalancerNotDeleted";

/// Whose it is, if not this Service's, for people. One that neither tags nor a default name give to anybody may be taken over by its
/// name, as it always could be.
pub(super) fn another(config: &Config, service: &Service, balancer: &Balancer) -> Option<String> {
    let by_name = || {
        let uid = other_in_name(service, balancer).filter(|_| !is_own(service, balancer))?;
        Some(format!("the Service whose UID begins with {uid}, by its name"))
    };
    another_by_tags(config, service, balancer).or_else(by_name)
}

/// The same, whatever its name is: the ID on the Service leads there.
pub(super) fn another_by_tags(config: &Config, service: &Service, balancer: &Balancer) -> Option<String> {
    if !without_tags::is_told(balancer) {
        return (!without_tags::is_own(service, balancer)).then(|| "whoever made it".to_owned());
    }
    if let Some(tag) = of_other_services(service, balancer).first() {
        return Some(words(tag));
    }
    is_of_another_cluster(config, service, balancer).then(|| cluster_words(balancer))
}

/// Whether another Service has it, although it has this one's default name: it asked for that name first.
pub(super) fn is_squatted(service: &Service, balancer: &Balancer) -> bool {
    match without_tags::is_told(balancer) {
        true => !is_own(service, balancer) && !of_other_services(service, balancer).is_empty(),
        false => without_tags::is_anothers(service, balancer),
    }
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

/// It is not to be had by its name.
pub(super) fn refused(service: &Service, balancer: &Balancer, another: &str) -> Failure {
    if !without_tags::is_told(balancer) {
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

/// The ID on a Service that goes leads to it, or nothing but the name does.
pub(super) fn spared(service: &Service, balancer: &Balancer) -> String {
    let of_services = of_other_services(service, balancer);
    let owner = of_services.first().map_or_else(|| cluster_words(balancer), |tag| words(tag));
    if !without_tags::is_told(balancer) {
        return format!(
            "load balancer {} with the name {:?} is left alone: DigitalOcean does not tell its tags, so that it may be another Service's. Delete it there if it is nobody's",
            balancer.id, balancer.name
        );
    }
    if !has_id_of(service)(balancer) {
        return format!(
            "load balancer {} with the name {:?} is left alone: neither annotation {} nor a tag says that it is this Service's. Delete it there if it is nobody's",
            balancer.id,
            balancer.name,
            names::ID
        );
    }
    format!(
        "load balancer {} is left alone, although annotation {} names it: it belongs to {owner}, and was never taken over",
        balancer.id,
        names::ID
    )
}

/// As opposed to what a person has to change.
pub(super) const fn goes_by(failure: &Failure) -> bool {
    matches!(failure.reaction, Reaction::Retry | Reaction::Conflict | Reaction::Throttled | Reaction::Pending)
}
