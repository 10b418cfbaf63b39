//! One that goes, or is given up.

use super::strangers::until_quiet;
use super::*;

const DELETE: &str = "load-balancer DELETE /lbaas/loadbalancers/lb-1";
const RELEASE: &str = "network DELETE /floatingips/fip-1";

fn delete(service: &Service) -> Done {
    super::super::delete(&usual(), &host(), service)
}

fn state(status: &str) -> Value {
    with(balancer(), json!({ "provisioning_status": status }))
}

fn gone(cloud: FakeCloud) -> FakeCloud {
    cloud.on(DELETE, Reply::status(204)).on(RELEASE, Reply::status(204))
}

#[test]
fn os_164_it_goes_with_its_floating_ip_and_is_waited_for_by_nobody() {
    let cloud = gone(whole());
    let done = delete(&settled(&[]));
    assert_eq!(
        (reaction(&done), written(&cloud)),
        (Reaction::Pending, vec![RELEASE.to_owned(), DELETE.to_owned()]),
        "os_164"
    );
    assert!(cloud.lines().iter().any(|line| *line == format!("{DELETE}?cascade=true")));
    let cloud = FakeCloud::new()
        .with_credential("session-token")
        .always(GET, not_found())
        .always(LIST, many("loadbalancers", &[]))
        .always(FLOATING, many("floatingips", &[]))
        .always("network GET /security-groups", many("security_groups", &[]));
    let done = delete(&settled(&[]));
    assert_eq!(done.outcome.failure, None);
    assert_eq!(done.outcome.annotations, [(names::ID.to_owned(), None), (names::ADDRESS.to_owned(), None)]);
    assert_eq!(written(&cloud), Vec::<String>::new());
}

/// The Go manager waited for six minutes for one that had gone into ERROR, and all other Services with it.
#[test]
fn os_182_one_in_error_is_deleted_and_deleted_again_and_one_that_goes_is_looked_at() {
    for (case, status, expected) in [
        ("os_182", "ERROR", vec![RELEASE, DELETE]),
        ("os_182", "PENDING_DELETE", vec![]),
        ("Q39", "PENDING_UPDATE", vec![]),
        ("gone", "DELETED", vec![]),
    ] {
        let cloud = gone(cloud_of(&state(status), &[], &[], &[]));
        let done = delete(&settled(&[]));
        assert_eq!(written(&cloud), expected, "{case}");
        assert_eq!(done.outcome.failure.is_none(), status == "DELETED", "{case}");
    }
}

#[test]
fn os_183_200_what_is_left_of_one_that_was_deleted_by_hand_goes() {
    let group = json!({ "id": "sg-1", "name": "lb-sg-uid-test-default-test", "security_group_rules": [] });
    let free = with(floating(), json!({ "port_id": null }));
    let cloud = FakeCloud::new()
        .with_credential("session-token")
        .always(GET, not_found())
        .always(LIST, many("loadbalancers", &[]))
        .always(FLOATING, many("floatingips", &[free]))
        .always("network GET /security-groups", many("security_groups", &[group]))
        .always("network GET /ports", many("ports", &[]))
        .on(RELEASE, Reply::status(204))
        .on("network DELETE /security-groups/sg-1", Reply::status(204));
    assert_eq!(delete(&settled(&[])).outcome.failure, None);
    assert_eq!(written(&cloud), [RELEASE, "network DELETE /security-groups/sg-1"], "os_183 os_200");
}

#[test]
fn os_184_a_floating_ip_of_somebody_else_or_to_be_kept_is_not_deleted() {
    let mine = with(floating(), json!({ "description": "mine" }));
    for (case, floating, annotations) in
        [("os_184", mine, vec![]), ("kept", floating(), vec![(names::KEEP_FLOATING_IP, "true")])]
    {
        let cloud = gone(whole()).on(FLOATING, many("floatingips", &[floating]));
        delete(&settled(&annotations));
        assert_eq!(written(&cloud), [DELETE], "{case}");
    }
}

/// The Go manager's floating IPs have no UID.
#[test]
fn what_the_go_manager_left_goes_where_the_service_had_its_address() {
    let go = "Floating IP for Kubernetes external service default/test from cluster kubernetes";
    let left = |changes: Value| with(with(floating(), json!({ "description": go, "port_id": null })), changes);
    for (case, floating, service, expected) in [
        ("it was its address", left(json!({})), settled(&[]), vec![RELEASE]),
        ("it is to be kept", left(json!({})), settled(&[(names::KEEP_FLOATING_IP, "true")]), vec![]),
        ("it is on a port", left(json!({ "port_id": "port-9" })), settled(&[]), vec![]),
        ("it may be a namesake's", left(json!({ "floating_ip_address": "203.0.113.8" })), settled(&[]), vec![]),
    ] {
        let is_told = case == "it may be a namesake's";
        let cloud = FakeCloud::new()
            .with_credential("session-token")
            .always(GET, not_found())
            .always(LIST, many("loadbalancers", &[]))
            .always(FLOATING, many("floatingips", &[floating]))
            .always("network GET /security-groups", many("security_groups", &[]))
            .on(RELEASE, Reply::status(204));
        let done = delete(&service);
        assert_eq!((done.outcome.failure.is_none(), written(&cloud)), (true, own(&expected)), "{case}");
        let told: Vec<_> = done.warnings.iter().map(|(reason, _)| *reason).collect();
        assert_eq!(told, if is_told { vec!["LoadBalancerNotDeleted"] } else { vec![] }, "{case}");
        let asked = cloud.lines().iter().any(|line| {
            line.contains("from%20cluster%20kubernetes%20%28UID%20uid-test%29&")
                && line.contains("from%20cluster%20kubernetes&")
        });
        assert!(asked || service.annotation(names::KEEP_FLOATING_IP).is_some(), "{:?}", cloud.lines());
    }
}

fn own(lines: &[&str]) -> Vec<String> {
    lines.iter().map(|&line| line.to_owned()).collect()
}

/// The Go manager deletes all that any manager of any cluster has made. Its descriptions keep the name that the cluster had then: people are told
/// of what may be the Service's.
#[test]
fn os_184_what_was_made_for_another_service_or_another_cluster_is_not_deleted() {
    let start = "Floating IP for Kubernetes external service";
    let a = "kube_service_kubernetes_default_a";
    let of = |description: &str| with(floating(), json!({ "description": description }));
    let heir = with(balancer(), json!({ "name": a }));
    for (case, balancer, description, goes) in [
        ("of the Go manager", balancer(), format!("{start} default/test from cluster kubernetes"), true),
        ("os_184 of another Service", balancer(), format!("{start} default/a from cluster kubernetes"), false),
        ("os_184 of another cluster", balancer(), format!("{start} default/test from cluster b"), false),
        ("os_184 of a namesake", balancer(), format!("{start} default/test from cluster kubernetes (UID u)"), false),
        ("os_184 of people", balancer(), format!("{start}, mine"), false),
        (
            "of the owner that has gone",
            heir.clone(),
            format!("{start} default/a from cluster kubernetes (UID u)"),
            true,
        ),
        ("os_184 of the owner in another cluster", heir.clone(), format!("{start} default/a from cluster b"), false),
        ("os_184 of a third Service", heir, format!("{start} default/b from cluster kubernetes"), false),
    ] {
        let cloud = gone(cloud_of(&balancer, &[listener()], &[pool()], &[]))
            .on(FLOATING, many("floatingips", &[of(&description)]));
        let done = delete(&settled(&[]));
        let expected = if goes { vec![RELEASE, DELETE] } else { vec![DELETE] };
        assert_eq!(written(&cloud), own(&expected), "{case}");
        let told: Vec<_> = done.warnings.iter().map(|(reason, _)| *reason).collect();
        let is_told = case.ends_with("another cluster");
        assert_eq!(told, if is_told { vec!["LoadBalancerNotDeleted"] } else { vec![] }, "{case}: {:?}", done.warnings);
    }
}

#[test]
fn os_159_162_194_who_leaves_a_shared_one_takes_its_listeners_and_its_tags() {
    let a = "kube_service_kubernetes_default_a";
    let put = "load-balancer PUT /lbaas/loadbalancers/lb-1";
    let other =
        with(listener(), json!({ "id": "listener-9", "tags": [a], "default_pool_id": "pool-9", "protocol_port": 81 }));
    let old = with(listener(), json!({ "id": "listener-2", "protocol_port": 8888, "default_pool_id": null }));
    let pool_9 = with(
        pool(),
        json!({ "id": "pool-9", "name": "pool_0_kube_service_kubernetes_default_a", "listeners": [{ "id": "listener-9" }] }),
    );
    for (case, balancer, listeners, tags) in [
        (
            "os_159",
            with(balancer(), json!({ "name": a, "tags": [a, NAME, UID] })),
            vec![listener(), old.clone(), other.clone()],
            json!([a]),
        ),
        ("os_162", with(balancer(), json!({ "tags": [a, NAME, UID] })), vec![listener(), old, other], json!([a])),
        ("os_194", with(balancer(), json!({ "name": "mine", "tags": [NAME, UID] })), vec![listener()], json!([])),
    ] {
        let mut cloud = cloud_of(&balancer, &listeners, &[pool(), pool_9.clone()], &[]).on(put, Reply::json(200, "{}"));
        for line in ["listeners/listener-1", "listeners/listener-2", "pools/pool-1"] {
            cloud = cloud.on(&format!("load-balancer DELETE /lbaas/{line}"), Reply::status(204));
        }
        for _ in 0..listeners.len().min(2) + 2 {
            delete(&settled(&[]));
            later(&cloud);
        }
        let all = writes(&cloud);
        let (last, body) = all.last().expect("written");
        assert_eq!((last.as_str(), &body["loadbalancer"]["tags"]), (put, &tags), "{case}: {all:?}");
        assert!(!all.iter().any(|(line, _)| line.contains("-9") || line == DELETE), "{case}: {all:?}");
        assert_eq!(all.len(), listeners.len().min(2) + 2, "{case}: {all:?}");
    }
    // The last one takes all along, with what was made for the owner that has gone.
    let heir = with(balancer(), json!({ "name": a }));
    let of_owner = "Floating IP for Kubernetes external service default/a from cluster kubernetes (UID uid-a)";
    let cloud = gone(cloud_of(&heir, &[listener()], &[pool()], &[]))
        .on(FLOATING, many("floatingips", &[with(floating(), json!({ "description": of_owner }))]));
    delete(&settled(&[]));
    assert_eq!(written(&cloud), [RELEASE, DELETE], "os_162");
}

/// The Go manager takes off its own tag alone when a Service leaves.
#[test]
fn a_uid_that_a_service_left_behind_keeps_no_load_balancer() {
    let left = "kubernetes.io/service-uid/left";
    let a = "kube_service_kubernetes_default_a";
    let of = |tags: &[&str]| with(listener(), json!({ "id": "listener-9", "tags": tags, "default_pool_id": "pool-9" }));
    for (case, tags, listeners, goes) in [
        ("nothing of it is left", vec![NAME, UID, left], vec![listener()], true),
        ("a name stands beside it", vec![NAME, UID, left, a], vec![listener()], false),
        ("a listener has it", vec![NAME, UID, left], vec![listener(), of(&[a, left])], false),
        ("a listener of a namesake", vec![NAME, UID, left], vec![listener(), of(&[NAME, left])], false),
        ("a listener of the Go manager", vec![NAME, UID, left], vec![listener(), of(&[a])], false),
    ] {
        let balancer = with(balancer(), json!({ "tags": tags }));
        let cloud = gone(cloud_of(&balancer, &listeners, &[pool()], &[]))
            .on("load-balancer DELETE /lbaas/listeners/listener-1", Reply::status(204))
            .on("load-balancer DELETE /lbaas/pools/pool-1", Reply::status(204))
            .on("load-balancer PUT /lbaas/loadbalancers/lb-1", Reply::json(200, "{}"));
        assert_eq!(reaction(&delete(&settled(&[]))), Reaction::Pending, "{case}");
        later(&cloud);
        until_quiet(&cloud, || delete(&settled(&[])));
        let expected = match goes {
            true => vec![RELEASE, DELETE],
            false => vec![
                "load-balancer DELETE /lbaas/listeners/listener-1",
                "load-balancer DELETE /lbaas/pools/pool-1",
                "load-balancer PUT /lbaas/loadbalancers/lb-1",
            ],
        };
        assert_eq!(written(&cloud)[..expected.len()], expected, "{case}: {:?}", written(&cloud));
        // Only what was deleted already is asked for again, of an answer that does not change.
        assert!(!written(&cloud)[expected.len()..].iter().any(|line| !expected.contains(&line.as_str())), "{case}");
        // Nor does it keep one in ERROR from being made anew.
        let broken = with(balancer, json!({ "provisioning_status": "ERROR" }));
        let cloud = gone(cloud_of(&broken, &listeners, &[pool()], &[]));
        run(&settled(&[(names::RECREATE, "true")]));
        assert_eq!(written(&cloud), if goes { vec![DELETE] } else { vec![] }, "{case}");
    }
}

#[test]
fn one_that_only_its_name_leads_to_stays_and_is_named_with_the_way_out() {
    let unmarked = with(balancer(), json!({ "tags": [NAME] }));
    let cloud = || {
        whole().on(LIST, many("loadbalancers", &[])).on(LIST, many("loadbalancers", std::slice::from_ref(&unmarked)))
    };
    let elsewhere = Service { ingress: vec![Ingress::ip("203.0.113.99")], ..service(&[]) };
    for (case, service) in [("without a status", service(&[])), ("with another address", elsewhere)] {
        let cloud = cloud();
        let done = delete(&service);
        assert_eq!((done.outcome.failure.clone(), written(&cloud)), (None, vec![]), "{case}");
        let [(reason, message)] = &done.warnings[..] else { panic!("{case}: {:?}", done.warnings) };
        assert_eq!(*reason, "LoadBalancerNotDeleted", "{case}");
        assert!(message.contains("openstack loadbalancer delete --cascade lb-1"), "{case}: {message}");
    }
    // One that the address leads to goes, and its ID is noted: without the floating IP nothing would lead there again.
    let cloud = gone(cloud());
    let done = delete(&Service { ingress: vec![Ingress::ip("203.0.113.7")], ..service(&[]) });
    assert_eq!(written(&cloud), [RELEASE, DELETE]);
    assert_eq!((reaction(&done), annotated(&done, names::ID)), (Reaction::Pending, Some("lb-1")));
}

#[test]
fn os_165_one_that_is_not_there_is_not_there() {
    let _cloud = FakeCloud::new().with_credential("session-token").always(LIST, many("loadbalancers", &[]));
    assert_eq!(get(&usual(), &host(), &service(&[])), Ok(None), "os_165");
    let _cloud = whole();
    let found = get(&usual(), &host(), &settled(&[])).expect("asked").expect("there");
    assert_eq!(found[0].ip.as_deref(), Some("203.0.113.7"));
}

#[test]
fn one_that_is_given_up_has_neither_name_nor_tags_afterwards() {
    let put = "load-balancer PUT /lbaas/listeners/listener-1";
    let last = "load-balancer PUT /lbaas/loadbalancers/lb-1";
    let cloud = whole().on(put, Reply::json(200, "{}")).on(last, Reply::json(200, "{}"));
    for _ in 0..2 {
        assert_eq!(reaction(&orphan(&usual(), &host(), &settled(&[]))), Reaction::Pending);
        later(&cloud);
    }
    assert_eq!(
        writes(&cloud),
        [
            (put.to_owned(), json!({ "listener": { "tags": [] } })),
            (last.to_owned(), json!({ "loadbalancer": { "name": "released-lb-1", "tags": [] } })),
        ]
    );
    let released = with(balancer(), json!({ "name": "released-lb-1", "tags": [] }));
    let cloud = cloud_of(&released, &[with(listener(), json!({ "tags": [] }))], &[pool()], &[]);
    assert_eq!(orphan(&usual(), &host(), &settled(&[])).outcome.failure, None);
    assert_eq!(written(&cloud), Vec::<String>::new());
}

/// Without its ID on the Service, nothing but the tag leads to it; and it may come back from there, in ERROR.
#[test]
fn one_that_is_on_its_way_out_is_waited_for_also_where_only_its_tag_leads_to_it() {
    let nothing = || FakeCloud::new().with_credential("session-token").always(FLOATING, many("floatingips", &[]));
    let cloud = nothing()
        .on(LIST, many("loadbalancers", &[state("PENDING_DELETE")]))
        .on(LIST, many("loadbalancers", &[state("ERROR")]))
        .on(DELETE, Reply::status(204))
        .always(LISTENERS, many("listeners", &[]))
        .always(LIST, many("loadbalancers", &[]))
        .always("network GET /security-groups", many("security_groups", &[]));
    for expected in [vec![], vec![DELETE]] {
        assert_eq!(reaction(&delete(&service(&[]))), Reaction::Pending);
        assert_eq!(written(&cloud), expected);
    }
    assert_eq!(delete(&service(&[])).outcome.failure, None);
    // One that does not end keeps no other.
    let new = with(balancer(), json!({ "id": "lb-2", "created_at": "2026-11-21T10:00:00" }));
    let gone = "load-balancer DELETE /lbaas/loadbalancers/lb-2";
    let cloud = nothing()
        .on(LIST, many("loadbalancers", &[state("PENDING_DELETE"), new]))
        .always(LISTENERS, many("listeners", &[]))
        .on(gone, Reply::status(204));
    assert_eq!(reaction(&delete(&service(&[]))), Reaction::Pending);
    assert_eq!(written(&cloud), [gone]);
    // It is not released before it is gone either.
    let _cloud = nothing().on(LIST, many("loadbalancers", &[state("PENDING_DELETE")]));
    assert_eq!(reaction(&orphan(&usual(), &host(), &service(&[]))), Reaction::Pending);
}

#[test]
fn what_was_asked_for_without_an_answer_is_waited_for_before_nothing_is_left() {
    let lost = Reply::lost(ccm_sdk::http::TransportReason::Timeout, true);
    let cloud = FakeCloud::new()
        .with_credential("session-token")
        .always(LIST, many("loadbalancers", &[]))
        .always(FLOATING, many("floatingips", &[]))
        .always("network GET /security-groups", many("security_groups", &[]))
        .on(POST, lost);
    run(&service(&[]));
    let release = |service: &Service| orphan(&usual(), &host(), service);
    for (passed, expected) in [(0, Some(Reaction::Pending)), (59, Some(Reaction::Pending)), (2, None)] {
        cloud.pass(passed);
        for done in [delete(&service(&[])), release(&service(&[]))] {
            assert_eq!(done.outcome.failure.map(|failure| failure.reaction), expected, "after {passed} s more");
        }
    }
}

/// Somebody has come between two calls, or is no Service at all: a cascade would take that along.
#[test]
fn one_with_a_listener_that_is_not_the_services_stays_whatever_its_tags_say() {
    let gone_listener = "load-balancer DELETE /lbaas/listeners/listener-1";
    let (gone_pool, put) = ("load-balancer DELETE /lbaas/pools/pool-1", "load-balancer PUT /lbaas/loadbalancers/lb-1");
    for (case, tags) in [
        ("another Service", json!(["kube_service_kubernetes_default_b", "kubernetes.io/service-uid/uid-b"])),
        ("a namesake", json!([NAME, "kubernetes.io/service-uid/uid-b"])),
        ("a person", json!(["mine"])),
    ] {
        let other = with(
            listener(),
            json!({ "id": "listener-9", "protocol_port": 81, "tags": tags, "default_pool_id": "pool-9" }),
        );
        let cloud = gone(cloud_of(&balancer(), &[listener(), other.clone()], &[pool()], &[]))
            .on(gone_listener, Reply::status(204));
        let cloud = cloud.on(gone_pool, Reply::status(204)).on(put, Reply::json(200, "{}"));
        assert_eq!(reaction(&delete(&settled(&[]))), Reaction::Pending, "{case}");
        later(&cloud);
        until_quiet(&cloud, || delete(&settled(&[])));
        assert_eq!(written(&cloud)[..], [gone_listener, gone_pool, put], "{case}");
        // Nor is it made anew.
        let broken = state("ERROR");
        let cloud = gone(cloud_of(&broken, &[listener(), other.clone()], &[pool()], &[]));
        run(&settled(&[(names::RECREATE, "true")]));
        assert_eq!(written(&cloud), Vec::<String>::new(), "{case}");
        // When all that is the Service's is off it, that is told.
        let left = with(balancer(), json!({ "tags": [] }));
        let _cloud = cloud_of(&left, &[other], &[], &[]);
        let done = delete(&settled(&[]));
        assert_eq!(done.outcome.failure, None, "{case}");
        assert_eq!(done.warnings.iter().map(|(reason, _)| *reason).collect::<Vec<_>>(), ["LoadBalancerNotDeleted"]);
    }
}

/// To another account it is missing too. The ID is not the only thing that says that there was one.
#[test]
fn that_there_is_none_any_more_needs_proof_where_there_was_one() {
    let host = Host { provider_ids: |_| Ok(vec!["openstack:///server-1".to_owned()]), ..host() };
    let absent = Reply::json(404, r#"{"itemNotFound": {"code": 404, "message": "no"}}"#);
    let cloud = FakeCloud::new()
        .with_credential("session-token")
        .always(GET, not_found())
        .always(LIST, many("loadbalancers", &[]))
        .always(FLOATING, many("floatingips", &[]))
        .always("compute GET /servers/server-1", absent);
    let published = Service { ingress: vec![Ingress::ip("203.0.113.7")], ..service(&[]) };
    let noted = service(&[(names::ADDRESS, "203.0.113.7")]);
    for (case, service) in [("the ID", settled(&[])), ("the status", published), ("the address", noted)] {
        assert_eq!(reaction(&super::super::delete(&usual(), &host, &service)), Reaction::Retry, "{case}");
        assert_eq!(reaction(&ensure(&usual(), &host, &service, &nodes())), Reaction::Retry, "{case}");
        assert!(get(&usual(), &host, &service).is_err(), "{case}");
    }
    assert_eq!(written(&cloud), Vec::<String>::new());
    // One that never had one needs none.
    assert_eq!(get(&usual(), &host, &service(&[])), Ok(None));
}

/// The Go manager notes no ID where it fails on the way.
#[test]
fn one_that_only_the_address_leads_to_is_given_up_too() {
    let last = "load-balancer PUT /lbaas/loadbalancers/lb-1";
    let unmarked = with(balancer(), json!({ "tags": [NAME] }));
    let lists = |unmarked: &[Value]| {
        cloud_of(&balancer(), &[], &[], &[])
            .on(LIST, many("loadbalancers", &[]))
            .on(LIST, many("loadbalancers", unmarked))
            .on(last, Reply::json(200, "{}"))
    };
    let published = |address: &str| Service { ingress: vec![Ingress::ip(address)], ..service(&[]) };
    let cloud = lists(std::slice::from_ref(&unmarked));
    assert_eq!(reaction(&orphan(&usual(), &host(), &published("203.0.113.7"))), Reaction::Pending);
    assert_eq!(writes(&cloud)[0].1["loadbalancer"], json!({ "name": "released-lb-1", "tags": [] }));
    // One of a namesake in another cluster is not.
    let cloud = lists(&[unmarked]);
    assert_eq!(orphan(&usual(), &host(), &published("203.0.113.99")).outcome.failure, None);
    assert_eq!(written(&cloud), Vec::<String>::new());
}

/// What would not be made again is not deleted.
#[test]
fn one_in_error_is_not_deleted_while_the_service_cannot_be_made() {
    let broken = with(balancer(), json!({ "provisioning_status": "ERROR" }));
    let absent =
        Reply::json(404, json!({ "code": 404, "description": "Secret not found.", "title": "Not Found" }).to_string());
    for (case, wrong) in [
        ("ranges that are none", (names::SOURCE_RANGES, "everybody")),
        ("a certificate that is not there", (names::TLS_CONTAINER, "https://kms/v1/secrets/s-1")),
    ] {
        let service = settled(&[(names::RECREATE, "true"), wrong]);
        for call in [ensure, update_backends] {
            let cloud = cloud_of(&broken, &[], &[], &[]).always("key-manager GET /secrets/s-1", absent.clone());
            let done = call(&usual(), &host(), &service, &nodes());
            assert_eq!(written(&cloud), Vec::<String>::new(), "{case}");
            assert!(done.outcome.failure.is_some(), "{case}");
        }
    }
}
