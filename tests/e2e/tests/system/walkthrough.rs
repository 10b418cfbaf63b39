//! The walk-through of the Cloudlycke reference, section 4, about Services. A-13
//! needs pods that answer.

use ccm_cluster::{NodeFixture, await_absent, register_nodes};
use ccm_e2e::host::until;
use jiff::Timestamp;
use kube::ResourceExt as _;
use serde_json::json;

use crate::look::await_event;
use crate::look::nodes;
use crate::service_look::{
    annotated, await_service, change, delete, has_finalizer, ips, is_bare, is_served, readiness, recorded, serve,
    services, the, told,
};
use crate::stage::{Actor, LIMIT, Stage};

const BACKOFF: [&str; 2] = ["--service-min-backoff=400ms", "--service-max-backoff=10s"];
const ADDRESS: &str = "cloudlycke.io/lb-address";
const FAIL: &str = "cloudlycke.io/lb-fail";

fn annotation(name: &str, value: Option<&str>) -> serde_json::Value {
    json!({ "metadata": { "annotations": { name: value } } })
}

fn is_pending(service: &k8s_openapi::api::core::v1::Service) -> bool {
    ips(service).is_empty() && !has_finalizer(service) && recorded(service).is_none()
}

/// When the provider said something about a Service, by the log.
fn said(host: &Actor, service: &str, method: &str, parts: &[&str]) -> Vec<Timestamp> {
    let is_about = |line: &serde_json::Value| {
        let text = line.to_string();
        [service, method].iter().chain(parts).all(|part| text.contains(part))
    };
    let lines = host.log();
    let lines = lines.iter().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    lines.filter(is_about).map(|line| line["timestamp"].as_str().unwrap().parse().unwrap()).collect()
}

#[tokio::test]
async fn services_before_with_and_after_their_cloud_controller_manager() {
    let stage = Stage::new().await;
    let client = stage.client();
    let fixtures = ["n1", "n2"].map(|name| NodeFixture::new(name).initialized().provider_id(&format!("kind://{name}")));
    register_nodes(client, fixtures).await.unwrap();

    // nobody is there.
    let web = serve(client, "web", json!({})).await;
    assert!(is_pending(&web), "A-06: {web:?}");

    // an address, Events, finalizer.
    let host = stage.cloudlycke(&BACKOFF);
    let web = await_service(client, "web", is_served).await;
    let first = ips(&web).remove(0);
    assert!(first.starts_with("203.0.113."), "A-12: {first}");
    await_event(client, "web", "Normal", "EnsuredLoadBalancer", &[]).await;
    let events =
        ["Normal EnsuringLoadBalancer: Ensuring load balancer", "Normal EnsuredLoadBalancer: Ensured load balancer"];
    assert_eq!(told(client, "web").await, events, "A-12");

    // another one has another address, and cannot have the first one's.
    serve(client, "other", json!({})).await;
    let other = await_service(client, "other", is_served).await;
    assert_ne!(ips(&other), ips(&web), "A-14");
    serve(client, "greedy", annotated([(ADDRESS, &first)])).await;
    let in_use = format!("address {first} is in use by default/web");
    await_event(client, "greedy", "Warning", "SyncLoadBalancerFailed", &["in use by default/web", &in_use]).await;
    assert_eq!(ips(&the(client, "greedy").await), [""; 0], "A-14");
    change(client, "greedy", &annotation(ADDRESS, None)).await;
    let greedy = await_service(client, "greedy", is_served).await;
    assert!(![&web, &other].iter().any(|one| ips(one) == ips(&greedy)), "A-14");

    // the cloud refuses; tries are further and further apart; it recovers.
    serve(client, "unlucky", annotated([(FAIL, "quota exceeded")])).await;
    await_event(client, "unlucky", "Warning", "SyncLoadBalancerFailed", &["quota exceeded", "back-off"]).await;
    let tries = || said(&host, "default/unlucky", "load-balancers.ensure", &["quota exceeded"]);
    ccm_cluster::poll_until("three tries", LIMIT, || tries().len() >= 3).await.unwrap();
    let at = tries();
    let gaps: Vec<i128> = at.windows(2).map(|two| two[1].duration_since(two[0]).as_millis()).collect();
    assert!(gaps[0] >= 390 && gaps[1] >= 790, "A-15: {gaps:?} ms");
    change(client, "unlucky", &annotation(FAIL, None)).await;
    await_service(client, "unlucky", is_served).await;
    let warnings: Vec<String> =
        told(client, "unlucky").await.into_iter().filter(|line| line.starts_with("Warning")).collect();
    assert_eq!(warnings.len(), 1, "A-15: said once: {warnings:?}");

    // a Node is kept out of load balancers, and let in again.
    let label = |value: Option<&str>| json!({ "metadata": { "labels": { "node.kubernetes.io/exclude-from-external-load-balancers": value } } });
    for (value, what) in [(Some("true"), "members removed: n2"), (None, "members added: n2")] {
        let before = updated(client, "web").await;
        let patch = kube::api::Patch::Merge(label(value));
        nodes(client).patch("n2", &Default::default(), &patch).await.unwrap();
        host.await_log(LIMIT, &["load-balancers.update-backends", "default/web", what]).await.unwrap();
        let told = until(LIMIT, async || Ok(updated(client, "web").await > before)).await;
        told.unwrap_or_else(|error| panic!("A-16: no Event for {what}: {error:#}"));
    }
    assert_eq!(ips(&the(client, "web").await), ips(&web), "A-16: nothing changes its address");

    // another type.
    change(client, "other", &json!({ "spec": { "type": "ClusterIP" } })).await;
    await_service(client, "other", is_bare).await;
    await_event(client, "other", "Normal", "DeletedLoadBalancer", &[]).await;
    serve(client, "heir", annotated([(ADDRESS, &ips(&other)[0])])).await;
    let heir = await_service(client, "heir", is_served).await;
    assert_eq!(ips(&heir), ips(&other), "A-17: the address is free");
    delete(client, "greedy").await;
    await_absent(&services(client), "greedy", LIMIT).await.unwrap_or_else(|error| panic!("A-17: {error:#}"));

    // another process, which knows nothing but what the Services say.
    let names = ["web", "heir", "unlucky"];
    host.events_written().await;
    host.end().await;
    let mut before = vec![];
    for name in names {
        before.push(the(client, name).await);
    }
    let host = stage.cloudlycke(&BACKOFF);
    let pool: Vec<String> = before.iter().flat_map(ips).collect();
    serve(client, "greedy", annotated([(ADDRESS, &pool[0])])).await;
    await_event(client, "greedy", "Warning", "SyncLoadBalancerFailed", &["in use by default/web"]).await;
    change(client, "greedy", &annotation(ADDRESS, None)).await;
    let greedy = await_service(client, "greedy", is_served).await;
    assert!(!pool.contains(&ips(&greedy)[0]), "A-25");
    for service in &before {
        assert_eq!(the(client, &service.name_any()).await, *service, "A-25: nothing is written");
    }
    host.end().await;

    // it is gone for good, and all that it did stays. The process has ended, so whatever it would do is done.
    serve(client, "late", json!({})).await;
    delete(client, "heir").await;
    let late = the(client, "late").await;
    assert!(is_pending(&late) && readiness(&late).is_none(), "A-26: {late:?}");
    assert_eq!(the(client, "web").await, before[0], "A-26");
    assert!(has_finalizer(&the(client, "heir").await), "A-26: its load balancer is not forgotten");
    // Whoever comes back takes up what was left.
    let host = stage.cloudlycke(&BACKOFF);
    await_service(client, "late", is_served).await;
    await_absent(&services(client), "heir", LIMIT).await.unwrap();
    host.end().await;
}

/// How often it was said of a Service that its load balancer has new hosts.
async fn updated(client: &kube::Client, name: &str) -> i32 {
    let all = crate::look::events_about(client, name).await;
    let updates = all.into_iter().filter(|event| event.reason.as_deref() == Some("UpdatedLoadBalancer"));
    updates.map(|event| event.series.map_or(1, |series| series.count)).sum()
}
