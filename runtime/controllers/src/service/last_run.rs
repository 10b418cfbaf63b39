//! What the last run for a Service decided, and how its last failure is reacted to: for those who ask why.

use tokio::time::Instant;

use super::entry::ServiceEntry;
use super::plan::Plan;

/// Of one Service. Nothing is decided by it.
#[derive(Default)]
pub(crate) struct LastRun {
    /// What was decided, and when.
    pub(crate) decision: Option<(Plan, Instant)>,
    /// The reaction to the last failure, and when that was. It counts while the entry says that the last try failed.
    pub(crate) failed: Option<(&'static str, Instant)>,
}

impl ServiceEntry {
    /// A run has decided this.
    pub(super) fn decides(&mut self, plan: &Plan) {
        self.last_run.decision = Some((plan.clone(), Instant::now()));
    }
}
