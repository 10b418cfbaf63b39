//! What restored, copied and edited Services offer: a load balancer that nobody has is taken over, that of another Service is not.

use ccm_cloud::{Ingress, Outcome, Reaction, Standing};
use serde_json::json;

use super::restart::sync_all;
use super::*;

pub(super) const WEB: &str = "0f4b3c52-8c1d-4c7e-9a51-000000000001";
pub(super) const OTHER: &str = "7d2a9e10-55aa-4f0b-8e21-000000000002";
pub(super) const GONE: &str = "c3d4e5f6-0000-4abc-9def-000000000003";

/// With this UID, and with the ID of a load balancer.
pub(super) fn offering(name: &str, uid: &str, id: &str) -> Draft {
    service(name).with("/metadata", "uid", json!(uid)).with("/metadata", "annotations", json!({ "fake.io/id": id }))
}

/// Calls but for marks.
pub(super) fn calls(bench: &Bench) -> Vec<String> {
    bench.cloud.take_calls().into_iter().filter(|call| !call.starts_with("mark ")).collect()
}

pub(super) fn made(id: &str) -> Outcome {
    // Each load balancer has its own address.
    let number = id.rsplit('-').next().unwrap();
    let ingress = vec![Ingress { ip: Some(format!("203.0.113.{number}")), ..Ingress::default() }];
    Outcome { ingress, annotations: vec![("fake.io/id".into(), Some(id.into()))], ..Outcome::default() }
}

/// What was offered at the last call for a Service.
pub(super) fn seen(bench: &Bench, name: &str) -> Option<String> {
    let seen = bench.cloud.seen();
    let of = seen.iter().rev().find(|seen| seen.name == name);
    of.and_then(|seen| seen.annotations.get("fake.io/id").cloned())
}

/// `other` is served, with `lb-1`.
pub(super) async fn with_other(cloud: FakeBalancers) -> Bench {
    let mut bench = Bench::with(cloud, ServiceSettings::default());
    bench.add(service("other").with("/metadata", "uid", json!(OTHER)));
    bench.cloud.script("ensure", "other", [made("lb-1")]);
    assert_eq!(bench.sync("other").await, Verdict::Done);
    bench.cloud.mark_with("lb-1", Some(OTHER));
    bench.cloud.take_calls();
    bench
}

#[tokio::test(start_paused = true)]
async fn the_mark_at_the_cloud_decides_whether_a_restored_service_has_its_load_balancer_again() {
    let plain = |uid: &str| uid.replace('-', "");
    let adopted = Some("Normal LoadBalancerAdopted");
    /// Whose mark is there, if anything is; whether it is taken; which Event there is. Where it is not its own, the provider is told
    /// whose it was.
    type Row<'a> = (&'a str, Option<Option<String>>, bool, Option<&'a str>);
    let rows: [Row<'_>; 6] = [
        ("there is none", None, true, None),
        ("its own", Some(Some(WEB.into())), true, None),
        ("of nobody", Some(None), true, adopted),
        ("of a Service that is gone", Some(Some(GONE.into())), true, adopted),
        ("of another one", Some(Some(OTHER.into())), false, Some("Warning LoadBalancerNotAdopted")),
        (
            "of another one, in other words",
            Some(Some(plain(OTHER)[..31].to_uppercase())),
            false,
            Some("Warning LoadBalancerNotAdopted"),
        ),
    ];
    for (what, mark, is_taken, told) in rows {
        for restores_finalizer in [false, true] {
            let mut bench = with_other(FakeBalancers::default()).await;
            bench.edit("other", &json!({ "metadata": { "annotations": { "fake.io/id": "lb-2" } } }));
            bench.cloud.mark_with("lb-2", Some(OTHER));
            bench.sync("other").await;
            bench.cloud.take_calls();
            if let Some(mark) = &mark {
                let id = if is_taken { "lb-3" } else { "lb-2" };
                bench.cloud.mark_with(id, mark.as_deref());
                let draft = offering("web", WEB, id);
                let finalizers = if restores_finalizer { json!([FINALIZER]) } else { json!([]) };
                bench.add(draft.with("/metadata", "finalizers", finalizers));
            } else {
                bench.add(offering("web", WEB, "lb-of-the-past"));
            }
            bench.cloud.script("ensure", "web", [made("lb-9")]);
            assert_eq!(bench.sync("web").await, Verdict::Done, "{what}");
            assert_eq!(calls(&bench), ["ensure web: n0 n1"], "{what}");
            assert_eq!(seen(&bench, "web").is_some(), is_taken, "{what}");
            let whose = mark.clone().filter(|_| told == adopted).map(Option::unwrap_or_default);
            let ensured = bench.cloud.seen().into_iter().rfind(|seen| seen.name == "web").unwrap();
            assert_eq!(ensured.more.get(ccm_cloud::Service::TAKEN_OVER).cloned(), whose, "{what}");
            assert_eq!(bench.json("web")["metadata"]["annotations"]["fake.io/id"], "lb-9", "{what}");
            // It is its own from now on.
            let before = bench.patches();
            assert_eq!(bench.sync("web").await, Verdict::Done, "{what}");
            assert_eq!((bench.cloud.take_calls(), bench.patches()), (vec![], before), "{what}");
            bench.edit("web", &json!({ "spec": { "ports": [{ "port": 81, "nodePort": 30081 }] } }));
            bench.cloud.script("ensure", "web", [made("lb-9")]);
            assert_eq!(bench.sync("web").await, Verdict::Done, "{what}");
            assert_eq!(bench.cloud.seen().last().unwrap().more, ccm_cloud::Attributes::new(), "{what}");
            assert_eq!(bench.cloud.take_calls(), ["ensure web: n0 n1"], "{what}");
            let events = bench.events().await;
            let offers: Vec<_> = events.iter().filter(|event| event.contains("Adopted")).collect();
            assert_eq!(offers.len(), usize::from(told.is_some()), "{what}: {events:?}");
            if let Some(told) = told {
                assert!(offers[0].starts_with(told) && offers[0].contains("wasm-ccm.io/orphan: fake"), "{offers:?}");
            }
            let mut bench = bench.restart();
            assert_eq!(bench.sync("web").await, Verdict::Done, "{what}");
            assert_eq!(bench.cloud.take_calls(), [""; 0], "{what}");
        }
    }
}

/// Nothing is believed of a Service's own word: a manifest that is applied again and again brings the ID of the other one each time.
#[tokio::test(start_paused = true)]
async fn the_load_balancer_of_a_living_service_is_not_taken_however_often_it_is_asked_for() {
    let mut bench = with_other(FakeBalancers::default()).await;
    bench.add(offering("web", WEB, "lb-1"));
    bench.cloud.script("ensure", "web", vec![made("lb-9"); 3]);
    for _ in 0..3 {
        assert_eq!(bench.sync("web").await, Verdict::Done);
        assert_eq!((calls(&bench), seen(&bench, "web")), (vec!["ensure web: n0 n1".to_owned()], None));
        bench.edit("web", &json!({ "metadata": { "annotations": { "fake.io/id": "lb-1" } } }));
    }
    bench.sync("web").await;
    let events = bench.events().await;
    assert_eq!(events.iter().filter(|event| event.contains("LoadBalancerNotAdopted")).count(), 1, "{events:?}");
    // What its owner gave up to another provider, or to nobody, is not this one.
    for stray in ["elsewhere", ""] {
        bench.edit("other", &json!({ "metadata": { "annotations": { "wasm-ccm.io/orphan": stray } } }));
        bench.sync("other").await;
        bench = bench.restart();
        bench.cloud.script("ensure", "web", [made("lb-9")]);
        bench.edit("web", &json!({ "metadata": { "annotations": { "fake.io/id": "lb-1" } } }));
        bench.sync("web").await;
        assert_eq!(seen(&bench, "web"), None, "{stray:?}");
    }
    // Until its owner gives it up, or its provider leaves that one to somebody else.
    bench.edit("other", &json!({ "metadata": { "annotations": { "wasm-ccm.io/orphan": "fake" } } }));
    bench.sync("other").await;
    bench.edit("web", &json!({ "metadata": { "annotations": { "fake.io/id": "lb-1" } } }));
    bench.sync("web").await;
    assert_eq!(seen(&bench, "web").as_deref(), Some("lb-1"));
}

/// Without a mark, whoever had the annotation first has the load balancer.
#[tokio::test(start_paused = true)]
async fn of_two_services_with_the_same_annotations_and_no_mark_the_first_one_has_the_load_balancer() {
    let made_at = |draft: Draft, second: u32| {
        draft.with("/metadata", "creationTimestamp", json!(format!("2026-01-01T00:00:0{second}Z")))
    };
    for (web, twin) in [(1, 2), (2, 1)] {
        let mut bench = Bench::new();
        bench.cloud.mark_with("lb-1", None);
        bench.add(made_at(offering("web", WEB, "lb-1"), web));
        bench.add(made_at(offering("twin", OTHER, "lb-1"), twin));
        bench.sync("web").await;
        bench.sync("twin").await;
        let kept = [seen(&bench, "web").is_some(), seen(&bench, "twin").is_some()];
        assert_eq!(kept, [web < twin, twin < web]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_that_goes_takes_along_what_is_its_own_or_nobodys_and_nothing_else() {
    let rows = [(Some(WEB), true), (None, true), (Some(GONE), false), (Some(OTHER), false)];
    for (mark, goes) in rows {
        let mut bench = with_other(FakeBalancers::default()).await;
        if mark != Some(OTHER) {
            bench.cloud.mark_with("lb-3", mark);
        }
        let id = if mark == Some(OTHER) { "lb-1" } else { "lb-3" };
        let deleting = json!("2026-01-01T00:00:00Z");
        let draft = offering("web", WEB, id).with("/metadata", "finalizers", json!([FINALIZER]));
        bench.add(draft.with("/metadata", "deletionTimestamp", deleting));
        assert_eq!(bench.sync("web").await, Verdict::Done, "{mark:?}");
        assert_eq!((calls(&bench), seen(&bench, "web").is_some()), (vec!["delete web".to_owned()], goes), "{mark:?}");
        assert_eq!(bench.api.service("web"), None);
        let told = bench.reasons().await.contains(&"LoadBalancerNotDeleted".to_owned());
        assert_eq!(told, !goes, "{mark:?}");
    }
}

/// Else it would keep the mark of a Service that is gone, and nobody would delete it.
#[tokio::test(start_paused = true)]
async fn what_has_the_mark_of_another_service_is_ensured_also_where_all_is_as_it_should_be() {
    for (mark, ensured) in [(Some(GONE), vec!["ensure web: n0 n1"]), (None, vec![]), (Some(WEB), vec![])] {
        let mut bench = with_other(FakeBalancers { surveys: true, ..FakeBalancers::default() }).await;
        bench.cloud.mark_with("lb-3", mark);
        bench.add(offering("web", WEB, "lb-3").with("/metadata", "finalizers", json!([FINALIZER])));
        bench.survey().await;
        bench.cloud.take_calls();
        let job = bench.job("web").unwrap();
        let found = Standing::InStep(made("lb-3").ingress);
        bench.syncer.memory.with(&key("web"), |entry| entry.found = Some(Found::new(job.target, &job.provider, found)));
        assert_eq!(bench.sync("web").await, Verdict::Done, "{mark:?}");
        assert_eq!(calls(&bench), ensured, "{mark:?}");
        assert!(bench.record("web").unwrap().spec.is_some(), "{mark:?}");
    }
}

/// By force, or from a backup: the name is the same, and so is the load balancer.
#[tokio::test(start_paused = true)]
async fn a_service_in_the_place_of_another_one_of_its_name_has_the_load_balancer_of_that() {
    let mut bench = with_other(FakeBalancers::default()).await;
    bench.api.destroy_service("other");
    bench.add(offering("other", WEB, "lb-1"));
    assert_eq!(bench.sync("other").await, Verdict::Done);
    assert_eq!(calls(&bench), ["ensure other: n0 n1"]);
    assert_eq!(seen(&bench, "other").as_deref(), Some("lb-1"));
    // With another one the old one goes first, as ever.
    bench.api.destroy_service("other");
    bench.add(offering("other", GONE, "lb-7"));
    assert_eq!(bench.sync("other").await, Verdict::Done);
    assert_eq!(calls(&bench), ["delete other", "ensure other: n0 n1"]);
}

#[tokio::test(start_paused = true)]
async fn what_a_provider_cannot_tell_is_not_decided() {
    let mut bench = with_other(FakeBalancers::default()).await;
    bench.add(offering("web", WEB, "lb-1"));
    bench.cloud.fail("mark", "web", [failure(Reaction::Throttled, "slow down")]);
    let Verdict::After(delay) = bench.sync("web").await else { panic!("decided") };
    assert_eq!(
        (calls(&bench), bench.json("web")["metadata"]["annotations"]["fake.io/id"].clone()),
        (vec![], json!("lb-1"))
    );
    let told = bench.condition("web")["message"].as_str().unwrap().to_owned();
    assert!(told.contains("find the owner of the load balancer") && told.contains("slow down"), "{told}");
    tokio::time::advance(delay).await;
    assert_eq!(bench.sync("web").await, Verdict::Done);
    assert_eq!(seen(&bench, "web"), None);
}

/// Of another manager's, hundreds may come at once: they are looked at together, and a copy is not surveyed as if it were the first.
#[tokio::test(start_paused = true)]
async fn offers_are_decided_before_a_survey() {
    let mut bench = with_other(FakeBalancers { surveys: true, ..FakeBalancers::default() }).await;
    for (name, uid) in [("a", WEB), ("b", GONE), ("c", "99999999-0000-4abc-9def-000000000003")] {
        bench.cloud.mark_with(name, Some(uid));
        bench.add(offering(name, uid, name).with("/metadata", "finalizers", json!([FINALIZER])));
    }
    bench.cloud.fail("mark", "c", vec![failure(Reaction::Retry, "down"); 1]);
    bench.survey().await;
    let mut marks = bench.cloud.take_calls();
    marks.sort();
    // With `other`; what is not known is left out.
    assert_eq!(marks, ["mark a", "mark b", "mark c", "survey 3"]);
    assert_eq!(bench.scraped("ccm_load_balancer_verification_timestamp_seconds"), 0.0, "not all were compared");
    let ensured = sync_all(&mut bench).await;
    assert_eq!(ensured, ["ensure a: n0 n1", "ensure b: n0 n1", "mark c", "ensure c: n0 n1"]);
}

/// A Service that offers `lb-3`, which is marked with the UID of one that is gone, as a backup tool makes it.
fn restored(bench: &mut Bench) {
    bench.cloud.mark_with("lb-3", Some(GONE));
    bench.add(offering("web", WEB, "lb-3").with("/metadata", "finalizers", json!([FINALIZER])));
}

/// The process ends, and the Service is deleted: what the next one tells the provider.
async fn deleted(mut bench: Bench) -> (Option<String>, Bench) {
    bench.delete("web");
    let mut bench = bench.restart();
    bench.cloud.take_calls();
    assert_eq!(bench.sync("web").await, Verdict::Done);
    assert_eq!((calls(&bench), bench.api.service("web")), (vec!["delete web".to_owned()], None));
    (seen(&bench, "web"), bench)
}

/// Else it would be left behind, half-changed and without anybody who knows of it.
#[tokio::test(start_paused = true)]
async fn what_a_service_has_begun_to_take_over_goes_with_it_also_where_that_failed() {
    let down = || [failure(Reaction::Retry, "down")];
    let mut bench = with_other(FakeBalancers::default()).await;
    restored(&mut bench);
    bench.cloud.fail("ensure", "web", down());
    assert!(matches!(bench.sync("web").await, Verdict::After(_)));
    assert_eq!(deleted(bench).await.0.as_deref(), Some("lb-3"), "it came with its finalizer");

    // People write the ID on one that is still being made.
    let mut bench = with_other(FakeBalancers::default()).await;
    bench.add(service("web").with("/metadata", "uid", json!(WEB)));
    bench.cloud.fail("ensure", "web", [failure(Reaction::Pending, "at work"), failure(Reaction::Retry, "down")]);
    assert!(matches!(bench.sync("web").await, Verdict::After(_)));
    bench.cloud.mark_with("lb-3", Some(GONE));
    bench.edit("web", &json!({ "metadata": { "annotations": { "fake.io/id": "lb-3" } } }));
    assert!(matches!(bench.sync("web").await, Verdict::After(_)));
    assert_eq!(calls(&bench), ["ensure web: n0 n1"; 2]);
    assert_eq!(deleted(bench).await.0.as_deref(), Some("lb-3"), "it was written later");
}

/// It may be that of anybody.
#[tokio::test(start_paused = true)]
async fn what_a_service_has_not_begun_to_take_over_does_not_go_with_it() {
    let mut bench = with_other(FakeBalancers::default()).await;
    restored(&mut bench);
    bench.cloud.fail("locks", "web", [failure(Reaction::Retry, "down")]);
    assert!(matches!(bench.sync("web").await, Verdict::After(_)));
    assert_eq!(calls(&bench), [""; 0]);
    assert_eq!(deleted(bench).await.0, None, "no provider was asked for it");

    // The credentials were those of another account, which has no such load balancer.
    let mut bench = with_other(FakeBalancers::default()).await;
    bench.add(offering("web", WEB, "lb-1-there"));
    bench.cloud.fail("ensure", "web", [failure(Reaction::Quota, "none left")]);
    assert!(matches!(bench.sync("web").await, Verdict::After(_)));
    bench.cloud.mark_with("lb-1-there", Some(OTHER));
    bench.edit("other", &json!({ "metadata": { "annotations": { "fake.io/id": "lb-1-there" } } }));
    bench.sync("other").await;
    let (told, mut bench) = deleted(bench).await;
    assert_eq!(told, None, "there was nothing to take over");
    assert!(bench.reasons().await.contains(&"LoadBalancerNotDeleted".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn what_was_taken_over_is_noted_before_the_first_call_and_costs_no_further_write() {
    for restores_finalizer in [false, true] {
        let mut bench = with_other(FakeBalancers::default()).await;
        bench.cloud.mark_with("lb-3", Some(GONE));
        let finalizers = if restores_finalizer { json!([FINALIZER]) } else { json!([]) };
        bench.add(offering("web", WEB, "lb-3").with("/metadata", "finalizers", finalizers));
        let before = bench.patches();
        bench.cloud.fail("ensure", "web", [failure(Reaction::Pending, "at work")]);
        let Verdict::After(delay) = bench.sync("web").await else { panic!("done") };
        let record = bench.record("web").unwrap();
        assert!(record.taken_over.is_some() && record.written != record.taken_over, "{record:?}");
        // Another process knows, and does not find it as it should be only since the cloud says so.
        bench.cloud.mark_with("lb-3", Some(WEB));
        tokio::time::advance(delay).await;
        let mut bench = bench.restart();
        bench.cloud.take_calls();
        let target = bench.job("web").map(|job| job.target);
        assert!(target.is_none(), "nobody has entered it yet");
        assert_eq!(bench.sync("web").await, Verdict::Done);
        assert_eq!(
            (calls(&bench), seen(&bench, "web").as_deref()),
            (vec!["ensure web: n0 n1".to_owned()], Some("lb-3"))
        );
        let record = bench.record("web").unwrap();
        assert!(record.taken_over.is_none() && record.written.is_some(), "{record:?}");
        // The finalizer with the record, the condition that says why it waits, and the end.
        assert_eq!(bench.patches() - before, 3, "{restores_finalizer}");
        let mut bench = bench.restart();
        assert_eq!(bench.sync("web").await, Verdict::Done);
        assert_eq!((bench.cloud.take_calls(), bench.patches() - before), (vec![], 3));
    }
}

/// After a restart a survey may find it in step, and its mark is that of a Service that is gone.
#[tokio::test(start_paused = true)]
async fn what_was_begun_to_be_taken_over_is_ensured_also_where_a_survey_finds_it_as_it_should_be() {
    for restores_finalizer in [false, true] {
        let mut bench = with_other(FakeBalancers { surveys: true, ..FakeBalancers::default() }).await;
        restored(&mut bench);
        if !restores_finalizer {
            bench.edit("web", &json!({ "metadata": { "finalizers": [] } }));
        }
        bench.cloud.fail("ensure", "web", [failure(Reaction::Retry, "down")]);
        assert!(matches!(bench.sync("web").await, Verdict::After(_)));
        let mut bench = bench.restart();
        bench.survey().await;
        let job = bench.job("web").unwrap();
        let found = Standing::InStep(made("lb-3").ingress);
        bench.syncer.memory.with(&key("web"), |entry| entry.found = Some(Found::new(job.target, &job.provider, found)));
        bench.cloud.take_calls();
        assert_eq!(bench.sync("web").await, Verdict::Done);
        assert_eq!(calls(&bench), ["ensure web: n0 n1"], "{restores_finalizer}");
    }
}

/// There was nothing, and then there was. `Elsewhere` is no end of it: a provider that leaves a Service to somebody else has none for it.
#[tokio::test(start_paused = true)]
async fn what_led_to_nothing_is_judged_again_before_each_call() {
    let nothing = async || {
        let mut bench = with_other(FakeBalancers::default()).await;
        bench.add(offering("web", WEB, "lb-x"));
        bench.cloud.fail("ensure", "web", [failure(Reaction::Elsewhere, "not mine")]);
        bench.sync("web").await;
        assert_eq!(calls(&bench), ["ensure web: n0 n1"]);
        bench.cloud.mark_with("lb-x", Some(OTHER));
        bench.edit("other", &json!({ "metadata": { "annotations": { "fake.io/id": "lb-x" } } }));
        bench
    };
    let mut bench = nothing().await;
    bench.edit("web", &json!({ "metadata": { "annotations": { "fake.io/mode": "fast" } } }));
    while bench.sync("web").await != Verdict::Done {}
    assert_eq!((calls(&bench), seen(&bench, "web")), (vec!["ensure web: n0 n1".to_owned()], None));

    let mut bench = nothing().await;
    bench.delete("web");
    while bench.sync("web").await != Verdict::Done {}
    assert_eq!((calls(&bench), seen(&bench, "web")), (vec!["delete web".to_owned()], None));
    assert!(bench.reasons().await.contains(&"LoadBalancerNotDeleted".to_owned()));

    let mut bench = nothing().await;
    bench.cloud.script("orphan", "web", [Outcome::default()]);
    bench.edit("web", &json!({ "metadata": { "annotations": { "wasm-ccm.io/orphan": "fake" } } }));
    while bench.sync("web").await != Verdict::Done {}
    assert_eq!((calls(&bench), seen(&bench, "web")), (vec!["orphan web".to_owned()], None));
}

/// Days may lie between two tries.
#[tokio::test(start_paused = true)]
async fn what_was_nobodys_is_judged_again_at_each_try_to_delete_it() {
    let mut bench = with_other(FakeBalancers::default()).await;
    bench.cloud.mark_with("lb-3", None);
    let draft = offering("web", WEB, "lb-3").with("/metadata", "finalizers", json!([FINALIZER]));
    bench.add(draft.with("/metadata", "deletionTimestamp", json!("2026-01-01T00:00:00Z")));
    bench.cloud.fail("delete", "web", [failure(Reaction::Retry, "down")]);
    let Verdict::After(delay) = bench.sync("web").await else { panic!("deleted") };
    assert_eq!((calls(&bench), seen(&bench, "web").as_deref()), (vec!["delete web".to_owned()], Some("lb-3")));
    bench.cloud.mark_with("lb-3", Some(OTHER));
    bench.edit("other", &json!({ "metadata": { "annotations": { "fake.io/id": "lb-3" } } }));
    tokio::time::advance(delay).await;
    while bench.sync("web").await != Verdict::Done {}
    assert_eq!((calls(&bench), seen(&bench, "web")), (vec!["delete web".to_owned()], None));
}

/// The load balancer of the one is known by its ID, which only that Service has: nothing in the cloud says whose it is. The other one
/// asks for the same name. It had the load balancer, and deleted it.
#[tokio::test(start_paused = true)]
async fn the_load_balancer_of_a_living_service_is_not_to_be_had_by_its_name() {
    let named = |name: &str| json!({ "metadata": { "annotations": { "fake.io/mode": name } } });
    for (what, annotations, is_refused) in [
        ("the same name", json!({ "fake.io/mode": "lb-1" }), true),
        ("the same name, and an ID that leads nowhere", json!({ "fake.io/mode": "lb-1", "fake.io/id": "gone" }), true),
        ("another name", json!({ "fake.io/mode": "lb-2" }), false),
        ("no name", json!({}), false),
    ] {
        let mut bench = with_other(FakeBalancers::default()).await;
        bench.cloud.mark_with("lb-1", None);
        bench.edit("other", &named("lb-1"));
        bench.sync("other").await;
        bench.cloud.take_calls();
        // Days later, by another process.
        let mut bench = bench.restart();
        bench.add(service("web").with("/metadata", "uid", json!(WEB)).with(
            "/metadata",
            "annotations",
            annotations.clone(),
        ));
        // What leads to the other one is not shown to the provider, and then the name is all that is left.
        let mut verdict = bench.sync("web").await;
        if verdict == Verdict::After(Duration::ZERO) {
            verdict = bench.sync("web").await;
        }
        let made = bench.cloud.take_calls();
        if !is_refused {
            assert_eq!(
                (verdict, made),
                (Verdict::Done, vec!["ensure web: n0 n1".to_owned()]),
                "{what}: nobody is asked"
            );
            continue;
        }
        assert!(made.iter().all(|call| ["mark web", "mark other"].contains(&call.as_str())), "{what}: {made:?}");
        assert_eq!(bench.json("web")["metadata"].get("finalizers"), None, "nothing is left behind with it");
        let events = bench.events().await;
        let told = events.last().unwrap();
        assert!(
            told.contains("lb-1") && told.contains("default/other") && told.contains("wasm-ccm.io/orphan: fake"),
            "{told}"
        );
        // Once its owner has given it up.
        bench.edit("other", &json!({ "metadata": { "annotations": { "wasm-ccm.io/orphan": "fake" } } }));
        bench.sync("other").await;
        tokio::time::advance(Duration::from_secs(3_600)).await;
        bench.cloud.take_calls();
        while bench.sync("web").await != Verdict::Done {}
        assert!(calls(&bench).contains(&"ensure web: n0 n1".to_owned()));
    }
}
