//! Patterns of subnets, which are used when a load balancer needs a floating IP.

use super::*;

/// The first Service told of it, when its load balancer was made already.
#[test]
fn a_pattern_of_subnets_that_is_none_is_told_with_its_key() {
    for (text, expected) in [
        (
            "[LoadBalancer]\nfloating-subnet = ~(",
            Some("~cloud-config:loadbalancer.floating-subnet: invalid subnet regexp pattern \"~(\""),
        ),
        (
            "[LoadBalancerClass \"dmz\"]\nfloating-subnet = [",
            Some("~cloud-config:loadbalancerclass.dmz.floating-subnet: invalid subnet regexp pattern \"[\""),
        ),
        ("[LoadBalancer]\nfloating-subnet = ~public-\\\\d{1,3}", None),
        // An ID comes before it.
        ("[LoadBalancer]\nfloating-subnet = ~(\nfloating-subnet-id = s-1", None),
    ] {
        let problems = wrong(text);
        assert_eq!(problems.len(), usize::from(expected.is_some()), "{problems:?}");
        assert!(expected.is_none_or(|expected| problems[0].starts_with(expected)), "{problems:?}");
    }
}
