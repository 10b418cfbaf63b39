//! Nodes and their droplets.

use ccm_cluster::{NodeFixture, await_absent, await_node};
use ccm_e2e::alerts;
use ccm_sim_digitalocean::{DigitalOcean, Droplet, DropletStatus, Endpoint, TOKEN};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;

use super::{Cloud, initialised, provider_id, start};
use crate::look::{PAIRS, addresses, await_event, await_untainted, get, is_tainted, nodes};
use crate::stage::{Actor, LIMIT, Stage};

const SHUTDOWN: &str = "node.cloudprovider.kubernetes.io/shutdown";
/// Without these a Node would have to be a minute old.
const QUICK: [&str; 4] = [
    "--node-deletion-min-age=0",
    "--node-deletion-second-look=1s",
    "--node-monitor-period=1s",
    "--node-monitor-max-period=5s",
];

fn id_of(node: &Node) -> Option<&str> {
    node.spec.as_ref()?.provider_id.as_deref()
}

fn is_shut_down(node: &Node) -> bool {
    node.spec.iter().flat_map(|spec| spec.taints.iter().flatten()).any(|taint| taint.key == SHUTDOWN)
}

#[tokio::test]
async fn do_255_a_node_gets_what_its_droplet_has_by_name_or_by_provider_id() {
    let stage = Stage::new().await;
    let client = stage.client();
    let cloud = Cloud::start().await;
    cloud.put_droplet(Droplet::new(101, "plain"));
    let six = "2604:a880::101".parse().unwrap();
    cloud.put_droplet(Droplet { public_v6: vec![six], region: "fra1".to_owned(), ..Droplet::new(102, "other-name") });
    let large = Droplet { public_v4: vec![], size: "g-8vcpu-32gb".to_owned(), ..Droplet::new(103, "private") };
    cloud.put_droplet(large);
    cloud.put_droplet(Droplet { gpu: true, ..Droplet::new(104, "gpu") });
    let host = start(&stage, &cloud, &[("REGION", "nyc3")], &[]);
    NodeFixture::new("plain").register(client).await.unwrap();
    NodeFixture::new("called").provider_id(&provider_id(102)).register(client).await.unwrap();
    NodeFixture::new("private").register(client).await.unwrap();
    NodeFixture::new("gpu").register(client).await.unwrap();

    let size = "s-2vcpu-4gb";
    for (name, id, size, region, wanted) in [
        ("plain", 101, size, "nyc3", &["InternalIP 10.8.0.101", "ExternalIP 198.19.0.101"][..]),
        (
            "called",
            102,
            size,
            "fra1",
            &["InternalIP 10.8.0.102", "ExternalIP 198.19.0.102", "ExternalIP 2604:a880::101"],
        ),
        ("private", 103, "g-8vcpu-32gb", "nyc3", &["InternalIP 10.8.0.103"]),
        ("gpu", 104, size, "nyc3", &["InternalIP 10.8.0.104", "ExternalIP 198.19.0.104"]),
    ] {
        let node = await_untainted(client, name).await;
        assert_eq!(id_of(&node), Some(provider_id(id).as_str()), "{name}");
        let droplet = if name == "called" { "other-name" } else { name };
        let all: Vec<String> =
            [format!("Hostname {droplet}")].into_iter().chain(wanted.iter().map(|ip| (*ip).to_owned())).collect();
        assert_eq!(addresses(&node), all, "{name}");
        // A droplet is in a region and in no zone.
        let pairs = PAIRS.map(|(old, new)| [old, new].map(|label| node.labels().get(label).map(String::as_str)));
        assert_eq!(pairs, [[Some(size); 2], [None; 2], [Some(region); 2]], "{name}");
    }
    cloud.settled(&stage).await;
    host.end().await;
    cloud.check().unwrap();
}

#[tokio::test]
async fn a_node_whose_name_several_droplets_have_waits_and_is_told_which() {
    let stage = Stage::new().await;
    let client = stage.client();
    let cloud = Cloud::start().await;
    cloud.put_droplet(Droplet::new(201, "twin"));
    cloud.put_droplet(Droplet::new(202, "twin"));
    let host = start(&stage, &cloud, &[], &[]);
    NodeFixture::new("twin").register(client).await.unwrap();
    let parts = ["droplets 201, 202 have the name \"twin\"", "--provider-id"];
    await_event(client, "twin", "Warning", "SyncNodeFailed", &parts).await;
    assert!(is_tainted(&get(client, "twin").await));
    cloud.waits(&stage, "Node twin", "droplets 201, 202 have the name").await;
    host.end().await;
    cloud.check().unwrap();
}

/// How often the cloud said by ID that there is no such droplet; a gateway says 404 as well.
fn denials(cloud: &DigitalOcean, id: u64) -> usize {
    let uri = format!("/v2/droplets/{id}");
    let exchanges = cloud.exchanges().into_iter();
    let said = exchanges.filter(|exchange| exchange.uri == uri && exchange.response.contains("not_found"));
    said.filter(|exchange| exchange.status == Some(404)).count()
}

async fn await_looks(host: &Actor, answer: &str, count: f64) {
    let label = format!("answer={answer:?}");
    host.await_count("ccm_node_lifecycle_looks_total", &[&label], LIMIT, |looks| looks >= count).await.unwrap();
}

#[tokio::test]
async fn a_node_goes_only_when_the_cloud_has_said_by_id_that_its_droplet_is_gone() {
    let stage = Stage::new().await;
    let client = stage.client();
    let cloud = Cloud::start().await;
    // So many that a listing is asked for, which shows neither the one with the GPU nor the one that is gone.
    for id in 301..=306 {
        let name = format!("n{id}");
        cloud.put_droplet(Droplet { gpu: id == 302, ..Droplet::new(id, &name) });
        initialised(id, &name).not_ready().register(client).await.unwrap();
    }
    let host = start(&stage, &cloud, &[], &QUICK);
    await_looks(&host, "running", 6.0).await;
    assert!(cloud.remove_droplet(303));
    await_absent(&nodes(client), "n303", LIMIT).await.unwrap();
    assert!(denials(&cloud, 303) >= 2, "asked twice, by ID");
    let told = await_event(client, "n303", "Normal", "DeletingNode", &[]).await;
    assert_eq!(told, "Deleting node n303 because it does not exist in the cloud provider");
    let mut left: Vec<String> =
        nodes(client).list(&Default::default()).await.unwrap().iter().map(|node| node.name_any()).collect();
    left.sort();
    assert_eq!(left, ["n301", "n302", "n304", "n305", "n306"]);
    cloud.settled(&stage).await;
    host.end().await;
    cloud.check().unwrap();
}

#[tokio::test]
async fn a_token_that_is_not_let_in_proves_nothing_about_a_droplet_that_is_gone() {
    let stage = Stage::new().await;
    let client = stage.client();
    let cloud = Cloud::start().await;
    cloud.put_droplet(Droplet::new(351, "n351"));
    let before = initialised(351, "n351").not_ready().register(client).await.unwrap();
    let host = start(&stage, &cloud, &[], &QUICK);
    await_looks(&host, "running", 1.0).await;
    let allowed = alerts::scrape(&host).await.unwrap();
    assert!(cloud.revoke(TOKEN) && cloud.remove_droplet(351));
    await_looks(&host, "unauthorized", 1.0).await;
    let refused = alerts::scrape(&host).await.unwrap();
    alerts::fires("WasmCCMCredentialsRefused", &[[&allowed], [&refused]]).await.unwrap();
    assert_eq!(get(client, "n351").await, before);
    assert_eq!(denials(&cloud, 351), 0);
    cloud.unsettled("its token is revoked: a plan ends at the gate");
    host.end().await;
    cloud.check().unwrap();
}

#[tokio::test]
async fn a_droplet_that_is_switched_off_keeps_pods_away_until_it_runs_again() {
    let stage = Stage::new().await;
    let client = stage.client();
    let cloud = Cloud::start().await;
    let droplet = |status| Droplet { status, ..Droplet::new(401, "n401") };
    cloud.put_droplet(droplet(DropletStatus::Off));
    initialised(401, "n401").not_ready().register(client).await.unwrap();
    let host = start(&stage, &cloud, &[], &QUICK);
    await_node(client, "n401", LIMIT, is_shut_down).await.unwrap();
    cloud.put_droplet(droplet(DropletStatus::Active));
    await_node(client, "n401", LIMIT, |node| !is_shut_down(node)).await.unwrap();
    assert_eq!(cloud.count(Endpoint::Droplets) + cloud.count(Endpoint::Droplet), cloud.counters().reads);
    cloud.settled(&stage).await;
    host.end().await;
    cloud.check().unwrap();
}
