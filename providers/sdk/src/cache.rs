//! Bytes that outlive a call: every call gets a fresh instance. All calls of one provider share them, at the same time too.
//!
//! The cache is bounded, empty after a restart or a new component, and may forget at any moment. Never keep in it what
//! nobody else knows: read it back from the cloud or from the object, and let the cache only save the question. Two calls
//! that read, change and write the same key lose one of the changes, unless both name the same lock
//! ([`load_balancers::Guest::locks`](crate::load_balancers::Guest::locks)). In calls that need proof it reads empty.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{duration, transport};

/// What [`put`] kept under that key, if it is still there.
pub fn get(key: &str) -> Option<Vec<u8>> {
    transport::cached(key)
}

/// Keeps `value` for `ttl` or less. Milliseconds are its finest unit; 49 days are the most.
pub fn put(key: &str, value: &[u8], ttl: Duration) {
    transport::keep(key, value, duration::millis_u32(ttl));
}

/// From now on nothing is under that key.
pub fn forget(key: &str) {
    transport::forget_cached(key);
}

/// What [`put_json`] kept. What does not fit `T` is from another version and reads as if it were not there.
pub fn get_json<T: DeserializeOwned>(key: &str) -> Option<T> {
    serde_json::from_slice(&get(key)?).ok()
}

/// As [`put`], of a value. One that cannot be written as JSON is not kept, and what was there before is forgotten.
pub fn put_json<T: Serialize>(key: &str, value: &T, ttl: Duration) {
    match serde_json::to_vec(value) {
        Ok(bytes) => put(key, &bytes, ttl),
        Err(_) => forget(key),
    }
}
