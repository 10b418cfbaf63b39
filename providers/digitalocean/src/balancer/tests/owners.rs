//! Of several Services that ask for the same name, one has the load balancer.

use super::*;

const THEIRS: &str = "wasm-ccm-service:u-2:shop:web";
const UNTAG: &str = "api DELETE /v2/tags/wasm-ccm-service%3Au-2%3Ashop%3Aweb/resources";

fn tagged(id: &str, tags: &[&str]) -> Value {
    changed(id, json!({"name": "my-lb", "tags": tags}))
}

#[test]
fn a_new_one_with_a_name_that_is_asked_for_names_its_service() {
    let ours = Config { tag: Some("k8s:ours".to_owned()), ..config() };
    for (config, service, tags) in [
        (&config(), named(), Some(json!([OWN]))),
        (&ours, named(), Some(json!(["k8s:ours", OWN]))),
        (&config(), service(&[]), None),
        (&ours, service(&[]), Some(json!(["k8s:ours"]))),
    ] {
        let cloud = FakeCloud::new().on(LIST, many(&[])).on(POST, one(&tagged("lb-1", &[OWN])));
        assert_eq!(addresses(&ensure(config, &service, &nodes())), both());
        assert_eq!((routes(&cloud), body(&cloud, 1).get("tags").cloned()), (vec![LIST.into(), POST.into()], tags));
    }
}

#[test]
fn a_cloud_that_refuses_the_tag_of_a_new_one_gets_it_made_once_and_else_none() {
    let forbidden = || Reply::json(403, r#"{"id": "forbidden", "message": "no"}"#);
    let no_tag = || Reply::json(422, r#"{"id": "unprocessable_entity", "message": "Tag does not exist"}"#);
    let made = || one(&balancer("lb-1"));
    for no in [forbidden, not_found, no_tag] {
        let cloud = FakeCloud::new().on(LIST, many(&[])).on(POST, no()).on(MAKE, Reply::status(201)).on(POST, made());
        let done = ensure(&config(), &named(), &nodes());
        assert_eq!((addresses(&done), reasons(&done)), (both(), vec![]));
        assert_eq!(routes(&cloud), [LIST, POST, MAKE, POST]);
        assert_eq!((body(&cloud, 2), body(&cloud, 3)["tags"].clone()), (json!({ "name": OWN }), json!([OWN])));
        for (make, again) in [(Reply::status(201), Some(no())), (forbidden(), None), (no_tag(), None)] {
            let mut cloud = FakeCloud::new().on(LIST, many(&[])).on(POST, no()).on(MAKE, make);
            let lines = [&[LIST, POST, MAKE][..], &vec![POST; 1 + usize::from(again.is_some())]].concat();
            if let Some(reply) = again {
                cloud = cloud.on(POST, reply);
            }
            let cloud = cloud.on(POST, made());
            let ours = Config { tag: Some("k8s:ours".to_owned()), ..config() };
            let done = ensure(&ours, &named(), &nodes());
            assert_eq!((addresses(&done), reasons(&done)), (both(), vec!["LoadBalancerNotMarked"]));
            assert_eq!(written(&done), [(names::ID, Some("lb-1"))]);
            assert_eq!(
                (routes(&cloud), body(&cloud, lines.len() - 1)["tags"].clone()),
                (lines.iter().map(ToString::to_string).collect(), json!(["k8s:ours"]))
            );
        }
    }
    // A trouble that goes by leaves none unmarked; what is about something else, or has no tag of its own, is not repeated.
    let cloud = FakeCloud::new().on(LIST, many(&[])).on(POST, no_tag()).on(MAKE, Reply::status(500));
    assert_eq!(failure(&ensure(&config(), &named(), &nodes())).0, Reaction::Retry);
    assert_eq!(routes(&cloud), [LIST, POST, MAKE]);
    let quota = Reply::json(403, r#"{"message": "you have reached the limit"}"#);
    let invalid = Reply::json(422, r#"{"message": "size is invalid"}"#);
    for (service, reply) in
        [(named(), quota), (named(), invalid), (named(), Reply::status(500)), (service(&[]), forbidden())]
    {
        let cloud = FakeCloud::new().on(LIST, many(&[])).on(POST, reply);
        assert!(ensure(&config(), &service, &nodes()).outcome.failure.is_some());
        assert_eq!(routes(&cloud), [LIST, POST]);
    }
}

#[test]
fn one_of_another_service_is_neither_taken_nor_deleted_for_its_name() {
    for tags in [&[THEIRS][..], &["x", THEIRS], &["k8s:ours", THEIRS], &[OWN, THEIRS]] {
        let cloud = FakeCloud::new().always(LIST, many(&[tagged("lb-1", tags)]));
        let ours = Config { tag: Some("k8s:ours".to_owned()), ..config() };
        for done in [ensure(&ours, &named(), &nodes()), update_backends(&ours, &named(), &nodes())] {
            assert_eq!((failure(&done).0, written(&done)), (Reaction::Conflict, vec![]), "{tags:?}");
            let failure = done.outcome.failure.expect("it is another's");
            let way_out = format!("{}: \"lb-1\"", names::ID);
            for words in ["lb-1", "\"my-lb\"", "shop/web", "u-2", "default/test", "service-123", way_out.as_str()] {
                assert!(failure.message.contains(words), "{words}: {}", failure.message);
            }
            assert_eq!(failure.field, Some(format!("metadata.annotations[{}]", names::NAME)));
        }
        assert_eq!((get(&ours, &named()).is_err(), delete(&ours, &named())), (true, Done::new()));
        let wish = Wish { service: named(), backends: vec![0, 1] };
        assert_eq!(standings(&ours, &[wish]), [Standing::Missing]);
        assert_eq!(routes(&cloud), [LIST; 5]);
    }
}

/// The default name of another Service, whose load balancer has no tag: it is called by its UID.
const VICTIM: &str = "ac3d4e5f600004abc9def00000000000";

/// A Service that asked for that name had the load balancer tagged as its own, and deleted with it.
#[test]
fn the_default_name_of_another_service_is_not_to_be_had_by_asking_for_it() {
    const LOOK: &str = "api GET /v2/tags/wasm-ccm-service%3Aservice-123%3Adefault%3Atest";
    let thief = service(&[(names::NAME, VICTIM)]);
    // Of another one that it once had.
    let look = Reply::json(200, json!({"tag": {"name": OWN}}).to_string());
    let ours = Config { tag: Some("k8s:ours".to_owned()), ..config() };
    for tags in [json!([]), json!(["k8s:ours"]), Value::Null] {
        let has = changed("lb-1", json!({"name": VICTIM, "tags": tags}));
        let cloud = FakeCloud::new().always(LIST, many(&[has])).always(LOOK, look.clone());
        for done in [ensure(&ours, &thief, &nodes()), update_backends(&ours, &thief, &nodes())] {
            assert_eq!((failure(&done).0, written(&done)), (Reaction::Conflict, vec![]), "{tags}");
            let told = done.outcome.failure.expect("it is another's").message;
            assert!(tags.is_null() || told.contains(&VICTIM[1..]), "{told}");
        }
        assert_eq!((delete(&ours, &thief).outcome.failure, deletes(&cloud)), (None, vec![]), "{tags}");
        assert!(routes(&cloud).iter().all(|line| line.starts_with("api GET")), "{:?}", routes(&cloud));
    }
    // What was made for it under that name is its own; so is what its ID leads to.
    let own = changed("lb-1", json!({"name": VICTIM, "tags": [OWN]}));
    let _cloud = FakeCloud::new().on(LIST, many(std::slice::from_ref(&own)));
    assert_eq!(addresses(&ensure(&ours, &thief, &nodes())), both());
    let taken = changed("lb-1", json!({"name": VICTIM, "tags": []}));
    let cloud = FakeCloud::new().on(LIST, many(&[taken])).on(DELETE, Reply::status(204));
    assert_eq!(delete(&ours, &settled_service(&[(names::NAME, VICTIM)])).outcome.failure, None);
    assert_eq!(deletes(&cloud), [DELETE]);
}

/// Who knows the UID of a Service that will want a load balancer asked for its name before: both changed and deleted the same one.
#[test]
fn what_another_service_made_under_the_default_name_is_not_shared_with_it() {
    let squatted = changed("lb-1", json!({"tags": [THEIRS]}));
    let cloud = FakeCloud::new().always(LIST, many(std::slice::from_ref(&squatted)));
    for done in [ensure(&config(), &service(&[]), &nodes()), update_backends(&config(), &service(&[]), &nodes())] {
        assert_eq!((failure(&done).0, written(&done)), (Reaction::Conflict, vec![]));
        let told = done.outcome.failure.expect("it is another's").message;
        assert!(["shop/web", "u-2", names::ID].iter().all(|words| told.contains(words)), "{told}");
    }
    assert_eq!((delete(&config(), &service(&[])), deletes(&cloud)), (Done::new(), vec![]));
    // Both tags are there where it was taken over by its ID, which was lost.
    let cloud = FakeCloud::new().on(LIST, many(&[changed("lb-1", json!({"tags": [OWN, THEIRS]}))]));
    assert_eq!(addresses(&ensure(&config(), &service(&[]), &nodes())), both());
    assert_eq!(routes(&cloud), [LIST]);
}

#[test]
fn a_name_that_was_taken_within_the_last_second_is_told_with_its_owner() {
    let taken = || Reply::json(422, r#"{"message": "There is already a load balancer with that name"}"#);
    for (now, words) in [
        (many(&[tagged("lb-1", &[THEIRS])]), "shop/web"),
        (many(&[tagged("lb-1", &["x"])]), "There is already"),
        (Reply::status(500), "There is already"),
    ] {
        let cloud = FakeCloud::new().on(LIST, many(&[])).on(POST, taken()).on(LIST, now);
        let done = ensure(&config(), &named(), &nodes());
        let told = done.outcome.failure.expect("the name is taken");
        assert_eq!(told.reaction, Reaction::Conflict);
        assert!(told.message.contains(words), "{}", told.message);
        assert_eq!(routes(&cloud)[..3], [LIST, POST, LIST]);
    }
}

#[test]
fn one_of_nobody_is_taken_by_its_name_and_marked_before_its_id_is_written_down() {
    let free = tagged("lb-1", &["x"]);
    for change in [ensure, update_backends] {
        let cloud = tagging(FakeCloud::new().on(LIST, many(std::slice::from_ref(&free))).on(GET, one(&free)));
        let done = change(&config(), &named(), &nodes());
        assert_eq!((addresses(&done), written(&done)), (both(), vec![(names::ID, Some("lb-1"))]));
        assert_eq!(routes(&cloud), [LIST, GET, MAKE, TAG]);
        assert_eq!(body(&cloud, 3)["resources"][0]["resource_id"], "lb-1");
    }
    // Who cannot mark it does not have it.
    let refused = Reply::json(403, r#"{"id": "forbidden", "message": "no"}"#);
    for (now, tag) in [(&free, Some(refused)), (&tagged("lb-1", &[THEIRS]), None)] {
        let mut cloud = FakeCloud::new().on(LIST, many(std::slice::from_ref(&free))).on(GET, one(now));
        if let Some(reply) = tag {
            cloud = cloud.on(MAKE, reply);
        }
        let done = ensure(&config(), &named(), &nodes());
        assert_eq!((done.outcome.failure.is_some(), written(&done)), (true, vec![]));
        assert!(routes(&cloud).iter().all(|line| line != PUT));
    }
}

#[test]
fn what_has_the_services_tag_is_found_by_its_name_without_a_write_whatever_cluster_it_was_of() {
    for tags in [&[OWN][..], &["k8s:former", OWN], &["wasm-ccm-service:service-123:old:name"]] {
        let cloud = FakeCloud::new().on(LIST, many(&[tagged("lb-1", tags)]));
        let done = ensure(&config(), &named(), &nodes());
        assert_eq!((addresses(&done), written(&done)), (both(), vec![(names::ID, Some("lb-1"))]));
        assert_eq!(routes(&cloud), [LIST]);
    }
}

/// A tag is the same in any case, and the account keeps that of whoever made it first.
#[test]
fn tags_say_the_same_in_any_case() {
    let ours = Config { tag: Some("k8s:Ours".to_owned()), ..config() };
    let capitals = OWN.to_uppercase();
    for (tags, marked) in [(&["K8S:ours", "x"][..], true), (&[&capitals], false), (&["k8s:former", &capitals], false)] {
        let balancer = tagged("lb-1", tags);
        let cloud = FakeCloud::new()
            .on(LIST, many(std::slice::from_ref(&balancer)))
            .on(GET, one(&balancer))
            .on(MAKE, Reply::json(201, "{}"))
            .on(TAG, Reply::status(204));
        let done = ensure(&ours, &named(), &nodes());
        assert_eq!(written(&done), [(names::ID, Some("lb-1"))], "{tags:?}: {done:?}");
        assert_eq!(routes(&cloud).len(), if marked { 4 } else { 1 }, "{tags:?}");
    }
    for theirs in ["K8S:other", "Wasm-CCM-Service:u-2:shop:web"] {
        let _cloud = FakeCloud::new().on(LIST, many(&[tagged("lb-1", &[theirs])]));
        assert_eq!(failure(&ensure(&ours, &named(), &nodes())).0, Reaction::Conflict, "{theirs}");
    }
}

#[test]
fn one_that_is_known_by_its_id_is_not_written_for_the_tag_alone_but_with_its_next_change() {
    let cloud = FakeCloud::new().on(GET, one(&tagged("lb-1", &[])));
    assert_eq!(addresses(&ensure(&config(), &known(), &nodes())), both());
    assert_eq!(routes(&cloud), [GET]);

    let mut differs = tagged("lb-1", &["x"]);
    differs["droplet_ids"] = json!([]);
    let refused = Reply::json(403, r#"{"id": "forbidden", "message": "no"}"#);
    let exists = || Reply::json(422, r#"{"message": "name has already been taken"}"#);
    let warned = vec!["LoadBalancerNotMarked"];
    for (make, tag, reasons_of, tags) in [
        (Reply::status(201), Some(Reply::status(204)), vec![], &[MAKE, TAG][..]),
        // Of another load balancer that the Service once had.
        (exists(), Some(Reply::status(204)), vec![], &[MAKE, TAG]),
        (exists(), Some(not_found()), warned.clone(), &[MAKE, TAG]),
        (Reply::status(201), Some(refused.clone()), warned.clone(), &[MAKE, TAG]),
        (refused, None, warned.clone(), &[MAKE]),
        (Reply::status(500), None, warned, &[MAKE]),
    ] {
        let mut cloud = FakeCloud::new().on(GET, one(&differs)).on(PUT, one(&tagged("lb-1", &[]))).on(MAKE, make);
        if let Some(reply) = tag {
            cloud = cloud.on(TAG, reply);
        }
        let done = ensure(&config(), &known(), &nodes());
        assert_eq!((addresses(&done), reasons(&done)), (both(), reasons_of));
        assert_eq!(routes(&cloud), [&[GET, PUT], tags].concat());
    }
    // What was not changed has no tag put on it either.
    let cloud = FakeCloud::new().on(GET, one(&differs)).on(PUT, Reply::status(500));
    assert_eq!(failure(&ensure(&config(), &known(), &nodes())).0, Reaction::Retry);
    assert_eq!(routes(&cloud), [GET, PUT]);
    // A cloud that tells no tags is not asked for them again and again.
    differs.as_object_mut().expect("an object").remove("tags");
    let cloud = FakeCloud::new().on(GET, one(&differs)).on(PUT, one(&differs));
    assert_eq!(addresses(&ensure(&config(), &known(), &nodes())), both());
    assert_eq!(routes(&cloud), [GET, PUT]);
}

#[test]
fn the_id_on_a_service_takes_over_and_the_tag_follows() {
    let cloud = tagging(FakeCloud::new().on(GET, one(&tagged("lb-1", &["x", THEIRS])))).on(UNTAG, Reply::status(204));
    let done = ensure(&config(), &known(), &nodes());
    assert_eq!((addresses(&done), reasons(&done)), (both(), vec!["LoadBalancerTakenOver"]));
    assert_eq!(done.outcome.changes, [format!("tagged lb-1 with {OWN}"), format!("took tag {THEIRS} off lb-1")]);
    assert_eq!(routes(&cloud), [GET, MAKE, TAG, UNTAG]);
    for words in ["lb-1", "shop/web", "u-2", names::ID, names::DISOWN] {
        assert!(done.warnings[0].1.contains(words), "{words}: {:?}", done.warnings);
    }
    // Trouble goes by; a token that may not tag keeps nobody from what it has by ID.
    let cloud = FakeCloud::new().on(GET, one(&tagged("lb-1", &[THEIRS]))).on(MAKE, Reply::status(500));
    assert_eq!(failure(&ensure(&config(), &known(), &nodes())).0, Reaction::Retry);
    assert_eq!(routes(&cloud), [GET, MAKE]);
    let forbidden = || Reply::json(403, r#"{"id": "forbidden", "message": "no"}"#);
    let warned = vec!["LoadBalancerTakenOver", "LoadBalancerNotMarked"];
    for tag in [forbidden(), Reply::status(204)] {
        let cloud = FakeCloud::new()
            .on(GET, one(&tagged("lb-1", &[THEIRS])))
            .on(MAKE, Reply::status(201))
            .on(TAG, tag)
            .always(UNTAG, forbidden());
        let done = ensure(&config(), &known(), &nodes());
        assert_eq!((addresses(&done), reasons(&done)), (both(), warned.clone()));
        assert_eq!(routes(&cloud)[..3], [GET, MAKE, TAG]);
        assert!(done.warnings[1].1.contains("tag:delete"), "{:?}", done.warnings);
        // It is not tried with every look.
        let tried = routes(&cloud);
        let cloud = cloud.on(GET, one(&tagged("lb-1", &[OWN, THEIRS])));
        let done = ensure(&config(), &known(), &nodes());
        assert_eq!((addresses(&done), reasons(&done)), (both(), vec![]));
        assert_eq!(routes(&cloud), [tried, vec![GET.to_owned()]].concat());
    }
    // With the default name no tag is needed.
    let mut default = balancer("lb-1");
    default["tags"] = json!([THEIRS]);
    let cloud = FakeCloud::new().on(GET, one(&default)).on(UNTAG, Reply::status(204));
    assert_eq!(addresses(&ensure(&config(), &settled_service(&[]), &nodes())), both());
    assert_eq!(routes(&cloud), [GET, UNTAG]);
}

#[test]
fn with_an_id_that_the_cloud_does_not_have_what_names_the_service_is_deleted_and_nothing_else() {
    const DELETE_2: &str = "api DELETE /v2/load_balancers/lb-2";
    for (tags, deleted) in [
        (&[OWN][..], true),
        (&["k8s:former", OWN], true),
        (&[], false),
        (&["x"], false),
        (&["k8s:theirs"], false),
        (&[THEIRS], false),
        (&[OWN, THEIRS], false),
    ] {
        let cloud = FakeCloud::new()
            .on(LIST, many(&[tagged("lb-2", tags)]))
            .always(GET, not_found())
            .on(DELETE, not_found())
            .on(DELETE_2, Reply::status(204));
        let done = delete(&config(), &known());
        assert_eq!((done.outcome.failure.clone(), written(&done)), (None, vec![(names::ID, None)]), "{tags:?}");
        assert_eq!(routes(&cloud).contains(&DELETE_2.to_owned()), deleted, "{tags:?}");
    }
    // One that is there is in no listing yet; whether it is cannot be asked.
    for (reply, fails) in [(one(&tagged("lb-1", &[OWN])), false), (Reply::status(500), true)] {
        let cloud =
            FakeCloud::new().on(LIST, many(&[tagged("lb-2", &[OWN])])).on(GET, reply).on(DELETE, Reply::status(204));
        assert_eq!(delete(&config(), &known()).outcome.failure.is_some(), fails);
        assert!(!routes(&cloud).contains(&DELETE_2.to_owned()));
    }
}

#[test]
fn what_a_service_never_had_is_not_deleted_for_its_name() {
    const DELETE_1: &str = "api DELETE /v2/load_balancers/lb-1";
    // It was refused from the beginning, so that nothing was ever marked as its own.
    let invalid = service(&[(names::NAME, "my-lb"), (names::TYPE, "abcd")]);
    for service in [named(), invalid] {
        for (tags, deleted) in [(&[][..], false), (&["x"], false), (&[OWN], true)] {
            let cloud = FakeCloud::new().on(LIST, many(&[tagged("lb-1", tags)])).on(DELETE_1, Reply::status(204));
            assert_eq!(delete(&config(), &service).outcome.failure, None);
            assert_eq!(routes(&cloud).contains(&DELETE_1.to_owned()), deleted, "{tags:?}");
        }
    }
    // It may be paid for and used by nobody, so that people hear of it.
    let ours = Config { tag: Some("k8s:ours".to_owned()), ..config() };
    for (tags, told) in [(&["k8s:ours"][..], vec!["LoadBalancerNotDeleted"]), (&[THEIRS], vec![]), (&["k8s:x"], vec![])]
    {
        let cloud = FakeCloud::new().on(LIST, many(&[tagged("lb-1", tags)]));
        let done = delete(&ours, &named());
        assert_eq!((done.outcome.failure.clone(), reasons(&done)), (None, told), "{tags:?}");
        assert_eq!(routes(&cloud), [LIST]);
        for words in ["lb-1", "\"my-lb\"", names::ID, "nobody's"] {
            assert!(done.warnings.iter().all(|(_, told)| told.contains(words)), "{words}: {:?}", done.warnings);
        }
    }
}

#[test]
fn an_id_of_anothers_that_was_never_taken_over_deletes_nothing() {
    let ids = |service: Service| Service { ingress: vec![], ..service };
    for (service, tags, name, deleted) in [
        (known(), &[THEIRS][..], "theirs", false),
        (ids(settled_service(&[])), &["x", THEIRS], "theirs", false),
        (known(), &[OWN, THEIRS], "my-lb", true),
        (known(), &["x"], "theirs", true),
        // Taken over, and renamed; the token may not take tags off.
        (settled_service(&[]), &[THEIRS], "aservice123", true),
    ] {
        let has = changed("lb-1", json!({"name": name, "tags": tags}));
        for listed in [vec![has.clone()], vec![]] {
            let cloud = FakeCloud::new().on(LIST, many(&listed)).on(GET, one(&has)).on(DELETE, Reply::status(204));
            let done = delete(&config(), &service);
            assert_eq!((done.outcome.failure.clone(), written(&done)), (None, vec![(names::ID, None)]));
            assert_eq!(routes(&cloud).contains(&DELETE.to_owned()), deleted, "{tags:?}");
            assert_eq!(reasons(&done).is_empty(), deleted);
            for words in ["lb-1", "shop/web", "u-2", names::ID] {
                assert!(deleted || done.warnings[0].1.contains(words), "{words}: {:?}", done.warnings);
            }
        }
    }
}

#[test]
fn the_tag_of_a_service_goes_after_its_load_balancer_and_holds_nobody() {
    let forbidden = Reply::json(403, r#"{"id": "forbidden", "message": "no"}"#);
    for (reply, gone) in
        [(Reply::status(204), true), (not_found(), false), (forbidden, false), (Reply::status(500), false)]
    {
        let cloud = FakeCloud::new()
            .on(LIST, many(&[tagged("lb-1", &["k8s:ours", OWN])]))
            .on(DELETE, Reply::status(204))
            .on(DELETE_TAG, reply);
        let done = delete(&config(), &known());
        assert_eq!((done.outcome.failure.clone(), written(&done)), (None, vec![(names::ID, None)]));
        assert_eq!((routes(&cloud), reasons(&done)), (vec![LIST.into(), DELETE.into(), DELETE_TAG.into()], vec![]));
        assert_eq!(done.outcome.changes.contains(&format!("deleted tag {OWN}")), gone);
        // Once and for all.
        let cloud = cloud.on(LIST, many(&[])).on(GET, not_found());
        assert_eq!(delete(&config(), &known()).outcome.failure, None);
        assert_eq!(routes(&cloud)[3..], [LIST, GET]);
    }
    // As the account has it.
    let capitals = OWN.to_uppercase();
    let route = format!("api DELETE /v2/tags/{}", capitals.replace(':', "%3A"));
    let cloud = FakeCloud::new()
        .on(LIST, many(&[tagged("lb-1", &[&capitals])]))
        .on(DELETE, Reply::status(204))
        .on(&route, Reply::status(204));
    assert_eq!(delete(&config(), &known()).outcome.failure, None);
    assert_eq!(routes(&cloud)[2..], [route]);
}

#[test]
fn no_tag_goes_before_its_load_balancer_nor_while_another_one_has_it() {
    let cloud = FakeCloud::new().on(LIST, many(&[tagged("lb-1", &[OWN])])).on(DELETE, Reply::status(500));
    assert_eq!(failure(&delete(&config(), &known())).0, Reaction::Retry);
    assert_eq!(routes(&cloud), [LIST, DELETE]);
    // It went nevertheless, and nothing has the tag any more but this process's memory.
    let cloud = cloud.on(LIST, many(&[])).on(GET, not_found()).on(DELETE_TAG, Reply::status(204));
    assert_eq!(delete(&config(), &known()).outcome.failure, None);
    assert_eq!(routes(&cloud)[2..], [LIST, GET, DELETE_TAG]);

    let other = changed("lb-2", json!({"name": "other", "tags": [OWN]}));
    for (balancers, deleted) in [
        (vec![tagged("lb-1", &[OWN]), other], vec![DELETE]),
        // It never had one.
        (vec![tagged("lb-1", &["k8s:ours"])], vec![DELETE]),
        (vec![balancer("lb-1")], vec![DELETE]),
    ] {
        let cloud = FakeCloud::new().on(LIST, many(&balancers)).on(DELETE, Reply::status(204));
        let ours = Config { tag: Some("k8s:ours".to_owned()), ..config() };
        assert_eq!(delete(&ours, &known()).outcome.failure, None);
        assert_eq!(routes(&cloud), [vec![LIST], deleted].concat());
    }
}

/// Whoever restores a Service has its load balancer again by what stands on that.
#[test]
fn a_load_balancer_says_of_which_service_it_is_by_its_tag_or_its_default_name() {
    const UID: &str = "c3d4e5f6-0000-4abc-9def-000000000003";
    let plain = UID.replace('-', "");
    let tag = format!("WASM-ccm-service:{UID}:shop:web");
    let of_nobody = format!("b{plain}");
    let rows = [
        (json!({ "name": "my-lb", "tags": [tag] }), Some(plain.clone())),
        (json!({ "name": format!("a{plain}")[..32], "tags": ["x"] }), Some(plain[..31].to_owned())),
        (json!({ "name": "my-lb", "tags": [OWN, tag] }), Some("service-123".to_owned())),
        (json!({ "name": "my-lb", "tags": ["x", "wasm-ccm-service:no-uid:shop:web"] }), None),
        (json!({ "name": "my-lb", "tags": null }), None),
        (json!({ "name": of_nobody[..32] }), None),
        (json!({ "name": "aservice123" }), Some("service-123".to_owned())),
    ];
    for (changes, uid) in rows {
        let _cloud = FakeCloud::new().on(LIST, many(&[changed("lb-1", changes.clone())]));
        let mark = Mark { load_balancer: "lb-1".to_owned(), uid };
        assert_eq!(mark_of(&settled_service(&[])), Ok(Some(mark)), "{changes}");
    }
    let _cloud = FakeCloud::new().on(LIST, many(&[])).on(GET, not_found());
    assert_eq!(mark_of(&settled_service(&[])), Ok(None), "it is gone");
    let _cloud = FakeCloud::new();
    assert_eq!(mark_of(&settled_service(&[(names::DISOWN, "true")])), Ok(None), "nobody's business");
}

fn mark_of(service: &Service) -> Result<Option<Mark>, Failure> {
    mark(&config(), service)
}
