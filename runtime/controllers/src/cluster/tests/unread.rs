//! Objects that the stores leave out.

use std::sync::Arc;
use std::time::Duration;

use ccm_apiserver::{ApiGate, ApiGateSettings, EventRecorder, EventSettings};
use ccm_cloud::Cluster;
use k8s_openapi::api::core::v1::Service;
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::{
    Bench, ClusterController, ClusterControllerParts, ClusterMember, ClusterNodes, FakeCluster, Metrics, Setup, service,
};
use crate::rehearsal::Rehearsed;
use crate::store::{Node, Reach, Reflector, Shown, UnreadObject};
use crate::testing::{FakeApi, Log};

const WHY: &str =
    "it takes 200112 bytes in memory, 200000 of them for its annotations: a Service is kept up to 128 KiB";

/// Service `shop/big` is too large.
fn big(shown: Shown) -> ((String, String), UnreadObject) {
    let object = UnreadObject { uid: "uid-big".to_owned(), why: WHY.to_owned(), shown, reach: Reach::UNKNOWN };
    (("shop".to_owned(), "big".to_owned()), object)
}

impl Bench {
    fn cannot_read_big(&self, shown: Shown) {
        self.unread[1].send_modify(|unread| unread.extend([big(shown)]));
    }

    fn all_can_be_read(&self) {
        self.unread.iter().for_each(|one| one.send_modify(|unread| unread.clear()));
    }

    fn services(&self, call: usize) -> Vec<String> {
        self.cloud.calls.lock()[call].services.clone()
    }
}

/// A process that had just begun told the provider of all Services but that one, and the provider closed its ports.
#[tokio::test(start_paused = true)]
async fn while_a_service_of_before_the_start_cannot_be_read_nobody_is_called_and_the_service_says_why() {
    let log = Log::start();
    let mut bench = Bench::new(Setup::default());
    bench.cannot_read_big(Shown::LeftOut);
    bench
        .play(async |bench| {
            bench.listed().await;
            bench.until(30).await;
            bench.apply_service(service("more")).await;
            bench.until(60).await;
            assert!(bench.calls().is_empty(), "{:?}", bench.calls());
            bench.all_can_be_read();
            bench.apply_service(service("big")).await;
            bench.until(120).await;
        })
        .await;
    assert_eq!(
        (bench.calls(), bench.services(0)),
        (vec![62], vec!["shop/big".into(), "shop/more".into(), "shop/web".into()])
    );
    assert_eq!(bench.scraped("ccm_cluster_syncs_total{provider=\"fake\",outcome=\"invalid\"}"), 2.0);
    let events = bench.api.events();
    let told = format!(
        "Warning SyncClusterFailed: it cannot be read: {WHY}; correct that, or take away what is too much. Until then,"
    );
    assert!(matches!(events.as_slice(), [event] if event.starts_with(&told)), "{events:?}");
    let about = bench.api.calls()[0].body["regarding"].clone();
    let expected =
        json!({ "apiVersion": "v1", "kind": "Service", "namespace": "shop", "name": "big", "uid": "uid-big" });
    assert_eq!(about, expected);
    let lines = log.lines("was not kept");
    assert!(matches!(lines.as_slice(), [line] if line.contains("Service shop/big cannot be read")), "{lines:?}");
    assert_eq!(log.lines("is kept again").len(), 1);
}

/// Nobody tells a key of what is not in the store.
#[tokio::test(start_paused = true)]
async fn when_the_last_one_that_cannot_be_read_is_gone_the_provider_is_called() {
    let mut bench = Bench::new(Setup::default());
    let (uid, why) = ("uid-n2".to_owned(), "odd".to_owned());
    let node = UnreadObject { uid, why, shown: Shown::LeftOut, reach: Reach::UNKNOWN };
    bench.unread[0].send_modify(|unread| unread.extend([((String::new(), "n2".to_owned()), node)]));
    bench
        .play(async |bench| {
            bench.listed().await;
            bench.until(100).await;
            bench.all_can_be_read();
            bench.until(200).await;
        })
        .await;
    assert_eq!((bench.calls(), bench.services(0)), (vec![102], vec!["shop/web".into()]));
    let about = bench.api.calls()[0].body["regarding"].clone();
    assert_eq!(about, json!({ "apiVersion": "v1", "kind": "Node", "name": "n2", "uid": "uid-n2" }));
}

/// Nobody opened anything for it, so nothing is closed, and whoever makes such Services holds up nobody else.
#[tokio::test(start_paused = true)]
async fn a_service_that_could_never_be_read_is_told_to_people_and_the_others_to_the_provider() {
    let mut bench = Bench::new(Setup::default());
    bench
        .play(async |bench| {
            bench.listed().await;
            bench.until(10).await;
            bench.cannot_read_big(Shown::New);
            bench.until(60).await;
        })
        .await;
    assert_eq!((bench.calls(), bench.services(1)), (vec![0, 12], vec!["shop/web".into()]));
    let events = bench.api.events();
    let is_told = |event: &String| event.contains(WHY) && !event.contains("Until then");
    assert!(matches!(events.as_slice(), [event] if is_told(event)), "{events:?}");
}

/// The store shows it as it was, and so it is told.
#[tokio::test(start_paused = true)]
async fn a_service_that_has_grown_too_large_holds_up_nobody() {
    let mut bench = Bench::new(Setup::default());
    bench.cannot_read_big(Shown::AsBefore);
    bench
        .play(async |bench| {
            bench.apply_service(service("big")).await;
            bench.listed().await;
        })
        .await;
    assert_eq!((bench.calls(), bench.services(0)), (vec![0], vec!["shop/big".into(), "shop/web".into()]));
    assert_eq!(bench.api.events(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_plan_calls_nobody_either_and_says_why() {
    let mut bench = Bench::new(Setup::default());
    bench.cannot_read_big(Shown::LeftOut);
    bench.listed().await;
    let rehearsal = bench.controller.take().unwrap().rehearsal();
    let Rehearsed { unknown, .. } = rehearsal.rehearse("fake").await;
    assert!(unknown.is_some_and(|why| why.starts_with("Service shop/big cannot be read")));
    assert!(bench.calls().is_empty());
}

/// A process, with stores that are filled by lists and watches. The Services that its provider was told of, call by call.
async fn process(api: &FakeApi, story: impl Future<Output = ()>) -> Vec<Vec<String>> {
    let metrics = Metrics::register(&mut Registry::default());
    let gate = ApiGate::new(api.client.clone(), metrics.api.clone(), ApiGateSettings::default());
    let (recorder, events) = EventRecorder::new(gate, metrics.events.clone(), EventSettings::default());
    let mut nodes = Reflector::<Node>::new(api.client.clone(), &metrics.store);
    let mut services = Reflector::<Service>::new(api.client.clone(), &metrics.store);
    let cloud = Arc::new(FakeCluster {
        answers: Mutex::default(),
        calls: Mutex::default(),
        running: Mutex::default(),
        takes: Duration::ZERO,
        begun: Instant::now(),
    });
    let controller = ClusterController::new(ClusterControllerParts {
        nodes: nodes.reader(),
        services: services.reader(),
        first_lists: [nodes.first_list(), services.first_list()],
        node_keys: nodes.subscribe(),
        service_keys: services.subscribe(),
        members: vec![ClusterMember {
            cluster: Arc::clone(&cloud) as Arc<dyn Cluster>,
            nodes: ClusterNodes::All,
            recoveries: vec![],
        }],
        recorder,
        metrics: metrics.cluster.clone(),
        queue_metrics: metrics.queue.clone(),
        settings: Setup::default().settings,
    });
    let stop = CancellationToken::new();
    let story = async {
        story.await;
        stop.cancel();
    };
    let (nodes, services) = (Box::pin(nodes.run(stop.clone())), Box::pin(services.run(stop.clone())));
    let (controller, events) = (Box::pin(controller.run(stop.clone())), Box::pin(events.run(stop.clone())));
    drop(tokio::join!(controller, nodes, services, events, story).0);
    cloud.calls.lock().iter().map(|call| call.services.clone()).collect()
}

/// Whoever may write Services, and none with a node port, once held up the firewall of the cluster from the next restart on.
#[tokio::test(start_paused = true)]
async fn of_services_that_are_too_large_those_that_may_have_open_ports_hold_the_work_and_no_others() {
    const TIME: Duration = Duration::from_secs(20);
    let rows = [
        ("ClusterIP", Value::Null, false),
        ("ClusterIP", json!([]), false),
        ("ExternalName", Value::Null, false),
        ("ClusterIP", json!(["192.0.2.7"]), true),
        ("NodePort", Value::Null, true),
        ("LoadBalancer", Value::Null, true),
    ];
    for (kind, external_ips, is_held) in rows {
        let big = |bytes: usize| {
            let mut big = service("big");
            big["metadata"]["annotations"] = json!({ "a": "x".repeat(bytes) });
            big["spec"]["type"] = json!(kind);
            big["spec"]["externalIPs"] = external_ips.clone();
            big
        };
        let api = FakeApi::new();
        api.add_service(service("web"));
        // It comes while the watch is away.
        let first = process(&api, async {
            sleep(TIME).await;
            api.add_service(big(200_000));
            api.expire_watches();
            sleep(TIME).await;
            api.add_service(service("more"));
            api.expire_watches();
            sleep(TIME).await;
        });
        let (web, more) = (vec!["shop/web"], vec!["shop/more", "shop/web"]);
        let (first, what) = (first.await, format!("{kind} {external_ips}"));
        assert_eq!(first.last().unwrap(), if is_held { &web } else { &more }, "{what}: {first:?}");

        let restarted = process(&api, sleep(TIME)).await;
        assert_eq!(restarted, if is_held { vec![] } else { vec![more] }, "{what}");

        let mended = process(&api, async {
            sleep(TIME).await;
            api.add_service(big(1));
            api.expire_watches();
            sleep(TIME).await;
        });
        assert_eq!(mended.await.last().unwrap(), &["shop/big", "shop/more", "shop/web"], "{what}");
    }
}
