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
