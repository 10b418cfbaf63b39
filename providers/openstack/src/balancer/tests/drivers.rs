//! Octavia's driver of a load balancer that is there says what it can be, whatever a new one would get.

use ccm_sdk::load_balancer_survey::{Standing, Wish};

use super::groups::{good_rule, group, managed, ovn, port_of};
use super::*;

const RANGE: &str = "192.0.2.0/24";

/// With its group, as it should be.
fn cloud(balancer: &Value, listener: &Value, pool: &Value, rule: &Value) -> FakeCloud {
    let subnet = json!({ "id": "subnet-1", "network_id": "n", "cidr": "10.1.0.0/24", "ip_version": 4 });
    let ports = [port_of(1, &["sg-1"]), port_of(2, &["sg-1"])];
    let (listener, pool) = (std::slice::from_ref(listener), std::slice::from_ref(pool));
    let groups = many("security_groups", &[group(&json!([rule]))]);
    cloud_of(balancer, listener, pool, &[member(1), member(2)])
        .on(LIST, many("loadbalancers", std::slice::from_ref(balancer)))
        .on("network GET /security-groups", groups.clone())
        .on("network GET /security-groups", groups.clone())
        .on("network GET /security-groups", groups)
        .always("network GET /subnets/subnet-1", one("subnet", &subnet))
        .always("network GET /ports", many("ports", &ports))
}

/// Once `lb-provider` was changed, clients of all that were there before were cut off.
#[test]
fn a_load_balancer_stays_as_its_own_driver_has_it_when_the_configuration_names_another() {
    let own_default = || {
        let mut config = managed();
        config.balancers.provider.clear();
        config
    };
    let of_amphora = (
        with(listener(), json!({ "allowed_cidrs": [RANGE] })),
        with(pool(), json!({ "protocol": "PROXY" })),
        good_rule(),
        vec![(names::PROXY_PROTOCOL, "true")],
    );
    let of_ovn = (
        with(listener(), json!({ "allowed_cidrs": [], "timeout_client_data": null })),
        with(pool(), json!({ "lb_algorithm": "SOURCE_IP_PORT" })),
        with(good_rule(), json!({ "remote_ip_prefix": RANGE })),
        vec![(names::TIMEOUT_CLIENT_DATA, "9")],
    );
    for (config, driver, (listener, pool, rule, annotations)) in [
        (ovn(), "amphora", &of_amphora),
        (ovn(), "octavia", &of_amphora),
        (managed(), "amphora", &of_amphora),
        // An Octavia that does not say it.
        (managed(), "", &of_amphora),
        (managed(), "ovn", &of_ovn),
        (own_default(), "ovn", &of_ovn),
        (ovn(), "ovn", &of_ovn),
        (ovn(), "", &of_ovn),
    ] {
        let case = format!("{driver:?} under {:?}", config.balancers.provider);
        let cloud = cloud(&with(balancer(), json!({ "provider": driver })), listener, pool, rule);
        let mut service = settled(annotations);
        service.source_ranges = vec![RANGE.to_owned()];
        for call in [ensure, update_backends] {
            let done = call(&config, &host(), &service, &nodes());
            assert_eq!(done.outcome.failure, None, "{case}");
            later(&cloud);
        }
        let wishes = [Wish { service: service.clone(), backends: vec![0, 1] }];
        let (standing, _) = survey(&config, &host(), &nodes(), &wishes).expect("surveyed").remove(0);
        let published = get(&config, &host(), &service).expect("asked").expect("it is there");
        let is_proxied = driver != "ovn" && pool["protocol"] == "PROXY";
        assert_eq!(published[0].ip_mode == Some(ccm_sdk::types::IpMode::Proxy), is_proxied, "{case}");
        assert!(matches!(standing, Standing::InStep(ingress) if ingress == published), "{case}");
        assert_eq!(written(&cloud), Vec::<String>::new(), "{case}");
    }
}

/// The annotation says it of one load balancer, and the configuration of those that its driver has.
#[test]
fn the_algorithm_of_the_configuration_is_not_for_another_driver_and_that_of_the_annotation_is() {
    for (config, driver, annotations, expected) in [
        (ovn(), "amphora", vec![], None),
        (managed(), "ovn", vec![], Some("SOURCE_IP_PORT")),
        (ovn(), "amphora", vec![(names::METHOD, "LEAST_CONNECTIONS")], Some("LEAST_CONNECTIONS")),
        (ovn(), "ovn", vec![], Some("SOURCE_IP_PORT")),
    ] {
        let put = "load-balancer PUT /lbaas/pools/pool-1";
        let rule =
            with(good_rule(), json!({ "remote_ip_prefix": if driver == "ovn" { "0.0.0.0/0" } else { "10.1.0.0/24" } }));
        let cloud = cloud(&with(balancer(), json!({ "provider": driver })), &listener(), &pool(), &rule);
        let cloud = cloud.on(put, Reply::json(200, "{}"));
        ensure(&config, &host(), &settled(&annotations), &nodes());
        let body = |method: &str| (put.to_owned(), json!({ "pool": { "lb_algorithm": method } }));
        assert_eq!(writes(&cloud), expected.map(body).into_iter().collect::<Vec<_>>(), "{driver} {annotations:?}");
    }
}

/// A new one would get the driver of the configuration, which cannot end TLS.
#[test]
fn one_in_error_that_the_configured_driver_could_not_be_asked_for_is_not_deleted() {
    let tls = (names::TLS_CONTAINER, "https://kms/v1/secrets/s-1");
    let error = with(balancer(), json!({ "provider": "amphora", "provisioning_status": "ERROR" }));
    for (config, deleted) in [(ovn(), false), (managed(), true)] {
        let gone = "load-balancer DELETE /lbaas/loadbalancers/lb-1";
        let cloud = cloud(&error, &listener(), &pool(), &good_rule())
            .on("key-manager GET /secrets/s-1", Reply::json(200, "{}"))
            .on(gone, Reply::status(204));
        let done = ensure(&config, &host(), &settled(&[(names::RECREATE, "true"), tls]), &nodes());
        let expected = if deleted { (Reaction::Pending, vec![gone.to_owned()]) } else { (Reaction::Retry, vec![]) };
        assert_eq!((reaction(&done), written(&cloud)), expected, "{}", message(&done));
        assert!(message(&done).contains("has gone into ERROR state"), "{}", message(&done));
    }
}
