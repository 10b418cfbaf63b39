//! What is known of a load balancer after it is gone: its type. A Service without annotation gets the default type of today, which may
//! be another one, with other rules for ports and source addresses; the type annotation is for people, and is not written.

use std::time::Duration;

use ccm_sdk::cache;

use super::Balancer;

/// How long the type of one that nobody has seen is known. All are looked at more often than that.
const KNOWN: Duration = Duration::from_secs(24 * 3_600);

fn key(id: &str) -> String {
    format!("type/{}", id.to_ascii_lowercase())
}

/// Notes its type.
pub(super) fn seen(balancer: &Balancer) {
    cache::put(&key(&balancer.id), balancer.kind.as_bytes(), KNOWN);
}

/// The type of one that is gone, if it was another one than that of the one in its place.
pub(super) fn other_type(id: &str, now: &Balancer) -> Option<String> {
    let former = String::from_utf8(cache::get(&key(id))?).ok()?;
    (!former.is_empty() && !now.kind.is_empty() && former != now.kind).then_some(former)
}
