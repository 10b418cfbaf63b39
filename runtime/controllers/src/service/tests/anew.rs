//! A controller that begins anew in the same process, since other providers make load balancers now.

use std::collections::BTreeMap;

use ccm_cloud::Reaction;

use super::whole::{World, seconds, slow};
use super::*;
use crate::service::ServiceMemory;
use crate::service::condition::reasons;
use crate::service::metrics::ReasonLabel;
use crate::store::FirstList;
use crate::testing::Log;

fn memory() -> Option<ServiceMemory> {
    let metrics = Metrics::register(&mut Registry::default());
    Some(ServiceMemory::new(&metrics.service, &FirstList::there()))
}

/// `web` is served, and then removed by force while its provider does not answer. The controller ends before its next try.
async fn removed(world: &mut World) {
    world
        .run(async |world: &mut World| {
            world.addressed(&["web".into()]).await;
            world.cloud.fail("delete", "web", [failure(Reaction::Retry, "down")]);
            world.api.destroy_service("web");
            seconds(1).await;
            assert_eq!(world.cloud.count("delete web"), 1);
        })
        .await;
    assert_eq!(world.cloud.balancers().len(), 1);
}

/// The same, and another Service of its name is there when the next controller begins.
async fn replaced() -> World {
    let mut world = World::new(slow(10)).service(service("web"));
    world.memory = memory();
    removed(&mut world).await;
    world.api.add_service(service("web").with("/metadata", "uid", json!("another")).0);
    world
}

/// The next controller once knew nothing of it: its load balancer stayed in the cloud for ever.
#[tokio::test(start_paused = true)]
async fn the_load_balancer_of_a_service_that_went_by_force_is_deleted_by_the_controller_after() {
    for (memory, left) in [(memory(), 0), (None, 1)] {
        let mut world = World::new(slow(10)).service(service("web"));
        world.memory = memory;
        removed(&mut world).await;
        world.run(async |_: &mut World| seconds(10).await).await;
        assert_eq!(world.cloud.balancers().len(), left, "with memory, and as another process");
    }
}

/// The numbers of before would otherwise stand there for ever.
#[tokio::test(start_paused = true)]
async fn a_service_that_goes_between_two_controllers_is_not_counted_any_more() {
    let metrics = Metrics::register(&mut Registry::default());
    let mut world = World::new(slow(10)).service(service("web"));
    world.memory = Some(ServiceMemory::new(&metrics.service, &FirstList::there()));
    let counted = || {
        let of = |reason| metrics.service.not_ready.get_or_create_owned(&ReasonLabel { reason }).get();
        (metrics.service.pending.get(), reasons().map(of).sum::<i64>())
    };
    world.cloud.fail("ensure", "web", [failure(Reaction::Quota, "no more of them")]);
    world.run(async |_: &mut World| seconds(1).await).await;
    assert_eq!(counted(), (1, 1));
    world.api.destroy_service("web");
    world.run(async |_: &mut World| seconds(10).await).await;
    assert_eq!(counted(), (0, 0));
}

/// Another Service of the same name came: it must not get the load balancer of the one before.
#[tokio::test(start_paused = true)]
async fn a_service_of_the_same_name_is_served_after_its_predecessor_is_cleaned_up() {
    let mut world = replaced().await;
    world.cloud.take_calls();
    world
        .run(async |world: &mut World| {
            world.addressed(&["web".into()]).await;
        })
        .await;
    let calls = world.cloud.calls();
    let place = |part: &str| calls.iter().position(|call| call.starts_with(part));
    assert!(place("delete web").is_some() && place("delete web") < place("ensure web"), "{calls:?}");
}

/// It was pending without a word: what becomes of the one before is told of that one, which `kubectl describe` does not show.
#[tokio::test(start_paused = true)]
async fn a_service_of_the_same_name_says_that_it_waits_for_its_predecessor_and_why() {
    let log = Log::start();
    let mut world = replaced().await;
    world.cloud.fail("delete", "web", vec![failure(Reaction::Quota, "too many deletions"); 3]);
    world
        .run(async |world: &mut World| {
            seconds(1).await;
            let waits = world.api.service("web").unwrap()["status"]["conditions"][0].clone();
            assert_eq!((&waits["status"], &waits["reason"]), (&json!("False"), &json!("CloudPending")), "{waits}");
            let message = waits["message"].as_str().unwrap();
            for part in ["had this name before", "uid-web", "too many deletions"] {
                assert!(message.contains(part), "{message}");
            }
            world.addressed(&["web".into()]).await;
            // One wait and three failures, of which neither makes the other one news.
            for part in [
                ": the load balancer of the Service that had this name before",
                "deleting load balancer: failed to delete load balancer: too many",
            ] {
                let told = log.lines(part);
                assert_eq!(told.len(), 1, "{part:?} in {told:#?}");
            }
            let ready = world.api.service("web").unwrap()["status"]["conditions"].clone();
            let ready = ready.as_array().unwrap().iter().find(|one| one["type"] == "LoadBalancerReady").unwrap();
            assert_eq!((&ready["status"], &ready["reason"]), (&json!("True"), &json!("Ensured")));
        })
        .await;
}

/// It said for ever that it waits: nothing was written that `release` would have taken away.
#[tokio::test(start_paused = true)]
async fn a_service_that_wants_no_load_balancer_any_more_does_not_go_on_saying_that_it_waits() {
    let mut world = replaced().await;
    world.cloud.fail("delete", "web", vec![failure(Reaction::Quota, "too many deletions"); 3]);
    world
        .run(async |world: &mut World| {
            seconds(1).await;
            assert_eq!(world.api.service("web").unwrap()["status"]["conditions"].as_array().map(Vec::len), Some(1));
            let written = world.api.count("PATCH /api/v1/namespaces/default/services/");
            world.api.edit_service("web", &json!({ "spec": { "type": "ClusterIP" } }));
            seconds(600).await;
            let said = world.api.service("web").unwrap()["status"]["conditions"].clone();
            assert!(said.as_array().is_none_or(Vec::is_empty), "{said}");
            assert_eq!(world.api.count("PATCH /api/v1/namespaces/default/services/") - written, 1);
            assert_eq!(world.cloud.balancers().len(), 0);
        })
        .await;
}

/// Its owner changed it while nobody led.
#[tokio::test(start_paused = true)]
async fn a_new_process_takes_away_what_a_service_says_that_waits_no_more() {
    let waits = json!({ "type": "LoadBalancerReady", "status": "False", "reason": "CloudPending", "message": "it waits",
        "lastTransitionTime": "2026-01-01T00:00:00Z" });
    let web = service("web").patched(&json!({ "spec": { "type": "ClusterIP" }, "status": { "conditions": [waits] } }));
    let mut world = World::new(slow(10)).service(web);
    world
        .run(async |world: &mut World| {
            seconds(10).await;
            let said = world.api.service("web").unwrap()["status"]["conditions"].clone();
            assert!(said.as_array().is_none_or(Vec::is_empty), "{said}");
            assert_eq!(world.api.count("PATCH /api/v1/namespaces/default/services/"), 1);
        })
        .await;
}

/// A provider before it in the operator's order makes load balancers now, or alone does: nobody else is asked to delete what is not
/// theirs.
#[tokio::test(start_paused = true)]
async fn what_a_provider_has_to_delete_waits_for_that_provider() {
    let mut world = World::new(slow(10)).service(service("web"));
    world.memory = memory();
    world.place = 1;
    removed(&mut world).await;
    let (blue, red) = (Arc::clone(&world.cloud), Arc::new(FakeBalancers::default()));
    (world.cloud, world.place) = (Arc::clone(&red), 0);
    world.run(async |_: &mut World| seconds(60).await).await;
    assert_eq!((blue.balancers().len(), red.calls()), (1, vec![]));
    world.others = BTreeMap::from([(1, Arc::clone(&blue))]);
    world.run(async |_: &mut World| seconds(10).await).await;
    assert_eq!((blue.balancers().len(), red.calls()), (0, vec![]));
}
