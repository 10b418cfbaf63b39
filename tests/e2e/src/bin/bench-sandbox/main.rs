//! What the sandbox costs: a fresh instance for every call, compiling, a load balancer of a large cluster, and whether memory comes back.
//!
//! Run it on an idle machine: `./just bench sandbox`.

mod backends;

use std::process::ExitCode;

use anyhow::{Context as _, Result, anyhow};
use ccm_cloud::{Address, AddressKind, Finding, Instances as _, Need, Node};
use ccm_e2e::measure::{Distribution, count, micros, rss, settled_rss};
use ccm_e2e::report::{Report, Target};
use ccm_egress::{Cache, ProviderContext};
use ccm_sandbox::{Limits, Provider, Sandbox};
use tokio::time::Instant;

const COMPILATIONS: usize = 10;
const WARM_UP: usize = 500;
const CALLS_OF_ONE: usize = 5_000;
const CALLS_OF_MANY: usize = 500;
const MANY: usize = 500;
const CALLS_TO_SETTLE: usize = 5_000;
const CALLS_FOR_RSS: usize = 100_000;

const FIND_ONE_P50: Target = Target::AtMost(100.0);
const RSS_GROWTH: Target = Target::AtMost(2_097_152.0);

#[tokio::main]
async fn main() -> ExitCode {
    ccm_e2e::exit_code(bench().await)
}

async fn bench() -> Result<()> {
    let path = ccm_e2e::host::component("providers/cloudlycke.wasm")?;
    let bytes = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let sandbox = Sandbox::try_new()?;
    let mut report = Report::new("sandbox");

    let mut compilations = Vec::with_capacity(COMPILATIONS);
    for _ in 0..COMPILATIONS {
        let start = Instant::now();
        let component = sandbox.load(bytes.clone(), Limits::default(), false).await?;
        compilations.push(micros(start) / 1_000.0);
        drop(component);
    }
    let compilations = Distribution::of(compilations);
    report.figure("load_p50", compilations.percentile(50), "ms", None);
    report.figure("load_max", compilations.percentile(100), "ms", None);

    let provider = sandbox.load(bytes, Limits::default(), false).await?.into_provider(context(), None, None);
    for (name, nodes, calls, target) in
        [("1_node", 1, CALLS_OF_ONE, Some(FIND_ONE_P50)), ("500_nodes", MANY, CALLS_OF_MANY, None)]
    {
        let times = time_calls(&provider, nodes, calls).await?;
        report.figure(format!("find_{name}_p50"), times.percentile(50), "µs", target);
        report.figure(format!("find_{name}_p99"), times.percentile(99), "µs", None);
        report.figure(format!("find_{name}_mean"), times.mean(), "µs", None);
    }

    backends::bench(&sandbox, &mut report).await?;

    let before = settled_rss(async || {
        for _ in 0..CALLS_TO_SETTLE {
            find(&provider, nodes(1)).await?;
        }
        Ok(())
    })
    .await?;
    let start = Instant::now();
    for _ in 0..CALLS_FOR_RSS {
        find(&provider, nodes(1)).await?;
    }
    let seconds = start.elapsed().as_secs_f64();
    let after = rss()?;
    report.figure("rss_before_calls", before, "bytes", None);
    report.figure("rss_after_100000_calls", after, "bytes", None);
    report.figure("rss_difference", (after - before).abs(), "bytes", Some(RSS_GROWTH));
    report.figure("calls_per_second", count(CALLS_FOR_RSS) / seconds, "1/s", None);
    report.finish().map(drop)
}

/// What a provider gets whose operator configured nothing.
fn context() -> ProviderContext {
    ProviderContext { cache: Cache::new(Cache::DEFAULT_BYTES), ..ProviderContext::closed() }
}

/// Nodes as kubelets register them.
fn nodes(count: usize) -> Vec<Node> {
    let text =
        |pairs: &[(&str, &str)]| pairs.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
    let node = |index: usize| Node {
        name: format!("node-{index}"),
        uid: format!("3c8a1d2e-0000-4000-8000-{index:012}"),
        provider_id: None,
        system_uuid: Some(format!("3c8a1d2e-0000-4000-9000-{index:012}")),
        addresses: vec![
            Address::new(AddressKind::InternalIp, format!("10.0.{}.{}", index / 250, index % 250)),
            Address::new(AddressKind::Hostname, format!("node-{index}")),
        ],
        labels: text(&[
            ("kubernetes.io/arch", "amd64"),
            ("kubernetes.io/hostname", "node"),
            ("kubernetes.io/os", "linux"),
            ("node-role.kubernetes.io/worker", ""),
        ]),
        annotations: text(&[
            ("alpha.kubernetes.io/provided-node-ip", "10.0.0.1"),
            ("example.com/note", "not declared"),
        ]),
        capacity: text(&[("cpu", "4"), ("memory", "16273172Ki")]),
        taints: vec!["node.cloudprovider.kubernetes.io/uninitialized".to_owned()],
        routed_cidrs: vec![],
    };
    (0..count).map(node).collect()
}

/// A figure about answers that are wrong would say nothing.
async fn find(provider: &Provider, nodes: Vec<Node>) -> Result<()> {
    let findings = provider.find(nodes, Need::Metadata).await?;
    match findings.iter().find(|finding| !matches!(finding, Finding::Found(_))) {
        Some(other) => Err(anyhow!("cloudlycke did not find a machine: {other:?}")),
        None => Ok(()),
    }
}

async fn time_calls(provider: &Provider, count: usize, calls: usize) -> Result<Distribution> {
    let nodes = nodes(count);
    for _ in 0..WARM_UP.min(calls) {
        find(provider, nodes.clone()).await?;
    }
    let mut times = Vec::with_capacity(calls);
    for _ in 0..calls {
        let nodes = nodes.clone();
        let start = Instant::now();
        find(provider, nodes).await?;
        times.push(micros(start));
    }
    Ok(Distribution::of(times))
}
