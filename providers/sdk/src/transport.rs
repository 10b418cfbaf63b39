//! The imports that requests go through, what outlives a call, the time, and the log. Tests put a [fake](crate::testing) in their place.

use crate::bindings::provider::ccm::cloud::{cache, clock, events, log};
use crate::credentials;
use crate::http::{self, Request, Response, TransportError};
use crate::types::Subject;

#[cfg(any(test, feature = "testing"))]
use crate::testing::installed;

/// In tests the rest of the function is not reached while a fake is installed.
macro_rules! or_fake {
    ($fake:ident => $answer:expr) => {
        #[cfg(any(test, feature = "testing"))]
        if let Some($fake) = installed() {
            return $answer;
        }
    };
}

pub(crate) fn send(requests: &[Request]) -> Vec<Result<Response, TransportError>> {
    or_fake!(fake => fake.send(requests));
    match requests {
        [] => vec![],
        [request] => vec![http::send(request)],
        several => http::send_all(several),
    }
}

pub(crate) fn bind(endpoint: &str, base_url: &str) -> Result<(), TransportError> {
    or_fake!(fake => fake.bind(endpoint, base_url));
    http::bind(endpoint, base_url)
}

pub(crate) fn base_path(endpoint: &str) -> Option<String> {
    or_fake!(fake => fake.base_path(endpoint));
    http::base_path(endpoint)
}

pub(crate) fn available(credential: &str) -> bool {
    or_fake!(fake => fake.available(credential));
    credentials::available(credential)
}

pub(crate) fn forget(credential: &str) {
    or_fake!(fake => fake.forget(credential));
    credentials::forget(credential);
}

pub(crate) fn cached(key: &str) -> Option<Vec<u8>> {
    or_fake!(fake => fake.cached(key));
    cache::get(key)
}

pub(crate) fn keep(key: &str, value: &[u8], ttl_ms: u32) {
    or_fake!(fake => fake.keep(key, value, ttl_ms));
    cache::put(key, value, ttl_ms);
}

pub(crate) fn forget_cached(key: &str) {
    or_fake!(fake => fake.forget_cached(key));
    cache::forget(key);
}

pub(crate) fn now_ms() -> u64 {
    or_fake!(fake => fake.now_ms());
    clock::now_ms()
}

pub(crate) fn log(level: log::Level, message: &str, fields: &[(String, String)]) {
    or_fake!(fake => fake.log(message, fields));
    log::write(level, message, fields);
}

pub(crate) fn emit(subject: &Subject, severity: events::Severity, reason: &str, message: &str) {
    or_fake!(fake => fake.emit(subject, reason, message));
    events::emit(subject, severity, reason, message);
}
