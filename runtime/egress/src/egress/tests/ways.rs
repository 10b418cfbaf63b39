//! What stands in the way to an endpoint, by its kind: each has another fix.

use std::sync::Arc;

use ccm_cloud::TlsSources;

use super::*;
use crate::addresses::Lookup;
use crate::client::ClientSettings;
use crate::client::tests::{Handler, Pki, Server, hello, names};
use crate::egress::ways::{Barrier, Blocked};
use crate::endpoints::{Bindings, ConfiguredText};

/// Where it goes.
struct Going<'a> {
    url: String,
    /// Whom the client trusts.
    trusts: &'a Pki,
    proxy: Option<String>,
    loopback: bool,
    /// Where every name leads.
    lookup: Lookup,
}

impl<'a> Going<'a> {
    fn to(server: &Server, scheme: &str, host: &str, trusts: &'a Pki) -> Self {
        Self { url: server.url(scheme, host), trusts, proxy: None, loopback: true, lookup: names(&["127.0.0.1"]) }
    }

    async fn walked(self) -> Result<(), Blocked> {
        let (url, _query) = self.url.split_once('?').unwrap();
        let source = |key: &str| Source { keys: vec![key.to_owned()], environment_variables: vec![] };
        let declared = ccm_cloud::Endpoint {
            name: "api".to_owned(),
            purpose: String::new(),
            base_url: source("cloud:url"),
            default_base_url: None,
            tls: Some(TlsSources { ca_file: source("cloud:ca"), ..TlsSources::default() }),
        };
        let found = |source: &Source| {
            let is_ca = source.keys == ["cloud:ca"];
            let (value, origin) = (self.trusts.ca.display().to_string(), "key ca".to_owned());
            is_ca.then_some(ConfiguredText { value, is_secret: false, origin })
        };
        let proxy = self.proxy.as_ref().map(|proxy| ("api".to_owned(), proxy.parse().unwrap()));
        let operator = OperatorGrants {
            base_urls: [("api".to_owned(), url.to_owned())].into(),
            allow_http: true,
            addresses: AddressRules { loopback: self.loopback },
            proxies: proxy.into_iter().collect(),
            ..OperatorGrants::default()
        };
        let (settings, bindings) = (ClientSettings::default(), Bindings::default());
        let endpoints = Endpoints::resolve_with(&[declared], &operator, found, settings, bindings, &self.lookup);
        let mut rig = Rig::new(|_| panic!("it goes elsewhere"));
        rig.egress.endpoints = endpoints.unwrap();
        let ways = rig.egress.ways();
        let [way] = ways.as_slice() else { panic!("{ways:?}") };
        assert_eq!(way.proxy, self.proxy);
        rig.egress.walk(way).await
    }

    async fn barrier(self, says: &str) -> Barrier {
        let blocked = self.walked().await.unwrap_err();
        assert!(blocked.message.contains(says), "{says}: {blocked:?}");
        blocked.barrier
    }
}

async fn speaking_tls(pki: &Pki) -> Server {
    Server::start(Some(pki.acceptor(false)), Arc::new(hello)).await
}

/// The fix for a certificate of an unknown authority would be a wrong one for all others.
#[tokio::test]
async fn a_certificate_that_has_expired_or_is_anothers_is_told_from_one_that_nobody_trusts() {
    let good = Pki::new();
    let server = speaking_tls(&good).await;
    Going::to(&server, "https", "api.test", &good).walked().await.unwrap();
    let other = Going::to(&server, "https", "other.test", &good);
    assert_eq!(other.barrier("its certificate is for another name").await, Barrier::Tls);
    let stranger = Going::to(&server, "https", "api.test", &Pki::new()).barrier("unknown authority").await;
    assert_eq!(stranger, Barrier::Authority);

    let old = Pki::with(|params| params.not_after = rcgen::date_time_ymd(2020, 1, 1));
    let server = speaking_tls(&old).await;
    let expired = Going::to(&server, "https", "api.test", &old).barrier("its certificate has expired").await;
    assert_eq!(expired, Barrier::Tls);
    let plain = Server::start(None, Arc::new(hello)).await;
    let plain = Going::to(&plain, "https", "api.test", &good).barrier("it does not speak TLS").await;
    assert_eq!(plain, Barrier::Tls);
}

#[tokio::test]
async fn a_proxy_that_wants_a_login_is_no_cloud_that_answers() {
    let pki = Pki::new();
    let wants_login: Handler =
        Arc::new(|_| http::Response::builder().status(407).body(http_body_util::Full::default()).unwrap());
    let server = Server::start(None, wants_login).await;
    let proxy = format!("http://{}", server.address);
    // The request itself goes to the proxy, or one for a tunnel.
    for scheme in ["http", "https"] {
        let going = Going::to(&server, scheme, "api.test", &pki);
        let blocked = Going { proxy: Some(proxy.clone()), ..going }.walked().await.unwrap_err();
        assert_eq!(blocked.barrier, Barrier::Proxy, "{scheme}: {blocked:?}");
    }
    let cloud = Going::to(&server, "http", "api.test", &pki).walked().await;
    assert_eq!(cloud, Ok(()), "what a cloud answers is an answer");
}

#[tokio::test]
async fn an_address_that_is_never_connected_to_is_denied_and_nothing_leaves() {
    let (pki, server) = (Pki::new(), Server::start(None, Arc::new(hello)).await);
    let going = Going::to(&server, "http", "api.test", &pki);
    let metadata = Going { lookup: names(&["169.254.169.254"]), ..going };
    assert_eq!(metadata.barrier("is a link-local address").await, Barrier::Denied);
    let here = Going { loopback: false, ..Going::to(&server, "http", "api.test", &pki) };
    assert_eq!(here.barrier("--allow-loopback").await, Barrier::Denied);
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn a_name_without_an_address_and_a_place_where_nobody_listens_are_told_apart() {
    let pki = Pki::new();
    let server = Server::start(None, Arc::new(hello)).await;
    let unknown: Lookup = Arc::new(|_| Box::pin(std::future::ready(Err(std::io::Error::other("no such name")))));
    let going = Going::to(&server, "http", "api.test", &pki);
    let name = Going { lookup: unknown, ..going }.barrier("the name api.test does not resolve: no such name").await;
    assert_eq!(name, Barrier::Name);
    let going = Going::to(&server, "http", "api.test", &pki);
    drop(server);
    let silent = going.walked().await.unwrap_err();
    assert_eq!(silent.barrier, Barrier::Silence, "{silent:?}");
}
