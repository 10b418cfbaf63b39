//! Health and metrics over HTTPS on upstream's port: `/livez`, `/healthz`, `/readyz`, `/providerz`, `/metrics`, `/explain/v1/`, and
//! `/`, the [status page](crate::status).
//! Upstream's `/configz` is not among them. The wall stands before all of them ([`guarded`]), and before those that come later.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ccm_controllers::Explainer;
use ccm_diagnosis::{Explained, asked};
use ccm_leader::Seen;
use ccm_plan::Pending;
use ccm_rollout::status::ProviderStatuses;
use ccm_sandbox::MemoryBudget;
use ccm_serving::access::{Reviews, Wall};
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
    /// What would be written; none for a process that writes.
    pub(crate) dry_run: Option<Pending>,
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

    fn answer(&self, request: &Request<impl Sized>) -> Page {
        const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        if request.method() != Method::GET && request.method() != Method::HEAD {
            return page(StatusCode::METHOD_NOT_ALLOWED, TEXT, "only GET is served\n".to_owned());
        }
        match request.uri().path() {
            "/" => self.status_page(),
            "/livez" | "/healthz" => {
                let (status, text) = self.health.all(request.uri().query().unwrap_or_default());
                page(status, TEXT, text)
            }
            "/readyz" => {
                let (ready, text) = self.readiness_report();
                page(if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, TEXT, text)
            }
            "/metrics" => match self.metrics() {
                Ok(text) => page(StatusCode::OK, OPEN_METRICS, text),
                Err(error) => page(StatusCode::INTERNAL_SERVER_ERROR, TEXT, format!("metrics: {error}\n")),
            },
            "/providerz" => {
                const JSON: &str = "application/json";
                // Browsers and `curl` get text; programs ask for JSON.
                let accepts = request.headers().get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
                let wants = request.uri().query().unwrap_or_default().split('&').any(|part| part == "format=json");
                if wants || accepts.starts_with(JSON) {
                    page(StatusCode::OK, JSON, self.providers.json())
                } else {
                    page(StatusCode::OK, TEXT, self.providers.text())
                }
            }
            path if let Some((status, text)) = self.check(path) => page(status, TEXT, text),
            _ => {
                let pages = "try /, /livez, /healthz, /readyz, /providerz, /metrics or /explain/v1/\n";
                page(StatusCode::NOT_FOUND, TEXT, pages.to_owned())
            }
        }
    }

    /// Whether it is ready, and why not.
    pub(crate) fn readiness_report(&self) -> (bool, String) {
        let (mut ready, mut text) = self.readiness.report();
        // A standby is ready, unless it could never lead: otherwise a Deployment of broken replicas would roll out.
        if let Some(leader) = &self.leader {
            if let Some(why) = leader.trouble() {
                ready = false;
                text += &format!("[-]leader election not ready: {why}\n");
            }
            text += &format!("{}\n", leader.line());
        }
        if self.dry_run.is_some() {
            text += &format!("{}\n", dry_run::SAYS);
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
    move |request| {
        let Some(wall) = wall.clone() else { return answer(request) };
        let answer = answer.clone();
        async move {
            let (head, body) = request.into_parts();
            match wall.refusal(&head).await {
                Some(refusal) => refusal,
                None => answer(Request::from_parts(head, body)).await,
            }
        }
        .boxed()
    }
}

fn answering<B: Send + 'static>(pages: Pages) -> impl Fn(Request<B>) -> BoxFuture<'static, Page> + Clone + Send {
    let Pages { explainer, leader, providers, dry_run, .. } = pages.clone();
    let dry_run = dry_run.map(|pending| Arc::new(move |target: &_| dry_run::lines(&pending, target)) as _);
    let explained = Explained { explainer, leader, providers, dry_run };
    move |request| match asked(&request) {
        Some(target) => {
            let explained = explained.clone();
            async move { explained.page(target).await }.boxed()
        }
        None => std::future::ready(pages.answer(&request)).boxed(),
    }
}

#[cfg(test)]
mod tests {
    use ccm_serving::access::AccessMetrics;
    use ccm_serving::health::Check;
    use clap::Parser;
    use k8s_openapi::api::authentication::v1::UserInfo;

    use super::*;
    use crate::cli::AccessArgs;

    fn pages() -> Pages {
        let mut registry = Registry::default();
        let process = ProcessMetrics::register(&mut registry);
        let (readiness, health) = (Readiness::default(), Health::new([]));
        let providers = ProviderStatuses::default();
        let explainer = Explainer::default();
        Pages {
            wall: None,
            readiness,
            health,
            leader: None,
            registry: Arc::new(registry),
            process,
            providers,
            explainer,
            dry_run: None,
        }
    }

    async fn get(pages: &Pages, path: &str) -> (u16, String) {
        use http_body_util::BodyExt as _;
        let response = pages.answer(&Request::get(path).body(()).unwrap());
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn it_is_ready_when_every_check_says_so_and_else_says_why() {
        let pages = pages();
        assert_eq!(get(&pages, "/readyz").await, (503, String::new()));
        pages.readiness.set("provider x.wasm", Err("it is empty".into()));
        pages.readiness.set("nodes", Ok(()));
        assert_eq!(
            get(&pages, "/readyz").await,
            (503, "[+]nodes ok\n[-]provider x.wasm not ready: it is empty\n".into())
        );
        pages.readiness.set("provider x.wasm", Ok(()));
        assert_eq!(get(&pages, "/readyz").await, (200, "[+]nodes ok\n[+]provider x.wasm ok\n".into()));
        assert_eq!(get(&pages, "/livez").await, (200, "ok".into()));
    }

    /// An API server that knows one token, of somebody who may read everything.
    struct OneToken;

    impl Reviews for OneToken {
        async fn token(&self, token: &str, _: Option<&'static str>) -> Result<Option<UserInfo>, String> {
            Ok((token == "reader").then(UserInfo::default))
        }

        async fn access(&self, _: &UserInfo, _: &str) -> Result<bool, String> {
            Ok(true)
        }
    }

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        access: AccessArgs,
    }

    /// Also a page that nobody has written yet.
    #[tokio::test]
    async fn without_a_token_there_are_the_probes_and_no_other_page_whichever_comes() {
        let settings = Flags::parse_from(["run"]).access.settings();
        let wall = Arc::new(Wall::new(settings, OneToken, AccessMetrics::default()));
        let pages = pages();
        pages.readiness.set("nodes", Ok(()));
        pages.health.add(Check::new("leaderElection", || Ok(())));
        let served = answering::<()>(pages);
        let of_later = move |request: Request<()>| {
            let is_later = request.uri().path() == "/later";
            if is_later { std::future::ready(page(StatusCode::OK, TEXT, "secret")).boxed() } else { served(request) }
        };
        let answer = guarded(Some(wall), of_later.clone());
        let ask = async |path: &str, token: &str| {
            let request = Request::get(path).header("authorization", format!("Bearer {token}")).body(()).unwrap();
            answer(request).await.status().as_u16()
        };
        for path in ["/livez", "/healthz", "/readyz"] {
            assert_eq!(ask(path, "").await, 200, "{path}");
        }
        for path in [
            "/",
            "/metrics",
            "/providerz",
            "/explain/v1/node/n1",
            "/healthz/leaderElection",
            "/livez/leaderElection",
            "/readyz/nodes",
            "/later",
        ] {
            assert_eq!((ask(path, "").await, ask(path, "other").await), (401, 401), "{path}");
            assert_eq!(ask(path, "reader").await, 200, "{path}");
        }
        let open = guarded(None::<Arc<Wall<OneToken>>>, of_later);
        let metrics = open(Request::get("/metrics").body(()).unwrap()).await;
        assert_eq!(metrics.status(), 200, "where only this machine reaches the port");
    }

    #[tokio::test]
    async fn one_check_is_asked_for_on_each_of_the_pages_of_checks() {
        let pages = pages();
        pages.health.add(Check::new("service-lb-controller", || Err("it hangs".to_owned())));
        pages.readiness.set("nodes", Err("not listed".to_owned()));
        let hangs = "service-lb-controller failed: it hangs\n";
        for path in ["/healthz", "/livez", "/readyz"] {
            assert_eq!(get(&pages, &format!("{path}/service-lb-controller")).await, (500, hangs.to_owned()), "{path}");
            assert_eq!(get(&pages, &format!("{path}/nobody")).await.0, 404, "{path}");
        }
        assert_eq!(get(&pages, "/readyz/nodes").await, (503, "nodes not ready: not listed\n".to_owned()));
        assert_eq!(get(&pages, "/healthz/nodes").await.0, 404);
    }

    #[tokio::test]
    async fn the_build_is_among_the_metrics() {
        let (_, text) = get(&pages(), "/metrics").await;
        let line = text.lines().find(|line| line.starts_with("kubernetes_build_info{")).unwrap();
        for label in
            [concat!("git_version=\"v", env!("CARGO_PKG_VERSION"), "\""), "compiler=\"rustc\"", "platform=\"linux/"]
        {
            assert!(line.contains(label) && line.ends_with("} 1"), "{line}");
        }
    }

    #[tokio::test]
    async fn the_page_for_people_tells_what_is_not_ready_in_the_words_of_readyz() {
        let pages = pages();
        pages.readiness.set("provider x.wasm", Err("it is <b>empty</b>".into()));
        pages.readiness.set("nodes", Ok(()));
        let response = pages.answer(&Request::get("/").body(()).unwrap());
        let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        assert_eq!(header("content-security-policy"), ccm_status::POLICY);
        assert_eq!((header("x-content-type-options"), header("refresh")), ("nosniff", "15"));
        assert_eq!(header("content-type"), "text/html; charset=utf-8");
        let (status, text) = get(&pages, "/").await;
        assert!(status == 200 && text.contains("1 check that fails"), "{text}");
        assert!(text.contains("<li>provider x.wasm not ready: it is &lt;b&gt;empty&lt;/b&gt;</li>"), "{text}");
        assert!(text.contains("leader: this process, without election"), "{text}");
    }

    #[tokio::test]
    async fn metrics_tell_the_memory_of_this_process() {
        let (status, text) = get(&pages(), "/metrics").await;
        let line = text.lines().find(|line| line.starts_with("process_resident_memory_bytes ")).unwrap().to_owned();
        let bytes: u64 = line.rsplit(' ').next().unwrap().parse().unwrap();
        assert!(status == 200 && bytes > 1 << 20, "{line}");
    }

    /// Alerts on restarts count its changes.
    #[tokio::test]
    async fn metrics_tell_since_when_the_process_runs_and_say_the_same_each_time() {
        let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let before = now();
        let pages = pages();
        let after = now();
        let said = async || {
            let (_, text) = get(&pages, "/metrics").await;
            let line = text.lines().find_map(|line| line.strip_prefix("process_start_time_seconds "));
            line.unwrap_or_else(|| panic!("not in {text}")).parse::<u64>().unwrap()
        };
        let started = said().await;
        assert!((before..=after).contains(&started), "{started} is not between {before} and {after}");
        assert_eq!(said().await, started);
    }

    /// Both were zero, and each other's, without any test that would have failed.
    #[tokio::test]
    async fn metrics_tell_how_much_memory_calls_may_have_and_how_much_they_have_now() {
        const LIMIT: usize = 64 << 20;
        let calls = MemoryBudget::new(LIMIT, 1);
        let mut pages = pages();
        pages.process = pages.process.with_calls(calls.clone());
        let figures = async || {
            let (_, text) = get(&pages, "/metrics").await;
            ["limit", "given"].map(|name| {
                let series = format!("ccm_provider_memory_{name}_bytes ");
                let line = text.lines().find_map(|line| line.strip_prefix(&series));
                line.unwrap_or_else(|| panic!("no {series}in {text}")).parse::<usize>().unwrap()
            })
        };
        assert_eq!(figures().await, [LIMIT, 0]);
        let call = calls.share("x").try_begin(1 << 20).unwrap();
        assert_eq!(figures().await, [LIMIT, 1 << 20]);
        assert!(call.try_grow(2 << 20));
        let [limit, given] = figures().await;
        assert!(limit == LIMIT && (3 << 20..LIMIT).contains(&given), "{given}");
        drop(call);
        assert_eq!(figures().await, [LIMIT, 0]);
    }
}
