//! Accounts with more droplets than one call can read: the host gives a call 32 MiB of answers, and a droplet has up to 8 KiB,
//! of which Nodes need a fortieth part.
//!
//! Every call reads some pages and keeps that part in the host's cache, so that a few calls have read all. From then on a call
//! takes what is kept and renews some pages in their turn: whoever is asked about every minute is some minutes old at most.
//! Nothing of this says that a droplet is gone.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::time::Duration;

use ccm_sdk::types::Failure;
use ccm_sdk::{Request, cache, send_all};

use super::{DROPLETS, Droplet, Listed, Many};
use crate::api::{CLOUD, PER_PAGE};

/// Most pages that one call reads: 20 MiB.
pub(super) const PAGES: usize = 12;

/// Most that the cache has room for besides: 3 MiB of 4.
const MOST_PAGES: usize = 60;

/// How long what was read serves. The host asks for all Nodes every 5 min.
const KEPT: Duration = Duration::from_secs(900);

/// The page that is renewed next.
const NEXT: &str = "droplets/next";

fn key(page: usize) -> String {
    format!("droplets/{page}")
}

/// Is there for as long as the page need not be renewed.
fn fresh(page: usize) -> String {
    format!("droplets/{page}/fresh")
}

fn page(number: usize, share: Duration) -> Request {
    CLOUD.get(DROPLETS).query("page", number).query("per_page", PER_PAGE).share(share)
}

pub(super) fn all(share: Duration) -> Result<Listed, Failure> {
    let first: Many = page(1, share).send()?.json()?;
    let pages = first.meta.total.unwrap_or_default().div_ceil(PER_PAGE);
    if pages > MOST_PAGES {
        let most = MOST_PAGES * PER_PAGE;
        return Err(Failure::quota(format!(
            "the account has more than {most} droplets, which is more than can be listed; give the cluster an account of its own"
        )));
    }
    // Of those after the first, which says how many there are now.
    let mut kept: Vec<Option<Vec<Droplet>>> = (2..=pages).map(|page| cache::get_json(&key(page))).collect();
    let unread = |page: &usize| kept.get(page - 2).is_some_and(Option::is_none);
    let next = cache::get_json(NEXT).unwrap_or(2);
    let mut due: Vec<usize> = (next..=pages).chain(2..next.min(pages + 1)).collect();
    due.retain(|page| unread(page) || cache::get(&fresh(*page)).is_none());
    // What nobody has read yet goes first.
    due.sort_by_key(|page| !unread(page));
    due.truncate(PAGES - 1);
    for (number, answer) in due.iter().zip(send_all(due.iter().map(|number| page(*number, share)).collect())) {
        let read: Many = answer?.json()?;
        if read.droplets.is_empty() && *number < pages {
            return Err(Failure::retry(format!("page {number} of {pages} of the droplets is empty")));
        }
        cache::put_json(&key(*number), &read.droplets, KEPT);
        cache::put(&fresh(*number), b"", share);
        if let Some(page) = kept.get_mut(number - 2) {
            *page = Some(read.droplets);
        }
    }
    if let Some(last) = due.last() {
        cache::put_json(NEXT, &(last + 1), KEPT);
    }
    let unread = kept.iter().any(Option::is_none);
    // One that moved from page to page meanwhile may be on both.
    let mut ids = BTreeSet::new();
    let droplets = std::iter::once(first.droplets).chain(kept.into_iter().flatten()).flatten();
    Ok(Listed { droplets: droplets.filter(|droplet| ids.insert(droplet.id)).collect(), unread })
}
