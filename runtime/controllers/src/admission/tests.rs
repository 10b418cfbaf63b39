//! The table of decisions, against a provider in plain Rust. Cases of DigitalOcean's reference by number: `do_NNN`.

use std::sync::Arc;

use prometheus_client::registry::Registry;
use serde_json::{Value, json};

use super::*;
use crate::service::LoadBalancerMember;
use crate::service::digest::Digest;
use crate::service::ensured_record::Record;
use crate::testing::{Draft, FakeBalancers, service};

const LIMIT: Duration = Duration::from_secs(8);

fn cloud(name: &'static str) -> Arc<FakeBalancers> {
    Arc::new(FakeBalancers { name, ..FakeBalancers::default() })
}

fn member(cloud: &Arc<FakeBalancers>, classes: &[&str]) -> LoadBalancerMember {
    let classes = classes.iter().map(ToString::to_string).collect();
    LoadBalancerMember { provider: Arc::clone(cloud) as _, classes }
}

fn serving(members: Vec<LoadBalancerMember>, online: bool) -> ServiceAdmission {
    let admission = ServiceAdmission::new(online, AdmissionMetrics::register(&mut Registry::default()));
    admission.serve(members.into_iter().enumerate().collect());
    admission
}

/// The Service `web` with a merge patch.
fn web(patch: &Value) -> Service {
    service("web").patched(patch).object()
}

fn both(one: &Value, other: &Value) -> Value {
    Draft(one.clone()).patched(other).0
}

fn mode(value: &str) -> Value {
    json!({ "metadata": { "annotations": { "fake.io/mode": value } } })
}

fn problem(field: &str, message: &str, fatal: bool) -> Problem {
    Problem { field: field.to_owned(), message: message.to_owned(), fatal }
}

#[tokio::test]
async fn do_192_193_287_what_is_not_ours_is_let_through_unasked() {
    let cloud = cloud("fake");
    cloud.judge(Ok(vec![problem("spec", "wrong", true)]));
    let admission = serving(vec![member(&cloud, &["ours"])], true);
    for (name, patch) in [
        ("another type", json!({ "spec": { "type": "NodePort" } })),
        ("no type", json!({ "spec": { "type": null } })),
        ("being deleted", json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } })),
        ("another class", json!({ "spec": { "loadBalancerClass": "theirs" } })),
    ] {
        let ruling = admission.review(&web(&patch), None, LIMIT).await;
        assert_eq!(ruling, Ruling::silent(AdmissionOutcome::Foreign), "{name}");
    }
    let nobody = serving(vec![], true);
    assert_eq!(nobody.review(&web(&json!({})), None, LIMIT).await, Ruling::silent(AdmissionOutcome::Foreign));
    assert_eq!(cloud.calls(), [""; 0]);
    let ours = admission.review(&web(&json!({ "spec": { "loadBalancerClass": "ours" } })), None, LIMIT).await;
    assert_eq!(ours.denial.as_deref(), Some("spec: wrong"));
    assert_eq!(admission.metrics.reviews(AdmissionOutcome::Foreign), 4);
    assert_eq!(admission.metrics.reviews(AdmissionOutcome::Denied), 1);
}

#[tokio::test]
async fn do_194_195_what_the_provider_says_of_a_new_service_counts() {
    let cloud = cloud("fake");
    let admission = serving(vec![member(&cloud, &[])], false);
    assert_eq!(admission.review(&web(&mode("good")), None, LIMIT).await, Ruling::silent(AdmissionOutcome::Valid));
    let field = "metadata.annotations[fake.io/mode]";
    cloud.judge(Ok(vec![
        problem(field, "\"bad\" is none of `good`, `better`", true),
        problem("spec.x", "has no effect", false),
        problem("spec.y", "is\nwrong", true),
    ]));
    let ruling = admission.review(&web(&mode("bad")), None, LIMIT).await;
    let denial = format!("{field}: \"bad\" is none of `good`, `better`; spec.y: is wrong");
    assert_eq!((ruling.outcome, ruling.denial), (AdmissionOutcome::Denied, Some(denial)));
    assert_eq!(ruling.warnings, ["spec.x: has no effect"]);
    cloud.judge(Ok(vec![problem("spec.x", "has no effect", false)]));
    let ruling = admission.review(&web(&mode("odd")), None, LIMIT).await;
    assert_eq!((ruling.outcome, ruling.denial, ruling.warnings.len()), (AdmissionOutcome::Valid, None, 1));
    assert_eq!(cloud.calls(), ["validate web"; 3]);
    assert_eq!(cloud.seen().last().unwrap().annotations["fake.io/mode"], "odd");
}

#[tokio::test]
async fn a_misspelt_annotation_is_a_warning_to_whoever_writes_it_and_to_nobody_after() {
    let cloud = cloud("fake");
    let admission = serving(vec![member(&cloud, &[])], false);
    let misspelt = web(&json!({ "metadata": { "annotations": { "fake.io/mdoe": "good" } } }));
    let warning =
        "provider fake does not know the annotation fake.io/mdoe, which has no effect; fake.io/mode would be one";
    let plain = web(&json!({}));
    let told = Ruling { warnings: vec![warning.to_owned()], ..Ruling::silent(AdmissionOutcome::Valid) };
    assert_eq!(admission.review(&misspelt, None, LIMIT).await, told);
    // Nothing that the provider sees has changed.
    let told = Ruling { warnings: vec![warning.to_owned()], ..Ruling::silent(AdmissionOutcome::Unchanged) };
    assert_eq!(admission.review(&misspelt, Some(&plain), LIMIT).await, told);
    let silent = Ruling::silent(AdmissionOutcome::Unchanged);
    assert_eq!(admission.review(&misspelt, Some(&misspelt), LIMIT).await, silent);
    cloud.judge(Err(Failure::new(Reaction::Elsewhere, "")));
    assert_eq!(admission.review(&misspelt, None, LIMIT).await, Ruling::silent(AdmissionOutcome::Foreign));
}

/// A cloud that has trouble must not keep anybody from changing a Service.
#[tokio::test(start_paused = true)]
async fn do_196_198_285_whoever_cannot_judge_denies_nothing() {
    for (reaction, expected) in [
        (Reaction::Retry, AdmissionOutcome::Unjudged),
        (Reaction::Throttled, AdmissionOutcome::Unjudged),
        (Reaction::Pending, AdmissionOutcome::Unjudged),
        (Reaction::Unauthorized, AdmissionOutcome::Unjudged),
        (Reaction::Conflict, AdmissionOutcome::Unjudged),
        (Reaction::Quota, AdmissionOutcome::Unjudged),
        (Reaction::Unsupported, AdmissionOutcome::Unjudged),
        (Reaction::Elsewhere, AdmissionOutcome::Foreign),
        (Reaction::Invalid, AdmissionOutcome::Denied),
    ] {
        let cloud = cloud("fake");
        cloud.judge(Err(Failure::new(reaction, "GET /things: 503")));
        let ruling = serving(vec![member(&cloud, &[])], true).review(&web(&json!({})), None, LIMIT).await;
        assert_eq!(
            (ruling.outcome, ruling.denial.is_some()),
            (expected, expected == AdmissionOutcome::Denied),
            "{reaction:?}"
        );
        let told: Vec<_> = ruling.warnings.iter().map(|warning| warning.contains("fake: GET /things: 503")).collect();
        assert_eq!(told, vec![true; usize::from(expected == AdmissionOutcome::Unjudged)], "{reaction:?}");
        assert_eq!(cloud.calls(), ["validate web online"]);
    }
    let slow = Arc::new(FakeBalancers { name: "slow", delay: LIMIT * 2, ..FakeBalancers::default() });
    let begun = tokio::time::Instant::now();
    let ruling = serving(vec![member(&slow, &[])], true).review(&web(&json!({})), None, LIMIT).await;
    assert_eq!((ruling.outcome, ruling.denial), (AdmissionOutcome::Unjudged, None));
    assert!(ruling.warnings[0].ends_with("slow gave no answer within 8s"), "{:?}", ruling.warnings);
    assert_eq!(begun.elapsed(), LIMIT);
    let unready = ServiceAdmission::new(true, AdmissionMetrics::default());
    let ruling = unready.review(&web(&json!({})), None, LIMIT).await;
    assert!(ruling.outcome == AdmissionOutcome::Unjudged && ruling.warnings[0].ends_with("no provider is loaded yet"));
}

#[tokio::test]
async fn do_201_203_a_change_is_judged_when_it_changes_what_the_provider_is_told() {
    let labels = json!({ "metadata": { "labels": { "app": "web" }, "annotations": { "other.io/a": "1" } } });
    let port = json!({ "spec": { "ports": [{ "name": "http", "protocol": "TCP", "port": 81, "nodePort": 30_080 }] } });
    let garbage = json!({ "spec": { "loadBalancerSourceRanges": ["x"] } });
    let port_of_wrong = both(&garbage, &port);
    let was_node_port = json!({ "spec": { "type": "NodePort" } });
    let rows: [(&str, Value, Value, AdmissionOutcome, &[&str]); 8] = [
        ("the same", json!({}), json!({}), AdmissionOutcome::Unchanged, &[]),
        ("labels and foreign annotations", json!({}), labels, AdmissionOutcome::Unchanged, &[]),
        ("its own annotation", mode("a"), mode("b"), AdmissionOutcome::Valid, &["validate web changed"]),
        ("a port", json!({}), port.clone(), AdmissionOutcome::Valid, &["validate web changed"]),
        ("another type before", was_node_port, json!({}), AdmissionOutcome::Valid, &["validate web"]),
        // Nobody can be asked about what cannot be read.
        ("wrong now", json!({}), garbage.clone(), AdmissionOutcome::Denied, &[]),
        ("wrong, as before", garbage.clone(), garbage.clone(), AdmissionOutcome::Unchanged, &[]),
        ("mended", garbage, json!({}), AdmissionOutcome::Valid, &["validate web changed"]),
    ];
    for (name, before, now, outcome, calls) in rows {
        let cloud = cloud("fake");
        let ruling = serving(vec![member(&cloud, &[])], false).review(&web(&now), Some(&web(&before)), LIMIT).await;
        assert_eq!(
            (ruling.outcome, cloud.calls()),
            (outcome, calls.iter().map(ToString::to_string).collect()),
            "{name}"
        );
    }
    let cloud = cloud("fake");
    let ruling = serving(vec![member(&cloud, &[])], false).review(&web(&port_of_wrong), None, LIMIT).await;
    let denial = ruling.denial.unwrap();
    assert!(
        denial.contains("spec.loadBalancerSourceRanges[0]: \"x\" is no range of addresses: 10.0.0.0/8"),
        "{denial}"
    );
}

/// As the service controller has it: by class, and whoever has the load balancer keeps it.
#[tokio::test]
async fn the_provider_that_owns_the_service_is_asked_and_no_other() {
    let recorded = |provider: &str| {
        let web = web(&json!({}));
        let record = Record::begun(provider, &web, Digest::of(&0), Digest::of(&0)).entry(&web);
        json!({ "status": { "conditions": [record] } })
    };
    let class = |class: &str| json!({ "spec": { "loadBalancerClass": class } });
    let restored = both(&recorded("second"), &json!({ "metadata": { "uid": "another" } }));
    let orphan = json!({ "metadata": { "annotations": { "wasm-ccm.io/orphan": "second" } } });
    let rows: [(&str, Value, Option<Value>, Option<&str>); 8] = [
        ("without a class the first", json!({}), None, Some("first")),
        ("by class", class("b"), None, Some("second")),
        ("whoever has it", recorded("second"), None, Some("second")),
        ("whoever had it, though the note was taken away", mode("x"), Some(recorded("second")), Some("second")),
        ("of a provider that is not here nobody", recorded("gone"), None, None),
        ("with a class of another one that one", both(&recorded("first"), &class("b")), None, Some("second")),
        ("the status of another one says nothing", restored, None, Some("first")),
        ("whoever gives it up has nobody", both(&recorded("second"), &orphan), None, None),
    ];
    for (name, now, before, asked) in rows {
        let (first, second) = (cloud("first"), cloud("second"));
        let admission = serving(vec![member(&first, &["a"]), member(&second, &["b"])], false);
        let before = before.as_ref().map(web);
        admission.review(&web(&now), before.as_ref(), LIMIT).await;
        let were_asked = [&first, &second].map(|cloud| cloud.count("validate") == 1);
        assert_eq!(were_asked, [asked == Some("first"), asked == Some("second")], "{name}");
    }
}

/// Whose it is shows only at the cloud.
#[tokio::test]
async fn what_a_provider_wrote_for_another_service_is_judged_as_an_offer() {
    let cloud = cloud("fake");
    let annotations = json!({ "fake.io/id": "lb-1", "fake.io/mode": "a" });
    let copy = web(&json!({ "metadata": { "uid": "another", "annotations": annotations } }));
    serving(vec![member(&cloud, &[])], false).review(&copy, None, LIMIT).await;
    let seen = cloud.seen();
    let names: Vec<_> = seen[0].annotations.keys().filter(|name| name.starts_with("fake.io")).collect();
    assert_eq!(names, ["fake.io/id", "fake.io/mode"]);
}

/// kubectl prints it.
#[tokio::test]
async fn what_a_provider_says_moves_no_terminal() {
    let cloud = cloud("fake");
    cloud.judge(Ok(vec![problem("spec", "a\u{1b}b\nc\u{202e}d", true)]));
    let ruling = serving(vec![member(&cloud, &[])], false).review(&web(&json!({})), None, LIMIT).await;
    assert_eq!(ruling.denial.as_deref(), Some("spec: a b c d"));
}

#[tokio::test]
async fn a_provider_that_says_too_much_is_cut() {
    let cloud = cloud("fake");
    let long = "ä".repeat(5_000);
    let problems = (0..40).map(|number| problem("spec", &long, number % 2 == 0)).collect();
    cloud.judge(Ok(problems));
    let ruling = serving(vec![member(&cloud, &[])], false).review(&web(&json!({})), None, LIMIT).await;
    let denial = ruling.denial.unwrap();
    // Not the constants: 16 problems of 1 KiB, and 16 warnings of 256 bytes.
    let told: Vec<&str> = denial.split("; ").collect();
    assert_eq!((told.len(), told[16]), (17, "and 4 more"));
    let is_cut = |text: &str, most: usize| (most - 4..=most).contains(&text.len()) && text.ends_with("ä…");
    assert!(told[..16].iter().all(|problem| is_cut(problem, 1_024)), "{told:?}");
    assert_eq!(ruling.warnings.len(), 16);
    assert!(ruling.warnings.iter().all(|warning| is_cut(warning, 256)), "{:?}", ruling.warnings);
}
