//! Sizes, which the cloud changes once in a while only.

use super::*;

/// 2026-11-22T18:00:00Z.
const NOW: u64 = 1_795_370_400;

const DROPLET: &str = "api GET /v2/droplets/101";

const LAST: &str = "Load Balancer can only be resized once every hour, last resized at: 2026-11-22 17:20:05 +0000 UTC";

fn no(status: u16, message: &str) -> Reply {
    Reply::json(status, json!({ "id": "x", "message": message }).to_string())
}

fn large() -> Service {
    settled_service(&[(names::SIZE_UNIT, "6")])
}

fn failure_of(done: &Done) -> &Failure {
    done.outcome.failure.as_ref().expect("the size waits")
}

#[test]
fn a_size_that_is_refused_waits_and_what_else_differs_does_not() {
    let has = changed("lb-1", json!({"droplet_ids": [100]}));
    for status in [403, 409, 422] {
        let cloud =
            FakeCloud::new().at(NOW).on(GET, one(&has)).on(PUT, no(status, LAST)).on(PUT, one(&balancer("lb-1")));
        let done = ensure(&config(), &large(), &nodes());
        assert_eq!(routes(&cloud), [GET, PUT, PUT], "{status}");
        assert_eq!((&body(&cloud, 1)["size_unit"], &body(&cloud, 2)["size_unit"]), (&json!(6), &json!(1)));
        assert_eq!(body(&cloud, 2)["droplet_ids"], json!([100, 101]));
        assert_eq!(done.outcome.changes, ["changed lb-1: droplets"]);
        // 20 minutes and 5 seconds.
        assert_eq!(failure(&done), (Reaction::Pending, Some(1_205_000)));
        let told = failure_of(&done);
        for words in ["lb-1 keeps the size 1 node until 2026-11-22T18:20:05Z, and gets 6 nodes then", LAST] {
            assert!(told.message.contains(words), "{}", told.message);
        }
        assert_eq!(told.field, Some(format!("metadata.annotations[{}]", names::SIZE_UNIT)));

        // Until then it is not asked for, and Nodes are followed with one write each.
        let cloud = cloud.at(NOW + 1_200).on(GET, one(&balancer("lb-1")));
        let done = ensure(&config(), &large(), &nodes());
        assert_eq!((failure(&done), &routes(&cloud)[3..]), ((Reaction::Pending, Some(5_000)), &[GET.to_owned()][..]));
        let cloud = cloud.on(GET, one(&has)).on(PUT, one(&balancer("lb-1")));
        let done = update_backends(&config(), &large(), &nodes());
        assert_eq!((addresses(&done), &routes(&cloud)[4..]), (both(), &[GET.to_owned(), PUT.to_owned()][..]));
        assert_eq!(body(&cloud, 5)["size_unit"], json!(1));
    }
}

#[test]
fn one_that_does_not_say_since_when_it_counts_is_asked_again_soon() {
    for (words, after, until) in [
        ("Load Balancer can only be resized once every hour", 300_000, "2026-11-22T19:00:00Z at the latest"),
        (
            "Load Balancer can only be resized once every hour, last resized at: 2026-11-22 10:20:05 -0700",
            300_000,
            "2026-11-22T19:00:00Z at the latest",
        ),
        ("Load Balancer can only be resized once every minute", 60_000, "2026-11-22T18:01:00Z at the latest"),
    ] {
        let cloud = FakeCloud::new().at(NOW).on(GET, one(&balancer("lb-1"))).on(PUT, no(422, words));
        let done = ensure(&config(), &settled_service(&[(names::SIZE_SLUG, "lb-large")]), &nodes());
        assert_eq!((failure(&done), routes(&cloud)), ((Reaction::Pending, Some(after)), vec![GET.into(), PUT.into()]));
        let told = failure_of(&done);
        assert!(told.message.contains(&format!("keeps the size lb-small until {until}")), "{}", told.message);
        assert_eq!(told.field, Some(format!("metadata.annotations[{}]", names::SIZE_SLUG)));
    }
}

#[test]
fn a_size_that_is_refused_for_another_reason_keeps_nothing_else_waiting_either() {
    let has = changed("lb-1", json!({"droplet_ids": [100]}));
    let puts = |cloud: &FakeCloud| -> Vec<Value> {
        let lines = cloud.lines();
        let at = lines.iter().enumerate().filter(|(_, line)| *line == PUT).map(|(at, _)| at);
        at.map(|at| body(cloud, at)["size_unit"].clone()).collect()
    };
    let limit = "size_unit exceeds the limit of your account";
    for change in [ensure, update_backends] {
        let listed = many(std::slice::from_ref(&has));
        let cloud = FakeCloud::new().at(NOW).always(GET, one(&has)).always(LIST, listed);
        let cloud = cloud.on(PUT, no(422, limit)).on(PUT, one(&balancer("lb-1")));
        let done = change(&config(), &large(), &nodes());
        assert_eq!(
            (puts(&cloud), &done.outcome.changes[..]),
            (vec![json!(6), json!(1)], &["changed lb-1: droplets".to_owned()][..])
        );
        if let Some(failure) = &done.outcome.failure {
            assert_eq!(failure.reaction, Reaction::Quota);
            assert!(failure.message.contains(limit) && failure.message.contains("6 nodes"), "{}", failure.message);
        }
        // The next Node costs one write, and another size is asked for at once.
        let cloud = cloud.on(PUT, one(&balancer("lb-1")));
        assert_eq!(addresses(&update_backends(&config(), &large(), &nodes())), both());
        assert_eq!(puts(&cloud)[2..], [json!(1)]);
        let cloud = cloud.on(PUT, one(&balancer("lb-1")));
        assert_eq!(addresses(&ensure(&config(), &settled_service(&[(names::SIZE_UNIT, "2")]), &nodes())), both());
        assert_eq!(puts(&cloud)[3..], [json!(2)]);
    }
    // The only difference: as any refusal. What is refused without the size as well is not about it.
    let cloud = FakeCloud::new().on(GET, one(&balancer("lb-1"))).on(PUT, no(422, limit));
    assert_eq!((failure(&ensure(&config(), &large(), &nodes())).0, routes(&cloud).len()), (Reaction::Quota, 2));
    let droplet = "droplet 101 does not exist";
    let cloud = (0..3).fold(FakeCloud::new().on(GET, one(&has)), |cloud, _| cloud.on(PUT, no(422, droplet)));
    let done = ensure(&config(), &large(), &nodes());
    // And which droplet it is about cannot be asked: the size is tried with those that it has.
    assert_eq!((failure(&done).0, puts(&cloud)), (Reaction::Retry, vec![json!(6), json!(1), json!(6)]));
    let cloud = cloud.on(GET, one(&balancer("lb-1"))).on(PUT, one(&balancer("lb-1")));
    assert_eq!(addresses(&ensure(&config(), &large(), &nodes())), both());
    assert_eq!(puts(&cloud)[3..], [json!(6)]);
    // One that is busy takes nothing at all.
    let busy = "Load Balancer can't be updated while it processes previous actions";
    let cloud = FakeCloud::new().on(GET, one(&has)).on(PUT, no(403, busy));
    assert_eq!((failure(&ensure(&config(), &large(), &nodes())).0, routes(&cloud).len()), (Reaction::Pending, 2));
}

/// What is left out of a write gets its default: a Node that joins would make a load balancer small that somebody made large.
#[test]
fn a_size_that_nobody_asks_for_stays() {
    for (has, sent) in [
        (json!({"size": "", "size_unit": 4}), (json!(null), json!(4))),
        (json!({"size": "lb-medium", "size_unit": 3}), (json!("lb-medium"), json!(null))),
        (json!({"size": "lb-small", "size_unit": 4}), (json!(null), json!(4))),
        (json!({"size": "lb-large", "size_unit": null}), (json!("lb-large"), json!(null))),
        (json!({"size": "lb-small", "size_unit": 1}), (json!(null), json!(null))),
    ] {
        for change in [ensure, update_backends] {
            let mut has = changed("lb-1", has.clone());
            has["droplet_ids"] = json!([]);
            let listed = many(std::slice::from_ref(&has));
            let cloud = FakeCloud::new().always(GET, one(&has)).always(LIST, listed).on(PUT, one(&balancer("lb-1")));
            assert_eq!(addresses(&change(&config(), &settled_service(&[]), &nodes())), both());
            let body = body(&cloud, 1);
            let member = |name: &str| body.get(name).cloned().unwrap_or_default();
            assert_eq!((member("size"), member("size_unit")), sent, "{has}");
        }
    }
}

/// What is left out of a write gets its default, one node. Each documented answer tells a size.
#[test]
fn one_that_does_not_tell_its_size_is_not_written_without() {
    const DROPLETS: [&str; 2] =
        ["api POST /v2/load_balancers/lb-1/droplets", "api DELETE /v2/load_balancers/lb-1/droplets"];
    let cloud_with = |has: &Value| {
        let cloud = FakeCloud::new().always(GET, one(has)).always(LIST, many(std::slice::from_ref(has)));
        DROPLETS.into_iter().fold(cloud, |cloud, line| cloud.on(line, Reply::status(204)))
    };
    let missing = json!({"size": null, "size_unit": null});
    for untold in [missing, json!({"size": "", "size_unit": 0}), json!({"size": "lb-huge", "size_unit": null})] {
        let mut has = changed("lb-1", untold);
        has["droplet_ids"] = json!([100, 7]);
        for change in [ensure, update_backends] {
            let cloud = cloud_with(&has);
            let done = change(&config(), &settled_service(&[]), &nodes());
            assert_eq!((addresses(&done), done.outcome.changes), (both(), vec!["changed lb-1: droplets".to_owned()]));
            assert_eq!(routes(&cloud)[1..], DROPLETS, "{has}");
        }
        // What the Service asks for is known.
        let cloud = cloud_with(&has).on(PUT, one(&balancer("lb-1")));
        let done = ensure(&config(), &settled_service(&[(names::SIZE_UNIT, "2")]), &nodes());
        assert_eq!((addresses(&done), &body(&cloud, 1)["size_unit"]), (both(), &json!(2)));
        // Where the cloud does not want that, nothing is written without.
        let cloud = cloud_with(&has).on(PUT, no(422, "size_unit exceeds the limit of your account"));
        let done = ensure(&config(), &settled_service(&[(names::SIZE_SLUG, "lb-large")]), &nodes());
        assert_eq!(failure(&done).0, Reaction::Quota);
        assert_eq!(routes(&cloud)[1..], [PUT, DROPLETS[0], DROPLETS[1]]);

        has["name"] = json!("theirs");
        let cloud = cloud_with(&has);
        let done = ensure(&config(), &settled_service(&[]), &nodes());
        assert_eq!(failure(&done).0, Reaction::Retry);
        assert_eq!(routes(&cloud)[1..], DROPLETS);
        let told = failure_of(&done);
        assert_eq!(told.field, Some(format!("metadata.annotations[{}]", names::SIZE_UNIT)));
        assert!(told.message.contains("load balancer lb-1") && told.message.contains("1 node"), "{}", told.message);
        let cloud = cloud_with(&has);
        assert_eq!(addresses(&update_backends(&config(), &settled_service(&[]), &nodes())), both());
        assert_eq!(routes(&cloud)[1..], DROPLETS);

        // To give it up, it would have to be renamed: whoever gives it up is told, and does not wait for ever.
        has["name"] = json!("aservice123");
        let cloud = cloud_with(&has);
        let done = orphan(&config(), &settled_service(&[]));
        assert_eq!((&done.outcome.failure, routes(&cloud)), (&None, vec![LIST.to_owned()]));
        let [(reason, told)] = &done.warnings[..] else { panic!("{done:?}") };
        assert!(*reason == "LoadBalancerNotReleased" && told.contains("1 node"), "{reason}: {told}");
    }
}

/// The hour counts from when it was made: whoever asks for another size meanwhile has to wait for that, and had no address until then.
#[test]
fn a_service_without_address_gets_it_although_its_size_waits_and_the_size_comes_with_the_next_comparison() {
    const REFUSED: &str = "NodesRefused";
    let is = |id: u64| Reply::json(200, json!({ "droplet": { "id": id, "name": "x", "vpc_uuid": "" } }).to_string());
    let waiting = Service { ingress: vec![], ..large() };
    let with = |droplets: Value| changed("lb-1", json!({ "droplet_ids": droplets }));
    let cloud_with =
        |has: &Value| FakeCloud::new().at(NOW).always(LIST, many(std::slice::from_ref(has))).always(GET, one(has));
    let puts = |cloud: &FakeCloud| routes(cloud).iter().filter(|line| *line == PUT).count();
    let told = |done: &Done| -> String {
        let [(reason, message)] = &done.warnings[..] else { panic!("{done:?}") };
        assert_eq!(*reason, IMMUTABLE);
        message.clone()
    };
    let hour = "lb-1 keeps the size 1 node until 2026-11-22T18:20:05Z, and gets 6 nodes then";
    let later = "the address of the Service comes first";

    // Nothing else differs.
    let cloud = cloud_with(&balancer("lb-1")).on(PUT, no(422, LAST));
    let done = ensure(&config(), &waiting, &nodes());
    assert_eq!((addresses(&done), puts(&cloud)), (both(), 1));
    assert!(told(&done).contains(hour) && told(&done).contains(later), "{done:?}");
    // It is known to wait: its status was lost, perhaps.
    let done = ensure(&config(), &waiting, &nodes());
    assert_eq!((addresses(&done), puts(&cloud)), (both(), 1));
    assert!(told(&done).contains(hour), "{done:?}");
    // The host takes it for done, until it compares all.
    let wish = Wish { service: large(), backends: vec![0, 1] };
    assert_eq!(standings(&config(), &[wish]), [Standing::Differs(vec!["size".to_owned()])]);
    let done = ensure(&config(), &large(), &nodes());
    assert_eq!((failure(&done), reasons(&done), puts(&cloud)), ((Reaction::Pending, Some(1_205_000)), vec![], 1));
    cloud.pass(1_206);
    let cloud = cloud.on(PUT, one(&changed("lb-1", json!({ "size_unit": 6 }))));
    assert_eq!(addresses(&ensure(&config(), &large(), &nodes())), both());
    assert_eq!((puts(&cloud), &body(&cloud, cloud.requests().len() - 1)["size_unit"]), (2, &json!(6)));

    // Something else differs, and is written. The cloud has another reason, or one that sounds like droplets.
    for why in [LAST, "size_unit exceeds the limit of your account", "6 nodes need 12 droplets"] {
        for (has, changes) in [(json!([100]), vec!["changed lb-1: droplets".to_owned()]), (json!([100, 101]), vec![])] {
            let cloud = cloud_with(&with(has)).on(PUT, no(422, why)).on(PUT, one(&balancer("lb-1")));
            let cloud = cloud.always("api GET /v2/droplets/100", is(100)).always(DROPLET, is(101));
            let done = ensure(&config(), &waiting, &nodes());
            assert_eq!(addresses(&done), both(), "{why}");
            assert!(told(&done).contains(why) && told(&done).contains(later), "{done:?}");
            assert_eq!((puts(&cloud), done.outcome.changes), (1 + changes.len(), changes), "{why}");
        }
    }

    // A Node joins meanwhile, and its droplet is refused.
    let cloud = cloud_with(&with(json!([100]))).on(PUT, no(422, LAST));
    assert_eq!(addresses(&ensure(&config(), &waiting, &nodes()[..1])), both());
    let cloud = cloud.on(PUT, no(422, "droplet 101 does not exist")).on(DROPLET, not_found());
    let done = ensure(&config(), &waiting, &nodes());
    assert_eq!((addresses(&done), puts(&cloud)), (both(), 2));
    assert_eq!(reasons(&done), [REFUSED, IMMUTABLE]);
}

/// Its status has the address of the one that is gone: clients went there until the size was changed, or while a droplet was refused.
#[test]
fn a_service_with_the_address_of_a_former_load_balancer_gets_the_new_one_first_too() {
    let gone = ["198.51.100.1", "2604:a880::1"].map(Ingress::ip).to_vec();
    let hostname = [(names::SIZE_UNIT, "6"), (names::HOSTNAME, "lb.example.com")];
    for (service, told) in [
        (Service { ingress: gone, ..large() }, both()),
        // Another one: it has been given a name meanwhile.
        (settled_service(&hostname), vec![Ingress::hostname("lb.example.com")]),
    ] {
        let has = changed("lb-1", json!({ "droplet_ids": [100] }));
        let cloud = FakeCloud::new().at(NOW).always(GET, one(&has)).on(PUT, no(422, LAST));
        assert_eq!(addresses(&ensure(&config(), &service, &nodes()[..1])), told);
        let cloud = cloud.on(PUT, no(422, "droplet 101 does not exist")).on(DROPLET, not_found());
        assert_eq!(addresses(&ensure(&config(), &service, &nodes())), told);
        // It is asked for once more, and then waits like any other.
        let cloud = cloud.on(DROPLET, not_found());
        assert_eq!(addresses(&ensure(&config(), &service, &nodes())), told);
        let has_it = Service { ingress: told, ..service };
        assert_eq!(failure(&ensure(&config(), &has_it, &nodes())), (Reaction::Pending, Some(300_000)));
        let asked = routes(&cloud).iter().filter(|line| *line == DROPLET).count();
        assert_eq!(asked, 2);
    }
}
