use std::convert::Infallible;

use ccm_apiserver::ApiGateSettings;
use ccm_cloud::BatchSettings;
use ccm_controllers::{
    AddressSources, ClusterSettings, JournalPlace, Metrics, NodeLifecycleSettings, NodeSettings, Reflector,
    ServiceSettings,
};
use http::{Request, Response};
use kube::client::Body;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::sealed;

mod pace;

const SECOND: Duration = Duration::from_secs(1);

fn node(change: &Value) -> Node {
    let mut node = json!({
        "metadata": { "name": "n1", "uid": "1", "resourceVersion": "7", "labels": {}, "annotations": {} },
        "status": { "conditions": [{ "type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-02T03:04:05Z" }] },
    });
    for (path, value) in change.as_object().unwrap() {
        let (parent, name) = path.rsplit_once('/').unwrap();
        node.pointer_mut(parent).unwrap()[name] = value.clone();
    }
    serde_json::from_value(node).unwrap()
}

#[test]
fn a_heartbeat_is_no_change_and_only_what_others_depend_on_is_looked_at_with_them() {
    let mut seen = Seen { nodes: HashMap::new(), services: HashMap::new() };
    let heartbeat = json!({
        "/metadata/resourceVersion": "8",
        "/status/conditions/0/lastHeartbeatTime": "2026-01-02T03:09:05Z",
    });
    for (change, expected) in [
        (json!({}), NodeChange::Shared),
        (heartbeat, NodeChange::None),
        (json!({ "/metadata/annotations": { "a": "b" } }), NodeChange::Own),
        (json!({ "/metadata/labels": { "a": "b" } }), NodeChange::Shared),
        (json!({ "/status/conditions/0/status": "False" }), NodeChange::Shared),
        (json!({ "/status/conditions/0/status": "False" }), NodeChange::None),
    ] {
        assert_eq!(seen.node("n1", Some(&node(&change))), expected, "{change}");
    }
    assert_eq!([0; 2].map(|_: i32| seen.node("n1", None)), [NodeChange::Shared, NodeChange::None]);
    let service = |version: &str| -> Service {
        serde_json::from_value(json!({ "metadata": { "name": "web", "resourceVersion": version } })).unwrap()
    };
    let key = || ("default".to_owned(), "web".to_owned());
    let told = [Some("1"), Some("1"), Some("2"), None, None].map(|version| {
        let service = version.map(&service);
        seen.service(key(), service.as_ref())
    });
    assert_eq!(told, [true, false, true, true, false]);
}

/// A provider whose slot is gone would once have been asked without end whether it changed.
#[tokio::test(start_paused = true)]
async fn who_is_gone_changes_nothing_any_more() {
    let (one, other) = (watch::Sender::new(0), watch::Sender::new(0));
    let mut receivers = vec![one.subscribe(), other.subscribe()];
    drop(one);
    let changed_once = async { tokio::time::timeout(SECOND, changed(&mut receivers)).await };
    assert!(changed_once.await.is_err());
    other.send_replace(1);
    changed(&mut receivers).await;
    drop(other);
    assert!(tokio::time::timeout(SECOND, changed(&mut receivers)).await.is_err());
    assert_eq!(receivers.len(), 0);
}

/// An API server with one Node that nobody initialises, and what it was asked, without watches.
fn server() -> (Client, Arc<Mutex<Vec<String>>>) {
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let told = Arc::clone(&asked);
    let service = tower::service_fn(move |request: Request<Body>| {
        let told = Arc::clone(&told);
        async move {
            let query = request.uri().query().unwrap_or_default();
            if query.contains("watch=") {
                std::future::pending().await
            }
            let path = request.uri().path();
            told.lock().push(format!("{} {path}", request.method()));
            let taint = json!({ "key": "node.cloudprovider.kubernetes.io/uninitialized", "effect": "NoSchedule" });
            let node = json!({ "metadata": { "name": "n1", "uid": "1" }, "spec": { "taints": [taint] } });
            let items = if path == "/api/v1/nodes" { vec![node] } else { vec![] };
            let list = json!({ "metadata": { "resourceVersion": "7" }, "items": items });
            Ok::<_, Infallible>(Response::new(Body::from(list.to_string().into_bytes())))
        }
    });
    (sealed(&Client::new(service, "default")), asked)
}

/// In an hour in which nothing happens and one Node stays as it is.
#[tokio::test(start_paused = true)]
async fn it_looks_again_after_the_periods_of_run_and_does_not_spin() {
    let (client, asked) = server();
    let mut registry = Registry::default();
    let pending = Pending::register(&mut registry, &[Kind::Node, Kind::Service, Kind::Cluster]);
    let metrics = Metrics::register(&mut Registry::default());
    let (nodes, services) =
        (Reflector::new(client.clone(), &metrics.store), Reflector::new(client.clone(), &metrics.store));
    let journal: Arc<Journal> = Arc::default();
    let parts = DryRunParts {
        client,
        journal,
        pending: pending.clone(),
        providers: Box::new(Vec::new),
        changes: vec![],
        nodes: nodes.handle(),
        services: services.handle(),
        addresses: ClusterAddresses::new(AddressSources::default()),
        controllers: Controllers { node: true, node_lifecycle: true, service: true, cluster: true },
        settings: Settings {
            gate: ApiGateSettings::default(),
            batches: BatchSettings::default(),
            node: NodeSettings::default(),
            node_lifecycle: NodeLifecycleSettings::default(),
            deletions: JournalPlace {
                namespace: "kube-system".to_owned(),
                config_map: "components".to_owned(),
                manager: "ccm".to_owned(),
            },
            service: ServiceSettings::default(),
            route: None,
            cluster: ClusterSettings::default(),
        },
        periods: Periods {
            nodes: 300 * SECOND,
            nodes_again: (5 * SECOND, 60 * SECOND),
            services: 3_600 * SECOND,
            services_again: (5 * SECOND, 300 * SECOND),
            routes: 300 * SECOND,
            cluster: 300 * SECOND,
        },
        is_talkative: false,
    };
    let listed = [nodes.first_list(), services.first_list()];
    let (stop, mut readers) = (CancellationToken::new(), JoinSet::new());
    readers.spawn(nodes.run(stop.clone()));
    readers.spawn(services.run(stop.clone()));
    for list in listed {
        assert!(list.complete().await);
    }
    let before = asked.lock().len();
    assert!(tokio::time::timeout(3_600 * SECOND, dry_run(parts)).await.is_err(), "it never ends");
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    let looks = text.lines().find_map(|line| line.strip_prefix("ccm_dry_run_looks_total "));
    let looks: usize = looks.unwrap().parse().unwrap();
    // One Node: 4 looks in the first 75 s, then each minute. All of them: every 5 min, with what goes for all Nodes. Routes and cluster: as often.
    assert!((60..=110).contains(&looks), "{looks} looks");
    let asked = asked.lock().split_off(before);
    assert!(asked.iter().all(|request| request.starts_with("GET ")), "{asked:?}");
    assert!((looks / 2..=3 * looks).contains(&asked.len()), "{} requests: {asked:?}", asked.len());
}
