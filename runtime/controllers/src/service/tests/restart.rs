//! What a new process does with Services that an old one, or another manager, has served.

use ccm_cloud::{Reaction, Standing};
use serde_json::json;

use super::*;

/// Another revision makes nobody wait.
pub(super) fn at_once() -> ServiceSettings {
    ServiceSettings { revision_first: 0, ..ServiceSettings::default() }
}

/// Three Services that are served.
pub(super) async fn three(cloud: FakeBalancers) -> Bench {
    let mut bench = Bench::with(cloud, at_once());
    for name in ["a", "b", "c"] {
        bench.add(service(name));
        assert_eq!(bench.sync(name).await, Verdict::Done);
    }
    bench.cloud.take_calls();
    bench
}

pub(super) fn surveying() -> FakeBalancers {
    FakeBalancers { surveys: true, ..FakeBalancers::default() }
}

/// The conditions of `a` with another record, or without any.
pub(super) fn garbled(bench: &Bench, record: &str) -> Value {
    let mut conditions = bench.json("a")["status"]["conditions"].clone();
    conditions.as_array_mut().unwrap().retain(|condition| condition["type"] != RECORDED || !record.is_empty());
    let recorded = conditions.as_array_mut().unwrap().iter_mut().find(|condition| condition["type"] == RECORDED);
    recorded.into_iter().for_each(|condition| condition["message"] = json!(record));
    conditions
}

pub(super) async fn sync_all(bench: &mut Bench) -> Vec<String> {
    for name in ["a", "b", "c"] {
        assert_eq!(bench.sync(name).await, Verdict::Done, "{name}");
    }
    bench.cloud.take_calls()
}

#[tokio::test(start_paused = true)]
async fn unchanged_services_cost_nothing_after_a_restart() {
    let mut bench = three(FakeBalancers::default()).await.restart();
    let before = bench.patches();
    bench.survey().await;
    assert_eq!(sync_all(&mut bench).await, [""; 0]);
    assert_eq!(bench.patches(), before);
}

#[tokio::test(start_paused = true)]
async fn unchanged_services_cost_one_survey_where_there_is_one() {
    let mut bench = three(surveying()).await.restart();
    let before = bench.patches();
    bench.survey().await;
    assert_eq!(bench.cloud.take_calls(), ["survey 3"]);
    assert!(bench.scraped("ccm_load_balancer_verification_timestamp_seconds") > 0.0, "all were compared");
    assert_eq!(sync_all(&mut bench).await, [""; 0]);
    assert_eq!(bench.patches(), before);
}

#[tokio::test(start_paused = true)]
async fn a_survey_is_asked_in_pieces() {
    let settings =
        ServiceSettings { survey_size: std::num::NonZeroUsize::new(2).unwrap(), ..ServiceSettings::default() };
    let mut bench = three(surveying()).await;
    bench.settings = settings;
    let bench = bench.restart();
    bench.survey().await;
    assert_eq!(bench.cloud.take_calls(), ["survey 2", "survey 1"]);
}

#[tokio::test(start_paused = true)]
async fn what_changed_while_nobody_watched_is_found_and_nothing_else_is_touched() {
    let bench = three(FakeBalancers::default()).await;
    bench.api.edit_service("a", &json!({ "spec": { "ports": [{ "port": 443 }] } }));
    bench.syncer.backends.replace(backends([node("n0"), node("n1"), node("n2")]));
    let mut bench = bench.restart();
    let calls = sync_all(&mut bench).await;
    assert_eq!(calls, ["ensure a: n0 n1 n2", "update b: n0 n1 n2", "update c: n0 n1 n2"]);
}

#[tokio::test(start_paused = true)]
async fn drift_in_the_cloud_is_found_by_the_survey_told_and_mended() {
    let bench = three(surveying()).await;
    bench.cloud.lose("a");
    bench.cloud.change("b", |balancer| balancer.hosts = vec!["n9".into()]);
    let mut bench = bench.restart();
    bench.survey().await;
    bench.cloud.take_calls();
    assert_eq!(sync_all(&mut bench).await, ["ensure a: n0 n1", "ensure b: n0 n1"]);
    assert_eq!(sync_all(&mut bench).await, [""; 0]);
    assert_eq!(bench.scraped("ccm_load_balancers_drifted_total"), 2.0);
    let events = bench.events().await;
    let drift: Vec<_> = events.iter().filter(|event| event.contains("Drifted")).collect();
    assert_eq!(
        drift,
        [
            "Warning LoadBalancerDrifted: the cloud has no such load balancer any more",
            "Warning LoadBalancerDrifted: the cloud differs from the Service: hosts [\"n9\"] and ports [80]",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn another_address_that_the_survey_finds_goes_into_the_status_without_a_call() {
    let bench = three(surveying()).await;
    bench.cloud.change("c", |balancer| balancer.ip = "198.51.100.7".into());
    let mut bench = bench.restart();
    bench.survey().await;
    bench.cloud.take_calls();
    assert_eq!(sync_all(&mut bench).await, [""; 0]);
    assert_eq!(bench.json("c")["status"]["loadBalancer"]["ingress"][0]["ip"], "198.51.100.7");
}

/// A Go manager leaves a finalizer and a status, and no record of ours. Where the survey finds all well, nothing is ensured.
#[tokio::test(start_paused = true)]
async fn the_load_balancers_of_another_manager_are_adopted_by_a_survey_else_ensured() {
    let zeros = "0".repeat(32);
    let strange = ["nonsense", "v1 provider=fake", &format!("v2 provider=another service={zeros}"), ""];
    for record in strange {
        for (cloud, calls) in [(surveying(), vec![]), (FakeBalancers::default(), vec!["ensure a: n0 n1"])] {
            let bench = three(cloud).await;
            bench.api.edit_service("a", &json!({ "status": { "conditions": garbled(&bench, record) } }));
            let mut bench = bench.restart();
            bench.survey().await;
            bench.cloud.take_calls();
            assert_eq!(sync_all(&mut bench).await, calls, "{record}");
            let bench = bench.restart();
            let now = bench.record("a").unwrap();
            assert!(now.provider == "fake" && now.spec.is_some() && now.backends.is_some(), "{now:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_survey_that_fails_or_takes_too_long_stops_nobody() {
    let slow = FakeBalancers { surveys: true, delay: Duration::from_secs(3_600), ..FakeBalancers::default() };
    let mut bench = Bench::with(slow, ServiceSettings::default());
    bench.add(finalized("a"));
    let begun = tokio::time::Instant::now();
    bench.survey().await;
    assert_eq!((bench.cloud.take_calls(), begun.elapsed().as_secs()), (vec!["survey 1".to_owned()], 5));

    let mut bench = three(surveying()).await.restart();
    bench.cloud.fail("survey", "", [failure(Reaction::Retry, "down")]);
    bench.survey().await;
    assert_eq!(bench.scraped("ccm_load_balancer_verification_timestamp_seconds"), 0.0);
    bench.cloud.take_calls();
    assert_eq!(sync_all(&mut bench).await, [""; 0], "what is recorded holds");
    // One standing too few is no answer: this script says none at all.
    bench.cloud.script("survey", "", [ccm_cloud::Outcome::default()]);
    bench.survey().await;
    assert_eq!(bench.syncer.memory.with(&key("a"), |entry| entry.found.is_none()), Some(true));
    let none = ServiceSettings { start_survey_timeout: Duration::ZERO, ..ServiceSettings::default() };
    bench.settings = none;
    let bench = bench.restart();
    bench.cloud.take_calls();
    bench.survey().await;
    assert_eq!(bench.cloud.take_calls(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn another_configuration_or_revision_ensures_once_more() {
    let mut bench = three(FakeBalancers::default()).await;
    for (configuration, revision) in [("other", ""), ("other", "2")] {
        bench.cloud.configure(configuration, revision);
        assert_eq!(sync_all(&mut bench).await, ["ensure a: n0 n1", "ensure b: n0 n1", "ensure c: n0 n1"]);
        assert_eq!(sync_all(&mut bench).await, [""; 0]);
    }
}

/// The new component once found its own name on what the old one had done, and never looked at it.
#[tokio::test(start_paused = true)]
async fn what_was_under_way_while_the_provider_was_exchanged_is_not_recorded_as_done_by_the_new_one() {
    let cloud = FakeBalancers { delay: Duration::from_secs(2), ..FakeBalancers::default() };
    let mut bench = Bench::with(cloud, at_once());
    bench.add(service("a"));
    let during = async |bench: &mut Bench, configuration: &str, revision: &str| {
        let cloud = Arc::clone(&bench.cloud);
        let exchange = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            cloud.configure(configuration, revision);
        };
        tokio::join!(bench.sync("a"), exchange).0
    };
    let all = async |bench: &mut Bench, ensured: &str| {
        bench.cloud.take_calls();
        assert_eq!(bench.sync("a").await, Verdict::Done);
        assert_eq!(bench.cloud.take_calls(), [ensured]);
        assert_eq!(bench.sync("a").await, Verdict::Done);
        assert_eq!(bench.cloud.take_calls(), [""; 0]);
    };
    assert_eq!(during(&mut bench, "", "2").await, Verdict::Done);
    all(&mut bench, "ensure a: n0 n1").await;

    bench.syncer.backends.replace(backends([node("n0")]));
    assert_eq!(during(&mut bench, "other", "2").await, Verdict::Done);
    assert_eq!(bench.cloud.calls(), ["update a: n0"]);
    all(&mut bench, "ensure a: n0").await;

    // The last good one returns before the call of the new one ends, and knows its own record from the one of that.
    bench.cloud.configure("other", "3");
    assert_eq!(during(&mut bench, "other", "2").await, Verdict::Done);
    all(&mut bench, "ensure a: n0").await;
}

#[tokio::test(start_paused = true)]
async fn an_address_that_somebody_took_out_of_the_status_comes_back() {
    let mut bench = three(FakeBalancers::default()).await;
    bench.edit("a", &json!({ "status": { "loadBalancer": null } }));
    assert_eq!(bench.sync("a").await, Verdict::Done);
    assert_eq!(bench.json("a")["status"]["loadBalancer"]["ingress"][0]["ip"], "192.0.2.1");
    bench.edit("a", &json!({ "metadata": { "finalizers": null } }));
    bench.cloud.take_calls();
    assert_eq!(bench.sync("a").await, Verdict::Done);
    assert_eq!(bench.json("a")["metadata"]["finalizers"], json!([FINALIZER]));
    assert_eq!(bench.cloud.take_calls(), [""; 0], "a finalizer needs no call");
}

/// A Service goes to `b` and back to `a`, and the way to `b` failed half-way: what was recorded for `a` does not hold any more.
#[tokio::test(start_paused = true)]
async fn a_record_does_not_outlive_a_try_at_something_else() {
    for lose_memory in [false, true] {
        let mut bench = three(FakeBalancers::default()).await;
        bench.cloud.fail("ensure", "a", [failure(Reaction::Throttled, "half-way")]);
        bench.edit("a", &json!({ "metadata": { "annotations": { "fake.io/mode": "b" } } }));
        bench.sync("a").await;
        bench.edit("a", &json!({ "metadata": { "annotations": { "fake.io/mode": null } } }));
        if lose_memory {
            bench = bench.restart();
        }
        bench.cloud.take_calls();
        assert_eq!(bench.sync("a").await, Verdict::Done);
        assert_eq!(bench.cloud.take_calls(), ["ensure a: n0 n1"]);
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_survey_said_about_another_state_does_not_count() {
    let mut bench = three(surveying()).await.restart();
    bench.survey().await;
    let job = bench.job("a").unwrap();
    let found = Found::new(job.target, &job.provider, Standing::Missing);
    bench.syncer.memory.with(&key("a"), |entry| entry.found = Some(found));
    bench.edit("a", &json!({ "spec": { "ports": [{ "port": 443 }] } }));
    bench.cloud.take_calls();
    assert_eq!(bench.sync("a").await, Verdict::Done);
    assert_eq!(bench.cloud.take_calls(), ["ensure a: n0 n1"]);
    assert_eq!(bench.scraped("ccm_load_balancers_drifted_total"), 0.0);
}

/// What a survey found at the start says nothing about later.
#[tokio::test(start_paused = true)]
async fn an_address_that_was_found_long_ago_is_not_written() {
    let mut bench = three(surveying()).await.restart();
    bench.survey().await;
    sync_all(&mut bench).await;
    bench.cloud.change("a", |balancer| balancer.ip = "198.51.100.7".into());
    bench.edit("a", &json!({ "status": { "loadBalancer": null } }));
    assert_eq!(bench.sync("a").await, Verdict::Done);
    assert_eq!(bench.json("a")["status"]["loadBalancer"]["ingress"][0]["ip"], "198.51.100.7");
}

#[tokio::test(start_paused = true)]
async fn a_verification_that_fails_is_none() {
    for (surveys, operation) in [(true, "survey "), (false, "get a")] {
        let settings = ServiceSettings { verify_period: Duration::from_secs(60), ..ServiceSettings::default() };
        let mut bench = Bench::with(FakeBalancers { surveys, ..FakeBalancers::default() }, settings);
        bench.add(service("a"));
        bench.sync("a").await;
        bench.cloud.take_calls();
        let name = operation.split(' ').nth(1).unwrap();
        bench.cloud.fail(operation.split(' ').next().unwrap(), name, vec![failure(Reaction::Unauthorized, "who?"); 3]);
        let (queue, _keys) = tokio::sync::mpsc::channel(64);
        let (_ready, is_ready) = tokio::sync::watch::channel(true);
        let mut verifying = Box::pin(verify::run(&bench.syncer, queue, is_ready));
        let mut verified = Vec::new();
        for rounds in 1..=4 {
            while bench.cloud.count(operation) < rounds {
                assert!(tokio::time::timeout(Duration::from_secs(1), &mut verifying).await.is_err());
            }
            verified.push(bench.scraped("ccm_load_balancer_verification_timestamp_seconds") > 0.0);
        }
        assert_eq!(verified, [false, false, false, true], "{operation}");
    }
}

/// A Service that is wrong itself would keep the time where it is for ever, and a single answer that is missing must.
#[tokio::test(start_paused = true)]
async fn a_survey_is_a_comparison_when_the_cloud_had_an_answer_about_each() {
    let cases = [
        ("all are known", [None; 3], true),
        ("nobody knows", [Some(Reaction::Retry); 3], false),
        ("nothing is known of one", [Some(Reaction::Retry), None, None], false),
        ("credentials are refused", [Some(Reaction::Unauthorized), None, None], false),
        ("one is wrong itself", [Some(Reaction::Invalid), None, None], true),
        ("one is somebody else's", [Some(Reaction::Conflict), None, None], true),
        ("all are wrong themselves", [Some(Reaction::Invalid); 3], false),
    ];
    for (case, unknown, is_compared) in cases {
        let bench = three(surveying()).await.restart();
        for (name, reaction) in ["a", "b", "c"].into_iter().zip(unknown) {
            bench.cloud.hide(name, reaction.map(|reaction| failure(reaction, "nobody knows")));
        }
        bench.survey().await;
        let told = bench.scraped("ccm_load_balancer_verification_timestamp_seconds") > 0.0;
        assert_eq!(told, is_compared, "{case}");
    }
}

/// The start does not wait longer for two of them than for one.
#[tokio::test(start_paused = true)]
async fn several_providers_are_surveyed_at_the_same_time() {
    let clouds = ["red", "blue"].map(|name| {
        let delay = Duration::from_secs(4);
        Arc::new(FakeBalancers { name, surveys: true, delay, ..FakeBalancers::default() })
    });
    let member = |cloud: &Arc<FakeBalancers>| LoadBalancerMember {
        provider: Arc::clone(cloud) as _,
        classes: vec![format!("{}.io/lb", cloud.name)],
    };
    let members = clouds.iter().map(member).collect();
    let mut bench = Bench::serving(FakeApi::new(), Arc::clone(&clouds[0]), members, ServiceSettings::default());
    for cloud in &clouds {
        bench.add(finalized(cloud.name).with("/spec", "loadBalancerClass", json!(format!("{}.io/lb", cloud.name))));
    }
    let begun = tokio::time::Instant::now();
    bench.survey().await;
    assert_eq!(begun.elapsed().as_secs(), 4);
    assert!(bench.scraped("ccm_load_balancer_verification_timestamp_seconds") > 0.0, "both were surveyed");
}

#[tokio::test(start_paused = true)]
async fn a_verification_by_one_provider_does_not_hide_that_another_gives_no_answer() {
    let clouds = ["red", "blue"].map(|name| Arc::new(FakeBalancers { name, ..FakeBalancers::default() }));
    let member = |cloud: &Arc<FakeBalancers>| LoadBalancerMember {
        provider: Arc::clone(cloud) as _,
        classes: vec![format!("{}.io/lb", cloud.name)],
    };
    let settings = ServiceSettings { verify_period: Duration::from_secs(60), ..ServiceSettings::default() };
    let members = clouds.iter().map(member).collect();
    let mut bench = Bench::serving(FakeApi::new(), Arc::clone(&clouds[0]), members, settings);
    for cloud in &clouds {
        bench.add(service(cloud.name).with("/spec", "loadBalancerClass", json!(format!("{}.io/lb", cloud.name))));
        bench.sync(cloud.name).await;
    }
    clouds[1].fail("get", "blue", vec![failure(Reaction::Retry, "down"); 3]);
    let (queue, _keys) = tokio::sync::mpsc::channel(64);
    let (_ready, is_ready) = tokio::sync::watch::channel(true);
    let mut verifying = Box::pin(verify::run(&bench.syncer, queue, is_ready));
    for rounds in 1..=4 {
        while clouds[1].count("get") < rounds {
            assert!(tokio::time::timeout(Duration::from_secs(1), &mut verifying).await.is_err());
        }
        let told = bench.scraped("ccm_load_balancer_verification_timestamp_seconds") > 0.0;
        assert_eq!(told, rounds == 4 && clouds[0].count("get") > 0, "{rounds}");
    }
    assert!(clouds[0].count("get") > 1);
}

/// An address that is wrong sends people's traffic elsewhere; and a provider that learns its addresses from its Services would
/// give the true one to somebody else.
#[tokio::test(start_paused = true)]
async fn a_wrong_address_in_the_status_is_put_right_and_no_provider_is_told_it() {
    let wrong = json!({ "status": { "loadBalancer": { "ingress": [{ "ip": "1.2.3.4" }] } } });
    for (lose_memory, surveys) in [(false, false), (true, false), (true, true)] {
        let mut bench = three(FakeBalancers { surveys, ..FakeBalancers::default() }).await;
        bench.edit("a", &wrong);
        if lose_memory {
            bench = bench.restart();
        }
        bench.survey().await;
        assert_eq!(bench.sync("a").await, Verdict::Done);
        assert_eq!(bench.json("a")["status"]["loadBalancer"]["ingress"][0]["ip"], "192.0.2.1");
        assert_eq!(bench.cloud.count("ensure"), usize::from(!surveys), "a survey knows the address");
        assert!(
            bench
                .cloud
                .seen()
                .iter()
                .all(|seen| seen.ingress.iter().all(|entry| entry.ip.as_deref() != Some("1.2.3.4")))
        );
        bench.cloud.take_calls();
        assert_eq!(bench.sync("a").await, Verdict::Done);
        assert_eq!(bench.cloud.take_calls(), [""; 0]);
    }
}

/// The record is taken back before the ensure: what it said about the addresses still counts.
#[tokio::test(start_paused = true)]
async fn a_wrong_address_is_not_believed_after_a_failure_either() {
    let mut bench = three(FakeBalancers::default()).await;
    bench.edit("a", &json!({ "status": { "loadBalancer": { "ingress": [{ "ip": "1.2.3.4" }] } } }));
    bench.cloud.fail("ensure", "a", [failure(Reaction::Retry, "down")]);
    assert!(matches!(bench.sync("a").await, Verdict::After(_)));
    let mut bench = bench.restart();
    assert_eq!(bench.sync("a").await, Verdict::Done);
    assert_eq!(bench.cloud.seen().last().unwrap().ingress, []);
    assert_eq!(bench.json("a")["status"]["loadBalancer"]["ingress"][0]["ip"], "192.0.2.1");
}

/// Before a migration the status is all that there is.
#[tokio::test(start_paused = true)]
async fn without_a_record_the_addresses_of_the_status_count() {
    let bench = three(FakeBalancers::default()).await;
    bench.api.edit_service("a", &json!({ "status": { "conditions": null } }));
    let mut bench = bench.restart();
    assert_eq!(bench.sync("a").await, Verdict::Done);
    assert_eq!(bench.cloud.seen().last().unwrap().ingress[0].ip.as_deref(), Some("192.0.2.1"));
    let now = bench.record("a").unwrap();
    assert!(now.spec.is_some() && now.addresses.is_some(), "{now:?}");
}

#[tokio::test(start_paused = true)]
async fn a_condition_that_somebody_removed_or_garbled_is_repaired_without_a_call() {
    for garble in [false, true] {
        let mut bench = three(FakeBalancers::default()).await;
        let before = bench.condition("a");
        let mut conditions = bench.json("a")["status"]["conditions"].clone();
        conditions.as_array_mut().unwrap().retain(|condition| condition["type"] != READY || garble);
        let ready = conditions.as_array_mut().unwrap().iter_mut().find(|condition| condition["type"] == READY);
        ready.into_iter().for_each(|ready| ready["reason"] = json!("Garbled"));
        bench.edit("a", &json!({ "status": { "conditions": conditions } }));
        assert_eq!(bench.sync("a").await, Verdict::Done);
        assert_eq!((bench.condition("a"), bench.cloud.take_calls()), (before, vec![]));
    }
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_does_not_give_in_costs_one_call_a_minute() {
    for what in ["addresses", "record"] {
        let mut bench = three(FakeBalancers::default()).await;
        let wrong = match what {
            "addresses" => json!({ "status": { "loadBalancer": { "ingress": [{ "ip": "1.2.3.4" }] } } }),
            _ => json!({ "status": { "conditions": garbled(&bench, "") } }),
        };
        let mut calls = Vec::new();
        for _ in 0..12 {
            bench.edit("a", &wrong);
            bench.sync("a").await;
            calls.push(bench.cloud.count("ensure"));
            tokio::time::advance(Duration::from_secs(10)).await;
        }
        assert_eq!(calls, [1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2], "{what}");
    }
}
