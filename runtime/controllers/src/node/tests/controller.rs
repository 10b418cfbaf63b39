//! The whole controller: reflector, queue, lookups, writes, Events.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use ccm_apiserver::{ApiGate, ApiGateSettings, EventRecorder, EventSettings, EventWriter};
use ccm_cloud::{AddressKind, Failure, Finding, Lookups, Reaction};
use prometheus_client::registry::Registry;
use serde_json::json;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::explain::Next;
use crate::store::Node;
use crate::testing::{FakeApi, FakeCloud, address, found, node, run_for};
use crate::{
    AddressSources, ClusterAddresses, Metrics, NodeController, NodeControllerParts, NodeSettings, NodeView,
    QueueSettings, Reflector,
};

/// The controller, its reflector, and who writes its Events.
fn controller(
    api: &FakeApi,
    metrics: &Metrics,
    lookups: Lookups,
    recoveries: Vec<watch::Receiver<u64>>,
    settings: NodeSettings,
) -> (NodeController, Reflector<Node>, EventWriter) {
    let gate = ApiGate::new(api.client.clone(), metrics.api.clone(), ApiGateSettings::default());
    let (recorder, events) = EventRecorder::new(gate.clone(), metrics.events.clone(), EventSettings::default());
    let mut nodes = Reflector::new(api.client.clone(), &metrics.store);
    let controller = NodeController::new(NodeControllerParts {
        cluster_addresses: ClusterAddresses::new(AddressSources::default()),
        gate,
        store: nodes.reader(),
        first_list: nodes.first_list(),
        keys: nodes.subscribe(),
        lookups,
        recoveries,
        recorder,
        metrics: metrics.node.clone(),
        queue_metrics: metrics.queue.clone(),
        settings,
    });
    (controller, nodes, events)
}

/// Runs everything for `time`, then stops it in order.
async fn run(api: &FakeApi, cloud: &Arc<FakeCloud>, settings: NodeSettings, time: Duration) -> Metrics {
    run_with(api, cloud, settings, time, vec![]).await
}

/// The same, with clouds that may come back.
async fn run_with(
    api: &FakeApi,
    cloud: &Arc<FakeCloud>,
    settings: NodeSettings,
    time: Duration,
    recoveries: Vec<watch::Receiver<u64>>,
) -> Metrics {
    run_seen(api, cloud, settings, time, recoveries, |_| std::future::ready(())).await
}

/// The same, while somebody looks into it.
async fn run_seen<L: Future<Output = ()>>(
    api: &FakeApi,
    cloud: &Arc<FakeCloud>,
    settings: NodeSettings,
    time: Duration,
    recoveries: Vec<watch::Receiver<u64>>,
    look: impl FnOnce(NodeView) -> L,
) -> Metrics {
    let metrics = Metrics::register(&mut Registry::default());
    let (lookups, _task) = cloud.lookups();
    let (controller, nodes, events) = controller(api, &metrics, lookups, recoveries, settings);
    let looking = look(controller.view());
    tokio::join!(run_for(time, |stop| controller.run(stop), nodes, events), looking);
    metrics
}

/// One of many: no two have the same address.
fn machine(number: u8) -> Finding {
    found(|one| one.addresses = vec![address(AddressKind::InternalIp, &format!("10.0.1.{number}"))])
}

#[tokio::test(start_paused = true)]
async fn two_hundred_nodes_are_initialised_with_one_call_of_the_cloud_and_three_writes_each() {
    let api = FakeApi::new();
    let cloud = Arc::new(FakeCloud::slow(Duration::from_millis(50)));
    for i in 0..200 {
        let name = format!("n{i:03}");
        cloud.answer(&name, [machine(i)]);
        api.add(node(&name).tainted().0);
    }
    let metrics = run(&api, &cloud, NodeSettings::default(), Duration::from_secs(10)).await;
    for i in 0..200 {
        assert_eq!(api.json(&format!("n{i:03}"))["spec"], json!({ "providerID": "fake://12345" }));
    }
    assert_eq!(cloud.calls().len(), 1);
    let counted = ["PATCH /api/v1/nodes", "/status", "POST", "GET /api/v1/nodes/"].map(|part| api.count(part));
    assert_eq!(counted, [400, 200, 200, 0]);
    assert_eq!((metrics.events.written.get(), metrics.events.dropped.get()), (200, 0));
}

#[tokio::test(start_paused = true)]
async fn no_more_nodes_are_written_at_a_time_than_set_but_all_are_looked_up() {
    let api = FakeApi::new();
    let cloud = Arc::new(FakeCloud::default());
    for i in 0..40 {
        let name = format!("n{i}");
        cloud.answer(&name, [machine(i)]);
        api.add(node(&name).tainted().0);
    }
    api.silence("PATCH");
    let queue = QueueSettings { stop_timeout: Duration::ZERO, ..QueueSettings::default() };
    let settings = NodeSettings { concurrent_syncs: NonZeroUsize::new(3).unwrap(), queue, ..NodeSettings::default() };
    run(&api, &cloud, settings, Duration::from_secs(5)).await;
    assert_eq!((cloud.asked().len(), api.count("PATCH /api/v1/nodes")), (40, 3));
}

#[tokio::test(start_paused = true)]
async fn the_events_of_the_last_syncs_are_written_before_the_end() {
    let api = FakeApi::new();
    let cloud = Arc::new(FakeCloud::slow(Duration::from_secs(2)));
    cloud.answer("node0", [found(|_| ())]);
    api.add(node("node0").tainted().0);
    run(&api, &cloud, NodeSettings::default(), Duration::from_secs(1)).await;
    assert_eq!(api.events(), ["Normal Synced: Node synced successfully"]);
}

#[tokio::test(start_paused = true)]
async fn a_node_does_not_wait_out_its_back_off_when_the_cloud_answers_again_or_the_credentials_are_others() {
    for reaction in [Reaction::Quota, Reaction::Unauthorized] {
        let api = FakeApi::new();
        let cloud = Arc::new(FakeCloud::default());
        cloud.answer("node0", [Finding::Unknown(Failure::new(reaction, "not now")), found(|_| ())]);
        api.add(node("node0").tainted().0);
        let recovered = watch::Sender::new(0);
        let settings = NodeSettings { slow_retry: Duration::from_secs(600), ..NodeSettings::default() };
        let recoveries = vec![recovered.subscribe()];
        let work = run_with(&api, &cloud, settings, Duration::from_secs(20), recoveries);
        let back = async {
            tokio::time::sleep(Duration::from_secs(10)).await;
            assert_eq!(cloud.asked().len(), 1, "the back-off is long");
            recovered.send_replace(1);
        };
        tokio::join!(work, back);
        assert_eq!(cloud.asked().len(), 2, "{reaction:?}");
    }
}

/// The status page showed no next try of a Node.
#[tokio::test(start_paused = true)]
async fn of_nodes_that_wait_the_queue_says_when_the_next_try_is() {
    let api = FakeApi::new();
    let cloud = Arc::new(FakeCloud::default());
    for (name, reaction) in [("slow", Reaction::Quota), ("refused", Reaction::Invalid)] {
        cloud.answer(name, [Finding::Unknown(Failure::new(reaction, "no"))]);
        api.add(node(name).tainted().0);
    }
    let settings = NodeSettings { slow_retry: Duration::from_secs(600), ..NodeSettings::default() };
    let look = |view: NodeView| async move {
        tokio::time::sleep(Duration::from_secs(10)).await;
        let (waiting, _) = view.troubles(9).await.unwrap();
        let told: Vec<_> = waiting.first.iter().map(|one| (one.name.as_str(), one.next)).collect();
        let [("refused", Next::OnChangeOr(late)), ("slow", Next::In(soon))] = told[..] else { panic!("{told:?}") };
        assert!((580.0..=1_200.0).contains(&soon) && late > 40_000.0, "{soon} {late}");
        for (name, next) in [("refused", Next::OnChangeOr(late)), ("slow", Next::In(soon))] {
            assert_eq!(view.explain(name).await.unwrap().next, next, "{name}: it is what explain says");
        }
        let (waiting, _) = view.troubles(1).await.unwrap();
        assert_eq!((waiting.all, waiting.first.len()), (2, 1));
        assert_eq!(waiting.first[0].next, Next::OnChangeOr(late));
    };
    run_seen(&api, &cloud, settings, Duration::from_secs(20), vec![], look).await;
}

/// The status page did not name them, and `explain` without a kubeconfig said that they are as they should be.
#[tokio::test(start_paused = true)]
async fn nodes_whose_kubelets_ask_for_no_manager_are_counted_and_the_first_are_named() {
    let api = FakeApi::new();
    let cloud = Arc::new(FakeCloud::default());
    let mut going = node("a-going");
    going.0["metadata"]["deletionTimestamp"] = json!("2026-11-26T10:00:00Z");
    going.0["metadata"]["finalizers"] = json!(["example.com/keep"]);
    let mut done = node("a-done");
    done.0["spec"]["providerID"] = json!("fake://1");
    cloud.answer("a-new", [Finding::Unknown(Failure::new(Reaction::Quota, "no"))]);
    let mut ready = node("n000");
    ready.0["status"]["conditions"] = json!([{ "type": "Ready", "status": "True" }]);
    for other in [going, done, node("a-new").tainted(), ready] {
        api.add(other.0);
    }
    for i in 1..3_000 {
        api.add(node(&format!("n{i:03}")).0);
    }
    let look = |view: NodeView| async move {
        tokio::time::sleep(Duration::from_secs(10)).await;
        let (waiting, unmanaged) = view.troubles(2).await.unwrap();
        assert_eq!((waiting.all, unmanaged.all), (1, 3_000));
        assert_eq!(unmanaged.first, ["n000", "n001"]);
        for (name, asks_no_manager, is_ready) in
            [("n000", true, true), ("n001", true, false), ("a-going", false, false), ("a-done", false, false)]
        {
            let told = view.explain(name).await.unwrap();
            assert_eq!((told.asks_no_manager, told.is_ready), (asks_no_manager, is_ready), "{name}");
        }
    };
    run_seen(&api, &cloud, NodeSettings::default(), Duration::from_secs(20), vec![], look).await;
}

#[tokio::test(start_paused = true)]
async fn the_controller_ends_with_its_reflector() {
    let api = FakeApi::new();
    let metrics = Metrics::register(&mut Registry::default());
    let (lookups, _task) = Arc::new(FakeCloud::default()).lookups();
    let (controller, nodes, _events) = controller(&api, &metrics, lookups, vec![], NodeSettings::default());
    let (stop, stop_nodes) = (CancellationToken::new(), CancellationToken::new());
    let timer = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        stop_nodes.cancel();
    };
    let all = async { tokio::join!(controller.run(stop.clone()), nodes.run(stop_nodes.clone()), timer) };
    let (ended, (), ()) = tokio::time::timeout(Duration::from_secs(5), all).await.unwrap();
    assert_eq!(ended, Ok(()));
    assert!(!stop.is_cancelled(), "the owner's signal is the owner's");
}

/// What was written before the backup was restored had higher resource versions. The watch has shown nothing of that write.
#[tokio::test(start_paused = true)]
async fn a_node_that_etcds_backup_shows_uninitialised_is_initialised_again() {
    let api = FakeApi::new();
    let cloud = Arc::new(FakeCloud::default());
    cloud.answer("node0", [found(|_| ()), found(|_| ())]);
    api.add(node("node0").tainted().0);
    let backup = api.json("node0");
    let story = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(
            (
                api.json("node0")["spec"]["taints"].as_array().is_none_or(Vec::is_empty),
                api.count("PATCH /api/v1/nodes")
            ),
            (true, 2)
        );
        api.with(|state| state.restore(backup));
        api.expire_watches();
    };
    let controller = run(&api, &cloud, NodeSettings::default(), Duration::from_secs(60));
    tokio::join!(controller, story);
    assert!(api.json("node0")["spec"]["taints"].as_array().is_none_or(Vec::is_empty), "{}", api.json("node0"));
    assert_eq!(api.count("PATCH /api/v1/nodes"), 4);
}
