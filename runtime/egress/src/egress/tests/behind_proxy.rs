//! What stands in a way that leads through a proxy.

use super::*;
use crate::addresses::Lookup;
use crate::client::ClientSettings;
use crate::egress::ways::Barrier;
use crate::endpoints::Bindings;

/// Whether somebody answers at this URL behind a proxy that answers so; without `is_behind`, the proxy is itself the cloud.
async fn walked(url: &str, is_behind: bool, answer: fn() -> Reply) -> Result<(), Barrier> {
    let mut rig = Rig::new(move |_| answer());
    let proxy = rig.cloud.url();
    let url = if is_behind { url.to_owned() } else { proxy.clone() };
    let operator = OperatorGrants {
        base_urls: [("api".to_owned(), url)].into(),
        allow_http: true,
        addresses: AddressRules { loopback: true },
        proxies: is_behind.then(|| ("api".to_owned(), proxy.parse().unwrap())).into_iter().collect(),
        ..OperatorGrants::default()
    };
    let declared = ccm_cloud::Endpoint {
        name: "api".to_owned(),
        purpose: String::new(),
        base_url: Source { keys: vec![], environment_variables: vec![] },
        default_base_url: None,
        tls: None,
    };
    let nowhere: Lookup = Arc::new(|_| Box::pin(std::future::ready(Err(std::io::Error::other("no such name")))));
    let settings = ClientSettings { connect_timeout: 200 * MS, ..ClientSettings::default() };
    rig.egress.settings.client.connect_timeout = settings.connect_timeout;
    let bindings = Bindings::default();
    rig.egress.endpoints =
        Endpoints::resolve_with(&[declared], &operator, |_| None, settings, bindings, &nowhere).unwrap();
    let ways = rig.egress.ways();
    assert_eq!(ways[0].proxy.is_some(), is_behind);
    rig.egress.walk(&ways[0]).await.map_err(|blocked| blocked.barrier)
}

/// Both once sent the reader to the firewall before the cloud, or said that all was well.
#[tokio::test]
async fn a_proxy_that_reaches_nobody_or_lets_nothing_through_is_no_cloud_that_answers() {
    for (is_behind, wanted) in [(true, Err(Barrier::Proxy)), (false, Ok(()))] {
        let answers: [fn() -> Reply; 3] =
            [|| status("502 Bad Gateway"), || status("503 Service Unavailable"), || status("504 Gateway Timeout")];
        for answer in answers {
            assert_eq!(walked("http://cloud.test/", is_behind, answer).await, wanted);
        }
    }
    assert_eq!(walked("http://cloud.test/", true, || status("500 Internal Server Error")).await, Ok(()));
    // It swallows the request, or that for a tunnel.
    for url in ["http://cloud.test/", "https://cloud.test/"] {
        assert_eq!(walked(url, true, || Reply::Stall(vec![])).await, Err(Barrier::Proxy), "{url}");
    }
    assert_eq!(walked("", false, || Reply::Stall(vec![])).await, Err(Barrier::Silence));
}
