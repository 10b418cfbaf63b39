use std::convert::Infallible;

use http::{Request, Response};
use serde_json::json;

use super::*;

const HOLDER: &str = "node-1_00000000-0000-0000-0000-000000000000";
const PROXY: &str = "/api/v1/namespaces/kube-system/pods/https:ccm-a:10258/proxy/explain/v1/service/default/web";

/// An API server with this Lease and these pods, whose proxy answers this.
fn server(holder: &'static str, node: &'static str, status: u16, proxied: String) -> Client {
    let answer = move |request: Request<Body>| {
        let (status, body) = match request.uri().path() {
            "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/cloud-controller-manager" => (
                200,
                json!({ "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {}, "spec": { "holderIdentity": holder } })
                    .to_string(),
            ),
            "/api/v1/namespaces/kube-system/pods" => {
                let pod = |name: &str, node: &str| json!({ "metadata": { "name": name }, "spec": { "nodeName": node, "containers": [] } });
                let pods = json!({ "metadata": {}, "items": [pod("ccm-b", "node-2"), pod("ccm-a", node)] });
                (200, pods.to_string())
            }
            PROXY => (status, proxied.clone()),
            path => panic!("nobody asks for {path}"),
        };
        std::future::ready(Ok::<_, Infallible>(
            Response::builder().status(status).body(Body::from(body.into_bytes())).unwrap(),
        ))
    };
    Client::new(tower::service_fn(answer), "default")
}

async fn asked(client: Client) -> Asked {
    let web = Target::Service { namespace: "default".into(), name: "web".into() };
    found(&client, "kube-system", "cloud-controller-manager", &web).await
}

fn answer(leads: bool) -> String {
    serde_json::to_string(&Answer { leads, leader: "leader: x".into(), ..Answer::default() }).unwrap()
}

#[tokio::test]
async fn the_pod_of_the_holder_is_asked_through_the_api_server() {
    for (holder, node) in [(HOLDER, "node-1"), (HOLDER, "node-1.example"), ("ccm-a_0", "elsewhere")] {
        let asked = asked(server(holder, node, 200, answer(true))).await;
        assert_eq!(asked.tried, [""; 0], "{holder} {node}");
        assert_eq!(asked.place.as_deref(), Some("the leader, pod kube-system/ccm-a"));
        assert_eq!(asked.answer.unwrap().leader, "leader: x");
    }
}

#[tokio::test]
async fn what_does_not_work_is_told_with_the_way_out_and_is_no_answer() {
    let forbidden = json!({ "kind": "Status", "message": "pods \"ccm-a\" is forbidden:\u{1b}[2J\nuser" }).to_string();
    let long = " ".repeat(MAX_ANSWER + 1);
    for (holder, node, status, proxied, part) in [
        ("", "node-1", 200, answer(true), "nobody holds the Lease kube-system/cloud-controller-manager"),
        (HOLDER, "node-3", 200, answer(true), "is no pod in kube-system with the label"),
        (HOLDER, "node-1", 403, forbidden, "needs the right to get pods/proxy"),
        (HOLDER, "node-1", 404, "try /livez".to_owned(), "an older version has no such page"),
        (HOLDER, "node-1", 503, "no".to_owned(), "it answers 503"),
        (HOLDER, "node-1", 200, "<html>".to_owned(), "something else than an explanation"),
        (HOLDER, "node-1", 200, "{\"leads\":7}".to_owned(), "something else than an explanation"),
        (HOLDER, "node-1", 200, long, "longer than 1048576 bytes"),
        (HOLDER, "node-1", 200, answer(false), "does not lead and knows nothing of objects: leader: x"),
    ] {
        let asked = asked(server(holder, node, status, proxied)).await;
        assert!(asked.answer.is_none() && asked.place.is_none(), "{part}");
        assert!(asked.tried[0].contains(part), "{:?} does not say {part:?}", asked.tried);
        assert!(!asked.tried.iter().any(|tried| tried.contains(char::is_control)), "{:?}", asked.tried);
        let is_reachable = holder == HOLDER && node == "node-1";
        let hint = "kubectl -n kube-system port-forward ccm-a 10258";
        assert_eq!(asked.tried.iter().any(|tried| tried.contains(hint)), is_reachable, "{:?}", asked.tried);
    }
}

const TOKEN_PATH: &str = "/api/v1/namespaces/kube-system/serviceaccounts/wasm-ccm-reader/token";

/// An API server that makes tokens, and a host behind its proxy that wants one. `made` answers who wants a token made.
fn guarded(made: (u16, Value), refusal: Option<(u16, &'static str)>) -> Client {
    let respond = move |request: Request<Body>| {
        let made = made.clone();
        async move {
            let path = request.uri().path().to_owned();
            let mut response = Response::builder();
            let (status, body) = match path.as_str() {
                TOKEN_PATH => {
                    let body = request.into_body().collect_bytes().await.unwrap();
                    let asked: Value = serde_json::from_slice(&body).unwrap();
                    assert_eq!(asked["spec"]["audiences"], json!(["wasm-ccm"]), "good for nobody else");
                    assert_eq!(asked["spec"]["expirationSeconds"], 600);
                    (made.0, made.1.to_string())
                }
                PROXY => match request.headers().get(TOKEN_HEADER).map(|value| value.to_str().unwrap()) {
                    None => {
                        response = response.header("www-authenticate", "Bearer realm=\"wasm-ccm\"");
                        (401, "this page needs a token\n".to_owned())
                    }
                    Some("short-lived") => {
                        refusal.map_or_else(|| (200, answer(true)), |(status, text)| (status, text.to_owned()))
                    }
                    Some(other) => panic!("{other}"),
                },
                path => panic!("nobody asks for {path}"),
            };
            Ok::<_, Infallible>(response.status(status).body(Body::from(body.into_bytes())).unwrap())
        }
    };
    Client::new(tower::service_fn(respond), "default")
}

#[tokio::test]
async fn a_host_that_wants_a_token_gets_one_that_is_good_for_it_alone() {
    let status = json!({ "token": "short-lived", "expirationTimestamp": "2026-01-01T00:00:00Z" });
    let made = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": {}, "spec": { "audiences": [] }, "status": status });
    let path = PROXY;
    let client = guarded((201, made.clone()), None);
    assert!(ask(&client, path, Some((&client, "kube-system"))).await.unwrap().leads);
    let no_api_server = ask(&client, path, None).await.unwrap_err();
    assert!(no_api_server.contains("say with --kubeconfig"), "{no_api_server}");
    let forbidden = json!({ "kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden", "message": "serviceaccounts \"wasm-ccm-reader\" is\nforbidden" });
    let mut empty = made.clone();
    empty["status"]["token"] = json!("");
    for (made, refusal, part) in [
        (
            (403, forbidden),
            None,
            "forbidden (403 Forbidden): apply the manifests of this version, and let your user create serviceaccounts/token",
        ),
        ((201, empty), None, "a token of the ServiceAccount kube-system/wasm-ccm-reader is none"),
        (
            (201, made.clone()),
            Some((403, "User \"reader\" cannot get\u{1b} path\n")),
            "it answers 403 Forbidden: User \"reader\" cannot get  path",
        ),
        ((201, made), Some((503, "the API server has not answered a TokenReview")), "has not answered a TokenReview"),
    ] {
        let client = guarded(made, refusal);
        let why = ask(&client, path, Some((&client, "kube-system"))).await.unwrap_err();
        assert!(why.contains(part) && !why.contains(char::is_control) && !why.contains("short-lived"), "{why}");
        assert!(!why.contains("pods/proxy"), "{why}");
    }
}

#[test]
fn an_address_is_that_of_a_port_and_nothing_else() {
    for text in ["https://127.0.0.1:10258", "https://127.0.0.1:10258/", "127.0.0.1:10258", "host.example"] {
        assert_eq!(address(text).unwrap().scheme_str(), Some("https"), "{text}");
    }
    for text in ["", "http://127.0.0.1:10258", "https://u:hunter2@host", "https://host/metrics", "https://"] {
        let error = address(text).unwrap_err().to_string();
        assert!(error.starts_with("--address is no address") && !error.contains("hunter2"), "{text}: {error}");
    }
}
