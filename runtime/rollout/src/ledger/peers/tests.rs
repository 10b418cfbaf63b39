mod answers;

use std::collections::BTreeMap;

use ccm_cloud::is_plain;
use http::{Method, Request, Response};
use jiff::Timestamp;
use kube::client::Body;
use serde_json::Value;

use super::*;
use crate::slot::Refusal;

/// An API server with one ConfigMap, one Lease, and somebody else who writes at the same time.
#[derive(Default)]
pub(crate) struct Server {
    /// None: there is no ConfigMap.
    pub(crate) data: Option<BTreeMap<String, String>>,
    version: u64,
    pub(crate) lease: Option<Value>,
    /// Whether its holder renews it before each look.
    pub(crate) is_renewed: bool,
    /// Types and reasons of Events, in the order of their writes.
    pub(crate) events: Vec<String>,
    /// Writes of somebody else that come between a read and a write.
    others: u32,
    writes: u32,
    pub(crate) reads: u32,
    /// Whether it answers no read of the ConfigMap.
    pub(crate) is_silent: bool,
    /// Reads, in their order, that are answered with 503.
    pub(crate) failing_reads: std::ops::Range<u32>,
    /// What the ConfigMap holds once it was read.
    pub(crate) later: Option<BTreeMap<String, String>>,
    /// What becomes of requests with this method.
    fault: Option<(Method, Fault)>,
}

#[derive(Clone, Copy)]
enum Fault {
    /// They are answered with this status and text, and have no effect.
    Status(u16, &'static str),
    /// They have their effect, and no answer.
    Silence,
    /// The ConfigMap is deleted before them.
    Deleted,
}

pub(crate) type Shared = Arc<Mutex<Server>>;

impl Server {
    pub(crate) fn new(data: Option<BTreeMap<String, String>>) -> Shared {
        Arc::new(Mutex::new(Self { data, ..Self::default() }))
    }

    /// None: no answer.
    fn answers(&mut self, method: &Method, path: &str, body: &[u8]) -> Option<(u16, Value)> {
        if path.ends_with("/configmaps") {
            // The watch: it tells nothing.
            return None;
        }
        if path.starts_with("/apis/events.k8s.io/") {
            let event: Value = serde_json::from_slice(body).unwrap();
            let word = |key: &str| event[key].as_str().unwrap_or_default().to_owned();
            self.events.push(format!("{} {}", word("type"), word("reason")));
            return Some((201, event));
        }
        if self.is_silent {
            self.reads += 1;
            return None;
        }
        match self.fault.as_ref().filter(|(of, _)| of == method).map(|(_, fault)| *fault) {
            Some(Fault::Status(code, text)) => return Some(status(code, text)),
            Some(Fault::Silence) => {
                self.answered(method, path, body);
                return None;
            }
            Some(Fault::Deleted) => self.data = None,
            None => {}
        }
        Some(self.answered(method, path, body))
    }

    fn answered(&mut self, method: &Method, path: &str, body: &[u8]) -> (u16, Value) {
        if path.contains("/leases/") {
            if let Some(spec) = self.lease.as_mut().filter(|_| self.is_renewed) {
                self.version += 1;
                spec["leaseTransitions"] = json!(self.version);
            }
            return match &self.lease {
                Some(spec) => (200, json!({ "metadata": { "name": "ccm" }, "spec": spec })),
                None => status(404, "NotFound"),
            };
        }
        assert_eq!(path, "/api/v1/namespaces/kube-system/configmaps/wasm-ccm-components");
        if *method == Method::GET {
            let number = self.reads;
            self.reads += 1;
            if self.failing_reads.contains(&number) {
                return status(503, "away");
            }
        }
        let Some(data) = &mut self.data else { return status(404, "NotFound") };
        if *method == Method::PATCH {
            if self.others > 0 {
                self.others -= 1;
                self.version += 1;
                data.insert("other".into(), self.version.to_string());
            }
            let patch: Value = serde_json::from_slice(body).unwrap();
            if patch["metadata"]["resourceVersion"].as_str() != Some(self.version.to_string().as_str()) {
                return status(409, "Conflict");
            }
            for (key, value) in patch["data"].as_object().unwrap() {
                data.insert(key.clone(), value.as_str().unwrap().to_owned());
            }
            self.version += 1;
            self.writes += 1;
        }
        let metadata =
            json!({ "name": CONFIG_MAP, "namespace": "kube-system", "resourceVersion": self.version.to_string() });
        let answer = (200, json!({ "metadata": metadata, "data": data }));
        if let Some(later) = self.later.take() {
            *data = later;
            self.version += 1;
        }
        answer
    }
}

fn status(code: u16, text: &str) -> (u16, Value) {
    let reason = match code {
        403 => "Forbidden",
        404 => "NotFound",
        409 => "Conflict",
        _ => "",
    };
    (code, json!({ "kind": "Status", "status": "Failure", "message": text, "reason": reason, "code": code }))
}

/// What asks this server.
pub(crate) fn client(server: &Shared) -> Client {
    let server = Arc::clone(server);
    let service = tower::service_fn(move |request: Request<Body>| {
        let server = Arc::clone(&server);
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect_bytes().await.unwrap();
            let answer = server.lock().answers(&parts.method, parts.uri.path(), &body);
            let Some((code, answer)) = answer else { return std::future::pending().await };
            let answer = Body::from(answer.to_string().into_bytes());
            Ok::<_, std::convert::Infallible>(Response::builder().status(code).body(answer).unwrap())
        }
    });
    Client::new(service, "default")
}

pub(crate) fn settings(lease: Option<&str>) -> PeerSettings {
    PeerSettings {
        namespace: "kube-system".into(),
        lease: lease.unwrap_or("ccm").into(),
        identity: lease.map(|_| "this".to_owned()),
    }
}

pub(crate) fn peers(server: &Shared, source: &str, lease: Option<&str>) -> Arc<Peers> {
    Peers::new(settings(lease), &client(server), source, &Trust::default())
}

fn refused(digest: &str) -> Judgement {
    Judgement::Refused(Refusal { digest: digest.into(), reason: "it crashed".into(), at: Timestamp::UNIX_EPOCH })
}

#[tokio::test]
async fn what_one_replica_finds_out_another_one_knows_and_nothing_is_written_twice() {
    let server = Server::new(Some(BTreeMap::new()));
    let (one, other) = (peers(&server, "/provider", None), peers(&server, "/provider", None));
    assert_eq!(one.read().await.unwrap(), LedgerEntry::of("/provider"));
    one.tell(&[refused("a"), Judgement::Proven("b".into())]).await.unwrap();
    let known = other.tell(&[refused("a"), refused("c")]).await.unwrap();
    assert_eq!(
        (known.proven.as_deref(), known.why("a"), known.why("c")),
        (Some("b"), Some("it crashed"), Some("it crashed"))
    );
    assert_eq!(one.tell(&[refused("c")]).await.unwrap(), known);
    assert_eq!(server.lock().writes, 2);
    let another = peers(&server, "/another", None);
    assert_eq!(another.read().await.unwrap(), LedgerEntry::of("/another"), "each source has its own");
    let manager = peers(&server, "/provider", Some("another-manager"));
    assert_eq!(manager.read().await.unwrap(), LedgerEntry::of("/provider"), "and each manager");
}

#[tokio::test(start_paused = true)]
async fn an_entry_that_others_write_at_the_same_time_loses_nothing() {
    let server = Server::new(Some(BTreeMap::new()));
    server.lock().others = 3;
    let one = peers(&server, "/provider", None);
    one.tell(&[refused("a")]).await.unwrap();
    assert_eq!(server.lock().data.as_ref().unwrap()["other"], "3");
    assert!(one.read().await.unwrap().why("a").is_some());
    server.lock().others = u32::MAX;
    assert!(matches!(one.tell(&[refused("b")]).await, Err(PeersError::Conflict(_))));
}

#[tokio::test]
async fn a_config_map_that_is_missing_is_told_with_the_way_out() {
    let error = peers(&Server::new(None), "/provider", None).tell(&[refused("a")]).await.unwrap_err();
    assert!(error.is_for_the_operator());
    let says = "the ConfigMap kube-system/wasm-ccm-components does not exist; apply your overlay again (the ConfigMap is in manifests/base/components.yaml)";
    assert_eq!(error.to_string(), says);
}

#[tokio::test]
async fn an_entry_that_somebody_broke_counts_for_nothing() {
    let server = Server::new(Some(BTreeMap::new()));
    let one = peers(&server, "/provider", None);
    for text in
        ["", "{", "[]", r#"{"source":"/another","refused":[{"digest":"a","reason":"","at":"1970-01-01T00:00:00Z"}]}"#]
    {
        server.lock().data = Some([(one.key.clone(), text.to_owned())].into());
        assert_eq!(one.read().await.unwrap(), LedgerEntry::of("/provider"), "{text}");
    }
    one.tell(&[refused("a")]).await.unwrap();
    assert!(one.read().await.unwrap().why("a").is_some());
}

#[tokio::test(start_paused = true)]
async fn whoever_renews_the_lease_serves_and_whoever_does_not_is_not_waited_for() {
    let server = Server::new(None);
    let held =
        |by: &str, renewed: &str| json!({ "holderIdentity": by, "leaseDurationSeconds": 15, "renewTime": renewed });
    let one = peers(&server, "/provider", Some("ccm"));
    let leads = async || one.leader().await.unwrap();
    assert_eq!(leads().await, None, "there is no Lease");
    server.lock().lease = Some(held("", "2026-01-01T00:00:00.000000Z"));
    assert_eq!(leads().await, None, "it was released");
    // Whatever the clock of its holder says.
    server.lock().lease = Some(held("a", "2001-01-01T00:00:00.000000Z"));
    for seconds in [0, 10, 5] {
        tokio::time::advance(Duration::from_secs(seconds)).await;
        assert_eq!(leads().await.as_deref(), Some("a"));
    }
    server.lock().lease = Some(held("a", "2001-01-01T00:00:09.000000Z"));
    assert_eq!(leads().await.as_deref(), Some("a"), "it was renewed");
    tokio::time::advance(Duration::from_secs(16)).await;
    assert_eq!(leads().await, None, "it was not renewed again");
    assert_eq!(peers(&server, "/provider", None).leader().await.unwrap(), None, "there is no election");
}

/// Whoever may write the Lease once forged lines of the log and of the page with it, and filled both.
#[tokio::test(start_paused = true)]
async fn what_the_holder_of_a_lease_calls_itself_is_one_short_line_in_refusals_and_in_the_log() {
    let server = Server::new(None);
    let held = |by: &str| json!({ "holderIdentity": by, "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z" });
    let long = format!("another\n[+]leader ok \u{1b}[2J\u{202e}{}", "x".repeat(100_000));
    server.lock().lease = Some(held(&long));
    let one = peers(&server, "/provider", Some("ccm"));
    let (leader, other) = (one.leader().await.unwrap().unwrap(), one.other().await.unwrap().unwrap().0);
    for told in [leader, other] {
        let is_short = told.len() < 300 && told.chars().all(is_plain);
        assert!(is_short && told.starts_with("another") && told.ends_with("x…"), "{} bytes: {told:.300}", told.len());
    }
    // Whose name is that long is nobody else.
    let own = Peers::new(
        PeerSettings { identity: Some(long), ..settings(Some("ccm")) },
        &client(&server),
        "/provider",
        &Trust::default(),
    );
    assert_eq!(own.other().await.unwrap(), None);
}

/// Of more than five providers that a new leader had, some gave up.
#[tokio::test(start_paused = true)]
async fn all_providers_of_a_process_can_write_at_the_same_time() {
    let server = Server::new(Some(BTreeMap::new()));
    let judgements = [refused("a")];
    let all: Vec<_> = (0..30).map(|number| peers(&server, &format!("/provider-{number}"), None)).collect();
    let told = futures::future::join_all(all.iter().map(|one| one.tell(&judgements))).await;
    assert!(told.iter().all(Result::is_ok), "{told:?}");
    assert_eq!(server.lock().data.as_ref().unwrap().len(), 30);
}
