//! `./just bench nodes [COUNT [FLAG ...]]`, with more flags for the host: how fast nodes become usable, and what it costs the API server. Two ways to begin: the
//! host starts when all nodes wait, or all nodes register while it runs.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use ccm_cluster::{ControlPlane, NodeFixture, Settings, User, register_nodes};
use ccm_e2e::crowd::await_initialised;
use ccm_e2e::host::{Host, SERVICE_ACCOUNT, component, until};
use ccm_e2e::manifest;
use ccm_e2e::report::{Report, Target};
use k8s_openapi::api::core::v1::Event;
use kube::api::ListParams;
use kube::{Api, Client};
use tokio::time::Instant;

/// Nodes unless the first argument says another number.
const NODES: u32 = 1_000;
const LIMIT: Duration = Duration::from_secs(600);

#[tokio::main]
async fn main() -> ExitCode {
    ccm_e2e::exit_code(bench().await)
}

async fn bench() -> Result<()> {
    let count: u32 = match std::env::args().nth(1) {
        Some(text) => text.parse().with_context(|| format!("{text:?} is not a number of nodes"))?,
        None => NODES,
    };
    let mut report = Report::new("nodes");
    for begin in [Begin::HostStarts, Begin::NodesRegister] {
        run(begin, count, &mut report).await?;
    }
    report.finish()?;
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Begin {
    /// All nodes wait when the host starts: the clock starts with the process.
    HostStarts,
    /// The host is ready when the nodes register: the clock starts with the first registration.
    NodesRegister,
}

async fn run(begin: Begin, count: u32, report: &mut Report) -> Result<()> {
    let (namespace, account) = SERVICE_ACCOUNT;
    let user = User::service_account(namespace, account);
    let cluster = ControlPlane::start(Settings::default().user(user.clone())).await?;
    let client = cluster.client().clone();
    manifest::apply(&client, "base/rbac.yaml").await?;
    let provider = component("providers/cloudlycke.wasm")?;
    let mut flags = vec!["--provider".into(), provider.into_os_string()];
    flags.extend(std::env::args_os().skip(2));
    let start_host = || Host::start(cluster.kubeconfig_of(&user.name)?, flags.clone());
    let nodes = || (0..count).map(|i| NodeFixture::new(format!("node-{i:05}")).internal_ip(&ip(i)));

    let (host, before, start) = match begin {
        Begin::HostStarts => {
            register_nodes(&client, nodes()).await?;
            let before = Cost::read(&client).await?;
            let start = Instant::now();
            (start_host()?, before, start)
        }
        Begin::NodesRegister => {
            let host = start_host()?;
            host.await_log(LIMIT, &["controller starts"]).await?;
            let before = Cost::read(&client).await?;
            let start = Instant::now();
            register_nodes(&client, nodes()).await?;
            (host, before, start)
        }
    };
    await_initialised(&client, LIMIT).await.with_context(|| host.log_text())?;
    let untainted = start.elapsed();
    // Written, or lost.
    let all_told = async || {
        let written = host.count("ccm_events_written_total", &[]).await?;
        Ok(written + host.count("ccm_events_dropped_total", &[]).await? >= f64::from(count))
    };
    until(LIMIT, all_told).await.with_context(|| host.log_text())?;
    let events = events(&client).await?;
    let after = Cost::read(&client).await?;

    let name = |figure: &str| match begin {
        Begin::HostStarts => format!("host_starts_{figure}"),
        Begin::NodesRegister => format!("nodes_register_{figure}"),
    };
    let per_node = |count_of: u64| f64::from(u32::try_from(count_of).unwrap_or(u32::MAX)) / f64::from(count);
    let target = |most: f64| (count == NODES).then_some(Target::AtMost(most));
    let cpu = host.cpu()?;
    let lookups = host.metric_with("ccm_provider_calls_total", "function=\"instances.find\"").await?;
    report
        .figure(name("last_taint_gone"), untainted.as_secs_f64(), "s", target(4.0))
        .figure(name("api_writes_per_node"), per_node(after.writes - before.writes), "", Some(Target::AtMost(3.0)))
        .figure(name("events_lost"), f64::from(count.saturating_sub(events)), "", Some(Target::AtMost(0.0)))
        .figure(name("provider_lookups"), lookups, "calls", None)
        .figure(name("host_cpu"), cpu.as_secs_f64(), "s", None)
        .figure(name("api_server_cpu"), after.cpu - before.cpu, "s", None);
    Ok(())
}

fn ip(i: u32) -> String {
    std::net::Ipv4Addr::from(0x0a00_0001 + i).to_string()
}

/// How many nodes have their Event.
async fn events(client: &Client) -> Result<u32> {
    let api: Api<Event> = Api::all(client.clone());
    let events = api.list_metadata(&ListParams::default().fields("reason=Synced")).await?;
    Ok(u32::try_from(events.items.len())?)
}

/// What the API server has done so far.
struct Cost {
    /// Successful writes of Nodes and Events, creations of Nodes left out.
    writes: u64,
    /// Seconds.
    cpu: f64,
}

impl Cost {
    async fn read(client: &Client) -> Result<Self> {
        let text = client.request_text(http::Request::get("/metrics").body(Vec::new())?).await?;
        let mut cost = Self { writes: 0, cpu: 0.0 };
        for line in text.lines() {
            let Some((name, value)) = line.rsplit_once(' ') else { continue };
            if name == "process_cpu_seconds_total" {
                cost.cpu = value.parse()?;
            }
            let is_write = name.starts_with("apiserver_request_total{")
                && ["POST", "PUT", "PATCH"].iter().any(|verb| name.contains(&format!("verb=\"{verb}\"")));
            let of_node = name.contains("resource=\"nodes\"") && !name.contains("verb=\"POST\"");
            if is_write && (of_node || name.contains("resource=\"events\"")) {
                cost.writes += value.parse::<u64>()?;
            }
        }
        ensure!(cost.cpu > 0.0, "the API server tells no CPU time");
        Ok(cost)
    }
}
