//! Nodes that cannot be initialised yet: nothing is written to them, people are told why, and they go on by themselves.

use std::time::Duration;

use ccm_cluster::NodeFixture;
use kube::ResourceExt as _;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::look::{
    FIXTURE_TYPE, STATE, annotate, await_event, await_untainted, create, get, is_tainted, patch, patch_status,
    told_once,
};
use crate::stage::{LIMIT, Stage};

fn node(name: &str) -> NodeFixture {
    NodeFixture::new(name).internal_ip("10.1.0.1")
}

/// Each with what is wrong with it, what people are told, and what puts it right.
#[tokio::test]
async fn a_node_that_cannot_be_initialised_is_left_alone_says_why_and_goes_on_once_that_is_put_right() {
    let stage = Stage::new().await;
    let client = stage.client();
    let host = stage.cloudlycke(&[]);
    host.ready().await;
    let annotations = |name: &str, value: Value| json!({ "metadata": { "annotations": { name: value } } });
    let zone = "cloudlycke.io/zone";
    let cases: [(NodeFixture, &[&str], Value); 6] = [
        // 7.2/26 and 7.1/12.
        (
            node("broken").annotation(STATE, "error"),
            &["simulated cloud API failure", "(retry)", "back-off"],
            annotations(STATE, json!("running")),
        ),
        (
            node("deleted").annotation(STATE, "deleted"),
            &["the cloud has no machine for node deleted", "(absent)"],
            annotations(STATE, Value::Null),
        ),
        (
            node("unknown").annotation(STATE, "paused"),
            &[
                STATE,
                "`running`, `stopped`, `deleted`, `error`",
                "\"paused\"",
                "(invalid)",
                "not retried before the object changes",
            ],
            annotations(STATE, json!("stopped")),
        ),
        (
            node("label").annotation(zone, "no such/zone"),
            &[zone, "\"no such/zone\"", "(invalid)"],
            annotations(zone, json!("a-zone")),
        ),
        (
            node("no-ip").annotation("alpha.kubernetes.io/provided-node-ip", "10.9.9.9,"),
            &["provided-node-ip", "(invalid)"],
            { annotations("alpha.kubernetes.io/provided-node-ip", Value::Null) },
        ),
        (
            node("type").annotation("cloudlycke.io/instance-type", "-"),
            &["cloudlycke.io/instance-type", "(invalid)"],
            annotations("cloudlycke.io/instance-type", json!("t-1")),
        ),
    ];
    let mut before = vec![];
    for (fixture, ..) in &cases {
        before.push(fixture.clone().register(client).await.unwrap());
    }
    // One that is all right in the same batch.
    node("good").register(client).await.unwrap();
    await_untainted(client, "good").await;
    for ((_, told, repair), before) in cases.iter().zip(before) {
        let name = before.name_any();
        await_event(client, &name, "Warning", "SyncNodeFailed", told).await;
        assert_eq!(get(client, &name).await, before, "{name}: nothing is written");
        patch(client, &name, repair).await;
        await_untainted(client, &name).await;
        await_event(client, &name, "Normal", "Synced", &[]).await;
        assert_eq!(told_once(client, &name).await, ["Warning SyncNodeFailed", "Normal Synced"], "{name}");
    }
    assert_eq!(host.count("ccm_nodes_uninitialized", &[]).await.unwrap(), 0.0);
    host.end().await;
}

/// A kubelet that has not looked at its machine yet.
#[tokio::test]
async fn a_node_without_capacity_waits_for_its_kubelet() {
    let stage = Stage::new().await;
    let client = stage.client();
    let host = stage.cloudlycke(&[]);
    let mut early = node("early").build();
    early.status.as_mut().unwrap().capacity = None;
    let before = create(client, &early).await;
    await_event(client, "early", "Warning", "SyncNodeFailed", &["capacity not reported yet", "(retry)"]).await;
    assert_eq!(get(client, "early").await, before);
    patch_status(client, "early", &json!({ "capacity": { "cpu": "4", "memory": "16074656Ki" } })).await;
    let after = await_untainted(client, "early").await;
    assert_eq!(after.labels()["node.kubernetes.io/instance-type"], FIXTURE_TYPE);
    host.end().await;
}

/// Nothing fails: the Node is initialised as if the annotation were not there. A wrong value of one that the provider knows fails nothing either
/// once the Node is initialised.
#[tokio::test]
async fn a_misspelt_annotation_of_a_node_is_told_once_with_the_name_that_was_meant_and_so_is_a_wrong_value_later() {
    const MISSPELT: &str = "cloudlycke.io/instance-stat";
    let stage = Stage::new().await;
    let client = stage.client();
    let host = stage.cloudlycke(&[]);
    node("typo").annotation(MISSPELT, "stopped").register(client).await.unwrap();
    await_untainted(client, "typo").await;
    let said = await_event(client, "typo", "Warning", "NodeAnnotationUnknown", &[]).await;
    let expected = format!(
        "provider cloudlycke does not know the annotation {MISSPELT}, which has no effect; {STATE} would be one"
    );
    assert_eq!(said, expected);
    await_event(client, "typo", "Normal", "Synced", &[]).await;
    host.end().await;

    // Neither does the next process say it again, nor is it said of a change of something else.
    let host = stage.cloudlycke(&["--node-status-update-frequency=300ms"]);
    host.refreshed().await;
    annotate(client, "typo", STATE, Some("stoped")).await;
    let parts = [STATE, "\"stoped\"", "(invalid)", "the Node keeps the addresses that it has"];
    await_event(client, "typo", "Warning", "SyncNodeFailed", &parts).await;
    let failed = host.await_count("ccm_node_refreshes_total", &["outcome=\"failed\""], LIMIT, |count| count >= 3.0);
    failed.await.unwrap();
    host.events_written().await;
    let told = told_once(client, "typo").await;
    assert_eq!(told, ["Warning NodeAnnotationUnknown", "Normal Synced", "Warning SyncNodeFailed"]);
    host.end().await;
}

/// 2.2: a change of the object does not wait for the back-off.
#[tokio::test]
async fn a_node_that_failed_often_goes_on_at_once_when_it_is_put_right() {
    let stage = Stage::new().await;
    let client = stage.client();
    let host = stage.cloudlycke(&[]);
    host.ready().await;
    let failures = "ccm_node_initialization_failures_total";
    let failed = async || host.count(failures, &["reaction=\"absent\""]).await.unwrap();
    // Where the machine is so busy that going on takes as long as the back-off, a longer one tells.
    for often in [11.0, 12.0, 13.0, 14.0] {
        let name = format!("deleted-{often}");
        let before = failed().await;
        node(&name).annotation(STATE, "deleted").register(client).await.unwrap();
        // After n failures the next try is 5 ms * 2^(n-1) away, and by chance up to as much again.
        let seen = host.await_count(failures, &["reaction=\"absent\""], 2 * LIMIT, |now| now - before >= often);
        let seen = seen.await.unwrap() - before;
        let since = Instant::now();
        let next_try = Duration::from_secs_f64(0.005 * 2_f64.powf(seen - 1.0));
        assert!(is_tainted(&annotate(client, &name, STATE, None).await));
        await_untainted(client, &name).await;
        if since.elapsed() < next_try / 2 {
            return host.end().await;
        }
    }
    panic!("each time it took as long as the back-off");
}
