//! The request to a cloud behind a failure, as the host saw it: a provider says of it what it likes, and nothing at all if it crashes.

use tokio::time::Instant;

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
    /// The ID that the cloud gave the request.
    pub request_id: Option<String>,
    /// How often it was sent, the repetitions of the host included; 0 where it was not.
    pub sent: u32,
    /// When it was over.
    pub at: Instant,
}

impl FailedRequest {
    /// Whether a provider's message speaks of it: by its ID, else by the words with which the host describes it to providers.
    #[must_use]
    pub fn is_named_in(&self, message: &str) -> bool {
        match &self.request_id {
            Some(id) => message.contains(&format!("(request ID {id})")),
            None => !self.operation.is_empty() && message.contains(&format!("{}: ", self.operation)),
        }
    }

    /// Whether it asked for something that is not there, which is an answer like any other to most who ask.
    #[must_use]
    pub fn is_only_absent(&self) -> bool {
        self.status == Some(404) && matches!(self.method, "GET" | "HEAD")
    }
}
