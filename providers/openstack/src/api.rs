//! The cloud's APIs: builds requests and reads answers. It decides nothing.
//!
//! Each service has its endpoint. Their base URLs end in a version, as [`login`](crate::login) binds them; where the operator gave a URL
//! without one, the path of the request has it. So requests are written without: `/servers/detail`.

pub(crate) mod catalogue;
pub(crate) mod floating_ips;
pub(crate) mod groups;
pub(crate) mod octavia;
pub(crate) mod ports;
pub(crate) mod routers;
pub(crate) mod secrets;
pub(crate) mod servers;
#[cfg(test)]
mod tests;

use std::time::Duration;

use ccm_sdk::http::Method;
use ccm_sdk::types::{Failure, Reaction};
use ccm_sdk::{Answer, Cloud, Request, Session};

use crate::login;

pub(crate) const IDENTITY: &str = "identity";
pub(crate) const COMPUTE: &str = "compute";
pub(crate) const NETWORK: &str = "network";
pub(crate) const LOAD_BALANCER: &str = "load-balancer";
pub(crate) const KEY_MANAGER: &str = "key-manager";

/// What a login brings.
pub(crate) const SESSION_TOKEN: &str = "session-token";

pub(crate) const SESSION: Session = Session::new(SESSION_TOKEN, login::request).opened(login::opened);

/// Logins, which need no token.
pub(crate) const KEYSTONE: Cloud = Cloud::new(IDENTITY).message(words);
pub(crate) const NOVA: Service = Service { cloud: CLOUD.at(COMPUTE), kind: "compute", version: "/v2.1" };
pub(crate) const NEUTRON: Service = Service { cloud: CLOUD.at(NETWORK), kind: "network", version: "/v2.0" };
pub(crate) const OCTAVIA: Service = Service { cloud: CLOUD.at(LOAD_BALANCER), kind: "load-balancer", version: "/v2.0" };
pub(crate) const BARBICAN: Service = Service { cloud: CLOUD.at(KEY_MANAGER), kind: "key-manager", version: "/v1" };

/// All that a catalogue names.
pub(crate) const SERVICES: [Service; 4] = [NOVA, NEUTRON, OCTAVIA, BARBICAN];

const CLOUD: Cloud =
    Cloud::new(COMPUTE).prepare(with_token).message(words).exceptions(exceptions).absent(is_absent).session(SESSION);

/// What is being changed takes no other change until that is done.
pub(crate) const BUSY: Duration = Duration::from_secs(2);

/// A service of the cloud.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Service {
    pub(crate) cloud: Cloud,
    /// Its type in the catalogue.
    pub(crate) kind: &'static str,
    /// What its base URL ends in.
    pub(crate) version: &'static str,
}

impl Service {
    pub(crate) fn get(&self, template: &str) -> Request {
        self.request(Method::Get, "GET", template)
    }

    pub(crate) fn post(&self, template: &str) -> Request {
        self.request(Method::Post, "POST", template)
    }

    pub(crate) fn put(&self, template: &str) -> Request {
        self.request(Method::Put, "PUT", template)
    }

    pub(crate) fn delete(&self, template: &str) -> Request {
        self.request(Method::Delete, "DELETE", template)
    }

    fn request(&self, method: Method, verb: &str, template: &str) -> Request {
        let versioned = format!("{}{template}", self.version);
        let has_version = self.cloud.base_path().is_none_or(|path| catalogue::has_version(&path));
        let path = if has_version { template } else { &versioned };
        Request::new(method, self.kind, path).operation(&format!("{verb} {versioned}")).of(self.cloud)
    }
}

fn with_token(request: Request) -> Request {
    request.header_secret("x-auth-token", "", SESSION_TOKEN)
}

/// Neutron changes nothing that somebody else has changed since it was read, and answers 412. Without a revision it cannot.
pub(crate) fn if_unchanged(request: Request, revision: u64) -> Request {
    match revision {
        0 => request,
        _ => request.header("if-match", format_args!("revision_number={revision}")),
    }
}

/// Where the services have their words.
const WORDS: [&str; 13] = [
    "/NeutronError/message",
    "/NeutronError",
    "/faultstring",
    "/itemNotFound/message",
    "/badRequest/message",
    "/forbidden/message",
    "/conflictingRequest/message",
    "/overLimit/message",
    "/computeFault/message",
    "/error/message",
    "/description",
    "/message",
    "/title",
];

fn words(answer: &Answer) -> Option<String> {
    WORDS.iter().find_map(|place| answer.text_at(place).filter(|text| !text.is_empty()))
}

/// Only what the services themselves say of a thing that was asked for: gateways answer 404 as well, in JSON too, and so does a service
/// that does not know the path.
fn is_absent(answer: &Answer) -> bool {
    answer.status() == 404
        && (answer.text_at("/itemNotFound/message").is_some()
            || neutron_type(answer).is_some_and(|kind| {
                kind.ends_with("NotFound") && kind != UNKNOWN_PATH && !kind.starts_with(NO_GATEWAY)
            })
            || answer.text_at("/faultstring").is_some_and(|text| text.contains("not found"))
            || answer
                .text_at("/description")
                .is_some_and(|text| text.contains("not found") || text.starts_with(BARBICANS)))
}

/// Begin of what Barbican says of a secret or a container that it does not have. A path that it does not know is "Not Found." alone.
const BARBICANS: &str = "Not Found. Sorry but your ";

/// Neutron does not know the path.
const UNKNOWN_PATH: &str = "HTTPNotFound";
/// A floating IP for a port whose subnet has no router to the outside.
const NO_GATEWAY: &str = "ExternalGateway";

/// What kind of error Neutron means.
pub(crate) fn neutron_type(answer: &Answer) -> Option<String> {
    answer.text_at("/NeutronError/type")
}

/// What an answer means that its status alone does not tell.
pub(crate) fn exceptions(answer: &Answer) -> Option<Failure> {
    let failure = |reaction| Some(answer.failure(reaction));
    let kind = neutron_type(answer).unwrap_or_default();
    match answer.status() {
        400 if kind == "RoutesExhausted" => failure(Reaction::Quota),
        409 if kind == "OverQuota" || kind == "IpAddressGenerationFailure" => failure(Reaction::Quota),
        403 | 409 if answer.says("quota") => failure(Reaction::Quota),
        409 if answer.says("immutable") || answer.says("invalid state pending") => {
            failure(Reaction::Pending).map(|failure| failure.after(BUSY))
        }
        // Nova's answer to too many requests before there was a status for it, and to too many of something else.
        413 if answer.text_at("/overLimit/message").is_some() => match answer.header("retry-after") {
            Some(_) => failure(Reaction::Throttled),
            None => failure(Reaction::Quota),
        },
        404 if kind.starts_with(NO_GATEWAY) => failure(Reaction::Retry),
        _ => None,
    }
}
