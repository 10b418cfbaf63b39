//! Asks again for a page of a list that could not be had for the moment. Whoever lists begins with the first page again where one fails: a list of
//! 500 pages, of which one in a hundred fails, has an end once in 150 times.
//!
//! The first page is not asked for again, since nothing is lost with it. Neither are watches and writes.

use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBackoff, ExponentialBuilder};
use http::header::RETRY_AFTER;
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use kube::Client;
use kube::client::Body;

/// How often a page is asked for again.
const MAX_TIMES: usize = 6;
/// How often it has failed when people hear of it.
const TOLD: usize = 3;
/// Before the first time, and before each of the last ones; up to as much again is added by chance.
const MIN_DELAY: Duration = Duration::from_millis(500);
const MAX_DELAY: Duration = Duration::from_secs(8);
/// Longest wait that the API server can ask for.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(30);

/// When one page is asked for again.
#[derive(Debug)]
pub struct PagePauses {
    delays: ExponentialBackoff,
    /// How often it could not be had.
    failures: usize,
}

impl PagePauses {
    /// For a page that is about to be asked for.
    #[must_use]
    pub fn begin() -> Self {
        let delays = ExponentialBuilder::new().with_min_delay(MIN_DELAY).with_max_delay(MAX_DELAY);
        Self { delays: delays.with_max_times(MAX_TIMES).with_jitter().build(), failures: 0 }
    }

    /// How long to wait after it could not be had; `retry_after` is what the API server asks for. None: it has failed too often.
    pub fn after(&mut self, retry_after: Option<Duration>) -> Option<Duration> {
        self.failures = self.failures.saturating_add(1);
        let delay = self.delays.next()?;
        Some(delay.max(retry_after.unwrap_or_default().min(MAX_RETRY_AFTER)))
    }

    /// Whether people should hear of it now. They do once for each page that fails so often.
    #[must_use]
    pub const fn is_news(&self) -> bool {
        self.failures == TOLD
    }
}

/// The same client, which asks for a page again.
#[must_use]
pub fn patient(client: Client) -> Client {
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |request: Request<Body>| {
        let client = client.clone();
        async move { ask(&client, request).await }
    });
    Client::new(service, namespace)
}

/// The query of a request for a page of a list, other than the first one.
pub(crate) fn later_page(uri: &Uri) -> Option<&str> {
    uri.query().filter(|query| query.split('&').any(|part| part.starts_with("continue=")))
}

async fn ask(client: &Client, request: Request<Body>) -> kube::Result<Response<Body>> {
    if request.method() != Method::GET || later_page(request.uri()).is_none() {
        return client.send(request).await;
    }
    // A list is asked for without a body.
    let (head, _) = request.into_parts();
    let mut pauses = PagePauses::begin();
    loop {
        let answer = whole(client, Request::from_parts(head.clone(), Body::empty())).await;
        let retry_after = match &answer {
            Ok(answer) if is_for_the_moment(answer.status()) => retry_after(answer.headers()),
            Ok(_) => return answer,
            Err(_) => None,
        };
        let Some(pause) = pauses.after(retry_after) else { return answer };
        let status = answer.as_ref().map(|answer| answer.status().as_u16()).unwrap_or_default();
        let error = answer.err().map(|error| crate::causes(&error));
        let path = head.uri.path();
        if pauses.is_news() {
            tracing::warn!(path, status, error, ?pause, "a page of a list cannot be had, and is asked for again");
        } else {
            tracing::debug!(path, status, error, ?pause, "a page of a list is asked for again");
        }
        tokio::time::sleep(pause).await;
    }
}

/// The answer with all of its body, which may break off as well.
async fn whole(client: &Client, request: Request<Body>) -> kube::Result<Response<Body>> {
    let (head, body) = client.send(request).await?.into_parts();
    let bytes = body.collect_bytes().await?;
    Ok(Response::from_parts(head, Body::from(bytes)))
}

fn is_for_the_moment(status: StatusCode) -> bool {
    status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error()
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.parse().ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests;
