use ccm_controllers::Rehearsed;
use http::header::HeaderValue;

use super::*;
use crate::report::{Kind, ObjectPlan, Totals};

const WEB: &str = "/api/v1/namespaces/default/services/web";

/// A client that stops writes, before an API server that has one Service, and what reached that.
fn stopping() -> (Client, Arc<Journal>, Arc<Mutex<Vec<String>>>) {
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let told = Arc::clone(&seen);
    let service = tower::service_fn(move |request: Request<Body>| {
        told.lock().push(format!("{} {}", request.method(), request.uri().path()));
        let found = json!({ "metadata": {
            "uid": "1", "resourceVersion": "7", "finalizers": ["a"], "managedFields": [{ "manager": "kubectl" }],
            "annotations": { "kubectl.kubernetes.io/last-applied-configuration": "{}", "a": "b" },
        } });
        let answer = match request.uri().path() {
            WEB => answer(StatusCode::OK, &found),
            "/api/v1/nodes/forbidden" => refusal(StatusCode::FORBIDDEN, "Forbidden", "who may not read"),
            _ => refusal(StatusCode::NOT_FOUND, "NotFound", "there is none"),
        };
        async move { Ok::<_, std::convert::Infallible>(answer) }
    });
    let journal: Arc<Journal> = Arc::default();
    (read_only(&Client::new(service, "default"), Arc::clone(&journal)), journal, seen)
}

pub(crate) async fn send(
    client: &Client,
    method: Method,
    path: &str,
    kind: &'static str,
    body: Value,
) -> (StatusCode, Value) {
    let mut request = Request::new(Body::from(body.to_string().into_bytes()));
    *request.method_mut() = method;
    *request.uri_mut() = path.parse().unwrap();
    request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    let answer = client.send(request).await.unwrap();
    let status = answer.status();
    let body = answer.into_body().collect_bytes().await.unwrap();
    (status, serde_json::from_slice(&body).unwrap())
}

#[tokio::test]
async fn no_method_but_get_ever_reaches_the_api_server() {
    let (client, journal, seen) = stopping();
    for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::HEAD, Method::OPTIONS] {
        send(&client, method, WEB, "application/merge-patch+json", json!({})).await;
    }
    assert!(seen.lock().iter().all(|request| request.starts_with("GET ")), "{:?}", seen.lock());
    assert_eq!(journal.take().len(), 6, "each is noted");
}

#[tokio::test]
async fn a_write_is_answered_with_what_was_there_and_all_that_was_written_since() {
    let (client, journal, _) = stopping();
    let status = format!("{WEB}/status?fieldManager=me");
    let strategic = "application/strategic-merge-patch+json";
    let first = json!({ "metadata": { "uid": "1", "resourceVersion": "7", "finalizers": ["b"] } });
    let (code, after) = send(&client, Method::PATCH, &status, strategic, first.clone()).await;
    let metadata = json!({ "uid": "1", "resourceVersion": "8", "finalizers": ["a", "b"], "annotations": { "a": "b" } });
    let wanted = json!({ "metadata": metadata });
    assert_eq!((code, after), (StatusCode::OK, wanted));
    // Bound to the state of before.
    let (code, _) = send(&client, Method::PATCH, &status, strategic, first).await;
    assert_eq!(code, StatusCode::CONFLICT);
    let next = json!({ "metadata": { "resourceVersion": "8", "finalizers": ["c"] } });
    let (_, after) = send(&client, Method::PATCH, &status, strategic, next).await;
    assert_eq!(after["metadata"]["finalizers"], json!(["a", "b", "c"]));
    let told = journal.take();
    let paths = told.iter().map(|stopped| match stopped {
        Stopped::Cluster { path, .. } => path.as_str(),
        Stopped::Cloud(_) => panic!("{stopped:?}"),
    });
    assert_eq!(paths.collect::<Vec<_>>(), [format!("{WEB}/status"), format!("{WEB}/status")], "a conflict is no write");
}

/// A plan said that there is nothing to write, and `kubectl wait --for=condition=LoadBalancerReady` ended with what `run` wrote then.
#[tokio::test]
async fn whoever_waits_until_a_load_balancer_is_ready_waits_for_a_write_to_the_cluster_and_other_conditions_are_notes()
{
    let (client, journal, _) = stopping();
    let status = format!("{WEB}/status");
    let ready =
        |status: &str, message: &str| json!({ "type": "LoadBalancerReady", "status": status, "message": message });
    for (condition, is_note) in [
        // Another manager said nothing of it.
        (ready("False", "the cloud said 500"), true),
        (ready("False", "the cloud said 503"), true),
        (json!({ "type": "LoadBalancerRecorded", "status": "True" }), true),
        (ready("True", ""), false),
        (ready("True", "as this Service asks for"), true),
        (ready("False", "the cloud said 500"), true),
    ] {
        let patch = json!({ "metadata": { "uid": "1" }, "status": { "conditions": [condition] } });
        let kind = "application/strategic-merge-patch+json";
        assert_eq!(send(&client, Method::PATCH, &status, kind, patch.clone()).await.0, StatusCode::OK);
        let object = ObjectPlan::new(Kind::Service, "default/web".to_owned(), Rehearsed::default(), journal.take());
        let mut totals = Totals::default();
        totals.add(&object);
        assert_eq!((object.writes.len(), totals.has_changes()), (1, !is_note), "{patch}");
    }
}

#[tokio::test]
async fn an_object_that_is_not_there_or_another_one_is_not_written() {
    let (client, journal, _) = stopping();
    let kind = "application/merge-patch+json";
    let gone = WEB.replace("web", "gone");
    assert_eq!(send(&client, Method::PATCH, &gone, kind, json!({})).await.0, StatusCode::NOT_FOUND);
    let other = json!({ "preconditions": { "uid": "2", "resourceVersion": "7" } });
    assert_eq!(send(&client, Method::DELETE, WEB, "application/json", other).await.0, StatusCode::CONFLICT);
    let test = json!([{ "op": "test", "path": "/metadata/uid", "value": "2" }]);
    let refused = send(&client, Method::PATCH, WEB, "application/json-patch+json", test).await.0;
    assert_eq!(refused, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(journal.take(), []);
    let right = json!({ "preconditions": { "uid": "1", "resourceVersion": "7" } });
    assert_eq!(send(&client, Method::DELETE, WEB, "application/json", right).await.0, StatusCode::OK);
    assert_eq!(journal.take().len(), 1);
}

/// A Node with two corrections was once reported as not known: after the first, each attempt at the second met the state of before.
#[tokio::test]
async fn whoever_reads_again_sees_what_was_written_before() {
    let (client, _, seen) = stopping();
    let kind = "application/merge-patch+json";
    let first = json!({ "metadata": { "resourceVersion": "7", "labels": { "a": "b" } } });
    send(&client, Method::PATCH, WEB, kind, first.clone()).await;
    assert_eq!(send(&client, Method::PATCH, WEB, kind, first).await.0, StatusCode::CONFLICT);
    let (code, now) = send(&client, Method::GET, WEB, "", Value::Null).await;
    assert_eq!(
        (code, &now["metadata"]["labels"], &now["metadata"]["finalizers"]),
        (StatusCode::OK, &json!({ "a": "b" }), &json!(["a"]))
    );
    let annotations = json!({ "a": "b" });
    assert_eq!((now["metadata"].get("managedFields"), &now["metadata"]["annotations"]), (None, &annotations));
    let next = json!({ "metadata": { "resourceVersion": now["metadata"]["resourceVersion"] } });
    assert_eq!(send(&client, Method::PATCH, WEB, kind, next).await.0, StatusCode::OK);
    assert_eq!(*seen.lock(), [format!("GET {WEB}")], "the object is read once");

    send(&client, Method::DELETE, WEB, "application/json", json!({})).await;
    for method in [Method::GET, Method::PATCH, Method::DELETE] {
        assert_eq!(send(&client, method, WEB, kind, json!({})).await.0, StatusCode::NOT_FOUND);
    }
}

/// It is read again by nobody but by whoever would write to what is gone.
#[tokio::test]
async fn an_object_that_was_handed_over_is_held_no_more_and_one_that_would_be_gone_stays_gone() {
    let (client, journal, seen) = stopping();
    let kind = "application/merge-patch+json";
    send(&client, Method::PATCH, WEB, kind, json!({ "metadata": { "labels": { "a": "b" } } })).await;
    assert!(journal.written.bytes() > 0);
    journal.written.forget(WEB);
    assert_eq!(journal.written.bytes(), 0);
    let now = send(&client, Method::GET, WEB, "", Value::Null).await.1;
    assert_eq!(now["metadata"].get("labels"), None, "it is read anew");
    send(&client, Method::DELETE, WEB, "application/json", json!({})).await;
    journal.written.forget(WEB);
    let asked = seen.lock().len();
    assert_eq!(send(&client, Method::PATCH, WEB, kind, json!({})).await.0, StatusCode::NOT_FOUND);
    assert_eq!(seen.lock().len(), asked);
    let journal = Arc::clone(&journal);
    let client = read_only(&client, journal);
    assert_eq!(send(&client, Method::GET, WEB, "", Value::Null).await.0, StatusCode::OK, "another look");
}

/// Who may not read an object does not learn whether the write would be taken.
#[tokio::test]
async fn what_the_api_server_says_of_an_object_is_passed_on() {
    let (client, journal, _) = stopping();
    for method in [Method::PATCH, Method::DELETE] {
        let (code, told) =
            send(&client, method, "/api/v1/nodes/forbidden", "application/merge-patch+json", json!({})).await;
        assert_eq!((code, &told["reason"]), (StatusCode::FORBIDDEN, &json!("Forbidden")));
    }
    let (code, told) =
        send(&client, Method::POST, "/api/v1/namespaces/default/configmaps", "application/json", json!({})).await;
    assert_eq!(
        (code, &told["reason"], &told["message"]),
        (StatusCode::FORBIDDEN, &json!("Forbidden"), &json!("a plan does not write"))
    );
    assert_eq!(journal.take().len(), 1, "only the POST was stopped by the plan");
}

#[test]
fn a_part_of_an_object_is_told_from_an_object_of_that_name() {
    for (path, object) in [
        ("/api/v1/nodes/n1/status", "/api/v1/nodes/n1"),
        ("/api/v1/nodes/status", "/api/v1/nodes/status"),
        ("/api/v1/nodes/status/status", "/api/v1/nodes/status"),
        ("/api/v1/namespaces/default/services/web/status", "/api/v1/namespaces/default/services/web"),
        ("/api/v1/namespaces/default/services/status", "/api/v1/namespaces/default/services/status"),
        ("/apis/apps/v1/namespaces/status/deployments/web", "/apis/apps/v1/namespaces/status/deployments/web"),
        ("/apis/example.org/v1/things/one/status", "/apis/example.org/v1/things/one"),
    ] {
        assert_eq!(object_of(path), object, "{path}");
    }
}
