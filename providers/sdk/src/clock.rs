//! The host's clock. `SystemTime` and `Instant` of the standard library panic in a component without WASI.

use std::time::Duration;

use crate::bindings::provider::ccm::cloud::clock;
use crate::transport;

/// Time since 1970-01-01T00:00:00Z.
pub fn since_epoch() -> Duration {
    Duration::from_millis(transport::now_ms())
}

/// What is left of this call's time. The host ends the call when nothing is.
pub fn remaining() -> Duration {
    Duration::from_millis(clock::remaining_ms().into())
}
