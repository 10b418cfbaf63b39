//! Cases of the reference by number: `do_NNN`.

use ccm_sdk::testing::{FakeCloud, Reply};
use ccm_sdk::types::Reaction;
use serde_json::{Value, json};

use super::*;
use crate::annotations as names;
use crate::balancer::tests::{LIST, balancer, body, changed, many, not_found, routes};
use crate::cluster;
use crate::config::Config;
use crate::config::tests::config;
use crate::service_spec::tests::service;

const TAG: &str = "api POST /v2/tags/k8s%3Ac-1/resources";
const MAKE: &str = "api POST /v2/tags";

fn reconciled(services: &[Service]) -> Vec<(Subject, Failure)> {
    let config = Config { tag: Some("k8s:c-1".to_owned()), ..config() };
    cluster::reconcile(&config, services).expect("what fails is in the list")
}

fn second() -> Service {
    Service { uid: "2".to_owned(), name: "second".to_owned(), ..service(&[]) }
}

fn lb_2() -> Value {
    changed("lb-2", json!({"name": "a2"}))
}

#[test]
fn do_210_211_without_load_balancers_nothing_is_tagged() {
    let cloud = FakeCloud::new().on(LIST, many(&[]));
    assert_eq!(reconciled(&[service(&[])]), []);
    assert_eq!(routes(&cloud), [LIST]);
    let cloud = FakeCloud::new();
    assert_eq!(reconciled(&[Service { kind: ServiceType::NodePort, ..service(&[]) }]), []);
    assert_eq!(cloud.lines(), Vec::<String>::new());
}

#[test]
fn what_has_the_tag_or_is_disowned_costs_no_write() {
    let tagged = changed("lb-1", json!({"tags": ["x", "k8s:c-1"]}));
    let cloud = FakeCloud::new().on(LIST, many(&[tagged, lb_2()]));
    let disowned = Service { annotations: service(&[(names::DISOWN, "true")]).annotations, ..second() };
    assert_eq!(reconciled(&[service(&[]), disowned]), []);
    assert_eq!(routes(&cloud), [LIST]);
}

/// A tag is the same in any case, and the account keeps that of whoever made it first.
#[test]
fn a_tag_that_somebody_made_in_capitals_is_not_written_again_and_again() {
    for tags in [["K8s:C-1"], ["K8S:c-1"]] {
        let cloud = FakeCloud::new().on(LIST, many(&[changed("lb-1", json!({"tags": tags}))]));
        assert_eq!(reconciled(&[service(&[])]), []);
        assert_eq!(routes(&cloud), [LIST]);
    }
}

/// The public description of the API has no tags in its answers.
#[test]
fn a_cloud_that_does_not_tell_tags_is_not_given_the_same_one_at_every_look() {
    let untold = |id: &str| changed(id, json!({"name": "a2", "tags": null}));
    let cloud =
        FakeCloud::new().always(LIST, many(&[untold("lb-1")])).on(TAG, Reply::status(500)).on(TAG, Reply::status(204));
    assert_eq!(reconciled(&[second()]).len(), 1);
    // What failed is tried again, what is done is not.
    for _ in 0..3 {
        assert_eq!(reconciled(&[second()]), []);
    }
    assert_eq!(routes(&cloud), [LIST, TAG, LIST, TAG, LIST, LIST]);
}

#[test]
fn do_214_215_all_are_tagged_in_one_request() {
    let cloud = FakeCloud::new().on(LIST, many(&[balancer("lb-1"), lb_2()])).on(TAG, Reply::status(204));
    assert_eq!(reconciled(&[service(&[]), second()]), []);
    assert_eq!(routes(&cloud), [LIST, TAG]);
    let resource = |id: &str| json!({ "resource_id": id, "resource_type": "load_balancer" });
    assert_eq!(body(&cloud, 1), json!({ "resources": [resource("lb-1"), resource("lb-2")] }));
}

#[test]
fn do_216_a_tag_that_is_not_there_is_made() {
    let cloud = FakeCloud::new()
        .on(LIST, many(&[balancer("lb-1")]))
        .on(TAG, not_found())
        .on(MAKE, Reply::status(201))
        .on(TAG, Reply::status(204));
    assert_eq!(reconciled(&[service(&[])]), []);
    assert_eq!((routes(&cloud).len(), body(&cloud, 2)), (4, json!({ "name": "k8s:c-1" })));
}

#[test]
fn do_212_213_failures_are_told() {
    let _cloud = FakeCloud::new().on(LIST, many(&[balancer("lb-1")])).on(TAG, Reply::status(500));
    let failures = reconciled(&[service(&[])]);
    assert_eq!(failures[0].0, Subject::Service(("default".to_owned(), "test".to_owned())));
    assert_eq!((failures.len(), failures[0].1.reaction), (1, Reaction::Retry));
    let _cloud = FakeCloud::new().on(LIST, many(&[balancer("lb-1")])).on(TAG, not_found()).on(MAKE, Reply::status(500));
    let failures = reconciled(&[service(&[])]);
    assert_eq!(failures[0].0, Subject::Provider);
    assert!(failures[0].1.message.starts_with("failed to create tag: "), "{failures:?}");
}

#[test]
fn do_217_218_they_are_found_as_load_balancers_are_found() {
    for (annotations, name) in [(vec![(names::ID, "lb-1")], "renamed"), (vec![(names::NAME, "custom")], "custom")] {
        let cloud =
            FakeCloud::new().on(LIST, many(&[changed("lb-1", json!({"name": name}))])).on(TAG, Reply::status(204));
        assert_eq!(reconciled(&[service(&annotations)]), []);
        assert_eq!(body(&cloud, 1)["resources"][0]["resource_id"], "lb-1");
    }
}

#[test]
fn one_of_another_cluster_is_not_tagged_because_of_its_name() {
    let other = changed("lb-1", json!({"name": "custom", "tags": ["k8s:other"]}));
    let cloud = FakeCloud::new().on(LIST, many(&[other]));
    assert_eq!(reconciled(&[service(&[(names::NAME, "custom")])]), []);
    assert_eq!(routes(&cloud), [LIST]);
}

#[test]
fn one_that_is_refused_does_not_keep_the_tag_from_the_others() {
    let cloud = FakeCloud::new()
        .on(LIST, many(&[balancer("lb-1"), lb_2()]))
        .on(TAG, Reply::json(422, r#"{"message": "lb-1"}"#))
        .on(TAG, Reply::json(422, r#"{"message": "lb-1"}"#))
        .on(TAG, Reply::status(204));
    let failures = reconciled(&[service(&[]), second()]);
    assert_eq!(failures.iter().map(|(subject, _)| subject.clone()).collect::<Vec<_>>(), [service(&[]).subject()]);
    assert_eq!(routes(&cloud).len(), 4);
}

/// What the cloud says to a tag that is there already is not known. Once it ended the pass for all of the cluster.
#[test]
fn a_tag_that_somebody_makes_at_that_moment_is_given_all_the_same() {
    let no = |status, message: &str| Reply::json(status, json!({ "id": "x", "message": message }).to_string());
    for (status, message) in
        [(409, "it exists"), (422, "tag name is already taken"), (422, "it exists"), (400, "it exists")]
    {
        let cloud = FakeCloud::new().on(LIST, many(&[balancer("lb-1")])).on(TAG, not_found());
        let cloud = cloud.on(MAKE, no(status, message)).on(TAG, Reply::status(204));
        assert_eq!(reconciled(&[service(&[])]), [], "{status} {message}");
        assert_eq!(routes(&cloud), [LIST, TAG, MAKE, TAG]);
    }
    let _cloud = FakeCloud::new()
        .on(LIST, many(&[balancer("lb-1")]))
        .on(TAG, not_found())
        .on(MAKE, no(422, "it cannot be"))
        .on(TAG, not_found());
    let failures = reconciled(&[service(&[])]);
    assert!(failures.len() == 1 && failures[0].1.message.contains("it cannot be"), "{failures:?}");
}
