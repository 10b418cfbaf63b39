//! Which component serves, which one returns, and which ones are not taken again: the one state of a swap. Everything else reads it.
//!
//! One component is *proven*. At most one other is *on trial* against it: then that one serves, and the proven one is its witness,
//! and returns when the trial fails. The first component of all is proven at once, since there is no other to return to.
//!
//! | state | event | then | generation | test |
//! |---|---|---|---|---|
//! | P proven | taken: C | C on trial against P | + 1 | `a_new_component_is_on_trial_against_the_proven_one` |
//! | P proven | taken: P | as before | | `the_component_that_serves_is_not_exchanged_for_itself` |
//! | C on trial against P | taken: D | D on trial against P; C withdrawn, not refused | + 1 | `a_third_one_is_on_trial_against_the_proven_one` |
//! | C on trial against P | taken: C | as before | | `the_component_that_serves_is_not_exchanged_for_itself` |
//! | C on trial against P | taken: P | P proven; C withdrawn, not refused | + 1 | `putting_the_proven_one_back_ends_a_trial_without_a_verdict` |
//! | C on trial against P | put back: P | as if P were taken | + 1 | `putting_the_proven_one_back_ends_a_trial_without_a_verdict` |
//! | any | put back: one that is not proven, or serves | as before | | `one_that_is_proven_no_longer_is_not_put_back` |
//! | C on trial against P | passed | C proven | | `whoever_passes_its_trial_is_proven_and_returns_next` |
//! | C on trial against P | failed | P proven; C refused | + 1 | `whoever_fails_its_trial_is_refused_and_the_proven_one_returns` |
//! | any | taken: a refused one | as before | | `a_refused_component_is_not_taken_again` |
//! | C on trial against P | a peer refused: C | P proven; C refused | + 1 | `whoever_a_peer_refused_on_trial_goes_as_if_it_had_failed_here` |
//! | P proven, with or without a trial | a peer refused: P | as before, told once; refused when another one is proven | | `a_proven_one_that_a_peer_refused_stays_and_that_is_told_once` |
//! | any | a peer refused: another one | as before; that one is refused | | `a_component_that_a_peer_refused_is_not_taken_here_either` |
//! | C on trial against P | a peer proved: C | C proven | | `whoever_a_peer_proved_passes_its_trial_here` |
//! | any | a peer proved: another one | as before | | `whoever_a_peer_proved_passes_its_trial_here` |
//! | any | this process begins to lead | as before: what the leader before has proven and refused comes first, as from any peer; then P is told to the peers, not C | | `what_the_leader_before_has_proven_is_heard_before_anything_is_told`, of the keeper |
//! | P proven | configured: P | P with the other configuration, proven | + 1 | `another_configuration_keeps_the_standing_of_its_component` |
//! | C on trial against P | configured: P and C | both with the other configuration, on a new trial | + 1 | `another_configuration_is_given_to_both_of_a_trial` |
//! | C on trial against P | configured: P, since C does not pass the gate with it | P with the other configuration, proven; C withdrawn, not refused | + 1 | `one_on_trial_that_cannot_do_with_a_configuration_goes_without_a_verdict` |
//! | C on trial against P, apart | configured: C, since P does not pass the gate with it | C with the other configuration, on a new trial against P as it was, apart | + 1 | `a_trial_apart_takes_a_configuration_for_the_one_on_trial_alone` |
//! | C on trial against P | configured: C alone | as before: the two would answer from two configurations | | `a_trial_apart_takes_a_configuration_for_the_one_on_trial_alone` |
//! | C on trial against P, apart | undecided: they differ, and have not come to agree in time | P proven; C withdrawn, not refused | + 1 | `a_trial_apart_that_stays_undecided_ends_without_a_verdict` |
//! | P proven | taken: C, apart: with a configuration that P does not pass the gate with | C on trial against P, apart: no difference is held against C | + 1 | `a_trial_apart_takes_a_configuration_for_the_one_on_trial_alone` |
//! | any | configured: of an earlier generation, or another component | as before | | `a_configuration_for_one_that_serves_no_longer_changes_nothing` |
//! | any | passed, failed or undecided, of an earlier generation | as before | | `a_verdict_about_an_earlier_generation_changes_nothing` |
//!
//! What a refused or withdrawn component wrote is in doubt, and is written again: [`SlotState::doubts`].

use std::sync::Arc;

use super::refusals::{Refusal, Refusals};
use crate::release::{Release, Version};

/// What happens to components.
#[derive(Debug)]
pub(crate) enum Event<C> {
    /// One passed the gate.
    Taken(Release<C>),
    /// One passed the gate with another configuration than the proven one has and can do with.
    TakenApart(Release<C>),
    /// The source holds the one with this digest again, which was proven when it was looked at.
    PutBack(String),
    /// The one on trial since this generation has proved itself.
    Passed(u64),
    /// It has not, for this reason.
    Failed(u64, String),
    /// It differs from its witness, which has another configuration, and nobody can tell whether that is why.
    Undecided(u64, String),
    /// Another replica refused this one.
    PeerRefused(Refusal),
    /// The component with this digest has proved itself at another replica.
    PeerProved(String),
    /// Those who stand so since this generation passed the gate with another configuration.
    Configured(u64, Reconfigured<C>),
}

/// The components of a slot with another configuration: all of one state of its files.
#[derive(Debug, Clone)]
pub(crate) struct Reconfigured<C> {
    /// The proven one; none where it does not pass the gate with it.
    pub(crate) proven: Option<Release<C>>,
    /// The one on trial, or why it does not pass the gate with it; none where there is none.
    pub(crate) trial: Option<Result<Release<C>, String>>,
}

/// What has become of it.
#[derive(Debug)]
pub(crate) enum Transition {
    /// Another one serves, on trial.
    Exchanged {
        /// Who served before.
        before: Arc<Version>,
    },
    /// The one that serves has another configuration, and so has the one that it is on trial against.
    Configured,
    /// The one that serves is proven.
    Proven,
    /// The proven one serves again, and this one is refused.
    Returned { failed: Arc<Version>, refusal: Refusal },
    /// The proven one serves again: this one, which was on trial, goes without a verdict. `why`: none where the proven one was put back.
    Withdrawn { trial: Arc<Version>, why: Option<String> },
    /// Nothing but this: the proven one was refused by another replica.
    Contested { proven: Arc<Version>, why: String },
}

/// See the table of this module.
#[derive(Debug)]
pub(crate) struct SlotState<C> {
    proven: Release<C>,
    trial: Option<Release<C>>,
    /// The one on trial has another configuration than the proven one.
    is_apart: bool,
    refused: Refusals,
    /// Those that went without a verdict: they may come again, and what they wrote is as uncertain as what refused ones wrote.
    withdrawn: Refusals,
    /// That another replica refused the proven one.
    contested: Option<Refusal>,
    generation: u64,
    doubts: u64,
}

impl<C> SlotState<C> {
    /// With the first component. Should it be among the refused ones, it is there for want of a better one, and counts as proven.
    pub(crate) fn new(first: Release<C>, mut refused: Refusals) -> Self {
        let contested = refused.take(&first.version.digest);
        Self {
            proven: first,
            trial: None,
            is_apart: false,
            refused,
            withdrawn: Refusals::default(),
            contested,
            generation: 1,
            doubts: 0,
        }
    }

    /// Who answers.
    pub(crate) const fn serving(&self) -> &Release<C> {
        match &self.trial {
            Some(trial) => trial,
            None => &self.proven,
        }
    }

    /// Who returns.
    pub(crate) const fn proven(&self) -> &Release<C> {
        &self.proven
    }

    pub(crate) const fn is_on_trial(&self) -> bool {
        self.trial.is_some()
    }

    /// Whether the two of a trial have different configurations: then these may be why they differ.
    pub(crate) const fn is_apart(&self) -> bool {
        self.trial.is_some() && self.is_apart
    }

    pub(crate) const fn refused(&self) -> &Refusals {
        &self.refused
    }

    /// Whether the component with these 12 digits was refused, or withdrawn and has not come again.
    pub(crate) fn is_taken_back(&self, short: &str) -> bool {
        self.refused.has_digits(short) || self.withdrawn.has_digits(short)
    }

    /// Grows whenever another component serves, or those that stand so have another configuration, from 1 on.
    pub(crate) const fn generation(&self) -> u64 {
        self.generation
    }

    /// Grows whenever another component is [taken back](Self::is_taken_back).
    pub(crate) const fn doubts(&self) -> u64 {
        self.doubts
    }

    fn refuse(&mut self, refusal: Refusal) {
        self.doubts += u64::from(self.refused.add(refusal));
    }

    fn withdraw(&mut self, trial: &Version) {
        self.withdrawn.refuse(&trial.digest, String::new());
        self.doubts += 1;
    }

    /// None: nobody else serves, is on trial or is proven.
    pub(crate) fn apply(&mut self, event: Event<C>) -> Option<Transition> {
        match event {
            Event::Taken(release) => self.take(release, false),
            Event::TakenApart(release) => self.take(release, true),
            Event::PutBack(digest) => self.put_back(&digest),
            Event::Passed(generation) | Event::Failed(generation, _) | Event::Undecided(generation, _)
                if generation != self.generation =>
            {
                None
            }
            Event::Configured(generation, with) => self.configure(generation, with),
            Event::Passed(_) => self.pass(),
            Event::Failed(_, why) => self.rollback(why),
            Event::Undecided(_, why) => self.give_up(Some(why)),
            Event::PeerRefused(refused) => self.refused_by_a_peer(refused),
            Event::PeerProved(digest) => {
                let is_on_trial = self.trial.as_ref().is_some_and(|trial| trial.is(&digest));
                if is_on_trial { self.pass() } else { None }
            }
        }
    }

    fn pass(&mut self) -> Option<Transition> {
        self.proven = self.trial.take()?;
        if let Some(before) = self.contested.take() {
            self.refuse(before);
        }
        Some(Transition::Proven)
    }

    fn rollback(&mut self, why: String) -> Option<Transition> {
        let failed = self.trial.take()?.version;
        let refusal = self.refused.refuse(&failed.digest, why);
        self.doubts += 1;
        self.generation += 1;
        Some(Transition::Returned { failed, refusal })
    }

    fn refused_by_a_peer(&mut self, refusal: Refusal) -> Option<Transition> {
        let digest = &refusal.digest;
        if self.trial.as_ref().is_some_and(|trial| trial.is(digest)) {
            return self.rollback(refusal.reason);
        }
        if self.proven.is(digest) {
            if self.contested.is_some() {
                return None;
            }
            let (proven, why) = (Arc::clone(&self.proven.version), refusal.reason.clone());
            self.contested = Some(refusal);
            return Some(Transition::Contested { proven, why });
        }
        self.refuse(refusal);
        None
    }

    /// Made for those who stood so then: after an exchange or a rollback it would mix what belongs to two.
    fn configure(&mut self, generation: u64, Reconfigured { proven, trial }: Reconfigured<C>) -> Option<Transition> {
        let is_of =
            |new: &Option<Release<C>>, old: &Release<C>| new.as_ref().is_none_or(|new| new.is(&old.version.digest));
        let is_known = is_of(&proven, &self.proven)
            && match (&self.trial, &trial) {
                (Some(old), Some(Ok(new))) => new.is(&old.version.digest),
                (Some(_), Some(Err(_))) | (None, None) => true,
                (Some(_), None) | (None, Some(_)) => false,
            };
        let keeps_apart = proven.is_none() && self.is_apart() && matches!(trial, Some(Ok(_)));
        if generation != self.generation || !is_known || !(proven.is_some() || keeps_apart) {
            return None;
        }
        self.is_apart = keeps_apart;
        self.generation += 1;
        if let Some(proven) = proven {
            self.proven = proven;
        }
        match (self.trial.take(), trial) {
            (Some(old), Some(Err(why))) => {
                // It was not judged with this configuration, and goes through the gate again.
                self.withdraw(&old.version);
                Some(Transition::Withdrawn { trial: old.version, why: Some(why) })
            }
            (_, trial) => {
                self.trial = trial.and_then(Result::ok);
                Some(Transition::Configured)
            }
        }
    }

    fn put_back(&mut self, digest: &str) -> Option<Transition> {
        if self.proven.is(digest) { self.give_up(None) } else { None }
    }

    fn give_up(&mut self, why: Option<String>) -> Option<Transition> {
        let trial = self.trial.take()?.version;
        self.withdraw(&trial);
        self.generation += 1;
        Some(Transition::Withdrawn { trial, why })
    }

    fn take(&mut self, release: Release<C>, is_apart: bool) -> Option<Transition> {
        let digest = &release.version.digest;
        if self.serving().is(digest) {
            return None;
        }
        if self.proven.is(digest) {
            return self.put_back(digest);
        }
        if self.refused.why(digest).is_some() {
            return None;
        }
        self.generation += 1;
        self.is_apart = is_apart;
        drop(self.withdrawn.take(digest));
        let before = Arc::clone(&self.serving().version);
        if let Some(replaced) = self.trial.replace(release) {
            // Nobody has judged it, and nobody will.
            self.withdraw(&replaced.version);
        }
        Some(Transition::Exchanged { before })
    }
}

#[cfg(test)]
mod tests;
