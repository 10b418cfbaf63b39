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
        let mut changes = std::pin::pin!(watcher::watch_object(api, &self.name).default_backoff());
        loop {
            tokio::select! {
                change = changes.next() => match change {
                    Some(Ok(Some(secret))) => self.newest = Some(Arc::new(values_of(&secret))),
                    Some(Ok(None)) => self.newest = None,
                    Some(Err(error)) => {
                        let source = format!("secret:{}/{}", self.namespace, self.name);
                        let error = ccm_apiserver::causes(&error);
                        tracing::warn!(source, error, "cannot watch the Secret, a change of it is not seen; {RIGHTS}");
                        continue;
                    }
                    None => return,
                },
                true = observed.changed() => {}
                else => return,
            }
            // A value that is told as lost while the API server is only away would be told for each outage.
            let object = match (observed.hears(), &self.newest) {
                (Err(Away { why, lacks_right: true, .. }), last) => {
                    let why = format!("no change of the Secret is seen any more: {why}; {RIGHTS}").into();
                    Object::Unseen { last: last.clone(), why }
                }
                (_, Some(values)) => Object::Is(Arc::clone(values)),
                (_, None) => Object::Absent,
            };
            self.object.send_replace(object);
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

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::prelude::BASE64_STANDARD;
    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;

    fn secret(token: &str) -> Value {
        let data = json!({ "token": BASE64_STANDARD.encode(token) });
        json!({ "metadata": { "name": "cloud", "namespace": "kube-system", "resourceVersion": "7" }, "data": data })
    }

    /// What was read last stays in use for good, and nothing but a line in the log said that no rotation would be seen.
    #[tokio::test(start_paused = true)]
    async fn a_right_that_is_lost_is_told_of_the_source_until_it_is_given_again() {
        let is_granted = watch::Sender::new(true);
        let granted = is_granted.subscribe();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (is_granted, query) = (*granted.borrow(), request.uri().query().unwrap_or_default().to_owned());
            async move {
                let message = "secrets \"cloud\" is forbidden: User \"ccm\" cannot watch resource \"secrets\"";
                let refused = json!({ "kind": "Status", "code": 403, "reason": "Forbidden", "message": message });
                let (code, body) = match query.as_str() {
                    _ if !is_granted => (403, refused.to_string()),
                    // Its time is up.
                    watch if watch.contains("watch=") => {
                        tokio::time::sleep(Duration::from_secs(10)).await;
                        (200, String::new())
                    }
                    list if list.contains("fieldSelector") => {
                        let list = json!({ "metadata": { "resourceVersion": "7" }, "items": [secret("value-one")] });
                        (200, list.to_string())
                    }
                    _ => (200, secret("value-one").to_string()),
                };
                Response::builder().status(code).body(Body::from(body.into_bytes()))
            }
        });
        let client = Client::new(service, "default");
        let sources = watched(&client, "kube-system", "cloud", &[("token", "token")]).await.unwrap();
        let [(_, source)] = sources.as_slice() else { panic!("one source") };
        let reads = async |seconds: u64| {
            for second in 0..seconds {
                tokio::time::sleep(Duration::from_secs(1)).await;
                let value = source.read().unwrap_or_else(|error| panic!("after {second} s: {error}"));
                assert_eq!(value.unwrap().expose(), b"value-one");
                assert_eq!(source.unseen(), None, "after {second} s");
            }
        };
        reads(600).await;
        is_granted.send_replace(false);
        reads(ccm_apiserver::GRACE.as_secs() - 1).await;
        tokio::time::sleep(Duration::from_secs(15)).await;
        let told = source.unseen().unwrap();
        let parts = ["secret:kube-system/cloud/token", "cannot watch resource \"secrets\"", RIGHTS];
        assert!(parts.iter().all(|part| told.contains(part)), "{told}");
        let kept = source.read().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(kept.unwrap().expose(), b"value-one", "it is what there is");
        is_granted.send_replace(true);
        // The longest pause between two tries.
        tokio::time::sleep(Duration::from_secs(61)).await;
        reads(60).await;
    }
}
