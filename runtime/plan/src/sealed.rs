//! The wall of a dry run before the API server. Every request of the process comes by here, whichever part of it asks.

use http::{Method, Request, Response, StatusCode};
use kube::Client;
use kube::client::Body;

use crate::api_server::refusal;

/// What is created here is kept nowhere: the API server answers with it. These are for the health port, which asks whose token it was given.
const REVIEWS: [&str; 2] =
    ["/apis/authentication.k8s.io/v1/tokenreviews", "/apis/authorization.k8s.io/v1/subjectaccessreviews"];

/// A client that sends by way of `client` what changes nothing: `GET`, and reviews of tokens and of access. It answers everything else itself,
/// with status 403.
#[must_use]
pub fn sealed(client: &Client) -> Client {
    let namespace = client.default_namespace().to_owned();
    let client = client.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let client = client.clone();
        async move { send_or_refuse(&client, request).await }
    });
    Client::new(service, namespace)
}

/// This is the one place that keeps a dry run from writing to the cluster. What the controllers would write is [noted](crate::read_only) before.
async fn send_or_refuse(client: &Client, request: Request<Body>) -> kube::Result<Response<Body>> {
    let (method, path) = (request.method(), request.uri().path());
    if changes_nothing(method, path) {
        return client.send(request).await;
    }
    tracing::warn!(%method, path, "not sent to the API server: this process is a dry run");
    Ok(refusal(StatusCode::FORBIDDEN, "Forbidden", "a dry run does not write"))
}

fn changes_nothing(method: &Method, path: &str) -> bool {
    method == Method::GET || (method == Method::POST && REVIEWS.contains(&path))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;

    #[tokio::test]
    async fn nothing_but_reads_and_reviews_ever_reaches_the_api_server() {
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let told = Arc::clone(&seen);
        let service = tower::service_fn(move |request: Request<Body>| {
            told.lock().push(format!("{} {}", request.method(), request.uri()));
            async { Ok::<_, Infallible>(Response::new(Body::from(b"{}".to_vec()))) }
        });
        let client = sealed(&Client::new(service, "default"));
        let node = "/api/v1/nodes/n1";
        let lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
        let [token, access] = REVIEWS;
        let review = format!("{token}?pretty=true");
        let allowed = [(Method::GET, node), (Method::POST, review.as_str()), (Method::POST, access)];
        let refused = [
            (Method::POST, node),
            (Method::PUT, node),
            (Method::PATCH, node),
            (Method::DELETE, node),
            (Method::HEAD, node),
            (Method::OPTIONS, node),
            (Method::POST, lease),
            (Method::PUT, token),
            (Method::DELETE, access),
            (Method::POST, "/apis/authentication.k8s.io/v1/tokenreviews/x"),
            (Method::POST, "/api/v1/namespaces/kube-system/serviceaccounts/a/token"),
        ];
        for (method, path) in allowed.iter().chain(&refused) {
            let mut request = Request::new(Body::empty());
            (*request.method_mut(), *request.uri_mut()) = (method.clone(), path.parse().unwrap());
            let is_refused = client.send(request).await.unwrap().status() == StatusCode::FORBIDDEN;
            assert_eq!(is_refused, refused.contains(&(method.clone(), path)), "{method} {path}");
        }
        let sent = allowed.map(|(method, path)| format!("{method} {path}"));
        assert_eq!(*seen.lock(), sent);
    }
}
