//! Machines.

mod droplet;
mod large;

use std::time::Duration;

use ccm_sdk::find::FirstPage;
use ccm_sdk::paging::Paging;
use ccm_sdk::types::{Failure, Reaction};
use ccm_sdk::{Answer, Request};

use self::droplet::DROPLETS;
pub(crate) use self::droplet::{Droplet, Listed, Named, Region};
use crate::api::{CLOUD, PER_PAGE, paging};

const DROPLET: &str = "/v2/droplets/{id}";
const LIST: Paging = paging("/droplets", PER_PAGE);

/// Asks for one droplet.
pub(crate) fn get(id: &str) -> Request {
    CLOUD.get(DROPLET).arg("id", id)
}

/// The answer to [`get`]; `None` when the cloud says that there is no such droplet.
pub(crate) fn one(answer: Answer) -> Result<Option<Droplet>, Failure> {
    answer.optional()?.map(|answer| answer.json_at("/droplet")).transpose()
}

/// All but those with GPUs, which a listing leaves out.
pub(crate) fn all(share: Duration) -> Result<Listed, Failure> {
    match Account::read(share)? {
        Account::Small(droplets) => Ok(Listed { droplets, unread: false }),
        Account::Large(pages) => Ok(pages.listed()),
    }
}

/// How many of the account [`each`] has shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shown {
    /// All that the cloud has now.
    All,
    /// Pages of several calls: one that moved between two of them may be on none.
    Pages,
    /// There are more, which further calls read.
    None,
}

/// Shows all but those with GPUs, some twice.
pub(crate) fn each(share: Duration, mut show: impl FnMut(&Named<'_>)) -> Result<Shown, Failure> {
    match Account::read(share)? {
        Account::Small(droplets) => droplets.iter().for_each(|droplet| show(&droplet.named())),
        Account::Large(pages) => return Ok(if pages.each(show) { Shown::Pages } else { Shown::None }),
    }
    Ok(Shown::All)
}

enum Account {
    Small(Vec<Droplet>),
    Large(large::Pages),
}

impl Account {
    fn read(share: Duration) -> Result<Self, Failure> {
        if large::is_begun() {
            return large::Pages::read(share).map(Self::Large);
        }
        // The first page says how many there are, and then no other is asked for.
        match CLOUD.get(DROPLETS).share(share).list(LIST.at_most(large::PAGES)) {
            Err(failure) if failure.reaction == Reaction::Quota => large::Pages::read(share).map(Self::Large),
            listed => listed.map(Self::Small),
        }
    }
}

/// The first page of [`all`].
pub(crate) fn first_page(share: Duration) -> Result<FirstPage<Droplet>, Failure> {
    let request = CLOUD.get(DROPLETS).query("page", 1).query("per_page", PER_PAGE);
    let page = request.share(share).send()?.page(LIST)?;
    let pages = page.total.unwrap_or(0).div_ceil(PER_PAGE);
    Ok(FirstPage { machines: page.items, further: pages.saturating_sub(1) })
}

/// Those with GPUs.
pub(crate) fn with_gpus(share: Duration) -> Result<Vec<Droplet>, Failure> {
    CLOUD.get(DROPLETS).query("type", "gpus").share(share).list(LIST)
}

/// By exact name, in capitals or not; none with GPUs.
pub(crate) fn named(name: &str, share: Duration) -> Result<Vec<Droplet>, Failure> {
    CLOUD.get(DROPLETS).query("name", name).share(share).list(LIST)
}

/// The harmless read that says whether the token still sees the account's droplets.
pub(crate) fn look() -> Request {
    CLOUD.get(DROPLETS).query("page", 1).query("per_page", 1)
}

/// The answer to [`look`]: whether there is one, GPU droplets apart.
pub(crate) fn any(answer: Answer) -> Result<bool, Failure> {
    answer.json_at::<Vec<Droplet>>("/droplets").map(|droplets| !droplets.is_empty())
}
