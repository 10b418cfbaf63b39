//! Services that have a load balancer, and the Nodes behind them, as providers are told of them: for whoever asks two providers about
//! the same objects.

use std::sync::Arc;

use ccm_cloud::{Backend, Descriptor};
use k8s_openapi::api::core::v1::Service;

use super::annotations::{ORPHAN, annotation};
use super::backends::Backends;
use super::condition::existing;
use super::ensured_record::{RECORDED, Record};
use super::offer::is_offered;
use super::predicates::has_finalizer;
use super::view::told;
use crate::store::Node;
use crate::view::service::{is_deleting, is_load_balancer};

/// A Service whose load balancer this provider has, as the provider is asked about it: by the record, which must be the Service's own.
/// None where anything about it is open, because it goes, is given up, or has annotations that the provider did not write for it.
#[must_use]
pub fn recorded_service(service: &Service, descriptor: &Descriptor) -> Option<ccm_cloud::Service> {
    let is_kept = has_finalizer(service) && is_load_balancer(service) && !is_deleting(service);
    let is_given_up = annotation(service, ORPHAN).is_some_and(|orphan| !orphan.is_empty());
    let has_it = Record::of(service).is_some_and(|record| record.provider == descriptor.name);
    if !is_kept || is_given_up || !has_it || is_offered(service, descriptor) {
        return None;
    }
    let (told, wrong) = told(service, descriptor, false);
    wrong.is_none().then_some(told)
}

/// Whether a host of wasm-ccm has, or may have, made a load balancer for it. The finalizer alone does not say so: all cloud controller
/// managers use the same.
#[must_use]
pub fn was_ensured_here(service: &Service) -> bool {
    existing(service, RECORDED).is_some()
}

/// The provider that has, or may have, made a load balancer for it, by the Service's own record.
#[must_use]
pub fn recorded_provider(service: &Service) -> Option<String> {
    Record::of(service).map(|record| record.provider)
}

/// The Nodes behind load balancers.
#[must_use]
pub fn cloud_backends(nodes: &[Arc<Node>]) -> Arc<[Backend]> {
    Backends::select(nodes).list
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use ccm_cloud::LoadBalancers as _;

    use super::*;
    use crate::service::digest::Digest;
    use crate::service::predicates::FINALIZER;
    use crate::testing::{FakeBalancers, service};

    fn recorded(provider: &str, change: impl FnOnce(&mut Value)) -> Service {
        let web: Service = service("web").object();
        let record = Record::begun(provider, &web, Digest::of(&0), Digest::of(&1));
        let mut value = serde_json::to_value(&web).unwrap();
        value["metadata"]["finalizers"] = json!([FINALIZER]);
        value["status"]["conditions"] = json!([record.entry(&web)]);
        change(&mut value);
        serde_json::from_value(value).unwrap()
    }

    /// A condition that came with a copy of another Service leads nobody to a provider.
    #[test]
    fn the_provider_of_a_service_is_that_of_its_own_record() {
        assert_eq!(recorded_provider(&recorded("other", |_| {})).as_deref(), Some("other"));
        assert_eq!(recorded_provider(&recorded("other", |service| service["metadata"]["uid"] = json!("7"))), None);
        assert_eq!(recorded_provider(&service("web").object()), None);
    }

    #[test]
    fn a_service_is_compared_when_its_record_says_that_the_provider_has_its_load_balancer() {
        let told = recorded_service(&recorded("fake", |_| {}), &FakeBalancers::default().descriptor()).unwrap();
        assert_eq!((told.namespace.as_str(), told.name.as_str()), ("default", "web"));
        type Change = fn(&mut Value);
        let left_out: [(&str, &str, Change); 6] = [
            ("another provider's", "other", |_| {}),
            ("without a record", "fake", |service| service["status"]["conditions"] = json!([])),
            ("without the finalizer", "fake", |service| service["metadata"]["finalizers"] = json!([])),
            ("going", "fake", |service| service["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z")),
            ("of another type", "fake", |service| service["spec"]["type"] = json!("ClusterIP")),
            ("given up", "fake", |service| service["metadata"]["annotations"] = json!({ ORPHAN: "fake" })),
        ];
        for (which, provider, change) in left_out {
            assert_eq!(
                recorded_service(&recorded(provider, change), &FakeBalancers::default().descriptor()),
                None,
                "{which}"
            );
        }
    }
}
