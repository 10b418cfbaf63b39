//! Cases of the reference by number: `do_NNN`.

use ccm_sdk::types::ServicePort;

use super::*;

impl ServiceSpec {
    /// As `ensure` reads it for a load balancer that has everything.
    pub(crate) fn of(service: &Service) -> Result<Self, Failure> {
        let (service_spec, problems) = read(service);
        refusal(problems.of(Some(Kind::Regional))).map_or(Ok(service_spec), Err)
    }
}

/// A TCP port of 80 on node port 30000.
pub(crate) fn service(annotations: &[(&str, &str)]) -> Service {
    Service {
        uid: "service-123".to_owned(),
        annotations: annotations.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect(),
        ports: vec![port(80, 30_000)],
        ..Service::named("test")
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

fn service_spec(annotations: &[(&str, &str)]) -> ServiceSpec {
    ServiceSpec::of(&service(annotations)).expect("it can be")
}

fn refused(annotations: &[(&str, &str)]) -> Failure {
    ServiceSpec::of(&service(annotations)).expect_err("it cannot be")
}

fn problems(annotations: &[(&str, &str)], kind: Option<Kind>) -> Vec<Problem> {
    read(&service(annotations)).1.of(kind)
}

#[test]
fn do_037_038_a_load_balancer_has_the_name_of_the_annotation_or_of_the_uid() {
    assert_eq!(service_spec(&[]).name, "aservice123");
    assert_eq!(service_spec(&[(names::NAME, "my-lb")]).name, "my-lb");
    assert_eq!(service_spec(&[(names::NAME, "my-lb")]).default_name, "aservice123");
    assert_eq!(service_spec(&[(names::NAME, &"x".repeat(255))]).name.len(), 255);
    assert!(refused(&[(names::NAME, &"x".repeat(256))]).message.contains("at most 255"));
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
        ("do_068", vec![], (names::TLS_PORTS, "443,eight-four-four-three"), "joined by commas"),
        ("do_280", vec![], (names::HTTP_PORTS, "80;81"), "joined by commas"),
        ("do_069", vec![], (names::HTTP2_PORTS, "443,"), "joined by commas"),
        ("do_069", vec![], (names::HTTP3_PORT, "443,444"), "whole numbers from 1 to 65535"),
        ("do_071", vec![], (names::PROTOCOL, "invalid"), "tcp, http, https, http2"),
        ("do_071", vec![], (names::PROTOCOL, "udp"), "tcp, http, https, http2"),
        ("T32", vec![], (names::PROTOCOL, "http3"), "tcp, http, https, http2"),
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
        ("do_117", vec![], (names::HEALTH_INTERVAL, "x"), "whole numbers from 0"),
        ("do_117", vec![], (names::HEALTH_TIMEOUT, "x"), "whole numbers from 0"),
        ("do_117", vec![], (names::HEALTH_UNHEALTHY, "x"), "whole numbers from 0"),
        ("do_117", vec![], (names::HEALTH_HEALTHY, "x"), "whole numbers from 0"),
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
        (
            "do_073",
            vec![sticky, (names::STICKY_NAME, ""), (names::STICKY_TTL, "300")],
            "sticky session cookie name not specified, but required",
        ),
        (
            "do_074",
            vec![sticky, (names::STICKY_NAME, "c"), (names::STICKY_TTL, "")],
            "sticky session cookie ttl not specified, but required",
        ),
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
        let first = failure.message.strip_prefix("failed to build load-balancer request: ").expect("what it is about");
        assert!(first.contains(words) && (case != "do_131" || first.starts_with(words)), "{case}: {}", failure.message);
    }
    let all = refused(&[(names::TYPE, "x"), (names::REDIRECT, "y")]).message;
    assert!(all.contains(names::TYPE) && all.contains(names::REDIRECT), "{all}");
}

#[test]
fn values_are_read() {
    let is = |case: &str, annotations: &[(&str, &str)], good: fn(&ServiceSpec) -> bool| {
        assert!(good(&service_spec(annotations)), "{case}: {annotations:?}");
    };
    is("do_060", &[(names::ALGORITHM, "least_connections")], |service_spec| {
        service_spec.algorithm == "least_connections"
    });
    for text in ["round_robin", "invalid", ""] {
        is("do_060", &[(names::ALGORITHM, text)], |service_spec| service_spec.algorithm == "round_robin");
    }
    is("do_060", &[], |service_spec| service_spec.algorithm == "round_robin");
    for (text, told) in [("least_connections", 0), ("", 0), ("round_robin", 0), ("invalid", 1)] {
        let problems = problems(&[(names::ALGORITHM, text)], None);
        assert!(problems.len() == told && problems.iter().all(|problem| !problem.fatal), "do_060: {problems:?}");
    }
    is("do_061", &[(names::SIZE_SLUG, "lb-small")], |service_spec| service_spec.size == Some(Size::Small));
    is("do_061", &[(names::SIZE_SLUG, "lb-medium")], |service_spec| service_spec.size == Some(Size::Medium));
    is("do_061", &[(names::SIZE_SLUG, "lb-large")], |service_spec| service_spec.size == Some(Size::Large));
    is("do_061", &[(names::SIZE_SLUG, "")], |service_spec| service_spec.size.is_none());
    is("do_061", &[], |service_spec| service_spec.size.is_none());
    is("do_063", &[(names::SIZE_UNIT, "3")], |service_spec| service_spec.size_unit == Some(3));
    is("do_063", &[(names::SIZE_UNIT, "0")], |service_spec| service_spec.size_unit.is_none());
    is("do_063", &[], |service_spec| service_spec.size_unit.is_none());
    is("do_065", &[(names::TLS_PASSTHROUGH, "true")], |service_spec| service_spec.passthrough);
    is("do_065", &[(names::TLS_PASSTHROUGH, "false")], |service_spec| !service_spec.passthrough);
    is("do_065", &[], |service_spec| !service_spec.passthrough);
    is("do_066", &[(names::CERTIFICATE_ID, "c-1")], |service_spec| {
        service_spec.certificate == Certificate::Id("c-1".to_owned())
    });
    is("do_066", &[(names::CERTIFICATE_ID, "c-1"), (names::CERTIFICATE_NAME, "n")], |service_spec| {
        service_spec.certificate == Certificate::Id("c-1".to_owned())
    });
    is("do_066", &[(names::CERTIFICATE_ID, "")], |service_spec| service_spec.certificate == Certificate::None);
    is("do_066", &[], |service_spec| service_spec.certificate == Certificate::None);
    is("do_067", &[(names::TLS_PORTS, "443")], |service_spec| service_spec.tls_ports == [443]);
    is("do_067", &[(names::TLS_PORTS, "443,8443")], |service_spec| service_spec.tls_ports == [443, 8443]);
    is("do_280", &[(names::TLS_PORTS, "443, 8443 ")], |service_spec| service_spec.tls_ports == [443, 8443]);
    is("do_069", &[(names::HTTP_PORTS, "8080")], |service_spec| service_spec.http_ports == [8080]);
    is("do_069", &[(names::HTTP2_PORTS, "443")], |service_spec| service_spec.http2_ports == [443]);
    is("do_069", &[(names::HTTP3_PORT, "443")], |service_spec| service_spec.http3_port == Some(443));
    is("do_070", &[], |service_spec| service_spec.protocol == Protocol::Tcp);
    is("do_070", &[(names::PROTOCOL, "")], |service_spec| service_spec.protocol == Protocol::Tcp);
    is("do_070", &[(names::PROTOCOL, "tcp")], |service_spec| service_spec.protocol == Protocol::Tcp);
    is("do_070", &[(names::PROTOCOL, "http")], |service_spec| service_spec.protocol == Protocol::Http);
    is("do_070", &[(names::PROTOCOL, "https")], |service_spec| service_spec.protocol == Protocol::Https);
    is("do_070", &[(names::PROTOCOL, "http2")], |service_spec| service_spec.protocol == Protocol::Http2);
    is("do_072", &[], |service_spec| service_spec.cookie.is_none());
    is("do_072", &[(names::STICKY_TYPE, "none")], |service_spec| service_spec.cookie.is_none());
    is("do_072", &[(names::STICKY_TYPE, "incorrect")], |service_spec| service_spec.cookie.is_none());
    // Without the type name and time mean nothing.
    is("do_129", &[(names::STICKY_NAME, "c"), (names::STICKY_TTL, "300")], |service_spec| {
        service_spec.cookie.is_none()
    });
    let cookies = [(names::STICKY_TYPE, "cookies"), (names::STICKY_NAME, "DO-CCM"), (names::STICKY_TTL, "300")];
    for case in ["do_072", "do_073", "do_074", "do_130"] {
        is(case, &cookies, |service_spec| {
            service_spec.cookie == Some(Cookie { name: "DO-CCM".to_owned(), ttl_seconds: 300 })
        });
    }
    is("do_079", &[(names::IDLE_TIMEOUT, "120")], |service_spec| service_spec.idle_timeout == Some(120));
    is("do_079", &[], |service_spec| service_spec.idle_timeout.is_none());
    is("do_080", &[(names::TYPE, "")], |service_spec| service_spec.kind.is_none());
    is("do_080", &[(names::TYPE, "REGIONAL")], |service_spec| service_spec.kind == Some(Kind::Regional));
    is("do_080", &[(names::TYPE, "REGIONAL_NETWORK")], |service_spec| service_spec.kind == Some(Kind::Network));
    is("do_081", &[(names::NETWORK, "EXTERNAL")], |service_spec| service_spec.network == Some(Network::External));
    is("do_081", &[(names::NETWORK, "INTERNAL")], |service_spec| service_spec.network == Some(Network::Internal));
    is("do_081", &[], |service_spec| service_spec.network.is_none());
    is("2.1", &[(names::IP, " 203.0.113.5 ")], |service_spec| service_spec.ip.as_deref() == Some("203.0.113.5"));
    is("2.1", &[(names::HOSTNAME, "LB.Example.com")], |service_spec| {
        service_spec.hostname.as_deref() == Some("lb.example.com")
    });
}

/// Case, annotation, what it makes true.
type Flag = (&'static str, &'static str, fn(&ServiceSpec) -> bool);

/// All that Go's parser takes, and nothing else.
#[test]
fn yes_and_no_have_six_words_each() {
    let flags: [Flag; 5] = [
        ("do_065", names::TLS_PASSTHROUGH, |service_spec| service_spec.passthrough),
        ("do_075", names::REDIRECT, |service_spec| service_spec.redirect),
        ("do_076", names::PROXY_PROTOCOL, |service_spec| service_spec.proxy_protocol),
        ("do_077", names::KEEPALIVE, |service_spec| service_spec.keepalive),
        ("do_078", names::NO_DNS_RECORDS, |service_spec| service_spec.no_dns_records),
    ];
    for (case, name, is) in flags {
        assert!(!is(&service_spec(&[])), "{case}");
        for yes in ["1", "t", "T", "true", "TRUE", "True"] {
            assert!(is(&service_spec(&[(name, yes)])), "{case}: {yes}");
        }
        for no in ["0", "f", "F", "false", "FALSE", "False"] {
            assert!(!is(&service_spec(&[(name, no)])), "{case}: {no}");
        }
        // Go takes what it cannot read of this one for a no.
        let neither = ["", "yes", "42", " true", "tRUE"].into_iter().filter(|_| name != names::TLS_PASSTHROUGH);
        for neither in neither {
            assert_eq!(refused(&[(name, neither)]).field, Some(format!("metadata.annotations[{name}]")), "{case}");
        }
    }
}

#[test]
fn do_111_112_115_116_the_automatic_health_check() {
    let health = |service: &Service| ServiceSpec::of(service).expect("it can be").health;
    let target = |service: &Service| health(service).target.expect("it can be");
    assert_eq!(
        health(&service(&[])),
        Health { target: Ok(HealthTarget::Automatic(10_256)), interval: 3, timeout: 5, unhealthy: 3, healthy: 5 }
    );
    assert_eq!(target(&service(&[])).parts(), ("http", 10_256, "/healthz", Some(false)));
    let mut local = service(&[]);
    local.external_traffic_policy = TrafficPolicy::Local;
    assert_eq!(target(&local), HealthTarget::Automatic(10_256));
    local.health_check_node_port = Some(25_000);
    assert_eq!(target(&local).parts(), ("http", 25_000, "/healthz", Some(false)));
    // Left over from before: traffic goes anywhere now.
    local.external_traffic_policy = TrafficPolicy::Cluster;
    assert_eq!(target(&local), HealthTarget::Automatic(10_256));
    let numbers = [
        (names::HEALTH_INTERVAL, "1"),
        (names::HEALTH_TIMEOUT, "3"),
        (names::HEALTH_UNHEALTHY, "1"),
        (names::HEALTH_HEALTHY, "2"),
    ];
    let (service_spec, problems) = read(&service(&numbers));
    let (health, problems) = (service_spec.health, problems.of(None));
    assert_eq!((health.interval, health.timeout, health.unhealthy, health.healthy), (1, 3, 1, 2));
    let told: Vec<&str> = problems.iter().map(|problem| problem.message.as_str()).collect();
    let [interval, unhealthy] = told.as_slice() else { panic!("{told:?}") };
    assert!(interval.contains("has the value 1; documented are 3 to 300"), "{told:?}");
    assert!(unhealthy.contains("has the value 1; documented are 2 to 10"), "{told:?}");
    assert!(problems.iter().all(|problem| !problem.fatal), "{problems:?}");
}

#[test]
fn do_113_114_118_to_124_the_health_check_of_the_annotations() {
    let on = (names::OVERRIDE_HEALTH_CHECK, "false");
    let certificate = (names::CERTIFICATE_ID, "c-1");
    let pass = (names::TLS_PASSTHROUGH, "true");
    let speaks = |protocol| (names::PROTOCOL, protocol);
    let http = (names::HEALTH_PROTOCOL, "http");
    let mut two = service(&[]);
    two.ports = vec![udp(53, 30_053), port(80, 30_000), port(81, 30_001), port(636, 30_636)];
    for (case, annotations, expected) in [
        ("do_113", vec![(names::OVERRIDE_HEALTH_CHECK, "")], ("tcp", 30_000, "")),
        ("do_118", vec![on], ("tcp", 30_000, "")),
        ("do_119", vec![on, speaks("http")], ("tcp", 30_000, "")),
        ("do_119", vec![on, speaks("https"), certificate], ("tcp", 30_000, "")),
        ("do_119", vec![on, speaks("https"), pass], ("tcp", 30_000, "")),
        ("do_119", vec![on, speaks("http2"), certificate], ("tcp", 30_000, "")),
        ("do_119", vec![on, speaks("http2"), pass], ("tcp", 30_000, "")),
        ("do_119", vec![on, (names::TLS_PORTS, "80"), certificate], ("tcp", 30_000, "")),
        ("do_119", vec![on, (names::HTTP2_PORTS, "80"), pass], ("tcp", 30_000, "")),
        ("do_120", vec![on, http], ("http", 30_000, "")),
        ("do_120", vec![on, http, speaks("tcp")], ("http", 30_000, "")),
        ("do_120", vec![on, http, speaks("https"), certificate], ("http", 30_000, "")),
        ("do_120", vec![on, http, speaks("http2"), pass], ("http", 30_000, "")),
        ("do_121", vec![on, (names::HEALTH_PROTOCOL, "https")], ("https", 30_000, "")),
        ("do_122", vec![on, (names::HEALTH_PATH, "/health")], ("http", 30_000, "/health")),
        (
            "do_122",
            vec![on, (names::HEALTH_PATH, "/health"), (names::HEALTH_PROTOCOL, "tcp")],
            ("tcp", 30_000, "/health"),
        ),
        ("do_124", vec![on, (names::HEALTH_PORT, "636")], ("tcp", 30_636, "")),
        (
            "do_114",
            vec![on, http, (names::HEALTH_PORT, "81"), (names::HEALTH_PATH, "/test")],
            ("http", 30_001, "/test"),
        ),
    ] {
        let mut service = Service { annotations: service(&annotations).annotations, ..two.clone() };
        // Traffic that stays on its node may have a port of its own, for the automatic check alone.
        let stays = |port| (TrafficPolicy::Local, port);
        for (policy, port) in [(TrafficPolicy::Cluster, None), stays(None), stays(Some(25_000))] {
            (service.external_traffic_policy, service.health_check_node_port) = (policy, port);
            let health = ServiceSpec::of(&service).expect("it can be").health;
            let (protocol, port, path, proxy_protocol) = health.target.as_ref().expect("it can be").parts();
            assert_eq!(((protocol, port, path), proxy_protocol), (expected, None), "{case}: {annotations:?}");
        }
    }
}

#[test]
fn do_128_a_service_of_udp_ports_alone_has_only_the_automatic_check() {
    let mut service = service(&[(names::OVERRIDE_HEALTH_CHECK, "")]);
    service.ports = vec![udp(53, 30_053)];
    let failure = ServiceSpec::of(&service).expect_err("no port to check");
    assert!(failure.message.contains("no health check port of protocol TCP found"), "{}", failure.message);
    service.annotations.push((names::HEALTH_PORT.to_owned(), "53".to_owned()));
    let failure = ServiceSpec::of(&service).expect_err("no port to check");
    assert!(failure.message.contains("health check port: 53, cannot be of protocol type UDP"), "{}", failure.message);
    service.annotations.clear();
    assert!(ServiceSpec::of(&service).is_ok());
}

#[test]
fn do_099_other_protocols_and_reserved_ports_are_refused() {
    let mut sctp = service(&[]);
    sctp.ports[0].protocol = types::Protocol::Sctp;
    let mut reserved = service(&[]);
    reserved.ports[0].port = 50_054;
    for (service, words) in [(sctp, "only TCP or UDP protocol is supported"), (reserved, "port 50054 is reserved")] {
        let failure = ServiceSpec::of(&service).expect_err("it cannot be");
        assert_eq!(failure.field.as_deref(), Some("spec.ports"));
        assert!(failure.message.contains(words), "{}", failure.message);
    }
}

#[test]
fn do_174_to_179_282_who_is_let_in_and_who_is_kept_out() {
    let deny = (names::DENY_RULES, "cidr:1.2.0.0/16");
    let allow = (names::ALLOW_RULES, "ip:1.2.3.4,ip:1.2.3.5");
    let blanks = [(names::DENY_RULES, "  cidr:1.2.0.0/16  "), (names::ALLOW_RULES, " ip:1.2.3.5 , ip:1.2.3.4,")];
    let both = || (vec!["ip:1.2.3.4", "ip:1.2.3.5"], vec!["cidr:1.2.0.0/16"]);
    for (case, annotations, ranges, (allowed, denied)) in [
        ("do_174", vec![], vec![], (vec![], vec![])),
        ("do_174", vec![(names::DENY_RULES, ""), (names::ALLOW_RULES, "")], vec![], (vec![], vec![])),
        ("do_175", vec![deny, allow], vec![], both()),
        ("do_176", blanks.to_vec(), vec![], both()),
        ("do_177", vec![], vec![], (vec![], vec![])),
        ("ranges and rules are apart", vec![deny], vec![], (vec![], vec!["cidr:1.2.0.0/16"])),
        ("do_178", vec![], vec!["1.2.0.0/16"], (vec!["cidr:1.2.0.0/16"], vec![])),
        (
            "do_179",
            vec![deny, allow],
            vec!["10.1.2.3/8", "10.0.0.0/8", "2001:db8::1/32", "1.1.1.1/32"],
            (vec!["cidr:1.1.1.1/32", "cidr:10.0.0.0/8", "cidr:2001:db8::/32"], vec!["cidr:1.2.0.0/16"]),
        ),
        (
            "do_282",
            vec![],
            vec!["1.1.1.1/32", "2001:db8::/32", "10.0.0.0/8"],
            (vec!["cidr:1.1.1.1/32", "cidr:10.0.0.0/8", "cidr:2001:db8::/32"], vec![]),
        ),
        ("do_178", vec![], vec!["0.0.0.0/0"], (vec!["cidr:0.0.0.0/0"], vec![])),
    ] {
        let mut service = service(&annotations);
        service.source_ranges = ranges.iter().map(|range| (*range).to_owned()).collect();
        let firewall = ServiceSpec::of(&service).expect("it can be").firewall().expect("it can be");
        assert_eq!(
            (firewall.allow, firewall.deny),
            (allowed.iter().map(|r| (*r).to_owned()).collect(), denied.iter().map(|r| (*r).to_owned()).collect()),
            "{case}"
        );
    }
}

/// What the Go manager never reads, or takes for something else without a word, stops nothing here either.
#[test]
fn what_has_no_effect_in_the_go_manager_is_a_warning() {
    let ranges = Service { source_ranges: vec!["10.0.0.0/8".to_owned()], ..service(&[(names::ALLOW_RULES, "x")]) };
    let told = read(&ranges).1.of(Some(Kind::Regional));
    assert!(told.len() == 1 && !told[0].fatal && told[0].field.contains(names::ALLOW_RULES), "{told:?}");
    for (name, value) in [
        (names::TLS_PASSTHROUGH, "yes"),
        (names::TLS_PASSTHROUGH, ""),
        (names::STICKY_TYPE, "incorrect"),
        (names::ALGORITHM, "random"),
        (names::HTTP_PORTS, "0"),
        (names::TLS_PORTS, "70000"),
        (names::HTTP2_PORTS, "-1"),
        (names::HEALTH_PORT, "none"),
        (names::HEALTH_PROTOCOL, "none"),
        (names::HEALTH_INTERVAL, "0"),
    ] {
        let told = problems(&[(name, value)], Some(Kind::Regional));
        assert!(told.len() == 1 && !told[0].fatal && told[0].field.contains(name), "{name}={value:?}: {told:?}");
    }
    for (name, value) in [
        (names::PROTOCOL, "http3"),
        (names::HTTP_PORTS, "a"),
        (names::TLS_PORTS, "443,"),
        (names::HTTP2_PORTS, "x"),
        (names::HTTP3_PORT, "quic"),
        (names::REDIRECT, "42"),
        (names::PROXY_PROTOCOL, "42"),
        (names::KEEPALIVE, "42"),
        (names::NO_DNS_RECORDS, "42"),
        (names::IDLE_TIMEOUT, "abcd"),
        (names::STICKY_TYPE, "cookies"),
    ] {
        let fatal = |kind| problems(&[(name, value)], kind).iter().any(|problem| problem.fatal);
        assert_eq!(
            [Some(Kind::Regional), Some(Kind::Network), None].map(fatal),
            [true, false, false],
            "{name}={value:?}"
        );
        let service = service(&[(name, value)]);
        let remarks = crate::desired::remarks(&service, &read(&service).0, Kind::Network);
        assert!(remarks.len() == 1 && remarks[0].field.contains(name), "{remarks:?}");
    }
    let zero = service_spec(&[(names::HEALTH_INTERVAL, "0"), (names::HEALTH_HEALTHY, "0")]).health;
    assert_eq!((zero.interval, zero.timeout, zero.unhealthy, zero.healthy), (10, 5, 3, 3), "the cloud's own defaults");
}

/// A rule that could not be read once was as if there were none, which lets everybody in.
#[test]
fn who_is_let_in_cannot_be_taken_from_what_could_not_be_read() {
    let bad_range = Service { source_ranges: vec!["everybody".to_owned()], ..service(&[]) };
    for service in [bad_range, service(&[(names::ALLOW_RULES, "1.2.3.4")]), service(&[(names::DENY_RULES, "all")])] {
        assert!(read(&service).0.firewall().is_err_and(|problem| problem.fatal));
    }
}

#[test]
fn do_180_a_source_range_that_is_no_network_is_refused() {
    for range in ["1.3.0.12", "1.3.0.0/33", "x/8", "1.2.3.0/+8"] {
        let service = Service { source_ranges: vec![range.to_owned()], ..service(&[]) };
        let failure = ServiceSpec::of(&service).expect_err("no network");
        assert_eq!(failure.field.as_deref(), Some("spec.loadBalancerSourceRanges"), "{range}");
    }
}

#[test]
fn a_health_check_annotation_without_the_override_is_named() {
    let problems = problems(&[(names::HEALTH_PATH, "/x")], None);
    assert!(problems.len() == 1 && problems[0].message.contains(names::OVERRIDE_HEALTH_CHECK), "{problems:?}");
}

/// What is taken for a no is deleted with its Service, and what is taken for a yes is left to nobody.
#[test]
fn disown_is_a_yes_or_no() {
    let disown = |value: &str| is_disowned(&service(&[(names::DISOWN, value)]));
    assert_eq!(is_disowned(&service(&[])), Ok(false));
    for (yes, no) in [("1", "0"), ("t", "f"), ("T", "F"), ("true", "false"), ("TRUE", "FALSE"), ("True", "False")] {
        assert_eq!((disown(yes), disown(no)), (Ok(true), Ok(false)), "{yes} {no}");
    }
    for value in ["", " ", "yes", "no", "tRUE", "true ", "2"] {
        let failure = disown(value).expect_err("neither");
        let is_told = failure.message.contains("failed to get disown LB configuration setting");
        assert!(is_told && failure.message.contains(&format!("{value:?}")), "{value:?}: {}", failure.message);
        assert_eq!((failure.reaction, failure.field), (types::Reaction::Invalid, Some(field(names::DISOWN))));
    }
}
