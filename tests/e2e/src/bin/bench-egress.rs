//! What the way out costs: a guest's exchange over the same one without guest and host, many at the same time, and whether
//! memory comes back.
//!
//! Run it on an idle machine: `./just bench egress`, or `./just bench egress 5000` for fewer exchanges. The recipe runs it on one
//! core, so that no figure depends on how fast a sleeping core wakes up.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use ccm_cloud::{Alone, Descriptor, Finding, Instances as _, Need, Node};
use ccm_e2e::measure::{Distribution, count, micros, rss};
use ccm_e2e::report::{Report, Target};
use ccm_e2e::slow_cloud::{self, BODY, SlowCloud, THINKS};
use ccm_egress::config::{BudgetSettings, ClientSettings, CredentialSource, NetworkSettings, OperatorGrants};
use ccm_egress::http::{Effect, Encoding, Method, Part, Request};
use ccm_egress::observe::{BudgetLeft, Exchange, ExchangeObserver, ExchangeOutcome};
use ccm_egress::{Cache, CallScope, Carryover, Class, Egress, EgressConfig, ProviderContext};
use ccm_sandbox::{Limits, Provider, Sandbox};
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;

const EXCHANGES: usize = 100_000;
/// Samples of a kind in a row, after some that do not count.
const BLOCK: usize = 250;
const BLOCK_WARM_UP: usize = 50;
const SAMPLES: usize = 10_000;
const MANY: usize = 200;
const ROUNDS: usize = 5;
/// After so long the default rate has given a budget all of its burst back.
const REFILL: Duration = Duration::from_secs(6);
/// Calls at the same time while memory is watched.
const LANES: usize = 8;

const MORE_P50: Target = Target::AtMost(150.0);
const MORE_PERCENT: Target = Target::AtMost(1.0);
const MANY_MS: Target = Target::AtMost(150.0);
const RSS_GROWTH: Target = Target::AtMost(2_097_152.0);

const TOKEN: &str = "dop_v1_4f0c1b7e9a2d48c6b35e";

fn main() -> ExitCode {
    ccm_e2e::exit_code(start())
}

fn start() -> Result<()> {
    slow_cloud::serve_if_asked()?;
    let exchanges = match std::env::args().nth(1) {
        Some(number) => number.parse().with_context(|| format!("{number:?} is not a number of exchanges"))?,
        None => EXCHANGES,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    // A task, as the calls of the host are: the thread that only waits would have to be woken for every answer.
    runtime.block_on(runtime.spawn(bench(exchanges)))?
}

async fn bench(exchanges: usize) -> Result<()> {
    let server = SlowCloud::start().await?;
    let folder = tempfile::tempdir()?;
    // As a mounted Secret is, which is looked at for every request.
    let token = folder.path().join("token");
    std::fs::write(&token, TOKEN)?;
    let rig = Rig {
        bytes: std::fs::read(ccm_e2e::host::component("guests/scripted.wasm")?)?,
        sandbox: Sandbox::try_new()?,
        url: server.url.clone(),
        token,
    };
    let mut report = Report::new("egress");
    one(&rig, &mut report, SAMPLES.min(exchanges)).await?;
    many(&rig, &mut report).await?;
    memory(&rig, &mut report, exchanges).await?;
    report.finish().map(drop)
}

/// One exchange: natively, through the host's way out, and by a guest. In blocks that take turns: within one, caches are as
/// warm as those of a host that has work to do, and all of them meet the same weather.
async fn one(rig: &Rig, report: &mut Report, samples: usize) -> Result<()> {
    let native = native_client()?;
    let url = format!("{}/now", rig.url);
    let (provider, observer) = rig.provider(unlimited()).await?;
    let egress = rig.egress(provider.descriptor(), unlimited(), None)?;
    let asking = node("/now", 0);
    let idle = Node { annotations: BTreeMap::new(), ..asking.clone() };
    let mut times: [Vec<f64>; 4] = Default::default();
    let blocks = samples.div_ceil(BLOCK);
    for block in 0..blocks {
        // In four rounds each one follows each other one once: what came before says how awake server and caches are.
        for which in [0, 1, 3, 2].map(|which| (which + block) % 4) {
            for number in 0..BLOCK + BLOCK_WARM_UP {
                let node = if which == 3 { idle.clone() } else { asking.clone() };
                let start = Instant::now();
                match which {
                    0 => exchange_natively(&native, &url).await?,
                    1 => exchange_outside(&egress).await?,
                    2 => exchange(&provider, node).await?,
                    _ => find(&provider, node).await.map(drop)?,
                }
                let time = micros(start);
                if let Some(times) = times.get_mut(which).filter(|_| number >= BLOCK_WARM_UP) {
                    times.push(time);
                }
            }
        }
    }
    observer.expect(blocks * (BLOCK + BLOCK_WARM_UP))?;
    let [native, outside, guest, silent] = times.map(Distribution::of);
    for (name, times) in
        [("native", &native), ("host_without_guest", &outside), ("guest", &guest), ("guest_without_exchange", &silent)]
    {
        report.figure(format!("{name}_p50"), times.percentile(50), "µs", None);
        report.figure(format!("{name}_p99"), times.percentile(99), "µs", None);
    }
    let more = guest.percentile(50) - native.percentile(50);
    report.figure("guest_more_than_native_p50", more, "µs", Some(MORE_P50));
    report.figure("more_of_a_50_ms_call", more / (THINKS.as_secs_f64() * 1e6) * 100.0, "%", Some(MORE_PERCENT));
    Ok(())
}

/// Many calls at the same time, each with an exchange that takes its time, with the settings that everybody has.
async fn many(rig: &Rig, report: &mut Report) -> Result<()> {
    let (provider, observer) = rig.provider(NetworkSettings::default()).await?;
    let provider = Arc::new(provider);
    let native = native_client()?;
    let url = format!("{}/later", rig.url);
    let cold = round(&provider).await?;
    native_round(&native, &url).await?;
    let (mut rounds, mut native_rounds) = (Vec::with_capacity(ROUNDS), Vec::with_capacity(ROUNDS));
    for _ in 0..ROUNDS {
        tokio::time::sleep(REFILL).await;
        native_rounds.push(native_round(&native, &url).await?);
        rounds.push(round(&provider).await?);
    }
    observer.expect(MANY * (ROUNDS + 1))?;
    let (rounds, native_rounds) = (Distribution::of(rounds), Distribution::of(native_rounds));
    report.figure("200_native_p50", native_rounds.percentile(50), "ms", None);
    report.figure("200_calls_cold", cold, "ms", None);
    report.figure("200_calls_p50", rounds.percentile(50), "ms", Some(MANY_MS));
    report.figure("200_calls_max", rounds.percentile(100), "ms", None);
    Ok(())
}

/// The same without guests, as many at the same time as the default settings let be.
async fn native_round(client: &reqwest::Client, url: &str) -> Result<f64> {
    let places = Arc::new(Semaphore::new(BudgetSettings::default().concurrency.get()));
    let start = Instant::now();
    let mut exchanges = JoinSet::new();
    for _ in 0..MANY {
        let (places, client, url) = (Arc::clone(&places), client.clone(), url.to_owned());
        exchanges.spawn(async move {
            let _place = places.acquire().await?;
            exchange_natively(&client, &url).await
        });
    }
    while let Some(exchange) = exchanges.join_next().await {
        exchange??;
    }
    Ok(micros(start) / 1e3)
}

/// Milliseconds until the last of many calls has its answer.
async fn round(provider: &Arc<Provider>) -> Result<f64> {
    let nodes: Vec<Node> = (0..MANY).map(|number| node("/later", number)).collect();
    let start = Instant::now();
    let mut calls = JoinSet::new();
    for node in nodes {
        let provider = Arc::clone(provider);
        calls.spawn(async move { exchange(&provider, node).await });
    }
    while let Some(call) = calls.join_next().await {
        call??;
    }
    Ok(micros(start) / 1e3)
}

/// Whether memory comes back, when every exchange is another one and its answer is kept for others.
async fn memory(rig: &Rig, report: &mut Report, exchanges: usize) -> Result<()> {
    let mut settings = unlimited();
    // Full long before the warm-up is over.
    settings.limits.share_bytes = 1 << 20;
    let (provider, observer) = rig.provider(settings).await?;
    let provider = Arc::new(provider);
    let warm_up = exchanges / 10;
    lanes(&provider, 0, warm_up).await?;
    let before = rss()?;
    let start = Instant::now();
    lanes(&provider, warm_up, exchanges).await?;
    let seconds = start.elapsed().as_secs_f64();
    let after = rss()?;
    observer.expect(exchanges.saturating_add(warm_up))?;
    report.figure("rss_before_exchanges", before, "bytes", None);
    report.figure("rss_after_exchanges", after, "bytes", None);
    report.figure("rss_difference", (after - before).abs(), "bytes", Some(RSS_GROWTH));
    report.figure("exchanges", count(exchanges), "", None);
    report.figure("exchanges_per_second", count(exchanges) / seconds, "1/s", None);
    Ok(())
}

async fn lanes(provider: &Arc<Provider>, first: usize, exchanges: usize) -> Result<()> {
    let mut lanes = JoinSet::new();
    for lane in 0..LANES {
        let provider = Arc::clone(provider);
        lanes.spawn(async move {
            for number in (lane..exchanges).step_by(LANES) {
                let number = number.saturating_add(first);
                let path = format!("/now/{number}");
                exchange(&provider, sharing_node(&path, number, 60_000)).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(lane) = lanes.join_next().await {
        lane??;
    }
    Ok(())
}

/// What providers are made of here.
struct Rig {
    bytes: Vec<u8>,
    sandbox: Sandbox,
    url: String,
    token: std::path::PathBuf,
}

impl Rig {
    async fn provider(&self, settings: NetworkSettings) -> Result<(Provider, Arc<Observer>)> {
        let component = self.sandbox.load(self.bytes.clone(), Limits::default(), false).await?;
        let observer = Arc::new(Observer::default());
        let egress = self.egress(component.descriptor(), settings, Some(Arc::clone(&observer) as _))?;
        let context = ProviderContext {
            cache: Cache::new(Cache::DEFAULT_BYTES),
            egress: Some(egress),
            ..ProviderContext::closed()
        };
        Ok((component.into_provider(context, None, None), observer))
    }

    fn egress(
        &self,
        descriptor: &Descriptor,
        settings: NetworkSettings,
        observer: Option<Arc<dyn ExchangeObserver>>,
    ) -> Result<Egress> {
        let mut grants = OperatorGrants { allow_http: true, ..OperatorGrants::default() };
        grants.addresses.loopback = true;
        grants.base_urls.insert("api".to_owned(), self.url.clone());
        let token = CredentialSource::file(self.token.clone());
        let credentials = BTreeMap::from([("token".to_owned(), token)]);
        let config = EgressConfig { grants, credentials, settings, observer, ..EgressConfig::new(Arc::new(Alone)) };
        Ok(Egress::open(config, descriptor, &Carryover::default(), None)?)
    }
}

/// No request waits for its turn, or the rate would be measured.
fn unlimited() -> NetworkSettings {
    let mut settings = NetworkSettings::default();
    settings.budget.per_second = Some(f64::INFINITY);
    settings.budget.burst = Some(NonZeroU32::MAX);
    settings
}

/// A figure about answers that are wrong, or that nobody gave, would say nothing.
#[derive(Default)]
struct Observer {
    answers: AtomicUsize,
    others: AtomicUsize,
}

impl Observer {
    fn expect(&self, exchanges: usize) -> Result<()> {
        let (answers, others) = (self.answers.load(Ordering::Relaxed), self.others.load(Ordering::Relaxed));
        ensure!((answers, others) == (exchanges, 0), "{answers} exchanges and {others} others instead of {exchanges}");
        Ok(())
    }
}

impl ExchangeObserver for Observer {
    fn exchange_ended(&self, exchange: Exchange<'_>) {
        let counter = if exchange.outcome == ExchangeOutcome::Status(200) { &self.answers } else { &self.others };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    fn budget(&self, _: BudgetLeft<'_>) {}
}

/// A Node whose script is one request with a secret.
fn node(path: &str, number: usize) -> Node {
    scripted(number, format!("GET {path}"))
}

/// The same, with an answer that may be shared.
fn sharing_node(path: &str, number: usize, share_ms: u32) -> Node {
    let script = json!([{ "send": {
        "path": path,
        "headers": [["authorization", ["Bearer ", { "secret": "token" }]], ["accept", ["application/json"]]],
        "share-ms": share_ms,
    }}]);
    scripted(number, script.to_string())
}

fn scripted(number: usize, script: String) -> Node {
    Node {
        name: format!("node-{number}"),
        uid: format!("3c8a1d2e-0000-4000-8000-{number:012}"),
        annotations: BTreeMap::from([("scripted.example/script".to_owned(), script)]),
        ..Node::default()
    }
}

/// A call, and the label that its script wrote.
async fn find(provider: &Provider, node: Node) -> Result<Option<String>> {
    match provider.find(vec![node], Need::Metadata).await?.pop() {
        Some(Finding::Found(mut instance)) => Ok(instance.labels.remove("0")),
        other => bail!("the guest did not find its machine: {other:?}"),
    }
}

async fn exchange(provider: &Provider, node: Node) -> Result<()> {
    let label = find(provider, node).await?.unwrap_or_default();
    ensure!(label.contains("\"status\":200"), "the guest was told {label}");
    Ok(())
}

async fn exchange_outside(egress: &Egress) -> Result<()> {
    let bytes = |text: &str| Part::Bytes(text.as_bytes().to_vec());
    let secret = Part::Secret { credential: "token".to_owned(), encoding: Encoding::Plain };
    let request = Request {
        endpoint: "api".to_owned(),
        method: Method::Get,
        effect: Effect::Read,
        path: "/now".to_owned(),
        query: vec![],
        headers: vec![
            ("authorization".to_owned(), vec![bytes("Bearer "), secret]),
            ("accept".to_owned(), vec![bytes("application/json")]),
        ],
        body: vec![],
        operation: "GET /now".to_owned(),
        share: Duration::ZERO,
        capture: None,
    };
    let most = egress.limits().call_response_bytes;
    let call = CallScope::new(Class::Initialise, true, false, None, 1, most);
    let answer = egress.send(request, &call).await?;
    ensure!(answer.status == 200 && answer.body.len() == BODY, "the host was told {answer:?}");
    Ok(())
}

/// With the settings of the host's clients.
fn native_client() -> Result<reqwest::Client> {
    let builder = reqwest::Client::builder().tls_backend_rustls().http1_only().no_proxy().gzip(true).referer(false);
    let builder = builder.redirect(reqwest::redirect::Policy::none()).retry(reqwest::retry::never());
    let settings = ClientSettings::default();
    let builder = builder
        .connect_timeout(settings.connect_timeout)
        .pool_idle_timeout(settings.idle_timeout)
        .pool_max_idle_per_host(settings.idle_connections);
    Ok(builder.user_agent("native").build()?)
}

async fn exchange_natively(client: &reqwest::Client, url: &str) -> Result<()> {
    let request = client.get(url).bearer_auth(TOKEN).header("accept", "application/json");
    let answer = request.timeout(Duration::from_secs(30)).send().await?;
    let status = answer.status();
    let body = answer.bytes().await?;
    ensure!(status == 200 && body.len() == BODY, "{status} with {} bytes", body.len());
    Ok(())
}
