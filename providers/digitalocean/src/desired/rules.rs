//! From ports of a Service to ports of the nodes.

use std::collections::BTreeSet;

use ccm_sdk::annotations::field;
use ccm_sdk::types::Problem;
use ccm_sdk::words::few;

use crate::annotations as names;
use crate::api::balancers::Rule;
use crate::kind::{Kind, Protocol};
use crate::service_spec::{Port, ServiceSpec};

const HTTPS_PORT: i64 = 443;

/// # Errors
///
/// The ports and annotations do not go together.
pub(crate) fn rules(service_spec: &ServiceSpec, kind: Kind, certificate: Option<&str>) -> Result<Vec<Rule>, Problem> {
    match kind {
        Kind::Network => Ok(service_spec.ports.iter().map(passed).collect()),
        Kind::Regional => regional(service_spec, certificate),
    }
}

/// Packets come to the nodes with the load balancer's address and the Service's port.
fn passed(port: &Port) -> Rule {
    let protocol = if port.udp { "udp" } else { "tcp" };
    rule(protocol, port.port, protocol, port.port)
}

fn regional(service_spec: &ServiceSpec, certificate: Option<&str>) -> Result<Vec<Rule>, Problem> {
    shared(service_spec)?;
    let mut tls_ports = service_spec.tls_ports.clone();
    let has_tls = certificate.is_some() || service_spec.passthrough;
    if has_tls && tls_ports.is_empty() {
        // Where it is one of HTTP/2, that counts.
        tls_ports.push(HTTPS_PORT);
    }
    let mut rules = vec![];
    for port in &service_spec.ports {
        if port.udp {
            rules.push(rule("udp", port.port, "udp", node_port(port)?));
            continue;
        }
        let number = i64::from(port.port);
        let protocol = if service_spec.http2_ports.contains(&number) {
            Protocol::Http2
        } else if tls_ports.contains(&number) {
            Protocol::Https
        } else if service_spec.http_ports.contains(&number) {
            Protocol::Http
        } else {
            service_spec.protocol
        };
        let mut rule = rule(protocol.text(), port.port, protocol.text(), node_port(port)?);
        if matches!(protocol, Protocol::Https | Protocol::Http2) {
            end_tls(&mut rule, service_spec, certificate)?;
        }
        rules.push(rule);
    }
    rules.extend(http3(service_spec, certificate)?);
    Ok(rules)
}

/// Ports in a message.
const SHOWN: usize = 10;

/// A port that several annotations name, or one twice.
fn shared(service_spec: &ServiceSpec) -> Result<(), Problem> {
    let ServiceSpec { http_ports, tls_ports, http2_ports, .. } = service_spec;
    let mut seen = BTreeSet::new();
    let all = http_ports.iter().chain(tls_ports).chain(http2_ports).map(i64::to_string);
    let twice = few(all.filter(|port| !seen.insert(port.clone())), SHOWN);
    if twice.is_empty() {
        return Ok(());
    }
    let message = format!(
        "ports from annotations {}, {} and {} cannot be shared but found: {twice}",
        names::HTTP_PORTS,
        names::TLS_PORTS,
        names::HTTP2_PORTS
    );
    Err(problem(names::HTTP_PORTS, message))
}

fn end_tls(rule: &mut Rule, service_spec: &ServiceSpec, certificate: Option<&str>) -> Result<(), Problem> {
    let what = "failed to build TLS part(s) of forwarding rule";
    let three = [names::CERTIFICATE_ID, names::CERTIFICATE_NAME, names::TLS_PASSTHROUGH].join(", ");
    match (certificate, service_spec.passthrough) {
        (Some(_), true) => {
            let message =
                format!("{what}: either certificate id should be set or tls pass through enabled, not both: {three}");
            Err(problem(names::TLS_PASSTHROUGH, message))
        }
        (None, false) => {
            let message = format!(
                "{what}: must set certificate id or enable tls pass through for {} on port {}: {three}",
                rule.entry_protocol, rule.entry_port
            );
            Err(problem(names::CERTIFICATE_ID, message))
        }
        (None, true) => {
            rule.tls_passthrough = true;
            Ok(())
        }
        (Some(certificate), false) => {
            certificate.clone_into(&mut rule.certificate_id);
            "http".clone_into(&mut rule.target_protocol);
            Ok(())
        }
    }
}

/// One more rule for a port that has another one already.
fn http3(service_spec: &ServiceSpec, certificate: Option<&str>) -> Result<Option<Rule>, Problem> {
    let Some(number) = service_spec.http3_port else { return Ok(None) };
    let wrong = |message: &str| {
        let message = format!("failed to construct http3 forwarding rule: {message}: annotation {}", names::HTTP3_PORT);
        problem(names::HTTP3_PORT, message)
    };
    if service_spec.passthrough {
        return Err(wrong("TLS passthrough is not allowed to be used in conjunction with HTTP3"));
    }
    let certificate = certificate.ok_or_else(|| wrong("certificate ID is required for HTTP3"))?;
    // Without such a port there is nothing to make; people are told.
    let ports = service_spec.ports.iter().filter(|port| i64::from(port.port) == number);
    // What comes by HTTP/3 goes on by HTTP, and that is TCP.
    let Some(port) = ports.min_by_key(|port| port.udp) else { return Ok(None) };
    let mut rule = rule("http3", port.port, "http", node_port(port)?);
    certificate.clone_into(&mut rule.certificate_id);
    Ok(Some(rule))
}

fn node_port(port: &Port) -> Result<u16, Problem> {
    port.node_port.ok_or_else(|| {
        let message = format!(
            "port {} has no node port, and a REGIONAL load balancer needs it; allow them, or make it REGIONAL_NETWORK",
            port.port
        );
        Problem::fatal("spec.allocateLoadBalancerNodePorts", message)
    })
}

fn problem(name: &str, message: String) -> Problem {
    Problem::fatal(field(name), message)
}

fn rule(entry_protocol: &str, entry_port: u16, target_protocol: &str, target_port: u16) -> Rule {
    Rule {
        entry_protocol: entry_protocol.to_owned(),
        entry_port: entry_port.into(),
        target_protocol: target_protocol.to_owned(),
        target_port: target_port.into(),
        certificate_id: String::new(),
        tls_passthrough: false,
    }
}
