//! Machines.

mod large;

use std::time::Duration;

use ccm_sdk::types::{Failure, Reaction};
use ccm_sdk::{Answer, Request};
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::api::{CLOUD, PER_PAGE, list, or_default, paging};

const DROPLETS: &str = "/v2/droplets";
const DROPLET: &str = "/v2/droplets/{id}";

/// As far as Nodes and load balancers need it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Droplet {
    pub(crate) id: u64,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) name: String,
    /// `new`, `active`, `off`, `archive`.
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) status: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) size_slug: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) region: Region,
    #[serde(default, deserialize_with = "or_default")]
    networks: Networks,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct Region {
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) slug: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
struct Networks {
    #[serde(default, deserialize_with = "or_default")]
    v4: Vec<Interface>,
    #[serde(default, deserialize_with = "or_default")]
    v6: Vec<Interface>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Interface {
    #[serde(default, deserialize_with = "or_default")]
    ip_address: String,
    #[serde(default, deserialize_with = "or_default", rename = "type")]
    kind: String,
}

/// What a Node without provider ID finds its droplet by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Named<'a> {
    pub(crate) id: u64,
    pub(crate) name: &'a str,
    /// Private, public, public of version 6.
    pub(crate) addresses: [Option<&'a str>; 3],
}

impl Droplet {
    pub(crate) fn named(&self) -> Named<'_> {
        let addresses = [self.private_v4(), self.public_v4(), self.public_v6()];
        Named { id: self.id, name: &self.name, addresses }
    }

    pub(crate) fn private_v4(&self) -> Option<&str> {
        first(&self.networks.v4, "private")
    }

    pub(crate) fn public_v4(&self) -> Option<&str> {
        first(&self.networks.v4, "public")
    }

    pub(crate) fn public_v6(&self) -> Option<&str> {
        first(&self.networks.v6, "public")
    }
}

fn first<'a>(interfaces: &'a [Interface], kind: &str) -> Option<&'a str> {
    let found = interfaces.iter().find(|interface| interface.kind == kind && !interface.ip_address.is_empty());
    found.map(|interface| interface.ip_address.as_str())
}

#[derive(Deserialize)]
struct One {
    droplet: Droplet,
}

list!(Many, droplets, Droplet, |droplet| droplet.id.to_string());

/// Asks for one droplet.
pub(crate) fn get(id: u64) -> Request {
    CLOUD.get(DROPLET).arg("id", id)
}

/// The answer to [`get`]; `None` when the cloud says that there is no such droplet.
pub(crate) fn one(answer: Answer) -> Result<Option<Droplet>, Failure> {
    answer.optional()?.map(|answer| answer.json::<One>().map(|one| one.droplet)).transpose()
}

/// Droplets of the account.
#[derive(Debug, Default)]
pub(crate) struct Listed {
    pub(crate) droplets: Vec<Droplet>,
    /// There are more, which further calls read: [`large`].
    pub(crate) unread: bool,
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
        match CLOUD.get(DROPLETS).share(share).list::<Many>(paging().at_most(large::PAGES)) {
            Err(failure) if failure.reaction == Reaction::Quota => large::Pages::read(share).map(Self::Large),
            listed => listed.map(Self::Small),
        }
    }
}

/// The first page of [`all`], and how many pages there are besides.
pub(crate) fn first_page(share: Duration) -> Result<(Vec<Droplet>, usize), Failure> {
    let request = CLOUD.get(DROPLETS).query("page", 1).query("per_page", PER_PAGE);
    let page: Many = request.share(share).send()?.json()?;
    let pages = page.meta.total.div_ceil(PER_PAGE);
    Ok((page.droplets, pages.saturating_sub(1)))
}

/// Those with GPUs.
pub(crate) fn with_gpus(share: Duration) -> Result<Vec<Droplet>, Failure> {
    CLOUD.get(DROPLETS).query("type", "gpus").share(share).list::<Many>(paging())
}

/// By exact name, in capitals or not; none with GPUs.
pub(crate) fn named(name: &str, share: Duration) -> Result<Vec<Droplet>, Failure> {
    CLOUD.get(DROPLETS).query("name", name).share(share).list::<Many>(paging())
}

/// The harmless read that says whether the token still sees the account's droplets.
pub(crate) fn look() -> Request {
    CLOUD.get(DROPLETS).query("page", 1).query("per_page", 1)
}

/// The answer to [`look`]: whether there is one, GPU droplets apart.
pub(crate) fn any(answer: Answer) -> Result<bool, Failure> {
    #[derive(Deserialize)]
    struct Page {
        droplets: Vec<IgnoredAny>,
    }
    answer.json::<Page>().map(|page| !page.droplets.is_empty())
}
