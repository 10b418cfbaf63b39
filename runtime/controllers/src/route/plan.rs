//! What is to be done with routes, so that each pod CIDR has one. Compares, and changes nothing.
//!
//! | a route for a network inside of `--cluster-cidr` | |
//! |---|---|
//! | leads nowhere, or to no Node | obsolete |
//! | to a Node that does not have this pod CIDR, or lost it to another Node | obsolete |
//! | to its Node, in place | kept |
//! | to its Node, incomplete | wanted once more |
//! | to its Node, while the cloud is at work on it | waited for |
//! | to no Node of this provider, but another provider's Node has this pod CIDR | left alone |
//!
//! Every other route is somebody else's. What is obsolete and what is wanted for one network go together: a provider that writes whole
//! tables replaces a route at once.

use std::collections::{BTreeMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use ccm_cloud::{Failure, Route, RouteState, RouteWish};
use ipnet::IpNet;

use super::allotments::{Allotment, allotments};
use super::ranges::{PodRanges, network};
use crate::store::Node;
use crate::view::node::{addresses, provider_id};

/// How the route of a pod CIDR stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CidrStatus {
    InPlace,
    /// The cloud is at work on it.
    Pending,
    /// It is to be made, or to be made whole.
    Wanted,
    /// Its Node has no provider ID yet: nobody is asked for it.
    Waits,
    /// It is not made, or could not be.
    Failed(Failure),
}

/// What is to be done for one network.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) obsolete: Vec<Route>,
    pub(super) wish: Option<RouteWish>,
}

impl Item {
    /// The same within this process for the same work: what failed is not tried again before its time while it is the same.
    pub(super) fn mark(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.wish.hash(&mut hasher);
        for route in &self.obsolete {
            (&route.name, &route.node).hash(&mut hasher);
        }
        hasher.finish()
    }

    /// Routes in a call of the provider.
    pub(super) fn len(&self) -> usize {
        self.obsolete.len().saturating_add(usize::from(self.wish.is_some()))
    }
}

/// A pod CIDR of a Node of this provider, and how it stands.
pub(super) struct Want {
    pub(super) node: Arc<Node>,
    /// As it is written.
    pub(super) text: Box<str>,
    /// None when it gets no route.
    pub(super) network: Option<IpNet>,
    pub(super) status: CidrStatus,
}

/// What is to be done.
#[derive(Default)]
pub(super) struct Plan {
    pub(super) wants: Vec<Want>,
    pub(super) items: BTreeMap<IpNet, Item>,
    /// Nodes of this provider without pod CIDR to which a route leads.
    pub(super) stray: Vec<Arc<Node>>,
    /// Routes that are left alone since nobody knows where they lead.
    pub(super) unreadable: usize,
    /// When to look again at what the cloud began to do, as soon as it says.
    pub(super) look: Option<Duration>,
}

/// Compares `routes`, which a provider found, with `nodes`, all of the cluster. `owns` says which of them are the provider's.
pub(super) fn plan(nodes: &[Arc<Node>], routes: Vec<Route>, ranges: &PodRanges, owns: impl Fn(&Node) -> bool) -> Plan {
    let mut plan = Plan::default();
    let mut found: BTreeMap<IpNet, Vec<Route>> = BTreeMap::new();
    for route in routes {
        match network(&route.destination_cidr) {
            Some(network) if ranges.contain(&network) => found.entry(network).or_default().push(route),
            Some(_) => {}
            None => plan.unreadable = plan.unreadable.saturating_add(1),
        }
    }
    let leads_to = |network: &IpNet, node: &str| {
        let leads = |route: &Route| route.node.as_deref() == Some(node) && route.state != RouteState::Blackhole;
        found.get(network).is_some_and(|routes| routes.iter().any(leads))
    };
    let allotments = allotments(nodes, ranges, leads_to);
    let targets = found.values().flatten().filter_map(|route| route.node.as_deref());
    let targets: HashSet<&str> = targets.collect();
    plan.stray = nodes
        .iter()
        .filter(|node| node.pod_cidrs.is_empty() && targets.contains(&*node.name) && owns(node))
        .map(Arc::clone)
        .collect();
    // And whether it is a Node of this provider.
    let mut rightful: BTreeMap<IpNet, (Box<str>, bool)> = BTreeMap::new();
    for Allotment { node, network, text } in allotments {
        let routes = network.as_ref().ok().and_then(|network| found.get(network)).map_or(&[][..], Vec::as_slice);
        let is_own = owns(&node);
        if let Ok(network) = network {
            rightful.insert(network, (node.name.clone(), is_own));
        }
        if !is_own {
            continue;
        }
        let status = match &network {
            Err(failure) => CidrStatus::Failed(failure.clone()),
            Ok(_) => status(&node, routes),
        };
        if let (Ok(network), CidrStatus::Wanted) = (&network, &status) {
            plan.items.entry(*network).or_default().wish = Some(wish(&node, network));
        }
        plan.wants.push(Want { node, text, network: network.ok(), status });
    }
    for (network, routes) in found {
        let owner = rightful.get(&network);
        let is_elsewhere = owner.is_some_and(|(_, is_own)| !is_own);
        let is_obsolete = |route: &Route| match &route.node {
            None => !is_elsewhere,
            Some(node) => route.state == RouteState::Blackhole || owner.is_none_or(|(name, _)| **name != **node),
        };
        let obsolete: Vec<Route> = routes.into_iter().filter(is_obsolete).collect();
        if !obsolete.is_empty() {
            plan.items.entry(network).or_default().obsolete = obsolete;
        }
    }
    plan
}

/// How the route of a Node stands that may have it, among all `routes` to that network.
fn status(node: &Node, routes: &[Route]) -> CidrStatus {
    let own = || routes.iter().filter(|route| route.node.as_deref() == Some(&*node.name));
    let any = |state| own().any(|route| route.state == state);
    if any(RouteState::InPlace) {
        CidrStatus::InPlace
    } else if provider_id(node).is_none() {
        CidrStatus::Waits
    } else if any(RouteState::Incomplete) {
        CidrStatus::Wanted
    } else if any(RouteState::Pending) {
        CidrStatus::Pending
    } else {
        CidrStatus::Wanted
    }
}

fn wish(node: &Node, network: &IpNet) -> RouteWish {
    RouteWish {
        destination_cidr: network.to_string(),
        node: node.name_any(),
        provider_id: provider_id(node).unwrap_or_default().to_owned(),
        addresses: addresses(node),
    }
}
