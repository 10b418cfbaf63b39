//! An API server that is away, other writers, Nodes that come again under their name, and the end of the process.

use ccm_cluster::{NodeFixture, await_absent, await_all, await_node, register_nodes};
use futures::future::join_all;
use http::Method;
use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, ListParams};
use kube::runtime::watcher;
use kube::{Api, ResourceExt as _};
use serde_json::json;

use crate::look::{
    addresses, await_all_untainted, await_event, await_untainted, is_tainted, nodes, once_each, patch_status, synced,
};
use crate::stage::{LIMIT, Stage};
use crate::way::Way;

fn fixtures(count: usize) -> impl Iterator<Item = NodeFixture> {
    (0..count).map(|i| NodeFixture::new(format!("n{i}")).internal_ip(&format!("10.0.0.{}", i + 1)))
}

/// Waits until this many of the Nodes are done, with the rest still to do.
async fn await_some_untainted(stage: &Stage, some: usize) {
    let done = |all: &std::collections::BTreeMap<String, Node>| all.values().filter(|n| !is_tainted(n)).count() >= some;
    await_all(&nodes(stage.client()), watcher::Config::default(), LIMIT, done).await.unwrap();
}

#[tokio::test]
async fn a_host_that_starts_before_its_api_server_waits_for_it() {
    let stage = Stage::new().await;
    stage.cluster.stop_api_server().await.unwrap();
    let host = stage.cloudlycke(&[]);
    let line = host.await_log(LIMIT, &["waiting for the API server", "retry_in"]).await.unwrap();
    assert!(line.contains("\"WARN\""), "{line}");
    let (status, page) = host.page("/readyz").await.unwrap();
    assert_eq!(status, 503);
    for part in ["[-]API server not ready", "[-]nodes not ready", "cloudlycke.wasm not ready"] {
        assert!(page.contains(part), "{page}");
    }
    assert_eq!(host.page("/livez").await.unwrap(), (200, "ok".to_owned()));
    stage.cluster.start_api_server().await.unwrap();
    host.ready().await;
    NodeFixture::new("late").internal_ip("10.0.0.1").register(stage.client()).await.unwrap();
    await_untainted(stage.client(), "late").await;
    host.stop().await;
}

/// The API server is killed in the middle, so that answers are lost whose writes were done.
#[tokio::test]
async fn an_api_server_that_is_restarted_while_a_hundred_nodes_are_initialised_loses_none() {
    // More than a host initialises before a busy test has noticed the first of them.
    const COUNT: usize = 250;
    let stage = Stage::new().await;
    let client = stage.client();
    let before = register_nodes(client, fixtures(COUNT)).await.unwrap();
    let host = stage.cloudlycke(&["--concurrent-node-syncs=4"]);
    await_some_untainted(&stage, 10).await;
    stage.cluster.stop_api_server().await.unwrap();
    let synced_so_far = host.count("node_controller_initial_node_sync_delay_seconds_count", &[]).await.unwrap();
    assert!(synced_so_far < COUNT as f64, "all were done before the API server was away");
    host.await_log(LIMIT, &["WARN", "Node", "watch"]).await.unwrap();
    assert_eq!(host.page("/livez").await.unwrap().0, 200);
    stage.cluster.start_api_server().await.unwrap();

    await_all_untainted(client, COUNT).await;
    let all = |done: f64| done >= COUNT as f64;
    host.await_count("node_controller_initial_node_sync_delay_seconds_count", &[], LIMIT, all).await.unwrap();
    host.events_written().await;
    let dropped: Vec<String> = host.log().into_iter().filter(|line| line.contains("was not written")).collect();
    assert_eq!(dropped, Vec::<String>::new());
    assert_eq!(synced(client).await, once_each(&before));
    assert_eq!(host.count("ccm_events_dropped_total", &[]).await.unwrap(), 0.0);
    host.stop().await;
}

/// A kubelet that writes its status without a pause: every write of ours that is bound to what was read meets another one.
#[tokio::test]
async fn a_kubelet_that_writes_all_the_time_does_not_keep_its_node_from_being_initialised() {
    let stage = Stage::new().await;
    let client = stage.client();
    NodeFixture::new("busy").internal_ip("10.0.0.1").register(client).await.unwrap();
    let way = Way::to(stage.cluster.client_of(stage.user()).await.unwrap()).await;
    let mut writing = way.hold(|method, path| method == Method::PATCH && path.starts_with("/api/v1/nodes/"));
    let host = stage.cloudlycke(&[&way.flag()]);
    // The first one does for certain, however fast the host is.
    writing.next().await;
    patch_status(client, "busy", &json!({ "phase": "first" })).await;
    drop(writing);
    let kubelet = async {
        for heartbeat in 0_u64.. {
            patch_status(client, "busy", &json!({ "phase": format!("{heartbeat}") })).await;
        }
    };
    let after = tokio::select! {
        () = kubelet => unreachable!(),
        after = await_untainted(client, "busy") => after,
    };
    assert_eq!(addresses(&after), ["InternalIP 10.0.0.1", "ExternalIP 10.0.0.1", "Hostname busy"]);
    await_event(client, "busy", "Normal", "Synced", &[]).await;
    let conflicts = host.count("ccm_api_requests_total", &["outcome=\"conflict\""]).await.unwrap();
    assert!(conflicts >= 1.0, "there was no conflict to survive");
    host.end().await;
}

#[tokio::test]
async fn a_node_that_comes_again_under_its_name_is_initialised_again() {
    const COUNT: usize = 20;
    let stage = Stage::new().await;
    let client = stage.client();
    let api: Api<Node> = nodes(client);
    let host = stage.cloudlycke(&[]);
    host.ready().await;
    let first = register_nodes(client, fixtures(COUNT)).await.unwrap();
    await_some_untainted(&stage, COUNT / 2).await;
    // Half of them are done, half are in the middle of it.
    let again = first.iter().map(|node| {
        let (name, api) = (node.name_any(), &api);
        async move {
            api.delete(&name, &DeleteParams::default()).await.unwrap();
            await_absent(api, &name, LIMIT).await.unwrap();
            NodeFixture::new(&name).internal_ip("10.7.7.7").register(client).await.unwrap()
        }
    });
    let second = join_all(again).await;
    for node in &second {
        let uid = node.uid();
        let done = |node: &Node| node.uid() == uid && !is_tainted(node);
        let after = await_node(client, &node.name_any(), LIMIT, done).await.unwrap();
        assert_eq!(addresses(&after)[0], "InternalIP 10.7.7.7");
        await_event(client, &node.name_any(), "Normal", "Synced", &[]).await;
    }
    // Every new one exactly once; of the old ones those that were done in time, once.
    let uids = |nodes: &[Node]| nodes.iter().map(|node| node.uid().unwrap()).collect::<Vec<_>>();
    let enough = |done: f64| done >= COUNT as f64;
    host.await_count("ccm_events_written_total", &[], LIMIT, enough).await.unwrap();
    host.events_written().await;
    let mut told: Vec<String> = synced(client).await.into_values().flatten().collect();
    told.sort();
    let mut once = told.clone();
    once.dedup();
    assert_eq!(told, once, "nobody is told twice");
    assert!(uids(&second).iter().all(|uid| told.contains(uid)));
    assert!(told.iter().all(|uid| uids(&first).contains(uid) || uids(&second).contains(uid)));
    host.end().await;
}

#[tokio::test]
async fn the_signal_to_stop_ends_the_process_in_order_while_it_works() {
    const COUNT: usize = 20;
    let stage = Stage::new().await;
    let client = stage.client();
    let way = Way::to(stage.cluster.client_of(stage.user()).await.unwrap()).await;
    let mut writing = way.hold(|method, path| method == Method::PATCH && path.starts_with("/api/v1/nodes/n7"));
    register_nodes(client, fixtures(COUNT)).await.unwrap();
    let host = stage.cloudlycke(&["--concurrent-node-syncs=1", &way.flag()]);
    writing.next().await;
    host.signal("TERM").await.unwrap();
    host.await_log(LIMIT, &["SIGTERM: stopping"]).await.unwrap();
    drop(writing);
    // Within the 30 s that Kubernetes gives it.
    let log = host.stop().await;
    let (_, later) = log.split_once("SIGTERM").unwrap();
    assert!(later.contains("node initialised"), "all was done before the signal");
    assert!(!later.contains("before all"), "something was cut off");
    let all = nodes(client).list(&ListParams::default()).await.unwrap().items;
    let done: Vec<Node> = all.into_iter().filter(|node| !is_tainted(node)).collect();
    assert_eq!(synced(client).await, once_each(&done), "whoever was initialised has the Event of it");

    let host = stage.cloudlycke(&[]);
    host.ready().await;
    await_all_untainted(client, COUNT).await;
    host.end().await;
}

#[tokio::test]
async fn a_host_that_waits_for_its_api_server_or_its_provider_stops_at_the_signal_too() {
    let stage = Stage::new().await;
    let waiting = stage.start(["--provider=configmap:kube-system/absent"]);
    waiting.await_log(LIMIT, &["provider not taken"]).await.unwrap();
    waiting.end().await;
    stage.cluster.stop_api_server().await.unwrap();
    let waiting = stage.cloudlycke(&[]);
    waiting.await_log(LIMIT, &["waiting for the API server"]).await.unwrap();
    waiting.end().await;
}
