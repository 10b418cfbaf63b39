//! Droplets that the cloud refuses: the others do not wait for them.

mod appeared;
mod given;

use super::*;

const DROPLET: &str = "api GET /v2/droplets/101";
const DROPLETS: &str = "api GET /v2/droplets";
const MORE: &str = "api POST /v2/load_balancers/lb-1/droplets";
const LESS: &str = "api DELETE /v2/load_balancers/lb-1/droplets";
const REFUSED: &str = "NodesRefused";

fn no(message: &str) -> Reply {
    Reply::json(422, json!({ "id": "unprocessable_entity", "message": message }).to_string())
}

fn no_such() -> Reply {
    no("droplet 101 does not exist")
}

fn other_vpc() -> Reply {
    no("some of the specified target droplets don't belong to the same VPC as the Load Balancer")
}

fn droplet(id: u64, vpc: &str) -> Reply {
    Reply::json(200, json!({ "droplet": { "id": id, "name": "x", "vpc_uuid": vpc } }).to_string())
}

/// Another port than the Service has, and of the droplets these.
fn outdated(droplets: &Value) -> Value {
    changed("lb-1", json!({ "forwarding_rules": [], "droplet_ids": droplets, "vpc_uuid": "v-1" }))
}

fn updated(droplets: &Value) -> Value {
    changed("lb-1", json!({ "droplet_ids": droplets, "vpc_uuid": "v-1" }))
}

/// The only one that was told of Nodes that are left out.
fn told(done: &Done) -> &str {
    let all: Vec<&str> =
        done.warnings.iter().filter(|(reason, _)| *reason == REFUSED).map(|(_, text)| &**text).collect();
    let [one] = all.as_slice() else { panic!("{done:?}") };
    one
}

/// It has its other changes, without the Node of droplet 101, which comes in a while.
fn goes_without(done: &Done, why: &str) {
    let told = told(done);
    assert!(told.contains("lb-1") && told.contains("n101") && !told.contains("n100") && told.contains(why), "{told}");
    let failure = done.outcome.failure.as_ref().expect("it comes again");
    assert_eq!((failure.reaction, failure.retry_after_ms), (Reaction::Pending, Some(300_000)));
    assert!(failure.message.contains("n101"), "{}", failure.message);
}

/// Once no port and no Node was followed any more, for as long as the Node was there.
#[test]
fn a_droplet_that_is_gone_keeps_nothing_from_the_others() {
    for change in [ensure, update_backends] {
        let has = outdated(&json!([9, 100]));
        let cloud = FakeCloud::new()
            .on(LIST, many(std::slice::from_ref(&has)))
            .on(GET, one(&has))
            .on(PUT, no_such())
            .on(DROPLET, not_found())
            .on(PUT, one(&updated(&json!([100]))));
        let done = change(&config(), &settled_service(&[]), &nodes());
        goes_without(&done, "kubectl delete node");
        assert_eq!(routes(&cloud)[1..], [PUT, DROPLET, PUT]);
        assert_eq!(body(&cloud, 1)["droplet_ids"], json!([100, 101]));
        let last = body(&cloud, 3);
        assert_eq!((&last["droplet_ids"], last["forwarding_rules"].as_array().map(Vec::len)), (&json!([100]), Some(1)));
        assert_eq!(done.outcome.changes.len(), 1, "{done:?}");
    }
}

#[test]
fn one_that_was_refused_is_tried_again_in_a_while_and_costs_nothing_until_then() {
    let service = settled_service(&[]);
    let cloud = FakeCloud::new()
        .always(GET, one(&updated(&json!([100]))))
        .on(PUT, no_such())
        .on(DROPLET, not_found())
        .on(DROPLET, not_found());
    for _ in 0..3 {
        goes_without(&ensure(&config(), &service, &nodes()), "delete node");
    }
    // It lacks nothing else, so that nothing else is written.
    assert_eq!(routes(&cloud), [GET, PUT, DROPLET, GET, GET]);
    // Whoever comes new is followed at once.
    let all: Vec<Backend> = nodes().into_iter().chain([backend(102, &["e4", "e6"])]).collect();
    let cloud = cloud.on(PUT, one(&updated(&json!([100, 102]))));
    goes_without(&ensure(&config(), &service, &all), "delete node");
    assert_eq!(
        (routes(&cloud)[5..].to_vec(), &body(&cloud, 6)["droplet_ids"]),
        (vec![GET.into(), PUT.into()], &json!([100, 102]))
    );
    // It has appeared.
    cloud.pass(301);
    let cloud = cloud.on(PUT, one(&balancer("lb-1")));
    assert_eq!(addresses(&ensure(&config(), &service, &nodes())), both());
    assert_eq!(body(&cloud, 8)["droplet_ids"], json!([100, 101]));
}

#[test]
fn a_droplet_of_another_vpc_is_left_out_and_named() {
    let cloud = FakeCloud::new()
        .on(GET, one(&outdated(&json!([100]))))
        .on(PUT, other_vpc())
        .on(DROPLET, droplet(101, "v-2"))
        .on(PUT, one(&updated(&json!([100]))));
    let done = ensure(&config(), &settled_service(&[]), &nodes());
    goes_without(&done, "v-1");
    assert!(told(&done).contains("node.kubernetes.io/exclude-from-external-load-balancers"), "{done:?}");
    assert_eq!(routes(&cloud), [GET, PUT, DROPLET, PUT]);
    // Nothing is said of it where it is not wanted, and to one of its own VPC it is as good as any.
    let cloud = cloud.on(GET, one(&outdated(&json!([100])))).on(PUT, one(&updated(&json!([100]))));
    let done = ensure(&config(), &settled_service(&[]), &nodes()[..1]);
    assert_eq!((addresses(&done), reasons(&done)), (both(), vec![]));
    let in_v2 = |droplets: Value| changed("lb-1", json!({ "droplet_ids": droplets, "vpc_uuid": "v-2" }));
    let cloud = cloud.on(GET, one(&in_v2(json!([100])))).on(PUT, one(&in_v2(json!([100, 101]))));
    assert_eq!(addresses(&ensure(&config(), &settled_service(&[]), &nodes())), both());
    assert_eq!(body(&cloud, cloud.requests().len() - 1)["droplet_ids"], json!([100, 101]));
    // Of a cloud that does not tell VPCs nobody is to blame.
    let cloud = FakeCloud::new()
        .on(GET, one(&outdated(&json!([100, 101]))))
        .on(PUT, other_vpc())
        .on("api GET /v2/droplets/100", droplet(100, ""))
        .on(DROPLET, droplet(101, ""));
    assert_eq!(failure(&ensure(&config(), &settled_service(&[]), &nodes())), (Reaction::Retry, None));
    assert_eq!(routes(&cloud)[..2], [GET, PUT]);
}

#[test]
fn where_nobody_is_to_blame_it_is_tried_again_and_nodes_that_went_are_taken_away() {
    for reply in [droplet(101, "v-1"), droplet(102, "v-2"), Reply::status(500), Reply::status(404)] {
        let cloud = FakeCloud::new()
            .on(GET, one(&outdated(&json!([100, 9]))))
            .on(PUT, no_such())
            .on(PUT, no_such())
            .always(DROPLET, reply)
            .on("api GET /v2/droplets/100", droplet(100, "v-1"))
            .on(LESS, Reply::status(204));
        let done = ensure(&config(), &settled_service(&[]), &nodes());
        assert_eq!((failure(&done), reasons(&done)), ((Reaction::Retry, None), vec![]));
        assert!(
            done.outcome.failure.as_ref().is_some_and(|failure| failure.message.contains("droplet 101 does not exist"))
        );
        let last = cloud.requests().len() - 1;
        assert_eq!((routes(&cloud)[last].as_str(), body(&cloud, last)), (LESS, json!({ "droplet_ids": [9] })));
        assert_eq!(done.outcome.changes, ["changed lb-1: droplets"]);
    }
    // One that would be without any keeps them.
    let cloud = FakeCloud::new()
        .on(GET, one(&outdated(&json!([9]))))
        .on(PUT, no_such())
        .on(PUT, no_such())
        .always(DROPLET, droplet(101, "v-1"))
        .on("api GET /v2/droplets/100", droplet(100, "v-1"));
    assert_eq!(failure(&ensure(&config(), &settled_service(&[]), &nodes())), (Reaction::Retry, None));
    assert!(!routes(&cloud).iter().any(|line| line == LESS), "{:?}", cloud.lines());
}

#[test]
fn no_load_balancer_is_left_without_any_droplet() {
    let only = &nodes()[1..];
    let cloud = FakeCloud::new()
        .on(GET, one(&outdated(&json!([9]))))
        .on(PUT, no_such())
        .on(DROPLET, not_found())
        .on(PUT, one(&updated(&json!([9]))));
    goes_without(&ensure(&config(), &settled_service(&[]), only), "delete node");
    assert_eq!(body(&cloud, 3)["droplet_ids"], json!([9]));
    // Where it has no other, the same is not written again.
    let cloud = FakeCloud::new().on(GET, one(&outdated(&json!([101])))).on(PUT, no_such()).on(DROPLET, not_found());
    assert_eq!(failure(&ensure(&config(), &settled_service(&[]), only)), (Reaction::Retry, None));
    assert_eq!(routes(&cloud), [GET, PUT, DROPLET]);
    // None is made without either.
    let cloud = FakeCloud::new().on(LIST, many(&[])).on(POST, no_such()).on(DROPLET, not_found());
    let done = ensure(&config(), &service(&[]), only);
    assert_eq!((failure(&done).0, written(&done), routes(&cloud).len()), (Reaction::Retry, vec![], 3));
    assert!(
        done.outcome.failure.as_ref().is_some_and(|failure| failure.message.contains("does not exist")),
        "{done:?}"
    );
}

#[test]
fn a_new_one_is_made_without_the_droplets_that_are_refused() {
    let in_v2 = Config { vpc: Some("v-2".to_owned()), ..config() };
    for (config, reply, answer, why) in
        [(config(), no_such(), not_found(), "delete node"), (in_v2, other_vpc(), droplet(101, "v-1"), "v-2")]
    {
        let cloud = FakeCloud::new()
            .on(LIST, many(&[]))
            .on(POST, reply)
            .on("api GET /v2/droplets/100", droplet(100, "v-2"))
            .on(DROPLET, answer)
            .on(POST, one(&changed("lb-1", json!({ "droplet_ids": [100], "status": "new" }))));
        let done = ensure(&config, &service(&[]), &nodes());
        let told = told(&done);
        assert!(told.contains("n101") && !told.contains("n100") && told.contains(why), "{told}");
        assert_eq!(
            (failure(&done), written(&done)),
            ((Reaction::Pending, Some(2_000)), vec![(names::ID, Some("lb-1"))])
        );
        assert_eq!(body(&cloud, cloud.requests().len() - 1)["droplet_ids"], json!([100]));
        // It gets its address, although the Node is still refused.
        let has = changed("lb-1", json!({ "droplet_ids": [100], "vpc_uuid": "v-2" }));
        let cloud = cloud.on(LIST, many(&[has]));
        let waiting = service(&[(names::ID, "lb-1")]);
        assert_eq!(addresses(&ensure(&config, &waiting, &nodes())), both());
        assert!(!routes(&cloud).iter().any(|line| line == PUT), "{:?}", cloud.lines());
    }
    // Another Service does not ask once more.
    let cloud = FakeCloud::new()
        .always(LIST, many(&[]))
        .on(POST, no_such())
        .on("api GET /v2/droplets/100", droplet(100, "v-2"))
        .on(DROPLET, not_found())
        .always(POST, one(&updated(&json!([100]))));
    ensure(&config(), &service(&[]), &nodes());
    ensure(&config(), &Service { uid: "other".to_owned(), ..service(&[]) }, &nodes());
    assert_eq!(routes(&cloud)[5..], [LIST, POST]);
}

/// A Service that gets its address is done to the host, which looks again with its comparison of all.
#[test]
fn a_new_one_that_goes_without_a_node_differs_at_each_comparison_and_tries_it_again() {
    let has = changed("lb-1", json!({ "droplet_ids": [100], "vpc_uuid": "v-1" }));
    let cloud = FakeCloud::new()
        .on(LIST, many(&[]))
        .always(LIST, many(std::slice::from_ref(&has)))
        .always(GET, one(&has))
        .on(POST, no_such())
        .on("api GET /v2/droplets/100", droplet(100, "v-1"))
        .on(DROPLET, not_found())
        .on(POST, one(&changed("lb-1", json!({ "droplet_ids": [100], "status": "new", "ip": "", "ipv6": "" }))));
    assert_eq!(failure(&ensure(&config(), &service(&[]), &nodes())), (Reaction::Pending, Some(2_000)));
    // The address goes before all.
    assert_eq!(addresses(&ensure(&config(), &service(&[(names::ID, "lb-1")]), &nodes())), both());
    let settled = settled_service(&[]);
    let wish = Wish { service: settled.clone(), backends: vec![0, 1] };
    assert_eq!(standings(&config(), &[wish]), [Standing::Differs(vec!["droplets".to_owned()])]);
    goes_without(&ensure(&config(), &settled, &nodes()), "delete node");
    assert!(!routes(&cloud).iter().any(|line| line == PUT), "{:?}", cloud.lines());
    cloud.pass(301);
    let cloud = cloud.on(PUT, one(&balancer("lb-1")));
    assert_eq!(addresses(&ensure(&config(), &settled, &nodes())), both());
    assert_eq!(body(&cloud, cloud.requests().len() - 1)["droplet_ids"], json!([100, 101]));
}

#[test]
fn of_many_those_are_asked_for_that_the_cloud_names_and_the_listing_lacks() {
    let all: Vec<Backend> = (101..=140).map(|id| backend(id, &["e4", "e6"])).collect();
    let listed: Vec<Value> =
        (102..=140).map(|id| json!({ "id": id, "vpc_uuid": if id == 120 { "v-2" } else { "v-1" } })).collect();
    let listed = json!({ "droplets": listed, "meta": { "total": listed.len() } }).to_string();
    let cloud = FakeCloud::new()
        .on(GET, one(&updated(&json!([]))))
        .on(PUT, no_such())
        .on(DROPLETS, Reply::json(200, listed))
        .on(DROPLET, not_found())
        .on(PUT, one(&updated(&json!([]))));
    let done = ensure(&config(), &settled_service(&[]), &all);
    assert_eq!(failure(&done), (Reaction::Pending, Some(300_000)));
    assert_eq!(reasons(&done), [REFUSED, REFUSED]);
    assert!(done.warnings[0].1.contains("n101") && done.warnings[1].1.contains("n120"), "{done:?}");
    assert_eq!(routes(&cloud), [GET, PUT, DROPLETS, DROPLET, PUT]);
    let wanted: Vec<u64> = (102..=140).filter(|id| *id != 120).collect();
    assert_eq!(body(&cloud, 4)["droplet_ids"], json!(wanted));
    // The cloud names none: the listing alone says which one is missing.
    let listed: Vec<Value> = (102..=140).map(|id| json!({ "id": id, "vpc_uuid": "v-1" })).collect();
    let listed = json!({ "droplets": listed, "meta": { "total": listed.len() } }).to_string();
    let cloud = FakeCloud::new()
        .on(GET, one(&updated(&json!([]))))
        .on(PUT, no("some of the droplets do not exist"))
        .on(DROPLETS, Reply::json(200, listed))
        .on(DROPLET, not_found())
        .on(PUT, one(&updated(&json!([]))));
    assert!(told(&ensure(&config(), &settled_service(&[]), &all)).contains("n101"));
    assert_eq!(routes(&cloud), [GET, PUT, DROPLETS, DROPLET, PUT]);
    // Where there is no listing, twenty are.
    let cloud =
        FakeCloud::new().on(GET, one(&updated(&json!([])))).on(PUT, no_such()).always(DROPLETS, Reply::status(401));
    assert_eq!(failure(&ensure(&config(), &settled_service(&[]), &all)).0, Reaction::Retry);
    assert_eq!(routes(&cloud).iter().filter(|line| line.starts_with("api GET /v2/droplets/")).count(), 20);
    assert!(routes(&cloud).contains(&DROPLET.to_owned()));
}

/// Where the Service asks for something wrong, the droplets alone are changed.
#[test]
fn droplets_that_follow_alone_go_without_the_refused_ones_too() {
    for change in [ensure, update_backends] {
        let has = updated(&json!([9]));
        let cloud = FakeCloud::new()
            .on(GET, one(&has))
            .on(LIST, many(std::slice::from_ref(&has)))
            .on(MORE, no_such())
            .on("api GET /v2/droplets/100", droplet(100, "v-1"))
            .on(DROPLET, not_found())
            .on(MORE, Reply::status(204))
            .on(LESS, Reply::status(204));
        let done = change(&config(), &settled_service(&[(names::HEALTH_INTERVAL, "soon")]), &nodes());
        let is_ensure = routes(&cloud)[0] == GET;
        assert_eq!(failure(&done), (Reaction::Pending, Some(300_000)));
        let field = done.outcome.failure.as_ref().and_then(|failure| failure.field.as_ref());
        assert_eq!(field.is_some(), is_ensure, "{done:?}");
        assert!(told(&done).contains("n101"));
        let last = cloud.requests().len() - 1;
        assert_eq!(routes(&cloud)[last - 1..], [MORE, LESS]);
        assert_eq!(body(&cloud, last - 1), json!({ "droplet_ids": [100] }));
        assert_eq!(body(&cloud, last), json!({ "droplet_ids": [9] }));
    }
    // Nobody is to blame: who went is taken away all the same.
    let cloud = FakeCloud::new()
        .on(GET, one(&updated(&json!([9, 100]))))
        .on(MORE, no_such())
        .always(DROPLET, droplet(101, "v-1"))
        .on("api GET /v2/droplets/100", droplet(100, "v-1"))
        .on(LESS, Reply::status(204));
    let done = ensure(&config(), &settled_service(&[(names::HEALTH_INTERVAL, "soon")]), &nodes());
    assert_eq!(failure(&done).0, Reaction::Retry);
    assert_eq!(body(&cloud, cloud.requests().len() - 1), json!({ "droplet_ids": [9] }));
}

/// A size that the cloud has just refused is not asked for again.
#[test]
fn a_size_that_waits_and_a_droplet_that_is_refused_are_told_both() {
    let waits = || no("Load Balancer can only be resized once every hour, last resized at: 1970-01-01T00:00:00Z");
    let stays = || one(&updated(&json!([100])));
    for (replies, sizes) in
        [(vec![waits(), no_such(), stays()], [3, 1, 1]), (vec![no_such(), waits(), stays()], [3, 3, 1])]
    {
        let cloud = FakeCloud::new().on(GET, one(&outdated(&json!([100])))).on(DROPLET, not_found());
        let cloud = replies.into_iter().fold(cloud, |cloud, reply| cloud.on(PUT, reply));
        let done = ensure(&config(), &settled_service(&[(names::SIZE_UNIT, "3")]), &nodes());
        let failure = done.outcome.failure.as_ref().expect("both wait");
        assert_eq!((failure.reaction, failure.retry_after_ms), (Reaction::Pending, Some(300_000)));
        assert!(failure.message.contains("keeps the size") && failure.message.contains("n101"), "{}", failure.message);
        assert!(told(&done).contains("n101"));
        assert_eq!(done.outcome.changes, ["changed lb-1: forwarding rules"]);
        let puts = routes(&cloud).into_iter().enumerate().filter(|(_, line)| line == PUT);
        let asked: Vec<Value> = puts.map(|(at, _)| body(&cloud, at)["size_unit"].clone()).collect();
        assert_eq!(asked, sizes);
    }
}

/// A cluster whose droplets no listing has, as those with GPUs, and a no that names none.
#[test]
fn of_many_that_nobody_names_each_look_asks_for_others() {
    let all: Vec<Backend> = (101..=145).map(|id| backend(id, &["e4", "e6"])).collect();
    let wanted: Vec<u64> = (101..=144).collect();
    let cloud = FakeCloud::new().always(GET, one(&updated(&json!([])))).always(DROPLETS, Reply::status(401));
    let cloud =
        (101..=144).fold(cloud, |cloud, id| cloud.always(&format!("api GET /v2/droplets/{id}"), droplet(id, "v-1")));
    let cloud = cloud
        .on("api GET /v2/droplets/145", not_found())
        .on(PUT, other_vpc())
        .on(PUT, other_vpc())
        .on(PUT, other_vpc())
        .on(PUT, one(&updated(&json!(wanted))));
    for _ in 0..2 {
        assert_eq!(failure(&ensure(&config(), &settled_service(&[]), &all)).0, Reaction::Retry);
    }
    let done = ensure(&config(), &settled_service(&[]), &all);
    assert_eq!(failure(&done), (Reaction::Pending, Some(300_000)));
    assert!(told(&done).contains("n145"), "{done:?}");
    assert_eq!(body(&cloud, cloud.requests().len() - 1)["droplet_ids"], json!(wanted));
    // The next one writes nothing.
    let cloud = cloud.on(GET, one(&updated(&json!(wanted))));
    let before = routes(&cloud).len();
    assert_eq!(failure(&ensure(&config(), &settled_service(&[]), &all)).0, Reaction::Pending);
    assert_eq!(routes(&cloud)[before..], [GET]);
}

#[test]
fn each_refused_droplet_has_its_own_time_and_postpones_no_other() {
    let service = settled_service(&[]);
    let all: Vec<Backend> = nodes().into_iter().chain([backend(102, &["e4", "e6"])]).collect();
    let cloud = FakeCloud::new()
        .always(GET, one(&updated(&json!([100]))))
        .on(PUT, no_such())
        .on(DROPLET, not_found())
        .on(PUT, no("droplet 102 does not exist"))
        .on("api GET /v2/droplets/102", not_found());
    assert_eq!(failure(&ensure(&config(), &service, &nodes())), (Reaction::Pending, Some(300_000)));
    cloud.pass(200);
    // The first of them says when the next look is.
    assert_eq!(failure(&ensure(&config(), &service, &all)), (Reaction::Pending, Some(100_000)));
    assert_eq!(body(&cloud, 4)["droplet_ids"], json!([100, 102]));
    cloud.pass(101);
    let cloud = cloud.on(PUT, one(&updated(&json!([100, 101]))));
    let done = ensure(&config(), &service, &all);
    let last = cloud.requests().len() - 1;
    assert_eq!((routes(&cloud)[last].as_str(), &body(&cloud, last)["droplet_ids"]), (PUT, &json!([100, 101])));
    assert_eq!(failure(&done), (Reaction::Pending, Some(199_000)));
    assert!(told(&done).contains("n102") && !told(&done).contains("n101"), "{done:?}");
    // The next one writes nothing.
    let cloud = cloud.on(GET, one(&updated(&json!([100, 101]))));
    assert_eq!(failure(&ensure(&config(), &service, &all)), (Reaction::Pending, Some(199_000)));
    assert_eq!(routes(&cloud)[last + 1..], [GET]);
}

/// Each with a time of its own is a request of each load balancer, for each of them.
#[test]
fn refused_droplets_that_are_due_within_150_seconds_are_tried_in_one_request_and_later_ones_keep_their_time() {
    let service = settled_service(&[]);
    let all: Vec<Backend> = nodes().into_iter().chain([backend(102, &["e4", "e6"])]).collect();
    let second = "api GET /v2/droplets/102";
    for (apart, are_together) in [(1, true), (150, true), (151, false), (299, false)] {
        let cloud = FakeCloud::new()
            .always(GET, one(&updated(&json!([100]))))
            .always(DROPLET, not_found())
            .always(second, not_found())
            .on(PUT, no_such())
            .on(PUT, no("droplet 102 does not exist"));
        ensure(&config(), &service, &nodes());
        cloud.pass(apart);
        ensure(&config(), &service, &all);
        assert_eq!(routes(&cloud), [GET, PUT, DROPLET, GET, PUT, second], "{apart}");
        // The first one is due. It is as the cloud says for 300 seconds more.
        cloud.pass(300 - apart);
        let cloud = cloud.on(PUT, no_such());
        let wait = failure(&ensure(&config(), &service, &all));
        let (tried, asked, left) = match are_together {
            true => (json!([100, 101, 102]), vec![DROPLET, second], 300),
            false => (json!([100, 101]), vec![DROPLET], apart),
        };
        assert_eq!(body(&cloud, 7)["droplet_ids"], tried, "{apart}");
        assert_eq!(routes(&cloud)[8..], asked, "{apart}");
        assert_eq!(wait, (Reaction::Pending, u32::try_from(left * 1_000).ok()), "{apart}");
        // Whoever comes next finds it known.
        let before = routes(&cloud).len();
        assert_eq!(failure(&ensure(&config(), &service, &all)), wait, "{apart}");
        assert_eq!(routes(&cloud)[before..], [GET], "{apart}");
        // Both have appeared, and are due less than 150 seconds apart by now: the last one needs no request of its own.
        cloud.pass(left);
        let cloud = cloud.on(PUT, one(&updated(&json!([100, 101, 102]))));
        assert_eq!(addresses(&ensure(&config(), &service, &all)), both(), "{apart}");
        assert_eq!(body(&cloud, before + 2)["droplet_ids"], json!([100, 101, 102]), "{apart}");
    }
}

/// The cloud refuses whatever is written, and a size is the only thing that is.
#[test]
fn a_droplet_that_it_has_and_that_is_gone_is_not_taken_for_a_size_that_is_refused() {
    let three =
        |droplets: Value| changed("lb-1", json!({ "droplet_ids": droplets, "size_unit": 3, "vpc_uuid": "v-1" }));
    let cloud = FakeCloud::new()
        .on(GET, one(&updated(&json!([100, 101]))))
        .on(PUT, no_such())
        .on("api GET /v2/droplets/100", droplet(100, "v-1"))
        .on(DROPLET, not_found())
        .on(PUT, one(&three(json!([100]))));
    let service = settled_service(&[(names::SIZE_UNIT, "3")]);
    let done = ensure(&config(), &service, &nodes());
    goes_without(&done, "kubectl delete node");
    assert_eq!(done.outcome.changes, ["changed lb-1: droplets, size"]);
    let last = cloud.requests().len() - 1;
    assert_eq!(routes(&cloud).iter().filter(|line| *line == PUT).count(), 2);
    let body = body(&cloud, last);
    assert_eq!((&body["droplet_ids"], &body["size_unit"]), (&json!([100]), &json!(3)));
    // The next one writes nothing.
    let cloud = cloud.on(GET, one(&three(json!([100]))));
    goes_without(&ensure(&config(), &service, &nodes()), "kubectl delete node");
    assert_eq!(routes(&cloud)[last + 1..], [GET]);
}

/// Words with droplets in them may be about the size.
#[test]
fn where_no_droplet_is_to_blame_the_rest_is_written_without_the_size() {
    let cloud = FakeCloud::new()
        .on(GET, one(&updated(&json!([100]))))
        .on(PUT, no("a load balancer of 3 nodes needs 6 droplets"))
        .always("api GET /v2/droplets/100", droplet(100, "v-1"))
        .always(DROPLET, droplet(101, "v-1"))
        .on(PUT, one(&updated(&json!([100, 101]))));
    let service = settled_service(&[(names::SIZE_UNIT, "3")]);
    let done = ensure(&config(), &service, &nodes());
    assert_eq!((failure(&done).0, reasons(&done)), (Reaction::Retry, vec![]));
    assert_eq!(done.outcome.changes, ["changed lb-1: droplets"]);
    let last = cloud.requests().len() - 1;
    assert_eq!(body(&cloud, last)["size_unit"], json!(1));
    // The next one writes nothing.
    let cloud = cloud.on(GET, one(&updated(&json!([100, 101]))));
    assert_eq!(failure(&ensure(&config(), &service, &nodes())).0, Reaction::Retry);
    assert_eq!(routes(&cloud)[last + 1..], [GET]);
}
