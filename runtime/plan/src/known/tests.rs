use std::sync::atomic::{AtomicBool, Ordering};

use kube::runtime::reflector::store;
use kube::runtime::watcher::Event;
use parking_lot::Mutex;

use super::*;
use crate::api_server::refusal;
use crate::api_server::tests::send;
use crate::{read_only, sealed};

/// Whether the API server is there.
const QUESTION: &str = "GET /api/v1/nodes";
const NODE: &str = "/api/v1/nodes/n1";
const WEB: &str = "/api/v1/namespaces/default/services/web";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const MERGE: &str = "application/merge-patch+json";

fn object(name: &str, version: &str) -> Value {
    json!({
        "metadata": { "name": name, "namespace": "default", "uid": "1", "resourceVersion": version, "labels": { "a": "b" } },
        "status": { "conditions": [{ "type": "Ready", "status": "True", "reason": "", "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z" }] },
    })
}

/// What was read of the API server.
type Seen = Arc<Mutex<Vec<String>>>;

/// An API server that has these objects in version 9, of which version 7 is in memory; what was read of it; and the journal.
fn known() -> (Known, Seen, Arc<Journal>) {
    known_of(Arc::new(AtomicBool::new(true)))
}

/// The same, of one that may be away.
fn known_of(is_there: Arc<AtomicBool>) -> (Known, Seen, Arc<Journal>) {
    let seen: Seen = Arc::default();
    let told = Arc::clone(&seen);
    let service = tower::service_fn(move |request: Request<Body>| {
        let (path, name) = (request.uri().path(), request.uri().path().rsplit('/').next().unwrap());
        let answered = match (is_there.load(Ordering::Relaxed), path) {
            (false, _) => refusal(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", "it is away"),
            (true, "/api/v1/nodes") => answer(StatusCode::OK, &json!({ "metadata": {}, "items": [] })),
            (true, _) => answer(StatusCode::OK, &object(name, "9")),
        };
        told.lock().push(format!("{} {path}", request.method()));
        async move { Ok::<_, std::convert::Infallible>(answered) }
    });
    let journal: Arc<Journal> = Arc::default();
    let client = read_only(&sealed(&Client::new(service, "default")), Arc::clone(&journal));
    let ((nodes, mut of_nodes), (services, mut of_services)) = (store(), store());
    of_nodes.apply_watcher_event(&Event::Apply(serde_json::from_value(object("n1", "7")).unwrap()));
    of_services.apply_watcher_event(&Event::Apply(serde_json::from_value(object("web", "7")).unwrap()));
    let server = Arc::default();
    (Known { client, journal: Arc::clone(&journal), nodes, services, server, is_unread: false }, seen, journal)
}

#[tokio::test]
async fn what_is_in_memory_is_patched_without_a_look_at_it_in_the_api_server() {
    let (known, seen, journal) = known();
    let client = known.client();
    for path in [NODE, WEB] {
        let patch = json!({ "metadata": { "uid": "1", "resourceVersion": "7", "labels": { "c": "d" } } });
        let (code, after) = send(&client, Method::PATCH, path, STRATEGIC, patch.clone()).await;
        assert_eq!((code, &after["metadata"]["resourceVersion"]), (StatusCode::OK, &json!("8")), "{path}");
        // Bound to the state of before, as whoever else writes to it is.
        assert_eq!(send(&client, Method::PATCH, path, STRATEGIC, patch).await.0, StatusCode::CONFLICT, "{path}");
        let (_, now) = send(&client, Method::GET, path, "", Value::Null).await;
        assert_eq!(now["metadata"]["labels"], json!({ "a": "b", "c": "d" }), "{path}");
        let next = json!({ "metadata": { "resourceVersion": "8" }, "status": { "conditions": [{ "type": "A" }] } });
        let (_, after) = send(&client, Method::PATCH, &format!("{path}/status"), STRATEGIC, next).await;
        assert_eq!(after["status"]["conditions"].as_array().unwrap().len(), 2, "{path}: {after}");
        assert_eq!(journal.take().len(), 2, "{path}");
        journal.written.forget(path);
    }
    assert_eq!((seen.lock().as_slice(), journal.written.bytes()), ([QUESTION.to_owned()].as_slice(), 0));
}

/// What a look of hours finds in memory must not be old when it ends; and a large cluster must not ask for each object.
#[tokio::test(start_paused = true)]
async fn while_the_api_server_is_away_what_is_in_memory_says_nothing() {
    let is_there = Arc::new(AtomicBool::new(true));
    let (known, seen, journal) = known_of(Arc::clone(&is_there));
    let clients = [known.clone().client(), known.unread().client()];
    let patch = json!({ "metadata": { "uid": "1", "labels": { "c": "d" } } });
    let (read, gone) = (format!("GET {NODE}"), StatusCode::SERVICE_UNAVAILABLE);
    // Every 30 seconds. An answer holds for 60, and meanwhile nothing is asked for, or each object is.
    for (there, code, asked) in [
        (true, StatusCode::OK, vec![QUESTION]),
        (false, StatusCode::OK, vec![]),
        (false, gone, vec![QUESTION, &read, &read]),
        (true, StatusCode::OK, vec![&read, &read]),
        (true, StatusCode::OK, vec![QUESTION]),
    ] {
        is_there.store(there, Ordering::Relaxed);
        for client in &clients {
            assert_eq!(send(client, Method::PATCH, NODE, STRATEGIC, patch.clone()).await.0, code, "{asked:?}");
            journal.written.forget(NODE);
        }
        assert_eq!(std::mem::take(&mut *seen.lock()), asked);
        assert_eq!(journal.take().len(), if code == gone { 0 } else { 2 }, "{asked:?}");
        tokio::time::advance(ANSWER_HOLDS / 2).await;
    }
}

/// Who patches what another one has written meanwhile meets that, as in `run`.
#[tokio::test]
async fn another_version_another_object_and_the_tests_of_a_json_patch_are_looked_up() {
    let (known, seen, journal) = known();
    let client = known.client();
    let newer = json!({ "metadata": { "resourceVersion": "9" } });
    let other = json!({ "metadata": { "uid": "2" } });
    let test = json!([{ "op": "test", "path": "/metadata/resourceVersion", "value": "9" }]);
    for (path, kind, patch, code) in [
        (NODE, MERGE, newer.clone(), StatusCode::OK),
        (WEB, STRATEGIC, newer, StatusCode::OK),
        (NODE, STRATEGIC, other.clone(), StatusCode::CONFLICT),
        (WEB, MERGE, other, StatusCode::CONFLICT),
        (WEB, JSON_PATCH, test, StatusCode::OK),
        ("/api/v1/nodes/n2", MERGE, json!({}), StatusCode::OK),
        ("/api/v1/namespaces/other/services/web", MERGE, json!({}), StatusCode::OK),
        ("/api/v1/namespaces/default/configmaps/web", MERGE, json!({}), StatusCode::OK),
    ] {
        assert_eq!(send(&client, Method::PATCH, path, kind, patch.clone()).await.0, code, "{path} {patch}");
        assert_eq!(std::mem::take(&mut *seen.lock()), [format!("GET {path}")], "{patch}");
        journal.written.forget(path);
    }
    for method in [Method::POST, Method::PUT, Method::DELETE, Method::HEAD, Method::OPTIONS] {
        send(&client, method, NODE, STRATEGIC, json!({})).await;
    }
    assert!(seen.lock().iter().all(|request| request.starts_with("GET ")), "{:?}", seen.lock());
}

/// Thousands of Nodes are told of their network, and nobody reads one of them again.
#[tokio::test]
async fn of_an_object_that_nobody_reads_again_nothing_is_held() {
    let (known, seen, journal) = known();
    let client = known.unread().client();
    let status = format!("{NODE}/status");
    let told = json!({ "metadata": { "uid": "1" }, "status": { "conditions": [{ "type": "A", "status": "True" }] } });
    for _ in 0..2 {
        let answer = send(&client, Method::PATCH, &status, STRATEGIC, told.clone()).await;
        assert_eq!(answer, (StatusCode::OK, json!({ "metadata": { "uid": "1" } })));
    }
    let (method, path) = (Method::PATCH.to_string(), status.clone());
    let write = Stopped::Cluster { method, path, body: told.clone(), makes_ready: false };
    assert_eq!(journal.take(), [write.clone(), write]);
    assert_eq!((std::mem::take(&mut *seen.lock()), journal.written.bytes()), (vec![QUESTION.to_owned()], 0));

    // A Node of another UID has this name now, or none has.
    let other = json!({ "metadata": { "uid": "2" } });
    assert_eq!(send(&client, Method::PATCH, &status, STRATEGIC, other).await.0, StatusCode::CONFLICT);
    assert_eq!(*seen.lock(), [format!("GET {NODE}")]);
    // Whether this is taken, the version says, and the next one meets it.
    let bound = json!({ "metadata": { "uid": "1", "resourceVersion": "7" } });
    for code in [StatusCode::OK, StatusCode::CONFLICT] {
        assert_eq!(send(&client, Method::PATCH, &status, STRATEGIC, bound.clone()).await.0, code);
    }
    let after = send(&client, Method::PATCH, &status, STRATEGIC, told.clone()).await.1;
    assert_eq!(after["metadata"]["resourceVersion"], "9", "{after}");

    send(&client, Method::DELETE, NODE, "application/json", json!({})).await;
    drop(journal.take());
    assert_eq!(send(&client, Method::PATCH, &status, STRATEGIC, told).await.0, StatusCode::NOT_FOUND);
    assert_eq!(journal.take(), [], "what would be gone is told nothing");
}
