//! Counts what leaves for the API server, as upstream's clients do: each request once, whatever it is for and whichever client sends it.

use std::sync::Arc;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use http::{Method, Request, Response, Uri};
use kube::client::{Body, ClientBuilder};
use kube::{Client, Config};
use tokio::time::Instant;
use tower::{Layer, Service};

use crate::metrics::{ApiMetrics, RestMetrics};

/// What upstream calls the code of a request that had no answer.
const NO_ANSWER: &str = "<error>";

/// kube's own client, counted.
///
/// # Errors
///
/// The configuration cannot be used.
pub fn plain_client(config: Config, metrics: &ApiMetrics) -> kube::Result<Client> {
    let layer = CountLayer::new(&config, metrics);
    Ok(ClientBuilder::try_from(config)?.with_layer(&layer).build())
}

/// Counts the requests of a client.
#[derive(Clone)]
pub(crate) struct CountLayer {
    metrics: RestMetrics,
    host: Arc<str>,
}

impl CountLayer {
    /// Requests to the API server of this configuration.
    pub(crate) fn new(config: &Config, metrics: &ApiMetrics) -> Self {
        let url = &config.cluster_url;
        // Without the user information, which may have a password.
        let host = url.host().unwrap_or_default();
        let host = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        Self { metrics: metrics.rest.clone(), host: host.into() }
    }
}

impl<S> Layer<S> for CountLayer {
    type Service = Counted<S>;

    fn layer(&self, inner: S) -> Counted<S> {
        Counted { inner, layer: self.clone() }
    }
}

/// A service whose requests are counted.
#[derive(Clone)]
pub(crate) struct Counted<S> {
    inner: S,
    layer: CountLayer,
}

impl<S, B> Service<Request<Body>> for Counted<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let is_watch = is_watch(request.uri());
        let (layer, method, begun) = (self.layer.clone(), name(request.method()), Instant::now());
        let mut exchange = Exchange { layer, method, is_watch, begun, code: NO_ANSWER.to_owned() };
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await;
            if let Ok(answer) = &answer {
                answer.status().as_str().clone_into(&mut exchange.code);
            }
            answer
        })
    }
}

/// Whether this is the request of a watch.
pub(crate) fn is_watch(uri: &Uri) -> bool {
    uri.query().is_some_and(|query| query.split('&').any(|part| part == "watch=true"))
}

fn name(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "POST" => "POST",
        "PUT" => "PUT",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        _ => "OTHER",
    }
}

/// One request, counted at its end: also when nobody waits for the answer any more.
struct Exchange {
    layer: CountLayer,
    method: &'static str,
    is_watch: bool,
    begun: Instant,
    code: String,
}

impl Drop for Exchange {
    fn drop(&mut self) {
        // As upstream: how soon a watch begins says nothing of how long the API server takes.
        let took = (!self.is_watch).then(|| self.begun.elapsed());
        self.layer.metrics.ended(&self.layer.host, self.method, std::mem::take(&mut self.code), took);
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::time::Duration;

    use prometheus_client::registry::Registry;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_request_is_counted_once_also_without_an_answer_and_watches_have_no_duration() {
        let mut registry = Registry::default();
        let metrics = ApiMetrics::register(&mut registry);
        let config = Config::new("https://user:hunter2@127.0.0.1:6443".parse().unwrap());
        let inner = tower::service_fn(|request: Request<Body>| async move {
            let status = match request.uri().path() {
                "/never" => std::future::pending().await,
                "/missing" => 404,
                _ => 200,
            };
            tokio::time::sleep(Duration::from_secs(3)).await;
            Ok::<_, Infallible>(Response::builder().status(status).body(Body::empty()).unwrap())
        });
        let client = ClientBuilder::new(inner, "default").with_layer(&CountLayer::new(&config, &metrics)).build();
        for (method, path) in
            [("GET", "/a"), ("GET", "/b"), ("PATCH", "/missing"), ("GET", "/a?limit=1&watch=true"), ("POST", "/never")]
        {
            let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
            drop(tokio::time::timeout(Duration::from_secs(10), client.send(request)).await);
        }
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let mut lines: Vec<&str> =
            text.lines().filter(|line| line.starts_with("rest_client_") && !line.contains("_bucket")).collect();
        lines.sort_unstable();
        let host = "host=\"127.0.0.1:6443\"";
        let expected = [
            format!("rest_client_request_duration_seconds_count{{verb=\"GET\",{host}}} 2"),
            format!("rest_client_request_duration_seconds_count{{verb=\"PATCH\",{host}}} 1"),
            format!("rest_client_request_duration_seconds_count{{verb=\"POST\",{host}}} 1"),
            format!("rest_client_request_duration_seconds_sum{{verb=\"GET\",{host}}} 6.0"),
            format!("rest_client_request_duration_seconds_sum{{verb=\"PATCH\",{host}}} 3.0"),
            format!("rest_client_request_duration_seconds_sum{{verb=\"POST\",{host}}} 10.0"),
            format!("rest_client_requests_total{{code=\"200\",method=\"GET\",{host}}} 3"),
            format!("rest_client_requests_total{{code=\"404\",method=\"PATCH\",{host}}} 1"),
            format!("rest_client_requests_total{{code=\"<error>\",method=\"POST\",{host}}} 1"),
        ];
        assert_eq!(lines, expected);
    }
}
