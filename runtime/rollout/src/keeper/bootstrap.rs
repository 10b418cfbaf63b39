//! The first component of a process: until there is one, nothing is written to the cluster for the provider.
//!
//! The last good one of the state folder is tried first, and the source only when that holds none, or one that cannot be used: what is proven goes
//! before what nobody has tried. One that only lacks an answer of its cloud or of the other replicas is waited for; one that cannot be read, or
//! was rejected for another reason that may pass, is asked once more before the one of the source takes its place. Once it serves, the source is
//! looked at, and what that holds goes through the gate as any other component. So does the last good one here: it was proven with another
//! configuration, perhaps, or by another host.

use std::time::Duration;

use anyhow::anyhow;
use ccm_sandbox::Provider;
use futures::FutureExt as _;
use tokio::time::Instant;

use super::poll::failed_before;
use super::report::{Candidate, without_request_ids};
use super::share::Share;
use super::{Judged, Keeper, KeptSlot, MAX_DELAY, check};
use crate::gate::{self, Rejected, Step, Unpacked};
use crate::pipeline::{NotAdmitted, Optimise, Taken};
use crate::slot::Slot;
use crate::status::Known;

/// Longest wait between two looks at whether another replica serves.
const PEER_DELAY: Duration = Duration::from_secs(5);

impl Keeper {
    /// Tries until there is a provider: the last good one of the state folder, else the one of the source, with back-off and
    /// whenever the source changes. All is read anew each time, so that whoever mends it need not restart the process. Until
    /// then the process is not ready and says why.
    ///
    /// # Errors
    ///
    /// At the first look the cloud-config cannot be read, or is not written in the format that the provider declares.
    pub(crate) async fn bootstrap(&mut self) -> anyhow::Result<Slot<Provider>> {
        let mut was_readable = false;
        // The last good one is there and may yet be taken: why it was not.
        let mut waits = Some(String::new());
        loop {
            // Changes from here on are seen.
            let _seen = self.changes.next().now_or_never();
            let rejected = match self.try_once(&mut waits).await {
                Ok(taken) => return Ok(self.begin(taken)),
                // At start it is for whoever starts the process; later, somebody is mending the file.
                Err(NotAdmitted::LocalFile(error)) if !was_readable => return Err(error),
                Err(error) => error.into_rejected(),
            };
            was_readable |= matches!(rejected.step, Step::Grants | Step::Check);
            // Whether somebody serves takes two looks to tell.
            let delay =
                self.retry.next_delay().min(if rejected.step == Step::Probation { PEER_DELAY } else { MAX_DELAY });
            (self.surroundings.listeners.readiness)(&check(&self.source), Err(rejected.reason()));
            self.reject(rejected).await;
            self.wait_for_news(delay).await;
        }
    }

    /// Waits for so long, or until the source may hold something else, or the other replicas know something else. What they write for other
    /// sources is nothing new: the gate may take a minute, and asks the cloud.
    async fn wait_for_news(&mut self, delay: Duration) {
        let until = Instant::now() + delay;
        loop {
            tokio::select! {
                () = tokio::time::sleep_until(until) => return,
                () = self.changes.next() => return,
                () = Share::next(self.share.as_mut()) => {}
            }
            let known = |this: &Self| this.share.as_ref().map(|share| share.entry.clone()).zip(this.heard().ok());
            let before = known(self);
            self.listen().await;
            let now = known(self);
            if now.is_some() && now != before {
                return;
            }
        }
    }

    /// The last good one while it `waits`, else the one of the source.
    pub(super) async fn try_once(&mut self, waits: &mut Option<String>) -> Result<Taken, NotAdmitted> {
        let named = self.hear_first().await?;
        self.blame_the_dead().await;
        if let Some(taken) = self.last_good(waits).await? {
            return Ok(taken);
        }
        let packed = self.fetch().await?;
        self.uid.clone_from(&packed.uid);
        let mark = packed.mark();
        let unpacked = gate::unpacked(&self.config, packed).await?;
        self.unless_last_good_waits(waits.is_some(), &unpacked.digest).await?;
        if waits.is_some() && !self.config.allow_provider_change {
            // This one is untried, and would be kept in the place of the last good one. While it was in the gate, what that one lacked may have
            // come, such as a new credential: it is asked once more first. Afterwards this one begins anew, since the two share what they
            // capture and find.
            drop(self.admit_first(unpacked.clone(), named.clone()).await?);
            tracing::info!(
                source = self.source,
                "before the component of the source serves, the last good one is asked again"
            );
            if let Some(taken) = self.last_good(waits).await? {
                return Ok(taken);
            }
            // It may be readable by now, and this one refused.
            self.unless_last_good_waits(waits.is_some(), &unpacked.digest).await?;
        }
        let taken = self.admit_first(unpacked, named).await?;
        self.judged = Some(Judged { mark, rejected: None });
        Ok(taken)
    }

    /// The last good one, if it `waits` and can be taken now.
    ///
    /// # Errors
    ///
    /// It lacks an answer alone, so that no other one is to take its place.
    async fn last_good(&mut self, waits: &mut Option<String>) -> Result<Option<Taken>, NotAdmitted> {
        let Some(before) = waits.take() else { return Ok(None) };
        match self.stored().await {
            Ok(Some(taken)) => {
                let version = &taken.release.version.version;
                tracing::info!(source = self.source, version, "the last good component serves");
                // What the source holds is looked at next, whether or not that has changed.
                self.retry.now();
                Ok(Some(taken))
            }
            Ok(None) => Ok(None),
            Err(error) => {
                // A file that nobody can read is not waited for: the cloud-config may be written for the component of the source.
                let is_local = matches!(error, NotAdmitted::LocalFile(_));
                let rejected = error.into_rejected();
                let may_pass = !is_local && (rejected.may_pass_later() || rejected.step == Step::Probation);
                let is_unanswered = may_pass && rejected.is_unanswered();
                let error = without_request_ids(&rejected.reason());
                if error != before {
                    tracing::warn!(source = self.source, error, "the last good component cannot be used");
                }
                *waits = may_pass.then(|| error.clone());
                // One that is proven does not give way to an untried one for want of an answer: of the other replicas, or of its cloud. Who
                // asks no cloud would take its place, and nobody could judge what that one does.
                self.heard()?;
                if is_unanswered && !self.config.allow_provider_change {
                    let error = anyhow!(
                        "the last good component waits for its cloud: {error}; if another one is to take its place untried, use --allow-provider-change"
                    );
                    return Err(Rejected::at(Step::Check, error).into());
                }
                Ok(None)
            }
        }
    }

    /// Refuses a component that was refused before while the last good one `waits`, if that one is worth waiting for: a file that nobody can read
    /// may stay so, and one that was refused is better than none.
    ///
    /// # Errors
    ///
    /// Why it was refused.
    async fn unless_last_good_waits(&self, waits: bool, digest: &str) -> Result<(), Rejected> {
        let rejected = failed_before(&self.remembered.refused, digest, "").filter(|_| waits);
        let (Some(rejected), Some(state_folder)) = (rejected, &self.state_folder) else { return Ok(()) };
        let is_readable = state_folder.component().await.is_ok_and(|packed| packed.is_some());
        if is_readable { Err(rejected) } else { Ok(()) }
    }

    /// The last good one, when there is one.
    async fn stored(&mut self) -> Result<Option<Taken>, NotAdmitted> {
        let Some(state_folder) = &self.state_folder else { return Ok(None) };
        let packed = state_folder.component().await.map_err(|error| Rejected::at(Step::Source, error))?;
        let Some(packed) = packed else { return Ok(None) };
        let unpacked = Unpacked { is_stored: true, ..gate::unpacked(&self.config, packed).await? };
        self.admit_first(unpacked, None).await.map(Some)
    }

    /// Takes a component through the gate that has none before it. `named`: how whoever led names load balancers.
    async fn admit_first(&mut self, unpacked: Unpacked, named: Option<String>) -> Result<Taken, NotAdmitted> {
        let digest = unpacked.digest.clone();
        self.not_older(&unpacked)?;
        self.unless_served(&digest).await?;
        let is_stored = unpacked.is_stored;
        let taken = self.surroundings.passes(&self.config, unpacked, None, named.as_deref()).await?;
        // It was in the gate for as long as a minute: others may have refused it meanwhile, or begun to lead.
        let heard = self.hear_first().await?;
        self.unless_served(&digest).await?;
        if heard != named && !is_stored {
            let named = self.surroundings.named(&self.config, &taken.release.component, heard.as_deref()).await;
            named.map_err(|error| Rejected { step: Step::Compare, digest: Some(digest), error })?;
        }
        Ok(taken)
    }

    /// Refuses a component that was refused before, unless nobody else serves: then it is better than none, and that is told.
    ///
    /// # Errors
    ///
    /// Who serves, and why it was refused.
    async fn unless_served(&self, digest: &str) -> Result<(), Rejected> {
        let Some(why) = self.remembered.refused.why(digest) else { return Ok(()) };
        if let Some(leader) = self.served_by().await {
            let and = format!(", and another replica serves ({leader} leads)");
            return failed_before(&self.remembered.refused, digest, &and).map_or(Ok(()), Err);
        }
        let source = self.source.as_str();
        tracing::warn!(source, digest, why, "no replica leads: this process loads a component that was refused before");
        Ok(())
    }

    /// Puts the first provider into its slot. There is no other to return to, so that it is proven.
    pub(super) fn begin(&mut self, taken: Taken) -> Slot<Provider> {
        self.surroundings.takes(&self.config, &taken);
        let times = self.took(&taken, Duration::ZERO, None);
        let Taken { release, bytes, signature, look, missed, .. } = taken;
        (self.look, self.missed) = (look, missed);
        self.optimise = Optimise::of(&self.surroundings.sandbox, &release, &bytes, &self.config);
        self.first = Some(release.version.digest.clone());
        self.contest = self.remembered.refused.why(&release.version.digest).map(|_| Instant::now());
        self.candidate = Some(Candidate { digest: release.version.digest.clone(), bytes, signature, times });
        let (slot, news) = Slot::new(release, self.remembered.refused.clone(), self.settings.probation);
        self.surroundings.slots.lock().insert(self.source.clone(), slot.clone());
        self.place = Some(KeptSlot { slot: slot.clone(), news });
        let standing = slot.standing();
        self.audience.metrics.stands(&self.source, &standing, None);
        self.shows(|known| *known = Known { standing: Some(standing), times: Some(times), ..Known::default() });
        // Last: whoever finds the process ready finds the provider on the page and in the metrics.
        (self.surroundings.listeners.readiness)(&check(&self.source), Ok(()));
        slot
    }
}
