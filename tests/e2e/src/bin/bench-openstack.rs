//! `./just bench openstack [BALANCERS [FLAG ...]]`, with more flags for the host: what Nodes, load balancers and routes cost at OpenStack,
//! in requests. API server, host and component are real, and so is the cloud: that of `./just lab-openstack`, which must run.
//!
//! Requests that ask whether Octavia is done are counted apart: how many there are depends on the lab. Beside ours stand the figures of the
//! Go manager on the same kind of lab: cloud-provider-openstack `c453fb7c9bbb`, measured on 2026-11-21 without these polls too. Compare
//! counts first; seconds are mostly Octavia's.

#![expect(clippy::indexing_slicing, reason = "of JSON: a field that is not there is null, and nothing panics")]

use std::collections::BTreeSet;
use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use ccm_cluster::{ControlPlane, NodeFixture, Settings, User, await_absent, await_object, register_nodes};
use ccm_e2e::crowd::{NAMESPACE, await_addresses, await_initialised, create_services};
use ccm_e2e::host::{Host, SERVICE_ACCOUNT, component};
use ccm_e2e::manifest;
use ccm_e2e::measure::count;
use ccm_e2e::openstack_lab::{Cost, Exchange, Lab, Proxy, Server, Tenant, granted, until};
use ccm_e2e::report::{Report, Target};
use k8s_openapi::api::core::v1::{Node, Service};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::Instant;

/// Nodes that are initialised at once.
const NODES: usize = 50;
/// Nodes behind load balancers, before others join.
const BACKENDS: usize = 3;
/// Nodes that join, one after another: under the Go manager some of them are never added.
const JOINING: usize = 3;
/// Load balancers at a restart, unless the first argument says another number.
const BALANCERS: usize = 12;
const LIMIT: Duration = Duration::from_secs(300);
/// What Octavia may take besides for each load balancer, when it makes many at once.
const EACH: Duration = Duration::from_secs(12);
/// The cloud is quiet when it was not asked for so long; a load balancer that is being changed is asked about more often.
const QUIET: Duration = Duration::from_secs(6);
/// In place of every 5 minutes. Longer than the age that a list of servers may have, so that each one asks.
const REFRESH: &str = "--node-status-update-frequency=35s";
/// None besides that of the start.
const NO_REFRESH: &str = "--node-status-update-frequency=1h";
/// In place of every hour.
const VERIFY: &str = "--service-verify-period=65s";
/// In place of every five minutes.
const ROUTES: [&str; 5] = [
    "--allocate-node-cidrs",
    "--cluster-cidr=10.244.0.0/16",
    "--controllers=*",
    "--route-reconciliation-period=4s",
    NO_REFRESH,
];
/// How often an hour has them by default.
const RECONCILIATIONS_PER_HOUR: f64 = 12.0;
/// So many of them are looked at.
const RECONCILIATIONS: f64 = 6.0;

#[tokio::main]
async fn main() -> ExitCode {
    ccm_e2e::exit_code(bench().await)
}

async fn bench() -> Result<()> {
    let balancers = match std::env::args().nth(1) {
        Some(text) => text.parse().with_context(|| format!("{text:?} is not a number of load balancers"))?,
        None => BALANCERS,
    };
    let mut out = std::io::stdout();
    writeln!(
        out,
        "{NODES} Nodes, then {balancers} load balancers. Refreshes, verifications and reconciliations of routes are measured with {REFRESH}, \
         {VERIFY} and {}, and counted as often as an hour has them.",
        ROUTES[3]
    )?;
    let lab = Lab::find()?;
    let mut report = Report::new("openstack").beside("Go manager").as_they_come();
    let bench = Bench::new(&lab).await?;
    let nodes = bench.nodes(&mut report).await;
    let nodes = bench.end(nodes).await;
    let bench = Bench::new(&lab).await?;
    let done = bench.balancers(balancers, &mut report).await;
    let done = bench.end(done).await;
    // What was measured is shown also when something went wrong after it.
    let reported = report.finish();
    nodes.and(done).and(reported)
}

/// A cluster, a project, and a host between them.
struct Bench {
    cluster: ControlPlane,
    user: String,
    lab: Lab,
    proxy: Proxy,
    tenant: Tenant,
    folder: TempDir,
}

impl Bench {
    async fn new(lab: &Lab) -> Result<Self> {
        let (namespace, account) = SERVICE_ACCOUNT;
        let user = User::service_account(namespace, account);
        let name = user.name.clone();
        let cluster = ControlPlane::start(Settings::default().user(user)).await?;
        manifest::apply_base(cluster.client()).await?;
        let (proxy, tenant) = (Proxy::start(lab).await?, Tenant::new(lab).await?);
        let folder = tempfile::tempdir()?;
        let config = proxy.cloud_conf(&tenant.by_credential(), &tenant.sections("")?);
        std::fs::write(folder.path().join("cloud.conf"), config)?;
        Ok(Self { cluster, user: name, lab: lab.clone(), proxy, tenant, folder })
    }

    fn client(&self) -> &Client {
        self.cluster.client()
    }

    fn services(&self) -> Api<Service> {
        Api::namespaced(self.client().clone(), NAMESPACE)
    }

    fn host(&self, flags: &[&str]) -> Result<Host> {
        let own = [
            format!("--provider={}", component("providers/openstack.wasm")?.display()),
            format!("--cloud-config={}", self.folder.path().join("cloud.conf").display()),
        ];
        let flags = flags.iter().map(|flag| (*flag).to_owned()).chain(std::env::args().skip(2));
        Host::start(self.cluster.kubeconfig_of(&self.user)?, granted().chain(own).chain(flags))
    }

    /// A host that has nothing to do.
    async fn idle_host(&self, flags: &[&str]) -> Result<Host> {
        let host = self.host(flags)?;
        host.await_page("/readyz", 200, LIMIT).await?;
        self.quiet().await?;
        Ok(host)
    }

    /// Waits until Octavia is done and nobody asks the cloud for anything; returns what was asked since a mark.
    async fn settled(&self, mark: usize) -> Result<Vec<Exchange>> {
        until(LIMIT, async || {
            self.quiet().await?;
            Ok(self.tenant.balancers().await?.iter().all(|balancer| balancer["provisioning_status"] == "ACTIVE"))
        })
        .await?;
        Ok(self.proxy.since(mark))
    }

    async fn quiet(&self) -> Result<()> {
        let mut before = usize::MAX;
        until(LIMIT, async || {
            if self.proxy.mark() == before {
                return Ok(true);
            }
            before = self.proxy.mark();
            tokio::time::sleep(QUIET).await;
            Ok(false)
        })
        .await
    }

    /// Leaves nothing behind in the lab, whatever has come of it.
    async fn end(self, done: Result<()>) -> Result<()> {
        let removed = self.tenant.remove().await.context("what the benchmark made in the lab");
        done?;
        removed
    }

    /// Nodes wait when the host starts; then a refresh.
    async fn nodes(&self, report: &mut Report) -> Result<()> {
        let names: Vec<String> = (1..=NODES).map(|number| format!("node-{number}")).collect();
        self.tenant.boot_all(&names).await?;
        register_nodes(self.client(), names.into_iter().map(NodeFixture::new)).await?;
        let begun = Instant::now();
        let host = self.host(&[REFRESH])?;
        await_initialised(self.client(), LIMIT).await.with_context(|| host.log_text())?;
        let took = begun.elapsed().as_secs_f64();
        report
            .figure("init_50_calls", count(self.proxy.mark()), "calls", Some(Target::AtMost(15.0)))
            .theirs("208")
            .figure("init_50_last_taint_gone", took, "s", None)
            .theirs("11.4");
        let each = count(NODES);
        // The first one is at the start.
        let first = host.await_count("ccm_node_refreshes_total", &[], LIMIT, |refreshed| refreshed >= each).await?;
        self.quiet().await?;
        let mark = self.proxy.mark();
        host.await_count("ccm_node_refreshes_total", &[], LIMIT, |refreshed| refreshed >= first + each).await?;
        let asked = self.proxy.since(mark).len();
        report.figure("refresh_50_calls", count(asked), "calls", Some(Target::AtMost(5.0))).theirs("200");
        ended(host).await
    }

    /// The lives of two load balancers, then many of them.
    async fn balancers(&self, many: usize, report: &mut Report) -> Result<()> {
        let names: Vec<String> = (1..=BACKENDS).map(|number| format!("backend-{number}")).collect();
        let servers = self.tenant.boot_all(&names).await?;
        let nodes = names
            .iter()
            .zip(&servers)
            .zip(1..)
            .map(|((name, server), number)| initialised(name, server).pod_cidr(&format!("10.244.{number}.0/24")));
        register_nodes(self.client(), nodes).await?;
        let host = self.idle_host(&[NO_REFRESH]).await?;
        for ports in [1, 10] {
            self.life(ports, report).await.with_context(|| host.log_text())?;
        }
        self.one_waits(report).await.with_context(|| host.log_text())?;
        create_services(self.client(), (0..many).map(|number| format!("service-{number:03}"))).await?;
        let limit = LIMIT + EACH * u32::try_from(many)?;
        await_addresses(self.client(), many, limit).await.with_context(|| host.log_text())?;
        self.settled(0).await?;
        ended(host).await?;
        self.restart(many, report).await?;
        self.routes(report).await
    }

    /// A load balancer is made, gets another port, follows Nodes, and goes.
    async fn life(&self, ports: i32, report: &mut Report) -> Result<()> {
        let name = format!("ports-{ports}");
        let figure = |what: &str| format!("{what}_{ports}");
        let theirs = |one: &'static str, ten: &'static str| if ports == 1 { one } else { ten };
        let mark = self.proxy.mark();
        let begun = Instant::now();
        serve(self.client(), &name, ports).await?;
        await_object(&self.services(), &name, LIMIT, has_address).await?;
        let took = begun.elapsed().as_secs_f64();
        let cost = Cost::of(&self.settled(mark).await?);
        report
            .figure(figure("create_calls_ports"), count(cost.calls()), "calls", Some(Target::AtMost(8.0)))
            .theirs(theirs("13", "31"))
            .figure(
                figure("create_octavia_writes_ports"),
                count(cost.octavia_writes),
                "calls",
                Some(Target::AtMost(1.0)),
            )
            .theirs("1")
            .figure(figure("create_polls_ports"), count(cost.polls), "calls", None)
            .theirs(theirs("4", "8"))
            .figure(figure("create_address_after_ports"), took, "s", None)
            .theirs(theirs("3.9", "17.9"));

        let mark = self.proxy.mark();
        let change = json!({ "spec": { "ports": wanted(ports, 9_000) } });
        self.services().patch(&name, &PatchParams::default(), &Patch::Merge(change)).await?;
        until(LIMIT, async || Ok(self.ports().await?.contains(&9_000))).await?;
        let cost = Cost::of(&self.settled(mark).await?);
        // One port of them is another one.
        report
            .figure(figure("change_port_calls_ports"), count(cost.calls()), "calls", Some(Target::AtMost(12.0)))
            .theirs(theirs("12", "30"))
            .figure(figure("change_port_polls_ports"), count(cost.polls), "calls", None)
            .theirs(theirs("11", "13"));

        let mut added = 0;
        for number in 1..=JOINING {
            added += usize::from(self.joins(&format!("joining-{ports}-{number}"), ports, number == 1, report).await?);
        }
        report
            .figure(figure("join_added_ports"), count(added), "Nodes", Some(Target::AtLeast(count(JOINING))))
            .theirs(theirs("1 of 3", ""));

        let mark = self.proxy.mark();
        drop(self.services().delete(&name, &DeleteParams::default()).await?);
        await_absent(&self.services(), &name, LIMIT).await?;
        let cost = Cost::of(&self.settled(mark).await?);
        report
            .figure(figure("delete_calls_ports"), count(cost.calls()), "calls", None)
            .theirs("7")
            .figure(figure("delete_polls_ports"), count(cost.polls), "calls", None)
            .theirs(theirs("2", "4"));
        Ok(())
    }

    /// A Node as a kubelet registers it, and what its way into the pools costs. Whether it got there.
    async fn joins(&self, name: &str, ports: i32, is_counted: bool, report: &mut Report) -> Result<bool> {
        let server = self.tenant.boot_all([name]).await?.remove(0);
        let mark = self.proxy.mark();
        let begun = Instant::now();
        NodeFixture::new(name).register(self.client()).await?;
        let is_member = async || self.is_member_of_all(&server).await;
        let is_added = until(LIMIT, is_member).await.is_ok();
        let took = if is_added { begun.elapsed().as_secs_f64() } else { f64::NAN };
        let asked = self.settled(mark).await?;
        if is_counted {
            // Its initialisation is no part of it.
            let cost = Cost::of(asked.iter().filter(|exchange| !is_about_nodes(exchange)));
            report
                .figure(
                    format!("join_writes_ports_{ports}"),
                    count(cost.writes),
                    "calls",
                    Some(Target::AtMost(f64::from(ports))),
                )
                .theirs(if ports == 1 { "0: it is left out" } else { "10" })
                .figure(format!("join_reads_ports_{ports}"), count(cost.reads), "calls", Some(Target::AtMost(4.0)))
                .theirs(if ports == 1 { "8" } else { "44" })
                .figure(format!("join_polls_ports_{ports}"), count(cost.polls), "calls", None)
                .figure(format!("join_member_after_ports_{ports}"), took, "s", None)
                .theirs(if ports == 1 { "never in 2 of 3 runs" } else { "100" });
        }
        Ok(is_added)
    }

    /// Whether every pool of the project has the server.
    async fn is_member_of_all(&self, server: &Server) -> Result<bool> {
        let pools = self.tenant.list("load-balancer", "/v2.0/lbaas/pools", "pools").await?;
        for pool in &pools {
            let path = format!("/v2.0/lbaas/pools/{}/members", pool["id"].as_str().unwrap_or_default());
            let members = self.tenant.user.get("load-balancer", &path).await?;
            let mut members = members["members"].as_array().into_iter().flatten();
            if !members.any(|member| member["address"] == server.address.as_str()) {
                return Ok(false);
            }
        }
        Ok(!pools.is_empty())
    }

    /// The ports of all listeners of the project.
    async fn ports(&self) -> Result<BTreeSet<i64>> {
        let listeners = self.tenant.list("load-balancer", "/v2.0/lbaas/listeners", "listeners").await?;
        Ok(listeners.iter().filter_map(|listener| listener["protocol_port"].as_i64()).collect())
    }

    /// Octavia does not get done with one load balancer, and another Service comes.
    async fn one_waits(&self, report: &mut Report) -> Result<()> {
        const STUCK: &str = "that-waits";
        const OTHER: &str = "another";
        serve(self.client(), STUCK, 1).await?;
        await_object(&self.services(), STUCK, LIMIT, has_address).await?;
        self.settled(0).await?;
        let balancers = self.tenant.balancers().await?;
        let id = balancers.first().and_then(|balancer| balancer["id"].as_str()).context("no load balancer")?.to_owned();
        let set = async |status: &str| {
            let statement = format!("update load_balancer set provisioning_status = '{status}' where id = '{id}'");
            self.lab.sql("octavia", &statement).await
        };
        set("PENDING_UPDATE").await?;
        let mark = self.proxy.mark();
        let change = json!({ "spec": { "ports": wanted(1, 9_000) } });
        self.services().patch(STUCK, &PatchParams::default(), &Patch::Merge(change)).await?;
        let looked = |exchange: &Exchange| exchange.uri.contains(&id);
        until(LIMIT, async || Ok(self.proxy.since(mark).iter().any(looked))).await?;
        let begun = Instant::now();
        serve(self.client(), OTHER, 1).await?;
        let served = await_object(&self.services(), OTHER, LIMIT, has_address).await;
        let took = if served.is_ok() { begun.elapsed().as_secs_f64() } else { f64::NAN };
        report
            .figure("other_service_served_while_one_waits_after", took, "s", Some(Target::AtMost(60.0)))
            .theirs("not before that ends: one worker");
        set("ACTIVE").await?;
        for name in [STUCK, OTHER] {
            drop(self.services().delete(name, &DeleteParams::default()).await?);
            await_absent(&self.services(), name, LIMIT).await?;
        }
        Ok(())
    }

    /// A host that finds all as it should be, and goes on comparing.
    async fn restart(&self, many: usize, report: &mut Report) -> Result<()> {
        let mark = self.proxy.mark();
        let host = self.idle_host(&[VERIFY, NO_REFRESH]).await?;
        let cost = Cost::of(&self.proxy.since(mark));
        report
            .figure(format!("restart_{many}_writes"), count(cost.writes), "calls", Some(Target::AtMost(0.0)))
            .theirs("0")
            .figure(format!("restart_{many}_reads"), count(cost.reads), "calls", Some(Target::AtMost(10.0)))
            .theirs("52 for one");
        // Members are in trees only. All have been read when the host has compared once more, which it does every hour; whatever is missing by
        // then is a figure.
        let compared = || {
            let asked = self.proxy.since(mark);
            let trees = asked.iter().filter(|exchange| exchange.operation.ends_with("/loadbalancers/*/status"));
            trees.map(|exchange| exchange.uri.clone()).collect::<BTreeSet<_>>().len()
        };
        drop(until(LIMIT, async || Ok(compared() >= many)).await);
        let asked = self.settled(mark).await?;
        let trees = compared();
        let writes = Cost::of(&asked).writes;
        report
            .figure(
                format!("hour_{many}_members_compared"),
                count(trees),
                "balancers",
                Some(Target::AtLeast(count(many))),
            )
            .theirs("none")
            .figure(format!("hour_{many}_writes"), count(writes), "calls", Some(Target::AtMost(0.0)));
        ended(host).await
    }

    /// What an hour without changes costs routes, from a few periods that are shorter.
    async fn routes(&self, report: &mut Report) -> Result<()> {
        // It asks more often than it could be found quiet.
        let host = self.host(&ROUTES)?;
        let wanted = count(BACKENDS);
        host.await_count("ccm_routes", &["state=\"in_place\""], LIMIT, |routes| routes == wanted).await?;
        let periodic = ["trigger=\"periodic\""];
        let syncs = "route_controller_route_sync_total";
        // Whoever has just made routes looks once more.
        let first = host.count(syncs, &periodic).await?;
        let first = host.await_count(syncs, &periodic, LIMIT, |now| now > first + 1.0).await?;
        let mark = self.proxy.mark();
        let last = host.await_count(syncs, &periodic, LIMIT, |now| now >= first + RECONCILIATIONS).await?;
        let asked = self.proxy.since(mark);
        let of_routes = asked.iter().filter(|exchange| exchange.operation.contains(" network/"));
        let hour = count(of_routes.count()) / (last - first) * RECONCILIATIONS_PER_HOUR;
        report.figure("idle_routes_calls_per_hour", hour, "calls", Some(Target::AtMost(12.0))).theirs("720");
        // Routes go with their Nodes.
        let nodes: Api<Node> = Api::all(self.client().clone());
        for number in 1..=BACKENDS {
            drop(nodes.delete(&format!("backend-{number}"), &DeleteParams::default()).await?);
        }
        host.await_count("ccm_routes", &["state=\"in_place\""], LIMIT, |routes| routes == 0.0).await?;
        // Members of many load balancers go with them, too, for minutes: nobody waits for that, and for an end in order.
        Ok(())
    }
}

async fn ended(mut host: Host) -> Result<()> {
    ensure!(host.terminate().await?.success(), "the host did not end well:\n{}", host.log_text());
    Ok(())
}

/// Lists of servers and of their ports.
fn is_about_nodes(exchange: &Exchange) -> bool {
    ["GET compute/v2.1/servers/detail", "GET network/v2.0/ports"].contains(&exchange.operation.as_str())
}

fn initialised(name: &str, server: &Server) -> NodeFixture {
    let fixture = NodeFixture::new(name).initialized().provider_id(&server.provider_id());
    fixture.internal_ip(&server.address)
}

/// So many ports; the first one is `first`.
fn wanted(count: i32, first: i32) -> Value {
    let numbers = std::iter::once(first).chain(8_001..).take(usize::try_from(count).unwrap_or_default());
    numbers.enumerate().map(|(index, port)| json!({ "name": format!("p{index}"), "port": port })).collect()
}

async fn serve(client: &Client, name: &str, ports: i32) -> Result<()> {
    let service = json!({
        "metadata": { "name": name },
        "spec": { "type": "LoadBalancer", "selector": { "app": name }, "ports": wanted(ports, 8_000) },
    });
    let api: Api<Service> = Api::namespaced(client.clone(), NAMESPACE);
    api.create(&PostParams::default(), &serde_json::from_value(service)?).await?;
    Ok(())
}

fn has_address(service: &Service) -> bool {
    let balancer = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    balancer.and_then(|balancer| balancer.ingress.as_deref()).is_some_and(|ingress| !ingress.is_empty())
}
