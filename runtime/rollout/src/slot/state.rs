//! Which component serves, which one returns, and which ones are not taken again: the one state of a swap. Everything else reads it.
//!
//! One component is *proven*. At most one other is *on probation* against it: then that one serves, and the proven one is its witness,
//! and returns when the probation fails. The first component of all is proven at once, since there is no other to return to. Two are *apart*
//! if the new one serves with a configuration that the proven one does not pass the gate with. The *generation* counts what has served: a
//! verdict about an earlier one comes too late.
//!
//! | state | event | then | generation | test |
//! |---|---|---|---|---|
//! | P proven | taken: C | C on probation against P | + 1 | `a_new_component_is_on_probation_against_the_proven_one` |
//! | any | taken: the one that serves | as before | | `the_component_that_serves_is_not_exchanged_for_itself` |
//! | C on probation against P | taken: D | D on probation against P; C withdrawn, not refused | + 1 | `a_third_one_is_on_probation_against_the_proven_one` |
//! | C on probation against P | taken, or put back: P | P proven; C withdrawn, not refused | + 1 | `putting_the_proven_one_back_ends_a_probation_without_a_verdict` |
//! | any | put back: one that is not proven, or serves | as before | | `one_that_is_proven_no_longer_is_not_put_back` |
//! | C on probation against P | passed | C proven | | `whoever_passes_its_probation_is_proven_and_returns_next` |
//! | C on probation against P | failed | P proven; C refused | + 1 | `whoever_fails_its_probation_is_refused_and_the_proven_one_returns` |
//! | any | taken: a refused one | as before | | `a_refused_component_is_not_taken_again` |
//! | C on probation against P | a peer refused: C | P proven; C refused | + 1 | `whoever_a_peer_refused_on_probation_goes_as_if_it_had_failed_here` |
//! | P proven, with or without a probation | a peer refused: P | as before, told once; refused when another one is proven | | `a_proven_one_that_a_peer_refused_stays_and_that_is_told_once` |
//! | any | a peer refused: another one | as before; that one is refused | | `a_component_that_a_peer_refused_is_not_taken_here_either` |
//! | C on probation against P | a peer proved: C | C proven | | `whoever_a_peer_proved_passes_its_probation_here` |
//! | any | a peer proved: another one | as before | | `whoever_a_peer_proved_passes_its_probation_here` |
//! | any | this process begins to lead | as before: what the leader before has proven and refused comes first, as from any peer; then P is told to the peers, not C | | `what_the_leader_before_has_proven_is_heard_before_anything_is_told`, of the keeper |
//! | P proven | configured: P | P with the other configuration, proven | + 1 | `another_configuration_keeps_the_standing_of_its_component` |
//! | C on probation against P | configured: P and C | both with the other configuration, on a new probation | + 1 | `another_configuration_is_given_to_both_of_a_probation` |
//! | C on probation against P | configured: P, since C does not pass the gate with it | P with the other configuration, proven; C withdrawn, not refused | + 1 | `one_on_probation_that_cannot_do_with_a_configuration_goes_without_a_verdict` |
//! | C on probation against P, apart | configured: C, since P does not pass the gate with it | C with the other configuration, on a new probation against P as it was, apart | + 1 | `a_probation_apart_takes_a_configuration_for_the_one_on_probation_alone` |
//! | C on probation against P | configured: C alone | as before: the two would answer from two configurations | | `a_probation_apart_takes_a_configuration_for_the_one_on_probation_alone` |
//! | C on probation against P, apart | undecided: they differ, and have not come to agree in time | P proven; C withdrawn, not refused | + 1 | `a_probation_apart_that_stays_undecided_ends_without_a_verdict` |
//! | P proven | taken: C, apart: with a configuration that P does not pass the gate with | C on probation against P, apart: no difference is held against C | + 1 | `a_probation_apart_takes_a_configuration_for_the_one_on_probation_alone` |
//! | any | configured: of an earlier generation, or another component | as before | | `a_configuration_for_one_that_serves_no_longer_changes_nothing` |
//! | any | passed, failed or undecided, of an earlier generation | as before | | `a_verdict_about_an_earlier_generation_changes_nothing` |
//!
//! How the proven one returns is in [`rollback`]. What a refused or withdrawn component wrote is in doubt, and is written again:
//! [`SlotState::doubts`].

mod rollback;

use std::sync::Arc;

use jiff::Timestamp;

use super::refusals::{Refusal, Refusals};
use crate::release::{Release, Version};

/// How the components of a slot stand. `R`: what answers with its version, or the version alone, as it is published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotStanding<R> {
    /// Who serves where nobody is on probation, and returns where that one fails.
    pub proven: R,
    /// The one on probation against it, which serves then.
    pub candidate: Option<R>,
    /// Whether the two of a probation have different configurations: then these may be why they differ.
    pub(crate) is_apart: bool,
    /// Which ones are not taken again.
    pub(crate) refused: Refusals,
    /// Grows whenever another component serves, or those that stand so have another configuration, from 1 on.
    pub generation: u64,
    /// Since when it is so.
    pub since: Timestamp,
}

impl<R> SlotStanding<R> {
    /// Who answers.
    #[must_use]
    pub fn serving(&self) -> &R {
        self.candidate.as_ref().unwrap_or(&self.proven)
    }

    /// Whether the one that serves is on probation.
    #[must_use]
    pub const fn is_on_probation(&self) -> bool {
        self.candidate.is_some()
    }

    /// The proven one, and the one on probation.
    pub(crate) fn both(&self) -> impl Iterator<Item = &R> {
        std::iter::once(&self.proven).chain(&self.candidate)
    }
}

impl<C> SlotStanding<Release<C>> {
    /// As it is published.
    pub(crate) fn versions(&self) -> SlotStanding<Arc<Version>> {
        let version = |release: &Release<C>| Arc::clone(&release.version);
        SlotStanding {
            proven: version(&self.proven),
            candidate: self.candidate.as_ref().map(version),
            is_apart: self.is_apart,
            refused: self.refused.clone(),
            generation: self.generation,
            since: self.since,
        }
    }

    fn is_tried(&self, digest: &str) -> bool {
        self.candidate.as_ref().is_some_and(|candidate| candidate.is(digest))
    }

    /// The probation ends.
    fn end_probation(&mut self) -> Option<Release<C>> {
        self.is_apart = false;
        self.candidate.take()
    }
}

/// What happens to components.
#[derive(Debug)]
pub(crate) enum Event<C> {
    /// One passed the gate. `is_apart`: with another configuration than the proven one has and can do with.
    Taken { release: Release<C>, is_apart: bool },
    /// The source holds the one with this digest again, which was proven when it was looked at.
    PutBack(String),
    /// The one on probation since this generation was judged.
    Judged(u64, ProbationVerdict),
    /// Another replica refused this one.
    PeerRefused(Refusal),
    /// The component with this digest has proved itself at another replica.
    PeerProved(String),
    /// Those who stand so since this generation passed the gate with another configuration.
    Configured(u64, Reconfigured<C>),
}

/// What a probation comes to.
#[derive(Debug)]
pub(crate) enum ProbationVerdict {
    /// It has proved itself.
    Passed,
    /// It has not, for this reason.
    Failed(String),
    /// It differs from its witness, which has another configuration, and nobody can tell whether that is why.
    Undecided(String),
}

/// The components of a slot with another configuration: all of one state of its files.
#[derive(Debug, Clone)]
pub(crate) struct Reconfigured<C> {
    /// The proven one; none where it does not pass the gate with it.
    pub(crate) proven: Option<Release<C>>,
    /// The one on probation, or why it does not pass the gate with it; none where there is none.
    pub(crate) candidate: Option<Result<Release<C>, String>>,
}

/// What has become of it.
#[derive(Debug)]
pub(crate) enum Transition {
    /// Another one serves, on probation.
    Exchanged {
        /// Who served before.
        before: Arc<Version>,
    },
    /// The one that serves has another configuration, and so has the one that it is on probation against.
    Configured,
    /// The one that serves is proven.
    Proven,
    /// The proven one serves again, and this one is refused.
    Returned { failed: Arc<Version>, refusal: Refusal },
    /// The proven one serves again: this one, which was on probation, goes without a verdict. `why`: none where the proven one was put back.
    Withdrawn { candidate: Arc<Version>, why: Option<String> },
    /// Nothing but this: the proven one was refused by another replica.
    Contested { proven: Arc<Version>, why: String },
}

impl Transition {
    /// Who serves no longer.
    pub(crate) fn gone(&self) -> Option<&Version> {
        match self {
            Self::Exchanged { before: gone }
            | Self::Returned { failed: gone, .. }
            | Self::Withdrawn { candidate: gone, .. } => Some(gone),
            Self::Proven | Self::Configured | Self::Contested { .. } => None,
        }
    }

    /// Whether another component serves, or one with another configuration.
    pub(crate) fn is_exchange(&self) -> bool {
        self.gone().is_some() || matches!(self, Self::Configured)
    }
}

/// See the table of this module.
#[derive(Debug)]
pub(crate) struct SlotState<C> {
    standing: SlotStanding<Release<C>>,
    /// Those that went without a verdict: they may come again, and what they wrote is as uncertain as what refused ones wrote. Only
    /// this process knows them.
    withdrawn: Refusals,
    /// That another replica refused the proven one.
    contested: Option<Refusal>,
    doubts: u64,
}

impl<C> SlotState<C> {
    /// With the first component. Should it be among the refused ones, it is there for want of a better one, and counts as proven.
    pub(crate) fn new(first: Release<C>, mut refused: Refusals) -> Self {
        let contested = refused.take(&first.version.digest);
        let since = Timestamp::now();
        let standing = SlotStanding { proven: first, candidate: None, is_apart: false, refused, generation: 1, since };
        Self { standing, withdrawn: Refusals::default(), contested, doubts: 0 }
    }

    /// How the components stand.
    pub(crate) const fn standing(&self) -> &SlotStanding<Release<C>> {
        &self.standing
    }

    /// None: nobody else serves, is on probation or is proven.
    pub(crate) fn apply(&mut self, event: Event<C>) -> Option<Transition> {
        let now = self.standing.generation;
        let transition = match event {
            Event::Taken { release, is_apart } => self.take(release, is_apart),
            Event::PutBack(digest) => self.put_back(&digest),
            // Made for those who stood so then: after an exchange or a rollback it would mix what belongs to two.
            Event::Configured(generation, with) if generation == now => self.configure(with),
            Event::Judged(generation, verdict) if generation == now => match verdict {
                ProbationVerdict::Passed => self.pass(),
                ProbationVerdict::Failed(why) => self.rollback(why),
                ProbationVerdict::Undecided(why) => self.give_up(Some(why)),
            },
            Event::PeerRefused(refusal) => self.refused_by_a_peer(refusal),
            Event::PeerProved(digest) if self.standing.is_tried(&digest) => self.pass(),
            Event::Configured(..) | Event::Judged(..) | Event::PeerProved(_) => None,
        }?;
        self.standing.generation += u64::from(transition.is_exchange());
        // One that is contested stands as before.
        if !matches!(transition, Transition::Contested { .. }) {
            self.standing.since = Timestamp::now();
        }
        Some(transition)
    }

    fn pass(&mut self) -> Option<Transition> {
        self.standing.proven = self.standing.end_probation()?;
        if let Some(before) = self.contested.take() {
            self.refuse(before);
        }
        Some(Transition::Proven)
    }

    fn configure(&mut self, Reconfigured { proven, candidate }: Reconfigured<C>) -> Option<Transition> {
        let standing = &mut self.standing;
        let is_of = |new: &Release<C>, old: &Release<C>| new.is(&old.version.digest);
        let is_known = proven.as_ref().is_none_or(|new| is_of(new, &standing.proven))
            && match (&standing.candidate, &candidate) {
                (Some(old), Some(Ok(new))) => is_of(new, old),
                (Some(_), Some(Err(_))) | (None, None) => true,
                (Some(_), None) | (None, Some(_)) => false,
            };
        let keeps_apart = proven.is_none() && standing.is_apart && matches!(candidate, Some(Ok(_)));
        if !is_known || !(proven.is_some() || keeps_apart) {
            return None;
        }
        if let Some(proven) = proven {
            standing.proven = proven;
        }
        match (standing.end_probation(), candidate) {
            (Some(old), Some(Err(why))) => {
                // It was not judged with this configuration, and goes through the gate again.
                self.withdraw(&old.version);
                Some(Transition::Withdrawn { candidate: old.version, why: Some(why) })
            }
            (_, candidate) => {
                (standing.candidate, standing.is_apart) = (candidate.and_then(Result::ok), keeps_apart);
                Some(Transition::Configured)
            }
        }
    }

    fn take(&mut self, release: Release<C>, is_apart: bool) -> Option<Transition> {
        let (standing, digest) = (&self.standing, &release.version.digest);
        if standing.proven.is(digest) {
            return self.put_back(digest);
        }
        if standing.is_tried(digest) || standing.refused.why(digest).is_some() {
            return None;
        }
        drop(self.withdrawn.take(digest));
        let before = Arc::clone(&standing.serving().version);
        self.standing.is_apart = is_apart;
        if let Some(replaced) = self.standing.candidate.replace(release) {
            // Nobody has judged it, and nobody will.
            self.withdraw(&replaced.version);
        }
        Some(Transition::Exchanged { before })
    }
}

#[cfg(test)]
mod tests;
