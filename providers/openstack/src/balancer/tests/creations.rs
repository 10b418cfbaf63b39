//! One that is not there yet.

use ccm_sdk::http::TransportReason;

use super::*;

fn empty() -> FakeCloud {
    FakeCloud::new().with_credential("session-token").always(LIST, many("loadbalancers", &[]))
}

fn made() -> Reply {
    Reply::json(
        201,
        json!({ "loadbalancer": with(balancer(), json!({ "provisioning_status": "PENDING_CREATE" })) }).to_string(),
    )
}

#[test]
fn os_154_156_175_it_is_made_whole_in_one_request_and_noted_although_it_is_not_there_yet() {
    let cloud = empty().on(POST, made());
    let mut service = service(&[(names::MONITOR, "true")]);
    service.ports.push(port(443, 30_443));
    let done = run(&service);
    assert_eq!(reaction(&done), Reaction::Pending);
    assert_eq!((annotated(&done, names::ID), annotated(&done, names::ADDRESS)), (Some("lb-1"), Some("10.1.0.100")));
    let [(line, body)] = &writes(&cloud)[..] else { panic!("{:?}", cloud.lines()) };
    let body = &body["loadbalancer"];
    assert_eq!(line, POST);
    assert_eq!(cloud.lines().len(), 3, "two look-ups and a write: {:?}", cloud.lines());
    assert_eq!(body["tags"], json!([NAME, UID]));
    assert_eq!((&body["vip_subnet_id"], &body["provider"]), (&json!("subnet-1"), &json!("amphora")));
    let ports: Vec<_> = body["listeners"]
        .as_array()
        .expect("listeners")
        .iter()
        .map(|listener| {
            let pool = &listener["default_pool"];
            let members = pool["members"].as_array().map_or(0, Vec::len);
            (
                listener["protocol_port"].clone(),
                pool["members"][0]["protocol_port"].clone(),
                members,
                pool["healthmonitor"]["type"].clone(),
            )
        })
        .collect();
    assert_eq!(ports, [(json!(80), json!(30_000), 2, json!("TCP")), (json!(443), json!(30_443), 2, json!("TCP"))]);
}

#[test]
fn os_152_once_it_is_there_it_is_compared_once_and_has_a_floating_ip() {
    let cloud = empty().on(POST, made());
    let first = run(&service(&[]));
    let mut service = service(&[]);
    for (name, value) in first.outcome.annotations {
        service.annotations.push((name, value.expect("written")));
    }
    let cloud = cloud
        .on(GET, one("loadbalancer", &with(balancer(), json!({ "provisioning_status": "PENDING_CREATE" }))))
        .always(GET, one("loadbalancer", &balancer()))
        .always(LISTENERS, many("listeners", &[listener()]))
        .always(POOLS, many("pools", &[pool()]))
        .always(TREE, tree(&[listener()], &[member(1), member(2)]))
        .always(FLOATING, many("floatingips", &[]))
        .on("network POST /floatingips", Reply::json(201, json!({ "floatingip": floating() }).to_string()));
    assert_eq!(reaction(&run(&service)), Reaction::Pending);
    assert_eq!(cloud.lines().len(), 4, "a call that waits costs one request");
    let done = run(&service);
    assert_eq!(ips(&done), ["203.0.113.7"], "{:?}", done.outcome);
    assert_eq!(cloud.lines().len(), 4 + 6, "nothing is looked for that it cannot have");
    assert_eq!(written(&cloud), [POST, "network POST /floatingips"]);
    let (_, body) = &writes(&cloud)[1];
    assert_eq!(body["floatingip"]["port_id"], "port-1");
    // It goes with the Service.
    let gone = ["network DELETE /floatingips/fip-1", "load-balancer DELETE /lbaas/loadbalancers/lb-1"];
    let cloud = gone.iter().fold(cloud, |cloud, line| cloud.on(line, Reply::status(204)));
    let cloud = cloud.on(FLOATING, many("floatingips", &[floating()]));
    delete(&usual(), &host(), &service);
    assert_eq!(written(&cloud)[2..], gone, "os_152");
}

/// A second one was made when the answer to the first request was lost.
#[test]
fn a_request_without_an_answer_is_not_sent_again_before_what_it_made_can_show() {
    let cloud = empty().on(POST, Reply::lost(TransportReason::Timeout, true));
    assert_eq!(reaction(&run(&service(&[]))), Reaction::Retry);
    cloud.pass(30);
    let done = run(&service(&[]));
    assert_eq!((reaction(&done), written(&cloud)), (Reaction::Retry, vec![POST.to_owned()]));
    let said = message(&done);
    assert!(said.contains(&format!("load balancer {NAME}")) && said.ends_with("looked for again in 5 s"), "{said}");
    // It shows, by its tag.
    let cloud = cloud
        .on(LIST, many("loadbalancers", &[balancer()]))
        .always(LISTENERS, many("listeners", &[listener()]))
        .always(POOLS, many("pools", &[pool()]))
        .always("load-balancer GET /lbaas/pools/pool-1/members", many("members", &[member(1), member(2)]))
        .always("network GET /security-groups", many("security_groups", &[]))
        .always(FLOATING, many("floatingips", &[floating()]));
    let done = run(&service(&[]));
    assert_eq!((ips(&done), annotated(&done, names::ID)), (vec!["203.0.113.7"], Some("lb-1")));
    assert_eq!(written(&cloud), [POST]);
    // Then nothing is waited for any more, should it be gone.
    let cloud = cloud.always("network GET /security-groups", many("security_groups", &[]));
    cloud.pass(1);
    assert_eq!(delete(&usual(), &host(), &service(&[(names::KEEP_FLOATING_IP, "true")])).outcome.failure, None);
}

#[test]
fn one_that_certainly_did_not_arrive_is_sent_again() {
    let cloud = empty().on(POST, Reply::lost(TransportReason::Connect, false)).on(POST, made());
    assert_eq!(reaction(&run(&service(&[]))), Reaction::Retry);
    assert_eq!(reaction(&run(&service(&[]))), Reaction::Pending);
    assert_eq!(written(&cloud), [POST, POST]);
}

#[test]
fn os_178_the_same_port_of_two_protocols_is_two_listeners_in_one_request() {
    let cloud = empty().on(POST, made());
    let mut service = service(&[]);
    let udp = ccm_sdk::types::ServicePort { protocol: ccm_sdk::types::Protocol::Udp, ..port(80, 30_001) };
    service.ports.push(udp);
    run(&service);
    let (_, body) = &writes(&cloud)[0];
    let found: Vec<_> = body["loadbalancer"]["listeners"]
        .as_array()
        .expect("listeners")
        .iter()
        .map(|listener| {
            let pool = &listener["default_pool"];
            (
                listener["protocol"].clone(),
                listener["protocol_port"].clone(),
                pool["members"][0]["protocol_port"].clone(),
            )
        })
        .collect();
    assert_eq!(found, [(json!("TCP"), json!(80), json!(30_000)), (json!("UDP"), json!(80), json!(30_001))], "os_178");
}

/// What Octavia is told; that it does so is seen where packets reach members.
#[test]
fn os_153_members_see_the_address_of_the_client_in_a_header() {
    let cloud = empty().on(POST, made());
    run(&service(&[(names::X_FORWARDED_FOR, "true")]));
    let (_, body) = &writes(&cloud)[0];
    let listener = &body["loadbalancer"]["listeners"][0];
    assert_eq!(
        (&listener["protocol"], &listener["insert_headers"], &listener["default_pool"]["protocol"]),
        (&json!("HTTP"), &json!({ "X-Forwarded-For": "true" }), &json!("HTTP")),
        "os_153"
    );
}

#[test]
fn os_071_a_service_without_any_annotation_gets_its_first_ones() {
    let _cloud = empty().on(POST, made());
    let service = service(&[]);
    assert_eq!(service.annotations, vec![]);
    let some = |name: &str, value: &str| (name.to_owned(), Some(value.to_owned()));
    assert_eq!(
        run(&service).outcome.annotations,
        [some(names::ID, "lb-1"), some(names::ADDRESS, "10.1.0.100")],
        "os_071"
    );
}

/// No version is asked for, so that none can be unknown.
#[test]
fn os_209_a_question_that_fails_once_takes_nothing_off_and_is_asked_again() {
    let narrow = with(listener(), json!({ "allowed_cidrs": ["10.0.0.0/8"], "timeout_client_data": 7 }));
    let cloud = cloud_of(&balancer(), &[narrow], &[pool()], &[member(1), member(2)]).on(LISTENERS, Reply::status(503));
    let mut service = settled(&[(names::TIMEOUT_CLIENT_DATA, "7")]);
    service.source_ranges = vec!["10.0.0.0/8".to_owned()];
    assert_eq!((reaction(&run(&service)), written(&cloud)), (Reaction::Retry, vec![]), "os_209");
    later(&cloud);
    assert_eq!((ips(&run(&service)), written(&cloud)), (vec!["203.0.113.7"], vec![]), "os_209");
    assert!(
        !cloud.lines().iter().any(|line| line.starts_with("load-balancer GET / ") || *line == "load-balancer GET /")
    );
}

#[test]
fn os_205_without_nodes_it_is_made_with_empty_pools() {
    let cloud = empty().on(POST, made());
    let done = ensure(&usual(), &host(), &service(&[]), &[]);
    assert_eq!(reaction(&done), Reaction::Pending);
    let (_, body) = &writes(&cloud)[0];
    let pool = &body["loadbalancer"]["listeners"][0]["default_pool"];
    assert_eq!((pool["name"].as_str(), pool.get("members")), (Some(format!("pool_0_{NAME}").as_str()), None));
}

#[test]
fn os_180_an_address_that_is_taken_is_told_with_its_field_and_asked_for_again() {
    let refused = |words: &str| {
        let words = format!("Provider 'amphora' reports error: IP address {words}");
        Reply::json(500, json!({ "faultcode": "Server", "faultstring": words, "debuginfo": null }).to_string())
    };
    let taken = "10.1.0.1 already allocated in subnet subnet-1";
    let field = Some("spec.loadBalancerIP");
    for (case, asked, words, expected) in [
        ("os_180", Some("10.1.0.1"), taken, (Reaction::Conflict, field, Some(60_000))),
        (
            "one of another subnet",
            Some("10.1.0.1"),
            "10.1.0.1 is not a valid IP for the specified subnet.",
            (Reaction::Invalid, field, None),
        ),
        ("one that nobody asked for", None, taken, (Reaction::Retry, None, None)),
    ] {
        let cloud = empty().on(POST, refused(words)).on(POST, made());
        let internal = Service { requested_ip: asked.map(str::to_owned), ..service(&[(names::INTERNAL, "true")]) };
        let done = run(&internal);
        let failure = done.outcome.failure.as_ref().expect("it is refused");
        assert_eq!((failure.reaction, failure.field.as_deref(), failure.retry_after_ms), expected, "{case}");
        assert!(failure.message.contains(words) && !failure.message.contains("\"listeners\""), "{failure:?}");
        // Nothing is waited for: the answer was clear.
        assert_eq!(reaction(&run(&internal)) == Reaction::Pending, asked.is_some(), "{case}");
        assert_eq!(written(&cloud).len(), if asked.is_some() { 2 } else { 1 }, "{case}");
    }
}

#[test]
fn where_nobody_names_a_subnet_it_is_that_of_the_first_node() {
    let mut config = usual();
    config.balancers.place.subnet.clear();
    let port = json!({ "id": "p", "device_id": "server-1", "fixed_ips": [{ "subnet_id": "subnet-9", "ip_address": "10.1.0.1" }] });
    let cloud = empty().always("network GET /ports", many("ports", &[port])).on(POST, made());
    ensure(&config, &host(), &service(&[]), &nodes());
    let (_, body) = &writes(&cloud)[0];
    let balancer = &body["loadbalancer"];
    assert_eq!(balancer["vip_subnet_id"], "subnet-9");
    assert_eq!(balancer["listeners"][0]["default_pool"]["members"][0]["subnet_id"], "subnet-9");
    // A network leads there without.
    let cloud = empty().on(POST, made());
    ensure(&config, &host(), &service(&[(names::NETWORK, "net-1")]), &nodes());
    let (_, body) = &writes(&cloud)[0];
    let member = &body["loadbalancer"]["listeners"][0]["default_pool"]["members"][0];
    assert_eq!((&body["loadbalancer"]["vip_network_id"], member.get("subnet_id")), (&json!("net-1"), None));
}

#[test]
fn one_that_takes_no_tree_is_made_bare() {
    let mut config = usual();
    config.balancers.serial = true;
    let cloud = empty().on(POST, made());
    ensure(&config, &host(), &service(&[]), &nodes());
    assert_eq!(writes(&cloud)[0].1["loadbalancer"].get("listeners"), None);
}

#[test]
fn a_provider_that_nobody_names_is_for_octavia_to_choose() {
    let mut config = usual();
    config.balancers.provider.clear();
    let cloud = empty().on(POST, made());
    ensure(&config, &host(), &service(&[]), &nodes());
    assert_eq!(writes(&cloud)[0].1["loadbalancer"].get("provider"), None);
}

/// The address of a Node may be that of a port within the trunk of its server.
#[test]
fn the_subnet_of_a_node_is_also_found_within_its_trunk() {
    let mut config = usual();
    config.balancers.place.subnet.clear();
    let trunk = json!({ "id": "p", "device_id": "server-1", "trunk_details": { "sub_ports": [{ "port_id": "sub" }] } });
    let sub = json!({ "id": "sub", "fixed_ips": [{ "subnet_id": "subnet-9", "ip_address": "10.1.0.1" }] });
    let cloud = empty()
        .on("network GET /ports", many("ports", &[trunk]))
        .on("network GET /ports", many("ports", &[sub]))
        .on(POST, made());
    ensure(&config, &host(), &service(&[]), &nodes());
    assert_eq!(writes(&cloud)[0].1["loadbalancer"]["vip_subnet_id"], "subnet-9");
}

#[test]
fn what_cannot_be_costs_no_request() {
    let cloud = empty();
    let done = run(&service(&[(names::CLASS, "none")]));
    assert_eq!((reaction(&done), cloud.lines()), (Reaction::Invalid, vec![]));
}

#[test]
fn tls_is_ended_with_what_barbican_has() {
    let tls = |reference: &str| service(&[(names::TLS_CONTAINER, reference)]);
    let secret = "key-manager GET /secrets/s-1";
    let cloud = empty().on(secret, Reply::json(200, "{}")).on(POST, made());
    assert_eq!(reaction(&run(&tls("https://kms/v1/secrets/s-1"))), Reaction::Pending);
    assert!(cloud.lines().contains(&secret.to_owned()));
    let absent = Reply::json(
        404,
        r#"{"code": 404, "title": "Not Found", "description": "Not Found. Sorry but your container is in another castle."}"#,
    );
    let field = Some(ccm_sdk::annotations::field(names::TLS_CONTAINER));
    for (reference, words) in [
        ("https://kms/v1/orders/s-1", "tlsContainerRef type orders unknown"),
        (
            "https://kms/v1/secrets/",
            "invalid tlsContainerRef for service default/test: https://kms/v1/secrets/; it has to",
        ),
        ("s-1", "invalid tlsContainerRef for service default/test: s-1; it has to end in containers/ID or secrets/ID"),
    ] {
        let _cloud = empty();
        let failure = run(&tls(reference)).outcome.failure.expect("it is refused");
        assert_eq!((failure.reaction, &failure.field), (Reaction::Invalid, &field), "{failure:?}");
        assert!(failure.message.contains(words), "{failure:?}");
        // Of the configuration it is for the operator to mend.
        let mut config = usual();
        config.balancers.tls_container = reference.to_owned();
        let failure = ensure(&config, &host(), &service(&[]), &nodes()).outcome.failure.expect("it is refused");
        assert_eq!((failure.reaction, failure.field), (Reaction::Retry, None));
        assert!(failure.message.starts_with("default-tls-container-ref in [LoadBalancer]: "), "{}", failure.message);
    }
    // It may come yet, as certificates do that are renewed.
    let cloud = empty().on(secret, absent).on(secret, Reply::json(200, "{}")).on(POST, made());
    let failure = run(&tls("https://kms/v1/secrets/s-1")).outcome.failure.expect("it is not there");
    assert_eq!((failure.reaction, failure.retry_after_ms, &failure.field), (Reaction::Retry, Some(60_000), &field));
    assert!(failure.message.contains("has no such container or secret"), "{failure:?}");
    assert_eq!(reaction(&run(&tls("https://kms/v1/secrets/s-1"))), Reaction::Pending);
    assert_eq!(written(&cloud), [POST]);
    // Where certificates are elsewhere, Barbican is not asked.
    let mut config = usual();
    config.balancers.container_store = "external".to_owned();
    let cloud = empty().on(POST, made());
    ensure(&config, &host(), &tls("https://kms/v1/secrets/s-1"), &nodes());
    assert_eq!(written(&cloud), [POST]);
}

/// Reads may come from a copy of the database that has not heard of it, and not all providers of Octavia name an address at once.
#[test]
fn one_that_was_just_made_and_does_not_show_is_waited_for() {
    let bare = with(balancer(), json!({ "vip_address": "", "provisioning_status": "PENDING_CREATE" }));
    let gone = "load-balancer DELETE /lbaas/loadbalancers/lb-1";
    let cloud = empty()
        .on(POST, Reply::json(201, json!({ "loadbalancer": bare }).to_string()))
        .on(GET, not_found())
        .on(GET, not_found())
        .on(GET, one("loadbalancer", &with(balancer(), json!({ "provisioning_status": "PENDING_CREATE" }))))
        .on(GET, one("loadbalancer", &balancer()))
        .always(GET, not_found())
        .always(FLOATING, many("floatingips", &[]))
        .always(LISTENERS, many("listeners", &[]))
        .always("network GET /security-groups", many("security_groups", &[]))
        .on(gone, Reply::status(204));
    let done = run(&service(&[]));
    assert_eq!((annotated(&done, names::ID), annotated(&done, names::ADDRESS)), (Some("lb-1"), None));
    let with_id = service(&[(names::ID, "lb-1")]);
    let remove = || delete(&usual(), &host(), &with_id);
    for done in [run(&with_id), remove()] {
        assert_eq!(reaction(&done), Reaction::Pending, "{:?}", done.outcome.failure);
    }
    // Its address is noted as soon as it has one: that says that no person wrote the ID.
    let done = run(&with_id);
    assert_eq!((reaction(&done), annotated(&done, names::ADDRESS)), (Reaction::Pending, Some("10.1.0.100")));
    // One that was deleted is gone when it does not show.
    assert_eq!(reaction(&remove()), Reaction::Pending);
    assert_eq!(remove().outcome.failure, None);
    assert_eq!(written(&cloud), [POST, gone]);
    // An ID of a person leads nowhere for long.
    let _cloud = empty().always(GET, not_found());
    assert_eq!(reaction(&run(&with_id)), Reaction::Invalid);
}
