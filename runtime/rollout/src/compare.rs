//! Asks a new component and the last good one the same questions about what exists. One that finds less is rejected.
//! It never served, so it is not remembered as refused, and each replica compares for itself.
//!
//! | question | about | a difference |
//! |---|---|---|
//! | `find` | Nodes whose provider ID is of a scheme of the provider | the machine is not found; another provider ID, instance type, zone or region; an address is lost |
//! | `name` | Services whose record says that the provider has their load balancer | another name |
//! | `name` | a Service that does not exist | another name |
//! | `survey`, where both have it | the same | the load balancer is not found; an address is lost |
//! | `routes.get-all`, where both have it and the host keeps routes | all Nodes | a route is lost, leads to another Node, or is in another state; one that is not there by the last good one |
//! | `get`, `get-mark` | a few of these: all that a survey does not settle, or a sample where there is none | the same; another load balancer than `ensure` would have changed |
//!
//! All of these change nothing, neither in the cloud nor in the cluster, and a standby asks them like a leader. What the new one
//! finds beyond the last good one is no difference: that may be what it was made for. Only a route that it alone finds is one: the host would remove
//! it, or not make it.
//!
//! A difference counts when two looks in a row see it in the same object. Between them is a pause, in which the object may go and the
//! cloud may change. If the objects are replaced between the looks, it counts if everything comparable differs in both. There are
//! more looks as long as something differs that does not count yet. If the time for the comparison ends before that, the answers are
//! unstable: the new one is rejected as [`Unanswered`] and tried again later. So it is if neither answers about any object of a kind.
//!
//! A failure says nothing about the object: only where the last good one answers twice and the new one fails twice, the new one is rejected.
//! Where the last good one alone gives no answer, the new one may be its repair, and is taken: so the host stops waiting for the last good
//! one's calls. Another name counts after one question, which is asked when nothing else differs.
//!
//! With `allow_provider_change` (`--allow-provider-change`), nothing is compared.
//!
//! The first component has no predecessor: [`confirm`] compares it with what the objects themselves say.

mod inventory;
mod look;
pub(crate) mod naming;
mod records;
mod report;
mod routes;
mod sample;
#[cfg(test)]
mod tests;
mod verdict;

use std::collections::BTreeMap;
use std::time::Duration;

use ccm_cloud::{Capability, Instances, LoadBalancers, Routes};

pub use inventory::{Inventory, Sampled, StoreInventory};
use look::{Key, Look};
pub use records::{Unconfirmed, confirm};
pub use report::{Compared, Difference, Report};
use routes::RouteKey;
use verdict::{ComparisonVerdict, Tally};

/// How much is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompareLimits {
    /// Most Nodes; of more a sample that has every kind. Default 500.
    pub nodes: usize,
    /// Most Services, likewise. Default 500.
    pub services: usize,
    /// Most Services about which the cloud is asked one by one. Default 20.
    pub single_services: usize,
    /// How long all of it may take. Default 3 min. At least three calls of a component that gives no answer, each of which ends after 60 s
    /// (limit `call-time`).
    pub time: Duration,
    /// From a difference to the second look at it: longer than providers share listings between calls. Default 5 s.
    pub pause: Duration,
}

impl Default for CompareLimits {
    fn default() -> Self {
        Self {
            nodes: 500,
            services: 500,
            single_services: 20,
            time: Duration::from_secs(180),
            pause: Duration::from_secs(5),
        }
    }
}

/// Nothing could be compared: nobody answers, or no two looks gave the same answers. That may pass.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("it cannot be compared with the last good one: {0}")]
pub struct Unanswered(pub(crate) String);

/// What both components have besides machines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Extent {
    /// Load balancers.
    pub balancers: bool,
    /// Routes.
    pub routes: bool,
}

impl Extent {
    /// What `both` have, as this function says of one interface.
    pub(crate) fn of(both: impl Fn(Capability) -> bool) -> Self {
        Self { balancers: both(Capability::LoadBalancers), routes: both(Capability::Routes) }
    }
}

/// Asks both about what `extent` says.
///
/// # Cancel safety
///
/// Dropping the future ends the calls, which change nothing.
///
/// # Errors
///
/// Nothing could be compared of what there is, for want of answers.
pub async fn compare<O, N>(
    old: &O,
    new: &N,
    inventory: &dyn Inventory,
    extent: Extent,
    limits: &CompareLimits,
) -> Result<Report, Unanswered>
where
    O: Instances + LoadBalancers + Routes,
    N: Instances + LoadBalancers + Routes,
{
    let look = Look { old, new, inventory, limits };
    match tokio::time::timeout(limits.time, asked(&look, extent)).await {
        Ok(compared) => compared,
        Err(_elapsed) => {
            let why = inventory.missing().unwrap_or_else(|| "no two looks gave the same answers".to_owned());
            Err(Unanswered(format!("{why} within {:?} (limit compare-time)", limits.time)))
        }
    }
}

async fn asked<O, N>(look: &Look<'_, O, N>, extent: Extent) -> Result<Report, Unanswered>
where
    O: Instances + LoadBalancers + Routes,
    N: Instances + LoadBalancers + Routes,
{
    look.inventory.complete().await;
    let mut first = Seen::default();
    loop {
        let second = look.at_all(extent, &first).await;
        let differences = first.differences(&second);
        if !differences.is_empty() {
            return Ok(Report { differences, ..second.counted() });
        }
        let doubts =
            [doubtful(&second.nodes).count(), doubtful(&second.services).count(), doubtful(&second.routes).count()];
        if doubts == [0; 3] {
            second.answered()?;
            let differences = if extent.balancers { named(look.old, look.new).await } else { vec![] };
            return Ok(Report { differences, ..second.counted() });
        }
        let ([nodes, services, routes], pause) = (doubts, look.limits.pause);
        tracing::info!(nodes, services, routes, ?pause, "the new component differs, another look follows");
        tokio::time::sleep(pause).await;
        first = second;
    }
}

/// Whether both name load balancers in the same way.
async fn named(old: &impl LoadBalancers, new: &impl LoadBalancers) -> Vec<Difference> {
    let (old, new) = tokio::join!(naming::naming(old), naming::naming(new));
    naming::difference(old.as_deref(), new.as_deref()).into_iter().collect()
}

/// What one look has come to.
#[derive(Default)]
struct Seen {
    nodes: BTreeMap<String, ComparisonVerdict>,
    services: BTreeMap<Key, ComparisonVerdict>,
    routes: BTreeMap<RouteKey, ComparisonVerdict>,
    /// How many there are, of Nodes and Services.
    totals: (usize, usize),
}

impl Seen {
    /// What differs in this look and in the `second` one.
    fn differences(&self, second: &Self) -> Vec<Difference> {
        let nodes = confirmed(&self.nodes, &second.nodes).map(|(name, what)| Difference::new("Node", name, what));
        let services = confirmed(&self.services, &second.services)
            .map(|((namespace, name), what)| Difference::new("Service", &format!("{namespace}/{name}"), what));
        let routes =
            confirmed(&self.routes, &second.routes).map(|(key, what)| Difference::new("Route", &key.name(), what));
        nodes.chain(services).chain(routes).collect()
    }

    /// How much was compared.
    fn counted(&self) -> Report {
        Report {
            nodes: compared(self.totals.0, &self.nodes),
            services: compared(self.totals.1, &self.services),
            routes: compared(self.routes.len(), &self.routes),
            differences: vec![],
        }
    }

    /// # Errors
    ///
    /// Neither of the two answers about any object of a kind.
    fn answered(&self) -> Result<(), Unanswered> {
        answered("Nodes", &self.nodes.values().collect())?;
        answered("Services", &self.services.values().collect())?;
        answered("routes", &self.routes.values().collect())
    }
}

fn doubtful<K: Ord>(verdicts: &BTreeMap<K, ComparisonVerdict>) -> impl Iterator<Item = &K> {
    verdicts.iter().filter(|(_, verdict)| verdict.is_doubtful()).map(|(key, _)| key)
}

/// Whether all that could be compared differs.
fn is_total<K: Ord>(verdicts: &BTreeMap<K, ComparisonVerdict>) -> bool {
    doubtful(verdicts).next().is_some()
        && !verdicts.values().any(|verdict| matches!(verdict, ComparisonVerdict::Same | ComparisonVerdict::Found))
}

/// What differs in both looks: the same objects; or all of them, where objects do not live long enough for two looks.
fn confirmed<'a, K: Ord>(
    first: &'a BTreeMap<K, ComparisonVerdict>,
    second: &'a BTreeMap<K, ComparisonVerdict>,
) -> impl Iterator<Item = (&'a K, String)> {
    let are_all_lost = is_total(first) && is_total(second);
    let counts = move |key: &K| are_all_lost || first.get(key).is_some_and(ComparisonVerdict::is_doubtful);
    second.iter().filter(move |(key, _)| counts(key)).filter_map(|(key, verdict)| Some((key, verdict.difference()?)))
}

fn compared<K>(total: usize, verdicts: &BTreeMap<K, ComparisonVerdict>) -> Compared {
    Compared { total, compared: verdicts.values().collect::<Tally>().compared }
}

fn answered(kind: &str, tally: &Tally) -> Result<(), Unanswered> {
    match tally.outage() {
        Some(failure) => Err(Unanswered(format!("neither answers about any of the {kind}: {failure}"))),
        None => Ok(()),
    }
}
