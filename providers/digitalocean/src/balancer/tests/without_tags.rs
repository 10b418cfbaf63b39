//! The cases of [`super::owners`] in a cloud that does not tell the tags of load balancers.

use super::*;

const LOOK: &str = "api GET /v2/tags/wasm-ccm-service%3Aservice-123%3Adefault%3Atest";

fn untold(id: &str, name: &str) -> Value {
    let mut balancer = changed(id, json!({"name": name}));
    balancer.as_object_mut().expect("an object").remove("tags");
    balancer
}

#[test]
fn one_of_another_service_is_neither_taken_nor_deleted_for_its_name() {
    for look in [not_found(), Reply::status(500), Reply::json(403, r#"{"id": "forbidden", "message": "no"}"#)] {
        let cloud = FakeCloud::new().always(LIST, many(&[untold("lb-1", "my-lb")])).always(LOOK, look);
        for done in [ensure(&config(), &named(), &nodes()), update_backends(&config(), &named(), &nodes())] {
            assert_eq!((failure(&done).0, written(&done)), (Reaction::Conflict, vec![]));
            let told = done.outcome.failure.expect("it may be another's");
            let way_out = format!("{}: \"lb-1\"", names::ID);
            for words in ["lb-1", "\"my-lb\"", "does not tell its tags", "default/test", way_out.as_str()] {
                assert!(told.message.contains(words), "{words}: {}", told.message);
            }
        }
        assert!(get(&config(), &named()).is_err());
        let wish = Wish { service: named(), backends: vec![0, 1] };
        assert_eq!(standings(&config(), &[wish]), [Standing::Missing]);
        let done = delete(&config(), &named());
        assert_eq!((done.outcome.failure.clone(), reasons(&done)), (None, vec!["LoadBalancerNotDeleted"]));
        assert!(done.warnings[0].1.contains("lb-1 with the name \"my-lb\" is left alone"), "{:?}", done.warnings);
        assert!(routes(&cloud).iter().all(|line| line.starts_with("api GET")), "{:?}", routes(&cloud));
        assert_eq!(routes(&cloud).iter().filter(|line| *line == LOOK).count(), 1, "it is not asked with every look");
    }
}

/// One answer with tags is enough to know that a load balancer without has none.
#[test]
fn a_cloud_that_tells_tags_of_another_one_tells_that_this_one_has_none() {
    let other = changed("lb-9", json!({"name": "other", "tags": []}));
    let cloud = FakeCloud::new().on(LIST, many(&[other, untold("lb-1", "my-lb")]));
    let cloud = tagging(cloud.on(GET, one(&untold("lb-1", "my-lb"))));
    let done = ensure(&config(), &named(), &nodes());
    assert_eq!((addresses(&done), written(&done)), (both(), vec![(names::ID, Some("lb-1"))]));
    assert_eq!(routes(&cloud), [LIST, GET, MAKE, TAG]);
}

#[test]
fn what_was_asked_for_and_not_heard_of_is_found_by_its_name() {
    let listed = || many(&[untold("lb-1", "my-lb")]);
    let lost = || Reply::lost(ccm_sdk::http::TransportReason::Timeout, true);
    let taken = || Reply::json(422, r#"{"message": "There is already a load balancer with that name"}"#);
    // Also where a listing shows it late: to a name that is taken the listing is read once more.
    for replies in [vec![(lost(), 1)], vec![(Reply::status(503), 1)], vec![(lost(), 1), (taken(), 2), (taken(), 2)]] {
        let mut cloud = FakeCloud::new();
        for (reply, listings) in replies {
            cloud = (0..listings).fold(cloud.on(POST, reply), |cloud, _| cloud.on(LIST, many(&[])));
            assert!(ensure(&config(), &named(), &nodes()).outcome.failure.is_some());
        }
        let cloud = tagging(cloud.always(LIST, listed()).always(GET, one(&untold("lb-1", "my-lb"))));
        let done = ensure(&config(), &named(), &nodes());
        assert_eq!((addresses(&done), written(&done)), (both(), vec![(names::ID, Some("lb-1"))]));
        let cloud = cloud.on(DELETE, Reply::status(204)).on(DELETE_TAG, Reply::status(204));
        let done = delete(&config(), &named());
        assert_eq!((done.outcome.failure, deletes(&cloud)), (None, vec![DELETE.to_owned()]));
    }
    // A clear no is none of that: the name is somebody's.
    let cloud = FakeCloud::new().on(LIST, many(&[])).on(POST, taken()).always(LIST, listed()).always(LOOK, not_found());
    assert_eq!(failure(&ensure(&config(), &named(), &nodes())).0, Reaction::Conflict);
    assert_eq!(failure(&ensure(&config(), &named(), &nodes())).0, Reaction::Conflict);
    assert_eq!((delete(&config(), &named()).outcome.failure, deletes(&cloud)), (None, vec![]));
}

/// Another Service's may have been made after the listing that did not show it, and what the cloud said to the request was lost.
#[test]
fn one_that_is_older_than_the_request_for_it_is_not_what_was_asked_for() {
    const NOON: u64 = 1_795_348_800;
    let lost = || Reply::lost(ccm_sdk::http::TransportReason::Timeout, true);
    for (date, created, is_own) in [
        (Some("Sun, 22 Nov 2026 12:00:00 GMT"), "2026-11-22T12:00:00Z", true),
        // Clocks of one cloud are not quite the same.
        (Some("Sun, 22 Nov 2026 12:00:00 GMT"), "2026-11-22T11:59:56Z", true),
        (Some("Sun, 22 Nov 2026 12:00:00 GMT"), "2026-11-22T11:59:50Z", false),
        // The cloud's clock counts, and not the one here.
        (Some("Sun, 22 Nov 2026 09:00:00 GMT"), "2026-11-22T09:00:01Z", true),
        (Some("Sun, 22 Nov 2026 15:00:00 GMT"), "2026-11-22T12:00:01Z", false),
        // That one where the cloud has none.
        (None, "2026-11-22T12:00:01Z", true),
        (None, "2026-11-22T11:59:50Z", false),
        (Some("soon"), "2026-11-22T11:59:50Z", false),
        // What is not told proves nothing.
        (Some("Sun, 22 Nov 2026 12:00:00 GMT"), "", true),
    ] {
        let mut has = untold("lb-1", "my-lb");
        has["created_at"] = json!(created);
        let nothing = |date: Option<&str>| match date {
            Some(date) => many(&[]).header("Date", date),
            None => many(&[]),
        };
        let cloud = FakeCloud::new().at(NOON).on(LIST, nothing(date)).on(POST, lost());
        assert!(ensure(&config(), &named(), &nodes()).outcome.failure.is_some());
        // The first request counts: that one may have made it.
        let cloud = cloud.on(LIST, many(&[]).header("Date", "Sun, 22 Nov 2026 18:00:00 GMT")).on(POST, lost());
        assert!(ensure(&config(), &named(), &nodes()).outcome.failure.is_some());
        let cloud = tagging(cloud.always(LIST, many(std::slice::from_ref(&has))).always(GET, one(&has)));
        let cloud = cloud.always(LOOK, not_found());
        let done = ensure(&config(), &named(), &nodes());
        assert_eq!(done.outcome.failure.is_none(), is_own, "{date:?} {created}: {done:?}");
        let cloud = cloud.on(DELETE, Reply::status(204)).on(DELETE_TAG, Reply::status(204));
        assert_eq!(delete(&config(), &named()).outcome.failure, None);
        assert_eq!(deletes(&cloud).is_empty(), !is_own, "{date:?} {created}");
    }
}

/// A listing of a second ago may lack what another Service with that name has just made.
#[test]
fn before_one_with_a_name_is_asked_for_the_listing_is_not_that_of_others() {
    let told = changed("lb-9", json!({"name": "other", "tags": []}));
    for (service, listed, shared) in [
        (named(), vec![], false),
        (named(), vec![untold("lb-9", "other")], false),
        // Default names are nobody else's.
        (service(&[]), vec![untold("lb-9", "other")], true),
        // What was made meanwhile says whose it is.
        (named(), vec![told], true),
    ] {
        let cloud = FakeCloud::new().always(LIST, many(&listed)).always(POST, Reply::status(500));
        for _ in 0..2 {
            ensure(&config(), &service, &nodes());
        }
        let last = cloud
            .requests()
            .into_iter()
            .rfind(|request| request.path == "/v2/load_balancers" && request.body.is_empty());
        assert_eq!(last.expect("a listing").share_ms > 0, shared, "{} of {listed:?}", service.name);
    }
}

/// Many Services with names of their own begin together: the first answer with tags is enough for all.
#[test]
fn once_the_cloud_told_the_tags_of_what_it_made_the_listing_is_that_of_others() {
    for (has, shared) in
        [(changed("lb-9", json!({"name": "my-lb", "tags": []})), true), (untold("lb-9", "my-lb"), false)]
    {
        let cloud = FakeCloud::new().always(LIST, many(&[])).on(POST, one(&has)).always(POST, Reply::status(500));
        for _ in 0..2 {
            ensure(&config(), &named(), &nodes());
        }
        let listings =
            cloud.requests().into_iter().filter(|one| one.path == "/v2/load_balancers" && one.body.is_empty());
        let listings: Vec<bool> = listings.map(|request| request.share_ms > 0).collect();
        assert_eq!((listings[0], listings[1]), (false, shared), "{has}");
    }
}

/// The process that made it is no more.
#[test]
fn a_service_without_id_whose_tag_is_there_had_one_made_and_takes_it_and_deletes_nothing() {
    let has =
        Reply::json(200, json!({ "tag": { "name": OWN.to_uppercase(), "resources": { "count": 0 } } }).to_string());
    let found = || FakeCloud::new().always(LIST, many(&[untold("lb-1", "my-lb")])).always(LOOK, has.clone());
    let cloud = tagging(found().on(GET, one(&untold("lb-1", "my-lb"))));
    let done = ensure(&config(), &named(), &nodes());
    assert_eq!((addresses(&done), written(&done)), (both(), vec![(names::ID, Some("lb-1"))]));
    assert!(routes(&cloud).contains(&LOOK.to_owned()));
    let cloud = found();
    let done = delete(&config(), &named());
    assert_eq!((reasons(&done), deletes(&cloud)), (vec!["LoadBalancerNotDeleted"], vec![]));
    // With an ID, it had one already: that is gone, and this one may be anybody's.
    let cloud = found().always(GET, not_found());
    let other = Service { annotations: named().annotations, ..known() };
    let mut other = other;
    other.annotations.push((names::ID.to_owned(), "lb-0".to_owned()));
    let cloud = cloud.always("api GET /v2/load_balancers/lb-0", not_found());
    assert_eq!(failure(&ensure(&config(), &other, &nodes())).0, Reaction::Conflict);
    assert_eq!(deletes(&cloud), [""; 0]);
}

#[test]
fn the_id_on_a_service_and_the_default_name_count_as_ever() {
    for (service, name) in [(known(), "my-lb"), (settled_service(&[]), "aservice123"), (service(&[]), "aservice123")] {
        let has = untold("lb-1", name);
        let cloud = FakeCloud::new().always(LIST, many(std::slice::from_ref(&has))).always(GET, one(&has));
        let cloud = cloud.on(DELETE, Reply::status(204)).on(DELETE_TAG, Reply::status(204));
        assert_eq!(addresses(&ensure(&config(), &service, &nodes())), both());
        let done = delete(&config(), &service);
        assert_eq!((done.outcome.failure.clone(), deletes(&cloud)), (None, vec![DELETE.to_owned()]));
        // The tag of its Service goes with it, unseen.
        assert_eq!(routes(&cloud).last().is_some_and(|line| line == DELETE_TAG), name == "my-lb");
    }
    // Taken over by its ID, it gets the Service's name.
    let cloud = FakeCloud::new().on(GET, one(&untold("lb-1", "theirs"))).on(PUT, one(&untold("lb-1", "my-lb")));
    let done = ensure(&config(), &known(), &nodes());
    assert_eq!((addresses(&done), routes(&cloud)), (both(), vec![GET.into(), PUT.into()]));
    assert_eq!(done.outcome.changes, ["changed lb-1: name"]);
}

#[test]
fn an_id_of_anothers_that_was_never_taken_over_deletes_nothing() {
    for service in [known(), settled_service(&[])] {
        let has = untold("lb-1", "theirs");
        for listed in [vec![has.clone()], vec![]] {
            let cloud = FakeCloud::new().on(LIST, many(&listed)).on(GET, one(&has));
            let done = delete(&config(), &service);
            assert_eq!((done.outcome.failure.clone(), written(&done)), (None, vec![(names::ID, None)]));
            assert_eq!((reasons(&done), deletes(&cloud)), (vec!["LoadBalancerNotDeleted"], vec![]));
            assert!(done.warnings[0].1.contains("does not tell its tags"), "{:?}", done.warnings);
        }
    }
}

/// The name was free when both asked for it. One of them had it made, or has the ID.
#[test]
fn what_was_made_for_another_service_is_not_what_this_one_asked_for() {
    let has = untold("lb-1", "my-lb");
    let other = Service { uid: "service-456".to_owned(), name: "other".to_owned(), ..named() };
    let other_known = Service { annotations: known().annotations, ..other.clone() };
    let tag = Reply::json(200, json!({ "tag": { "name": OWN, "resources": { "count": 0 } } }).to_string());
    for (is_made, look) in [(true, not_found()), (true, tag.clone()), (false, not_found()), (false, tag)] {
        let cloud = FakeCloud::new().always(LOOK, look).on(LIST, many(&[])).on(POST, Reply::status(503));
        assert!(ensure(&config(), &named(), &nodes()).outcome.failure.is_some());
        let cloud = match is_made {
            true => cloud.on(LIST, many(&[])).on(POST, one(&has)),
            false => cloud.on(GET, one(&has)),
        };
        let done = ensure(&config(), if is_made { &other } else { &other_known }, &nodes());
        assert_eq!(addresses(&done), both());
        let cloud = cloud.always(LIST, many(std::slice::from_ref(&has))).always(GET, one(&has));
        for done in [ensure(&config(), &named(), &nodes()), update_backends(&config(), &named(), &nodes())] {
            assert_eq!((failure(&done).0, written(&done)), (Reaction::Conflict, vec![]), "{is_made}");
        }
        // Neither without its ID, nor with it from a copy: only a call that makes it what the Service asks for takes it over.
        for service in [named(), known()] {
            let done = delete(&config(), &service);
            assert_eq!((done.outcome.failure.clone(), deletes(&cloud)), (None, vec![]), "{is_made}");
            assert_eq!(reasons(&done), ["LoadBalancerNotDeleted"]);
        }
        let cloud = cloud.on(DELETE, Reply::status(204));
        let taken_over = addresses(&ensure(&config(), &known(), &nodes()));
        let done = delete(&config(), &known());
        assert_eq!((taken_over, done.outcome.failure, deletes(&cloud)), (both(), None, vec![DELETE.to_owned()]));
    }
}

/// Then the listing before the request may be that of others, and answers may stop to tell tags.
#[test]
fn when_it_was_asked_for_is_known_also_where_tags_were_told_and_where_there_was_an_id() {
    const NOON: u64 = 1_795_348_800;
    let lost = || Reply::lost(ccm_sdk::http::TransportReason::Timeout, true);
    let told = changed("lb-9", json!({"name": "other", "tags": []}));
    let gone = service(&[(names::NAME, "my-lb"), (names::ID, "lb-0")]);
    let late = "Sun, 22 Nov 2026 15:00:00 GMT";
    for (service, listed, date, created, is_own) in [
        (named(), vec![told.clone()], None, "2026-11-22T11:59:50Z", false),
        (named(), vec![told.clone()], None, "2026-11-22T12:00:01Z", true),
        (named(), vec![told.clone()], Some(late), "2026-11-22T12:00:01Z", false),
        (named(), vec![told], Some(late), "2026-11-22T15:00:01Z", true),
        (gone.clone(), vec![], None, "2026-11-22T11:59:50Z", false),
        (gone.clone(), vec![], Some(late), "2026-11-22T12:00:01Z", false),
        (gone, vec![], Some(late), "2026-11-22T15:00:01Z", true),
    ] {
        let listing = || match date {
            Some(date) => many(&listed).header("Date", date),
            None => many(&listed),
        };
        let cloud = FakeCloud::new().at(NOON).always("api GET /v2/load_balancers/lb-0", not_found());
        let cloud = cloud.always(LOOK, not_found()).on(LIST, listing()).on(POST, lost());
        let another = Service { uid: "service-456".to_owned(), ..named() };
        assert!(ensure(&config(), &another, &nodes()).outcome.failure.is_some());
        let cloud = cloud.on(LIST, listing()).on(POST, lost());
        assert!(ensure(&config(), &service, &nodes()).outcome.failure.is_some());
        let mut has = untold("lb-1", "my-lb");
        has["created_at"] = json!(created);
        let _cloud = tagging(cloud.always(LIST, many(std::slice::from_ref(&has))).always(GET, one(&has)));
        let done = ensure(&config(), &service, &nodes());
        assert_eq!(done.outcome.failure.is_none(), is_own, "{date:?} {created}: {done:?}");
    }
}
