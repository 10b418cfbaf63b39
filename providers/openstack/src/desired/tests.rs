//! Cases of the reference by number: `os_NNN`.

use ccm_sdk::types::{Address, TrafficPolicy};

use super::*;
use crate::annotations as names;
use crate::config::Config;
use crate::service_spec::tests::{config, port, service, spec_of};

fn backend(name: &str, addresses: &[(AddressType, &str)]) -> Backend {
    let address = |(kind, value): &(AddressType, &str)| Address { kind: *kind, value: (*value).to_owned() };
    Backend {
        name: name.to_owned(),
        provider_id: None,
        addresses: addresses.iter().map(address).collect(),
        more: vec![],
    }
}

/// The ports of a Service behind which these Nodes are.
fn ports(config: &Config, service: &Service, backends: &[Backend]) -> Vec<Port> {
    let spec = spec_of(config, service);
    let family = spec.family.unwrap_or(IpFamily::Ipv4);
    let is_ovn = crate::service_spec::is_ovn(&config.balancers.provider);
    let parts = Parts { spec: &spec, is_ovn, family, member_subnet: Some("subnet-1") };
    parts.ports(service, &backends.iter().collect::<Vec<_>>())
}

fn only(config: &Config, service: &Service) -> Port {
    let mut ports = ports(config, service, &[]);
    assert_eq!(ports.len(), 1);
    ports.remove(0)
}

const TLS: (&str, &str) = (names::TLS_CONTAINER, "https://kms/v1/containers/c-1");
const XFF: (&str, &str) = (names::X_FORWARDED_FOR, "true");

#[test]
fn os_084_to_089_the_protocol_of_a_listener_follows_tls_then_the_header_then_the_port() {
    for (case, annotations, protocol, expected) in [
        ("os_084", vec![TLS], Protocol::Tcp, "TERMINATED_HTTPS"),
        ("os_085", vec![XFF], Protocol::Tcp, "HTTP"),
        ("os_086", vec![], Protocol::Tcp, "TCP"),
        ("os_087", vec![], Protocol::Udp, "UDP"),
        ("os_088", vec![], Protocol::Sctp, "SCTP"),
        ("os_089", vec![TLS, XFF], Protocol::Tcp, "TERMINATED_HTTPS"),
    ] {
        let mut service = service(&annotations);
        service.ports[0].protocol = protocol;
        assert_eq!(only(&config(), &service).listener.protocol, expected, "{case}");
    }
}

#[test]
fn os_091_to_094_a_listener_has_what_is_asked_for_and_nothing_else() {
    let plain = only(&config(), &service(&[])).listener;
    assert_eq!(
        serde_json::to_value(&plain).expect("JSON"),
        serde_json::json!({
            "name": "listener_0_kube_service_kubernetes_default_test", "protocol": "TCP", "protocol_port": 80,
            "connection_limit": -1, "timeout_client_data": 50000, "timeout_member_connect": 5000,
            "timeout_member_data": 50000, "timeout_tcp_inspect": 0, "allowed_cidrs": ["0.0.0.0/0"],
            "tags": ["kube_service_kubernetes_default_test", "kubernetes.io/service-uid/uid-test"],
        })
    );
    for (case, annotations, protocol, header, reference) in [
        ("os_091", vec![TLS, XFF], "TERMINATED_HTTPS", Some("true"), Some("https://kms/v1/containers/c-1")),
        ("os_092", vec![TLS], "TERMINATED_HTTPS", None, Some("https://kms/v1/containers/c-1")),
        ("os_094", vec![XFF], "HTTP", Some("true"), None),
    ] {
        let listener = only(&config(), &service(&annotations)).listener;
        let found = (listener.protocol.as_str(), listener.insert_headers.get(FORWARDED).map(String::as_str));
        assert_eq!(found, (protocol, header), "{case}");
        assert_eq!(listener.default_tls_container_ref.as_deref(), reference, "{case}");
    }
    for (case, config, ranges, time) in [
        ("os_093", ovn(), None, None),
        ("amphora has both", config(), Some(vec!["10.0.0.0/8".to_owned()]), Some(50_000)),
    ] {
        let mut service = service(&[]);
        service.source_ranges = vec!["10.0.0.0/8".to_owned()];
        let listener = only(&config, &service).listener;
        assert_eq!((listener.allowed_cidrs, listener.timeout_client_data), (ranges, time), "{case}");
    }
}

fn ovn() -> Config {
    let mut config = config();
    config.balancers.provider = "ovn".to_owned();
    config
}

#[test]
fn os_095_to_101_a_pool_follows_proxy_then_its_listener() {
    let proxy = |value| (names::PROXY_PROTOCOL, value);
    for (case, annotations, protocol, expected) in [
        ("os_095", vec![proxy("true")], Protocol::Tcp, "PROXY"),
        ("os_095", vec![proxy("true"), TLS], Protocol::Tcp, "PROXY"),
        ("os_096", vec![XFF], Protocol::Tcp, "HTTP"),
        ("os_100", vec![proxy("v2")], Protocol::Tcp, "PROXYV2"),
        ("a UDP port speaks neither", vec![proxy("v2"), TLS], Protocol::Udp, "UDP"),
    ] {
        let mut service = service(&annotations);
        service.ports[0].protocol = protocol;
        assert_eq!(only(&config(), &service).pool.protocol, expected, "{case}");
    }
    let mut sticky = service(&[]);
    for (case, seconds, expected) in [("os_098", None, None), ("os_099", Some(60), Some("SOURCE_IP"))] {
        sticky.client_ip_affinity_seconds = seconds;
        let persistence = only(&config(), &sticky).pool.session_persistence;
        assert_eq!(persistence.map(|persistence| persistence.kind).as_deref(), expected, "{case}");
    }
    for (case, annotations, expected) in
        [("os_101", vec![(names::METHOD, "SOURCE_IP")], "SOURCE_IP"), ("os_101", vec![], "ROUND_ROBIN")]
    {
        assert_eq!(only(&config(), &service(&annotations)).pool.lb_algorithm, expected, "{case}");
    }
}

#[test]
fn os_112_to_119_a_node_is_reached_at_its_first_internal_address_else_an_external_one_of_the_family() {
    use AddressType::{ExternalDns, ExternalIp as E, InternalIp as I};
    let (v4, v6) = (Some(IpFamily::Ipv4), Some(IpFamily::Ipv6));
    let (a, b, a6, b6) = ("10.0.0.1", "10.0.0.2", "fd00::1", "fd00::2");
    for (case, addresses, family, expected) in [
        ("os_112", vec![], v4, None),
        ("os_112", vec![], v6, None),
        ("os_113", vec![(I, a)], v4, Some(a)),
        ("os_113", vec![(I, a6)], v6, Some(a6)),
        ("os_114", vec![(E, b), (I, a)], v4, Some(a)),
        ("os_115", vec![(I, a6), (I, a), (I, b)], v4, Some(a)),
        ("os_115", vec![(I, a), (I, b6), (I, a6)], v6, Some(b6)),
        ("os_116", vec![(I, a6), (I, a)], None, Some(a6)),
        ("os_117", vec![(I, a6)], v4, None),
        ("os_118", vec![(ExternalDns, "node.example.org")], v4, None),
        ("os_119", vec![(E, b), (E, b6), (I, a6), (I, a)], v4, Some(a)),
        ("os_119", vec![(E, b), (E, b6), (I, a6), (I, a)], v6, Some(a6)),
        ("an external one where there is no other", vec![(E, b)], v4, Some(b)),
    ] {
        let found = address(&backend("n", &addresses), family).map(|address| address.to_string());
        assert_eq!(found.as_deref(), expected, "{case}");
    }
}

#[test]
fn os_120_to_123_members_are_nodes_with_an_address_on_the_node_port() {
    let nodes = [
        backend("b", &[(AddressType::InternalIp, "10.0.0.2")]),
        backend("a", &[(AddressType::InternalIp, "10.0.0.1")]),
        backend("new", &[]),
        // Neither is beside its twin.
        backend("twin", &[(AddressType::InternalIp, "10.0.0.1")]),
        backend("twin of b", &[(AddressType::InternalIp, "10.0.0.2")]),
    ];
    let mut service = service(&[]);
    let members = |service: &Service, config: &Config| ports(config, service, &nodes).remove(0).members;
    let found = members(&service, &config());
    let places: Vec<_> = found.iter().map(|member| (member.name.as_str(), member.address.as_str())).collect();
    assert_eq!(places, [("a", "10.0.0.1"), ("b", "10.0.0.2")], "os_123");
    assert!(found.iter().all(|member| member.protocol_port == 30_000 && member.monitor_port.is_none()));
    assert_eq!(found[0].subnet_id.as_deref(), Some("subnet-1"));
    service.external_traffic_policy = TrafficPolicy::Local;
    service.health_check_node_port = Some(31_000);
    for (case, monitor, expected) in [("os_121", "true", Some(31_000)), ("os_121", "false", None)] {
        service.annotations = vec![(names::MONITOR.to_owned(), monitor.to_owned())];
        assert_eq!(members(&service, &config())[0].monitor_port, expected, "{case}");
    }
    for (case, node_port) in [("os_120", None), ("os_122", Some(0))] {
        service.ports[0].node_port = node_port;
        assert_eq!(members(&service, &config()), vec![], "{case}");
    }
}

#[test]
fn os_141_to_144_a_monitor_asks_the_health_check_port_where_octavia_can() {
    let watched = |config: &Config, protocol, health: Option<u16>| {
        let mut service = service(&[(names::MONITOR, "true"), (names::MONITOR_DELAY, "7")]);
        service.ports[0].protocol = protocol;
        service.external_traffic_policy = TrafficPolicy::Local;
        service.health_check_node_port = health;
        let port = only(config, &service);
        port.monitor.expect("a monitor")
    };
    for (case, config, protocol, health, kind) in [
        ("os_141", ovn(), Protocol::Udp, Some(31_000), "UDP-CONNECT"),
        ("os_142", ovn(), Protocol::Tcp, Some(31_000), "TCP"),
        ("os_143", config(), Protocol::Tcp, None, "TCP"),
        ("os_144", config(), Protocol::Tcp, Some(31_000), "HTTP"),
        ("a monitor of SCTP", config(), Protocol::Sctp, None, "SCTP"),
    ] {
        let monitor = watched(&config, protocol, health);
        let http = (kind == "HTTP").then_some(("/healthz", "GET", "200"));
        let found =
            monitor.url_path.as_deref().zip(monitor.http_method.as_deref()).zip(monitor.expected_codes.as_deref());
        assert_eq!(
            (monitor.kind.as_str(), found),
            (kind, http.map(|(path, method, code)| ((path, method), code))),
            "{case}"
        );
        let times = (monitor.delay, monitor.timeout, monitor.max_retries, monitor.max_retries_down);
        assert_eq!(times, (7, 3, 1, 3), "{case}");
    }
}

/// The Go manager sent this port to OVN again and again, since the cloud never kept it.
#[test]
fn os_198_ovn_is_told_no_port_to_watch() {
    let mut service = service(&[(names::MONITOR, "true")]);
    service.external_traffic_policy = TrafficPolicy::Local;
    service.health_check_node_port = Some(31_000);
    let nodes = [backend("a", &[(AddressType::InternalIp, "10.0.0.1")])];
    for (case, config, expected) in [("os_198", ovn(), None), ("amphora has one", config(), Some(31_000))] {
        assert_eq!(ports(&config, &service, &nodes)[0].members[0].monitor_port, expected, "{case}");
    }
}

#[test]
fn os_178_the_same_port_of_two_protocols_is_two_listeners() {
    let mut service = service(&[]);
    service.ports.push(ccm_sdk::types::ServicePort { protocol: Protocol::Udp, ..port(80, 30_001) });
    let found: Vec<_> =
        ports(&config(), &service, &[]).into_iter().map(|port| (port.listener.protocol, port.listener.name)).collect();
    let name = |index| format!("listener_{index}_kube_service_kubernetes_default_test");
    assert_eq!(found, [("TCP".to_owned(), name(0)), ("UDP".to_owned(), name(1))]);
}
