//! Which addresses may be connected to, whatever name led there.
//!
//! Names are resolved here and bad addresses dropped before the connection is made, so a name that changes its mind
//! (rebinding) gains nothing. An address written into a URL never asks a resolver: [`AddressRules::check_url`] sees it.

use std::error::Error;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use ccm_cloud::AddressRefusal;
use futures::future::BoxFuture;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::{Host, Url};

/// Where connections may go. Private ranges are allowed, clouds live there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AddressRules {
    /// Whether 127.0.0.0/8 and ::1 may be connected to. Default no: there are other containers of the pod, and on the host's
    /// network the kubelet.
    pub loopback: bool,
}

/// What an address is that must not be connected to, with the grant for it where there is one.
fn words(refused: AddressRefusal) -> String {
    let grant = if refused == AddressRefusal::Loopback { ", which --allow-loopback would grant" } else { "" };
    format!("{}{grant}", refused.words())
}

/// No address of a host may be connected to. Found again in the sources of a [`reqwest::Error`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{host} is {}", words(*refused))]
pub struct AddressDenied {
    /// The name, or the address as it stands in the URL.
    pub host: String,
    /// What its first address is.
    pub refused: AddressRefusal,
}

impl AddressRules {
    /// Why `ip` must not be connected to; none when it may.
    #[must_use]
    pub fn refuse(self, ip: IpAddr) -> Option<AddressRefusal> {
        if self.loopback { AddressRefusal::of_remote(ip) } else { AddressRefusal::of(ip) }
    }

    /// Checks an address that is written into a URL; a name passes, its addresses are checked when it is resolved.
    ///
    /// # Errors
    ///
    /// What the address is.
    pub fn check_url(self, url: &Url) -> Result<(), AddressDenied> {
        let ip = match url.host() {
            Some(Host::Ipv4(ip)) => IpAddr::V4(ip),
            Some(Host::Ipv6(ip)) => IpAddr::V6(ip),
            Some(Host::Domain(_)) | None => return Ok(()),
        };
        match self.refuse(ip) {
            Some(refused) => Err(AddressDenied { host: ip.to_string(), refused }),
            None => Ok(()),
        }
    }

    /// Those of `addresses` that may be connected to.
    fn keep(self, host: &str, addresses: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, Box<dyn Error + Send + Sync>> {
        let mut first = None;
        let mut kept = Vec::new();
        for address in addresses {
            match self.refuse(address.ip()) {
                Some(refused) => {
                    first.get_or_insert(refused);
                }
                None => kept.push(address),
            }
        }
        match (kept.is_empty(), first) {
            (false, _) => Ok(kept),
            (true, Some(refused)) => Err(Box::new(AddressDenied { host: host.to_owned(), refused })),
            (true, None) => Err(Box::new(io::Error::new(io::ErrorKind::NotFound, "the name has no address"))),
        }
    }
}

/// Asks for the addresses of a name.
pub(crate) type Lookup = Arc<dyn Fn(String) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> + Send + Sync>;

/// The system's resolver: `/etc/hosts`, `/etc/resolv.conf` with its search list.
#[must_use]
pub(crate) fn system_lookup() -> Lookup {
    Arc::new(|name| Box::pin(async move { Ok(tokio::net::lookup_host((name.as_str(), 0)).await?.collect()) }))
}

/// Resolves names for connections, and drops the addresses that may not be connected to.
#[derive(Clone)]
pub(crate) struct Resolver {
    rules: AddressRules,
    /// The proxy is the operator's own word; one beside us in the pod is common.
    proxy: Option<String>,
    lookup: Lookup,
}

impl Resolver {
    /// By `rules`, except for the host named `proxy`, which may also be this machine.
    #[must_use]
    pub(crate) fn new(rules: AddressRules, proxy: Option<String>, lookup: Lookup) -> Self {
        Self { rules, proxy, lookup }
    }

    /// All addresses of a name, the ones included that may not be connected to.
    ///
    /// # Errors
    ///
    /// The name server's.
    pub(crate) async fn lookup(&self, name: &str) -> io::Result<Vec<SocketAddr>> {
        (self.lookup)(name.to_owned()).await
    }
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let name = name.as_str().to_owned();
        let rules = match &self.proxy {
            Some(proxy) if proxy.eq_ignore_ascii_case(&name) => AddressRules { loopback: true },
            _ => self.rules,
        };
        let asked = (self.lookup)(name.clone());
        Box::pin(async move {
            let addresses = rules.keep(&name, asked.await?)?;
            // The port is the URL's.
            let addresses: Addrs = Box::new(addresses.into_iter().map(|address| match address {
                SocketAddr::V4(_) => SocketAddr::new(address.ip(), 0),
                SocketAddr::V6(mut v6) => {
                    v6.set_port(0);
                    SocketAddr::V6(v6)
                }
            }));
            Ok(addresses)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_lead_to_this_machine_its_link_or_a_metadata_service_are_refused() {
        let cases = [
            ("0.0.0.0", Some(AddressRefusal::Unspecified)),
            ("0.1.2.3", Some(AddressRefusal::Unspecified)),
            ("127.0.0.1", Some(AddressRefusal::Loopback)),
            ("127.255.0.9", Some(AddressRefusal::Loopback)),
            ("169.254.169.254", Some(AddressRefusal::LinkLocal)),
            ("169.254.170.2", Some(AddressRefusal::LinkLocal)),
            ("100.100.100.200", Some(AddressRefusal::Metadata)),
            ("168.63.129.16", Some(AddressRefusal::Metadata)),
            ("224.0.0.1", Some(AddressRefusal::Multicast)),
            ("239.255.255.255", Some(AddressRefusal::Multicast)),
            ("255.255.255.255", Some(AddressRefusal::Multicast)),
            ("::", Some(AddressRefusal::Unspecified)),
            ("::1", Some(AddressRefusal::Loopback)),
            ("fe80::1", Some(AddressRefusal::LinkLocal)),
            ("febf::1", Some(AddressRefusal::LinkLocal)),
            ("fe80::a9fe:a9fe", Some(AddressRefusal::LinkLocal)),
            ("ff02::1", Some(AddressRefusal::Multicast)),
            ("fd00:ec2::254", Some(AddressRefusal::Metadata)),
            ("fd20:ce::254", Some(AddressRefusal::Metadata)),
            ("fd00:42::42", Some(AddressRefusal::Metadata)),
            ("2001::1", Some(AddressRefusal::Tunnel)),
            ("::ffff:127.0.0.1", Some(AddressRefusal::Loopback)),
            ("::ffff:169.254.169.254", Some(AddressRefusal::LinkLocal)),
            ("::ffff:0:169.254.169.254", Some(AddressRefusal::LinkLocal)),
            ("::169.254.169.254", Some(AddressRefusal::LinkLocal)),
            ("::127.0.0.1", Some(AddressRefusal::Loopback)),
            ("::2", Some(AddressRefusal::Unspecified)),
            ("2002:a9fe:a9fe::1", Some(AddressRefusal::LinkLocal)),
            ("2002:7f00:1::", Some(AddressRefusal::Loopback)),
            ("64:ff9b::169.254.169.254", Some(AddressRefusal::LinkLocal)),
            ("64:ff9b::7f00:1", Some(AddressRefusal::Loopback)),
            ("64:ff9b:1::169.254.169.254", Some(AddressRefusal::LinkLocal)),
            ("64:ff9b:1:a9fe:a9:fe00::", Some(AddressRefusal::LinkLocal)),
            ("64:ff9b:1:7f:0:0100::", Some(AddressRefusal::Loopback)),
            ("64:ff9b::100.100.100.200", Some(AddressRefusal::Metadata)),
            ("10.0.0.1", None),
            ("172.16.0.1", None),
            ("192.168.0.1", None),
            ("100.64.0.1", None),
            ("192.0.2.1", None),
            ("8.8.8.8", None),
            ("fd00::1", None),
            ("2001:db8::1", None),
            ("2606:4700::1111", None),
            ("::ffff:10.0.0.1", None),
            ("64:ff9b::8.8.8.8", None),
            ("64:ff9b:1::8.8.8.8", None),
            ("2002:808:808::1", None),
        ];
        for (ip, refused) in cases {
            assert_eq!(AddressRules::default().refuse(ip.parse().unwrap()), refused, "{ip}");
        }
    }

    #[test]
    fn a_grant_of_loopback_grants_nothing_else() {
        let rules = AddressRules { loopback: true };
        let cases = [
            ("127.0.0.1", None),
            ("::1", None),
            ("::ffff:127.0.0.1", None),
            ("0.0.0.0", Some(AddressRefusal::Unspecified)),
            ("169.254.169.254", Some(AddressRefusal::LinkLocal)),
            ("fd00:ec2::254", Some(AddressRefusal::Metadata)),
        ];
        for (ip, refused) in cases {
            assert_eq!(rules.refuse(ip.parse().unwrap()), refused, "{ip}");
        }
    }

    #[test]
    fn an_address_in_a_url_is_seen_in_every_spelling() {
        let refused = [
            "http://127.0.0.1",
            "http://127.1",
            "http://0x7f000001",
            "http://2130706433",
            "http://017700000001",
            "http://127.0.0.1./",
            "http://%31%32%37.0.0.1",
            "http://１２７.0.0.1",
            "http://[::1]:8080",
            "http://[::ffff:127.0.0.1]",
            "http://[::ffff:7f00:1]",
            "http://169.254.169.254/latest/meta-data",
            "http://0xa9fea9fe",
            "http://[fe80::a9fe:a9fe]",
        ];
        for url in refused {
            assert!(AddressRules::default().check_url(&Url::parse(url).unwrap()).is_err(), "{url}");
        }
        for url in ["https://10.0.0.1", "https://localhost", "https://[fd00::1]", "https://127.0.0.1.example.org"] {
            assert_eq!(AddressRules::default().check_url(&Url::parse(url).unwrap()), Ok(()), "{url}");
        }
    }

    fn lookup(answer: &[&str]) -> Lookup {
        let addresses: Vec<SocketAddr> = answer.iter().map(|ip| SocketAddr::new(ip.parse().unwrap(), 99)).collect();
        Arc::new(move |_| Box::pin(std::future::ready(Ok(addresses.clone()))))
    }

    async fn resolve(resolver: &Resolver, name: &str) -> Result<Vec<String>, String> {
        match resolver.resolve(name.parse().unwrap()).await {
            Ok(addresses) => Ok(addresses.map(|address| address.to_string()).collect()),
            Err(error) => Err(error.to_string()),
        }
    }

    #[tokio::test]
    async fn of_a_mixed_answer_only_good_addresses_are_left() {
        type Resolved<'a> = Result<&'a [&'a str], &'a str>;
        let cases: [(&[&str], Resolved<'_>); 5] = [
            (&["169.254.169.254", "192.0.2.1", "::1", "2001:db8::1"], Ok(&["192.0.2.1:0", "[2001:db8::1]:0"])),
            (
                &["127.0.0.1", "169.254.169.254"],
                Err("api.test is a loopback address, which --allow-loopback would grant"),
            ),
            (&["169.254.169.254"], Err("api.test is a link-local address")),
            (&["::ffff:169.254.169.254"], Err("api.test is a link-local address")),
            (&[], Err("the name has no address")),
        ];
        for (answer, expected) in cases {
            let resolver = Resolver::new(AddressRules::default(), None, lookup(answer));
            let expected =
                expected.map(|all| all.iter().map(|&one| one.to_owned()).collect()).map_err(ToOwned::to_owned);
            assert_eq!(resolve(&resolver, "api.test").await, expected, "{answer:?}");
        }
    }

    #[tokio::test]
    async fn only_the_proxy_itself_may_be_this_machine() {
        let resolver = Resolver::new(AddressRules::default(), Some("proxy.test".to_owned()), lookup(&["127.0.0.1"]));
        assert_eq!(resolve(&resolver, "Proxy.test").await, Ok(vec!["127.0.0.1:0".to_owned()]));
        assert!(resolve(&resolver, "api.test").await.is_err());
        let resolver = Resolver::new(AddressRules::default(), Some("proxy.test".to_owned()), lookup(&["169.254.1.1"]));
        assert!(resolve(&resolver, "proxy.test").await.is_err(), "but never a metadata service");
    }

    #[tokio::test]
    async fn the_system_resolver_is_filtered_too() {
        let resolver = Resolver::new(AddressRules::default(), None, system_lookup());
        let error = resolve(&resolver, "localhost").await.unwrap_err();
        assert!(error.contains("loopback"), "{error}");
    }
}
