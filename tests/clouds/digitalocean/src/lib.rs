//! The API of DigitalOcean on loopback, with state, faults and a quota, for tests, benchmarks and a look.
//!
//! It answers the 28 operations of the vendor's OpenAPI document that a cloud controller manager may use, and checks every
//! request and every answer against the document: what is against it is a violation, and [`DigitalOcean::check`] fails. What
//! the document lacks and production has is listed in `api/README.md`.
//!
//! As a program: `cargo run -p ccm-sim-digitalocean -- --help`. See [`Command`] for what its control endpoint takes.

mod answer;
mod clock;
mod cloud;
mod collection;
mod control;
mod document;
mod endpoint;
mod fault;
mod log;
mod quota;
mod random;
mod scope;
mod settings;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use http_body_util::Full;
use hyper::Response;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

pub use cloud::{
    Balancer, BalancerSpec, Certificate, CertificateKind, CertificateState, Droplet, DropletStatus, Firewall,
    FirewallRule, FirewallSpec, ForwardingRule, HealthCheck, Peers, Region, SourceRules, StickySessions, Vpc,
};
pub use control::Command;
pub use endpoint::Endpoint;
pub use fault::{Act, FAULTS, Fault, Planned, Requests, When};
pub use log::{Counters, Exchange};
pub use quota::Quota;
pub use random::RandomFaults;
pub use settings::Settings;

use answer::Token;
use clock::Clock;
use cloud::Cloud;
use document::Document;
use log::Log;
use random::Random;

/// The token that is valid from the start.
pub const TOKEN: &str = "dop_v1_simulated_4f0c1b7e9a2d48c6";

struct State {
    cloud: Cloud,
    tokens: Vec<Token>,
    log: Log,
    faults: Vec<fault::Waiting>,
    random: Random,
}

struct Shared {
    document: Arc<Document>,
    clock: Clock,
    settings: Mutex<Settings>,
    state: Mutex<State>,
    /// Grows with every effect.
    changes: watch::Sender<usize>,
}

/// A running cloud. Ends when it is dropped.
pub struct DigitalOcean {
    api: SocketAddr,
    control: SocketAddr,
    shared: Arc<Shared>,
    _servers: JoinSet<()>,
}

impl DigitalOcean {
    /// Starts it on free ports.
    ///
    /// # Errors
    ///
    /// There are none, or the OpenAPI document cannot be used.
    pub async fn start(settings: Settings) -> Result<Self> {
        let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        Self::start_at(settings, loopback, loopback).await
    }

    /// Starts it where it is to be; port 0: a free one.
    ///
    /// # Errors
    ///
    /// Something else is there, or the OpenAPI document cannot be used.
    pub async fn start_at(settings: Settings, api: SocketAddr, control: SocketAddr) -> Result<Self> {
        let document = Document::shared()?;
        let bind = async |address: SocketAddr| {
            TcpListener::bind(address).await.with_context(|| format!("listen on {address}"))
        };
        let (api, control) = (bind(api).await?, bind(control).await?);
        let addresses = (api.local_addr()?, control.local_addr()?);
        let mut state = State {
            cloud: Cloud::new(),
            tokens: Vec::new(),
            log: Log::default(),
            faults: Vec::new(),
            random: Random::default(),
        };
        state.allow(TOKEN, None);
        let shared = Arc::new(Shared {
            document,
            clock: Clock::new(),
            settings: Mutex::new(settings),
            state: Mutex::new(state),
            changes: watch::Sender::new(0),
        });
        let mut servers = JoinSet::new();
        servers.spawn(serve(api, Arc::clone(&shared), Port::Api));
        servers.spawn(serve(control, Arc::clone(&shared), Port::Control));
        Ok(Self { api: addresses.0, control: addresses.1, shared, _servers: servers })
    }

    /// Where the API is, with the prefix of the settings; `/v2/…` comes after it.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}{}", self.api, self.shared.settings.lock().prefix)
    }

    /// Where the control endpoint is.
    #[must_use]
    pub fn control_url(&self) -> String {
        format!("http://{}", self.control)
    }

    /// How it behaves from now on.
    pub fn set(&self, change: impl FnOnce(&mut Settings)) {
        change(&mut self.shared.settings.lock());
    }

    /// Does something in the account, as the control endpoint does. Returns what that answers.
    ///
    /// # Errors
    ///
    /// What it is about is not there.
    pub fn command(&self, command: Command) -> Result<Value> {
        self.shared.command(command).map_err(anyhow::Error::msg)
    }

    /// Makes a machine, or replaces the one with its ID. Returns the ID.
    pub fn put_droplet(&self, droplet: Droplet) -> u64 {
        self.shared.state.lock().cloud.put_droplet(self.shared.clock.now(), droplet)
    }

    /// Ends a machine; load balancers lose it. False: there was none.
    pub fn remove_droplet(&self, id: u64) -> bool {
        self.shared.state.lock().cloud.remove_droplet(self.shared.clock.now(), id)
    }

    /// Makes a project, to which load balancers can belong. Returns its ID.
    pub fn put_project(&self) -> String {
        let cloud = &mut self.shared.state.lock().cloud;
        let id = cloud.uuid();
        cloud.projects.push(id.clone());
        id
    }

    /// Makes a certificate. Returns its ID.
    pub fn put_certificate(&self, certificate: Certificate) -> String {
        self.shared.state.lock().cloud.put_certificate(self.shared.clock.now(), certificate)
    }

    /// What Let's Encrypt does: a new ID with the same name, load balancers switched, the old one gone. Returns the new ID;
    /// None: there is no such certificate, or its owner renews it.
    pub fn renew(&self, certificate: &str) -> Option<String> {
        self.shared.state.lock().cloud.renew(self.shared.clock.now(), certificate)
    }

    /// Somebody changes a load balancer behind everybody's back. False: there is none.
    pub fn tamper(&self, id: &str, change: impl FnOnce(&mut BalancerSpec)) -> bool {
        let balancers = &mut self.shared.state.lock().cloud.balancers;
        let Some(mut balancer) = balancers.get(id).cloned() else { return false };
        change(&mut balancer.spec);
        balancers.put(self.shared.clock.now(), id.to_owned(), balancer);
        true
    }

    /// The same for a firewall.
    pub fn tamper_firewall(&self, id: &str, change: impl FnOnce(&mut FirewallSpec)) -> bool {
        let firewalls = &mut self.shared.state.lock().cloud.firewalls;
        let Some(mut firewall) = firewalls.get(id).cloned() else { return false };
        change(&mut firewall.spec);
        firewalls.put(self.shared.clock.now(), id.to_owned(), firewall);
        true
    }

    /// All load balancers, the oldest first.
    #[must_use]
    pub fn balancers(&self) -> Vec<Balancer> {
        self.shared.state.lock().cloud.balancers.all().cloned().collect()
    }

    /// `new`, `active` or `errored`; None: there is none with this ID.
    #[must_use]
    pub fn balancer_status(&self, id: &str) -> Option<&'static str> {
        let now = self.shared.clock.now();
        self.shared.state.lock().cloud.balancers.get(id).map(|balancer| balancer.status(now))
    }

    /// All firewalls, the oldest first.
    #[must_use]
    pub fn firewalls(&self) -> Vec<Firewall> {
        self.shared.state.lock().cloud.firewalls.all().cloned().collect()
    }

    /// Names of all tags.
    #[must_use]
    pub fn tags(&self) -> Vec<String> {
        self.shared.state.lock().cloud.tags.keys().cloned().collect()
    }

    /// Does this to requests to come; see [`Fault`].
    pub fn plan(&self, fault: Fault) -> Planned {
        let (waiting, planned) = fault::plan(fault);
        self.shared.state.lock().faults.push(waiting);
        planned
    }

    /// Forgets all planned faults that are still to come.
    pub fn forget_faults(&self) {
        self.shared.state.lock().faults.clear();
    }

    /// Lets a token in.
    pub fn allow(&self, token: &str) {
        self.shared.state.lock().allow(token, None);
    }

    /// Lets a token in that changes nothing.
    pub fn allow_reads(&self, token: &str) {
        let all = Endpoint::ALL.iter().filter(|endpoint| !endpoint.is_write());
        self.shared.state.lock().allow(token, Some(all.map(|endpoint| endpoint.scope().to_owned()).collect()));
    }

    /// Lets a token in that has only these scopes, such as `tag:read`; the one of the start has all. One that is let in already
    /// changes its scopes.
    pub fn allow_scopes(&self, token: &str, scopes: &[&str]) {
        let scopes = scopes.iter().map(|scope| (*scope).to_owned()).collect();
        self.shared.state.lock().allow(token, Some(scopes));
    }

    /// Lets a token in no more. False: it was not.
    pub fn revoke(&self, token: &str) -> bool {
        self.shared.state.lock().revoke(token)
    }

    /// The clock of the cloud jumps ahead: what takes time is done, what was counted counts no more.
    pub fn advance(&self, by: Duration) {
        self.shared.clock.advance(by);
    }

    /// The clock of the cloud runs so many times as fast as ours, from 0 to 1,000,000. False: it cannot.
    #[must_use]
    pub fn set_speed(&self, speed: f64) -> bool {
        self.shared.clock.set_speed(speed)
    }

    /// How often what was asked.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.shared.state.lock().log.counters().clone()
    }

    /// Requests of an endpoint so far, whatever became of them.
    #[must_use]
    pub fn count(&self, endpoint: Endpoint) -> usize {
        self.shared.state.lock().log.counters().requests.get(&endpoint).copied().unwrap_or_default()
    }

    /// Counts from nothing, and forgets the exchanges. Violations stay.
    pub fn reset_counters(&self) {
        self.shared.state.lock().log.reset();
    }

    /// What was asked and answered, as far as it is kept.
    #[must_use]
    pub fn exchanges(&self) -> Vec<Exchange> {
        self.shared.state.lock().log.exchanges().cloned().collect()
    }

    /// What was against the document so far.
    #[must_use]
    pub fn violations(&self) -> Vec<String> {
        self.shared.state.lock().log.violations().to_vec()
    }

    /// To be asked at the end of every test.
    ///
    /// # Errors
    ///
    /// Something was against the document.
    pub fn check(&self) -> Result<()> {
        let violations = self.violations();
        if !violations.is_empty() {
            bail!("against the OpenAPI document:\n{}", violations.join("\n"));
        }
        Ok(())
    }

    /// Waits until something is as it should be; it is looked at after every effect.
    ///
    /// # Errors
    ///
    /// It was not within `limit`; the error shows the load balancers and firewalls.
    pub async fn until(&self, limit: Duration, mut condition: impl FnMut(&Self) -> bool) -> Result<()> {
        let mut changes = self.shared.changes.subscribe();
        let waiting = async {
            while !condition(self) {
                // The sender lives as long as this value.
                changes.changed().await.ok();
            }
        };
        let waited = tokio::time::timeout(limit, waiting).await;
        waited.with_context(|| {
            format!(
                "the cloud is not as it should be within {limit:?}: {:#?} {:#?}",
                self.balancers(),
                self.firewalls()
            )
        })
    }
}

/// What a port is for.
#[derive(Clone, Copy)]
enum Port {
    Api,
    Control,
}

async fn serve(listener: TcpListener, shared: Arc<Shared>, port: Port) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        while connections.try_join_next().is_some() {}
        stream.set_nodelay(true).ok();
        let shared = Arc::clone(&shared);
        let service = service_fn(move |request| {
            let shared = Arc::clone(&shared);
            async move {
                let answer: Option<Response<Full<Bytes>>> = match port {
                    Port::Api => answer::answer(&shared, request).await,
                    Port::Control => control::answer(&shared, request).await,
                };
                match answer {
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
