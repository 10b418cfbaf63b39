//! Whether Barbican has what TLS should end with. Octavia reads it itself.

use std::time::Duration;

use ccm_sdk::cache;
use ccm_sdk::types::{Failure, Reaction};

use super::refusal;
use super::work::Work;
use crate::annotations as names;
use crate::api::secrets;

/// How long one that was there is believed.
const SEEN: Duration = Duration::from_secs(3_600);

impl Work<'_> {
    /// # Errors
    ///
    /// It is not there, or cannot be looked for.
    pub(super) fn check_tls(&self) -> Result<(), Failure> {
        let Some(reference) = &self.spec.tls_container else { return Ok(()) };
        if self.config.balancers.container_store != "barbican" {
            return Ok(());
        }
        let key = format!("tls/{reference}");
        if cache::get(&key).is_some() {
            return Ok(());
        }
        let is_asked = self.service.annotation(names::TLS_CONTAINER).is_some();
        let place = || (!is_asked).then(|| "default-tls-container-ref in [LoadBalancer]".to_owned());
        let wrong = |message: String| refusal::of_value(names::TLS_CONTAINER, place(), &message);
        let service = self.service.full_name();
        let (path, id) = reference
            .rsplit_once('/')
            .filter(|(_, id)| !id.is_empty())
            .ok_or_else(|| wrong(format!("invalid tlsContainerRef for service {service}: {reference}; it has to end in containers/ID or secrets/ID")))?;
        let request = match path.rsplit('/').next() {
            Some("containers") => secrets::container(id),
            Some("secrets") => secrets::secret(id),
            kind => {
                let kind = kind.unwrap_or_default();
                let message = format!(
                    "failed to validate tlsContainerRef for service {service}: tlsContainerRef type {kind} unknown; it has to end in containers/ID or secrets/ID"
                );
                return Err(wrong(message));
            }
        };
        let answer = request.send();
        // Of one secret: the credentials are good for everything else.
        let is_kept = is_asked && answer.as_ref().is_ok_and(|answer| answer.status() == 403);
        let found = answer.and_then(ccm_sdk::Answer::optional).map_err(|failure| match failure.reaction {
            Reaction::Unauthorized if is_kept => {
                let message = format!(
                    "Barbican does not let this user read {reference}: let the user read it, or name another one: {}",
                    failure.message
                );
                Failure::retry(message).annotation(names::TLS_CONTAINER).after(refusal::SLOWLY)
            }
            Reaction::Unsupported => failure.context(format_args!(
                "failed to create a TLS Terminated loadbalancer because openstack keymanager client is not initialized and default-tls-container-ref {reference:?} is set"
            )),
            _ => failure.context(format_args!("failed to get tlsContainerRef {reference}")),
        })?;
        if found.is_none() {
            // It may come yet.
            let message = format!("{reference} is not there: Barbican has no such container or secret");
            let failure = Failure::retry(message).after(refusal::SOON);
            return Err(if is_asked { failure.annotation(names::TLS_CONTAINER) } else { failure });
        }
        cache::put(&key, b"", SEEN);
        Ok(())
    }
}
