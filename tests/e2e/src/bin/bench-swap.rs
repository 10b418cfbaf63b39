//! `./just bench swap [COUNT [FLAG ...]]`, with more flags for the host: how soon another component serves once its source has
//! changed. API server and host are real; Nodes come and go all the time, so that there is always a call to be made. Each
//! source is changed COUNT times to Cloudlycke and COUNT times to a smaller component, in turn.
//!
//! ```text
//! change ─noticed─▶ looked at ─read─▶ settled ─compile, takeover─▶ exchanged ─first_call─▶ first call ended
//! ```

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use ccm_cluster::{ControlPlane, NodeFixture, Settings, User, await_node};
use ccm_e2e::crowd::is_tainted;
use ccm_e2e::host::{Host, SERVICE_ACCOUNT, component};
use ccm_e2e::manifest::{self, put_config_map};
use ccm_e2e::measure::Distribution;
use ccm_e2e::provider_page::ProviderPage;
use ccm_e2e::report::{Report, Target};
use ccm_e2e::successor::successor;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::jiff::Timestamp;
use kube::api::DeleteParams;
use kube::{Api, Client, ResourceExt as _};
use tokio::task::JoinSet;

/// Exchanges to each component unless the first argument says another number.
const EXCHANGES: u32 = 50;
const LIMIT: Duration = Duration::from_secs(60);
/// Nodes that come and go at a time.
const WORKERS: u32 = 4;
/// The page says since when a component is in its phase: with a probation that does not end, that is the exchange.
const PROBATION: &str = "--provider-probation=1h";

#[tokio::main]
async fn main() -> ExitCode {
    ccm_e2e::exit_code(bench().await)
}

async fn bench() -> Result<()> {
    let exchanges: u32 = match std::env::args().nth(1) {
        Some(text) => text.parse().with_context(|| format!("{text:?} is not a number of exchanges"))?,
        None => EXCHANGES,
    };
    ensure!(exchanges > 0, "without an exchange there is nothing to measure");
    let mut report = Report::new("swap");
    for kind in ["configmap", "file"] {
        let times = Box::pin(run(kind, exchanges)).await.with_context(|| kind.to_owned())?;
        times.tell(kind, &mut report);
    }
    report.finish()?;
    Ok(())
}

/// Where components are put.
enum Place {
    ConfigMap(Client),
    File(PathBuf),
}

impl Place {
    fn flag(&self) -> String {
        match self {
            Self::ConfigMap(_) => "--provider=configmap:kube-system/provider".to_owned(),
            Self::File(path) => format!("--provider={}", path.display()),
        }
    }

    async fn put(&self, bytes: &[u8]) -> Result<()> {
        match self {
            Self::ConfigMap(client) => {
                put_config_map(client, "kube-system", "provider", [("p.wasm".to_owned(), bytes.to_vec())]).await
            }
            Self::File(path) => {
                let new = path.with_extension("new");
                std::fs::write(&new, bytes)?;
                Ok(std::fs::rename(new, path)?)
            }
        }
    }
}

async fn run(kind: &str, exchanges: u32) -> Result<Times> {
    let (namespace, account) = SERVICE_ACCOUNT;
    let user = User::service_account(namespace, account);
    let cluster = ControlPlane::start(Settings::default().user(user.clone())).await?;
    let client = cluster.client().clone();
    manifest::apply_base(&client).await?;
    let place = match kind {
        "file" => Place::File(cluster.folder().join("p.wasm")),
        _ => Place::ConfigMap(client.clone()),
    };
    let cloudlycke = std::fs::read(component("providers/cloudlycke.wasm")?)?;
    place.put(&cloudlycke).await?;
    let mut flags = vec![place.flag(), PROBATION.to_owned()];
    flags.extend(std::env::args().skip(2));
    let mut host = Host::start(cluster.kubeconfig_of(&user.name)?, &flags)?;
    host.await_page("/readyz", 200, LIMIT).await?;
    let mut load = JoinSet::new();
    for worker in 0..WORKERS {
        load.spawn(come_and_go(client.clone(), worker));
    }

    let mut times = Times::default();
    for number in 1..=exchanges {
        let compiled = exchange(&host, &place, &varied(&cloudlycke, number), &mut times).await?;
        times.compile_cloudlycke.push(compiled);
        let version = format!("2.{number}.0");
        let compiled = exchange(&host, &place, &successor(&[("version", &version)])?, &mut times).await?;
        times.compile_successor.push(compiled);
        if let Some(ended) = load.try_join_next() {
            ended?.context("the load ended")?;
        }
        write!(std::io::stderr(), "\r{kind}: {number} of {exchanges}")?;
    }
    writeln!(std::io::stderr())?;
    load.shutdown().await;
    is_served_by(&client, &format!("2.{exchanges}.0")).await?;
    ensure!(host.terminate().await?.success(), "the host did not end well:\n{}", host.log_text());
    Ok(times)
}

/// A Node at a time: each is a call.
async fn come_and_go(client: Client, worker: u32) -> Result<()> {
    let api: Api<Node> = Api::all(client.clone());
    for number in 0_u32.. {
        let name = format!("node-{worker}-{number}");
        NodeFixture::new(&name).internal_ip("10.0.0.1").register(&client).await?;
        await_node(&client, &name, LIMIT, |node| !is_tainted(node)).await?;
        drop(api.delete(&name, &DeleteParams::default()).await?);
    }
    Ok(())
}

/// That the page tells the truth.
async fn is_served_by(client: &Client, version: &str) -> Result<()> {
    const NAME: &str = "node-that-asks";
    NodeFixture::new(NAME).internal_ip("10.0.0.2").register(client).await?;
    let node = await_node(client, NAME, LIMIT, |node| !is_tainted(node)).await?;
    let label = node.labels().get("successor.io/version");
    ensure!(label.is_some_and(|label| label == version), "{label:?} serves, not {version}");
    Ok(())
}

/// Changes the source; returns the time of the compiler.
async fn exchange(host: &Host, place: &Place, bytes: &[u8], times: &mut Times) -> Result<f64> {
    let before = host.provider().await.generation;
    let changed = Timestamp::now();
    place.put(bytes).await?;
    let is_new = |page: &ProviderPage| page.generation == before + 1 && page.times.first_call_ms.is_some();
    let page = host.await_provider(LIMIT, is_new).await?;
    let of = page.times;
    let first_call = of.first_call_ms.context("a call was awaited")?;
    let exchanged = page.since.duration_since(changed).as_secs_f64() * 1e3;
    times.change_to_first_call.push(exchanged + first_call);
    times.without_compile.push(exchanged + first_call - of.compile_ms);
    times.noticed.push(exchanged - of.read_ms - of.compile_ms - of.takeover_ms);
    times.read.push(of.read_ms);
    times.takeover.push(of.takeover_ms);
    times.exchange.push(of.exchange_ms);
    times.first_call.push(first_call);
    Ok(of.compile_ms)
}

/// The same component in other bytes: with a custom section that nobody reads.
fn varied(bytes: &[u8], number: u32) -> Vec<u8> {
    [bytes, &[0, 6, 1, b'x'], &number.to_le_bytes()].concat()
}

/// In milliseconds.
#[derive(Default)]
struct Times {
    change_to_first_call: Vec<f64>,
    without_compile: Vec<f64>,
    noticed: Vec<f64>,
    read: Vec<f64>,
    compile_cloudlycke: Vec<f64>,
    compile_successor: Vec<f64>,
    takeover: Vec<f64>,
    exchange: Vec<f64>,
    first_call: Vec<f64>,
}

impl Times {
    fn tell(self, kind: &str, report: &mut Report) {
        let rows = [
            ("change_to_first_call", self.change_to_first_call, None),
            ("change_to_first_call_without_compile", self.without_compile, None),
            ("noticed", self.noticed, None),
            ("read", self.read, None),
            ("compile_cloudlycke", self.compile_cloudlycke, None),
            ("compile_successor", self.compile_successor, None),
            ("takeover", self.takeover, Some(Target::AtMost(100.0))),
            ("first_call", self.first_call, None),
        ];
        for (name, times, target) in rows {
            let times = Distribution::of(times);
            report.figure(format!("{kind}_{name}_p50"), times.percentile(50), "ms", None);
            report.figure(format!("{kind}_{name}_p99"), times.percentile(99), "ms", target);
        }
        let exchange = Distribution::of(self.exchange);
        report.figure(format!("{kind}_exchange_p50"), exchange.percentile(50) * 1e3, "µs", None);
        let target = Some(Target::AtMost(1_000.0));
        report.figure(format!("{kind}_exchange_p99"), exchange.percentile(99) * 1e3, "µs", target);
    }
}
