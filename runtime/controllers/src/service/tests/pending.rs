//! Why is it pending? Events and the condition, in the same words for every provider.

use ccm_cloud::{Failure, Outcome, Reaction};
use serde_json::json;

use super::*;

#[tokio::test(start_paused = true)]
async fn a_condition_tells_each_reaction_with_what_comes_next() {
    let rows = [
        (Reaction::Retry, "CloudFailed", "retried with back-off"),
        (Reaction::Throttled, "CloudThrottled", "retried when the cloud allows it"),
        (Reaction::Pending, "CloudPending", "checked again until the cloud is done"),
        (Reaction::Unauthorized, "CredentialsRefused", "retried slowly, and at once with other credentials"),
        (Reaction::Invalid, "InvalidService", "not retried before the Service changes"),
        (Reaction::Conflict, "CloudConflict", "retried with back-off"),
        (Reaction::Quota, "QuotaExceeded", "retried slowly"),
        (Reaction::Unsupported, "Unsupported", "retried slowly"),
    ];
    for (reaction, reason, next) in rows {
        let mut bench = Bench::new();
        bench.add(service("web"));
        let field = Some("metadata.annotations[fake.io/mode]".to_owned());
        bench.cloud.fail("ensure", "web", [Failure { field, ..failure(reaction, "the cloud said no") }]);
        bench.sync("web").await;
        let said = "metadata.annotations[fake.io/mode]: the cloud said no";
        let told = match reaction {
            Reaction::Pending => format!("the cloud is at work: {said}: {next}"),
            _ => format!("failed to ensure load balancer: {said} ({}): {next}", reaction.as_str()),
        };
        let wanted = json!({ "type": "LoadBalancerReady", "status": "False", "reason": reason, "message": told });
        assert_eq!(bench.condition("web"), wanted);
        let events = bench.events().await;
        assert_eq!(events[0], "Normal EnsuringLoadBalancer: Ensuring load balancer");
        let about = match reaction {
            Reaction::Pending => format!("Normal LoadBalancerPending: the cloud is at work: {said}: checked again"),
            _ => format!("Warning SyncLoadBalancerFailed: Error syncing load balancer: {told}"),
        };
        let next = events[1].strip_prefix(&about).unwrap_or_else(|| panic!("{events:?}"));
        assert_eq!(next.ends_with(" s"), reaction != Reaction::Invalid, "{events:?}");
        assert_eq!(bench.scraped(&format!("ccm_services_not_ready{{reason=\"{reason}\"}}")), 1.0);
        assert_eq!(bench.scraped("ccm_services_pending"), 1.0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_load_balancer_that_takes_its_time_costs_three_events_and_no_warning() {
    let mut bench = Bench::new();
    bench.add(service("web"));
    let pending = Failure { retry_after: Some(Duration::from_secs(5)), ..failure(Reaction::Pending, "job 7 runs") };
    let annotations = vec![("fake.io/job-7".to_owned(), Some("runs".to_owned()))];
    bench.cloud.script("ensure", "web", vec![Outcome { annotations, ..Outcome::failed(pending) }; 10]);
    for _ in 0..10 {
        assert_eq!(bench.sync("web").await, Verdict::After(Duration::from_secs(5)));
        tokio::time::advance(Duration::from_secs(1)).await;
        // Its own write, or anything else that does not matter, wakes it.
        assert_eq!(bench.sync("web").await, Verdict::After(Duration::from_secs(4)));
        tokio::time::advance(Duration::from_secs(4)).await;
    }
    assert_eq!(bench.patches(), 2, "the finalizer, and once why it waits");
    assert_eq!(bench.sync("web").await, Verdict::Done);
    assert_eq!((bench.cloud.count("ensure"), bench.patches()), (11, 3));
    assert_eq!(bench.condition("web")["reason"], "Ensured");
    assert_eq!(
        bench.events().await,
        [
            "Normal EnsuringLoadBalancer: Ensuring load balancer",
            "Normal LoadBalancerPending: the cloud is at work: job 7 runs: checked again in 5 s",
            "Normal EnsuredLoadBalancer: Ensured load balancer",
        ]
    );
    assert_eq!(bench.scraped("ccm_service_address_delay_seconds_count"), 1.0);
}

/// A cloud that is never done: in an hour it is looked at some 130 times, where every two seconds are 1,800.
#[tokio::test(start_paused = true)]
async fn the_longer_the_cloud_takes_the_less_often_it_is_looked_at() {
    let mut bench = Bench::new();
    bench.add(service("web"));
    let pending = || Failure { retry_after: Some(Duration::from_secs(2)), ..failure(Reaction::Pending, "creating") };
    bench.cloud.fail("ensure", "web", vec![pending(); 200]);
    let begun = tokio::time::Instant::now();
    let mut last = Duration::ZERO;
    while begun.elapsed() < Duration::from_secs(3_600) {
        let Verdict::After(delay) = bench.sync("web").await else { panic!("it waits") };
        let waited = begun.elapsed();
        assert_eq!(delay, (waited / 20).clamp(Duration::from_secs(2), Duration::from_secs(60)), "after {waited:?}");
        last = delay;
        tokio::time::advance(delay).await;
    }
    assert_eq!(last, Duration::from_secs(60));
    assert!(bench.cloud.count("ensure") < 140, "{}", bench.cloud.count("ensure"));
    // Progress is news.
    bench.cloud.forget_script("ensure", "web");
    let step = Failure { message: "created the pool".into(), ..pending() };
    bench.cloud.fail("ensure", "web", vec![step; 3]);
    assert_eq!(bench.sync("web").await, Verdict::After(Duration::from_secs(2)));
    tokio::time::advance(Duration::from_secs(2)).await;
    assert_eq!(bench.sync("web").await, Verdict::After(Duration::from_secs(2)));
    // Another wish is another work.
    bench.edit("web", &json!({ "spec": { "ports": [{ "port": 443, "nodePort": 30_443 }] } }));
    assert_eq!(bench.sync("web").await, Verdict::After(Duration::from_secs(2)));
}

/// A load balancer of many parts: each call makes one of them, and says so in one of these ways.
#[tokio::test(start_paused = true)]
async fn work_that_makes_progress_with_each_call_is_not_slowed_down() {
    const STEPS: u64 = 100;
    type Tell = fn(u64) -> Outcome;
    let pending = |retry_after| Failure { retry_after, ..failure(Reaction::Pending, "creating") };
    let two = Some(Duration::from_secs(2));
    let ways: [(&str, Tell); 3] = [
        ("message", |step| Outcome::failed(failure(Reaction::Pending, &format!("{step} of 100 parts")))),
        ("changes", |step| Outcome { changes: vec![format!("made part {step}")], ..Outcome::default() }),
        ("annotations", |step| Outcome {
            annotations: vec![("fake.io/job-1".into(), Some(step.to_string()))],
            ..Outcome::default()
        }),
    ];
    for (way, tell) in ways {
        for (operation, retry_after) in [("ensure", two), ("delete", two), ("ensure", None)] {
            let mut bench = Bench::new();
            bench.add(service("web"));
            if operation == "delete" {
                bench.sync("web").await;
                bench.delete("web");
            }
            let outcome = |step| {
                let told = tell(step);
                let message = told.failure.clone().map(|failure| failure.message);
                let failure = Failure { message: message.unwrap_or("creating".into()), ..pending(retry_after) };
                Outcome { failure: Some(failure), ..told }
            };
            bench.cloud.script(operation, "web", (0..STEPS).map(outcome));
            let begun = tokio::time::Instant::now();
            for step in 0..STEPS {
                let Verdict::After(delay) = bench.sync("web").await else { panic!("{way}: step {step}") };
                match retry_after {
                    Some(wanted) => assert_eq!(delay, wanted, "{way}, {operation}: step {step}"),
                    // The shortest back-off, and up to as much again by chance.
                    None => assert!(delay <= Duration::from_secs(10), "{way}: step {step}: {delay:?}"),
                }
                tokio::time::advance(delay).await;
            }
            assert_eq!(bench.sync("web").await, Verdict::Done, "{way}, {operation}");
            let took = begun.elapsed().as_secs();
            assert!(retry_after.is_none() || took.abs_diff(2 * STEPS) < 2, "{way}, {operation}: {took} s");
        }
    }
}

/// What a provider names is taken as it is within these bounds.
#[tokio::test(start_paused = true)]
async fn a_delay_that_the_provider_names_is_at_least_a_second_and_at_most_a_thousand() {
    for (named, waited) in [(0, 1_000), (20, 1_000), (1_500, 1_500), (90_000, 90_000), (10_000_000, 1_000_000)] {
        for reaction in [Reaction::Retry, Reaction::Conflict, Reaction::Throttled, Reaction::Pending] {
            let mut bench = Bench::new();
            bench.add(service("web"));
            let retry_after = Some(Duration::from_millis(named));
            bench.cloud.fail("ensure", "web", [Failure { retry_after, ..failure(reaction, "later") }]);
            assert_eq!(bench.sync("web").await, Verdict::After(Duration::from_millis(waited)), "{reaction:?} {named}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_changes_while_the_cloud_works_is_what_counts() {
    let pending = || Failure { retry_after: Some(Duration::from_secs(60)), ..failure(Reaction::Pending, "creating") };
    let rows: [(Value, &[&str]); 3] = [
        (json!({ "spec": { "ports": [{ "port": 443, "nodePort": 30_443 }] } }), &["ensure web: n0 n1"]),
        (json!({ "spec": { "type": "ClusterIP" } }), &["delete web"]),
        (json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } }), &["delete web"]),
    ];
    for (change, calls) in rows {
        let mut bench = Bench::new();
        bench.add(service("web"));
        bench.cloud.fail("ensure", "web", [pending()]);
        bench.sync("web").await;
        bench.cloud.take_calls();
        bench.edit("web", &change);
        assert_eq!(bench.sync("web").await, Verdict::Done, "{change}");
        assert_eq!(bench.cloud.calls(), calls, "{change}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_wrong_with_a_service_is_told_once_and_tried_when_it_changes() {
    let mut bench = Bench::new();
    bench.add(service("web").with("/spec", "loadBalancerSourceRanges", json!(["10.0.0.0/8", "ten"])));
    for _ in 0..3 {
        assert_eq!(bench.sync("web").await, Verdict::Change);
    }
    assert_eq!((bench.cloud.calls().len(), bench.patches()), (0, 1));
    let condition = bench.condition("web");
    assert_eq!(
        condition["message"],
        "failed to read the Service: spec.loadBalancerSourceRanges[1]: \"ten\" is no range of addresses: 10.0.0.0/8 or \
         2001:db8::/32 would be (invalid): not retried before the Service changes"
    );
    bench.edit("web", &json!({ "spec": { "loadBalancerSourceRanges": ["10.0.0.0/8", "eleven"] } }));
    assert_eq!(bench.sync("web").await, Verdict::Change);
    assert!(bench.condition("web")["message"].as_str().unwrap().contains("eleven"), "another mistake is news");
    bench.edit("web", &json!({ "spec": { "loadBalancerSourceRanges": ["10.0.0.0/8"] } }));
    assert_eq!(bench.sync("web").await, Verdict::Done);
    assert_eq!(bench.cloud.calls(), ["ensure web: n0 n1"]);
}

#[tokio::test(start_paused = true)]
async fn a_service_that_the_provider_finds_wrong_waits_for_a_change() {
    let mut bench = Bench::new();
    bench.add(service("web"));
    bench.cloud.fail("ensure", "web", [failure(Reaction::Invalid, "no SCTP here")]);
    for _ in 0..3 {
        assert_eq!(bench.sync("web").await, Verdict::Change);
    }
    assert_eq!(bench.cloud.count("ensure"), 1);
    bench.edit("web", &json!({ "metadata": { "annotations": { "fake.io/mode": "slow" } } }));
    assert_eq!(bench.sync("web").await, Verdict::Done);
}

/// An API server that has just started forbids everything for a moment: the Service did not say what is wrong with it for half a day.
#[tokio::test(start_paused = true)]
async fn what_is_wrong_with_a_service_is_written_as_soon_as_the_api_server_takes_it() {
    for status in [403, 503] {
        let mut bench = Bench::new();
        bench.add(finalized("web"));
        bench.cloud.fail("ensure", "web", vec![failure(Reaction::Invalid, "no SCTP here"); 2]);
        bench.api.refuse(STATUS, status, 1);
        let slow = bench.syncer.settings.slow_retry;
        assert_eq!(bench.sync("web").await, Verdict::After(slow), "{status}");
        assert_eq!(bench.condition("web"), Value::Null);
        tokio::time::advance(slow).await;
        assert_eq!(bench.sync("web").await, Verdict::Change, "{status}");
        assert_eq!(bench.condition("web")["reason"], "InvalidService");
        assert_eq!((bench.sync("web").await, bench.cloud.count("ensure")), (Verdict::Change, 2));
    }
}

/// The condition says "before the Service changes", and 200 such Services must not cost 200 calls whenever a Node joins.
#[tokio::test(start_paused = true)]
async fn nodes_that_come_and_go_are_no_news_for_a_service_that_is_wrong_or_is_somebody_elses() {
    for reaction in [Reaction::Invalid, Reaction::Elsewhere] {
        let mut bench = Bench::new();
        bench.add(service("web"));
        bench.cloud.fail("ensure", "web", [failure(reaction, "not this one")]);
        bench.sync("web").await;
        assert_eq!(bench.pass([node("n0")]).await, [Verdict::Change], "{reaction:?}");
        assert_eq!(bench.cloud.count("ensure"), 1, "{reaction:?}");
    }
}

/// What is there must not lose its hosts for a mistake in an annotation.
#[tokio::test(start_paused = true)]
async fn a_load_balancer_of_a_service_that_is_wrong_follows_its_hosts() {
    let mut bench = Bench::new();
    bench.add(service("web"));
    bench.sync("web").await;
    bench.edit("web", &json!({ "metadata": { "annotations": { "fake.io/mode": "slow" } } }));
    bench.cloud.fail("ensure", "web", vec![failure(Reaction::Invalid, "no such mode"); 2]);
    assert_eq!(bench.sync("web").await, Verdict::Change);
    bench.cloud.take_calls();
    assert_eq!(bench.pass([node("n0")]).await, [Verdict::Change]);
    assert_eq!(bench.cloud.calls(), ["ensure web: n0"]);
    assert_eq!(bench.sync("web").await, Verdict::Change);
    assert_eq!(bench.cloud.calls(), ["ensure web: n0"], "once for each set of hosts");
}

/// The same where the host itself cannot read a part of the Service: nobody is let in who was not, and nobody loses a Node.
#[tokio::test(start_paused = true)]
async fn a_load_balancer_of_a_service_that_cannot_be_read_follows_its_hosts() {
    let mut bench = Bench::new();
    bench.add(service("web"));
    bench.sync("web").await;
    let ranges = |ranges: Value| json!({ "spec": { "loadBalancerSourceRanges": ranges } });
    bench.edit("web", &ranges(json!(["10.0.0.0/8", "ten"])));
    bench.cloud.take_calls();
    assert_eq!(bench.sync("web").await, Verdict::Change);
    assert_eq!(bench.cloud.take_calls(), [""; 0], "it has the hosts of now");
    assert_eq!(bench.pass([node("n0")]).await, [Verdict::Change]);
    assert_eq!(bench.cloud.take_calls(), ["update web: n0"]);
    assert_eq!(bench.cloud.seen().last().unwrap().source_ranges, ["10.0.0.0/8", "ten"], "empty would be everybody");
    assert_eq!(bench.condition("web")["reason"], "InvalidService");
    let patches = bench.patches();
    let mut bench = bench.restart();
    for _ in 0..2 {
        assert_eq!(bench.sync("web").await, Verdict::Change);
    }
    assert_eq!((bench.cloud.take_calls(), bench.patches()), (vec![], patches), "once for each set of hosts");
    // A cloud that fails is asked again, and one that finds it wrong too is not.
    bench.cloud.fail("update", "web", [failure(Reaction::Retry, "down"), failure(Reaction::Invalid, "not that one")]);
    let [Verdict::After(delay)] = bench.pass([node("n0"), node("n1")]).await[..] else { panic!("it failed") };
    tokio::time::advance(delay).await;
    for _ in 0..2 {
        assert_eq!(bench.sync("web").await, Verdict::Change);
    }
    let calls = bench.cloud.take_calls();
    assert_eq!(calls, ["update web: n0 n1", "get web", "update web: n0 n1"]);
    assert_eq!(bench.condition("web")["reason"], "InvalidService");
    assert_eq!(bench.pass([node("n2")]).await, [Verdict::Change]);
    bench.edit("web", &ranges(json!(null)));
    assert_eq!(bench.sync("web").await, Verdict::Done);
    assert_eq!(bench.cloud.balancers()["web uid-web"].hosts, ["n2"]);
    assert_eq!(bench.condition("web")["status"], "True");
}

/// A broken Service can still be deleted.
#[tokio::test(start_paused = true)]
async fn a_service_that_cannot_be_read_can_be_deleted() {
    let mut bench = Bench::new();
    bench.add(service("web"));
    bench.sync("web").await;
    bench.edit("web", &json!({ "spec": { "ports": [], "loadBalancerSourceRanges": ["ten"] } }));
    assert_eq!(bench.sync("web").await, Verdict::Change);
    assert_eq!(bench.cloud.balancers()["web uid-web"].ports, [80], "nothing was wiped");
    bench.delete("web");
    assert_eq!(bench.sync("web").await, Verdict::Done);
    assert_eq!((bench.cloud.balancers().len(), bench.api.service("web")), (0, None));
}

#[tokio::test(start_paused = true)]
async fn the_same_warning_is_not_given_at_every_try() {
    let mut bench = Bench::new();
    bench.add(service("web"));
    bench.cloud.fail("ensure", "web", vec![failure(Reaction::Throttled, "slow down"); 8]);
    for _ in 0..8 {
        let Verdict::After(delay) = bench.sync("web").await else { panic!("no retry") };
        tokio::time::advance(delay.min(Duration::from_secs(60))).await;
        bench.syncer.memory.wake_failed();
    }
    assert_eq!(bench.patches(), 2);
    let reasons = bench.reasons().await;
    assert_eq!(reasons, ["EnsuringLoadBalancer", "SyncLoadBalancerFailed"]);
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_another_each_time_is_not_written_each_time() {
    let mut bench = Bench::new();
    bench.add(service("web"));
    let pending = |percent| Failure {
        retry_after: Some(Duration::from_secs(5)),
        ..failure(Reaction::Pending, &format!("{percent} % done"))
    };
    bench.cloud.fail("ensure", "web", (0..13).map(|step| pending(step * 5)));
    for _ in 0..13 {
        bench.sync("web").await;
        tokio::time::advance(Duration::from_secs(5)).await;
    }
    // A minute: at 0 s, 30 s and 60 s; and the finalizer.
    assert_eq!(bench.patches(), 4);
    assert!(bench.condition("web")["message"].as_str().unwrap().contains("60 % done"));
}

/// Nobody would say it before the next look, which is long after that.
#[tokio::test(start_paused = true)]
async fn a_message_with_a_far_next_look_is_written_at_once() {
    let pending =
        |what, after| Failure { retry_after: Some(Duration::from_secs(after)), ..failure(Reaction::Pending, what) };
    let named_by_the_provider = vec![pending("being created", 2), pending("resized in an hour", 900)];
    let failed = |what| failure(Reaction::Retry, what);
    let by_back_off = [vec![failed("no answer"); 9], vec![failed("other"), failed("resized in an hour")]].concat();
    for failures in [named_by_the_provider, by_back_off] {
        let mut bench = Bench::new();
        bench.add(service("web"));
        let tries = failures.len();
        bench.cloud.fail("ensure", "web", failures);
        for left in (0..tries).rev() {
            let Verdict::After(next) = bench.sync("web").await else { panic!("it is tried again") };
            let is_last = left <= 1;
            tokio::time::advance(if is_last { Duration::from_secs(2) } else { next }).await;
            bench.syncer.memory.wake_failed();
        }
        let message = bench.condition("web")["message"].as_str().unwrap().to_owned();
        assert!(message.contains("resized in an hour"), "{message}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_condition_keeps_the_time_of_its_last_change_and_those_of_others() {
    let mut bench = Bench::new();
    let others = json!([{ "type": "Theirs", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z" }]);
    bench.add(service("web").with("/status", "conditions", others.clone()));
    bench.cloud.fail("ensure", "web", [failure(Reaction::Throttled, "slow"), failure(Reaction::Quota, "used up")]);
    bench.sync("web").await;
    let mut first = bench.json("web")["status"]["conditions"].clone();
    assert_eq!(first[0], others[0]);
    // It was long ago.
    for condition in first.as_array_mut().unwrap().iter_mut().skip(1) {
        condition["lastTransitionTime"] = json!("2026-01-02T00:00:00Z");
    }
    bench.edit("web", &json!({ "status": { "conditions": first } }));
    let first = [READY, RECORDED].map(|kind| condition(&bench.json("web"), kind));
    bench.syncer.memory.wake_failed();
    bench.sync("web").await;
    let second = [READY, RECORDED].map(|kind| condition(&bench.json("web"), kind));
    assert_eq!(second[0]["reason"], "QuotaExceeded");
    assert_eq!(second[0]["lastTransitionTime"], first[0]["lastTransitionTime"]);
    assert_eq!(second[1], first[1]);
    assert_eq!(bench.json("web")["status"]["conditions"].as_array().unwrap().len(), 3);
    bench.syncer.memory.wake_failed();
    bench.sync("web").await;
    assert_eq!(condition(&bench.json("web"), "Theirs"), others[0]);
    for (kind, first) in [READY, RECORDED].into_iter().zip(first) {
        let third = condition(&bench.json("web"), kind);
        assert_eq!(third["status"], json!("True"), "{kind}");
        assert_ne!(third["lastTransitionTime"], first["lastTransitionTime"], "{kind}");
    }
}

/// What the user reads must be about what the user wrote.
#[tokio::test(start_paused = true)]
async fn another_text_for_another_state_of_the_service_is_written_at_once() {
    let mut bench = Bench::new();
    bench.add(service("web"));
    for text in ["text 1", "text 2"] {
        bench.edit("web", &json!({ "metadata": { "annotations": { "fake.io/mode": text } } }));
        bench.cloud.fail("ensure", "web", [failure(Reaction::Retry, text)]);
        bench.sync("web").await;
        let message = bench.condition("web")["message"].as_str().unwrap().to_owned();
        assert!(message.contains(text), "{message}");
    }
}

#[tokio::test(start_paused = true)]
async fn services_that_are_not_as_they_should_be_are_counted_by_reason_until_they_are_or_go() {
    let mut bench = Bench::new();
    let reasons = ["CloudPending", "CloudFailed", "InvalidService"];
    let count =
        |bench: &Bench| reasons.map(|reason| bench.scraped(&format!("ccm_services_not_ready{{reason=\"{reason}\"}}")));
    for name in ["web", "api"] {
        bench.add(service(name));
        let reactions = [Reaction::Pending, Reaction::Retry, Reaction::Invalid];
        bench.cloud.fail("ensure", name, reactions.map(|reaction| failure(reaction, "not now")));
    }
    for wanted in [[2.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 2.0]] {
        for name in ["web", "api"] {
            bench.sync(name).await;
        }
        bench.syncer.memory.wake_failed();
        assert_eq!(count(&bench), wanted);
    }
    bench.edit("web", &json!({ "metadata": { "annotations": { "fake.io/mode": "right" } } }));
    assert_eq!(bench.sync("web").await, Verdict::Done);
    assert_eq!(count(&bench), [0.0, 0.0, 1.0]);
    bench.delete("api");
    bench.sync("api").await;
    bench.sync("api").await;
    assert_eq!(count(&bench), [0.0; 3]);
}

/// A repaired Service is as old as it is, and had its address all the time.
#[tokio::test(start_paused = true)]
async fn only_the_first_address_counts_and_only_from_when_it_was_wanted() {
    let mut bench = Bench::new();
    bench.add(service("web"));
    bench.cloud.fail("ensure", "web", [failure(Reaction::Throttled, "slow")]);
    bench.sync("web").await;
    tokio::time::advance(Duration::from_secs(100)).await;
    bench.sync("web").await;
    let told = |bench: &Bench| {
        ["count", "sum"].map(|part| bench.scraped(&format!("ccm_service_address_delay_seconds_{part}")))
    };
    let first = told(&bench);
    assert!(first[0] == 1.0 && (100.0..101.0).contains(&first[1]), "{first:?}");
    bench.edit("web", &json!({ "status": { "loadBalancer": null } }));
    bench.sync("web").await;
    assert_eq!(told(&bench), first);
    bench.edit("web", &json!({ "status": { "loadBalancer": null } }));
    let mut bench = bench.restart();
    bench.sync("web").await;
    assert_eq!(
        (bench.json("web")["status"]["loadBalancer"]["ingress"][0]["ip"].clone(), told(&bench)[0]),
        (json!("192.0.2.1"), 0.0)
    );
}
