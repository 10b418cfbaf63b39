//! Puts the judgement of the providers behind the port of the webhook.

use std::sync::Arc;
use std::time::Duration;

use ccm_controllers::{Ruling, ServiceAdmission};
use ccm_serving::webhook::{Decision, Reviewer};
use k8s_openapi::api::core::v1::Service;

/// What providers say of Services.
pub(crate) struct Reviews(pub(crate) Arc<ServiceAdmission>);

impl Reviewer for Reviews {
    async fn review(&self, service: &Service, before: Option<&Service>, limit: Duration) -> Decision {
        let Ruling { denial, warnings, .. } = self.0.review(service, before, limit).await;
        Decision { denial, warnings }
    }
}
