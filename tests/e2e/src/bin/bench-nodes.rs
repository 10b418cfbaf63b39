//! `./just bench nodes [COUNT [FLAG ...]]`, with more flags for the host: how fast nodes become usable, and what it costs the API
//! server. Two ways to begin: the host starts when all nodes wait, or all nodes register while it runs. Without a COUNT it is
//! 1,000 nodes both ways, and 5,000 that wait.
//!
//! How long an API server takes for a write depends on the machine and on who else works there. So times are told as a share
//! of what a plain loop takes that sends the same writes to the same kind of API server right before, 100 at a time, and
//! does nothing else: no lookup, no watch, no decision. With 5,000 nodes the Go framework's manager runs as well, with the fastest
//! flags and a cloud that takes 50 ms for an answer.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use ccm_cluster::{ControlPlane, NodeFixture, Settings, User, register_nodes};
use ccm_e2e::crowd::is_tainted;
use ccm_e2e::go_manager::GoManager;
use ccm_e2e::host::{Host, SERVICE_ACCOUNT, component, until};
use ccm_e2e::manifest;
use ccm_e2e::report::{Report, Target};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::{Node, ObjectReference};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::time::Instant;

/// Nodes of a cluster as most are, and of one as large as Kubernetes allows.
const USUAL: u32 = 1_000;
const LARGEST: u32 = 5_000;
const LIMIT: Duration = Duration::from_secs(600);
/// Between two looks at the host's metrics.
const LOOK: Duration = Duration::from_millis(50);
/// Between two looks at the API server, which are work for it.
const SELDOM: Duration = Duration::from_millis(250);
/// Writes of the plain loop at the same time.
const AT_ONCE: usize = 100;
/// After the last Event; by then the allocator has settled.
const SETTLED: Duration = Duration::from_secs(20);
const MIB: f64 = 1_048_576.0;

#[tokio::main]
async fn main() -> ExitCode {
    ccm_e2e::exit_code(bench().await)
}

async fn bench() -> Result<()> {
    let runs = match std::env::args().nth(1) {
        Some(text) => {
            let count = text.parse().with_context(|| format!("{text:?} is not a number of nodes"))?;
            vec![(count, Begin::HostStarts), (count, Begin::NodesRegister)]
        }
        None => vec![(USUAL, Begin::HostStarts), (USUAL, Begin::NodesRegister), (LARGEST, Begin::HostStarts)],
    };
    let mut report = Report::new("nodes");
    let mut plain: Option<(u32, f64)> = None;
    for (count, begin) in runs {
        let seconds = match plain {
            Some((same, seconds)) if same == count => seconds,
            _ => plain_loop(count, &mut report).await?,
        };
        plain = Some((count, seconds));
        let go = match count == LARGEST && begin == Begin::HostStarts {
            true => Some(go_manager(count, &mut report).await?),
            false => None,
        };
        run(begin, count, Beside { plain: seconds, go }, &mut report).await?;
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

/// What others took for the same nodes, in seconds.
#[derive(Clone, Copy)]
struct Beside {
    plain: f64,
    go: Option<f64>,
}

struct Cluster {
    plane: ControlPlane,
    user: String,
    client: Client,
}

async fn cluster() -> Result<Cluster> {
    let (namespace, account) = SERVICE_ACCOUNT;
    let user = User::service_account(namespace, account);
    let plane = ControlPlane::start(Settings::default().user(user.clone())).await?;
    let client = plane.client().clone();
    manifest::apply_base(&client).await?;
    Ok(Cluster { plane, user: user.name, client })
}

fn nodes(count: u32) -> impl Iterator<Item = NodeFixture> {
    (0..count).map(|i| NodeFixture::new(format!("node-{i:05}")).internal_ip(&ip(i)))
}

/// The same writes by nobody in particular. Returns how long they took.
async fn plain_loop(count: u32, report: &mut Report) -> Result<f64> {
    let Cluster { plane, user, client } = cluster().await?;
    let all = register_nodes(&client, nodes(count)).await?;
    let writer = plane.client_of(&user).await?;
    let before = Cost::read(&client).await?;
    let start = Instant::now();
    let written = stream::iter(all).map(|node| initialise(&writer, node)).buffer_unordered(AT_ONCE);
    written.try_collect::<Vec<()>>().await?;
    let seconds = start.elapsed().as_secs_f64();
    before.tell(count, ["plain_loop", "plain_loop_api_server_cpu_per_node"], seconds, &client, report).await?;
    Ok(seconds)
}

/// The Go framework's manager, started when all nodes wait. Returns how long it took until the last taint was gone.
async fn go_manager(count: u32, report: &mut Report) -> Result<f64> {
    let Cluster { plane, user, client } = cluster().await?;
    // Its rights are looked up as ours are, and are not what is measured.
    Api::all(client.clone()).create(&PostParams::default(), &may_everything(&user)).await?;
    register_nodes(&client, nodes(count)).await?;
    let before = Cost::read(&client).await?;
    let start = Instant::now();
    let _manager = GoManager::start(plane.kubeconfig_of(&user)?)?;
    let seconds = last_untainted(&client, start, count).await.context("the Go manager")?;
    // Its Events may come later; their cost is not in it.
    before
        .tell(count, ["go_manager_last_taint_gone", "go_manager_api_server_cpu_per_node"], seconds, &client, report)
        .await?;
    Ok(seconds)
}

fn may_everything(user: &str) -> ClusterRoleBinding {
    let group = "rbac.authorization.k8s.io".to_owned();
    ClusterRoleBinding {
        metadata: ObjectMeta { name: Some("go-manager".to_owned()), ..ObjectMeta::default() },
        role_ref: RoleRef {
            api_group: group.clone(),
            kind: "ClusterRole".to_owned(),
            name: "cluster-admin".to_owned(),
        },
        subjects: Some(vec![Subject {
            api_group: Some(group),
            kind: "User".to_owned(),
            name: user.to_owned(),
            ..Subject::default()
        }]),
    }
}

/// What the host writes to a Node of Cloudlycke.
async fn initialise(client: &Client, node: Node) -> Result<()> {
    let api: Api<Node> = Api::all(client.clone());
    let params = PatchParams { field_manager: Some("plain-loop".to_owned()), ..PatchParams::default() };
    let name = node.metadata.name.clone().unwrap_or_default();
    let mut addresses = vec![json!({ "$patch": "replace" })];
    addresses.extend(node.status.into_iter().flat_map(|status| status.addresses).flatten().map(|one| json!(one)));
    addresses.push(json!({ "type": "ExternalIP", "address": "203.0.113.1" }));
    let version = node.metadata.resource_version;
    let body = json!({ "metadata": { "resourceVersion": version }, "status": { "addresses": addresses } });
    let first = api.patch_status(&name, &params, &Patch::Strategic(&body)).await?;
    let zone = ["topology.kubernetes.io/zone", "topology.kubernetes.io/region"];
    let beta = ["failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"];
    let kind = ["node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type"];
    let labels: serde_json::Map<_, _> =
        zone.into_iter().chain(beta).chain(kind).map(|key| (key.to_owned(), json!("virtualbox"))).collect();
    let body = json!({
        "metadata": { "resourceVersion": first.metadata.resource_version, "labels": labels },
        "spec": { "providerID": format!("cloudlycke://{name}"), "taints": null },
    });
    api.patch_metadata(&name, &params, &Patch::Strategic(&body)).await?;
    let event = Event {
        metadata: ObjectMeta { name: Some(format!("{name}.1")), ..ObjectMeta::default() },
        regarding: Some(ObjectReference {
            kind: Some("Node".to_owned()),
            name: Some(name),
            uid: node.metadata.uid,
            ..ObjectReference::default()
        }),
        action: Some("Initialize".to_owned()),
        event_time: Some(MicroTime(Timestamp::now())),
        note: Some("Node synced successfully".to_owned()),
        reason: Some("Synced".to_owned()),
        reporting_controller: Some("plain-loop".to_owned()),
        reporting_instance: Some("plain-loop".to_owned()),
        type_: Some("Normal".to_owned()),
        ..Event::default()
    };
    Api::<Event>::namespaced(client.clone(), "default").create(&PostParams::default(), &event).await?;
    Ok(())
}

async fn run(begin: Begin, count: u32, beside: Beside, report: &mut Report) -> Result<()> {
    let Cluster { plane, user, client } = cluster().await?;
    let provider = component("providers/cloudlycke.wasm")?;
    let mut flags = vec!["--provider".into(), provider.into_os_string()];
    flags.extend(std::env::args_os().skip(2));
    let start_host = || Host::start(plane.kubeconfig_of(&user)?, flags.clone());
    let (host, before, start) = match begin {
        Begin::HostStarts => {
            register_nodes(&client, nodes(count)).await?;
            let before = Cost::read(&client).await?;
            let start = Instant::now();
            (start_host()?, before, start)
        }
        Begin::NodesRegister => {
            let host = start_host()?;
            host.await_log(LIMIT, &["controller starts"]).await?;
            let before = Cost::read(&client).await?;
            let start = Instant::now();
            register_nodes(&client, nodes(count)).await?;
            (host, before, start)
        }
    };
    let first = first_untainted(&host, start).await?;
    let last = last_untainted(&client, start, count).await.with_context(|| host.log_text())?;
    ensure_initialised(&client, count).await?;
    // Written, or lost.
    let all_told = async || {
        let written = host.count("ccm_events_written_total", &[]).await?;
        Ok(written + host.count("ccm_events_dropped_total", &[]).await? >= f64::from(count))
    };
    until(LIMIT, all_told).await.with_context(|| host.log_text())?;
    let events = events(&client).await?;
    let after = Cost::read(&client).await?;
    let cpu = host.cpu()?;
    let lookups = host.metric_with("ccm_provider_calls_total", "function=\"instances.find\"").await?;
    tokio::time::sleep(SETTLED).await;
    let (settled, peak) = host.memory()?;

    let name = |figure: &str| match begin {
        Begin::HostStarts => format!("{count}_host_starts_{figure}"),
        Begin::NodesRegister => format!("{count}_nodes_register_{figure}"),
    };
    let at_most = |is_so: bool, most: f64| is_so.then_some(Target::AtMost(most));
    let writes = f64::from(u32::try_from(after.writes - before.writes).unwrap_or(u32::MAX));
    // With few nodes it is the start of the process that counts.
    let waits = begin == Begin::HostStarts && count >= USUAL;
    if let Some(go) = beside.go {
        report.figure(name("last_taint_gone_to_go_manager"), last / go, "", Some(Target::AtMost(0.8)));
    }
    report
        .figure(name("first_taint_gone"), first, "s", at_most(waits && count == USUAL, 1.0))
        .figure(name("last_taint_gone"), last, "s", None)
        // Registering costs as much again.
        .figure(name("last_taint_gone_to_plain_loop"), last / beside.plain, "", at_most(waits, 1.0))
        .figure(name("api_writes_per_node"), per(count, writes), "", Some(Target::AtMost(3.0)))
        .figure(name("events_lost"), f64::from(count.saturating_sub(events)), "", Some(Target::AtMost(0.0)))
        .figure(name("provider_lookups"), lookups, "calls", None)
        .figure(name("host_cpu"), cpu.as_secs_f64(), "s", None)
        .figure(name("api_server_cpu_per_node"), per(count, (after.cpu - before.cpu) * 1e3), "ms", at_most(waits, 6.0))
        .figure(name("rss"), mib(settled), "MiB", at_most(count == LARGEST, 60.0))
        .figure(name("rss_peak"), mib(peak), "MiB", at_most(count == LARGEST, 80.0));
    Ok(())
}

/// Waits until the host has taken a taint away, by its own count: a watch would be work for the API server.
async fn first_untainted(host: &Host, start: Instant) -> Result<f64> {
    const COUNT: &str = "node_controller_cloud_provider_taint_removal_delay_seconds_count";
    while start.elapsed() < LIMIT {
        // Until its port is open there is no page.
        if host.count(COUNT, &[]).await.is_ok_and(|gone| gone >= 1.0) {
            return Ok(start.elapsed().as_secs_f64());
        }
        tokio::time::sleep(LOOK).await;
    }
    bail!("no node was initialised within {LIMIT:?}; {}", host.log_text())
}

/// Waits until no Node waits any more. The looks cost whoever is measured the same: one label is set with the removal of the taint.
async fn last_untainted(client: &Client, start: Instant, count: u32) -> Result<f64> {
    let api: Api<Node> = Api::all(client.clone());
    let waiting = ListParams::default().labels("!node.kubernetes.io/instance-type").limit(1);
    while !api.list_metadata(&waiting).await?.items.is_empty() {
        ensure!(start.elapsed() < LIMIT, "{count} nodes were not initialised within {LIMIT:?}");
        tokio::time::sleep(SELDOM).await;
    }
    Ok(start.elapsed().as_secs_f64())
}

async fn ensure_initialised(client: &Client, count: u32) -> Result<()> {
    let all = Api::<Node>::all(client.clone()).list(&ListParams::default()).await?.items;
    let done = all.iter().filter(|node| !is_tainted(node)).count();
    ensure!(done == usize::try_from(count)?, "{done} of {count} nodes are initialised");
    Ok(())
}

fn per(count: u32, figure: f64) -> f64 {
    figure / f64::from(count)
}

/// Exactly up to 4 GiB, which no figure here comes near.
fn mib(bytes: u64) -> f64 {
    f64::from(u32::try_from(bytes).unwrap_or(u32::MAX)) / MIB
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

    /// What somebody else than the host took since then for so many nodes: how long, and of the API server.
    async fn tell(
        self,
        count: u32,
        names: [&str; 2],
        seconds: f64,
        client: &Client,
        report: &mut Report,
    ) -> Result<()> {
        let after = Self::read(client).await?;
        ensure_initialised(client, count).await?;
        let [time, cpu] = names.map(|name| format!("{count}_{name}"));
        report.figure(time, seconds, "s", None).figure(cpu, per(count, (after.cpu - self.cpu) * 1e3), "ms", None);
        Ok(())
    }
}
