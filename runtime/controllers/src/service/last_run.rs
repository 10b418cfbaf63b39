//! What the last run for a Service decided, what the one under way waits for, and how the last failure is reacted to: for those who ask why.

use std::sync::Arc;

use ccm_cloud::FailedRequest;
use tokio::time::Instant;

use super::entry::ServiceEntry;
use super::error::SyncError;
use super::plan::Plan;

/// Of one Service. Nothing is decided by it.
#[derive(Default)]
pub(crate) struct LastRun {
    /// What was decided, and when.
    pub(crate) decision: Option<(Plan, Instant)>,
    /// The last failure. It counts while the entry says that the last try failed.
    pub(crate) failed: Option<LastFailure>,
    /// Since when the run under way waits for its turn.
    pub(crate) waits_for_turn: Option<Instant>,
}

/// Of one Service, or of one after another with its name.
pub(crate) struct LastFailure {
    pub(crate) reaction: &'static str,
    pub(crate) at: Instant,
    /// How many tries have failed since the last one that did not.
    pub(crate) tries: u32,
    /// The request to the cloud behind it.
    pub(crate) request: Option<Arc<FailedRequest>>,
}

impl ServiceEntry {
    /// A run has decided this.
    pub(super) fn decides(&mut self, plan: &Plan) {
        self.last_run.decision = Some((plan.clone(), Instant::now()));
    }

    /// A run has failed.
    pub(super) fn fails(&mut self, error: &SyncError) {
        let before = self.last_run.failed.as_ref().map_or(0, |failed| failed.tries);
        self.last_run.failed = Some(LastFailure {
            reaction: error.reaction(),
            at: Instant::now(),
            // To find the cloud at work is no failure.
            tries: before.saturating_add(u32::from(!error.is_pending())),
            request: error.request(),
        });
    }
}
