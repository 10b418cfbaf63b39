//! Droplets that have appeared by the time a new load balancer gets its address.

use super::*;

/// The next comparison of the host may be an hour later. Droplet 101 is very new, or was of another VPC for a moment.
#[test]
fn a_droplet_that_is_there_when_a_new_one_gets_its_address_comes_with_the_address() {
    let in_v1 = Config { vpc: Some("v-1".to_owned()), ..config() };
    let has = changed("lb-1", json!({ "droplet_ids": [100], "vpc_uuid": "v-1" }));
    let new =
        changed("lb-1", json!({ "droplet_ids": [100], "vpc_uuid": "v-1", "status": "new", "ip": "", "ipv6": "" }));
    let waiting = service(&[(names::ID, "lb-1")]);
    // Made without it a moment ago, and active now.
    let made = |no: Reply, droplet_then: Reply| {
        let cloud = FakeCloud::new()
            .on(LIST, many(&[]))
            .on(POST, no)
            .on("api GET /v2/droplets/100", droplet(100, "v-1"))
            .on(DROPLET, droplet_then)
            .on(POST, one(&new));
        assert_eq!(failure(&ensure(&in_v1, &service(&[]), &nodes())), (Reaction::Pending, Some(2_000)));
        assert_eq!(body(&cloud, cloud.requests().len() - 1)["droplet_ids"], json!([100]));
        let mut cloud = cloud;
        // While it has no address nothing else is asked for: neither when it is new, nor when it is said to be active.
        for status in ["new", "active"] {
            cloud.pass(2);
            let before = routes(&cloud).len();
            let has = changed(
                "lb-1",
                json!({ "droplet_ids": [100], "vpc_uuid": "v-1", "status": status, "ip": "", "ipv6": "" }),
            );
            cloud = cloud.on(LIST, many(&[has]));
            assert_eq!(failure(&ensure(&in_v1, &waiting, &nodes())), (Reaction::Pending, Some(2_000)));
            assert_eq!(routes(&cloud)[before..], [LIST]);
        }
        cloud.pass(2);
        let before = routes(&cloud).len();
        (cloud.on(LIST, many(std::slice::from_ref(&has))), before)
    };
    // Of a cloud that does not tell VPCs it is enough that it is there.
    for vpc in ["v-1", ""] {
        for (no, droplet_then) in [(no_such(), not_found()), (other_vpc(), droplet(101, "v-2"))] {
            let (cloud, before) = made(no, droplet_then);
            let cloud = cloud.on(DROPLET, droplet(101, vpc)).on(PUT, one(&balancer("lb-1")));
            let done = ensure(&in_v1, &waiting, &nodes());
            assert_eq!((addresses(&done), reasons(&done)), (both(), vec![]));
            assert_eq!(routes(&cloud)[before..], [LIST, DROPLET, PUT]);
            assert_eq!(body(&cloud, before + 2)["droplet_ids"], json!([100, 101]));
        }
    }
    // One that is still refused, or that cannot be asked for, costs a question, no write, and not the address.
    for (no, droplet_then, now, why) in [
        (no_such(), not_found(), not_found(), "do not exist"),
        (no_such(), not_found(), droplet(101, "v-2"), "not in its VPC v-1"),
        (no_such(), not_found(), droplet(102, "v-1"), "do not exist"),
        (no_such(), not_found(), Reply::status(401), "do not exist"),
        (other_vpc(), droplet(101, "v-2"), droplet(101, "v-2"), "not in its VPC v-1"),
    ] {
        let (cloud, before) = made(no, droplet_then);
        let cloud = cloud.on(DROPLET, now);
        let done = ensure(&in_v1, &waiting, &nodes());
        assert_eq!(addresses(&done), both());
        assert!(told(&done).contains("n101") && told(&done).contains(why), "{done:?}");
        assert_eq!(routes(&cloud)[before..], [LIST, DROPLET]);
        // Whoever has its address does not ask again before the time.
        let cloud = cloud.on(GET, one(&has));
        assert_eq!(failure(&ensure(&in_v1, &settled_service(&[]), &nodes())), (Reaction::Pending, Some(294_000)));
        assert_eq!(routes(&cloud)[before + 2..], [GET]);
    }
}

/// A cloud that does not tell the size: nothing but the droplets is written.
#[test]
fn droplets_that_follow_alone_come_with_the_address_too() {
    let unsized_with = |droplets: Value| {
        changed("lb-1", json!({ "droplet_ids": droplets, "vpc_uuid": "v-1", "size": null, "size_unit": null }))
    };
    let cloud =
        FakeCloud::new().always(GET, one(&unsized_with(json!([100])))).on(MORE, no_such()).on(DROPLET, not_found());
    assert_eq!(failure(&ensure(&config(), &settled_service(&[]), &nodes())).0, Reaction::Pending);
    assert_eq!(routes(&cloud), [GET, MORE, DROPLET]);
    let cloud = cloud.on(DROPLET, droplet(101, "v-1")).on(MORE, Reply::status(204));
    let waiting = Service { ingress: vec![], ..settled_service(&[]) };
    assert_eq!(addresses(&ensure(&config(), &waiting, &nodes())), both());
    assert_eq!(routes(&cloud)[3..], [GET, DROPLET, MORE]);
    assert_eq!(body(&cloud, 5), json!({ "droplet_ids": [101] }));
}

/// A cluster with many Nodes of another VPC: the newest droplets are the likeliest to have appeared.
#[test]
fn of_many_that_were_refused_the_newest_twenty_are_asked_for_when_a_new_one_gets_its_address() {
    let all: Vec<Backend> = (100..=130).map(|id| backend(id, &["e4", "e6"])).collect();
    let has = updated(&json!([100]));
    let listed: Vec<Value> =
        (100..=130).map(|id| json!({ "id": id, "vpc_uuid": if id == 100 { "v-1" } else { "v-2" } })).collect();
    let listed = json!({ "droplets": listed, "meta": { "total": listed.len() } }).to_string();
    let cloud = FakeCloud::new()
        .on(GET, one(&outdated(&json!([100]))))
        .on(GET, one(&has))
        .on(DROPLETS, Reply::json(200, listed))
        .on(PUT, other_vpc())
        .on(PUT, one(&has));
    assert_eq!(failure(&ensure(&config(), &settled_service(&[]), &all)).0, Reaction::Pending);
    let before = routes(&cloud).len();
    let cloud = (101..=130).fold(cloud, |cloud, id| {
        let vpc = if id == 130 { "v-1" } else { "v-2" };
        cloud.always(&format!("api GET /v2/droplets/{id}"), droplet(id, vpc))
    });
    let cloud = cloud.on(PUT, one(&updated(&json!([100, 130]))));
    let waiting = Service { ingress: vec![], ..settled_service(&[]) };
    assert_eq!(addresses(&ensure(&config(), &waiting, &all)), both());
    let asked: Vec<String> = (111..=130).rev().map(|id| format!("api GET /v2/droplets/{id}")).collect();
    assert_eq!(routes(&cloud)[before..], [vec![GET.to_owned()], asked, vec![PUT.to_owned()]].concat());
    assert_eq!(body(&cloud, before + 21)["droplet_ids"], json!([100, 130]));
}

/// The droplet is there, and load balancers have not heard of it yet. Once the Service had no address for as long as that was so.
#[test]
fn a_droplet_that_is_there_and_still_refused_keeps_no_service_from_its_address() {
    let waiting = Service { ingress: vec![], ..settled_service(&[]) };
    let sure = "api GET /v2/droplets/100";
    let untold = |droplets: Value| {
        changed("lb-1", json!({ "droplet_ids": droplets, "vpc_uuid": "v-1", "size": null, "size_unit": null }))
    };
    let lacks = updated(&json!([100]));
    // Nothing else differs, the ports do, and droplets that follow alone.
    for (has, add, more) in
        [(lacks.clone(), PUT, vec![]), (outdated(&json!([100])), PUT, vec![PUT]), (untold(json!([100])), MORE, vec![])]
    {
        for (no, then, why) in
            [(no_such(), not_found(), "do not exist"), (other_vpc(), droplet(101, "v-2"), "not in its VPC v-1")]
        {
            // It is noted as refused.
            let cloud = FakeCloud::new().on(GET, one(&lacks)).on(PUT, no.clone()).on(DROPLET, then);
            assert_eq!(failure(&ensure(&config(), &settled_service(&[]), &nodes())).0, Reaction::Pending);
            let before = routes(&cloud).len();
            let cloud = cloud
                .on(GET, one(&has))
                .always(DROPLET, droplet(101, "v-1"))
                .always(sure, droplet(100, "v-1"))
                .on(add, no);
            let cloud = more.iter().fold(cloud, |cloud, line| cloud.on(line, one(&lacks)));
            let done = ensure(&config(), &waiting, &nodes());
            assert_eq!(addresses(&done), both(), "{add} {why}");
            assert!(told(&done).contains("n101") && told(&done).contains(why), "{done:?}");
            let mut lines = routes(&cloud)[before..].to_vec();
            lines.retain(|line| line != sure);
            assert_eq!(lines, [vec![GET, DROPLET, add, DROPLET], more.clone()].concat(), "{add} {why}");
            if !more.is_empty() {
                let last = body(&cloud, cloud.requests().len() - 1);
                assert_eq!(last["droplet_ids"], json!([100]), "the rest does not wait for it");
            }
            // Whoever has its address waits, and asks for nothing.
            let before = routes(&cloud).len();
            let cloud = cloud.on(GET, one(&lacks));
            let done = ensure(&config(), &settled_service(&[]), &nodes());
            assert_eq!(failure(&done), (Reaction::Pending, Some(300_000)));
            assert_eq!(routes(&cloud)[before..], [GET]);
        }
    }
}

/// One that was refused is there, load balancers have not heard of it yet, and another one is newly gone. Once ports and the other Nodes
/// waited for the next comparison.
#[test]
fn a_droplet_that_is_newly_gone_does_not_hide_that_one_that_is_there_is_still_refused() {
    let waiting = Service { ingress: vec![], ..settled_service(&[]) };
    let all: Vec<Backend> = (100..=103).map(|id| backend(id, &["e4", "e6"])).collect();
    let untold = changed("lb-1", json!({ "droplet_ids": [100], "vpc_uuid": "v-1", "size": null, "size_unit": null }));
    let last = updated(&json!([100, 103]));
    let no = || no("some of the droplets do not exist");
    for (has, add, had) in
        [(updated(&json!([100])), PUT, vec![100]), (outdated(&json!([100])), PUT, vec![100]), (untold, MORE, vec![])]
    {
        let cloud = FakeCloud::new().on(GET, one(&updated(&json!([100])))).on(PUT, no_such()).on(DROPLET, not_found());
        assert_eq!(failure(&ensure(&config(), &settled_service(&[]), &nodes())).0, Reaction::Pending);
        let before = routes(&cloud).len();
        let cloud = cloud
            .on(GET, one(&has))
            .always("api GET /v2/droplets/100", droplet(100, "v-1"))
            .always(DROPLET, droplet(101, "v-1"))
            .always("api GET /v2/droplets/102", not_found())
            .always("api GET /v2/droplets/103", droplet(103, "v-1"))
            .on(add, no())
            .on(add, no())
            .on(add, one(&last));
        let done = ensure(&config(), &waiting, &all);
        assert_eq!(addresses(&done), both(), "{add}");
        assert!(told(&done).contains("n101") && told(&done).contains("n102"), "{done:?}");
        let tried: Vec<Value> = (before..routes(&cloud).len())
            .filter(|at| routes(&cloud)[*at] == add)
            .map(|at| body(&cloud, at)["droplet_ids"].clone())
            .collect();
        let with = |new: &[u64]| json!([had.as_slice(), new].concat());
        assert_eq!(tried, [with(&[101, 102, 103]), with(&[101, 103]), with(&[103])], "{add}");
        // Whoever has its address waits, and asks for nothing.
        let before = routes(&cloud).len();
        let cloud = cloud.on(GET, one(&last));
        assert_eq!(failure(&ensure(&config(), &settled_service(&[]), &all)), (Reaction::Pending, Some(300_000)));
        assert_eq!(routes(&cloud)[before..], [GET]);
    }
}

/// It was there when it was asked for, and is gone after the cloud's no: nothing is left to be put back.
#[test]
fn one_that_goes_again_is_left_out_once() {
    let waiting = Service { ingress: vec![], ..settled_service(&[]) };
    let has = outdated(&json!([100]));
    let cloud = FakeCloud::new().on(GET, one(&has)).on(PUT, no_such()).on(DROPLET, not_found());
    let cloud = cloud.on(PUT, one(&updated(&json!([100]))));
    assert_eq!(failure(&ensure(&config(), &settled_service(&[]), &nodes())).0, Reaction::Pending);
    let before = routes(&cloud).len();
    let cloud = cloud
        .on(GET, one(&has))
        .on(DROPLET, droplet(101, "v-1"))
        .on(PUT, no_such())
        .on(DROPLET, not_found())
        .on(PUT, no_such());
    assert_eq!(addresses(&ensure(&config(), &waiting, &nodes())), both());
    assert_eq!(routes(&cloud)[before..], [GET, DROPLET, PUT, DROPLET, PUT]);
}

/// What is wrong with its Service once kept a Node out until something changed.
#[test]
fn a_node_that_is_refused_is_tried_again_in_a_while_although_an_annotation_is_wrong() {
    let wrong = settled_service(&[(names::HEALTH_INTERVAL, "soon")]);
    let cloud = FakeCloud::new().always(GET, one(&updated(&json!([100])))).on(MORE, no_such()).on(DROPLET, not_found());
    for _ in 0..2 {
        let done = ensure(&config(), &wrong, &nodes());
        assert_eq!(failure(&done), (Reaction::Pending, Some(300_000)));
        let told = done.outcome.failure.as_ref().expect("it comes again");
        assert!(told.field.as_ref().is_some_and(|field| field.contains(names::HEALTH_INTERVAL)), "{told:?}");
        let (value, node) = (told.message.find(names::HEALTH_INTERVAL), told.message.find("n101"));
        assert!(value.is_some() && value < node, "{told:?}");
        let warned = |(reason, text): &(&str, String)| *reason == CONFIG_ERROR && text.contains(names::HEALTH_INTERVAL);
        assert!(done.warnings.iter().any(warned), "{done:?}");
    }
    assert_eq!(routes(&cloud), [GET, MORE, DROPLET, GET]);
    // It has appeared, and nothing waits but for people.
    cloud.pass(301);
    let cloud = cloud.on(MORE, Reply::status(204));
    assert_eq!(failure(&ensure(&config(), &wrong, &nodes())), (Reaction::Invalid, None));
    assert_eq!(body(&cloud, 5), json!({ "droplet_ids": [101] }));
    // What is tried again by itself keeps its own time.
    let _cloud = FakeCloud::new()
        .on(GET, one(&outdated(&json!([100]))))
        .on(PUT, no("ports are wrong"))
        .on(MORE, no_such())
        .on(DROPLET, not_found());
    assert_eq!(failure(&ensure(&config(), &settled_service(&[]), &nodes())), (Reaction::Retry, None));
}
