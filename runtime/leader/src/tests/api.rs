//! One Lease behind `tower_test::mock`: resource versions, conflicts, and an API server that is slow, silent or gone.

use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tower_test::mock;

/// How the API server is.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Mood {
    /// It answers after this long.
    Answers(Duration),
    /// It refuses with this status.
    Refuses(u16),
    /// It refuses with a message of many lines.
    Shouts,
    /// It does nothing and says nothing.
    Silent,
    /// It does what it is asked for, and the answer is lost.
    LosesAnswers,
    /// Something in between says that all is well, and it hears of nothing.
    Pretends,
}

struct State {
    lease: Option<Value>,
    version: u64,
    uids: u64,
    mood: Mood,
    /// Verb and time of each request.
    asked: Vec<(String, Instant)>,
}

/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct FakeLeases {
    state: Arc<Mutex<State>>,
    tasks: Arc<Mutex<JoinSet<()>>>,
}

impl FakeLeases {
    pub(crate) fn new() -> Self {
        let mood = Mood::Answers(Duration::ZERO);
        let state = State { lease: None, version: 0, uids: 0, mood, asked: vec![] };
        Self { state: Arc::new(Mutex::new(state)), tasks: Arc::default() }
    }

    /// Another client of the same API server.
    pub(crate) fn client(&self) -> Client {
        let (service, mut handle) = mock::pair::<Request<Body>, Response<Body>>();
        let this = self.clone();
        self.tasks.lock().spawn(async move {
            let mut answers = JoinSet::new();
            while let Some((request, respond)) = handle.next_request().await {
                let this = this.clone();
                answers.spawn(async move {
                    match this.answer(request).await {
                        Some(response) => respond.send_response(response),
                        None => std::future::pending().await,
                    }
                });
            }
        });
        Client::new(service, "default")
    }

    pub(crate) fn is(&self, mood: Mood) {
        self.state.lock().mood = mood;
    }

    /// Writes the Lease as somebody else.
    pub(crate) fn put(&self, spec: &Value) {
        self.state.lock().store(spec);
    }

    pub(crate) fn label(&self) {
        let mut state = self.state.lock();
        let spec = state.lease.as_ref().unwrap()["spec"].clone();
        let stored = state.store(&spec);
        state.lease.as_mut().unwrap()["metadata"]["labels"] =
            json!({ "version": stored["metadata"]["resourceVersion"] });
    }

    pub(crate) fn delete(&self) {
        self.state.lock().lease = None;
    }

    pub(crate) fn lease(&self) -> Lease {
        serde_json::from_value(self.state.lock().lease.clone().unwrap()).unwrap()
    }

    /// Verbs of the requests since the last time.
    pub(crate) fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().asked).into_iter().map(|(verb, _)| verb).collect()
    }

    async fn answer(&self, request: Request<Body>) -> Option<Response<Body>> {
        const PATH: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
        let verb = request.method().to_string();
        let path = request.uri().path().to_owned();
        let named = format!("{PATH}/cloud-controller-manager");
        assert!(if verb == "POST" { path == PATH } else { path == named }, "{verb} {path}");
        let body = request.into_body().collect_bytes().await.unwrap();
        let mood = self.state.lock().mood;
        self.state.lock().asked.push((verb.clone(), Instant::now()));
        let (status, body) = match mood {
            Mood::Silent => return None,
            Mood::Refuses(status) => (status, Value::Null),
            Mood::Shouts => (422, Value::Null),
            Mood::Pretends => (200, json!({ "metadata": {} })),
            Mood::Answers(_) | Mood::LosesAnswers => {
                self.state.lock().done(&verb, &serde_json::from_slice(&body).unwrap_or_default())
            }
        };
        match mood {
            Mood::Answers(delay) => tokio::time::sleep(delay).await,
            Mood::LosesAnswers => return None,
            _ => {}
        }
        let body = match status {
            200 => body,
            _ => {
                let shouted = format!("refused\n[-]x failed: {}", "x\n".repeat(1000));
                let (reason, message) = match (status, verb.as_str()) {
                    (422, _) => ("Invalid", shouted.as_str()),
                    (403, _) => ("Forbidden", "leases is forbidden: User \"ccm\" cannot get this"),
                    (404, _) => ("NotFound", "as told"),
                    (409, "POST") => ("AlreadyExists", "as told"),
                    (409, _) => ("Conflict", "as told"),
                    _ => ("", "as told"),
                };
                json!({ "kind": "Status", "status": "Failure", "message": message, "reason": reason, "code": status })
            }
        };
        let body = Body::from(serde_json::to_vec(&body).unwrap());
        Some(Response::builder().status(status).body(body).unwrap())
    }
}

impl State {
    fn store(&mut self, spec: &Value) -> Value {
        self.version += 1;
        let metadata = match &self.lease {
            Some(lease) => lease["metadata"].clone(),
            None => {
                self.uids += 1;
                json!({
                    "name": "cloud-controller-manager", "namespace": "kube-system", "uid": format!("uid-{}", self.uids),
                })
            }
        };
        let mut lease = json!({ "metadata": metadata, "spec": spec });
        lease["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.lease = Some(lease.clone());
        lease
    }

    fn done(&mut self, verb: &str, body: &Value) -> (u16, Value) {
        match (verb, &self.lease) {
            ("GET" | "PUT", None) => (404, Value::Null),
            ("GET", Some(lease)) => (200, lease.clone()),
            ("POST", None) => (200, self.store(&body["spec"])),
            ("POST", Some(_)) => (409, Value::Null),
            ("PUT", Some(lease)) => {
                let (seen, now) = (&body["metadata"]["resourceVersion"], &lease["metadata"]["resourceVersion"]);
                assert!(!seen.is_null(), "a record is written over the one that was seen");
                if seen != now { (409, Value::Null) } else { (200, self.store(&body["spec"])) }
            }
            _ => panic!("{verb}"),
        }
    }
}
