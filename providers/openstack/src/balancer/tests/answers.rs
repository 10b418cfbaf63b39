//! Clouds that answer more than was asked for, or name things by nothing.

use super::*;

/// Some providers of Octavia show what they have deleted, and an old one knows no filter.
#[test]
fn what_a_list_has_besides_is_nobodys() {
    let another = "kubernetes.io/service-uid/another";
    let gone = json!({ "provisioning_status": "DELETED" });
    // By the tag first, by the name then.
    for (case, by_tag, by_name) in [
        ("deleted, with the tag", Some(with(balancer(), gone.clone())), None),
        ("without the tag", Some(with(balancer(), json!({ "tags": ["mine"] }))), None),
        ("deleted, with the name", None, Some(with(balancer(), with(gone, json!({ "tags": [] }))))),
        ("another name", None, Some(with(balancer(), json!({ "tags": [], "name": "mine" })))),
        ("the name, and the UID of another", None, Some(with(balancer(), json!({ "tags": [NAME, another] })))),
    ] {
        let some = |found: &Option<Value>| many("loadbalancers", &found.clone().into_iter().collect::<Vec<_>>());
        let lists = || {
            FakeCloud::new()
                .with_credential("session-token")
                .on(LIST, some(&by_tag))
                .on(LIST, some(&by_name))
                .always(LIST, many("loadbalancers", &[]))
                .always(FLOATING, many("floatingips", &[]))
                .always("network GET /security-groups", many("security_groups", &[]))
        };
        // It was published there once, and nobody wrote its ID down.
        let mut published = service(&[]);
        published.ingress = vec![Ingress::ip("10.1.0.100")];
        let cloud = lists();
        let done = delete(&usual(), &host(), &published);
        assert_eq!((done.outcome.failure, written(&cloud)), (None, vec![]), "{case}");
        assert_eq!(done.warnings, [], "{case}");
        // A new one is made, whatever is in the lists.
        let made = with(balancer(), json!({ "id": "lb-2", "provisioning_status": "PENDING_CREATE" }));
        let cloud = lists().on(POST, Reply::json(201, json!({ "loadbalancer": made }).to_string()));
        let done = run(&service(&[]));
        assert_eq!((annotated(&done, names::ID), written(&cloud)), (Some("lb-2"), vec![POST.to_owned()]), "{case}");
    }
}

#[test]
fn a_monitor_without_an_id_is_none() {
    let make = "load-balancer POST /lbaas/healthmonitors";
    let pool = with(pool(), json!({ "healthmonitor_id": "" }));
    for (watched, expected) in [("true", vec![make]), ("false", vec![])] {
        let cloud = cloud_of(&balancer(), &[listener()], std::slice::from_ref(&pool), &[member(1), member(2)])
            .always("load-balancer GET /lbaas/healthmonitors/", not_found())
            .on(make, Reply::json(201, "{}"));
        run(&settled(&[(names::MONITOR, watched)]));
        assert_eq!(written(&cloud), expected, "{watched}");
    }
}

/// A path without an ID is that of the list of all.
#[test]
fn a_listener_without_a_pool_leads_to_no_members() {
    let bare = with(listener(), json!({ "id": "listener-0", "protocol_port": 8000, "default_pool_id": null }));
    let there = with(member(1), json!({ "subnet_id": "subnet-of-the-class" }));
    let line = "load-balancer PUT /lbaas/pools/pool-1/members";
    let cloud = cloud_of(&balancer(), &[bare, listener()], &[pool()], &[there]).on(line, accepted());
    let refused = settled(&[(names::CLASS, "removed")]);
    assert_eq!(reaction(&update_backends(&usual(), &host(), &refused, &nodes())), Reaction::Pending);
    let (wrote, body) = writes(&cloud).remove(0);
    let subnets: Vec<_> = body["members"].as_array().expect("members").iter().map(|one| &one["subnet_id"]).collect();
    assert_eq!(wrote, line);
    assert_eq!(subnets, ["subnet-of-the-class"; 2]);
    assert!(!cloud.lines().iter().any(|line| line.contains("/pools//")), "{:?}", cloud.lines());
}

/// What is harmless is told beside what is not.
#[test]
fn of_several_mistakes_the_fatal_one_refuses_and_the_others_are_told() {
    let _cloud = whole();
    let done = run(&settled(&[(names::CLASS, "none"), (names::CONNECTION_LIMIT, "many")]));
    assert_eq!(reaction(&done), Reaction::Invalid);
    assert!(message(&done).contains("invalid loadbalancer class"), "{}", message(&done));
    let told: Vec<(&str, bool)> =
        done.warnings.iter().map(|(reason, message)| (*reason, message.contains(names::CONNECTION_LIMIT))).collect();
    assert_eq!(told, [("LoadBalancerConfigIgnored", true)]);
}

/// The Go manager renames it.
#[test]
fn one_of_another_cluster_is_not_told_to_be_renamed() {
    let old = "kube_service_old_default_test";
    let of_old = with(listener(), json!({ "id": "listener-9", "protocol_port": 8000, "tags": [old] }));
    let others = with(balancer(), json!({ "name": old, "tags": [old] }));
    let cloud = cloud_of(&others, &[of_old], &[pool()], &[member(1), member(2)])
        .on("load-balancer PUT /lbaas/loadbalancers/lb-1", Reply::json(200, "{}"));
    let done = run(&settled(&[]));
    assert_eq!(writes(&cloud)[0].1, json!({ "loadbalancer": { "tags": [old, NAME, UID] } }));
    assert_eq!(done.warnings, []);
}
