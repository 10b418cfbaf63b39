//! How requests would leave: the way to each endpoint, and what stands in it. For who looks for the reason why a cloud does not answer.

use std::fmt;

use http::StatusCode;
use url::{Host, Url};

use super::Egress;
use crate::endpoints::Target;
use crate::error::{TransportReason, is_of_unknown_authority, no_answer};

/// What a proxy answers that cannot reach the cloud.
const GATEWAY: [StatusCode; 3] =
    [StatusCode::BAD_GATEWAY, StatusCode::SERVICE_UNAVAILABLE, StatusCode::GATEWAY_TIMEOUT];

/// The way to an endpoint that has a base URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Way {
    /// Its name.
    pub endpoint: String,
    /// Scheme, host and port of its base URL, such as `https://api.example`.
    pub origin: String,
    /// Who said so, in words: a flag, or a key of the cloud-config.
    pub said_by: String,
    /// Scheme, host and port of the proxy that requests to it go through; none where they go without one.
    pub proxy: Option<String>,
    /// Whose certificates it trusts, in words: a file, or a key of the cloud-config. None for those of the system.
    pub authorities: Option<String>,
}

/// What stands in a way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Barrier {
    /// The name of the endpoint, or of its proxy, does not resolve.
    Name,
    /// The proxy does not answer, or lets nothing through.
    Proxy,
    /// Its certificate is of an authority that is not trusted.
    Authority,
    /// There is no other trust: the certificate has expired or is for another name, or it does not speak TLS.
    Tls,
    /// Nobody answers there.
    Silence,
    /// The rules for addresses do not let anything go there.
    Denied,
}

/// Why nobody could be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocked {
    /// What stands there.
    pub barrier: Barrier,
    /// For people: one line without secrets.
    pub message: String,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.endpoint, self.origin)
    }
}

impl Egress {
    /// The ways to all endpoints that have a base URL now, by name.
    #[must_use]
    pub fn ways(&self) -> Vec<Way> {
        let names = self.endpoints.grants().map(|(name, _)| name);
        let ways = names.filter_map(|name| Some(way(name, &self.endpoints.target(name).ok()?)));
        ways.collect()
    }

    /// Goes there: resolves the name, connects, and asks for the head of the base URL, without any credential. Whatever is answered is good.
    /// Takes up to three times as long as a connection may take.
    ///
    /// # Errors
    ///
    /// What stands in the way.
    pub async fn walk(&self, way: &Way) -> Result<(), Blocked> {
        let blocked = |barrier, message| Blocked { barrier, message };
        let target = self.endpoints.target(&way.endpoint);
        let target = target.map_err(|error| blocked(Barrier::Denied, error.message))?;
        let patience = self.settings.client.connect_timeout;
        let next = way.proxy.as_deref().unwrap_or(&way.origin);
        if let Some(Host::Domain(name)) = Url::parse(next).ok().as_ref().and_then(Url::host) {
            let found = tokio::time::timeout(patience, target.transport().lookup(name)).await;
            let found =
                found.unwrap_or_else(|_elapsed| Err(format!("no answer of the name server within {patience:?}")));
            found.map_err(|why| blocked(Barrier::Name, format!("the name {name} does not resolve: {why}")))?;
        }
        let client = target.client().map_err(|error| blocked(Barrier::Tls, error.message))?;
        // Without TLS, the proxy takes the request itself.
        let is_forwarded = way.proxy.is_some() && target.base.url.scheme() == "http";
        let asked = tokio::time::timeout(2 * patience, client.head(target.base.url.clone()).send()).await;
        match asked {
            Ok(Ok(answer)) if way.proxy.is_some() && answer.status() == StatusCode::PROXY_AUTHENTICATION_REQUIRED => {
                Err(blocked(Barrier::Proxy, "the proxy wants a login, or another one (407)".to_owned()))
            }
            // Of the proxy, in the place of the cloud's. Through a tunnel, all answers are the cloud's.
            Ok(Ok(answer)) if is_forwarded && GATEWAY.contains(&answer.status()) => Err(blocked(
                Barrier::Proxy,
                format!("the answer is {}, as of a proxy that reaches nobody", answer.status().as_u16()),
            )),
            Ok(Ok(_answer)) => Ok(()),
            Ok(Err(error)) => {
                let is_unknown = is_of_unknown_authority(&error);
                // A tunnel is part of the connection.
                let is_proxy = way.proxy.is_some() && (error.is_connect() || is_forwarded);
                let error = no_answer(error, "it cannot be reached");
                let barrier = match error.reason {
                    TransportReason::Denied => Barrier::Denied,
                    TransportReason::Tls if is_unknown => Barrier::Authority,
                    TransportReason::Tls => Barrier::Tls,
                    _ if is_proxy => Barrier::Proxy,
                    _ => Barrier::Silence,
                };
                Err(blocked(barrier, error.message))
            }
            Err(_elapsed) => {
                let barrier = if is_forwarded { Barrier::Proxy } else { Barrier::Silence };
                Err(blocked(barrier, format!("no answer within {:?}", 2 * patience)))
            }
        }
    }
}

fn way(name: &str, target: &Target<'_>) -> Way {
    let grant = target.grant();
    Way {
        endpoint: name.to_owned(),
        origin: target.base.url.origin().ascii_serialization(),
        said_by: target.base.origin.clone(),
        proxy: grant.proxy.as_ref().and_then(|proxy| proxy.before(&target.base.url)),
        authorities: grant.tls.authorities(),
    }
}
