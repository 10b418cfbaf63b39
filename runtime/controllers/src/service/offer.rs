//! Whether what a provider wrote on a Service was written for that one.
//!
//! The record of a Service says which of the provider's annotations are its own. Others came with an export, a backup or another
//! manager, or people wrote them: they are an offer, and may lead to the load balancer of another Service.

use std::sync::Arc;

use ccm_cloud::Descriptor;
use k8s_openapi::api::core::v1::Service;

use super::annotations::{ORPHAN, annotation, written};
use super::fingerprint::Digest;
use super::predicates::{has_finalizer, is_load_balancer};
use super::record::Record;
use super::sync::Syncer;
use super::wake::key;

/// Whether the provider's annotations are not those of the record.
pub(crate) fn is_offered(service: &Service, descriptor: &Descriptor) -> bool {
    let written = written(service, descriptor);
    !written.is_empty() && Record::of(service).is_none_or(|record| record.written != Some(Digest::of(&written)))
}

impl Syncer {
    /// Whether what the provider wrote on a Service leads to the load balancer of another one.
    pub(crate) fn is_anothers(&self, service: &Service, descriptor: &Descriptor) -> bool {
        is_offered(service, descriptor) && self.rival(service, descriptor).is_some()
    }

    /// The Service that has the same annotations of the provider, and had them before.
    fn rival(&self, service: &Service, descriptor: &Descriptor) -> Option<Arc<Service>> {
        let offered = written(service, descriptor);
        let has_all = |other: &Service| offered.iter().all(|(name, value)| annotation(other, name) == Some(value));
        let age = |service: &Service| {
            let metadata = &service.metadata;
            (metadata.creation_timestamp.as_ref().map(|time| time.0), metadata.uid.clone())
        };
        let was_before = |other: &Service| !is_offered(other, descriptor) || age(other) < age(service);
        self.store.state().into_iter().find(|other| {
            other.metadata.uid != service.metadata.uid
                && has_all(other)
                && self.may_have_a_load_balancer(other)
                && was_before(other)
        })
    }

    fn may_have_a_load_balancer(&self, service: &Service) -> bool {
        let is_elsewhere = self.memory.with(&key(service), |entry| entry.is_elsewhere) == Some(true);
        (is_load_balancer(service) || has_finalizer(service)) && annotation(service, ORPHAN).is_none() && !is_elsewhere
    }
}
