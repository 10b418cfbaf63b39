//! The whole controller: reflector, queue, lookups, writes, Events.

use std::sync::Arc;
use std::time::Duration;

use ccm_apiserver::{ApiGate, ApiGateSettings, EventRecorder, EventSettings};
use ccm_cloud::{Finding, InstanceState, Need, Reaction};
use prometheus_client::registry::Registry;
use serde_json::json;
use tokio::sync::watch;

use super::{lost, unknown, unlimited};
use crate::node_lifecycle::DeletionBudget;
use crate::store::Node;
use crate::testing::{FakeApi, FakeCloud, Log, found, node, run_for};
use crate::{
    JournalPlace, Metrics, NodeLifecycleController, NodeLifecycleParts, NodeLifecycleSettings, NodeLifecycleView,
    Reflector,
};

/// Where deletions are noted.
pub(super) const NAMESPACE: &str = "kube-system";
pub(super) const SHARED: &str = "shared";
pub(super) const NOTES: &str = "/api/v1/namespaces/kube-system/configmaps/shared";
/// Where they are told.
pub(super) const EVENTS: &str = "GET /apis/events.k8s.io/v1/namespaces/default/events";

/// Runs everything for `time`, then stops it in order.
pub(super) async fn run(
    api: &FakeApi,
    cloud: &Arc<FakeCloud>,
    settings: NodeLifecycleSettings,
    time: Duration,
) -> Metrics {
    run_with(api, cloud, settings, time, vec![]).await
}

async fn run_with(
    api: &FakeApi,
    cloud: &Arc<FakeCloud>,
    settings: NodeLifecycleSettings,
    time: Duration,
    recoveries: Vec<watch::Receiver<u64>>,
) -> Metrics {
    run_beside(api, cloud, settings, time, recoveries, |_, _| std::future::ready(())).await.0
}

/// The same, with something that hears of the same Nodes and looks into the controller.
pub(super) async fn run_beside<F: Future>(
    api: &FakeApi,
    cloud: &Arc<FakeCloud>,
    settings: NodeLifecycleSettings,
    time: Duration,
    recoveries: Vec<watch::Receiver<u64>>,
    other: impl FnOnce(&mut Reflector<Node>, NodeLifecycleView) -> F,
) -> (Metrics, F::Output) {
    let metrics = Metrics::register(&mut Registry::default());
    let gate = ApiGate::new(api.client.clone(), metrics.api.clone(), ApiGateSettings::default());
    let (recorder, events) = EventRecorder::new(gate.clone(), metrics.events.clone(), EventSettings::default());
    let mut nodes = Reflector::new(api.client.clone(), &metrics.store);
    let (lookups, _task) = cloud.lookups();
    let controller = NodeLifecycleController::new(NodeLifecycleParts {
        gate,
        store: nodes.reader(),
        keys: nodes.subscribe(),
        lookups,
        recoveries,
        // Where a test has none, the API server says that it does not exist.
        journal: Some(JournalPlace {
            namespace: NAMESPACE.to_owned(),
            config_map: SHARED.to_owned(),
            manager: "ccm".to_owned(),
        }),
        recorder,
        metrics: metrics.node_lifecycle.clone(),
        queue_metrics: metrics.queue.clone(),
        settings,
    });
    let other = other(&mut nodes, controller.view());
    let ((), told) = tokio::join!(run_for(time, |stop| controller.run(stop), nodes, events), other);
    (metrics, told)
}

/// QUIRK-10: upstream asks 500 times in each pass, one after the other.
#[tokio::test(start_paused = true)]
async fn five_hundred_nodes_that_are_not_ready_are_one_call_for_each_look() {
    let api = FakeApi::new();
    let cloud = Arc::new(FakeCloud::slow(Duration::from_millis(200)));
    for i in 0..500 {
        let name = format!("n{i:03}");
        cloud.answer(&name, [found(|_| ())]);
        api.add(lost(&name).0);
    }
    run(&api, &cloud, NodeLifecycleSettings::default(), Duration::from_secs(80)).await;
    // At 0, 5, 15, 35 and 75 s; an aligned clock may make it one more.
    let sizes: Vec<usize> = cloud.calls().iter().map(Vec::len).collect();
    assert!(sizes.len() <= 6 && sizes.iter().all(|size| *size == 500), "{sizes:?}");
    assert_eq!(api.count("PATCH") + api.count("DELETE"), 0);
}

/// DigitalOcean lets a token ask 5,000 times an hour. Its provider asks for up to four machines one by one, for more by a
/// listing, whose answer serves all calls of half a minute.
#[tokio::test(start_paused = true)]
async fn do_279_fifty_nodes_in_trouble_cost_less_than_a_tenth_of_a_quota_of_5000() {
    let api = FakeApi::new();
    let cloud = Arc::new(FakeCloud::slow(Duration::from_millis(200)));
    for i in 0..50 {
        let name = format!("n{i:02}");
        cloud.answer(&name, [found(|instance| instance.state = InstanceState::Stopped)]);
        api.add(lost(&name).0);
    }
    run(&api, &cloud, NodeLifecycleSettings::default(), Duration::from_secs(3_600)).await;
    let sizes: Vec<usize> = cloud.calls().iter().map(Vec::len).collect();
    let single: usize = sizes.iter().filter(|size| **size <= 4).sum();
    assert!(single + 3_600 / 30 < 500, "{sizes:?}");
    // Each is asked about once a minute in the end.
    assert!((50 * 55..50 * 70).contains(&sizes.iter().sum::<usize>()), "{sizes:?}");
}

#[tokio::test(start_paused = true)]
async fn five_hundred_absent_machines_are_two_calls_and_one_delete_each() {
    let api = FakeApi::new();
    let cloud = Arc::new(FakeCloud::slow(Duration::from_millis(200)));
    for i in 0..500 {
        let name = format!("n{i:03}");
        cloud.answer(&name, [Finding::Absent]);
        api.add(lost(&name).0);
    }
    let settings = NodeLifecycleSettings { budget: unlimited(), ..NodeLifecycleSettings::default() };
    let metrics = run(&api, &cloud, settings, Duration::from_secs(7)).await;
    assert_eq!(cloud.needs(), [Need::Existence, Need::Proof]);
    assert_eq!((api.count("DELETE"), api.count("GET /api/v1/nodes/")), (500, 0));
    assert_eq!(metrics.events.written.get(), 500);
}

#[tokio::test(start_paused = true)]
async fn ready_nodes_cost_nothing() {
    let api = FakeApi::new();
    let cloud = Arc::new(FakeCloud::default());
    for i in 0..100 {
        api.add(node(&format!("n{i}")).aged(super::OLD).ready("True").provider_id("fake://1").0);
    }
    run(&api, &cloud, NodeLifecycleSettings::default(), Duration::from_secs(600)).await;
    assert_eq!((cloud.calls().len(), api.count("PATCH")), (0, 0));
}

/// The watch of this API server never tells anything, so it is time alone that brings the next look.
#[tokio::test(start_paused = true)]
async fn a_machine_that_stops_later_gets_its_taint_at_a_later_look() {
    let api = FakeApi::new();
    let cloud = Arc::new(FakeCloud::default());
    cloud.answer("n", [found(|_| ()), found(|_| ()), found(|instance| instance.state = InstanceState::Stopped)]);
    api.add(lost("n").0);
    run(&api, &cloud, NodeLifecycleSettings::default(), Duration::from_secs(18)).await;
    let taint = json!([{ "key": "node.cloudprovider.kubernetes.io/shutdown", "effect": "NoSchedule" }]);
    assert_eq!(api.json("n")["spec"]["taints"], taint);
    assert_eq!(api.calls().iter().filter(|call| call.line.starts_with("PATCH")).count(), 1);
}

/// It once was forgotten: a process that crashed again and again could have deleted every Node.
#[tokio::test(start_paused = true)]
async fn a_restart_knows_what_was_deleted_before_it_for_as_long_as_that_counts() {
    let (api, cloud) = (FakeApi::new(), Arc::new(FakeCloud::default()));
    for i in 0..12 {
        cloud.answer(&format!("n{i}"), [Finding::Absent]);
        api.add(lost(&format!("n{i}")).0);
    }
    let left = || (0..12).filter(|i| api.has(&format!("n{i}"))).count();
    let minute = Duration::from_secs(60);
    run(&api, &cloud, NodeLifecycleSettings::default(), minute).await;
    assert_eq!(left(), 9);
    run(&api, &cloud, NodeLifecycleSettings::default(), minute).await;
    assert_eq!(left(), 9, "a restart brought a new budget");
    // Somebody else's Events do not count, and old ones neither.
    api.with(|state| state.edit_events(&json!({ "reportingController": "somebody" })));
    run(&api, &cloud, NodeLifecycleSettings::default(), minute).await;
    assert_eq!(left(), 6);
    api.with(|state| state.edit_events(&json!({ "eventTime": "2020-01-01T00:00:00.000000Z" })));
    run(&api, &cloud, NodeLifecycleSettings::default(), minute).await;
    assert_eq!(left(), 3);
}

/// So many Nodes whose machines are absent.
pub(super) fn absent(count: usize) -> (FakeApi, Arc<FakeCloud>) {
    let (api, cloud) = absent_without_notes(count);
    add_notes(&api);
    (api, cloud)
}

/// The same without a place for notes.
fn absent_without_notes(count: usize) -> (FakeApi, Arc<FakeCloud>) {
    let (api, cloud) = (FakeApi::new(), Arc::new(FakeCloud::default()));
    for i in 0..count {
        cloud.answer(&format!("n{i}"), [Finding::Absent]);
        api.add(lost(&format!("n{i}")).0);
    }
    (api, cloud)
}

fn add_notes(api: &FakeApi) {
    api.with(|state| state.add_config_map(NAMESPACE, SHARED));
}

/// A leader that lost its Lease right after the deletions wrote no Event, and the next one began with a budget of its own.
#[tokio::test(start_paused = true)]
async fn the_next_leader_knows_of_deletions_that_no_event_tells_of_for_as_long_as_they_count() {
    let (api, cloud) = absent(12);
    let left = || (0..12).filter(|i| api.has(&format!("n{i}"))).count();
    let noted = || {
        let mut keys = vec![];
        api.with(|state| keys = state.config_map_data(NAMESPACE, SHARED).keys().cloned().collect());
        keys
    };
    // Another manager's, and what nobody can read.
    api.with(|state| {
        let data = state.config_map_data(NAMESPACE, SHARED);
        data.insert("node-deletion.ccm.other.uid-x".to_owned(), json!("{}"));
        data.insert("node-deletion.ccm.uid-y".to_owned(), json!("garbage"));
    });
    let minute = Duration::from_secs(60);
    api.refuse("POST /apis/events.k8s.io/v1/namespaces/default/events", 422, 1_000);
    run(&api, &cloud, NodeLifecycleSettings::default(), minute).await;
    assert_eq!((left(), noted().len(), api.raw_events().len()), (9, 4, 0), "what nobody can read has gone");
    run(&api, &cloud, NodeLifecycleSettings::default(), minute).await;
    assert_eq!(left(), 9, "another leader brought a new budget");
    let before = noted();
    api.with(|state| {
        let data = state.config_map_data(NAMESPACE, SHARED);
        let old = json!({ "at": "2020-01-01T00:00:00Z", "providerId": "fake://x" }).to_string();
        data.values_mut().for_each(|value| *value = json!(old));
    });
    run(&api, &cloud, NodeLifecycleSettings::default(), minute).await;
    let after = noted();
    let stays: Vec<&str> = before.iter().filter(|key| after.contains(key)).map(String::as_str).collect();
    assert_eq!((left(), after.len(), stays), (6, 4, vec!["node-deletion.ccm.other.uid-x"]));
}

/// Whoever is killed between the two has not deleted what nobody knows of.
#[tokio::test(start_paused = true)]
async fn deletions_are_noted_before_they_happen_many_in_one_request() {
    let (api, cloud) = absent(500);
    let settings = NodeLifecycleSettings { budget: unlimited(), ..NodeLifecycleSettings::default() };
    run(&api, &cloud, settings, Duration::from_secs(7)).await;
    let lines = api.lines();
    let first = |verb: &str| lines.iter().position(|line| line.starts_with(verb));
    assert!(first("PATCH") < first("DELETE"), "{lines:?}");
    assert_eq!(api.count("DELETE"), 500);
    assert!(api.count(&format!("PATCH {NOTES}")) <= 3, "{}", api.count("PATCH"));
    api.with(|state| assert_eq!(state.config_map_data(NAMESPACE, SHARED).len(), 500));
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_deletion_may_not_be_noted_stays_until_it_is() {
    let (api, cloud) = absent(1);
    api.refuse(&format!("PATCH {NOTES}"), 503, 2);
    run(&api, &cloud, NodeLifecycleSettings::default(), Duration::from_secs(6)).await;
    let patches = || api.count(&format!("PATCH {NOTES}"));
    assert_eq!((api.has("n0"), api.count("DELETE"), patches()), (true, 0, 1));
    let told: Vec<String> = api.events();
    assert!(told[0].starts_with("Warning DeletingNodeFailed: Failed deleting node n0: the next leader"), "{told:?}");
    run(&api, &cloud, NodeLifecycleSettings::default(), Duration::from_secs(60)).await;
    assert_eq!((api.has("n0"), api.count("DELETE"), patches()), (false, 1, 3));
}

/// An older Role, or a ConfigMap that somebody has removed: Nodes are deleted as before.
#[tokio::test(start_paused = true)]
async fn where_nothing_can_be_noted_nodes_are_deleted_and_it_is_said_once() {
    for status in [403, 404, 422] {
        let (api, cloud) = absent(3);
        api.refuse(NOTES, status, 100);
        let log = Log::start();
        run(&api, &cloud, NodeLifecycleSettings::default(), Duration::from_secs(60)).await;
        assert_eq!(api.count("DELETE"), 2, "half of them: {status}");
        assert_eq!(log.lines("cannot be noted in the ConfigMap kube-system/shared").len(), 1, "{status}");
    }
}

/// It began with a budget that nobody had touched, and so it did after one refusal of an API server that had just started.
#[tokio::test(start_paused = true)]
async fn no_node_is_deleted_before_it_is_known_what_the_last_leader_deleted() {
    let (minute, notes) = (Duration::from_secs(60), format!("GET {NOTES}"));
    // It is away, it starts, and it starts twice with a long time away between the two.
    let refusals: [&[(u16, usize)]; 3] = [&[(503, 5)], &[(403, 5)], &[(403, 1), (503, 7), (403, 1)]];
    for (asked, refused) in [&*notes, EVENTS].into_iter().flat_map(|asked| refusals.map(|refused| (asked, refused))) {
        let (api, cloud) = absent(12);
        run(&api, &cloud, NodeLifecycleSettings::default(), minute).await;
        let (gone, before) = (api.count("DELETE"), api.count(asked));
        // The other place knows nothing.
        api.with(|state| match asked {
            EVENTS => state.config_map_data(NAMESPACE, SHARED).clear(),
            _ => state.edit_events(&json!({ "reportingController": "somebody" })),
        });
        refused.iter().for_each(|(status, times)| api.refuse(asked, *status, *times));
        run(&api, &cloud, NodeLifecycleSettings::default(), minute * 2).await;
        assert_eq!((gone, api.count("DELETE")), (3, 3), "{asked}: {refused:?}");
        let times = refused.iter().map(|(_, times)| times).sum::<usize>() + 1;
        assert_eq!(api.count(asked) - before, times, "it is asked until there is an answer");
    }
}

/// One time that the Events gave no answer was enough for a second budget. So it was where the ConfigMap could be read all the same.
#[tokio::test(start_paused = true)]
async fn where_nothing_is_noted_no_node_is_deleted_before_the_events_tell_what_the_last_leader_deleted() {
    type Act = fn(&FakeApi);
    let cases: [(&str, Act, Act); 4] = [
        ("there is no ConfigMap", |_| (), |_| ()),
        ("there is one after the change of leader", |_| (), add_notes),
        ("there is no right to it", |api| api.refuse(NOTES, 403, 1_000), |_| ()),
        (
            "there is no right to write there",
            |api| {
                add_notes(api);
                api.refuse(&format!("PATCH {NOTES}"), 403, 1_000);
            },
            |_| (),
        ),
    ];
    for (why, first, then) in cases {
        let (api, cloud) = absent_without_notes(12);
        let minute = Duration::from_secs(60);
        first(&api);
        run(&api, &cloud, NodeLifecycleSettings::default(), minute).await;
        let (gone, before) = (api.count("DELETE"), api.count(EVENTS));
        then(&api);
        api.refuse(EVENTS, 503, 5);
        run(&api, &cloud, NodeLifecycleSettings::default(), minute).await;
        assert_eq!((gone, api.count("DELETE")), (3, 3), "{why}");
        assert!(api.count(EVENTS) - before > 5, "they are asked for until there is an answer: {why}");
    }
}

/// With its Events in an etcd of their own that was down, a cluster had no node lifecycle at all.
#[tokio::test(start_paused = true)]
async fn where_it_cannot_be_known_what_was_deleted_nodes_are_deleted_when_that_counts_no_more() {
    let (period, minute) = (DeletionBudget::default().period, Duration::from_secs(60));
    for asked in [EVENTS, &*format!("GET {NOTES}")] {
        let (api, cloud) = absent(1);
        api.refuse(asked, 503, 2_000);
        for (time, is_there) in [(period, true), (period + minute, false)] {
            run(&api, &cloud, NodeLifecycleSettings::default(), time).await;
            assert_eq!(api.has("n0"), is_there, "{asked}, after {time:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_was_not_deleted_after_all_is_not_noted_any_more_with_the_next_one() {
    let (api, cloud) = absent(2);
    api.refuse("DELETE /api/v1/nodes/n0", 422, 1);
    let budget = DeletionBudget { percent: 0, min: 1, ..DeletionBudget::default() };
    let settings = NodeLifecycleSettings { budget, ..NodeLifecycleSettings::default() };
    run(&api, &cloud, settings, Duration::from_secs(60)).await;
    assert_eq!((api.has("n0"), api.has("n1")), (true, false));
    api.with(|state| {
        let keys: Vec<String> = state.config_map_data(NAMESPACE, SHARED).keys().cloned().collect();
        assert_eq!(keys, ["node-deletion.ccm.uid-n1"]);
    });
}

#[tokio::test(start_paused = true)]
async fn without_the_right_to_read_events_nodes_are_deleted_all_the_same() {
    let (api, cloud) = absent_without_notes(1);
    api.refuse(EVENTS, 403, 1_000);
    run(&api, &cloud, NodeLifecycleSettings::default(), Duration::from_secs(60)).await;
    assert!(!api.has("n0"));
}

/// They waited for up to a minute, after an outage that may have cost their machines.
#[tokio::test(start_paused = true)]
async fn a_node_whose_cloud_answers_again_is_looked_at_at_once_and_others_when_it_is_their_turn() {
    let (api, cloud) = (FakeApi::new(), Arc::new(FakeCloud::default()));
    cloud.answer("down", [unknown(Reaction::Quota), Finding::Absent]);
    cloud.answer("absent", [Finding::Absent]);
    cloud.answer("running", [found(|_| ())]);
    for name in ["down", "absent", "running"] {
        api.add(lost(name).0);
    }
    let recovered = watch::Sender::new(0);
    let settings = NodeLifecycleSettings {
        slow_retry: Duration::from_secs(600),
        second_look: Duration::from_secs(300),
        monitor_period: Duration::from_secs(100),
        max_monitor_period: Duration::from_secs(100),
        ..NodeLifecycleSettings::default()
    };
    let work = run_with(&api, &cloud, settings, Duration::from_secs(90), vec![recovered.subscribe()]);
    let back = async {
        tokio::time::sleep(Duration::from_secs(20)).await;
        assert_eq!(cloud.asked(), ["absent", "down", "running"]);
        recovered.send_replace(1);
        tokio::time::sleep(Duration::from_secs(20)).await;
        assert_eq!(cloud.asked(), ["absent", "down", "down", "running"]);
        // It has an answer now; the second look keeps its distance whatever the cloud does.
        recovered.send_replace(2);
    };
    tokio::join!(work, back);
    assert_eq!(cloud.asked(), ["absent", "down", "down", "running"]);
    assert!(api.has("down"), "one answer is not enough");
}

/// 95: one that cannot be deleted holds up no other, and neither does its back-off.
#[tokio::test(start_paused = true)]
async fn case_95_of_two_absent_machines_the_second_ones_node_goes_although_the_first_delete_never_succeeds() {
    let (api, cloud) = (FakeApi::new(), Arc::new(FakeCloud::slow(Duration::from_millis(200))));
    for i in 0..18 {
        api.add(node(&format!("ready{i}")).aged(super::OLD).ready("True").provider_id("fake://1").0);
    }
    for name in ["first", "second"] {
        cloud.answer(name, [Finding::Absent]);
        api.add(lost(name).0);
    }
    api.refuse("DELETE /api/v1/nodes/first", 500, 1_000);
    run(&api, &cloud, NodeLifecycleSettings::default(), Duration::from_secs(60)).await;
    assert_eq!((api.has("first"), api.has("second")), (true, false));
    assert!(api.count("DELETE /api/v1/nodes/first") > 1, "it is tried again");
    let told = |name: &str| -> Vec<String> {
        let about = api.raw_events().into_iter().filter(|event| event["regarding"]["name"] == name);
        about.map(|event| event["reason"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(
        (told("first"), told("second")),
        (vec!["DeletingNode".to_owned(), "DeletingNodeFailed".to_owned()], vec!["DeletingNode".to_owned()])
    );
}

/// Nobody took the keys meanwhile, and a full channel holds up the watch: no controller heard of any Node.
#[tokio::test(start_paused = true)]
async fn while_the_deletions_of_before_are_read_all_others_hear_of_nodes() {
    let api = FakeApi::new();
    api.silence("/events");
    for i in 0..1_500 {
        api.add(node(&format!("n{i:04}")).ready("True").0);
    }
    let cloud = Arc::new(FakeCloud::default());
    let hears = |nodes: &mut Reflector<Node>, _| {
        let mut others = nodes.subscribe();
        let all = async move {
            for _ in 0..1_500 {
                others.recv().await.unwrap();
            }
            // Whoever does not take what comes later would hold up the watch.
            others
        };
        async { tokio::time::timeout(Duration::from_secs(1), all).await.is_ok() }
    };
    let (settings, time) = (NodeLifecycleSettings::default(), Duration::from_secs(3));
    assert!(run_beside(&api, &cloud, settings, time, vec![], hears).await.1);
}
