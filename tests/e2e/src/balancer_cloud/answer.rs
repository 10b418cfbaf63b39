//! One request: counted, late, perhaps struck by a fault, answered.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::{Method, Request, Response};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::fault::{self, Instead, When};
use super::{Balancer, Firewall, Kind, Shared, Spec, State, TOKEN, Write};

/// The most on a page.
const MAX_PER_PAGE: usize = 100;

type Reply = (u16, Value);

/// What is asked.
enum Ask {
    List { owner: Option<String>, page: usize, per_page: usize },
    Get(String),
    Create(Spec),
    Replace(String, Spec),
    Members(String, Vec<String>),
    Delete(String),
    Firewall,
    SetFirewall(Firewall),
    Routes,
    SetRoutes(BTreeMap<String, String>),
}

impl Ask {
    const fn kind(&self) -> Kind {
        match self {
            Self::List { .. } => Kind::List,
            Self::Get(_) => Kind::Get,
            Self::Create(_) => Kind::Create,
            Self::Replace(..) => Kind::Replace,
            Self::Members(..) => Kind::Members,
            Self::Delete(_) => Kind::Delete,
            Self::Firewall => Kind::Firewall,
            Self::SetFirewall(_) => Kind::SetFirewall,
            Self::Routes => Kind::Routes,
            Self::SetRoutes(_) => Kind::SetRoutes,
        }
    }
}

/// None: the connection ends without an answer.
pub(super) async fn answer(shared: &Shared, request: Request<Incoming>) -> Option<Response<Full<Bytes>>> {
    let authorised = request.headers().get("authorization").is_some_and(|value| {
        value.to_str().is_ok_and(|value| value.strip_prefix("Bearer ").is_some_and(|token| token == TOKEN))
    });
    if !authorised {
        shared.state.lock().strangers += 1;
        return Some(response((401, told("no such token"))));
    }
    let (parts, body) = request.into_parts();
    let body = body.collect().await.ok()?.to_bytes();
    let ask = match parse(&parts.method, parts.uri.path(), parts.uri.query().unwrap_or_default(), &body) {
        Ok(ask) => ask,
        Err(reply) => return Some(response(reply)),
    };
    let mut fault = {
        let mut state = shared.state.lock();
        *state.counts.entry(ask.kind()).or_default() += 1;
        fault::take(&mut state.faults, ask.kind())
    };
    tokio::time::sleep(shared.settings.latency).await;
    if let Some(fault) = &mut fault
        && let Some(instead) = fault.strike(When::Before).await
    {
        return struck(&instead);
    }
    // Nobody can go away between the two.
    let is_write = ask.kind().is_write();
    let reply = shared.act(ask);
    if is_write {
        shared.changes.send_modify(|changes| *changes += 1);
    }
    if let Some(fault) = &mut fault
        && let Some(instead) = fault.strike(When::After).await
    {
        return struck(&instead);
    }
    Some(response(reply))
}

fn struck(instead: &Instead) -> Option<Response<Full<Bytes>>> {
    match instead {
        Instead::Status(status) => Some(response((*status, told("planned")))),
        Instead::Nothing => None,
    }
}

fn told(message: &str) -> Value {
    json!({ "message": message })
}

fn response((status, body): Reply) -> Response<Full<Bytes>> {
    let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = hyper::StatusCode::from_u16(status).unwrap_or_default();
    let json = hyper::header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(hyper::header::CONTENT_TYPE, json);
    response
}

fn parse(method: &Method, path: &str, query: &str, body: &[u8]) -> Result<Ask, Reply> {
    #[derive(Deserialize)]
    struct NewMembers {
        members: Vec<String>,
    }
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    match (method.as_str(), parts.as_slice()) {
        ("GET", ["v1", "load-balancers"]) => {
            let value = |name: &str| {
                query.split('&').find_map(|pair| pair.split_once('=').filter(|(key, _)| *key == name)).map(|(_, v)| v)
            };
            let number = |name: &str, default| match value(name) {
                None => Ok(default),
                Some(text) => text.parse::<usize>().ok().filter(|number| *number > 0).ok_or((400, told(name))),
            };
            let per_page = number("per_page", 20)?.min(MAX_PER_PAGE);
            Ok(Ask::List { owner: value("owner").map(Into::into), page: number("page", 1)?, per_page })
        }
        ("POST", ["v1", "load-balancers"]) => Ok(Ask::Create(read(body)?)),
        ("GET", ["v1", "load-balancers", id]) => Ok(Ask::Get((*id).to_owned())),
        ("PUT", ["v1", "load-balancers", id]) => Ok(Ask::Replace((*id).to_owned(), read(body)?)),
        ("DELETE", ["v1", "load-balancers", id]) => Ok(Ask::Delete((*id).to_owned())),
        ("PUT", ["v1", "load-balancers", id, "members"]) => {
            Ok(Ask::Members((*id).to_owned(), read::<NewMembers>(body)?.members))
        }
        ("GET", ["v1", "firewall"]) => Ok(Ask::Firewall),
        ("PUT", ["v1", "firewall"]) => Ok(Ask::SetFirewall(read(body)?)),
        ("GET", ["v1", "routes"]) => Ok(Ask::Routes),
        ("PUT", ["v1", "routes"]) => Ok(Ask::SetRoutes(read(body)?)),
        _ => Err((404, told("no such place"))),
    }
}

fn read<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Reply> {
    serde_json::from_slice(body).map_err(|error| (400, told(&error.to_string())))
}

impl Shared {
    fn act(&self, ask: Ask) -> Reply {
        let kind = ask.kind();
        let mut state = self.state.lock();
        match ask {
            Ask::List { owner, page, per_page } => {
                let of = |balancer: &&Balancer| owner.as_ref().is_none_or(|owner| *owner == balancer.spec.owner);
                let all: Vec<&Balancer> = state.balancers.values().filter(of).collect();
                let first = (page - 1).saturating_mul(per_page);
                let shown: Vec<Value> = all.iter().skip(first).take(per_page).map(|balancer| shown(balancer)).collect();
                (200, json!({ "load_balancers": shown, "total": all.len() }))
            }
            Ask::Get(id) => state.balancers.get(&id).map_or_else(absent, |balancer| one(200, balancer)),
            Ask::Create(spec) => {
                state.made += 1;
                let id = format!("lb-{:06}", state.made);
                let address = Ipv4Addr::from(u32::from(self.settings.network) + state.made);
                let built_at = Instant::now() + self.settings.provisioning;
                let balancer = Balancer { id: id.clone(), spec, address, built_at, no_pool: None };
                state.wrote(kind, &balancer);
                let reply = one(201, &balancer);
                state.balancers.insert(id, balancer);
                reply
            }
            Ask::Replace(id, spec) => state.change(kind, &id, |own| (own.spec, own.no_pool) = (spec, None)),
            Ask::Members(id, members) => match state.balancers.get(&id).and_then(|balancer| balancer.no_pool) {
                Some(status) => (status, told("the load balancer has no pool")),
                None => state.change(kind, &id, |own| own.spec.members = members),
            },
            Ask::Delete(id) => match state.balancers.remove(&id) {
                Some(balancer) => {
                    state.wrote(kind, &balancer);
                    (204, Value::Null)
                }
                None => absent(),
            },
            Ask::Firewall => (200, json!(state.firewall)),
            Ask::SetFirewall(firewall) => {
                state.firewall = firewall;
                state.wrote_whole(kind)
            }
            Ask::Routes => (200, json!(state.routes)),
            Ask::SetRoutes(routes) => match state.refused_routes.iter().find(|network| routes.contains_key(*network)) {
                Some(network) => (422, told(&format!("{network} is reserved"))),
                None => {
                    state.routes = routes;
                    state.wrote_whole(kind)
                }
            },
        }
    }
}

impl State {
    fn change(&mut self, kind: Kind, id: &str, change: impl FnOnce(&mut Balancer)) -> Reply {
        let Some(balancer) = self.balancers.get_mut(id) else { return absent() };
        change(balancer);
        let balancer = balancer.clone();
        self.wrote(kind, &balancer);
        one(200, &balancer)
    }

    fn wrote_whole(&mut self, kind: Kind) -> Reply {
        self.writes.push(Write { at: Instant::now(), kind, id: String::new(), owner: String::new() });
        (204, Value::Null)
    }

    fn wrote(&mut self, kind: Kind, balancer: &Balancer) {
        let (id, owner) = (balancer.id.clone(), balancer.spec.owner.clone());
        self.writes.push(Write { at: Instant::now(), kind, id, owner });
    }
}

fn absent() -> Reply {
    (404, told("there is no such load balancer"))
}

fn one(status: u16, balancer: &Balancer) -> Reply {
    (status, json!({ "load_balancer": shown(balancer) }))
}

fn shown(balancer: &Balancer) -> Value {
    #[derive(Serialize)]
    struct Shown<'a> {
        id: &'a str,
        state: &'static str,
        address: Option<Ipv4Addr>,
        #[serde(flatten)]
        spec: &'a Spec,
    }
    let address = balancer.address();
    let state = if address.is_some() { "active" } else { "provisioning" };
    json!(Shown { id: &balancer.id, state, address, spec: &balancer.spec })
}
