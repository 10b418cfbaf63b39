//! `./just bench routes [COUNT [SECONDS]]`: how fast the Nodes of a cluster get their routes, and what that costs the cloud and the API server.
//! The cloud is on loopback, writes its table of routes as a whole, and takes 50 ms for each answer. Nodes are initialised already.
//! Then: an idle cluster, a Node that joins, a Node that leaves.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use ccm_cluster::{ControlPlane, NodeFixture, Settings, User, register_nodes};
use ccm_e2e::balancer_cloud::{BalancerCloud, CloudSettings, Kind};
use ccm_e2e::host::{Host, SERVICE_ACCOUNT, component, until};
use ccm_e2e::manifest;
use ccm_e2e::report::{Report, Target};
use k8s_openapi::api::core::v1::Node;
use kube::api::DeleteParams;
use kube::{Api, Client};
use tokio::time::Instant;

const USUAL: u32 = 1_000;
const LIMIT: Duration = Duration::from_secs(600);
/// For how many seconds an idle cluster is watched.
const IDLE: u64 = 30;
/// The default of --route-reconciliation-period.
const PERIOD: Duration = Duration::from_secs(300);

#[tokio::main]
async fn main() -> ExitCode {
    ccm_e2e::exit_code(bench().await)
}

/// What the provider and the API server were asked for so far.
#[derive(Debug, Clone, Copy)]
struct Cost {
    /// Calls of `routes.get-all` and `routes.change`.
    calls: f64,
    /// Changes of the cloud's table.
    tables: usize,
    /// Successful patches of Nodes.
    patches: u64,
}

impl Cost {
    async fn read(host: &Host, cloud: &BalancerCloud, client: &Client) -> Result<Self> {
        let calls = async |function: &str| {
            // Before the first one there is no such series.
            host.count("ccm_provider_calls_total", &[&format!("function=\"routes.{function}\"")]).await
        };
        let text = client.request_text(http::Request::get("/metrics").body(Vec::new())?).await?;
        let of_nodes = |line: &&str| {
            line.starts_with("apiserver_request_total{")
                && ["resource=\"nodes\"", "verb=\"PATCH\"", "code=\"200\""].iter().all(|part| line.contains(part))
        };
        let counts = text.lines().filter(of_nodes).filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok());
        Ok(Self {
            calls: calls("get-all").await? + calls("change").await?,
            tables: cloud.count(Kind::SetRoutes),
            patches: counts.sum(),
        })
    }
}

fn node(i: u32) -> NodeFixture {
    let name = format!("node-{i:05}");
    let cidr = format!("{}/24", std::net::Ipv4Addr::from(0x0a80_0000 + (i << 8)));
    let ip = std::net::Ipv4Addr::from(0xac10_0001 + i).to_string();
    let id = format!("balancer://{name}");
    NodeFixture::new(name).internal_ip(&ip).provider_id(&id).initialized().pod_cidr(&cidr)
}

/// Waits until so many routes are in place and the Nodes were told, by the host's own count.
async fn in_place(host: &Host, count: u32) -> Result<()> {
    let place = ["state=\"in_place\""];
    let is_so = async || {
        let routes = host.count("ccm_routes", &place).await?;
        let running = host.count("workqueue_unfinished_work_seconds", &["name=\"Routes\""]).await?;
        Ok(routes == f64::from(count) && running == 0.0)
    };
    until(LIMIT, is_so).await.with_context(|| host.log_text())
}

async fn bench() -> Result<()> {
    let count = match std::env::args().nth(1) {
        Some(text) => text.parse().with_context(|| format!("{text:?} is not a number of nodes"))?,
        None => USUAL,
    };
    let idle_seconds = match std::env::args().nth(2) {
        Some(text) => text.parse().with_context(|| format!("{text:?} is not a number of seconds"))?,
        None => IDLE,
    };
    let (namespace, account) = SERVICE_ACCOUNT;
    let user = User::service_account(namespace, account);
    let plane = ControlPlane::start(Settings::default().user(user.clone())).await?;
    let client = plane.client().clone();
    manifest::apply_base(&client).await?;
    let cloud = BalancerCloud::start(CloudSettings::default()).await?;
    register_nodes(&client, (0..count).map(node)).await?;

    let mut flags = vec!["--setting=routes=true".to_owned(), "--cluster-cidr=10.128.0.0/9".to_owned()];
    flags.push(format!("--provider={}", component("guests/balancer.wasm")?.display()));
    flags.extend(cloud.flags());
    let start = Instant::now();
    let host = Host::start(plane.kubeconfig_of(&user.name)?, flags)?;
    // Its port is not there at once.
    host.await_page("/readyz", 200, LIMIT).await?;
    in_place(&host, count).await?;
    let all = start.elapsed().as_secs_f64();
    let routes = u32::try_from(cloud.routes().len())?;
    ensure!(routes == count, "the cloud has {routes} of {count} routes");
    let first = Cost::read(&host, &cloud, &client).await?;

    tokio::time::sleep(Duration::from_secs(idle_seconds)).await;
    let idle = Cost::read(&host, &cloud, &client).await?;

    let start = Instant::now();
    register_nodes(&client, [node(count)]).await?;
    in_place(&host, count.saturating_add(1)).await?;
    let joined = start.elapsed().as_secs_f64();
    let after_join = Cost::read(&host, &cloud, &client).await?;

    let start = Instant::now();
    let name = format!("node-{count:05}");
    Api::<Node>::all(client.clone()).delete(&name, &DeleteParams::default()).await?;
    in_place(&host, count).await?;
    let left = start.elapsed().as_secs_f64();
    let after_leave = Cost::read(&host, &cloud, &client).await?;
    ensure!(u32::try_from(cloud.routes().len())? == count, "the route of the Node that left is there still");

    let patches = |later: &Cost, before: &Cost| {
        f64::from(u32::try_from(later.patches.saturating_sub(before.patches)).unwrap_or(u32::MAX))
    };
    let tables = |later: &Cost, before: &Cost| {
        f64::from(u32::try_from(later.tables.saturating_sub(before.tables)).unwrap_or(u32::MAX))
    };
    let none = Cost { calls: 0.0, tables: 0, patches: 0 };
    // Series that are not there count as nothing, and nothing would meet every target.
    ensure!(first.calls >= 2.0 && first.tables >= 1, "no calls were counted: {first:?}");
    ensure!(first.patches >= u64::from(count), "{} writes of {count} Nodes were counted", first.patches);
    ensure!(after_join.calls > idle.calls && after_join.patches > idle.patches, "the joining Node was not counted");
    ensure!(after_leave.calls > after_join.calls, "the leaving Node was not counted");
    let per_hour = 3_600.0 / PERIOD.as_secs_f64();
    let mut report = Report::new("routes");
    report
        // With the start of the process, on a machine that may have other things to do.
        .figure(format!("{count}_seconds"), all, "s", None)
        .figure(format!("{count}_calls"), first.calls, "calls", Some(Target::AtMost(2.0)))
        .figure(format!("{count}_tables_written"), tables(&first, &none), "writes", Some(Target::AtMost(1.0)))
        .figure(
            format!("{count}_api_writes_per_node"),
            patches(&first, &none) / f64::from(count),
            "",
            Some(Target::AtMost(1.0)),
        )
        .figure(format!("idle_calls_in_{idle_seconds}_s"), idle.calls - first.calls, "calls", Some(Target::AtMost(0.0)))
        .figure(
            format!("idle_api_writes_in_{idle_seconds}_s"),
            patches(&idle, &first),
            "writes",
            Some(Target::AtMost(0.0)),
        )
        .figure("idle_calls_per_hour_by_the_period", per_hour, "calls", None)
        .figure("join_seconds", joined, "s", Some(Target::AtMost(5.0)))
        .figure("join_calls", after_join.calls - idle.calls, "calls", Some(Target::AtMost(2.0)))
        .figure("join_api_writes", patches(&after_join, &idle), "writes", Some(Target::AtMost(1.0)))
        .figure("leave_seconds", left, "s", Some(Target::AtMost(5.0)))
        .figure("leave_calls", after_leave.calls - after_join.calls, "calls", Some(Target::AtMost(2.0)))
        .figure("leave_api_writes", patches(&after_leave, &after_join), "writes", Some(Target::AtMost(0.0)));
    report.finish()?;
    Ok(())
}
