//! Looks at the source, and takes what it holds through the gate.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use ccm_cloud::Severity;
use ccm_sandbox::{Phase, Slot};
use futures::FutureExt as _;
use tokio::sync::watch;
use tokio::time::Instant;

use super::{Keeper, MAX_DELAY, MIN_DELAY};
use crate::gate::{self, Rejected, Step};
use crate::retry::backoff;
use crate::source::{Packed, SourceError};
use crate::status::{Refused, short};

/// How long an API server may be away before that is a reason to reject what it holds: it restarts now and then.
const AWAY: Duration = Duration::from_secs(60);

/// The slot of a keeper, and how it stands.
pub(super) struct Place {
    pub(super) slot: Arc<Slot>,
    pub(super) phases: watch::Receiver<Phase>,
}

impl Keeper {
    /// Waits for `work`, and tells meanwhile what becomes of the one that serves: the gate may take a minute.
    pub(super) async fn meanwhile<T>(&mut self, place: &mut Place, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return done,
                // The slot lives as long as its place.
                Ok(()) = place.phases.changed() => drop(self.phase_changed(place).await),
            }
        }
    }

    /// Reads the source.
    pub(super) fn fetch(&self) -> impl Future<Output = Result<Packed, Rejected>> + use<> {
        let (config, client) = (Arc::clone(&self.config), self.surroundings.client.clone());
        async move { Ok(config.source.fetch(Some(&client), config.limits.source_bytes).await?) }
    }

    async fn read(&mut self, place: &mut Place) -> Result<Packed, Rejected> {
        let fetch = self.fetch();
        let packed = self.meanwhile(place, fetch).await?;
        self.uid.clone_from(&packed.uid);
        self.away = None;
        Ok(packed)
    }

    /// What the source holds once it has stayed the same; none when that is what was judged already.
    async fn settled(&mut self, place: &mut Place) -> Result<Option<Packed>, Rejected> {
        let mut last = self.read(place).await.map(|packed| packed.mark()).ok();
        loop {
            if last.is_some() && last == self.judged {
                return Ok(None);
            }
            self.meanwhile(place, tokio::time::sleep(self.settings.settle)).await;
            // What was told meanwhile is seen now.
            while self.changes.next().now_or_never().is_some() {}
            let packed = self.read(place).await;
            let mark = packed.as_ref().map(Packed::mark).ok();
            if mark == last {
                return packed.map(Some);
            }
            last = mark;
        }
    }

    pub(super) async fn look(&mut self, place: &mut Place) {
        let begun = Instant::now();
        let packed = match self.settled(place).await {
            Ok(Some(packed)) => packed,
            Ok(None) => {
                (self.tries, self.retry) = (0, None);
                return;
            }
            Err(rejected) if self.waits_for_the_api_server(&rejected) => return self.try_again(),
            Err(rejected) => {
                // Whatever comes back is looked at, so that what is told is not what was told before it went.
                self.judged = None;
                return self.keeps(rejected).await;
            }
        };
        let read = begun.elapsed();
        let mark = packed.mark();
        let gate = Instant::now();
        let config = Arc::clone(&self.config);
        let unpacked = match self.meanwhile(place, gate::unpacked(&config, packed)).await {
            Ok(unpacked) => unpacked,
            Err(rejected) => return self.refuse(rejected, mark, gate).await,
        };
        if self.serving.as_ref().is_some_and(|serving| serving.digest == unpacked.digest) {
            // Packed in another way, or changed and changed back.
            self.judged = Some(mark);
            self.forget().await;
            return self.is_as_before();
        }
        if self.remembered.refused.as_ref() == Some(&unpacked.digest) {
            self.judged = Some(mark);
            (self.tries, self.retry) = (0, None);
            // Packed in another way, it is what was told of.
            if !self.is_told_of(&unpacked.digest) {
                let (rejected, serving) = (self.failed_before(unpacked.digest), self.goes_on());
                self.reject(rejected, &serving).await;
            }
            return;
        }
        // A new one stands in for the last good one, whoever serves now.
        let before = place.slot.last_good().unwrap_or_else(|| place.slot.provider());
        let surroundings = Arc::clone(&self.surroundings);
        match self.meanwhile(place, surroundings.admit(&config, unpacked, Some(&before))).await {
            Ok(taken) => {
                self.judged = Some(mark);
                self.exchange(place, taken, read).await;
            }
            Err(refusal) => self.refuse(refusal.into_rejected(), mark, gate).await,
        }
    }

    /// Whether the API server is away, and not for long yet: then nothing is wrong with the source.
    fn waits_for_the_api_server(&mut self, rejected: &Rejected) -> bool {
        if !rejected.error.downcast_ref::<SourceError>().is_some_and(SourceError::is_passing) {
            return false;
        }
        if self.away.is_none() {
            let error = format!("{:#}", rejected.error);
            tracing::warn!(source = self.source, error, "cannot read the source, trying again");
        }
        self.away.get_or_insert_with(Instant::now).elapsed() < AWAY
    }

    /// A component was not taken. What may pass later is tried again.
    async fn refuse(&mut self, rejected: Rejected, mark: [u8; 32], begun: Instant) {
        self.news.metrics.took(&self.source, "rejected", begun.elapsed());
        self.tell_apart(&rejected, mark);
        // Where it is tried again, whatever comes next is looked at, also when that is what serves.
        self.judged = None;
        if !rejected.may_pass_later() {
            self.judged = Some(mark);
        }
        if rejected.digest != self.remembered.refused {
            self.forget().await;
        }
        self.keeps(rejected).await;
    }

    /// What could not be unpacked either is told of as well, though the words are the same.
    pub(super) fn tell_apart(&mut self, rejected: &Rejected, mark: [u8; 32]) {
        if rejected.step == Step::Container && self.broken.replace(mark) != Some(mark) {
            self.told = None;
        }
    }

    /// The source holds something else than what failed: that may be tried again one day.
    pub(super) async fn forget(&mut self) {
        if self.remembered.refused.take().is_some() {
            self.remembered.why = None;
            self.keep_memory().await;
        }
    }

    pub(super) async fn keep_memory(&mut self) {
        let Some(last_good) = &self.last_good else { return };
        if let Err(error) = last_good.remember(&self.remembered).await {
            let error = format!("{error:#}");
            tracing::warn!(source = self.source, error, "what was refused is not remembered; check --state-dir");
        }
    }

    /// The provider that serves goes on, since the source has nothing better.
    async fn keeps(&mut self, rejected: Rejected) {
        if rejected.may_pass_later() {
            self.try_again();
        }
        let serving = self.goes_on();
        self.reject(rejected, &serving).await;
    }

    fn try_again(&mut self) {
        let delay = self.next_delay();
        self.retry = Some(Instant::now() + delay);
    }

    fn goes_on(&self) -> String {
        self.serving.as_ref().map(|serving| format!("{serving} goes on serving")).unwrap_or_default()
    }

    /// Says so, once; the page always has the last reason.
    pub(super) async fn reject(&mut self, rejected: Rejected, instead: &str) {
        let Rejected { step, digest, error } = rejected;
        let reason = format!("{error:#}");
        let text = match &digest {
            Some(digest) => {
                format!("{} is not taken (step {step} of the gate): {reason}; {instead}", short(digest))
            }
            None => format!("step {step} of the gate: {reason}; {instead}"),
        };
        let told = without_request_ids(&text);
        if self.told.as_ref() == Some(&told) {
            self.surroundings.statuses.update(&self.source, |status| {
                if let Some(refused) = &mut status.refused {
                    refused.reason = reason;
                }
            });
            return;
        }
        self.told = Some(told);
        self.news.metrics.load(&self.source, "rejected", step.as_str());
        let refused = Refused::now(step, digest, reason);
        self.surroundings.statuses.update(&self.source, |status| status.refused = Some(refused));
        if self.serving.is_some() {
            tracing::error!(source = self.source, "provider rejected: {text}");
        }
        self.tell(Severity::Warning, "ProviderRejected", text).await;
    }

    /// A component that is not tried again before the source holds something else.
    pub(super) fn failed_before(&self, digest: String) -> Rejected {
        let why = self.remembered.why.as_deref().map(|why| format!(" ({why})")).unwrap_or_default();
        let error = anyhow::anyhow!(
            "this component failed its probation before{why}; put another one there, or the same one after another"
        );
        Rejected { step: Step::Probation, digest: Some(digest), error }
    }

    /// Whether the page says of this component that it failed its probation.
    fn is_told_of(&self, digest: &str) -> bool {
        let mut is_told = false;
        self.surroundings.statuses.update(&self.source, |status| {
            let refused = status.refused.as_ref();
            is_told = refused.is_some_and(|refused| {
                refused.step == Step::Probation.as_str() && refused.digest.as_deref() == Some(digest)
            });
        });
        is_told
    }

    /// The source holds what serves.
    fn is_as_before(&mut self) {
        (self.tries, self.retry) = (0, None);
        if let (Some(_), Some(serving)) = (self.told.take(), &self.serving) {
            tracing::info!(source = self.source, "the source holds what serves: {serving}");
        }
        self.surroundings.statuses.update(&self.source, |status| status.refused = None);
    }

    pub(super) fn next_delay(&mut self) -> Duration {
        let tries = usize::try_from(self.tries).unwrap_or(usize::MAX);
        self.tries = self.tries.saturating_add(1).min(16);
        backoff(MIN_DELAY, MAX_DELAY).nth(tries).unwrap_or(MAX_DELAY)
    }
}

/// A cloud gives each answer another one: the same failure is told once all the same.
pub(super) fn without_request_ids(text: &str) -> String {
    let mut parts = text.split("request ID ");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.trim_start_matches(|c: char| !c.is_whitespace() && c != ')'))
}

#[cfg(test)]
mod tests {
    use super::without_request_ids;

    #[test]
    fn the_same_failure_with_another_request_id_is_the_same_text() {
        let text = |id: &str| format!("account.get: 503 (request ID {id}), later 500 (request ID {id}); v1 goes on");
        assert_eq!(without_request_ids(&text("a-1")), without_request_ids(&text("b-2")));
        assert_eq!(without_request_ids(&text("a")), "account.get: 503 (), later 500 (); v1 goes on");
        assert_eq!(without_request_ids("no id"), "no id");
        assert_eq!(without_request_ids("it ends with request ID "), "it ends with ");
    }
}
