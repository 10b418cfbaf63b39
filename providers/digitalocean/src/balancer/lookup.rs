//! Finds the load balancer of a Service.

use std::collections::BTreeMap;
use std::time::Duration;

use ccm_sdk::cache;
use ccm_sdk::find::sees_the_cluster;
use ccm_sdk::load_balancer_survey::Wish;
use ccm_sdk::types::{Failure, Service};

use super::ProviderIds;
use super::last_tag::LastTag;
use super::{owner, service_tag, without_tags};
use crate::api::balancers::{self, Balancer};
use crate::config::Config;
use crate::find::Droplets;
use crate::service_spec::{ServiceSpec, id_of};

/// Calls for many Services that come together share one listing.
const SHARE: Duration = Duration::from_secs(1);

/// For so long after a write a listing may show what was before it: it is shared, and the cloud's own may lag by seconds.
const WRITTEN: Duration = Duration::from_secs(6);

fn written_key(id: &str) -> String {
    format!("written/{}", id.to_ascii_lowercase())
}

/// Notes a write or a deletion: Nodes that go and come back within a second must not find the load balancer as it was before they went.
pub(super) fn written(id: &str) {
    cache::put(&written_key(id), b"", WRITTEN);
}

/// Whether a load balancer is the one that the ID on the Service leads to.
pub(super) fn has_id_of(service: &Service) -> impl Fn(&Balancer) -> bool {
    let id = id_of(service);
    move |balancer| id.is_some_and(|id| balancer.has_id(id))
}

fn by_id(id: &str) -> Result<Option<Balancer>, Failure> {
    balancers::get(id).map_err(|failure| failure.context(format_args!("failed to get load-balancer by ID {id}")))
}

/// `glance`: a listing of a second ago will do for what is in it, and was not written meanwhile.
///
/// # Errors
///
/// The cloud cannot be asked, or the load balancer with the name that is asked for is another's, or that with the ID another
/// cluster's.
pub(crate) fn find(
    config: &Config,
    service: &Service,
    service_spec: &ServiceSpec,
    glance: bool,
) -> Result<Option<Balancer>, Failure> {
    match seek(config, service, service_spec, glance)? {
        Some(found) if owner::is_of_another_cluster(config, service, &found) => Err(owner::foreign(&found)),
        found => Ok(found),
    }
}

/// The same, whichever cluster's it is.
///
/// # Errors
///
/// The cloud cannot be asked, or the load balancer with the name that is asked for is another's.
pub(super) fn seek(
    config: &Config,
    service: &Service,
    service_spec: &ServiceSpec,
    glance: bool,
) -> Result<Option<Balancer>, Failure> {
    let id = id_of(service);
    let glance = glance && id.is_none_or(|id| cache::get(&written_key(id)).is_none());
    if let Some(id) = id.filter(|_| !glance)
        && let Some(balancer) = by_id(id)?
    {
        return Ok(Some(balancer));
    }
    // What has the name that is asked for may have been made a moment ago, for another Service.
    let is_new = id.is_none() && service_spec.name != service_spec.default_name && !without_tags::are_tags_seen();
    let listed = balancers::dated(if is_new { Duration::ZERO } else { SHARE });
    let listed = listed.map(|(all, date)| {
        if service_spec.name != service_spec.default_name {
            without_tags::looked(service, &all, date);
        }
        all
    });
    if let Some(id) = id.filter(|_| glance) {
        if let Some(balancer) = listed.iter().flatten().find(|balancer| balancer.has_id(id)) {
            return Ok(Some(balancer.clone()));
        }
        if let Err(failure) = &listed
            && !balancers::is_about_the_list(failure)
        {
            return Err(failure.clone());
        }
        // One that was just made may not be in a listing yet.
        if let Some(balancer) = by_id(id)? {
            return Ok(Some(balancer));
        }
    }
    let all = listed.or_else(|failure| named(service_spec, failure))?;
    if let Some(balancer) = among(config, &all, service, service_spec) {
        // The listing may be of the moment before it was deleted, or given up and renamed.
        if cache::get(&written_key(&balancer.id)).is_some() {
            return Ok(by_id(&balancer.id)?.filter(|now| now.name == balancer.name));
        }
        return Ok(Some(balancer.clone()));
    }
    taken(config, &all, service, service_spec).map_or(Ok(None), Err)
}

/// In place of a listing that cannot be had, those with the names of a Service.
fn named(service_spec: &ServiceSpec, failure: Failure) -> Result<Vec<Balancer>, Failure> {
    if !balancers::is_about_the_list(&failure) {
        return Err(failure);
    }
    let mut names = vec![service_spec.default_name.as_str(), service_spec.name.as_str()];
    names.dedup();
    balancers::named(&names).ok().flatten().ok_or(failure)
}

/// Those of many Services.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) all: Vec<Balancer>,
    /// Why there may be more.
    pub(crate) incomplete: Option<Failure>,
    /// By ID, why it was not seen.
    pub(crate) unread: BTreeMap<String, Failure>,
}

impl Seen {
    /// Why it is not known whether a Service has one that is none of these.
    pub(crate) fn doubt(&self, service: &Service) -> Option<&Failure> {
        self.unread(service).or(self.incomplete.as_ref())
    }

    /// Why the one that the ID on the Service leads to was not seen.
    pub(crate) fn unread(&self, service: &Service) -> Option<&Failure> {
        id_of(service).and_then(|id| self.unread.get(id))
    }

    /// Asks for those that Services name and the listing lacks: one that was just made, or that another's deletion has moved to a page
    /// that was read already.
    pub(crate) fn look_up<'a>(&mut self, services: impl Iterator<Item = &'a Service>) {
        for id in services.filter_map(id_of).take_while(|_| self.incomplete.is_none()) {
            if self.all.iter().any(|balancer| balancer.has_id(id)) || self.unread.contains_key(id) {
                continue;
            }
            match by_id(id) {
                Ok(balancer) => self.all.extend(balancer),
                Err(failure) => drop(self.unread.insert(id.to_owned(), failure)),
            }
        }
    }
}

/// Those of Services, as far as they can be had.
pub(crate) fn of_services<'a>(services: impl Iterator<Item = &'a Service>) -> Seen {
    let seen = listed_or_by_id("balancers/next-of-cluster", || services.filter_map(id_of).collect());
    seen.unwrap_or_else(|failure| Seen { incomplete: Some(failure), ..Seen::default() })
}

/// Those of wishes.
///
/// # Errors
///
/// None can be had.
pub(super) fn of_wishes(wishes: &[Wish]) -> Result<Seen, Failure> {
    listed_or_by_id("balancers/next", || wishes.iter().filter_map(|wish| id_of(&wish.service)).collect())
}

/// How long it is known which ID comes after the last one that a look at many has read.
const NEXT: Duration = Duration::from_secs(24 * 3_600);

/// All of the account; where the list cannot be had, those with these IDs, of which each look reads some.
///
/// # Errors
///
/// None can be had.
fn listed_or_by_id<'a>(next_key: &str, ids: impl FnOnce() -> Vec<&'a str>) -> Result<Seen, Failure> {
    let failure = match balancers::all(Duration::ZERO) {
        Ok(all) => return Ok(Seen { all, ..Seen::default() }),
        Err(failure) => failure,
    };
    let mut ids = ids();
    if ids.is_empty() || !balancers::is_about_the_list(&failure) {
        return Err(failure);
    }
    if ids.len() > balancers::MOST_BY_ID {
        let next = cache::get(next_key).and_then(|next| ids.iter().position(|id| id.as_bytes() == next));
        ids.rotate_left(next.unwrap_or_default());
        if let Some(next) = ids.get(balancers::MOST_BY_ID) {
            cache::put(next_key, next.as_bytes(), NEXT);
        }
    }
    let unread = || {
        Failure::retry(format!(
            "a look reads {} load balancers by their IDs, and this one in one of the next looks, since the list cannot be had: {}",
            balancers::MOST_BY_ID,
            failure.message
        ))
    };
    let known = balancers::by_id(&ids);
    if known.iter().all(Result::is_err) {
        return Err(known.into_iter().find_map(Result::err).unwrap_or(failure));
    }
    let mut seen = Seen::default();
    let known = known.into_iter().chain(std::iter::repeat_with(|| Err(unread())));
    for (id, known) in ids.into_iter().zip(known) {
        match known {
            Ok(balancer) => seen.all.extend(balancer),
            Err(failure) => drop(seen.unread.insert(id.to_owned(), failure)),
        }
    }
    seen.incomplete = Some(failure);
    Ok(seen)
}

/// Why none can be had with the name that is asked for, where it is another's.
fn taken(config: &Config, all: &[Balancer], service: &Service, service_spec: &ServiceSpec) -> Option<Failure> {
    without_tags::learn(all);
    let balancer = all.iter().find(|balancer| balancer.name == service_spec.name)?;
    let another = owner::another(config, service, balancer)?;
    Some(owner::refused(service, balancer, &another))
}

/// The cloud says that the name is taken, and the listing of a second ago did not show by whom.
pub(super) fn taken_now(config: &Config, service: &Service, service_spec: &ServiceSpec) -> Option<Failure> {
    taken(config, &balancers::all(Duration::ZERO).ok()?, service, service_spec)
}

/// By ID, else by name: the first in the list that has the default one, or the one asked for, where it is not another's.
pub(crate) fn among<'a>(
    config: &Config,
    all: &'a [Balancer],
    service: &Service,
    service_spec: &ServiceSpec,
) -> Option<&'a Balancer> {
    without_tags::learn(all);
    let is_known = has_id_of(service);
    let named = |balancer: &&Balancer| {
        (balancer.name == service_spec.default_name && !owner::is_squatted(service, balancer))
            || (balancer.name == service_spec.name && owner::another(config, service, balancer).is_none())
    };
    let known = |balancer: &&Balancer| is_known(balancer) && !owner::is_of_another_cluster(config, service, balancer);
    all.iter().find(known).or_else(|| all.iter().find(named))
}

/// What goes with a Service.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Going {
    pub(crate) all: Vec<Balancer>,
    /// What the ID on the Service leads to, where that is another Service's; or what has its name, where nothing says whose it is.
    pub(crate) spared: Option<Balancer>,
    /// The Service's tag, where nothing that stays has it.
    pub(super) tag: Option<LastTag>,
}

impl Going {
    /// What the ID on the Service leads to.
    fn known(&mut self, config: &Config, service: &Service, service_spec: &ServiceSpec, balancer: Balancer) {
        let is_free = || match without_tags::is_told(&balancer) {
            true => owner::another_by_tags(config, service, &balancer).is_none(),
            // Whoever takes it over gives it the name.
            false => {
                (balancer.name == service_spec.name && !without_tags::is_anothers(service, &balancer))
                    || without_tags::is_asked_for(service, &balancer)
            }
        };
        if balancer.name == service_spec.default_name || service_tag::is_own(service, &balancer) || is_free() {
            self.all.push(balancer);
        } else {
            self.spared = Some(balancer);
        }
    }
}

/// What the ID on the Service leads to, unless its tags name another Service and not this one: then nobody has taken it over. What
/// has the default name, unless another Service asked for that. Without an ID, or where the cloud has nothing with it, what has the
/// name that was asked for goes as well if the Service's tag is there: to a Service that was never served it never belonged, and the
/// name alone may be that of anybody's. Where nothing says whose it is, it is spared.
///
/// # Errors
///
/// The cloud cannot be asked, or has nothing of the Service and may be another account's.
pub(crate) fn all_of(
    config: &Config,
    service: &Service,
    service_spec: &ServiceSpec,
    nodes: ProviderIds,
) -> Result<Going, Failure> {
    // Asks now: what is overlooked here is paid for until somebody sees it.
    let listed = balancers::all(Duration::ZERO);
    let mut going = Going::default();
    let (id, is_known) = (id_of(service), has_id_of(service));
    let listed = match listed.or_else(|failure| named(service_spec, failure)) {
        Ok(listed) => listed,
        // What the ID leads to is all that can be seen.
        Err(failure) => {
            let known = id.filter(|_| balancers::is_about_the_list(&failure)).map(by_id).transpose()?;
            vec![known.flatten().ok_or(failure)?]
        }
    };
    without_tags::learn(&listed);
    let mut known = listed.iter().find(|balancer| is_known(balancer)).cloned();
    if let Some(id) = id.filter(|_| known.is_none()) {
        // One that was just made may not be in a listing yet.
        known = by_id(id)?;
    }
    let has_known = known.is_some();
    if let Some(balancer) = known {
        going.known(config, service, service_spec, balancer);
    }
    let mut staying = vec![];
    for balancer in listed.into_iter().filter(|balancer| !is_known(balancer)) {
        let is_own = || match without_tags::is_told(&balancer) {
            true => service_tag::is_own(service, &balancer) && owner::another(config, service, &balancer).is_none(),
            false => without_tags::is_asked_for(service, &balancer),
        };
        let is_named = !has_known && balancer.name == service_spec.name;
        let is_default = balancer.name == service_spec.default_name && !owner::is_squatted(service, &balancer);
        let is_unclear = || !without_tags::is_told(&balancer) || owner::another(config, service, &balancer).is_none();
        if is_default || (is_named && is_own()) {
            going.all.push(balancer);
        } else if is_named && is_unclear() {
            going.spared = Some(balancer);
        } else {
            staying.push(balancer);
        }
    }
    if id.is_some() && !has_known && going.all.is_empty() {
        sees_the_cluster(&Droplets, nodes)?;
    }
    let tag = going.all.iter().find_map(|balancer| service_tag::own(service, balancer)).map(str::to_owned);
    let tag = tag.or_else(|| without_tags::last_tag(service, service_spec, &going.all));
    let stays = staying.iter().any(|balancer| service_tag::is_own(service, balancer));
    going.tag = (!stays).then(|| LastTag::of(service, tag));
    Ok(going)
}
