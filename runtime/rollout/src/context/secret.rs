//! Credentials in Kubernetes Secrets, watched: a rotated one counts with the next request.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, ensure};
use ccm_apiserver::lacks_right;
use ccm_egress::config::{CredentialSource, Object, Secret};
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

/// Keys of one Secret, kept up to date as long as one of the sources lives: whoever uses two of them never gets those of two moments. Each
/// with the name of its credential.
///
/// # Errors
///
/// The API server gave no first answer, there is no such Secret, or no such key in it; with the way out.
pub(crate) async fn watched(
    client: &Client,
    namespace: &str,
    name: &str,
    keys: &[(&str, &str)],
) -> Result<Vec<(String, CredentialSource)>> {
    let shown = |key: &str| format!("secret:{namespace}/{name}/{key}");
    let Some((credential, key)) = keys.first() else { return Ok(vec![]) };
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
    let of = |credential: &str| format!("credential {credential:?}");
    let first = first.with_context(|| shown(key)).with_context(|| of(credential))?;
    let first = first.with_context(|| {
        let create = format!("kubectl create secret generic {name} --namespace {namespace} --from-file={key}=FILE");
        format!("{}: {}: the Secret does not exist; create it with `{create}`", of(credential), shown(key))
    })?;
    let newest = values_of(&first);
    for (credential, key) in keys {
        ensure!(
            newest.contains_key(*key),
            "{}: {}: the Secret has no such key, it has {:?}; add the key, or name another one",
            of(credential),
            shown(key),
            newest.keys().collect::<Vec<_>>()
        );
    }
    let (sender, object) = watch::channel(Some(Arc::new(newest)));
    // Ends when it is dropped.
    let mut keeper = JoinSet::new();
    keeper.spawn(follow(api, format!("secret:{namespace}/{name}"), name.to_owned(), sender));
    let keeper = Arc::new(keeper);
    let source = |key: &str| CredentialSource::Watched {
        name: shown(key),
        key: key.to_owned(),
        object: object.clone(),
        keeper: Arc::<JoinSet<()>>::clone(&keeper),
    };
    Ok(keys.iter().map(|(credential, key)| ((*credential).to_owned(), source(key))).collect())
}

async fn follow(api: Api<v1::Secret>, shown: String, name: String, object: watch::Sender<Object>) {
    let mut changes = std::pin::pin!(watcher::watch_object(api, &name).default_backoff());
    while let Some(change) = changes.next().await {
        match change {
            Ok(secret) => {
                object.send_replace(secret.as_ref().map(|secret| Arc::new(values_of(secret))));
            }
            Err(error) => {
                let error = ccm_apiserver::causes(&error);
                tracing::warn!(source = shown, error, "cannot watch the Secret, a change of it is not seen; {RIGHTS}");
            }
        }
    }
}

/// Without a line end, which `kubectl create secret --from-file` leaves in.
fn values_of(secret: &v1::Secret) -> BTreeMap<String, Secret> {
    let value = |bytes: &[u8]| {
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        Secret::new(bytes.strip_suffix(b"\r").unwrap_or(bytes).to_vec())
    };
    secret.data.iter().flatten().map(|(key, bytes)| (key.clone(), value(&bytes.0))).collect()
}
