//! Cases of the reference by number: `os_NNN`.

mod places;
mod ranges;

use ccm_sdk::types::ServicePort;

use super::place::Choice;
use super::*;
use crate::config::Class;

pub(crate) use crate::config::tests::config;

/// A TCP port of 80 on node port 30000.
pub(crate) fn service(annotations: &[(&str, &str)]) -> Service {
    Service {
        annotations: annotations.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect(),
        ports: vec![port(80, 30_000)],
        ..Service::named("test")
    }
}

pub(crate) fn port(port: u16, node_port: u16) -> ServicePort {
    ServicePort { name: String::new(), protocol: Protocol::Tcp, app_protocol: None, port, node_port: Some(node_port) }
}

/// What a Service asks for that has nothing wrong.
pub(crate) fn spec_of(config: &Config, service: &Service) -> ServiceSpec {
    let (spec, problems) = read(config, "kubernetes", service);
    let fatal: Vec<_> = problems.into_iter().filter(|problem| problem.fatal).collect();
    assert_eq!(fatal, vec![]);
    spec
}

fn spec(annotations: &[(&str, &str)]) -> ServiceSpec {
    spec_of(&config(), &service(annotations))
}

fn problems(config: &Config, service: &Service) -> Vec<Problem> {
    read(config, "kubernetes", service).1
}

#[test]
fn os_068_a_text_takes_the_place_of_the_configurations_although_it_is_empty() {
    let mut config = config();
    for (case, configured, annotation, expected) in [
        ("os_068", "default", None, Some("default")),
        ("os_068", "default", Some((names::FLAVOR, "value")), Some("value")),
        ("os_068", "", Some((names::FLAVOR, "value")), Some("value")),
        ("os_068", "default", Some((names::HOSTNAME, "value")), Some("default")),
        ("os_068", "", None, None),
        ("Q47", "default", Some((names::FLAVOR, "")), None),
    ] {
        config.balancers.flavor = configured.to_owned();
        let service = service(annotation.as_slice());
        assert_eq!(spec_of(&config, &service).flavor.as_deref(), expected, "{case}");
    }
}

#[test]
fn os_069_070_numbers_and_flags_that_are_none_are_as_if_they_were_not_there_and_told() {
    for (case, value, expected, told) in
        [("os_069", None, -1, false), ("os_069", Some("77"), 77, false), ("os_069", Some("many"), -1, true)]
    {
        let service = service(value.map(|value| (names::CONNECTION_LIMIT, value)).as_slice());
        assert_eq!(spec_of(&config(), &service).connection_limit, expected, "{case}");
        assert_eq!(!problems(&config(), &service).is_empty(), told, "{case}");
    }
    for (case, value, expected, told) in [
        ("os_070", None, false, false),
        ("os_070", Some("true"), true, false),
        ("os_070", Some("false"), false, false),
        ("os_070", Some("True"), false, true),
    ] {
        let service = service(value.map(|value| (names::KEEP_FLOATING_IP, value)).as_slice());
        assert_eq!(spec_of(&config(), &service).keeps_floating_ip, expected, "{case}");
        assert_eq!(!problems(&config(), &service).is_empty(), told, "{case}");
    }
}

/// As Octavia has it: 365 days, in milliseconds.
#[test]
fn a_listener_may_wait_for_a_year_and_no_longer() {
    use names::{TIMEOUT_CLIENT_DATA, TIMEOUT_MEMBER_CONNECT, TIMEOUT_MEMBER_DATA, TIMEOUT_TCP_INSPECT};
    for name in [TIMEOUT_CLIENT_DATA, TIMEOUT_MEMBER_CONNECT, TIMEOUT_MEMBER_DATA, TIMEOUT_TCP_INSPECT] {
        for (value, wrong) in [("86400001", false), ("31536000000", false), ("31536000001", true), ("-1", true)] {
            let found = problems(&config(), &service(&[(name, value)]));
            assert_eq!(found.iter().any(|problem| problem.fatal), wrong, "{name} {value}: {found:?}");
        }
    }
    let spec = spec(&[(TIMEOUT_CLIENT_DATA, "31536000000")]);
    assert_eq!(spec.timeouts.map(|times| times.client_data), Some(31_536_000_000));
}

#[test]
fn os_083_the_proxy_protocol_has_two_versions() {
    for (case, value, expected) in [
        ("os_083", Some("false"), None),
        ("os_083", Some("true"), Some(Proxy::V1)),
        ("os_083", Some("v1"), Some(Proxy::V1)),
        ("os_083", Some("v2"), Some(Proxy::V2)),
        ("os_083", None, None),
        ("os_083", Some("yes"), None),
    ] {
        assert_eq!(
            spec(value.map(|value| (names::PROXY_PROTOCOL, value)).as_slice()).proxy,
            expected,
            "{case} {value:?}"
        );
    }
}

#[test]
fn what_cannot_be_is_told_all_at_once_with_field_and_what_is_allowed() {
    let service = service(&[
        (names::PROXY_PROTOCOL, "true"),
        (names::X_FORWARDED_FOR, "true"),
        (names::CLASS, "dnz"),
        (names::MONITOR, "true"),
        (names::MONITOR_MAX_RETRIES, "0"),
        (names::TIMEOUT_CLIENT_DATA, "-1"),
        (names::SOURCE_RANGES, "10.0.0.0/8,everybody"),
    ]);
    let mut config = config();
    config.classes = vec![("dmz".to_owned(), Class::default())];
    let found = problems(&config, &service);
    let fatal: Vec<_> = found.iter().filter(|problem| problem.fatal).collect();
    let fields: Vec<_> = fatal.iter().map(|problem| problem.field.as_str()).collect();
    let named = [
        names::CLASS,
        names::PROXY_PROTOCOL,
        names::MONITOR_MAX_RETRIES,
        names::TIMEOUT_CLIENT_DATA,
        names::SOURCE_RANGES,
    ];
    let mut expected: Vec<String> = named.map(field).to_vec();
    let mut fields: Vec<_> = fields.into_iter().map(str::to_owned).collect();
    expected.sort();
    fields.sort();
    assert_eq!(fields, expected);
    let words: String = fatal.iter().map(|problem| format!("{}\n", problem.message)).collect();
    for part in ["is it meant to be dmz?", "cannot be used together", "whole numbers from 1 to 10", "\"everybody\""] {
        assert!(words.contains(part), "{part}: {words}");
    }
}

#[test]
fn os_124_to_135_networks_and_subnets_are_from_the_annotation_the_class_or_the_configuration() {
    let of = |text: &str| Class {
        member_subnet: format!("member-{text}"),
        subnet: format!("subnet-{text}"),
        network: format!("network-{text}"),
        ..Class::default()
    };
    let mut config = config();
    config.balancers.place = of("conf");
    config.classes = vec![("dmz".to_owned(), of("class"))];
    let internal = (names::INTERNAL, "true");
    let class = (names::CLASS, "dmz");
    let unknown = (names::CLASS, "invalid-lb-class");
    for (case, annotations, expected) in [
        (
            "os_124",
            vec![internal, unknown, (names::MEMBER_SUBNET, "member-own")],
            "member-own subnet-conf network-conf",
        ),
        ("os_125", vec![internal, class], "member-class subnet-class network-class"),
        ("os_126", vec![internal], "member-conf subnet-conf network-conf"),
        ("os_128", vec![internal, class, (names::SUBNET, "subnet-own")], "member-class subnet-own network-class"),
        ("os_129", vec![class], "member-class subnet-class network-class"),
        ("os_131", vec![], "member-conf subnet-conf network-conf"),
        ("os_132", vec![internal, class, (names::NETWORK, "network-own")], "member-class subnet-class network-own"),
        ("os_133", vec![internal, class], "member-class subnet-class network-class"),
        ("os_134", vec![], "member-conf subnet-conf network-conf"),
        ("7.3.1, external", vec![class, (names::SUBNET, "subnet-own")], "member-class subnet-class network-class"),
        ("empty network", vec![(names::NETWORK, "")], "member-conf subnet-conf network-conf"),
        ("empty subnet", vec![(names::SUBNET, "")], "member-conf subnet-conf network-conf"),
        ("empty member subnet", vec![(names::MEMBER_SUBNET, "")], "member-conf subnet-conf network-conf"),
        (
            "all empty, with a class",
            vec![internal, class, (names::NETWORK, ""), (names::SUBNET, " "), (names::MEMBER_SUBNET, "")],
            "member-class subnet-class network-class",
        ),
    ] {
        let place = read(&config, "kubernetes", &service(&annotations)).0.place;
        let found = [place.member_subnet, place.subnet, place.network].map(Option::unwrap_or_default).join(" ");
        assert_eq!(found, expected, "{case}");
    }
    for case in ["os_127", "os_130", "os_135"] {
        let found = problems(&config, &service(&[unknown]));
        assert!(
            found[0].fatal && found[0].message.starts_with("invalid loadbalancer class \"invalid-lb-class\""),
            "{case}"
        );
    }
}

#[test]
fn a_floating_ip_is_from_the_first_that_says_anything_about_subnets() {
    let mut config = config();
    config.balancers.place.floating_network = "net-conf".to_owned();
    config.balancers.place.floating_subnet = "conf-*".to_owned();
    let dmz =
        Class { floating_network: "net-class".to_owned(), floating_subnet_tags: "dmz".to_owned(), ..Class::default() };
    config.classes = vec![("dmz".to_owned(), dmz)];
    let matching = |name: &str, tags: &str| Choice::Matching(name.to_owned(), tags.to_owned());
    for (annotations, network, choice) in [
        (vec![], Some("net-conf"), matching("conf-*", "")),
        (vec![(names::CLASS, "dmz"), (names::FLOATING_NETWORK, "own")], Some("net-class"), matching("", "dmz")),
        // Only an empty network takes the place of the configuration's.
        (vec![(names::FLOATING_NETWORK, ""), (names::FLOATING_SUBNET, "")], None, matching("conf-*", "")),
        (vec![(names::FLOATING_SUBNET_ID, "")], Some("net-conf"), matching("conf-*", "")),
        (vec![(names::FLOATING_SUBNET, " ")], Some("net-conf"), matching("conf-*", "")),
        (vec![(names::FLOATING_SUBNET_TAGS, "")], Some("net-conf"), matching("conf-*", "")),
        (
            vec![(names::FLOATING_SUBNET, ""), (names::FLOATING_SUBNET_TAGS, "own")],
            Some("net-conf"),
            matching("", "own"),
        ),
        (
            vec![(names::FLOATING_SUBNET_ID, "s-1"), (names::FLOATING_SUBNET, "x")],
            Some("net-conf"),
            Choice::Subnet("s-1".to_owned()),
        ),
    ] {
        let floating = spec_of(&config, &service(&annotations)).floating;
        assert_eq!((floating.network.as_deref(), floating.choice), (network, choice), "{annotations:?}");
    }
}

#[test]
fn os_181_ranges_of_the_other_family_are_left_out_and_nobody_is_not_everybody() {
    let with = |ranges: &[&str], family: Option<IpFamily>| {
        let mut service = service(&[]);
        service.source_ranges = ranges.iter().map(|range| (*range).to_owned()).collect();
        service.ip_families.extend(family);
        service
    };
    let only = |text: &str| Ranges::Only(vec![Cidr::masked(text).expect("a network")]);
    for (case, ranges, family, expected, fatal) in [
        ("os_181", vec!["10.1.2.3/8", "::/0"], None, only("10.0.0.0/8"), false),
        ("os_181", vec!["::/0"], None, Ranges::Only(vec![]), true),
        ("os_181", vec!["0.0.0.0/0"], Some(IpFamily::Ipv6), Ranges::Only(vec![]), true),
        ("os_181", vec!["::/0", "fd00::/8"], Some(IpFamily::Ipv6), Ranges::Everybody, false),
        ("Q34", vec![], None, Ranges::Everybody, false),
    ] {
        let (spec, problems) = read(&config(), "kubernetes", &with(&ranges, family));
        assert_eq!(spec.ranges, expected, "{case} {ranges:?}");
        assert_eq!(problems.iter().any(|problem| problem.fatal), fatal, "{case} {ranges:?}");
    }
}

#[test]
fn os_214_an_internal_configuration_wins_and_says_so() {
    let mut config = config();
    config.balancers.internal = true;
    for (case, annotation, told) in
        [("os_214", Some("false"), true), ("os_214", Some("true"), false), ("os_214", None, false)]
    {
        let service = service(annotation.map(|value| (names::INTERNAL, value)).as_slice());
        assert!(spec_of(&config, &service).internal, "{case}");
        assert_eq!(
            problems(&config, &service).iter().any(|problem| problem.field.contains("internal")),
            told,
            "{case}"
        );
    }
}

#[test]
fn a_value_that_has_no_effect_is_told_and_refuses_nothing() {
    let mut ovn = config();
    ovn.balancers.provider = "ovn".to_owned();
    let v6 = |annotations: &[(&str, &str)]| Service {
        ip_families: vec![IpFamily::Ipv6],
        source_ranges: vec!["10.0.0.0/8".to_owned()],
        ..service(annotations)
    };
    for (case, config, service, told) in [
        ("not watched", config(), service(&[(names::MONITOR_DELAY, "0")]), field(names::MONITOR_DELAY)),
        (
            "not watched",
            config(),
            service(&[(names::MONITOR, "false"), (names::MONITOR_MAX_RETRIES, "11")]),
            field(names::MONITOR_MAX_RETRIES),
        ),
        ("ovn", ovn.clone(), service(&[(names::TIMEOUT_CLIENT_DATA, "-1")]), field(names::TIMEOUT_CLIENT_DATA)),
        ("ovn", ovn.clone(), service(&[(names::TIMEOUT_TCP_INSPECT, "5")]), field(names::TIMEOUT_TCP_INSPECT)),
        ("ovn", ovn.clone(), service(&[(names::FLAVOR, "f")]), field(names::FLAVOR)),
        ("ovn keeps nobody out", ovn.clone(), v6(&[]), "spec.loadBalancerSourceRanges".to_owned()),
    ] {
        let found = problems(&config, &service);
        assert!(found.iter().all(|problem| !problem.fatal), "{case}: {found:?}");
        assert!(found.iter().any(|problem| problem.field == told), "{case}: {found:?}");
    }
    ovn.balancers.manages_security_groups = true;
    assert!(problems(&ovn, &v6(&[])).iter().any(|problem| problem.fatal), "the security group keeps everybody out");
}

#[test]
fn of_two_families_the_one_that_is_not_served_is_named() {
    for (families, served, other) in [
        ([IpFamily::Ipv4, IpFamily::Ipv6], "serves IPv4 alone", "clients of IPv6 do not"),
        ([IpFamily::Ipv6, IpFamily::Ipv4], "serves IPv6 alone", "clients of IPv4 do not"),
    ] {
        let dual = Service { ip_families: families.to_vec(), ..service(&[]) };
        let found = problems(&config(), &dual);
        let told = found.iter().find(|problem| problem.field == "spec.ipFamilies").expect("told");
        assert!(!told.fatal && told.message.contains(served) && told.message.contains(other), "{}", told.message);
    }
}

/// Clients would have sent in plain text what they mean to be secret.
#[test]
fn tls_that_nothing_can_end_is_refused_and_never_balanced_in_plain_text() {
    let mut config = config();
    let tls = (names::TLS_CONTAINER, "https://kms/v1/containers/c-1");
    for (provider, configured, annotations, fatal) in [
        ("ovn", "", vec![tls], true),
        ("ovn", "https://kms/v1/containers/c-2", vec![], true),
        ("ovn", "https://kms/v1/containers/c-2", vec![(names::TLS_CONTAINER, "")], false),
        ("ovn", "", vec![], false),
        ("amphora", "", vec![tls], false),
    ] {
        config.balancers.provider = provider.to_owned();
        config.balancers.tls_container = configured.to_owned();
        let mut service = service(&annotations);
        let found = problems(&config, &service);
        let refused: Vec<_> = found.iter().filter(|problem| problem.fatal).collect();
        assert_eq!(refused.len(), usize::from(fatal), "{provider} {configured:?} {annotations:?}");
        assert!(refused.iter().all(|problem| problem.field == field(names::TLS_CONTAINER)), "{refused:?}");
        let asks = if annotations.is_empty() { "default-tls-container-ref" } else { "annotation" };
        assert!(refused.iter().all(|problem| problem.message.starts_with(asks)), "{refused:?}");
        // Nothing ends TLS on a port of UDP, whoever balances it.
        service.ports[0].protocol = Protocol::Udp;
        assert!(!problems(&config, &service).iter().any(|problem| problem.fatal), "{provider} {annotations:?}");
    }
}

#[test]
fn an_option_of_http_that_has_no_effect_is_told() {
    let tls = (names::TLS_CONTAINER, "https://kms/v1/containers/c-1");
    let forwards = (names::X_FORWARDED_FOR, "true");
    for (provider, annotation, protocol, expected) in [
        ("ovn", forwards, Protocol::Tcp, Some("has no effect")),
        ("amphora", forwards, Protocol::Udp, Some("for TCP ports only")),
        ("amphora", tls, Protocol::Udp, Some("for TCP ports only")),
        ("amphora", forwards, Protocol::Tcp, None),
        ("amphora", tls, Protocol::Tcp, None),
    ] {
        let mut config = config();
        config.balancers.provider = provider.to_owned();
        let mut service = service(&[annotation]);
        service.ports[0].protocol = protocol;
        let found: Vec<_> = problems(&config, &service).into_iter().map(|problem| problem.message).collect();
        assert_eq!(found.len(), usize::from(expected.is_some()), "{found:?}");
        assert!(expected.is_none_or(|expected| found[0].contains(expected)), "{found:?}");
    }
}

#[test]
fn a_value_of_the_configuration_that_no_monitor_could_have_is_refused_where_it_is_used() {
    let mut config = config();
    config.balancers.monitor.max_retries = 0;
    let on = (names::MONITOR, "true");
    for (annotations, fatal) in [
        (vec![], None),
        (vec![(names::MONITOR, "false")], None),
        (vec![on], Some(field(names::MONITOR_MAX_RETRIES))),
        (vec![on, (names::MONITOR_MAX_RETRIES, "2")], None),
    ] {
        let problems = problems(&config, &service(&annotations));
        let found = problems.iter().find(|problem| problem.fatal);
        assert_eq!(found.map(|problem| problem.field.clone()), fatal, "{annotations:?}");
        assert!(found.is_none_or(|problem| problem.message.starts_with("monitor-max-retries in [LoadBalancer] is 0")));
    }
}
