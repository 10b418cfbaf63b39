//! Checks a Service before anything is done for it, without the cloud: Octavia has no way to ask it.

use ccm_sdk::annotations::field;
use ccm_sdk::types::{Problem, Service, ServiceType};

use crate::annotations as names;
use crate::balancer::Host;
use crate::config::Config;
use crate::service_spec;

/// What an existing load balancer keeps.
const FIXED: [&str; 5] = [names::NETWORK, names::SUBNET, names::PORT, names::FLAVOR, names::AVAILABILITY_ZONE];

pub(crate) fn validate(config: &Config, host: &Host, service: &Service, before: Option<&Service>) -> Vec<Problem> {
    if service.kind != ServiceType::LoadBalancer || service.deleting {
        return vec![];
    }
    let (spec, mut problems) = service_spec::read(config, &host.cluster, service);
    if spec.id.is_some() || !service.ingress.is_empty() {
        // What there is may have another driver, and only what no driver can do is refused for sure.
        let is_ovn = service_spec::is_ovn(&config.balancers.provider);
        let (_, of_other) = service_spec::read_for(!is_ovn, config, &host.cluster, service);
        for problem in problems.iter_mut().filter(|problem| problem.fatal && !of_other.contains(problem)) {
            problem.fatal = false;
            problem.message.insert_str(0, "refused only if the load balancer has the driver of lb-provider: ");
        }
    }
    if let Some(wrong) = spec.wrong_pattern() {
        let wrong =
            spec.floating.by.place("floating-subnet").map_or(wrong.clone(), |place| format!("{place}: {wrong}"));
        let problem = Problem::harmless(field(names::FLOATING_SUBNET), wrong);
        problems.push(Problem { fatal: spec.seeks_subnets(), ..problem });
    }
    let had_one = before.is_some_and(|before| before.kind == ServiceType::LoadBalancer);
    if let Some(before) = before.filter(|_| had_one) {
        let changed = FIXED.iter().filter(|name| before.annotation(name) != service.annotation(name));
        problems.extend(changed.map(|name| {
            let message =
                format!("annotation {name} is for a new load balancer: the one that there is keeps what it has");
            Problem::harmless(field(name), message)
        }));
        let id = before.annotation(names::ID).filter(|_| before.annotation(names::ADDRESS).is_some());
        if let (Some(old), Some(new)) = (id, service.annotation(names::ID))
            && old != new
        {
            let message =
                format!("annotation {} cannot be changed from {old}: delete the Service, and make it anew", names::ID);
            problems.push(Problem::harmless(field(names::ID), message));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service_spec::tests::{config, service};

    fn said(service: &Service, before: Option<&Service>) -> Vec<(String, bool)> {
        let host = Host { cluster: "kubernetes".to_owned(), provider_ids: |_| Ok(vec![]), matching: |_| Ok(vec![]) };
        let problems = validate(&config(), &host, service, before);
        problems.into_iter().map(|problem| (problem.field, problem.fatal)).collect()
    }

    #[test]
    fn everything_wrong_is_said_at_once_and_nothing_about_services_of_others() {
        let wrong = service(&[
            (names::FLOATING_SUBNET, "~("),
            (names::CLASS, "none"),
            (names::CONNECTION_LIMIT, "many"),
            (names::MONITOR, "true"),
            (names::MONITOR_DELAY, "0"),
        ]);
        let expected = [
            (field(names::CLASS), true),
            (field(names::CONNECTION_LIMIT), false),
            (field(names::FLOATING_SUBNET), true),
            (field(names::MONITOR_DELAY), true),
        ];
        let mut found = said(&wrong, None);
        found.sort();
        assert_eq!(found, expected);
        // One of a class, too, where the host asks: that class is served here.
        let of_class = Service { load_balancer_class: Some("example.com/openstack".to_owned()), ..wrong.clone() };
        let mut found = said(&of_class, None);
        found.sort();
        assert_eq!(found, expected);
        for other in [Service { kind: ServiceType::ClusterIp, ..wrong.clone() }, Service { deleting: true, ..wrong }] {
            assert_eq!(said(&other, None), []);
        }
    }

    #[test]
    fn a_pattern_of_subnets_that_nothing_is_looked_for_with_refuses_nothing() {
        let pattern = (names::FLOATING_SUBNET, "~(");
        let internal = service(&[pattern, (names::INTERNAL, "true")]);
        let asked = Service { requested_ip: Some("203.0.113.9".to_owned()), ..service(&[pattern]) };
        // There are no floating IPs of IPv6.
        let v6 = Service { ip_families: vec![ccm_sdk::types::IpFamily::Ipv6], ..service(&[pattern]) };
        for (service, fatal) in [(internal, false), (asked, false), (v6, false), (service(&[pattern]), true)] {
            assert_eq!(said(&service, None), [(field(names::FLOATING_SUBNET), fatal)]);
        }
        let mut config = config();
        config.balancers.place.floating_subnet = "~(".to_owned();
        let host = Host { cluster: "kubernetes".to_owned(), provider_ids: |_| Ok(vec![]), matching: |_| Ok(vec![]) };
        let problems = validate(&config, &host, &service(&[]), None);
        let [problem] = &problems[..] else { panic!("{problems:?}") };
        assert!(problem.fatal && problem.message.starts_with("floating-subnet in [LoadBalancer]: "), "{problem}");
    }

    /// Once, when `lb-provider` was changed, nothing of a Service with a load balancer of before could be.
    #[test]
    fn what_the_configured_driver_alone_cannot_do_denies_no_change_where_there_is_a_load_balancer_of_whatever_driver() {
        let of = |provider: &str, tls: &str| {
            let mut config = config();
            config.balancers.provider = provider.to_owned();
            config.balancers.tls_container = tls.to_owned();
            config
        };
        let secret = "https://kms/v1/secrets/s-1";
        let tls = (names::TLS_CONTAINER, secret);
        let (proxy, http) = ((names::PROXY_PROTOCOL, "true"), (names::X_FORWARDED_FOR, "true"));
        let class = (names::CLASS, "none");
        for (config, annotations, refused, for_both) in [
            (of("ovn", ""), vec![tls], names::TLS_CONTAINER, false),
            (of("ovn", secret), vec![], names::TLS_CONTAINER, false),
            (of("amphora", ""), vec![proxy, http], names::PROXY_PROTOCOL, false),
            (of("ovn", ""), vec![class], names::CLASS, true),
            (of("amphora", ""), vec![class], names::CLASS, true),
        ] {
            let new = service(&annotations);
            let published = Service { ingress: vec![ccm_sdk::types::Ingress::ip("203.0.113.7")], ..new.clone() };
            let named = service(&[&annotations[..], &[(names::ID, "lb-1")]].concat());
            for (service, is_new) in [(new, true), (published, false), (named, false)] {
                let before = service.clone();
                let host =
                    Host { cluster: "kubernetes".to_owned(), provider_ids: |_| Ok(vec![]), matching: |_| Ok(vec![]) };
                let problems = validate(&config, &host, &service, Some(&before));
                let found: Vec<_> = problems.iter().filter(|problem| problem.field == field(refused)).collect();
                let [problem] = &found[..] else { panic!("{problems:?}") };
                let is_fatal = is_new || for_both;
                assert_eq!(problem.fatal, is_fatal, "{problem}");
                assert_eq!(problem.message.starts_with("refused only if "), !is_fatal, "{problem}");
                let others = problems.iter().filter(|problem| problem.field != field(refused));
                assert!(others.into_iter().all(|other| !other.fatal), "{problems:?}");
            }
        }
    }

    #[test]
    fn what_an_existing_one_keeps_is_said_when_it_is_changed() {
        let before = service(&[(names::SUBNET, "a"), (names::ID, "lb-1"), (names::ADDRESS, "203.0.113.7")]);
        let after = service(&[(names::SUBNET, "b"), (names::FLAVOR, "f"), (names::ID, "lb-2")]);
        let expected = [names::SUBNET, names::FLAVOR, names::ID].map(|name| (field(name), false));
        assert_eq!(said(&after, Some(&before)), expected);
        assert_eq!(said(&after, None), [], "a new one");
        let unused = Service { kind: ServiceType::ClusterIp, ..before };
        assert_eq!(said(&after, Some(&unused)), []);
    }
}
