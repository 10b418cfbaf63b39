//! Rehearsals: a controller does its work on one object once, where nothing that it writes leaves the process.
//!
//! `ccm-plan` gives a controller an [`ApiGate`](ccm_apiserver::ApiGate) whose client answers writes itself, and providers that may not change
//! their cloud. So a rehearsal is the work of `run`, by the same code. What would have been written is known to whoever keeps it from
//! leaving; a rehearsal says only what was decided, and what cannot be said.

/// What the work on one object came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rehearsed {
    /// What is done and why, in one line; none where there is nothing to decide.
    pub decision: Option<String>,
    /// Why it is not known what is done, or why it cannot be done.
    pub unknown: Option<String>,
}

impl Rehearsed {
    pub(crate) fn unknown(why: impl Into<String>) -> Self {
        Self { decision: None, unknown: Some(why.into()) }
    }

    pub(crate) fn decided(decision: impl Into<String>) -> Self {
        Self { decision: Some(decision.into()), unknown: None }
    }
}
