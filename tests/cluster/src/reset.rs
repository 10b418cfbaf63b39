//! Takes back all that somebody did to a running control plane: etcd holds afterwards what it held after the start, and the API
//! server has seen that. A start costs two seconds of computing, this some hundredths of one.
//!
//! It works below the API: finalizers, namespaces that end, and admission keep nobody from it. What is reset is what [`PATHS`] lists;
//! a control plane in which there is anything else cannot be reset.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;
use kube::Client;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::UnixStream;

/// All keys of the API server.
const ALL: [&str; 2] = ["/registry/", "/registry0"];
/// Most operations of one transaction; etcd allows 128.
const BATCH: usize = 100;
/// Until nothing is left to take back: somebody who was killed may have been writing.
const ROUNDS: usize = 5;
/// The API server sees a change of etcd at once, or within a tenth of a second.
const SEEN: Duration = Duration::from_secs(20);
/// The API server makes its own Service a moment after it is ready; two cores that start several of them need far more.
const MADE: Duration = Duration::from_secs(120);

/// The Service of the API server itself.
const OWN_SERVICE: &str = "/registry/services/specs/default/kubernetes";

/// What the API server writes by itself while it runs.
const ALIVE: [&str; 8] = [
    "/registry/apiregistration.k8s.io/",
    "/registry/configmaps/kube-system/extension-apiserver-authentication",
    "/registry/configmaps/kube-system/kube-apiserver-",
    "/registry/flowschemas/",
    "/registry/leases/kube-system/apiserver-",
    "/registry/masterleases/",
    "/registry/peerserverleases/",
    "/registry/prioritylevelconfigurations/",
];
/// What it makes once, perhaps a moment after it is ready.
const BOOT: [&str; 11] = [
    "/registry/clusterrolebindings/system:",
    "/registry/clusterroles/system:",
    "/registry/endpointslices/default/kubernetes",
    "/registry/ipaddresses/10.96.0.1\n",
    "/registry/namespaces/default\n",
    "/registry/namespaces/kube-",
    "/registry/priorityclasses/system-",
    "/registry/ranges/",
    "/registry/servicecidrs/kubernetes\n",
    "/registry/services/endpoints/default/kubernetes\n",
    "/registry/services/specs/default/kubernetes\n",
];
/// Where in etcd, and where in the API, what tests write is.
const PATHS: [(&str, &str); 22] = [
    ("/registry/clusterrolebindings/", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"),
    ("/registry/clusterroles/", "/apis/rbac.authorization.k8s.io/v1/clusterroles"),
    ("/registry/configmaps/", "/api/v1/configmaps"),
    ("/registry/deployments/", "/apis/apps/v1/deployments"),
    ("/registry/endpointslices/", "/apis/discovery.k8s.io/v1/endpointslices"),
    ("/registry/events/", "/api/v1/events"),
    ("/registry/ipaddresses/", "/apis/networking.k8s.io/v1/ipaddresses"),
    ("/registry/leases/", "/apis/coordination.k8s.io/v1/leases"),
    ("/registry/minions/", "/api/v1/nodes"),
    ("/registry/namespaces/", "/api/v1/namespaces"),
    ("/registry/poddisruptionbudgets/", "/apis/policy/v1/poddisruptionbudgets"),
    ("/registry/pods/", "/api/v1/pods"),
    ("/registry/priorityclasses/", "/apis/scheduling.k8s.io/v1/priorityclasses"),
    ("/registry/ranges/", "/api/v1/services"),
    ("/registry/rolebindings/", "/apis/rbac.authorization.k8s.io/v1/rolebindings"),
    ("/registry/roles/", "/apis/rbac.authorization.k8s.io/v1/roles"),
    ("/registry/secrets/", "/api/v1/secrets"),
    ("/registry/serviceaccounts/", "/api/v1/serviceaccounts"),
    ("/registry/services/endpoints/", "/api/v1/endpoints"),
    ("/registry/services/specs/", "/api/v1/services"),
    ("/registry/validatingadmissionpolicies/", "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"),
    (
        "/registry/validatingadmissionpolicybindings/",
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
    ),
];

/// Whether one of `beginnings` is that of the key; a line break says that the key ends there.
fn begins(key: &str, beginnings: &[&str]) -> bool {
    let whole = format!("{key}\n");
    beginnings.iter().any(|beginning| whole.starts_with(beginning))
}

/// One key of etcd. Bytes are in base64, as its gateway has them.
#[derive(Deserialize)]
struct Pair {
    key: String,
    #[serde(default)]
    value: String,
    mod_revision: String,
}

#[derive(Deserialize)]
struct Answer {
    header: Header,
    #[serde(default)]
    kvs: Vec<Pair>,
}

#[derive(Deserialize)]
struct Header {
    revision: String,
}

/// What etcd held when the API server was ready: values and revisions by key.
#[derive(Debug)]
pub(crate) struct Origin {
    socket: PathBuf,
    held: BTreeMap<String, (String, String)>,
}

impl Origin {
    /// As it is when the API server has made its own Service, the last thing that it makes; `socket` is that of etcd.
    pub(crate) async fn now(socket: PathBuf) -> Result<Self> {
        let complete = async {
            loop {
                let pairs = range(&socket, false).await?;
                let held = pairs.into_iter().map(|pair| Ok((decoded(&pair.key)?, (pair.value, pair.mod_revision))));
                let held: BTreeMap<String, (String, String)> = held.collect::<Result<_>>()?;
                if held.contains_key(OWN_SERVICE) {
                    return anyhow::Ok(held);
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let held =
            tokio::time::timeout(MADE, complete).await.with_context(|| format!("there is no {OWN_SERVICE}"))??;
        Ok(Self { held, socket })
    }

    /// Makes it so again, and waits until the API server knows it.
    pub(crate) async fn restore(&mut self, client: &Client) -> Result<()> {
        let mut touched = BTreeSet::new();
        let mut revision = String::new();
        for _ in 0..ROUNDS {
            let changes = self.changes().await?;
            if changes.is_empty() {
                return until_seen(client, &touched, &revision).await;
            }
            for key in changes.keys() {
                let Some((_, path)) = PATHS.iter().find(|(prefix, _)| key.starts_with(prefix)) else {
                    bail!("{key} cannot be taken back");
                };
                touched.insert(*path);
            }
            let operations: Vec<Value> = changes.values().cloned().collect();
            for operations in operations.chunks(BATCH) {
                revision = ask(&self.socket, "txn", &json!({ "success": operations })).await?.header.revision;
            }
            // Only what was put back has another revision now.
            for pair in range(&self.socket, true).await? {
                let key = decoded(&pair.key)?;
                if changes.contains_key(&key)
                    && let Some((_, known)) = self.held.get_mut(&key)
                {
                    *known = pair.mod_revision;
                }
            }
        }
        bail!("somebody still writes")
    }

    /// What has to be done, by key.
    async fn changes(&self) -> Result<BTreeMap<String, Value>> {
        let mut found = BTreeMap::new();
        for pair in range(&self.socket, true).await? {
            found.insert(decoded(&pair.key)?, pair.mod_revision);
        }
        let mut changes = BTreeMap::new();
        for key in found.keys().filter(|key| !self.held.contains_key(*key)) {
            if !begins(key, &ALIVE) && !begins(key, &BOOT) {
                changes.insert(key.clone(), json!({ "request_delete_range": { "key": STANDARD.encode(key) } }));
            }
        }
        for (key, (value, revision)) in &self.held {
            if !begins(key, &ALIVE) && found.get(key) != Some(revision) {
                let put = json!({ "request_put": { "key": STANDARD.encode(key), "value": value } });
                changes.insert(key.clone(), put);
            }
        }
        Ok(changes)
    }
}

/// Waits until the caches of the API server are not older than `revision`.
async fn until_seen(client: &Client, paths: &BTreeSet<&str>, revision: &str) -> Result<()> {
    for path in paths {
        let uri = format!("{path}?resourceVersion={revision}&resourceVersionMatch=NotOlderThan");
        let seen = async {
            // It gives up after three seconds.
            while client.request_text(http::Request::get(&uri).body(Vec::new())?).await.is_err() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            anyhow::Ok(())
        };
        tokio::time::timeout(SEEN, seen).await.with_context(|| format!("{path} is older than {revision}"))??;
    }
    Ok(())
}

fn decoded(key: &str) -> Result<String> {
    Ok(String::from_utf8(STANDARD.decode(key)?)?)
}

async fn range(socket: &PathBuf, keys_only: bool) -> Result<Vec<Pair>> {
    let [from, to] = ALL.map(|key| STANDARD.encode(key));
    Ok(ask(socket, "range", &json!({ "key": from, "range_end": to, "keys_only": keys_only })).await?.kvs)
}

/// One request to the gateway of etcd, which speaks JSON over HTTP.
async fn ask(socket: &PathBuf, method: &str, request: &Value) -> Result<Answer> {
    let stream = UnixStream::connect(socket).await.with_context(|| format!("connect to {}", socket.display()))?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let request = http::Request::post(format!("/v3/kv/{method}"))
        .header("host", "etcd")
        .body(Full::new(Bytes::from(request.to_string())))?;
    let exchange = async {
        let answer = sender.send_request(request).await?;
        let status = answer.status();
        let body = answer.into_body().collect().await?.to_bytes();
        ensure!(status.is_success(), "etcd answers {status}: {}", String::from_utf8_lossy(&body));
        Ok(serde_json::from_slice(&body)?)
    };
    tokio::select! {
        answer = exchange => answer,
        Err(error) = connection => Err(error.into()),
    }
}
