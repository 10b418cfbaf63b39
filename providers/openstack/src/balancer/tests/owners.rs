//! Whose a load balancer is, and who shares it.

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
    let cloud = cloud_of(&unmarked, &[go], &[pool()], &[member(1), member(2)]).on(put, Reply::json(200, "{}"));
    assert_eq!(reaction(&run(&settled(&[]))), Reaction::Pending);
    assert_eq!(writes(&cloud), [(put.to_owned(), json!({ "loadbalancer": { "tags": [NAME, UID] } }))]);
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
            Err(expected) => assert_eq!((reaction(&done), written(&cloud)), (expected, vec![]), "{case}"),
        }
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
    let monitor = json!({ "id": "hm-1", "name": format!("monitor_0_{NAME}"), "type": "TCP", "delay": 5, "timeout": 3,
                          "max_retries": 1, "max_retries_down": 3 });
    let cloud = cloud_of(&shared, &[listener()], &[watched], &[member(1)])
        .always("load-balancer GET /lbaas/healthmonitors/hm-1", one("healthmonitor", &monitor))
        .on("load-balancer PUT /lbaas/pools/pool-1/members", accepted());
    update_backends(&usual(), &host(), &settled(&[(names::MONITOR, "true")]), &nodes());
    assert_eq!(written(&cloud), ["load-balancer PUT /lbaas/pools/pool-1/members"], "os_199");
}

#[test]
fn services_on_one_load_balancer_have_a_lock_in_common() {
    let locks_of = |service: &Service| locks(&usual(), &host(), service);
    let other = Service { name: "other".to_owned(), ..settled(&[]) };
    assert_eq!(locks_of(&settled(&[])), ["id lb-1".to_owned(), format!("name {NAME}")]);
    assert_eq!(locks_of(&other)[0], "id lb-1");
}

/// The host selects, as Kubernetes does.
#[test]
fn os_078_to_082_nodes_that_have_all_labels_are_members() {
    fn matching(selector: &str) -> Result<Vec<String>, String> {
        let has = |labels: &[(&str, &str)]| {
            selector.split(',').all(|pair| match pair.split_once('=') {
                Some(pair) => labels.contains(&pair),
                None => labels.iter().any(|(key, _)| *key == pair),
            })
        };
        let nodes = [
            ("both", &[("k1", "v1"), ("k2", "v2")][..]),
            ("strange", &[("k1", "v1"), ("k2", "v2=true")]),
            ("one", &[("k1", "v1")]),
        ];
        Ok(nodes.iter().filter(|(_, labels)| has(labels)).map(|(name, _)| (*name).to_owned()).collect())
    }
    let host = Host { matching, ..host() };
    let named = |name: &str| Backend { name: name.to_owned(), ..node(1) };
    let backends = ["both", "strange", "one"].map(named);
    for (case, selector, expected) in [
        ("os_078", "k1=v1,k2=v2", vec!["both"]),
        ("os_079", "k1=v1,k2=v2=true", vec!["strange"]),
        ("os_080", "k1,k2", vec!["both", "strange"]),
        ("os_081", " k1=v1, k2 ", vec!["both", "strange"]),
        ("os_082", "k3=v3", vec![]),
    ] {
        let (config, service) = (usual(), service(&[(names::NODE_SELECTOR, selector)]));
        let (work, _) = Work::read(&config, &host, &service);
        let chosen = work.chosen(&backends).expect("known");
        assert_eq!(chosen.iter().map(|backend| backend.name.as_str()).collect::<Vec<_>>(), expected, "{case}");
    }
}
