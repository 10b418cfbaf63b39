//! What a host lets a component see.

use std::time::Duration;

use ccm_sdk::http::{Effect, Method, Request, TransportReason};
use ccm_sdk::types::{Attributes, Node};
use ccm_sdk::{cache, clock as host_clock, http as door, settings as configured};

use crate::label;

/// The file that is declared.
pub(crate) const FILE: &str = "cloud-config";
/// The setting that is declared.
pub(crate) const SETTING: &str = "mood";

const CACHE_KEY: &str = "hostile";
/// Longer than any test: what is gone is gone for another reason than its age.
const CACHE_TTL: Duration = Duration::from_secs(3_600);

/// What is declared, what is not, and the cluster's name.
pub(crate) fn settings() -> Attributes {
    let seen = |value: Option<String>| value.unwrap_or_else(|| "none".to_owned());
    vec![
        label("setting", seen(configured::get(SETTING))),
        label("undeclared-setting", seen(configured::get("PATH"))),
        label("file", seen(configured::file(FILE))),
        label("undeclared-file", seen(configured::file("/etc/passwd"))),
        label("cluster-name", configured::cluster_name()),
        // As the value of a label may be.
        label("cluster-cidrs", configured::cluster_cidrs().join("_").replace(['/', ':'], "-")),
    ]
}

/// A request to an endpoint that is not declared.
pub(crate) fn request() -> Request {
    Request {
        endpoint: "evil".to_owned(),
        method: Method::Get,
        effect: Effect::Read,
        path: "/".to_owned(),
        query: vec![],
        headers: vec![],
        body: vec![],
        operation: "GET /".to_owned(),
        share_ms: 0,
        capture: None,
    }
}

/// What comes of such a request.
pub(crate) fn http() -> Attributes {
    match door::send(&request()) {
        Ok(response) => vec![label("status", response.status.to_string())],
        Err(error) => vec![label("reason", reason(error.reason)), label("message", error.message)],
    }
}

fn reason(reason: TransportReason) -> &'static str {
    match reason {
        TransportReason::Denied => "denied",
        TransportReason::Unbound => "unbound",
        TransportReason::UnknownCredential => "unknown-credential",
        TransportReason::Connect => "connect",
        TransportReason::Tls => "tls",
        TransportReason::Timeout => "timeout",
        TransportReason::TooLarge => "too-large",
        TransportReason::Throttled => "throttled",
        TransportReason::ReadOnly => "read-only",
        TransportReason::Other => "other",
    }
}

/// The annotations of the first Node, as labels of the same name.
pub(crate) fn annotations(nodes: &[Node]) -> Attributes {
    nodes.first().map_or_else(Vec::new, |node| node.annotations.clone())
}

/// Whether the clock makes sense.
pub(crate) fn clock() -> Attributes {
    let remaining = host_clock::remaining();
    let is_within_a_call = !remaining.is_zero() && remaining <= Duration::from_secs(60);
    let is_after_2020 = host_clock::since_epoch() > Duration::from_secs(1_577_836_800);
    vec![label("remaining", is_within_a_call.to_string()), label("now", is_after_2020.to_string())]
}

/// A value goes in, and out again.
pub(crate) fn cache() -> Attributes {
    cache::put(CACHE_KEY, b"hoarded", CACHE_TTL);
    cache_read()
}

/// What an earlier call left.
pub(crate) fn cache_read() -> Attributes {
    let value = cache::get(CACHE_KEY).map(|value| String::from_utf8_lossy(&value).into_owned());
    vec![label("cache", value.unwrap_or_else(|| "none".to_owned()))]
}

/// How much an earlier call hoarded: the host hands over a copy, and another one once the first is gone.
pub(crate) fn hoard() -> Attributes {
    let read = || cache::get(crate::attack::HOARD).map_or(0, |value| value.len());
    vec![label("hoard", format!("{}-{}", read(), read()))]
}
