//! Tells what becomes of components, each once: Events, log, metrics, the page, and what is kept in the state folder.

use std::sync::Arc;
use std::time::Duration;

use ccm_cloud::Severity;
use tokio::time::Instant;

use super::Keeper;
use crate::gate::{Rejected, Step};
use crate::ledger::Judgement;
use crate::pipeline::Taken;
use crate::release::{Version, short};
use crate::slot::state::Transition;
use crate::slot::{News, ProbationSettings, Refusals, SlotStanding};
use crate::status::{NotTaken, Times, milliseconds};

/// What follows where [`Keeper::remember`] does not work.
pub(super) const FORGOTTEN: &str = "what was refused, and the counters that were proven, are not remembered";

/// What was told of the source last.
pub(super) struct Told {
    /// Without request IDs.
    text: String,
    /// Digest of the component, if it failed its probation.
    failed: Option<String>,
}

/// A component that is kept in the state folder once it is proven.
pub(super) struct Candidate {
    pub(super) digest: String,
    pub(super) bytes: Vec<u8>,
    pub(super) signature: Option<Vec<u8>>,
    /// How long it took to take it.
    pub(super) times: Times,
}

impl Keeper {
    /// Tells of the first one, which is proven.
    pub(super) async fn begun(&mut self) {
        let Some(serving) = self.serving() else { return };
        if self.uid.is_none() {
            // It came from the state folder, and without a UID people do not see its Event at the ConfigMap.
            let fetch = self.fetch();
            self.uid = self.meanwhile(fetch).await.ok().and_then(|packed| packed.uid);
        }
        self.tell(Severity::Normal, "ProviderLoaded", format!("{serving} serves")).await;
        if let Some(missed) = self.missed.take() {
            let (many, all) = (missed.differences.len(), missed.summary());
            let text = format!(
                "{serving} serves, but does not find the machine or load balancer of {many} of the cluster's objects ({} were compared): {all}",
                missed.extent()
            );
            self.tell(Severity::Warning, "ProviderFindsLess", text).await;
        }
        if let Some(state_folder) = &self.state_folder
            && self.remembered.refused.why(&serving.digest).is_some()
            && !state_folder.is_empty().await
        {
            // It serves for want of a better one, which is there, and may be readable at the next start.
            self.candidate = None;
        }
        self.keep(&serving.digest).await;
        if self.share.is_none() {
            self.count(&serving).await;
        }
    }

    /// Puts what passed the gate into the slot. Returns whether it is judged: false if `against` (the one it was compared with) is no longer the
    /// proven one.
    ///
    /// # Errors
    ///
    /// It would not pass the gate any more, see [`Surroundings::put_against`](crate::pipeline::Surroundings::put_against).
    pub(super) async fn exchange(&mut self, taken: Taken, against: &str, read: Duration) -> Result<bool, Rejected> {
        let Some(slot) = self.slot().cloned() else { return Ok(true) };
        let digest = taken.release.version.digest.clone();
        // Before the exchange: its first call may be the last one of the process. The one before may be proven meanwhile, and its note
        // goes when that is told: then this one is noted again.
        loop {
            self.note_probation(Some(digest.clone())).await;
            if !self.catch_up().await {
                break;
            }
        }
        let release = taken.release.clone();
        let put = self.surroundings.put_against(&self.config, &slot, against, release, taken.is_apart);
        let Ok(Some(exchange)) = put else {
            self.note_probation_of_now().await;
            put?;
            // It was refused, or another way of packing it taken, while it was in the gate.
            let is_known = self.was_refused(&digest).await || slot.standing().serving().digest == digest;
            // Or another one was proven: what it was compared with returns no more.
            return Ok(is_known || slot.components().proven.is(against));
        };
        self.surroundings.takes(&self.config, &taken);
        let times = self.took(&taken, read, Some(exchange));
        let Taken { bytes, signature, .. } = taken;
        self.candidate = Some(Candidate { digest, bytes, signature, times });
        self.retry.due = None;
        // Others may have judged it already.
        if let Some(share) = &self.share {
            share.entry.tell(&slot);
        }
        self.catch_up().await;
        Ok(true)
    }

    /// Tells that something was taken, and how long that took. The first one takes nobody's place.
    pub(super) fn took(&mut self, taken: &Taken, read: Duration, exchange: Option<Duration>) -> Times {
        let Taken { took: gate, compiling, .. } = *taken;
        let metrics = &self.audience.metrics;
        metrics.load(&self.source, "taken", "");
        metrics.took(&self.source, "taken", gate);
        let exchanged = exchange.unwrap_or_default();
        let takeover = gate.saturating_sub(compiling).saturating_add(exchanged);
        let [read_ms, compile_ms, takeover_ms, exchange_ms] = [read, compiling, takeover, exchanged].map(milliseconds);
        if exchange.is_some() {
            metrics.exchanged(&self.source, exchanged);
            tracing::info!(source = self.source, read_ms, compile_ms, takeover_ms, exchange_ms, "provider exchanged");
        }
        self.told = None;
        self.retry.tries = 0;
        Times { read_ms, compile_ms, takeover_ms, exchange_ms, first_call_ms: None }
    }

    /// Tells of all that has become of the components so far. Returns whether there was anything.
    pub(super) async fn catch_up(&mut self) -> bool {
        let mut is_told = false;
        while let Some(news) = self.place.as_mut().and_then(|place| place.news.try_recv().ok()) {
            self.report(news).await;
            is_told = true;
        }
        is_told
    }

    /// Tells of one thing.
    pub(super) async fn report(&mut self, news: News) {
        match news {
            News::FirstCall(took) => self.shows(|known| {
                if let Some(times) = &mut known.times {
                    times.first_call_ms = Some(milliseconds(took));
                }
            }),
            News::Sources(states) => self.hear_sources(states).await,
            News::Changed(transition, standing) => {
                self.shows_standing(&transition, &standing);
                self.audience.metrics.stands(&self.source, &standing, transition.gone());
                // First: whoever is killed while others are told must not blame who was judged, nor forget the verdict. What the slot does not
                // refuse stays: the proven one may have been refused before.
                let refused = self.refused();
                if refused.iter().filter(|one| self.remembered.refused.add((*one).clone())).count() > 0 {
                    self.remember().await;
                }
                self.note_probation_of_now().await;
                self.changed(transition, standing.serving()).await;
            }
        }
    }

    /// The page says at once how the components stand, and what no longer counts with that, or does now.
    fn shows_standing(&self, transition: &Transition, standing: &SlotStanding<Arc<Version>>) {
        let is_configured = self.configuration.told.is_none();
        let not_taken = match transition {
            Transition::Returned { failed, refusal } => Some((failed, &refusal.reason)),
            Transition::Withdrawn { candidate, why: Some(why) } => Some((candidate, why)),
            _ => None,
        };
        let not_taken = not_taken.map(|(one, why)| NotTaken::now(Step::Probation, Some(one.digest.clone()), why));
        self.shows(|known| {
            known.standing = Some(standing.clone());
            if transition.gone().is_some() {
                known.not_taken = not_taken;
            }
            if matches!(transition, Transition::Exchanged { .. }) {
                known.times = self.candidate.as_ref().map(|candidate| candidate.times);
            }
            known.rejected_configuration.take_if(|_| is_configured);
        });
    }

    async fn changed(&mut self, transition: Transition, serving: &Version) {
        if transition.gone().is_some() {
            // Whoever serves now may have been told something else than the files say, and may read other variables.
            self.configuration.look_again();
            if let Some(slot) = self.slot() {
                self.surroundings.variables.hear(&self.config, slot.component().descriptor());
            }
        }
        match transition {
            Transition::Configured => {
                let text = format!("{serving} serves with the changed configuration ({})", self.configuration.shown());
                self.tell(Severity::Normal, "ProviderConfigured", text).await;
            }
            Transition::Exchanged { before } => {
                let ProbationSettings { time, calls, .. } = self.settings.probation;
                let text = format!(
                    "{serving} serves in place of {before}; on probation for at least {time:?} and {calls} good answers"
                );
                self.tell(Severity::Normal, "ProviderLoaded", text).await;
            }
            Transition::Proven => {
                // The one before may have been what a configuration was refused for.
                self.configuration.begin_anew();
                tracing::info!(source = self.source, "{serving} is proven");
                self.keep(&serving.digest).await;
                self.count(serving).await;
                // Whoever leads tells it. Another one has heard it, and could tell it again after something else was proven.
                self.listen().await;
            }
            Transition::Returned { failed, refusal } => {
                self.audience.metrics.load(&self.source, "rolled-back", Step::Probation.as_str());
                let text = format!("{failed} failed its probation, {serving} serves again: {}", refusal.reason);
                self.told = Some(Told { text: text.clone(), failed: Some(failed.digest.clone()) });
                self.tell(Severity::Warning, "ProviderRolledBack", text).await;
                self.share(Judgement::Refused(refusal)).await;
            }
            // The source holds the proven one again.
            Transition::Withdrawn { candidate, why: None } => {
                let text = format!("{serving} serves again in place of {candidate}, which was on probation");
                self.tell(Severity::Normal, "ProviderLoaded", text).await;
            }
            Transition::Withdrawn { candidate, why: Some(why) } => {
                let text = format!(
                    "{serving} serves again in place of {candidate}, whose probation ends without a verdict: {why}"
                );
                // With another configuration, the source is looked at again.
                self.told = Some(Told { text: text.clone(), failed: None });
                self.tell(Severity::Warning, "ProviderWithdrawn", text).await;
            }
            Transition::Contested { proven, why } => {
                let text = format!("{proven} serves here, but {why}; put a fixed component into the source");
                self.tell(Severity::Warning, "ProviderRefusedElsewhere", text).await;
                self.contest = Some(Instant::now());
            }
        }
    }

    /// Keeps the component with this digest, which is proven, in the state folder.
    pub(super) async fn keep(&mut self, digest: &str) {
        let is_it = |candidate: &mut Candidate| candidate.digest == digest;
        let candidate = self.candidate.take_if(is_it).or_else(|| self.unkept.take_if(is_it));
        let (Some(state_folder), Some(candidate)) = (&self.state_folder, candidate) else { return };
        let kept = state_folder.keep(&candidate.bytes, candidate.signature.as_deref()).await;
        let is_kept = self.is_written(kept, "the last good component is not kept");
        self.unkept = (!is_kept).then_some(candidate);
    }

    /// Whether something was written to the state folder. What does not work is told once, with what follows from that, and
    /// [tried again](Self::write_again).
    pub(super) fn is_written(&mut self, written: anyhow::Result<()>, otherwise: &'static str) -> bool {
        let Err(error) = written else {
            self.unwritten.remove(otherwise);
            return true;
        };
        if self.unwritten.insert(otherwise) {
            let error = format!("{error:#}");
            tracing::warn!(source = self.source, error, "{otherwise}; the host tries again; check --state-dir");
        }
        if self.rewrite.due.is_none() {
            self.rewrite.later();
        }
        false
    }

    /// Writes to the state folder what could not be written.
    pub(super) async fn write_again(&mut self) {
        self.rewrite.due = None;
        self.remember().await;
        self.note_probation_of_now().await;
        if let Some(proven) = self.slot().map(|slot| slot.standing().proven) {
            self.keep(&proven.digest).await;
        }
        if self.rewrite.due.is_none() {
            self.rewrite.end();
            self.unwritten.clear();
            tracing::info!(source = self.source, "what could not be written to the state folder is written");
        }
    }

    /// Which components the slot does not take again.
    pub(super) fn refused(&self) -> Refusals {
        self.slot().map(|slot| slot.standing().refused).unwrap_or_default()
    }

    /// Writes down what was refused, and the counters that were proven. Returns whether that worked.
    pub(super) async fn remember(&mut self) -> bool {
        let Some(state_folder) = &self.state_folder else { return true };
        let written = state_folder.remember(&self.remembered).await;
        self.is_written(written, FORGOTTEN)
    }

    /// Says that a component is not taken, once; the page always has the last reason.
    pub(super) async fn reject(&mut self, rejected: Rejected) {
        let serving = self.serving();
        let is_serving = serving.is_some();
        let instead = serving.map_or_else(|| "nothing serves".to_owned(), |one| format!("{one} continues to serve"));
        let reason = rejected.reason();
        let step = rejected.step;
        let text = match &rejected.digest {
            Some(digest) => format!("{} is rejected (step {step} of the gate): {reason}; {instead}", short(digest)),
            None => format!("step {step} of the gate: {reason}; {instead}"),
        };
        let failed = rejected.digest.clone().filter(|_| step == Step::Probation);
        let told = Told { text: without_request_ids(&text), failed };
        if self.told.as_ref().is_some_and(|before| before.text == told.text) {
            return self.shows(|known| {
                if let Some(refused) = &mut known.not_taken {
                    refused.reason = reason;
                }
            });
        }
        self.told = Some(told);
        self.audience.metrics.load(&self.source, "rejected", step.as_str());
        self.shows(|known| known.not_taken = Some(NotTaken::now(step, rejected.digest, &reason)));
        if is_serving {
            return self.tell(Severity::Warning, "ProviderRejected", text).await;
        }
        tracing::error!(
            source = self.source,
            "provider not taken; the host writes nothing to the cluster for it: {text}"
        );
        self.event(Severity::Warning, "ProviderRejected", text).await;
    }

    /// Whether it was told of this component that it failed its probation, and of nothing else since.
    pub(super) fn is_told_of(&self, digest: &str) -> bool {
        self.told.as_ref().is_some_and(|told| told.failed.as_deref() == Some(digest))
    }

    /// The source holds what serves.
    pub(super) fn is_as_before(&mut self) {
        self.retry.end();
        if let (Some(_), Some(serving)) = (self.told.take(), self.serving()) {
            tracing::info!(source = self.source, "the source holds what serves: {serving}");
        }
        self.shows(|known| known.not_taken = None);
    }

    /// A line in the log, and an Event at the ConfigMap or the host's pod.
    pub(super) async fn tell(&mut self, severity: Severity, reason: &str, text: String) {
        let source = self.source.as_str();
        match severity {
            Severity::Normal => tracing::info!(source, reason, "{text}"),
            Severity::Warning => tracing::error!(source, reason, "{text}"),
        }
        self.event(severity, reason, text).await;
    }

    async fn event(&mut self, severity: Severity, reason: &str, text: String) {
        self.audience.events.tell(&self.config.source, self.uid.as_deref(), severity, reason, text).await;
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
