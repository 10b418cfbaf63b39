//! Another revision of the provider: who is ensured again first, and who waits.

use ccm_cloud::Reaction;
use serde_json::json;
use tokio::time::Instant;

use super::restart::sync_all;
use super::whole::{World, seconds, slow};
use super::*;
use crate::testing::Version;

const FIRST: usize = 4;

fn revision(revision: &str) -> Version {
    Version { component: format!("component{revision}"), revision: revision.into(), ..Version::default() }
}

/// Eight Services of one kind, and three of a kind of their own.
fn services() -> Vec<Draft> {
    let mode = service("mode").with("/metadata", "annotations", json!({ "fake.io/mode": "b" }));
    let local = service("local").with("/spec", "externalTrafficPolicy", json!("Local"));
    let udp = service("udp").with("/spec", "ports", json!([{ "port": 53, "protocol": "UDP" }]));
    (0..8).map(|i| service(&format!("s{i}"))).chain([mode, local, udp]).collect()
}

fn names() -> Vec<String> {
    services().iter().map(|service| service.0["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

/// All of them, as revision 1 has made them; each call takes a second.
async fn world() -> World {
    let cloud = slow(1_000);
    cloud.exchange(revision("1"));
    let mut world = services().into_iter().fold(World::new(cloud), World::service);
    world.settings.revision_first = FIRST;
    world
        .run(async |world: &mut World| {
            world.addressed(&names()).await;
        })
        .await;
    world.cloud.take_calls();
    world
}

/// Revision 2 takes over, on trial.
fn exchange(world: &World, generation: u64) {
    world.cloud.try_out(true);
    world.cloud.exchange(revision("2"));
    world.exchanged.send_replace(generation);
}

fn ensured(world: &World) -> Vec<String> {
    let calls = world.cloud.calls();
    let mut names: Vec<String> = calls.iter().map(|call| call.split(' ').nth(1).unwrap().to_owned()).collect();
    names.sort();
    names
}

#[tokio::test(start_paused = true)]
async fn a_few_of_all_kinds_go_first_and_the_rest_when_the_component_is_proven_two_at_a_time() {
    let mut world = world().await;
    let metrics = world
        .run(async |world: &mut World| {
            seconds(1).await;
            exchange(world, 1);
            seconds(60).await;
            assert_eq!(ensured(world).len(), FIRST, "{:?}", world.cloud.calls());
            let common = ensured(world).iter().filter(|name| name.starts_with('s')).count();
            assert_eq!(common, 1, "{:?}", world.cloud.calls());
            world.cloud.forget_most();
            world.cloud.try_out(false);
            let begun = Instant::now();
            while ensured(world).len() < names().len() {
                seconds(1).await;
            }
            assert!((3..8).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
            seconds(60).await;
            let mut all = names();
            all.sort();
            assert_eq!((ensured(world), world.cloud.most()), (all, 2));
        })
        .await;
    assert_eq!(metrics.service.outdated.get(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_kind_waits_as_long_as_one_of_it_fails_and_all_wait_when_as_many_fail_as_go_first() {
    let common: Vec<String> = names().into_iter().filter(|name| name.starts_with('s')).collect();
    for (failing, tried) in [(vec!["mode".to_owned()], names().len()), (common, FIRST), (names(), FIRST)] {
        let mut world = world().await;
        for name in &failing {
            world.cloud.fail("ensure", name, vec![failure(Reaction::Retry, "not with this revision"); 2]);
        }
        world
            .run(async |world: &mut World| {
                seconds(1).await;
                exchange(world, 1);
                world.cloud.try_out(false);
                seconds(12).await;
                let mut all = ensured(world);
                all.dedup();
                assert_eq!(all.len(), tried, "{failing:?}: {:?}", world.cloud.calls());
                seconds(900).await;
                let mut all = ensured(world);
                all.dedup();
                assert_eq!(all.len(), names().len(), "{failing:?}: {:?}", world.cloud.calls());
            })
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_has_another_reason_does_not_wait() {
    let mut world = world().await;
    world
        .run(async |world: &mut World| {
            seconds(1).await;
            exchange(world, 1);
            seconds(60).await;
            world.cloud.take_calls();
            let waiting = |name: &String| {
                let text = condition(&world.api.service(name).unwrap(), RECORDED)["message"].to_string();
                text.contains("by=component1")
            };
            let waiting: Vec<String> = names().into_iter().filter(waiting).collect();
            assert_eq!(waiting.len(), names().len() - FIRST);
            // Somebody changes one, takes the address of one away, asks for one, and makes a new one.
            world.api.edit_service(&waiting[0], &json!({ "spec": { "ports": [{ "port": 443 }] } }));
            world.api.edit_service(&waiting[1], &json!({ "status": { "loadBalancer": null } }));
            let please = json!({ "metadata": { "annotations": { "wasm-ccm.io/ensure": "please" } } });
            world.api.edit_service(&waiting[2], &please);
            world.api.add_service(service("new").0);
            seconds(2).await;
            let mut wanted = vec!["new".to_owned(), waiting[0].clone(), waiting[1].clone(), waiting[2].clone()];
            wanted.sort();
            assert_eq!(ensured(world), wanted);
            assert_eq!(world.cloud.count("ensure"), 4);
            // A Node joins: all have it, and wait on.
            world.cloud.take_calls();
            world.node(node("n9")).await;
            seconds(3).await;
            assert_eq!((world.cloud.count("update"), world.cloud.count("ensure")), (names().len() + 1, 0));
            assert_eq!(world.hosts(), ["n9"]);
            world.cloud.take_calls();
            seconds(60).await;
            assert_eq!(world.cloud.calls(), [""; 0]);
            world.cloud.try_out(false);
            seconds(60).await;
            assert_eq!(ensured(world).len(), waiting.len() - 3);
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_when_the_old_revision_returns_was_never_touched() {
    let mut world = world().await;
    world
        .run(async |world: &mut World| {
            seconds(1).await;
            exchange(world, 1);
            seconds(60).await;
            let tried = ensured(world);
            world.cloud.take_calls();
            world.cloud.refuse("component2");
            world.cloud.exchange(revision("1"));
            world.cloud.try_out(false);
            world.exchanged.send_replace(2);
            seconds(60).await;
            assert_eq!(ensured(world), tried);
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn with_none_to_go_first_all_go_at_once() {
    let mut world = world().await;
    world.settings.revision_first = 0;
    world
        .run(async |world: &mut World| {
            seconds(1).await;
            exchange(world, 1);
            seconds(2).await;
            assert_eq!(ensured(world).len(), names().len());
        })
        .await;
}

/// A survey that finds them in step makes calls needless, and one that finds a difference is no reason: that is why the revision is
/// another one.
#[tokio::test(start_paused = true)]
async fn who_waits_is_adopted_by_a_survey_and_made_again_where_it_is_gone() {
    let cloud = FakeBalancers { surveys: true, ..FakeBalancers::default() };
    cloud.exchange(revision("1"));
    let settings = ServiceSettings { revision_first: 1, ..ServiceSettings::default() };
    let mut bench = Bench::with(cloud, settings);
    for name in ["a", "b", "c"] {
        bench.add(service(name));
        assert_eq!([bench.sync(name).await, bench.sync(name).await], [Verdict::Done; 2]);
    }
    bench.cloud.try_out(true);
    bench.cloud.exchange(revision("2"));
    bench.cloud.change("a", |balancer| balancer.ports = vec![1]);
    bench.cloud.lose("b");
    bench.cloud.take_calls();
    assert_eq!(sync_all(&mut bench).await, [""; 0]);
    bench.survey().await;
    bench.cloud.take_calls();
    assert_eq!(sync_all(&mut bench).await, ["ensure b: n0 n1 by component2"]);
    let by = |name| bench.record(name).unwrap().by.to_string();
    assert_eq!([by("a"), by("b"), by("c")], ["component1", "component2", "component1,component2"]);
    assert_eq!(bench.scraped("ccm_services_outdated"), 1.0);
}
