//! Which credentials there are. Their values stay with the host.

use crate::transport;

/// Whether the credential has a value now: the operator gave one, or an answer brought one that is not spent. For a cloud with several ways
/// to log in.
pub fn is_available(name: &str) -> bool {
    transport::available(name)
}
