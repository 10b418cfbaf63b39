//! Credentials in Kubernetes Secrets, watched: a rotated one counts with the next request.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use ccm_egress::credentials::CredentialSource;
use ccm_egress::secret::Secret;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

/// How long the first answer is waited for.
const FIRST_ANSWER: Duration = Duration::from_secs(30);

/// One key of a Secret, kept up to date as long as the source lives. A Secret that is not there has no value; so has a key
/// that it does not hold.
///
/// # Errors
///
/// The API server gave no first answer.
pub(crate) async fn watched(client: &Client, namespace: &str, name: &str, key: &str) -> Result<CredentialSource> {
    let shown = format!("secret:{namespace}/{name}/{key}");
    let api: Api<v1::Secret> = Api::namespaced(client.clone(), namespace);
    let (sender, mut value) = watch::channel(None);
    let first = tokio::time::timeout(FIRST_ANSWER, api.get_opt(name)).await;
    let first = first.map_err(|_| anyhow!("no answer of the API server within {FIRST_ANSWER:?}")).and_then(|answer| {
        answer.map_err(|error| {
            anyhow!("{}; the manager needs the right to get, list and watch it", crate::api::tell(&error))
        })
    });
    let first = first.with_context(|| shown.clone())?;
    sender.send_replace(first.as_ref().and_then(|secret| value_of(secret, key)));
    value.mark_unchanged();
    let task = tokio::spawn(follow(api, name.to_owned(), key.to_owned(), sender));
    Ok(CredentialSource::Watched { name: shown, value, keeper: Arc::new(AbortOnDropHandle::new(task)) })
}

async fn follow(api: Api<v1::Secret>, name: String, key: String, value: watch::Sender<Option<Secret>>) {
    let mut changes = std::pin::pin!(watcher::watch_object(api, &name).default_backoff());
    while let Some(change) = changes.next().await {
        match change {
            Ok(secret) => {
                value.send_replace(secret.as_ref().and_then(|secret| value_of(secret, &key)));
            }
            Err(error) => {
                tracing::warn!(secret = name, error = ccm_controllers::causes(&error), "cannot watch the Secret");
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
