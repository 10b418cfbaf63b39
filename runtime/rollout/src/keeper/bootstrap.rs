//! The first provider: until there is one, nothing is written to the cluster for it.

use std::sync::Arc;

use ccm_cloud::Capability;
use ccm_sandbox::Provider;
use futures::FutureExt as _;
use tokio::time::Instant;

use super::poll::failed_before;
use super::report::without_request_ids;
use super::{Keeper, Place, check};
use crate::gate::{self, Step};
use crate::pipeline::{Optimise, Refusal, Taken};
use crate::slot::Slot;
use crate::status::{Times, milliseconds};

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
        // For the last good one, which is there and may yet be taken.
        let mut waits = true;
        let mut why = None;
        let mut last = None;
        loop {
            // Changes from here on are seen.
            let _seen = self.changes.next().now_or_never();
            if waits {
                let error = match self.stored().await {
                    Ok(Some(taken)) => {
                        let version = &taken.release.version.version;
                        tracing::info!(source = self.source, version, "the last good component serves");
                        // What the source holds is looked at next, whether or not that has changed.
                        self.retry = Some(Instant::now());
                        return Ok(self.begin(taken));
                    }
                    Ok(None) => {
                        waits = false;
                        None
                    }
                    Err((error, may_pass)) => {
                        waits = may_pass;
                        Some(error)
                    }
                };
                if let Some(error) = error.filter(|error| why.as_ref() != Some(error)) {
                    tracing::warn!(source = self.source, error, "the last good component is not taken");
                    why = Some(error);
                }
            }
            let rejected = match self.try_first(waits).await {
                Ok(taken) => return Ok(self.begin(taken)),
                // At start it is for whoever starts the process; later, somebody is mending the file.
                Err(Refusal::LocalFile(error)) if !was_readable => return Err(error),
                Err(refusal) => refusal.into_rejected(),
            };
            was_readable |= matches!(rejected.step, Step::Grants | Step::Check);
            let delay = self.next_delay();
            let error = format!("provider {}: {:#}", self.source, rejected.error);
            let told = without_request_ids(&error);
            if last.as_ref() == Some(&told) {
                tracing::debug!(error, retry_in = ?delay, "provider still not taken");
            } else {
                tracing::error!(error, retry_in = ?delay, "provider not taken, nothing is written to the cluster for it");
            }
            (self.surroundings.readiness)(&check(&self.source), Err(error));
            last = Some(told);
            self.reject(rejected).await;
            drop(tokio::time::timeout(delay, self.changes.next()).await);
        }
    }

    /// `waits`: for the last good one, which is there and may yet be taken.
    async fn try_first(&mut self, waits: bool) -> Result<Taken, Refusal> {
        let packed = self.fetch().await?;
        self.uid.clone_from(&packed.uid);
        let mark = packed.mark();
        let unpacked =
            gate::unpacked(&self.config, packed).await.inspect_err(|rejected| self.tell_apart(rejected, mark))?;
        // Without another one it is better than none.
        if waits && self.remembered.refused.why(&unpacked.digest).is_some() {
            return Err(failed_before(&self.remembered.refused, unpacked.digest).into());
        }
        let taken = self.surroundings.admit(&self.config, unpacked, None).await?;
        self.judged = Some(mark);
        Ok(taken)
    }

    /// The last good one, when there is one. Else why it is not taken, and whether it may be later.
    async fn stored(&mut self) -> Result<Option<Taken>, (String, bool)> {
        let Some(last_good) = &self.last_good else { return Ok(None) };
        let packed = last_good.component().await.map_err(|error| (format!("{error:#}"), false))?;
        let Some(packed) = packed else { return Ok(None) };
        let admitted = async {
            let unpacked = gate::unpacked(&self.config, packed).await?;
            self.surroundings.admit(&self.config, unpacked, None).await
        };
        admitted.await.map(Some).map_err(|refusal| match refusal {
            // The cloud-config may be written for the one of the source.
            Refusal::LocalFile(error) => (format!("{error:#}"), false),
            Refusal::Rejected(rejected) => {
                (without_request_ids(&format!("{:#}", rejected.error)), rejected.may_pass_later())
            }
        })
    }

    /// Puts the first provider into its slot. There is no other to return to, so that it is proven.
    fn begin(&mut self, taken: Taken) -> Slot<Provider> {
        let Taken { release, bytes, signature, look, took, compiling } = taken;
        self.look = look;
        self.optimise = Optimise::of(&self.surroundings.sandbox, &release.component, &bytes, &self.config);
        let version = Arc::clone(&release.version);
        self.candidate = self.candidate(&version.digest, bytes, signature);
        let (slot, news) = Slot::new(release, self.remembered.refused.clone(), self.settings.probation);
        self.offered =
            [Capability::LoadBalancers, Capability::Cluster].into_iter().filter(|one| slot.has(*one)).collect();
        self.surroundings.slots.lock().insert(self.source.clone(), slot.clone());
        self.place = Some(Place { slot: slot.clone(), news });
        (self.surroundings.readiness)(&check(&self.source), Ok(()));
        self.times = Times {
            compile_ms: milliseconds(compiling),
            takeover_ms: milliseconds(took.saturating_sub(compiling)),
            ..Times::default()
        };
        let statuses = &self.surroundings.statuses;
        let shown = slot.clone();
        statuses.serves(&self.source, Box::new(move || shown.view()));
        statuses.refused(&self.source, None);
        statuses.took(&self.source, self.times);
        self.audience.metrics.took(&self.source, "taken", took);
        self.audience.metrics.serves(&self.source, &version, None, 1);
        self.audience.metrics.on_probation(&self.source, false);
        self.audience.metrics.load(&self.source, "taken", "");
        self.tries = 0;
        slot
    }
}
