//! Services that lack an address, or how traffic comes to it, while Nodes wait: they get that first.

use super::*;
use crate::balancer::given;

/// As the cloud has it after the last write.
fn written_last(cloud: &FakeCloud) -> Value {
    let mut asked = body(cloud, cloud.requests().len() - 1);
    asked.as_object_mut().expect("an object").remove("region");
    let mut has = changed("lb-1", asked);
    has["vpc_uuid"] = json!("v-1");
    has
}

/// Those of the load balancer.
fn proxied() -> Vec<Ingress> {
    both().into_iter().map(Ingress::proxied).collect()
}

/// kube-proxy takes a short cut to the pods, which then miss the header of the PROXY protocol. The address stays the same, and the Service
/// once waited for a Node that never comes.
#[test]
fn a_service_hears_that_its_traffic_is_changed_although_a_node_is_refused_and_then_waits() {
    let first = changed("lb-1", json!({ "type": "REGIONAL", "droplet_ids": [100], "vpc_uuid": "v-1" }));
    // The API server keeps `ipMode`, or drops it.
    for kept in [proxied(), both()] {
        let plain = settled_service(&[]);
        let asks = settled_service(&[(names::PROXY_PROTOCOL, "true")]);
        let cloud = FakeCloud::new()
            .on(GET, one(&first))
            .on(PUT, other_vpc())
            .on(DROPLET, droplet(101, "v-2"))
            .on(PUT, one(&first));
        assert_eq!(failure(&ensure(&config(), &plain, &nodes())).0, Reaction::Pending);
        let has_plain = written_last(&cloud);
        let answer = changed("lb-1", json!({ "type": "REGIONAL", "enable_proxy_protocol": true }));
        let cloud = cloud.on(GET, one(&has_plain)).on(PUT, one(&answer));
        let done = ensure(&config(), &asks, &nodes());
        assert_eq!(addresses(&done), proxied());
        assert!(told(&done).contains("n101"), "{done:?}");
        let has_proxy = written_last(&cloud);
        // Perhaps the host could not write it.
        cloud.pass(59);
        let cloud = cloud.on(GET, one(&has_proxy)).on(DROPLET, droplet(101, "v-2"));
        assert_eq!(addresses(&ensure(&config(), &asks, &nodes())), proxied());
        // Now it waits like any other, and asks for nothing more.
        cloud.pass(1);
        let cloud = cloud.on(GET, one(&has_proxy)).on(GET, one(&has_proxy));
        let asks = Service { ingress: kept.clone(), ..asks };
        let before = routes(&cloud).len();
        for _ in 0..2 {
            let done = ensure(&config(), &asks, &nodes());
            assert_eq!((failure(&done).0, told(&done).contains("n101")), (Reaction::Pending, true));
        }
        assert_eq!(routes(&cloud)[before..], [GET, GET]);
        // It is taken back.
        let cloud = cloud.on(GET, one(&has_proxy)).on(PUT, one(&has_plain));
        let done = ensure(&config(), &Service { ingress: kept.clone(), ..plain.clone() }, &nodes());
        if kept == both() {
            assert_eq!(failure(&done).0, Reaction::Pending, "the status says so already");
        } else {
            assert_eq!(addresses(&done), both());
        }
        // And it is asked for again.
        let _cloud = cloud.on(GET, one(&has_plain)).on(PUT, one(&has_proxy));
        let asks = Service { ingress: both(), ..asks };
        assert_eq!(addresses(&ensure(&config(), &asks, &nodes())), proxied());
    }
}

/// It was told at first without its IPv6 address.
#[test]
fn an_address_that_comes_later_is_given_although_a_node_is_refused() {
    let first = changed("lb-1", json!({ "droplet_ids": [100], "vpc_uuid": "v-1", "ipv6": "" }));
    let known = Service { ingress: both()[..1].to_vec(), ..settled_service(&[]) };
    let cloud = FakeCloud::new().on(GET, one(&first)).on(PUT, no_such()).always(DROPLET, not_found());
    assert_eq!(failure(&ensure(&config(), &known, &nodes())).0, Reaction::Pending);
    let _cloud = cloud.always(GET, one(&updated(&json!([100]))));
    assert_eq!(addresses(&ensure(&config(), &known, &nodes())), both());
    assert_eq!(failure(&ensure(&config(), &settled_service(&[]), &nodes())).0, Reaction::Pending);
}

/// Another Service is not the one that was given it, and what was given is known for a day.
#[test]
fn what_was_given_is_known_of_one_service_and_for_a_day() {
    let has = changed("lb-1", json!({ "type": "REGIONAL", "enable_proxy_protocol": true }));
    let balancer: Balancer = serde_json::from_value(has).unwrap();
    let ingress = desired::ingress(&settled_service(&[]), &balancer, None);
    assert_eq!(ingress, proxied());
    let cloud = FakeCloud::new();
    let (one, other) = (settled_service(&[]), Service { uid: "other".to_owned(), ..settled_service(&[]) });
    let is_due = |service: &Service| given::is_due(service, &ingress);
    assert!(is_due(&one) && is_due(&other));
    given::give(&one, &ingress);
    cloud.pass(60);
    // Once more does not begin anew.
    given::give(&one, &ingress);
    assert!(!is_due(&one) && is_due(&other));
    // Something else is.
    assert!(given::is_due(&one, &[ingress[0].clone(), Ingress::ip("2604:a880::9").proxied()]));
    assert!(given::is_due(&Service { ingress: proxied(), ..one.clone() }, &both()));
    // None of them: it is given as often as it is asked for.
    assert!(is_due(&Service { ingress: vec![], ..one.clone() }));
    assert!(is_due(&Service { ingress: vec![Ingress::ip("198.51.100.1")], ..one.clone() }));
    cloud.pass(24 * 3_600 - 61);
    assert!(!is_due(&one));
    cloud.pass(1);
    assert!(is_due(&one));
}

/// Once a Service without address waited for as long as the cloud refused droplets and did not say which.
#[test]
fn a_service_without_address_gets_it_although_nobody_knows_which_droplet_is_refused() {
    let waiting = Service { ingress: vec![], ..settled_service(&[]) };
    let wrong = Service { ingress: vec![], ..settled_service(&[(names::HEALTH_INTERVAL, "soon")]) };
    let untold = |droplets: Value| {
        changed("lb-1", json!({ "droplet_ids": droplets, "vpc_uuid": "v-1", "size": null, "size_unit": null }))
    };
    let cloud_with = |has: &Value, add: &str| {
        FakeCloud::new()
            .always(GET, one(has))
            .always(LIST, many(std::slice::from_ref(has)))
            .always(add, no_such())
            .always(DROPLET, droplet(101, "v-1"))
            .always("api GET /v2/droplets/100", droplet(100, "v-1"))
            .on(LESS, Reply::status(204))
    };
    let later = "the address of the Service comes first, and the rest is tried again with the next change, or when all load balancers are compared";
    for (change, service, has, add) in [
        (ensure as fn(&Config, &Service, &[Backend]) -> Done, &waiting, outdated(&json!([9, 100])), PUT),
        (ensure, &waiting, untold(json!([9, 100])), MORE),
        (update_backends, &waiting, updated(&json!([9, 100])), PUT),
        (update_backends, &wrong, updated(&json!([9, 100])), MORE),
    ] {
        let cloud = cloud_with(&has, add);
        let done = change(&config(), service, &nodes());
        assert_eq!(addresses(&done), both());
        let told = told(&done);
        assert!(told.contains("lb-1") && told.contains("droplet 101 does not exist") && told.contains(later), "{told}");
        assert_eq!(body(&cloud, cloud.requests().len() - 1), json!({ "droplet_ids": [9] }), "who went is taken away");
        // Whoever has it waits as ever.
        let has_it = Service { ingress: both(), ..service.clone() };
        let _cloud = cloud_with(&has, add);
        let done = change(&config(), &has_it, &nodes());
        assert_eq!(failure(&done), (Reaction::Retry, None));
        assert!(!reasons(&done).contains(&REFUSED), "{done:?}");
    }
    // The API server drops `ipMode`: it is given once.
    let mut has = outdated(&json!([100]));
    (has["type"], has["enable_proxy_protocol"]) = (json!("REGIONAL"), json!(true));
    let cloud = cloud_with(&has, PUT);
    let asks = settled_service(&[(names::PROXY_PROTOCOL, "true")]);
    assert_eq!(addresses(&ensure(&config(), &asks, &nodes())), proxied());
    cloud.pass(60);
    assert_eq!(failure(&ensure(&config(), &asks, &nodes())), (Reaction::Retry, None));
    // While the cloud fails to take away who went, it is tried again soon.
    let _cloud = FakeCloud::new()
        .on(GET, one(&outdated(&json!([9, 100]))))
        .always(PUT, no_such())
        .always(DROPLET, droplet(101, "v-1"))
        .always("api GET /v2/droplets/100", droplet(100, "v-1"))
        .always(LESS, Reply::status(503));
    assert_eq!(failure(&ensure(&config(), &waiting, &nodes())).0, Reaction::Retry);
    // There is nothing to give.
    let mut has = outdated(&json!([9, 100]));
    (has["ip"], has["ipv6"]) = (json!(""), json!(""));
    let _cloud = cloud_with(&has, PUT);
    assert_eq!(failure(&ensure(&config(), &waiting, &nodes())), (Reaction::Retry, None));
    // What the Service asks for is wrong, and that is told before all.
    let _cloud = cloud_with(&updated(&json!([9, 100])), MORE);
    let done = ensure(&config(), &wrong, &nodes());
    assert_eq!(failure(&done).0, Reaction::Retry);
    assert!(!reasons(&done).contains(&REFUSED), "{done:?}");
    let told = done.outcome.failure.as_ref().expect("it comes again");
    assert!(told.field.as_ref().is_some_and(|field| field.contains(names::HEALTH_INTERVAL)), "{told:?}");
    let (wrong, droplets) = (told.message.find(names::HEALTH_INTERVAL), told.message.find("droplet 101"));
    assert!(wrong.is_some() && wrong < droplets, "{told:?}");
}

/// The host looks again an hour after it has written an address: once ports and health check were missing until then.
#[test]
fn where_nobody_knows_which_droplet_is_refused_all_else_is_written_with_those_that_it_has() {
    let waiting = Service { ingress: vec![], ..settled_service(&[]) };
    let cloud_with = |has: &Value| {
        FakeCloud::new()
            .on(GET, one(has))
            .on(PUT, no_such())
            .always(DROPLET, droplet(101, "v-1"))
            .always("api GET /v2/droplets/100", droplet(100, "v-1"))
    };
    // Those of Nodes that went are not among them, unless it would be without any.
    for (has, kept) in [(json!([100]), json!([100])), (json!([9, 100]), json!([100])), (json!([9]), json!([9]))] {
        for service in [&waiting, &settled_service(&[])] {
            let cloud = cloud_with(&outdated(&has)).on(PUT, one(&updated(&kept)));
            let done = ensure(&config(), service, &nodes());
            if service.ingress.is_empty() {
                assert_eq!(addresses(&done), both());
                assert!(told(&done).contains("droplet 101 does not exist"), "{done:?}");
            } else {
                assert_eq!(failure(&done), (Reaction::Retry, None));
            }
            let at = routes(&cloud).len() - 1;
            assert_eq!(routes(&cloud)[at], PUT, "{kept}");
            assert_eq!(body(&cloud, at)["droplet_ids"], kept);
            assert_eq!(body(&cloud, at)["forwarding_rules"].as_array().map(Vec::len), Some(1));
            let parts = if has == kept { "forwarding rules" } else { "forwarding rules, droplets" };
            assert_eq!(done.outcome.changes, [format!("changed lb-1: {parts}")]);
        }
    }
    // The words may be about the size: it is tried without.
    let cloud = cloud_with(&outdated(&json!([100])));
    let cloud = (0..2).fold(cloud, |cloud, _| cloud.on(PUT, no_such())).on(PUT, one(&updated(&json!([100]))));
    let sized = Service { ingress: vec![], ..settled_service(&[(names::SIZE_UNIT, "3")]) };
    assert_eq!(addresses(&ensure(&config(), &sized, &nodes())), both());
    let at = routes(&cloud).len() - 1;
    let sent = |at: usize| (body(&cloud, at)["droplet_ids"].clone(), body(&cloud, at)["size_unit"].clone());
    assert_eq!((sent(at - 1), sent(at)), ((json!([100]), json!(3)), (json!([100]), json!(1))));
    // One that it has just refused is not asked for again.
    let cloud = FakeCloud::new()
        .on(GET, one(&outdated(&json!([100]))))
        .on(PUT, no("Load Balancer can only be resized once every hour"))
        .on(PUT, no_such())
        .always(DROPLET, droplet(101, "v-1"))
        .always("api GET /v2/droplets/100", droplet(100, "v-1"))
        .on(PUT, one(&updated(&json!([100]))));
    assert_eq!(addresses(&ensure(&config(), &sized, &nodes())), both());
    let last = body(&cloud, routes(&cloud).len() - 1);
    assert_eq!((&last["droplet_ids"], &last["size_unit"]), (&json!([100]), &json!(1)));
    // How its traffic comes is as it was written.
    let has = changed("lb-1", json!({ "type": "REGIONAL", "droplet_ids": [100], "vpc_uuid": "v-1" }));
    let then = changed(
        "lb-1",
        json!({ "type": "REGIONAL", "enable_proxy_protocol": true, "droplet_ids": [100], "vpc_uuid": "v-1" }),
    );
    let _cloud = cloud_with(&has).on(PUT, one(&then));
    assert_eq!(
        addresses(&ensure(&config(), &settled_service(&[(names::PROXY_PROTOCOL, "true")]), &nodes())),
        proxied()
    );
    // Nothing else differs, the no is about one that it has, or the rest cannot be written now: the address comes all the same.
    for (has, reply, puts) in [
        (updated(&json!([100])), None, 1),
        (outdated(&json!([100, 101])), None, 1),
        (outdated(&json!([100])), Some(no_such()), 2),
        (outdated(&json!([100])), Some(Reply::status(503)), 2),
    ] {
        let cloud = cloud_with(&has);
        let cloud = reply.into_iter().fold(cloud, |cloud, reply| cloud.always(PUT, reply));
        assert_eq!(addresses(&ensure(&config(), &waiting, &nodes())), both());
        assert_eq!(routes(&cloud).iter().filter(|line| *line == PUT).count(), puts, "{has}");
    }
    // The cloud does not want it so: that is told before all, with the words about the droplets.
    let _cloud = cloud_with(&outdated(&json!([100]))).on(PUT, no("ports are wrong")).on(MORE, no_such());
    let done = ensure(&config(), &waiting, &nodes());
    assert_eq!(failure(&done).0, Reaction::Retry);
    let message = &done.outcome.failure.as_ref().expect("it comes again").message;
    assert!(message.find("ports are wrong") < message.find("droplet 101"), "{message}");
    assert!(message.contains("ports are wrong"), "{message}");
}
