//! Droplets by the names of Nodes, for load balancers. Whoever is asked for thousands at once looks at each droplet once and keeps
//! none of them.

use std::borrow::Cow;
use std::collections::HashMap;
use std::net::IpAddr;

use ccm_sdk::find::Machines;
use ccm_sdk::types::Failure;

use super::{Droplets, later};
use crate::api::droplets::{self, Named, Shown};

/// Most Nodes that are asked for one by one where the pages of a large account do not show them.
const ASKED: usize = 10;

/// What has a name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Holder {
    #[default]
    None,
    One(u64),
    Several,
}

/// What has a name in any case, or as an address; and what has just that name.
#[derive(Debug, Clone, Copy, Default)]
struct Holders {
    any: Holder,
    exact: Holder,
}

impl Holders {
    fn id(self) -> Option<u64> {
        match (self.exact, self.any) {
            (Holder::One(id), _) | (Holder::None, Holder::One(id)) => Some(id),
            _ => None,
        }
    }
}

/// IDs of the droplets that have these names, or addresses; none where there is no such droplet, or more than one. Of those whose
/// names differ in case alone, the one in small letters: Nodes are called so.
///
/// # Errors
///
/// The cloud cannot be asked, or several calls have to.
pub(crate) fn ids_by_name<'a>(names: &[&'a str]) -> Result<Vec<Option<u64>>, Failure> {
    if names.is_empty() {
        return Ok(vec![]);
    }
    let lower = |name: &&'a str| match name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        true => Cow::Owned(name.to_ascii_lowercase()),
        false => Cow::Borrowed(*name),
    };
    let names: Vec<Cow<'_, str>> = names.iter().map(lower).collect();
    let mut desired = Wanted {
        holders: names.iter().map(|name| (&**name, Holders::default())).collect(),
        addresses: names.iter().any(|name| is_address(name)),
        lower: String::new(),
        asked: 0,
    };
    let shown = droplets::each(Droplets::SHARE, |droplet| desired.see(droplet))?;
    if shown == Shown::None {
        return Err(later());
    }
    droplets::with_gpus(Droplets::SHARE)?.iter().for_each(|droplet| desired.see(&droplet.named()));
    if shown == Shown::Pages {
        // Else a load balancer would lose a Node for minutes while droplets of others go.
        for name in names.iter().filter(|name| !is_address(name)) {
            let is_open = desired.holders.get(&**name).is_some_and(|holders| holders.any == Holder::None);
            if desired.asked < ASKED && is_open {
                desired.asked += 1;
                droplets::named(name, Droplets::SHARE)?.iter().for_each(|droplet| desired.see(&droplet.named()));
            }
        }
    }
    let id = |name: &Cow<'_, str>| desired.holders.get(&**name).and_then(|holders| holders.id());
    Ok(names.iter().map(id).collect())
}

struct Wanted<'a> {
    /// By name in lower case.
    holders: HashMap<&'a str, Holders>,
    /// Some of these names are addresses.
    addresses: bool,
    /// Of the droplet at hand.
    lower: String,
    /// How many names were asked for alone.
    asked: usize,
}

fn is_address(name: &str) -> bool {
    name.parse::<IpAddr>().is_ok()
}

impl Wanted<'_> {
    fn see(&mut self, droplet: &Named<'_>) {
        self.lower.clear();
        self.lower.push_str(droplet.name);
        self.lower.make_ascii_lowercase();
        if let Some(holders) = self.holders.get_mut(self.lower.as_str()) {
            holders.any.see(droplet.id);
            if self.lower == droplet.name {
                holders.exact.see(droplet.id);
            }
        }
        for address in droplet.addresses.into_iter().flatten().filter(|_| self.addresses) {
            if let Some(holders) = self.holders.get_mut(address) {
                holders.any.see(droplet.id);
            }
        }
    }
}

impl Holder {
    fn see(&mut self, id: u64) {
        *self = match *self {
            Self::None => Self::One(id),
            // Two answers may show the same one.
            Self::One(known) if known == id => Self::One(id),
            Self::One(_) | Self::Several => Self::Several,
        };
    }
}
