//! Whose load balancer it is: nothing is deleted that is still wanted, and nothing is left with a provider that nobody asks any
//! more.

use ccm_cloud::{Outcome, Reaction};
use serde_json::json;

use super::offer::{GONE, WEB};
use super::*;
use crate::explain::Next;
use crate::queue::Place;

const GET: &str = "GET /api/v1/namespaces/default/services/web";

fn cloud(name: &'static str) -> Arc<FakeBalancers> {
    Arc::new(FakeBalancers { name, ..FakeBalancers::default() })
}

fn member(cloud: &Arc<FakeBalancers>, classes: &[&str]) -> LoadBalancerMember {
    let classes = classes.iter().map(ToString::to_string).collect();
    LoadBalancerMember { provider: Arc::clone(cloud) as _, classes }
}

/// A process with two providers.
fn two(api: FakeApi, first: LoadBalancerMember, second: LoadBalancerMember) -> Bench {
    Bench::serving(api, cloud("unused"), vec![first, second], ServiceSettings::default())
}

async fn settle(bench: &mut Bench, name: &str) {
    for _ in 0..5 {
        match bench.sync(name).await {
            Verdict::Done => return,
            Verdict::After(delay) => tokio::time::advance(delay).await,
            other => panic!("{other:?}"),
        }
    }
    panic!("no end");
}

/// After a new list, a Service that cannot be decoded looks as if it were gone.
#[tokio::test(start_paused = true)]
async fn a_service_that_only_the_store_has_lost_keeps_its_load_balancer() {
    let mut bench = Bench::new();
    bench.add(service("web"));
    bench.sync("web").await;
    let lost = bench.syncer.store.get(&key("web")).unwrap();
    bench.store.apply_watcher_event(&Event::Delete(Service::clone(&lost)));
    // It is not known; it is there, with a spec that nobody here can read; something answers that is no Service; it is another one.
    bench.api.refuse(GET, 503, 1);
    bench.api.script(GET, |state| {
        state.edit_service("web", &json!({ "spec": { "ports": "none" } }));
        None
    });
    bench.api.script(GET, |state| {
        state.edit_service("web", &json!({ "metadata": { "uid": null } }));
        None
    });
    for _ in 0..3 {
        let Verdict::After(delay) = bench.syncer.sync(&key("web")).await else { panic!("no second look") };
        assert_eq!((bench.cloud.count("delete"), bench.cloud.balancers().len()), (0, 1));
        tokio::time::advance(delay).await;
    }
    bench.api.edit_service("web", &json!({ "metadata": { "uid": "another" } }));
    assert_eq!(bench.syncer.sync(&key("web")).await, Verdict::Done);
    assert_eq!((bench.cloud.count("delete"), bench.cloud.balancers().len()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_the_provider_finds_wrong_is_tried_again_when_the_service_changes() {
    for operation in ["delete", "locks"] {
        let mut bench = Bench::new();
        bench.add(service("web"));
        bench.sync("web").await;
        bench.delete("web");
        let annotations = vec![("fake.io/job-1".into(), Some("4711".into()))];
        let wrong = Outcome { annotations, ..Outcome::failed(failure(Reaction::Invalid, "no such mode")) };
        bench.cloud.script(operation, "web", [wrong]);
        // What was written with the failure is no change of the Service.
        for _ in 0..3 {
            assert_eq!(bench.sync("web").await, Verdict::Change, "{operation}");
        }
        assert_eq!(bench.cloud.count("delete"), usize::from(operation == "delete"));
        bench.edit("web", &json!({ "metadata": { "annotations": { "fake.io/mode": "right" } } }));
        assert_eq!(bench.sync("web").await, Verdict::Done, "{operation}");
        assert_eq!((bench.cloud.balancers().len(), bench.api.service("web")), (0, None));
        let told = bench.reasons().await.iter().filter(|reason| *reason == "DeletingLoadBalancer").count();
        assert_eq!(told, 1, "{operation}");
    }
}

/// Nobody can change a Service that is gone.
#[tokio::test(start_paused = true)]
async fn a_predecessor_that_the_provider_finds_wrong_is_tried_again_slowly() {
    let mut bench = Bench::new();
    bench.add(service("web"));
    bench.sync("web").await;
    bench.api.destroy_service("web");
    bench.add(service("web").with("/metadata", "uid", json!("another")));
    bench.cloud.fail("delete", "web", [failure(Reaction::Invalid, "no such mode")]);
    assert_eq!(bench.sync("web").await, Verdict::After(Duration::from_secs(60)));
    let events = bench.events().await;
    assert!(events.last().unwrap().ends_with("no such mode (invalid): retried slowly, next in 60 s"), "{events:?}");
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(bench.sync("web").await, Verdict::Done);
    assert_eq!(bench.cloud.balancers().keys().collect::<Vec<_>>(), ["web another"]);
}

/// Everything about a Service that its owner and users see, and what was asked of clouds.
fn untouched(bench: &Bench, clouds: &[&Arc<FakeBalancers>]) -> (Value, usize, Vec<String>) {
    let calls = clouds.iter().flat_map(|cloud| cloud.calls()).collect();
    (bench.json("web"), bench.patches(), calls)
}

/// A flag with a typing error once deleted every load balancer of that class.
#[tokio::test(start_paused = true)]
async fn a_configuration_that_serves_a_class_no_more_strands_its_load_balancers_and_deletes_none() {
    let (red, blue) = (cloud("red"), cloud("blue"));
    let served = || vec![member(&red, &["red.io/lb"]), member(&blue, &["blue.io/lb"])];
    let later: [(&str, Vec<LoadBalancerMember>); 5] = [
        ("a typing error", vec![member(&red, &["red.io/lp"]), member(&blue, &["blue.io/lb"])]),
        ("no class at all", vec![member(&red, &[]), member(&blue, &[])]),
        ("without the provider", vec![member(&blue, &["blue.io/lb"])]),
        ("under another name", vec![member(&cloud("crimson"), &["red.io/lb"])]),
        ("nobody makes load balancers any more", vec![]),
    ];
    for (what, members) in later {
        let start = |api, members| Bench::serving(api, Arc::clone(&red), members, ServiceSettings::default());
        let mut bench = start(FakeApi::new(), served());
        bench.add(service("web").with("/spec", "loadBalancerClass", json!("red.io/lb")));
        assert_eq!(bench.sync("web").await, Verdict::Done);
        let mut bench = start(bench.api, members);
        let before = untouched(&bench, &[&red, &blue]);
        for _ in 0..3 {
            assert_eq!(bench.sync("web").await, Verdict::Change, "{what}");
        }
        assert_eq!(untouched(&bench, &[&red, &blue]), before, "{what}");
        assert_eq!(bench.scraped("ccm_services_not_ready{reason=\"Stranded\"}"), 1.0, "{what}");
        let resync = Place::Planned(Duration::from_secs(43_200));
        let listed = explain::placed(&bench, resync, async |view| view.troubles(9).await).await;
        let listed = listed.expect("the controller is there").first;
        let why = listed.first().and_then(|one| one.why.as_deref()).unwrap_or_default();
        assert_starts(why, "leave the load balancer alone with red: ");
        assert_eq!(listed[0].next, Next::OnChangeOr(43_200.0), "{what}");
        let events = bench.events().await;
        let warnings: Vec<_> = events.iter().filter(|event| event.starts_with("Warning")).collect();
        assert_eq!(warnings.len(), 1, "{what}: {events:?}");
        assert_starts(
            warnings[0],
            "Warning LoadBalancerStranded: the provider \"red\" has the load balancer of this Service",
        );
        // With the configuration of before all is as before.
        let mut bench = start(bench.api, served());
        let before = untouched(&bench, &[&red, &blue]);
        assert_eq!(bench.sync("web").await, Verdict::Done, "{what}");
        assert_eq!(untouched(&bench, &[&red, &blue]), before, "{what}");
        bench.delete("web");
        bench.sync("web").await;
        assert_eq!(red.balancers().len(), 0, "{what}");
        red.take_calls();
    }
}

/// Only the Service itself ever deletes: it goes, or wants no load balancer any more.
#[tokio::test(start_paused = true)]
async fn a_stranded_service_that_goes_takes_its_load_balancer_along() {
    let changes = [
        json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } }),
        json!({ "spec": { "type": "ClusterIP", "loadBalancerClass": null } }),
    ];
    for change in changes {
        let red = cloud("red");
        let mut bench = Bench::serving(
            FakeApi::new(),
            Arc::clone(&red),
            vec![member(&red, &["red.io/lb"])],
            ServiceSettings::default(),
        );
        bench.add(service("web").with("/spec", "loadBalancerClass", json!("red.io/lb")));
        bench.sync("web").await;
        let mut bench = Bench::serving(bench.api, red, vec![member(&bench.cloud, &[])], ServiceSettings::default());
        assert_eq!(bench.sync("web").await, Verdict::Change);
        bench.edit("web", &change);
        assert_eq!(bench.sync("web").await, Verdict::Done, "{change}");
        assert_eq!(bench.cloud.balancers().len(), 0, "{change}");
        assert_eq!(bench.scraped("ccm_services_not_ready{reason=\"Stranded\"}"), 0.0, "{change}");
    }
}

/// Whether the class is somebody else's or a flag is wrong cannot be told: what the Service had is kept.
#[tokio::test(start_paused = true)]
async fn a_service_that_goes_to_a_class_that_nobody_serves_here_keeps_its_load_balancer_until_it_goes() {
    for lose_memory in [false, true] {
        let mut bench = Bench::new();
        bench.add(service("web"));
        bench.sync("web").await;
        if lose_memory {
            bench = bench.restart();
        }
        // By way of another type, before anybody could look.
        bench.edit("web", &json!({ "spec": { "loadBalancerClass": "other.io/lb" } }));
        for _ in 0..2 {
            assert_eq!(bench.sync("web").await, Verdict::Change);
        }
        assert_eq!((bench.cloud.balancers().len(), bench.cloud.count("delete")), (1, 0));
        assert_eq!(bench.json("web")["metadata"]["finalizers"], json!([FINALIZER]));
        bench.delete("web");
        bench.sync("web").await;
        assert_eq!((bench.cloud.balancers().len(), bench.cloud.count("delete")), (0, 1));
        assert_eq!((bench.api.service("web"), bench.syncer.memory.len()), (None, 1));
        assert_eq!(bench.syncer.sync(&key("web")).await, Verdict::Done);
        assert_eq!(bench.syncer.memory.len(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_that_goes_to_the_class_of_another_provider_leaves_nothing_with_the_first_one() {
    for lose_memory in [false, true] {
        let (red, blue) = (cloud("red"), cloud("blue"));
        let members = || (member(&red, &["red.io/lb"]), member(&blue, &["blue.io/lb"]));
        let (first, second) = members();
        let mut bench = two(FakeApi::new(), first, second);
        bench.add(service("web").with("/spec", "loadBalancerClass", json!("red.io/lb")));
        assert_eq!(bench.sync("web").await, Verdict::Done);
        if lose_memory {
            let (first, second) = members();
            bench = two(bench.api, first, second);
        }
        bench.edit("web", &json!({ "spec": { "loadBalancerClass": "blue.io/lb" } }));
        settle(&mut bench, "web").await;
        assert_eq!((red.balancers().len(), blue.balancers().len()), (0, 1));
        assert_eq!(red.calls(), ["ensure web: n0 n1", "delete web"]);
        let record = bench.record("web").unwrap();
        assert_eq!((record.provider.as_str(), record.class.as_deref()), ("blue", Some("blue.io/lb")));
    }
}

/// Another order of the providers must not move every load balancer of the cluster.
#[tokio::test(start_paused = true)]
async fn a_service_without_a_class_stays_with_the_provider_that_has_its_load_balancer() {
    let (red, blue) = (cloud("red"), cloud("blue"));
    let mut bench = two(FakeApi::new(), member(&red, &[]), member(&blue, &[]));
    bench.add(service("web"));
    bench.sync("web").await;
    let mut bench = two(bench.api, member(&blue, &[]), member(&red, &[]));
    assert_eq!(bench.sync("web").await, Verdict::Done);
    assert_eq!(bench.pass([node("n0")]).await, [Verdict::Done]);
    assert_eq!(red.take_calls(), ["ensure web: n0 n1", "update web: n0"]);
    bench.delete("web");
    bench.sync("web").await;
    bench.add(service("new"));
    bench.sync("new").await;
    assert_eq!((red.calls(), blue.calls()), (vec!["delete web".into()], vec!["ensure new: n0".into()]));
}

#[tokio::test(start_paused = true)]
async fn the_load_balancer_of_a_provider_that_is_not_configured_is_left_alone_and_told() {
    let changes = [
        ("wanted", json!({})),
        ("another type", json!({ "spec": { "type": "ClusterIP" } })),
        ("deleted", json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } })),
    ];
    for (what, change) in changes {
        let mut bench = Bench::start(FakeApi::new(), cloud("oldcloud"), ServiceSettings::default());
        bench.add(service("web"));
        bench.sync("web").await;
        let mut bench = Bench::start(bench.api, cloud("fake"), ServiceSettings::default());
        bench.edit("web", &change);
        let before = (bench.json("web"), bench.patches());
        for _ in 0..3 {
            assert_eq!(bench.sync("web").await, Verdict::Change, "{what}");
        }
        assert_eq!((bench.cloud.calls().len(), (bench.json("web"), bench.patches())), (0, before), "{what}");
        let events = bench.events().await;
        let warnings: Vec<_> = events.iter().filter(|event| event.starts_with("Warning")).collect();
        assert_eq!(
            warnings,
            [
                "Warning LoadBalancerStranded: the provider \"oldcloud\" has the load balancer of this Service and is not \
                 configured here, or makes no load balancers: configure that provider; or give the load balancer up with the \
                 annotation wasm-ccm.io/orphan: oldcloud, and delete it by hand"
            ],
            "{what}"
        );
        // The way out. That of another provider is none.
        for (provider, verdict) in [("fake", Verdict::Change), ("oldcloud", Verdict::After(Duration::ZERO))] {
            bench.edit("web", &json!({ "metadata": { "annotations": { "wasm-ccm.io/orphan": provider } } }));
            assert_eq!(bench.sync("web").await, verdict, "{what}");
        }
        assert_eq!(bench.cloud.calls().len(), 0, "{what}");
        assert_eq!(bench.scraped("ccm_services_not_ready{reason=\"Stranded\"}"), 0.0, "{what}");
        match what {
            "deleted" => assert_eq!(bench.api.service("web"), None),
            "wanted" => {
                assert_eq!(bench.sync("web").await, Verdict::Done, "{what}");
                assert_eq!(bench.cloud.calls(), ["ensure web: n0 n1"]);
            }
            _ => assert_eq!(bench.json("web")["metadata"]["finalizers"], json!([]), "{what}"),
        }
    }
}

/// As long as its owner says so, a Service has nothing to do with the load balancer that it had.
#[tokio::test(start_paused = true)]
async fn a_load_balancer_that_its_owner_gives_up_stays_and_is_not_served_any_more() {
    let mut bench = Bench::new();
    bench.add(service("web"));
    let id = vec![("fake.io/id".into(), Some("lb-1".into()))];
    let ingress = vec![ccm_cloud::Ingress { ip: Some("192.0.2.9".into()), ..Default::default() }];
    bench.cloud.script("ensure", "web", [Outcome { ingress, annotations: id, ..Outcome::default() }]);
    bench.sync("web").await;
    bench.cloud.take_calls();
    bench.edit("web", &json!({ "metadata": { "annotations": { "wasm-ccm.io/orphan": "fake" } } }));
    settle(&mut bench, "web").await;
    let orphan = bench.json("web");
    assert_eq!(orphan["metadata"]["annotations"], json!({ "wasm-ccm.io/orphan": "fake" }));
    assert_eq!(orphan["metadata"]["finalizers"], json!([]));
    assert_eq!(orphan["status"], json!({ "loadBalancer": {}, "conditions": [] }));
    let mut bench = bench.restart();
    bench.pass([node("n0")]).await;
    assert_eq!(bench.sync("web").await, Verdict::Done);
    assert_eq!((bench.cloud.calls(), bench.json("web")), (vec![], orphan));
    bench.edit("web", &json!({ "metadata": { "annotations": { "wasm-ccm.io/orphan": null } } }));
    assert_eq!(bench.sync("web").await, Verdict::Done);
    assert_eq!(bench.cloud.calls(), ["ensure web: n0"]);
}

/// Classes that go from one provider to another are a change of the configuration.
#[tokio::test(start_paused = true)]
async fn a_class_that_is_given_to_another_provider_moves_no_load_balancer() {
    let (red, blue) = (cloud("red"), cloud("blue"));
    let mut bench = two(FakeApi::new(), member(&red, &["a.io/lb"]), member(&blue, &["b.io/lb"]));
    bench.add(service("web").with("/spec", "loadBalancerClass", json!("a.io/lb")));
    bench.sync("web").await;
    let mut bench = two(bench.api, member(&red, &["c.io/lb"]), member(&blue, &["a.io/lb"]));
    assert_eq!(bench.sync("web").await, Verdict::Change);
    assert_eq!((red.balancers().len(), blue.balancers().len()), (1, 0));
    assert_eq!(bench.json("web")["metadata"]["finalizers"], json!([FINALIZER]));
    // It goes where its owner wants it only after it was served where it was.
    let mut bench = two(bench.api, member(&red, &["a.io/lb"]), member(&blue, &["b.io/lb"]));
    bench.edit("web", &json!({ "spec": { "loadBalancerClass": "b.io/lb" } }));
    settle(&mut bench, "web").await;
    assert_eq!((red.balancers().len(), blue.balancers().len()), (0, 1));
}

/// Anybody who may change a Service may write an annotation, and an older release kept its record there.
#[tokio::test(start_paused = true)]
async fn an_annotation_chooses_no_provider() {
    let (red, blue) = (cloud("red"), cloud("blue"));
    let start = |api| two(api, member(&red, &[]), member(&blue, &["blue.io/lb"]));
    let mut bench = start(FakeApi::new());
    bench.add(service("web"));
    bench.sync("web").await;
    let uid = crate::service::digest::Digest::of(&Some("uid-web")).to_string();
    for provider in ["blue", "gone"] {
        let planted = format!("v1:{provider}:{uid}:-:-");
        bench.edit("web", &json!({ "metadata": { "annotations": { "wasm-ccm.io/ensured": planted } } }));
        assert_eq!(bench.sync("web").await, Verdict::Done);
        bench = start(bench.api);
        assert_eq!(bench.sync("web").await, Verdict::Done);
        assert_eq!((red.calls(), blue.calls()), (vec!["ensure web: n0 n1".to_owned()], vec![]), "{provider}");
    }
    bench.pass([node("n0")]).await;
    assert_eq!(bench.json("web")["metadata"]["annotations"], json!({}), "it goes with the next write");
    assert_eq!(bench.record("web").unwrap().provider, "red");
}

/// A Service as a release left it that had its record in an annotation: with the ID of `red`'s load balancer.
fn of_before(provider: &str, class: Option<&str>) -> Draft {
    let uid = crate::service::digest::Digest::of(&Some(WEB));
    let annotations = json!({ "wasm-ccm.io/ensured": format!("v1:{provider}:{uid}:-:-"), "fake.io/id": "lb-1" });
    let draft = finalized("web").with("/metadata", "uid", json!(WEB)).with("/metadata", "annotations", annotations);
    draft.with("/spec", "loadBalancerClass", json!(class))
}

/// With another order of the providers a second load balancer was once made, and the first one was paid for for ever.
#[tokio::test(start_paused = true)]
async fn a_service_of_an_older_release_stays_with_the_provider_that_has_its_load_balancer() {
    for (mark, served_by) in [(Some(WEB), "red"), (None, "red"), (Some(GONE), "blue")] {
        for is_deleted in [false, true] {
            let (red, blue) = (cloud("red"), cloud("blue"));
            let mut bench = two(FakeApi::new(), member(&blue, &[]), member(&red, &[]));
            red.mark_with("lb-1", mark);
            bench.add(of_before("red", None));
            if is_deleted {
                bench.delete("web");
            }
            red.fail("mark", "web", [failure(Reaction::Retry, "down")]);
            let Verdict::After(delay) = bench.sync("web").await else { panic!("not asked") };
            assert!(bench.condition("web")["message"].as_str().unwrap().contains("down"));
            tokio::time::advance(delay).await;
            bench.survey().await;
            settle(&mut bench, "web").await;
            let called = |cloud: &FakeBalancers| {
                let calls = cloud.calls().into_iter().filter(|call| !call.starts_with("mark "));
                calls.collect::<Vec<_>>()
            };
            let call = if is_deleted { "delete web" } else { "ensure web: n0 n1" };
            let wanted =
                if served_by == "red" { (vec![call.to_owned()], vec![]) } else { (vec![], vec![call.to_owned()]) };
            assert_eq!((called(&red), called(&blue)), wanted, "{mark:?} {is_deleted}");
            if !is_deleted {
                assert_eq!(bench.record("web").unwrap().provider, served_by);
                assert_eq!(bench.json("web")["metadata"]["annotations"]["wasm-ccm.io/ensured"], json!(null));
            }
        }
    }
}

/// Nothing was once said of it, and its finalizer stayed when it was deleted.
#[tokio::test(start_paused = true)]
async fn a_service_of_an_older_release_that_is_served_no_more_is_stranded() {
    for (provider, told) in [("red", "does not serve the class \"red.io/lb\""), ("green", "is not configured here")] {
        let (red, blue) = (cloud("red"), cloud("blue"));
        red.mark_with("lb-1", Some(WEB));
        let mut bench = two(FakeApi::new(), member(&blue, &[]), member(&red, &["red.io/lp"]));
        bench.add(of_before(provider, Some("red.io/lb")));
        let first = bench.sync("web").await;
        assert!(matches!(first, Verdict::After(Duration::ZERO) | Verdict::Change), "{first:?}");
        assert_eq!([bench.sync("web").await, bench.sync("web").await], [Verdict::Change; 2]);
        assert_eq!((red.count("ensure"), blue.calls(), bench.patches()), (0, vec![], 0), "{provider}");
        assert_eq!(bench.scraped("ccm_services_not_ready{reason=\"Stranded\"}"), 1.0, "{provider}");
        let events = bench.events().await;
        let warnings: Vec<_> = events.iter().filter(|event| event.starts_with("Warning")).collect();
        assert!(warnings.len() == 1 && warnings[0].contains(told), "{events:?}");
        bench.delete("web");
        let ended = bench.sync("web").await;
        match provider {
            "red" => assert_eq!((ended, red.count("delete"), bench.api.service("web")), (Verdict::Done, 1, None)),
            _ => {
                assert_eq!((ended, red.count("delete")), (Verdict::Change, 0));
                bench.edit("web", &json!({ "metadata": { "annotations": { "wasm-ccm.io/orphan": "green" } } }));
                assert_eq!(bench.sync("web").await, Verdict::After(Duration::ZERO));
                assert_eq!((red.count("delete"), bench.api.service("web")), (0, None));
            }
        }
    }
}

/// `kubectl get service a -o yaml`, another name, and what stands in the annotations stays.
#[tokio::test(start_paused = true)]
async fn what_was_copied_from_another_service_does_not_lead_to_its_load_balancer() {
    let rows = [
        ("ClusterIP", false, vec![]),
        ("ClusterIP", true, vec!["delete b"]),
        ("LoadBalancer", false, vec!["ensure b: n0 n1"]),
    ];
    let classed = ("LoadBalancer", true, vec!["ensure b: n0 n1"]);
    for (kind, keeps_finalizer, calls) in rows.into_iter().chain([classed]) {
        let mut bench = Bench::new();
        bench.add(service("a"));
        let ingress = vec![ccm_cloud::Ingress { ip: Some("192.0.2.9".into()), ..Default::default() }];
        let annotations = vec![("fake.io/id".into(), Some("lb-of-a".into()))];
        bench.cloud.script("ensure", "a", [Outcome { ingress, annotations, ..Outcome::default() }]);
        bench.sync("a").await;
        bench.cloud.mark_with("lb-of-a", None);
        bench.cloud.take_calls();
        let mut copy = bench.json("a");
        assert_eq!(copy["metadata"]["annotations"]["fake.io/id"], "lb-of-a");
        copy["metadata"]["name"] = json!("b");
        copy["metadata"]["uid"] = json!("uid-b");
        copy["spec"]["type"] = json!(kind);
        copy["status"] = json!({ "loadBalancer": {} });
        if !keeps_finalizer {
            copy["metadata"]["finalizers"] = json!([]);
        }
        bench.add(Draft(copy));
        assert_eq!(bench.sync("b").await, Verdict::Done);
        let asked: Vec<_> = bench.cloud.calls().into_iter().filter(|call| !call.starts_with("mark ")).collect();
        assert_eq!(asked, calls, "{kind} {keeps_finalizer}");
        if !calls.is_empty() {
            assert_eq!(
                bench.cloud.seen().last().unwrap().annotations.get("fake.io/id"),
                None,
                "{kind} {keeps_finalizer}"
            );
            assert_eq!(
                bench.json("b")["metadata"]["annotations"]["fake.io/id"],
                json!(null),
                "{kind} {keeps_finalizer}"
            );
        }
        assert_eq!(bench.json("a")["metadata"]["annotations"]["fake.io/id"], "lb-of-a");
    }
}
