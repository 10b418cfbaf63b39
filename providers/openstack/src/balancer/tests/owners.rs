//! Whose a load balancer is, and who shares it.

use super::strangers::until_quiet;
use super::*;

fn other_uid() -> Value {
    with(balancer(), json!({ "tags": [NAME, "kubernetes.io/service-uid/another"] }))
}

/// Both clusters have the default name, and a Service of the same name.
#[test]
fn os_206_two_clusters_with_one_name_have_a_load_balancer_each() {
    let made = Reply::json(201, json!({ "loadbalancer": with(balancer(), json!({ "id": "lb-2" })) }).to_string());
    let cloud = FakeCloud::new()
        .with_credential("session-token")
        .on(LIST, many("loadbalancers", &[]))
        .on(LIST, many("loadbalancers", &[other_uid()]))
        .on(POST, made);
    let done = run(&service(&[]));
    assert_eq!((reaction(&done), annotated(&done, names::ID)), (Reaction::Pending, Some("lb-2")));
    assert_eq!(written(&cloud), [POST], "os_206");
    // With a copy the ID came along.
    let cloud = cloud_of(&other_uid(), &[listener()], &[pool()], &[]);
    let done = run(&service(&[(names::ID, "lb-1")]));
    assert_eq!((reaction(&done), written(&cloud)), (Reaction::Conflict, vec![]), "os_206");
    assert!(message(&done).contains("another"), "{}", message(&done));
}

#[test]
fn one_of_the_go_manager_is_taken_over_where_the_service_leads_to_it_and_else_left_alone() {
    let unmarked = with(balancer(), json!({ "tags": [NAME] }));
    let go = with(listener(), json!({ "tags": [NAME] }));
    let put = "load-balancer PUT /lbaas/loadbalancers/lb-1";
    // By the ID that it wrote.
    let cloud = cloud_of(&unmarked, &[go], &[pool()], &[member(1), member(2)]);
    let done = run(&settled(&[]));
    assert_eq!((done.outcome.failure, written(&cloud)), (None, vec![]));
    // By the address in the status.
    let mut without = service(&[]);
    let lists = |floating: &[Value]| {
        FakeCloud::new()
            .with_credential("session-token")
            .on(LIST, many("loadbalancers", &[]))
            .on(LIST, many("loadbalancers", std::slice::from_ref(&unmarked)))
            .always(FLOATING, many("floatingips", floating))
            .always(LISTENERS, many("listeners", &[]))
            .always(POOLS, many("pools", &[]))
            .on(put, Reply::json(200, "{}"))
    };
    without.ingress = vec![Ingress::ip("203.0.113.7")];
    let cloud = lists(&[floating()]);
    run(&without);
    assert_eq!(written(&cloud), [put]);
    // By nothing but the name: it may be that of another cluster.
    without.ingress.clear();
    let cloud = lists(&[floating()]);
    let done = run(&without);
    assert_eq!((reaction(&done), written(&cloud)), (Reaction::Conflict, vec![]));
    assert!(message(&done).contains(names::ID), "{}", message(&done));
}

/// A migration writes nothing. The tags with the UID come with the first change: that of the load balancer before it, and then all others.
#[test]
fn one_of_the_go_manager_gets_its_tags_with_its_first_change() {
    let put = "load-balancer PUT /lbaas/loadbalancers/lb-1";
    let put_listener = "load-balancer PUT /lbaas/listeners/listener-1";
    let a = "kube_service_kubernetes_default_a";
    let of_a =
        with(listener(), json!({ "id": "listener-a", "protocol_port": 81, "default_pool_id": null, "tags": [a] }));
    let (marked, unmarked) = (json!([NAME, UID]), json!([NAME]));
    let tags_of_balancer = json!({ "loadbalancer": { "tags": marked } });
    let with_uid = |others: Value| {
        let mut all = others;
        all.as_array_mut().expect("tags").push(json!(UID));
        all
    };
    for (case, balancer_tags, listener_tags, limit, expected) in [
        ("nothing differs", unmarked.clone(), unmarked.clone(), -1, None),
        ("nothing differs, and it is shared", json!([NAME, a]), unmarked.clone(), -1, None),
        ("it changes", unmarked.clone(), unmarked.clone(), 7, Some((put, tags_of_balancer))),
        (
            "it changes, and it is shared",
            json!([NAME, a]),
            unmarked.clone(),
            7,
            Some((put, json!({ "loadbalancer": { "tags": with_uid(json!([NAME, a])) } }))),
        ),
        (
            "its listeners follow",
            marked.clone(),
            unmarked.clone(),
            -1,
            Some((put_listener, json!({ "listener": { "tags": marked } }))),
        ),
        // Not even the Go manager has tagged it.
        ("it has no tags", json!([]), json!([]), -1, Some((put, json!({ "loadbalancer": { "tags": marked } })))),
    ] {
        let balancer = with(balancer(), json!({ "tags": balancer_tags }));
        let own = with(listener(), json!({ "tags": listener_tags, "connection_limit": limit }));
        let shared = balancer_tags.as_array().is_some_and(|tags| tags.contains(&json!(a)));
        let listeners = if shared { vec![own, of_a.clone()] } else { vec![own] };
        let mut cloud = cloud_of(&balancer, &listeners, &[pool()], &[member(1), member(2)]);
        if let Some((line, _)) = expected {
            cloud = cloud.on(line, Reply::json(200, "{}"));
        }
        let done = run(&settled(&[]));
        let expected: Vec<_> = expected.into_iter().map(|(line, body)| (line.to_owned(), body)).collect();
        assert_eq!(writes(&cloud), expected, "{case}");
        assert_eq!(done.outcome.failure.is_none(), expected.is_empty(), "{case}: {:?}", done.outcome.failure);
    }
}

#[test]
fn one_with_the_name_of_old_go_managers_is_the_services_since_the_name_has_its_uid() {
    let mut published = service(&[]);
    published.uid = "7b9c1a52-07f2-4b5e-9d5c-2f0c5e1d9a11".to_owned();
    published.ingress = vec![Ingress::ip("203.0.113.7")];
    let old = with(balancer(), json!({ "name": "a7b9c1a5207f24b5e9d5c2f0c5e1d9a1", "tags": [] }));
    let put = "load-balancer PUT /lbaas/loadbalancers/lb-1";
    let uid = format!("kubernetes.io/service-uid/{}", published.uid);
    let go = with(listener(), json!({ "tags": [] }));
    let lists = || {
        cloud_of(&old, std::slice::from_ref(&go), &[pool()], &[member(1), member(2)])
            .on(LIST, many("loadbalancers", &[]))
            .on(LIST, many("loadbalancers", &[]))
            .on(LIST, many("loadbalancers", std::slice::from_ref(&old)))
    };
    let cloud = lists().on(put, Reply::json(200, "{}"));
    let done = run(&published);
    assert_eq!(annotated(&done, names::ID), Some("lb-1"));
    assert_eq!(writes(&cloud), [(put.to_owned(), json!({ "loadbalancer": { "tags": [NAME, uid] } }))]);
    let asked: Vec<_> = cloud.lines().into_iter().filter(|line| line.starts_with(&format!("{LIST}?"))).collect();
    assert!(asked[2].contains("name=a7b9c1a5207f24b5e9d5c2f0c5e1d9a1"), "{asked:?}");
    // It goes with its Service.
    let gone = "load-balancer DELETE /lbaas/loadbalancers/lb-1";
    let cloud = lists().on(gone, Reply::status(204)).on("network DELETE /floatingips/fip-1", Reply::status(204));
    assert_eq!(reaction(&delete(&usual(), &host(), &published)), Reaction::Pending);
    assert_eq!(written(&cloud).last().map(String::as_str), Some(gone));
}

#[test]
fn os_103_to_107_a_port_that_another_service_has_is_a_conflict() {
    let of = |tags: &[&str]| with(listener(), json!({ "tags": tags }));
    let shared = with(
        balancer(),
        json!({ "name": "kube_service_kubernetes_default_owner", "tags": [NAME, UID, "kube_service_kubernetes_default_owner"] }),
    );
    let other = "kube_service_kubernetes_default_owner";
    for (case, balancer, listener, conflict) in [
        ("os_103", &shared, of(&[NAME, UID]), false),
        ("os_104", &shared, of(&[other]), true),
        ("os_105", &balancer(), of(&[]), false),
        ("os_106", &balancer(), of(&[NAME, UID]), false),
        ("os_107", &shared, with(of(&[other]), json!({ "protocol": "UDP" })), false),
        ("os_107", &shared, with(of(&[other]), json!({ "protocol_port": 81 })), false),
        ("Q12", &shared, with(of(&[other]), json!({ "protocol": "TERMINATED_HTTPS" })), true),
    ] {
        let _cloud = cloud_of(balancer, &[listener], &[pool()], &[member(1), member(2)]);
        let done = run(&settled(&[]));
        let failure = done.outcome.failure.as_ref();
        let found = failure.is_some_and(|failure| failure.message.contains("the listener port 80 already exists"));
        assert_eq!(found, conflict, "{case}: {failure:?}");
    }
}

#[test]
fn os_157_160_161_163_a_load_balancer_is_shared_by_as_many_as_may_and_one_of_a_person_is_used() {
    let put = "load-balancer PUT /lbaas/loadbalancers/lb-1";
    let named = |tags: &[&str], name: &str| with(balancer(), json!({ "tags": tags, "name": name }));
    let (a, b) = ("kube_service_kubernetes_default_a", "kube_service_kubernetes_default_b");
    for (case, balancer, annotations, expected) in [
        ("os_157", named(&[a], a), vec![], Ok(json!([a, NAME, UID]))),
        ("os_160", named(&[b], a), vec![], Ok(json!([b, NAME, UID]))),
        ("os_161", named(&[a, b], a), vec![], Err(Reaction::Conflict)),
        ("os_163", named(&[], "mine"), vec![], Ok(json!([NAME, UID]))),
        ("an internal one cannot", named(&[a], a), vec![(names::INTERNAL, "true")], Err(Reaction::Invalid)),
    ] {
        let cloud = cloud_of(&balancer, &[], &[], &[]).on(put, Reply::json(200, "{}"));
        let mut service = service(&annotations);
        service.annotations.push((names::ID.to_owned(), "lb-1".to_owned()));
        let done = run(&service);
        match expected {
            Ok(tags) => assert_eq!(writes(&cloud)[0].1["loadbalancer"]["tags"], tags, "{case}"),
            Err(expected) => {
                assert_eq!((reaction(&done), written(&cloud)), (expected, vec![]), "{case}");
                if case == "an internal one cannot" {
                    let said = message(&done);
                    assert!(said.contains("share load balancer lb-1") && said.contains(names::ID), "{said}");
                }
            }
        }
    }
}

/// The port of a Service is that of another one: it waits, and neither it nor its deletion leaves a trace.
#[test]
fn os_161_who_waits_for_a_port_has_no_tag_and_leaves_nothing() {
    let a = "kube_service_kubernetes_default_a";
    let of_a = with(listener(), json!({ "tags": [a] }));
    let others = with(balancer(), json!({ "name": a, "tags": [a] }));
    let mut service = service(&[(names::ID, "lb-1")]);
    for (case, most, words) in [
        ("os_161", 2, "the listener port 80 already exists"),
        (
            "os_161",
            1,
            "already shared with 1 Services; max-shared-lb is 1: raise it in [LoadBalancer], or remove annotation loadbalancer.openstack.org/load-balancer-id",
        ),
    ] {
        let mut config = usual();
        config.balancers.most_shared = most;
        let cloud = cloud_of(&others, std::slice::from_ref(&of_a), &[pool()], &[member(1), member(2)]);
        let done = ensure(&config, &host(), &service, &nodes());
        assert_eq!((reaction(&done), written(&cloud)), (Reaction::Conflict, vec![]), "{case}");
        assert!(message(&done).contains(words), "{}", message(&done));
        assert!(ips(&done).is_empty(), "{case}");
        later(&cloud);
        let done = delete(&config, &host(), &service);
        assert_eq!((done.outcome.failure, written(&cloud)), (None, vec![]), "{case}: {:?}", cloud.lines());
    }
    // Its own port is not in the way.
    service.ports = vec![port(81, 30_081)];
    let put = "load-balancer PUT /lbaas/loadbalancers/lb-1";
    let cloud = cloud_of(&others, &[of_a], &[pool()], &[member(1), member(2)]).on(put, Reply::json(200, "{}"));
    assert_eq!((reaction(&run(&service)), written(&cloud)), (Reaction::Pending, vec![put.to_owned()]));
}

#[test]
fn where_none_may_share_no_service_joins_another() {
    let mut config = usual();
    config.balancers.most_shared = 0;
    let mine = with(balancer(), json!({ "tags": [], "name": "mine" }));
    for (case, balancer, conflict) in [("of a person", mine, true), ("its own", balancer(), false)] {
        let cloud = cloud_of(&balancer, &[listener()], &[pool()], &[member(1), member(2)]);
        let done = ensure(&config, &host(), &settled(&[]), &nodes());
        let failure = done.outcome.failure.as_ref();
        assert_eq!(failure.is_some_and(|failure| failure.message.contains("max-shared-lb is 0")), conflict, "{case}");
        assert_eq!(written(&cloud), Vec::<String>::new(), "{case}");
    }
}

#[test]
fn a_mark_says_whose_it_is_and_who_shares_has_one_of_its_own() {
    let mark_of = |balancer: &Value, service: &Service| {
        let _cloud = cloud_of(balancer, &[], &[], &[]);
        mark(&usual(), &host(), service).expect("asked").map(|mark| (mark.load_balancer, mark.uid))
    };
    let some = |id: &str, uid: Option<&str>| Some((id.to_owned(), uid.map(str::to_owned)));
    let with_id = service(&[(names::ID, "lb-1")]);
    let others =
        with(balancer(), json!({ "tags": ["kube_service_kubernetes_default_a", "kubernetes.io/service-uid/uid-a"] }));
    assert_eq!(mark_of(&balancer(), &with_id), some("lb-1", Some("uid-test")));
    assert_eq!(
        mark_of(&with(balancer(), json!({ "tags": [NAME] })), &with_id),
        some("lb-1", None),
        "of the Go manager"
    );
    assert_eq!(mark_of(&other_uid(), &with_id), some("lb-1", Some("another")), "restored, or of a namesake");
    assert_eq!(mark_of(&others, &with_id), some("lb-1/uid-test", Some("uid-test")), "to be shared");
    assert_eq!(mark_of(&others, &settled(&[])), some("lb-1", Some("uid-a")), "a copy has the address as well");
    assert_eq!(mark_of(&balancer(), &service(&[])), None);
}

#[test]
fn a_restored_service_takes_over_what_its_former_self_had() {
    let put = "load-balancer PUT /lbaas/loadbalancers/lb-1";
    let mut service = service(&[(names::ID, "lb-1"), (names::ADDRESS, "203.0.113.7")]);
    service.more = vec![("taken-over".to_owned(), "another".to_owned())];
    let of_former = with(listener(), json!({ "tags": [NAME, "kubernetes.io/service-uid/another"] }));
    let cloud =
        cloud_of(&other_uid(), &[of_former], &[pool()], &[member(1), member(2)]).on(put, Reply::json(200, "{}"));
    assert_eq!(reaction(&run(&service)), Reaction::Pending);
    assert_eq!(writes(&cloud)[0].1["loadbalancer"]["tags"], json!([NAME, UID]));
}

#[test]
fn os_199_who_shares_and_follows_nodes_changes_members_and_no_monitor() {
    let a = "kube_service_kubernetes_default_a";
    let shared = with(balancer(), json!({ "name": a, "tags": [a, NAME, UID] }));
    let watched = with(pool(), json!({ "healthmonitor_id": "hm-1" }));
    let monitor = json!({ "id": "hm-1", "name": format!("monitor_0_{NAME}"), "type": "TCP", "delay": 9, "timeout": 3,
                          "max_retries": 1, "max_retries_down": 3 });
    let cloud = cloud_of(&shared, &[listener()], &[watched], &[member(1)])
        .always("load-balancer GET /lbaas/healthmonitors/hm-1", one("healthmonitor", &monitor))
        .on("load-balancer PUT /lbaas/pools/pool-1/members", accepted());
    let cloud = cloud.on("load-balancer PUT /lbaas/healthmonitors/hm-1", Reply::json(200, "{}"));
    let service = settled(&[(names::MONITOR, "true")]);
    until_quiet(&cloud, || update_backends(&usual(), &host(), &service, &nodes()));
    assert_eq!(written(&cloud), ["load-balancer PUT /lbaas/pools/pool-1/members"], "os_199");
    // A call for the whole Service does.
    let cloud = cloud.on("load-balancer GET /lbaas/pools/pool-1/members", many("members", &[member(1), member(2)]));
    run(&service);
    assert!(written(&cloud).contains(&"load-balancer PUT /lbaas/healthmonitors/hm-1".to_owned()), "os_199");
}

#[test]
fn services_on_one_load_balancer_have_a_lock_in_common() {
    let locks_of = |service: &Service| locks(&usual(), &host(), service);
    let other = Service { name: "other".to_owned(), ..settled(&[]) };
    assert_eq!(locks_of(&settled(&[])), ["id lb-1".to_owned(), format!("name {NAME}")]);
    assert_eq!(locks_of(&other)[0], "id lb-1");
}

/// The host selects, as Kubernetes does: it refuses what no label can be.
#[test]
fn os_076_to_082_nodes_that_have_all_labels_are_members() {
    fn matching(selector: &str) -> Result<Vec<String>, String> {
        let wrong = selector.split(',').find(|pair| pair.matches('=').count() > 1 || pair.starts_with('='));
        if let Some(wrong) = wrong {
            return Err(format!("{wrong:?} is no value of a label"));
        }
        let has = |labels: &[(&str, &str)]| {
            selector.split(',').all(|pair| match pair.split_once('=') {
                Some(pair) => labels.contains(&pair),
                None => labels.iter().any(|(key, _)| *key == pair),
            })
        };
        let nodes = [
            ("both", &[("k1", "v1"), ("k2", "v2")][..]),
            ("other", &[("k1", "v1"), ("k2", "v3")]),
            ("one", &[("k1", "v1"), ("k3", "v3")]),
        ];
        Ok(nodes.iter().filter(|(_, labels)| has(labels)).map(|(name, _)| (*name).to_owned()).collect())
    }
    let host = Host { matching, ..host() };
    let named = |name: &str| Backend { name: name.to_owned(), ..node(1) };
    let backends = ["both", "other", "one"].map(named);
    for (case, selector, expected) in [
        ("os_076", "k3=v3", vec!["one"]),
        ("os_076", "k3=v3,=emptykey", vec![]),
        ("os_077", "", vec!["both", "other", "one"]),
        ("os_078", "k1=v1,k2=v2", vec!["both"]),
        ("os_079", "k1=v1,k2=v2=true", vec![]),
        ("os_080", "k1,k2", vec!["both", "other"]),
        ("os_081", " k1=v1, k2 ", vec!["both", "other"]),
        ("os_082", "k9=v9", vec![]),
    ] {
        let (config, service) = (usual(), service(&[(names::NODE_SELECTOR, selector)]));
        let (work, _) = Work::read(&config, &host, &service);
        let chosen = work.chosen(&backends).expect("known");
        assert_eq!(chosen.iter().map(|backend| backend.name.as_str()).collect::<Vec<_>>(), expected, "{case}");
    }
    // The Service is not refused for it, as it is not by the Go manager.
    let cloud = whole().on("load-balancer PUT /lbaas/pools/pool-1/members", accepted());
    let done = ensure(&usual(), &host, &settled(&[(names::NODE_SELECTOR, "k2=v2=true")]), &backends);
    assert_eq!(reaction(&done), Reaction::Pending);
    assert_eq!(writes(&cloud)[0].1, json!({ "members": [] }), "os_079");
    assert!(done.warnings.iter().any(|(_, message)| message.contains("no Node can have")), "{:?}", done.warnings);
}

/// The Go manager renames whatever a Service leads to, also what is another cluster's.
#[test]
fn another_name_of_the_cluster_is_told_to_what_has_the_services_uid() {
    let old = "kube_service_old_default_test";
    let tags = |value: Value| with(value, json!({ "tags": [old, UID] }));
    let named = |value: Value, name: String| with(value, json!({ "name": name }));
    let lb = named(tags(balancer()), old.to_owned());
    let of_lb = named(tags(listener()), format!("listener_0_{old}"));
    let watched = with(named(pool(), format!("pool_0_{old}")), json!({ "healthmonitor_id": "hm-1" }));
    let monitor = json!({ "id": "hm-1", "name": format!("monitor_0_{old}"), "type": "TCP", "delay": 5, "timeout": 3,
                          "max_retries": 1, "max_retries_down": 3 });
    let lines = ["loadbalancers/lb-1", "pools/pool-1", "healthmonitors/hm-1", "listeners/listener-1"]
        .map(|line| format!("load-balancer PUT /lbaas/{line}"));
    let cloud = lines.iter().fold(cloud_of(&lb, &[of_lb], &[watched], &[member(1), member(2)]), |cloud, line| {
        cloud.on(line, Reply::json(200, "{}"))
    });
    let cloud = cloud.always("load-balancer GET /lbaas/healthmonitors/hm-1", one("healthmonitor", &monitor));
    let service = settled(&[(names::MONITOR, "true")]);
    for _ in 0..4 {
        let done = run(&service);
        assert_eq!(reaction(&done), Reaction::Pending, "{}", message(&done));
        assert_eq!(done.warnings[0].0, "LoadBalancerRename");
        later(&cloud);
    }
    let name = |part: &str| json!(format!("{part}{NAME}"));
    let all = writes(&cloud);
    assert_eq!(all.iter().map(|(line, _)| line.clone()).collect::<Vec<_>>(), lines);
    assert_eq!(all[0].1["loadbalancer"], json!({ "name": NAME, "tags": [UID, NAME] }));
    assert_eq!(all[1].1["pool"], json!({ "name": name("pool_0_") }));
    assert_eq!(all[2].1["healthmonitor"]["name"], name("monitor_0_"));
    assert_eq!(all[3].1["listener"], json!({ "name": name("listener_0_"), "tags": [UID, NAME] }));
    // It is the Service's alone, under either name: it goes whole.
    let gone = ["network DELETE /floatingips/fip-1", "load-balancer DELETE /lbaas/loadbalancers/lb-1"];
    let described = "Floating IP for Kubernetes external service default/test from cluster old (UID uid-test)";
    let cloud = gone.iter().fold(cloud_of(&lb, &[], &[], &[]), |cloud, line| cloud.on(line, Reply::status(204)));
    let cloud = cloud.on(FLOATING, many("floatingips", &[with(floating(), json!({ "description": described }))]));
    delete(&usual(), &host(), &service);
    assert_eq!(written(&cloud), gone);
    // What leads to another cluster's by its ID renames nothing.
    let others = with(lb, json!({ "tags": [old, "kubernetes.io/service-uid/another"] }));
    let of_lb_of_others = named(
        with(listener(), json!({ "tags": [old, "kubernetes.io/service-uid/another"], "protocol_port": 81 })),
        format!("listener_0_{old}"),
    );
    let pool_of_others = named(pool(), format!("pool_0_{old}"));
    let cloud = lines.iter().fold(cloud_of(&others, &[of_lb_of_others], &[pool_of_others], &[]), |cloud, line| {
        cloud.on(line, Reply::json(200, "{}"))
    });
    let cloud = cloud.on("load-balancer POST /lbaas/pools", Reply::json(201, "{}"));
    until_quiet(&cloud, || run(&settled(&[])));
    assert!(!written(&cloud).iter().any(|line| lines[1..].contains(line)), "os_206: {:?}", written(&cloud));
    assert!(writes(&cloud).iter().all(|(_, body)| body["loadbalancer"].get("name").is_none()), "os_206");
}

#[test]
fn members_of_one_that_is_not_there_are_refused_with_its_name_and_what_to_do() {
    let absent = || FakeCloud::new().with_credential("session-token").always(LIST, many("loadbalancers", &[]));
    let said = |annotations: &[(&str, &str)]| {
        let _cloud = absent();
        let done = update_backends(&usual(), &host(), &service(annotations), &nodes());
        assert_eq!(reaction(&done), Reaction::Conflict);
        message(&done).to_owned()
    };
    let sound = said(&[]);
    assert!(sound.contains(NAME) && sound.contains("made when the Service is next ensured"), "{sound}");
    let wrong = said(&[(names::TIMEOUT_CLIENT_DATA, "-5")]);
    assert!(wrong.contains(NAME) && wrong.contains("correct the Service first"), "{wrong}");
}

#[test]
fn a_floating_ip_that_only_the_owner_may_have_names_the_load_balancer_and_the_owner() {
    let a = "kube_service_kubernetes_default_a";
    let others = with(balancer(), json!({ "name": a, "tags": [a, NAME, UID, "kubernetes.io/service-uid/uid-a"] }));
    let _cloud = cloud_of(&others, &[listener()], &[pool()], &[member(1), member(2)])
        .on(FLOATING, many("floatingips", &[]))
        .on(FLOATING, many("floatingips", &[]));
    let done = run(&service(&[(names::ID, "lb-1")]));
    let said = message(&done);
    assert!(said.contains("load balancer lb-1 for the shared Service default/test"), "{said}");
    assert!(said.ends_with("set the floating IP on the owner, default/a"), "{said}");
}
