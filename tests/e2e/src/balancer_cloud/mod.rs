//! A cloud with load balancers on loopback that counts, for benchmarks and crash tests. `tests/balancer` is its provider.
//!
//! ```text
//! GET    /v1/load-balancers?page=1&per_page=100[&owner=UID]    a page, the oldest first, and how many there are
//! POST   /v1/load-balancers                                   201; without address until it is built
//! GET    /v1/load-balancers/{id}
//! PUT    /v1/load-balancers/{id}                              all of it; makes the pool where there is none
//! PUT    /v1/load-balancers/{id}/members                      who takes traffic; needs the pool
//! DELETE /v1/load-balancers/{id}                              204
//! GET, PUT /v1/firewall
//! GET, PUT /v1/routes                                         the whole table, all or nothing
//! ```
//!
//! As in real clouds, names are not unique: who asks twice has two, and pays for both. What has an effect has it at once or
//! not at all, also when the client goes away in the middle.

mod answer;
mod fault;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tempfile::NamedTempFile;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

pub use fault::{Act, Fault, Planned, Requests, When};

/// What the cloud lets in.
pub const TOKEN: &str = "balancer-cloud-4f0c1b7e9a2d48c6";

/// How the cloud behaves.
#[derive(Debug, Clone, Copy)]
pub struct CloudSettings {
    /// How long every answer takes. Default 50 ms.
    pub latency: Duration,
    /// From the creation of a load balancer until it has an address. Default 2 s.
    pub provisioning: Duration,
    /// What the addresses of load balancers come after. Default 198.18.0.0, in the range that RFC 2544 keeps for benchmarks: two clouds have no
    /// address in common.
    pub network: Ipv4Addr,
}

impl Default for CloudSettings {
    fn default() -> Self {
        let network = Ipv4Addr::new(198, 18, 0, 0);
        Self { latency: Duration::from_millis(50), provisioning: Duration::from_secs(2), network }
    }
}

/// What a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A page of load balancers.
    List,
    /// One of them.
    Get,
    /// Makes one.
    Create,
    /// Changes one as a whole.
    Replace,
    /// Changes its members.
    Members,
    /// Deletes one.
    Delete,
    /// Reads the firewall.
    Firewall,
    /// Changes it.
    SetFirewall,
    /// Reads the routes.
    Routes,
    /// Changes them, as a whole.
    SetRoutes,
}

impl Kind {
    /// Whether it changes anything.
    #[must_use]
    pub const fn is_write(self) -> bool {
        !matches!(self, Self::List | Self::Get | Self::Firewall | Self::Routes)
    }
}

/// What a load balancer was asked to be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spec {
    /// Not unique.
    pub name: String,
    /// Whoever made it says so: a tag.
    pub owner: String,
    /// Each with `port`, `protocol`, `node_port`.
    pub ports: Vec<Value>,
    /// Seconds until an idle connection ends.
    pub idle_seconds: u32,
    /// Machines that take traffic.
    pub members: Vec<String>,
}

/// A load balancer.
#[derive(Debug, Clone)]
pub struct Balancer {
    /// `lb-000001`: they sort in the order of their creation.
    pub id: String,
    /// What it is.
    pub spec: Spec,
    address: Ipv4Addr,
    built_at: Instant,
    /// How a change of the members is answered where there is no pool for them.
    no_pool: Option<u16>,
}

impl Balancer {
    /// Its address, once it is built.
    #[must_use]
    pub fn address(&self) -> Option<Ipv4Addr> {
        (Instant::now() >= self.built_at).then_some(self.address)
    }
}

/// The firewall.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Firewall {
    /// Ports that are let in.
    pub ports: Vec<u16>,
    /// Where.
    pub machines: Vec<String>,
}

/// A write that had its effect.
#[derive(Debug, Clone)]
pub struct Write {
    /// When.
    pub at: Instant,
    /// What.
    pub kind: Kind,
    /// The load balancer; empty for firewall and routes.
    pub id: String,
    /// Its owner; empty for firewall and routes.
    pub owner: String,
}

#[derive(Default)]
struct State {
    balancers: BTreeMap<String, Balancer>,
    made: u32,
    firewall: Firewall,
    /// Machine by network.
    routes: BTreeMap<String, String>,
    /// A table with one of these networks is refused.
    refused_routes: Vec<String>,
    counts: BTreeMap<Kind, usize>,
    writes: Vec<Write>,
    faults: Vec<fault::Waiting>,
    /// Answers that were refused for want of the token.
    strangers: usize,
}

struct Shared {
    settings: CloudSettings,
    state: Mutex<State>,
    /// Grows with every effect.
    changes: watch::Sender<usize>,
}

/// A running cloud. Ends when it is dropped.
pub struct BalancerCloud {
    address: SocketAddr,
    shared: Arc<Shared>,
    token: NamedTempFile,
    _server: JoinSet<()>,
}

impl BalancerCloud {
    /// Starts it on a free port.
    ///
    /// # Errors
    ///
    /// There is none, or no place for the file with the token.
    pub async fn start(settings: CloudSettings) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let token = NamedTempFile::new()?;
        std::fs::write(token.path(), TOKEN)?;
        let shared = Arc::new(Shared { settings, state: Mutex::default(), changes: watch::Sender::new(0) });
        let mut server = JoinSet::new();
        server.spawn(serve(listener, Arc::clone(&shared)));
        Ok(Self { address, shared, token, _server: server })
    }

    /// Where it is.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Flags of a host that uses it, without the provider itself.
    #[must_use]
    pub fn flags(&self) -> Vec<String> {
        vec![
            format!("--endpoint=api={}", self.url()),
            "--allow-http".to_owned(),
            "--allow-loopback".to_owned(),
            format!("--credential=token=file:{}", self.token.path().display()),
        ]
    }

    /// Requests of a kind so far, whatever became of them.
    #[must_use]
    pub fn count(&self, kind: Kind) -> usize {
        self.shared.state.lock().counts.get(&kind).copied().unwrap_or_default()
    }

    /// Requests so far that change nothing.
    #[must_use]
    pub fn reads(&self) -> usize {
        self.requests(false)
    }

    /// Requests so far that would change something, whatever became of them.
    #[must_use]
    pub fn write_requests(&self) -> usize {
        self.requests(true)
    }

    fn requests(&self, writes: bool) -> usize {
        let state = self.shared.state.lock();
        state.counts.iter().filter(|(kind, _)| kind.is_write() == writes).map(|(_, count)| count).sum()
    }

    /// Writes that had their effect, in order.
    #[must_use]
    pub fn writes(&self) -> Vec<Write> {
        self.shared.state.lock().writes.clone()
    }

    /// Requests that came without the token.
    #[must_use]
    pub fn strangers(&self) -> usize {
        self.shared.state.lock().strangers
    }

    /// All load balancers, the oldest first.
    #[must_use]
    pub fn balancers(&self) -> Vec<Balancer> {
        self.shared.state.lock().balancers.values().cloned().collect()
    }

    /// What the firewall lets in.
    #[must_use]
    pub fn firewall(&self) -> Firewall {
        self.shared.state.lock().firewall.clone()
    }

    /// The routes: machine by network.
    #[must_use]
    pub fn routes(&self) -> BTreeMap<String, String> {
        self.shared.state.lock().routes.clone()
    }

    /// Somebody changes the routes behind everybody's back.
    pub fn tamper_routes(&self, change: impl FnOnce(&mut BTreeMap<String, String>)) {
        change(&mut self.shared.state.lock().routes);
    }

    /// From now on a table with this network is refused.
    pub fn refuse_route(&self, network: &str) {
        self.shared.state.lock().refused_routes.push(network.to_owned());
    }

    /// Waits until the routes are these: pairs of network and machine, in order.
    ///
    /// # Errors
    ///
    /// They were not within `limit`; the error shows them.
    pub async fn await_routes(&self, limit: Duration, wanted: &[(&str, &str)]) -> Result<()> {
        let is_so = |routes: &BTreeMap<String, String>| {
            routes.iter().map(|(network, machine)| (network.as_str(), machine.as_str())).eq(wanted.iter().copied())
        };
        let waited = self.until(limit, || is_so(&self.routes())).await;
        waited.with_context(|| format!("routes: {:#?}", self.routes()))
    }

    /// Somebody changes a load balancer behind everybody's back.
    pub fn tamper(&self, id: &str, change: impl FnOnce(&mut Spec)) {
        if let Some(balancer) = self.shared.state.lock().balancers.get_mut(id) {
            change(&mut balancer.spec);
        }
    }

    /// Somebody deletes the pool that has the members. Changes of the members are answered with this status until the load
    /// balancer is changed as a whole.
    pub fn lose_pool(&self, id: &str, status: u16) {
        if let Some(balancer) = self.shared.state.lock().balancers.get_mut(id) {
            balancer.no_pool = Some(status);
            balancer.spec.members.clear();
        }
    }

    /// Somebody deletes a load balancer.
    pub fn lose(&self, id: &str) {
        self.shared.state.lock().balancers.remove(id);
    }

    /// Does this to a request to come; see [`Fault`].
    pub fn plan(&self, fault: Fault) -> Planned {
        let (waiting, planned) = fault::plan(fault);
        self.shared.state.lock().faults.push(waiting);
        planned
    }

    /// Takes back what was planned and has not happened yet.
    pub fn call_off(&self) {
        self.shared.state.lock().faults.clear();
    }

    /// Waits until the load balancers are as they should be; returns at the write that made them so.
    ///
    /// # Errors
    ///
    /// They were not within `limit`; the error shows them.
    pub async fn await_balancers(&self, limit: Duration, mut condition: impl FnMut(&[Balancer]) -> bool) -> Result<()> {
        let waited = self.until(limit, || condition(&self.balancers())).await;
        waited.with_context(|| format!("load balancers: {:#?}", self.balancers()))
    }

    /// The same for the firewall.
    ///
    /// # Errors
    ///
    /// It was not as it should be within `limit`; the error shows it.
    pub async fn await_firewall(&self, limit: Duration, mut condition: impl FnMut(&Firewall) -> bool) -> Result<()> {
        let waited = self.until(limit, || condition(&self.firewall())).await;
        waited.with_context(|| format!("{:?}", self.firewall()))
    }

    async fn until(&self, limit: Duration, mut condition: impl FnMut() -> bool) -> Result<()> {
        let mut changes = self.shared.changes.subscribe();
        let waiting = async {
            while !condition() {
                // The sender lives as long as this value.
                changes.changed().await.ok();
            }
        };
        let waited = tokio::time::timeout(limit, waiting).await;
        waited.with_context(|| format!("the cloud is not as it should be within {limit:?}"))
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        while connections.try_join_next().is_some() {}
        stream.set_nodelay(true).ok();
        let shared = Arc::clone(&shared);
        let service = service_fn(move |request| {
            let shared = Arc::clone(&shared);
            async move {
                match answer::answer(&shared, request).await {
                    Some(answer) => Ok(answer),
                    // The connection ends without an answer.
                    None => Err(std::io::Error::other("planned")),
                }
            }
        });
        connections.spawn(async move {
            let mut http = hyper::server::conn::http1::Builder::new();
            // A client that leaves is not the server's error.
            http.timer(TokioTimer::new()).serve_connection(TokioIo::new(stream), service).await.ok();
        });
    }
}
