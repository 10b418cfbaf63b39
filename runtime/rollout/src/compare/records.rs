//! Asks the first component about what the objects of the cluster say that there is: it has no predecessor to be compared with.
//!
//! | object | says | a difference |
//! |---|---|---|
//! | a Node that was initialised, and whose kubelet reports | `spec.providerID` | the machine is not found |
//! | a Service with a record and an address | that the provider has its load balancer | the load balancer is not found, or has other addresses |
//!
//! A single difference may be right: machines and load balancers go while no host runs. But whoever finds *nothing* of what at least
//! [`FEWEST`] objects of a kind promise looks into another account, or calls everything otherwise, and would make everything a second time:
//! [`Unconfirmed::NothingFound`]. A failure says nothing about an object, nor does `elsewhere`. Where nobody can tell, the component is taken, for
//! there is no other.

use std::sync::Arc;

use ccm_cloud::{Finding, Ingress, Instances, LoadBalancers, Need, Node, Service, Standing, Wish};
use futures::StreamExt as _;
use futures::stream::iter;
use tokio::time::{Instant, timeout_at};

use super::look::{MAX_NODES, WIDTH, find, kind, standings, wishes_at_once};
use super::report::{Compared, Difference, Report};
use super::sample::sample;
use super::verdict::lost_address;
use super::{CompareLimits, Inventory, Unanswered};

/// So many objects of a kind cannot all have lost what they had.
const FEWEST: usize = 3;

/// Why the first component is not taken. Both may pass.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unconfirmed {
    /// The objects are not known.
    #[error(transparent)]
    Unanswered(#[from] Unanswered),
    /// It finds nothing of what they promise: of what, and the first of them, in words.
    #[error("it finds none of the {0}")]
    NothingFound(String),
}

/// What the component says of what one object promises.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Said {
    /// It is there.
    Found,
    /// It is there, at another place.
    Moved(String),
    /// It is not there.
    Lost(String),
    /// It cannot tell.
    Open,
}

/// Asks it. The differences of the report are no reason to refuse it.
///
/// # Cancel safety
///
/// As [`compare`](super::compare).
///
/// # Errors
///
/// It finds nothing of a kind, or the objects are not known in time.
pub async fn confirm<N>(
    new: &N,
    inventory: &dyn Inventory,
    has_balancers: bool,
    limits: &CompareLimits,
) -> Result<Report, Unconfirmed>
where
    N: Instances + LoadBalancers,
{
    let until = Instant::now() + limits.time;
    if timeout_at(until, inventory.complete()).await.is_err()
        && let Some(why) = inventory.missing()
    {
        return Err(Unanswered(format!("{why} within {:?} (limit compare-time)", limits.time)).into());
    }
    let balancers = async { if has_balancers { services(new, inventory, limits).await } else { Default::default() } };
    let asked = (timeout_at(until, nodes(new, inventory, limits)), timeout_at(until, balancers));
    let (nodes, services) = tokio::join!(asked.0, asked.1);
    // Whoever gives no answer may be slow, and there is no other. What it says of the other kind counts.
    let (nodes, services) = (nodes.unwrap_or_default(), services.unwrap_or_default());
    let (nodes, services) = (Told::new("Node", nodes), Told::new("Service", services));
    nodes.something_found("machines", "Nodes whose kubelets report")?;
    services.something_found("load balancers", "Services whose records name them")?;
    let (of_nodes, of_services) = (nodes.compared(), services.compared());
    let differences = nodes.differences.into_iter().chain(services.differences).collect();
    Ok(Report { nodes: of_nodes, services: of_services, routes: Compared::default(), differences })
}

/// What it says of the objects of a kind.
struct Told {
    total: usize,
    found: usize,
    lost: usize,
    differences: Vec<Difference>,
}

impl Told {
    /// Of these objects, by their names, out of so many.
    fn new(kind: &'static str, (said, total): (Vec<(String, Said)>, usize)) -> Self {
        let mut this = Self { total, found: 0, lost: 0, differences: vec![] };
        for (name, said) in said {
            let what = match said {
                Said::Open => continue,
                Said::Found => {
                    this.found += 1;
                    continue;
                }
                Said::Moved(what) => {
                    this.found += 1;
                    what
                }
                Said::Lost(what) => {
                    this.lost += 1;
                    what
                }
            };
            this.differences.push(Difference::new(kind, &name, what));
        }
        this
    }

    const fn compared(&self) -> Compared {
        Compared { total: self.total, compared: self.found + self.lost }
    }

    fn something_found(&self, what: &str, of: &str) -> Result<(), Unconfirmed> {
        if self.found > 0 || self.lost < FEWEST {
            return Ok(());
        }
        let report = Report { differences: self.differences.clone(), ..Report::default() };
        Err(Unconfirmed::NothingFound(format!("{what} of {} {of}: {}", self.lost, report.summary())))
    }
}

async fn nodes<N>(new: &N, inventory: &dyn Inventory, limits: &CompareLimits) -> (Vec<(String, Said)>, usize)
where
    N: Instances + LoadBalancers,
{
    let nodes = inventory.working_nodes(&new.descriptor().provider_ids(), limits.nodes);
    let mut said = vec![];
    for some in nodes.items.chunks(MAX_NODES) {
        // The cluster waits for the answer.
        let findings = find(new, some, Need::Metadata).await;
        said.extend(some.iter().zip(&findings).map(|(node, finding)| (node.name.clone(), machine(node, finding))));
    }
    (said, nodes.total)
}

fn machine(node: &Node, finding: &Finding) -> Said {
    let id = node.provider_id.as_deref().unwrap_or_default();
    match finding {
        Finding::Found(_) => Said::Found,
        Finding::Absent => Said::Lost(format!("it says that the machine {id} does not exist")),
        // Also where it leaves the machine to somebody else: it makes no claim.
        Finding::Unknown(_) => Said::Open,
    }
}

async fn services<N>(new: &N, inventory: &dyn Inventory, limits: &CompareLimits) -> (Vec<(String, Said)>, usize)
where
    N: Instances + LoadBalancers,
{
    let services = inventory.services(&new.descriptor(), limits.services);
    let total = services.total;
    // One without an address may never have had a load balancer.
    let promised: Vec<Service> = services.items.into_iter().filter(|service| !service.ingress.is_empty()).collect();
    let said =
        if new.surveys() { surveyed(new, inventory, promised).await } else { single(new, promised, limits).await };
    (said, total)
}

async fn surveyed(new: &impl LoadBalancers, inventory: &dyn Inventory, services: Vec<Service>) -> Vec<(String, Said)> {
    let backends = inventory.backends();
    let indexes: Vec<u32> = (0..).take(backends.len()).collect();
    let mut said = vec![];
    for some in services.chunks(wishes_at_once(indexes.len())) {
        let wish = |service: &Service| Wish { service: service.clone(), backends: indexes.clone() };
        let answer = new.survey(Arc::clone(&backends), some.iter().map(wish).collect()).await;
        let standings = standings(answer, some.len());
        said.extend(
            some.iter().zip(&standings).map(|(service, standing)| (full_name(service), stands(service, standing))),
        );
    }
    said
}

async fn single(new: &impl LoadBalancers, services: Vec<Service>, limits: &CompareLimits) -> Vec<(String, Said)> {
    let ask = |service: Service| async move {
        let said = match new.get(service.clone()).await {
            Ok(places) => placed(&service, places.as_deref()),
            Err(_) => Said::Open,
        };
        (full_name(&service), said)
    };
    let mut said: Vec<_> =
        iter(sample(services, limits.single_services, kind)).map(ask).buffer_unordered(WIDTH).collect().await;
    said.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    said
}

fn full_name(service: &Service) -> String {
    format!("{}/{}", service.namespace, service.name)
}

fn stands(service: &Service, standing: &Standing) -> Said {
    match standing {
        Standing::InStep(places) => placed(service, Some(places)),
        Standing::Differs(_) => Said::Found,
        Standing::Missing => placed(service, None),
        Standing::Unknown(_) => Said::Open,
    }
}

fn placed(service: &Service, places: Option<&[Ingress]>) -> Said {
    let Some(places) = places else { return Said::Lost("it finds no load balancer".to_owned()) };
    match lost_address(&service.ingress, places) {
        Some((lost, told)) => {
            Said::Moved(format!("the address of its load balancer is {told}, and {lost} in its status"))
        }
        None => Said::Found,
    }
}
