//! Health and metrics over HTTPS on upstream's port: `/livez`, `/healthz`, `/readyz`, `/providerz`, `/metrics`, `/configz`,
//! `/explain/v1/`, and `/`, the [status page](crate::status). The wall stands before all of them ([`guarded`]), and before those that come later.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ccm_controllers::Explainer;
use ccm_diagnosis::{Explained, asked};
use ccm_leader::{Beside, Seen};
use ccm_plan::Pending;
use ccm_rollout::status::ProviderStatuses;
use ccm_sandbox::MemoryBudget;
use ccm_serving::access::{Reader, Reviews, Wall};
use ccm_serving::health::{Health, Readiness};
use ccm_serving::https::{Page, Patience, Port, TEXT, page};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::header::ACCEPT;
use hyper::{Method, Request, StatusCode};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::access::ApiReviews;
use crate::dry_run;

/// Connections at the same time; one more takes the place of the idlest, so that a probe never waits. Probes and scrapers need a handful.
const MAX_CONNECTIONS: usize = 64;
/// A client that has not finished its request head by then, or reads nothing of its answer for so long, is dropped. A scraper whose
/// connection is too old opens another one.
const PATIENCE: Patience =
    Patience { head: Duration::from_secs(10), write: Duration::from_secs(10), age: Duration::from_secs(300) };

/// What is served.
#[derive(Clone)]
pub(crate) struct Pages {
    /// Who may read them. None where only this machine can.
    pub(crate) wall: Option<Arc<Wall<ApiReviews>>>,
    pub(crate) readiness: Readiness,
    pub(crate) health: Health,
    /// None without leader election.
    pub(crate) leader: Option<Seen>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) process: ProcessMetrics,
    pub(crate) providers: ProviderStatuses,
    pub(crate) explainer: Explainer,
    /// What `/configz` says.
    pub(crate) configz: Arc<str>,
    /// What would be written; none for a process that writes.
    pub(crate) dry_run: Option<Pending>,
    /// Beside whom a dry run works.
    pub(crate) beside: Beside,
}

impl Pages {
    /// What `/healthz/NAME`, `/livez/NAME` or `/readyz/NAME` says; none where there is no such check.
    fn check(&self, path: &str) -> Option<(StatusCode, String)> {
        let (page, name) = path.strip_prefix('/')?.split_once('/')?;
        match page {
            "healthz" | "livez" => self.health.one(name),
            "readyz" => self.readiness.one(name).or_else(|| self.health.one(name)),
            _ => None,
        }
    }

    async fn answer(&self, request: &Request<()>) -> Page {
        const JSON: &str = "application/json";
        const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        // Whoever did not come through the wall is nobody in particular.
        let reader = request.extensions().get().copied().unwrap_or(Reader::Anybody);
        if request.method() != Method::GET && request.method() != Method::HEAD {
            return page(StatusCode::METHOD_NOT_ALLOWED, TEXT, "only GET is served\n".to_owned());
        }
        match request.uri().path() {
            "/" => self.status_page().await,
            "/livez" | "/healthz" => {
                let (status, text) = self.health.all(request.uri().query().unwrap_or_default(), reader);
                page(status, TEXT, text)
            }
            "/readyz" => {
                let (ready, text) = self.readiness_report();
                let text = if reader == Reader::Known { text } else { withheld(ready).to_owned() };
                page(if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, TEXT, text)
            }
            "/metrics" => match self.metrics() {
                Ok(text) => page(StatusCode::OK, OPEN_METRICS, text),
                Err(error) => page(StatusCode::INTERNAL_SERVER_ERROR, TEXT, format!("metrics: {error}\n")),
            },
            "/providerz" => {
                // Browsers and `curl` get text; programs ask for JSON.
                let accepts = request.headers().get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
                let wants = request.uri().query().unwrap_or_default().split('&').any(|part| part == "format=json");
                if wants || accepts.starts_with(JSON) {
                    page(StatusCode::OK, JSON, self.providers.json())
                } else {
                    page(StatusCode::OK, TEXT, self.providers.text())
                }
            }
            "/configz" => page(StatusCode::OK, JSON, self.configz.to_string()),
            path if let Some((status, text)) = self.check(path) => page(status, TEXT, text),
            _ => {
                let pages = "try /, /livez, /healthz, /readyz, /providerz, /metrics, /configz or /explain/v1/\n";
                page(StatusCode::NOT_FOUND, TEXT, pages.to_owned())
            }
        }
    }

    /// Why this process could not lead if it had to, as a check that fails.
    fn trouble(&self) -> Option<String> {
        self.leader.as_ref()?.trouble().map(|why| format!("leader election not ready: {why}"))
    }

    /// The checks of `/readyz` and `/healthz` that fail. They are not read out of those pages, where others have their say.
    pub(crate) fn failing(&self) -> Vec<String> {
        [self.readiness.failing(), self.trouble().into_iter().collect(), self.health.failing()].concat()
    }

    /// Whether it is ready, and why not: for those who may know it.
    fn readiness_report(&self) -> (bool, String) {
        let (mut ready, mut text) = self.readiness.report();
        // A standby is ready, unless it could never lead: otherwise a Deployment of broken replicas would roll out.
        if let Some(line) = self.trouble() {
            ready = false;
            text += &format!("[-]{line}\n");
        }
        // It works with what it has read, and does not after a restart.
        for line in self.providers.unreadable() {
            text += &format!("{line}\n");
        }
        if let Some(leader) = &self.leader {
            text += &format!("{}\n", leader.line());
        }
        if self.dry_run.is_some() {
            dry_run::lines_of_leader(&self.beside).for_each(|line| text += &format!("{line}\n"));
        }
        (ready, text)
    }

    /// What a scraper reads.
    pub(crate) fn metrics(&self) -> Result<String, std::fmt::Error> {
        self.process.refresh();
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

/// What `/readyz` tells [everybody](Reader::Anybody): the lines name sources and the leader, and quote the API server and clouds.
const fn withheld(ready: bool) -> &'static str {
    if ready { "ok" } else { "not ready: the reasons are for those who may get /readyz/*\n" }
}

/// Upstream's labels; those that are about Go or that nobody told the compiler are empty.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BuildLabels {
    build_date: &'static str,
    compiler: &'static str,
    git_commit: &'static str,
    git_tree_state: &'static str,
    git_version: &'static str,
    go_version: &'static str,
    major: &'static str,
    minor: &'static str,
    platform: String,
}

impl Default for BuildLabels {
    fn default() -> Self {
        // As Go calls them.
        let processor = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        Self {
            build_date: "",
            compiler: "rustc",
            git_commit: "",
            git_tree_state: "",
            git_version: concat!("v", env!("CARGO_PKG_VERSION")),
            go_version: "",
            major: env!("CARGO_PKG_VERSION_MAJOR"),
            minor: env!("CARGO_PKG_VERSION_MINOR"),
            platform: format!("{}/{processor}", std::env::consts::OS),
        }
    }
}

/// What the whole process takes.
#[derive(Clone)]
pub(crate) struct ProcessMetrics {
    started: Gauge,
    resident_memory: Gauge,
    memory_of_calls: Gauge,
    given_to_calls: Gauge,
    calls: Option<MemoryBudget>,
}

impl ProcessMetrics {
    /// The metrics, as parts of `registry`.
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            started: Gauge::default(),
            resident_memory: Gauge::default(),
            memory_of_calls: Gauge::default(),
            given_to_calls: Gauge::default(),
            calls: None,
        };
        let build: Family<BuildLabels, Gauge> = Family::default();
        build.get_or_create(&BuildLabels::default()).set(1);
        registry.register("kubernetes_build_info", "1, with the version of this program", build);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        metrics.started.set(i64::try_from(now.as_secs()).unwrap_or(i64::MAX));
        let help = "Time at which the process started, in seconds since the epoch";
        registry.register("process_start_time_seconds", help, metrics.started.clone());
        registry.register_with_unit(
            "process_resident_memory",
            "Resident memory of the process",
            Unit::Bytes,
            metrics.resident_memory.clone(),
        );
        registry.register_with_unit(
            "ccm_provider_memory_limit",
            "Memory that all calls of providers may take together",
            Unit::Bytes,
            metrics.memory_of_calls.clone(),
        );
        registry.register_with_unit(
            "ccm_provider_memory_given",
            "Memory that calls of providers have been given now",
            Unit::Bytes,
            metrics.given_to_calls.clone(),
        );
        metrics
    }

    /// The same, with the memory of calls.
    pub(crate) fn with_calls(self, calls: MemoryBudget) -> Self {
        Self { calls: Some(calls), ..self }
    }

    /// Reads the figures anew, for a scrape.
    pub(crate) fn refresh(&self) {
        // Absent on other systems than Linux: the gauge then stays at zero.
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let kilobytes =
            status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().split(' ').next()?.parse().ok());
        self.resident_memory.set(kilobytes.unwrap_or(0_i64).saturating_mul(1024));
        if let Some(calls) = &self.calls {
            let number = |bytes: usize| i64::try_from(bytes).unwrap_or(i64::MAX);
            self.memory_of_calls.set(number(calls.bytes()));
            self.given_to_calls.set(number(calls.given()));
        }
    }
}

/// Serves until it is dropped.
pub(crate) async fn serve(listener: TcpListener, tls: TlsAcceptor, pages: Pages) {
    let stop = CancellationToken::new();
    let (name, connections) = ("health", MAX_CONNECTIONS);
    let (patience, grace) = (PATIENCE, Duration::ZERO);
    let answer = guarded(pages.wall.clone(), answering(pages));
    Port { name, listener, tls, connections, patience, stop, grace }.serve(answer).await;
}

/// Answers only whom the wall lets in, whatever there is behind it.
fn guarded<R: Reviews, B: Send + 'static>(
    wall: Option<Arc<Wall<R>>>,
    answer: impl Fn(Request<B>) -> BoxFuture<'static, Page> + Clone + Send + 'static,
) -> impl Fn(Request<B>) -> BoxFuture<'static, Page> + Clone + Send {
    move |mut request| {
        let Some(wall) = wall.clone() else {
            request.extensions_mut().insert(Reader::Known);
            return answer(request);
        };
        let answer = answer.clone();
        async move {
            let (mut head, body) = request.into_parts();
            match wall.reader(&head).await {
                Ok(reader) => {
                    head.extensions.insert(reader);
                    answer(Request::from_parts(head, body)).await
                }
                Err(refusal) => refusal,
            }
        }
        .boxed()
    }
}

fn answering<B: Send + 'static>(pages: Pages) -> impl Fn(Request<B>) -> BoxFuture<'static, Page> + Clone + Send {
    let Pages { explainer, leader, providers, dry_run, .. } = pages.clone();
    let dry_run = dry_run.map(|pending| Arc::new(move |target: &_| dry_run::would_write(&pending, target)) as _);
    let explained = Explained { explainer, leader, providers, dry_run };
    let pages = Arc::new(pages);
    move |request| match asked(&request) {
        Some(target) => {
            let explained = explained.clone();
            async move { explained.page(target).await }.boxed()
        }
        None => {
            let (pages, request) = (Arc::clone(&pages), request.map(drop));
            async move { pages.answer(&request).await }.boxed()
        }
    }
}

#[cfg(test)]
mod tests;
