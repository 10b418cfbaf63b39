//! How a component names load balancers, where there is none to compare.
//!
//! A component that names them in another way finds nothing of what is there. While no Service has a load balancer, nothing shows
//! the difference; once one has, it is too late: another replica, which has not seen that component, makes everything a second time when it leads. So both
//! are asked about a Service that does not exist. That costs no request to the cloud.

use ccm_cloud::{LoadBalancers, Service};

use super::Difference;

/// UID of the Service that does not exist.
const UID: &str = "00000000-0000-4000-8000-000000000000";

/// What a component calls the load balancer of a Service that does not exist; none when it cannot tell.
pub(crate) async fn naming(provider: &impl LoadBalancers) -> Option<String> {
    let (namespace, name, uid) = ("default".to_owned(), "wasm-ccm-naming".to_owned(), UID.to_owned());
    provider.name(Service { namespace, name, uid, ..Service::default() }).await.ok()
}

/// What is wrong with the name that a new component gives.
pub(crate) fn difference(before: Option<&str>, new: Option<&str>) -> Option<Difference> {
    let (before, new) = (before?, new?);
    let what = || format!("it calls its load balancer {new:?}, and the last good one calls it {before:?}");
    (before != new).then(|| Difference::new("Service", "that is to come", what()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_name_is_a_difference_and_none_is_not() {
        for (before, new, differs) in [
            (Some("a"), Some("a"), false),
            (Some("a"), Some("b"), true),
            (None, Some("b"), false),
            (Some("a"), None, false),
            (None, None, false),
        ] {
            assert_eq!(difference(before, new).is_some(), differs, "{before:?} {new:?}");
        }
        let told = difference(Some("a"), Some("b")).unwrap().to_string();
        assert_eq!(
            told,
            r#"Service that is to come: it calls its load balancer "b", and the last good one calls it "a""#
        );
    }
}
