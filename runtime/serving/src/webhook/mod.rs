//! The admission webhook: the port on which the API server asks about Services, before it takes them.
//!
//! | part | does |
//! |---|---|
//! | `certificate` | the port's certificate, read anew when it changes |
//! | `client_ca` | who may ask, where that is configured: clients with a certificate of this CA |
//! | `review` | what is asked, and how it is answered |
//! | `object` | the Service in it, counted before it is read |
//! | `metrics` | requests and certificates |
//!
//! A [`Reviewer`] judges the Service. If a review cannot be read, the answer is an HTTP error, so that the
//! `failurePolicy` of the configuration decides. If a Service cannot be judged, the answer is yes, with a warning.

mod certificate;
mod client_ca;
#[cfg(test)]
mod fuzz;
mod metrics;
mod object;
mod review;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::{Body, Bytes};
use hyper::header::CONTENT_TYPE;
use hyper::{Method, Request, StatusCode};
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Service;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::https::{MinTls, Page, Patience, Port, TEXT, bind, page};
use certificate::Certificate;
pub use certificate::Files;
use client_ca::ClientCa;
pub use metrics::NAME;
use metrics::WebhookMetrics;

/// The same as that of DigitalOcean's own admission server.
const PATH: &str = "/lb-service";
const JSON: &str = "application/json";
/// Longer than the 90 s for which API servers keep an idle connection: the side that would use it next must close it.
const HEAD_TIMEOUT: Duration = Duration::from_secs(120);
/// A client that reads nothing of its answer for so long gives up as well: API servers wait 30 s for a review at most.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// API servers then open another connection.
const MAX_AGE: Duration = Duration::from_secs(600);
/// Bytes of a review for each value in its Services, at least. They have 30 and more. Of what becomes of a value in memory, 300 bytes are
/// the most.
const BYTES_PER_VALUE: usize = 128;
/// A small review may have so many, whatever its size may be.
const MIN_VALUES: usize = 1_000;
/// How long reviews under way may hold up the end of the process, which has 20 s.
const GRACE: Duration = Duration::from_secs(10);
/// Connections for each review that can be under way: API servers keep some for later.
const CONNECTIONS_PER_REVIEW: usize = 8;

/// What the operator set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Of the port.
    pub address: SocketAddr,
    /// Its certificate.
    pub files: Files,
    /// CA of those who may ask, with the flag that named the file. Without one, everybody may.
    pub client_ca: Option<(&'static str, PathBuf)>,
    /// Oldest version of TLS.
    pub min_tls: MinTls,
    /// How often the certificate is looked at.
    pub reload_period: Duration,
    /// For a whole review.
    pub timeout: Duration,
    /// Largest review.
    pub request_bytes: usize,
    /// At the same time.
    pub reviews: NonZeroUsize,
    /// Whether providers may ask their clouds. The webhook only says so in the log.
    pub online: bool,
}

/// Judges the Services of reviews.
pub trait Reviewer: Send + Sync + 'static {
    /// Judges a Service; `before` is the Service as it was. Takes no longer than `limit`.
    fn review(
        &self,
        service: &Service,
        before: Option<&Service>,
        limit: Duration,
    ) -> impl Future<Output = Decision> + Send;
}

/// What the API server is told about a Service.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Decision {
    /// Why it is denied, if it is.
    pub denial: Option<String>,
    /// For whoever changes the Service.
    pub warnings: Vec<String>,
}

/// The webhook, before anybody asks.
pub struct Webhook<R> {
    settings: Settings,
    reviewer: R,
    places: Semaphore,
    metrics: WebhookMetrics,
}

impl<R: Reviewer> Webhook<R> {
    /// Opens nothing yet.
    pub fn new(settings: Settings, reviewer: R, registry: &mut Registry) -> Arc<Self> {
        let places = Semaphore::new(settings.reviews.get().min(Semaphore::MAX_PERMITS));
        Arc::new(Self { reviewer, places, metrics: WebhookMetrics::register(registry), settings })
    }

    /// Binds its port, for [`Self::serve`].
    ///
    /// # Errors
    ///
    /// The port is in use.
    pub async fn bind(&self) -> Result<TcpListener> {
        let listener = bind(self.settings.address, "--webhook-bind-address and --webhook-secure-port").await?;
        tracing::info!(address = %listener.local_addr()?, path = PATH, online = self.settings.online, "webhook is served");
        Ok(listener)
    }

    /// Serves until `stop`: reviews under way are then answered, and new ones go to another replica.
    pub async fn serve(self: Arc<Self>, listener: TcpListener, stop: CancellationToken) {
        let certificate = Certificate::new(self.settings.files.clone(), self.metrics.clone());
        let clients = self.settings.client_ca.clone().map(ClientCa::new);
        let tls = certificate.acceptor(self.settings.min_tls, clients.clone());
        let reloading = certificate.reload(self.settings.reload_period, stop.clone());
        let following = ClientCa::follow(clients, self.settings.reload_period, stop.clone());
        let connections =
            self.settings.reviews.get().saturating_mul(CONNECTIONS_PER_REVIEW).min(Semaphore::MAX_PERMITS);
        let patience = Patience { head: HEAD_TIMEOUT, write: WRITE_TIMEOUT, age: MAX_AGE };
        let port = Port { name: "webhook", listener, tls, connections, patience, stop, grace: GRACE };
        let answering = move |request| {
            let this = Arc::clone(&self);
            async move { this.answer(request).await }
        };
        tokio::join!(reloading, following, port.serve(answering));
    }

    async fn answer<B>(&self, request: Request<B>) -> Page
    where
        B: Body<Data = Bytes, Error: std::error::Error + Send + Sync + 'static>,
    {
        if request.uri().path() != PATH {
            return page(StatusCode::NOT_FOUND, TEXT, format!("try {PATH}\n"));
        }
        let begun = Instant::now();
        let answer = self.review(request, begun).await;
        let answer = answer.unwrap_or_else(|(status, why)| {
            tracing::debug!(status = status.as_u16(), why, "review not answered");
            page(status, TEXT, format!("{why}\n"))
        });
        self.metrics.answered(answer.status(), begun.elapsed());
        answer
    }

    /// Takes a place before the body: that bounds how much is in memory.
    async fn review<B>(&self, request: Request<B>, begun: Instant) -> Result<Page, review::NoReview>
    where
        B: Body<Data = Bytes, Error: std::error::Error + Send + Sync + 'static>,
    {
        if request.method() != Method::POST {
            return Err((StatusCode::METHOD_NOT_ALLOWED, "only POST is served".to_owned()));
        }
        if request.headers().get(CONTENT_TYPE).is_none_or(|kind| kind != JSON) {
            return Err((StatusCode::BAD_REQUEST, format!("the content type is not {JSON}")));
        }
        let limit = self.limit(request.uri().query().unwrap_or_default());
        let deadline = begun + limit;
        let late = |what: &str, status| (status, format!("{what} within {limit:?}"));
        let place = timeout_at(deadline, self.places.acquire()).await;
        let Ok(Ok(_place)) = place else {
            return Err(late("too many reviews: no turn", StatusCode::SERVICE_UNAVAILABLE));
        };
        let body = Limited::new(request.into_body(), self.settings.request_bytes).collect();
        let body = match timeout_at(deadline, body).await {
            Err(_elapsed) => return Err(late("the body did not come", StatusCode::REQUEST_TIMEOUT)),
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(error)) if error.is::<LengthLimitError>() => {
                let why =
                    format!("the review has more than {} bytes (--webhook-request-bytes)", self.settings.request_bytes);
                return Err((StatusCode::PAYLOAD_TOO_LARGE, why));
            }
            Ok(Err(error)) => return Err((StatusCode::BAD_REQUEST, format!("the body broke off: {error}"))),
        };
        let values = (self.settings.request_bytes / BYTES_PER_VALUE).max(MIN_VALUES);
        let question = review::Question::read(&body, values)?;
        drop(body);
        let decision = match &question.service {
            Some(service) => {
                let left = deadline.saturating_duration_since(Instant::now());
                Some(self.reviewer.review(service, question.before.as_deref(), left).await)
            }
            None => None,
        };
        Ok(page(StatusCode::OK, JSON, review::answer(&question.uid, decision.as_ref())))
    }

    /// The API server says how long it waits. The answer must arrive before that, whatever the operator set.
    fn limit(&self, query: &str) -> Duration {
        let asked = query.split('&').find_map(|pair| pair.strip_prefix("timeout="));
        let asked = asked.and_then(|text| Duration::try_from(text.parse::<SignedDuration>().ok()?).ok());
        asked
            .filter(|asked| !asked.is_zero())
            .map_or(self.settings.timeout, |asked| self.settings.timeout.min(asked.mul_f64(0.9)))
    }
}
