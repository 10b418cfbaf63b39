use std::convert::Infallible;

use ccm_apiserver::ApiGateSettings;
use ccm_cloud::BatchSettings;
use ccm_controllers::{
    AddressSources, ClusterSettings, JournalPlace, Metrics, NodeLifecycleSettings, NodeSettings, Reflector,
    ServiceSettings,
};
use http::{Response, StatusCode};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::looking::Looking;
use crate::sealed;

mod greedy;
mod hangs;
mod many;
mod pace;
mod provider;
mod reads;
mod routes;
mod watchdog;

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

/// What it was asked, without watches.
type Asked = Arc<Mutex<Vec<String>>>;
/// What a watch says next: the type of an event, and its object.
type Watch = mpsc::UnboundedSender<(&'static str, Value)>;

/// An API server with one Node that nobody initialises, and the watches of its Nodes and Services.
fn server() -> (Client, Asked, [Watch; 2]) {
    let asked: Asked = Arc::default();
    let told = Arc::clone(&asked);
    let (nodes, of_nodes) = mpsc::unbounded_channel();
    let (services, of_services) = mpsc::unbounded_channel();
    let watches = Arc::new([of_nodes, of_services].map(tokio::sync::Mutex::new));
    let service = tower::service_fn(move |request: Request<Body>| {
        let (told, watches) = (Arc::clone(&told), Arc::clone(&watches));
        async move {
            let query = request.uri().query().unwrap_or_default();
            let path = request.uri().path();
            if query.contains("watch=") {
                // One event, and the watch ends; the next one goes on.
                let watch = &watches[usize::from(path == "/api/v1/services")];
                return match watch.lock().await.recv().await {
                    Some((kind, object)) => {
                        let event = format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n");
                        Ok(Response::new(Body::from(event.into_bytes())))
                    }
                    None => std::future::pending().await,
                };
            }
            told.lock().push(format!("{} {path}", request.method()));
            let taint = json!({ "key": "node.cloudprovider.kubernetes.io/uninitialized", "effect": "NoSchedule" });
            let node = json!({ "metadata": { "name": "n1", "uid": "1" }, "spec": { "taints": [taint] } });
            let items = if path == "/api/v1/nodes" { vec![node] } else { vec![] };
            let list = json!({ "metadata": { "resourceVersion": "7" }, "items": items });
            Ok::<_, Infallible>(Response::new(Body::from(list.to_string().into_bytes())))
        }
    });
    (sealed(&Client::new(service, "default")), asked, [nodes, services])
}

/// A dry run of this API server, with all that is in it by now.
struct Bench {
    parts: DryRunParts,
    registry: Registry,
    _readers: JoinSet<()>,
}

async fn bench(client: Client, changes: Vec<watch::Receiver<u64>>) -> Bench {
    let mut registry = Registry::default();
    let pending = Pending::register(&mut registry, &[Kind::Node, Kind::Service, Kind::Cluster]);
    let metrics = Metrics::register(&mut Registry::default());
    let (nodes, services) =
        (Reflector::new(client.clone(), &metrics.store), Reflector::new(client.clone(), &metrics.store));
    let parts = DryRunParts {
        client,
        journal: Arc::default(),
        pending,
        pulses: Pulses::default(),
        providers: Box::new(Vec::new),
        changes,
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
    let mut readers = JoinSet::new();
    readers.spawn(nodes.run(CancellationToken::new()));
    readers.spawn(services.run(CancellationToken::new()));
    for list in listed {
        assert!(list.complete().await);
    }
    Bench { parts, registry, _readers: readers }
}

/// How often it looked.
fn looks(registry: &Registry) -> usize {
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, registry).unwrap();
    let looks = text.lines().find_map(|line| line.strip_prefix("ccm_dry_run_looks_total "));
    looks.unwrap().parse().unwrap()
}

/// In an hour in which nothing happens and one Node stays as it is.
#[tokio::test(start_paused = true)]
async fn it_looks_again_after_the_periods_of_run_and_does_not_spin() {
    let (client, asked, _watches) = server();
    let Bench { parts, registry, _readers } = bench(client, vec![]).await;
    let before = asked.lock().len();
    assert!(tokio::time::timeout(3_600 * SECOND, dry_run(parts)).await.is_err(), "it never ends");
    let looks = looks(&registry);
    // One Node: 4 looks in the first 75 s, then each minute. All of them: every 5 min, with what goes for all Nodes. Routes and cluster: as often.
    assert!((60..=110).contains(&looks), "{looks} looks");
    let asked = asked.lock().split_off(before);
    assert!(asked.iter().all(|request| request.starts_with("GET ")), "{asked:?}");
    assert!((looks / 2..=3 * looks).contains(&asked.len()), "{} requests: {asked:?}", asked.len());
}

/// What is heard from now on, until `told` is over.
async fn hearing(parts: &mut DryRunParts, told: impl AsyncFnOnce(&Mutex<Agenda>, &Notify)) {
    let changes = std::mem::take(&mut parts.changes);
    let (agenda, news) = (Mutex::default(), Notify::new());
    tokio::select! {
        () = hear(parts, Seen::of(parts), changes, &agenda, &news) => panic!("it listens no more"),
        () = told(&agenda, &news) => {}
    }
}

/// Without these, what is there to write shows after minutes or hours, and nothing says so.
#[tokio::test(start_paused = true)]
async fn what_changes_is_looked_at_soon_with_all_that_hangs_on_it() {
    let (client, _, [nodes, services]) = server();
    let offers = watch::Sender::new(0);
    let mut bench = bench(client, vec![offers.subscribe()]).await;
    let of_node = |kind: &'static str, name: &str, change: Value| {
        let metadata = json!({ "name": name, "uid": "1", "resourceVersion": "8", "annotations": change });
        nodes.send((kind, json!({ "metadata": metadata }))).unwrap();
    };
    let of_service = |kind: &'static str, version: &str| {
        let service = json!({ "metadata": { "namespace": "default", "name": "web", "resourceVersion": version } });
        services.send((kind, service)).unwrap();
    };
    let (node, service) = (|name: &str| Look::Node(name.to_owned()), || Look::Service("default".into(), "web".into()));
    // A look, and after how many seconds.
    let shared = |name: &str| vec![(node(name), 1), (Look::Routes, 1), (Look::Cluster, 1), (Look::Services, 5)];
    let told = async |agenda: &Mutex<Agenda>, news: &Notify| {
        let expect = async |what: &str, looks: Vec<(Look, u32)>| {
            let begun = Instant::now();
            news.notified().await;
            let due =
                |after: u32| agenda.lock().take(begun + after * SECOND).into_iter().map(move |look| (look, after));
            let heard: Vec<(Look, u32)> = (0..=5).flat_map(due).collect();
            assert_eq!((heard, agenda.lock().next()), (looks, None), "{what}");
            // What changes next, changes later.
            tokio::time::advance(60 * SECOND).await;
        };
        of_node("MODIFIED", "n1", json!({}));
        expect("its taint is gone", shared("n1")).await;
        of_node("MODIFIED", "n1", json!({ "a": "b" }));
        expect("an annotation", vec![(node("n1"), 1)]).await;
        // The same once more is nothing to look at.
        of_node("MODIFIED", "n1", json!({ "a": "b" }));
        of_node("ADDED", "n2", json!({}));
        expect("a Node joins", shared("n2")).await;
        of_node("DELETED", "n2", json!({}));
        expect("a Node leaves", shared("n2")).await;
        // The cluster as a whole is told of Services that come and go, and not of each version.
        for (kind, version, is_told) in [("ADDED", "9", true), ("MODIFIED", "10", false), ("DELETED", "11", true)] {
            of_service(kind, version);
            let of_all = is_told.then_some((Look::Cluster, 1));
            expect(kind, [(service(), 1)].into_iter().chain(of_all).collect()).await;
        }
        offers.send_replace(1);
        let all = [Look::Nodes, Look::Services, Look::Routes, Look::Cluster];
        expect("a provider", all.map(|look| (look, 1)).to_vec()).await;
    };
    hearing(&mut bench.parts, told).await;
}

/// One that was deleted or has another type now has a load balancer that is to be deleted.
#[tokio::test(start_paused = true)]
async fn a_service_with_the_finalizer_is_looked_at_whatever_its_type() {
    let (client, _, [_nodes, services]) = server();
    let bench = bench(client, vec![]).await;
    let mut stored = bench.parts.services.subscribe();
    let finalizer = "service.kubernetes.io/load-balancer-cleanup";
    for (name, kind, finalizers) in
        [("inside", "ClusterIP", vec![]), ("left", "ClusterIP", vec![finalizer]), ("new", "LoadBalancer", vec![])]
    {
        let metadata =
            json!({ "namespace": "default", "name": name, "resourceVersion": "8", "finalizers": finalizers });
        let service = json!({ "metadata": metadata, "spec": { "type": kind } });
        services.send(("ADDED", service)).unwrap();
        stored.recv().await.unwrap();
    }
    let names = ["left", "new"].map(|name| ("default".to_owned(), name.to_owned()));
    assert_eq!(services_of(&bench.parts, &BTreeSet::from([Look::Services])), names);
}
