//! Who may change things.

use std::time::Duration;

/// Whether this process may change the cluster and the cloud now.
pub trait Leadership: Send + Sync + 'static {
    /// Asked right before each change leaves the process.
    fn may_write(&self) -> bool;

    /// How long a change that leaves now may be under way: after that another process may make changes. Default
    /// [`Duration::MAX`], no limit.
    fn time_left(&self) -> Duration {
        Duration::MAX
    }

    /// Is told of each change of the cloud that was not sent because [`may_write`](Self::may_write) said no. A plan collects these.
    fn forbade(&self, _change: ForbiddenChange) {}
}

/// A request that would have changed the cloud.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForbiddenChange {
    /// Name of the provider.
    pub provider: String,
    /// Name of the endpoint.
    pub endpoint: String,
    /// The method of HTTP.
    pub method: &'static str,
    /// Percent-encoded path and query, after the base URL of the endpoint.
    pub target: String,
    /// The body as text. The names of credentials stand for their values.
    pub body: String,
    /// What the provider calls it, for people.
    pub operation: String,
    /// An earlier change of the same call was not sent either: with its answer, the provider might ask for something else.
    pub is_after_another: bool,
}

/// A process without rivals: no leader election.
#[derive(Debug, Clone, Copy, Default)]
pub struct Alone;

impl Leadership for Alone {
    fn may_write(&self) -> bool {
        true
    }
}
