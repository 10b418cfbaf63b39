//! Which Node may have which pod CIDR.
//!
//! | pod CIDR | |
//! |---|---|
//! | no network, of a family that `--cluster-cidr` has not, or outside of it | no route: a Node could take any network to itself |
//! | overlaps with that of another Node | the Node that has its route already keeps it, else the older one, else the first by name |
//! | twice at the same Node | once |

use std::collections::HashMap;
use std::sync::Arc;

use ccm_cloud::{Failure, Reaction};
use ipnet::IpNet;
use jiff::Timestamp;

use super::ranges::{PodRanges, network};
use crate::store::Node;

/// Where pod CIDRs stand.
const FIELD: &str = "spec.podCIDRs";

/// A pod CIDR of a Node.
pub(super) struct Allotment {
    pub(super) node: Arc<Node>,
    /// The network, or why it gets no route.
    pub(super) network: Result<IpNet, Failure>,
    /// As it is written.
    pub(super) text: Box<str>,
}

/// All pod CIDRs of these Nodes. `has_route` says whether a route for this network leads to the Node of this name already.
pub(super) fn allotments(
    nodes: &[Arc<Node>],
    ranges: &PodRanges,
    has_route: impl Fn(&IpNet, &str) -> bool,
) -> Vec<Allotment> {
    let mut allotments = vec![];
    for node in nodes {
        let mut own: Vec<IpNet> = vec![];
        for text in &node.pod_cidrs {
            let network = admitted(text, ranges);
            if let Ok(network) = &network {
                if own.contains(network) {
                    continue;
                }
                own.push(*network);
            }
            allotments.push(Allotment { node: Arc::clone(node), network, text: text.clone() });
        }
    }
    refuse_overlaps(&mut allotments, has_route);
    allotments
}

fn admitted(text: &str, ranges: &PodRanges) -> Result<IpNet, Failure> {
    let Some(network) = network(text) else { return Err(refused(format!("{text:?} is no network"))) };
    if ranges.contain(&network) {
        return Ok(network);
    }
    let why = if ranges.have_family_of(&network) { "lies outside of" } else { "is of another IP family than" };
    Err(refused(format!("{network} {why} --cluster-cidr ({ranges})")))
}

fn refused(message: String) -> Failure {
    Failure { field: Some(FIELD.to_owned()), ..Failure::new(Reaction::Invalid, message) }
}

/// Networks are inside of each other or have nothing in common: in order, those that overlap stand together.
fn refuse_overlaps(allotments: &mut [Allotment], has_route: impl Fn(&IpNet, &str) -> bool) {
    let mut order: Vec<(IpNet, usize)> = allotments
        .iter()
        .enumerate()
        .filter_map(|(at, allotment)| Some((*allotment.network.as_ref().ok()?, at)))
        .collect();
    // The wider one first.
    order.sort_by_key(|(network, at)| (network.network(), network.prefix_len(), *at));
    let mut losers: HashMap<usize, Failure> = HashMap::new();
    for group in groups(&order) {
        let mut group: Vec<(IpNet, usize)> = group.to_vec();
        group.sort_by_cached_key(|(network, at)| {
            allotments.get(*at).map(|allotment| rank(allotment, network, &has_route))
        });
        let mut winners: Vec<(IpNet, usize)> = vec![];
        for (network, at) in group {
            let overlaps = |other: &&(IpNet, usize)| other.0.contains(&network) || network.contains(&other.0);
            match winners.iter().find(overlaps).and_then(|(other, of)| Some((other, allotments.get(*of)?))) {
                Some((other, winner)) => {
                    let message = format!("{network} overlaps with {other} of Node {}", winner.node.name);
                    losers.insert(at, refused(message));
                }
                None => winners.push((network, at)),
            }
        }
    }
    for (at, failure) in losers {
        if let Some(allotment) = allotments.get_mut(at) {
            allotment.network = Err(failure);
        }
    }
}

/// Who comes first keeps a network that several want.
fn rank(
    allotment: &Allotment,
    network: &IpNet,
    has_route: impl Fn(&IpNet, &str) -> bool,
) -> (bool, Option<Timestamp>, Box<str>) {
    let node = &allotment.node;
    (!has_route(network, &node.name), node.created, node.name.clone())
}

/// Groups of networks that are in order, each with one, the first, that contains all others of it.
fn groups(mut rest: &[(IpNet, usize)]) -> impl Iterator<Item = &[(IpNet, usize)]> {
    std::iter::from_fn(move || {
        let (outermost, _) = rest.first()?;
        let end = rest.iter().position(|(network, _)| !outermost.contains(network)).unwrap_or(rest.len());
        let (group, others) = rest.split_at_checked(end)?;
        rest = others;
        Some(group)
    })
}
