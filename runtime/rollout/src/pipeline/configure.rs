//! Another configuration for components that serve: it goes through the steps of the gate that hang on the configuration.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use ccm_sandbox::Provider;

use super::{Surroundings, judge};
use crate::config::ProviderConfig;
use crate::context;
use crate::gate::{self, Rejected, Step};
use crate::release::Release;
use crate::slot::SlotStanding;
use crate::slot::state::Reconfigured;

/// What becomes of a component on probation that does not answer from another configuration for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// The configuration waits until it does.
    Waits,
    /// It goes without a verdict.
    Over,
}

/// Why the components keep the configuration that they have.
pub(crate) struct NotConfigured {
    /// The step that the other one did not pass.
    pub(crate) rejected: Rejected,
    /// It waits for an answer of the one on probation: the proven one passes with it.
    pub(crate) waits_for_candidate: bool,
}

impl From<Rejected> for NotConfigured {
    fn from(rejected: Rejected) -> Self {
        Self { rejected, waits_for_candidate: false }
    }
}

impl Surroundings {
    /// The components of a slot with what the files say now; none where the files changed meanwhile. Nothing of a configuration that is
    /// refused stays, and the providers that there are, are not touched.
    ///
    /// The proven one comes first: it is known, so that what goes wrong is the configuration's fault. The one on probation is compared with that,
    /// since both are to answer from one configuration. Where it fails, that is its own fault, and it has to go through the whole gate again.
    /// Should it only not answer, `patience` says whether that is waited for: then both keep what they have.
    ///
    /// # Errors
    ///
    /// The step that the configuration did not pass.
    pub(crate) async fn configure(
        &self,
        config: &ProviderConfig,
        stands: &SlotStanding<Release<Provider>>,
        patience: Patience,
    ) -> Result<Option<Reconfigured<Provider>>, NotConfigured> {
        let old = &stands.proven;
        let proven = self.with_files(config, old, &old.component).await;
        let with = match (&stands.candidate, proven) {
            (None, proven) => Reconfigured { proven: Some(proven?), candidate: None },
            (Some(candidate), Ok(proven)) => {
                let tried = match self.with_files(config, candidate, &proven.component).await {
                    Err(mut rejected) if patience == Patience::Waits && rejected.is_passing() => {
                        rejected.error =
                            rejected.error.context(format!("{}, which is on probation", candidate.version));
                        return Err(NotConfigured { rejected, waits_for_candidate: true });
                    }
                    tried => tried.map_err(|Rejected { step, error, .. }| {
                        format!("it does not pass the gate with the changed configuration (step {step}): {error:#}")
                    }),
                };
                Reconfigured { proven: Some(proven), candidate: Some(tried) }
            }
            // It came with a configuration that the proven one cannot do with, and so does the next one.
            (Some(candidate), Err(_)) if stands.is_apart && !config.is_in_use(&candidate.component) => Reconfigured {
                proven: None,
                candidate: Some(Ok(self.with_files(config, candidate, &old.component).await?)),
            },
            (Some(_), Err(rejected)) => return Err(rejected.into()),
        };
        let all = || with.proven.iter().chain(with.candidate.iter().flatten());
        // Both read the files, one after the other.
        if !all().all(|one| config.is_in_use(&one.component)) {
            return Ok(None);
        }
        // Not before: a configuration that is refused pins nothing.
        let carryover = self.carryover_of(config);
        for egress in all().filter_map(|one| one.component.egress()) {
            egress.pin_uses(&carryover);
        }
        Ok(Some(with))
    }

    /// Whether what passed the gate would pass it still. `stands`: those that got another configuration.
    ///
    /// # Errors
    ///
    /// What the cluster's objects depend on by now.
    pub(crate) fn still_configured(
        &self,
        config: &ProviderConfig,
        stands: &SlotStanding<Release<Provider>>,
        with: &Reconfigured<Provider>,
    ) -> Result<(), NotConfigured> {
        let tried = with.candidate.iter().flatten();
        let mut pairs = std::iter::once(&stands.proven).zip(&with.proven).chain(stands.candidate.iter().zip(tried));
        pairs
            .try_for_each(|(old, new)| self.still_offers(config, &old.component, &new.component))
            .map_err(|error| Rejected::at(Step::Identity, error).into())
    }

    /// A component with what the files say now, compared with `other`.
    async fn with_files(
        &self,
        config: &ProviderConfig,
        release: &Release<Provider>,
        other: &Provider,
    ) -> Result<Release<Provider>, Rejected> {
        let before = &*release.component;
        if config.is_in_use(before) {
            return Ok(release.clone());
        }
        let descriptor = before.descriptor();
        let files = config.files(descriptor).map_err(|error| Rejected::at(Step::Grants, error))?;
        let carryover = self.carryover_of(config);
        let digest = &release.version.digest;
        let opened = context::open(config, descriptor, files, &carryover, &self.shared, Some(before), digest).await;
        let provider = before.reconfigured(opened.map_err(|error| Rejected::at(Step::Grants, error))?);
        let judged = async {
            judge(&provider, &[]).await?;
            provider.offers().await?.context("it cannot tell what it offers")
        };
        let offers = judged.await.map_err(|error| Rejected::at(Step::Check, error))?;
        gate::offers(config, &offers, Some(before.into()), &self.depends)
            .map_err(|error| Rejected::at(Step::Identity, error))?;
        Box::pin(self.compare(config, other, &provider)).await.map_err(|error| Rejected::at(Step::Compare, error))?;
        // The other one may not be able to answer any more, as with a credential that was revoked. Then the cluster's objects say what
        // there is, as at a start.
        Box::pin(self.confirm(config, &provider)).await.map_err(|error| Rejected::at(Step::Compare, error))?;
        Ok(Release { component: Arc::new(provider), version: Arc::clone(&release.version) })
    }
}
