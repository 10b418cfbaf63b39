//! Changes as a whole, and the route that makes one fail.

use std::num::NonZeroUsize;
use std::time::Duration;

use ccm_cloud::{Reaction, RouteChangeError};

use super::{Bench, Call, available, failure, many, unavailable};

/// Wishes of each change.
fn sizes(bench: &Bench) -> Vec<usize> {
    let size = |call| match call {
        Call::Change(_, made) => made.len(),
        Call::GetAll(_) => 0,
    };
    bench.changes().into_iter().map(size).collect()
}

#[tokio::test(start_paused = true)]
async fn case_246_all_nodes_are_one_look_and_one_change() {
    let bench = Bench::once(many(250), |_| {}).await;
    assert_eq!((bench.looks(), sizes(&bench)), (vec![0], vec![250]));
    let writes = bench.api.lines().iter().filter(|line| line.starts_with("PATCH")).count();
    assert_eq!(writes, 250, "one for each Node");
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_fails_is_halved_until_the_wrong_route_is_alone_and_all_others_are_made() {
    let bench = Bench::once(many(8), |cloud| cloud.poison.lock().push("10.244.5.0/24".to_owned())).await;
    assert_eq!(sizes(&bench), [8, 4, 4, 2, 2, 1, 1]);
    assert_eq!(bench.cloud.routes().len(), 7);
    assert_eq!((bench.condition("n4"), bench.condition("n5")), (available(), unavailable()));
    assert_eq!(bench.told().len(), 1, "{:?}", bench.told());
    assert!(bench.told()[0].contains("for node n5: the table has a route that cannot be (invalid)"));
}

/// What clouds answer to a wrong route is often no more than a failure.
#[tokio::test(start_paused = true)]
async fn a_failure_that_blames_nobody_is_halved_too() {
    for poison in 0..16 {
        let bench = Bench::once(many(16), |cloud| {
            cloud.poison.lock().push(format!("10.244.{poison}.0/24"));
            *cloud.poisoned.lock() = Reaction::Retry;
        })
        .await;
        assert_eq!((bench.cloud.routes().len(), bench.told().len()), (15, 1), "{poison}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cloud_that_is_away_is_asked_a_few_times_and_not_once_for_each_route() {
    for (reaction, calls) in [(Reaction::Retry, vec![99, 50, 49, 25, 25, 25, 24, 13]), (Reaction::Throttled, vec![99])]
    {
        let bench = Bench::once(many(99), |cloud| {
            cloud.changes.lock().extend((0..99).map(|_| failure(reaction).into()));
        })
        .await;
        assert_eq!((sizes(&bench), bench.condition("n3")), (calls, unavailable()), "{reaction:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn how_many_failures_mean_that_the_cloud_is_away_is_a_setting() {
    let mut bench = Bench::new(|settings| settings.max_failures = NonZeroUsize::new(3).unwrap());
    bench.cloud.changes.lock().extend((0..99).map(|_| failure(Reaction::Retry).into()));
    bench.play(async |bench| bench.listed_with(many(99)).await).await;
    assert_eq!(sizes(&bench), [99, 50, 49]);
}

#[tokio::test(start_paused = true)]
async fn a_run_tells_as_many_nodes_as_its_limit_says() {
    let mut bench = Bench::new(|settings| settings.max_events = NonZeroUsize::new(3).unwrap());
    let refused = (0..9).map(|i| (format!("10.244.{i}.0/24"), failure(Reaction::Invalid)));
    bench.cloud.refused.lock().extend(refused);
    bench.play(async |bench| bench.listed_with(many(9)).await).await;
    assert_eq!((bench.told().len(), bench.condition("n8")), (3, unavailable()));
}

/// Each route once had a chance of its own, and one call became one for each.
#[tokio::test(start_paused = true)]
async fn routes_that_failed_together_are_tried_again_together() {
    let mut bench = Bench::new(|_| {});
    let refused = (0..9).map(|i| (format!("10.244.{i}.0/24"), failure(Reaction::Retry)));
    bench.cloud.refused.lock().extend(refused);
    bench
        .play(async |bench| {
            bench.listed_with(many(9)).await;
            bench.until(60).await;
        })
        .await;
    let sizes = sizes(&bench);
    assert!(sizes.len() > 3 && sizes.iter().all(|size| *size == 9), "{sizes:?}");
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_gives_no_answer_is_asked_for_less() {
    let bench = Bench::once(many(4), |cloud| {
        let error = RouteChangeError::Crashed(failure(Reaction::Retry));
        cloud.changes.lock().push_back(error);
    })
    .await;
    assert_eq!((sizes(&bench), bench.cloud.routes().len()), (vec![4, 2, 2], 4));
}

#[tokio::test(start_paused = true)]
async fn fewer_outcomes_than_routes_name_the_provider_and_nothing_is_believed() {
    let bench = Bench::once(many(2), |cloud| *cloud.withheld.lock() = 1).await;
    assert_eq!((bench.condition("n0"), bench.condition("n1")), (unavailable(), unavailable()));
    assert!(bench.told()[0].contains("the provider fake gave 0 outcomes for 1 routes (retry)"), "{:?}", bench.told());
    assert_eq!(bench.scraped(r#"ccm_routes{provider="fake",state="in_place"}"#), 0.0);
}

#[tokio::test(start_paused = true)]
async fn a_change_has_no_more_routes_than_its_limit() {
    let mut bench = Bench::new(|settings| settings.batch = NonZeroUsize::new(3).unwrap());
    bench.play(async |bench| bench.listed_with(many(7)).await).await;
    assert_eq!((sizes(&bench), bench.cloud.routes().len()), (vec![3, 3, 1], 7));
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_fails_keeps_no_other_batch_from_being_asked_for() {
    let mut bench = Bench::new(|settings| {
        settings.batch = NonZeroUsize::new(2).unwrap();
        settings.max_calls = NonZeroUsize::MIN;
    });
    bench.cloud.poison.lock().push("10.244.0.0/24".to_owned());
    bench.play(async |bench| bench.listed_with(many(8)).await).await;
    assert_eq!((sizes(&bench), bench.cloud.routes().len()), (vec![2, 2, 2, 2, 1], 6));
    assert_eq!((bench.condition("n1"), bench.condition("n7")), (unavailable(), available()));
    assert!(bench.told().iter().all(|event| event.contains("a route that cannot be")), "{:?}", bench.told());
}

#[tokio::test(start_paused = true)]
async fn the_search_for_wrong_routes_ends_at_its_limit_and_the_rest_is_tried_again_later() {
    let mut bench = Bench::new(|settings| settings.max_calls = NonZeroUsize::new(4).unwrap());
    let first = failure(Reaction::Conflict);
    bench.cloud.changes.lock().extend((0..4).map(|_| first.clone().into()));
    bench
        .play(async |bench| {
            bench.listed_with(many(16)).await;
            assert_eq!((sizes(bench), bench.condition("n9")), (vec![16, 8, 8, 4, 4], unavailable()));
            bench.until(10).await;
        })
        .await;
    assert_eq!((bench.cloud.routes().len(), bench.condition("n9")), (16, available()));
}

/// Somebody else leads by then: the batches of the old leader went on beside those of the new one.
#[tokio::test(start_paused = true)]
async fn who_stops_leading_in_a_batch_asks_for_no_further_one_and_tells_what_was_made() {
    let mut bench = Bench::new(|settings| {
        settings.batch = NonZeroUsize::MIN;
        settings.queue.stop_timeout = Duration::from_secs(1_000);
    });
    *bench.cloud.takes.lock() = Duration::from_secs(30);
    bench
        .play(async |bench| {
            bench.listed_with(many(3)).await;
            bench.until(40).await;
        })
        .await;
    assert_eq!((sizes(&bench), bench.condition("n0"), bench.condition("n1")), (vec![1, 1], available(), available()));
    assert_eq!((bench.condition("n2"), bench.told()), (unavailable(), vec![]));
    // The next leader makes what is left, and nothing twice.
    let routes = bench.cloud.table.lock().values().cloned().collect::<Vec<_>>();
    let next = Bench::once(many(3), |cloud| cloud.has(routes)).await;
    assert_eq!((sizes(&next), next.condition("n2")), (vec![1], available()));
}
