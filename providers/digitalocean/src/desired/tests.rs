use ccm_sdk::types::ServicePort;

use super::*;
use crate::backends;
use crate::backends::tests::backend;
use crate::config::tests::config;
use crate::service_spec::tests::{port, service, udp};

const CERT: (&str, &str) = (names::CERTIFICATE_ID, "c-1");
const PASS: (&str, &str) = (names::TLS_PASSTHROUGH, "true");

fn built(kind: Kind, annotations: &[(&str, &str)], ports: &[ServicePort]) -> Result<Vec<String>, String> {
    let mut service = service(annotations);
    service.ports = ports.to_vec();
    let service_spec = ServiceSpec::of(&service).map_err(|failure| failure.message)?;
    let certificate = service.annotation(names::CERTIFICATE_ID);
    let rules = rules::rules(&service_spec, kind, certificate).map_err(|problem| problem.message)?;
    let text = |rule: &Rule| {
        let tls = match (rule.certificate_id.as_str(), rule.tls_passthrough) {
            ("", false) => String::new(),
            ("", true) => " pass".to_owned(),
            (id, _) => format!(" {id}"),
        };
        format!("{} {} {} {}{tls}", rule.entry_protocol, rule.entry_port, rule.target_protocol, rule.target_port)
    };
    Ok(rules.iter().map(text).collect())
}

/// Number, annotations, ports, rules.
type Case = (&'static str, Vec<(&'static str, &'static str)>, Vec<ServicePort>, Vec<&'static str>);

#[test]
fn do_082_to_098_104_105_108_rules_of_regional_load_balancers() {
    let p80 = port(80, 30_000);
    let p443 = port(443, 30_001);
    let p886 = port(886, 30_002);
    let both = vec![p80.clone(), p443.clone()];
    let http = (names::PROTOCOL, "http");
    let http2 = (names::PROTOCOL, "http2");
    let tls = (names::TLS_PORTS, "443");
    let http3 = (names::HTTP3_PORT, "443");
    let cookies = [(names::STICKY_TYPE, "cookies"), (names::STICKY_NAME, "c"), (names::STICKY_TTL, "300")];
    let with_cookies = |more: &[(&'static str, &'static str)]| [&cookies[..], more].concat();
    let secured = ["http 80 http 30000", "https 443 http 30001 c-1"];
    let cases: Vec<Case> = vec![
        ("do_082", vec![], vec![p80.clone()], vec!["tcp 80 tcp 30000"]),
        ("do_083", vec![http], vec![p80.clone()], vec!["http 80 http 30000"]),
        ("do_084", vec![http2, CERT], vec![p80.clone()], vec!["http2 80 http 30000 c-1"]),
        ("do_085", vec![http2, PASS], vec![p80.clone()], vec!["http2 80 http2 30000 pass"]),
        ("do_086", vec![(names::PROTOCOL, "tcp")], vec![p443.clone()], vec!["tcp 443 tcp 30001"]),
        ("do_087", vec![http], vec![p443.clone()], vec!["http 443 http 30001"]),
        ("do_088", vec![http, tls, CERT], both.clone(), secured.to_vec()),
        ("do_089", vec![http, tls, PASS], both.clone(), vec!["http 80 http 30000", "https 443 https 30001 pass"]),
        ("do_090", vec![CERT], both.clone(), vec!["tcp 80 tcp 30000", "https 443 http 30001 c-1"]),
        ("do_091", vec![PASS], both.clone(), vec!["tcp 80 tcp 30000", "https 443 https 30001 pass"]),
        ("do_092", vec![PASS, (names::HTTP2_PORTS, "443")], vec![p443.clone()], vec!["http2 443 http2 30001 pass"]),
        (
            "do_093",
            vec![http, PASS, (names::HTTP2_PORTS, "886")],
            vec![p80.clone(), p443.clone(), p886.clone()],
            vec!["http 80 http 30000", "https 443 https 30001 pass", "http2 886 http2 30002 pass"],
        ),
        (
            "do_094",
            vec![(names::PROTOCOL, "tcp"), (names::HTTP_PORTS, "80"), PASS, (names::HTTP2_PORTS, "886")],
            vec![port(22, 30_022), p80.clone(), p443.clone(), p886],
            vec!["tcp 22 tcp 30022", "http 80 http 30000", "https 443 https 30001 pass", "http2 886 http2 30002 pass"],
        ),
        (
            "do_095",
            vec![http, PASS, (names::HTTP2_PORTS, "443")],
            vec![p443.clone(), p80.clone()],
            vec!["http2 443 http2 30001 pass", "http 80 http 30000"],
        ),
        ("do_096", cookies.to_vec(), vec![p80.clone()], vec!["tcp 80 tcp 30000"]),
        ("do_097", with_cookies(&[http]), vec![p80.clone()], vec!["http 80 http 30000"]),
        ("do_098", with_cookies(&[http, tls, CERT]), both, secured.to_vec()),
        (
            "do_104",
            vec![tls, http3, CERT],
            vec![p443.clone()],
            vec!["https 443 http 30001 c-1", "http3 443 http 30001 c-1"],
        ),
        (
            "do_105",
            vec![(names::HTTP2_PORTS, "443"), http3, CERT],
            vec![p443],
            vec!["http2 443 http 30001 c-1", "http3 443 http 30001 c-1"],
        ),
        (
            "HTTP comes by TCP",
            vec![tls, http3, CERT],
            vec![udp(443, 30_003), port(443, 30_001)],
            vec!["udp 443 udp 30003", "https 443 http 30001 c-1", "http3 443 http 30001 c-1"],
        ),
        (
            "do_134",
            vec![http2, CERT],
            vec![udp(443, 30_001), p80],
            vec!["udp 443 udp 30001", "http2 80 http 30000 c-1"],
        ),
    ];
    for (case, annotations, ports, expected) in cases {
        let expected: Vec<String> = expected.into_iter().map(str::to_owned).collect();
        assert_eq!(built(Kind::Regional, &annotations, &ports), Ok(expected), "{case}");
    }
}

#[test]
fn do_100_to_103_and_do_106_107_what_does_not_go_together_is_refused() {
    let ports = [port(80, 30_000), port(443, 30_001), port(8_080, 30_002)];
    let http3 = (names::HTTP3_PORT, "443");
    for (case, annotations, words) in [
        ("do_100", vec![CERT, PASS], "either certificate id should be set or tls pass through enabled, not both"),
        ("do_101", vec![(names::TLS_PORTS, "443")], "must set certificate id or enable tls pass through"),
        ("do_102", vec![(names::PROTOCOL, "http2")], "must set certificate id or enable tls pass through"),
        (
            "do_103",
            vec![(names::HTTP_PORTS, "80,8080"), (names::HTTP2_PORTS, "443,8080")],
            "cannot be shared but found: 8080",
        ),
        ("do_103", vec![(names::HTTP_PORTS, "80,80")], "cannot be shared but found: 80"),
        ("do_106", vec![http3, PASS], "TLS passthrough is not allowed to be used in conjunction with HTTP3"),
        ("do_107", vec![http3], "certificate ID is required for HTTP3"),
    ] {
        let message = built(Kind::Regional, &annotations, &ports).expect_err("it cannot be");
        assert!(message.contains(words), "{case}: {message}");
    }
    // T33
    let strange = [(names::HTTP3_PORT, "444"), CERT];
    let rules = built(Kind::Regional, &strange, &ports).expect("it has no effect");
    assert!(rules.len() == 3 && !rules.iter().any(|rule| rule.starts_with("http3")), "{rules:?}");
    let (service, service_spec) = (service(&strange), ServiceSpec::of(&service(&strange)).expect("it can be"));
    let told = remarks(&service, &service_spec, Kind::Regional);
    assert!(told.len() == 1 && told[0].message.contains("444 is no port of the Service"), "{told:?}");
    let mut without = port(80, 1);
    without.node_port = None;
    assert!(built(Kind::Regional, &[], &[without.clone()]).is_err_and(|message| message.contains("no node port")));
    assert_eq!(built(Kind::Network, &[], &[without]), Ok(vec!["tcp 80 tcp 80".to_owned()]));
}

/// Annotations have up to 256 KiB. Each port was once compared with each, for minutes, and one look at many Services waited for that;
/// and the message named all of them.
#[test]
fn a_long_list_of_ports_is_read_in_one_pass_and_the_message_names_a_few() {
    let all: Vec<String> = (1..=20_000).flat_map(|port: u32| [port.to_string(), port.to_string()]).collect();
    let all = all.join(",");
    let message = built(Kind::Regional, &[(names::HTTP_PORTS, &all)], &[port(80, 30_000)]).expect_err("each twice");
    assert!(message.contains("cannot be shared but found: 1, 10, 100, ") && message.len() < 500, "{message}");
    assert!(message.contains("more]"), "{message}");
}

#[test]
fn do_109_110_rules_of_network_load_balancers_are_about_service_ports() {
    let ports = [port(80, 30_000), udp(53, 30_000)];
    let expected = vec!["tcp 80 tcp 80".to_owned(), "udp 53 udp 53".to_owned()];
    assert_eq!(built(Kind::Network, &[(names::PROTOCOL, "http"), CERT], &ports), Ok(expected));
}

const DUAL: &[&str] = &["e4", "e6"];
const V4: &[&str] = &["e4"];

fn decided(annotations: &[(&str, &str)], default: Kind, nodes: Option<&[&[&str]]>) -> Result<String, String> {
    let config = Config { default_type: default, ..config() };
    let service_spec = ServiceSpec::of(&service(annotations)).map_err(|failure| failure.message)?;
    let fixed = Fixed::of_new(&service_spec, &config, "nyc3".to_owned());
    let backends: Option<Vec<_>> =
        nodes.map(|nodes| (1..).zip(nodes).map(|(id, addresses)| backend(id, addresses)).collect());
    let members = backends.as_deref().map(|backends| backends::members(backends).expect("good IDs"));
    let chosen = members.map(|members| backends::choose(&members, fixed.kind, fixed.network));
    let spec = spec(&Parts { service_spec: &service_spec, fixed: &fixed, nodes: chosen.as_ref(), certificate: None });
    spec.map(|spec| spec.network_stack.to_owned()).map_err(|failure| failure.message)
}

#[test]
fn do_143_to_156_the_network_stack() {
    use Kind::{Network as Nlb, Regional};
    let internal = (names::NETWORK, "INTERNAL");
    let dual = (names::NETWORK_STACK, "DUALSTACK");
    let v4 = (names::NETWORK_STACK, "IPV4");
    let refused = "network stack configuration error";
    for (case, annotations, kind, nodes, expected) in [
        ("do_143", vec![], Nlb, Some(&[DUAL, DUAL][..]), Ok("DUALSTACK")),
        ("do_144", vec![], Nlb, Some(&[V4, V4]), Ok("IPV4")),
        ("do_145", vec![], Nlb, Some(&[V4, DUAL]), Ok("IPV4")),
        ("do_146", vec![], Regional, Some(&[V4]), Ok("DUALSTACK")),
        ("do_147", vec![v4], Regional, Some(&[DUAL]), Ok("IPV4")),
        ("do_147", vec![dual], Regional, Some(&[V4]), Ok("DUALSTACK")),
        ("do_148", vec![v4], Nlb, Some(&[DUAL]), Ok("IPV4")),
        ("do_149", vec![dual], Nlb, Some(&[DUAL]), Ok("DUALSTACK")),
        ("do_150", vec![dual], Nlb, Some(&[V4]), Err(refused)),
        ("do_150", vec![dual], Nlb, Some(&[V4, DUAL]), Err(refused)),
        ("do_151", vec![internal], Nlb, Some(&[DUAL]), Ok("IPV4")),
        ("do_151", vec![internal, dual], Regional, Some(&[DUAL]), Err(refused)),
        ("do_154", vec![internal], Nlb, None, Ok("IPV4")),
        ("do_154", vec![], Regional, None, Ok("DUALSTACK")),
        ("do_154", vec![], Nlb, None, Ok("IPV4")),
        ("do_155", vec![v4], Nlb, None, Ok("IPV4")),
        ("do_155", vec![dual], Nlb, None, Ok("DUALSTACK")),
        ("do_156", vec![internal, dual], Nlb, None, Err(refused)),
    ] {
        match (decided(&annotations, kind, nodes), expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{case}"),
            (Err(message), Err(words)) => assert!(message.contains(words), "{case}: {message}"),
            (found, expected) => panic!("{case}: {found:?}, not {expected:?}"),
        }
    }
    let message = decided(&[dual], Nlb, Some(&[V4, V4, V4, V4])).expect_err("not dual-stack");
    assert!(message.contains("n1, n2, n3 [+1 more]"), "{message}");
}

fn balancer(json: &str) -> Balancer {
    serde_json::from_str(json).expect("a load balancer")
}

/// Else a load balancer would be written with each look at it.
#[test]
fn droplets_in_another_order_or_said_twice_are_no_difference() {
    let service_spec = ServiceSpec::of(&service(&[])).expect("it can be");
    let fixed = Fixed::of_new(&service_spec, &config(), "nyc3".to_owned());
    let wants = spec(&Parts { service_spec: &service_spec, fixed: &fixed, nodes: None, certificate: None });
    let wants = Spec { droplet_ids: vec![7, 9], ..wants.expect("it can be") };
    for (has, differs) in [("9, 7, 7", false), ("7, 9", false), ("7", true), ("7, 8", true)] {
        let has = balancer(&format!(r#"{{"id": "x", "droplet_ids": [{has}]}}"#));
        assert_eq!(members_differ(&has, &wants), differs, "{:?}", has.droplet_ids);
    }
}

#[test]
fn an_odd_load_balancer_of_somebody_else_is_read_all_the_same() {
    let odd = balancer(
        r#"{"id": "x", "status": "melting", "ip": null, "forwarding_rules": null, "region": null, "health_check": {}, "size_unit": null, "new": [1]}"#,
    );
    assert_eq!((odd.status.as_str(), odd.ip.as_str(), odd.forwarding_rules.len()), ("melting", "", 0));
}

#[test]
fn what_clients_see_depends_on_what_the_load_balancer_does_to_the_traffic() {
    let active = r#"{"id": "x", "status": "active", "ip": "203.0.113.7", "ipv6": "2604:a880::7"}"#;
    assert_eq!(
        ingress(&service(&[]), &balancer(active), None),
        [Ingress::ip("203.0.113.7"), Ingress::ip("2604:a880::7")]
    );
    assert_eq!(
        ingress(&service(&[]), &balancer(active), Some("lb.example.com")),
        [Ingress::hostname("lb.example.com")]
    );
    for more in [r#""enable_proxy_protocol": true"#, r#""forwarding_rules": [{"certificate_id": "c-1"}]"#] {
        let changed = balancer(&active.replace(r#", "ipv6": "2604:a880::7""#, &format!(", {more}")));
        assert_eq!(ingress(&service(&[]), &changed, None), [Ingress::ip("203.0.113.7").proxied()]);
        // One that passes packets through changes nothing, whatever it was once asked for.
        let network = Balancer { kind: "REGIONAL_NETWORK".to_owned(), ..changed };
        assert_eq!(ingress(&service(&[]), &network, None), [Ingress::ip("203.0.113.7")]);
    }
    for json in [active.replace("active", "new"), active.replace("203.0.113.7", "")] {
        assert_eq!(ingress(&service(&[]), &balancer(&json), None), []);
    }
}

#[test]
fn annotations_without_effect_are_named() {
    let service = service(&[(names::PROXY_PROTOCOL, "true"), CERT, (names::HOSTNAME, "x")]);
    let service_spec = ServiceSpec::of(&service).expect("it can be");
    let fields: Vec<String> =
        remarks(&service, &service_spec, Kind::Network).into_iter().map(|problem| problem.field).collect();
    let expected = [names::CERTIFICATE_ID, names::PROXY_PROTOCOL, names::HOSTNAME];
    assert_eq!(fields, expected.map(|name| format!("metadata.annotations[{name}]")));
    assert_eq!(remarks(&service, &service_spec, Kind::Regional), []);
}

#[test]
fn cookies_that_no_port_can_have_are_named() {
    let cookies = [(names::STICKY_TYPE, "cookies"), (names::STICKY_NAME, "c"), (names::STICKY_TTL, "300")];
    let (http, http2) = ((names::PROTOCOL, "http"), (names::PROTOCOL, "http2"));
    for (more, has_effect) in [
        (vec![], false),
        (vec![http2, PASS], false),
        (vec![(names::TLS_PORTS, "80"), PASS], false),
        (vec![http], true),
        (vec![http2, CERT], true),
        (vec![(names::TLS_PORTS, "80"), CERT], true),
        (vec![(names::HTTP_PORTS, "80")], true),
        // What is wrong otherwise is told otherwise.
        (vec![http2], true),
    ] {
        let service = service(&[&cookies[..], &more].concat());
        let service_spec = ServiceSpec::of(&service).expect("it can be");
        let told = remarks(&service, &service_spec, Kind::Regional);
        let fields: Vec<_> = told.iter().map(|problem| (problem.field.as_str(), problem.fatal)).collect();
        let expected = field(names::STICKY_TYPE);
        let expected: &[_] = if has_effect { &[] } else { &[(expected.as_str(), false)] };
        assert_eq!(fields, expected, "{more:?}");
    }
}
