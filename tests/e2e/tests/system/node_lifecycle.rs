//! 3, 7.8, 7.9 and: Nodes whose machine is gone or switched off.

use ccm_cluster::{NodeFixture, await_absent, await_node};
use http::Method;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::cloud::Cloud;
use crate::look::{STATE, annotate, await_event, create, events_about, get, nodes, patch_status, told_once};
use crate::stage::{Actor, LIMIT, Stage, cloudlycke, scripted};
use crate::way::Way;

const SHUTDOWN: &str = "node.cloudprovider.kubernetes.io/shutdown";
/// Without these a Node would have to be a minute old.
const QUICK: [&str; 2] = ["--node-deletion-min-age=0", "--node-deletion-second-look=1s"];

/// An initialised Node that is not Ready, and what the cloud says of its machine.
fn lost(name: &str, state: &str) -> NodeFixture {
    NodeFixture::new(name)
        .initialized()
        .not_ready()
        .provider_id(&format!("cloudlycke://{name}"))
        .annotation(STATE, state)
}

fn is_shut_down(node: &Node) -> bool {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    taints.into_iter().any(|taint| (taint.key.as_str(), taint.effect.as_str()) == (SHUTDOWN, "NoSchedule"))
}

fn ready(status: &str) -> Value {
    json!({ "conditions": [{ "type": "Ready", "status": status, "reason": "Test", "message": "" }] })
}

fn host(stage: &Stage, flags: &[&str]) -> Actor {
    stage.cloudlycke(&[&QUICK, flags].concat())
}

/// Waits until the cloud has given this answer so many times.
async fn await_looks(host: &Actor, answer: &str, count: f64) {
    let label = format!("answer={answer:?}");
    host.await_count("ccm_node_lifecycle_looks_total", &[&label], LIMIT, |looks| looks >= count).await.unwrap();
}

#[tokio::test]
async fn a_machine_that_stops_fails_and_goes_and_its_node_with_it() {
    let stage = Stage::new().await;
    let client = stage.client();
    let ready_but_gone = NodeFixture::new("ready").initialized().provider_id("cloudlycke://ready");
    let ready_but_gone = ready_but_gone.annotation(STATE, "deleted").register(client).await.unwrap();
    let running = lost("n1", "running").taint("mine", "x", "NoExecute").register(client).await.unwrap();
    let host = host(&stage, &[]);

    // not Ready, but it runs.
    await_looks(&host, "running", 1.0).await;
    assert_eq!(get(client, "n1").await, running, "A-18");

    // it stops; then its kubelet is back.
    annotate(client, "n1", STATE, Some("stopped")).await;
    await_node(client, "n1", LIMIT, is_shut_down).await.unwrap_or_else(|error| panic!("A-19: {error:#}"));
    patch_status(client, "n1", &ready("True")).await;
    let back = await_node(client, "n1", LIMIT, |node| !is_shut_down(node)).await.unwrap();
    assert_eq!(back.spec, running.spec, "A-19: the other taint is still there");

    // QUIRK-11: it stops, and runs again without its Node being Ready.
    patch_status(client, "n1", &ready("Unknown")).await;
    await_node(client, "n1", LIMIT, is_shut_down).await.unwrap();
    annotate(client, "n1", STATE, Some("running")).await;
    let back = await_node(client, "n1", LIMIT, |node| !is_shut_down(node)).await.unwrap();
    assert_eq!(back.spec, running.spec);

    // the cloud fails.
    let failing = annotate(client, "n1", STATE, Some("error")).await;
    await_looks(&host, "retry", 1.0).await;
    host.await_log(LIMIT, &["WARN", "simulated cloud API failure"]).await.unwrap();
    assert_eq!(get(client, "n1").await, failing, "A-20");

    // it is gone.
    annotate(client, "n1", STATE, Some("deleted")).await;
    await_absent(&nodes(client), "n1", LIMIT).await.unwrap_or_else(|error| panic!("A-21: {error:#}"));
    let told = await_event(client, "n1", "Normal", "DeletingNode", &[]).await;
    assert_eq!(told, "Deleting node n1 because it does not exist in the cloud provider");
    assert_eq!(get(client, "ready").await, ready_but_gone, "A-21: a Ready Node is not touched");
    host.events_written().await;
    assert_eq!(events_about(client, "ready").await, vec![]);
    let event = events_about(client, "n1").await.remove(0);
    let about = event.regarding.unwrap();
    assert_eq!((about.api_version.as_deref(), about.kind.as_deref()), (Some("v1"), Some("Node")), "case 105");
    assert_eq!(about.uid, running.uid());
    assert_eq!(event.reporting_controller.as_deref(), Some("cloud-node-lifecycle-controller"));
    // Four taints were written, and nothing was read to find that out.
    let patches = host.count("ccm_api_requests_total", &["verb=\"patch\"", "resource=\"nodes\""]).await.unwrap();
    let reads = host.count("ccm_api_requests_total", &["verb=\"get\"", "resource=\"nodes\""]).await.unwrap();
    assert_eq!((patches, reads), (4.0, 0.0));
    host.end().await;
}

/// QUIRK-09, and a Node that is Ready again: all of it happens while the deletions are on their way.
#[tokio::test]
async fn a_node_that_comes_again_or_comes_back_between_check_and_delete_stays() {
    let stage = Stage::new().await;
    let client = stage.client();
    let way = Way::to(stage.cluster.client_of(stage.user()).await.unwrap()).await;
    let host = host(&stage, &["--controllers=cloud-node-lifecycle", "--node-deletion-percent=100", &way.flag()]);
    host.ready().await;
    for round in 0..2 {
        let (again, back, gone) = (format!("again{round}"), format!("back{round}"), format!("gone{round}"));
        let mut held = way.hold(|method, path| {
            method == Method::DELETE && ["/nodes/again", "/nodes/back"].iter().any(|part| path.contains(part))
        });
        for name in [&again, &back, &gone] {
            lost(name, "deleted").register(client).await.unwrap();
        }
        let mut on_their_way = [held.next().await, held.next().await];
        on_their_way.sort();
        assert_eq!(on_their_way, [&again, &back].map(|name| format!("/api/v1/nodes/{name}")));
        nodes(client).delete(&again, &DeleteParams::default()).await.unwrap();
        // Even the cloud still says what it said of the old one.
        let new = lost(&again, "deleted").build();
        let new = nodes(client).create(&Default::default(), &new).await.unwrap();
        // It is back for good, so that whatever is deleted later was a mistake.
        patch_status(client, &again, &ready("True")).await;
        patch_status(client, &back, &ready("True")).await;
        drop(held);
        await_absent(&nodes(client), &gone, LIMIT).await.unwrap();
        // The host has its answers.
        let deletions = ["verb=\"delete\"", "resource=\"nodes\""];
        let all = f64::from(round + 1) * 3.0;
        host.await_count("ccm_api_requests_total", &deletions, LIMIT, |answered| answered >= all).await.unwrap();
        assert_eq!(get(client, &again).await.uid(), new.uid());
        assert!(events_about(client, &back).await.is_empty());
        get(client, &back).await;
    }
    let deleted = ["result=\"deleted\""];
    // Counted a moment after the answer.
    let deleted =
        host.await_count("ccm_node_lifecycle_deletions_total", &deleted, LIMIT, |deleted| deleted >= 2.0).await;
    assert_eq!(deleted.unwrap(), 2.0);
    host.end().await;
}

#[tokio::test]
async fn a_kubelet_that_writes_all_the_time_does_not_keep_its_node() {
    let stage = Stage::new().await;
    let client = stage.client();
    lost("busy", "deleted").register(client).await.unwrap();
    let host = host(&stage, &["--controllers=cloud-node-lifecycle"]);
    let kubelet = async {
        let api = nodes(client);
        for heartbeat in 0_u64.. {
            let status = json!({ "status": { "phase": format!("{heartbeat}") } });
            let patch = kube::api::Patch::Merge(&status);
            if api.patch_status("busy", &Default::default(), &patch).await.is_err() {
                break;
            }
        }
    };
    let absent = async { await_absent(&nodes(client), "busy", LIMIT).await.unwrap() };
    tokio::join!(kubelet, absent);
    await_event(client, "busy", "Normal", "DeletingNode", &[]).await;
    host.events_written().await;
    assert_eq!(told_once(client, "busy").await, ["Normal DeletingNode"]);
    host.end().await;
}

#[tokio::test]
async fn case_100_nodes_of_other_clouds_or_without_provider_id_or_too_young_are_not_deleted() {
    let stage = Stage::new().await;
    let client = stage.client();
    let without_id = || NodeFixture::new("without-id").initialized().not_ready().annotation(STATE, "deleted");
    let mut kept = vec![];
    for fixture in [lost("foreign", "deleted").provider_id("aws:///zone/i-1"), without_id()] {
        kept.push(fixture.register(client).await.unwrap());
    }
    let alone = "--controllers=cloud-node-lifecycle";
    let first = host(&stage, &[alone]);
    // Nodes come in one list, so that all were looked at when this one is gone.
    lost("gone", "deleted").register(client).await.unwrap();
    await_absent(&nodes(client), "gone", LIMIT).await.unwrap();
    first.await_log(LIMIT, &["without provider ID", "without-id"]).await.unwrap();
    for node in &kept {
        assert_eq!(get(client, &node.name_any()).await, *node);
        assert_eq!(events_about(client, &node.name_any()).await, vec![]);
    }
    let about_foreign: Vec<String> = first.log().into_iter().filter(|line| line.contains("foreign")).collect();
    assert_eq!(about_foreign, [""; 0]);
    first.end().await;

    // Upstream's way; and nothing is asked about Nodes that are too young, as these are however busy the machine is.
    lost("young", "deleted").register(client).await.unwrap();
    let old_way = "--delete-nodes-without-provider-id";
    let second = stage.cloudlycke(&[alone, old_way, "--node-deletion-min-age=1h"]);
    second.await_count("ccm_node_lifecycle_not_ready_nodes", &[], LIMIT, |nodes| nodes == 2.0).await.unwrap();
    // Whoever asks has its answer.
    second.idle("NodeLifecycle", 2).await;
    assert_eq!(second.count("ccm_node_lifecycle_looks_total", &[]).await.unwrap(), 0.0);
    second.end().await;
    // Of these few, no more than half go within ten minutes, and one went.
    let third = host(&stage, &[alone, old_way, "--node-deletion-percent=100"]);
    await_absent(&nodes(client), "without-id", LIMIT).await.unwrap();
    assert_eq!(get(client, "foreign").await, kept[0]);
    third.end().await;
}

#[tokio::test]
async fn deletions_beyond_the_limit_are_held_until_somebody_confirms_them_by_name() {
    let stage = Stage::new().await;
    let client = stage.client();
    let alone = ["--controllers=cloud-node-lifecycle", "--node-deletion-percent=0"];
    for name in ["a", "b", "c"] {
        lost(name, "deleted").register(client).await.unwrap();
    }
    let first = host(&stage, &[&alone[..], &["--node-deletion-min-budget=1"]].concat());
    first.await_count("ccm_node_lifecycle_held_nodes", &[], LIMIT, |held| held == 2.0).await.unwrap();
    first.events_written().await;
    let left = nodes(client).list(&Default::default()).await.unwrap().items;
    let left: Vec<String> = left.iter().map(|node| node.name_any()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
    let (confirmed, other) = (&left[0], &left[1]);
    for name in &left {
        let flag = format!("--confirm-node-deletions={name}");
        await_event(client, name, "Warning", "NodeDeletionHeld", &["no more than 1 of ", &flag]).await;
    }
    first.end().await;

    let flag = format!("--confirm-node-deletions={confirmed}");
    let second = host(&stage, &[&alone[..], &["--node-deletion-min-budget=0", &flag]].concat());
    await_absent(&nodes(client), confirmed, LIMIT).await.unwrap();
    await_event(client, confirmed, "Normal", "DeletingNode", &[]).await;
    second.await_count("ccm_node_lifecycle_held_nodes", &[], LIMIT, |held| held == 1.0).await.unwrap();
    get(client, other).await;
    // Once: the next one of that name is held like any other.
    lost(confirmed, "deleted").register(client).await.unwrap();
    second.await_count("ccm_node_lifecycle_held_nodes", &[], LIMIT, |held| held == 2.0).await.unwrap();
    get(client, confirmed).await;
    second.end().await;
}

/// A tenth of the Nodes of a large cloud once was more than a small one had.
#[tokio::test]
async fn a_wrong_token_for_one_of_two_clouds_costs_no_more_nodes_than_the_budget_of_that_cloud() {
    const LARGE: usize = 100;
    const SMALL: usize = 8;
    let stage = Stage::new().await;
    let client = stage.client();
    let cloud = Cloud::start().await;
    for i in 0..LARGE {
        let name = format!("large{i}");
        let node = NodeFixture::new(&name).initialized().provider_id(&format!("cloudlycke://{name}")).build();
        create(client, &node).await;
        patch_status(client, &name, &ready("True")).await;
    }
    for i in 0..SMALL {
        let name = format!("small{i}");
        let fixture = NodeFixture::new(&name).initialized().not_ready().provider_id(&format!("scripted://{name}"));
        let asked = format!("HEAD /of/right/{name}");
        fixture.annotation("scripted.example/script", &asked).register(client).await.unwrap();
    }
    let providers = json!([
        { "source": cloudlycke() },
        {
            "source": scripted(),
            "grants": { "endpoints": { "api": cloud.url() }, "allowHttp": true, "allowLoopback": true },
            "credentials": { "token": format!("file:{}", stage.file("token", "wrong-token").display()) },
        },
    ]);
    let providers = format!("--providers={}", stage.file("providers.yaml", providers.to_string()).display());
    let flags =
        [&QUICK[..], &["--controllers=cloud-node-lifecycle", "--node-monitor-max-period=5s", &providers]].concat();
    let small = async || {
        let nodes = nodes(client).list(&Default::default()).await.unwrap().items;
        nodes.iter().filter(|node| node.name_any().starts_with("small")).count()
    };
    // The process after it knows whose the deletions of this one were.
    for run in 0..2 {
        let host = stage.start(flags.iter().copied());
        let held = ["provider=\"scripted\""];
        host.await_count("ccm_node_lifecycle_held_nodes", &held, LIMIT, |held| held == 5.0).await.unwrap();
        // All of them were asked about once more, and none went.
        let so_far = host.count("ccm_node_lifecycle_looks_total", &["answer=\"absent\""]).await.unwrap();
        await_looks(&host, "absent", so_far + 5.0).await;
        assert_eq!(small().await, SMALL - 3, "run {run}");

        // The other cloud's budget is untouched.
        let gone = format!("large{run}");
        annotate(client, &gone, STATE, Some("deleted")).await;
        patch_status(client, &gone, &ready("Unknown")).await;
        await_absent(&nodes(client), &gone, LIMIT).await.unwrap();
        host.end().await;
    }
    let left = nodes(client).list(&Default::default()).await.unwrap().items;
    let kept = left.iter().find(|node| node.name_any().starts_with("small")).unwrap().name_any();
    let parts = ["no more than 3 of the 8 nodes of provider scripted", "--confirm-node-deletions="];
    await_event(client, &kept, "Warning", "NodeDeletionHeld", &parts).await;
}
