//! Nodes, Services, ConfigMaps and Events behind `tower_test::mock`: strategic merge patches, resource versions, conflicts, and answers by script.
//!
//! For unit tests of whoever talks to the API server. [`Log`] is for those of whoever logs. How a real one behaves is for the system tests.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "part of tests: a request that nobody expects ends the test"
)]

mod log;
mod services;

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Arc;

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tokio::task::JoinSet;
use tower_test::mock;

pub use log::{Lines, Log};

/// The value of a metric, as a scrape shows it; `series` is its name with labels.
#[must_use]
pub fn scraped(registry: &Registry, series: &str) -> f64 {
    let mut text = String::new();
    encode(&mut text, registry).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {series} in {text}")).parse().unwrap()
}

/// A request as it arrived.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// `PATCH /api/v1/nodes/node0/status`
    pub line: String,
    /// What follows the question mark; empty where nothing does.
    pub query: String,
    /// Its header.
    pub content_type: String,
    /// Null where it has none.
    pub body: Value,
}

type Act = Box<dyn FnOnce(&mut State) -> Option<u16> + Send>;

/// A request that fails again and again.
struct Repeated {
    line: String,
    /// One in so many.
    nth: usize,
    /// How many there were.
    seen: usize,
    status: u16,
    /// Seconds after which it is to be sent again.
    retry_after: Option<u64>,
}

impl Repeated {
    /// Counts a request. The answer to it, if it fails.
    fn next(&mut self) -> Option<(u16, Option<u64>)> {
        self.seen += 1;
        self.seen.is_multiple_of(self.nth).then_some((self.status, self.retry_after))
    }
}

/// What the API server has.
#[derive(Default)]
pub struct State {
    nodes: BTreeMap<String, Value>,
    /// By `namespace/name`.
    services: BTreeMap<String, Value>,
    events: BTreeMap<String, Value>,
    /// By `namespace/name`.
    config_maps: BTreeMap<String, Value>,
    version: u64,
    calls: Vec<Call>,
    scripts: Vec<(String, Act)>,
    silent: Vec<String>,
    lost: Vec<String>,
    failures: Vec<(String, Value)>,
    /// What something in between answers, once each.
    texts: Vec<(String, u16, String)>,
    repeated: Vec<Repeated>,
    /// Whether lists come in pages.
    in_pages: bool,
    watches: Vec<mock::SendResponse<Response<Body>>>,
}

impl State {
    fn store(&mut self, name: &str, mut node: Value) -> Value {
        self.version += 1;
        node["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.nodes.insert(name.to_owned(), node.clone());
        node
    }

    /// Another writer.
    pub fn edit(&mut self, name: &str, patch: &Value) {
        let mut node = self.nodes[name].clone();
        merge(&mut node, patch);
        self.store(name, node);
    }

    /// A Node as it was in a backup, with the resource version of that time, which is also that of the API server now.
    pub fn restore(&mut self, node: Value) {
        self.version = node["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
        self.nodes.insert(node["metadata"]["name"].as_str().unwrap().to_owned(), node);
    }

    /// A Node goes.
    pub fn delete(&mut self, name: &str) {
        self.nodes.remove(name);
    }

    /// An empty ConfigMap.
    pub fn add_config_map(&mut self, namespace: &str, name: &str) {
        let map = json!({ "metadata": { "namespace": namespace, "name": name } });
        self.config_maps.insert(format!("{namespace}/{name}"), map);
    }

    /// What a ConfigMap holds; to be changed as another writer would.
    pub fn config_map_data(&mut self, namespace: &str, name: &str) -> &mut Map<String, Value> {
        let map = self.config_maps.get_mut(&format!("{namespace}/{name}")).unwrap();
        let data = map.as_object_mut().unwrap().entry("data").or_insert_with(|| json!({}));
        data.as_object_mut().unwrap()
    }

    /// What is said of each Event.
    pub fn edit_events(&mut self, patch: &Value) {
        self.events.values_mut().for_each(|event| merge(event, patch));
    }

    /// Another Node of the same name, or the first one.
    pub fn create(&mut self, node: Value) {
        let name = node["metadata"]["name"].as_str().unwrap().to_owned();
        self.store(&name, node);
    }

    fn answer(&mut self, call: &Call) -> (u16, Value) {
        let (verb, path) = call.line.split_once(' ').unwrap();
        let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        match (verb, parts.as_slice()) {
            ("GET", ["api", "v1", "nodes"]) => {
                let items: Vec<&Value> = self.nodes.values().collect();
                let version = self.version.to_string();
                (200, json!({ "kind": "NodeList", "metadata": { "resourceVersion": version }, "items": items }))
            }
            ("GET", ["api", "v1", "nodes", name]) => {
                self.nodes.get(*name).map_or((404, Value::Null), |node| (200, node.clone()))
            }
            ("PATCH", ["api", "v1", "nodes", name, rest @ ..]) => {
                let Some(mut node) = self.nodes.get(*name).cloned() else { return (404, Value::Null) };
                let mut patch = call.body.clone();
                let version = patch["metadata"].as_object_mut().and_then(|metadata| metadata.remove("resourceVersion"));
                if version.is_some_and(|version| version != node["metadata"]["resourceVersion"]) {
                    return (409, Value::Null);
                }
                // A subresource changes its part only.
                patch.as_object_mut().unwrap().retain(|key, _| (key == "status") == (rest == ["status"]));
                if call.content_type == "application/strategic-merge-patch+json"
                    && let Some(addresses) = patch.pointer_mut("/status/addresses").and_then(Value::as_array_mut)
                {
                    replace_addresses(addresses);
                }
                merge(&mut node, &patch);
                (200, self.store(name, node))
            }
            ("DELETE", ["api", "v1", "nodes", name]) => {
                let Some(node) = self.nodes.get(*name) else { return (404, Value::Null) };
                let wanted = &call.body["preconditions"];
                let differs = |part: &str| !wanted[part].is_null() && wanted[part] != node["metadata"][part];
                if differs("uid") || differs("resourceVersion") {
                    return (409, Value::Null);
                }
                let details = json!({ "name": name, "kind": "nodes", "uid": node["metadata"]["uid"] });
                self.nodes.remove(*name);
                (200, json!({ "kind": "Status", "apiVersion": "v1", "status": "Success", "details": details }))
            }
            ("GET", ["api", "v1", "services"]) => {
                let items: Vec<&Value> = self.services.values().collect();
                let version = json!({ "resourceVersion": self.version.to_string() });
                (200, json!({ "kind": "List", "apiVersion": "v1", "metadata": version, "items": items }))
            }
            (verb, ["api", "v1", "namespaces", namespace, "services", name, ..]) => {
                self.answer_service(verb, &format!("{namespace}/{name}"), call)
            }
            (verb @ ("GET" | "PATCH"), ["api", "v1", "namespaces", namespace, "configmaps", name]) => {
                let Some(map) = self.config_maps.get_mut(&format!("{namespace}/{name}")) else {
                    return (404, Value::Null);
                };
                if verb == "PATCH" {
                    merge(map, &call.body);
                }
                (200, map.clone())
            }
            ("GET", ["apis", "events.k8s.io", "v1", "namespaces", _, "events"]) => {
                let items: Vec<&Value> = self.events.values().collect();
                (200, json!({ "kind": "EventList", "metadata": {}, "items": items }))
            }
            ("POST", ["apis", "events.k8s.io", "v1", "namespaces", _, "events"]) => {
                let name = call.body["metadata"]["name"].as_str().unwrap().to_owned();
                if self.events.contains_key(&name) {
                    return (409, Value::Null);
                }
                self.events.insert(name, call.body.clone());
                (201, call.body.clone())
            }
            ("PATCH", ["apis", "events.k8s.io", "v1", "namespaces", _, "events", name]) => {
                match self.events.get_mut(*name) {
                    Some(event) => {
                        merge(event, &call.body);
                        (200, event.clone())
                    }
                    None => (404, Value::Null),
                }
            }
            _ => panic!("unexpected request {}", call.line),
        }
    }
}

/// As the real one does: without the first entry it would merge them by type, and it brings those of one type together.
fn replace_addresses(addresses: &mut Vec<Value>) {
    assert_eq!(addresses.remove(0), json!({ "$patch": "replace" }));
    let types: Vec<Value> = addresses.iter().map(|address| address["type"].clone()).collect();
    addresses.sort_by_key(|address| types.iter().position(|one| *one == address["type"]));
}

/// RFC 7396.
pub fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let target = target.as_object_mut().unwrap();
    for (key, value) in patch {
        if value.is_null() {
            target.remove(key);
        } else {
            merge(target.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}

/// An API server. It ends with this value. `N` is what tests read Nodes as.
pub struct FakeApi<N> {
    /// Leads to it.
    pub client: Client,
    state: Arc<Mutex<State>>,
    _server: JoinSet<()>,
    nodes: PhantomData<fn() -> N>,
}

impl<N: DeserializeOwned> FakeApi<N> {
    /// Must be called inside a runtime.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "what needs a runtime has no default")]
    pub fn new() -> Self {
        let (service, handle) = mock::pair::<Request<Body>, Response<Body>>();
        let state = Arc::new(Mutex::new(State { version: 100, ..State::default() }));
        let mut server = JoinSet::new();
        server.spawn(serve(handle, Arc::clone(&state)));
        Self { client: Client::new(service, "default"), state, _server: server, nodes: PhantomData }
    }

    /// What another client did meanwhile.
    pub fn with(&self, act: impl FnOnce(&mut State)) {
        act(&mut self.state.lock());
    }

    /// Adds a Node, and returns it as the API server has it.
    pub fn add(&self, node: Value) -> N {
        let name = node["metadata"]["name"].as_str().unwrap().to_owned();
        serde_json::from_value(self.state.lock().store(&name, node)).unwrap()
    }

    /// Before the next request whose line ends with `line`: changes something, and answers with a status if it likes. Given
    /// several times, they are for the first, the second, … such request.
    pub fn script(&self, line: &str, act: impl FnOnce(&mut State) -> Option<u16> + Send + 'static) {
        self.state.lock().scripts.push((line.to_owned(), Box::new(act)));
    }

    /// Answers the next `times` requests whose line ends with `line` with a status.
    pub fn refuse(&self, line: &str, status: u16, times: usize) {
        for _ in 0..times {
            self.script(line, move |_| Some(status));
        }
    }

    /// Answers the next request whose line ends with `line` with this Status.
    pub fn fail(&self, line: &str, status: Value) {
        self.state.lock().failures.push((line.to_owned(), status));
    }

    /// Answers each `nth` request whose line ends with `line` with a status, and wishes to be asked again after so many seconds.
    pub fn refuse_each(&self, nth: usize, line: &str, status: u16, retry_after: Option<u64>) {
        let repeated = Repeated { line: line.to_owned(), nth, seen: 0, status, retry_after };
        self.state.lock().repeated.push(repeated);
    }

    /// Answers the next `times` requests whose line ends with `line` as something in between would: with this status and this text.
    pub fn interfere(&self, line: &str, status: u16, text: &str, times: usize) {
        let texts = &mut self.state.lock().texts;
        texts.extend(std::iter::repeat_n((line.to_owned(), status, text.to_owned()), times));
    }

    /// Lists come in pages from now on, where they are asked for so.
    pub fn serve_in_pages(&self) {
        self.state.lock().in_pages = true;
    }

    /// Never answers requests whose line contains `part`.
    pub fn silence(&self, part: &str) {
        self.state.lock().silent.push(part.to_owned());
    }

    /// Ends all watches, which say nothing before, since what they have seen is no more: who watches makes a new list.
    pub fn expire_watches(&self) {
        for watch in std::mem::take(&mut self.state.lock().watches) {
            let body = Body::from(serde_json::to_vec(&failure(410, "GET")).unwrap());
            watch.send_response(Response::builder().status(410).body(body).unwrap());
        }
    }

    /// Does what the next request asks whose line ends with `line`, but answers that nobody knows.
    pub fn lose_answer(&self, line: &str) {
        self.state.lock().lost.push(line.to_owned());
    }

    /// Another writer.
    pub fn edit(&self, name: &str, patch: &Value) -> N {
        self.state.lock().edit(name, patch);
        self.node(name)
    }

    /// A Node as it is.
    pub fn node(&self, name: &str) -> N {
        serde_json::from_value(self.json(name)).unwrap()
    }

    /// The same as JSON.
    pub fn json(&self, name: &str) -> Value {
        self.state.lock().nodes[name].clone()
    }

    /// Whether there is a Node of this name.
    pub fn has(&self, name: &str) -> bool {
        self.state.lock().nodes.contains_key(name)
    }

    /// All Events as they are.
    pub fn raw_events(&self) -> Vec<Value> {
        self.state.lock().events.values().cloned().collect()
    }

    /// All requests, in order.
    pub fn calls(&self) -> Vec<Call> {
        self.state.lock().calls.clone()
    }

    /// Their lines.
    pub fn lines(&self) -> Vec<String> {
        self.state.lock().calls.iter().map(|call| call.line.clone()).collect()
    }

    /// How many requests had a line that contains `part`.
    pub fn count(&self, part: &str) -> usize {
        self.lines().iter().filter(|line| line.contains(part)).count()
    }

    /// `type reason: note` of all Events, in order of their names, which is the order of time. What was said more than once
    /// ends with ` (N times)`.
    pub fn events(&self) -> Vec<String> {
        let told = |event: &Value| {
            let part = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
            let times = event["series"]["count"].as_u64().map(|count| format!(" ({count} times)")).unwrap_or_default();
            format!("{} {}: {}{times}", part("type"), part("reason"), part("note"))
        };
        self.state.lock().events.values().map(told).collect()
    }
}

/// The Status that goes with a code, for the commonest cause.
fn failure(code: u16, verb: &str) -> Value {
    let (reason, message) = match (code, verb) {
        (403, _) => ("Forbidden", "no: User \"ccm\" cannot do this"),
        (404, _) => ("NotFound", "no"),
        (409, "POST") => ("AlreadyExists", "no"),
        (409, _) => ("Conflict", "no"),
        _ => ("Scripted", "no"),
    };
    let details = json!({ "name": "x", "kind": "things" });
    json!({ "kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message, "details": details })
}

/// The page of a list that a query asks for.
fn page(mut list: Value, query: &str) -> Value {
    let part = |name: &str| query.split('&').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
    let limit = part("limit").map(|limit| limit.parse::<usize>().unwrap());
    let (Some(limit), Some(items)) = (limit, list["items"].as_array().cloned()) else { return list };
    let start: usize = part("continue").map_or(0, |token| token.parse().unwrap());
    let end = items.len().min(start + limit);
    if end < items.len() {
        list["metadata"]["continue"] = json!(end.to_string());
    }
    list["items"] = json!(items[start..end]);
    list
}

async fn serve(mut handle: mock::Handle<Request<Body>, Response<Body>>, state: Arc<Mutex<State>>) {
    let mut unanswered = Vec::new();
    while let Some((request, respond)) = handle.next_request().await {
        let (parts, body) = request.into_parts();
        let bytes = body.collect_bytes().await.unwrap();
        let header = parts.headers.get("content-type").map_or("", |value| value.to_str().unwrap());
        let call = Call {
            line: format!("{} {}", parts.method, parts.uri.path()),
            query: parts.uri.query().unwrap_or_default().to_owned(),
            content_type: header.to_owned(),
            body: serde_json::from_slice(&bytes).unwrap_or(Value::Null),
        };
        let watch = call.query.contains("watch=true");
        let mut state = state.lock();
        state.calls.push(call.clone());
        if watch {
            state.watches.push(respond);
            continue;
        }
        if state.silent.iter().any(|part| call.line.contains(part)) {
            unanswered.push(respond);
            continue;
        }
        if let Some(place) = state.texts.iter().position(|(line, ..)| call.line.ends_with(line)) {
            let (_, status, text) = state.texts.remove(place);
            respond.send_response(Response::builder().status(status).body(Body::from(text.into_bytes())).unwrap());
            continue;
        }
        let repeated = state.repeated.iter_mut().find(|repeated| call.line.ends_with(&repeated.line));
        if let Some((status, retry_after)) = repeated.and_then(Repeated::next) {
            let mut body = failure(status, parts.method.as_str());
            if let Some(seconds) = retry_after {
                body["details"]["retryAfterSeconds"] = json!(seconds);
            }
            let body = Body::from(serde_json::to_vec(&body).unwrap());
            let answer = retry_after
                .into_iter()
                .fold(Response::builder().status(status), |answer, seconds| answer.header("retry-after", seconds));
            respond.send_response(answer.body(body).unwrap());
            continue;
        }
        let place = state.scripts.iter().position(|(line, _)| call.line.ends_with(line));
        let forced = place.map(|place| state.scripts.remove(place)).and_then(|(_, act)| act(&mut state));
        let place = state.failures.iter().position(|(line, _)| call.line.ends_with(line));
        let scripted = place.map(|place| state.failures.remove(place).1);
        let code = scripted.as_ref().map(|failure| u16::try_from(failure["code"].as_u64().unwrap()).unwrap());
        let (mut status, body) = forced.or(code).map_or_else(|| state.answer(&call), |status| (status, Value::Null));
        if let Some(place) = state.lost.iter().position(|line| call.line.ends_with(line)) {
            state.lost.remove(place);
            status = 504;
        }
        let body = match status {
            200..300 if state.in_pages => page(body, &call.query),
            200..300 => body,
            _ => scripted.unwrap_or_else(|| failure(status, parts.method.as_str())),
        };
        let body = Body::from(serde_json::to_vec(&body).unwrap());
        respond.send_response(Response::builder().status(status).body(body).unwrap());
    }
}
