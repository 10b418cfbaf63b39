//! Droplets that the cloud refuses as members of a load balancer.

use std::time::Duration;

use ccm_sim_digitalocean::{DigitalOcean, Droplet, Endpoint};
use kube::api::DeleteParams;
use serde_json::json;

use super::{Cloud, await_balanced, await_members, initialised, is_served, members, start};
use crate::look::{await_event, nodes};
use crate::service_look::{await_reason, await_reason_with, await_service, change, ips, serve, the};
use crate::stage::{LIMIT, Stage};

/// So that no Node goes by itself.
const HELD: [&str; 2] = ["--node-deletion-percent=0", "--node-deletion-min-budget=0"];

/// Once it froze every load balancer for as long as the Node was there: a write with one such droplet is refused as a whole.
#[tokio::test]
async fn a_node_whose_droplet_was_destroyed_keeps_nothing_from_the_others() {
    let stage = Stage::new().await;
    let client = stage.client();
    let cloud = Cloud::start().await;
    members(client, &cloud, &[101, 102]).await;
    let host = start(&stage, &cloud, &[], &HELD);
    serve(client, "web", json!({})).await;
    let (service, balancer) = await_balanced(client, &cloud, "web").await;
    assert_eq!(balancer.spec.droplet_ids, [101, 102]);

    assert!(cloud.remove_droplet(102));
    members(client, &cloud, &[103]).await;
    await_members(&cloud, &balancer.id, &[101, 103]).await;
    await_reason_with(client, "web", "CloudPending", &["n102", "do not exist"]).await;
    await_event(client, "web", "Warning", "NodesRefused", &["n102", "kubectl delete node"]).await;
    change(client, "web", &json!({ "spec": { "ports": [{ "name": "a", "port": 80 }, { "name": "b", "port": 81 }] } }))
        .await;
    let has_both = |cloud: &DigitalOcean| cloud.balancers()[0].spec.forwarding_rules.len() == 2;
    cloud.until(LIMIT, has_both).await.unwrap();
    assert_eq!(cloud.balancers()[0].spec.droplet_ids, [101, 103]);
    assert_eq!(ips(&the(client, "web").await), ips(&service), "traffic goes on");
    serve(client, "api", json!({})).await;
    let (_, of_api) = await_balanced(client, &cloud, "api").await;
    assert_eq!(of_api.spec.droplet_ids, [101, 103]);
    nodes(client).delete("n101", &DeleteParams::default()).await.unwrap();
    for id in [&balancer.id, &of_api.id] {
        await_members(&cloud, id, &[103]).await;
    }

    nodes(client).delete("n102", &DeleteParams::default()).await.unwrap();
    await_service(client, "web", is_served).await;
    cloud.settled(&stage).await;
    host.end().await;
    cloud.check().unwrap();
}

#[tokio::test]
async fn a_node_of_another_vpc_is_left_out_and_named() {
    let stage = Stage::new().await;
    let client = stage.client();
    let cloud = Cloud::start().await;
    members(client, &cloud, &[201]).await;
    let host = start(&stage, &cloud, &[], &HELD);
    serve(client, "web", json!({})).await;
    let (_, balancer) = await_balanced(client, &cloud, "web").await;
    let vpc = Some("5a4981aa-9653-4bd1-bef5-d6bff52042e4".to_owned());
    cloud.put_droplet(Droplet { vpc, ..Droplet::new(202, "n202") });
    initialised(202, "n202").register(client).await.unwrap();
    await_event(client, "web", "Warning", "NodesRefused", &["n202", "not in its VPC"]).await;
    members(client, &cloud, &[203]).await;
    await_members(&cloud, &balancer.id, &[201, 203]).await;

    nodes(client).delete("n202", &DeleteParams::default()).await.unwrap();
    await_service(client, "web", is_served).await;
    cloud.settled(&stage).await;
    host.end().await;
    cloud.check().unwrap();
}

/// Once it waited for the next comparison, an hour later: what was refused was remembered beyond the look that gave the address.
#[tokio::test]
async fn a_droplet_that_appears_while_a_load_balancer_is_made_comes_with_the_address() {
    let stage = Stage::new().await;
    let client = stage.client();
    let cloud = Cloud::calm().await;
    cloud.set(|settings| settings.provisioning = Duration::from_secs(1_000));
    members(client, &cloud, &[101, 102]).await;
    assert!(cloud.remove_droplet(102));
    let host = start(&stage, &cloud, &[], &HELD);
    serve(client, "web", json!({})).await;
    await_reason(client, "web", "CloudPending").await;
    assert_eq!(cloud.balancers()[0].spec.droplet_ids, [101]);
    await_event(client, "web", "Warning", "NodesRefused", &["the new load balancer", "n102"]).await;

    cloud.put_droplet(Droplet::new(102, "n102"));
    cloud.advance(Duration::from_secs(1_000));
    let (_, balancer) = await_balanced(client, &cloud, "web").await;
    assert_eq!(balancer.spec.droplet_ids, [101, 102]);
    assert_eq!((cloud.done(Endpoint::CreateBalancer), cloud.done(Endpoint::UpdateBalancer)), (1, 1));
    cloud.settled(&stage).await;
    host.end().await;
    cloud.check().unwrap();
}
