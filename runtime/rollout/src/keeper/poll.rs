//! Looks at the source, and takes what it holds through the gate.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use tokio::time::Instant;

use super::{Judged, Keeper};
use crate::gate::{self, Rejected, Step};
use crate::pipeline::NotAdmitted;
use crate::slot::Refusals;
use crate::source::{FetchError, Packed};

/// How long an API server may be away before that is a reason to reject what it holds: it restarts now and then.
const AWAY: Duration = Duration::from_secs(60);

/// What the source holds.
enum Held {
    /// What was judged already.
    Judged,
    /// Something else from one look to the next.
    Changing,
    /// The same for a while.
    Settled(Packed),
}

impl Keeper {
    /// Reads the source.
    pub(super) fn fetch(&self) -> impl Future<Output = Result<Packed, Rejected>> + use<> {
        let (config, client) = (Arc::clone(&self.config), self.surroundings.client.clone());
        async move { Ok(config.source.fetch(Some(&client), config.limits.source_bytes).await?) }
    }

    async fn read(&mut self) -> Result<Packed, Rejected> {
        let fetch = self.fetch();
        let packed = self.meanwhile(fetch).await?;
        self.uid.clone_from(&packed.uid);
        self.away = None;
        Ok(packed)
    }

    /// What the source holds, if that stays the same.
    async fn settled(&mut self) -> Result<Held, Rejected> {
        let before = self.read().await.map(|packed| packed.mark()).ok();
        if before.is_some() && before == self.judged.as_ref().map(|judged| judged.mark) {
            return Ok(Held::Judged);
        }
        self.meanwhile(tokio::time::sleep(self.settings.settle)).await;
        // What was told meanwhile is seen now.
        while self.changes.next().now_or_never().is_some() {}
        let packed = self.read().await;
        let mark = packed.as_ref().map(Packed::mark).ok();
        if mark == before { packed.map(Held::Settled) } else { Ok(Held::Changing) }
    }

    pub(super) async fn look(&mut self) {
        let begun = Instant::now();
        let packed = match self.settled().await {
            Ok(Held::Settled(packed)) => packed,
            Ok(Held::Judged) => {
                self.retry.end();
                return;
            }
            // Others have their turn before the next look: there are sources that never stay the same.
            Ok(Held::Changing) => {
                self.retry.now();
                return;
            }
            Err(rejected) if self.waits_for_the_api_server(&rejected) => return self.retry.later(),
            Err(rejected) => {
                // Whatever comes back is looked at, so that what is told is not what was told before it went.
                self.judged = None;
                return self.reject_for_now(rejected).await;
            }
        };
        let read = begun.elapsed();
        let mark = packed.mark();
        let gate = Instant::now();
        match self.admit(packed, read).await {
            Ok(is_judged) => {
                self.judged = is_judged.then_some(Judged { mark, rejected: None });
                if !is_judged {
                    // Through the gate again, against whoever is proven now.
                    self.retry.now();
                }
            }
            Err(rejected) => {
                self.audience.metrics.took(&self.source, "rejected", gate.elapsed());
                // Where it is tried again, whatever comes next is looked at, also when that is what serves.
                self.judged = (!rejected.may_pass_later()).then(|| Judged { mark, rejected: rejected.digest.clone() });
                self.reject_for_now(rejected).await;
                // Others may have proven it while it was in the gate, or before.
                self.judge_again();
            }
        }
    }

    /// Takes what the source holds through the gate, unless it is known. Returns whether it is judged: not where another one was
    /// proven meanwhile.
    ///
    /// # Errors
    ///
    /// The step that it did not pass.
    async fn admit(&mut self, packed: Packed, read: Duration) -> Result<bool, Rejected> {
        let Some(slot) = self.slot().cloned() else { return Ok(true) };
        let config = Arc::clone(&self.config);
        let unpacked = self.meanwhile(async move { gate::unpacked(&config, packed).await }).await?;
        // What serves, packed in another way, or changed and changed back; or the proven one, which has passed the gate before, and is there.
        let is_there = slot.put_back(&unpacked.digest);
        self.catch_up().await;
        if is_there {
            self.hear_signature(&slot, unpacked).await?;
            self.is_as_before();
            return Ok(true);
        }
        if self.was_refused(&unpacked.digest).await {
            return Ok(true);
        }
        self.not_older(&unpacked)?;
        // The new one is opened with what the files say now. Whoever it is compared with is to answer from the same, if it can do with that.
        Box::pin(self.configure()).await;
        // A new one stands in for the proven one, whoever serves now.
        let (before, surroundings, config) =
            (slot.components().proven, Arc::clone(&self.surroundings), Arc::clone(&self.config));
        let against = before.version.digest.clone();
        let taken = async move { surroundings.passes(&config, unpacked, Some(&before.component), None).await };
        let taken = self.meanwhile(taken).await.map_err(NotAdmitted::into_rejected)?;
        self.exchange(taken, &against, read).await
    }

    /// Whether this component was refused before, which is told of once.
    pub(super) async fn was_refused(&mut self, digest: &str) -> bool {
        let Some(rejected) = failed_before(&self.refused(), digest, "") else { return false };
        self.retry.end();
        // Packed in another way, it is what was told of.
        if !self.is_told_of(digest) {
            self.reject(rejected).await;
        }
        true
    }

    /// Whether the API server is away, and not for long yet: then nothing is wrong with the source.
    fn waits_for_the_api_server(&mut self, rejected: &Rejected) -> bool {
        if !rejected.error.downcast_ref::<FetchError>().is_some_and(FetchError::is_passing) {
            return false;
        }
        if self.away.is_none() {
            let error = rejected.reason();
            tracing::warn!(source = self.source, error, "cannot read the source, trying again");
        }
        self.away.get_or_insert_with(Instant::now).elapsed() < AWAY
    }

    /// The provider that serves goes on, since the source has nothing better. What may pass later is tried again.
    async fn reject_for_now(&mut self, rejected: Rejected) {
        if rejected.may_pass_later() {
            self.retry.later();
        }
        self.reject(rejected).await;
    }
}

/// A component that was refused, and is not tried again; `and` says what else speaks against it.
pub(super) fn failed_before(refused: &Refusals, digest: &str, and: &str) -> Option<Rejected> {
    let why = refused.why(digest)?;
    let error = anyhow::anyhow!(
        "this component failed its probation before ({why}){and}; put the component that serves, or a fixed one, into the source"
    );
    Some(Rejected { step: Step::Probation, digest: Some(digest.to_owned()), error })
}
