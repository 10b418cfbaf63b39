//! Load balancers whose Service does not want them any more: that of one that was removed by force is deleted, unless a Service has it
//! that is there; one that its owner gives up stays, and its provider is told.

use ccm_cloud::{Outcome, Reaction};
use serde_json::json;

use super::offer::{GONE, OTHER, WEB, calls, made, offering, seen, with_other};
use super::*;

fn down() -> [Failure; 1] {
    [failure(Reaction::Retry, "down")]
}

/// `other` was removed by force, and its load balancer `lb-1` could not be deleted. Returns when that is tried again.
async fn pending() -> (Bench, Duration) {
    let mut bench = with_other(FakeBalancers::default()).await;
    bench.api.destroy_service("other");
    bench.catch_up();
    bench.cloud.fail("delete", "other", down());
    let Verdict::After(delay) = bench.sync("other").await else { panic!("deleted") };
    assert_eq!(calls(&bench), ["delete other"]);
    (bench, delay)
}

/// The deletion is tried again.
async fn again(bench: &mut Bench, delay: Duration) -> Vec<String> {
    bench.cloud.take_calls();
    tokio::time::advance(delay).await;
    assert_eq!(bench.sync("other").await, Verdict::Done);
    assert_eq!(bench.syncer.memory.with(&key("other"), |_| ()), None, "nothing more is known of it");
    calls(bench)
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_is_tried_again_spares_what_a_restored_service_has_taken_over() {
    let (mut bench, delay) = pending().await;
    bench.add(offering("web", WEB, "lb-1"));
    bench.cloud.script("ensure", "web", [made("lb-1")]);
    assert_eq!(bench.sync("web").await, Verdict::Done);
    assert_eq!(seen(&bench, "web").as_deref(), Some("lb-1"));
    bench.cloud.mark_with("lb-1", Some(WEB));
    assert_eq!(again(&mut bench, delay).await, [""; 0]);
    let events = bench.events().await;
    let told = "Normal LoadBalancerNotDeleted: load balancer lb-1 stays: it is that of Service default/web now";
    assert!(events.iter().any(|event| event == told), "{events:?}");
    assert!(!events.iter().any(|event| event.contains("DeletedLoadBalancer")), "{events:?}");
}

/// Nothing in the cloud says so yet.
#[tokio::test(start_paused = true)]
async fn it_spares_what_a_restored_service_is_about_to_take_over() {
    for is_begun in [false, true] {
        let (mut bench, delay) = pending().await;
        bench.add(offering("web", WEB, "lb-1"));
        if is_begun {
            bench.cloud.fail("ensure", "web", down());
            assert!(matches!(bench.sync("web").await, Verdict::After(_)));
        }
        assert_eq!(again(&mut bench, delay).await, [""; 0], "{is_begun}");
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(bench.sync("web").await, Verdict::Done);
        assert_eq!(seen(&bench, "web").as_deref(), Some("lb-1"), "{is_begun}");
    }
}

#[tokio::test(start_paused = true)]
async fn it_deletes_what_nobody_has_and_what_another_one_only_names() {
    let (mut bench, delay) = pending().await;
    assert_eq!(again(&mut bench, delay).await, ["delete other"]);
    let others = [
        json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": [FINALIZER] } }),
        json!({ "spec": { "type": "ClusterIP" } }),
        json!({ "spec": { "loadBalancerClass": "other.io/lb" } }),
        json!({ "metadata": { "annotations": { "wasm-ccm.io/orphan": "fake" } } }),
    ];
    for other in others {
        let (mut bench, delay) = pending().await;
        bench.add(offering("web", WEB, "lb-1").patched(&other));
        assert_eq!(again(&mut bench, delay).await, ["delete other"], "{other}");
    }
    // It is not known whose it is.
    let (mut bench, delay) = pending().await;
    bench.cloud.fail("mark", "other", down());
    bench.cloud.take_calls();
    tokio::time::advance(delay).await;
    assert!(matches!(bench.sync("other").await, Verdict::After(_)));
    assert_eq!(calls(&bench), [""; 0]);
}

/// Somebody strips finalizers in a loop: a list of when the first one went still has the second one.
#[tokio::test(start_paused = true)]
async fn of_those_who_are_removed_by_force_one_after_the_other_nothing_stays() {
    let mut bench = with_other(FakeBalancers::default()).await;
    bench.add(service("third").with("/metadata", "uid", json!(GONE)));
    bench.cloud.script("ensure", "third", [made("lb-3")]);
    assert_eq!(bench.sync("third").await, Verdict::Done);
    bench.cloud.mark_with("lb-3", Some(GONE));
    bench.cloud.take_calls();
    for name in ["other", "third"] {
        bench.api.destroy_service(name);
        bench.catch_up();
        assert_eq!(bench.sync(name).await, Verdict::Done);
        assert_eq!(calls(&bench), [format!("delete {name}")]);
    }
}

/// It has claimed the load balancer, and takes nothing along that has the mark of another one: nobody would delete it.
#[tokio::test(start_paused = true)]
async fn a_copy_that_goes_itself_keeps_nobody_from_the_load_balancer() {
    let goes = json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": [FINALIZER] } });
    let claimed = async || {
        let (mut bench, delay) = pending().await;
        bench.add(offering("web", WEB, "lb-1").patched(&goes));
        bench.cloud.fail("locks", "web", down());
        assert!(matches!(bench.sync("web").await, Verdict::After(_)));
        (bench, delay)
    };
    let (mut bench, delay) = claimed().await;
    assert_eq!(again(&mut bench, delay).await, ["delete other"]);
    // Another copy, which stays.
    let (mut bench, _) = claimed().await;
    bench.add(offering("copy", GONE, "lb-1"));
    assert_eq!(bench.sync("copy").await, Verdict::Done);
    assert_eq!(seen(&bench, "copy").as_deref(), Some("lb-1"));
}

/// It was restored with its finalizer and removed again before anybody had served it.
#[tokio::test(start_paused = true)]
async fn what_a_service_never_took_over_is_not_deleted_when_it_was_removed_by_force() {
    for mark in [None, Some(GONE), Some(OTHER)] {
        let mut bench = with_other(FakeBalancers::default()).await;
        let id = if mark == Some(OTHER) { "lb-1" } else { "lb-3" };
        bench.cloud.mark_with(id, mark);
        bench.add(offering("web", WEB, id).with("/metadata", "finalizers", json!([FINALIZER])));
        bench.cloud.fail("locks", "web", down());
        assert!(matches!(bench.sync("web").await, Verdict::After(_)));
        bench.api.destroy_service("web");
        bench.catch_up();
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(bench.sync("web").await, Verdict::Done);
        assert_eq!((calls(&bench), bench.syncer.memory.with(&key("web"), |_| ())), (vec![], None), "{mark:?}");
    }
}

/// From a backup of another time: it has not all the annotations, or more of them.
#[tokio::test(start_paused = true)]
async fn a_service_in_the_place_of_another_one_has_its_load_balancer_whatever_else_it_brings() {
    let both = json!({ "fake.io/id": "lb-1", "fake.io/job-1": "4711" });
    let one = json!({ "fake.io/id": "lb-1" });
    for (had, brought) in [(&both, &one), (&one, &both), (&one, &one)] {
        for (is_deleting, lose_memory) in [(false, false), (true, false), (false, true), (true, true)] {
            let mut bench = with_other(FakeBalancers::default()).await;
            let annotations = had.as_object().unwrap().iter();
            let annotations =
                annotations.map(|(name, value)| (name.clone(), value.as_str().map(str::to_owned))).collect();
            bench.cloud.script("ensure", "other", [Outcome { annotations, ..made("lb-1") }]);
            bench.edit("other", &json!({ "metadata": { "annotations": { "wasm-ccm.io/ensure": "please" } } }));
            assert_eq!(bench.sync("other").await, Verdict::Done);
            if is_deleting {
                bench.delete("other");
                bench.cloud.fail("delete", "other", down());
                assert!(matches!(bench.sync("other").await, Verdict::After(_)));
            }
            bench.cloud.take_calls();
            bench.api.destroy_service("other");
            let draft = service("other").with("/metadata", "uid", json!(WEB));
            bench.add(draft.with("/metadata", "annotations", brought.clone()));
            if lose_memory {
                bench = bench.restart();
                bench.catch_up();
            }
            // After a deletion that failed it waits for the next try at that.
            if is_deleting && !lose_memory {
                let Verdict::After(delay) = bench.sync("other").await else { panic!("hurried") };
                tokio::time::advance(delay).await;
            }
            assert_eq!(bench.sync("other").await, Verdict::Done);
            let what = format!("{had} {brought} {is_deleting} {lose_memory}");
            assert_eq!(
                (calls(&bench), seen(&bench, "other").as_deref()),
                (vec!["ensure other: n0 n1".to_owned()], Some("lb-1")),
                "{what}"
            );
        }
    }
}

/// The deletion of the old one waited, and the store is behind.
#[tokio::test(start_paused = true)]
async fn a_deletion_that_waits_for_its_turn_spares_the_load_balancer_of_who_came_in_its_place() {
    for is_known in [false, true] {
        let mut bench = with_other(FakeBalancers { locks: vec!["all".into()], ..Default::default() }).await;
        bench.delete("other");
        let held = bench.syncer.locks.hold(["0/all".to_owned()].into()).await;
        let waiting = bench.begin("other");
        tokio::time::sleep(Duration::from_secs(1)).await;
        bench.api.destroy_service("other");
        let name = if is_known { "other" } else { "web" };
        bench.api.add_service(offering(name, WEB, "lb-1").0);
        if is_known {
            bench.catch_up();
        } else {
            let web = serde_json::from_value(bench.json("web")).unwrap();
            bench.store.apply_watcher_event(&Event::Apply(web));
            bench.syncer.notice(&key("web"));
        }
        drop(held);
        assert_eq!(waiting.await.unwrap(), Verdict::Done);
        assert_eq!(calls(&bench), [""; 0], "{is_known}");
        bench.catch_up();
        assert_eq!(bench.sync(name).await, Verdict::Done);
        assert_eq!(seen(&bench, name).as_deref(), Some("lb-1"), "{is_known}");
    }
}

fn orphaned() -> Value {
    json!({ "metadata": { "annotations": { "wasm-ccm.io/orphan": "fake" } } })
}

/// Else the provider would find it again by its name, and there would be no way to a new one.
#[tokio::test(start_paused = true)]
async fn a_provider_is_told_that_a_load_balancer_is_given_up_before_its_id_goes() {
    let mut bench = with_other(FakeBalancers::default()).await;
    bench.edit("other", &orphaned());
    bench.cloud.fail(
        "orphan",
        "other",
        [failure(Reaction::Pending, "being made"), failure(Reaction::Unauthorized, "no")],
    );
    bench.cloud.script("orphan", "other", [Outcome { changes: vec!["renamed".into()], ..Outcome::default() }]);
    for _ in 0..2 {
        let Verdict::After(delay) = bench.sync("other").await else { panic!("given up") };
        assert_eq!(bench.json("other")["metadata"]["finalizers"], json!([FINALIZER]));
        assert_eq!(seen(&bench, "other").as_deref(), Some("lb-1"));
        tokio::time::advance(delay).await;
    }
    assert_eq!(bench.sync("other").await, Verdict::After(Duration::ZERO));
    assert_eq!((calls(&bench), seen(&bench, "other").as_deref()), (vec!["orphan other".to_owned(); 3], Some("lb-1")));
    let left = bench.json("other");
    assert_eq!((&left["metadata"]["finalizers"], &left["status"]["conditions"]), (&json!([]), &json!([])));
    assert_eq!(left["metadata"]["annotations"]["fake.io/id"], json!(null));
    assert_eq!(bench.sync("other").await, Verdict::Done);
    bench.edit("other", &json!({ "metadata": { "annotations": { "wasm-ccm.io/orphan": null } } }));
    assert_eq!(bench.sync("other").await, Verdict::Done);
    assert_eq!((calls(&bench), seen(&bench, "other")), (vec!["ensure other: n0 n1".to_owned()], None));
    let events = bench.events().await;
    let told = events.iter().find(|event| event.contains("LoadBalancerOrphaned")).unwrap();
    assert!(told.ends_with("belongs to this Service no more"), "{told}");
}

/// A provider without the interface finds it again.
#[tokio::test(start_paused = true)]
async fn what_a_provider_cannot_give_up_is_given_up_on_the_service_and_the_event_says_so() {
    let mut bench = with_other(FakeBalancers::default()).await;
    bench.edit("other", &orphaned());
    assert_eq!(bench.sync("other").await, Verdict::After(Duration::ZERO));
    assert_eq!(bench.json("other")["metadata"]["finalizers"], json!([]));
    let events = bench.events().await;
    let told = events.iter().find(|event| event.contains("LoadBalancerOrphaned")).unwrap();
    assert!(told.contains("may find it again") && told.contains("delete the Service and create it again"), "{told}");
}

#[tokio::test(start_paused = true)]
async fn what_was_never_taken_over_is_not_given_up_and_what_is_given_up_is_never_deleted() {
    for (mark, is_told) in [(Some(GONE), false), (Some(OTHER), false), (Some(WEB), true), (None, true)] {
        let mut bench = with_other(FakeBalancers::default()).await;
        let id = if mark == Some(OTHER) { "lb-1" } else { "lb-3" };
        bench.cloud.mark_with(id, mark);
        let draft = offering("web", WEB, id).with("/metadata", "finalizers", json!([FINALIZER]));
        let annotations = json!({ "fake.io/id": id, "wasm-ccm.io/orphan": "fake" });
        bench.add(draft.with("/metadata", "annotations", annotations));
        bench.cloud.script("orphan", "web", [Outcome::default()]);
        assert_eq!(bench.sync("web").await, Verdict::After(Duration::ZERO));
        assert_eq!(
            (calls(&bench), seen(&bench, "web").is_some()),
            (vec!["orphan web".to_owned()], is_told),
            "{mark:?}"
        );
    }
    // Removed by force before the provider had done it.
    let mut bench = with_other(FakeBalancers::default()).await;
    bench.edit("other", &orphaned());
    bench.cloud.fail("orphan", "other", down());
    assert!(matches!(bench.sync("other").await, Verdict::After(_)));
    bench.api.destroy_service("other");
    bench.catch_up();
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(bench.sync("other").await, Verdict::Done);
    assert_eq!((calls(&bench), bench.syncer.memory.len()), (vec!["orphan other".to_owned()], 0));
    // Its owner thinks again while it waits for its turn.
    let mut bench = with_other(FakeBalancers { locks: vec!["all".into()], ..Default::default() }).await;
    bench.edit("other", &orphaned());
    let held = bench.syncer.locks.hold(["0/all".to_owned()].into()).await;
    let waiting = bench.begin("other");
    tokio::time::sleep(Duration::from_secs(1)).await;
    bench.edit("other", &json!({ "metadata": { "annotations": { "wasm-ccm.io/orphan": null } } }));
    drop(held);
    assert_eq!(waiting.await.unwrap(), Verdict::After(Duration::ZERO));
    assert_eq!((bench.sync("other").await, calls(&bench)), (Verdict::Done, vec![]));
}
