//! What an innocent provider notices of a hostile one in the same process, attack by attack, and what it costs the host.
//!
//! Run it on an idle machine: `./just bench hostile`, or `./just bench hostile spin` for one attack.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use ccm_cloud::{Alone, Finding, Instances as _, Need, Node};
use ccm_e2e::measure::{Distribution, count, micros, rss, settled_rss};
use ccm_e2e::report::{Report, Target};
use ccm_e2e::slow_cloud::{self, SlowCloud};
use ccm_egress::config::{CredentialSource, NetworkSettings, OperatorGrants};
use ccm_egress::{Cache, Carryover, Egress, EgressConfig, ProviderContext};
use ccm_sandbox::{Limits, Pool, Provider, Sandbox, TICK, worker_threads};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// As in the host: another allocator keeps more of what attacks make it take.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// By the name of a Node, as the hostile guest knows them.
const ATTACKS: [&str; 16] = [
    "spin",
    "grow",
    "recurse",
    "panic",
    "unreachable",
    "huge-string",
    "huge-answer",
    "huge-list",
    "many-labels",
    "too-many",
    "chatty",
    "log-flood",
    "event-flood",
    "cache-flood",
    "send-all",
    "request-flood",
];
/// Calls of the attacker at the same time.
const ATTACKERS: usize = 32;
/// Calls of the innocent one with an exchange at the same time, and of each.
const LANES: usize = 8;
const CALLS: usize = 150;
/// Calls without an exchange, one after another.
const SILENT_CALLS: usize = 1_200;
/// What the host gives to calls in a container of 512 MiB: half of that.
const ALL_CALLS: usize = 256 << 20;
/// How often the memory is looked at.
const LOOK: Duration = Duration::from_millis(5);

/// Milliseconds that an exchange of 50 ms may take longer beside an attack.
const EXCHANGE_MORE: f64 = 30.0;
/// Ticks of the clock that stops guests, by which a call without an exchange may be longer.
const SILENT_MORE_TICKS: f64 = 3.0;
const RSS_PEAK: Target = Target::AtMost(536_870_912.0);
const RSS_DIFFERENCE: Target = Target::AtMost(10_485_760.0);

fn main() -> ExitCode {
    ccm_e2e::exit_code(start())
}

fn start() -> Result<()> {
    slow_cloud::serve_if_asked()?;
    let only = std::env::args().nth(1);
    let attacks: Vec<&'static str> =
        ATTACKS.into_iter().filter(|attack| only.as_deref().is_none_or(|only| only == *attack)).collect();
    ensure!(!attacks.is_empty(), "no attack of that name; there are {}", ATTACKS.join(", "));
    // As in the host, where every call is a task.
    let workers = worker_threads(Limits::default().busy_calls);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(workers).enable_all().build()?;
    runtime.block_on(bench(attacks))
}

async fn bench(attacks: Vec<&'static str>) -> Result<()> {
    let cloud = SlowCloud::start().await?;
    let sandbox = Sandbox::with_pool(Pool { memory_bytes: ALL_CALLS, providers: 2, ..Pool::default() })?;
    let innocent = Arc::new(innocent(&sandbox, &cloud.url).await?);
    let attacker = Arc::new(attacker(&sandbox).await?);
    let mut report = Report::new("hostile");

    let before = settled_rss(async || measure(&innocent).await.map(drop)).await?;
    let alone = measure(&innocent).await?;
    report.figure("alone_exchange_p99", alone.exchange.percentile(99), "ms", None);
    report.figure("alone_silent_p99", alone.silent.percentile(99), "ms", None);
    let tick = TICK.as_secs_f64() * 1e3;
    let exchange = Target::AtMost(alone.exchange.percentile(99) + EXCHANGE_MORE);
    let silent = Target::AtMost(alone.silent.percentile(99) + SILENT_MORE_TICKS * tick);
    for attack in attacks {
        let peak = Peak::watch();
        let attacked = Attack::begin(&attacker, attack);
        let beside = measure(&innocent).await.with_context(|| format!("beside {attack}"))?;
        let calls = attacked.end().await?;
        report.figure(format!("{attack}_calls"), count(calls), "", Some(Target::AtLeast(1.0)));
        report.figure(format!("{attack}_exchange_p99"), beside.exchange.percentile(99), "ms", Some(exchange));
        report.figure(format!("{attack}_silent_p99"), beside.silent.percentile(99), "ms", Some(silent));
        report.figure(format!("{attack}_rss_peak"), peak.end()?, "bytes", Some(RSS_PEAK));
        // The next measurement shows whether it goes back; it may take the allocator some seconds.
        report.figure(format!("{attack}_rss_kept"), rss()? - before, "bytes", None);
    }
    let after = settled_rss(async || measure(&innocent).await.map(drop)).await?;
    report.figure("rss_before", before, "bytes", None);
    report.figure("rss_after", after, "bytes", None);
    report.figure("rss_difference", (after - before).abs(), "bytes", Some(RSS_DIFFERENCE));
    report.finish().map(drop)
}

/// A provider whose calls ask a cloud that takes its time.
async fn innocent(sandbox: &Sandbox, url: &str) -> Result<Provider> {
    let bytes = std::fs::read(ccm_e2e::host::component("guests/scripted.wasm")?)?;
    let component = sandbox.load(bytes, Limits::default(), false).await?;
    let folder = tempfile::tempdir()?;
    let token = folder.path().join("token");
    std::fs::write(&token, "dop_v1_4f0c1b7e9a2d48c6b35e")?;
    let mut grants = OperatorGrants { allow_http: true, ..OperatorGrants::default() };
    grants.addresses.loopback = true;
    grants.base_urls.insert("api".to_owned(), url.to_owned());
    let credentials = BTreeMap::from([("token".to_owned(), CredentialSource::file(token))]);
    // No request waits for its turn, or the rate would be measured.
    let mut settings = NetworkSettings::default();
    settings.budget.per_second = Some(f64::INFINITY);
    settings.budget.burst = Some(std::num::NonZeroU32::MAX);
    let config = EgressConfig { grants, credentials, settings, ..EgressConfig::new(Arc::new(Alone)) };
    let egress = Egress::open(config, component.descriptor(), &Carryover::default(), None)?;
    // The secret is looked for as long as the provider is used.
    std::mem::forget(folder);
    Ok(component.into_provider(context(Some(egress)), None, None))
}

/// With the limits that everybody has.
async fn attacker(sandbox: &Sandbox) -> Result<Provider> {
    let bytes = std::fs::read(ccm_e2e::host::component("guests/hostile.wasm")?)?;
    Ok(sandbox.load(bytes, Limits::default(), false).await?.into_provider(context(None), None, None))
}

fn context(egress: Option<Egress>) -> ProviderContext {
    ProviderContext { cache: Cache::new(Cache::DEFAULT_BYTES), egress, ..ProviderContext::closed() }
}

/// Milliseconds of calls with an exchange, and of calls without.
struct Times {
    exchange: Distribution,
    silent: Distribution,
}

/// Both kinds of calls at the same time.
async fn measure(provider: &Arc<Provider>) -> Result<Times> {
    let mut lanes = JoinSet::new();
    for lane in 0..LANES {
        let provider = Arc::clone(provider);
        lanes.spawn(async move {
            let mut times = Vec::with_capacity(CALLS);
            for number in 0..CALLS {
                let start = Instant::now();
                let label = find(&provider, node(&format!("node-{lane}-{number}"), Some("GET /later"))).await?;
                ensure!(label.is_some_and(|label| label.contains("\"status\":200")), "the cloud did not answer");
                times.push(micros(start) / 1e3);
            }
            Ok(times)
        });
    }
    let mut silent = JoinSet::new();
    {
        let provider = Arc::clone(provider);
        silent.spawn(async move {
            let mut times = Vec::with_capacity(SILENT_CALLS);
            for _ in 0..SILENT_CALLS {
                let start = Instant::now();
                find(&provider, node("silent", None)).await?;
                times.push(micros(start) / 1e3);
                // Else the lanes would wait for these calls, and not for the attacker's.
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            anyhow::Ok(times)
        });
    }
    let mut exchange = Vec::with_capacity(LANES * CALLS);
    while let Some(times) = lanes.join_next().await {
        exchange.extend(times??);
    }
    let silent = silent.join_next().await.context("nobody called without an exchange")???;
    Ok(Times { exchange: Distribution::of(exchange), silent: Distribution::of(silent) })
}

fn node(name: &str, script: Option<&str>) -> Node {
    let script = script.map(|script| ("scripted.example/script".to_owned(), script.to_owned()));
    Node { name: name.to_owned(), annotations: script.into_iter().collect(), ..Node::default() }
}

/// A call, and the label that its script wrote. A figure about answers that are wrong would say nothing.
async fn find(provider: &Provider, node: Node) -> Result<Option<String>> {
    match provider.find(vec![node], Need::Metadata).await?.pop() {
        Some(Finding::Found(mut instance)) => Ok(instance.labels.remove("0")),
        other => bail!("the guest did not find its machine: {other:?}"),
    }
}

/// Calls of the attacker without a pause.
struct Attack {
    stop: Arc<AtomicBool>,
    lanes: JoinSet<usize>,
}

impl Attack {
    fn begin(attacker: &Arc<Provider>, name: &'static str) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let mut lanes = JoinSet::new();
        for _ in 0..ATTACKERS {
            let (attacker, stop) = (Arc::clone(attacker), Arc::clone(&stop));
            lanes.spawn(async move {
                let mut calls = 0;
                while !stop.load(Ordering::Relaxed) {
                    // However it ends.
                    drop(attacker.find(vec![node(name, None)], Need::Metadata).await);
                    calls += 1;
                    tokio::task::yield_now().await;
                }
                calls
            });
        }
        Self { stop, lanes }
    }

    /// How many calls there were.
    async fn end(mut self) -> Result<usize> {
        self.stop.store(true, Ordering::Relaxed);
        let mut calls = 0;
        while let Some(lane) = self.lanes.join_next().await {
            calls += lane?;
        }
        Ok(calls)
    }
}

/// The most memory that the process had, looked at by a thread of its own: a guest cannot keep it from looking.
struct Peak {
    stop: Arc<AtomicBool>,
    most: Arc<AtomicU64>,
    thread: std::thread::JoinHandle<Result<()>>,
}

impl Peak {
    #[expect(clippy::disallowed_methods, reason = "a thread that does nothing else")]
    fn watch() -> Self {
        let (stop, most) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, seen) = (Arc::clone(&stop), Arc::clone(&most));
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                seen.fetch_max(rss()?.to_bits(), Ordering::Relaxed);
                std::thread::sleep(LOOK);
            }
            Ok(())
        });
        Self { stop, most, thread }
    }

    fn end(self) -> Result<f64> {
        self.stop.store(true, Ordering::Relaxed);
        match self.thread.join() {
            Ok(looked) => looked?,
            Err(_) => bail!("the thread that looks at the memory is gone"),
        }
        Ok(f64::from_bits(self.most.load(Ordering::Relaxed)))
    }
}
