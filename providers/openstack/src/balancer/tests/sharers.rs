//! Load balancers that several Services share under the Go manager: each gets its UID tag, whichever comes first.

use super::*;

const PUT: &str = "load-balancer PUT /lbaas/loadbalancers/lb-1";

fn tag_of(name: &str) -> String {
    format!("kube_service_kubernetes_default_{name}")
}

fn uid_of(name: &str) -> String {
    format!("kubernetes.io/service-uid/uid-{name}")
}

/// As the Go manager left it: with the ID, and the address in its status.
fn sharer(name: &str, port: u16) -> Service {
    let mut sharer = Service { name: name.to_owned(), uid: format!("uid-{name}"), ..settled(&[]) };
    for own in &mut sharer.ports {
        own.port = port;
    }
    sharer
}

/// That of the first, with these tags.
fn shared(tags: &[String]) -> Value {
    with(balancer(), json!({ "name": tag_of("a"), "tags": tags }))
}

/// A listener of each. Those without a UID differ from what their Services ask for: the tags come with the change.
fn listeners_of(names: &[&str], has_uid: impl Fn(&str) -> bool) -> Vec<Value> {
    let one = |(port, name): (u16, &&str)| {
        let mut tags = vec![tag_of(name)];
        tags.extend(has_uid(name).then(|| uid_of(name)));
        let (id, pool) = (format!("listener-{name}"), format!("pool-{name}"));
        let limit = if has_uid(name) { -1 } else { 7 };
        let own = json!({ "id": id, "protocol_port": port, "default_pool_id": pool, "tags": tags, "connection_limit": limit });
        with(listener(), own)
    };
    (80..).zip(names).map(one).collect()
}

fn pools_of(names: &[&str]) -> Vec<Value> {
    let one = |name: &&str| {
        let listeners = json!([{ "id": format!("listener-{name}") }]);
        let own = format!("pool_0_{}", tag_of(name));
        with(pool(), json!({ "id": format!("pool-{name}"), "name": own, "listeners": listeners }))
    };
    names.iter().map(one).collect()
}

fn mark_of(service: &Service) -> (String, Option<String>) {
    let mark = mark(&usual(), &host(), service).expect("asked").expect("it is there");
    (mark.load_balancer, mark.uid)
}

fn of(id: &str, uid: Option<&str>) -> (String, Option<String>) {
    (id.to_owned(), uid.map(str::to_owned))
}

#[test]
fn who_shares_under_the_go_manager_keeps_the_load_balancer_and_its_address_in_whatever_order() {
    for (names, order) in [
        (&["a", "b"][..], &["a", "b"][..]),
        (&["a", "b"], &["b", "a"]),
        (&["a", "b", "c"], &["a", "b", "c"]),
        (&["a", "b", "c"], &["c", "b", "a"]),
        (&["a", "b", "c"], &["b", "c", "a"]),
    ] {
        let mut tags: Vec<String> = names.iter().map(|name| tag_of(name)).collect();
        let mut migrated: Vec<&str> = vec![];
        for name in order {
            let case = format!("{name} of {order:?}");
            let port = (80..).zip(names).find(|(_, other)| *other == name).map(|(port, _)| port).expect("one of them");
            let service = sharer(name, port);
            let own = format!("uid-{name}");
            let listeners = listeners_of(names, |name| migrated.contains(&name));
            let cloud = cloud_of(&shared(&tags), &listeners, &pools_of(names), &[member(1), member(2)])
                .on(PUT, Reply::json(200, "{}"));
            // The one that it was made for is found as before, as long as nobody has a UID: by whoever has a copy of its ID as well.
            let expected = match *name == "a" && migrated.is_empty() {
                true => of("lb-1", None),
                false => of(&format!("lb-1/{own}"), Some(&own)),
            };
            assert_eq!(mark_of(&service), expected, "{case}");
            let done = run(&service);
            assert_eq!(reaction(&done), Reaction::Pending, "{case}: {:?}", done.outcome.failure);
            tags.push(uid_of(name));
            assert_eq!(writes(&cloud), [(PUT.to_owned(), json!({ "loadbalancer": { "tags": tags } }))], "{case}");
            // Then its listener.
            let line = format!("load-balancer PUT /lbaas/listeners/listener-{name}");
            let cloud = cloud_of(&shared(&tags), &listeners, &pools_of(names), &[member(1), member(2)])
                .on(&line, Reply::json(200, "{}"));
            run(&service);
            let expected = json!({ "listener": { "tags": [tag_of(name), uid_of(name)], "connection_limit": -1 } });
            assert_eq!(writes(&cloud), [(line, expected)], "{case}");
            // It has the address that it had.
            migrated.push(name);
            let listeners = listeners_of(names, |name| migrated.contains(&name));
            let cloud = cloud_of(&shared(&tags), &listeners, &pools_of(names), &[member(1), member(2)]);
            assert_eq!(mark_of(&service), of("lb-1", Some(&own)), "{case}");
            let done = run(&service);
            assert_eq!(done.outcome.failure, None, "{case}");
            assert_eq!((ips(&done), written(&cloud)), (vec!["203.0.113.7"], vec![]), "{case}");
        }
    }
}

#[test]
fn who_is_no_sharer_gets_of_a_shared_load_balancer_what_it_got_before() {
    let all = [tag_of("a"), tag_of("b")];
    let with_uids = |uids: &[&str]| -> Vec<String> {
        all.iter().cloned().chain(uids.iter().map(|uid| format!("kubernetes.io/service-uid/{uid}"))).collect()
    };
    let copy = |name: &str| Service { ingress: vec![], ..sharer(name, 81) };
    let elsewhere = Service { ingress: vec![Ingress::ip("203.0.113.99")], annotations: vec![], ..sharer("b", 81) };
    let elsewhere = Service { annotations: vec![(names::ID.to_owned(), "lb-1".to_owned())], ..elsewhere };
    for (case, tags, listener_has_uid, service, mark, is_refused) in [
        ("a namesake, without a status", with_uids(&["uid-a"]), false, copy("b"), of("lb-1", Some("uid-a")), true),
        ("a namesake with its own", with_uids(&["uid-a"]), false, elsewhere, of("lb-1", Some("uid-a")), true),
        ("all have UIDs", with_uids(&["uid-a", "other"]), true, sharer("b", 81), of("lb-1", Some("uid-a")), true),
        ("one UID for each", with_uids(&["uid-a", "other"]), false, sharer("b", 81), of("lb-1", Some("uid-a")), true),
        // A Service was restored under another name, and its old name stays.
        (
            "none of its listeners is left",
            with_uids(&["uid-a"]),
            true,
            sharer("b", 81),
            of("lb-1", Some("uid-a")),
            true,
        ),
        ("a copy with another name", with_uids(&["uid-a"]), false, sharer("d", 82), of("lb-1", Some("uid-a")), false),
        ("a copy, nobody has a UID", with_uids(&[]), false, sharer("d", 82), of("lb-1", None), false),
        ("a namesake, nobody has a UID", with_uids(&[]), false, copy("b"), of("lb-1", None), false),
    ] {
        let listeners = listeners_of(&["a", "b"], |name| listener_has_uid || name == "a");
        let cloud =
            cloud_of(&shared(&tags), &listeners, &pools_of(&["a", "b"]), &[member(1), member(2)]).on(PUT, accepted());
        assert_eq!(mark_of(&service), mark, "{case}");
        if is_refused {
            assert_eq!((reaction(&run(&service)), written(&cloud)), (Reaction::Conflict, vec![]), "{case}");
        }
    }
}

/// A copy asks who has the ID: one of those that share it must be found by it.
#[test]
fn one_of_the_sharers_has_the_load_balancer_itself_where_the_one_that_it_was_made_for_is_gone() {
    // What people write there is no Service, whatever it begins with.
    let tags = ["a-persons".to_owned(), tag_of("b"), tag_of("c")];
    let listeners = listeners_of(&["b", "c"], |_| false);
    let _cloud = cloud_of(&shared(&tags), &listeners, &pools_of(&["b", "c"]), &[]);
    assert_eq!(mark_of(&sharer("b", 80)), of("lb-1", None));
    assert_eq!(mark_of(&sharer("c", 81)), of("lb-1/uid-c", Some("uid-c")));
}

#[test]
fn a_restored_sharer_still_takes_over_what_its_former_self_had() {
    let tags = [tag_of("a"), tag_of("b"), uid_of("a"), uid_of("former")];
    let mut listeners = listeners_of(&["a", "b"], |_| true);
    listeners[1]["tags"] = json!([tag_of("b"), uid_of("former")]);
    let cloud = cloud_of(&shared(&tags), &listeners, &pools_of(&["a", "b"]), &[member(1), member(2)])
        .on(PUT, Reply::json(200, "{}"));
    let more = vec![("taken-over".to_owned(), "uid-former".to_owned())];
    assert_eq!(reaction(&run(&Service { more, ..sharer("b", 81) })), Reaction::Pending);
    let expected = [tag_of("a"), tag_of("b"), uid_of("a"), uid_of("b")];
    assert_eq!(writes(&cloud)[0].1["loadbalancer"]["tags"], json!(expected));
}

/// Otherwise its name would stay, and the load balancer with it.
#[test]
fn a_sharer_that_goes_before_it_has_its_tag_claims_it_first() {
    let tags = [tag_of("a"), tag_of("b"), uid_of("a")];
    let listeners = listeners_of(&["a", "b"], |name| name == "a");
    let cloud = cloud_of(&shared(&tags), &listeners, &pools_of(&["a", "b"]), &[]).on(PUT, Reply::json(200, "{}"));
    delete(&usual(), &host(), &sharer("b", 81));
    let expected = [tag_of("a"), tag_of("b"), uid_of("a"), uid_of("b")];
    assert_eq!(writes(&cloud), [(PUT.to_owned(), json!({ "loadbalancer": { "tags": expected } }))]);
}

/// What is known of the listeners of one is not taken for those of the other: its node port came into the pool of the first.
#[test]
fn who_shares_and_cannot_be_as_asked_leaves_the_pools_of_the_other_alone() {
    let (a, b) = (sharer("a", 80), sharer("b", 80));
    let tags = [tag_of("a"), tag_of("b"), uid_of("a"), uid_of("b")];
    let listeners = listeners_of(&["a"], |_| true);
    let line = "load-balancer PUT /lbaas/pools/pool-a/members";
    let cloud = cloud_of(&shared(&tags), &listeners, &pools_of(&["a"]), &[member(1), member(2)]).on(line, accepted());
    assert_eq!(update_backends(&usual(), &host(), &a, &nodes()).outcome.failure, None);
    let mut b = b;
    b.ports[0].node_port = Some(31_999);
    b.annotations.push((names::SOURCE_RANGES.to_owned(), "everybody".to_owned()));
    for call in [ensure, update_backends] {
        let done = call(&usual(), &host(), &b, &nodes());
        assert_eq!(written(&cloud), Vec::<String>::new(), "{:?}", done.outcome.failure);
        later(&cloud);
    }
}

/// The subnet and the health check port of members are believed for an hour: those of the Service that was compared.
#[test]
fn what_is_believed_of_the_members_of_one_is_not_believed_of_the_other() {
    let tags = [tag_of("a"), tag_of("b"), uid_of("a"), uid_of("b")];
    let (names, listeners) = (["a", "b"], listeners_of(&["a", "b"], |_| true));
    let odd = with(member(2), json!({ "subnet_id": "subnet-9" }));
    let line = "load-balancer PUT /lbaas/pools/pool-b/members";
    let cloud = cloud_of(&shared(&tags), &listeners, &pools_of(&names), &[member(1), member(2)])
        .on("load-balancer GET /lbaas/pools/pool-b/members", many("members", &[member(1), odd.clone()]))
        .on("load-balancer GET /lbaas/pools/pool-b/members", many("members", &[member(1), odd]))
        .on(line, accepted());
    assert_eq!(run(&sharer("a", 80)).outcome.failure, None);
    run(&sharer("b", 81));
    assert_eq!(written(&cloud), [line]);
}

#[test]
fn of_two_that_leave_each_has_its_own_steps() {
    let tags = [tag_of("a"), tag_of("b"), tag_of("c"), uid_of("a"), uid_of("b"), uid_of("c")];
    let listeners = listeners_of(&["a", "b", "c"], |_| true);
    let gone = |thing: &str| format!("load-balancer DELETE /lbaas/{thing}");
    let lines = ["listeners/listener-a", "listeners/listener-b", "pools/pool-b"].map(gone);
    let cloud = cloud_of(&shared(&tags), &listeners, &pools_of(&["a", "b", "c"]), &[]);
    let cloud = lines.iter().fold(cloud, |cloud, line| cloud.on(line, Reply::status(204)));
    delete(&usual(), &host(), &sharer("a", 80));
    later(&cloud);
    for _ in 0..2 {
        delete(&usual(), &host(), &sharer("b", 81));
        later(&cloud);
    }
    assert_eq!(written(&cloud), lines);
}

#[test]
fn members_of_one_that_were_compared_do_not_spare_those_of_the_other() {
    use ccm_sdk::load_balancer_survey::{Standing, Wish};
    let tags = [tag_of("a"), tag_of("b"), uid_of("a"), uid_of("b")];
    let listeners = listeners_of(&["a", "b"], |_| true);
    let cloud = cloud_of(&shared(&tags), &listeners, &pools_of(&["a", "b"]), &[member(1), member(2)])
        .on(LIST, many("loadbalancers", &[shared(&tags)]))
        .on(LIST, many("loadbalancers", &[shared(&tags)]))
        .on(TREE, tree(&listeners, &[member(1), member(2)]))
        .on(TREE, tree(&listeners, &[member(1), member(9)]));
    let stand = |service: Service| {
        let wishes = [Wish { service, backends: vec![0, 1] }];
        survey(&usual(), &host(), &nodes(), &wishes).expect("surveyed").remove(0).0
    };
    assert!(matches!(stand(sharer("a", 80)), Standing::InStep(_)));
    // A start reads few trees.
    cloud.pass(61);
    let standing = stand(sharer("b", 81));
    assert!(matches!(standing, Standing::Differs(_)), "{standing:?}");
}
