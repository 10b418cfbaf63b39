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
}

/// A process without rivals: no leader election.
#[derive(Debug, Clone, Copy, Default)]
pub struct Alone;

impl Leadership for Alone {
    fn may_write(&self) -> bool {
        true
    }
}
