//! Follows the files of the configuration, and gives the component that serves another one, through the gate.
//!
//! A component and its configuration are exchanged as one: see [decision 21](../../../../docs/decisions/0021-configuration-reload.md).
//! Credentials that change alone need no exchange: egress takes them by itself.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ccm_cloud::Severity;
use futures::FutureExt as _;
use futures::future::select_all;
use tokio::time::Instant;

use super::report::without_request_ids;
use super::{Keeper, MAX_DELAY, MIN_DELAY};
use crate::config::ProviderConfig;
use crate::config::edition::Says;
use crate::gate::{Rejected, Step};
use crate::pipeline::configure::{NotConfigured, Patience};
use crate::retry::{Retry, until};
use crate::slot::Slot;
use crate::source::{Changes, Source};
use crate::status::NotTaken;

/// What is known of the files of a configuration.
pub(super) struct Configuration {
    files: Vec<PathBuf>,
    changes: Vec<Changes>,
    /// What was rejected last.
    judged: Option<JudgedConfiguration>,
    /// Why they are rejected, as it was told last, without request IDs.
    pub(super) told: Option<String>,
    /// When the files are looked at though they have not changed.
    pub(super) retry: Retry,
    /// How often in a row the one on probation did not answer from them.
    waited: usize,
}

/// A configuration that was rejected.
struct JudgedConfiguration {
    /// What the files held.
    mark: [u8; 32],
    /// What they told the components.
    says: Vec<Says>,
    /// Since when those stand so.
    generation: u64,
    /// It was rejected for good.
    is_final: bool,
    at: Instant,
}

/// From one try to the next while the files change, but what they tell a component does not: each try asks the cloud.
const AGAIN: Duration = Duration::from_secs(10);

/// So many times a configuration waits for a component on probation that does not answer from it: about a minute. It may never answer, and
/// would block new credentials for the proven one.
const PATIENCE: usize = 6;

impl Configuration {
    /// Looks at the files every `period`.
    pub(super) fn of(config: &ProviderConfig, period: Duration) -> Self {
        let files = config.edition_files();
        let changes = files.iter().map(|file| Changes::of(&Source::Path(file.clone()), None, period)).collect();
        let retry = Retry::between(MIN_DELAY, MAX_DELAY);
        Self { files, changes, judged: None, told: None, retry, waited: 0 }
    }

    /// Waits until the files may hold something else, or are to be looked at again.
    ///
    /// # Cancel safety
    ///
    /// No change is lost.
    pub(super) async fn next(&mut self) {
        let Self { changes, retry, .. } = self;
        let changed = async {
            if changes.is_empty() {
                return std::future::pending().await;
            }
            select_all(changes.iter_mut().map(|one| Box::pin(one.next()))).await;
        };
        tokio::select! {
            () = changed => {}
            () = until(retry.due) => retry.due = None,
        }
    }

    /// Another component serves: the files may say something else than it was told.
    pub(super) fn look_again(&mut self) {
        if !self.files.is_empty() {
            self.retry.end();
            self.retry.now();
        }
    }

    /// The same, and what was rejected is tried again.
    pub(super) fn begin_anew(&mut self) {
        if self.told.is_some() {
            self.judged = None;
            self.look_again();
        }
    }

    /// The components were told what the files say. Returns whether something else had been told of before.
    fn is_in_use(&mut self) -> bool {
        (self.judged, self.waited) = (None, 0);
        self.retry.end();
        self.told.take().is_some()
    }

    /// The files, in words.
    pub(super) fn shown(&self) -> String {
        let files: Vec<String> = self.files.iter().map(|file| file.display().to_string()).collect();
        files.join(", ")
    }
}

impl Keeper {
    /// Gives the components of the slot what the files say, if that is something else than they were told, and passes the gate.
    pub(super) async fn configure(&mut self) {
        let Some(slot) = self.slot().cloned() else { return };
        if self.is_configured() {
            return self.is_configured_as_before();
        }
        let Some(says) = self.settled_files().await else {
            // Others have their turn before the next look: there are files that never stay the same.
            self.configuration.retry.now();
            return;
        };
        // Whoever stands how now: the sources may have been told of meanwhile.
        let stands = slot.components();
        if self.is_configured() {
            return self.is_configured_as_before();
        }
        let (mark, generation) = (self.config.edition_mark(), stands.generation);
        if let Some(judged) = &self.configuration.judged
            && (&judged.says, judged.generation) == (&says, generation)
        {
            let next = judged.at + AGAIN;
            if judged.mark != mark && Instant::now() < next {
                self.configuration.retry.due = Some(next);
                return;
            }
            if judged.mark == mark && judged.is_final {
                return;
            }
        } else {
            self.configuration.retry.tries = 0;
            self.configuration.waited = 0;
        }
        let patience = if self.configuration.waited < PATIENCE { Patience::Waits } else { Patience::Over };
        let (surroundings, config) = (Arc::clone(&self.surroundings), Arc::clone(&self.config));
        let before = stands.clone();
        let configured = async move { surroundings.configure(&config, &stands, patience).await };
        let configured = self.meanwhile(configured).await;
        // It may have been in the gate for a minute: more objects may depend on what it does not offer.
        let configured = configured.and_then(|with| match &with {
            Some(one) => self.surroundings.still_configured(&self.config, &before, one).map(|()| with),
            None => Ok(with),
        });
        match configured {
            Ok(Some(with)) => {
                let is_withdrawn = matches!(with.candidate, Some(Err(_)));
                let Some(exchange) = slot.configure(generation, with) else {
                    // Somebody else serves, who has a configuration of its own.
                    return self.configuration.look_again();
                };
                self.audience.metrics.configuration(&self.source, "taken", "");
                self.audience.metrics.exchanged(&self.source, exchange);
                self.configuration.is_in_use();
                self.catch_up().await;
                if is_withdrawn || self.told.is_some() {
                    // What the source holds goes through the whole gate again: it may have been rejected because the one that it was
                    // compared with still had the old configuration.
                    self.judged = None;
                    self.retry.end();
                    self.retry.now();
                }
            }
            Ok(None) => self.configuration.look_again(),
            Err(NotConfigured { rejected, waits_for_candidate }) => {
                self.configuration.waited += usize::from(waits_for_candidate);
                // A credential that belongs to the configuration may come from elsewhere, and later.
                let is_final = !rejected.may_pass_later() && rejected.step != Step::Compare;
                let at = Instant::now();
                self.configuration.judged = Some(JudgedConfiguration { mark, says, generation, is_final, at });
                if is_final {
                    self.configuration.retry.due = None;
                } else {
                    self.configuration.retry.later();
                }
                self.reject_configuration(rejected).await;
            }
        }
    }

    /// Whether the components of the slot were told what the files say.
    fn is_configured(&self) -> bool {
        self.slot().is_none_or(|slot| {
            let stands = slot.components();
            !stands.is_apart && stands.both().all(|one| self.config.is_in_use(&one.component))
        })
    }

    /// What the files tell the components, if that has stayed the same.
    async fn settled_files(&mut self) -> Option<Vec<Says>> {
        let before = self.says();
        self.meanwhile(tokio::time::sleep(self.settings.settle)).await;
        // What was told meanwhile is seen now.
        while self.configuration.next().now_or_never().is_some() {}
        let says = self.says();
        (says == before).then_some(says)
    }

    fn says(&self) -> Vec<Says> {
        let Some(stands) = self.slot().map(Slot::components) else { return vec![] };
        stands.both().map(|one| self.config.says(&one.component)).collect()
    }

    fn is_configured_as_before(&mut self) {
        if self.configuration.is_in_use() {
            tracing::info!(source = self.source, "the files hold the configuration that is in use");
            self.shows(|known| known.rejected_configuration = None);
        }
    }

    /// Says that a configuration is not used, once; the page always has the last reason.
    async fn reject_configuration(&mut self, rejected: Rejected) {
        let Some(stands) = self.slot().map(Slot::components) else { return };
        let (step, reason) = (rejected.step, rejected.reason());
        let (files, serving) = (self.configuration.shown(), &stands.serving().version);
        let text = if self.config.is_in_use(&stands.serving().component) {
            format!(
                "the changed configuration ({files}) is rejected (step {step} of the gate) for {}: {reason}; {serving}, which is on probation, serves with it, and no difference between the two counts",
                stands.proven.version
            )
        } else {
            format!(
                "the changed configuration ({files}) is rejected (step {step} of the gate): {reason}; {serving} continues to serve with the old configuration"
            )
        };
        let not_taken = NotTaken::now(step, None, &reason);
        let told = without_request_ids(&text);
        if self.configuration.told.as_ref() == Some(&told) {
            return self.shows(|known| {
                if let Some(known) = &mut known.rejected_configuration {
                    known.reason = not_taken.reason;
                }
            });
        }
        self.configuration.told = Some(told);
        self.audience.metrics.configuration(&self.source, "rejected", step.as_str());
        self.shows(|known| known.rejected_configuration = Some(not_taken));
        self.tell(Severity::Warning, "ProviderConfigurationRejected", text).await;
    }
}
