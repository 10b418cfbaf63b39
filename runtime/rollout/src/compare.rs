//! Asks a new component and the one before the same questions about what exists. Whoever finds less is refused, before it serves.
//!
//! | question | about | a difference |
//! |---|---|---|
//! | `find` | Nodes whose provider ID is of a scheme of the provider | the machine is not found; another provider ID, instance type, zone or region; an address is lost |
//! | `name` | Services whose record says that the provider has their load balancer | another name |
//! | `name` | a Service that does not exist | another name |
//! | `survey`, where both have it | the same | the load balancer is not found; an address is lost |
//! | `get`, `get-mark` | a few of these: all that a survey does not settle, or a sample where there is none | the same; another load balancer than `ensure` would have changed |
//!
//! All of these change nothing, neither in the cloud nor in the cluster, and a standby asks them like a leader. What the new one
//! finds beyond the one before is no difference: that may be what it was made for.
//!
//! A difference counts when two looks in a row see it in the same object. Between them is a pause, in which the object may go and the
//! cloud may change. Where no object lives that long, it counts when all that could be compared differs in both looks. There are
//! more looks as long as something differs that does not count yet. A failure says nothing about the object: only where the one
//! before answers twice and the new one fails twice, the new one is refused. If neither can tell anything, that is an outage,
//! which passes: [`Unanswered`]. Where the one before alone gives no answer, the new one may be its repair, and is taken: so nobody waits
//! for each of its calls until that fails.
//!
//! The first component has no predecessor: [`confirm`] compares it with what the objects themselves say.

mod inventory;
mod look;
pub(crate) mod naming;
mod records;
mod report;
mod sample;
#[cfg(test)]
mod tests;
mod verdict;

use std::collections::BTreeMap;
use std::time::Duration;

use ccm_cloud::{Instances, LoadBalancers};

pub use inventory::{Inventory, Sampled, StoreInventory};
use look::{Key, Look};
pub use records::{Unconfirmed, confirm};
pub use report::{Compared, Difference, Report};
use verdict::{Tally, Verdict};

/// How much is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompareLimits {
    /// Most Nodes; of more a sample that has every kind. Default 500.
    pub nodes: usize,
    /// Most Services, likewise. Default 500.
    pub services: usize,
    /// Most Services about which the cloud is asked one by one. Default 20.
    pub single_services: usize,
    /// How long all of it may take. Default 3 min: longer than two calls of a component that gives no answer, each of which ends after 60 s
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

/// Nothing could be compared, since nobody answers. That may pass.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("it cannot be compared with the one before: {0}")]
pub struct Unanswered(pub(crate) String);

/// Asks both. `has_balancers` says whether both make load balancers.
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
    has_balancers: bool,
    limits: &CompareLimits,
) -> Result<Report, Unanswered>
where
    O: Instances + LoadBalancers,
    N: Instances + LoadBalancers,
{
    let look = Look { old, new, inventory, limits };
    match tokio::time::timeout(limits.time, asked(&look, has_balancers)).await {
        Ok(compared) => compared,
        Err(_elapsed) => {
            let why = inventory.missing().unwrap_or_else(|| "no two looks gave the same answers".to_owned());
            Err(Unanswered(format!("{why} within {:?} (limit compare-time)", limits.time)))
        }
    }
}

async fn asked<O, N>(look: &Look<'_, O, N>, has_balancers: bool) -> Result<Report, Unanswered>
where
    O: Instances + LoadBalancers,
    N: Instances + LoadBalancers,
{
    look.inventory.complete().await;
    let mut first = Seen::default();
    loop {
        let second = look.at_all(has_balancers, &first).await;
        let nodes = confirmed(&first.nodes, &second.nodes).map(|(name, what)| Difference::new("Node", name, what));
        let services = confirmed(&first.services, &second.services)
            .map(|((namespace, name), what)| Difference::new("Service", &format!("{namespace}/{name}"), what));
        let differences: Vec<Difference> = nodes.chain(services).collect();
        if !differences.is_empty() {
            let (nodes, services) = second.tallies();
            let compared = |total, tally: Tally| Compared { total, compared: tally.compared };
            let (nodes, services) = (compared(second.totals.0, nodes), compared(second.totals.1, services));
            return Ok(Report { nodes, services, differences });
        }
        let (nodes, services) = (doubtful(&second.nodes).count(), doubtful(&second.services).count());
        if nodes == 0 && services == 0 {
            let (nodes, services) = second.tallies();
            let nodes = counted("Nodes", second.totals.0, &nodes)?;
            let services = counted("Services", second.totals.1, &services)?;
            let differences = if has_balancers { named(look.old, look.new).await } else { vec![] };
            return Ok(Report { nodes, services, differences });
        }
        let pause = look.limits.pause;
        tracing::info!(nodes, services, ?pause, "the new component differs, another look follows");
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
    nodes: BTreeMap<String, Verdict>,
    services: BTreeMap<Key, Verdict>,
    /// How many there are, of each.
    totals: (usize, usize),
}

impl Seen {
    fn tallies(&self) -> (Tally, Tally) {
        (self.nodes.values().collect(), self.services.values().collect())
    }
}

fn doubtful<K: Ord>(verdicts: &BTreeMap<K, Verdict>) -> impl Iterator<Item = &K> {
    verdicts.iter().filter(|(_, verdict)| verdict.is_doubtful()).map(|(key, _)| key)
}

/// Whether all that could be compared differs.
fn is_total<K: Ord>(verdicts: &BTreeMap<K, Verdict>) -> bool {
    doubtful(verdicts).next().is_some()
        && !verdicts.values().any(|verdict| matches!(verdict, Verdict::Same | Verdict::Found))
}

/// What differs in both looks: the same objects; or all of them, where objects do not live long enough for two looks.
fn confirmed<'a, K: Ord>(
    first: &'a BTreeMap<K, Verdict>,
    second: &'a BTreeMap<K, Verdict>,
) -> impl Iterator<Item = (&'a K, String)> {
    let are_all_lost = is_total(first) && is_total(second);
    let counts = move |key: &K| are_all_lost || first.get(key).is_some_and(Verdict::is_doubtful);
    second.iter().filter(move |(key, _)| counts(key)).filter_map(|(key, verdict)| Some((key, verdict.difference()?)))
}

fn counted(kind: &str, total: usize, tally: &Tally) -> Result<Compared, Unanswered> {
    match tally.outage() {
        Some(failure) => Err(Unanswered(format!("neither answers about any of the {kind}: {failure}"))),
        None => Ok(Compared { total, compared: tally.compared }),
    }
}
