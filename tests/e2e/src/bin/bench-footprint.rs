//! `./just bench footprint`: size of the program, and memory of the process: idle, idle as a dry run with traces, with 1,000 nodes,
//! and at its peak.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result};
use ccm_cluster::{ControlPlane, NodeFixture, Settings, User, register_nodes};
use ccm_e2e::host::{self, Host, SERVICE_ACCOUNT, component};
use ccm_e2e::manifest;
use ccm_e2e::report::{Report, Target};
use tokio::time::Instant;

const NODES: u32 = 1_000;
/// After the start; by then every node is done and the allocator has settled.
const SETTLED: Duration = Duration::from_secs(60);
const MIB: f64 = 1_048_576.0;

#[tokio::main]
async fn main() -> ExitCode {
    ccm_e2e::exit_code(bench().await)
}

/// What `./just build` lets the program have, in bytes.
fn host_limit() -> Result<u64> {
    let mut lines = include_str!("../../../../justfile").lines();
    let limit = lines.find_map(|line| line.strip_prefix("host_limit := ")).context("no host_limit in the justfile")?;
    Ok(limit.trim_matches('"').parse()?)
}

async fn bench() -> Result<()> {
    let mut report = Report::new("footprint");
    let size = std::fs::metadata(host::program()?)?.len();
    report.figure("binary", float(size) / 1e6, "MB", Some(Target::AtMost(float(host_limit()?) / 1e6)));
    // For comparison: a Go manager has 57 MB idle, and 83 MB with 1,000 Nodes.
    // A dry run keeps what it would write, and traces wait for a collector, which is away here.
    let watched = ["--dry-run", "--trace-otlp"];
    let rows =
        [("idle", 0, &[][..], 32.0), ("idle_dry_run_with_traces", 0, &watched, 32.0), ("1000_nodes", NODES, &[], 50.0)];
    for (name, nodes, flags, most) in rows {
        let (settled, compiled, peak) = run(nodes, flags).await?;
        report
            .figure(format!("{name}_rss"), settled / MIB, "MiB", Some(Target::AtMost(most)))
            .figure(format!("{name}_peak_while_compiling"), compiled / MIB, "MiB", Some(Target::AtMost(50.0)))
            .figure(format!("{name}_peak"), peak / MIB, "MiB", None);
    }
    report.finish()?;
    Ok(())
}

/// Resident memory when it has settled, its peak when the provider was taken, its peak in all.
async fn run(nodes: u32, flags: &[&str]) -> Result<(f64, f64, f64)> {
    let (namespace, account) = SERVICE_ACCOUNT;
    let user = User::service_account(namespace, account);
    let cluster = ControlPlane::start(Settings::default().user(user.clone())).await?;
    let client = cluster.client();
    manifest::apply_base(client).await?;
    register_nodes(client, (0..nodes).map(|i| NodeFixture::new(format!("node-{i:05}")).internal_ip("10.0.0.1")))
        .await?;
    let provider = component("providers/cloudlycke.wasm")?;
    let start = Instant::now();
    let provider = ["--provider".into(), provider.into_os_string()];
    let host =
        Host::start(cluster.kubeconfig_of(&user.name)?, provider.into_iter().chain(flags.iter().map(Into::into)))?;
    host.await_log(SETTLED, &["provider taken"]).await?;
    let (_, compiled) = host.memory()?;
    tokio::time::sleep_until(start + SETTLED).await;
    let (settled, peak) = host.memory()?;
    Ok((float(settled), float(compiled), float(peak)))
}

/// Bytes, exactly up to 4 GiB, which no figure here comes near.
fn float(bytes: u64) -> f64 {
    f64::from(u32::try_from(bytes).unwrap_or(u32::MAX))
}
