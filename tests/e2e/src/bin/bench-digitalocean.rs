//! `./just bench digitalocean [FLAG ...]`, with more flags for the host: what Nodes and load balancers cost at DigitalOcean, in
//! requests. API server, host and component are real; the cloud is the simulator, with its real quota of 250 requests a minute and
//! 5,000 an hour, 50 ms per answer and 10 s until a load balancer is active.
//!
//! Beside it stands what the Go manager costs in the same: with its defaults and with the flags that are best for it.

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use ccm_cluster::{ControlPlane, NodeFixture, Settings, User, await_absent, poll_until, register_nodes};
use ccm_e2e::crowd::{NAMESPACE, await_addresses, await_initialised, create_services};
use ccm_e2e::host::{Host, SERVICE_ACCOUNT, component};
use ccm_e2e::manifest;
use ccm_e2e::measure::count;
use ccm_e2e::report::{Report, Target};
use ccm_sim_digitalocean::{DigitalOcean, Droplet, Endpoint, Settings as CloudSettings, TOKEN};
use k8s_openapi::api::core::v1::Service;
use kube::api::DeleteParams;
use kube::{Api, Client};
use tokio::time::Instant;

/// Nodes that are initialised at once.
const NODES: [u64; 3] = [1, 100, 1_000];
/// Nodes behind load balancers, before the one that joins.
const BACKENDS: u64 = 50;
const SERVICES: usize = 100;
const LATENCY: Duration = Duration::from_millis(50);
const PROVISIONING: Duration = Duration::from_secs(10);
const LIMIT: Duration = Duration::from_secs(120);
/// How long a host that has nothing to do is watched after its start.
const WATCHED: Duration = Duration::from_secs(10);
/// The cloud is quiet when it was not asked for so long; load balancers that are being made are asked about more often.
const QUIET: Duration = Duration::from_secs(4);
/// The address refresh in place of every 5 minutes: longer than the age that a listing of droplets may have, so that each one
/// asks.
const REFRESH: &str = "--node-status-update-frequency=35s";
/// The verification of load balancers in place of every hour.
const VERIFY: &str = "--service-verify-period=20s";
/// How often an hour has them by default.
const REFRESHES_PER_HOUR: f64 = 12.0;
const VERIFICATIONS_PER_HOUR: f64 = 1.0;

#[tokio::main]
async fn main() -> ExitCode {
    ccm_e2e::exit_code(bench().await)
}

async fn bench() -> Result<()> {
    let mut out = std::io::stdout();
    writeln!(
        out,
        "Refreshes and verifications are measured with {REFRESH} and {VERIFY}, and counted as often as an hour has them; \
         between phases the clock of the cloud jumps an hour, so that each has the whole quota."
    )?;
    let mut report = Report::new("digitalocean").beside("Go manager");
    for nodes in NODES {
        initialise(nodes, &mut report).await?;
    }
    balance(&mut report).await?;
    report.finish()?;
    Ok(())
}

/// A cluster, an account, and a host between them.
struct Bench {
    cluster: ControlPlane,
    user: String,
    cloud: DigitalOcean,
    /// Answers 429 of the phases before.
    refused: usize,
}

/// What a phase asked for.
struct Cost {
    reads: usize,
    writes: usize,
    refused: usize,
}

impl Cost {
    fn calls(&self) -> f64 {
        count(self.reads + self.writes)
    }
}

impl Bench {
    async fn start(nodes: u64) -> Result<Self> {
        let (namespace, account) = SERVICE_ACCOUNT;
        let user = User::service_account(namespace, account);
        let name = user.name.clone();
        let cluster = ControlPlane::start(Settings::default().user(user)).await?;
        manifest::apply_base(cluster.client()).await?;
        let settings = CloudSettings { latency: LATENCY, provisioning: PROVISIONING, ..CloudSettings::default() };
        let cloud = DigitalOcean::start(settings).await?;
        let bench = Self { cluster, user: name, cloud, refused: 0 };
        for number in 1..=nodes {
            bench.cloud.put_droplet(Droplet::new(1_000 + number, &node(number)));
        }
        register_nodes(bench.client(), (1..=nodes).map(|number| NodeFixture::new(node(number)))).await?;
        Ok(bench)
    }

    fn client(&self) -> &Client {
        self.cluster.client()
    }

    fn kubeconfig(&self) -> Result<&Path> {
        self.cluster.kubeconfig_of(&self.user)
    }

    fn host(&self, flags: &[&str]) -> Result<Host> {
        let mut all = vec![
            format!("--provider={}", component("providers/digitalocean.wasm")?.display()),
            format!("--endpoint=api={}", self.cloud.url()),
            "--credential=access-token=env:DO_ACCESS_TOKEN".to_owned(),
            "--allow-http".to_owned(),
            "--allow-loopback".to_owned(),
        ];
        all.extend(flags.iter().map(|flag| (*flag).to_owned()));
        all.extend(std::env::args().skip(1));
        Host::start_in(self.kubeconfig()?, &[("DO_ACCESS_TOKEN", TOKEN)], all)
    }

    /// Begins to count anew, with the whole quota.
    fn phase(&mut self) {
        self.refused += self.cost().refused;
        self.cloud.advance(Duration::from_secs(3_601));
        self.cloud.reset_counters();
    }

    fn cost(&self) -> Cost {
        let counters = self.cloud.counters();
        Cost { reads: counters.reads, writes: counters.writes, refused: counters.too_many }
    }

    /// Waits until the cloud is left alone; what was asked by then.
    async fn quiet(&self) -> Cost {
        loop {
            let before = self.cost();
            tokio::time::sleep(QUIET).await;
            let now = self.cost();
            if now.calls() == before.calls() {
                return now;
            }
        }
    }

    /// Ends a host and looks whether all was as the cloud's description says.
    async fn end(&mut self, mut host: Host) -> Result<()> {
        ensure!(host.terminate().await?.success(), "the host did not end well:\n{}", host.log_text());
        self.phase();
        self.cloud.check()
    }
}

fn node(number: u64) -> String {
    format!("node-{number:05}")
}

/// Nodes wait when the host starts; then, of the largest crowd, one refresh.
async fn initialise(nodes: u64, report: &mut Report) -> Result<()> {
    let mut bench = Bench::start(nodes).await?;
    let begun = Instant::now();
    let host = bench.host(&[])?;
    await_initialised(bench.client(), LIMIT).await.with_context(|| host.log_text())?;
    let took = begun.elapsed();
    let cost = bench.cost();
    let (target, theirs) = match nodes {
        1 => (None, "2"),
        100 => (None, "101"),
        _ => (Some(Target::AtMost(7.0)), "1001; 2473 with quota"),
    };
    report.figure(format!("init_{nodes}_calls"), cost.calls(), "calls", target).theirs(theirs);
    let theirs = match nodes {
        1 => "",
        100 => "0.8 to 14.8",
        _ => "9.5 to 149; 247 to 258 with quota",
    };
    report.figure(format!("init_{nodes}_last_taint_gone"), took.as_secs_f64(), "s", None).theirs(theirs);
    report.figure(format!("init_{nodes}_answers_429"), count(cost.refused), "", Some(Target::AtMost(0.0)));
    report.theirs(if nodes == 1_000 { "1472 to 2139 with quota" } else { "" });
    bench.end(host).await?;
    if Some(&nodes) == NODES.last() {
        let host = bench.host(&[REFRESH])?;
        // The first one is at the start.
        let first = count(usize::try_from(nodes)?);
        host.await_count("ccm_node_refreshes_total", &[], LIMIT, |refreshed| refreshed >= first).await?;
        bench.phase();
        await_refreshes(&host, nodes, 1.0).await?;
        let cost = bench.cost();
        report.figure(format!("refresh_{nodes}_calls"), cost.calls(), "calls", None).theirs("1000");
        let hour = cost.calls() * REFRESHES_PER_HOUR;
        report.figure(format!("refresh_{nodes}_calls_per_hour"), hour, "calls", None).theirs("12000");
        bench.end(host).await?;
    }
    Ok(())
}

/// Waits for so many more whole refreshes of so many Nodes.
async fn await_refreshes(host: &Host, nodes: u64, more: f64) -> Result<()> {
    let each = count(usize::try_from(nodes)?);
    let before = host.count("ccm_node_refreshes_total", &[]).await?;
    host.await_count("ccm_node_refreshes_total", &[], LIMIT, |now| now >= before + each * more).await?;
    Ok(())
}

/// The life of one load balancer, then of a hundred.
async fn balance(report: &mut Report) -> Result<()> {
    let mut bench = Bench::start(BACKENDS).await?;
    let host = bench.host(&[])?;
    await_initialised(bench.client(), LIMIT).await.with_context(|| host.log_text())?;
    host.await_page("/readyz", 200, LIMIT).await?;
    bench.quiet().await;
    one(&mut bench, report).await.with_context(|| host.log_text())?;
    create(&mut bench, report).await.with_context(|| host.log_text())?;
    join(&mut bench, report).await.with_context(|| host.log_text())?;
    bench.end(host).await?;
    restart(&mut bench, report).await?;
    idle(&mut bench, report).await?;
    let refused = count(bench.refused);
    report.figure("balancers_answers_429", refused, "", Some(Target::AtMost(0.0))).theirs("300 with quota");
    Ok(())
}

/// One load balancer alone: made, following a Node, deleted.
async fn one(bench: &mut Bench, report: &mut Report) -> Result<()> {
    const NAME: &str = "alone";
    bench.phase();
    create_services(bench.client(), [NAME.to_owned()]).await?;
    await_addresses(bench.client(), 1, LIMIT).await?;
    report.figure("one_create_calls", bench.quiet().await.calls(), "calls", None);
    bench.phase();
    joins(bench, "node-for-one", 9_000).await?;
    report.figure("one_node_joins_calls", bench.quiet().await.calls(), "calls", None);
    bench.phase();
    let api: Api<Service> = Api::namespaced(bench.client().clone(), NAMESPACE);
    drop(api.delete(NAME, &DeleteParams::default()).await?);
    await_absent(&api, NAME, LIMIT).await?;
    report.figure("one_delete_calls", bench.quiet().await.calls(), "calls", None).theirs("3");
    Ok(())
}

/// From the last Service's creation until all have an address.
async fn create(bench: &mut Bench, report: &mut Report) -> Result<()> {
    bench.phase();
    create_services(bench.client(), (0..SERVICES).map(|i| format!("service-{i:05}"))).await?;
    let created = Instant::now();
    await_addresses(bench.client(), SERVICES, LIMIT).await?;
    let took = created.elapsed().as_secs_f64();
    let made = bench.cloud.balancers().len();
    ensure!(made == SERVICES, "{made} load balancers for {SERVICES} Services");
    let cost = bench.quiet().await;
    report
        .figure("create_100_writes", count(cost.writes), "calls", Some(Target::AtMost(100.0)))
        .theirs("203 to 400")
        .figure("create_100_reads", count(cost.reads), "calls", Some(Target::AtMost(30.0)))
        .theirs("252 to 444")
        .figure("create_100_last_address", took, "s", Some(Target::AtMost(13.0)))
        .theirs("21 to 29; 114 with quota");
    Ok(())
}

/// From a Node's registration until it is in every load balancer.
async fn join(bench: &mut Bench, report: &mut Report) -> Result<()> {
    bench.phase();
    let took = joins(bench, "node-that-joins", 9_001).await?;
    let cost = bench.quiet().await;
    report
        .figure("join_100_writes", count(cost.writes), "calls", Some(Target::AtMost(100.0)))
        .theirs("101 to 120")
        .figure("join_100_reads", count(cost.reads), "calls", Some(Target::AtMost(3.0)))
        .theirs("102 to 121")
        .figure("join_100_in_all_balancers_after", took.as_secs_f64(), "s", Some(Target::AtMost(2.0)))
        .theirs("0.7 to 11");
    Ok(())
}

async fn joins(bench: &Bench, name: &str, id: u64) -> Result<Duration> {
    bench.cloud.put_droplet(Droplet::new(id, name));
    let begun = Instant::now();
    NodeFixture::new(name).register(bench.client()).await?;
    let in_all =
        |cloud: &DigitalOcean| cloud.balancers().iter().all(|balancer| balancer.spec.droplet_ids.contains(&id));
    bench.cloud.until(LIMIT, in_all).await?;
    Ok(begun.elapsed())
}

/// A host that finds all as it should be.
async fn restart(bench: &mut Bench, report: &mut Report) -> Result<()> {
    bench.phase();
    let host = bench.host(&[])?;
    host.await_page("/readyz", 200, LIMIT).await?;
    tokio::time::sleep(WATCHED).await;
    let cost = bench.cost();
    report
        .figure("restart_100_writes", count(cost.writes), "calls", Some(Target::AtMost(0.0)))
        .theirs("100")
        .figure("restart_100_reads", count(cost.reads), "calls", Some(Target::AtMost(5.0)))
        .theirs("152");
    bench.end(host).await
}

/// What an hour without changes costs, from a few periods that are shorter.
async fn idle(bench: &mut Bench, report: &mut Report) -> Result<()> {
    let host = bench.host(&[REFRESH, VERIFY])?;
    host.await_page("/readyz", 200, LIMIT).await?;
    bench.quiet().await;
    bench.phase();
    let surveys = async || host.count("ccm_load_balancer_operations_total", &["operation=\"survey\""]).await;
    let refreshed = async || host.count("ccm_node_refreshes_total", &[]).await;
    let (surveys_before, refreshed_before) = (surveys().await?, refreshed().await?);
    await_refreshes(&host, BACKENDS + 2, 2.0).await?;
    poll_until("verifications", LIMIT, || bench.cloud.count(Endpoint::Balancers) >= 2).await?;
    let (lists, droplets) = (bench.cloud.count(Endpoint::Balancers), bench.cloud.count(Endpoint::Droplets));
    let all = bench.cost();
    let per_survey = count(lists) / (surveys().await? - surveys_before).max(1.0);
    let refreshes = (refreshed().await? - refreshed_before) / count(usize::try_from(BACKENDS + 2)?);
    let per_refresh = count(droplets) / refreshes;
    let others = all.calls() - count(lists) - count(droplets);
    report
        .figure("idle_100_calls_per_verification", per_survey, "calls", None)
        .theirs("none is made")
        .figure("idle_100_other_calls", others, "calls", Some(Target::AtMost(0.0)))
        .figure(
            "idle_100_calls_per_hour",
            per_survey * VERIFICATIONS_PER_HOUR + per_refresh * REFRESHES_PER_HOUR,
            "calls",
            None,
        )
        .theirs("600: 50 droplets every 5 minutes");
    bench.end(host).await
}
