//! Lists that are too large, or do not come.

use ccm_sdk::http::TransportReason;

use super::*;

fn too_large() -> Reply {
    Reply::lost(TransportReason::TooLarge, true)
}

fn page(size: usize) -> String {
    format!("{LIST}?page=1&per_page={size}")
}

fn named() -> String {
    format!("{LIST}?names=aservice123&per_page=6")
}

fn writes(cloud: &FakeCloud) -> Vec<String> {
    routes(cloud).into_iter().filter(|line| !line.starts_with("api GET")).collect()
}

#[test]
fn pages_become_smaller_until_they_come_and_stay_so_for_a_while() {
    let cloud =
        FakeCloud::new().on(&page(50), too_large()).on(&page(25), too_large()).on(&page(12), many(&[balancer("lb-1")]));
    assert_eq!(addresses(&ensure(&config(), &service(&[]), &nodes())), both());
    assert_eq!(cloud.lines(), [page(50), page(25), page(12)]);
    let cloud = cloud.on(&page(12), many(&[balancer("lb-1")]));
    assert_eq!(addresses(&ensure(&config(), &service(&[]), &nodes())), both());
    assert_eq!(cloud.lines()[3..], [page(12)]);
    // What fails is asked for once more, no page of it twice.
    for reply in [Reply::status(504), Reply::json(200, r#"{"load_balancers": [{"id""#)] {
        let cloud = FakeCloud::new().on(&page(50), reply).on(&page(25), many(&[balancer("lb-1")]));
        assert_eq!(addresses(&ensure(&config(), &service(&[]), &nodes())), both());
        assert_eq!(cloud.lines(), [page(50), page(25)]);
    }
    // Whoever is not let in is not asked for less.
    for status in [401, 403, 429] {
        let cloud = FakeCloud::new().on(LIST, Reply::json(status, r#"{"id": "x", "message": "no"}"#));
        ensure(&config(), &service(&[]), &nodes());
        assert_eq!(cloud.lines(), [page(50)], "{status}");
    }
}

#[test]
fn what_is_known_by_its_id_needs_no_list() {
    for reply in [too_large(), Reply::status(504)] {
        let differs = changed("lb-1", json!({"droplet_ids": [100]}));
        let cloud =
            FakeCloud::new().always(LIST, reply.clone()).always(GET, one(&differs)).always(PUT, one(&balancer("lb-1")));
        let cloud = cloud.always(DELETE, Reply::status(204));
        let lists = |cloud: &FakeCloud| routes(cloud).iter().filter(|line| *line == LIST).count();
        for call in [update_backends, ensure, update_backends] {
            let done = call(&config(), &settled_service(&[]), &nodes());
            assert_eq!(
                (addresses(&done), &done.outcome.changes[..]),
                (both(), &["changed lb-1: droplets".to_owned()][..])
            );
        }
        assert!(lists(&cloud) <= 4, "it is not tried by each of a hundred: {:?}", cloud.lines());
        let mut fresh = settled_service(&[]);
        fresh.ingress.clear();
        assert_eq!(addresses(&ensure(&config(), &fresh, &nodes())), both());
        assert_eq!(get(&config(), &settled_service(&[])), Ok(Some(both())));
        assert_eq!(writes(&cloud), [PUT; 4]);
        let done = delete(&config(), &settled_service(&[]));
        assert_eq!((done.outcome.failure.clone(), written(&done)), (None, vec![(names::ID, None)]));
        assert_eq!(writes(&cloud)[4..], [DELETE]);
    }
}

#[test]
fn without_a_list_one_that_has_no_id_yet_is_found_by_its_name_where_the_cloud_heeds_names() {
    let lost = || FakeCloud::new().always(LIST, Reply::status(504));
    let _cloud = lost().on(&named(), many(&[balancer("lb-1")]));
    assert_eq!(addresses(&ensure(&config(), &service(&[]), &nodes())), both());
    let cloud = lost().on(&named(), many(&[])).on(POST, one(&balancer("lb-1")));
    assert_eq!(addresses(&ensure(&config(), &service(&[]), &nodes())), both());
    assert_eq!(writes(&cloud), [POST]);
    let cloud = lost().on(&named(), many(&[balancer("lb-1")])).on(DELETE, Reply::status(204));
    assert_eq!(delete(&config(), &service(&[])).outcome.failure, None);
    assert_eq!(writes(&cloud), [DELETE]);
    // Where it does not, the answer says nothing, and nothing is made or let go.
    let other = changed("lb-9", json!({"name": "other"}));
    for reply in
        [many(&[balancer("lb-1"), other]), Reply::status(504), Reply::json(422, r#"{"id": "x", "message": "no"}"#)]
    {
        let cloud = lost().always(&named(), reply);
        assert_eq!(failure(&ensure(&config(), &service(&[]), &nodes())).0, Reaction::Retry);
        assert_eq!(failure(&delete(&config(), &service(&[]))).0, Reaction::Retry);
        assert_eq!(failure(&delete(&config(), &settled_service(&[]))).0, Reaction::Retry, "it may have another ID now");
        assert_eq!(writes(&cloud), [""; 0]);
    }
}

#[test]
fn without_a_list_a_survey_says_what_it_knows_and_of_others_nothing() {
    let wish = |id: &str| {
        let mut service = Service { uid: id.to_owned(), ..service(&[]) };
        service.annotations.push((names::ID.to_owned(), id.to_owned()));
        Wish { service, backends: vec![0, 1] }
    };
    let unnamed = Service { uid: "new".to_owned(), ..service(&[]) };
    let wishes = [wish("lb-1"), wish("lb-2"), Wish { service: unnamed, backends: vec![0, 1] }];
    let two = "api GET /v2/load_balancers/lb-2";
    let cloud = FakeCloud::new()
        .always(LIST, Reply::status(504))
        .on(GET, one(&changed("lb-1", json!({"name": "alb1"}))))
        .on(two, not_found());
    let standings = standings(&config(), &wishes);
    let [Standing::InStep(_), Standing::Unknown(gone), Standing::Unknown(unnamed)] = &standings[..] else {
        panic!("{standings:#?}")
    };
    assert!(gone == unnamed && gone.message.contains("504"), "{gone:?}");
    assert_eq!(cloud.batches().last(), Some(&2));
    // One that cannot be read does not hide the others; where none can, nothing was compared.
    for second in [Reply::status(500), Reply::lost(TransportReason::Timeout, true)] {
        let wishes = [wish("lb-1"), wish("lb-2")];
        let lost = FakeCloud::new().always(LIST, Reply::status(504)).always(two, second.clone());
        let _cloud = lost.on(GET, one(&changed("lb-1", json!({"name": "alb1"}))));
        let seen = super::standings(&config(), &wishes);
        assert!(matches!(&seen[..], [Standing::InStep(_), Standing::Unknown(_)]), "{seen:#?}");
        let _cloud = FakeCloud::new().always(LIST, Reply::status(504)).always(two, second.clone()).always(GET, second);
        assert_eq!(survey(&config(), &nodes(), &wishes).map_err(|failure| failure.reaction), Err(Reaction::Retry));
    }
}

/// Once it failed for all, each time.
#[test]
fn without_a_list_a_survey_of_more_than_a_call_may_read_goes_on_where_the_last_one_ended() {
    let wish = |at: usize| {
        let id = format!("lb-{at}");
        let mut service = Service { uid: id.clone(), ..service(&[]) };
        service.annotations.push((names::ID.to_owned(), id));
        Wish { service, backends: vec![0, 1] }
    };
    let wishes: Vec<Wish> = (0..230).map(wish).collect();
    let mut cloud = FakeCloud::new().always(LIST, too_large());
    for at in 0..230 {
        let has = changed(&format!("lb-{at}"), json!({"name": format!("alb{at}")}));
        cloud = cloud.always(&format!("api GET /v2/load_balancers/lb-{at}"), one(&has));
    }
    for known in [(0..100).collect::<Vec<_>>(), (100..200).collect(), (200..230).chain(0..70).collect()] {
        let before = routes(&cloud).iter().filter(|line| *line != LIST).count();
        for (at, standing) in standings(&config(), &wishes).into_iter().enumerate() {
            match standing {
                Standing::InStep(_) => assert!(known.contains(&at), "{at}"),
                Standing::Unknown(failure) => {
                    assert!(!known.contains(&at) && failure.reaction == Reaction::Retry, "{at}: {failure:?}");
                    assert!(failure.message.contains("one of the next looks"), "{failure:?}");
                }
                other => panic!("{at}: {other:?}"),
            }
        }
        assert_eq!(routes(&cloud).iter().filter(|line| *line != LIST).count() - before, 100);
    }
}
