//! What the hosts are there for: to work, or to show what they would write (`--dry-run`). A dry run needs fewer rights, takes part in no
//! election, and runs beside another manager.

use k8s_openapi::api::core::v1::Pod;
use kube::Client;

use crate::ask::pods::{intended, is_dry_run, is_host};

/// The hosts as the Deployments and DaemonSets make them, since pods of the previous rollout may still be there, and those of `pods`, which live,
/// that none of them made; where the API server does not say, all that live.
pub(super) async fn hosts(client: &Client, namespace: &str, pods: Result<&[Pod], &String>) -> Vec<Pod> {
    let living = pods.unwrap_or_default();
    let mut hosts = intended(client, namespace, living).await.unwrap_or_else(|_unread| living.to_vec());
    hosts.retain(is_host);
    hosts
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Work,
    DryRun,
    /// No host can be seen.
    Unknown,
}

impl Purpose {
    /// Where one of the hosts works, all are judged by what that one needs.
    pub(super) fn of(hosts: &[Pod], is_told: bool) -> Self {
        match hosts {
            _ if is_told => Self::DryRun,
            [] => Self::Unknown,
            hosts if hosts.iter().all(is_dry_run) => Self::DryRun,
            _ => Self::Work,
        }
    }

    pub(super) fn is_dry_run(self) -> bool {
        self == Self::DryRun
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(args: &Value) -> Value {
        let container = json!({ "name": "wasm-ccm", "args": args });
        json!({ "metadata": { "labels": { "app.kubernetes.io/name": "wasm-ccm" } }, "spec": { "containers": [container] } })
    }

    /// The same as its controller makes it.
    fn made(kind: &str, pod: &Value) -> Value {
        let mut pod = pod.clone();
        pod["metadata"]["ownerReferences"] =
            json!([{ "apiVersion": "v1", "kind": kind, "name": "x", "uid": "1", "controller": true }]);
        pod
    }

    /// A workload that wants so many pods with our label.
    fn workload(replicas: Option<i32>, template: &Value) -> Value {
        let selector = json!({ "matchLabels": { "app.kubernetes.io/name": "wasm-ccm" } });
        json!({ "spec": { "replicas": replicas, "selector": selector, "template": template } })
    }

    /// What is found where these are the workloads of a kind, or the API server does not say.
    async fn found(kind: &'static str, workloads: Option<&[Value]>, pods: &[Value], is_told: bool) -> Purpose {
        let items = workloads.map(<[Value]>::to_vec);
        let answer = move |request: http::Request<kube::client::Body>| {
            let is_of_kind = request.uri().path() == format!("/apis/apps/v1/namespaces/kube-system/{kind}");
            let (status, body) = match &items {
                Some(items) if is_of_kind => (200, json!({ "metadata": {}, "items": items })),
                Some(_) => (200, json!({ "metadata": {}, "items": [] })),
                None => (403, json!({ "status": "Failure", "message": "no", "reason": "Forbidden", "code": 403 })),
            };
            let response = http::Response::builder().status(status);
            let response = response.body(kube::client::Body::from(body.to_string().into_bytes())).unwrap();
            std::future::ready(Ok::<_, std::convert::Infallible>(response))
        };
        let client = Client::new(tower::service_fn(answer), "default");
        let pods: Vec<Pod> = pods.iter().map(|pod| serde_json::from_value(pod.clone()).unwrap()).collect();
        Purpose::of(&hosts(&client, "kube-system", Ok(&pods)).await, is_told)
    }

    #[tokio::test]
    async fn what_is_installed_says_what_the_hosts_are_for_and_without_it_their_pods() {
        let (works, dry) = (pod(&json!(["run"])), pod(&json!(["run", "--dry-run"])));
        for (kind, of) in [("deployments", "ReplicaSet"), ("daemonsets", "DaemonSet")] {
            let [made_works, made_dry] = [&works, &dry].map(|pod| made(of, pod));
            for (templates, pods, wanted) in [
                (&[&dry][..], &[][..], Purpose::DryRun),
                // Of the rollout before.
                (&[&dry], &[&made_works], Purpose::DryRun),
                (&[&works], &[&made_dry], Purpose::Work),
                (&[&dry, &works], &[], Purpose::Work),
                (&[], &[&dry], Purpose::DryRun),
                (&[], &[&dry, &works], Purpose::Work),
                (&[], &[], Purpose::Unknown),
            ] {
                let workloads: Vec<Value> = templates.iter().map(|template| workload(None, template)).collect();
                let pods: Vec<Value> = pods.iter().copied().cloned().collect();
                assert_eq!(found(kind, Some(&workloads), &pods, false).await, wanted, "{kind} {templates:?} {pods:?}");
            }
        }
        assert_eq!(found("deployments", None, &[dry], false).await, Purpose::DryRun);
        assert_eq!(found("deployments", None, &[], false).await, Purpose::Unknown);
        assert_eq!(found("deployments", None, &[works], true).await, Purpose::DryRun, "the flag says it");
    }

    /// A dry run that was scaled to 0 once hid the host that works.
    #[tokio::test]
    async fn a_workload_without_pods_says_nothing_and_a_host_that_none_made_speaks_for_itself() {
        let (works, dry) = (pod(&json!(["run"])), pod(&json!(["run", "--dry-run"])));
        let mut apart = made("ReplicaSet", &works);
        apart["metadata"]["labels"] = json!({ "app": "ccm" });
        apart["spec"]["containers"][0]["image"] = json!("registry/wasm-ccm:1");
        for (replicas, template, pod, wanted) in [
            (Some(0), &dry, &works, Purpose::Work),
            (Some(0), &dry, &made("ReplicaSet", &works), Purpose::Work),
            (Some(0), &works, &made("ReplicaSet", &dry), Purpose::DryRun),
            (Some(1), &dry, &made("ReplicaSet", &works), Purpose::DryRun),
            // One that runs by hand, one of the kubelet, and one of a workload that is gone.
            (Some(1), &dry, &works, Purpose::Work),
            (Some(1), &dry, &made("Node", &works), Purpose::Work),
            (Some(1), &dry, &apart, Purpose::Work),
        ] {
            let workloads = [workload(replicas, template)];
            let pods = [pod.clone()];
            assert_eq!(found("deployments", Some(&workloads), &pods, false).await, wanted, "{workloads:?} {pods:?}");
        }
    }
}
