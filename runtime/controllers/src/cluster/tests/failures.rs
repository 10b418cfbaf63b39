//! What follows from failures, and what people see of them.

use std::time::Duration;

use ccm_cloud::{ClusterSubject, Failure, Reaction};
use serde_json::json;

use super::{Bench, Setup, SyncResult, service};
use crate::cluster::{ClusterSettings, sync};
use crate::testing::{Log, node};

fn failure(reaction: Reaction, after: Option<u64>) -> Failure {
    let mut failure = Failure::new(reaction, "what the cloud said");
    failure.retry_after = after.map(Duration::from_secs);
    failure
}

fn of_node(name: &str, failure: Failure) -> (ClusterSubject, Failure) {
    (ClusterSubject::Node(name.into()), failure)
}

fn of_web(failure: Failure) -> (ClusterSubject, Failure) {
    (ClusterSubject::Service { namespace: "shop".into(), name: "web".into() }, failure)
}

/// Runs with these answers for a quarter of an hour; a change that matters comes after ten seconds.
async fn quarter(answers: Vec<SyncResult>) -> Bench {
    let mut bench = Bench::new(Setup { answers, ..Setup::default() });
    bench
        .play(async |bench| {
            bench.listed().await;
            bench.until(10).await;
            bench.apply_service(service("more")).await;
            bench.until(900).await;
        })
        .await;
    bench
}

#[tokio::test(start_paused = true)]
async fn each_reaction_of_a_whole_failure_has_its_next_call() {
    let cases = [
        // The change comes sooner than what is slow, and does not hurry it.
        (Reaction::Throttled, Some(100), vec![0, 100]),
        (Reaction::Unauthorized, None, vec![0, 60]),
        (Reaction::Quota, Some(5), vec![0, 60]),
        (Reaction::Unsupported, Some(90), vec![0, 90]),
        (Reaction::Pending, Some(20), vec![0, 20]),
        // These wait for a change.
        (Reaction::Invalid, None, vec![0, 12]),
        (Reaction::Elsewhere, None, vec![0, 12]),
        // Before the change, and with it.
        (Reaction::Retry, Some(5), vec![0, 5, 12]),
    ];
    for (reaction, after, calls) in cases {
        let bench = quarter(vec![Err(failure(reaction, after))]).await;
        assert_eq!(bench.calls(), calls, "{reaction:?}");
        let ended = format!("ccm_cluster_syncs_total{{provider=\"fake\",outcome=\"{}\"}}", reaction.as_str());
        assert_eq!(bench.scraped(&ended), 1.0, "{reaction:?}");
        assert_eq!(bench.api.events(), Vec::<String>::new(), "{reaction:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn failures_without_a_delay_back_off_from_a_second_to_five_minutes() {
    let answers = (0..100).map(|_| Err(failure(Reaction::Retry, None))).collect();
    let mut bench = Bench::new(Setup { answers, ..Setup::default() });
    bench
        .play(async |bench| {
            bench.listed().await;
            bench.until(7_200).await;
        })
        .await;
    let calls = bench.calls();
    let gaps: Vec<u64> = calls.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps[0] <= 2 && gaps.iter().all(|gap| *gap <= 301), "{gaps:?}");
    assert!((25..=40).contains(&calls.len()), "{calls:?}");
}

#[tokio::test(start_paused = true)]
async fn a_cloud_that_is_back_is_not_made_to_wait() {
    let mut bench = Bench::new(Setup { answers: vec![Err(failure(Reaction::Quota, Some(900)))], ..Setup::default() });
    bench
        .play(async |bench| {
            bench.listed().await;
            bench.until(50).await;
            bench.recovery.send_replace(1);
            bench.until(60).await;
        })
        .await;
    assert_eq!(bench.calls(), [0, 50]);
}

/// What the call found out is of before.
#[tokio::test(start_paused = true)]
async fn a_cloud_that_is_back_during_a_call_is_called_again_when_it_ends() {
    let throttled = Ok(vec![of_node("n1", failure(Reaction::Throttled, Some(900)))]);
    for answer in [Err(failure(Reaction::Quota, Some(900))), throttled] {
        let takes = Duration::from_secs(10);
        let mut bench = Bench::new(Setup { answers: vec![answer], takes, ..Setup::default() });
        bench
            .play(async |bench| {
                bench.listed().await;
                bench.until(5).await;
                bench.recovery.send_replace(1);
                bench.until(60).await;
            })
            .await;
        assert_eq!(bench.calls(), [0, 10]);
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_that_failed_has_a_warning_and_the_rest_is_done() {
    let answers = vec![Ok(vec![of_node("n1", failure(Reaction::Quota, None)), of_web(failure(Reaction::Retry, None))])];
    let mut bench = Bench::new(Setup { answers, ..Setup::default() });
    bench
        .play(async |bench| {
            bench.listed().await;
            assert_eq!(bench.scraped("ccm_cluster_objects_failing{provider=\"fake\"}"), 2.0);
            let succeeded = bench.scraped("ccm_cluster_sync_last_success_timestamp_seconds{provider=\"fake\"}");
            assert_eq!(succeeded, 0.0, "the cloud did not do all");
            bench.until(900).await;
        })
        .await;
    assert_eq!(
        bench.api.events(),
        [
            "Warning SyncClusterFailed: what the cloud said (quota): retried with back-off",
            "Warning SyncClusterFailed: what the cloud said (retry): retried with back-off",
        ]
    );
    let about = bench.api.calls().into_iter().map(|call| call.body["regarding"].clone()).collect::<Vec<_>>();
    let node = json!({ "apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "uid-n1" });
    let web = json!({ "apiVersion": "v1", "kind": "Service", "namespace": "shop", "name": "web", "uid": "uid-web" });
    assert_eq!(about, [node, web]);
    assert_eq!(bench.calls().len(), 2, "the second call was good");
    assert_eq!(bench.scraped("ccm_cluster_syncs_total{provider=\"fake\",outcome=\"partial\"}"), 1.0);
    assert_eq!(bench.scraped("ccm_cluster_syncs_total{provider=\"fake\",outcome=\"ok\"}"), 1.0);
    assert_eq!(bench.scraped("ccm_cluster_objects_failing{provider=\"fake\"}"), 0.0);
    assert!(bench.scraped("ccm_cluster_sync_last_success_timestamp_seconds{provider=\"fake\"}") > 1e9);
}

#[tokio::test(start_paused = true)]
async fn the_soonest_of_several_objects_decides_about_the_next_call() {
    let cases = [
        (vec![(Reaction::Invalid, None), (Reaction::Pending, Some(7)), (Reaction::Throttled, Some(30))], vec![0, 7]),
        (vec![(Reaction::Invalid, None)], vec![0]),
        (vec![(Reaction::Elsewhere, None)], vec![0]),
        (vec![(Reaction::Unauthorized, None), (Reaction::Quota, None)], vec![0, 60]),
    ];
    for (failures, calls) in cases {
        let answer = failures.iter().map(|&(reaction, after)| of_web(failure(reaction, after))).collect();
        let mut bench = Bench::new(Setup { answers: vec![Ok(answer)], ..Setup::default() });
        bench
            .play(async |bench| {
                bench.listed().await;
                bench.until(900).await;
            })
            .await;
        assert_eq!(bench.calls(), calls, "{failures:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn work_in_progress_and_other_peoples_objects_are_no_warnings() {
    let bench = quarter(vec![Ok(vec![
        of_node("n1", failure(Reaction::Pending, Some(100))),
        of_web(failure(Reaction::Elsewhere, None)),
    ])])
    .await;
    assert_eq!(bench.api.events(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_period_does_not_repeat_a_warning_but_an_hour_does_and_so_does_news() {
    let same = || Ok(vec![of_web(failure(Reaction::Invalid, None))]);
    let other = || Ok(vec![of_web(Failure::new(Reaction::Invalid, "something else"))]);
    let settings = ClusterSettings { period: Duration::from_secs(300), ..ClusterSettings::default() };
    let told = async |answers: Vec<SyncResult>, seconds| {
        let mut bench = Bench::new(Setup { settings, answers, ..Setup::default() });
        bench
            .play(async |bench| {
                bench.listed().await;
                bench.until(seconds).await;
            })
            .await;
        bench.metrics.events.written.get()
    };
    assert_eq!(told((0..100).map(|_| same()).collect(), 3_200).await, 1, "ten calls");
    assert_eq!(told((0..100).map(|_| same()).collect(), 5_000).await, 2, "after an hour");
    assert_eq!(told(vec![same(), other(), other()], 1_100).await, 2, "another message");
    assert_eq!(told(vec![same(), Ok(vec![]), same()], 1_100).await, 2, "it was well in between");
}

/// What one object lacks must not hold up the others; a cloud that is asked too often is asked less.
#[tokio::test(start_paused = true)]
async fn a_change_calls_at_once_whatever_single_objects_lack_unless_the_cloud_throttles() {
    let cases = [
        (vec![(Reaction::Quota, Some(100))], vec![0, 12]),
        (vec![(Reaction::Unauthorized, None), (Reaction::Unsupported, None)], vec![0, 12]),
        (vec![(Reaction::Throttled, Some(100)), (Reaction::Quota, Some(200))], vec![0, 100]),
        // Sooner for another object, which is the cloud's own word as well.
        (vec![(Reaction::Throttled, Some(100)), (Reaction::Pending, Some(50))], vec![0, 50]),
        // The back-off.
        (vec![(Reaction::Throttled, None)], vec![0, 1, 12]),
    ];
    for (failures, calls) in cases {
        let answer = failures.iter().map(|&(reaction, after)| of_web(failure(reaction, after))).collect();
        assert_eq!(quarter(vec![Ok(answer)]).await.calls(), calls, "{failures:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn thousands_that_fail_alike_are_told_a_few_at_a_time() {
    let all = || (0..120).map(|i| of_node(&format!("n{i}"), failure(Reaction::Invalid, None))).collect();
    let settings = ClusterSettings { period: Duration::from_secs(300), ..ClusterSettings::default() };
    let answers = (0..10).map(|_| Ok(all())).collect();
    let mut bench = Bench::new(Setup { settings, answers, ..Setup::default() });
    let mut written = vec![];
    bench
        .play(async |bench| {
            for i in 0..120 {
                bench.apply_node(node(&format!("n{i}")).0).await;
            }
            bench.listed().await;
            for at in [10, 340, 680, 1_400] {
                bench.until(at).await;
                written.push(bench.metrics.events.written.get());
            }
        })
        .await;
    assert_eq!(written[0], u64::try_from(sync::MAX_EVENTS).unwrap());
    assert_eq!(written[1..], [100, 120, 120]);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_gone_has_no_event() {
    let bench = quarter(vec![Ok(vec![of_node("nobody", failure(Reaction::Retry, Some(100)))])]).await;
    assert_eq!(bench.api.events(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn the_log_says_once_that_it_fails_and_once_that_it_is_well_again() {
    let log = Log::start();
    let mut answers: Vec<SyncResult> = (0..5).map(|_| Err(failure(Reaction::Retry, Some(10)))).collect();
    answers.push(Ok(vec![]));
    quarter(answers).await;
    assert_eq!(log.lines("was not kept").len(), 1, "{:?}", log.lines(""));
    assert!(log.lines("was not kept")[0].contains("what the cloud said (retry)"));
    assert_eq!(log.lines("is kept again").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_provider_without_an_answer_is_given_up_and_tried_again() {
    let mut bench = Bench::new(Setup { takes: Duration::from_secs(36_000), ..Setup::default() });
    bench
        .play(async |bench| {
            bench.listed().await;
            *bench.cloud.running.lock() = 0;
            tokio::time::sleep(Duration::from_secs(299)).await;
            assert_eq!(bench.calls(), [0]);
            *bench.cloud.running.lock() = 0;
            tokio::time::sleep(Duration::from_secs(5)).await;
        })
        .await;
    assert_eq!(bench.calls().len(), 2);
    assert_eq!(bench.scraped("ccm_cluster_syncs_total{provider=\"fake\",outcome=\"retry\"}"), 1.0);
}

/// SIGTERM while the cloud takes its time.
#[tokio::test(start_paused = true)]
async fn a_call_that_does_not_end_after_the_stop_signal_is_told_to_the_owner() {
    for (takes, is_well) in [(9, true), (30, false)] {
        let mut bench = Bench::new(Setup { takes: Duration::from_secs(takes), ..Setup::default() });
        let ended = bench.play_to_end(async |bench| bench.listed().await).await;
        assert_eq!((ended.is_ok(), bench.calls()), (is_well, vec![0]), "{takes} s");
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_that_cannot_be_read_is_left_out_and_said_and_one_without_ports_is_not() {
    let mut bench = Bench::new(Setup::default());
    bench
        .play(async |bench| {
            let mut open = service("open");
            open["spec"]["type"] = json!("LoadBalancer");
            open["spec"]["loadBalancerSourceRanges"] = json!(["10.0.0.0/99"]);
            bench.apply_service(open).await;
            let mut headless = service("headless");
            headless["spec"] = json!({ "type": "ClusterIP", "clusterIP": "None" });
            bench.apply_service(headless).await;
            bench.listed().await;
        })
        .await;
    assert_eq!(bench.cloud.calls.lock()[0].services, ["shop/headless", "shop/web"]);
    let events = bench.api.events();
    assert_eq!(events.len(), 1);
    assert!(events[0].contains("spec.loadBalancerSourceRanges[0]"), "{events:?}");
    assert!(events[0].ends_with("(invalid): retried when something changes, at the latest after 100000s"));
}
