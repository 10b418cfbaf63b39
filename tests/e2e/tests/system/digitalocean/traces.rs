//! Traces: what a collector gets of the work for a Node and for a Service.

use ccm_cluster::NodeFixture;
use ccm_e2e::host::{Host, component};
use ccm_sim_digitalocean::{Droplet, TOKEN};
use serde_json::json;

use super::{Cloud, await_balanced, configured, members};
use crate::collector::{Collector, Received};
use crate::look::{await_event, await_untainted};
use crate::service_look::serve;
use crate::stage::{Actor, LIMIT, Stage};

/// What the operator's collector asks for.
const HEADER: &str = "Bearer CollectorCanary-7f3a9c";

/// Kind of a span.
const CLIENT: u64 = 3;

/// A host with this environment beside that of its cloud, which the provider does not see.
fn start(stage: &Stage, cloud: &Cloud, variables: &[(&str, &str)], flags: &[&str]) -> Actor {
    let url = cloud.url();
    let file = component("providers/digitalocean.wasm").unwrap();
    let (own, flags) = configured(cloud, &file, &url, &[], flags);
    let environment: Vec<_> = own.into_iter().chain(variables.iter().copied()).collect();
    Actor::from(Host::start_in(stage.kubeconfig(), &environment, flags).unwrap())
}

fn names(branch: &[Received]) -> Vec<&str> {
    branch.iter().map(|one| one.name.as_str()).collect()
}

/// Each span within its parent's trace and time.
fn assert_nested(branch: &[Received]) {
    for pair in branch.windows(2) {
        let (child, parent) = (&pair[0], &pair[1]);
        assert_eq!(child.trace_id, parent.trace_id);
        assert!(parent.start <= child.start, "{} in {}", child.name, parent.name);
        assert!(child.start <= child.end, "{}", child.name);
    }
}

#[tokio::test]
async fn a_collector_gets_reconcile_call_and_request_as_one_trace_with_the_ids_of_the_cloud_and_without_secrets() {
    let stage = Stage::new().await;
    let client = stage.client();
    let cloud = Cloud::calm().await;
    let collector = Collector::start().await;
    members(client, &cloud, &[101]).await;
    let headers = format!("authorization={}", HEADER.replace(' ', "%20"));
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url()),
        ("OTEL_EXPORTER_OTLP_HEADERS", &headers),
        ("OTEL_BSP_SCHEDULE_DELAY", "100"),
        ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test"),
    ];
    let host = start(&stage, &cloud, &variables, &["--trace-otlp", "--trace-http"]);
    host.refreshed().await;
    serve(client, "web", json!({})).await;
    await_balanced(client, &cloud, "web").await;

    let created = |one: &Received| one.name == "POST /v2/load_balancers";
    let branch = collector.await_branch(created).await;
    assert_eq!(names(&branch), ["POST /v2/load_balancers", "load-balancers.ensure", "reconcile service"]);
    assert_nested(&branch);
    let [request, call, reconcile] = branch.as_slice() else { panic!("{branch:#?}") };
    assert_eq!((request.kind, request.status, call.kind), (CLIENT, 0, 1));
    for (name, value) in [
        ("http.request.method", "POST"),
        ("http.response.status_code", "202"),
        ("url.template", "/v2/load_balancers"),
        ("server.address", "127.0.0.1"),
        ("ccm.endpoint", "api"),
        ("ccm.provider", "digitalocean"),
    ] {
        assert_eq!(request.attribute(name), value, "{name}");
    }
    let id = request.attribute("ccm.request_id");
    assert!(!id.is_empty(), "{request:?}");
    // What the log says of the same request.
    host.await_log(LIMIT, &["POST /v2/load_balancers", id]).await.unwrap();
    assert_eq!((call.attribute("ccm.provider"), call.attribute("ccm.outcome")), ("digitalocean", "ok"));
    let digest = host.provider().await.serving.digest;
    let shown = call.attribute("ccm.provider.digest");
    assert!(shown.len() >= 8 && digest.contains(shown.trim_start_matches("sha256:")), "{shown} of {digest}");
    for (name, value) in [
        ("ccm.controller", "service"),
        ("k8s.object.kind", "Service"),
        ("k8s.namespace.name", "default"),
        ("k8s.object.name", "web"),
    ] {
        assert_eq!(reconcile.attribute(name), value, "{name}");
    }
    assert!(!reconcile.attribute("ccm.outcome").is_empty());
    for (name, value) in
        [("service.name", "wasm-ccm"), ("k8s.cluster.name", "kubernetes"), ("deployment.environment.name", "test")]
    {
        assert_eq!(request.resource.get(name).map(String::as_str), Some(value), "{name}");
    }

    // Lookups of several Nodes are one call, in the trace of the first one that asked.
    cloud.put_droplet(Droplet::new(102, "n102"));
    NodeFixture::new("n102").register(client).await.unwrap();
    await_untainted(client, "n102").await;
    let of_node = |one: &Received| one.name == "reconcile Nodes" && one.attribute("k8s.object.name") == "n102";
    let node = collector.await_branch(of_node).await.remove(0);
    let in_trace = |one: &Received| one.trace_id == node.trace_id && one.kind == CLIENT;
    let branch = collector.await_branch(in_trace).await;
    assert_eq!(names(&branch)[1..], ["instances.find", "lookup", "reconcile Nodes"]);
    assert_nested(&branch);
    assert_eq!(node.attribute("k8s.namespace.name"), "");

    host.events_written().await;
    let log = host.log_text();
    cloud.settled(&stage).await;
    host.end().await;
    for delivery in collector.deliveries() {
        assert_eq!(delivery.path, "/v1/traces");
        assert_eq!(delivery.headers["content-type"], "application/x-protobuf");
        assert_eq!(delivery.headers["authorization"], HEADER);
        for secret in [TOKEN, HEADER] {
            let found = delivery.body.windows(secret.len()).any(|part| part == secret.as_bytes());
            assert!(!found, "a trace shows {secret}");
        }
    }
    assert!(!log.contains(HEADER), "the log shows the headers for the collector");
    assert!(!log.contains("ccm.outcome"), "a span is in the log");
    assert_eq!(log.matches("traces are sent").count(), 1);
    cloud.check().unwrap();
}

#[tokio::test]
async fn a_collector_that_is_away_delays_nothing_and_is_told_of_once() {
    let stage = Stage::new().await;
    let client = stage.client();
    let cloud = Cloud::start().await;
    let away = Collector::start().await.url().to_owned();
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", away.as_str()),
        ("OTEL_BSP_SCHEDULE_DELAY", "1"),
        ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "2"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "4"),
    ];
    let host = start(&stage, &cloud, &variables, &["--trace-otlp"]);
    host.refreshed().await;
    for id in 101..=106_u64 {
        let name = format!("n{id}");
        cloud.put_droplet(Droplet::new(id, &name));
        NodeFixture::new(&name).register(client).await.unwrap();
        await_event(client, &name, "Normal", "Synced", &[]).await;
    }
    let lost = host.await_count("ccm_trace_spans_total", &["outcome=\"queue-full\""], LIMIT, |lost| lost > 0.0).await;
    lost.unwrap();
    assert_eq!(host.count("ccm_trace_spans_total", &["outcome=\"sent\""]).await.unwrap(), 0.0);
    let log = host.log_text();
    assert_eq!(log.matches("does not take traces").count(), 1, "{log}");
    cloud.settled(&stage).await;
    host.end().await;
}

#[tokio::test]
async fn without_the_flag_the_variables_of_opentelemetry_have_no_effect() {
    let stage = Stage::new().await;
    let cloud = Cloud::start().await;
    let collector = Collector::start().await;
    let variables = [("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url()), ("OTEL_BSP_SCHEDULE_DELAY", "1")];
    let host = start(&stage, &cloud, &variables, &[]);
    host.refreshed().await;
    assert!(host.metric("ccm_trace_spans_total").await.is_err(), "nothing is counted");
    host.end().await;
    cloud.settled(&stage).await;
    assert!(collector.deliveries().is_empty());
}
