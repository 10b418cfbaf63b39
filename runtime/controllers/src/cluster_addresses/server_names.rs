//! The addresses of names by which clients reach the API server. A name in front of several of them, or of a balancer, has others over time.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, join_all};
use parking_lot::{Mutex, RwLock};
use tokio::time::Instant;

/// How often the names are looked up.
const PERIOD: Duration = Duration::from_secs(30);
/// How long one look may take.
const LIMIT: Duration = Duration::from_secs(5);
/// How long an address stays known that its name has no more: resolvers give some of many addresses, each time others.
const KEPT: Duration = Duration::from_secs(60 * 60);
/// Most addresses of all names.
const MOST: usize = 1024;

type NameLookup = BoxFuture<'static, io::Result<Vec<IpAddr>>>;

/// Asks for the addresses of a name; by default, the resolver of the system.
#[derive(Clone)]
pub struct Lookup(Arc<dyn Fn(String) -> NameLookup + Send + Sync>);

impl Default for Lookup {
    fn default() -> Self {
        Self::new(|name| {
            Box::pin(async move {
                let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
                Ok(found.map(|address| address.ip()).collect())
            })
        })
    }
}

impl Lookup {
    /// One that asks in this way.
    pub fn new(ask: impl Fn(String) -> NameLookup + Send + Sync + 'static) -> Self {
        Self(Arc::new(ask))
    }
}

impl fmt::Debug for Lookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lookup")
    }
}

/// Names, and the addresses that they have or had a short time ago.
pub(super) struct ServerNames {
    names: Vec<String>,
    lookup: Lookup,
    known: RwLock<HashMap<IpAddr, Instant>>,
    /// What was said of names that have no address.
    told: Mutex<Option<String>>,
}

impl ServerNames {
    pub(super) fn new(names: Vec<String>, lookup: Lookup) -> Self {
        Self { names, lookup, known: RwLock::default(), told: Mutex::default() }
    }

    /// Whether one of the names has this address.
    pub(super) fn have(&self, ip: IpAddr) -> bool {
        self.known.read().contains_key(&ip)
    }

    /// Looks them up for ever.
    pub(super) async fn follow(&self) {
        while !self.names.is_empty() {
            tokio::time::sleep(PERIOD).await;
            self.resolve().await;
        }
    }

    /// Looks them up once. What nobody answers stays as it was.
    pub(super) async fn resolve(&self) {
        let asked = self.names.iter().map(|name| async move {
            let answer = match tokio::time::timeout(LIMIT, (self.lookup.0)(name.clone())).await {
                Ok(answer) => answer.map_err(|error| error.to_string()),
                Err(_elapsed) => Err(format!("no answer within {LIMIT:?}")),
            };
            answer.map_err(|error| format!("{name}: {error}"))
        });
        let (now, mut failed) = (Instant::now(), Vec::new());
        for answer in join_all(asked).await {
            match answer {
                Ok(found) => {
                    let mut known = self.known.write();
                    known.retain(|_, seen| now.saturating_duration_since(*seen) < KEPT);
                    for ip in found.into_iter().map(|ip| ip.to_canonical()) {
                        if known.len() < MOST || known.contains_key(&ip) {
                            known.insert(ip, now);
                        }
                    }
                }
                Err(error) => failed.push(error),
            }
        }
        let told = (!failed.is_empty()).then(|| failed.join("; "));
        let mut before = self.told.lock();
        if *before != told {
            if let Some(error) = &told {
                tracing::warn!(
                    error,
                    "the addresses of the API server's name are not known, and not refused as addresses of Nodes and load balancers: correct the \
                     name, or give --reserved-address"
                );
            }
            *before = told;
        }
    }
}
