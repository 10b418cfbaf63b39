//! Finds the process that leads, and asks it. Whatever does not work is told, and is no reason to stop.
//!
//! Where the health port wants a token, one is made for [`READER`]: for ten minutes, and for the host alone. The proxy of the API server takes
//! the user's own away, and neither it nor this program verifies the certificate of the host: a token of the user's could do everything that
//! the user may, for whoever has the port.

use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

use anyhow::{Result, ensure};
use ccm_rollout::status::Refusal;
use ccm_serving::access::{AUDIENCE, CHALLENGE, TOKEN_HEADER};
use http::header::WWW_AUTHENTICATE;
use http::{HeaderValue, StatusCode, Uri};
use hyper::body::Body as _;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::api::PostParams;
use kube::client::Body;
use kube::{Api, Client, Config, ResourceExt as _};
use serde_json::Value;

use super::page::{Answer, PREFIX};
use super::target::Target;
use crate::ask::api_server::answered;
use crate::ask::lease::{self, Hold, Standing};
use crate::ask::pods::{self, LABEL, is_host, may_hold, port};
use crate::plain::one_line;

/// For one question, the API server's included.
const PATIENCE: Duration = Duration::from_secs(10);
/// Of a refusal, so many bytes are told.
const MAX_REFUSAL: usize = 500;
/// The ServiceAccount of our manifests that may read the health port and nothing else.
pub(super) const READER: &str = "wasm-ccm-reader";
/// How long its tokens live, in seconds: the shortest time that the API server allows.
const TOKEN_SECONDS: i64 = 600;
/// No answer is longer: it is about one object.
const MAX_ANSWER: usize = 1 << 20;
/// So many hosts are asked what they refuse while nobody leads.
const ASKED: usize = 3;

/// What came of asking.
#[derive(Default)]
pub(super) struct Asked {
    /// What the leader says.
    pub(super) answer: Option<Answer>,
    /// Who was asked, where there is an answer.
    pub(super) place: Option<String>,
    /// What hosts that do not lead refuse: who refuses its first component does not become the leader.
    pub(super) refusals: Vec<Refusal>,
    /// What did not work.
    pub(super) tried: Vec<String>,
}

impl Asked {
    fn failed(tried: impl Into<String>) -> Self {
        Self { tried: vec![tried.into()], ..Self::default() }
    }

    fn of(place: String, asked: Result<Answer, String>) -> Self {
        match asked {
            Ok(answer) if answer.leads => Self { answer: Some(answer), place: Some(place), ..Self::default() },
            Ok(answer) => {
                let tried = format!("{place} does not lead and knows nothing of objects: {}", answer.leader);
                Self { refusals: answer.refusals, ..Self::failed(tried) }
            }
            Err(why) => Self::failed(format!("{place}: {why}")),
        }
    }

    /// Nothing but why, where it is a host that leads under another Lease: what that one does not know of is not unknown.
    fn unless_another(self, holder: &str) -> Self {
        match (&self.answer, &self.place) {
            (Some(answer), Some(place)) if !answer.leader.contains(holder) => {
                Self::failed(format!("{place} is not {holder}, and leads under another Lease: {}", answer.leader))
            }
            _ => self,
        }
    }
}

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

/// Asks whoever is at an address. No credential of the user goes there. `cluster`, with the namespace of the host, makes a token where one is wanted.
pub(super) async fn at(address: &Uri, cluster: Option<(&Client, &str)>, target: &Target) -> Asked {
    let answer = match client_of(address) {
        Ok(client) => ask(&client, &format!("{PREFIX}{}", target.path()), cluster).await,
        Err(why) => Err(why),
    };
    Asked::of(format!("the host at {address}"), answer)
}

/// Asks whoever is at an address, and verifies nothing.
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

/// Where the hosts are.
pub(super) struct Place<'a> {
    pub(super) client: &'a Client,
    /// Of the Lease and the pods.
    pub(super) namespace: &'a str,
    /// The name of the Lease.
    pub(super) lease: &'a str,
}

impl Place<'_> {
    /// Finds who holds the Lease, and asks its pod through the API server.
    pub(super) async fn found(&self, target: &Target) -> Asked {
        let Self { client, namespace, lease } = self;
        let what = format!("the Lease {namespace}/{lease}");
        let hold = match lease::look(client, namespace, lease).await {
            Err(why) => return Asked::failed(format!("{what} cannot be read: {why}")),
            Ok(None) => {
                let tried = format!("{what} does not exist: no host has led, or it has another name");
                return self.refusals(Asked::failed(tried), target).await;
            }
            Ok(Some(hold)) => hold,
        };
        let holder = &hold.holder;
        if holder.is_empty() {
            let asked = Asked::failed(format!("nobody holds {what}: no host leads"));
            return self.refusals(asked, target).await;
        }
        if let Some(stranger) = hold.stranger() {
            return Asked::failed(format!(
                "{holder} holds {what}, and is no host of wasm-ccm but {stranger}: two managers have one Lease (`wasm-ccm doctor`)"
            ));
        }
        let pods = match pods::living(client, namespace).await {
            Ok(pods) => pods,
            Err(why) => {
                let told = self.told(&hold).await;
                return Asked::failed(format!("{told}; the pods in {namespace} cannot be read: {why}"));
            }
        };
        let candidates: Vec<&Pod> = pods.iter().filter(|pod| is_host(pod) && may_hold(pod, holder)).collect();
        let Some(pod) = candidates.first() else {
            let told = self.told(&hold).await;
            let (label, value) = LABEL;
            return Asked::failed(format!(
                "{told}, and is no pod in {namespace} that lives and has the label {label}={value}: say with --address where its health port is"
            ));
        };
        // In the host network, those of one node cannot be told apart before they have answered.
        let mut asked = Asked::default();
        for pod in candidates.iter().take(ASKED) {
            let one = self.ask(pod, "the leader, ", target).await.unless_another(holder);
            asked.tried.extend(one.tried);
            if one.answer.is_some() {
                asked = Asked { answer: one.answer, place: one.place, ..asked };
                break;
            }
        }
        if asked.answer.is_none() {
            let (pod, port) = (pod.name_any(), port(pod));
            asked.tried.push(format!(
                "to ask it nevertheless: kubectl -n {namespace} port-forward {pod} {port}, and in another terminal the same command with \
                 --address=https://127.0.0.1:{port}"
            ));
            asked.tried.push(self.told(&hold).await);
        }
        asked
    }

    /// Whether the holder leads: it is looked at again, for as long as it takes to see.
    async fn told(&self, hold: &Hold) -> String {
        let holder = &hold.holder;
        match lease::watch(self.client, self.namespace, self.lease).await {
            Ok(Some(Standing::Held(hold))) => format!("{} leads", hold.holder),
            Ok(Some(Standing::Expired(hold))) => {
                format!("nobody leads: {} is in the Lease, and did not renew it in {:?}", hold.holder, hold.promised)
            }
            Ok(Some(Standing::Unmoved(_))) => format!("{holder} is in the Lease, and whether it lives is not known"),
            Ok(Some(Standing::Free) | None) => "nobody leads any more".to_owned(),
            Err(_unread) => format!("{holder} was in the Lease"),
        }
    }

    /// Adds what hosts refuse while nobody leads.
    async fn refusals(&self, mut asked: Asked, target: &Target) -> Asked {
        let pods = match pods::living(self.client, self.namespace).await {
            Ok(pods) => pods,
            Err(why) => {
                asked.tried.push(format!("the pods in {} cannot be read: {why}", self.namespace));
                return asked;
            }
        };
        let hosts: Vec<&Pod> = pods.iter().filter(|pod| is_host(pod)).collect();
        if hosts.is_empty() {
            asked.tried.push(format!("no pod of a host lives in {}", self.namespace));
        }
        for pod in hosts.into_iter().take(ASKED) {
            let one = self.ask(pod, "", target).await;
            asked.tried.extend(one.tried);
            if one.answer.is_some() || !one.refusals.is_empty() {
                return Asked { answer: one.answer, place: one.place, refusals: one.refusals, ..asked };
            }
        }
        asked
    }

    async fn ask(&self, pod: &Pod, who: &str, target: &Target) -> Asked {
        let (namespace, name, port) = (self.namespace, pod.name_any(), port(pod));
        let path = format!("/api/v1/namespaces/{namespace}/pods/https:{name}:{port}/proxy{PREFIX}{}", target.path());
        Asked::of(format!("{who}pod {namespace}/{name}"), ask(self.client, &path, Some((self.client, namespace))).await)
    }
}

/// An answer, whoever gives it.
struct Told {
    status: StatusCode,
    /// The host wants a token. Otherwise it may be the API server who refuses.
    is_challenge: bool,
    body: Vec<u8>,
}

async fn ask(client: &Client, path: &str, cluster: Option<(&Client, &str)>) -> Result<Answer, String> {
    let body = page(client, path, cluster).await?;
    serde_json::from_slice(&body).map_err(|_garbage| "it answers something else than an explanation".to_owned())
}

/// A page of a host. `cluster`, with the namespace of the host, makes a token where one is wanted.
///
/// # Errors
///
/// It does not answer, or refuses: why, with the way out.
pub(crate) async fn page(client: &Client, path: &str, cluster: Option<(&Client, &str)>) -> Result<Vec<u8>, String> {
    let mut told = get(client, path, None).await?;
    let mut is_hosts = false;
    if told.is_challenge {
        let (client_of_api_server, namespace) = cluster.ok_or(
            "it wants a token, and without the API server there is none: say with --kubeconfig how to reach that",
        )?;
        let token = token(client_of_api_server, namespace).await?;
        told = get(client, path, Some(token)).await?;
        is_hosts = true;
    }
    let Told { status, body, .. } = told;
    if !status.is_success() {
        let json = serde_json::from_slice::<Value>(&body).ok();
        // The host answers in words, the API server in JSON.
        let words = String::from_utf8_lossy(body.get(..body.len().min(MAX_REFUSAL)).unwrap_or_default());
        let message = match &json {
            Some(json) => json["message"].as_str().unwrap_or_default(),
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
    Ok(body)
}

async fn get(client: &Client, path: &str, token: Option<HeaderValue>) -> Result<Told, String> {
    let mut request = http::Request::get(path).body(Body::empty()).map_err(|error| error.to_string())?;
    if let Some(token) = token {
        request.headers_mut().insert(TOKEN_HEADER, token);
    }
    let asking = async {
        let response = client.send(request).await.map_err(|error| ccm_apiserver::causes(&error))?;
        let status = response.status();
        let is_challenge = response.headers().get_all(WWW_AUTHENTICATE).iter().any(|value| value == CHALLENGE);
        Ok::<_, String>(Told { status, is_challenge, body: whole(response.into_body()).await? })
    };
    let asked = tokio::time::timeout(PATIENCE, asking).await;
    asked.unwrap_or_else(|_elapsed| Err(format!("no answer within {PATIENCE:?}")))
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
mod tests;
