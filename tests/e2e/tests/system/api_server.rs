//! An API server that refuses what belongs to one namespace or takes a right away, a way to it that falls silent or hangs, and one that was
//! restored from a backup.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ccm_cluster::{NodeFixture, await_object, poll_until};
use ccm_e2e::alerts;
use ccm_e2e::balancer_cloud::BalancerCloud;
use ccm_e2e::host::until;
use k8s_openapi::api::core::v1::{Namespace, Service};
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::api::{DeleteParams, PostParams, WatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::look::{await_untainted, patch};
use crate::service_look::{await_served, balancing, change, cloud, is_served, serve, two_nodes};
use crate::stage::{Actor, LIMIT, Stage};

fn service(name: &str) -> Service {
    let spec = json!({ "type": "LoadBalancer", "selector": { "app": name }, "ports": [{ "port": 80 }] });
    serde_json::from_value(json!({ "metadata": { "name": name }, "spec": spec })).unwrap()
}

/// Its refusal was taken for a missing right: each Event was sent seven times in up to 13 s, and those of all others waited.
#[tokio::test]
async fn a_namespace_that_ends_refuses_events_and_nobody_waits_for_that() {
    let stage = Stage::new().await;
    let client = stage.client();
    two_nodes(client).await;
    let ending: Namespace = serde_json::from_value(json!({ "metadata": { "name": "ending" } })).unwrap();
    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces.create(&PostParams::default(), &ending).await.unwrap();
    let services: Api<Service> = Api::namespaced(client.clone(), "ending");
    for i in 0..5 {
        services.create(&PostParams::default(), &service(&format!("s{i}"))).await.unwrap();
    }
    // Nobody here empties it, so it ends for ever.
    drop(namespaces.delete("ending", &DeleteParams::default()).await.unwrap());
    let cloud = cloud(Duration::ZERO).await;
    let host = balancing(&stage, &cloud, &[]);
    for i in 0..5 {
        await_object(&services, &format!("s{i}"), LIMIT, is_served).await.unwrap();
    }
    serve(client, "web", json!({})).await;
    await_served(client, "web").await;
    host.events_written().await;
    let asked = ["verb=\"create\"", "resource=\"events\"", "outcome=\"refused\""];
    let refused = host.count("ccm_api_requests_total", &asked).await.unwrap();
    let dropped = host.count("ccm_events_dropped_total", &[]).await.unwrap();
    assert!(dropped >= 5.0, "{dropped}");
    // Each was sent once; some before the API server had read the rules.
    assert!(refused < dropped + 6.0, "{refused} for {dropped}");
    // The log says `forbidden` of rights alone.
    host.end().await;
}

/// A way to the API server that can fall silent: who is connected stays so, and hears nothing any more.
struct Way {
    address: SocketAddr,
    /// Connections with a lower number are silent.
    silent: Arc<AtomicUsize>,
    begun: Arc<AtomicUsize>,
    ends: Arc<Notify>,
    _tasks: JoinSet<()>,
}

impl Way {
    async fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (silent, begun): (Arc<AtomicUsize>, Arc<AtomicUsize>) = Default::default();
        let (silent_below, count) = (Arc::clone(&silent), Arc::clone(&begun));
        let ends = Arc::new(Notify::new());
        let end = Arc::clone(&ends);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut ways = JoinSet::new();
            while let Ok((near, _)) = listener.accept().await {
                let number = count.fetch_add(1, Ordering::Relaxed);
                let Ok(far) = TcpStream::connect(server).await else { continue };
                let ((near_read, near_write), (far_read, far_write)) = (near.into_split(), far.into_split());
                let silent_below = [Arc::clone(&silent_below), Arc::clone(&silent_below)];
                let ([there, back], end) = (silent_below, Arc::clone(&end));
                ways.spawn(async move {
                    let both = async {
                        tokio::join!(
                            forward(near_read, far_write, number, &there),
                            forward(far_read, near_write, number, &back)
                        )
                    };
                    tokio::select! {
                        _ = both => {}
                        () = end.notified() => {}
                    }
                });
            }
        });
        Self { address, silent, begun, ends, _tasks: tasks }
    }

    /// Takes nothing away and gives nothing on for all who are connected.
    fn fall_silent(&self) {
        self.silent.store(self.begun.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// The same for all who connect from now on, as an API server that hangs, until it [falls silent](Self::fall_silent) for those alone.
    fn hang(&self) {
        self.silent.store(usize::MAX, Ordering::Relaxed);
    }

    /// Ends all connections.
    fn cut(&self) {
        self.ends.notify_waiters();
    }
}

async fn forward(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    number: usize,
    silent_below: &AtomicUsize,
) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(bytes @ 1..) = from.read(&mut buffer).await {
        if number < silent_below.load(Ordering::Relaxed) {
            // Neither end learns that nobody is there.
            std::future::pending::<()>().await;
        }
        if to.write_all(&buffer[..bytes]).await.is_err() {
            return;
        }
    }
}

/// The Lease was renewed over another connection, while the watch heard nothing for up to five minutes.
#[tokio::test]
async fn a_watch_whose_connection_falls_silent_goes_on_over_another_one() {
    let stage = Stage::new().await;
    let client = stage.client();
    let server = stage.cluster.url().strip_prefix("https://").unwrap().parse().unwrap();
    let way = Way::to(server).await;
    let master = format!("--master=https://{}", way.address);
    let host = stage.cloudlycke(&[&QUICK[..], &[&master]].concat());
    let node = |name: &str| NodeFixture::new(name).internal_ip("10.1.0.1");
    node("before").register(client).await.unwrap();
    await_untainted(client, "before").await;
    for round in ["once", "again"] {
        way.fall_silent();
        node(round).register(client).await.unwrap();
        await_untainted(client, round).await;
    }
    host.await_log(LIMIT, &["cannot watch", "Node"]).await.unwrap();
    host.end().await;
}

/// What was written before the backup was restored had higher resource versions: whatever came later was taken for old.
#[tokio::test]
async fn after_etcd_was_restored_from_a_backup_what_changes_counts_although_its_resource_version_is_lower() {
    let stage = Stage::new().await;
    let client = stage.client();
    two_nodes(client).await;
    serve(client, "web", json!({})).await;
    NodeFixture::new("early").register(client).await.unwrap();
    stage.cluster.backup().await.unwrap();

    let cloud = cloud(Duration::ZERO).await;
    // Without a Lease, which would be held by a process that etcd knows nothing of.
    let host = balancing(&stage, &cloud, &["--leader-elect=false"]);
    await_served(client, "web").await;
    let early = await_untainted(client, "early").await;
    // So that the resource versions of the backup are not reached again so soon.
    for round in 0..200 {
        patch(client, "n1", &json!({ "metadata": { "labels": { "round": round.to_string() } } })).await;
    }
    let version = |service: &Service| service.resource_version().unwrap().parse::<u64>().unwrap();
    let port = |port: u16| json!({ "spec": { "ports": [{ "port": port }] } });
    let highest = version(&change(client, "web", &port(81)).await);
    await_port(&cloud, 81).await;

    // Now the Service has neither finalizer nor address, and port 80.
    stage.cluster.restore().await.unwrap();
    let restored = await_served(client, "web").await;
    assert!(version(&restored) < highest, "{} after {highest}", version(&restored));
    await_port(&cloud, 80).await;
    let changed = change(client, "web", &port(82)).await;
    await_port(&cloud, 82).await;
    assert!(version(&changed) < highest);
    // So is the Node that had lost its taint since, and others that wait for their initialisation are heard of too.
    let again = await_untainted(client, "early").await;
    assert_eq!((again.uid(), &again.spec), (early.uid(), &early.spec));
    NodeFixture::new("late").register(client).await.unwrap();
    await_untainted(client, "late").await;
    // An API server that has just started refuses what it has no rules for yet.
    drop(host.stop().await);
}

/// A way that falls silent is noticed at once.
const QUICK: [&str; 3] = ["--kube-api-ping-period=2s", "--kube-api-ping-timeout=2s", "--kube-api-write-timeout=3s"];

/// Waits until `/readyz` has all of these.
async fn await_said(host: &Actor, wanted: &[&str]) -> String {
    let mut last = String::new();
    let look = async || {
        last = host.page("/readyz").await?.1;
        Ok(wanted.iter().all(|part| last.contains(part)))
    };
    let waited = until(LIMIT, look).await;
    assert!(waited.is_ok(), "not {wanted:?} but {last}");
    last
}

/// "API server ok" was once said for ever, as it had answered at the start.
#[tokio::test]
async fn a_host_without_election_says_that_the_api_server_hangs_and_when_it_is_back() {
    let stage = Stage::new().await;
    let client = stage.client();
    let way = Way::to(stage.cluster.url().strip_prefix("https://").unwrap().parse().unwrap()).await;
    let master = format!("--master=https://{}", way.address);
    let host = stage.cloudlycke(&[&QUICK[..], &["--leader-elect=false", &master]].concat());
    host.ready().await;
    way.hang();
    let wanted = [
        "[-]API server not ready: no answer since ",
        "[-]nodes not ready: no change has been seen since ",
        "[-]services not ready: no change has been seen since ",
    ];
    let page = await_said(&host, &wanted).await;
    assert!(page.contains("check the API server and the way to it"), "{page}");
    assert_eq!(host.page("/readyz").await.unwrap().0, 503);
    // A restart would help nobody.
    for path in ["/livez", "/healthz"] {
        assert_eq!(host.page(path).await.unwrap(), (200, "ok".to_owned()), "{path}");
    }
    way.fall_silent();
    host.ready().await;
    await_said(&host, &["[+]API server ok\n", "[+]nodes ok\n", "[+]services ok\n"]).await;
    NodeFixture::new("later").internal_ip("10.1.0.1").register(client).await.unwrap();
    await_untainted(client, "later").await;
    host.stop().await;
}

/// It once led on with the Services that it had in memory, and every check passed.
#[tokio::test]
async fn a_leader_that_may_not_watch_services_any_more_leads_on_says_so_and_is_ready_when_it_may_again() {
    let stage = Stage::new().await;
    let way = Way::to(stage.cluster.url().strip_prefix("https://").unwrap().parse().unwrap()).await;
    let master = format!("--master=https://{}", way.address);
    let host = stage.cloudlycke(&[&QUICK[..], &["--leader-elect=true", &master]].concat());
    host.ready().await;
    await_said(&host, &["leader: this process"]).await;

    let roles: Api<ClusterRole> = Api::all(stage.client().clone());
    let role = roles.get("wasm-ccm").await.unwrap();
    let mut less = role.clone();
    let services = less.rules.iter_mut().flatten().find(|rule| rule.resources == Some(vec!["services".to_owned()]));
    services.unwrap().verbs.retain(|verb| verb != "watch");
    less = roles.replace("wasm-ccm", &PostParams::default(), &less).await.unwrap();
    let watching: Api<Service> = Api::all(stage.cluster.client_of(stage.user()).await.unwrap());
    let is_refused = async || Ok(watching.watch(&WatchParams::default(), "0").await.is_err());
    until(LIMIT, is_refused).await.unwrap();
    let mut scrapes = vec![[alerts::scrape(&host).await.unwrap()]];
    let (failures, of_services) = ("ccm_store_watch_failures_total", ["kind=\"Service\""]);
    let before = host.count(failures, &of_services).await.unwrap();
    // The API server takes the right from no watch that goes on.
    way.cut();
    for failed in 1..=4 {
        let least = before + f64::from(failed);
        host.await_count(failures, &of_services, LIMIT, |count| count >= least).await.unwrap();
        scrapes.push([alerts::scrape(&host).await.unwrap()]);
    }
    alerts::fires("WasmCCMWatchFails", &scrapes).await.unwrap();
    // The watch broke off a moment before it was refused for the first time.
    let told =
        ["[-]services not ready: no change has been seen since ", "list and watch Services: apply your overlay again"];
    let page = await_said(&host, &told).await;
    for part in ["cannot watch resource \"services\"", "[+]API server ok\n", "[+]nodes ok\n", "leader: this process"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert_eq!(host.page("/readyz").await.unwrap().0, 503);
    assert_eq!(host.page("/livez").await.unwrap(), (200, "ok".to_owned()));

    less.rules = role.rules;
    roles.replace("wasm-ccm", &PostParams::default(), &less).await.unwrap();
    host.ready().await;
    await_said(&host, &["[+]services ok\n", "leader: this process"]).await;
    host.stop().await;
}

async fn await_port(cloud: &BalancerCloud, port: u16) {
    let has = || {
        let ports: Vec<_> = cloud.balancers().into_iter().flat_map(|balancer| balancer.spec.ports).collect();
        ports.len() == 1 && ports[0]["port"] == port
    };
    poll_until("the port of the load balancer", LIMIT, has).await.unwrap();
}
