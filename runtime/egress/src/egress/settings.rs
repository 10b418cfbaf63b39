//! Limits and settings of a provider's requests.

use std::time::Duration;

use crate::budget::BudgetSettings;
use crate::client::ClientSettings;
use crate::credentials::MIN_CREDENTIAL_BYTES;
use crate::headers::HeaderLimits;
use crate::retry::RetrySettings;
use crate::share::SharedAnswers;

/// How large and how long things may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetworkLimits {
    /// Most bytes of a request's body. Default 1 MiB.
    pub request_bytes: usize,
    /// Most bytes of an answer's body, unpacked. Default 8 MiB.
    pub response_bytes: usize,
    /// Most bytes of all bodies that one call is given. Default 32 MiB.
    pub call_response_bytes: usize,
    /// Most requests of one call. Default 2,000.
    pub call_requests: usize,
    /// Number and bytes of headers, in requests and in answers. Default 64 and 16 KiB.
    pub headers: HeaderLimits,
    /// Most query values of a request. Default 1,000; together with path and names at most [`Self::url_bytes`].
    pub query_values: usize,
    /// Most bytes of path and query, encoded. Default 16 KiB.
    pub url_bytes: usize,
    /// Most requests of one `send-all` that are under way at the same time. Default 32.
    pub parallel: usize,
    /// Most different operations that metrics tell apart; the others are `other`. Default 256: a large cloud's provider has some 100.
    pub operations: usize,
    /// Longest exchange. Default 30 s.
    pub request_time: Duration,
    /// Most bytes of answers that are kept for others. Default 32 MiB.
    pub share_bytes: u64,
    /// Most bytes of answers of logins that are kept for others. Default 1 MiB: a catalogue has some 50 KiB.
    pub login_bytes: usize,
    /// Shortest credential. Default 8.
    pub min_credential_bytes: usize,
}

impl Default for NetworkLimits {
    fn default() -> Self {
        Self {
            request_bytes: 1 << 20,
            response_bytes: 8 << 20,
            call_response_bytes: 32 << 20,
            call_requests: 2_000,
            headers: HeaderLimits::default(),
            query_values: 1_000,
            url_bytes: 16 << 10,
            parallel: 32,
            operations: 256,
            request_time: Duration::from_secs(30),
            share_bytes: SharedAnswers::DEFAULT_BYTES,
            login_bytes: 1 << 20,
            min_credential_bytes: MIN_CREDENTIAL_BYTES,
        }
    }
}

/// What the operator set for a provider's network.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NetworkSettings {
    /// How large and how long things may be.
    pub limits: NetworkLimits,
    /// How much of the cloud is used.
    pub budget: BudgetSettings,
    /// How often an attempt is repeated.
    pub retry: RetrySettings,
    /// How connections are made.
    pub client: ClientSettings,
    /// Whether each exchange is a line of the log (`--trace-http`).
    pub trace: bool,
    /// Whether no request leaves (`check` without `--online`): each is refused.
    pub offline: bool,
}
