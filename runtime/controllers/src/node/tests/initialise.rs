//! 7.1, 7.2 and 7.5: what the first sync of a Node writes.

use std::sync::Arc;

use ccm_cloud::{AddressKind, Failure, Finding, Need, Reaction};
use serde_json::{Value, json};

use super::{Bench, EVENT, OBJECT, STATUS, SYNC_DELAY, TAINT_DELAY, status_body};
use crate::node::NodeSettings;
use crate::queue::Verdict;
use crate::testing::{Draft, FakeCloud, address, found, node};

struct Case {
    name: &'static str,
    node: Draft,
    found: Finding,
    /// `status.addresses` and `spec`, `metadata.labels` of the patches.
    addresses: Option<Value>,
    object: Option<Value>,
    verdict: Verdict,
}

fn entries(addresses: &[(&str, &str)]) -> Value {
    addresses.iter().map(|(kind, value)| json!({ "type": kind, "address": value })).collect()
}

fn full() -> Option<Value> {
    let full = [("Hostname", "node0.cloud.internal"), ("InternalIP", "10.0.0.1"), ("ExternalIP", "132.143.154.163")];
    Some(entries(&full))
}

fn two_and(hostname: &str) -> Option<Value> {
    Some(entries(&[("InternalIP", "10.0.0.1"), ("ExternalIP", "132.143.154.163"), ("Hostname", hostname)]))
}

fn without_hostname(instance: &mut ccm_cloud::Instance) {
    instance.addresses.retain(|address| address.kind != AddressKind::Hostname);
}

/// The patch of the object, without its resource version.
fn object(labels: &Value, spec: &Value) -> Option<Value> {
    let metadata = if *labels == json!({}) { json!({}) } else { json!({ "labels": labels }) };
    Some(json!({ "metadata": metadata, "spec": spec }))
}

fn places() -> Value {
    json!({
        "failure-domain.beta.kubernetes.io/region": "us-west",
        "failure-domain.beta.kubernetes.io/zone": "us-west-1a",
        "topology.kubernetes.io/region": "us-west",
        "topology.kubernetes.io/zone": "us-west-1a",
    })
}

fn with_places(instance: &mut ccm_cloud::Instance) {
    instance.zone = "us-west-1a".into();
    instance.region = "us-west".into();
}

fn with_labels(labels: &[(&str, &str)]) -> Finding {
    let labels = labels.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    found(|instance| {
        with_places(instance);
        instance.labels = labels;
    })
}

fn done(name: &'static str, node: Draft, found: Finding, addresses: Option<Value>, object: Option<Value>) -> Case {
    Case { name, node, found, addresses, object, verdict: Verdict::Done }
}

fn failed(name: &'static str, node: Draft, found: Finding, verdict: Verdict) -> Case {
    Case { name, node, found, addresses: None, object: None, verdict }
}

fn cases() -> Vec<Case> {
    let fresh = || node("node0").tainted().address("Hostname", "nodeoverriden");
    let untainted = json!({ "providerID": "fake://12345", "taints": null });
    let kept = json!({ "taints": null });
    let other = json!([{ "key": "ImproveCoverageTaint", "value": "true", "effect": "NoSchedule" }]);
    let condition = json!([{ "type": "Ready", "status": "Unknown" }]);
    let unreachable = || Finding::Unknown(Failure::new(Reaction::Retry, "the cloud is away"));
    let places_and = |more: Value| {
        let mut labels = places();
        labels.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        object(&labels, &untainted)
    };
    vec![
        done(
            "case_1 the cloud's hostname takes the place of the kubelet's",
            fresh(),
            found(|_| ()),
            full(),
            object(&json!({}), &untainted),
        ),
        done(
            "case_2 the kubelet's hostname stays when the cloud has none, last",
            fresh(),
            found(without_hostname),
            two_and("nodeoverriden"),
            object(&json!({}), &untainted),
        ),
        done(
            "case_3_46 a provider ID is set",
            node("node0").tainted(),
            found(|_| ()),
            full(),
            object(&json!({}), &untainted),
        ),
        done(
            "case_4_16 a node without the taint is left alone",
            node("node0").label("topology.kubernetes.io/zone", "z"),
            found(with_places),
            None,
            None,
        ),
        done(
            "case_5 zone and region are four labels",
            fresh(),
            found(|i| {
                with_places(i);
                i.provider_id = "aws://12345".into();
            }),
            full(),
            object(&places(), &json!({ "providerID": "aws://12345", "taints": null })),
        ),
        done(
            "case_6 other taints and conditions stay",
            fresh().taint("ImproveCoverageTaint").with("/status", "conditions", condition),
            found(|_| ()),
            full(),
            object(&json!({}), &json!({ "providerID": "fake://12345", "taints": other })),
        ),
        done(
            "case_7_19 the provided address is there",
            fresh().provided_ip("10.0.0.1"),
            found(without_hostname),
            two_and("nodeoverriden"),
            object(&json!({}), &untainted),
        ),
        failed(
            "case_8 a provided address that is none",
            fresh().provided_ip("invalid-ip"),
            found(|_| ()),
            Verdict::Change,
        ),
        failed(
            "case_9 a provided address that the cloud does not list",
            fresh().provided_ip("10.0.0.2"),
            found(|_| ()),
            Verdict::Backoff,
        ),
        failed(
            "2.5/2 a provided address and a cloud without addresses",
            fresh().provided_ip("10.0.0.2"),
            found(|i| i.addresses.clear()),
            Verdict::Backoff,
        ),
        done(
            "case_10 a provider ID that is there is kept",
            fresh().provider_id("test-provider-id"),
            found(|_| ()),
            full(),
            object(&json!({}), &kept),
        ),
        done(
            "case_15 the node has a provider ID and the cloud tells none",
            fresh().provider_id("fake://7"),
            found(|i| i.provider_id.clear()),
            full(),
            object(&json!({}), &kept),
        ),
        done("case_17 provider ID and four labels", fresh(), found(with_places), full(), object(&places(), &untainted)),
        done(
            "case_18 other taints stay",
            fresh().taint("ImproveCoverageTaint"),
            found(|_| ()),
            full(),
            object(&json!({}), &json!({ "providerID": "fake://12345", "taints": other })),
        ),
        done(
            "case_20 additional labels are added",
            fresh(),
            with_labels(&[("topology.k8s.cp/zone-id", "az1"), ("my.custom.label/foo", "bar")]),
            full(),
            places_and(json!({ "topology.k8s.cp/zone-id": "az1", "my.custom.label/foo": "bar" })),
        ),
        done(
            "case_21 labels under names of Kubernetes are not",
            fresh(),
            with_labels(&[
                ("topology.kubernetes.io/region", "us-other-west"),
                ("topology.k8s.io/region", "x"),
                ("kubernetes.io/region", "x"),
                ("k8s.io/region", "x"),
            ]),
            full(),
            places_and(json!({})),
        ),
        done(
            "case_22 a label that the node has is kept",
            fresh().label("my.custom.label/foo", "fizz"),
            with_labels(&[("my.custom.label/foo", "bar")]),
            full(),
            places_and(json!({})),
        ),
        done(
            "case_23 names that only look like those of Kubernetes",
            fresh(),
            with_labels(&[("app.k8snio/bar", "foo"), ("k8snio/bar", "foo")]),
            full(),
            places_and(json!({ "app.k8snio/bar": "foo", "k8snio/bar": "foo" })),
        ),
        failed("case_12_24 the cloud has no such machine (yet)", fresh(), Finding::Absent, Verdict::Backoff),
        failed("case_25_50 nobody has a provider ID", fresh(), found(|i| i.provider_id.clear()), Verdict::Backoff),
        failed("case_26 the cloud is away", fresh(), unreachable(), Verdict::Backoff),
        done(
            "case_51 type, and the node's own provider ID",
            fresh().provider_id("fake://12345"),
            found(|i| {
                i.provider_id.clear();
                i.instance_type = "t1.micro".into();
            }),
            full(),
            object(
                &json!({ "beta.kubernetes.io/instance-type": "t1.micro", "node.kubernetes.io/instance-type": "t1.micro" }),
                &kept,
            ),
        ),
        done(
            "2.5/3 type, zone and region overwrite",
            fresh().label("topology.kubernetes.io/zone", "old"),
            found(|i| i.zone = "new".into()),
            full(),
            object(
                &json!({ "failure-domain.beta.kubernetes.io/zone": "new", "topology.kubernetes.io/zone": "new" }),
                &untainted,
            ),
        ),
        done(
            "2.7/2 a cloud without addresses changes none",
            fresh(),
            found(|i| i.addresses.clear()),
            None,
            object(&json!({}), &untainted),
        ),
        done(
            "2.7/5 addresses that are right are not written",
            node("node0").tainted().address("InternalIP", "10.0.0.1"),
            found(|i| i.addresses = vec![address(AddressKind::InternalIp, "10.0.0.1")]),
            None,
            object(&json!({}), &untainted),
        ),
    ]
}

/// What is expected of each request, with the resource versions that the fake hands out: 101 for the new Node.
fn expected(case: &Case) -> Vec<(String, Value)> {
    let mut calls = Vec::new();
    let mut version = 101;
    if let Some(addresses) = &case.addresses {
        calls.push((STATUS.to_owned(), status_body(addresses)));
        version += 1;
    }
    if let Some(object) = &case.object {
        let mut body = object.clone();
        body["metadata"]["resourceVersion"] = json!(version.to_string());
        calls.push((OBJECT.to_owned(), body));
    }
    calls
}

#[tokio::test(start_paused = true)]
async fn a_first_sync_writes_what_the_reference_says_and_nothing_else() {
    for case in cases() {
        let mut bench = Bench::new();
        bench.cloud.answer("node0", [case.found.clone()]);
        bench.add(case.node.clone());
        let before = bench.api.json("node0");
        let name = case.name;
        assert_eq!(bench.sync("node0").await, case.verdict, "{name}");
        let calls: Vec<(String, Value)> = bench.api.calls().into_iter().map(|call| (call.line, call.body)).collect();
        assert_eq!(calls, expected(&case), "{name}");
        if case.object.is_none() {
            assert_eq!(bench.api.json("node0"), before, "{name}");
        }
        let synced =
            bench.events().await.iter().filter(|event| *event == "Normal Synced: Node synced successfully").count();
        assert_eq!(synced, usize::from(case.object.is_some()), "{name}");
    }
}

/// There may be thousands that wait for the cloud.
#[tokio::test(start_paused = true)]
async fn a_node_that_waits_takes_little_memory() {
    let bench = Bench::new();
    let bytes = size_of_val(&bench.syncer.sync("node0"));
    assert!(bytes <= 1_024, "{bytes}");
}

#[tokio::test(start_paused = true)]
async fn case_4_a_node_without_the_taint_costs_no_lookup() {
    let mut bench = Bench::new();
    bench.add(node("node0").taint("other"));
    bench.sync("node0").await;
    assert_eq!((bench.cloud.calls().len(), bench.api.calls().len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn case_6_the_condition_is_unchanged() {
    let mut bench = Bench::new();
    let condition = json!([{ "type": "Ready", "status": "Unknown" }]);
    bench.cloud.answer("node0", [found(|_| ())]);
    bench.add(node("node0").tainted().with("/status", "conditions", condition.clone()));
    bench.sync("node0").await;
    assert_eq!(bench.api.json("node0")["status"]["conditions"], condition);
}

#[tokio::test(start_paused = true)]
async fn a_node_costs_one_lookup_three_writes_and_no_read_in_the_order_addresses_taint_event() {
    let mut bench = Bench::new();
    bench.cloud.answer("node0", [found(|_| ())]);
    bench.add(node("node0").tainted());
    bench.sync("node0").await;
    bench.events().await;
    assert_eq!((bench.cloud.calls().len(), bench.api.lines()), (1, vec![STATUS.into(), OBJECT.into(), EVENT.into()]));
    let types: Vec<String> = bench.api.calls().into_iter().take(2).map(|call| call.content_type).collect();
    assert_eq!(types, ["application/strategic-merge-patch+json"; 2]);
}

#[tokio::test(start_paused = true)]
async fn case_30_both_histograms_have_one_observation_of_the_nodes_age() {
    let mut bench = Bench::new();
    bench.cloud.answer("node0", [found(|_| ())]);
    bench.add(node("node0").tainted());
    bench.sync("node0").await;
    for name in [TAINT_DELAY, SYNC_DELAY] {
        let [count, sum] = ["count", "sum"].map(|part| bench.scraped(&format!("{name}_{part}")));
        assert!(count == 1.0 && (30.0..60.0).contains(&sum), "{name}: {count} {sum}");
    }
}

#[tokio::test(start_paused = true)]
async fn case_49_metadata_with_a_provider_id_is_taken_as_it_is() {
    let mut bench = Bench::new();
    let finding = found(|instance| instance.provider_id = "fake://other".into());
    bench.cloud.answer("node0", [finding.clone()]);
    bench.add(node("node0").provider_id("fake://12345"));
    let node = Arc::new(bench.api.node("node0"));
    assert_eq!(bench.syncer.find(&node, Need::Metadata).await.unwrap().map(Finding::Found), Some(finding));
}

#[tokio::test(start_paused = true)]
async fn case_51_metadata_without_a_provider_id_gets_the_nodes_own() {
    let mut bench = Bench::new();
    let finding = |id: &str| {
        found(|instance| {
            instance.provider_id = id.into();
            instance.instance_type = "t1.micro".into();
        })
    };
    bench.cloud.answer("node0", [finding("")]);
    bench.add(node("node0").provider_id("fake://12345"));
    let node = Arc::new(bench.api.node("node0"));
    assert_eq!(
        bench.syncer.find(&node, Need::Metadata).await.unwrap().map(Finding::Found),
        Some(finding("fake://12345"))
    );
}

#[tokio::test(start_paused = true)]
async fn case_29_upstreams_order_can_be_had_and_then_an_address_failure_is_only_logged() {
    let settings = NodeSettings { untaint_before_addresses: true, ..NodeSettings::default() };
    for (status, initialised) in [(None, 1), (Some(500), 1)] {
        let mut bench = Bench::with(FakeCloud::default(), settings);
        bench.cloud.answer("node0", [found(|_| ())]);
        bench.add(node("node0").tainted());
        if let Some(status) = status {
            bench.api.refuse(STATUS, status, 1);
        }
        assert_eq!(bench.sync("node0").await, Verdict::Done, "in upstream's order");
        assert_eq!(bench.events().await.len(), initialised);
        assert_eq!(bench.api.lines(), [OBJECT, STATUS, EVENT]);
        assert!(bench.scraped(&format!("{SYNC_DELAY}_count")) == 1.0);
    }
}

#[tokio::test(start_paused = true)]
async fn the_cloud_sees_what_a_lookup_needs() {
    let mut bench = Bench::new();
    bench.cloud.answer("node0", [found(|_| ())]);
    let draft = node("node0")
        .tainted()
        .provider_id("fake://1")
        .label("a", "b")
        .provided_ip("10.0.0.1")
        .address("Hostname", "h")
        .address("Strange", "s")
        .with("/status", "capacity", json!({ "cpu": "4", "memory": "8Gi", "pods": "110" }))
        .with("/status", "nodeInfo", json!({ "systemUUID": "EC2A-77", "architecture": "", "bootID": "", "containerRuntimeVersion": "", "kernelVersion": "", "kubeProxyVersion": "", "kubeletVersion": "", "machineID": "", "operatingSystem": "", "osImage": "" }));
    bench.add(draft);
    bench.sync("node0").await;
    let wanted = ccm_cloud::Node {
        name: "node0".into(),
        uid: "uid-node0".into(),
        provider_id: Some("fake://1".into()),
        system_uuid: Some("ec2a-77".into()),
        addresses: vec![address(AddressKind::Hostname, "h")],
        labels: [("a".into(), "b".into())].into(),
        annotations: [("alpha.kubernetes.io/provided-node-ip".into(), "10.0.0.1".into())].into(),
        capacity: [("cpu".into(), "4".into()), ("memory".into(), "8Gi".into())].into(),
        taints: vec!["node.cloudprovider.kubernetes.io/uninitialized".into()],
        routed_cidrs: vec![],
    };
    assert_eq!(bench.cloud.calls(), [[wanted]]);
}

/// 7.7/78 to 80, as far as this code has them: one key, whatever the effect; everything else stays in order.
#[tokio::test(start_paused = true)]
async fn taints_of_that_key_go_and_all_others_stay() {
    let taint = |key: &str, effect: &str| json!({ "key": key, "effect": effect });
    let ours = "node.cloudprovider.kubernetes.io/uninitialized";
    let rows = [
        ("case_79 present alone", vec![taint(ours, "NoSchedule")], Some(Value::Null)),
        ("case_80 another effect", vec![taint(ours, "NoExecute")], Some(Value::Null)),
        (
            "case_80 twice, others between",
            vec![
                taint("a", "NoExecute"),
                taint(ours, "NoExecute"),
                taint("b", "NoSchedule"),
                taint(ours, "NoSchedule"),
            ],
            Some(json!([taint("a", "NoExecute"), taint("b", "NoSchedule")])),
        ),
        ("case_78 another key", vec![taint("node.cloudprovider.kubernetes.io/shutdown", "NoSchedule")], None),
        ("case_79 an empty list", vec![], None),
    ];
    for (name, taints, wanted) in rows {
        let mut bench = Bench::new();
        bench.cloud.answer("node0", [found(|instance| instance.addresses.clear())]);
        bench.add(node("node0").with("/spec", "taints", json!(taints)));
        bench.sync("node0").await;
        let written = bench.api.calls().first().map(|call| call.body["spec"]["taints"].clone());
        assert_eq!(written, wanted, "{name}");
    }
}
