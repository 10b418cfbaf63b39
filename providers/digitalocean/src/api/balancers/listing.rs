//! Many load balancers at once.
//!
//! Each has the IDs of all its droplets, up to 50 KiB of them, so that a page of 200 is too much for the cloud where clusters are
//! large. Pages are smaller, and become smaller still where one does not come. Where the list cannot be had at all, what is known
//! by its ID is read by it, and what is known by its name is asked for by that.

use std::time::Duration;

use ccm_sdk::types::{Failure, Reaction};
use ccm_sdk::{Answer, cache, send_all};

use super::{BALANCER, BALANCERS, Balancer, one_of};
use crate::api::{CLOUD, paging};
use crate::moment;

/// On one page. The Go manager came down to it from 200.
const PER_PAGE: usize = 50;

const LEAST_PER_PAGE: usize = 6;

/// Of a whole list: a call is given 32 MiB by the host, and has other uses for it.
const MOST_BYTES: usize = 20 << 20;

/// How long pages stay small once larger ones did not come.
const SMALL: Duration = Duration::from_secs(600);
const SMALL_KEY: &str = "balancers/per-page";

/// For so long after a list that did not come nobody asks for it: a hundred load balancers that follow a Node would all try.
const REFUSED: Duration = Duration::from_secs(10);
/// The same where it was too large: it is no smaller in a moment.
const TOO_LARGE: Duration = Duration::from_secs(300);
const REFUSED_KEY: &str = "balancers/no-list";

/// Most that one call reads by their IDs: each is a request, and an hour has 5,000.
pub(crate) const MOST_BY_ID: usize = 100;

/// Read together.
const AT_ONCE: usize = 16;

/// All of the account.
///
/// # Errors
///
/// The list cannot be had. [`by_id`] and [`named`] may do.
pub(crate) fn all(share: Duration) -> Result<Vec<Balancer>, Failure> {
    dated(share).map(|(all, _)| all)
}

/// The same, and when that was by the cloud's clock, in seconds since 1970, if it says so.
///
/// # Errors
///
/// As [`all`].
pub(crate) fn dated(share: Duration) -> Result<(Vec<Balancer>, Option<u64>), Failure> {
    if let Some(why) = cache::get_json::<String>(REFUSED_KEY) {
        return Err(Failure::retry(why));
    }
    let begun = cache::get_json(SMALL_KEY).unwrap_or(PER_PAGE);
    let (mut per_page, mut failed) = (begun, 0);
    loop {
        let paging = paging("/load_balancers", per_page).within(MOST_BYTES);
        let failure = match CLOUD.get(BALANCERS).share(share).list_dated(paging) {
            Ok((all, date)) => {
                if per_page < begun {
                    cache::put_json(SMALL_KEY, &per_page, SMALL);
                }
                return Ok((all, date.and_then(|date| moment::of_header(&date))));
            }
            Err(failure) => failure,
        };
        if !is_about_the_list(&failure) {
            return Err(failure);
        }
        let is_too_large = failure.reaction == Reaction::Quota;
        failed += usize::from(!is_too_large);
        let smaller = (per_page / 2).max(LEAST_PER_PAGE);
        // A cloud in trouble is not asked four times by one call.
        if smaller == per_page || failed > 1 {
            cache::put_json(SMALL_KEY, &smaller, SMALL);
            cache::put_json(REFUSED_KEY, &failure.message, if is_too_large { TOO_LARGE } else { REFUSED });
            return Err(failure);
        }
        per_page = smaller;
    }
}

/// Whether something smaller may come where the list does not: it is too large, or fails.
pub(crate) const fn is_about_the_list(failure: &Failure) -> bool {
    matches!(failure.reaction, Reaction::Quota | Reaction::Retry)
}

/// What the cloud has with an ID; `None` is gone.
type Known = Result<Option<Balancer>, Failure>;

/// Those with the first [`MOST_BY_ID`] of these IDs, in order.
pub(crate) fn by_id(ids: &[&str]) -> Vec<Known> {
    let ids = ids.get(..MOST_BY_ID).unwrap_or(ids);
    let mut found = vec![];
    for ids in ids.chunks(AT_ONCE) {
        let answers = send_all(ids.iter().map(|id| CLOUD.get(BALANCER).arg("id", id)).collect());
        let known = |(id, answer): (&&str, Result<Answer, Failure>)| {
            answer?.optional()?.map(|answer| one_of(id, answer)).transpose()
        };
        found.extend(ids.iter().zip(answers).map(known));
    }
    found
}

/// Those with one of these names. `None` where the cloud does not heed names: its own client has that filter, its documentation
/// does not.
///
/// # Errors
///
/// The cloud cannot be asked.
pub(crate) fn named(names: &[&str]) -> Result<Option<Vec<Balancer>>, Failure> {
    let request = names.iter().fold(CLOUD.get(BALANCERS), |request, name| request.query("names", name));
    let page = request.query("per_page", LEAST_PER_PAGE).send()?.page(paging("/load_balancers", LEAST_PER_PAGE))?;
    let load_balancers: Vec<Balancer> = page.items;
    let heeded = load_balancers.iter().all(|balancer| names.contains(&balancer.name.as_str()));
    Ok(heeded.then_some(load_balancers))
}
