//! Rules of who is let in and who is kept out: `ip:ADDRESS` or `cidr:NETWORK`.

use std::net::IpAddr;

use ccm_sdk::annotations::{Invalid, Reader};
use ccm_sdk::cidr::Cidr;
use ccm_sdk::ordered;
use ccm_sdk::types::{Problem, Service};

/// Those of an annotation; in order, each once.
///
/// # Errors
///
/// It has something else: whoever makes something of it must not take it for an empty list, which lets everybody in.
pub(super) fn rules(service: &Service, name: &str) -> Result<Vec<String>, Problem> {
    let mut reader = Reader::of(&service.annotations);
    let rules = ordered::list(reader.list(name).map(str::to_owned));
    if rules.iter().any(|rule| plain(rule).is_none()) {
        let allowed = "\"ip:ADDRESS\" and \"cidr:NETWORK\" joined by commas, such as \"ip:1.2.3.4,cidr:10.0.0.0/8\"";
        reader.unfit::<()>(name, allowed, Invalid::Refuse);
    }
    reader.problems.pop().map_or(Ok(rules), Err)
}

/// As equal networks and addresses are written alike, whoever wrote them.
pub(crate) fn canonical(rule: &str) -> String {
    plain(rule).unwrap_or_else(|| rule.to_owned())
}

fn plain(rule: &str) -> Option<String> {
    match rule.split_once(':')? {
        ("ip", address) => address.parse::<IpAddr>().ok().map(|address| format!("ip:{address}")),
        ("cidr", network) => Cidr::masked(network).map(|network| format!("cidr:{network}")),
        _ => None,
    }
}
