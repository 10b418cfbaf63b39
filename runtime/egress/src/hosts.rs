//! Which hosts an endpoint may be: patterns of `--allow-host`, and hosts of base URLs that the operator configured.
//!
//! The rule is about names. Where a name leads is checked on the connection itself ([`crate::addresses`]), except through a
//! proxy: there the proxy resolves, and the name is all that is checked.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use url::{Host, Url};

/// A host in one spelling: lower case, punycode, no dot at the end, IPv4 inside IPv6 taken out.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Name {
    Domain(String),
    Ip(IpAddr),
}

impl Name {
    fn of(host: &Host<&str>) -> Self {
        match host {
            Host::Domain(name) => Self::Domain(name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()),
            Host::Ipv4(ip) => Self::Ip(IpAddr::V4(*ip)),
            Host::Ipv6(ip) => Self::Ip(ip.to_canonical()),
        }
    }

    fn is_below(&self, parent: &str) -> bool {
        match self {
            Self::Domain(name) => name
                .strip_suffix(parent)
                .and_then(|labels| labels.strip_suffix('.'))
                .is_some_and(|labels| !labels.is_empty()),
            Self::Ip(_) => false,
        }
    }
}

/// A value of `--allow-host`: `api.example.org`, `*.example.org` (everything below, not `example.org` itself), `10.0.0.1`,
/// `[fd00::1]`, each with or without `:port`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPattern {
    kind: Kind,
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Exactly(Name),
    Below(String),
}

/// Why a text is not a [`HostPattern`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HostPatternError {
    /// `*` alone.
    #[error("`*` would allow every host; name the hosts, or a domain as in `*.example.org`")]
    Everything,
    /// A star somewhere else than in front.
    #[error("{0:?}: a star stands only for whole labels in front, as in `*.example.org`")]
    Star(String),
    /// A URL instead of a host.
    #[error("{0:?} is more than a host; give `host` or `host:port`, without scheme, user and path")]
    NotAHost(String),
    /// What follows the colon.
    #[error("{0:?}: the port must be a number from 1 to 65535")]
    Port(String),
    /// No name, no address.
    #[error("{0:?} is neither a host name nor an IP address")]
    Invalid(String),
}

impl FromStr for HostPattern {
    type Err = HostPatternError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Ok(ip) = text.parse::<Ipv6Addr>() {
            return Ok(Self { kind: Kind::Exactly(Name::Ip(ip.to_canonical())), port: None });
        }
        if text.contains(['/', '@', '?', '#', '\\', '%']) || text.contains(char::is_whitespace) {
            return Err(HostPatternError::NotAHost(text.to_owned()));
        }
        let (host, port) = match text.rsplit_once(':') {
            Some(_) if text.ends_with(']') => (text, None),
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        };
        let port = port.map(|port| number(port).ok_or_else(|| HostPatternError::Port(text.to_owned()))).transpose()?;
        if host == "*" {
            return Err(HostPatternError::Everything);
        }
        let (below, host) = match host.strip_prefix("*.") {
            Some(parent) => (true, parent),
            None => (false, host),
        };
        if host.contains('*') {
            return Err(HostPatternError::Star(text.to_owned()));
        }
        let invalid = || HostPatternError::Invalid(text.to_owned());
        // The parser's words say nothing that ours do not.
        let parsed = Host::parse(host).ok().ok_or_else(invalid)?;
        let name = Name::of(&as_borrowed(&parsed));
        // The parser reads other asterisks as this one.
        if matches!(&name, Name::Domain(name) if name.contains('*')) {
            return Err(HostPatternError::Star(text.to_owned()));
        }
        if matches!(&name, Name::Domain(name) if name.split('.').any(str::is_empty)) {
            return Err(invalid());
        }
        let kind = match (below, name) {
            (false, name) => Kind::Exactly(name),
            (true, Name::Domain(parent)) => Kind::Below(parent),
            (true, Name::Ip(_)) => return Err(HostPatternError::Star(text.to_owned())),
        };
        Ok(Self { kind, port })
    }
}

fn number(port: &str) -> Option<u16> {
    // `parse` alone takes `+443`.
    if !port.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    port.parse().ok().filter(|&port| port != 0)
}

fn as_borrowed(host: &Host<String>) -> Host<&str> {
    match host {
        Host::Domain(name) => Host::Domain(name),
        Host::Ipv4(ip) => Host::Ipv4(*ip),
        Host::Ipv6(ip) => Host::Ipv6(*ip),
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Exactly(Name::Domain(name)) => f.write_str(name)?,
            Kind::Exactly(Name::Ip(IpAddr::V4(ip))) => write!(f, "{ip}")?,
            Kind::Exactly(Name::Ip(IpAddr::V6(ip))) => write!(f, "[{ip}]")?,
            Kind::Below(parent) => write!(f, "*.{parent}")?,
        }
        match self.port {
            Some(port) => write!(f, ":{port}"),
            None => Ok(()),
        }
    }
}

impl HostPattern {
    fn matches(&self, name: &Name, port: Option<u16>) -> bool {
        let host = match &self.kind {
            Kind::Exactly(exactly) => exactly == name,
            Kind::Below(parent) => name.is_below(parent),
        };
        host && (self.port.is_none() || self.port == port)
    }
}

/// All hosts that a provider may talk to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct HostRules {
    patterns: Vec<HostPattern>,
    configured: BTreeSet<Name>,
}

impl HostRules {
    /// Those of `--allow-host`.
    #[must_use]
    pub(crate) fn new(patterns: Vec<HostPattern>) -> Self {
        Self { patterns, configured: BTreeSet::new() }
    }

    /// The host of a base URL that the operator configured is allowed on every port: the services of one cloud often differ
    /// in nothing else.
    pub(crate) fn configure(&mut self, base_url: &Url) {
        self.configured.extend(base_url.host().map(|host| Name::of(&host)));
    }

    /// Whether the host of `url` is allowed on its port.
    #[must_use]
    pub(crate) fn allow(&self, url: &Url) -> bool {
        let Some(host) = url.host() else { return false };
        let name = Name::of(&host);
        let port = url.port_or_known_default();
        self.configured.contains(&name) || self.patterns.iter().any(|pattern| pattern.matches(&name, port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(patterns: &[&str]) -> HostRules {
        HostRules::new(patterns.iter().map(|pattern| pattern.parse().unwrap()).collect())
    }

    #[test]
    fn a_pattern_allows_its_hosts_and_no_others() {
        let cases: [(&str, &[&str], &[&str]); 10] = [
            (
                "api.example.org",
                &["https://api.example.org", "https://API.example.ORG.:8443/v2", "http://api.example.org"],
                &["https://example.org", "https://x.api.example.org", "https://api.example.org.evil.test"],
            ),
            ("API.Example.org.", &["https://api.example.org"], &["https://api.example.com"]),
            (
                "*.example.org",
                &["https://a.example.org", "https://a.b.example.org:1", "https://A.EXAMPLE.ORG."],
                &[
                    "https://example.org",
                    "https://evilexample.org",
                    "https://example.org.evil.test",
                    "https://.example.org",
                ],
            ),
            (
                "api.example.org:8443",
                &["https://api.example.org:8443"],
                &["https://api.example.org", "https://api.example.org:443"],
            ),
            (
                "*.example.org:443",
                &["https://a.example.org", "https://a.example.org:443"],
                &["http://a.example.org", "https://a.example.org:444"],
            ),
            (
                "10.0.0.1",
                &["https://10.0.0.1", "https://0x0a000001:8443", "https://[::ffff:10.0.0.1]"],
                &["https://10.0.0.2", "https://10.0.0.1.nip.io"],
            ),
            ("fd00::1", &["https://[fd00::1]", "https://[fd00:0::0001]:8443"], &["https://[fd00::2]"]),
            ("[fd00::1]:8443", &["https://[fd00::1]:8443"], &["https://[fd00::1]"]),
            ("*.0.0.1.example", &["https://10.0.0.1.example"], &["https://10.0.0.1"]),
            (
                "bücher.example",
                &["https://xn--bcher-kva.example", "https://BÜCHER.example"],
                &["https://bucher.example"],
            ),
        ];
        for (pattern, allowed, refused) in cases {
            let rules = rules(&[pattern]);
            for url in allowed {
                assert!(rules.allow(&Url::parse(url).unwrap()), "{pattern} refuses {url}");
            }
            for url in refused {
                assert!(!rules.allow(&Url::parse(url).unwrap()), "{pattern} allows {url}");
            }
        }
    }

    #[test]
    fn a_pattern_that_is_none_says_what_would_be_right() {
        let cases = [
            ("*", "would allow every host"),
            ("*:443", "would allow every host"),
            ("api.*.org", "whole labels in front"),
            ("*.*.org", "whole labels in front"),
            // A wide asterisk becomes this one.
            ("\u{ff0a}", "whole labels in front"),
            ("*.\u{ff0a}.org", "whole labels in front"),
            ("*example.org", "whole labels in front"),
            ("*.10.0.0.1", "whole labels in front"),
            ("https://api.example.org", "without scheme"),
            ("user@api.example.org", "without scheme"),
            ("api.example.org/v2", "without scheme"),
            ("api example.org", "without scheme"),
            ("api.example.org:", "from 1 to 65535"),
            ("api.example.org:0", "from 1 to 65535"),
            ("api.example.org:+443", "from 1 to 65535"),
            ("api.example.org:65536", "from 1 to 65535"),
            ("", "neither"),
            ("*.", "neither"),
            ("a..b", "neither"),
            (".example.org", "neither"),
            ("[fd00::1", "neither"),
            ("[fd00::g]", "neither"),
            ("1.2.3.4.5", "neither"),
        ];
        for (text, part) in cases {
            let message = text.parse::<HostPattern>().unwrap_err().to_string();
            assert!(message.contains(part), "{text:?}: {message:?} does not say {part:?}");
        }
    }

    #[test]
    fn a_pattern_is_shown_as_it_can_be_given() {
        for text in ["api.example.org", "*.example.org:8443", "10.0.0.1:80", "[fd00::1]", "[fd00::1]:443"] {
            assert_eq!(text.parse::<HostPattern>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn the_host_of_a_configured_base_url_is_allowed_on_every_port_and_its_neighbours_are_not() {
        let mut rules = rules(&[]);
        let cases =
            ["https://cloud.example.org:5000/v3", "https://cloud.example.org:8774", "https://x.cloud.example.org"];
        assert!(cases.iter().all(|url| !rules.allow(&Url::parse(url).unwrap())), "nothing is allowed by itself");
        rules.configure(&Url::parse("https://Cloud.example.org:5000/v3").unwrap());
        let allowed = cases.map(|url| rules.allow(&Url::parse(url).unwrap()));
        assert_eq!(allowed, [true, true, false]);
    }
}
