//! Who is told of exchanges: metrics and traces.

use std::time::Duration;

use crate::error::TransportReason;

/// How an exchange ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExchangeOutcome {
    /// The cloud answered with this status.
    Status(u16),
    /// There was no answer.
    Failed(TransportReason),
    /// No exchange of its own: another one's answer served.
    Shared,
}

impl ExchangeOutcome {
    /// Class of the status (`2xx`), reason of the failure, or `shared`: a label of metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Status(100..=199) => "1xx",
            Self::Status(200..=299) => "2xx",
            Self::Status(300..=399) => "3xx",
            Self::Status(429) => "429",
            Self::Status(400..=499) => "4xx",
            Self::Status(500..=599) => "5xx",
            Self::Status(_) => "other-status",
            Self::Failed(reason) => reason.as_str(),
            Self::Shared => "shared",
        }
    }
}

/// One exchange, or what was refused before it became one.
#[derive(Debug, Clone, Copy)]
pub struct Exchange<'a> {
    /// Name of the provider.
    pub provider: &'a str,
    /// Name of the endpoint.
    pub endpoint: &'a str,
    /// The route with its variables left out; `other` when a provider has too many.
    pub operation: &'a str,
    /// How it ended.
    pub outcome: ExchangeOutcome,
    /// From sending to the last byte of the answer.
    pub time: Duration,
    /// How long it waited for its turn before.
    pub waited: Duration,
}

/// What an endpoint has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetLeft<'a> {
    /// Name of the provider.
    pub provider: &'a str,
    /// Name of the endpoint.
    pub endpoint: &'a str,
    /// Requests that the cloud says are left, where it says so.
    pub remaining: Option<u64>,
    /// Requests that the cloud grants, where it says so.
    pub limit: Option<u64>,
    /// Whether the endpoint is taken for dead.
    pub open: bool,
    /// Requests that wait for their turn.
    pub waiting: usize,
    /// Requests that could be sent at once by the settings.
    pub tokens: u64,
    /// Requests under way.
    pub in_flight: usize,
}

/// Is told of every exchange.
pub trait ExchangeObserver: Send + Sync + 'static {
    /// An exchange is over.
    fn exchange_ended(&self, exchange: Exchange<'_>);

    /// What is left now.
    fn budget(&self, left: BudgetLeft<'_>);
}
