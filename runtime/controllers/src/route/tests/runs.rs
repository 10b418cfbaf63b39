//! Failures over time.

use std::num::NonZeroUsize;
use std::time::Duration;

use ccm_cloud::Reaction;

use super::{Bench, available, failure, many, pairs, pods, route, unavailable};

const CHANGED: &str = r#"route_controller_route_sync_total{trigger="periodic",outcome="changed"}"#;
const SUCCESS: &str = r#"ccm_route_sync_last_success_timestamp_seconds{provider="fake"}"#;
const ERRORS: &str = r#"route_controller_route_sync_total{trigger="periodic",outcome="error"}"#;

#[tokio::test(start_paused = true)]
async fn case_245_where_routes_cannot_be_looked_at_nothing_is_made_removed_or_said_and_it_is_tried_again() {
    let mut bench = Bench::new(|_| {});
    bench.cloud.has([route("10.244.9.0/24", Some("gone"))]);
    bench.cloud.looks.lock().push_back(failure(Reaction::Retry));
    bench
        .play(async |bench| {
            bench.apply(pods("n1", &["10.244.1.0/24"])).await;
            bench.listed().await;
            assert_eq!((bench.changes(), bench.condition("n1"), bench.told()), (vec![], None, vec![]));
            assert_eq!(bench.scraped(ERRORS), 1.0);
            bench.until(10).await;
        })
        .await;
    assert_eq!((bench.cloud.routes(), bench.condition("n1")), (pairs(&[("10.244.1.0/24", "n1")]), available()));
}

#[tokio::test(start_paused = true)]
async fn a_route_that_fails_has_a_back_off_of_its_own_and_a_change_of_another_node_does_not_try_it() {
    let mut bench = Bench::new(|settings| settings.queue.min_backoff = Duration::from_secs(100));
    bench.cloud.refused.lock().insert("10.244.1.0/24".to_owned(), failure(Reaction::Retry));
    bench
        .play(async |bench| {
            bench.apply(pods("n1", &["10.244.1.0/24"])).await;
            bench.listed().await;
            bench.until(10).await;
            bench.apply(pods("n2", &["10.244.2.0/24"])).await;
            bench.until(20).await;
            let tried: Vec<String> = bench.changes().iter().map(|call| format!("{call:?}")).collect();
            assert_eq!(tried.len(), 2);
            assert!(tried[1].contains("n2") && !tried[1].contains("n1"), "{tried:?}");
            // Another address of the Node is another wish.
            bench.cloud.refused.lock().clear();
            bench.apply(pods("n1", &["10.244.1.0/24"]).address("InternalIP", "10.0.0.7")).await;
            bench.until(30).await;
        })
        .await;
    assert_eq!((bench.changes().len(), bench.condition("n1")), (3, available()));
}

#[tokio::test(start_paused = true)]
async fn a_route_that_fails_is_tried_again_by_itself_and_at_once_when_the_cloud_is_back() {
    for is_told in [false, true] {
        let mut bench = Bench::new(|settings| settings.queue.min_backoff = Duration::from_secs(100));
        bench.cloud.refused.lock().insert("10.244.1.0/24".to_owned(), failure(Reaction::Retry));
        bench
            .play(async |bench| {
                bench.apply(pods("n1", &["10.244.1.0/24"])).await;
                bench.listed().await;
                assert_eq!(bench.condition("n1"), unavailable());
                bench.cloud.refused.lock().clear();
                if is_told {
                    bench.recovery.send_modify(|count| *count += 1);
                    bench.until(1).await;
                } else {
                    bench.until(201).await;
                }
            })
            .await;
        assert_eq!(bench.condition("n1"), available(), "{is_told}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_wrong_with_the_wish_itself_waits_for_another_one() {
    let mut bench = Bench::new(|settings| settings.period = Duration::from_secs(300));
    bench.is_refused_for_an_hour(Reaction::Invalid).await;
    assert!(bench.looks().len() > 9, "{:?}", bench.looks());
    assert_eq!((bench.changes().len(), bench.told().len()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn an_obsolete_route_that_cannot_be_removed_is_tried_again_and_the_run_is_an_error() {
    let mut bench = Bench::new(|_| {});
    bench.cloud.has([route("10.244.9.0/24", Some("gone"))]);
    bench.cloud.changes.lock().push_back(failure(Reaction::Retry).into());
    bench
        .play(async |bench| {
            bench.listed().await;
            assert_eq!(bench.scraped(ERRORS), 1.0);
            bench.until(10).await;
        })
        .await;
    assert_eq!((bench.cloud.routes(), bench.changes().len()), (vec![], 2));
}

#[tokio::test(start_paused = true)]
async fn a_cloud_that_asks_for_a_pause_gets_it_whatever_changes() {
    for is_change in [false, true] {
        let mut bench = Bench::new(|_| {});
        let mut pause = failure(Reaction::Throttled);
        pause.retry_after = Some(Duration::from_secs(60));
        if is_change {
            bench.cloud.changes.lock().push_back(pause.into());
        } else {
            bench.cloud.looks.lock().push_back(pause);
        }
        bench
            .play(async |bench| {
                bench.apply(pods("n1", &["10.244.1.0/24"])).await;
                bench.listed().await;
                bench.until(10).await;
                bench.apply(pods("n2", &["10.244.2.0/24"])).await;
                bench.until(100).await;
            })
            .await;
        let conditions = (bench.condition("n1"), bench.condition("n2"));
        assert_eq!((bench.looks(), conditions), (vec![0, 60], (available(), available())), "{is_change}");
    }
}

/// What the run found out is of before.
#[tokio::test(start_paused = true)]
async fn a_cloud_that_is_back_during_a_run_is_asked_again_when_the_run_ends() {
    for reaction in [Reaction::Unauthorized, Reaction::Retry] {
        let mut bench = Bench::new(|settings| settings.queue.min_backoff = Duration::from_secs(100));
        bench.cloud.refused.lock().insert("10.244.1.0/24".to_owned(), failure(reaction));
        *bench.cloud.takes.lock() = Duration::from_secs(10);
        bench
            .play(async |bench| {
                bench.apply(pods("n1", &["10.244.1.0/24"])).await;
                bench.listed().await;
                bench.until(5).await;
                bench.cloud.refused.lock().clear();
                bench.recovery.send_modify(|count| *count += 1);
                bench.until(30).await;
            })
            .await;
        assert_eq!((bench.looks(), bench.condition("n1")), (vec![0, 10], available()), "{reaction:?}");
    }
}

/// A run that the queue drops would leave nothing behind, and the next one would do the same.
#[tokio::test(start_paused = true)]
async fn a_run_ends_before_its_time_is_over_and_tells_what_it_did() {
    let mut bench = Bench::new(|settings| {
        settings.batch = NonZeroUsize::MIN;
        settings.queue.max_run = Duration::from_secs(100);
    });
    *bench.cloud.takes.lock() = Duration::from_secs(30);
    bench
        .play(async |bench| {
            bench.listed_with(many(4)).await;
            bench.until(79).await;
            assert_eq!((bench.condition("n0"), bench.told()), (None, vec![]));
            bench.until(81).await;
            let conditions = ["n0", "n1", "n2", "n3"].map(|node| bench.condition(node));
            assert_eq!(conditions, [available(), available(), unavailable(), unavailable()]);
            // They were told of as if they had failed.
            assert_eq!((bench.told(), bench.scraped(CHANGED)), (vec![], 1.0));
            let count = |state| bench.scraped(&format!(r#"ccm_routes{{provider="fake",state="{state}"}}"#));
            assert_eq!([count("in_place"), count("pending"), count("failing")], [2.0, 2.0, 0.0]);
            assert_eq!(bench.scraped(SUCCESS), 0.0, "not every Node has its routes");
            bench.until(300).await;
        })
        .await;
    assert_eq!((bench.condition("n2"), bench.condition("n3")), (available(), available()));
    assert_eq!(bench.told(), Vec::<String>::new());
    assert!(bench.scraped(SUCCESS) > 0.0);
}

/// A run that got nowhere was begun again at once, for ever.
#[tokio::test(start_paused = true)]
async fn a_run_that_decides_nothing_has_failed() {
    let mut bench = Bench::new(|settings| {
        settings.queue.max_run = Duration::from_secs(100);
        settings.queue.min_backoff = Duration::from_secs(1_000);
        settings.queue.max_backoff = Duration::from_secs(1_000);
        settings.call_timeout = Duration::from_secs(50);
    });
    *bench.cloud.takes.lock() = Duration::from_secs(3_000);
    let refused = (0..4).map(|i| (format!("10.244.{i}.0/24"), failure(Reaction::Retry)));
    bench.cloud.refused.lock().extend(refused);
    bench
        .play(async |bench| {
            bench.listed_with(many(4)).await;
            bench.until(500).await;
        })
        .await;
    assert_eq!((bench.looks(), bench.changes().len(), bench.told().len()), (vec![0], 2, 4));
    assert_eq!(bench.scraped(ERRORS), 1.0);
}

/// The routes that took all of it are not the first ones again.
#[tokio::test(start_paused = true)]
async fn a_call_that_takes_the_whole_run_keeps_no_other_routes_from_being_made() {
    let mut bench = Bench::new(|settings| {
        settings.batch = NonZeroUsize::new(2).unwrap();
        settings.queue.max_run = Duration::from_secs(100);
        settings.queue.min_backoff = Duration::from_secs(1_000);
        settings.queue.max_backoff = Duration::from_secs(1_000);
    });
    bench.cloud.stuck.lock().push("10.244.0.0/24".to_owned());
    bench
        .play(async |bench| {
            bench.listed_with(many(4)).await;
            bench.until(200).await;
        })
        .await;
    let conditions = ["n0", "n1", "n2", "n3"].map(|node| bench.condition(node));
    assert_eq!(conditions, [unavailable(), unavailable(), available(), available()]);
    assert_eq!((bench.looks(), bench.told().len()), (vec![0, 80], 2));
}

/// They once had a back-off, as if they had failed.
#[tokio::test(start_paused = true)]
async fn what_a_run_has_no_time_for_is_asked_for_at_once() {
    let mut bench = Bench::new(|settings| {
        settings.batch = NonZeroUsize::MIN;
        settings.queue.max_run = Duration::from_secs(100);
        settings.queue.min_backoff = Duration::from_secs(1_000);
        settings.queue.max_backoff = Duration::from_secs(1_000);
    });
    *bench.cloud.takes.lock() = Duration::from_secs(30);
    bench
        .play(async |bench| {
            bench.listed_with(many(5)).await;
            bench.until(200).await;
        })
        .await;
    assert_eq!(bench.looks(), [0, 80]);
    assert_eq!(["n2", "n3", "n4"].map(|node| bench.condition(node)), [available(), available(), available()]);
}

/// A call that takes all of the time by itself has failed: the next one would, too.
#[tokio::test(start_paused = true)]
async fn a_call_that_has_the_whole_run_and_gives_no_answer_has_a_back_off() {
    let mut bench = Bench::new(|settings| {
        settings.queue.max_run = Duration::from_secs(100);
        settings.queue.min_backoff = Duration::from_secs(1_000);
        settings.queue.max_backoff = Duration::from_secs(1_000);
    });
    *bench.cloud.takes.lock() = Duration::from_secs(3_000);
    bench.cloud.refused.lock().insert("10.244.1.0/24".to_owned(), failure(Reaction::Retry));
    bench
        .play(async |bench| {
            bench.apply(pods("n1", &["10.244.1.0/24"])).await;
            bench.listed().await;
            bench.until(500).await;
        })
        .await;
    assert_eq!((bench.looks(), bench.changes().len()), (vec![0], 1));
}

/// What the cloud began to do, it also says when to look at.
#[tokio::test(start_paused = true)]
async fn a_route_that_the_cloud_is_at_work_on_is_looked_at_when_the_cloud_says() {
    let mut bench = Bench::new(|_| {});
    let mut pending = failure(Reaction::Pending);
    pending.retry_after = Some(Duration::from_secs(40));
    bench.cloud.refused.lock().insert("10.244.1.0/24".to_owned(), pending);
    bench
        .play(async |bench| {
            bench.apply(pods("n1", &["10.244.1.0/24"])).await;
            bench.listed().await;
            bench.cloud.refused.lock().clear();
            bench.until(60).await;
        })
        .await;
    assert_eq!((bench.looks(), bench.condition("n1"), bench.told()), (vec![0, 40], available(), vec![]));
}
