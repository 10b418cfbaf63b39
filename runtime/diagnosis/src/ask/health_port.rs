//! Pages of the health port of a host, at an address or through the proxy of the API server.
//!
//! Where the port wants a token, one is made for [`READER`]: for ten minutes, and for the host alone. The proxy of the API server takes
//! the user's own away, and neither it nor this program verifies the certificate of the host: a token of the user's could do everything that
//! the user may, for whoever has the port.

use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

use anyhow::{Result, ensure};
use ccm_serving::access::{AUDIENCE, CHALLENGE, TOKEN_HEADER};
use http::header::WWW_AUTHENTICATE;
use http::{HeaderValue, StatusCode, Uri};
use hyper::body::Body as _;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::PostParams;
use kube::client::Body;
use kube::{Api, Client, Config};
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::api_server::answered;
use super::series::Picker;
use crate::plain::one_line;

/// For one question, the API server's included.
const PATIENCE: Duration = Duration::from_secs(10);
/// Of a refusal, so many bytes are told, in words or in JSON.
const MAX_REFUSAL: usize = 500;
/// The ServiceAccount of our manifests that may read the health port and nothing else.
const READER: &str = "wasm-ccm-reader";
/// How long its tokens live, in seconds: the shortest time that the API server allows.
const TOKEN_SECONDS: i64 = 600;
/// No answer that is kept is longer.
pub(crate) const MAX_ANSWER: usize = 1 << 20;
/// No more is read of a page of metrics. A histogram for each of 5,000 Nodes and 10,000 Services, with 13 lines of 200 bytes, is 39 MB.
pub(crate) const MAX_METRICS: usize = 64 << 20;
/// For a page of metrics, once it has begun.
const PATIENCE_WITH_METRICS: Duration = Duration::from_secs(60);

/// The address of a health port, as the operator writes it.
///
/// # Errors
///
/// It is none.
pub fn address(text: &str) -> Result<Uri> {
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

/// A client of whoever is at an address. It verifies nothing.
///
/// # Errors
///
/// There is no TLS here.
pub(crate) fn client_of(address: &Uri) -> Result<Client, String> {
    let mut config = Config::new(address.clone());
    config.accept_invalid_certs = true;
    config.default_retry = false;
    Client::try_from(config).map_err(|error| error.to_string())
}

/// An answer, whoever gives it.
struct Told {
    status: StatusCode,
    /// The host wants a token. Otherwise it may be the API server who refuses.
    is_challenge: bool,
    body: Vec<u8>,
    /// What of a page of metrics was not read.
    unread: Option<String>,
}

/// A page of a host. `cluster`, with the namespace of the host, makes a token where one is wanted.
///
/// # Errors
///
/// It does not answer, or refuses: why, with the way out.
pub(crate) async fn page(client: &Client, path: &str, cluster: Option<(&Client, &str)>) -> Result<Vec<u8>, String> {
    asked(client, path, cluster, None::<Picked<'_, fn(&str)>>).await.map(|told| told.body)
}

/// Gives the series of the metrics `names` to `take`, each as its line. Returns what of the page was not read.
///
/// # Errors
///
/// As of [`page`].
pub(crate) async fn series(
    client: &Client,
    path: &str,
    cluster: Option<(&Client, &str)>,
    names: &[&str],
    take: impl FnMut(&str),
) -> Result<Option<String>, String> {
    asked(client, path, cluster, Some(Picked { names, take })).await.map(|told| told.unread)
}

/// What of a page is wanted, and who gets it.
struct Picked<'a, F> {
    names: &'a [&'a str],
    take: F,
}

async fn asked<F: FnMut(&str)>(
    client: &Client,
    path: &str,
    cluster: Option<(&Client, &str)>,
    mut wanted: Option<Picked<'_, F>>,
) -> Result<Told, String> {
    let mut told = get(client, path, None, &mut wanted).await?;
    let mut is_hosts = false;
    if told.is_challenge {
        let (client_of_api_server, namespace) = cluster.ok_or(
            "it wants a token, and without the API server there is none: say with --kubeconfig how to reach that",
        )?;
        let token = token(client_of_api_server, namespace).await?;
        told = get(client, path, Some(token), &mut wanted).await?;
        is_hosts = true;
    }
    let Told { status, ref body, .. } = told;
    if !status.is_success() {
        let json = serde_json::from_slice::<Value>(body).ok();
        // The host answers in words, the API server in JSON.
        let words = String::from_utf8_lossy(body.get(..body.len().min(MAX_REFUSAL)).unwrap_or_default());
        let message = match &json {
            Some(json) => {
                let message = json["message"].as_str().unwrap_or_default();
                message.get(..message.floor_char_boundary(MAX_REFUSAL)).unwrap_or_default()
            }
            None if is_hosts => words.trim_end(),
            None => "",
        };
        let way_out = match status.as_u16() {
            401 | 403 if is_hosts && json.is_none() => "",
            401 | 403 => ": your user needs the right to get pods/proxy, or say --address",
            404 => ": an older version has no such page",
            _ => "",
        };
        let message = one_line(message);
        return Err(format!("it answers {status}{}{message}{way_out}", if message.is_empty() { "" } else { ": " }));
    }
    Ok(told)
}

async fn get<F: FnMut(&str)>(
    client: &Client,
    path: &str,
    token: Option<HeaderValue>,
    wanted: &mut Option<Picked<'_, F>>,
) -> Result<Told, String> {
    let mut request = http::Request::get(path).body(Body::empty()).map_err(|error| error.to_string())?;
    if let Some(token) = token {
        request.headers_mut().insert(TOKEN_HEADER, token);
    }
    let late = |_elapsed| format!("no answer within {PATIENCE:?}");
    let until = Instant::now() + PATIENCE;
    let response = timeout_at(until, client.send(request)).await.map_err(late)?;
    let response = response.map_err(|error| ccm_apiserver::causes(&error))?;
    let status = response.status();
    let is_challenge = response.headers().get_all(WWW_AUTHENTICATE).iter().any(|value| value == CHALLENGE);
    let (mut body, mut unread) = (vec![], None);
    match wanted {
        Some(picked) if status.is_success() => unread = picked.read(response.into_body()).await?,
        _ => body = timeout_at(until, whole(response.into_body())).await.map_err(late)??,
    }
    Ok(Told { status, is_challenge, body, unread })
}

impl<F: FnMut(&str)> Picked<'_, F> {
    /// Reads a page, and says what of it was not read.
    async fn read(&mut self, mut body: Body) -> Result<Option<String>, String> {
        let mut picker = Picker::new(self.names, &mut self.take);
        let (mut size, until) = (0, Instant::now() + PATIENCE_WITH_METRICS);
        loop {
            let Ok(frame) = timeout_at(until, poll_fn(|context| Pin::new(&mut body).poll_frame(context))).await else {
                return Ok(Some(format!(
                    "what comes after {size} bytes did not come within {PATIENCE_WITH_METRICS:?}"
                )));
            };
            let Some(frame) = frame else { break };
            let frame = frame.map_err(|error| error.to_string())?;
            let data: &[u8] = frame.data_ref().map(AsRef::as_ref).unwrap_or_default();
            if size + data.len() > MAX_METRICS {
                return Ok(Some(format!(
                    "what comes after {size} bytes was not read: it is longer than {MAX_METRICS} bytes"
                )));
            }
            size += data.len();
            picker.read(data);
        }
        let too_long = picker.finish();
        Ok((too_long > 0).then(|| format!("{too_long} of its lines are too long, and were not read")))
    }
}

/// A token that is good for the health port, and for nothing else.
async fn token(client: &Client, namespace: &str) -> Result<HeaderValue, String> {
    let what = format!("a token of the ServiceAccount {namespace}/{READER}");
    let spec = TokenRequestSpec {
        audiences: vec![AUDIENCE.to_owned()],
        expiration_seconds: Some(TOKEN_SECONDS),
        ..TokenRequestSpec::default()
    };
    let request = TokenRequest { spec, ..TokenRequest::default() };
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    let made = answered(accounts.create_token_request(READER, &PostParams::default(), &request)).await;
    let made = made.map_err(|why| {
        let why = one_line(&why);
        format!("it wants a token, and {what} cannot be made: {why}: apply the manifests of this version, and let your user create serviceaccounts/token of it")
    })?;
    let token = made.status.map(|status| status.token).unwrap_or_default();
    let value = HeaderValue::from_str(&token).ok().filter(|token| !token.is_empty());
    let mut value = value.ok_or_else(|| format!("it wants a token, and {what} is none"))?;
    value.set_sensitive(true);
    Ok(value)
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
mod tests {
    use super::*;

    #[test]
    fn an_address_is_that_of_a_port_and_nothing_else() {
        for text in ["https://127.0.0.1:10258", "https://127.0.0.1:10258/", "127.0.0.1:10258", "host.example"] {
            assert_eq!(address(text).unwrap().scheme_str(), Some("https"), "{text}");
        }
        for text in ["", "http://127.0.0.1:10258", "https://u:hunter2@host", "https://host/metrics", "https://"] {
            let error = address(text).unwrap_err().to_string();
            assert!(error.starts_with("--address is no address") && !error.contains("hunter2"), "{text}: {error}");
        }
    }
}
