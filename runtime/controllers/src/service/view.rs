//! A Service as its provider is told.

use ccm_cloud::{Descriptor, Failure};
use k8s_openapi::api::core::v1::Service;

use super::annotations::is_written;
use super::ensured_record::{Record, is_foreign};
use crate::view::service::cloud_service;

/// As a provider is told.
///
/// Addresses that somebody else wrote, or that came from another Service, are left out: a provider that goes by them would
/// lose the true ones. Without a record, as after another manager, those of the status count. So is what the provider wrote for
/// another Service, where it is `anothers`: it would lead to the load balancer of that one.
pub(crate) fn told(
    service: &Service,
    descriptor: &Descriptor,
    anothers: bool,
) -> (ccm_cloud::Service, Option<Failure>) {
    let (mut view, wrong) = cloud_service(service);
    if anothers {
        view.annotations.retain(|name, _| !is_written(descriptor, name));
    }
    let is_confirmed = || Record::of(service).is_none_or(|record| record.confirms(&view.ingress));
    if anothers || is_foreign(service) || !is_confirmed() {
        view.ingress.clear();
    }
    (view, wrong)
}
