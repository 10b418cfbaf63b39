//! An address as the API server and kube-proxy read it, whatever it was written like.

use std::net::IpAddr;

/// Where an address of a Node leads: the API server reaches the kubelet by any of its kinds. And what its provider ID leads to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum AddressTarget {
    /// An IP address, of whatever kind: kubelets may have one as their host name.
    Ip(IpAddr),
    /// A host name or DNS name, in lower case and without a dot at its end.
    Name(Box<str>),
    /// The machine with this provider ID.
    Machine(Box<str>),
}

impl AddressTarget {
    /// None: nothing is there.
    pub(crate) fn of(text: &str) -> Option<Self> {
        if let Some(ip) = parse_ip(text) {
            return Some(Self::Ip(ip));
        }
        let name = text.trim_end_matches('.').to_ascii_lowercase();
        (!name.is_empty()).then(|| Self::Name(name.into()))
    }

    /// Whether it is a name of this machine on every machine.
    pub(crate) fn is_localhost(&self) -> bool {
        let Self::Name(name) = self else { return false };
        let mut labels = name.split('.');
        // As systemd and glibc have it: localhost.localdomain leads there as well.
        labels.next_back() == Some("localhost")
            || matches!(&**name, "localhost.localdomain" | "localhost4" | "localhost6")
    }
}

/// An address as Kubernetes reads them: leading zeros in IPv4 octets do not count, and an IPv4 address inside an IPv6 one
/// is the IPv4 address.
pub(crate) fn parse_ip(text: &str) -> Option<IpAddr> {
    let parsed = match text.parse() {
        Ok(ip) => ip,
        Err(_) => without_leading_zeros(text)?.parse::<IpAddr>().ok()?,
    };
    Some(parsed.to_canonical())
}

fn without_leading_zeros(text: &str) -> Option<String> {
    let (head, tail) = text.rfind(':').and_then(|colon| text.split_at_checked(colon + 1)).unwrap_or(("", text));
    if !tail.contains('.') {
        return None;
    }
    let octets = tail.split('.').map(|octet| match octet.trim_start_matches('0') {
        "" if !octet.is_empty() => "0",
        rest => rest,
    });
    Some(format!("{head}{}", octets.collect::<Vec<_>>().join(".")))
}
