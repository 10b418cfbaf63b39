//! Rollback: the proven component returns, and what the other one wrote is in doubt.
//!
//! | the one on probation | because | then |
//! |---|---|---|
//! | is refused | it failed its probation here, or a peer refused it | nobody takes it again |
//! | is withdrawn | the proven one was put back, or nobody can judge it | it may come again |
//!
//! Both are *taken back*: what they wrote is ensured again. Which ones were withdrawn is only in memory, so a process that begins anew
//! does not know it. It finds what differs by the survey at its start and by the regular comparison with the cloud.

use std::sync::Arc;

use super::{SlotState, Transition};
use crate::release::Version;
use crate::slot::refusals::Refusal;

impl<C> SlotState<C> {
    /// Whether the component with these 12 digits was refused, or withdrawn and has not come again.
    pub(crate) fn is_taken_back(&self, short: &str) -> bool {
        self.standing.refused.has_digits(short) || self.withdrawn.has_digits(short)
    }

    /// Grows whenever another component is [taken back](Self::is_taken_back).
    pub(crate) const fn doubts(&self) -> u64 {
        self.doubts
    }

    /// The one on probation failed it.
    pub(super) fn rollback(&mut self, why: String) -> Option<Transition> {
        let failed = self.standing.end_probation()?.version;
        let refusal = self.standing.refused.refuse(&failed.digest, why);
        self.doubts += 1;
        Some(Transition::Returned { failed, refusal })
    }

    /// The one on probation goes without a verdict. `why`: none where the proven one was put back.
    pub(super) fn give_up(&mut self, why: Option<String>) -> Option<Transition> {
        let candidate = self.standing.end_probation()?.version;
        self.withdraw(&candidate);
        Some(Transition::Withdrawn { candidate, why })
    }

    /// The source holds this one again.
    pub(super) fn put_back(&mut self, digest: &str) -> Option<Transition> {
        if self.standing.proven.is(digest) { self.give_up(None) } else { None }
    }

    /// Another replica refused this one. If it is proven here, it stays: there may be no other.
    pub(super) fn refused_by_a_peer(&mut self, refusal: Refusal) -> Option<Transition> {
        if self.standing.is_tried(&refusal.digest) {
            return self.rollback(refusal.reason);
        }
        if !self.standing.proven.is(&refusal.digest) {
            self.refuse(refusal);
            return None;
        }
        if self.contested.is_some() {
            return None;
        }
        let (proven, why) = (Arc::clone(&self.standing.proven.version), refusal.reason.clone());
        self.contested = Some(refusal);
        Some(Transition::Contested { proven, why })
    }

    /// Refuses one that is not on probation here.
    pub(super) fn refuse(&mut self, refusal: Refusal) {
        self.doubts += u64::from(self.standing.refused.add(refusal));
    }

    /// Notes that this one went without a verdict.
    pub(super) fn withdraw(&mut self, candidate: &Version) {
        self.withdrawn.refuse(&candidate.digest, String::new());
        self.doubts += 1;
    }
}
