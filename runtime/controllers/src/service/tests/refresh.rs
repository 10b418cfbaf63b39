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

/// Revision 2 takes over, on probation.
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

fn recorded(world: &World, name: &str) -> String {
    condition(&world.api.service(name).unwrap(), RECORDED)["message"].to_string()
}

/// Those that were not ensured for revision 2.
fn waiting(world: &World) -> Vec<String> {
    names().into_iter().filter(|name| recorded(world, name).contains("by=component1")).collect()
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
            assert_eq!(world.cloud.take_unhurried().len(), FIRST);
            let waiting = waiting(world);
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
            assert_eq!(world.cloud.take_unhurried(), [""; 0], "somebody waits for these");
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
            assert_eq!(world.cloud.take_unhurried().len(), waiting.len() - 3);
        })
        .await;
}

/// The process starts again, or another replica leads, and the component of another revision was there before it.
#[tokio::test(start_paused = true)]
async fn after_a_restart_as_few_go_first_and_whoever_was_changed_meanwhile_does_not_wait() {
    let mut world = world().await;
    world.cloud.try_out(true);
    world.cloud.exchange(Version { annotations: vec!["fake.io/new"], ..revision("2") });
    // The new component reads this one, and the old one did not.
    let new = ["s0", "s1", "s2", "s3", "s4"];
    for name in new {
        world.api.edit_service(name, &json!({ "metadata": { "annotations": { "fake.io/new": "a" } } }));
    }
    for annotations in [json!({ "fake.io/mode": "c" }), json!({ "fake.io/mode": null })] {
        world.api.edit_service("mode", &json!({ "metadata": { "annotations": annotations } }));
        world
            .run(async |world: &mut World| {
                seconds(60).await;
                let mut ensured = ensured(world);
                ensured.retain(|name| name != "mode");
                assert_eq!(
                    (ensured.len(), world.cloud.count("ensure")),
                    (FIRST, FIRST + 1),
                    "{:?}",
                    world.cloud.calls()
                );
                // From here on the annotation counts.
                world.cloud.take_calls();
                let waiting = waiting(world).into_iter().find(|name| new.contains(&&**name)).unwrap();
                world.api.edit_service(&waiting, &json!({ "metadata": { "annotations": { "fake.io/new": "b" } } }));
                seconds(2).await;
                assert_eq!(self::ensured(world), [waiting]);
                world.cloud.take_calls();
            })
            .await;
    }
    world
        .run(async |world: &mut World| {
            world.cloud.try_out(false);
            seconds(60).await;
            assert_eq!(waiting(world), [""; 0]);
        })
        .await;
}

/// A record of an older release says nothing about the Service alone, and costs nothing for that.
#[tokio::test(start_paused = true)]
async fn a_record_without_a_view_is_as_good_as_ever_and_makes_nobody_wait_after_a_restart() {
    let mut world = world().await;
    for name in names() {
        let mut conditions = world.api.service(&name).unwrap()["status"]["conditions"].clone();
        for condition in conditions.as_array_mut().unwrap() {
            let message = condition["message"].as_str().unwrap();
            let words: Vec<&str> = message.split(' ').filter(|word| !word.starts_with("view=")).collect();
            condition["message"] = json!(words.join(" "));
        }
        world.api.edit_service(&name, &json!({ "status": { "conditions": conditions } }));
    }
    let patches = world.api.count("PATCH");
    world
        .run(async |world: &mut World| {
            seconds(60).await;
            assert_eq!((world.cloud.calls(), world.api.count("PATCH")), (vec![], patches));
        })
        .await;
    world.cloud.exchange(revision("2"));
    world
        .run(async |world: &mut World| {
            seconds(2).await;
            assert_eq!(ensured(world).len(), names().len());
        })
        .await;
    assert!(names().iter().all(|name| recorded(&world, name).contains(" view=")));
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_when_the_old_revision_returns_was_never_touched() {
    let mut world = world().await;
    let metrics = world
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
    assert_eq!(metrics.service.outdated.get(), 0, "nobody is outdated any more");
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
