//! API servers that are not as they should be.

use std::convert::Infallible;

use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use jiff::SignedDuration;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::{asked, provider};

/// An API server of this version, whose clock is so far ahead.
async fn api_server(version: &'static str, ahead: SignedDuration) -> (String, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("--master=http://{}", listener.local_addr().unwrap());
    let mut port = JoinSet::new();
    port.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = service_fn(move |request: http::Request<Incoming>| {
                let now = jiff::Timestamp::now().checked_add(ahead).unwrap();
                let minor = version.split('.').nth(1).unwrap();
                let info = json!({ "major": "1", "minor": minor, "gitVersion": version, "gitCommit": "", "gitTreeState": "",
                    "buildDate": "", "goVersion": "", "compiler": "", "platform": "" });
                let date = jiff::fmt::rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&now).unwrap();
                let status = if request.uri().path() == "/version" { 200 } else { 404 };
                let body = http_body_util::Full::new(bytes::Bytes::from(info.to_string()));
                let answer = http::Response::builder().status(status).header("date", date).body(body).unwrap();
                std::future::ready(Ok::<_, Infallible>(answer))
            });
            let http = hyper::server::conn::http1::Builder::new();
            // Whoever has its answer ends the connection.
            http.serve_connection(TokioIo::new(stream), service).await.ok();
        }
    });
    (url, port)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_unsupported_version_and_a_clock_that_is_off_by_ten_minutes_are_told() {
    let provider = provider();
    for (version, judgement, part) in [
        ("v1.29.3", "wrong", "older than 1.30"),
        ("v1.32.0", "wrong", "v1.32.0, and wasm-ccm supports 1.33 to 1.37"),
        ("v1.33.0", "good", "is Kubernetes v1.33.0"),
        ("v1.38.0", "unjudged", "knows none after 1.37"),
    ] {
        let (master, _port) = api_server(version, SignedDuration::ZERO).await;
        let (_, found) = asked(&[&master, &provider]).one("api-server", judgement);
        assert!(found.contains(part), "{found}");
    }
    for (minutes, part) in [(10, "ahead of the one of this machine"), (-10, "behind the one of this machine")] {
        let (master, _port) = api_server("v1.36.1", SignedDuration::from_mins(minutes)).await;
        let (_, found) = asked(&[&master, &provider]).one("clock", "wrong");
        assert!(found.ends_with(part), "{found}");
    }
}
