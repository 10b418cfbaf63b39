//! DigitalOcean's component behind the webhook: what it says by itself, and what its cloud says where the operator wants it asked.

use ccm_cluster::NodeFixture;
use ccm_e2e::host::{Host, component};
use ccm_sim_digitalocean::{Act, DigitalOcean, Droplet, Endpoint, Fault, Requests, TOKEN, When};
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::{Authority, Webhook, said, service};
use crate::digitalocean::Cloud;
use crate::service_look::{QUICK, annotated, await_served, services};
use crate::stage::{LIMIT, Stage};

const PROTOCOL: &str = "service.beta.kubernetes.io/do-loadbalancer-protocol";
const TYPE: &str = "service.beta.kubernetes.io/do-loadbalancer-type";
const UDP: [(&str, &str); 2] = [(TYPE, "REGIONAL"), (PROTOCOL, "udp")];

/// A host as the Go manager is configured, by the environment.
pub(super) async fn start(stage: &Stage, cloud: &Cloud, webhook: &Webhook, flags: &[&str]) -> Host {
    let url = cloud.url();
    let environment = [("DO_ACCESS_TOKEN", TOKEN), ("DO_OVERRIDE_URL", url.as_str()), ("REGION", "nyc3")];
    let provider = format!("--provider={}", component("providers/digitalocean.wasm").unwrap().display());
    let own = ["--cloud-provider=digitalocean", "--allow-http", "--allow-loopback", "--cluster-debounce=100ms"];
    let grants = environment.map(|(name, _)| format!("--allow-env={name}"));
    let flags = own.iter().chain(&QUICK).chain(flags).map(|flag| (*flag).to_owned());
    let all = flags.chain(cloud.flags()).chain(grants).chain(webhook.flags()).chain([provider]);
    let host = Host::start_in(stage.kubeconfig(), &environment, all).unwrap();
    host.await_page("/readyz", 200, LIMIT).await.unwrap();
    host
}

fn next(cloud: &DigitalOcean, of: Endpoint, act: Act) {
    drop(cloud.plan(Fault::new(Requests::Of(of), 1, When::Before, act)));
}

/// Trouble of the cloud that is not the Service's.
const TROUBLE: [Act; 5] = [Act::Status(500), Act::Status(401), Act::Status(403), Act::Status(404), Act::TooMany(None)];

#[tokio::test]
async fn do_194_195_207_offline_the_component_judges_and_the_cloud_is_not_asked() {
    let stage = Stage::new().await;
    let cloud = Cloud::calm().await;
    let ca = Authority::new();
    let webhook = Webhook::new(&stage, &ca);
    let mut host = start(&stage, &cloud, &webhook, &[]).await;
    webhook.configure(&ca).await;
    webhook.await_denied(UDP, &format!("denied the request: metadata.annotations[{PROTOCOL}]: ")).await;
    cloud.reset_counters();
    let why = webhook.try_create(annotated(UDP)).await.unwrap_err();
    for part in ["udp", "tcp", "http", "https", "http2"] {
        assert!(why.contains(part), "{why:?} does not say {part:?}");
    }
    webhook.try_create(annotated([(PROTOCOL, "http")])).await.unwrap();
    // One that passes packets through never reads it.
    webhook.try_create(annotated([(TYPE, "REGIONAL_NETWORK"), (PROTOCOL, "udp")])).await.unwrap();
    let node_port = json!({ "metadata": { "annotations": { PROTOCOL: "udp" } }, "spec": { "type": "NodePort" } });
    webhook.try_create(node_port).await.unwrap();
    assert_eq!(cloud.counters().writes, 0);
    assert!(host.terminate().await.unwrap().success());
    cloud.check().unwrap();
    cloud.unsettled("only the webhook is asked: no host serves anything here");
}

/// What the API server says to a Service that is not made, with its warnings.
async fn warned(webhook: &Webhook) -> Vec<String> {
    let path = "/api/v1/namespaces/default/services?dryRun=All";
    let request = http::Request::post(path).header("content-type", "application/json");
    let body = serde_json::to_vec(&service(json!({}))).unwrap();
    let answer = webhook.client.send(request.body(kube::client::Body::from(body)).unwrap()).await.unwrap();
    assert_eq!(answer.status(), 201);
    // One that is cut ends with a letter that is not ASCII.
    let text = |value: &http::HeaderValue| String::from_utf8(value.as_bytes().to_vec()).unwrap();
    answer.headers().get_all("warning").iter().map(text).collect()
}

#[tokio::test]
async fn do_207_285_online_a_new_service_is_judged_by_the_cloud_and_only_its_clear_no_denies() {
    let stage = Stage::new().await;
    let cloud = Cloud::calm().await;
    let ca = Authority::new();
    let webhook = Webhook::new(&stage, &ca);
    let mut host = start(&stage, &cloud, &webhook, &["--webhook-online"]).await;
    webhook.configure(&ca).await;
    webhook.await_denied(UDP, "udp").await;

    cloud.reset_counters();
    assert_eq!(warned(&webhook).await, [""; 0]);
    assert_eq!(cloud.count(Endpoint::CreateBalancer), 1);
    assert_eq!(cloud.balancers(), []);
    let exchanges = cloud.exchanges();
    let judged = exchanges.iter().find(|one| one.endpoint == Some(Endpoint::CreateBalancer)).unwrap();
    assert!(judged.request.contains(r#""validate_only":true"#) && judged.status == Some(204), "{judged:?}");
    for status in [400, 422] {
        next(&cloud, Endpoint::CreateBalancer, Act::Status(status));
        let why = webhook.try_create(json!({})).await.unwrap_err();
        assert!(why.contains("denied the request: spec: invalid load balancer definition: "), "{status}: {why}");
    }
    for act in TROUBLE {
        next(&cloud, Endpoint::CreateBalancer, act);
        let warnings = warned(&webhook).await;
        assert!(warnings.len() == 1 && warnings[0].contains("could not judge"), "{act:?}: {warnings:?}");
    }
    assert_eq!(cloud.balancers(), []);
    assert!(host.terminate().await.unwrap().success());
    cloud.check().unwrap();
    cloud.unsettled("only the webhook is asked: no host serves anything here");
}

#[tokio::test]
async fn do_203_204_208_online_a_change_is_judged_for_its_load_balancer_and_changes_nothing_there() {
    let stage = Stage::new().await;
    let client = stage.client();
    let cloud = Cloud::calm().await;
    cloud.put_droplet(Droplet::new(101, "n101"));
    let node = NodeFixture::new("n101").initialized().provider_id("digitalocean://101");
    node.address("InternalIP", "10.8.0.101").address("ExternalIP", "198.19.0.101").register(client).await.unwrap();
    let ca = Authority::new();
    let webhook = Webhook::new(&stage, &ca);
    let mut host = start(&stage, &cloud, &webhook, &["--webhook-online"]).await;
    services(client).create(&PostParams::default(), &service(json!({}))).await.unwrap();
    await_served(client, "web").await;
    let made = cloud.balancers();
    webhook.configure(&ca).await;
    webhook.await_denied(UDP, "udp").await;

    cloud.reset_counters();
    let how = PatchParams { dry_run: true, ..PatchParams::default() };
    let change = async |patch: Value| said(services(client).patch("web", &how, &Patch::Merge(&patch)).await);
    let port = json!({ "spec": { "ports": [{ "port": 81 }] } });
    change(port.clone()).await.unwrap();
    assert_eq!((cloud.count(Endpoint::UpdateBalancer), cloud.count(Endpoint::CreateBalancer)), (1, 0));
    let judged = cloud.count(Endpoint::UpdateBalancer);
    change(json!({ "metadata": { "labels": { "a": "b" } } })).await.unwrap();
    assert_eq!(cloud.count(Endpoint::UpdateBalancer), judged, "nothing changes for the cloud");
    assert!(change(annotated(UDP)).await.unwrap_err().contains("udp"));
    next(&cloud, Endpoint::UpdateBalancer, Act::Status(400));
    let why = change(port.clone()).await.unwrap_err();
    assert!(why.contains("invalid load balancer definition: "), "{why}");
    for act in TROUBLE {
        next(&cloud, Endpoint::UpdateBalancer, act);
        change(port.clone()).await.unwrap_or_else(|why| panic!("{act:?}: {why}"));
    }
    assert_eq!(cloud.balancers(), made, "nothing was changed");
    assert!(host.terminate().await.unwrap().success());
    cloud.check().unwrap();
    cloud.unsettled("only the webhook is asked: no host serves anything here");
}
