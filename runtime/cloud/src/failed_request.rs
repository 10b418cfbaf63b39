//! The request to a cloud behind a failure, as the host saw it: a provider says of it what it likes, and nothing at all if it crashes.

use tokio::time::Instant;

/// Whether a provider's message speaks of the request with this ID and this operation: by the ID, else by the words with which the host
/// describes requests to providers.
#[must_use]
pub fn names_request(message: &str, id: Option<&str>, operation: &str) -> bool {
    match id.filter(|id| !id.is_empty()) {
        Some(id) => message.contains(&format!("(request ID {id})")),
        None => !operation.is_empty() && message.contains(&format!("{operation}: ")),
    }
}

/// A request to a cloud that was refused, or that has no answer. No part of it holds a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedRequest {
    /// The provider's name of the endpoint.
    pub endpoint: String,
    /// Scheme, host and port, such as `https://api.digitalocean.com`; empty where it was refused before it had any.
    pub origin: String,
    /// The route with its variables left out, as the provider calls it.
    pub operation: String,
    /// Such as `POST`.
    pub method: &'static str,
    /// Without the query; empty where it was refused before it was looked at.
    pub path: String,
    /// What the cloud answered; none where it did not.
    pub status: Option<u16>,
    /// Why no use could be made of an answer, by the contract's name, such as `timeout`; none where the cloud's status says it all.
    pub error: Option<&'static str>,
    /// Why the host sends no more for now, and until when, in words; none where nothing holds it back.
    pub held: Option<String>,
    /// The host's own limit that held it back, by its name for `--limit`; none where that was the cloud's word.
    pub limit: Option<&'static str>,
    /// The ID that the cloud gave the request.
    pub request_id: Option<String>,
    /// How often it was sent, the repetitions of the host included; 0 where it was not.
    pub sent: u32,
    /// When it was over.
    pub at: Instant,
}

impl FailedRequest {
    /// Whether a provider's message speaks of it, as [`names_request`] judges.
    #[must_use]
    pub fn is_named_in(&self, message: &str) -> bool {
        names_request(message, self.request_id.as_deref(), &self.operation)
    }

    /// Whether it asked for something that is not there, which is an answer like any other to most who ask.
    #[must_use]
    pub fn is_only_absent(&self) -> bool {
        self.status == Some(404) && matches!(self.method, "GET" | "HEAD")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_a_request_by_its_id_else_by_its_operation() {
        let operation = "POST /v2/load_balancers";
        for (message, id, operation, is_named) in [
            ("POST /v2/load_balancers: 422 (request ID r-1)", Some("r-1"), operation, true),
            ("POST /v2/load_balancers: 422 (request ID r-12)", Some("r-1"), operation, false),
            ("POST /v2/load_balancers: 422 (request ID r-12)", Some("r-12"), operation, true),
            ("POST /v2/load_balancers: 422 (request ID r-12)", Some("r-2"), operation, false),
            ("POST /v2/load_balancers: 502", Some(""), operation, true),
            ("POST /v2/load_balancers: 502", None, operation, true),
            ("POST /v2/load_balancers/7: 502", None, operation, false),
            ("no address", None, operation, false),
            (": no address", None, "", false),
        ] {
            assert_eq!(names_request(message, id, operation), is_named, "{message} {id:?} {operation}");
        }
    }
}
