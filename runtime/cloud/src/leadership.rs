//! Who may change things.

/// Whether this process may change the cluster and the cloud now.
pub trait Leadership: Send + Sync + 'static {
    /// Asked right before each change leaves the process.
    fn may_write(&self) -> bool;
}

/// A process without rivals: no leader election.
#[derive(Debug, Clone, Copy, Default)]
pub struct Alone;

impl Leadership for Alone {
    fn may_write(&self) -> bool {
        true
    }
}
