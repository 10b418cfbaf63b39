//! The way to the lab: every service under one address, each exchange kept, and faults that a real cloud has not on demand.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, LOCATION, TRANSFER_ENCODING};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::Lab;
use super::fault::{Act, Due, Fault, Faults, Of, Planned, When};

/// The header in which a token comes from Keystone.
const ISSUED: &str = "x-subject-token";

/// A request and its answer.
#[derive(Debug, Clone, Default)]
pub struct Exchange {
    /// Method, service and path, in which every ID is a star: `PUT network/v2.0/routers/*/add_extraroutes`.
    pub operation: String,
    /// Path and query as they were asked for.
    pub uri: String,
    /// What was sent.
    pub request: String,
    /// What came back; none when the connection ended without an answer, also because who asked waited no longer.
    pub status: Option<u16>,
    /// What came back.
    pub response: String,
}

impl Exchange {
    /// Whether it was to change something at the cloud.
    #[must_use]
    pub fn is_write(&self) -> bool {
        Of::Writes.is(&self.operation)
    }
}

/// An address that stands for all services of the lab. Ends when it is dropped.
pub struct Proxy {
    shared: Arc<Shared>,
    _serving: JoinSet<()>,
}

struct Shared {
    lab: Lab,
    client: reqwest::Client,
    url: String,
    faults: Faults,
    exchanges: Mutex<Vec<Exchange>>,
    tokens: Mutex<BTreeSet<String>>,
    /// Services that the catalogue does not name.
    hidden: Mutex<BTreeSet<&'static str>>,
    /// The most that a list has at once.
    page: Mutex<Option<usize>>,
}

impl Proxy {
    /// Serves on a free port of loopback.
    ///
    /// # Errors
    ///
    /// It cannot listen.
    pub async fn start(lab: &Lab) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let shared = Arc::new(Shared {
            lab: lab.clone(),
            client: reqwest::Client::builder().no_proxy().build()?,
            url: format!("http://{}", listener.local_addr()?),
            faults: Faults::default(),
            exchanges: Mutex::default(),
            tokens: Mutex::default(),
            hidden: Mutex::default(),
            page: Mutex::default(),
        });
        let mut serving = JoinSet::new();
        serving.spawn(serve(listener, Arc::clone(&shared)));
        Ok(Self { shared, _serving: serving })
    }

    /// Keystone's address, as a `cloud.conf` has it.
    #[must_use]
    pub fn auth_url(&self) -> String {
        format!("{}/v3", self.address("identity"))
    }

    /// A service's address, as its catalogue has it, and as it stands in answers.
    #[must_use]
    pub fn address(&self, service: &str) -> String {
        format!("{}/{service}", self.shared.url)
    }

    /// A fault for requests from now on.
    pub fn plan(&self, fault: Fault) -> Planned {
        self.shared.faults.plan(fault)
    }

    /// No fault any more.
    pub fn heal(&self) {
        self.shared.faults.clear();
    }

    /// Later catalogues do not name this service.
    pub fn hide(&self, service: &'static str) {
        self.shared.hidden.lock().insert(service);
    }

    /// Later catalogues name it.
    pub fn show(&self, service: &'static str) {
        self.shared.hidden.lock().remove(service);
    }

    /// Lists come in pieces of so many.
    pub fn page(&self, most: usize) {
        *self.shared.page.lock() = Some(most);
    }

    /// All exchanges, in the order of their ends.
    #[must_use]
    pub fn exchanges(&self) -> Vec<Exchange> {
        self.shared.exchanges.lock().clone()
    }

    /// How many exchanges had this operation.
    #[must_use]
    pub fn count(&self, of: Of) -> usize {
        self.shared.exchanges.lock().iter().filter(|exchange| of.is(&exchange.operation)).count()
    }

    /// How many of them there are so far: what came before is of no interest any more.
    #[must_use]
    pub fn mark(&self) -> usize {
        self.shared.exchanges.lock().len()
    }

    /// All exchanges since a [`mark`](Self::mark).
    #[must_use]
    pub fn since(&self, mark: usize) -> Vec<Exchange> {
        self.shared.exchanges.lock().iter().skip(mark).cloned().collect()
    }

    /// Every token that Keystone has issued through it.
    #[must_use]
    pub fn tokens(&self) -> Vec<String> {
        self.shared.tokens.lock().iter().cloned().collect()
    }
}

type Body = BoxBody<Bytes, std::io::Error>;

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let shared = Arc::clone(&shared);
        connections.spawn(async move {
            let service = service_fn(move |request| {
                let shared = Arc::clone(&shared);
                async move { shared.answer(request).await.ok_or("hung up") }
            });
            let mut http = hyper::server::conn::http1::Builder::new();
            // A client that leaves is not the proxy's error.
            http.timer(TokioTimer::new()).serve_connection(TokioIo::new(stream), service).await.ok();
        });
    }
}

/// An exchange, kept when it ends: also when who asked has left, which ends the work for it.
struct Kept<'s> {
    all: &'s Mutex<Vec<Exchange>>,
    exchange: Exchange,
}

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        self.all.lock().push(std::mem::take(&mut self.exchange));
    }
}

/// What came from the lab, or stands in its place.
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    text: String,
}

impl Shared {
    /// None: the connection ends.
    async fn answer(&self, request: Request<Incoming>) -> Option<Response<Body>> {
        let (parts, body) = request.into_parts();
        let sent = String::from_utf8_lossy(&body.collect().await.ok()?.to_bytes()).into_owned();
        let uri = parts.uri.path_and_query().map(ToString::to_string).unwrap_or_default();
        let operation = format!("{} {}", parts.method, starred(parts.uri.path()));
        let mut due = self.faults.take(&operation);
        let exchange = Exchange { operation, uri, request: sent, ..Exchange::default() };
        let mut kept = Kept { all: &self.exchanges, exchange };
        let Exchange { uri, request: sent, .. } = &kept.exchange;
        let mut answer = match &mut due {
            Some(due) if due.when == When::Before => match self.strike(due).await {
                Struck::GoesOn => self.forward(&parts, uri, sent).await,
                Struck::Instead(answer) => answer,
            },
            _ => self.forward(&parts, uri, sent).await,
        };
        if let Some(due) = due.as_mut().filter(|due| due.when == When::After)
            && let Struck::Instead(instead) = self.strike(due).await
        {
            answer = instead;
        }
        if let Some(answer) = &answer {
            kept.exchange.status = Some(answer.status.as_u16());
            kept.exchange.response = answer.text.clone();
        }
        drop(kept);
        let answer = answer?;
        let is_cut = due.is_some_and(|due| due.act == Act::Truncate);
        Some(answer.into_response(is_cut))
    }

    async fn strike(&self, due: &mut Due) -> Struck {
        due.wait().await;
        match due.act {
            Act::Answer(status) => Struck::Instead(Some(Answer::refusal(status))),
            Act::Hangup => Struck::Instead(None),
            Act::Delay(_) | Act::Hold | Act::Truncate => Struck::GoesOn,
        }
    }

    /// Asks the lab. None: it does not answer.
    async fn forward(&self, parts: &http::request::Parts, uri: &str, sent: &str) -> Option<Answer> {
        let (service, path) = uri.trim_start_matches('/').split_once('/').unwrap_or((uri, ""));
        let Some(base) = self.lab.service(service) else { return Some(Answer::refusal(404)) };
        let url = format!("{base}/{}", self.paged(parts, path));
        let mut request = self.client.request(parts.method.clone(), url).body(self.inwards(sent));
        for (name, value) in
            parts.headers.iter().filter(|(name, _)| *name != http::header::HOST && *name != CONTENT_LENGTH)
        {
            request = request.header(name, value);
        }
        let answer = request.send().await.ok()?;
        let (status, mut headers) = (answer.status(), answer.headers().clone());
        let text = self.outwards(&answer.text().await.ok()?);
        // The text may be longer or shorter than it was, and is not packed.
        for name in [CONTENT_LENGTH, TRANSFER_ENCODING, http::header::CONTENT_ENCODING] {
            headers.remove(name);
        }
        if let Some(to) =
            headers.get(LOCATION).and_then(|to| to.to_str().ok()).and_then(|to| self.outwards(to).parse().ok())
        {
            headers.insert(LOCATION, to);
        }
        self.tokens.lock().extend(headers.get(ISSUED).and_then(|token| token.to_str().ok()).map(str::to_owned));
        let text = if headers.contains_key(ISSUED) { self.without_hidden(&text) } else { text };
        Some(Answer { status, headers, text })
    }

    /// The path of a list with a limit that is not greater than that of a page.
    fn paged(&self, parts: &http::request::Parts, path: &str) -> String {
        const LISTS: [&str; 12] = [
            "detail",
            "ports",
            "networks",
            "subnets",
            "routers",
            "floatingips",
            "security-groups",
            "security-group-rules",
            "loadbalancers",
            "listeners",
            "pools",
            "members",
        ];
        let (route, query) = path.split_once('?').unwrap_or((path, ""));
        let is_list =
            parts.method == http::Method::GET && route.rsplit('/').next().is_some_and(|last| LISTS.contains(&last));
        let Some(most) = self.page.lock().filter(|_| is_list) else { return path.to_owned() };
        let own = query.split('&').find_map(|pair| pair.strip_prefix("limit=")?.parse().ok()).unwrap_or(most);
        let rest = query.split('&').filter(|pair| !pair.is_empty() && !pair.starts_with("limit="));
        let all: Vec<String> = rest.map(str::to_owned).chain([format!("limit={}", own.min(most))]).collect();
        format!("{route}?{}", all.join("&"))
    }

    /// Addresses of the lab as those of the proxy.
    fn outwards(&self, text: &str) -> String {
        let addresses = self.lab.addresses();
        addresses.fold(text.to_owned(), |text, (name, base)| text.replace(base, &format!("{}/{name}", self.url)))
    }

    /// And back.
    fn inwards(&self, text: &str) -> String {
        let addresses = self.lab.addresses();
        addresses.fold(text.to_owned(), |text, (name, base)| text.replace(&format!("{}/{name}", self.url), base))
    }

    /// What Keystone says of a token, without the services that are hidden.
    fn without_hidden(&self, text: &str) -> String {
        let Ok(mut said) = serde_json::from_str::<Value>(text) else { return text.to_owned() };
        let hidden = self.hidden.lock();
        if let Some(catalogue) = said.pointer_mut("/token/catalog").and_then(Value::as_array_mut) {
            catalogue.retain(|service| service["type"].as_str().is_none_or(|kind| !hidden.contains(kind)));
        }
        said.to_string()
    }
}

enum Struck {
    GoesOn,
    Instead(Option<Answer>),
}

impl Answer {
    fn refusal(status: u16) -> Self {
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
        let text = json!({ "error": { "code": status.as_u16(), "message": "planned by a test", "title": status.canonical_reason() } });
        Self { status, headers, text: text.to_string() }
    }

    fn into_response(self, is_cut: bool) -> Response<Body> {
        let whole = Bytes::from(self.text);
        let mut response = if is_cut {
            let half = Ok(Frame::data(whole.slice(..whole.len() / 2)));
            let cut = Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset));
            Response::new(StreamBody::new(futures::stream::iter([half, cut])).boxed())
        } else {
            Response::new(Full::new(whole.clone()).map_err(|never: Infallible| match never {}).boxed())
        };
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers;
        if is_cut {
            response.headers_mut().insert(CONTENT_LENGTH, whole.len().into());
        }
        response
    }
}

/// Service and path, in which every ID is a star.
fn starred(path: &str) -> String {
    let is_id = |part: &str| part.len() >= 32 && part.chars().all(|letter| letter.is_ascii_hexdigit() || letter == '-');
    let parts: Vec<&str> =
        path.trim_start_matches('/').split('/').map(|part| if is_id(part) { "*" } else { part }).collect();
    parts.join("/")
}

/// An address of the lab, for [`Lab`].
pub(super) fn base(url: &Value) -> Result<String> {
    Ok(url.as_str().context("an address in lab.json is no text")?.trim_end_matches('/').to_owned())
}
