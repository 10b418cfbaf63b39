//! What an operator of the simulator asks of it, beside the API.
//!
//! ```text
//! GET  /state        all that is in the account
//! GET  /counters     requests by endpoint, answers by status, 429s
//! GET  /exchanges    what was asked and answered
//! GET  /violations   what was against the document: a list, empty if nothing was
//! GET  /settings
//! PUT  /settings     all of them; what is left out has its default
//! POST /             one Command
//! ```

use std::collections::BTreeSet;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Request, Response, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::cloud::{Certificate, Droplet, Region, Vpc};
use crate::fault::{self, Fault};
use crate::{Shared, State};

/// Something to do. As JSON: `{"do":"droplets","droplets":[{"name":"node-1"}]}`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Command {
    /// Makes machines, or replaces those with these IDs; answers their IDs.
    Droplets {
        /// Which.
        droplets: Vec<Droplet>,
    },
    /// Ends a machine.
    RemoveDroplet {
        /// Its ID.
        id: u64,
    },
    /// Makes a certificate; answers its ID.
    Certificate {
        /// Which.
        certificate: Certificate,
    },
    /// Deletes a certificate, also one that is in use.
    RemoveCertificate {
        /// Its ID.
        id: String,
    },
    /// Renews a certificate of Let's Encrypt; answers its new ID.
    Renew {
        /// Its ID.
        id: String,
    },
    /// Deletes a load balancer behind everybody's back.
    RemoveBalancer {
        /// Its ID.
        id: String,
    },
    /// Deletes a firewall behind everybody's back.
    RemoveFirewall {
        /// Its ID.
        id: String,
    },
    /// A load balancer failed to become active, or did not.
    Errored {
        /// Its ID.
        id: String,
        /// Whether it did.
        errored: bool,
    },
    /// Another region.
    Region {
        /// Which.
        region: Region,
    },
    /// Another VPC.
    Vpc {
        /// Which.
        vpc: Vpc,
    },
    /// Plans a fault.
    Fault {
        /// Which.
        fault: Fault,
    },
    /// Forgets all planned faults that are still to come; those at random are a setting.
    NoFaults,
    /// Lets a token in.
    Allow {
        /// Its text.
        token: String,
        /// What it may do, such as `tag:read`. Default everything.
        #[serde(default)]
        scopes: Option<BTreeSet<String>>,
    },
    /// Lets a token in no more.
    Revoke {
        /// Its text.
        token: String,
    },
    /// The clock runs so many times as fast as ours.
    Speed {
        /// Between 0 and 1,000,000.
        speed: f64,
    },
    /// The clock jumps ahead.
    Advance {
        /// By so much.
        milliseconds: u64,
    },
    /// Counts from nothing, and forgets the exchanges. Violations stay.
    ResetCounters,
}

impl Shared {
    /// What it answers; the error says what is not there.
    pub(crate) fn command(&self, command: Command) -> Result<Value, String> {
        let now = self.clock.now();
        let mut state = self.state.lock();
        let State { cloud, log, faults, .. } = &mut *state;
        let found = |found: bool| if found { Ok(Value::Null) } else { Err("there is none".to_owned()) };
        let answer = match command {
            Command::Droplets { droplets } => {
                Ok(droplets.into_iter().map(|droplet| cloud.put_droplet(now, droplet)).collect())
            }
            Command::RemoveDroplet { id } => found(cloud.remove_droplet(now, id)),
            Command::Certificate { certificate } => Ok(json!(cloud.put_certificate(now, certificate))),
            Command::RemoveCertificate { id } => found(cloud.certificates.remove(now, id.as_str()).is_some()),
            Command::Renew { id } => {
                cloud.renew(now, &id).map(Value::from).ok_or_else(|| format!("{id} is none of Let's Encrypt"))
            }
            Command::RemoveBalancer { id } => found(cloud.balancers.remove(now, id.as_str()).is_some()),
            Command::RemoveFirewall { id } => found(cloud.firewalls.remove(now, id.as_str()).is_some()),
            Command::Errored { id, errored } => found(cloud.set_errored(now, &id, errored)),
            Command::Region { region } => {
                cloud.regions.retain(|own| own.slug != region.slug);
                cloud.regions.push(region);
                Ok(Value::Null)
            }
            Command::Vpc { vpc } => {
                cloud.vpcs.retain(|own| own.id != vpc.id);
                cloud.vpcs.push(vpc);
                Ok(Value::Null)
            }
            Command::Fault { fault } => {
                faults.push(fault::plan(fault).0);
                Ok(Value::Null)
            }
            Command::NoFaults => {
                faults.clear();
                Ok(Value::Null)
            }
            Command::Allow { token, scopes } => {
                state.allow(&token, scopes);
                Ok(Value::Null)
            }
            Command::Revoke { token } => found(state.revoke(&token)),
            Command::Speed { speed } => {
                let set = self.clock.set_speed(speed).then_some(Value::Null);
                set.ok_or_else(|| format!("speed {speed} is not between 0 and 1,000,000"))
            }
            Command::Advance { milliseconds } => {
                self.clock.advance(std::time::Duration::from_millis(milliseconds));
                Ok(Value::Null)
            }
            Command::ResetCounters => {
                log.reset();
                Ok(Value::Null)
            }
        };
        drop(state);
        self.changes.send_modify(|changes| *changes += 1);
        answer
    }
}

/// None: the client went away.
pub(crate) async fn answer(shared: &Shared, request: Request<Incoming>) -> Option<Response<Full<Bytes>>> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.ok()?.to_bytes();
    let told = |message: String| (StatusCode::BAD_REQUEST, json!({ "error": message }));
    let (status, value) = match (parts.method.as_str(), parts.uri.path()) {
        ("GET", "/state") => {
            let now = shared.clock.now();
            (StatusCode::OK, json!(shared.state.lock().cloud.snapshot(now, &shared.clock)))
        }
        ("GET", "/counters") => (StatusCode::OK, json!(shared.state.lock().log.counters())),
        ("GET", "/exchanges") => (StatusCode::OK, json!(shared.state.lock().log.exchanges().collect::<Vec<_>>())),
        ("GET", "/violations") => (StatusCode::OK, json!(shared.state.lock().log.violations())),
        ("GET", "/settings") => (StatusCode::OK, json!(*shared.settings.lock())),
        ("PUT", "/settings") => match serde_json::from_slice(&body) {
            Ok(settings) => {
                *shared.settings.lock() = settings;
                (StatusCode::OK, Value::Null)
            }
            Err(error) => told(format!("settings: {error}")),
        },
        ("POST", "/") => match serde_json::from_slice(&body) {
            Ok(command) => match shared.command(command) {
                Ok(value) => (StatusCode::OK, value),
                Err(error) => (StatusCode::NOT_FOUND, json!({ "error": error })),
            },
            Err(error) => told(format!("command: {error}")),
        },
        (method, path) => {
            (StatusCode::NOT_FOUND, json!({ "error": format!("{method} {path}: see the documentation") }))
        }
    };
    let mut response = Response::new(Full::new(Bytes::from(value.to_string())));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Some(response)
}
