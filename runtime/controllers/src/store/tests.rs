mod pages;

use std::time::Duration;

use k8s_openapi::api::core::v1::{Service, Taint};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::decode::LAST_APPLIED;
use super::*;
use crate::testing::{FakeApi, node, scraped};

struct Bench {
    nodes: Reflector<Node>,
    registry: Registry,
    api: FakeApi,
}

fn bench() -> Bench {
    let mut registry = Registry::default();
    let metrics = StoreMetrics::register(&mut registry);
    let api = FakeApi::new();
    Bench { nodes: Reflector::new(api.client.clone(), &metrics), registry, api }
}

fn guard(value: Value) -> DeserializeGuard<Node> {
    serde_json::from_value(value).unwrap()
}

fn good(name: &str) -> DeserializeGuard<Node> {
    guard(node(name).0)
}

fn bad(name: &str) -> DeserializeGuard<Node> {
    guard(json!({ "metadata": { "name": name }, "spec": { "taints": "none" } }))
}

fn names(keys: Vec<ObjectRef<Node>>) -> Vec<String> {
    let mut names: Vec<String> = keys.into_iter().map(|key| key.name).collect();
    names.sort();
    names
}

impl Bench {
    fn list(&mut self, objects: Vec<DeserializeGuard<Node>>) -> Vec<String> {
        let mut told = self.nodes.take(watcher::Event::Init);
        for object in objects {
            told.extend(self.nodes.take(watcher::Event::InitApply(object)));
        }
        assert_eq!(told, [], "the store does not have them yet");
        names(self.nodes.take(watcher::Event::InitDone))
    }

    fn stored(&self) -> Vec<String> {
        names(self.nodes.reader.state().iter().map(|node| ObjectRef::from_obj(&**node)).collect())
    }
}

#[tokio::test]
async fn keys_of_a_list_are_told_when_the_store_has_it_and_so_are_those_that_vanished() {
    let mut bench = bench();
    assert_eq!(bench.list(vec![good("a"), good("b")]), ["a", "b"]);
    assert_eq!(bench.list(vec![good("b"), good("c")]), ["a", "b", "c"]);
    assert_eq!(bench.stored(), ["b", "c"]);
    assert!(scraped(&bench.registry, "ccm_store_objects{kind=\"Node\"}") == 2.0);
}

#[tokio::test]
async fn changes_and_deletions_are_told() {
    let mut bench = bench();
    bench.list(vec![]);
    assert_eq!(names(bench.nodes.take(watcher::Event::Apply(good("a")))), ["a"]);
    assert_eq!(bench.stored(), ["a"]);
    assert_eq!(names(bench.nodes.take(watcher::Event::Delete(good("a")))), ["a"]);
    assert_eq!(bench.stored(), [""; 0]);
}

#[tokio::test]
async fn an_object_that_cannot_be_decoded_is_left_out_and_counted_and_the_others_stay() {
    let mut bench = bench();
    let nameless = guard(json!({ "metadata": {} }));
    assert_eq!(bench.list(vec![good("a"), bad("b"), nameless.clone()]), ["a"]);
    assert_eq!(names(bench.nodes.take(watcher::Event::Apply(bad("a")))), [""; 0]);
    assert_eq!(bench.stored(), ["a"], "the last good state");
    assert!(scraped(&bench.registry, "ccm_store_undecodable_objects_total{kind=\"Node\"}") == 3.0);
    assert_eq!(bench.nodes.undecodable.len(), 2, "each is said once");
    bench.nodes.take(watcher::Event::Apply(good("b")));
    bench.nodes.take(watcher::Event::Delete(nameless));
    assert_eq!(names(bench.nodes.take(watcher::Event::Delete(bad("a")))), ["a"]);
    assert_eq!((bench.stored(), bench.nodes.undecodable.len()), (vec!["b".to_owned()], 0));
}

/// Whatever reads the store takes an object that is missing for gone, and lets go of what belongs to it.
#[tokio::test]
async fn an_object_that_a_new_list_cannot_decode_stays_as_it_was_unless_it_is_another_one() {
    let of = |uid: &str| guard(json!({ "metadata": { "name": "a", "uid": uid }, "spec": { "taints": "none" } }));
    let mut bench = bench();
    let first = guard(json!({ "metadata": { "name": "a", "uid": "first" } }));
    assert_eq!(bench.list(vec![first, good("b")]), ["a", "b"]);
    for _ in 0..2 {
        bench.list(vec![of("first")]);
        assert_eq!(bench.stored(), ["a"], "the last good state");
    }
    bench.list(vec![of("another")]);
    assert_eq!(bench.stored(), [""; 0]);
}

#[tokio::test]
async fn whoever_drops_the_receiver_is_no_subscriber_any_more() {
    let mut bench = bench();
    let (kept, gone) = (bench.nodes.subscribe(), bench.nodes.subscribe());
    drop(gone);
    bench.nodes.tell(vec![ObjectRef::new("a")]).await;
    assert_eq!((bench.nodes.subscribers.len(), kept.len()), (1, 1));
}

fn full() -> Value {
    json!({
        "metadata": {
            "name": "a",
            "uid": "u",
            "resourceVersion": "7",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "deletionTimestamp": "2026-01-02T00:00:00Z",
            "labels": { "b": "1", "a": "2" },
            "annotations": { LAST_APPLIED: "{}", "kept": "yes" },
            "managedFields": [{ "manager": "kubelet" }],
        },
        "spec": { "providerID": "fake://1", "podCIDR": "10.0.0.0/24", "taints": [{ "key": "k", "effect": "NoExecute" }] },
        "status": {
            "addresses": [
                { "type": "Hostname", "address": "h" }, { "type": "Odd", "address": "x" }, { "type": "Hostname", "address": "g" },
            ],
            "capacity": { "cpu": "4", "memory": "1Ki", "pods": "110" },
            "conditions": [{ "type": "MemoryPressure", "status": "False" }, { "type": "Ready", "status": "True", "reason": "r", "message": "m" }, { "type": "NetworkUnavailable", "status": "False", "reason": "RouteCreated" }],
            "nodeInfo": {
                "architecture": "a", "bootID": "b", "containerRuntimeVersion": "c", "kernelVersion": "k", "kubeProxyVersion": "p",
                "kubeletVersion": "l", "machineID": "m", "operatingSystem": "o", "osImage": "i", "systemUUID": "UUID",
            },
            "phase": "Running",
            "images": [{ "names": ["i"] }],
            "volumesInUse": ["v"],
            "volumesAttached": [{ "name": "v", "devicePath": "d" }],
            "allocatable": { "cpu": "3" },
            "config": {},
            "runtimeHandlers": [{ "name": "r" }],
        },
    })
}

fn pairs(all: &[(&str, &str)]) -> Pairs {
    all.iter().copied().collect()
}

#[test]
fn what_nobody_reads_of_a_node_is_dropped() {
    let taint = Taint { key: "k".into(), effect: "NoExecute".into(), ..Taint::default() };
    let expected = Node {
        name: "a".into(),
        uid: Some("u".into()),
        resource_version: Some("7".into()),
        created: Some("2026-01-01T00:00:00Z".parse().unwrap()),
        is_deleting: true,
        labels: pairs(&[("a", "2"), ("b", "1")]),
        annotations: pairs(&[("kept", "yes")]),
        provider_id: Some("fake://1".into()),
        pod_cidrs: ["10.0.0.0/24".into()].into(),
        taints: [taint].into(),
        addresses: pairs(&[("Hostname", "h"), ("Odd", "x"), ("Hostname", "g")]),
        capacity: pairs(&[("cpu", "4"), ("memory", "1Ki")]),
        ready: Some("True".into()),
        network_unavailable: Some(("False".into(), "RouteCreated".into())),
        system_uuid: Some("UUID".into()),
    };
    assert_eq!(guard(full()).object.unwrap(), expected);
}

#[test]
fn a_node_may_say_next_to_nothing() {
    let nothing = guard(json!({ "metadata": { "name": "a" } })).object.unwrap();
    let empty = json!({
        "metadata": { "name": "a", "labels": {} },
        "spec": { "providerID": "", "taints": [] },
        "status": { "conditions": [], "nodeInfo": { "systemUUID": "" } },
    });
    assert_eq!(guard(empty).object.unwrap(), nothing);
    assert_eq!((nothing.uid, nothing.provider_id, nothing.ready, nothing.is_deleting), (None, None, None, false));
}

/// A plan answers who reads a Node again with what it has in memory.
#[test]
fn what_is_kept_of_a_node_is_read_back_as_it_is() {
    for node in [full(), json!({ "metadata": { "name": "a" } })] {
        let kept: Node = guard(node).object.unwrap();
        assert_eq!(guard(kept.to_json()).object.unwrap(), kept);
    }
}

#[test]
fn the_list_of_pod_cidrs_counts_before_the_single_one() {
    let read = |spec: Value| guard(json!({ "metadata": { "name": "a" }, "spec": spec })).object.unwrap().pod_cidrs;
    let texts = |all: &[&str]| all.iter().map(|&one| one.into()).collect::<Box<[Box<str>]>>();
    let both = ["10.0.0.0/24", "fd00::/64"];
    assert_eq!(read(json!({ "podCIDR": "10.0.0.0/24", "podCIDRs": both })), texts(&both));
    assert_eq!(read(json!({ "podCIDR": "10.0.0.0/24", "podCIDRs": [] })), texts(&both[..1]));
    assert_eq!(read(json!({ "podCIDR": "" })), texts(&[]));
}

#[test]
fn what_nobody_reads_of_a_service_is_dropped() {
    let metadata = &full()["metadata"];
    let guard: DeserializeGuard<Service> = serde_json::from_value(json!({ "metadata": metadata })).unwrap();
    let kept = serde_json::to_value(guard.object.unwrap()).unwrap();
    assert_eq!(
        (&kept["metadata"]["managedFields"], &kept["metadata"]["annotations"]),
        (&Value::Null, &json!({ "kept": "yes" }))
    );
}

/// Measured with labels, annotations and addresses as clouds give them. Clusters have thousands of Nodes.
#[test]
fn a_node_takes_less_than_two_kibibytes() {
    let mut node =
        node("ip-10-0-0-1.eu-central-1.compute.internal").provider_id("aws:///eu-central-1a/i-0123456789abcdef0");
    for i in 0..16 {
        node = node.label(&format!("topology.example.io/a-label-of-usual-length-{i:02}"), "eu-central-1a");
    }
    let node = node.address("InternalIP", "10.0.0.1").address("Hostname", "ip-10-0-0-1.eu-central-1.compute.internal");
    let node: Node = node.object();
    let text = |text: &Option<Box<str>>| text.as_ref().map_or(0, |text| text.len());
    let texts =
        node.name.len() + [&node.uid, &node.resource_version, &node.provider_id].map(text).iter().sum::<usize>();
    let pairs =
        [&node.labels, &node.annotations, &node.addresses, &node.capacity].map(Pairs::bytes).iter().sum::<usize>();
    let bytes = size_of::<Node>() + texts + pairs;
    assert!(bytes < 2_048, "{bytes}");
}

#[test]
fn an_object_that_cannot_be_decoded_says_who_it_is_and_why() {
    let text = r#"{ "metadata": { "name": "a", "uid": "u", "labels": { "x": "y" } }, "spec": { "taints": 7 } }"#;
    let guard: DeserializeGuard<Node> = serde_json::from_str(text).unwrap();
    assert_eq!((guard.metadata.name.as_deref(), guard.metadata.uid.as_deref()), (Some("a"), Some("u")));
    let error = guard.object.unwrap_err();
    assert!(error.contains("invalid type: integer `7`"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn every_subscriber_is_told_after_an_api_server_that_was_away_at_first() {
    let Bench { mut nodes, registry, api } = bench();
    api.add(node("a").0);
    api.refuse("GET /api/v1/nodes", 500, 3);
    let (mut one, mut other, gone) = (nodes.subscribe(), nodes.subscribe(), nodes.subscribe());
    drop(gone);
    let first_list = nodes.first_list();
    let stop = CancellationToken::new();
    let watch = async {
        assert!(first_list.complete().await);
        for subscriber in [&mut one, &mut other] {
            assert_eq!(subscriber.recv().await.unwrap().name, "a");
        }
        stop.cancel();
    };
    let both = async { tokio::join!(nodes.run(stop.clone()), watch) };
    tokio::time::timeout(Duration::from_secs(60), both).await.unwrap();
    assert!(scraped(&registry, "ccm_store_watch_failures_total{kind=\"Node\"}") == 3.0);
    assert!(scraped(&registry, "ccm_store_last_event_timestamp_seconds{kind=\"Node\"}") > 1e9);
}

#[tokio::test(start_paused = true)]
async fn a_slow_subscriber_holds_up_the_watch_and_not_the_stop() {
    let Bench { mut nodes, api, .. } = bench();
    for i in 0..SUBSCRIBER_BOUND + 10 {
        api.add(node(&format!("n{i}")).0);
    }
    let mut keys = nodes.subscribe();
    let stop = CancellationToken::new();
    let later = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        stop.cancel();
    };
    tokio::join!(nodes.run(stop.clone()), later);
    let mut told = 0;
    while keys.recv().await.is_some() {
        told += 1;
    }
    assert_eq!(told, SUBSCRIBER_BOUND);
}

/// With [`Store::wait_until_ready`] only the task that asked last was woken: either the process never became ready, or the
/// refresh of addresses did not begin before something else happened.
#[tokio::test(start_paused = true)]
async fn everybody_who_waits_for_the_first_list_is_woken() {
    let mut bench = bench();
    let mut waiting = JoinSet::new();
    for _ in 0..3 {
        waiting.spawn(bench.nodes.first_list().complete());
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(waiting.len(), 3);
    bench.list(vec![]);
    let woken = tokio::time::timeout(Duration::from_secs(1), waiting.join_all()).await.unwrap();
    assert_eq!(woken, [true; 3]);
    let late = bench.nodes.first_list();
    drop(bench);
    assert!(late.complete().await, "also when the reflector has ended since");
}

#[tokio::test]
async fn a_reflector_that_ends_early_ends_the_wait_for_its_list() {
    let first_list = bench().nodes.first_list();
    assert!(!first_list.complete().await);
}

/// Each attempt to list begins with an event that is no error, which once started the back-off anew: one try a second for
/// ever, and "answers again" in the log each time.
#[tokio::test(start_paused = true)]
async fn a_list_that_is_refused_is_tried_less_and_less_often_and_says_why() {
    let bench = bench();
    bench.api.refuse("GET /api/v1/nodes", 403, 1_000);
    let first_list = bench.nodes.first_list();
    let mut task = JoinSet::new();
    task.spawn(bench.nodes.run(CancellationToken::new()));
    tokio::time::sleep(Duration::from_secs(300)).await;
    let tries = bench.api.count("GET /api/v1/nodes");
    assert!((8..=25).contains(&tries), "{tries} tries in 5 minutes");
    assert!(first_list.state().unwrap_err().contains("(403)"), "{:?}", first_list.state());
}

/// A standby's watch runs for hours before its controllers start.
#[tokio::test(start_paused = true)]
async fn whoever_subscribes_late_is_told_of_every_object_and_until_then_nobody_holds_up_the_watch() {
    let Bench { nodes, api, .. } = bench();
    for i in 0..SUBSCRIBER_BOUND + 10 {
        api.add(node(&format!("n{i}")).0);
    }
    let handle = nodes.handle();
    let mut task = JoinSet::new();
    task.spawn(nodes.run(CancellationToken::new()));
    assert!(handle.first_list().complete().await);
    assert_eq!(handle.reader().len(), SUBSCRIBER_BOUND + 10);
    for _ in 0..2 {
        let mut keys = handle.subscribe();
        let mut told = HashSet::new();
        while told.len() < SUBSCRIBER_BOUND + 10 {
            assert!(told.insert(keys.recv().await.unwrap().name), "each once");
        }
    }
    task.shutdown().await;
    assert!(handle.subscribe().recv().await.is_none(), "the reflector has ended");
}

/// The pause after a failure can be half a minute.
#[tokio::test(start_paused = true)]
async fn whoever_subscribes_while_the_watch_fails_is_told_at_once() {
    let Bench { mut nodes, api, .. } = bench();
    nodes.take(watcher::Event::Init);
    nodes.take(watcher::Event::InitApply(good("a")));
    nodes.take(watcher::Event::InitDone);
    api.refuse("GET /api/v1/nodes", 500, 1_000);
    let handle = nodes.handle();
    let mut task = JoinSet::new();
    task.spawn(nodes.run(CancellationToken::new()));
    tokio::time::sleep(Duration::from_secs(120)).await;
    let asked = Instant::now();
    assert_eq!(handle.subscribe().recv().await.unwrap().name, "a");
    assert_eq!(asked.elapsed(), Duration::ZERO);
}

/// What changes after the subscription is told as well.
#[tokio::test(start_paused = true)]
async fn nothing_is_lost_between_what_there_is_and_what_changes() {
    let Bench { nodes, api, .. } = bench();
    api.refuse("GET /api/v1/nodes", 500, 2);
    let handle = nodes.handle();
    let mut keys = handle.subscribe();
    let mut task = JoinSet::new();
    task.spawn(nodes.run(CancellationToken::new()));
    api.add(node("late").0);
    assert_eq!(keys.recv().await.unwrap().name, "late", "subscribed before the first list");
}

/// After etcd was restored from a backup, a watch that goes on from a resource version that is not there yet hears nothing.
#[tokio::test(start_paused = true)]
async fn a_watch_that_failed_begins_with_a_list_and_a_watch_that_always_fails_does_so_less_and_less_often() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    for (failures, least, most) in [(1, 2, 2), (usize::MAX, 8, 25)] {
        let [lists, watches]: [Arc<AtomicUsize>; 2] = Default::default();
        let (listed, watched) = (Arc::clone(&lists), Arc::clone(&watches));
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let is_watch = request.uri().query().is_some_and(|query| query.contains("watch="));
            let count = if is_watch { &watched } else { &listed };
            let number = count.fetch_add(1, Ordering::Relaxed);
            async move {
                if is_watch && number >= failures {
                    std::future::pending::<()>().await;
                }
                let list = json!({ "metadata": { "resourceVersion": "7" }, "items": [] });
                let status = if is_watch { 500 } else { 200 };
                let body = kube::client::Body::from(list.to_string().into_bytes());
                Ok::<_, std::convert::Infallible>(http::Response::builder().status(status).body(body).unwrap())
            }
        });
        let metrics = StoreMetrics::register(&mut Registry::default());
        let nodes = Reflector::<Node>::new(Client::new(service, "default"), &metrics);
        let mut task = JoinSet::new();
        task.spawn(nodes.run(CancellationToken::new()));
        tokio::time::sleep(Duration::from_secs(270)).await;
        let lists = lists.load(Ordering::Relaxed);
        assert!((least..=most).contains(&lists), "{lists} lists in 270 s");
        assert_eq!(watches.load(Ordering::Relaxed), lists);
    }
}
