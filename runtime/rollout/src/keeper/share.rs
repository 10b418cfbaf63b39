//! Shares with the other replicas what becomes of components, and takes their word.

use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use ccm_cloud::{Capability, Severity};
use ccm_sandbox::Provider;
use futures::FutureExt as _;
use tokio::time::Instant;

use super::report::{Candidate, FORGOTTEN};
use super::{Keeper, MAX_DELAY};
use crate::compare::naming;
use crate::component::Component;
use crate::gate::{self, Rejected, Step, Unpacked};
use crate::ledger::{Judgement, LedgerEntry, Peers, PeersError};
use crate::release::{Release, Version};
use crate::retry::{Retry, until};
use crate::slot::{Refusals, Slot};
use crate::source::Changes;
use crate::state_folder::DIED;
use crate::status::Times;
use crate::trust::{Counted, Signed};

/// Before the others are asked or told again, when the API server did not answer.
const AGAIN: Duration = Duration::from_secs(10);
/// From one look at whoever leads to the next: a Lease is renewed every two seconds, unless that was set in another way.
const SECOND_LOOK: Duration = Duration::from_secs(3);
/// Longest wait before a component is asked again how it names load balancers: it has failed at that many times by then.
const MAX_NAMING_DELAY: Duration = Duration::from_secs(600);

/// What a keeper shares with others.
pub(super) struct Share {
    peers: Arc<Peers>,
    /// Notices what they write.
    pub(super) changes: Changes,
    /// What they knew last.
    pub(super) entry: LedgerEntry,
    /// What they have not been told yet.
    untold: Vec<Judgement>,
    /// What this process tells as the leader; none when it does not lead, or is to tell all again.
    naming: Option<Naming>,
    /// When they are asked and told again.
    pub(super) retry: Option<Instant>,
    /// Why nothing can be shared, as it was told last.
    trouble: Option<PeersError>,
}

/// How the proven component of the leader names load balancers.
struct Naming {
    /// Digest of the component.
    digest: String,
    /// When it is asked: not when it has told, or makes no load balancers.
    question: Retry,
}

impl Share {
    /// `refused`: what this replica knows from before. It may have ended before it could tell the others.
    pub(super) fn new(peers: Arc<Peers>, source: &str, refused: &Refusals) -> Self {
        let (changes, entry) = (peers.changes(), LedgerEntry::of(source));
        let untold = refused.iter().cloned().map(Judgement::Refused).collect();
        Self { peers, changes, entry, untold, naming: None, retry: None, trouble: None }
    }

    /// Waits until there is something to hear or to tell.
    pub(super) async fn next(share: Option<&mut Self>) {
        let Some(Self { peers, changes, retry, .. }) = share else { return std::future::pending().await };
        tokio::select! {
            // Several are one: whoever looks sees all of it.
            () = changes.next() => while changes.next().now_or_never().is_some() {},
            () = peers.elected() => {}
            () = until(*retry) => {}
        }
    }

    fn tell(&mut self, judgement: Judgement) {
        // Last: of what was proven, the last word counts.
        self.untold.retain(|known| *known != judgement);
        self.untold.push(judgement);
    }

    /// Tells the others what they do not know yet, and hears what they have found out. What fails is tried again later.
    ///
    /// # Errors
    ///
    /// See [`PeersError`].
    async fn listen<C: Component>(&mut self, slot: Option<&Slot<C>>) -> Result<(), PeersError> {
        let leads = self.peers.leads();
        let heard = self.talk(slot.filter(|_| leads)).await;
        if leads {
            self.peers.told();
        }
        self.retry = match &heard {
            Err(error) => Some(Instant::now() + if error.is_for_the_operator() { MAX_DELAY } else { AGAIN }),
            Ok(_) => self.naming.as_ref().and_then(|naming| naming.question.due),
        };
        self.entry = heard?;
        self.untold.clear();
        if let Some(slot) = slot {
            self.entry.tell(slot);
            if self.entry.knows_nothing() {
                self.tell_again(slot);
            }
        }
        Ok(())
    }

    /// `leads`: the slot of a process that leads.
    async fn talk<C: Component>(&mut self, leads: Option<&Slot<C>>) -> Result<LedgerEntry, PeersError> {
        if let Some(slot) = leads {
            if self.naming.is_none() {
                // What the leader before has proven ends a probation here, and is not replaced by what was proven here before.
                self.peers.read().await?.tell(slot);
            }
            self.name(slot).await;
        }
        if self.untold.is_empty() { self.peers.read().await } else { self.peers.tell(&self.untold).await }
    }

    /// Somebody has cleared the ConfigMap, or made it anew: a new pod would take what was refused here.
    fn tell_again<C: Component>(&mut self, slot: &Slot<C>) {
        for refusal in slot.standing().refused.iter() {
            self.tell(Judgement::Refused(refusal.clone()));
        }
        self.naming = None;
        if !self.untold.is_empty() || self.peers.leads() {
            self.retry = Some(Instant::now());
        }
    }

    /// The leader publishes how its proven component names load balancers, so that a new pod refuses one that names them otherwise. It
    /// publishes the proof as well: a standby asks its own component too little to prove it.
    async fn name<C: Component>(&mut self, slot: &Slot<C>) {
        let Release { component, version } = slot.components().proven;
        if self.naming.as_ref().is_none_or(|naming| naming.digest != version.digest) {
            self.tell(Judgement::Proven(version.digest.clone()));
            let mut question = Retry::between(AGAIN, MAX_NAMING_DELAY);
            if component.has(Capability::LoadBalancers) {
                question.now();
            }
            self.naming = Some(Naming { digest: version.digest.clone(), question });
        }
        let is_due = |naming: &&mut Naming| naming.question.due.is_some_and(|due| due <= Instant::now());
        let Some(Naming { question, .. }) = self.naming.as_mut().filter(is_due) else { return };
        if let Some(name) = naming::naming(&*component).await {
            question.due = None;
            self.tell(Judgement::Named(name));
            return;
        }
        if question.tries == 0 {
            tracing::warn!(%version, "new pods do not know how the leader names load balancers: it cannot tell; it is asked again");
        }
        question.later();
    }
}

impl Keeper {
    /// The other replicas; none where nothing is shared.
    pub(crate) fn peers(&self) -> Option<Arc<Peers>> {
        self.share.as_ref().map(|share| Arc::clone(&share.peers))
    }

    /// A component that was on probation when the process before this one died is refused, unless the ledger names it as the one that was proven
    /// last. Call it after the ledger was read.
    pub(super) async fn blame_the_dead(&mut self) {
        let Some(state_folder) = self.state_folder.clone() else { return };
        let Some(digest) = state_folder.died_on_probation().await else { return };
        if self.share.as_ref().is_some_and(|share| share.entry.proven.as_ref() == Some(&digest)) {
            tracing::info!(
                source = self.source,
                digest,
                "the component that was on probation has proved itself at another replica"
            );
            return state_folder.end_probation().await;
        }
        // It may be known from the last try, when that could not be written.
        if self.remembered.refused.why(&digest).is_none() {
            tracing::warn!(source = self.source, digest, "a component is refused: {DIED}");
            let refusal = self.remembered.refused.refuse(&digest, DIED.to_owned());
            if let Some(share) = &mut self.share {
                share.tell(Judgement::Refused(refusal));
            }
        }
        if self.remember().await {
            state_folder.end_probation().await;
        }
    }

    /// What this replica found out: the others take its word.
    pub(super) async fn share(&mut self, judgement: Judgement) {
        let Some(share) = &mut self.share else { return };
        share.tell(judgement);
        self.listen().await;
    }

    /// Tells the others what they do not know yet, and hears what they have found out. What fails is told once, and tried again later.
    pub(super) async fn listen(&mut self) {
        // Whoever leads has the last word on who is proven. The first component of a standby has none.
        if self.peers().is_some_and(|peers| peers.leads())
            && let Some(version) = self.slot().map(|slot| slot.standing().proven)
        {
            self.count(&version).await;
        }
        let Some(share) = &mut self.share else { return };
        // No others: they would never be among those that are believed.
        let is_vouched = self.config.trust.vouches();
        let (own, _) = self.remembered.counters.split(&is_vouched);
        let untold = own.missing_in(&share.entry.counters);
        untold.iter().for_each(|counted| share.tell(Judgement::Counted(counted.clone())));
        let trouble = share.listen(self.place.as_ref().map(|place| &place.slot)).await.err();
        let mut is_new = self.remembered.counters.merge(&share.entry.counters);
        for refusal in share.entry.refusals() {
            is_new |= self.remembered.refused.add(refusal);
        }
        let (own, _) = self.remembered.counters.split(&is_vouched);
        if own.missing_in(&share.entry.counters).iter().any(|lost| !untold.contains(lost)) {
            // Somebody has cleared the ConfigMap, or made it anew: a new pod would take what is older.
            share.retry = Some(Instant::now());
        }
        let text = |trouble: &Option<PeersError>| trouble.as_ref().map(ToString::to_string);
        let before = text(&std::mem::replace(&mut share.trouble, trouble));
        let is_for_the_operator = share.trouble.as_ref().is_some_and(PeersError::is_for_the_operator);
        match text(&share.trouble) {
            now if now == before => {}
            None => tracing::info!(source = self.source, "this replica shares verdicts about components again"),
            Some(now) => {
                let text = format!("this replica cannot share verdicts about components with the others: {now}");
                if is_for_the_operator {
                    self.tell(Severity::Warning, "ProviderNotShared", text).await;
                } else {
                    tracing::warn!(source = self.source, "{text}");
                }
            }
        }
        if is_new {
            self.remember().await;
        }
        self.judge_again();
    }

    /// What was rejected here for good, and is proven elsewhere, goes through the gate once more: it may have been rejected for answers that
    /// came by chance, and the replicas would keep different components.
    pub(super) fn judge_again(&mut self) {
        let proven = self.share.as_ref().and_then(|share| share.entry.proven.as_ref());
        // Once each time that it is proven: what differs for good would be in the gate for ever.
        self.judged_again.take_if(|digest| proven != Some(&*digest));
        let rejected = self.judged.as_ref().and_then(|judged| judged.rejected.as_ref());
        if rejected.is_none() || rejected != proven || self.judged_again.is_some() {
            return;
        }
        tracing::info!(source = self.source, digest = rejected, "another replica has proven what was rejected here");
        self.judged_again = rejected.cloned();
        self.judged = None;
        self.retry.now();
    }

    /// The counter of a component that is proven keeps older ones out from now on. Returns whether that is new.
    pub(super) async fn count(&mut self, version: &Version) -> bool {
        let Some(signed) = self.signed(version) else { return false };
        let is_new = self.remembered.counters.add(&Counted { signed, digest: version.digest.clone() });
        if is_new {
            self.remember().await;
        }
        is_new
    }

    /// What a key has said of a component beside its bytes, as far as this process has heard.
    fn signed(&self, Version { digest, signed, .. }: &Version) -> Option<Signed> {
        let last = self.signed_last.iter().find(|last| last.digest == *digest);
        last.map(|last| last.signed.clone()).or_else(|| signed.clone())
    }

    /// The source holds what serves, which may have been signed once more since: unless it says less, the last signature is kept with it, and its
    /// counter counts as that of the first one did.
    ///
    /// # Errors
    ///
    /// What is signed is a component with another name.
    pub(super) async fn hear_signature(&mut self, slot: &Slot<Provider>, new: Unpacked) -> Result<(), Rejected> {
        let Unpacked { bytes, digest, signature, signed, .. } = new;
        let standing = slot.components();
        let Some(Release { component, version }) = standing.both().find(|one| one.is(&digest)) else { return Ok(()) };
        gate::signed_as(signed.as_ref(), component.declared()).map_err(|error| Rejected {
            step: Step::Identity,
            digest: Some(digest.clone()),
            error,
        })?;
        let counter = |signed: Option<&Signed>| signed.map(|signed| signed.counter);
        // What is taken without a signature may have any beside it, or none: a later start may ask for the one that is kept.
        let trust = &self.config.trust;
        let is_verified = signed.is_some() || !(trust.keys.is_empty() || trust.lists(&digest));
        if !is_verified || counter(signed.as_ref()) < counter(self.signed(version).as_ref()) {
            return Ok(());
        }
        if let Some(signed) = signed {
            let stays = |last: &Counted| last.digest != digest && standing.both().any(|one| one.is(&last.digest));
            self.signed_last.retain(stays);
            self.signed_last.push(Counted { signed, digest: digest.clone() });
        }
        let is_proven = standing.proven.is(&digest);
        let is_it = |candidate: &&mut Candidate| candidate.digest == digest;
        let to_keep = self.candidate.as_mut().filter(is_it).or(self.unkept.as_mut().filter(is_it));
        if let Some(candidate) = to_keep {
            candidate.signature = signature;
        } else if is_proven
            && let Some(state_folder) = &self.state_folder
            && let Ok(Some(kept)) = state_folder.component().await
            && kept.bytes == bytes
            && kept.signature != signature
        {
            self.candidate = Some(Candidate { digest: digest.clone(), bytes, signature, times: Times::default() });
            self.keep(&digest).await;
        }
        // As at all times, the first component of a standby does not count before that leads.
        let counts = is_proven && self.peers().is_none_or(|peers| peers.leads());
        if counts && self.count(version).await {
            self.listen().await;
        }
        Ok(())
    }

    /// As [`gate::not_older`], by what this replica and the others have proven and refused, also of the one that serves.
    ///
    /// # Errors
    ///
    /// The same.
    pub(super) fn not_older(&self, new: &Unpacked) -> Result<(), Rejected> {
        let (vouched, _) = self.remembered.counters.split(self.config.trust.vouches());
        gate::not_older(&self.config, new, &vouched, &self.remembered.refused)
    }

    /// Takes the word of the others before there is a slot. Returns how the one that leads names load balancers.
    ///
    /// # Errors
    ///
    /// They could not be asked this time: a component that they refused is not to be taken for want of an answer. Where only the operator
    /// can mend that, the process works without.
    pub(super) async fn hear_first(&mut self) -> Result<Option<String>, Rejected> {
        self.listen().await;
        self.heard()?;
        Ok(self.share.as_ref().and_then(|share| share.entry.naming.clone()))
    }

    /// Whether the last question to the others was answered, or only the operator can mend that.
    ///
    /// # Errors
    ///
    /// It was not: nobody knows what they refused.
    pub(super) fn heard(&self) -> Result<(), Rejected> {
        match self.share.as_ref().and_then(|share| share.trouble.as_ref()) {
            Some(error) if !error.is_for_the_operator() => {
                let error = anyhow!("whether other replicas refused it is not known: {error}; the host retries");
                Err(Rejected { step: Step::Probation, digest: None, error })
            }
            _ => Ok(()),
        }
    }

    /// Who serves while this process has no component yet: whoever leads.
    pub(super) async fn served_by(&self) -> Option<String> {
        match self.peers()?.leader().await {
            Ok(leader) => leader,
            // Without the API server nobody serves whom this process could help.
            Err(error) => Some(format!("nobody knows who ({error})")),
        }
    }

    /// Whether the process is to end: its first component, which had no probation, was refused elsewhere and is the proven one still, no other is
    /// on probation, and another replica was seen to renew the Lease. Nothing is lost then when this process begins anew and waits for a better
    /// component. Asked again until then.
    pub(super) async fn gives_way(&mut self) -> bool {
        self.contest = None;
        let (Some(slot), Some(peers)) = (self.slot().cloned(), self.peers()) else { return false };
        let first = self.first.clone();
        let is_contested = || first.as_ref() == Some(&slot.standing().proven.digest);
        if !is_contested() || peers.leads() {
            return false;
        }
        let other = peers.other().await.ok().flatten();
        let standing = slot.standing();
        // A leader that has died may still be named by its Lease, and this process be the only one to follow it.
        if let Some((leader, true)) = &other
            && is_contested()
            && !standing.is_on_probation()
        {
            let first = &standing.proven;
            tracing::error!(
                source = self.source,
                leader,
                "{first} was this process's first component, and another replica refused it: this process ends, and refuses the component after its restart while another replica leads"
            );
            return true;
        }
        self.contest = Some(Instant::now() + if other.is_some() { SECOND_LOOK } else { AGAIN });
        false
    }

    /// Notes in the state folder who is on probation now.
    pub(super) async fn note_probation_of_now(&mut self) {
        let candidate = self.slot().and_then(|slot| slot.standing().candidate);
        self.note_probation(candidate.map(|candidate| candidate.digest.clone())).await;
    }

    /// Notes in the state folder that the component with this digest is on probation; none is where there is no digest.
    pub(super) async fn note_probation(&mut self, digest: Option<String>) {
        let Some(state_folder) = &self.state_folder else { return };
        let Some(digest) = digest else {
            // Of one that was refused it stands for the verdict, while that cannot be written.
            if self.unwritten.contains(FORGOTTEN)
                && let Some(noted) = state_folder.died_on_probation().await
                && self.remembered.refused.why(&noted).is_some()
            {
                return;
            }
            return state_folder.end_probation().await;
        };
        let noted = state_folder.begin_probation(&digest).await;
        self.is_written(noted, "a death of the process will not count against the component on probation");
    }
}

#[cfg(test)]
mod tests;
