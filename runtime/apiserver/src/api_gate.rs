//! The one way of requests to the API server.
//!
//! Every request of a controller, and every Event, goes through [`ApiGate`]: it has a time limit, is counted, and leaves only while the
//! gate is open: while this process leads. Nothing is retried: queues do that. The client must have kube's own
//! retry switched off (`Config.default_retry`), else a request waits behind the gate's back.

mod error;
#[cfg(test)]
mod tests;
mod width;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use ccm_cloud::{Alone, Leadership};
use kube::Client;
use prometheus_client::metrics::gauge::Gauge;
use tokio::time::Instant;

use crate::metrics::ApiMetrics;
pub use error::{ApiError, Purpose};
use width::Width;

/// How requests leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ApiGateSettings {
    /// How long the API server may take for one answer. Default 10 s: ten times what a busy API server needs. A write has
    /// less when the leadership ends before ([`Leadership::time_left`]).
    pub request_timeout: Duration,
    /// `--kube-api-concurrent-writes`: most writes under way at the same time. Default 128. How many there are below that follows
    /// how fast the API server answers; the others wait.
    pub concurrent_writes: NonZeroUsize,
}

impl Default for ApiGateSettings {
    fn default() -> Self {
        Self { request_timeout: Duration::from_secs(10), concurrent_writes: NonZeroUsize::MIN.saturating_add(127) }
    }
}

/// Sends requests to the API server. Cheap to clone.
#[derive(Clone)]
pub struct ApiGate {
    client: Client,
    settings: ApiGateSettings,
    metrics: ApiMetrics,
    leadership: Arc<dyn Leadership>,
    width: Arc<Width>,
}

impl ApiGate {
    /// A gate that is always open.
    #[must_use]
    pub fn new(client: Client, metrics: ApiMetrics, settings: ApiGateSettings) -> Self {
        let width = Arc::new(Width::new(settings.concurrent_writes, Gauge::default()));
        Self { client, settings, metrics, leadership: Arc::new(Alone), width }
    }

    /// The same gate, open only while `leadership` says so. It is asked before each write and must answer at once. This is the
    /// gate of the controllers, whose width is among the metrics.
    #[must_use]
    pub fn led_by(mut self, leadership: Arc<dyn Leadership>) -> Self {
        self.leadership = leadership;
        self.width = Arc::new(Width::new(self.settings.concurrent_writes, self.metrics.width.clone()));
        self
    }

    /// The client, for watches.
    #[must_use]
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Sends one write, as soon as the API server has room for it.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, the write may or may not have had its effect.
    ///
    /// # Errors
    ///
    /// It had no effect, or none that is known.
    pub async fn write<T>(
        &self,
        purpose: Purpose,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, ApiError> {
        // Looked at before and after: what may not be written does not wait, and what has waited may no longer be written.
        let place = match self.leadership.may_write() {
            true => Some(self.width.place().await).filter(|_| self.leadership.may_write()),
            false => None,
        };
        if place.is_none() {
            self.metrics.ended(purpose.verb, purpose.resource, ApiError::Closed.outcome(), Duration::ZERO);
            return Err(ApiError::Closed);
        }
        let begun = Instant::now();
        let limit = self.settings.request_timeout.min(self.leadership.time_left());
        let answer = self.send(purpose, limit, request).await;
        self.width.answered(purpose, begun.elapsed(), answer.as_ref().err());
        answer
    }

    /// Sends one request that changes nothing: allowed while the gate is closed.
    ///
    /// # Errors
    ///
    /// There is no answer, or the API server said no.
    pub async fn read<T>(
        &self,
        purpose: Purpose,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, ApiError> {
        self.send(purpose, self.settings.request_timeout, request).await
    }

    async fn send<T>(
        &self,
        purpose: Purpose,
        limit: Duration,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, ApiError> {
        let begun = Instant::now();
        let answer = match tokio::time::timeout(limit, request).await {
            Ok(answer) => answer.map_err(ApiError::from),
            Err(_elapsed) => Err(ApiError::TimedOut(limit)),
        };
        let outcome = answer.as_ref().map_or_else(ApiError::outcome, |_| "ok");
        self.metrics.ended(purpose.verb, purpose.resource, outcome, begun.elapsed());
        answer
    }
}
