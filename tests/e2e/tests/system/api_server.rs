//! An API server that refuses what belongs to one namespace, a way to it that falls silent, and one that was restored from a backup.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ccm_cluster::{NodeFixture, await_object, poll_until};
use ccm_e2e::balancer_cloud::BalancerCloud;
use k8s_openapi::api::core::v1::{Namespace, Service};
use kube::api::{DeleteParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::look::{await_untainted, patch};
use crate::service_look::{await_served, balancing, change, cloud, is_served, serve, two_nodes};
use crate::stage::{LIMIT, Stage};

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
    _tasks: JoinSet<()>,
}

impl Way {
    async fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (silent, begun): (Arc<AtomicUsize>, Arc<AtomicUsize>) = Default::default();
        let (silent_below, count) = (Arc::clone(&silent), Arc::clone(&begun));
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut ways = JoinSet::new();
            while let Ok((near, _)) = listener.accept().await {
                let number = count.fetch_add(1, Ordering::Relaxed);
                let Ok(far) = TcpStream::connect(server).await else { continue };
                let ((near_read, near_write), (far_read, far_write)) = (near.into_split(), far.into_split());
                let silent_below = [Arc::clone(&silent_below), Arc::clone(&silent_below)];
                let [there, back] = silent_below;
                ways.spawn(async move {
                    tokio::join!(
                        forward(near_read, far_write, number, &there),
                        forward(far_read, near_write, number, &back)
                    );
                });
            }
        });
        Self { address, silent, begun, _tasks: tasks }
    }

    /// Takes nothing away and gives nothing on for all who are connected.
    fn fall_silent(&self) {
        self.silent.store(self.begun.load(Ordering::Relaxed), Ordering::Relaxed);
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
    let quick = ["--kube-api-ping-period=2s", "--kube-api-ping-timeout=2s", "--kube-api-write-timeout=3s"];
    let host = stage.cloudlycke(&[&quick[..], &[&master]].concat());
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

async fn await_port(cloud: &BalancerCloud, port: u16) {
    let has = || {
        let ports: Vec<_> = cloud.balancers().into_iter().flat_map(|balancer| balancer.spec.ports).collect();
        ports.len() == 1 && ports[0]["port"] == port
    };
    poll_until("the port of the load balancer", LIMIT, has).await.unwrap();
}
