//! Cases of the reference by number: `do_NNN`.

use ccm_sdk::types::{ServicePort, ServiceType};

use super::*;

impl Asked {
    /// As `ensure` reads it.
    pub(crate) fn of(service: &Service) -> Result<Self, Failure> {
        let (asked, problems) = read(service);
        refusal(problems).map_or(Ok(asked), Err)
    }
}

/// A TCP port of 80 on node port 30000.
pub(crate) fn service(annotations: &[(&str, &str)]) -> Service {
    Service {
        name: "test".to_owned(),
        namespace: "default".to_owned(),
        uid: "service-123".to_owned(),
        kind: ServiceType::LoadBalancer,
        deleting: false,
        labels: vec![],
        annotations: annotations.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect(),
        ports: vec![port(80, 30_000)],
        ip_families: vec![],
        external_traffic_policy: TrafficPolicy::Cluster,
        health_check_node_port: None,
        client_ip_affinity_seconds: None,
        requested_ip: None,
        source_ranges: vec![],
        load_balancer_class: None,
        ingress: vec![],
        more: vec![],
    }
}

pub(crate) fn port(port: u16, node_port: u16) -> ServicePort {
    ServicePort {
        name: String::new(),
        protocol: types::Protocol::Tcp,
        app_protocol: None,
        port,
        node_port: Some(node_port),
    }
}

pub(crate) fn udp(port: u16, node_port: u16) -> ServicePort {
    ServicePort { protocol: types::Protocol::Udp, ..self::port(port, node_port) }
}

fn asked(annotations: &[(&str, &str)]) -> Asked {
    Asked::of(&service(annotations)).expect("it can be")
}

fn refused(annotations: &[(&str, &str)]) -> Failure {
    Asked::of(&service(annotations)).expect_err("it cannot be")
}

#[test]
fn do_037_038_a_load_balancer_has_the_name_of_the_annotation_or_of_the_uid() {
    assert_eq!(asked(&[]).name, "aservice123");
    assert_eq!(asked(&[(names::NAME, "my-lb")]).name, "my-lb");
    assert_eq!(asked(&[(names::NAME, "my-lb")]).default_name, "aservice123");
    let long = Service { uid: "1".repeat(40), ..service(&[]) };
    assert_eq!(default_name(&long).len(), 32);
}

/// Every annotation with a wrong value is refused with its name, the value and what is allowed.
#[test]
fn what_cannot_be_is_told_with_annotation_value_and_what_is_allowed() {
    let sticky = (names::STICKY_TYPE, "cookies");
    let name = (names::STICKY_NAME, "DO-CCM");
    let on = (names::OVERRIDE_HEALTH_CHECK, "");
    for (case, annotations, wrong, allowed) in [
        ("do_062", vec![], (names::SIZE_SLUG, "extra-large"), "lb-small, lb-medium, lb-large"),
        ("do_064", vec![], (names::SIZE_UNIT, "large"), "whole numbers from 0 to 100"),
        ("do_064", vec![], (names::SIZE_UNIT, "-1"), "whole numbers from 0 to 100"),
        ("T34", vec![], (names::TLS_PASSTHROUGH, "yes"), "\"true\", \"false\""),
        ("do_068", vec![], (names::TLS_PORTS, "443,eight-four-four-three"), "joined by commas"),
        ("do_280", vec![], (names::HTTP_PORTS, "80;81"), "joined by commas"),
        ("do_069", vec![], (names::HTTP2_PORTS, "0"), "joined by commas"),
        ("do_069", vec![], (names::HTTP3_PORT, "443,444"), "whole numbers from 1 to 65535"),
        ("do_071", vec![], (names::PROTOCOL, "invalid"), "tcp, http, https, http2"),
        ("do_071", vec![], (names::PROTOCOL, "udp"), "tcp, http, https, http2"),
        ("T32", vec![], (names::PROTOCOL, "http3"), "tcp, http, https, http2"),
        ("T34", vec![], (names::STICKY_TYPE, "incorrect"), "cookies, none"),
        ("do_074", vec![sticky, name], (names::STICKY_TTL, "soon"), "whole numbers from 1"),
        ("do_075", vec![], (names::REDIRECT, "42"), "\"true\", \"false\""),
        ("do_076", vec![], (names::PROXY_PROTOCOL, "42"), "\"true\", \"false\""),
        ("do_077", vec![], (names::KEEPALIVE, "42"), "\"true\", \"false\""),
        ("do_078", vec![], (names::NO_DNS_RECORDS, "42"), "\"true\", \"false\""),
        ("do_079", vec![], (names::IDLE_TIMEOUT, "abcd"), "whole numbers from 30 to 600"),
        ("D14", vec![], (names::IDLE_TIMEOUT, "29"), "whole numbers from 30 to 600"),
        ("do_080", vec![], (names::TYPE, "abcd"), "REGIONAL, REGIONAL_NETWORK"),
        ("do_080", vec![], (names::TYPE, "GLOBAL"), "REGIONAL, REGIONAL_NETWORK"),
        ("do_081", vec![], (names::NETWORK, "abcd"), "EXTERNAL, INTERNAL"),
        ("do_117", vec![], (names::HEALTH_INTERVAL, "x"), "whole numbers from 1"),
        ("do_117", vec![], (names::HEALTH_TIMEOUT, "x"), "whole numbers from 1"),
        ("do_117", vec![], (names::HEALTH_UNHEALTHY, "x"), "whole numbers from 1"),
        ("do_117", vec![], (names::HEALTH_HEALTHY, "x"), "whole numbers from 1"),
        ("do_123", vec![on], (names::HEALTH_PROTOCOL, "invalid"), "tcp, http, https"),
        ("do_126", vec![on], (names::HEALTH_PORT, "invalid"), "number of a Service port"),
        ("do_152", vec![], (names::NETWORK_STACK, "foo"), "IPV4, DUALSTACK"),
        ("D14", vec![], (names::DENY_RULES, "1.2.3.4"), "ip:ADDRESS"),
        ("D14", vec![], (names::ALLOW_RULES, "cidr:1.2.3.4"), "cidr:NETWORK"),
        ("D14", vec![], (names::NAME, "-x"), "letters, digits"),
    ] {
        let annotations: Vec<_> = annotations.into_iter().chain([wrong]).collect();
        let failure = refused(&annotations);
        assert_eq!(failure.field, Some(format!("metadata.annotations[{}]", wrong.0)), "{case}");
        for part in ["failed to build load-balancer request", wrong.0, &format!("{:?}", wrong.1), allowed] {
            assert!(failure.message.contains(part), "{case}: {part}: {}", failure.message);
        }
    }
}

#[test]
fn what_is_missing_or_contradicts_something_is_told() {
    let sticky = (names::STICKY_TYPE, "cookies");
    let on = (names::OVERRIDE_HEALTH_CHECK, "true");
    for (case, annotations, words) in [
        ("do_073", vec![sticky, (names::STICKY_TTL, "300")], "sticky session cookie name not specified, but required"),
        ("do_074", vec![sticky, (names::STICKY_NAME, "c")], "sticky session cookie ttl not specified, but required"),
        ("do_131", vec![sticky], "sticky session cookie name not specified, but required"),
        (
            "do_125",
            vec![on, (names::HEALTH_PORT, "9999")],
            "specified health check port 9999 does not exist on service default/test",
        ),
        ("do_127", vec![on, (names::HEALTH_PORT, "636,332")], "only supports a single port, but found multiple"),
        (
            "do_137",
            vec![(names::SIZE_SLUG, "lb-small"), (names::SIZE_UNIT, "2")],
            "only one of LB size slug and size unit can be provided",
        ),
        (
            "do_151",
            vec![(names::NETWORK, "INTERNAL"), (names::NETWORK_STACK, "DUALSTACK")],
            "network stack configuration error",
        ),
    ] {
        let failure = refused(&annotations);
        assert!(failure.message.contains(words), "{case}: {}", failure.message);
    }
    let all = refused(&[(names::TYPE, "x"), (names::REDIRECT, "y")]).message;
    assert!(all.contains(names::TYPE) && all.contains(names::REDIRECT), "{all}");
}

#[test]
fn do_060_to_081_values_are_read() {
    let is =
        |annotations: &[(&str, &str)], good: fn(&Asked) -> bool| assert!(good(&asked(annotations)), "{annotations:?}");
    is(&[(names::ALGORITHM, "least_connections")], |asked| asked.algorithm == "least_connections");
    is(&[(names::ALGORITHM, "invalid")], |asked| asked.algorithm == "round_robin");
    is(&[], |asked| asked.algorithm == "round_robin");
    is(&[(names::SIZE_SLUG, "lb-large")], |asked| asked.size == Some(Size::Large));
    is(&[(names::SIZE_SLUG, "")], |asked| asked.size.is_none());
    is(&[(names::SIZE_UNIT, "3")], |asked| asked.size_unit == Some(3));
    is(&[(names::SIZE_UNIT, "0")], |asked| asked.size_unit.is_none());
    is(&[], |asked| asked.size_unit.is_none());
    is(&[(names::TLS_PASSTHROUGH, "true")], |asked| asked.passthrough);
    is(&[(names::TLS_PASSTHROUGH, "false")], |asked| !asked.passthrough);
    is(&[(names::CERTIFICATE_ID, "c-1")], |asked| asked.certificate == Certificate::Id("c-1".to_owned()));
    is(&[(names::CERTIFICATE_ID, "c-1"), (names::CERTIFICATE_NAME, "n")], |asked| {
        matches!(asked.certificate, Certificate::Id(_))
    });
    is(&[], |asked| asked.certificate == Certificate::None);
    is(&[(names::TLS_PORTS, "443")], |asked| asked.tls_ports == [443]);
    is(&[(names::TLS_PORTS, "443,8443")], |asked| asked.tls_ports == [443, 8443]);
    is(&[(names::TLS_PORTS, "443, 8443")], |asked| asked.tls_ports == [443, 8443]);
    is(&[(names::HTTP_PORTS, "8080")], |asked| asked.http_ports == [8080]);
    is(&[(names::HTTP2_PORTS, "443")], |asked| asked.http2_ports == [443]);
    is(&[(names::HTTP3_PORT, "443")], |asked| asked.http3_port == Some(443));
    is(&[], |asked| asked.protocol == Protocol::Tcp);
    is(&[(names::PROTOCOL, "http2")], |asked| asked.protocol == Protocol::Http2);
    is(&[], |asked| asked.cookie.is_none());
    is(&[(names::STICKY_TYPE, "none")], |asked| asked.cookie.is_none());
    is(&[(names::REDIRECT, "T")], |asked| asked.redirect);
    is(&[(names::PROXY_PROTOCOL, "1")], |asked| asked.proxy_protocol);
    is(&[(names::KEEPALIVE, "true")], |asked| asked.keepalive);
    is(&[(names::NO_DNS_RECORDS, "True")], |asked| asked.no_dns_records);
    is(&[(names::IDLE_TIMEOUT, "120")], |asked| asked.idle_timeout == Some(120));
    is(&[], |asked| asked.idle_timeout.is_none() && !asked.redirect && !asked.proxy_protocol && !asked.keepalive);
    is(&[(names::TYPE, "")], |asked| asked.kind.is_none());
    is(&[(names::TYPE, "REGIONAL")], |asked| asked.kind == Some(Kind::Regional));
    is(&[(names::NETWORK, "INTERNAL")], |asked| asked.network == Some(Network::Internal));
    is(&[(names::IP, " 203.0.113.5 ")], |asked| asked.ip.as_deref() == Some("203.0.113.5"));
    is(&[(names::HOSTNAME, "LB.Example.com")], |asked| asked.hostname.as_deref() == Some("lb.example.com"));
}

#[test]
fn do_111_to_116_the_automatic_health_check() {
    let health = |service: &Service| Asked::of(service).expect("it can be").health;
    assert_eq!(
        health(&service(&[])),
        Health { target: HealthTarget::Automatic(10_256), interval: 3, timeout: 5, unhealthy: 3, healthy: 5 }
    );
    let mut local = service(&[]);
    local.external_traffic_policy = TrafficPolicy::Local;
    assert_eq!(health(&local).target, HealthTarget::Automatic(10_256));
    local.health_check_node_port = Some(25_000);
    assert_eq!(health(&local).target.parts(), ("http", 25_000, "/healthz", Some(false)));
    let numbers = [
        (names::HEALTH_INTERVAL, "1"),
        (names::HEALTH_TIMEOUT, "3"),
        (names::HEALTH_UNHEALTHY, "1"),
        (names::HEALTH_HEALTHY, "2"),
    ];
    let (asked, problems) = read(&service(&numbers));
    let health = asked.health;
    assert_eq!((health.interval, health.timeout, health.unhealthy, health.healthy), (1, 3, 1, 2));
    assert!(problems.len() == 2 && problems.iter().all(|problem| !problem.fatal), "{problems:?}");
}

#[test]
fn do_113_114_118_to_124_the_health_check_of_the_annotations() {
    let on = (names::OVERRIDE_HEALTH_CHECK, "false");
    let mut two = service(&[]);
    two.ports = vec![udp(53, 30_053), port(80, 30_000), port(81, 30_001), port(636, 30_636)];
    for (annotations, expected) in [
        (vec![on], ("tcp", 30_000, "")),
        (vec![on, (names::PROTOCOL, "http")], ("tcp", 30_000, "")),
        (vec![on, (names::HEALTH_PROTOCOL, "http")], ("http", 30_000, "")),
        (vec![on, (names::HEALTH_PROTOCOL, "https")], ("https", 30_000, "")),
        (vec![on, (names::HEALTH_PATH, "/health")], ("http", 30_000, "/health")),
        (vec![on, (names::HEALTH_PORT, "636")], ("tcp", 30_636, "")),
        (
            vec![on, (names::HEALTH_PROTOCOL, "http"), (names::HEALTH_PORT, "81"), (names::HEALTH_PATH, "/test")],
            ("http", 30_001, "/test"),
        ),
    ] {
        let service = Service { annotations: service(&annotations).annotations, ..two.clone() };
        let health = Asked::of(&service).expect("it can be").health;
        let (protocol, port, path, proxy_protocol) = health.target.parts();
        assert_eq!(((protocol, port, path), proxy_protocol), (expected, None), "{annotations:?}");
    }
}

#[test]
fn do_128_a_service_of_udp_ports_alone_has_only_the_automatic_check() {
    let mut service = service(&[(names::OVERRIDE_HEALTH_CHECK, "")]);
    service.ports = vec![udp(53, 30_053)];
    let failure = Asked::of(&service).expect_err("no port to check");
    assert!(failure.message.contains("no health check port of protocol TCP found"), "{}", failure.message);
    service.annotations.push((names::HEALTH_PORT.to_owned(), "53".to_owned()));
    let failure = Asked::of(&service).expect_err("no port to check");
    assert!(failure.message.contains("health check port: 53, cannot be of protocol type UDP"), "{}", failure.message);
    service.annotations.clear();
    assert!(Asked::of(&service).is_ok());
}

#[test]
fn do_099_other_protocols_and_reserved_ports_are_refused() {
    let mut sctp = service(&[]);
    sctp.ports[0].protocol = types::Protocol::Sctp;
    let mut reserved = service(&[]);
    reserved.ports[0].port = 50_054;
    for (service, words) in [(sctp, "only TCP or UDP protocol is supported"), (reserved, "port 50054 is reserved")] {
        let failure = Asked::of(&service).expect_err("it cannot be");
        assert_eq!(failure.field.as_deref(), Some("spec.ports"));
        assert!(failure.message.contains(words), "{}", failure.message);
    }
}

#[test]
fn do_174_to_180_282_who_is_let_in_and_who_is_kept_out() {
    let deny = (names::DENY_RULES, "cidr:1.2.0.0/16");
    let allow = (names::ALLOW_RULES, " ip:1.2.3.5 , ip:1.2.3.4,");
    for (annotations, ranges, allowed, denied) in [
        (vec![], vec![], vec![], vec![]),
        (vec![(names::DENY_RULES, ""), (names::ALLOW_RULES, "")], vec![], vec![], vec![]),
        (vec![deny, allow], vec![], vec!["ip:1.2.3.4", "ip:1.2.3.5"], vec!["cidr:1.2.0.0/16"]),
        (vec![], vec!["1.2.0.0/16"], vec!["cidr:1.2.0.0/16"], vec![]),
        (
            vec![deny, allow],
            vec!["10.1.2.3/8", "10.0.0.0/8", "2001:db8::1/32", "1.1.1.1/32"],
            vec!["cidr:1.1.1.1/32", "cidr:10.0.0.0/8", "cidr:2001:db8::/32"],
            vec!["cidr:1.2.0.0/16"],
        ),
        (vec![], vec!["0.0.0.0/0"], vec!["cidr:0.0.0.0/0"], vec![]),
    ] {
        let mut service = service(&annotations);
        service.source_ranges = ranges.iter().map(|range| (*range).to_owned()).collect();
        let firewall = Asked::of(&service).expect("it can be").firewall;
        assert_eq!(
            (firewall.allow, firewall.deny),
            (allowed.iter().map(|r| (*r).to_owned()).collect(), denied.iter().map(|r| (*r).to_owned()).collect())
        );
    }
    for range in ["1.3.0.12", "1.3.0.0/33", "x/8", "1.2.3.0/+8"] {
        let service = Service { source_ranges: vec![range.to_owned()], ..service(&[]) };
        let failure = Asked::of(&service).expect_err("no network");
        assert_eq!(failure.field.as_deref(), Some("spec.loadBalancerSourceRanges"), "{range}");
    }
}

#[test]
fn do_281_an_annotation_that_is_misspelt_is_named() {
    let (_, problems) = read(&service(&[("service.beta.kubernetes.io/do-loadbalancer-https-ports", "443")]));
    assert_eq!(problems.len(), 1);
    assert!(
        !problems[0].fatal && problems[0].message.contains("do-loadbalancer-https-ports is unknown"),
        "{problems:?}"
    );
}

#[test]
fn a_health_check_annotation_without_the_override_is_named() {
    let (_, problems) = read(&service(&[(names::HEALTH_PATH, "/x")]));
    assert!(problems.len() == 1 && problems[0].message.contains(names::OVERRIDE_HEALTH_CHECK), "{problems:?}");
}

#[test]
fn disown_is_a_yes_or_no() {
    assert_eq!(is_disowned(&service(&[])), Ok(false));
    assert_eq!(is_disowned(&service(&[(names::DISOWN, "true")])), Ok(true));
    let failure = is_disowned(&service(&[(names::DISOWN, "yes")])).expect_err("neither");
    assert!(failure.message.contains("failed to get disown LB configuration setting"), "{}", failure.message);
}
