//! Cases 116 to 129: one Service, once.

use ccm_cloud::{Failure, Ingress, Outcome, Reaction};
use serde_json::{Value, json};

use super::*;
use crate::service::digest::Digest;
use crate::service::fingerprint;

fn addressed(draft: Draft) -> Draft {
    draft.with("/status/loadBalancer", "ingress", json!([{ "ip": "192.0.2.9", "ipMode": "VIP" }]))
}

/// Another type, which has no load balancer.
fn typed(draft: Draft, kind: &str) -> Draft {
    draft.with("/spec", "type", json!(kind))
}

/// The record of a Service for which nothing is ensured yet, as a condition without its time.
fn begun(provider: &str, service: &Service) -> Value {
    let (none, no_annotations) = (fingerprint::addresses(&[]), Digest::of(&json!({})));
    let mut entry = Record::begun(provider, service, none, no_annotations).entry(service);
    entry.as_object_mut().unwrap().remove("lastTransitionTime").unwrap();
    entry
}

/// With that record in its status.
fn recorded(draft: Draft, provider: &str) -> Draft {
    let mut entry = begun(provider, &draft.clone().object());
    entry["lastTransitionTime"] = json!("2026-01-01T00:00:00Z");
    draft.with("/status", "conditions", json!([entry]))
}

struct Row {
    case: u32,
    service: Draft,
    calls: &'static [&'static str],
    /// Upstream's number of patches, less one where finalizer and addresses go together.
    patches: usize,
    reasons: &'static [&'static str],
    /// Whether it has a finalizer, and addresses, afterwards; none where it is gone.
    left: Option<(bool, bool)>,
}

#[tokio::test(start_paused = true)]
async fn cases_116_to_123_what_one_sync_asks_and_writes() {
    let protocol = |protocol: &str| {
        let port = json!([{ "protocol": protocol, "port": 80, "nodePort": 30_080 }]);
        service("web").with("/spec", "ports", port)
    };
    let ensured: &[&str] = &["EnsuringLoadBalancer", "EnsuredLoadBalancer"];
    let deleted: &[&str] = &["DeletingLoadBalancer", "DeletedLoadBalancer"];
    let ensure: &[&str] = &["ensure web: n0 n1"];
    let deleting = addressed(finalized("web")).with("/metadata", "deletionTimestamp", json!("2026-01-01T00:00:00Z"));
    let rows = [
        Row {
            case: 116,
            service: typed(service("web"), "ClusterIP"),
            calls: &[],
            patches: 0,
            reasons: &[],
            left: Some((false, false)),
        },
        Row {
            case: 117,
            service: protocol("UDP"),
            calls: ensure,
            patches: 2,
            reasons: ensured,
            left: Some((true, true)),
        },
        Row {
            case: 118,
            service: protocol("TCP"),
            calls: ensure,
            patches: 2,
            reasons: ensured,
            left: Some((true, true)),
        },
        Row {
            case: 119,
            service: protocol("SCTP"),
            calls: ensure,
            patches: 2,
            reasons: ensured,
            left: Some((true, true)),
        },
        Row {
            case: 120,
            service: service("web").with("/spec", "loadBalancerClass", json!("other")),
            calls: &[],
            patches: 0,
            reasons: &[],
            left: Some((false, false)),
        },
        Row {
            case: 121,
            service: typed(addressed(finalized("web")), "ClusterIP"),
            calls: &["delete web"],
            patches: 1,
            reasons: deleted,
            left: Some((false, false)),
        },
        Row { case: 122, service: deleting, calls: &["delete web"], patches: 1, reasons: deleted, left: None },
        Row {
            case: 123,
            service: finalized("web"),
            calls: ensure,
            patches: 1,
            reasons: ensured,
            left: Some((true, true)),
        },
    ];
    for row in rows {
        let case = row.case;
        let mut bench = Bench::new();
        bench.add(row.service);
        assert_eq!(bench.sync("web").await, Verdict::Done, "{case}");
        assert_eq!(
            (bench.cloud.calls(), bench.patches()),
            (row.calls.iter().map(ToString::to_string).collect(), row.patches),
            "{case}"
        );
        assert_eq!(bench.reasons().await, row.reasons, "{case}");
        let has = |place: &Value| place.as_array().is_some_and(|entries| !entries.is_empty());
        let left = bench.api.service("web").map(|service| {
            (has(&service["metadata"]["finalizers"]), has(&service["status"]["loadBalancer"]["ingress"]))
        });
        assert_eq!(left, row.left, "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_served_service_has_the_finalizer_first_then_all_the_rest_in_one_write() {
    let mut bench = Bench::new();
    bench.add(service("web"));
    bench.sync("web").await;
    let calls = bench.api.calls();
    assert_eq!(calls.len(), 2);
    let timeless = |body: &Value| {
        let mut body = body.clone();
        for condition in body["status"]["conditions"].as_array_mut().unwrap() {
            condition.as_object_mut().unwrap().remove("lastTransitionTime").unwrap();
        }
        body
    };
    assert_eq!(
        timeless(&calls[0].body),
        json!({
            "metadata": { "uid": "uid-web", "finalizers": [FINALIZER] },
            "status": { "conditions": [begun("fake", &service("web").object())] },
        })
    );
    let mut body = timeless(&calls[1].body);
    let record = body["status"]["conditions"][1]["message"].take();
    assert_eq!(
        body,
        json!({
            "metadata": { "uid": "uid-web" },
            "status": {
                "loadBalancer": { "ingress": [{ "ip": "192.0.2.1" }] },
                "conditions": [
                    {
                        "type": "LoadBalancerReady", "status": "True", "reason": "Ensured",
                        "message": "the load balancer is as this Service asks for",
                    },
                    { "type": "LoadBalancerRecorded", "status": "True", "reason": "Ensured", "message": null },
                ],
            },
        })
    );
    let names: Vec<&str> = record.as_str().unwrap().split(' ').map(|part| part.split('=').next().unwrap()).collect();
    assert_eq!(
        names,
        ["v2", "provider", "service", "spec", "backends", "addresses", "annotations", "view"],
        "{record}"
    );
    assert!(calls.iter().all(|call| call.content_type == "application/strategic-merge-patch+json"));
}

#[tokio::test(start_paused = true)]
async fn case_124_without_the_finalizer_the_cloud_is_not_asked() {
    let mut bench = Bench::new();
    bench.add(service("web"));
    bench.api.refuse(STATUS, 500, 1);
    assert!(matches!(bench.sync("web").await, Verdict::After(_)));
    assert_eq!(bench.cloud.calls(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn case_125_a_service_of_somebody_else_keeps_its_finalizer_and_gets_no_status() {
    let mut bench = Bench::new();
    bench.add(service("web"));
    bench.cloud.fail("ensure", "web", vec![failure(Reaction::Elsewhere, "not mine"); 2]);
    assert_eq!(bench.sync("web").await, Verdict::Change);
    // Our own write of the finalizer wakes it.
    assert_eq!(bench.sync("web").await, Verdict::Change);
    assert_eq!((bench.cloud.calls().len(), bench.patches()), (1, 1));
    assert_eq!(bench.json("web")["metadata"]["finalizers"], json!([FINALIZER]));
    assert_eq!(bench.json("web")["status"]["loadBalancer"], json!({}));
    assert_eq!(bench.condition("web"), json!(null));
    assert_eq!(bench.scraped("ccm_services_pending"), 0.0);
    assert_eq!(bench.reasons().await, ["EnsuringLoadBalancer"]);
}

#[tokio::test(start_paused = true)]
async fn case_126_done_without_an_address_is_an_error() {
    let mut bench = Bench::new();
    bench.add(service("web"));
    bench.cloud.script("ensure", "web", [Outcome::default()]);
    assert!(matches!(bench.sync("web").await, Verdict::After(_)));
    let events = bench.events().await;
    assert_starts(
        &events[1],
        "Warning SyncLoadBalancerFailed: Error syncing load balancer: failed to ensure load balancer: the provider says \
         that it is done, and names no address (retry): retried with back-off, next in ",
    );
}

/// Cases 127 and 129 ask whether there is something before they delete it. Here `delete` is always called: what it would miss is
/// what a listing misses.
#[tokio::test(start_paused = true)]
async fn cases_127_and_129_delete_is_called_without_asking_whether_there_is_anything() {
    let mut bench = Bench::new();
    bench.add(finalized("web").with("/metadata", "deletionTimestamp", json!("2026-01-01T00:00:00Z")));
    bench.cloud.fail("get", "web", [failure(Reaction::Retry, "down")]);
    assert_eq!(bench.sync("web").await, Verdict::Done);
    assert_eq!(bench.cloud.calls(), ["delete web"]);
    assert_eq!(bench.api.service("web"), None);
    assert_eq!(bench.reasons().await, ["DeletingLoadBalancer", "DeletedLoadBalancer"]);
}

#[tokio::test(start_paused = true)]
async fn case_128_what_could_not_be_deleted_keeps_its_finalizer() {
    let mut bench = Bench::new();
    bench.add(service("web"));
    bench.sync("web").await;
    bench.delete("web");
    bench.cloud.fail("delete", "web", [failure(Reaction::Retry, "the cloud is down")]);
    assert!(matches!(bench.sync("web").await, Verdict::After(_)));
    assert_eq!(bench.json("web")["metadata"]["finalizers"], json!([FINALIZER]));
    assert_eq!(
        bench.condition("web")["message"],
        "failed to delete load balancer: the cloud is down (retry): retried with back-off"
    );
    tokio::time::advance(Duration::from_secs(11)).await;
    assert_eq!(bench.sync("web").await, Verdict::Done);
    assert_eq!((bench.api.service("web"), bench.cloud.balancers().len()), (None, 0));
    assert_eq!(bench.reasons().await[2..], ["DeletingLoadBalancer", "SyncLoadBalancerFailed", "DeletedLoadBalancer"]);
}

/// QUIRK-17: upstream's delete cannot ask for a delay.
#[tokio::test(start_paused = true)]
async fn a_deletion_that_takes_its_time_is_looked_at_when_the_provider_says() {
    let mut bench = Bench::new();
    bench.add(service("web"));
    bench.sync("web").await;
    bench.delete("web");
    let pending = Failure { retry_after: Some(Duration::from_secs(7)), ..failure(Reaction::Pending, "deleting") };
    let outcome =
        Outcome { annotations: vec![("fake.io/job-1".into(), Some("4711".into()))], ..Outcome::failed(pending) };
    bench.cloud.script("delete", "web", [outcome]);
    assert_eq!(bench.sync("web").await, Verdict::After(Duration::from_secs(7)));
    assert_eq!(bench.json("web")["metadata"]["annotations"]["fake.io/job-1"], "4711");
    tokio::time::advance(Duration::from_secs(7)).await;
    assert_eq!(bench.sync("web").await, Verdict::Done);
    assert_eq!(bench.cloud.seen().last().unwrap().annotations["fake.io/job-1"], "4711");
    assert!(!bench.events().await.iter().any(|event| event.starts_with("Warning")));
}

#[tokio::test(start_paused = true)]
async fn a_service_that_becomes_another_type_loses_everything_that_was_written_on_it() {
    let mut bench = Bench::new();
    bench.add(service("web").with("/metadata", "annotations", json!({ "fake.io/mode": "fast", "mine": "yes" })));
    let id = vec![("fake.io/id".into(), Some("lb-1".into()))];
    let ingress = vec![Ingress { hostname: Some("lb.example".into()), ..Ingress::default() }];
    bench.cloud.script("ensure", "web", [Outcome { ingress, annotations: id, ..Outcome::default() }]);
    bench.sync("web").await;
    assert_eq!(bench.json("web")["metadata"]["annotations"]["fake.io/id"], "lb-1");
    bench.edit("web", &json!({ "spec": { "type": "ClusterIP" } }));
    assert_eq!(bench.sync("web").await, Verdict::Done);
    let left = bench.json("web");
    assert_eq!(left["metadata"]["annotations"], json!({ "fake.io/mode": "fast", "mine": "yes" }));
    assert_eq!(left["metadata"]["finalizers"], json!([]));
    assert_eq!(left["status"], json!({ "loadBalancer": {}, "conditions": [] }));
    bench.sync("web").await;
    assert_eq!((bench.cloud.count("delete"), bench.syncer.memory.len()), (1, 0));
}

/// QUIRK-19: upstream takes the finalizer of another controller away.
#[tokio::test(start_paused = true)]
async fn the_finalizer_of_another_classs_controller_is_left_alone() {
    let deleting = || finalized("web").with("/metadata", "deletionTimestamp", json!("2026-01-01T00:00:00Z"));
    let classed = |draft: Draft| draft.with("/spec", "loadBalancerClass", json!("other.io/lb"));
    let rows: [(&str, Draft, usize, Verdict); 4] = [
        ("no class: as upstream", deleting(), 1, Verdict::Done),
        ("a class that nobody serves here", classed(deleting()), 0, Verdict::Done),
        ("a class, and our record", recorded(classed(deleting()), "fake"), 1, Verdict::Done),
        ("a class, and another provider's record", recorded(classed(deleting()), "another"), 0, Verdict::Change),
    ];
    for (what, service, deletions, verdict) in rows {
        let mut bench = Bench::new();
        bench.add(service);
        assert_eq!(bench.sync("web").await, verdict, "{what}");
        assert_eq!((bench.cloud.count("delete"), bench.patches()), (deletions, deletions), "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_class_goes_to_the_provider_that_serves_it_also_for_cleanup() {
    let (red, blue) = (
        Arc::new(FakeBalancers { name: "red", ..FakeBalancers::default() }),
        Arc::new(FakeBalancers { name: "blue", ..FakeBalancers::default() }),
    );
    let member = |cloud: &Arc<FakeBalancers>, classes: &[&str]| LoadBalancerMember {
        provider: Arc::clone(cloud) as _,
        classes: classes.iter().map(ToString::to_string).collect(),
    };
    let members = vec![member(&red, &[]), member(&blue, &["blue.io/lb"])];
    let mut bench = Bench::serving(FakeApi::new(), Arc::clone(&red), members, ServiceSettings::default());
    bench.add(service("plain"));
    bench.add(service("classed").with("/spec", "loadBalancerClass", json!("blue.io/lb")));
    for name in ["plain", "classed"] {
        assert_eq!(bench.sync(name).await, Verdict::Done);
    }
    assert_eq!((red.calls(), blue.calls()), (vec!["ensure plain: n0 n1".into()], vec!["ensure classed: n0 n1".into()]));
    // With the type goes the class: the record says whose it was.
    bench.edit("classed", &json!({ "spec": { "type": "ClusterIP", "loadBalancerClass": null } }));
    bench.syncer.memory.forget(&key("classed"));
    bench.sync("classed").await;
    assert_eq!((red.count("delete"), blue.count("delete")), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn annotations_are_written_also_with_a_failure_but_only_the_providers_own() {
    let mut bench = Bench::new();
    bench.add(service("web").with("/metadata", "annotations", json!({ "fake.io/job-2": "old" })));
    let annotations = vec![
        ("fake.io/job-1".to_owned(), Some("4711".to_owned())),
        ("fake.io/job-2".to_owned(), None),
        ("fake.io/mode".to_owned(), Some("of people".to_owned())),
        ("wasm-ccm.io/ensure".to_owned(), Some("again".to_owned())),
        ("somebody.else/x".to_owned(), Some("y".to_owned())),
    ];
    let outcome = Outcome { annotations, ..Outcome::failed(failure(Reaction::Retry, "half-way")) };
    bench.cloud.script("ensure", "web", [outcome]);
    bench.sync("web").await;
    let annotations: Value = bench.json("web")["metadata"]["annotations"].clone();
    assert_eq!(annotations, json!({ "fake.io/job-1": "4711" }));
    // Neither does what was written count as a change of the Service.
    assert!(matches!(bench.sync("web").await, Verdict::After(_)));
    assert_eq!(bench.cloud.count("ensure"), 1);
}

#[tokio::test(start_paused = true)]
async fn do_254_an_annotation_of_the_provider_is_written_when_it_changes() {
    let mut bench = Bench::new();
    bench.add(finalized("web"));
    let noted = |id: &str| {
        let annotations = vec![("fake.io/id".to_owned(), Some(id.to_owned()))];
        Outcome { annotations, ..Outcome::failed(failure(Reaction::Retry, "half-way")) }
    };
    bench.cloud.script("ensure", "web", [noted("lb-1"), noted("lb-1"), noted("lb-2")]);
    let mut written = vec![];
    for id in ["lb-1", "lb-1", "lb-2"] {
        let Verdict::After(delay) = bench.sync("web").await else { panic!("it failed") };
        tokio::time::advance(delay).await;
        assert_eq!(bench.json("web")["metadata"]["annotations"]["fake.io/id"], id);
        written.push(bench.api.calls().iter().filter(|call| call.body.to_string().contains("fake.io/id")).count());
    }
    assert_eq!(written, [1, 1, 2]);
}

#[tokio::test(start_paused = true)]
async fn annotations_that_could_not_be_written_are_not_lost() {
    let mut bench = Bench::new();
    bench.add(finalized("web"));
    let id = vec![("fake.io/id".to_owned(), Some("lb-1".to_owned()))];
    bench.cloud.script(
        "ensure",
        "web",
        [Outcome { annotations: id, ..Outcome::failed(failure(Reaction::Retry, "half-way")) }],
    );
    bench.api.refuse(STATUS, 503, 1);
    bench.sync("web").await;
    tokio::time::advance(Duration::from_secs(11)).await;
    assert_eq!(bench.sync("web").await, Verdict::Done);
    assert_eq!(bench.cloud.seen()[1].annotations["fake.io/id"], "lb-1");
    assert_eq!(bench.json("web")["metadata"]["annotations"]["fake.io/id"], "lb-1");
}

#[tokio::test(start_paused = true)]
async fn what_was_done_and_could_not_be_written_is_written_and_not_done_again() {
    let mut bench = Bench::new();
    bench.add(finalized("web"));
    bench.api.refuse(STATUS, 503, 2);
    for _ in 0..2 {
        let Verdict::After(delay) = bench.sync("web").await else { panic!("no second try") };
        tokio::time::advance(delay).await;
    }
    assert_eq!(bench.sync("web").await, Verdict::Done);
    assert_eq!(bench.cloud.calls(), ["ensure web: n0 n1"]);
    assert_eq!(bench.json("web")["status"]["loadBalancer"]["ingress"][0]["ip"], "192.0.2.1");
    assert_eq!(bench.reasons().await, ["EnsuringLoadBalancer", "EnsuredLoadBalancer"]);
}

/// The record says what it said before, and it would be wrong to believe it.
#[tokio::test(start_paused = true)]
async fn what_was_done_and_could_not_be_written_is_not_what_is_recorded() {
    let mut bench = Bench::new();
    bench.add(service("web"));
    bench.sync("web").await;
    bench.cloud.take_calls();
    bench.api.refuse(STATUS, 503, 1);
    let Verdict::After(delay) = bench.pass([node("n0"), node("n1"), node("n2")]).await[0] else { panic!("written") };
    bench.pass([node("n0"), node("n1")]).await;
    tokio::time::advance(delay).await;
    assert_eq!(bench.sync("web").await, Verdict::Done);
    assert_eq!(bench.cloud.calls(), ["update web: n0 n1 n2", "update web: n0 n1"]);
}
