//! Credentials in Kubernetes Secrets, watched: a rotated one counts with the next request.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use ccm_apiserver::lacks_right;
use ccm_egress::config::{CredentialSource, Secret};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// How long the first answer is waited for.
const FIRST_ANSWER: Duration = Duration::from_secs(30);

/// What the host needs, and where it is written down.
const RIGHTS: &str =
    "the manager needs the right to get, list and watch it (manifests/optional/credential-secret.yaml)";

/// One key of a Secret, kept up to date as long as the source lives.
///
/// # Errors
///
/// The API server gave no first answer, there is no such Secret, or no such key in it; with the way out.
pub(crate) async fn watched(client: &Client, namespace: &str, name: &str, key: &str) -> Result<CredentialSource> {
    let shown = format!("secret:{namespace}/{name}/{key}");
    let api: Api<v1::Secret> = Api::namespaced(client.clone(), namespace);
    let first = tokio::time::timeout(FIRST_ANSWER, api.get_opt(name)).await;
    let first =
        first.map_err(|_elapsed| anyhow!("no answer of the API server within {FIRST_ANSWER:?}")).and_then(|answer| {
            answer.map_err(|error| {
                let way_out = match &error {
                    kube::Error::Api(status) if lacks_right(status) => format!("; {RIGHTS}"),
                    _ => String::new(),
                };
                anyhow!("the API server did not give it: {}{way_out}", ccm_apiserver::api_error_text(&error))
            })
        });
    let first = first.with_context(|| shown.clone())?;
    let first = first.ok_or_else(|| {
        let create = format!("kubectl create secret generic {name} --namespace {namespace} --from-file={key}=FILE");
        anyhow!("{shown}: the Secret does not exist; create it with `{create}`")
    })?;
    let newest = value_of(&first, key).ok_or_else(|| {
        let keys: Vec<&String> = first.data.iter().flat_map(|data| data.keys()).collect();
        anyhow!("{shown}: the Secret has no such key, it has {keys:?}; add the key, or name another one")
    })?;
    let (sender, value) = watch::channel(Some(newest));
    // Ends when it is dropped.
    let mut keeper = JoinSet::new();
    keeper.spawn(follow(api, shown.clone(), name.to_owned(), key.to_owned(), sender));
    Ok(CredentialSource::Watched { name: shown, value, keeper: Arc::new(keeper) })
}

async fn follow(api: Api<v1::Secret>, shown: String, name: String, key: String, value: watch::Sender<Option<Secret>>) {
    let mut changes = std::pin::pin!(watcher::watch_object(api, &name).default_backoff());
    while let Some(change) = changes.next().await {
        match change {
            Ok(secret) => {
                value.send_replace(secret.as_ref().and_then(|secret| value_of(secret, &key)));
            }
            Err(error) => {
                let error = ccm_apiserver::causes(&error);
                tracing::warn!(source = shown, error, "cannot watch the Secret, a change of it is not seen; {RIGHTS}");
            }
        }
    }
}

/// Without a line end, which `kubectl create secret --from-file` leaves in.
fn value_of(secret: &v1::Secret, key: &str) -> Option<Secret> {
    let bytes = &secret.data.as_ref()?.get(key)?.0;
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    Some(Secret::new(bytes.strip_suffix(b"\r").unwrap_or(bytes).to_vec()))
}
