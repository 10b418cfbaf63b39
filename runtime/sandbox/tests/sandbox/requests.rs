//! What becomes of requests: shared, repeated, waited for, and what is said of them.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ccm_cloud::Need;
use futures::future::join_all;
use serde_json::{Value, json};

use crate::cloud::{Asked, Cloud, Reply, ok, reply};
use crate::rig::{Grants, Scripted};

const MS: Duration = Duration::from_millis(1);

/// A guest, and the cloud behind its endpoint `api`. Attempts follow each other soon.
async fn rig(answer: impl Fn(&Asked) -> Reply + Send + Sync + 'static, change: impl FnOnce(&mut Grants)) -> Rig {
    let cloud = Cloud::start(answer);
    let mut grants = Grants::of(&[("api", cloud.url())]);
    grants.settings.retry.min_delay = 5 * MS;
    // What is tested of failures is not that they add up.
    grants.settings.budget.breaker_failures = NonZeroU32::MAX;
    change(&mut grants);
    Rig { cloud, guest: Scripted::new(grants).await }
}

struct Rig {
    cloud: Cloud,
    guest: Scripted,
}

/// Another body every time, a little later than at once.
fn counting() -> impl Fn(&Asked) -> Reply + Send + Sync + 'static {
    let count = AtomicUsize::new(0);
    move |_| {
        let count = count.fetch_add(1, Ordering::SeqCst);
        Reply::Late(100 * MS, Box::new(move || reply("200 OK", "", format!("[{count}]"))))
    }
}

#[tokio::test]
async fn a_hundred_identical_reads_are_one_exchange_within_a_call_and_between_calls() {
    let rig = rig(counting(), |_| {}).await;
    let ask = json!({ "path": "/v2/servers", "share-ms": 60_000 });
    let answers = rig.guest.run(json!([{ "send-all": vec![ask.clone(); 100] }])).await.remove(0);
    let answers = answers.as_array().unwrap();
    assert_eq!(answers.len(), 100);
    assert!(answers.iter().all(|answer| answer["body"] == "[0]"), "{answers:?}");
    assert_eq!(rig.cloud.take().len(), 1);
    let other = json!({ "path": "/v2/other", "share-ms": 60_000 });
    let calls = join_all((0..100).map(|_| rig.guest.send(other.clone()))).await;
    assert!(calls.iter().all(|answer| answer["body"] == "[1]"), "{calls:?}");
    assert_eq!(rig.cloud.take().len(), 1);
    assert_eq!(rig.guest.send(ask).await["body"], "[0]", "a young answer is kept");
    assert_eq!(rig.cloud.take(), []);
}

#[tokio::test]
async fn what_is_not_the_same_or_asks_for_now_is_not_shared() {
    let rig = rig(counting(), |grants| grants.credentials.push(("token", "token-Vahgh5ee".to_owned()))).await;
    let shared = |path: &str, more: Value| {
        let mut ask = json!({ "path": path, "share-ms": 60_000 });
        ask.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        ask
    };
    let token = json!({ "headers": [["authorization", [{ "secret": "token" }]]] });
    let asks = json!([
        shared("/a", json!({})),
        shared("/b", json!({})),
        shared("/a", json!({ "query": [["x", ["1"]]] })),
        shared("/a", json!({ "headers": [["x-a", ["1"]]] })),
        shared("/a", token),
        shared("/a", json!({ "method": "post" })),
        shared("/a", json!({ "share-ms": 0 })),
        shared("/a", json!({ "share-ms": 0 })),
    ]);
    let answers = rig.guest.run(json!([{ "send-all": asks }])).await.remove(0);
    let mut bodies: Vec<&str> =
        answers.as_array().unwrap().iter().map(|answer| answer["body"].as_str().unwrap()).collect();
    bodies.sort_unstable();
    bodies.dedup();
    assert_eq!((bodies.len(), rig.cloud.take().len()), (8, 8));
    let joined = rig.guest.send(shared("/a", json!({}))).await;
    assert!(joined["status"] == 200 && rig.cloud.take().is_empty(), "the same as before");
}

#[tokio::test]
async fn all_who_need_a_session_log_in_once_and_take_it_where_the_catalogue_leads() {
    let answer = |asked: &Asked| {
        assert!(asked.body.contains("password-Oob3eiwu"), "{asked:?}");
        let headers = "x-subject-token: session-Vahgh5ee\r\n";
        Reply::Late(100 * MS, Box::new(move || reply("201 Created", headers, "{\"token\":\"session-Vahgh5ee\"}")))
    };
    let (identity, found) = (Cloud::start(answer), Cloud::start(|_| ok("{}")));
    let grants = Grants::of(&[("identity", identity.url())]).credential("password", "password-Oob3eiwu");
    let guest = Scripted::new(grants).await;
    let login = json!({
        "endpoint": "identity", "method": "post", "path": "/v3/auth/tokens",
        "body": ["{\"password\":\"", { "secret": "password", "encoding": "json-string" }, "\"}"],
        "capture": { "credential": "session", "header": "x-subject-token" },
    });
    let session = json!([["x-auth-token", [{ "secret": "session" }]]]);
    // Of the host that the operator configured; the port is the catalogue's choice.
    let steps = json!([
        { "available": "session" },
        { "send-all": vec![login; 20] },
        { "available": "session" },
        { "bind": ["found", found.url()] },
        { "send": { "endpoint": "found", "path": "/v2.1/servers", "headers": session } },
    ]);
    let answers = guest.run(steps).await;
    assert_eq!((&answers[0], &answers[2]), (&json!(false), &json!(true)));
    assert!(answers[1].as_array().unwrap().iter().all(|answer| answer["status"] == 201), "{}", answers[1]);
    assert!(!format!("{answers:?}").contains("session-Vahgh5ee"), "{answers:?}");
    assert_eq!(answers[4]["status"], 200, "{}", answers[4]);
    assert_eq!(identity.take().len(), 1);
    assert_eq!(found.take()[0].header("x-auth-token"), Some("session-Vahgh5ee"));
    // Another call finds session and binding.
    let again = json!([{ "send": { "endpoint": "found", "path": "/", "headers": session } }]);
    assert_eq!(guest.run(again).await[0]["status"], 200);
    assert_eq!(found.take().len(), 1);
}

#[tokio::test]
async fn a_failure_is_told_to_all_who_waited_for_it_and_to_nobody_later() {
    let answer = |_: &Asked| Reply::Late(100 * MS, Box::new(|| reply("500 Internal Server Error", "", "{}")));
    let rig = rig(answer, |_| {}).await;
    let ask = json!({ "path": "/v2/servers", "share-ms": 60_000 });
    let answers = rig.guest.run(json!([{ "send-all": vec![ask.clone(); 10] }, { "send": ask }])).await;
    assert!(answers[0].as_array().unwrap().iter().all(|answer| answer["status"] == 500), "{answers:?}");
    assert_eq!(rig.cloud.take().len(), 2);
}

#[tokio::test]
async fn a_proof_shares_nothing_with_anybody() {
    let rig = rig(counting(), |_| {}).await;
    let step = json!([{ "send": { "path": "/v2/servers/1", "share-ms": 60_000 } }]);
    assert_eq!(rig.guest.run(step.clone()).await[0]["body"], "[0]");
    assert_eq!(rig.guest.run(step.clone()).await[0]["body"], "[0]");
    assert_eq!(rig.guest.run_for(Need::Proof, step.clone()).await[0]["body"], "[1]", "not what was kept");
    assert_eq!(rig.guest.run(step.clone()).await[0]["body"], "[0]", "and its answer is not kept for others");
    rig.cloud.take();
    join_all((0..5).map(|_| rig.guest.run_for(Need::Proof, step.clone()))).await;
    assert_eq!(rig.cloud.take().len(), 5, "nor does it join one that is under way");
}

const PAGE: &str = "<!DOCTYPE html>\n<html><head><title>Sign in\n to the proxy</title></head><body>no</body></html>";

#[tokio::test]
async fn a_page_instead_of_json_is_no_answer_of_the_cloud_and_is_called_by_its_name() {
    let answer = |asked: &Asked| {
        let status = asked.line.trim_start_matches("GET /").replace("%20", " ");
        Reply::Bytes(reply(&status, "content-type: text/html\r\nx-openstack-request-id: req-1\r\n", PAGE))
    };
    let rig = rig(answer, |grants| grants.settings.retry.attempts = 1).await;
    let ask = |status: &str, accept: &str| json!({ "path": format!("/{status}"), "headers": [["Accept", [accept]]] });
    let seen = "(request ID req-1), an HTML page \"Sign in to the proxy\" instead of JSON";

    let error = rig.guest.send(ask("200%20OK", "application/json")).await;
    assert_eq!((&error["error"], &error["maybe-sent"]), (&json!("other"), &json!(true)), "{error}");
    let message = error["message"].as_str().unwrap();
    assert!(message.starts_with(&format!("GET /200%20OK: 200 OK {seen}")), "{message}");

    let answer = rig.guest.send(ask("502%20Bad%20Gateway", "application/json")).await;
    assert_eq!((&answer["status"], &answer["body"]), (&json!(502), &json!(PAGE)), "{answer}");
    let summary = answer["summary"].as_str().unwrap();
    assert!(summary.starts_with(&format!("GET /502%20Bad%20Gateway: 502 Bad Gateway {seen}")), "{summary}");

    let answer = rig.guest.send(ask("200%20OK", "text/html")).await;
    assert_eq!(answer["summary"], "GET /200%20OK: 200 OK (request ID req-1)", "it was asked for");
}

type Responder = fn() -> Reply;

/// Fails the first `times` times.
fn failing(times: usize, failure: Responder) -> impl Fn(&Asked) -> Reply + Send + Sync + 'static {
    let count = AtomicUsize::new(0);
    move |_| if count.fetch_add(1, Ordering::SeqCst) < times { failure() } else { ok("{}") }
}

#[tokio::test]
async fn a_read_is_repeated_where_that_may_help_and_not_otherwise() {
    let cases: [(&str, Responder, usize); 7] = [
        ("502", || Reply::Bytes(reply("502 Bad Gateway", "", "{}")), 3),
        ("503", || Reply::Bytes(reply("503 Service Unavailable", "", "{}")), 3),
        ("lost", || Reply::Bytes(vec![]), 3),
        ("cut", || Reply::Bytes(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf".to_vec()), 3),
        ("500", || Reply::Bytes(reply("500 Internal Server Error", "", "{}")), 1),
        ("404", || Reply::Bytes(reply("404 Not Found", "", "{}")), 1),
        ("no HTTP", || Reply::Bytes(b"SSH-2.0-OpenSSH\r\n".to_vec()), 3),
    ];
    for (name, failure, attempts) in cases {
        let rig = rig(failing(2, failure), |_| {}).await;
        let answer = rig.guest.send(json!({ "path": "/" })).await;
        assert_eq!((name, rig.cloud.take().len()), (name, attempts), "{answer}");
        assert_eq!(answer["status"] == 200, attempts == 3, "{name}: {answer}");
    }
}

#[tokio::test]
async fn a_429_is_waited_for_when_there_is_time_and_told_otherwise() {
    let patient = rig(failing(1, || Reply::Bytes(reply("429 Too Many Requests", "retry-after: 1\r\n", ""))), |_| {});
    let patient = patient.await;
    let start = tokio::time::Instant::now();
    assert_eq!(patient.guest.send(json!({ "path": "/" })).await["status"], 200);
    assert!(start.elapsed() >= Duration::from_secs(1), "{:?}", start.elapsed());
    assert_eq!(patient.cloud.take().len(), 2);

    let busy =
        rig(failing(9, || Reply::Bytes(reply("429 Too Many Requests", "retry-after: 90\r\n", ""))), |_| {}).await;
    for (request, maybe_sent) in [("first", true), ("second", false)] {
        let error = busy.guest.send(json!({ "path": "/" })).await;
        assert_eq!(
            (&error["error"], &error["maybe-sent"]),
            (&json!("throttled"), &json!(maybe_sent)),
            "{request} {error}"
        );
        let delay = error["retry-after-ms"].as_u64().unwrap();
        assert!((85_000..=100_000).contains(&delay), "{delay}");
    }
    assert_eq!(busy.cloud.take().len(), 1, "the second was not sent at all");
}

#[tokio::test]
async fn who_asks_too_much_by_the_operators_word_is_throttled_before_anything_is_sent() {
    let rig = rig(
        |_| ok("{}"),
        |grants| {
            let budget = &mut grants.settings.budget;
            (budget.per_second, budget.burst, budget.max_wait) = (Some(0.01), Some(NonZeroU32::MIN), 50 * MS);
        },
    );
    let rig = rig.await;
    assert_eq!(rig.guest.send(json!({ "path": "/../" })).await["error"], "denied", "which takes no turn");
    assert_eq!(rig.guest.send(json!({ "path": "/" })).await["status"], 200);
    let error = rig.guest.send(json!({ "path": "/" })).await;
    assert_eq!((&error["error"], &error["maybe-sent"]), (&json!("throttled"), &json!(false)), "{error}");
    assert!(error["retry-after-ms"].as_u64().is_some_and(|delay| (1_000..=100_000).contains(&delay)), "{error}");
    assert_eq!(rig.cloud.take().len(), 1);
}

#[tokio::test]
async fn an_error_says_whether_the_cloud_may_have_got_the_request() {
    let cases: [(&str, Responder, &str); 4] = [
        ("no answer", || Reply::Stall(vec![]), "timeout"),
        ("half an answer", || Reply::Stall(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf".to_vec()), "timeout"),
        ("hung up", || Reply::Bytes(vec![]), "other"),
        ("broken off", || Reply::Bytes(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf".to_vec()), "other"),
    ];
    for (name, failure, reason) in cases {
        let impatient = |grants: &mut Grants| {
            (grants.settings.limits.request_time, grants.settings.retry.attempts) = (600 * MS, 2);
        };
        let rig = rig(move |_| failure(), impatient).await;
        let error = rig.guest.send(json!({ "path": "/" })).await;
        assert_eq!((&error["error"], &error["maybe-sent"]), (&json!(reason), &json!(true)), "{name}: {error}");
        assert_eq!(rig.cloud.take().len(), 2, "{name}");
    }
    let plain = Cloud::start(|_| ok(""));
    let guest = Scripted::new(Grants::of(&[("api", plain.url().replace("http:", "https:"))])).await;
    let error = guest.send(json!({ "path": "/" })).await;
    assert_eq!((&error["error"], &error["maybe-sent"]), (&json!("tls"), &json!(false)), "{error}");

    let closed = Cloud::start_after(std::future::pending(), |_| ok(""));
    let guest = Scripted::new(Grants::of(&[("api", closed.url())])).await;
    let error = guest.send(json!({ "path": "/" })).await;
    assert_eq!((&error["error"], &error["maybe-sent"]), (&json!("connect"), &json!(false)), "{error}");
}
