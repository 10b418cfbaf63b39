//! What Octavia refuses: the Service is to blame only where that is certain.

use super::*;

fn refused(status: u16, words: &str) -> Reply {
    Reply::json(status, json!({ "faultcode": "Client", "faultstring": words, "debuginfo": null }).to_string())
}

/// What came right by itself, or by the operator, waited for half a day.
#[test]
fn only_what_certainly_blames_the_service_waits_for_it_to_change() {
    let wrong = |name: &str, value: &str| format!("Invalid input for field/attribute {name}. Value: '{value}'. No.");
    let lacks = "Provider 'ovn' does not support a requested option: OVN provider does not support FASTEST algorithm";
    let method = [(names::METHOD, "FASTEST")];
    let slowly = (Reaction::Retry, None, Some(300_000));
    let blamed = |name: &str| (Reaction::Invalid, Some(ccm_sdk::annotations::field(name)), None);
    let mut fastest = usual();
    fastest.balancers.method = "FASTEST".to_owned();
    for (config, annotations, status, words, expected) in [
        (&usual(), &[][..], 400, "Subnet subnet-1 not found.".to_owned(), slowly.clone()),
        (
            &usual(),
            &[],
            400,
            "Could not retrieve certificate: ['https://kms/v1/secrets/s-1']".to_owned(),
            slowly.clone(),
        ),
        (&usual(), &[], 422, "no".to_owned(), slowly.clone()),
        (&usual(), &method, 400, wrong("lb_algorithm", "FASTEST"), blamed(names::METHOD)),
        (&fastest, &[], 400, wrong("lb_algorithm", "FASTEST"), slowly.clone()),
        (&usual(), &method, 501, lacks.to_owned(), blamed(names::METHOD)),
        (&fastest, &[], 501, lacks.to_owned(), (Reaction::Unsupported, None, Some(300_000))),
        (&usual(), &[(names::SUBNET, "mine")], 400, wrong("vip_subnet_id", "mine"), blamed(names::SUBNET)),
        // A value of somewhere else.
        (&usual(), &[(names::SUBNET, "mine")], 400, wrong("vip_subnet_id", "other"), slowly),
    ] {
        let cloud = FakeCloud::new()
            .with_credential("session-token")
            .always(LIST, many("loadbalancers", &[]))
            .on(POST, refused(status, &words));
        let failure = ensure(config, &host(), &service(annotations), &nodes()).outcome.failure.expect("it is refused");
        assert!(failure.message.contains(&words), "{}", failure.message);
        assert_eq!((failure.reaction, failure.field, failure.retry_after_ms), expected, "{status} {words}");
        // The answer was clear: nobody waits for a load balancer of it.
        let _cloud = cloud.on(POST, refused(status, &words));
        let again = ensure(config, &host(), &service(annotations), &nodes());
        assert!(message(&again).contains(&words), "{}", message(&again));
    }
}

#[test]
fn a_change_that_is_refused_is_asked_for_again_slowly() {
    let line = "load-balancer PUT /lbaas/listeners/listener-1";
    let limited = settled(&[(names::CONNECTION_LIMIT, "7")]);
    let wrong = "Invalid input for field/attribute connection_limit. Value: '7'. No.";
    for (words, expected) in [
        ("Could not retrieve certificate", (Reaction::Retry, None)),
        (wrong, (Reaction::Invalid, Some(ccm_sdk::annotations::field(names::CONNECTION_LIMIT)))),
    ] {
        let cloud = whole().on(line, refused(400, words));
        let failure = run(&limited).outcome.failure.expect("it is refused");
        assert_eq!((failure.reaction, failure.field), expected, "{words}");
        assert_eq!(written(&cloud), [line]);
    }
}

const MEMBERS: [&str; 2] =
    ["load-balancer PUT /lbaas/pools/pool-1/members", "load-balancer PUT /lbaas/pools/pool-2/members"];
const GET_MEMBERS: [&str; 2] =
    ["load-balancer GET /lbaas/pools/pool-1/members", "load-balancer GET /lbaas/pools/pool-2/members"];
const PUT_LISTENER: &str = "load-balancer PUT /lbaas/listeners/listener-1";
const MAKE_LISTENER: &str = "load-balancer POST /lbaas/listeners";

fn second_listener() -> Value {
    with(listener(), json!({ "id": "listener-2", "protocol_port": 443, "default_pool_id": "pool-2" }))
}

fn second_pool() -> Value {
    let fields = json!({ "id": "pool-2", "name": format!("pool_1_{NAME}"), "listeners": [{ "id": "listener-2" }] });
    with(pool(), fields)
}

/// A second port, to the same node port.
fn of_two_ports(annotations: &[(&str, &str)]) -> Service {
    let mut service = settled(annotations);
    service.ports.push(port(443, 30_000));
    service
}

/// The pools have these members.
fn tree_of(pools: [&[Value]; 2]) -> Reply {
    let branch = |number: usize| {
        let pool = json!({ "id": format!("pool-{number}"), "members": pools[number - 1] });
        json!({ "id": format!("listener-{number}"), "pools": [pool] })
    };
    let statuses = json!({ "loadbalancer": { "id": "lb-1", "listeners": [branch(1), branch(2)] } });
    Reply::json(200, json!({ "statuses": statuses }).to_string())
}

/// Of an Octavia whose provider has none: new Nodes never came.
#[test]
fn session_affinity_that_the_cloud_does_not_have_is_told_and_nodes_are_followed() {
    let line = "load-balancer PUT /lbaas/pools/pool-1";
    let words = "Provider 'ovn' does not support a requested option: session persistence";
    for status in [501, 400] {
        let cloud = whole()
            .on(GET_MEMBERS[0], many("members", &[member(1)]))
            .always(line, refused(status, words))
            .on(MEMBERS[0], accepted());
        let mut service = settled(&[]);
        service.client_ip_affinity_seconds = Some(60);
        let done = run(&service);
        assert_eq!(written(&cloud), [line, MEMBERS[0]], "{status}");
        assert_eq!(reaction(&done), Reaction::Pending, "{status}");
        assert_eq!(done.outcome.changes, ["changed members of port 80: 2"], "{status}");
        let (reason, told) = &done.warnings[0];
        assert_eq!(*reason, "LoadBalancerSessionAffinityUnknown", "{status}");
        assert!(told.contains(words) && told.contains("spec.sessionAffinity"), "{told}");
        later(&cloud);
        assert_eq!(ips(&run(&service)), ["203.0.113.7"], "{status}");
        assert_eq!(written(&cloud).len(), 2, "{status}: it is not asked for again and again");
    }
}

#[test]
fn what_is_refused_of_one_port_does_not_keep_new_nodes_from_the_others() {
    let limited = of_two_ports(&[(names::CONNECTION_LIMIT, "7")]);
    let (few, both) = ([member(1)], [member(1), member(2)]);
    let cloud = cloud_of(&balancer(), &[listener(), second_listener()], &[pool(), second_pool()], &both)
        .on(GET_MEMBERS[0], many("members", &few))
        .on(GET_MEMBERS[1], many("members", &few))
        .on(TREE, tree_of([&both, &few]))
        .always(PUT_LISTENER, refused(400, "no"))
        .on(MEMBERS[0], accepted())
        .on(MEMBERS[1], accepted());
    for _ in 0..2 {
        assert_eq!(reaction(&run(&limited)), Reaction::Pending, "{:?}", written(&cloud));
        later(&cloud);
    }
    for again in 0..2 {
        let failure = run(&limited).outcome.failure.expect("it is refused");
        assert_eq!((failure.reaction, failure.retry_after_ms), (Reaction::Retry, Some(300_000)), "{}", failure.message);
        let mut expected = vec![MEMBERS[0], PUT_LISTENER, MEMBERS[1]];
        expected.extend(vec![PUT_LISTENER; again + 1]);
        assert_eq!(written(&cloud), expected, "the rest of it once");
        later(&cloud);
    }
}

#[test]
fn members_of_one_port_that_are_refused_do_not_keep_new_nodes_from_the_others() {
    let (few, both) = ([member(1)], [member(1), member(2)]);
    let cloud = cloud_of(&balancer(), &[listener(), second_listener()], &[pool(), second_pool()], &few)
        .on(GET_MEMBERS[1], many("members", &few))
        .on(GET_MEMBERS[1], many("members", &both))
        .on(TREE, tree_of([&few, &few]))
        .on(TREE, tree_of([&few, &both]))
        .always(MEMBERS[0], refused(400, "no"))
        .on(MEMBERS[1], accepted());
    let reactions = [Reaction::Pending, Reaction::Retry].map(|expected| {
        let done = run(&of_two_ports(&[]));
        later(&cloud);
        (reaction(&done), expected)
    });
    assert!(reactions.iter().all(|(found, expected)| found == expected), "{reactions:?}");
    assert_eq!(written(&cloud), [MEMBERS[0], MEMBERS[1], MEMBERS[0]]);
}

/// Of the first port there is no listener, and none comes.
#[test]
fn nodes_of_a_port_are_followed_where_the_listener_of_another_cannot_be_made() {
    let free = with(pool(), json!({ "listeners": [] }));
    let anothers = with(listener(), json!({ "id": "listener-9", "tags": ["mine"], "default_pool_id": null }));
    let (few, both) = ([member(1)], [member(1), member(2)]);
    let quota = refused(403, "Quota has been met for resources: listener");
    for (case, listeners, answer, asked, expected) in [
        ("refused", vec![second_listener()], refused(400, "no"), true, Reaction::Retry),
        ("quota", vec![second_listener()], quota, true, Reaction::Quota),
        ("another's", vec![anothers, second_listener()], refused(400, "no"), false, Reaction::Conflict),
    ] {
        for follows in [false, true] {
            let cloud = cloud_of(&balancer(), &listeners, &[free.clone(), second_pool()], &both)
                .on(TREE, tree_of([&both, &few]))
                .always(TREE, tree_of([&both, &both]))
                .always(MAKE_LISTENER, answer.clone())
                .on(MEMBERS[1], accepted());
            let cloud = if follows { cloud.on(TREE, tree_of([&both, &few])) } else { cloud };
            let service = of_two_ports(&[]);
            let call = || match follows {
                true => update_backends(&usual(), &host(), &service, &nodes()),
                false => run(&service),
            };
            assert_eq!(reaction(&call()), Reaction::Pending, "{case} {:?}", written(&cloud));
            later(&cloud);
            assert_eq!(reaction(&call()), expected, "{case}");
            let lines = if asked { vec![MAKE_LISTENER, MEMBERS[1], MAKE_LISTENER] } else { vec![MEMBERS[1]] };
            assert_eq!(written(&cloud), lines, "{case}");
        }
    }
}

/// It may be Barbican alone that is down.
#[test]
fn nodes_are_followed_while_the_certificate_cannot_be_found() {
    let service = settled(&[(names::TLS_CONTAINER, "https://kms/v1/secrets/s-1")]);
    let of_tls = json!({ "protocol": "TERMINATED_HTTPS", "default_tls_container_ref": "https://kms/v1/secrets/s-1" });
    let there = (with(listener(), of_tls), with(pool(), json!({ "protocol": "HTTP" })));
    let missing = Reply::json(404, json!({ "description": "Secret not found." }).to_string());
    for (case, (listener, pool), answer) in [
        ("missing", there.clone(), missing.clone()),
        ("no answer", there, Reply::status(503)),
        ("missing, for a port that is plain yet", (listener(), pool()), missing),
    ] {
        let (few, both) = ([member(1)], [member(1), member(2)]);
        let cloud = cloud_of(&balancer(), std::slice::from_ref(&listener), &[pool], &both)
            .on(TREE, tree(std::slice::from_ref(&listener), &few))
            .always("key-manager GET /secrets/s-1", answer)
            .on(MEMBERS[0], accepted());
        assert_eq!(reaction(&run(&service)), Reaction::Pending, "{case}");
        later(&cloud);
        for _ in 0..2 {
            let done = run(&service);
            assert_eq!(reaction(&done), Reaction::Retry, "{case}");
            assert!(message(&done).contains("secrets/s-1"), "{case}: {}", message(&done));
            later(&cloud);
        }
        assert_eq!(written(&cloud), [MEMBERS[0]], "{case}");
    }
}

/// Whoever writes a Service can name any secret of the project. The credentials are good for everything else.
#[test]
fn a_certificate_that_barbican_keeps_from_this_user_is_told_with_who_named_it_and_alarms_nobody_about_credentials() {
    let secret = "https://kms/v1/secrets/s-1";
    let words = "Secret(s) retrieval attempt not allowed - please review your user/project privileges";
    let body = json!({ "code": 403, "title": "Forbidden", "description": words }).to_string();
    let mut of_operator = usual();
    of_operator.balancers.tls_container = secret.to_owned();
    let field = Some(ccm_sdk::annotations::field(names::TLS_CONTAINER));
    for (case, config, status, service, expected) in [
        (
            "the Service",
            usual(),
            403,
            service(&[(names::TLS_CONTAINER, secret)]),
            (Reaction::Retry, Some(300_000), field.clone()),
        ),
        ("the operator", of_operator, 403, service(&[]), (Reaction::Unauthorized, None, None)),
        // A proxy has no word on one secret.
        ("nobody", usual(), 407, service(&[(names::TLS_CONTAINER, secret)]), (Reaction::Unauthorized, None, None)),
    ] {
        let cloud = FakeCloud::new()
            .with_credential("session-token")
            .always(LIST, many("loadbalancers", &[]))
            .always("key-manager GET /secrets/s-1", Reply::json(status, &body));
        let failure = ensure(&config, &host(), &service, &nodes()).outcome.failure.expect("it is not to be had");
        assert!(failure.message.contains(words) && failure.message.contains(secret), "{case}: {failure:?}");
        assert_eq!((failure.reaction, failure.retry_after_ms, failure.field), expected, "{case}");
        assert_eq!(written(&cloud), Vec::<String>::new(), "{case}");
    }
}
