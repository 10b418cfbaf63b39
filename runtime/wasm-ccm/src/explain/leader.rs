//! Finds the process that leads, and asks it. Whatever does not work is told, and is no reason to stop.

use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

use anyhow::{Result, ensure};
use http::Uri;
use hyper::body::Body as _;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::client::Body;
use kube::{Api, Client, Config, ResourceExt as _};
use serde_json::Value;

use super::page::{Answer, PREFIX};
use super::target::Target;

/// For one question, the API server's included.
const PATIENCE: Duration = Duration::from_secs(10);
/// No answer is longer: it is about one object.
const MAX_ANSWER: usize = 1 << 20;
/// The label of the pods of our manifests.
const PODS: &str = "app.kubernetes.io/name=wasm-ccm";
/// The health port, where a pod does not say.
const PORT: i32 = 10_258;

/// What came of asking.
#[derive(Default)]
pub(super) struct Asked {
    /// What the leader says.
    pub(super) answer: Option<Answer>,
    /// Who was asked, where there is an answer.
    pub(super) place: Option<String>,
    /// What did not work.
    pub(super) tried: Vec<String>,
}

impl Asked {
    fn failed(tried: impl Into<String>) -> Self {
        Self { tried: vec![tried.into()], ..Self::default() }
    }

    fn of(place: String, asked: Result<Answer, String>) -> Self {
        match asked {
            Ok(answer) if answer.leads => Self { answer: Some(answer), place: Some(place), tried: vec![] },
            Ok(answer) => {
                Self::failed(format!("{place} does not lead and knows nothing of objects: {}", answer.leader))
            }
            Err(why) => Self::failed(format!("{place}: {why}")),
        }
    }
}

/// The address of a health port, as the operator writes it.
///
/// # Errors
///
/// It is none.
pub(super) fn address(text: &str) -> Result<Uri> {
    let whole = if text.contains("://") { text.to_owned() } else { format!("https://{text}") };
    let parsed: Option<Uri> = whole.parse().ok();
    let is_one = |uri: &Uri| {
        let authority = uri.authority().map(http::uri::Authority::as_str).unwrap_or_default();
        uri.scheme_str() == Some("https") && !authority.is_empty() && !authority.contains('@') && uri.path() == "/"
    };
    let uri = parsed.filter(is_one);
    // It is not repeated: somebody may have written a password.
    ensure!(
        uri.is_some(),
        "--address is no address of a health port: say https://HOST:PORT, such as https://127.0.0.1:10258"
    );
    Ok(uri.unwrap_or_default())
}

/// Asks whoever is at an address. No credential goes there.
pub(super) async fn at(address: &Uri, target: &Target) -> Asked {
    let mut config = Config::new(address.clone());
    config.accept_invalid_certs = true;
    config.default_retry = false;
    let answer = match Client::try_from(config) {
        Ok(client) => ask(&client, &format!("{PREFIX}{}", target.path())).await,
        Err(error) => Err(error.to_string()),
    };
    Asked::of(format!("the host at {address}"), answer)
}

/// Finds who holds the Lease, and asks its pod through the API server.
pub(super) async fn found(client: &Client, namespace: &str, lease: &str, target: &Target) -> Asked {
    let what = format!("the Lease {namespace}/{lease}");
    let holder = match limited(Api::<Lease>::namespaced(client.clone(), namespace).get_opt(lease)).await {
        Err(why) => return Asked::failed(format!("{what} cannot be read: {why}")),
        Ok(None) => return Asked::failed(format!("{what} does not exist: no host has led, or it has another name")),
        Ok(Some(lease)) => lease.spec.and_then(|spec| spec.holder_identity).unwrap_or_default(),
    };
    if holder.is_empty() {
        return Asked::failed(format!("nobody holds {what}: no host leads"));
    }
    let params = ListParams::default().labels(PODS);
    let pods = match limited(Api::<Pod>::namespaced(client.clone(), namespace).list(&params)).await {
        Ok(pods) => pods.items,
        Err(why) => return Asked::failed(format!("{holder} leads; the pods in {namespace} cannot be read: {why}")),
    };
    let Some((pod, port)) = pods.iter().find_map(|pod| is_holder(pod, &holder).then(|| (pod.name_any(), port(pod))))
    else {
        return Asked::failed(format!(
            "{holder} leads, and is no pod in {namespace} with the label {PODS}: say with --address where its health port is"
        ));
    };
    let path = format!("/api/v1/namespaces/{namespace}/pods/https:{pod}:{port}/proxy{PREFIX}{}", target.path());
    let mut asked = Asked::of(format!("the leader, pod {namespace}/{pod}"), ask(client, &path).await);
    if asked.answer.is_none() {
        asked.tried.push(format!(
            "to ask it nevertheless: kubectl -n {namespace} port-forward {pod} {port}, and in another terminal the same command with \
             --address=https://127.0.0.1:{port}"
        ));
    }
    asked
}

/// Whether a pod is the holder `HOSTNAME_UUID`: in the host network, the name of the host is that of the node.
fn is_holder(pod: &Pod, holder: &str) -> bool {
    let host = holder.rsplit_once('_').map_or(holder, |(host, _)| host);
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default();
    let is_node = !node.is_empty() && (node == host || node.split('.').next() == Some(host));
    !host.is_empty() && (pod.metadata.name.as_deref() == Some(host) || is_node)
}

fn port(pod: &Pod) -> i32 {
    let ports =
        pod.spec.iter().flat_map(|spec| &spec.containers).flat_map(|container| container.ports.iter().flatten());
    ports.map(|port| port.container_port).next().unwrap_or(PORT)
}

async fn limited<T>(asked: impl Future<Output = kube::Result<T>>) -> Result<T, String> {
    match tokio::time::timeout(PATIENCE, asked).await {
        Ok(answer) => answer.map_err(|error| ccm_apiserver::api_error_text(&error)),
        Err(_elapsed) => Err(format!("no answer within {PATIENCE:?}")),
    }
}

async fn ask(client: &Client, path: &str) -> Result<Answer, String> {
    let request = http::Request::get(path).body(Body::empty()).map_err(|error| error.to_string())?;
    let asking = async {
        let response = client.send(request).await.map_err(|error| ccm_apiserver::causes(&error))?;
        let status = response.status();
        Ok::<_, String>((status, whole(response.into_body()).await?))
    };
    let asked = tokio::time::timeout(PATIENCE, asking).await;
    let (status, body) = asked.unwrap_or_else(|_elapsed| Err(format!("no answer within {PATIENCE:?}")))?;
    if !status.is_success() {
        let told = serde_json::from_slice::<Value>(&body).ok();
        let message = told.as_ref().and_then(|told| told["message"].as_str()).unwrap_or_default();
        let way_out = match status.as_u16() {
            401 | 403 => ": your user needs the right to get pods/proxy, or say --address",
            404 => ": an older version has no such page",
            _ => "",
        };
        let message = super::text::line(message);
        return Err(format!("it answers {status}{}{message}{way_out}", if message.is_empty() { "" } else { ": " }));
    }
    serde_json::from_slice(&body).map_err(|_garbage| "it answers something else than an explanation".to_owned())
}

/// A body, as far as it is no longer than an answer can be.
async fn whole(mut body: Body) -> Result<Vec<u8>, String> {
    let mut bytes = vec![];
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let frame = frame.map_err(|error| error.to_string())?;
        if let Some(data) = frame.data_ref() {
            if bytes.len() + data.len() > MAX_ANSWER {
                return Err(format!("its answer is longer than {MAX_ANSWER} bytes"));
            }
            bytes.extend_from_slice(data);
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests;
