//! What is wrong with what a guest says of load balancers. It goes into Services: what the API server would refuse there,
//! or what nobody declared, is no answer at all.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ccm_cloud::{AddressRefusal, Annotation, Mark};
use ccm_egress::line;

use crate::bindings::ccm::cloud::types;
use crate::bindings::exports::ccm::cloud::{load_balancer_survey, load_balancers};

/// Longest name that a complaint shows, in bytes.
const MAX_SHOWN: usize = 128;

/// Longest DNS name and longest prefix of an annotation's name, in bytes, as the API server takes them.
const MAX_DNS: usize = 253;
/// Longest name of an annotation behind its prefix, in bytes.
const MAX_NAME: usize = 63;
/// Longest `error` of a port, in bytes.
const MAX_PORT_ERROR: usize = 316;
/// Most entries of `status.loadBalancer.ingress`, and of the ports in one. Kubernetes has no limit; a cloud that gives more
/// than a Service has Nodes or ports does not exist.
const MAX_INGRESS: usize = 5_000;

/// Whether a call that did not fail must name a place where clients reach the Service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IngressRule {
    Needed,
    /// After a deletion there is none.
    Gone,
}

/// What is wrong with an outcome, as a sentence about the function.
pub(crate) fn complaint(
    outcome: &load_balancers::Outcome,
    declared: &[Annotation],
    annotation_bytes: usize,
    place: IngressRule,
) -> Option<String> {
    if place == IngressRule::Needed && outcome.failure.is_none() && outcome.ingress.is_empty() {
        return Some("it gave neither an ingress nor a failure".to_owned());
    }
    let wrong = written(&outcome.annotations, declared, annotation_bytes).or_else(|| ingress(&outcome.ingress))?;
    Some(format!("it gave {wrong}"))
}

/// What is wrong with annotations to write.
fn written(annotations: &[(String, Option<String>)], declared: &[Annotation], limit: usize) -> Option<String> {
    let bytes = annotations.iter().map(|(name, value)| name.len() + value.as_ref().map_or(0, String::len));
    let bytes: usize = bytes.sum();
    if bytes > limit {
        return Some(format!("annotations of {bytes} bytes to write, {limit} are allowed (limit annotation-bytes)"));
    }
    let mut names = BTreeSet::new();
    annotations.iter().find_map(|(name, _)| {
        let wrong = if !declared.iter().any(|annotation| annotation.is_written() && annotation.covers(name)) {
            "which meta.describe does not declare as written"
        } else if !is_annotation(name) {
            "which is no name of an annotation"
        } else if !names.insert(name) {
            "twice"
        } else {
            return None;
        };
        Some(format!("the annotation {:?} {wrong}", line(name, MAX_SHOWN)))
    })
}

/// What is wrong with a mark.
pub(crate) fn mark(mark: &load_balancers::Mark) -> Option<String> {
    let uid = mark.uid.as_deref()?;
    let digits = uid.bytes().filter(|byte| *byte != b'-').count();
    let is_uid = uid.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit());
    (!is_uid || digits < Mark::MIN_DIGITS)
        .then(|| format!("the mark {:?}, which is not the beginning of a UID", line(uid, MAX_SHOWN)))
}

/// What is wrong with places where clients reach a Service.
pub(crate) fn ingress(ingress: &[types::Ingress]) -> Option<String> {
    if ingress.len() > MAX_INGRESS || ingress.iter().any(|entry| entry.ports.len() > MAX_INGRESS) {
        return Some(format!("more than {MAX_INGRESS} ingress entries or ports of one"));
    }
    ingress.iter().find_map(entry)
}

fn entry(entry: &types::Ingress) -> Option<String> {
    let types::Ingress { ip, hostname, ip_mode, ports, more: _ } = entry;
    match ip.as_deref().map(|ip| (ip, ip.parse::<IpAddr>())) {
        Some((ip, Err(_))) => {
            return Some(format!("the ingress IP {:?}, which is no IP address", line(ip, MAX_SHOWN)));
        }
        Some((_, Ok(ip))) => {
            if let Some(refused) = AddressRefusal::of(ip) {
                return Some(format!("the ingress IP {ip}, which is {}", refused.words()));
            }
        }
        None => {}
    }
    if let Some(name) = hostname.as_deref().filter(|name| !is_dns_name(name) || name.parse::<IpAddr>().is_ok()) {
        return Some(format!("the ingress host name {:?}, which is no DNS name", line(name, MAX_SHOWN)));
    }
    match (ip, hostname, ip_mode) {
        (None, None, _) => return Some("an ingress with neither IP nor host name".to_owned()),
        (None, _, Some(_)) => return Some("an ingress with an IP mode and without an IP".to_owned()),
        (..) => {}
    }
    ports.iter().find_map(|status| {
        let error = status.error.as_deref().filter(|error| error.len() > MAX_PORT_ERROR || !is_annotation(error));
        match (status.port, error) {
            (0, _) => Some("an ingress with the port 0".to_owned()),
            (port, Some(error)) => Some(format!(
                "the error {:?} of the ingress port {port}, which is no CamelCase reason",
                line(error, MAX_SHOWN)
            )),
            (_, None) => None,
        }
    })
}

/// What is wrong with a standing.
pub(crate) fn standing(standing: &load_balancer_survey::Standing) -> Option<String> {
    match standing {
        load_balancer_survey::Standing::InStep(places) if places.is_empty() => {
            Some("a load balancer in step without an ingress".to_owned())
        }
        load_balancer_survey::Standing::InStep(places) => ingress(places),
        load_balancer_survey::Standing::Differs(_)
        | load_balancer_survey::Standing::Missing
        | load_balancer_survey::Standing::Unknown(_) => None,
    }
}

/// A DNS-1123 subdomain, as the API server checks it.
fn is_dns_name(name: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_label = |label: &str| {
        label.starts_with(|first: char| first.is_ascii_lowercase() || first.is_ascii_digit())
            && label.ends_with(|last: char| last.is_ascii_lowercase() || last.is_ascii_digit())
            && label.bytes().all(|byte| is_inner(byte) || byte == b'-')
    };
    name.len() <= MAX_DNS && name.split('.').all(is_label)
}

/// A qualified name: of an annotation, and of the error of a port.
fn is_annotation(name: &str) -> bool {
    let (prefix, name) = name.split_once('/').map_or((None, name), |(prefix, name)| (Some(prefix), name));
    prefix.is_none_or(is_dns_name)
        && name.len() <= MAX_NAME
        && name.starts_with(|first: char| first.is_ascii_alphanumeric())
        && name.ends_with(|last: char| last.is_ascii_alphanumeric())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(ip: Option<&str>, hostname: Option<&str>) -> types::Ingress {
        types::Ingress {
            ip: ip.map(Into::into),
            hostname: hostname.map(Into::into),
            ip_mode: None,
            ports: vec![],
            more: vec![],
        }
    }

    #[test]
    fn an_ingress_is_what_the_api_server_would_take() {
        let proxy = |entry| types::Ingress { ip_mode: Some(types::IpMode::Proxy), ..entry };
        let port = |port, error: Option<&str>| types::Ingress {
            ports: vec![types::PortStatus { port, protocol: types::Protocol::Tcp, error: error.map(Into::into) }],
            ..place(Some("10.0.0.1"), None)
        };
        let long = "a".repeat(254);
        let cases = [
            (place(Some("203.0.113.9"), None), None),
            (place(Some("2001:db8::1"), Some("web.example.com")), None),
            (place(None, Some("web")), None),
            (proxy(place(Some("10.0.0.1"), None)), None),
            (port(80, None), None),
            (port(80, Some("PortInUse")), None),
            (port(80, Some("cloud.example/PortInUse")), None),
            (place(None, None), Some("neither IP nor host name")),
            (place(Some(""), None), Some("no IP address")),
            (place(Some("203.0.113.09"), None), Some("no IP address")),
            (place(Some("203.0.113.9/24"), None), Some("no IP address")),
            (place(Some("fe80::1%eth0"), None), Some("no IP address")),
            (place(Some("169.254.169.254"), None), Some("169.254.169.254, which is a link-local address")),
            (place(Some("::ffff:169.254.169.254"), None), Some("a link-local address")),
            (place(Some("fd00:ec2::254"), None), Some("the address of a metadata service")),
            (place(Some("127.0.0.1"), Some("web.example.com")), Some("a loopback address")),
            (place(Some("0.0.0.0"), None), Some("an unspecified address")),
            (place(Some("224.0.0.1"), None), Some("a multicast or broadcast address")),
            (place(Some("fe80::1"), None), Some("a link-local address")),
            (place(None, Some("")), Some("no DNS name")),
            (place(None, Some("Web.example.com")), Some("no DNS name")),
            (place(None, Some("web.example.com.")), Some("no DNS name")),
            (place(None, Some("-web.example.com")), Some("no DNS name")),
            (place(None, Some("web\nexample")), Some(r#""web\\nexample""#)),
            (place(None, Some("203.0.113.9")), Some("no DNS name")),
            (place(None, Some(&long)), Some("no DNS name")),
            (proxy(place(None, Some("web"))), Some("an IP mode and without an IP")),
            (port(0, None), Some("port 0")),
            (port(80, Some("port in use")), Some("no CamelCase reason")),
            (port(80, Some("")), Some("no CamelCase reason")),
        ];
        for (entry, expected) in cases {
            let said = ingress(std::slice::from_ref(&entry));
            match expected {
                None => assert_eq!(said, None, "{entry:?}"),
                Some(part) => assert!(said.as_ref().is_some_and(|said| said.contains(part)), "{entry:?}: {said:?}"),
            }
        }
        assert!(ingress(&vec![place(Some("10.0.0.1"), None); 5_001]).is_some_and(|said| said.contains("5000")));
    }
}
