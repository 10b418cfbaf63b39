//! A process that ends at any moment, other writers, a cloud and an API server that fail.

use ccm_cloud::{Outcome, Reaction};
use serde_json::json;

use super::*;

/// Lets a sync go on for `turns` of the scheduler, then drops it: the process was killed.
async fn killed_after(bench: &Bench, turns: usize) -> Option<Verdict> {
    let clock = async {
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
    };
    let web = key("web");
    tokio::select! {
        biased;
        () = clock => None,
        verdict = bench.syncer.sync(&web) => Some(verdict),
    }
}

async fn until_done(bench: &mut Bench) {
    for _ in 0..20 {
        match bench.sync("web").await {
            Verdict::Done => return,
            Verdict::After(delay) => tokio::time::advance(delay).await,
            other => panic!("{other:?}"),
        }
    }
    panic!("no end");
}

#[tokio::test(start_paused = true)]
async fn a_process_that_is_killed_at_any_step_of_an_ensure_leaves_one_load_balancer_and_its_finalizer() {
    let mut killed = 0;
    for turns in 0..60 {
        let mut bench = Bench::new();
        bench.add(service("web"));
        let ended = killed_after(&bench, turns).await;
        killed += usize::from(ended.is_none());
        if !bench.cloud.balancers().is_empty() {
            assert_eq!(bench.json("web")["metadata"]["finalizers"], json!([FINALIZER]), "killed after {turns} turns");
        }
        let mut bench = bench.restart();
        until_done(&mut bench).await;
        assert_eq!(bench.cloud.balancers().len(), 1, "killed after {turns} turns");
        assert_eq!(bench.json("web")["status"]["loadBalancer"]["ingress"][0]["ip"], "192.0.2.1");
        let calls = bench.cloud.count("ensure");
        assert!(calls <= 2, "killed after {turns} turns: {calls} calls");
    }
    assert!((4..60).contains(&killed), "{killed} of 60 were killed on the way");
}

/// They once piled up, under another name with each try, until the process had no memory left.
#[tokio::test(start_paused = true)]
async fn annotations_that_the_api_server_never_takes_wait_as_far_as_an_object_could_have_them() {
    let mut bench = Bench::new();
    bench.add(finalized("web"));
    let noted = |number: usize| {
        let annotations = vec![(format!("fake.io/job-{number}"), Some("x".repeat(100_000)))];
        Outcome { annotations, ..Outcome::failed(failure(Reaction::Retry, &format!("try {number}"))) }
    };
    bench.cloud.script("ensure", "web", (0..6).map(noted));
    let mut waiting = vec![];
    for _ in 0..6 {
        bench.api.refuse(STATUS, 422, 1);
        if let Verdict::After(delay) = bench.sync("web").await {
            tokio::time::advance(delay).await;
        }
        waiting.push(bench.syncer.memory.with(&key("web"), |entry| entry.unwritten().len()).unwrap());
    }
    assert_eq!(waiting, [1, 2, 1, 2, 1, 2], "three are more than 256 KiB");
}

/// Whoever may write Services writes into one while it is being served, and the answer to our next write has that in it.
#[tokio::test(start_paused = true)]
async fn an_answer_with_a_service_that_has_grown_too_large_is_not_kept() {
    let mut bench = Bench::new();
    bench.add(finalized("web"));
    bench.api.script(STATUS, |state| {
        let many = (0..2_000).map(|number| (format!("theirs-{number}"), json!("x".repeat(100))));
        let many: serde_json::Map<String, Value> = many.collect();
        state.edit_service("web", &json!({ "metadata": { "annotations": many } }));
        None
    });
    assert_ne!(bench.sync("web").await, Verdict::Done);
    let annotations = bench.syncer.memory.with(&key("web"), |entry| entry.newest.metadata.annotations.clone()).unwrap();
    assert_eq!(annotations.map_or(0, |all| all.len()), 0);
    assert_eq!(bench.json("web")["metadata"]["annotations"].as_object().unwrap().len(), 2_000);
}

#[tokio::test(start_paused = true)]
async fn a_process_that_is_killed_at_any_step_of_a_deletion_leaves_nothing() {
    let mut killed = 0;
    for turns in 0..60 {
        let mut bench = Bench::new();
        bench.add(service("web"));
        until_done(&mut bench).await;
        bench.delete("web");
        killed += usize::from(killed_after(&bench, turns).await.is_none());
        if !bench.cloud.balancers().is_empty() {
            assert_eq!(bench.json("web")["metadata"]["finalizers"], json!([FINALIZER]), "killed after {turns} turns");
        }
        let mut bench = bench.restart();
        until_done(&mut bench).await;
        assert_eq!((bench.cloud.balancers().len(), bench.api.service("web")), (0, None), "killed after {turns} turns");
    }
    assert!((4..60).contains(&killed), "{killed} of 60 were killed on the way");
}

/// The record of the old state would say of a half-changed load balancer that all is well.
#[tokio::test(start_paused = true)]
async fn a_change_that_is_killed_at_any_step_and_then_taken_back_is_undone() {
    let mut killed = 0;
    for turns in 0..60 {
        let mut bench = Bench::new();
        bench.add(service("web"));
        until_done(&mut bench).await;
        let before = json!({ "spec": bench.json("web")["spec"] });
        bench.edit("web", &json!({ "spec": { "ports": [{ "port": 443 }] } }));
        killed += usize::from(killed_after(&bench, turns).await.is_none());
        bench.edit("web", &before);
        let mut bench = bench.restart();
        until_done(&mut bench).await;
        assert_eq!(bench.cloud.balancers()["web uid-web"].ports, [80], "killed after {turns} turns");
    }
    assert!((4..60).contains(&killed), "{killed} of 60 were killed on the way");
}

/// The next process found the finalizer, an address, and a record by which all was well: nobody made again what had been deleted.
#[tokio::test(start_paused = true)]
async fn a_deletion_for_another_type_that_is_killed_at_any_step_and_then_taken_back_is_undone() {
    let mut killed = 0;
    for turns in 0..100 {
        let mut bench = Bench::new();
        bench.add(service("web"));
        until_done(&mut bench).await;
        bench.edit("web", &json!({ "spec": { "type": "ClusterIP" } }));
        killed += usize::from(killed_after(&bench, turns).await.is_none());
        bench.edit("web", &json!({ "spec": { "type": "LoadBalancer" } }));
        let mut bench = bench.restart();
        until_done(&mut bench).await;
        let all = bench.cloud.balancers();
        let ip = all.get("web uid-web").map(|balancer| balancer.ip.clone());
        assert!(ip.is_some() && all.len() == 1, "killed after {turns} turns: {all:?}");
        assert_eq!(bench.json("web")["status"]["loadBalancer"]["ingress"][0]["ip"], json!(ip), "{turns} turns");
    }
    assert!((4..100).contains(&killed), "{killed} of 100 were killed on the way");
}

#[tokio::test(start_paused = true)]
async fn work_without_an_end_ends_at_the_limit_of_a_run() {
    let cloud = FakeBalancers { delay: Duration::from_secs(3_600), ..FakeBalancers::default() };
    let mut settings = ServiceSettings { call_timeout: Duration::from_secs(7_200), ..ServiceSettings::default() };
    settings.queue.max_run = Duration::from_secs(900);
    let mut bench = Bench::with(cloud, settings);
    bench.add(service("web"));
    for deletes in [false, true] {
        if deletes {
            bench.delete("web");
        }
        let begun = tokio::time::Instant::now();
        assert!(matches!(bench.sync("web").await, Verdict::After(_)));
        assert_eq!(begun.elapsed().as_secs(), 900);
        let told = bench.condition("web")["message"].as_str().unwrap().to_owned();
        assert!(told.contains("was not done within 900s"), "{told}");
    }
}

#[tokio::test(start_paused = true)]
async fn conflicts_on_every_write_put_it_off_and_break_nothing() {
    let mut bench = Bench::new();
    bench.add(service("web"));
    bench.api.refuse(STATUS, 409, 6);
    until_done(&mut bench).await;
    assert_eq!(bench.cloud.balancers().len(), 1);
    assert_eq!(bench.json("web")["status"]["loadBalancer"]["ingress"][0]["ip"], "192.0.2.1");
    bench.delete("web");
    // More than the attempts of one run.
    bench.api.refuse(STATUS, 422, 7);
    let verdict = bench.sync("web").await;
    let soon = bench.syncer.settings.slow_retry / 2;
    assert!(
        matches!(verdict, Verdict::After(delay) if delay < soon),
        "as what the API server finds wrong: {verdict:?}"
    );
    until_done(&mut bench).await;
    assert_eq!((bench.cloud.balancers().len(), bench.api.service("web")), (0, None));
}

#[tokio::test(start_paused = true)]
async fn an_answer_of_the_api_server_that_is_lost_is_no_harm() {
    let mut bench = Bench::new();
    bench.add(service("web"));
    for _ in 0..2 {
        bench.api.lose_answer(STATUS);
    }
    until_done(&mut bench).await;
    assert_eq!(
        (bench.cloud.balancers().len(), bench.json("web")["metadata"]["finalizers"].clone()),
        (1, json!([FINALIZER]))
    );
    bench.delete("web");
    bench.api.lose_answer(STATUS);
    until_done(&mut bench).await;
    assert_eq!((bench.cloud.balancers().len(), bench.api.service("web"), bench.syncer.memory.len()), (0, None, 0));
}

/// It passed for the Service: a load balancer was made without a finalizer, an address was never written, and a Service that was deleted
/// kept its finalizer for ever.
#[tokio::test(start_paused = true)]
async fn an_answer_of_something_in_between_is_no_service_and_the_write_is_tried_again() {
    for (draft, ensured) in [(service("web"), 0), (finalized("web"), 1)] {
        let mut bench = Bench::new();
        bench.add(draft);
        bench.api.interfere(STATUS, 200, "{}", 1);
        assert!(matches!(bench.sync("web").await, Verdict::After(_)));
        assert_eq!(bench.cloud.count("ensure"), ensured);
        until_done(&mut bench).await;
        assert_eq!(bench.json("web")["metadata"]["finalizers"], json!([FINALIZER]));
        assert_eq!(bench.json("web")["status"]["loadBalancer"]["ingress"][0]["ip"], "192.0.2.1");
        bench.delete("web");
        bench.api.interfere(STATUS, 200, "{}", 1);
        assert!(matches!(bench.sync("web").await, Verdict::After(_)));
        until_done(&mut bench).await;
        assert_eq!((bench.cloud.balancers().len(), bench.api.service("web")), (0, None));
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_that_is_deleted_while_it_is_ensured_ends_without_load_balancer() {
    let cloud = FakeBalancers { delay: Duration::from_secs(2), ..FakeBalancers::default() };
    let mut bench = Bench::with(cloud, ServiceSettings::default());
    bench.add(service("web"));
    let deletion = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        bench.api.delete_service("web");
    };
    let web = key("web");
    let (verdict, ()) = tokio::join!(bench.syncer.sync(&web), deletion);
    assert_eq!(verdict, Verdict::Done);
    bench.catch_up();
    until_done(&mut bench).await;
    assert_eq!((bench.cloud.balancers().len(), bench.api.service("web")), (0, None));
    assert_eq!(bench.cloud.calls(), ["ensure web: n0 n1", "delete web"]);
}

/// A leader that has just begun may see Services as they were a minute ago: a load balancer was made for one that is the cluster's alone.
#[tokio::test(start_paused = true)]
async fn a_service_whose_written_state_wants_no_load_balancer_any_more_gets_none() {
    for ensured in [0, 1] {
        let mut bench = Bench::new();
        bench.add(service("web"));
        if ensured > 0 {
            until_done(&mut bench).await;
            bench.edit("web", &json!({ "spec": { "ports": [{ "port": 443 }] } }));
        }
        bench.api.script(STATUS, |state| {
            state.edit_service("web", &json!({ "spec": { "type": "ClusterIP" } }));
            None
        });
        assert_eq!(bench.sync("web").await, Verdict::After(Duration::ZERO));
        until_done(&mut bench).await;
        assert_eq!((bench.cloud.count("ensure"), bench.cloud.balancers().len()), (ensured, 0));
        assert_eq!(bench.json("web")["metadata"]["finalizers"], json!([]));
    }
}

/// The name is taken by another Service while the old one's load balancer is being made: nothing is written to the new one.
#[tokio::test(start_paused = true)]
async fn a_service_that_is_created_anew_during_an_ensure_keeps_what_it_has() {
    let cloud = FakeBalancers { delay: Duration::from_secs(2), ..FakeBalancers::default() };
    let mut bench = Bench::with(cloud, ServiceSettings::default());
    bench.add(finalized("web"));
    let replacement = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        bench.api.destroy_service("web");
        bench.api.add_service(service("web").with("/metadata", "uid", json!("another")).0);
    };
    let web = key("web");
    let (verdict, ()) = tokio::join!(bench.syncer.sync(&web), replacement);
    assert_eq!(verdict, Verdict::Done);
    assert_eq!(bench.json("web")["status"], json!({ "loadBalancer": {} }));
    assert_eq!(bench.json("web")["metadata"]["annotations"], json!(null));
    bench.catch_up();
    until_done(&mut bench).await;
    assert_eq!(bench.cloud.calls(), ["ensure web: n0 n1", "mark web", "delete web", "ensure web: n0 n1"]);
    assert_eq!(bench.cloud.balancers().keys().collect::<Vec<_>>(), ["web another"]);
}

#[tokio::test(start_paused = true)]
async fn a_provider_without_an_answer_ends_at_the_time_limit() {
    let cloud = FakeBalancers { delay: Duration::from_secs(3_600), ..FakeBalancers::default() };
    let mut bench = Bench::with(cloud, ServiceSettings::default());
    bench.add(service("web"));
    let begun = tokio::time::Instant::now();
    assert!(matches!(bench.sync("web").await, Verdict::After(_)));
    assert_eq!(begun.elapsed().as_secs(), 300);
    assert!(bench.condition("web")["message"].as_str().unwrap().contains("no answer within 300s"));
}

#[tokio::test(start_paused = true)]
async fn locks_that_cannot_be_learnt_are_a_failure_like_others() {
    let mut bench = Bench::new();
    bench.add(service("web"));
    bench.cloud.fail("locks", "web", [failure(Reaction::Unauthorized, "who are you?")]);
    assert_eq!(bench.sync("web").await, Verdict::After(Duration::from_secs(60)));
    assert_eq!(bench.cloud.calls(), [""; 0]);
    assert_eq!(bench.condition("web")["reason"], "CredentialsRefused");
}

/// Thousands wait for the cloud or for their turn at the same time.
#[tokio::test(start_paused = true)]
async fn a_sync_that_waits_is_small() {
    let bench = Bench::new();
    let bytes = size_of_val(&bench.syncer.sync(&key("web")));
    assert!(bytes < 4_096, "{bytes} bytes");
}
