//! One component takes the place of another, and what becomes of it.

use std::time::Duration;

use ccm_cloud::{Capability, Severity};
use ccm_sandbox::{Phase, Slot};

use super::poll::Place;
use super::{Keeper, version};
use crate::gate::Step;
use crate::pipeline::Taken;
use crate::status::{Refused, Times, milliseconds};

/// A component on probation, with its signature; what is kept when it is proven, where there is a state folder.
pub(super) struct Candidate(Option<(Vec<u8>, Option<Vec<u8>>)>);

impl Keeper {
    pub(super) fn candidate(&self, bytes: Vec<u8>, signature: Option<Vec<u8>>) -> Candidate {
        Candidate(self.last_good.is_some().then_some((bytes, signature)))
    }

    pub(super) async fn exchange(&mut self, place: &mut Place, taken: Taken, read: Duration) {
        let version = version(&taken);
        let Taken { provider, bytes, signature, took, compiling, .. } = taken;
        let (seen, exchange) = loop {
            // What became of the one before is told before its place is taken.
            let seen = self.phase_changed(place).await;
            if let Some(took) = place.slot.exchange_after(&seen, &provider, self.settings.probation) {
                break (seen, took);
            }
        };
        drop(provider);
        // When the one before is still on probation, the last good one is that before it, if there was one.
        if self.proven.is_none() || seen != Phase::Probation {
            self.proven = self.serving.clone();
            self.first_candidate = self.candidate.take();
        }
        self.candidate = Some(self.candidate(bytes, signature));
        self.forget().await;
        let times = Times {
            read_ms: milliseconds(read),
            compile_ms: milliseconds(compiling),
            takeover_ms: milliseconds(took.saturating_sub(compiling).saturating_add(exchange)),
            exchange_ms: milliseconds(exchange),
            first_call_ms: None,
        };
        let before = self.serving.clone();
        self.news.metrics.took(&self.source, "taken", took);
        self.news.metrics.exchanged(&self.source, exchange);
        self.news.metrics.load(&self.source, "taken", "");
        self.serves(version.clone(), true, *place.slot.generations().borrow(), Some(times));
        (self.told, self.tries, self.retry) = (None, 0, None);
        let before = before.map(|before| format!(" in place of {before}")).unwrap_or_default();
        let idle = self.idle(&place.slot);
        let text = format!("{version} serves{before}; on probation for {:?}{idle}", self.settings.probation.time);
        let (read_ms, compile_ms, takeover_ms, exchange_ms) =
            (times.read_ms, times.compile_ms, times.takeover_ms, times.exchange_ms);
        tracing::info!(
            source = self.source,
            read_ms,
            compile_ms,
            takeover_ms,
            exchange_ms,
            "provider exchanged: {text}"
        );
        self.tell(Severity::Normal, "ProviderLoaded", text).await;
    }

    /// What the new one offers and no controller was started for.
    fn idle(&self, slot: &Slot) -> String {
        let all = [(Capability::LoadBalancers, "load-balancers"), (Capability::Cluster, "cluster")];
        let new = all.into_iter().filter(|(capability, _)| slot.has(*capability) && !self.offered.contains(capability));
        let names: Vec<&str> = new.map(|(_, name)| name).collect();
        if names.is_empty() {
            return String::new();
        }
        format!("; it offers {}, which the one at the start did not: restart the host to use that", names.join(" and "))
    }

    /// The slot may have judged: says so, once. Returns how it stands.
    pub(super) async fn phase_changed(&mut self, place: &mut Place) -> Phase {
        let phase = place.phases.borrow_and_update().clone();
        match &phase {
            Phase::Probation => {}
            Phase::Proven => self.proves().await,
            Phase::RolledBack { why, is_proven } => {
                let generation = *place.slot.generations().borrow();
                if generation != self.generation {
                    self.returns(why, generation).await;
                }
                if *is_proven {
                    self.proves().await;
                }
            }
        }
        phase
    }

    /// What serves is proven now.
    async fn proves(&mut self) {
        let (Some(serving), Some(Candidate(kept))) = (self.serving.clone(), self.candidate.take()) else { return };
        tracing::info!(source = self.source, "{serving} is proven");
        (self.proven, self.first_candidate) = (Some(serving.clone()), None);
        self.serves(serving, false, self.generation, None);
        if let (Some(last_good), Some((bytes, signature))) = (&self.last_good, kept)
            && let Err(error) = last_good.keep(&bytes, signature.as_deref()).await
        {
            let error = format!("{error:#}");
            tracing::warn!(source = self.source, error, "the last good component is not kept; check --state-dir");
        }
    }

    /// The one before is back.
    async fn returns(&mut self, why: &str, generation: u64) {
        let (Some(failed), Some(good)) = (self.serving.clone(), self.proven.clone()) else { return };
        self.candidate = self.first_candidate.take();
        let on_probation = self.candidate.is_some();
        if on_probation {
            self.proven = None;
        }
        self.remembered.refused = Some(failed.digest.clone());
        self.remembered.why = Some(why.to_owned());
        self.keep_memory().await;
        self.news.metrics.load(&self.source, "rolled-back", Step::Probation.as_str());
        self.serves(good.clone(), on_probation, generation, None);
        let refused = Refused::now(Step::Probation, Some(failed.digest.clone()), why.to_owned());
        self.surroundings.statuses.update(&self.source, |status| status.refused = Some(refused));
        let text = format!("{failed} failed its probation, {good} serves again: {why}");
        tracing::error!(source = self.source, "provider rolled back: {text}");
        self.tell(Severity::Warning, "ProviderRolledBack", text).await;
    }
}
