//! Writes that were stopped, in the order in which they were asked for.

use ccm_cloud::{ForbiddenChange, Leadership};
use parking_lot::Mutex;
use serde_json::Value;

/// A write that was stopped.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Stopped {
    /// On its way to a cloud.
    Cloud(ForbiddenChange),
    /// On its way to the API server.
    Cluster {
        /// The method of HTTP.
        method: String,
        /// Without the query.
        path: String,
        body: Value,
    },
}

/// Forbids every change of a cloud, and notes what was stopped.
#[derive(Debug, Default)]
pub struct Journal(Mutex<Vec<Stopped>>);

impl Journal {
    pub(crate) fn note(&self, stopped: Stopped) {
        self.0.lock().push(stopped);
    }

    /// What was stopped since the last time.
    pub(crate) fn take(&self) -> Vec<Stopped> {
        std::mem::take(&mut self.0.lock())
    }

    /// Whether a change of a cloud was stopped since then.
    pub(crate) fn has_change_of_a_cloud(&self) -> bool {
        self.0.lock().iter().any(|stopped| matches!(stopped, Stopped::Cloud(_)))
    }
}

impl Leadership for Journal {
    fn may_write(&self) -> bool {
        false
    }

    fn forbade(&self, change: ForbiddenChange) {
        self.note(Stopped::Cloud(change));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The egress asks this before it sends a change (`who_does_not_lead_changes_nothing_and_may_look`).
    #[test]
    fn a_plan_never_leads() {
        assert!(!Journal::default().may_write());
    }
}
