//! Addresses come first: the host writes those of a call that is done, and none of one that waits. So a Service that lacks some gets them
//! before it waits for a size or for Nodes.
//!
//! Without the feature LoadBalancerIPMode, as before Kubernetes 1.30, the API server drops `ipMode`: such a Service would lack it for ever,
//! and nothing that waits would be tried again soon. What was given counts as had.

use std::time::Duration;

use ccm_sdk::types::{Ingress, IpMode, Service};
use ccm_sdk::{cache, clock};

/// How long it is known what was given: longer than the host waits between two comparisons.
const KNOWN: Duration = Duration::from_secs(24 * 3_600);

/// The host has written it by then. Until that it is given again.
const WRITTEN: Duration = Duration::from_secs(60);

/// Second since 1970 when it was first given, and what.
fn key(service: &Service) -> String {
    format!("given/{}", service.uid)
}

fn is_proxied(ingress: &Ingress) -> bool {
    ingress.ip_mode == Some(IpMode::Proxy)
}

fn words(ingress: &[Ingress]) -> String {
    let word = |one: &Ingress| {
        let name = one.ip.as_ref().or(one.hostname.as_ref()).map(String::as_str).unwrap_or_default();
        format!("{name}{}", if is_proxied(one) { " Proxy" } else { "" })
    };
    ingress.iter().map(word).collect::<Vec<_>>().join(",")
}

fn given(service: &Service) -> Option<(u64, String)> {
    let noted = String::from_utf8(cache::get(&key(service))?).ok()?;
    let (at, words) = noted.split_once('|')?;
    Some((at.parse().ok()?, words.to_owned()))
}

/// Whether the Service is to get these addresses now: it has none of them, or not all as they are, and was not given them before.
pub(super) fn is_due(service: &Service, ingress: &[Ingress]) -> bool {
    let same = |own: &Ingress, wanted: &Ingress| (&own.ip, &own.hostname) == (&wanted.ip, &wanted.hostname);
    let has = |wanted: &Ingress| service.ingress.iter().any(|own| same(own, wanted));
    let has_all_of =
        |wanted: &Ingress| service.ingress.iter().any(|own| same(own, wanted) && is_proxied(own) == is_proxied(wanted));
    if !ingress.iter().any(has) {
        return true;
    }
    if ingress.iter().all(has_all_of) {
        cache::forget(&key(service));
        return false;
    }
    let Some((at, _)) = given(service).filter(|(_, given)| *given == words(ingress)) else { return true };
    clock::since_epoch() < Duration::from_secs(at) + WRITTEN
}

/// Notes that it gets them.
pub(super) fn give(service: &Service, ingress: &[Ingress]) {
    let words = words(ingress);
    if given(service).is_none_or(|(_, given)| given != words) {
        let now = clock::since_epoch().as_secs();
        cache::put(&key(service), format!("{now}|{words}").as_bytes(), KNOWN);
    }
}
