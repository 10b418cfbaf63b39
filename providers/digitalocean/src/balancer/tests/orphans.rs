//! A Service gives its load balancer up, and has a new one then.

use super::*;

const UNTAG_CLUSTER: &str = "api DELETE /v2/tags/k8s%3Aours/resources";

fn ours() -> Config {
    Config { tag: Some("k8s:ours".to_owned()), ..config() }
}

fn orphan(service: &Service) -> Done {
    super::super::orphan(&ours(), service)
}

fn writes(cloud: &FakeCloud) -> Vec<String> {
    routes(cloud).into_iter().filter(|line| !line.starts_with("api GET")).collect()
}

#[test]
fn what_is_given_up_gets_another_name_and_no_tag_and_stays_as_it_is_else() {
    let own = json!({"name": "my-lb", "tags": ["x", "k8s:ours", OWN]});
    for (service, has, then) in [
        (settled_service(&[]), json!({}), vec![PUT]),
        (service(&[]), json!({"tags": ["K8S:ours"]}), vec![PUT, UNTAG_CLUSTER]),
        (known(), own.clone(), vec![PUT, UNTAG_CLUSTER, DELETE_TAG]),
        (named(), own, vec![PUT, UNTAG_CLUSTER, DELETE_TAG]),
        // Taken over by its ID, and not renamed yet.
        (known(), json!({"name": "theirs", "tags": []}), vec![]),
    ] {
        let has = changed("lb-1", has);
        let cloud = FakeCloud::new()
            .on(LIST, many(&[changed("lb-9", json!({"name": "other"})), has.clone()]))
            .on(PUT, one(&has))
            .on("api DELETE /v2/tags/K8S%3Aours/resources", Reply::status(204))
            .on(UNTAG_CLUSTER, Reply::status(204))
            .on(DELETE_TAG, Reply::status(204));
        let done = orphan(&service);
        assert_eq!((done.outcome.failure.clone(), reasons(&done)), (None, vec![]), "{has}");
        let lines: Vec<String> = writes(&cloud).iter().map(|line| line.replace("K8S", "k8s")).collect();
        assert_eq!(lines, then, "{has}");
        assert_eq!(done.outcome.changes.len(), then.len(), "{:?}", done.outcome.changes);
        let Some(_) = then.first() else { continue };
        let mut spec = body(&cloud, 1);
        assert_eq!(spec["name"], "released-lb-1");
        for field in ["type", "forwarding_rules", "health_check", "droplet_ids", "network", "network_stack"] {
            let (service_spec, had) = (spec[field].take(), &has[field]);
            match field {
                "forwarding_rules" => assert_eq!(service_spec[0]["entry_port"], had[0]["entry_port"]),
                _ => assert_eq!(service_spec, *had, "{field}"),
            }
        }
    }
}

#[test]
fn what_was_given_up_is_not_found_again() {
    for (service, name) in [(service(&[]), "aservice123"), (named(), "my-lb")] {
        let cloud = FakeCloud::new()
            .on(LIST, many(&[changed("lb-1", json!({"name": name, "tags": [OWN]}))]))
            .on(PUT, one(&balancer("lb-1")))
            .on(DELETE_TAG, Reply::status(204));
        let had = Service {
            annotations: [service.annotations.clone(), settled_service(&[]).annotations].concat(),
            ..service.clone()
        };
        assert_eq!(orphan(&had).outcome.failure, None);
        let left = changed("lb-1", json!({"name": body(&cloud, 1)["name"], "tags": []}));
        // Once more, since nobody heard of it.
        let cloud = cloud.on(LIST, many(std::slice::from_ref(&left)));
        assert_eq!(orphan(&had), Done::new());
        let cloud = cloud.on(LIST, many(std::slice::from_ref(&left))).on(POST, one(&balancer("lb-2")));
        let done = ensure(&ours(), &service, &nodes());
        assert_eq!((addresses(&done), written(&done)), (both(), vec![(names::ID, Some("lb-2"))]));
        // Nor deleted with the Service.
        let cloud = cloud.on(LIST, many(&[left]));
        assert_eq!(delete(&ours(), &service), Done::new());
        assert_eq!(deletes(&cloud), [""; 0]);
    }
}

#[test]
fn one_that_is_busy_is_given_up_later_and_one_that_cannot_be_renamed_with_a_warning() {
    let busy = Reply::json(403, r#"{"message": "Load Balancer can't be updated while it processes previous actions"}"#);
    let has = changed("lb-1", json!({"status": "new"}));
    let cloud = FakeCloud::new().on(LIST, many(&[has])).on(PUT, busy);
    assert_eq!(failure(&orphan(&settled_service(&[]))).0, Reaction::Pending);
    assert_eq!(writes(&cloud), [PUT]);
    let _cloud = FakeCloud::new().on(LIST, many(&[balancer("lb-1")])).on(PUT, Reply::status(500));
    assert_eq!(failure(&orphan(&settled_service(&[]))).0, Reaction::Retry);
    let refused = Reply::json(422, r#"{"id": "unprocessable_entity", "message": "no"}"#);
    let forbidden = || Reply::json(403, r#"{"id": "forbidden", "message": "no"}"#);
    for (name, put) in [("aservice123", refused), ("aservice123", forbidden())] {
        let has = changed("lb-1", json!({"name": name, "tags": ["k8s:ours"]}));
        let cloud = FakeCloud::new().on(LIST, many(&[has])).on(PUT, put).on(UNTAG_CLUSTER, forbidden());
        let done = orphan(&settled_service(&[]));
        assert_eq!((done.outcome.failure.clone(), reasons(&done)), (None, vec!["LoadBalancerNotReleased"]));
        assert!(["lb-1", "aservice123"].iter().all(|words| done.warnings[0].1.contains(words)), "{done:?}");
        assert_eq!(writes(&cloud), [PUT, UNTAG_CLUSTER]);
    }
}

#[test]
fn what_is_anothers_or_nobodys_business_or_not_there_is_not_touched() {
    let theirs = "wasm-ccm-service:u-2:shop:web";
    for tags in [&[theirs][..], &["k8s:theirs"], &["k8s:theirs", theirs]] {
        let has = changed("lb-1", json!({"name": "my-lb", "tags": tags}));
        for service in [named(), known(), settled_service(&[])] {
            let cloud = FakeCloud::new().on(LIST, many(std::slice::from_ref(&has)));
            assert_eq!(orphan(&service).outcome.failure, None);
            assert_eq!(writes(&cloud), [""; 0]);
        }
    }
    let _cloud = FakeCloud::new().on(LIST, many(&[])).on(GET, not_found());
    assert_eq!(orphan(&settled_service(&[])), Done::new());
    let cloud = FakeCloud::new();
    assert_eq!(failure(&orphan(&settled_service(&[(names::DISOWN, "true")]))).0, Reaction::Elsewhere);
    assert_eq!(cloud.lines(), [""; 0]);
    let _cloud = FakeCloud::new().always(LIST, Reply::status(401));
    assert_eq!(failure(&orphan(&settled_service(&[]))).0, Reaction::Unauthorized);
}

/// There the tag in the account leads to it as well, and what this process asked for.
#[test]
fn where_tags_are_untold_nothing_leads_to_it_either() {
    let untold = |name: &str| {
        let mut has = changed("lb-1", json!({"name": name}));
        has.as_object_mut().expect("an object").remove("tags");
        has
    };
    let lost = Reply::lost(ccm_sdk::http::TransportReason::Timeout, true);
    let cloud = FakeCloud::new().on(LIST, many(&[])).on(POST, lost);
    assert!(ensure(&ours(), &named(), &nodes()).outcome.failure.is_some());
    let cloud = cloud.on(LIST, many(&[untold("my-lb")])).on(PUT, one(&untold("released-lb-1")));
    let cloud = cloud.on(UNTAG_CLUSTER, Reply::status(204)).on(DELETE_TAG, Reply::status(204));
    assert_eq!(orphan(&named()).outcome.failure, None);
    assert_eq!(writes(&cloud)[1..], [PUT, UNTAG_CLUSTER, DELETE_TAG]);
    // Another Service's may have the name now.
    let look = "api GET /v2/tags/wasm-ccm-service%3Aservice-123%3Adefault%3Atest";
    let _cloud = cloud.on(LIST, many(&[untold("my-lb")])).on(look, not_found());
    assert_eq!(failure(&ensure(&ours(), &named(), &nodes())).0, Reaction::Conflict);
}
