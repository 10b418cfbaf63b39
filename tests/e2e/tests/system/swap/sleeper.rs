//! A component that behaves as long as it is watched, and then not.

use ccm_cluster::NodeFixture;
use ccm_e2e::host::until;
use kube::ResourceExt as _;
use kube::api::ListParams;

use super::{QUICK, await_status, component, file, replace, serves, version};
use crate::look::{await_event, nodes, patch_status};
use crate::stage::{LIMIT, Stage};

const RUNNING: usize = 8;
const LATE: usize = 10;

/// Nobody can be asked any more whether it is right: it was proven. What it may cost is the budget, whatever it says, until somebody puts
/// another one in its place.
#[tokio::test]
async fn a_component_that_behaves_for_its_probation_and_then_not_costs_no_more_nodes_than_the_budget() {
    let stage = Stage::new().await;
    let client = stage.client();
    let (path, flag) = file(&stage, &version("1"));
    let more = [
        "--node-deletion-min-age=0s",
        "--node-deletion-second-look=1s",
        "--node-monitor-period=200ms",
        "--node-monitor-max-period=2s",
    ];
    let host = stage.start([flag.as_str()].into_iter().chain(QUICK).chain(more));
    host.ready().await;
    let ready =
        serde_json::json!({ "conditions": [{ "type": "Ready", "status": "True", "reason": "x", "message": "" }] });
    for number in 0..RUNNING {
        let name = format!("running-{number}");
        serves(client, &name, "1").await;
        patch_status(client, &name, &ready).await;
    }

    // Everybody who is there for its probation is found by it.
    replace(&path, &component(&[("version", "2"), ("behaviour", "absent"), ("when", "late-*")]));
    await_status(&host, "version 2 serves", |status| status["serving"]["version"] == "2").await;
    serves(client, "first-of-2", "2").await;
    patch_status(client, "first-of-2", &ready).await;
    await_status(&host, "version 2 is proven", |status| status["phase"] == "proven").await;

    for number in 0..LATE {
        let name = format!("late-{number}");
        let fixture = NodeFixture::new(&name).initialized().not_ready().provider_id(&format!("cloudlycke://{name}"));
        fixture.register(client).await.unwrap();
    }
    // The minimum of the budget: a tenth of the Nodes is less.
    let held = (LATE - 3) as f64;
    host.await_count("ccm_node_lifecycle_held_nodes", &[], LIMIT, |now| now == held).await.unwrap();
    let left = nodes(client).list(&ListParams::default()).await.unwrap().items;
    let late: Vec<String> = left.iter().map(|node| node.name_any()).filter(|name| name.starts_with("late-")).collect();
    assert_eq!((left.len(), late.len()), (RUNNING + 1 + LATE - 3, LATE - 3), "{late:?}");
    for name in &late {
        await_event(client, name, "Warning", "NodeDeletionHeld", &["no more than 3 of the", "provider cloudlycke"])
            .await;
    }

    // Another one in its place finds them: nobody waits for the budget to be free again.
    replace(&path, &version("3"));
    await_status(&host, "version 3 serves", |status| status["serving"]["version"] == "3").await;
    until(LIMIT, async || Ok(host.count("ccm_node_lifecycle_held_nodes", &[]).await? == 0.0)).await.unwrap();
    let left = nodes(client).list(&ListParams::default()).await.unwrap().items.len();
    assert_eq!(left, RUNNING + 1 + LATE - 3);
    host.end().await;
}
