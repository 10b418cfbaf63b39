//! The first provider: until there is one, nothing is written to the cluster for it.

use std::sync::Arc;

use anyhow::Result;
use ccm_cloud::Capability;
use ccm_sandbox::{ProbationSettings, Slot};
use futures::FutureExt as _;

use super::{Keeper, check, version};
use crate::gate::{self, Step};
use crate::load::{Refusal, Taken};
use crate::provider_status::{Times, milliseconds};

impl Keeper {
    /// Tries until there is a provider: the last good one of the state folder, else the one of the source, with back-off and
    /// whenever the source changes. Source and cloud-config are read anew each time, so that whoever mends them need not
    /// restart the process. Until then the process is not ready and says why.
    ///
    /// # Errors
    ///
    /// At the first look the cloud-config cannot be read, or is not written in the format that the provider declares.
    pub(crate) async fn first(&mut self) -> Result<Arc<Slot>> {
        if let Some(taken) = self.stored().await? {
            let version = version(&taken);
            tracing::info!(source = self.source, version = version.version, "the last good component serves");
            return Ok(self.begin(taken, None));
        }
        let mut was_readable = false;
        let mut last = None;
        loop {
            // Changes from here on are seen.
            let _seen = self.changes.next().now_or_never();
            let rejected = match self.try_first().await {
                Ok(taken) => return Ok(self.begin(taken, Some(self.settings.probation))),
                // At start it is for whoever starts the process; later, somebody is mending the file.
                Err(Refusal::LocalFile(error)) if !was_readable => return Err(error),
                Err(refusal) => refusal.into_rejected(),
            };
            was_readable |= matches!(rejected.step, Step::Grants | Step::Check);
            let delay = self.next_delay();
            let error = format!("provider {}: {:#}", self.source, rejected.error);
            if last.as_ref() == Some(&error) {
                tracing::debug!(error, retry_in = ?delay, "provider still not taken");
            } else {
                tracing::error!(error, retry_in = ?delay, "provider not taken, nothing is written to the cluster for it");
            }
            self.surroundings.readiness.set(&check(&self.source), Err(error.clone()));
            last = Some(error);
            self.reject(rejected, "nothing serves").await;
            drop(tokio::time::timeout(delay, self.changes.next()).await);
        }
    }

    async fn try_first(&mut self) -> Result<Taken, Refusal> {
        let packed = self.fetch().await?;
        let mark = packed.mark();
        let unpacked = gate::unpacked(&self.config, packed).await?;
        let taken = self.surroundings.admit(&self.config, unpacked, None).await?;
        self.judged = Some(mark);
        Ok(taken)
    }

    /// The last good one, when there is one and it is still good.
    async fn stored(&mut self) -> Result<Option<Taken>> {
        let Some(last_good) = &self.last_good else { return Ok(None) };
        let why = match last_good.component().await {
            Ok(None) => return Ok(None),
            Err(error) => error,
            Ok(Some(packed)) => {
                let admitted = async {
                    let unpacked = gate::unpacked(&self.config, packed).await?;
                    self.surroundings.admit(&self.config, unpacked, None).await
                };
                match admitted.await {
                    Ok(taken) => return Ok(Some(taken)),
                    Err(Refusal::LocalFile(error)) => return Err(error),
                    Err(Refusal::Rejected(rejected)) => rejected.error,
                }
            }
        };
        tracing::warn!(source = self.source, error = format!("{why:#}"), "the last good component is not taken");
        Ok(None)
    }

    /// Puts the first provider into its slot.
    fn begin(&mut self, taken: Taken, probation: Option<ProbationSettings>) -> Arc<Slot> {
        let version = version(&taken);
        let Taken { provider, bytes, signature, look, took, compiling, .. } = taken;
        self.look = look;
        let slot = Arc::new(Slot::new(provider, probation));
        self.offered =
            [Capability::LoadBalancers, Capability::Cluster].into_iter().filter(|one| slot.has(*one)).collect();
        self.surroundings.slots.lock().insert(self.source.clone(), Arc::clone(&slot));
        self.surroundings.readiness.set(&check(&self.source), Ok(()));
        self.candidate = probation.map(|_| (bytes, signature));
        if probation.is_none() {
            self.proven = Some(version.clone());
        }
        self.news.metrics.took(&self.source, took, None);
        let times = Times {
            compile_ms: milliseconds(compiling),
            takeover_ms: milliseconds(took.saturating_sub(compiling)),
            ..Times::default()
        };
        self.serves(version, probation.is_some(), 1, Some(times));
        self.news.metrics.load(&self.source, "taken", "");
        self.tries = 0;
        slot
    }
}
