//! A component that would not find what exists is refused before it serves, and an outage is no reason to refuse one.

use std::time::Duration;

use ccm_e2e::balancer_cloud::{Act, BalancerCloud, Fault, Kind, Requests, When};
use ccm_e2e::host::component as file;
use ccm_e2e::successor::renamed_balancer;
use kube::ResourceExt as _;
use serde_json::json;

use super::peers::forget_what_replicas_share;
use super::{MAP, QUICK, SOURCE, await_status, await_version, component, put, serves, version};
use crate::look::await_event;
use crate::service_look::{self, assert_one_each, cloud, serve_whole, the, two_nodes};
use crate::stage::{Actor, Stage};

/// The provider of the cloud that counts, in other bytes.
pub(super) fn another_build() -> Vec<u8> {
    rebuilt(std::fs::read(file("guests/balancer.wasm").unwrap()).unwrap())
}

/// A component in other bytes: with a custom section that nobody reads.
pub(super) fn rebuilt(mut component: Vec<u8>) -> Vec<u8> {
    component.extend([0, 2, 1, b'x']);
    component
}

/// Two Nodes, a Service with its load balancer, and a host whose provider comes from the ConfigMap.
pub(super) async fn balanced(stage: &Stage, flags: &[&str]) -> (BalancerCloud, Actor) {
    let client = stage.client();
    let cloud = cloud(Duration::ZERO).await;
    two_nodes(client).await;
    put(client, std::fs::read(file("guests/balancer.wasm").unwrap()).unwrap()).await;
    let host = stage.start(self::flags(&cloud, flags));
    host.ready().await;
    serve_whole(client, "web", json!({})).await;
    await_status(&host, "proven", |status| status["phase"] == "proven").await;
    (cloud, host)
}

/// Of a host whose provider comes from the ConfigMap and makes load balancers in this cloud.
fn flags(cloud: &BalancerCloud, more: &[&str]) -> Vec<String> {
    let flags = more.iter().map(|flag| (*flag).to_owned()).chain([format!("--provider={SOURCE}")]);
    let flags = flags.chain(cloud.flags()).chain(["--limit=compare-pause=100ms".to_owned()]);
    flags.chain(QUICK.map(str::to_owned)).chain(service_look::QUICK.map(str::to_owned)).collect()
}

#[tokio::test]
async fn a_component_that_calls_everything_otherwise_is_refused_and_nothing_is_made_a_second_time() {
    let stage = Stage::new().await;
    let client = stage.client();
    let (cloud, host) = balanced(&stage, &[]).await;
    let (writes, served) = (cloud.write_requests(), the(client, "web").await);
    put(client, renamed_balancer().unwrap()).await;
    let says = ["step compare of the gate", "Service default/web: it finds no load balancer", "continues to serve"];
    await_event(client, MAP, "Warning", "ProviderRejected", &says).await;
    let status = await_status(&host, "refused", |status| status["refused"]["step"] == "compare").await;
    assert_eq!((&status["generation"], &status["phase"]), (&json!(1), &json!("proven")), "{status:#}");
    let reason = status["refused"]["reason"].as_str().unwrap();
    assert!(reason.ends_with("if that is right, use --allow-provider-change"), "{reason}");
    let rejected = ["result=\"rejected\"", "step=\"compare\""];
    assert_eq!(host.count("ccm_provider_loads_total", &rejected).await.unwrap(), 1.0);
    assert_eq!((cloud.write_requests(), the(client, "web").await), (writes, served), "something was written");
    // The one before works on.
    serve_whole(client, "later", json!({})).await;
    assert_one_each(client, &cloud).await;

    let writes = cloud.writes().len();
    put(client, another_build()).await;
    // The page says a moment later that nothing is refused any more.
    await_status(&host, "taken", |status| status["generation"] == 2 && status["refused"].is_null()).await;
    serve_whole(client, "last", json!({})).await;
    let last = the(client, "last").await.uid().unwrap();
    let later: Vec<_> = cloud.writes().into_iter().skip(writes).map(|write| write.owner).collect();
    assert_eq!(later, [last]);
    host.end().await;
}

#[tokio::test]
async fn a_component_that_does_not_find_a_machine_is_refused_with_its_node() {
    let stage = Stage::new().await;
    let client = stage.client();
    put(client, version("1")).await;
    let flags = [format!("--provider={SOURCE}"), "--limit=compare-pause=100ms".to_owned()];
    let host = stage.start(flags.iter().map(String::as_str).chain(QUICK));
    host.ready().await;
    for node in ["n1", "n2"] {
        serves(client, node, "1").await;
    }
    let cases = [
        ("absent", "Node n1: it says that the machine does not exist"),
        ("unknown", "Node n2: it fails where the last good one answers: the machine cannot be told on purpose"),
        ("trap", "Node n1: it fails where the last good one answers: "),
        ("too-few", "it gave 1 findings for 2 nodes"),
    ];
    for (behaviour, says) in cases {
        put(client, component(&[("version", "2"), ("behaviour", behaviour)])).await;
        let says = ["step compare of the gate", says, "cloudlycke 1 (sha256:"];
        await_event(client, MAP, "Warning", "ProviderRejected", &says).await;
    }
    put(client, version("3")).await;
    await_version(&host, "3").await;
    serves(client, "n3", "3").await;
    assert_eq!(host.count("ccm_provider_loads_total", &["result=\"rolled-back\""]).await.unwrap(), 0.0);
    host.end().await;
}

#[tokio::test]
async fn while_the_cloud_does_not_answer_nothing_is_compared_and_the_component_is_tried_again() {
    let stage = Stage::new().await;
    let client = stage.client();
    let (cloud, host) = balanced(&stage, &["--limit=attempts=1"]).await;
    // The first is the online check; then both list their load balancers.
    for nth in [2, 3] {
        drop(cloud.plan(Fault { of: Requests::Of(Kind::List), nth, when: When::Before, act: Act::Answer(503) }));
    }
    put(client, another_build()).await;
    let says = ["step compare of the gate", "neither answers about any of the Services", "503"];
    await_event(client, MAP, "Warning", "ProviderRejected", &says).await;
    await_status(&host, "taken", |status| status["generation"] == 2 && status["refused"].is_null()).await;
    assert_one_each(client, &cloud).await;
    host.end().await;
}

/// Whoever knows that everything is to be found otherwise says so.
#[tokio::test]
async fn an_operator_can_take_a_component_that_finds_less() {
    let stage = Stage::new().await;
    let client = stage.client();
    let (_cloud, host) = balanced(&stage, &["--allow-provider-change"]).await;
    put(client, renamed_balancer().unwrap()).await;
    await_status(&host, "taken", |status| status["generation"] == 2).await;
    host.end().await;
}

/// A host that starts beside such a component once made every load balancer a second time: it had no other to compare it with.
#[tokio::test]
async fn a_first_component_that_finds_none_of_the_load_balancers_is_refused_and_makes_none_again() {
    let stage = Stage::new().await;
    let client = stage.client();
    let (cloud, host) = balanced(&stage, &[]).await;
    for name in ["shop", "blog"] {
        serve_whole(client, name, json!({})).await;
    }
    host.end().await;
    let writes = cloud.writes().len();
    put(client, renamed_balancer().unwrap()).await;
    // As long as the replicas share how load balancers are named, nothing has to be looked for.
    let host = stage.start(flags(&cloud, &[]));
    let says = ["step compare of the gate", "Service that is to come: it calls its load balancer ", "nothing serves"];
    await_event(client, MAP, "Warning", "ProviderRejected", &says).await;
    host.end().await;

    forget_what_replicas_share(client).await;
    let host = stage.start(flags(&cloud, &[]));
    let says = [
        "step compare of the gate",
        "it finds none of the load balancers of 3 Services whose records name them: Service default/blog: ",
        "check the account, project and region of its configuration; if that is right, use --allow-provider-change",
        "nothing serves",
    ];
    await_event(client, MAP, "Warning", "ProviderRejected", &says).await;
    assert_eq!(host.page("/readyz").await.unwrap().0, 503);
    // Whoever puts the right one back need not restart the host.
    put(client, another_build()).await;
    host.ready().await;
    serve_whole(client, "later", json!({})).await;
    let later = the(client, "later").await.uid().unwrap();
    let made: Vec<_> = cloud.writes().into_iter().skip(writes).map(|write| write.owner).collect();
    assert_eq!(made, [later]);
    assert_one_each(client, &cloud).await;
    host.end().await;
}

#[tokio::test]
async fn a_first_component_is_asked_for_the_machines_of_nodes_and_its_host_warns_of_those_that_it_does_not_find() {
    let stage = Stage::new().await;
    let client = stage.client();
    put(client, version("1")).await;
    let source = format!("--provider={SOURCE}");
    let host = stage.start([source.as_str()].into_iter().chain(QUICK));
    for node in ["n1", "n2", "n3"] {
        serves(client, node, "1").await;
    }
    host.end().await;

    put(client, component(&[("version", "2"), ("behaviour", "absent")])).await;
    let host = stage.start([source.as_str()].into_iter().chain(QUICK));
    let says = ["it finds none of the machines of 3 Nodes whose kubelets report: Node n1: ", "nothing serves"];
    await_event(client, MAP, "Warning", "ProviderRejected", &says).await;
    put(client, component(&[("version", "3"), ("behaviour", "absent"), ("when", "n3*")])).await;
    let says = [
        "cloudlycke 3 (sha256:",
        "does not find the machine or load balancer of 1 of the cluster's objects (3 of 3 Nodes and 0 of 0 Services were compared): Node n3: ",
    ];
    await_event(client, MAP, "Warning", "ProviderFindsLess", &says).await;
    host.end().await;

    // A cluster that was restored elsewhere.
    put(client, component(&[("version", "4"), ("behaviour", "absent"), ("when", "n*")])).await;
    let host = stage.start([source.as_str(), "--allow-provider-change"].into_iter().chain(QUICK));
    await_version(&host, "4").await;
    host.end().await;
}
