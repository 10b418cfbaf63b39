//! What TLS ends with.

use ccm_sdk::Request;

use super::BARBICAN;

/// A container.
pub(crate) fn container(id: &str) -> Request {
    BARBICAN.get("/containers/{id}").arg("id", id)
}

/// A secret, without what it is.
pub(crate) fn secret(id: &str) -> Request {
    BARBICAN.get("/secrets/{id}").arg("id", id)
}
