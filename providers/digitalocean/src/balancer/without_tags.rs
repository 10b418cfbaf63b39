//! Decides who owns a load balancer where the cloud returns no tags.
//!
//! The API's documentation has no tags in answers about load balancers. Its own client reads them, so that they are expected; but
//! a token without `tag:read` may see none, and the cloud may stop to tell them. Then this is known:
//!
//! | what | how |
//! |---|---|
//! | the ID on the Service leads to it | as ever |
//! | it has the default name | as ever: the Service's UID is in it; not where this process had it made for another Service |
//! | this process asked for it to be made, and heard no no | remembered for an hour: the answer was lost. What is older than the request is another's |
//! | the Service has no ID, and its tag is in the account | one was made for it, by a process that is no more |
//! | this process had it made for another Service, or has served another one with it since | remembered for longer: it is not this Service's, whatever it asked for, unless its ID leads there and it is served |
//!
//! Nothing else is taken for its name alone, nor deleted: it may be another Service's.

use std::time::Duration;

use ccm_sdk::types::Service;
use ccm_sdk::{Answer, cache, clock};

use super::service_tag::{self, service_tag};
use crate::api::balancers::Balancer;
use crate::api::tags;
use crate::moment;
use crate::service_spec::{ServiceSpec, id_of};

/// How long one answer with tags says that none in another means none.
const TOLD: Duration = Duration::from_secs(3_600);
const TOLD_KEY: &str = "balancer-tags-are-told";

/// Some answer had tags lately.
const SEEN_KEY: &str = "balancer-tags-are-seen";

/// How far clocks of the cloud differ, in seconds: what was made is told by one, and when it was asked for by another.
const SKEW: u64 = 5;

/// How long a load balancer that was asked for is expected.
const ASKED_FOR: Duration = Duration::from_secs(3_600);

/// How long it is known whom a load balancer serves: longer than anybody who asked for its name before expects one.
const SERVES: Duration = Duration::from_secs(2 * 3_600);

/// How long it is known whether a tag is in the account.
const LOOKED_UP: Duration = Duration::from_secs(60);

fn asked_for_key(service: &Service) -> String {
    format!("asked-for/{}", service.uid)
}

/// Notes that the cloud tells tags, where it is not plain from each answer.
pub(super) fn learn(all: &[Balancer]) {
    let told = |balancer: &Balancer| balancer.tags.is_some();
    if all.iter().any(told) && !all.iter().all(told) {
        cache::put(TOLD_KEY, b"", TOLD);
    }
}

/// Whether what another Service has just made will say whose it is, as far as is known.
pub(super) fn are_tags_seen() -> bool {
    cache::get(SEEN_KEY).is_some()
}

/// Whether its tags, or that it has none, are known.
pub(super) fn is_told(balancer: &Balancer) -> bool {
    balancer.tags.is_some() || cache::get(TOLD_KEY).is_some()
}

fn looked_key(service: &Service) -> String {
    format!("looked/{}", service.uid)
}

/// Notes that one was made: an answer to that with tags tells as much as one in a listing.
pub(super) fn made(balancer: &Balancer) {
    if balancer.tags.is_some() {
        cache::put(SEEN_KEY, b"", TOLD);
    }
}

/// Notes when the cloud was asked what it has, by its own clock: what is made for the Service is made later. A cloud that does not
/// tell the time has that of the host.
pub(super) fn looked(service: &Service, all: &[Balancer], date: Option<u64>) {
    all.iter().for_each(made);
    let seconds = date.unwrap_or_else(|| clock::since_epoch().as_secs());
    cache::put_json(&looked_key(service), &seconds, ASKED_FOR);
}

/// Name, and when it was asked for.
type AskedFor = (String, u64);

fn asked_for(service: &Service, name: &str) -> Option<AskedFor> {
    cache::get_json(&asked_for_key(service)).filter(|(asked, _): &AskedFor| asked == name)
}

/// One with that name is asked for now. Returns whether one was before.
pub(super) fn asks(service: &Service, name: &str) -> bool {
    let before = asked_for(service, name);
    let did = before.is_some();
    // The first request may have made it.
    let when = || cache::get_json(&looked_key(service)).unwrap_or_else(|| clock::since_epoch().as_secs());
    let asked = before.unwrap_or_else(|| (name.to_owned(), when()));
    cache::put_json(&asked_for_key(service), &asked, ASKED_FOR);
    did
}

/// What [`asks`] noted has come to nothing.
pub(super) fn is_refused(service: &Service, answer: &Answer) {
    if (400..500).contains(&answer.status()) {
        cache::forget(&asked_for_key(service));
    }
}

fn serves_key(id: &str) -> String {
    format!("serves/{id}")
}

/// Notes that a load balancer is the Service's.
pub(super) fn serves(service: &Service, balancer: &Balancer) {
    cache::put(&serves_key(&balancer.id), service.uid.as_bytes(), SERVES);
}

/// Whether this process has made it for another Service, or served that one with it last: its name is free to nobody else.
pub(super) fn is_anothers(service: &Service, balancer: &Balancer) -> bool {
    cache::get(&serves_key(&balancer.id)).is_some_and(|uid| uid != service.uid.as_bytes())
}

/// Whether this process has asked for one with its name, not after it was made, and not had that one made for another Service.
pub(super) fn is_asked_for(service: &Service, balancer: &Balancer) -> bool {
    if is_anothers(service, balancer) {
        return false;
    }
    let made = moment::find(&balancer.created_at).map_or(u64::MAX, |made| made.saturating_add(SKEW));
    asked_for(service, &balancer.name).is_some_and(|(_, asked)| asked <= made)
}

/// The Service has it no more.
pub(super) fn forget(service: &Service) {
    for key in [asked_for_key(service), tag_key(service)] {
        cache::forget(&key);
    }
}

/// Whether one with the name that a Service asks for is its own.
pub(super) fn is_own(service: &Service, balancer: &Balancer) -> bool {
    let is_named = || service_tag::other_in_name(service, balancer).is_none();
    let is_tagged = || id_of(service).is_none() && is_named() && !is_anothers(service, balancer) && has_tag(service);
    is_asked_for(service, balancer) || is_tagged()
}

fn tag_key(service: &Service) -> String {
    format!("tag-of/{}", service.uid)
}

/// Nobody but the Service's own manager makes its tag.
fn has_tag(service: &Service) -> bool {
    let key = tag_key(service);
    if let Some(known) = cache::get(&key) {
        return !known.is_empty();
    }
    // What cannot be asked proves nothing.
    let has = tags::exists(&service_tag(service)).unwrap_or(false);
    cache::put(&key, if has { b"has" } else { b"" }, LOOKED_UP);
    has
}

/// The tag that goes with load balancers whose tags nobody sees.
pub(super) fn last_tag(service: &Service, asked: &ServiceSpec, going: &[Balancer]) -> Option<String> {
    going.iter().any(|balancer| !is_told(balancer)).then(|| service_tag::tag_of(service, asked)).flatten()
}
