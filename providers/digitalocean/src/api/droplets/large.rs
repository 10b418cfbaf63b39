//! Accounts with more droplets than one call can read: the host gives a call 32 MiB of answers, and a droplet has up to 8 KiB,
//! of which Nodes need a fortieth part.
//!
//! Every call reads some pages and keeps that part in the host's cache, so that a few calls have read all. From then on a call
//! takes what is kept and renews some pages in their turn: whoever is asked about every minute is some minutes old at most.
//! Nothing of this says that a droplet is gone.

mod cached_page;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::time::Duration;

use ccm_sdk::types::Failure;
use ccm_sdk::{Request, cache, send_all};

use super::LIST;
use super::droplet::{DROPLETS, Droplet, Listed, Named};
use crate::api::{CLOUD, PER_PAGE};

/// Most pages that one call reads: 20 MiB.
pub(super) const PAGES: usize = 12;

/// Most pages of an account. Kept, they are some 1.6 MiB of the 4 that the cache has.
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

/// Whether the account was too large for one call a while ago. One that has shrunk since is read the same way.
pub(super) fn is_begun() -> bool {
    cache::get(NEXT).is_some()
}

/// What is known of the account.
pub(super) struct Pages {
    first: Vec<Droplet>,
    /// The others, as they are kept; none of those that no call has read yet.
    kept: Vec<Option<Vec<u8>>>,
}

impl Pages {
    /// Reads the first page, and those of the others that are due.
    pub(super) fn read(share: Duration) -> Result<Self, Failure> {
        let first = page(1, share).send()?.page(LIST)?;
        let pages = first.total.unwrap_or(0).div_ceil(PER_PAGE);
        if pages > MOST_PAGES {
            let most = MOST_PAGES * PER_PAGE;
            return Err(Failure::quota(format!(
                "the account has more than {most} droplets, which is more than can be listed; give the cluster an account of its own"
            )));
        }
        // Of those after the first, which says how many there are now.
        let mut kept: Vec<Option<Vec<u8>>> = (2..=pages).map(|page| cache::get(&key(page))).collect();
        let unread = |page: &usize| kept.get(page - 2).is_some_and(Option::is_none);
        let next = cache::get_json(NEXT).unwrap_or(2);
        let mut due: Vec<usize> = (next..=pages).chain(2..next.min(pages + 1)).collect();
        due.retain(|page| unread(page) || cache::get(&fresh(*page)).is_none());
        // What nobody has read yet goes first.
        let (mut due, others): (Vec<usize>, Vec<usize>) = due.into_iter().partition(unread);
        due.extend(others);
        due.truncate(PAGES - 1);
        for (number, answer) in due.iter().zip(send_all(due.iter().map(|number| page(*number, share)).collect())) {
            let read: Vec<Droplet> = answer?.page(LIST)?.items;
            if read.is_empty() && *number < pages {
                return Err(Failure::retry(format!("page {number} of {pages} of the droplets is empty")));
            }
            let read = cached_page::write(&read);
            cache::put(&key(*number), &read, KEPT);
            cache::put(&fresh(*number), b"", share);
            if let Some(page) = kept.get_mut(number - 2) {
                *page = Some(read);
            }
        }
        if let Some(last) = due.last() {
            cache::put_json(NEXT, &(last + 1), KEPT);
        }
        Ok(Self { first: first.items, kept })
    }

    fn is_unread(&self) -> bool {
        self.kept.iter().any(Option::is_none)
    }

    pub(super) fn listed(self) -> Listed {
        let unread = self.is_unread();
        // One that moved from page to page meanwhile may be on both.
        let mut ids = BTreeSet::new();
        let kept = self.kept.iter().flatten().flat_map(|page| cached_page::rows(page)).map(|row| row.droplet());
        Listed {
            droplets: self.first.into_iter().chain(kept).filter(|droplet| ids.insert(droplet.id)).collect(),
            unread,
        }
    }

    /// Shows all, some twice. False: not all are read, and none was shown.
    pub(super) fn each(&self, mut show: impl FnMut(&Named<'_>)) -> bool {
        if self.is_unread() {
            return false;
        }
        self.first.iter().for_each(|droplet| show(&droplet.named()));
        self.kept.iter().flatten().flat_map(|page| cached_page::rows(page)).for_each(|row| show(&row.named()));
        true
    }
}
