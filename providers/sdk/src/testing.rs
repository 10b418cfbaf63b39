//! A cloud made of a script, for the tests of providers. With the feature `testing`:
//!
//! ```toml
//! [dev-dependencies]
//! ccm-sdk = { workspace = true, features = ["testing"] }
//! ```

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::rc::Rc;

use crate::credentials::Part;
use crate::http::{Capture, CaptureSource, Method, Request, Response, TransportError, TransportReason};
use crate::percent;
use crate::types::Subject;

thread_local! {
    static INSTALLED: RefCell<Option<Rc<State>>> = const { RefCell::new(None) };
}

pub(crate) fn installed() -> Option<Rc<State>> {
    INSTALLED.with_borrow(Clone::clone)
}

/// Stands behind the imports `http`, `credentials`, `cache`, `log`, `events` and the time of `clock` of this thread until it is dropped. What is in the cache stays
/// there for its time, which [`pass`](Self::pass) lets go by; [`cache::forget`](crate::cache::forget) is the end of it,
/// [`forget_cache`](Self::forget_cache) of all. The answer of a login is kept with its credential, and has a placeholder where that was.
///
/// Requests are named by a line: endpoint, method, path and query, `api GET /v2/droplets?page=2`. What is not scripted gets no
/// answer.
#[derive(Debug)]
#[must_use = "it is gone when it is dropped"]
pub struct FakeCloud(Rc<State>);

impl FakeCloud {
    /// Takes the place of the host for this thread.
    pub fn new() -> Self {
        let state = Rc::new(State::default());
        INSTALLED.set(Some(Rc::clone(&state)));
        Self(state)
    }

    /// Answers the next request of that line. A line without a query stands for every query.
    pub fn on(self, line: &str, reply: Reply) -> Self {
        self.script(line, reply, true)
    }

    /// Answers all requests of that line for which nothing else is scripted.
    pub fn always(self, line: &str, reply: Reply) -> Self {
        self.script(line, reply, false)
    }

    /// Sets the time, in seconds since 1970-01-01T00:00:00Z; it stands still. Without it: 0.
    pub fn at(self, seconds: u64) -> Self {
        self.0.now.set(seconds);
        self
    }

    /// So many seconds go by, for the cache too.
    pub fn pass(&self, seconds: u64) {
        self.0.now.set(self.0.now.get().saturating_add(seconds));
        self.0.passed.set(self.0.passed.get().saturating_add(seconds));
    }

    /// Gives a credential a value.
    pub fn with_credential(self, name: &str) -> Self {
        self.0.available.borrow_mut().insert(name.to_owned());
        self
    }

    /// The operator does not grant the base URLs that a catalogue has for this endpoint.
    pub fn denies(self, endpoint: &str) -> Self {
        self.0.denied.borrow_mut().insert(endpoint.to_owned());
        self
    }

    /// The operator gives this endpoint a base URL: none that is found takes its place.
    pub fn gives(self, endpoint: &str, base_url: &str) -> Self {
        self.0.base_paths.borrow_mut().insert(endpoint.to_owned(), path_of(base_url));
        self.0.given.borrow_mut().insert(endpoint.to_owned());
        self
    }

    /// Gives a credential a value that `forget` does not take away: another call has renewed it meanwhile.
    pub fn keeps(self, name: &str) -> Self {
        self.0.kept.borrow_mut().insert(name.to_owned());
        self.with_credential(name)
    }

    fn script(self, line: &str, reply: Reply, once: bool) -> Self {
        self.0.script.borrow_mut().push(Entry { line: line.to_owned(), reply, once });
        self
    }

    /// The host has forgotten what was in the cache: another component has taken the place of this one, or there was no room.
    pub fn forget_cache(&self) {
        self.0.cache.borrow_mut().clear();
    }

    /// What was asked of the host so far: requests, `forget NAME`, `bind ENDPOINT URL`.
    pub fn lines(&self) -> Vec<String> {
        self.0.lines.borrow().clone()
    }

    /// The requests so far.
    pub fn requests(&self) -> Vec<Request> {
        self.0.requests.borrow().clone()
    }

    /// How many requests were sent together, each time.
    pub fn batches(&self) -> Vec<usize> {
        self.0.batches.borrow().clone()
    }

    /// What was written to the log: message, then ` name=value` for each field.
    pub fn logged(&self) -> Vec<String> {
        self.0.logged.borrow().clone()
    }

    /// The Events so far: `default/web Reason: message`, `node a …`, `call …`, `provider …`.
    pub fn events(&self) -> Vec<String> {
        self.0.events.borrow().clone()
    }

    /// Lines of answers that nobody has asked for.
    pub fn unused(&self) -> Vec<String> {
        self.0.script.borrow().iter().filter(|entry| entry.once).map(|entry| entry.line.clone()).collect()
    }
}

impl Default for FakeCloud {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for FakeCloud {
    fn drop(&mut self) {
        // A test that replaces its fake makes the new one before the old one goes.
        if installed().is_some_and(|state| Rc::ptr_eq(&state, &self.0)) {
            INSTALLED.set(None);
        }
    }
}

/// What a [`FakeCloud`] answers.
#[derive(Debug, Clone)]
pub struct Reply(Result<Response, TransportError>);

impl Reply {
    /// Only a status.
    pub fn status(status: u16) -> Self {
        Self(Ok(Response { status, headers: vec![], body: vec![], summary: String::new() }))
    }

    /// A status and a body.
    pub fn json(status: u16, body: impl Into<String>) -> Self {
        let response = Response { status, headers: vec![], body: body.into().into_bytes(), summary: String::new() };
        Self(Ok(response)).header("content-type", "application/json")
    }

    /// No answer.
    pub fn lost(reason: TransportReason, maybe_sent: bool) -> Self {
        Self(Err(TransportError { reason, maybe_sent, retry_after_ms: None, message: "no answer".to_owned() }))
    }

    /// With a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        if let Ok(response) = &mut self.0 {
            response.headers.push((name.to_ascii_lowercase(), value.to_owned()));
        }
        self
    }
}

/// The pieces of a value as text; credentials are `<name>`, signatures `<signature>`.
pub fn text(parts: &[Part]) -> String {
    let texts = parts.iter().map(|part| match part {
        Part::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Part::Secret(secret) => format!("<{}>", secret.credential),
        Part::Signature(_) => "<signature>".to_owned(),
    });
    texts.collect()
}

#[derive(Debug)]
struct Entry {
    line: String,
    reply: Reply,
    once: bool,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    script: RefCell<Vec<Entry>>,
    available: RefCell<BTreeSet<String>>,
    kept: RefCell<BTreeSet<String>>,
    denied: RefCell<BTreeSet<String>>,
    given: RefCell<BTreeSet<String>>,
    lines: RefCell<Vec<String>>,
    requests: RefCell<Vec<Request>>,
    batches: RefCell<Vec<usize>>,
    /// Seconds that went by.
    passed: Cell<u64>,
    /// Values, and until when they are there: milliseconds that went by.
    cache: RefCell<BTreeMap<String, (Vec<u8>, u64)>>,
    base_paths: RefCell<BTreeMap<String, String>>,
    /// Requests that brought credentials, and their answers.
    logins: RefCell<BTreeMap<String, (Request, Response)>>,
    logged: RefCell<Vec<String>>,
    events: RefCell<Vec<String>>,
    now: Cell<u64>,
}

impl State {
    pub(crate) fn send(&self, requests: &[Request]) -> Vec<Result<Response, TransportError>> {
        self.batches.borrow_mut().push(requests.len());
        requests.iter().map(|request| self.answer(request)).collect()
    }

    fn answer(&self, request: &Request) -> Result<Response, TransportError> {
        if let Some(kept) = self.kept_login(request) {
            return Ok(kept);
        }
        let line = line(request);
        self.lines.borrow_mut().push(line.clone());
        self.requests.borrow_mut().push(request.clone());
        let reply = self.reply(&line).unwrap_or_else(|| {
            let mut reply = Reply::lost(TransportReason::Other, false);
            if let Err(error) = &mut reply.0 {
                error.message = format!("no answer is scripted for {line}");
            }
            reply
        });
        let mut response = reply.0?;
        response.summary = format!("{}: {}", request.operation, response.status);
        if let Some((_, id)) = response.headers.iter().find(|(name, _)| name == "x-request-id") {
            // Writing to a String cannot fail.
            _ = write!(response.summary, ", request id {id}");
        }
        if let Some(capture) = request.capture.as_ref().filter(|_| response.status < 300) {
            self.available.borrow_mut().insert(capture.credential.clone());
            hide(&mut response, capture);
            let asked = Request { share_ms: 0, ..request.clone() };
            self.logins.borrow_mut().insert(capture.credential.clone(), (asked, response.clone()));
        }
        Ok(response)
    }

    /// As the host: the answer of the login that brought a credential is there as long as that.
    fn kept_login(&self, request: &Request) -> Option<Response> {
        let credential = &request.capture.as_ref().filter(|_| request.share_ms > 0)?.credential;
        let logins = self.logins.borrow();
        let (asked, answer) = logins.get(credential).filter(|_| self.available(credential))?;
        (*asked == Request { share_ms: 0, ..request.clone() }).then(|| answer.clone())
    }

    fn reply(&self, line: &str) -> Option<Reply> {
        let (route, _) = line.split_once('?').unwrap_or((line, ""));
        let mut script = self.script.borrow_mut();
        let fits = |entry: &Entry| entry.line == line || entry.line == route;
        let at = script
            .iter()
            .position(|entry| entry.once && fits(entry))
            .or_else(|| script.iter().position(|entry| !entry.once && fits(entry)))?;
        let entry = script.get(at)?;
        if entry.once { Some(script.remove(at).reply) } else { Some(entry.reply.clone()) }
    }

    pub(crate) fn bind(&self, endpoint: &str, base_url: &str) -> Result<(), TransportError> {
        if self.denied.borrow().contains(endpoint) {
            let message = format!("{base_url} is not granted for endpoint {endpoint}");
            let reason = TransportReason::Denied;
            return Err(TransportError { reason, maybe_sent: false, retry_after_ms: None, message });
        }
        if self.given.borrow().contains(endpoint) {
            return Ok(());
        }
        if !base_url.contains("://") {
            let message = format!("endpoint {endpoint} cannot be bound: {base_url:?} is no URL");
            let reason = TransportReason::Denied;
            return Err(TransportError { reason, maybe_sent: false, retry_after_ms: None, message });
        }
        self.lines.borrow_mut().push(format!("bind {endpoint} {base_url}"));
        self.base_paths.borrow_mut().insert(endpoint.to_owned(), path_of(base_url));
        Ok(())
    }

    pub(crate) fn base_path(&self, endpoint: &str) -> Option<String> {
        self.base_paths.borrow().get(endpoint).cloned()
    }

    pub(crate) fn cached(&self, key: &str) -> Option<Vec<u8>> {
        let cache = self.cache.borrow();
        let (value, _) = cache.get(key).filter(|(_, end)| *end > self.passed_ms())?;
        Some(value.clone())
    }

    pub(crate) fn keep(&self, key: &str, value: &[u8], ttl_ms: u32) {
        let end = self.passed_ms().saturating_add(ttl_ms.into());
        self.cache.borrow_mut().insert(key.to_owned(), (value.to_vec(), end));
    }

    pub(crate) fn forget_cached(&self, key: &str) {
        self.cache.borrow_mut().remove(key);
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.now.get() * 1_000
    }

    fn passed_ms(&self) -> u64 {
        self.passed.get() * 1_000
    }

    pub(crate) fn log(&self, message: &str, fields: &[(String, String)]) {
        let fields: String = fields.iter().map(|(name, value)| format!(" {name}={value}")).collect();
        self.logged.borrow_mut().push(format!("{message}{fields}"));
    }

    pub(crate) fn emit(&self, subject: &Subject, reason: &str, message: &str) {
        let about = match subject {
            Subject::Call => "call".to_owned(),
            Subject::Provider => "provider".to_owned(),
            Subject::Node(name) => format!("node {name}"),
            Subject::Service((namespace, name)) => format!("{namespace}/{name}"),
        };
        self.events.borrow_mut().push(format!("{about} {reason}: {message}"));
    }

    pub(crate) fn available(&self, credential: &str) -> bool {
        self.available.borrow().contains(credential)
    }

    pub(crate) fn forget(&self, credential: &str) {
        self.lines.borrow_mut().push(format!("forget {credential}"));
        if !self.kept.borrow().contains(credential) {
            self.available.borrow_mut().remove(credential);
        }
    }
}

/// As the host tells it: without a slash at its end.
fn path_of(base_url: &str) -> String {
    let path = base_url.split_once("://").and_then(|(_, rest)| rest.split_once('/')).map_or("", |(_, path)| path);
    if path.is_empty() { String::new() } else { format!("/{}", path.trim_end_matches('/')) }
}

/// Puts a placeholder where the captured value was.
fn hide(response: &mut Response, capture: &Capture) {
    let placeholder = format!("(credential {})", capture.credential);
    match &capture.source {
        CaptureSource::Header(header) => {
            let captured = response.headers.iter_mut().filter(|(name, _)| name.eq_ignore_ascii_case(header));
            captured.for_each(|(_, value)| value.clone_from(&placeholder));
        }
        CaptureSource::JsonPointer(pointer) => {
            let mut body: serde_json::Value = serde_json::from_slice(&response.body).unwrap_or_default();
            if let Some(value) = body.pointer_mut(pointer) {
                *value = placeholder.into();
                response.body = body.to_string().into_bytes();
            }
        }
    }
}

fn line(request: &Request) -> String {
    let method = match request.method {
        Method::Get => "GET",
        Method::Head => "HEAD",
        Method::Post => "POST",
        Method::Put => "PUT",
        Method::Patch => "PATCH",
        Method::Delete => "DELETE",
    };
    let mut line = format!("{} {method} {}", request.endpoint, request.path);
    for (index, (name, value)) in request.query.iter().enumerate() {
        let before = if index == 0 { '?' } else { '&' };
        let value = percent::encode(&text(value), "-._~<>:,*");
        // Writing to a String cannot fail.
        _ = write!(line, "{before}{name}={value}");
    }
    line
}
