//! Credentials in Kubernetes Secrets, watched: a rotated one counts with the next request.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, ensure};
use ccm_apiserver::{Away, lacks_right, observed};
use ccm_egress::config::{CredentialSource, Object, Secret};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::source::delays;

/// How long the first answer is waited for.
const FIRST_ANSWER: Duration = Duration::from_secs(30);

/// What the host needs, and where it is written down.
const RIGHTS: &str =
    "the manager needs the right to get, list and watch it (manifests/optional/credential-secret.yaml)";

/// The way out where no right is missing.
const WAY: &str = "check the API server and the way to it";

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
    let newest = Arc::new(newest);
    let (sender, object) = watch::channel(Object::Is(Arc::clone(&newest)));
    // Ends when it is dropped.
    let mut keeper = JoinSet::new();
    let followed =
        Followed { namespace: namespace.to_owned(), name: name.to_owned(), newest: Some(newest), object: sender };
    keeper.spawn(followed.run(client.clone()));
    let keeper = Arc::new(keeper);
    let source = |key: &str| CredentialSource::Watched {
        name: shown(key),
        key: key.to_owned(),
        object: object.clone(),
        keeper: Arc::<JoinSet<()>>::clone(&keeper),
    };
    Ok(keys.iter().map(|(credential, key)| ((*credential).to_owned(), source(key))).collect())
}

/// A Secret that is watched.
struct Followed {
    namespace: String,
    name: String,
    /// As it was seen last.
    newest: Option<Arc<BTreeMap<String, Secret>>>,
    object: watch::Sender<Object>,
}

impl Followed {
    async fn run(mut self, client: Client) {
        let (client, mut observed) = observed(&client);
        let api = Api::<v1::Secret>::namespaced(client, &self.namespace);
        let watch = || watcher::watch_object(api.clone(), &self.name).backoff(delays());
        let mut changes = std::pin::pin!(watch());
        let mut is_lost = false;
        // The watch is a new one, and its list is not there yet.
        let mut is_new = false;
        loop {
            tokio::select! {
                change = changes.next() => match change {
                    Some(Ok(secret)) => {
                        self.newest = secret.map(|secret| Arc::new(values_of(&secret)));
                        is_new = false;
                    }
                    Some(Err(error)) => {
                        let source = format!("secret:{}/{}", self.namespace, self.name);
                        let way_out = if is_for_a_right(&error) { RIGHTS } else { WAY };
                        let error = ccm_apiserver::causes(&error);
                        tracing::warn!(source, error, "cannot watch the Secret, a change of it is not seen; {way_out}");
                        continue;
                    }
                    None => return,
                },
                true = observed.changed() => {}
                else => return,
            }
            let hears = observed.hears();
            let was_lost = std::mem::replace(&mut is_lost, matches!(hears, Err(Away { lacks_right: true, .. })));
            // A new one lists first. The one of before would go on where it ended, and what changed since then may be forgotten: when a right
            // is lost, and when it is given back, since a list that was allowed all the time is as old as the loss.
            if is_lost != was_lost {
                changes.set(watch());
                is_new = true;
            }
            // A value that is told as lost while the API server is only away would be told for each outage.
            let object = match (hears, &self.newest) {
                (Err(Away { why, lacks_right: true, .. }), last) => {
                    let why = format!("no change of the Secret is seen any more: {why}; {RIGHTS}").into();
                    Object::Unseen { last: last.clone(), why }
                }
                // It stays unseen until then.
                _ if is_new => continue,
                (_, Some(values)) => Object::Is(Arc::clone(values)),
                (_, None) => Object::Absent,
            };
            self.object.send_replace(object);
        }
    }
}

/// Whether it failed for a missing right: an API server that is away is no reason to look for one.
fn is_for_a_right(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => matches!(error, kube::Error::Api(status) if lacks_right(status)),
        watcher::Error::WatchError(status) => lacks_right(status),
        watcher::Error::NoResourceVersion => false,
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

#[cfg(test)]
mod tests;
