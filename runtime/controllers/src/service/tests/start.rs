//! The look at all load balancers before anything is done.

use ccm_cloud::Reaction;
use tokio::time::Instant;

use super::whole::{World, seconds, slow};
use super::*;

/// The survey had remembered it, and nothing else told that it was gone.
#[tokio::test(start_paused = true)]
async fn a_service_that_goes_by_force_during_the_survey_at_the_start_leaves_nothing_behind() {
    let cloud = FakeBalancers { surveys: true, ..slow(2_000) };
    let mut world = World::new(cloud).service(finalized("web")).service(finalized("stays"));
    world
        .run(async |world: &mut World| {
            seconds(1).await;
            assert_eq!(world.cloud.calls(), ["survey 2"]);
            world.api.destroy_service("web");
            world.addressed(&["stays".into()]).await;
            seconds(10).await;
            let mut calls = world.cloud.calls();
            calls.sort();
            assert_eq!(calls, ["delete web", "ensure stays", "mark web", "survey 2"]);
        })
        .await;
}

/// The survey of a cloud with many load balancers takes longer than the start waits for it.
#[tokio::test(start_paused = true)]
async fn what_was_not_surveyed_in_time_is_surveyed_next() {
    for period in [Duration::ZERO, Duration::from_secs(3_600)] {
        let cloud = FakeBalancers { surveys: true, ..slow(7_000) };
        let mut world = World::new(cloud).service(service("web")).service(service("fine"));
        world.settings.verify_period = period;
        world
            .run(async |world: &mut World| {
                world.addressed(&["web".into(), "fine".into()]).await;
            })
            .await;
        world.cloud.lose("web");
        world.cloud.take_calls();
        let metrics = world
            .run(async |world: &mut World| {
                seconds(10).await;
                assert_eq!(world.cloud.calls(), ["survey 2", "survey 2"], "the second one runs");
                seconds(10).await;
                assert_eq!(world.cloud.calls(), ["survey 2", "survey 2", "ensure web"]);
                // And that was the last one for some time.
                seconds(30 * 60).await;
                assert_eq!(world.cloud.calls().len(), 3);
            })
            .await;
        assert!(metrics.service.last_verification.get() > 0.0);
    }
}

/// A cloud that fails while the process starts is not left alone for an hour.
#[tokio::test(start_paused = true)]
async fn a_survey_that_failed_at_the_start_is_made_again_soon_and_then_less_and_less_often() {
    let cloud = FakeBalancers { surveys: true, ..FakeBalancers::default() };
    let mut world = World::new(cloud).service(service("web"));
    world.settings.verify_period = Duration::from_secs(3_600);
    world
        .run(async |world: &mut World| {
            world.addressed(&["web".into()]).await;
        })
        .await;
    world.cloud.take_calls();
    world.cloud.fail("survey", "", vec![failure(Reaction::Retry, "down"); 3]);
    world
        .run(async |world: &mut World| {
            // After 1, 2 and 4 minutes, give or take a third; then once an hour.
            let begun = Instant::now();
            for (minutes, surveys) in [(0, 1), (2, 2), (5, 3), (10, 4), (40, 4)] {
                tokio::time::sleep_until(begun + Duration::from_secs(60 * minutes + 1)).await;
                assert_eq!(world.cloud.count("survey"), surveys, "after {minutes} min");
            }
        })
        .await;
}
