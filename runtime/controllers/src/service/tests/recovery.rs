//! Tries that failed, and how Services come out of that.

use ccm_cloud::Reaction;
use serde_json::json;

use super::*;

/// Waits out what a run said.
async fn wait(verdict: Verdict) {
    if let Verdict::After(delay) = verdict {
        tokio::time::advance(delay).await;
    }
}

/// What an update needs may be gone, and only an ensure makes it again. Where the cloud takes nothing, or is at work, more
/// calls do not help.
#[tokio::test(start_paused = true)]
async fn an_update_that_fails_is_followed_by_an_ensure_unless_the_cloud_takes_nothing_now() {
    let cases = [
        (Reaction::Retry, "ensure"),
        (Reaction::Conflict, "ensure"),
        (Reaction::Invalid, "ensure"),
        (Reaction::Unsupported, "ensure"),
        (Reaction::Throttled, "update"),
        (Reaction::Unauthorized, "update"),
        (Reaction::Quota, "update"),
        (Reaction::Pending, "update"),
    ];
    for (reaction, second) in cases {
        let mut bench = Bench::new();
        bench.add(service("web"));
        bench.sync("web").await;
        bench.cloud.fail("update", "web", [failure(reaction, "no such pool")]);
        bench.cloud.take_calls();
        let verdicts = bench.pass([node("n0")]).await;
        let [verdict @ Verdict::After(_)] = verdicts[..] else { panic!("{reaction:?}: {verdicts:?}") };
        wait(verdict).await;
        assert_eq!(bench.sync("web").await, Verdict::Done, "{reaction:?}");
        let calls: Vec<_> = bench.cloud.take_calls().into_iter().filter(|call| !call.starts_with("get")).collect();
        assert_eq!(calls, ["update web: n0", &format!("{second} web: n0")], "{reaction:?}");
        // From then on an update is enough.
        assert_eq!(bench.pass([node("n0"), node("n1")]).await, [Verdict::Done]);
        assert_eq!(bench.cloud.take_calls(), ["update web: n0 n1"], "{reaction:?}");
        assert_eq!(bench.scraped("ccm_load_balancers_drifted_total"), 0.0, "nobody changed anything");
    }
}

/// Where a restart comes between the two tries, the second one is known to be an ensure too.
#[tokio::test(start_paused = true)]
async fn an_update_that_failed_is_followed_by_an_ensure_after_a_restart_too() {
    let mut bench = Bench::new();
    bench.add(service("web"));
    bench.sync("web").await;
    bench.cloud.fail("update", "web", [failure(Reaction::Retry, "no such pool")]);
    bench.pass([node("n0")]).await;
    bench.cloud.take_calls();
    let mut bench = bench.restart();
    assert_eq!(bench.sync("web").await, Verdict::Done);
    assert_eq!(bench.cloud.take_calls(), ["ensure web: n0"]);
}

/// An update that is not done in time leaves the same question.
#[tokio::test(start_paused = true)]
async fn an_update_without_an_end_is_followed_by_an_ensure() {
    let mut bench = Bench::new();
    bench.add(service("web"));
    bench.sync("web").await;
    let mut settings = bench.settings;
    settings.queue.max_run = Duration::from_secs(10);
    let stuck = FakeBalancers { delay: Duration::from_secs(60), ..FakeBalancers::default() };
    let mut bench = Bench::start(bench.api, Arc::new(stuck), settings);
    wait(bench.pass([node("n0")]).await[0]).await;
    bench.sync("web").await;
    assert_eq!(bench.cloud.take_calls(), ["update web: n0", "ensure web: n0"]);
}

/// The hosts are wrong, and no ensure helps: then other hosts are something else to do, however often they change.
#[tokio::test(start_paused = true)]
async fn hosts_that_are_refused_by_the_ensure_too_wait_for_other_hosts() {
    let mut bench = Bench::new();
    bench.add(service("web"));
    bench.sync("web").await;
    bench.cloud.fail("update", "web", [failure(Reaction::Invalid, "n2 is in another region")]);
    bench.cloud.fail("ensure", "web", vec![failure(Reaction::Invalid, "n2 is in another region"); 2]);
    bench.cloud.take_calls();
    wait(bench.pass([node("n0"), node("n2")]).await[0]).await;
    for _ in 0..2 {
        assert_eq!(bench.sync("web").await, Verdict::Change);
    }
    let told = bench.condition("web")["message"].as_str().unwrap().to_owned();
    assert!(told.ends_with("not retried before the Service or the Nodes behind it change"), "{told}");
    assert_eq!(bench.pass([node("n0"), node("n1"), node("n2")]).await, [Verdict::Change]);
    assert_eq!(bench.pass([node("n0")]).await, [Verdict::Done]);
    let ensures = ["ensure web: n0 n2", "ensure web: n0 n1 n2", "ensure web: n0"];
    let calls = bench.cloud.take_calls();
    assert_eq!(
        (calls[..2].to_vec(), &calls[2..]),
        (vec!["update web: n0 n2".into(), "get web".into()], &ensures.map(Into::into)[..])
    );
}

/// A Service that waits for a change, whose owner changes nothing while the cloud is another one by now.
#[tokio::test(start_paused = true)]
async fn the_verification_looks_at_services_whose_last_try_failed() {
    for surveys in [true, false] {
        let settings = ServiceSettings { verify_period: Duration::from_secs(60), ..ServiceSettings::default() };
        let mut bench = Bench::with(FakeBalancers { surveys, ..FakeBalancers::default() }, settings);
        for name in ["wrong", "elsewhere", "pending"] {
            bench.add(service(name));
            bench.sync(name).await;
            bench.edit(name, &json!({ "metadata": { "annotations": { "fake.io/mode": "other" } } }));
        }
        bench.cloud.fail("ensure", "wrong", [failure(Reaction::Invalid, "no such network")]);
        bench.cloud.fail("ensure", "elsewhere", [failure(Reaction::Elsewhere, "not mine")]);
        bench.cloud.fail("ensure", "pending", [failure(Reaction::Pending, "being built")]);
        for name in ["wrong", "elsewhere", "pending"] {
            bench.sync(name).await;
        }
        bench.cloud.lose("wrong");
        let (queue, mut keys) = tokio::sync::mpsc::channel(64);
        let (_ready, is_ready) = tokio::sync::watch::channel(true);
        let syncer = Arc::clone(&bench.syncer);
        let mut verifying = Box::pin(verify::run(&syncer, queue, is_ready));
        bench.cloud.take_calls();
        let found = tokio::select! {
            () = &mut verifying => panic!("it ends"),
            found = tokio::time::timeout(Duration::from_secs(5 * 60), keys.recv()) => found,
        };
        assert_eq!(found, Ok(Some(key("wrong"))), "with a survey: {surveys}");
        // In two rounds more nobody is asked about who waits for the cloud, or is none of ours.
        assert!(tokio::time::timeout(Duration::from_secs(2 * 80), verifying).await.is_err());
        let asked = bench.cloud.calls();
        let only = if surveys { "survey 1" } else { "get wrong" };
        assert!(!asked.is_empty() && asked.iter().all(|call| call == only), "{asked:?}");
        assert_eq!(bench.sync("wrong").await, Verdict::Done);
        assert!(bench.cloud.balancers().contains_key("wrong uid-wrong"));
    }
}

/// It failed after the cloud was back, and waited out its back-off: what woke the others came too early for it.
#[tokio::test(start_paused = true)]
async fn a_cloud_that_is_back_during_a_run_is_asked_again_when_the_run_ends() {
    for (reaction, is_asked) in [
        (Reaction::Retry, true),
        (Reaction::Throttled, true),
        (Reaction::Unauthorized, true),
        (Reaction::Quota, true),
        // It is the Service that is wrong, or the cloud that is at work.
        (Reaction::Invalid, false),
        (Reaction::Pending, false),
    ] {
        let slow = FakeBalancers { delay: Duration::from_secs(10), ..FakeBalancers::default() };
        let mut bench = Bench::with(slow, ServiceSettings::default());
        bench.add(service("web"));
        bench.cloud.fail("ensure", "web", vec![failure(reaction, "no"); 2]);
        let run = bench.begin("web");
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(bench.syncer.memory.wake_failed(), vec![], "it has not failed yet");
        assert_eq!(run.await.unwrap() == Verdict::After(Duration::ZERO), is_asked, "{reaction:?}");
        bench.catch_up();
        if is_asked {
            let next = bench.sync("web").await;
            assert!(matches!(next, Verdict::After(delay) if delay > Duration::ZERO), "{reaction:?}: {next:?}");
        }
    }
}

/// The survey had seen that there was none, and the answer came when there was one: people were told that somebody else had been at it.
#[tokio::test(start_paused = true)]
async fn a_survey_says_nothing_of_what_this_process_has_made_meanwhile() {
    let slow = FakeBalancers { surveys: true, delay: Duration::from_secs(10), ..FakeBalancers::default() };
    let settings = ServiceSettings { start_survey_timeout: Duration::from_secs(60), ..ServiceSettings::default() };
    let mut bench = Bench::with(slow, settings);
    bench.add(service("web"));
    bench.cloud.fail("ensure", "web", [failure(Reaction::Retry, "503")]);
    wait(bench.sync("web").await).await;
    let run = bench.begin("web");
    tokio::time::sleep(Duration::from_secs(5)).await;
    bench.cloud.take_calls();
    bench.survey().await;
    assert_eq!((run.await.unwrap(), bench.cloud.take_calls()), (Verdict::Done, vec!["survey 1".to_owned()]));
    bench.catch_up();
    assert_eq!((bench.sync("web").await, bench.cloud.take_calls()), (Verdict::Done, vec![]));
    assert_eq!(bench.scraped("ccm_load_balancers_drifted_total"), 0.0);
    // What goes afterwards is seen.
    bench.cloud.lose("web");
    bench.survey().await;
    assert_eq!((bench.sync("web").await, bench.scraped("ccm_load_balancers_drifted_total")), (Verdict::Done, 1.0));
}
