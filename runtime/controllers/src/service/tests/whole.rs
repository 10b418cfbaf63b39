//! The whole controller: lists, passes, queue, calls, writes.

mod nodes;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use ccm_cloud::Reaction;
use kube::runtime::reflector::store::Writer;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::*;
use crate::service::{LoadBalancerMembers, ServiceController, ServiceControllerParts, ServiceMemory};
use crate::store::FirstList;

/// How far the watches are behind.
const LAG: Duration = Duration::from_millis(10);

/// A cluster and a cloud in which a controller runs.
pub(super) struct World {
    pub(super) api: FakeApi,
    pub(super) cloud: Arc<FakeBalancers>,
    pub(super) settings: ServiceSettings,
    /// Its place among the providers, and the others.
    pub(super) place: usize,
    pub(super) others: BTreeMap<usize, Arc<FakeBalancers>>,
    /// What a controller knew before; none in a new process.
    pub(super) memory: Option<ServiceMemory>,
    nodes: Writer<Node>,
    node_keys: Option<mpsc::Sender<ObjectRef<Node>>>,
    recovered: watch::Sender<u64>,
    pub(super) exchanged: watch::Sender<u64>,
    services_listed: FirstList,
    nodes_listed: FirstList,
}

impl World {
    pub(super) fn new(cloud: FakeBalancers) -> Self {
        let mut nodes = Writer::<Node>::default();
        nodes.apply_watcher_event(&Event::Init);
        nodes.apply_watcher_event(&Event::InitDone);
        Self {
            api: FakeApi::new(),
            cloud: Arc::new(cloud),
            settings: ServiceSettings { verify_period: Duration::ZERO, ..ServiceSettings::default() },
            place: 0,
            others: BTreeMap::new(),
            memory: None,
            nodes,
            node_keys: None,
            recovered: watch::Sender::new(0),
            exchanged: watch::Sender::new(0),
            services_listed: FirstList::there(),
            nodes_listed: FirstList::there(),
        }
    }

    pub(super) fn service(self, draft: Draft) -> Self {
        self.api.add_service(draft.0);
        self
    }

    pub(super) async fn node(&mut self, draft: Draft) {
        let node: Node = draft.object();
        let key = ObjectRef::new(&node.name);
        self.nodes.apply_watcher_event(&Event::Apply(node));
        if let Some(keys) = &self.node_keys {
            keys.send(key).await.unwrap();
        }
    }

    fn members(&self) -> LoadBalancerMembers {
        let own = [(self.place, &self.cloud)];
        let all = own.into_iter().chain(self.others.iter().map(|(place, cloud)| (*place, cloud)));
        let member =
            |cloud: &Arc<FakeBalancers>| LoadBalancerMember { provider: Arc::clone(cloud) as _, classes: vec![] };
        all.map(|(place, cloud)| (place, member(cloud))).collect()
    }

    /// Runs a controller while `story` goes on, then stops it.
    pub(super) async fn run(&mut self, story: impl AsyncFnOnce(&mut Self)) -> Metrics {
        let metrics = Metrics::register(&mut Registry::default());
        let gate = ApiGate::new(self.api.client.clone(), metrics.api.clone(), ApiGateSettings::default());
        let (recorder, _events) = EventRecorder::new(gate.clone(), metrics.events.clone(), EventSettings::default());
        let (services, mut store) = reflector::store::<Service>();
        for service in self.api.services() {
            store.apply_watcher_event(&Event::Apply(service));
        }
        let (service_sender, service_keys) = mpsc::channel(1_024);
        let (node_sender, node_keys) = mpsc::channel(1_024);
        self.node_keys = Some(node_sender);
        self.cloud.watch(self.nodes.as_reader());
        let controller = ServiceController::new(ServiceControllerParts {
            gate,
            services,
            services_listed: self.services_listed.clone(),
            service_keys,
            nodes: self.nodes.as_reader(),
            nodes_listed: self.nodes_listed.clone(),
            node_keys,
            members: self.members(),
            memory: self.memory.clone().unwrap_or_else(|| ServiceMemory::new(&metrics.service, &self.services_listed)),
            recoveries: vec![self.recovered.subscribe()],
            exchanges: vec![self.exchanged.subscribe()],
            recorder,
            metrics: metrics.service.clone(),
            queue_metrics: metrics.queue.clone(),
            cluster_addresses: ClusterAddresses::new(AddressSources::default()),
            settings: self.settings,
        });
        let stop = CancellationToken::new();
        let mut services = self.api.watched();
        let watching = async move {
            let mut known: BTreeMap<String, Service> = BTreeMap::new();
            loop {
                tokio::time::sleep(LAG).await;
                let Some(newest) = services() else { continue };
                let gone: Vec<String> = known.keys().filter(|name| !newest.contains_key(*name)).cloned().collect();
                for name in gone {
                    store.apply_watcher_event(&Event::Delete(known.remove(&name).unwrap()));
                    drop(service_sender.send(key(&name)).await);
                }
                for (name, service) in newest {
                    if known.get(&name) != Some(&service) {
                        store.apply_watcher_event(&Event::Apply(service.clone()));
                        drop(service_sender.send(key(&name)).await);
                        known.insert(name, service);
                    }
                }
            }
        };
        let story = async {
            story(self).await;
            stop.cancel();
        };
        let watching = stop.run_until_cancelled(watching);
        drop(tokio::join!(controller.run(stop.clone()), watching, story).0);
        self.node_keys = None;
        metrics
    }

    /// Waits until all of these Services have an address.
    pub(super) async fn addressed(&self, names: &[String]) -> Duration {
        let begun = Instant::now();
        let has_address =
            |name: &String| self.api.service(name).unwrap()["status"]["loadBalancer"]["ingress"].is_array();
        while !names.iter().all(has_address) {
            tokio::time::sleep(LAG).await;
            assert!(begun.elapsed() < Duration::from_secs(600), "no address");
        }
        begun.elapsed()
    }

    pub(super) fn hosts(&self) -> Vec<String> {
        let mut hosts: Vec<String> = self.cloud.balancers().values().map(|balancer| balancer.hosts.join(" ")).collect();
        hosts.dedup();
        hosts
    }
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|i| format!("s{i:02}")).collect()
}

pub(super) async fn seconds(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

pub(super) fn slow(millis: u64) -> FakeBalancers {
    FakeBalancers { delay: Duration::from_millis(millis), ..FakeBalancers::default() }
}

#[tokio::test(start_paused = true)]
async fn fifty_services_are_served_side_by_side_get_each_new_node_once_and_cost_nothing_after_a_restart() {
    let mut world = World::new(slow(1_000));
    for name in names(50) {
        world = world.service(service(&name));
    }
    world.node(node("n0")).await;
    world
        .run(async |world: &mut World| {
            let took = world.addressed(&names(50)).await;
            assert!(took < Duration::from_millis(2_500), "{took:?}: two rounds of 32");
            assert_eq!(world.cloud.take_calls().len(), 50);
            assert_eq!(world.cloud.most(), 32);
            assert_eq!(world.api.count("PATCH"), 100);
            // Three Nodes join at about the same time.
            for name in ["n1", "n2", "n3"] {
                world.node(node(name)).await;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            seconds(4).await;
            let calls = world.cloud.take_calls();
            assert_eq!(calls.len(), 50, "{calls:?}");
            assert!(calls.iter().all(|call| call.starts_with("update") && call.ends_with(": n0 n1 n2 n3")));
            assert_eq!(world.hosts(), ["n0 n1 n2 n3"]);
        })
        .await;
    let patches = world.api.count("PATCH");
    world
        .run(async |world: &mut World| {
            seconds(30).await;
            world.api.add_service(service("new").0);
            world.addressed(&["new".into()]).await;
        })
        .await;
    assert_eq!(world.cloud.calls(), ["ensure new: n0 n1 n2 n3"]);
    assert_eq!(world.api.count("PATCH") - patches, 2);
}

#[tokio::test(start_paused = true)]
async fn every_load_balancer_gets_the_node_although_half_of_the_updates_fail_first() {
    let mut world = World::new(slow(50));
    for name in names(50) {
        world = world.service(service(&name));
    }
    world.node(node("n0")).await;
    world
        .run(async |world: &mut World| {
            world.addressed(&names(50)).await;
            for name in names(50).iter().step_by(2) {
                world.cloud.fail(
                    "update",
                    name,
                    [failure(Reaction::Throttled, "slow down"), failure(Reaction::Retry, "down")],
                );
            }
            world.node(node("n1")).await;
            seconds(60).await;
            assert_eq!(world.hosts(), ["n0 n1"]);
            assert_eq!((world.cloud.count("update"), world.cloud.count("ensure")), (25 + 25 * 2, 50 + 25));
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn cases_148_and_149_nothing_is_done_before_both_lists_are_complete() {
    for places in [ServiceSettings::default().concurrent_syncs, NonZeroUsize::MIN] {
        let (services, services_listed) = watch::channel(Err("not yet".to_owned()));
        let (nodes, nodes_listed) = watch::channel(Err("not yet".to_owned()));
        let mut world = World::new(FakeBalancers::default()).service(service("web"));
        world.services_listed = FirstList::of(services_listed);
        world.nodes_listed = FirstList::of(nodes_listed);
        world.settings.concurrent_syncs = places;
        world
            .run(async |world: &mut World| {
                seconds(60).await;
                drop(services.send_replace(Ok(())));
                seconds(60).await;
                // More keys than the channels hold: whoever waits must keep reading.
                for i in 0..2_000 {
                    world.node(node(&format!("n{}", i % 2))).await;
                }
                assert_eq!((world.cloud.calls().len(), world.api.count("PATCH")), (0, 0));
                drop(nodes.send_replace(Ok(())));
                world.addressed(&["web".into()]).await;
                assert_eq!(world.cloud.calls(), ["ensure web: n0 n1"]);
            })
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_does_not_matter_wakes_nobody() {
    let mut world = World::new(FakeBalancers::default()).service(service("web"));
    world.node(node("n0")).await;
    let metrics = world
        .run(async |world: &mut World| {
            world.addressed(&["web".into()]).await;
            seconds(1).await;
            for i in 0..100 {
                world.node(node("n0").label("heartbeat", &i.to_string())).await;
                seconds(1).await;
            }
            // Deliberate: draining relies on health checks.
            world.node(node("n0").taint("ToBeDeletedByClusterAutoscaler")).await;
            seconds(10).await;
            assert_eq!(world.cloud.take_calls(), ["ensure web: n0"]);
            // Something else causes a pass, which sees it.
            world.node(node("n1")).await;
            seconds(1).await;
            assert_eq!(world.cloud.take_calls(), ["update web: n1"]);
        })
        .await;
    assert_eq!(metrics.service.updates.get(), 1);
}

#[tokio::test(start_paused = true)]
async fn services_with_a_lock_in_common_are_handled_one_after_another() {
    let cloud = FakeBalancers { locks: vec!["network".into(), "router".into()], ..slow(1_000) };
    let mut world = World::new(cloud);
    for name in names(5) {
        world = world.service(service(&name));
    }
    world
        .run(async |world: &mut World| {
            let took = world.addressed(&names(5)).await;
            assert_eq!((took.as_secs(), world.cloud.most()), (5, 1));
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn no_more_services_are_worked_on_than_set_and_those_that_wait_for_the_cloud_do_not_count() {
    let mut world = World::new(slow(1_000));
    world.settings.concurrent_syncs = NonZeroUsize::new(2).unwrap();
    for name in names(4) {
        world = world.service(service(&name));
    }
    let pending = Failure { retry_after: Some(Duration::from_secs(600)), ..failure(Reaction::Pending, "busy") };
    for name in &names(4)[..2] {
        world.cloud.fail("ensure", name, [pending.clone()]);
    }
    world
        .run(async |world: &mut World| {
            let took = world.addressed(&names(4)[2..]).await;
            assert!(took < Duration::from_millis(2_500), "{took:?}: at most two rounds");
            seconds(2).await;
            assert_eq!((world.cloud.calls().len(), world.cloud.most()), (4, 2));
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_cloud_that_answers_again_wakes_what_failed_and_a_new_provider_wakes_all() {
    let all = ["web", "refused", "fine"].map(service);
    let mut world = all.into_iter().fold(World::new(FakeBalancers::default()), World::service);
    world.cloud.fail("ensure", "web", [failure(Reaction::Quota, "used up"), failure(Reaction::Invalid, "not this")]);
    world.cloud.fail("ensure", "refused", [failure(Reaction::Unauthorized, "another token")]);
    world.settings.slow_retry = Duration::from_secs(600);
    world
        .run(async |world: &mut World| {
            seconds(5).await;
            assert_eq!((world.cloud.count("ensure web"), world.cloud.count("ensure refused")), (1, 1));
            world.recovered.send_replace(1);
            seconds(1).await;
            assert_eq!((world.cloud.count("ensure web"), world.cloud.count("ensure refused")), (2, 2));
            world.recovered.send_replace(2);
            seconds(1).await;
            assert_eq!(world.cloud.count("ensure web"), 2, "what is wrong stays wrong");
            world.exchanged.send_replace(1);
            world.addressed(&["web".into()]).await;
            assert_eq!((world.cloud.count("ensure web"), world.cloud.count("ensure fine")), (3, 1));
            world.cloud.configure("another", "");
            world.exchanged.send_replace(2);
            seconds(3).await;
            assert_eq!((world.cloud.count("ensure web"), world.cloud.count("ensure fine")), (4, 2));
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn drift_is_found_within_four_thirds_of_the_period_with_and_without_a_survey() {
    for (surveys, calls) in [(true, "survey 2"), (false, "get web")] {
        let cloud = FakeBalancers { surveys, ..FakeBalancers::default() };
        let mut world = World::new(cloud).service(service("web")).service(service("fine"));
        world.settings.verify_period = Duration::from_secs(60);
        let metrics = world
            .run(async |world: &mut World| {
                world.addressed(&["web".into(), "fine".into()]).await;
                // Past the first look around, which finds nothing to verify yet.
                seconds(2 * 60).await;
                world.cloud.take_calls();
                world.cloud.lose("web");
                seconds(2 * 80).await;
                assert_eq!(world.cloud.count("ensure web"), 1, "{:?}", world.cloud.calls());
                assert!(world.cloud.count(calls) >= 1, "{:?}", world.cloud.calls());
                let asked = world.cloud.calls().len();
                assert!(asked < 12, "{:?}", world.cloud.calls());
            })
            .await;
        assert_eq!(metrics.service.drifted.get(), 1);
        assert!(metrics.service.last_verification.get() > 0.0);
    }
}

#[tokio::test(start_paused = true)]
async fn another_address_is_found_by_the_verification_without_a_survey_and_written_without_a_change() {
    let mut world = World::new(FakeBalancers::default()).service(service("web"));
    world.settings.verify_period = Duration::from_secs(60);
    world
        .run(async |world: &mut World| {
            world.addressed(&["web".into()]).await;
            world.cloud.change("web", |balancer| balancer.ip = "198.51.100.7".into());
            seconds(2 * 80).await;
            let status = world.api.service("web").unwrap()["status"].clone();
            assert_eq!(status["loadBalancer"]["ingress"][0]["ip"], "198.51.100.7");
            assert_eq!(world.cloud.count("ensure"), 1);
            // It is there, and has none any more: only the provider can say why.
            world.cloud.script("get", "web", [ccm_cloud::Outcome::default()]);
            seconds(2 * 80).await;
            assert_eq!(world.cloud.count("ensure"), 2);
        })
        .await;
}

/// QUIRK-19 by way of another type, which takes the class away.
#[tokio::test(start_paused = true)]
async fn a_service_that_was_seen_with_a_class_of_somebody_else_is_theirs_until_they_let_go() {
    let theirs = finalized("web").with("/spec", "loadBalancerClass", json!("other.io/lb"));
    let mut world = World::new(FakeBalancers::default()).service(theirs);
    world
        .run(async |world: &mut World| {
            seconds(1).await;
            world.api.edit_service("web", &json!({ "spec": { "type": "ClusterIP", "loadBalancerClass": null } }));
            seconds(5).await;
            assert_eq!((world.cloud.calls().len(), world.api.count("PATCH")), (0, 0));
            // They have cleaned up; from now on it is a Service like any other.
            world.api.edit_service("web", &json!({ "metadata": { "finalizers": null } }));
            seconds(1).await;
            world.api.edit_service("web", &json!({ "spec": { "type": "LoadBalancer" } }));
            world.addressed(&["web".into()]).await;
            world.api.edit_service("web", &json!({ "spec": { "type": "ClusterIP" } }));
            seconds(5).await;
            assert_eq!(world.cloud.calls(), ["ensure web", "delete web"]);
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn the_services_of_others_are_forgotten_when_they_are_gone_or_created_anew() {
    let mut bench = Bench::new();
    let theirs = || finalized("web").with("/spec", "loadBalancerClass", json!("other.io/lb"));
    bench.add(theirs());
    bench.syncer.notice(&key("web"));
    let seen = bench.syncer.store.get(&key("web")).unwrap();
    assert!(bench.syncer.memory.is_theirs(&key("web"), &seen));
    // Another one of the same name, as a manager before a migration left it.
    bench.api.destroy_service("web");
    bench.add(finalized("web").with("/spec", "type", json!("ClusterIP")).with("/metadata", "uid", json!("another")));
    bench.syncer.notice(&key("web"));
    assert_eq!(bench.sync("web").await, Verdict::Done);
    assert_eq!(bench.cloud.calls(), ["delete web"]);
    assert!(!bench.syncer.memory.is_theirs(&key("web"), &seen));
}

/// The limit of a run is about work: of many that wait for one lock, the last ones would never get it.
#[tokio::test(start_paused = true)]
async fn whoever_waits_for_a_lock_or_a_place_longer_than_a_run_may_take_is_served_in_turn() {
    for locks in [vec!["network".to_owned()], vec![]] {
        let mut world = World::new(FakeBalancers { locks, ..slow(1_000) });
        world.settings.queue.max_run = Duration::from_millis(2_500);
        world.settings.concurrent_syncs = NonZeroUsize::MIN;
        for name in names(6) {
            world = world.service(service(&name));
        }
        world
            .run(async |world: &mut World| {
                let took = world.addressed(&names(6)).await;
                assert_eq!((took.as_secs(), world.cloud.calls().len()), (6, 6));
            })
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_deleted_service_goes_with_its_load_balancer() {
    let mut world = World::new(slow(100)).service(service("web"));
    world
        .run(async |world: &mut World| {
            world.addressed(&["web".into()]).await;
            world.api.delete_service("web");
            seconds(2).await;
            assert_eq!((world.api.service("web"), world.cloud.balancers().len()), (None, 0));
            assert_eq!(world.cloud.calls().len(), 2, "{:?}", world.cloud.calls());
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn the_controller_ends_with_its_reflectors() {
    let mut world = World::new(FakeBalancers::default()).service(service("web"));
    let (listed, never) = watch::channel(Err("not yet".to_owned()));
    world.nodes_listed = FirstList::of(never);
    drop(listed);
    let run = world.run(async |_: &mut World| seconds(1).await);
    tokio::time::timeout(Duration::from_secs(5), run).await.unwrap();
    assert_eq!(world.cloud.calls(), [""; 0]);
}
