//! The droplets behind Nodes: how DigitalOcean is asked for [`ccm_sdk::find`].

mod names;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeSet;
use std::time::Duration;

use ccm_sdk::find::{FirstPage, Listed, Listing, Machines};
use ccm_sdk::instances::{Finding, Instance, Need, State};
use ccm_sdk::types::{Address, AddressType, Failure, Node};
use ccm_sdk::{Answer, Request, find};

use crate::api::droplets::{self, Droplet};
use crate::provider_id;
pub(crate) use names::ids_by_name;

pub(crate) struct Droplets;

impl Machines for Droplets {
    type Machine = Droplet;
    const NOUN: &'static str = "droplet";

    fn id_of(&self, provider_id: &str) -> Result<String, String> {
        provider_id::parse(provider_id).map(|id| id.to_string())
    }

    fn get(&self, id: &str) -> Request {
        droplets::get(id)
    }

    fn got(&self, answer: Answer) -> Result<Option<Droplet>, Failure> {
        droplets::one(answer)
    }

    fn all(&self) -> Result<Listed<Droplet>, Failure> {
        let droplets::Listed { droplets, unread } = droplets::all(Self::SHARE)?;
        Ok(Listed { machines: droplets, unread: unread.then(later) })
    }

    fn first_page(&self) -> Result<Option<FirstPage<Droplet>>, Failure> {
        droplets::first_page(Self::SHARE).map(Some)
    }

    /// A listing leaves out those with GPUs.
    fn unlisted(&self) -> Result<Vec<Droplet>, Failure> {
        droplets::with_gpus(Self::SHARE)
    }

    fn named(&self, name: &str) -> Result<Vec<Droplet>, Failure> {
        droplets::named(name, Self::SHARE)
    }

    fn names(&self, droplet: &Droplet) -> Vec<String> {
        let addresses = droplet.named().addresses.into_iter().flatten().map(str::to_owned);
        addresses.chain([exactly(&droplet.name), droplet.name.to_ascii_lowercase()]).collect()
    }

    /// Of those whose names differ in case alone, the one that is called as the Node.
    fn keys(&self, node: &str) -> Vec<String> {
        vec![exactly(node), node.to_ascii_lowercase()]
    }

    fn look(&self) -> Request {
        droplets::look()
    }

    fn any(&self, answer: Answer) -> Result<bool, Failure> {
        droplets::any(answer)
    }

    fn instance(&self, droplet: &Droplet, need: Need) -> Result<Instance, Failure> {
        let addresses = match (addresses(droplet), need) {
            (Ok(_), Need::Metadata) if droplet.region.slug.is_empty() => {
                return Err(Failure::retry(format!("droplet {} has no region yet", droplet.id)));
            }
            (Ok(addresses), _) => addresses,
            (Err(_), Need::Existence | Need::Proof) => vec![],
            (Err(wrong), Need::Metadata) => return Err(Failure::retry(wrong).context("getting node addresses")),
        };
        let state = match droplet.status.as_str() {
            "active" => State::Running,
            "off" => State::Stopped,
            _ => State::Other,
        };
        Ok(Instance {
            instance_type: droplet.size_slug.clone(),
            addresses,
            region: droplet.region.slug.clone(),
            ..Instance::new(provider_id::format(droplet.id), state)
        })
    }
}

/// No droplet is called so.
fn exactly(name: &str) -> String {
    format!("={name}")
}

/// When the next call goes on with a listing that one call cannot read.
const READ_ON: Duration = Duration::from_secs(1);

fn later() -> Failure {
    Failure::pending("the account has so many droplets that several calls list them; the next one goes on")
        .after(READ_ON)
}

/// In the order of the Go manager: name, private, public, public IPv6.
pub(crate) fn addresses(droplet: &Droplet) -> Result<Vec<Address>, String> {
    let private = droplet.private_v4().ok_or_else(|| {
        format!("could not get private ip: droplet {} has no private IPv4 address; add it to a VPC", droplet.id)
    })?;
    let address = |kind, value: &str| Address { kind, value: value.to_owned() };
    let mut addresses = vec![address(AddressType::Hostname, &droplet.name), address(AddressType::InternalIp, private)];
    let public = [droplet.public_v4(), droplet.public_v6()];
    addresses.extend(public.into_iter().flatten().map(|ip| address(AddressType::ExternalIp, ip)));
    Ok(addresses)
}

/// The regions of the droplets with these names, for a cluster whose provider IDs are not at hand.
pub(crate) fn regions_of_names(names: &[String]) -> Result<BTreeSet<String>, Failure> {
    let mut regions = BTreeSet::new();
    if names.is_empty() {
        return Ok(regions);
    }
    let mut listing = Listing::new(&Droplets);
    if names.len() <= Droplets::FEW {
        for name in names {
            listing = listing.with(Droplets.named(name)?);
        }
    } else {
        listing = listing.listed()?;
    }
    let found = names.iter().filter_map(|name| listing.of_name(name)).map(|droplet| droplet.region.slug.clone());
    regions.extend(found.filter(|slug| !slug.is_empty()));
    Ok(regions)
}

/// The regions of the droplets with these IDs, as far as they are known now, and what kept others from being known.
pub(crate) fn regions_of(ids: &[u64]) -> Result<(BTreeSet<String>, Option<Failure>), Failure> {
    let node = |id: &u64| Node { provider_id: Some(provider_id::format(*id)), ..Node::named(id.to_string()) };
    let nodes: Vec<Node> = ids.iter().map(node).collect();
    let (mut regions, mut open) = (BTreeSet::new(), None);
    // Whether one that is missing is gone makes no difference here, as long as others are there.
    let all = || ids.iter().map(|id| provider_id::format(*id)).collect();
    for finding in find::find(&Droplets, &nodes, Need::Existence, |_| Ok(all()))? {
        match finding {
            Finding::Found(instance) if !instance.region.is_empty() => _ = regions.insert(instance.region),
            Finding::Found(_) | Finding::Absent => {}
            Finding::Unknown(failure) => open = open.or(Some(failure)),
        }
    }
    Ok((regions, open))
}
