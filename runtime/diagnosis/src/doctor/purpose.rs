//! What the hosts are there for: to work, or to show what they would write (`--dry-run`). A dry run needs fewer rights, takes part in no
//! election, and runs beside another manager.

use k8s_openapi::api::core::v1::Pod;
use kube::Client;

use crate::ask::pods::{intended, is_dry_run, is_host};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Work,
    DryRun,
    /// No host can be seen.
    Unknown,
}

impl Purpose {
    /// By what the Deployments and DaemonSets say: pods of the previous rollout may still be there. Without any, by `pods`, those that live.
    pub(super) async fn find(client: &Client, namespace: &str, pods: Result<&[Pod], &String>, is_told: bool) -> Self {
        if is_told {
            return Self::DryRun;
        }
        let intended = intended(client, namespace).await.unwrap_or_default();
        match Self::of(&intended) {
            Self::Unknown => Self::of(pods.unwrap_or_default()),
            known => known,
        }
    }

    /// Where one of them works, all are judged by what that one needs.
    fn of(pods: &[Pod]) -> Self {
        let hosts: Vec<&Pod> = pods.iter().filter(|pod| is_host(pod)).collect();
        match hosts.as_slice() {
            [] => Self::Unknown,
            hosts if hosts.iter().all(|host| is_dry_run(host)) => Self::DryRun,
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

    /// What is found where these are the templates of a kind of workloads, or the API server does not say.
    async fn found(kind: &'static str, templates: Option<&[Value]>, pods: &[Value], is_told: bool) -> Purpose {
        let items =
            templates.map(|all| all.iter().map(|one| json!({ "spec": { "template": one } })).collect::<Vec<_>>());
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
        Purpose::find(&client, "kube-system", Ok(&pods), is_told).await
    }

    #[tokio::test]
    async fn what_is_installed_says_what_the_hosts_are_for_and_without_it_their_pods() {
        let (works, dry) = (pod(&json!(["run"])), pod(&json!(["run", "--dry-run"])));
        for kind in ["deployments", "daemonsets"] {
            for (templates, pods, wanted) in [
                (&[&dry][..], &[][..], Purpose::DryRun),
                // Of the rollout before.
                (&[&dry], &[&works], Purpose::DryRun),
                (&[&works], &[&dry], Purpose::Work),
                (&[&dry, &works], &[], Purpose::Work),
                (&[], &[&dry], Purpose::DryRun),
                (&[], &[&dry, &works], Purpose::Work),
                (&[], &[], Purpose::Unknown),
            ] {
                let [templates, pods] = [templates, pods].map(|all| all.iter().copied().cloned().collect::<Vec<_>>());
                assert_eq!(found(kind, Some(&templates), &pods, false).await, wanted, "{kind} {templates:?} {pods:?}");
            }
        }
        assert_eq!(found("deployments", None, &[dry], false).await, Purpose::DryRun);
        assert_eq!(found("deployments", None, &[], false).await, Purpose::Unknown);
        assert_eq!(found("deployments", None, &[works], true).await, Purpose::DryRun, "the flag says it");
    }
}
