//! Services: those that wait for an address, and those that wait for a host that does not run.

use std::sync::Arc;

use ccm_controllers::{has_finalizer, is_deleting, is_load_balancer, ready_condition};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::ResourceExt as _;

use super::finding::{Check, Finding};
use super::leases::Led;

/// How Services are judged.
pub(super) struct Judge<'a> {
    /// Classes that the providers serve, besides none.
    pub(super) classes: &'a [String],
    pub(super) led: Led,
    /// A Service that is older should have an address, or a condition that says why not.
    pub(super) patience: SignedDuration,
    pub(super) now: Timestamp,
}

/// The condition's reason while the cloud is at work.
const PENDING: &str = "CloudPending";

/// What Services show.
pub(super) fn judge(services: &[Arc<Service>], judge: &Judge<'_>) -> Vec<Finding> {
    let check = Check::Services;
    let mut findings: Vec<Finding> = services.iter().filter_map(|service| waiting(service, judge)).collect();
    let kept: Vec<&Arc<Service>> = services.iter().filter(|service| has_finalizer(service)).collect();
    if judge.led == Led::No && !kept.is_empty() {
        let hang = kept.iter().filter(|service| is_deleting(service)).count();
        let found = format!(
            "keeps the finalizer service.kubernetes.io/load-balancer-cleanup, and no host runs: {hang} of {} hang in their deletion, the others will",
            kept.len()
        );
        let fix = "start the host, which deletes the load balancers; to remove wasm-ccm for good, follow docs/guides/remove.md";
        findings.push(check.wrong(found, fix).about(kept.iter().map(|service| name(service))));
    }
    if findings.is_empty() {
        let many = services.iter().filter(|service| is_load_balancer(service)).count();
        findings.push(check.good(format!("Services of type LoadBalancer: {many}; none waits for long")));
    }
    findings
}

fn name(service: &Service) -> String {
    format!("Service {}/{}", service.namespace().unwrap_or_default(), service.name_any())
}

/// What keeps it from having a load balancer as it asks for.
fn waiting(service: &Service, judge: &Judge<'_>) -> Option<Finding> {
    if !is_load_balancer(service) {
        return None;
    }
    let check = Check::Services;
    let (namespace, short) = (service.namespace().unwrap_or_default(), service.name_any());
    let events = format!(
        "`wasm-ccm explain service {namespace}/{short}` says why; `kubectl -n {namespace} describe service {short}` shows the Events"
    );
    if let Some(condition) = ready_condition(service) {
        let (reason, message) = (&condition.reason, &condition.message);
        let told = || check.wrong(format!("waits ({reason}): {message}"), events).about([name(service)]);
        // A cloud takes its time.
        let is_young = judge.now.duration_since(condition.last_transition_time.0) <= judge.patience;
        return (condition.status != "True" && !(reason == PENDING && is_young)).then(told);
    }
    let age = service.metadata.creation_timestamp.as_ref().map(|created| judge.now.duration_since(created.0));
    let has_address = service
        .status
        .as_ref()
        .and_then(|status| status.load_balancer.as_ref())
        .is_some_and(|balancer| balancer.ingress.as_ref().is_some_and(|ingress| !ingress.is_empty()));
    if is_deleting(service) || has_address || age.is_none_or(|age| age <= judge.patience) {
        return None;
    }
    let class = service.spec.as_ref().and_then(|spec| spec.load_balancer_class.as_deref());
    let finding = match class.filter(|class| !judge.classes.iter().any(|known| known == class)) {
        Some(class) => {
            let found =
                format!("waits, and its class {class} is none of these providers': another manager has to serve it");
            check.note(found, "nothing, if there is such a manager; otherwise give --load-balancer-class, or create the Service again without a class")
        }
        None => check.wrong("waits, and nobody has taken care of it: it has no condition LoadBalancerReady", events),
    };
    Some(finding.about([name(service)]))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn service(metadata: &Value, spec: &Value, status: &Value) -> Arc<Service> {
        let mut object = json!({
            "metadata": { "name": "web", "namespace": "shop", "creationTimestamp": "2026-11-26T09:00:00Z" },
            "spec": { "type": "LoadBalancer" },
            "status": status,
        });
        for (part, more) in [("metadata", metadata), ("spec", spec)] {
            for (key, value) in more.as_object().unwrap() {
                object[part][key] = value.clone();
            }
        }
        Arc::new(serde_json::from_value(object).unwrap())
    }

    fn told(service: Arc<Service>, led: Led) -> Vec<String> {
        let findings = judge(
            &[service],
            &Judge {
                classes: &["mine".to_owned()],
                led,
                patience: SignedDuration::from_mins(2),
                now: "2026-11-26T10:00:00Z".parse().unwrap(),
            },
        );
        findings
            .into_iter()
            .map(|one| format!("{:?} {}: {}", one.judgement, one.objects.join(", "), one.found))
            .collect()
    }

    fn condition(status: &str, reason: &str, message: &str) -> Value {
        let time = "2026-11-26T09:30:00Z";
        let condition = json!({ "type": "LoadBalancerReady", "status": status, "reason": reason, "message": message, "lastTransitionTime": time });
        json!({ "conditions": [condition] })
    }

    #[test]
    fn a_service_that_waits_is_told_with_its_condition() {
        let none = json!({});
        let failed = condition("False", "QuotaExceeded", "the limit of 10 load balancers is reached: retried in 5m");
        let all = told(service(&none, &none, &failed), Led::Yes);
        let wanted =
            "Wrong Service shop/web: waits (QuotaExceeded): the limit of 10 load balancers is reached: retried in 5m";
        assert_eq!(all, [wanted]);
        assert!(told(service(&none, &none, &condition("True", "Ensured", "")), Led::Yes)[0].starts_with("Good"));
        // A cloud that is at work has the time of --waiting-after.
        let mut pending = condition("False", "CloudPending", "being made");
        assert!(
            told(service(&none, &none, &pending), Led::Yes)[0]
                .starts_with("Wrong Service shop/web: waits (CloudPending)")
        );
        pending["conditions"][0]["lastTransitionTime"] = json!("2026-11-26T09:58:00Z");
        assert!(told(service(&none, &none, &pending), Led::Yes)[0].starts_with("Good"));
    }

    #[test]
    fn a_service_without_a_condition_is_nobodys_or_of_another_class() {
        let none = json!({});
        assert!(
            told(service(&none, &none, &none), Led::Yes)[0].starts_with("Wrong Service shop/web: waits, and nobody")
        );
        let young = json!({ "creationTimestamp": "2026-11-26T09:58:00Z" });
        assert!(told(service(&young, &none, &none), Led::Yes)[0].starts_with("Good"));
        let addressed = json!({ "loadBalancer": { "ingress": [{ "ip": "203.0.113.1" }] } });
        assert!(told(service(&none, &none, &addressed), Led::Yes)[0].starts_with("Good"));
        let other = json!({ "loadBalancerClass": "other" });
        assert!(
            told(service(&none, &other, &none), Led::Yes)[0]
                .starts_with("Note Service shop/web: waits, and its class other")
        );
        let mine = json!({ "loadBalancerClass": "mine" });
        assert!(told(service(&none, &mine, &none), Led::Yes)[0].starts_with("Wrong"));
    }

    #[test]
    fn a_finalizer_hangs_only_while_no_host_runs() {
        let (none, ready) = (json!({}), condition("True", "Ensured", ""));
        let kept = json!({ "finalizers": ["service.kubernetes.io/load-balancer-cleanup"], "deletionTimestamp": "2026-11-26T09:50:00Z" });
        let hangs = told(service(&kept, &none, &ready), Led::No);
        assert!(hangs[0].contains("no host runs: 1 of 1 hang in their deletion"), "{hangs:?}");
        for led in [Led::Yes, Led::Unknown] {
            assert!(told(service(&kept, &none, &ready), led)[0].starts_with("Good"), "{led:?}");
        }
        let free = json!({ "finalizers": ["example.com/other"] });
        assert!(told(service(&free, &none, &ready), Led::No)[0].starts_with("Good"));
    }
}
