//! The droplets behind Nodes.
//!
//! | Nodes | asked |
//! |---|---|
//! | a few | each by ID, or by name where it has no provider ID; answers are shared |
//! | more | one listing, shared with others that ask at the same time |
//! | more, in an account that one call cannot list | what the calls so far have read; the others in a moment |
//! | more, in an account with more pages than these Nodes | its first page, then each that is not there by ID or name |
//! | not in the listing | a listing of those with GPUs, then each by ID |
//! | that are said to be gone | once more by ID, in this call, and whether the token still sees the cluster: `proof` |
//!
//! Only a 404 to a question by ID says that a droplet is gone.

mod answered;
mod names;
mod proof;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ccm_sdk::instances::{Finding, Instance, Need, State};
use ccm_sdk::send_all;
use ccm_sdk::types::{Address, AddressType, Failure, Node};

use self::answered::{Answered, answered};
use crate::api::droplets::{self, Droplet};
use crate::provider_id;
pub(crate) use names::ids_by_name;

/// As many Nodes are asked for one by one: a listing has a page for every 200 droplets of the account, whoever owns them.
const FEW: usize = 4;

/// Most questions by ID about what a listing does not show, per call. The others are asked about in the next call.
const MOST_SINGLE: usize = 20;

/// How old a listing may be. The host asks for all Nodes every few minutes, and for those in trouble more often.
const SHARE: Duration = Duration::from_secs(30);

/// `others` gives provider IDs of the cluster's Nodes, at most so many, the likeliest to be there first.
///
/// # Errors
///
/// Nothing could be asked. What is wrong with one Node is its finding.
pub(crate) fn find(
    nodes: &[Node],
    need: Need,
    others: impl FnOnce(u32) -> Result<Vec<String>, String>,
) -> Result<Vec<Finding>, Failure> {
    let wishes: Vec<Wish<'_>> = nodes.iter().map(Wish::of).collect();
    let mut single = need == Need::Proof || nodes.len() <= FEW;
    let mut listing = Listing::default();
    if !single {
        (listing, single) = Listing::for_wishes(&wishes)?;
    }
    let mut answers: Vec<Option<Answered>> = wishes.iter().map(|wish| listing.answer(wish)).collect();
    if listing.unread {
        answers.iter_mut().filter(|answer| answer.is_none()).for_each(|answer| *answer = Some(unread()));
    }
    by_id(&wishes, need, others, &mut answers);
    by_name(&wishes, single, &mut answers);
    let findings = wishes.iter().zip(answers).map(|(wish, answer)| match answer {
        Some(answer) => finding(wish, answer, need),
        None => Finding::Unknown(Failure::retry(format!("{wish}: asked about in the next call"))),
    });
    Ok(findings.collect())
}

/// A Node, and what to ask.
struct Wish<'a> {
    node: &'a Node,
    id: Option<Result<u64, Failure>>,
}

impl<'a> Wish<'a> {
    fn of(node: &'a Node) -> Self {
        let parse = |text: &str| {
            provider_id::parse(text).map_err(|wrong| {
                Failure::invalid(format!("determining droplet ID from providerID: {wrong}")).field("spec.providerID")
            })
        };
        Self { node, id: node.provider_id.as_deref().filter(|id| !id.is_empty()).map(parse) }
    }
}

impl std::fmt::Display for Wish<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.id {
            Some(Ok(id)) => write!(formatter, "droplet {id} of node {}", self.node.name),
            _ => write!(formatter, "droplet of node {}", self.node.name),
        }
    }
}

/// Droplets of the account, all or some.
#[derive(Default)]
struct Listing {
    droplets: BTreeMap<u64, Droplet>,
    /// By name in lower case and by address.
    names: BTreeMap<String, Vec<u64>>,
    /// There are more, which are read in the next call.
    unread: bool,
}

impl Listing {
    /// Also says whether what is not in it is better asked for one by one: most droplets of the account are those of others.
    fn for_wishes(wishes: &[Wish<'_>]) -> Result<(Self, bool), Failure> {
        if wishes.len() <= MOST_SINGLE {
            // Shared with the listing, should there be one.
            let (first, further_pages) = droplets::first_page(SHARE)?;
            let mut listing = Self::of(first);
            // Another page may have a droplet of the same name.
            listing.names.clear();
            let open = wishes.iter().filter(|wish| listing.answer(wish).is_none()).count();
            if open <= further_pages {
                return Ok((listing, true));
            }
        }
        let mut listing = Self::all()?;
        // A listing leaves out those with GPUs.
        if !listing.unread && wishes.iter().any(|wish| listing.answer(wish).is_none()) {
            listing.add(droplets::with_gpus(SHARE)?);
        }
        Ok((listing, false))
    }

    /// All but those with GPUs.
    fn all() -> Result<Self, Failure> {
        let listed = droplets::all(SHARE)?;
        Ok(Self { unread: listed.unread, ..Self::of(listed.droplets) })
    }

    fn of(droplets: Vec<Droplet>) -> Self {
        let mut listing = Self::default();
        listing.add(droplets);
        listing
    }

    fn add(&mut self, droplets: Vec<Droplet>) {
        for droplet in droplets {
            let mut names: Vec<String> = droplet.named().addresses.into_iter().flatten().map(str::to_owned).collect();
            names.push(droplet.name.to_ascii_lowercase());
            for name in names.into_iter().filter(|name| !name.is_empty()) {
                let ids = self.names.entry(name).or_default();
                // Two answers may show the same one.
                if !ids.contains(&droplet.id) {
                    ids.push(droplet.id);
                }
            }
            self.droplets.insert(droplet.id, droplet);
        }
    }

    /// `None` when it is not in the listing, which proves nothing.
    fn answer(&self, wish: &Wish<'_>) -> Option<Answered> {
        match &wish.id {
            Some(Ok(id)) => self.droplets.get(id).cloned().map(Answered::Found),
            Some(Err(failure)) => Some(Answered::Unknown(failure.clone())),
            None => self.named(&wish.node.name),
        }
    }

    fn named(&self, name: &str) -> Option<Answered> {
        match self.names.get(&name.to_ascii_lowercase())?.as_slice() {
            [id] => self.droplets.get(id).cloned().map(Answered::Found),
            several => {
                let ids: Vec<String> = several.iter().map(u64::to_string).collect();
                let message = format!(
                    "droplets {} have the name {name:?}; give the Node its provider ID with the kubelet's \
                     --provider-id, or rename all but one",
                    ids.join(", ")
                );
                Some(Answered::Unknown(Failure::conflict(message)))
            }
        }
    }
}

/// Asks about what nothing is known of yet.
fn by_id(
    wishes: &[Wish<'_>],
    need: Need,
    others: impl FnOnce(u32) -> Result<Vec<String>, String>,
    answers: &mut [Option<Answered>],
) {
    let mut open = vec![];
    for (wish, answer) in wishes.iter().zip(answers) {
        if let (Some(Ok(id)), None) = (&wish.id, &answer)
            && (open.len() < MOST_SINGLE || need == Need::Proof)
        {
            open.push((*id, answer));
        }
    }
    // Nodes in trouble are asked about every few seconds; what is there need not be asked for as often.
    if need != Need::Proof {
        let requests = open.iter().map(|(id, _)| droplets::get(*id).share(SHARE)).collect();
        let mut gone = vec![];
        for ((id, answer), reply) in open.into_iter().zip(send_all(requests)) {
            match reply.and_then(droplets::one) {
                Ok(None) => gone.push((id, answer)),
                reply => *answer = Some(answered(id, reply)),
            }
        }
        open = gone;
    }
    if open.is_empty() {
        return;
    }
    let ids: Vec<u64> = open.iter().map(|(id, _)| *id).collect();
    for ((_, answer), proven) in open.into_iter().zip(proof::of(&ids, others)) {
        *answer = Some(proven);
    }
}

/// Names are found by the cloud, which knows no addresses; a whole listing knows both.
fn by_name(wishes: &[Wish<'_>], single: bool, answers: &mut [Option<Answered>]) {
    let mut all: Option<Result<Listing, Failure>> = None;
    for (wish, answer) in wishes.iter().zip(answers) {
        if wish.id.is_some() || answer.is_some() {
            continue;
        }
        let name = &wish.node.name;
        if !single {
            *answer = Some(no_such_name(name));
            continue;
        }
        let found = match droplets::named(name, SHARE) {
            Ok(droplets) => Listing::of(droplets).named(name),
            Err(failure) => Some(Answered::Unknown(failure)),
        };
        *answer = found.or_else(|| match all.get_or_insert_with(whole) {
            Ok(listing) => Some(listing.named(name).unwrap_or_else(|| no_such_name(name))),
            Err(failure) => Some(Answered::Unknown(failure.clone())),
        });
    }
}

fn whole() -> Result<Listing, Failure> {
    let mut listing = Listing::all()?;
    if listing.unread {
        return Err(later());
    }
    listing.add(droplets::with_gpus(SHARE)?);
    Ok(listing)
}

/// When the next call goes on with a listing that one call cannot read.
const READ_ON: Duration = Duration::from_secs(1);

fn later() -> Failure {
    Failure::pending("the account has so many droplets that several calls list them; the next one goes on")
        .after(READ_ON)
}

fn unread() -> Answered {
    Answered::Unknown(later())
}

fn no_such_name(name: &str) -> Answered {
    Answered::Unknown(Failure::retry(format!(
        "getting droplet by name: no droplet has the name or an address {name:?}; name the Node as its droplet, or give it \
         its provider ID with the kubelet's --provider-id"
    )))
}

fn finding(wish: &Wish<'_>, answer: Answered, need: Need) -> Finding {
    match answer {
        Answered::Absent => Finding::Absent,
        Answered::Unknown(failure) => {
            Finding::Unknown(Failure { message: format!("{wish}: {}", failure.message), ..failure })
        }
        Answered::Found(droplet) => match (addresses(&droplet), need) {
            (Ok(_), Need::Metadata) if droplet.region.slug.is_empty() => {
                Finding::Unknown(Failure::retry(format!("{wish}: droplet {} has no region yet", droplet.id)))
            }
            (Ok(addresses), _) => Finding::Found(instance(&droplet, addresses)),
            // That it exists and runs does not hang on its addresses.
            (Err(_), Need::Existence | Need::Proof) => Finding::Found(instance(&droplet, vec![])),
            (Err(wrong), Need::Metadata) => {
                Finding::Unknown(Failure::retry(format!("{wish}: getting node addresses: {wrong}")))
            }
        },
    }
}

fn instance(droplet: &Droplet, addresses: Vec<Address>) -> Instance {
    Instance {
        provider_id: provider_id::format(droplet.id),
        instance_type: droplet.size_slug.clone(),
        addresses,
        zone: String::new(),
        region: droplet.region.slug.clone(),
        labels: vec![],
        state: match droplet.status.as_str() {
            "active" => State::Running,
            "off" => State::Stopped,
            _ => State::Other,
        },
        more: vec![],
    }
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
    if names.is_empty() {
        return Ok(BTreeSet::new());
    }
    let mut listing = Listing::default();
    if names.len() <= FEW {
        for name in names {
            listing.add(droplets::named(name, SHARE)?);
        }
    } else {
        listing = Listing::all()?;
    }
    let region = |name: &String| match listing.named(name) {
        Some(Answered::Found(droplet)) => Some(droplet.region.slug),
        _ => None,
    };
    Ok(names.iter().filter_map(region).filter(|slug| !slug.is_empty()).collect())
}

/// The regions of the droplets with these IDs, as far as they are known now, and what kept others from being known.
pub(crate) fn regions_of(ids: &[u64]) -> Result<(BTreeSet<String>, Option<Failure>), Failure> {
    let node = |id: &u64| Node { provider_id: Some(provider_id::format(*id)), ..Node::named(id.to_string()) };
    let nodes: Vec<Node> = ids.iter().map(node).collect();
    let (mut regions, mut open) = (BTreeSet::new(), None);
    // Whether one that is missing is gone makes no difference here, as long as others are there.
    let all = || ids.iter().map(|id| provider_id::format(*id)).collect();
    for finding in find(&nodes, Need::Existence, |_| Ok(all()))? {
        match finding {
            Finding::Found(instance) if !instance.region.is_empty() => _ = regions.insert(instance.region),
            Finding::Found(_) | Finding::Absent => {}
            Finding::Unknown(failure) => open = open.or(Some(failure)),
        }
    }
    Ok((regions, open))
}
