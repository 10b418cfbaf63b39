//! Traces: what a collector gets of the work for a Node and for a Service.

use std::collections::BTreeSet;
use std::time::Duration;

use ccm_cluster::{NodeFixture, register_nodes};
use ccm_e2e::host::{Host, Port, component};
use ccm_sim_digitalocean::{Act, Droplet, Endpoint, Fault, Requests, TOKEN, When};
use serde_json::json;
use tokio::time::Instant;

use super::{Cloud, await_balanced, configured, members};
use crate::collector::{Collector, Received};
use crate::look::{await_event, await_untainted};
use crate::service_look::{annotated, change, serve};
use crate::stage::{Actor, LIMIT, Stage};

/// What the operator's collector asks for.
const HEADER: &str = "Bearer CollectorCanary-7f3a9c";

/// Kind of a span.
const CLIENT: u64 = 3;

/// Status of a span.
const ERROR: u64 = 2;

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
        assert!(child.end <= parent.end, "{} ends after {}", child.name, parent.name);
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
    // So long that Nodes which are registered together are looked up together.
    let flags = ["--trace-otlp", "--trace-http", "--lookup-batch-linger=3s"];
    let host = start(&stage, &cloud, &variables, &flags);
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

    // Lookups of several Nodes are one call, in the trace of the first one that asked. The others are named in it.
    let (ids, names_of) = ([102, 103, 104_u64], |id: &u64| format!("n{id}"));
    for id in &ids {
        cloud.put_droplet(Droplet::new(*id, &names_of(id)));
    }
    register_nodes(client, ids.iter().map(|id| NodeFixture::new(names_of(id)))).await.unwrap();
    for id in &ids {
        await_untainted(client, &names_of(id)).await;
    }
    let together = |one: &Received| one.name == "lookup" && one.attribute("ccm.nodes") == "3";
    let lookup = collector.await_branch(together).await.remove(0);
    assert_eq!(lookup.links.len(), 2);
    let mut asked = vec![];
    for trace in [&lookup.trace_id].into_iter().chain(&lookup.links) {
        let of_node = |one: &Received| one.name == "reconcile Nodes" && one.trace_id == *trace;
        let node = collector.await_branch(of_node).await.remove(0);
        assert_eq!(node.attribute("k8s.namespace.name"), "");
        asked.push(node.attribute("k8s.object.name").to_owned());
    }
    asked.sort_unstable();
    assert_eq!(asked, ids.each_ref().map(names_of));
    let in_trace = |one: &Received| one.trace_id == lookup.trace_id && one.kind == CLIENT;
    let branch = collector.await_branch(in_trace).await;
    assert_eq!(names(&branch)[1..], ["instances.find", "lookup", "reconcile Nodes"]);
    assert_nested(&branch);

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
    let cloud = Cloud::calm().await;
    // Taken, so that no other test listens there.
    let away = Port::take().unwrap();
    let url = format!("http://127.0.0.1:{}", away.number());
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", url.as_str()),
        ("OTEL_BSP_SCHEDULE_DELAY", "1"),
        ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "2"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "4"),
    ];
    let host = start(&stage, &cloud, &variables, &["--trace-otlp"]);
    host.refreshed().await;
    let begun = Instant::now();
    for id in 101..=106_u64 {
        let name = format!("n{id}");
        cloud.put_droplet(Droplet::new(id, &name));
        NodeFixture::new(&name).register(client).await.unwrap();
        await_event(client, &name, "Normal", "Synced", &[]).await;
    }
    // A batch is tried for 15 s, the spans of a Node are two batches and more, and there is room for three.
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(60), "six Nodes took {took:?}");
    let lost = host.await_count("ccm_trace_spans_total", &["outcome=\"queue-full\""], LIMIT, |lost| lost > 0.0).await;
    lost.unwrap();
    assert_eq!(host.count("ccm_trace_spans_total", &["outcome=\"sent\""]).await.unwrap(), 0.0);
    let log = host.log_text();
    assert_eq!(log.matches("does not take traces").count(), 1, "{log}");
    cloud.settled(&stage).await;
    host.end().await;
}

/// Whoever looks for errors in traces finds what failed, and what the provider made of it.
#[tokio::test]
async fn attempts_that_fail_are_errors_in_their_trace_and_their_call_says_the_reaction() {
    let stage = Stage::new().await;
    let client = stage.client();
    let cloud = Cloud::calm().await;
    let collector = Collector::start().await;
    members(client, &cloud, &[201]).await;
    let variables = [("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url()), ("OTEL_BSP_SCHEDULE_DELAY", "100")];
    let host = start(&stage, &cloud, &variables, &["--trace-otlp"]);
    serve(client, "web", json!({})).await;
    await_balanced(client, &cloud, "web").await;
    // All attempts of a change that may be repeated.
    let fault = Fault::new(Requests::Of(Endpoint::UpdateBalancer), 1, When::Before, Act::Status(503));
    drop(cloud.plan(Fault { times: 3, ..fault }));
    change(client, "web", &annotated([("service.beta.kubernetes.io/do-loadbalancer-size-unit", "3")])).await;

    let is_refused = |one: &Received| one.name.starts_with("PUT /v2/load_balancers") && one.status == ERROR;
    let mut calls = BTreeSet::new();
    for again in ["", "1", "2"] {
        let attempt = |one: &Received| is_refused(one) && one.attribute("http.request.resend_count") == again;
        let branch = collector.await_branch(attempt).await;
        assert_eq!(names(&branch)[1..], ["load-balancers.ensure", "reconcile service"]);
        let [request, call, reconcile] = branch.as_slice() else { panic!("{branch:#?}") };
        let both = ["error.type", "http.response.status_code"].map(|name| request.attribute(name));
        assert_eq!(both, ["503", "503"], "{request:?}");
        // It has an answer: what to do next.
        let both = ["ccm.outcome", "ccm.reaction"].map(|name| call.attribute(name));
        assert_eq!((both, call.status), (["ok", "retry"], 0), "{call:?}");
        // The service controller says itself when it tries again: that is not `failed`.
        assert_eq!((reconcile.attribute("ccm.outcome"), reconcile.status), ("again-later", 0), "{reconcile:?}");
        calls.insert(call.span_id.clone());
    }
    assert_eq!(calls.len(), 1, "three attempts of one call");
    host.end().await;
    cloud.unsettled("the next try is minutes away");
}

/// What the host did last is what is looked for after it has ended.
#[tokio::test]
async fn what_waits_when_a_host_ends_is_sent() {
    let stage = Stage::new().await;
    let client = stage.client();
    let cloud = Cloud::calm().await;
    let collector = Collector::start().await;
    let variables = [("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url()), ("OTEL_BSP_SCHEDULE_DELAY", "600000")];
    let host = start(&stage, &cloud, &variables, &["--trace-otlp"]);
    cloud.put_droplet(Droplet::new(301, "n301"));
    NodeFixture::new("n301").register(client).await.unwrap();
    await_untainted(client, "n301").await;
    cloud.settled(&stage).await;
    assert!(collector.deliveries().is_empty());
    host.end().await;
    let of_node = |one: &Received| one.name == "reconcile Nodes" && one.attribute("k8s.object.name") == "n301";
    assert!(collector.spans().iter().any(of_node), "{:?}", collector.spans());
}

/// A pod whose end takes longer than its grace period is killed.
#[tokio::test]
async fn a_collector_that_never_answers_delays_the_end_of_a_host_by_seconds() {
    let stage = Stage::new().await;
    let client = stage.client();
    let cloud = Cloud::calm().await;
    // The kernel takes connections and what is sent. Nobody reads it.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", url.as_str()),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "600000"),
        ("OTEL_BSP_SCHEDULE_DELAY", "1"),
    ];
    let host = start(&stage, &cloud, &variables, &["--trace-otlp"]);
    cloud.put_droplet(Droplet::new(401, "n401"));
    NodeFixture::new("n401").register(client).await.unwrap();
    await_untainted(client, "n401").await;
    cloud.settled(&stage).await;
    let begun = Instant::now();
    host.end().await;
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
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
