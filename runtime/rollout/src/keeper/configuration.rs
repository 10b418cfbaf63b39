//! Follows the files of the configuration, and gives the component that serves another one, through the gate.
//!
//! A component and its configuration are exchanged as one: see [decision 21](../../../../docs/decisions/0021-configuration-reload.md).
//! Credentials that change alone need no exchange: egress takes them by itself.

use std::path::PathBuf;
use std::sync::Arc;

use ccm_cloud::Severity;
use futures::FutureExt as _;
use futures::future::select_all;
use tokio::time::Instant;

use super::report::without_request_ids;
use super::{Keeper, MAX_DELAY, MIN_DELAY, Place};
use crate::config::ProviderConfig;
use crate::gate::{Rejected, Step};
use crate::retry::delay;
use crate::source::{Changes, Source};
use crate::status::NotTaken;

/// What is known of the files of a configuration.
pub(super) struct Configuration {
    files: Vec<PathBuf>,
    changes: Vec<Changes>,
    /// What the files held when they were refused for good, and the generation that they were refused for.
    judged: Option<([u8; 32], u64)>,
    /// Why they were refused, as it was told last, without request IDs.
    told: Option<String>,
    /// How often in a row something failed that may pass later.
    tries: usize,
    retry: Option<Instant>,
}

impl Configuration {
    /// Looks at the files every `period`.
    pub(super) fn of(config: &ProviderConfig, period: std::time::Duration) -> Self {
        let files = config.edition_files();
        let changes = files.iter().map(|file| Changes::of(&Source::Path(file.clone()), None, period)).collect();
        Self { files, changes, judged: None, told: None, tries: 0, retry: None }
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
            () = tokio::time::sleep_until(retry.unwrap_or_else(Instant::now)), if retry.is_some() => *retry = None,
        }
    }

    /// Another component serves: the files may say something else than it was told.
    pub(super) fn look_again(&mut self) {
        if !self.files.is_empty() {
            (self.tries, self.retry) = (0, Some(Instant::now()));
        }
    }

    #[cfg(test)]
    pub(super) fn told(&self) -> Option<&str> {
        self.told.as_deref()
    }

    #[cfg(test)]
    pub(super) const fn is_tried_again(&self) -> bool {
        self.retry.is_some()
    }

    /// The files, in words.
    pub(super) fn shown(&self) -> String {
        let files: Vec<String> = self.files.iter().map(|file| file.display().to_string()).collect();
        files.join(", ")
    }
}

impl Keeper {
    /// Gives the component that serves what the files say, if that is something else than it was told, and passes the gate.
    pub(super) async fn configure(&mut self) {
        let Some(Place { slot, .. }) = &self.place else { return };
        let slot = slot.clone();
        if self.is_configured() {
            return self.is_configured_as_before();
        }
        let mark = self.settled_files().await;
        // Whoever serves now: the sources may have been told of meanwhile.
        let (serving, generation) = slot.serving();
        if self.is_configured() {
            return self.is_configured_as_before();
        }
        if self.configuration.judged == Some((mark, generation)) {
            return;
        }
        let (proven, surroundings, config) = (slot.proven(), Arc::clone(&self.surroundings), Arc::clone(&self.config));
        let configured = async move { surroundings.configure(&config, &serving, &proven).await };
        match self.meanwhile(configured).await {
            Ok(release) => {
                let Some(exchange) = slot.configure(generation, release) else {
                    // Somebody else serves, who has a configuration of its own.
                    return self.configuration.look_again();
                };
                self.audience.metrics.configuration(&self.source, "taken", "");
                self.audience.metrics.exchanged(&self.source, exchange);
                self.is_configured_as_before();
                self.catch_up().await;
            }
            Err(rejected) => {
                // A credential that belongs to the configuration may come from elsewhere, and later.
                let is_final = !rejected.may_pass_later() && rejected.step != Step::Compare;
                self.configuration.judged = is_final.then_some((mark, generation));
                self.configuration.retry = (!is_final).then(|| {
                    let delay = delay(MIN_DELAY, MAX_DELAY, self.configuration.tries);
                    self.configuration.tries += 1;
                    Instant::now() + delay
                });
                self.reject_configuration(rejected).await;
            }
        }
    }

    /// Whether the one that serves was told what the files say.
    fn is_configured(&self) -> bool {
        self.slot().is_none_or(|slot| self.config.is_in_use(&slot.component()))
    }

    /// What the files hold once it has stayed the same.
    async fn settled_files(&mut self) -> [u8; 32] {
        let mut last = self.config.edition_mark();
        loop {
            self.meanwhile(tokio::time::sleep(self.settings.settle)).await;
            // What was told meanwhile is seen now.
            while self.configuration.next().now_or_never().is_some() {}
            let now = self.config.edition_mark();
            if now == last {
                return now;
            }
            last = now;
        }
    }

    fn is_configured_as_before(&mut self) {
        let Configuration { judged, told, tries, retry, .. } = &mut self.configuration;
        (*judged, *tries, *retry) = (None, 0, None);
        if told.take().is_some() {
            tracing::info!(source = self.source, "the files hold the configuration that is in use");
            self.surroundings.listeners.statuses.configuration_refused(&self.source, None);
        }
    }

    /// Says that a configuration is not used, once; the page always has the last reason.
    async fn reject_configuration(&mut self, rejected: Rejected) {
        let Some(serving) = self.slot().map(|slot| slot.view().serving) else { return };
        let (step, reason) = (rejected.step, format!("{:#}", rejected.error));
        let text = format!(
            "the changed configuration ({}) is rejected (step {step} of the gate): {reason}; {serving} continues to serve with the one before",
            self.configuration.shown()
        );
        let refused = NotTaken::now(step, None, reason);
        let told = without_request_ids(&text);
        if self.configuration.told.as_ref() == Some(&told) {
            return self.surroundings.listeners.statuses.configuration_still_refused(&self.source, refused.reason);
        }
        self.configuration.told = Some(told);
        self.audience.metrics.configuration(&self.source, "rejected", step.as_str());
        self.surroundings.listeners.statuses.configuration_refused(&self.source, Some(refused));
        self.tell(Severity::Warning, "ProviderConfigurationRejected", text).await;
    }
}
