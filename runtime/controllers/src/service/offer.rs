//! What the provider's annotations on a Service lead to, where they are not those of its record.

use ccm_cloud::Descriptor;
use k8s_openapi::api::core::v1::Service;

use super::annotations::written;
use super::digest::Digest;
use super::ensured_record::Record;

/// What the provider's annotations on a Service lead to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Offer {
    /// Its own load balancer, or there are none.
    Own,
    /// None that the cloud has.
    Nothing,
    /// One that no living Service has.
    Free {
        load_balancer: String,
        /// The UID that it is marked with.
        uid: Option<String>,
    },
    /// That of this Service.
    Anothers { load_balancer: String, owner: String },
}

/// Whether the provider's annotations are not those of the record.
pub(crate) fn is_offered(service: &Service, descriptor: &Descriptor) -> bool {
    let written = written(service, descriptor);
    !written.is_empty() && Record::of(service).is_none_or(|record| !record.has_own(Digest::of(&written)))
}
