//! Load balancers whose provider chooses among the Nodes by their labels.

use ccm_cloud::Reaction;
use serde_json::json;

use super::whole::{World, seconds, slow};
use super::*;
use crate::testing::NODES;

/// Nodes with this pool each.
fn pools(pools: &[&str]) -> Vec<Draft> {
    let node = |(index, pool): (usize, &&str)| match *pool {
        "" => node(&format!("n{index}")),
        pool => node(&format!("n{index}")).label("pool", pool),
    };
    pools.iter().enumerate().map(node).collect()
}

fn choosing(name: &str, selector: &str) -> Draft {
    service(name).with("/metadata", "annotations", json!({ NODES: selector }))
}

/// `all` has all Nodes, `web` and `db` those of their pool.
async fn three(cloud: FakeBalancers) -> Bench {
    let mut bench = Bench::with(cloud, ServiceSettings::default());
    let backends = bench.label(pools(&["web", "db", ""]));
    bench.syncer.backends.replace(backends);
    for service in [service("all"), choosing("web", "pool=web"), choosing("db", "pool in (db)")] {
        let name = service.0["metadata"]["name"].as_str().unwrap().to_owned();
        bench.add(service);
        assert_eq!(bench.sync(&name).await, Verdict::Done);
    }
    assert_eq!(bench.cloud.take_calls(), ["ensure all: n0 n1 n2", "ensure web: n0", "ensure db: n1"]);
    bench
}

async fn sync_all(bench: &mut Bench) -> Vec<String> {
    for name in ["all", "web", "db"] {
        assert_eq!(bench.sync(name).await, Verdict::Done, "{name}");
    }
    bench.cloud.take_calls()
}

#[tokio::test(start_paused = true)]
async fn a_relabelled_node_wakes_the_services_that_would_have_other_hosts_and_no_others() {
    let mut bench = three(FakeBalancers::default()).await;
    assert_eq!(bench.relabel(pools(&["web", "db", "dev"])).await, [""; 0], "nobody chooses it");
    assert_eq!(bench.relabel(pools(&["web", "db", "web"])).await, ["update web: n0 n2"]);
    assert_eq!(bench.relabel(pools(&["web", "web", "web"])).await, ["update db", "update web: n0 n1 n2"]);
    assert_eq!(bench.relabel(pools(&["web", "web", "web"])).await, [""; 0]);
    assert_eq!(sync_all(&mut bench).await, [""; 0]);
    // A Node that joins is news for all.
    bench.pass(pools(&["web", "web", "web", "db"])).await;
    let mut calls = bench.cloud.take_calls();
    calls.sort();
    assert_eq!(calls, ["update all: n0 n1 n2 n3", "update db: n3", "update web: n0 n1 n2"]);
    // Without the choice its labels do not matter any more.
    bench.edit("db", &json!({ "metadata": { "annotations": { NODES: null } } }));
    bench.sync("db").await;
    assert_eq!(bench.relabel(pools(&["web", "web", "web", ""])).await, [""; 0]);
}

/// By which labels a provider chooses only a call can tell: one for each that did, and nothing is written.
#[tokio::test(start_paused = true)]
async fn after_a_restart_the_services_that_were_chosen_for_are_asked_about_once() {
    for surveys in [false, true] {
        let cloud = FakeBalancers { surveys, ..FakeBalancers::default() };
        let mut bench = three(cloud).await.restart();
        let before = bench.patches();
        bench.survey().await;
        bench.cloud.take_calls();
        assert_eq!(sync_all(&mut bench).await, ["update web: n0", "update db: n1"], "with a survey: {surveys}");
        assert_eq!((sync_all(&mut bench).await, bench.patches()), (vec![], before));
        assert_eq!(bench.reasons().await, [""; 0]);
        assert_eq!(bench.relabel(pools(&["web", "db", "web"])).await, ["update web: n0 n2"]);
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_relabelled_while_nobody_watched_is_found() {
    for surveys in [false, true] {
        let mut bench = three(FakeBalancers { surveys, ..FakeBalancers::default() }).await;
        bench.label(pools(&["web", "db", "web"]));
        let mut bench = bench.restart();
        bench.survey().await;
        bench.cloud.take_calls();
        // What a survey finds to differ is ensured.
        let found = if surveys { "ensure web: n0 n2" } else { "update web: n0 n2" };
        assert_eq!(sync_all(&mut bench).await, [found, "update db: n1"], "with a survey: {surveys}");
    }
}

/// Another manager's load balancers, which a survey finds to be right: adopted, they would never follow other labels.
#[tokio::test(start_paused = true)]
async fn what_a_survey_finds_is_not_adopted_unasked_where_the_provider_chooses_by_labels() {
    let bench = three(FakeBalancers { surveys: true, ..FakeBalancers::default() }).await;
    for name in ["web", "db"] {
        bench.api.edit_service(name, &json!({ "status": { "conditions": null } }));
    }
    let mut bench = bench.restart();
    bench.survey().await;
    bench.cloud.take_calls();
    assert_eq!(sync_all(&mut bench).await, ["ensure web: n0", "ensure db: n1"]);
    assert_eq!(bench.relabel(pools(&["web", "db", "web"])).await, ["update web: n0 n2"]);
}

/// A selector that matches nothing is wrong today and right tomorrow.
#[tokio::test(start_paused = true)]
async fn a_service_whose_nodes_are_refused_waits_for_other_labels_too() {
    let mut bench = Bench::new();
    bench.add(choosing("web", "pool=web"));
    bench.cloud.fail("ensure", "web", [failure(Reaction::Invalid, "no Node matches")]);
    for _ in 0..2 {
        assert_eq!(bench.sync("web").await, Verdict::Change);
    }
    assert_eq!(bench.cloud.take_calls(), ["ensure web"]);
    let told = bench.condition("web")["message"].as_str().unwrap().to_owned();
    assert!(told.ends_with("not retried before the Service or the Nodes behind it change"), "{told}");
    assert_eq!(bench.relabel(pools(&["db", ""])).await, [""; 0]);
    assert_eq!(bench.relabel(pools(&["db", "web"])).await, ["ensure web: n1"]);
    assert_eq!(bench.condition("web")["status"], "True");
}

/// Each failed call once added its selectors to those of all calls before, twice, for as long as the Service was not served.
#[tokio::test(start_paused = true)]
async fn a_component_that_fails_with_other_selectors_each_time_takes_no_more_memory_than_those_of_a_call() {
    const CALLS: usize = 1_000;
    let mut bench = three(FakeBalancers::default()).await;
    let known = |bench: &Bench| {
        let selectors = bench.syncer.memory.with(&key("web"), |entry| entry.selectors().map(|known| known.len()));
        selectors.flatten().unwrap()
    };
    for call in 0..CALLS {
        let selector = if call + 1 < CALLS { format!("pool=other-{call}") } else { "pool=db".to_owned() };
        bench.edit("web", &json!({ "metadata": { "annotations": { NODES: selector } } }));
        let pending = failure(Reaction::Pending, &format!("step {call}"));
        bench.cloud.fail("ensure", "web", [pending]);
        bench.sync("web").await;
        assert!(known(&bench) <= 16, "{call}: {}", known(&bench));
        assert!(bench.syncer.backends.known() <= 512, "{call}: {}", bench.syncer.backends.known());
    }
    // Those of the last call are among them.
    assert_eq!(bench.relabel(pools(&["web", "db", "db"])).await, ["ensure web: n1 n2", "update db: n1 n2"]);
    assert_eq!(known(&bench), 1);
}

/// By which labels it chooses is known when the call is over: whoever hears of the labels before that has nobody to wake.
#[tokio::test(start_paused = true)]
async fn labels_that_change_during_the_first_update_after_a_restart_are_not_lost() {
    let mut world = World::new(slow(1_000)).service(choosing("web", "pool=web"));
    world.node(node("n0").label("pool", "web")).await;
    world.node(node("n1").label("pool", "db")).await;
    world
        .run(async |world: &mut World| {
            world.addressed(&["web".into()]).await;
        })
        .await;
    world.cloud.take_calls();
    // Later, when no watch that has just begun tells of the Service.
    let later = Failure { retry_after: Some(Duration::from_secs(2)), ..failure(Reaction::Throttled, "slow down") };
    world.cloud.fail("update", "web", [later]);
    world
        .run(async |world: &mut World| {
            tokio::time::sleep(Duration::from_millis(3_500)).await;
            assert_eq!(world.cloud.calls(), ["update web: n0", "update web: n0"]);
            world.node(node("n1").label("pool", "web")).await;
            seconds(10).await;
            assert_eq!((world.cloud.calls().len(), world.hosts()), (3, vec!["n0 n1".to_owned()]));
        })
        .await;
}

/// The same for the first call of all, and for one that is refused.
#[tokio::test(start_paused = true)]
async fn labels_that_change_during_the_first_call_are_not_lost() {
    for is_refused in [false, true] {
        let mut world = World::new(slow(1_000)).service(choosing("web", "pool=web"));
        world.node(node("n0").label("pool", "web")).await;
        world.node(node("n1").label("pool", "db")).await;
        if is_refused {
            world.cloud.fail("ensure", "web", [failure(Reaction::Invalid, "one Node is too few")]);
        }
        world
            .run(async |world: &mut World| {
                tokio::time::sleep(Duration::from_millis(500)).await;
                world.node(node("n1").label("pool", "web")).await;
                seconds(10).await;
                assert_eq!(world.hosts(), ["n0 n1"], "refused: {is_refused}");
                assert_eq!(world.cloud.calls().len(), 2, "refused: {is_refused}");
            })
            .await;
    }
}

/// Compared with what is recorded, nothing has changed; but a call is under way with what was there meanwhile.
#[tokio::test(start_paused = true)]
async fn what_changes_back_while_an_update_is_under_way_is_not_lost() {
    const EXCLUDED: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
    let pool = |pool: &str| node("n1").label("pool", pool);
    let rows = [
        (choosing("web", "pool=web"), pool("db"), pool("web")),
        (service("web"), pool("").label(EXCLUDED, ""), pool("")),
    ];
    for (service, before, meanwhile) in rows {
        let mut world = World::new(slow(1_000)).service(service);
        world.node(node("n0").label("pool", "web")).await;
        world.node(Draft(before.0.clone())).await;
        world
            .run(async |world: &mut World| {
                world.addressed(&["web".into()]).await;
                seconds(2).await;
                world.node(meanwhile).await;
                tokio::time::sleep(Duration::from_millis(500)).await;
                world.node(before).await;
                seconds(10).await;
                assert_eq!(world.cloud.calls(), ["ensure web: n0", "update web: n0 n1", "update web: n0"]);
                assert_eq!(world.hosts(), ["n0"]);
                seconds(60).await;
                assert_eq!(world.cloud.calls().len(), 3);
            })
            .await;
    }
}
