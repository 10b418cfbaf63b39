//! A client of the API server that sends nothing but GET. It notes every write, and answers it as the API server would.

use std::collections::HashMap;
use std::sync::Arc;

use ccm_controllers::LOAD_BALANCER_READY;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::journal::{Journal, Stopped};
use crate::patch::{self, Patched};

/// The copy that kubectl keeps of what it applied last.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// A client that reads by way of `client`. Nothing else leaves, whatever is asked for.
#[must_use]
pub fn read_only(client: &Client, journal: Arc<Journal>) -> Client {
    let namespace = client.default_namespace().to_owned();
    // It begins with the cluster as it is.
    journal.written.clear();
    let stopping = Arc::new(Stopping { client: client.clone(), journal });
    let service = tower::service_fn(move |request: Request<Body>| {
        let stopping = Arc::clone(&stopping);
        async move { stopping.answer(request).await }
    });
    Client::new(service, namespace)
}

struct Stopping {
    client: Client,
    journal: Arc<Journal>,
}

/// Objects as they would be after the writes so far, by path; none for one that would be gone.
#[derive(Debug, Default)]
pub(crate) struct Written(Mutex<HashMap<String, Option<Value>>>);

impl Written {
    /// Whether it knows of the object with this path.
    pub(crate) fn is_about(&self, path: &str) -> bool {
        self.0.lock().contains_key(path)
    }

    fn get(&self, path: &str) -> Option<Option<Value>> {
        self.0.lock().get(path).cloned()
    }

    pub(crate) fn insert(&self, path: String, object: Option<Value>) {
        self.0.lock().insert(path, object);
    }

    /// The object with this path was handed over: nobody reads it again. That it would be gone is still known.
    pub(crate) fn forget(&self, path: &str) {
        let mut written = self.0.lock();
        if written.get(path).is_some_and(Option::is_some) {
            written.remove(path);
        }
    }

    fn clear(&self) {
        self.0.lock().clear();
    }

    /// How many bytes of text it holds.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        fn text(value: &Value) -> usize {
            match value {
                Value::String(text) => text.len(),
                Value::Array(items) => items.iter().map(text).sum(),
                Value::Object(members) => members.iter().map(|(name, value)| name.len() + text(value)).sum(),
                _ => 0,
            }
        }
        self.0.lock().values().flatten().map(text).sum()
    }
}

impl Stopping {
    /// This is the one place that keeps a plan from writing to the cluster.
    async fn answer(&self, request: Request<Body>) -> kube::Result<Response<Body>> {
        if request.method() == Method::GET {
            // Whoever reads again sees its own write. With the state of before, it would write until it gives up.
            let written = self.journal.written.get(request.uri().path());
            return match written {
                Some(written) => Ok(written.map_or_else(deleted, |object| answer(StatusCode::OK, &object))),
                None => self.client.send(request).await,
            };
        }
        let (parts, body) = request.into_parts();
        let body = body.collect_bytes().await?;
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let path = parts.uri.path().to_owned();
        let object = object_of(&path).to_owned();
        let kind = content_type(&parts.headers).to_owned();
        let is_patch = parts.method == Method::PATCH;
        if !is_patch && parts.method != Method::DELETE {
            self.note(&parts.method, path, body, false);
            return Ok(refusal(StatusCode::FORBIDDEN, "Forbidden", "a plan does not write"));
        }
        let before = match self.before(&object).await? {
            Ok(before) => before,
            Err(answer) => return Ok(answer),
        };
        let preconditions = if is_patch { body.get("metadata") } else { body.get("preconditions") };
        let differs = |name: &str| {
            let wanted =
                preconditions.and_then(|preconditions| preconditions.get(name)).filter(|wanted| !wanted.is_null());
            wanted.is_some_and(|wanted| Some(wanted) != before.pointer(&format!("/metadata/{name}")))
        };
        if differs("uid") || differs("resourceVersion") {
            return Ok(refusal(StatusCode::CONFLICT, "Conflict", "the object has been modified"));
        }
        let after = match is_patch {
            true => patch::apply(&before, &body, &kind),
            false => {
                Patched::Done(json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success" }))
            }
        };
        let after = match after {
            Patched::Done(after) => after,
            Patched::TestFailed => {
                return Ok(refusal(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", "a test of the patch does not hold"));
            }
        };
        self.note(&parts.method, path, body, makes_ready(&before, &after));
        let after = if is_patch { patch::as_newer(after) } else { after };
        let answer = answer(StatusCode::OK, &after);
        self.journal.written.insert(object, is_patch.then_some(after));
        Ok(answer)
    }

    fn note(&self, method: &Method, path: String, body: Value, makes_ready: bool) {
        self.journal.note(Stopped::Cluster { method: method.to_string(), path, body, makes_ready });
    }

    /// The object as it is by now, or what the API server says instead.
    async fn before(&self, path: &str) -> kube::Result<Result<Value, Response<Body>>> {
        if let Some(written) = self.journal.written.get(path) {
            return Ok(written.ok_or_else(deleted));
        }
        let request = Request::get(path).body(Body::empty()).map_err(kube::Error::HttpError)?;
        let answer = self.client.send(request).await?;
        if !answer.status().is_success() {
            return Ok(Err(answer));
        }
        let body = answer.into_body().collect_bytes().await?;
        let mut object: Value = serde_json::from_slice(&body).map_err(kube::Error::SerdeError)?;
        // The largest parts of it, which nobody asks for: a plan may keep hundreds of objects at the same time.
        for (place, name) in
            [("/metadata", "managedFields"), ("/metadata/annotations", LAST_APPLIED), ("/status", "images")]
        {
            if let Some(members) = object.pointer_mut(place).and_then(Value::as_object_mut) {
                drop(members.remove(name));
            }
        }
        Ok(Ok(object))
    }
}

/// Whether a Service said that its load balancer is not ready, and says that it is.
fn makes_ready(before: &Value, after: &Value) -> bool {
    let says = |object: &Value| {
        let is = |condition: &Value, name: &str, text: &str| condition.get(name).is_some_and(|value| value == text);
        let conditions = object.pointer("/status/conditions")?.as_array()?;
        let ready = conditions.iter().find(|condition| is(condition, "type", LOAD_BALANCER_READY))?;
        Some(is(ready, "status", "True"))
    };
    says(before) == Some(false) && says(after) == Some(true)
}

pub(crate) fn content_type(headers: &HeaderMap) -> &str {
    headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default()
}

/// What is said of an object that there is none of any more.
fn deleted() -> Response<Body> {
    refusal(StatusCode::NOT_FOUND, "NotFound", "the plan deletes it before")
}

/// The path of an object, without the part of it that is written. An object may be called `status` as well.
pub(crate) fn object_of(path: &str) -> &str {
    let Some(object) = path.strip_suffix("/status") else { return path };
    // After `/api/v1` or `/apis/GROUP/VERSION`: RESOURCE/NAME, or the same behind namespaces/NAMESPACE.
    let start = if path.starts_with("/apis/") { 4 } else { 3 };
    let names = object.split('/').skip(start).collect::<Vec<_>>();
    let wanted = if names.first() == Some(&"namespaces") { 4 } else { 2 };
    if names.len() == wanted { object } else { path }
}

pub(crate) fn answer(status: StatusCode, body: &Value) -> Response<Body> {
    let mut response = Response::new(Body::from(body.to_string().into_bytes()));
    *response.status_mut() = status;
    response
}

pub(crate) fn refusal(status: StatusCode, reason: &str, message: &str) -> Response<Body> {
    let code = status.as_u16();
    let body = json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": reason, "message": message, "code": code });
    answer(status, &body)
}

#[cfg(test)]
pub(crate) mod tests;
