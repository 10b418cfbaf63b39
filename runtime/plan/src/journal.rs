//! Writes that were stopped, in the order in which they were asked for.

use ccm_cloud::{ForbiddenChange, Leadership};
use parking_lot::Mutex;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::api_server::Written;

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
        /// Whether a Service said before that its load balancer is not ready, and says after it that it is.
        makes_ready: bool,
    },
}

/// Forbids every change of a cloud, and notes what was stopped.
#[derive(Debug, Default)]
pub struct Journal {
    entries: Mutex<Entries>,
    /// What the cluster would be like after what was stopped.
    pub(crate) written: Written,
}

#[derive(Debug, Default)]
struct Entries {
    stopped: Vec<Stopped>,
    /// Cancelled with the first change of a cloud.
    change: CancellationToken,
}

impl Journal {
    pub(crate) fn note(&self, stopped: Stopped) {
        let mut entries = self.entries.lock();
        if matches!(stopped, Stopped::Cloud(_)) {
            entries.change.cancel();
        }
        entries.stopped.push(stopped);
    }

    /// What was stopped since the last time.
    pub(crate) fn take(&self) -> Vec<Stopped> {
        std::mem::take(&mut *self.entries.lock()).stopped
    }

    /// How many stopped writes it holds.
    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
        self.entries.lock().stopped.len()
    }

    /// Is cancelled when a change of a cloud is stopped, or was since then.
    pub(crate) fn change_of_a_cloud(&self) -> CancellationToken {
        self.entries.lock().change.clone()
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

    #[test]
    fn only_a_change_of_a_cloud_ends_the_work_on_an_object_and_not_that_on_the_next_one() {
        let journal = Journal::default();
        let stopped = journal.change_of_a_cloud();
        let (method, path, body) = ("PATCH".to_owned(), String::new(), Value::Null);
        let cluster = Stopped::Cluster { method, path, body, makes_ready: false };
        journal.note(cluster.clone());
        assert!(!stopped.is_cancelled());
        let change = ForbiddenChange {
            provider: "ocean".to_owned(),
            endpoint: "api".to_owned(),
            method: "POST",
            target: "/".to_owned(),
            body: String::new(),
            operation: String::new(),
            is_after_another: false,
        };
        journal.forbade(change.clone());
        assert!(stopped.is_cancelled() && journal.change_of_a_cloud().is_cancelled());
        assert_eq!(journal.take(), [cluster, Stopped::Cloud(change)]);
        assert!(!journal.change_of_a_cloud().is_cancelled());
        assert_eq!(journal.take(), []);
    }
}
