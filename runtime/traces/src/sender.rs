//! Sends what has ended to the collector, in batches: OTLP over HTTP, encoded as protobuf.

use std::error::Error;
use std::time::Duration;

use anyhow::Context as _;
use ccm_cloud::is_plain;
use percent_encoding::percent_decode_str;
use reqwest::header::{CONTENT_TYPE, HeaderValue};
use reqwest::{Certificate, StatusCode};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::encode;
use crate::layer::{SpanData, Value};
use crate::metrics::{Outcome, TraceMetrics};
use crate::settings::Settings;

/// Pauses before a batch is sent again. Meanwhile the queue fills.
const RETRIES: [Duration; 4] =
    [Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(4), Duration::from_secs(8)];
/// Most bytes of an answer that are read; those of a collector have a few.
const MOST_ANSWER: usize = 64 << 10;
/// Most characters of what the collector says that are logged.
const MOST_SAID: usize = 256;
/// Shortest part of a header that is taken for a secret, in bytes.
const SHORTEST_SECRET: usize = 4;

/// Sends spans. Owns the end of the queue.
pub struct Sender {
    client: reqwest::Client,
    settings: Settings,
    resource: Vec<(String, Value)>,
    spans: mpsc::Receiver<SpanData>,
    metrics: TraceMetrics,
    /// What had been lost when the collector stopped taking spans; none while it takes them.
    away_since: Option<u64>,
}

/// Why a batch was not taken.
struct Refusal {
    why: String,
    may_repeat: bool,
}

impl Sender {
    pub(crate) fn new(
        settings: Settings,
        resource: Vec<(String, Value)>,
        spans: mpsc::Receiver<SpanData>,
        metrics: TraceMetrics,
    ) -> anyhow::Result<Self> {
        let client = client(&settings)?;
        Ok(Self { client, settings, resource, spans, metrics, away_since: None })
    }

    /// Where spans go, as it may be shown.
    pub(crate) fn endpoint(&self) -> String {
        self.settings.shown()
    }

    /// What it counts.
    #[must_use]
    pub fn metrics(&self) -> TraceMetrics {
        self.metrics.clone()
    }

    /// Sends until `stop`, and then what still waits, without a second try. The caller limits how long that may take.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses what was not sent.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        while let Some(batch) = self.gather(&stop).await {
            self.send(batch, &stop).await;
        }
    }

    /// The next batch: as soon as there are enough spans, or when the first one has waited for long enough. None when it is to stop and
    /// nothing waits.
    async fn gather(&mut self, stop: &CancellationToken) -> Option<Vec<SpanData>> {
        let most = self.settings.batch.get();
        let mut batch = vec![];
        let mut end = None;
        while batch.len() < most && !stop.is_cancelled() {
            let room = most.saturating_sub(batch.len());
            let more = tokio::select! {
                () = stop.cancelled() => break,
                () = tokio::time::sleep_until(end.unwrap_or_else(Instant::now)), if end.is_some() => break,
                more = self.spans.recv_many(&mut batch, room) => more,
            };
            if more == 0 {
                break;
            }
            // Later than the clock can say is as good as never.
            end = end.or_else(|| Instant::now().checked_add(self.settings.delay));
        }
        while batch.len() < most
            && let Ok(span) = self.spans.try_recv()
        {
            batch.push(span);
        }
        (!batch.is_empty()).then_some(batch)
    }

    async fn send(&mut self, batch: Vec<SpanData>, stop: &CancellationToken) {
        let spans = u64::try_from(batch.len()).unwrap_or(u64::MAX);
        let body = encode::request(&self.resource, &batch);
        drop(batch);
        let mut pauses = RETRIES.into_iter();
        loop {
            let refusal = match self.post(body.clone()).await {
                Ok((rejected, said)) => {
                    let rejected = rejected.min(spans);
                    self.metrics.count(Outcome::Sent, spans.saturating_sub(rejected));
                    if rejected == 0 {
                        return self.taken();
                    }
                    self.not_taken(&said, false);
                    return self.metrics.count(Outcome::NotTaken, rejected);
                }
                Err(refusal) => refusal,
            };
            self.not_taken(&refusal.why, refusal.may_repeat);
            let pause = pauses.next().filter(|_| refusal.may_repeat && !stop.is_cancelled());
            let Some(pause) = pause else { return self.metrics.count(Outcome::NotTaken, spans) };
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Sends a batch once. Returns how many spans the collector did not take all the same, and why.
    async fn post(&self, body: Vec<u8>) -> Result<(u64, String), Refusal> {
        let no_answer = |error: reqwest::Error| Refusal { why: causes(&error.without_url()), may_repeat: true };
        let request = self.client.post(self.settings.endpoint.clone()).headers(self.settings.headers.clone());
        let request = request.header(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf")).body(body);
        let mut answer = request.send().await.map_err(no_answer)?;
        let status = answer.status();
        if !status.is_success() {
            let may_repeat = matches!(
                status,
                StatusCode::TOO_MANY_REQUESTS
                    | StatusCode::BAD_GATEWAY
                    | StatusCode::SERVICE_UNAVAILABLE
                    | StatusCode::GATEWAY_TIMEOUT
            );
            return Err(Refusal { why: format!("it answers {status}"), may_repeat });
        }
        let mut body = vec![];
        // Who has said "taken" is believed, whatever follows.
        while body.len() < MOST_ANSWER
            && let Ok(Some(chunk)) = answer.chunk().await
        {
            body.extend_from_slice(&chunk);
        }
        Ok(encode::rejected(&body).unwrap_or_default())
    }

    /// Says it once, however many batches follow.
    fn not_taken(&mut self, why: &str, may_repeat: bool) {
        if self.away_since.is_some() {
            return;
        }
        self.away_since = Some(self.lost());
        let why = self.without_secrets(why);
        let why: String =
            why.chars().map(|letter| if is_plain(letter) { letter } else { ' ' }).take(MOST_SAID).collect();
        let lost = match may_repeat {
            true => format!("a batch is lost after {} tries", RETRIES.len().saturating_add(1)),
            false => "what it refuses is lost at once".to_owned(),
        };
        tracing::warn!(
            endpoint = self.settings.shown(),
            "the collector does not take traces: {why}; the host goes on: {lost}, and so are spans that find {} others waiting (ccm_trace_spans_total)",
            self.settings.queue
        );
    }

    /// What the collector says may repeat what it was sent: the headers, and what the client makes of a user and a password.
    fn without_secrets(&self, said: &str) -> String {
        let Settings { endpoint, headers, .. } = &self.settings;
        let request = self.client.post(endpoint.clone()).headers(headers.clone()).build();
        let mut secrets: Vec<String> = vec![];
        for value in request.iter().flat_map(|request| request.headers().values()).filter(|value| value.is_sensitive())
        {
            let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
            // Such as the token after `Bearer`.
            secrets.extend(value.split_whitespace().last().map(ToOwned::to_owned));
            secrets.push(value);
        }
        // Some collectors take a token as the user.
        let password = endpoint.password().unwrap_or_else(|| endpoint.username());
        secrets.extend([password.to_owned(), percent_decode_str(password).decode_utf8_lossy().into_owned()]);
        secrets.retain(|secret| secret.len() >= SHORTEST_SECRET);
        // A secret may begin with another one.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        secrets.iter().fold(said.to_owned(), |said, secret| said.replace(secret, "(a header)"))
    }

    fn taken(&mut self) {
        if let Some(before) = self.away_since.take() {
            let lost = self.lost().saturating_sub(before);
            tracing::info!(endpoint = self.settings.shown(), lost, "the collector takes traces again");
        }
    }

    fn lost(&self) -> u64 {
        self.metrics.counted(Outcome::QueueFull).saturating_add(self.metrics.counted(Outcome::NotTaken))
    }
}

/// As for requests to clouds: no proxy of the environment, and nowhere else than the operator said.
fn client(settings: &Settings) -> anyhow::Result<reqwest::Client> {
    let mut builder = reqwest::Client::builder()
        .tls_backend_rustls()
        .http1_only()
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        .no_proxy()
        .timeout(settings.timeout)
        .user_agent(concat!("wasm-ccm/", env!("CARGO_PKG_VERSION")));
    if let Some((name, file)) = &settings.certificate {
        let what = || format!("{name}: {file}");
        let pem = std::fs::read(file).with_context(what)?;
        builder = builder.tls_certs_only(Certificate::from_pem_bundle(&pem).with_context(what)?);
    } else if settings.endpoint.scheme() == "http" {
        // An image may have no authorities.
        builder = builder.tls_certs_only([]);
    }
    builder.build().context("the HTTP client of traces")
}

fn causes(error: &dyn Error) -> String {
    let mut told = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        told = format!("{told}: {error}");
        next = error.source();
    }
    told
}

#[cfg(test)]
impl Sender {
    /// What has ended.
    pub(crate) fn next(&mut self) -> Result<SpanData, mpsc::error::TryRecvError> {
        self.spans.try_recv()
    }
}
