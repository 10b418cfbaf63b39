//! What load balancers have come to. It goes into Services: what the API server would refuse there, or what nobody declared, is no
//! answer at all.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ccm_cloud::{AddressRefusal, Annotation, Ingress, IpMode, Mark, Outcome, PortStatus, Protocol, Standing};
use ccm_egress::line;

use super::syntax::{is_dns_name, is_qualified_name};
use super::{MAX_FIELD, MAX_SHOWN, Read, failure, failure_of_call, sentences};
use crate::CallError;
use crate::bindings::ccm::cloud::types;
use crate::bindings::exports::ccm::cloud::{load_balancer_survey, load_balancers};

/// Most locks of one Service, and most bytes of one.
const MAX_LOCKS: usize = 100;
const MAX_LOCK: usize = 1024;
/// Longest `error` of a port, in bytes.
const MAX_PORT_ERROR: usize = 316;
/// Most entries of `status.loadBalancer.ingress`. Kubernetes has no limit, but every kube-proxy reads each of them, and the host looks for
/// who else has it.
const MAX_INGRESS: usize = 512;
/// Most ports of one of them: a cloud that gives more than a Service has does not exist.
const MAX_INGRESS_PORTS: usize = 5_000;

/// Whether a call that did not fail must name a place where clients reach the Service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IngressRule {
    Needed,
    /// After a deletion there is none.
    Gone,
}

/// What an outcome may have in it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OutcomeRules<'a> {
    pub(crate) declared: &'a [Annotation],
    pub(crate) annotation_bytes: usize,
    pub(crate) ingress: IngressRule,
}

pub(crate) fn outcome(outcome: load_balancers::Outcome, rules: OutcomeRules<'_>) -> Read<Outcome> {
    let load_balancers::Outcome { ingress: places, annotations, changes, failure: why, more: _ } = outcome;
    if rules.ingress == IngressRule::Needed && why.is_none() && places.is_empty() {
        return Err("it gave neither an ingress nor a failure".to_owned());
    }
    if let Some(wrong) = wrong_annotation(&annotations, rules.declared, rules.annotation_bytes) {
        return Err(format!("it gave {wrong}"));
    }
    Ok(Outcome {
        ingress: ingress(places)?,
        annotations,
        changes: sentences(changes),
        failure: why.map(failure_of_call),
        selected: BTreeMap::new(),
    })
}

/// A name in the cloud.
pub(crate) fn name(name: &str) -> String {
    line(name, MAX_FIELD)
}

/// As they are: two names that are cut would be one lock.
pub(crate) fn locks(locks: Vec<String>) -> Read<Vec<String>> {
    if locks.len() > MAX_LOCKS {
        return Err(format!("it gave {} locks, the most is {MAX_LOCKS}", locks.len()));
    }
    match locks.iter().find(|lock| lock.len() > MAX_LOCK) {
        Some(long) => Err(format!("it gave a lock of {} bytes, the most is {MAX_LOCK}", long.len())),
        None => Ok(locks),
    }
}

pub(crate) fn mark(mark: load_balancers::Mark) -> Read<Mark> {
    let load_balancers::Mark { load_balancer, uid } = mark;
    let is_uid = |uid: &str| {
        let digits = uid.bytes().filter(|byte| *byte != b'-').count();
        digits >= Mark::MIN_DIGITS && uid.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit())
    };
    match uid.as_deref().filter(|uid| !is_uid(uid)) {
        Some(uid) => Err(format!("it gave the mark {:?}, which is not the beginning of a UID", line(uid, MAX_SHOWN))),
        None => Ok(Mark { load_balancer: name(&load_balancer), uid }),
    }
}

/// As many as were asked for. One that cannot be does not make the others wrong.
pub(crate) fn standings(
    standings: Vec<load_balancer_survey::Standing>,
    asked: usize,
    function: &str,
    provider: &str,
) -> Read<Vec<Standing>> {
    if standings.len() != asked {
        return Err(format!("it gave {} standings for {asked} wishes", standings.len()));
    }
    let read = |given| {
        standing(given)
            .unwrap_or_else(|wrong| Standing::Unknown(CallError::BadAnswer(wrong).into_failure(function, provider)))
    };
    Ok(standings.into_iter().map(read).collect())
}

fn standing(standing: load_balancer_survey::Standing) -> Read<Standing> {
    Ok(match standing {
        load_balancer_survey::Standing::InStep(places) if places.is_empty() => {
            return Err("it gave a load balancer in step without an ingress".to_owned());
        }
        load_balancer_survey::Standing::InStep(places) => Standing::InStep(ingress(places)?),
        load_balancer_survey::Standing::Differs(what) => Standing::Differs(sentences(what)),
        load_balancer_survey::Standing::Missing => Standing::Missing,
        load_balancer_survey::Standing::Unknown(why) => Standing::Unknown(failure(why)),
    })
}

/// Places where clients reach a Service.
pub(crate) fn ingress(ingress: Vec<types::Ingress>) -> Read<Vec<Ingress>> {
    if ingress.len() > MAX_INGRESS {
        return Err(format!("it gave {} ingress entries, the most is {MAX_INGRESS}", ingress.len()));
    }
    if let Some(ports) = ingress.iter().map(|entry| entry.ports.len()).find(|ports| *ports > MAX_INGRESS_PORTS) {
        return Err(format!("it gave an ingress with {ports} ports, the most is {MAX_INGRESS_PORTS}"));
    }
    if let Some(wrong) = ingress.iter().find_map(wrong_entry) {
        return Err(format!("it gave {wrong}"));
    }
    let status = |types::PortStatus { port, protocol, error }| PortStatus {
        port,
        protocol: match protocol {
            types::Protocol::Tcp => Protocol::Tcp,
            types::Protocol::Udp => Protocol::Udp,
            types::Protocol::Sctp => Protocol::Sctp,
        },
        error,
    };
    let place = |types::Ingress { ip, hostname, ip_mode, ports, more: _ }| Ingress {
        ip,
        hostname,
        ip_mode: ip_mode.map(|mode| match mode {
            types::IpMode::Vip => IpMode::Vip,
            types::IpMode::Proxy => IpMode::Proxy,
        }),
        ports: ports.into_iter().map(status).collect(),
    };
    Ok(ingress.into_iter().map(place).collect())
}

/// What is wrong with annotations to write.
fn wrong_annotation(annotations: &[(String, Option<String>)], declared: &[Annotation], limit: usize) -> Option<String> {
    let bytes = annotations.iter().map(|(name, value)| name.len() + value.as_ref().map_or(0, String::len));
    let bytes: usize = bytes.sum();
    if bytes > limit {
        return Some(format!("annotations of {bytes} bytes to write, {limit} are allowed (limit annotation-bytes)"));
    }
    let mut names = BTreeSet::new();
    annotations.iter().find_map(|(name, _)| {
        let wrong = if !declared.iter().any(|annotation| annotation.is_written() && annotation.covers(name)) {
            "which meta.describe does not declare as written"
        } else if !is_qualified_name(name) {
            "which is no name of an annotation"
        } else if !names.insert(name) {
            "twice"
        } else {
            return None;
        };
        Some(format!("the annotation {:?} {wrong}", line(name, MAX_SHOWN)))
    })
}

fn wrong_entry(entry: &types::Ingress) -> Option<String> {
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
        let error = status.error.as_deref().filter(|error| error.len() > MAX_PORT_ERROR || !is_qualified_name(error));
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
            let said = ingress(vec![entry.clone()]).err();
            match expected {
                None => assert_eq!(said, None, "{entry:?}"),
                Some(part) => assert!(said.as_ref().is_some_and(|said| said.contains(part)), "{entry:?}: {said:?}"),
            }
        }
    }

    #[test]
    fn so_many_entries_and_ports_are_an_ingress_and_no_more() {
        let many = |entries: usize, ports: usize| {
            let port = types::PortStatus { port: 80, protocol: types::Protocol::Tcp, error: None };
            let entry = types::Ingress { ports: vec![port; ports], ..place(Some("10.0.0.1"), None) };
            ingress(vec![entry; entries]).err()
        };
        assert_eq!([many(512, 1), many(1, 5_000)], [None, None]);
        assert_eq!(many(513, 1).as_deref(), Some("it gave 513 ingress entries, the most is 512"));
        assert_eq!(many(1, 5_001).as_deref(), Some("it gave an ingress with 5001 ports, the most is 5000"));
    }

    #[test]
    fn a_service_with_too_many_entries_makes_only_its_own_standing_unknown() {
        let in_step =
            |count: usize| load_balancer_survey::Standing::InStep(vec![place(Some("203.0.113.9"), None); count]);
        let read = standings(vec![in_step(513), in_step(512)], 2, "load-balancer-survey.survey", "p").unwrap();
        let [Standing::Unknown(failure), Standing::InStep(places)] = read.as_slice() else { panic!("{read:?}") };
        for part in ["of p: ", "it gave 513 ingress entries, the most is 512", "report this to its author"] {
            assert!(failure.message.contains(part), "{failure:?}");
        }
        assert_eq!(places.len(), 512);
    }
}
