//! Who takes care of the cluster's Services and Nodes now.

use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use serde::Serialize;

use crate::ask::lease::{self, Standing};
use crate::ask::pods;

/// Who does the work of a cloud controller manager.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Manager {
    /// A host of wasm-ccm. It can clean up after itself.
    Host,
    /// Nobody: who did it died.
    Nobody,
    /// Nobody that is seen: no host has the Lease, and none runs in a pod. One without election, or of another Lease, may run elsewhere.
    Unseen,
    /// The program of this name. What all managers share is its own now.
    Other(String),
    /// It could not be read.
    Unknown,
}

/// By the Lease first: during a migration, pods of both may be there.
pub(super) async fn find(client: &Client, namespace: &str, name: &str) -> Manager {
    let (standing, pods) = tokio::join!(lease::watch(client, namespace, name), pods::living(client, namespace));
    judge(standing, pods.map(|pods| pods.iter().any(works)))
}

/// Whether it is a host that cleans up after itself: a dry run writes nothing.
fn works(pod: &Pod) -> bool {
    pods::is_host(pod) && !pods::is_dry_run(pod)
}

/// `is_there`: whether a pod of a host lives.
fn judge(standing: Result<Option<Standing>, String>, is_there: Result<bool, String>) -> Manager {
    match (standing, is_there) {
        (Ok(Some(Standing::Held(hold))), _) => match hold.stranger() {
            Some(program) => Manager::Other(program.to_owned()),
            None => Manager::Host,
        },
        (_, Ok(true)) => Manager::Host,
        (Ok(Some(Standing::Expired(_))), Ok(false)) => Manager::Nobody,
        (Ok(None | Some(Standing::Free)), Ok(false)) => Manager::Unseen,
        _ => Manager::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::ask::lease::Hold;

    fn no<T>() -> Result<T, String> {
        Err("forbidden".to_owned())
    }

    /// Beside a dry run, nobody gave up a load balancer that was marked, and the plan waited for that for ever.
    #[tokio::test]
    async fn a_dry_run_cleans_nothing_up() {
        for (args, wanted) in [
            (json!([]), Manager::Host),
            (json!(["run", "--provider=a.wasm"]), Manager::Host),
            (json!(["run", "--dry-run-not"]), Manager::Host),
            (json!(["run", "--dry-run=false"]), Manager::Host),
            (json!(["run", "--dry-run", "--v=4"]), Manager::Unseen),
        ] {
            let pod = json!({
                "metadata": { "name": "ccm-a", "labels": { "app.kubernetes.io/name": "wasm-ccm" } },
                "spec": { "containers": [{ "name": "wasm-ccm", "args": args }] },
            });
            let answer = move |request: http::Request<kube::client::Body>| {
                let is_pods = request.uri().path().ends_with("/pods");
                let (status, body) = if is_pods {
                    (200, json!({ "metadata": {}, "items": [pod] }))
                } else {
                    (404, json!({ "kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404 }))
                };
                let response = http::Response::builder().status(status);
                let response = response.body(kube::client::Body::from(body.to_string().into_bytes()));
                std::future::ready(response)
            };
            let client = Client::new(tower::service_fn(answer), "default");
            assert_eq!(find(&client, "kube-system", "ccm").await, wanted, "{args}");
        }
    }

    #[test]
    fn who_holds_the_lease_does_the_work_and_without_a_holder_a_pod_that_lives() {
        let hold = |writer: Option<&str>| Hold {
            holder: "n_1".to_owned(),
            renewed: None,
            promised: Duration::from_secs(15),
            writer: writer.map(ToOwned::to_owned),
        };
        let other = Manager::Other("go-ccm".to_owned());
        for (standing, is_there, wanted) in [
            (Ok(Some(Standing::Held(hold(Some("wasm-ccm"))))), Ok(false), Manager::Host),
            (Ok(Some(Standing::Held(hold(None)))), no(), Manager::Host),
            // A pod of ours that stands by.
            (Ok(Some(Standing::Held(hold(Some("go-ccm"))))), Ok(true), other),
            (Ok(Some(Standing::Free)), Ok(true), Manager::Host),
            (no(), Ok(true), Manager::Host),
            // A host without election, or of another Lease, that runs outside of pods.
            (Ok(None), Ok(false), Manager::Unseen),
            (Ok(Some(Standing::Free)), Ok(false), Manager::Unseen),
            (Ok(Some(Standing::Expired(hold(Some("go-ccm"))))), Ok(false), Manager::Nobody),
            // Nobody waited long enough to say so.
            (Ok(Some(Standing::Unmoved(hold(None)))), Ok(false), Manager::Unknown),
            (Ok(None), no(), Manager::Unknown),
            (no(), Ok(false), Manager::Unknown),
        ] {
            let shown = format!("{standing:?} {is_there:?}");
            assert_eq!(judge(standing, is_there), wanted, "{shown}");
        }
    }
}
