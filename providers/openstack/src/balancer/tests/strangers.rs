//! What is others' on a load balancer that a Service uses: it stays as it is, through all calls that follow each other.

use super::*;

const PUT: &str = "load-balancer PUT /lbaas/loadbalancers/lb-1";
const POOL: &str = "load-balancer POST /lbaas/pools";
const A: &str = "kube_service_kubernetes_default_a";

fn gone(thing: &str) -> String {
    format!("load-balancer DELETE /lbaas/{thing}")
}

/// Calls of one kind until one of them does not wait, or nothing more is written.
pub(super) fn until_quiet(cloud: &FakeCloud, call: impl Fn() -> Done) -> Done {
    let mut before = 0;
    loop {
        let done = call();
        let now = written(cloud).len();
        let waits = done.outcome.failure.as_ref().is_some_and(|failure| failure.reaction == Reaction::Pending);
        if !waits || now == before {
            return done;
        }
        before = now;
        later(cloud);
    }
}

/// Everything can be deleted, and answers nothing to it.
fn deletes_all(cloud: FakeCloud, things: &[&str]) -> FakeCloud {
    things.iter().fold(cloud, |cloud, thing| cloud.on(&gone(thing), Reply::status(204)))
}

/// Of a person: without tags, on port 8443, with a pool.
fn untagged(changes: Value) -> Value {
    let bare =
        json!({ "id": "listener-9", "name": "theirs", "protocol_port": 8443, "tags": [], "default_pool_id": "pool-9" });
    with(with(listener(), bare), changes)
}

fn pool_of(id: &str, name: &str, listeners: &[&str]) -> Value {
    let listeners: Vec<Value> = listeners.iter().map(|id| json!({ "id": id })).collect();
    with(pool(), json!({ "id": id, "name": name, "listeners": listeners }))
}

#[test]
fn os_163_a_person_keeps_an_untagged_listener_with_its_pool_and_the_floating_ip_while_a_service_comes_and_goes() {
    let mine = |tags: &[&str]| with(balancer(), json!({ "name": "mine", "tags": tags }));
    let theirs = pool_of("pool-9", "theirs", &["listener-9"]);
    let address = with(floating(), json!({ "description": "mine" }));
    let all = ["listeners/listener-1", "listeners/listener-9", "pools/pool-1", "pools/pool-9", "loadbalancers/lb-1"];
    let cloud = |tags: &[&str], listeners: &[Value]| {
        let cloud = cloud_of(&mine(tags), listeners, &[pool(), theirs.clone()], &[member(1), member(2)])
            .always(FLOATING, many("floatingips", std::slice::from_ref(&address)))
            .on(PUT, Reply::json(200, "{}"));
        let cloud = cloud.on("network DELETE /floatingips/fip-1", Reply::status(204));
        deletes_all(cloud, &all).on("load-balancer PUT /lbaas/listeners/listener-9", Reply::json(200, "{}"))
    };
    // It stays: the address is the person's, and so is the listener.
    let there = cloud(&[NAME, UID], &[listener(), untagged(json!({}))]);
    let done = until_quiet(&there, || run(&settled(&[])));
    assert_eq!((done.outcome.failure.clone(), ips(&done)), (None, vec!["203.0.113.7"]));
    assert_eq!(written(&there), Vec::<String>::new(), "os_163");
    // On the Service's own port it is in the way, and is not taken.
    let in_the_way = cloud(&[NAME, UID], &[untagged(json!({ "protocol_port": 80 }))]);
    let done = until_quiet(&in_the_way, || run(&settled(&[])));
    assert_eq!((reaction(&done), written(&in_the_way)), (Reaction::Conflict, vec![]), "os_163");
    assert!(message(&done).contains("listener listener-9 is another's"), "{}", message(&done));
    // It goes, and only what is the Service's goes along.
    let leaving = cloud(&[NAME, UID], &[untagged(json!({})), listener()]);
    until_quiet(&leaving, || delete(&usual(), &host(), &settled(&[])));
    let tags = json!({ "loadbalancer": { "tags": [] } });
    let expected =
        [(gone("listeners/listener-1"), Value::Null), (gone("pools/pool-1"), Value::Null), (PUT.to_owned(), tags)];
    assert_eq!(writes(&leaving)[..], expected, "os_163");
}

/// It would lose the address that clients of the others have.
#[test]
fn who_shares_a_load_balancer_does_not_make_it_internal_and_its_address_stays() {
    let internal = settled(&[(names::INTERNAL, "true")]);
    for (case, name, tags) in [
        ("its owner, with one more", NAME, vec![NAME, UID, A]),
        ("one more, with its owner", A, vec![A, NAME, UID]),
        ("the heir of an owner that has gone", A, vec![NAME, UID]),
    ] {
        let lb = with(balancer(), json!({ "name": name, "tags": tags }));
        let cloud = cloud_of(&lb, &[listener()], &[pool()], &[member(1), member(2)])
            .on("network DELETE /floatingips/fip-1", Reply::status(204))
            .on("network PUT /floatingips/fip-1", Reply::json(200, "{}"));
        let done = until_quiet(&cloud, || run(&internal));
        assert_eq!((reaction(&done), written(&cloud)), (Reaction::Invalid, vec![]), "{case}");
        let said = message(&done);
        let (whose, ends) = match tags.contains(&A) {
            true => (format!("it is that of {A} too; "), "to false, or wait until they have left it"),
            false => ("it was not made for this Service; ".to_owned(), "to false"),
        };
        assert!(said.ends_with(ends), "{case}: {said}");
        for words in ["load balancer lb-1 cannot become internal", "address 203.0.113.7", &whose, names::INTERNAL] {
            assert!(said.contains(words), "{case}: {said}");
        }
    }
}

/// A status has an address that somebody else may have by now.
#[test]
fn a_free_floating_ip_with_the_address_of_before_is_taken_only_where_it_was_made_for_the_service() {
    let start = "Floating IP for Kubernetes external service";
    let attach = "network PUT /floatingips/fip-1";
    let make = "network POST /floatingips";
    let new = with(floating(), json!({ "id": "fip-2", "floating_ip_address": "203.0.113.8" }));
    for (case, description, is_taken) in [
        ("a person's", "mine".to_owned(), false),
        ("nobody says", String::new(), false),
        ("another Service's", format!("{start} default/other from cluster kubernetes (UID uid-other)"), false),
        ("a namesake's", format!("{start} default/test from cluster kubernetes (UID uid-other)"), false),
        ("another cluster's", format!("{start} default/test from cluster b"), false),
        ("its own", format!("{start} default/test from cluster kubernetes (UID uid-test)"), true),
        ("its own of the Go manager", format!("{start} default/test from cluster kubernetes"), true),
    ] {
        let free = with(floating(), json!({ "port_id": null, "description": description }));
        let cloud = whole()
            .on(FLOATING, many("floatingips", &[]))
            .on(FLOATING, many("floatingips", &[free]))
            .on(FLOATING, many("floatingips", &[]))
            .on(attach, Reply::json(200, "{}"))
            .on(make, Reply::json(201, json!({ "floatingip": new }).to_string()));
        let done = run(&settled(&[]));
        let asked = cloud.lines().iter().any(|line| line.contains("floating_ip_address=203.0.113.7"));
        assert!(asked, "{case}: {:?}", cloud.lines());
        let (address, line) = if is_taken { ("203.0.113.7", attach) } else { ("203.0.113.8", make) };
        assert_eq!((ips(&done), written(&cloud)), (vec![address], vec![line.to_owned()]), "{case}");
    }
}

/// Its members would be overwritten.
#[test]
fn a_pool_is_taken_for_a_port_only_where_it_is_the_services_and_no_listener_that_stays_has_it() {
    let members = "load-balancer PUT /lbaas/pools/pool-8/members";
    let make = "load-balancer POST /lbaas/listeners";
    let own = format!("pool_0_{NAME}");
    let theirs = untagged(json!({ "tags": ["mine"], "default_pool_id": "pool-8" }));
    let without = |id: &str, name: &str| pool_of(id, name, &[]);
    for (case, listeners, candidate, is_taken) in [
        ("free, and of this port", vec![], without("pool-8", &own), true),
        ("of another Service", vec![], without("pool-8", &format!("pool_0_{A}")), false),
        ("of another port", vec![], without("pool-8", &format!("pool_1_{NAME}")), false),
        ("of a person", vec![], without("pool-8", "theirs"), false),
        ("a listener that stays has it", vec![theirs], pool_of("pool-8", &own, &["listener-9"]), false),
        (
            "one that does not show has it beside one that goes",
            vec![with(listener(), json!({ "protocol_port": 81, "default_pool_id": "pool-8" }))],
            pool_of("pool-8", &own, &["listener-1", "listener-9"]),
            false,
        ),
        ("of another protocol", vec![], with(without("pool-8", &own), json!({ "protocol": "UDP" })), false),
    ] {
        let cloud = cloud_of(&balancer(), &listeners, &[candidate], &[member(1), member(9)])
            .on(members, accepted())
            .on(make, Reply::json(201, "{}"))
            .on(POOL, Reply::json(201, "{}"));
        until_quiet(&cloud, || run(&settled(&[])));
        let all = writes(&cloud);
        let lines: Vec<_> = all.iter().map(|(line, _)| line.as_str()).collect();
        assert_eq!(lines, if is_taken { vec![members, make] } else { vec![POOL] }, "{case}");
        match is_taken {
            true => assert_eq!(all[1].1["listener"]["default_pool_id"], "pool-8", "{case}"),
            false => {
                assert_eq!((&all[0].1["pool"]["name"], &all[0].1["pool"]["protocol"]), (&json!(own), &json!("TCP")))
            }
        }
    }
}

/// Ports have changed places, and the list of pools is from before the listener got its pool.
#[test]
fn a_pool_that_one_port_of_the_service_has_is_not_taken_for_another_port() {
    let stale = pool_of("pool-1", &format!("pool_1_{NAME}"), &[]);
    let cloud = cloud_of(&balancer(), &[listener()], &[stale], &[member(1), member(2)])
        .on("load-balancer PUT /lbaas/pools/pool-1/members", accepted())
        .on("load-balancer POST /lbaas/listeners", Reply::json(201, "{}"))
        .on(POOL, Reply::json(201, "{}"));
    let mut service = settled(&[]);
    service.ports.push(port(443, 30_443));
    until_quiet(&cloud, || run(&service));
    let all = writes(&cloud);
    assert_eq!(all.iter().map(|(line, _)| line.as_str()).collect::<Vec<_>>(), [POOL]);
    assert_eq!(all[0].1["pool"]["name"], json!(format!("pool_1_{NAME}")));
}

#[test]
fn os_159_who_leaves_takes_no_pool_that_is_anothers_or_that_anothers_listener_uses() {
    let tags = json!([NAME, UID, A]);
    let lb = with(balancer(), json!({ "tags": tags }));
    let of_a = |pool: &str| untagged(json!({ "tags": [A], "default_pool_id": pool }));
    let (own, others) = (format!("pool_0_{NAME}"), format!("pool_0_{A}"));
    let left = json!({ "loadbalancer": { "tags": [A] } });
    for (case, listeners, pools, deleted) in [
        (
            "another's listener uses the same pool",
            [of_a("pool-1"), listener()],
            vec![pool_of("pool-1", &own, &["listener-1", "listener-9"])],
            vec!["listeners/listener-1"],
        ),
        (
            "another's free pool",
            [listener(), of_a("pool-9")],
            vec![pool_of("pool-7", &others, &[]), pool_of("pool-9", "theirs", &["listener-9"]), pool()],
            vec!["listeners/listener-1", "pools/pool-1"],
        ),
        (
            "a person's free pool, beside a free one of its own",
            [listener(), of_a("pool-9")],
            vec![pool_of("pool-7", "theirs", &[]), pool(), pool_of("pool-8", &format!("pool_7_{NAME}"), &[])],
            vec!["listeners/listener-1", "pools/pool-1", "pools/pool-8"],
        ),
        (
            "a pool with its own name that another's listener has",
            [listener(), of_a("pool-8")],
            vec![pool_of("pool-8", &format!("pool_7_{NAME}"), &["listener-9"]), pool()],
            vec!["listeners/listener-1", "pools/pool-1"],
        ),
    ] {
        let cloud = cloud_of(&lb, &listeners, &pools, &[]).on(PUT, Reply::json(200, "{}"));
        let all = ["listeners/listener-1", "listeners/listener-9", "pools/pool-1", "pools/pool-7", "pools/pool-8"];
        let cloud = deletes_all(cloud, &all).on(&gone("pools/pool-9"), Reply::status(204));
        until_quiet(&cloud, || delete(&usual(), &host(), &settled(&[])));
        let mut expected: Vec<_> = deleted.iter().map(|thing| (gone(thing), Value::Null)).collect();
        expected.push((PUT.to_owned(), left.clone()));
        assert_eq!(writes(&cloud)[..expected.len()], expected, "os_159 {case}");
    }
}

/// A call writes once, and the next one the rest: what goes first must not hide what should stay.
#[test]
fn of_free_pools_only_those_of_the_service_go_in_whatever_order_they_are_listed() {
    let own = |id: &str, index: u8| pool_of(id, &format!("pool_{index}_{NAME}"), &[]);
    let of_a = pool_of("pool-9", &format!("pool_0_{A}"), &[]);
    let of_a_person = pool_of("pool-7", "theirs", &[]);
    let like_it = pool_of("pool-5", &format!("pool_x_{NAME}"), &[]);
    let has_one = pool_of("pool-4", &format!("pool_4_{NAME}"), &["listener-9"]);
    let others = [of_a, of_a_person, like_it, has_one];
    let first: Vec<Value> = [&[own("pool-6", 6), own("pool-8", 7)], &others[..], &[pool()]].concat();
    let last: Vec<Value> = [&others[..], &[pool(), own("pool-6", 6), own("pool-8", 7)]].concat();
    for (case, pools) in [("its own first", first), ("its own last", last)] {
        let left: Vec<Value> =
            pools.iter().filter(|pool| pool["id"] != "pool-6" && pool["id"] != "pool-8").cloned().collect();
        let all = ["pools/pool-4", "pools/pool-5", "pools/pool-6", "pools/pool-7", "pools/pool-8", "pools/pool-9"];
        let theirs = untagged(json!({ "tags": ["mine"], "default_pool_id": "pool-4" }));
        let cloud = cloud_of(&balancer(), &[listener(), theirs], &left, &[member(1), member(2)])
            .always("load-balancer GET /lbaas/pools/pool-6/members", many("members", &[]))
            .always("load-balancer GET /lbaas/pools/pool-8/members", many("members", &[]))
            .on(POOLS, many("pools", &pools));
        let cloud = deletes_all(cloud, &all);
        let done = until_quiet(&cloud, || run(&settled(&[])));
        assert_eq!(done.outcome.failure, None, "{case}");
        assert_eq!(written(&cloud), [gone("pools/pool-6"), gone("pools/pool-8")], "{case}");
    }
}

/// Somebody has put a pool of their own behind the Service's listener.
#[test]
fn when_a_port_gets_another_pool_the_one_before_goes_only_where_it_was_the_services() {
    let put = "load-balancer PUT /lbaas/listeners/listener-1";
    let new = with(pool_of("pool-2", &format!("pool_0_{NAME}"), &[]), json!({ "protocol": "PROXY" }));
    let proxied = settled(&[(names::PROXY_PROTOCOL, "true")]);
    for (case, name, goes) in [
        ("its own", format!("pool_0_{NAME}"), true),
        ("its own, as older Go managers called it", "TCP_80_pool".to_owned(), true),
        ("like one of another port", "TCP_81_pool".to_owned(), false),
        ("another Service's", format!("pool_0_{A}"), false),
        ("a person's", "theirs".to_owned(), false),
    ] {
        let old = pool_of("pool-1", &name, &["listener-1"]);
        let moved = with(listener(), json!({ "default_pool_id": "pool-2" }));
        let of_moved = with(new.clone(), json!({ "listeners": [{ "id": "listener-1" }] }));
        let rest = match goes {
            true => vec![of_moved],
            false => vec![pool_of("pool-1", &name, &[]), of_moved],
        };
        let cloud = cloud_of(&balancer(), &[moved], &rest, &[member(1), member(2)])
            .on(LISTENERS, many("listeners", &[listener()]))
            .on(POOLS, many("pools", &[old, new.clone()]))
            .always("load-balancer GET /lbaas/pools/pool-1/members", many("members", &[member(1), member(2)]))
            .on(put, Reply::json(200, "{}"));
        let cloud = deletes_all(cloud, &["pools/pool-1", "pools/pool-2"]);
        let done = until_quiet(&cloud, || run(&proxied));
        assert_eq!(done.outcome.failure, None, "{case}");
        let mut expected = vec![put.to_owned()];
        expected.extend(goes.then(|| gone("pools/pool-1")));
        assert_eq!(written(&cloud), expected, "{case}");
        assert_eq!(writes(&cloud)[0].1, json!({ "listener": { "default_pool_id": "pool-2" } }), "{case}");
    }
}

#[test]
fn one_by_one_only_members_that_have_left_are_taken_off_and_only_those_that_are_new_are_made() {
    let mut config = usual();
    config.balancers.serial = true;
    let line = "load-balancer GET /lbaas/pools/pool-1/members";
    let make = "load-balancer POST /lbaas/pools/pool-1/members";
    let off = |id: &str| gone(&format!("pools/pool-1/members/{id}"));
    for (case, has) in [("the one that stays last", [1, 9, 2]), ("the one that stays first", [2, 1, 9])] {
        let has: Vec<Value> = has.map(member).to_vec();
        let after = [member(2), member(3)];
        let cloud = cloud_of(&balancer(), &[listener()], &[pool()], &after)
            .on(line, many("members", &has))
            .on(TREE, tree(&[listener()], &has))
            .on(make, Reply::json(201, "{}"));
        let cloud = ["m-1", "m-2", "m-3", "m-9"].iter().fold(cloud, |cloud, id| cloud.on(&off(id), Reply::status(204)));
        let done = until_quiet(&cloud, || ensure(&config, &host(), &settled(&[]), &[node(2), node(3)]));
        assert_eq!(done.outcome.failure, None, "{case}");
        assert_eq!(written(&cloud), [make.to_owned(), off("m-1"), off("m-9")], "{case}");
        assert_eq!(writes(&cloud)[0].1["member"]["address"], "10.1.0.3", "{case}");
    }
}

/// Its clients would be those of a load balancer that looks like nobody's.
#[test]
fn one_that_others_share_is_given_up_by_its_owner_with_its_name_and_what_they_have() {
    let lb = with(balancer(), json!({ "tags": [A, NAME, UID, "mine"] }));
    let of_a = untagged(json!({ "id": "listener-8", "tags": [A], "protocol_port": 81 }));
    let own = with(listener(), json!({ "tags": ["mine", NAME, UID] }));
    let put = |id: &str| format!("load-balancer PUT /lbaas/listeners/{id}");
    let cloud = cloud_of(&lb, &[of_a, untagged(json!({})), own], &[pool()], &[]).on(PUT, Reply::json(200, "{}"));
    let cloud = ["listener-1", "listener-8", "listener-9"]
        .iter()
        .fold(cloud, |cloud, id| cloud.on(&put(id), Reply::json(200, "{}")));
    for _ in 0..2 {
        assert_eq!(reaction(&orphan(&usual(), &host(), &settled(&[]))), Reaction::Pending);
        later(&cloud);
    }
    let expected = [
        (put("listener-1"), json!({ "listener": { "tags": ["mine"] } })),
        (PUT.to_owned(), json!({ "loadbalancer": { "tags": [A, "mine"] } })),
    ];
    assert_eq!(writes(&cloud), expected);
    let left = with(lb, json!({ "tags": [A, "mine"] }));
    let cloud = cloud_of(&left, &[with(listener(), json!({ "tags": ["mine"] }))], &[pool()], &[]);
    let done = until_quiet(&cloud, || orphan(&usual(), &host(), &settled(&[])));
    assert_eq!(written(&cloud), Vec::<String>::new(), "{:?}", done.outcome.failure);
}
