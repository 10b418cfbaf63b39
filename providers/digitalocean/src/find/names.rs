//! Droplets by the names of Nodes, for load balancers. Whoever is asked for thousands at once looks at each droplet once and keeps
//! none of them.

use std::collections::HashMap;
use std::net::IpAddr;

use ccm_sdk::find::Machines;
use ccm_sdk::types::Failure;

use super::{Droplets, later};
use crate::api::droplets::{self, Named, Shown};

/// Most Nodes that are asked for one by one where the pages of a large account do not show them.
const ASKED: usize = 10;

/// What has a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holder {
    None,
    One(u64),
    Several,
}

/// IDs of the droplets that have these names, or addresses; none where there is no such droplet, or more than one.
///
/// # Errors
///
/// The cloud cannot be asked, or several calls have to.
pub(crate) fn ids_by_name(names: &[&str]) -> Result<Vec<Option<u64>>, Failure> {
    if names.is_empty() {
        return Ok(vec![]);
    }
    let names: Vec<String> = names.iter().map(|name| name.to_ascii_lowercase()).collect();
    let mut desired = Wanted {
        holders: names.iter().map(|name| (name.as_str(), Holder::None)).collect(),
        addresses: names.iter().any(|name| is_address(name)),
        lower: String::new(),
        service_spec: 0,
    };
    let shown = droplets::each(Droplets::SHARE, |droplet| desired.see(droplet))?;
    if shown == Shown::None {
        return Err(later());
    }
    droplets::with_gpus(Droplets::SHARE)?.iter().for_each(|droplet| desired.see(&droplet.named()));
    if shown == Shown::Pages {
        // Else a load balancer would lose a Node for minutes while droplets of others go.
        for name in names.iter().filter(|name| !is_address(name)) {
            if desired.service_spec < ASKED && desired.holders.get(name.as_str()) == Some(&Holder::None) {
                desired.service_spec += 1;
                droplets::named(name, Droplets::SHARE)?.iter().for_each(|droplet| desired.see(&droplet.named()));
            }
        }
    }
    let id = |name: &String| match desired.holders.get(name.as_str()) {
        Some(Holder::One(id)) => Some(*id),
        _ => None,
    };
    Ok(names.iter().map(id).collect())
}

struct Wanted<'a> {
    /// By name in lower case.
    holders: HashMap<&'a str, Holder>,
    /// Some of these names are addresses.
    addresses: bool,
    /// Of the droplet at hand.
    lower: String,
    /// How many names were asked for alone.
    service_spec: usize,
}

fn is_address(name: &str) -> bool {
    name.parse::<IpAddr>().is_ok()
}

impl Wanted<'_> {
    fn see(&mut self, droplet: &Named<'_>) {
        self.lower.clear();
        self.lower.push_str(droplet.name);
        self.lower.make_ascii_lowercase();
        hold(&mut self.holders, &self.lower, droplet.id);
        if self.addresses {
            droplet.addresses.into_iter().flatten().for_each(|address| hold(&mut self.holders, address, droplet.id));
        }
    }
}

fn hold(holders: &mut HashMap<&str, Holder>, name: &str, id: u64) {
    if let Some(holder) = holders.get_mut(name) {
        *holder = match *holder {
            Holder::None => Holder::One(id),
            // Two answers may show the same one.
            Holder::One(known) if known == id => Holder::One(id),
            Holder::One(_) | Holder::Several => Holder::Several,
        };
    }
}
