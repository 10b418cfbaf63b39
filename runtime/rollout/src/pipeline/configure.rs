//! Another configuration for a component that serves: it goes through the steps of the gate that hang on the configuration.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use ccm_sandbox::Provider;

use super::{Surroundings, judge};
use crate::config::ProviderConfig;
use crate::context;
use crate::gate::{self, Rejected, Step};
use crate::release::Release;

impl Surroundings {
    /// The component of `serving` with what the files say now; `proven` is what it is compared with. Nothing of a configuration that is
    /// refused stays, and the provider that serves is not touched.
    ///
    /// # Errors
    ///
    /// The step that it did not pass.
    pub(crate) async fn configure(
        &self,
        config: &ProviderConfig,
        serving: &Release<Provider>,
        proven: &Provider,
    ) -> Result<Release<Provider>, Rejected> {
        let before = &*serving.component;
        let descriptor = before.descriptor();
        let files = config.files(descriptor).map_err(|error| Rejected::at(Step::Grants, error))?;
        let carryover = self.carryover_of(config);
        let opened = context::open(config, descriptor, files, &carryover, &self.shared, Some(before)).await;
        let provider = before.reconfigured(opened.map_err(|error| Rejected::at(Step::Grants, error))?);
        let judged = async {
            judge(&provider, &[]).await?;
            provider.offers().await?.context("it cannot tell what it offers")
        };
        let offers = judged.await.map_err(|error| Rejected::at(Step::Check, error))?;
        gate::offers(config, &offers, Some(before.into()), &self.depends)
            .map_err(|error| Rejected::at(Step::Identity, error))?;
        Box::pin(self.compare(config, proven, &provider)).await.map_err(|error| Rejected::at(Step::Compare, error))?;
        // The one before may not be able to answer any more, as with a credential that was revoked. Then the cluster's objects say what
        // there is, as at a start.
        Box::pin(self.confirm(config, &provider)).await.map_err(|error| Rejected::at(Step::Compare, error))?;
        // Not before: a configuration that is refused pins nothing.
        if let Some(egress) = provider.egress() {
            egress.pin_uses(&carryover);
        }
        Ok(Release { component: Arc::new(provider), version: Arc::clone(&serving.version) })
    }
}
