//! `./just bench services [COUNT [FLAG ...]]`, with more flags for the host: how fast Services have their load balancers, how
//! fast a new Node is in all of them, and what a restart costs the cloud. The API server and the host are real; the cloud is one
//! on loopback that counts, with 50 ms per call and 2 s until a load balancer is built.

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use ccm_cluster::{ControlPlane, NodeFixture, Settings, User, register_nodes};
use ccm_e2e::balancer_cloud::{BalancerCloud, CloudSettings, Kind};
use ccm_e2e::crowd::{await_addresses, await_initialised, create_services};
use ccm_e2e::host::{Host, SERVICE_ACCOUNT, component};
use ccm_e2e::manifest;
use ccm_e2e::measure::count;
use ccm_e2e::report::{Report, Target};
use kube::Client;
use tokio::time::Instant;

/// Services unless the first argument says another number.
const SERVICES: usize = 200;
/// Nodes before the one that joins.
const NODES: u32 = 3;
const LIMIT: Duration = Duration::from_secs(120);
/// Whom a new Node has not reached by then it never reaches.
const JOIN_LIMIT: Duration = Duration::from_secs(60);
/// How long a host that has nothing to do is watched after its start.
const WATCHED: Duration = Duration::from_secs(10);
/// The cloud is quiet when it was not asked for so long.
const QUIET: Duration = Duration::from_secs(3);

/// The cloud here has no quota, and an operator who knows that says so. The defaults, 50 requests per second with a burst of
/// 250 and 100 at a time, are for clouds that have one.
const NO_QUOTA: [&str; 3] =
    ["--limit=requests-per-second=2000", "--limit=request-burst=2000", "--limit=concurrent-requests=500"];

#[tokio::main]
async fn main() -> ExitCode {
    ccm_e2e::exit_code(bench().await)
}

async fn bench() -> Result<()> {
    let services: usize = match std::env::args().nth(1) {
        Some(text) => text.parse().with_context(|| format!("{text:?} is not a number of services"))?,
        None => SERVICES,
    };
    let mut out = std::io::stdout();
    writeln!(out, "{services} Services; a cloud without a quota, said with {}", NO_QUOTA.join(" "))?;
    let (namespace, account) = SERVICE_ACCOUNT;
    let user = User::service_account(namespace, account);
    let cluster = ControlPlane::start(Settings::default().user(user.clone())).await?;
    manifest::apply_base(cluster.client()).await?;
    let cloud = BalancerCloud::start(CloudSettings::default()).await?;
    let mut flags = cloud.flags();
    flags.push(format!("--provider={}", component("guests/balancer.wasm")?.display()));
    flags.extend(NO_QUOTA.map(ToOwned::to_owned));
    flags.extend(std::env::args().skip(2));
    let bench = Bench {
        client: cluster.client().clone(),
        kubeconfig: cluster.kubeconfig_of(&user.name)?,
        cloud: &cloud,
        flags,
        services,
    };
    let mut report = Report::new("services");
    bench.run(&mut report).await?;
    report.finish()?;
    Ok(())
}

struct Bench<'a> {
    client: Client,
    kubeconfig: &'a Path,
    cloud: &'a BalancerCloud,
    flags: Vec<String>,
    services: usize,
}

impl Bench<'_> {
    async fn run(&self, report: &mut Report) -> Result<()> {
        let nodes = (0..NODES).map(|i| NodeFixture::new(format!("node-{i}")).internal_ip(&ip(i)));
        register_nodes(&self.client, nodes).await?;
        let mut host = self.start().await?;
        await_initialised(&self.client, LIMIT).await.with_context(|| host.log_text())?;
        self.create(report).await.with_context(|| host.log_text())?;
        self.quiet().await;
        self.node_joins(report).await.with_context(|| host.log_text())?;
        self.quiet().await;
        let (_, peak) = host.memory()?;
        report.figure("host_cpu", host.cpu()?.as_secs_f64(), "s", None);
        report.figure("host_memory_peak", count(usize::try_from(peak)?), "bytes", None);
        ensure!(host.terminate().await?.success(), "the host did not end well:\n{}", host.log_text());
        self.restart(report).await?;
        self.restart_with_a_new_one(report).await?;
        ensure!(self.cloud.strangers() == 0, "requests came without the token");
        Ok(())
    }

    /// A host that is ready.
    async fn start(&self) -> Result<Host> {
        let host = Host::start(self.kubeconfig, self.flags.clone())?;
        host.await_page("/readyz", 200, LIMIT).await?;
        Ok(host)
    }

    /// From the last Service's creation until all have an address.
    async fn create(&self, report: &mut Report) -> Result<()> {
        let before = api_writes(&self.client).await?;
        let begun = Instant::now();
        create_services(&self.client, (0..self.services).map(|i| format!("service-{i:05}"))).await?;
        let created = Instant::now();
        await_addresses(&self.client, self.services, LIMIT).await?;
        let all = created.elapsed();
        let balancers = self.cloud.balancers().len();
        ensure!(balancers == self.services, "{balancers} load balancers for {} Services", self.services);
        // Conditions and Events may still be on their way, and belong to it.
        self.quiet().await;
        let wrote = api_writes(&self.client).await? - before;
        let writes = self.cloud.write_requests();
        let provisioning = CloudSettings::default().provisioning.as_secs_f64();
        report
            .figure("services_created_in", (created - begun).as_secs_f64(), "s", None)
            .figure(
                "last_address_after_last_creation",
                all.as_secs_f64(),
                "s",
                Some(Target::AtMost(provisioning + 2.0)),
            )
            .figure("cloud_writes_per_balancer", self.per_balancer(writes), "", Some(Target::AtMost(1.0)))
            .figure("cloud_reads_per_balancer", self.per_balancer(self.cloud.reads()), "", None)
            .figure("api_writes_per_service", self.per_balancer(wrote), "", None);
        Ok(())
    }

    /// From its registration until it is in every load balancer.
    async fn node_joins(&self, report: &mut Report) -> Result<()> {
        const NAME: &str = "node-that-joins";
        let (writes, reads) = (self.cloud.write_requests(), self.cloud.reads());
        let begun = Instant::now();
        NodeFixture::new(NAME).internal_ip(&ip(NODES)).register(&self.client).await?;
        let has = |balancer: &ccm_e2e::balancer_cloud::Balancer| balancer.spec.members.iter().any(|name| name == NAME);
        let in_all = self.cloud.await_balancers(JOIN_LIMIT, |balancers| balancers.iter().all(has)).await;
        let took = begun.elapsed();
        let with = self.cloud.balancers().iter().filter(|balancer| has(balancer)).count();
        self.quiet().await;
        let took = if in_all.is_ok() { took.as_secs_f64() } else { f64::NAN };
        report
            .figure("node_join_all_balancers_after", took, "s", Some(Target::AtMost(1.5)))
            .figure("node_join_balancers_with_it", count(with), "", Some(Target::AtLeast(count(self.services))))
            .figure(
                "node_join_cloud_writes_per_balancer",
                self.per_balancer(self.cloud.write_requests() - writes),
                "",
                Some(Target::AtMost(1.0)),
            )
            .figure("node_join_cloud_reads_per_balancer", self.per_balancer(self.cloud.reads() - reads), "", None);
        Ok(())
    }

    /// A host that finds all as it should be.
    async fn restart(&self, report: &mut Report) -> Result<()> {
        let (writes, reads) = (self.cloud.write_requests(), self.cloud.reads());
        let services = api_writes(&self.client).await?;
        let begun = Instant::now();
        let mut host = self.start().await?;
        let ready = begun.elapsed();
        tokio::time::sleep(WATCHED).await;
        report
            .figure("restart_ready_after", ready.as_secs_f64(), "s", None)
            .figure(
                "restart_cloud_writes",
                count(self.cloud.write_requests() - writes),
                "calls",
                Some(Target::AtMost(0.0)),
            )
            .figure("restart_cloud_reads", count(self.cloud.reads() - reads), "calls", Some(Target::AtMost(5.0)))
            .figure("restart_api_writes", count(api_writes(&self.client).await? - services), "", None);
        ensure!(host.terminate().await?.success(), "the host did not end well:\n{}", host.log_text());
        Ok(())
    }

    /// A Service that is created when the host has just come back does not wait for all the others.
    async fn restart_with_a_new_one(&self, report: &mut Report) -> Result<()> {
        let created = self.cloud.count(Kind::Create);
        let mut host = self.start().await?;
        create_services(&self.client, ["service-that-is-new".to_owned()]).await?;
        let begun = Instant::now();
        await_addresses(&self.client, self.services + 1, LIMIT).await.with_context(|| host.log_text())?;
        let took = begun.elapsed().as_secs_f64();
        let provisioning = CloudSettings::default().provisioning.as_secs_f64();
        report.figure("restart_new_service_address_after", took, "s", Some(Target::AtMost(provisioning + 2.0))).figure(
            "restart_new_service_balancers_made",
            count(self.cloud.count(Kind::Create) - created),
            "",
            Some(Target::AtMost(1.0)),
        );
        ensure!(host.terminate().await?.success(), "the host did not end well:\n{}", host.log_text());
        Ok(())
    }

    /// Waits until the cloud is left alone.
    async fn quiet(&self) {
        let requests = || self.cloud.reads() + self.cloud.write_requests();
        let mut seen = requests();
        loop {
            tokio::time::sleep(QUIET).await;
            let now = requests();
            if now == seen {
                return;
            }
            seen = now;
        }
    }

    fn per_balancer(&self, number: usize) -> f64 {
        count(number) / count(self.services)
    }
}

fn ip(i: u32) -> String {
    std::net::Ipv4Addr::from(0x0a00_0001 + i).to_string()
}

/// Writes of Services, their status and Events that the API server has served, creations of Services left out.
async fn api_writes(client: &Client) -> Result<usize> {
    let text = client.request_text(http::Request::get("/metrics").body(Vec::new())?).await?;
    let mut writes = 0;
    for line in text.lines().filter(|line| line.starts_with("apiserver_request_total{")) {
        let Some((name, value)) = line.rsplit_once(' ') else { continue };
        let is_write = ["POST", "PUT", "PATCH"].iter().any(|verb| name.contains(&format!("verb=\"{verb}\"")));
        let of_service = name.contains("resource=\"services\"") && !name.contains("verb=\"POST\"");
        if is_write && (of_service || name.contains("resource=\"events\"")) {
            writes += value.parse::<usize>()?;
        }
    }
    Ok(writes)
}
