//! Two machines go: one is switched off, one is deleted.

use std::time::Duration;

use anyhow::{Context as _, Result};
use ccm_cluster::{await_absent, await_all, await_node};
use k8s_openapi::api::core::v1::{Event, Node};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::runtime::watcher;
use kube::{Api, Client};
use serde_json::json;
use tokio::time::Instant;

use crate::{LIMIT, picture};

pub(crate) const SHUTDOWN_TAINT: &str = "node.cloudprovider.kubernetes.io/shutdown";

/// Switches the machine off. Returns how long it took until the scheduler was told.
pub(crate) async fn stop(client: &Client, name: &str) -> Result<Duration> {
    fall_silent(client, name).await?;
    let start = Instant::now();
    cloud_says(client, name, "stopped").await?;
    await_node(client, name, LIMIT, |node| picture::has_taint(node, SHUTDOWN_TAINT)).await?;
    Ok(start.elapsed())
}

/// Deletes the machine. Returns how long it took until its Node was gone, and what the Event says.
pub(crate) async fn delete(client: &Client, name: &str) -> Result<(Duration, String)> {
    fall_silent(client, name).await?;
    let start = Instant::now();
    cloud_says(client, name, "deleted").await?;
    await_absent(&Api::<Node>::all(client.clone()), name, LIMIT).await?;
    let gone = start.elapsed();
    let api: Api<Event> = Api::default_namespaced(client.clone());
    let selection = watcher::Config::default().fields("reason=DeletingNode");
    let events = await_all(&api, selection, LIMIT, |events| !events.is_empty()).await?;
    let event = events.into_values().next().context("an Event was awaited")?;
    Ok((gone, event.message.unwrap_or_default()))
}

/// The kubelet, which kwok plays, is no more: the Node is not ready.
async fn fall_silent(client: &Client, name: &str) -> Result<()> {
    let api: Api<Node> = Api::all(client.clone());
    let params = PatchParams::default();
    api.patch(name, &params, &Patch::Merge(json!({"metadata": {"annotations": {"kwok.x-k8s.io/node": null}}}))).await?;
    let now = Timestamp::now().to_string();
    let ready = json!({
        "type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown",
        "message": "Kubelet stopped posting node status.", "lastTransitionTime": now, "lastHeartbeatTime": now,
    });
    // kwok may have had one more heartbeat under way.
    loop {
        api.patch_status(name, &params, &Patch::Strategic(json!({"status": {"conditions": [ready]}}))).await?;
        let silent = await_node(client, name, Duration::from_millis(500), picture::is_ready).await.is_err();
        if silent {
            return Ok(());
        }
    }
}

/// What the made up cloud says about the machine from now on.
async fn cloud_says(client: &Client, name: &str, state: &str) -> Result<()> {
    let patch = json!({"metadata": {"annotations": {"cloudlycke.io/instance-state": state}}});
    Api::<Node>::all(client.clone()).patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}
