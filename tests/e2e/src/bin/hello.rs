//! `./just hello`: loads the hello provider of each language as the host does, asks it, and prints the table of
//! `docs/guides/other-languages.md`.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use ccm_cloud::{Address, AddressKind, Finding, Instances as _, Need, Node};
use ccm_e2e::host::component;
use ccm_e2e::measure::{Distribution, micros};
use ccm_egress::{Cache, ProviderContext};
use ccm_rollout::config::limit_preset::LimitPreset;
use ccm_rollout::config::limits::{LimitSettings, ProviderLimits};
use ccm_sandbox::{CallEnd, CallObserver, Component, Limits, Pool, Provider, Sandbox};
use flate2::Compression;
use flate2::write::GzEncoder;
use parking_lot::Mutex;
use tokio::time::Instant;

/// The components, the names that they give themselves, and what they are made with.
const LANGUAGES: [(&str, &str, &str); 5] = [
    ("c", "hello-c", "C (clang)"),
    ("go", "hello-go", "Go (wasip1)"),
    ("js", "hello-js", "JavaScript (QuickJS)"),
    ("js-spidermonkey", "hello-js", "JavaScript (SpiderMonkey)"),
    ("python", "hello-python", "Python (CPython)"),
];
const CALLS: usize = 20;
const MANY: usize = 500;

/// The most memory of a call.
#[derive(Default)]
struct Peak(Mutex<usize>);

impl CallObserver for Peak {
    fn call_ended(&self, _: &str, end: CallEnd) {
        let mut peak = self.0.lock();
        *peak = end.memory.max(*peak);
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    ccm_e2e::exit_code(table().await)
}

async fn table() -> Result<()> {
    let largest = limits(LimitPreset::LargeRuntime)?.sandbox;
    let sandbox = Sandbox::with_pool(Pool::default().with_room_for(&largest))?;
    let mut lines = "| language | component | as .gz | limits | first load | optimised | `find`, 1 Node | `find`, 500 Nodes | memory |\n\
        |---|---|---|---|---|---|---|---|---|\n"
        .to_owned();
    let mut missing = vec![];
    for (file, name, language) in LANGUAGES {
        match component(&format!("hello/{file}.wasm")) {
            Ok(path) => {
                let bytes = std::fs::read(&path).with_context(|| path.display().to_string())?;
                lines.push_str(&row(&sandbox, bytes, name, language).await.context(language)?);
            }
            Err(error) => missing.push(format!("{language}: {error:#}")),
        }
    }
    std::io::stdout().write_all(lines.as_bytes())?;
    ensure!(missing.is_empty(), "missing: {}", missing.join("; "));
    Ok(())
}

fn limits(preset: LimitPreset) -> Result<ProviderLimits> {
    LimitSettings::default().resolve(preset)
}

async fn row(sandbox: &Sandbox, bytes: Vec<u8>, name: &str, language: &str) -> Result<String> {
    let packed = packed(&bytes)?;
    let (preset, limits, component, optimised) = fitting(sandbox, &bytes, packed).await?;
    let size = bytes.len();
    let start = Instant::now();
    drop(sandbox.load_in_a_hurry(bytes, limits, true).await?);
    let first = start.elapsed();
    ensure!(component.descriptor().name == name, "it calls itself {:?}", component.descriptor().name);

    let peak = Arc::new(Peak::default());
    let context = ProviderContext { cache: Cache::new(Cache::DEFAULT_BYTES), ..ProviderContext::closed() };
    let provider = component.into_provider(context, None, Some(Arc::clone(&peak) as _));
    let (one, many) = (time(&provider, name, 1).await?, time(&provider, name, MANY).await?);
    let mut row = String::new();
    writeln!(
        row,
        "| {language} | {} | {} | `{}` | {} | {} | {one:.1} ms | {many:.0} ms | {} |",
        amount(size),
        amount(packed),
        preset.as_str(),
        seconds(first),
        seconds(optimised),
        amount(*peak.0.lock()),
    )?;
    Ok(row)
}

fn packed(bytes: &[u8]) -> Result<usize> {
    let mut encoder = GzEncoder::new(vec![], Compression::best());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?.len())
}

/// The first preset with which a host takes it from a source in which it is packed, and how long that took.
async fn fitting(sandbox: &Sandbox, bytes: &[u8], packed: usize) -> Result<(LimitPreset, Limits, Component, Duration)> {
    let mut refused = vec![];
    for preset in LimitPreset::ALL {
        let ProviderLimits { source_bytes, sandbox: limits, .. } = limits(preset)?;
        if packed > source_bytes {
            refused.push(format!("{}: {packed} bytes packed", preset.as_str()));
            continue;
        }
        let start = Instant::now();
        match sandbox.load(bytes.to_vec(), limits, true).await {
            Ok(component) => return Ok((preset, limits, component, start.elapsed())),
            Err(error) => refused.push(format!("{}: {error:#}", preset.as_str())),
        }
    }
    bail!("no preset fits: {}", refused.join("; "))
}

/// Milliseconds of a call that finds so many machines, half of all calls take less.
async fn time(provider: &Provider, name: &str, count: usize) -> Result<f64> {
    let nodes: Vec<_> = (0..count).map(node).collect();
    let mut times = vec![];
    for _ in 0..CALLS {
        let asked = nodes.clone();
        let start = Instant::now();
        let findings = provider.find(asked, Need::Metadata).await?;
        times.push(micros(start) / 1e3);
        ensure!(findings.len() == count, "{} findings of {count}", findings.len());
        for (node, finding) in nodes.iter().zip(findings) {
            let Finding::Found(machine) = finding else { bail!("{}: {finding:?}", node.name) };
            ensure!(machine.provider_id == format!("{name}://{}", node.name), "{}", machine.provider_id);
            ensure!(machine.addresses == node.addresses, "{:?}", machine.addresses);
        }
    }
    Ok(Distribution::of(times).percentile(50))
}

fn node(index: usize) -> Node {
    Node {
        name: format!("node-{index}"),
        uid: format!("3c8a1d2e-0000-4000-8000-{index:012}"),
        addresses: vec![Address::new(AddressKind::InternalIp, format!("10.0.{}.{}", index / 250, index % 250))],
        ..Node::default()
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.2} s", time.as_secs_f64())
}

fn amount(bytes: usize) -> String {
    let tenths = bytes.div_ceil(100_000);
    if tenths < 2 { format!("{} KB", bytes.div_ceil(1000)) } else { format!("{}.{} MB", tenths / 10, tenths % 10) }
}
