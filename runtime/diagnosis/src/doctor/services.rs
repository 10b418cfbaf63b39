//! Services: those that wait for an address, and those that wait for a host that does not run.

use std::sync::Arc;

use ccm_cloud::Reaction;
use ccm_controllers::{
    Node, cloud_backends, has_finalizer, is_deleting, is_load_balancer, load_balancer_class, published_addresses,
    reaction_of, ready_condition,
};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::ResourceExt as _;

use super::finding::{Check, Finding};
use super::leases::Led;
use crate::ask::objects::is_known_here;

/// How Services are judged.
pub(super) struct Judge<'a> {
    /// Classes that the providers serve, besides none.
    pub(super) classes: &'a [String],
    pub(super) led: Led,
    /// None where they cannot be read.
    pub(super) nodes: Option<&'a [Arc<Node>]>,
    /// A Service that is older should have an address, or a condition that says why not.
    pub(super) patience: SignedDuration,
    pub(super) now: Timestamp,
}

/// What Services show.
pub(super) fn judge(services: &[Service], judge: &Judge<'_>) -> Vec<Finding> {
    let check = Check::Services;
    let mut findings: Vec<Finding> = services.iter().filter_map(|service| waiting(service, judge)).collect();
    let kept = services.iter().filter(|service| has_finalizer(service));
    let (ours, others): (Vec<&Service>, Vec<&Service>) = kept.partition(|service| is_known_here(service));
    let (all, stuck) = (ours.len(), ours.iter().filter(|service| is_deleting(service)).count());
    if judge.led == Led::Unseen && !ours.is_empty() {
        let found = format!(
            "no host is seen to lead (see leases), and without one nobody removes the finalizer service.kubernetes.io/load-balancer-cleanup: {stuck} of {all} Services are being deleted"
        );
        let fix = "first do what leases says: hosts without election, or under another Lease, may work, and are not to be started once more; to remove wasm-ccm for good, follow docs/guides/remove.md";
        findings.push(check.unjudged(found, fix).about(ours.iter().map(|service| name(service))));
    }
    if judge.led == Led::No && !ours.is_empty() {
        let others = if stuck < all { "; the others will get stuck when you delete them" } else { "" };
        let found = format!(
            "no host leads, so nobody removes the finalizer service.kubernetes.io/load-balancer-cleanup: {stuck} of {all} Services are stuck in deletion{others}"
        );
        let fix = "start a host without --dry-run, or take that flag away from the one that runs: it deletes the load balancers of Services that are being deleted or are no longer of type LoadBalancer, and keeps all others; to remove wasm-ccm for good, follow docs/guides/remove.md";
        findings.push(check.wrong(found, fix).about(ours.iter().map(|service| name(service))));
    }
    let stuck: Vec<String> =
        others.iter().filter(|service| is_deleting(service)).map(|service| name(service)).collect();
    if !stuck.is_empty() {
        let found = "waits in its deletion for the finalizer service.kubernetes.io/load-balancer-cleanup, and nothing on it says that wasm-ccm has worked on it: another manager uses the same finalizer";
        let fix = "see whether the manager that made its load balancer runs; if there is none any more, look for the load balancer in the cloud before you take the finalizer away";
        findings.push(check.note(found, fix).about(stuck));
    }
    findings.extend(judge.nodes.and_then(|nodes| nobody_behind(services, nodes)));
    if findings.is_empty() {
        let many = services.iter().filter(|service| is_load_balancer(service)).count();
        findings.push(check.good(format!("Services of type LoadBalancer: {many}; none waits for long")));
    }
    findings
}

/// Load balancers that have nobody to send traffic to.
fn nobody_behind(services: &[Service], nodes: &[Arc<Node>]) -> Option<Finding> {
    let balanced = services.iter().filter(|service| is_load_balancer(service)).count();
    let found = format!(
        "no Node is behind the load balancers of {balanced} Services: each has the label node.kubernetes.io/exclude-from-external-load-balancers, is being deleted, or is about to be by the cluster autoscaler"
    );
    let fix = "`kubectl label nodes --all node.kubernetes.io/exclude-from-external-load-balancers-` in a cluster whose control plane is to take traffic; else add Nodes";
    let is_so = balanced > 0 && !nodes.is_empty() && cloud_backends(nodes).is_empty();
    is_so.then(|| Check::Services.wrong(found, fix))
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
        return (condition.status != "True" && !(reaction_of(reason) == Some(Reaction::Pending) && is_young))
            .then(told);
    }
    let age = service.metadata.creation_timestamp.as_ref().map(|created| judge.now.duration_since(created.0));
    let has_address = !published_addresses(service).is_empty();
    if is_deleting(service) || has_address || age.is_none_or(|age| age <= judge.patience) {
        return None;
    }
    let finding = match load_balancer_class(service).filter(|class| !judge.classes.iter().any(|known| known == class)) {
        Some(class) => {
            let found =
                format!("waits, and its class {class} is none of these providers': another manager has to serve it");
            check.note(found, "nothing, if there is such a manager; if a provider here is to serve the class, run the host and doctor with --load-balancer-class; else create the Service again without a class")
        }
        None => check.wrong("waits, and nobody has taken care of it: it has no condition LoadBalancerReady", events),
    };
    Some(finding.about([name(service)]))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::finding::Judgement;
    use super::*;

    fn service(metadata: &Value, spec: &Value, status: &Value) -> Service {
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
        serde_json::from_value(object).unwrap()
    }

    fn findings(service: Service, led: Led) -> Vec<Finding> {
        judge(
            &[service],
            &Judge {
                classes: &["mine".to_owned()],
                led,
                nodes: None,
                patience: SignedDuration::from_mins(2),
                now: "2026-11-26T10:00:00Z".parse().unwrap(),
            },
        )
    }

    fn told(service: Service, led: Led) -> Vec<String> {
        findings(service, led)
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
    fn a_service_is_stuck_with_its_finalizer_only_while_no_host_runs() {
        let (none, ready) = (json!({}), condition("True", "Ensured", ""));
        let kept = json!({ "finalizers": ["service.kubernetes.io/load-balancer-cleanup"], "deletionTimestamp": "2026-11-26T09:50:00Z" });
        let stuck = told(service(&kept, &none, &ready), Led::No);
        let wanted = "Wrong Service shop/web: no host leads, so nobody removes the finalizer service.kubernetes.io/load-balancer-cleanup: 1 of 1 Services are stuck in deletion";
        assert_eq!(stuck[0], wanted);
        for led in [Led::Yes, Led::Unknown] {
            assert!(told(service(&kept, &none, &ready), led)[0].starts_with("Good"), "{led:?}");
        }
        let free = json!({ "finalizers": ["example.com/other"] });
        assert!(told(service(&free, &none, &ready), Led::No)[0].starts_with("Good"));
    }

    /// "Start a host", it said, in a cluster where one ran without election: nothing keeps two of these apart.
    #[test]
    fn while_no_host_is_seen_to_lead_nobody_is_told_to_start_one() {
        let (none, ready) = (json!({}), condition("True", "Ensured", ""));
        for (deleted, stuck) in [(None, 0), (Some("2026-11-26T09:50:00Z"), 1)] {
            let finalizers = ["service.kubernetes.io/load-balancer-cleanup"];
            let kept = json!({ "finalizers": finalizers, "deletionTimestamp": deleted });
            let [one] = <[Finding; 1]>::try_from(findings(service(&kept, &none, &ready), Led::Unseen)).unwrap();
            assert!(one.found.starts_with("no host is seen to lead (see leases), and without one"), "{}", one.found);
            assert!(one.found.ends_with(&format!(": {stuck} of 1 Services are being deleted")), "{}", one.found);
            let fix = one.fix.unwrap();
            assert!(one.judgement == Judgement::Unjudged && fix.starts_with("first do what leases says"), "{fix}");
            assert!(!fix.contains("start a host") && !fix.contains("start the host"), "{fix}");
        }
        let theirs = service(&json!({ "finalizers": ["example.com/other"] }), &none, &ready);
        assert!(told(theirs, Led::Unseen)[0].starts_with("Good"));
    }

    /// Every Service with the finalizer that all managers share once counted as one that waits for our host.
    #[test]
    fn the_finalizer_of_another_manager_is_not_ours() {
        let none = json!({});
        let kept = |deleted: Option<&str>| {
            let finalizers = ["service.kubernetes.io/load-balancer-cleanup"];
            json!({ "finalizers": finalizers, "deletionTimestamp": deleted })
        };
        let addressed = json!({ "loadBalancer": { "ingress": [{ "ip": "203.0.113.1" }] } });
        let other = json!({ "loadBalancerClass": "other" });
        assert!(told(service(&kept(None), &other, &addressed), Led::No)[0].starts_with("Good"));
        let going = told(service(&kept(Some("2026-11-26T09:50:00Z")), &other, &addressed), Led::No);
        assert!(going.len() == 1 && going[0].starts_with("Note Service shop/web: waits in its deletion"), "{going:?}");
        // The record says it, also where the condition is gone.
        let time = "2026-11-26T09:30:00Z";
        let record = json!({ "type": "LoadBalancerRecorded", "status": "True", "reason": "Ensured", "message": "", "lastTransitionTime": time });
        let recorded = json!({ "conditions": [record], "loadBalancer": addressed["loadBalancer"] });
        let stays = told(service(&kept(None), &none, &recorded), Led::No);
        let ends = ": 0 of 1 Services are stuck in deletion; the others will get stuck when you delete them";
        assert!(stays[0].ends_with(ends), "{stays:?}");
    }

    /// Whoever read it kept the host down for fear of all load balancers of the list.
    #[test]
    fn a_host_that_starts_is_said_to_delete_the_load_balancers_alone_that_are_to_go() {
        let (none, ready) = (json!({}), condition("True", "Ensured", ""));
        let kept = json!({ "finalizers": ["service.kubernetes.io/load-balancer-cleanup"] });
        let fix = findings(service(&kept, &none, &ready), Led::No).remove(0).fix.unwrap();
        assert!(fix.starts_with("start a host without --dry-run"), "{fix}");
        for part in ["of Services that are being deleted or are no longer of type LoadBalancer", "keeps all others"] {
            assert!(fix.contains(part), "{fix}");
        }
    }

    /// It was taken for a flag that a host needs.
    #[test]
    fn a_class_of_nobody_is_to_be_given_to_host_and_doctor() {
        let (none, other) = (json!({}), json!({ "loadBalancerClass": "other" }));
        let fix = findings(service(&none, &other, &none), Led::Yes).remove(0).fix.unwrap();
        assert!(fix.contains("run the host and doctor with --load-balancer-class"), "{fix}");
    }

    #[test]
    fn load_balancers_without_a_node_behind_them_are_told() {
        let node = |name: &str, is_excluded: bool| -> Arc<Node> {
            let label = is_excluded.then_some("node.kubernetes.io/exclude-from-external-load-balancers");
            let labels = label.map(|label| json!({ label: "" })).unwrap_or_default();
            Arc::new(serde_json::from_value(json!({ "metadata": { "name": name, "labels": labels } })).unwrap())
        };
        let (none, ready) = (json!({}), condition("True", "Ensured", ""));
        let balanced = [service(&none, &none, &ready)];
        for (services, nodes, is_told) in [
            (&balanced[..], vec![node("a", true), node("b", true)], true),
            (&balanced, vec![node("a", true), node("b", false)], false),
            // Nothing is known yet of a cluster without Nodes.
            (&balanced, vec![], false),
            (&[], vec![node("a", true)], false),
        ] {
            assert_eq!(nobody_behind(services, &nodes).is_some(), is_told, "{nodes:?}");
        }
    }
}
