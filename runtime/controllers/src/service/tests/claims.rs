//! Who has a load balancer that several Services ask for, and which Services there are.

use ccm_cloud::Reaction;
use serde_json::json;

use super::offer::{GONE, OTHER, WEB, calls, made, offering, seen, with_other};
use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn made_at(draft: Draft, second: u32) -> Draft {
    draft.with("/metadata", "creationTimestamp", json!(format!("2026-01-01T00:00:0{second}Z")))
}

/// Service `web` begins and waits for its turn, while Service `other` gets `lb-3`.
async fn other_gets_it_while_web_waits(bench: &mut Bench) {
    let held = bench.syncer.locks.hold(["0/all".to_owned()].into()).await;
    let waiting = bench.begin("web");
    tokio::time::sleep(SECOND).await;
    // By its name, without any annotation.
    bench.cloud.mark_with("lb-3", Some(OTHER));
    bench.edit("other", &json!({ "metadata": { "annotations": { "fake.io/id": "lb-3" } } }));
    drop(held);
    assert_eq!(waiting.await.unwrap(), Verdict::After(Duration::ZERO));
}

/// Both were once judged free: the younger one came first, and had not had its load balancer yet when the older one came.
#[tokio::test(start_paused = true)]
async fn of_two_copies_that_come_at_the_same_time_one_has_the_load_balancer() {
    for (mark, lose_memory) in [(None, false), (Some(GONE), false), (None, true), (Some(GONE), true)] {
        let locks = if lose_memory { vec![] } else { vec!["all".into()] };
        let cloud = FakeBalancers { delay: 2 * SECOND, locks, ..Default::default() };
        let mut bench = Bench::with(cloud, ServiceSettings::default());
        bench.cloud.mark_with("lb-1", mark);
        bench.add(made_at(offering("young", WEB, "lb-1"), 2));
        let held = bench.syncer.locks.hold(["0/all".to_owned()].into()).await;
        let young = bench.begin("young");
        tokio::time::sleep(SECOND).await;
        bench.add(made_at(offering("old", OTHER, "lb-1"), 1));
        if lose_memory {
            // It had begun, and its record says so.
            young.abort();
            drop(young.await);
            bench = bench.restart();
            bench.catch_up();
            assert_eq!(bench.sync("old").await, Verdict::Done);
            assert_eq!(bench.sync("young").await, Verdict::Done);
        } else {
            // Both wait for their turn.
            let old = bench.begin("old");
            tokio::time::sleep(SECOND).await;
            drop(held);
            assert_eq!([young.await.unwrap(), old.await.unwrap()], [Verdict::Done; 2]);
        }
        let had = [seen(&bench, "young").is_some(), seen(&bench, "old").is_some()];
        assert_eq!(had, [true, false], "{mark:?} {lose_memory}");
        bench.catch_up();
        let told = bench.reasons().await;
        assert!(told.contains(&"LoadBalancerNotAdopted".to_owned()), "{told:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_somebody_else_has_got_while_a_service_waited_for_its_turn_is_not_taken_over() {
    let mut bench = with_other(FakeBalancers { locks: vec!["all".into()], ..Default::default() }).await;
    bench.cloud.mark_with("lb-3", None);
    bench.add(offering("web", WEB, "lb-3"));
    other_gets_it_while_web_waits(&mut bench).await;
    assert_eq!(calls(&bench), [""; 0]);
    assert_eq!(bench.sync("web").await, Verdict::Done);
    assert_eq!((calls(&bench), seen(&bench, "web")), (vec!["ensure web: n0 n1".to_owned()], None));
}

/// Two Services ask for one load balancer by its name, and the cloud does not say whose it is. Who has got it has its ID, which the
/// watch brings later than this process knows it.
#[tokio::test(start_paused = true)]
async fn what_another_service_has_got_by_its_name_is_not_taken_even_before_the_watch_shows_that() {
    for (shows, is_indexed) in [(true, false), (false, false), (false, true)] {
        let mut bench = Bench::new();
        let named = |name: &str, uid: &str| {
            let draft = service(name).with("/metadata", "uid", json!(uid));
            draft.with("/metadata", "annotations", json!({ "fake.io/mode": "shared" }))
        };
        bench.add(named("other", OTHER));
        bench.add(named("web", WEB));
        if is_indexed {
            bench.cloud.mark_with("lb-7", Some(GONE));
            bench.add(offering("restored", OTHER, "lb-7"));
            bench.sync("restored").await;
            assert_ne!(bench.syncer.living.looked(), 0);
            bench.delete("restored");
        }
        bench.cloud.script("ensure", "other", [made("shared")]);
        assert_eq!(bench.syncer.sync(&key("other")).await, Verdict::Done);
        bench.cloud.mark_with("shared", None);
        if shows {
            bench.catch_up();
        }
        bench.cloud.take_calls();
        assert_ne!(bench.syncer.sync(&key("web")).await, Verdict::Done, "{shows} {is_indexed}");
        assert_eq!(calls(&bench), [""; 0], "{shows} {is_indexed}");
        assert_eq!(bench.condition("web")["reason"], "CloudConflict", "{shows} {is_indexed}");
        let message = bench.condition("web")["message"].to_string();
        assert!(message.contains("belongs to Service default/other"), "{message}");
    }
}

/// The store leaves out what nobody here can read. Its load balancer is no stray.
#[tokio::test(start_paused = true)]
async fn a_service_that_only_the_api_server_has_keeps_its_load_balancer() {
    const LIST: &str = "GET /api/v1/services";
    let mut bench = with_other(FakeBalancers::default()).await;
    let lost = bench.syncer.store.get(&key("other")).unwrap();
    bench.add(offering("web", WEB, "lb-1"));
    bench.store.apply_watcher_event(&Event::Delete(Service::clone(&lost)));
    bench.syncer.notice(&key("other"));
    // Nobody knows.
    bench.api.refuse(LIST, 503, 1);
    let Verdict::After(delay) = bench.syncer.sync(&key("web")).await else { panic!("decided") };
    assert_eq!(calls(&bench), [""; 0]);
    tokio::time::advance(delay).await;
    assert_eq!(bench.syncer.sync(&key("web")).await, Verdict::Done);
    assert_eq!((calls(&bench), seen(&bench, "web")), (vec!["ensure web: n0 n1".to_owned()], None));
    let events = bench.events().await;
    let told = events.iter().find(|event| event.contains("LoadBalancerNotAdopted")).unwrap();
    assert!(told.contains("it belongs to Service default/other"), "{told}");
}

/// Each look at an annotation that changes, or at a mark that does, once left another claim for as long as the Service was there.
#[tokio::test(start_paused = true)]
async fn a_service_that_is_led_to_another_load_balancer_each_time_claims_the_last_one_alone() {
    let mut bench = with_other(FakeBalancers::default()).await;
    for name in ["web", "late"] {
        bench.add(offering(name, if name == "web" { WEB } else { "late" }, "lb-3"));
    }
    bench.cloud.fail("locks", "web", std::iter::repeat_n(failure(Reaction::Retry, "down"), 200));
    for number in 10..210 {
        let id = format!("lb-{number}");
        bench.cloud.mark_with(&id, Some(GONE));
        bench.edit("web", &json!({ "metadata": { "annotations": { "fake.io/id": id } } }));
        bench.sync("web").await;
        assert!(bench.syncer.claims.of(0, &id).is_some_and(|seen| seen.claim.key == key("web")), "{id}");
    }
    assert_eq!((bench.syncer.claims.len(), calls(&bench)), (1, vec![]));
    // What it was led to before is free.
    bench.edit("late", &json!({ "metadata": { "annotations": { "fake.io/id": "lb-10" } } }));
    assert_eq!(bench.sync("late").await, Verdict::Done);
    assert_eq!(seen(&bench, "late").as_deref(), Some("lb-10"));
    assert_eq!(bench.syncer.claims.len(), 2);
}

/// Services of a backup, whose load balancers are marked with UIDs that are no more; who they belong to is decided.
async fn decide_restored(bench: &mut Bench, count: usize) {
    let uid = |kind: usize, number: usize| format!("{kind:08}-0000-4000-8000-{number:012}");
    for number in 0..count {
        let name = format!("web-{number}");
        bench.cloud.mark_with(&name, Some(&uid(1, number)));
        bench.api.add_service(offering(&name, &uid(2, number), &name).0);
    }
    bench.catch_up();
    let offers: Vec<_> = bench.syncer.store.state().into_iter().map(|one| (key::key(&one), one)).collect();
    for (key, service) in &offers {
        bench.syncer.memory.enter(key, service, 0, false);
    }
    let provider = bench.syncer.provider(0).unwrap();
    assert_eq!(bench.syncer.decide_all(offers, &provider, || {}).await, 0);
}

/// Every Service was once looked at twice for each of them.
#[tokio::test(start_paused = true)]
async fn many_restored_services_cost_one_look_at_each_and_one_list() {
    const MANY: usize = 400;
    let mut bench = Bench::new();
    decide_restored(&mut bench, MANY).await;
    assert_eq!((bench.cloud.count("mark"), bench.api.count("GET /api/v1/services")), (MANY, 1));
    assert_eq!(bench.syncer.living.looked(), MANY);
    // Each of them is written twice when it is served, its finalizer and its status.
    for number in 0..MANY {
        let name = format!("web-{number}");
        bench.cloud.script("ensure", &name, [made(&name)]);
        assert_eq!(bench.syncer.sync(&key(&name)).await, Verdict::Done);
    }
    bench.catch_up();
    assert_eq!((bench.cloud.count("ensure"), bench.syncer.living.looked()), (MANY, 3 * MANY));
    assert_eq!(bench.cloud.count("mark"), 2 * MANY, "each of them is asked once more when it has its turn");
    assert_eq!(bench.api.count("GET /api/v1/services"), 1);
}

/// A job number that nobody's load balancer is known by, beside an ID.
#[tokio::test(start_paused = true)]
async fn a_copy_that_has_more_annotations_than_the_owner_or_fewer_is_a_copy_all_the_same() {
    let both = json!({ "fake.io/id": "lb-1", "fake.io/job-1": "4711" });
    let one = json!({ "fake.io/id": "lb-1" });
    for (owned, copied) in [(&both, &one), (&one, &both)] {
        let mut bench = Bench::new();
        bench.add(service("web").with("/metadata", "uid", json!(WEB)));
        let annotations = owned.as_object().unwrap().iter();
        let annotations = annotations.map(|(name, value)| (name.clone(), value.as_str().map(str::to_owned))).collect();
        bench.cloud.script("ensure", "web", [ccm_cloud::Outcome { annotations, ..made("lb-1") }]);
        bench.sync("web").await;
        bench.cloud.mark_with("lb-1", None);
        let copy =
            service("copy").with("/metadata", "uid", json!(OTHER)).with("/metadata", "annotations", copied.clone());
        bench.add(copy);
        assert_eq!(bench.sync("copy").await, Verdict::Done);
        assert_eq!(seen(&bench, "copy"), None, "{owned} {copied}");
    }
}

/// What its Service asks for by now says nothing of the call that has begun, and nothing in the cloud shows that yet.
#[tokio::test(start_paused = true)]
async fn what_is_being_taken_over_is_not_taken_by_another_one_when_its_service_is_led_elsewhere_meanwhile() {
    for is_surveyed in [false, true] {
        let cloud = FakeBalancers { delay: 4 * SECOND, surveys: true, ..Default::default() };
        let mut bench = Bench::with(cloud, ServiceSettings::default());
        for id in ["lb-1", "lb-2"] {
            bench.cloud.mark_with(id, None);
        }
        bench.add(offering("web", WEB, "lb-1"));
        let taking = bench.begin("web");
        tokio::time::sleep(SECOND).await;
        assert_eq!(calls(&bench), ["ensure web: n0 n1"]);
        assert_eq!(seen(&bench, "web").as_deref(), Some("lb-1"));
        bench.edit("web", &json!({ "metadata": { "annotations": { "fake.io/id": "lb-2" } } }));
        if is_surveyed {
            // It judges what Services ask for, whatever comes of it.
            bench.cloud.fail("survey", "", [failure(Reaction::Retry, "down")]);
            bench.survey().await;
        }
        bench.add(offering("copy", OTHER, "lb-1"));
        assert!(matches!(bench.sync("copy").await, Verdict::After(_)), "{is_surveyed}");
        assert_eq!(seen(&bench, "copy"), None, "{is_surveyed}");
        let told = bench.condition("copy")["message"].to_string();
        assert!(told.contains("several Services ask for load balancer lb-1 at the same time"), "{told}");
        let _verdict = taking.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_being_deleted_for_a_service_that_is_gone_is_not_taken_over() {
    let mut bench = with_other(FakeBalancers { delay: 2 * SECOND, ..Default::default() }).await;
    bench.api.destroy_service("other");
    bench.catch_up();
    let deletion = bench.begin("other");
    tokio::time::sleep(SECOND).await;
    bench.add(offering("web", WEB, "lb-1"));
    bench.cloud.take_calls();
    let Verdict::After(delay) = bench.sync("web").await else { panic!("decided") };
    assert_eq!(calls(&bench), [""; 0]);
    let told = bench.condition("web")["message"].as_str().unwrap().to_owned();
    assert!(told.contains("load balancer lb-1 is being deleted for Service default/other"), "{told}");
    assert_eq!(deletion.await.unwrap(), Verdict::Done);
    bench.cloud.fail("mark", "web", [failure(Reaction::Throttled, "slow down")]);
    tokio::time::advance(delay).await;
    assert!(matches!(bench.sync("web").await, Verdict::After(_)));
}

/// A list of the API server that is a moment old.
async fn list(bench: &Bench) {
    let mark = ccm_cloud::Mark { load_balancer: "lb-0".into(), uid: Some(WEB.into()) };
    bench.syncer.living.listed(&bench.syncer.writer, &mark).await.unwrap();
}

/// Its age counted from its begin: one that took half a minute was never used again, and all waited for lists of their own, one after the other. Nor
/// did it have an end where one page could not be had.
#[tokio::test(start_paused = true)]
async fn a_list_that_takes_long_is_good_for_as_long_as_it_took() {
    const LIST: &str = "GET /api/v1/services";
    let bench = Bench::new();
    for number in 0..100 {
        bench.api.add_service(service(&format!("s{number:02}")).0);
    }
    bench.api.serve_in_pages();
    // Of five pages two are asked for twice.
    bench.api.refuse_each(3, LIST, 429, Some(30));
    let lists =
        || bench.api.calls().iter().filter(|call| call.line == LIST && !call.query.contains("continue=")).count();
    let begun = tokio::time::Instant::now();
    list(&bench).await;
    assert_eq!((begun.elapsed().as_secs(), bench.api.count(LIST)), (60, 7));
    for (seconds, expected) in [(0, 1), (55, 1), (6, 2)] {
        tokio::time::advance(seconds * SECOND).await;
        list(&bench).await;
        assert_eq!(lists(), expected, "{seconds}");
    }
}

/// It stands in a list of before.
#[tokio::test(start_paused = true)]
async fn who_was_removed_a_moment_ago_has_no_load_balancer_any_more() {
    for name in ["web", "other"] {
        let mut bench = with_other(FakeBalancers::default()).await;
        list(&bench).await;
        bench.api.destroy_service("other");
        bench.add(offering(name, WEB, "lb-1"));
        assert_eq!(bench.sync(name).await, Verdict::Done);
        assert_eq!(
            (calls(&bench), seen(&bench, name).as_deref()),
            (vec![format!("ensure {name}: n0 n1")], Some("lb-1"))
        );
    }
}

/// Each of them waited for the API server in its turn, and held its place.
#[tokio::test(start_paused = true)]
async fn a_list_that_fails_does_not_hold_up_those_who_need_none() {
    let mut bench = Bench::new();
    decide_restored(&mut bench, 40).await;
    tokio::time::advance(31 * SECOND).await;
    bench.api.silence("GET /api/v1/services");
    for number in 0..40 {
        drop(bench.begin(&format!("web-{number}")));
    }
    tokio::time::sleep(SECOND).await;
    bench.add(service("plain"));
    let served = tokio::time::timeout(15 * SECOND, bench.sync("plain")).await;
    assert_eq!(served, Ok(Verdict::Done));
    assert_eq!(calls(&bench), ["ensure plain: n0 n1"]);
}

/// Those that came within the five seconds for which the failure is kept were told that their cloud had failed.
#[tokio::test(start_paused = true)]
async fn what_the_api_server_said_to_one_it_says_to_all() {
    let mut bench = Bench::new();
    decide_restored(&mut bench, 2).await;
    tokio::time::advance(31 * SECOND).await;
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 429, "reason": "TooManyRequests",
        "message": "too many requests", "details": { "retryAfterSeconds": 47 },
    });
    bench.api.fail("GET /api/v1/services", status);
    let first = bench.sync("web-0").await;
    let second = bench.sync("web-1").await;
    assert_eq!((bench.api.count("GET /api/v1/services"), second), (2, first));
    assert_eq!(bench.events().await, Vec::<String>::new());
}

/// It shares the rare annotation, and many share another one.
#[tokio::test(start_paused = true)]
async fn whoever_shares_what_few_have_is_asked_first() {
    let both = || json!({ "fake.io/id": "lb-1", "fake.io/job-1": "4711" });
    let mut bench = Bench::new();
    bench.cloud.mark_with("lb-1", None);
    let draft = |name: &str, uid: &str, annotations| {
        service(name).with("/metadata", "uid", json!(uid)).with("/metadata", "annotations", annotations)
    };
    for number in 0..9 {
        let name = format!("job-{number}");
        bench.add(made_at(draft(&name, &name, json!({ "fake.io/job-1": "4711" })), 0));
    }
    bench.add(made_at(draft("first", OTHER, json!({ "fake.io/id": "lb-1" })), 1));
    bench.add(made_at(draft("web", WEB, both()), 2));
    assert_eq!(bench.sync("web").await, Verdict::Done);
    assert_eq!(seen(&bench, "web"), None);
}

/// Clouds do not tell `ABC` from `abc`.
#[tokio::test(start_paused = true)]
async fn an_id_in_other_letters_leads_to_the_load_balancer_of_who_has_it() {
    let mut bench = with_other(FakeBalancers::default()).await;
    bench.edit("other", &json!({ "metadata": { "annotations": { "fake.io/id": "lb-1" } } }));
    bench.cloud.mark_with("lb-1", None);
    while bench.sync("other").await != Verdict::Done {}
    bench.add(offering("web", WEB, "LB-1"));
    assert_eq!(bench.sync("web").await, Verdict::Done);
    assert_eq!(seen(&bench, "web"), None);
}

/// Whose the load balancer is was asked last, and took its time.
#[tokio::test(start_paused = true)]
async fn a_load_balancer_whose_owner_thinks_again_while_it_is_asked_whose_it_is_stays_as_it_is() {
    for (change, then) in [
        (json!({ "spec": { "type": "ClusterIP" } }), json!({ "spec": { "type": "LoadBalancer" } })),
        (
            json!({ "spec": { "type": "ClusterIP" } }),
            json!({ "metadata": { "annotations": { "wasm-ccm.io/orphan": "fake" } } }),
        ),
        (
            json!({ "metadata": { "annotations": { "wasm-ccm.io/orphan": "fake" } } }),
            json!({ "metadata": { "annotations": { "wasm-ccm.io/orphan": null } } }),
        ),
    ] {
        let cloud = FakeBalancers { mark_delay: 4 * SECOND, ..Default::default() };
        let mut bench = Bench::with(cloud, ServiceSettings::default());
        bench.cloud.mark_with("lb-3", None);
        let draft = offering("web", WEB, "lb-3").with("/metadata", "finalizers", json!([FINALIZER]));
        bench.add(draft.patched(&change));
        let waiting = bench.begin("web");
        tokio::time::sleep(6 * SECOND).await;
        bench.edit("web", &then);
        let _verdict = waiting.await.unwrap();
        assert_eq!(calls(&bench), [""; 0], "{change} {then}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_mark_that_changes_again_and_again_is_not_followed_at_once_each_time() {
    let mut bench = Bench::new();
    bench.cloud.mark_with("lb-3", None);
    bench.add(offering("web", WEB, "lb-3"));
    bench.cloud.fail("locks", "web", [failure(Reaction::Retry, "down")]);
    let Verdict::After(delay) = bench.sync("web").await else { panic!("served") };
    tokio::time::advance(delay).await;
    bench.cloud.mark_with("lb-3", Some(GONE));
    assert_eq!(bench.sync("web").await, Verdict::After(Duration::ZERO));
    bench.cloud.mark_with("lb-3", None);
    let Verdict::After(delay) = bench.sync("web").await else { panic!("served") };
    assert!(delay > Duration::ZERO, "{delay:?}");
    assert_eq!(calls(&bench), [""; 0]);
    tokio::time::advance(delay).await;
    assert_eq!(bench.sync("web").await, Verdict::Done);
    assert_eq!(calls(&bench), ["ensure web: n0 n1"]);
}

/// Hosts are written to it, and a record says that it is taken over.
#[tokio::test(start_paused = true)]
async fn the_hosts_of_what_somebody_else_has_got_meanwhile_stay_as_they_are() {
    let mut bench = with_other(FakeBalancers { locks: vec!["all".into()], ..Default::default() }).await;
    bench.cloud.mark_with("lb-3", None);
    let wrong = json!({
        "metadata": { "finalizers": [FINALIZER] },
        "spec": { "loadBalancerSourceRanges": ["soon"] },
        "status": { "loadBalancer": { "ingress": [{ "ip": "192.0.2.9" }] } },
    });
    bench.add(offering("web", WEB, "lb-3").patched(&wrong));
    other_gets_it_while_web_waits(&mut bench).await;
    assert_eq!((calls(&bench), bench.record("web")), (vec![], None));
}
